/* decimal.h - whole numbers of 512 bits, for decimals: sign and magnitude, exact.
 *
 * A decimal is a whole number and a scale, of 38 digits (16 bytes) or 76 (32 bytes). Intermediate values (a product, or
 * one decimal at the other's scale) have up to 154 digits and fit here: no digit is lost in between, and only the
 * result has to be checked (hr__wide_has_digits). */
#ifndef HR_CORE_DECIMAL_H
#define HR_CORE_DECIMAL_H

#include "base/all.h"

__extension__ typedef __int128 int128;

/* 10^n; n is 38 at most. */
static inline int128 hr__power_of_ten(int n)
{
    int128 v = 1;

    for (int i = 0; i < n; i++)
        v *= 10;
    return v;
}

enum { HR_WIDE_WORDS = 16, HR_WIDE_CHARS = 160 };
typedef struct hr_wide {
    bool negative;             /* never of 0 */
    int n;                     /* words in use, w[n - 1] is not 0; 0: the number 0 */
    uint32_t w[HR_WIDE_WORDS]; /* least first; those after n are undefined */
} hr_wide;

hr_wide hr__wide_int(int64_t v);
hr_wide hr__wide_uint(uint64_t v);
/* From 16 or 32 bytes of two's complement, least significant first; and back: the low bytes of the value. */
hr_wide hr__wide_load(const uint8_t *p, int bytes);
void hr__wide_store(const hr_wide *v, int bytes, uint8_t *out);

/* True if v has at most `digits` decimal digits (0 to 154). */
bool hr__wide_has_digits(const hr_wide *v, int digits);
int hr__wide_order(const hr_wide *a, const hr_wide *b); /* < 0, 0, > 0 */

/* false: more than 512 bits; then the value is undefined. `out` may be an operand. */
bool hr__wide_add(const hr_wide *a, const hr_wide *b, hr_wide *out);
bool hr__wide_multiply(const hr_wide *a, const hr_wide *b, hr_wide *out);
bool hr__wide_scale_up(hr_wide *v, int digits);   /* v * 10^digits; digits >= 0 */
bool hr__wide_shift_up(hr_wide *v, int64_t bits); /* v * 2^bits */
static inline void hr__wide_negate(hr_wide *v) { v->negative = v->n && !v->negative; }
/* Towards zero; the rest has the sign of a. b is not 0. Either result may be NULL. */
void hr__wide_divide(const hr_wide *a, const hr_wide *b, hr_wide *quotient, hr_wide *rest);
hr_wide hr__wide_power_of_ten(int digits); /* 0 to 154 */

/* The greatest number of `digits` digits, up to what 16 bytes hold. */
static inline int128 hr__most_of_digits(int digits) { return hr__power_of_ten(HR_MIN(digits, 38)) - 1; }

/* True if a decimal of 16 or 32 bytes has at most `digits` digits. `most`: hr__most_of_digits(digits). */
static inline bool hr__decimal_fits(const uint8_t *p, int bytes, int digits, int128 most)
{
    hr_wide v;
    int128 low;

    memcpy(&low, p, sizeof low);
    if (bytes == 16)
        return low <= most && low >= -most;
    v = hr__wide_load(p, bytes);
    return hr__wide_has_digits(&v, digits);
}

/* Digits, then "E" and the exponent, without a point: number.h reads it. -> length; `out` has HR_WIDE_CHARS. */
int hr__wide_print(const hr_wide *v, int exponent, char out[HR_WIDE_CHARS]);
/* The nearest double to v * 10^exponent. */
double hr__wide_double(const hr_wide *v, int exponent);
/* The whole number nearest to v * 10^digits, half-way to the even one. false: not finite, or more than 512 bits. */
bool hr__wide_of_double(double v, int digits, hr_wide *out);
/* A decimal number as text ("-12.50", "1e3") as a whole number of 10^-digits. false: the text is no number, or the
 * number is too large. *lost: further digits follow and are cut off. */
bool hr__wide_parse(const uint8_t *p, int64_t n, int digits, hr_wide *out, bool *lost);

#endif
