/* test_number.c - numbers as text: cases, the table of powers made again, and millions of values against strtod and
 * printf. */
#include "harness.h"

#include "base/number_short.h"

#include "base/number_powers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define N_RANDOM repeats(SANITIZED ? 1000000 : 4000000)

/* A text with the slack that the parsers may read, filled with what would be wrong to count. */
static const uint8_t *slack(const char *text, char fill)
{
    static char buffer[8192];
    size_t n = strlen(text);

    assert_true(n + HR_SLACK < sizeof buffer);
    memcpy(buffer, text, n);
    memset(buffer + n, fill, HR_SLACK);
    return (const uint8_t *)buffer;
}

static bool same_double(double a, double b) { return memcmp(&a, &b, 8) == 0 || (isnan(a) && isnan(b)); }

/* --------------------------------------------------------------------------------------------------------- integers */

static void integers(void **state)
{
    static const struct {
        const char *text;
        bool valid;
        int64_t value;
    } cases[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "7", true, 7 },
        { "12345678", true, 12345678 },
        { "123456789", true, 123456789 },
        { "9223372036854775807", true, INT64_MAX },
        { "-9223372036854775808", true, INT64_MIN },
        { "9223372036854775808", false, 0 },
        { "-9223372036854775809", false, 0 },
        { "18446744073709551616", false, 0 },
        { "99999999999999999999", false, 0 },
        { "100000000000000000000", false, 0 },
        { "000000000000000000000000000000000042", true, 42 },
        { "-00000000000000000000009223372036854775808", true, INT64_MIN },
        { "", false, 0 },
        { "-", false, 0 },
        { "+1", false, 0 },
        { "--1", false, 0 },
        { "1 ", false, 0 },
        { " 1", false, 0 },
        { "1.0", false, 0 },
        { "1234567:", false, 0 },
        { "/2345678", false, 0 },
        { "12345678901234567x", false, 0 },
        { "x2345678901234567", false, 0 },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t n = (int64_t)strlen(cases[i].text), v = 0;

        for (int fill = 0; fill < 256; fill += 5) {
            if (hr__parse_int64(slack(cases[i].text, (char)fill), n, &v) != cases[i].valid ||
                (cases[i].valid && v != cases[i].value))
                fail_msg("'%s'", cases[i].text);
        }
    }
}

static void random_integers(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        uint64_t v = next_random(&seed) >> random_below(&seed, 64), u = 0;
        char text[64], print[HR_NUMBER_CHARS + 1];
        int64_t s = 0;
        int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);

        assert_true(hr__parse_uint64(slack(text, (char)i), n, &u) && u == v);
        print[hr__print_uint64(v, print)] = 0;
        assert_string_equal(print, text);
        n = snprintf(text, sizeof text, "%lld", (long long)v);
        assert_true(hr__parse_int64(slack(text, (char)i), n, &s) && s == (int64_t)v);
        print[hr__print_int64((int64_t)v, print)] = 0;
        assert_string_equal(print, text);
        text[random_below(&seed, n)] = (char)("/:x \xff"[i % 5]);
        assert_false(hr__parse_int64(slack(text, '1'), n, &s));
    }
}

/* ---------------------------------------------------------------------------------------------------------- doubles */

/* 2^64-based integers, little end first: to make the table of powers again. */
#define WORDS 40

static void big_times(uint64_t *v, uint64_t by)
{
    __uint128_t carry = 0;

    for (int i = 0; i < WORDS; i++) {
        carry += (__uint128_t)v[i] * by;
        v[i] = (uint64_t)carry;
        carry >>= 64;
    }
}

static uint64_t big_divide(uint64_t *v, uint64_t by)
{
    __uint128_t rest = 0;

    for (int i = WORDS - 1; i >= 0; i--) {
        rest = rest << 64 | v[i];
        v[i] = (uint64_t)(rest / by);
        rest %= by;
    }
    return (uint64_t)rest;
}

static bool big_bit(const uint64_t *v, int bit) { return bit >= 0 && v[bit / 64] >> (bit % 64) & 1; }

static void top_bits(const uint64_t *v, uint64_t out[2])
{
    int top = WORDS * 64 - 1;

    while (!big_bit(v, top))
        top--;
    out[0] = out[1] = 0;
    for (int i = 0; i < 128; i++)
        out[i / 64] = out[i / 64] << 1 | big_bit(v, top - i);
}

