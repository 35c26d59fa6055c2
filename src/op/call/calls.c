/* calls.c - a queue of function calls: operators of any number of runs fill it, any number of servers serve it.
 *
 * Servers in this process (Python threads, the consumer between two batches) call hr__calls_take, then hr__call_done.
 * process.c sends calls to worker processes. Both kinds can serve at once.
 *
 * Order. The calls of a run are served in the order of its rows, whichever thread queued them first; calls of several
 * runs in the order of arrival. Results come in any order: the operator of a call set collects them by index. If
 * several calls of a set fail, the error of the lowest index counts; waiting calls after it are not served, unless the
 * operator leaves out failed batches. */
#include "op/call/calls.h"

#include <inttypes.h>
#include <stdio.h>

#define LONG_NS (5 * INT64_C(1000000))        /* a call longer than this wakes its operator on its own */
#define DELAY_EACH_NS (10 * INT64_C(1000000)) /* between two readings of hr__thread_delay_ns() */

/* ------------------------------------------------------------------------------------------------- the queue itself */

hr_status hr__calls_new(const char *name, hr_calls **out, hr_error *err)
{
    hr_calls *c = hr__zalloc(NULL, sizeof *c);

    *out = NULL;
    if (!c || !(c->name = hr__strdup(NULL, name)) || !(c->account = hr__account_new(name, NULL, 0))) {
        if (c)
            hr__free(c->name);
        hr__free(c);
        return hr__error_memory(err, name, sizeof *c);
    }
    atomic_init(&c->users, 1);
    atomic_init(&c->parts, 1);
    c->pid = hr__pid();
    hr__mutex_init(&c->lock);
    hr__cond_init(&c->arrived);
    *out = c;
    return HR_OK;
}

void hr__calls_set_code(hr_calls *c, const char *code)
{
    hr__lock(&c->lock);
    snprintf(c->code, sizeof c->code, "%s", code);
    hr__unlock(&c->lock);
}

void hr__calls_code(hr_calls *c, char out[17])
{
    hr__lock(&c->lock);
    memcpy(out, c->code, sizeof c->code);
    hr__unlock(&c->lock);
}

hr_calls *hr__calls_ref(hr_calls *c)
{
    atomic_fetch_add_explicit(&c->users, 1, memory_order_relaxed);
    return c;
}

void hr__calls_unref(hr_calls *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->users, 1, memory_order_acq_rel) > 1 || c->pid != hr__pid())
        return;
    hr__calls_close(c);
    hr__calls_inner_unref(c);
}

hr_calls *hr__calls_inner_ref(hr_calls *c)
{
    atomic_fetch_add_explicit(&c->parts, 1, memory_order_relaxed);
    return c;
}

void hr__calls_inner_unref(hr_calls *c)
{
    if (atomic_fetch_sub_explicit(&c->parts, 1, memory_order_acq_rel) > 1)
        return;
    hr__workers_clear(c);
    hr__mutex_clear(&c->lock);
    hr__cond_clear(&c->arrived);
    hr__account_unref(c->account);
    hr_error_clear(&c->errored);
    hr__free(c->name);
    hr__free(c);
}

int hr__calls_n_waiting(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->waiting.n;
    hr__unlock(&c->lock);
    return n;
}

void hr__calls_ended(hr_calls *c, int64_t *n, int64_t *busy_ns, int64_t *waited_ns)
{
    const hr_served *s = &c->served;

    hr__lock(&c->lock);
    *n = s->calls;
    *busy_ns = s->busy_ns;
    *waited_ns = s->busy_ns - HR_MIN(s->busy_ns, s->cpu_ns + s->delay_ns);
    hr__unlock(&c->lock);
}

int hr__calls_n_servers(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->n_workers + c->n_takers;
    hr__unlock(&c->lock);
    return n;
}

hr_batch_cost hr__calls_batch_cost(hr_calls *c)
{
    hr_batch_cost cost;

    hr__lock(&c->lock);
    cost = c->batch;
    hr__unlock(&c->lock);
    return cost;
}

void hr__calls_measured(hr_calls *c, int64_t private_bytes)
{
    hr__lock(&c->lock);
    c->private_bytes = private_bytes;
    c->private_peak = HR_MAX(c->private_peak, private_bytes);
    hr__unlock(&c->lock);
}

/* ------------------------------------------------------------------------------------------------------------ lists */

