/* partition_store.h - tables in partitions, which go to the disk when there are too many of them.
 *
 * What an operator divides its input into (by hash, by range) and reads back partition by partition. Each partition is
 * a list of tables in the order in which they were added, in memory or in a spill file (format/spill/spill_file.h).
 * They come back in this order, wherever they lay.
 *
 * 1. One thread at a time adds and spills. When that is over, partitions may be read by several threads, each by one at
 * a time.
 * 2. The store decides nothing: its user looks at hr__partition_store_held() and calls hr__partition_store_spill(),
 *    which takes the largest partitions whole; neighbours are joined into chunks of about HR_PARTITION_STORE_PAGE
 *    bytes, larger tables are cut into such.
 * 3. Origins are not kept on disk; who needs coordinates puts them into columns. */
#ifndef HR_PARTITION_STORE_H
#define HR_PARTITION_STORE_H

#include "format/spill/spill_file.h"

#define HR_PARTITION_STORE_PAGE (1 << 20)

typedef struct hr_partition_store hr_partition_store;
/* Shares spill and schema. */
hr_status hr__partition_store_new(int n_parts, hr_schema *schema, hr_spill_file *spill, hr_account *account,
                                  hr_partition_store **out, hr_error *err) HR_MUST_USE;
void hr__partition_store_free(hr_partition_store *s); /* what is still on disk is forgotten. NULL is fine */
/* At the end of a partition. Takes t, even on failure. Tables of no rows are dropped. */
hr_status hr__partition_store_add(hr_partition_store *s, int part, hr_table *takes, hr_error *err) HR_MUST_USE;
/* Partitioning: rows ordered by the partition that n_parts (a power of two, at most HR_MAX_PARTS) values of hashes[row]
 * >> shift say, those of one in their order; begins[0 .. n_parts] are where they begin. *out is new, and of no
 * origin. */
#define HR_MAX_PARTS 256
hr_status hr__partition_rows(const hr_table *t, const uint64_t *hashes, int shift, int n_parts, const hr_mem *mem,
                             int64_t *begins, hr_table **out, hr_error *err) HR_MUST_USE;
/* Slices of a divided table, each at the end of its partition. They share its memory, which comes back when all of them
 * are gone: who spills such partitions spills all. */
hr_status hr__partition_store_add_slices(hr_partition_store *s, const hr_table *t, const int64_t *begins, int n_parts,
                                         hr_error *err) HR_MUST_USE;
int64_t hr__partition_store_held(const hr_partition_store *s); /* bytes in memory, all partitions */
typedef struct hr_partition_store_size {
    int64_t rows, memory_bytes, disk_bytes; /* held; on disk: what they will take when they are read */
} hr_partition_store_size;
hr_partition_store_size hr__partition_store_size(const hr_partition_store *s, int part);
/* Spills the largest partitions until at most keep_bytes are held. */
hr_status hr__partition_store_spill(hr_partition_store *s, int64_t keep_bytes, hr_error *err) HR_MUST_USE;

/* The tables of a partition in order; *out new, NULL at the end. `drain`: what was given is gone from the store, memory
 * and disk. */
typedef struct hr_partition_store_cursor {
    hr_partition_store *store;
    int part;
    bool drain;
    int64_t at;
} hr_partition_store_cursor;
hr_status hr__partition_store_next(hr_partition_store_cursor *c, const hr_mem *mem, hr_table **out,
                                   hr_error *err) HR_MUST_USE;
/* All of a partition as one table (of no rows, if there are none), and gone from the store. *out is new. */
hr_status hr__partition_store_load(hr_partition_store *s, int part, const hr_mem *mem, hr_table **out,
                                   hr_error *err) HR_MUST_USE;

#endif
