/* materialized.h - tables materialized for several passes: in memory while there is room, in a spill file after that.
 *
 * materialize() and a foreign stream fill an hr_materialized. The result is a scan with the fragments, rows,
 * coordinates and fingerprint of a scan of tables in memory, one table per fragment, in memory or on disk. The spill
 * file is removed with the scan (spill_file.h).
 *
 * A fragment stays in memory if all fragments then take at most `memory_bytes`, and the process holds at most three
 * quarters of its limit: the first ones stay, since every pass begins with them. One thread at a time. */
#ifndef HR_MATERIALIZED_H
#define HR_MATERIALIZED_H

#include "format/format.h"

typedef struct hr_materialized hr_materialized;
/* What becomes a fragment. ROWS: the rows decide (fragment_cut.c), not the tables. TABLES: each table. FOREIGN: each
 * table of a foreign stream, whose memory is counted here, and whose schemas must be equal; otherwise types that differ
 * little get a common type (hr__schema_conform). A table without coordinates is a fragment in any case. */
typedef enum hr_fragments_of { HR_FRAGMENTS_OF_ROWS, HR_FRAGMENTS_OF_TABLES, HR_FRAGMENTS_OF_FOREIGN } hr_fragments_of;
/* memory_bytes 0: half of the process's limit. */
hr_status hr__materialized_new(const char *name, int64_t memory_bytes, hr_fragments_of of, hr_materialized **out,
                               hr_error *err) HR_MUST_USE;
void hr__materialized_free(hr_materialized *k); /* NULL is fine */
/* Takes t, even on failure. A table without rows adds its columns to the schema, but is not stored. */
hr_status hr__materialized_add(hr_materialized *k, hr_table *takes, hr_error *err) HR_MUST_USE;
/* After the last table: completes the last fragment. May be called again. */
hr_status hr__materialized_end(hr_materialized *k, hr_error *err) HR_MUST_USE;
typedef struct hr_materialized_size {
    int64_t fragments, rows;
    int64_t bytes;      /* of all rows, as if all were in memory */
    int64_t disk_bytes; /* the part of them on disk */
} hr_materialized_size;
hr_materialized_size hr__materialized_size(const hr_materialized *k); /* of complete fragments */
/* The rows as a scan; ends and shares k, to which no table can be added afterwards. HR_INVALID: neither tables nor a
 * schema. */
hr_status hr__materialized_scan(hr_materialized *k, hr_scan **out, hr_error *err) HR_MUST_USE;
/* Fragment `i` as one table under the common schema: *out new. */
hr_status hr__materialized_table(const hr_materialized *k, int64_t i, hr_table **out, hr_error *err) HR_MUST_USE;
/* The rows [begin, end) of k, which has no rows on disk: shares their memory, and keeps the borders of fragments. */
hr_status hr__materialized_slice(const hr_materialized *k, int64_t begin, int64_t end, hr_materialized **out,
                                 hr_error *err) HR_MUST_USE;

/* --- fragment_cut.c. The open fragment; {0}: it has no rows. */
typedef struct hr_fragment_cut {
    int64_t n_rows, n_bytes;
    hr_coord last; /* of its last row */
} hr_fragment_cut;
/* The number of rows of t, from `begin` on, that go into the open fragment. *ends: it ends after them. t has
 * coordinates. */
int64_t hr__fragment_cut(hr_fragment_cut *c, const hr_table *t, int64_t begin, bool *ends);

#endif
