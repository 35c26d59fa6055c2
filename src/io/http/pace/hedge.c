/* hedge.c - finds the requests for ranges that are much slower than others of their size.
 *
 * 1. A request is slow if it lasts longer than SLOW_PERCENT of the requests of its class of sizes, twice as long as
 *    half of them, and LEAST_NS. It gets no hedge if what is left of it comes, at its present rate, in less time than
 *    half of the requests take.
 * 2. Times are counted in steps of a fifth to a quarter. Counts are halved now and then, so that they follow the host.
 * 3. The bucket: each request for a range adds HEDGE_PERCENT of a hedge, up to MOST_HEDGES. So hedges are never more
 *    than that share of the requests, also when all requests become slow at once.
 * 4. No hedges for OFF_NS after an answer 429 or 503.
 *
 * Tests: test_hedge.c. */
#include "io/http/pace/hedge.h"

#define MS 1000000ll
#define LEAST_NS (200 * MS)
#define SLOW_PERCENT 95
#define HEDGE_PERCENT 3
#define MOST_HEDGES 8
#define LEAST_SAMPLES 32
#define MOST_SAMPLES 1024
#define OFF_NS (30000 * MS)
#define STEP_BITS 18 /* the first step is 2^18 ns */

static int class_of(int64_t n_bytes)
{
    return n_bytes < 256 << 10 ? 0 : n_bytes < 1 << 20 ? 1 : n_bytes < 4 << 20 ? 2 : 3;
}

/* Four steps double the time. */
static int step_of(int64_t ns)
{
    uint64_t x = (uint64_t)(ns > 0 ? ns : 0) >> STEP_BITS;
    int top, step;

    if (x < 4)
        return (int)x;
    top = 63 - __builtin_clzll(x);
    step = 4 * (top - 1) + (int)(x >> (top - 2) & 3);
    return step < HR_HEDGE_STEPS ? step : HR_HEDGE_STEPS - 1;
}

static int64_t end_of_step(int step)
{
    return step < 4 ? (int64_t)(step + 1) << STEP_BITS : (int64_t)(4 + step % 4 + 1) << (step / 4 - 1 + STEP_BITS);
}

/* The time that `percent` of the requests of the class do not exceed. */
static int64_t time_of(const hr_hedge *h, int class, int percent)
{
    int left = (h->n[class] * percent + 99) / 100, step = 0;

    for (left -= h->n_took[class][0]; left > 0 && step < HR_HEDGE_STEPS - 1; left -= h->n_took[class][step])
        step++;
    return end_of_step(step);
}

void hr__hedge_begun(hr_hedge *h)
{
    h->tokens += HEDGE_PERCENT;
    if (h->tokens > MOST_HEDGES * 100)
        h->tokens = MOST_HEDGES * 100;
}

void hr__hedge_took(hr_hedge *h, int64_t n_bytes, int64_t ns)
{
    int class = class_of(n_bytes);

    h->n_took[class][step_of(ns)]++;
    if (++h->n[class] < MOST_SAMPLES)
        return;
    h->n[class] = 0;
    for (int i = 0; i < HR_HEDGE_STEPS; i++)
        h->n[class] += h->n_took[class][i] /= 2;
}

void hr__hedge_throttled(hr_hedge *h, int64_t now_ns) { h->off_until_ns = now_ns + OFF_NS; }

int64_t hr__hedge_delay(const hr_hedge *h, int64_t n_bytes)
{
    int class = class_of(n_bytes);
    int64_t slow, usual;

    if (h->n[class] < LEAST_SAMPLES)
        return INT64_MAX;
    slow = time_of(h, class, SLOW_PERCENT);
    usual = time_of(h, class, 50) * 2;
    slow = slow > usual ? slow : usual;
    return slow > LEAST_NS ? slow : LEAST_NS;
}

bool hr__hedge_take(hr_hedge *h, int64_t n_bytes, int64_t n_got, int64_t ns, int64_t now_ns)
{
    if (now_ns < h->off_until_ns || h->tokens < 100 || ns < hr__hedge_delay(h, n_bytes))
        return false;
    if ((double)n_got * (double)time_of(h, class_of(n_bytes), 50) > (double)(n_bytes - n_got) * (double)ns)
        return false;
    h->tokens -= 100;
    return true;
}
