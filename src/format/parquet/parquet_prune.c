/* parquet_prune.c - which rows of a row group a filter may keep, by statistics, bloom filters and page indexes.
 *
 * First the row group as a whole: statistics, then bloom filters. If that does not decide and the columns have page
 * indexes, the same test runs for each range of rows that lies within one page of every column of the filter. The
 * result is a selection: ranges of rows, in order. The first reader of a row group computes the selection, and the open
 * file keeps it.
 *
 * Only top-level columns other than lists, structs and maps take part. */
#include "format/parquet/parquet_read.h"

typedef struct known {
    const pq_leaf *leaf; /* NULL: nothing is known about this column */
    hr_type *type;       /* borrowed */
    const pq_chunk *chunk;
    pq_detail detail;
    pq_page_stats pages; /* n 0: no page index */
    pq_place *places;
    int64_t page; /* the page that holds the current range; -1: the whole row group */
    bool decoded; /* the two below are decoded for `page` */
    hr_array *least, *most;
} known;

typedef struct look {
    pq_file *file;
    int group;
    int64_t n_rows; /* of the row group */
    int n;
    known *columns;
} look;

/* -------------------------------------------------------------------------------------------------------- questions */

static bool is_float(const hr_type *t)
{
    return t->id == HR_T_FLOAT16 || t->id == HR_T_FLOAT32 || t->id == HR_T_FLOAT64;
}

static known *find(look *lk, const char *column)
{
    int i = hr__schema_find(lk->file->filter->columns->schema->arrow, column);

    return i >= 0 && lk->columns[i].leaf ? &lk->columns[i] : NULL;
}

static void forget(known *k)
{
    hr__array_unref(k->least);
    hr__array_unref(k->most);
    k->least = k->most = NULL;
    k->decoded = false;
}

/* Both bounds or none: if one of them is not usable, the other is not trusted. Without memory there is no bound. */
static void decode_both(const look *lk, known *k, const pq_stats *s)
{
    hr_account *account = lk->file->base.account;

    k->decoded = true;
    if (!s->least.data || !s->most.data || !pq__has_order(lk->file->meta, k->leaf, k->type, s->deprecated))
        return;
    if (pq__bound_decode(k->leaf, k->type, s->least, false, account, &k->least, NULL) ||
        pq__bound_decode(k->leaf, k->type, s->most, true, account, &k->most, NULL) || !k->least || !k->most) {
        forget(k);
        k->decoded = true;
    }
}

static bool look_bounds(void *context, const char *column, hr_bounds *out)
{
    look *lk = context;
    known *k = find(lk, column);
    const pq_stats *s;

    if (!k)
        return false;
    s = k->page >= 0 ? &k->pages.pages[k->page] : &k->detail.stats;
    if (!k->decoded)
        decode_both(lk, k, s);
    *out = (hr_bounds){ .least = k->least,
                        .most = k->most,
                        .null_count = s->null_count,
                        .n_rows = lk->n_rows,
                        .may_have_nan = is_float(k->type) };
    if (k->page >= 0) {
        int64_t next = k->page + 1 < k->pages.n ? k->places[k->page + 1].row : lk->n_rows;

        out->n_rows = next - k->places[k->page].row;
        if (k->pages.all_null[k->page])
            out->null_count = out->n_rows;
    }
    if (out->null_count > out->n_rows || out->null_count < 0)
        out->null_count = -1;
    return true;
}

