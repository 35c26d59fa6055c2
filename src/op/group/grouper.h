/* grouper.h - numbers keys: equal keys get equal numbers. Used for groups and distinct values. */
#ifndef HR_GROUPER_H
#define HR_GROUPER_H

#include "data/keys.h"
#include "data/data.h"

/* Numbers are 0, 1, 2, ... in the order of the keys' first rows. Not thread-safe. Null is a key like others, NaN equals
 * NaN, -0.0 equals 0.0. At most 2^32 - 2 keys. */
typedef struct hr_grouper hr_grouper;

/* For these columns of tables of the schema. HR_TYPE names a column that cannot be a key. n_columns 0: all rows have
 * one key. */
hr_status hr__grouper_new(const hr_schema *schema, const int *columns, int n_columns, hr_account *account,
                          hr_grouper **out, hr_error *err) HR_MUST_USE;
void hr__grouper_free(hr_grouper *g); /* NULL is fine */
int64_t hr__grouper_n(const hr_grouper *g);
/* ids[i]: the number of row begin + i, for n rows; a new key gets the next number. */
hr_status hr__grouper_add(hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint32_t *ids,
                          hr_error *err) HR_MUST_USE;
/* The key columns, in the order of numbers: out[n_columns], new. */
hr_status hr__grouper_keys(const hr_grouper *g, const hr_mem *mem, hr_array **out, hr_error *err) HR_MUST_USE;
/* Hashes of the keys of rows [begin, begin + n); adds no key. */
void hr__grouper_hash(const hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint64_t *out);
/* A hash of each key, borrowed. Equal keys of all groupers have equal hashes. */
const uint64_t *hr__grouper_hashes(const hr_grouper *g);
int64_t hr__grouper_bytes(const hr_grouper *g); /* bytes that the grouper holds */

#endif
