/* number.c - numbers and times as text, both ways.
 *
 * Integers: eight digits a step by arithmetic inside one 64-bit word. Doubles: a short decimal is one exact
 * multiplication or division (Clinger, PLDI'90); others are a product with 128 bits of a power of five (Eisel and
 * Lemire, "Number parsing at a gigabyte per second", 2021; that 128 bits always suffice: Mushtak and Lemire, 2023).
 * With more than 19 digits the product is computed for both neighbours; where they differ strtod decides, with up to
 * 780 digits, and no digit after those can matter. Printing: Schubfach (Giulietti, "The Schubfach way to render
 * doubles", 2020) with the same table. The calendar is that of Hinnant ("chrono-compatible low-level date
 * algorithms"). */
#include "base/number_short.h"

#include "base/number_powers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ----------------------------------------------------------------------------------------------------------- digits */

static inline uint64_t load8(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}

static inline bool is_digit(uint8_t c) { return (uint8_t)(c - '0') < 10; }

/* All eight bytes are '0'..'9'. */
static inline bool are_digits(uint64_t v)
{
    return ((v & 0xF0F0F0F0F0F0F0F0) | (((v + 0x0606060606060606) & 0xF0F0F0F0F0F0F0F0) >> 4)) == 0x3333333333333333;
}

/* Of eight digits, the first in the lowest byte: pairs, then fours, then all. */
static inline uint64_t eight_digits(uint64_t v)
{
    v = (v & 0x0F0F0F0F0F0F0F0F) * 2561 >> 8;
    v = (v & 0x00FF00FF00FF00FF) * 6553601 >> 16;
    return (v & 0x0000FFFF0000FFFF) * 42949672960001 >> 32;
}

const uint64_t hr__powers_of_10[20] = {
    1,
    10,
    100,
    1000,
    10000,
    100000,
    1000000,
    10000000,
    100000000,
    1000000000,
    10000000000,
    100000000000,
    1000000000000,
    10000000000000,
    100000000000000,
    1000000000000000,
    10000000000000000,
    100000000000000000,
    1000000000000000000,
    10000000000000000000u,
};

/* n of 0 to 8 bytes as a number; they are all digits. Reads eight. */
static inline bool few_digits(const uint8_t *p, int64_t n, uint64_t *out)
{
    uint64_t v;

    if (n == 0) {
        *out = 0;
        return true;
    }
    v = load8(p) << (64 - 8 * n);
    if (n < 8)
        v |= 0x3030303030303030 >> (8 * n);
    *out = eight_digits(v);
    return are_digits(v);
}

bool hr__parse_uint64(const uint8_t *p, int64_t n, uint64_t *out)
{
    uint64_t v, part;

    if (n <= 0)
        return false;
    if (n <= 8)
        return few_digits(p, n, out);
    while (n > 20 && *p == '0') {
        p++;
        n--;
    }
    if (n > 20 || !few_digits(p, 8, &v))
        return false;
    p += 8;
    n -= 8;
    if (n > 8) {
        if (!few_digits(p, 8, &part))
            return false;
        v = v * 100000000 + part;
        p += 8;
        n -= 8;
    }
    return few_digits(p, n, &part) && !__builtin_mul_overflow(v, hr__powers_of_10[n], &v) &&
           !__builtin_add_overflow(v, part, out);
}