/* The bytes that the writer of a bloom filter hashed for a value. False: unknown. */
static bool stored_form(const known *k, const hr_array *value, uint8_t fixed[64], hr_view *out)
{
    const pq_leaf *l = k->leaf;
    const uint8_t *p;
    int32_t i;

    if (!hr__type_equal(value->type, k->type) || hr__array_is_null(value, 0))
        return false;
    if (l->kind == PQ_K_BYTES || k->type->id == HR_T_FIXED_BINARY) {
        out->data = hr__array_bytes(value, 0, &out->n);
        return true;
    }
    p = l->kind == PQ_K_COPY || l->kind == PQ_K_NARROW ? hr__array_values(value) : NULL;
    if (!p || l->width > 64 || (is_float(k->type) && pq__is_float_special(k->type, p)))
        return false;
    memcpy(fixed, p, (size_t)l->width);
    *out = (hr_view){ fixed, l->width };
    if (l->kind == PQ_K_NARROW) {
        switch (k->type->id) {
        case HR_T_INT8: i = (int8_t)p[0]; break;
        case HR_T_UINT8: i = p[0]; break;
        case HR_T_INT16: i = (int16_t)(p[0] | p[1] << 8); break;
        default: i = p[0] | p[1] << 8;
        }
        memcpy(fixed, &i, 4);
        out->n = 4;
    }
    return true;
}

static bool look_contains(void *context, const char *column, const hr_array *value)
{
    look *lk = context;
    known *k = find(lk, column);
    uint8_t fixed[64];
    hr_view bytes;

    if (!k || k->detail.bloom_at <= 0 || !stored_form(k, value, fixed, &bytes))
        return true;
    if (pq__bloom_may_have(lk->file->source, k->detail.bloom_at, pq__xxh64(bytes.data, bytes.n)))
        return true;
    PQ_SKIPPED(lk->file, blooms, 1);
    return false;
}

/* ---------------------------------------------------------------------------------------------------------- looking */

static void look_clear(look *lk)
{
    for (int i = 0; i < lk->n && lk->columns; i++) {
        forget(&lk->columns[i]);
        pq__page_stats_clear(&lk->columns[i].pages);
        hr__free(lk->columns[i].places);
    }
    hr__free(lk->columns);
}

static hr_status look_init(look *lk, pq_file *f, int group, hr_error *err)
{
    const pq_schema *s = f->filter->columns->schema;

    *lk = (look){ .file = f, .group = group, .n_rows = f->meta->groups[group].n_rows, .n = s->n_nodes };
    lk->columns = hr__zalloc(f->base.account, (size_t)lk->n * sizeof *lk->columns);
    if (!lk->columns)
        return hr__error_memory(err, f->base.name, lk->n * (int64_t)sizeof *lk->columns);
    for (int i = 0; i < lk->n; i++) {
        const pq_node *node = &s->nodes[i];
        const pq_leaf *l = node->leaf >= 0 ? &s->leaves[node->leaf] : NULL;
        known *k = &lk->columns[i];

        k->page = -1;
        if (!l || l->max_rep > 0)
            continue;
        k->chunk = &f->meta->groups[group].chunks[l->column];
        if (k->chunk->encrypted || k->chunk->elsewhere || k->chunk->physical != (int)l->physical)
            continue;
        k->leaf = l;
        k->type = node->field.type;
        pq__detail_read(f->meta, k->chunk, &k->detail);
    }
    return HR_OK;
}

static hr_status read_index(pq_file *f, int64_t at, int64_t n, hr_buffer **out, hr_error *err)
{
    hr_mem mem = { f->base.account, NULL };
    hr_status st;

    *out = NULL;
    if (at > f->source->n_bytes - n)
        return hr_error_set(err, HR_BAD_DATA, "an index ends after the end of the file");
    HR_TRY(hr__buffer_new(&mem, n, out, err));
    st = hr__source_read(f->source, (*out)->data, at, n, err);
    if (st) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
    return st;
}

/* Loads both indexes of a column, if they exist and fit each other. An error counts as no index. */
static void load_pages(look *lk, known *k)
{
    hr_account *account = lk->file->base.account;
    hr_buffer *bytes = NULL;
    int64_t n = 0;

    if (!k->leaf || !k->chunk->index_at || !k->detail.column_index_bytes)
        return;
    if (read_index(lk->file, k->chunk->index_at, k->chunk->index_bytes, &bytes, NULL))
        return;
    if (!pq__index_parse((hr_view){ bytes->data, bytes->n_bytes }, account, &k->places, &n, NULL) && n > 0 &&
        k->places[n - 1].row <= lk->n_rows) {
        hr_buffer *stats = NULL;

        if (!read_index(lk->file, k->detail.column_index_at, k->detail.column_index_bytes, &stats, NULL) &&
            pq__page_stats_parse(stats, n, account, &k->pages, NULL))
            k->pages.n = 0;
    }
    if (k->pages.n == 0) {
        hr__free(k->places);
        k->places = NULL;
    }
    hr__buffer_unref(bytes);
}

