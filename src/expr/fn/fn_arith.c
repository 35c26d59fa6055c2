/* fn_arith.c - + - * / // % and negation, with Python's meaning of // and %.
 *
 * The binder casts the operands to one type first; then one loop computes. Integer results that do not fit are an
 * error: the loop notes "some value overflowed", and a second loop checks whether that value was valid. / is always a
 * division of floats. // and % of integers by zero are null; floats follow IEEE.
 *
 * arith_decimal.c computes decimals. Times: timestamp - timestamp, timestamp +- duration, duration +- duration,
 * duration * integer, in the finer of the units.
 *
 * Tests: test_eval.c. */
#include "expr/fn.h"

#include <inttypes.h>
#include <math.h>

#define INTS(X)                                                                                                        \
    X(i8, int8_t)                                                                                                      \
    X(u8, uint8_t)                                                                                                     \
    X(i16, int16_t)                                                                                                    \
    X(u16, uint16_t)                                                                                                   \
    X(i32, int32_t)                                                                                                    \
    X(u32, uint32_t)                                                                                                   \
    X(i64, int64_t)                                                                                                    \
    X(u64, uint64_t)
#define FLOATS(X)                                                                                                      \
    X(f32, float, f)                                                                                                   \
    X(f64, double, )

/* -> whether all results fit and no divisor was 0. A constant operand has step 0. */
typedef bool arith_fn(const void *a, const void *b, int64_t step_a, int64_t step_b, int64_t n, void *out);

/* ---------------------------------------------------------------------------------------------------------- kernels */

/* Three loops, so that each can be vectorised: arrays, a constant on the right, a constant on the left. */
#define LOOPS(T, ...)                                                                                                  \
    {                                                                                                                  \
        const T *a = pa, *b = pb;                                                                                      \
        T *y = out;                                                                                                    \
        unsigned bad = 0;                                                                                              \
                                                                                                                       \
        if (step_a && step_b)                                                                                          \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T l = a[i], r = b[i];                                                                            \
                T v;                                                                                                   \
                __VA_ARGS__;                                                                                           \
                y[i] = v;                                                                                              \
            }                                                                                                          \
        else if (step_a)                                                                                               \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T l = a[i], r = *b;                                                                              \
                T v;                                                                                                   \
                __VA_ARGS__;                                                                                           \
                y[i] = v;                                                                                              \
            }                                                                                                          \
        else                                                                                                           \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T l = *a, r = b[i * step_b];                                                                     \
                T v;                                                                                                   \
                __VA_ARGS__;                                                                                           \
                y[i] = v;                                                                                              \
            }                                                                                                          \
        return !bad;                                                                                                   \
    }
#define KERNEL(name, what, T, ...)                                                                                     \
    static bool what##_##name(const void *pa, const void *pb, int64_t step_a, int64_t step_b, int64_t n, void *out)    \
        LOOPS(T, __VA_ARGS__)

/* Rounds down, where C rounds towards zero. `bad` notes a divisor of 0, and the one quotient that does not fit. */
#define DIVISION(T, quotient)                                                                                          \
    {                                                                                                                  \
        const bool minus = (T) - 1 < 0 && r == (T) - 1;                                                                \
        const T d = r == 0 || minus ? 1 : r;                                                                           \
        T q = (T)(l / d), m = (T)(l % d), opposite;                                                                    \
        const bool over = __builtin_sub_overflow((T)0, l, &opposite);                                                  \
                                                                                                                       \
        if (m != 0 && ((m < 0) != (d < 0))) {                                                                          \
            q--;                                                                                                       \
            m = (T)(m + d);                                                                                            \
        }                                                                                                              \
        if (minus)                                                                                                     \
            q = opposite;                                                                                              \
        bad |= r == 0 || (minus && over && (quotient));                                                                \
        v = (quotient) ? q : m;                                                                                        \
    }

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits"
#define HR_X(name, T)                                                                                                  \
    KERNEL(name, add, T, bad |= __builtin_add_overflow(l, r, &v))                                                      \
    KERNEL(name, subtract, T, bad |= __builtin_sub_overflow(l, r, &v))                                                 \
    KERNEL(name, multiply, T, bad |= __builtin_mul_overflow(l, r, &v))                                                 \
    KERNEL(name, floor_divide, T, DIVISION(T, 1))                                                                      \
    KERNEL(name, modulo, T, DIVISION(T, 0))
INTS(HR_X)
#undef HR_X
#pragma GCC diagnostic pop

/* Divides by a constant of 2 or more without the machine's division: multiplies by the reciprocal, which is wrong by at
 * most one, as the remainder shows. Doubles hold values up to 2^52; larger ones are divided. */
