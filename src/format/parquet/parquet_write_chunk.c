/* parquet_write_chunk.c - one column of a row group as pages.
 *
 * 1. The leaf's values, without nulls, become an array as Parquet stores them: mostly they are stored as they are.
 * 2. The whole chunk has one encoding, the smallest by a sample of its values, encoded and compressed in each way that
 *    the type allows: only the values decide, so that the same rows give the same bytes. A dictionary covers the whole
 *    chunk; the writer gives it up as soon as most values are new or it exceeds MAX_DICT.
 * 3. Pages begin with rows, so that an index can find a row. Only a row of more than MAX_PAGE spans pages, and then
 *    there is no index.
 * 4. Bounds: NaN does not count, and a page of only NaN has no bounds; a bound of zero has the sign that includes the
 *    other zero; long byte strings are cut to PW_BOUND, texts between characters, and the last character of a cut upper
 *    bound is raised.
 *
 * Tests: test_parquet_write.c. */
#include "base/decimal.h"
#include "format/parquet/parquet_write.h"

#include <math.h>

#define MAX_DICT (1 << 20)
#define MAX_PAGE (1LL << 30)
#define PAGE_SLOTS (1 << 20)
#define SAMPLE_VALUES 4096
#define SAMPLE_BYTES (128 << 10)

typedef struct writing {
    const pw_leaf *leaf;
    const pw_options *options;
    const hr_codec *codec; /* NULL: none */
    const hr_mem *mem;
    hr_account *account;
    pw_chunk *chunk;
    hr_growbuf *out;
    hr_error *err;
    pw_levels levels;
    pw_values values;
    hr_buffer *memory; /* of the next */
    void *owned;       /* memory of `values`, if the writer made a copy */
    pw_dict dict;
    int bits; /* of a code */
    int encoding;
    hr_growbuf page; /* before compression */
    hr_buffer *packed;
    bool broken_rows;
} writing;

/* ----------------------------------------------------------------------------------------------------------- values */

static const uint8_t *element(const hr_array *a, int64_t i, int width) { return a->buffers[1]->data + i * width; }

/* One loop over all spans: x is the number of the element in its buffer, k the number of the value. */
#define EACH_VALUE(w, x, k)                                                                                            \
    for (int64_t s_ = 0, k = 0; s_ < (w)->levels.n_spans; s_++)                                                        \
        for (int64_t x = (w)->levels.spans[s_].begin, end_ = x + (w)->levels.spans[s_].n; x < end_; x++, k++)

static hr_status own(writing *w, int64_t n_bytes)
{
    HR_TRY(hr__buffer_new(w->mem, n_bytes, &w->memory, w->err));
    w->owned = w->memory->data;
    return HR_OK;
}

static hr_status same_width(writing *w, int width)
{
    const pw_levels *l = &w->levels;
    int64_t at = 0;

    if (l->n_spans == 1) {
        w->values.data = element(l->leaf, l->spans[0].begin, width);
        return HR_OK;
    }
    HR_TRY(own(w, l->n_values * width));
    for (int64_t s = 0; s < l->n_spans; at += l->spans[s].n * width, s++)
        memcpy((uint8_t *)w->owned + at, element(l->leaf, l->spans[s].begin, width), (size_t)(l->spans[s].n * width));
    w->values.data = w->owned;
    return HR_OK;
}

static hr_status widened(writing *w)
{
    const uint8_t *from = w->levels.n_spans ? w->levels.leaf->buffers[1]->data : NULL;
    int32_t *to;

    HR_TRY(own(w, w->levels.n_values * 4));
    to = w->owned;
    switch (w->leaf->type->id) {
    case HR_T_INT8: EACH_VALUE(w, x, k) to[k] = ((const int8_t *)from)[x]; break;
    case HR_T_UINT8: EACH_VALUE(w, x, k) to[k] = from[x]; break;
    case HR_T_INT16: EACH_VALUE(w, x, k) to[k] = ((const int16_t *)(const void *)from)[x]; break;
    default: EACH_VALUE(w, x, k) to[k] = ((const uint16_t *)(const void *)from)[x]; break;
    }
    w->values.data = w->owned;
    return HR_OK;
}

static hr_status bools(writing *w)
{
    const uint8_t *from = w->levels.n_spans ? w->levels.leaf->buffers[1]->data : NULL;
    uint8_t *to;

    HR_TRY(own(w, w->levels.n_values));
    to = w->owned;
    EACH_VALUE(w, x, k) to[k] = hr__bit(from, x);
    w->values.data = w->owned;
    return HR_OK;
}

