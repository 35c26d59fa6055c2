/* origin.c - the coordinates of a table's rows, run-length coded.
 *
 * Almost every table is a stretch of one fragment, so almost every origin is one run, which lies in the origin itself. What a
 * filter leaves is a few runs; what a shuffle leaves is up to a run a row, and then `starts` makes look-up a binary search.
 *
 * Runs are always as long as they can be, and one of a single row counts by row: equal coordinates have equal runs.
 * A row that came from nowhere (index -1 in take) has the coordinate with every field -1. */
#include "core/core.h"

struct hr_origin {
    atomic_int refs;
    int64_t n_rows, n_runs;
    hr_run_coords *runs; /* &one, or n_runs of their own */
    int64_t *starts;     /* the first row of each run; NULL with one run */
    hr_run_coords one;
};

/* Runs as they come; the first lies here until there is a second. */
typedef struct maker {
    hr_run_coords one;
    hr_run_coords *more; /* all of them, once there are two */
    int64_t n, cap, n_rows;
} maker;

static const hr_coord nowhere = { -1, -1, -1, -1, -1, -1 };

static hr_coord step(hr_coord c, bool by_ordinal, int64_t n)
{
    if (by_ordinal)
        c.ordinal += n;
    else
        c.row += n;
    return c;
}

/* Lets *run go on with `next`, if that is what comes after it. */
static bool join_runs(hr_run_coords *run, const hr_run_coords *next)
{
    const hr_coord *a = &run->first, *b = &next->first;
    bool may_row = !run->by_ordinal && !next->by_ordinal;
    bool may_ordinal = (run->by_ordinal || run->n == 1) && (next->by_ordinal || next->n == 1);

    if (a->fragment != b->fragment || a->file != b->file || a->instance != b->instance)
        return false;
    if (may_row && b->row == a->row + run->n && b->ordinal == a->ordinal) {
        run->n += next->n;
        return true;
    }
    if (may_ordinal && b->row == a->row && b->ordinal == a->ordinal + run->n) {
        run->n += next->n;
        run->by_ordinal = true;
        return true;
    }
    return false;
}

static hr_status maker_add(maker *m, hr_run_coords run, hr_error *err)
{
    if (run.n <= 0)
        return HR_OK;
    m->n_rows += run.n;
    if (run.n == 1)
        run.by_ordinal = false;
    if (m->n && join_runs(m->more ? &m->more[m->n - 1] : &m->one, &run))
        return HR_OK;
    if (m->n == 0) {
        m->one = run;
        m->n = 1;
        return HR_OK;
    }
    if (m->n == m->cap || !m->more) {
        void *items = m->more;

        if (!hr__grow(NULL, &items, &m->cap, m->n + 1, sizeof run))
            return hr__error_memory(err, "origin", (m->n + 1) * (int64_t)sizeof run);
        m->more = items;
    }
    if (m->n == 1)
        m->more[0] = m->one;
    m->more[m->n++] = run;
    return HR_OK;
}

static void maker_clear(maker *m)
{
    hr__free(m->more);
    *m = (maker){ 0 };
}

/* Empties m. */
static hr_status maker_finish(maker *m, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_origin *o = hr__zalloc(NULL, sizeof *o);
    int64_t at = 0;

    *out = NULL;
    if (!o)
        HR_FAIL(HR_NO_MEMORY, "origin: no memory for %d bytes", (int)sizeof *o);
    atomic_init(&o->refs, 1);
    o->n_rows = m->n_rows;
    o->n_runs = m->n;
    o->one = m->one;
    o->runs = &o->one;
    if (m->n > 1) {
        o->starts = hr__alloc(NULL, (size_t)m->n * sizeof *o->starts);
        if (!o->starts)
            HR_FAIL(HR_NO_MEMORY, "origin: no memory for %lld runs", (long long)m->n);
        o->runs = m->more;
        m->more = NULL; /* moved */
        for (int64_t i = 0; i < o->n_runs; i++) {
            o->starts[i] = at;
            at += o->runs[i].n;
        }
    }
    *out = o;
    o = NULL;
done:
    hr__free(o);
    maker_clear(m);
    return st;
}

