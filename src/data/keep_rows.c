/* keep_rows.c - the rows of a table that a mask selects, with their coordinates.
 *
 * All rows: the result is the same table. A single range of at least half of the rows is a slice; other rows are
 * copied, so that a few rows do not hold the memory of many.
 *
 * Tests: test_filter.c, test_slice.c. */
#include "data/table.h"

/* Counts the rows, and finds the first and the last. The loops over all rows have no branches: a CPU cannot predict the
 * mask. */
static int64_t count_kept(const uint8_t *keep, int64_t n, int64_t *first, int64_t *last)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        kept += keep[i] != 0;
    *first = *last = 0;
    if (kept == 0)
        return 0;
    while (!keep[*first])
        ++*first;
    for (*last = n - 1; !keep[*last];)
        --*last;
    return kept;
}

/* Also writes the row after the last selected one, which does not count. */
static hr_status take_kept(const hr_mem *mem, const hr_table *in, const uint8_t *keep, int64_t n_kept, hr_table **out,
                           hr_error *err)
{
    const bool narrow = in->n_rows <= INT32_MAX;
    void *index = hr__alloc(mem->account, ((size_t)n_kept + 1) * (narrow ? 4 : 8));
    int32_t *small = index;
    int64_t *large = index, n = 0;
    hr_status st;

    if (!index)
        return hr__error_memory(err, "filter", n_kept * (narrow ? 4 : 8));
    for (int64_t i = 0; narrow && i < in->n_rows; i++) {
        small[n] = (int32_t)i;
        n += keep[i] != 0;
    }
    for (int64_t i = 0; !narrow && i < in->n_rows; i++) {
        large[n] = i;
        n += keep[i] != 0;
    }
    st = hr__table_take(mem, in, index, narrow ? 4 : 8, n, out, err);
    hr__free(index);
    return st;
}

hr_status hr__table_keep(const hr_mem *mem, const hr_table *in, const uint8_t *keep, hr_table **out, hr_error *err)
{
    int64_t first, last, n_kept = count_kept(keep, in->n_rows, &first, &last);

    *out = NULL;
    if (n_kept == 0)
        return HR_OK;
    if (n_kept == in->n_rows) {
        *out = hr_table_ref((hr_table *)in);
        return HR_OK;
    }
    if (last - first + 1 == n_kept && n_kept >= in->n_rows / 2)
        return hr_table_slice(in, first, n_kept, out, err);
    return take_kept(mem, in, keep, n_kept, out, err);
}
