/* cast_decimal.c - casts to decimals, from integers, floats, text and other decimals, and from decimals to integers and
 * floats.
 *
 * Exact where both types allow it: a value with more digits than the new type has, on either side of the point, is an
 * error. With safe=false digits after the point are cut off, integers keep their low bits, and values that do not fit
 * are null. A float becomes the nearest decimal of its exact value, half-way to the even digit, and a decimal the
 * nearest float.
 *
 * Tests: test_arith_decimal.c, test_eval.c. */
#include "base/decimal.h"
#include "base/number_short.h"
#include "expr/fn.h"

/* Converts a value. lost: digits after the point were cut off. false: no such value. */
typedef bool read_fn(const hr_array *a, int64_t i, int scale, hr_wide *out, bool *lost);

/* v * 10^places; cuts digits off if places is negative. */
static bool rescale(hr_wide *v, int64_t places, bool *lost)
{
    hr_wide unit, rest;

    if (places >= 0)
        return v->n == 0 || (places <= 154 && hr__wide_scale_up(v, (int)places));
    if (places < -154) {
        *lost = v->n;
        *v = (hr_wide){ 0 };
        return true;
    }
    unit = hr__wide_power_of_ten((int)-places);
    hr__wide_divide(v, &unit, v, &rest);
    *lost = rest.n;
    return true;
}

static bool read_int(const hr_array *a, int64_t i, int scale, hr_wide *out, bool *lost)
{
    *out = hr__type_is_unsigned(a->type) ? hr__wide_uint(hr__array_uint(a, i)) : hr__wide_int(hr__array_int(a, i));
    return rescale(out, scale, lost);
}

static bool read_float(const hr_array *a, int64_t i, int scale, hr_wide *out, bool *lost)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    uint16_t half;
    float single;
    double v;

    (void)lost;
    if (a->type->id == HR_T_FLOAT16) {
        memcpy(&half, p, sizeof half);
        v = hr__half_value(half);
    } else if (a->type->id == HR_T_FLOAT32) {
        memcpy(&single, p, sizeof single);
        v = (double)single;
    } else {
        memcpy(&v, p, sizeof v);
    }
    return scale <= 154 && scale >= -154 && hr__wide_of_double(v, scale, out);
}

static bool read_decimal(const hr_array *a, int64_t i, int scale, hr_wide *out, bool *lost)
{
    const int bytes = hr__type_bytes(a->type);

    *out = hr__wide_load(hr__array_values(a) + i * bytes, bytes);
    return rescale(out, (int64_t)scale - a->type->scale, lost);
}

static bool read_text(const hr_array *a, int64_t i, int scale, hr_wide *out, bool *lost)
{
    int64_t n;
    const uint8_t *p = hr__array_bytes(a, i, &n);

    return hr__wide_parse(p, n, scale, out, lost);
}

static read_fn *reader_of(const hr_type *t)
{
    return hr__type_is_int(t)       ? read_int
           : hr__type_is_float(t)   ? read_float
           : hr__type_is_decimal(t) ? read_decimal
                                    : read_text;
}

/* Handles a row without a value of the new type: an error, or null. */
static hr_status refuse(const hr_bound_call *call, const hr_eval *how, const hr_array *a, int64_t i, bool safe,
                        hr_buffer **validity, bool *own, hr_error *err)
{
    if (safe)
        return hr__cast_refuse(call, how, a, i, err);
    if (!*own)
        HR_TRY(hr__own_validity(how, validity, err));
    *own = true;
    hr__bit_clear((*validity)->data, i);
    return HR_OK;
}

/* --- 128 bits, where they suffice: signed integers and decimals of 16 bytes, scaled up */

typedef struct narrow {
    bool can;
    int128 ten, end_in, end_out; /* the factor; the least numbers with too many digits, of both types */
} narrow;

static narrow narrow_of(const hr_type *from, const hr_type *to)
{
    const bool decimal = from->id == HR_T_DECIMAL128;
    const int64_t up = (int64_t)to->scale - (decimal ? from->scale : 0), digits = decimal ? from->precision : 19;

    if ((!decimal && !hr__type_is_signed(from)) || to->id != HR_T_DECIMAL128 || up < 0 || digits + up > 38)
        return (narrow){ 0 };
    return (narrow){ true, hr__power_of_ten((int)up), hr__power_of_ten((int)digits), hr__power_of_ten(to->precision) };
}

