/* spill_file.h - tables that lie on disk for a while, because they do not fit into memory.
 *
 * A store is one file without a name in the spill folder: HEADRACE_SPILL_DIR, else TMPDIR, else /tmp. It is made when
 * the first table comes, and is gone with the store, or with the process, however that ends; so two runs cannot
 * collide.
 *
 * 1. A table is written as one parcel at a place of its own: checksummed, buffers compressed where that pays (LZ4),
 *    only the bytes of its rows. Any types. Its origin is not kept.
 * 2. What all stores of the process have on disk is counted under one quota, HEADRACE_SPILL_QUOTA ("20GB"). Without
 *    one, a part of the disk stays free (a fiftieth, 256 MiB at most). Above it, or where the disk is full,
 *    HR_DISK_FULL says which folder, how much was needed, how much there is, and which variable to set.
 * 3. All functions are thread-safe; parcels are written and read by several threads at once. */
#ifndef HR_SPILL_FILE_H
#define HR_SPILL_FILE_H

#include "data/data.h"

typedef struct hr_spill_file hr_spill_file;

/* Where a parcel lies. A value: copied at will, forgotten once. */
typedef struct hr_spilled_table {
    int64_t at, n_bytes;  /* in the file */
    int64_t n_rows;       /* of the table */
    int64_t memory_bytes; /* that it takes when it is read, about */
    int64_t head_bytes;   /* of n_bytes: what is not values as they are */
} hr_spilled_table;

/* No file yet. `folder` NULL: as above. `name` (copied) is for errors: "sort". HR_INVALID: HEADRACE_SPILL_QUOTA is no
 * size. */
hr_status hr__spill_file_new(const char *folder, const char *name, hr_account *account, hr_spill_file **out,
                             hr_error *err) HR_MUST_USE;
hr_spill_file *hr__spill_file_ref(hr_spill_file *s);
void hr__spill_file_unref(hr_spill_file *s); /* the last one: the file goes, with all places. NULL is fine */
/* Borrows t. On failure nothing of it stays on disk. */
hr_status hr__spill_file_write(hr_spill_file *s, const hr_table *t, hr_spilled_table *out, hr_error *err) HR_MUST_USE;
/* The table at a place, whose schema the caller knows. HR_BAD_DATA: the file was changed behind our back. */
hr_status hr__spill_file_read(hr_spill_file *s, const hr_spilled_table *p, const hr_mem *mem, hr_schema *schema,
                              hr_table **out, hr_error *err) HR_MUST_USE;
/* Gives its disk space back. */
void hr__spill_file_forget(hr_spill_file *s, const hr_spilled_table *p);

typedef struct hr_spill_counts {
    int64_t written_bytes, read_bytes; /* so far, on disk */
    int64_t plain_bytes;               /* what was written, uncompressed */
    int64_t live_bytes;                /* on disk now */
} hr_spill_counts;
hr_spill_counts hr__spill_file_counts(const hr_spill_file *s);

#endif
