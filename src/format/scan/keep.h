/* keep.h - tables that are kept, to be read again and again: in memory while there is room, on disk what comes after.
 *
 * What materialize() and a foreign stream fill. The result is a scan that gives the tables as one of tables in memory
 * does: the same fragments, rows, coordinates and fingerprint, wherever they lie. What is on the disk goes when the
 * scan goes (spill.h).
 *
 * A table stays in memory if what is kept is then at most `memory_bytes`, and the process holds at most three quarters
 * of its limit: the first ones stay, since every pass begins with them. One thread at a time. */
#ifndef HR_KEEP_H
#define HR_KEEP_H

#include "format/format.h"

typedef struct hr_keep hr_keep;
/* memory_bytes 0: half of the process's limit. `foreign`: a foreign stream's tables, whose memory is counted here, and
 * whose schemas must be equal; else types that nearly agree become what holds both (hr__schema_conform). */
hr_status hr__keep_new(const char *name, int64_t memory_bytes, bool foreign, hr_keep **out, hr_error *err) HR_MUST_USE;
void hr__keep_free(hr_keep *k); /* NULL is fine */
/* Takes t, even on failure. Tables of no rows say which columns there are, and are not kept. */
hr_status hr__keep_add(hr_keep *k, hr_table *takes, hr_error *err) HR_MUST_USE;
typedef struct hr_keep_size {
    int64_t tables, rows;
    int64_t bytes;      /* of all rows, in memory as if they were there */
    int64_t disk_bytes; /* of those, what lies on the disk */
} hr_keep_size;
hr_keep_size hr__keep_size(const hr_keep *k);
/* The tables as a scan; shares k, which can no longer be added to. HR_INVALID: there was no table, and no schema. */
hr_status hr__keep_scan(hr_keep *k, hr_scan **out, hr_error *err) HR_MUST_USE;
/* Table `i` under the common schema, if it is in memory: *out new, NULL if it is on the disk. */
hr_status hr__keep_table(const hr_keep *k, int64_t i, hr_table **out, hr_error *err) HR_MUST_USE;

#endif
