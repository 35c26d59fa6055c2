/* fn_logic.c - and, or, xor, not with SQL's nulls, and the tests for null and NaN.
 *
 * A null means "unknown": false and null is false, true or null is true, everything else with a null is null. The loops
 * work on whole bytes of bits: a value and a validity bit a row. The value under a null is arbitrary; the formulas
 * never let a known result depend on it.
 *
 * Tests: test_prune.c, test_eval.c. */
#include "expr/fn.h"

#include <math.h>

/* A boolean column as two bitmaps that start at a bit 0. */
typedef struct bits {
    const uint8_t *value, *valid; /* valid NULL: all rows are valid */
    uint8_t *value_copy, *valid_copy;
} bits;

static hr_status bits_of(const hr_eval *how, const hr_array *a, bits *out, hr_error *err)
{
    *out = (bits){ 0 };
    HR_TRY(hr__aligned_bits(how, a->buffers[1]->data, a->offset, how->n_rows, &out->value, &out->value_copy, err));
    if (a->buffers[0] && hr__array_null_count(a))
        return hr__aligned_bits(how, a->buffers[0]->data, a->offset, how->n_rows, &out->valid, &out->valid_copy, err);
    return HR_OK;
}

static void bits_clear(bits *b)
{
    hr__free(b->value_copy);
    hr__free(b->valid_copy);
}

/* ----------------------------------------------------------------------------------------------------- and, or, xor */

typedef enum logic { AND, OR, XOR } logic;

static void values_run(logic what, const uint8_t *a, const uint8_t *b, int64_t n, uint8_t *out)
{
    switch (what) {
    case AND:
        for (int64_t i = 0; i < n; i++)
            out[i] = a[i] & b[i];
        break;
    case OR:
        for (int64_t i = 0; i < n; i++)
            out[i] = a[i] | b[i];
        break;
    case XOR:
        for (int64_t i = 0; i < n; i++)
            out[i] = a[i] ^ b[i];
        break;
    }
}

static inline uint8_t valid_at(const bits *b, int64_t i) { return b->valid ? b->valid[i] : 0xFF; }

/* The result is known if both sides are, or if one side decides alone (a false of AND, a true of OR). */
static void validity_run(logic what, const bits *a, const bits *b, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t x = valid_at(a, i), y = valid_at(b, i);
        uint8_t decides_a = (uint8_t)(what == XOR ? 0 : what == AND ? x & ~a->value[i] : x & a->value[i]);
        uint8_t decides_b = (uint8_t)(what == XOR ? 0 : what == AND ? y & ~b->value[i] : y & b->value[i]);

        out[i] = (uint8_t)((x & y) | decides_a | decides_b);
    }
}

/* If the other side of a null decides, the value must be that side's. */
static void decide_run(logic what, const bits *a, const bits *b, int64_t n, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        uint8_t x = valid_at(a, i), y = valid_at(b, i);

        if (what == AND)
            out[i] = (uint8_t)((a->value[i] | ~x) & (b->value[i] | ~y));
        else
            out[i] = (uint8_t)((a->value[i] & x) | (b->value[i] & y));
    }
}

static hr_status logic_eval(logic what, const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                            hr_array **out, hr_error *err)
{
    int64_t n = hr__bits_bytes(how->n_rows);
    hr_buffer *value = NULL, *valid = NULL;
    bits a = { 0 }, b = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__eval_bits(how, how->n_rows, &value, err));
    if (n) {
        HR_GO(bits_of(how, args[0], &a, err));
        HR_GO(bits_of(how, args[1], &b, err));
        values_run(what, a.value, b.value, n, value->data);
    }
    if (a.valid || b.valid) {
        HR_GO(hr__eval_bits(how, how->n_rows, &valid, err));
        validity_run(what, &a, &b, n, valid->data);
        if (what != XOR)
            decide_run(what, &a, &b, n, value->data);
    }
    st = hr__eval_array(call->type, how->n_rows, valid, value, NULL, out, err);
    valid = value = NULL; /* taken */
done:
    bits_clear(&a);
    bits_clear(&b);
    hr__buffer_unref(value);
    hr__buffer_unref(valid);
    return st;
}

