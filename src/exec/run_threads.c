/* run_threads.c - how many threads work for a run, how many tables may be ahead, and what a run learns about that.
 *
 * The number is the caller's, or the process's; where neither is fixed, the controller in tune.c moves it. This file
 * takes looks for it, between two tables of the consumer, and does what it decides: the windows of stages grow with the
 * threads, and the pool gets threads beyond the default. The number of tables ahead begins at the caller's, and the
 * controller in tune_ahead.c moves it. One of the two is on trial at a time.
 *
 * Tests: test_tune.c, test_autotune.py. */
#include "exec/run.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define INTERVAL_NS 250000000 /* an interval is as long, */
#define INTERVAL_TABLES 8     /* and has so many tables of the consumer */
#define TIMES_MORE 4          /* threads that wait for reads: so many times the default at most, */
#define MOST_THREADS 64       /* and no more than this */
#define REFUSED 0.05          /* share of an interval in which memory was the cause */
#define AHEAD_PART 8          /* tables beyond the caller's number have this part of the memory limit */

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
static void go_on(hr_run_threads *t, hr_plan *p)
{
    const hr_learned *learned;

    hr__lock(&p->lock);
    if ((learned = p->learned) && t->on)
        hr__tuner_go_on(&t->tuner, &learned->threads);
    if (learned && t->ahead.on)
        hr__ahead_go_on(&t->ahead.tuner, &learned->ahead);
    hr__unlock(&p->lock);
}

static void forget_takes(hr_run_ahead *a)
{
    a->spared_ns = a->lacked = a->most = 0;
    a->least = INT_MAX;
}

static void ahead_init(hr_run *r)
{
    hr_run_ahead *a = &r->threads.ahead;

    a->on = !is_off() && r->options.autotune && !r->options.careful && r->options.most_prefetch > r->options.prefetch;
    hr__ahead_init(&a->tuner, r->options.prefetch, a->on ? r->options.most_prefetch : r->options.prefetch);
    forget_takes(a);
}

void hr__threads_init(hr_run *r)
{
    int first = hr__run_threads(r), most = HR_MIN(TIMES_MORE * first, HR_MAX(MOST_THREADS, first));

    r->threads.on = !is_off() && r->options.autotune && r->options.num_threads <= 0 && !hr__threads_are_fixed();
    hr__tuner_init(&r->threads.tuner, first, r->threads.on ? most : first,
                   HR_MAX(1, hr__cpus_allowed() - r->options.reserved_cpus));
    ahead_init(r);
    if (r->threads.on && r->options.first_threads)
        r->threads.tuner.threads = HR_MIN(r->options.first_threads, most);
    r->threads.first = r->threads.tuner.threads;
    if (r->options.learns)
        go_on(&r->threads, r->options.learns);
}

/* Tables that have the part of the memory limit which is for tables ahead. */
static int room_of(const hr_run *r)
{
    int64_t part = hr__account_limit(r->account) / AHEAD_PART;

    return r->out_table_bytes < 0 ? 0 : (int)HR_MIN(part / HR_MAX(r->out_table_bytes, 1), INT_MAX);
}

