/* sorter.c - an external sort (see sorter.h).
 *
 * A *cut* is a place in the whole order: the prefix of a key, its first bytes if the prefix may not be all of it, and, where the whole
 * key is there, run and row to tell equal keys apart. So cuts divide rows evenly, however many have the same key.
 *
 * Locks: `lock` guards the list of jobs and what is counted in them. Nobody waits for a slice that another thread does: a job is
 * done when its last slice is, and until the end nobody needs to know. */
#include "op/sorter.h"

enum {
    KEY_BYTES = 256,         /* of a cut at most */
    SMALL_BYTES = 256 << 10, /* tables below this are joined before they become runs */
    POOL_BYTES = 1 << 20,    /* to so much */
    GOOD_PAGE = 32 << 10,
    MOST_PAGE = 512 << 10,
    PIECE_BYTES = 4 << 20, /* of rows in memory */
    LEAST_PIECE = 8 << 10,
    LEAST_ALLOWANCE = 64 << 10,
    SAMPLES = 16, /* for each cut */
    LEAST_FAN = 8,
    MOST_PIECES = 1 << 16
};

typedef struct cut {
    uint64_t words[HR_ORDER_WORDS];
    uint8_t *bytes; /* NULL: the words are all */
    int64_t n_bytes;
    bool whole; /* all of the key */
    int64_t run, row;
    int64_t weight; /* of a sample: rows that it stands for */
} cut;

typedef struct page {
    hr_spill_place place;
    int64_t first_row; /* in the run */
    cut first;
} page;

typedef struct run {
    hr_table *table; /* in memory, or */
    page *pages;
    int64_t n_pages, cap;
    int64_t n_rows, n_bytes; /* bytes: as in memory */
} run;

/* A run to be made of others. */
typedef struct job {
    struct job *next;
    run **inputs; /* they are the job's */
    int64_t n_inputs;
    run *target;
    cut *cuts; /* n_slices - 1 */
    int64_t n_slices, next_slice, n_done;
    run *slices; /* what came out, pages only */
    int64_t n_bytes;
} job;

struct hr_sorter {
    hr_account *account;
    const char *name;
    hr_schema *schema, *visible; /* of tables in, and out */
    hr_order *order;
    hr_spill *spill;
    int64_t allowance, page_bytes, fan;
    int64_t n_parts; /* 0: pieces are cut where they are about equal */
    run **runs;
    int64_t n_runs, cap_runs;
    int64_t held; /* bytes of runs in memory that are in no job */
    hr_table **pool;
    int64_t n_pool, cap_pool, pool_bytes;
    hr_sort_space space; /* of whoever adds */
    hr_mutex lock;
    job *jobs; /* not all of whose slices are done */
    int64_t n_rows, n_bytes, n_passes;
    cut *cuts; /* n_pieces - 1 */
    int64_t n_pieces;
};

/* ------------------------------------------------------------------------------------------------------------- cuts */

static void cut_clear(cut *c)
{
    hr__free(c->bytes);
    c->bytes = NULL;
}

static void cuts_free(cut *cuts, int64_t n)
{
    for (int64_t i = 0; cuts && i < n; i++)
        cut_clear(&cuts[i]);
    hr__free(cuts);
}

/* The place of a row of a table. */
static hr_status cut_at(const hr_sorter *s, const hr_table *t, int64_t row, cut *out, hr_error *err)
{
    hr_text bytes = { .account = s->account };

    *out = (cut){ .whole = true };
    hr__order_prefixes(s->order, t, row, 1, out->words);
    if (s->order->exact)
        return HR_OK;
    hr__order_bytes(s->order, t, row, &bytes);
    if (bytes.failed) {
        hr__text_clear(&bytes);
        return hr__error_memory(err, s->name, KEY_BYTES);
    }
    out->whole = bytes.n <= KEY_BYTES;
    out->n_bytes = HR_MIN(bytes.n, KEY_BYTES);
    if (!(out->bytes = hr__alloc(s->account, (size_t)out->n_bytes))) {
        hr__text_clear(&bytes);
        return hr__error_memory(err, s->name, out->n_bytes);
    }
    memcpy(out->bytes, bytes.data, (size_t)out->n_bytes);
    hr__text_clear(&bytes);
    return HR_OK;
}

static hr_status cut_copy(const hr_sorter *s, const cut *from, cut *to, hr_error *err)
{
    *to = *from;
    if (!from->bytes)
        return HR_OK;
    if (!(to->bytes = hr__alloc(s->account, (size_t)from->n_bytes)))
        return hr__error_memory(err, s->name, from->n_bytes);
    memcpy(to->bytes, from->bytes, (size_t)from->n_bytes);
    return HR_OK;
}

static int compare_words(const hr_order *o, const uint64_t *a, const uint64_t *b)
{
    for (int w = 0; w < o->words; w++)
        if (a[w] != b[w])
            return a[w] < b[w] ? -1 : 1;
    return 0;
}

