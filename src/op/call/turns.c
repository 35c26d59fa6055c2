/* turns.c - the calls of one operator in one run: instances of a class, and the order of calls.
 *
 * A server makes an *instance* of a user's class for each run and frees it when the run has ended; processes and
 * threads live on. Run numbers, which are never reused, identify instances.
 *
 * With one instance (hr_calls_class.at_a_time) calls begin in the order of the rows: a ticket's calls in the order of
 * their numbers, tickets in the order of their turns. Several threads queue calls, so calls of a later ticket may come
 * first. A call may begin when
 *   1. all calls of the tickets before its own are submitted (hr__calls_turn_done),
 *   2. it is the first waiting call of its run,
 *   3. not too many calls have begun and not ended: a worker runs its calls in order, a server in this process has one,
 *   4. the call before it has been sent to the worker (several threads send).
 *
 * An instance lives in one worker. If it holds rows (finish(), state_dict()) and the worker dies, the run has lost
 * these rows: its later calls fail, and no call is repeated by a new instance without the earlier rows.
 *
 * Tests: test_process.c, test_calls.c. */
#include "op/call/calls.h"

#include <inttypes.h>

/* ------------------------------------------------------------------------------------------------------------- runs */

void hr__calls_run_begin(hr_calls *c, hr_calls_run *run, const hr_calls_class *how)
{
    hr__lock(&c->lock);
    run->how = *how;
    run->id = ++c->n_runs;
    run->listed = true;
    run->prev = NULL;
    if ((run->next = c->runs))
        c->runs->prev = run;
    c->runs = run;
    hr__unlock(&c->lock);
    if (how->instances && c->pid == hr__pid())
        hr__workers_notify_run(c, run, HR_MSG_RUN, how->ahead);
}

void hr__calls_run_end(hr_calls *c, hr_calls_run *run)
{
    bool notifies = run->listed && run->how.instances && c->pid == hr__pid();

    hr__lock(&c->lock);
    if (run->listed) {
        *(run->prev ? &run->prev->next : &c->runs) = run->next;
        if (run->next)
            run->next->prev = run->prev;
        run->listed = false;
    }
    if (notifies) {
        c->n_ended++;
        hr__cond_broadcast(&c->arrived); /* servers in this process free the instances of ended runs */
    }
    hr__unlock(&c->lock);
    if (notifies)
        hr__workers_notify_run(c, run, HR_MSG_RUN_END, INT32_MAX);
    hr__free(run->early);
    hr__free(run->loads);
    hr_error_clear(&run->lost);
    run->early = NULL;
    run->loads = NULL;
}

static hr_calls_run *find_locked(hr_calls *c, uint64_t id)
{
    hr_calls_run *run = c->runs;

    while (run && run->id != id)
        run = run->next;
    return run;
}

bool hr__calls_runs(hr_calls *c, uint64_t id)
{
    bool found;

    hr__lock(&c->lock);
    found = find_locked(c, id);
    hr__unlock(&c->lock);
    return found;
}

hr_status hr__calls_run_restore(hr_calls *c, hr_calls_run *run, const char *state, hr_error *err)
{
    char *copy = hr__strdup(NULL, state);

    if (!copy)
        return hr__error_memory(err, c->name, (int64_t)strlen(state));
    hr__lock(&c->lock);
    hr__free(run->loads);
    run->loads = copy;
    hr__unlock(&c->lock);
    return HR_OK;
}

void hr__runs_lost_locked(hr_calls *c, const hr_calls_worker *w, const hr_error *why)
{
    for (hr_calls_run *run = c->runs; run; run = run->next) {
        if (run->home != w)
            continue;
        run->home = NULL;
        if (run->how.keeps && !run->lost.status)
            hr_error_set(&run->lost, HR_PEER,
                         "%s; the rows that its instance held are lost, since it has finish() or state_dict(); resume "
                         "from the last position",
                         why->text);
    }
}

hr_status hr__run_refusal_locked(const hr_calls_run *run, hr_error *err)
{
    return run->lost.status ? hr_error_set(err, run->lost.status, "%s", run->lost.text) : HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ turns */

/* Advances `turn` past all tickets whose calls are submitted. */
static void advance_locked(hr_calls_run *run)
{
    bool found = true;

    for (run->turn++; found; run->turn += found) {
        int64_t i = 0;

        while (i < run->n_early && run->early[i] != run->turn)
            i++;
        if ((found = i < run->n_early))
            run->early[i] = run->early[--run->n_early];
    }
}

hr_status hr__calls_turn_done(hr_calls *c, hr_calls_run *run, int64_t turn, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&c->lock);
    if (turn == run->turn)
        advance_locked(run);
    else if (!hr__grow(NULL, (void **)&run->early, &run->cap_early, run->n_early + 1, sizeof *run->early))
        st = hr__error_memory(err, c->name, run->n_early);
    else
        run->early[run->n_early++] = turn;
    if (c->waiting.first)
        hr__cond_broadcast(&c->arrived);
    hr__unlock(&c->lock);
    if (!st)
        hr__workers_dispatch(c);
    return st;
}

/* Whether it is the first waiting call of its run; the list is in order. */
static bool is_first_locked(const hr_call *call)
{
    const hr_call *p = call->calls->waiting.first;

    while (p->run != call->run)
        p = p->next;
    return p == call;
}

bool hr__call_may_begin_locked(const hr_call *call, const hr_calls_worker *w)
{
    const hr_calls_run *run = call->run;

    if (!(call->place.flags & HR_CALL_IN_ORDER) || call->resumes)
        return true;
    if (call->turn > run->turn || !is_first_locked(call))
        return false;
    if (run->lost.status)
        return false; /* reap() of its worker fails it */
    return w ? (!run->home || run->home == w) && !run->sends : run->n_begun < run->how.at_a_time;
}

void hr__call_sent(hr_calls *c, const hr_call_place *place)
{
    hr_calls_run *run;

    if (!(place->flags & HR_CALL_IN_ORDER))
        return;
    hr__lock(&c->lock);
    if ((run = find_locked(c, place->run)))
        run->sends = false;
    hr__unlock(&c->lock);
}

void hr__call_begin_locked(hr_call *call, hr_calls_worker *w)
{
    hr_calls_run *run = call->run;

    if (!(call->place.flags & HR_CALL_IN_ORDER) || call->begun)
        return;
    call->begun = true;
    run->n_begun++;
    run->home = w;
    run->sends = w;
    if (run->loads) {
        call->loads = run->loads;
        run->loads = NULL;
    }
}

void hr__call_end_locked(hr_call *call)
{
    if (!call->begun || !call->set)
        return;
    call->begun = false;
    call->run->n_begun--;
    if (call->calls->waiting.first)
        hr__cond_broadcast(&call->calls->arrived);
}

/* ----------------------------------------------------------------------------------------------------------- states */

const char *hr__call_state(const hr_call *call) { return call->loads; }

void hr__call_save(hr_call *call, const char *state)
{
    char *copy = hr__strdup(NULL, state), *old;

    hr__lock(&call->calls->lock);
    old = call->saved;
    call->saved = copy; /* NULL if out of memory: the marker is dropped */
    hr__unlock(&call->calls->lock);
    hr__free(old);
}

void hr__call_begins(hr_call *call)
{
    hr__lock(&call->calls->lock);
    call->taken_ns = hr__clock_ns();
    hr__unlock(&call->calls->lock);
}

char *hr__call_take_saved(hr_call *call)
{
    char *saved;

    hr__lock(&call->calls->lock);
    saved = call->saved;
    call->saved = NULL;
    hr__unlock(&call->calls->lock);
    return saved;
}
