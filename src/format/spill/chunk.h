/* chunk.h - tables as encoded chunks in files: spill files and cached rows consist of them. */
#ifndef HR_CHUNK_H
#define HR_CHUNK_H

#include "data/data.h"

/* The place of an encoded chunk. A plain value. */
typedef struct hr_chunk {
    int64_t at, n_bytes;  /* in the file */
    int64_t n_rows;       /* of the table */
    int64_t memory_bytes; /* approximate bytes of the table in memory */
    int64_t head_bytes;   /* of n_bytes: bytes before the raw parts */
} hr_chunk;

/* Encodes a table: with a checksum, buffers compressed (LZ4) if that saves bytes, and only the bytes of its rows. Any
 * types. Without the origin. Borrows t. *out is new; hr__chunk_set_place must follow. */
hr_status hr__chunk_encode(const hr_table *t, hr_account *account, hr_buffer **out, hr_chunk *place,
                           hr_error *err) HR_MUST_USE;
/* The chunk's bytes will lie at `at`: its checksum covers that. */
void hr__chunk_set_place(hr_buffer *chunk, hr_chunk *place, int64_t at);
/* The table at a place, whose schema the caller knows. HR_BAD_DATA: other bytes lie there. account: for scratch
 * memory. */
hr_status hr__chunk_read(int fd, const hr_chunk *place, hr_account *account, const hr_mem *mem, hr_schema *schema,
                         hr_table **out, hr_error *err) HR_MUST_USE;

#endif