static int compare_bytes(const uint8_t *a, int64_t n, const uint8_t *b, int64_t m)
{
    int64_t least = HR_MIN(n, m);

    return least ? memcmp(a, b, (size_t)least) : 0;
}

static int compare_places(int64_t run_a, int64_t row_a, int64_t run_b, int64_t row_b)
{
    if (run_a != run_b)
        return run_a < run_b ? -1 : 1;
    return (row_a > row_b) - (row_a < row_b);
}

/* Cuts of keys that are too long stand before all rows that begin so. */
static int compare_cuts(const hr_sorter *s, const cut *a, const cut *b)
{
    int c = compare_words(s->order, a->words, b->words);

    if (!c && a->bytes && b->bytes)
        c = compare_bytes(a->bytes, a->n_bytes, b->bytes, b->n_bytes);
    if (c || !a->whole || !b->whole)
        return c;
    return compare_places(a->run, a->row, b->run, b->row);
}

/* Row `row` of t, which is row `place` of run `run`, stands before the cut. */
static bool is_before(const hr_sorter *s, const hr_table *t, int64_t row, int64_t run, int64_t place, const cut *c,
                      hr_text *scratch)
{
    uint64_t words[HR_ORDER_WORDS];
    int d;

    hr__order_prefixes(s->order, t, row, 1, words);
    d = compare_words(s->order, words, c->words);
    if (!d && c->bytes) {
        scratch->n = 0;
        hr__order_bytes(s->order, t, row, scratch);
        d = compare_bytes((const uint8_t *)scratch->data, scratch->n, c->bytes, c->n_bytes);
    }
    if (d || !c->whole)
        return d < 0;
    return compare_places(run, place, c->run, c->row) < 0;
}

/* The first of rows [begin, end) of t that does not stand before the cut; NULL: begin. */
static hr_status lower_bound(const hr_sorter *s, const hr_table *t, int64_t begin, int64_t end, int64_t run,
                             int64_t first_place, const cut *c, int64_t *out, hr_error *err)
{
    hr_text scratch = { .account = s->account };

    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;

        if (is_before(s, t, middle, run, first_place + middle, c, &scratch))
            begin = middle + 1;
        else
            end = middle;
    }
    *out = begin;
    if (scratch.failed) {
        hr__text_clear(&scratch);
        return hr__error_memory(err, s->name, KEY_BYTES);
    }
    hr__text_clear(&scratch);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- runs */

static void run_free(hr_sorter *s, run *r)
{
    if (!r)
        return;
    hr_table_unref(r->table);
    for (int64_t i = 0; i < r->n_pages; i++) {
        hr__spill_forget(s->spill, &r->pages[i].place);
        cut_clear(&r->pages[i].first);
    }
    hr__free(r->pages);
    hr__free(r);
}

static void job_free(hr_sorter *s, job *j)
{
    for (int64_t i = 0; i < j->n_inputs; i++)
        run_free(s, j->inputs[i]);
    for (int64_t i = 0; j->slices && i < j->n_slices; i++) {
        for (int64_t p = 0; p < j->slices[i].n_pages; p++) {
            hr__spill_forget(s->spill, &j->slices[i].pages[p].place);
            cut_clear(&j->slices[i].pages[p].first);
        }
        hr__free(j->slices[i].pages);
    }
    cuts_free(j->cuts, j->n_slices - 1);
    hr__free(j->slices);
    hr__free(j->inputs);
    hr__free(j);
}

static hr_status visible_schema(hr_sorter *s, int n_hidden, hr_error *err)
{
    hr_schema *in = s->schema;

    if (!n_hidden) {
        s->visible = hr__schema_ref(in);
        return HR_OK;
    }
    HR_TRY(hr__schema_new(in->fields, in->n - n_hidden, &s->visible, err));
    if (in->metadata_bytes) {
        if (!(s->visible->metadata = hr__alloc(NULL, (size_t)in->metadata_bytes)))
            return hr__error_memory(err, s->name, in->metadata_bytes);
        memcpy(s->visible->metadata, in->metadata, (size_t)in->metadata_bytes);
        s->visible->metadata_bytes = in->metadata_bytes;
    }
    return HR_OK;
}

hr_status hr__sorter_new(hr_schema *schema, const hr_sorter_options *options, hr_sorter **out, hr_error *err)
{
    hr_sorter *s = hr__zalloc(options->account, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, options->name, sizeof *s);
    hr__mutex_init(&s->lock);
    s->account = hr__account_ref(options->account);
    s->space.account = s->account;
    s->name = options->name;
    s->n_parts = options->n_parts;
    s->allowance = HR_MAX(options->allowance, LEAST_ALLOWANCE);
    s->page_bytes = HR_MAX(HR_MIN(GOOD_PAGE, s->allowance / 64), HR_MIN(MOST_PAGE, s->allowance / 512));
    s->fan = HR_MAX(LEAST_FAN, s->allowance / 4 / s->page_bytes);
    s->schema = hr__schema_ref(schema);
    HR_GO(visible_schema(s, options->n_hidden, err));
    HR_GO(hr__order_new(schema, options->keys, options->n_keys, s->account, &s->order, err));
    HR_GO(hr__spill_new(NULL, s->name, s->account, &s->spill, err));
    *out = s;
    s = NULL;
done:
    hr__sorter_free(s);
    return st;
}