static bool narrow_row(const narrow *c, const hr_array *a, int64_t i, uint8_t *out)
{
    int128 v;

    if (a->type->id == HR_T_DECIMAL128)
        memcpy(&v, hr__array_values(a) + i * 16, 16);
    else
        v = hr__array_int(a, i);
    if (v >= c->end_in || v <= -c->end_in)
        return false;
    v *= c->ten;
    memcpy(out, &v, 16);
    return v < c->end_out && v > -c->end_out;
}

hr_status hr__cast_to_decimal(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                              hr_buffer **validity, hr_buffer **out, hr_error *err)
{
    const hr_type *to = call->type;
    const int bytes = hr__type_bytes(to);
    const narrow small = narrow_of(a->type, to);
    read_fn *read = reader_of(a->type);
    bool own = false;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * bytes, out, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        uint8_t *p = (*out)->data + i * bytes;
        bool lost = false;
        hr_wide v;

        memset(p, 0, (size_t)bytes);
        if (!hr__is_valid(*validity, i) || (small.can && narrow_row(&small, a, i, p)))
            continue;
        if (read(a, i, to->scale, &v, &lost) && !(lost && safe) && hr__wide_has_digits(&v, to->precision))
            hr__wide_store(&v, bytes, p);
        else
            HR_TRY(refuse(call, how, a, i, safe, validity, &own, err));
    }
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------- from decimals */

/* Stores the low bits, which an unsafe cast keeps. -> whether they are the whole number. */
static bool put_int(const hr_type *to, const hr_wide *v, uint8_t *out)
{
    const int bytes = hr__type_bytes(to);
    uint8_t all[32];
    uint64_t magnitude = v->n ? v->w[0] : 0, most = UINT64_MAX >> (64 - 8 * bytes);

    hr__wide_store(v, 32, all);
    memcpy(out, all, (size_t)bytes);
    if (v->n > 2)
        return false;
    magnitude |= v->n > 1 ? (uint64_t)v->w[1] << 32 : 0;
    if (hr__type_is_unsigned(to))
        return !v->negative && magnitude <= most;
    return magnitude <= most / 2 + v->negative;
}

static void put_float(const hr_type *from, const hr_type *to, const hr_wide *v, uint8_t *out)
{
    const bool is_small = v->n <= 2, is_sane = from->scale < 400 && from->scale > -400;
    const uint64_t low = v->n ? v->w[0] | (v->n > 1 ? (uint64_t)v->w[1] << 32 : 0) : 0;
    char text[HR_WIDE_CHARS + HR_SLACK] = { 0 };
    double d = 0;
    float f = 0;

    if (is_small && is_sane) {
        d = hr__decimal_double(low, -(int64_t)from->scale);
        f = hr__decimal_float(low, -(int64_t)from->scale);
        d = v->negative ? -d : d;
        f = v->negative ? -f : f;
    } else {
        int n = hr__wide_print(v, -from->scale, text);

        hr__parse_double((const uint8_t *)text, n, true, &d); /* always a number */
        hr__parse_float((const uint8_t *)text, n, true, &f);
    }
    if (to->id == HR_T_FLOAT32)
        memcpy(out, &f, sizeof f);
    else
        memcpy(out, &d, sizeof d);
}

hr_status hr__cast_from_decimal(const hr_bound_call *call, const hr_eval *how, const hr_array *a, bool safe,
                                hr_buffer **validity, hr_buffer **out, hr_error *err)
{
    const hr_type *to = call->type;
    const int from_bytes = hr__type_bytes(a->type), bytes = hr__type_bytes(to);
    bool own = false;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * bytes, out, err));
    for (int64_t i = 0; i < how->n_rows; i++) {
        uint8_t *p = (*out)->data + i * bytes;
        bool lost = false, fits = true;
        hr_wide v;

        memset(p, 0, (size_t)bytes);
        if (!hr__is_valid(*validity, i))
            continue;
        v = hr__wide_load(hr__array_values(a) + i * from_bytes, from_bytes);
        if (hr__type_is_float(to))
            put_float(a->type, to, &v, p);
        else
            fits = rescale(&v, -(int64_t)a->type->scale, &lost) && (put_int(to, &v, p) || !safe) && !(lost && safe);
        if (!fits)
            HR_TRY(refuse(call, how, a, i, safe, validity, &own, err));
    }
    return HR_OK;
}
