/* module.c - headrace._core: the module, its state, and its functions.
 *
 * Multi-phase init, heap types, no globals: each interpreter that imports the module has its own state. */
#include "pyhr.h"

#include <errno.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <signal.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------- process-wide settings */

static PyObject *set_num_threads(PyObject *module, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    long n = PyLong_AsLong(arg);
    hr_status st;

    if (n == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS /* waits for threads that end; one of them may need the GIL for a filename_provider */
    st = hr_set_num_threads((int)HR_MAX(HR_MIN(n, INT32_MAX), INT32_MIN), &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : Py_NewRef(Py_None);
}

static PyObject *set_memory_limit(PyObject *module, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = PyLong_AsLongLong(arg);
    hr_status st;

    if (n == -1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_set_memory_limit(n, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : Py_NewRef(Py_None);
}

static PyObject *parse_bytes(PyObject *module, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = 0;
    const char *text = pyhr_text(arg);
    hr_status st;

    if (!text)
        return NULL;
    st = hr_parse_bytes(text, &n, &err);
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : PyLong_FromLongLong(n);
}

static PyObject *set_spill_dir(PyObject *module, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    PyObject *bytes = NULL;
    const char *folder;
    hr_status st;

    if (arg != Py_None && !PyUnicode_FSConverter(arg, &bytes))
        return NULL;
    folder = bytes ? PyBytes_AsString(bytes) : NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr_set_spill_dir(folder, &err);
    Py_END_ALLOW_THREADS
    Py_XDECREF(bytes);
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : Py_NewRef(Py_None);
}

static PyObject *spill_dir(PyObject *module, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    hr_status st = hr_spill_dir(&text, &err);
    PyObject *made = st ? pyhr_raise(PyModule_GetState(module), st, &err) : PyUnicode_DecodeFSDefault(text);

    (void)none;
    hr_string_free(text);
    return made;
}

static PyObject *set_spill_quota(PyObject *module, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = PyLong_AsLongLong(arg);
    hr_status st;

    if (n == -1 && PyErr_Occurred())
        return NULL;
    st = hr_set_spill_quota(n, &err);
    return st ? pyhr_raise(PyModule_GetState(module), st, &err) : Py_NewRef(Py_None);
}

static PyObject *spill_quota(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLongLong(hr_spill_quota());
}

static PyObject *spill_used(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLongLong(hr_spill_used());
}

static PyObject *threads_are_fixed(PyObject *module, PyObject *none)
{
    (void)module;
    (void)none;
    return PyBool_FromLong(hr__threads_are_fixed());
}

static PyObject *num_threads(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLong(hr_num_threads());
}

static PyObject *memory_limit(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLongLong(hr_memory_limit());
}

static PyObject *memory_used(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLongLong(hr_memory_used());
}

static PyObject *memory_peak(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLongLong(hr_memory_peak());
}

static PyObject *memory_reset_peak(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    hr_memory_reset_peak();
    Py_RETURN_NONE;
}

static PyObject *live_bytes(PyObject *module, PyObject *none)
{
    (void)none;
    pyhr_drain_run(PyModule_GetState(module));
    return PyLong_FromLongLong(hr__live_bytes());
}

static PyObject *charge(PyObject *module, PyObject *arg)
{
    int64_t n = PyLong_AsLongLong(arg);

    (void)module;
    if (n == -1 && PyErr_Occurred())
        return NULL;
    hr__account_charge(NULL, n);
    Py_RETURN_NONE;
}

/* Makes the kernel kill this process when the thread that started it ends; False if the parent has ended. */
static PyObject *die_with_parent(PyObject *module, PyObject *arg)
{
    long parent = PyLong_AsLong(arg);

    (void)module;
    if (parent == -1 && PyErr_Occurred())
        return NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    return PyBool_FromLong(getppid() == (pid_t)parent);
}

static PyObject *cpus_allowed(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLong(hr__cpus_allowed());
}

/* "space-pid-start" of this process, the text of a hr_process. */
static PyObject *process_name(PyObject *module, PyObject *none)
{
    char text[80];
    hr_process self;

    (void)module, (void)none;
    (void)hr__process_self(&self); /* on failure zeros: a name of zeros never counts as gone */
    snprintf(text, sizeof text, "%016llx-%d-%lld", (unsigned long long)self.space, self.pid,
             (long long)self.start_ticks);
    return PyUnicode_FromString(text);
}

static PyObject *process_is_gone(PyObject *module, PyObject *arg)
{
    const char *text = pyhr_text(arg);
    unsigned long long space;
    long long ticks;
    int pid, end = 0;

    (void)module;
    if (!text)
        return NULL;
    if (sscanf(text, "%16llx-%d-%lld%n", &space, &pid, &ticks, &end) != 3 || text[end])
        Py_RETURN_FALSE;
    return PyBool_FromLong(hr__process_is_gone(&(hr_process){ .space = space, .pid = pid, .start_ticks = ticks }));
}

static PyObject *lock_file(PyObject *module, PyObject *arg)
{
    long fd = PyLong_AsLong(arg);
    int rc;

    (void)module;
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    rc = hr__file_lock(fd < 0 || fd > INT32_MAX ? -1 : (int)fd);
    if (rc && rc != -EAGAIN)
        Py_RETURN_NONE;
    return PyBool_FromLong(rc == 0);
}

static PyObject *from_arrow(PyObject *module, PyObject *arg)
{
    return pyhr_tables_from_arrow(PyModule_GetState(module), arg);
}

/* [(path, bytes)] */
static PyObject *paths_object(const hr_paths *p)
{
    PyObject *list = PyList_New((Py_ssize_t)p->n);

    for (int64_t i = 0; list && i < p->n; i++) {
        PyObject *pair =
            Py_BuildValue("(NL)", PyUnicode_DecodeFSDefault(p->items[i].path), (long long)p->items[i].n_bytes);

        if (!pair || PyList_SetItem(list, (Py_ssize_t)i, pair) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

static PyObject *list_files(PyObject *module, PyObject *args)
{
    PyObject *urls, *suffixes = Py_None, *keep[2] = { NULL, NULL }, *made = NULL;
    const char **url = NULL, **suffix = NULL;
    int n_urls = 0, n_suffixes = 0, ignore = 0;
    hr_error err = HR_ERROR_INIT;
    hr_paths paths = { 0 };
    hr_status st;

    if (!PyArg_ParseTuple(args, "O|Op", &urls, &suffixes, &ignore) ||
        pyhr_texts(urls, "paths", &url, &n_urls, &keep[0]) < 0 ||
        (suffixes != Py_None && pyhr_texts(suffixes, "file_extensions", &suffix, &n_suffixes, &keep[1]) < 0))
        goto done;
    Py_BEGIN_ALLOW_THREADS
    st = hr__paths_list(url, n_urls,
                        &(hr_paths_options){ .ignore_missing = ignore, .suffixes = suffix, .n_suffixes = n_suffixes },
                        NULL, &paths, &err);
    Py_END_ALLOW_THREADS
    made = st ? pyhr_raise(PyModule_GetState(module), st, &err) : paths_object(&paths);
    hr__paths_clear(&paths);
done:
    PyMem_Free(url);
    PyMem_Free(suffix);
    Py_XDECREF(keep[0]);
    Py_XDECREF(keep[1]);
    return made;
}

static PyMethodDef functions[] = {
    { "set_num_threads", set_num_threads, METH_O, "set_num_threads(n): number of pool threads; 0: the default." },
    { "num_threads", num_threads, METH_NOARGS, "Number of pool threads." },
    { "threads_are_fixed", threads_are_fixed, METH_NOARGS, "Whether that number was given, so that no run moves it." },
    { "set_memory_limit", set_memory_limit, METH_O,
      "set_memory_limit(bytes): memory limit for data in this process; 0: the default." },
    { "memory_limit", memory_limit, METH_NOARGS, "The memory limit for data in this process, in bytes." },
    { "memory_used", memory_used, METH_NOARGS, "Bytes that data uses now, with free buffers in the pool." },
    { "memory_peak", memory_peak, METH_NOARGS,
      "The most bytes that data used since the start or memory_reset_peak()." },
    { "memory_reset_peak", memory_reset_peak, METH_NOARGS, "Resets memory_peak() to the present use." },
    { "set_spill_dir", set_spill_dir, METH_O, "set_spill_dir(folder): folder of spill files; None: the default." },
    { "spill_dir", spill_dir, METH_NOARGS, "Folder of spill files." },
    { "set_spill_quota", set_spill_quota, METH_O,
      "set_spill_quota(bytes): the most bytes in spill files; < 0: the default." },
    { "spill_quota", spill_quota, METH_NOARGS, "The most bytes in spill files; < 0: no quota." },
    { "spill_used", spill_used, METH_NOARGS, "Bytes in spill files now." },
    { "live_bytes", live_bytes, METH_NOARGS, "Bytes in live blocks; tests compare the number before and after." },
    { "row_dicts", pyhr_row_dicts, METH_VARARGS,
      "row_dicts(n, names, columns): list of n row dicts; names and columns (lists of n values) are tuples." },
    { "take_rows", pyhr_take_rows, METH_VARARGS,
      "take_rows(iterator, max_rows, max_bytes, fn=None): (list of the next rows, or of fn(row) for each, at most "
      "max_rows or about max_bytes; whether the iterator has ended)." },
    { "command", pyhr_command, METH_O,
      "command(argv): runs the command headrace with a list of bytes, of which the first is its name; -> exit status. "
      "Ctrl-C ends the process from then on." },
    { "charge", charge, METH_O,
      "charge(bytes): adds bytes (may be negative) that other processes use, as function workers do." },
    { "parse_bytes", parse_bytes, METH_O, "'256MiB' -> 268435456." },
    { "die_with_parent", die_with_parent, METH_O,
      "die_with_parent(pid): makes the kernel SIGKILL this process when its parent ends; False if it has ended." },
    { "cpus_allowed", cpus_allowed, METH_NOARGS,
      "Cores that this process may use: its affinity, at most the quota of its control group." },
    { "store", pyhr_store, METH_O, "store(options): how URLs are reached, of texts 'name=value'." },
    { "download", pyhr_download, METH_VARARGS,
      "download(store, urls, max_bytes, allow_private, nulls=None): a list of bytes, or of the exception for a URL\n"
      "that failed; with nulls a Column: True, what cannot be read is null; False, it raises. Waits for all.\n"
      "max_bytes 0: no limit." },
    { "span_bins", pyhr_span_bins, METH_VARARGS,
      "span_bins(spans, width, most): (index, kind, share, how many begin) of each bin of that width that spans of a\n"
      "kind touch, by index and kind; None: more than `most`. spans: an array 'd' of begin, end and kind of each, in\n"
      "the order of their begin. InvalidArgument: they are out of order." },
    { "has_certificates", pyhr_has_certificates, METH_NOARGS,
      "Whether SSL_CERT_FILE or the system name certificates to trust." },
    { "use_certificates", pyhr_use_certificates, METH_VARARGS,
      "use_certificates(path): where they do not, those of this file are." },
    { "url_is_writable", pyhr_url_is_writable, METH_VARARGS, "url_is_writable(url): whether writers know its scheme." },
    { "object_read", pyhr_object_read, METH_VARARGS,
      "object_read(url, options, offset=0, n=...): (bytes, version), of n bytes from offset on, or of the last "
      "-offset\n"
      "ones; NotFoundError: there is no such object." },
    { "object_open", pyhr_object_open, METH_VARARGS,
      "object_open(url, options): (object, bytes, version) for object_range(); NotFoundError: there is none." },
    { "object_range", pyhr_object_range, METH_VARARGS,
      "object_range(object, offset, n): at most n bytes from offset on; DataError: it was replaced meanwhile." },
    { "object_save", pyhr_object_save, METH_VARARGS,
      "object_save(url, path, options): copies an object into a local file, which appears when it is complete." },
    { "object_put", pyhr_object_put, METH_VARARGS,
      "object_put(url, data, version, options): makes an object; version: only in its place, '': only if there is none "
      "(else MismatchError), None: in any case; -> its version." },
    { "objects_list", pyhr_objects_list, METH_VARARGS,
      "objects_list(folder, options): (URL, bytes) of all objects below it, also of hidden ones." },
    { "objects_remove", pyhr_objects_remove, METH_VARARGS,
      "objects_remove(urls, options): removes objects; those that are not there are no error." },
    { "objects_upload", pyhr_objects_upload, METH_VARARGS,
      "objects_upload(folder, urls, paths, options): copies local files; they appear when all have arrived." },
    { "served_new", pyhr_served_new, METH_NOARGS, "served_new(): the number of a new filesystem, with a reference." },
    { "served_unref", pyhr_served_unref, METH_O, "served_unref(number): drops a reference." },
    { "served_take", pyhr_served_take, METH_O,
      "served_take(seconds): waits for a request for a filesystem: (job, number, method, path, query, tag, lines, "
      "offset, bytes, bytes of the file, data, requests that still wait); the number of a filesystem that nobody uses "
      "any more; or None." },
    { "served_answer", pyhr_served_answer, METH_VARARGS,
      "served_answer(job, data, tag): ends a request. tag: the version of a file that was put; None." },
    { "served_refuse", pyhr_served_refuse, METH_VARARGS,
      "served_refuse(job, status, text, detail): ends a request with an error. detail: of udf.errors.pack(), or "
      "None." },
    { "objects_abort", pyhr_objects_abort, METH_VARARGS,
      "objects_abort(folder, job, options): aborts the unfinished uploads of a job ('': of all) below it, and "
      "completes "
      "what jobs have decided." },
    { "process_name", process_name, METH_NOARGS,
      "A name of this process that is unique on a shared file system: 'space-pid-start'." },
    { "process_is_gone", process_is_gone, METH_O,
      "process_is_gone(name): True only if the process has certainly ended; False for other containers." },
    { "lock_file", lock_file, METH_O,
      "lock_file(fd): True: locked; False: another process has the lock; None: locks prove nothing here." },
    { "from_arrow", from_arrow, METH_O,
      "from_arrow(source): list of Tables from an object with __arrow_c_stream__ or __arrow_c_array__; shares "
      "buffers." },
    { "list_files", list_files, METH_VARARGS,
      "list_files(urls, suffixes=None, ignore_missing=False): [(path, bytes)], in the order of a scan." },
    { NULL, NULL, 0, NULL },
};

/* Runs signal handlers, on the program's first thread alone: Ctrl-C ends a wait for the network. The exception stays
 * set, and pyhr_raise leaves it. */
static bool was_interrupted(void)
{
    PyGILState_STATE gil;
    bool raised;

    if (syscall(SYS_gettid) != getpid())
        return false;
    gil = PyGILState_Ensure();
    raised = PyErr_CheckSignals() < 0;
    PyGILState_Release(gil);
    return raised;
}

static int module_exec(PyObject *module)
{
    pyhr_state *s = PyModule_GetState(module);

    hr__reads_ask(was_interrupted);
    if (pyhr_log_begin() < 0)
        return -1;
    s->drain = pyhr_drain_new();
    if (!s->drain) {
        PyErr_NoMemory();
        return -1;
    }
    if (PyModule_AddStringConstant(module, "__version__", hr_version()) < 0 || pyhr_errors_add(module, s) < 0 ||
        pyhr_table_types(module, s) < 0 || pyhr_column_types(module, s) < 0 || pyhr_expr_types(module, s) < 0 ||
        pyhr_plan_types(module, s) < 0 || pyhr_udf_types(module, s) < 0 || pyhr_feed_types(module, s) < 0 ||
        pyhr_split_types(module, s) < 0 || pyhr_materialized_types(module, s) < 0)
        return -1;
    return 0;
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
    pyhr_state *s = PyModule_GetState(module);

    for (int i = 0; i < HR__N_STATUS; i++)
        Py_VISIT(s->errors[i]);
    Py_VISIT(s->table);
    Py_VISIT(s->column);
    Py_VISIT(s->schema);
    Py_VISIT(s->expr);
    Py_VISIT(s->plan);
    Py_VISIT(s->feed);
    Py_VISIT(s->split);
    Py_VISIT(s->ring);
    Py_VISIT(s->ring_server);
    Py_VISIT(s->calls);
    Py_VISIT(s->call);
    Py_VISIT(s->worker);
    Py_VISIT(s->materialized);
    Py_VISIT(s->convert);
    return 0;
}

static int module_clear(PyObject *module)
{
    pyhr_state *s = PyModule_GetState(module);

    for (int i = 0; i < HR__N_STATUS; i++)
        Py_CLEAR(s->errors[i]);
    Py_CLEAR(s->table);
    Py_CLEAR(s->column);
    Py_CLEAR(s->schema);
    Py_CLEAR(s->expr);
    Py_CLEAR(s->plan);
    Py_CLEAR(s->feed);
    Py_CLEAR(s->split);
    Py_CLEAR(s->ring);
    Py_CLEAR(s->ring_server);
    Py_CLEAR(s->calls);
    Py_CLEAR(s->call);
    Py_CLEAR(s->worker);
    Py_CLEAR(s->materialized);
    Py_CLEAR(s->convert);
    return 0;
}

static void module_free(void *module)
{
    pyhr_state *s = PyModule_GetState(module);

    module_clear(module);
    if (s->drain) {
        pyhr_drain_free(s->drain);
        s->drain = NULL;
    }
}

static PyModuleDef_Slot slots[] = {
    { Py_mod_exec, module_exec },
    { 0, NULL },
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "headrace._core",
    .m_doc = "The engine's types and functions. Users import headrace.data and headrace.train instead.",
    .m_size = sizeof(pyhr_state),
    .m_methods = functions,
    .m_slots = slots,
    .m_traverse = module_traverse,
    .m_clear = module_clear,
    .m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&module_def); }