/* The row, in its row group, of the k-th value. */
static int64_t row_of_value(const writing *w, int64_t k)
{
    const pw_levels *l = &w->levels;
    int64_t row = -1;

    for (int64_t i = 0; i < l->n; i++) {
        row += !l->rep || l->rep[i] == 0;
        if ((!l->def || l->def[i] == w->leaf->max_def) && k-- == 0)
            break;
    }
    return row;
}

/* Element x, which is the k-th value. */
static hr_status no_room(const writing *w, int64_t x, int64_t k, const char *what)
{
    const hr_array *a = w->levels.leaf;
    hr_text t = { 0 };
    hr_status st;

    hr__text_add(&t, "column '%s', row %lld of the row group: ", w->leaf->path.data, (long long)row_of_value(w, k));
    if (hr__type_is_decimal(a->type))
        hr__array_print_some(a, x - a->offset, 100, &t);
    else
        hr__text_add(&t, "%lld", (long long)hr__array_int(a, x - a->offset));
    hr__text_add(&t, " as ");
    hr__type_print(a->type, &t);
    hr__text_add(&t, " %s", what);
    st = t.failed ? hr__error_memory(w->err, "Parquet values", 100) : hr_error_set(w->err, HR_TYPE, "%s", t.data);
    hr__text_clear(&t);
    return st;
}

/* Multiplies a unit coarser than Parquet's by 1,000; divides a unit finer than days. */
static hr_status rescaled(writing *w, int64_t times, int64_t by, bool to_narrow)
{
    const uint8_t *from = w->levels.n_spans ? w->levels.leaf->buffers[1]->data : NULL;
    bool from_narrow = hr__type_bytes(w->leaf->type) == 4;
    int64_t v;

    HR_TRY(own(w, w->levels.n_values * (to_narrow ? 4 : 8)));
    EACH_VALUE(w, x, k)
    {
        v = from_narrow ? ((const int32_t *)(const void *)from)[x] : ((const int64_t *)(const void *)from)[x];
        if (__builtin_mul_overflow(v, times, &v))
            return no_room(w, x, k, "does not fit in Parquet's milliseconds");
        if (v % by)
            return no_room(w, x, k, "is not a whole number of days");
        v /= by;
        if (to_narrow && (v < INT32_MIN || v > INT32_MAX))
            return no_room(w, x, k, "does not fit in Parquet's 32 bits");
        if (to_narrow)
            ((int32_t *)w->owned)[k] = (int32_t)v;
        else
            ((int64_t *)w->owned)[k] = v;
    }
    w->values.data = w->owned;
    return HR_OK;
}

/* The low bytes of little-endian numbers; for FIXED in big-endian order. */
static hr_status decimals(writing *w)
{
    int from_width = hr__type_bytes(w->leaf->type), to_width = w->values.width;
    const int digits = w->leaf->type->precision;
    const int128 most = hr__most_of_digits(digits);
    bool big = w->values.physical == PQ_FIXED;
    uint8_t *to;

    HR_TRY(own(w, w->levels.n_values * to_width));
    to = w->owned;
    EACH_VALUE(w, x, k)
    {
        const uint8_t *from = element(w->levels.leaf, x, from_width);

        if (!hr__decimal_fits(from, from_width, digits, most))
            return no_room(w, x, k, "has too many digits");
        for (int i = 0; big && i < to_width; i++)
            to[k * to_width + i] = from[to_width - 1 - i];
        if (!big)
            memcpy(to + k * to_width, from, (size_t)to_width);
    }
    w->values.data = to;
    return HR_OK;
}

static hr_status texts(writing *w)
{
    const hr_array *a = w->levels.leaf;
    int64_t sum = 0, begin, end;
    hr_view *to;

    HR_TRY(own(w, w->levels.n_values * (int64_t)sizeof *to));
    to = w->owned;
    EACH_VALUE(w, x, k)
    {
        if (hr__type_offset_bytes(a->type) == 4) {
            begin = ((const int32_t *)(const void *)a->buffers[1]->data)[x];
            end = ((const int32_t *)(const void *)a->buffers[1]->data)[x + 1];
        } else {
            begin = ((const int64_t *)(const void *)a->buffers[1]->data)[x];
            end = ((const int64_t *)(const void *)a->buffers[1]->data)[x + 1];
        }
        to[k] = (hr_view){ a->buffers[2] ? a->buffers[2]->data + begin : (const uint8_t *)"", end - begin };
        sum += end - begin;
        if (end - begin > MAX_PAGE)
            return hr_error_set(w->err, HR_UNSUPPORTED,
                                "column '%s': a value of %lld bytes, Parquet holds at most %lld", w->leaf->path.data,
                                (long long)(end - begin), (long long)MAX_PAGE);
    }
    w->values.views = to;
    w->chunk->text_bytes = sum;
    return HR_OK;
}

