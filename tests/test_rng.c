/* test_rng.c - Philox against the published values; that inputs matter; the values that must never change. */
#include "harness.h"

/* From the authors' known answers for philox4x32-10 (Random123, kat_vectors): counter, key, result, word 0 first. */
static const struct {
    uint32_t counter[4], key[2], want[4];
} published[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
};

static uint64_t word(const uint32_t *x) { return (uint64_t)x[1] << 32 | x[0]; }

static void published_values(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(published); i++) {
        const uint32_t *c = published[i].counter, *want = published[i].want;
        hr_bits128 got = hr__philox(word(published[i].key), word(c + 2), word(c));
        assert_true(got.lo == word(want) && got.hi == word(want + 2));
    }
}

static bool equal(hr_bits128 a, hr_bits128 b) { return a.lo == b.lo && a.hi == b.hi; }

/* Every argument and every field changes the bits, and half of them. */
static void every_input_matters(void **state)
{
    static const hr_coord coords[] = {
        { 0, 0, 0, 0, 0, 0 }, { 1, 0, 0, 0, 0, 0 }, { 0, 1, 0, 0, 0, 0 },
        { 0, 0, 1, 0, 0, 0 }, { 0, 0, 0, 0, 1, 0 }, { 0, 0, 0, 0, 0, 1 },
    };
    hr_bits128 seen[32];
    int n = 0;

    (void)state;
    for (int i = 0; i < HR_LEN(coords); i++)
        seen[n++] = hr__random_coord(0, 0, &coords[i]);
    seen[n++] = hr__random_coord(1, 0, &coords[0]);
    seen[n++] = hr__random_coord(0, 1, &coords[0]);
    seen[n++] = hr__random_bits(0, 0, 0, 0);
    seen[n++] = hr__random_bits(1, 0, 0, 0);
    seen[n++] = hr__random_bits(0, 1, 0, 0);
    seen[n++] = hr__random_bits(0, 0, 1, 0);
    seen[n++] = hr__random_bits(0, 0, 0, 1);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) {
            int differ = __builtin_popcountll(seen[i].lo ^ seen[j].lo) + __builtin_popcountll(seen[i].hi ^ seen[j].hi);
            assert_false(equal(seen[i], seen[j]));
            assert_in_range(differ, 30, 98); /* 64 expected, 6 standard deviations of 5.7 */
        }
}

/* Each of the 128 bits is set in half of the rows. */
static void bits_are_balanced(void **state)
{
    int ones[128] = { 0 };
    hr_coord c = { .file = 3, .fragment = 7 };
    enum { ROWS = 40000 };

    (void)state;
    for (c.row = 0; c.row < ROWS; c.row++) {
        hr_bits128 r = hr__random_coord(42, 1, &c);
        for (int i = 0; i < 64; i++) {
            ones[i] += (int)(r.lo >> i & 1);
            ones[64 + i] += (int)(r.hi >> i & 1);
        }
    }
    for (int i = 0; i < 128; i++)
        assert_in_range(ones[i], ROWS / 2 - 600, ROWS / 2 + 600); /* 6 standard deviations of 100 */
}

/* What was published or saved with version 0.1 depends on these numbers. */
static void values_that_stay(void **state)
{
    hr_coord c = { .instance = 1, .file = 2, .fragment = 3, .row = 4, .ordinal = 5 };
    hr_bits128 a = hr__random_bits(1, 2, 3, 4), b = hr__random_coord(1, 2, &c);

    (void)state;
    assert_true(a.lo == 0x04af770c9a83cbf5 && a.hi == 0xf884ba247ba873f3);
    assert_true(b.lo == 0xbdc0fdb2aa7520e6 && b.hi == 0x4279150cd9bb8225);
}

/* All orders of four things, about equally often; the same key and length, the same order, which stays. */
static void orders_of(void (*permute)(uint32_t *, int64_t, uint64_t), uint32_t first, uint32_t last)
{
    enum { KEYS = 24 * 400 };
    int seen[256] = { 0 }, n_seen = 0;
    uint32_t long_one[1000], again[1000];

    for (uint64_t key = 0; key < KEYS; key++) {
        uint32_t v[4] = { 0, 1, 2, 3 };

        permute(v, 4, key);
        assert_int_equal(1 << v[0] | 1 << v[1] | 1 << v[2] | 1 << v[3], 15);
        seen[v[0] | v[1] << 2 | v[2] << 4 | v[3] << 6]++;
    }
    for (int i = 0; i < 256; i++) {
        n_seen += seen[i] != 0;
        if (seen[i])
            assert_in_range(seen[i], 400 - 120, 400 + 120); /* 6 standard deviations of 20 */
    }
    assert_int_equal(n_seen, 24);
    for (uint32_t i = 0; i < 1000; i++)
        long_one[i] = again[i] = i;
    permute(long_one, 1000, 7);
    permute(again, 1000, 7);
    assert_memory_equal(long_one, again, sizeof again);
    assert_int_equal(long_one[0], first);
    assert_int_equal(long_one[999], last);
}

static void orders(void **unused)
{
    (void)unused;
    orders_of(hr__random_permute, 116, 899);
    orders_of(hr__random_shuffle, 277, 924);
}

/* Each value comes to each tenth of the places about equally often. */
static void places(void **unused)
{
    enum { N = 100, KEYS = 10000 };
    static int seen[N][10];

    (void)unused;
    for (uint64_t key = 0; key < KEYS; key++) {
        uint32_t v[N];

        hr__random_order(v, N, key << 20);
        for (int i = 0; i < N; i++)
            seen[v[i]][i / 10]++;
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 10; k++)
            assert_in_range(seen[i][k], KEYS / 10 - 180, KEYS / 10 + 180); /* 6 standard deviations of 30 */
}

/* hr__random_order is hr__random_shuffle of the numbers from 0. */
static void order_of_numbers(void **unused)
{
    static const int64_t lengths[] = { 0, 1, 2, 31, 32, 33, 1000 };
    uint32_t order[1000], v[1000];

    (void)unused;
    for (int k = 0; k < HR_LEN(lengths); k++) {
        for (uint32_t i = 0; i < 1000; i++)
            v[i] = i;
        hr__random_order(order, lengths[k], 99);
        hr__random_shuffle(v, lengths[k], 99);
        assert_memory_equal(order, v, (size_t)lengths[k] * sizeof *v);
    }
}

/* Rows together are rows one by one. */
static void test_rows(void **unused)
{
    static const int64_t lengths[] = { 0, 1, 7, 8, 9, 100 };
    uint64_t out[100];

    (void)unused;
    for (int k = 0; k < 2 * HR_LEN(lengths); k++) {
        hr_run_coords run = { { 3, 4, 5, 0, ((int64_t)1 << 32) - 4, 7 }, lengths[k / 2], k % 2 };

        hr__random_rows(42, 6, &run, out);
        for (int64_t i = 0; i < run.n; i++) {
            hr_coord c = run.first;

            c.row += run.by_ordinal ? 0 : i;
            c.ordinal += run.by_ordinal ? i : 0;
            assert_true(out[i] == hr__random_coord(42, 6, &c).hi);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_values),
        cmocka_unit_test(every_input_matters),
        cmocka_unit_test(bits_are_balanced),
        cmocka_unit_test(values_that_stay),
        cmocka_unit_test(orders),
        cmocka_unit_test(places),
        cmocka_unit_test(order_of_numbers),
        cmocka_unit_test(test_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
