/* py_plan.c - Plan: an immutable tree of sources and operators.
 *
 * Every constructor checks its arguments against the input's schema, so that an error appears at the line that causes
 * it. Constructors list files and read footers without the GIL. */
#include "pyhr.h"
#include "op/call.h"
#include "plan/plan.h"

typedef struct plan_object {
    PyObject ob_base;
    hr_plan *plan;
} plan_object;

/* Takes `plan`, even on failure. */
PyObject *pyhr_plan(pyhr_state *s, hr_plan *plan)
{
    plan_object *self = PyObject_New(plan_object, s->plan);

    if (!self) {
        hr_plan_unref(plan);
        return NULL;
    }
    self->plan = plan;
    return (PyObject *)self;
}

static PyObject *plan_made(pyhr_state *s, hr_status st, hr_plan *plan, hr_error *err)
{
    return st ? pyhr_raise(s, st, err) : pyhr_plan(s, plan);
}

hr_plan *pyhr_plan_of(pyhr_state *s, PyObject *op)
{
    if (Py_IS_TYPE(op, s->plan))
        return ((plan_object *)op)->plan;
    PyErr_Format(PyExc_TypeError, "expected a Plan, found %R", (PyObject *)Py_TYPE(op));
    return NULL;
}

static void plan_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    hr_plan *plan = ((plan_object *)op)->plan;

    Py_BEGIN_ALLOW_THREADS /* the last reference closes files */
    hr_plan_unref(plan);
    Py_END_ALLOW_THREADS
    PyObject_Free(op);
    Py_DECREF(type);
}

/* ----------------------------------------------------------------------------------------------------------- leaves */

/* An argument that is a list of texts, and the object that keeps the texts alive. */
typedef struct texts {
    const char **v;
    int n;
    PyObject *keep;
} texts;

static void texts_clear(texts *t)
{
    PyMem_Free(t->v);
    Py_XDECREF(t->keep);
}

static int texts_get(texts *t, PyObject *list, const char *what)
{
    return list == Py_None ? 0 : pyhr_texts(list, what, &t->v, &t->n, &t->keep);
}

/* A list of texts and None. */
static int maybe_texts(PyObject *list, const char ***out, PyObject **keep)
{
    Py_ssize_t n;

    *keep = list == Py_None ? NULL : PySequence_Tuple(list);
    if (!*keep)
        return list == Py_None ? 0 : -1;
    n = PyTuple_Size(*keep);
    *out = PyMem_Calloc((size_t)n + 1, sizeof **out);
    if (!*out) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PyTuple_GetItem(*keep, i);

        if (item != Py_None && !((*out)[i] = pyhr_text(item)))
            return -1;
    }
    return (int)n;
}

/* The struct from an object with __arrow_c_schema__. Returns 1; 0 for None; -1 with an exception. */
static int take_schema(pyhr_state *s, PyObject *from, struct ArrowSchema *out)
{
    PyObject *capsule;
    int rc;

    if (from == Py_None)
        return 0;
    if (pyhr_check_arrow_names(s, from) < 0)
        return -1;
    capsule = PyObject_CallMethod(from, "__arrow_c_schema__", NULL);
    if (!capsule)
        return -1;
    rc = pyhr_take_schema(capsule, out);
    Py_DECREF(capsule);
    return rc < 0 ? -1 : 1;
}

/* shuffle: None, or (seed or None, whether each epoch has its own order). */
static int get_shuffle(PyObject *shuffle, hr_read_options *o, uint64_t *seed)
{
    PyObject *given;
    int again;

    if (shuffle == Py_None)
        return 0;
    if (!PyArg_ParseTuple(shuffle, "Op", &given, &again))
        return -1;
    o->shuffle_files = true;
    o->shuffle_once = !again;
    if (given == Py_None)
        return 0;
    *seed = PyLong_AsUnsignedLongLongMask(given);
    o->shuffle_seed = seed;
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *plan_read(PyObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "urls",    "format",       "columns",        "ignore_missing_paths", "suffixes",        "include_paths",
        "options", "partitioning", "partition_base", "partition_names",      "partition_types", "partition_others",
        "schema",  "unify",        "shuffle",        "storage_options",      "first_page",      "begun",
        NULL
    };
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *storage = Py_None;
    PyObject *urls, *columns = Py_None, *suffixes = Py_None, *options = Py_None, *made = NULL, *keep = NULL;
    PyObject *keys = Py_None, *types = Py_None, *schema = Py_None, *shuffle = Py_None, *begun = NULL;
    texts url = { 0 }, column = { 0 }, suffix = { 0 }, option = { 0 }, key = { 0 }, store = { 0 };
    const char *format = NULL, *include_paths = NULL, *partitioning = NULL, *base = NULL, **type = NULL;
    hr_read_options o = { .struct_bytes = sizeof o, .partition_text = true };
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema given = { 0 };
    hr_plan *plan = NULL;
    int ignore = 0, unify = 0, others = 0, first_page = 0, n_types, rc;
    uint64_t seed = 0;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oz|OpOO&OzO&OOpOpOOpO!", names, &urls, &format, &columns, &ignore,
                                     &suffixes, pyhr_text_or_none, &include_paths, &options, &partitioning,
                                     pyhr_text_or_none, &base, &keys, &types, &others, &schema, &unify, &shuffle,
                                     &storage, &first_page, s->plan, &begun))
        return NULL;
    n_types = maybe_texts(types, &type, &keep);
    if (n_types < 0 || texts_get(&url, urls, "paths") < 0 || texts_get(&column, columns, "columns") < 0 ||
        texts_get(&suffix, suffixes, "file_extensions") < 0 || texts_get(&option, options, "options") < 0 ||
        texts_get(&store, storage, "storage_options") < 0 || (key.n = maybe_texts(keys, &key.v, &key.keep)) < 0 ||
        get_shuffle(shuffle, &o, &seed) < 0)
        goto done;
    if (type && n_types != key.n) {
        pyhr_raise_text(s, HR_INVALID, "expected %d partition types, found %d", key.n, n_types);
        goto done;
    }
    rc = take_schema(s, schema, &given);
    if (rc < 0)
        goto done;
    o.columns = column.v;
    o.n_columns = column.n;
    o.ignore_missing_paths = ignore;
    o.suffixes = suffix.v;
    o.n_suffixes = suffix.n;
    o.include_paths = include_paths;
    o.format_options = option.v;
    o.n_format_options = option.n;
    o.partitioning = partitioning;
    o.partition_base = base;
    o.partition_names = key.v;
    o.partition_types = type;
    o.n_partition_names = key.n;
    o.partition_others = others;
    o.schema = rc ? &given : NULL;
    o.unify = unify;
    o.storage_options = store.v;
    o.n_storage_options = store.n;
    o.first_page = first_page;
    o.begun = begun ? ((plan_object *)begun)->plan : NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_read(url.v, url.n, format, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&url);
    texts_clear(&column);
    texts_clear(&suffix);
    texts_clear(&option);
    texts_clear(&key);
    texts_clear(&store);
    PyMem_Free(type);
    Py_XDECREF(keep);
    return made;
}

