/* aggregate_fixed.c - aggregates whose partial result is a few numbers: counts, sums, means, deviations, least and
 * greatest numbers.
 *
 * The code first converts a batch of values to int64 or double and then adds them to their groups: one loop per
 * aggregate instead of one per type. Integer sums accumulate in 128 bits; a result that does not fit in 64 is an error.
 * std uses Welford's recurrence on distances from a group's first value; partial results merge by the recurrence of
 * Chan, Golub and LeVeque (1979), in canonical order. The mean adds up the errors of its sum.
 *
 * Tests: test_keyed.c, test_groupby.py. */
#include "base/decimal.h"
#include "op/group/aggregate.h"

#include <math.h>

#define BATCH 512

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* --------------------------------------------------------------------------------------------------------- values */

static bool is_signed_like(const hr_type *t) /* signed integers, and times stored as such */
{
    return (t->id >= HR_T_INT8 && t->id <= HR_T_UINT64) || (t->id >= HR_T_DATE32 && t->id <= HR_T_DURATION);
}

static bool is_unsigned(const hr_type *t)
{
    return t->id == HR_T_UINT8 || t->id == HR_T_UINT16 || t->id == HR_T_UINT32 || t->id == HR_T_UINT64;
}

static bool is_float(const hr_type *t) { return t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64; }
static bool is_int(const hr_type *t) { return t->id >= HR_T_INT8 && t->id <= HR_T_UINT64; }
static bool is_decimal(const hr_type *t) { return t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256; }

/* Loads integers, times and booleans; a uint64 keeps its bits. */
static void load_ints(const hr_array *a, int64_t begin, int64_t n, int64_t *out)
{
    if (a->type->id == HR_T_BOOL) {
        for (int64_t i = 0; i < n; i++)
            out[i] = hr__bit(a->buffers[1]->data, a->offset + begin + i);
    } else if (is_unsigned(a->type)) {
        for (int64_t i = 0; i < n; i++)
            out[i] = (int64_t)hr__array_uint(a, begin + i);
    } else if (hr__type_bytes(a->type) == 8) {
        memcpy(out, hr__array_values(a) + begin * 8, (size_t)n * 8);
    } else if (hr__type_bytes(a->type) == 4) {
        const int32_t *v = (const int32_t *)hr__array_values(a) + begin;

        for (int64_t i = 0; i < n; i++)
            out[i] = v[i];
    } else
        for (int64_t i = 0; i < n; i++)
            out[i] = hr__array_int(a, begin + i);
}

static double decimal_value(const hr_array *a, int64_t i)
{
    const int bytes = hr__type_bytes(a->type);
    const hr_wide v = hr__wide_load(hr__array_values(a) + i * bytes, bytes);

    return hr__wide_double(&v, -a->type->scale);
}

static void load_doubles(const hr_array *a, int64_t begin, int64_t n, double *out)
{
    int64_t ints[BATCH];

    if (a->type->id == HR_T_FLOAT64) {
        memcpy(out, hr__array_values(a) + begin * 8, (size_t)n * 8);
    } else if (a->type->id == HR_T_FLOAT32) {
        const float *v = (const float *)hr__array_values(a) + begin;

        for (int64_t i = 0; i < n; i++)
            out[i] = v[i];
    } else if (a->type->id == HR_T_FLOAT16) {
        const uint16_t *v = (const uint16_t *)hr__array_values(a) + begin;

        for (int64_t i = 0; i < n; i++)
            out[i] = hr__half_value(v[i]);
    } else if (is_decimal(a->type)) {
        for (int64_t i = 0; i < n; i++)
            out[i] = decimal_value(a, begin + i);
    } else {
        load_ints(a, begin, n, ints);
        for (int64_t i = 0; i < n; i++)
            out[i] = a->type->id == HR_T_UINT64 ? (double)(uint64_t)ints[i] : (double)ints[i];
    }
}

static const uint8_t *validity_of(const hr_array *a)
{
    return a->buffers[0] && hr__array_null_count(a) ? a->buffers[0]->data : NULL;
}

static bool same_group(const uint32_t *ids, int64_t n)
{
    int64_t i = 1;

    while (i < n && ids[i] == ids[0])
        i++;
    return i >= n;
}

