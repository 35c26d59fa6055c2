/* py_error.c - the only file that turns a hr_status into a Python exception, and an exception into a hr_status.
 *
 * It makes the exception classes, once per module object; headrace/exceptions.py gives them their documented names, so
 * that they pickle. Each is a HeadraceError and also Python's class for the same fault, if there is one:
 * `except FileNotFoundError` catches NotFoundError.
 *
 * The exception of a user's filesystem arrives as the detail of an error of any status, whose cause it is.
 * The exception of a user's function arrives as HR_CALLBACK with a detail: the pickled exception and its traceback as
 * text. headrace.udf.errors rebuilds the exception with its own type; it never fails (its last resort is CallbackError
 * with the text). */
#include "pyhr.h"
#include "op/call.h"

#include <stdarg.h>
#include <stdio.h>

/* status, name, the built-in class beside HeadraceError, docstring */
static const struct {
    hr_status st;
    const char *name, *builtin, *doc;
} classes[] = {
    { HR_NO_MEMORY, "OutOfMemoryError", "MemoryError", "The system refused an allocation." },
    { HR_BUDGET, "MemoryLimitError", "MemoryError",
      "The work needs more than the memory limit; names the number of bytes." },
    { HR_INVALID, "InvalidArgument", "ValueError",
      "A wrong argument, or a column that does not exist; the caller can correct it." },
    { HR_TYPE, "TypeMismatchError", "TypeError", "A column's type does not fit; names the column and both types." },
    { HR_NOT_FOUND, "NotFoundError", "FileNotFoundError", "A file does not exist; names the file." },
    { HR_BAD_DATA, "DataError", "ValueError", "The input's bytes are wrong; names file and place." },
    { HR_IO, "StorageError", "OSError", "The system failed to read or write; names the file." },
    { HR_DISK_FULL, "DiskFullError", "OSError",
      "The disk has no space, or the quota is used up; names the file and the bytes." },
    { HR_UNSUPPORTED, "UnsupportedError", "NotImplementedError",
      "Well-formed input that this version does not support." },
    { HR_CALLBACK, "CallbackError", "RuntimeError",
      "A function raised an exception that this process cannot rebuild." },
    { HR_PEER, "PeerError", "ConnectionError",
      "A worker or trainer process died or closed its connection; names the process." },
    { HR_CANCELLED, "CancelledError", NULL, "The run was stopped." },
    { HR_MISMATCH, "MismatchError", "ValueError", "A position of another plan, or ranks that disagree." },
    { HR_BUG, "InternalError", "RuntimeError", "A bug in Headrace; please report it." },
};

int pyhr_errors_add(PyObject *module, pyhr_state *s)
{
    PyObject *builtins = PyImport_ImportModule("builtins");
    PyObject *base = builtins ? PyErr_NewExceptionWithDoc("headrace.exceptions.HeadraceError",
                                                          "The base class of all errors of Headrace.", NULL, NULL)
                              : NULL;
    int rc = -1;

    if (!base || PyModule_AddObjectRef(module, "HeadraceError", base) < 0)
        goto done;
    s->errors[hr__status_place(HR_OK)] = Py_NewRef(base);
    for (int i = 0; i < HR_LEN(classes); i++) {
        char name[80];
        PyObject *beside = NULL, *bases = NULL, *made = NULL;

        snprintf(name, sizeof name, "headrace.exceptions.%s", classes[i].name);
        if (classes[i].builtin && !(beside = PyObject_GetAttrString(builtins, classes[i].builtin)))
            goto done;
        bases = beside ? PyTuple_Pack(2, base, beside) : PyTuple_Pack(1, base);
        made = bases ? PyErr_NewExceptionWithDoc(name, classes[i].doc, bases, NULL) : NULL;
        Py_XDECREF(beside);
        Py_XDECREF(bases);
        if (!made)
            goto done;
        s->errors[hr__status_place(classes[i].st)] = made; /* the state owns the reference */
        if (PyModule_AddObjectRef(module, classes[i].name, made) < 0)
            goto done;
    }
    rc = 0;
done:
    Py_XDECREF(base);
    Py_XDECREF(builtins);
    return rc;
}

/* Sets the cause of the exception `made`: the one of a filesystem, which the detail has. */
static void set_cause(PyObject *made, const hr_error *err)
{
    PyObject *module = PyImport_ImportModule("headrace.udf.errors");
    PyObject *cause =
        module ? PyObject_CallMethod(module, "cause", "y#", err->detail, (Py_ssize_t)err->detail_bytes) : NULL;

    if (cause && cause != Py_None)
        PyException_SetCause(made, Py_NewRef(cause));
    PyErr_Clear();
    Py_XDECREF(cause);
    Py_XDECREF(module);
}

/* Rebuilds the user's exception in Python; NULL with an exception if that fails. */
static PyObject *rebuild(const hr_error *err)
{
    PyObject *module = PyImport_ImportModule("headrace.udf.errors");
    PyObject *made =
        module ? PyObject_CallMethod(module, "rebuild", "y#s", err->detail, (Py_ssize_t)err->detail_bytes, err->text)
               : NULL;

    Py_XDECREF(module);
    return made;
}

void *pyhr_raise(pyhr_state *s, hr_status st, hr_error *err)
{
    PyObject *text = NULL, *made = NULL;
    PyObject *cls = s->errors[hr__status_place(hr__status_is_error(st) ? st : HR_BUG)];

    if (PyErr_Occurred()) { /* a signal handler or a handler of inline calls raised */
        hr_error_clear(err);
        return NULL;
    }
    if (err && err->detail && st == HR_CALLBACK) {
        made = rebuild(err);
        if (made)
            PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    } else {
        const char *what = err && err->text[0] ? err->text : hr_status_text(st);

        text = PyUnicode_DecodeUTF8(what, (Py_ssize_t)strlen(what), "replace");
        made = text ? PyObject_CallFunctionObjArgs(cls, text, NULL) : NULL;
        if (made && err && err->detail)
            set_cause(made, err);
        if (made)
            PyErr_SetObject(cls, made);
    }
    Py_XDECREF(made);
    Py_XDECREF(text);
    hr_error_clear(err);
    return NULL;
}

void *pyhr_raise_text(pyhr_state *s, hr_status st, const char *fmt, ...)
{
    hr_error err = HR_ERROR_INIT;
    va_list args;

    va_start(args, fmt);
    vsnprintf(err.text, sizeof err.text, fmt, args);
    va_end(args);
    return pyhr_raise(s, st, &err);
}

hr_status pyhr_error_take(pyhr_state *s, hr_error *err)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL, *module = NULL, *pair = NULL;
    hr_status st = HR_CALLBACK;
    char *detail = NULL;
    Py_ssize_t n_detail = 0;
    const char *text = NULL;

    (void)s;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace && value)
        PyException_SetTraceback(value, trace);
    module = PyImport_ImportModule("headrace.udf.errors");
    pair = module && value ? PyObject_CallMethod(module, "pack", "O", value) : NULL; /* (text, bytes) */
    if (pair && PyTuple_Check(pair) && PyTuple_Size(pair) == 2) {
        text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), NULL);
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(pair, 1), &detail, &n_detail) < 0)
            detail = NULL;
    }
    hr_error_set(err, st, "%s", text ? text : "a function raised");
    if (detail)
        hr_error_set_detail(err, detail, (size_t)n_detail);
    PyErr_Clear();
    Py_XDECREF(pair);
    Py_XDECREF(module);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return st;
}
