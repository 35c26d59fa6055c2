/* py_arrow.c - imports and exports of Arrow's C structs, in PyCapsules.
 *
 * Imported arrays share the foreign memory. Their release may run Python code (pyarrow's does, for numpy memory), so it
 * must run on a Python thread: each array has a wrapper, and a thread of the engine that drops it puts it into a list
 * for Python's threads. */
#include "pyhr.h"

#include <errno.h>
#include <stdio.h>

/* --------------------------------------------------------------------------- releases that wait for a Python thread */

typedef struct left {
    struct left *next;
    pyhr_drain *drain;
    struct ArrowArray array;
} left;

struct pyhr_drain {
    hr_mutex lock;
    left *first;
    atomic_int waiting; /* number of entries, readable without the lock */
    atomic_int refs;    /* one of the module, and one of each wrapped array */
};

pyhr_drain *pyhr_drain_new(void)
{
    pyhr_drain *d = hr__zalloc(NULL, sizeof *d);

    if (!d)
        return NULL;
    hr__mutex_init(&d->lock);
    atomic_init(&d->waiting, 0);
    atomic_init(&d->refs, 1);
    return d;
}

static void drain_unref(pyhr_drain *d)
{
    if (!d || atomic_fetch_sub(&d->refs, 1) > 1)
        return;
    hr__mutex_clear(&d->lock);
    hr__free(d);
}

static void drain_empty(pyhr_drain *d)
{
    left *l;

    hr__lock(&d->lock);
    l = d->first;
    d->first = NULL;
    atomic_store(&d->waiting, 0);
    hr__unlock(&d->lock);
    while (l) {
        left *next = l->next;

        if (l->array.release)
            l->array.release(&l->array);
        drain_unref(d);
        hr__free(l);
        l = next;
    }
}

void pyhr_drain_run(pyhr_state *s)
{
    if (s->drain && atomic_load_explicit(&s->drain->waiting, memory_order_relaxed))
        drain_empty(s->drain);
}

/* ArrowArray.release of the wrapper; any thread calls it, without the GIL. */
static void guard_release(struct ArrowArray *array)
{
    left *l = array->private_data;
    pyhr_drain *d = l->drain;

    array->release = NULL;
    hr__lock(&d->lock);
    l->next = d->first;
    d->first = l;
    atomic_fetch_add(&d->waiting, 1);
    hr__unlock(&d->lock);
}

static int drain_guard(pyhr_state *s, struct ArrowArray *array)
{
    left *l = hr__alloc(NULL, sizeof *l);

    if (!l) {
        PyErr_NoMemory();
        return -1;
    }
    *l = (left){ .drain = s->drain, .array = *array };
    atomic_fetch_add(&s->drain->refs, 1);
    array->private_data = l;
    array->release = guard_release;
    return 0;
}

void pyhr_drain_free(pyhr_drain *d)
{
    drain_empty(d);
    drain_unref(d);
}

/* ------------------------------------------------------------------------------------------------- Arrow's capsules */

static void schema_capsule_free(PyObject *capsule)
{
    struct ArrowSchema *schema = PyCapsule_GetPointer(capsule, "arrow_schema");

    if (schema && schema->release)
        schema->release(schema);
    hr__free(schema);
}

static void array_capsule_free(PyObject *capsule)
{
    struct ArrowArray *array = PyCapsule_GetPointer(capsule, "arrow_array");

    if (array && array->release)
        array->release(array);
    hr__free(array);
}

static void stream_capsule_free(PyObject *capsule)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");

    if (stream && stream->release)
        stream->release(stream);
    hr__free(stream);
}

PyObject *pyhr_schema_capsule(struct ArrowSchema *takes)
{
    struct ArrowSchema *held = hr__alloc(NULL, sizeof *held);
    PyObject *capsule;

    if (!held) {
        takes->release(takes);
        return PyErr_NoMemory();
    }
    *held = *takes;
    takes->release = NULL;
    capsule = PyCapsule_New(held, "arrow_schema", schema_capsule_free);
    if (!capsule) {
        held->release(held);
        hr__free(held);
    }
    return capsule;
}

PyObject *pyhr_array_capsule(struct ArrowArray *takes)
{
    struct ArrowArray *held = hr__alloc(NULL, sizeof *held);
    PyObject *capsule;

    if (!held) {
        takes->release(takes);
        return PyErr_NoMemory();
    }
    *held = *takes;
    takes->release = NULL;
    capsule = PyCapsule_New(held, "arrow_array", array_capsule_free);
    if (!capsule) {
        held->release(held);
        hr__free(held);
    }
    return capsule;
}

