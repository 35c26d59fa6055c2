/* py_served.c - the way of requests for filesystems of pyarrow and fsspec to the Python threads that answer them:
 * served_new(), served_unref(), served_take(), served_answer() and served_refuse() of headrace._core.
 *
 * A job is a capsule. One that is dropped without an answer refuses its request: nobody waits for a thread that has
 * ended.
 *
 * Tests: test_served.py. */
#include "pyhr.h"

#include "io/http/remote.h"

#define JOB_NAME "headrace.served_job"

static void job_drop(PyObject *capsule)
{
    hr_served_job *job = PyCapsule_GetPointer(capsule, JOB_NAME);
    hr_error err = HR_ERROR_INIT;

    if (!job || PyCapsule_GetContext(capsule)) {
        PyErr_Clear();
        return;
    }
    (void)hr_error_set(&err, HR_IO, "the thread of the filesystem ended without an answer");
    Py_BEGIN_ALLOW_THREADS /* who waits for the answer may hold a lock and ask for signals */
    hr__served_refuse(job, &err);
    Py_END_ALLOW_THREADS
}

/* The job of the capsule, which is the caller's now; NULL with an exception. */
static hr_served_job *job_taken(PyObject *capsule)
{
    hr_served_job *job = PyCapsule_GetPointer(capsule, JOB_NAME);

    if (job && PyCapsule_GetContext(capsule)) {
        PyErr_SetString(PyExc_ValueError, "the request has its answer");
        return NULL;
    }
    return job && PyCapsule_SetContext(capsule, job) == 0 ? job : NULL;
}

PyObject *pyhr_served_new(PyObject *module, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    int64_t number;
    hr_status st = hr__served_new(&number, &err);

    (void)none;
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : PyLong_FromLongLong(number);
}

PyObject *pyhr_served_unref(PyObject *module, PyObject *number)
{
    long long n = PyLong_AsLongLong(number);

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    hr__served_unref(n);
    return Py_NewRef(Py_None);
}

static PyObject *path_of(const char *path)
{
    return PyUnicode_DecodeUTF8(path, (Py_ssize_t)strlen(path), "surrogateescape");
}

static PyObject *call_object(const hr_served_call *c)
{
    PyObject *capsule = PyCapsule_New(c->job, JOB_NAME, job_drop), *made = NULL;

    if (!capsule)
        return NULL;
    made = Py_BuildValue("(OLsNszzLLLy#i)", capsule, (long long)c->filesystem, c->method, path_of(c->path), c->query,
                         c->tag, c->lines, (long long)c->offset, (long long)c->n_bytes, (long long)c->n_file,
                         c->data ? (const char *)c->data : "", (Py_ssize_t)c->n_data, c->n_waiting);
    Py_DECREF(capsule);
    return made;
}

PyObject *pyhr_served_take(PyObject *module, PyObject *seconds)
{
    double wait_s = PyFloat_AsDouble(seconds);
    hr_served_call call;
    bool came;

    (void)module;
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    came = hr__served_take((int64_t)(wait_s * 1e9), &call);
    Py_END_ALLOW_THREADS
    if (!came)
        return Py_NewRef(Py_None);
    return call.job ? call_object(&call) : PyLong_FromLongLong(call.gone);
}

PyObject *pyhr_served_answer(PyObject *module, PyObject *args)
{
    PyObject *capsule, *data;
    const char *tag;
    Py_buffer view = { 0 };
    hr_served_job *job;

    (void)module;
    if (!PyArg_ParseTuple(args, "OOO&", &capsule, &data, pyhr_text_or_none, &tag) ||
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) < 0)
        return NULL;
    if (!(job = job_taken(capsule))) {
        PyBuffer_Release(&view);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    hr__served_answer(job, view.buf, (int64_t)view.len, tag);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&view);
    return Py_NewRef(Py_None);
}

static hr_status status_of(const char *name)
{
    static const struct {
        const char *name;
        hr_status st;
    } known[] = { { "not found", HR_NOT_FOUND },
                  { "mismatch", HR_MISMATCH },
                  { "bad data", HR_BAD_DATA },
                  { "invalid", HR_INVALID },
                  { "unsupported", HR_UNSUPPORTED } };

    for (int i = 0; i < HR_LEN(known); i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].st;
    return HR_IO;
}

PyObject *pyhr_served_refuse(PyObject *module, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    const char *name, *text, *detail;
    Py_ssize_t n_detail;
    PyObject *capsule;
    hr_served_job *job;

    (void)module;
    if (!PyArg_ParseTuple(args, "OsO&z#", &capsule, &name, pyhr_text_arg, &text, &detail, &n_detail) ||
        !(job = job_taken(capsule)))
        return NULL;
    (void)hr_error_set(&err, status_of(name), "%s", text);
    if (detail)
        hr_error_set_detail(&err, detail, (size_t)n_detail);
    Py_BEGIN_ALLOW_THREADS
    hr__served_refuse(job, &err);
    Py_END_ALLOW_THREADS
    return Py_NewRef(Py_None);
}
