/* unify.c - the common type of one column in many files, and the conversion of values to it; no other file has these
 * rules.
 *
 *   null < T · int < wider int < float (what 24 bits hold: float, else double) · unsigned < wider signed
 *   float < double
 *   string < large_string, binary < large_binary, list < large_list, fixed list or tensor < list
 *   times, timestamps of one zone and durations: the finer unit · date32 < date64 · decimals of one scale: more digits
 *   structs by the names of their fields (what one lacks is null in it) · lists and maps by their items
 *
 * Every step keeps each value: a 64-bit integer that no double equals (most above 2^53) is an error, as in pyarrow.
 * Other pairs (uint64 with a signed integer, a number with text) have no common type: it would be a guess. The rules
 * for functions' tables are narrower: conform.c. Values are shared where the layout stays. */
#include "data/data.h"

#include <inttypes.h>

static bool is_list(const hr_type *t) { return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST; }
static bool is_signed(hr_type_id id)
{
    return id == HR_T_INT8 || id == HR_T_INT16 || id == HR_T_INT32 || id == HR_T_INT64;
}
static bool is_unsigned(hr_type_id id)
{
    return id == HR_T_UINT8 || id == HR_T_UINT16 || id == HR_T_UINT32 || id == HR_T_UINT64;
}
static bool is_int(hr_type_id id) { return is_signed(id) || is_unsigned(id); }
static bool is_float(hr_type_id id) { return id >= HR_T_FLOAT16 && id <= HR_T_FLOAT64; }

static hr_type *shared(const hr_type *t) { return hr__type_ref((hr_type *)(uintptr_t)t); }

/* ------------------------------------------------------------------------------------------------------------ types */

/* HR_T_NULL: none. */
static hr_type_id unify_ints(hr_type_id a, hr_type_id b)
{
    static const hr_type_id by_bytes[] = { HR_T_INT8, HR_T_INT16, HR_T_INT32, HR_T_INT64 };
    int bytes_a = hr__type_bytes(hr__type_simple(a)), bytes_b = hr__type_bytes(hr__type_simple(b)), need;
    int at = 0;

    if (is_signed(a) == is_signed(b))
        return bytes_a >= bytes_b ? a : b;
    need = is_signed(a) ? HR_MAX(bytes_a, bytes_b * 2) : HR_MAX(bytes_b, bytes_a * 2);
    if (need > 8)
        return HR_T_NULL;
    while (1 << at < need)
        at++;
    return by_bytes[at];
}

static hr_type_id unify_float(hr_type_id number, hr_type_id real)
{
    int bytes = hr__type_bytes(hr__type_simple(number));

    if (is_float(number))
        return HR_MAX(number, real);
    return HR_MAX(real, bytes == 1 ? HR_T_FLOAT16 : bytes == 2 ? HR_T_FLOAT32 : HR_T_FLOAT64);
}

