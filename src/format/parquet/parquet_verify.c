/* parquet_verify.c - compares values with the statistics of the file: least and greatest values and nulls of column
 * chunks, and of pages if there is a page index. Only the option verify turns this on: it reads every value once more,
 * and finds damage that no checksum covers, or writers that are wrong.
 *
 * Bounds count if filters would use them (pq__has_order): not of INT96 and intervals, nor of types without a defined
 * order. NaN is within all bounds, both zeros are equal, and bounds that were cut are still bounds.
 *
 * Tests: test_parquet_verify.py. */
#include "base/decimal.h"
#include "format/parquet/parquet_read.h"

#define MAX_VALUE_BYTES 64 /* of a text, in an error */

typedef struct bounds {
    hr_array *least, *most; /* of one row; NULL: not known */
} bounds;

struct pq_verify {
    pq_file *file; /* borrowed, like the type */
    const pq_leaf *leaf;
    const pq_chunk *chunk;
    hr_type *type;
    hr_account *account;
    bounds all, page;    /* bounds of the chunk; of page `at` */
    int at;              /* -1: none yet */
    int64_t null_count;  /* of the chunk; -1: not said */
    pq_page_stats pages; /* n 0: there is no page index */
    int n_seen;          /* pages [0, n_seen) were read whole; their sums: */
    int64_t entries, nulls;
};

static void clear_bounds(bounds *b)
{
    hr__array_unref(b->least);
    hr__array_unref(b->most);
    *b = (bounds){ 0 };
}

static hr_status decode(const pq_verify *v, const pq_stats *s, bounds *out, hr_error *err)
{
    if (!pq__has_order(v->file->meta, v->leaf, v->type, s->deprecated))
        return HR_OK;
    if (s->least.data)
        HR_TRY(pq__bound_decode(v->leaf, v->type, s->least, false, v->account, &out->least, err));
    if (s->most.data)
        HR_TRY(pq__bound_decode(v->leaf, v->type, s->most, true, v->account, &out->most, err));
    return HR_OK;
}

static hr_status read_index(const pq_verify *v, int64_t at, int64_t n, hr_buffer **out, hr_error *err)
{
    hr_mem mem = { v->account, NULL };
    hr_status st = HR_OK;

    *out = NULL;
    if (at > v->file->source->n_bytes - n)
        return hr_error_set(err, HR_BAD_DATA, "its page index ends after the end of the file");
    HR_TRY(hr__buffer_new(&mem, n, out, err));
    st = hr__source_read(v->file->source, (*out)->data, at, n, err);
    if (st) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
    return st;
}

/* Loads the column index; it is damaged unless it has as many pages as the offset index. */
static hr_status load_pages(pq_verify *v, const pq_detail *d, hr_error *err)
{
    hr_buffer *bytes = NULL;
    pq_place *places = NULL;
    hr_status st = HR_OK;
    int64_t n;

    if (!v->chunk->index_at || !d->column_index_bytes)
        return HR_OK;
    HR_GO(read_index(v, v->chunk->index_at, v->chunk->index_bytes, &bytes, err));
    HR_GO(pq__index_parse((hr_view){ bytes->data, bytes->n_bytes }, v->account, &places, &n, err));
    hr__buffer_unref(bytes);
    HR_GO(read_index(v, d->column_index_at, d->column_index_bytes, &bytes, err));
    st = pq__page_stats_parse(bytes, n, v->account, &v->pages, err);
    bytes = NULL; /* taken */
done:
    hr__free(places);
    hr__buffer_unref(bytes);
    return st;
}

hr_status pq__verify_new(pq_file *f, const pq_leaf *l, const pq_chunk *chunk, hr_type *type, hr_account *account,
                         pq_verify **out, hr_error *err)
{
    pq_verify *v = hr__zalloc(account, sizeof *v);
    hr_status st = HR_OK;
    pq_detail detail;

    *out = NULL;
    if (!v)
        return hr__error_memory(err, f->base.name, sizeof *v);
    v->file = f;
    v->leaf = l;
    v->chunk = chunk;
    v->type = type;
    v->account = account;
    v->at = -1;
    pq__detail_read(f->meta, chunk, &detail);
    v->null_count = l->max_rep ? -1 : detail.stats.null_count; /* writers count nulls of lists in different ways */
    HR_GO(decode(v, &detail.stats, &v->all, err));
    HR_GO(load_pages(v, &detail, err));
    *out = v;
    v = NULL; /* moved to the caller */
done:
    pq__verify_free(v);
    return st;
}

void pq__verify_free(pq_verify *v)
{
    if (!v)
        return;
    clear_bounds(&v->all);
    clear_bounds(&v->page);
    pq__page_stats_clear(&v->pages);
    hr__free(v);
}