void hr__sorter_free(hr_sorter *s)
{
    hr_account *account;

    if (!s)
        return;
    for (int64_t i = 0; i < s->n_runs; i++)
        run_free(s, s->runs[i]);
    hr__free(s->runs);
    while (s->jobs) {
        job *next = s->jobs->next;

        job_free(s, s->jobs);
        s->jobs = next;
    }
    for (int64_t i = 0; i < s->n_pool; i++)
        hr_table_unref(s->pool[i]);
    hr__free(s->pool);
    cuts_free(s->cuts, s->n_pieces - 1);
    hr__sort_space_clear(&s->space);
    hr__order_free(s->order);
    hr__spill_unref(s->spill);
    hr__schema_unref(s->schema);
    hr__schema_unref(s->visible);
    hr__mutex_clear(&s->lock);
    account = s->account;
    hr__free(s);
    hr__account_unref(account);
}

/* -------------------------------------------------------------------------------------------------------- merging */

/* A share of one run, as far as it is loaded: rows [at, end) of the table. */
typedef struct cursor {
    run *run;
    hr_table *table;
    int64_t place;           /* in the run, of the table's row 0 */
    int64_t at, end;         /* what may be given */
    int64_t limit;           /* of the table's rows, those of the share; `end` may stop before */
    int64_t page, last_page; /* disk: the next to be loaded, the last of the share */
    int64_t taken;           /* rows of the last table that was given */
    bool whole_page;         /* nobody else reads the loaded page */
} cursor;

typedef struct merge {
    hr_reader base;
    hr_sorter *sorter;
    run **runs;
    int64_t n_runs;
    const cut *lower, *upper; /* NULL: none */
    hr_schema *schema;        /* borrowed */
    hr_mem mem;
    hr_sort_space *space, own_space;
    cursor *cursors;
    hr_sort_range *ranges;
    int64_t window; /* rows that a run in memory shows at once; 0: all */
    int64_t ordinal;
    int64_t chunk; /* see merge_chunk */
    bool opened;
} merge;

/* Pages of a run on disk that the share touches: [*first, *last]. */
static void share_of(const merge *m, int64_t run_number, int64_t *first, int64_t *last)
{
    const run *r = m->runs[run_number];

    *first = 0;
    *last = r->n_pages - 1;
    for (int64_t lo = 0, hi = r->n_pages; m->lower && lo < hi;) { /* the last page that begins before the cut */
        int64_t middle = lo + (hi - lo) / 2;
        cut c = r->pages[middle].first;

        c.run = run_number;
        c.row = r->pages[middle].first_row;
        if (compare_cuts(m->sorter, &c, m->lower) < 0) {
            *first = middle;
            lo = middle + 1;
        } else
            hi = middle;
    }
    for (int64_t lo = 0, hi = r->n_pages; m->upper && lo < hi;) {
        int64_t middle = lo + (hi - lo) / 2;
        cut c = r->pages[middle].first;

        c.run = run_number;
        c.row = r->pages[middle].first_row;
        if (compare_cuts(m->sorter, &c, m->upper) < 0)
            lo = middle + 1;
        else
            hi = middle;
        *last = lo - 1;
    }
}

static hr_status load_page(merge *m, int64_t i, hr_error *err)
{
    cursor *c = &m->cursors[i];
    page *p = &c->run->pages[c->page];
    bool is_last = c->page == c->last_page;

    HR_TRY(hr__spill_read(m->sorter->spill, &p->place, &m->mem, m->sorter->schema, &c->table, err));
    c->place = p->first_row;
    c->at = 0;
    c->limit = c->table->n_rows;
    if (m->lower && !m->opened)
        HR_TRY(lower_bound(m->sorter, c->table, 0, c->limit, i, c->place, m->lower, &c->at, err));
    if (m->upper && is_last)
        HR_TRY(lower_bound(m->sorter, c->table, c->at, c->limit, i, c->place, m->upper, &c->limit, err));
    c->whole_page = c->at == 0 && !(m->upper && is_last); /* the next share looks for its beginning in our last page */
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
            HR_TRY(lower_bound(m->sorter, c->table, 0, c->limit, i, 0, m->lower, &c->at, err));
        if (m->upper)
            HR_TRY(lower_bound(m->sorter, c->table, c->at, c->limit, i, 0, m->upper, &c->limit, err));
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
        page *p = &c->run->pages[c->page - 1];

        hr__spill_forget(m->sorter->spill, &p->place);
        p->place.n_bytes = 0; /* nobody else reads a page that is all ours */
    }
    hr_table_unref(c->table);
    c->table = NULL;
}

/* Every run shows something, or has nothing more. */
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

    return c ? c : compare_places(i, a->place + row_i, k, b->place + row_k);
}

