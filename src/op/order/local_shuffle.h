/* local_shuffle.h - what the two operators of a local shuffle share.
 *
 *   local_shuffle  STREAM  collects rows by windows and draws their order: *pick lists*, which say where rows lie
 *   local_gather   MAP     a pick list becomes a table: each row is copied once, from where it was decoded, on all
 *   threads
 *
 * A pick list travels as the payload of a table of as many rows. */
#ifndef HR_LOCAL_SHUFFLE_H
#define HR_LOCAL_SHUFFLE_H

#include "op/operators.h"

/* Some windows of rows as they came, and their order after the first layer; shared by the pick lists that have rows of
 * it. */
typedef struct hr_chunk {
    atomic_int refs;
    int64_t n_rows;
    hr_table **parts; /* of at most HR_PICK_ROWS rows each */
    int64_t n_parts, cap_parts;
    uint32_t *order; /* picks: row i of the first layer's result; NULL: not drawn yet */
} hr_chunk;

typedef struct hr_pick_list {
    hr_payload base;
    hr_chunk *before, *after; /* `before` NULL: there is none */
    hr_schema *schema;        /* that the rows come out with; parts may still have an older one */
    uint32_t *picks;          /* n rows; parts count through, those of `before` first */
    int64_t n, n_bytes;       /* n_bytes: of these rows, about */
    bool drawn;               /* the rows come out in this order; else they have to be permuted */
    uint64_t key;             /* by this one */
} hr_pick_list;
extern const hr_payload_class hr__pick_list_class;

#endif
