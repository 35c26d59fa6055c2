/* parquet_column.c - one column of one row group: pages -> arrays.
 *
 * A `part` reads each leaf under the column: levels first (parquet_levels.c), then as many values as the levels
 * announce, directly into the buffer of the array. Values are dense in the file; if rows are null, the part spreads the
 * values afterwards, backwards and in place. The first leaf below a list or struct also builds the offsets and validity
 * of that node. Then `build` puts the arrays together by the schema's tree; parts whose lengths disagree are malformed.
 *
 * The caller requests a number of rows, but memory is the limit, and the estimates of a row's bytes come from metadata,
 * which may be wrong. So a leaf stops early, at the end of a row, when it has twice the requested bytes; the other
 * leaves of the column then go back and read the same number of rows. The bytes of one row are limited by the stored
 * bytes of its column chunk (MAX_EXPANSION).
 *
 * Tests: test_parquet_read.c, test_parquet_write.c. */
#include "format/parquet/parquet_read.h"
#include "format/parquet/parquet_kernel.h"

#define STEP_ENTRIES (64 << 10)     /* levels of lists to take before their values: small arrays stay in the cache */
#define HUGE_PAGE_BYTES (256 << 20) /* of texts this large, values are counted one by one: offsets must not overflow */
#define FREE_ROW_BYTES (64 << 20)   /* bytes that any row may have, */
#define MAX_EXPANSION 4096          /* or the stored bytes of its column chunk, times this */

typedef struct part {
    const pq_leaf *leaf;
    hr_type *type; /* of its values; borrowed */
    pq_cursor cursor;
    pq_verify *verify; /* NULL: values are not checked */
    bool has_page;
    pq_track *tracks; /* nodes whose offsets and validity this leaf builds, outermost first */
    int n_tracks;
    pq_bits valid;     /* the leaf's */
    hr_growbuf values; /* fixed width; bits; offsets of byte arrays */
    hr_growbuf bytes;
    int64_t expect; /* estimate of the slots of this batch */
    int64_t cap;    /* bytes at which the part stops */
} part;

struct pq_column {
    pq_file *file;
    int group;
    const pq_node *node;
    int64_t row;     /* the next */
    int64_t row_end; /* the caller needs no rows from here on, for now */
    hr_mem mem;
    int n_parts;
    part parts[];
};

/* -------------------------------------------------------------------------------------------------------- spreading */

static void spread_bits(uint8_t *bits, int64_t begin, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at)
{
    int64_t i = n, j = n_values;

    while (i > j) {
        bool v = hr__bit(valid, at + --i) && hr__bit(bits, begin + --j);

        hr__bits_fill(bits, begin + i, 1, v);
    }
}

/* ----------------------------------------------------------------------------------------------------------- values */

/* Room for n more items of `size` bytes; at the first call, room for p->expect items. */
static hr_status room(part *p, hr_growbuf *g, int64_t n, int64_t size, hr_error *err)
{
    return hr__growbuf_reserve(g, (g->buffer ? n : HR_MAX(n, p->expect + 1)) * size, err);
}

static hr_status add_fixed(part *p, const pq_take *t, hr_error *err)
{
    int64_t w = p->leaf->width;
    uint8_t *out;

    HR_TRY(room(p, &p->values, t->n_slots, w, err));
    out = p->values.buffer->data + p->values.buffer->n_bytes;
    HR_TRY(pq__values_fixed(&p->cursor.values, out, t->n_values, err));
    if (t->n_values < t->n_slots)
        pq__spread(out, w, t->n_slots, t->n_values, p->valid.bytes.buffer->data, p->valid.n - t->n_slots);
    p->values.buffer->n_bytes += t->n_slots * w;
    return HR_OK;
}

static hr_status add_bits(part *p, const pq_take *t, hr_error *err)
{
    int64_t begin = p->valid.n - t->n_slots, needed = hr__bits_bytes(p->valid.n);
    hr_growbuf *g = &p->values;

    HR_TRY(hr__growbuf_reserve(g, HR_MAX(needed, p->expect / 8) - (g->buffer ? g->buffer->n_bytes : 0), err));
    g->buffer->n_bytes = needed;
    HR_TRY(pq__values_bits(&p->cursor.values, g->buffer->data, begin, t->n_values, err));
    if (t->n_values < t->n_slots)
        spread_bits(g->buffer->data, begin, t->n_slots, t->n_values, p->valid.bytes.buffer->data, begin);
    return HR_OK;
}

/* Copies n bytes; may read and write up to 15 bytes more. */
static inline void copy_loose(uint8_t *out, const uint8_t *in, int64_t n)
{
    memcpy(out, in, 16);
    if (n > 16)
        memcpy(out + 16, in + 16, (size_t)(n - 16));
}