/* ------------------------------------------------------------------------------------------------------- selections */

static hr_status add_range(pq_selection *s, hr_account *account, int64_t begin, int64_t end, hr_error *err)
{
    if (begin >= end)
        return HR_OK;
    s->n_rows += end - begin;
    if (s->n > 0 && s->ranges[s->n - 1].end == begin) {
        s->ranges[s->n - 1].end = end;
        return HR_OK;
    }
    if (!hr__grow(account, (void **)&s->ranges, &s->cap, s->n + 1, sizeof *s->ranges))
        return hr__error_memory(err, "selection", (s->n + 1) * (int64_t)sizeof *s->ranges);
    s->ranges[s->n++] = (pq_range){ begin, end };
    return HR_OK;
}

/* Moves each column to the page that holds row `row`. -> the end of the page that ends first. */
static int64_t move_to(look *lk, int64_t row)
{
    int64_t end = lk->n_rows;

    for (int i = 0; i < lk->n; i++) {
        known *k = &lk->columns[i];
        int64_t page = HR_MAX(k->page, 0);

        if (k->pages.n == 0)
            continue;
        while (page + 1 < k->pages.n && k->places[page + 1].row <= row)
            page++;
        if (page != k->page) {
            forget(k);
            k->page = page;
        }
        if (page + 1 < k->pages.n)
            end = HR_MIN(end, k->places[page + 1].row);
    }
    return end;
}

static hr_status select_pages(look *lk, pq_selection *s, hr_error *err)
{
    const hr_pruner pruner = { .context = lk, .bounds = look_bounds };
    const pq_filter *filter = lk->file->filter;

    for (int64_t row = 0, end; row < lk->n_rows; row = end) {
        end = move_to(lk, row);
        if (hr__bound_prune(filter->bound, &pruner) != HR_TRUTH_NEVER)
            HR_TRY(add_range(s, lk->file->base.account, row, end, err));
    }
    return HR_OK;
}

static hr_status select_rows(pq_file *f, int group, pq_selection *s, hr_error *err)
{
    const hr_pruner pruner = { .bounds = look_bounds, .may_contain = look_contains };
    hr_pruner whole = pruner;
    hr_status st = HR_OK;
    hr_truth truth;
    bool has_pages = false;
    look lk;

    HR_GO(look_init(&lk, f, group, err));
    whole.context = &lk;
    truth = hr__bound_prune(f->filter->bound, &whole);
    if (truth == HR_TRUTH_NEVER) {
        PQ_SKIPPED(f, fragments, 1);
        PQ_SKIPPED(f, rows, lk.n_rows);
        goto done;
    }
    s->always = truth == HR_TRUTH_ALWAYS;
    for (int i = 0; i < lk.n && truth == HR_TRUTH_MAYBE; i++) {
        load_pages(&lk, &lk.columns[i]);
        has_pages = has_pages || lk.columns[i].pages.n > 1;
        forget(&lk.columns[i]);
    }
    if (!has_pages) {
        HR_GO(add_range(s, f->base.account, 0, lk.n_rows, err));
        goto done;
    }
    HR_GO(select_pages(&lk, s, err));
    PQ_SKIPPED(f, rows, lk.n_rows - s->n_rows);
    PQ_SKIPPED(f, fragments, s->n == 0);
done:
    look_clear(&lk);
    return st;
}

static void selection_free(pq_selection *s)
{
    if (s)
        hr__free(s->ranges);
    hr__free(s);
}

