/* test_hedge.c - which requests are slow enough for a second one, and how many get it. */
#include "harness.h"

#include "io/http/pace/hedge.h"

#define MS 1000000ll
#define KB 1000

/* n requests of 100 kB, of which every tenth takes ten times as long if `tail` says so. */
static void take_samples(hr_hedge *h, int n, int64_t ns, bool tail)
{
    for (int i = 0; i < n; i++) {
        hr__hedge_begun(h);
        hr__hedge_took(h, 100 * KB, tail && i % 10 == 9 ? 10 * ns : ns);
    }
}

static void little_is_known_of_a_new_host(void **state)
{
    hr_hedge h = { 0 };

    (void)state;
    assert_true(hr__hedge_delay(&h, 100 * KB) == INT64_MAX);
    take_samples(&h, 31, 300 * MS, false);
    assert_true(hr__hedge_delay(&h, 100 * KB) == INT64_MAX);
    take_samples(&h, 1, 300 * MS, false);
    assert_in_range(hr__hedge_delay(&h, 100 * KB), 600 * MS, 750 * MS);
    assert_true(hr__hedge_delay(&h, 5000 * KB) == INT64_MAX); /* another class */
}

static const struct {
    int64_t ns;
    bool tail;
    int64_t least, most; /* ms of the delay */
} delay_cases[] = {
    { 1 * MS, false, 200, 200 },  { 90 * MS, false, 200, 225 },          { 0, false, 200, 200 },
    { 50 * MS, true, 500, 625 },  { 1000 * MS, true, 10000, 12500 },     { 400 * MS, false, 800, 1000 },
    { -5 * MS, false, 200, 200 }, { 100000 * MS, false, 50000, 250000 },
};

static void the_delay_follows_the_slow_ones(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(delay_cases); i++) {
        hr_hedge h = { 0 };

        take_samples(&h, 5000, delay_cases[i].ns, delay_cases[i].tail);
        assert_in_range(hr__hedge_delay(&h, 100 * KB) / MS, delay_cases[i].least, delay_cases[i].most);
    }
}

/* A host that has become slower is slow for all: after some hundred requests that is the measure. */
static void old_samples_fade(void **state)
{
    hr_hedge h = { 0 };

    (void)state;
    take_samples(&h, 5000, 10 * MS, false);
    take_samples(&h, 2000, 1000 * MS, false);
    assert_true(hr__hedge_delay(&h, 100 * KB) >= 2000 * MS);
    take_samples(&h, 20000, 10 * MS, false);
    assert_int_equal(hr__hedge_delay(&h, 100 * KB) / MS, 200);
}

/* When all requests hang at once, the bucket empties. */
static void the_bucket_is_the_limit(void **state)
{
    hr_hedge h = { 0 };
    int n = 0;

    (void)state;
    take_samples(&h, 10000, 10 * MS, false);
    for (int i = 0; i < 1000; i++)
        n += hr__hedge_take(&h, 100 * KB, 0, 5000 * MS, 1);
    assert_int_equal(n, 8);
    for (int i = 0; i < 1000; i++) {
        hr__hedge_begun(&h);
        n += hr__hedge_take(&h, 100 * KB, 0, 5000 * MS, 1);
    }
    assert_int_equal(n, 8 + 30);
}

static void what_moves_gets_none(void **state)
{
    hr_hedge h = { 0 };

    (void)state;
    take_samples(&h, 1000, 400 * MS, false);
    assert_false(hr__hedge_take(&h, 100 * KB, 0, 700 * MS, 1));        /* not late yet */
    assert_false(hr__hedge_take(&h, 100 * KB, 90 * KB, 1200 * MS, 1)); /* nearly there: the link is full */
    assert_true(hr__hedge_take(&h, 100 * KB, 30 * KB, 1200 * MS, 1));
    assert_true(hr__hedge_take(&h, 100 * KB, 0, 1200 * MS, 1));
}

static void none_while_the_host_refuses(void **state)
{
    hr_hedge h = { 0 };

    (void)state;
    take_samples(&h, 1000, 10 * MS, false);
    hr__hedge_throttled(&h, 100 * MS);
    assert_false(hr__hedge_take(&h, 100 * KB, 0, 5000 * MS, 29000 * MS));
    assert_true(hr__hedge_take(&h, 100 * KB, 0, 5000 * MS, 31000 * MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_is_known_of_a_new_host),
        cmocka_unit_test(the_delay_follows_the_slow_ones),
        cmocka_unit_test(old_samples_fade),
        cmocka_unit_test(the_bucket_is_the_limit),
        cmocka_unit_test(what_moves_gets_none),
        cmocka_unit_test(none_while_the_host_refuses),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
