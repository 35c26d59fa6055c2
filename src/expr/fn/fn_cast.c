/* fn_cast.c - casts to another type, and the common type of operands of different types.
 *
 * A cast is safe by default: a value that does not fit is an error that names the row and the value. With safe=false
 * integers keep their low bits, values without any equivalent (NaN or 1e300 as an integer, a text that is no number)
 * become null, and times are cut to their unit. Integers always become the nearest float, doubles the nearest float32.
 *
 * A bound cast is a short list of steps over machine types. One loop for each pair of types converts numbers, a second
 * one detects that some value did not fit; only then a third one finds which, and whether it was valid.
 *
 * Tests: test_eval.c. */
#include "expr/fn.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define NUMBERS(X)                                                                                                     \
    X(i8, int8_t)                                                                                                      \
    X(u8, uint8_t)                                                                                                     \
    X(i16, int16_t)                                                                                                    \
    X(u16, uint16_t)                                                                                                   \
    X(i32, int32_t)                                                                                                    \
    X(u32, uint32_t)                                                                                                   \
    X(i64, int64_t)                                                                                                    \
    X(u64, uint64_t)                                                                                                   \
    X(f32, float)                                                                                                      \
    X(f64, double)

enum number {
#define HR_X(name, T) N_##name,
    NUMBERS(HR_X)
#undef HR_X
        N_NUMBERS
};

typedef enum cast_kind {
    CAST_NOTHING, /* the same bytes under another type */
    CAST_NULL,    /* from null */
    CAST_NUMBER,  /* by a loop of `from` and `to` */
    CAST_TO_BOOL,
    CAST_FROM_BOOL,
    CAST_TO_HALF,
    CAST_FROM_HALF, /* through double */
    CAST_BYTES,     /* string, binary and their large ones */
    CAST_SCALE,     /* times: multiplied by `mul` or divided by `div`, from and to 4 or 8 bytes */
    CAST_TO_DECIMAL,
    CAST_FROM_DECIMAL, /* to integers and floats */
    CAST_PARSE,
    CAST_PRINT,
} cast_kind;

typedef struct cast_state {
    cast_kind kind;
    enum number from, to;
    bool safe;
    bool check_utf8;
    int64_t mul, div;
    bool floors; /* cutting a part of a day is no error */
} cast_state;

/* ---------------------------------------------------------------------------------------------------------- numbers */

/* Unsigned arithmetic is modulo 2^n, and conversion to a signed type keeps the bits. Conversion of a float out of range
 * would be undefined. */
#define LOW_i8 -128.0
#define LOW_u8 0.0
#define LOW_i16 -32768.0
#define LOW_u16 0.0
#define LOW_i32 -2147483648.0
#define LOW_u32 0.0
#define LOW_i64 -9223372036854775808.0
#define LOW_u64 0.0
#define LOW_f32 -INFINITY
#define LOW_f64 -INFINITY
#define END_i8 128.0
#define END_u8 256.0
#define END_i16 32768.0
#define END_u16 65536.0
#define END_i32 2147483648.0
#define END_u32 4294967296.0
#define END_i64 9223372036854775808.0
#define END_u64 18446744073709551616.0
#define END_f32 INFINITY
#define END_f64 INFINITY
#define IS_FLOAT_i8 0
#define IS_FLOAT_u8 0
#define IS_FLOAT_i16 0
#define IS_FLOAT_u16 0
#define IS_FLOAT_i32 0
#define IS_FLOAT_u32 0
#define IS_FLOAT_i64 0
#define IS_FLOAT_u64 0
#define IS_FLOAT_f32 1
#define IS_FLOAT_f64 1

/* The integer type holds the value: it is whole and in range. */
#define FITS_FLOAT(v, A, b, B) ((double)(v) >= LOW_##b && (double)(v) < END_##b && (A)(B)(v) == (v))
/* The truncated value is in range, as an unsafe cast needs. (The least int64 minus 1 is the least int64 as a
 * double.) */
#define IN_RANGE(v, b) (((double)(v) > LOW_##b - 1 || (double)(v) == LOW_##b) && (double)(v) < END_##b)

