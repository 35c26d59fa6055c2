/* parquet_read.h - an open file: pages in order, columns made of pages, and the rows that a filter keeps.
 *
 *   parquet_pages.c     one column chunk as a sequence of decompressed pages; where rows begin
 *   parquet_column.c    one projected column: pages -> arrays
 *   parquet_prune.c     which rows a filter leaves -> pq_selection
 *   parquet_verify.c    values against statistics, if asked
 *   parquet_describe.c  what `headrace stat` prints
 *   parquet_read.c      the format: row groups as fragments; tables out of columns
 *
 * The way from a page to a column. A column is read by one `part` for each leaf under it; each part has a cursor.
 *
 *      bytes of a column chunk
 *        |   pq__cursor_seek      finds the page of a row by the offset index, or reads headers one after another
 *        |   pq__cursor_next      reads the next header, takes a dictionary page in (pq__dict_new), checks its
 *        v                        checksum, decompresses
 *      one page: cursor.page, .levels, .values        levels.left = page.n_values
 *        |
 *        |   pq__levels_take      takes entries until `rows` rows are there: a bit or an offset for each node of the
 *        |                        leaf's path (pq_track, pq_bits); says how many slots and values the entries announce
 *        |   add_values           appends that many values to the leaf's buffer (pq__values_fixed, _bits, _views)
 *        |                        and spreads them where slots are null (pq__spread)
 *        |   pq__cursor_page_end  once levels.left is 0: the page must be used up to its last byte
 *        v
 *      one part: validity and values of the leaf; validity and offsets of the nodes that it feeds
 *        |
 *        |   build                puts the arrays of all parts together, as the tree of pq_node says
 *        v
 *      one array of pq__column_read; parquet_read.c makes tables of them
 *
 * The counts, each checked where it ends:
 * 1. An entry has a pair of levels. In each take n_values <= n_slots <= n_entries: an entry has a slot in the leaf
 *    unless a list around it is empty or null, and a slot has a value unless it is null.
 * 2. A page has page.n_values entries: levels.taken + levels.left is that number. Its values are levels.n_values
 *    (pq__values_end), its rows levels.rows, which its header and the offset index may say as well.
 * 3. A chunk has chunk.n_values entries: cursor.entries, at the end (pq__column_end).
 * 4. A list's items, which its track counts from the levels, are the length of its child; all children of a struct are
 *    as long as it is (build_list, build_struct). Each part reads a chunk of its own, so a file whose leaves
 *    disagree is found here.
 * 5. The column's array has as many rows as were read. */
#ifndef HR_PARQUET_READ_H
#define HR_PARQUET_READ_H

#include "format/parquet/parquet_page.h"

/* ------------------------------------------------------------------------------------------- pages: parquet_pages.c */

/* The known places of the pages of one column chunk. */
typedef struct pq_directory {
    hr_mutex lock;
    pq_place *places;
    int64_t n, cap;
    int64_t next;         /* offset of the first page that is not known */
    int64_t rows;         /* rows that begin before it */
    int64_t entries;      /* level entries before it; -1: not known (places come from an offset index) */
    atomic_bool complete; /* then nothing changes any more, and readers need no lock */
    /* Until then, for announcements, which do not wait for the lock: where the last known page and the first unknown
     * one begin, and their first rows. last_at < 0: no page is known. */
    atomic_llong last_at, last_row, next_at, next_row;
    atomic_bool searching; /* a cursor may hold the lock for long */
} pq_directory;

/* The dictionary that the readers of an open file share, per leaf of the projection. */
typedef struct pq_shared {
    int dict_group; /* the row group that `dict` belongs to */
    pq_dict *dict;
} pq_shared;

/* A filter, bound to the columns that it reads. */
typedef struct pq_filter {
    struct pq_file *columns; /* the same file, with these columns */
    hr_bound *bound;
    bool by_row;                  /* a scout tests rows; false: only statistics skip rows */
    atomic_llong looked_at, kept; /* rows for which readers evaluated it; those that passed, with gaps */
    atomic_uchar *truths;         /* by row group: 0, or 1 and the hr_truth by statistics alone */
} pq_filter;

/* Rows of a row group that a filter may keep: ranges in order, which do not touch. */
typedef struct pq_range {
    int64_t begin, end;
} pq_range;
typedef struct pq_selection {
    int64_t n, cap;
    pq_range *ranges;
    int64_t n_rows;
    bool always; /* by statistics, the filter is true for all rows */
} pq_selection;

