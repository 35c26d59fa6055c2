/* parquet_page.h - the contents of one page: levels and values, in all their encodings.
 *
 *   parquet_page.c    runs of small integers, dictionaries, the encodings: bytes -> values, in place
 *   parquet_delta.c   ... integers as differences
 *   parquet_kernel.c  ... their inner loops, for each family of CPUs
 *   parquet_levels.c  definition and repetition levels -> validity, offsets
 *
 * Nothing here knows a file, only a page's bytes and its leaf. parquet_read.h draws how the parts work together. */
#ifndef HR_PARQUET_PAGE_H
#define HR_PARQUET_PAGE_H

#include "format/parquet/parquet_meta.h"

/* ------------------------------------------------------------------------------ RLE and bit-packing: parquet_page.c */

/* A stream of small integers in runs. A read after its last byte sets `bad` and gives zeros. */
typedef struct pq_runs {
    const uint8_t *at, *end;
    int width; /* bits, 0 to 32 */
    bool bad;
    bool packed;
    int64_t left;        /* values left in this run */
    int64_t cut;         /* packed: values that the run announces but whose bytes are missing */
    uint32_t value;      /* not packed */
    const uint8_t *bits; /* packed: 8 values are `width` bytes */
    int64_t bit;         /* where the next value begins, in bits after `bits` */
} pq_runs;

void pq__runs_init(pq_runs *r, const uint8_t *at, const uint8_t *end, int width);
/* Makes r->left > 0 if there is another run; false: none. */
bool pq__runs_next(pq_runs *r);
void pq__runs_skip(pq_runs *r, int64_t n);
/* Whether the stream ends after the n values that were taken: no run continues, except for the padding of the last
 * packed group, and no byte is left, except for the padding of this writer (PQ_PADS_*). */
bool pq__runs_ended(const pq_runs *r, int64_t n, unsigned padding);
void pq__runs_u8(pq_runs *r, uint8_t *out, int64_t n);
void pq__runs_u32(pq_runs *r, uint32_t *out, int64_t n);
/* The deprecated encoding BIT_PACKED (most significant bit first): n values as bytes. */
void pq__bit_packed_u8(const uint8_t *at, int width, uint8_t *out, int64_t n);

/* ------------------------------------------------------------------------------------------- values: parquet_page.c */

#define PQ_BLOCK 1024 /* values handled at once where they pass through a small array */

/* A dictionary, converted to Arrow values once. Counted: readers of one row group share it. */
typedef struct pq_dict {
    atomic_int refs;
    int64_t n;
    int64_t longest;   /* bytes of the longest value */
    hr_buffer *values; /* n * width; PQ_K_BYTES: n + 1 offsets of 32 bits */
    hr_buffer *bytes;  /* PQ_K_BYTES */
} pq_dict;
/* held: a buffer that may hold the page. If its bytes are the dictionary's values as they are, the dictionary takes it,
 * and *held becomes NULL. */
hr_status pq__dict_new(const pq_leaf *l, hr_view page, int64_t n_values, unsigned padding, const hr_mem *mem,
                       hr_buffer **held, pq_dict **out, hr_error *err) HR_MUST_USE;
pq_dict *pq__dict_ref(pq_dict *d);
void pq__dict_unref(pq_dict *d); /* NULL is fine */

/* Delta-encoded integers: parquet_delta.c. Borrows the bytes. */
typedef struct pq_delta {
    const uint8_t *at, *end;
    int most_width;        /* maximum bits of a difference */
    int n_mini, per_mini;  /* miniblocks in a block, values in a miniblock */
    int mini;              /* the next of this block; n_mini: a block begins */
    const uint8_t *widths; /* of this block's miniblocks */
    int64_t total;         /* values in the stream */
    int64_t left;          /* not read yet; the first value does not count */
    bool has_first;        /* the first value, in `last`, is not read yet */
    int64_t last, least;
    int width; /* of this miniblock */
    const uint8_t *bits;
    int64_t bit, mini_left;
} pq_delta;
/* bits: of an integer, 32 or 64. *rest: what follows the stream. */
hr_status pq__delta_init(pq_delta *d, int bits, hr_view in, hr_view *rest, hr_error *err) HR_MUST_USE;
hr_status pq__delta_read(pq_delta *d, int64_t *out, int64_t n, hr_error *err) HR_MUST_USE;

/* The values of one page, one after the other, without nulls. Borrows the page's bytes and the dictionary. A zeroed
 * pq_values may be initialised again and again; pq__values_clear frees what it holds. */
