/* materialized.h - tables materialized for several passes: in memory while there is room, in a spill file after that.
 *
 * materialize() and a foreign stream fill an hr_materialized. The result is a scan that gives the tables like a scan of
 * tables in memory: the same fragments, rows, coordinates and fingerprint, in memory or on disk. The spill file is
 * removed with the scan (spill_file.h).
 *
 * A table stays in memory if all materialized tables then take at most `memory_bytes`, and the process holds at most
 * three quarters of its limit: the first tables stay, since every pass begins with them. One thread at a time. */
#ifndef HR_MATERIALIZED_H
#define HR_MATERIALIZED_H

#include "format/format.h"

typedef struct hr_materialized hr_materialized;
/* memory_bytes 0: half of the process's limit. `foreign`: tables of a foreign stream, whose memory is counted here, and
 * whose schemas must be equal; otherwise types that differ little get a common type (hr__schema_conform). */
hr_status hr__materialized_new(const char *name, int64_t memory_bytes, bool foreign, hr_materialized **out,
                               hr_error *err) HR_MUST_USE;
void hr__materialized_free(hr_materialized *k); /* NULL is fine */
/* Takes t, even on failure. A table without rows adds its columns to the schema, but is not stored. */
hr_status hr__materialized_add(hr_materialized *k, hr_table *takes, hr_error *err) HR_MUST_USE;
typedef struct hr_materialized_size {
    int64_t tables, rows;
    int64_t bytes;      /* of all rows, as if all were in memory */
    int64_t disk_bytes; /* the part of them on disk */
} hr_materialized_size;
hr_materialized_size hr__materialized_size(const hr_materialized *k);
/* The tables as a scan; shares k, to which no table can be added afterwards. HR_INVALID: neither tables nor a
 * schema. */
hr_status hr__materialized_scan(hr_materialized *k, hr_scan **out, hr_error *err) HR_MUST_USE;
/* Table `i` under the common schema, if it is in memory: *out new, NULL if it is on the disk. */
hr_status hr__materialized_table(const hr_materialized *k, int64_t i, hr_table **out, hr_error *err) HR_MUST_USE;

#endif
