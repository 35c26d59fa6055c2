/* fragment_cut.c - where the fragments of materialized rows end.
 *
 * The tables of a run depend on threads, on time and on the memory limit; fragments enter coordinates, blocks of
 * functions, positions and digests. So a fragment ends where the rows say so:
 *
 * 1. The next row is of another fragment of its source. Files of one row each count as one fragment.
 * 2. The fragment has a multiple of BLOCK_ROWS rows, and at least ENOUGH_BYTES.
 * 3. The next row would bring it over MOST_BYTES. A larger row is a fragment of its own.
 *
 * The bytes are those of hr__table_row_bytes.
 *
 * Tests: test_materialized.c. */
#include "format/scan/materialized.h"

#define BLOCK_ROWS 4096 /* of functions: exec/take.c */
#define ENOUGH_BYTES (2 << 20)
#define MOST_BYTES (4 << 20)

static bool same_file(const hr_coord *a, const hr_coord *b) { return a->instance == b->instance && a->file == b->file; }

/* Whether row b, which comes after row a, may be in one fragment with it. */
static bool may_follow(const hr_coord *a, const hr_coord *b)
{
    if (same_file(a, b))
        return a->fragment == b->fragment;
    return a->instance == b->instance && !a->fragment && !a->row && !b->fragment && !b->row;
}

/* The number of rows from `begin` on of which each may follow the one before it. */
static int64_t rows_together(const hr_table *t, int64_t begin)
{
    int64_t n = hr__origin_in_block(t->origin, begin, INT64_MAX);

    while (begin + n < t->n_rows) {
        hr_coord last = hr__origin_at(t->origin, begin + n - 1), next = hr__origin_at(t->origin, begin + n);

        if (!may_follow(&last, &next))
            break;
        n += hr__origin_in_block(t->origin, begin + n, INT64_MAX);
    }
    return n;
}

int64_t hr__fragment_cut(hr_fragment_cut *c, const hr_table *t, int64_t begin, bool *ends)
{
    hr_coord first = hr__origin_at(t->origin, begin);
    int64_t taken = 0, left;

    *ends = c->n_rows && !may_follow(&c->last, &first);
    left = *ends ? 0 : rows_together(t, begin);
    while (taken < left && !*ends) {
        int64_t n = HR_MIN(left - taken, BLOCK_ROWS - c->n_rows % BLOCK_ROWS);
        int64_t bytes = hr__table_row_bytes(t, begin + taken, n);

        if (c->n_bytes + bytes > MOST_BYTES) {
            n = hr__table_rows_within(t, begin + taken, n, MOST_BYTES - c->n_bytes);
            taken += !n && !c->n_rows ? 1 : n;
            *ends = true;
            break;
        }
        c->n_rows += n;
        c->n_bytes += bytes;
        taken += n;
        *ends = c->n_rows % BLOCK_ROWS == 0 && c->n_bytes >= ENOUGH_BYTES;
    }
    if (*ends)
        *c = (hr_fragment_cut){ 0 };
    else
        c->last = hr__origin_at(t->origin, begin + taken - 1);
    return taken;
}