/* For each row of a batch runs NULLS or VALUE, with `S *g = GROUP`. */
#define EACH_OF_BATCH(S, GROUP, NULLS, VALUE)                                                                          \
    for (int64_t i = 0; i < some; i++) {                                                                               \
        S *g = (GROUP);                                                                                                \
        if (valid && !hr__bit(valid, in->offset + begin + at + i)) {                                                   \
            NULLS;                                                                                                     \
        } else {                                                                                                       \
            VALUE;                                                                                                     \
        }                                                                                                              \
    }

/* For each row runs NULLS or VALUE, with `S *g`, the state of its group, and `i`, its place in the batch. The state of
 * a batch of one group stays in registers: a sum then takes 4 cycles a row instead of 9 through memory. */
#define EACH_ROW(S, load, type, NULLS, VALUE)                                                                          \
    do {                                                                                                               \
        const uint8_t *valid = validity_of(in);                                                                        \
        S *all = states;                                                                                               \
        type v[BATCH];                                                                                                 \
        for (int64_t at = 0; at < n; at += BATCH) {                                                                    \
            int64_t some = HR_MIN(BATCH, n - at);                                                                      \
            const uint32_t *id = ids + at;                                                                             \
            load(in, begin + at, some, v);                                                                             \
            if (same_group(id, some)) {                                                                                \
                S only = all[*id];                                                                                     \
                EACH_OF_BATCH(S, &only, NULLS, VALUE)                                                                  \
                all[*id] = only;                                                                                       \
            } else                                                                                                     \
                EACH_OF_BATCH(S, &all[id[i]], NULLS, VALUE)                                                            \
        }                                                                                                              \
    } while (0)

/* ---------------------------------------------------------------------------------------------------------- results */

/* A column of results; all are valid at first. */
typedef struct results {
    hr_buffer *buffers[3];
    int64_t n_nulls;
} results;

static hr_status results_new(const hr_agg *a, int64_t n, const hr_mem *mem, results *out, hr_error *err)
{
    int width = hr__type_bytes(a->result);
    int64_t n_bytes = width ? n * width : hr__bits_bytes(n);
    hr_status st = HR_OK;

    *out = (results){ 0 };
    HR_GO(hr__buffer_new(mem, hr__bits_bytes(n), &out->buffers[0], err));
    HR_GO(hr__buffer_new(mem, n_bytes, &out->buffers[1], err));
    memset(out->buffers[0]->data, 0xff, (size_t)out->buffers[0]->n_bytes);
    memset(out->buffers[1]->data, 0, (size_t)n_bytes);
    return HR_OK;
done:
    hr__buffer_unref(out->buffers[0]);
    hr__buffer_unref(out->buffers[1]);
    return st;
}

static void set_null(results *r, int64_t i)
{
    hr__bit_clear(r->buffers[0]->data, i);
    r->n_nulls++;
}

static hr_status results_array(const hr_agg *a, results *r, int64_t n, hr_array **out, hr_error *err)
{
    if (!r->n_nulls) {
        hr__buffer_unref(r->buffers[0]);
        r->buffers[0] = NULL;
    }
    return hr__array_new(a->result, n, r->n_nulls, r->buffers, NULL, 0, out, err);
}

static void put_int(const hr_type *t, void *values, int64_t i, int64_t v)
{
    if (t->id == HR_T_BOOL) {
        if (v)
            hr__bit_set(values, i);
        return;
    }
    memcpy((uint8_t *)values + i * hr__type_bytes(t), &v,
           (size_t)hr__type_bytes(t)); /* little-endian, as all of Arrow */
}

static void put_double(const hr_type *t, void *values, int64_t i, double v)
{
    if (t->id == HR_T_FLOAT64)
        ((double *)values)[i] = v;
    else if (t->id == HR_T_FLOAT32)
        ((float *)values)[i] = (float)v;
    else
        ((uint16_t *)values)[i] = hr__half_of(v);
}

/* ------------------------------------------------------------------------------------------------------------ count */

typedef struct count_state {
    int64_t n;
} count_state;

static hr_status count_bind(hr_agg *a, hr_error *err)
{
    (void)err;
    a->result = hr__type_simple(HR_T_INT64);
    a->state_bytes = sizeof(count_state);
    return HR_OK;
}

static void count_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                         void *states)
{
    count_state *s = states;
    bool skip = in && a->options.ignore_nulls && hr__array_null_count(in);

    for (int64_t i = 0; i < n; i++)
        s[ids[i]].n += !(skip && hr__array_is_null(in, begin + i));
}