/* Appends the bytes of views [0, n), and the ends of slots from slot s up to the slot of the last view. -> next slot */
static inline __attribute__((always_inline)) int64_t add_views(part *p, const hr_view *views, int64_t n, int64_t s,
                                                               const uint8_t *valid, int64_t at, const int w)
{
    uint8_t *ends = p->values.buffer->data + p->values.buffer->n_bytes, *bytes = p->bytes.buffer->data;
    int64_t end = p->bytes.buffer->n_bytes;

    for (int64_t i = 0; i < n; i++) {
        for (; valid && !hr__bit(valid, at + s); s++)
            memcpy(ends + s * w, &end, (size_t)w);
        copy_loose(bytes + end, views[i].data, views[i].n);
        end += views[i].n;
        memcpy(ends + s * w, &end, (size_t)w);
        s++;
    }
    p->bytes.buffer->n_bytes = end;
    return s;
}

static void add_ends(part *p, int64_t s, int64_t n)
{
    uint8_t *ends = p->values.buffer->data + p->values.buffer->n_bytes;
    int64_t end = p->bytes.buffer->n_bytes;
    int32_t end32 = (int32_t)end;

    for (; s < n; s++) {
        if (p->leaf->width == 4)
            memcpy(ends + s * 4, &end32, 4);
        else
            memcpy(ends + s * 8, &end, 8);
    }
}

static int64_t offset_at(const part *p, int64_t i)
{
    int64_t v64;
    int32_t v32;

    if (p->leaf->width == 8) {
        memcpy(&v64, p->values.buffer->data + i * 8, 8);
        return v64;
    }
    memcpy(&v32, p->values.buffer->data + i * 4, 4);
    return v32;
}

/* The texts of slots [s, p->valid.n), whose bytes begin at `from`. Each text is UTF-8 if all bytes together are and
 * each slot begins with a character. */
static hr_status check_text(const part *p, int64_t s, int64_t from, hr_error *err)
{
    const uint8_t *bytes = p->bytes.buffer->data;
    int64_t n = p->bytes.buffer->n_bytes - from;
    bool valid;

    if (pq__is_ascii(bytes + from, n))
        return HR_OK;
    valid = hr__utf8_valid(bytes + from, n);
    for (; valid && s < p->valid.n; s++) {
        int64_t begin = offset_at(p, s);

        valid = begin >= from + n || (bytes[begin] & 0xc0) != 0x80;
    }
    return valid ? HR_OK : hr_error_set(err, HR_BAD_DATA, "a text is not UTF-8");
}

/* Room for the next n texts of `sum` bytes and for the extra bytes of copy_loose; at the first call, for p->expect
 * texts. */
static hr_status text_room(part *p, int64_t n, int64_t sum, hr_error *err)
{
    int64_t all =
        p->bytes.buffer ? 0 : (int64_t)HR_MIN((double)sum / (double)n * 1.06 * (double)p->expect, (double)p->cap);

    return hr__growbuf_reserve(&p->bytes, HR_MAX(all, sum) + 16, err);
}

static hr_status add_bytes(part *p, const pq_take *t, hr_error *err)
{
    const uint8_t *valid = t->n_values < t->n_slots ? p->valid.bytes.buffer->data : NULL;
    int64_t w = p->leaf->width, at = p->valid.n - t->n_slots, s = 0, left = t->n_values, from, sum;
    hr_view views[PQ_BLOCK];
    static const uint8_t zero[8];

    HR_TRY(room(p, &p->values, t->n_slots + 1, w, err));
    if (p->values.buffer->n_bytes == 0)
        HR_TRY(hr__growbuf_add(&p->values, zero, w, err));
    from = p->bytes.buffer ? p->bytes.buffer->n_bytes : 0;
    while (left > 0) {
        int64_t n = HR_MIN(left, PQ_BLOCK);

        HR_TRY(pq__values_views(&p->cursor.values, views, &n, &sum, err));
        if (w == 4 && sum > INT32_MAX - (p->bytes.buffer ? p->bytes.buffer->n_bytes : 0))
            return hr_error_set(err, HR_UNSUPPORTED,
                                "more than 2147483647 bytes of text in one row, which only a large_string can hold");
        HR_TRY(text_room(p, n, sum, err));
        s = w == 4 ? add_views(p, views, n, s, valid, at, 4) : add_views(p, views, n, s, valid, at, 8);
        left -= n;
    }
    HR_TRY(hr__growbuf_reserve(&p->bytes, 0, err)); /* a buffer exists even if it is empty */
    add_ends(p, s, t->n_slots);
    p->values.buffer->n_bytes += t->n_slots * w;
    if (p->leaf->is_text && p->cursor.values.encoding != PQ_RLE_DICTIONARY) /* pq__dict_new checked the dictionary */
        HR_TRY(check_text(p, at, from, err));
    return HR_OK;
}

