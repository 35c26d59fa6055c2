/* sorter_merge.c - merges runs of an external sort while reading them (see sorter_parts.h).
 *
 * Each run shows some rows: a run on disk one page, a run in memory one window. A shown row is *sure* if it comes
 * before all rows that no run shows yet. Each step sorts the sure rows together and emits them; a run with no shown
 * rows left loads more.
 *
 * Tests: test_sorter.c, test_ordering.c. */
#include "op/order/sorter_parts.h"

/* The loaded rows of one run's share: rows [at, end) of the table. */
typedef struct cursor {
    hr_sort_run *run;
    hr_table *table;
    int64_t place;           /* place in the run of the table's row 0 */
    int64_t at, end;         /* rows that may be emitted */
    int64_t limit;           /* end of the share within the table; `end` may be less */
    int64_t page, last_page; /* disk: the next page to load, the last page of the share */
    int64_t taken;           /* rows of the last table that was emitted */
    bool whole_page;         /* no other share reads the loaded page */
} cursor;

typedef struct merge {
    hr_reader base;
    hr_sorter *sorter;
    hr_sort_run **runs;
    int64_t n_runs;
    const hr_cut *lower, *upper; /* NULL: none */
    hr_schema *schema;           /* borrowed */
    hr_mem mem;
    hr_sort_space *space, own_space;
    cursor *cursors;
    hr_sort_range *ranges;
    int64_t window; /* rows that a run in memory shows at once; 0: all */
    int64_t most;   /* rows that a step should emit */
    int64_t ordinal;
    int64_t chunk; /* see merge_chunk */
    bool opened;
} merge;

/* Pages of a run on disk that the share touches: [*first, *last]. */
static void share_of(const merge *m, int64_t run_number, int64_t *first, int64_t *last)
{
    const hr_sort_run *r = m->runs[run_number];

    *first = 0;
    *last = r->n_pages - 1;
    for (int64_t lo = 0, hi = r->n_pages; m->lower && lo < hi;) { /* the last page that begins before the cut */
        int64_t middle = lo + (hi - lo) / 2;
        hr_cut c = r->pages[middle].first;

        c.run = run_number;
        c.row = r->pages[middle].first_row;
        if (hr__compare_cuts(m->sorter, &c, m->lower) < 0) {
            *first = middle;
            lo = middle + 1;
        } else
            hi = middle;
    }
    for (int64_t lo = 0, hi = r->n_pages; m->upper && lo < hi;) {
        int64_t middle = lo + (hi - lo) / 2;
        hr_cut c = r->pages[middle].first;

        c.run = run_number;
        c.row = r->pages[middle].first_row;
        if (hr__compare_cuts(m->sorter, &c, m->upper) < 0)
            lo = middle + 1;
        else
            hi = middle;
        *last = lo - 1;
    }
}

static hr_status load_page(merge *m, int64_t i, hr_error *err)
{
    cursor *c = &m->cursors[i];
    hr_sort_page *p = &c->run->pages[c->page];
    bool is_last = c->page == c->last_page;

    HR_TRY(hr__spill_file_read(m->sorter->spill, &p->place, &m->mem, m->sorter->schema, &c->table, err));
    c->place = p->first_row;
    c->at = 0;
    c->limit = c->table->n_rows;
    if (m->lower && !m->opened)
        HR_TRY(hr__cut_find(m->sorter, c->table, 0, c->limit, i, c->place, m->lower, &c->at, err));
    if (m->upper && is_last)
        HR_TRY(hr__cut_find(m->sorter, c->table, c->at, c->limit, i, c->place, m->upper, &c->limit, err));
    c->whole_page = c->at == 0 && !(m->upper && is_last); /* the next share begins in our last page */
    c->end = c->limit;
    c->page++;
    return HR_OK;
}

static hr_status open_cursor(merge *m, int64_t i, hr_error *err)
{
    cursor *c = &m->cursors[i];

    c->run = m->runs[i];
    if (c->run->table) {
        c->table = hr_table_ref(c->run->table);
        c->limit = c->table->n_rows;
        if (m->lower)
            HR_TRY(hr__cut_find(m->sorter, c->table, 0, c->limit, i, 0, m->lower, &c->at, err));
        if (m->upper)
            HR_TRY(hr__cut_find(m->sorter, c->table, c->at, c->limit, i, 0, m->upper, &c->limit, err));
        c->end = m->window ? HR_MIN(c->limit, c->at + m->window) : c->limit;
        m->ordinal += c->at;
        return HR_OK;
    }
    share_of(m, i, &c->page, &c->last_page);
    if (c->page > c->last_page) {
        m->ordinal += c->run->n_pages && c->last_page >= 0 ? c->run->n_rows : 0;
        return HR_OK;
    }
    HR_TRY(load_page(m, i, err));
    m->ordinal += c->place + c->at;
    return HR_OK;
}