static void count_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const count_state *f = from;

    (void)a;
    for (int64_t i = 0; i < n; i++)
        ((count_state *)states)[ids[i]].n += f[i].n;
}

static hr_status count_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                              hr_error *err)
{
    results r;

    HR_TRY(results_new(a, n, mem, &r, err));
    memcpy(r.buffers[1]->data, states, (size_t)n * 8);
    return results_array(a, &r, n, out, err);
}

/* -------------------------------------------------------------------------------------------------------------- sum */

typedef struct sum_state {
    union {
        double d;
        struct {
            uint64_t low;
            int64_t high;
        } i;
    } sum;
    int64_t n, nulls;
} sum_state;

static inline int128 wide_of(const sum_state *s)
{
    return (int128)(((uint128)(uint64_t)s->sum.i.high << 64) | s->sum.i.low);
}

static inline void set_wide(sum_state *s, int128 v)
{
    s->sum.i.low = (uint64_t)v;
    s->sum.i.high = (int64_t)(v >> 64);
}

/* --- decimals: sums have 320 bits, which no number of rows overflows; the result is checked at the end */

enum { SUM_WORDS = 5 };
typedef struct decimal_state {
    uint64_t w[SUM_WORDS]; /* two's complement, least first */
    int64_t n, nulls;
} decimal_state;

static void add_words(decimal_state *g, const uint64_t w[SUM_WORDS])
{
    uint128 carry = 0;

    for (int k = 0; k < SUM_WORDS; k++) {
        carry += (uint128)g->w[k] + w[k];
        g->w[k] = (uint64_t)carry;
        carry >>= 64;
    }
}

/* Sign-extends a decimal of `bytes` bytes to the width of sums. */
static void load_words(const uint8_t *p, int bytes, uint64_t w[SUM_WORDS])
{
    memset(w, p[bytes - 1] >> 7 ? 0xff : 0, SUM_WORDS * sizeof *w);
    memcpy(w, p, (size_t)bytes);
}

static void decimal_update(const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states)
{
    const int bytes = hr__type_bytes(in->type);
    const uint8_t *valid = validity_of(in), *p = hr__array_values(in) + begin * bytes;

    for (int64_t i = 0; i < n; i++, p += bytes) {
        decimal_state *g = (decimal_state *)states + ids[i];
        uint64_t w[SUM_WORDS];

        if (valid && !hr__bit(valid, in->offset + begin + i)) {
            g->nulls++;
            continue;
        }
        load_words(p, bytes, w);
        add_words(g, w);
        g->n++;
    }
}

static void decimal_merge(const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const decimal_state *f = from;

    for (int64_t i = 0; i < n; i++) {
        decimal_state *g = (decimal_state *)states + ids[i];

        add_words(g, f[i].w);
        g->n += f[i].n;
        g->nulls += f[i].nulls;
    }
}

static bool is_none(const hr_agg *a, int64_t n, int64_t nulls) { return !n || (nulls && !a->options.ignore_nulls); }

static hr_status put_decimal(const hr_agg *a, const decimal_state *s, bool mean, uint8_t *values, int64_t i,
                             hr_error *err)
{
    const hr_wide v = hr__wide_load((const uint8_t *)s->w, sizeof s->w);
    const int bytes = hr__type_bytes(a->result);

    if (mean) {
        ((double *)(void *)values)[i] = hr__wide_double(&v, -a->input->scale) / (double)s->n;
        return HR_OK;
    }
    if (!hr__wide_has_digits(&v, a->result->precision))
        return hr_error_set(err, HR_BAD_DATA,
                            "sum: the sum of column '%s' has more than %d digits; cast the column to double", a->column,
                            (int)a->result->precision);
    hr__wide_store(&v, bytes, values + i * bytes);
    return HR_OK;
}

/* Sums, or means as doubles. */
static hr_status decimal_result(const hr_agg *a, const decimal_state *s, bool mean, int64_t n, const hr_mem *mem,
                                hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    results r;

    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        if (is_none(a, s[i].n, s[i].nulls))
            set_null(&r, i);
        else
            HR_GO(put_decimal(a, &s[i], mean, r.buffers[1]->data, i, err));
    }
    return results_array(a, &r, n, out, err);
done:
    hr__buffer_unref(r.buffers[0]);
    hr__buffer_unref(r.buffers[1]);
    return st;
}