static hr_status add_values(part *p, const pq_take *t, hr_error *err)
{
    if (t->n_slots == 0)
        return HR_OK;
    switch (p->leaf->kind) {
    case PQ_K_NULL: p->valid.n += t->n_slots; return HR_OK;
    case PQ_K_BOOL: return add_bits(p, t, err);
    case PQ_K_BYTES: return add_bytes(p, t, err);
    default: return add_fixed(p, t, err);
    }
}

/* --------------------------------------------------------------------------------------------------- rows of a leaf */

static void clear_output(part *p)
{
    for (int i = 0; i < p->n_tracks; i++) {
        pq_track *k = &p->tracks[i];

        hr__growbuf_clear(&k->valid.bytes);
        hr__growbuf_clear(&k->offsets);
        k->valid.n = k->valid.n_nulls = k->items = 0;
    }
    hr__growbuf_clear(&p->valid.bytes);
    hr__growbuf_clear(&p->values);
    hr__growbuf_clear(&p->bytes);
    p->valid.n = p->valid.n_nulls = 0;
}

static int64_t used(const hr_growbuf *g) { return g->buffer ? g->buffer->n_bytes : 0; }

static int64_t output_bytes(const part *p)
{
    int64_t n = used(&p->values) + used(&p->bytes) + used(&p->valid.bytes);

    for (int i = 0; i < p->n_tracks; i++)
        n += used(&p->tracks[i].offsets) + used(&p->tracks[i].valid.bytes);
    return n;
}

/* How many levels to take before their values: their values should not exceed `cap` bytes by much. */
static int64_t step_entries(const part *p, int64_t cap)
{
    const pq_values *v = &p->cursor.values;
    int64_t step = p->leaf->max_rep ? STEP_ENTRIES : INT64_MAX;

    if (p->leaf->kind != PQ_K_BYTES)
        return p->leaf->max_rep || p->leaf->width == 0 ? step : HR_MAX(PQ_BLOCK, cap / p->leaf->width);
    if (v->dict)
        return HR_MIN(step, HR_MAX(1, cap / (v->dict->longest + 1)));
    if (v->encoding == PQ_DELTA_BYTES) /* the next values are rarely much longer than the last one */
        return HR_MIN(PQ_BLOCK, HR_MAX(1, cap / (v->last_n + 1)));
    return v->end - v->at > HUGE_PAGE_BYTES ? 1 : step;
}

static hr_status next_page(part *p, bool *more, hr_error *err)
{
    *more = true;
    if (p->has_page && p->cursor.levels.left > 0)
        return HR_OK;
    HR_TRY(pq__cursor_next(&p->cursor, more, err));
    p->has_page = *more;
    return HR_OK;
}

static hr_status check_expansion(const part *p, int64_t bytes, hr_error *err)
{
    if (bytes <= FREE_ROW_BYTES || bytes / MAX_EXPANSION <= p->cursor.chunk->n_bytes)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "%lld bytes in one row, from a column chunk of %lld", (long long)bytes,
                        (long long)p->cursor.chunk->n_bytes);
}

/* Checks the last n slots against statistics. */
static hr_status verify_slots(part *p, int64_t n, hr_error *err)
{
    hr_array a = { .type = p->type,
                   .length = p->valid.n,
                   .buffers = { p->valid.bytes.buffer, p->values.buffer, p->bytes.buffer } };

    return p->leaf->kind == PQ_K_NULL ? HR_OK
                                      : pq__verify_slots(p->verify, p->cursor.ordinal, &a, a.length - n, n, err);
}

/* The part has read or skipped the whole of the current page. */
static hr_status page_end(part *p, hr_error *err)
{
    const pq_levels *lv = &p->cursor.levels;

    HR_TRY(pq__cursor_page_end(&p->cursor, err));
    return p->verify ? pq__verify_page(p->verify, p->cursor.ordinal, lv->taken, lv->taken - lv->n_values, err) : HR_OK;
}

/* Reads rows into the output. *n: in: the number of rows to read; out: the number read, fewer only if they exceed cap
 * bytes. */
