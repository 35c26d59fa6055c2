/* calls.c - a queue of function calls: filled by operators of any number of runs, served by whoever comes.
 *
 * Servers in this process (Python threads, the consumer between two batches) come and take: hr__calls_take, then
 * hr__call_done. Worker processes are brought their calls (process.c). Both may be there at once.
 *
 * Order. Calls are served in the order of their arrival. Results have none: a group is handed back whole, and its operator
 * emits them by index. If several calls of a group fail, the first by index counts, whichever failed first; those behind
 * it that still wait are not served any more. */
#include "op/calls.h"

#include <inttypes.h>

/* -------------------------------------------------------------------------------------------------- the queue itself */

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
    hr__calls_part_end(c);
}

hr_calls *hr__calls_part(hr_calls *c)
{
    atomic_fetch_add_explicit(&c->parts, 1, memory_order_relaxed);
    return c;
}

void hr__calls_part_end(hr_calls *c)
{
    if (atomic_fetch_sub_explicit(&c->parts, 1, memory_order_acq_rel) > 1)
        return;
    hr__workers_clear(c);
    hr__mutex_clear(&c->lock);
    hr__cond_clear(&c->arrived);
    hr__account_unref(c->account);
    hr__free(c->name);
    hr__free(c);
}

int hr__calls_n_waiting(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->n_waiting;
    hr__unlock(&c->lock);
    return n;
}

int hr__calls_n_servers(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->n_workers + c->n_takers;
    hr__unlock(&c->lock);
    return n;
}

static void push_locked(hr_calls *c, hr_call *call)
{
    call->state = HR_CALL_WAITING;
    call->tag = ++c->n_tags;
    call->prev = c->last;
    call->next = NULL;
    *(c->last ? &c->last->next : &c->first) = call;
    c->last = call;
    c->n_waiting++;
}

static void unlink_locked(hr_calls *c, hr_call *call)
{
    *(call->prev ? &call->prev->next : &c->first) = call->next;
    *(call->next ? &call->next->prev : &c->last) = call->prev;
    call->prev = call->next = NULL;
    c->n_waiting--;
}

hr_call *hr__calls_pop_locked(hr_calls *c)
{
    hr_call *call = c->first;

    if (call) {
        unlink_locked(c, call);
        call->state = HR_CALL_TAKEN;
    }
    return call;
}

static void call_free(hr_call *call)
{
    hr_calls *c = call->calls;

    for (int64_t i = 0; i < call->n_results; i++)
        hr_table_unref(call->results[i]);
    hr__free(call->results);
    hr_table_unref(call->input);
    hr__free(call);
    hr__calls_part_end(c);
}

/* ------------------------------------------------------------------------------------------------------------ groups */

hr_status hr__group_new(hr_calls *c, hr_account *account, hr_call_group **out, hr_error *err)
{
    hr_call_group *g = hr__zalloc(account, sizeof *g);

    *out = g;
    if (!g)
        return hr__error_memory(err, c->name, sizeof *g);
    g->calls = c;
    return HR_OK;
}

hr_status hr__group_add(hr_call_group *g, hr_table *input, const hr_call_place *place, hr_error *err)
{
    hr_call *call;

    if (!hr__grow(NULL, (void **)&g->items, &g->cap, g->n + 1, sizeof *g->items) ||
        !(call = hr__zalloc(NULL, sizeof *call)))
        return hr__error_memory(err, g->calls->name, sizeof *call);
    call->calls = hr__calls_part(g->calls);
    call->group = g;
    call->index = g->n;
    call->input = hr_table_ref(input);
    call->place = *place;
    g->items[g->n++] = call;
    return HR_OK;
}

void hr__group_free(hr_call_group *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n; i++)
        if (g->items[i])
            call_free(g->items[i]);
    hr_error_clear(&g->err);
    hr__free(g->items);
    hr__free(g);
}

/* Nothing is awaited any more: -> whom to wake, who may then free g. */
static hr_resume *complete_locked(hr_call_group *g)
{
    hr_resume *r = g->resume;

    *(g->prev ? &g->prev->next : &g->run->groups) = g->next;
    if (g->next)
        g->next->prev = g->prev;
    g->prev = g->next = NULL;
    g->resume = NULL;
    return r;
}

static void forget_waiting_locked(hr_call *call)
{
    unlink_locked(call->calls, call);
    call->state = HR_CALL_DONE;
    call->group->n_left--;
}

/* Call `index` failed. What waits behind it need not be done. */
static void fail_locked(hr_call_group *g, int index, hr_status st, hr_error *moved)
{
    if (index >= g->failed)
        return;
    g->failed = index;
    g->st = st;
    hr__error_move(&g->err, moved);
    for (int i = index + 1; i < g->n; i++)
        if (g->items[i] && g->items[i]->state == HR_CALL_WAITING)
            forget_waiting_locked(g->items[i]);
}

/* Why a call that waits would wait for ever; HR_OK: it would not. */
static hr_status refusal_locked(const hr_calls *c, hr_error *err)
{
    if (c->closed)
        return hr_error_set(err, HR_CANCELLED, "no more calls are served");
    if (hr__calls_unserved_locked(c))
        return hr_error_set(err, HR_PEER, "%s", c->lost_why.text[0] ? c->lost_why.text : "no worker process");
    return HR_OK;
}

