/* decimal.c - see decimal.h: schoolbook arithmetic on words of 32 bits, and division by Knuth's algorithm D (The Art of
 * Computer Programming, volume 2, 4.3.1). */
#include "base/decimal.h"

#include "base/number_short.h"

#include <math.h>
#include <stdio.h>

enum { W = HR_WIDE_WORDS };

/* ---------------------------------------------------------------------------------------------- in and out of bytes */

static void trim(hr_wide *v, int n)
{
    while (n > 0 && !v->w[n - 1])
        n--;
    v->n = n;
    v->negative = v->negative && n;
}

hr_wide hr__wide_uint(uint64_t v)
{
    hr_wide out = { .w = { (uint32_t)v, (uint32_t)(v >> 32) } };

    trim(&out, 2);
    return out;
}

hr_wide hr__wide_int(int64_t v)
{
    hr_wide out = hr__wide_uint(v < 0 ? 0 - (uint64_t)v : (uint64_t)v);

    out.negative = v < 0;
    return out;
}

/* Negates n words in two's complement. */
static void complement(uint32_t *w, int n)
{
    uint64_t carry = 1;

    for (int k = 0; k < n; k++) {
        carry += (uint32_t)~w[k];
        w[k] = (uint32_t)carry;
        carry >>= 32;
    }
}

hr_wide hr__wide_load(const uint8_t *p, int bytes)
{
    const int n = bytes / 4;
    hr_wide v = { 0 };

    memcpy(v.w, p, (size_t)bytes);
    v.negative = v.w[n - 1] >> 31;
    if (v.negative)
        complement(v.w, n);
    trim(&v, n);
    return v;
}

void hr__wide_store(const hr_wide *v, int bytes, uint8_t *out)
{
    uint32_t w[8] = { 0 };

    memcpy(w, v->w, (size_t)HR_MIN(v->n, bytes / 4) * 4);
    if (v->negative)
        complement(w, bytes / 4);
    memcpy(out, w, (size_t)bytes);
}

/* ------------------------------------------------------------------------------------------------------- magnitudes */

static int magnitude_order(const hr_wide *a, const hr_wide *b)
{
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    for (int k = a->n - 1; k >= 0; k--)
        if (a->w[k] != b->w[k])
            return a->w[k] < b->w[k] ? -1 : 1;
    return 0;
}

int hr__wide_order(const hr_wide *a, const hr_wide *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? magnitude_order(b, a) : magnitude_order(a, b);
}

/* Adds the smaller magnitude to the greater. false: the sum does not fit. */
static bool add_magnitudes(const hr_wide *a, const hr_wide *b, hr_wide *out)
{
    const int n = a->n;
    uint64_t carry = 0;

    for (int k = 0; k < n; k++) {
        carry += (uint64_t)a->w[k] + (k < b->n ? b->w[k] : 0);
        out->w[k] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry && n == W)
        return false;
    if (carry)
        out->w[n] = (uint32_t)carry;
    out->n = n + (carry != 0);
    return true;
}

static void subtract_magnitudes(const hr_wide *a, const hr_wide *b, hr_wide *out)
{
    const int n = a->n;
    int64_t borrow = 0;

    for (int k = 0; k < n; k++) {
        borrow += (int64_t)a->w[k] - (k < b->n ? b->w[k] : 0);
        out->w[k] = (uint32_t)borrow;
        borrow >>= 32;
    }
    trim(out, n);
}

bool hr__wide_add(const hr_wide *a, const hr_wide *b, hr_wide *out)
{
    const bool a_is_greater = magnitude_order(a, b) >= 0, same = a->negative == b->negative;
    const hr_wide *greater = a_is_greater ? a : b, *less = a_is_greater ? b : a;
    hr_wide sum = { .negative = greater->negative };

    if (same && !add_magnitudes(greater, less, &sum))
        return false;
    if (!same)
        subtract_magnitudes(greater, less, &sum);
    *out = sum;
    return true;
}

