/* fn_choose.c - one of several values: if_else, coalesce, least, greatest.
 *
 * The code first finds the input that each row takes, then fetches the values: fixed widths by one loop an input, other
 * types by joining the inputs and taking rows of the result. No input is lazy: an error in an input is an error, even
 * in rows that take another input. */
#include "expr/fn.h"

enum { NOBODY = 0xFF, MOST_INPUTS = 250 };

/* --------------------------------------------------------------------------------------------------------- fetching */

#define HR_X(T)                                                                                                        \
    static void fetch_##T(const uint8_t *which, uint8_t who, const void *from, bool constant, int64_t n, void *to)     \
    {                                                                                                                  \
        const T *a = from;                                                                                             \
        T *y = to;                                                                                                     \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            y[i] = which[i] == who ? a[constant ? 0 : i] : y[i];                                                       \
    }
HR_X(uint8_t)
HR_X(uint16_t)
HR_X(uint32_t)
HR_X(uint64_t)
#undef HR_X

static void fetch(const uint8_t *which, uint8_t who, const hr_array *a, bool constant, int64_t n, uint8_t *to)
{
    const uint8_t *from = hr__array_values(a);
    int bytes = hr__type_bytes(a->type);

    switch (bytes) {
    case 1: fetch_uint8_t(which, who, from, constant, n, to); break;
    case 2: fetch_uint16_t(which, who, from, constant, n, to); break;
    case 4: fetch_uint32_t(which, who, from, constant, n, to); break;
    case 8: fetch_uint64_t(which, who, from, constant, n, to); break;
    default:
        for (int64_t i = 0; i < n; i++)
            if (which[i] == who)
                memcpy(to + i * bytes, from + (constant ? 0 : i) * bytes, (size_t)bytes);
    }
}

static bool is_constant(const hr_bound_call *call, int i) { return call->constants[i] != NULL; }

/* Row i is valid if its chosen input is valid in that row. */
static hr_status chosen_validity(const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                                 const uint8_t *which, hr_buffer **out, hr_error *err)
{
    int64_t n_null = 0;

    HR_TRY(hr__eval_bits(how, how->n_rows, out, err));
    memset((*out)->data, 0xFF, (size_t)hr__bits_bytes(how->n_rows));
    for (int64_t i = 0; i < how->n_rows; i++)
        if (which[i] == NOBODY || hr__array_is_null(args[which[i]], is_constant(call, which[i]) ? 0 : i)) {
            hr__bit_clear((*out)->data, i);
            n_null++;
        }
    if (n_null == 0) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
    return HR_OK;
}

static hr_status choose_fixed(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, int first,
                              const uint8_t *which, hr_array **out, hr_error *err)
{
    hr_buffer *validity = NULL, *made = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(how->mem, how->n_rows * hr__type_bytes(call->type), &made, err));
    memset(made->data, 0, (size_t)made->n_bytes);
    for (int k = first; k < call->n_inputs; k++)
        if (how->n_rows)
            fetch(which, (uint8_t)k, args[k], is_constant(call, k), how->n_rows, made->data);
    HR_GO(chosen_validity(call, how, args, which, &validity, err));
    st = hr__eval_array(call->type, how->n_rows, validity, made, NULL, out, err);
    validity = made = NULL; /* taken */
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(made);
    return st;
}

static hr_status choose_any(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, int first,
                            const uint8_t *which, hr_array **out, hr_error *err)
{
    int64_t *rows = hr__alloc(how->mem->account, ((size_t)how->n_rows + 1) * sizeof *rows), before[MOST_INPUTS + 1];
    hr_array *all = NULL;
    hr_status st = HR_OK;

    if (!rows)
        HR_GO(hr__error_memory(err, call->expr->function->name, how->n_rows * (int64_t)sizeof *rows));
    before[first] = 0;
    for (int k = first; k < call->n_inputs; k++)
        before[k + 1] = before[k] + args[k]->length;
    for (int64_t i = 0; i < how->n_rows; i++)
        rows[i] = which[i] == NOBODY ? -1 : before[which[i]] + (is_constant(call, which[i]) ? 0 : i);
    HR_GO(hr__array_concat(how->mem, call->type, args + first, call->n_inputs - first, &all, err));
    st = hr__array_take(how->mem, all, rows, 8, how->n_rows, out, err);
done:
    hr__array_unref(all);
    hr__free(rows);
    return st;
}

/* Takes `which`. The choice is among the inputs from `first` on. */
static hr_status choose(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, int first, uint8_t *which,
                        hr_array **out, hr_error *err)
{
    hr_status st;

    if (hr__type_bytes(call->type))
        st = choose_fixed(call, how, args, first, which, out, err);
    else
        st = choose_any(call, how, args, first, which, out, err);
    hr__free(which);
    return st;
}

static hr_status which_new(const hr_bound_call *call, const hr_eval *how, uint8_t fill, uint8_t **out, hr_error *err)
{
    if (!(*out = hr__alloc(how->mem->account, (size_t)how->n_rows + 1)))
        return hr__error_memory(err, call->expr->function->name, how->n_rows);
    memset(*out, fill, (size_t)how->n_rows);
    return HR_OK;
}

static hr_status check_count(const hr_bound_call *call, hr_error *err)
{
    if (call->n_inputs <= MOST_INPUTS)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: %d arguments, expected at most %d", call->expr->function->name,
                        call->n_inputs, MOST_INPUTS);
}

/* -------------------------------------------------------------------------------------------------------- which one */