#define CONVERT(a, A, b, B)                                                                                            \
    static void conv_##a##_##b(const void *from, void *to, int64_t n)                                                  \
    {                                                                                                                  \
        const A *x = from;                                                                                             \
        B *y = to;                                                                                                     \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = IS_FLOAT_##a && !IS_FLOAT_##b && !IN_RANGE(x[i], b) ? 0 : (B)x[i];                                  \
    }                                                                                                                  \
    static bool fits_##a##_##b(const void *from, int64_t n)                                                            \
    {                                                                                                                  \
        const A *x = from;                                                                                             \
        unsigned bad = 0;                                                                                              \
                                                                                                                       \
        if (IS_FLOAT_##b)                                                                                              \
            return true;                                                                                               \
        for (int64_t i = 0; i < n; i++)                                                                                \
            bad |= IS_FLOAT_##a ? !FITS_FLOAT(x[i], A, b, B) : (A)(B)x[i] != x[i] || (x[i] < 0) != ((B)x[i] < 0);      \
        return !bad;                                                                                                   \
    }                                                                                                                  \
    static bool turns_##a##_##b(const void *from)                                                                      \
    {                                                                                                                  \
        return !IS_FLOAT_##a || IS_FLOAT_##b || IN_RANGE(*(const A *)from, b);                                         \
    }
#define CONVERT_TO_ALL(a, A)                                                                                           \
    CONVERT(a, A, i8, int8_t)                                                                                          \
    CONVERT(a, A, u8, uint8_t)                                                                                         \
    CONVERT(a, A, i16, int16_t)                                                                                        \
    CONVERT(a, A, u16, uint16_t)                                                                                       \
    CONVERT(a, A, i32, int32_t)                                                                                        \
    CONVERT(a, A, u32, uint32_t)                                                                                       \
    CONVERT(a, A, i64, int64_t)                                                                                        \
    CONVERT(a, A, u64, uint64_t)                                                                                       \
    CONVERT(a, A, f32, float)                                                                                          \
    CONVERT(a, A, f64, double)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
NUMBERS(CONVERT_TO_ALL)
#pragma GCC diagnostic pop

/* convert; whether all values fit; whether one value can be converted at all. By source and target. */
static const struct {
    void (*convert)(const void *from, void *to, int64_t n);
    bool (*fits)(const void *from, int64_t n);
    bool (*turns)(const void *from);
} numbers[N_NUMBERS][N_NUMBERS] = {
#define PAIR(a, b) [N_##a][N_##b] = { conv_##a##_##b, fits_##a##_##b, turns_##a##_##b },
#define HR_X(a, A)                                                                                                     \
    PAIR(a, i8)                                                                                                        \
    PAIR(a, u8) PAIR(a, i16) PAIR(a, u16) PAIR(a, i32) PAIR(a, u32) PAIR(a, i64) PAIR(a, u64) PAIR(a, f32) PAIR(a, f64)
    NUMBERS(HR_X)
#undef HR_X
};

static const int number_bytes[N_NUMBERS] = {
#define HR_X(name, T) [N_##name] = sizeof(T),
    NUMBERS(HR_X)
#undef HR_X
};

static bool number_of(hr_type_id id, enum number *out)
{
    switch (id) {
    case HR_T_INT8: *out = N_i8; return true;
    case HR_T_UINT8: *out = N_u8; return true;
    case HR_T_INT16: *out = N_i16; return true;
    case HR_T_UINT16: *out = N_u16; return true;
    case HR_T_INT32: *out = N_i32; return true;
    case HR_T_UINT32: *out = N_u32; return true;
    case HR_T_INT64: *out = N_i64; return true;
    case HR_T_UINT64: *out = N_u64; return true;
    case HR_T_FLOAT32: *out = N_f32; return true;
    case HR_T_FLOAT64: *out = N_f64; return true;
    default: return false;
    }
}

/* ------------------------------------------------------------------------------------------- values that do not fit */

hr_status hr__cast_refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t row, hr_error *err)
{
    hr_text value = { 0 }, type = { 0 };
    char place[HR_PLACE_BYTES];
    hr_status st;

    hr__array_print_some(a, row, 60, &value);
    hr__type_print(call->type, &type);
    st = hr_error_set(err, HR_BAD_DATA, "cast: %s: %.80s does not fit %s", hr__eval_place(how, row, place),
                      value.data ? value.data : "?", type.data ? type.data : "?");
    hr__text_clear(&value);
    hr__text_clear(&type);
    return st;
}

