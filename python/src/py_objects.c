/* py_objects.c - single objects of stores, for the state that Python keeps there: object_read(), object_open(),
 * object_range(), object_save(), object_put(), objects_list(), objects_remove(), objects_upload(), objects_abort()
 * and url_is_writable() of headrace._core.
 *
 * The last argument of each is a list of texts 'name=value', the storage options. */
#include "pyhr.h"

#include "io/http/remote.h"

/* Storage options, and a list of texts, for the time of one call. */
typedef struct texts {
    const char **items;
    int n;
    PyObject *keep;
} texts;

static int texts_of(PyObject *list, const char *what, texts *out)
{
    return pyhr_texts(list, what, &out->items, &out->n, &out->keep);
}

static void texts_clear(texts *t)
{
    PyMem_Free(t->items);
    Py_XDECREF(t->keep);
}

static hr_store_options options_of(const texts *t) { return (hr_store_options){ t->items, t->n }; }

PyObject *pyhr_has_certificates(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyBool_FromLong(hr__http_has_certificates());
}

PyObject *pyhr_use_certificates(PyObject *module, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    const char *path;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&", pyhr_text_arg, &path))
        return NULL;
    st = hr__http_use_certificates(path, &err);
    if (st)
        return pyhr_raise(PyModule_GetState(module), st, &err);
    Py_RETURN_NONE;
}

PyObject *pyhr_url_is_writable(PyObject *module, PyObject *args)
{
    const char *url;

    (void)module;
    return PyArg_ParseTuple(args, "O&", pyhr_text_arg, &url) ? PyBool_FromLong(hr__url_is_store(url)) : NULL;
}

PyObject *pyhr_object_read(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *made = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    hr_text data = { 0 };
    texts given = { 0 };
    char *tag = NULL;
    long long offset = 0, n = INT64_MAX;
    const char *url;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&O|LL", pyhr_text_arg, &url, &list, &offset, &n) ||
        texts_of(list, "storage_options", &given) < 0)
        return NULL;
    options = options_of(&given);
    Py_BEGIN_ALLOW_THREADS
    st = hr__object_read_range(&options, url, offset, HR_MAX(n, 0), &data, &tag, &err);
    Py_END_ALLOW_THREADS
    made = st ? pyhr_raise(s, st, &err) : Py_BuildValue("(y#s)", data.data ? data.data : "", (Py_ssize_t)data.n, tag);
    hr__text_clear(&data);
    hr__free(tag);
    texts_clear(&given);
    return made;
}

#define OBJECT "headrace._core.object"

static void close_object(PyObject *capsule) { hr__source_unref(PyCapsule_GetPointer(capsule, OBJECT)); }

PyObject *pyhr_object_open(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *capsule, *made = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    hr_source *source = NULL;
    texts given = { 0 };
    char *tag = NULL;
    const char *url;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&O", pyhr_text_arg, &url, &list) || texts_of(list, "storage_options", &given) < 0)
        return NULL;
    options = options_of(&given);
    Py_BEGIN_ALLOW_THREADS
    st = hr__object_open(&options, url, &source, &tag, &err);
    Py_END_ALLOW_THREADS
    texts_clear(&given);
    capsule = st ? pyhr_raise(s, st, &err) : PyCapsule_New(source, OBJECT, close_object);
    if (capsule)
        made = Py_BuildValue("(NLs)", capsule, (long long)source->n_bytes, tag);
    else
        hr__source_unref(source);
    hr__free(tag);
    return made;
}

PyObject *pyhr_object_range(PyObject *module, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    PyObject *capsule, *made;
    long long offset, n;
    hr_source *source;
    hr_status st;

    if (!PyArg_ParseTuple(args, "OLL", &capsule, &offset, &n) || !(source = PyCapsule_GetPointer(capsule, OBJECT)))
        return NULL;
    offset = HR_MIN(HR_MAX(offset, 0), source->n_bytes);
    n = HR_MIN(HR_MAX(n, 0), source->n_bytes - offset);
    made = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)n);
    if (!made)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = n ? hr__source_read(source, (uint8_t *)PyBytes_AsString(made), offset, n, &err) : HR_OK;
    Py_END_ALLOW_THREADS
    if (st)
        Py_CLEAR(made);
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : made;
}

PyObject *pyhr_object_save(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    texts given = { 0 };
    const char *url, *path;
    PyObject *list;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&O&O", pyhr_text_arg, &url, pyhr_text_arg, &path, &list) ||
        texts_of(list, "storage_options", &given) < 0)
        return NULL;
    options = options_of(&given);
    Py_BEGIN_ALLOW_THREADS
    st = hr__object_save(&options, url, path, &err);
    Py_END_ALLOW_THREADS
    texts_clear(&given);
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

