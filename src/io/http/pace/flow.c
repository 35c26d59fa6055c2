/* flow.c - finds the number of requests in flight beyond which more of them bring nothing: the plateau.
 *
 * 1. Time is cut into ticks, of TICK_NS or of two latencies. A tick counts if all of its requests had work: a request
 *    waited all the time. The tick after a change of the level does not count. MEASURE_TICKS ticks are a measure. At
 *    the start a tick begins anew with the first request that waits.
 * 2. RISE: the level doubles as long as a measure is GAIN_RISE above the best one. Below BLIND_LEVEL a measure is one
 *    tick of QUICK_TICK_NS or a latency, so that a low first level costs a fast host little. While nothing has come at
 *    all, the level doubles up to BLIND_LEVEL.
 * 3. HOLD keeps the level for hold_ns. Then one trial: DOWN, a lower level, that stays if it costs less than LOSS_DOWN;
 *    after a failure UP, a higher one, that stays if it brings GAIN_UP. A level that fails doubles hold_ns.
 *    Trials compare with the plateau of the level before, never with a best that decays.
 * 4. 429 and 503 cut the level at once, once a CUT_NS, and the level after the cut is the ceiling for CEILING_NS.
 * 5. Collapse: measures under half of the plateau while requests are in flight. An edge may have begun to throttle: CUT
 *    halves the level, as long as that does not make the rate worse; half of the level that collapsed is the ceiling.
 *    A cut that makes it worse is taken back: then the link has become slower.
 * 6. FALLEN: DEEP_MEASURES in a row under DEEP of the plateau; fewer are a server that stands still for a moment. Such
 *    a trickle is an edge that punishes a source for the amount that it took, and nothing but time ends that. The level
 *    goes to EDGE_LEVEL at most, which edges bear. When the rate is back, that level is the ceiling for REST times as
 *    long as the punishment took, so that looking for more costs a tenth of the time at most; each further fall doubles
 *    it. From there the level rises by single steps, each of which is kept for a PROOF of that time, and the next fall
 *    leads to the last one that was proven. Where the lower level itself makes the trickle thinner, the level goes back
 *    until the rate returns.
 *    Measures in which nothing came are an outage, and no fall: requests break, and are sent again.
 *
 * Tests: test_flow.c. */
#include "io/http/pace/flow.h"

#define MS 1000000ll
#define S (1000 * MS)
#define TICK_NS (100 * MS)
#define MAX_TICK_NS (1 * S)
#define MEASURE_TICKS 2
#define QUICK_TICK_NS (25 * MS)
#define BLIND_LEVEL 32
#define GAIN_RISE 1.10
#define GAIN_UP 1.05
#define LOSS_DOWN 0.97
#define COLLAPSE 0.5
#define DEEP 0.03
#define DEEP_MEASURES 5 /* servers stand still for shorter times, too */
#define EDGE_LEVEL 4
#define THINNER 0.4
#define BACK 2 /* times the trickle, and half of the rate that each request had */
#define REST 10
#define PROOF 5 /* parts of the time of a ceiling */
#define LEAST_REST_NS (5 * S)
#define MOST_REST_NS (3600 * S)
#define MAX_FALLEN_NS (300 * S) /* then the trickle is what the link has */
#define HURTS 0.8
#define HOLD_NS (3 * S)
#define MAX_HOLD_NS (60 * S)
#define CUT_NS (1 * S)
#define CUT_FACTOR 0.6
#define CEILING_NS (180 * S)

static int smaller(int a, int b) { return a < b ? a : b; }
static int larger(int a, int b) { return a > b ? a : b; }

void hr__flow_init(hr_flow *f, int first, int least, int most)
{
    *f = (hr_flow){ .least = least, .most = most, .hold_ns = HOLD_NS, .goes_down = true };
    f->level = f->good = smaller(larger(first, least), most);
}

static int limit(const hr_flow *f, int64_t now_ns)
{
    return f->ceiling && now_ns < f->ceiling_until_ns ? smaller(f->ceiling, f->most) : f->most;
}

static void set_level(hr_flow *f, int level, int64_t now_ns)
{
    level = larger(f->least, smaller(level, limit(f, now_ns)));
    f->skip = level != f->level;
    f->level = level;
    f->sum_rate = 0;
    f->n_ticks = 0;
}

static void hold(hr_flow *f, int level, int64_t now_ns)
{
    set_level(f, level, now_ns);
    f->good = f->level;
    f->phase = HR_FLOW_HOLD;
    f->n_low = f->n_deep = 0;
    f->hold_until_ns = now_ns + f->hold_ns;
}

