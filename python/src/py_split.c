/* py_split.c - Split, RingServer, Ring: one pass divided among N ranks, in this process or in others.
 *
 * A Split has one thread per rank; a Ring is one rank's end in another process. Waits work as in py_feed.c. A rank of
 * this process that waits serves the functions that run "inline". */
#include "pyhr.h"
#include "op/call.h"

typedef struct split_object {
    PyObject ob_base;
    hr_split *split; /* NULL: closed */
    PyObject *inline_calls;
    int pid;
} split_object;

/* What a call does while it waits: `watch` is None or (seconds, function). After `seconds` the call runs
 * function(seconds waited), which returns the seconds until its next call; an exception of the function ends the
 * call. */
typedef struct waiting {
    PyObject *function; /* borrowed; NULL: nobody */
    int64_t begin_ns, next_ns;
} waiting;

static int waiting_from(PyObject *watch, waiting *out)
{
    double first;

    *out = (waiting){ .begin_ns = hr__clock_ns() };
    if (!watch || watch == Py_None)
        return 0;
    if (!PyArg_ParseTuple(watch, "dO", &first, &out->function))
        return -1;
    out->next_ns = out->begin_ns + (int64_t)(HR_MIN(first, 1e9) * 1e9);
    return 0;
}

/* -1 with the exception of the function or of a signal handler. */
static int waiting_goes_on(waiting *w)
{
    int64_t now = hr__clock_ns();
    PyObject *made;
    double more;

    if (pyhr_between_waits() < 0)
        return -1;
    if (!w->function || now < w->next_ns)
        return 0;
    made = PyObject_CallFunction(w->function, "d", (double)(now - w->begin_ns) / 1e9);
    more = made ? PyFloat_AsDouble(made) : -1;
    Py_XDECREF(made);
    w->next_ns = hr__clock_ns() + (int64_t)(HR_MAX(HR_MIN(more, 1e9), 0.0) * 1e9);
    return PyErr_Occurred() ? -1 : 0;
}

/* A rank's request for an epoch, from keyword or positional arguments. rank: NULL for a ring, which has one rank. */
static int request_from(PyObject *args, PyObject *kwargs, int *rank, hr_split_request *out, waiting *watch)
{
    static char *names[] = { "rank",       "batch_rows", "drop_last",    "prefetch",
                             "own_memory", "extra",      "shuffle_rows", "shuffle_seed",
                             "watch",      "by_row",     "ahead",        "epoch",
                             NULL };
    long long batch_rows, shuffle_rows = 0;
    int drop_last = 0, prefetch = 0, own = 0, by_row = 0, ahead = 0;
    const char *extra = "";
    PyObject *seed = NULL, *watch_arg = NULL, *epoch_arg = NULL;
    int64_t epoch = 0;

    if (rank
            ? !PyArg_ParseTupleAndKeywords(args, kwargs, "iL|pipsLOOppO", names, rank, &batch_rows, &drop_last,
                                           &prefetch, &own, &extra, &shuffle_rows, &seed, &watch_arg, &by_row, &ahead,
                                           &epoch_arg)
            : !PyArg_ParseTupleAndKeywords(args, kwargs, "L|pipsLOOppO", names + 1, &batch_rows, &drop_last, &prefetch,
                                           &own, &extra, &shuffle_rows, &seed, &watch_arg, &by_row, &ahead, &epoch_arg))
        return -1;
    if (waiting_from(watch_arg, watch) < 0)
        return -1;
    if (epoch_arg && epoch_arg != Py_None && (epoch = PyLong_AsLongLong(epoch_arg)) == -1 && PyErr_Occurred())
        return -1;
    *out = (hr_split_request){ .batch_rows = batch_rows,
                               .drop_last = drop_last,
                               .prefetch = prefetch,
                               .own_memory = own,
                               .shuffle_rows = shuffle_rows,
                               .has_shuffle_seed = seed && seed != Py_None,
                               .by_row = by_row,
                               .ahead = ahead,
                               .has_epoch = epoch_arg && epoch_arg != Py_None,
                               .epoch = epoch };
    if (strlen(extra) >= sizeof out->extra) {
        PyErr_SetString(PyExc_ValueError, "extra: expected a shorter text");
        return -1;
    }
    memcpy(out->extra, extra, strlen(extra) + 1);
    return pyhr_seed(seed, &out->shuffle_seed);
}

/* The number of a rank, unchecked (rank_check() does that); -1 with an exception, or if the caller passed -1. */
static int rank_from(PyObject *arg)
{
    long rank = PyLong_AsLong(arg);

    return rank < -1 || rank > INT32_MAX ? INT32_MAX : (int)rank;
}

/* ------------------------------------------------------------------------------------------------------------ Split */

static int tail_from(pyhr_state *s, const char *text, hr_split_tail *out)
{
    static const struct {
        const char *name;
        hr_split_tail tail;
    } tails[] = { { "equal", HR_TAIL_EQUAL }, { "uneven", HR_TAIL_UNEVEN }, { "pad", HR_TAIL_PAD } };

    for (int i = 0; i < HR_LEN(tails); i++)
        if (strcmp(text, tails[i].name) == 0) {
            *out = tails[i].tail;
            return 0;
        }
    pyhr_raise_text(s, HR_INVALID, "tail: expected equal, uneven or pad, found '%s'", text);
    return -1;
}

