/* py_udf.c - user functions: Calls, the queue; Call, one entry; Worker, the queue's end in a worker process.
 *
 * The engine's poller serves worker processes after add_worker(). Threads and the consumer's own thread ("inline") take
 * calls from the same queue: call = calls.take(server, ms); call.result(table) ...; call.done() or call.fail(). A Call
 * without either fails when its last reference goes. */
#include "pyhr.h"
#include "op/call.h"

/* ------------------------------------------------------------------------------------------------------------ Calls */

typedef struct calls_object {
    PyObject ob_base;
    hr_calls *calls;
    int pid; /* the owner: in a forked child the workers belong to the parent */
} calls_object;

hr_calls *pyhr_calls_of(pyhr_state *s, PyObject *op)
{
    if (Py_IS_TYPE(op, s->calls))
        return ((calls_object *)op)->calls;
    PyErr_Format(PyExc_TypeError, "expected Calls, found %R", (PyObject *)Py_TYPE(op));
    return NULL;
}

static PyObject *calls_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "name", NULL };
    pyhr_state *s = PyType_GetModuleState(cls);
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    calls_object *self;
    const char *name;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s", names, &name))
        return NULL;
    st = hr__calls_new(name, &calls, &err);
    if (st)
        return pyhr_raise(s, st, &err);
    self = PyObject_New(calls_object, cls);
    if (!self) {
        hr__calls_unref(calls);
        return NULL;
    }
    self->calls = calls;
    self->pid = hr__pid();
    return (PyObject *)self;
}

static void calls_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);
    hr_calls *calls = ((calls_object *)op)->calls;

    if (((calls_object *)op)->pid == hr__pid()) {
        Py_BEGIN_ALLOW_THREADS
        hr__calls_unref(calls);
        Py_END_ALLOW_THREADS
    }
    PyObject_Free(op);
    Py_DECREF(type);
}

typedef struct call_object {
    PyObject ob_base;
    hr_call *call; /* NULL: ended */
    hr_calls *calls;
} call_object;

static PyObject *call_new(pyhr_state *s, hr_calls *calls, hr_call *takes)
{
    call_object *self = PyObject_New(call_object, s->call);
    hr_error err = HR_ERROR_INIT;

    if (!self) {
        hr__call_done(takes, hr__error_memory(&err, "call", sizeof *self), &err);
        return NULL;
    }
    self->call = takes;
    self->calls = hr__calls_ref(calls);
    return (PyObject *)self;
}

/* Takes the interpreter's lock, and counts the time of this as a wait of a server of `calls`; NULL: does not. */
static void lock_again(hr_calls *calls, PyThreadState *thread)
{
    int64_t begin = hr__clock_ns();

    PyEval_RestoreThread(thread);
    if (calls)
        hr__calls_waited(calls, hr__clock_ns() - begin);
}

/* take(server, timeout_ms): a Call, None after timeout_ms, False when the queue is closed. */
static PyObject *calls_take(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_calls *calls = ((calls_object *)op)->calls;
    hr_error err = HR_ERROR_INIT;
    hr_call *call = NULL;
    unsigned long long server;
    PyThreadState *lock;
    int timeout_ms;
    hr_status st;

    if (!PyArg_ParseTuple(args, "Ki", &server, &timeout_ms))
        return NULL;
    lock = PyEval_SaveThread();
    st = hr__calls_take(calls, server, timeout_ms, &call, &err);
    lock_again(st ? NULL : calls, lock);
    if (st == HR_PENDING || st == HR_CANCELLED) {
        hr_error_clear(&err);
        return Py_NewRef(st == HR_PENDING ? Py_None : Py_False);
    }
    if (st)
        return pyhr_raise(s, st, &err);
    return call_new(s, calls, call);
}