hr_status hr__own_validity(const hr_eval *how, hr_buffer **validity, hr_error *err)
{
    hr_buffer *mine = NULL;

    HR_TRY(hr__eval_bits(how, how->n_rows, &mine, err));
    if (*validity)
        memcpy(mine->data, (*validity)->data, (size_t)hr__bits_bytes(how->n_rows));
    else
        memset(mine->data, 0xFF, (size_t)hr__bits_bytes(how->n_rows));
    hr__buffer_unref(*validity);
    *validity = mine;
    return HR_OK;
}

/* Handles values that did not fit, if they are valid. Safe: an error for the first. Not safe: null if it cannot be
 * converted. */
static hr_status look_closer(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const uint8_t *values,
                             hr_buffer **validity, hr_error *err)
{
    const cast_state *s = call->state;
    int bytes = number_bytes[s->from];
    bool own = false;

    for (int64_t i = 0; i < how->n_rows; i++) {
        const uint8_t *p = values + i * bytes;

        if (!hr__is_valid(*validity, i) || numbers[s->from][s->to].fits(p, 1))
            continue;
        if (s->safe)
            return hr__cast_refuse(call, how, a, i, err);
        if (numbers[s->from][s->to].turns(p))
            continue;
        if (!own)
            HR_TRY(hr__own_validity(how, validity, err));
        own = true;
        hr__bit_clear((*validity)->data, i);
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ loops */

static hr_status run_number(const hr_bound_call *call, const hr_eval *how, const hr_array *a, const uint8_t *values,
                            hr_buffer **validity, hr_buffer **out, hr_error *err)
{
    const cast_state *s = call->state;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * number_bytes[s->to], out, err));
    if (how->n_rows == 0)
        return HR_OK;
    numbers[s->from][s->to].convert(values, (*out)->data, how->n_rows);
    if (numbers[s->from][s->to].fits(values, how->n_rows))
        return HR_OK;
    return look_closer(call, how, a, values, validity, err);
}

static hr_status run_to_bool(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **out,
                             hr_error *err)
{
    const cast_state *s = call->state;
    const int bytes = number_bytes[s->from];
    const uint8_t *values = hr__array_values(a);
    double wide[1024];
    uint8_t block[1024];

    HR_TRY(hr__eval_bits(how, how->n_rows, out, err));
    for (int64_t i = 0; i < how->n_rows; i += 1024) {
        int64_t m = HR_MIN(1024, how->n_rows - i);

        numbers[s->from][N_f64].convert(values + i * bytes, wide, m); /* only the integer 0 rounds to 0 */
        for (int64_t k = 0; k < m; k++)
            block[k] = wide[k] != 0;
        hr__pack_bits(block, m, (*out)->data + i / 8);
    }
    return HR_OK;
}

static hr_status run_from_bool(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **out,
                               hr_error *err)
{
    const cast_state *s = call->state;
    uint8_t block[1024];

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * number_bytes[s->to], out, err));
    for (int64_t i = 0; i < how->n_rows; i += 1024) {
        int64_t m = HR_MIN(1024, how->n_rows - i);

        for (int64_t k = 0; k < m; k++)
            block[k] = hr__bit(a->buffers[1]->data, a->offset + i + k);
        numbers[N_u8][s->to].convert(block, (*out)->data + i * number_bytes[s->to], m);
    }
    return HR_OK;
}

/* Halves to doubles, then to the target. */
static hr_status run_from_half(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **validity,
                               hr_buffer **out, hr_error *err)
{
    const uint16_t *h = (const void *)hr__array_values(a);
    double *wide = hr__alloc(how->mem->account, (size_t)how->n_rows * sizeof *wide);
    hr_status st;

    if (!wide)
        return hr__error_memory(err, "cast", how->n_rows * (int64_t)sizeof *wide);
    for (int64_t i = 0; i < how->n_rows; i++)
        wide[i] = hr__half_value(h[i]);
    st = run_number(call, how, a, (const uint8_t *)wide, validity, out, err);
    hr__free(wide);
    return st;
}

static hr_status run_to_half(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **out,
                             hr_error *err)
{
    const cast_state *s = call->state;
    const uint8_t *values = hr__array_values(a);
    double wide[512];
    uint16_t *h;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * 2, out, err));
    h = (uint16_t *)(void *)(*out)->data;
    for (int64_t i = 0; i < how->n_rows; i += 512) {
        int64_t m = HR_MIN(512, how->n_rows - i);

        numbers[s->from][N_f64].convert(values + i * number_bytes[s->from], wide, m);
        for (int64_t k = 0; k < m; k++)
            h[i + k] = hr__half_of(wide[k]);
    }
    return HR_OK;
}