static hr_status read_rows(part *p, int64_t *n, int64_t cap, hr_error *err)
{
    bool is_null = p->leaf->kind == PQ_K_NULL; /* a column of type null has no bitmap */
    pq_take t = { .tracks = p->tracks, .n_tracks = p->n_tracks, .valid = is_null ? NULL : &p->valid, .rows = *n };
    bool more, full = false;
    int64_t dropped = 0; /* rows of the request that the part leaves, because it has enough bytes */
    hr_status st = HR_OK;

    while (t.rows > 0 || p->leaf->max_rep) {
        HR_TRY(next_page(p, &more, err));
        if (!more)
            break;
        t.max_entries = step_entries(p, cap);
        st = pq__levels_take(&p->cursor.levels, &t, err);
        if (!st)
            st = add_values(p, &t, err);
        if (!st && full)
            st = check_expansion(p, output_bytes(p), err);
        if (!st && p->verify)
            st = verify_slots(p, t.n_slots, err);
        if (!st && p->cursor.levels.left == 0)
            st = page_end(p, err);
        if (st)
            return pq__cursor_error(&p->cursor, st, err);
        if (p->cursor.levels.left > 0 && t.n_entries < t.max_entries)
            break; /* the next entry begins a row after the requested ones */
        if (!full && output_bytes(p) > cap) {
            full = true;
            dropped = t.rows;
            t.rows = 0;
        }
    }
    if (t.rows > 0 && !full) {
        st = hr_error_set(err, HR_BAD_DATA, "the column chunk ends %lld rows early", (long long)t.rows);
        return pq__cursor_error(&p->cursor, st, err);
    }
    *n -= dropped;
    return HR_OK;
}

/* Skips n rows, and first the entries that continue the row before. */
static hr_status skip_rows(part *p, int64_t n, bool is_start, hr_error *err)
{
    pq_take t = { .rows = n };
    bool more;

    while (t.rows > 0 || p->leaf->max_rep) {
        hr_status st;

        HR_TRY(pq__cursor_pass(&p->cursor, &t.rows, err));
        if (t.rows == 0 && !p->leaf->max_rep)
            break;
        HR_TRY(next_page(p, &more, err));
        if (!more)
            break;
        t.max_entries = INT64_MAX;
        st = pq__levels_take(&p->cursor.levels, &t, err);
        if (!st)
            st = pq__values_skip(&p->cursor.values, t.n_values, err);
        if (!st && is_start && t.n_entries > 0)
            st = hr_error_set(err, HR_BAD_DATA, "the row group begins in the middle of a row");
        if (!st && p->cursor.levels.left == 0)
            st = page_end(p, err);
        if (st)
            return pq__cursor_error(&p->cursor, st, err);
        if (p->cursor.levels.left > 0)
            break; /* the next entry begins the requested row */
    }
    if (t.rows > 0) {
        hr_status st = hr_error_set(err, HR_BAD_DATA, "the column chunk ends %lld rows before the requested one",
                                    (long long)t.rows);

        return pq__cursor_error(&p->cursor, st, err);
    }
    return HR_OK;
}

/* Moves from c->row to row `row`. */
static hr_status seek_part(pq_column *c, part *p, int64_t row, hr_error *err)
{
    int64_t first = 0;

    HR_TRY(pq__cursor_seek(&p->cursor, c->row, row, c->row_end, &first, err));
    if (first < 0)
        return skip_rows(p, row - c->row, false, err);
    p->has_page = false;
    return skip_rows(p, row - first, row == 0, err);
}

static hr_status open_part(pq_column *c, part *p, int leaf, int64_t row, hr_error *err)
{
    hr_status st = HR_OK;

    p->has_page = false;
    HR_TRY(pq__cursor_init(&p->cursor, c->file, c->group, leaf, c->mem.account, err));
    if (c->file->verify && !p->verify)
        st = pq__verify_new(c->file, p->leaf, p->cursor.chunk, p->type, c->mem.account, &p->verify, err);
    return st ? pq__cursor_error(&p->cursor, st, err) : seek_part(c, p, row, err);
}

/* --------------------------------------------------------------------------------------------------------- assembly */

static hr_status lengths_differ(const pq_column *c, const pq_node *n, int64_t found, int64_t expected, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: row group %d, column '%s': part '%s' has %lld values, %lld are expected",
                        c->file->base.name, c->group, c->node->field.name, n->field.name, (long long)found,
                        (long long)expected);
}

/* The part of the first leaf below n. */
static part *feeder(pq_column *c, const pq_node *n)
{
    while (n->leaf < 0)
        n = &n->children[0];
    return &c->parts[n->leaf - c->parts[0].cursor.leaf_number];
}

/* The part of the last leaf below n. */
static part *last_part(pq_column *c, const pq_node *n)
{
    while (n->leaf < 0)
        n = &n->children[n->n_children - 1];
    return &c->parts[n->leaf - c->parts[0].cursor.leaf_number];
}

static bool has_track(const pq_node *n) { return n->leaf < 0 && (n->def_item > 0 || n->field.nullable); }

/* n has a track. */
static pq_track *track_of(const part *p, const pq_node *n)
{
    pq_track *k = p->tracks;

    while (k->node != n)
        k++;
    return k;
}

static bool same_track(const pq_track *a, const pq_track *b)
{
    bool same = a->valid.n == b->valid.n && a->valid.n_nulls == b->valid.n_nulls && a->items == b->items &&
                used(&a->offsets) == used(&b->offsets);

    if (same && used(&a->offsets) > 0)
        same = memcmp(a->offsets.buffer->data, b->offsets.buffer->data, (size_t)used(&a->offsets)) == 0;
    for (int64_t i = 0; same && a->valid.n_nulls > 0 && i < a->valid.n; i++)
        same = hr__bit(a->valid.bytes.buffer->data, i) == hr__bit(b->valid.bytes.buffer->data, i);
    return same;
}