static hr_status sum_bind(hr_agg *a, hr_error *err)
{
    const hr_type *t = a->input;

    a->state_bytes = sizeof(sum_state);
    if (t && is_float(t))
        a->result = hr__type_simple(HR_T_FLOAT64);
    else if (t && (is_unsigned(t) || t->id == HR_T_BOOL))
        a->result = hr__type_simple(HR_T_UINT64);
    else if (t && is_int(t))
        a->result = hr__type_simple(HR_T_INT64);
    else if (t && t->id == HR_T_NULL)
        a->result = hr__type_simple(HR_T_NULL);
    else if (t && t->id == HR_T_DURATION)
        a->result = hr__type_ref(a->input);
    else if (t && is_decimal(t)) {
        a->state_bytes = sizeof(decimal_state);
        return hr__type_decimal(t->id, t->id == HR_T_DECIMAL128 ? 38 : 76, t->scale, &a->result, err);
    } else
        return hr__agg_refuse(a, "numbers or durations", err);
    return HR_OK;
}

static void sum_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states)
{
    if (in->type->id == HR_T_NULL) {
        for (int64_t i = 0; i < n; i++)
            ((sum_state *)states)[ids[i]].nulls++;
    } else if (is_float(in->type)) {
        EACH_ROW(sum_state, load_doubles, double, g->nulls++, (g->sum.d += v[i], g->n++));
    } else if (is_decimal(in->type)) {
        decimal_update(in, begin, n, ids, states);
    } else if (is_unsigned(a->input)) {
        EACH_ROW(sum_state, load_ints, int64_t, g->nulls++, (set_wide(g, wide_of(g) + (uint64_t)v[i]), g->n++));
    } else
        EACH_ROW(sum_state, load_ints, int64_t, g->nulls++, (set_wide(g, wide_of(g) + v[i]), g->n++));
}

static void sum_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const sum_state *f = from;
    sum_state *s = states;

    if (is_decimal(a->result)) {
        decimal_merge(from, n, ids, states);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        sum_state *g = &s[ids[i]];

        if (a->result->id != HR_T_FLOAT64)
            set_wide(g, wide_of(g) + wide_of(&f[i]));
        else if (f[i].n)
            g->sum.d = g->n ? g->sum.d + f[i].sum.d : f[i].sum.d;
        g->n += f[i].n;
        g->nulls += f[i].nulls;
    }
}

static hr_status put_sum(const hr_agg *a, const sum_state *s, void *values, int64_t i, hr_error *err)
{
    int128 v = wide_of(s);

    if (a->result->id == HR_T_FLOAT64) {
        ((double *)values)[i] = s->sum.d;
        return HR_OK;
    }
    if (a->result->id == HR_T_UINT64 ? v > (int128)UINT64_MAX : v > INT64_MAX || v < INT64_MIN)
        return hr_error_set(err, HR_BAD_DATA,
                            "sum: the sum of column '%s' does not fit into 64 bits; cast the column to double",
                            a->column);
    put_int(a->result, values, i, (int64_t)v);
    return HR_OK;
}

static hr_status sum_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                            hr_error *err)
{
    const sum_state *s = states;
    hr_status st = HR_OK;
    results r;

    if (a->result->id == HR_T_NULL)
        return hr__array_nulls(mem, a->result, n, out, err);
    if (is_decimal(a->result))
        return decimal_result(a, states, false, n, mem, out, err);
    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        if (is_none(a, s[i].n, s[i].nulls))
            set_null(&r, i);
        else
            HR_GO(put_sum(a, &s[i], r.buffers[1]->data, i, err));
    }
    return results_array(a, &r, n, out, err);
done:
    hr__buffer_unref(r.buffers[0]);
    hr__buffer_unref(r.buffers[1]);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- mean and std */

/* Of the mean. The sum's rounding errors are added up beside it: means of times keep their digits. */
typedef struct total {
    int64_t n, nulls;
    double sum, error;
} total;

/* Of the deviation. Values are taken relative to the first one: a large mean costs the deviation no digits. */
typedef struct moments {
    int64_t n, nulls;
    double first, mean, m2;
} moments;

static hr_status numbers_bind(hr_agg *a, int64_t state_bytes, hr_error *err)
{
    const hr_type *t = a->input;

    a->state_bytes = state_bytes;
    a->result = hr__type_simple(HR_T_FLOAT64);
    if (!t || !(is_int(t) || is_float(t) || is_decimal(t) || t->id == HR_T_BOOL || t->id == HR_T_NULL))
        return hr__agg_refuse(a, "numbers", err);
    return HR_OK;
}

