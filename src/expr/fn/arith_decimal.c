/* arith_decimal.c - + - * / // % and negation of decimals, and decimals of 32 bytes for fn_math.c.
 *
 * The type of a result is that of Arrow's kernels. Where Arrow refuses, because the type would need too many digits, it
 * has the most digits, and a value that needs more is an error that names the row. Integers count as decimals without
 * places, plain constants have as many digits as they need. / cuts off after its places, as Arrow; a division by 0 is
 * null, as elsewhere.
 *
 * Rows of 16 bytes with small numbers are computed with the machine's 128 bits, all others exactly by
 * base/decimal.h. */
#include "base/decimal.h"
#include "expr/fn.h"

__extension__ typedef unsigned __int128 uint128;

typedef enum outcome { FINE, OVERFLOW, BY_ZERO } outcome;

enum { MOST_SCALE = 1000 }; /* the largest scale of an operand, so that sums of scales stay small */

/* ---------------------------------------------------------------------------------------------------------- binding */

typedef struct shape {
    int64_t precision, scale;
} shape;

int hr__digits_of_int(const hr_type *t)
{
    static const int digits[] = { [HR_T_INT8] = 3,   [HR_T_UINT8] = 3,   [HR_T_INT16] = 5,  [HR_T_UINT16] = 5,
                                  [HR_T_INT32] = 10, [HR_T_UINT32] = 10, [HR_T_INT64] = 19, [HR_T_UINT64] = 20 };

    return digits[t->id];
}

static shape shape_of(const hr_bound_call *call, int i)
{
    const hr_type *t = call->input_types[i];
    shape s = { .precision = t->precision, .scale = t->scale };

    if (hr__type_is_decimal(t))
        return s;
    s = (shape){ .precision = hr__digits_of_int(t) };
    if (call->weak[i] && !hr__array_is_null(call->constants[i], 0)) {
        hr_wide v = hr__wide_int(hr__array_int(call->constants[i], 0));

        for (s.precision = 1; !hr__wide_has_digits(&v, (int)s.precision);)
            s.precision++;
    }
    return s;
}

/* Arrow's type for the two, perhaps with more digits than a decimal can have. */
static shape result_shape(hr_arith_op op, shape a, shape b)
{
    const int64_t scale = HR_MAX(a.scale, b.scale), whole = HR_MAX(a.precision - a.scale, b.precision - b.scale);
    shape s;

    switch (op) {
    case HR_ADD:
    case HR_SUBTRACT: return (shape){ whole + 1 + scale, scale };
    case HR_MULTIPLY: return (shape){ a.precision + b.precision + 1, a.scale + b.scale };
    case HR_MODULO: return (shape){ whole + scale, scale };
    case HR_FLOOR_DIVIDE: /* rounding down can carry: -9.1 // 1 is -10 */
        return (shape){ HR_MAX(1, a.precision - a.scale + b.scale + (a.scale > b.scale)), 0 };
    default:
        s.scale = HR_MAX(4, a.scale + b.precision - b.scale + 1);
        s.precision = a.precision - a.scale + b.scale + s.scale;
        return s;
    }
}

/* The number of places by which each operand is scaled up first. */
static void set_scaling(hr_arith_state *s, hr_arith_op op, shape a, shape b, shape result)
{
    const int64_t scale = HR_MAX(a.scale, b.scale);

    if (op == HR_DIVIDE) {
        s->up[0] = (int)(result.scale + b.scale - a.scale);
    } else if (op != HR_MULTIPLY) {
        s->up[0] = (int)(scale - a.scale);
        s->up[1] = (int)(scale - b.scale);
    }
    s->digits_in[0] = (int)a.precision;
    s->digits_in[1] = (int)b.precision;
}

static hr_status as_decimals(hr_bound_call *call, const shape of[2], bool wide, hr_error *err)
{
    for (int i = 0; i < 2; i++) {
        hr_type *t = NULL;

        if (hr__type_is_decimal(call->input_types[i]))
            continue;
        HR_TRY(hr__type_decimal(wide ? HR_T_DECIMAL256 : HR_T_DECIMAL128, (int32_t)of[i].precision, 0, &t, err));
        hr__call_cast(call, i, t);
        hr__type_unref(t);
    }
    return HR_OK;
}