void hr__call_list_add(hr_call_list *l, hr_call *call, hr_call *next)
{
    call->prev = next ? next->prev : l->last;
    call->next = next;
    *(call->prev ? &call->prev->next : &l->first) = call;
    *(call->next ? &call->next->prev : &l->last) = call;
    l->n++;
}

void hr__call_list_remove(hr_call_list *l, hr_call *call)
{
    *(call->prev ? &call->prev->next : &l->first) = call->next;
    *(call->next ? &call->next->prev : &l->last) = call->prev;
    call->prev = call->next = NULL;
    l->n--;
}

static bool before(const hr_call *a, const hr_call *b)
{
    return a->turn != b->turn ? a->turn < b->turn : a->number < b->number;
}

/* The place of a new call in the list: before the first call of its run with a later turn; NULL: at the end. */
static hr_call *next_of_last(const hr_call *call)
{
    hr_call *next = NULL;

    for (hr_call *p = call->calls->waiting.last; p && (p->run != call->run || before(call, p)); p = p->prev)
        if (p->run == call->run)
            next = p;
    return next;
}

/* The place of a call that had begun: first, except for earlier calls of its run. */
static hr_call *next_of_first(const hr_call *call)
{
    hr_call *next = call->calls->waiting.first;

    for (hr_call *p = next; p; p = p->next)
        if (p->run == call->run && before(p, call))
            next = p->next;
    return next;
}

static void wait_locked(hr_call *call, bool first)
{
    call->state = HR_CALL_WAITING;
    hr__call_list_add(&call->calls->waiting, call, first ? next_of_first(call) : next_of_last(call));
    if (call->resumes || call->calls->paused.n)
        hr__cond_broadcast(&call->calls->arrived); /* not every waiting server may take it */
    else
        hr__cond_signal(&call->calls->arrived);
}

bool hr__call_fits_locked(const hr_call *call, const hr_call_list *l, uint64_t server)
{
    for (const hr_call *p = l->first; p; p = p->next)
        if (p->state == HR_CALL_PAUSED && p->set && p->run == call->run && p->server == server && before(p, call))
            return false;
    return true;
}

/* A pause is no time in the queue. */
static void take_locked(hr_call *call)
{
    int64_t now = hr__clock_ns();

    if (call->resumes)
        call->queued_ns += now - call->taken_ns;
    call->taken_ns = now;
}

/* Takes the first call that `server` may take; NULL: none. */
static hr_call *pop_locked(hr_calls *c, uint64_t server)
{
    hr_call *call = c->waiting.first;

    while (call && ((call->resumes ? call->server != server : !hr__call_fits_locked(call, &c->paused, server)) ||
                    !hr__call_may_begin_locked(call, NULL)))
        call = call->next;
    if (call) {
        hr__call_list_remove(&c->waiting, call);
        hr__call_begin_locked(call, NULL);
        call->state = HR_CALL_TAKEN;
        take_locked(call);
    }
    return call;
}

/* ---------------------------------------------------------------------------------------------------------- results */

static void result_clear(hr_result *r)
{
    hr_table_unref(r->table);
    hr__free(r->counts);
    *r = (hr_result){ 0 };
}

void hr__results_clear(hr_results *r)
{
    for (int64_t i = 0; i < r->n; i++)
        result_clear(&r->items[i]);
    hr__free(r->items);
    *r = (hr_results){ 0 };
}

static void call_free(hr_call *call)
{
    hr_calls *c = call->calls;

    hr__results_clear(&call->results);
    hr_table_unref(call->input);
    hr_table_unref(call->whole);
    hr_error_clear(&call->err);
    hr__free(call->batches);
    hr__free(call->loads);
    hr__free(call->saved);
    hr__free(call);
    hr__calls_inner_unref(c);
}

hr_resume *hr__call_add_locked(hr_call *call, hr_result *takes)
{
    hr_results *r = &call->results;

    if (!call->set || call->n_skip > 0) {
        call->n_skip -= call->n_skip > 0;
        result_clear(takes);
        return NULL;
    }
    if (!hr__grow(NULL, (void **)&r->items, &r->cap, r->n + 1, sizeof *r->items)) {
        call->incomplete = true;
        result_clear(takes);
        return NULL;
    }
    r->n_bytes += hr__table_bytes_used(takes->table);
    r->items[r->n++] = *takes;
    *takes = (hr_result){ 0 };
    return call->streams ? hr__call_set_ready_locked(call->set) : NULL;
}

