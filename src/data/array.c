/* array.c - one column of values: constructors, slices, checks and access to single values.
 *
 * An array is a type, a range of rows (offset, length) and counted buffers in Arrow's layout. It never changes after
 * its construction, except the reference count and the null count, which the first request computes. Two threads may
 * compute it at the same time; both store the same number.
 *
 * Data from outside (files, other processes, the C data interface) passes hr__array_check once; all other code trusts
 * it. The check covers the array's range of rows, not whole buffers: bytes outside a slice may have any content. */
#include "data/data.h"

/* -------------------------------------------------------------------------------------------------- making, sharing */

hr_status hr__array_new(hr_type *type, int64_t length, int64_t null_count, hr_buffer *const buffers[3],
                        hr_array *const *children, int n_children, hr_array **out, hr_error *err)
{
    size_t n_bytes = sizeof(hr_array) + (size_t)n_children * sizeof(hr_array *);
    hr_array *a = hr__alloc(NULL, n_bytes);

    *out = NULL;
    if (!a) {
        for (int i = 0; buffers && i < 3; i++)
            hr__buffer_unref(buffers[i]);
        for (int i = 0; i < n_children; i++)
            hr__array_unref(children[i]);
        return hr__error_memory(err, "array", (int64_t)n_bytes);
    }
    *a = (hr_array){ .type = hr__type_ref(type), .length = length, .n_children = n_children };
    atomic_init(&a->refs, 1);
    atomic_init(&a->null_count, type->id == HR_T_NULL ? length : null_count);
    for (int i = 0; buffers && i < 3; i++)
        a->buffers[i] = buffers[i];
    a->children = n_children ? (hr_array **)(a + 1) : NULL;
    for (int i = 0; i < n_children; i++)
        a->children[i] = children[i];
    *out = a;
    return HR_OK;
}

hr_array *hr__array_ref(hr_array *a)
{
    if (a)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void hr__array_unref(hr_array *a)
{
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(a->buffers[i]);
    for (int i = 0; i < a->n_children; i++)
        hr__array_unref(a->children[i]);
    hr__type_unref(a->type);
    hr__free(a);
}

hr_status hr__array_slice(const hr_array *a, int64_t begin, int64_t n, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3];
    int64_t nulls = atomic_load_explicit(&a->null_count, memory_order_relaxed);

    *out = NULL;
    if (begin < 0 || n < 0 || begin > a->length - n)
        return hr_error_set(err, HR_BUG, "slice: %lld rows from row %lld, there are %lld", (long long)n,
                            (long long)begin, (long long)a->length);
    for (int i = 0; i < 3; i++)
        buffers[i] = hr__buffer_ref(a->buffers[i]);
    for (int i = 0; i < a->n_children; i++)
        hr__array_ref(a->children[i]);
    if (nulls != 0 && n != a->length)
        nulls = nulls == a->length ? n : -1;
    HR_TRY(hr__array_new(a->type, n, nulls, buffers, a->children, a->n_children, out, err));
    (*out)->offset = a->offset + begin;
    return HR_OK;
}

int64_t hr__array_null_count(const hr_array *a)
{
    int64_t n = atomic_load_explicit(&a->null_count, memory_order_relaxed);

    if (n >= 0)
        return n;
    n = a->buffers[0] ? a->length - hr__bits_count(a->buffers[0]->data, a->offset, a->length) : 0;
    atomic_store_explicit(&((hr_array *)a)->null_count, n, memory_order_relaxed);
    return n;
}

/* -------------------------------------------------------------------------------------------------- one row's value */

static bool is_text(const hr_type *t) { return t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING; }
/* Offset number i, counted from the array's first row. */
static int64_t offset_at(const hr_array *a, int width, int64_t i)
{
    if (!a->buffers[1])
        return 0;
    if (width == 4)
        return ((const int32_t *)(const void *)a->buffers[1]->data)[a->offset + i];
    return ((const int64_t *)(const void *)a->buffers[1]->data)[a->offset + i];
}

