/* parquet_read.c - the Parquet format: files, row groups as fragments, readers.
 *
 * A fragment is a row group. A reader of rows [begin, begin + n) opens each projected column at `begin`
 * (parquet_pages.c finds the page) and returns tables of as many rows as fit in max_bytes by an estimate that each
 * table corrects. A column may return fewer rows than requested (parquet_column.c says when). Then the table ends
 * there, and the reader keeps the further rows of the other columns for the next table: an array is cheap to cut.
 *
 * With a filter a reader knows which ranges of rows may pass (parquet_prune.c). Tables end where a range ends; then
 * all columns move to the next range and skip pages where they can. Within a range a second reader, the scout, reads
 * ahead with the filter's columns alone, and the other columns decode only rows for which the filter is true, and
 * gaps of a few rows between them: the filter operator drops these. If most rows pass, the reader gives the scout
 * up. A scout of one dictionary-encoded text column evaluates the filter once for each value of the dictionary, and
 * decodes no text. */
#include "format/parquet/parquet_read.h"
#include "format/parquet/parquet_write.h"

#define SPLIT_BYTES (4 << 20) /* smaller row groups are not split, */
#define LARGE_PAGE (16 << 20) /* nor are row groups with pages of this size */

typedef struct parquet_options {
    bool verify_checksums, verify;
} parquet_options;

static const hr_option parquet_option_table[] = {
    { .name = "verify_checksums",
      .kind = HR_OPT_BOOL,
      .at = offsetof(parquet_options, verify_checksums),
      .value = 1,
      .doc = "check the checksums of pages, if the file has them" },
    { .name = "verify",
      .kind = HR_OPT_BOOL,
      .at = offsetof(parquet_options, verify),
      .doc = "check the values against the statistics of the file (least and greatest value, number of nulls), and "
             "zstd pages without a checksum bit by bit" },
    { 0 },
};

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status file_new(hr_source *source, pq_meta *meta, const hr_open *how, hr_scan_file **out, hr_error *err);

/* Whether readers that begin in the middle of a row group would read the same large page again and again: some writers
 * put all rows into one page. A page that cannot be read is an error later, when a reader reads it. */
static bool has_large_pages(pq_file *f, int fragment)
{
    for (int i = 0; i < f->schema->n_leaves; i++) {
        const pq_chunk *c = &f->meta->groups[fragment].chunks[f->schema->leaves[i].column];
        int64_t bytes;

        if (c->memory_bytes > LARGE_PAGE && !pq__first_page_bytes(f, fragment, i, &bytes, NULL) && bytes > LARGE_PAGE)
            return true;
    }
    return false;
}

static hr_status parquet_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    pq_file *f = (pq_file *)base;
    const pq_group *g = &f->meta->groups[fragment];
    double row_bytes = 0;

    (void)err;
    *out = (hr_fragment){ .n_rows = g->n_rows };
    for (int i = 0; i < f->schema->n_leaves; i++)
        out->stored_bytes += g->chunks[f->schema->leaves[i].column].n_bytes;
    for (int i = 0; i < f->schema->n_nodes; i++)
        row_bytes += pq__column_row_bytes(f, fragment, i);
    out->memory_bytes = (int64_t)HR_MIN(row_bytes * (double)g->n_rows, 9e18);
    /* With verify, one thread reads a row group, so that it sees all nulls. */
    out->splittable = !f->verify && out->memory_bytes >= SPLIT_BYTES && g->n_rows > 1 && !has_large_pages(f, fragment);
    return HR_OK;
}

#define AHEAD_SLACK (128 << 10) /* a dictionary and the rest of a page, which are in no proportion to the rows */
#define PAGE_SLACK (1280 << 10) /* likewise, of files without an index of pages: their writers make pages of 1 MiB */
#define ALL_SLACK (32 << 20)    /* of all columns together */

/* A read for the rest of a page costs a way over the network, for each column: more bytes at once are cheaper. */
static int64_t slack_of(const pq_file *f, const pq_chunk *c)
{
    return c->index_at ? AHEAD_SLACK : HR_MAX(AHEAD_SLACK, HR_MIN(PAGE_SLACK, ALL_SLACK / f->schema->n_leaves));
}