int hr__run_ahead(const hr_run *r)
{
    const hr_ahead_tuner *t = &r->threads.ahead.tuner;
    int depth = t->depth == t->first ? t->first : HR_MAX(t->first, HR_MIN(t->depth, room_of(r)));

    return hr__ahead(depth, r->options.small_for, r->out_table_bytes);
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

/* A wait uses up takes that found the run at rest: with as many tables more it had worked then. */
static void count_wait(hr_run_ahead *a, int64_t ns, int beyond)
{
    int64_t tables = a->step_ns > 0 ? HR_MIN(ns / a->step_ns + 1, a->stood_still) : 0;

    a->least = 0;
    if (!tables)
        return;
    a->spared_ns += HR_MIN(ns, tables * a->step_ns);
    a->lacked = HR_MAX(a->lacked, (int)tables + beyond);
    a->stood_still -= (int)tables;
}

void hr__took_locked(hr_run *r)
{
    hr_run_ahead *a = &r->threads.ahead;
    int64_t waited = r->watch.sums.hungry_ns - a->hungry_ns;
    int ready = r->out.n + 1, may;

    hr__assert_locked(r);
    if (!a->on)
        return;
    may = hr__run_ahead(r);
    a->hungry_ns = r->watch.sums.hungry_ns;
    a->most = HR_MAX(a->most, ready);
    if (waited > 0) {
        count_wait(a, waited, HR_MAX(0, may - a->tuner.depth));
        return;
    }
    a->least = HR_MIN(a->least, ready);
    if (ready >= may && !r->n_active && !r->n_pending && !r->out_ended && a->stood_still < a->tuner.largest)
        a->stood_still++;
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

/* Takes that the look has counted are forgotten. */
static hr_ahead_look ahead_look_of(hr_run *r, const hr_tune_look *look)
{
    hr_run_ahead *a = &r->threads.ahead;
    hr_ahead_look l = { .seconds = look->seconds,
                        .rows = look->rows,
                        .spared_seconds = (double)a->spared_ns / 1e9,
                        .lacked = a->lacked,
                        .least = a->least,
                        .most = a->most,
                        .room = room_of(r),
                        .disturbed = look->disturbed };

    forget_takes(a);
    return l;
}

/* ------------------------------------------------------------------------------------------------------------ moves */

static void note_move_locked(hr_run *r, const char *reason, int64_t now)
{
    hr_run_threads *t = &r->threads;
    hr_move *m = &t->moves[t->n_moves++ % HR_MOVES_KEPT];

    *m = (hr_move){ .at_ns = now - r->started_ns, .threads = t->tuner.threads, .prefetch = t->ahead.tuner.depth };
    snprintf(m->reason, sizeof m->reason, "%s", reason);
}

/* HR_WINDOW=n: windows of n tickets for each thread, for bench/autotune.py; 0: none is given. */
static int given_window(void)
{
    const char *text = getenv("HR_WINDOW");

    return text ? atoi(text) : 0;
}

/* The most tickets in the window: enough to keep all threads busy while the oldest one finishes; more if tickets wait
 * for other processes. */
int hr__window_tickets(const hr_stage *s, int n_threads)
{
    int cap, given = given_window();
    bool waits = false;

    if (given > 0)
        return HR_MAX(2, given * n_threads);
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

/* One trial at a time: while one controller has its own, the other one does not look. */
static bool decide_locked(hr_run *r, const hr_tune_look *look, const hr_ahead_look *ahead, int64_t now)
{
    hr_run_threads *t = &r->threads;
    bool in_trial = t->ahead.tuner.phase != HR_TUNE_WATCH;

    if (t->on && !hr__threads_are_fixed() && !in_trial && hr__tuner_look(&t->tuner, look)) {
        note_move_locked(r, t->tuner.reason, now);
        size_windows_locked(r);
        return true;
    }
    if (!t->ahead.on || t->tuner.phase != HR_TUNE_WATCH || !hr__ahead_look(&t->ahead.tuner, ahead))
        return false;
    note_move_locked(r, t->ahead.tuner.reason, now);
    return true;
}

bool hr__threads_look_locked(hr_run *r)
{
    hr_run_threads *t = &r->threads;
    hr_tune_sums now;
    hr_tune_look look;
    hr_ahead_look ahead;
    int64_t ns;
    bool moved;

    hr__assert_locked(r);
    if ((!t->on && !t->ahead.on) || r->counts.tables_out < t->from.tables + INTERVAL_TABLES)
        return false;
    ns = hr__clock_ns();
    if (t->from.run.at_ns && ns < t->from.run.at_ns + INTERVAL_NS)
        return false;
    now = sums_locked(r);
    look = look_of(&t->from, &now);
    ahead = ahead_look_of(r, &look);
    moved = t->from.run.at_ns && decide_locked(r, &look, &ahead, ns);
    if (t->from.run.at_ns)
        t->ahead.step_ns = (int64_t)((1 - look.hungry) * look.seconds * 1e9) / HR_MAX(now.tables - t->from.tables, 1);
    t->from = now;
    return moved;
}

void hr__threads_moved(hr_run *r)
{
    const hr_run_threads *t = &r->threads;
    const hr_move *m = &t->moves[(t->n_moves - 1) % HR_MOVES_KEPT];

    hr__pool_grow(t->tuner.threads);
    hr__log(HR_LOG_INFO, "threads: %d, prefetch: %d; %s", m->threads, m->prefetch, m->reason);
}

void hr__run_learned(hr_run *r)
{
    hr_plan *p = r->options.learns;
    const hr_run_threads *t = &r->threads;
    hr_learned now, *kept;
    bool moved;

    if (!p || (!t->on && !t->ahead.on))
        return;
    hr__run_lock(r);
    now = (hr_learned){ .threads = t->tuner, .ahead = t->ahead.tuner };
    moved = t->n_moves > 0;
    hr__run_unlock(r);
    hr__lock(&p->lock);
    if (!p->learned && moved && (kept = hr__alloc(NULL, sizeof now))) {
        *kept = now;
        p->learned = kept;
    }
    kept = p->learned; /* NULL: nothing moved, or there is no memory, and the next run begins anew */
    if (kept && t->on)
        kept->threads = now.threads;
    if (kept && t->ahead.on) /* one that was given is no measurement */
        kept->ahead = now.ahead;
    hr__unlock(&p->lock);
}

void hr__threads_print_locked(const hr_run *r, hr_text *out)
{
    const hr_run_threads *t = &r->threads;
    const hr_ahead_tuner *a = &t->ahead.tuner;
    int64_t first = HR_MAX(0, t->n_moves - HR_MOVES_KEPT);

    hr__text_add(out, ",\"tuned\":{\"on\":%s,\"threads\":%d,\"first_threads\":%d", t->on ? "true" : "false",
                 hr__run_threads(r), t->first);
    hr__text_add(out, ",\"prefetch\":%d,\"first_prefetch\":%d,\"most_prefetch\":%d", a->depth, a->first, a->largest);
    hr__text_add(out, ",\"moves\":%" PRId64 ",\"last_moves\":[", t->n_moves);
    for (int64_t i = first; i < t->n_moves; i++) {
        const hr_move *m = &t->moves[i % HR_MOVES_KEPT];

        hr__text_add(out, "%s{\"at_ns\":%" PRId64 ",\"threads\":%d,\"prefetch\":%d,\"reason\":", i > first ? "," : "",
                     m->at_ns, m->threads, m->prefetch);
        hr__text_add_json(out, m->reason);
        hr__text_add(out, "}");
    }
    hr__text_add(out, "]}");
}
