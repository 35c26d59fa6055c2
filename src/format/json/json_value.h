/* json_value.h - scans a number; inline for json_build.c. */
#ifndef HR_JSON_VALUE_H
#define HR_JSON_VALUE_H

#include "format/json/json.h"

/* Digits from p on, into the 64-bit number of all digits so far (it wraps after 19 of them). */
static inline const uint8_t *hr__json_scan_digits(const uint8_t *p, uint64_t *u)
{
    uint64_t v = *u;

    while ((uint8_t)(*p - '0') < 10)
        v = v * 10 + (uint8_t)(*p++ - '0');
    *u = v;
    return p;
}

/* The number of significant digits: without leading zeros; a point among the digits does not count. */
static inline int64_t hr__json_count_digits(const uint8_t *p, const uint8_t *end)
{
    int64_t n = 0;

    for (; p < end && (*p == '0' || *p == '.'); p++)
        ;
    for (; p < end; p++)
        n += *p != '.';
    return n;
}

static inline const uint8_t *hr__json_scan_exponent(const uint8_t *p, int *exponent)
{
    bool negative = p[1] == '-';
    const uint8_t *first;
    int v = 0;

    p += 1 + (p[1] == '-' || p[1] == '+');
    for (first = p; (uint8_t)(*p - '0') < 10; p++)
        v = v < 100000 ? v * 10 + (*p - '0') : v;
    *exponent += negative ? -v : v;
    return p == first ? NULL : p;
}

static inline __attribute__((always_inline)) void hr__json_scan_number(const uint8_t *p, hr_json_number *out)
{
    const uint8_t *begin = p, *first, *end, *point = NULL;
    uint64_t u = 0;

    out->kind = HR_JSON_NO_NUMBER;
    out->negative = *p == '-';
    out->exponent = 0;
    p += out->negative;
    first = p;
    p = hr__json_scan_digits(p, &u);
    out->length = p - begin;
    if (p == first || (*first == '0' && p - first > 1))
        return;
    end = p;
    if (*p == '.') {
        point = ++p;
        p = end = hr__json_scan_digits(p, &u);
        out->length = p - begin;
        if (p == point)
            return;
        out->exponent = (int)HR_MIN(p - point, 1 << 20) * -1;
    }
    if ((*p | 0x20) == 'e') {
        const uint8_t *behind = hr__json_scan_exponent(p, &out->exponent);

        if (!behind)
            return;
        p = behind;
        point = end;
    }
    out->length = p - begin;
    if (!(hr__json_class[*p] & 1))
        return;
    out->n_digits = (int)(end - first);
    if (out->n_digits > 19)
        out->n_digits = (int)HR_MIN(hr__json_count_digits(first, end), 1 << 20);
    out->u = u;
    out->i = (int64_t)(out->negative ? 0 - u : u);
    if (point)
        out->kind = HR_JSON_REAL;
    else if (out->n_digits <= 18 || (out->n_digits == 19 && u <= (uint64_t)INT64_MAX + out->negative))
        out->kind = HR_JSON_INT;
    else if (!out->negative &&
             (out->n_digits == 19 || (out->n_digits == 20 && *first == '1' && u >= 10000000000000000000u)))
        out->kind = HR_JSON_UINT;
    else
        out->kind = HR_JSON_BIG;
}

#endif