static void powers(void **state)
{
    uint64_t v[WORDS] = { 1 }, inverse[WORDS] = { 0 }, want[2];

    (void)state;
    for (int q = 0; q <= MAX_POWER; q++) {
        top_bits(v, want);
        assert_memory_equal(want, powers_of_5[q - MIN_POWER], 16);
        big_times(v, 5);
    }
    inverse[WORDS - 1] =
        (uint64_t)1 << 63; /* 2559 bits: enough for 5^-342, which begins with 794 zeros, to be cut right */
    for (int q = -1; q >= MIN_POWER; q--) {
        big_divide(inverse, 5);
        top_bits(inverse, want);
        if (q >= -27 && ++want[1] == 0)
            want[0]++;
        assert_memory_equal(want, powers_of_5[q - MIN_POWER], 16);
    }
}

static void check_decimal(const char *text)
{
    int64_t n = (int64_t)strlen(text);
    double want = strtod(text, NULL), got = 1;
    float want_float = strtof(text, NULL), got_float = 1;

    if (!hr__parse_double(slack(text, '9'), n, true, &got) || !same_double(got, want))
        fail_msg("%s is %.17g, read as %.17g", text, want, got);
    if (!hr__parse_float(slack(text, '9'), n, true, &got_float) || memcmp(&got_float, &want_float, 4) != 0)
        fail_msg("%s is %.9g, read as %.9g (float)", text, (double)want_float, (double)got_float);
}

static void hard_decimals(void **state)
{
    static const char *const cases[] = {
        "0",
        "-0",
        "0.0e999999999999999999999",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999999",
        "1e-99999999999999999999999",
        "2.2250738585072011e-308",
        "2.2250738585072014e-308",
        "4.9406564584124654e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "17976931348623158079372897140530341507993413271003782693617377898044496829276475094664901797758720709633028641"
        "6692887"
        "91094655554785194040263065748867150582068190890200070838367627385484581771153176447573027006985557136695962284"
        "2914819"
        "860834936475292719074168444365510704342711559699508093042880",
        "9007199254740993",
        "9007199254740992.99999999999999999999999",
        "9007199254740993.00000000000000000000000000000000000000000001",
        "0.1e1",
        "100000000000000000000000e-23",
        "8.5e23",
        "6.8e-300",
        "1.00000005960464477539062499999999",
        "1.00000005960464477539062500000001",
        "1.000000059604644775390625",
        "3.4028235677973366e38",
        "3.4028235677973365e38",
        "7.0064923216240854e-46",
        "7.0064923216240853e-46",
        "1090544144181609348835077142190",
        "5e-324",
        "0000000000000000000000000000000000000000000000000000001.5",
        "0.00000000000000000000000000000000000000000000000000000000000000000015",
        ".5",
        "5.",
        "5.e1",
    };
    char text[2048];

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++)
        check_decimal(cases[i]);
    for (int zeros = 0; zeros < 400; zeros += 7) { /* 1 and its neighbours, with many digits */
        snprintf(text, sizeof text, "1.%0*d1e%d", zeros + 1, 0, zeros - 200);
        check_decimal(text);
        snprintf(text, sizeof text, "0.%0*d9007199254740993%0*d1e%d", zeros + 1, 0, zeros + 1, 0, zeros);
        check_decimal(text);
    }
}

/* -1: no decimal of digits and a point; else how many digits, with *before of them before the point. */
static int digits_of(const char *text, int *before)
{
    int n = 0;

    *before = -1;
    for (const char *p = text + (*text == '-'); *p; p++) {
        if (*p == '.' && *before < 0)
            *before = n;
        else if (*p < '0' || *p > '9')
            return -1;
        else
            n++;
    }
    *before = *before < 0 ? n : *before;
    return n ? n : -1;
}