bool hr__wide_multiply(const hr_wide *a, const hr_wide *b, hr_wide *out)
{
    uint32_t w[2 * W] = { 0 };
    int n = a->n + b->n;

    for (int i = 0; i < a->n; i++) {
        uint64_t carry = 0;

        for (int k = 0; k < b->n; k++) {
            carry += (uint64_t)a->w[i] * b->w[k] + w[i + k];
            w[i + k] = (uint32_t)carry;
            carry >>= 32;
        }
        w[i + b->n] = (uint32_t)carry;
    }
    while (n > 0 && !w[n - 1])
        n--;
    if (n > W)
        return false;
    out->negative = n && a->negative != b->negative;
    out->n = n;
    memcpy(out->w, w, (size_t)n * 4);
    return true;
}

static bool multiply_small(hr_wide *v, uint32_t by)
{
    uint64_t carry = 0;

    for (int k = 0; k < v->n; k++) {
        carry += (uint64_t)v->w[k] * by;
        v->w[k] = (uint32_t)carry;
        carry >>= 32;
    }
    if (!carry)
        return true;
    if (v->n == W)
        return false;
    v->w[v->n++] = (uint32_t)carry;
    return true;
}

bool hr__wide_scale_up(hr_wide *v, int digits)
{
    for (; digits >= 9; digits -= 9)
        if (!multiply_small(v, 1000000000))
            return false;
    for (; digits > 0; digits--)
        if (!multiply_small(v, 10))
            return false;
    return true;
}

bool hr__wide_shift_up(hr_wide *v, int64_t bits)
{
    const int64_t words = bits / 32;
    const int rest = (int)(bits % 32);

    if (!v->n)
        return true;
    if (words + v->n > W || (rest && !multiply_small(v, UINT32_C(1) << rest)) || words + v->n > W)
        return false;
    memmove(v->w + words, v->w, (size_t)v->n * 4);
    memset(v->w, 0, (size_t)words * 4);
    v->n += (int)words;
    return true;
}

hr_wide hr__wide_power_of_ten(int digits)
{
    hr_wide v = hr__wide_uint(1);

    hr__wide_scale_up(&v, digits); /* fits, by contract */
    return v;
}

bool hr__wide_has_digits(const hr_wide *v, int digits)
{
    hr_wide end;

    if (v->n <= 2) { /* most */
        uint64_t low = v->n ? v->w[0] : 0, most = 1;

        if (digits > 19)
            return true;
        low |= v->n > 1 ? (uint64_t)v->w[1] << 32 : 0;
        for (int i = 0; i < digits; i++)
            most *= 10;
        return low < most;
    }
    end = hr__wide_power_of_ten(digits);
    return magnitude_order(v, &end) < 0;
}

/* --------------------------------------------------------------------------------------------------------- division */

/* v / by in place; -> the rest. */
static uint32_t divide_small(hr_wide *v, uint32_t by)
{
    uint64_t rest = 0;

    for (int k = v->n - 1; k >= 0; k--) {
        rest = rest << 32 | v->w[k];
        v->w[k] = (uint32_t)(rest / by);
        rest %= by;
    }
    trim(v, v->n);
    return (uint32_t)rest;
}

/* One digit of the quotient: u[0 .. n] less q * v[0 .. n - 1], where q is what the first digits say, or one less, or
 * two. */
static uint32_t quotient_digit(uint32_t *u, const uint32_t *v, int n)
{
    const uint64_t top = (uint64_t)u[n] << 32 | u[n - 1];
    uint64_t q = top / v[n - 1], r = top % v[n - 1], carry = 0;
    int64_t borrow = 0;

    while (q >> 32 || q * v[n - 2] > (r << 32 | u[n - 2])) {
        q--;
        r += v[n - 1];
        if (r >> 32)
            break;
    }
    for (int k = 0; k < n; k++) {
        carry += q * v[k];
        borrow += (int64_t)u[k] - (int64_t)(uint32_t)carry;
        u[k] = (uint32_t)borrow;
        carry >>= 32;
        borrow >>= 32;
    }
    borrow += (int64_t)u[n] - (int64_t)carry;
    u[n] = (uint32_t)borrow;
    if (borrow < 0) { /* one too many: add back */
        q--;
        carry = 0;
        for (int k = 0; k < n; k++) {
            carry += (uint64_t)u[k] + v[k];
            u[k] = (uint32_t)carry;
            carry >>= 32;
        }
        u[n] += (uint32_t)carry;
    }
    return (uint32_t)q;
}

