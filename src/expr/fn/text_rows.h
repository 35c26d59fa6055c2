/* text_rows.h - reads and writes columns of text row by row, for all functions of strings. For src/expr only. */
#ifndef HR_EXPR_TEXT_ROWS_H
#define HR_EXPR_TEXT_ROWS_H

#include "expr/fn.h"
#include "expr/fn/unicode.h"

/* --- reading: any of string, binary and their large ones */

typedef struct hr_rows {
    const uint8_t *bytes;
    const int32_t *at32; /* offsets: one of the two is set */
    const int64_t *at64;
} hr_rows;

hr_rows hr__rows_of(const hr_array *a);
static inline int64_t hr__row_begin(const hr_rows *r, int64_t i) { return r->at32 ? r->at32[i] : r->at64[i]; }
static inline const uint8_t *hr__row(const hr_rows *r, int64_t i, int64_t *n)
{
    int64_t begin = hr__row_begin(r, i);

    *n = hr__row_begin(r, i + 1) - begin;
    return r->bytes + begin;
}
/* The bytes of all n rows together, which are contiguous. */
static inline hr_view hr__rows_all(const hr_rows *r, int64_t n)
{
    int64_t begin = n ? hr__row_begin(r, 0) : 0;

    return (hr_view){ r->bytes + begin, n ? hr__row_begin(r, n) - begin : 0 };
}

/* --- writing a column of text, or of lists of texts */

typedef struct hr_writer {
    const hr_eval *how;
    hr_type *type;
    hr_growbuf bytes;
    hr_buffer *offsets;
    int64_t rows, room; /* written rows, and rows that the offsets have room for */
    bool wide;
} hr_writer;

/* Starts a column of n_rows rows of about n_bytes together; type: string, binary or their large forms, borrowed. */
hr_status hr__writer_open(hr_writer *w, const hr_eval *how, hr_type *type, int64_t n_rows, int64_t n_bytes,
                          hr_error *err);
/* Makes room for n more bytes at *out; the caller reports the number of written bytes by hr__writer_took. */
static inline hr_status hr__writer_room(hr_writer *w, int64_t n, uint8_t **out, hr_error *err)
{
    HR_TRY(hr__growbuf_reserve(&w->bytes, n, err));
    *out = w->bytes.buffer->data + w->bytes.buffer->n_bytes;
    return HR_OK;
}
static inline void hr__writer_took(hr_writer *w, int64_t n) { w->bytes.buffer->n_bytes += n; }
static inline hr_status hr__writer_add(hr_writer *w, const void *p, int64_t n, hr_error *err)
{
    return n ? hr__growbuf_add(&w->bytes, p, n, err) : HR_OK;
}
hr_status hr__writer_end_row(hr_writer *w, hr_error *err); /* HR_BAD_DATA if 32-bit offsets do not reach */
/* Finishes the column; takes validity, even on failure. w becomes empty. */
hr_status hr__writer_finish(hr_writer *w, hr_buffer *validity, hr_array **out, hr_error *err);
void hr__writer_clear(hr_writer *w);

/* --- arguments */

static inline bool hr__type_is_text(const hr_type *t) { return t->id == HR_T_STRING || t->id == HR_T_LARGE_STRING; }
static inline bool hr__type_is_large(const hr_type *t)
{
    return t->id == HR_T_LARGE_STRING || t->id == HR_T_LARGE_BINARY;
}
/* Checks that input 0 is text (or null, which is cast), or binary if `binary`; else HR_TYPE. */
hr_status hr__bind_text(hr_bound_call *call, bool binary, hr_error *err) HR_MUST_USE;
/* Input i as a constant text that is not null; borrowed from the call. HR_INVALID names it `name`. */
hr_status hr__constant_text(const hr_bound_call *call, int i, const char *name, hr_view *out,
                            hr_error *err) HR_MUST_USE;
/* The type of lengths and places: int32 for string and binary, int64 for their large forms. A singleton. */
hr_type *hr__length_type(const hr_type *text);

/* Row i of the values of an int32 (4 bytes) or int64 column. */
static inline void hr__put_int(hr_buffer *values, int bytes, int64_t i, int64_t v)
{
    if (bytes == 4)
        ((int32_t *)(void *)values->data)[i] = (int32_t)v;
    else
        ((int64_t *)(void *)values->data)[i] = v;
}

/* A function that returns a text, a boolean or a number for each valid row. `context` is the caller's. */
typedef hr_status hr_text_to_text(void *context, const uint8_t *p, int64_t n, hr_writer *out, hr_error *err);
typedef bool hr_text_to_bool(void *context, const uint8_t *p, int64_t n);
typedef int64_t hr_text_to_int(void *context, const uint8_t *p, int64_t n);
/* The column that such a function makes from args[0]; an error names the row. `grow`: expected bytes beyond those of
 * the input. */
hr_status hr__map_text(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_text *fn,
                       void *context, int64_t grow, hr_array **out, hr_error *err) HR_MUST_USE;
hr_status hr__map_bool(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_bool *fn,
                       void *context, hr_array **out, hr_error *err) HR_MUST_USE;
hr_status hr__map_int(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_int *fn,
                      void *context, hr_array **out, hr_error *err) HR_MUST_USE;
/* Puts "row 3 of ...: " before an error's text. */
hr_status hr__at_row(const hr_eval *how, int64_t row, hr_status st, hr_error *err);

/* Lists of texts: `fn` appends the items of a row and ends each by hr__writer_end_row. type: list or large_list of a
 * text. */
hr_status hr__map_list(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_text_to_text *fn,
                       void *context, hr_array **out, hr_error *err) HR_MUST_USE;
/* list<string>, or list<large_string> for large types; *out is new. */
hr_status hr__list_of_text(const hr_type *text, hr_type **out, hr_error *err) HR_MUST_USE;

#endif
