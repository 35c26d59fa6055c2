/* fn_math.c - functions of numbers: rounding, sign, powers, logarithms, angles.
 *
 * Results equal those of Arrow's kernels: integers become doubles for functions whose results may have fractions (and
 * for ceil, floor, trunc), float stays float, and a result that does not exist (ln(-1), asin(2)) is NaN or infinite,
 * not an error. Decimals are rounded as decimals and become doubles elsewhere; halves compute as float. Integer results
 * that do not fit are errors, as everywhere.
 *
 * round() rounds to the nearest, ties to even, at `ndigits` places after the point, before the point if negative. */
#include "base/decimal.h"
#include "expr/fn.h"

#include <inttypes.h>
#include <math.h>

__extension__ typedef __int128 int128;
typedef int128 decimal __attribute__((aligned(8))); /* as columns store them */

/* The state of a bound call. */
typedef struct math_state math_state;
/* Computes n values; -> whether all have a result. */
typedef bool math_fn(const math_state *s, const void *in, int64_t n, void *out);
struct math_state {
    math_fn *run;
    int64_t places;    /* of round() */
    double power;      /* 10^|places| */
    int128 unit;       /* of integers and decimals: results are multiples of it */
    int128 end;        /* of decimals: the least number that has too many digits */
    int zeros, digits; /* of decimals of 32 bytes: unit and end as powers of ten */
};

/* ---------------------------------------------------------------------------------------------------------- kernels */

#define KERNEL(name, what, T, R, ...)                                                                                  \
    static bool what##_##name(const math_state *s, const void *in, int64_t n, void *out)                               \
    {                                                                                                                  \
        const T *a = in;                                                                                               \
        R *y = out;                                                                                                    \
                                                                                                                       \
        (void)s;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const T v = a[i];                                                                                          \
                                                                                                                       \
            __VA_ARGS__;                                                                                               \
        }                                                                                                              \
        return true;                                                                                                   \
    }

#define PLAIN(X)                                                                                                       \
    X(exp, "e to the power of the number")                                                                             \
    X(ln, "the natural logarithm; -inf of 0, NaN of negative numbers")                                                 \
    X(log2, "the logarithm to base 2")                                                                                 \
    X(log10, "the logarithm to base 10")                                                                               \
    X(sqrt, "the square root; NaN of negative numbers")                                                                \
    X(sin, "the sine of an angle in radians")                                                                          \
    X(cos, "the cosine of an angle in radians")                                                                        \
    X(tan, "the tangent of an angle in radians")                                                                       \
    X(asin, "the angle in radians of a sine; NaN outside of -1 to 1")                                                  \
    X(acos, "the angle in radians of a cosine; NaN outside of -1 to 1")                                                \
    X(atan, "the angle in radians of a tangent")
static inline double ln(double v) { return log(v); }
static inline float lnf(float v) { return logf(v); }
#define ROUNDING(X)                                                                                                    \
    X(ceil, "the least whole number that is not less")                                                                 \
    X(floor, "the greatest whole number that is not greater")                                                          \
    X(trunc, "the number without its fraction")
#define HR_X(fn, doc)                                                                                                  \
    KERNEL(f32, fn, float, float, y[i] = fn##f(v))                                                                     \
    KERNEL(f64, fn, double, double, y[i] = fn(v))
PLAIN(HR_X)
ROUNDING(HR_X)
#undef HR_X

/* --- absolute value and sign */

#define SIGNED(X)                                                                                                      \
    X(i8, int8_t)                                                                                                      \
    X(i16, int16_t)                                                                                                    \
    X(i32, int32_t)                                                                                                    \
    X(i64, int64_t)
#define UNSIGNED(X)                                                                                                    \
    X(u8, uint8_t)                                                                                                     \
    X(u16, uint16_t)                                                                                                   \
    X(u32, uint32_t)                                                                                                   \
    X(u64, uint64_t)

#define HR_X(name, T)                                                                                                  \
    static bool abs_##name(const math_state *s, const void *in, int64_t n, void *out)                                  \
    {                                                                                                                  \
        const T *a = in;                                                                                               \
        T *y = out;                                                                                                    \
        unsigned bad = 0;                                                                                              \
                                                                                                                       \
        (void)s;                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T minus;                                                                                                   \
                                                                                                                       \
            bad |= (unsigned)__builtin_sub_overflow((T)0, a[i], &minus);                                               \
            y[i] = a[i] < 0 ? minus : a[i];                                                                            \
        }                                                                                                              \
        return !bad;                                                                                                   \
    }                                                                                                                  \
    KERNEL(name, sign, T, int8_t, y[i] = (int8_t)((v > 0) - (v < 0)))
