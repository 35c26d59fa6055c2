/* py_spans.c - span_bins() of headrace._core: spans of a track, summed up for a page. */
#include "pyhr.h"

#include "exec/exec.h"

/* NULL and an exception: there is no memory. The caller frees it by PyMem_Free. */
static hr_track_span *spans_of(const double *numbers, Py_ssize_t n)
{
    hr_track_span *made = PyMem_Malloc((size_t)HR_MAX(n, 1) * sizeof *made);

    if (!made) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        double kind = numbers[3 * i + 2];

        made[i] = (hr_track_span){ numbers[3 * i], numbers[3 * i + 1],
                                   kind >= 0 && kind < HR_MOST_SPAN_KINDS ? (int)kind : -1 };
    }
    return made;
}

static PyObject *list_of(const hr_span_bin *bins, int64_t n)
{
    PyObject *made = PyList_New((Py_ssize_t)n);

    for (int64_t i = 0; made && i < n; i++) {
        const hr_span_bin *b = &bins[i];
        PyObject *one = Py_BuildValue("(Lidi)", (long long)b->index, (int)b->kind, b->share, (int)b->many);

        if (!one || PyList_SetItem(made, (Py_ssize_t)i, one) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *bins_of(pyhr_state *s, const Py_buffer *view, double width, long long most)
{
    Py_ssize_t n = view->len / (Py_ssize_t)(3 * sizeof(double));
    hr_track_span *spans = spans_of(view->buf, n);
    hr_error err = HR_ERROR_INIT;
    hr_span_bin *bins = NULL;
    PyObject *made;
    int64_t n_bins = 0;
    hr_status st;

    if (!spans)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__span_bins(spans, n, width, most, &bins, &n_bins, &err);
    Py_END_ALLOW_THREADS
    PyMem_Free(spans);
    made = st ? pyhr_raise(s, st, &err) : n_bins < 0 ? Py_NewRef(Py_None) : list_of(bins, n_bins);
    hr__free(bins);
    return made;
}

PyObject *pyhr_span_bins(PyObject *module, PyObject *args)
{
    Py_buffer view = { 0 };
    PyObject *numbers, *made = NULL;
    long long most;
    double width;

    if (!PyArg_ParseTuple(args, "OdL", &numbers, &width, &most) ||
        PyObject_GetBuffer(numbers, &view, PyBUF_FORMAT | PyBUF_ND) < 0)
        return NULL;
    if (most < 0 || most > INT32_MAX)
        PyErr_SetString(PyExc_ValueError, "span_bins: most: expected a number of bins");
    else if (!view.format || strcmp(view.format, "d") != 0 || view.len % (Py_ssize_t)(3 * sizeof(double)) != 0)
        PyErr_SetString(PyExc_ValueError, "span_bins: expected an array of 'd': begin, end and kind of each span");
    else
        made = bins_of(PyModule_GetState(module), &view, width, most);
    PyBuffer_Release(&view);
    return made;
}