/* -------------------------------------------------------------------------------------------------------- call sets */

hr_status hr__call_set_new(hr_calls *c, hr_account *account, hr_call_set **out, hr_error *err)
{
    hr_call_set *g = hr__zalloc(account, sizeof *g);

    *out = g;
    if (!g)
        return hr__error_memory(err, c->name, sizeof *g);
    g->calls = c;
    return HR_OK;
}

hr_status hr__call_set_add(hr_call_set *g, hr_table *input, hr_table *whole, const hr_call_place *place,
                           hr_batch_place *batches, int64_t n_batches, int64_t turn, int64_t number, hr_error *err)
{
    hr_call *call;

    if (!hr__grow(NULL, (void **)&g->items, &g->cap, g->n + 1, sizeof *g->items) ||
        !(call = hr__zalloc(NULL, sizeof *call))) {
        hr__free(batches);
        return hr__error_memory(err, g->calls->name, sizeof *call);
    }
    call->calls = hr__calls_inner_ref(g->calls);
    call->set = g;
    call->index = g->n;
    call->input = hr_table_ref(input);
    call->whole = whole ? hr_table_ref(whole) : NULL;
    call->input_bytes = hr__table_bytes_used(input);
    call->place = *place;
    call->batches = batches;
    call->n_batches = n_batches;
    call->turn = turn;
    call->number = number;
    g->items[g->n++] = call;
    return HR_OK;
}

static bool is_readable(const hr_call_set *g)
{
    bool each = g->calls->call_ns >= LONG_NS;

    if (g->run->cancelled)
        return true;
    for (int i = g->next; i < g->n; i++) {
        const hr_call *call = g->items[i];

        if (call->state != HR_CALL_DONE)
            return call->streams && call->results.n > 0;
        if (each || (call->st && !g->calls->tolerant))
            return true;
    }
    return true;
}

hr_resume *hr__call_set_ready_locked(hr_call_set *g)
{
    hr_resume *r = g->resume;

    if (!r || !is_readable(g))
        return NULL;
    g->resume = NULL;
    return r;
}

static void learn_bytes_locked(hr_calls *c, int64_t batch_bytes)
{
    c->batch.bytes = HR_MAX(batch_bytes, (7 * c->batch.bytes + batch_bytes) / 8);
}

/* Ends a call, which is in no list, with status `st`. Calls after a failed one are not needed. */
static void done_locked(hr_call *call, hr_status st, hr_error *moved)
{
    hr_call_set *g = call->set;

    if (!call->streams)
        learn_bytes_locked(call->calls, call->results.n_bytes / HR_MAX(call->n_batches, 1));
    if (!st && call->incomplete)
        st = hr_error_set(moved, HR_NO_MEMORY, "out of memory for the results of a function");
    if (!st && g->run->cancelled)
        st = hr_error_set(moved, HR_CANCELLED, "the run was stopped"); /* it may have given only some of its results */
    call->state = HR_CALL_DONE;
    call->st = st;
    hr__call_end_locked(call);
    hr__error_move(&call->err, moved);
    for (int i = call->index + 1; st && !call->calls->tolerant && i < g->n; i++)
        if (g->items[i]->state == HR_CALL_WAITING) {
            hr__call_list_remove(&call->calls->waiting, g->items[i]);
            g->items[i]->state = HR_CALL_DONE;
            g->items[i]->st = HR_CANCELLED;
        }
}

/* The reason why no server will ever take a waiting call; HR_OK: a server can. */
static hr_status refusal_locked(const hr_calls *c, hr_error *err)
{
    if (c->closed)
        return hr_error_set(err, HR_CANCELLED, "cancelled: the function pool was closed");
    if (hr__calls_unserved_locked(c))
        return hr_error_set(err, HR_PEER, "%s", c->lost_why.text[0] ? c->lost_why.text : "no worker process");
    return HR_OK;
}