SIGNED(HR_X)
#undef HR_X
#define HR_X(name, T)                                                                                                  \
    KERNEL(name, abs, T, T, y[i] = v)                                                                                  \
    KERNEL(name, sign, T, int8_t, y[i] = v != 0)
UNSIGNED(HR_X)
#undef HR_X
KERNEL(f32, abs, float, float, y[i] = fabsf(v))
KERNEL(f64, abs, double, double, y[i] = fabs(v))
KERNEL(f32, sign, float, float, y[i] = isnan(v) ? v : (float)((v > 0) - (v < 0)))
KERNEL(f64, sign, double, double, y[i] = isnan(v) ? v : (double)((v > 0) - (v < 0)))
KERNEL(dec, abs, decimal, decimal, y[i] = v < 0 ? -v : v)
KERNEL(dec, sign, decimal, int64_t, y[i] = (v > 0) - (v < 0))

/* --- rounding to places */

/* As in Arrow: scales, rounds, scales back. A value that becomes infinite by scaling has no digits to round. */
#define HR_X(name, T, rint)                                                                                            \
    static bool round_##name(const math_state *s, const void *in, int64_t n, void *out)                                \
    {                                                                                                                  \
        const T *a = in, power = (T)s->power;                                                                          \
        const bool after = s->places > 0;                                                                              \
        T *y = out;                                                                                                    \
                                                                                                                       \
        for (int64_t i = 0; s->places == 0 && i < n; i++)                                                              \
            y[i] = rint(a[i]);                                                                                         \
        for (int64_t i = 0; s->places != 0 && i < n; i++) {                                                            \
            const T scaled = after ? a[i] * power : a[i] / power, whole = rint(scaled);                                \
            const T back = after ? whole / power : whole * power;                                                      \
                                                                                                                       \
            y[i] = whole == scaled || !isfinite(back) ? a[i] : back;                                                   \
        }                                                                                                              \
        return true;                                                                                                   \
    }
HR_X(f32, float, rintf)
HR_X(f64, double, rint)
#undef HR_X

static int128 multiple_below(int128 v, int128 unit)
{
    int128 rest = v % unit;

    return v - (rest < 0 ? rest + unit : rest);
}

static int128 multiple_near(int128 v, int128 unit)
{
    int128 below = multiple_below(v, unit), rest = v - below;

    if (rest > unit - rest || (rest == unit - rest && (below / unit) % 2 != 0))
        return below + unit;
    return below;
}

#define HR_X(name, T)                                                                                                  \
    static bool round_##name(const math_state *s, const void *in, int64_t n, void *out)                                \
    {                                                                                                                  \
        const T *a = in;                                                                                               \
        T *y = out;                                                                                                    \
        bool good = true;                                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int128 v = s->unit == 1 ? a[i] : multiple_near(a[i], s->unit);                                       \
                                                                                                                       \
            y[i] = (T)v;                                                                                               \
            good &= y[i] == v;                                                                                         \
        }                                                                                                              \
        return good;                                                                                                   \
    }
SIGNED(HR_X)
UNSIGNED(HR_X)
#undef HR_X

