/* sorter.c - an external sort (see sorter.h): takes tables, holds or spills runs, opens block parts. sorter_parts.h
 * lists the other files. */
#include "op/order/sorter_parts.h"

enum {
    SMALL_BYTES = 256 << 10, /* smaller tables are merged before they become runs */
    POOL_BYTES = 1 << 20,    /* bytes of small tables that become one run */
    GOOD_PAGE = 32 << 10,
    MOST_PAGE = 512 << 10,
    BLOCK_PART_BYTES = 4 << 20, /* of rows in memory */
    LEAST_BLOCK_PART = 8 << 10,
    LEAST_ALLOWANCE = 64 << 10,
    LEAST_FAN = 8,
    MOST_BLOCK_PARTS = 1 << 16,
    FEW_ROWS = 1 << 17, /* up to FEW_ROWS wanted rows are copied now and then; more, only if memory is short */
    LEAST_DROP = 4096
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
    s->n_first = options->n_first;
    s->allowance = HR_MAX(options->allowance, LEAST_ALLOWANCE);
    s->may_hold = s->allowance;
    s->slice_bytes = HR_MIN(BLOCK_PART_BYTES, s->allowance / 16);
    if (options->step_bytes)
        s->slice_bytes = HR_MIN(s->slice_bytes, options->step_bytes);
    s->page_bytes = HR_MAX(HR_MIN(GOOD_PAGE, s->allowance / 64), HR_MIN(MOST_PAGE, s->allowance / 512));
    s->fan = HR_MAX(LEAST_FAN, s->allowance / 4 / s->page_bytes);
    s->schema = hr__schema_ref(schema);
    HR_GO(visible_schema(s, options->n_hidden, err));
    HR_GO(hr__order_new(schema, options->keys, options->n_keys, s->account, &s->order, err));
    HR_GO(hr__spill_file_new(NULL, s->name, s->account, &s->spill, err));
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
    hr__cuts_free(s->cuts, s->n_block_parts - 1);
    hr__sort_space_clear(&s->space);
    hr__order_free(s->order);
    hr__spill_file_unref(s->spill);
    hr__schema_unref(s->schema);
    hr__schema_unref(s->visible);
    hr__mutex_clear(&s->lock);
    account = s->account;
    hr__free(s);
    hr__account_unref(account);
}

/* --------------------------------------------------------------------------------------------------------------- in */

/* The rows of t that are not above the bound; new. */
static hr_status not_above_bound(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *bare,
                                 hr_table **out, hr_error *err)
{
    uint64_t bound[HR_ORDER_WORDS];
    bool has_bound;
    int64_t n = 0;

    hr__lock(&s->lock);
    has_bound = s->has_bound;
    memcpy(bound, s->bound, sizeof bound);
    hr__unlock(&s->lock);
    if (has_bound)
        HR_TRY(hr__sort_not_above(space, s->order, bare, bound, &n, err));
    if (!has_bound || n == bare->n_rows)
        return hr_table_slice(bare, 0, bare->n_rows, out, err);
    return hr__table_take(mem, bare, space->spare, 4, n, out, err);
}

static hr_status sort_table(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *t, hr_table **out,
                            hr_error *err)
{
    hr_sort_range all = { (hr_table *)t, 0, t->n_rows };
    bool in_order = false;
    int64_t n = 0;
    int32_t *idx;

    HR_TRY(hr__sort_rows(space, s->order, &all, 1, &n, &in_order, err));
    if (s->n_first)
        n = HR_MIN(n, s->n_first);
    if (in_order && n == t->n_rows)
        return hr_table_slice(t, 0, n, out, err);
    idx = space->spare;
    for (int64_t i = 0; i < n; i++)
        idx[i] = (int32_t)space->items[i].row;
    return hr__table_take(mem, t, idx, 4, n, out, err);
}