/* The run whose last row that is shown comes first of all whose runs go on behind: rows up to it are sure. -1: all are. */
static int64_t find_bound(const merge *m)
{
    int64_t bound = -1;

    for (int64_t i = 0; i < m->n_runs; i++) {
        const cursor *c = &m->cursors[i];

        if (c->at >= c->end || !has_more(c))
            continue;
        if (bound < 0 || compare_rows(m, i, c->end - 1, bound, m->cursors[bound].end - 1) < 0)
            bound = i;
    }
    return bound;
}

/* How many of the rows that run i shows are sure. */
static int64_t sure_end(const merge *m, int64_t i, int64_t bound)
{
    const cursor *c = &m->cursors[i];
    int64_t begin = c->at, end = c->end;

    if (bound < 0 || i == bound)
        return end;
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;

        if (compare_rows(m, i, middle, bound, m->cursors[bound].end - 1) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    return begin;
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
    int64_t bound;
    int n = 0;

    (void)max_bytes; /* pieces and pages are small enough */
    *out = NULL;
    if (!m->opened) {
        for (int64_t i = 0; i < m->n_runs; i++)
            HR_TRY(open_cursor(m, i, err));
        m->opened = true;
    }
    HR_TRY(refill(m, err));
    bound = find_bound(m);
    for (int64_t i = 0; i < m->n_runs; i++) {
        cursor *c = &m->cursors[i];

        c->taken = c->at < c->end ? sure_end(m, i, bound) - c->at : 0;
        if (!c->taken)
            continue;
        hr__sort_add_range(m->ranges, &n, c->table, c->at, c->taken);
    }
    if (!n)
        return HR_OK;
    HR_TRY(pick_sorted(m, n, out, err));
    for (int64_t i = 0; i < m->n_runs; i++)
        m->cursors[i].at += m->cursors[i].taken;
    return HR_OK;
}

/* What comes first of the share, as one table of about m->chunk bytes: whoever works ahead may have few tables ready. */
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

/* Rows of the runs between two cuts. space NULL: one of its own. */
static hr_status merge_open(hr_sorter *s, run **runs, int64_t n_runs, const cut *lower, const cut *upper,
                            hr_schema *schema, const hr_mem *mem, hr_sort_space *space, merge **out, hr_error *err)
{
    merge *m = hr__zalloc(mem->account, sizeof *m);
    bool disk = false;
    int64_t n_ranges = 0;

    *out = NULL;
    if (!m)
        return hr__error_memory(err, s->name, sizeof *m);
    m->base.cls = &merge_class;
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
    if (disk)
        m->window = HR_MAX(1, s->page_bytes / HR_MAX(1, s->n_bytes / HR_MAX(1, s->n_rows)));
    if (m->cursors && m->ranges) {
        *out = m;
        return HR_OK;
    }
    merge_close(&m->base);
    return hr__error_memory(err, s->name, n_runs * (int64_t)sizeof *m->cursors);
}

/* ---------------------------------------------------------------------------------------------- where to cut */

typedef struct samples {
    cut *items;
    int64_t n, cap;
} samples;

static hr_status add_sample(hr_sorter *s, samples *x, cut c, hr_error *err)
{
    void *items = x->items;

    if (!hr__grow(s->account, &items, &x->cap, x->n + 1, sizeof *x->items)) {
        cut_clear(&c);
        return hr__error_memory(err, s->name, (x->n + 1) * (int64_t)sizeof *x->items);
    }
    x->items = items;
    x->items[x->n++] = c;
    return HR_OK;
}

/* Every stride-th row, counted through all runs; of runs on disk the first rows of pages. */
static hr_status take_samples(hr_sorter *s, run **runs, int64_t n_runs, int64_t stride, samples *out, hr_error *err)
{
    int64_t at = stride / 2; /* in the run */
    cut c;

    for (int64_t r = 0; r < n_runs; r++) {
        for (; runs[r]->table && at < runs[r]->n_rows; at += stride) {
            HR_TRY(cut_at(s, runs[r]->table, at, &c, err));
            c.run = r;
            c.row = at;
            c.weight = stride;
            HR_TRY(add_sample(s, out, c, err));
        }
        if (runs[r]->table)
            at -= runs[r]->n_rows;
        for (int64_t p = 0; p < runs[r]->n_pages; p++) {
            HR_TRY(cut_copy(s, &runs[r]->pages[p].first, &c, err));
            c.run = r;
            c.row = runs[r]->pages[p].first_row;
            c.weight = runs[r]->pages[p].place.n_rows;
            HR_TRY(add_sample(s, out, c, err));
        }
    }
    return HR_OK;
}

static void sift(const hr_sorter *s, cut *items, int64_t at, int64_t n)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        cut x = items[at];

        if (child + 1 < n && compare_cuts(s, &items[child], &items[child + 1]) < 0)
            child++;
        if (compare_cuts(s, &items[at], &items[child]) >= 0)
            return;
        items[at] = items[child];
        items[child] = x;
    }
}