bool hr__parse_int64(const uint8_t *p, int64_t n, int64_t *out)
{
    bool negative = n > 0 && *p == '-';
    uint64_t v;

    if (!hr__parse_uint64(p + negative, n - negative, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = (int64_t)(negative ? 0 - v : v);
    return true;
}

/* ----------------------------------------------------------------------------------------------- decimals to binary */

/* The constants in which double and float differ. */
typedef struct binary_kind {
    int mantissa_bits;      /* stored ones */
    int min_exponent;       /* the exponent that the stored 0 means, less one */
    int max_exponent;       /* stored, of infinity */
    int even_min, even_max; /* powers of ten for which a product can be halfway between two */
} binary_kind;

static const binary_kind binary64 = { 52, -1023, 0x7FF, -4, 23 };
static const binary_kind binary32 = { 23, -127, 0xFF, -17, 10 };
static const binary_kind binary16 = { 10, -15, 0x1F, 0, 0 }; /* printed only */

/* w * 10^q, w != 0, as stored bits without sign: correctly rounded. */
static inline uint64_t round_decimal(uint64_t w, int64_t q, const binary_kind *k)
{
    const uint64_t *power;
    uint64_t high, low, mantissa;
    __uint128_t product;
    int lz, upper, exponent, shift;

    if (q < MIN_POWER)
        return 0;
    if (q > 308)
        return (uint64_t)k->max_exponent << k->mantissa_bits;
    lz = __builtin_clzll(w);
    w <<= lz;
    power = powers_of_5[q - MIN_POWER];
    product = (__uint128_t)w * power[0];
    high = (uint64_t)(product >> 64);
    low = (uint64_t)product;
    if ((high & (UINT64_MAX >> (k->mantissa_bits + 3))) == UINT64_MAX >> (k->mantissa_bits + 3)) {
        uint64_t more = (uint64_t)(((__uint128_t)w * power[1]) >> 64);

        low += more;
        high += low < more;
    }
    upper = (int)(high >> 63);
    shift = upper + 64 - k->mantissa_bits - 3;
    mantissa = high >> shift;
    exponent = (int)(((152170 + 65536) * q) >> 16) + 63 + upper - lz - k->min_exponent;
    if (exponent <= 0) { /* subnormal, or zero */
        if (-exponent + 1 >= 64)
            return 0;
        mantissa >>= -exponent + 1;
        mantissa += mantissa & 1;
        return mantissa >> 1; /* the carry into the exponent makes the smallest normal one */
    }
    if (low <= 1 && q >= k->even_min && q <= k->even_max && (mantissa & 3) == 1 && mantissa << shift == high)
        mantissa &= ~(uint64_t)1; /* halfway: to even */
    mantissa += mantissa & 1;
    mantissa >>= 1;
    if (mantissa >> (k->mantissa_bits + 1)) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent >= k->max_exponent)
        return (uint64_t)k->max_exponent << k->mantissa_bits;
    return (mantissa & ~((uint64_t)1 << k->mantissa_bits)) | (uint64_t)exponent << k->mantissa_bits;
}

/* A parsed decimal: sign, w * 10^exponent. */
typedef struct decimal {
    bool negative;
    bool more; /* w holds the first 19 digits only, and others follow that may matter */
    uint64_t w;
    int64_t exponent;
    const uint8_t *digits; /* `more`: the first nonzero digit */
    const uint8_t *end;    /* after the last digit; a point may stand between */
} decimal;

/* Reads the digits from p on into *w (modulo 2^64). -> the first byte after them. */
static inline const uint8_t *take_digits(const uint8_t *p, const uint8_t *end, uint64_t *w)
{
    while (end - p >= 8 && are_digits(load8(p))) {
        *w = *w * 100000000 + eight_digits(load8(p));
        p += 8;
    }
    for (; p < end && is_digit(*p); p++)
        *w = *w * 10 + (*p - '0');
    return p;
}

/* Reads the exponent after 'e'; saturates where any number of digits becomes infinite or zero. NULL: no exponent. */
static const uint8_t *take_exponent(const uint8_t *p, const uint8_t *end, int64_t *exponent)
{
    bool negative = p < end && *p == '-';
    int64_t v = 0;

    p += p < end && (*p == '-' || *p == '+');
    if (p == end || !is_digit(*p))
        return NULL;
    for (; p < end && is_digit(*p); p++)
        v = v < 1000000000000000 ? v * 10 + (*p - '0') : v;
    *exponent += negative ? -v : v;
    return p;
}

/* With more than 19 digits, computes w again from the first 19, without leading zeros. */
static void cut_digits(decimal *d, const uint8_t *p)
{
    int n = 0;

    while (p < d->end && (*p == '0' || *p == '.'))
        p++;
    d->digits = p;
    d->w = 0;
    for (; p < d->end; p++) {
        if (*p == '.')
            continue;
        if (n < 19) {
            d->w = d->w * 10 + (*p - '0');
        } else {
            d->exponent++; /* it was the exponent of all digits */
            d->more = true;
        }
        n++;
    }
}

static bool scan_decimal(const uint8_t *p, const uint8_t *end, bool lax, decimal *d)
{
    const uint8_t *begin, *point;
    int64_t n;

    *d = (decimal){ .negative = p < end && *p == '-' };
    p += d->negative;
    begin = p;
    p = take_digits(p, end, &d->w);
    n = p - begin;
    if (!lax && (n == 0 || (n > 1 && *begin == '0')))
        return false;
    if (p < end && *p == '.') {
        point = ++p;
        p = take_digits(p, end, &d->w);
        d->exponent = point - p;
        n += p - point;
        if (!lax && p == point)
            return false;
    }
    if (n == 0)
        return false;
    d->end = p;
    if (p < end && (*p | 0x20) == 'e') {
        p = take_exponent(p + 1, end, &d->exponent);
        if (!p)
            return false;
    }
    if (n > 19)
        cut_digits(d, begin);
    return p == end;
}

#define MAX_DIGITS                                                                                                     \
    780 /* 767 digits distinguish two neighbours and their middle; of further digits, only "any is not zero" matters */

/* Writes the decimal for strtod: digits, no point (it depends on the locale), an exponent. */
static void write_decimal(const decimal *d, char text[MAX_DIGITS + 40])
{
    bool rest = false;
    int n = 0;

    for (const uint8_t *p = d->digits; p < d->end; p++) {
        if (*p == '.')
            continue;
        if (n < MAX_DIGITS)
            text[n++] = (char)*p;
        else
            rest = rest || *p != '0';
    }
    if (rest)
        text[n++] = '1';
    snprintf(text + n, 40, "e%lld", (long long)(d->exponent - (n - 19))); /* that of the first 19 digits */
}

/* The words, without sign. */
static bool special(const uint8_t *p, int64_t n, double *out)
{
    static const struct {
        const char *word;
        double value;
    } words[] = { { "nan", (double)NAN }, { "inf", (double)INFINITY }, { "infinity", (double)INFINITY } };

    for (int i = 0; i < HR_LEN(words); i++) {
        if ((int64_t)strlen(words[i].word) == n && strncasecmp(words[i].word, (const char *)p, (size_t)n) == 0) {
            *out = words[i].value;
            return true;
        }
    }
    return false;
}

static bool special_signed(const uint8_t *p, int64_t n, double *out)
{
    bool negative = n > 0 && *p == '-';

    if (!special(p + negative, n - negative, out))
        return false;
    *out = negative ? -*out : *out;
    return true;
}

static double double_of(uint64_t bits)
{
    double v;

    memcpy(&v, &bits, 8);
    return v;
}

static float float_of(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, 4);
    return v;
}

