/* csv.h - the parts of the CSV reader: types and functions shared by csv.c, csv_index.c, csv_rows.c, csv_column.c,
 * csv_infer.c and csv_encoding.c. */
#ifndef HR_CSV_H
#define HR_CSV_H

#include "format/format.h"

/* --- options: csv_options.c */

enum { CSV_HEADER_AUTO, CSV_HEADER_FIRST, CSV_HEADER_NONE };
enum { CSV_RAGGED_ERROR, CSV_RAGGED_PAD, CSV_RAGGED_TRUNCATE, CSV_RAGGED_FIT, CSV_RAGGED_SKIP };
enum { CSV_STRICT, CSV_REPLACE, CSV_IGNORE };

typedef struct csv_options {
    char delimiter, quote, escape, comment, decimal_point;
    bool double_quote, ignore_empty_lines, strings_can_be_null, quoted_strings_can_be_null;
    int header, ragged, encoding_errors;
    char *names, *null_values, *true_values, *false_values, *dtypes, *encoding, *default_type;
    int64_t skip_rows, skip_rows_after_names, infer_bytes, max_line_bytes, fragment_bytes;
} csv_options;

extern const hr_option hr__csv_options[];

/* Items of a list option: separated by commas, "\," is a comma in an item. `separators`: which bytes end one. */
typedef struct csv_list {
    int n;
    char **items; /* one block */
} csv_list;
hr_status hr__csv_list(const char *text, char separator, csv_list *out, hr_error *err) HR_MUST_USE;
void hr__csv_list_clear(csv_list *l);
/* "int64", "timestamp[us, tz=UTC]", as pyarrow prints a type; HR_INVALID names it. */
hr_status hr__csv_type(const char *text, hr_type **out, hr_error *err) HR_MUST_USE;

/* --- where fields end: csv_index.c */

typedef struct csv_dialect {
    uint8_t delimiter, quote, escape, comment; /* 0: none */
    bool double_quote;
    /* No escape, no comments, doubled quotes: the kernels can index it. Otherwise the automaton walks byte by byte. */
    bool plain;
} csv_dialect;

/* The state between two bytes. BEGIN: after a delimiter; ROW: after the end of a line; CLOSED: after a quote inside
 * quotes, which closes them unless another quote follows. Kernels give BEGIN for ROW. */
typedef enum csv_state {
    CSV_BEGIN,
    CSV_UNQUOTED,
    CSV_QUOTED,
    CSV_CLOSED,
    CSV_ROW,
    CSV_ESCAPED,
    CSV_ESCAPED_QUOTED,
    CSV_COMMENT
} csv_state;

typedef struct csv_ends {
    uint32_t *items, *newlines; /* all ends; the ends of rows once more. Each has room for the number of bytes + 16 */
    int64_t n, n_newlines;
    uint32_t base; /* added to each position */
    bool returns;  /* the bytes have a "\r" */
} csv_ends;

/* Ends of fields in data[0, n): positions of delimiters and of newlines outside quotes. HR_SLACK bytes after them are
 * readable; data[n] shows whether a "\r" at the end precedes "\n". `out` NULL: only the state. */
void hr__csv_index(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out);
void hr__csv_index_by(unsigned cpu, const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state,
                      csv_ends *out);
/* The automaton itself, over at most 64 bytes: bits where fields end. */
uint64_t hr__csv_walk(const csv_dialect *d, const uint8_t *p, int64_t n, csv_state *state, uint64_t *newlines);

/* --- rows: csv_rows.c */

#define CSV_MISSING 0x80000000u /* in `ends`: the row has no such field */

/* Rows of one block of bytes, as a rectangle of fields. */
typedef struct csv_rows {
    const uint8_t *data;
    int64_t n_rows;
    int n_columns;
    const uint32_t *starts; /* the begin of each row */
    const uint32_t *ends;   /* n_rows * n_columns */
    bool missing;           /* some end is marked */
    bool is_utf8;           /* all of data */
    int64_t at;             /* of data[0] in the file */
    int64_t n_left_out;     /* skipped rows with another number of fields (ragged=skip) */
} csv_rows;

/* Field (row, column): its *n bytes, with quotes. false: the row does not have this field. */
static inline bool hr__csv_field(const csv_rows *r, int64_t row, int column, const uint8_t **p, int64_t *n)
{
    const uint32_t *end = r->ends + row * r->n_columns + column;
    uint32_t begin = column ? (end[-1] & ~CSV_MISSING) + 1 : r->starts[row];

    if (r->missing && (*end & CSV_MISSING)) {
        *p = r->data;
        *n = 0;
        return false;
    }
    *p = r->data + begin;
    *n = (int64_t)*end - begin;
    return true;
}