static hr_status logic_bind(hr_bound_call *call, hr_error *err)
{
    for (int i = 0; i < call->n_inputs; i++) {
        if (call->input_types[i]->id == HR_T_NULL)
            hr__call_cast(call, i, hr__type_simple(HR_T_BOOL));
        else if (call->input_types[i]->id != HR_T_BOOL)
            return hr__call_type_error(call, "expected bool", err);
    }
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

/* The possible outcomes, over all possible pairs. */
static void logic_range(logic what, const hr_range *in, hr_range *out)
{
    static const unsigned bit[] = { HR_CAN_FALSE, HR_CAN_NULL, HR_CAN_TRUE }; /* 0, 1, 2: in the order of truth */
    unsigned can = 0;

    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            int r = what == AND ? HR_MIN(a, b) : what == OR ? HR_MAX(a, b) : a == 1 || b == 1 ? 1 : a != b ? 2 : 0;

            if ((in[0].truth & bit[a]) && (in[1].truth & bit[b]))
                can |= bit[r];
        }
    out->truth = can;
}

#define HR_LOGIC(name, what)                                                                                           \
    static hr_status name##_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out, \
                                 hr_error *err)                                                                        \
    {                                                                                                                  \
        return logic_eval(what, call, how, args, out, err);                                                            \
    }                                                                                                                  \
    static void name##_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)         \
    {                                                                                                                  \
        (void)call, (void)p;                                                                                           \
        logic_range(what, in, out);                                                                                    \
    }
HR_LOGIC(and, AND)
HR_LOGIC(or, OR)
HR_LOGIC(xor, XOR)

/* -------------------------------------------------------------------------------------------------------------- not */

static hr_status not_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                          hr_error *err)
{
    int64_t n = hr__bits_bytes(how->n_rows);
    hr_buffer *value = NULL, *valid = NULL;
    bits a = { 0 };
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    HR_GO(hr__eval_bits(how, how->n_rows, &value, err));
    if (n)
        HR_GO(bits_of(how, args[0], &a, err));
    for (int64_t i = 0; i < n; i++)
        value->data[i] = (uint8_t)~a.value[i];
    HR_GO(hr__eval_validity(how, args, 1, &valid, &all_null, err));
    if (all_null) {
        st = hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    } else {
        st = hr__eval_array(call->type, how->n_rows, valid, value, NULL, out, err);
        valid = value = NULL; /* taken */
    }
done:
    bits_clear(&a);
    hr__buffer_unref(value);
    hr__buffer_unref(valid);
    return st;
}

static void not_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    unsigned t = in[0].truth;

    (void)call, (void)p;
    out->truth = (t & HR_CAN_NULL) | (t & HR_CAN_TRUE ? HR_CAN_FALSE : 0u) | (t & HR_CAN_FALSE ? HR_CAN_TRUE : 0u);
}

/* --------------------------------------------------------------------------------------------------- null, not null */

static hr_status null_bind(hr_bound_call *call, hr_error *err)
{
    (void)err;
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

static hr_status null_run(bool want_null, const hr_bound_call *call, const hr_eval *how, const hr_array *a,
                          hr_array **out, hr_error *err)
{
    int64_t n = hr__bits_bytes(how->n_rows);
    const uint8_t *valid = NULL;
    uint8_t *copy = NULL;
    hr_buffer *value = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__eval_bits(how, how->n_rows, &value, err));
    if (a->type->id == HR_T_NULL || !a->buffers[0]) {
        memset(value->data, (a->type->id == HR_T_NULL) == want_null ? 0xFF : 0, (size_t)n);
    } else if (n) {
        HR_GO(hr__aligned_bits(how, a->buffers[0]->data, a->offset, how->n_rows, &valid, &copy, err));
        for (int64_t i = 0; i < n; i++)
            value->data[i] = (uint8_t)(want_null ? ~valid[i] : valid[i]);
    }
    st = hr__eval_array(call->type, how->n_rows, NULL, value, NULL, out, err);
    value = NULL; /* taken */
done:
    hr__free(copy);
    hr__buffer_unref(value);
    return st;
}

static hr_status is_null_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                              hr_error *err)
{
    return null_run(true, call, how, args[0], out, err);
}

