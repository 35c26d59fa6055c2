/* grouper.h - equal keys get equal numbers: what groups and distinct values are made of. */
#ifndef HR_GROUPER_H
#define HR_GROUPER_H

#include "data/keys.h"
#include "data/data.h"

/* Numbers 0, 1, 2, ... in the order in which keys are first seen. Not thread-safe. Null is a key like others, NaN is
 * NaN, -0.0 is 0.0. At most 2^32 - 2 keys. */
typedef struct hr_grouper hr_grouper;

/* Of these columns of tables of the schema; HR_TYPE names one that cannot be a key. n_columns = 0: all rows have one
 * key. */
hr_status hr__grouper_new(const hr_schema *schema, const int *columns, int n_columns, hr_account *account,
                          hr_grouper **out, hr_error *err) HR_MUST_USE;
void hr__grouper_free(hr_grouper *g); /* NULL is fine */
int64_t hr__grouper_n(const hr_grouper *g);
/* ids[i]: the number of row begin + i, for n rows; keys that are new get the next ones. */
hr_status hr__grouper_add(hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint32_t *ids,
                          hr_error *err) HR_MUST_USE;
/* The key columns, in the order of numbers: out[n_columns], new. */
hr_status hr__grouper_keys(const hr_grouper *g, const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;
/* Hashes of the keys of rows [begin, begin + n), whether they are there or not. */
void hr__grouper_hash(const hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint64_t *out);
/* A hash of each key, equal for equal keys of any grouper, borrowed. */
const uint64_t *hr__grouper_hashes(const hr_grouper *g);
int64_t hr__grouper_bytes(const hr_grouper *g); /* that it holds */

#endif