void hr__group_submit(hr_call_group *g, hr_calls_run *run)
{
    hr_calls *c = g->calls;
    hr_resume *r = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_status st = HR_OK;

    g->run = run;
    g->n_left = g->failed = g->n;
    if (c->pid != hr__pid()) {
        hr_error_set(&err, HR_INVALID, "%s: its workers are those of process %d, not of its child %d", c->name, c->pid,
                     hr__pid());
        hr__resume(g->resume, HR_INVALID, &err);
        return;
    }
    hr__lock(&c->lock);
    if ((g->next = run->groups))
        g->next->prev = g;
    run->groups = g;
    if (run->cancelled) {
        st = hr_error_set(&err, HR_CANCELLED, "the run was stopped");
        r = complete_locked(g);
    } else if (refusal_locked(c, &err)) {
        fail_locked(g, 0, err.status, &err);
        r = complete_locked(g);
    }
    for (int i = 0; !r && i < g->n; i++) {
        push_locked(c, g->items[i]);
        hr__cond_signal(&c->arrived);
    }
    hr__unlock(&c->lock);
    if (r)
        hr__resume(r, st, &err);
    else
        hr__workers_dispatch(c);
}

/* Waiting calls are dropped, served ones become orphans. */
static hr_resume *abandon_locked(hr_call_group *g)
{
    for (int i = 0; i < g->n; i++) {
        hr_call *call = g->items[i];

        if (call && call->state == HR_CALL_WAITING) {
            forget_waiting_locked(call);
        } else if (call && call->state == HR_CALL_TAKEN) {
            call->group = NULL;
            g->items[i] = NULL;
        }
    }
    return complete_locked(g);
}

void hr__calls_run_cancel(hr_calls *c, hr_calls_run *run)
{
    hr__lock(&c->lock);
    run->cancelled = true;
    while (run->groups) {
        hr_resume *r = abandon_locked(run->groups);
        hr_error err = HR_ERROR_INIT;

        hr__unlock(&c->lock);
        hr_error_set(&err, HR_CANCELLED, "the run was stopped");
        hr__resume(r, HR_CANCELLED, &err);
        hr__lock(&c->lock);
    }
    hr__unlock(&c->lock);
    hr__workers_drop(c);
}

hr_resume *hr__call_orphan_locked(hr_call *call, hr_status st, hr_error *moved)
{
    hr_call_group *g = call->group;

    call->group = NULL;
    g->items[call->index] = NULL;
    g->n_left--;
    fail_locked(g, call->index, st, moved);
    return g->n_left ? NULL : complete_locked(g);
}

void hr__calls_refuse(hr_calls *c)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    hr__lock(&c->lock);
    while (c->first && (st = refusal_locked(c, &err))) {
        hr_call *call = c->first;
        hr_call_group *g = call->group;
        hr_resume *r;

        forget_waiting_locked(call);
        fail_locked(g, call->index, st, &err);
        r = g->n_left ? NULL : complete_locked(g);
        hr__unlock(&c->lock);
        if (r)
            hr__resume(r, HR_OK, NULL); /* the operator reports g->err behind the results before it */
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

/* ----------------------------------------------------------------------------------------------------------- servers */

hr_status hr__calls_take(hr_calls *c, int timeout_ms, hr_call **out, hr_error *err)
{
    int64_t end = hr__clock_ns() + timeout_ms * INT64_C(1000000);
    hr_call *call = NULL;
    bool closed;

    hr__lock(&c->lock);
    c->n_asking++;
    c->n_takers = HR_MAX(c->n_takers, c->n_asking + c->n_in_hand);
    while (!(call = hr__calls_pop_locked(c)) && !c->closed && timeout_ms != 0) {
        int64_t wait_ns = end - hr__clock_ns();

        if (timeout_ms < 0)
            hr__cond_wait(&c->arrived, &c->lock);
        else if (wait_ns <= 0 || !hr__cond_wait_ns(&c->arrived, &c->lock, wait_ns))
            timeout_ms = 0; /* one last look */
    }
    c->n_asking--;
    if (call) {
        call->in_hand = true;
        c->n_in_hand++;
    }
    closed = c->closed;
    hr__unlock(&c->lock);
    *out = call;
    if (call)
        return HR_OK;
    return closed ? hr_error_set(err, HR_CANCELLED, "%s: no more calls are served", c->name) : HR_PENDING;
}

const hr_table *hr__call_input(const hr_call *call) { return call->input; }
void hr__call_place(const hr_call *call, hr_call_place *out) { *out = call->place; }

void hr__call_result(hr_call *call, hr_table *takes)
{
    if (!hr__grow(NULL, (void **)&call->results, &call->cap_results, call->n_results + 1, sizeof *call->results)) {
        call->incomplete = true;
        hr_table_unref(takes);
        return;
    }
    call->results[call->n_results++] = takes;
}

void hr__call_done(hr_call *takes, hr_status st, hr_error *moved)
{
    hr_call *call = takes;
    hr_calls *c = call->calls;
    hr_resume *r = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_call_group *g;

    hr__error_move(&err, moved);
    if (!st && call->incomplete)
        st = hr_error_set(&err, HR_NO_MEMORY, "no memory for its results");
    hr__lock(&c->lock);
    c->n_in_hand -= call->in_hand;
    if ((g = call->group)) {
        call->state = HR_CALL_DONE;
        g->n_left--;
        if (st)
            fail_locked(g, call->index, st, &err);
        if (g->n_left == 0)
            r = complete_locked(g);
    }
    hr__unlock(&c->lock);
    if (!g)
        call_free(call); /* an orphan */
    if (r)
        hr__resume(r, HR_OK, NULL);
    hr_error_clear(&err);
}