static PyObject *plan_tables(PyObject *cls, PyObject *list)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *tuple = PySequence_Tuple(list), *made = NULL;
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    hr_table **tables = tuple ? PyMem_Calloc((size_t)n + 1, sizeof *tables) : NULL;
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    hr_status st;

    if (!tables) {
        if (tuple)
            PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(tables[i] = pyhr_table_of(s, PyTuple_GetItem(tuple, i))))
            goto done;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_tables(tables, (int)n, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    PyMem_Free(tables);
    Py_XDECREF(tuple);
    return made;
}

static PyObject *plan_range(PyObject *cls, PyObject *args)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    const char *name;
    long long n, n_blocks = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LO&|L", &n, pyhr_text_arg, &name, &n_blocks))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__plan_range(n, n_blocks, name, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(s, st, plan, &err);
}

typedef hr_status join_fn(hr_plan **plans, int n, void *context, hr_plan **out, hr_error *err);

/* One plan from several. */
static PyObject *plan_of_plans(PyObject *cls, PyObject *list, join_fn *join, void *context)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    PyObject *tuple = PySequence_Tuple(list), *made = NULL;
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;
    hr_plan **plans = tuple ? PyMem_Calloc((size_t)n + 1, sizeof *plans) : NULL;
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    hr_status st;

    if (!plans) {
        if (tuple)
            PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++)
        if (!(plans[i] = pyhr_plan_of(s, PyTuple_GetItem(tuple, i))))
            goto done;
    Py_BEGIN_ALLOW_THREADS
    st = join(plans, (int)n, context, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    PyMem_Free(plans);
    Py_XDECREF(tuple);
    return made;
}

/* -------------------------------------------------------------------------------------------------------- operators */

static hr_status join_union(hr_plan **plans, int n, void *context, hr_plan **out, hr_error *err)
{
    (void)context;
    return hr_plan_union(plans, n, out, err);
}

static PyObject *plan_union(PyObject *cls, PyObject *list) { return plan_of_plans(cls, list, join_union, NULL); }

static hr_status join_zip(hr_plan **plans, int n, void *context, hr_plan **out, hr_error *err)
{
    (void)context;
    return hr_plan_zip(plans, n, out, err);
}

static PyObject *plan_zip(PyObject *cls, PyObject *list) { return plan_of_plans(cls, list, join_zip, NULL); }

typedef struct mixing {
    double *weights;
    int64_t *n_rows; /* NULL: they do not matter */
    Py_ssize_t n;
    bool drop;
} mixing;

static hr_status join_mix(hr_plan **plans, int n, void *context, hr_plan **out, hr_error *err)
{
    const mixing *m = context;

    if (m->n != n)
        return hr_error_set(err, HR_INVALID, "mix: expected %d weights, found %d", n, (int)m->n);
    if (m->n_rows)
        return hr_plan_mix_repeat(plans, n, m->weights, m->n_rows, out, err);
    return hr_plan_mix(plans, n, m->weights, m->drop ? HR_MIX_LONGEST_DROP : HR_MIX_SHORTEST, out, err);
}

/* The numbers of a tuple, in new memory: doubles or int64_t. NULL with an exception. */
static void *numbers_from(PyObject *tuple, Py_ssize_t n, bool whole)
{
    void *out;

    if (PyTuple_Size(tuple) != n) {
        PyErr_Format(PyExc_ValueError, "mix: expected %zd numbers, found %zd", n, PyTuple_Size(tuple));
        return NULL;
    }
    if (!(out = PyMem_Calloc((size_t)n + 1, sizeof(double))))
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < n; i++)
        if (whole)
            ((int64_t *)out)[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        else
            ((double *)out)[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
    if (!PyErr_Occurred())
        return out;
    PyMem_Free(out);
    return NULL;
}

static PyObject *plan_mix(PyObject *cls, PyObject *args)
{
    PyObject *list, *weights, *n_rows = Py_None, *tuple = NULL, *rows = NULL, *made = NULL;
    mixing m = { 0 };
    int drop = 0;

    if (!PyArg_ParseTuple(args, "OOp|O", &list, &weights, &drop, &n_rows) || !(tuple = PySequence_Tuple(weights)))
        return NULL;
    m.n = PyTuple_Size(tuple);
    m.drop = drop;
    m.weights = numbers_from(tuple, m.n, false);
    if (m.weights && n_rows != Py_None && (rows = PySequence_Tuple(n_rows)))
        m.n_rows = numbers_from(rows, m.n, true);
    if (!PyErr_Occurred())
        made = plan_of_plans(cls, list, join_mix, &m);
    PyMem_Free(m.weights);
    PyMem_Free(m.n_rows);
    Py_DECREF(tuple);
    Py_XDECREF(rows);
    return made;
}

static PyObject *plan_project(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "names", "new_names", NULL };
    pyhr_state *s = pyhr_state_of(op);
    PyObject *list, *new_list = Py_None, *made = NULL;
    texts old = { 0 }, fresh = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &list, &new_list))
        return NULL;
    if (texts_get(&old, list, "names") < 0 || texts_get(&fresh, new_list, "new_names") < 0)
        goto done;
    if (fresh.v && fresh.n != old.n) {
        pyhr_raise_text(s, HR_INVALID, "expected %d new names, found %d", old.n, fresh.n);
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_project(in, old.v, fresh.v, old.n, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&old);
    texts_clear(&fresh);
    return made;
}

