/* cast_text.c - casts of numbers, booleans, dates and times from and to text.
 *
 * The text is the whole value, without blanks around it; base/number.h defines the text of numbers and times. Booleans
 * are true and false (in any case) or 1 and 0. A time with a zone fits only a type with a zone; a time without one
 * counts as UTC there.
 *
 * Tests: test_eval.c. */
#include "base/number.h"
#include "expr/fn.h"

#include <inttypes.h>
#include <strings.h>

/* -------------------------------------------------------------------------------------------------------- from text */

/* Stores the value of the text at `out`; false: the text is no such value. */
typedef bool parse_fn(const hr_type *t, const uint8_t *p, int64_t n, void *out);

#define HR_SIGNED(name, T, least, most)                                                                                \
    static bool parse_##name(const hr_type *t, const uint8_t *p, int64_t n, void *out)                                 \
    {                                                                                                                  \
        int64_t v = 0;                                                                                                 \
                                                                                                                       \
        (void)t;                                                                                                       \
        if (!hr__parse_int64(p, n, &v) || v < (least) || v > (most))                                                   \
            return false;                                                                                              \
        *(T *)out = (T)v;                                                                                              \
        return true;                                                                                                   \
    }
#define HR_UNSIGNED(name, T, most)                                                                                     \
    static bool parse_##name(const hr_type *t, const uint8_t *p, int64_t n, void *out)                                 \
    {                                                                                                                  \
        uint64_t v = 0;                                                                                                \
                                                                                                                       \
        (void)t;                                                                                                       \
        if (!hr__parse_uint64(p, n, &v) || v > (most))                                                                 \
            return false;                                                                                              \
        *(T *)out = (T)v;                                                                                              \
        return true;                                                                                                   \
    }
HR_SIGNED(i8, int8_t, INT8_MIN, INT8_MAX)
HR_SIGNED(i16, int16_t, INT16_MIN, INT16_MAX)
HR_SIGNED(i32, int32_t, INT32_MIN, INT32_MAX)
HR_SIGNED(i64, int64_t, INT64_MIN, INT64_MAX)
HR_UNSIGNED(u8, uint8_t, UINT8_MAX)
HR_UNSIGNED(u16, uint16_t, UINT16_MAX)
HR_UNSIGNED(u32, uint32_t, UINT32_MAX)
HR_UNSIGNED(u64, uint64_t, UINT64_MAX)

static bool parse_f16(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    double v;

    (void)t;
    if (!hr__parse_double(p, n, true, &v))
        return false;
    *(uint16_t *)out = hr__half_of(v);
    return true;
}

static bool parse_f32(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    (void)t;
    return hr__parse_float(p, n, true, out);
}

static bool parse_f64(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    (void)t;
    return hr__parse_double(p, n, true, out);
}

/* A byte, 0 or 1. */
static bool parse_bool(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    static const char *const words[] = { "false", "true", "0", "1" };

    (void)t;
    for (int i = 0; i < HR_LEN(words); i++)
        if (n == (int64_t)strlen(words[i]) && !strncasecmp((const char *)p, words[i], (size_t)n)) {
            *(uint8_t *)out = i & 1;
            return true;
        }
    return false;
}

static bool parse_date32(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    (void)t;
    return hr__parse_date(p, n, out);
}

static bool parse_date64(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    int32_t days = 0;

    (void)t;
    if (!hr__parse_date(p, n, &days))
        return false;
    *(int64_t *)out = (int64_t)days * 86400000;
    return true;
}

static bool parse_timestamp(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    int zone = 0;

    return hr__parse_timestamp(p, n, t->unit, out, &zone) && (!zone || t->zone);
}

static bool parse_time(const hr_type *t, const uint8_t *p, int64_t n, void *out)
{
    int64_t v = 0;

    if (!hr__parse_time(p, n, t->unit, &v))
        return false;
    if (t->id == HR_T_TIME32)
        *(int32_t *)out = (int32_t)v;
    else
        *(int64_t *)out = v;
    return true;
}

static parse_fn *parser_of(const hr_type *t)
{
    static parse_fn *const parsers[HR_N_TYPES] = {
        [HR_T_BOOL] = parse_bool,     [HR_T_INT8] = parse_i8,       [HR_T_UINT8] = parse_u8,
        [HR_T_INT16] = parse_i16,     [HR_T_UINT16] = parse_u16,    [HR_T_INT32] = parse_i32,
        [HR_T_UINT32] = parse_u32,    [HR_T_INT64] = parse_i64,     [HR_T_UINT64] = parse_u64,
        [HR_T_FLOAT16] = parse_f16,   [HR_T_FLOAT32] = parse_f32,   [HR_T_FLOAT64] = parse_f64,
        [HR_T_DATE32] = parse_date32, [HR_T_DATE64] = parse_date64, [HR_T_TIMESTAMP] = parse_timestamp,
        [HR_T_TIME32] = parse_time,   [HR_T_TIME64] = parse_time,
    };

    return parsers[t->id];
}

bool hr__cast_parses(const hr_type *to) { return parser_of(to); }

/* The parsers may read after the text: a text at the end of a foreign buffer (without slack) is copied first. */
static const uint8_t *with_slack(const hr_array *a, const uint8_t *p, int64_t n, uint8_t *copy, int64_t cap)
{
    const hr_buffer *b = a->buffers[2];

    if (p + n + HR_SLACK <= b->data + b->n_bytes || n + HR_SLACK > cap)
        return p;
    if (n)
        memcpy(copy, p, (size_t)n);
    memset(copy + n, 0, HR_SLACK);
    return copy;
}

