/* spill_file.h - temporary tables on disk, which do not fit in memory.
 *
 * A spill file has no name; it lies in the spill folder: HEADRACE_SPILL_DIR, else TMPDIR, else /tmp. The first table
 * creates it; the system removes it with the hr_spill_file, or when the process ends in any way; so two runs cannot
 * collide.
 *
 * 1. hr__spill_file_write stores a table as one *encoded chunk* at a place of its own: with a checksum, buffers
 *    compressed (LZ4) if that saves bytes, and only the bytes of its rows. Any types. It does not store the origin.
 * 2. One quota, HEADRACE_SPILL_QUOTA ("20GB"), holds for all spill files of the process. Without a quota, 1/50 of the
 *    disk stays free, 256 MiB at most. Above it, or if the disk is full, HR_DISK_FULL names the folder, the needed and
 *    the available bytes, and the variable to set.
 * 3. All functions are thread-safe; several threads write and read chunks at the same time. */
#ifndef HR_SPILL_FILE_H
#define HR_SPILL_FILE_H

#include "format/spill/chunk.h"

typedef struct hr_spill_file hr_spill_file;

/* The place of an encoded chunk. A plain value: any number of copies may exist, hr__spill_file_forget takes it once. */
typedef hr_chunk hr_spilled_table;

/* Creates no file yet. `folder` NULL: as above. `name` (copied) is for errors: "sort". HR_INVALID: HEADRACE_SPILL_QUOTA
 * is not a size. */
hr_status hr__spill_file_new(const char *folder, const char *name, hr_account *account, hr_spill_file **out,
                             hr_error *err) HR_MUST_USE;
hr_spill_file *hr__spill_file_ref(hr_spill_file *s);
void hr__spill_file_unref(hr_spill_file *s); /* the last one closes the file, with all places. NULL is fine */
/* Borrows t. On failure none of its bytes stay on disk. */
hr_status hr__spill_file_write(hr_spill_file *s, const hr_table *t, hr_spilled_table *out, hr_error *err) HR_MUST_USE;
/* The table at a place, whose schema the caller knows. HR_BAD_DATA: another program changed the file. */
hr_status hr__spill_file_read(hr_spill_file *s, const hr_spilled_table *p, const hr_mem *mem, hr_schema *schema,
                              hr_table **out, hr_error *err) HR_MUST_USE;
/* Frees its disk space. */
void hr__spill_file_forget(hr_spill_file *s, const hr_spilled_table *p);

typedef struct hr_spill_counts {
    int64_t written_bytes, read_bytes; /* so far, on disk */
    int64_t plain_bytes;               /* bytes written, uncompressed */
    int64_t live_bytes;                /* on disk now */
} hr_spill_counts;
hr_spill_counts hr__spill_file_counts(const hr_spill_file *s);

#endif
