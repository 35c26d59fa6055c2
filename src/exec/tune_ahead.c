/* tune_ahead.c - moves the number of tables that may be ready ahead of the consumer, by measurement.
 *
 * More tables ahead are worth their memory in one case: the run stands still since enough are ready, and later the
 * consumer waits, such as for a slow ticket now and then, or for rows that come in bursts. Where the run never stands
 * still they change nothing, and where the consumer never waits they gain nothing. So run_threads.c counts waits that
 * more tables would have spared, and how many tables these are. The moves, one at a time:
 *
 *   deeper   such waits are SPARED of a period: by the tables that lacked, and at least twice as many. It is a trial:
 *            after three periods at least a quarter of these waits must be gone, and the rate have gained at least
 *            half of what went, or the depth goes back
 *   less     for a while some tables were always ready, or never as many as may be: half of the spare ones go. Where a
 *            wait comes back after that, the next while is twice as long
 *   room     tables became larger, and would take more than their part of the memory limit: as many as fit
 *
 * A trial that fails doubles the pause before the next one. Periods with spills, refused memory or refused requests
 * decide nothing, and end a trial.
 *
 * Tests: test_tune.c, test_autotune.py. */
#include "exec/tune.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#define PERIOD_S 1.0     /* of one decision */
#define TRIAL_PERIODS 3  /* of a trial, after one that does not count */
#define SPARED 0.05      /* of the time: waits worth a trial */
#define GONE 0.75        /* of these waits may be left */
#define GAINS 0.5        /* the rate's gain, of the share that is gone */
#define FIRST_HOLD 4     /* periods */
#define MOST_HOLD 256    /* periods */
#define FIRST_QUIET_S 10 /* in which depth was not used */
#define MOST_QUIET_S 640

static hr_ahead_look nothing(void) { return (hr_ahead_look){ .least = INT_MAX }; }

void hr__ahead_init(hr_ahead_tuner *t, int first, int largest)
{
    *t = (hr_ahead_tuner){ .depth = first,
                           .first = first,
                           .largest = largest > first ? largest : first,
                           .sums = nothing(),
                           .quiet = nothing(),
                           .next_hold = FIRST_HOLD,
                           .next_quiet = FIRST_QUIET_S };
}

void hr__ahead_go_on(hr_ahead_tuner *t, const hr_ahead_tuner *ended)
{
    if (ended->first != t->first || ended->largest != t->largest)
        return;
    *t = *ended;
    t->n_moves = 0;
    if (t->phase == HR_TUNE_TRIAL)
        t->phase = HR_TUNE_SETTLE;
    t->sums = nothing();
    t->quiet = nothing();
}

__attribute__((format(printf, 3, 4))) static bool move(hr_ahead_tuner *t, int depth, const char *why, ...)
{
    va_list args;

    if (depth == t->depth)
        return false;
    va_start(args, why);
    vsnprintf(t->reason, sizeof t->reason, why, args);
    va_end(args);
    t->depth = depth;
    t->n_moves++;
    t->sums = nothing();
    t->quiet = nothing();
    return true;
}

static void add(hr_ahead_look *sums, const hr_ahead_look *l)
{
    sums->seconds += l->seconds;
    sums->rows += l->rows;
    sums->spared_seconds += l->spared_seconds;
    sums->lacked = l->lacked > sums->lacked ? l->lacked : sums->lacked;
    sums->least = l->least < sums->least ? l->least : sums->least;
    sums->most = l->most > sums->most ? l->most : sums->most;
}

static int most_of(const hr_ahead_tuner *t, const hr_ahead_look *l)
{
    int n = l->room < t->largest ? l->room : t->largest;

    return n > t->first ? n : t->first;
}

static bool is_over(const hr_ahead_tuner *t) { return t->sums.seconds >= PERIOD_S; }

static double spared(const hr_ahead_look *sums) { return sums->spared_seconds / sums->seconds; }

static double rate_of(const hr_ahead_look *sums) { return sums->rows / sums->seconds; }

static bool deeper(hr_ahead_tuner *t, const hr_ahead_look *l)
{
    int most = most_of(t, l), by = t->sums.lacked > t->depth ? t->sums.lacked : t->depth;
    int depth = by < most - t->depth ? t->depth + by : most;

    t->share = spared(&t->sums);
    t->rate = rate_of(&t->sums);
    t->before = t->depth;
    if (depth == t->depth)
        return false;
    t->phase = HR_TUNE_SETTLE;
    if (t->next_quiet < MOST_QUIET_S)
        t->next_quiet *= 2;
    return move(t, depth, "a trial: more tables ahead would spare the consumer waits, %.0f %% of its time",
                100 * t->share);
}

/* Half of what is not used goes. */
static bool less(hr_ahead_tuner *t)
{
    hr_ahead_look q = t->quiet;
    int spare = q.least < INT_MAX && q.least > t->depth - q.most ? q.least : t->depth - q.most;
    int depth = t->depth - (spare + 1) / 2;

    t->quiet = nothing();
    depth = depth > t->first ? depth : t->first;
    return spare > 1 &&
           move(t, depth, "from %d to %d tables were ready for %.0f s, of %d", q.least, q.most, q.seconds, t->depth);
}

static bool watch(hr_ahead_tuner *t, const hr_ahead_look *l)
{
    bool waits;

    add(&t->quiet, l);
    if (!is_over(t))
        return false;
    waits = spared(&t->sums) >= SPARED;
    if (waits && t->hold <= 0 && deeper(t, l))
        return true;
    if (t->hold > 0)
        t->hold--;
    t->sums = nothing();
    return t->depth > t->first && t->quiet.seconds >= t->next_quiet && less(t);
}

static bool end_trial(hr_ahead_tuner *t)
{
    double share, rate;

    if (t->sums.seconds < TRIAL_PERIODS * PERIOD_S)
        return false;
    share = spared(&t->sums);
    rate = rate_of(&t->sums);
    t->phase = HR_TUNE_WATCH;
    if (share <= GONE * t->share && rate >= (1 + GAINS * (t->share - share)) * t->rate) {
        t->hold = 0;
        t->next_hold = FIRST_HOLD;
        return false; /* the sums stay: what still lacks may be worth the next trial at once */
    }
    t->hold = t->next_hold;
    t->next_hold = t->next_hold < MOST_HOLD ? 2 * t->next_hold : MOST_HOLD;
    return move(t, t->before, "back: %d tables ahead gave %.2f of the rate, and such waits %.0f %% after %.0f",
                t->depth, t->rate > 0 ? rate / t->rate : 1, 100 * share, 100 * t->share);
}

bool hr__ahead_look(hr_ahead_tuner *t, const hr_ahead_look *l)
{
    if (l->disturbed) {
        bool trial = t->phase != HR_TUNE_WATCH;

        t->phase = HR_TUNE_WATCH;
        t->hold = FIRST_HOLD;
        t->sums = nothing();
        t->quiet = nothing();
        return trial && move(t, t->before, "back: memory or a store refused during the trial");
    }
    if (t->depth > most_of(t, l)) {
        t->phase = HR_TUNE_WATCH;
        return move(t, most_of(t, l), "no more tables fit in their part of the memory limit");
    }
    add(&t->sums, l);
    if (t->phase == HR_TUNE_TRIAL)
        return end_trial(t);
    if (t->phase == HR_TUNE_WATCH)
        return watch(t, l);
    if (is_over(t)) {
        t->phase = HR_TUNE_TRIAL;
        t->sums = nothing();
    }
    return false;
}
