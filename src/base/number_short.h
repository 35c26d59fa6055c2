/* number_short.h - parses short numbers, in line. A text that these functions refuse goes to the functions of number.h.
 *
 * The numbers of a column differ in length: a loop over digits ends at another place each time, and the CPU mispredicts
 * the branch. So the code always takes three groups of eight digits, as arithmetic on 64-bit words; empty groups add
 * nothing. */
#ifndef HR_NUMBER_SHORT_H
#define HR_NUMBER_SHORT_H

#include "base/number.h"

#define HR__ALL_BYTES(x) (0x0101010101010101u * (x))

extern const uint64_t hr__powers_of_10[20];
extern const double hr__exact_powers_of_10[23];

/* w * 10^q, correctly rounded; w != 0 or not. */
double hr__decimal_double(uint64_t w, int64_t q);
float hr__decimal_float(uint64_t w, int64_t q);

/* The values of n (0 to 8) digits, right-aligned after zeros, a byte each. *bad collects a high bit for each byte that
 * is no digit. Reads eight bytes. */
static inline uint64_t hr__digit_values(const uint8_t *p, int64_t n, uint64_t *bad)
{
    uint64_t v;

    memcpy(&v, p, 8);
    v ^= HR__ALL_BYTES('0');
    v = v << (32 - 4 * n) << (32 - 4 * n);
    *bad |= (v + HR__ALL_BYTES(0x76)) | v;
    return v;
}

/* The number of eight digit values, the first in the lowest byte. */
static inline uint64_t hr__sum_digits(uint64_t v)
{
    v = v * 10 + (v >> 8);
    return ((v & 0x000000FF000000FF) * 0x000F424000000064 + (v >> 16 & 0x000000FF000000FF) * 0x0000271000000001) >> 32;
}

/* [-]digits, at most 16. */
static inline bool hr__short_int64(const uint8_t *p, int64_t n, int64_t *out)
{
    bool negative = *p == '-';
    uint64_t bad = 0, v;

    p += negative;
    n -= negative;
    if (n <= 0 || n > 16)
        return false;
    v = hr__sum_digits(hr__digit_values(p, HR_MIN(n, 8), &bad));
    if (n > 8)
        v = v * hr__powers_of_10[n - 8] + hr__sum_digits(hr__digit_values(p + 8, n - 8, &bad));
    *out = negative ? -(int64_t)v : (int64_t)v;
    return !(bad & HR__ALL_BYTES(0x80));
}

typedef struct hr__short_decimal {
    uint64_t w;
    int64_t n_fraction; /* the number is w / 10^n_fraction, */
    int64_t n_digits;   /* written with n_digits digits, or one less, at most 19 */
    bool negative;
} hr__short_decimal;

/* [-]digits[.digits] with at most 7 digits before the point and 19 in all. */
static inline bool hr__short_decimal_of(const uint8_t *p, int64_t n, hr__short_decimal *out)
{
    bool negative = *p == '-';
    uint64_t first, bad = 0, w;
    int64_t point, m;

    p += negative;
    n -= negative;
    memcpy(&first, p, 8);
    first ^= HR__ALL_BYTES('.');
    first = (first - HR__ALL_BYTES(1)) & ~first & HR__ALL_BYTES(0x80); /* the lowest set bit is right */
    point = first ? __builtin_ctzll(first) >> 3 : 8;
    if (point >= n)
        point = n;
    if (point > 7 + (n == point))
        return false;
    m = n - point - (point < n);
    if (n <= 0 || m + point > 19 || m + point == 0)
        return false;
    w = hr__sum_digits(hr__digit_values(p, point, &bad));
    p += point + 1;
    if (m <= 8) {
        w = w * hr__powers_of_10[m] + hr__sum_digits(hr__digit_values(p, m, &bad));
    } else {
        int64_t second = HR_MIN(m - 8, 8), third = m - 8 - second;

        w = w * 100000000 + hr__sum_digits(hr__digit_values(p, 8, &bad));
        w = w * hr__powers_of_10[second] + hr__sum_digits(hr__digit_values(p + 8, second, &bad));
        w = w * hr__powers_of_10[third] + hr__sum_digits(hr__digit_values(p + 16, third, &bad));
    }
    *out = (hr__short_decimal){ w, m, point + m, negative };
    return !(bad & HR__ALL_BYTES(0x80));
}

static inline bool hr__short_double(const uint8_t *p, int64_t n, double *out)
{
    hr__short_decimal d;
    uint64_t bits;
    double v;

    if (!hr__short_decimal_of(p, n, &d))
        return false;
    v = d.n_digits <= 15 ? (double)(int64_t)d.w / hr__exact_powers_of_10[d.n_fraction]
                         : hr__decimal_double(d.w, -d.n_fraction);
    memcpy(&bits, &v, 8);
    bits |= (uint64_t)d.negative << 63; /* no branch: the signs of a column are often random */
    memcpy(out, &bits, 8);
    return true;
}

static inline bool hr__short_float(const uint8_t *p, int64_t n, float *out)
{
    hr__short_decimal d;

    if (!hr__short_decimal_of(p, n, &d))
        return false;
    *out = hr__decimal_float(d.w, -d.n_fraction);
    *out = d.negative ? -*out : *out;
    return true;
}

#endif
