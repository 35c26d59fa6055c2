/* gather.c - new arrays from rows of old ones: concat (ranges of rows) and take (rows one by one).
 *
 * Every shuffle, sort, batch and join ends here, so the code works by column, by width, and reads the bytes once.
 *
 * 1. Nested columns work by ranges. The child of a list, taken row by row, is a list of ranges of the old child; so
 *    take has loops for flat columns only, and passes nested ones to gather. Adjacent ranges are merged.
 * 2. A range without array means nulls: the rows that a join did not find, and their values in children.
 * 3. The result gets a validity bitmap only if an input may have nulls, and drops it if no row is null; so results know
 *    their null count.
 * 4. Loads are memcpy of constant size: foreign values may lie at any address.
 * 5. Offsets of 32 bits may overflow when rows come together: HR_BUDGET, as for other results that are too large.
 * Contents of rows that are null: zero, or what the input had there. */
#include "data/data.h"

#define NEAR_BYTES 16 /* text up to this length is copied by one load and store, where both sides have room for it */
#define AHEAD 32      /* rows by which the prefetch is ahead; random rows of a large column are cache misses */
#define FAR_BYTES (1 << 20) /* a column from this size on is large: below it, a prefetch costs more than it gains */

static const hr_mem root_mem;

static const int32_t *offsets32(const hr_array *a)
{
    return (const int32_t *)(const void *)a->buffers[1]->data + a->offset;
}
static const int64_t *offsets64(const hr_array *a)
{
    return (const int64_t *)(const void *)a->buffers[1]->data + a->offset;
}

/* The range of bytes or values of rows [begin, begin + n). */
static void value_range(const hr_array *a, int width, int64_t begin, int64_t n, int64_t *first, int64_t *n_values)
{
    *first = *n_values = 0;
    if (n == 0)
        return;
    *first = width == 4 ? offsets32(a)[begin] : offsets64(a)[begin];
    *n_values = (width == 4 ? offsets32(a)[begin + n] : offsets64(a)[begin + n]) - *first;
}

static hr_status check_values(const hr_type *type, int width, int64_t n_values, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    if (width != 4 || n_values <= INT32_MAX)
        return HR_OK;
    hr__type_print(type, &t);
    st = hr_error_set(
        err, HR_BUDGET,
        "%lld %s together exceed the 2 GiB that 32-bit offsets reach, in a column of type %s: use large_%s",
        (long long)n_values, hr__type_is_bytes(type) ? "bytes" : "values", t.data ? t.data : "?",
        type->id == HR_T_STRING   ? "string"
        : type->id == HR_T_BINARY ? "binary"
                                  : "list");
    hr__text_clear(&t);
    return st;
}

static hr_status new_values(const hr_mem *mem, int64_t n, int64_t item_bytes, hr_buffer **out, hr_error *err)
{
    int64_t n_bytes = 0;

    if (__builtin_mul_overflow(n, item_bytes, &n_bytes))
        return hr__error_memory(err, "gather", INT64_MAX);
    return hr__buffer_new(mem, n_bytes, out, err);
}

/* --------------------------------------------------------------------------------------------------------- validity */

static bool may_be_null(const hr_array *a)
{
    return a->buffers[0] && atomic_load_explicit(&a->null_count, memory_order_relaxed) != 0;
}

static hr_status new_bits(const hr_mem *mem, int64_t n, hr_buffer **out, hr_error *err)
{
    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(n), out, err));
    if (n)
        (*out)->data[(n - 1) / 8] = 0; /* bits after the last row */
    return HR_OK;
}

/* Counts the nulls; drops the buffer if no row is null. */
static void settle_validity(hr_buffer **validity, int64_t n, int64_t *n_null)
{
    *n_null = *validity ? n - hr__bits_count((*validity)->data, 0, n) : 0;
    if (*n_null == 0) {
        hr__buffer_unref(*validity);
        *validity = NULL;
    }
}

