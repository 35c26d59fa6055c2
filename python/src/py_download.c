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

PyObject *pyhr_download(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *capsule, *urls, *keep = NULL, *list = NULL;
    hr_download_limits limits = { 0 };
    hr_download *all = NULL;
    hr_error err = HR_ERROR_INIT;
    const char **url = NULL;
    hr_store *store;
    hr_status st;
    long long max_bytes;
    int n = 0, allow_private;

    if (!PyArg_ParseTuple(args, "OOLp", &capsule, &urls, &max_bytes, &allow_private) ||
        !(store = PyCapsule_GetPointer(capsule, name_of_stores)) || pyhr_texts(urls, "urls", &url, &n, &keep) < 0)
        return NULL;
    limits = (hr_download_limits){ .max_bytes = max_bytes, .allow_private = allow_private };
    all = PyMem_Calloc((size_t)n + 1, sizeof *all);
    if (all) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__download(store, url, n, &limits, all, &err);
        Py_END_ALLOW_THREADS
        list = st ? pyhr_raise(s, st, &err) : results(s, all, n);
    } else {
        PyErr_NoMemory();
    }
    for (int i = 0; all && i < n; i++)
        hr__download_clear(&all[i]);
    PyMem_Free(all);
    PyMem_Free(url);
    Py_XDECREF(keep);
    return list;
}
