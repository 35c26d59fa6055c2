/* scan.h - the kinds of scans. Private to src/format: others see only hr_scan. */
#ifndef HR_SCAN_H
#define HR_SCAN_H

#include "format/format.h"

typedef struct hr_scan_class {
    hr_status (*schema)(hr_scan *s, hr_schema **out, hr_error *err);
    hr_status (*open)(hr_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err);
    hr_status (*count)(hr_scan *s, int64_t *out, hr_error *err);
    const char *(*file_name)(const hr_scan *s, int file); /* for people: a URL without its secrets */
    void (*describe)(const hr_scan *s, hr_text *out);
    void (*fingerprint)(const hr_scan *s, hr_hash *h);
    int64_t (*floor_bytes)(const hr_scan *s);
    /* The order in which files are read, *out new; NULL: by number. */
    hr_status (*order)(const hr_scan *s, uint64_t seed, int64_t epoch, int32_t **out, hr_error *err);
    void (*free)(hr_scan *s);                         /* frees all of it */
    int64_t (*row_bytes)(const hr_scan *s, int file); /* see hr__scan_row_bytes; NULL: -1 */
    const char *(*image_column)(const hr_scan *s);    /* see hr__scan_image_column; NULL: none */
    int64_t (*guess_rows)(const hr_scan *s);          /* see hr__scan_guess_rows; NULL: -1 */
    /* Files, as positions keep them: see hr__scan_input; NULL: it has none. */
    void (*input)(const hr_scan *s, int i, hr_scan_input *out);
    hr_status (*input_hashes)(hr_scan *s, int begin, int end, uint64_t *out, hr_error *err);
    uint64_t (*memory_digest)(hr_scan *s, const atomic_bool *stop); /* see hr__scan_memory_digest; NULL: 0 */
    int (*files_left)(const hr_scan *s, hr_expr *filter);           /* see hr__scan_files_left; NULL: -1 */
    const char *(*file_path)(const hr_scan *s, int file);           /* as it is opened; NULL: the name */
} hr_scan_class;

struct hr_scan {
    const hr_scan_class *cls;
    atomic_int refs;
    int n_files;
    bool calls;                   /* it calls functions of the user */
    _Atomic(int64_t *) file_rows; /* of each file; NULL: not counted yet, or a file does not know its rows */
};

/* The projected fields of `all`. *out is new (shared, if all are projected). */
hr_status hr__scan_project(hr_schema *all, const hr_projection *projection, hr_schema **out, hr_error *err) HR_MUST_USE;

/* --- memory_scan.c: tables in memory, foreign Arrow streams */
#define HR_MEMORY_NAME "memory" /* the one file of such a scan */
void hr__memory_fingerprint(const char *kind, const hr_schema *schema, int64_t n_rows,
                            hr_hash *h); /* the schema; the digest of each table follows */
/* hr__scan_memory_digest of the digests (hr__table_digest) of all tables that have rows, added by hr__hash_int. */
uint64_t hr__memory_digest_end(const hr_hash *h);
/* The next batch; *out NULL: the end. `schema` is the stream's, which each batch borrows. */
hr_status hr__arrow_stream_next(struct ArrowArrayStream *stream, const struct ArrowSchema *schema, hr_table **out,
                                hr_error *err) HR_MUST_USE;
hr_status hr__arrow_stream_error(struct ArrowArrayStream *stream, int rc,
                                 hr_error *err);        /* `code`: what a call of the stream returned */
void hr__arrow_schema_keep(struct ArrowSchema *schema); /* the release of a borrowed copy: does nothing */

/* --- partition.c: columns out of folder names */
typedef struct hr_partitions {
    int n;
    hr_field *fields;
    hr_array **values; /* of each column, a row per file */
    hr_array **texts;  /* binary: the values in folder names */
    bool *given;       /* its type is the caller's */
} hr_partitions;
/* By options->partitioning, which is not NULL. `schema`: the caller's types; NULL: none. */
hr_status hr__partitions_find(const hr_paths *paths, const hr_read_options *options, hr_schema *schema,
                              hr_partitions *out, hr_error *err) HR_MUST_USE;
/* The values of column k as `type`; HR_TYPE names the path whose folder has another value. *out is new. */
hr_status hr__partitions_as(const hr_partitions *p, const hr_paths *paths, int k, hr_type *type, hr_array **out,
                            hr_error *err) HR_MUST_USE;
void hr__partitions_clear(hr_partitions *p);

/* --- add_file_columns.c: a file with the columns of the scan */
typedef struct hr_file_column {
    int inner;       /* column of the inner file, widened to the schema's type; < 0: none */
    hr_array *value; /* if inner < 0: one row, the value in all rows of the file; NULL: null */
} hr_file_column;
/* Takes the file, even on failure. Shares schema and values. */
hr_status hr__scan_add_file_columns(hr_scan_file *takes_inner, hr_schema *schema, const hr_file_column *columns,
                                    hr_account *account, hr_scan_file **out, hr_error *err) HR_MUST_USE;
/* A file without fragments: none of its rows can pass the filter. */
hr_status hr__scan_file_empty(const char *name, hr_schema *schema, hr_account *account, hr_scan_file **out,
                              hr_error *err) HR_MUST_USE;

#endif