static void hold_longer(hr_flow *f, int64_t now_ns)
{
    f->hold_ns = f->hold_ns * 2 < MAX_HOLD_NS ? f->hold_ns * 2 : MAX_HOLD_NS;
    hold(f, f->good, now_ns);
}

static void rise(hr_flow *f, double rate, int64_t now_ns)
{
    if (rate <= 0 && f->plateau <= 0) {
        if (f->level < BLIND_LEVEL)
            set_level(f, smaller(f->level * 2, BLIND_LEVEL), now_ns);
    } else if (rate >= f->plateau * GAIN_RISE) {
        f->plateau = rate;
        f->good = f->level;
        f->n_low = 0;
        if (f->level < limit(f, now_ns))
            set_level(f, f->level * 2, now_ns);
        else
            hold(f, f->level, now_ns);
    } else if (++f->n_low > 1) {
        hold(f, f->good, now_ns);
    }
}

/* The next trial. */
static void try_level(hr_flow *f, int64_t now_ns)
{
    if (f->rest_ns && now_ns >= f->ceiling_until_ns)
        f->proven = larger(f->proven, f->good);
    if (f->rest_ns && f->proven >= f->before)
        f->rest_ns = 0;
    if (f->goes_down && f->good > f->least) {
        f->phase = HR_FLOW_DOWN;
        set_level(f, smaller(f->good - 1, f->good * 3 / 4), now_ns);
    } else if (f->good < limit(f, now_ns)) {
        f->phase = HR_FLOW_UP;
        set_level(f, f->good + larger(1, f->good / 4), now_ns);
    } else {
        f->goes_down = true;
        hold(f, f->good, now_ns);
    }
}

static void cut(hr_flow *f, double rate, int64_t now_ns)
{
    f->phase = HR_FLOW_CUT;
    f->before = f->level;
    f->before_rate = rate;
    set_level(f, f->level / 2, now_ns);
}

static void fall(hr_flow *f, double rate, int64_t now_ns)
{
    /* A fall soon after a ceiling had ended: it has to stand for longer. */
    bool again = f->rest_ns && now_ns - f->ceiling_until_ns < 2 * f->rest_ns;

    f->phase = HR_FLOW_FALLEN;
    f->fell_ns = now_ns;
    f->rest_ns = again ? f->rest_ns * 2 : LEAST_REST_NS;
    f->before = f->level;
    f->before_rate = rate;
    f->proven = f->proven < f->level ? f->proven : 0;
    f->ceiling = larger(f->least, f->proven ? f->proven : f->level > EDGE_LEVEL ? EDGE_LEVEL : f->level / 2);
    f->ceiling_until_ns = INT64_MAX;
    set_level(f, f->ceiling, now_ns);
}

static void has_fallen(hr_flow *f, double rate, int64_t now_ns)
{
    int64_t took_ns = now_ns - f->fell_ns;
    double usual = f->plateau * f->level / f->before;

    if (rate >= f->before_rate * BACK && rate >= usual / 2) {
        f->rest_ns = f->rest_ns > took_ns * REST ? f->rest_ns : took_ns * REST;
        f->rest_ns = f->rest_ns < MOST_REST_NS ? f->rest_ns : MOST_REST_NS;
        f->ceiling_until_ns = now_ns + f->rest_ns;
        f->plateau = rate * f->ceiling / f->level;
        f->goes_down = false;
        hold(f, f->ceiling, now_ns);
    } else if (took_ns > MAX_FALLEN_NS) {
        f->ceiling = 0;
        f->plateau = rate;
        hold(f, f->level, now_ns);
    } else if (f->level == f->ceiling && rate > 0 && rate < f->before_rate * THINNER) {
        f->ceiling_until_ns = now_ns; /* set_level goes beyond it */
        set_level(f, f->before, now_ns);
        f->ceiling_until_ns = INT64_MAX;
    }
}

static void holds(hr_flow *f, double rate, int64_t now_ns)
{
    bool is_low = rate < f->plateau * COLLAPSE, is_deep = rate < f->plateau * DEEP;

    if (is_low && rate <= 0)
        return;
    f->n_deep = is_deep ? f->n_deep + 1 : 0;
    f->n_low = is_low && !is_deep ? f->n_low + 1 : 0;
    if (f->n_deep >= DEEP_MEASURES) {
        fall(f, rate, now_ns);
    } else if (f->n_low > 1) {
        f->ceiling = larger(f->least, f->level / 2);
        f->ceiling_until_ns = now_ns + CEILING_NS;
        cut(f, rate, now_ns);
    } else if (!is_low) {
        f->plateau += (rate - f->plateau) * 0.2;
        if (now_ns >= f->hold_until_ns)
            try_level(f, now_ns);
    }
}

