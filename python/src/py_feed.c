/* py_feed.c - Feed: one pass over a running plan.
 *
 * next() waits without the GIL, at most 100 ms at a time, then handles signals. Between two waits the consumer's thread
 * serves the functions that run "inline". One thread at a time may wait in next(); close() from another thread makes it
 * stop. Statistics and positions also run without the GIL; if close() comes meanwhile, the last of these calls closes
 * the feed. A feed belongs to the process that opened it: a forked child gets an error and does not touch the run. */
#include "pyhr.h"

#include <errno.h>
#include <stdio.h>

typedef struct feed_object {
    PyObject ob_base;
    hr_feed *feed;          /* NULL: closed */
    PyObject *inline_calls; /* tuple of (Calls, handler) */
    PyObject *code_differs; /* names of functions whose code has changed since the position, or NULL */
    bool busy;              /* a thread is in next() */
    PyObject *last;         /* JSON text: the statistics of a run that an error ended; NULL: it had none */
    int held;               /* calls that use the feed without the GIL; the last one closes it if `closing` */
    bool closing;           /* closes as soon as it is neither busy nor held */
    int pid;
} feed_object;

/* ---------------------------------------------------------------------------------------------------------- options */

/* Removes kwargs[name] and returns it as a new reference; NULL without an exception: missing, or None. */
static PyObject *take_argument(PyObject *kwargs, const char *name)
{
    PyObject *v = PyDict_GetItemString(kwargs, name);

    Py_XINCREF(v);
    if (v && PyDict_DelItemString(kwargs, name) < 0)
        Py_CLEAR(v);
    if (v == Py_None)
        Py_CLEAR(v);
    return v;
}

static int take_int(PyObject *kwargs, const char *name, int64_t *out)
{
    PyObject *v = take_argument(kwargs, name);

    if (v) {
        *out = PyLong_AsLongLong(v);
        Py_DECREF(v);
    }
    return PyErr_Occurred() ? -1 : 0;
}

int pyhr_seed(PyObject *v, uint64_t *out)
{
    *out = !v || v == Py_None ? 0 : PyLong_AsUnsignedLongLong(v);
    return PyErr_Occurred() ? -1 : 0;
}

static int as_int(int64_t n) { return (int)HR_MAX(HR_MIN(n, INT32_MAX), INT32_MIN); }

int pyhr_feed_options(PyObject *kwargs, hr_feed_options *out)
{
    int64_t batch_rows = 0, prefetch = 0, epoch = 0, seed = 0, threads = 0, limit = 0, drop_last = 0, any_order = 0;
    int64_t autotune = 1, reserved = 0, first_threads = 0, most_prefetch = 0;
    PyObject *position, *trace;

    *out = (hr_feed_options){ .struct_bytes = sizeof *out };
    if (take_int(kwargs, "batch_rows", &batch_rows) < 0 || take_int(kwargs, "prefetch", &prefetch) < 0 ||
        take_int(kwargs, "epoch", &epoch) < 0 || take_int(kwargs, "seed", &seed) < 0 ||
        take_int(kwargs, "num_threads", &threads) < 0 || take_int(kwargs, "memory_limit", &limit) < 0 ||
        take_int(kwargs, "autotune", &autotune) < 0 || take_int(kwargs, "drop_last", &drop_last) < 0 ||
        take_int(kwargs, "any_order", &any_order) < 0 || take_int(kwargs, "reserved_cpus", &reserved) < 0 ||
        take_int(kwargs, "first_threads", &first_threads) < 0 || take_int(kwargs, "most_prefetch", &most_prefetch) < 0)
        return -1;
    out->batch_rows = batch_rows;
    out->prefetch = (int)HR_MAX(HR_MIN(prefetch, 1 << 20), -1);
    out->epoch = epoch;
    out->seed = (uint64_t)seed;
    out->num_threads = as_int(threads);
    out->memory_limit = limit;
    out->drop_last = drop_last != 0;
    out->any_order = any_order != 0;
    out->no_autotune = autotune == 0;
    out->reserved_cpus = as_int(reserved);
    out->first_threads = as_int(first_threads);
    out->most_prefetch = as_int(most_prefetch);
    /* position and trace_path stay in kwargs, which keeps their texts alive */
    position = PyDict_GetItemString(kwargs, "position");
    trace = PyDict_GetItemString(kwargs, "trace_path");
    if (position && position != Py_None && !(out->position = pyhr_text(position)))
        return -1;
    if (trace && trace != Py_None && !(out->trace_path = pyhr_text(trace)))
        return -1;
    return 0;
}

