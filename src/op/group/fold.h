/* fold.h - rows become partial results, and partial results merge into groups. Private to src/op. */
#ifndef HR_FOLD_H
#define HR_FOLD_H

#include "op/group/aggregate.h"
#include "op/group/grouper.h"

/* A group-by, bound to its input's schema. Immutable. */
typedef struct hr_grouping {
    int n_keys, n_aggs;
    int *keys;          /* columns of the input */
    int *columns;       /* column of each aggregate; -1: rows */
    int *first_columns; /* 0, 1, ...: the key columns of partial results */
    hr_agg *aggs;       /* bound */
    hr_schema *in;
    hr_schema *partial; /* keys, states */
    hr_schema *out;     /* keys, results */
    bool has_values;    /* an aggregate of values is among them */
} hr_grouping;
hr_status hr__grouping_new(const hr_schema *in, const char *const *keys, int n_keys, const hr_agg *aggs, int n_aggs,
                           hr_grouping **out, hr_error *err) HR_MUST_USE;
void hr__grouping_free(hr_grouping *g); /* NULL is fine */

/* The partial results of rows, in the order of the groups' first rows. hashes (may be NULL; new, hr__free): of each
 * group. */
hr_status hr__grouping_partial(const hr_grouping *g, const hr_table *rows, const hr_mem *mem, hr_table **out,
                               uint64_t **hashes, hr_error *err) HR_MUST_USE;
/* Hashes of the keys of partial results, *out new. */
hr_status hr__grouping_hashes(const hr_grouping *g, const hr_table *partial, hr_account *account, uint64_t **out,
                              hr_error *err) HR_MUST_USE;

/* Merges partial results in the order in which they are added. */
typedef struct hr_fold hr_fold;
hr_status hr__fold_new(const hr_grouping *g, hr_account *account, hr_fold **out, hr_error *err) HR_MUST_USE;
void hr__fold_free(hr_fold *f); /* NULL is fine */
hr_status hr__fold_add(hr_fold *f, const hr_table *partial, hr_error *err) HR_MUST_USE;
int64_t hr__fold_n(const hr_fold *f);
int64_t hr__fold_bytes(const hr_fold *f);
/* Without keys it is one row, even if no partial result came. */
hr_status hr__fold_result(hr_fold *f, const hr_mem *mem, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__fold_partial(hr_fold *f, const hr_mem *mem, hr_table **out, hr_error *err) HR_MUST_USE;

#endif