static hr_status is_not_null_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                                  hr_error *err)
{
    return null_run(false, call, how, args[0], out, err);
}

static unsigned null_truth(const hr_bound_call *call, const hr_range *in)
{
    if (call->input_types[0]->id == HR_T_BOOL)
        return (in->truth & HR_CAN_NULL ? HR_CAN_TRUE : 0u) | (in->truth & ~(unsigned)HR_CAN_NULL ? HR_CAN_FALSE : 0u);
    return (in->can_null ? HR_CAN_TRUE : 0u) | (in->can_value || in->can_nan ? HR_CAN_FALSE : 0u);
}

static void is_null_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    (void)p;
    out->truth = null_truth(call, in);
}

static void is_not_null_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    hr_range opposite = { .truth = null_truth(call, in) };

    not_range(call, p, &opposite, out);
}

/* -------------------------------------------------------------------------------------------------------------- NaN */

static hr_status nan_bind(hr_bound_call *call, hr_error *err)
{
    const hr_type *t = call->input_types[0];

    if (!hr__type_is_number(t) && t->id != HR_T_NULL)
        return hr__call_type_error(call, "expected a number", err);
    if (t->id != HR_T_FLOAT32)
        hr__call_cast(call, 0, hr__type_simple(HR_T_FLOAT64));
    call->type = hr__type_simple(HR_T_BOOL);
    return HR_OK;
}

static hr_status is_nan_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                             hr_error *err)
{
    const float *f = (const void *)hr__array_values(args[0]);
    const double *d = (const void *)hr__array_values(args[0]);
    bool is_float = args[0]->type->id == HR_T_FLOAT32, all_null;
    hr_buffer *value = NULL, *valid = NULL;
    hr_status st = HR_OK;
    uint8_t block[1024];

    *out = NULL;
    HR_GO(hr__eval_validity(how, args, 1, &valid, &all_null, err));
    if (all_null)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_GO(hr__eval_bits(how, how->n_rows, &value, err));
    for (int64_t i = 0; i < how->n_rows; i += HR_LEN(block)) {
        int64_t m = HR_MIN(HR_LEN(block), how->n_rows - i);

        for (int64_t k = 0; k < m; k++)
            block[k] = is_float ? f[i + k] != f[i + k] : d[i + k] != d[i + k];
        hr__pack_bits(block, m, value->data + i / 8);
    }
    st = hr__eval_array(call->type, how->n_rows, valid, value, NULL, out, err);
    valid = value = NULL; /* taken */
done:
    hr__buffer_unref(value);
    hr__buffer_unref(valid);
    return st;
}

static void is_nan_range(const hr_bound_call *call, const hr_pruner *p, const hr_range *in, hr_range *out)
{
    (void)call, (void)p;
    out->truth =
        (in->can_nan ? HR_CAN_TRUE : 0u) | (in->can_value ? HR_CAN_FALSE : 0u) | (in->can_null ? HR_CAN_NULL : 0u);
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_ENTRY(fn, sign, n, binder, text)                                                                            \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .symbol = sign,                                                                                                \
        .doc = text,                                                                                                   \
        .min_args = n,                                                                                                 \
        .max_args = n,                                                                                                 \
        .bind = binder,                                                                                                \
        .eval = fn##_eval,                                                                                             \
        .range = fn##_range,                                                                                           \
        .takes_objects = (binder) == null_bind,                                                                        \
    }

const hr_expr_function hr__fn_logic[] = {
    HR_ENTRY(and, "&", 2, logic_bind, "both are true; false if one is false, even if the other is null"),
    HR_ENTRY(or, "|", 2, logic_bind, "at least one is true; true if one is true, even if the other is null"),
    HR_ENTRY(xor, "^", 2, logic_bind, "exactly one is true"),
    HR_ENTRY(not, "~", 1, logic_bind, "true for false, false for true"),
    HR_ENTRY(is_null, NULL, 1, null_bind, "the value is null; the result is never null"),
    HR_ENTRY(is_not_null, NULL, 1, null_bind, "the value is not null; the result is never null"),
    HR_ENTRY(is_nan, NULL, 1, nan_bind, "the number is NaN"),
    { 0 },
};
