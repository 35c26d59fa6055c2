/* table.h - rows: a schema, a column for each field, and the coordinates of the rows. */
#ifndef HR_TABLE_H
#define HR_TABLE_H

#include "data/array.h"

/* A row's coordinate: its place in the sources. Field by field, in this order, it defines the canonical order of a
 * source's rows. It never depends on threads or ranks. Seeds and positions are made from it. */
typedef struct hr_coord {
    int32_t instance; /* which source of the plan, in canonical order: union(ds, ds) has two */
    int32_t file;
    int32_t fragment;
    int32_t spare;   /* zero */
    int64_t row;     /* in the fragment */
    int64_t ordinal; /* among the rows made from one source row (flat_map, generators) */
} hr_coord;

/* Coordinates that follow each other. Row j has `first` with row + j (by_ordinal false) or ordinal + j (true). */
typedef struct hr_run_coords {
    hr_coord first;
    int64_t n;
    bool by_ordinal;
} hr_run_coords;
typedef struct hr_origin hr_origin; /* immutable, counted */

hr_status hr__origin_new(const hr_run_coords *runs, int64_t n_runs, hr_origin **out,
                         hr_error *err) HR_MUST_USE; /* merges neighbours */
hr_origin *hr__origin_ref(hr_origin *o);
void hr__origin_unref(hr_origin *o);
int64_t hr__origin_rows(const hr_origin *o);
/* For tests: the number of stored stretches, with and without picks. */
int64_t hr__origin_stretches(const hr_origin *o);
/* The consecutive rows from `row` on, up to the end of its stretch. */
hr_run_coords hr__origin_run(const hr_origin *o, int64_t row);
/* The number of rows from `row` on in the same block: same instance, file, fragment and source row / block_rows. */
int64_t hr__origin_in_block(const hr_origin *o, int64_t row, int64_t block_rows);
hr_coord hr__origin_at(const hr_origin *o, int64_t row); /* binary search */
hr_status hr__origin_slice(const hr_origin *o, int64_t begin, int64_t n, hr_origin **out, hr_error *err) HR_MUST_USE;
hr_status hr__origin_concat(hr_origin *const *parts, int n, hr_origin **out, hr_error *err) HR_MUST_USE;
hr_status hr__origin_take(const hr_origin *o, const void *idx, int idx_bytes, int64_t n, hr_origin **out,
                          hr_error *err) HR_MUST_USE;
/* n rows made from the source row `first`: ordinals first.ordinal, +1, ... */
hr_status hr__origin_made(hr_coord first, int64_t n, hr_origin **out, hr_error *err) HR_MUST_USE;
/* The same with another instance in every coordinate. */
hr_status hr__origin_instance(const hr_origin *o, int32_t instance, hr_origin **out, hr_error *err) HR_MUST_USE;

/* Data of a table beside its columns: a C struct that an operator passes to the operator downstream, whose first member
 * is the hr_payload. A payload belongs to tables; a request for a payload of another class is HR_BUG. */
typedef struct hr_payload hr_payload;
typedef struct hr_payload_class {
    const char *name;
    int64_t (*bytes)(const hr_payload *p); /* of memory, counted by hr__table_bytes_used */
    void (*free)(hr_payload *p);
} hr_payload_class;
struct hr_payload {
    const hr_payload_class *cls;
    atomic_int refs; /* tables that have it */
};

struct hr_table {
    atomic_int refs;
    int64_t n_rows;
    hr_schema *schema;
    hr_array **columns;  /* schema->n */
    hr_origin *origin;   /* NULL: unknown (a table from outside, before a plan reads it) */
    hr_payload *payload; /* NULL: none */
    bool sole;           /* made for one consumer: the last holder may write into its buffers */
};
/* Shares schema and origin; takes the arrays, even on failure. Checks that each has n_rows (HR_BUG otherwise). */
hr_status hr__table_new(hr_schema *schema, hr_array *const *columns, int64_t n_rows, hr_origin *origin, hr_table **out,
                        hr_error *err) HR_MUST_USE;
/* n_rows rows without columns, and their payload. Shares the origin; takes the payload, even on failure. Slices and
 * copies of rows have no payload; tables that differ in their origin or schema alone share it. */
hr_status hr__table_of_payload(hr_payload *takes, const hr_payload_class *cls, int64_t n_rows, hr_origin *origin,
                               hr_table **out, hr_error *err) HR_MUST_USE;
/* The payload of t, of this class; HR_BUG: t has none, or one of another class. Borrowed. */
hr_status hr__table_payload(const hr_table *t, const hr_payload_class *cls, hr_payload **out,
                            hr_error *err) HR_MUST_USE;
/* The same columns with another origin. */
hr_status hr__table_with_origin(const hr_table *t, hr_origin *origin, hr_table **out, hr_error *err) HR_MUST_USE;
/* The same columns under another schema of the same types (renames). */
hr_status hr__table_with_schema(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
/* The columns of t and one more (taken, even on failure), under a schema of hr__schema_append. */
hr_status hr__table_append(const hr_table *t, hr_schema *schema, hr_array *last, hr_origin *origin, hr_table **out,
                           hr_error *err) HR_MUST_USE;
/* The first schema->n columns of t, without an origin. */
hr_status hr__table_first(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_take(const hr_mem *mem, const hr_table *t, const void *idx, int idx_bytes, int64_t n,
                         hr_table **out, hr_error *err) HR_MUST_USE;
/* Rows of several tables of this schema (see hr__array_pick), with this origin. Sets `sole`. */
hr_status hr__table_pick(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                         const uint32_t *picks, int64_t n, hr_origin *origin, hr_table **out,
                         hr_error *err) HR_MUST_USE;
/* The same for picks[order[i]]; order is a permutation of [0, n). It pays where the picks have runs of 16 and more
 * consecutive rows, and the runs are far apart. */
hr_status hr__table_pick_runs(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts,
                              const uint32_t *picks, const uint32_t *order, int64_t n, hr_origin *origin,
                              hr_table **out, hr_error *err) HR_MUST_USE;
/* Contiguous; n_parts = 0 needs `schema`; origins concatenated if all parts have one. Sets `sole`. */
hr_status hr__table_concat(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, hr_table **out,
                           hr_error *err) HR_MUST_USE;
hr_status hr__table_empty(hr_schema *schema, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__table_check(const hr_table *t, bool check_utf8, hr_error *err) HR_MUST_USE;
int64_t hr__table_bytes_used(const hr_table *t);
void hr__table_charge(const hr_table *t); /* hr__array_charge for its columns */
/* The bytes of rows [begin, begin + n), each counted for itself; the most rows m <= n from `begin` on that
 * have at most `bytes` bytes. */
int64_t hr__table_row_bytes(const hr_table *t, int64_t begin, int64_t n);
int64_t hr__table_rows_within(const hr_table *t, int64_t begin, int64_t n, int64_t bytes);
/* A hash of the rows' values: digest.c. Equal rows have equal hashes, however they are stored. Soon after *stop is true
 * it returns, and the hash is of no use. stop NULL: never. */
uint64_t hr__table_digest(const hr_table *t, const atomic_bool *stop);
/* The only holder calls it: sets `sole` if no other table has any of its columns. */
void hr__table_claim(hr_table *t);

/* The rows with keep[i] != 0. *out is new, NULL if there are none. */
hr_status hr__table_keep(const hr_mem *mem, const hr_table *in, const uint8_t *keep, hr_table **out,
                         hr_error *err) HR_MUST_USE;

#endif