const uint8_t *hr__array_bytes(const hr_array *a, int64_t i, int64_t *n)
{
    static const uint8_t nothing[1];
    int width = hr__type_offset_bytes(a->type);
    int64_t begin;

    if (width == 0) {
        *n = a->type->width;
        return a->buffers[1] ? a->buffers[1]->data + (a->offset + i) * *n : nothing;
    }
    begin = offset_at(a, width, i);
    *n = offset_at(a, width, i + 1) - begin;
    return a->buffers[2] ? a->buffers[2]->data + begin : nothing;
}

void hr__array_range(const hr_array *a, int64_t i, int64_t *begin, int64_t *n)
{
    int width = hr__type_offset_bytes(a->type);

    if (width == 0) {
        *n = a->type->width;
        *begin = (a->offset + i) * *n;
        return;
    }
    *begin = offset_at(a, width, i);
    *n = offset_at(a, width, i + 1) - *begin;
}

/* ----------------------------------------------------------------------------------------------------------- checks */

static hr_status bad_size(const char *what, int64_t found, int64_t needed, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: %lld bytes, expected at least %lld", what, (long long)found,
                        (long long)needed);
}

/* Buffer b holds at least n items of item_bytes and is aligned for them: loops rely on it. */
static hr_status check_items(const hr_buffer *b, const char *what, int64_t n, int64_t item_bytes, int64_t align_bytes,
                             hr_error *err)
{
    int64_t needed = 0, found = b ? b->n_bytes : 0;

    if (__builtin_mul_overflow(n, item_bytes, &needed))
        needed = INT64_MAX;
    if (found < needed)
        return bad_size(what, found, needed, err);
    if (needed && (uintptr_t)b->data % (uintptr_t)align_bytes != 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: its address is no multiple of %lld", what, (long long)align_bytes);
    return HR_OK;
}

static hr_status check_nulls(const hr_array *a, hr_error *err)
{
    int64_t known = atomic_load_explicit(&a->null_count, memory_order_relaxed), found = 0;

    if (a->type->id == HR_T_NULL)
        return HR_OK;
    if (a->buffers[0]) {
        int64_t needed = (a->offset + a->length) / 8 + ((a->offset + a->length) % 8 != 0);

        if (a->buffers[0]->n_bytes < needed)
            return bad_size("validity", a->buffers[0]->n_bytes, needed, err);
        found = a->length - hr__bits_count(a->buffers[0]->data, a->offset, a->length);
    }
    if (known >= 0 && known != found)
        return hr_error_set(err, HR_BAD_DATA, "%lld rows are null, expected %lld", (long long)found, (long long)known);
    return HR_OK;
}

/* Checks that offsets are in order and within [0, limit]. One pass without branches; a second one finds the wrong
 * row. */
static hr_status check_offsets(const hr_array *a, int width, int64_t limit, hr_error *err)
{
    bool falls = false;

    if (a->length == 0 && !a->buffers[1])
        return HR_OK;
    HR_TRY(check_items(a->buffers[1], "offsets", a->offset + a->length + 1, width, width, err));
    if (width == 4) {
        const int32_t *o = (const int32_t *)(const void *)a->buffers[1]->data + a->offset;

        for (int64_t i = 0; i < a->length; i++)
            falls |= o[i + 1] < o[i];
    } else {
        const int64_t *o = (const int64_t *)(const void *)a->buffers[1]->data + a->offset;

        for (int64_t i = 0; i < a->length; i++)
            falls |= o[i + 1] < o[i];
    }
    for (int64_t i = 0; falls && i < a->length; i++)
        if (offset_at(a, width, i + 1) < offset_at(a, width, i))
            return hr_error_set(err, HR_BAD_DATA, "row %lld: offset %lld comes after %lld", (long long)i,
                                (long long)offset_at(a, width, i + 1), (long long)offset_at(a, width, i));
    if (offset_at(a, width, 0) < 0 || offset_at(a, width, a->length) > limit)
        return hr_error_set(err, HR_BAD_DATA, "offsets from %lld to %lld, found %lld %s",
                            (long long)offset_at(a, width, 0), (long long)offset_at(a, width, a->length),
                            (long long)limit, hr__type_is_bytes(a->type) ? "bytes" : "values");
    return HR_OK;
}

/* Checks all rows at once: the text is well-formed and each row begins at a character. If not, checks row by row, since
 * nulls may have any content. */
static hr_status check_text(const hr_array *a, int width, hr_error *err)
{
    int64_t first = offset_at(a, width, 0), last = offset_at(a, width, a->length), n = 0;
    const uint8_t *data = a->buffers[2] ? a->buffers[2]->data : NULL;
    bool inside = false;

    if (a->length == 0 || first == last)
        return HR_OK;
    for (int64_t i = 0; i < a->length; i++) {
        int64_t at = offset_at(a, width, i);

        inside |= at < last && (data[at] & 0xC0) == 0x80;
    }
    if (!inside && hr__utf8_valid(data + first, last - first))
        return HR_OK;
    for (int64_t i = 0; i < a->length; i++) {
        const uint8_t *p = hr__array_bytes(a, i, &n);

        if (!hr__array_is_null(a, i) && !hr__utf8_valid(p, n))
            return hr_error_set(err, HR_BAD_DATA, "row %lld: not valid UTF-8", (long long)i);
    }
    return HR_OK;
}

static hr_status check_child(const hr_array *a, int i, int64_t needed, bool check_utf8, hr_error *err)
{
    const hr_array *child = a->children[i];
    const char *name = a->type->children[i].name;
    hr_status st;

    if (!child || !hr__type_equal(child->type, a->type->children[i].type))
        return hr_error_set(err, HR_BAD_DATA, "'%s': the values have another type", name);
    if (child->length < needed)
        return hr_error_set(err, HR_BAD_DATA, "'%s': %lld values, expected at least %lld", name,
                            (long long)child->length, (long long)needed);
    st = hr__array_check(child, check_utf8, err);
    return st ? hr__error_at(err, st, "'%s'", name) : HR_OK;
}

static hr_status check_children(const hr_array *a, bool check_utf8, hr_error *err)
{
    int64_t needed = a->offset + a->length;

    if (a->n_children != a->type->n_children)
        return hr_error_set(err, HR_BAD_DATA, "%d children, expected %d", a->n_children, (int)a->type->n_children);
    if (hr__type_is_fixed_list(a->type) && __builtin_mul_overflow(needed, (int64_t)a->type->width, &needed))
        return hr_error_set(err, HR_BAD_DATA, "%lld rows of %d values", (long long)a->length, (int)a->type->width);
    if (hr__type_offset_bytes(a->type))
        needed = 0; /* by the offsets */
    for (int i = 0; i < a->n_children; i++)
        HR_TRY(check_child(a, i, needed, check_utf8, err));
    return HR_OK;
}

hr_status hr__array_check(const hr_array *a, bool check_utf8, hr_error *err)
{
    int width = hr__type_offset_bytes(a->type), value_bytes = hr__type_bytes(a->type);
    int64_t end = 0;

    if (a->offset < 0 || a->length < 0 || __builtin_add_overflow(a->offset, a->length, &end) || end > INT64_MAX - 8)
        return hr_error_set(err, HR_BAD_DATA, "%lld rows from row %lld", (long long)a->length, (long long)a->offset);
    HR_TRY(check_nulls(a, err));
    if (a->type->id == HR_T_BOOL)
        HR_TRY(check_items(a->buffers[1], "values", end / 8 + (end % 8 != 0), 1, 1, err));
    if (value_bytes)
        HR_TRY(check_items(a->buffers[1], "values", end, value_bytes, hr__type_align(a->type), err));
    HR_TRY(check_children(a, check_utf8, err));
    if (hr__type_is_bytes(a->type)) {
        HR_TRY(check_offsets(a, width, a->buffers[2] ? a->buffers[2]->n_bytes : 0, err));
        return check_utf8 && is_text(a->type) ? check_text(a, width, err) : HR_OK;
    }
    return width ? check_offsets(a, width, a->children[0]->length, err) : HR_OK;
}

/* ------------------------------------------------------------------------------------------------------- bytes used */

static int64_t buffer_bytes(hr_buffer *b, int64_t n, bool charge)
{
    if (charge && b)
        hr__buffer_charge(b, n);
    return n;
}

/* charge: by hr__buffer_charge, too. */
static int64_t range_bytes(const hr_array *a, int64_t begin, int64_t n, bool charge)
{
    int width = hr__type_offset_bytes(a->type);
    int64_t sum = a->buffers[0] ? buffer_bytes(a->buffers[0], hr__bits_bytes(n), charge) : 0, first, values;

    if (a->type->id == HR_T_BOOL)
        return sum + buffer_bytes(a->buffers[1], hr__bits_bytes(n), charge);
    sum += buffer_bytes(a->buffers[1], width ? (n + 1) * width : n * hr__type_bytes(a->type), charge);
    if (width) {
        first = offset_at(a, width, begin);
        values = offset_at(a, width, begin + n) - first;
        return sum + (hr__type_is_bytes(a->type) ? buffer_bytes(a->buffers[2], values, charge)
                                                 : range_bytes(a->children[0], first, values, charge));
    }
    first = a->offset + begin;
    for (int i = 0; i < a->n_children; i++) {
        if (hr__type_is_fixed_list(a->type))
            sum += range_bytes(a->children[i], first * a->type->width, n * a->type->width, charge);
        else
            sum += range_bytes(a->children[i], first, n, charge);
    }
    return sum;
}

bool hr__array_sole(const hr_array *a)
{
    if (atomic_load_explicit(&a->refs, memory_order_acquire) != 1)
        return false;
    for (int i = 0; i < 3; i++)
        if (a->buffers[i] && !hr__buffer_sole(a->buffers[i]))
            return false;
    for (int i = 0; i < a->n_children; i++)
        if (!hr__array_sole(a->children[i]))
            return false;
    return true;
}

int64_t hr__array_bytes_used(const hr_array *a) { return range_bytes(a, 0, a->length, false); }
void hr__array_charge(const hr_array *a) { (void)range_bytes(a, 0, a->length, true); }

/* --------------------------------------------------------------------------------------------------------- equality */

static bool same_double(double a, double b) { return a == b || (a != a && b != b); }

static bool is_half_nan(uint16_t h) { return (h & 0x7FFF) > 0x7C00; }

static bool same_half(uint16_t a, uint16_t b)
{
    return a == b || (is_half_nan(a) && is_half_nan(b)) || ((a | b) & 0x7FFF) == 0;
}

static bool is_float(const hr_type *t) { return t->id >= HR_T_FLOAT16 && t->id <= HR_T_FLOAT64; }

static bool same_float(hr_type_id id, const uint8_t *a, const uint8_t *b)
{
    union {
        uint16_t half;
        float single;
        double dbl;
    } x, y;
    size_t n = id == HR_T_FLOAT16 ? 2 : id == HR_T_FLOAT32 ? 4 : 8;

    memcpy(&x, a, n);
    memcpy(&y, b, n);
    if (id == HR_T_FLOAT16)
        return same_half(x.half, y.half);
    return id == HR_T_FLOAT32 ? same_double((double)x.single, (double)y.single) : same_double(x.dbl, y.dbl);
}

static bool ranges_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j, int64_t n);