static hr_status make_values(writing *w)
{
    const hr_type *t = w->leaf->type;

    w->values = (pw_values){ .physical = w->leaf->physical, .width = w->leaf->width, .n = w->levels.n_values };
    w->chunk->text_bytes = -1;
    switch (t->id) {
    case HR_T_NULL: return HR_OK;
    case HR_T_BOOL: return bools(w);
    case HR_T_INT8:
    case HR_T_UINT8:
    case HR_T_INT16:
    case HR_T_UINT16: return widened(w);
    case HR_T_DATE64: return rescaled(w, 1, 86400000, true);
    case HR_T_TIME32: return t->unit == HR_SECOND ? rescaled(w, 1000, 1, true) : same_width(w, 4);
    case HR_T_TIMESTAMP: return t->unit == HR_SECOND ? rescaled(w, 1000, 1, false) : same_width(w, 8);
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return decimals(w);
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY: return texts(w);
    case HR_T_FIXED_BINARY: return same_width(w, t->width);
    default: return same_width(w, hr__type_bytes(t));
    }
}

/* ----------------------------------------------------------------------------------------------------------- bounds */

typedef enum order {
    ORDER_NONE,
    SIGNED_32,
    SIGNED_64,
    UNSIGNED_32,
    UNSIGNED_64,
    FLOAT_32,
    FLOAT_64,
    BOOLS,
    BYTES
} order;

static order order_of(const pw_leaf *l)
{
    const hr_type *t = l->type;

    switch (l->physical) {
    case PQ_BOOLEAN: return BOOLS;
    case PQ_INT32:
        if (t->id == HR_T_NULL)
            return ORDER_NONE;
        return t->id == HR_T_UINT8 || t->id == HR_T_UINT16 || t->id == HR_T_UINT32 ? UNSIGNED_32 : SIGNED_32;
    case PQ_INT64: return t->id == HR_T_UINT64 ? UNSIGNED_64 : SIGNED_64;
    case PQ_FLOAT: return FLOAT_32;
    case PQ_DOUBLE: return FLOAT_64;
    case PQ_BYTE_ARRAY: return BYTES;
    default: return ORDER_NONE; /* fixed bytes: decimals of many digits, halves */
    }
}

#define LEAST_AND_MOST(type)                                                                                           \
    do {                                                                                                               \
        const type *p = (const type *)(const void *)v->data;                                                           \
        type low = p[begin], high = p[begin];                                                                          \
        for (int64_t i = begin + 1; i < begin + n; i++) {                                                              \
            low = p[i] < low ? p[i] : low;                                                                             \
            high = p[i] > high ? p[i] : high;                                                                          \
        }                                                                                                              \
        set_fixed(out, &low, &high, sizeof low);                                                                       \
    } while (0)

/* Infinities mean "no value yet": a comparison with NaN is false, so NaN changes nothing. */
#define LEAST_AND_MOST_FLOAT(type)                                                                                     \
    do {                                                                                                               \
        const type *p = (const type *)(const void *)v->data;                                                           \
        type low = (type)INFINITY, high = (type) - INFINITY;                                                           \
        bool seen = false;                                                                                             \
        for (int64_t i = begin; i < begin + n; i++) {                                                                  \
            seen |= p[i] == p[i];                                                                                      \
            low = p[i] < low ? p[i] : low;                                                                             \
            high = p[i] > high ? p[i] : high;                                                                          \
        }                                                                                                              \
        if (low == 0)                                                                                                  \
            low = (type) - 0.0;                                                                                        \
        if (high == 0)                                                                                                 \
            high = (type)0.0;                                                                                          \
        if (seen)                                                                                                      \
            set_fixed(out, &low, &high, sizeof low);                                                                   \
    } while (0)

static void set_fixed(pw_bounds *b, const void *low, const void *high, size_t n)
{
    *b = (pw_bounds){ true, true, true, true, (uint8_t)n, (uint8_t)n, { 0 }, { 0 } };
    memcpy(b->min, low, n);
    memcpy(b->max, high, n);
}

