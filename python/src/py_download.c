/* py_download.c - objects of URLs that stand in a column: store() and download() of headrace._core.
 *
 * A store is a capsule; downloads of several threads share it. */
#include "pyhr.h"

#include "io/http/remote.h"

static const char name_of_stores[] = "headrace store";

static void store_free(PyObject *capsule) { hr__store_unref(PyCapsule_GetPointer(capsule, name_of_stores)); }

PyObject *pyhr_store(PyObject *module, PyObject *options)
{
    PyObject *keep = NULL, *capsule = NULL;
    hr_error err = HR_ERROR_INIT;
    const char **option = NULL;
    hr_store *store = NULL;
    hr_status st;
    int n = 0;

    if (pyhr_texts(options, "storage_options", &option, &n, &keep) < 0)
        return NULL;
    st = hr__store_new(option, n, NULL, &store, &err);
    PyMem_Free(option);
    Py_DECREF(keep);
    if (st)
        return pyhr_raise(PyModule_GetState(module), st, &err);
    capsule = PyCapsule_New(store, name_of_stores, store_free);
    if (!capsule)
        hr__store_unref(store);
    return capsule;
}

/* bytes; or the exception, not raised. */
static PyObject *result_of(pyhr_state *s, hr_download *d)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL;

    if (!d->st)
        return PyBytes_FromStringAndSize(d->data ? d->data : "", (Py_ssize_t)d->n);
    pyhr_raise(s, d->st, &d->err);
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

static PyObject *results(pyhr_state *s, hr_download *all, int n)
{
    PyObject *list = PyList_New(n);

    for (int i = 0; list && i < n; i++) {
        PyObject *one = result_of(s, &all[i]);

        hr__download_clear(&all[i]); /* so that an object is there twice at most */
        if (!one || PyList_SetItem(list, i, one) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static bool is_null(const hr_download *d, bool nulls)
{
    return nulls && d->st && d->st != HR_INVALID && d->st != HR_UNSUPPORTED;
}

/* The buffers of a column of large_binary. Frees each object when it is copied. */
static hr_status fill(hr_download *all, int n, hr_buffer *buffers[3], hr_error *err)
{
    int64_t *offsets, n_bytes = 0;

    for (int i = 0; i < n; i++)
        n_bytes += all[i].n;
    HR_TRY(hr__buffer_new(&(hr_mem){ 0 }, hr__bits_bytes(n), &buffers[0], err));
    HR_TRY(hr__buffer_new(&(hr_mem){ 0 }, (n + 1) * (int64_t)sizeof *offsets, &buffers[1], err));
    HR_TRY(hr__buffer_new(&(hr_mem){ 0 }, n_bytes, &buffers[2], err));
    hr__bits_fill(buffers[0]->data, 0, n, true);
    offsets = (int64_t *)(void *)buffers[1]->data;
    offsets[0] = 0;
    for (int i = 0; i < n; i++) {
        if (all[i].n)
            memcpy(buffers[2]->data + offsets[i], all[i].data, (size_t)all[i].n);
        offsets[i + 1] = offsets[i] + all[i].n;
        if (all[i].st)
            hr__bit_clear(buffers[0]->data, i);
        hr__download_clear(&all[i]);
    }
    return HR_OK;
}

/* A Column of large_binary, in memory of the engine; raises what failed, unless it is null. */
static PyObject *column_of(pyhr_state *s, hr_download *all, int n, bool nulls)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_array *made = NULL;
    hr_status st;

    for (int i = 0; i < n; i++)
        if (all[i].st && !is_null(&all[i], nulls))
            return pyhr_raise(s, all[i].st, &all[i].err);
    Py_BEGIN_ALLOW_THREADS
    st = fill(all, n, buffers, &err);
    if (!st)
        st = hr__array_new(hr__type_simple(HR_T_LARGE_BINARY), n, -1, buffers, NULL, 0, &made, &err);
    else
        for (int i = 0; i < 3; i++)
            hr__buffer_unref(buffers[i]);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : pyhr_column(s, made, NULL, false);
}

/* *all: n downloads, from PyMem. */
static int fetch(pyhr_state *s, PyObject *capsule, PyObject *urls, const hr_download_limits *limits, hr_download **all,
                 int *n)
{
    hr_store *store = PyCapsule_GetPointer(capsule, name_of_stores);
    hr_error err = HR_ERROR_INIT;
    const char **url = NULL;
    PyObject *keep = NULL;
    hr_status st = HR_OK;

    if (!store || pyhr_texts(urls, "urls", &url, n, &keep) < 0)
        return -1;
    *all = PyMem_Calloc((size_t)*n + 1, sizeof **all);
    if (*all) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__download(store, url, *n, limits, *all, &err);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_NoMemory();
    }
    PyMem_Free(url);
    Py_DECREF(keep);
    if (st)
        pyhr_raise(s, st, &err);
    return *all && !st ? 0 : -1;
}

/* download(store, urls, max_bytes, allow_private, nulls=None) */
PyObject *pyhr_download(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *capsule, *urls, *nulls = Py_None, *made = NULL;
    hr_download *all = NULL;
    long long max_bytes;
    int n = 0, allow_private;

    if (!PyArg_ParseTuple(args, "OOLp|O", &capsule, &urls, &max_bytes, &allow_private, &nulls))
        return NULL;
    if (fetch(s, capsule, urls, &(hr_download_limits){ .max_bytes = max_bytes, .allow_private = allow_private }, &all,
              &n) == 0)
        made = nulls == Py_None ? results(s, all, n) : column_of(s, all, n, PyObject_IsTrue(nulls) == 1);
    for (int i = 0; all && i < n; i++)
        hr__download_clear(&all[i]);
    PyMem_Free(all);
    return made;
}