/* Texts like numbers, with few errors: what is taken is right, and what is short is taken. */
static void short_numbers(void **state)
{
    uint64_t seed = 8;

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        int64_t n = (int64_t)random_below(&seed, 24), whole = 0;
        char text[32] = "";
        int digits, before;
        double d = 0;
        float f = 0;
        bool taken;

        for (int k = 0; k < n; k++)
            text[k] = (char)('0' + random_below(&seed, 10));
        if (n && random_below(&seed, 2))
            text[0] = '-';
        if (n && random_below(&seed, 4))
            text[random_below(&seed, HR_MIN((uint64_t)n, 10))] = '.';
        if (n && random_below(&seed, 8) == 0)
            text[random_below(&seed, (uint64_t)n)] = ".-+/:e \xB0"[random_below(&seed, 8)];
        digits = digits_of(text, &before);
        taken = hr__short_double(slack(text, (char)i), n, &d);
        if (taken != (digits > 0 && digits <= 19 && (before <= 7 || (digits == 8 && !strchr(text, '.')))) ||
            (taken && !same_double(d, strtod(text, NULL))))
            fail_msg("'%s' is %.17g, %s %.17g", text, strtod(text, NULL), taken ? "read as" : "refused", d);
        assert_int_equal(hr__short_float(slack(text, (char)i), n, &f), taken);
        assert_true(!taken || f == strtof(text, NULL));
        taken = hr__short_int64(slack(text, (char)i), n, &whole);
        if (taken != (digits > 0 && digits <= 16 && !strchr(text, '.')) || (taken && whole != strtoll(text, NULL, 10)))
            fail_msg("'%s' %s %lld", text, taken ? "read as" : "refused", (long long)whole);
    }
}

static double random_double(uint64_t *seed)
{
    uint64_t bits = next_random(seed);
    double v;

    if (random_below(seed, 4) == 0)
        bits &= ~(uint64_t)0 << random_below(seed, 53); /* few digits in base two: powers among them */
    if (random_below(seed, 8) == 0)
        bits &= 0x800fffffffffffff; /* subnormal */
    memcpy(&v, &bits, 8);
    return isfinite(v) ? v : 1.5;
}

static void random_decimals(void **state)
{
    uint64_t seed = 2;
    char text[2048];

    (void)state;
    for (int i = 0; i < N_RANDOM; i++) {
        switch (i % 5) {
        case 0: snprintf(text, sizeof text, "%.*e", (int)random_below(&seed, 25), random_double(&seed)); break;
        case 1: snprintf(text, sizeof text, "%.*g", 17, random_double(&seed)); break;
        case 2:
            snprintf(text, sizeof text, "%lld.%04lld", (long long)random_below(&seed, 100000),
                     (long long)random_below(&seed, 10000));
            break;
        case 3:
            snprintf(text, sizeof text, "%llue%d", (unsigned long long)next_random(&seed),
                     (int)random_below(&seed, 700) - 360);
            break;
        default: {
            float v = (float)random_double(&seed);

            snprintf(text, sizeof text, "%.*g", 9, isfinite(v) ? (double)v : 3.5);
        }
        }
        check_decimal(text);
    }
}

/* The middle between two neighbours in all its digits, and a little beside it. */
static void halfway(void **state)
{
    uint64_t seed = 3;
    char text[2048];

    (void)state;
    for (int i = 0; i < N_RANDOM / 50; i++) {
        double v = fabs(random_double(&seed)), next = nextafter(v, INFINITY);
        long double middle = ((long double)v + (long double)next) / 2; /* exact: it has 64 bits, and more exponent */

        if (!isfinite(next))
            continue;
        snprintf(text, sizeof text, "%.800Le", middle);
        check_decimal(text);
        strchr(text, 'e')[-1] = '1';
        check_decimal(text);
        if (sizeof(long double) > 8) {
            float f = fabsf((float)v), g = nextafterf(f, INFINITY);

            if (!isfinite(g))
                continue;
            snprintf(text, sizeof text, "%.200e", ((double)f + (double)g) / 2);
            check_decimal(text);
        }
    }
}

