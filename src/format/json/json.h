/* json.h - types and functions of the json*.c files: an index of a text's structure, rows of a file, inferred types,
 * columns.
 *
 *   json_index.c   text -> places of brackets, commas, colons, quotes, first bytes of numbers and words (and newlines)
 *   json_rows.c    file -> blocks of bytes with their index, and in them the beginning of each row
 *   json_schema.c  a sample of rows -> types
 *   json_build.c   one row and its types -> columns
 *   json.c         options, fragments, the reader
 *   json_write.c   tables -> lines */
#ifndef HR_JSON_H
#define HR_JSON_H

#include "format/format.h"

enum { HR_JSON_AUTO, HR_JSON_LINES, HR_JSON_ARRAY, HR_JSON_SEQUENCE }; /* option layout */
enum { HR_JSON_UNEXPECTED_ERROR, HR_JSON_UNEXPECTED_IGNORE };          /* option unexpected */
enum { HR_JSON_BIG_ERROR, HR_JSON_BIG_DOUBLE, HR_JSON_BIG_STRING };    /* option big_integers */
enum { HR_JSON_BAD_ERROR, HR_JSON_BAD_SKIP };                          /* option on_error */

typedef struct hr_json_options {
    int layout, unexpected, big_integers, on_error;
    bool allow_nan, times;
    int64_t sample_bytes;
    bool guessed; /* not an option: the types are inferred, from this file or the scan's first */
} hr_json_options;

/* --- json_index.c */

/* Places in a text, in order. A string is two places, its quotes; a number or word is one, its first byte. */
typedef struct hr_json_tokens {
    hr_buffer *buffer;
    uint32_t *at; /* n places; HR_JSON_SPARE more are readable and repeat the last place or the text's end */
    int64_t n;
    bool has_backslash, has_high; /* the text has a backslash; has a byte >= 0x80 */
    int64_t control;              /* the first byte below 0x20 within a string; -1: none */
} hr_json_tokens;
#define HR_JSON_SPARE 4

/* Indexes data[begin, end); places count from data. Replaces the old index. end < 2^31. */
hr_status hr__json_index(const hr_mem *mem, const uint8_t *data, int64_t begin, int64_t end, bool newlines,
                         hr_json_tokens *t, hr_error *err) HR_MUST_USE;
/* The same with these CPU features: for tests. */
hr_status hr__json_index_by(unsigned cpu, const hr_mem *mem, const uint8_t *data, int64_t begin, int64_t end,
                            bool newlines, hr_json_tokens *t, hr_error *err) HR_MUST_USE;
void hr__json_tokens_clear(hr_json_tokens *t);

/* --- json_rows.c */

/* What is known about a file before its types. */
typedef struct hr_json_file {
    hr_source *source;     /* borrowed */
    const hr_codec *codec; /* NULL: plain */
    int layout;            /* never AUTO once hr__json_layout has run */
} hr_json_file;

/* Rows of a file, or of a fragment of it, one after another. Belongs to one thread. */
typedef struct hr_json_rows {
    const hr_json_file *file;
    hr_mem mem; /* scratch */
    hr_stream *stream;
    int64_t at, end;   /* next byte to read; lines that begin at `end` or later belong to the next fragment */
    bool ended, last;  /* the file has ended; the block is the last one of the fragment */
    bool in_line;      /* the block begins inside a line of the fragment before */
    hr_buffer *buffer; /* the block: n bytes, of which [0, n_usable) are whole rows */
    int64_t base;      /* offset of the block in the file */
    int64_t n, n_usable;
    hr_json_tokens tokens;
    int64_t token, token_end; /* the next token; the end of the row returned last (not LINES) */
    bool careful;             /* LINES: the block has an error: read it line by line */
    int64_t line;             /* careful: the next line */
    int64_t row_begin;        /* byte of the block where the row returned last begins */
    int state;                /* ARRAY: see json_rows.c */
} hr_json_rows;

hr_status hr__json_rows_open(const hr_json_file *file, hr_account *account, int64_t begin, int64_t end,
                             hr_json_rows *out, hr_error *err) HR_MUST_USE;
void hr__json_rows_clear(hr_json_rows *r);
/* The next row: its first token is r->token. *more false: the end. *skippable: the error concerns only this row. */
hr_status hr__json_rows_next(hr_json_rows *r, bool *more, bool *skippable, hr_error *err) HR_MUST_USE;
void hr__json_rows_parsed(hr_json_rows *r, int64_t token); /* the row ended before this token */
void hr__json_rows_skip(hr_json_rows *r);                  /* the row is bad: continue after it */
/* Writes "a.json: line 3, column 7: " and then fmt; `at` is a place in the block. Reads the file again to count its
 * lines. */
