/* parquet_index.c - what a file says about its values: statistics, page indexes, bloom filters.
 *
 * All of it is optional: the reader ignores what is missing, damaged or of an unknown kind. The reader believes the
 * rest, as the format requires: bounds may be wider than the values (writers cut long texts), never narrower. The
 * reader uses bounds if their order is defined: not bounds of INT96 and INTERVAL; the old fields min and max only of
 * signed numbers; no bound that is NaN; a bound of zero stands for both zeros; no text that was cut within a character.
 *
 * A bloom filter is a header and blocks of 32 bytes. A value can only be in one block, so a lookup costs two small
 * reads for a filter of any size. */
#include "format/parquet/parquet_page.h"

#include <math.h>

#define MIN_PLACE_BYTES 4
#define BLOOM_HEADER_BYTES 64 /* enough for any */
#define BLOOM_BLOCK_BYTES 32

/* ------------------------------------------------------------------------------------------------------- statistics */

static void read_stats(pq_thrift *t, const pq_slot *in, pq_stats *s)
{
    hr_view old_least = { 0 }, old_most = { 0 };
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return;
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 1: old_most = pq__thrift_bytes(t, &f); break;
        case 2: old_least = pq__thrift_bytes(t, &f); break;
        case 3: s->null_count = pq__thrift_int(t, &f); break;
        case 4: s->n_distinct = pq__thrift_int(t, &f); break;
        case 5: s->most = pq__thrift_bytes(t, &f); break;
        case 6: s->least = pq__thrift_bytes(t, &f); break;
        default: pq__thrift_skip(t, &f);
        }
    }
    if (!s->least.data && !s->most.data && (old_least.data || old_most.data)) {
        s->least = old_least;
        s->most = old_most;
        s->deprecated = true;
    }
}

static void read_column_detail(pq_thrift *t, const pq_slot *in, pq_detail *d)
{
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return;
    while (pq__thrift_next(t, &f)) {
        switch (f.id) {
        case 2: {
            int64_t n = pq__thrift_list(t, &f, PQ_T_I32, 1);

            for (int64_t i = 0; i < n; i++) {
                int64_t encoding = pq__thrift_item_int(t);

                d->encodings |= encoding >= 0 && encoding < 32 ? 1u << encoding : 0;
            }
            break;
        }
        case 12: read_stats(t, &f, &d->stats); break;
        case 14: d->bloom_at = pq__thrift_int(t, &f); break;
        case 15: d->bloom_bytes = pq__thrift_int(t, &f); break;
        default: pq__thrift_skip(t, &f);
        }
    }
}

static const pq_stats unknown = { .null_count = -1, .n_distinct = -1 };

void pq__detail_read(const pq_meta *m, const pq_chunk *c, pq_detail *out)
{
    pq_thrift t = { .at = m->bytes->data + c->at, .end = m->bytes->data + m->bytes->n_bytes };
    pq_slot f = { 0 };

    *out = (pq_detail){ .stats = unknown };
    while (pq__thrift_next(&t, &f)) {
        switch (f.id) {
        case 3: read_column_detail(&t, &f, out); break;
        case 6: out->column_index_at = pq__thrift_int(&t, &f); break;
        case 7: out->column_index_bytes = pq__thrift_int(&t, &f); break;
        default: pq__thrift_skip(&t, &f);
        }
    }
    if (t.wrong) /* the footer parsed without this error before */
        *out = (pq_detail){ .stats = unknown };
    if (out->column_index_at < 4 || out->column_index_bytes < 0 || out->column_index_bytes > PQ_MAX_PAGE)
        out->column_index_bytes = 0;
}

/* ----------------------------------------------------------------------------------------------------------- bounds */

static bool is_float(const hr_type *t)
{
    return t->id == HR_T_FLOAT16 || t->id == HR_T_FLOAT32 || t->id == HR_T_FLOAT64;
}

static double float_of(const hr_type *t, const uint8_t *p)
{
    uint16_t half;
    double d;
    float f;

    if (t->id == HR_T_FLOAT16) {
        memcpy(&half, p, 2);
        return hr__half_value(half);
    }
    if (t->id == HR_T_FLOAT32) {
        memcpy(&f, p, 4);
        return f;
    }
    memcpy(&d, p, 8);
    return d;
}