static void heap_sort(const hr_sorter *s, cut *items, int64_t n)
{
    for (int64_t i = n / 2; i-- > 0;)
        sift(s, items, i, n);
    for (int64_t end = n; end-- > 1;) {
        cut x = items[0];

        items[0] = items[end];
        items[end] = x;
        sift(s, items, 0, end);
    }
}

/* *n: how many parts are wanted; becomes how many there are. *out: the cuts between them. */
static hr_status choose_cuts(hr_sorter *s, run **runs, int64_t n_runs, int64_t *n, cut **out, hr_error *err)
{
    int64_t n_rows = 0, n_cuts = 0, sum = 0;
    hr_status st = HR_OK;
    samples x = { 0 };

    *out = NULL;
    for (int64_t r = 0; r < n_runs; r++)
        n_rows += runs[r]->n_rows;
    if (*n <= 1 || n_rows <= 1) {
        *n = 1;
        return HR_OK;
    }
    HR_GO(take_samples(s, runs, n_runs, HR_MAX(1, n_rows / *n / SAMPLES), &x, err));
    heap_sort(s, x.items, x.n);
    if (!(*out = hr__zalloc(s->account, (size_t)*n * sizeof **out)))
        HR_GO(hr__error_memory(err, s->name, *n * (int64_t)sizeof **out));
    for (int64_t i = 0; i < x.n && n_cuts < *n - 1; i++) {
        if (sum >= (n_rows * (n_cuts + 1) + *n - 1) / *n && sum > 0) {
            (*out)[n_cuts++] = x.items[i];
            x.items[i].bytes = NULL; /* moved */
        }
        sum += x.items[i].weight;
    }
    *n = n_cuts + 1;
done:
    for (int64_t i = 0; i < x.n; i++)
        cut_clear(&x.items[i]);
    hr__free(x.items);
    return st;
}

/* -------------------------------------------------------------------------------------------------- runs on disk */

static hr_status add_page(hr_sorter *s, run *to, const hr_table *t, hr_error *err)
{
    void *pages = to->pages;
    page p = { .first_row = to->n_rows };

    if (!hr__grow(s->account, &pages, &to->cap, to->n_pages + 1, sizeof *to->pages))
        return hr__error_memory(err, s->name, (to->n_pages + 1) * (int64_t)sizeof *to->pages);
    to->pages = pages;
    HR_TRY(cut_at(s, t, 0, &p.first, err));
    if (hr__spill_write(s->spill, t, &p.place, err)) {
        hr_status st = err ? err->status : HR_IO;

        cut_clear(&p.first);
        return st;
    }
    to->pages[to->n_pages++] = p;
    to->n_rows += t->n_rows;
    to->n_bytes += hr__table_bytes_used(t);
    return HR_OK;
}

static hr_status add_pages(hr_sorter *s, run *to, const hr_table *t, hr_error *err)
{
    int64_t n_bytes = hr__table_bytes_used(t), n = HR_MAX(1, (n_bytes + s->page_bytes / 2) / s->page_bytes);
    int64_t step = (t->n_rows + n - 1) / n;

    for (int64_t at = 0; at < t->n_rows; at += step) {
        hr_table *part = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(t, at, HR_MIN(step, t->n_rows - at), &part, err));
        st = add_page(s, to, part, err);
        hr_table_unref(part);
        HR_TRY(st);
    }
    return HR_OK;
}

/* Tables that wait until they are a page. */
typedef struct pending {
    hr_table *tables[64];
    int n;
    int64_t n_bytes;
} pending;

static hr_status flush_pending(hr_sorter *s, run *to, pending *p, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    hr_table *all = NULL;
    hr_status st = HR_OK;

    if (p->n == 1)
        all = hr_table_ref(p->tables[0]);
    else if (p->n > 1)
        HR_GO(hr__table_concat(&mem, s->schema, p->tables, p->n, &all, err));
    if (all)
        HR_GO(add_pages(s, to, all, err));
done:
    hr_table_unref(all);
    for (int i = 0; i < p->n; i++)
        hr_table_unref(p->tables[i]);
    p->n = 0;
    p->n_bytes = 0;
    return st;
}

static hr_status do_slice(hr_sorter *s, job *j, int64_t slice, hr_sort_space *space, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    run *to = &j->slices[slice];
    pending wait = { .n = 0 };
    hr_table *t = NULL;
    hr_status st = HR_OK;
    merge *m = NULL;

    HR_GO(merge_open(s, j->inputs, j->n_inputs, slice ? &j->cuts[slice - 1] : NULL,
                     slice < j->n_slices - 1 ? &j->cuts[slice] : NULL, s->schema, &mem, space, &m, err));
    for (;;) {
        HR_GO(merge_next(&m->base, 0, &t, err));
        if (!t)
            break;
        wait.n_bytes += hr__table_bytes_used(t);
        wait.tables[wait.n++] = t;
        t = NULL;
        if (wait.n == HR_LEN(wait.tables) || wait.n_bytes >= s->page_bytes)
            HR_GO(flush_pending(s, to, &wait, err));
    }
    HR_GO(flush_pending(s, to, &wait, err));
done:
    for (int i = 0; i < wait.n; i++)
        hr_table_unref(wait.tables[i]);
    if (m)
        merge_close(&m->base);
    return st;
}

