/* show.c - rows as text: an aligned table for people, JSON lines for programs.
 *
 * Files are not trusted: whatever bytes a cell holds, the table prints one line a row, no control characters and
 * nothing but valid UTF-8. Both forms append to a hr_text, which remembers by itself when memory ran out. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------------ table */

static bool is_number(const hr_type *t)
{
    return (t->id >= HR_T_INT8 && t->id <= HR_T_FLOAT64) || t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256;
}

/* Bytes of the valid UTF-8 character at s[0 .. n), 0 if there is none. */
static int character_bytes(const uint8_t *s, int64_t n)
{
    int bytes = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    return bytes <= n && hr__utf8_valid(s, bytes) ? bytes : 0;
}

/* U+0000 to U+001F and U+007F to U+009F. */
static bool is_control(const uint8_t *s) { return s[0] < 0x20 || s[0] == 0x7f || (s[0] == 0xc2 && s[1] < 0xa0); }

/* Appends what may be shown of `s`, at most `width` characters (0: all). Returns their number. */
static int add_cell(hr_text *out, const char *s, int64_t n, int width)
{
    int64_t last = 0; /* where the last character that fits begins, in *out */
    int n_chars = 0;

    for (int64_t i = 0; i < n; n_chars++) {
        const uint8_t *at = (const uint8_t *)s + i;
        int bytes = character_bytes(at, n - i);

        if (width && n_chars == width) { /* one too many: the last gives its place away */
            out->n = last;
            hr__text_add(out, "\u2026");
            return n_chars;
        }
        last = out->n;
        if (bytes && !is_control(at))
            hr__text_add_bytes(out, at, bytes);
        else
            hr__text_add(out, "%c", *at == '\n' || *at == '\t' ? ' ' : '?');
        i += HR_MAX(bytes, 1);
    }
    return n_chars;
}

/* Puts the value's text, cut and clean, into g->cell. Returns its characters. */
static int print_cell(hr_grid *g, const hr_array *a, int64_t row)
{
    g->raw.n = g->cell.n = 0;
    hr__array_print_some(a, row, g->width ? 4 * (int64_t)g->width + 8 : INT64_MAX, &g->raw);
    g->cell.failed = g->cell.failed || g->raw.failed;
    return add_cell(&g->cell, g->raw.data, g->raw.n, g->width);
}

static int print_name(hr_grid *g, const hr_field *f)
{
    g->cell.n = 0;
    return add_cell(&g->cell, f->name, (int64_t)strlen(f->name), g->width);
}

static void put_cell(hr_grid *g, int column, int n_columns, int n_chars, bool right, hr_text *out)
{
    bool last = column == n_columns - 1;
    int pad = HR_MAX(g->widths[column] - n_chars, 0);

    if (column)
        hr__text_add(out, "  ");
    if (right)
        hr__text_add(out, "%*s", pad, "");
    if (g->cell.n)
        hr__text_add_bytes(out, g->cell.data, g->cell.n);
    if (!right && !last)
        hr__text_add(out, "%*s", pad, "");
    if (last)
        hr__text_add(out, "\n");
    out->failed = out->failed || g->cell.failed;
}

hr_status hr__grid_init(hr_grid *g, const hr_schema *s, int width, hr_error *err)
{
    g->width = width;
    g->widths = hr__zalloc(NULL, sizeof *g->widths * (size_t)HR_MAX(s->n, 1));
    if (!g->widths)
        return hr__error_memory(err, "table", (int64_t)sizeof *g->widths * s->n);
    for (int c = 0; c < s->n; c++)
        g->widths[c] = print_name(g, &s->fields[c]);
    return HR_OK;
}

void hr__grid_clear(hr_grid *g)
{
    hr__text_clear(&g->raw);
    hr__text_clear(&g->cell);
    hr__free(g->widths);
    *g = (hr_grid){ 0 };
}

void hr__grid_fit(hr_grid *g, const hr_table *t)
{
    for (int c = 0; c < t->schema->n; c++)
        for (int64_t row = 0; row < t->n_rows; row++)
            g->widths[c] = HR_MAX(g->widths[c], print_cell(g, t->columns[c], row));
}

void hr__grid_head(hr_grid *g, const hr_schema *s, hr_text *out)
{
    for (int c = 0; c < s->n; c++)
        put_cell(g, c, s->n, print_name(g, &s->fields[c]), is_number(s->fields[c].type), out);
}

void hr__grid_rows(hr_grid *g, const hr_table *t, hr_text *out)
{
    for (int64_t row = 0; row < t->n_rows && !out->failed; row++)
        for (int c = 0; c < t->schema->n; c++)
            put_cell(g, c, t->schema->n, print_cell(g, t->columns[c], row), is_number(t->columns[c]->type), out);
}

/* ------------------------------------------------------------------------------------------------------------- JSON */

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

static void json_base64(const uint8_t *data, int64_t n, hr_text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    hr__text_add(out, "\"");
    for (int64_t i = 0; i < n; i += 3) {
        uint32_t bits =
            (uint32_t)data[i] << 16 | (i + 1 < n ? (uint32_t)data[i + 1] << 8 : 0) | (i + 2 < n ? data[i + 2] : 0u);
        char four[4] = { digits[bits >> 18], digits[bits >> 12 & 63], i + 1 < n ? digits[bits >> 6 & 63] : '=',
                         i + 2 < n ? digits[bits & 63] : '=' };

        hr__text_add_bytes(out, four, 4);
    }
    hr__text_add(out, "\"");
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

/* One list a dimension; `begin` moves on by the values used. */
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
        json_base64(bytes, n, out);
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

void hr__show_json(const hr_table *t, hr_text *out)
{
    for (int64_t row = 0; row < t->n_rows && !out->failed; row++) {
        hr__text_add(out, "{");
        for (int c = 0; c < t->schema->n; c++) {
            if (c)
                hr__text_add(out, ",");
            hr__text_add_json(out, t->schema->fields[c].name);
            hr__text_add(out, ":");
            json_value(t->columns[c], row, out);
        }
        hr__text_add(out, "}\n");
    }
}