/* --- strings and binary: the bytes are shared, offsets may change their width */

static hr_status same_offsets(const hr_eval *how, const hr_array *a, hr_buffer **out, hr_error *err)
{
    int bytes = hr__type_offset_bytes(a->type);

    return hr__buffer_slice(a->buffers[1], a->offset * bytes, (how->n_rows + 1) * bytes, out, err);
}

static hr_status other_offsets(const hr_eval *how, const hr_array *a, const hr_type *to, hr_buffer **out, hr_error *err)
{
    bool widen = hr__type_offset_bytes(to) == 8;

    HR_TRY(hr__buffer_new(how->mem, (how->n_rows + 1) * (widen ? 8 : 4), out, err));
    if (widen) {
        const int32_t *from = (const int32_t *)(const void *)a->buffers[1]->data + a->offset;

        conv_i32_i64(from, (*out)->data, how->n_rows + 1);
    } else {
        const int64_t *from = (const int64_t *)(const void *)a->buffers[1]->data + a->offset;

        if (from[how->n_rows] > INT32_MAX)
            return hr_error_set(
                err, HR_UNSUPPORTED,
                "cast: the result has more than 2 GiB of text, the limit of a column with 32-bit offsets");
        conv_i64_i32(from, (*out)->data, how->n_rows + 1);
    }
    return HR_OK;
}

static hr_status check_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **validity,
                            hr_error *err)
{
    const cast_state *s = call->state;
    bool own = false;

    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t n;
        const uint8_t *p;

        if (!hr__is_valid(*validity, i))
            continue;
        p = hr__array_bytes(a, i, &n);
        if (hr__utf8_valid(p, n))
            continue;
        if (s->safe)
            return hr__cast_refuse(call, how, a, i, err);
        if (!own)
            HR_TRY(hr__own_validity(how, validity, err));
        own = true;
        hr__bit_clear((*validity)->data, i);
    }
    return HR_OK;
}

static hr_status run_bytes(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **validity,
                           hr_buffer **offsets, hr_buffer **bytes, hr_error *err)
{
    const cast_state *s = call->state;

    if (how->n_rows == 0)
        return hr__buffer_new(how->mem, 0, bytes, err);
    if (s->check_utf8)
        HR_TRY(check_text(call, how, a, validity, err));
    if (hr__type_offset_bytes(a->type) == hr__type_offset_bytes(call->type))
        HR_TRY(same_offsets(how, a, offsets, err));
    else
        HR_TRY(other_offsets(how, a, call->type, offsets, err));
    *bytes = hr__buffer_ref(a->buffers[2]);
    return *bytes ? HR_OK : hr__buffer_new(how->mem, 0, bytes, err);
}

/* --- times */

static int64_t time_at(const uint8_t *values, int bytes, int64_t i)
{
    int32_t v32;
    int64_t v64;

    if (bytes == 4) {
        memcpy(&v32, values + i * 4, 4);
        return v32;
    }
    memcpy(&v64, values + i * 8, 8);
    return v64;
}

/* v in the other unit; false: it does not fit, or loses a fraction. */
static bool rescale(const cast_state *s, int to_bytes, int64_t v, int64_t *out)
{
    bool fits = !__builtin_mul_overflow(v, s->mul, out);

    if (s->div > 1) {
        int64_t rest = *out % s->div;

        *out = *out / s->div - (rest < 0);
        fits = fits && (rest == 0 || s->floors);
    }
    return fits && (to_bytes == 8 || (*out >= INT32_MIN && *out <= INT32_MAX));
}

static hr_status run_scale(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **validity,
                           hr_buffer **out, hr_error *err)
{
    const cast_state *s = call->state;
    int from = hr__type_bytes(a->type), to = hr__type_bytes(call->type);
    const uint8_t *values = hr__array_values(a);

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * to, out, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t v = 0;
        int32_t v32;

        if (!rescale(s, to, time_at(values, from, i), &v) && s->safe && hr__is_valid(*validity, i))
            return hr__cast_refuse(call, how, a, i, err);
        v32 = (int32_t)v;
        memcpy((*out)->data + i * to, to == 4 ? (const void *)&v32 : (const void *)&v, (size_t)to);
    }
    return HR_OK;
}

