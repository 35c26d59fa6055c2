/* test_flow.c - the controller of requests in flight, on simulated links. */
#include "harness.h"

#include "io/http/pace/flow.h"

#define STEP_NS 20000000ll
#define MB 1e6

/* A link: -> amount per second with `level` in flight. May count in `state`. */
typedef double link_fn(int level, double t, double *state);

/* 20 MB/s each, 100 MB/s in all. */
static double capped(int level, double t, double *state)
{
    (void)t;
    (void)state;
    return HR_MIN(100 * MB, level * 20 * MB);
}

/* One connection fills the link, and each more costs a little. */
static double serial_is_best(int level, double t, double *state)
{
    (void)t;
    (void)state;
    return 10 * MB * (1 - 0.005 * (level - 1));
}

/* Small objects, 50 ms each, 4,000 a second. */
static double small_objects(int level, double t, double *state)
{
    (void)t;
    (void)state;
    return HR_MIN(4000, level / 0.05);
}

/* As `capped`, after two seconds of TCP's slow start. */
static double slow_start(int level, double t, double *state) { return capped(level, t, state) * HR_MIN(1, t / 2); }

/* 70 MB/s each. 2 GB beyond 300 MB/s begin 60 s of 1 MB/s. state: bytes beyond, end of the penalty. */
static double edge(int level, double t, double *state)
{
    double rate = level * 70 * MB;

    if (t < state[1])
        return MB;
    state[0] = HR_MAX(0, state[0] + (rate - 300 * MB) * (double)STEP_NS / 1e9);
    if (state[0] > 2e9) {
        state[0] = 0;
        state[1] = t + 60;
    }
    return rate;
}

/* As `edge`, with 5 s of punishment. */
static double short_edge(int level, double t, double *state)
{
    bool begins = t >= state[1];
    double rate = edge(level, t, state);

    if (begins && state[1] > t)
        state[1] = t + 5;
    return rate;
}

/* As `short_edge`, where each request has a trickle of its own. */
static double edge_of_each(int level, double t, double *state)
{
    double rate = short_edge(level, t, state);

    return rate > MB ? rate : level * 0.1 * MB;
}

/* An edge that no level up to 16 disturbs, and that punishes for as long as it is asked for more. */
static double broad_edge(int level, double t, double *state)
{
    double rate = level * 70 * MB;

    if (t < state[1])
        return MB;
    if (level > 16)
        state[1] = t + 5;
    return rate;
}

/* Nothing at all for 10 s. */
static double outage(int level, double t, double *state) { return t > 10 && t < 20 ? 0 : capped(level, t, state); }

/* Each request gets a tenth for 10 s: servers are busy. */
static double busy(int level, double t, double *state)
{
    return capped(level, t, state) * (t > 10 && t < 20 ? 0.1 : 1);
}

/* A server stands almost still for half a second, every 20 s. */
static double hiccups(int level, double t, double *state)
{
    (void)state;
    return HR_MIN(200, level * 4) * 20 * MB * (t - 20 * (int)(t / 20) > 19.5 ? 0.01 : 1);
}

/* The link loses nine tenths for good, and needs all of its requests. */
static double far_narrower(int level, double t, double *state)
{
    (void)state;
    return level * (t < 10 ? 20 : 2) * MB;
}

/* The link loses three quarters after 10 s, for all. */
static double narrows(int level, double t, double *state) { return capped(level, t, state) * (t < 10 ? 1 : 0.25); }

/* -> the amount after `seconds`. fixed 0: as `f` says. */
static double transfer(link_fn *link, double seconds, int fixed, hr_flow *f)
{
    double sum = 0, state[2] = { 0 };

    for (int64_t now = STEP_NS; now < (int64_t)(seconds * 1e9); now += STEP_NS) {
        double amount = link(fixed ? fixed : f->level, (double)now / 1e9, state) * (double)STEP_NS / 1e9;

        sum += amount;
        if (fixed)
            continue;
        hr__flow_add(f, amount);
        hr__flow_tick(f, true, now);
        assert_in_range(f->level, f->least, f->most);
    }
    return sum;
}

static const struct {
    link_fn *link;
    double seconds;
    int fixed;
    double least;  /* of the controller's amount, as a share of that of `fixed` in flight */
    int low, high; /* the level at the end */
} cases[] = {
    { capped, 2, 8, 1, 5, 32 },         { capped, 30, 8, 0.98, 4, 16 },
    { capped, 30, 1, 4.5, 4, 16 },      { serial_is_best, 60, 1, 0.97, 1, 4 },
    { serial_is_best, 60, 8, 1, 1, 4 }, { slow_start, 60, 8, 0.97, 4, 16 },
    { edge, 600, 64, 6, 1, 16 },        { edge, 600, 4, 0.9, 1, 16 },
    { edge, 3600, 4, 0.9, 1, 16 },      { short_edge, 60, 4, 1, 4, 64 },
    { short_edge, 600, 4, 1, 4, 64 },   { edge_of_each, 60, 4, 1, 4, 64 },
    { broad_edge, 60, 4, 0.97, 4, 16 }, { broad_edge, 600, 4, 1.5, 4, 16 },
    { outage, 60, 8, 0.98, 4, 16 },     { hiccups, 60, 50, 0.97, 30, 256 },
    { busy, 30, 4, 1.2, 4, 16 },        { far_narrower, 60, 16, 0.9, 4, 256 },
    { narrows, 30, 8, 0.97, 1, 16 },
};