hr_status hr__origin_new(const hr_run_coords *runs, int64_t n_runs, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    for (int64_t i = 0; i < n_runs; i++)
        HR_GO(maker_add(&m, runs[i], err));
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

hr_origin *hr__origin_ref(hr_origin *o)
{
    if (o)
        atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
    return o;
}

void hr__origin_unref(hr_origin *o)
{
    if (!o || atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (o->runs != &o->one)
        hr__free(o->runs);
    hr__free(o->starts);
    hr__free(o);
}

int64_t hr__origin_rows(const hr_origin *o) { return o->n_rows; }

int64_t hr__origin_runs(const hr_origin *o, const hr_run_coords **runs)
{
    *runs = o->runs;
    return o->n_runs;
}

/* The run that holds the row; `hint` is one that may hold it, or lie just before. */
static int64_t find_run(const hr_origin *o, int64_t row, int64_t hint)
{
    int64_t low = 0, high = o->n_runs - 1;

    if (!o->starts)
        return 0;
    for (int64_t i = hint; i <= hint + 1 && i < o->n_runs; i++)
        if (row >= o->starts[i] && row - o->starts[i] < o->runs[i].n)
            return i;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;

        if (o->starts[middle] <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int64_t run_start(const hr_origin *o, int64_t run) { return o->starts ? o->starts[run] : 0; }

hr_coord hr__origin_at(const hr_origin *o, int64_t row)
{
    int64_t k = find_run(o, row, 0);

    return row < 0 || row >= o->n_rows ? nowhere : step(o->runs[k].first, o->runs[k].by_ordinal, row - run_start(o, k));
}

/* Adds rows [begin, begin + n) of o. */
static hr_status add_slice(maker *m, const hr_origin *o, int64_t begin, int64_t n, hr_error *err)
{
    for (int64_t k = n > 0 ? find_run(o, begin, 0) : 0; n > 0; k++) {
        int64_t skip = begin - run_start(o, k);
        hr_run_coords part = o->runs[k];

        part.first = step(part.first, part.by_ordinal, skip);
        part.n = HR_MIN(part.n - skip, n);
        HR_TRY(maker_add(m, part, err));
        begin += part.n;
        n -= part.n;
    }
    return HR_OK;
}

hr_status hr__origin_slice(const hr_origin *o, int64_t begin, int64_t n, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    if (begin < 0 || n < 0 || begin > o->n_rows - n)
        HR_FAIL(HR_BUG, "origin: %lld rows from row %lld, there are %lld", (long long)n, (long long)begin,
                (long long)o->n_rows);
    HR_GO(add_slice(&m, o, begin, n, err));
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

hr_status hr__origin_concat(hr_origin *const *parts, int n, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < parts[i]->n_runs; k++)
            HR_GO(maker_add(&m, parts[i]->runs[k], err));
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

static int64_t index_at(const void *idx, int idx_bytes, int64_t i)
{
    return idx_bytes == 4 ? ((const int32_t *)idx)[i] : ((const int64_t *)idx)[i];
}

hr_status hr__origin_take(const hr_origin *o, const void *idx, int idx_bytes, int64_t n, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };
    int64_t k = 0, n_same;

    *out = NULL;
    for (int64_t i = 0; i < n; i += n_same) {
        int64_t row = index_at(idx, idx_bytes, i), skip;
        hr_run_coords run = { nowhere, 1, false };

        n_same = 1;
        if (row >= o->n_rows)
            HR_FAIL(HR_BUG, "origin: row %lld of %lld", (long long)row, (long long)o->n_rows);
        if (row >= 0) { /* and those after it, as long as they follow each other in its run */
            k = find_run(o, row, k);
            skip = row - run_start(o, k);
            while (n_same < o->runs[k].n - skip && i + n_same < n &&
                   index_at(idx, idx_bytes, i + n_same) == row + n_same)
                n_same++;
            run = (hr_run_coords){ step(o->runs[k].first, o->runs[k].by_ordinal, skip), n_same, o->runs[k].by_ordinal };
        }
        HR_GO(maker_add(&m, run, err));
    }
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

hr_status hr__origin_made(hr_coord first, int64_t n, hr_origin **out, hr_error *err)
{
    hr_run_coords run = { first, n, true };

    return hr__origin_new(&run, 1, out, err);
}

hr_status hr__origin_instance(const hr_origin *o, int32_t instance, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    for (int64_t i = 0; i < o->n_runs; i++) {
        hr_run_coords run = o->runs[i];

        run.first.instance = instance;
        HR_GO(maker_add(&m, run, err));
    }
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}
