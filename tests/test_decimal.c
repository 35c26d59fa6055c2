/* test_decimal.c - whole numbers of 512 bits against those of 128, and by the laws of arithmetic where these end. */
#include "harness.h"

#include "base/decimal.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

__extension__ typedef __int128 int128;

#define N_RANDOM repeats(SANITIZED ? 20000 : 200000)

static uint64_t seed = 7;

static uint64_t random_bits(void)
{
    seed += UINT64_C(0x9E3779B97F4A7C15);
    return hr__random_bits(seed, 0, 0, 0).hi;
}

/* Of any length up to `words`, with words that are all zeros and all ones among them. */
static hr_wide random_wide(int words)
{
    hr_wide v = { .negative = random_bits() & 1 };
    int n = (int)(random_bits() % (uint64_t)(words + 1));

    for (int i = 0; i < n; i++) {
        uint64_t r = random_bits();

        v.w[i] = r % 8 == 0 ? 0 : r % 8 == 1 ? UINT32_MAX : (uint32_t)(r >> 32);
    }
    while (n > 0 && !v.w[n - 1])
        n--;
    v.n = n;
    v.negative = v.negative && n;
    return v;
}

static void assert_same(const hr_wide *a, const hr_wide *b)
{
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->negative, b->negative);
    assert_memory_equal(a->w, b->w, (size_t)a->n * 4);
}

static int128 value_of(const hr_wide *v)
{
    uint8_t bytes[16];
    int128 out;

    hr__wide_store(v, 16, bytes);
    memcpy(&out, bytes, 16);
    return out;
}

static hr_wide wide_of(int128 v)
{
    uint8_t bytes[16];

    memcpy(bytes, &v, 16);
    return hr__wide_load(bytes, 16);
}

static void as_128_bits(void **unused)
{
    (void)unused;
    for (int64_t i = 0; i < N_RANDOM; i++) {
        int shift = (int)(random_bits() % 64);
        int128 x = (int128)(int64_t)(random_bits() >> shift) * (random_bits() & 1 ? 1 : -1);
        int128 y = (int128)(int64_t)random_bits() >> random_bits() % 64;
        hr_wide a = wide_of(x), b = wide_of(y), v, rest;

        assert_true(value_of(&a) == x && value_of(&b) == y);
        assert_true(hr__wide_add(&a, &b, &v) && value_of(&v) == x + y);
        assert_int_equal(hr__wide_order(&a, &b) > 0, x > y);
        assert_int_equal(hr__wide_order(&a, &b) < 0, x < y);
        if ((int64_t)x == x) {
            assert_true(hr__wide_multiply(&a, &b, &v) && value_of(&v) == x * y);
            v = hr__wide_int((int64_t)x);
            assert_same(&v, &a);
        }
        if (!y)
            continue;
        hr__wide_divide(&a, &b, &v, &rest);
        assert_true(value_of(&v) == x / y && value_of(&rest) == x % y);
    }
}

/* (q * b + r) / b is q and r again, for |r| < |b|. */
static void division(void **unused)
{
    (void)unused;
    for (int64_t i = 0; i < N_RANDOM; i++) {
        hr_wide b = random_wide(8), q = random_wide(7), r = random_wide(7), a, quotient, rest;

        if (!b.n)
            continue;
        hr__wide_divide(&r, &b, NULL, &r);
        r.negative = r.n && (q.n ? q.negative != b.negative : r.negative);
        assert_true(hr__wide_multiply(&q, &b, &a) && hr__wide_add(&a, &r, &a));
        hr__wide_divide(&a, &b, &quotient, &rest);
        assert_same(&quotient, &q);
        assert_same(&rest, &r);
    }
}

static void limits(void **unused)
{
    hr_wide v = hr__wide_power_of_ten(154), one = hr__wide_uint(1), less, all = { .n = HR_WIDE_WORDS };
    const hr_wide minus = hr__wide_int(-1);
    uint8_t bytes[32], again[32];

    (void)unused;
    assert_false(hr__wide_has_digits(&v, 154));
    assert_true(hr__wide_add(&v, &minus, &less) && hr__wide_has_digits(&less, 154));
    assert_false(hr__wide_scale_up(&v, 1));
    memset(all.w, 0xFF, sizeof all.w);
    assert_false(hr__wide_add(&all, &one, &v));
    assert_false(hr__wide_multiply(&all, &all, &v));
    assert_false(hr__wide_shift_up(&all, 1));
    v = one;
    assert_true(hr__wide_shift_up(&v, 511));
    assert_false(hr__wide_shift_up(&v, 1));
    v = (hr_wide){ 0 };
    assert_true(hr__wide_shift_up(&v, 100000) && v.n == 0);
    for (int digits = 0; digits <= 154; digits++) { /* 10^n has n + 1 digits, 10^n - 1 has n */
        v = hr__wide_power_of_ten(digits);
        hr__wide_add(&v, &minus, &less);
        assert_false(hr__wide_has_digits(&v, digits));
        assert_true(digits == 154 || hr__wide_has_digits(&v, digits + 1));
        assert_true(hr__wide_has_digits(&less, digits));
        assert_true(digits == 0 || !hr__wide_has_digits(&less, digits - 1));
    }
    memset(bytes, 0, sizeof bytes); /* -2^255 */
    bytes[31] = 0x80;
    v = hr__wide_load(bytes, 32);
    hr__wide_store(&v, 32, again);
    assert_memory_equal(bytes, again, 32);
    assert_true(v.negative && v.n == 8);
}