/* The bytes of a chunk that rows [begin, end) of n probably need. Without an index of pages, those before them, too. */
static hr_file_range bytes_of_rows(const pq_chunk *c, int64_t slack, int64_t begin, int64_t end, int64_t n)
{
    double row_bytes = (double)c->n_bytes / (double)HR_MAX(n, 1);
    int64_t from = c->index_at && begin > 0 ? (int64_t)((double)begin * row_bytes) - slack : 0;
    int64_t to = end >= n ? c->n_bytes : (int64_t)((double)end * row_bytes) + slack;

    from = HR_MAX(0, from);
    return (hr_file_range){ c->begin + from, HR_MIN(to, c->n_bytes) - from };
}

/* The ranges of rows [begin, end) of a chunk without an index of pages. -> how many. */
static int ranges_without_index(pq_file *f, int group, int leaf, int64_t begin, int64_t end, hr_file_range out[2])
{
    const pq_chunk *c = &f->meta->groups[group].chunks[f->schema->leaves[leaf].column];
    int64_t slack = slack_of(f, c), from = -1;
    hr_file_range all = bytes_of_rows(c, slack, begin, end, f->meta->groups[group].n_rows);
    bool has_dict = true;
    int n = 0;

    if (begin > 0)
        from = pq__known_begin(f, group, leaf, begin, slack, &has_dict);
    if (from > all.offset) { /* not again what other readers have read */
        if (!has_dict)
            out[n++] = (hr_file_range){ c->begin, HR_MIN(AHEAD_SLACK, from - c->begin) };
        all.n = HR_MIN(HR_MAX(all.n - (from - all.offset), slack), c->begin + c->n_bytes - from);
        all.offset = from;
    }
    out[n] = all;
    return n + 1;
}

static void parquet_ahead_rows(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows)
{
    pq_file *f = (pq_file *)base;
    const pq_group *g = &f->meta->groups[fragment];
    hr_file_range some[64];
    int n = 0, m;

    if (pq__ruled_out(f, fragment))
        return;
    for (int i = 0; i < f->schema->n_leaves; i++) {
        const pq_chunk *c = &g->chunks[f->schema->leaves[i].column];

        if (c->elsewhere || c->encrypted)
            continue;
        m = row_begin > 0 ? pq__known_ranges(f, fragment, i, row_begin, row_begin + n_rows, &some[n]) : 0;
        if (!m && !c->index_at)
            m = ranges_without_index(f, fragment, i, row_begin, row_begin + n_rows, &some[n]);
        else if (!m)
            some[n] = bytes_of_rows(c, slack_of(f, c), row_begin, row_begin + n_rows, g->n_rows);
        n += HR_MAX(m, 1);
        if (!m && c->index_at && n_rows < g->n_rows)
            some[n++] = (hr_file_range){ c->index_at, c->index_bytes };
        if (n + 2 > HR_LEN(some)) {
            hr__source_ahead_ranges(f->source, some, n);
            n = 0;
        }
    }
    if (n)
        hr__source_ahead_ranges(f->source, some, n);
}

static void parquet_ahead(hr_scan_file *base, int fragment)
{
    pq_file *f = (pq_file *)base;

    parquet_ahead_rows(base, fragment, 0, f->meta->groups[fragment].n_rows);
}

static hr_status parquet_project(hr_scan_file *base, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    pq_file *f = (pq_file *)base;

    return file_new(f->source, f->meta, how, out, err);
}

static void parquet_close(hr_scan_file *base)
{
    pq_file *f = (pq_file *)base;

    pq__directories_free(f);
    pq__filter_free(f);
    for (int i = 0; f->shared && i < f->schema->n_leaves; i++)
        pq__dict_unref(f->shared[i].dict);
    hr__free(f->shared);
    pq__schema_free(f->schema);
    pq__meta_unref(f->meta);
    hr__source_unref(f->source);
    hr__mutex_clear(&f->lock);
}

static hr_status parquet_reader(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                                hr_reader **out, hr_error *err);

static const hr_scan_file_class parquet_file_class = {
    .fragment = parquet_fragment,
    .read = parquet_reader,
    .ahead = parquet_ahead,
    .ahead_rows = parquet_ahead_rows,
    .project = parquet_project,
    .describe = pq__describe,
    .close = parquet_close,
};

