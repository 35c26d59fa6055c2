/* tune.c - moves the number of threads of a run by measurement.
 *
 * The default, a thread for each CPU, is right where threads compute. It is wrong in two cases. Threads that wait for a
 * slow disk leave CPUs idle: there more threads help. And where the consumer finds its rows ready while all CPUs are
 * busy, its own steps may be faster beside fewer threads. So the controller looks at each interval, and tries one move
 * at a time:
 *
 *   up    the consumer waits, and the threads wait for reads of files: half as many again, or twice as many where they
 *         hardly do anything else
 *   down  the consumer does not wait, and the CPUs are full: a quarter less, at least one
 *   back  the consumer waits again below the default: the default at once
 *
 * A trial lasts two intervals; the first one does not count, since windows fill. It is kept only for a gain beyond
 * noise: up by UP_GAIN of the rows a second, down if the rate stays and the consumer remains fed. A trial that fails
 * doubles the pause before the next one, up to MOST_HOLD intervals, so that a settled run is left alone; a rate that
 * changes by CHANGE ends the pause. Intervals with spills, refused memory or refused requests decide nothing.
 *
 * No move changes rows, their order or batches: these never depend on threads. Memory stays below its limit, since each
 * step of work is admitted as before. CPUs that are left to the consumer stay free: threads beyond the default wait for
 * reads, and become more only as far as they would not fill more than the other CPUs.
 *
 * Tests: test_tune.c, test_autotune.py. */
#include "exec/tune.h"

#include <stdarg.h>
#include <stdio.h>

#define FED 0.05     /* a consumer that waits for less than this share is fed */
#define OFF_CPU 0.3  /* threads wait: shares of their time off CPUs, and in reads */
#define FULL 0.85    /* of the CPUs */
#define UP_GAIN 1.05 /* of the rate */
#define SAME 0.98    /* of the rate */
#define CHANGE 0.3   /* of the rate: the load is another one */
#define FIRST_HOLD 4 /* intervals */
#define MOST_HOLD 256

void hr__tuner_init(hr_tuner *t, int first, int most, int cpus)
{
    *t = (hr_tuner){ .threads = first, .first = first, .most = most, .cpus = cpus, .hold = 1, .next_hold = FIRST_HOLD };
}

void hr__tuner_go_on(hr_tuner *t, const hr_tuner *ended)
{
    if (ended->first != t->first || ended->most != t->most || ended->cpus != t->cpus)
        return;
    *t = *ended;
    t->n_moves = 0;
    if (t->phase == HR_TUNE_TRIAL)
        t->phase = HR_TUNE_SETTLE;
    if (t->hold < 1)
        t->hold = 1;
}

__attribute__((format(printf, 3, 4))) static bool move(hr_tuner *t, int threads, const char *why, ...)
{
    va_list args;

    if (threads == t->threads)
        return false;
    va_start(args, why);
    vsnprintf(t->reason, sizeof t->reason, why, args);
    va_end(args);
    t->threads = threads;
    t->n_moves++;
    return true;
}

static double rate_of(const hr_tune_look *l) { return l->seconds > 0 ? l->rows / l->seconds : 0; }

static bool is_fed(const hr_tune_look *l) { return l->hungry < FED; }

static bool threads_wait(const hr_tune_look *l) { return l->off_cpu >= OFF_CPU && l->disk >= OFF_CPU; }

static void remember(hr_tuner *t, const hr_tune_look *l)
{
    t->rate = rate_of(l);
    t->fed = is_fed(l);
}

static void settle(hr_tuner *t, int hold)
{
    t->phase = HR_TUNE_WATCH;
    t->hold = hold;
}

/* Half as many again, or twice as many, as far as these would not fill more CPUs than they may. */
static int more(const hr_tuner *t, const hr_tune_look *l)
{
    int n = t->threads;

    n += l->off_cpu > 0.8 ? n : n / 2 > 1 ? n / 2 : 1;
    if (n * l->cpus > (double)t->cpus * t->threads)
        n = (int)(t->cpus * t->threads / l->cpus);
    return n > t->threads ? n : t->threads;
}

/* The number of threads worth a trial; the present one: none is. */
static int candidate(const hr_tuner *t, const hr_tune_look *l)
{
    int n = t->threads;

    if (!is_fed(l) && threads_wait(l))
        n = more(t, l);
    else if (is_fed(l) && l->cpus_used >= FULL)
        n -= n / 4 > 1 ? n / 4 : 1;
    return n < 1 ? 1 : n > t->most ? t->most : n;
}

static bool watch(hr_tuner *t, const hr_tune_look *l)
{
    double rate = rate_of(l);
    bool changed = t->rate > 0 && (rate < (1 - CHANGE) * t->rate || rate > (1 + CHANGE) * t->rate);
    int n;

    if (t->threads < t->first && !is_fed(l)) {
        settle(t, t->next_hold);
        return move(t, t->first, "the consumer waits again, %.0f %% of its time", 100 * l->hungry);
    }
    if (changed || (t->rate > 0 && is_fed(l) != t->fed)) {
        t->next_hold = FIRST_HOLD;
        t->hold = t->hold > 1 ? 1 : t->hold;
        remember(t, l);
    }
    if (t->hold > 0) {
        t->hold--;
        return false;
    }
    remember(t, l);
    n = candidate(t, l);
    if (n == t->threads)
        return false;
    t->before = t->threads;
    t->phase = HR_TUNE_SETTLE;
    if (n > t->threads)
        return move(t, n,
                    "a trial: the consumer waits %.0f %% of its time, and threads wait for reads %.0f %% of theirs",
                    100 * l->hungry, 100 * l->off_cpu);
    return move(t, n, "a trial: the consumer finds its rows ready, and the CPUs are %.0f %% busy", 100 * l->cpus_used);
}

static bool end_trial(hr_tuner *t, const hr_tune_look *l)
{
    double rate = rate_of(l), by = t->rate > 0 ? rate / t->rate : 1;
    bool up = t->threads > t->before;

    if (up ? by >= UP_GAIN : is_fed(l) && by >= SAME) {
        remember(t, l);
        t->next_hold = FIRST_HOLD;
        settle(t, 0);
        return false;
    }
    settle(t, t->next_hold);
    t->next_hold = t->next_hold < MOST_HOLD ? 2 * t->next_hold : MOST_HOLD;
    return move(t, t->before, "back: %d threads gave %.2f of the rate", t->threads, by);
}

bool hr__tuner_look(hr_tuner *t, const hr_tune_look *l)
{
    if (l->disturbed) {
        bool trial = t->phase != HR_TUNE_WATCH;

        settle(t, FIRST_HOLD);
        return trial && move(t, t->before, "back: memory or a store refused during the trial");
    }
    switch (t->phase) {
    case HR_TUNE_SETTLE: t->phase = HR_TUNE_TRIAL; return false;
    case HR_TUNE_TRIAL: return end_trial(t, l);
    default: return watch(t, l);
    }
}
