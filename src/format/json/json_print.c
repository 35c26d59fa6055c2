/* json_print.c - rows as JSON lines, for programs: hr_table_print_json.
 *
 * Values that JSON cannot express: NaN and infinities are null, bytes are base64, times and decimals are strings, a map
 * is a list of {"key", "value"}. The result is valid UTF-8 for any bytes of a text. (json_write.c writes files.)
 *
 * Tests: test_json.c, test_cli.py. */
#include "data/data.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Bytes of the valid UTF-8 character at s[0 .. n), 0 if there is none. */
static int character_bytes(const uint8_t *s, int64_t n)
{
    int bytes = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    return bytes <= n && hr__utf8_valid(s, bytes) ? bytes : 0;
}

static void json_value(const hr_array *a, int64_t i, hr_text *out);

/* The shortest of the texts that read back as the same value. */
static void json_number(double v, bool is_float32, hr_text *out)
{
    int most = is_float32 ? 9 : 17;
    char text[40];

    if (!isfinite(v)) {
        hr__text_add(out, "null");
        return;
    }
    for (int digits = is_float32 ? 6 : 15; digits <= most; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (is_float32 ? strtof(text, NULL) == (float)v : strtod(text, NULL) == v)
            break;
    }
    hr__text_add(out, "%s", text);
}

static double half_value(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double v = exponent == 31  ? (fraction ? NAN : INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);

    return bits & 0x8000 ? -v : v;
}

/* hr__text_add_json() takes no NUL bytes; values may have them. */
static void json_string(const uint8_t *s, int64_t n, hr_text *out)
{
    hr__text_add(out, "\"");
    for (int64_t i = 0; i < n;) {
        int bytes = character_bytes(s + i, n - i);

        if (!bytes)
            hr__text_add(out, "\\ufffd");
        else if (s[i] < 0x20 || s[i] == 0x7f)
            hr__text_add(out, "\\u%04x", s[i]);
        else if (s[i] == '"' || s[i] == '\\')
            hr__text_add(out, "\\%c", s[i]);
        else
            hr__text_add_bytes(out, s + i, bytes);
        i += HR_MAX(bytes, 1);
    }
    hr__text_add(out, "\"");
}

/* As `headrace head` prints it, between quotes. */
static void json_printed(const hr_array *a, int64_t i, hr_text *out)
{
    hr_text text = { 0 };

    hr__array_print_value(a, i, &text);
    out->failed = out->failed || text.failed;
    hr__text_add_json(out, text.data ? text.data : "");
    hr__text_clear(&text);
}

static void json_list(const hr_array *values, int64_t begin, int64_t n, hr_text *out)
{
    hr__text_add(out, "[");
    for (int64_t j = begin; j < begin + n && !out->failed; j++) {
        if (j > begin)
            hr__text_add(out, ",");
        json_value(values, j, out);
    }
    hr__text_add(out, "]");
}

/* One list per dimension; `begin` moves forward by the values used. */
static void json_tensor(const hr_type *type, int dim, const hr_array *values, int64_t *begin, hr_text *out)
{
    int64_t n = type->shape[dim];

    if (dim + 1 >= type->n_dims) {
        json_list(values, *begin, n, out);
        *begin += n;
        return;
    }
    hr__text_add(out, "[");
    for (int64_t j = 0; j < n && !out->failed; j++) {
        if (j)
            hr__text_add(out, ",");
        json_tensor(type, dim + 1, values, begin, out);
    }
    hr__text_add(out, "]");
}

static void json_struct(const hr_array *a, int64_t i, hr_text *out)
{
    hr__text_add(out, "{");
    for (int c = 0; c < a->n_children; c++) {
        if (c)
            hr__text_add(out, ",");
        hr__text_add_json(out, a->type->children[c].name);
        hr__text_add(out, ":");
        json_value(a->children[c], a->offset + i, out);
    }
    hr__text_add(out, "}");
}