static bool has_more(const cursor *c) { return c->run->table ? c->end < c->limit : c->page <= c->last_page; }

static void drop_page(merge *m, cursor *c)
{
    if (!c->run->table && c->table && c->whole_page) {
        hr_sort_page *p = &c->run->pages[c->page - 1];

        hr__spill_file_forget(m->sorter->spill, &p->place);
        p->place.n_bytes = 0; /* no other share reads this page */
    }
    hr_table_unref(c->table);
    c->table = NULL;
}

/* Loads rows until every run shows some or has ended. */
static hr_status refill(merge *m, hr_error *err)
{
    for (int64_t i = 0; i < m->n_runs; i++) {
        cursor *c = &m->cursors[i];

        while (c->at >= c->end && has_more(c)) {
            if (c->run->table) {
                c->end = HR_MIN(c->limit, c->at + m->window);
                break;
            }
            drop_page(m, c);
            HR_TRY(load_page(m, i, err));
        }
        if (c->at >= c->end && c->table)
            drop_page(m, c);
    }
    return HR_OK;
}

static int compare_rows(const merge *m, int64_t i, int64_t row_i, int64_t k, int64_t row_k)
{
    const cursor *a = &m->cursors[i], *b = &m->cursors[k];
    int c = hr__order_compare(m->sorter->order, a->table, row_i, b->table, row_k);

    return c ? c : hr__compare_places(i, a->place + row_i, k, b->place + row_k);
}

/* A shown row: it and all rows before it are sure. */
typedef struct bound {
    int64_t run, row; /* run < 0: all shown rows are sure */
} bound;

/* The least of the last shown rows of all runs that have more rows to load. */
static bound find_bound(const merge *m)
{
    bound b = { .run = -1 };

    for (int64_t i = 0; i < m->n_runs; i++) {
        const cursor *c = &m->cursors[i];

        if (c->at >= c->end || !has_more(c))
            continue;
        if (b.run < 0 || compare_rows(m, i, c->end - 1, b.run, b.row) < 0)
            b = (bound){ i, c->end - 1 };
    }
    return b;
}

