/* run_threads.c - how many threads work for a run, and what a run learns about that.
 *
 * The number is the caller's, or the process's; where neither is fixed, the controller in tune.c moves it. This file
 * takes looks for it, between two tables of the consumer, and does what it decides: the windows of stages grow with the
 * threads, and the pool gets threads beyond the default.
 *
 * Tests: test_tune.c, test_autotune.py. */
#include "exec/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_NS 250000000 /* an interval is as long, */
#define INTERVAL_TABLES 8     /* and has so many tables of the consumer */
#define TIMES_MORE 4          /* threads that wait for reads: so many times the default at most, */
#define MOST_THREADS 64       /* and no more than this */
#define REFUSED 0.05          /* share of an interval in which memory was the cause */

/* HEADRACE_AUTOTUNE. A wrong value is as none, and the first run of the process says so: Python and the command refuse
 * it before. */
static bool is_off(void)
{
    static atomic_bool said;
    const char *text = getenv("HEADRACE_AUTOTUNE");

    if (!text || !*text || strcmp(text, "on") == 0)
        return false;
    if (strcmp(text, "off") == 0)
        return true;
    if (!atomic_exchange(&said, true))
        hr__log(HR_LOG_WARNING, "HEADRACE_AUTOTUNE: '%s', expected on or off; it is on", text);
    return false;
}

/* Goes on where the last run of the plan ended. */
static void go_on(hr_tuner *t, hr_plan *p)
{
    hr__lock(&p->lock);
    if (p->learned)
        hr__tuner_go_on(t, p->learned);
    hr__unlock(&p->lock);
}

void hr__threads_init(hr_run *r)
{
    int first = hr__run_threads(r), most = HR_MIN(TIMES_MORE * first, HR_MAX(MOST_THREADS, first));

    r->threads.on = !is_off() && r->options.autotune && r->options.num_threads <= 0 && !hr__threads_are_fixed();
    hr__tuner_init(&r->threads.tuner, first, r->threads.on ? most : first,
                   HR_MAX(1, hr__cpus_allowed() - r->options.reserved_cpus));
    if (!r->threads.on)
        return;
    if (r->options.first_threads)
        r->threads.tuner.threads = HR_MIN(r->options.first_threads, most);
    if (r->options.learns)
        go_on(&r->threads.tuner, r->options.learns);
}

/* ------------------------------------------------------------------------------------------------------------ looks */

static hr_tune_sums sums_locked(const hr_run *r)
{
    hr_tune_sums sums = { .rows = r->counts.rows_out,
                          .tables = r->counts.tables_out,
                          .spilled = hr__account_spill_written(r->account) };

    hr__run_sums_locked(r, &sums.run);
    for (int i = 0; i < r->n_ops + r->n_stages; i++) {
        hr_call_sums call = hr__call_sums(i < r->n_ops ? &r->ops[i]->times : &r->stages[i - r->n_ops]->counts.reads);

        sums.busy_ns += call.busy_ns;
        sums.cpu_ns += call.cpu_ns;
    }
    for (int i = 0; i < r->n_stages; i++)
        sums.refused_ns += r->stages[i]->watch.times.cause_ns[HR_CAUSE_MEMORY];
    return sums;
}

static double share(int64_t part, int64_t whole)
{
    return whole > 0 ? HR_MAX(0.0, HR_MIN((double)part / (double)whole, 1.0)) : 0;
}

static hr_tune_look look_of(const hr_tune_sums *from, const hr_tune_sums *to)
{
    const hr_run_sums *a = &from->run, *b = &to->run;
    int64_t ns = b->at_ns - a->at_ns, busy = to->busy_ns - from->busy_ns;

    return (hr_tune_look){
        .seconds = (double)ns / 1e9,
        .rows = (double)(to->rows - from->rows),
        .hungry = share(b->hungry_ns - a->hungry_ns, ns),
        .off_cpu = 1 - share(to->cpu_ns - from->cpu_ns, busy),
        .disk = share(b->io[HR_IO_FILE].ns - a->io[HR_IO_FILE].ns, busy),
        .cpus = ns > 0 ? (double)(to->cpu_ns - from->cpu_ns) / (double)ns : 0,
        .cpus_used = share(b->cpu_ns - a->cpu_ns, ns * hr__cpus_allowed()),
        .disturbed = to->spilled > from->spilled || b->throttled > a->throttled ||
                     share(to->refused_ns - from->refused_ns, ns) > REFUSED,
    };
}

