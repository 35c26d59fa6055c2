/* length_batches.h - batches of rows of about one length: declarations of batch_by_length.c, length_batches.c and
 * length_bounds.c. */
#ifndef HR_LENGTH_BATCHES_H
#define HR_LENGTH_BATCHES_H

#include "op/operators.h"

#define HR_MAX_BUCKETS 256

/* --- length_bounds.c */

/* Sorts lengths[0 .. n), n <= 2^16, each up to 2^40, and chooses up to n_buckets bounds, ascending, the last one the
 * largest length: those that leave the least padding if each row is as long as the bound of its bucket. -> *n_bounds;
 * 0: there are no lengths. */
hr_status hr__length_bounds(int64_t *lengths, int64_t n, int n_buckets, int64_t *bounds, int *n_bounds,
                            hr_error *err) HR_MUST_USE;

/* --- length_batches.c: the open batches, one per bucket. Bucket k has the lengths above bounds[k - 1] up to bounds[k],
 * bucket n_bounds those above the last bound, and bucket n_bounds + 1 a row that is longer than a batch. */

typedef struct hr_length_batch {
    int64_t n_rows; /* 0: it is not open */
    int64_t longest, tokens;
    int64_t number;    /* by the order of opening */
    int64_t opened_at; /* the number of batches closed before */
    bool has_rows;     /* false: restored; its rows were emitted by the run that saved the position */
    hr_table **parts;  /* rows of earlier tables, in tables of their own memory */
    int64_t n_parts, cap_parts;
    uint32_t *picks; /* rows of the table at hand */
    int64_t n_picks, cap_picks;
} hr_length_batch;

typedef struct hr_length_batches {
    hr_account *account;
    int64_t max_tokens, max_rows;
    int64_t bounds[HR_MAX_BUCKETS];
    int n_bounds;
    hr_length_batch *open; /* n_bounds + 2; NULL: the bounds are not known yet */
    int n_open;
    int64_t next_number, n_closed;
} hr_length_batches;

/* Room for the batches of these bounds. Clear it also after an error. */
hr_status hr__length_batches_init(hr_length_batches *b, const int64_t *bounds, int n_bounds, hr_error *err) HR_MUST_USE;
void hr__length_batches_clear(hr_length_batches *b);
int hr__length_bucket(const hr_length_batches *b, int64_t length);
/* Whether bucket k has room for one more row of this length (0: of the least length that the bucket may hold). */
bool hr__length_fits(const hr_length_batches *b, int k, int64_t length);
void hr__length_open(hr_length_batches *b, int k);
/* Row `row` of the table at hand becomes a row of the open batch k. */
hr_status hr__length_add(hr_length_batches *b, int k, uint32_t row, int64_t length, hr_error *err) HR_MUST_USE;
/* The rows of batch k, the last of them rows of `in` (NULL: it has none of that): *out is new. */
hr_status hr__length_take(const hr_length_batches *b, int k, const hr_mem *mem, hr_schema *schema, hr_table *in,
                          int64_t place, hr_table **out, hr_error *err) HR_MUST_USE;
void hr__length_close(hr_length_batches *b, int k);
int hr__length_oldest(const hr_length_batches *b); /* -1: none is open */
/* The rows of `in` become parts of the open batches, which no longer refer to it. */
hr_status hr__length_keep(hr_length_batches *b, const hr_mem *mem, hr_schema *schema, hr_table *in,
                          hr_error *err) HR_MUST_USE;
/* The rows of all batches get this schema. */
hr_status hr__length_conform(hr_length_batches *b, const hr_mem *mem, hr_schema *schema, hr_error *err) HR_MUST_USE;
/* "2:30:128:5,..." bucket, rows, longest row and age of the open batches, the oldest first; "-": there are none. */
void hr__length_print(const hr_length_batches *b, hr_text *out);
bool hr__length_parse(hr_length_batches *b, const char *text); /* up to the next blank; false: it is no such text */
void hr__length_print_bounds(const int64_t *bounds, int n, hr_text *out); /* "128,512"; "-": none */
bool hr__length_parse_bounds(const char *text, int64_t *bounds, int *n);  /* the same way */

#endif
