/* sorter.h - an external sort: what `sort` and `random_shuffle` have in common. Private to src/op.
 *
 * Tables come in order of their own (sorted by several threads), and are kept as *runs* in the order in which they
 * came. Above half of the allowance all runs in memory are merged into one on disk, a list of *pages*, of which the
 * first row's key stays in memory. At the end the order is cut into block parts by keys taken from samples; each block
 * part merges its share of every run.
 *
 *   runs in memory     block part = rows between two cuts, of each run; sorted together, picked once
 *   runs on disk       the same, but page by page: what is sure to come before all that is not loaded yet is given
 *
 * Where only the first k rows are wanted, tables are cut to k rows, runs in memory are merged into one of k rows
 * whenever they have twice as many, and the prefix of the k-th row keeps rows above it from being sorted at all. If k
 * rows are too many for memory, they go to the disk as all rows would.
 *
 * The order is (key, run, place in the run), so it is stable, and nothing of it depends on where it is cut, on what was
 * spilled, or on who did it. Writing a run is cut into slices which whoever comes by does: threads with tables to sort
 * help (hr__sorter_help). */
#ifndef HR_SORTER_H
#define HR_SORTER_H

#include "format/format.h"
#include "format/spill/spill_file.h"
#include "op/order/sort_rows.h"

typedef struct hr_sorter hr_sorter;

typedef struct hr_sorter_options {
    const char *name; /* for errors: "sort"; static */
    const hr_order_key *keys;
    int n_keys;
    int n_hidden;      /* the last columns, which only order: they do not come out */
    int64_t allowance; /* bytes to hold */
    /* > 0: the first key is a bare uint64 of values below this, and each value is a block part, of one table. */
    int64_t n_parts;
    int64_t
        /* > 0: only so many rows at the beginning of the order are wanted; more may come out. Not with n_parts */
        n_first;
    hr_account *account;
} hr_sorter_options;

/* schema: of the tables that come in. Errors are the user's: HR_TYPE for columns without order. */
hr_status hr__sorter_new(hr_schema *schema, const hr_sorter_options *options, hr_sorter **out,
                         hr_error *err) HR_MUST_USE;
void hr__sorter_free(hr_sorter *s); /* NULL is fine */

/* Any thread. A table in order, of memory of its own or the same one; with n_first, without rows that are surely not
 * wanted. */
hr_status hr__sorter_sort(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *t, hr_table **out,
                          hr_error *err) HR_MUST_USE;
/* Any thread: does a part of what is to be written, if anything is. */
hr_status hr__sorter_help(hr_sorter *s, hr_sort_space *space, bool *did, hr_error *err) HR_MUST_USE;

/* By whoever adds. The allowance, if there is less memory now, or no less any more. */
void hr__sorter_may_hold(hr_sorter *s, int64_t allowance);
/* One thread at a time. A table that is in order, next in turn. Takes it, even on failure. */
hr_status hr__sorter_add(hr_sorter *s, hr_table *takes, hr_error *err) HR_MUST_USE;
/* No more will come, nobody helps any more. */
hr_status hr__sorter_end(hr_sorter *s, int64_t *n_block_parts, hr_error *err) HR_MUST_USE;

/* Any thread, each block part once. Tables come with origins: (0, 0, 0, place in the whole order). */
hr_status hr__sorter_read(hr_sorter *s, int64_t block_part, const hr_mem *mem, hr_reader **out, int64_t *estimate,
                          hr_error *err) HR_MUST_USE;

typedef struct hr_sorter_counts {
    int64_t n_rows, n_runs, n_spilled_runs, n_passes;
    hr_spill_counts spill;
} hr_sorter_counts;
/* For tests: what the sorter did, after the end. */
hr_sorter_counts hr__sorter_counts(const hr_sorter *s);

#endif
