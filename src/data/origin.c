/* origin.c - the coordinates of a table's rows.
 *
 * Almost every table is a range of one fragment, so almost every origin is one *stretch* of consecutive rows, which
 * lies in the origin itself. A filter leaves scattered rows: one stretch, with a *pick* of four bytes for each row, its
 * distance from the first. A shuffle leaves up to one stretch a row. Look-up is a binary search.
 *
 * A stretch of a single row counts by row. A row without source (index -1 in take) has -1 in every field. */
#include "data/data.h"

/* Rows of one fragment: of one ordinal, or of one source row and successive ordinals. */
typedef struct stretch {
    hr_coord first;
    int64_t n;
    int64_t start;   /* its first row in the table */
    int64_t picks;   /* row j is first.row + the origin's picks[picks + j], which never decrease; -1: first.row + j */
    bool by_ordinal; /* row j is first.ordinal + j; no picks */
} stretch;

struct hr_origin {
    atomic_int refs;
    int64_t n_rows, n;
    stretch *items; /* &one, or n of their own */
    uint32_t *picks;
    stretch one;
};

/* Stretches in the order in which they are added; the first lies here until a second one comes. */
typedef struct maker {
    stretch one;
    stretch *more; /* all stretches, from the second on */
    uint32_t *picks;
    int64_t n, cap, n_rows, n_picks, cap_picks;
} maker;

/* Stretches shorter than this become picks: this number of picks takes about the memory of a stretch. */
#define SHORT 16

static const hr_coord nowhere = { -1, -1, -1, -1, -1, -1 };

static hr_coord coord_at(const hr_origin *o, const stretch *s, int64_t j)
{
    hr_coord c = s->first;

    if (s->by_ordinal)
        c.ordinal += j;
    else
        c.row += s->picks < 0 ? j : o->picks[s->picks + j];
    return c;
}

/* ----------------------------------------------------------------------------------------------------------- making */

static bool same_fragment(const hr_coord *a, const hr_coord *b)
{
    return a->fragment == b->fragment && a->file == b->file && a->instance == b->instance;
}

/* Extends *s by `next` if `next` follows it. Both are of one fragment and have no picks. */
static bool join_plain(stretch *s, const stretch *next)
{
    const hr_coord *a = &s->first, *b = &next->first;
    bool may_row = !s->by_ordinal && !next->by_ordinal;
    bool may_ordinal = (s->by_ordinal || s->n == 1) && (next->by_ordinal || next->n == 1);

    if (may_row && b->row == a->row + s->n && b->ordinal == a->ordinal) {
        s->n += next->n;
        return true;
    }
    if (may_ordinal && b->row == a->row && b->ordinal == a->ordinal + s->n) {
        s->n += next->n;
        s->by_ordinal = true;
        return true;
    }
    return false;
}

static hr_status room_for_picks(maker *m, int64_t n, hr_error *err)
{
    void *items = m->picks;

    if (!hr__grow(NULL, &items, &m->cap_picks, m->n_picks + n, sizeof *m->picks))
        return hr__error_memory(err, "origin", (m->n_picks + n) * (int64_t)sizeof *m->picks);
    m->picks = items;
    return HR_OK;
}

/* Adds the picks of n rows, the first of them `first` after the first of the stretch; m has room. from: picks to copy;
 * NULL: consecutive rows. */
static void add_picks(maker *m, const uint32_t *from, int64_t n, int64_t first)
{
    uint32_t *to = m->picks + m->n_picks, more = (uint32_t)first - (from ? from[0] : 0);

    for (int64_t j = 0; j < n; j++)
        to[j] = (from ? from[j] : (uint32_t)j) + more;
    m->n_picks += n;
}

/* Whether the rows of `next`, of the same fragment, can be appended to *s as picks. */
static bool may_pick(const maker *m, const stretch *s, const stretch *next, const uint32_t *picks)
{
    int64_t distance = next->first.row - s->first.row;
    int64_t end = s->picks < 0 ? s->n - 1 : m->picks[s->picks + s->n - 1];
    int64_t length = picks ? picks[next->n - 1] - picks[0] : next->n - 1;

    return !s->by_ordinal && !next->by_ordinal && next->first.ordinal == s->first.ordinal &&
           (s->picks >= 0 || s->n < SHORT) && (picks || next->n < SHORT) && distance >= end &&
           distance + length <= UINT32_MAX;
}

static hr_status pick(maker *m, stretch *s, const stretch *next, const uint32_t *picks, hr_error *err)
{
    HR_TRY(room_for_picks(m, s->n + next->n, err));
    if (s->picks < 0) {
        s->picks = m->n_picks;
        add_picks(m, NULL, s->n, 0);
    }
    add_picks(m, picks, next->n, next->first.row - s->first.row);
    s->n += next->n;
    return HR_OK;
}

