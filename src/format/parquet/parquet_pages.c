/* parquet_pages.c - one column chunk as a sequence of pages: read, checked, decompressed, levels and values set up.
 *
 * A cursor reads the file through a window of its own, window_bytes or one page, whichever is more; a compressed page
 * needs a second buffer. The cursor keeps both from page to page: apart from its dictionary and its output, a column
 * needs no other memory.
 *
 * To begin in the middle of a row group, a cursor must know in which page a row begins. The offset index says it, if
 * the file has one. Otherwise the cursor reads the headers one after another and skips the bodies; only for repeated
 * columns in pages of version 1 it decodes the repetition levels to count rows (with zstd, it decompresses only the
 * beginning of the page for that). The open file keeps the pages found in a pq_directory per column chunk, so that the
 * next reader begins where this one ended.
 *
 * Locks: file->lock (pointers, held for moments) and directory->lock (held during the search for pages). No thread
 * takes the first while it holds the second.
 *
 * Tests: test_parquet_read.c, test_parquet_prune.c. */
#include "format/parquet/parquet_read.h"

#define WINDOW_BYTES (256 << 10)
#define ALL_WINDOWS_BYTES (8 << 20)   /* of a reader with many columns: each gets an equal part, */
#define LEAST_WINDOW_BYTES (16 << 10) /* but no less than this */
#define WHOLE_BYTES (2 << 20) /* a dictionary up to this size is read at once, though it is larger than a window */
#define PEEK_BYTES (4 << 10)  /* read to see a header without its body */
#define FREE_PAGE_BYTES (256 << 20) /* a larger page has at most MAX_PAGE_RATIO times its bytes in the file */
#define MAX_PAGE_RATIO 1024
#define MAX_HEADER_BYTES (64 << 20) /* statistics of long texts make headers long, but not that long */

/* ----------------------------------------------------------------------------------------------------------- codecs */

static hr_status find_codec(int codec, const hr_codec **out, hr_error *err)
{
    static const char *const names[] = { NULL, "snappy", "gzip", "lzo", "brotli", "lz4_hadoop", "zstd", "lz4" };

    *out = NULL;
    if (codec < 0 || codec >= HR_LEN(names))
        return hr_error_set(err, HR_UNSUPPORTED, "compressed by a codec of unknown number %d", codec);
    *out = names[codec] ? hr__codec_by_name(names[codec]) : NULL;
    return *out ? hr__codec_check(*out, 0, 0, err) : HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- window */

hr_status pq__cursor_error(const pq_cursor *c, hr_status st, hr_error *err)
{
    const char *name = c->file->base.name;
    size_t n = strlen(name);

    if (st == HR_IO) /* names the file itself */
        return st;
    if (err && strncmp(err->text, name, n) == 0 && strncmp(err->text + n, ": ", 2) == 0) /* so does the decompressor */
        memmove(err->text, err->text + n + 2, strlen(err->text + n + 2) + 1);
    if (c->ordinal < 0)
        return hr__error_at(err, st, "%s: row group %d, column '%s', before page 0", name, c->group, c->leaf->name);
    return hr__error_at(err, st, "%s: row group %d, column '%s', page %d", name, c->group, c->leaf->name, c->ordinal);
}

/* Replaces *b by a buffer of n bytes, unless *b is large enough. Contents are lost. */
static hr_status ensure(const hr_mem *mem, hr_buffer **b, int64_t n, hr_error *err)
{
    if (*b && (*b)->n_bytes >= n)
        return HR_OK;
    hr__buffer_unref(*b);
    *b = NULL;
    return hr__buffer_new(mem, n, b, err);
}

/* Makes bytes [at, at + n) of the file readable at *out, and HR_SLACK bytes more without a fault; a read fetches `want`
 * >= n bytes if the chunk is that long. */
static hr_status view(pq_cursor *c, int64_t at, int64_t n, int64_t want, const uint8_t **out, hr_error *err)
{
    hr_buffer *old = NULL;
    int64_t keep = 0;
    hr_status st = HR_OK;

    *out = NULL;
    if (n > c->end - at)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes at %lld, the column chunk ends at %lld", (long long)n,
                            (long long)at, (long long)c->end);
    if (at < c->window_at || at + n > c->window_at + c->window_n) {
        int64_t from = at - c->window_at;

        want = HR_MAX(n, HR_MIN(want, (at < c->enough ? c->enough : c->end) - at));
        if (c->file->base.is_remote)
            want = n; /* more bytes could be another request, and those that came are in memory already */
        if (from >= 0 && from < c->window_n)
            keep = c->window_n - from;
        c->window_n = 0; /* until the read succeeds */
        if (c->window && c->window->n_bytes < want) {
            old = c->window;
            c->window = NULL;
        }
        HR_GO(ensure(&c->mem, &c->window, want, err));
        if (keep > 0)
            memmove(c->window->data, (old ? old : c->window)->data + from, (size_t)keep);
        c->window_at = at;
        HR_GO(hr__source_read(c->file->source, c->window->data + keep, at + keep, want - keep, err));
        c->window_n = want;
    }
    *out = c->window->data + (at - c->window_at);
done:
    hr__buffer_unref(old);
    return st;
}