static hr_status if_else_bind(hr_bound_call *call, hr_error *err)
{
    if (call->input_types[0]->id == HR_T_NULL)
        hr__call_cast(call, 0, hr__type_simple(HR_T_BOOL));
    else if (call->input_types[0]->id != HR_T_BOOL)
        return hr__call_type_error(call, "expected a bool as the first argument", err);
    return hr__call_common(call, 1, &call->type, err);
}

static hr_status if_else_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                              hr_error *err)
{
    const hr_array *c = args[0];
    uint8_t *which;

    *out = NULL;
    HR_TRY(which_new(call, how, 2, &which, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        int64_t at = is_constant(call, 0) ? 0 : i;

        which[i] = hr__array_is_null(c, at) ? NOBODY : hr__bit(c->buffers[1]->data, c->offset + at) ? 1 : 2;
    }
    return choose(call, how, args, 1, which, out, err);
}

static hr_status coalesce_bind(hr_bound_call *call, hr_error *err)
{
    HR_TRY(check_count(call, err));
    return hr__call_common(call, 0, &call->type, err);
}

static hr_status coalesce_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                               hr_error *err)
{
    uint8_t *which;

    *out = NULL;
    HR_TRY(which_new(call, how, NOBODY, &which, err));
    for (int k = 0; k < call->n_inputs; k++)
        for (int64_t i = 0; i < how->n_rows; i++)
            if (which[i] == NOBODY && !hr__array_is_null(args[k], is_constant(call, k) ? 0 : i))
                which[i] = (uint8_t)k;
    return choose(call, how, args, 0, which, out, err);
}

/* --- the least and the greatest */

static hr_status extreme_bind(hr_bound_call *call, hr_error *err)
{
    hr_comparing *c = NULL;
    hr_type *common = NULL, **types = NULL;
    hr_status st = HR_OK;

    HR_TRY(check_count(call, err));
    HR_TRY(hr__call_common(call, 0, &common, err));
    call->type = common;
    if (common->id == HR_T_NULL)
        return HR_OK;
    if (common->id == HR_T_FLOAT16) { /* halves compute as float */
        call->type = hr__type_simple(HR_T_FLOAT32);
        for (int i = 0; i < call->n_inputs; i++)
            hr__call_cast(call, i, call->type);
    }
    /* two values of this type */
    types = (hr_type *[]){ call->type, call->type };
    {
        hr_type *casts[2] = { NULL, NULL };
        const hr_array *constants[2] = { NULL, NULL };
        bool weak[2] = { false, false };
        hr_bound_call pair = { .expr = call->expr,
                               .n_inputs = 2,
                               .input_types = types,
                               .casts = casts,
                               .constants = constants,
                               .weak = weak,
                               .schema = call->schema };

        st = hr__comparing_bind(&pair, 0, 1, &c, err);
    }
    call->state = c;
    return st;
}

/* Prefers a number to NaN, and NaN to null. */
static bool is_better(const hr_bound_call *call, hr_compare_op op, const hr_array *a, int64_t i, const hr_array *b,
                      int64_t k)
{
    const hr_comparing *c = call->state;

    if (hr__type_is_float(call->type) && !hr__comparing_one(c, HR_EQUAL, b, k, b, k))
        return hr__comparing_one(c, HR_EQUAL, a, i, a, i);
    return hr__comparing_one(c, op, a, i, b, k);
}

static hr_status extreme_eval(hr_compare_op op, const hr_bound_call *call, const hr_eval *how, hr_array *const *args,
                              hr_array **out, hr_error *err)
{
    uint8_t *which;

    *out = NULL;
    if (call->type->id == HR_T_NULL)
        return hr__array_nulls(how->mem, call->type, how->n_rows, out, err);
    HR_TRY(which_new(call, how, NOBODY, &which, err));
    for (int k = 0; k < call->n_inputs; k++)
        for (int64_t i = 0; i < how->n_rows; i++) {
            int64_t at = is_constant(call, k) ? 0 : i, best = which[i] != NOBODY && is_constant(call, which[i]) ? 0 : i;

            if (!hr__array_is_null(args[k], at) &&
                (which[i] == NOBODY || is_better(call, op, args[k], at, args[which[i]], best)))
                which[i] = (uint8_t)k;
        }
    return choose(call, how, args, 0, which, out, err);
}

static hr_status least_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    return extreme_eval(HR_LESS, call, how, args, out, err);
}

static hr_status greatest_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                               hr_error *err)
{
    return extreme_eval(HR_GREATER, call, how, args, out, err);
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define HR_ENTRY(fn, binder, least, most, text)                                                                        \
    {                                                                                                                  \
        .name = #fn,                                                                                                   \
        .doc = text,                                                                                                   \
        .min_args = least,                                                                                             \
        .max_args = most,                                                                                              \
        .takes_constants = true,                                                                                       \
        .bind = binder,                                                                                                \
        .eval = fn##_eval,                                                                                             \
    }

const hr_expr_function hr__fn_choose[] = {
    HR_ENTRY(if_else, if_else_bind, 3, 3, "b where a is true, c where a is false"),
    HR_ENTRY(coalesce, coalesce_bind, 1, -1, "the first value that is not null"),
    HR_ENTRY(least, extreme_bind, 1, -1, "the least value that is not null; NaN only if no number is there"),
    HR_ENTRY(greatest, extreme_bind, 1, -1, "the greatest value that is not null; NaN only if no number is there"),
    { 0 },
};