static bool same_zone(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static hr_status unify_times(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_type_id id = HR_MAX(a->id, b->id); /* TIME64 behind TIME32 */
    hr_unit unit = HR_MAX(a->unit, b->unit);

    if (!same_zone(a->zone, b->zone))
        return HR_OK;
    return hr__type_unit(id, unit, a->zone, out, err);
}

static hr_status unify_lists(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_type_id id = a->id == HR_T_LARGE_LIST || b->id == HR_T_LARGE_LIST ? HR_T_LARGE_LIST : HR_T_LIST;
    hr_field item = { 0 };
    hr_type *inner = NULL;
    hr_status st = HR_OK;

    if (a->id == b->id && (a->id == HR_T_MAP || (a->id == HR_T_FIXED_LIST && a->width == b->width)))
        id = a->id;
    HR_GO(hr__type_unify(a->children[0].type, b->children[0].type, &inner, err));
    if (!inner)
        goto done;
    HR_GO(hr__field_copy(&item, &a->children[0], err));
    hr__type_unref(item.type);
    item.type = hr__type_ref(inner);
    item.nullable = id != HR_T_MAP;
    HR_GO(hr__type_list(id, &item, id == HR_T_FIXED_LIST ? a->width : 0, out, err));
done:
    hr__field_clear(&item);
    hr__type_unref(inner);
    return st;
}

static int find_field(const hr_type *t, const char *name)
{
    for (int i = 0; i < t->n_children; i++) {
        if (strcmp(t->children[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* The fields of a, then those that only b has. */
static hr_status unify_structs(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)a->n_children + (size_t)b->n_children + 1) * sizeof *fields);
    hr_type *inner = NULL;
    hr_status st = HR_OK;
    int n = 0;

    if (!fields)
        return hr__error_memory(err, "struct", (a->n_children + b->n_children) * (int64_t)sizeof *fields);
    for (int i = 0; i < a->n_children + b->n_children; i++) {
        bool first = i < a->n_children;
        const hr_field *f = first ? &a->children[i] : &b->children[i - a->n_children];
        int other = find_field(first ? b : a, f->name);

        if (!first && other >= 0)
            continue;
        if (other >= 0)
            HR_GO(hr__type_unify(f->type, b->children[other].type, &inner, err));
        else
            inner = hr__type_ref(f->type);
        if (!inner)
            goto done;
        HR_GO(hr__field_init(&fields[n], f->name, inner, true, err));
        n++;
        hr__type_unref(inner);
        inner = NULL;
    }
    HR_GO(hr__type_struct(fields, n, out, err));
done:
    hr__type_unref(inner);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

hr_status hr__type_unify(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_type_id x = a->id, y = b->id, id = HR_T_NULL;

    *out = NULL;
    if (y == HR_T_NULL || hr__type_equal(a, b)) {
        *out = shared(a);
    } else if (x == HR_T_NULL) {
        *out = shared(b);
    } else if ((is_int(x) || is_float(x)) && (is_int(y) || is_float(y))) {
        id = is_float(y) ? unify_float(x, y) : is_float(x) ? unify_float(y, x) : unify_ints(x, y);
    } else if (hr__type_is_bytes(a) && hr__type_is_bytes(b)) {
        if ((x == HR_T_STRING || x == HR_T_LARGE_STRING) == (y == HR_T_STRING || y == HR_T_LARGE_STRING))
            id = HR_MAX(x, y); /* the large one */
    } else if ((x == HR_T_DATE32 && y == HR_T_DATE64) || (x == HR_T_DATE64 && y == HR_T_DATE32)) {
        id = HR_T_DATE64;
    } else if (x >= HR_T_TIME32 && x <= HR_T_DURATION &&
               (x == y || (x <= HR_T_TIME64 && y <= HR_T_TIME64 && y >= HR_T_TIME32))) {
        return unify_times(a, b, out, err);
    } else if ((x == HR_T_DECIMAL128 || x == HR_T_DECIMAL256) && x == y && a->scale == b->scale) {
        *out = shared(a->precision >= b->precision ? a : b);
    } else if (x == HR_T_TENSOR || y == HR_T_TENSOR) {
        return hr__type_conform(a, b, out, err);
    } else if ((is_list(a) || x == HR_T_FIXED_LIST) && (is_list(b) || y == HR_T_FIXED_LIST)) {
        return unify_lists(a, b, out, err);
    } else if (x == HR_T_MAP && y == HR_T_MAP) {
        return unify_lists(a, b, out, err);
    } else if (x == HR_T_STRUCT && y == HR_T_STRUCT) {
        return unify_structs(a, b, out, err);
    }
    if (id != HR_T_NULL)
        *out = hr__type_ref(hr__type_simple(id));
    return HR_OK;
}

hr_status hr__type_widens(const hr_type *from, const hr_type *to, bool *out, hr_error *err)
{
    hr_type *both = NULL;

    *out = false;
    HR_TRY(hr__type_unify(to, from, &both, err));
    *out = both && hr__type_equal(both, to);
    hr__type_unref(both);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------- checks of exact values */

#define EXACT ((uint64_t)1 << 53) /* up to here each integer is a double */
#define LOOK_ROWS 1024

/* Whether all 64-bit values are within +-2^53: most are, and then nulls need no check. */
static bool all_small(const uint8_t *values, int64_t n, bool is_unsigned)
{
    uint64_t shift = is_unsigned ? 0 : EXACT, most = EXACT + shift;
    const uint64_t *v = (const uint64_t *)(const void *)values;
    bool small = true;

    for (int64_t i = 0; i < n; i++)
        small &= v[i] + shift <= most;
    return small;
}

static bool ints_kept(const hr_array *a, int64_t begin, int64_t n)
{
    bool is_unsigned = hr__type_is_unsigned(a->type);

    for (int64_t end = begin + n; begin < end; begin += LOOK_ROWS) {
        int64_t some = HR_MIN(end - begin, LOOK_ROWS);

        if (all_small((const uint8_t *)hr__array_values(a) + begin * 8, some, is_unsigned))
            continue;
        for (int64_t i = begin; i < begin + some; i++) {
            uint64_t v = hr__array_uint(a, i);

            v = !is_unsigned && (int64_t)v < 0 ? 0 - v : v;
            if (v && v >> __builtin_ctzll(v) > EXACT && !hr__array_is_null(a, i))
                return false;
        }
    }
    return true;
}

static bool rows_kept(const hr_array *a, const hr_type *type, int64_t begin, int64_t n);

/* Runs of rows without nulls; only their values in the children count. */
static bool children_kept(const hr_array *a, const hr_type *type, int64_t begin, int64_t n)
{
    int64_t at = a->offset + begin;

    if (a->type->id == HR_T_STRUCT) {
        for (int i = 0; i < a->n_children; i++) {
            int to = find_field(type, a->type->children[i].name);

            if (to >= 0 && !rows_kept(a->children[i], type->children[to].type, at, n))
                return false;
        }
        return true;
    }
    if (hr__type_is_fixed_list(a->type))
        return rows_kept(a->children[0], type->children[0].type, at * a->type->width, n * a->type->width);
    if (hr__type_offset_bytes(a->type) == 4) {
        const int32_t *o = (const int32_t *)(const void *)a->buffers[1]->data + at;
        return rows_kept(a->children[0], type->children[0].type, o[0], o[n] - o[0]);
    } else {
        const int64_t *o = (const int64_t *)(const void *)a->buffers[1]->data + at;
        return rows_kept(a->children[0], type->children[0].type, o[0], o[n] - o[0]);
    }
}

/* Whether `type`, to which a's type widens, has each value of rows [begin, begin + n). Only 64-bit integers as doubles
 * may lack. */
static bool rows_kept(const hr_array *a, const hr_type *type, int64_t begin, int64_t n)
{
    int64_t end = begin + n;

    if (n == 0 || hr__type_equal(a->type, type))
        return true;
    if (type->id == HR_T_FLOAT64)
        return (a->type->id != HR_T_INT64 && a->type->id != HR_T_UINT64) || ints_kept(a, begin, n);
    if (!a->type->n_children || !type->n_children)
        return true;
    while (begin < end) {
        int64_t stop = a->buffers[0] ? begin : end;

        while (stop < end && !hr__array_is_null(a, stop))
            stop++;
        if (stop > begin && !children_kept(a, type, begin, stop - begin))
            return false;
        begin = stop + 1;
    }
    return true;
}

static hr_status check_kept(const hr_array *a, const hr_type *type, hr_error *err)
{
    int64_t row = 0;
    hr_text t = { 0 };
    hr_status st;

    if (rows_kept(a, type, 0, a->length))
        return HR_OK;
    while (rows_kept(a, type, row, 1))
        row++;
    hr__array_print_some(a, row, 100, &t);
    st = t.failed                  ? hr__error_memory(err, "unify", 100)
         : a->type->n_children > 0 ? hr_error_set(err, HR_TYPE, "row %" PRId64 ": no doubles are %s", row, t.data)
                                   : hr_error_set(err, HR_TYPE, "row %" PRId64 ": no double is %s", row, t.data);
    hr__text_clear(&t);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- numbers */

#define WIDEN_LOOP(FROM, TO)                                                                                           \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        ((TO *)to)[i] = (TO)((const FROM *)from)[i];                                                                   \
    break
#define WIDEN_FROM(TO)                                                                                                 \
    switch (from_id) {                                                                                                 \
    case HR_T_INT8: WIDEN_LOOP(int8_t, TO);                                                                            \
    case HR_T_INT16: WIDEN_LOOP(int16_t, TO);                                                                          \
    case HR_T_INT32: WIDEN_LOOP(int32_t, TO);                                                                          \
    case HR_T_INT64: WIDEN_LOOP(int64_t, TO);                                                                          \
    case HR_T_UINT8: WIDEN_LOOP(uint8_t, TO);                                                                          \
    case HR_T_UINT16: WIDEN_LOOP(uint16_t, TO);                                                                        \
    case HR_T_UINT32: WIDEN_LOOP(uint32_t, TO);                                                                        \
    case HR_T_UINT64: WIDEN_LOOP(uint64_t, TO);                                                                        \
    case HR_T_FLOAT32: WIDEN_LOOP(float, TO);                                                                          \
    default: return false;                                                                                             \
    }                                                                                                                  \
    return true

static double half_or_int(hr_type_id id, const void *from, int64_t i)
{
    return id == HR_T_FLOAT16 ? hr__half_value(((const uint16_t *)from)[i])
           : id == HR_T_INT8  ? ((const int8_t *)from)[i]
                              : ((const uint8_t *)from)[i];
}

/* Converts the values of one type to a wider one; false: no such pair. The bytes under nulls are converted, too. */
static bool widen_values(hr_type_id from_id, const void *from, hr_type_id to_id, void *to, int64_t n)
{
    if (from_id == HR_T_FLOAT16 || to_id == HR_T_FLOAT16) {
        for (int64_t i = 0; i < n; i++) {
            double v = half_or_int(from_id, from, i);

            if (to_id == HR_T_FLOAT16)
                ((uint16_t *)to)[i] = hr__half_of(v);
            else if (to_id == HR_T_FLOAT32)
                ((float *)to)[i] = (float)v;
            else
                ((double *)to)[i] = v;
        }
        return true;
    }
    switch (to_id) {
    case HR_T_INT16: WIDEN_FROM(int16_t);
    case HR_T_INT32: WIDEN_FROM(int32_t);
    case HR_T_INT64: WIDEN_FROM(int64_t);
    case HR_T_UINT16: WIDEN_FROM(uint16_t);
    case HR_T_UINT32: WIDEN_FROM(uint32_t);
    case HR_T_UINT64: WIDEN_FROM(uint64_t);
    case HR_T_FLOAT32: WIDEN_FROM(float);
    case HR_T_FLOAT64: WIDEN_FROM(double);
    default: return false;
    }
}

/* The validity of a's own rows, from bit 0 on; *out NULL: no row is null. */
static hr_status own_validity(const hr_mem *mem, const hr_array *a, hr_buffer **out, hr_error *err)
{
    *out = NULL;
    if (!a->buffers[0])
        return HR_OK;
    if (a->offset == 0) {
        *out = hr__buffer_ref(a->buffers[0]);
        return HR_OK;
    }
    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(a->length), out, err));
    memset((*out)->data, 0, (size_t)(*out)->n_bytes);
    hr__bits_copy((*out)->data, 0, a->buffers[0]->data, a->offset, a->length);
    return HR_OK;
}

static hr_status numbers(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_status st = HR_OK;

    HR_GO(own_validity(mem, a, &buffers[0], err));
    HR_GO(hr__buffer_new(mem, a->length * hr__type_bytes(type), &buffers[1], err));
    if (!widen_values(a->type->id, hr__array_values(a), type->id, buffers[1]->data, a->length))
        HR_FAIL(HR_BUG, "unify: one type does not widen to the other");
    return hr__array_new(type, a->length, -1, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ times */

/* The factor of a value: 86,400,000 for a date32 as date64, 1000 for each finer unit. */
static int64_t time_factor(const hr_type *from, const hr_type *to)
{
    int64_t factor = 1;

    if (from->id == HR_T_DATE32)
        return 86400000;
    for (int unit = (int)from->unit; unit < (int)to->unit; unit++)
        factor *= 1000;
    return factor;
}

static int64_t time_value(const hr_type *t, const uint8_t *values, int64_t i)
{
    return hr__type_bytes(t) == 4 ? ((const int32_t *)(const void *)values)[i]
                                  : ((const int64_t *)(const void *)values)[i];
}

static hr_status times(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    int64_t factor = time_factor(a->type, type);
    const uint8_t *values = hr__array_values(a);
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_status st = HR_OK;

    HR_GO(own_validity(mem, a, &buffers[0], err));
    HR_GO(hr__buffer_new(mem, a->length * hr__type_bytes(type), &buffers[1], err));
    for (int64_t i = 0; i < a->length; i++) {
        int64_t v = hr__array_is_null(a, i) ? 0 : time_value(a->type, values, i), wide;

        if (__builtin_mul_overflow(v, factor, &wide))
            HR_FAIL(HR_TYPE, "row %lld: the time %lld does not fit the finer unit", (long long)i, (long long)v);
        if (hr__type_bytes(type) == 4)
            ((int32_t *)(void *)buffers[1]->data)[i] = (int32_t)wide;
        else
            ((int64_t *)(void *)buffers[1]->data)[i] = wide;
    }
    return hr__array_new(type, a->length, -1, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- nested */

/* The offsets of a's own rows as 32 or 64 bits; for a fixed list, computed. */
static hr_status own_offsets(const hr_mem *mem, const hr_array *a, hr_type *type, hr_buffer **out, hr_error *err)
{
    int from = hr__type_offset_bytes(a->type), to = hr__type_offset_bytes(type);

    *out = NULL;
    if (!from && to == 4 && (a->offset + a->length) * a->type->width > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "a list column would have more than 2 Gi values in one table");
    HR_TRY(hr__buffer_new(mem, (a->length + 1) * to, out, err));
    for (int64_t i = 0; i <= a->length; i++) {
        int64_t v = from ? 0 : (a->offset + i) * a->type->width;
        const uint8_t *data = from && a->buffers[1] && a->buffers[1]->n_bytes ? a->buffers[1]->data : NULL;

        if (data)
            v = from == 4 ? ((const int32_t *)(const void *)data)[a->offset + i]
                          : ((const int64_t *)(const void *)data)[a->offset + i];
        if (to == 4)
            ((int32_t *)(void *)(*out)->data)[i] = (int32_t)v;
        else
            ((int64_t *)(void *)(*out)->data)[i] = v;
    }
    return HR_OK;
}

static hr_status widen(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err);

/* string -> large_string and list -> large_list: other offsets and the same bytes, or a widened child. */
static hr_status offsets(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, hr__type_is_bytes(type) ? hr__buffer_ref(a->buffers[2]) : NULL };
    hr_array *child = NULL;
    hr_status st = HR_OK;

    HR_GO(own_validity(mem, a, &buffers[0], err));
    HR_GO(own_offsets(mem, a, type, &buffers[1], err));
    if (type->n_children)
        HR_GO(widen(mem, a->children[0], type->children[0].type, &child, err));
    return hr__array_new(type, a->length, -1, buffers, &child, type->n_children, out, err);
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

/* The same layout: the rows stay; children are widened in the order of `type`, by name for structs. */
static hr_status children(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    hr_array **made = hr__zalloc(NULL, ((size_t)type->n_children + 1) * sizeof *made);
    hr_status st = HR_OK;

    if (!made)
        return hr__error_memory(err, "unify", type->n_children * (int64_t)sizeof *made);
    for (int i = 0; i < type->n_children; i++) {
        const hr_field *f = &type->children[i];
        int at = type->id == HR_T_STRUCT ? find_field(a->type, f->name) : i;

        if (at < 0)
            HR_GO(hr__array_nulls(mem, f->type, a->offset + a->length, &made[i], err));
        else
            HR_GO(widen(mem, a->children[at], f->type, &made[i], err));
    }
    st = hr__array_new(type, a->length, -1,
                       (hr_buffer *[3]){ hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]), NULL }, made,
                       type->n_children, out, err);
    memset(made, 0, (size_t)type->n_children * sizeof *made); /* taken */
    if (!st)
        (*out)->offset = a->offset;
done:
    for (int i = 0; i < type->n_children; i++)
        hr__array_unref(made[i]);
    hr__free(made);
    return st;
}

/* A decimal with more digits of the same scale: only the type differs. */
static hr_status retyped(const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    HR_TRY(hr__array_new(type, a->length, -1,
                         (hr_buffer *[3]){ hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]), NULL }, NULL,
                         0, out, err));
    (*out)->offset = a->offset;
    return HR_OK;
}

static hr_status widen(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    hr_type_id from = a->type->id, to = type->id;

    *out = NULL;
    if (hr__type_equal(a->type, type)) {
        *out = hr__array_ref((hr_array *)(uintptr_t)a);
        return HR_OK;
    }
    if (from == HR_T_NULL)
        return hr__array_nulls(mem, type, a->length, out, err);
    if ((is_int(from) || is_float(from)) && (is_int(to) || is_float(to)))
        return numbers(mem, a, type, out, err);
    if (to >= HR_T_DATE32 && to <= HR_T_DURATION && from >= HR_T_DATE32 && from <= HR_T_DURATION)
        return times(mem, a, type, out, err);
    if (from == to && (to == HR_T_DECIMAL128 || to == HR_T_DECIMAL256))
        return retyped(a, type, out, err);
    if (from == HR_T_TENSOR)
        return hr__array_conform(mem, a, type, out, err);
    if ((hr__type_is_bytes(a->type) && hr__type_is_bytes(type)) ||
        (is_list(type) && (is_list(a->type) || from == HR_T_FIXED_LIST) && from != to))
        return offsets(mem, a, type, out, err);
    if (from == to && (is_list(type) || to == HR_T_MAP || to == HR_T_FIXED_LIST || to == HR_T_STRUCT))
        return children(mem, a, type, out, err);
    return hr_error_set(err, HR_BUG, "unify: %s does not widen to %s", hr__type_format(a->type), hr__type_format(type));
}

hr_status hr__array_unify(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    *out = NULL;
    HR_TRY(check_kept(a, type, err));
    return widen(mem, a, type, out, err);
}