hr_status hr__call_set_submit(hr_call_set *g, hr_calls_run *run, hr_error *err)
{
    hr_calls *c = g->calls;
    int64_t now = hr__clock_ns();
    hr_status st;

    if (c->pid != hr__pid())
        return hr_error_set(err, HR_INVALID,
                            "%s: the workers belong to process %d; a forked child (process %d) cannot use them",
                            c->name, c->pid, hr__pid());
    hr__lock(&c->lock);
    st = run->cancelled ? hr_error_set(err, HR_CANCELLED, "the run was stopped") : refusal_locked(c, err);
    if (!st)
        st = hr__run_refusal_locked(run, err);
    if (!st) {
        g->run = run;
        if ((g->others = run->sets))
            g->others->prev = g;
        run->sets = g;
        for (int i = 0; i < g->n; i++) {
            g->items[i]->tag = ++c->n_tags;
            g->items[i]->run = run;
            g->items[i]->queued_ns = now;
            run->input_bytes += g->items[i]->input_bytes;
            wait_locked(g->items[i], false);
        }
    }
    hr__unlock(&c->lock);
    if (!st)
        hr__workers_dispatch(c);
    return st;
}

/* The results of a paused call have been collected: it may continue. */
static bool go_on_relocks(hr_calls *c, hr_call *call)
{
    if (call->worker) {
        hr__worker_go_on_relocks(c, call);
        return false;
    }
    hr__call_list_remove(&c->paused, call);
    wait_locked(call, true);
    return true;
}

bool hr__call_set_collect(hr_call_set *g, hr_results *out, bool *again)
{
    hr_calls *c = g->calls;
    hr_call *call = g->items[g->next];
    bool done;

    *again = false;
    hr__lock(&c->lock);
    *out = call->results;
    call->results = (hr_results){ 0 };
    call->n_collected += out->n;
    done = call->state == HR_CALL_DONE;
    g->next += done;
    if (call->state == HR_CALL_PAUSED)
        *again = go_on_relocks(c, call);
    hr__unlock(&c->lock);
    return done;
}

bool hr__call_set_cancelled(hr_call_set *g)
{
    bool cancelled;

    hr__lock(&g->calls->lock);
    cancelled = g->run->cancelled;
    hr__unlock(&g->calls->lock);
    return cancelled;
}

bool hr__call_set_wait(hr_call_set *g, hr_resume *takes)
{
    hr_calls *c = g->calls;
    bool waits;

    hr__lock(&c->lock);
    if ((waits = !is_readable(g)))
        g->resume = takes;
    hr__unlock(&c->lock);
    return waits;
}

/* Removes the call from its list. True: no server has it, so the caller may free it. */
static bool let_go_locked(hr_call *call)
{
    hr_calls *c = call->calls;

    switch (call->state) {
    case HR_CALL_WAITING: hr__call_list_remove(&c->waiting, call); return true;
    case HR_CALL_PAUSED:
        if (call->worker)
            break;
        hr__call_list_remove(&c->paused, call);
        return true;
    case HR_CALL_TAKEN: break;
    default: return true;
    }
    call->set = NULL; /* an orphan */
    hr__results_clear(&call->results);
    hr_table_unref(call->whole);
    call->whole = NULL;
    return false;
}

void hr__call_set_free(hr_call_set *g)
{
    hr_calls *c;
    bool orphans = false;

    if (!g)
        return;
    c = g->calls;
    hr__lock(&c->lock);
    if (g->run) {
        *(g->prev ? &g->prev->others : &g->run->sets) = g->others;
        if (g->others)
            g->others->prev = g->prev;
    }
    for (int i = 0; i < g->n; i++)
        if (!let_go_locked(g->items[i])) {
            g->items[i] = NULL;
            orphans = true;
        }
    hr__unlock(&c->lock);
    for (int i = 0; i < g->n; i++)
        if (g->items[i])
            call_free(g->items[i]);
    hr__free(g->items);
    hr__free(g);
    if (orphans)
        hr__workers_drop(c);
}

/* Ends the calls that no server has. */
static void drop_waiting_locked(hr_call_set *g)
{
    for (int i = 0; i < g->n; i++) {
        hr_call *call = g->items[i];
        bool waits = call->state == HR_CALL_WAITING;

        if (!waits && (call->state != HR_CALL_PAUSED || call->worker))
            continue;
        hr__call_list_remove(waits ? &g->calls->waiting : &g->calls->paused, call);
        call->state = HR_CALL_DONE;
        call->st = HR_CANCELLED;
    }
}