/* ------------------------------------------------------------------------------------------------------------ moves */

static void note_move_locked(hr_run *r, int64_t now)
{
    hr_run_threads *t = &r->threads;
    hr_move *m = &t->moves[(t->tuner.n_moves - 1) % HR_MOVES_KEPT];

    *m = (hr_move){ .at_ns = now - r->started_ns, .threads = t->tuner.threads };
    snprintf(m->reason, sizeof m->reason, "%s", t->tuner.reason);
}

/* The most tickets in the window: enough to keep all threads busy while the oldest one finishes; more if tickets wait
 * for other processes. */
int hr__window_tickets(const hr_stage *s, int n_threads)
{
    bool waits = false;
    int cap;

    for (int i = 0; i < s->n_ops; i++)
        waits = waits || s->ops[i]->run.op->cls->resumed;
    cap = waits ? HR_CALLS_A_THREAD * n_threads + 8 : 2 * n_threads + (s->run->options.arena ? 4 : 2);
    return s->n_lanes ? HR_MAX(2, (cap + s->n_lanes - 1) / s->n_lanes) : cap; /* lanes read ahead at the same time */
}

/* The windows of as many threads, and never smaller ones than at the start. */
static void size_windows_locked(hr_run *r)
{
    int n_threads = HR_MAX(r->threads.tuner.threads, r->threads.tuner.first);

    for (int i = 0; i < r->n_stages; i++) {
        hr_window *w = &r->stages[i]->window;
        int full = HR_MIN(w->cap, hr__window_tickets(r->stages[i], n_threads));

        w->limit = w->limit == w->full ? full : HR_MIN(w->limit, full);
        w->full = full;
    }
}

int hr__threads_look_locked(hr_run *r)
{
    hr_run_threads *t = &r->threads;
    hr_tune_sums now;
    hr_tune_look look;
    int64_t ns;
    bool moved;

    hr__assert_locked(r);
    if (!t->on || hr__threads_are_fixed() || r->counts.tables_out < t->from.tables + INTERVAL_TABLES)
        return 0;
    ns = hr__clock_ns();
    if (t->from.run.at_ns && ns < t->from.run.at_ns + INTERVAL_NS)
        return 0;
    now = sums_locked(r);
    look = look_of(&t->from, &now);
    moved = t->from.run.at_ns && hr__tuner_look(&t->tuner, &look);
    t->from = now;
    if (!moved)
        return 0;
    note_move_locked(r, ns);
    size_windows_locked(r);
    return t->tuner.threads;
}

void hr__threads_moved(hr_run *r, int n)
{
    hr__pool_grow(n);
    hr__log(HR_LOG_INFO, "threads: %d; %s", n, r->threads.tuner.reason);
}

void hr__run_learned(hr_run *r)
{
    hr_plan *p = r->options.learns;
    hr_tuner now, *kept;

    if (!p || !r->threads.on)
        return;
    hr__run_lock(r);
    now = r->threads.tuner;
    hr__run_unlock(r);
    hr__lock(&p->lock);
    if (!p->learned && now.n_moves)
        p->learned = hr__alloc(NULL, sizeof now);
    if ((kept = p->learned)) /* NULL: nothing moved, or there is no memory, and the next run begins anew */
        *kept = now;
    hr__unlock(&p->lock);
}

void hr__threads_print_locked(const hr_run *r, hr_text *out)
{
    const hr_run_threads *t = &r->threads;
    int64_t n = t->tuner.n_moves;

    hr__text_add(out,
                 ",\"tuned\":{\"on\":%s,\"threads\":%d,\"first_threads\":%d,\"moves\":%" PRId64 ",\"last_moves\":[",
                 t->on ? "true" : "false", hr__run_threads(r), t->tuner.first, n);
    for (int64_t i = HR_MAX(0, n - HR_MOVES_KEPT); i < n; i++) {
        const hr_move *m = &t->moves[i % HR_MOVES_KEPT];

        hr__text_add(out, "%s{\"at_ns\":%" PRId64 ",\"threads\":%d,\"reason\":", i > n - HR_MOVES_KEPT && i ? "," : "",
                     m->at_ns, m->threads);
        hr__text_add_json(out, m->reason);
        hr__text_add(out, "}");
    }
    hr__text_add(out, "]}");
}