PyObject *pyhr_inline_calls(pyhr_state *s, PyObject *arg)
{
    PyObject *tuple = arg && arg != Py_None ? PySequence_Tuple(arg) : PyTuple_New(0);
    Py_ssize_t n = tuple ? PyTuple_Size(tuple) : 0;

    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *pair = PyTuple_GetItem(tuple, i);

        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2 || !Py_IS_TYPE(PyTuple_GetItem(pair, 0), s->calls)) {
            PyErr_SetString(PyExc_TypeError, "inline_calls: expected pairs (Calls, handler)");
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

/* Raises TypeError for names in kwargs that neither the caller nor pyhr_feed_options uses. */
static int no_more(PyObject *kwargs)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(kwargs, &at, &key, &value))
        if (PyUnicode_CompareWithASCIIString(key, "position") != 0 &&
            PyUnicode_CompareWithASCIIString(key, "trace_path") != 0) {
            PyErr_Format(PyExc_TypeError, "unexpected argument %R", key);
            return -1;
        }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- life */

static PyObject *feed_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    pyhr_state *s = PyType_GetModuleState(cls);
    PyObject *plan_arg, *words = kwargs ? PyDict_Copy(kwargs) : PyDict_New(), *served = NULL, *calls = NULL;
    hr_feed_options options;
    hr_feed_extra extra = { 0 };
    hr_error err = HR_ERROR_INIT;
    feed_object *self = NULL;
    hr_feed *feed = NULL;
    int64_t own = 0, keep = 0, shuffle_rows = 0, moved = 0, strict = 0;
    char *differs = NULL;
    uint64_t shuffle_seed = 0;
    PyObject *seed = NULL;
    hr_plan *plan;
    hr_status st;

    if (!words || !PyArg_ParseTuple(args, "O", &plan_arg) || !(plan = pyhr_plan_of(s, plan_arg)))
        goto done;
    served = take_argument(words, "inline_calls");
    if (PyErr_Occurred() || pyhr_feed_options(words, &options) < 0 || take_int(words, "own_memory", &own) < 0 ||
        take_int(words, "keep_positions", &keep) < 0 || take_int(words, "shuffle_rows", &shuffle_rows) < 0 ||
        take_int(words, "moved", &moved) < 0 || take_int(words, "strict", &strict) < 0)
        goto done;
    seed = take_argument(words, "shuffle_seed");
    if (PyErr_Occurred() || pyhr_seed(seed, &shuffle_seed) < 0 || no_more(words) < 0)
        goto done;
    options.shuffle_rows = shuffle_rows;
    options.shuffle_seed = seed ? &shuffle_seed : NULL;
    options.moved = moved != 0;
    options.strict = strict != 0;
    calls = pyhr_inline_calls(s, served);
    if (!calls)
        goto done;
    pyhr_drain_run(s);
    extra.own_memory = own != 0;
    extra.keep_positions = keep != 0;
    extra.differs = &differs;
    Py_BEGIN_ALLOW_THREADS
    st = hr__feed_open(plan, &options, &extra, &feed, &err);
    Py_END_ALLOW_THREADS
    if (st) {
        pyhr_raise(s, st, &err);
        goto done;
    }
    self = PyObject_GC_New(feed_object, cls);
    if (!self) {
        hr_feed_close(feed);
        goto done;
    }
    self->feed = feed;
    self->inline_calls = calls;
    self->code_differs = self->last = NULL;
    self->busy = self->closing = false;
    self->held = 0;
    self->pid = hr__pid();
    calls = NULL;
    PyObject_GC_Track(self);
    if (differs && !(self->code_differs = PyUnicode_DecodeUTF8(differs, (Py_ssize_t)strlen(differs), "replace")))
        Py_CLEAR(self);
