/* sort_rows.h - sorts the rows of one or several tables. Private to src/op.
 *
 * An *item* is a row with 64 bits of its sort key: those from the first bit in which any two rows differ. Items are
 * sorted by these bits with a stable radix sort; equal items by the rest of the prefix; equal prefixes by comparing the
 * rows. */
#ifndef HR_SORT_ROWS_H
#define HR_SORT_ROWS_H

#include "data/keys.h"

typedef struct hr_sort_item {
    uint64_t key;
    uint32_t range, row; /* the row's number in its table */
} hr_sort_item;

/* Rows [begin, begin + n) of a table. Equal rows come in the order of ranges, then of rows. */
typedef struct hr_sort_range {
    hr_table *table; /* borrowed */
    int64_t begin, n;
} hr_sort_range;

/* Memory for sorting, reused. Empty: all zero except the account. */
typedef struct hr_sort_space {
    hr_account *account;
    hr_sort_item *items; /* the result: item i is the i-th row */
    void *spare;
    uint64_t *words; /* prefixes, in the order of the ranges */
    int64_t cap;
    int64_t *bases; /* of each range: the place in `words` of row 0 of its table */
    int64_t cap_bases;
} hr_sort_space;
void hr__sort_space_clear(hr_sort_space *s);

/* Sorts all rows of the ranges into s->items. *in_order: they were sorted before. Fewer than 2^31 rows. */
hr_status hr__sort_rows(hr_sort_space *s, const hr_order *o, const hr_sort_range *ranges, int n_ranges, int64_t *n,
                        bool *in_order, hr_error *err) HR_MUST_USE;
/* Puts the numbers (32 bits each) of the rows of t whose prefixes are at most `words` into s->spare. */
hr_status hr__sort_not_above(hr_sort_space *s, const hr_order *o, const hr_table *t, const uint64_t *words, int64_t *n,
                             hr_error *err) HR_MUST_USE;
/* Adds a range to the list, as hr__sort_parts(n) ranges that hr__sort_pick can take. The caller makes room for them. */
void hr__sort_add_range(hr_sort_range *ranges, int *n_ranges, hr_table *table, int64_t begin, int64_t n);
int64_t hr__sort_parts(int64_t n_rows); /* the most ranges that n_rows rows of a table become */
/* The first n rows of s->items: the first columns of their tables, as many as `schema` has, with this origin. */
hr_status hr__sort_pick(hr_sort_space *s, const hr_mem *mem, hr_schema *schema, const hr_sort_range *ranges,
                        int n_ranges, int64_t n, hr_origin *origin, hr_table **out, hr_error *err) HR_MUST_USE;

#endif