static PyObject *plan_filter(PyObject *op, PyObject *arg)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_expr *e = pyhr_expr_of(s, arg);
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_status st;

    if (!e)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_filter_expr(in, e, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(s, st, plan, &err);
}

/* An aggregate from (function, column or None, name or None, settings). The tuple keeps the texts alive, `settings`
 * those of the settings. */
static int aggregate_of(PyObject *tuple, hr_aggregate *out, texts *settings)
{
    PyObject *list = NULL;

    if (!PyArg_ParseTuple(tuple, "sO&O&O", &out->function, pyhr_text_or_none, &out->column, pyhr_text_or_none,
                          &out->name, &list) ||
        texts_get(settings, list, "settings") < 0)
        return -1;
    out->struct_bytes = sizeof *out;
    out->settings = settings->v;
    out->n_settings = settings->n;
    return 0;
}

static PyObject *plan_group(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    PyObject *keys, *list, *tuple = NULL, *made = NULL;
    texts key = { 0 }, *settings = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_aggregate *aggs = NULL;
    Py_ssize_t n = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "OO", &keys, &list) || !(tuple = PySequence_Tuple(list)))
        return NULL;
    n = PyTuple_Size(tuple);
    aggs = PyMem_Calloc((size_t)n + 1, sizeof *aggs);
    settings = PyMem_Calloc((size_t)n + 1, sizeof *settings);
    if (!aggs || !settings) {
        PyErr_NoMemory();
        goto done;
    }
    if (texts_get(&key, keys, "keys") < 0)
        goto done;
    for (Py_ssize_t i = 0; i < n; i++)
        if (aggregate_of(PyTuple_GetItem(tuple, i), &aggs[i], &settings[i]) < 0)
            goto done;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_group(in, key.v, key.n, aggs, (int)n, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    for (Py_ssize_t i = 0; settings && i < n; i++)
        texts_clear(&settings[i]);
    PyMem_Free(settings);
    PyMem_Free(aggs);
    texts_clear(&key);
    Py_DECREF(tuple);
    return made;
}

static PyObject *plan_join(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    PyObject *right, *left_keys, *right_keys, *made = NULL;
    hr_join_options o = { .struct_bytes = sizeof o };
    texts left_key = { 0 }, right_key = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *other, *plan = NULL;
    int kind;
    hr_status st;

    if (!PyArg_ParseTuple(args, "OiOOO&O&", &right, &kind, &left_keys, &right_keys, pyhr_text_or_none, &o.left_suffix,
                          pyhr_text_or_none, &o.right_suffix) ||
        !(other = pyhr_plan_of(s, right)))
        return NULL;
    if (texts_get(&left_key, left_keys, "on") < 0 || texts_get(&right_key, right_keys, "right_on") < 0)
        goto done;
    if (left_key.n != right_key.n) {
        pyhr_raise_text(s, HR_INVALID, "join: expected equally many keys on both sides, found %d and %d", left_key.n,
                        right_key.n);
        goto done;
    }
    o.kind = (hr_join_kind)kind;
    o.left_keys = left_key.v;
    o.right_keys = right_key.v;
    o.n_keys = left_key.n;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_join(in, other, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&left_key);
    texts_clear(&right_key);
    return made;
}

static PyObject *plan_with_columns(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    PyObject *names, *list, *keep = NULL, *made = NULL;
    texts name = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_expr **exprs = NULL;
    int n = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "OO", &names, &list))
        return NULL;
    if (texts_get(&name, names, "names") < 0 || pyhr_exprs(s, list, &exprs, &n, &keep) < 0)
        goto done;
    if (name.n != n) {
        pyhr_raise_text(s, HR_INVALID, "expected %d names, found %d", n, name.n);
        goto done;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_with_columns(in, name.v, exprs, n, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&name);
    PyMem_Free(exprs);
    Py_XDECREF(keep);
    return made;
}