static double float_at(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    uint16_t half;
    double d;
    float f;

    switch (a->type->id) {
    case HR_T_FLOAT16: memcpy(&half, p, 2); return hr__half_value(half);
    case HR_T_FLOAT32: memcpy(&f, p, 4); return f;
    default: memcpy(&d, p, 8); return d;
    }
}

static int decimal_order(const uint8_t *a, const uint8_t *b, int bytes)
{
    hr_wide x = hr__wide_load(a, bytes), y = hr__wide_load(b, bytes);

    return hr__wide_order(&x, &y);
}

#define ORDER(a, b) (((a) > (b)) - ((a) < (b)))

/* Compares row i of `a` with the only row of b, of the same type; NaN is equal to everything. */
static int order(const hr_array *a, int64_t i, const hr_array *b)
{
    int width = hr__type_bytes(a->type);
    const uint8_t *p, *q;
    int64_t n, m;
    int c;

    switch (a->type->id) {
    case HR_T_BOOL: return hr__bit(a->buffers[1]->data, i) - hr__bit(b->buffers[1]->data, 0);
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return ORDER(hr__array_uint(a, i), hr__array_uint(b, 0));
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: return ORDER(float_at(a, i), float_at(b, 0));
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return decimal_order(hr__array_values(a) + i * width, hr__array_values(b), width);
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY:
        p = hr__array_bytes(a, i, &n);
        q = hr__array_bytes(b, 0, &m);
        c = HR_MIN(n, m) ? memcmp(p, q, (size_t)HR_MIN(n, m)) : 0;
        return c ? c : ORDER(n, m);
    default: return ORDER(hr__array_int(a, i), hr__array_int(b, 0));
    }
}

static hr_status outside(const pq_verify *v, const hr_array *a, int64_t i, const hr_array *bound, const char *what,
                         hr_error *err)
{
    hr_text value = { .account = v->account }, limit = { .account = v->account };

    hr__array_print_some(a, i, MAX_VALUE_BYTES, &value);
    hr__array_print_some(bound, 0, MAX_VALUE_BYTES, &limit);
    hr_error_set(err, HR_BAD_DATA, "value %s, %s is %s", value.failed ? "?" : value.data, what,
                 limit.failed ? "?" : limit.data);
    hr__text_clear(&value);
    hr__text_clear(&limit);
    return HR_BAD_DATA;
}

static hr_status within(const pq_verify *v, const bounds *b, bool page, const hr_array *a, int64_t begin, int64_t n,
                        hr_error *err)
{
    for (int64_t i = begin; i < begin + n && (b->least || b->most); i++) {
        if (hr__array_is_null(a, i))
            continue;
        if (b->least && order(a, i, b->least) < 0)
            return outside(v, a, i, b->least, page ? "the least of the page" : "the least of the column chunk", err);
        if (b->most && order(a, i, b->most) > 0)
            return outside(v, a, i, b->most, page ? "the greatest of the page" : "the greatest of the column chunk",
                           err);
    }
    return HR_OK;
}

hr_status pq__verify_slots(pq_verify *v, int page, const hr_array *a, int64_t begin, int64_t n, hr_error *err)
{
    HR_TRY(within(v, &v->all, false, a, begin, n, err));
    if (page >= v->pages.n)
        return HR_OK;
    if (page != v->at) {
        clear_bounds(&v->page);
        HR_TRY(decode(v, &v->pages.pages[page], &v->page, err));
        v->at = page;
    }
    return within(v, &v->page, true, a, begin, n, err);
}

hr_status pq__verify_page(pq_verify *v, int page, int64_t entries, int64_t nulls, hr_error *err)
{
    const pq_stats *s = page < v->pages.n ? &v->pages.pages[page] : NULL;

    if (page == v->n_seen) { /* a page may be read twice */
        v->entries += entries;
        v->nulls += nulls;
        v->n_seen++;
    }
    if (s && v->pages.all_null[page] && nulls < entries)
        return hr_error_set(err, HR_BAD_DATA, "%lld values, the page index says that all are null",
                            (long long)(entries - nulls));
    if (s && !v->leaf->max_rep && s->null_count >= 0 && s->null_count != nulls)
        return hr_error_set(err, HR_BAD_DATA, "%lld nulls, the page index says %lld", (long long)nulls,
                            (long long)s->null_count);
    return HR_OK;
}

hr_status pq__verify_chunk(const pq_verify *v, hr_error *err)
{
    if (v->null_count < 0 || v->entries != v->chunk->n_values || v->null_count == v->nulls)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "%lld nulls, the column chunk's statistics say %lld", (long long)v->nulls,
                        (long long)v->null_count);
}
