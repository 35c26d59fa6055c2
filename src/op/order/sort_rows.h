/* sort_rows.h - rows of one or several tables into order. Private to src/op.
 *
 * An *item* is a row with the 64 bits of its key that decide most: those from the first bit on in which any two of the
 * rows differ. Items are sorted by these bits by radix, stable; where they are equal, by the rest of the prefix, and
 * where that does not decide either, rows are compared. */
#ifndef HR_SORT_ROWS_H
#define HR_SORT_ROWS_H

#include "data/keys.h"

typedef struct hr_sort_item {
    uint64_t key;
    uint32_t range, row; /* the row's number in its table */
} hr_sort_item;

/* Rows [begin, begin + n) of tables[k], in the order in which they stand among equal ones. */
typedef struct hr_sort_range {
    hr_table *table; /* borrowed */
    int64_t begin, n;
} hr_sort_range;

/* Memory for sorting, used again and again. All-zero, with account, is empty. */
typedef struct hr_sort_space {
    hr_account *account;
    hr_sort_item *items; /* what comes out: item i is the i-th row */
    void *spare;
    uint64_t *words; /* prefixes, as the ranges are */
    int64_t cap;
    int64_t *bases; /* of each range: where row 0 of its table would have its prefix */
    int64_t cap_bases;
} hr_sort_space;
void hr__sort_space_clear(hr_sort_space *s);

/* All rows of the ranges in order, into s->items. *in_order: they already were. Less than 2^31 rows. */
hr_status hr__sort_rows(hr_sort_space *s, const hr_order *o, const hr_sort_range *ranges, int n_ranges, int64_t *n,
                        bool *in_order, hr_error *err) HR_MUST_USE;
/* The rows of t whose prefixes are not above these words: their numbers, 32 bits each, in s->spare. */
hr_status hr__sort_not_above(hr_sort_space *s, const hr_order *o, const hr_table *t, const uint64_t *words, int64_t *n,
                             hr_error *err) HR_MUST_USE;
/* Adds a range to the list, in parts that hr__sort_pick can take. Room for them has to be there: see hr__sort_parts. */
void hr__sort_add_range(hr_sort_range *ranges, int *n_ranges, hr_table *table, int64_t begin, int64_t n);
int64_t hr__sort_parts(int64_t n_rows); /* as how many ranges so many rows of a table are added, at most */
/* The first n rows as hr__sort_rows left them in s, the first columns of their tables, with this origin. */
hr_status hr__sort_pick(hr_sort_space *s, const hr_mem *mem, hr_schema *schema, const hr_sort_range *ranges,
                        int n_ranges, int64_t n, hr_origin *origin, hr_table **out, hr_error *err) HR_MUST_USE;

#endif
