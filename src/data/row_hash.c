/* row_hash.c - a 64-bit hash of each row over some columns, and the equality of two rows (see keys.h).
 *
 * Column by column: one multiplication, whose two halves are folded together (as in wyhash, Wang Yi, public domain),
 * mixes the hash of the columns before with the next value. Bytes are hashed as 64-bit words, 16 bytes at a time, the
 * last ones overlapping, so that short texts take two loads. Integers of any width are hashed by value. */
#include "data/keys.h"

bool hr__type_is_groupable(const hr_type *t)
{
    return t->id <= HR_T_DECIMAL256 && !hr__type_is_interval(t) && !t->pickled;
}

static const uint64_t k0 = 0xA0761D6478BD642F, k1 = 0xE7037ED1A0B428DB, k2 = 0x8EBC6AF09C88C6E3,
                      k3 = 0x589965CC75374CC3;

static inline uint64_t fold(uint64_t a, uint64_t b)
{
#ifdef __SIZEOF_INT128__
    __extension__ typedef unsigned __int128 wide;
    wide p = (wide)a * b;

    return (uint64_t)p ^ (uint64_t)(p >> 64);
#else
    uint64_t al = (uint32_t)a, ah = a >> 32, bl = (uint32_t)b, bh = b >> 32;
    uint64_t low = al * bl, mid1 = ah * bl, mid2 = al * bh, high = ah * bh;
    uint64_t mid = (low >> 32) + (uint32_t)mid1 + (uint32_t)mid2;

    return (mid << 32 | (uint32_t)low) ^ (high + (mid1 >> 32) + (mid2 >> 32) + (mid >> 32));
#endif
}

static inline uint64_t add(uint64_t h, uint64_t v) { return fold(h ^ k1, v ^ k0); }
static inline uint64_t add_null(uint64_t h) { return fold(h ^ k2, k3); }

static uint64_t add_bytes(uint64_t h, const uint8_t *p, int64_t n)
{
    uint64_t a = 0, b = 0, s = h ^ k2;

    if (n > 16) {
        const uint8_t *last = p + n - 16;

        for (; p < last; p += 16)
            s = fold(hr__load_le64(p) ^ k1, hr__load_le64(p + 8) ^ s);
        a = hr__load_le64(last);
        b = hr__load_le64(last + 8);
    } else if (n >= 8) {
        a = hr__load_le64(p);
        b = hr__load_le64(p + n - 8);
    } else if (n >= 4) {
        a = hr__load_le32(p);
        b = hr__load_le32(p + n - 4);
    } else if (n > 0) {
        a = (uint64_t)p[0] << 16 | (uint64_t)p[n / 2] << 8 | p[n - 1];
    }
    return fold(k1 ^ (uint64_t)n, fold(a ^ k1, b ^ s));
}

static uint64_t float_word(const hr_array *a, int64_t i)
{
    uint64_t v = hr__array_uint(a, i);
    int bits = 8 * hr__type_bytes(a->type);
    uint64_t magnitude = v & (UINT64_MAX >> (65 - bits));
    uint64_t infinite = bits == 16 ? 0x7C00 : bits == 32 ? 0x7F800000 : 0x7FF0000000000000;

    return magnitude == 0 ? 0 : magnitude > infinite ? infinite + 1 : v;
}

static bool is_float(const hr_type *t) { return t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64; }

static uint64_t add_value(uint64_t h, const hr_array *a, int64_t i);

static uint64_t add_nested(uint64_t h, const hr_array *a, int64_t i)
{
    int64_t first = 0, n = 0;

    if (a->type->id == HR_T_STRUCT) {
        for (int k = 0; k < a->n_children; k++)
            h = add_value(h, a->children[k], a->offset + i);
        return add(h, (uint64_t)a->n_children);
    }
    hr__array_range(a, i, &first, &n);
    for (int64_t k = 0; k < n; k++)
        h = add_value(h, a->children[0], first + k);
    return add(h, (uint64_t)n);
}