/* Shares source and meta. */
static hr_status file_new(hr_source *source, pq_meta *meta, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    pq_file *f;

    *out = NULL;
    HR_TRY(hr__scan_file_new(&parquet_file_class, sizeof *f, source->name, how->account, out, err));
    f = (pq_file *)*out;
    hr__mutex_init(&f->lock);
    f->source = hr__source_ref(source);
    f->meta = pq__meta_ref(meta);
    f->check_crc = !how->options || ((const parquet_options *)how->options)->verify_checksums;
    f->verify = how->options && ((const parquet_options *)how->options)->verify;
    f->skipped = how->skipped;
    HR_GO(pq__schema_new(meta, how->projection, source->name, how->account, &f->schema, err));
    f->shared = hr__zalloc(how->account, (size_t)f->schema->n_leaves * sizeof *f->shared);
    if (!f->shared)
        HR_GO(hr__error_memory(err, source->name, f->schema->n_leaves * (int64_t)sizeof *f->shared));
    if (how->filter && !f->verify) /* untrusted statistics must not skip rows */
        HR_GO(pq__filter_set(f, how, err));
    f->base.schema = hr__schema_ref(f->schema->arrow);
    f->base.n_columns = meta->elements[0].n_children;
    f->base.n_fragments = meta->n_groups;
    for (int i = 0; i < meta->n_groups; i++) {
        if (__builtin_add_overflow(f->base.n_rows, meta->groups[i].n_rows, &f->base.n_rows))
            HR_FAIL(HR_BAD_DATA, "%s: more than 2^63 rows", source->name);
    }
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static hr_status parquet_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    pq_meta *meta = NULL;

    *out = NULL;
    HR_GO(pq__meta_read(source, how->account, &meta, err));
    HR_GO(file_new(source, meta, how, out, err));
done:
    pq__meta_unref(meta);
    return st;
}

static int parquet_bid(hr_view head) { return hr__view_starts(head, "PAR1") || hr__view_starts(head, "PARE") ? 32 : 0; }

const hr_format hr__format_parquet = {
    .name = "parquet",
    .suffixes = "parquet pq parq",
    .doc = "columnar files with row groups",
    .opens = HR_OPENS_TAIL,
    .options = parquet_option_table,
    .options_bytes = sizeof(parquet_options),
    .bid = parquet_bid,
    .open = parquet_open,
    .write_options = pw__options,
    .write_options_bytes = sizeof(pw_options),
    .create = pw__create,
};

/* ---------------------------------------------------------------------------------------------------------- readers */

#define SCOUT_BYTES (256 << 10) /* of the filter's columns that the scout reads at once */
#define LEAST_GAP 24            /* a shorter gap between two wanted rows is read, not skipped */
#define SCOUT_AT_LEAST 65536    /* rows of a file before the reader may give up the scout */
#define CODES 8192              /* rows that the scout tests at once by their codes */

typedef struct pq_reader {
    hr_reader base;
    pq_file *file;
    int fragment;
    int64_t row, end;              /* rows [row, end) are not yet tested */
    const pq_selection *selection; /* NULL: all rows */
    int64_t range;                 /* of it: the next one, or the one that `row` is in */
    int64_t range_end;             /* rows [row, range_end) may pass; row == range_end: find the next range */
    struct pq_reader *scout;       /* NULL: all rows of a range may pass */
    pq_range *wanted;              /* tested, not yet returned: [first, n_wanted) */
    int64_t first, n_wanted, cap_wanted;
    int64_t wanted_rows; /* in these */
    bool no_codes;       /* the scout's column is not dictionary-encoded */
    uint32_t *codes;     /* CODES; NULL: not needed so far */
    uint8_t *
        verdicts; /* the filter's value for each value of the scout's dictionary, and for a null; NULL: not evaluated */
    hr_mem mem;
    double row_bytes;
    int n_columns;
    struct {
        pq_column *column;
        hr_array *kept; /* read, not yet returned; NULL: none */
        int64_t at;     /* ... from here */
    } columns[];
} pq_reader;