/* All slices are done: their pages, one after the other, are the new run. */
static hr_status assemble(hr_sorter *s, job *j, hr_error *err)
{
    run *to = j->target;
    int64_t n = 0;

    for (int64_t i = 0; i < j->n_slices; i++)
        n += j->slices[i].n_pages;
    if (!(to->pages = hr__alloc(s->account, (size_t)HR_MAX(1, n) * sizeof *to->pages)))
        return hr__error_memory(err, s->name, n * (int64_t)sizeof *to->pages);
    to->cap = n;
    to->n_rows = 0;
    for (int64_t i = 0; i < j->n_slices; i++) {
        for (int64_t p = 0; p < j->slices[i].n_pages; p++) {
            to->pages[to->n_pages] = j->slices[i].pages[p];
            to->pages[to->n_pages++].first_row += to->n_rows;
        }
        to->n_rows += j->slices[i].n_rows;
        j->slices[i].n_pages = 0; /* moved */
    }
    return HR_OK;
}

static void unlink_job_locked(hr_sorter *s, const job *j)
{
    for (job **at = &s->jobs; *at; at = &(*at)->next) {
        if (*at == j) {
            *at = j->next;
            return;
        }
    }
}

hr_status hr__sorter_help(hr_sorter *s, hr_sort_space *space, bool *did, hr_error *err)
{
    int64_t slice = 0;
    bool last = false;
    job *j;

    hr__lock(&s->lock);
    for (j = s->jobs; j && j->next_slice == j->n_slices;)
        j = j->next;
    if (j)
        slice = j->next_slice++;
    hr__unlock(&s->lock);
    *did = j != NULL;
    if (!j)
        return HR_OK;
    HR_TRY(do_slice(s, j, slice, space, err));
    hr__lock(&s->lock);
    last = ++j->n_done == j->n_slices;
    if (last)
        unlink_job_locked(s, j);
    hr__unlock(&s->lock);
    if (last) {
        hr_status st = assemble(s, j, err);

        job_free(s, j);
        return st;
    }
    return HR_OK;
}

/* Runs [from, from + n) are to become one, in their place. The last of them, if they go to the end. */
static hr_status start_job(hr_sorter *s, int64_t from, int64_t n, int64_t slice_bytes, hr_error *err)
{
    job *j = hr__zalloc(s->account, sizeof *j);
    hr_status st = HR_OK;

    if (!j || !(j->target = hr__zalloc(s->account, sizeof *j->target)) ||
        !(j->inputs = hr__zalloc(s->account, (size_t)n * sizeof *j->inputs)))
        HR_GO(hr__error_memory(err, s->name, n * (int64_t)sizeof *j->inputs));
    for (int64_t i = 0; i < n; i++) {
        j->n_bytes += s->runs[from + i]->n_bytes;
        j->target->n_rows += s->runs[from + i]->n_rows;
    }
    j->target->n_bytes = j->n_bytes;
    j->n_slices = HR_MAX(1, j->n_bytes / slice_bytes);
    HR_GO(choose_cuts(s, s->runs + from, n, &j->n_slices, &j->cuts, err));
    if (!(j->slices = hr__zalloc(s->account, (size_t)j->n_slices * sizeof *j->slices)))
        HR_GO(hr__error_memory(err, s->name, j->n_slices * (int64_t)sizeof *j->slices));
    memcpy(j->inputs, s->runs + from, (size_t)n * sizeof *j->inputs);
    j->n_inputs = n;
    s->runs[from] = j->target;
    memmove(s->runs + from + 1, s->runs + from + n, (size_t)(s->n_runs - from - n) * sizeof *s->runs);
    s->n_runs -= n - 1;
    hr__lock(&s->lock);
    j->next = NULL;
    for (job **at = &s->jobs;; at = &(*at)->next) {
        if (!*at) {
            *at = j;
            break;
        }
    }
    hr__unlock(&s->lock);
    return HR_OK;
done:
    if (j) {
        hr__free(j->target);
        job_free(s, j);
    }
    return st;
}

/* ---------------------------------------------------------------------------------------------------------------- in */

hr_status hr__sorter_sort(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *t, hr_table **out,
                          hr_error *err)
{
    hr_sort_range all = { (hr_table *)t, 0, t->n_rows };
    hr_table bare = *t; /* without its origin: rows picked one by one would each have a stretch */
    bool in_order = false;
    int64_t n = 0;
    int32_t *idx;

    *out = NULL;
    HR_TRY(hr__sort_rows(space, s->order, &all, 1, &n, &in_order, err));
    if (in_order) {
        *out = hr_table_ref((hr_table *)t);
        return HR_OK;
    }
    bare.origin = NULL;
    idx = space->spare;
    for (int64_t i = 0; i < n; i++)
        idx[i] = (int32_t)space->items[i].row;
    return hr__table_take(mem, &bare, idx, 4, n, out, err);
}

