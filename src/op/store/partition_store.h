/* partition_store.h - tables in partitions, in memory or spilled.
 *
 * An operator divides its input into partitions (by hash, by range) and reads it back partition by partition. A
 * partition is a list of tables in memory or in a spill file (format/spill/spill_file.h); they come back in the order
 * in which they were added.
 *
 * 1. One thread at a time adds and spills. After that several threads may read, each partition one thread at a time.
 * 2. The user decides when to spill: hr__partition_store_held() gives the bytes, hr__partition_store_spill() spills the
 *    largest partitions whole. It joins neighbouring tables into chunks of about HR_PARTITION_STORE_PAGE bytes and cuts
 *    larger tables.
 * 3. Spilled tables lose their origins; an operator that needs coordinates puts them into columns. */
#ifndef HR_PARTITION_STORE_H
#define HR_PARTITION_STORE_H

#include "format/spill/spill_file.h"

#define HR_PARTITION_STORE_PAGE (1 << 20)

typedef struct hr_partition_store hr_partition_store;
/* Shares spill and schema. */
hr_status hr__partition_store_new(int n_parts, hr_schema *schema, hr_spill_file *spill, hr_account *account,
                                  hr_partition_store **out, hr_error *err) HR_MUST_USE;
void hr__partition_store_free(hr_partition_store *s); /* frees its disk space. NULL is fine */
/* Appends to a partition. Takes the table, even on failure. Drops a table without rows. */
hr_status hr__partition_store_add(hr_partition_store *s, int part, hr_table *takes, hr_error *err) HR_MUST_USE;
/* Orders rows by partition, (hashes[row] >> shift) % n_parts (a power of two, at most HR_MAX_PARTS); rows of a
 * partition keep their order. Partition p is rows [begins[p], begins[p + 1]). *out is new, without origin. */
#define HR_MAX_PARTS 256
hr_status hr__partition_rows(const hr_table *t, const uint64_t *hashes, int shift, int n_parts, const hr_mem *mem,
                             int64_t *begins, hr_table **out, hr_error *err) HR_MUST_USE;
/* Appends each slice of such a table to its partition. The slices share the table's memory, which is freed with the
 * last of them: spill all partitions or none. */
hr_status hr__partition_store_add_slices(hr_partition_store *s, const hr_table *t, const int64_t *begins, int n_parts,
                                         hr_error *err) HR_MUST_USE;
int64_t hr__partition_store_held(const hr_partition_store *s); /* bytes in memory, all partitions */
typedef struct hr_partition_store_size {
    int64_t rows, memory_bytes,
        disk_bytes; /* rows; bytes in memory; of spilled tables the bytes that reading them takes */
} hr_partition_store_size;
hr_partition_store_size hr__partition_store_size(const hr_partition_store *s, int part);
/* Spills the largest partitions until at most keep_bytes are held. */
hr_status hr__partition_store_spill(hr_partition_store *s, int64_t keep_bytes, hr_error *err) HR_MUST_USE;

/* Gives the tables of a partition in order; *out new, NULL at the end. `drain`: each table leaves the store, memory and
 * disk. */
typedef struct hr_partition_store_cursor {
    hr_partition_store *store;
    int part;
    bool drain;
    int64_t at;
} hr_partition_store_cursor;
hr_status hr__partition_store_next(hr_partition_store_cursor *c, const hr_mem *mem, hr_table **out,
                                   hr_error *err) HR_MUST_USE;
/* Takes a whole partition out of the store, as one table (possibly without rows). *out is new. */
hr_status hr__partition_store_load(hr_partition_store *s, int part, const hr_mem *mem, hr_table **out,
                                   hr_error *err) HR_MUST_USE;

#endif