/* The error of a row with another number of fields. */
typedef struct csv_ragged {
    int64_t at; /* byte of the block */
    int64_t found;
} csv_ragged;

typedef struct csv_cutter {
    const csv_options *options;
    csv_dialect dialect;
    int n_columns;
    uint32_t *starts, *ends; /* the copied rows, if the index is not a rectangle; owned */
    int64_t starts_cap, ends_cap;
} csv_cutter;
void hr__csv_cutter_clear(csv_cutter *c);
/* Cuts data[begin, ...), which begins with a row, into rows that begin before `limit`. `index` has the ends after
 * `begin`; the function removes the ends of the rows from it, but `out` points to them. *used: the end of the last row,
 * or of skipped lines after it. HR_BAD_DATA without a text (place in `ragged`) for a row with a wrong number of fields.
 * May write to `index`. */
hr_status hr__csv_cut(csv_cutter *c, const uint8_t *data, int64_t begin, int64_t limit, csv_ends *index, csv_rows *out,
                      int64_t *used, csv_ragged *ragged, hr_error *err) HR_MUST_USE;

/* --- values: csv_column.c */

/* Texts that mean null, true or false. */
typedef struct csv_words {
    csv_list list;
    uint64_t lengths;    /* bit n: one has n bytes (63: or more) */
    uint8_t firsts[256]; /* one begins so */
    bool empty;
} csv_words;
hr_status hr__csv_words_init(csv_words *w, const char *text, hr_error *err) HR_MUST_USE;
void hr__csv_words_clear(csv_words *w);
bool hr__csv_words_match(const csv_words *w, const uint8_t *p, int64_t n);

static inline bool hr__csv_is_word(const csv_words *w, const uint8_t *p, int64_t n)
{
    if (n == 0)
        return w->empty;
    return w->firsts[*p] && (w->lengths >> HR_MIN(n, 63) & 1) && hr__csv_words_match(w, p, n);
}

/* How text becomes values. */
typedef struct csv_values {
    const csv_options *options;
    csv_dialect dialect;
    csv_words nulls, trues, falses;
    bool plain_values; /* bytes that look like a number or a time are one: hr__csv_plain_values */
} csv_values;
bool hr__csv_plain_values(const csv_values *v);

/* The text of a field without quotes and escapes: p itself or, if it had any, `scratch` (room for n + HR_SLACK). */
const uint8_t *hr__csv_unquote(const csv_dialect *d, const uint8_t *p, int64_t *n, uint8_t *scratch);
/* Whether the text (without quotes) is a value of the type. */
bool hr__csv_fits(const csv_values *v, const hr_type *type, const uint8_t *p, int64_t n);
/* Whether a column of this type can be read. */
bool hr__csv_readable(const hr_type *type);

typedef struct csv_bad {
    int64_t row; /* -1: none */
    const char *why;
} csv_bad;
/* Column `column` of the rows. A value that does not fit is HR_BAD_DATA without a text; *bad is its place. */
hr_status hr__csv_column(const csv_values *v, const csv_rows *rows, int column, hr_type *type, const hr_mem *mem,
                         hr_array **out, csv_bad *bad, hr_error *err) HR_MUST_USE;

/* --- types: csv_infer.c */

/* The type that pyarrow.csv infers for the values. *out is new. */
hr_status hr__csv_infer(const csv_values *v, const csv_rows *rows, int column, hr_type **out,
                        hr_error *err) HR_MUST_USE;
/* For hr_format.type_bytes. 0: options give types; only `open`, which knows the names, can tell whether it infers
 * others, and announces the bytes for them. */
int64_t hr__csv_type_bytes(const csv_options *o);

/* --- encodings: csv_encoding.c */

bool hr__csv_is_utf8_name(const char *encoding);
/* A stream of UTF-8 from a stream of another encoding. Takes `below`, even on failure. HR_UNSUPPORTED names the
 * encoding. */
hr_status hr__csv_decode(hr_stream *below, const char *name, const char *encoding, int errors, hr_account *account,
                         hr_stream **out, hr_error *err) HR_MUST_USE;

/* --- writing: csv_write.c */

typedef struct csv_write_options {
    char delimiter;
    bool header;
    int quoting;
    char *null_text;
    bool crlf;
    int compression;
    int64_t level;
} csv_write_options;
extern const hr_option hr__csv_write_options[];
hr_status hr__csv_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                         hr_error *err) HR_MUST_USE;

#endif