static PyObject *plan_number_rows(PyObject *op, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    const char *name = pyhr_text(arg);
    hr_status st;

    if (!name)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_number_rows(((plan_object *)op)->plan, name, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_distinct(PyObject *op, PyObject *args)
{
    PyObject *columns, *keys, *made = NULL;
    texts column = { 0 }, key = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    hr_status st;
    int keep;

    if (!PyArg_ParseTuple(args, "OOi", &columns, &keys, &keep))
        return NULL;
    if (texts_get(&column, columns, "columns") < 0 || texts_get(&key, keys, "keys") < 0)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    st = hr__plan_distinct(((plan_object *)op)->plan, column.v, column.n, key.v, key.n, (hr_keep)keep, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(pyhr_state_of(op), st, plan, &err);
done:
    texts_clear(&column);
    texts_clear(&key);
    return made;
}

static PyObject *plan_explode(PyObject *op, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    const char *column = pyhr_text(arg);
    hr_status st;

    if (!column)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_explode(((plan_object *)op)->plan, column, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_sample_rows(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    long long n, seed;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LL", &n, &seed))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_sample_rows(((plan_object *)op)->plan, n, (uint64_t)seed, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_limit(PyObject *op, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    int64_t n = PyLong_AsLongLong(arg);
    hr_status st;

    if (n == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_limit(((plan_object *)op)->plan, n, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_slice(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    long long begin, end;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LL", &begin, &end))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_slice(((plan_object *)op)->plan, begin, end, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_sample(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "begin", "end", "seed", "once", "column", NULL };
    hr_sample_options o = { .struct_bytes = sizeof o };
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    PyObject *seed = NULL;
    uint64_t number = 0;
    int once = 0;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "dd|OpO&", names, &o.from, &o.to, &seed, &once, pyhr_text_or_none,
                                     &o.column) ||
        pyhr_seed(seed, &number) < 0)
        return NULL;
    o.seed = seed && seed != Py_None ? &number : NULL;
    o.once = once;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_sample(((plan_object *)op)->plan, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_cache(PyObject *op, PyObject *args)
{
    hr_cache_options o = { .struct_bytes = sizeof o };
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    const char *folder;
    long long limit;
    hr_status st;

    if (!PyArg_ParseTuple(args, "sLO&", &folder, &limit, pyhr_text_or_none, &o.version))
        return NULL;
    o.limit_bytes = limit;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_cache(((plan_object *)op)->plan, folder, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_rebatch(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "n_rows", "drop_last", NULL };
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    long long n;
    int drop_last = 0;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "L|p", names, &n, &drop_last))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_rebatch(((plan_object *)op)->plan, n, drop_last, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

/* The strings of a tuple, borrowed from it. Returns their number, -1 with an exception. */
static int key_names(PyObject *keys, const char **out, int most)
{
    int n = (int)PyTuple_Size(keys);

    if (n > most) {
        PyErr_Format(PyExc_ValueError, "expected at most %d keys, found %d", most, n);
        return -1;
    }
    for (int i = 0; i < n; i++)
        if (!(out[i] = pyhr_text(PyTuple_GetItem(keys, i))))
            return -1;
    return n;
}

/* All strings of a tuple, borrowed from it, in a new array (PyMem_Free); NULL: an exception. */
static const char **names_of(PyObject *tuple, int *n)
{
    int most = (int)PyTuple_Size(tuple);
    const char **out = PyMem_Calloc((size_t)most + 1, sizeof *out);

    if (!out) {
        PyErr_NoMemory();
    } else if ((*n = key_names(tuple, out, most)) < 0) {
        PyMem_Free(out);
        out = NULL;
    }
    return out;
}

static PyObject *plan_whole_groups(PyObject *op, PyObject *keys)
{
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_op *made = NULL;
    const char *names[64];
    hr_status st;
    int n;

    if (!PyTuple_Check(keys)) {
        PyErr_SetString(PyExc_TypeError, "expected a tuple of column names");
        return NULL;
    }
    if ((n = key_names(keys, names, HR_LEN(names))) < 0)
        return NULL;
    st = hr__op_whole_groups(names, n, &made, &err);
    if (!st) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__plan_op(in, made, &plan, &err);
        Py_END_ALLOW_THREADS
    }
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

/* of_class of a function that may remember rows: (instances made ahead, calls at a time, whether it has finish(),
 * whether it has a state). */
static int class_options(PyObject *given, hr_calls_class *out)
{
    int finishes, saves;

    if (!PyArg_ParseTuple(given, "iipp", &out->ahead, &out->at_a_time, &finishes, &saves))
        return -1;
    out->instances = true;
    out->finishes = finishes;
    out->saves = saves;
    out->keeps = finishes || saves;
    return 0;
}

static PyObject *plan_calls(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "calls",      "name",    "qualified",    "batch_rows",    "block_rows",  "batch_bytes",
                             "one_to_one", "filter",  "inline_calls", "max_batches",   "max_errored", "group_keys",
                             "made",       "columns", "schema",       "shows_doubles", "of_class",    "pieces",
                             NULL };
    pyhr_state *s = pyhr_state_of(op);
    const char *keys[64], **columns = NULL;
    hr_calls_options o = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    hr_op *made = NULL;
    long long batch_rows = 0, block_rows = 0, batch_bytes = 0, max_batches = 0, max_errored = 0;
    long long pieces = 0, piece_bytes = 0;
    int one_to_one = 0, filter = 0, inline_calls = 0, shows_doubles = 0;
    PyObject *served, *group_keys = NULL, *some = NULL, *schema = NULL, *capsule = NULL, *of_class = NULL;
    struct ArrowSchema declared = { 0 };
    hr_calls *calls;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oss|LLLpppLLO!zO!OpO!(LL)", names, &served, &o.name, &o.qualified,
                                     &batch_rows, &block_rows, &batch_bytes, &one_to_one, &filter, &inline_calls,
                                     &max_batches, &max_errored, &PyTuple_Type, &group_keys, &o.made, &PyTuple_Type,
                                     &some, &schema, &shows_doubles, &PyTuple_Type, &of_class, &pieces, &piece_bytes))
        return NULL;
    if (of_class && class_options(of_class, &o.of_class) < 0)
        return NULL;
    if (group_keys && (o.n_group_keys = key_names(group_keys, keys, HR_LEN(keys))) < 0)
        return NULL;
    o.group_keys = keys;
    o.max_batches = max_batches;
    o.max_errored = max_errored;
    o.pieces = pieces;
    o.piece_bytes = piece_bytes;
    calls = pyhr_calls_of(s, served);
    if (!calls)
        return NULL;
    if (some && !(columns = names_of(some, &o.n_columns)))
        return NULL;
    o.columns = columns;
    if (schema && schema != Py_None) { /* the last call that can fail before hr__op_calls takes the schema */
        capsule =
            pyhr_check_arrow_names(s, schema) < 0 ? NULL : PyObject_CallMethod(schema, "__arrow_c_schema__", NULL);
        if (!capsule || pyhr_take_schema(capsule, &declared) < 0) {
            Py_XDECREF(capsule);
            PyMem_Free(columns);
            return NULL;
        }
        Py_DECREF(capsule);
        o.schema = &declared;
    }
    o.batch_rows = batch_rows;
    o.block_rows = block_rows;
    o.batch_bytes = batch_bytes;
    o.one_to_one = one_to_one;
    o.filter = filter;
    o.inline_calls = inline_calls;
    o.shows_doubles = shows_doubles;
    st = hr__op_calls(calls, &o, &made, &err);
    PyMem_Free(columns);
    if (!st) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__plan_op(in, made, &plan, &err);
        Py_END_ALLOW_THREADS
    }
    return plan_made(s, st, plan, &err);
}

/* --------------------------------------------------------------------------------------------------------- ordering */

/* sort(keys): a list of (column or Expr, descending, nulls_first). */
static PyObject *plan_sort(PyObject *op, PyObject *list)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    PyObject *made = NULL, *all = PySequence_Tuple(list);
    Py_ssize_t n = all ? PyTuple_Size(all) : -1;
    hr_sort_key *keys = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof *keys);
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (all && !keys)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; keys && i < n; i++) {
        PyObject *key;
        int descending, nulls_first;

        if (!PyArg_ParseTuple(PyTuple_GetItem(all, i), "Opp", &key, &descending, &nulls_first))
            goto done;
        keys[i].struct_bytes = sizeof *keys;
        keys[i].descending = descending;
        keys[i].nulls_first = nulls_first;
        if (PyUnicode_Check(key) ? !(keys[i].column = pyhr_text(key)) : !(keys[i].expr = pyhr_expr_of(s, key)))
            goto done;
    }
    if (keys) {
        Py_BEGIN_ALLOW_THREADS
        st = hr_plan_sort(in, keys, (int)n, &plan, &err);
        Py_END_ALLOW_THREADS
        made = plan_made(s, st, plan, &err);
    }
done:
    PyMem_Free(keys);
    Py_XDECREF(all);
    return made;
}

typedef hr_status shuffle_fn(hr_plan *in, const hr_shuffle_options *options, hr_plan **out, hr_error *err);

static PyObject *plan_shuffled(PyObject *op, PyObject *args, shuffle_fn *shuffle)
{
    hr_shuffle_options o = { .struct_bytes = sizeof o };
    hr_plan *plan = NULL;
    hr_error err = HR_ERROR_INIT;
    PyObject *given = Py_None;
    uint64_t seed = 0;
    int once = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "Op", &given, &once))
        return NULL;
    if (given != Py_None) {
        seed = PyLong_AsUnsignedLongLongMask(given);
        o.seed = &seed;
        if (PyErr_Occurred())
            return NULL;
    }
    o.once = once;
    Py_BEGIN_ALLOW_THREADS
    st = shuffle(((plan_object *)op)->plan, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_random_shuffle(PyObject *op, PyObject *args)
{
    return plan_shuffled(op, args, hr_plan_random_shuffle);
}

static PyObject *plan_block_order(PyObject *op, PyObject *args)
{
    return plan_shuffled(op, args, hr_plan_randomize_block_order);
}

/* A tuple of n integers, or None (*out NULL). *out is new: PyMem_Free. -1: an exception is set. */
static int get_int64s(PyObject *tuple, Py_ssize_t n, int64_t **out)
{
    *out = NULL;
    if (tuple == Py_None)
        return 0;
    if (!PyTuple_Check(tuple) || PyTuple_Size(tuple) != n) {
        PyErr_Format(PyExc_TypeError, "expected a tuple of %zd integers, found %R", n, tuple);
        return -1;
    }
    if (!(*out = PyMem_Malloc((size_t)n * sizeof **out))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        (*out)[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, i));
        if ((*out)[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *plan_pack(PyObject *op, PyObject *args)
{
    hr_pack_options o = { .struct_bytes = sizeof o };
    PyObject *columns, *pads, *boses, *eoses, *made = NULL;
    int64_t *pad = NULL, *bos = NULL, *eos = NULL;
    pyhr_state *s = pyhr_state_of(op);
    long long seq_len;
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    int strategy, overlong, drop_last;
    texts column = { 0 };
    hr_status st;

    if (!PyArg_ParseTuple(args, "LiiOipOOOsss", &seq_len, &strategy, &overlong, &columns, &o.open_bins, &drop_last,
                          &pads, &boses, &eoses, &o.segment_ids, &o.position_ids, &o.loss_mask))
        return NULL;
    if (texts_get(&column, columns, "columns") < 0 || get_int64s(pads, column.n ? column.n : 1, &pad) < 0 ||
        get_int64s(boses, column.n ? column.n : 1, &bos) < 0 || get_int64s(eoses, column.n ? column.n : 1, &eos) < 0)
        goto done;
    o.strategy = (hr_pack_strategy)strategy;
    o.long_documents = (hr_pack_long_documents)overlong;
    o.columns = column.v;
    o.n_columns = column.n;
    o.drop_last = drop_last;
    o.pad = pad;
    o.bos = bos;
    o.eos = eos;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_pack(((plan_object *)op)->plan, seq_len, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&column);
    PyMem_Free(pad);
    PyMem_Free(bos);
    PyMem_Free(eos);
    return made;
}

static PyObject *plan_batch_by_length(PyObject *op, PyObject *args)
{
    hr_length_options o = { .struct_bytes = sizeof o };
    PyObject *buckets, *made = NULL;
    pyhr_state *s = pyhr_state_of(op);
    long long max_tokens, max_rows, max_wait;
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    int64_t *bounds = NULL;
    int long_rows, drop_last;
    const char *column;
    hr_status st;

    if (!PyArg_ParseTuple(args, "sLOiLLip", &column, &max_tokens, &buckets, &o.n_buckets, &max_rows, &max_wait,
                          &long_rows, &drop_last))
        return NULL;
    if (get_int64s(buckets, o.n_buckets, &bounds) < 0)
        goto done;
    o.buckets = bounds;
    o.max_rows = max_rows;
    o.max_wait = max_wait;
    o.long_rows = (hr_long_rows)long_rows;
    o.drop_last = drop_last;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_batch_by_length(((plan_object *)op)->plan, column, max_tokens, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    PyMem_Free(bounds);
    return made;
}

static PyObject *plan_makes_batches(PyObject *op, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(hr__plan_makes_batches(((plan_object *)op)->plan));
}

static PyObject *plan_gives_blocks(PyObject *op, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(hr__plan_fragments_of(((plan_object *)op)->plan) == HR_FRAGMENTS_OF_TABLES);
}

static PyObject *plan_is_beginning(PyObject *op, PyObject *unused)
{
    (void)unused;
    return PyBool_FromLong(hr_plan_is_beginning(((plan_object *)op)->plan));
}

static PyObject *plan_fragments(PyObject *op, PyObject *unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = NULL;
    hr_status st;

    (void)unused;
    Py_BEGIN_ALLOW_THREADS
    st = hr__plan_fragments(((plan_object *)op)->plan, &plan, &err);
    Py_END_ALLOW_THREADS
    return plan_made(pyhr_state_of(op), st, plan, &err);
}

static PyObject *plan_repartition(PyObject *op, PyObject *args)
{
    hr_repartition_options o = { .struct_bytes = sizeof o };
    pyhr_state *s = pyhr_state_of(op);
    hr_plan *plan = NULL;
    hr_error err = HR_ERROR_INIT;
    PyObject *list = Py_None, *made = NULL;
    long long n_blocks = 0;
    texts keys = { 0 };
    int shuffle, sort;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LpOp", &n_blocks, &shuffle, &list, &sort))
        return NULL;
    if (texts_get(&keys, list, "keys") < 0)
        goto done;
    o.shuffle = shuffle;
    o.keys = keys.v;
    o.n_keys = keys.n;
    o.sort = sort;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_repartition(((plan_object *)op)->plan, n_blocks, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&keys);
    return made;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

/* Calls name(index, suffix) -> str. The thread that opens files runs it and takes the GIL for the call. */
static hr_status call_name(void *context, int64_t index, const char *suffix, char *out, size_t cap, hr_error *err)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *made = PyObject_CallFunction((PyObject *)context, "Ls", (long long)index, suffix), *text = NULL;
    hr_status st = HR_OK;
    const char *s;
    Py_ssize_t n;

    if (made && PyUnicode_Check(made))
        s = PyUnicode_AsUTF8AndSize(made, &n);
    else
        s = NULL;
    if (s && n > 0 && (size_t)n < cap && !memchr(s, 0, (size_t)n)) {
        memcpy(out, s, (size_t)n + 1);
    } else if (made) {
        PyErr_Clear();
        st = hr_error_set(err, HR_INVALID, "filename_provider: expected a name of at most %zu bytes for file %lld",
                          cap - 1, (long long)index);
    } else {
        PyObject *type, *value, *trace;

        PyErr_Fetch(&type, &value, &trace);
        PyErr_NormalizeException(&type, &value, &trace);
        text = value ? PyObject_Str(value) : NULL;
        s = text ? PyUnicode_AsUTF8AndSize(text, &n) : NULL;
        st = hr_error_set(err, HR_CALLBACK, "filename_provider: %s", s ? s : "raised");
        Py_XDECREF(text);
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(trace);
        PyErr_Clear();
    }
    Py_XDECREF(made);
    PyGILState_Release(gil);
    return st;
}

static void free_name(void *context)
{
    PyGILState_STATE gil = PyGILState_Ensure();

    Py_DECREF((PyObject *)context);
    PyGILState_Release(gil);
}

static int write_mode(pyhr_state *s, const char *name, hr_write_mode *out)
{
    static const char *const names[] = { "append", "create", "overwrite", "ignore" };

    for (int i = 0; i < HR_LEN(names); i++)
        if (!strcmp(names[i], name)) {
            *out = (hr_write_mode)i;
            return 0;
        }
    pyhr_raise_text(s, HR_INVALID, "mode: expected append, create, overwrite or ignore, found '%s'", name);
    return -1;
}

static PyObject *plan_write(PyObject *op, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "format",
                             "path",
                             "mode",
                             "single_file",
                             "partition_columns",
                             "min_rows_per_file",
                             "max_rows_per_file",
                             "max_file_bytes",
                             "job",
                             "name_column",
                             "sync",
                             "options",
                             "name",
                             "storage_options",
                             NULL };
    pyhr_state *s = pyhr_state_of(op);
    PyObject *partitions = Py_None, *options = Py_None, *name = Py_None, *storage = Py_None, *made = NULL;
    texts partition = { 0 }, option = { 0 }, store = { 0 };
    const char *format = NULL, *path = NULL, *mode = "append", *job = NULL, *name_column = NULL;
    hr_write_options o = { .struct_bytes = sizeof o };
    hr_plan *in = ((plan_object *)op)->plan, *plan = NULL;
    long long min_rows = 0, max_rows = 0, max_bytes = 0;
    hr_error err = HR_ERROR_INIT;
    int single = 0, sync = 0;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "zO&|spOLLLO&O&iOOO", names, &format, pyhr_text_arg, &path, &mode,
                                     &single, &partitions, &min_rows, &max_rows, &max_bytes, pyhr_text_or_none, &job,
                                     pyhr_text_or_none, &name_column, &sync, &options, &name, &storage))
        return NULL;
    if (texts_get(&partition, partitions, "partition_cols") < 0 || texts_get(&option, options, "options") < 0 ||
        texts_get(&store, storage, "storage_options") < 0 || write_mode(s, mode, &o.mode) < 0)
        goto done;
    o.single_file = single;
    o.partition_columns = partition.v;
    o.n_partition_columns = partition.n;
    o.min_rows_per_file = min_rows;
    o.max_rows_per_file = max_rows;
    o.max_file_bytes = max_bytes;
    o.job = job;
    o.name_column = name_column;
    o.sync = (hr_sync)sync;
    o.format_options = option.v;
    o.n_format_options = option.n;
    o.storage_options = store.v;
    o.n_storage_options = store.n;
    if (name != Py_None) {
        o.name = call_name;
        o.name_context = Py_NewRef(name);
        o.name_context_free = free_name;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_write(in, format, path, &o, &plan, &err);
    Py_END_ALLOW_THREADS
    made = plan_made(s, st, plan, &err);
done:
    texts_clear(&partition);
    texts_clear(&option);
    texts_clear(&store);
    return made;
}

/* ------------------------------------------------------------------------------------------------------- inspection */

static PyObject *plan_schema(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = ((plan_object *)op)->plan;
    hr_schema *schema = NULL;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr__plan_schema_early(plan, &schema, &err);
    Py_END_ALLOW_THREADS
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    return schema ? pyhr_schema(pyhr_state_of(op), schema) : Py_NewRef(Py_None);
}

static PyObject *plan_count(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *plan = ((plan_object *)op)->plan;
    int64_t n = -1;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_count(plan, &n, &err);
    Py_END_ALLOW_THREADS
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    return n >= 0 ? PyLong_FromLongLong(n) : Py_NewRef(Py_None);
}

static PyObject *plan_explain(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    PyObject *made;
    char *text = NULL;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr_plan_explain(((plan_object *)op)->plan, &text, &err);
    Py_END_ALLOW_THREADS
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    hr_string_free(text);
    return made;
}

static int add_files(PyObject *list, const hr_plan *p)
{
    for (int i = 0; i < p->n_inputs; i++)
        if (add_files(list, p->inputs[i]) < 0)
            return -1;
    for (int i = 0; p->scan && i < hr__scan_n_files(p->scan); i++) {
        PyObject *name = PyUnicode_DecodeFSDefault(hr__scan_file_path(p->scan, i));
        int rc = name ? PyList_Append(list, name) : -1;

        Py_XDECREF(name);
        if (rc < 0)
            return -1;
    }
    return 0;
}

static PyObject *plan_files(PyObject *op, PyObject *none)
{
    PyObject *list = PyList_New(0);

    (void)none;
    if (list && add_files(list, ((plan_object *)op)->plan) < 0)
        Py_CLEAR(list);
    return list;
}

static PyObject *plan_fingerprint(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    char text[33];
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS /* reads file sizes and times */
    st = hr_plan_fingerprint(((plan_object *)op)->plan, text, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : PyUnicode_FromString(text);
}

static PyObject *plan_digests(PyObject *op, PyObject *none)
{
    hr_plan *plan = ((plan_object *)op)->plan;
    char nodes[33], data[33];
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS /* reads all values in memory */
    hr__plan_digest(plan, nodes);
    st = hr__plan_data_digest(plan, data, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_BuildValue("(ss)", nodes, data);
}

static PyObject *plan_whole_position(PyObject *op, PyObject *arg)
{
    hr_plan *plan = ((plan_object *)op)->plan; /* op keeps it alive */
    const char *text = pyhr_text(arg);
    hr_error err = HR_ERROR_INIT;
    hr_position p = { 0 };
    PyObject *made = NULL;
    hr_inputs inputs;
    char *out = NULL;
    hr_status st;

    if (!text)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__position_parse(text, &p, &err);
    if (!st)
        st = hr__inputs_of(plan, true, &inputs, &err);
    if (!st)
        st = hr__position_make_whole(plan, &inputs, &p, &err);
    if (!st)
        st = hr__position_print(&p, &out, &err);
    hr__position_clear(&p);
    Py_END_ALLOW_THREADS
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    made = PyUnicode_FromString(out);
    hr_string_free(out);
    return made;
}

static PyObject *plan_position_epoch(PyObject *cls, PyObject *arg)
{
    pyhr_state *s = PyType_GetModuleState((PyTypeObject *)cls);
    const char *text = pyhr_text(arg);
    hr_error err = HR_ERROR_INIT;
    hr_position p = { 0 };
    int64_t epoch;
    bool whole;
    hr_status st;

    if (!text)
        return NULL;
    st = hr__position_parse(text, &p, &err);
    epoch = p.epoch;
    whole = p.whole;
    hr__position_clear(&p);
    if (!st && !whole)
        st = hr_error_set(&err, HR_INVALID, "not a position: the text does not say what the plan reads");
    return st ? pyhr_raise(s, st, &err) : PyLong_FromLongLong(epoch);
}

#define CLASS METH_CLASS
#define WORDS METH_VARARGS | METH_KEYWORDS
#define WITH_WORDS(fn) (PyCFunction)(void (*)(void)) fn

static PyMethodDef plan_methods[] = {
    { "read", WITH_WORDS(plan_read), WORDS | CLASS,
      "read(urls, format, columns=None, ignore_missing_paths=False, suffixes=None, include_paths=None, options=None,\n"
      "partitioning=None, partition_base=None, partition_names=None, partition_types=None, schema=None, unify=False,\n"
      "shuffle=None, storage_options=None, first_page=False, begun=None): files.\n\n"
      "Lists the paths, reads no file. options: 'name=value' of the format. storage_options:\n"
      "'name=value' of URLs. partition_types: Arrow formats or None.\n"
      "schema: an object with __arrow_c_schema__. shuffle: (seed or None, whether each epoch has its own order).\n"
      "begun: the plan of first_page whose list goes on." },
    { "tables", plan_tables, METH_O | CLASS, "tables(list of Table): rows in memory, shared." },
    { "range", plan_range, METH_VARARGS | CLASS,
      "range(n, name, n_blocks=0): the int64 column of 0 .. n-1, in n_blocks blocks." },
    { "union", plan_union, METH_O | CLASS, "union(plans): all rows of each in turn." },
    { "project", WITH_WORDS(plan_project), WORDS, "project(names, new_names=None): the named columns, in this order." },
    { "filter", plan_filter, METH_O, "filter(expr): the rows for which expr is true." },
    { "group", plan_group, METH_VARARGS,
      "group(keys, aggregates): one row per group; aggregates are (function, column, name, settings)." },
    { "join", plan_join, METH_VARARGS,
      "join(right, kind, keys, right_keys, left_suffix, right_suffix): rows with equal keys side by side." },
    { "with_columns", plan_with_columns, METH_VARARGS, "with_columns(names, exprs): all columns and the new ones." },
    { "zip", plan_zip, METH_O | CLASS, "zip(plans): the columns of all plans side by side." },
    { "mix", plan_mix, METH_VARARGS | CLASS,
      "mix(plans, weights, drop, n_rows=None): rows of all plans in proportion to the weights. n_rows: of each plan;\n"
      "the shorter ones then repeat until each has been there once." },
    { "slice", plan_slice, METH_VARARGS, "slice(begin, end): the rows [begin, end)." },
    { "sample", WITH_WORDS(plan_sample), METH_VARARGS | METH_KEYWORDS,
      "sample(begin, end, seed=None, once=False, column=None): rows with a random number in [begin, end)." },
    { "distinct", plan_distinct, METH_VARARGS,
      "distinct(columns, keys, keep): rows that differ in the keys ([]: all columns); keep: 0 first, 1 last, 2 none." },
    { "explode", plan_explode, METH_O, "explode(column): a row for each value of the column's lists." },
    { "sample_rows", plan_sample_rows, METH_VARARGS, "sample_rows(n, seed): n rows, in their order." },
    { "limit", plan_limit, METH_O, "limit(n): the first n rows." },
    { "cache", plan_cache, METH_VARARGS,
      "cache(folder, limit, version): the same rows, from a folder; limit 0: what the disk has; version: None." },
    { "number_rows", plan_number_rows, METH_O, "number_rows(name): all columns and the number of each row, from 0." },
    { "rebatch", WITH_WORDS(plan_rebatch), WORDS, "rebatch(n_rows, drop_last=False): tables of exactly n_rows rows." },
    { "sort", plan_sort, METH_O, "sort([(column or Expr, descending, nulls_first), ...]): all rows in that order." },
    { "random_shuffle", plan_random_shuffle, METH_VARARGS,
      "random_shuffle(seed or None, once): all rows in random order; once: one order for all epochs." },
    { "randomize_block_order", plan_block_order, METH_VARARGS,
      "randomize_block_order(seed or None, once): blocks of the source in random order." },
    { "pack", plan_pack, METH_VARARGS,
      "pack(seq_len, strategy, long_documents, columns, open_bins, drop_last, pad, bos, eos, segment_ids, "
      "position_ids, loss_mask): documents of tokens as rows of seq_len tokens; columns None: all lists of numbers; "
      "a name \"\": no such column." },
    { "batch_by_length", plan_batch_by_length, METH_VARARGS,
      "batch_by_length(column, max_tokens, buckets or None, n_buckets, max_rows, max_wait, long_rows, drop_last): "
      "batches of rows of about one length, each of them one table." },
    { "makes_batches", plan_makes_batches, METH_NOARGS,
      "makes_batches(): whether each table of a run is a batch whose rows belong together." },
    { "gives_blocks", plan_gives_blocks, METH_NOARGS,
      "gives_blocks(): whether the plan's arguments say which rows are in one table of a run." },
    { "is_beginning", plan_is_beginning, METH_NOARGS,
      "is_beginning(): whether a list of a store ended after its first page, since first_page was given." },
    { "fragments", plan_fragments, METH_NOARGS,
      "fragments(): the same rows in tables that depend on the rows and the plan's arguments alone." },
    { "repartition", plan_repartition, METH_VARARGS,
      "repartition(n_blocks, shuffle, keys or None, sort): the same rows in n_blocks tables." },
    { "whole_groups", plan_whole_groups, METH_O,
      "whole_groups(keys): the same rows, as tables of whole groups: rows that follow each other and agree in the "
      "keys." },
    { "calls", WITH_WORDS(plan_calls), WORDS,
      "calls(calls, name, qualified, batch_rows=0, block_rows=0, batch_bytes=0, one_to_one=False, filter=False,\n"
      "inline_calls=False, max_batches=1, max_errored=0, group_keys=(), made=None, columns=(), schema=None,\n"
      "shows_doubles=False, of_class=(), pieces=(0, 0)): a function, whose calls go to `calls`. made: it gets "
      "`columns` alone and\n"
      "makes that one of them. shows_doubles: it sees integers with nulls as doubles with NaN. of_class: (instances\n"
      "made ahead, calls at a time in the order of the rows or 0, finish(), state_dict()). pieces, of a reader, for\n"
      "statistics: stored pieces that a call reads, and bytes of each in memory." },
    { "write", WITH_WORDS(plan_write), WORDS,
      "write(format, path, mode='append', single_file=False, partition_columns=None, min_rows_per_file=0,\n"
      "max_rows_per_file=0, max_file_bytes=0, job=None, name_column=None, sync=0, options=None, name=None,\n"
      "storage_options=None): a plan that writes files when it is run; its rows are the files (path, rows, bytes).\n"
      "name(index, suffix) -> str." },
    { "schema", plan_schema, METH_NOARGS, "The Schema if it is known without a run of functions; otherwise None." },
    { "count", plan_count, METH_NOARGS, "The number of rows if metadata has it; otherwise None." },
    { "files", plan_files, METH_NOARGS,
      "Paths of the files that the plan reads; 'memory' or 'range' for other sources." },
    { "explain", plan_explain, METH_NOARGS, "The plan as text, before and after the rules." },
    { "digests", plan_digests, METH_NOARGS,
      "digests(): 32 hex digits of nodes and arguments; 32 of these, of names and sizes of files, and of values in\n"
      "memory." },
    { "whole_position", plan_whole_position, METH_O,
      "whole_position(text): a position that Feed.position(whole=False) gave, with hashes of what the plan reads and "
      "runs." },
    { "position_epoch", plan_position_epoch, METH_O | METH_CLASS,
      "position_epoch(text): the epoch of a position; InvalidArgument if the text is no position." },
    { "fingerprint", plan_fingerprint, METH_NOARGS, "32 hex digits of nodes, arguments and files." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot plan_slots[] = {
    { Py_tp_doc, "An immutable tree of sources and operators." },
    { Py_tp_dealloc, plan_dealloc },
    { Py_tp_methods, plan_methods },
    { 0, NULL },
};

static PyType_Spec plan_spec = {
    .name = "headrace._core.Plan",
    .basicsize = sizeof(plan_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = plan_slots,
};

int pyhr_plan_types(PyObject *module, pyhr_state *s) { return pyhr_add_type(module, &plan_spec, &s->plan); }