hr_status hr__decimal_arith_bind(hr_bound_call *call, hr_arith_op op, hr_error *err)
{
    const shape in[2] = { shape_of(call, 0), shape_of(call, 1) };
    const bool wide = call->input_types[0]->id == HR_T_DECIMAL256 || call->input_types[1]->id == HR_T_DECIMAL256;
    const int most = wide ? 76 : 38;
    shape result = result_shape(op, in[0], in[1]);
    hr_arith_state *s;
    hr_text why = { 0 };
    hr_status st;

    for (int i = 0; i < 2; i++)
        if (in[i].scale > MOST_SCALE || in[i].scale < -MOST_SCALE)
            return hr__call_type_error(call, "expected a decimal of fewer places; a cast may help", err);
    if (result.scale > most || result.precision - result.scale > 10000) {
        hr__text_add(
            &why,
            "the result would have %d places, expected at most %d; cast to fewer digits, to decimal256 or to double",
            (int)result.scale, most);
        st = hr__call_type_error(call, why.failed ? "too many places" : why.data, err);
        hr__text_clear(&why);
        return st;
    }
    HR_TRY(as_decimals(call, in, wide, err));
    if (!(s = hr__zalloc(NULL, sizeof *s)))
        return hr__error_memory(err, call->expr->function->name, sizeof *s);
    call->state = s;
    s->machine = wide ? HR_T_DECIMAL256 : HR_T_DECIMAL128;
    s->digits = (int)HR_MIN(most, HR_MAX(1, result.precision));
    set_scaling(s, op, in[0], in[1], result);
    s->narrow = !wide && s->digits_in[0] + s->up[0] <= 38 && s->digits_in[1] + s->up[1] <= 38;
    return hr__type_decimal(s->machine, s->digits, (int32_t)result.scale, &call->type, err);
}

/* --------------------------------------------------------------------------------------------------------- 128 bits */

typedef struct narrow {
    int128 end[2], ten[2], end_out; /* for each operand: the least number with too many digits, and its factor */
} narrow;

static inline int128 load_narrow(const uint8_t *p)
{
    int128 v;

    memcpy(&v, p, sizeof v);
    return v;
}

static inline bool is_within(int128 v, int128 end) { return v < end && v > -end; }
static inline bool is_small(int128 v) { return v == (int64_t)v; }

static inline int128 quotient_of(int128 l, int128 r)
{
    return is_small(l) && is_small(r) && r != -1 ? (int64_t)l / (int64_t)r : l / r;
}

/* true: done. false: the caller computes with wide numbers. */
static inline bool narrow_row(hr_arith_op op, const narrow *c, const uint8_t *a, const uint8_t *b, uint8_t *out)
{
    int128 l = load_narrow(a), r = load_narrow(b), v;

    if (!is_within(l, c->end[0]) || !is_within(r, c->end[1]))
        return false;
    if (op != HR_MULTIPLY) {
        l *= c->ten[0];
        r *= c->ten[1];
    }
    switch (op) {
    case HR_ADD: v = (int128)((uint128)l + (uint128)r); break; /* below 2 * 10^38: a wrapped sum is not within 10^38 */
    case HR_SUBTRACT: v = (int128)((uint128)l - (uint128)r); break;
    case HR_MULTIPLY:
        if (!is_small(l) || !is_small(r))
            return false;
        v = l * r;
        break;
    default:
        if (r == 0)
            return false;
        v = quotient_of(l, r);
        if (op == HR_DIVIDE)
            break;
        l -= v * r; /* the remainder, with the sign of l */
        if (l != 0 && (l < 0) != (r < 0)) {
            v--;
            l += r;
        }
        v = op == HR_MODULO ? l : v;
    }
    memcpy(out, &v, sizeof v);
    return is_within(v, c->end_out);
}

/* --------------------------------------------------------------------------------------------------------- any bits */

static outcome wide_divide(hr_arith_op op, hr_wide *l, const hr_wide *r, hr_wide *out)
{
    const hr_wide minus = hr__wide_int(-1);
    hr_wide rest;

    if (r->n == 0)
        return BY_ZERO;
    hr__wide_divide(l, r, out, &rest);
    if (op == HR_DIVIDE)
        return FINE;
    if (rest.n && rest.negative != r->negative) {
        hr__wide_add(out, &minus, out);
        hr__wide_add(&rest, r, &rest);
    }
    if (op == HR_MODULO)
        *out = rest;
    return FINE;
}

static outcome wide_row(hr_arith_op op, const hr_arith_state *s, const hr_array *const args[2], const uint8_t *a,
                        const uint8_t *b, uint8_t *out)
{
    hr_wide l = hr__wide_load(a, hr__type_bytes(args[0]->type)), r = hr__wide_load(b, hr__type_bytes(args[1]->type)), v;
    outcome o = FINE;
    bool fits = hr__wide_scale_up(&l, s->up[0]) && hr__wide_scale_up(&r, s->up[1]);

    if (!fits)
        return OVERFLOW;
    if (op == HR_ADD || op == HR_SUBTRACT) {
        if (op == HR_SUBTRACT)
            hr__wide_negate(&r);
        fits = hr__wide_add(&l, &r, &v);
    } else if (op == HR_MULTIPLY) {
        fits = hr__wide_multiply(&l, &r, &v);
    } else {
        o = wide_divide(op, &l, &r, &v);
    }
    if (o != FINE || !fits || !hr__wide_has_digits(&v, s->digits))
        return o != FINE ? o : OVERFLOW;
    hr__wide_store(&v, s->machine == HR_T_DECIMAL128 ? 16 : 32, out);
    return FINE;
}

/* ---------------------------------------------------------------------------------------------------- whole columns */

