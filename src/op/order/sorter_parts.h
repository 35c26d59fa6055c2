/* sorter_parts.h - what the files of the external sort share. Private to sorter*.c.
 *
 *   sorter.c         takes tables, holds or spills runs, opens block parts
 *   sorter_runs.c    runs, and jobs: several runs written as one, in slices that any thread does
 *   sorter_merge.c   runs read as one, in order
 *   sorter_cuts.c    cuts, and the choice of cuts for parts of about equal size
 *
 * A *cut* is a place in the whole order: the prefix of a key, its first bytes if the prefix may be incomplete and, if
 * the key is complete, run and row, which distinguish equal keys. So cuts divide rows evenly even if many rows have the
 * same key.
 *
 * Locks: `lock` guards the list of jobs, their counters, and the bound of wanted rows. No thread waits for a slice of
 * another thread: the thread that does the last slice of a job completes the job. */
#ifndef HR_SORTER_PARTS_H
#define HR_SORTER_PARTS_H

#include "op/order/sorter.h"

typedef struct hr_cut {
    uint64_t words[HR_ORDER_WORDS];
    uint8_t *bytes; /* NULL: the prefix is the whole key */
    int64_t n_bytes;
    bool whole; /* the key is complete */
    int64_t run, row;
    int64_t weight; /* of a sample: the rows that it represents */
} hr_cut;

typedef struct hr_sort_page {
    hr_spilled_table place;
    int64_t first_row; /* in the run */
    hr_cut first;
} hr_sort_page;

typedef struct hr_sort_run {
    hr_table *table; /* in memory, or */
    hr_sort_page *pages;
    int64_t n_pages, cap;
    int64_t n_rows, n_bytes; /* n_bytes: in memory */
} hr_sort_run;

/* Makes one run of several. */
typedef struct hr_sort_job {
    struct hr_sort_job *next;
    hr_sort_run **inputs; /* owned */
    int64_t n_inputs;
    hr_sort_run *target;
    hr_cut *cuts; /* n_slices - 1 */
    int64_t n_slices, next_slice, n_done;
    hr_sort_run *slices; /* the results, pages only */
    int64_t n_bytes;
} hr_sort_job;

struct hr_sorter {
    hr_account *account;
    const char *name;
    hr_schema *schema, *visible; /* of tables in, and out */
    hr_order *order;
    hr_spill_file *spill;
    int64_t allowance, page_bytes, fan, slice_bytes;
    int64_t may_hold; /* the allowance, or less if memory is short */
    int64_t n_parts;  /* 0: block parts have about equal size */
    int64_t n_first;  /* 0: all rows are wanted */
    hr_sort_run **runs;
    int64_t n_runs, cap_runs;
    int64_t held;      /* bytes of runs in memory outside jobs */
    int64_t held_rows; /* rows of these runs */
    hr_table **pool;
    int64_t n_pool, cap_pool, pool_bytes;
    hr_sort_space space; /* of the thread that adds */
    hr_mutex lock;
    hr_sort_job *jobs; /* jobs with unfinished slices */
    int64_t n_rows, n_bytes, n_passes;
    bool has_bound; /* n_first rows are not above `bound`; guarded by the lock */
    uint64_t bound[HR_ORDER_WORDS];
    hr_cut *cuts; /* n_block_parts - 1 */
    int64_t n_block_parts;
};

/* --- sorter_cuts.c: places in the whole order ------------------------------------------------------------------- */

void hr__cut_clear(hr_cut *c);
void hr__cuts_free(hr_cut *cuts, int64_t n); /* NULL is fine */
/* The cut before a row of a table, without run and row. */
hr_status hr__cut_at(const hr_sorter *s, const hr_table *t, int64_t row, hr_cut *out, hr_error *err) HR_MUST_USE;
int hr__compare_places(int64_t run_a, int64_t row_a, int64_t run_b, int64_t row_b);
/* A cut with an incomplete key comes before all rows that begin with it. */
int hr__compare_cuts(const hr_sorter *s, const hr_cut *a, const hr_cut *b);
/* The first of rows [begin, end) of t that does not come before the cut. Row i of t is row first_place + i of run
 * `run`. */
hr_status hr__cut_find(const hr_sorter *s, const hr_table *t, int64_t begin, int64_t end, int64_t run,
                       int64_t first_place, const hr_cut *c, int64_t *out, hr_error *err) HR_MUST_USE;
/* *n: the wanted number of about equal parts; becomes the actual number. *out: the cuts between them. */
hr_status hr__choose_cuts(hr_sorter *s, hr_sort_run **runs, int64_t n_runs, int64_t *n, hr_cut **out,
                          hr_error *err) HR_MUST_USE;

/* --- sorter_merge.c: several runs read as one ------------------------------------------------------------------- */

/* Reads the rows of the runs between two cuts (NULL: none). Borrows runs and cuts. space NULL: the merge has its own.
 * `chunk` > 0: tables of about `chunk` bytes; 0: as they come. */
hr_status hr__merge_open(hr_sorter *s, hr_sort_run **runs, int64_t n_runs, const hr_cut *lower, const hr_cut *upper,
                         hr_schema *schema, const hr_mem *mem, hr_sort_space *space, int64_t chunk, hr_reader **out,
                         hr_error *err) HR_MUST_USE;

/* --- sorter_runs.c: runs and jobs ------------------------------------------------------------ */

void hr__sort_run_free(hr_sorter *s, hr_sort_run *r); /* NULL is fine */
void hr__sort_job_free(hr_sorter *s, hr_sort_job *j);
/* Starts a job that replaces runs [from, from + n) by one run on disk; hr__sorter_help does its slices. */
hr_status hr__sorter_start_job(hr_sorter *s, int64_t from, int64_t n, int64_t slice_bytes, hr_error *err) HR_MUST_USE;

#endif