static void grammar(void **state)
{
    static const struct {
        const char *text;
        bool lax, strict;
    } cases[] = {
        { "1", true, true },
        { "-1.5e+3", true, true },
        { "01", true, false },
        { "-00", true, false },
        { ".5", true, false },
        { "5.", true, false },
        { ".", false, false },
        { "-", false, false },
        { "", false, false },
        { "e5", false, false },
        { "1e", false, false },
        { "1e+", false, false },
        { "1e5.0", false, false },
        { "inf", true, false },
        { "-INF", true, false },
        { "Infinity", true, false },
        { "nan", true, false },
        { "-NaN", true, false },
        { "nano", false, false },
        { "+1", false, false },
        { "1.2.3", false, false },
        { "0x10", false, false },
        { "1 ", false, false },
        { " 1", false, false },
        { "1_000", false, false },
        { "1,5", false, false },
        { "0", true, true },
        { "0.0", true, true },
        { "12345678901234567890123456789x", false, false },
        { "1E5", true, true },
        { "--1", false, false },
    };
    double v;

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t n = (int64_t)strlen(cases[i].text);

        if (hr__parse_double(slack(cases[i].text, '0'), n, true, &v) != cases[i].lax ||
            hr__parse_double(slack(cases[i].text, '0'), n, false, &v) != cases[i].strict)
            fail_msg("'%s'", cases[i].text);
    }
}

/* The shortest by trial: fewest digits of printf that read back the same. */
static int fewest_digits(double v, bool is_float)
{
    char text[64];

    for (int n = 1; n < 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, v);
        if (is_float ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            return n;
    }
    return 17;
}

static int count_significant(const char *text)
{
    int n = 0, zeros = 0;

    for (; *text && *text != 'e'; text++) {
        if (*text < '0' || *text > '9')
            continue;
        zeros = *text == '0' ? zeros + 1 : 0;
        n += n > 0 || *text != '0';
    }
    return HR_MAX(n - zeros, 1);
}

static void check_print(double v, bool is_float)
{
    char text[HR_NUMBER_CHARS + 1];
    int n = is_float ? hr__print_float((float)v, text) : hr__print_double(v, text);

    assert_in_range(n, 3, HR_NUMBER_CHARS);
    text[n] = 0;
    if (is_float ? strtof(text, NULL) != (float)v : strtod(text, NULL) != v)
        fail_msg("%.17g printed as %s", v, text);
    if (v != 0 && count_significant(text) > fewest_digits(v, is_float))
        fail_msg("%.17g printed as %s: too long", v, text);
    assert_true(strpbrk(text, ".e") != NULL);
}

static void random_prints(void **state)
{
    uint64_t seed = 4;

    (void)state;
    for (int i = 0; i < N_RANDOM / 4; i++) {
        double v = i % 3 ? random_double(&seed) : (double)random_below(&seed, 1000000) / 100;
        float f = (float)v;

        check_print(v, false);
        if (isfinite(f))
            check_print((double)f, true);
    }
    for (int e = -1074; e < 1024; e++)
        check_print(ldexp(1, e), false);
    for (int e = -149; e < 128; e++)
        check_print(ldexp(1, e), true);
    for (int e = -323; e < 309; e++) {
        char text[16];

        snprintf(text, sizeof text, "1e%d", e);
        check_print(strtod(text, NULL), false);
    }
}

static void prints(void **state)
{
    static const struct {
        double v;
        const char *text;
    } cases[] = {
        { 0, "0.0" },
        { -0.0, "-0.0" },
        { 1, "1.0" },
        { -1.5, "-1.5" },
        { 0.1, "0.1" },
        { 0.3, "0.3" },
        { 0.0001, "0.0001" },
        { 0.00001, "1e-05" },
        { 1e15, "1000000000000000.0" },
        { 1e16, "1e+16" },
        { 123456789012345680.0, "1.2345678901234568e+17" },
        { 5e-324, "5e-324" },
        { 1.7976931348623157e308, "1.7976931348623157e+308" },
        { 9007199254740993.0, "9007199254740992.0" },
        { 100, "100.0" },
        { 2e-7, "2e-07" },
        { 9.5367431640625e-07, "9.5367431640625e-07" },
    };
    char text[HR_NUMBER_CHARS + 1];

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        text[hr__print_double(cases[i].v, text)] = 0;
        assert_string_equal(text, cases[i].text);
    }
    text[hr__print_double((double)INFINITY, text)] = 0;
    assert_string_equal(text, "inf");
    text[hr__print_double((double)-INFINITY, text)] = 0;
    assert_string_equal(text, "-inf");
    text[hr__print_double((double)NAN, text)] = 0;
    assert_string_equal(text, "nan");
    text[hr__print_float(0.1f, text)] = 0;
    assert_string_equal(text, "0.1");
    text[hr__print_float(16777216.0f, text)] = 0;
    assert_string_equal(text, "16777216.0");
}