typedef struct pq_values {
    const pq_leaf *leaf;
    const pq_dict *dict; /* NULL: not dictionary-encoded */
    int encoding;
    const uint8_t *at, *end;
    hr_mem mem;              /* for what follows */
    pq_delta delta;          /* numbers, or lengths */
    pq_delta prefixes;       /* DELTA_BYTE_ARRAY: lengths of the prefixes shared with the value before */
    hr_buffer *spelled;      /* DELTA_BYTE_ARRAY: the values returned last, whole */
    int64_t last_at, last_n; /* the very last, in `spelled` */
    int64_t n_split;         /* BYTE_STREAM_SPLIT: values in each stream */
    int64_t bit;             /* PLAIN booleans: the next one */
    pq_runs runs;            /* indices, or booleans by RLE */
} pq_values;

hr_status pq__values_init(pq_values *v, const pq_leaf *l, const pq_dict *dict, int encoding, hr_view bytes,
                          hr_error *err) HR_MUST_USE;
void pq__values_clear(pq_values *v);
/* n values of fixed width. HR_BAD_DATA if the page has no more. */
hr_status pq__values_fixed(pq_values *v, uint8_t *out, int64_t n, hr_error *err) HR_MUST_USE;
/* n booleans into bits [at, at + n). */
hr_status pq__values_bits(pq_values *v, uint8_t *bits, int64_t at, int64_t n, hr_error *err) HR_MUST_USE;
/* *n <= PQ_BLOCK byte arrays; HR_SLACK bytes after each are readable. *sum: their bytes. Borrowed from page, dictionary
 * or v, until the next use of v. *n: out: the number of arrays, fewer (one at least) if prefixes made them large. */
hr_status pq__values_views(pq_values *v, hr_view *out, int64_t *n, int64_t *sum, hr_error *err) HR_MUST_USE;
/* n codes: numbers of values in v->dict, which is not NULL. */
hr_status pq__values_codes(pq_values *v, uint32_t *out, int64_t n, hr_error *err) HR_MUST_USE;
hr_status pq__values_skip(pq_values *v, int64_t n, hr_error *err) HR_MUST_USE;
/* After all n values that the page's levels announce: HR_BAD_DATA if the page has more values, or more bytes. */
hr_status pq__values_end(const pq_values *v, int64_t n, unsigned padding, hr_error *err) HR_MUST_USE;
bool pq__is_ascii(const uint8_t *p, int64_t n);
/* One stored value -> an Arrow value of l->width bytes; for kinds of fixed width. False: not a valid value. */
bool pq__value_convert(const pq_leaf *l, hr_view stored, uint8_t *out);

/* ----------------------------------------------------------------------------------------- levels: parquet_levels.c */

/* A validity bitmap under construction; no bitmap exists before the first null. */
typedef struct pq_bits {
    hr_growbuf bytes;
    int64_t n, n_nulls;
} pq_bits;

/* Validity and offsets of a struct or list on the path to a leaf, built from the leaf's levels. The first leaf below a
 * node builds them. */
typedef struct pq_track {
    const pq_node *node;
    bool is_list;
    int offset_bytes;   /* lists: 4 or 8 */
    pq_bits valid;      /* n: slots */
    hr_growbuf offsets; /* lists: where each slot's items begin */
    int64_t items;      /* lists: all of them */
} pq_track;

/* The level streams of one page. */
typedef struct pq_levels {
    const pq_leaf *leaf;
    pq_runs def, rep;
    int64_t left;                  /* entries not taken */
    int64_t taken, rows, n_values; /* entries taken; how many of them begin a row; how many have a value */
    int at, n;                     /* decoded, not taken: [at, n) of the arrays below */
    uint8_t last_def;              /* of the last checked entry, which may be in the page before; 255: not known */
    uint8_t def_block[PQ_BLOCK + 8], rep_block[PQ_BLOCK + 8]; /* 8: loads of words read after the last level */
} pq_levels;

/* A request to take levels of one page: the outputs, and the limit. */
typedef struct pq_take {
    pq_track *tracks;
    int n_tracks;
    pq_bits *valid; /* the leaf's; NULL: only count (then there are no tracks) */
    int64_t rows;   /* rows that may still begin; the entry that would begin one more is not taken */
    int64_t max_entries;
    int64_t n_entries, n_slots, n_values; /* out: entries taken; their slots in the leaf; slots that are not null */
} pq_take;

hr_status pq__levels_take(pq_levels *lv, pq_take *t, hr_error *err) HR_MUST_USE;
/* After all entries: HR_BAD_DATA if a stream of levels continues. */
hr_status pq__levels_end(const pq_levels *lv, unsigned padding, hr_error *err) HR_MUST_USE;
/* How many of a page's n repetition levels are zero, that is, begin a row. Reads the stream to its end. */
hr_status pq__count_rows(pq_runs *rep, int64_t n, int64_t *rows, hr_error *err) HR_MUST_USE;

#endif