/* A trial that stays is tried on from there. */
static void stays(hr_flow *f, double rate, int64_t now_ns)
{
    f->good = f->level;
    f->plateau = f->phase == HR_FLOW_UP || rate > f->plateau ? rate : f->plateau;
    if (f->phase != HR_FLOW_UP || !f->rest_ns) {
        try_level(f, now_ns);
        return;
    }
    f->goes_down = false;
    hold(f, f->good, now_ns);
    f->hold_until_ns = now_ns + f->rest_ns / PROOF;
}

static void goes_up(hr_flow *f, double rate, int64_t now_ns)
{
    if (rate >= f->plateau * GAIN_UP) {
        stays(f, rate, now_ns);
    } else {
        f->goes_down = true;
        hold_longer(f, now_ns);
    }
}

static void goes_down(hr_flow *f, double rate, int64_t now_ns)
{
    if (rate >= f->plateau * LOSS_DOWN) {
        stays(f, rate, now_ns);
    } else {
        f->goes_down = false;
        hold(f, f->good, now_ns);
    }
}

static void was_cut(hr_flow *f, double rate, int64_t now_ns)
{
    if (rate < f->before_rate * HURTS) {
        f->ceiling = 0;
        f->plateau = f->before_rate;
        hold(f, f->before, now_ns);
    } else if (rate < f->plateau * COLLAPSE && f->level > f->least) {
        cut(f, rate, now_ns);
    } else {
        f->plateau = rate;
        f->goes_down = false;
        hold(f, f->level, now_ns);
    }
}

static void measured(hr_flow *f, double rate, int64_t now_ns)
{
    switch (f->phase) {
    case HR_FLOW_RISE: rise(f, rate, now_ns); break;
    case HR_FLOW_HOLD: holds(f, rate, now_ns); break;
    case HR_FLOW_UP: goes_up(f, rate, now_ns); break;
    case HR_FLOW_DOWN: goes_down(f, rate, now_ns); break;
    case HR_FLOW_CUT: was_cut(f, rate, now_ns); break;
    case HR_FLOW_FALLEN: has_fallen(f, rate, now_ns); break;
    }
}

void hr__flow_add(hr_flow *f, double amount) { f->amount += amount; }

void hr__flow_first_byte(hr_flow *f, int64_t latency_ns)
{
    f->latency_ns = f->latency_ns ? f->latency_ns + (latency_ns - f->latency_ns) / 5 : latency_ns;
}

static bool is_quick(const hr_flow *f) { return f->phase == HR_FLOW_RISE && f->level < BLIND_LEVEL; }

static int64_t tick_length(const hr_flow *f)
{
    int64_t least = is_quick(f) ? QUICK_TICK_NS : TICK_NS, latencies = f->latency_ns * (is_quick(f) ? 1 : 2);

    latencies = latencies < MAX_TICK_NS ? latencies : MAX_TICK_NS;
    return latencies > least ? latencies : least;
}

void hr__flow_tick(hr_flow *f, bool is_full, int64_t now_ns)
{
    int64_t ns = now_ns - f->tick_ns;
    bool counts = f->is_full && is_full && !f->skip && f->tick_ns > 0;
    double rate;

    if (is_full && !f->is_full && is_quick(f)) {
        f->tick_ns = now_ns;
        f->amount = 0;
        f->is_full = true;
        return;
    }
    f->is_full = f->is_full && is_full;
    if (f->tick_ns > 0 && ns < tick_length(f))
        return;
    rate = ns > 0 ? f->amount * 1e9 / (double)ns : 0;
    f->tick_ns = now_ns;
    f->amount = 0;
    f->skip = false;
    f->is_full = is_full;
    if (!counts)
        return;
    f->sum_rate += rate;
    if (++f->n_ticks < MEASURE_TICKS && !is_quick(f))
        return;
    rate = f->sum_rate / f->n_ticks;
    f->sum_rate = 0;
    f->n_ticks = 0;
    measured(f, rate, now_ns);
}

void hr__flow_throttled(hr_flow *f, int64_t now_ns)
{
    if (f->cut_ns && now_ns - f->cut_ns < CUT_NS)
        return;
    f->cut_ns = now_ns;
    if (f->phase == HR_FLOW_FALLEN) /* it says itself what a trickle said before */
        f->ceiling_until_ns = now_ns + f->rest_ns;
    f->ceiling = larger(f->least, (int)(f->level * CUT_FACTOR));
    if (f->ceiling_until_ns < now_ns + CEILING_NS)
        f->ceiling_until_ns = now_ns + CEILING_NS;
    f->plateau *= CUT_FACTOR;
    f->goes_down = false;
    hold(f, f->ceiling, now_ns);
}
