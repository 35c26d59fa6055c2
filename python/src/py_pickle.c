/* py_pickle.c - pickles of Table and Schema: plain tuples of numbers and bytes.
 *
 * A schema is (format, name, metadata, flags, (children)), an array (length, offset, nulls, (3 buffers), (children)).
 * A pickle has only the bytes of the rows, since it copies slices to contiguous buffers first. It does not have
 * origins. */
#include "pyhr.h"

/* A schema as (format, name, metadata, flags, (children)), an array as (length, null_count, (3 buffers),
 * (children)). */
static PyObject *pickled_schema(const struct ArrowSchema *schema)
{
    int64_t n_meta = 0;
    PyObject *children, *meta, *made;

    if (schema->metadata) { /* int32 n, then n keys and values, each with an int32 length */
        const char *p = schema->metadata;
        int32_t n, k;

        memcpy(&n, p, 4);
        p += 4;
        for (int32_t i = 0; i < 2 * n; i++) {
            memcpy(&k, p, 4);
            p += 4 + k;
        }
        n_meta = p - schema->metadata;
    }
    children = PyTuple_New((Py_ssize_t)schema->n_children);
    for (int64_t i = 0; children && i < schema->n_children; i++) {
        PyObject *child = pickled_schema(schema->children[i]);

        if (!child || PyTuple_SetItem(children, (Py_ssize_t)i, child) < 0)
            Py_CLEAR(children);
    }
    if (!children)
        return NULL;
    meta = n_meta ? PyBytes_FromStringAndSize(schema->metadata, (Py_ssize_t)n_meta) : Py_NewRef(Py_None);
    made = Py_BuildValue("yyNLN", schema->format, schema->name ? schema->name : "", meta, (long long)schema->flags,
                         children);
    return made;
}

typedef struct pickled_schema_struct {
    struct ArrowSchema *children;
    struct ArrowSchema **list;
    PyObject *held; /* the tuple that owns the bytes of the struct */
} pickled_schema_struct;

static void unpickled_release(struct ArrowSchema *schema)
{
    pickled_schema_struct *own = schema->private_data;

    for (int64_t i = 0; i < schema->n_children; i++)
        if (own->children[i].release)
            own->children[i].release(&own->children[i]);
    Py_XDECREF(own->held);
    PyMem_Free(own->children);
    PyMem_Free(own->list);
    PyMem_Free(own);
    schema->release = NULL;
}

/* The release needs the GIL: hr__schema_import calls it before it returns. */
static int unpickled_schema(PyObject *from, struct ArrowSchema *out)
{
    const char *format, *name, *meta;
    Py_ssize_t n_meta, n;
    long long flags;
    PyObject *children;
    pickled_schema_struct *own;

    if (!PyTuple_Check(from) ||
        !PyArg_ParseTuple(from, "yyz#LO!", &format, &name, &meta, &n_meta, &flags, &PyTuple_Type, &children))
        return -1;
    n = PyTuple_Size(children);
    own = PyMem_Calloc(1, sizeof *own);
    if (!own || !(own->children = PyMem_Calloc((size_t)n + 1, sizeof *own->children)) ||
        !(own->list = PyMem_Calloc((size_t)n + 1, sizeof *own->list))) {
        if (own)
            PyMem_Free(own->children);
        PyMem_Free(own);
        PyErr_NoMemory();
        return -1;
    }
    own->held = Py_NewRef(from);
    *out = (struct ArrowSchema){ format, name, meta, flags, 0, own->list, NULL, unpickled_release, own };
    for (Py_ssize_t i = 0; i < n; i++) {
        if (unpickled_schema(PyTuple_GetItem(children, i), &own->children[i]) < 0) {
            unpickled_release(out);
            return -1;
        }
        own->list[i] = &own->children[i];
        out->n_children++;
    }
    return 0;
}

static PyObject *pickled_array(const hr_array *a)
{
    PyObject *buffers = PyTuple_New(3), *children = buffers ? PyTuple_New(a->n_children) : NULL;

    for (int i = 0; children && i < 3; i++) {
        const hr_buffer *b = a->buffers[i];
        PyObject *v = b ? PyBytes_FromStringAndSize((const char *)b->data, (Py_ssize_t)b->n_bytes) : Py_NewRef(Py_None);

        if (!v || PyTuple_SetItem(buffers, i, v) < 0)
            Py_CLEAR(children);
    }
    for (int i = 0; children && i < a->n_children; i++) {
        PyObject *v = pickled_array(a->children[i]);

        if (!v || PyTuple_SetItem(children, i, v) < 0)
            Py_CLEAR(children);
    }
    if (!children) {
        Py_XDECREF(buffers);
        return NULL;
    }
    return Py_BuildValue("LLLNN", (long long)a->length, (long long)a->offset, (long long)hr__array_null_count(a),
                         buffers, children);
}

