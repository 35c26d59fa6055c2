/* py_keep.c - Keep: materialized tables, in memory up to a limit, later ones on disk (format/scan/materialized.h). */
#include "pyhr.h"

#include "format/scan/materialized.h"

typedef struct keep_object {
    PyObject_HEAD hr_materialized *keep;
} keep_object;

static PyObject *keep_make(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", "memory_bytes", NULL };
    pyhr_state *s = PyType_GetModuleState(type);
    hr_error err = HR_ERROR_INIT;
    const char *name;
    long long memory_bytes = 0;
    keep_object *self;
    hr_materialized *keep;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|L", names, &name, &memory_bytes))
        return NULL;
    if ((st = hr__materialized_new(name, memory_bytes, false, &keep, &err)))
        return pyhr_raise(s, st, &err);
    self = (keep_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self)
        self->keep = keep;
    else
        hr__materialized_free(keep);
    return (PyObject *)self;
}

static void keep_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    Py_BEGIN_ALLOW_THREADS /* closing a large file takes time */
    hr__materialized_free(((keep_object *)op)->keep);
    Py_END_ALLOW_THREADS((freefunc)PyType_GetSlot(type, Py_tp_free))
    (op);
    Py_DECREF(type);
}

static PyObject *keep_add(PyObject *op, PyObject *arg)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_table *t = pyhr_table_of(s, arg);
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (!t)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_add(((keep_object *)op)->keep, hr_table_ref(t), &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

static PyObject *keep_tables(PyObject *op, PyObject *none)
{
    const hr_materialized *k = ((keep_object *)op)->keep;
    hr_materialized_size size = hr__materialized_size(k);
    PyObject *list = PyList_New((Py_ssize_t)size.tables);
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;

    (void)none;
    for (int64_t i = 0; list && i < size.tables; i++) {
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

static PyObject *keep_plan(PyObject *op, PyObject *none)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_scan *scan = NULL;
    hr_plan *plan = NULL;
    hr_status st;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    st = hr__materialized_scan(((keep_object *)op)->keep, &scan, &err);
    if (!st)
        st = hr__plan_scan(scan, &plan, &err);
    hr__scan_unref(scan);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : pyhr_plan(s, plan);
}

static PyObject *keep_num_tables(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((keep_object *)op)->keep).tables);
}

static PyObject *keep_num_rows(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((keep_object *)op)->keep).rows);
}

static PyObject *keep_nbytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((keep_object *)op)->keep).bytes);
}

static PyObject *keep_disk_bytes(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLongLong(hr__materialized_size(((keep_object *)op)->keep).disk_bytes);
}

static PyMethodDef keep_methods[] = {
    { "add", keep_add, METH_O, "add(table): appends a table." },
    { "tables", keep_tables, METH_NOARGS, "The tables under one schema; None for those on disk." },
    { "plan", keep_plan, METH_NOARGS, "A Plan that reads the tables; add() must not be called afterwards." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef keep_getset[] = {
    { "num_tables", keep_num_tables, NULL, "Number of tables.", NULL },
    { "num_rows", keep_num_rows, NULL, "Number of rows.", NULL },
    { "nbytes", keep_nbytes, NULL, "Bytes of all rows, as if they were in memory.", NULL },
    { "disk_bytes", keep_disk_bytes, NULL, "Bytes of the rows on disk.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot keep_slots[] = {
    { Py_tp_doc,
      "Keep(name, memory_bytes=0): tables in memory up to memory_bytes (0: half of the limit), later ones on disk." },
    { Py_tp_new, keep_make },
    { Py_tp_dealloc, keep_dealloc },
    { Py_tp_methods, keep_methods },
    { Py_tp_getset, keep_getset },
    { 0, NULL },
};

static PyType_Spec keep_spec = {
    .name = "headrace._core.Keep",
    .basicsize = sizeof(keep_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = keep_slots,
};

int pyhr_keep_types(PyObject *module, pyhr_state *s) { return pyhr_add_type(module, &keep_spec, &s->keep); }