hr_status pq__select(pq_file *f, int group, const pq_selection **out, hr_error *err)
{
    pq_selection *s;
    hr_status st = HR_OK;

    *out = NULL;
    if (!f->filter)
        return HR_OK;
    hr__lock(&f->lock);
    *out = f->selections[group];
    hr__unlock(&f->lock);
    if (*out)
        return HR_OK;
    s = hr__zalloc(f->base.account, sizeof *s);
    if (!s)
        return hr__error_memory(err, f->base.name, sizeof *s);
    HR_GO(select_rows(f, group, s, err));
    hr__lock(&f->lock);
    if (!f->selections[group]) {
        f->selections[group] = s;
        s = NULL; /* moved into the file */
    }
    *out = f->selections[group];
    hr__unlock(&f->lock);
done:
    selection_free(s);
    return st;
}

bool pq__ruled_out(pq_file *f, int group)
{
    hr_pruner pruner = { .bounds = look_bounds };
    unsigned char known;
    look lk;

    if (!f->filter)
        return false;
    known = atomic_load_explicit(&f->filter->truths[group], memory_order_relaxed);
    if (!known && !look_init(&lk, f, group, NULL)) {
        pruner.context = &lk;
        known = (unsigned char)(1 + hr__bound_prune(f->filter->bound, &pruner));
        look_clear(&lk);
        atomic_store_explicit(&f->filter->truths[group], known, memory_order_relaxed);
    }
    return known == 1 + HR_TRUTH_NEVER;
}

/* ---------------------------------------------------------------------------------------------------------- filters */

void pq__filter_free(pq_file *f)
{
    for (int i = 0; f->selections && i < f->meta->n_groups; i++)
        selection_free(f->selections[i]);
    hr__free(f->selections);
    if (f->filter) {
        hr__bound_free(f->filter->bound);
        if (f->filter->columns)
            hr__scan_file_unref(&f->filter->columns->base);
        hr__free((void *)f->filter->truths);
        hr__free(f->filter);
    }
}

/* Whether there is a top-level column of this name. pq__schema_new has checked the shape of the schema. */
static bool has_column(const pq_meta *m, const char *name)
{
    size_t n = strlen(name);
    int at = 1;

    for (int i = 0; i < m->elements[0].n_children; i++) {
        const pq_element *e = &m->elements[at];

        if (e->name.n == (int64_t)n && memcmp(e->name.data, name, n) == 0)
            return true;
        for (int64_t open = 1; open > 0; at++)
            open += m->elements[at].n_children - 1;
    }
    return false;
}

hr_status pq__filter_set(pq_file *f, const hr_open *how, hr_error *err)
{
    hr_projection columns = { 0 };
    hr_expr *e = how->filter;
    hr_open mine = *how;
    hr_scan_file *same = NULL;
    const char **names = NULL;
    hr_status st = HR_OK;
    int n = 0;

    HR_GO(hr__expr_columns(e, &names, &n, err));
    for (int i = 0; i < n; i++) {
        if (has_column(f->meta, names[i]))
            names[columns.n++] = names[i];
    }
    columns.names = names;
    if (columns.n == 0)
        goto done;
    f->filter = hr__zalloc(f->base.account, sizeof *f->filter);
    f->selections = hr__zalloc(f->base.account, (size_t)f->meta->n_groups * sizeof *f->selections);
    if (f->filter)
        f->filter->truths = hr__zalloc(f->base.account, (size_t)f->meta->n_groups * sizeof *f->filter->truths);
    if (!f->filter || !f->selections || !f->filter->truths)
        HR_GO(hr__error_memory(err, f->base.name, f->meta->n_groups * (int64_t)sizeof *f->selections));
    f->filter->by_row = !how->loose;
    mine.projection = &columns;
    mine.filter = NULL;
    mine.skipped = NULL;
    HR_GO(f->base.cls->project(&f->base, &mine, &same, err));
    f->filter->columns = (pq_file *)same;
    HR_GO(hr__expr_bind_filter(e, same->schema, &f->filter->bound, err));
    if (!f->filter->bound) { /* of no use here; the filter operator reports the error, if it matters */
        pq__filter_free(f);
        f->filter = NULL;
        f->selections = NULL;
    }
done:
    hr__free(names);
    return st;
}