/* Neither is null. */
static bool values_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    int width = hr__type_bytes(a->type);
    int64_t n = 0, m = 0, first = 0, second = 0;

    if (a->type->id == HR_T_BOOL)
        return hr__bit(a->buffers[1]->data, a->offset + i) == hr__bit(b->buffers[1]->data, b->offset + j);
    if (is_float(a->type))
        return same_float(a->type->id, hr__array_values(a) + i * width, hr__array_values(b) + j * width);
    if (width)
        return memcmp(hr__array_values(a) + i * width, hr__array_values(b) + j * width, (size_t)width) == 0;
    if (hr__type_is_bytes(a->type)) {
        const uint8_t *p = hr__array_bytes(a, i, &n), *q = hr__array_bytes(b, j, &m);

        return n == m && memcmp(p, q, (size_t)n) == 0;
    }
    if (a->type->id == HR_T_STRUCT) {
        for (int k = 0; k < a->n_children; k++)
            if (!ranges_equal(a->children[k], a->offset + i, b->children[k], b->offset + j, 1))
                return false;
        return true;
    }
    if (a->n_children == 0)
        return true; /* fixed binary of no bytes */
    hr__array_range(a, i, &first, &n);
    hr__array_range(b, j, &second, &m);
    return n == m && ranges_equal(a->children[0], first, b->children[0], second, n);
}