PyObject *pyhr_stream_capsule(struct ArrowArrayStream *takes)
{
    struct ArrowArrayStream *held = hr__alloc(NULL, sizeof *held);
    PyObject *capsule;

    if (!held) {
        takes->release(takes);
        return PyErr_NoMemory();
    }
    *held = *takes;
    takes->release = NULL;
    capsule = PyCapsule_New(held, "arrow_array_stream", stream_capsule_free);
    if (!capsule) {
        held->release(held);
        hr__free(held);
    }
    return capsule;
}

/* The struct in a capsule; an exception if the capsule has another name or its struct was taken before. */
static void *capsule_struct(PyObject *capsule, const char *name)
{
    if (!PyCapsule_IsValid(capsule, name)) {
        PyErr_Format(PyExc_TypeError, "expected a PyCapsule \"%s\", found %R", name, (PyObject *)Py_TYPE(capsule));
        return NULL;
    }
    return PyCapsule_GetPointer(capsule, name);
}

static int taken(const char *name)
{
    PyErr_Format(PyExc_ValueError, "expected an unused PyCapsule \"%s\", found a used one", name);
    return -1;
}

int pyhr_take_schema(PyObject *capsule, struct ArrowSchema *out)
{
    struct ArrowSchema *schema = capsule_struct(capsule, "arrow_schema");

    if (!schema)
        return -1;
    if (!schema->release)
        return taken("arrow_schema");
    *out = *schema;
    schema->release = NULL;
    return 0;
}

static int take_array(PyObject *capsule, struct ArrowArray *out)
{
    struct ArrowArray *array = capsule_struct(capsule, "arrow_array");

    if (!array)
        return -1;
    if (!array->release)
        return taken("arrow_array");
    *out = *array;
    array->release = NULL;
    return 0;
}

static int take_stream(PyObject *capsule, struct ArrowArrayStream *out)
{
    struct ArrowArrayStream *stream = capsule_struct(capsule, "arrow_array_stream");

    if (!stream)
        return -1;
    if (!stream->release)
        return taken("arrow_array_stream");
    *out = *stream;
    stream->release = NULL;
    return 0;
}

/* ------------------------------------------------------------------------------------- tables as a stream, and back */

/* An Arrow stream over finished tables. */
typedef struct table_stream {
    hr_schema *schema;
    int64_t n, at;
    char error[1000];
    hr_table *tables[];
} table_stream;

static int stream_failed(table_stream *ts, hr_status st, hr_error *err)
{
    snprintf(ts->error, sizeof ts->error, "%s", err->text);
    hr_error_clear(err);
    return st == HR_NO_MEMORY ? ENOMEM : EINVAL;
}

static int stream_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    table_stream *ts = stream->private_data;
    hr_error err = HR_ERROR_INIT;
    hr_status st = hr__schema_export(ts->schema, out, &err);

    return st ? stream_failed(ts, st, &err) : 0;
}

static int stream_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    table_stream *ts = stream->private_data;
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    *out = (struct ArrowArray){ 0 };
    if (ts->at == ts->n)
        return 0;
    st = hr_table_export(ts->tables[ts->at], NULL, out, &err);
    if (st)
        return stream_failed(ts, st, &err);
    hr_table_unref(ts->tables[ts->at]);
    ts->tables[ts->at++] = NULL;
    return 0;
}

static const char *stream_error(struct ArrowArrayStream *stream)
{
    return ((table_stream *)stream->private_data)->error;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    table_stream *ts = stream->private_data;

    for (int64_t i = ts->at; i < ts->n; i++)
        hr_table_unref(ts->tables[i]);
    hr__schema_unref(ts->schema);
    hr__free(ts);
    stream->release = NULL;
}