static uint64_t add_value(uint64_t h, const hr_array *a, int64_t i)
{
    int width = hr__type_bytes(a->type);
    int64_t n = 0;
    const uint8_t *p;

    if (hr__array_is_null(a, i))
        return add_null(h);
    if (a->n_children || a->type->id == HR_T_STRUCT)
        return add_nested(h, a, i);
    if (a->type->id == HR_T_BOOL)
        return add(h, hr__bit(a->buffers[1]->data, a->offset + i));
    if (is_float(a->type))
        return add(h, float_word(a, i));
    if (width > 0 && width <= 8 && a->type->id != HR_T_FIXED_BINARY)
        return add(h, (uint64_t)hr__array_int(a, i));
    if (hr__type_is_bytes(a->type) || a->type->id == HR_T_FIXED_BINARY) {
        p = hr__array_bytes(a, i, &n);
        return add_bytes(h, p, n);
    }
    return add_bytes(h, hr__array_values(a) + i * width, width);
}

/* ---------------------------------------------------------------------------------------------------- whole columns */

#define HASH_LOOP(name, value_type)                                                                                    \
    static void name(const hr_array *a, int64_t begin, int64_t n, uint64_t *out)                                       \
    {                                                                                                                  \
        const uint8_t *from = hr__array_values(a) + begin * (int64_t)sizeof(value_type);                               \
        value_type v;                                                                                                  \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            memcpy(&v, from + i * (int64_t)sizeof v, sizeof v);                                                        \
            out[i] = add(out[i], (uint64_t)(int64_t)v);                                                                \
        }                                                                                                              \
    }
HASH_LOOP(hash_8, int8_t)
HASH_LOOP(hash_16, int16_t)
HASH_LOOP(hash_32, int32_t)
HASH_LOOP(hash_64, int64_t)
#undef HASH_LOOP

#define HASH_TEXT_LOOP(name, offset_type)                                                                              \
    static void name(const hr_array *a, int64_t begin, int64_t n, uint64_t *out)                                       \
    {                                                                                                                  \
        const offset_type *at = (const offset_type *)(const void *)a->buffers[1]->data + a->offset + begin;            \
        const uint8_t *bytes = a->buffers[2] ? a->buffers[2]->data : NULL;                                             \
                                                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                                                \
            out[i] = add_bytes(out[i], at[i + 1] > at[i] ? bytes + at[i] : NULL, at[i + 1] - at[i]);                   \
    }
HASH_TEXT_LOOP(hash_text, int32_t)
HASH_TEXT_LOOP(hash_large_text, int64_t)
#undef HASH_TEXT_LOOP

typedef void hash_loop(const hr_array *a, int64_t begin, int64_t n, uint64_t *out);

/* For columns without nulls; NULL: value by value. */
static hash_loop *loop_of(const hr_type *t)
{
    if (hr__type_is_bytes(t))
        return hr__type_offset_bytes(t) == 4 ? hash_text : hash_large_text;
    if (is_float(t) || t->id == HR_T_FIXED_BINARY)
        return NULL;
    switch (hr__type_bytes(t)) {
    case 1: return hash_8;
    case 2: return hash_16;
    case 4: return hash_32;
    case 8: return hash_64;
    default: return NULL;
    }
}

static void hash_column(const hr_array *a, int64_t begin, int64_t n, uint64_t *out)
{
    hash_loop *loop = loop_of(a->type);

    if (loop && hr__array_null_count(a) == 0) {
        loop(a, begin, n, out);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = add_value(out[i], a, begin + i);
}

static void hash_nothing(int64_t n, uint64_t *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = k3;
}

void hr__rows_hash(const hr_table *t, const int *columns, int n_columns, int64_t begin, int64_t n, uint64_t *out)
{
    hash_nothing(n, out);
    for (int k = 0; n && k < n_columns; k++)
        hash_column(t->columns[columns ? columns[k] : k], begin, n, out);
}

void hr__values_hash(const hr_array *a, int64_t begin, int64_t n, uint64_t *out)
{
    hash_nothing(n, out);
    if (n)
        hash_column(a, begin, n, out);
}

/* --------------------------------------------------------------------------------------------------------- equality */

bool hr__rows_equal(const hr_table *a, const int *ca, int64_t i, const hr_table *b, const int *cb, int64_t j,
                    int n_columns)
{
    for (int k = 0; k < n_columns; k++) {
        const hr_array *x = a->columns[ca ? ca[k] : k], *y = b->columns[cb ? cb[k] : k];

        if (!hr__values_equal(x, i, y, j))
            return false;
    }
    return true;
}