static int compare_bytes(hr_view a, hr_view b)
{
    int64_t n = HR_MIN(a.n, b.n);
    int c = n ? memcmp(a.data, b.data, (size_t)n) : 0;

    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The length of the whole characters in the first PW_BOUND bytes. */
static int64_t cut_text(hr_view v, bool is_text)
{
    int64_t n = PW_BOUND;

    while (is_text && n > 0 && (v.data[n] & 0xc0) == 0x80)
        n--;
    return n;
}

/* Raises the last character of p[0, n) that has a successor of the same length. -> the new length; 0: there is none. */
static int64_t raise_text(uint8_t *p, int64_t n)
{
    static const uint32_t most[] = { 0, 0x7f, 0x7ff, 0xffff, 0x10ffff };

    while (n > 0) {
        int64_t at = n - 1;
        uint32_t c;
        int k;

        while (at > 0 && (p[at] & 0xc0) == 0x80)
            at--;
        k = (int)(n - at);
        if (k > 4)
            return 0; /* no UTF-8 */
        c = k == 1 ? p[at] : p[at] & (0xffu >> (k + 1));
        for (int i = 1; i < k; i++)
            c = c << 6 | (p[at + i] & 0x3f);
        c = c == 0xd7ff ? 0xe000 : c + 1;
        if (c <= most[k]) {
            for (int i = k - 1; i > 0; i--, c >>= 6)
                p[at + i] = (uint8_t)(0x80 | (c & 0x3f));
            p[at] = (uint8_t)(k == 1 ? c : (0xff00u >> k & 0xff) | c);
            return n;
        }
        n = at;
    }
    return 0;
}

static int64_t raise_bytes(uint8_t *p, int64_t n)
{
    while (n > 0 && p[n - 1] == 0xff)
        n--;
    if (n > 0)
        p[n - 1]++;
    return n;
}

static void set_bytes(pw_bounds *b, hr_view low, hr_view high, bool is_text)
{
    int64_t n_min = low.n > PW_BOUND ? cut_text(low, is_text) : low.n;
    int64_t n_max = high.n > PW_BOUND ? cut_text(high, is_text) : high.n;

    *b = (pw_bounds){ .has_min = true, .has_max = true, .min_exact = n_min == low.n, .max_exact = n_max == high.n };
    if (n_min)
        memcpy(b->min, low.data, (size_t)n_min);
    if (n_max)
        memcpy(b->max, high.data, (size_t)n_max);
    if (!b->max_exact) {
        n_max = is_text ? raise_text(b->max, n_max) : raise_bytes(b->max, n_max);
        b->has_max = n_max > 0;
    }
    b->n_min = (uint8_t)n_min;
    b->n_max = (uint8_t)n_max;
}

static void find_bounds(const writing *w, int64_t begin, int64_t n, pw_bounds *out)
{
    const pw_values *v = &w->values;
    const hr_type *t = w->leaf->type;

    *out = (pw_bounds){ 0 };
    if (n == 0 || !w->options->statistics)
        return;
    switch (order_of(w->leaf)) {
    case SIGNED_32: LEAST_AND_MOST(int32_t); break;
    case SIGNED_64: LEAST_AND_MOST(int64_t); break;
    case UNSIGNED_32: LEAST_AND_MOST(uint32_t); break;
    case UNSIGNED_64: LEAST_AND_MOST(uint64_t); break;
    case FLOAT_32: LEAST_AND_MOST_FLOAT(float); break;
    case FLOAT_64: LEAST_AND_MOST_FLOAT(double); break;
    case BOOLS: LEAST_AND_MOST(uint8_t); break;
    case BYTES: {
        hr_view low = v->views[begin], high = low;

        for (int64_t i = begin + 1; i < begin + n; i++) {
            if (compare_bytes(v->views[i], low) < 0)
                low = v->views[i];
            else if (compare_bytes(v->views[i], high) > 0)
                high = v->views[i];
        }
        set_bytes(out, low, high, t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING);
        break;
    }
    default: break;
    }
}

static int compare_bounds(order o, const uint8_t *a, int n_a, const uint8_t *b, int n_b)
{
#define COMPARE(type)                                                                                                  \
    do {                                                                                                               \
        type x, y;                                                                                                     \
        memcpy(&x, a, sizeof x);                                                                                       \
        memcpy(&y, b, sizeof y);                                                                                       \
        return (x > y) - (x < y);                                                                                      \
    } while (0)
    switch (o) {
    case SIGNED_32: COMPARE(int32_t);
    case SIGNED_64: COMPARE(int64_t);
    case UNSIGNED_32: COMPARE(uint32_t);
    case UNSIGNED_64: COMPARE(uint64_t);
    case FLOAT_32: COMPARE(float);
    case FLOAT_64: COMPARE(double);
    default: return compare_bytes((hr_view){ a, n_a }, (hr_view){ b, n_b });
    }
}

/* Joins the bounds of a page into the bounds of the chunk. A page without bounds holds only NaN, which changes nothing;
 * of byte strings, it leaves the chunk without an upper bound. */
static void join_bounds(const writing *w, pw_bounds *all, const pw_bounds *page, bool first)
{
    order o = order_of(w->leaf);

    if (first) {
        *all = *page;
        return;
    }
    if (!page->has_min && !page->has_max && o != BYTES)
        return; /* nothing but NaN */
    if (!all->has_min && !all->has_max && o != BYTES) {
        *all = *page;
        return;
    }
    if (all->has_min && compare_bounds(o, page->min, page->n_min, all->min, all->n_min) < 0) {
        memcpy(all->min, page->min, page->n_min);
        all->n_min = page->n_min;
        all->min_exact = page->min_exact;
    }
    all->has_max = all->has_max && page->has_max;
    if (all->has_max && compare_bounds(o, page->max, page->n_max, all->max, all->n_max) > 0) {
        memcpy(all->max, page->max, page->n_max);
        all->n_max = page->n_max;
        all->max_exact = page->max_exact;
    }
}

/* -------------------------------------------------------------------------------------------------------- encodings */

static hr_status encode(writing *w, int encoding, int64_t begin, int64_t n, hr_growbuf *out)
{
    switch (encoding) {
    case PQ_DELTA_BINARY: return pw__delta(&w->values, begin, n, out, w->err);
    case PQ_DELTA_LENGTH: return pw__delta_length(&w->values, begin, n, out, w->err);
    case PQ_BYTE_SPLIT: return pw__split(&w->values, begin, n, out, w->err);
    case PQ_RLE_DICTIONARY: {
        uint8_t bits = (uint8_t)w->bits;

        HR_TRY(hr__growbuf_add(out, &bits, 1, w->err));
        return pw__runs_u32(w->dict.codes + begin, n, w->bits, out, w->err);
    }
    default: return pw__plain(&w->values, begin, n, out, w->err);
    }
}

static hr_status pack(writing *w, hr_view in, hr_view *out)
{
    int64_t cap, n;

    if (!w->codec) {
        *out = in;
        return HR_OK;
    }
    cap = w->codec->max_packed_bytes(in.n);
    if (!w->packed || w->packed->capacity < cap) {
        hr__buffer_unref(w->packed);
        w->packed = NULL;
        HR_TRY(hr__buffer_new(w->mem, HR_MAX(cap, 1 << 16), &w->packed, w->err));
    }
    HR_TRY(hr__codec_pack(w->codec, in, w->packed->data, cap, (int)w->options->level, &n, w->err));
    *out = (hr_view){ w->packed->data, n };
    return HR_OK;
}

static int bits_for(int64_t n)
{
    int bits = 0;

    while (bits < 32 && ((int64_t)1 << bits) < n)
        bits++;
    return bits;
}

/* Some values from the beginning, and as many from the middle. */
typedef struct sample {
    int64_t at[2], n[2];
} sample;

static sample take_sample(const pw_values *v)
{
    sample s = { { 0, v->n / 2 }, { HR_MIN(v->n / 2, SAMPLE_VALUES), HR_MIN(v->n - v->n / 2, SAMPLE_VALUES) } };

    for (int k = 0; k < 2 && v->views; k++) {
        int64_t bytes = 0, n = 0;

        while (n < s.n[k] && (n == 0 || bytes + v->views[s.at[k] + n].n <= SAMPLE_BYTES))
            bytes += v->views[s.at[k] + n++].n;
        s.n[k] = n;
    }
    return s;
}

/* Estimates the bytes of all values, encoded and compressed, by the sample. *plain: before compression. */
static hr_status estimate(writing *w, int encoding, const sample *s, double *out, double *plain)
{
    hr_view packed;

    if (w->page.buffer)
        w->page.buffer->n_bytes = 0;
    for (int k = 0; k < 2; k++)
        if (s->n[k])
            HR_TRY(encode(w, encoding, s->at[k], s->n[k], &w->page));
    HR_TRY(pack(w, (hr_view){ w->page.buffer->data, w->page.buffer->n_bytes }, &packed));
    *plain = (double)w->page.buffer->n_bytes;
    *out = (double)packed.n * (double)w->values.n / (double)(s->n[0] + s->n[1]);
    return HR_OK;
}

static int other_encoding(const pw_values *v)
{
    switch (v->physical) {
    case PQ_INT32:
    case PQ_INT64: return PQ_DELTA_BINARY;
    case PQ_FLOAT:
    case PQ_DOUBLE: return PQ_BYTE_SPLIT;
    case PQ_BYTE_ARRAY: return PQ_DELTA_LENGTH;
    default: return PQ_PLAIN;
    }
}

static hr_status choose_encoding(writing *w)
{
    pw_values *v = &w->values;
    int other = other_encoding(v);
    double plain, plain_raw, best, size, raw;
    bool found = false;
    sample s;

    w->encoding = PQ_PLAIN;
    if (v->n == 0 || v->physical == PQ_BOOLEAN || w->leaf->type->id == HR_T_NULL)
        return HR_OK;
    s = take_sample(v);
    HR_TRY(estimate(w, PQ_PLAIN, &s, &plain, &plain_raw));
    best = plain;
    if (other != PQ_PLAIN) {
        HR_TRY(estimate(w, other, &s, &size, &raw));
        if (size < 0.95 * best) {
            best = size;
            w->encoding = other;
        }
    }
    if (!w->options->dictionary)
        return HR_OK;
    HR_TRY(pw__dict_make(v, MAX_DICT, w->mem, &w->dict, &found, w->err));
    if (!found)
        return HR_OK;
    w->bits = bits_for(w->dict.n_uniques);
    HR_TRY(estimate(w, PQ_RLE_DICTIONARY, &s, &size, &raw));
    size += (double)w->dict.bytes * plain * (double)(s.n[0] + s.n[1]) / (double)v->n / plain_raw;
    if (size < best) {
        w->encoding = PQ_RLE_DICTIONARY;
        return HR_OK;
    }
    pw__dict_clear(&w->dict);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ pages */

typedef struct page_head {
    int type, encoding;
    int64_t n_values, n_nulls, n_rows, def_bytes, rep_bytes;
    bool packed;
} page_head;

static void put_head_body(pw_thrift *t, const page_head *h)
{
    int outer = pw__open(t, h->type == PQ_PAGE_DATA ? 5 : h->type == PQ_PAGE_DICTIONARY ? 7 : 8);

    pw__int(t, 1, PQ_T_I32, h->n_values);
    if (h->type == PQ_PAGE_DATA) {
        pw__int(t, 2, PQ_T_I32, h->encoding);
        pw__int(t, 3, PQ_T_I32, PQ_RLE);
        pw__int(t, 4, PQ_T_I32, PQ_RLE);
    } else if (h->type == PQ_PAGE_DICTIONARY) {
        pw__int(t, 2, PQ_T_I32, PQ_PLAIN);
    } else {
        pw__int(t, 2, PQ_T_I32, h->n_nulls);
        pw__int(t, 3, PQ_T_I32, h->n_rows);
        pw__int(t, 4, PQ_T_I32, h->encoding);
        pw__int(t, 5, PQ_T_I32, h->def_bytes);
        pw__int(t, 6, PQ_T_I32, h->rep_bytes);
        pw__bool(t, 7, h->packed);
    }
    pw__close(t, outer);
}

/* Writes the page in w->page: header, levels as they are (V2), the rest compressed. */
static hr_status put_page(writing *w, page_head *h)
{
    hr_view whole = { w->page.buffer ? w->page.buffer->data : NULL, w->page.buffer ? w->page.buffer->n_bytes : 0 };
    int64_t n_levels = h->type == PQ_PAGE_DATA_V2 ? h->def_bytes + h->rep_bytes : 0, before = w->out->buffer->n_bytes;
    hr_view rest = { whole.data + n_levels, whole.n - n_levels }, packed;
    pw_thrift t = { .out = w->out, .err = w->err };

    if (whole.n > PQ_MAX_PAGE)
        return hr_error_set(w->err, HR_UNSUPPORTED, "column '%s': a page of %lld bytes", w->leaf->path.data,
                            (long long)whole.n);
    HR_TRY(pack(w, rest, &packed));
    h->packed = w->codec != NULL;
    if (h->type == PQ_PAGE_DATA_V2 && packed.n >= rest.n) {
        packed = rest;
        h->packed = false;
    }
    pw__int(&t, 1, PQ_T_I32, h->type);
    pw__int(&t, 2, PQ_T_I32, whole.n);
    pw__int(&t, 3, PQ_T_I32, n_levels + packed.n);
    if (w->options->page_checksum)
        pw__int(&t, 4, PQ_T_I32, (int32_t)hr__crc32(hr__crc32(0, whole.data, n_levels), packed.data, packed.n));
    put_head_body(&t, h);
    pw__close(&t, 0);
    HR_TRY(t.st);
    w->chunk->plain_bytes += w->out->buffer->n_bytes - before + whole.n;
    HR_TRY(hr__growbuf_add(w->out, whole.data, n_levels, w->err));
    return hr__growbuf_add(w->out, packed.data, packed.n, w->err);
}

static hr_status put_dictionary(writing *w)
{
    page_head h = { .type = PQ_PAGE_DICTIONARY, .n_values = w->dict.n_uniques };

    if (w->page.buffer)
        w->page.buffer->n_bytes = 0;
    for (int64_t k = 0; k < w->dict.n_uniques; k++)
        HR_TRY(pw__plain(&w->values, w->dict.uniques[k], 1, &w->page, w->err));
    w->chunk->dict_at = w->out->buffer->n_bytes;
    return put_page(w, &h);
}

/* Appends the levels of slots [from, from + n), whose maximum is `max`; V1: after their length. -> *n_bytes */
static hr_status put_levels(writing *w, const uint8_t *levels, int64_t from, int64_t n, int max, int64_t *n_bytes)
{
    bool with_length = w->options->page_version == 1;
    int64_t begin = w->page.buffer ? w->page.buffer->n_bytes : 0;
    uint32_t length = 0;
    int bits = bits_for(max + 1);

    *n_bytes = 0;
    if (max == 0)
        return HR_OK;
    if (with_length)
        HR_TRY(hr__growbuf_add(&w->page, &length, 4, w->err));
    if (levels) {
        HR_TRY(pw__runs_u8(levels + from, n, bits, &w->page, w->err));
    } else if (n) {
        uint8_t b[16];
        int k = 0;
        uint64_t v = (uint64_t)n << 1;

        for (; v >= 0x80; v >>= 7)
            b[k++] = (uint8_t)(v | 0x80);
        b[k++] = (uint8_t)v;
        b[k++] = (uint8_t)max;
        HR_TRY(hr__growbuf_add(&w->page, b, k, w->err));
    }
    *n_bytes = w->page.buffer ? w->page.buffer->n_bytes - begin : 0;
    if (with_length) {
        length = (uint32_t)(*n_bytes - 4);
        memcpy(w->page.buffer->data + begin, &length, 4);
    }
    return HR_OK;
}

/* Slots and values of the next page. */
typedef struct extent {
    int64_t slot, value, row; /* where it begins */
    int64_t n_slots, n_values, n_rows;
} extent;

/* Whether slot i holds a value. */
static bool has_value(const writing *w, int64_t i) { return !w->levels.def || w->levels.def[i] == w->leaf->max_def; }

static int64_t value_bytes(const writing *w, int64_t k)
{
    if (w->encoding == PQ_RLE_DICTIONARY)
        return w->bits / 8 + 1;
    return w->values.views ? 4 + w->values.views[k].n : HR_MAX(w->values.width, 1);
}

/* Without levels and with values of one width, the number of values of a page is a division. */
static bool flat_extent(const writing *w, extent *e)
{
    if (w->levels.def || w->levels.rep || (w->values.views && w->encoding != PQ_RLE_DICTIONARY))
        return false;
    e->n_slots =
        HR_MIN(HR_MIN(HR_MAX(w->options->page_bytes / value_bytes(w, 0), 1), PAGE_SLOTS), w->levels.n - e->slot);
    e->n_values = e->n_rows = e->n_slots;
    return true;
}

static void measure_page(writing *w, extent *e)
{
    int64_t bytes = 0, i = e->slot;
    const uint8_t *rep = w->levels.rep;

    e->n_slots = e->n_values = e->n_rows = 0;
    if (flat_extent(w, e))
        return;
    for (; i < w->levels.n; i++) {
        bool starts = !rep || rep[i] == 0;

        if (starts && i > e->slot && (bytes >= w->options->page_bytes || i - e->slot >= PAGE_SLOTS))
            break;
        if (bytes >= MAX_PAGE) {
            w->broken_rows = true;
            break;
        }
        e->n_rows += starts;
        if (has_value(w, i)) {
            bytes += value_bytes(w, e->value + e->n_values);
            e->n_values++;
        }
    }
    e->n_slots = i - e->slot;
}

static hr_status add_page(writing *w, const extent *e, int64_t at)
{
    pw_chunk *c = w->chunk;
    pw_page *p;

    if (!hr__grow(w->account, (void **)&c->pages, &c->cap_pages, c->n_pages + 1, sizeof *c->pages))
        return hr__error_memory(w->err, "Parquet pages", c->n_pages * (int64_t)sizeof *c->pages);
    p = &c->pages[c->n_pages];
    *p = (pw_page){ .at = at - c->begin, .n_bytes = w->out->buffer->n_bytes - at, .first_row = e->row };
    p->n_slots = e->n_slots;
    p->n_nulls = e->n_slots - e->n_values;
    find_bounds(w, e->value, e->n_values, &p->bounds);
    if (e->n_values)
        join_bounds(w, &c->bounds, &p->bounds, c->n_slots == c->n_nulls);
    c->n_slots += p->n_slots;
    c->n_nulls += p->n_nulls;
    c->n_pages++;
    return HR_OK;
}

static hr_status put_data_page(writing *w, const extent *e)
{
    int64_t at = w->out->buffer->n_bytes;
    page_head h = { .type = w->options->page_version == 2 ? PQ_PAGE_DATA_V2 : PQ_PAGE_DATA,
                    .encoding = w->encoding,
                    .n_values = e->n_slots,
                    .n_nulls = e->n_slots - e->n_values,
                    .n_rows = e->n_rows };

    HR_TRY(hr__growbuf_reserve(&w->page, 64, w->err));
    w->page.buffer->n_bytes = 0;
    HR_TRY(put_levels(w, w->levels.rep, e->slot, e->n_slots, w->leaf->max_rep, &h.rep_bytes));
    HR_TRY(put_levels(w, w->levels.def, e->slot, e->n_slots, w->leaf->max_def, &h.def_bytes));
    if (w->leaf->type->id != HR_T_NULL && e->n_values)
        HR_TRY(encode(w, w->encoding, e->value, e->n_values, &w->page));
    else if (w->encoding == PQ_DELTA_BINARY || w->encoding == PQ_DELTA_LENGTH || w->encoding == PQ_RLE_DICTIONARY)
        HR_TRY(encode(w, w->encoding, e->value, 0, &w->page));
    HR_TRY(put_page(w, &h));
    return add_page(w, e, at);
}

static hr_status put_pages(writing *w)
{
    extent e = { 0 };

    if (w->encoding == PQ_RLE_DICTIONARY)
        HR_TRY(put_dictionary(w));
    w->chunk->data_at = w->out->buffer->n_bytes;
    do {
        measure_page(w, &e);
        HR_TRY(put_data_page(w, &e));
        e.slot += e.n_slots;
        e.value += e.n_values;
        e.row += e.n_rows;
    } while (e.slot < w->levels.n);
    return HR_OK;
}

hr_status pw__chunk_write(const pw_leaf *l, const pw_options *o, const hr_codec *codec, const hr_array *column,
                          const hr_mem *mem, hr_growbuf *out, pw_chunk *c, hr_error *err)
{
    writing w = {
        .leaf = l, .options = o, .codec = codec, .mem = mem, .account = mem->account, .chunk = c, .out = out
    };
    hr_status st = HR_OK;

    w.err = err;
    w.page.mem = mem;
    HR_GO(hr__growbuf_reserve(out, 64, err));
    *c = (pw_chunk){ .begin = out->buffer->n_bytes, .dict_at = -1 };
    HR_GO(pw__levels_make(l, column, mem, &w.levels, err));
    HR_GO(make_values(&w));
    HR_GO(choose_encoding(&w));
    c->encoding = w.encoding;
    HR_GO(put_pages(&w));
    c->n_bytes = out->buffer->n_bytes - c->begin;
    if (w.broken_rows)
        c->n_pages = 0; /* no index can give the places of their rows */
done:
    pw__levels_clear(&w.levels);
    pw__dict_clear(&w.dict);
    hr__buffer_unref(w.memory);
    hr__growbuf_clear(&w.page);
    hr__buffer_unref(w.packed);
    return st;
}