/* Parses the header at c->at and moves after it. peek: bytes to read at a time. */
static hr_status read_header(pq_cursor *c, int64_t peek, hr_error *err)
{
    int64_t n = HR_MIN(256, c->end - c->at), n_used;
    const uint8_t *p;
    hr_status st;

    for (;;) {
        HR_TRY(view(c, c->at, n, peek, &p, err));
        st = pq__page_parse((hr_view){ p, n }, &c->page, &n_used, err);
        if (st != HR_PENDING)
            break;
        if (n >= c->end - c->at || n >= MAX_HEADER_BYTES)
            return hr_error_set(err, HR_BAD_DATA, "page header at %lld: it is cut off", (long long)c->at);
        n = HR_MIN(n * 8, c->end - c->at);
    }
    HR_TRY(st);
    c->at += n_used;
    if (c->page.stored_bytes > c->end - c->at)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes at %lld, the column chunk ends at %lld",
                            (long long)c->page.stored_bytes, (long long)c->at, (long long)c->end);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ pages */

/* Checks the size in the header of a compressed page: the codec must be able to compress that well; the limit for very
 * large pages is lower. */
static hr_status check_size(const pq_cursor *c, int64_t n_in, int64_t n_out, hr_error *err)
{
    if (n_out > FREE_PAGE_BYTES && n_out / MAX_PAGE_RATIO > n_in)
        return hr_error_set(err, HR_BAD_DATA, "a page of %lld bytes from %lld", (long long)n_out, (long long)n_in);
    return hr__codec_check(c->codec, n_in, n_out, err);
}

static bool is_summed(const pq_cursor *c) { return c->page.has_crc && c->file->check_crc; }

static hr_status check_crc(const pq_cursor *c, const uint8_t *data, hr_error *err)
{
    uint32_t found;

    if (!is_summed(c))
        return HR_OK;
    found = hr__crc32(0, data, c->page.stored_bytes);
    if (found == c->page.crc)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "checksum of %lld bytes at %lld is %08x, the page's header says %08x",
                        (long long)c->page.stored_bytes, (long long)c->at, found, c->page.crc);
}

/* The cursor holds a page as a whole, and twice if it is compressed: the error for a page above the memory limit comes
 * before the read. */
static hr_status check_room(const pq_cursor *c, bool compressed, hr_error *err)
{
    int64_t limit = hr__account_limit(c->mem.account);
    int64_t needed = c->page.stored_bytes + (compressed && c->codec ? c->page.memory_bytes : 0);

    if (limit <= 0 || needed <= limit)
        return HR_OK;
    return hr_error_set(err, HR_BUDGET, "a page that takes %lld bytes of memory, the memory limit is %lld",
                        (long long)needed, (long long)limit);
}

/* Reads the page's bytes after the header; moves c->at after them. skip: bytes at its beginning that are never
 * compressed. */
static hr_status read_body(pq_cursor *c, int64_t skip, bool compressed, hr_view *head, hr_view *body, hr_error *err)
{
    const pq_page *p = &c->page;
    int64_t n_in = p->stored_bytes - skip, n_out = p->memory_bytes - skip;
    const uint8_t *data;
    hr_codec_verify verify;

    if (n_in < 0 || n_out < 0)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes of levels in a page of %lld, uncompressed %lld",
                            (long long)skip, (long long)p->stored_bytes, (long long)p->memory_bytes);
    HR_TRY(check_room(c, compressed, err));
    HR_TRY(view(c, c->at, p->stored_bytes, c->window_bytes, &data, err));
    HR_TRY(check_crc(c, data, err));
    c->at += p->stored_bytes;
    *head = (hr_view){ data, skip };
    *body = (hr_view){ data + skip, n_in };
    if ((!compressed || !c->codec) && n_in != n_out)
        return hr_error_set(err, HR_BAD_DATA, "an uncompressed page of %lld bytes, its header says %lld",
                            (long long)p->stored_bytes, (long long)p->memory_bytes);
    if (!compressed || !c->codec)
        return HR_OK;
    if (n_in == 0 && n_out == 0)
        return HR_OK;
    HR_TRY(check_size(c, n_in, n_out, err));
    HR_TRY(ensure(&c->mem, &c->plain, n_out, err));
    verify = is_summed(c) ? HR_VERIFY_NONE : c->file->verify ? HR_VERIFY_ALL : HR_VERIFY_USUAL;
    HR_TRY(hr__codec_block_verified(c->codec, verify, *body, c->plain->data, n_out, err));
    *body = (hr_view){ c->plain->data, n_out };
    return HR_OK;
}