static hr_status run_nothing(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **out,
                             hr_error *err)
{
    int bytes = hr__type_bytes(a->type);

    (void)call;
    if (how->n_rows == 0)
        return hr__buffer_new(how->mem, 0, out, err);
    return hr__buffer_slice(a->buffers[1], a->offset * bytes, how->n_rows * bytes, out, err);
}

static hr_status cast_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                           hr_error *err)
{
    const cast_state *s = call->state;
    const hr_array *a = args[0];
    hr_buffer *validity = NULL, *values = NULL, *more = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    if (hr__type_equal(a->type, call->type)) {
        *out = hr__array_ref((hr_array *)a);
        return HR_OK;
    }
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null || s->kind == CAST_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    switch (s->kind) {
    case CAST_NUMBER: st = run_number(call, how, a, hr__array_values(a), &validity, &values, err); break;
    case CAST_TO_BOOL: st = run_to_bool(call, how, a, &values, err); break;
    case CAST_FROM_BOOL: st = run_from_bool(call, how, a, &values, err); break;
    case CAST_FROM_HALF: st = run_from_half(call, how, a, &validity, &values, err); break;
    case CAST_TO_HALF: st = run_to_half(call, how, a, &values, err); break;
    case CAST_BYTES: st = run_bytes(call, how, a, &validity, &values, &more, err); break;
    case CAST_SCALE: st = run_scale(call, how, a, &validity, &values, err); break;
    case CAST_TO_DECIMAL: st = hr__cast_to_decimal(call, how, a, s->safe, &validity, &values, err); break;
    case CAST_FROM_DECIMAL: st = hr__cast_from_decimal(call, how, a, s->safe, &validity, &values, err); break;
    case CAST_PARSE: st = hr__cast_from_text(call, how, a, s->safe, &validity, &values, err); break;
    case CAST_PRINT: st = hr__cast_to_text(call, how, a, validity, &values, &more, err); break;
    default: st = run_nothing(call, how, a, &values, err); break;
    }
    if (!st) {
        st = hr__eval_array(call->type, how->n_rows, validity, values, more, out, err);
        validity = values = more = NULL; /* taken */
    }
    hr__buffer_unref(validity);
    hr__buffer_unref(values);
    hr__buffer_unref(more);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- binding */

/* Nanoseconds of one tick; 0: no time. Families do not mix: 1 dates and timestamps, 2 times of day, 3 durations. */
static int64_t tick_of(const hr_type *t, int *family)
{
    static const int64_t ticks[] = { 1000000000, 1000000, 1000, 1 };

    switch (t->id) {
    case HR_T_DATE32: *family = 1; return INT64_C(86400) * 1000000000;
    case HR_T_DATE64: *family = 1; return 1000000;
    case HR_T_TIMESTAMP: *family = 1; return ticks[t->unit];
    case HR_T_TIME32:
    case HR_T_TIME64: *family = 2; return ticks[t->unit];
    case HR_T_DURATION: *family = 3; return ticks[t->unit];
    default: *family = 0; return 0;
    }
}

static bool bind_time(const hr_type *from, const hr_type *to, cast_state *s)
{
    int family_from, family_to;
    int64_t a = tick_of(from, &family_from), b = tick_of(to, &family_to);

    if (a && b && family_from == family_to) {
        s->kind = a == b && hr__type_bytes(from) == hr__type_bytes(to) ? CAST_NOTHING : CAST_SCALE;
        s->mul = HR_MAX(1, a / b);
        s->div = HR_MAX(1, b / a);
        s->floors = to->id == HR_T_DATE32 || !s->safe;
        return true;
    }
    if ((!a && !b) || (a && b) || hr__type_bytes(from) != hr__type_bytes(to))
        return false;
    s->kind = CAST_NOTHING; /* the ticks as an integer, and back */
    return hr__type_is_signed(a ? to : from);
}

static bool is_text(const hr_type *t) { return t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING; }

static bool bind_kind(const hr_type *from, const hr_type *to, cast_state *s)
{
    bool is_number_from = number_of(from->id, &s->from), is_number_to = number_of(to->id, &s->to);

    if (hr__type_equal(from, to))
        s->kind = CAST_NOTHING;
    else if (from->id == HR_T_NULL)
        s->kind = CAST_NULL;
    else if (is_number_from && is_number_to)
        s->kind = CAST_NUMBER;
    else if (is_number_from && to->id == HR_T_BOOL)
        s->kind = CAST_TO_BOOL;
    else if (from->id == HR_T_BOOL && is_number_to)
        s->kind = CAST_FROM_BOOL;
    else if (from->id == HR_T_FLOAT16 && is_number_to)
        s->kind = CAST_FROM_HALF;
    else if (is_number_from && to->id == HR_T_FLOAT16)
        s->kind = CAST_TO_HALF;
    else if (hr__type_is_bytes(from) && hr__type_is_bytes(to))
        s->kind = CAST_BYTES;
    else if (is_text(from) && hr__cast_parses(to))
        s->kind = CAST_PARSE;
    else if (is_text(to) && hr__cast_prints(from))
        s->kind = CAST_PRINT;
    else if (hr__type_is_decimal(to) && (hr__type_is_number(from) || hr__type_is_decimal(from) || is_text(from)))
        s->kind = CAST_TO_DECIMAL;
    else if (hr__type_is_decimal(from) && is_number_to)
        s->kind = CAST_FROM_DECIMAL;
    else
        return bind_time(from, to, s);
    if (s->kind == CAST_FROM_HALF)
        s->from = N_f64;
    s->check_utf8 = is_text(to) && (from->id == HR_T_BINARY || from->id == HR_T_LARGE_BINARY);
    return true;
}

hr_status hr__cast_bind_to(hr_bound_call *call, const hr_type *from, hr_type *to, bool safe, hr_error *err)
{
    cast_state *s = hr__zalloc(NULL, sizeof *s);
    hr_text a = { 0 }, b = { 0 };
    hr_status st = HR_OK;

    if (!s)
        return hr__error_memory(err, "cast", sizeof *s);
    s->safe = safe;
    call->state = s;
    call->type = hr__type_ref(to);
    if (bind_kind(from, to, s))
        return HR_OK;
    hr__type_print(from, &a);
    hr__type_print(to, &b);
    st = hr_error_set(err, HR_TYPE, "cast: %s cannot be cast to %s", a.data ? a.data : "?", b.data ? b.data : "?");
    hr__text_clear(&a);
    hr__text_clear(&b);
    return st;
}

typedef struct cast_options {
    char *to;
    bool safe;
} cast_options;

static const hr_option cast_table[] = {
    { "to", HR_OPT_TEXT, offsetof(cast_options, to), 0, 0, 0, "",
      "the type, as schema() prints it: \"int32\", \"double\"" },
    { "safe", HR_OPT_BOOL, offsetof(cast_options, safe), 0, 0, 1, NULL,
      "a value that does not fit is an error; false: integers keep their low bits, what cannot be converted is null" },
    { 0 },
};

static hr_status cast_bind(hr_bound_call *call, hr_error *err)
{
    const cast_options *o = call->expr->options;
    hr_type *to = NULL;
    hr_status st;

    HR_TRY(hr__type_parse(o->to, &to, err));
    st = hr__cast_bind_to(call, call->input_types[0], to, o->safe, err);
    hr__type_unref(to);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

/* Casts that keep the order keep bounds; casts that wrap or make nulls do not. */
static bool is_monotone(const cast_state *s, const hr_type *from, const hr_type *to)
{
    if (s->kind == CAST_NOTHING)
        return hr__type_equal(from, to) || (!hr__type_is_number(from) && !hr__type_is_number(to));
    return s->safe && (s->kind == CAST_NUMBER || s->kind == CAST_SCALE || s->kind == CAST_FROM_HALF ||
                       s->kind == CAST_FROM_DECIMAL || (s->kind == CAST_TO_DECIMAL && !is_text(from)));
}

static void cast_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem, .n_rows = 1 };
    const cast_state *s = call->state;
    hr_array *least = in->least, *most = in->most;

    (void)p;
    if (call->input_types[0]->id == HR_T_BOOL || call->type->id == HR_T_BOOL || s->kind == CAST_NULL ||
        !is_monotone(s, call->input_types[0], call->type))
        return;
    out->can_null = in->can_null;
    out->can_value = in->can_value;
    out->can_nan = in->can_nan && hr__type_is_float(call->type);
    if (least && cast_eval(call, &how, &least, &out->least, NULL))
        out->least = NULL;
    if (most && cast_eval(call, &how, &most, &out->most, NULL))
        out->most = NULL;
}