/* -------------------------------------------------------------------------------------------------- dates and times */

static void dates(void **state)
{
    static const struct {
        const char *text;
        bool valid;
        int32_t days;
    } cases[] = {
        { "1970-01-01", true, 0 },
        { "1969-12-31", true, -1 },
        { "2000-02-29", true, 11016 },
        { "1900-02-29", false, 0 },
        { "2024-02-29", true, 19782 },
        { "2023-02-29", false, 0 },
        { "2023-13-01", false, 0 },
        { "2023-00-01", false, 0 },
        { "2023-01-00", false, 0 },
        { "2023-04-31", false, 0 },
        { "2023-1-01", false, 0 },
        { "0000-01-01", true, -719528 },
        { "9999-12-31", true, 2932896 },
        { "2023/01/01", false, 0 },
        { "2023-01-01 ", false, 0 },
        { "20230101", false, 0 },
        { "", false, 0 },
    };
    char text[HR_NUMBER_CHARS + 1];
    int32_t days;

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t n = (int64_t)strlen(cases[i].text);

        if (hr__parse_date(slack(cases[i].text, '0'), n, &days) != cases[i].valid ||
            (cases[i].valid && days != cases[i].days))
            fail_msg("'%s'", cases[i].text);
    }
    for (int32_t d = -719528; d <= 2932896; d += SANITIZED ? 17 : 1) {
        int64_t year;
        int month, day, n = hr__print_date(d, text);

        text[n] = 0;
        assert_true(hr__parse_date(slack(text, '0'), n, &days) && days == d);
        hr__date_of(d, &year, &month, &day);
        assert_true(hr__days_of(year, month, day) == d);
    }
    text[hr__print_date(INT32_MAX, text)] = 0;
    assert_string_equal(text, "5881580-07-11");
    text[hr__print_date(INT32_MIN, text)] = 0;
    assert_string_equal(text, "-5877641-06-23");
}

static void timestamps(void **state)
{
    static const struct {
        const char *text;
        hr_unit unit;
        bool valid;
        int zone;
        int64_t value;
    } cases[] = {
        { "1970-01-01", HR_SECOND, true, 0, 0 },
        { "1970-01-02T00:00:01", HR_SECOND, true, 0, 86401 },
        { "1970-01-01 10", HR_SECOND, true, 0, 36000 },
        { "1970-01-01 10:30", HR_MILLI, true, 0, 37800000 },
        { "1970-01-01 10:30:00.5", HR_MILLI, true, 0, 37800500 },
        { "1970-01-01 10:30:00.5", HR_SECOND, false, 0, 0 },
        { "1970-01-01 10:30:00.1234", HR_MILLI, false, 0, 0 },
        { "1970-01-01 10:30:00.1234", HR_MICRO, true, 0, 37800123400 },
        { "1969-12-31T23:59:59.999999999", HR_NANO, true, 0, -1 },
        { "1970-01-01T00:00:00Z", HR_SECOND, true, 1, 0 },
        { "1970-01-01T02:00:00+02:00", HR_SECOND, true, 1, 0 },
        { "1970-01-01T02:00:00+0200", HR_SECOND, true, 1, 0 },
        { "1970-01-01T02:00:00+02", HR_SECOND, true, 1, 0 },
        { "1970-01-01T02:00-03:30", HR_SECOND, true, 1, 19800 },
        { "1970-01-01T02-03:30", HR_SECOND, true, 1, 19800 },
        { "1970-01-01T02:00:00+24:00", HR_SECOND, false, 0, 0 },
        { "1970-01-01T02:00:00+2", HR_SECOND, false, 0, 0 },
        { "1970-01-01T24:00:00", HR_SECOND, false, 0, 0 },
        { "1970-01-01T23:60:00", HR_SECOND, false, 0, 0 },
        { "1970-01-01T23:00:60", HR_SECOND, false, 0, 0 },
        { "1970-01-01T", HR_SECOND, false, 0, 0 },
        { "1970-01-01Z", HR_SECOND, false, 0, 0 },
        { "1970-01-01x10:00", HR_SECOND, false, 0, 0 },
        { "1970-01-01 10:00:00.", HR_NANO, false, 0, 0 },
        { "2262-04-11T23:47:16.854775807", HR_NANO, true, 0, INT64_MAX },
        { "2262-04-11T23:47:16.854775808", HR_NANO, false, 0, 0 },
        { "1677-09-21T00:12:43.145224192", HR_NANO, true, 0, INT64_MIN },
        { "1677-09-21T00:12:43.145224191", HR_NANO, false, 0, 0 },
        { "9999-12-31T23:59:59", HR_MICRO, true, 0, 253402300799000000 },
    };
    char text[HR_NUMBER_CHARS + 1];
    int64_t v;
    int zone;

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t n = (int64_t)strlen(cases[i].text);

        if (hr__parse_timestamp(slack(cases[i].text, '0'), n, cases[i].unit, &v, &zone) != cases[i].valid ||
            (cases[i].valid && (v != cases[i].value || zone != cases[i].zone)))
            fail_msg("'%s' in %d: %lld", cases[i].text, (int)cases[i].unit, (long long)v);
    }
    text[hr__print_timestamp(-1, HR_NANO, true, text)] = 0;
    assert_string_equal(text, "1969-12-31T23:59:59.999999999Z");
    text[hr__print_timestamp(1500, HR_MILLI, false, text)] = 0;
    assert_string_equal(text, "1970-01-01T00:00:01.5");
    text[hr__print_timestamp(INT64_MIN, HR_SECOND, true, text)] = 0;
    assert_string_equal(text, "-292277022657-01-27T08:29:52Z");
}