static hr_status gather_validity(const hr_mem *mem, const hr_span *spans, int64_t n_spans, int64_t n, hr_buffer **out,
                                 int64_t *n_null, hr_error *err)
{
    bool any = false;
    int64_t at = 0;

    for (int64_t i = 0; i < n_spans && !any; i++)
        any = spans[i].n && (!spans[i].array || may_be_null(spans[i].array));
    *n_null = 0;
    if (!any)
        return HR_OK;
    HR_TRY(new_bits(mem, n, out, err));
    for (int64_t i = 0; i < n_spans; i++) {
        const hr_array *a = spans[i].array;

        if (a && may_be_null(a))
            hr__bits_copy((*out)->data, at, a->buffers[0]->data, a->offset + spans[i].begin, spans[i].n);
        else
            hr__bits_fill((*out)->data, at, spans[i].n, a != NULL);
        at += spans[i].n;
    }
    settle_validity(out, n, n_null);
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------- gather, flat types */

static hr_status gather_fixed(const hr_mem *mem, int width, const hr_span *spans, int64_t n_spans, int64_t n,
                              hr_buffer **out, hr_error *err)
{
    uint8_t *to;

    HR_TRY(new_values(mem, n, width, out, err));
    to = (*out)->data;
    for (int64_t i = 0; i < n_spans; i++) {
        const hr_array *a = spans[i].array;
        size_t n_bytes = (size_t)(spans[i].n * width);

        if (a && n_bytes)
            memcpy(to, a->buffers[1]->data + (a->offset + spans[i].begin) * width, n_bytes);
        else
            memset(to, 0, n_bytes);
        to += n_bytes;
    }
    return HR_OK;
}

static hr_status gather_bits(const hr_mem *mem, const hr_span *spans, int64_t n_spans, int64_t n, hr_buffer **out,
                             hr_error *err)
{
    int64_t at = 0;

    HR_TRY(new_bits(mem, n, out, err));
    for (int64_t i = 0; i < n_spans; i++) {
        const hr_array *a = spans[i].array;

        if (a && spans[i].n)
            hr__bits_copy((*out)->data, at, a->buffers[1]->data, a->offset + spans[i].begin, spans[i].n);
        else
            hr__bits_fill((*out)->data, at, spans[i].n, false);
        at += spans[i].n;
    }
    return HR_OK;
}

/* Writes the offsets of the rows of all spans after to[0]: those of the input, shifted. */
#define MOVE_OFFSETS(name, offset, offsets)                                                                            \
    static void name(offset *to, const hr_span *spans, int64_t n_spans)                                                \
    {                                                                                                                  \
        offset at = 0;                                                                                                 \
                                                                                                                       \
        *to++ = 0;                                                                                                     \
        for (int64_t i = 0; i < n_spans; i++) {                                                                        \
            int64_t n = spans[i].n;                                                                                    \
                                                                                                                       \
            if (spans[i].array && n) {                                                                                 \
                const offset *from = offsets(spans[i].array) + spans[i].begin;                                         \
                offset move = at - from[0];                                                                            \
                                                                                                                       \
                for (int64_t k = 0; k < n; k++)                                                                        \
                    to[k] = from[k + 1] + move;                                                                        \
                at += from[n] - from[0];                                                                               \
            } else {                                                                                                   \
                for (int64_t k = 0; k < n; k++)                                                                        \
                    to[k] = at;                                                                                        \
            }                                                                                                          \
            to += n;                                                                                                   \
        }                                                                                                              \
    }
MOVE_OFFSETS(move_offsets32, int32_t, offsets32)
MOVE_OFFSETS(move_offsets64, int64_t, offsets64)
#undef MOVE_OFFSETS

static hr_status gather_offsets(const hr_mem *mem, const hr_type *type, const hr_span *spans, int64_t n_spans,
                                int64_t n, int64_t *n_values, hr_buffer **out, hr_error *err)
{
    int width = hr__type_offset_bytes(type);
    int64_t first = 0, more = 0;

    *n_values = 0;
    for (int64_t i = 0; i < n_spans; i++) {
        if (!spans[i].array)
            continue;
        value_range(spans[i].array, width, spans[i].begin, spans[i].n, &first, &more);
        if (__builtin_add_overflow(*n_values, more, n_values))
            return hr__error_memory(err, "gather", INT64_MAX);
    }
    HR_TRY(check_values(type, width, *n_values, err));
    HR_TRY(new_values(mem, n + 1, width, out, err));
    if (width == 4)
        move_offsets32((int32_t *)(void *)(*out)->data, spans, n_spans);
    else
        move_offsets64((int64_t *)(void *)(*out)->data, spans, n_spans);
    return HR_OK;
}

static hr_status gather_bytes(const hr_mem *mem, const hr_type *type, const hr_span *spans, int64_t n_spans, int64_t n,
                              hr_buffer *buffers[3], hr_error *err)
{
    int64_t total = 0, first = 0, n_bytes = 0;
    uint8_t *to;

    HR_TRY(gather_offsets(mem, type, spans, n_spans, n, &total, &buffers[1], err));
    HR_TRY(hr__buffer_new(mem, total, &buffers[2], err));
    to = buffers[2]->data;
    for (int64_t i = 0; i < n_spans; i++) {
        const hr_array *a = spans[i].array;

        if (!a)
            continue;
        value_range(a, hr__type_offset_bytes(type), spans[i].begin, spans[i].n, &first, &n_bytes);
        if (n_bytes)
            memcpy(to, a->buffers[2]->data + first, (size_t)n_bytes);
        to += n_bytes;
    }
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------- gather, nested types */

/* Adds rows to a list of spans; extends the last span if they follow it. */
static void span_add(hr_span *spans, int64_t *n_spans, const hr_array *a, int64_t begin, int64_t n)
{
    hr_span *last = spans + *n_spans - 1;

    if (n == 0)
        return;
    if (*n_spans && last->array == a && (!a || last->begin + last->n == begin)) {
        last->n += n;
        return;
    }
    spans[(*n_spans)++] = (hr_span){ a, begin, n };
}

static void child_spans(const hr_type *type, int child, const hr_span *spans, int64_t n_spans, hr_span *out,
                        int64_t *n_out)
{
    int width = hr__type_offset_bytes(type);
    int64_t values_a_row = type->id == HR_T_STRUCT ? 1 : type->width;

    for (int64_t i = 0; i < n_spans; i++) {
        const hr_array *a = spans[i].array;
        int64_t first = 0, n_values = 0;

        if (width) {
            if (!a)
                continue;
            value_range(a, width, spans[i].begin, spans[i].n, &first, &n_values);
        } else {
            first = a ? (a->offset + spans[i].begin) * values_a_row : 0;
            n_values = spans[i].n * values_a_row;
        }
        span_add(out, n_out, a ? a->children[child] : NULL, first, n_values);
    }
}

static hr_status gather_children(const hr_mem *mem, const hr_type *type, const hr_span *spans, int64_t n_spans,
                                 hr_array **children, hr_error *err)
{
    hr_status st = HR_OK;
    size_t n_bytes = (size_t)n_spans * sizeof(hr_span);
    hr_span few[16], *inner = n_spans <= HR_LEN(few) ? few : hr__alloc(mem->account, n_bytes);
    int64_t n = 0;

    if (!inner)
        return hr__error_memory(err, "gather", (int64_t)n_bytes);
    for (int i = 0; i < type->n_children; i++) {
        n = 0;
        child_spans(type, i, spans, n_spans, inner, &n);
        HR_GO(hr__array_gather(mem, type->children[i].type, inner, n, &children[i], err));
    }
done:
    if (inner != few)
        hr__free(inner);
    return st;
}

static hr_status gather_nested(const hr_mem *mem, hr_type *type, const hr_span *spans, int64_t n_spans, int64_t n,
                               hr_buffer *buffers[3], int64_t n_null, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t n_values = 0;
    size_t n_bytes = (size_t)type->n_children * sizeof(hr_array *);
    hr_array *one = NULL, **children = type->n_children <= 1 ? &one : hr__zalloc(mem->account, n_bytes);

    if (!children)
        return hr__error_memory(err, "gather", (int64_t)n_bytes);
    if (hr__type_offset_bytes(type))
        HR_GO(gather_offsets(mem, type, spans, n_spans, n, &n_values, &buffers[1], err));
    HR_GO(gather_children(mem, type, spans, n_spans, children, err));
    st = hr__array_new(type, n, n_null, buffers, children, type->n_children, out, err);
    memset(children, 0, n_bytes); /* the call took both */
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < type->n_children; i++)
        hr__array_unref(children[i]);
    if (children != &one)
        hr__free(children);
    return st;
}

static hr_status count_rows(const hr_type *type, const hr_span *spans, int64_t n_spans, int64_t *n, hr_error *err)
{
    int64_t values = 0;

    *n = 0;
    for (int64_t i = 0; i < n_spans; i++)
        if (__builtin_add_overflow(*n, spans[i].n, n) || *n > INT64_MAX - 64)
            return hr__error_memory(err, "gather", INT64_MAX);
    if (hr__type_is_fixed_list(type) && __builtin_mul_overflow(*n, (int64_t)type->width, &values))
        return hr__error_memory(err, "gather", INT64_MAX);
    return HR_OK;
}

hr_status hr__array_gather(const hr_mem *mem, hr_type *type, const hr_span *spans, int64_t n_spans, hr_array **out,
                           hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int64_t n = 0, n_null = 0;

    *out = NULL;
    mem = mem ? mem : &root_mem;
    HR_GO(count_rows(type, spans, n_spans, &n, err));
    if (type->id == HR_T_NULL)
        return hr__array_new(type, n, n, NULL, NULL, 0, out, err);
    HR_GO(gather_validity(mem, spans, n_spans, n, &buffers[0], &n_null, err));
    if (type->n_children || type->id == HR_T_STRUCT)
        HR_GO(gather_nested(mem, type, spans, n_spans, n, buffers, n_null, out, err));
    else if (hr__type_is_bytes(type))
        HR_GO(gather_bytes(mem, type, spans, n_spans, n, buffers, err));
    else if (type->id == HR_T_BOOL)
        HR_GO(gather_bits(mem, spans, n_spans, n, &buffers[1], err));
    else
        HR_GO(gather_fixed(mem, hr__type_bytes(type), spans, n_spans, n, &buffers[1], err));
    if (!*out) {
        st = hr__array_new(type, n, n_null, buffers, NULL, 0, out, err);
        buffers[0] = buffers[1] = buffers[2] = NULL;
    }
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

hr_status hr__array_concat(const hr_mem *mem, hr_type *type, hr_array *const *parts, int n_parts, hr_array **out,
                           hr_error *err)
{
    size_t n_bytes = (size_t)n_parts * sizeof(hr_span);
    hr_span few[16], *spans = n_parts <= HR_LEN(few) ? few : hr__alloc(mem ? mem->account : NULL, n_bytes);
    hr_status st = HR_OK;

    *out = NULL;
    if (!spans)
        return hr__error_memory(err, "concat", (int64_t)n_bytes);
    for (int i = 0; i < n_parts; i++) {
        if (type && !hr__type_equal(parts[i]->type, type))
            HR_FAIL(HR_BUG, "concat: part %d of %d has another type", i, n_parts);
        type = type ? type : parts[i]->type;
        spans[i] = (hr_span){ parts[i], 0, parts[i]->length };
    }
    if (!type)
        HR_FAIL(HR_BUG, "concat: no arrays, and no type");
    HR_GO(hr__array_gather(mem, type, spans, n_parts, out, err));
done:
    if (spans != few)
        hr__free(spans);
    return st;
}

hr_status hr__array_nulls(const hr_mem *mem, hr_type *type, int64_t n, hr_array **out, hr_error *err)
{
    hr_span span = { NULL, 0, n };

    return hr__array_gather(mem, type, &span, 1, out, err);
}

/* ------------------------------------------------------------------------------------------------- take, flat types */

/* Rows to take: elements base + idx[i] of the array; idx[i] < 0: null. */
typedef struct rows {
    const int32_t *idx32; /* one of the two */
    const int64_t *idx64;
    int64_t n;
    int64_t n_source; /* rows of the source; 0: all of idx is -1, and the array may have no buffers */
    int64_t base;     /* the offset of the parent */
    bool has_null;    /* some idx is negative */
} rows;

static inline int64_t row_at(const rows *r, int64_t i) { return r->idx32 ? r->idx32[i] : r->idx64[i]; }

typedef struct bytes16 {
    uint64_t w[2];
} bytes16;
typedef struct bytes32 {
    uint64_t w[4];
} bytes32;

/* One loop for each width and kind of index. `from` is the value of idx 0, which exists; -1 reads it, too, without
 * effect. */
#define TAKE_LOOP(name, value_type, idx_type)                                                                          \
    static void name(uint8_t *to, const uint8_t *from, const idx_type *idx, int64_t n, bool far, bool has_null)        \
    {                                                                                                                  \
        static const value_type zero;                                                                                  \
        const int64_t width = sizeof zero;                                                                             \
        value_type v;                                                                                                  \
        int64_t i = 0;                                                                                                 \
                                                                                                                       \
        for (; !far && !has_null && i < n; i++) {                                                                      \
            memcpy(&v, from + idx[i] * width, sizeof v);                                                               \
            memcpy(to + i * width, &v, sizeof v);                                                                      \
        }                                                                                                              \
        for (; far && i < n - AHEAD; i++) {                                                                            \
            __builtin_prefetch(from + (idx[i + AHEAD] < 0 ? 0 : idx[i + AHEAD]) * width);                              \
            memcpy(&v, from + (idx[i] < 0 ? 0 : idx[i]) * width, sizeof v);                                            \
            v = idx[i] < 0 ? zero : v;                                                                                 \
            memcpy(to + i * width, &v, sizeof v);                                                                      \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            memcpy(&v, from + (idx[i] < 0 ? 0 : idx[i]) * width, sizeof v);                                            \
            v = idx[i] < 0 ? zero : v;                                                                                 \
            memcpy(to + i * width, &v, sizeof v);                                                                      \
        }                                                                                                              \
    }
TAKE_LOOP(take_1_by_32, uint8_t, int32_t)
TAKE_LOOP(take_2_by_32, uint16_t, int32_t)
TAKE_LOOP(take_4_by_32, uint32_t, int32_t)
TAKE_LOOP(take_8_by_32, uint64_t, int32_t)
TAKE_LOOP(take_16_by_32, bytes16, int32_t)
TAKE_LOOP(take_32_by_32, bytes32, int32_t)
TAKE_LOOP(take_1_by_64, uint8_t, int64_t)
TAKE_LOOP(take_2_by_64, uint16_t, int64_t)
TAKE_LOOP(take_4_by_64, uint32_t, int64_t)
TAKE_LOOP(take_8_by_64, uint64_t, int64_t)
TAKE_LOOP(take_16_by_64, bytes16, int64_t)
TAKE_LOOP(take_32_by_64, bytes32, int64_t)
#undef TAKE_LOOP

static const struct {
    int width;
    void (*by32)(uint8_t *, const uint8_t *, const int32_t *, int64_t, bool, bool);
    void (*by64)(uint8_t *, const uint8_t *, const int64_t *, int64_t, bool, bool);
} take_loops[] = {
    { 1, take_1_by_32, take_1_by_64 }, { 2, take_2_by_32, take_2_by_64 },    { 4, take_4_by_32, take_4_by_64 },
    { 8, take_8_by_32, take_8_by_64 }, { 16, take_16_by_32, take_16_by_64 }, { 32, take_32_by_32, take_32_by_64 },
};

static void take_any_width(uint8_t *to, const uint8_t *from, const rows *r, int64_t width)
{
    for (int64_t i = 0; i < r->n; i++) {
        int64_t row = row_at(r, i);

        if (row < 0)
            memset(to + i * width, 0, (size_t)width);
        else
            memcpy(to + i * width, from + row * width, (size_t)width);
    }
}

/* Values of `width` bytes, the first at `values`. */
static hr_status take_fixed(const hr_mem *mem, const uint8_t *values, int64_t width, const rows *r, hr_buffer **out,
                            hr_error *err)
{
    bool far = r->n_source * width >= FAR_BYTES;

    HR_TRY(new_values(mem, r->n, width, out, err));
    if (r->n_source == 0) {
        memset((*out)->data, 0, (size_t)(r->n * width));
        return HR_OK;
    }
    for (int i = 0; i < HR_LEN(take_loops); i++) {
        if (take_loops[i].width != width)
            continue;
        if (r->idx32)
            take_loops[i].by32((*out)->data, values, r->idx32, r->n, far, r->has_null);
        else
            take_loops[i].by64((*out)->data, values, r->idx64, r->n, far, r->has_null);
        return HR_OK;
    }
    if (width)
        take_any_width((*out)->data, values, r, width);
    return HR_OK;
}

/* Takes bits by row, false where idx is negative; bits NULL: all true. */
static hr_status take_bits(const hr_mem *mem, const uint8_t *bits, int64_t offset, const rows *in, hr_buffer **out,
                           hr_error *err)
{
    const rows r = *in; /* a local copy, so that storing bytes cannot change it */
    uint8_t *to;

    HR_TRY(new_bits(mem, r.n, out, err));
    to = (*out)->data;
    for (int64_t i = 0; i < r.n; i += 8) {
        int64_t n = HR_MIN(r.n - i, 8);
        unsigned byte = 0;

        for (int64_t k = 0; k < n; k++) {
            int64_t row = row_at(&r, i + k);
            bool valid = row >= 0;

            byte |= (unsigned)(valid & (!bits || hr__bit(bits, offset + (valid ? row : 0)))) << k;
        }
        to[i >> 3] = (uint8_t)byte;
    }
    return HR_OK;
}

static hr_status take_validity(const hr_mem *mem, const hr_array *a, const rows *r, hr_buffer **out, int64_t *n_null,
                               hr_error *err)
{
    *n_null = 0;
    if (!r->has_null && !may_be_null(a))
        return HR_OK;
    HR_TRY(
        take_bits(mem, may_be_null(a) && r->n_source ? a->buffers[0]->data : NULL, a->offset + r->base, r, out, err));
    settle_validity(out, r->n, n_null);
    return HR_OK;
}

/* Offsets of the rows, and after them that of the end. */
static int64_t take_offsets32(int32_t *to, const int32_t *from, const rows r)
{
    bool far = r.n_source >= FAR_BYTES / 4;
    int64_t at = 0;

    for (int64_t i = 0; i < r.n; i++) {
        int64_t row = row_at(&r, i), ahead = far && i + AHEAD < r.n ? row_at(&r, i + AHEAD) : -1;

        if (ahead >= 0)
            __builtin_prefetch(from + ahead);
        to[i] = (int32_t)at;
        at += row < 0 ? 0 : from[row + 1] - from[row];
    }
    to[r.n] = (int32_t)at;
    return at;
}

static int64_t take_offsets64(int64_t *to, const int64_t *from, const rows r)
{
    bool far = r.n_source >= FAR_BYTES / 8;
    int64_t at = 0;

    for (int64_t i = 0; i < r.n; i++) {
        int64_t row = row_at(&r, i), ahead = far && i + AHEAD < r.n ? row_at(&r, i + AHEAD) : -1;

        if (ahead >= 0)
            __builtin_prefetch(from + ahead);
        to[i] = at;
        at += row < 0 ? 0 : from[row + 1] - from[row];
    }
    to[r.n] = at;
    return at;
}

/* *n_values is the sum over the rows, which 32 bits may not hold. */
static hr_status take_offsets(const hr_mem *mem, const hr_array *a, const rows *r, hr_buffer **out, int64_t *n_values,
                              hr_error *err)
{
    int width = hr__type_offset_bytes(a->type);

    HR_TRY(new_values(mem, r->n + 1, width, out, err));
    if (r->n_source == 0) {
        memset((*out)->data, 0, (size_t)((r->n + 1) * width));
        *n_values = 0;
        return HR_OK;
    }
    if (width == 4)
        *n_values = take_offsets32((int32_t *)(void *)(*out)->data, offsets32(a) + r->base, *r);
    else
        *n_values = take_offsets64((int64_t *)(void *)(*out)->data, offsets64(a) + r->base, *r);
    return check_values(a->type, width, *n_values, err);
}

/* Copies n bytes; may write NEAR_BYTES if that stays before to_end, and read NEAR_BYTES before from_end. */
static inline void copy_near(uint8_t *to, const uint8_t *to_end, const uint8_t *from, const uint8_t *from_end,
                             int64_t n)
{
    if (n <= NEAR_BYTES && to_end - to >= NEAR_BYTES && from_end - from >= NEAR_BYTES)
        memcpy(to, from, NEAR_BYTES);
    else if (n)
        memcpy(to, from, (size_t)n);
}

static hr_status take_bytes(const hr_mem *mem, const hr_array *a, const rows *in, hr_buffer *buffers[3], hr_error *err)
{
    const rows r = *in;
    int width = hr__type_offset_bytes(a->type);
    int64_t total = 0, first = 0, n = 0;
    const uint8_t *from, *from_end;
    uint8_t *to, *to_end;

    HR_TRY(take_offsets(mem, a, &r, &buffers[1], &total, err));
    HR_TRY(hr__buffer_new(mem, total, &buffers[2], err));
    if (total == 0)
        return HR_OK;
    from = a->buffers[2]->data;
    from_end = from + a->buffers[2]->n_bytes;
    to = buffers[2]->data;
    to_end = to + total;
    for (int64_t i = 0; i < r.n; i++) {
        int64_t row = row_at(&r, i), ahead = i + AHEAD < r.n ? row_at(&r, i + AHEAD) : -1;

        if (ahead >= 0)
            __builtin_prefetch(from + (width == 4 ? offsets32(a)[r.base + ahead] : offsets64(a)[r.base + ahead]));
        if (row < 0)
            continue;
        value_range(a, width, r.base + row, 1, &first, &n);
        copy_near(to, to_end, from + first, from_end, n);
        to += n;
    }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------- take, nested types */

static hr_status take_rows(const hr_mem *mem, const hr_array *a, const rows *r, hr_array **out, hr_error *err);

/* Lists: gathers the child by ranges. */
static hr_status take_list(const hr_mem *mem, const hr_array *a, const rows *r, hr_buffer *buffers[3], hr_array **child,
                           hr_error *err)
{
    hr_status st = HR_OK;
    int width = hr__type_offset_bytes(a->type);
    int64_t first = 0, n = 0, n_spans = 0;
    size_t n_bytes = (size_t)r->n * sizeof(hr_span);
    hr_span *spans = hr__alloc(mem->account, n_bytes);

    if (!spans)
        return hr__error_memory(err, "take", (int64_t)n_bytes);
    if (width)
        HR_GO(take_offsets(mem, a, r, &buffers[1], &n, err));
    for (int64_t i = 0; i < r->n; i++) {
        int64_t row = row_at(r, i);

        if (width && row >= 0) {
            value_range(a, width, r->base + row, 1, &first, &n);
            span_add(spans, &n_spans, a->children[0], first, n);
        } else if (!width) {
            first = row < 0 ? 0 : (a->offset + r->base + row) * a->type->width;
            span_add(spans, &n_spans, row < 0 ? NULL : a->children[0], first, a->type->width);
        }
    }
    HR_GO(hr__array_gather(mem, a->type->children[0].type, spans, n_spans, child, err));
done:
    hr__free(spans);
    return st;
}

/* Fixed lists of plain numbers (an image or an embedding a row) are values of width * value bytes. */
static bool is_wide_value(const hr_array *a)
{
    return hr__type_is_fixed_list(a->type) && hr__type_bytes(a->children[0]->type) > 0 && a->children[0]->buffers[1] &&
           !may_be_null(a->children[0]);
}

static hr_status take_wide(const hr_mem *mem, const hr_array *a, const rows *r, hr_array **child, hr_error *err)
{
    const hr_array *values = a->children[0];
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int64_t value_bytes = hr__type_bytes(values->type), width = a->type->width, n_values = 0;
    int64_t first = values->offset + (a->offset + r->base) * width;

    if (__builtin_mul_overflow(r->n, width, &n_values))
        return hr__error_memory(err, "take", INT64_MAX);
    HR_TRY(take_fixed(mem, values->buffers[1]->data + first * value_bytes, width * value_bytes, r, &buffers[1], err));
    return hr__array_new(values->type, n_values, 0, buffers, NULL, 0, child, err);
}

static hr_status take_children(const hr_mem *mem, const hr_array *a, const rows *r, hr_buffer *buffers[3],
                               hr_array **children, hr_error *err)
{
    rows inner = *r;

    if (is_wide_value(a))
        return take_wide(mem, a, r, children, err);
    if (a->type->id != HR_T_STRUCT)
        return take_list(mem, a, r, buffers, children, err);
    inner.base += a->offset;
    for (int i = 0; i < a->n_children; i++)
        HR_TRY(take_rows(mem, a->children[i], &inner, &children[i], err));
    return HR_OK;
}

static hr_status take_nested(const hr_mem *mem, const hr_array *a, const rows *r, hr_buffer *buffers[3], int64_t n_null,
                             hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    size_t n_bytes = (size_t)a->n_children * sizeof(hr_array *);
    hr_array *one = NULL, **children = a->n_children <= 1 ? &one : hr__zalloc(mem->account, n_bytes);

    if (!children)
        return hr__error_memory(err, "take", (int64_t)n_bytes);
    HR_GO(take_children(mem, a, r, buffers, children, err));
    st = hr__array_new(a->type, r->n, n_null, buffers, children, a->n_children, out, err);
    memset(children, 0, n_bytes); /* the call took both */
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < a->n_children; i++)
        hr__array_unref(children[i]);
    if (children != &one)
        hr__free(children);
    return st;
}

static hr_status take_rows(const hr_mem *mem, const hr_array *a, const rows *r, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int64_t n_null = 0, width = hr__type_bytes(a->type);

    if (a->type->id == HR_T_NULL)
        return hr__array_new(a->type, r->n, r->n, NULL, NULL, 0, out, err);
    HR_GO(take_validity(mem, a, r, &buffers[0], &n_null, err));
    if (a->type->n_children || a->type->id == HR_T_STRUCT)
        HR_GO(take_nested(mem, a, r, buffers, n_null, out, err));
    else if (hr__type_is_bytes(a->type))
        HR_GO(take_bytes(mem, a, r, buffers, err));
    else if (a->type->id == HR_T_BOOL)
        HR_GO(take_bits(mem, r->n_source ? a->buffers[1]->data : NULL, a->offset + r->base, r, &buffers[1], err));
    else
        HR_GO(take_fixed(mem, a->buffers[1] ? a->buffers[1]->data + (a->offset + r->base) * width : NULL, width, r,
                         &buffers[1], err));
    if (!*out) {
        st = hr__array_new(a->type, r->n, n_null, buffers, NULL, 0, out, err);
        buffers[0] = buffers[1] = buffers[2] = NULL;
    }
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

/* Reads the row numbers once; *most: the greatest; -1: all are negative. */
static bool rows_of(const void *idx, int idx_bytes, int64_t n, rows *out, int64_t *least, int64_t *most)
{
    int32_t least32 = 0, most32 = -1;

    *out = (rows){ .n = n };
    *least = 0;
    *most = -1;
    if (idx_bytes == 4) {
        out->idx32 = idx;
        for (int64_t i = 0; i < n; i++) {
            least32 = HR_MIN(least32, out->idx32[i]);
            most32 = HR_MAX(most32, out->idx32[i]);
        }
        *least = least32;
        *most = most32;
    } else {
        out->idx64 = idx;
        for (int64_t i = 0; i < n; i++) {
            *least = HR_MIN(*least, out->idx64[i]);
            *most = HR_MAX(*most, out->idx64[i]);
        }
    }
    out->has_null = *least < 0;
    return (idx_bytes == 4 || idx_bytes == 8) && *least >= -1;
}

static hr_status take_from(const hr_mem *mem, const hr_array *a, const rows *r, int64_t least, int64_t most, bool good,
                           hr_array **out, hr_error *err)
{
    rows mine = *r;

    if (!good || most >= a->length)
        return hr_error_set(err, HR_BUG, "take: rows %lld to %lld, found %lld rows", (long long)least, (long long)most,
                            (long long)a->length);
    mine.n_source = a->length;
    return take_rows(mem ? mem : &root_mem, a, &mine, out, err);
}

hr_status hr__array_take(const hr_mem *mem, const hr_array *a, const void *idx, int idx_bytes, int64_t n,
                         hr_array **out, hr_error *err)
{
    return hr__arrays_take(mem, (hr_array *const *)&a, 1, idx, idx_bytes, n, out, NULL, err);
}

hr_status hr__arrays_take(const hr_mem *mem, hr_array *const *arrays, int n_arrays, const void *idx, int idx_bytes,
                          int64_t n, hr_array **out, int *failed, hr_error *err)
{
    rows r;
    int64_t least, most;
    bool good = rows_of(idx, idx_bytes, n, &r, &least, &most);

    memset(out, 0, (size_t)n_arrays * sizeof *out);
    for (int i = 0; i < n_arrays; i++) {
        if (failed)
            *failed = i;
        HR_TRY(take_from(mem, arrays[i], &r, least, most, good, &out[i], err));
    }
    return HR_OK;
}
