/* sorter.h - an external sort, used by sort.c. Private to src/op.
 *
 * Each input table is sorted by itself (on several threads) and becomes a *run*, in the order of arrival. Above half of
 * the allowance all runs in memory are merged into one run on disk: a list of *pages*; the key of each page's first row
 * stays in memory. At the end sampled keys cut the order into block parts; each block part merges its share of every
 * run.
 *
 *   runs in memory     block part = rows between two cuts, of each run; sorted together, picked once
 *   runs on disk       the same, page by page: emits rows that come before all rows not loaded yet
 *
 * If only the first k rows are wanted, tables are cut to k rows; runs in memory are merged into one of k rows when they
 * have 2k; and rows above the prefix of the k-th row are dropped before sorting. If k rows do not fit in memory, they
 * spill as all rows would.
 *
 * The order is (key, run, place in the run): it is stable, and does not depend on cuts, spilling or threads. Writing a
 * run is divided into slices; threads that have tables to sort do them first (hr__sorter_help). */
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
    int n_hidden;       /* the last columns, which only order rows and are not in the output */
    int64_t allowance;  /* bytes to hold */
    int64_t step_bytes; /* that a thread sorts at a time; 0: the sorter's own */
    /* > 0: the first key is a bare uint64 less than n_parts; each value is a block part of one table. */
    int64_t n_parts;
    int64_t
        /* > 0: only the first n_first rows are wanted; more may come out. Not with n_parts */
        n_first;
    hr_account *account;
} hr_sorter_options;

/* schema: of the input tables. HR_TYPE: a column without an order. */
hr_status hr__sorter_new(hr_schema *schema, const hr_sorter_options *options, hr_sorter **out,
                         hr_error *err) HR_MUST_USE;
void hr__sorter_free(hr_sorter *s); /* NULL is fine */

/* Any thread. The table, sorted: a new one or the same one. With n_first, rows beyond the bound are dropped. */
hr_status hr__sorter_sort(hr_sorter *s, const hr_mem *mem, hr_sort_space *space, const hr_table *t, hr_table **out,
                          hr_error *err) HR_MUST_USE;
/* Any thread: does one slice of a job, if there is one. *did: it did. */
hr_status hr__sorter_help(hr_sorter *s, hr_sort_space *space, bool *did, hr_error *err) HR_MUST_USE;

/* The thread that adds: changes the allowance, down or up again. */
void hr__sorter_may_hold(hr_sorter *s, int64_t allowance);
/* One thread at a time: adds the next table, which is sorted. Takes it, even on failure. */
hr_status hr__sorter_add(hr_sorter *s, hr_table *takes, hr_error *err) HR_MUST_USE;
/* The last table was added, and no other thread uses the sorter. */
hr_status hr__sorter_end(hr_sorter *s, int64_t *n_block_parts, hr_error *err) HR_MUST_USE;

/* Any thread, once for each block part. The tables' origins are (0, 0, 0, place in the whole order). */
hr_status hr__sorter_read(hr_sorter *s, int64_t block_part, const hr_mem *mem, hr_reader **out, int64_t *estimate,
                          hr_error *err) HR_MUST_USE;

typedef struct hr_sorter_counts {
    int64_t n_rows, n_runs, n_spilled_runs, n_passes;
    hr_spill_counts spill;
} hr_sorter_counts;
/* For tests: what the sorter did, after the end. */
hr_sorter_counts hr__sorter_counts(const hr_sorter *s);

#endif