const hr_expr_function hr__fn_cast[] = {
    {
        .name = "cast",
        .doc = "the value as another type",
        .min_args = 1,
        .max_args = 1,
        .options = cast_table,
        .options_bytes = sizeof(cast_options),
        .bind = cast_bind,
        .eval = cast_eval,
        .range = cast_range,
    },
    { 0 },
};

const hr_expr_function *hr__cast_function(void) { return hr__fn_cast; }

/* ---------------------------------------------------------------------------------------- where two types meet */

void hr__call_cast(hr_bound_call *call, int i, hr_type *type)
{
    if (!hr__type_equal(call->input_types[i], type)) {
        hr__type_unref(call->casts[i]);
        call->casts[i] = hr__type_ref(type);
    }
}

hr_status hr__call_type_error(const hr_bound_call *call, const char *expected, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    for (int i = 0; i < call->n_inputs; i++) {
        hr__text_add(&t, "%s", i == 0 ? "" : i + 1 == call->n_inputs ? " and " : ", ");
        hr__type_print(call->input_types[i], &t);
    }
    st = hr_error_set(err, HR_TYPE, "%s of %s: %s", call->expr->function->name, t.data ? t.data : "?", expected);
    hr__text_clear(&t);
    return st;
}

static int int_bits(const hr_type *t) { return 8 * hr__type_bytes(t); }