static bool ranges_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j, int64_t n)
{
    int width = hr__type_bytes(a->type);

    if (width && n && !a->buffers[0] && !b->buffers[0]) {
        if (memcmp(hr__array_values(a) + i * width, hr__array_values(b) + j * width, (size_t)(n * width)) == 0)
            return true;
        if (!is_float(a->type))
            return false;
    }
    for (int64_t k = 0; k < n; k++) {
        bool null = hr__array_is_null(a, i + k);

        if (null != hr__array_is_null(b, j + k) || (!null && !values_equal(a, i + k, b, j + k)))
            return false;
    }
    return true;
}

bool hr__values_equal(const hr_array *a, int64_t i, const hr_array *b, int64_t j)
{
    return ranges_equal(a, i, b, j, 1);
}

bool hr__array_equal(const hr_array *a, const hr_array *b)
{
    if (a == b)
        return true;
    return a->length == b->length && hr__type_equal(a->type, b->type) && ranges_equal(a, 0, b, 0, a->length);
}

/* ------------------------------------------------------------------------------------------------------ dense lists */

static bool range_has_nulls(const hr_array *a, int64_t begin, int64_t n)
{
    if (a->type->id == HR_T_NULL)
        return n > 0;
    if (!a->buffers[0] || atomic_load_explicit(&a->null_count, memory_order_relaxed) == 0)
        return false;
    return hr__bits_count(a->buffers[0]->data, a->offset + begin, n) < n;
}