bool pq__is_float_special(const hr_type *t, const uint8_t *p)
{
    return !(float_of(t, p) != 0) || isnan(float_of(t, p));
}

/* A bound of floats. False: NaN is not a bound. A least 0.0 may mean -0.0, a greatest -0.0 may mean 0.0. */
static bool mend_float(const hr_type *t, uint8_t *p, bool is_most)
{
    double v = float_of(t, p);

    if (isnan(v))
        return false;
    if (v == 0) {
        memset(p, 0, (size_t)hr__type_bytes(t));
        if (!is_most)
            p[hr__type_bytes(t) - 1] = 0x80;
    }
    return true;
}

/* Whether an integer keeps its value in fewer bits; if not, the column's values have wrapped, too. */
static bool fits_narrow(const hr_type *t, hr_view v)
{
    int32_t i;

    memcpy(&i, v.data, 4);
    switch (t->id) {
    case HR_T_INT8: return i == (int8_t)i;
    case HR_T_UINT8: return i == (uint8_t)i;
    case HR_T_INT16: return i == (int16_t)i;
    case HR_T_UINT16: return i == (uint16_t)i;
    default: return true;
    }
}

/* Into buffers[1], and [2] for texts. *usable false: not a valid value. */
static hr_status fill(const pq_leaf *l, const hr_type *type, hr_view v, bool is_most, const hr_mem *mem,
                      hr_buffer *buffers[3], bool *usable, hr_error *err)
{
    int64_t end = v.n;
    int32_t end32 = (int32_t)v.n;

    *usable = false;
    switch (l->kind) {
    case PQ_K_BYTES:
        if (v.n > INT32_MAX || (l->is_text && !hr__utf8_valid(v.data, v.n)))
            return HR_OK;
        HR_TRY(hr__buffer_new(mem, 2 * (int64_t)l->width, &buffers[1], err));
        memset(buffers[1]->data, 0, 2 * (size_t)l->width);
        memcpy(buffers[1]->data + l->width, l->width == 4 ? (const void *)&end32 : &end, (size_t)l->width);
        HR_TRY(hr__buffer_copy(mem, v.data, v.n, &buffers[2], err));
        *usable = true;
        return HR_OK;
    case PQ_K_BOOL:
        HR_TRY(hr__buffer_new(mem, 1, &buffers[1], err));
        buffers[1]->data[0] = v.n == 1 && v.data[0] & 1;
        *usable = v.n == 1;
        return HR_OK;
    default:
        if (l->physical != PQ_BYTE_ARRAY && v.n != l->stored_width)
            return HR_OK;
        HR_TRY(hr__buffer_new(mem, l->width, &buffers[1], err));
        *usable = pq__value_convert(l, v, buffers[1]->data) && (l->kind != PQ_K_NARROW || fits_narrow(type, v)) &&
                  (!is_float(type) || mend_float(type, buffers[1]->data, is_most));
        return HR_OK;
    }
}

