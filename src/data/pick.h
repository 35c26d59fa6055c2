/* pick.h - what pick.c and pick_runs.c share, the two ways to pick rows of many arrays. Private to src/data. */
#ifndef HR_CORE_PICK_H
#define HR_CORE_PICK_H

#include "data/data.h"

#define NEAR_BYTES 16 /* text up to this length is copied by one load and store, where both sides have room for it */

static inline uint32_t part_of(uint32_t pick) { return pick >> HR_PICK_BITS; }
static inline int64_t row_of(uint32_t pick) { return pick & (HR_PICK_ROWS - 1); }

/* The n rows of one column: `parts` are that column's, n_parts. */
typedef hr_status hr_pick_column_fn(void *context, hr_type *type, hr_array *const *parts, hr_array **out,
                                    hr_error *err);
/* A table of n rows, made column by column from the same column of all tables. Errors name the column. Sets `sole`.
 * pick.c */
hr_status hr__pick_columns(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, int64_t n,
                           hr_origin *origin, hr_pick_column_fn *fn, void *context, hr_table **out,
                           hr_error *err) HR_MUST_USE;

#endif