static void text(void **unused)
{
    static const struct {
        const char *text;
        int digits;
        const char *want; /* NULL: refused */
        bool lost;
    } cases[] = {
        { "0", 2, "0", false },
        { "-0.0", 2, "0", false },
        { "12.5", 2, "1250", false },
        { "-12.5", 2, "-1250", false },
        { "+5", 0, "5", false },
        { ".5", 1, "5", false },
        { "5.", 1, "50", false },
        { "1e2", 2, "10000", false },
        { "1E-3", 2, "0", true },
        { "0.00", 1, "0", false },
        { "1.239", 2, "123", true },
        { "1.230", 2, "123", false },
        { "-1999", -3, "-1", true },
        { "12000", -3, "12", false },
        { "1e-999999999", 2, "0", true },
        { "0e999999999", 2, "0", false },
        { "1e999999999", 2, NULL, false },
        { "1e400", 2, NULL, false },
        { "", 2, NULL, false },
        { "-", 2, NULL, false },
        { ".", 2, NULL, false },
        { "1e", 2, NULL, false },
        { "1e+", 2, NULL, false },
        { "1.2.3", 2, NULL, false },
        { " 1", 2, NULL, false },
        { "1 ", 2, NULL, false },
        { "nan", 2, NULL, false },
        { "99999999999999999999999999999999999999999999999999999999999999999999999999.99", 2,
          "9999999999999999999999999999999999999999999999999999999999999999999999999999", false },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        char printed[HR_WIDE_CHARS];
        hr_wide v;
        bool lost = false;
        bool good =
            hr__wide_parse((const uint8_t *)cases[i].text, (int64_t)strlen(cases[i].text), cases[i].digits, &v, &lost);

        if (good != (cases[i].want != NULL))
            fail_msg("'%s': %s", cases[i].text, good ? "taken" : "refused");
        if (!good)
            continue;
        hr__wide_print(&v, 0, printed);
        assert_string_equal(printed, cases[i].want);
        if (lost != cases[i].lost)
            fail_msg("'%s': lost", cases[i].text);
    }
    for (int64_t i = 0; i < N_RANDOM / 10; i++) { /* printed and read again */
        hr_wide v = random_wide(15), again;
        char printed[HR_WIDE_CHARS];
        bool lost;
        int n = hr__wide_print(&v, 0, printed);

        assert_true(hr__wide_parse((const uint8_t *)printed, n, 0, &again, &lost) && !lost);
        assert_same(&v, &again);
    }
}

static void doubles(void **unused)
{
    static const struct {
        double v;
        int digits;
        const char *want;
    } cases[] = {
        { 0.5, 0, "0" },      { 1.5, 0, "2" },      { 2.5, 0, "2" },
        { -2.5, 0, "-2" },    { 0.285, 2, "28" },   { 1.239, 2, "124" },
        { -1250, -2, "-12" }, { 1350, -2, "14" },   { 5e-324, 76, "0" },
        { 0.1, 3, "100" },    { 1e22, -20, "100" }, { 1e-300, -5, "0" },
        { -0.0, 2, "0" },     { 0.75, -1, "0" },    { 2251799813685248.5, 1, "22517998136852485" },
    };
    char printed[HR_WIDE_CHARS];
    hr_wide v;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        assert_true(hr__wide_of_double(cases[i].v, cases[i].digits, &v));
        hr__wide_print(&v, 0, printed);
        assert_string_equal(printed, cases[i].want);
    }
    assert_false(hr__wide_of_double((double)NAN, 2, &v));
    assert_false(hr__wide_of_double((double)INFINITY, 2, &v));
    assert_false(hr__wide_of_double(1e300, 2, &v));
    for (int64_t i = 0; i < N_RANDOM / 10; i++) { /* 40 digits are more than a double of this size has */
        double x = (double)(int64_t)random_bits() / (double)(UINT64_C(1) << random_bits() % 64);

        assert_true(hr__wide_of_double(x, 40, &v));
        assert_true(hr__wide_double(&v, -40) == x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_128_bits), cmocka_unit_test(division), cmocka_unit_test(limits),
        cmocka_unit_test(text),        cmocka_unit_test(doubles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