/* With verify, each leaf builds the tracks of all nodes above it: all leaves below a node must have the same lists and
 * nulls. Otherwise the values of one leaf would move to rows of another. */
static hr_status verify_tracks(pq_column *c, hr_error *err)
{
    for (int i = 0; i < c->n_parts; i++) {
        part *p = &c->parts[i];

        for (int j = 0; j < p->n_tracks; j++) {
            const pq_node *n = p->tracks[j].node;

            if (!same_track(&p->tracks[j], track_of(feeder(c, n), n)))
                return hr_error_set(err, HR_BAD_DATA,
                                    "%s: row group %d, column '%s': '%s' and '%s' have different lists or nulls of "
                                    "'%s'",
                                    c->file->base.name, c->group, c->node->field.name, feeder(c, n)->leaf->name,
                                    p->leaf->name, n->field.name);
        }
    }
    return HR_OK;
}

/* *out NULL: no slot is null. */
static hr_status finish_bits(pq_bits *b, hr_buffer **out, hr_error *err)
{
    *out = NULL;
    return b->bytes.buffer ? hr__growbuf_finish(&b->bytes, out, err) : HR_OK;
}

static hr_status build_leaf(part *p, const pq_node *node, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    static const uint8_t zero[8];
    hr_status st = HR_OK;

    *out = NULL;
    if (p->leaf->kind == PQ_K_BYTES && used(&p->values) == 0) /* without slots there is still one offset, 0 */
        HR_TRY(hr__growbuf_add(&p->values, zero, p->leaf->width, err));
    if (p->leaf->kind == PQ_K_NULL)
        return hr__array_new(node->field.type, p->valid.n, p->valid.n, buffers, NULL, 0, out, err);
    HR_GO(finish_bits(&p->valid, &buffers[0], err));
    HR_GO(hr__growbuf_finish(&p->values, &buffers[1], err));
    if (p->leaf->kind == PQ_K_BYTES)
        HR_GO(hr__growbuf_finish(&p->bytes, &buffers[2], err));
    return hr__array_new(node->field.type, p->valid.n, p->valid.n_nulls, buffers, NULL, 0, out, err);
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

static hr_status build(pq_column *c, const pq_node *n, hr_array **out, hr_error *err);

static hr_status build_struct(pq_column *c, const pq_node *n, pq_track *k, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array **children = hr__zalloc(c->mem.account, (size_t)n->n_children * sizeof *children);
    hr_status st = HR_OK;
    int64_t length;

    if (!children)
        return hr__error_memory(err, n->field.name, n->n_children * (int64_t)sizeof *children);
    for (int i = 0; i < n->n_children; i++)
        HR_GO(build(c, &n->children[i], &children[i], err));
    length = k ? k->valid.n : children[0]->length;
    for (int i = 0; i < n->n_children; i++) {
        if (children[i]->length != length)
            HR_GO(lengths_differ(c, &n->children[i], children[i]->length, length, err));
    }
    if (k)
        HR_GO(finish_bits(&k->valid, &buffers[0], err));
    st = hr__array_new(n->field.type, length, k ? k->valid.n_nulls : 0, buffers, children, n->n_children, out, err);
    memset(children, 0, (size_t)n->n_children * sizeof *children); /* taken */
done:
    for (int i = 0; i < n->n_children; i++)
        hr__array_unref(children[i]);
    hr__free(children);
    return st;
}

static int64_t track_offset(const pq_track *k, int64_t i)
{
    int32_t v;

    memcpy(&v, k->offsets.buffer->data + 4 * i, 4); /* fixed lists are built with 32 bits */
    return v;
}

/* The items of a list of fixed size: in Arrow a null list has items too, which Parquet does not store. Takes *child. */
static hr_status fill_fixed(pq_column *c, const pq_node *n, pq_track *k, hr_array **child, hr_error *err)
{
    int64_t width = n->field.type->width, slots = k->valid.n;
    const uint8_t *valid = k->valid.bytes.buffer ? k->valid.bytes.buffer->data : NULL;
    hr_array *filled = NULL;
    hr_span *spans = NULL;
    hr_status st = HR_OK;

    for (int64_t i = 0; i < slots; i++) {
        int64_t has = track_offset(k, i + 1) - track_offset(k, i);

        if (valid && !hr__bit(valid, i) ? has != 0 : has != width)
            HR_FAIL(HR_BAD_DATA, "%s: row group %d, column '%s': a list of %lld items, the schema says %lld each",
                    c->file->base.name, c->group, c->node->field.name, (long long)has, (long long)width);
    }
    if (k->valid.n_nulls == 0)
        goto done;
    spans = hr__alloc(c->mem.account, (size_t)slots * sizeof *spans);
    if (!spans)
        HR_GO(hr__error_memory(err, n->field.name, slots * (int64_t)sizeof *spans));
    for (int64_t i = 0; i < slots; i++)
        spans[i] = (hr_span){ hr__bit(valid, i) ? *child : NULL, track_offset(k, i), width };
    HR_GO(hr__array_gather(&c->mem, (*child)->type, spans, slots, &filled, err));
    hr__array_unref(*child);
    *child = filled;
done:
    hr__free(spans);
    return st;
}

static hr_status build_list(pq_column *c, const pq_node *n, pq_track *k, hr_array **out, hr_error *err)
{
    bool fixed = n->field.type->id == HR_T_FIXED_LIST || n->field.type->id == HR_T_TENSOR;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *child = NULL;
    hr_status st = HR_OK;
    uint8_t end[8];
    int32_t end32 = (int32_t)k->items;

    memcpy(end, &k->items, 8);
    if (k->offset_bytes == 4)
        memcpy(end, &end32, 4);
    HR_GO(hr__growbuf_add(&k->offsets, end, k->offset_bytes, err));
    HR_GO(build(c, &n->children[0], &child, err));
    if (child->length != k->items)
        HR_GO(lengths_differ(c, &n->children[0], child->length, k->items, err));
    if (fixed)
        HR_GO(fill_fixed(c, n, k, &child, err));
    HR_GO(finish_bits(&k->valid, &buffers[0], err));
    if (!fixed)
        HR_GO(hr__growbuf_finish(&k->offsets, &buffers[1], err));
    st = hr__array_new(n->field.type, k->valid.n, k->valid.n_nulls, buffers, &child, 1, out, err);
    child = NULL; /* hr__array_new took it, and the buffers */
    buffers[0] = buffers[1] = NULL;
done:
    hr__array_unref(child);
    hr__buffer_unref(buffers[0]);
    hr__buffer_unref(buffers[1]);
    return st;
}

static hr_status build(pq_column *c, const pq_node *n, hr_array **out, hr_error *err)
{
    part *p = feeder(c, n);
    pq_track *k;

    if (n->leaf >= 0)
        return build_leaf(p, n, out, err);
    k = has_track(n) ? track_of(p, n) : NULL;
    return n->def_item > 0 ? build_list(c, n, k, out, err) : build_struct(c, n, k, out, err);
}

/* ---------------------------------------------------------------------------------------------------------- columns */

/* The part after the last one that builds the track of n. */
static part *tracks_end(pq_column *c, const pq_node *n)
{
    return (c->file->verify ? last_part(c, n) : feeder(c, n)) + 1;
}

static void count_tracks(pq_column *c, const pq_node *n)
{
    for (part *p = feeder(c, n); p < tracks_end(c, n); p++)
        p->n_tracks += has_track(n);
    for (int i = 0; i < n->n_children; i++)
        count_tracks(c, &n->children[i]);
}

static void set_tracks(pq_column *c, const pq_node *n)
{
    if (n->leaf >= 0)
        feeder(c, n)->type = n->field.type;
    for (part *p = feeder(c, n); has_track(n) && p < tracks_end(c, n); p++) {
        pq_track *k = p->tracks;

        while (k->node)
            k++;

        k->node = n;
        k->is_list = n->def_item > 0;
        k->offset_bytes = n->field.type->id == HR_T_LARGE_LIST ? 8 : 4;
        k->valid.bytes.mem = &c->mem;
        k->offsets.mem = &c->mem;
    }
    for (int i = 0; i < n->n_children; i++)
        set_tracks(c, &n->children[i]);
}

hr_status pq__column_new(pq_file *f, int group, int node, int64_t from, pq_range rows, const hr_mem *mem,
                         pq_column **out, hr_error *err)
{
    const pq_schema *s = f->schema;
    int first = s->node_leaf[node], n = s->node_leaf[node + 1] - first;
    pq_column *c = hr__zalloc(mem->account, sizeof *c + (size_t)n * sizeof c->parts[0]);
    hr_status st = HR_OK;

    *out = NULL;
    if (!c)
        return hr__error_memory(err, f->base.name, (int64_t)sizeof *c + n * (int64_t)sizeof c->parts[0]);
    c->file = f;
    c->group = group;
    c->node = &s->nodes[node];
    c->row = from;
    c->row_end = rows.end;
    c->mem = *mem;
    c->n_parts = n;
    for (int i = 0; i < n; i++) {
        c->parts[i].leaf = &s->leaves[first + i];
        c->parts[i].cursor.leaf_number = first + i;
        c->parts[i].valid.bytes.mem = c->parts[i].values.mem = c->parts[i].bytes.mem = &c->mem;
    }
    count_tracks(c, c->node);
    for (int i = 0; i < n; i++) {
        part *p = &c->parts[i];

        p->tracks = hr__zalloc(mem->account, (size_t)p->n_tracks * sizeof *p->tracks);
        if (!p->tracks)
            HR_GO(hr__error_memory(err, f->base.name, p->n_tracks * (int64_t)sizeof *p->tracks));
    }
    set_tracks(c, c->node);
    for (int i = 0; i < n; i++)
        HR_GO(open_part(c, &c->parts[i], first + i, rows.begin, err));
    c->row = rows.begin;
    *out = c;
    c = NULL; /* moved to the caller */
done:
    pq__column_free(c);
    return st;
}

hr_status pq__column_seek(pq_column *c, int64_t row, int64_t row_end, hr_error *err)
{
    c->row_end = row_end;
    for (int i = 0; i < c->n_parts; i++)
        HR_TRY(seek_part(c, &c->parts[i], row, err));
    c->row = row;
    return HR_OK;
}

void pq__column_free(pq_column *c)
{
    if (!c)
        return;
    for (int i = 0; i < c->n_parts; i++) {
        if (c->parts[i].tracks)
            clear_output(&c->parts[i]);
        hr__free(c->parts[i].tracks);
        pq__verify_free(c->parts[i].verify);
        pq__cursor_clear(&c->parts[i].cursor);
    }
    hr__free(c);
}

/* Estimates the slots of the next n rows, for the first allocation. The bytes of the chunk bound the estimate, so that
 * wrong metadata cannot allocate much. */
static void expect_slots(const pq_column *c, part *p, int64_t n, int64_t cap)
{
    double n_rows = (double)HR_MAX(c->file->meta->groups[c->group].n_rows, 1), width = HR_MAX(p->leaf->width, 1);
    double slots = (double)n * ((double)p->cursor.chunk->n_values / n_rows) * 1.06 + 16;
    double likely = (double)p->cursor.chunk->n_bytes * MAX_EXPANSION / width + PQ_BLOCK;

    p->cap = cap;
    p->expect = (int64_t)HR_MIN(p->leaf->max_rep ? slots : (double)n, HR_MIN(likely, (double)cap / width + PQ_BLOCK));
}

/* Reads the first *n rows of the ranges, or fewer. *n: out: the number of rows read. */
static hr_status read_ranges(pq_column *c, part *p, const pq_range *ranges, int64_t *n, int64_t cap, hr_error *err)
{
    int64_t row = c->row, done = 0;

    for (; done < *n; ranges++) {
        int64_t wanted = HR_MIN(ranges->end - ranges->begin, *n - done), came = wanted;

        if (ranges->begin > row)
            HR_TRY(skip_rows(p, ranges->begin - row, false, err));
        HR_TRY(read_rows(p, &came, cap, err));
        row = ranges->begin + came;
        done += came;
        if (came < wanted || output_bytes(p) > cap)
            break;
    }
    *n = done;
    return HR_OK;
}

/* Reads *n rows or fewer of all parts. *n: out: the rows of the part that read the fewest; a part that read more is
 * marked `ahead`. */
static hr_status read_parts(pq_column *c, const pq_range *ranges, int64_t *n, int64_t cap, bool *ahead, hr_error *err)
{
    *ahead = false;
    for (int i = 0; i < c->n_parts; i++) {
        part *p = &c->parts[i];
        int64_t had = *n;

        clear_output(p);
        expect_slots(c, p, *n, cap);
        HR_TRY(read_ranges(c, p, ranges, n, cap, err));
        *ahead = *ahead || (i > 0 && *n < had);
    }
    return HR_OK;
}

/* Where the first n rows of the ranges end. */
static int64_t row_behind(const pq_range *ranges, int64_t n)
{
    for (; n > ranges->end - ranges->begin; ranges++)
        n -= ranges->end - ranges->begin;
    return ranges->begin + n;
}

hr_status pq__column_read(pq_column *c, const pq_range *ranges, int64_t n, int64_t max_bytes, hr_array **out,
                          hr_error *err)
{
    int64_t cap = HR_MAX(HR_MIN(max_bytes, 1 << 30) * 2, 1);
    hr_status st = HR_OK;
    bool ahead;

    *out = NULL;
    HR_GO(read_parts(c, ranges, &n, cap, &ahead, err));
    if (ahead) { /* some parts read more rows than others: all go back and read the smallest number */
        for (int i = 0; i < c->n_parts; i++) {
            int leaf = c->parts[i].cursor.leaf_number;

            pq__cursor_clear(&c->parts[i].cursor);
            HR_GO(open_part(c, &c->parts[i], leaf, c->row, err));
        }
        HR_GO(read_parts(c, ranges, &n, INT64_MAX / 4, &ahead, err));
    }
    if (c->file->verify)
        HR_GO(verify_tracks(c, err));
    HR_GO(build(c, c->node, out, err));
    if ((*out)->length != n) {
        st = lengths_differ(c, c->node, (*out)->length, n, err);
        hr__array_unref(*out);
        *out = NULL;
        goto done;
    }
    c->row = row_behind(ranges, n);
done:
    for (int i = 0; i < c->n_parts; i++)
        clear_output(&c->parts[i]);
    return st;
}

bool pq__column_has_codes(const pq_column *c)
{
    return c->node->leaf >= 0 && c->parts[0].leaf->kind == PQ_K_BYTES && c->parts[0].leaf->max_rep == 0;
}

/* Codes of values -> codes of slots; a slot without a value has the code `null`. */
static void spread_codes(uint32_t *codes, int64_t n_values, int64_t n_slots, const uint8_t *valid, uint32_t null)
{
    for (int64_t i = n_slots; n_values < i;) {
        i--;
        codes[i] = hr__bit(valid, i) ? codes[--n_values] : null;
    }
}

hr_status pq__column_dict(pq_column *c, const pq_dict **out, hr_error *err)
{
    part *p = &c->parts[0];
    bool more = false;

    HR_TRY(next_page(p, &more, err));
    *out = more ? p->cursor.values.dict : NULL;
    return HR_OK;
}

hr_status pq__column_codes(pq_column *c, uint32_t *codes, int64_t *n, hr_error *err)
{
    part *p = &c->parts[0];
    pq_take t = { .valid = &p->valid, .rows = *n, .max_entries = *n };
    hr_status st;

    clear_output(p);
    st = pq__levels_take(&p->cursor.levels, &t, err);
    if (!st)
        st = pq__values_codes(&p->cursor.values, codes, t.n_values, err);
    if (!st && p->cursor.levels.left == 0)
        st = page_end(p, err);
    if (st)
        return pq__cursor_error(&p->cursor, st, err);
    if (t.n_values < t.n_slots)
        spread_codes(codes, t.n_values, t.n_slots, p->valid.bytes.buffer->data, (uint32_t)p->cursor.values.dict->n);
    clear_output(p);
    *n = t.n_slots;
    c->row += t.n_slots;
    return HR_OK;
}

hr_status pq__column_end(pq_column *c, hr_error *err)
{
    if (c->row < c->file->meta->groups[c->group].n_rows)
        return HR_OK;
    for (int i = 0; i < c->n_parts; i++) {
        pq_cursor *k = &c->parts[i].cursor;
        hr_status st = HR_OK;

        if (k->levels.left > 0)
            st =
                hr_error_set(err, HR_BAD_DATA, "%lld values after the row group's last row", (long long)k->levels.left);
        else if (k->entries >= 0 && k->entries != k->chunk->n_values)
            st = hr_error_set(err, HR_BAD_DATA, "%lld values, the column chunk's header says %lld",
                              (long long)k->entries, (long long)k->chunk->n_values);
        else if (k->at < k->end - k->chunk->slack)
            st = hr_error_set(err, HR_BAD_DATA, "the last page ends at %lld, the column chunk at %lld",
                              (long long)k->at, (long long)k->end);
        else if (c->parts[i].verify)
            st = pq__verify_chunk(c->parts[i].verify, err);
        if (st)
            return pq__cursor_error(k, st, err);
    }
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- estimates */

static double leaf_bytes(const pq_chunk *chunk, const pq_leaf *l)
{
    double n = (double)chunk->n_values;

    if (l->kind == PQ_K_NULL)
        return 0;
    if (l->kind == PQ_K_BOOL)
        return n / 8;
    if (l->kind != PQ_K_BYTES)
        return n * l->width;
    if (chunk->text_bytes >= 0)
        return n * l->width + (double)chunk->text_bytes;
    return n * (l->width + 8) +
           HR_MAX((double)chunk->memory_bytes - 4 * n, 0); /* values by dictionary take more memory: 8 is an estimate */
}

static double node_bytes(const pq_file *f, int group, const pq_node *n)
{
    double bytes = 0;

    if (n->leaf >= 0) {
        const pq_leaf *l = &f->schema->leaves[n->leaf];

        return leaf_bytes(&f->meta->groups[group].chunks[l->column], l);
    }
    for (int i = 0; i < n->n_children; i++)
        bytes += node_bytes(f, group, &n->children[i]);
    if (n->def_item > 0)
        bytes += 4 * (double)f->meta->groups[group].n_rows;
    return bytes;
}

double pq__column_row_bytes(const pq_file *f, int group, int node)
{
    int64_t n_rows = f->meta->groups[group].n_rows;

    return n_rows ? node_bytes(f, group, &f->schema->nodes[node]) / (double)n_rows : 0;
}