static hr_status add_run(hr_sorter *s, hr_table *takes, hr_error *err)
{
    void *runs = s->runs;
    run *r = hr__zalloc(s->account, sizeof *r);

    if (!r || !hr__grow(s->account, &runs, &s->cap_runs, s->n_runs + 1, sizeof *s->runs)) {
        hr__free(r);
        hr_table_unref(takes);
        return hr__error_memory(err, s->name, sizeof *r);
    }
    s->runs = runs;
    r->table = takes;
    r->n_rows = takes->n_rows;
    r->n_bytes = hr__table_bytes_used(takes);
    s->runs[s->n_runs++] = r;
    s->held += r->n_bytes;
    return HR_OK;
}

/* Small tables become one run. */
static hr_status empty_pool(hr_sorter *s, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    int64_t n = 0, n_ranges = 0;
    hr_sort_range *ranges = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;
    bool in_order;
    int n_used = 0;

    if (!s->n_pool)
        return HR_OK;
    if (s->n_pool == 1) {
        t = s->pool[0];
        s->n_pool = s->pool_bytes = 0;
        return add_run(s, t, err);
    }
    for (int64_t i = 0; i < s->n_pool; i++)
        n_ranges += hr__sort_parts(s->pool[i]->n_rows);
    if (!(ranges = hr__alloc(s->account, (size_t)n_ranges * sizeof *ranges)))
        HR_GO(hr__error_memory(err, s->name, n_ranges * (int64_t)sizeof *ranges));
    for (int64_t i = 0; i < s->n_pool; i++)
        hr__sort_add_range(ranges, &n_used, s->pool[i], 0, s->pool[i]->n_rows);
    HR_GO(hr__sort_rows(&s->space, s->order, ranges, n_used, &n, &in_order, err));
    HR_GO(hr__sort_pick(&s->space, &mem, s->schema, ranges, n_used, n, NULL, &t, err));
    for (int64_t i = 0; i < s->n_pool; i++)
        hr_table_unref(s->pool[i]);
    s->n_pool = s->pool_bytes = 0;
    st = add_run(s, t, err);
done:
    hr__free(ranges);
    return st;
}

static hr_status add_to_pool(hr_sorter *s, hr_table *takes, int64_t n_bytes, hr_error *err)
{
    void *pool = s->pool;

    if (!hr__grow(s->account, &pool, &s->cap_pool, s->n_pool + 1, sizeof *s->pool)) {
        hr_table_unref(takes);
        return hr__error_memory(err, s->name, (s->n_pool + 1) * (int64_t)sizeof *s->pool);
    }
    s->pool = pool;
    s->pool[s->n_pool++] = takes;
    s->pool_bytes += n_bytes;
    return s->pool_bytes >= HR_MIN(POOL_BYTES, s->allowance / 4) || s->n_pool >= 1024 ? empty_pool(s, err) : HR_OK;
}

/* Bytes in memory of jobs that are not done. */
static int64_t in_jobs(hr_sorter *s)
{
    int64_t n = 0;

    hr__lock(&s->lock);
    for (const job *j = s->jobs; j; j = j->next)
        n += j->n_bytes;
    hr__unlock(&s->lock);
    return n;
}

static int64_t slice_bytes(const hr_sorter *s) { return HR_MAX(s->page_bytes, HR_MIN(PIECE_BYTES, s->allowance / 16)); }

static hr_status spill_held(hr_sorter *s, hr_error *err)
{
    int64_t from = s->n_runs;

    while (from > 0 && s->runs[from - 1]->table)
        from--;
    HR_TRY(start_job(s, from, s->n_runs - from, slice_bytes(s), err));
    s->held = 0;
    return HR_OK;
}