static PyObject *split_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    pyhr_state *s = PyType_GetModuleState(cls);
    PyObject *words = kwargs ? PyDict_Copy(kwargs) : PyDict_New(), *plan_arg, *served = NULL, *calls = NULL,
             *tail_arg = NULL;
    hr_feed_options options;
    hr_split_tail tail = HR_TAIL_EQUAL;
    hr_error err = HR_ERROR_INIT;
    hr_split *split = NULL;
    split_object *self = NULL;
    hr_plan *plan;
    int n;
    hr_status st;

    if (!words || !PyArg_ParseTuple(args, "Oi|O", &plan_arg, &n, &tail_arg) || !(plan = pyhr_plan_of(s, plan_arg)))
        goto done;
    served = PyDict_GetItemString(words, "inline_calls");
    calls = pyhr_inline_calls(s, served);
    if (!calls || (served && PyDict_DelItemString(words, "inline_calls") < 0))
        goto done;
    if (!tail_arg)
        tail_arg = PyDict_GetItemString(words, "tail");
    if (tail_arg) {
        const char *text = pyhr_text(tail_arg);

        if (!text || tail_from(s, text, &tail) < 0)
            goto done;
    }
    if (pyhr_feed_options(words, &options) < 0)
        goto done;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_new(plan, n, tail, &options, &split, &err);
    Py_END_ALLOW_THREADS
    if (st) {
        pyhr_raise(s, st, &err);
        goto done;
    }
    self = PyObject_GC_New(split_object, cls);
    if (!self) {
        hr__split_unref(split);
        goto done;
    }
    self->split = split;
    self->inline_calls = calls;
    self->pid = hr__pid();
    calls = NULL;
    PyObject_GC_Track(self);
done:
    Py_XDECREF(calls);
    Py_XDECREF(words);
    return (PyObject *)self;
}

static int split_traverse(PyObject *op, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(op));
    Py_VISIT(((split_object *)op)->inline_calls);
    return 0;
}

static int split_clear(PyObject *op)
{
    Py_CLEAR(((split_object *)op)->inline_calls);
    return 0;
}

static void split_dealloc(PyObject *op)
{
    split_object *self = (split_object *)op;
    PyTypeObject *type = Py_TYPE(op);
    hr_split *split = self->split;

    PyObject_GC_UnTrack(op);
    if (split && self->pid == hr__pid()) {
        Py_BEGIN_ALLOW_THREADS
        hr__split_close(split);
        hr__split_unref(split);
        Py_END_ALLOW_THREADS
    }
    Py_XDECREF(self->inline_calls);
    PyObject_GC_Del(op);
    Py_DECREF(type);
}

/* A reference for the caller, so that close() in another thread does not free the split; NULL with an exception. */
static hr_split *split_of(PyObject *op)
{
    split_object *self = (split_object *)op;
    pyhr_state *s = pyhr_state_of(op);

    if (self->pid != hr__pid())
        return pyhr_raise_text(s, HR_INVALID, "this split belongs to process %d; a forked child cannot use it",
                               self->pid);
    if (!self->split)
        return pyhr_raise_text(s, HR_INVALID, "the split is closed");
    pyhr_drain_run(s);
    return hr__split_ref(self->split);
}

static int rank_check(PyObject *op, const hr_split *split, int rank)
{
    if (rank >= 0 && rank < hr__split_n_ranks(split))
        return 0;
    pyhr_raise_text(pyhr_state_of(op), HR_INVALID, "rank %d of %d", rank, hr__split_n_ranks(split));
    return -1;
}

static void split_drop(hr_split *split)
{
    Py_BEGIN_ALLOW_THREADS
    hr__split_unref(split);
    Py_END_ALLOW_THREADS
}

static PyObject *split_begin(PyObject *op, PyObject *args, PyObject *kwargs)
{
    split_object *self = (split_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_split_request q;
    hr_split *split;
    waiting watch;
    int rank, more = 0;
    int64_t pass;
    hr_status st = HR_PENDING;

    if (request_from(args, kwargs, &rank, &q, &watch) < 0 || !(split = split_of(op)))
        return NULL;
    while (st == HR_PENDING && rank_check(op, split, rank) == 0) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__split_begin(split, rank, &q, more ? 0 : PYHR_WAIT_MS, &err);
        Py_END_ALLOW_THREADS
        if (st == HR_PENDING && (waiting_goes_on(&watch) < 0 || (more = pyhr_serve(s, self->inline_calls)) < 0))
            break;
    }
    if (st || PyErr_Occurred()) {
        split_drop(split);
        return pyhr_raise(s, st, &err);
    }
    Py_BEGIN_ALLOW_THREADS
    pass = hr__split_pass(split, rank);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return PyLong_FromLongLong(pass);
}

