/* pack.h - packs documents of tokens into rows of one length: declarations of pack.c, pack_bins.c and pack_rows.c. */
#ifndef HR_PACK_H
#define HR_PACK_H

#include "op/operators.h"

/* A column of tokens. The values of pad, bos and eos lie in the first `bytes` bytes, as in the column. */
typedef struct hr_pack_column {
    int index;  /* in the input */
    int bytes;  /* of a token */
    int64_t at; /* in hr_bin.tokens */
    uint8_t pad[8], bos[8], eos[8];
} hr_pack_column;

/* The columns of input and output. */
typedef struct hr_pack_layout {
    hr_schema *in, *out;
    hr_pack_column *columns;
    int n;
    int64_t row_bytes; /* of the tokens of a row, all columns */
} hr_pack_layout;

/* A row that is not full yet. */
typedef struct hr_bin {
    int64_t used;      /* tokens */
    int64_t number;    /* by the order of opening */
    int64_t opened_at; /* the number of rows closed before */
    bool has_tokens;   /* false: restored; its tokens were emitted by the run that saved the position */
    int64_t n_segments, cap_segments;
    int32_t *segments; /* their lengths, in the order of the tokens */
    uint8_t tokens[];  /* row_bytes: seq_len values of each column */
} hr_bin;

/* --- pack_bins.c: the open bins, in the order in which they were opened */

typedef struct hr_bins {
    hr_account *account;
    hr_pack_strategy strategy;
    int64_t seq_len, row_bytes;
    int most;
    hr_bin **open;
    int n;
    hr_bin **spare; /* closed ones, for reuse */
    int n_spare;
    int64_t next_number, n_closed;
} hr_bins;

/* A bin that is open for longer than this number of closed rows, times the number of open bins, is closed. */
#define HR_BIN_AGE 4

/* Room for `most` bins; clear it also after an error. */
hr_status hr__bins_init(hr_bins *b, hr_account *account, hr_pack_strategy strategy, int64_t seq_len, int64_t row_bytes,
                        int most, hr_error *err) HR_MUST_USE;
void hr__bins_clear(hr_bins *b);
/* The open bin for n tokens; -1: they need a new one. */
int hr__bins_find(const hr_bins *b, int64_t n);
int hr__bins_fullest(const hr_bins *b); /* of equally full ones the oldest */
/* The bin that must be closed for its age; -1: none. */
int hr__bins_aged(const hr_bins *b);
/* A bin that is in no list. hr__bins_recycle frees it. */
hr_status hr__bins_new(hr_bins *b, hr_bin **out, hr_error *err) HR_MUST_USE;
void hr__bins_recycle(hr_bins *b, hr_bin *takes); /* NULL is fine */
/* *out, borrowed, is the youngest open bin. There are fewer than `most`. */
hr_status hr__bins_open(hr_bins *b, hr_bin **out, hr_error *err) HR_MUST_USE;
hr_bin *hr__bins_take(hr_bins *b, int i); /* removes bin i from the open ones */
hr_status hr__bin_add_segment(hr_bins *b, hr_bin *bin, int64_t n, hr_error *err) HR_MUST_USE;
/* "12:0,700:3": tokens and age of the open bins; "-": there are none. */
void hr__bins_print(const hr_bins *b, hr_text *out);
/* Reads such a text, up to the next blank; false: it is none. The caller sets n_closed before. */
bool hr__bins_parse(hr_bins *b, const char *text, hr_status *st, hr_error *err);

/* --- pack_rows.c: closed bins as rows of a table */

typedef struct hr_pack_rows {
    const hr_pack_layout *layout;
    const hr_mem *mem;
    int64_t seq_len;
    bool segments, positions, mask;
    hr_buffer **values; /* layout->n, then segment ids, position ids, loss mask; NULL: no row yet */
    int64_t n, cap;
    int64_t first; /* place of the first row in the whole output */
} hr_pack_rows;

hr_status hr__pack_rows_add(hr_pack_rows *r, const hr_bin *bin, int64_t place, hr_error *err) HR_MUST_USE;
/* *out is new: the rows so far. r is empty then. */
hr_status hr__pack_rows_finish(hr_pack_rows *r, hr_table **out, hr_error *err) HR_MUST_USE;
void hr__pack_rows_clear(hr_pack_rows *r);

#endif