static hr_type *signed_of(int bits)
{
    return hr__type_simple(bits <= 8 ? HR_T_INT8 : bits <= 16 ? HR_T_INT16 : bits <= 32 ? HR_T_INT32 : HR_T_INT64);
}

/* NumPy's common type; NULL for uint64 with a signed integer, where NumPy takes a float. */
static hr_type *common_of_types(hr_type *a, hr_type *b)
{
    if (a->id == b->id)
        return a;
    if (hr__type_is_float(a) && hr__type_is_float(b))
        return hr__type_bytes(a) > hr__type_bytes(b) ? a : b;
    if (hr__type_is_float(a) || hr__type_is_float(b)) {
        const hr_type *i = hr__type_is_float(a) ? b : a, *f = hr__type_is_float(a) ? a : b;
        int bytes = HR_MAX(hr__type_bytes(f), HR_MIN(8, 2 * hr__type_bytes(i)));

        return hr__type_simple(bytes == 2 ? HR_T_FLOAT16 : bytes == 4 ? HR_T_FLOAT32 : HR_T_FLOAT64);
    }
    if (hr__type_is_signed(a) == hr__type_is_signed(b))
        return int_bits(a) > int_bits(b) ? a : b;
    if (hr__type_is_unsigned(a) ? int_bits(a) < int_bits(b) : int_bits(b) < int_bits(a))
        return hr__type_is_unsigned(a) ? b : a;
    if (a->id == HR_T_UINT64 || b->id == HR_T_UINT64)
        return NULL;
    return signed_of(2 * (hr__type_is_unsigned(a) ? int_bits(a) : int_bits(b)));
}

/* Whether `type` holds the value of the weak number (floats hold all). */
static bool holds_weak(const hr_type *type, const hr_array *value)
{
    enum number to;

    if (hr__type_is_float(type))
        return true;
    if (hr__type_is_float(value->type) || !number_of(type->id, &to))
        return false;
    return hr__array_is_null(value, 0) || numbers[N_i64][to].fits(hr__array_values(value), 1);
}

hr_type *hr__call_common_number(const hr_bound_call *call, int a, int b)
{
    hr_type *x = call->input_types[a], *y = call->input_types[b];

    if (!hr__type_is_number(x) || !hr__type_is_number(y))
        return NULL;
    if (call->weak[a] && !call->weak[b] && holds_weak(y, call->constants[a]))
        return y;
    if (call->weak[b] && !call->weak[a] && holds_weak(x, call->constants[b]))
        return x;
    return common_of_types(x, y);
}

hr_type *hr__common_number(hr_type *a, hr_type *b) { return common_of_types(a, b); }

/* The common type of the numbers of the call from input `first` on; weak ones come last. NULL: no type holds them all,
 * or the call has none. */
