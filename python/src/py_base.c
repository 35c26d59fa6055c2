/* py_base.c - what the types of the module share: texts of Python, types in the module, functions of convert.py.
 *
 * The files of types call these; none of these calls a type. */
#include "pyhr.h"

PyObject *pyhr_convert(pyhr_state *s, const char *name)
{
    if (!s->convert && !(s->convert = PyImport_ImportModule("headrace.data.convert")))
        return NULL;
    return PyObject_GetAttrString(s->convert, name);
}

int pyhr_add_type(PyObject *module, PyType_Spec *spec, PyTypeObject **out)
{
    *out = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
    return *out ? PyModule_AddType(module, *out) : -1;
}

/* Raises the module's InvalidArgument for one str. */
static const char *refuse_text(const char *fmt, PyObject *str)
{
    PyObject *module = PyImport_ImportModule("headrace._core");
    PyObject *cls = module ? PyObject_GetAttrString(module, "InvalidArgument") : NULL;

    if (cls)
        PyErr_Format(cls, fmt, str);
    Py_XDECREF(cls);
    Py_XDECREF(module);
    return NULL;
}

const char *pyhr_text(PyObject *str)
{
    const char *text;
    Py_ssize_t n = 0;

    if (!PyUnicode_Check(str)) {
        PyErr_Format(PyExc_TypeError, "expected str, found %R", (PyObject *)Py_TYPE(str));
        return NULL;
    }
    text = PyUnicode_AsUTF8AndSize(str, &n);
    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        return refuse_text("%R: expected text without lone surrogates", str);
    }
    if (text && memchr(text, 0, (size_t)n))
        return refuse_text("%R: expected a name, a path or a setting without zero bytes", str);
    return text;
}

int pyhr_text_arg(PyObject *str, void *out)
{
    const char **text = out;

    return (*text = pyhr_text(str)) ? 1 : 0;
}

int pyhr_text_or_none(PyObject *str, void *out)
{
    const char **text = out;

    if (str != Py_None)
        return pyhr_text_arg(str, out);
    *text = NULL;
    return 1;
}

int pyhr_texts(PyObject *list, const char *what, const char ***out, int *n, PyObject **keep)
{
    PyObject *tuple = PyUnicode_Check(list) ? NULL : PySequence_Tuple(list);
    Py_ssize_t count;

    *out = NULL;
    *keep = NULL;
    *n = 0;
    if (!tuple) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "%s: expected a list of str, found a str", what);
        return -1;
    }
    count = PyTuple_Size(tuple);
    *out = count < INT32_MAX ? PyMem_Calloc((size_t)count + 1, sizeof **out) : NULL;
    if (!*out) {
        PyErr_NoMemory();
        goto failed;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!((*out)[i] = pyhr_text(PyTuple_GetItem(tuple, i))))
            goto failed;
    *n = (int)count;
    *keep = tuple;
    return 0;
failed:
    PyMem_Free(*out);
    *out = NULL;
    Py_DECREF(tuple);
    return -1;
}

PyObject *pyhr_news(pyhr_state *s, hr_status st, hr_text *text, hr_error *err)
{
    PyObject *made = st ? NULL : PyUnicode_DecodeUTF8(text->n ? text->data : "", (Py_ssize_t)text->n, "replace");

    hr__text_clear(text);
    return st ? pyhr_raise(s, st, err) : made;
}

PyObject *pyhr_text_taken(pyhr_state *s, hr_status st, char *text, hr_error *err)
{
    PyObject *made;

    if (st)
        return pyhr_raise(s, st, err);
    made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    hr_string_free(text);
    return made;
}