hr_status pq__bound_decode(const pq_leaf *l, hr_type *type, hr_view v, bool is_most, hr_account *account,
                           hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_mem mem = { account, NULL };
    hr_status st = HR_OK;
    bool usable;

    *out = NULL;
    st = fill(l, type, v, is_most, &mem, buffers, &usable, err);
    if (!st && usable)
        return hr__array_new(type, 1, 0, buffers, NULL, 0, out, err);
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

bool pq__has_order(const pq_meta *m, const pq_leaf *l, const hr_type *type, bool deprecated)
{
    if (l->no_order || l->kind == PQ_K_NULL)
        return false;
    if (!deprecated)
        return l->column < m->n_ordered && m->ordered[l->column];
    switch (type->id) {
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return false;
    default: return l->physical != PQ_BYTE_ARRAY && l->physical != PQ_FIXED;
    }
}

/* ----------------------------------------------------------------------------------------------------- offset index */

static void read_place(pq_thrift *t, pq_place *p)
{
    pq_slot f = { 0 };

    *p = (pq_place){ .offset = -1, .row = -1, .entries = -1 };
    while (pq__thrift_next(t, &f)) {
        if (f.id == 1)
            p->offset = pq__thrift_int(t, &f);
        else if (f.id == 3)
            p->row = pq__thrift_int(t, &f);
        else
            pq__thrift_skip(t, &f);
    }
}

hr_status pq__index_parse(hr_view in, hr_account *account, pq_place **out, int64_t *n, hr_error *err)
{
    pq_thrift t = { .at = in.data, .end = in.data + in.n };
    pq_place *places = NULL;
    hr_status st = HR_OK;
    pq_slot f = { 0 };

    *out = NULL;
    *n = 0;
    while (pq__thrift_next(&t, &f)) {
        if (f.id != 1 || places) {
            pq__thrift_skip(&t, &f);
            continue;
        }
        *n = pq__thrift_list(&t, &f, PQ_T_STRUCT, MIN_PLACE_BYTES);
        if (t.wrong)
            break;
        places = hr__alloc(account, (size_t)*n * sizeof *places);
        if (!places)
            HR_GO(hr__error_memory(err, "offset index", *n * (int64_t)sizeof *places));
        for (int64_t i = 0; i < *n; i++) {
            read_place(&t, &places[i]);
            places[i].ordinal = (int32_t)i;
        }
    }
    if (t.wrong || !places)
        HR_FAIL(HR_BAD_DATA, "offset index: %s", t.wrong ? t.wrong : "it is empty");
    for (int64_t i = 0; i < *n; i++) {
        if (places[i].offset < 4 || places[i].row < 0 || (i == 0 && places[i].row != 0) ||
            (i > 0 && (places[i].offset <= places[i - 1].offset || places[i].row < places[i - 1].row)))
            HR_FAIL(HR_BAD_DATA, "offset index: page %lld at %lld begins with row %lld", (long long)i,
                    (long long)places[i].offset, (long long)places[i].row);
    }
    *out = places;
    places = NULL; /* moved to the caller */
done:
    hr__free(places);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- column index */

/* Whether the current list has one element for each page. */
static bool is_for_pages(pq_thrift *t, const pq_slot *f, int type, int64_t n)
{
    return pq__thrift_list(t, f, type, 1) == n && !t->wrong;
}

static void read_page_stats(pq_thrift *t, pq_page_stats *p)
{
    bool has_nulls = false, has_least = false, has_most = false;
    pq_slot f = { 0 };
    int64_t n = p->n;

    while (pq__thrift_next(t, &f)) {
        int type = f.id == 1 ? PQ_T_TRUE : f.id == 5 ? PQ_T_I64 : PQ_T_BINARY;

        if (f.id > 5 || f.id == 4) { /* the order of pages, histograms */
            pq__thrift_skip(t, &f);
            continue;
        }
        if (!is_for_pages(t, &f, type, n)) {
            t->wrong = t->wrong ? t->wrong : "it has another number of pages";
            return;
        }
        has_nulls = has_nulls || f.id == 1;
        has_least = has_least || f.id == 2;
        has_most = has_most || f.id == 3;
        for (int64_t i = 0; i < n; i++) {
            switch (f.id) {
            case 1: p->all_null[i] = pq__thrift_item_bool(t); break;
            case 2: p->pages[i].least = pq__thrift_item_bytes(t); break;
            case 3: p->pages[i].most = pq__thrift_item_bytes(t); break;
            default: p->pages[i].null_count = pq__thrift_item_int(t);
            }
        }
    }
    if (!t->wrong && !(has_nulls && has_least && has_most))
        t->wrong = "a list is missing";
}

hr_status pq__page_stats_parse(hr_buffer *bytes, int64_t n, hr_account *account, pq_page_stats *out, hr_error *err)
{
    pq_thrift t = { .at = bytes->data, .end = bytes->data + bytes->n_bytes };
    hr_status st = HR_OK;

    *out = (pq_page_stats){ .bytes = bytes, .n = n };
    if (n > bytes->n_bytes)
        HR_FAIL(HR_BAD_DATA, "column index: %lld bytes for %lld pages", (long long)bytes->n_bytes, (long long)n);
    out->pages = hr__alloc(account, (size_t)n * sizeof *out->pages);
    out->all_null = hr__zalloc(account, (size_t)n * sizeof *out->all_null);
    if (!out->pages || !out->all_null)
        HR_GO(hr__error_memory(err, "column index", n * (int64_t)sizeof *out->pages));
    for (int64_t i = 0; i < n; i++)
        out->pages[i] = unknown;
    read_page_stats(&t, out);
    if (t.wrong)
        HR_FAIL(HR_BAD_DATA, "column index: %s", t.wrong);
    for (int64_t i = 0; i < n; i++) {
        if (out->all_null[i])
            out->pages[i].least = out->pages[i].most = (hr_view){ 0 };
    }
done:
    if (st)
        pq__page_stats_clear(out);
    return st;
}

void pq__page_stats_clear(pq_page_stats *p)
{
    hr__free(p->pages);
    hr__free(p->all_null);
    hr__buffer_unref(p->bytes);
    *p = (pq_page_stats){ 0 };
}

/* ---------------------------------------------------------------------------------------------------- bloom filters */

#define P1 0x9E3779B185EBCA87ull
#define P2 0xC2B2AE3D27D4EB4Full
#define P3 0x165667B19E3779F9ull
#define P4 0x85EBCA77C2B2AE63ull
#define P5 0x27D4EB2F165667C5ull

static uint64_t rotate(uint64_t v, int n) { return v << n | v >> (64 - n); }
static uint64_t mix(uint64_t lane, uint64_t v) { return rotate(lane + v * P2, 31) * P1; }

uint64_t pq__xxh64(const void *data, int64_t n)
{
    const uint8_t *p = data, *end = p + n;
    uint64_t h = P5;

    if (n >= 32) {
        uint64_t lanes[4] = { P1 + P2, P2, 0, 0 - P1 };

        for (; end - p >= 32; p += 32) {
            for (int i = 0; i < 4; i++)
                lanes[i] = mix(lanes[i], hr__load_le64(p + 8 * i));
        }
        h = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ mix(0, lanes[i])) * P1 + P4;
    }
    h += (uint64_t)n;
    for (; end - p >= 8; p += 8)
        h = rotate(h ^ mix(0, hr__load_le64(p)), 27) * P1 + P4;
    if (end - p >= 4) {
        h = rotate(h ^ hr__load_le32(p) * P1, 23) * P2 + P3;
        p += 4;
    }
    for (; p < end; p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

/* A union of which only field 1 is known: true if it has field 1. */
static bool is_first(pq_thrift *t, const pq_slot *in)
{
    bool first = false;
    pq_slot f = { 0 };

    if (!pq__thrift_struct(t, in))
        return false;
    while (pq__thrift_next(t, &f)) {
        first = f.id == 1;
        pq__thrift_skip(t, &f);
    }
    return first;
}

/* *n_bytes of blocks, and *used bytes of header before them; false: of an unknown kind. */
static bool bloom_header(hr_view in, int64_t *n_bytes, int64_t *used)
{
    pq_thrift t = { .at = in.data, .end = in.data + in.n };
    bool known = true;
    pq_slot f = { 0 };

    *n_bytes = 0;
    while (pq__thrift_next(&t, &f)) {
        if (f.id == 1)
            *n_bytes = pq__thrift_int(&t, &f);
        else if (f.id >= 2 && f.id <= 4) /* split blocks, XXH64, not compressed */
            known = is_first(&t, &f) && known;
        else
            pq__thrift_skip(&t, &f);
    }
    *used = t.at - in.data;
    return !t.wrong && known && *n_bytes >= BLOOM_BLOCK_BYTES;
}

bool pq__bloom_may_have(hr_source *s, int64_t at, uint64_t hash)
{
    static const uint32_t salts[8] = { 0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d,
                                       0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31 };
    uint8_t header[BLOOM_HEADER_BYTES], block[BLOOM_BLOCK_BYTES];
    int64_t n_read, n_bytes, used;

    if (at < 4 || at >= s->n_bytes || hr__source_read_some(s, header, at, sizeof header, &n_read, NULL) ||
        !bloom_header((hr_view){ header, n_read }, &n_bytes, &used))
        return true;
    at += used + (int64_t)((hash >> 32) * (uint64_t)(n_bytes / BLOOM_BLOCK_BYTES) >> 32) * BLOOM_BLOCK_BYTES;
    if (hr__source_read_some(s, block, at, sizeof block, &n_read, NULL) || n_read < (int64_t)sizeof block)
        return true;
    for (int i = 0; i < 8; i++) {
        if (!(hr__load_le32(block + 4 * i) >> ((uint32_t)hash * salts[i] >> 27) & 1))
            return false;
    }
    return true;
}
