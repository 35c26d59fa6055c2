/* dense.c - numbers and times with NaN or NaT in place of nulls, as numpy users expect, and integers back again.
 *
 * Integers become float64, since no integer means null; dates and times become 64-bit integers, of which the least is
 * NaT. One loop converts all values and ignores nulls; a second one finds the nulls by the zero bits of the bitmap, 64
 * at a time, and overwrites them. */
#include "data/data.h"

#define CONVERT(name, from_type, to_type)                                                                              \
    static void name(const uint8_t *from, uint8_t *to, int64_t n)                                                      \
    {                                                                                                                  \
        const from_type *in = (const from_type *)(const void *)from;                                                   \
        to_type *out = (to_type *)(void *)to;                                                                          \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = (to_type)in[i];                                                                                   \
    }
CONVERT(double_from_i8, int8_t, double)
CONVERT(double_from_u8, uint8_t, double)
CONVERT(double_from_i16, int16_t, double)
CONVERT(double_from_u16, uint16_t, double)
CONVERT(double_from_i32, int32_t, double)
CONVERT(double_from_u32, uint32_t, double)
CONVERT(double_from_i64, int64_t, double)
CONVERT(double_from_u64, uint64_t, double)
CONVERT(days_from_i32, int32_t, int64_t)
CONVERT(same_2, uint16_t, uint16_t)
CONVERT(same_4, uint32_t, uint32_t)
CONVERT(same_8, uint64_t, uint64_t)

#define NAN_16 0x7e00u
#define NAN_32 0x7fc00000u
#define NAN_64 0x7ff8000000000000u
#define NAT_64 0x8000000000000000u

/* to NULL: neither numbers nor times that numpy has. */
static const struct {
    void (*convert)(const uint8_t *from, uint8_t *to, int64_t n);
    hr_type_id to;
    int width;
    uint64_t none;
} rules[HR_N_TYPES] = {
    [HR_T_INT8] = { double_from_i8, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_UINT8] = { double_from_u8, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_INT16] = { double_from_i16, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_UINT16] = { double_from_u16, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_INT32] = { double_from_i32, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_UINT32] = { double_from_u32, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_INT64] = { double_from_i64, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_UINT64] = { double_from_u64, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_FLOAT16] = { same_2, HR_T_FLOAT16, 2, NAN_16 },
    [HR_T_FLOAT32] = { same_4, HR_T_FLOAT32, 4, NAN_32 },
    [HR_T_FLOAT64] = { same_8, HR_T_FLOAT64, 8, NAN_64 },
    [HR_T_DATE32] = { days_from_i32, HR_T_INT64, 8, NAT_64 },
    [HR_T_DATE64] = { same_8, HR_T_INT64, 8, NAT_64 },
    [HR_T_TIMESTAMP] = { same_8, HR_T_INT64, 8, NAT_64 },
    [HR_T_DURATION] = { same_8, HR_T_INT64, 8, NAT_64 },
};

/* The nulls among n <= 64 rows at bit `at`, as ones. */
static uint64_t nulls_of(const uint8_t *valid, int64_t at, int64_t n)
{
    uint8_t bits[8] = { 0 };

    hr__bits_copy(bits, 0, valid, at, n);
    return ~hr__load_le64(bits) & (n < 64 ? (1ull << n) - 1 : ~0ull);
}

#define OVERWRITE(name, type)                                                                                          \
    static void name(uint8_t *data, const uint8_t *valid, int64_t at, int64_t n, uint64_t none)                        \
    {                                                                                                                  \
        type *out = (type *)(void *)data;                                                                              \
        for (int64_t i = 0; i < n; i += 64)                                                                            \
            for (uint64_t nulls = nulls_of(valid, at + i, HR_MIN(n - i, 64)); nulls; nulls &= nulls - 1)               \
                out[i + __builtin_ctzll(nulls)] = (type)none;                                                          \
    }
OVERWRITE(overwrite_2, uint16_t)
OVERWRITE(overwrite_4, uint32_t)
OVERWRITE(overwrite_8, uint64_t)