static int unpickled_array(pyhr_state *s, hr_type *type, PyObject *from, int depth, hr_array **out)
{
    long long length, offset, nulls;
    PyObject *buffers, *children;
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b[3] = { NULL, NULL, NULL };
    hr_array **list = NULL;
    Py_ssize_t n;
    hr_status st = HR_OK;

    *out = NULL;
    if (!PyTuple_Check(from) ||
        !PyArg_ParseTuple(from, "LLLO!O!", &length, &offset, &nulls, &PyTuple_Type, &buffers, &PyTuple_Type, &children))
        return -1;
    n = PyTuple_Size(children);
    if (PyTuple_Size(buffers) != 3 || n != type->n_children || depth > HR_MAX_DEPTH) {
        pyhr_raise_text(s, HR_BAD_DATA, "the pickle of a table is damaged");
        return -1;
    }
    list = PyMem_Calloc((size_t)n + 1, sizeof *list);
    if (!list) {
        PyErr_NoMemory();
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        PyObject *v = PyTuple_GetItem(buffers, i);
        char *data;
        Py_ssize_t n_bytes;

        if (v == Py_None)
            continue;
        if (PyBytes_AsStringAndSize(v, &data, &n_bytes) < 0)
            goto done;
        HR_GO(hr__buffer_copy(&(hr_mem){ 0 }, data, n_bytes, &b[i], &err));
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (unpickled_array(s, type->children[i].type, PyTuple_GetItem(children, i), depth + 1, &list[i]) < 0)
            goto done;
    st = hr__array_new(type, length, -1, b, list, (int)n, out, &err);
    b[0] = b[1] = b[2] = NULL;
    n = 0;
    HR_GO(st);
    (*out)->offset = offset;
done:
    if (st)
        pyhr_raise(s, st, &err);
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(b[i]);
    for (Py_ssize_t i = 0; i < n; i++)
        hr__array_unref(list[i]);
    PyMem_Free(list);
    return *out ? 0 : -1;
}

PyObject *pyhr_table_reduce(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    const hr_table *t = pyhr_table_of(s, op);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema;
    PyObject *head = NULL, *body = NULL, *type = (PyObject *)Py_TYPE(op), *maker = NULL, *made = NULL;
    hr_status st = hr__schema_export(t->schema, &schema, &err);

    (void)none;
    if (st)
        return pyhr_raise(s, st, &err);
    head = pickled_schema(&schema);
    schema.release(&schema);
    body = head ? PyTuple_New(t->schema->n) : NULL;
    for (int i = 0; body && i < t->schema->n; i++) {
        hr_array *flat = NULL;
        PyObject *v = NULL;

        Py_BEGIN_ALLOW_THREADS
        st = hr__array_concat(&(hr_mem){ 0 }, t->columns[i]->type, &t->columns[i], 1, &flat, &err);
        Py_END_ALLOW_THREADS
        if (st)
            pyhr_raise(s, st, &err);
        else
            v = pickled_array(flat);
        hr__array_unref(flat);
        if (!v || PyTuple_SetItem(body, i, v) < 0)
            Py_CLEAR(body);
    }
    maker = body ? PyObject_GetAttrString(type, "_unpickle") : NULL;
    if (maker)
        made = Py_BuildValue("N(OLO)", maker, head, (long long)t->n_rows, body);
    Py_XDECREF(head);
    Py_XDECREF(body);
    return made;
}

PyObject *pyhr_table_unpickle(PyObject *cls, PyObject *args)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    PyObject *head, *body;
    struct ArrowSchema in;
    hr_schema *schema = NULL;
    hr_array **columns = NULL;
    hr_table *out = NULL;
    long long rows;
    int n = 0;
    hr_status st = HR_OK;

    if (!PyArg_ParseTuple(args, "OLO!", &head, &rows, &PyTuple_Type, &body) || unpickled_schema(head, &in) < 0)
        return NULL;
    HR_GO(hr__schema_import(&in, &schema, &err));
    if (PyTuple_Size(body) != schema->n) {
        pyhr_raise_text(s, HR_BAD_DATA, "the pickle of a table is damaged");
        goto done;
    }
    columns = PyMem_Calloc((size_t)schema->n + 1, sizeof *columns);
    if (!columns) {
        PyErr_NoMemory();
        goto done;
    }
    for (; n < schema->n; n++)
        if (unpickled_array(s, schema->fields[n].type, PyTuple_GetItem(body, n), 0, &columns[n]) < 0)
            goto done;
    n = 0;
    HR_GO(hr__table_new(schema, columns, rows, NULL, &out, &err));
    HR_GO(hr__table_check(out, false, &err));
done:
    if (st) {
        pyhr_raise(s, st, &err);
        hr_table_unref(out);
        out = NULL;
    }
    for (int i = 0; i < n; i++)
        hr__array_unref(columns[i]);
    PyMem_Free(columns);
    hr__schema_unref(schema);
    return out ? pyhr_table(s, out) : NULL;
}

PyObject *pyhr_schema_reduce(PyObject *op, PyObject *none)
{
    PyObject *capsule = PyObject_CallMethod(op, "__arrow_c_schema__", NULL), *maker, *head, *made = NULL;
    struct ArrowSchema schema;

    (void)none;
    if (!capsule || pyhr_take_schema(capsule, &schema) < 0) {
        Py_XDECREF(capsule);
        return NULL;
    }
    head = pickled_schema(&schema);
    schema.release(&schema);
    Py_DECREF(capsule);
    maker = head ? PyObject_GetAttrString((PyObject *)Py_TYPE(op), "_unpickle") : NULL;
    if (maker)
        made = Py_BuildValue("N(O)", maker, head);
    Py_XDECREF(head);
    return made;
}

PyObject *pyhr_schema_unpickle(PyObject *cls, PyObject *head)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    struct ArrowSchema in;
    hr_status st;

    if (unpickled_schema(head, &in) < 0)
        return NULL;
    st = hr__schema_import(&in, &schema, &err);
    return st ? pyhr_raise(s, st, &err) : pyhr_schema(s, schema);
}