static hr_status mean_bind(hr_agg *a, hr_error *err)
{
    HR_TRY(numbers_bind(a, sizeof(total), err));
    if (is_decimal(a->input))
        a->state_bytes = sizeof(decimal_state);
    return HR_OK;
}

static hr_status std_bind(hr_agg *a, hr_error *err) { return numbers_bind(a, sizeof(moments), err); }

/* Knuth's exact error of a sum, which depends on no comparison (The Art of Computer Programming 2, 4.2.2). */
static inline void add_to(total *g, double x)
{
    double sum = g->sum + x, added = sum - g->sum;

    g->error += g->sum - (sum - added) + (x - added);
    g->sum = sum;
}

static void mean_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                        void *states)
{
    (void)a;
    if (in->type->id == HR_T_NULL)
        for (int64_t i = 0; i < n; i++)
            ((total *)states)[ids[i]].nulls++;
    else if (is_decimal(in->type))
        decimal_update(in, begin, n, ids, states);
    else
        EACH_ROW(total, load_doubles, double, g->nulls++, (add_to(g, v[i]), g->n++));
}

static void mean_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const total *f = from;
    total *s = states;

    if (is_decimal(a->input)) {
        decimal_merge(from, n, ids, states);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        total *g = &s[ids[i]];

        add_to(g, f[i].sum);
        g->error += f[i].error;
        g->n += f[i].n;
        g->nulls += f[i].nulls;
    }
}

static inline void welford(moments *g, double x)
{
    double d;

    if (!g->n)
        g->first = x;
    x -= g->first;
    d = x - g->mean;
    g->mean += d / (double)++g->n;
    g->m2 += d * (x - g->mean);
}

static void std_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states)
{
    (void)a;
    if (in->type->id == HR_T_NULL)
        for (int64_t i = 0; i < n; i++)
            ((moments *)states)[ids[i]].nulls++;
    else
        EACH_ROW(moments, load_doubles, double, g->nulls++, welford(g, v[i]));
}

static void std_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const moments *f = from;
    moments *s = states;

    (void)a;
    for (int64_t i = 0; i < n; i++) {
        moments *g = &s[ids[i]];
        int64_t nulls = g->nulls + f[i].nulls;
        double d = f[i].first - g->first + (f[i].mean - g->mean), all = (double)(g->n + f[i].n);

        if (f[i].n && !g->n) {
            *g = f[i];
        } else if (f[i].n) {
            g->m2 += f[i].m2 + d * d * (double)g->n * (double)f[i].n / all;
            g->mean += d * (double)f[i].n / all;
            g->n += f[i].n;
        }
        g->nulls = nulls;
    }
}

static hr_status mean_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                             hr_error *err)
{
    const total *s = states;
    results r;

    if (is_decimal(a->input))
        return decimal_result(a, states, true, n, mem, out, err);
    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        double sum = isfinite(s[i].sum) ? s[i].sum + s[i].error : s[i].sum; /* of infinities, no error is known */

        if (is_none(a, s[i].n, s[i].nulls))
            set_null(&r, i);
        else
            ((double *)r.buffers[1]->data)[i] = sum / (double)s[i].n;
    }
    return results_array(a, &r, n, out, err);
}

static hr_status std_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                            hr_error *err)
{
    const moments *s = states;
    results r;

    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        double rest = (double)(s[i].n - a->options.ddof);

        if (is_none(a, s[i].n, s[i].nulls))
            set_null(&r, i);
        else
            ((double *)r.buffers[1]->data)[i] = rest > 0 ? sqrt(s[i].m2 / rest) : (double)NAN;
    }
    return results_array(a, &r, n, out, err);
}

/* ----------------------------------------------------------------------------------------- least, greatest, abs_max */

typedef struct extreme {
    union {
        double d;
        int64_t i; /* ordered as signed: a uint64 with its highest bit flipped */
    } v;
    int64_t n, nulls;
} extreme;

#define TURN(t, x) ((t)->id == HR_T_UINT64 ? (int64_t)((uint64_t)(x) ^ (UINT64_C(1) << 63)) : (x))

bool hr__agg_is_number(const hr_type *t) { return is_signed_like(t) || is_float(t) || t->id == HR_T_BOOL; }