void hr__calls_run_cancel(hr_calls *c, hr_calls_run *run)
{
    hr_call_set *g;

    hr__lock(&c->lock);
    run->cancelled = true;
    for (g = run->sets; g; g = g->others)
        drop_waiting_locked(g);
    for (g = run->sets; g;) {
        hr_resume *r = g->resume;
        hr_error err = HR_ERROR_INIT;

        g->resume = NULL;
        g = g->others;
        if (!r)
            continue;
        hr__unlock(&c->lock);
        hr_error_set(&err, HR_CANCELLED, "the run was stopped");
        hr__resume(r, HR_CANCELLED, &err);
        hr__lock(&c->lock);
        g = run->sets; /* from the beginning again: the set may have been freed meanwhile */
    }
    hr__unlock(&c->lock);
    hr__workers_drop(c);
}

void hr__calls_refuse(hr_calls *c)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    hr__lock(&c->lock);
    while ((c->waiting.first || c->paused.first) && (st = refusal_locked(c, &err))) {
        hr_call_list *l = c->waiting.first ? &c->waiting : &c->paused;
        hr_call *call = l->first;
        hr_resume *r;

        if (l == &c->paused && !c->closed)
            break; /* paused by a server in this process, which still exists */
        hr__call_list_remove(l, call);
        done_locked(call, st, &err);
        r = hr__call_set_ready_locked(call->set);
        hr__unlock(&c->lock);
        if (r)
            hr__resume(r, HR_OK, NULL); /* the operator reports the error after the results before it */
        hr__lock(&c->lock);
    }
    hr__unlock(&c->lock);
    hr_error_clear(&err);
}

void hr__calls_close(hr_calls *c)
{
    if (c->pid != hr__pid())
        return;
    hr__lock(&c->lock);
    c->closed = true;
    hr__cond_broadcast(&c->arrived);
    hr__unlock(&c->lock);
    hr__calls_refuse(c);
    hr__workers_close(c);
}

/* --------------------------------------------------------------------------------------------------------- failures */

int64_t hr__calls_count_errored(hr_calls *c, hr_calls_run *run)
{
    int64_t n;

    hr__lock(&c->lock);
    n = ++run->n_errored;
    hr__unlock(&c->lock);
    return n;
}

void hr__calls_forgive(hr_calls *c)
{
    hr__lock(&c->lock);
    c->tolerant = true;
    hr__unlock(&c->lock);
}

void hr__calls_stats(hr_calls *c, const hr_calls_run *run, hr_text *out)
{
    hr__lock(&c->lock);
    hr__text_add(out, ",\"errored_blocks\":%" PRId64 ",\"workers\":%d", run ? run->n_errored : 0, c->n_workers);
    hr__text_add(out, ",\"input_bytes\":%" PRId64, run ? run->input_bytes : 0);
    hr__text_add(out, ",\"workers_bytes\":%" PRId64 ",\"workers_peak_bytes\":%" PRId64, c->private_bytes,
                 c->private_peak);
    hr__unlock(&c->lock);
}

void hr__calls_served(hr_calls *c, const hr_calls_run *run, hr_served *out)
{
    hr__lock(&c->lock);
    *out = run ? run->served : (hr_served){ 0 };
    out->servers = HR_MAX(out->servers, c->n_workers + c->n_takers);
    out->here = !c->by_workers;
    hr__unlock(&c->lock);
}

static void add_spent(hr_served *s, const hr_spent *spent)
{
    s->busy_ns += spent->busy_ns;
    s->cpu_ns += HR_MAX(0, HR_MIN(spent->cpu_ns, spent->busy_ns));
    s->delay_ns += HR_MAX(0, spent->delay_ns);
}

static hr_served *served_of_run(const hr_call *call)
{
    return call->set && call->set->run ? &call->set->run->served : NULL;
}

void hr__call_spent_locked(hr_call *call, const hr_spent *spent)
{
    hr_served *s = served_of_run(call);

    call->spent_ns += spent->busy_ns;
    add_spent(&call->calls->served, spent);
    if (!s)
        return;
    add_spent(s, spent);
    s->servers = HR_MAX(s->servers, call->calls->n_workers + call->calls->n_takers);
}

int64_t hr__call_served_locked(hr_call *call, const hr_spent *spent)
{
    hr_served *s = served_of_run(call);

    hr__call_spent_locked(call, spent);
    call->calls->served.calls++;
    if (s) {
        s->calls++;
        s->queued_ns += HR_MAX(0, call->taken_ns - call->queued_ns);
        s->lock_ns += atomic_exchange_explicit(&call->calls->lock_ns, 0, memory_order_relaxed);
    }
    return call->spent_ns;
}

