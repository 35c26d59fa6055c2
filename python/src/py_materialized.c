/* py_materialized.c - Materialized: rows in memory up to a limit, later ones on disk (format/scan/materialized.h). */
#include "pyhr.h"

#include "format/scan/materialized.h"

typedef struct materialized_object {
    PyObject_HEAD hr_materialized *rows;
} materialized_object;

/* Takes rows. */
static PyObject *made_object(PyTypeObject *type, hr_materialized *rows)
{
    materialized_object *self = (materialized_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);

    if (self)
        self->rows = rows;
    else
        hr__materialized_free(rows);
    return (PyObject *)self;
}

static PyObject *materialized_make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "memory_bytes", "of_tables", NULL };
    pyhr_state *s = PyType_GetModuleState(type);
    hr_error err = HR_ERROR_INIT;
    const char *name;
    long long memory_bytes = 0;
    hr_materialized *rows;
    int of_tables = 0;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|Lp", names, &name, &memory_bytes, &of_tables))
        return NULL;
    st = hr__materialized_new(name, memory_bytes, of_tables ? HR_FRAGMENTS_OF_TABLES : HR_FRAGMENTS_OF_ROWS, &rows,
                              &err);
    return st ? pyhr_raise(s, st, &err) : made_object(type, rows);
}

static void materialized_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    Py_BEGIN_ALLOW_THREADS /* closing a large file takes time */
    hr__materialized_free(((materialized_object *)op)->rows);
    Py_END_ALLOW_THREADS((freefunc)PyType_GetSlot(type, Py_tp_free))
    (op);
    Py_DECREF(type);
}

static PyObject *materialized_add(PyObject *op, PyObject *arg)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_table *t = pyhr_table_of(s, arg);
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (!t)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_add(((materialized_object *)op)->rows, hr_table_ref(t), &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

static PyObject *materialized_end(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_end(((materialized_object *)op)->rows, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *materialized_slice(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    hr_materialized *made = NULL;
    long long begin, end;
    hr_status st;

    if (!PyArg_ParseTuple(args, "LL", &begin, &end))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_slice(((materialized_object *)op)->rows, begin, end, &made, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : made_object(Py_TYPE(op), made);
}

static PyObject *materialized_tables(PyObject *op, PyObject *none)
{
    const hr_materialized *k = ((materialized_object *)op)->rows;
    hr_materialized_size size = hr__materialized_size(k);
    PyObject *list = PyList_New((Py_ssize_t)size.fragments);
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;

    (void)none;
    for (int64_t i = 0; list && i < size.fragments; i++) {
        hr_table *t = NULL;
        PyObject *made;
        hr_status st;

        Py_BEGIN_ALLOW_THREADS
        st = hr__materialized_table(k, i, &t, &err);
        Py_END_ALLOW_THREADS
        made = st ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
        if (!made || PyList_SetItem(list, (Py_ssize_t)i, made) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *materialized_plan(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_scan *scan = NULL;
    hr_plan *plan = NULL;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_scan(((materialized_object *)op)->rows, &scan, &err);
    if (!st)
        st = hr__plan_scan(scan, &plan, &err);
    hr__scan_unref(scan);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : pyhr_plan(s, plan);
}

static PyObject *materialized_num_fragments(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((materialized_object *)op)->rows).fragments);
}

static PyObject *materialized_num_rows(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((materialized_object *)op)->rows).rows);
}

static PyObject *materialized_nbytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((materialized_object *)op)->rows).bytes);
}

static PyObject *materialized_disk_bytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((materialized_object *)op)->rows).disk_bytes);
}

static PyMethodDef materialized_methods[] = {
    { "add", materialized_add, METH_O, "add(table): appends a table." },
    { "end", materialized_end, METH_NOARGS, "end(): completes the last fragment; no table follows." },
    { "slice", materialized_slice, METH_VARARGS,
      "slice(begin, end): a Materialized of these rows, which are in memory." },
    { "tables", materialized_tables, METH_NOARGS, "tables(): a table of each fragment, under one schema." },
    { "plan", materialized_plan, METH_NOARGS, "A Plan that reads the rows; add() must not be called afterwards." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef materialized_getset[] = {
    { "num_fragments", materialized_num_fragments, NULL, "Number of complete fragments.", NULL },
    { "num_rows", materialized_num_rows, NULL, "Number of rows.", NULL },
    { "nbytes", materialized_nbytes, NULL, "Bytes of all rows, as if they were in memory.", NULL },
    { "disk_bytes", materialized_disk_bytes, NULL, "Bytes of the rows on disk.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot materialized_slots[] = {
    { Py_tp_doc,
      "Materialized(name, memory_bytes=0, of_tables=False): rows in memory up to memory_bytes (0: half of the "
      "limit), later ones on disk. Each table is a fragment if of_tables; otherwise the rows decide where "
      "fragments end." },
    { Py_tp_new, materialized_make },
    { Py_tp_dealloc, materialized_dealloc },
    { Py_tp_methods, materialized_methods },
    { Py_tp_getset, materialized_getset },
    { 0, NULL },
};

static PyType_Spec materialized_spec = {
    .name = "headrace._core.Materialized",
    .basicsize = sizeof(materialized_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = materialized_slots,
};

int pyhr_materialized_types(PyObject *module, pyhr_state *s)
{
    return pyhr_add_type(module, &materialized_spec, &s->materialized);
}
