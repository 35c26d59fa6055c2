/* pick.h - what pick.c, pick_runs.c and pick_rows.c share: ways to pick rows of many arrays. Private to src/data. */
#ifndef HR_CORE_PICK_H
#define HR_CORE_PICK_H

#include "data/data.h"

#define NEAR_BYTES 16 /* text up to this length is copied by one load and store, where both sides have room for it */

static inline uint32_t part_of(uint32_t pick) { return pick >> HR_PICK_BITS; }
static inline int64_t row_of(uint32_t pick) { return pick & (HR_PICK_ROWS - 1); }

static inline bool may_be_null(const hr_array *a)
{
    return a->buffers[0] && atomic_load_explicit(&a->null_count, memory_order_relaxed) != 0;
}

/* The n rows of one column: `parts` are that column's, n_parts. */
typedef hr_status hr_pick_column_fn(void *context, hr_type *type, hr_array *const *parts, hr_array **out,
                                    hr_error *err);

/* Consecutive rows of one part. */
typedef struct hr_stretch {
    uint32_t pick; /* the first */
    uint32_t n;
} hr_stretch;

/* Which rows, all within their parts: the rows of the stretches, one after the other, are numbered 0 to n_from - 1;
 * places[0, n) are the numbers of the rows wanted. */
typedef struct hr_picked_rows {
    const hr_stretch *stretches;
    int64_t n_stretches, n_from;
    const uint32_t *places;
    int64_t n;
} hr_picked_rows;

/* A table of n rows, made column by column from the same column of all tables; `rows` not NULL: columns that go by rows
 * (pick_rows.c) all at once. Errors name the column. Sets `sole`. pick.c */
hr_status hr__pick_columns(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, int64_t n,
                           const hr_picked_rows *rows, hr_origin *origin, hr_pick_column_fn *fn, void *context,
                           hr_table **out, hr_error *err) HR_MUST_USE;

/* Whether some columns go by rows and it pays, for n rows out of n_from. pick_rows.c */
bool hr__goes_by_rows(const hr_mem *mem, const hr_schema *schema, hr_table *const *parts, int n_parts, int64_t n,
                      int64_t n_from);
/* Sets columns[k] for the columns that go by rows, on failure for some of them; the caller's. pick_rows.c */
hr_status hr__pick_rows(const hr_mem *mem, const hr_schema *schema, hr_table *const *parts, int n_parts,
                        const hr_picked_rows *rows, hr_array **columns, hr_error *err) HR_MUST_USE;

#endif