done:
    hr_string_free(differs);
    Py_XDECREF(calls);
    Py_XDECREF(seed);
    Py_XDECREF(served);
    Py_XDECREF(words);
    return (PyObject *)self;
}

static int feed_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((feed_object *)op)->inline_calls);
    return 0;
}

static int feed_clear(PyObject *op)
{
    Py_CLEAR(((feed_object *)op)->inline_calls);
    return 0;
}

/* Keeps the statistics of a run that ends with an error, with the error's text in them. They are worth no second
 * error: without memory there are none. */
static void keep_last(feed_object *self, hr_status st, const hr_error *why)
{
    PyObject *type, *value, *trace;
    char *stats = NULL;
    hr_text text = { 0 };
    hr_status got;

    if (!self->feed || self->pid != hr__pid())
        return;
    PyErr_Fetch(&type, &value, &trace);
    Py_BEGIN_ALLOW_THREADS
    got = hr_feed_stats(self->feed, &stats, NULL);
    Py_END_ALLOW_THREADS
    if (!got && st) {
        hr__text_add(&text, "{\"error\":");
        hr__text_add_json(&text, why->text);
        hr__text_add(&text, ",%s", stats + 1);
    }
    if (!got && !text.failed) {
        const char *kept = st ? text.data : stats;

        Py_XDECREF(self->last);
        self->last = PyUnicode_DecodeUTF8(kept, (Py_ssize_t)strlen(kept), "replace");
    }
    PyErr_Clear();
    PyErr_Restore(type, value, trace);
    hr__text_clear(&text);
    hr_string_free(stats);
}

/* Ends the run of this process now, or when the last call that uses it returns. No thread is in next(). */
static void feed_end(feed_object *self)
{
    hr_feed *feed = self->feed;

    self->closing = true;
    if (self->held)
        return;
    self->feed = NULL;
    if (!feed || self->pid != hr__pid())
        return;
    Py_BEGIN_ALLOW_THREADS
    hr_feed_close(feed);
    Py_END_ALLOW_THREADS
}

static void feed_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    PyObject_GC_UnTrack(op);
    feed_end((feed_object *)op);
    Py_XDECREF(((feed_object *)op)->inline_calls);
    Py_XDECREF(((feed_object *)op)->code_differs);
    Py_XDECREF(((feed_object *)op)->last);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

static PyObject *feed_close(PyObject *op, PyObject *none)
{
    feed_object *self = (feed_object *)op;

    (void)none;
    if (self->busy || self->held) { /* the thread in next(), or the last call, closes it */
        self->closing = true;
        if (self->feed && hr__feed_run(self->feed))
            hr__run_cancel(hr__feed_run(self->feed));
    } else {
        feed_end(self);
    }
    pyhr_drain_run(pyhr_state_of(op));
    Py_RETURN_NONE;
}