hr_status hr__array_fill_nulls(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err)
{
    const hr_type_id id = a->type->id;
    int width = rules[id].width;
    hr_buffer *to = NULL;

    *out = NULL;
    if (!rules[id].convert)
        return hr_error_set(err, HR_TYPE, "values of this type have no NaN");
    HR_TRY(hr__buffer_new(mem, a->length * width, &to, err));
    if (a->length > 0) {
        rules[id].convert(hr__array_values(a), to->data, a->length);
        if (a->buffers[0])
            (width == 2   ? overwrite_2
             : width == 4 ? overwrite_4
                          : overwrite_8)(to->data, a->buffers[0]->data, a->offset, a->length, rules[id].none);
    }
    return hr__array_new(hr__type_simple(rules[id].to), a->length, 0, (hr_buffer *[3]){ NULL, to, NULL }, NULL, 0, out,
                         err);
}

/* ------------------------------------------------------------------------------------------ and back: whole numbers */

#define EXACT 9007199254740992.0 /* 2^53: up to here each integer is a double */

/* The range of an integer type whose values are doubles, too. */
static void exact_range(hr_type_id id, double *least, double *most)
{
    switch (id) {
    case HR_T_INT8: *least = INT8_MIN, *most = INT8_MAX; break;
    case HR_T_UINT8: *least = 0, *most = UINT8_MAX; break;
    case HR_T_INT16: *least = INT16_MIN, *most = INT16_MAX; break;
    case HR_T_UINT16: *least = 0, *most = UINT16_MAX; break;
    case HR_T_INT32: *least = INT32_MIN, *most = INT32_MAX; break;
    case HR_T_UINT32: *least = 0, *most = UINT32_MAX; break;
    case HR_T_UINT64: *least = 0, *most = EXACT; break;
    default: *least = -EXACT, *most = EXACT;
    }
}

/* Null, or NaN. */
static bool is_none(const hr_array *a, int64_t i, double v) { return v != v || hr__array_is_null(a, i); }

int64_t hr__array_not_whole(const hr_array *a, const hr_type *type)
{
    const double *v = (const double *)(const void *)hr__array_values(a);
    double least, most;

    exact_range(type->id, &least, &most);
    for (int64_t i = 0; i < a->length; i++)
        if (!is_none(a, i, v[i]) && !(v[i] >= least && v[i] <= most && v[i] == (double)(int64_t)v[i]))
            return i;
    return -1;
}

static void put_int(uint8_t *to, int width, int64_t i, int64_t v)
{
    switch (width) {
    case 1: to[i] = (uint8_t)v; break;
    case 2: ((uint16_t *)(void *)to)[i] = (uint16_t)v; break;
    case 4: ((uint32_t *)(void *)to)[i] = (uint32_t)v; break;
    default: ((uint64_t *)(void *)to)[i] = (uint64_t)v;
    }
}

hr_status hr__array_of_whole(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    const double *v = (const double *)(const void *)hr__array_values(a);
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int width = hr__type_bytes(type);
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__buffer_new(mem, hr__bits_bytes(a->length), &buffers[0], err));
    HR_GO(hr__buffer_new(mem, a->length * width, &buffers[1], err));
    memset(buffers[0]->data, 0, (size_t)buffers[0]->n_bytes);
    for (int64_t i = 0; i < a->length; i++) {
        bool none = is_none(a, i, v[i]);

        put_int(buffers[1]->data, width, i, none ? 0 : (int64_t)v[i]);
        buffers[0]->data[i >> 3] |= (uint8_t)(!none << (i & 7));
    }
    return hr__array_new(type, a->length, -1, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

int64_t hr__array_not_exact(const hr_array *a)
{
    const uint8_t *values = hr__array_values(a);

    for (int64_t i = 0; i < a->length && hr__type_bytes(a->type) == 8; i++) {
        int64_t v;

        memcpy(&v, values + i * 8, 8);
        if (!hr__array_is_null(a, i) && (v > (int64_t)EXACT || v < (a->type->id == HR_T_UINT64 ? 0 : -(int64_t)EXACT)))
            return i;
    }
    return -1;
}
