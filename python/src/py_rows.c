/* py_rows.c - rows as dicts: row_dicts() makes them from columns, take_rows() collects those of a function for a table.
 *
 * Functions over rows spend a good part of their time here. */
#include "pyhr.h"

/* Row i of the columns as a dict; new reference. */
static PyObject *row_dict(PyObject *names, PyObject *columns, Py_ssize_t n_columns, Py_ssize_t i)
{
    PyObject *row = PyDict_New();

    for (Py_ssize_t c = 0; row && c < n_columns; c++) {
        PyObject *v = PyList_GetItem(PyTuple_GetItem(columns, c), i);

        if (!v || PyDict_SetItem(row, PyTuple_GetItem(names, c), v) < 0)
            Py_CLEAR(row);
    }
    return row;
}

PyObject *pyhr_row_dicts(PyObject *module, PyObject *args)
{
    PyObject *names, *columns, *rows;
    Py_ssize_t n_columns, n;

    (void)module;
    if (!PyArg_ParseTuple(args, "nO!O!", &n, &PyTuple_Type, &names, &PyTuple_Type, &columns))
        return NULL;
    n_columns = PyTuple_Size(names);
    for (Py_ssize_t c = 0; c < n_columns; c++)
        if (c >= PyTuple_Size(columns) || !PyList_Check(PyTuple_GetItem(columns, c)) ||
            PyList_Size(PyTuple_GetItem(columns, c)) != n) {
            PyErr_Format(PyExc_ValueError, "row_dicts: column %zd: expected a list of %zd values", c, n);
            return NULL;
        }
    rows = PyList_New(n);
    for (Py_ssize_t i = 0; rows && i < n; i++) {
        PyObject *row = row_dict(names, columns, n_columns, i);

        if (!row || PyList_SetItem(rows, i, row) < 0)
            Py_CLEAR(rows);
    }
    return rows;
}

/* ---------------------------------------------------------------------------------------------------- bytes of rows */

static Py_ssize_t added(Py_ssize_t a, Py_ssize_t b) { return b < PY_SSIZE_T_MAX - a ? a + b : PY_SSIZE_T_MAX; }

/* Bytes of a value whose size is known without running the user's code; -1: another value. */
static Py_ssize_t plain_bytes(PyObject *v)
{
    if (v == Py_None || PyFloat_CheckExact(v) || PyLong_CheckExact(v) || PyBool_Check(v))
        return 8;
    if (PyUnicode_CheckExact(v))
        return PyUnicode_GetLength(v);
    if (PyBytes_CheckExact(v))
        return PyBytes_Size(v);
    return PyList_CheckExact(v) ? PyList_Size(v) : -1;
}

/* Bytes of any value: plain_bytes(), otherwise its attribute `nbytes`. -1: an exception. */
static Py_ssize_t bytes_of(PyObject *v)
{
    Py_ssize_t n = plain_bytes(v);
    PyObject *found;

    if (n >= 0)
        return n;
    if (!(found = PyObject_GetAttrString(v, "nbytes"))) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError))
            return -1;
        PyErr_Clear();
        return 8;
    }
    n = PyLong_Check(found) ? PyLong_AsSsize_t(found) : 8;
    Py_DECREF(found);
    PyErr_Clear();
    return n >= 0 ? n : 8;
}

/* Iterates over a copied list: a user's `nbytes` may change the dict. */
static Py_ssize_t bytes_of_values(PyObject *dict)
{
    PyObject *values = PyDict_Values(dict);
    Py_ssize_t total = values ? 0 : -1;

    for (Py_ssize_t i = 0; total >= 0 && i < PyList_Size(values); i++) {
        Py_ssize_t n = bytes_of(PyList_GetItem(values, i));

        total = n < 0 ? -1 : added(total, n);
    }
    Py_XDECREF(values);
    return total;
}

/* An estimate; 0 if the row is no dict. -1: an exception. */
static Py_ssize_t bytes_of_row(PyObject *row)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, total = 0;

    while (PyDict_Check(row) && PyDict_Next(row, &at, &key, &value)) {
        Py_ssize_t n = plain_bytes(value);

        if (n < 0)
            return bytes_of_values(row);
        total += n;
    }
    return total;
}

/* The next item, or what fn (NULL: none) makes of it. NULL: the end, or an exception. A StopIteration of fn is an
 * exception here, while it would end a map(). */
static PyObject *next_row(PyObject *iterator, PyObject *fn)
{
    PyObject *item = PyIter_Next(iterator), *row;

    if (!item || !fn)
        return item;
    row = PyObject_CallFunctionObjArgs(fn, item, NULL);
    Py_DECREF(item);
    return row;
}

PyObject *pyhr_take_rows(PyObject *module, PyObject *args)
{
    Py_ssize_t max_rows, max_bytes, n_bytes = 0, n = 0;
    PyObject *iterator, *fn = NULL, *row = Py_True, *rows; /* row: NULL at the iterator's end */

    (void)module;
    if (!PyArg_ParseTuple(args, "Onn|O", &iterator, &max_rows, &max_bytes, &fn))
        return NULL;
    fn = fn == Py_None ? NULL : fn;
    if (!PyIter_Check(iterator))
        return PyErr_Format(PyExc_TypeError, "take_rows: expected an iterator");
    rows = PyList_New(0);
    while (rows && n < max_rows && n_bytes < max_bytes && (row = next_row(iterator, fn))) {
        Py_ssize_t of_row = PyList_Append(rows, row) < 0 ? -1 : bytes_of_row(row);

        Py_DECREF(row);
        if (of_row < 0)
            Py_CLEAR(rows);
        else
            n_bytes = added(n_bytes, of_row);
        n++;
    }
    if (PyErr_Occurred())
        Py_CLEAR(rows);
    return rows ? Py_BuildValue("(NO)", rows, row ? Py_False : Py_True) : NULL;
}