/* An Arrow stream of `tables` (a sequence of Table), which all have this schema. */
PyObject *pyhr_tables_stream(pyhr_state *s, hr_schema *schema, PyObject *tables)
{
    struct ArrowArrayStream stream = { stream_schema, stream_next, stream_error, stream_release, NULL };
    PyObject *tuple = PySequence_Tuple(tables);
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    table_stream *ts = tuple ? hr__zalloc(NULL, sizeof *ts + (size_t)n * sizeof(hr_table *)) : NULL;

    if (!ts) {
        Py_XDECREF(tuple);
        return tuple ? PyErr_NoMemory() : NULL;
    }
    stream.private_data = ts;
    ts->schema = hr__schema_ref(schema);
    for (Py_ssize_t i = 0; i < n; i++) {
        hr_table *t = pyhr_table_of(s, PyTuple_GetItem(tuple, i));

        if (t && !hr__schema_equal(t->schema, schema)) {
            char text[300];

            hr__schema_difference(t->schema, schema, text, sizeof text);
            t = pyhr_raise_text(s, HR_TYPE, "table %lld: %s", (long long)i, text);
        }
        if (!t) {
            stream_release(&stream);
            Py_DECREF(tuple);
            return NULL;
        }
        ts->tables[ts->n++] = hr_table_ref(t);
    }
    Py_DECREF(tuple);
    return pyhr_stream_capsule(&stream);
}

/* A record batch (or another struct array) as a table; takes both structs. */
static PyObject *table_from_structs(pyhr_state *s, struct ArrowSchema *schema, struct ArrowArray *array)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_status st;

    if (drain_guard(s, array) < 0) {
        schema->release(schema);
        array->release(array);
        return NULL;
    }
    st = hr_table_import(schema, array, &t, &err);
    return st ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
}

static PyObject *tables_of_stream(pyhr_state *s, struct ArrowArrayStream *stream)
{
    PyObject *list = PyList_New(0);

    while (list) {
        struct ArrowSchema schema = { 0 };
        struct ArrowArray array = { 0 };
        PyObject *t;
        int rc;

        Py_BEGIN_ALLOW_THREADS
        rc = stream->get_next(stream, &array);
        if (!rc && array.release)
            rc = stream->get_schema(stream, &schema);
        Py_END_ALLOW_THREADS
        if (rc) {
            const char *what = stream->get_last_error ? stream->get_last_error(stream) : NULL;

            if (array.release)
                array.release(&array);
            if (!PyErr_Occurred())
                pyhr_raise_text(s, HR_BAD_DATA, "Arrow stream: %s", what ? what : "failed");
            Py_CLEAR(list);
        } else if (!array.release) {
            break;
        } else {
            t = table_from_structs(s, &schema, &array);
            if (!t || PyList_Append(list, t) < 0)
                Py_CLEAR(list);
            Py_XDECREF(t);
        }
    }
    if (list && PyList_Size(list) == 0) { /* no batches: an empty table carries the schema */
        struct ArrowSchema in = { 0 };
        hr_error err = HR_ERROR_INIT;
        hr_schema *schema = NULL;
        hr_table *t = NULL;
        PyObject *empty = NULL;
        hr_status st = stream->get_schema(stream, &in) ? hr_error_set(&err, HR_BAD_DATA, "Arrow stream: no schema")
                                                       : hr__schema_import(&in, &schema, &err);

        if (!st)
            st = hr__table_empty(schema, &t, &err);
        empty = st ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
        hr__schema_unref(schema);
        if (!empty || PyList_Append(list, empty) < 0)
            Py_CLEAR(list);
        Py_XDECREF(empty);
    }
    stream->release(stream);
    return list;
}

int pyhr_check_arrow_names(pyhr_state *s, PyObject *from)
{
    PyObject *fn = pyhr_convert(s, "check_arrow_names"), *none = fn ? PyObject_CallFunction(fn, "O", from) : NULL;

    Py_XDECREF(fn);
    Py_XDECREF(none);
    return none ? 0 : -1;
}

PyObject *pyhr_tables_from_arrow(pyhr_state *s, PyObject *from)
{
    PyObject *made = NULL, *got;

    pyhr_drain_run(s);
    if (Py_IS_TYPE(from, s->table)) {
        made = PyList_New(0);
        if (made && PyList_Append(made, from) < 0)
            Py_CLEAR(made);
        return made;
    }
    if (pyhr_check_arrow_names(s, from) < 0)
        return NULL;
    if (PyObject_HasAttrString(from, "__arrow_c_stream__")) {
        struct ArrowArrayStream stream;

        got = PyObject_CallMethod(from, "__arrow_c_stream__", NULL);
        if (got && take_stream(got, &stream) == 0)
            made = tables_of_stream(s, &stream);
        Py_XDECREF(got);
        return made;
    }
    if (PyObject_HasAttrString(from, "__arrow_c_array__")) {
        struct ArrowSchema schema;
        struct ArrowArray array;
        PyObject *t = NULL;

        got = PyObject_CallMethod(from, "__arrow_c_array__", NULL);
        if (got && PyTuple_Check(got) && PyTuple_Size(got) == 2 &&
            pyhr_take_schema(PyTuple_GetItem(got, 0), &schema) == 0) {
            if (take_array(PyTuple_GetItem(got, 1), &array) == 0)
                t = table_from_structs(s, &schema, &array);
            else
                schema.release(&schema);
        }
        Py_XDECREF(got);
        made = t ? PyList_New(0) : NULL;
        if (made && PyList_Append(made, t) < 0)
            Py_CLEAR(made);
        Py_XDECREF(t);
        return made;
    }
    PyErr_Format(PyExc_TypeError, "expected __arrow_c_stream__ or __arrow_c_array__, which %R does not have",
                 (PyObject *)Py_TYPE(from));
    return NULL;
}