static int bits_for(int max) { return max ? 32 - __builtin_clz((unsigned)max) : 0; }

/* BIT_PACKED levels (only very old writers): expanded to bytes, then read as a packed run of whole bytes. */
static hr_status old_levels(pq_cursor *c, pq_runs *r, int max, hr_view *body, hr_buffer **spelled, hr_error *err)
{
    int64_t n = (c->page.n_values * bits_for(max) + 7) / 8;

    if (n > body->n)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes of levels in %lld bytes", (long long)n, (long long)body->n);
    hr__buffer_unref(*spelled);
    *spelled = NULL;
    HR_TRY(hr__buffer_new(&c->mem, c->page.n_values, spelled, err));
    pq__bit_packed_u8(body->data, bits_for(max), (*spelled)->data, c->page.n_values);
    pq__runs_init(r, NULL, NULL, 8);
    r->packed = true;
    r->left = c->page.n_values;
    r->bits = (*spelled)->data;
    *body = (hr_view){ body->data + n, body->n - n };
    return HR_OK;
}

/* Levels at the beginning of a page of version 1. */
static hr_status levels_v1(pq_cursor *c, pq_runs *r, int max, int encoding, hr_view *body, hr_buffer **spelled,
                           hr_error *err)
{
    uint32_t n;

    if (max == 0) {
        pq__runs_init(r, NULL, NULL, 0);
        return HR_OK;
    }
    if (encoding == PQ_BIT_PACKED)
        return old_levels(c, r, max, body, spelled, err);
    if (encoding != PQ_RLE)
        return hr_error_set(err, HR_UNSUPPORTED, "levels of encoding %d", encoding);
    if (body->n < 4 || (n = hr__load_le32(body->data)) > body->n - 4)
        return hr_error_set(err, HR_BAD_DATA, "levels are longer than the page of %lld bytes", (long long)body->n);
    pq__runs_init(r, body->data + 4, body->data + 4 + n, bits_for(max));
    *body = (hr_view){ body->data + 4 + n, body->n - 4 - n };
    return HR_OK;
}

static hr_status open_v1(pq_cursor *c, hr_error *err)
{
    hr_view head, body;

    HR_TRY(read_body(c, 0, true, &head, &body, err));
    HR_TRY(levels_v1(c, &c->levels.rep, c->leaf->max_rep, c->page.rep_encoding, &body, &c->spelled[0], err));
    HR_TRY(levels_v1(c, &c->levels.def, c->leaf->max_def, c->page.def_encoding, &body, &c->spelled[1], err));
    return pq__values_init(&c->values, c->leaf, c->dict, c->page.encoding, body, err);
}

/* Some writers write levels even where the maximum is 0. */
static void levels_v2(pq_runs *r, int max, hr_view in)
{
    pq__runs_init(r, in.data, in.data + (max ? in.n : 0), bits_for(max));
}

static hr_status open_v2(pq_cursor *c, hr_error *err)
{
    const pq_page *p = &c->page;
    hr_view head, body;

    HR_TRY(
        read_body(c, p->rep_bytes + p->def_bytes, p->compressed || c->file->meta->all_compressed, &head, &body, err));
    levels_v2(&c->levels.rep, c->leaf->max_rep, (hr_view){ head.data, p->rep_bytes });
    levels_v2(&c->levels.def, c->leaf->max_def, (hr_view){ head.data + p->rep_bytes, p->def_bytes });
    return pq__values_init(&c->values, c->leaf, c->dict, p->encoding, body, err);
}

/* ----------------------------------------------------------------------------------------------------- dictionaries */

/* The dictionary that another reader of this row group has made, if any. */
static pq_dict *shared_dict(pq_cursor *c)
{
    pq_shared *s = &c->file->shared[c->leaf_number];
    pq_dict *d;

    hr__lock(&c->file->lock);
    d = s->dict && s->dict_group == c->group ? pq__dict_ref(s->dict) : NULL;
    hr__unlock(&c->file->lock);
    return d;
}

static void share_dict(pq_cursor *c)
{
    pq_shared *s = &c->file->shared[c->leaf_number];
    pq_dict *old;

    hr__lock(&c->file->lock);
    old = s->dict;
    s->dict = pq__dict_ref(c->dict);
    s->dict_group = c->group;
    hr__unlock(&c->file->lock);
    pq__dict_unref(old);
}