static hr_type *common_of_numbers(const hr_bound_call *call, int first)
{
    hr_type *common = NULL;
    bool weak_only = true;

    for (int pass = 0; pass < 2; pass++)
        for (int i = first; i < call->n_inputs; i++) {
            hr_type *t = call->input_types[i];

            if (t->id == HR_T_NULL || call->weak[i] != (pass == 1))
                continue;
            weak_only = weak_only && pass == 1;
            if (!common)
                common = t;
            else if (weak_only || pass == 0 || !holds_weak(common, call->constants[i]))
                common = common_of_types(common, t);
            if (!common)
                return NULL;
        }
    return common;
}

static bool all_are(const hr_bound_call *call, int first, bool (*is)(const hr_type *t))
{
    for (int i = first; i < call->n_inputs; i++)
        if (call->input_types[i]->id != HR_T_NULL && !is(call->input_types[i]))
            return false;
    return true;
}

static bool is_number(const hr_type *t) { return hr__type_is_number(t); }

static bool cast_exists(const hr_type *from, const hr_type *to)
{
    cast_state s = { .safe = true };

    return bind_kind(from, to, &s);
}

static bool is_exact(const hr_type *t) { return hr__type_is_int(t) || hr__type_is_decimal(t); }
static bool is_numeric(const hr_type *t) { return hr__type_is_number(t) || hr__type_is_decimal(t); }

/* Decimals with integers: as many digits on each side of the point as the largest operand has; with floats double. *out
 * is new; NULL with HR_OK: that would be too many digits. */
static hr_status common_of_decimals(const hr_bound_call *call, int first, hr_type **out, hr_error *err)
{
    int64_t whole = 0, scale = 0;
    bool wide = false, any = false;

    *out = NULL;
    if (!all_are(call, first, is_exact)) {
        *out = hr__type_simple(HR_T_FLOAT64);
        return HR_OK;
    }
    for (int i = first; i < call->n_inputs; i++) {
        const hr_type *t = call->input_types[i];

        if (t->id == HR_T_NULL)
            continue;
        wide = wide || t->id == HR_T_DECIMAL256;
        whole = HR_MAX(whole, hr__type_is_decimal(t) ? (int64_t)t->precision - t->scale : hr__digits_of_int(t));
        scale = any ? HR_MAX(scale, t->scale) : t->scale;
        any = true;
    }
    if (whole + scale > 76)
        return HR_OK;
    wide = wide || whole + scale > 38;
    return hr__type_decimal(wide ? HR_T_DECIMAL256 : HR_T_DECIMAL128, (int32_t)HR_MAX(1, whole + scale), (int32_t)scale,
                            out, err);
}

/* The type to which those of the inputs from `first` on unify; *out is new; NULL with HR_OK: none that casts reach. */
static hr_status common_of_any(const hr_bound_call *call, int first, hr_type **out, hr_error *err)
{
    hr_type *common = hr__type_simple(HR_T_NULL), *wider = NULL;

    *out = NULL;
    for (int i = first; common && i < call->n_inputs; i++) {
        hr_status st = hr__type_unify(common, call->input_types[i], &wider, err);

        hr__type_unref(common);
        HR_TRY(st);
        common = wider;
    }
    for (int i = first; common && i < call->n_inputs; i++)
        if (!cast_exists(call->input_types[i], common)) {
            hr__type_unref(common);
            common = NULL;
        }
    *out = common;
    return HR_OK;
}

hr_status hr__call_common(hr_bound_call *call, int first, hr_type **out, hr_error *err)
{
    *out = NULL;
    if (all_are(call, first, is_number)) {
        hr_type *number = common_of_numbers(call, first);

        *out = hr__type_ref(number ? number : hr__type_simple(HR_T_NULL));
        for (int i = first; !number && i < call->n_inputs; i++)
            if (call->input_types[i]->id != HR_T_NULL)
                *out = hr__type_simple(HR_T_INT64); /* uint64 with a signed integer: the value decides */
    } else {
        if (all_are(call, first, is_numeric))
            HR_TRY(common_of_decimals(call, first, out, err));
        else
            HR_TRY(common_of_any(call, first, out, err));
        if (!*out)
            return hr__call_type_error(call, "no type holds all of them; a cast may help", err);
    }
    for (int i = first; i < call->n_inputs; i++)
        hr__call_cast(call, i, *out);
    return HR_OK;
}