PyObject *pyhr_object_put(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *data, *made;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    const char *url, *if_tag;
    texts given = { 0 };
    Py_ssize_t n = 0;
    char *tag = NULL, *bytes;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&SO&O", pyhr_text_arg, &url, &data, pyhr_text_or_none, &if_tag, &list) ||
        PyBytes_AsStringAndSize(data, &bytes, &n) < 0 || texts_of(list, "storage_options", &given) < 0)
        return NULL;
    options = options_of(&given);
    Py_BEGIN_ALLOW_THREADS
    st = hr__object_put(&options, url, bytes, (int64_t)n, if_tag, &tag, &err);
    Py_END_ALLOW_THREADS
    made = st ? pyhr_raise(s, st, &err) : PyUnicode_FromString(tag);
    hr__free(tag);
    texts_clear(&given);
    return made;
}

/* List of (URL, bytes). */
static PyObject *pairs_of(const hr_paths *found)
{
    PyObject *out = PyList_New((Py_ssize_t)found->n);

    for (int64_t i = 0; out && i < found->n; i++) {
        const char *url = found->items[i].path;
        PyObject *text = PyUnicode_DecodeUTF8(url, (Py_ssize_t)strlen(url), "surrogateescape");
        PyObject *pair = text ? Py_BuildValue("(NL)", text, (long long)found->items[i].n_bytes) : NULL;

        if (!pair || PyList_SetItem(out, (Py_ssize_t)i, pair) < 0)
            Py_CLEAR(out);
    }
    return out;
}

PyObject *pyhr_objects_list(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *made;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    hr_paths found = { 0 };
    texts given = { 0 };
    const char *folder;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&O", pyhr_text_arg, &folder, &list) || texts_of(list, "storage_options", &given) < 0)
        return NULL;
    options = options_of(&given);
    Py_BEGIN_ALLOW_THREADS
    st = hr__objects_list(&options, folder, &found, &err);
    Py_END_ALLOW_THREADS
    made = st ? pyhr_raise(s, st, &err) : pairs_of(&found);
    hr__paths_clear(&found);
    texts_clear(&given);
    return made;
}

PyObject *pyhr_objects_remove(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *names;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    texts given = { 0 }, urls = { 0 };
    hr_status st = HR_INVALID;

    if (!PyArg_ParseTuple(args, "OO", &names, &list))
        return NULL;
    if (texts_of(names, "urls", &urls) == 0 && texts_of(list, "storage_options", &given) == 0) {
        options = options_of(&given);
        Py_BEGIN_ALLOW_THREADS
        st = hr__objects_remove(&options, urls.items, urls.n, &err);
        Py_END_ALLOW_THREADS
    }
    texts_clear(&urls);
    texts_clear(&given);
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

PyObject *pyhr_objects_upload(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    PyObject *list, *names, *files;
    hr_error err = HR_ERROR_INIT;
    hr_store_options options;
    texts given = { 0 }, urls = { 0 }, paths = { 0 };
    hr_status st = HR_INVALID;
    const char *folder;

    if (!PyArg_ParseTuple(args, "O&OOO", pyhr_text_arg, &folder, &names, &files, &list))
        return NULL;
    if (texts_of(names, "urls", &urls) == 0 && texts_of(files, "paths", &paths) == 0 &&
        texts_of(list, "storage_options", &given) == 0) {
        options = options_of(&given);
        Py_BEGIN_ALLOW_THREADS
        st = urls.n == paths.n ? hr__objects_upload(&options, folder, urls.items, paths.items, urls.n, &err)
                               : hr_error_set(&err, HR_INVALID, "%d URLs for %d files", urls.n, paths.n);
        Py_END_ALLOW_THREADS
    }
    texts_clear(&urls);
    texts_clear(&paths);
    texts_clear(&given);
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

PyObject *pyhr_objects_abort(PyObject *module, PyObject *args)
{
    pyhr_state *s = PyModule_GetState(module);
    hr_error err = HR_ERROR_INIT;
    hr_text report = { 0 };
    texts given = { 0 };
    const char *folder, *job;
    PyObject *list;
    hr_status st;

    if (!PyArg_ParseTuple(args, "O&O&O", pyhr_text_arg, &folder, pyhr_text_arg, &job, &list) ||
        texts_of(list, "storage_options", &given) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__store_clean(folder, job, given.items, given.n, &report, &err);
    Py_END_ALLOW_THREADS
    hr__text_clear(&report);
    texts_clear(&given);
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}