#define HR_X(name, T)                                                                                                  \
    static void by_constant_##name(const T *a, T d, int64_t n, bool quotient, T *y)                                    \
    {                                                                                                                  \
        const double reciprocal = 1.0 / (double)d;                                                                     \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const int64_t l = a[i];                                                                                    \
            const bool small = l > -(INT64_C(1) << 52) && l < INT64_C(1) << 52;                                        \
            int64_t q = small ? (int64_t)((double)l * reciprocal) : l / d, m = l - q * d;                              \
                                                                                                                       \
            q -= m < 0;                                                                                                \
            m += m < 0 ? d : 0;                                                                                        \
            q -= m < 0; /* rounded towards zero, and off by one */                                                     \
            m += m < 0 ? d : 0;                                                                                        \
            q += m >= d;                                                                                               \
            m -= m >= d ? d : 0;                                                                                       \
            y[i] = (T)(quotient ? q : m);                                                                              \
        }                                                                                                              \
    }
HR_X(i32, int32_t)
HR_X(i64, int64_t)
#undef HR_X

/* As Python's divmod: the remainder has the divisor's sign, the quotient is the matching whole number. */
static double floor_quotient(double l, double r)
{
    double m, q;

    if (r == 0)
        return l / r;
    m = fmod(l, r);
    q = (l - m) / r;
    if (m != 0 && (r < 0) != (m < 0))
        q -= 1;
    if (q == 0)
        return copysign(0, l / r);
    return q - floor(q) > 0.5 ? floor(q) + 1 : floor(q);
}

static double remainder_of(double l, double r)
{
    double m = fmod(l, r);

    if (m == 0)
        return copysign(0, r);
    return r != 0 && (r < 0) != (m < 0) ? m + r : m;
}

#define HR_X(name, T, suffix)                                                                                          \
    KERNEL(name, add, T, v = l + r)                                                                                    \
    KERNEL(name, subtract, T, v = l - r)                                                                               \
    KERNEL(name, multiply, T, v = l * r)                                                                               \
    KERNEL(name, divide, T, v = l / r)                                                                                 \
    KERNEL(name, floor_divide, T, v = (T)floor_quotient((double)l, (double)r))                                         \
    KERNEL(name, modulo, T, v = (T)remainder_of((double)l, (double)r))
FLOATS(HR_X)
#undef HR_X

