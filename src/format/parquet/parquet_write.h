/* parquet_write.h - types and functions shared by the files of the Parquet writer. Private to parquet_write*.c and
 * their tests.
 *
 *   parquet_write_levels.c   a nested array -> levels, and which values stand at its leaf
 *   parquet_write_values.c   values -> bytes: the encodings, the Thrift of headers and footer
 *   parquet_write_chunk.c    one column of a row group -> pages: which encoding, statistics, indexes
 *   parquet_write.c          schema, row groups as encoded chunks, the footer */
#ifndef HR_PARQUET_WRITE_H
#define HR_PARQUET_WRITE_H

#include "format/parquet/parquet_page.h"

/* ----------------------------------------------------------------------------------------- options: parquet_write.c */

typedef struct pw_options {
    int codec; /* pw__codec */
    int64_t level;
    int64_t row_group_rows, row_group_bytes, page_bytes;
    int64_t page_version;
    bool dictionary, statistics, page_index, page_checksum;
} pw_options;
extern const hr_option pw__options[];
hr_status pw__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                     hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------ bytes: parquet_write_values.c */

/* Thrift's compact protocol. `last` is the id of the field before; pw__open and pw__close keep it. */
typedef struct pw_thrift {
    hr_growbuf *out;
    hr_status st;
    hr_error *err;
    int last;
} pw_thrift;
void pw__int(pw_thrift *t, int id, int type, int64_t v); /* PQ_T_I8 .. PQ_T_I64 */
void pw__bool(pw_thrift *t, int id, bool v);
void pw__bytes(pw_thrift *t, int id, const void *data, int64_t n);
int pw__open(pw_thrift *t, int id); /* a struct; -> the argument of pw__close */
int pw__open_item(pw_thrift *t);    /* a struct in a list */
void pw__close(pw_thrift *t, int outer);
void pw__list(pw_thrift *t, int id, int type, int64_t n); /* then n items */
void pw__list_int(pw_thrift *t, int64_t v);
void pw__list_bytes(pw_thrift *t, const void *data, int64_t n);
void pw__list_bool(pw_thrift *t, bool v);

/* Leaf values as stored, without nulls. */
typedef struct pw_values {
    pq_physical physical;
    int width; /* bytes of a fixed value; 0: booleans (a byte each), byte arrays */
    int64_t n;
    const uint8_t *data;  /* fixed width, and booleans */
    const hr_view *views; /* byte arrays */
} pw_values;

/* Appends values [begin, begin + n). */
hr_status pw__plain(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err) HR_MUST_USE;
hr_status pw__delta(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err) HR_MUST_USE;
hr_status pw__delta_length(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err) HR_MUST_USE;
hr_status pw__split(const pw_values *v, int64_t begin, int64_t n, hr_growbuf *out, hr_error *err) HR_MUST_USE;
/* Numbers of `width` bits in runs. */
hr_status pw__runs_u8(const uint8_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err) HR_MUST_USE;
hr_status pw__runs_u32(const uint32_t *v, int64_t n, int width, hr_growbuf *out, hr_error *err) HR_MUST_USE;

/* A dictionary: codes[i] is the number of value i, uniques[k] a value with that number. */
typedef struct pw_dict {
    hr_buffer *memory; /* of codes: pooled, like everything as long as a chunk */
    uint32_t *codes;
    int64_t *uniques;
    int64_t n_uniques, cap_uniques;
    int64_t bytes; /* PLAIN, of all */
} pw_dict;
/* *found false: too many different values for a dictionary to save bytes. */
hr_status pw__dict_make(const pw_values *v, int64_t max_bytes, const hr_mem *mem, pw_dict *out, bool *found,
                        hr_error *err) HR_MUST_USE;
void pw__dict_clear(pw_dict *d);

/* ----------------------------------------------------------------------------------- levels: parquet_write_levels.c */

/* A stored column: its place in the schema's tree. */
typedef struct pw_leaf {
    hr_text path; /* names, each ended by a NUL byte */
    int n_path;
    const hr_type *type;     /* Arrow's */
    int steps[HR_MAX_DEPTH]; /* number of the child at each type on the way from the top-level column */
    int n_steps;
    int column; /* top-level column */
    uint8_t max_def, max_rep;
    pq_physical physical;
    int width;
} pw_leaf;

/* Rows of values [begin, begin + n) of the leaf array. */
typedef struct pw_span {
    int64_t begin, n;
} pw_span;

typedef struct pw_levels {
    const hr_mem *mem;
    hr_buffer *def_memory, *rep_memory;
    int64_t n;            /* slots */
    uint8_t *def;         /* NULL: all max_def */
    uint8_t *rep;         /* NULL: all 0 */
    const hr_array *leaf; /* borrowed */
    pw_span *spans;       /* of its elements that exist (counted with its offset) */
    int64_t n_spans, cap_spans;
    int64_t n_values;
} pw_levels;
hr_status pw__levels_make(const pw_leaf *l, const hr_array *column, const hr_mem *mem, pw_levels *out,
                          hr_error *err) HR_MUST_USE;
void pw__levels_clear(pw_levels *l);

/* ------------------------------------------------------------------------------------ chunks: parquet_write_chunk.c */

/* Bounds of values. Byte strings are cut to PW_BOUND; `*_exact` false: they were cut. */
#define PW_BOUND 64
typedef struct pw_bounds {
    bool has_min, has_max, min_exact, max_exact;
    uint8_t n_min, n_max;
    uint8_t min[PW_BOUND], max[PW_BOUND];
} pw_bounds;

typedef struct pw_page {
    int64_t at;      /* offset of its header, from the chunk's begin */
    int64_t n_bytes; /* with the header */
    int64_t first_row, n_nulls, n_slots;
    pw_bounds bounds;
} pw_page;

typedef struct pw_chunk {
    int64_t begin, n_bytes;               /* from the write chunk's begin, later from the file's */
    int64_t plain_bytes;                  /* uncompressed, with headers */
    int64_t dict_at, data_at;             /* like begin; dict_at -1: none */
    int64_t n_slots, n_nulls, text_bytes; /* text_bytes -1: no byte arrays */
    int encoding;
    pw_bounds bounds;
    pw_page *pages;
    int64_t n_pages, cap_pages;
    /* offset of the index in the file, once it is written */
    int64_t column_index_at, offset_index_at;
    int32_t column_index_bytes, offset_index_bytes;
} pw_chunk;

hr_status pw__chunk_write(const pw_leaf *l, const pw_options *o, const hr_codec *codec, const hr_array *column,
                          const hr_mem *mem, hr_growbuf *out, pw_chunk *c, hr_error *err) HR_MUST_USE;

#endif