static uint32_t shifted(const uint32_t *w, int k, int n, int by)
{
    uint64_t pair = (uint64_t)(k < n ? w[k] : 0) << 32 | (k > 0 ? w[k - 1] : 0);

    return (uint32_t)(pair << by >> 32);
}

/* a >= b in magnitude, b of two words at least. */
static void divide_long(const hr_wide *a, const hr_wide *b, hr_wide *quotient, hr_wide *rest)
{
    const int n = b->n, m = a->n - n, by = __builtin_clz(b->w[n - 1]);
    uint32_t u[W + 1], v[W];

    for (int k = 0; k < n; k++)
        v[k] = shifted(b->w, k, n, by);
    for (int k = 0; k <= a->n; k++)
        u[k] = shifted(a->w, k, a->n, by);
    for (int j = m; j >= 0; j--)
        quotient->w[j] = quotient_digit(u + j, v, n);
    for (int k = 0; k < n; k++)
        rest->w[k] = (uint32_t)(((uint64_t)u[k + 1] << 32 | u[k]) >> by);
    trim(quotient, m + 1);
    trim(rest, n);
}

void hr__wide_divide(const hr_wide *a, const hr_wide *b, hr_wide *quotient, hr_wide *rest)
{
    hr_wide q = { .negative = a->negative != b->negative }, r = { .negative = a->negative };

    if (magnitude_order(a, b) < 0) {
        q.negative = false;
        r = *a;
    } else if (b->n == 1) {
        q = *a;
        q.negative = a->negative != b->negative;
        r.w[0] = divide_small(&q, b->w[0]);
        trim(&r, 1);
    } else {
        divide_long(a, b, &q, &r);
    }
    if (quotient)
        *quotient = q;
    if (rest)
        *rest = r;
}

/* ------------------------------------------------------------------------------------------------- text and doubles */

int hr__wide_print(const hr_wide *v, int exponent, char out[HR_WIDE_CHARS])
{
    uint32_t parts[20]; /* of nine digits, the lowest first */
    hr_wide left = *v;
    int n = 0, at;

    while (left.n)
        parts[n++] = divide_small(&left, 1000000000);
    at = snprintf(out, HR_WIDE_CHARS, "%s%u", v->negative ? "-" : "", n ? parts[n - 1] : 0);
    for (int i = n - 2; i >= 0; i--)
        at += snprintf(out + at, (size_t)(HR_WIDE_CHARS - at), "%09u", parts[i]);
    if (exponent)
        at += snprintf(out + at, (size_t)(HR_WIDE_CHARS - at), "E%d", exponent);
    return at;
}

double hr__wide_double(const hr_wide *v, int exponent)
{
    char text[HR_WIDE_CHARS + HR_SLACK] = { 0 };
    double out = 0;

    if (v->n <= 2 && exponent < 400 && exponent > -400) {
        out = hr__decimal_double(v->n ? v->w[0] | (v->n > 1 ? (uint64_t)v->w[1] << 32 : 0) : 0, exponent);
        return v->negative ? -out : out;
    }
    hr__parse_double((const uint8_t *)text, hr__wide_print(v, exponent, text), true, &out); /* always a number */
    return out;
}