static arith_fn *const kernels[HR_N_TYPES][HR_N_ARITH_OPS] = {
#define INT_ROW(id, name)                                                                                              \
    [id] = { add_##name, subtract_##name, multiply_##name, NULL, floor_divide_##name, modulo_##name },
#define FLOAT_ROW(id, name)                                                                                            \
    [id] = { add_##name, subtract_##name, multiply_##name, divide_##name, floor_divide_##name, modulo_##name },
    INT_ROW(HR_T_INT8, i8) INT_ROW(HR_T_UINT8, u8) INT_ROW(HR_T_INT16, i16) INT_ROW(HR_T_UINT16, u16)
        INT_ROW(HR_T_INT32, i32) INT_ROW(HR_T_UINT32, u32) INT_ROW(HR_T_INT64, i64) INT_ROW(HR_T_UINT64, u64)
            FLOAT_ROW(HR_T_FLOAT32, f32) FLOAT_ROW(HR_T_FLOAT64, f64)
};

static const char *const op_signs[HR_N_ARITH_OPS] = { "+", "-", "*", "/", "//", "%" };

/* ------------------------------------------------------------------------------------------------------- evaluation */

static bool is_int(hr_type_id id) { return id >= HR_T_INT8 && id <= HR_T_UINT64; }

static bool is_zero(const uint8_t *p, int bytes)
{
    static const uint8_t zero[8] = { 0 };

    return !memcmp(p, zero, (size_t)bytes);
}

hr_status hr__arith_overflow(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                             const int64_t at[2], int64_t row, hr_error *err)
{
    hr_text a = { 0 }, b = { 0 }, type = { 0 }, whole = { 0 };
    char place[HR_PLACE_BYTES];
    hr_status st;

    hr__expr_print(call->expr, &whole);
    hr__array_print_some(args[0], at[0], 60, &a);
    hr__array_print_some(args[1], at[1], 60, &b);
    hr__type_print(call->type, &type);
    st = hr_error_set(err, HR_BAD_DATA, "%s: %.60s %s %.60s does not fit %.60s in %.200s; cast to a wider type first",
                      hr__eval_place(how, row, place), a.data ? a.data : "?", op_signs[op], b.data ? b.data : "?",
                      type.data ? type.data : "?", whole.data ? whole.data : "?");
    hr__text_clear(&whole);
    hr__text_clear(&a);
    hr__text_clear(&b);
    hr__text_clear(&type);
    return st;
}

/* Handles bad rows: a division by zero becomes null, an overflow is an error, unless the row is null. */
static hr_status look_closer(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                             const uint8_t *values[2], const int64_t step[2], hr_buffer **validity, hr_error *err)
{
    const hr_arith_state *s = call->state;
    const int bytes = hr__type_bytes(args[0]->type);
    hr_buffer *mine = NULL;
    uint64_t spare;

    for (int64_t i = 0; i < how->n_rows; i++) {
        const int64_t at[2] = { i * step[0], i * step[1] };
        const uint8_t *l = values[0] + at[0] * bytes, *r = values[1] + at[1] * bytes;

        if (!hr__is_valid(*validity, i) || kernels[s->machine][op](l, r, 1, 1, 1, &spare))
            continue;
        if (op < HR_FLOOR_DIVIDE || !is_zero(r, bytes))
            return hr__arith_overflow(call, op, how, args, at, i, err);
        if (!mine) {
            HR_TRY(hr__eval_bits(how, how->n_rows, &mine, err));
            if (*validity)
                memcpy(mine->data, (*validity)->data, (size_t)hr__bits_bytes(how->n_rows));
            else
                memset(mine->data, 0xFF, (size_t)hr__bits_bytes(how->n_rows));
            hr__buffer_unref(*validity);
            *validity = mine;
        }
        hr__bit_clear(mine->data, i);
    }
    return HR_OK;
}

/* Computes a division of int32 or int64 by a constant of 2 or more; false: it is another one. */
static bool by_constant(hr_arith_op op, hr_type_id machine, const uint8_t *const values[2], const int64_t step[2],
                        int64_t n, void *out)
{
    const bool quotient = op == HR_FLOOR_DIVIDE;
    int64_t d = 0;

    if ((op != HR_FLOOR_DIVIDE && op != HR_MODULO) || step[1] || !step[0])
        return false;
    if (machine == HR_T_INT64)
        memcpy(&d, values[1], 8);
    else if (machine == HR_T_INT32)
        d = *(const int32_t *)(const void *)values[1];
    if (d < 2)
        return false;
    if (machine == HR_T_INT64)
        by_constant_i64((const int64_t *)(const void *)values[0], d, n, quotient, out);
    else
        by_constant_i32((const int32_t *)(const void *)values[0], (int32_t)d, n, quotient, out);
    return true;
}

static hr_status arith_eval(hr_arith_op op, const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                            hr_array **out, hr_error *err)
{
    const hr_arith_state *s = call->state;
    const uint8_t *values[2];
    const int64_t step[2] = { !call->constants[0], !call->constants[1] };
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    if (!s)
        return hr__concat_eval(call, how, args, out, err);
    HR_TRY(hr__eval_validity(how, args, 2, &validity, &all_null, err));
    if (all_null || s->machine == HR_T_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    HR_GO(hr__buffer_new(how->mem, how->n_rows * hr__type_bytes(call->type), &made, err));
    for (int i = 0; i < 2; i++)
        values[i] = hr__array_values(args[i]);
    if (s->machine == HR_T_DECIMAL128 || s->machine == HR_T_DECIMAL256)
        HR_GO(hr__decimal_arith(call, op, how, args, &validity, made->data, err));
    else if (how->n_rows && !by_constant(op, s->machine, values, step, how->n_rows, made->data) &&
             !kernels[s->machine][op](values[0], values[1], step[0], step[1], how->n_rows, made->data))
        HR_GO(look_closer(call, op, how, args, values, step, &validity, err));
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- binding */

static hr_status set_machine(hr_bound_call *call, hr_type_id id, hr_type *type, hr_error *err)
{
    hr_arith_state *s = hr__zalloc(NULL, sizeof *s);

    if (!s)
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    s->machine = id;
    call->state = s;
    call->type = hr__type_ref(type);
    return HR_OK;
}

/* The type that computes: float32 for halves; int64 for uint64 with a signed integer, if the value fits. */
static hr_type *machine_type(hr_type *t)
{
    if (!t)
        return hr__type_simple(HR_T_INT64);
    return t->id == HR_T_FLOAT16 ? hr__type_simple(HR_T_FLOAT32) : t;
}

static hr_status bind_numbers(hr_bound_call *call, hr_arith_op op, hr_error *err)
{
    hr_type *common = machine_type(hr__call_common_number(call, 0, 1));

    if (op == HR_DIVIDE && hr__type_is_int(common))
        common = hr__type_simple(HR_T_FLOAT64);
    hr__call_cast(call, 0, common);
    hr__call_cast(call, 1, common);
    return set_machine(call, common->id, common, err);
}

static bool is_numeric(const hr_type *t) { return hr__type_is_number(t) || hr__type_is_decimal(t); }

/* One operand is a decimal; with a float it becomes a double. */
static hr_status bind_decimals(hr_bound_call *call, hr_arith_op op, hr_error *err)
{
    if (!hr__type_is_float(call->input_types[0]) && !hr__type_is_float(call->input_types[1]))
        return hr__decimal_arith_bind(call, op, err);
    for (int i = 0; i < 2; i++)
        hr__call_cast(call, i, hr__type_simple(HR_T_FLOAT64));
    return set_machine(call, HR_T_FLOAT64, hr__type_simple(HR_T_FLOAT64), err);
}

static bool is_time(const hr_type *t)
{
    return t->id == HR_T_TIMESTAMP || t->id == HR_T_DURATION || t->id == HR_T_DATE32 || t->id == HR_T_DATE64;
}

/* A time as itself in `unit`: dates become timestamps. *out is new. */
static hr_status time_in(const hr_type *t, hr_unit unit, hr_type **out, hr_error *err)
{
    return hr__type_unit(t->id == HR_T_DURATION ? HR_T_DURATION : HR_T_TIMESTAMP, unit, t->zone, out, err);
}

static hr_unit unit_of(const hr_type *t)
{
    return t->id == HR_T_DATE32 ? HR_SECOND : t->id == HR_T_DATE64 ? HR_MILLI : t->unit;
}

/* Binds + or - of two times. */
static hr_status bind_times(hr_bound_call *call, hr_arith_op op, hr_error *err)
{
    const hr_type *x = call->input_types[0], *y = call->input_types[1];
    bool span_x = x->id == HR_T_DURATION, span_y = y->id == HR_T_DURATION;
    hr_unit unit = HR_MAX(unit_of(x), unit_of(y));
    hr_type *a = NULL, *b = NULL, *span = NULL;
    hr_status st = HR_OK;

    if ((op == HR_ADD && !span_x && !span_y) || (op == HR_SUBTRACT && span_x && !span_y) ||
        (op != HR_ADD && op != HR_SUBTRACT) || (!span_x && !span_y && !x->zone != !y->zone))
        return hr__call_type_error(call, "these times have no such operation", err);
    HR_GO(time_in(x, unit, &a, err));
    HR_GO(time_in(y, unit, &b, err));
    HR_GO(hr__type_unit(HR_T_DURATION, unit, NULL, &span, err));
    hr__call_cast(call, 0, a);
    hr__call_cast(call, 1, b);
    st = set_machine(call, HR_T_INT64, span_x && !span_y ? b : !span_x && span_y ? a : span, err);
done:
    hr__type_unref(a);
    hr__type_unref(b);
    hr__type_unref(span);
    return st;
}

/* duration * integer, integer * duration, duration // integer */
static hr_status bind_span(hr_bound_call *call, hr_arith_op op, hr_error *err)
{
    int span = call->input_types[0]->id == HR_T_DURATION ? 0 : 1;

    if (call->input_types[span]->id != HR_T_DURATION || !hr__type_is_int(call->input_types[1 - span]) ||
        !(op == HR_MULTIPLY || (op == HR_FLOOR_DIVIDE && span == 0)))
        return hr__call_type_error(call, "these types have no such operation", err);
    hr__call_cast(call, 1 - span, hr__type_simple(HR_T_INT64));
    return set_machine(call, HR_T_INT64, call->input_types[span], err);
}

static hr_status arith_bind(hr_arith_op op, hr_bound_call *call, hr_error *err)
{
    hr_type **t = call->input_types;

    if (t[0]->id == HR_T_NULL && t[1]->id == HR_T_NULL)
        return set_machine(call, HR_T_NULL, t[0], err);
    for (int i = 0; i < 2; i++)
        if (t[i]->id == HR_T_NULL && (is_numeric(t[1 - i]) || is_time(t[1 - i]))) {
            hr_type *type = op == HR_DIVIDE && hr__type_is_int(t[1 - i]) ? hr__type_simple(HR_T_FLOAT64)
                            : hr__type_is_number(t[1 - i])               ? machine_type(t[1 - i])
                                                                         : t[1 - i];

            hr__call_cast(call, i, type);
            hr__call_cast(call, 1 - i, type);
            return set_machine(call, HR_T_NULL, type, err);
        }
    if (hr__type_is_number(t[0]) && hr__type_is_number(t[1]))
        return bind_numbers(call, op, err);
    if (is_numeric(t[0]) && is_numeric(t[1]))
        return bind_decimals(call, op, err);
    if (is_time(t[0]) && is_time(t[1]))
        return bind_times(call, op, err);
    if (is_time(t[0]) || is_time(t[1]))
        return bind_span(call, op, err);
    if (op == HR_ADD && (hr__type_is_bytes(t[0]) || hr__type_is_bytes(t[1])))
        return hr__concat_bind(call, err);
    return hr__call_type_error(call, "expected numbers; a cast may help", err);
}

/* --------------------------------------------------------------------------------------------------------- negation */

static hr_status negate_bind(hr_bound_call *call, hr_error *err)
{
    hr_type *t = call->input_types[0];

    if (t->id != HR_T_NULL && !hr__type_is_signed(t) && !hr__type_is_float(t) && !hr__type_is_decimal(t) &&
        t->id != HR_T_DURATION)
        return hr__call_type_error(call, "expected a signed number; a cast may help", err);
    if (t->id == HR_T_FLOAT16) {
        t = hr__type_simple(HR_T_FLOAT32);
        hr__call_cast(call, 0, t);
    }
    return set_machine(call, t->id == HR_T_DURATION ? HR_T_INT64 : t->id, t, err);
}

static hr_status negate_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    const hr_arith_state *s = call->state;
    const uint64_t zero = 0;
    const uint8_t *values[2] = { (const uint8_t *)&zero, NULL };
    const int64_t step[2] = { 0, 1 };
    hr_array *both[2] = { args[0], args[0] };
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_TRY(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null || s->machine == HR_T_NULL) {
        hr__buffer_unref(validity);
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    }
    HR_GO(hr__buffer_new(how->mem, how->n_rows * hr__type_bytes(call->type), &made, err));
    values[1] = hr__array_values(args[0]);
    if (hr__type_is_decimal(call->type)) {
        hr__decimal_negate(args[0], how->n_rows, made->data);
    } else if (how->n_rows && is_int(s->machine)) {
        if (!kernels[s->machine][HR_SUBTRACT](values[0], values[1], 0, 1, how->n_rows, made->data))
            HR_GO(look_closer(call, HR_SUBTRACT, how, both, values, step, &validity, err));
    } else if (how->n_rows) { /* 0.0 - 0.0 would lose the sign */
        const double minus = -1;
        const float minus_f = -1;

        kernels[s->machine][HR_MULTIPLY](values[1], s->machine == HR_T_FLOAT32 ? (const void *)&minus_f : &minus, 1, 0,
                                         how->n_rows, made->data);
    }
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_ARITH(name, op)                                                                                             \
    static hr_status name##_bind(hr_bound_call *call, hr_error *err) { return arith_bind(op, call, err); }             \
    static hr_status name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out, \
                                 hr_error *err)                                                                        \
    {                                                                                                                  \
        return arith_eval(op, call, how, args, out, err);                                                              \
    }
HR_ARITH(add, HR_ADD)
HR_ARITH(subtract, HR_SUBTRACT)
HR_ARITH(multiply, HR_MULTIPLY)
HR_ARITH(divide, HR_DIVIDE)
HR_ARITH(floor_divide, HR_FLOOR_DIVIDE)
HR_ARITH(modulo, HR_MODULO)

#define HR_ENTRY(fn, sign, n, text)                                                                                    \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .symbol = sign,                                                                                                \
        .doc = text,                                                                                                   \
        .min_args = n,                                                                                                 \
        .max_args = n,                                                                                                 \
        .takes_constants = true,                                                                                       \
        .bind = fn##_bind,                                                                                             \
        .eval = fn##_eval,                                                                                             \
    }

const hr_expr_function hr__fn_arith[] = {
    HR_ENTRY(add, "+", 2, "the sum, of timestamp and duration too; of texts the concatenation"),
    HR_ENTRY(subtract, "-", 2, "the difference; of two timestamps a duration"),
    HR_ENTRY(multiply, "*", 2, "the product"),
    HR_ENTRY(divide, "/", 2, "the quotient as a float; of integers a double; of decimals a decimal"),
    HR_ENTRY(floor_divide, "//", 2, "the quotient rounded down; null for an integer divided by 0"),
    HR_ENTRY(modulo, "%", 2, "the remainder, with the sign of the divisor; null for an integer modulo 0"),
    HR_ENTRY(negate, "-", 1, "the number with the opposite sign"),
    { 0 },
};