/* The one length of the lists in rows [begin, begin + n); -1: there are two. */
static int64_t common_length(const hr_array *a, int64_t begin, int64_t n)
{
    int width = hr__type_offset_bytes(a->type);
    int64_t first = offset_at(a, width, begin), length = n ? offset_at(a, width, begin + 1) - first : 0;

    for (int64_t i = 1; i <= n; i++)
        if (offset_at(a, width, begin + i) != first + i * length)
            return -1;
    return length;
}

/* Whether rows of a ragged tensor have one shape and contiguous values. */
static bool ragged_dense(const hr_array *a, int *n_dims, int64_t shape[HR_MAX_DIMS], const hr_array **values,
                         int64_t *begin)
{
    const hr_array *data = a->children[0], *sizes = a->children[1], *of = sizes->children[0];
    int64_t n = a->type->n_dims, first = sizes->offset + a->offset, length = 1;
    const int32_t *s = (const int32_t *)(const void *)hr__array_values(of) + first * n;

    if (range_has_nulls(a, 0, a->length) || range_has_nulls(data, a->offset, a->length) ||
        range_has_nulls(sizes, a->offset, a->length) || range_has_nulls(of, first * n, a->length * n))
        return false;
    for (int64_t i = n; i < n * a->length; i++)
        if (s[i] != s[i - n])
            return false;
    for (int d = 0; d < n; d++) {
        shape[d] = a->length ? s[d] : 0;
        if (shape[d] < 0 || __builtin_mul_overflow(length, shape[d], &length))
            return false;
    }
    if (a->length && common_length(data, a->offset, a->length) != length)
        return false;
    *n_dims = (int)n - (a->type->image && a->length && shape[2] == 1);
    *begin = a->length ? offset_at(data, 4, a->offset) : 0;
    *values = data->children[0];
    return !range_has_nulls(*values, *begin, length * a->length);
}