static hr_status extreme_bind(hr_agg *a, hr_error *err)
{
    a->state_bytes = sizeof(extreme);
    a->result = hr__type_ref(a->input);
    (void)err;
    return HR_OK;
}

static void min_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states)
{
    if (is_float(a->input))
        EACH_ROW(extreme, load_doubles, double, g->nulls++,
                 (g->v.d = !g->n++ || v[i] < g->v.d || g->v.d != g->v.d ? v[i] : g->v.d));
    else
        EACH_ROW(extreme, load_ints, int64_t, g->nulls++,
                 (v[i] = TURN(a->input, v[i]), g->v.i = !g->n++ || v[i] < g->v.i ? v[i] : g->v.i));
}

static void max_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids, void *states)
{
    if (is_float(a->input))
        EACH_ROW(extreme, load_doubles, double, g->nulls++,
                 (g->v.d = !g->n++ || v[i] > g->v.d || g->v.d != g->v.d ? v[i] : g->v.d));
    else
        EACH_ROW(extreme, load_ints, int64_t, g->nulls++,
                 (v[i] = TURN(a->input, v[i]), g->v.i = !g->n++ || v[i] > g->v.i ? v[i] : g->v.i));
}

static void merge_extremes(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states, int sign)
{
    const extreme *f = from;
    extreme *s = states;

    for (int64_t i = 0; i < n; i++) {
        extreme *g = &s[ids[i]];
        bool better = !g->n;

        g->nulls += f[i].nulls;
        if (!f[i].n)
            continue;
        if (is_float(a->input))
            better = better || g->v.d != g->v.d || (sign < 0 ? f[i].v.d < g->v.d : f[i].v.d > g->v.d);
        else
            better = better || (sign < 0 ? f[i].v.i < g->v.i : f[i].v.i > g->v.i);
        if (better)
            g->v = f[i].v;
        g->n += f[i].n;
    }
}

static void min_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    merge_extremes(a, from, n, ids, states, -1);
}

static void max_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    merge_extremes(a, from, n, ids, states, 1);
}

static hr_status extreme_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                                hr_error *err)
{
    const extreme *s = states;
    results r;

    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        if (is_none(a, s[i].n, s[i].nulls))
            set_null(&r, i);
        else if (is_float(a->input))
            put_double(a->result, r.buffers[1]->data, i, s[i].v.d);
        else
            put_int(a->result, r.buffers[1]->data, i, TURN(a->input, s[i].v.i));
    }
    return results_array(a, &r, n, out, err);
}

static hr_status abs_max_bind(hr_agg *a, hr_error *err)
{
    const hr_type *t = a->input;

    if (!t || !(is_int(t) || is_float(t)))
        return hr__agg_refuse(a, "numbers", err);
    HR_TRY(extreme_bind(a, err));
    if (is_int(t) && !is_unsigned(t) && t->id != HR_T_INT64) { /* 128 of -128 does not fit int8 */
        hr__type_unref(a->result);
        a->result = hr__type_simple(HR_T_INT64);
    }
    return HR_OK;
}

static void load_magnitudes(const hr_array *a, int64_t begin, int64_t n, int64_t *out)
{
    load_ints(a, begin, n, out);
    if (!is_unsigned(a->type))
        for (int64_t i = 0; i < n; i++)
            out[i] = out[i] < 0 && out[i] != INT64_MIN ? -out[i] : out[i] == INT64_MIN ? INT64_MAX : out[i];
}

static void abs_max_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                           void *states)
{
    if (is_float(a->input))
        EACH_ROW(extreme, load_doubles, double, g->nulls++,
                 (g->v.d = !g->n++ || fabs(v[i]) > g->v.d || g->v.d != g->v.d ? fabs(v[i]) : g->v.d));
    else
        EACH_ROW(extreme, load_magnitudes, int64_t, g->nulls++,
                 (v[i] = TURN(a->input, v[i]), g->v.i = !g->n++ || v[i] > g->v.i ? v[i] : g->v.i));
}

/* ------------------------------------------------------------------------------------------------------ percentages */

typedef struct part_state {
    int64_t n, of;
} part_state;

static hr_status part_bind(hr_agg *a, hr_error *err)
{
    a->state_bytes = sizeof(part_state);
    a->result = hr__type_simple(HR_T_FLOAT64);
    return a->input ? HR_OK : hr__agg_refuse(a, "a column", err);
}