static PyObject *split_next(PyObject *op, PyObject *args)
{
    split_object *self = (split_object *)op;
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    long long pass = 0;
    PyObject *arg, *watch_arg = NULL;
    int rank, more = 0;
    hr_table *t = NULL;
    hr_split *split;
    waiting watch;
    hr_status st = HR_PENDING;

    if (!PyArg_ParseTuple(args, "O|LO", &arg, &pass, &watch_arg) || waiting_from(watch_arg, &watch) < 0)
        return NULL;
    rank = rank_from(arg);
    if ((rank == -1 && PyErr_Occurred()) || !(split = split_of(op)))
        return NULL;
    while (st == HR_PENDING && rank_check(op, split, rank) == 0) {
        Py_BEGIN_ALLOW_THREADS
        st = hr__split_next(split, rank, pass, more ? 0 : PYHR_WAIT_MS, &t, &err);
        Py_END_ALLOW_THREADS
        if (st == HR_PENDING && (waiting_goes_on(&watch) < 0 || (more = pyhr_serve(s, self->inline_calls)) < 0))
            break;
    }
    split_drop(split);
    return st || PyErr_Occurred() ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
}

static PyObject *split_leave(PyObject *op, PyObject *arg)
{
    int rank = rank_from(arg);
    hr_split *split = ((split_object *)op)->split;

    if (rank == -1 && PyErr_Occurred())
        return NULL;
    if (!split || ((split_object *)op)->pid != hr__pid())
        Py_RETURN_NONE;
    if (rank_check(op, split, rank) < 0)
        return NULL;
    hr__split_ref(split);
    Py_BEGIN_ALLOW_THREADS
    hr__split_leave(split, rank);
    Py_END_ALLOW_THREADS
    split_drop(split);
    Py_RETURN_NONE;
}

