/* arrow_import.c - imports arrays by the Arrow C data interface.
 *
 * Buffers are not copied. The foreign ArrowArray moves into a counted `foreign`; each buffer that wraps its memory
 * holds a reference, and the last one calls release, on its own thread. Exception: values at addresses that their type
 * does not allow are copied.
 *
 * Encodings that the engine lacks are decoded: dictionaries, views, list views, run ends, decimals below 128 bits.
 * Views become large_string and large_binary, because their bytes may exceed 2 GiB.
 *
 * The code trusts that pointers point at as many bytes as the interface demands. It checks everything else: first the
 * numbers from which those sizes follow (lengths, numbers of buffers and children), in the end everything by
 * hr__array_check. An array without rows is replaced by a new one, since producers leave NULL pointers in it. Unions
 * are HR_UNSUPPORTED.
 *
 * Tests: test_arrow.c. */
#include "data/cdata/arrow.h"

#define MAX_RUN_ROWS (1 << 26) /* of a decoded array with run ends */

static const hr_mem root_mem;
static const uint8_t zeros[64] __attribute__((aligned(64))); /* stands for buffers without bytes */

/* A foreign array that our buffers point into. */
typedef struct foreign {
    atomic_int refs;
    struct ArrowArray array;
} foreign;

static void foreign_unref(void *owner)
{
    foreign *f = owner;

    if (atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) > 1)
        return;
    f->array.release(&f->array);
    hr__free(f);
}

/* Takes *in, even on failure. */
static hr_status foreign_new(struct ArrowArray *in, foreign **out, hr_error *err)
{
    *out = NULL;
    if (!in->release)
        return hr_error_set(err, HR_INVALID, "import: the ArrowArray was released");
    *out = hr__zalloc(NULL, sizeof **out);
    if (!*out) {
        in->release(in);
        return hr__error_memory(err, "import", sizeof **out);
    }
    atomic_init(&(*out)->refs, 1);
    (*out)->array = *in;
    in->release = NULL; /* moved */
    return HR_OK;
}

/* n items at `data` as a buffer; copied if they are not aligned to align_bytes. */
static hr_status wrap(foreign *owner, const void *data, int64_t n, int64_t item_bytes, int64_t align_bytes,
                      hr_buffer **out, hr_error *err)
{
    int64_t n_bytes = 0;

    if (__builtin_mul_overflow(n, item_bytes, &n_bytes))
        return hr_error_set(err, HR_BAD_DATA, "%lld values of %lld bytes", (long long)n, (long long)item_bytes);
    if (!data && n_bytes)
        return hr_error_set(err, HR_BAD_DATA, "a buffer is missing, expected %lld bytes", (long long)n_bytes);
    if (!data)
        return hr__buffer_wrap(zeros, 0, NULL, NULL, out, err);
    if ((uintptr_t)data % (uintptr_t)align_bytes != 0)
        return hr__buffer_copy(&root_mem, data, n_bytes, out, err);
    HR_TRY(hr__buffer_wrap(data, n_bytes, foreign_unref, owner, out, err));
    atomic_fetch_add_explicit(&owner->refs, 1, memory_order_relaxed);
    return HR_OK;
}

/* Checks the lengths and numbers, before the code reads any buffer. */
static hr_status check_array_node(const struct ArrowArray *a, const struct ArrowSchema *s, int64_t n_buffers,
                                  hr_error *err)
{
    int64_t end = 0;

    if (!a)
        return hr_error_set(err, HR_BAD_DATA, "an ArrowArray is missing");
    if (a->length < 0 || a->offset < 0 || __builtin_add_overflow(a->length, a->offset, &end) || end > INT64_MAX - 64)
        return hr_error_set(err, HR_BAD_DATA, "%lld rows from row %lld", (long long)a->length, (long long)a->offset);
    if (a->n_children != s->n_children || (a->n_children && !a->children))
        return hr_error_set(err, HR_BAD_DATA, "%lld children, format '%s' has %lld", (long long)a->n_children,
                            s->format, (long long)s->n_children);
    if (a->n_buffers < n_buffers || (n_buffers && !a->buffers))
        return hr_error_set(err, HR_BAD_DATA, "%lld buffers, format '%s' has %lld", (long long)a->n_buffers, s->format,
                            (long long)n_buffers);
    if (!a->dictionary != !s->dictionary)
        return hr_error_set(err, HR_BAD_DATA, "format '%s' %s", s->format,
                            a->dictionary ? "has a dictionary, the schema has none"
                                          : "lacks the dictionary of its schema");
    return HR_OK;
}