enum { LONGEST = 448 }; /* no number or time is longer, except by zeros */

hr_status hr__cast_from_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                             hr_buffer **validity, hr_buffer **out, hr_error *err)
{
    const bool is_bool = call->type->id == HR_T_BOOL;
    const int bytes = is_bool ? 1 : hr__type_bytes(call->type);
    parse_fn *parse = parser_of(call->type);
    uint8_t *values, copy[LONGEST + HR_SLACK];
    hr_buffer *made = NULL;
    bool own = false;
    hr_status st = HR_OK;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    values = made->data;
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n;
        const uint8_t *p;

        memset(values + i * bytes, 0, (size_t)bytes);
        if (!hr__is_valid(*validity, i))
            continue;
        p = hr__array_bytes(a, i, &n);
        if (n <= LONGEST && parse(call->type, with_slack(a, p, n, copy, sizeof copy), n, values + i * bytes))
            continue;
        if (safe)
            HR_GO(hr__cast_refuse(call, how, a, i, err));
        if (!own)
            HR_GO(hr__own_validity(how, validity, err));
        own = true;
        hr__bit_clear((*validity)->data, i);
    }
    if (is_bool) {
        HR_GO(hr__eval_bits(how, how->n_rows, out, err));
        hr__pack_bits(values, how->n_rows, (*out)->data);
    } else {
        *out = made;
        made = NULL; /* moved */
    }
done:
    hr__buffer_unref(made);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- to text */

/* The text of row i; `out` has room for HR_NUMBER_CHARS. -> bytes; -1: use hr__array_print_value */
static int print_at(const hr_array *a, int64_t i, char *out)
{
    const uint8_t *p = a->type->id == HR_T_BOOL ? NULL : hr__array_values(a) + i * hr__type_bytes(a->type);
    float f;
    double d;
    int32_t v32;
    int64_t v64;
    uint64_t u64;

    switch (a->type->id) {
    case HR_T_BOOL:
        return hr__bit(a->buffers[1]->data, a->offset + i) ? (memcpy(out, "true", 4), 4) : (memcpy(out, "false", 5), 5);
    case HR_T_INT8: return hr__print_int64(*(const int8_t *)p, out);
    case HR_T_UINT8: return hr__print_int64(*p, out);
    case HR_T_INT16: return hr__print_int64(*(const int16_t *)(const void *)p, out);
    case HR_T_UINT16: return hr__print_int64(*(const uint16_t *)(const void *)p, out);
    case HR_T_INT32: memcpy(&v32, p, 4); return hr__print_int64(v32, out);
    case HR_T_UINT32: memcpy(&v32, p, 4); return hr__print_int64((uint32_t)v32, out);
    case HR_T_INT64: memcpy(&v64, p, 8); return hr__print_int64(v64, out);
    case HR_T_UINT64: memcpy(&u64, p, 8); return hr__print_uint64(u64, out);
    case HR_T_FLOAT32: memcpy(&f, p, 4); return hr__print_float(f, out);
    case HR_T_FLOAT64: memcpy(&d, p, 8); return hr__print_double(d, out);
    case HR_T_DATE32: memcpy(&v32, p, 4); return hr__print_date(v32, out);
    case HR_T_TIMESTAMP: memcpy(&v64, p, 8); return hr__print_timestamp(v64, a->type->unit, a->type->zone, out);
    default: return -1;
    }
}

bool hr__cast_prints(const hr_type *from)
{
    return from->id == HR_T_BOOL || hr__type_is_number(from) || hr__type_is_decimal(from) || from->id == HR_T_DATE32 ||
           from->id == HR_T_DATE64 || from->id == HR_T_TIMESTAMP || from->id == HR_T_TIME32 || from->id == HR_T_TIME64;
}

hr_status hr__cast_to_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const hr_buffer *validity,
                           hr_buffer **offsets, hr_buffer **bytes, hr_error *err)
{
    const bool wide = hr__type_offset_bytes(call->type) == 8;
    hr_growbuf text = { .mem = how->mem };
    hr_text slow = { 0 };
    char small[HR_NUMBER_CHARS];
    hr_status st = HR_OK;
    int64_t at = 0;

    HR_GO(hr__buffer_new(how->mem, (how->n_rows + 1) * (wide ? 8 : 4), offsets, err));
    for (int64_t i = 0; i <= how->n_rows; i++) {
        const char *p = small;
        int64_t n = 0;

        if (at > INT32_MAX && !wide)
            HR_FAIL(HR_UNSUPPORTED,
                    "cast: the result has more than 2 GiB of text, the limit of a column with 32-bit offsets");
        if (wide)
            ((int64_t *)(void *)(*offsets)->data)[i] = at;
        else
            ((int32_t *)(void *)(*offsets)->data)[i] = (int32_t)at;
        if (i == how->n_rows || !hr__is_valid(validity, i))
            continue;
        if ((n = print_at(a, i, small)) < 0) {
            slow.n = 0;
            hr__array_print_value(a, i, &slow);
            if (slow.failed)
                HR_GO(hr__error_memory(err, "cast", slow.n));
            p = slow.data;
            n = slow.n;
        }
        HR_GO(hr__growbuf_add(&text, p, n, err));
        at += n;
    }
    HR_GO(hr__growbuf_finish(&text, bytes, err));
done:
    hr__text_clear(&slow);
    hr__growbuf_clear(&text);
    return st;
}