#define HR_X(what, result)                                                                                             \
    static bool what##_dec(const math_state *s, const void *in, int64_t n, void *out)                                  \
    {                                                                                                                  \
        const decimal *a = in;                                                                                         \
        decimal *y = out;                                                                                              \
        bool good = true;                                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int128 v = a[i], w = (result);                                                                       \
                                                                                                                       \
            y[i] = w;                                                                                                  \
            good &= w < s->end && -w < s->end;                                                                         \
        }                                                                                                              \
        return good;                                                                                                   \
    }
HR_X(floor, multiple_below(v, s->unit))
HR_X(ceil, -multiple_below(-v, s->unit))
HR_X(trunc, v - v % s->unit)
HR_X(round, multiple_near(v, s->unit))
#undef HR_X

/* --- decimals of 32 bytes */

#define HR_X(what, how)                                                                                                \
    static bool what##_wide(const math_state *s, const void *in, int64_t n, void *out)                                 \
    {                                                                                                                  \
        bool good = true;                                                                                              \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            good &= hr__decimal_round(how, (const uint8_t *)in + 32 * i, 32, s->zeros, s->digits,                      \
                                      (uint8_t *)out + 32 * i);                                                        \
        return good;                                                                                                   \
    }
HR_X(floor, HR_ROUND_FLOOR)
HR_X(ceil, HR_ROUND_CEIL)
HR_X(trunc, HR_ROUND_TRUNC)
HR_X(round, HR_ROUND_NEAREST)
#undef HR_X

static bool abs_wide(const math_state *s, const void *in, int64_t n, void *out)
{
    (void)s;
    for (int64_t i = 0; i < n; i++) {
        hr_wide v = hr__wide_load((const uint8_t *)in + 32 * i, 32);

        v.negative = false;
        hr__wide_store(&v, 32, (uint8_t *)out + 32 * i);
    }
    return true;
}