static hr_status append(maker *m, const stretch *s, hr_error *err)
{
    if (m->n == 0) {
        m->one = *s;
        m->n = 1;
        return HR_OK;
    }
    if (m->n == m->cap || !m->more) {
        void *items = m->more;

        if (!hr__grow(NULL, &items, &m->cap, m->n + 1, sizeof *s))
            return hr__error_memory(err, "origin", (m->n + 1) * (int64_t)sizeof *s);
        m->more = items;
    }
    if (m->n == 1)
        m->more[0] = m->one;
    m->more[m->n++] = *s;
    return HR_OK;
}

/* Adds n rows from `first` on. picks: their distances, relative to picks[0]; NULL: consecutive rows. */
static hr_status maker_add(maker *m, hr_coord first, int64_t n, bool by_ordinal, const uint32_t *picks, hr_error *err)
{
    stretch *last = m->n == 0 ? NULL : m->more ? &m->more[m->n - 1] : &m->one;
    stretch s = { .first = first, .n = n, .start = m->n_rows, .picks = -1, .by_ordinal = by_ordinal && n > 1 };

    if (n <= 0)
        return HR_OK;
    m->n_rows += n;
    if (n == 1)
        picks = NULL;
    if (last && same_fragment(&last->first, &first)) {
        if (last->picks < 0 && !picks && join_plain(last, &s))
            return HR_OK;
        if (may_pick(m, last, &s, picks))
            return pick(m, last, &s, picks, err);
    }
    if (picks) {
        HR_TRY(room_for_picks(m, n, err));
        s.picks = m->n_picks;
        add_picks(m, picks, n, 0);
    }
    return append(m, &s, err);
}

/* Rows [begin, begin + n) of a stretch of o. */
static hr_status add_part(maker *m, const hr_origin *o, const stretch *s, int64_t begin, int64_t n, hr_error *err)
{
    const uint32_t *picks = s->picks < 0 ? NULL : o->picks + s->picks + begin;

    return maker_add(m, coord_at(o, s, begin), n, s->by_ordinal, picks, err);
}

static void maker_clear(maker *m)
{
    hr__free(m->more);
    hr__free(m->picks);
    *m = (maker){ 0 };
}

/* Empties m. */
static hr_status maker_finish(maker *m, hr_origin **out, hr_error *err)
{
    hr_origin *o = hr__zalloc(NULL, sizeof *o);

    *out = o;
    if (!o) {
        maker_clear(m);
        return hr__error_memory(err, "origin", sizeof *o);
    }
    atomic_init(&o->refs, 1);
    o->n_rows = m->n_rows;
    o->n = m->n;
    o->one = m->one;
    o->items = m->more ? m->more : &o->one;
    o->picks = m->picks;
    *m = (maker){ 0 }; /* moved */
    return HR_OK;
}

hr_status hr__origin_new(const hr_run_coords *runs, int64_t n_runs, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    for (int64_t i = 0; i < n_runs; i++)
        HR_GO(maker_add(&m, runs[i].first, runs[i].n, runs[i].by_ordinal, NULL, err));
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
    if (o->items != &o->one)
        hr__free(o->items);
    hr__free(o->picks);
    hr__free(o);
}

/* ---------------------------------------------------------------------------------------------------------- looking */

int64_t hr__origin_rows(const hr_origin *o) { return o->n_rows; }
int64_t hr__origin_stretches(const hr_origin *o) { return o->n; }