static void reader_close(hr_reader *base)
{
    pq_reader *r = (pq_reader *)base;

    for (int i = 0; i < r->n_columns; i++) {
        pq__column_free(r->columns[i].column);
        hr__array_unref(r->columns[i].kept);
    }
    if (r->scout)
        reader_close(&r->scout->base);
    hr__free(r->wanted);
    hr__free(r->codes);
    hr__free(r->verdicts);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* How many rows fit in a table. */
static int64_t rows_that_fit(const pq_reader *r, int64_t max_bytes)
{
    double fit = r->row_bytes > 0 ? (double)max_bytes / r->row_bytes : (double)INT64_MAX / 2;

    return fit < 1 ? 1 : fit > 1e15 ? (int64_t)1e15 : (int64_t)fit;
}

/* The number of rows to read for the next table. */
static int64_t rows_of_table(const pq_reader *r, int64_t max_bytes)
{
    int64_t n = HR_MIN(r->wanted_rows, rows_that_fit(r, max_bytes));

    for (int i = 0; i < r->n_columns; i++) {
        if (r->columns[i].kept)
            n = HR_MIN(n, r->columns[i].kept->length - r->columns[i].at);
    }
    return n;
}

/* Reads the first *n wanted rows of column i, or fewer: then lowers *n. The column may keep more than *n rows. */
static hr_status read_column(pq_reader *r, int i, int64_t max_bytes, int64_t *n, hr_error *err)
{
    if (r->columns[i].kept)
        return HR_OK;
    HR_TRY(pq__column_read(r->columns[i].column, r->wanted + r->first, *n, max_bytes, &r->columns[i].kept, err));
    r->columns[i].at = 0;
    *n = HR_MIN(*n, r->columns[i].kept->length);
    return HR_OK;
}

/* The first n of the rows that column i keeps. *out is new. */
static hr_status give(pq_reader *r, int i, int64_t n, hr_array **out, hr_error *err)
{
    hr_array *a = r->columns[i].kept;

    if (r->columns[i].at == 0 && a->length == n) {
        *out = a;
        r->columns[i].kept = NULL; /* moved to the caller */
        return HR_OK;
    }
    HR_TRY(hr__array_slice(a, r->columns[i].at, n, out, err));
    r->columns[i].at += n;
    if (r->columns[i].at == a->length) {
        hr__array_unref(a);
        r->columns[i].kept = NULL;
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ wanted rows */

static hr_status add_wanted(pq_reader *r, int64_t begin, int64_t end, hr_error *err)
{
    pq_range *last = r->n_wanted > r->first ? &r->wanted[r->n_wanted - 1] : NULL;

    if (last && begin - last->end < LEAST_GAP) {
        r->wanted_rows += end - last->end;
        last->end = end;
        return HR_OK;
    }
    if (r->first == r->n_wanted)
        r->first = r->n_wanted = 0;
    if (!hr__grow(r->mem.account, (void **)&r->wanted, &r->cap_wanted, r->n_wanted + 1, sizeof *r->wanted))
        return hr__error_memory(err, r->file->base.name, (r->n_wanted + 1) * (int64_t)sizeof *r->wanted);
    r->wanted[r->n_wanted++] = (pq_range){ begin, end };
    r->wanted_rows += end - begin;
    return HR_OK;
}

/* Removes the first n wanted rows, which the reader returns; *out: their coordinates. */
static hr_status take_wanted(pq_reader *r, int64_t n, hr_origin **out, hr_error *err)
{
    hr_coord first = { .file = r->file->base.file, .fragment = r->fragment };
    hr_run_coords *runs = NULL;
    int64_t n_runs = 0, cap = 0, left = n;
    hr_status st = HR_OK;

    *out = NULL;
    for (int64_t i = r->first; left > 0; i++) {
        int64_t some = HR_MIN(left, r->wanted[i].end - r->wanted[i].begin);

        if (!hr__grow(r->mem.account, (void **)&runs, &cap, n_runs + 1, sizeof *runs))
            HR_GO(hr__error_memory(err, r->file->base.name, n_runs * (int64_t)sizeof *runs));
        first.row = r->wanted[i].begin;
        runs[n_runs++] = (hr_run_coords){ .first = first, .n = some };
        left -= some;
    }
    HR_GO(hr__origin_new(runs, n_runs, out, err));
    r->wanted_rows -= n;
    for (; n > 0 && n >= r->wanted[r->first].end - r->wanted[r->first].begin; r->first++)
        n -= r->wanted[r->first].end - r->wanted[r->first].begin;
    if (n > 0)
        r->wanted[r->first].begin += n;
done:
    hr__free(runs);
    return st;
}

/* The next wanted row at or after `row`, and the end of its range; both are r->end if there is none. */
static int64_t next_range(pq_reader *r, int64_t row)
{
    const pq_selection *s = r->selection;

    if (!s) {
        r->range_end = r->end;
        return row;
    }
    while (r->range < s->n && s->ranges[r->range].end <= row)
        r->range++;
    if (r->range == s->n || s->ranges[r->range].begin >= r->end) {
        r->range_end = r->end;
        return r->end;
    }
    r->range_end = HR_MIN(s->ranges[r->range].end, r->end);
    return HR_MAX(s->ranges[r->range].begin, row);
}

/* Moves all columns to row `row`; frees the rows that they have read beyond the range. */
static hr_status go_to(pq_reader *r, int64_t row, hr_error *err)
{
    for (int i = 0; i < r->n_columns; i++) {
        hr__array_unref(r->columns[i].kept);
        r->columns[i].kept = NULL;
        HR_TRY(pq__column_seek(r->columns[i].column, row, r->range_end, err));
    }
    r->row = row;
    return HR_OK;
}

static void dismiss_scout(pq_reader *r)
{
    reader_close(&r->scout->base);
    r->scout = NULL;
}

static hr_status reader_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err);

/* Adds those of the next n rows for which the filter is true. */
static hr_status add_kept(pq_reader *r, const uint8_t *keep, int64_t n, hr_error *err)
{
    int64_t row = r->row, before = r->wanted_rows;

    r->row += n;
    for (int64_t i = 0; i < n;) {
        const uint8_t *one = memchr(keep + i, 1, (size_t)(n - i)), *zero;
        int64_t begin, end;

        if (!one)
            break;
        begin = one - keep;
        zero = memchr(one, 0, (size_t)(n - begin));
        end = zero ? zero - keep : n;
        HR_TRY(add_wanted(r, row + begin, row + end, err));
        i = end;
    }
    atomic_fetch_add_explicit(&r->file->filter->looked_at, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&r->file->filter->kept, r->wanted_rows - before, memory_order_relaxed);
    return HR_OK;
}

/* The values of a dictionary as a column of this type, and a null after them. *out NULL: they have too many bytes for
 * the type. */
static hr_status dictionary_column(const pq_dict *d, hr_type *type, const hr_mem *mem, hr_array **out, hr_error *err)
{
    const uint32_t *ends = (const uint32_t *)(const void *)d->values->data;
    int64_t n = d->n + 1, width = hr__type_offset_bytes(type);
    hr_buffer *buffers[3] = { NULL };
    hr_status st = HR_OK;

    *out = NULL;
    if (width == 4 && ends[d->n] > INT32_MAX)
        return HR_OK;
    HR_GO(hr__buffer_new(mem, hr__bits_bytes(n), &buffers[0], err));
    HR_GO(hr__buffer_new(mem, (n + 1) * width, &buffers[1], err));
    memset(buffers[0]->data, 0xff, (size_t)hr__bits_bytes(n));
    hr__bit_clear(buffers[0]->data, d->n);
    for (int64_t i = 0; i <= n; i++) {
        uint32_t end = ends[HR_MIN(i, d->n)];

        if (width == 4)
            ((int32_t *)(void *)buffers[1]->data)[i] = (int32_t)end;
        else
            ((int64_t *)(void *)buffers[1]->data)[i] = end;
    }
    buffers[2] = hr__buffer_ref(d->bytes);
    st = hr__array_new(type, n, 1, buffers, NULL, 0, out, err);
    memset(buffers, 0, sizeof buffers); /* taken */
done:
    for (int i = 0; i < HR_LEN(buffers); i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

/* Evaluates the filter for each value of the dictionary. Sets no_codes if the dictionary has too many values, or the
 * evaluation fails. */
static hr_status ask_dictionary(pq_reader *r, const pq_dict *d, hr_error *err)
{
    hr_schema *schema = r->scout->file->base.schema;
    hr_eval how = { .mem = &r->mem };
    hr_array *column = NULL;
    hr_table *t = NULL;
    int64_t n_kept = 0;
    hr_status st = HR_OK;

    r->no_codes = true;
    if (d->n >= r->end - r->row)
        return HR_OK;
    HR_GO(dictionary_column(d, schema->fields[0].type, &r->mem, &column, err));
    if (!column)
        goto done;
    st = hr__table_new(schema, &column, d->n + 1, NULL, &t, err);
    column = NULL; /* taken */
    HR_GO(st);
    if (!(r->verdicts = hr__zalloc(r->mem.account, (size_t)d->n + 1)))
        HR_GO(hr__error_memory(err, r->file->base.name, d->n + 1));
    r->no_codes = hr__bound_keep(r->file->filter->bound, &how, t, r->verdicts, &n_kept, NULL) != HR_OK;
done:
    hr_table_unref(t);
    return st;
}

/* Tests the next rows, of which the scout reads only the codes. Sets no_codes where codes end; the scout is then at
 * r->row. */
static hr_status scout_codes(pq_reader *r, hr_error *err)
{
    pq_reader *s = r->scout;
    pq_column *column = s->columns[0].column;
    uint8_t keep[CODES];
    const pq_dict *dict = NULL;
    int64_t n = HR_MIN(CODES, r->range_end - r->row);

    if (!r->codes && !(r->codes = hr__alloc(r->mem.account, CODES * sizeof *r->codes)))
        return hr__error_memory(err, r->file->base.name, CODES * (int64_t)sizeof *r->codes);
    if (s->row != r->row)
        HR_TRY(pq__column_seek(column, r->row, r->range_end, err));
    s->row = r->row;
    s->range = r->range;
    s->range_end = r->range_end;
    HR_TRY(pq__column_dict(column, &dict, err));
    if (dict && !r->verdicts)
        HR_TRY(ask_dictionary(r, dict, err));
    r->no_codes |= !dict;
    if (r->no_codes)
        return HR_OK;
    HR_TRY(pq__column_codes(column, r->codes, &n, err));
    for (int64_t i = 0; i < n; i++)
        keep[i] = r->verdicts[r->codes[i]];
    if ((s->row += n) == s->end)
        HR_TRY(pq__column_end(column, err));
    return add_kept(r, keep, n, err);
}

/* Tests the scout's next rows. If the evaluation of the filter fails, all rows of the range pass, and the filter
 * operator reports the error. */
static hr_status scout_rows(pq_reader *r, hr_error *err)
{
    pq_filter *filter = r->file->filter;
    hr_eval how = { .mem = &r->mem };
    int64_t n_kept = 0;
    uint8_t *keep = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    if (!r->no_codes) {
        HR_GO(scout_codes(r, err));
        if (!r->no_codes)
            goto done;
    }
    HR_GO(reader_next(&r->scout->base, SCOUT_BYTES, &t, err));
    if (!t)
        HR_FAIL(HR_BUG, "%s: the columns of a filter end early", r->file->base.name);
    if (!(keep = hr__zalloc(r->mem.account, (size_t)t->n_rows)))
        HR_GO(hr__error_memory(err, r->file->base.name, t->n_rows));
    if (hr__bound_keep(filter->bound, &how, t, keep, &n_kept, NULL)) {
        HR_GO(add_wanted(r, r->row, r->range_end, err));
        r->row = r->range_end;
        dismiss_scout(r);
        goto done;
    }
    HR_GO(add_kept(r, keep, t->n_rows, err));
done:
    hr__free(keep);
    hr_table_unref(t);
    return st;
}

/* Whether a scout is worth its cost. */
static bool scout_pays(const pq_filter *f)
{
    int64_t looked_at = atomic_load_explicit(&f->looked_at, memory_order_relaxed);

    return f->by_row &&
           (looked_at < SCOUT_AT_LEAST || atomic_load_explicit(&f->kept, memory_order_relaxed) < looked_at / 2);
}

/* Finds wanted rows, for about one table if there is a scout; none: the end. */
static hr_status look_further(pq_reader *r, int64_t max_bytes, hr_error *err)
{
    int64_t enough = rows_that_fit(r, max_bytes);

    while (r->wanted_rows < enough && r->row < r->end) {
        if (r->row == r->range_end) {
            int64_t row;

            if (r->wanted_rows > 0)
                return HR_OK; /* returns these rows first: the columns are about to move */
            row = next_range(r, r->row);
            if (row == r->end) {
                r->row = r->end;
                break;
            }
            HR_TRY(go_to(r, row, err));
        }
        if (r->scout && !scout_pays(r->file->filter))
            dismiss_scout(r);
        if (r->scout) {
            HR_TRY(scout_rows(r, err));
        } else {
            HR_TRY(add_wanted(r, r->row, r->range_end, err));
            r->row = r->range_end;
        }
    }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- tables */

/* Checks that the chunks end where the row group ends. */
static hr_status check_end(pq_reader *r, hr_error *err)
{
    if (r->wanted_rows > 0)
        return HR_OK;
    for (int i = 0; i < r->n_columns; i++)
        HR_TRY(pq__column_end(r->columns[i].column, err));
    return HR_OK;
}

static hr_status reader_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    pq_reader *r = (pq_reader *)base;
    hr_array **arrays = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;
    int64_t n;

    if (r->wanted_rows == 0)
        HR_TRY(look_further(r, max_bytes, err));
    if (r->wanted_rows == 0)
        return HR_OK;
    arrays = hr__zalloc(r->mem.account, (size_t)r->n_columns * sizeof *arrays);
    if (!arrays)
        return hr__error_memory(err, r->file->base.name, r->n_columns * (int64_t)sizeof *arrays);
    n = rows_of_table(r, max_bytes);
    for (int i = 0; i < r->n_columns; i++)
        HR_GO(read_column(r, i, max_bytes, &n, err));
    HR_GO(take_wanted(r, n, &origin, err));
    for (int i = 0; i < r->n_columns; i++)
        HR_GO(give(r, i, n, &arrays[i], err));
    st = hr__table_new(r->file->base.schema, arrays, n, origin, out, err);
    memset(arrays, 0, (size_t)r->n_columns * sizeof *arrays); /* taken */
    if (st)
        goto done;
    if (r->n_columns > 0)
        r->row_bytes = HR_MAX((double)hr__table_bytes_used(*out) / (double)n, 1.0 / 8);
    st = check_end(r, err);
    if (st) {
        hr_table_unref(*out);
        *out = NULL;
    }
done:
    for (int i = 0; i < r->n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    hr__origin_unref(origin);
    return st;
}

static const hr_reader_class parquet_reader_class = { reader_next, reader_close };

static hr_status reader_new(pq_file *f, int fragment, pq_range rows, const pq_selection *selection, const hr_mem *mem,
                            pq_reader **out, hr_error *err)
{
    size_t bytes = sizeof(pq_reader) + (size_t)f->schema->n_nodes * sizeof((pq_reader *)0)->columns[0];
    pq_reader *r = hr__zalloc(mem->account, bytes);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, f->base.name, (int64_t)bytes);
    r->base.cls = &parquet_reader_class;
    r->file = f;
    hr__scan_file_ref(&f->base);
    r->fragment = fragment;
    r->end = rows.end;
    r->mem = *mem;
    r->selection = selection;
    r->row = next_range(r, rows.begin);
    for (; r->n_columns < f->schema->n_nodes && r->row < r->end; r->n_columns++) {
        r->row_bytes += pq__column_row_bytes(f, fragment, r->n_columns);
        HR_GO(pq__column_new(f, fragment, r->n_columns, rows.begin, (pq_range){ r->row, r->range_end }, mem,
                             &r->columns[r->n_columns].column, err));
    }
    if (r->n_columns > 0) /* a null takes a bit at least: wrong metadata cannot make tables of unlimited size */
        r->row_bytes = HR_MAX(r->row_bytes, 1.0 / 8);
    *out = r;
    r = NULL; /* moved to the caller */
done:
    if (r)
        reader_close(&r->base);
    return st;
}

static hr_status parquet_reader(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                                hr_reader **out, hr_error *err)
{
    pq_file *f = (pq_file *)base;
    int64_t n = f->meta->groups[fragment].n_rows, row = HR_MIN(HR_MAX(row_begin, 0), n);
    pq_range rows = { row, n_rows < 0 ? n : row + HR_MIN(n_rows, n - row) };
    const pq_selection *selection;
    pq_reader *r = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(pq__select(f, fragment, &selection, err));
    HR_GO(reader_new(f, fragment, rows, selection, mem, &r, err));
    if (f->filter && !selection->always && scout_pays(f->filter) && r->row < r->end)
        HR_GO(reader_new(f->filter->columns, fragment, rows, selection, mem, &r->scout, err));
    r->no_codes = !r->scout || r->scout->n_columns != 1 || !pq__column_has_codes(r->scout->columns[0].column);
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        reader_close(&r->base);
    return st;
}