static bool has_nulls(const struct ArrowArray *a) { return a->buffers[0] && a->null_count != 0; }

static bool is_null(const struct ArrowArray *a, int64_t i)
{
    return has_nulls(a) && !hr__bit(a->buffers[0], a->offset + i);
}

/* The validity of decoded rows, as our own bits, from bit 0. */
static hr_status copy_validity(const struct ArrowArray *a, hr_buffer **out, int64_t *n_null, hr_error *err)
{
    *n_null = 0;
    if (!has_nulls(a) || a->length == 0)
        return HR_OK;
    HR_TRY(hr__buffer_new(&root_mem, hr__bits_bytes(a->length), out, err));
    (*out)->data[(a->length - 1) / 8] = 0;
    hr__bits_copy((*out)->data, 0, a->buffers[0], a->offset, a->length);
    *n_null = a->length - hr__bits_count((*out)->data, 0, a->length);
    return HR_OK;
}

static hr_status import_array(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                              hr_array **out, hr_error *err);

/* The same, checked: the next decoder relies on it. */
static hr_status import_checked(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                                hr_array **out, hr_error *err)
{
    hr_status st = import_array(owner, a, s, type, out, err);

    if (!st && (st = hr__array_check(*out, false, err))) {
        hr__array_unref(*out);
        *out = NULL;
    }
    return st;
}

/* The offsets, and the bytes that they span. */
static hr_status import_offsets(foreign *owner, const struct ArrowArray *a, const hr_type *type, hr_buffer *buffers[3],
                                hr_error *err)
{
    int width = hr__type_offset_bytes(type);
    int64_t end = a->offset + a->length, n_bytes = 0;
    int32_t last = 0;

    HR_TRY(wrap(owner, a->buffers[1], end + 1, width, width, &buffers[1], err));
    if (!hr__type_is_bytes(type))
        return HR_OK;
    memcpy(width == 4 ? (void *)&last : (void *)&n_bytes, buffers[1]->data + end * width, (size_t)width);
    n_bytes = width == 4 ? last : n_bytes;
    if (n_bytes < 0)
        return hr_error_set(err, HR_BAD_DATA, "the last offset is %lld", (long long)n_bytes);
    return wrap(owner, a->buffers[2], n_bytes, 1, 1, &buffers[2], err);
}

static hr_status import_buffers(foreign *owner, const struct ArrowArray *a, const hr_type *type, hr_buffer *buffers[3],
                                hr_error *err)
{
    int64_t end = a->offset + a->length;

    if (type->id != HR_T_NULL && has_nulls(a))
        HR_TRY(wrap(owner, a->buffers[0], hr__bits_bytes(end), 1, 1, &buffers[0], err));
    if (hr__type_offset_bytes(type))
        return import_offsets(owner, a, type, buffers, err);
    if (type->id == HR_T_BOOL)
        return wrap(owner, a->buffers[1], hr__bits_bytes(end), 1, 1, &buffers[1], err);
    if (hr__arrow_n_buffers(type) == 2)
        return wrap(owner, a->buffers[1], end, hr__type_bytes(type), hr__type_align(type), &buffers[1], err);
    return HR_OK;
}