void hr__calls_left_out(hr_calls *c, hr_call *call, const char *where)
{
    hr__lock(&c->lock);
    if (c->n_errored++ == 0) {
        hr_error_clear(&c->errored);
        hr__error_move(&c->errored, &call->err);
        (void)hr__error_at(&c->errored, c->errored.status, "%s", where);
    }
    hr__unlock(&c->lock);
}

int64_t hr__calls_errored(hr_calls *c, hr_error *first)
{
    int64_t n;

    hr__lock(&c->lock);
    n = c->n_errored;
    c->n_errored = 0;
    hr__error_move(first, &c->errored);
    hr__unlock(&c->lock);
    return n;
}

void hr__call_requeue_locked(hr_call *call)
{
    hr__results_clear(&call->results);
    call->n_skip = call->n_collected;
    call->streams = call->resumes = call->dropped = false;
    call->incomplete = false;
    call->worker = NULL;
    hr__call_end_locked(call);
    wait_locked(call, true);
}

/* ---------------------------------------------------------------------------------------------------------- servers */

hr_status hr__calls_take(hr_calls *c, uint64_t server, int timeout_ms, hr_call **out, hr_error *err)
{
    int64_t end = hr__clock_ns() + timeout_ms * INT64_C(1000000), n_ended;
    hr_call *call = NULL;
    bool closed;

    hr__lock(&c->lock);
    n_ended = c->n_ended;
    c->n_idle++;
    c->n_takers = HR_MAX(c->n_takers, c->n_idle + c->n_in_hand);
    while (!(call = pop_locked(c, server)) && !c->closed && c->n_ended == n_ended && timeout_ms != 0) {
        int64_t wait_ns = end - hr__clock_ns();

        if (timeout_ms < 0)
            hr__cond_wait(&c->arrived, &c->lock);
        else if (wait_ns <= 0 || !hr__cond_wait_ns(&c->arrived, &c->lock, wait_ns))
            timeout_ms = 0; /* check once more */
    }
    c->n_idle--;
    if (call) {
        call->in_hand = true;
        call->taken_cpu_ns = hr__thread_cpu_ns();
        call->server = server;
        c->n_in_hand++;
    } else if (c->waiting.first) {
        hr__cond_signal(&c->arrived); /* the signal was meant for another server */
    }
    closed = c->closed;
    hr__unlock(&c->lock);
    *out = call;
    if (call)
        return HR_OK;
    return closed ? hr_error_set(err, HR_CANCELLED, "%s: cancelled: the function pool was closed", c->name)
                  : HR_PENDING;
}

void hr__calls_waited(hr_calls *c, int64_t ns) { atomic_fetch_add_explicit(&c->lock_ns, ns, memory_order_relaxed); }

const hr_table *hr__call_input(const hr_call *call) { return call->input; }
void hr__call_place(const hr_call *call, hr_call_place *out) { *out = call->place; }
uint64_t hr__call_tag(const hr_call *call) { return call->tag; }

int64_t hr__call_batches(const hr_call *call, const hr_batch_place **out)
{
    *out = call->batches;
    return call->n_batches;
}

static hr_result result_of(hr_table *takes, const hr_result_place *of, bool *failed)
{
    hr_result r = { .table = takes };

    *failed = false;
    if (!of)
        return r;
    r.batch = of->batch;
    if (of->counts && of->n_counts > 0) {
        r.n_counts = of->n_counts;
        if (!(r.counts = hr__alloc(NULL, (size_t)of->n_counts * sizeof *r.counts)))
            *failed = true;
        else
            memcpy(r.counts, of->counts, (size_t)of->n_counts * sizeof *r.counts);
    }
    return r;
}

static hr_go give(hr_call *call, hr_table *takes, const hr_result_place *of, bool streams)
{
    hr_calls *c = call->calls;
    hr_resume *r = NULL;
    bool failed;
    hr_result found = result_of(takes, of, &failed);
    hr_go go;

    hr__table_charge(takes);
    hr__lock(&c->lock);
    call->streams |= streams;
    if (failed) {
        call->incomplete = true;
        result_clear(&found);
    } else {
        r = hr__call_add_locked(call, &found);
    }
    go = !call->set || call->run->cancelled || c->closed                                                ? HR_GO_AWAY
         : call->results.n >= HR_AHEAD_TABLES || call->results.n_bytes >= hr__ahead_bytes(&call->place) ? HR_GO_PAUSE
                                                                                                        : HR_GO_ON;
    hr__unlock(&c->lock);
    if (r)
        hr__resume(r, HR_OK, NULL);
    return go;
}

