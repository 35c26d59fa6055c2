/* local_shuffle.h - what the two operators of a local shuffle share.
 *
 *   local_shuffle  STREAM  collects rows in windows and draws their order as *pick lists* of where rows lie
 *   local_gather   MAP     a pick list becomes a table, on all threads: each row is copied once
 *
 * A pick list travels as the payload of a table with the same number of rows. */
#ifndef HR_LOCAL_SHUFFLE_H
#define HR_LOCAL_SHUFFLE_H

#include "op/operators.h"

/* Input rows of one or several windows, and their order after the first layer. Shared by the pick lists of its rows. */
typedef struct hr_chunk {
    atomic_int refs;
    int64_t n_rows;
    hr_table **parts; /* of at most HR_PICK_ROWS rows each */
    int64_t n_parts, cap_parts;
    uint32_t *order; /* picks: row i of the first layer's result; NULL: not drawn */
} hr_chunk;

typedef struct hr_pick_list {
    hr_payload base;
    hr_chunk *before, *after; /* `before` NULL: there is none */
    hr_schema *schema;        /* of the output rows; parts may have an older schema */
    uint32_t *picks;          /* n rows; parts are numbered through, those of `before` first */
    int64_t n, n_bytes;       /* n_bytes: of these rows, about */
    bool drawn;               /* the output has this order; otherwise local_gather permutes the rows */
    uint64_t key;             /* of that permutation */
} hr_pick_list;
extern const hr_payload_class hr__pick_list_class;

#endif