static hr_status zero_bind(hr_agg *a, hr_error *err)
{
    HR_TRY(part_bind(a, err));
    return is_int(a->input) || is_float(a->input) || a->input->id == HR_T_BOOL ? HR_OK
                                                                               : hr__agg_refuse(a, "numbers", err);
}

static void missing_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                           void *states)
{
    part_state *s = states;

    if (is_float(a->input)) {
        EACH_ROW(part_state, load_doubles, double, (g->n++, g->of++), (g->n += v[i] != v[i], g->of++));
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        s[ids[i]].n += hr__array_is_null(in, begin + i);
        s[ids[i]].of++;
    }
}

static void zero_update(const hr_agg *a, const hr_array *in, int64_t begin, int64_t n, const uint32_t *ids,
                        void *states)
{
    bool skip = a->options.ignore_nulls;

    EACH_ROW(part_state, load_doubles, double, g->of += !skip, (g->n += v[i] == 0, g->of++));
}

static void part_merge(const hr_agg *a, const void *from, int64_t n, const uint32_t *ids, void *states)
{
    const part_state *f = from;
    part_state *s = states;

    (void)a;
    for (int64_t i = 0; i < n; i++) {
        s[ids[i]].n += f[i].n;
        s[ids[i]].of += f[i].of;
    }
}

static hr_status part_result(const hr_agg *a, const void *states, int64_t n, const hr_mem *mem, hr_array **out,
                             hr_error *err)
{
    const part_state *s = states;
    results r;

    HR_TRY(results_new(a, n, mem, &r, err));
    for (int64_t i = 0; i < n; i++) {
        if (s[i].of)
            ((double *)r.buffers[1]->data)[i] = 100.0 * (double)s[i].n / (double)s[i].of;
        else
            set_null(&r, i);
    }
    return results_array(a, &r, n, out, err);
}

/* --------------------------------------------------------------------------------------------------------- the list */

#define IGNORE_NULLS(value_)                                                                                           \
    { "ignore_nulls", HR_OPT_BOOL, offsetof(hr_aggregate_options, ignore_nulls),       0, 0,                           \
      value_,         NULL,        "ignore nulls; false: a null makes the result null" }

static const hr_option count_options[] = { { "ignore_nulls", HR_OPT_BOOL, offsetof(hr_aggregate_options, ignore_nulls),
                                             0, 0, 0, NULL, "count values, not rows" },
                                           { 0 } };
static const hr_option null_options[] = { IGNORE_NULLS(1), { 0 } };
static const hr_option std_options[] = { IGNORE_NULLS(1),
                                         { "ddof", HR_OPT_INT, offsetof(hr_aggregate_options, ddof), 0, 1000, 1, NULL,
                                           "degrees of freedom, subtracted from the number of values" },
                                         { 0 } };

/* min and max of numbers; aggregate_values.c has those of other types and uses these for numbers. */
const hr_agg_class hr__agg_min_number = { "min",          NULL, null_options, extreme_bind, min_update, min_merge,
                                          extreme_result, NULL, NULL,         false,        false };
const hr_agg_class hr__agg_max_number = { "max",          NULL, null_options, extreme_bind, max_update, max_merge,
                                          extreme_result, NULL, NULL,         false,        false };

const hr_agg_class hr__agg_fixed[] = {
    { "count", "number of rows, or of values", count_options, count_bind, count_update, count_merge, count_result, NULL,
      NULL, false, false },
    { "sum", "sum of numbers or durations; none: null", null_options, sum_bind, sum_update, sum_merge, sum_result, NULL,
      NULL, false, false },
    { "mean", "mean of numbers", null_options, mean_bind, mean_update, mean_merge, mean_result, NULL, NULL, false,
      false },
    { "std", "standard deviation of numbers", std_options, std_bind, std_update, std_merge, std_result, NULL, NULL,
      false, false },
    { "abs_max", "greatest magnitude of numbers", null_options, abs_max_bind, abs_max_update, max_merge, extreme_result,
      NULL, NULL, false, false },
    { "missing_pct", "percentage of rows that are null or NaN", NULL, part_bind, missing_update, part_merge,
      part_result, NULL, NULL, false, false },
    { "zero_pct", "percentage of numbers that are zero", null_options, zero_bind, zero_update, part_merge, part_result,
      NULL, NULL, false, false },
    { 0 },
};