/* The number of sure rows of run i. */
static int64_t count_sure(const merge *m, int64_t i, bound b)
{
    const cursor *c = &m->cursors[i];
    int64_t begin = c->at, end = c->end;

    if (b.run < 0)
        return end - begin;
    if (i == b.run)
        return b.row + 1 - begin;
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;

        if (compare_rows(m, i, middle, b.run, b.row) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin - c->at;
}

/* Counts the sure rows of all runs; *most: the run with most of them. */
static int64_t take_sure(merge *m, bound b, int64_t *most)
{
    int64_t n = 0;

    *most = 0;
    for (int64_t i = 0; i < m->n_runs; i++) {
        cursor *c = &m->cursors[i];

        c->taken = c->at < c->end ? count_sure(m, i, b) : 0;
        if (c->taken > m->cursors[*most].taken)
            *most = i;
        n += c->taken;
    }
    return n;
}

/* Chooses the rows of this step. If the pages of all runs end at about the same key, all shown rows are sure at once;
 * then the bound moves down within the run that has most. */
static void choose_step(merge *m)
{
    int64_t i, n = take_sure(m, find_bound(m), &i), before = INT64_MAX;

    while (n > m->most && n < before) {
        const cursor *c = &m->cursors[i];
        int64_t share = (int64_t)((double)c->taken * (double)m->most / (double)n);

        before = n;
        n = take_sure(m, (bound){ i, c->at + HR_MAX(1, share) - 1 }, &i);
    }
}

static hr_status pick_sorted(merge *m, int n_ranges, hr_table **out, hr_error *err)
{
    hr_run_coords at = { .first = { .row = m->ordinal } };
    hr_origin *origin = NULL;
    hr_status st = HR_OK;
    bool in_order;

    HR_GO(hr__sort_rows(m->space, m->sorter->order, m->ranges, n_ranges, &at.n, &in_order, err));
    HR_GO(hr__origin_new(&at, 1, &origin, err));
    HR_GO(hr__sort_pick(m->space, &m->mem, m->schema, m->ranges, n_ranges, at.n, origin, out, err));
    m->ordinal += at.n;
done:
    hr__origin_unref(origin);
    return st;
}

static hr_status merge_next(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    merge *m = (merge *)r;
    int n = 0;

    (void)max_bytes; /* block parts and pages are small enough */
    *out = NULL;
    if (!m->opened) {
        for (int64_t i = 0; i < m->n_runs; i++)
            HR_TRY(open_cursor(m, i, err));
        m->opened = true;
    }
    HR_TRY(refill(m, err));
    choose_step(m);
    for (int64_t i = 0; i < m->n_runs; i++)
        if (m->cursors[i].taken)
            hr__sort_add_range(m->ranges, &n, m->cursors[i].table, m->cursors[i].at, m->cursors[i].taken);
    if (!n)
        return HR_OK;
    HR_TRY(pick_sorted(m, n, out, err));
    for (int64_t i = 0; i < m->n_runs; i++)
        m->cursors[i].at += m->cursors[i].taken;
    return HR_OK;
}

/* The next rows of the share, as one table of about m->chunk bytes: the reader works few tables ahead. */
static hr_status merge_chunk(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    merge *m = (merge *)r;
    hr_table **tables = NULL, *t = NULL;
    int64_t n = 0, cap = 0, n_bytes = 0;
    hr_status st = HR_OK;

    *out = NULL;
    while (n_bytes < HR_MAX(m->chunk, max_bytes)) {
        void *grown = tables;

        HR_GO(merge_next(r, max_bytes, &t, err));
        if (!t)
            break;
        if (!hr__grow(m->mem.account, &grown, &cap, n + 1, sizeof(hr_table *)))
            HR_GO(hr__error_memory(err, m->sorter->name, (n + 1) * (int64_t)sizeof(hr_table *)));
        tables = grown;
        n_bytes += hr__table_bytes_used(t);
        tables[n++] = t;
        t = NULL;
    }
    if (n == 1)
        *out = hr_table_ref(tables[0]);
    else if (n)
        HR_GO(hr__table_concat(&m->mem, m->schema, tables, (int)n, out, err));
done:
    hr_table_unref(t);
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    return st;
}

static void merge_close(hr_reader *r)
{
    merge *m = (merge *)r;

    for (int64_t i = 0; m->cursors && i < m->n_runs; i++)
        hr_table_unref(m->cursors[i].table);
    hr__sort_space_clear(&m->own_space);
    hr__free(m->cursors);
    hr__free(m->ranges);
    hr__free(m);
}

static const hr_reader_class merge_class = { .next = merge_next, .close = merge_close };
static const hr_reader_class chunk_class = { .next = merge_chunk, .close = merge_close };

hr_status hr__merge_open(hr_sorter *s, hr_sort_run **runs, int64_t n_runs, const hr_cut *lower, const hr_cut *upper,
                         hr_schema *schema, const hr_mem *mem, hr_sort_space *space, int64_t chunk, hr_reader **out,
                         hr_error *err)
{
    merge *m = hr__zalloc(mem->account, sizeof *m);
    bool disk = false;
    int64_t n_ranges = 0;

    *out = NULL;
    if (!m)
        return hr__error_memory(err, s->name, sizeof *m);
    m->base.cls = chunk ? &chunk_class : &merge_class;
    m->chunk = chunk;
    m->sorter = s;
    m->runs = runs;
    m->n_runs = n_runs;
    m->lower = lower;
    m->upper = upper;
    m->schema = schema;
    m->mem = *mem;
    m->own_space.account = mem->account;
    m->space = space ? space : &m->own_space;
    m->cursors = hr__zalloc(mem->account, (size_t)(n_runs + 1) * sizeof *m->cursors);
    for (int64_t i = 0; i < n_runs; i++) {
        disk = disk || !runs[i]->table;
        n_ranges += hr__sort_parts(runs[i]->n_rows);
    }
    m->ranges = hr__zalloc(mem->account, (size_t)(n_ranges + 1) * sizeof *m->ranges);
    m->most = INT64_MAX;
    if (disk) {
        int64_t row_bytes = HR_MAX(1, s->n_bytes / HR_MAX(1, s->n_rows));

        m->window = HR_MAX(1, s->page_bytes / row_bytes);
        m->most = HR_MAX(1, (chunk ? chunk : s->allowance / 16) / row_bytes);
    }
    if (m->cursors && m->ranges) {
        *out = &m->base;
        return HR_OK;
    }
    merge_close(&m->base);
    return hr__error_memory(err, s->name, n_runs * (int64_t)sizeof *m->cursors);
}