static PyObject *split_lost(PyObject *op, PyObject *args)
{
    hr_error why = HR_ERROR_INIT;
    const char *text = NULL;
    hr_split *split;
    int rank;

    if (!PyArg_ParseTuple(args, "i|z", &rank, &text) || !(split = split_of(op)))
        return NULL;
    if (rank_check(op, split, rank) == 0) {
        if (text)
            hr_error_set(&why, HR_PEER, "%s", text);
        Py_BEGIN_ALLOW_THREADS
        hr__split_lost(split, rank, text ? &why : NULL);
        Py_END_ALLOW_THREADS
    }
    split_drop(split);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *split_report_taken(PyObject *op, PyObject *args)
{
    long long n_rows;
    hr_split *split;
    int rank;

    if (!PyArg_ParseTuple(args, "iL", &rank, &n_rows) || !(split = split_of(op)))
        return NULL;
    if (rank_check(op, split, rank) == 0) {
        Py_BEGIN_ALLOW_THREADS
        hr__split_report_rows(split, rank, n_rows);
        Py_END_ALLOW_THREADS
    }
    split_drop(split);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *split_converted(PyObject *op, PyObject *args)
{
    long long ns;
    hr_split *split;
    int rank;

    if (!PyArg_ParseTuple(args, "iL", &rank, &ns) || !(split = split_of(op)))
        return NULL;
    if (rank_check(op, split, rank) == 0) {
        Py_BEGIN_ALLOW_THREADS
        hr__split_converted(split, rank, ns);
        Py_END_ALLOW_THREADS
    }
    split_drop(split);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *split_reported(PyObject *op, PyObject *args)
{
    long long begin_ns, end_ns;
    hr_split *split;
    int rank;

    if (!PyArg_ParseTuple(args, "iLL", &rank, &begin_ns, &end_ns) || !(split = split_of(op)))
        return NULL;
    if (rank_check(op, split, rank) == 0) {
        Py_BEGIN_ALLOW_THREADS
        hr__split_reported(split, rank, begin_ns, end_ns);
        Py_END_ALLOW_THREADS
    }
    split_drop(split);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *split_position(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    hr_split *split;
    char *text = NULL;
    int done = 0, n_ahead = 0;
    hr_status st;

    if (!PyArg_ParseTuple(args, "|pi", &done, &n_ahead) || !(split = split_of(op)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = done ? hr__split_position_done(split, &text, &err) : hr__split_position_before(split, n_ahead, &text, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *split_position_of(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    int rank, n_ahead = 0;
    hr_split *split;
    char *text = NULL;
    hr_status st;

    if (!PyArg_ParseTuple(args, "i|i", &rank, &n_ahead) || !(split = split_of(op)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_position_of(split, rank, n_ahead, &text, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *split_replicate(PyObject *op, PyObject *arg)
{
    hr_error err = HR_ERROR_INIT;
    int n = rank_from(arg);
    hr_split *split;
    hr_status st;

    if (PyErr_Occurred() || !(split = split_of(op)))
        return NULL;
    st = hr__split_replicate(split, n, &err);
    split_drop(split);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *split_lanes(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    int n_lanes, n_hosts;
    hr_split *split;
    hr_status st;

    if (!PyArg_ParseTuple(args, "ii", &n_lanes, &n_hosts) || !(split = split_of(op)))
        return NULL;
    st = hr__split_lanes(split, n_lanes, n_hosts, &err);
    split_drop(split);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *split_expect(PyObject *op, PyObject *arg)
{
    int n = rank_from(arg);
    hr_split *split;

    if (PyErr_Occurred() || !(split = split_of(op)))
        return NULL;
    if (n < 1 || n > hr__split_n_ranks(split)) {
        pyhr_raise_text(pyhr_state_of(op), HR_INVALID, "%d of %d ranks", n, hr__split_n_ranks(split));
    } else {
        Py_BEGIN_ALLOW_THREADS
        hr__split_expect(split, n);
        Py_END_ALLOW_THREADS
    }
    split_drop(split);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

static PyObject *split_describe_ranks(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_split *split = split_of(op);
    char *text = NULL;
    hr_status st;

    (void)none;
    if (!split)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_describe_ranks(split, &text, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

/* The result of restore(): names of functions whose code has changed since the position, or None. */
static PyObject *code_differs(char *differs)
{
    PyObject *made;

    if (!differs)
        Py_RETURN_NONE;
    made = PyUnicode_DecodeUTF8(differs, (Py_ssize_t)strlen(differs), "replace");
    hr_string_free(differs);
    return made;
}

/* restore(text, moved=False, strict=False, agree=False); *text is borrowed from args. */
static int restore_arguments(PyObject *args, PyObject *kwargs, const char **text, hr_position_how *how)
{
    static char *names[] = { "text", "moved", "strict", "agree", NULL };
    int moved = 0, strict = 0, agree = 0;
    PyObject *arg;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|ppp", names, &arg, &moved, &strict, &agree) ||
        !(*text = pyhr_text(arg)))
        return -1;
    how->agree = agree != 0;
    how->moved = moved != 0;
    how->strict = strict != 0;
    return 0;
}

static PyObject *split_restore(PyObject *op, PyObject *args, PyObject *kwargs)
{
    char *differs = NULL;
    hr_position_how how = { .differs = &differs };
    hr_error err = HR_ERROR_INIT;
    const char *text;
    hr_split *split;
    hr_status st;

    if (restore_arguments(args, kwargs, &text, &how) < 0 || !(split = split_of(op)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_restore(split, text, &how, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : code_differs(differs);
}

static PyObject *split_schema(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_split *split = split_of(op);
    hr_schema *schema = NULL;
    hr_status st;

    (void)none;
    if (!split)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_schema(split, &schema, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    return schema ? pyhr_schema(pyhr_state_of(op), schema) : Py_NewRef(Py_None);
}

static PyObject *split_stats(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_split *split = split_of(op);
    char *text = NULL;
    hr_status st;

    (void)none;
    if (!split)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_stats(split, &text, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *split_watch(PyObject *op, PyObject *arg)
{
    long long zero_ns = PyLong_AsLongLong(arg);
    hr_error err = HR_ERROR_INIT;
    hr_split *split;
    hr_status st;

    if ((zero_ns == -1 && PyErr_Occurred()) || !(split = split_of(op)))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_watch(split, zero_ns, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : Py_NewRef(Py_None);
}

static PyObject *split_news(PyObject *op, PyObject *none)
{
    hr_error err = HR_ERROR_INIT;
    hr_split *split = split_of(op);
    hr_text text = { 0 };
    hr_status st;

    (void)none;
    if (!split)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__split_news(split, &text, &err);
    Py_END_ALLOW_THREADS
    split_drop(split);
    return pyhr_news(pyhr_state_of(op), st, &text, &err);
}

static PyObject *split_close(PyObject *op, PyObject *none)
{
    split_object *self = (split_object *)op;
    hr_split *split = self->split;

    (void)none;
    self->split = NULL;
    if (split && self->pid == hr__pid()) {
        Py_BEGIN_ALLOW_THREADS
        hr__split_close(split);
        hr__split_unref(split);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *split_n_ranks(PyObject *op, void *none)
{
    hr_split *split = ((split_object *)op)->split;

    (void)none;
    return PyLong_FromLong(split ? hr__split_n_ranks(split) : 0);
}

#define WITH_WORDS(fn) (PyCFunction)(void (*)(void)) fn

static PyMethodDef split_methods[] = {
    { "begin", WITH_WORDS(split_begin), METH_VARARGS | METH_KEYWORDS,
      "begin(rank, batch_rows, drop_last=False, prefetch=0, own_memory=False, extra='', shuffle_rows=0,\n"
      "shuffle_seed=None, watch=None, by_row=False, ahead=False, epoch=None): waits until all ranks have requested the "
      "same; "
      "MismatchError\n"
      "names the difference. Returns the pass's number. watch: (seconds, function): after these seconds of waiting\n"
      "begin() calls function(seconds waited), which raises, or returns the seconds until its next call.\n"
      "by_row, with batch_rows=1: many steps at once, as one table; the consumer calls report_taken() before a "
      "position.\n"
      "ahead: the next epoch will be requested, too, and may open early. epoch: the one to\nbegin." },
    { "report_taken", split_report_taken, METH_VARARGS,
      "report_taken(rank, n): the rank has taken n rows of the epoch (by_row)." },
    { "reported", split_reported, METH_VARARGS,
      "reported(rank, begin_ns, end_ns): the rank called report() then, by time.monotonic_ns()." },
    { "converted", split_converted, METH_VARARGS,
      "converted(rank, ns): the rank has spent this time to make its own batch of the last table." },
    { "next", split_next, METH_VARARGS,
      "next(rank, pass=0, watch=None): the rank's next Table; None at the end of its epoch. pass: the result of\n"
      "begin(); next() is an error after the rank has begun another pass. watch: as of begin()." },
    { "leave", split_leave, METH_O, "leave(rank): the rank does not take the rest of its epoch." },
    { "lost", split_lost, METH_VARARGS,
      "lost(rank, text=None): the rank has ended; the others get PeerError with the text." },
    { "position", split_position, METH_VARARGS,
      "position(done=False, ahead=0): the position of all ranks, as text. done: after the steps that every rank has\n"
      "done, even while the ranks are at different steps. ahead: before this number of the last steps, which the\n"
      "consumers have taken and not used." },
    { "position_of", split_position_of, METH_VARARGS,
      "position_of(rank, ahead=0): the position of all ranks after the steps that this rank has taken, but for the\n"
      "last `ahead` ones, which its consumer has not used." },
    { "replicate", split_replicate, METH_O, "replicate(n): each n ranks behind one another get the same batches." },
    { "lanes", split_lanes, METH_VARARGS,
      "lanes(n, hosts): the order of n lanes, of which each of the hosts reads those of its ranks." },
    { "expect", split_expect, METH_O,
      "expect(n): only n ranks will come, in any order; the split drops the shares of the others." },
    { "ranks", split_describe_ranks, METH_NOARGS,
      "ranks(): what each rank does, as JSON: epoch, running, steps, lead, ranks (state, pid, taken, ready, "
      "idle_ms)." },
    { "restore", WITH_WORDS(split_restore), METH_VARARGS | METH_KEYWORDS,
      "restore(text, moved=False, strict=False, agree=False): resumes from there; call it before an epoch begins.\n"
      "agree: MismatchError if another place was restored for the same epoch. Returns the names of functions whose\n"
      "code has changed since the position, or None." },
    { "schema", split_schema, METH_NOARGS, "The Schema; None if only a run can know it." },
    { "watch", split_watch, METH_O, "As Feed.watch, of all epochs and ranks." },
    { "news", split_news, METH_NOARGS, "As Feed.news." },
    { "stats", split_stats, METH_NOARGS, "Statistics so far, as JSON." },
    { "close", split_close, METH_NOARGS, "Ends the run; waiting ranks get CancelledError." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef split_getset[] = {
    { "n_ranks", split_n_ranks, NULL, "Number of consumers.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot split_slots[] = {
    { Py_tp_doc, "Split(plan, n, tail='equal', **options): one feed divided among n ranks, step by step." },
    { Py_tp_new, split_make },
    { Py_tp_dealloc, split_dealloc },
    { Py_tp_traverse, split_traverse },
    { Py_tp_clear, split_clear },
    { Py_tp_methods, split_methods },
    { Py_tp_getset, split_getset },
    { 0, NULL },
};

static PyType_Spec split_spec = {
    .name = "headrace._core.Split",
    .basicsize = sizeof(split_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = split_slots,
};

/* ------------------------------------------------------------------------------------------------------- RingServer */

typedef struct server_object {
    PyObject ob_base;
    hr_ring_server *server; /* NULL: stopped */
    PyObject *address;
    int pid;
} server_object;

static PyObject *server_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "splits", "address", "key", "own_rank", NULL };
    pyhr_state *s = PyType_GetModuleState(cls);
    PyObject *list, *tuple = NULL, *text = NULL;
    hr_ring_options options = { .own_rank = -1 };
    hr_split **splits = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_ring_server *server = NULL;
    server_object *self = NULL;
    char *address = NULL;
    Py_ssize_t n;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|zzi", names, &list, &options.address, &options.key,
                                     &options.own_rank) ||
        !(tuple = PySequence_Tuple(list)))
        return NULL;
    options.has_own_rank = options.own_rank >= 0;
    n = PyTuple_Size(tuple);
    splits = PyMem_Calloc((size_t)n + 1, sizeof *splits);
    if (!splits) {
        PyErr_NoMemory();
        goto done;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *op = PyTuple_GetItem(tuple, i);

        if (!Py_IS_TYPE(op, s->split) || !((split_object *)op)->split) {
            PyErr_SetString(PyExc_TypeError, "RingServer: expected open Splits");
            goto done;
        }
        splits[i] = hr__split_ref(((split_object *)op)->split); /* another thread may close the Split meanwhile */
    }
    Py_BEGIN_ALLOW_THREADS
    st = hr__ring_serve(splits, (int)n, &options, &server, &address, &err);
    Py_END_ALLOW_THREADS
    text = pyhr_text_taken(s, st, address, &err);
    if (!text)
        goto done;
    self = PyObject_New(server_object, cls);
    if (!self) {
        hr__ring_stop(server);
        Py_DECREF(text);
        goto done;
    }
    self->server = server;
    self->address = text;
    self->pid = hr__pid();
done:
    for (Py_ssize_t i = 0; splits && i < n && splits[i]; i++)
        split_drop(splits[i]);
    PyMem_Free(splits);
    Py_XDECREF(tuple);
    return (PyObject *)self;
}

static PyObject *server_stop(PyObject *op, PyObject *none)
{
    server_object *self = (server_object *)op;
    hr_ring_server *server = self->server;

    (void)none;
    self->server = NULL;
    if (server && self->pid == hr__pid()) {
        Py_BEGIN_ALLOW_THREADS
        hr__ring_stop(server);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void server_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    Py_XDECREF(server_stop(op, NULL));
    Py_XDECREF(((server_object *)op)->address);
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyObject *server_address(PyObject *op, void *none)
{
    (void)none;
    return Py_NewRef(((server_object *)op)->address);
}

static PyObject *server_take_own(PyObject *op, PyObject *none)
{
    server_object *self = (server_object *)op;

    (void)none;
    return PyBool_FromLong(self->server && self->pid == hr__pid() && hr__ring_take_own(self->server));
}

static PyObject *server_clients(PyObject *op, void *none)
{
    server_object *self = (server_object *)op;

    (void)none;
    return PyLong_FromLong(self->server && self->pid == hr__pid() ? hr__ring_clients(self->server) : 0);
}

static PyMethodDef server_methods[] = {
    { "take_own", server_take_own, METH_NOARGS,
      "take_own(): this process begins to take own_rank itself. False: a client has that rank." },
    { "stop", server_stop, METH_NOARGS, "Ends all connections." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef server_getset[] = {
    { "address", server_address, NULL, "The address for a Ring: 'name:token'.", NULL },
    { "n_clients", server_clients, NULL, "Number of ranks that are connected.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot server_slots[] = {
    { Py_tp_doc,
      "RingServer(splits, address=None, key=None, own_rank=-1): serves the ranks of splits to other\n"
      "processes of this user on this machine. address: 'name' or 'name:token'; None: a random one. A client\n"
      "must send the key. own_rank: of the first split, which this process may take itself." },
    { Py_tp_new, server_make },
    { Py_tp_dealloc, server_dealloc },
    { Py_tp_methods, server_methods },
    { Py_tp_getset, server_getset },
    { 0, NULL },
};

static PyType_Spec server_spec = {
    .name = "headrace._core.RingServer",
    .basicsize = sizeof(server_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = server_slots,
};

/* ------------------------------------------------------------------------------------------------------------- Ring */

typedef struct ring_object {
    PyObject ob_base;
    hr_ring *ring; /* NULL: closed */
    int rank;
    int pid;
    bool busy; /* a call waits without the GIL; close() must not free the ring */
} ring_object;

static PyObject *ring_make(PyTypeObject *cls, PyObject *args, PyObject *kwargs)
{
    static char *names[] = { "address", "split", "rank", "timeout", "key", NULL };
    pyhr_state *s = PyType_GetModuleState(cls);
    hr_error err = HR_ERROR_INIT;
    hr_ring *ring = NULL;
    ring_object *self;
    const char *address, *key = NULL;
    int split, rank;
    double timeout = 30;
    hr_status st;

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sii|dz", names, &address, &split, &rank, &timeout, &key))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    st = hr__ring_connect(address, split, rank, key, (int)(timeout * 1000), &ring, &err);
    Py_END_ALLOW_THREADS
    if (st)
        return pyhr_raise(s, st, &err);
    self = PyObject_New(ring_object, cls);
    if (!self) {
        hr__ring_close(ring);
        return NULL;
    }
    self->ring = ring;
    self->rank = rank;
    self->pid = hr__pid();
    self->busy = false;
    return (PyObject *)self;
}

static hr_ring *ring_of(PyObject *op)
{
    ring_object *self = (ring_object *)op;
    pyhr_state *s = pyhr_state_of(op);

    if (self->pid != hr__pid())
        return pyhr_raise_text(s, HR_INVALID, "this shard belongs to process %d; a forked child cannot use it",
                               self->pid);
    if (!self->ring)
        return pyhr_raise_text(s, HR_INVALID, "the shard is closed");
    if (self->busy)
        return pyhr_raise_text(s, HR_INVALID, "expected one thread per shard, found two");
    return self->ring;
}

/* Repeats `call` without the GIL until its status is not HR_PENDING; the status stays HR_PENDING if a signal handler,
 * or the watch (which may use the ring), raised. */
#define RING_WAIT_WATCHED(op, st, call, watch)                                                                         \
    do {                                                                                                               \
        int goes_on;                                                                                                   \
        do {                                                                                                           \
            ((ring_object *)(op))->busy = true;                                                                        \
            Py_BEGIN_ALLOW_THREADS                                                                                     \
            st = (call);                                                                                               \
            Py_END_ALLOW_THREADS;                                                                                      \
            ((ring_object *)(op))->busy = false;                                                                       \
            goes_on = st == HR_PENDING ? waiting_goes_on(watch) : -1;                                                  \
        } while (goes_on == 0 && ring_of(op));                                                                         \
    } while (0)
#define RING_WAIT(op, st, call)                                                                                        \
    do {                                                                                                               \
        ((ring_object *)(op))->busy = true;                                                                            \
        do {                                                                                                           \
            Py_BEGIN_ALLOW_THREADS                                                                                     \
            st = (call);                                                                                               \
            Py_END_ALLOW_THREADS                                                                                       \
        } while (st == HR_PENDING && pyhr_between_waits() == 0);                                                       \
        ((ring_object *)(op))->busy = false;                                                                           \
    } while (0)

static PyObject *ring_begin(PyObject *op, PyObject *args, PyObject *kwargs)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_split_request q;
    waiting watch;
    hr_ring *ring;
    int64_t pass;
    hr_status st;

    if (request_from(args, kwargs, NULL, &q, &watch) < 0 || !(ring = ring_of(op)))
        return NULL;
    RING_WAIT_WATCHED(op, st, hr__ring_begin(ring, &q, PYHR_WAIT_MS, &err), &watch);
    if (st)
        return pyhr_raise(s, st, &err);
    Py_BEGIN_ALLOW_THREADS
    pass = hr__ring_pass(ring);
    Py_END_ALLOW_THREADS
    return PyLong_FromLongLong(pass);
}

static PyObject *ring_next(PyObject *op, PyObject *args)
{
    pyhr_state *s = pyhr_state_of(op);
    hr_error err = HR_ERROR_INIT;
    long long pass = 0;
    PyObject *watch_arg = NULL;
    hr_table *t = NULL;
    waiting watch;
    hr_ring *ring;
    hr_status st;

    if (!PyArg_ParseTuple(args, "|LO", &pass, &watch_arg) || waiting_from(watch_arg, &watch) < 0 ||
        !(ring = ring_of(op)))
        return NULL;
    RING_WAIT_WATCHED(op, st, hr__ring_next(ring, pass, PYHR_WAIT_MS, &t, &err), &watch);
    return st ? pyhr_raise(s, st, &err) : pyhr_table(s, t);
}

static PyObject *ring_leave(PyObject *op, PyObject *none)
{
    ring_object *self = (ring_object *)op;

    (void)none;
    if (!self->ring || self->pid != hr__pid())
        Py_RETURN_NONE;
    if (!ring_of(op))
        return NULL;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    hr__ring_leave(self->ring);
    Py_END_ALLOW_THREADS
    self->busy = false;
    Py_RETURN_NONE;
}

static PyObject *ring_report_taken(PyObject *op, PyObject *arg)
{
    long long n_rows = PyLong_AsLongLong(arg);
    hr_ring *ring;

    if (PyErr_Occurred() || !(ring = ring_of(op)))
        return NULL;
    ((ring_object *)op)->busy = true;
    Py_BEGIN_ALLOW_THREADS
    hr__ring_report_rows(ring, n_rows);
    Py_END_ALLOW_THREADS((ring_object *)op)
    ->busy = false;
    Py_RETURN_NONE;
}

static PyObject *ring_converted(PyObject *op, PyObject *arg)
{
    long long ns = PyLong_AsLongLong(arg);
    hr_ring *ring;

    if (PyErr_Occurred() || !(ring = ring_of(op)))
        return NULL;
    hr__ring_converted(ring, ns);
    Py_RETURN_NONE;
}

static PyObject *ring_position(PyObject *op, PyObject *none)
{
    hr_ring *ring = ring_of(op);
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    hr_status st;

    (void)none;
    if (!ring)
        return NULL;
    RING_WAIT(op, st, hr__ring_position(ring, PYHR_WAIT_MS, &text, &err));
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *ring_position_of(PyObject *op, PyObject *args)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    int n_ahead = 0;
    hr_ring *ring;
    hr_status st;

    if (!PyArg_ParseTuple(args, "|i", &n_ahead) || !(ring = ring_of(op)))
        return NULL;
    RING_WAIT(op, st, hr__ring_position_of(ring, n_ahead, PYHR_WAIT_MS, &text, &err));
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

/* ranks(timeout): one question; the server may be stopped. */
static PyObject *ring_ranks(PyObject *op, PyObject *arg)
{
    double timeout = PyFloat_AsDouble(arg);
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    hr_ring *ring;
    hr_status st;

    if (PyErr_Occurred() || !(ring = ring_of(op)))
        return NULL;
    ((ring_object *)op)->busy = true;
    Py_BEGIN_ALLOW_THREADS
    st = hr__ring_describe_ranks(ring, (int)(HR_MIN(HR_MAX(timeout, 0.0), 1e6) * 1000), &text, &err);
    Py_END_ALLOW_THREADS;
    ((ring_object *)op)->busy = false;
    if (st == HR_PENDING) {
        hr_string_free(text);
        Py_RETURN_NONE;
    }
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *ring_server_of(PyObject *op, void *none)
{
    int pid = 0, rank = -1;

    (void)none;
    if (((ring_object *)op)->ring)
        hr__ring_server_of(((ring_object *)op)->ring, &pid, &rank);
    return Py_BuildValue("(ii)", pid, rank);
}

static PyObject *ring_restore(PyObject *op, PyObject *args, PyObject *kwargs)
{
    char *differs = NULL;
    hr_position_how how = { .differs = &differs };
    hr_error err = HR_ERROR_INIT;
    const char *text;
    hr_ring *ring;
    hr_status st;

    if (restore_arguments(args, kwargs, &text, &how) < 0 || !(ring = ring_of(op)))
        return NULL;
    RING_WAIT(op, st, hr__ring_restore(ring, text, &how, PYHR_WAIT_MS, &err));
    return st ? pyhr_raise(pyhr_state_of(op), st, &err) : code_differs(differs);
}

static PyObject *ring_schema(PyObject *op, PyObject *none)
{
    hr_ring *ring = ring_of(op);
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_status st;

    (void)none;
    if (!ring)
        return NULL;
    RING_WAIT(op, st, hr__ring_schema(ring, PYHR_WAIT_MS, &schema, &err));
    if (st)
        return pyhr_raise(pyhr_state_of(op), st, &err);
    return schema ? pyhr_schema(pyhr_state_of(op), schema) : Py_NewRef(Py_None);
}

static PyObject *ring_stats(PyObject *op, PyObject *none)
{
    hr_ring *ring = ring_of(op);
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    hr_status st;

    (void)none;
    if (!ring)
        return NULL;
    RING_WAIT(op, st, hr__ring_stats(ring, PYHR_WAIT_MS, &text, &err));
    return pyhr_text_taken(pyhr_state_of(op), st, text, &err);
}

static PyObject *ring_fail(PyObject *op, PyObject *arg)
{
    ring_object *self = (ring_object *)op;
    const char *why = pyhr_text(arg);

    if (!why)
        return NULL;
    if (self->ring && self->pid == hr__pid() && !self->busy) {
        self->busy = true;
        Py_BEGIN_ALLOW_THREADS
        hr__ring_fail(self->ring, why);
        Py_END_ALLOW_THREADS
        self->busy = false;
    }
    Py_RETURN_NONE;
}

static PyObject *ring_close(PyObject *op, PyObject *none)
{
    ring_object *self = (ring_object *)op;
    hr_ring *ring = self->ring;

    (void)none;
    if (self->busy) {
        PyErr_SetString(PyExc_RuntimeError, "another thread is using the shard");
        return NULL;
    }
    self->ring = NULL;
    if (ring && self->pid == hr__pid()) {
        Py_BEGIN_ALLOW_THREADS
        hr__ring_close(ring);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static void ring_dealloc(PyObject *op)
{
    PyTypeObject *type = Py_TYPE(op);

    Py_XDECREF(ring_close(op, NULL));
    PyObject_Free(op);
    Py_DECREF(type);
}

static PyMethodDef ring_methods[] = {
    { "begin", WITH_WORDS(ring_begin), METH_VARARGS | METH_KEYWORDS,
      "begin(batch_rows, drop_last=False, prefetch=0, own_memory=False, extra='', shuffle_rows=0,\n"
      "shuffle_seed=None, watch=None): as Split.begin." },
    { "next", ring_next, METH_VARARGS,
      "next(pass=0, watch=None): the next Table; None at the end of the epoch. The Table stays valid while there is a "
      "reference." },
    { "converted", ring_converted, METH_O,
      "converted(ns): this rank has spent this time to make its own batch of the last table." },
    { "report_taken", ring_report_taken, METH_O, "report_taken(n): this rank has taken n rows of the epoch (by_row)." },
    { "leave", ring_leave, METH_NOARGS, "Does not take the rest of the epoch." },
    { "position", ring_position, METH_NOARGS, "The position of all ranks, as text." },
    { "position_of", ring_position_of, METH_VARARGS, "As Split.position_of, of this rank." },
    { "ranks", ring_ranks, METH_O,
      "ranks(timeout): as Split.ranks; None: the server did not answer in these seconds." },
    { "restore", WITH_WORDS(ring_restore), METH_VARARGS | METH_KEYWORDS,
      "restore(text, moved=False, strict=False): as Split.restore; all ranks must agree." },
    { "schema", ring_schema, METH_NOARGS, "The Schema; None if only a run can know it." },
    { "stats", ring_stats, METH_NOARGS, "Statistics so far, as JSON." },
    { "fail", ring_fail, METH_O,
      "fail(why): reports to the server, and so to the other ranks, that this rank raised." },
    { "close", ring_close, METH_NOARGS, "Ends the connection; batches of the consumer stay valid." },
    { NULL, NULL, 0, NULL },
};

static PyGetSetDef ring_getset[] = {
    { "server", ring_server_of, NULL,
      "(pid, rank) of the process that serves; rank -1: that process reads no share itself.", NULL },
    { NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot ring_slots[] = {
    { Py_tp_doc, "Ring(address, split, rank, timeout=30.0, key=None): one rank of one split of a RingServer." },
    { Py_tp_new, ring_make },
    { Py_tp_dealloc, ring_dealloc },
    { Py_tp_methods, ring_methods },
    { Py_tp_getset, ring_getset },
    { 0, NULL },
};

static PyType_Spec ring_spec = {
    .name = "headrace._core.Ring",
    .basicsize = sizeof(ring_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = ring_slots,
};

int pyhr_split_types(PyObject *module, pyhr_state *s)
{
    return pyhr_add_type(module, &split_spec, &s->split) < 0 ||
                   pyhr_add_type(module, &server_spec, &s->ring_server) < 0 ||
                   pyhr_add_type(module, &ring_spec, &s->ring) < 0
               ? -1
               : 0;
}