void hr__call_result(hr_call *call, hr_table *takes, const hr_result_place *of) { (void)give(call, takes, of, false); }

hr_go hr__call_stream(hr_call *call, hr_table *takes, const hr_result_place *of) { return give(call, takes, of, true); }

/* What this thread spent on the call that it has in hand. The consumer, which serves inline calls, is no server all of
 * its time. */
static hr_spent spent_here(const hr_call *call)
{
    static _Thread_local hr_delay_clock of_thread;

    if (!call->in_hand)
        return (hr_spent){ 0 };
    return (hr_spent){ .busy_ns = hr__clock_ns() - call->taken_ns,
                       .cpu_ns = hr__thread_cpu_ns() - call->taken_cpu_ns,
                       .delay_ns = call->server ? hr__delay_since(&of_thread) : 0 };
}

void hr__call_pause(hr_call *takes)
{
    hr_call *call = takes;
    hr_calls *c = call->calls;
    hr_error err = HR_ERROR_INIT;
    hr_resume *r = NULL;
    hr_spent spent = spent_here(call);
    bool orphan;

    hr__lock(&c->lock);
    if (call->in_hand)
        hr__call_spent_locked(call, &spent);
    c->n_in_hand -= call->in_hand;
    call->in_hand = false;
    orphan = !call->set;
    if (!orphan && c->closed) {
        done_locked(call, HR_CANCELLED,
                    (hr_error_set(&err, HR_CANCELLED, "cancelled: the function pool was closed"), &err));
        r = hr__call_set_ready_locked(call->set);
    } else if (!orphan) {
        call->resumes = true;
        if (call->results.n == 0) { /* all results have been collected meanwhile */
            wait_locked(call, true);
        } else {
            call->state = HR_CALL_PAUSED;
            hr__call_list_add(&c->paused, call, NULL);
            r = hr__call_set_ready_locked(call->set);
        }
    }
    hr__unlock(&c->lock);
    if (orphan)
        call_free(call);
    if (r)
        hr__resume(r, HR_OK, NULL);
    hr_error_clear(&err);
}

static bool has_tag(const hr_call *call, uint64_t tag)
{
    while (call && call->tag != tag)
        call = call->next;
    return call;
}

bool hr__calls_paused(hr_calls *c, uint64_t tag)
{
    bool found;

    hr__lock(&c->lock);
    found = has_tag(c->paused.first, tag) || has_tag(c->waiting.first, tag);
    hr__unlock(&c->lock);
    return found;
}

int64_t hr__delay_since(hr_delay_clock *d)
{
    int64_t now = hr__clock_ns(), before = d->at_ns ? d->delay_ns : -1;

    if (d->at_ns && now - d->at_ns < DELAY_EACH_NS)
        return 0;
    *d = (hr_delay_clock){ now, hr__thread_delay_ns() };
    return before >= 0 && d->delay_ns >= before ? d->delay_ns - before : 0;
}

static int64_t mean_with(int64_t mean, int64_t next) { return mean ? (7 * mean + next) / 8 : HR_MAX(next, 1); }

void hr__call_took_locked(hr_call *call, int64_t ns)
{
    hr_calls *c = call->calls;

    c->call_ns = mean_with(c->call_ns, ns);
    c->batch.ns = mean_with(c->batch.ns, ns / HR_MAX(call->n_batches, 1));
}

void hr__call_done(hr_call *takes, hr_status st, hr_error *moved)
{
    hr_call *call = takes;
    hr_calls *c = call->calls;
    hr_resume *r = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_spent spent = spent_here(call);
    bool orphan;

    hr__error_move(&err, moved);
    hr__lock(&c->lock);
    if (call->in_hand)
        hr__call_took_locked(call, hr__call_served_locked(call, &spent));
    c->n_in_hand -= call->in_hand;
    call->in_hand = false;
    hr__worker_forget_locked(call);
    orphan = !call->set;
    if (!orphan) {
        done_locked(call, st, &err);
        r = hr__call_set_ready_locked(call->set);
    }
    hr__unlock(&c->lock);
    if (orphan)
        call_free(call);
    if (r)
        hr__resume(r, HR_OK, NULL);
    hr_error_clear(&err);
}