typedef struct pq_file {
    hr_scan_file base;
    hr_source *source;
    pq_meta *meta;
    pq_schema *schema;
    bool check_crc;
    bool verify;                 /* values against statistics */
    hr_skipped *skipped;         /* NULL: not counted */
    pq_filter *filter;           /* NULL: no usable filter */
    pq_selection **selections;   /* by row group, made when needed; NULL without a filter */
    hr_mutex lock;               /* protects the fields below; held for moments */
    pq_directory ***directories; /* by row group, then leaf; made when needed */
    pq_shared *shared;           /* by leaf */
} pq_file;

#define PQ_SKIPPED(f, what, by)                                                                                        \
    do {                                                                                                               \
        if ((f)->skipped)                                                                                              \
            atomic_fetch_add_explicit(&(f)->skipped->what, (by), memory_order_relaxed);                                \
    } while (0)

/* hr_scan_file_class.describe: parquet_describe.c. */
hr_status pq__describe(hr_scan_file *f, int fragment, bool json, hr_text *out, hr_error *err) HR_MUST_USE;
/* Sets the filter of an open file; a filter that does not fit the file is ignored. */
hr_status pq__filter_set(pq_file *f, const hr_open *how, hr_error *err) HR_MUST_USE;
void pq__filter_free(pq_file *f);
/* *out NULL: all rows. Borrowed from the file. */
hr_status pq__select(pq_file *f, int group, const pq_selection **out, hr_error *err) HR_MUST_USE;
/* Whether statistics alone say that the filter keeps no row. Reads nothing. False: perhaps not, or no memory. */
bool pq__ruled_out(pq_file *f, int group);

/* The pages of one column chunk, one after another. Must not move in memory while in use. */
typedef struct pq_cursor {
    pq_file *file;
    const pq_leaf *leaf;
    const pq_chunk *chunk;
    const hr_codec *codec; /* NULL: not compressed */
    int leaf_number, group;
    hr_mem mem;           /* for memory that lives no longer than the cursor */
    int64_t at, end;      /* in the file: the next header; the end of the chunk */
    int64_t enough;       /* in the file: from here on no bytes are needed for now */
    int64_t entries;      /* level entries before the next page; -1: not known */
    int64_t window_bytes; /* read at once, unless a page is larger */
    int64_t header_at;    /* of the current page */
    const pq_directory
        *index;        /* the directory, if the cursor moved by an offset index; else NULL. Borrowed from the file */
    int ordinal;       /* of the current page */
    hr_buffer *window; /* bytes [window_at, window_at + window_n) of the file */
    int64_t window_at, window_n;
    hr_buffer *plain;      /* a page, decompressed */
    hr_buffer *spelled[2]; /* levels of very old files: repetition, definition */
    pq_dict *dict;
    pq_page page;
    pq_levels levels;
    pq_values values;
} pq_cursor;

hr_status pq__cursor_init(pq_cursor *c, pq_file *f, int group, int leaf, hr_account *account,
                          hr_error *err) HR_MUST_USE;
void pq__cursor_clear(pq_cursor *c);
/* Moves to the page in which row `row` of the row group begins; *first is the first row that begins in that page.
 * Entries that continue the row before may come first. A cursor that has already read this page, or a later one, stays:
 * *first is -1. from: the row at which the cursor is, for the counters. row_end: the caller needs no rows from there on
 * for now. */
hr_status pq__cursor_seek(pq_cursor *c, int64_t from, int64_t row, int64_t row_end, int64_t *first,
                          hr_error *err) HR_MUST_USE;
/* Reads the next data page and sets up its levels and values. *more false: there is none. Before the call the caller
 * must have taken all entries of the current page, read or skipped their values, and called pq__cursor_page_end. */
hr_status pq__cursor_next(pq_cursor *c, bool *more, hr_error *err) HR_MUST_USE;
/* After the last value of a page: an error unless the page had the rows and nulls that its header announces, and its
 * bytes are used up. The error does not name its place. */
hr_status pq__cursor_page_end(const pq_cursor *c, hr_error *err) HR_MUST_USE;
/* The uncompressed bytes of a column chunk's first data page; reads no more than its header. */
hr_status pq__first_page_bytes(pq_file *f, int group, int leaf, int64_t *out, hr_error *err) HR_MUST_USE;
/* At the end of a page: skips the pages that lie within the next *rows rows, without reading them if possible, and
 * subtracts their rows from *rows. */