/* v / unit, to the nearest, half-way to the even one. unit has 511 bits at most. */
static void divide_nearest(hr_wide *v, const hr_wide *unit)
{
    hr_wide rest, one = hr__wide_uint(1);
    int order;

    one.negative = v->negative;
    hr__wide_divide(v, unit, v, &rest);
    rest.negative = false;
    hr__wide_add(&rest, &rest, &rest); /* fits: rest < unit */
    order = hr__wide_order(&rest, unit);
    if (order > 0 || (order == 0 && v->n && v->w[0] & 1))
        hr__wide_add(v, &one, v);
}

bool hr__wide_of_double(double v, int digits, hr_wide *out)
{
    hr_wide unit = hr__wide_uint(1);
    int exponent;
    double fraction = frexp(v, &exponent);

    if (!isfinite(v))
        return false;
    exponent -= 53;
    *out = hr__wide_int((int64_t)ldexp(fraction, 53)); /* v is *out * 2^exponent, exactly */
    if ((digits > 0 && !hr__wide_scale_up(out, digits)) || (exponent > 0 && !hr__wide_shift_up(out, exponent)))
        return false;
    if ((digits < 0 && !hr__wide_scale_up(&unit, -digits)) || (exponent < 0 && !hr__wide_shift_up(&unit, -exponent)) ||
        unit.w[HR_WIDE_WORDS - 1] >> 31)
        *out = (hr_wide){ 0 }; /* it has 310 bits at most, so is less than half of the unit */
    else
        divide_nearest(out, &unit);
    return true;
}

/* A number as it stands: its digits are p[begin .. end), with one point among them perhaps, without zeros in front. */
typedef struct scanned {
    const uint8_t *digits;
    int64_t n;        /* bytes of these */
    int64_t n_digits; /* the point does not count */
    int64_t exponent; /* of the last digit */
    bool negative;
} scanned;

static bool scan_exponent(const uint8_t *p, const uint8_t *end, int64_t *out)
{
    bool negative = p < end && *p == '-';

    p += p < end && (*p == '-' || *p == '+');
    if (p == end)
        return false;
    *out = 0;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        *out = HR_MIN(*out * 10 + (*p - '0'), 1000000);
    }
    *out = negative ? -*out : *out;
    return true;
}

static bool scan_number(const uint8_t *p, int64_t n, scanned *out)
{
    const uint8_t *end = p + n, *point = NULL, *at;
    int64_t exponent = 0, seen = 0;

    *out = (scanned){ .negative = n && *p == '-' };
    p += n && (*p == '-' || *p == '+');
    for (at = p; at < end && ((*at >= '0' && *at <= '9') || (*at == '.' && !point)); at++) {
        if (*at == '.')
            point = at;
        else
            seen++;
    }
    if (!seen || (at < end && ((*at != 'e' && *at != 'E') || !scan_exponent(at + 1, end, &exponent))))
        return false;
    while (p < at && (*p == '0' || *p == '.'))
        p++;
    out->digits = p;
    out->n = at - p;
    out->n_digits = out->n - (point && point >= p);
    out->exponent = exponent - (point ? at - point - 1 : 0);
    return true;
}

bool hr__wide_parse(const uint8_t *p, int64_t n, int digits, hr_wide *out, bool *lost)
{
    scanned s;
    int64_t zeros, kept;

    *lost = false;
    *out = (hr_wide){ 0 };
    if (!scan_number(p, n, &s))
        return false;
    zeros = s.exponent + digits; /* to be added; cut off if negative */
    kept = HR_MAX(0, s.n_digits + HR_MIN(0, zeros));
    if (kept + HR_MAX(0, zeros) > 154)
        return s.n_digits == 0;
    for (int64_t i = 0; i < s.n; i++) {
        const uint32_t digit = (uint32_t)s.digits[i] - '0';
        const hr_wide one = hr__wide_uint(digit);

        if (s.digits[i] == '.')
            continue;
        if (kept-- <= 0)
            *lost = *lost || digit;
        else if (!multiply_small(out, 10) || !hr__wide_add(out, &one, out))
            return false;
    }
    out->negative = s.negative && out->n;
    return hr__wide_scale_up(out, (int)HR_MAX(0, zeros));
}
