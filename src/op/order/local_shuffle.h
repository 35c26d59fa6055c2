/* local_shuffle.h - what the two operators of a local shuffle share.
 *
 *   local_shuffle  STREAM  collects rows by windows and draws their order: *lots*, mere lists of rows
 *   local_gather   MAP     a lot becomes a table: each row is copied once, from where it was decoded, on all threads
 *
 * A lot travels as a table of as many rows, of one column without values. */
#ifndef HR_LOCAL_SHUFFLE_H
#define HR_LOCAL_SHUFFLE_H

#include "op/operators.h"

/* Some windows of rows as they came, and their order after the first layer; shared by the lots that have rows of it. */
typedef struct hr_chunk {
    atomic_int refs;
    int64_t n_rows;
    hr_table **parts; /* of at most HR_PICK_ROWS rows each */
    int64_t n_parts, cap_parts;
    uint32_t *order; /* picks: row i of the first layer's result; NULL: not drawn yet */
} hr_chunk;

typedef struct hr_lot {
    hr_chunk *before, *after; /* `before` NULL: there is none */
    hr_schema *schema;        /* that the rows come out with; parts may still have an older one */
    uint32_t *picks;          /* n rows; parts count through, those of `before` first */
    int64_t n;
    bool drawn;   /* the rows come out in this order; else they have to be permuted */
    uint64_t key; /* by this one */
} hr_lot;
hr_lot *hr__lot_of(const hr_table *t); /* borrowed; NULL: t is no lot */

#endif
