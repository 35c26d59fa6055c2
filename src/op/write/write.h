/* write.h - what the three operators that write files share.
 *
 *   write_cut     STREAM  rows into *chunks*: of exactly so many rows, or so many bytes, of one folder
 *   write_encode  MAP     a chunk's rows become bytes of the format, an *encoded chunk*, on all threads
 *   write_add     STREAM  encoded chunks into files, in order; at the end all files get their names
 *
 * So the number of threads decides only the speed. A chunk travels as the payload of a table of one row. */
#ifndef HR_OP_WRITE_H
#define HR_OP_WRITE_H

#include "op/operators.h"

/* What is to be written, for all runs of a plan: immutable but for the writer, which may wait for the first table. */
typedef struct hr_write_job {
    atomic_int refs;
    const hr_format *format;
    void *options;             /* the format's */
    char *path;                /* folder, or the file itself */
    hr_write_options settings; /* texts are copies */
    char **partitions;
    int n_partitions;
    hr_mutex lock;     /* guards the two below, until they are set */
    hr_schema *schema; /* of the rows that come in; NULL: not known yet */
    hr_writer *writer; /* of the columns that are written */
} hr_write_job;
/* The writer for rows of this schema; borrowed from job. */
hr_status hr__write_job_writer(hr_write_job *job, const hr_schema *schema, const hr_writer **out,
                               hr_error *err) HR_MUST_USE;
/* The schema that the job settled on; NULL: none yet. Borrowed. */
hr_schema *hr__write_job_schema(hr_write_job *job);

typedef struct hr_write_chunk {
    hr_payload base;
    char *folder; /* "a=1/b=x", below the job's path; NULL: the job's path itself */
    int64_t n_rows, n_bytes;
    hr_table **parts; /* rows, before they are encoded; columns that are written, and the name column */
    int64_t n_parts, cap_parts;
    hr_encoded_chunk *encoded; /* and after */
    char **names;              /* of the encoded chunks' files, where each is one; NULL: numbers */
    int64_t n_encoded;
} hr_write_chunk;
/* A table of one row with the chunk as its payload. Takes the chunk, even on failure. */
hr_status hr__write_chunk_table(hr_write_chunk *takes, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__write_chunk_of(const hr_table *t, hr_write_chunk **out, hr_error *err) HR_MUST_USE; /* borrowed */
void hr__write_chunk_free(hr_write_chunk *c);                                                     /* NULL is fine */

/* An operator of the job. */
typedef struct hr_write_op {
    hr_op base;
    hr_write_job *job;
} hr_write_op;
static inline hr_write_job *hr__write_job_of(const hr_op *op) { return ((const hr_write_op *)op)->job; }
void hr__write_op_free(hr_op *op);
void hr__write_op_fingerprint(const hr_op *op, hr_hash *h);

#endif
