/* keys.h - compares rows by some of their columns: for order (order.c) or for equality (row_hash.c).
 *
 * Order. A row's key is a string of bytes that memcmp puts into the wanted order. Each column gives a flag byte (value,
 * NaN, null) and, for a value, its bytes:
 *
 *   integers, dates, times      big-endian, sign flipped
 *   floats                      the sign-magnitude bits made unsigned; -0.0 is 0.0
 *   decimals                    big-endian, sign flipped
 *   string, binary              0 becomes 0 255, the end 0 0
 *   bool, fixed binary          as they are
 *
 * "descending" inverts the bytes of values, not the flag: nulls, and NaN between them and the numbers, come first if
 * `nulls_first`, else last, in both directions, as in Arrow, pandas and Ray. Sorts avoid whole keys: the first one or
 * two words, compared as numbers, mostly decide.
 *
 * Hashes. Rows with equal values have equal hashes: -0.0 equals 0.0, NaN equals NaN, null equals null. Any type, nested
 * ones too. The hashes are the same on all machines, and so are the partitions that they make. */
#ifndef HR_KEYS_H
#define HR_KEYS_H

#include "data/data.h"

#define HR_MAX_KEYS 64 /* columns */

typedef struct hr_order_key {
    int column; /* of the table */
    bool descending;
    bool nulls_first; /* nulls, then NaN, at the beginning */
    bool bare;        /* no nulls and no NaN: the key has no flag byte */
} hr_order_key;

#define HR_ORDER_WORDS 2 /* the most words of a prefix */

typedef struct hr_order {
    int n;
    int words;  /* of a prefix: 1 or 2 */
    bool exact; /* rows of equal prefixes have equal keys */
    bool ends;  /* the last key is a text, and the prefix shows whether it ends there: see hr__order_decides */
    uint16_t end;
    hr_order_key *keys;
    hr_account *account;
} hr_order;

/* Numbers, times, decimals, bool, bytes, text and null; not nested types, not intervals. */
bool hr__type_is_orderable(const hr_type *t);
/* Keys have a fixed width, or are text or bytes; not nested, not intervals. */
bool hr__type_is_groupable(const hr_type *t);
/* Copies keys; at least one. HR_TYPE names the column that has no order. */
hr_status hr__order_new(const hr_schema *schema, const hr_order_key *keys, int n, hr_account *account, hr_order **out,
                        hr_error *err) HR_MUST_USE;
void hr__order_free(hr_order *o); /* NULL is fine */
/* The first o->words words of the keys of rows [begin, begin + n): word w of row i becomes out[i * o->words + w]. A
 * smaller word 0 is a smaller key; then word 1. Equal prefixes decide if o->exact. */
void hr__order_prefixes(const hr_order *o, const hr_table *t, int64_t begin, int64_t n, uint64_t *out);
/* Rows with this whole prefix have equal keys. */
static inline bool hr__order_decides(const hr_order *o, const uint64_t *prefix)
{
    return o->exact || (o->ends && (uint16_t)prefix[o->words - 1] == o->end);
}
/* Compares the whole keys of two rows: < 0, 0, > 0. The tables have the schema of the order. */
int hr__order_compare(const hr_order *o, const hr_table *a, int64_t i, const hr_table *b, int64_t j);
/* Appends the whole key of a row. */
void hr__order_bytes(const hr_order *o, const hr_table *t, int64_t row, hr_text *out);

/* The 64-bit hashes of rows [begin, begin + n) over n_columns columns of t (`columns` NULL: the first n_columns). */
void hr__rows_hash(const hr_table *t, const int *columns, int n_columns, int64_t begin, int64_t n, uint64_t *out);
void hr__values_hash(const hr_array *a, int64_t begin, int64_t n, uint64_t *out); /* the same of one column */
/* True if row i of a and row j of b have equal values in a's columns ca[k] and b's columns cb[k], of equal types: null
 * equals null, NaN equals NaN, -0.0 equals 0.0. */
bool hr__rows_equal(const hr_table *a, const int *ca, int64_t i, const hr_table *b, const int *cb, int64_t j,
                    int n_columns);

#endif