hr_status hr__sorter_sort(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *t, hr_table **out,
                          hr_error *err)
{
    hr_table bare = *t, *few = NULL; /* without origin: each picked row would be a stretch of its own */
    hr_status st;

    *out = NULL;
    bare.origin = NULL;
    if (!s->n_first)
        return sort_table(s, mem, space, &bare, out, err);
    HR_TRY(not_above_bound(s, mem, space, &bare, &few, err));
    st = sort_table(s, mem, space, few, out, err);
    hr_table_unref(few);
    return st;
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

/* Merges sorted tables, up to the wanted number of rows; new. */
static hr_status merge_tables(hr_sorter *s, hr_table **tables, int64_t n_tables, hr_table **out, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    int64_t n = 0, n_ranges = 0;
    hr_sort_range *ranges = NULL;
    hr_status st = HR_OK;
    bool in_order;
    int n_used = 0;

    for (int64_t i = 0; i < n_tables; i++)
        n_ranges += hr__sort_parts(tables[i]->n_rows);
    if (!(ranges = hr__alloc(s->account, (size_t)n_ranges * sizeof *ranges)))
        HR_GO(hr__error_memory(err, s->name, n_ranges * (int64_t)sizeof *ranges));
    for (int64_t i = 0; i < n_tables; i++)
        hr__sort_add_range(ranges, &n_used, tables[i], 0, tables[i]->n_rows);
    HR_GO(hr__sort_rows(&s->space, s->order, ranges, n_used, &n, &in_order, err));
    if (s->n_first)
        n = HR_MIN(n, s->n_first);
    HR_GO(hr__sort_pick(&s->space, &mem, s->schema, ranges, n_used, n, NULL, out, err));
done:
    hr__free(ranges);
    return st;
}

/* Small tables become one run. */
static hr_status empty_pool(hr_sorter *s, hr_error *err)
{
    hr_table *t = s->n_pool == 1 ? s->pool[0] : NULL;

    if (!s->n_pool)
        return HR_OK;
    if (!t) {
        HR_TRY(merge_tables(s, s->pool, s->n_pool, &t, err));
        for (int64_t i = 0; i < s->n_pool; i++)
            hr_table_unref(s->pool[i]);
    }
    s->n_pool = s->pool_bytes = 0;
    return add_run(s, t, err);
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

/* Bytes in memory of unfinished jobs. */
static int64_t in_jobs(hr_sorter *s)
{
    int64_t n = 0;

    hr__lock(&s->lock);
    for (const hr_sort_job *j = s->jobs; j; j = j->next)
        n += j->n_bytes;
    hr__unlock(&s->lock);
    return n;
}

static hr_status spill_held(hr_sorter *s, hr_error *err)
{
    int64_t from = s->n_runs;

    while (from > 0 && s->runs[from - 1]->table)
        from--;
    HR_TRY(hr__sorter_start_job(s, from, s->n_runs - from, HR_MAX(s->page_bytes, s->slice_bytes), err));
    s->held = s->held_rows = 0;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------- the first rows */

/* n_first rows are not above this row: it becomes the bound. */
static void set_bound(hr_sorter *s, const hr_table *t, int64_t row)
{
    uint64_t words[HR_ORDER_WORDS] = { 0 };

    hr__order_prefixes(s->order, t, row, 1, words);
    hr__lock(&s->lock);
    if (!s->has_bound || words[0] < s->bound[0] || (words[0] == s->bound[0] && words[1] < s->bound[1]))
        memcpy(s->bound, words, sizeof words);
    s->has_bound = true;
    hr__unlock(&s->lock);
}

/* Merges all runs (all are in memory) into one run of n_first rows. */
static hr_status keep_first(hr_sorter *s, hr_error *err)
{
    hr_table **tables = NULL, *t = NULL;
    int64_t n_bytes = 0;
    hr_status st = HR_OK;

    HR_TRY(empty_pool(s, err));
    for (int64_t i = 0; i < s->n_runs; i++)
        if (!s->runs[i]->table)
            return HR_OK; /* n_first is too large for memory: some runs are on disk */
    if (!(tables = hr__alloc(s->account, (size_t)s->n_runs * sizeof(hr_table *))))
        return hr__error_memory(err, s->name, s->n_runs * (int64_t)sizeof(hr_table *));
    for (int64_t i = 0; i < s->n_runs; i++) {
        tables[i] = s->runs[i]->table;
        n_bytes += s->runs[i]->n_bytes;
    }
    HR_GO(merge_tables(s, tables, s->n_runs, &t, err));
    while (s->n_runs)
        hr__sort_run_free(s, s->runs[--s->n_runs]);
    s->n_rows += t->n_rows - s->held_rows;
    s->n_bytes += hr__table_bytes_used(t) - n_bytes;
    s->held = 0;
    s->held_rows = t->n_rows;
    if (t->n_rows == s->n_first)
        set_bound(s, t, t->n_rows - 1);
    st = add_run(s, t, err);
done:
    hr__free(tables);
    return st;
}

/* Drops rows beyond n_first once there are enough of them to justify a copy of the others. */
static hr_status drop_rest(hr_sorter *s, bool full, hr_error *err)
{
    bool many = s->n_first <= FEW_ROWS && s->held_rows >= 2 * s->n_first + LEAST_DROP;

    if (many || (full && s->held_rows > s->n_first + s->n_first / 4))
        return keep_first(s, err);
    return HR_OK;
}

static hr_status add_table(hr_sorter *s, hr_table *takes, hr_error *err)
{
    int64_t n_bytes = hr__table_bytes_used(takes);
    hr_status st;

    s->n_rows += takes->n_rows;
    s->n_bytes += n_bytes;
    s->held_rows += takes->n_rows;
    if (s->n_first && takes->n_rows >= s->n_first)
        set_bound(s, takes, s->n_first - 1);
    if (n_bytes < HR_MIN(SMALL_BYTES, s->allowance / 16))
        return add_to_pool(s, takes, n_bytes, err);
    if ((st = empty_pool(s, err))) {
        hr_table_unref(takes);
        return st;
    }
    return add_run(s, takes, err);
}

void hr__sorter_may_hold(hr_sorter *s, int64_t allowance)
{
    s->may_hold = HR_MAX(LEAST_ALLOWANCE, HR_MIN(s->allowance, allowance));
}

static bool is_full(const hr_sorter *s) { return s->held + s->pool_bytes > s->may_hold / 2; }

hr_status hr__sorter_add(hr_sorter *s, hr_table *takes, hr_error *err)
{
    bool did = true;

    if (!takes->n_rows) {
        hr_table_unref(takes);
        return HR_OK;
    }
    HR_TRY(add_table(s, takes, err));
    if (s->n_first)
        HR_TRY(drop_rest(s, is_full(s), err));
    if (!is_full(s))
        return HR_OK;
    HR_TRY(empty_pool(s, err));
    HR_TRY(spill_held(s, err));
    while (did &&
           in_jobs(s) > s->may_hold / 2 + s->may_hold / 4) /* no other thread helps: this thread does the slices */
        HR_TRY(hr__sorter_help(s, &s->space, &did, err));
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------------- end */

static hr_status finish_jobs(hr_sorter *s, hr_error *err)
{
    bool did = true;

    while (did)
        HR_TRY(hr__sorter_help(s, &s->space, &did, err));
    return s->jobs ? hr_error_set(err, HR_BUG, "%s: a slice is unfinished", s->name) : HR_OK;
}

static int64_t count_disk(const hr_sorter *s)
{
    int64_t n = 0;

    while (n < s->n_runs && !s->runs[n]->table)
        n++;
    return n;
}

/* Mean bytes of a page in memory: large rows make larger pages. */
static int64_t mean_page(const hr_sorter *s)
{
    int64_t n_bytes = 0, n = 0;

    for (int64_t i = 0; i < s->n_runs; i++)
        for (int64_t p = 0; p < s->runs[i]->n_pages; p++, n++)
            n_bytes += s->runs[i]->pages[p].place.memory_bytes;
    return n ? HR_MAX(1, n_bytes / n) : s->page_bytes;
}

/* Merges neighbouring runs until all that are left can be read at once. */
static hr_status merge_passes(hr_sorter *s, hr_error *err)
{
    int64_t n;

    s->page_bytes = HR_MAX(s->page_bytes, mean_page(s)); /* no other thread is here now */
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

static int64_t block_parts_wanted(const hr_sorter *s)
{
    int64_t disk = count_disk(s), block_part = HR_MAX(LEAST_BLOCK_PART, HR_MIN(BLOCK_PART_BYTES, s->allowance / 8));

    if (disk) /* neighbouring block parts both read one page of each run */
        block_part = HR_MAX(2 * block_part, 4 * disk * s->page_bytes);
    return HR_MAX(1, HR_MIN(HR_MIN(s->n_bytes / block_part, MOST_BLOCK_PARTS), s->n_rows));
}

/* Makes a cut before each value of the first key except 0. The cut has no other keys: all rows of the value come after
 * it. */
static hr_status cut_at_parts(hr_sorter *s, hr_error *err)
{
    s->n_block_parts = s->n_parts;
    if (!(s->cuts = hr__zalloc(s->account, (size_t)s->n_parts * sizeof *s->cuts)))
        return hr__error_memory(err, s->name, s->n_parts * (int64_t)sizeof *s->cuts);
    for (int64_t i = 0; i < s->n_parts - 1; i++)
        s->cuts[i].words[0] = (uint64_t)i + 1;
    return HR_OK;
}

hr_status hr__sorter_end(hr_sorter *s, int64_t *n_block_parts, hr_error *err)
{
    *n_block_parts = 0;
    HR_TRY(empty_pool(s, err));
    if (is_full(s))
        HR_TRY(spill_held(s, err));
    HR_TRY(finish_jobs(s, err));
    HR_TRY(merge_passes(s, err));
    hr__sort_space_clear(&s->space);
    if (!s->n_rows)
        return HR_OK;
    if (s->n_parts) {
        HR_TRY(cut_at_parts(s, err));
    } else {
        s->n_block_parts = block_parts_wanted(s);
        HR_TRY(hr__choose_cuts(s, s->runs, s->n_runs, &s->n_block_parts, &s->cuts, err));
    }
    *n_block_parts = s->n_block_parts;
    return HR_OK;
}

hr_status hr__sorter_read(hr_sorter *s, int64_t block_part, const hr_mem *mem, hr_reader **out, int64_t *estimate,
                          hr_error *err)
{
    int64_t disk = count_disk(s), rows = HR_MAX(1, s->n_rows / s->n_block_parts), bytes = s->n_bytes / s->n_block_parts;
    int64_t chunk = s->n_parts ? INT64_MAX : disk ? HR_MAX(1, HR_MIN(bytes / 3, s->allowance / 16)) : 0;
    int64_t item_bytes = 2 * sizeof(hr_sort_item) + 16, row_bytes = HR_MAX(1, s->n_bytes / HR_MAX(1, s->n_rows));

    if (s->n_parts)
        *estimate = 3 * bytes + 2 * (disk + 1) * s->page_bytes;
    else if (disk) /* two tables wait, and a third is made from parts of its size */
        *estimate = 2 * (disk + 1) * s->page_bytes + 4 * chunk + chunk / row_bytes * item_bytes;
    else
        *estimate = bytes + rows * item_bytes;
    return hr__merge_open(s, s->runs, s->n_runs, block_part ? &s->cuts[block_part - 1] : NULL,
                          block_part < s->n_block_parts - 1 ? &s->cuts[block_part] : NULL, s->visible, mem, NULL, chunk,
                          out, err);
}

hr_sorter_counts hr__sorter_counts(const hr_sorter *s)
{
    return (hr_sorter_counts){ .n_rows = s->n_rows,
                               .n_runs = s->n_runs,
                               .n_spilled_runs = count_disk(s),
                               .n_passes = s->n_passes,
                               .spill = hr__spill_file_counts(s->spill) };
}
