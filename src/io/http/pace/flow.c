/* flow.c - finds the number of requests in flight beyond which more of them bring nothing: the plateau.
 *
 * 1. Time is cut into ticks, of TICK_NS or of two latencies. A tick counts if all of its requests had work: a request
 *    waited all the time. The tick after a change of the level does not count. MEASURE_TICKS ticks are a measure.
 * 2. RISE: the level doubles as long as a measure is GAIN_RISE above the best one. While nothing has come at all, the
 *    level doubles up to BLIND_LEVEL.
 * 3. HOLD keeps the level for hold_ns. Then one trial: DOWN, a lower level, that stays if it costs less than LOSS_DOWN;
 *    after a failure UP, a higher one, that stays if it brings GAIN_UP. A level that fails doubles hold_ns.
 *    Trials compare with the plateau of the level before, never with a best that decays.
 * 4. 429 and 503 cut the level at once, once a CUT_NS, and the level after the cut is the ceiling for CEILING_NS.
 * 5. Collapse: measures under half of the plateau while requests are in flight. An edge may have begun to throttle: CUT
 *    halves the level, as long as that does not make the rate worse; half of the level that collapsed is the ceiling.
 *    A cut that makes it worse is taken back: then the link has become slower.
 *
 * Tests: test_flow.c. */
#include "io/http/pace/flow.h"

#define MS 1000000ll
#define S (1000 * MS)
#define TICK_NS (100 * MS)
#define MAX_TICK_NS (1 * S)
#define MEASURE_TICKS 2
#define BLIND_LEVEL 32
#define GAIN_RISE 1.10
#define GAIN_UP 1.05
#define LOSS_DOWN 0.97
#define COLLAPSE 0.5
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
    f->n_low = 0;
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

static void holds(hr_flow *f, double rate, int64_t now_ns)
{
    if (rate >= f->plateau * COLLAPSE) {
        f->n_low = 0;
        f->plateau += (rate - f->plateau) * 0.2;
        if (now_ns >= f->hold_until_ns)
            try_level(f, now_ns);
    } else if (++f->n_low > 1) {
        f->ceiling = larger(f->least, f->level / 2);
        f->ceiling_until_ns = now_ns + CEILING_NS;
        cut(f, rate, now_ns);
    }
}

/* A trial that stays is tried on from there. */
static void stays(hr_flow *f, double rate, int64_t now_ns)
{
    f->good = f->level;
    f->plateau = f->phase == HR_FLOW_UP || rate > f->plateau ? rate : f->plateau;
    try_level(f, now_ns);
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
    }
}

void hr__flow_add(hr_flow *f, double amount) { f->amount += amount; }

void hr__flow_first_byte(hr_flow *f, int64_t latency_ns)
{
    f->latency_ns = f->latency_ns ? f->latency_ns + (latency_ns - f->latency_ns) / 5 : latency_ns;
}

void hr__flow_tick(hr_flow *f, bool is_full, int64_t now_ns)
{
    int64_t length = f->latency_ns * 2 < MAX_TICK_NS ? f->latency_ns * 2 : MAX_TICK_NS, ns = now_ns - f->tick_ns;
    bool counts = f->is_full && is_full && !f->skip && f->tick_ns > 0;
    double rate;

    f->is_full = f->is_full && is_full;
    length = length > TICK_NS ? length : TICK_NS;
    if (f->tick_ns > 0 && ns < length)
        return;
    rate = ns > 0 ? f->amount * 1e9 / (double)ns : 0;
    f->tick_ns = now_ns;
    f->amount = 0;
    f->skip = false;
    f->is_full = is_full;
    if (!counts)
        return;
    f->sum_rate += rate;
    if (++f->n_ticks < MEASURE_TICKS)
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
    f->ceiling = larger(f->least, (int)(f->level * CUT_FACTOR));
    f->ceiling_until_ns = now_ns + CEILING_NS;
    f->plateau *= CUT_FACTOR;
    f->goes_down = false;
    hold(f, f->ceiling, now_ns);
}