static int feed_check(pyhr_state *s, feed_object *self)
{
    if (self->pid != hr__pid()) {
        pyhr_raise_text(s, HR_INVALID, "this iterator belongs to process %d; make a new one in a forked child",
                        self->pid);
        return -1;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* The next table; NULL with *failed false: the end. */
static hr_table *feed_take(PyObject *op, bool *failed)
{
    feed_object *self = (feed_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_status st = HR_PENDING;
    bool closed;
    int more = 0;

    *failed = true;
    if (feed_check(s, self) < 0)
        return NULL;
    pyhr_drain_run(s); /* may run the user's code */
    if (self->busy)
        return pyhr_raise_text(
            s, HR_INVALID,
            "expected one reader of an iterator, found two: two threads, or a function and its consumer");
    *failed = false;
    if (!self->feed || self->closing)
        return NULL;
    self->busy = true;
    while (st == HR_PENDING) {
        hr_feed *feed = self->feed;

        Py_BEGIN_ALLOW_THREADS
        st = hr__feed_next(feed, more ? 0 : PYHR_WAIT_MS, &t, &err);
        Py_END_ALLOW_THREADS
        if (st == HR_PENDING) {
            hr_error_clear(&err);
            if (pyhr_between_waits() < 0 || (more = pyhr_serve(s, self->inline_calls)) < 0)
                break;
        }
        if (self->closing)
            break;
    }
    closed = self->closing && !PyErr_Occurred();
    if (!closed && (st || PyErr_Occurred()))
        keep_last(self, st == HR_PENDING ? HR_OK : st, &err); /* while it is busy, so that nobody closes it */
    self->busy = false;
    if (st || closed || PyErr_Occurred()) {
        feed_end(self);
        hr_table_unref(t);
        if (closed) { /* another thread closed it: the end, no error */
            hr_error_clear(&err);
            return NULL;
        }
        *failed = true;
        return pyhr_raise(s, st, &err);
    }
    return t;
}

static PyObject *feed_next(PyObject *op, PyObject *none)
{
    bool failed;
    hr_table *t = feed_take(op, &failed);

    (void)none;
    return failed ? NULL : pyhr_table(pyhr_state_of(op), t); /* None at the end */
}

static PyObject *feed_iternext(PyObject *op)
{
    bool failed;
    hr_table *t = feed_take(op, &failed);

    return t ? pyhr_table(pyhr_state_of(op), t) : NULL;
}

/* For what may be asked while another thread is in next(). */
static int feed_check_busy(pyhr_state *s, feed_object *self)
{
    if (feed_check(s, self) < 0)
        return -1;
    if (self->feed && !self->closing)
        return 0;
    pyhr_raise_text(s, HR_INVALID, "the iterator is closed");
    return -1;
}

static int feed_open_check(pyhr_state *s, feed_object *self)
{
    if (feed_check(s, self) < 0)
        return -1;
    if (self->feed && !self->closing && !self->busy)
        return 0;
    pyhr_raise_text(s, HR_INVALID,
                    self->busy ? "another thread is reading from the iterator" : "the iterator is closed");
    return -1;
}

/* The feed for a call without the GIL; feed_drop() ends the use. */
static hr_feed *feed_hold(feed_object *self)
{
    self->held++;
    return self->feed;
}

static void feed_drop(feed_object *self)
{
    if (--self->held == 0 && self->closing && !self->busy)
        feed_end(self);
}

static PyObject *feed_position(PyObject *op, PyObject *args)
{
    feed_object *self = (feed_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    long long row = -1;
    char *text = NULL;
    hr_feed *feed;
    int whole = 1;
    hr_status st;

    if (!PyArg_ParseTuple(args, "|Lp", &row, &whole) || feed_open_check(s, self) < 0)
        return NULL;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    st = hr__feed_position_at(feed, row, whole != 0, &text, &err);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    return pyhr_text_taken(s, st, text, &err);
}

static PyObject *feed_forget(PyObject *op, PyObject *arg)
{
    feed_object *self = (feed_object *)op;
    int64_t row = PyLong_AsLongLong(arg);
    hr_feed *feed;

    if ((row == -1 && PyErr_Occurred()) || feed_open_check(pyhr_state_of(op), self) < 0)
        return NULL;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    hr__feed_forget(feed, row);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    Py_RETURN_NONE;
}

static PyObject *feed_converted(PyObject *op, PyObject *arg)
{
    feed_object *self = (feed_object *)op;
    long long ns = PyLong_AsLongLong(arg);

    if (PyErr_Occurred())
        return NULL;
    if (self->feed && !self->closing)
        hr__feed_converted(self->feed, ns);
    Py_RETURN_NONE;
}

static PyObject *feed_stats(PyObject *op, PyObject *none)
{
    feed_object *self = (feed_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    hr_feed *feed;
    hr_status st;

    (void)none;
    if (!self->feed && self->last)
        return Py_NewRef(self->last);
    if (feed_check_busy(s, self) < 0)
        return NULL;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    st = hr_feed_stats(feed, &text, &err);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    return pyhr_text_taken(s, st, text, &err);
}

static PyObject *feed_watch(PyObject *op, PyObject *arg)
{
    feed_object *self = (feed_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    long long zero_ns = PyLong_AsLongLong(arg);
    hr_feed *feed;
    hr_status st;

    if ((zero_ns == -1 && PyErr_Occurred()) || feed_check_busy(s, self) < 0)
        return NULL;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    st = hr__feed_watch(feed, zero_ns, &err);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    return st ? pyhr_raise(s, st, &err) : Py_NewRef(Py_None);
}

static PyObject *feed_news(PyObject *op, PyObject *none)
{
    feed_object *self = (feed_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_text text = { 0 };
    hr_feed *feed;
    hr_status st;

    (void)none;
    if (feed_check_busy(s, self) < 0)
        return NULL;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    st = hr__feed_news(feed, &text, &err);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    return pyhr_news(s, st, &text, &err);
}

static PyObject *feed_rows(PyObject *op, void *none)
{
    feed_object *self = (feed_object *)op;

    (void)none;
    return PyLong_FromLongLong(self->feed && !self->closing ? hr__feed_rows(self->feed) : -1);
}

static PyObject *feed_closed(PyObject *op, void *none)
{
    feed_object *self = (feed_object *)op;

    (void)none;
    return PyBool_FromLong(!self->feed || (self->closing && !self->busy));
}

static PyObject *feed_asked(PyObject *op, bool (*about)(hr_feed *))
{
    feed_object *self = (feed_object *)op;
    hr_feed *feed;
    bool answer;

    if (!self->feed || self->closing)
        Py_RETURN_FALSE;
    feed = feed_hold(self);
    Py_BEGIN_ALLOW_THREADS
    answer = about(feed);
    Py_END_ALLOW_THREADS
    feed_drop(self);
    return PyBool_FromLong(answer);
}

static PyObject *feed_delays_next(PyObject *op, void *none)
{
    (void)none;
    return feed_asked(op, hr__feed_delays_next);
}

static PyObject *feed_may_open_next(PyObject *op, void *none)
{
    (void)none;
    return feed_asked(op, hr__feed_may_open_next);
}

static PyObject *feed_guesses_next(PyObject *op, void *none)
{
    (void)none;
    return feed_asked(op, hr__feed_guesses_next);
}

static PyObject *feed_counts(PyObject *op, PyObject *none)
{
    feed_object *self = (feed_object *)op;
    hr_run_counts c = { 0 };

    (void)none;
    if (feed_open_check(pyhr_state_of(op), self) < 0)
        return NULL;
    if (hr__feed_run(self->feed))
        hr__run_counts(hr__feed_run(self->feed), &c);
    return Py_BuildValue("{sLsLsLsLsLsL}", "files_opened", (long long)c.files_opened, "fragments_read",
                         (long long)c.fragments_read, "rows_read", (long long)c.rows_read, "tables_out",
                         (long long)c.tables_out, "rows_out", (long long)c.rows_out, "tickets", (long long)c.tickets);
}

static PyObject *feed_enter(PyObject *op, PyObject *none)
{
    (void)none;
    return Py_NewRef(op);
}

static PyObject *feed_exit(PyObject *op, PyObject *args)
{
    (void)args;
    return feed_close(op, NULL);
}

/* ----------------------------------------------------------------------------------------------- as an Arrow stream */

typedef struct feed_stream {
    PyObject *feed, *owner;
    PyObject *schema; /* a Schema, or NULL: the first table's */
    hr_table *first;  /* read early, for its schema */
    hr_schema *fixed; /* the schema that get_schema() returned; later tables must fit it */
    char error[1000];
} feed_stream;

/* Stores the Python exception as text. The caller has the GIL. */
static int stream_raised(feed_stream *fs)
{
    hr_error err = HR_ERROR_INIT;

    pyhr_error_take(pyhr_state_of(fs->feed), &err);
    snprintf(fs->error, sizeof fs->error, "%s", err.text);
    hr_error_clear(&err);
    return EINVAL;
}

static int stream_failed(feed_stream *fs, hr_error *err)
{
    snprintf(fs->error, sizeof fs->error, "%s", err->text);
    hr_error_clear(err);
    return EINVAL;
}

/* Finds the schema: the plan's, or the first table's. */
static int stream_begin(feed_stream *fs)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st = HR_OK;
    bool failed = false;

    if (fs->fixed)
        return 0;
    if (fs->schema) {
        PyObject *capsule = PyObject_CallMethod(fs->schema, "__arrow_c_schema__", NULL);
        struct ArrowSchema schema;

        failed = !capsule || pyhr_take_schema(capsule, &schema) < 0;
        if (!failed)
            st = hr__schema_import(&schema, &fs->fixed, &err);
        Py_XDECREF(capsule);
    } else {
        fs->first = feed_take(fs->feed, &failed);
        if (fs->first)
            fs->fixed = hr__schema_ref(fs->first->schema);
        else if (!failed)
            st = hr__schema_new(NULL, 0, &fs->fixed, &err);
    }
    if (failed)
        return stream_raised(fs);
    return st ? stream_failed(fs, &err) : 0;
}

static int stream_get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    feed_stream *fs = stream->private_data;
    PyGILState_STATE gil = PyGILState_Ensure();
    hr_error err = HR_ERROR_INIT;
    int rc = stream_begin(fs);

    if (!rc && hr__schema_export(fs->fixed, out, &err))
        rc = stream_failed(fs, &err);
    PyGILState_Release(gil);
    return rc;
}

static int stream_get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    feed_stream *fs = stream->private_data;
    PyGILState_STATE gil = PyGILState_Ensure();
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL, *fitting = NULL;
    bool failed = false;
    int rc = stream_begin(fs);

    *out = (struct ArrowArray){ 0 };
    if (!rc) {
        t = fs->first ? fs->first : feed_take(fs->feed, &failed);
        fs->first = NULL;
    }
    if (failed)
        rc = stream_raised(fs);
    else if (t && (hr__table_conform(&(hr_mem){ 0 }, t, fs->fixed, &fitting, &err) ||
                   hr_table_export(fitting, NULL, out, &err)))
        rc = stream_failed(fs, &err);
    hr_table_unref(fitting);
    hr_table_unref(t);
    PyGILState_Release(gil);
    return rc;
}

static const char *stream_last_error(struct ArrowArrayStream *stream)
{
    return ((feed_stream *)stream->private_data)->error;
}

static void stream_release(struct ArrowArrayStream *stream)
{
    feed_stream *fs = stream->private_data;
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *type, *value, *trace, *got;

    PyErr_Fetch(&type, &value, &trace); /* the consumer may be leaving with an exception */
    got = PyObject_CallMethod(fs->owner, "close", NULL);
    if (!got)
        PyErr_Clear();
    Py_XDECREF(got);
    hr_table_unref(fs->first);
    hr__schema_unref(fs->fixed);
    Py_DECREF(fs->feed);
    Py_DECREF(fs->owner);
    Py_XDECREF(fs->schema);
    PyMem_Free(fs);
    stream->release = NULL;
    PyErr_Restore(type, value, trace);
    PyGILState_Release(gil);
}

/* stream(schema or None, owner): the remaining rows as an Arrow stream, whose release calls owner.close(). */
static PyObject *feed_stream_capsule(PyObject *op, PyObject *args)
{
    struct ArrowArrayStream stream = { stream_get_schema, stream_get_next, stream_last_error, stream_release, NULL };
    PyObject *schema, *owner;
    feed_stream *fs;

    if (!PyArg_ParseTuple(args, "OO", &schema, &owner))
        return NULL;
    fs = PyMem_Calloc(1, sizeof *fs);
    if (!fs)
        return PyErr_NoMemory();
    fs->feed = Py_NewRef(op);
    fs->owner = Py_NewRef(owner);
    fs->schema = schema == Py_None ? NULL : Py_NewRef(schema);
    stream.private_data = fs;
    return pyhr_stream_capsule(&stream);
}

static PyObject *feed_code_differs(PyObject *op, void *none)
{
    PyObject *names = ((feed_object *)op)->code_differs;

    (void)none;
    return Py_NewRef(names ? names : Py_None);
}

static PyMethodDef feed_methods[] = {
    { "next", feed_next, METH_NOARGS, "The next Table; None at the end." },
    { "position", feed_position, METH_VARARGS,
      "position(row=-1, whole=True): where the consumer is, as text; with keep_positions, before row `row` of those it "
      "got.\n"
      "whole=False does not read files: Plan.whole_position() does that later, while other threads go on." },
    { "converted", feed_converted, METH_O,
      "converted(ns): the consumer has spent this time to make its own batch of the last table." },
    { "forget", feed_forget, METH_O, "forget(row): the consumer will request no position before `row`." },
    { "stats", feed_stats, METH_NOARGS,
      "Statistics of the run so far, as JSON; also after an error has ended it, with `error`." },
    { "watch", feed_watch, METH_O,
      "watch(zero_ns): from now on news() has what the run does; its times count from there." },
    { "news", feed_news, METH_NOARGS,
      "What is new since the last call: arrays of JSON (track, begin in us, us, name, how many), with commas "
      "between." },
    { "counts", feed_counts, METH_NOARGS, "Counters of the run, as a dict." },
    { "stream", feed_stream_capsule, METH_VARARGS,
      "stream(schema or None, owner): the remaining rows as an Arrow stream, which calls owner.close() at its end." },
    { "close", feed_close, METH_NOARGS, "Stops the run; tables stay valid." },
    { "__enter__", feed_enter, METH_NOARGS, NULL },
    { "__exit__", feed_exit, METH_VARARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef feed_getset[] = {
    { "rows", feed_rows, NULL, "Rows returned so far; -1 when closed.", NULL },
    { "delays_next", feed_delays_next, NULL, "Whether it is too early to open the next epoch.", NULL },
    { "may_open_next", feed_may_open_next, NULL,
      "Whether the next epoch may open early though nobody has said that it comes.", NULL },
    { "guesses_next", feed_guesses_next, NULL,
      "Whether it may open early though no epoch has ended, so that this one may be the only one.", NULL },
    { "closed", feed_closed, NULL, "True after close().", NULL },
    { "code_differs", feed_code_differs, NULL,
      "Names of functions whose code has changed since the position, as text; or None.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot feed_slots[] = {
    { Py_tp_doc,
      "Feed(plan, *, batch_rows=0, drop_last=False, prefetch=0, epoch=0, seed=0, any_order=False, num_threads=0,\n"
      "autotune=True, reserved_cpus=0, first_threads=0, most_prefetch=0, memory_limit=0, position=None, "
      "trace_path=None, "
      "own_memory=False, keep_positions=False,\n"
      "inline_calls=(), moved=False, strict=False):\n"
      "runs the plan once." },
    { Py_tp_new, feed_make },
    { Py_tp_dealloc, feed_dealloc },
    { Py_tp_traverse, feed_traverse },
    { Py_tp_clear, feed_clear },
    { Py_tp_methods, feed_methods },
    { Py_tp_getset, feed_getset },
    { Py_tp_iter, PyObject_SelfIter },
    { Py_tp_iternext, feed_iternext },
    { 0, NULL },
};

static PyType_Spec feed_spec = {
    .name = "headrace._core.Feed",
    .basicsize = sizeof(feed_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = feed_slots,
};

int pyhr_feed_types(PyObject *module, pyhr_state *s) { return pyhr_add_type(module, &feed_spec, &s->feed); }
