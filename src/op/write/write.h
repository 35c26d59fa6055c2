/* write.h - what the three operators that write files share.
 *
 *   write_cut     STREAM  rows into *chunks* of one folder: of an exact number of rows or of bytes
 *   write_encode  MAP     a chunk's rows become bytes of the format, an *encoded chunk*, on all threads
 *   write_add     STREAM  encoded chunks into files, in order; at the end all files get their names
 *
 * The number of threads decides only the speed. A chunk travels as the payload of a table of one row. */
#ifndef HR_OP_WRITE_H
#define HR_OP_WRITE_H

#include "op/operators.h"

/* The arguments of a write, shared by all runs of a plan. Immutable except schema and writer, which the first table
 * may set. */
typedef struct hr_write_job {
    atomic_int refs;
    const hr_format *format;
    void *options;  /* the format's */
    char *path;     /* folder, or the file itself */
    bool remote;    /* `path` is a URL of a store */
    char **storage; /* options of the store */
    int n_storage;
    hr_write_options settings; /* texts are copies */
    char **partitions;
    int n_partitions;
    hr_mutex lock;     /* guards schema and writer until they are set */
    hr_schema *schema; /* of the rows that come in; NULL: not known yet */
    hr_writer *writer; /* of the columns that go into files */
} hr_write_job;
/* The writer for rows of this schema; borrowed from job. */
hr_status hr__write_job_writer(hr_write_job *job, const hr_schema *schema, const hr_writer **out,
                               hr_error *err) HR_MUST_USE;
/* job->schema, borrowed; NULL: not known yet. */
hr_schema *hr__write_job_schema(hr_write_job *job);

typedef struct hr_write_chunk {
    hr_payload base;
    char *folder; /* "a=1/b=x", inside the job's path; NULL: the job's path itself */
    int64_t n_rows, n_bytes;
    hr_table **parts; /* the rows, until they are encoded: the columns of the files and the name column */
    int64_t n_parts, cap_parts;
    hr_encoded_chunk *encoded; /* the bytes, from then on */
    char **names;              /* of files, one for each encoded chunk; NULL: files are numbered */
    int64_t n_encoded;
} hr_write_chunk;
/* A table of one row with the chunk as its payload. Takes the chunk, even on failure. */
hr_status hr__write_chunk_table(hr_write_chunk *takes, hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__write_chunk_of(const hr_table *t, hr_write_chunk **out, hr_error *err) HR_MUST_USE; /* borrowed */
void hr__write_chunk_free(hr_write_chunk *c);                                                     /* NULL is fine */

/* The three operators of the job, in the order in which rows pass them. */
extern const hr_op_class hr__write_cut, hr__write_encode, hr__write_add;

/* An operator of the job. */
typedef struct hr_write_op {
    hr_op base;
    hr_write_job *job;
} hr_write_op;
static inline hr_write_job *hr__write_job_of(const hr_op *op) { return ((const hr_write_op *)op)->job; }
void hr__write_op_free(hr_op *op);
void hr__write_op_fingerprint(const hr_op *op, hr_hash *h);

#endif