static void json_fixed(const hr_array *a, int64_t i, hr_text *out)
{
    const uint8_t *at = hr__array_values(a) + i * hr__type_bytes(a->type);
    union {
        int8_t i8;
        uint8_t u8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
        uint64_t u64;
        float f32;
        double f64;
    } v;

    memcpy(&v, at, (size_t)hr__type_bytes(a->type));
    switch (a->type->id) {
    case HR_T_INT8: hr__text_add(out, "%d", v.i8); break;
    case HR_T_UINT8: hr__text_add(out, "%u", v.u8); break;
    case HR_T_INT16: hr__text_add(out, "%d", v.i16); break;
    case HR_T_UINT16: hr__text_add(out, "%u", v.u16); break;
    case HR_T_INT32: hr__text_add(out, "%" PRId32, v.i32); break;
    case HR_T_UINT32: hr__text_add(out, "%" PRIu32, v.u32); break;
    case HR_T_INT64: hr__text_add(out, "%" PRId64, v.i64); break;
    case HR_T_UINT64: hr__text_add(out, "%" PRIu64, v.u64); break;
    case HR_T_FLOAT16: json_number(half_value(v.u16), true, out); break;
    case HR_T_FLOAT32: json_number(v.f32, true, out); break;
    default: json_number(v.f64, false, out); break;
    }
}

static void json_value(const hr_array *a, int64_t i, hr_text *out)
{
    const uint8_t *bytes;
    int64_t begin, n;

    if (hr__array_is_null(a, i)) {
        hr__text_add(out, "null");
        return;
    }
    switch (a->type->id) {
    case HR_T_BOOL: hr__text_add(out, hr__bit(a->buffers[1]->data, a->offset + i) ? "true" : "false"); break;
    case HR_T_INT8:
    case HR_T_UINT8:
    case HR_T_INT16:
    case HR_T_UINT16:
    case HR_T_INT32:
    case HR_T_UINT32:
    case HR_T_INT64:
    case HR_T_UINT64:
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: json_fixed(a, i, out); break;
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
        bytes = hr__array_bytes(a, i, &n);
        json_string(bytes, n, out);
        break;
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY:
        bytes = hr__array_bytes(a, i, &n);
        hr__text_add(out, "\"");
        hr__text_add_base64(out, bytes, n);
        hr__text_add(out, "\"");
        break;
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_MAP:
        hr__array_range(a, i, &begin, &n);
        json_list(a->children[0], begin, n, out);
        break;
    case HR_T_TENSOR:
        hr__array_range(a, i, &begin, &n);
        json_tensor(a->type, 0, a->children[0], &begin, out);
        break;
    case HR_T_STRUCT: json_struct(a, i, out); break;
    default: json_printed(a, i, out); break;
    }
}

hr_status hr_table_print_json(const hr_table *t, int64_t begin, int64_t n, char **out, hr_error *err)
{
    HR_NEED(t, out);

    hr_text text = { 0 };

    *out = NULL;
    if (begin < 0 || n < 0 || begin > t->n_rows - n)
        return hr_error_set(err, HR_INVALID, "rows %" PRId64 " to %" PRId64 " of a table of %" PRId64, begin, begin + n,
                            t->n_rows);
    hr__text_add_bytes(&text, "", 0);
    for (int64_t row = begin; row < begin + n && !text.failed; row++) {
        hr__text_add(&text, "{");
        for (int c = 0; c < t->schema->n; c++) {
            if (c)
                hr__text_add(&text, ",");
            hr__text_add_json(&text, t->schema->fields[c].name);
            hr__text_add(&text, ":");
            json_value(t->columns[c], row, &text);
        }
        hr__text_add(&text, "}\n");
    }
    if (text.failed) {
        hr__text_clear(&text);
        return hr__error_memory(err, "JSON lines", text.n);
    }
    *out = text.data;
    return HR_OK;
}