static PyObject *calls_add_worker(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_calls *calls = ((calls_object *)op)->calls;
    hr_error err = HR_ERROR_INIT;
    int fd, pid;
    const char *init;
    Py_ssize_t n;
    hr_status st;

    if (!PyArg_ParseTuple(args, "iiy#", &fd, &pid, &init, &n))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__calls_add_worker(calls, fd, pid, init, n, &err);
    Py_END_ALLOW_THREADS
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

static PyObject *calls_expect(PyObject *op, PyObject *args)
{
    hr_error why = HR_ERROR_INIT;
    const char *text = NULL;
    int n = 1;

    if (!PyArg_ParseTuple(args, "|iz", &n, &text))
        return NULL;
    if (text)
        hr_error_set(&why, HR_PEER, "%s", text);
    Py_BEGIN_ALLOW_THREADS /* calls without a server fail now */
    hr__calls_expect(((calls_object *)op)->calls, n, text ? &why : NULL);
    Py_END_ALLOW_THREADS
    hr_error_clear(&why);
    Py_RETURN_NONE;
}

static PyObject *calls_configure(PyObject *op, PyObject *args)
{
    int depth, max_retries;

    if (!PyArg_ParseTuple(args, "ii", &depth, &max_retries))
        return NULL;
    hr__calls_configure(((calls_object *)op)->calls, depth, max_retries);
    Py_RETURN_NONE;
}

static PyObject *calls_set_code(PyObject *op, PyObject *arg)
{
    const char *code = pyhr_text(arg);

    if (!code)
        return NULL;
    if (strlen(code) != 16) {
        PyErr_SetString(PyExc_ValueError, "set_code: expected 16 hex digits");
        return NULL;
    }
    hr__calls_set_code(((calls_object *)op)->calls, code);
    Py_RETURN_NONE;
}

static PyObject *calls_end_idle(PyObject *op, PyObject *none)
{
    int pid;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    pid = hr__calls_end_idle(((calls_object *)op)->calls);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(pid);
}

static PyObject *calls_busy(PyObject *op, PyObject *none)
{
    int pids[1024], n = hr__calls_busy(((calls_object *)op)->calls, pids, HR_LEN(pids));
    PyObject *made = PyList_New(n);

    (void)none;
    for (int i = 0; made && i < n; i++) {
        PyObject *pid = PyLong_FromLong(pids[i]);

        if (!pid || PyList_SetItem(made, i, pid) < 0)
            Py_CLEAR(made);
    }
    return made;
}

static PyObject *calls_measured(PyObject *op, PyObject *arg)
{
    long long n = PyLong_AsLongLong(arg);

    if (n == -1 && PyErr_Occurred())
        return NULL;
    hr__calls_measured(((calls_object *)op)->calls, n);
    Py_RETURN_NONE;
}

static PyObject *calls_runs(PyObject *op, PyObject *arg)
{
    unsigned long long run = PyLong_AsUnsignedLongLong(arg);
    bool found;

    if (run == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = hr__calls_runs(((calls_object *)op)->calls, run);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(found);
}

static PyObject *calls_paused(PyObject *op, PyObject *arg)
{
    unsigned long long tag = PyLong_AsUnsignedLongLong(arg);

    if (tag == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    return PyBool_FromLong(hr__calls_paused(((calls_object *)op)->calls, tag));
}

/* (number of batches left out since the last call, text of the first error, its pickled exception) */
static PyObject *calls_errored(PyObject *op, PyObject *none)
{
    hr_error first = HR_ERROR_INIT;
    PyObject *made;
    int64_t n;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    n = hr__calls_errored(((calls_object *)op)->calls, &first);
    Py_END_ALLOW_THREADS
    made = Py_BuildValue("Lsy#", (long long)n, first.text, first.detail ? (const char *)first.detail : "",
                         (Py_ssize_t)first.detail_bytes);
    hr_error_clear(&first);
    return made;
}

static PyObject *calls_close(PyObject *op, PyObject *none)
{
    hr_calls *calls = ((calls_object *)op)->calls;

    (void)none;
    Py_BEGIN_ALLOW_THREADS
    hr__calls_close(calls);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *calls_n_workers(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLong(hr__calls_n_workers(((calls_object *)op)->calls));
}

static PyObject *calls_n_waiting(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLong(hr__calls_n_waiting(((calls_object *)op)->calls));
}

static PyObject *calls_ended(PyObject *op, void *none)
{
    int64_t n, busy_ns, waited_ns;

    (void)none;
    hr__calls_ended(((calls_object *)op)->calls, &n, &busy_ns, &waited_ns);
    return Py_BuildValue("Ldd", (long long)n, (double)busy_ns / 1e9, (double)waited_ns / 1e9);
}

static PyObject *calls_n_expected(PyObject *op, void *none)
{
    (void)none;
    return PyLong_FromLong(hr__calls_n_expected(((calls_object *)op)->calls));
}

static PyMethodDef calls_methods[] = {
    { "take", calls_take, METH_VARARGS,
      "take(server, timeout_ms): a Call; None if there was none; False when the queue is closed." },
    { "add_worker", calls_add_worker, METH_VARARGS,
      "add_worker(fd, pid, init): a worker process at the other end of this socket (taken); it gets the init bytes "
      "first." },
    { "expect", calls_expect, METH_VARARGS,
      "expect(n=1, why=None): n more workers will start; calls wait for them even if there is no worker yet." },
    { "configure", calls_configure, METH_VARARGS,
      "configure(depth, max_retries): calls of a worker at a time (0: by their duration); how often to repeat a call\n"
      "whose worker died (-1: always)." },
    { "set_code", calls_set_code, METH_O, "set_code(text): 16 hex digits, a hash of the function." },
    { "end_idle", calls_end_idle, METH_NOARGS,
      "Ends a worker without calls; returns its process id, or 0 if there is none." },
    { "busy", calls_busy, METH_NOARGS, "Process ids of workers that run a call." },
    { "measured", calls_measured, METH_O, "measured(bytes): private memory of the workers, for stats." },
    { "runs", calls_runs, METH_O, "runs(run): whether the run with this number (from a Call's place) still goes on." },
    { "paused", calls_paused, METH_O, "paused(tag): whether a paused call is still needed." },
    { "errored", calls_errored, METH_NOARGS,
      "(batches left out since the last call, text and detail of the first error)." },
    { "close", calls_close, METH_NOARGS, "Ends the workers; waiting calls fail, take() returns False." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef calls_getset[] = {
    { "n_workers", calls_n_workers, NULL, "Number of worker processes.", NULL },
    { "n_expected", calls_n_expected, NULL, "Number of worker processes that will start.", NULL },
    { "n_waiting", calls_n_waiting, NULL, "Number of calls that no server has taken.", NULL },
    { "ended", calls_ended, NULL,
      "(calls that have ended, seconds that they took, seconds of these without work for a CPU), of all runs.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot calls_slots[] = {
    { Py_tp_doc, "Calls(name): a queue of function calls. It outlives runs." },
    { Py_tp_new, calls_make },
    { Py_tp_dealloc, calls_dealloc },
    { Py_tp_methods, calls_methods },
    { Py_tp_getset, calls_getset },
    { 0, NULL },
};

static PyType_Spec calls_spec = {
    .name = "headrace._core.Calls",
    .basicsize = sizeof(calls_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = calls_slots,
};

/* ------------------------------------------------------------------------------------------------------------- Call */

static void call_end(call_object *self, hr_status st, hr_error *err)
{
    hr_call *call = self->call;
    PyThreadState *lock;

    self->call = NULL;
    lock = PyEval_SaveThread();
    hr__call_done(call, st, err);
    lock_again(self->calls, lock);
}

static void call_dealloc(PyObject *op)
{
    call_object *self = (call_object *)op;
    PyTypeObject *type = Py_TYPE(op);
    hr_error err = HR_ERROR_INIT;

    if (self->call)
        call_end(self, hr_error_set(&err, HR_CALLBACK, "a function call was dropped without a result"), &err);
    hr__calls_unref(self->calls);
    PyObject_Free(op);
    Py_DECREF(type);
}

static int call_check(call_object *self)
{
    if (self->call)
        return 0;
    PyErr_SetString(PyExc_ValueError, "the call has ended");
    return -1;
}

static PyObject *place_object(const hr_call_place *p)
{
    return Py_BuildValue("KLiLKLKI", (unsigned long long)p->seed, (long long)p->epoch, (int)p->op_index,
                         (long long)p->ordinal, (unsigned long long)p->random, (long long)p->limit_bytes,
                         (unsigned long long)p->run, (unsigned int)p->flags);
}

static PyObject *call_table(PyObject *op, void *none)
{
    call_object *self = (call_object *)op;

    (void)none;
    if (call_check(self) < 0)
        return NULL;
    return pyhr_table(pyhr_state_of(op), hr_table_ref((hr_table *)(uintptr_t)hr__call_input(self->call)));
}

static PyObject *call_place(PyObject *op, void *none)
{
    call_object *self = (call_object *)op;
    hr_call_place place;

    (void)none;
    if (call_check(self) < 0)
        return NULL;
    hr__call_place(self->call, &place);
    return place_object(&place);
}

static PyObject *call_state(PyObject *op, void *none)
{
    call_object *self = (call_object *)op;
    const char *state;

    (void)none;
    if (call_check(self) < 0)
        return NULL;
    state = hr__call_state(self->call);
    return state ? PyUnicode_DecodeUTF8(state, (Py_ssize_t)strlen(state), "replace") : Py_NewRef(Py_None);
}

/* The batches of a call, as bytes of an array of (rows, ordinal: int64, random: uint64). */
static PyObject *batches_object(const hr_batch_place *batches, int64_t n)
{
    return PyBytes_FromStringAndSize((const char *)batches, (Py_ssize_t)(n * (int64_t)sizeof *batches));
}

static PyObject *call_batches(PyObject *op, void *none)
{
    call_object *self = (call_object *)op;
    const hr_batch_place *batches;
    int64_t n;

    (void)none;
    if (call_check(self) < 0)
        return NULL;
    n = hr__call_batches(self->call, &batches);
    return batches_object(batches, n);
}

static PyObject *call_tag(PyObject *op, void *none)
{
    call_object *self = (call_object *)op;

    (void)none;
    return call_check(self) < 0 ? NULL : PyLong_FromUnsignedLongLong(hr__call_tag(self->call));
}

/* (table, batch=0, counts=None): counts is an array of int64. */
typedef struct result_args {
    unsigned long long tag; /* only for a Worker */
    hr_table *table;
    hr_result_place of;
    Py_buffer counts;
} result_args;

static int result_parse(pyhr_state *s, PyObject *args, const char *format, result_args *out)
{
    PyObject *table, *counts = Py_None;
    long long batch = 0;
    int ok;

    *out = (result_args){ 0 };
    ok = format[0] == 'K' ? PyArg_ParseTuple(args, format, &out->tag, &table, &batch, &counts)
                          : PyArg_ParseTuple(args, format, &table, &batch, &counts);
    if (!ok || !(out->table = pyhr_table_of(s, table)))
        return -1;
    out->of.batch = batch;
    if (counts == Py_None)
        return 0;
    if (PyObject_GetBuffer(counts, &out->counts, PyBUF_SIMPLE) < 0)
        return -1;
    out->of.counts = out->counts.buf;
    out->of.n_counts = out->counts.len / (Py_ssize_t)sizeof(int64_t);
    return 0;
}

static void result_clear(result_args *a)
{
    if (a->counts.obj)
        PyBuffer_Release(&a->counts);
}

/* Moves the call out of its object for a use without the GIL; other threads meanwhile see an ended call. NULL with an
 * exception: the call has ended. */
static hr_call *call_hold(call_object *self, result_args *a)
{
    hr_call *call = self->call;

    if (call_check(self) < 0)
        result_clear(a);
    self->call = NULL;
    return call;
}

static PyObject *call_result(PyObject *op, PyObject *args)
{
    call_object *self = (call_object *)op;
    hr_call *call;
    PyThreadState *lock;
    result_args a;

    if (result_parse(pyhr_state_of(op), args, "O|LO", &a) < 0 || !(call = call_hold(self, &a)))
        return NULL;
    lock = PyEval_SaveThread();
    hr__call_result(call, hr_table_ref(a.table), &a.of);
    lock_again(self->calls, lock);
    self->call = call;
    result_clear(&a);
    Py_RETURN_NONE;
}

static PyObject *call_stream(PyObject *op, PyObject *args)
{
    call_object *self = (call_object *)op;
    hr_call *call;
    PyThreadState *lock;
    result_args a;
    hr_go go;

    if (result_parse(pyhr_state_of(op), args, "O|LO", &a) < 0 || !(call = call_hold(self, &a)))
        return NULL;
    lock = PyEval_SaveThread();
    go = hr__call_stream(call, hr_table_ref(a.table), &a.of);
    lock_again(self->calls, lock);
    self->call = call;
    result_clear(&a);
    return PyLong_FromLong(go);
}

static PyObject *call_save(PyObject *op, PyObject *args)
{
    call_object *self = (call_object *)op;
    hr_call *call = self->call;
    const char *state;

    if (!PyArg_ParseTuple(args, "s", &state) || call_check(self) < 0)
        return NULL;
    self->call = NULL;
    Py_BEGIN_ALLOW_THREADS
    hr__call_save(call, state);
    Py_END_ALLOW_THREADS
    self->call = call;
    Py_RETURN_NONE;
}

/* fn(call) without the GIL; meanwhile nobody else uses the call. The call ends with it unless it `goes_on`. */
static PyObject *call_do(PyObject *op, void (*fn)(hr_call *), bool goes_on)
{
    call_object *self = (call_object *)op;
    hr_call *call = self->call;

    if (call_check(self) < 0)
        return NULL;
    self->call = NULL;
    Py_BEGIN_ALLOW_THREADS
    fn(call);
    Py_END_ALLOW_THREADS
    if (goes_on)
        self->call = call;
    Py_RETURN_NONE;
}

static PyObject *call_begins(PyObject *op, PyObject *none)
{
    (void)none;
    return call_do(op, hr__call_begins, true);
}

static PyObject *call_pause(PyObject *op, PyObject *none)
{
    (void)none;
    return call_do(op, hr__call_pause, false);
}

static PyObject *call_done(PyObject *op, PyObject *none)
{
    call_object *self = (call_object *)op;
    hr_error err = HR_ERROR_INIT;

    (void)none;
    if (call_check(self) < 0)
        return NULL;
    call_end(self, HR_OK, &err);
    Py_RETURN_NONE;
}

static int error_from(PyObject *args, hr_error *err)
{
    const char *text, *detail;
    Py_ssize_t n;

    if (!PyArg_ParseTuple(args, "sy#", &text, &detail, &n))
        return -1;
    hr_error_set(err, HR_CALLBACK, "%s", text);
    hr_error_set_detail(err, detail, (size_t)n);
    return 0;
}

static PyObject *call_fail(PyObject *op, PyObject *args)
{
    call_object *self = (call_object *)op;
    hr_error err = HR_ERROR_INIT;

    if (error_from(args, &err) < 0)
        return NULL;
    if (call_check(self) < 0) {
        hr_error_clear(&err);
        return NULL;
    }
    call_end(self, HR_CALLBACK, &err);
    Py_RETURN_NONE;
}

static PyObject *build(PyObject *what, pyhr_state *s, const hr_mem *mem)
{
    hr_table *t = PyList_Check(what) ? pyhr_build_rows(s, mem, what) : pyhr_build_table(s, mem, what);

    return t ? pyhr_table(s, t) : NULL;
}

static PyObject *call_build(PyObject *op, PyObject *what) { return build(what, pyhr_state_of(op), &(hr_mem){ 0 }); }

static PyMethodDef call_methods[] = {
    { "build", call_build, METH_O, "build(dict of columns, or list of row dicts): a Table." },
    { "result", call_result, METH_VARARGS,
      "result(table, batch=0, counts=None): a table that the function gave for batch number `batch`, or for several\n"
      "batches from it on; counts: the rows of each." },
    { "stream", call_stream, METH_VARARGS,
      "As result(), with more to follow. Returns 0: go on; 1: call pause(); 2: call done(), no more is needed." },
    { "save", call_save, METH_VARARGS,
      "save(text): the state of the run's instance, before any result, if place requests it." },
    { "begins", call_begins, METH_NOARGS, "The call's time counts from here: making an instance does not count." },
    { "pause", call_pause, METH_NOARGS,
      "take() of the same server returns the call again when there is room for more results." },
    { "done", call_done, METH_NOARGS, "The function has returned." },
    { "fail", call_fail, METH_VARARGS, "fail(text, detail): the function raised; detail is the pickled exception." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef call_getset[] = {
    { "table", call_table, NULL, "The input Table.", NULL },
    { "place", call_place, NULL, "(seed, epoch, operator, ordinal, random, memory limit, run, flags).", NULL },
    { "state", call_state, NULL, "A state that the run's instance must load first, or None.", NULL },
    { "batches", call_batches, NULL, "Batches, as bytes: (rows, ordinal, random) of 8 bytes each.", NULL },
    { "tag", call_tag, NULL, "The call's number, unique while it lives.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot call_slots[] = {
    { Py_tp_doc, "One call of a user's function." },
    { Py_tp_dealloc, call_dealloc },
    { Py_tp_methods, call_methods },
    { Py_tp_getset, call_getset },
    { 0, NULL },
};

static PyType_Spec call_spec = {
    .name = "headrace._core.Call",
    .basicsize = sizeof(call_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = call_slots,
};

#define SERVE_NS (20 * INT64_C(1000000)) /* then the consumer looks for a result */

int pyhr_serve(pyhr_state *s, PyObject *inline_calls)
{
    Py_ssize_t n = inline_calls ? PyTuple_Size(inline_calls) : 0;
    int64_t until = n ? hr__clock_ns() + SERVE_NS : 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyTuple_GetItem(inline_calls, i), *handler = PyTuple_GetItem(pair, 1);
        hr_calls *calls = pyhr_calls_of(s, PyTuple_GetItem(pair, 0));

        for (;;) {
            hr_error err = HR_ERROR_INIT;
            hr_call *call = NULL;
            PyObject *op, *got;
            hr_status st = hr__calls_take(calls, 0, 0, &call, &err);

            hr_error_clear(&err);
            if (st)
                break;
            op = call_new(s, calls, call);
            got = op ? PyObject_CallFunctionObjArgs(handler, op, NULL) : NULL;
            Py_XDECREF(op);
            if (!got)
                return -1;
            Py_DECREF(got);
            if (hr__clock_ns() > until)
                return 1;
        }
    }
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- Worker */

typedef struct worker_object {
    PyObject ob_base;
    hr_worker *worker; /* NULL: closed */
    int held;          /* calls that use it; close() fails while there are any */
} worker_object;

static PyObject *worker_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "fd", NULL };
    pyhr_state *s = PyType_GetModuleState(cls);
    hr_error err = HR_ERROR_INIT;
    hr_worker *worker = NULL;
    worker_object *self;
    hr_status st;
    int fd;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i", names, &fd))
        return NULL;
    st = hr__worker_open(fd, &worker, &err);
    if (st)
        return pyhr_raise(s, st, &err);
    self = PyObject_New(worker_object, cls);
    if (!self) {
        hr__worker_close(worker);
        return NULL;
    }
    self->worker = worker;
    self->held = 0;
    return (PyObject *)self;
}

static void worker_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    if (((worker_object *)op)->worker) {
        Py_BEGIN_ALLOW_THREADS
        hr__worker_close(((worker_object *)op)->worker);
        Py_END_ALLOW_THREADS
    }
    PyObject_Free(op);
    Py_DECREF(type);
}

/* The worker, for a call that may run the user's code or releases the GIL; worker_drop() ends the use. NULL: an
 * exception. */
static hr_worker *worker_hold(PyObject *op)
{
    worker_object *self = (worker_object *)op;

    if (self->worker)
        self->held++;
    else
        PyErr_SetString(PyExc_ValueError, "the worker is closed");
    return self->worker;
}

static void worker_drop(PyObject *op) { ((worker_object *)op)->held--; }

static PyObject *worker_init(PyObject *op, PyObject *none)
{
    hr_worker *w = worker_hold(op);
    hr_error err = HR_ERROR_INIT;
    void *bytes = NULL;
    int64_t n = 0;
    PyObject *made;
    hr_status st;

    (void)none;
    if (!w)
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        st = hr__worker_init(w, PYHR_WAIT_MS, &bytes, &n, &err);
        Py_END_ALLOW_THREADS
    } while (st == HR_PENDING && pyhr_between_waits() == 0);
    worker_drop(op);
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    made = PyBytes_FromStringAndSize(bytes, (Py_ssize_t)n);
    hr__free(bytes);
    return made;
}

/* next(timeout_ms=-1): (kind, tag, Table, place, batches, state); kind 1: a new call, 2: continue a paused call, 3:
 * drop it, 4: run `tag` begins, 5: it has ended. None: the end; False: nothing within timeout_ms. */
static PyObject *worker_next(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    PyObject *made = NULL;
    int timeout_ms = -1;
    hr_worker *w;
    hr_work todo;
    hr_status st;

    if (!PyArg_ParseTuple(args, "|i", &timeout_ms) || !(w = worker_hold(op)))
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        st = hr__worker_next(w, timeout_ms < 0 ? PYHR_WAIT_MS : timeout_ms, &todo, &err);
        Py_END_ALLOW_THREADS
    } while (st == HR_PENDING && pyhr_between_waits() == 0 && timeout_ms < 0);
    worker_drop(op);
    if (st == HR_PENDING && PyErr_Occurred())
        return NULL;
    if (st == HR_PENDING)
        Py_RETURN_FALSE;
    if (st)
        return pyhr_raise(s, st, &err);
    if (todo.kind == HR_WORK_END)
        Py_RETURN_NONE;
    if (todo.kind == HR_WORK_CALL)
        made = Py_BuildValue("iKNNNz", 1, (unsigned long long)todo.tag, pyhr_table(s, todo.table),
                             place_object(&todo.place), batches_object(todo.batches, todo.n_batches), todo.state);
    else
        made =
            Py_BuildValue("iKOOOO", (int)todo.kind, (unsigned long long)todo.tag, Py_None, Py_None, Py_None, Py_None);
    hr__free(todo.batches);
    hr__free(todo.state);
    return made;
}

static PyObject *worker_fileno(PyObject *op, PyObject *none)
{
    hr_worker *w = worker_hold(op);
    PyObject *made = w ? PyLong_FromLong(hr__worker_fd(w)) : NULL;

    (void)none;
    if (w)
        worker_drop(op);
    return made;
}

static PyObject *worker_build(PyObject *op, PyObject *what)
{
    hr_worker *w = worker_hold(op);
    PyObject *made = w ? build(what, pyhr_state_of(op), hr__worker_mem(w)) : NULL;

    if (w)
        worker_drop(op);
    return made;
}

static PyObject *worker_give(PyObject *op, PyObject *args, hr_go *go)
{
    hr_error err = HR_ERROR_INIT;
    result_args a;
    hr_worker *w;
    hr_status st;

    if (result_parse(pyhr_state_of(op), args, "KO|LO", &a) < 0)
        return NULL;
    if (!(w = worker_hold(op))) {
        result_clear(&a);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr__worker_result(w, a.tag, a.table, &a.of, go, &err);
    Py_END_ALLOW_THREADS
    worker_drop(op);
    result_clear(&a);
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    return go ? PyLong_FromLong(*go) : Py_NewRef(Py_None);
}

static PyObject *worker_result(PyObject *op, PyObject *args) { return worker_give(op, args, NULL); }

static PyObject *worker_stream(PyObject *op, PyObject *args)
{
    hr_go go = HR_GO_ON;

    return worker_give(op, args, &go);
}

static PyObject *worker_save(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    unsigned long long tag;
    const char *state;
    hr_worker *w;
    hr_status st;

    if (!PyArg_ParseTuple(args, "Ks", &tag, &state) || !(w = worker_hold(op)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__worker_save(w, tag, state, &err);
    Py_END_ALLOW_THREADS
    worker_drop(op);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *worker_end(PyObject *op, unsigned long long tag, hr_status what, hr_error *with)
{
    hr_worker *w = worker_hold(op);
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (!w) {
        hr_error_clear(with);
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr__worker_done(w, tag, what, with, &err);
    Py_END_ALLOW_THREADS
    worker_drop(op);
    hr_error_clear(with);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *worker_done(PyObject *op, PyObject *arg)
{
    hr_error with = HR_ERROR_INIT;
    unsigned long long tag = PyLong_AsUnsignedLongLong(arg);

    if (tag == (unsigned long long)-1 && PyErr_Occurred())
        return NULL;
    return worker_end(op, tag, HR_OK, &with);
}

static PyObject *worker_fail(PyObject *op, PyObject *args)
{
    hr_error with = HR_ERROR_INIT;
    const char *text, *detail;
    unsigned long long tag;
    Py_ssize_t n;

    if (!PyArg_ParseTuple(args, "Ksy#", &tag, &text, &detail, &n))
        return NULL;
    hr_error_set(&with, HR_CALLBACK, "%s", text);
    hr_error_set_detail(&with, detail, (size_t)n);
    return worker_end(op, tag, HR_CALLBACK, &with);
}

static PyObject *worker_close(PyObject *op, PyObject *none)
{
    worker_object *self = (worker_object *)op;
    hr_worker *w = self->worker;

    (void)none;
    if (self->held) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is using the worker");
        return NULL;
    }
    self->worker = NULL;
    if (w) {
        Py_BEGIN_ALLOW_THREADS
        hr__worker_close(w);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyMethodDef worker_methods[] = {
    { "init", worker_init, METH_NOARGS, "The init bytes from the driver." },
    { "next", worker_next, METH_VARARGS,
      "next(timeout_ms=-1): (kind, tag, table, place, batches, state): 1 a new call, 2 continue the paused call "
      "`tag`, 3 drop it, 4 run `tag` begins, 5 it has ended. None: the end; False: nothing within timeout_ms." },
    { "fileno", worker_fileno, METH_NOARGS, "A descriptor that is readable when next() may have something." },
    { "build", worker_build, METH_O,
      "build(dict of columns, or list of row dicts): a Table in the arena, written once." },
    { "result", worker_result, METH_VARARGS, "result(tag, table, batch=0, counts=None): see Call.result()." },
    { "stream", worker_stream, METH_VARARGS,
      "As result(), with more to follow. Returns 0: go on; 1: pause; 2: end, no more is needed." },
    { "save", worker_save, METH_VARARGS, "save(tag, text): see Call.save()." },
    { "done", worker_done, METH_O, "done(tag): the function has returned." },
    { "fail", worker_fail, METH_VARARGS,
      "fail(tag, text, detail): the function raised; detail is the pickled exception." },
    { "close", worker_close, METH_NOARGS, "Ends the connection." },
    { NULL, NULL, 0, NULL },
};

static PyType_Slot worker_slots[] = {
    { Py_tp_doc, "Worker(fd): a worker process's end of the queue." },
    { Py_tp_new, worker_make },
    { Py_tp_dealloc, worker_dealloc },
    { Py_tp_methods, worker_methods },
    { 0, NULL },
};

static PyType_Spec worker_spec = {
    .name = "headrace._core.Worker",
    .basicsize = sizeof(worker_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = worker_slots,
};

int pyhr_udf_types(PyObject *module, pyhr_state *s)
{
    return pyhr_add_type(module, &calls_spec, &s->calls) < 0 || pyhr_add_type(module, &call_spec, &s->call) < 0 ||
                   pyhr_add_type(module, &worker_spec, &s->worker) < 0
               ? -1
               : 0;
}