/* Pages of indices are smaller than their dictionary: frees the buffers that the dictionary needed. */
static void drop_large(pq_cursor *c)
{
    if (c->window->n_bytes > c->window_bytes) {
        hr__buffer_unref(c->window);
        c->window = NULL;
        c->window_n = 0;
    }
    hr__buffer_unref(c->plain);
    c->plain = NULL;
}

/* The current page is a dictionary: reads it, or skips it if c->dict is known. */
static hr_status take_dictionary(pq_cursor *c, hr_error *err)
{
    hr_view head, body;

    if (c->dict) {
        c->at += c->page.stored_bytes;
        return HR_OK;
    }
    c->dict = shared_dict(c);
    if (c->dict) {
        c->at += c->page.stored_bytes;
        return HR_OK;
    }
    if (c->page.encoding != PQ_PLAIN && c->page.encoding != PQ_PLAIN_DICTIONARY)
        return hr_error_set(err, HR_UNSUPPORTED, "a dictionary of encoding %d", c->page.encoding);
    HR_TRY(read_body(c, 0, true, &head, &body, err));
    HR_TRY(pq__dict_new(c->leaf, body, c->page.n_values, c->file->meta->padding, &c->mem, &c->plain, &c->dict, err));
    share_dict(c);
    drop_large(c);
    return HR_OK;
}

/* Bytes of the dictionary, if the cursor is before it and will need it; else 0. Reading it in pieces would copy the
 * first one. */
static int64_t dictionary_ahead(const pq_cursor *c)
{
    bool is_ahead = c->at == c->chunk->begin && !c->dict && c->chunk->dict_bytes <= WHOLE_BYTES;

    return is_ahead ? c->chunk->dict_bytes : 0;
}