hr_status hr__json_error(const hr_json_rows *r, int64_t at, hr_error *err, hr_status st, const char *fmt, ...)
    HR_PRINTF(5, 6);
/* Line of byte `at` of the file; *column from 1. 0: unknown. */
int64_t hr__json_line(const hr_json_file *f, int64_t at, int64_t *column);
/* Detects the layout from the file's first bytes. */
hr_status hr__json_layout(hr_json_file *f, hr_account *account, hr_error *err) HR_MUST_USE;

extern int64_t hr__json_block_bytes, hr__json_fragment_bytes; /* changed by tests only */

/* --- json_build.c: strings and numbers */

/* The bytes between two quotes, escapes resolved, into `out`, which has room for n. -> bytes; -1: *bad is the offset of
 * the error from p. */
int64_t hr__json_unescape(const uint8_t *p, int64_t n, uint8_t *out, int64_t *bad);

typedef enum hr_json_number_kind {
    HR_JSON_NO_NUMBER, /* `length` is the offset of the error */
    HR_JSON_INT,       /* fits int64: `i` */
    HR_JSON_UINT,      /* fits uint64 only: `u` */
    HR_JSON_BIG,       /* an integer that fits neither */
    HR_JSON_REAL       /* fraction or exponent */
} hr_json_number_kind;
typedef struct hr_json_number {
    hr_json_number_kind kind;
    int64_t length;
    int64_t i;
    uint64_t u; /* REAL: its digits, if there are at most 19 */
    int exponent, n_digits;
    bool negative;
} hr_json_number;
void hr__json_number(const uint8_t *p, hr_json_number *out); /* a byte that cannot be in a number follows */
/* The nearest double of what hr__json_number found at p. false: it is too large for one. */
bool hr__json_double(const uint8_t *p, const hr_json_number *n, double *out);
extern const uint8_t hr__json_class[256]; /* 1: may follow a number or word; 2: white space, which may, too */
/* The kind of value that begins at this byte, for messages: "a string", "null". */
const char *hr__json_what(const uint8_t *p);

/* --- json_schema.c */

/* Types of the rows in the first options->sample_bytes bytes. *out is new. */
hr_status hr__json_infer(const hr_json_file *f, const hr_json_options *options, hr_account *account, hr_schema **out,
                         hr_error *err) HR_MUST_USE;

/* --- json_build.c: columns */

typedef struct hr_json_columns hr_json_columns;
/* `all`: every column of the file; builds the columns that `given` names, in the order of `given`. Shares both. */
hr_status hr__json_columns_new(const hr_mem *mem, hr_schema *all, hr_schema *given, const hr_json_options *options,
                               hr_json_columns **out, hr_error *err) HR_MUST_USE;
void hr__json_columns_free(hr_json_columns *c);
/* Adds the row at r->token and reports its end to r. After an error the row is not added; *of_row: the error concerns
 * only this row, and err has no text yet: hr__json_columns_error writes it. */
hr_status hr__json_columns_add(hr_json_columns *c, hr_json_rows *r, bool *of_row, hr_error *err) HR_MUST_USE;
hr_status hr__json_columns_error(const hr_json_columns *c, const hr_json_rows *r, hr_error *err);
int64_t hr__json_columns_rows(const hr_json_columns *c);
int64_t hr__json_columns_bytes(const hr_json_columns *c);
int64_t hr__json_columns_row_bytes(const hr_json_columns *c); /* the least bytes of a row */
void hr__json_columns_drop(hr_json_columns *c);               /* all rows */
hr_status hr__json_columns_reserve(hr_json_columns *c, double factor, hr_error *err) HR_MUST_USE;
/* The built arrays, one for each column of `given`. The columns are empty afterwards. On failure arrays are NULL. */
hr_status hr__json_columns_finish(hr_json_columns *c, hr_array **out, hr_error *err) HR_MUST_USE;

/* --- json_write.c */

typedef struct hr_json_write_options {
    int compression, nan;
    int64_t level;
} hr_json_write_options;
extern const hr_option hr__json_write_options[];
hr_status hr__json_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                          hr_error *err) HR_MUST_USE;

#endif