/* The common case: wraps the buffers, imports the children. */
static hr_status import_plain(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                              hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int n = 0, n_children = type->n_children;
    size_t n_bytes = (size_t)n_children * sizeof(hr_array *);
    hr_array **children = NULL;

    HR_TRY(check_array_node(a, s, hr__arrow_n_buffers(type), err));
    if (a->length == 0)
        return hr__array_gather(&root_mem, type, NULL, 0, out, err);
    children = hr__zalloc(NULL, n_bytes);
    if (!children)
        HR_FAIL(HR_NO_MEMORY, "import: no memory for %d children", n_children);
    HR_GO(import_buffers(owner, a, type, buffers, err));
    for (; n < n_children; n++) {
        st = import_array(owner, a->children[n], s->children[n], type->children[n].type, &children[n], err);
        if (st) {
            st = hr__error_at(err, st, "'%s'", type->children[n].name);
            goto done;
        }
    }
    st = hr__array_new(type, a->length, buffers[0] ? -1 : 0, buffers, children, n_children, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL; /* the call took both */
    n = 0;
    if (!st)
        (*out)->offset = a->offset;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    while (n > 0)
        hr__array_unref(children[--n]);
    hr__free(children);
    return st;
}

/* ------------------------------------------------------------------------------------------ arrays that are decoded */

/* Integer i of a C array by its format: c C s S i I l L. Beyond int64: -2, which is out of every range. */
static int64_t index_at(const void *data, char format, int64_t i)
{
    static const char formats[] = "cCsSiIlL";
    int64_t kind = strchr(formats, format) - formats, width = (int64_t)1 << (kind / 2), v64 = 0;
    const uint8_t *p = (const uint8_t *)data + i * width;
    uint16_t v16 = 0;
    uint32_t v32 = 0;

    memcpy(width == 2 ? (void *)&v16 : width == 4 ? (void *)&v32 : (void *)&v64, p, width == 1 ? 0 : (size_t)width);
    switch (kind) {
    case 0: return (int8_t)*p;
    case 1: return *p;
    case 2: return (int16_t)v16;
    case 3: return v16;
    case 4: return (int32_t)v32;
    case 5: return v32;
    case 6: return v64;
    default: return v64 < 0 ? -2 : v64;
    }
}

static hr_status import_dictionary(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s,
                                   hr_type *type, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_array *values = NULL;
    int64_t *idx = NULL;

    HR_GO(check_array_node(a, s, 2, err));
    HR_GO(import_checked(owner, a->dictionary, s->dictionary, type, &values, err));
    if (a->length && !a->buffers[1])
        HR_FAIL(HR_BAD_DATA, "no buffer for %lld indices", (long long)a->length);
    idx = hr__alloc(NULL, (size_t)a->length * sizeof *idx);
    if (!idx)
        HR_FAIL(HR_NO_MEMORY, "import: no memory for %lld indices", (long long)a->length);
    for (int64_t i = 0; i < a->length; i++) {
        idx[i] = is_null(a, i) ? -1 : index_at(a->buffers[1], s->format[0], a->offset + i);
        if ((idx[i] < 0 || idx[i] >= values->length) && !is_null(a, i))
            HR_FAIL(HR_BAD_DATA, "row %lld: index %lld into a dictionary of %lld", (long long)i, (long long)idx[i],
                    (long long)values->length);
    }
    HR_GO(hr__array_take(&root_mem, values, idx, sizeof *idx, a->length, out, err));
done:
    hr__free(idx);
    hr__array_unref(values);
    return st;
}

/* Checks the redundant bytes of a view: a long one repeats its first bytes, a short one ends in zeros. */
static bool view_agrees(const uint8_t *view, const uint8_t *data, int64_t n)
{
    static const uint8_t zeros_behind[12];

    return n > 12 ? memcmp(view + 4, data, 4) == 0 : memcmp(view + 4 + n, zeros_behind, (size_t)(12 - n)) == 0;
}

/* One view: up to 12 bytes lie in it, more in a buffer that it names. */
static hr_status view_bytes(const struct ArrowArray *a, int64_t i, const uint8_t **data, int64_t *n, hr_error *err)
{
    const uint8_t *view = (const uint8_t *)a->buffers[1] + (a->offset + i) * 16;
    int64_t n_data = a->n_buffers - 3, size = 0;
    int32_t length, place[2] = { 0, 0 };

    memcpy(&length, view, sizeof length);
    *n = length;
    *data = view + 4;
    if (length >= 0 && length <= 12)
        return HR_OK;
    memcpy(place, view + 8, sizeof place);
    if (length > 0 && place[0] >= 0 && place[0] < n_data && a->buffers[n_data + 2])
        memcpy(&size, (const uint8_t *)a->buffers[n_data + 2] + place[0] * 8, sizeof size);
    if (length < 0 || place[0] < 0 || place[0] >= n_data || place[1] < 0 || (int64_t)place[1] + length > size ||
        !a->buffers[2 + place[0]])
        return hr_error_set(err, HR_BAD_DATA, "row %lld: a view of %d bytes from byte %d of buffer %d (%lld bytes)",
                            (long long)i, (int)length, (int)place[1], (int)place[0], (long long)size);
    *data = (const uint8_t *)a->buffers[2 + place[0]] + place[1];
    return HR_OK;
}

static hr_status import_views(const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type, hr_array **out,
                              hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    const uint8_t *from = NULL;
    int64_t n_null = 0, n = 0, at = 0, *offsets;

    HR_GO(check_array_node(a, s, 3, err));
    if (a->length && !a->buffers[1])
        HR_FAIL(HR_BAD_DATA, "no buffer for %lld views", (long long)a->length);
    HR_GO(copy_validity(a, &buffers[0], &n_null, err));
    HR_GO(hr__buffer_new(&root_mem, (a->length + 1) * (int64_t)sizeof *offsets, &buffers[1], err));
    offsets = (int64_t *)(void *)buffers[1]->data;
    for (int64_t i = 0; i < a->length; i++) {
        offsets[i] = at;
        if (is_null(a, i))
            continue;
        HR_GO(view_bytes(a, i, &from, &n, err));
        if (!view_agrees((const uint8_t *)a->buffers[1] + (a->offset + i) * 16, from, n))
            HR_FAIL(HR_BAD_DATA, "row %lld: a view of %lld bytes and its bytes differ", (long long)i, (long long)n);
        at += n;
    }
    offsets[a->length] = at;
    HR_GO(hr__buffer_new(&root_mem, at, &buffers[2], err));
    for (int64_t i = 0; i < a->length; i++) {
        if (offsets[i + 1] == offsets[i])
            continue;
        HR_GO(view_bytes(a, i, &from, &n, err));
        memcpy(buffers[2]->data + offsets[i], from, (size_t)n);
    }
    st = hr__array_new(type, a->length, n_null, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

/* The ranges of a list view, in row order, and the offsets that they get; NULL for nulls is an empty range. */
static hr_status list_view_spans(const struct ArrowArray *a, const hr_type *type, const hr_array *values,
                                 hr_span *spans, uint8_t *offsets, hr_error *err)
{
    char format = type->id == HR_T_LIST ? 'i' : 'l';
    int64_t at = 0, width = hr__type_offset_bytes(type);

    for (int64_t i = 0; i <= a->length; i++) {
        int32_t at32 = (int32_t)at;

        memcpy(offsets + i * width, width == 4 ? (void *)&at32 : (void *)&at, (size_t)width);
        if (i == a->length)
            break;
        spans[i] = (hr_span){ values, 0, 0 };
        if (is_null(a, i))
            continue;
        spans[i].begin = index_at(a->buffers[1], format, a->offset + i);
        spans[i].n = index_at(a->buffers[2], format, a->offset + i);
        if (spans[i].begin < 0 || spans[i].n < 0 || spans[i].n > values->length ||
            spans[i].begin > values->length - spans[i].n)
            return hr_error_set(err, HR_BAD_DATA, "row %lld: %lld values from value %lld, of %lld", (long long)i,
                                (long long)spans[i].n, (long long)spans[i].begin, (long long)values->length);
        if (__builtin_add_overflow(at, spans[i].n, &at) || (width == 4 && at > INT32_MAX))
            return hr_error_set(err, HR_BUDGET,
                                "row %lld: the values of a list exceed the 2 Gi that 32-bit offsets reach",
                                (long long)i);
    }
    return HR_OK;
}

static hr_status import_list_views(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s,
                                   hr_type *type, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *values = NULL, *child = NULL;
    hr_span *spans = NULL;
    int64_t n_null = 0;

    HR_GO(check_array_node(a, s, 3, err));
    if (a->length && (!a->buffers[1] || !a->buffers[2]))
        HR_FAIL(HR_BAD_DATA, "no buffers for %lld list views", (long long)a->length);
    HR_GO(import_checked(owner, a->children[0], s->children[0], type->children[0].type, &values, err));
    HR_GO(copy_validity(a, &buffers[0], &n_null, err));
    HR_GO(hr__buffer_new(&root_mem, (a->length + 1) * hr__type_offset_bytes(type), &buffers[1], err));
    spans = hr__alloc(NULL, (size_t)a->length * sizeof *spans);
    if (!spans)
        HR_FAIL(HR_NO_MEMORY, "import: no memory for %lld list views", (long long)a->length);
    HR_GO(list_view_spans(a, type, values, spans, buffers[1]->data, err));
    HR_GO(hr__array_gather(&root_mem, type->children[0].type, spans, a->length, &child, err));
    st = hr__array_new(type, a->length, n_null, buffers, &child, 1, out, err);
    buffers[0] = buffers[1] = NULL; /* the call took both */
    child = NULL;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    hr__array_unref(child);
    hr__array_unref(values);
    hr__free(spans);
    return st;
}

/* The number of the run of each row: run k ends before row ends[k]. The ends are checked. */
static void run_rows(const struct ArrowArray *a, const struct ArrowArray *ends, char format, int32_t *idx)
{
    int64_t run = 0;

    for (int64_t i = 0; i < a->length; i++) {
        while (index_at(ends->buffers[1], format, ends->offset + run) <= a->offset + i)
            run++;
        idx[i] = (int32_t)run;
    }
}

/* Checked before the allocation for the rows: each run has a value, the ends rise, and the last one lies after all
 * rows. */
static hr_status check_runs(const struct ArrowArray *a, const struct ArrowArray *ends, char format, int64_t n_values,
                            hr_error *err)
{
    int64_t last = 0;

    if (ends->buffers[0] && ends->null_count != 0 &&
        hr__bits_count(ends->buffers[0], ends->offset, ends->length) != ends->length)
        return hr_error_set(err, HR_BAD_DATA, "some run ends are null");
    if (n_values < ends->length)
        return hr_error_set(err, HR_BAD_DATA, "%lld runs of %lld values", (long long)ends->length, (long long)n_values);
    for (int64_t i = 0; i < ends->length; i++) {
        int64_t end = index_at(ends->buffers[1], format, ends->offset + i);

        if (end <= last)
            return hr_error_set(err, HR_BAD_DATA, "run %lld ends at %lld, the one before at %lld", (long long)i,
                                (long long)end, (long long)last);
        last = end;
    }
    if (a->length == 0 || last >= a->offset + a->length)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "the last of %lld runs ends at row %lld, expected %lld rows",
                        (long long)ends->length, (long long)last, (long long)(a->offset + a->length));
}

static hr_status import_runs(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                             hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_array *values = NULL;
    int32_t *idx = NULL;

    HR_GO(check_array_node(a, s, 0, err));
    HR_GO(check_array_node(a->children[0], s->children[0], 2, err));
    if (a->children[0]->length && !a->children[0]->buffers[1])
        HR_FAIL(HR_BAD_DATA, "no buffer for %lld run ends", (long long)a->children[0]->length);
    if (a->length > MAX_RUN_ROWS) /* two numbers can declare any number of rows */
        HR_FAIL(HR_UNSUPPORTED, "an array with run ends has %lld rows, expected at most %d", (long long)a->length,
                MAX_RUN_ROWS);
    HR_GO(check_runs(a, a->children[0], s->children[0]->format[0], a->children[1] ? a->children[1]->length : 0, err));
    HR_GO(import_checked(owner, a->children[1], s->children[1], type, &values, err));
    idx = hr__alloc(NULL, (size_t)a->length * sizeof *idx);
    if (!idx)
        HR_FAIL(HR_NO_MEMORY, "import: no memory for %lld rows", (long long)a->length);
    run_rows(a, a->children[0], s->children[0]->format[0], idx);
    HR_GO(hr__array_take(&root_mem, values, idx, sizeof *idx, a->length, out, err));
done:
    hr__free(idx);
    hr__array_unref(values);
    return st;
}

static hr_status import_small_decimal(const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                                      hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int64_t n_null = 0;
    char format = hr__arrow_small_decimal_bits(s->format) == 32 ? 'i' : 'l';

    HR_GO(check_array_node(a, s, 2, err));
    if (a->length && !a->buffers[1])
        HR_FAIL(HR_BAD_DATA, "no buffer for %lld values", (long long)a->length);
    if (a->length > INT64_MAX / 16)
        HR_FAIL(HR_BAD_DATA, "%lld rows", (long long)a->length);
    HR_GO(copy_validity(a, &buffers[0], &n_null, err));
    HR_GO(hr__buffer_new(&root_mem, a->length * 16, &buffers[1], err));
    for (int64_t i = 0; i < a->length; i++) {
        int64_t words[2] = { index_at(a->buffers[1], format, a->offset + i), 0 };

        words[1] = words[0] < 0 ? -1 : 0;
        memcpy(buffers[1]->data + i * 16, words, sizeof words);
    }
    st = hr__array_new(type, a->length, n_null, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = NULL;
done:
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

static hr_status import_array(foreign *owner, const struct ArrowArray *a, const struct ArrowSchema *s, hr_type *type,
                              hr_array **out, hr_error *err)
{
    *out = NULL;
    if (s->dictionary)
        return import_dictionary(owner, a, s, type, out, err);
    if (s->format[0] == 'v')
        return import_views(a, s, type, out, err);
    if (s->format[0] == '+' && s->format[1] == 'v')
        return import_list_views(owner, a, s, type, out, err);
    if (s->format[0] == '+' && s->format[1] == 'r')
        return import_runs(owner, a, s, type, out, err);
    if (hr__arrow_small_decimal_bits(s->format))
        return import_small_decimal(a, s, type, out, err);
    return import_plain(owner, a, s, type, out, err);
}

hr_status hr__array_import(struct ArrowArray *in, struct ArrowSchema *schema, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    foreign *owner = NULL;
    hr_field field = { 0 };

    *out = NULL;
    HR_GO(foreign_new(in, &owner, err));
    HR_GO(hr__arrow_field(schema, &field, err));
    HR_GO(import_checked(owner, &owner->array, schema, field.type, out, err));
done:
    hr__field_clear(&field);
    if (owner)
        foreign_unref(owner);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

/* The top of a record batch: a struct array, none of whose rows may be null. */
static hr_status check_top(const struct ArrowArray *a, const struct ArrowSchema *s, hr_error *err)
{
    int64_t n_null = 0;

    HR_TRY(check_array_node(a, s, 0, err));
    if (a->n_buffers > 0 && a->buffers && has_nulls(a))
        n_null = a->length - hr__bits_count(a->buffers[0], a->offset, a->length);
    if (n_null)
        return hr_error_set(err, HR_UNSUPPORTED, "import: %lld of %lld rows of the table are null", (long long)n_null,
                            (long long)a->length);
    return HR_OK;
}

static hr_status import_column(foreign *owner, int i, const struct ArrowSchema *s, hr_type *type, hr_array **out,
                               hr_error *err)
{
    const struct ArrowArray *top = &owner->array;
    hr_status st = HR_OK;
    hr_array *whole = NULL;

    HR_GO(import_array(owner, top->children[i], s, type, &whole, err));
    if (whole->length < top->offset + top->length)
        HR_FAIL(HR_BAD_DATA, "%lld rows, the table has %lld", (long long)whole->length,
                (long long)(top->offset + top->length));
    HR_GO(hr__array_slice(whole, top->offset, top->length, out, err));
    st = hr__array_check(*out, false, err);
    if (!st)
        st = hr__array_check_values(*out, true, err);
    if (st) {
        hr__array_unref(*out);
        *out = NULL;
    }
done:
    hr__array_unref(whole);
    return st;
}

static hr_status import_table(foreign *owner, const struct ArrowSchema *s, hr_schema *schema, hr_table **out,
                              hr_error *err)
{
    hr_status st = HR_OK;
    int n = 0;
    hr_array **columns = NULL;

    HR_TRY(check_top(&owner->array, s, err));
    columns = hr__zalloc(NULL, (size_t)schema->n * sizeof(hr_array *));
    if (!columns)
        HR_FAIL(HR_NO_MEMORY, "import: no memory for %d columns", schema->n);
    for (; n < schema->n; n++) {
        st = import_column(owner, n, s->children[n], schema->fields[n].type, &columns[n], err);
        if (st) {
            st = hr__error_at(err, st, "column '%s'", schema->fields[n].name);
            goto done;
        }
    }
    n = 0;
    HR_GO(hr__table_new(schema, columns, owner->array.length, NULL, out, err));
done:
    while (n > 0)
        hr__array_unref(columns[--n]);
    hr__free(columns);
    return st;
}

hr_status hr_table_import(struct ArrowSchema *schema, struct ArrowArray *array, hr_table **out, hr_error *err)
{
    HR_NEED(schema, array, out);

    hr_status st = HR_OK;
    foreign *owner = NULL;
    hr_schema *imported = NULL;

    *out = NULL;
    HR_GO(foreign_new(array, &owner, err));
    HR_GO(hr__arrow_schema(schema, &imported, err));
    HR_GO(import_table(owner, schema, imported, out, err));
done:
    if (owner)
        foreign_unref(owner);
    hr__schema_unref(imported);
    if (schema->release)
        schema->release(schema);
    return st;
}