static bool sign_wide(const math_state *s, const void *in, int64_t n, void *out)
{
    (void)s;
    for (int64_t i = 0; i < n; i++) {
        const hr_wide v = hr__wide_load((const uint8_t *)in + 32 * i, 32);

        ((int64_t *)out)[i] = v.negative ? -1 : v.n > 0;
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------------- binding */

typedef enum result_kind {
    AS_FLOAT, /* float stays, other types become double */
    AS_ROUND, /* the same, but decimals stay */
    AS_IT_IS, /* every number keeps its type */
    AS_SIGN,  /* int8 for integers, int64 for decimals; floats stay */
} result_kind;

typedef math_fn *const kernel_row[HR_N_TYPES];

typedef struct round_options {
    int64_t ndigits;
} round_options;

static const hr_option round_settings[] = {
    { .name = "ndigits",
      .kind = HR_OPT_INT,
      .at = offsetof(round_options, ndigits),
      .min = -1000,
      .max = 1000,
      .doc = "places after the point; before it, if negative" },
    { 0 },
};

static int64_t zeros_of_decimal(const hr_bound_call *call, int64_t places)
{
    return (int64_t)call->input_types[0]->scale - places;
}

static void power_of_ten(const hr_bound_call *call, int64_t n, math_state *s)
{
    bool decimal = call->input_types[0]->id == HR_T_DECIMAL128;
    int64_t zeros = decimal ? call->input_types[0]->scale - n : -n;

    s->places = n;
    s->power = pow(10, (double)(n < 0 ? -n : n));
    s->unit = s->end = 1;
    for (int i = 0; decimal && i < call->input_types[0]->precision; i++)
        s->end *= 10;
    s->zeros = (int)HR_MAX(0, HR_MIN(zeros_of_decimal(call, n), 78));
    s->digits = call->input_types[0]->precision;
    for (; zeros > 0 && s->unit < (int128)1 << 120; zeros--) /* above this, every value rounds to 0 */
        s->unit *= 10;
}

/* The type that computes. NULL: none. */
static hr_type *computing_type(result_kind kind, hr_type *t)
{
    if (t->id == HR_T_NULL || t->id == HR_T_FLOAT32 || t->id == HR_T_FLOAT64)
        return t;
    if (t->id == HR_T_FLOAT16)
        return hr__type_simple(HR_T_FLOAT32);
    if (hr__type_is_decimal(t) && kind != AS_FLOAT)
        return t;
    if (t->id == HR_T_DURATION && (kind == AS_IT_IS || kind == AS_SIGN))
        return t;
    if (hr__type_is_int(t) && (kind == AS_IT_IS || kind == AS_SIGN))
        return t;
    if (hr__type_is_int(t) || (hr__type_is_decimal(t) && kind == AS_FLOAT))
        return hr__type_simple(HR_T_FLOAT64);
    return NULL;
}

static hr_type *result_type(result_kind kind, hr_type *computing)
{
    if (kind != AS_SIGN || computing->id == HR_T_NULL || hr__type_is_float(computing))
        return computing;
    return hr__type_simple(hr__type_is_decimal(computing) ? HR_T_INT64 : HR_T_INT8);
}

static hr_status math_bind(hr_bound_call *call, result_kind kind, kernel_row kernels, int64_t places, hr_error *err)
{
    hr_type *computing = computing_type(kind, call->input_types[0]);
    math_state *s;

    if (!computing)
        return hr__call_type_error(call, "expected a number; a cast may help", err);
    if (!(s = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    call->state = s;
    hr__call_cast(call, 0, computing);
    s->run = kernels[computing->id == HR_T_DURATION ? HR_T_INT64 : computing->id];
    call->type = hr__type_ref(result_type(kind, computing));
    power_of_ten(call, places, s);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------- evaluation */

static hr_status refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t row, hr_error *err)
{
    hr_text value = { 0 }, type = { 0 };
    char place[HR_PLACE_BYTES];
    hr_status st;

    hr__array_print_some(a, row, 60, &value);
    hr__type_print(call->type, &type);
    st = hr_error_set(err, HR_BAD_DATA, "%s: %s(%.60s) does not fit %.60s; cast to a wider type first",
                      hr__eval_place(how, row, place), call->expr->function->name, value.data ? value.data : "?",
                      type.data ? type.data : "?");
    hr__text_clear(&value);
    hr__text_clear(&type);
    return st;
}

/* Handles rows without a result: an error, unless the row is null. */
static hr_status look_closer(const hr_bound_call *call, const hr_eval *how, const hr_array *a,
                             const hr_buffer *validity, hr_error *err)
{
    const math_state *s = call->state;
    const uint8_t *in = hr__array_values(a);
    const int bytes = hr__type_bytes(a->type);
    int128 spare[2];

    for (int64_t i = 0; i < how->n_rows; i++)
        if (hr__is_valid(validity, i) && !s->run(s, in + i * bytes, 1, spare))
            return refuse(call, how, a, i, err);
    return HR_OK;
}

static hr_status math_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                           hr_error *err)
{
    const math_state *s = call->state;
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null || call->type->id == HR_T_NULL)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__buffer_new(how->mem, how->n_rows * hr__type_bytes(call->type), &made, err));
    if (how->n_rows && !s->run(s, hr__array_values(args[0]), how->n_rows, made->data))
        HR_GO(look_closer(call, how, args[0], validity, err));
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ power */

typedef struct power_state {
    hr_type_id machine;
} power_state;

/* Powers by squaring. false: the result does not fit, or the exponent is negative. */
#define HR_X(name, T)                                                                                                  \
    static bool power_##name(T base, T exponent, T *out)                                                               \
    {                                                                                                                  \
        T y = 1;                                                                                                       \
        bool over = exponent < 0;                                                                                      \
                                                                                                                       \
        for (; exponent > 0; exponent = (T)(exponent / 2)) {                                                           \
            if (exponent % 2)                                                                                          \
                over |= __builtin_mul_overflow(y, base, &y);                                                           \
            if (exponent > 1)                                                                                          \
                over |= __builtin_mul_overflow(base, base, &base);                                                     \
        }                                                                                                              \
        *out = y;                                                                                                      \
        return !over;                                                                                                  \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
SIGNED(HR_X)
UNSIGNED(HR_X)
#pragma GCC diagnostic pop
#undef HR_X

/* One value. */
static bool power_one(hr_type_id machine, const void *a, const void *b, void *out)
{
    switch (machine) {
#define HR_INT(id, name, T)                                                                                            \
    case id: return power_##name(*(const T *)a, *(const T *)b, out);
        HR_INT(HR_T_INT8, i8, int8_t)
        HR_INT(HR_T_INT16, i16, int16_t)
        HR_INT(HR_T_INT32, i32, int32_t)
        HR_INT(HR_T_INT64, i64, int64_t)
        HR_INT(HR_T_UINT8, u8, uint8_t)
        HR_INT(HR_T_UINT16, u16, uint16_t)
        HR_INT(HR_T_UINT32, u32, uint32_t)
        HR_INT(HR_T_UINT64, u64, uint64_t)
#undef HR_INT
    case HR_T_FLOAT32: *(float *)out = powf(*(const float *)a, *(const float *)b); return true;
    default: *(double *)out = pow(*(const double *)a, *(const double *)b); return true;
    }
}

static hr_status power_refuse(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, const int64_t at[2],
                              int64_t row, hr_error *err)
{
    hr_text a = { 0 }, b = { 0 }, type = { 0 };
    char place[HR_PLACE_BYTES];
    hr_status st;

    hr__array_print_some(args[0], at[0], 60, &a);
    hr__array_print_some(args[1], at[1], 60, &b);
    hr__type_print(call->type, &type);
    st = hr_error_set(err, HR_BAD_DATA, "%s: %.60s to the power of %.60s does not fit %.60s; cast to double first",
                      hr__eval_place(how, row, place), a.data ? a.data : "?", b.data ? b.data : "?",
                      type.data ? type.data : "?");
    hr__text_clear(&a);
    hr__text_clear(&b);
    hr__text_clear(&type);
    return st;
}

static hr_status power_bind(hr_bound_call *call, hr_error *err)
{
    hr_type **t = call->input_types, *common;
    power_state *s;

    for (int i = 0; i < 2; i++)
        if (!hr__type_is_number(t[i]) && !hr__type_is_decimal(t[i]) && t[i]->id != HR_T_NULL)
            return hr__call_type_error(call, "expected numbers; a cast may help", err);
    common = hr__call_common_number(call, 0, 1);
    if (!common && (hr__type_is_decimal(t[0]) || hr__type_is_decimal(t[1])))
        common = hr__type_simple(HR_T_FLOAT64);
    else if (!common && (t[0]->id == HR_T_NULL || t[1]->id == HR_T_NULL))
        common = t[t[0]->id == HR_T_NULL];
    else if (!common) /* uint64 with a signed one */
        common = hr__type_simple(HR_T_INT64);
    if (common->id == HR_T_FLOAT16)
        common = hr__type_simple(HR_T_FLOAT32);
    if (!(s = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, "power", sizeof *s);
    call->state = s;
    s->machine = common->id;
    for (int i = 0; i < 2; i++)
        hr__call_cast(call, i, common);
    call->type = hr__type_ref(common);
    return HR_OK;
}

static hr_status power_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    const power_state *s = call->state;
    const int64_t step[2] = { !call->constants[0], !call->constants[1] };
    const int bytes = hr__type_bytes(call->type);
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 2, &validity, &all_null, err));
    if (all_null || s->machine == HR_T_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    HR_GO(hr__buffer_new(how->mem, how->n_rows * bytes, &made, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        const int64_t at[2] = { i * step[0], i * step[1] };
        const uint8_t *a = hr__array_values(args[0]) + at[0] * bytes, *b = hr__array_values(args[1]) + at[1] * bytes;

        if (!power_one(s->machine, a, b, made->data + i * bytes) && hr__is_valid(validity, i))
            HR_GO(power_refuse(call, how, args, at, i, err));
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define FLOATS(fn) [HR_T_FLOAT32] = fn##_f32, [HR_T_FLOAT64] = fn##_f64
#define INTS(fn)                                                                                                       \
    [HR_T_INT8] = fn##_i8, [HR_T_UINT8] = fn##_u8, [HR_T_INT16] = fn##_i16, [HR_T_UINT16] = fn##_u16,                  \
    [HR_T_INT32] = fn##_i32, [HR_T_UINT32] = fn##_u32, [HR_T_INT64] = fn##_i64, [HR_T_UINT64] = fn##_u64
#define DECIMALS(fn) [HR_T_DECIMAL128] = fn##_dec, [HR_T_DECIMAL256] = fn##_wide

#define HR_X(fn, text)                                                                                                 \
    static hr_status fn##_bind(hr_bound_call *call, hr_error *err)                                                     \
    {                                                                                                                  \
        static kernel_row row = { FLOATS(fn) };                                                                        \
                                                                                                                       \
        return math_bind(call, AS_FLOAT, row, 0, err);                                                                 \
    }
PLAIN(HR_X)
#undef HR_X
#define HR_X(fn, text)                                                                                                 \
    static hr_status fn##_bind(hr_bound_call *call, hr_error *err)                                                     \
    {                                                                                                                  \
        static kernel_row row = { FLOATS(fn), DECIMALS(fn) };                                                          \
                                                                                                                       \
        return math_bind(call, AS_ROUND, row, 0, err);                                                                 \
    }
ROUNDING(HR_X)
#undef HR_X

static hr_status abs_bind(hr_bound_call *call, hr_error *err)
{
    static kernel_row row = { INTS(abs), FLOATS(abs), DECIMALS(abs) };

    return math_bind(call, AS_IT_IS, row, 0, err);
}

static hr_status sign_bind(hr_bound_call *call, hr_error *err)
{
    static kernel_row row = { INTS(sign), FLOATS(sign), DECIMALS(sign) };

    return math_bind(call, AS_SIGN, row, 0, err);
}

static hr_status round_bind(hr_bound_call *call, hr_error *err)
{
    static kernel_row row = { INTS(round), FLOATS(round), DECIMALS(round) };
    const round_options *o = call->expr->options;

    if (call->input_types[0]->id == HR_T_DURATION)
        return hr__call_type_error(call, "expected a number; a cast may help", err);
    return math_bind(call, AS_IT_IS, row, o->ndigits, err);
}

#define HR_ENTRY(fn, called, text, ...)                                                                                \
    { .name = called, .doc = text, .min_args = 1, .max_args = 1, .bind = fn##_bind, .eval = math_eval, __VA_ARGS__ }

const hr_expr_function hr__fn_math[] = {
    HR_ENTRY(abs, "abs", "the number without its sign", ),
    HR_ENTRY(sign, "sign", "-1, 0 or 1; NaN of NaN", ),
#define HR_X(fn, text) HR_ENTRY(fn, #fn, text, ),
    ROUNDING(HR_X)
#undef HR_X
        HR_ENTRY(round, "round", "the nearest number with `ndigits` places, half-way to the even one",
                 .options = round_settings, .options_bytes = sizeof(round_options)),
#define HR_X(fn, text) HR_ENTRY(fn, #fn, text, ),
    PLAIN(HR_X)
#undef HR_X
        {
            .name = "power",
            .doc = "the first number to the power of the second; of integers an integer",
            .min_args = 2,
            .max_args = 2,
            .takes_constants = true,
            .bind = power_bind,
            .eval = power_eval,
        },
    { 0 },
};