/* The stretch that holds the row; `hint` is a stretch that may hold it or lie just before it. */
static int64_t find(const hr_origin *o, int64_t row, int64_t hint)
{
    int64_t low = 0, high = o->n - 1;

    for (int64_t i = hint; i <= hint + 1 && i < o->n; i++)
        if (row >= o->items[i].start && row - o->items[i].start < o->items[i].n)
            return i;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;

        if (o->items[middle].start <= row)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

hr_coord hr__origin_at(const hr_origin *o, int64_t row)
{
    const stretch *s;

    if (row < 0 || row >= o->n_rows)
        return nowhere;
    s = &o->items[find(o, row, 0)];
    return coord_at(o, s, row - s->start);
}

hr_run_coords hr__origin_run(const hr_origin *o, int64_t row)
{
    const stretch *s = &o->items[find(o, row, 0)];
    int64_t j = row - s->start, n = s->n - j;
    hr_run_coords run = { coord_at(o, s, j), n, s->by_ordinal };

    if (s->picks >= 0) {
        const uint32_t *picks = o->picks + s->picks + j;

        for (run.n = 1; run.n < n && picks[run.n] == picks[0] + run.n; run.n++)
            ;
    }
    return run;
}

/* The number of rows of a stretch, from its row j on, before the fragment's row `end`. */
static int64_t rows_before(const hr_origin *o, const stretch *s, int64_t j, int64_t end)
{
    int64_t n = 0, limit = end - s->first.row;

    if (s->by_ordinal)
        return s->first.row < end ? s->n - j : 0;
    if (s->picks < 0)
        return HR_MAX(HR_MIN(s->n, limit) - j, 0);
    while (j + n < s->n && o->picks[s->picks + j + n] < limit)
        n++;
    return n;
}

int64_t hr__origin_in_block(const hr_origin *o, int64_t row, int64_t block_rows)
{
    hr_coord c = hr__origin_at(o, row), next;
    int64_t block = c.row / block_rows, n = 0;

    for (int64_t k = find(o, row, 0); k < o->n; k++) {
        const stretch *s = &o->items[k];
        int64_t j = row + n - s->start, some;

        next = coord_at(o, s, j);
        if (!same_fragment(&next, &c) || next.row / block_rows != block)
            break;
        some = rows_before(o, s, j, (block + 1) * block_rows);
        n += some;
        if (j + some < s->n)
            break;
    }
    return n;
}

/* ----------------------------------------------------------------------------------------------- origins of origins */

hr_status hr__origin_slice(const hr_origin *o, int64_t begin, int64_t n, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    if (begin < 0 || n < 0 || begin > o->n_rows - n)
        HR_FAIL(HR_BUG, "origin: %lld rows from row %lld, found %lld", (long long)n, (long long)begin,
                (long long)o->n_rows);
    for (int64_t k = n > 0 ? find(o, begin, 0) : 0; n > 0; k++) {
        const stretch *s = &o->items[k];
        int64_t skip = begin - s->start, some = HR_MIN(s->n - skip, n);

        HR_GO(add_part(&m, o, s, skip, some, err));
        begin += some;
        n -= some;
    }
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
        for (int64_t k = 0; k < parts[i]->n; k++)
            HR_GO(add_part(&m, parts[i], &parts[i]->items[k], 0, parts[i]->items[k].n, err));
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

hr_status hr__origin_instance(const hr_origin *o, int32_t instance, hr_origin **out, hr_error *err)
{
    hr_status st = HR_OK;
    maker m = { 0 };

    *out = NULL;
    for (int64_t k = 0; k < o->n; k++) {
        const stretch *s = &o->items[k];
        hr_coord first = s->first;

        first.instance = instance;
        HR_GO(maker_add(&m, first, s->n, s->by_ordinal, s->picks < 0 ? NULL : o->picks + s->picks, err));
    }
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}

static int64_t index_at(const void *idx, int idx_bytes, int64_t i)
{
    return idx_bytes == 4 ? ((const int32_t *)idx)[i] : ((const int64_t *)idx)[i];
}

/* The number of indexes that are compared at a time. */
#define RISING 256

/* The leading indexes of idx[i .. n) that lie in stretch s and rise (by ordinal: are consecutive); -> their number, and
 * the distance of each from the first. */
static int64_t rising(const hr_origin *o, const stretch *s, const void *idx, int idx_bytes, int64_t i, int64_t n,
                      uint32_t distance[RISING])
{
    int64_t n_found = 0, before = -1, first = 0;

    for (n = HR_MIN(n - i, RISING); n_found < n; n_found++) {
        int64_t j = index_at(idx, idx_bytes, i + n_found) - s->start, place;

        if (j <= before || j >= s->n || (s->by_ordinal && n_found && j != before + 1))
            break;
        place = s->picks < 0 ? j : o->picks[s->picks + j];
        if (n_found == 0)
            first = place;
        else if (place - first > UINT32_MAX)
            break;
        distance[n_found] = (uint32_t)(place - first);
        before = j;
    }
    return n_found;
}

hr_status hr__origin_take(const hr_origin *o, const void *idx, int idx_bytes, int64_t n, hr_origin **out, hr_error *err)
{
    uint32_t distance[RISING];
    hr_status st = HR_OK;
    maker m = { 0 };
    int64_t k = 0, some;

    *out = NULL;
    for (int64_t i = 0; i < n; i += some) {
        int64_t row = index_at(idx, idx_bytes, i);
        const stretch *s;
        bool gaps;

        some = 1;
        if (row >= o->n_rows)
            HR_FAIL(HR_BUG, "origin: row %lld of %lld", (long long)row, (long long)o->n_rows);
        if (row < 0) {
            HR_GO(maker_add(&m, nowhere, 1, false, NULL, err));
            continue;
        }
        k = find(o, row, k);
        s = &o->items[k];
        some = rising(o, s, idx, idx_bytes, i, n, distance);
        gaps = distance[some - 1] != some - 1;
        HR_GO(maker_add(&m, coord_at(o, s, row - s->start), some, s->by_ordinal, gaps ? distance : NULL, err));
    }
    st = maker_finish(&m, out, err);
done:
    maker_clear(&m);
    return st;
}