typedef struct running {
    const hr_bound_call *call;
    const hr_eval *how;
    const hr_array *args[2];
    narrow small;
    hr_buffer **validity;
    bool own;
    uint8_t *out;
} running;

static hr_status run_row(running *x, hr_arith_op op, int64_t i, const uint8_t *a, const uint8_t *b, hr_error *err)
{
    const hr_arith_state *s = x->call->state;
    uint8_t *out = x->out + i * hr__type_bytes(x->call->type);
    outcome o;

    memset(out, 0, (size_t)hr__type_bytes(x->call->type));
    if (!hr__is_valid(*x->validity, i) || (o = wide_row(op, s, x->args, a, b, out)) == FINE)
        return HR_OK;
    if (o == OVERFLOW) {
        const int64_t at[2] = { x->call->constants[0] ? 0 : i, x->call->constants[1] ? 0 : i };

        return hr__arith_overflow(x->call, op, x->how, (hr_array *const *)x->args, at, i, err);
    }
    if (!x->own)
        HR_TRY(hr__own_validity(x->how, x->validity, err));
    x->own = true;
    hr__bit_clear((*x->validity)->data, i);
    return HR_OK;
}

static inline hr_status run_rows(running *x, hr_arith_op op, hr_error *err)
{
    const hr_arith_state *s = x->call->state;
    const bool narrow_way = s->narrow;
    const uint8_t *values[2];
    int64_t step[2];

    for (int k = 0; k < 2; k++) {
        values[k] = hr__array_values(x->args[k]);
        step[k] = x->call->constants[k] ? 0 : hr__type_bytes(x->args[k]->type);
    }
    for (int64_t i = 0; i < x->how->n_rows; i++) {
        const uint8_t *a = values[0] + i * step[0], *b = values[1] + i * step[1];

        if (!narrow_way || !narrow_row(op, &x->small, a, b, x->out + 16 * i))
            HR_TRY(run_row(x, op, i, a, b, err));
    }
    return HR_OK;
}

static hr_status run_op(running *x, hr_arith_op op, hr_error *err)
{
    switch (op) { /* a loop for each operator: the compiler resolves the switch of a row */
    case HR_ADD: return run_rows(x, HR_ADD, err);
    case HR_SUBTRACT: return run_rows(x, HR_SUBTRACT, err);
    case HR_MULTIPLY: return run_rows(x, HR_MULTIPLY, err);
    case HR_DIVIDE: return run_rows(x, HR_DIVIDE, err);
    case HR_FLOOR_DIVIDE: return run_rows(x, HR_FLOOR_DIVIDE, err);
    default: return run_rows(x, HR_MODULO, err);
    }
}

hr_status hr__decimal_arith(const hr_bound_call *call, hr_arith_op op, const hr_eval *how, hr_array *const *args,
                            hr_buffer **validity, uint8_t *out, hr_error *err)
{
    const hr_arith_state *s = call->state;
    running x = { .call = call, .how = how, .args = { args[0], args[1] }, .validity = validity, .out = out };

    for (int k = 0; s->narrow && k < 2; k++) {
        x.small.end[k] = hr__power_of_ten(s->digits_in[k]);
        x.small.ten[k] = hr__power_of_ten(s->up[k]);
    }
    x.small.end_out = hr__power_of_ten(HR_MIN(38, s->digits));
    return run_op(&x, op, err);
}

void hr__decimal_negate(const hr_array *a, int64_t n, uint8_t *out)
{
    const int bytes = hr__type_bytes(a->type);

    for (int64_t i = 0; i < n; i++) {
        hr_wide v = hr__wide_load(hr__array_values(a) + i * bytes, bytes);

        hr__wide_negate(&v);
        hr__wide_store(&v, bytes, out + i * bytes);
    }
}

/* --------------------------------------------------------------------------------------------------------- rounding */

bool hr__decimal_round(hr_rounding how, const uint8_t *in, int bytes, int zeros, int digits, uint8_t *out)
{
    const hr_wide unit = hr__wide_power_of_ten(HR_MAX(0, HR_MIN(zeros, 78))), one = hr__wide_uint(1);
    hr_wide v = hr__wide_load(in, bytes), q, rest, step = one;
    const bool negative = v.negative;
    bool away = false;
    int order;

    hr__wide_divide(&v, &unit, &q, &rest);
    step.negative = negative;
    if (how == HR_ROUND_FLOOR)
        away = rest.n && negative;
    else if (how == HR_ROUND_CEIL)
        away = rest.n && !negative;
    else if (how == HR_ROUND_NEAREST) {
        rest.negative = false;
        hr__wide_add(&rest, &rest, &rest);
        order = hr__wide_order(&rest, &unit);
        away = order > 0 || (order == 0 && q.n && q.w[0] & 1);
    }
    if (away)
        hr__wide_add(&q, &step, &q);
    if (!hr__wide_multiply(&q, &unit, &v) || !hr__wide_has_digits(&v, digits))
        return false;
    hr__wide_store(&v, bytes, out);
    return true;
}