static void links_are_used_as_well_as_by_a_fixed_number(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        double fixed = transfer(cases[i].link, cases[i].seconds, cases[i].fixed, NULL), own;
        hr_flow f;

        hr__flow_init(&f, 16, 2, 256);
        own = transfer(cases[i].link, cases[i].seconds, 0, &f);
        if (own < fixed * cases[i].least || f.level < cases[i].low || f.level > cases[i].high)
            fail_msg("case %d: %.0f, with %d in flight %.0f; level %d", i, own, cases[i].fixed, fixed, f.level);
    }
}

/* 80 MB/s each, without an end. */
static double wide(int level, double t, double *state)
{
    (void)t;
    (void)state;
    return level * 80 * MB;
}

/* The first bodies share the link with few others where more bring nothing; a wide link is in use soon. */
static void the_start_is_quick(void **state)
{
    double least = 0.75 * transfer(wide, 1, 32, NULL);
    hr_flow f;

    (void)state;
    hr__flow_init(&f, 8, 2, 1024);
    transfer(capped, 0.5, 0, &f);
    assert_in_range(f.level, 4, 8);
    hr__flow_init(&f, 8, 2, 1024);
    transfer(wide, 0.3, 0, &f);
    assert_true(f.level >= 32);
    hr__flow_init(&f, 8, 2, 1024);
    assert_true(transfer(wide, 1, 0, &f) > least);
}

/* The tick in which the first request had to wait did not count: a whole latency was lost. */
static void a_tick_begins_with_the_first_request_that_waits(void **state)
{
    const int64_t latency_ns = 100000000;

    (void)state;
    for (int64_t idle = 0; idle <= 2 * latency_ns; idle += STEP_NS) {
        int64_t now = 1;
        hr_flow f;

        hr__flow_init(&f, 8, 2, 256);
        hr__flow_first_byte(&f, latency_ns);
        for (; now < idle; now += STEP_NS)
            hr__flow_tick(&f, false, now);
        for (int64_t end = now + latency_ns; now <= end; now += STEP_NS) {
            assert_int_equal(f.level, 8);
            hr__flow_tick(&f, true, now);
            hr__flow_add(&f, MB);
        }
        assert_int_equal(f.level, 16);
    }
}

static void small_objects_get_many(void **state)
{
    double own, fixed = transfer(small_objects, 10, 64, NULL);
    hr_flow f;

    (void)state;
    hr__flow_init(&f, 64, 8, 256);
    own = transfer(small_objects, 10, 0, &f);
    assert_true(own > 2.4 * fixed);
    assert_in_range(f.level, 180, 256);
}

static void a_throttled_host_gets_fewer_for_minutes(void **state)
{
    hr_flow f;
    int64_t now = 1;

    (void)state;
    hr__flow_init(&f, 64, 2, 256);
    hr__flow_throttled(&f, now);
    assert_int_equal(f.level, 38);
    hr__flow_throttled(&f, now + 1000); /* an answer of the same burst */
    assert_int_equal(f.level, 38);
    for (; now < 170 * 1000000000ll; now += STEP_NS) {
        hr__flow_add(&f, f.level);
        hr__flow_tick(&f, true, now);
        assert_true(f.level <= 38);
    }
    for (; now < 400 * 1000000000ll; now += STEP_NS) {
        hr__flow_add(&f, f.level);
        hr__flow_tick(&f, true, now);
    }
    assert_true(f.level > 38);
}

/* Ticks in which requests had no work say nothing about the link: none waits for as long as a tick. */
static void idle_ticks_change_nothing(void **state)
{
    hr_flow f;

    (void)state;
    hr__flow_init(&f, 16, 2, 256);
    for (int64_t now = 1; now < 20 * 1000000000ll; now += STEP_NS) {
        hr__flow_add(&f, 1 + (double)(now % 7));
        hr__flow_tick(&f, now / STEP_NS % 2 != 0, now);
    }
    assert_int_equal(f.level, 16);
}

/* Before the first byte of all there is nothing to compare with. */
static void waiting_for_the_first_byte_goes_up_to_a_bound(void **state)
{
    hr_flow f;

    (void)state;
    hr__flow_init(&f, 8, 2, 256);
    for (int64_t now = 1; now < 5 * 1000000000ll; now += STEP_NS)
        hr__flow_tick(&f, true, now);
    assert_int_equal(f.level, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_used_as_well_as_by_a_fixed_number),
        cmocka_unit_test(small_objects_get_many),
        cmocka_unit_test(the_start_is_quick),
        cmocka_unit_test(a_tick_begins_with_the_first_request_that_waits),
        cmocka_unit_test(a_throttled_host_gets_fewer_for_minutes),
        cmocka_unit_test(idle_ticks_change_nothing),
        cmocka_unit_test(waiting_for_the_first_byte_goes_up_to_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