hr_status hr__sorter_add(hr_sorter *s, hr_table *takes, hr_error *err)
{
    int64_t n_bytes = hr__table_bytes_used(takes), n_rows = takes->n_rows;
    bool did = true;

    if (!n_rows) {
        hr_table_unref(takes);
        return HR_OK;
    }
    s->n_rows += n_rows;
    s->n_bytes += n_bytes;
    if (n_bytes < HR_MIN(SMALL_BYTES, s->allowance / 16)) {
        HR_TRY(add_to_pool(s, takes, n_bytes, err));
    } else {
        hr_status st = empty_pool(s, err);

        if (st) {
            hr_table_unref(takes);
            return st;
        }
        HR_TRY(add_run(s, takes, err));
    }
    if (s->held + s->pool_bytes <= s->allowance / 2)
        return HR_OK;
    HR_TRY(empty_pool(s, err));
    HR_TRY(spill_held(s, err));
    while (did && in_jobs(s) > s->allowance / 2 + s->allowance / 4) /* nobody helps: then this thread must */
        HR_TRY(hr__sorter_help(s, &s->space, &did, err));
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------------- end */

static hr_status finish_jobs(hr_sorter *s, hr_error *err)
{
    bool did = true;

    while (did)
        HR_TRY(hr__sorter_help(s, &s->space, &did, err));
    return s->jobs ? hr_error_set(err, HR_BUG, "%s: a slice was not finished", s->name) : HR_OK;
}

static int64_t count_disk(const hr_sorter *s)
{
    int64_t n = 0;

    while (n < s->n_runs && !s->runs[n]->table)
        n++;
    return n;
}

/* What a page takes in memory: rows may be larger than pages were meant to be. */
static int64_t mean_page(const hr_sorter *s)
{
    int64_t n_bytes = 0, n = 0;

    for (int64_t i = 0; i < s->n_runs; i++)
        for (int64_t p = 0; p < s->runs[i]->n_pages; p++, n++)
            n_bytes += s->runs[i]->pages[p].place.memory_bytes;
    return n ? HR_MAX(1, n_bytes / n) : s->page_bytes;
}

/* Neighbours are merged until what is left can be read at once. */
static hr_status merge_passes(hr_sorter *s, hr_error *err)
{
    int64_t n;

    s->page_bytes = HR_MAX(s->page_bytes, mean_page(s)); /* nobody else is here any more */
    s->fan = HR_MAX(LEAST_FAN, s->allowance / 4 / s->page_bytes);
    while ((n = count_disk(s)) > s->fan) {
        int64_t n_groups = (n + s->fan - 1) / s->fan;

        for (int64_t g = 0, at = 0; g < n_groups; g++) {
            int64_t some = n / n_groups + (g < n % n_groups);

            if (some > 1)
                HR_TRY(start_job(s, at, some, INT64_MAX, err));
            HR_TRY(finish_jobs(s, err));
            at++;
        }
        s->n_passes++;
    }
    return HR_OK;
}

static int64_t pieces_wanted(const hr_sorter *s)
{
    int64_t disk = count_disk(s), piece = HR_MAX(LEAST_PIECE, HR_MIN(PIECE_BYTES, s->allowance / 8));

    if (disk) /* each piece reads a page of each run that its neighbour reads, too */
        piece = HR_MAX(2 * piece, 4 * disk * s->page_bytes);
    return HR_MAX(1, HR_MIN(HR_MIN(s->n_bytes / piece, MOST_PIECES), s->n_rows));
}

/* A cut before each value of the first key but 0. Its other keys are left open: what begins so stands behind it. */
static hr_status cut_at_parts(hr_sorter *s, hr_error *err)
{
    s->n_pieces = s->n_parts;
    if (!(s->cuts = hr__zalloc(s->account, (size_t)s->n_parts * sizeof *s->cuts)))
        return hr__error_memory(err, s->name, s->n_parts * (int64_t)sizeof *s->cuts);
    for (int64_t i = 0; i < s->n_parts - 1; i++)
        s->cuts[i].words[0] = (uint64_t)i + 1;
    return HR_OK;
}

hr_status hr__sorter_end(hr_sorter *s, int64_t *n_pieces, hr_error *err)
{
    *n_pieces = 0;
    HR_TRY(empty_pool(s, err));
    HR_TRY(finish_jobs(s, err));
    HR_TRY(merge_passes(s, err));
    hr__sort_space_clear(&s->space);
    if (!s->n_rows)
        return HR_OK;
    if (s->n_parts) {
        HR_TRY(cut_at_parts(s, err));
    } else {
        s->n_pieces = pieces_wanted(s);
        HR_TRY(choose_cuts(s, s->runs, s->n_runs, &s->n_pieces, &s->cuts, err));
    }
    *n_pieces = s->n_pieces;
    return HR_OK;
}

hr_status hr__sorter_read(hr_sorter *s, int64_t piece, const hr_mem *mem, hr_reader **out, int64_t *estimate,
                          hr_error *err)
{
    int64_t disk = count_disk(s), rows = HR_MAX(1, s->n_rows / s->n_pieces);
    merge *m = NULL;

    HR_TRY(merge_open(s, s->runs, s->n_runs, piece ? &s->cuts[piece - 1] : NULL,
                      piece < s->n_pieces - 1 ? &s->cuts[piece] : NULL, s->visible, mem, NULL, &m, err));
    m->chunk = s->n_parts ? INT64_MAX : s->n_bytes / s->n_pieces / 3;
    if (s->n_parts || disk)
        m->base.cls = &chunk_class;
    *out = &m->base;
    if (s->n_parts)
        *estimate = 3 * (s->n_bytes / s->n_pieces) + 2 * (disk + 1) * s->page_bytes;
    else if (disk)
        *estimate = 2 * (disk + 1) * s->page_bytes + 2 * m->chunk;
    else
        *estimate = s->n_bytes / s->n_pieces + rows * (int64_t)(2 * sizeof(hr_sort_item) + 16);
    return HR_OK;
}

hr_sorter_counts hr__sorter_counts(const hr_sorter *s)
{
    return (hr_sorter_counts){ .n_rows = s->n_rows,
                               .n_runs = s->n_runs,
                               .n_spilled_runs = count_disk(s),
                               .n_passes = s->n_passes,
                               .spill = hr__spill_counts(s->spill) };
}