/* Ends of rows of `width` values; shapes. */
static hr_status ragged_parts(const hr_mem *mem, const hr_array *a, hr_buffer **ends, hr_buffer **shapes, hr_error *err)
{
    const hr_type *t = a->type;

    HR_TRY(hr__buffer_new(mem, (a->length + 1) * 4, ends, err));
    HR_TRY(hr__buffer_new(mem, a->length * t->n_dims * 4, shapes, err));
    for (int64_t i = 0; i <= a->length; i++)
        ((int32_t *)(void *)(*ends)->data)[i] = (int32_t)(i * t->width);
    for (int64_t i = 0; i < a->length * t->n_dims; i++)
        ((int32_t *)(void *)(*shapes)->data)[i] = (int32_t)t->shape[i % t->n_dims];
    return HR_OK;
}

hr_status hr__array_as_ragged(const hr_mem *mem, const hr_array *a, hr_array **out, hr_error *err)
{
    hr_buffer *ends = NULL, *shapes = NULL;
    hr_array *values = NULL, *sizes = NULL, *parts[2] = { NULL, NULL };
    hr_type *type = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (a->type->id != HR_T_TENSOR || a->type->n_dims < 1 || range_has_nulls(a, 0, a->length))
        return hr_error_set(err, HR_TYPE, "only tensors without nulls can be ragged ones");
    if (a->length * a->type->width > INT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "tensors of more than 2 GiB values in one table");
    HR_GO(hr__type_ragged(a->type->children[0].type, a->type->n_dims, &type, err));
    HR_GO(ragged_parts(mem, a, &ends, &shapes, err));
    HR_GO(hr__array_slice(a->children[0], a->offset * a->type->width, a->length * a->type->width, &values, err));
    st = hr__array_new(hr__type_simple(HR_T_INT32), a->length * a->type->n_dims, 0,
                       (hr_buffer *[3]){ NULL, shapes, NULL }, NULL, 0, &sizes, err);
    shapes = NULL; /* taken */
    HR_GO(st);
    st = hr__array_new(type->children[0].type, a->length, 0, (hr_buffer *[3]){ NULL, ends, NULL }, &values, 1,
                       &parts[0], err);
    ends = NULL;
    values = NULL;
    HR_GO(st);
    st = hr__array_new(type->children[1].type, a->length, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, &sizes, 1, &parts[1],
                       err);
    sizes = NULL;
    HR_GO(st);
    st = hr__array_new(type, a->length, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, parts, 2, out, err);
    parts[0] = parts[1] = NULL;
done:
    hr__buffer_unref(ends);
    hr__buffer_unref(shapes);
    hr__array_unref(values);
    hr__array_unref(sizes);
    hr__array_unref(parts[0]);
    hr__array_unref(parts[1]);
    hr__type_unref(type);
    return st;
}

bool hr__array_dense(const hr_array *a, int *n_dims, int64_t shape[HR_MAX_DIMS], const hr_array **values,
                     int64_t *begin)
{
    int64_t first = 0, n = a->length;

    *n_dims = 0;
    if (hr__type_is_ragged(a->type))
        return ragged_dense(a, n_dims, shape, values, begin);
    for (;;) {
        hr_type_id id = a->type->id;
        int64_t length;

        if (range_has_nulls(a, first, n))
            return false;
        if (id == HR_T_BOOL || hr__type_bytes(a->type) > 0)
            break;
        if (*n_dims == HR_MAX_DIMS || (id != HR_T_LIST && id != HR_T_LARGE_LIST && !hr__type_is_fixed_list(a->type)))
            return false;
        length = hr__type_is_fixed_list(a->type) ? a->type->width : common_length(a, first, n);
        if (length < 0)
            return false;
        if (id == HR_T_TENSOR) {
            if (*n_dims + a->type->n_dims > HR_MAX_DIMS)
                return false;
            for (int32_t i = 0; i < a->type->n_dims; i++)
                shape[(*n_dims)++] = a->type->shape[i];
        } else {
            shape[(*n_dims)++] = length;
        }
        first = hr__type_is_fixed_list(a->type) ? (a->offset + first) * length
                                                : offset_at(a, hr__type_offset_bytes(a->type), first);
        n *= length;
        a = a->children[0];
    }
    *values = a;
    *begin = first;
    return true;
}