const double hr__exact_powers_of_10[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                            1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

double hr__decimal_double(uint64_t w, int64_t q) { return w ? double_of(round_decimal(w, q, &binary64)) : 0; }

float hr__decimal_float(uint64_t w, int64_t q) { return w ? float_of((uint32_t)round_decimal(w, q, &binary32)) : 0; }

static double decimal_double(const decimal *d)
{
    uint64_t bits;

    if (d->w == 0)
        return 0;
    if (!d->more && d->w <= (uint64_t)1 << 53 && d->exponent >= -22 && d->exponent <= 22)
        return d->exponent < 0 ? (double)d->w / hr__exact_powers_of_10[-d->exponent]
                               : (double)d->w * hr__exact_powers_of_10[d->exponent];
    bits = round_decimal(d->w, d->exponent, &binary64);
    if (d->more && bits != round_decimal(d->w + 1, d->exponent, &binary64)) {
        char text[MAX_DIGITS + 40];

        write_decimal(d, text);
        return strtod(text, NULL);
    }
    return double_of(bits);
}

static float decimal_float(const decimal *d)
{
    uint64_t bits;

    if (d->w == 0)
        return 0;
    bits = round_decimal(d->w, d->exponent, &binary32);
    if (d->more && bits != round_decimal(d->w + 1, d->exponent, &binary32)) {
        char text[MAX_DIGITS + 40];

        write_decimal(d, text);
        return strtof(text, NULL);
    }
    return float_of((uint32_t)bits);
}

/* The short decimals that JSON's grammar refuses: "01", ".5", "5.". */
static inline bool is_strict(const uint8_t *p, int64_t n)
{
    bool whole = p[n - 1] != '.';

    p += *p == '-';
    return whole && is_digit(p[0]) && !(p[0] == '0' && is_digit(p[1]));
}

bool hr__parse_double(const uint8_t *p, int64_t n, bool lax, double *out)
{
    decimal d;

    if (hr__short_double(p, n, out) && (lax || is_strict(p, n)))
        return true;
    if (!scan_decimal(p, p + n, lax, &d))
        return lax && special_signed(p, n, out);
    *out = d.negative ? -decimal_double(&d) : decimal_double(&d);
    return true;
}

bool hr__parse_float(const uint8_t *p, int64_t n, bool lax, float *out)
{
    double word;
    decimal d;

    if (!scan_decimal(p, p + n, lax, &d)) {
        if (!lax || !special_signed(p, n, &word))
            return false;
        *out = (float)word;
        return true;
    }
    *out = d.negative ? -decimal_float(&d) : decimal_float(&d);
    return true;
}

/* -------------------------------------------------------------------------------------------------- dates and times */

int64_t hr__days_of(int64_t year, int month, int day)
{
    int64_t y = year - (month <= 2), era = (y >= 0 ? y : y - 399) / 400;
    int64_t of_era = y - era * 400, of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

void hr__date_of(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097, of_era = z - era * 146097;
    int64_t y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * y + y / 4 - y / 100), m = (5 * of_year + 2) / 153;

    *day = (int)(of_year - (153 * m + 2) / 5 + 1);
    *month = (int)(m < 10 ? m + 3 : m - 9);
    *year = y + era * 400 + (*month <= 2);
}

static const int64_t unit_per_second[] = { 1, 1000, 1000000, 1000000000 };

static bool two_digits(const uint8_t *p, int most, int *out)
{
    *out = (p[0] - '0') * 10 + (p[1] - '0');
    return is_digit(p[0]) && is_digit(p[1]) && *out <= most;
}

/* "2026-11-21", ten bytes. */
static bool take_date(const uint8_t *p, int64_t *days)
{
    static const uint8_t lengths[12] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    int century, of_century, month, day, year;

    if (!two_digits(p, 99, &century) || !two_digits(p + 2, 99, &of_century) || p[4] != '-' ||
        !two_digits(p + 5, 12, &month) || p[7] != '-' || !two_digits(p + 8, 31, &day) || month == 0 || day == 0)
        return false;
    year = century * 100 + of_century;
    if (day > lengths[month - 1] && !(month == 2 && day == 29 && year % 4 == 0 && (year % 100 || year % 400 == 0)))
        return false;
    *days = hr__days_of(year, month, day);
    return true;
}

bool hr__parse_date(const uint8_t *p, int64_t n, int32_t *days)
{
    int64_t v;

    if (n != 10 || !take_date(p, &v))
        return false;
    *days = (int32_t)v;
    return true;
}

/* [.fffffffff] in `unit`. */
static bool take_fraction(const uint8_t *p, int64_t n, hr_unit unit, int64_t *out)
{
    uint64_t v;

    *out = 0;
    if (n == 0)
        return true;
    if (*p != '.' || n < 2 || n - 1 > (int)unit * 3 || !hr__parse_uint64(p + 1, n - 1, &v))
        return false;
    *out = (int64_t)(v * hr__powers_of_10[(int)unit * 3 - (n - 1)]);
    return true;
}

/* hh[:mm[:ss[.f]]] of a day. */
static bool take_time(const uint8_t *p, int64_t n, hr_unit unit, int64_t *seconds, int64_t *fraction)
{
    int hour, minute = 0, second = 0;

    *fraction = 0;
    if (n < 2 || n == 3 || n == 4 || n == 6 || n == 7 || !two_digits(p, 23, &hour))
        return false;
    if (n > 2 && (p[2] != ':' || !two_digits(p + 3, 59, &minute)))
        return false;
    if (n > 5 && (p[5] != ':' || !two_digits(p + 6, 59, &second) || !take_fraction(p + 8, n - 8, unit, fraction)))
        return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

bool hr__parse_time(const uint8_t *p, int64_t n, hr_unit unit, int64_t *out)
{
    int64_t seconds, fraction;

    if (n < 5 || !take_time(p, n, unit, &seconds, &fraction))
        return false;
    *out = seconds * unit_per_second[unit] + fraction;
    return true;
}

/* Cuts 'Z' or +hh[[:]mm] off the end of a time; *offset: seconds east. */
static int64_t take_zone(const uint8_t *p, int64_t n, int64_t *offset, int *zone)
{
    int64_t at = n;
    int hours, minutes = 0;

    *offset = 0;
    *zone = 0;
    if (n > 0 && p[n - 1] == 'Z') {
        *zone = 1;
        return n - 1;
    }
    for (int64_t back = 3; back <= 6 && back <= n; back++) {
        if (p[n - back] == '+' || p[n - back] == '-')
            at = n - back;
    }
    if (at == n)
        return n;
    p += at;
    n -= at;
    if (n == 4 || !two_digits(p + 1, 23, &hours) || (n == 6 && p[3] != ':') ||
        (n >= 5 && !two_digits(p + n - 2, 59, &minutes)))
        return -1;
    *zone = 1;
    *offset = (hours * 60 + minutes) * (*p == '-' ? -60 : 60);
    return at;
}

bool hr__parse_timestamp(const uint8_t *p, int64_t n, hr_unit unit, int64_t *out, int *zone)
{
    int64_t days, seconds = 0, fraction = 0, offset = 0;

    *zone = 0;
    if (n < 10 || !take_date(p, &days))
        return false;
    if (n > 10) {
        if (p[10] != ' ' && p[10] != 'T')
            return false;
        n = take_zone(p + 11, n - 11, &offset, zone);
        if (n < 0 || !take_time(p + 11, n, unit, &seconds, &fraction))
            return false;
    }
    seconds += days * 86400 - offset;
    if (seconds < 0 && fraction > 0) { /* the product fits wherever the sum fits */
        seconds++;
        fraction -= unit_per_second[unit];
    }
    return !__builtin_mul_overflow(seconds, unit_per_second[unit], &seconds) &&
           !__builtin_add_overflow(seconds, fraction, out);
}

/* --------------------------------------------------------------------------------------------------------- printing */

static const char digit_pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
                                  "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
                                  "8081828384858687888990919293949596979899";

static int count_digits(uint64_t v)
{
    int n = 1;

    while (n < 20 && v >= hr__powers_of_10[n])
        n++;
    return n;
}

/* v in n digits, zeros in front. */
static void print_digits(uint64_t v, int n, char *out)
{
    for (; n >= 2; n -= 2, v /= 100)
        memcpy(out + n - 2, digit_pairs + v % 100 * 2, 2);
    if (n)
        *out = (char)('0' + v % 10);
}

int hr__print_uint64(uint64_t v, char *out)
{
    int n = count_digits(v);

    print_digits(v, n, out);
    return n;
}

int hr__print_int64(int64_t v, char *out)
{
    *out = '-';
    return (v < 0) + hr__print_uint64(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, out + (v < 0));
}

/* 10^k, its first 128 bits rounded up, times `factor`: the bits from 2^128 on, the last bit is also set if bits were
 * lost. */
static uint64_t times_power(int k, uint64_t factor)
{
    const uint64_t *power = powers_of_5[k - MIN_POWER];
    __uint128_t g = (__uint128_t)power[0] << 64 | power[1], low, high;

    if (k < -27 || k > 55)
        g++; /* the table's numbers were cut off */
    low = (__uint128_t)(uint64_t)g * factor;
    high = (__uint128_t)(uint64_t)(g >> 64) * factor + (uint64_t)(low >> 64);
    return (uint64_t)(high >> 64) | ((uint64_t)high > 1);
}

/* The shortest decimal *digits * 10^*exponent that lies nearer to c * 2^q than to its neighbours; of those the nearest.
 * `at_power`: the neighbour below is half as far. Names as in Giulietti's paper. */
static void shortest(uint64_t c, int q, bool at_power, uint64_t *digits, int *exponent)
{
    bool odd = c & 1, below, above;
    int k = (q * 1262611 - (at_power ? 524031 : 0)) >> 22; /* floor(log10(2^q)), or of 3/4 of it */
    int h = q + ((-k * 1741647) >> 19) + 1;
    uint64_t left = times_power(-k, (4 * c - 2 + at_power) << h) + odd;
    uint64_t v = times_power(-k, 4 * c << h);
    uint64_t right = times_power(-k, (4 * c + 2) << h) - odd;
    uint64_t s = v / 4, tens = s / 10;

    *exponent = k;
    if (s >= 10) {
        below = left <= 40 * tens;
        above = 40 * tens + 40 <= right;
        if (below != above) {
            *digits = tens + above;
            *exponent = k + 1;
            return;
        }
    }
    below = left <= 4 * s;
    above = 4 * s + 4 <= right;
    if (below != above)
        *digits = s + above;
    else
        *digits = s + (v > 4 * s + 2 || (v == 4 * s + 2 && (s & 1)));
}

/* digits * 10^exponent as Python writes a float. */
static int print_decimal(uint64_t digits, int exponent, char *out)
{
    char text[20];
    int n, point, at = 0;

    while (digits % 10 == 0) {
        digits /= 10;
        exponent++;
    }
    n = count_digits(digits);
    print_digits(digits, n, text);
    point = n + exponent; /* digits before the point */
    if (point > 16 || point < -3) {
        out[at++] = text[0];
        if (n > 1)
            out[at++] = '.';
        memcpy(out + at, text + 1, (size_t)(n - 1));
        at += n - 1;
        out[at++] = 'e';
        out[at++] = point > 0 ? '+' : '-';
        point = point > 0 ? point - 1 : 1 - point;
        n = point < 100 ? 2 : 3;
        print_digits((uint64_t)point, n, out + at);
        return at + n;
    }
    if (point <= 0) {
        memcpy(out, "0.000", 5);
        at = 2 - point;
        memcpy(out + at, text, (size_t)n);
        return at + n;
    }
    memset(out, '0', (size_t)point);
    memcpy(out, text, (size_t)HR_MIN(n, point));
    out[point] = '.';
    if (n <= point) {
        out[point + 1] = '0';
        return point + 2;
    }
    memcpy(out + point + 1, text + point, (size_t)(n - point));
    return n + 1;
}

/* Prints zero, infinity and nan. -> 0: the number is none of these. */
static int print_special(bool negative, bool is_nan, bool is_inf, char *out)
{
    const char *text = is_nan ? "nan" : is_inf ? "-inf" : "-0.0";
    bool skip = !is_nan && !negative;

    memcpy(out, text + skip, strlen(text) - skip);
    return (int)strlen(text) - skip;
}

static int print_binary(uint64_t bits, const binary_kind *kind, char *out)
{
    int exponent = (int)(bits >> kind->mantissa_bits) & kind->max_exponent;
    uint64_t hidden = (uint64_t)1 << kind->mantissa_bits, mantissa = bits & (hidden - 1), digits;
    bool negative = bits >> kind->mantissa_bits > (uint64_t)kind->max_exponent;
    int ten;

    if (exponent == kind->max_exponent || (exponent == 0 && mantissa == 0))
        return print_special(negative, exponent && mantissa, exponent, out);
    shortest(exponent ? mantissa | hidden : mantissa, HR_MAX(exponent, 1) + kind->min_exponent - kind->mantissa_bits,
             mantissa == 0 && exponent > 1, &digits, &ten);
    *out = '-';
    return negative + print_decimal(digits, ten, out + negative);
}

int hr__print_double(double v, char *out)
{
    uint64_t bits;

    memcpy(&bits, &v, 8);
    return print_binary(bits, &binary64, out);
}

int hr__print_float(float v, char *out)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    return print_binary(bits, &binary32, out);
}

int hr__print_half(uint16_t bits, char *out) { return print_binary(bits, &binary16, out); }

static int print_day(int64_t days, char *out)
{
    int64_t year;
    int month, day, at = 0, n;

    hr__date_of(days, &year, &month, &day);
    if (year < 0)
        out[at++] = '-';
    year = year < 0 ? -year : year;
    n = HR_MAX(4, count_digits((uint64_t)year));
    print_digits((uint64_t)year, n, out + at);
    at += n;
    out[at] = out[at + 3] = '-';
    print_digits((uint64_t)month, 2, out + at + 1);
    print_digits((uint64_t)day, 2, out + at + 4);
    return at + 6;
}

/* hh:mm:ss[.f], with the shortest exact fraction. */
static int print_clock(int64_t seconds, int64_t fraction, hr_unit unit, char *out)
{
    int n = (int)unit * 3;

    print_digits((uint64_t)(seconds / 3600), 2, out);
    print_digits((uint64_t)(seconds / 60 % 60), 2, out + 3);
    print_digits((uint64_t)(seconds % 60), 2, out + 6);
    out[2] = out[5] = ':';
    if (fraction == 0)
        return 8;
    for (; fraction % 10 == 0; n--)
        fraction /= 10;
    out[8] = '.';
    print_digits((uint64_t)fraction, n, out + 9);
    return 9 + n;
}

int hr__print_date(int32_t days, char *out) { return print_day(days, out); }

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t floor_rest(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

int hr__print_timestamp(int64_t v, hr_unit unit, bool utc, char *out)
{
    int64_t seconds = floor_div(v, unit_per_second[unit]);
    int n = print_day(floor_div(seconds, 86400), out);

    out[n++] = 'T';
    n += print_clock(floor_rest(seconds, 86400), floor_rest(v, unit_per_second[unit]), unit, out + n);
    if (utc)
        out[n++] = 'Z';
    return n;
}

int hr__print_time(int64_t v, hr_unit unit, char *out)
{
    int64_t seconds = floor_div(v, unit_per_second[unit]);

    if (seconds < 0 || seconds >= 360000) /* no time of day, but a column may hold it */
        return hr__print_int64(v, out);
    return print_clock(seconds, floor_rest(v, unit_per_second[unit]), unit, out);
}
