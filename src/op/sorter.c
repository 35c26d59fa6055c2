/* sorter.c - an external sort (see sorter.h): what comes in, what is held, what comes out. sorter_parts.h says what else there is. */
#include "op/sorter_parts.h"

enum {
    SMALL_BYTES = 256 << 10, /* tables below this are joined before they become runs */
    POOL_BYTES = 1 << 20,    /* to so much */
    GOOD_PAGE = 32 << 10,
    MOST_PAGE = 512 << 10,
    PIECE_BYTES = 4 << 20, /* of rows in memory */
    LEAST_PIECE = 8 << 10,
    LEAST_ALLOWANCE = 64 << 10,
    LEAST_FAN = 8,
    MOST_PIECES = 1 << 16
};

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
        hr__sort_run_free(s, s->runs[i]);
    hr__free(s->runs);
    while (s->jobs) {
        hr_sort_job *next = s->jobs->next;

        hr__sort_job_free(s, s->jobs);
        s->jobs = next;
    }
    for (int64_t i = 0; i < s->n_pool; i++)
        hr_table_unref(s->pool[i]);
    hr__free(s->pool);
    hr__cuts_free(s->cuts, s->n_pieces - 1);
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
    hr_sort_run *r = hr__zalloc(s->account, sizeof *r);

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
    for (const hr_sort_job *j = s->jobs; j; j = j->next)
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
    HR_TRY(hr__sorter_start_job(s, from, s->n_runs - from, slice_bytes(s), err));
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
                HR_TRY(hr__sorter_start_job(s, at, some, INT64_MAX, err));
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
        HR_TRY(hr__choose_cuts(s, s->runs, s->n_runs, &s->n_pieces, &s->cuts, err));
    }
    *n_pieces = s->n_pieces;
    return HR_OK;
}

hr_status hr__sorter_read(hr_sorter *s, int64_t piece, const hr_mem *mem, hr_reader **out, int64_t *estimate,
                          hr_error *err)
{
    int64_t disk = count_disk(s), rows = HR_MAX(1, s->n_rows / s->n_pieces), bytes = s->n_bytes / s->n_pieces;
    int64_t chunk = s->n_parts ? INT64_MAX : disk ? HR_MAX(1, bytes / 3) : 0;

    if (s->n_parts)
        *estimate = 3 * bytes + 2 * (disk + 1) * s->page_bytes;
    else if (disk)
        *estimate = 2 * (disk + 1) * s->page_bytes + 2 * chunk;
    else
        *estimate = bytes + rows * (int64_t)(2 * sizeof(hr_sort_item) + 16);
    return hr__merge_open(s, s->runs, s->n_runs, piece ? &s->cuts[piece - 1] : NULL,
                          piece < s->n_pieces - 1 ? &s->cuts[piece] : NULL, s->visible, mem, NULL, chunk, out, err);
}

hr_sorter_counts hr__sorter_counts(const hr_sorter *s)
{
    return (hr_sorter_counts){ .n_rows = s->n_rows,
                               .n_runs = s->n_runs,
                               .n_spilled_runs = count_disk(s),
                               .n_passes = s->n_passes,
                               .spill = hr__spill_counts(s->spill) };
}