hr_status pq__cursor_pass(pq_cursor *c, int64_t *rows, hr_error *err) HR_MUST_USE;
/* Adds the place to an error: "a.parquet: row group 7, column 'label', page 3". */
hr_status pq__cursor_error(const pq_cursor *c, hr_status st, hr_error *err);
/* The bytes of the pages of rows [row, row_end), and of the dictionary, if that is known. Waits for nothing. -> the
 * number of ranges in `out`; 0: not known. */
int pq__known_ranges(pq_file *f, int group, int leaf, int64_t row, int64_t row_end, hr_file_range out[2]);
/* Likewise, where the row's page begins in a chunk without an index, as far as other readers have come; -1: none has
 * begun. *has_dict: the dictionary is in memory. slack: bytes before the row, where its page is not known. */
int64_t pq__known_begin(pq_file *f, int group, int leaf, int64_t row, int64_t slack, bool *has_dict);
void pq__directories_free(pq_file *f);

/* ------------------------------------------------------------------------------------- statistics: parquet_verify.c */

/* The statistics of one leaf of a row group, and what its values are so far. Errors do not name their place. */
typedef struct pq_verify pq_verify;
/* Borrows all arguments. type: of the decoded values. */
hr_status pq__verify_new(pq_file *f, const pq_leaf *l, const pq_chunk *chunk, hr_type *type, hr_account *account,
                         pq_verify **out, hr_error *err) HR_MUST_USE;
/* Checks slots [begin, begin + n), which come from page number `page`. */
hr_status pq__verify_slots(pq_verify *v, int page, const hr_array *a, int64_t begin, int64_t n,
                           hr_error *err) HR_MUST_USE;
/* Checks the counts of a page, read whole. */
hr_status pq__verify_page(pq_verify *v, int page, int64_t entries, int64_t nulls, hr_error *err) HR_MUST_USE;
/* Checks the counts of the chunk after the row group; no check if pages were skipped. */
hr_status pq__verify_chunk(const pq_verify *v, hr_error *err) HR_MUST_USE;
void pq__verify_free(pq_verify *v); /* NULL is fine */

/* ---------------------------------------------------------------------------------------- columns: parquet_column.c */

/* One projected column of one row group, read forward. */
typedef struct pq_column pq_column;
/* A column that reads rows from rows.begin on; the caller will not need rows from rows.end on soon. `from`: rows.begin
 * before a filter moved it, for the counters. Borrows the file. */
hr_status pq__column_new(pq_file *f, int group, int node, int64_t from, pq_range rows, const hr_mem *mem,
                         pq_column **out, hr_error *err) HR_MUST_USE;
/* Moves forward to row `row`; the caller will not need rows from row_end on soon. */
hr_status pq__column_seek(pq_column *c, int64_t row, int64_t row_end, hr_error *err) HR_MUST_USE;
/* Reads the first n > 0 rows of these ranges, which are in order at or after the current row; or fewer (one at least)
 * if their bytes would much exceed max_bytes. Skips the rows between the ranges. */
hr_status pq__column_read(pq_column *c, const pq_range *ranges, int64_t n, int64_t max_bytes, hr_array **out,
                          hr_error *err) HR_MUST_USE;
/* Whether it is a top-level column of text. Only then it has codes: the numbers of the rows' values in a dictionary. */
bool pq__column_has_codes(const pq_column *c);
/* The dictionary of the next page, borrowed; *out NULL: the page has none. */
hr_status pq__column_dict(pq_column *c, const pq_dict **out, hr_error *err) HR_MUST_USE;
/* Reads codes after pq__column_dict found a dictionary. *n: in: the maximum; out: the number of rows read, all of this
 * page. A null has the code dict->n. */
hr_status pq__column_codes(pq_column *c, uint32_t *codes, int64_t *n, hr_error *err) HR_MUST_USE;
/* Checks that the chunks end where the row group ends, if the column is read to its end. */
hr_status pq__column_end(pq_column *c, hr_error *err) HR_MUST_USE;
void pq__column_free(pq_column *c); /* NULL is fine */
/* Estimate of the bytes of one row. */
double pq__column_row_bytes(const pq_file *f, int group, int node);

#endif
