/* print.c - values as text, for people: `headrace head`, messages, tests.
 *
 * A value on its own is plain (a string without quotes); inside lists and structs it is JSON-like. Numbers and times
 * are as the writers of text put them into files: as few digits as read back as the same value, ISO 8601 in UTC with a
 * Z if the type has a zone. A duration has its unit. Bytes that are no printable text become \xHH, so that a value is
 * always one line. A limit ends the text early: a value may be an image, and no reader needs its second thousand bytes.
 *
 * Tests: test_array.c, test_json.c. */
#include "base/number.h"
#include "data/data.h"

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

int hr__array_print_float(const hr_array *a, int64_t row, char *out)
{
    const uint8_t *at = hr__array_values(a) + row * hr__type_bytes(a->type);
    uint16_t half;
    float single;
    double v;

    switch (a->type->id) {
    case HR_T_FLOAT16: memcpy(&half, at, 2); return hr__print_half(half, out);
    case HR_T_FLOAT32: memcpy(&single, at, 4); return hr__print_float(single, out);
    default: memcpy(&v, at, 8); return hr__print_double(v, out);
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

/* As the writers of text put them into files: "2024-02-29T12:30:00.5Z". */
static void print_time(printer *p, const hr_array *a, int64_t i)
{
    static const char *const units[] = { "s", "ms", "us", "ns" };
    int64_t v = hr__array_int(a, i);
    char text[HR_NUMBER_CHARS];
    int n;

    switch (a->type->id) {
    case HR_T_DATE32: n = hr__print_date((int32_t)v, text); break;
    case HR_T_DATE64: n = hr__print_date((int32_t)(v / 86400000 - (v % 86400000 < 0)), text); break;
    case HR_T_TIMESTAMP: n = hr__print_timestamp(v, a->type->unit, a->type->zone, text); break;
    case HR_T_DURATION: hr__text_add(p->out, "%lld%s", (long long)v, units[a->type->unit]); return;
    default: n = hr__print_time(v, a->type->unit, text); break;
    }
    hr__text_add_bytes(p->out, text, n);
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
    char text[HR_NUMBER_CHARS];
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
    case HR_T_FLOAT64: hr__text_add_bytes(p->out, text, hr__array_print_float(a, i, text)); return;
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