static void random_timestamps(void **state)
{
    uint64_t seed = 5;
    char text[HR_NUMBER_CHARS + 1];

    (void)state;
    for (int i = 0; i < N_RANDOM / 4; i++) {
        hr_unit unit = (hr_unit)(i % 4);
        static const int64_t per[] = { 1, 1000, 1000000, 1000000000 };
        int64_t v = unit == HR_NANO ? (int64_t)next_random(&seed)
                                    : random_below(&seed, 253402300800 * per[unit]) -
                                          62135596800 * per[unit] * (random_below(&seed, 2)),
                back = 0;
        int zone = 0, n;

        if (unit != HR_NANO && v >= 253402300800 * per[unit])
            continue;
        n = hr__print_timestamp(v, unit, i & 8, text);
        assert_in_range(n, 19, HR_NUMBER_CHARS);
        text[n] = 0;
        if (!hr__parse_timestamp(slack(text, '0'), n, unit, &back, &zone) || back != v || zone != !!(i & 8))
            fail_msg("%lld in %d is %s, read as %lld", (long long)v, (int)unit, text, (long long)back);
        v = random_below(&seed, 86400 * per[unit]);
        n = hr__print_time(v, unit, text);
        assert_true(hr__parse_time((const uint8_t *)text, n, unit, &back) && back == v);
    }
}

static void times(void **state)
{
    int64_t v;

    (void)state;
    assert_true(hr__parse_time(slack("10:30", '0'), 5, HR_SECOND, &v) && v == 37800);
    assert_true(hr__parse_time(slack("23:59:59.999", '0'), 12, HR_MILLI, &v) && v == 86399999);
    assert_false(hr__parse_time(slack("10", '0'), 2, HR_SECOND, &v));
    assert_false(hr__parse_time(slack("24:00", '0'), 5, HR_SECOND, &v));
    assert_false(hr__parse_time(slack("10:30:0", '0'), 7, HR_SECOND, &v));
    assert_false(hr__parse_time(slack("10:30:00.1234", '0'), 13, HR_MILLI, &v));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers),          cmocka_unit_test(random_integers), cmocka_unit_test(powers),
        cmocka_unit_test(grammar),           cmocka_unit_test(hard_decimals),   cmocka_unit_test(random_decimals),
        cmocka_unit_test(halfway),           cmocka_unit_test(prints),          cmocka_unit_test(random_prints),
        cmocka_unit_test(short_numbers),     cmocka_unit_test(dates),           cmocka_unit_test(timestamps),
        cmocka_unit_test(random_timestamps), cmocka_unit_test(times),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
