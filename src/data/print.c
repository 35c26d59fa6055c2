/* print.c - values as text, for people: `headrace head`, messages, tests.
 *
 * A value on its own is plain (a string without quotes); inside lists and structs it is JSON-like. Numbers have as many
 * digits as reading the same number back takes. Times are in UTC, with a Z if the type has a zone. Bytes that are no
 * printable text become \xHH, so that a value is always one line. A limit ends the text early: a value may be an image,
 * and no reader needs its second thousand bytes.
 *
 * Tests: test_array.c, test_json.c. */
#include "data/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct printer {
    hr_text *out;
    int64_t end; /* no further items from this length on */
} printer;

static bool is_full(const printer *p) { return p->out->n >= p->end || p->out->failed; }

/* ---------------------------------------------------------------------------------------------------------- numbers */

static void print_unsigned(printer *p, const hr_array *a, int64_t i)
{
    hr__text_add(p->out, "%llu", (unsigned long long)hr__array_uint(a, i));
}

/* The value v as a number of the type. */
static double rounded(hr_type_id id, double v)
{
    if (id == HR_T_FLOAT16)
        return hr__half_value(hr__half_of(v));
    return id == HR_T_FLOAT32 ? (double)(float)v : v;
}

/* The fewest digits, from `least` on, that read back as the same number; "1.0", not "1". */
static void print_double(printer *p, double v, int least, hr_type_id id)
{
    char text[40];

    if (isnan(v) || isinf(v)) {
        hr__text_add(p->out, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (v == trunc(v) && fabs(v) < 1e16) {
        hr__text_add(p->out, "%.1f", v);
        return;
    }
    for (int n = least; n <= 17; n++) {
        snprintf(text, sizeof text, "%.*g", n, v);
        if (rounded(id, strtod(text, NULL)) == v)
            break;
    }
    hr__text_add(p->out, "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

static void print_float(printer *p, const hr_array *a, int64_t i)
{
    float single;
    double dbl;

    if (a->type->id == HR_T_FLOAT16) {
        print_double(p, hr__half_value((uint16_t)hr__array_int(a, i)), 3, HR_T_FLOAT16);
    } else if (a->type->id == HR_T_FLOAT32) {
        memcpy(&single, hr__array_values(a) + i * 4, 4);
        print_double(p, (double)single, 6, HR_T_FLOAT32);
    } else {
        memcpy(&dbl, hr__array_values(a) + i * 8, 8);
        print_double(p, dbl, 15, HR_T_FLOAT64);
    }
}

/* Two's complement of n 32-bit limbs, lowest first, as decimal digits. */
static void decimal_digits(uint32_t *limbs, int n, char *digits, size_t cap)
{
    bool any = true;
    char *at = digits + cap - 1;

    *at = '\0';
    while (any && at > digits) {
        uint64_t rest = 0;

        any = false;
        for (int k = n - 1; k >= 0; k--) {
            uint64_t v = rest << 32 | limbs[k];

            limbs[k] = (uint32_t)(v / 10);
            rest = v % 10;
            any |= limbs[k] != 0;
        }
        *--at = (char)('0' + rest);
    }
    memmove(digits, at, strlen(at) + 1);
}

static void print_decimal(printer *p, const hr_array *a, int64_t i)
{
    int n = hr__type_bytes(a->type) / 4, scale = a->type->scale, n_digits;
    const uint8_t *from = hr__array_values(a) + i * n * 4;
    uint64_t word;
    uint32_t limbs[8] = { 0 };
    char digits[80];
    bool negative;

    for (int k = 0; k < n; k += 2) { /* words of 64 bits in the machine's order, the lowest first */
        memcpy(&word, from + 4 * k, sizeof word);
        limbs[k] = (uint32_t)word;
        limbs[k + 1] = (uint32_t)(word >> 32);
    }
    negative = limbs[n - 1] >> 31;
    for (int k = 0, carry = 1; negative && k < n; k++) {
        limbs[k] = ~limbs[k] + (uint32_t)carry;
        carry = carry && limbs[k] == 0;
    }
    decimal_digits(limbs, n, digits, sizeof digits);
    n_digits = (int)strlen(digits);
    hr__text_add(p->out, negative ? "-" : "");
    if (scale < 0)
        hr__text_add(p->out, "%sE+%d", digits, -scale);
    else if (scale == 0)
        hr__text_add(p->out, "%s", digits);
    else if (n_digits > scale)
        hr__text_add(p->out, "%.*s.%s", n_digits - scale, digits, digits + n_digits - scale);
    else
        hr__text_add(p->out, "0.%.*s%s", scale - n_digits,
                     "0000000000000000000000000000000000000000000000000000000000000000000000000000", digits);
}

/* ------------------------------------------------------------------------------------------------------------ times */

/* The day `days` after 1970-01-01 in the Gregorian calendar (H. Hinnant, chrono-compatible low-level date
 * algorithms). */
static void print_day(printer *p, int64_t days)
{
    int64_t z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t day_of_era = z - era * 146097;
    int64_t year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153, day = day_of_year - (153 * month + 2) / 5 + 1;
    int64_t year = year_of_era + era * 400 + (month >= 10);

    hr__text_add(p->out, "%04lld-%02lld-%02lld", (long long)year, (long long)(month < 10 ? month + 3 : month - 9),
                 (long long)day);
}

static const int64_t unit_a_second[] = { 1, 1000, 1000000, 1000000000 };

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
static int64_t floor_rest(int64_t a, int64_t b) { return a % b + (a % b < 0 ? b : 0); }

static void print_clock(printer *p, int64_t v, hr_unit unit)
{
    int64_t seconds = floor_div(v, unit_a_second[unit]), rest = floor_rest(v, unit_a_second[unit]);

    hr__text_add(p->out, "%02lld:%02lld:%02lld", (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                 (long long)(seconds % 60));
    if (unit != HR_SECOND)
        hr__text_add(p->out, ".%0*lld", 3 * (int)unit, (long long)rest);
}

static void print_time(printer *p, const hr_array *a, int64_t i)
{
    static const char *const units[] = { "s", "ms", "us", "ns" };
    int64_t v = hr__array_int(a, i), day_units = 86400 * unit_a_second[a->type->unit];

    switch (a->type->id) {
    case HR_T_DATE32: print_day(p, v); return;
    case HR_T_DATE64: print_day(p, floor_div(v, 86400000)); return;
    case HR_T_DURATION: hr__text_add(p->out, "%lld%s", (long long)v, units[a->type->unit]); return;
    case HR_T_TIMESTAMP:
        print_day(p, floor_div(v, day_units));
        hr__text_add(p->out, " ");
        print_clock(p, floor_rest(v, day_units), a->type->unit);
        hr__text_add(p->out, a->type->zone ? "Z" : "");
        return;
    default: print_clock(p, v, a->type->unit); return;
    }
}

/* "14M", "3D 5ms", "1M 3D 5ns": units do not convert into each other. */
static void print_interval(printer *p, const hr_array *a, int64_t i)
{
    const uint8_t *at = hr__array_values(a) + i * hr__type_bytes(a->type);
    int32_t part[2] = { 0 };
    int64_t ns = 0;

    memcpy(part, at, (size_t)HR_MIN(hr__type_bytes(a->type), 8));
    if (a->type->id == HR_T_MONTH_DAY_NANO)
        memcpy(&ns, at + 8, 8);
    if (a->type->id == HR_T_MONTHS)
        hr__text_add(p->out, "%dM", (int)part[0]);
    else if (a->type->id == HR_T_DAY_TIME)
        hr__text_add(p->out, "%dD %dms", (int)part[0], (int)part[1]);
    else
        hr__text_add(p->out, "%dM %dD %lldns", (int)part[0], (int)part[1], (long long)ns);
}

/* ------------------------------------------------------------------------------------------------------------ bytes */

/* The bytes of the printable character at s; 0: none. */
static int64_t plain_bytes(const uint8_t *s, int64_t n, bool as_text)
{
    int64_t length = s[0] < 0x80 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;

    if (length == 1)
        return s[0] >= 0x20 && s[0] != 0x7F;
    return as_text && length <= n && hr__utf8_valid(s, length) ? length : 0;
}

static void print_bytes(printer *p, const uint8_t *s, int64_t n, bool as_text, bool quoted)
{
    static const char special[] = "\n\t\r\\", names[] = "ntr\\";

    hr__text_add(p->out, quoted ? "\"" : "");
    for (int64_t i = 0; i < n && !is_full(p);) {
        const char *at = s[i] ? strchr(special, s[i]) : NULL;
        int64_t plain = plain_bytes(s + i, n - i, as_text);

        if (at && (quoted || s[i] != '\\'))
            hr__text_add(p->out, "\\%c", names[at - special]);
        else if (quoted && s[i] == '"')
            hr__text_add(p->out, "\\\"");
        else if (plain)
            hr__text_add_bytes(p->out, s + i, plain);
        else
            hr__text_add(p->out, "\\x%02x", s[i]);
        i += plain ? plain : 1;
    }
    hr__text_add(p->out, quoted ? "\"" : "");
}

/* ----------------------------------------------------------------------------------------------------------- nested */

static void print_value(printer *p, const hr_array *a, int64_t i, bool inside);

/* Prints values [begin, begin + n) in brackets; shape: their dimensions, outermost first. */
static void print_items(printer *p, const hr_array *values, int64_t begin, int64_t n, const int64_t *shape, int n_dims)
{
    int64_t n_items = n_dims > 1 ? shape[0] : n, n_each = n_dims > 1 && n_items ? n / n_items : 1;

    hr__text_add(p->out, "[");
    for (int64_t k = 0; k < n_items; k++) {
        hr__text_add(p->out, k ? ", " : "");
        if (is_full(p)) {
            hr__text_add(p->out, "...");
            break;
        }
        if (n_dims > 1)
            print_items(p, values, begin + k * n_each, n_each, shape + 1, n_dims - 1);
        else
            print_value(p, values, begin + k, true);
    }
    hr__text_add(p->out, "]");
}

static void print_struct(printer *p, const hr_array *a, int64_t i)
{
    hr__text_add(p->out, "{");
    for (int k = 0; k < a->n_children && !is_full(p); k++) {
        hr__text_add(p->out, "%s%s: ", k ? ", " : "", a->type->children[k].name);
        print_value(p, a->children[k], a->offset + i, true);
    }
    hr__text_add(p->out, "}");
}

static void print_map(printer *p, const hr_array *a, int64_t i)
{
    const hr_array *entries = a->children[0];
    int64_t begin = 0, n = 0;

    hr__array_range(a, i, &begin, &n);
    hr__text_add(p->out, "{");
    for (int64_t k = 0; k < n && !is_full(p); k++) {
        hr__text_add(p->out, k ? ", " : "");
        print_value(p, entries->children[0], entries->offset + begin + k, true);
        hr__text_add(p->out, ": ");
        print_value(p, entries->children[1], entries->offset + begin + k, true);
    }
    hr__text_add(p->out, "}");
}

static void print_nested(printer *p, const hr_array *a, int64_t i)
{
    int64_t begin = 0, n = 0;

    if (a->type->id == HR_T_STRUCT) {
        print_struct(p, a, i);
    } else if (a->type->id == HR_T_MAP) {
        print_map(p, a, i);
    } else {
        hr__array_range(a, i, &begin, &n);
        print_items(p, a->children[0], begin, n, a->type->shape, a->type->n_dims);
    }
}

static void print_value(printer *p, const hr_array *a, int64_t i, bool inside)
{
    int64_t n = 0;
    const uint8_t *s;

    if (hr__array_is_null(a, i)) {
        hr__text_add(p->out, "null");
        return;
    }
    switch (a->type->id) {
    case HR_T_NULL: return; /* not reached */
    case HR_T_BOOL: hr__text_add(p->out, hr__bit(a->buffers[1]->data, a->offset + i) ? "true" : "false"); return;
    case HR_T_INT8:
    case HR_T_INT16:
    case HR_T_INT32:
    case HR_T_INT64: hr__text_add(p->out, "%lld", (long long)hr__array_int(a, i)); return;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: print_unsigned(p, a, i); return;
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: print_float(p, a, i); return;
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY:
        s = hr__array_bytes(a, i, &n);
        print_bytes(p, s, n, a->type->id == HR_T_STRING || a->type->id == HR_T_LARGE_STRING, inside);
        return;
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: print_decimal(p, a, i); return;
    case HR_T_MONTHS:
    case HR_T_DAY_TIME:
    case HR_T_MONTH_DAY_NANO: print_interval(p, a, i); return;
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_STRUCT:
    case HR_T_MAP:
    case HR_T_TENSOR: print_nested(p, a, i); return;
    default: print_time(p, a, i); return;
    }
}

void hr__array_print_some(const hr_array *a, int64_t row, int64_t max_bytes, hr_text *out)
{
    printer p = { out, out->n > INT64_MAX - max_bytes ? INT64_MAX : out->n + max_bytes };

    print_value(&p, a, row, false);
}

void hr__array_print_value(const hr_array *a, int64_t row, hr_text *out)
{
    hr__array_print_some(a, row, INT64_MAX, out);
}