/* For a cursor that begins after the dictionary: looks for the dictionary at the beginning of the chunk. */
static hr_status find_dictionary(pq_cursor *c, hr_error *err)
{
    int64_t at = c->at;
    hr_status st = HR_OK;

    if (c->dict || (c->dict = shared_dict(c)))
        return HR_OK;
    c->at = c->chunk->begin;
    HR_GO(read_header(c, HR_MAX(c->window_bytes, dictionary_ahead(c)), err));
    if (c->page.type == PQ_PAGE_DICTIONARY)
        HR_GO(take_dictionary(c, err));
done:
    c->at = at;
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- cursor */

hr_status pq__cursor_init(pq_cursor *c, pq_file *f, int group, int leaf, hr_account *account, hr_error *err)
{
    const pq_leaf *l = &f->schema->leaves[leaf];
    const pq_chunk *chunk = &f->meta->groups[group].chunks[l->column];
    int64_t n_rows = f->meta->groups[group].n_rows;
    hr_status st = HR_OK;

    memset(c, 0, offsetof(pq_cursor, levels));
    memset(&c->values, 0, sizeof c->values);
    c->levels.left = c->levels.at = c->levels.n = 0;
    c->levels.last_def = 255;
    c->levels.leaf = l;
    c->file = f;
    c->leaf = l;
    c->chunk = chunk;
    c->leaf_number = leaf;
    c->group = group;
    c->ordinal = -1;
    c->window_bytes = HR_MIN(WINDOW_BYTES, HR_MAX(LEAST_WINDOW_BYTES, ALL_WINDOWS_BYTES / f->schema->n_leaves));
    c->mem = c->values.mem = (hr_mem){ account, NULL };
    c->at = chunk->begin;
    c->end = c->enough = chunk->begin + chunk->n_bytes;
    if (chunk->elsewhere)
        HR_FAIL(HR_UNSUPPORTED, "the data is in another file");
    if (chunk->encrypted)
        HR_FAIL(HR_UNSUPPORTED, "the column is encrypted");
    if (chunk->physical != (int)l->physical)
        HR_FAIL(HR_BAD_DATA, "the column chunk is of physical type %d, the schema says %d", chunk->physical,
                (int)l->physical);
    if (l->max_rep ? chunk->n_values < n_rows : chunk->n_values != n_rows)
        HR_FAIL(HR_BAD_DATA, "the column chunk has %lld values, the row group %lld rows", (long long)chunk->n_values,
                (long long)n_rows);
    HR_GO(find_codec(chunk->codec, &c->codec, err));
done:
    if (st)
        hr__error_at(err, st, "%s: row group %d, column '%s'", f->base.name, group, l->name);
    return st;
}

void pq__cursor_clear(pq_cursor *c)
{
    hr__buffer_unref(c->window);
    hr__buffer_unref(c->plain);
    hr__buffer_unref(c->spelled[0]);
    hr__buffer_unref(c->spelled[1]);
    pq__dict_unref(c->dict);
    pq__values_clear(&c->values);
    c->window = c->plain = c->spelled[0] = c->spelled[1] = NULL;
    c->dict = NULL;
}

/* The header of the next data page; *more false: there is none. want_dictionary: reads dictionaries on the way. */
static hr_status next_header(pq_cursor *c, int64_t peek, bool want_dictionary, bool *more, hr_error *err)
{
    for (*more = false; c->at < c->end && c->entries != c->chunk->n_values;) {
        int64_t begin = c->at;

        HR_TRY(read_header(c, want_dictionary ? HR_MAX(peek, dictionary_ahead(c)) : peek, err));
        c->header_at = begin;
        if (c->page.type == PQ_PAGE_DATA || c->page.type == PQ_PAGE_DATA_V2) {
            c->ordinal++;
            *more = true;
            return HR_OK;
        }
        if (c->page.type == PQ_PAGE_DICTIONARY && want_dictionary)
            HR_TRY(take_dictionary(c, err));
        else
            c->at += c->page.stored_bytes;
    }
    return HR_OK;
}

/* Checks the page against the offset index: a wrong index would have led to other rows. */
static hr_status check_place(const pq_cursor *c, int64_t rows, hr_error *err)
{
    const pq_directory *d = c->index;
    int64_t n_rows = c->file->meta->groups[c->group].n_rows, next;

    if (!d)
        return HR_OK;
    if (c->ordinal >= d->n || d->places[c->ordinal].offset != c->header_at)
        return hr_error_set(err, HR_BAD_DATA, "the offset index does not have the page at %lld",
                            (long long)c->header_at);
    next = c->ordinal + 1 < d->n ? d->places[c->ordinal + 1].row : n_rows;
    if (rows != next - d->places[c->ordinal].row)
        return hr_error_set(err, HR_BAD_DATA, "%lld rows, the offset index says %lld", (long long)rows,
                            (long long)(next - d->places[c->ordinal].row));
    return HR_OK;
}

static hr_status open_page(pq_cursor *c, hr_error *err)
{
    const pq_page *p = &c->page;
    bool by_dictionary = p->encoding == PQ_PLAIN_DICTIONARY || p->encoding == PQ_RLE_DICTIONARY;

    if (c->entries >= 0 && p->n_values > c->chunk->n_values - c->entries)
        return hr_error_set(err, HR_BAD_DATA, "%lld values after %lld, the column chunk has %lld",
                            (long long)p->n_values, (long long)c->entries, (long long)c->chunk->n_values);
    if (c->leaf->max_rep == 0)
        HR_TRY(check_place(c, p->n_values, err));
    if (by_dictionary && !c->dict) {
        pq_page page = c->page;

        HR_TRY(find_dictionary(c, err));
        c->page = page;
    }
    HR_TRY(p->type == PQ_PAGE_DATA ? open_v1(c, err) : open_v2(c, err));
    c->levels.left = p->n_values;
    c->levels.at = c->levels.n = 0;
    c->levels.taken = c->levels.rows = c->levels.n_values = 0;
    c->entries += c->entries >= 0 ? p->n_values : 0;
    return p->n_values == 0 ? pq__cursor_page_end(c, err) : HR_OK;
}

hr_status pq__cursor_page_end(const pq_cursor *c, hr_error *err)
{
    const pq_levels *lv = &c->levels;
    const pq_page *p = &c->page;
    int64_t rows = c->leaf->max_rep ? lv->rows : lv->taken;

    HR_TRY(pq__levels_end(lv, c->file->meta->padding, err));
    HR_TRY(pq__values_end(&c->values, lv->n_values, c->file->meta->padding, err));
    if (c->leaf->max_rep)
        HR_TRY(check_place(c, rows, err));
    if (p->n_rows >= 0 && p->n_rows != rows && p->n_rows != lv->taken) /* some count values as rows */
        return hr_error_set(err, HR_BAD_DATA, "%lld rows, the page's header says %lld", (long long)rows,
                            (long long)p->n_rows);
    if (p->n_nulls > 0 && p->n_nulls != lv->taken - lv->n_values) /* some always say none */
        return hr_error_set(err, HR_BAD_DATA, "%lld nulls, the page's header says %lld",
                            (long long)(lv->taken - lv->n_values), (long long)p->n_nulls);
    return HR_OK;
}

static void note_page(const pq_cursor *c);

hr_status pq__cursor_next(pq_cursor *c, bool *more, hr_error *err)
{
    hr_status st = next_header(c, c->window_bytes, true, more, err);

    if (!st && *more) {
        note_page(c);
        st = open_page(c, err);
    }
    return st ? pq__cursor_error(c, st, err) : HR_OK;
}

hr_status pq__first_page_bytes(pq_file *f, int group, int leaf, int64_t *out, hr_error *err)
{
    pq_cursor *c = hr__alloc(f->base.account, sizeof *c);
    hr_status st = HR_OK;
    bool more = false;

    *out = 0;
    if (!c)
        return hr__error_memory(err, f->base.name, sizeof *c);
    HR_GO(pq__cursor_init(c, f, group, leaf, f->base.account, err));
    HR_GO(next_header(c, PEEK_BYTES, false, &more, err));
    *out = more ? c->page.memory_bytes : 0;
done:
    pq__cursor_clear(c);
    hr__free(c);
    return st;
}

/* In repeated columns only pages of version 2 have their number of rows. A row may begin in one page and continue in
 * the next, so this function never skips pages of repeated columns. */
hr_status pq__cursor_pass(pq_cursor *c, int64_t *rows, hr_error *err)
{
    hr_status st = HR_OK;
    bool more = true;

    if (c->leaf->max_rep > 0 || c->levels.left > 0)
        return HR_OK;
    while (*rows > 0 && more) {
        int64_t begin = c->at, entries = c->entries;
        int ordinal = c->ordinal;

        st = next_header(c, PEEK_BYTES, true, &more, err);
        if (st)
            return pq__cursor_error(c, st, err);
        if (!more || c->page.n_values > *rows || c->page.n_values == 0 ||
            (entries >= 0 && c->page.n_values > c->chunk->n_values - entries)) {
            c->at = more ? c->header_at : begin; /* next_header has read a dictionary before it */
            c->entries = entries;
            c->ordinal = ordinal;
            return HR_OK;
        }
        c->at += c->page.stored_bytes;
        c->entries += c->entries >= 0 ? c->page.n_values : 0;
        *rows -= c->page.n_values;
        if (c->file->filter)
            PQ_SKIPPED(c->file, pages, 1);
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ directories */

static void directory_free(pq_directory *d)
{
    if (!d)
        return;
    hr__mutex_clear(&d->lock);
    hr__free(d->places);
    hr__free(d);
}

void pq__directories_free(pq_file *f)
{
    for (int g = 0; f->directories && g < f->meta->n_groups; g++) {
        for (int i = 0; f->directories[g] && i < f->schema->n_leaves; i++)
            directory_free(f->directories[g][i]);
        hr__free(f->directories[g]);
    }
    hr__free(f->directories);
}

static pq_directory **directory_slot(const pq_cursor *c)
{
    pq_file *f = c->file;

    if (!f->directories)
        f->directories = hr__zalloc(f->base.account, (size_t)f->meta->n_groups * sizeof *f->directories);
    if (f->directories && !f->directories[c->group])
        f->directories[c->group] = hr__zalloc(f->base.account, (size_t)f->schema->n_leaves * sizeof **f->directories);
    return f->directories && f->directories[c->group] ? &f->directories[c->group][c->leaf_number] : NULL;
}

static hr_status get_directory(const pq_cursor *c, pq_directory **out, hr_error *err)
{
    pq_directory *d = hr__zalloc(c->file->base.account, sizeof *d), **slot;

    if (!d)
        return hr__error_memory(err, "page directory", sizeof *d);
    hr__mutex_init(&d->lock);
    d->next = c->chunk->begin;
    atomic_init(&d->last_at, -1);
    hr__lock(&c->file->lock);
    slot = directory_slot(c);
    if (slot && !*slot) {
        *slot = d;
        d = NULL; /* moved into the file */
    }
    *out = slot ? *slot : NULL;
    hr__unlock(&c->file->lock);
    directory_free(d);
    return *out ? HR_OK : hr__error_memory(err, "page directory", sizeof *d);
}

/* Loads the places from the offset index. An index that is missing, damaged or contradicts the chunk is not used. */
static hr_status load_index(pq_cursor *c, pq_directory *d, hr_error *err)
{
    const pq_chunk *chunk = c->chunk;
    hr_error ignored = HR_ERROR_INIT;
    hr_buffer *bytes = NULL;
    pq_place *places = NULL;
    hr_status st = HR_OK;
    int64_t n;

    if (!chunk->index_at)
        return HR_OK;
    HR_GO(hr__buffer_new(&c->mem, chunk->index_bytes, &bytes, err));
    HR_GO(hr__source_read(c->file->source, bytes->data, chunk->index_at, chunk->index_bytes, err));
    st = pq__index_parse((hr_view){ bytes->data, bytes->n_bytes }, c->file->base.account, &places, &n, &ignored);
    if (st == HR_NO_MEMORY) {
        hr__error_move(err, &ignored);
        goto done;
    }
    if (!st && n > 0 && places[0].offset >= chunk->begin && places[n - 1].offset < c->end &&
        places[n - 1].row <= c->file->meta->groups[c->group].n_rows) {
        d->places = places;
        d->n = d->cap = n;
        d->entries = -1;
        d->complete = true;
        places = NULL; /* moved into the directory */
    }
    st = HR_OK;
done:
    hr_error_clear(&ignored);
    hr__free(places);
    hr__buffer_unref(bytes);
    return st;
}

/* Rows that begin in the current page of a repeated column, version 1: counts them by its repetition levels, which come
 * first. */
static hr_status count_rows(pq_cursor *c, int64_t *rows, hr_error *err)
{
    pq_page *p = &c->page;
    const uint8_t *data;
    hr_view body;
    int64_t n = HR_MIN(p->memory_bytes, 64 << 10);

    if (c->codec && c->codec->prefix && p->rep_encoding == PQ_RLE) {
        HR_TRY(view(c, c->at, p->stored_bytes, p->stored_bytes, &data, err));
        HR_TRY(check_size(c, p->stored_bytes, p->memory_bytes, err));
        for (;;) {
            int64_t made = 0, wanted;

            HR_TRY(ensure(&c->mem, &c->plain, n, err));
            HR_TRY(c->codec->prefix((hr_view){ data, p->stored_bytes }, c->plain->data, n, &made, err));
            wanted = made >= 4 ? 4 + (int64_t)hr__load_le32(c->plain->data) : INT64_MAX;
            body = (hr_view){ c->plain->data, made };
            if (wanted <= made || made < n || n == p->memory_bytes)
                break;
            n = HR_MIN(wanted, p->memory_bytes);
        }
        HR_TRY(levels_v1(c, &c->levels.rep, c->leaf->max_rep, PQ_RLE, &body, &c->spelled[0], err));
    } else {
        int64_t at = c->at;
        hr_view head;

        HR_TRY(read_body(c, 0, true, &head, &body, err));
        c->at = at;
        HR_TRY(levels_v1(c, &c->levels.rep, c->leaf->max_rep, p->rep_encoding, &body, &c->spelled[0], err));
    }
    return pq__count_rows(&c->levels.rep, p->n_values, rows, err);
}

/* Adds the page at c->header_at, whose header was read and no more of it. */
static hr_status add_place(const pq_cursor *c, pq_directory *d, int64_t rows, hr_error *err)
{
    if (!hr__grow(c->file->base.account, (void **)&d->places, &d->cap, d->n + 1, sizeof *d->places))
        return hr__error_memory(err, "page directory", (d->n + 1) * (int64_t)sizeof *d->places);
    d->places[d->n] =
        (pq_place){ .offset = c->header_at, .row = d->rows, .entries = d->entries, .ordinal = (int32_t)d->n };
    atomic_store(&d->last_row, d->rows);
    d->n++;
    d->next = c->at + c->page.stored_bytes;
    d->rows += rows;
    d->entries += c->page.n_values;
    atomic_store(&d->next_row, d->rows);
    atomic_store(&d->next_at, d->next);
    atomic_store(&d->last_at, c->header_at);
    return HR_OK;
}

/* Adds the next page to the directory; *more false: there is none. Only the directory uses the cursor `scan`. */
static hr_status add_page(pq_cursor *scan, pq_directory *d, bool *more, hr_error *err)
{
    const pq_page *p = &scan->page;
    int64_t rows;

    scan->at = d->next;
    scan->entries = d->entries;
    scan->ordinal = (int)d->n - 1;
    HR_TRY(next_header(scan, PEEK_BYTES, false, more, err));
    if (!*more)
        return HR_OK;
    rows = scan->leaf->max_rep == 0 ? p->n_values : p->n_rows;
    if (rows < 0)
        HR_TRY(count_rows(scan, &rows, err));
    return add_place(scan, d, rows, err);
}

static hr_status extend(pq_cursor *c, pq_directory *d, int64_t row, hr_error *err)
{
    hr_status st = HR_OK;
    pq_cursor *scan = hr__alloc(c->mem.account, sizeof *scan);
    bool more = true;

    if (!scan)
        return hr__error_memory(err, "page directory", sizeof *scan);
    atomic_store(&d->searching, true);
    HR_GO(pq__cursor_init(scan, c->file, c->group, c->leaf_number, c->mem.account, err));
    while (more && d->rows <= row) {
        st = add_page(scan, d, &more, err);
        if (st) {
            pq__cursor_error(scan, st, err);
            goto done;
        }
    }
    d->complete = !more;
done:
    atomic_store(&d->searching, false);
    pq__cursor_clear(scan);
    hr__free(scan);
    return st;
}

/* The last page that begins with row `row` or before, and in which a row begins. */
static const pq_place *find_place(const pq_directory *d, int64_t row)
{
    int64_t low = 0, high = d->n;

    while (high - low > 1) {
        int64_t mid = low + (high - low) / 2;

        if (d->places[mid].row <= row)
            low = mid;
        else
            high = mid;
    }
    return d->n ? &d->places[low] : NULL;
}

/* Over a network, the pages that a cursor has read are known to those that begin after it, which do not fetch them
 * again. */
static void note_page(const pq_cursor *c)
{
    pq_directory *d;

    if (!c->file->base.is_remote || c->leaf->max_rep > 0 || c->entries < 0 || c->chunk->index_at)
        return;
    if (get_directory(c, &d, NULL) || d->complete || atomic_load(&d->searching))
        return;
    hr__lock(&d->lock);
    if (!d->complete && d->entries == c->entries && d->n == c->ordinal && add_place(c, d, c->page.n_values, NULL))
        atomic_store(&d->last_at, -1); /* without memory the page is looked for later */
    hr__unlock(&d->lock);
}

int64_t pq__known_begin(pq_file *f, int group, int leaf, int64_t row, int64_t slack, bool *has_dict)
{
    const pq_chunk *chunk = &f->meta->groups[group].chunks[f->schema->leaves[leaf].column];
    double row_bytes = (double)chunk->n_bytes / (double)HR_MAX(f->meta->groups[group].n_rows, 1);
    int64_t last_at, guess = chunk->begin + (int64_t)(row_bytes * (double)row) - slack;
    pq_directory *d;

    hr__lock(&f->lock);
    d = f->directories && f->directories[group] ? f->directories[group][leaf] : NULL;
    *has_dict = f->shared[leaf].dict && f->shared[leaf].dict_group == group;
    hr__unlock(&f->lock);
    if (!d || (last_at = atomic_load(&d->last_at)) < 0)
        return -1;
    if (row < atomic_load(&d->last_row))
        return HR_MAX(chunk->begin, HR_MIN(guess, last_at));
    return row < atomic_load(&d->next_row) ? last_at : atomic_load(&d->next_at);
}

int pq__known_ranges(pq_file *f, int group, int leaf, int64_t row, int64_t row_end, hr_file_range out[2])
{
    const pq_chunk *chunk = &f->meta->groups[group].chunks[f->schema->leaves[leaf].column];
    const pq_place *first, *last;
    pq_directory *d;
    int n = 0;

    hr__lock(&f->lock);
    d = f->directories && f->directories[group] ? f->directories[group][leaf] : NULL;
    hr__unlock(&f->lock);
    if (!d || !d->complete || !d->n)
        return 0;
    first = find_place(d, row);
    last = find_place(d, HR_MAX(row, row_end - 1));
    if (d->places[0].offset > chunk->begin)
        out[n++] = (hr_file_range){ chunk->begin, d->places[0].offset - chunk->begin };
    out[n] = (hr_file_range){ first->offset, chunk->begin + chunk->n_bytes - first->offset };
    if (last + 1 < d->places + d->n)
        out[n].n = last[1].offset - first->offset;
    return n + 1;
}

/* Moves to a later page. from: the row at which the cursor is, to count the skipped rows. */
static void move_to(pq_cursor *c, const pq_directory *d, const pq_place *place, int64_t from)
{
    const pq_place *begin = find_place(d, from);
    int64_t passed = place->ordinal - (c->ordinal >= 0 ? c->ordinal + 1 : begin->ordinal + (begin->row < from));

    if (c->file->filter && passed > 0)
        PQ_SKIPPED(c->file, pages, passed);
    c->at = place->offset;
    c->entries = place->entries;
    c->ordinal = place->ordinal - 1;
    c->levels.left = 0;
    c->levels.last_def = 255;
}

hr_status pq__cursor_seek(pq_cursor *c, int64_t from, int64_t row, int64_t row_end, int64_t *first, hr_error *err)
{
    const pq_place *place;
    pq_directory *d;
    hr_status st = HR_OK;

    *first = c->ordinal >= 0 ? -1 : 0;
    c->enough = c->end;
    if (row == 0 && !(c->file->filter && c->chunk->index_at))
        return HR_OK;
    HR_TRY(get_directory(c, &d, err));
    hr__lock(&d->lock);
    if (!d->n && !d->complete)
        HR_GO(load_index(c, d, err));
    if (row > 0 && !d->complete && d->rows <= row)
        HR_GO(extend(c, d, row, err));
    if (d->complete && d->entries < 0)
        c->index = d;
    place = find_place(d, row);
    if (!place)
        goto done;
    if (row > 0 && place->ordinal > c->ordinal) {
        move_to(c, d, place, from);
        *first = place->row;
    }
    place = find_place(d, row_end - 1);
    if (place + 1 < d->places + d->n)
        c->enough = place[1].offset;
done:
    hr__unlock(&d->lock);
    return st;
}