/* --------------------------------------------------------------------------------------------- one column, not rows */

/* An array of one column, not a record batch; takes `array`, borrows `schema`. */
static hr_array *array_of_structs(pyhr_state *s, struct ArrowSchema *schema, struct ArrowArray *array)
{
    hr_error err = HR_ERROR_INIT;
    hr_array *a = NULL;
    hr_status st;

    if (drain_guard(s, array) < 0) {
        array->release(array);
        return NULL;
    }
    st = hr__array_import(array, schema, &a, &err);
    if (!st && (st = hr__array_check_values(a, true, &err)))
        hr__array_unref(a);
    return st ? pyhr_raise(s, st, &err) : a;
}

static hr_array *array_of_stream(pyhr_state *s, struct ArrowArrayStream *stream)
{
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema = { 0 };
    hr_array **parts = NULL, *made = NULL;
    int64_t n = 0, cap = 0;
    hr_status st = HR_OK;

    if (stream->get_schema(stream, &schema)) {
        pyhr_raise_text(s, HR_BAD_DATA, "Arrow stream: no schema");
        goto done;
    }
    for (;;) {
        struct ArrowArray array = { 0 };
        int rc;

        Py_BEGIN_ALLOW_THREADS /* the producer may run a query */
        rc = stream->get_next(stream, &array);
        Py_END_ALLOW_THREADS
        if (rc) {
            const char *what = stream->get_last_error ? stream->get_last_error(stream) : NULL;

            pyhr_raise_text(s, HR_BAD_DATA, "Arrow stream: %s", what ? what : "failed");
            goto done;
        }
        if (!array.release)
            break;
        if (!hr__grow(NULL, (void **)&parts, &cap, n + 1, sizeof *parts)) {
            array.release(&array);
            PyErr_NoMemory();
            goto done;
        }
        if (!(parts[n] = array_of_structs(s, &schema, &array)))
            goto done;
        n++;
    }
    if (n == 1) {
        made = hr__array_ref(parts[0]);
    } else if (n > 1) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__array_concat(&(hr_mem){ 0 }, parts[0]->type, parts, (int)n, &made, &err);
        Py_END_ALLOW_THREADS
    } else { /* no chunks: no rows of any type */
        st = hr__array_nulls(&(hr_mem){ 0 }, hr__type_simple(HR_T_NULL), 0, &made, &err);
    }
    if (st)
        pyhr_raise(s, st, &err);
done:
    for (int64_t i = 0; i < n; i++)
        hr__array_unref(parts[i]);
    hr__free(parts);
    if (schema.release)
        schema.release(&schema);
    stream->release(stream);
    return made;
}

hr_array *pyhr_array_from_arrow(pyhr_state *s, PyObject *from)
{
    hr_array *made = NULL;
    PyObject *got;

    if (pyhr_check_arrow_names(s, from) < 0)
        return NULL;
    if (PyObject_HasAttrString(from, "__arrow_c_array__")) {
        struct ArrowSchema schema;
        struct ArrowArray array;

        got = PyObject_CallMethod(from, "__arrow_c_array__", NULL);
        if (got && PyTuple_Check(got) && PyTuple_Size(got) == 2 &&
            pyhr_take_schema(PyTuple_GetItem(got, 0), &schema) == 0) {
            if (take_array(PyTuple_GetItem(got, 1), &array) == 0)
                made = array_of_structs(s, &schema, &array);
            schema.release(&schema);
        }
    } else {
        struct ArrowArrayStream stream;

        got = PyObject_CallMethod(from, "__arrow_c_stream__", NULL);
        if (got && take_stream(got, &stream) == 0)
            made = array_of_stream(s, &stream);
    }
    Py_XDECREF(got);
    return made;
}
