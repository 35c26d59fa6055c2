/* parquet.h - what the files of the Parquet reader share. Private to parquet*.c and their tests.
 *
 * The way of a value:
 *   parquet_meta.c    footer and page headers (Thrift compact)          bytes -> pq_meta, pq_page
 *   parquet_index.c   statistics, page indexes, bloom filters           what is known without reading pages
 *   parquet_prune.c   which rows a filter leaves                        -> pq_selection
 *   parquet_schema.c  the tree of columns, and the embedded Arrow schema pq_meta -> pq_node, pq_leaf
 *   parquet_pages.c   one column chunk as a sequence of decompressed pages; where rows begin
 *   parquet_levels.c  definition and repetition levels                  -> validity, offsets
 *   parquet_page.c    the encodings                                     -> values, in place
 *   parquet_kernel.c  ... their inner loops, for each family of CPUs
 *   parquet_verify.c  values against statistics, if asked
 *   parquet_read.c    row groups as fragments; arrays and tables from the parts
 *
 * Everything read from the file is a stranger's word. A count is believed only as far as bytes stand behind it. */
#ifndef HR_PARQUET_H
#define HR_PARQUET_H

#include "format/format.h"

#define PQ_MAX_LEVEL 200              /* definition levels; HR_MAX_DEPTH nested lists need no more */
#define PQ_MAX_PAGE ((1LL << 31) - 1) /* a page's bytes, compressed or not */

/* ------------------------------------------------------------------------------------------- Thrift: parquet_meta.c */

/* A reader of Thrift's compact protocol. The first error stays in `wrong` and ends every loop; check it at the end. */
typedef struct pq_thrift {
    const uint8_t *at, *end;
    const char *wrong; /* NULL: no error yet */
    bool short_of;     /* the error is that bytes are missing (a page header may just need a longer look) */
} pq_thrift;

enum {
    PQ_T_TRUE = 1,
    PQ_T_FALSE,
    PQ_T_I8,
    PQ_T_I16,
    PQ_T_I32,
    PQ_T_I64,
    PQ_T_DOUBLE,
    PQ_T_BINARY,
    PQ_T_LIST,
    PQ_T_SET,
    PQ_T_MAP,
    PQ_T_STRUCT
};

typedef struct pq_slot {
    int id;
    int type;
    uint32_t seen; /* bits, by id below 32: fields of this struct so far */
} pq_slot;

/* The next field of a struct; false at its end and after an error. Begin with a zero pq_slot. */
bool pq__thrift_next(pq_thrift *t, pq_slot *f);
#define PQ_FIELD(id) (1u << (id))
int64_t pq__thrift_int(pq_thrift *t, const pq_slot *f); /* any integer type */
hr_view pq__thrift_bytes(pq_thrift *t, const pq_slot *f);
/* A list's length, after checks: elements of `type`, each of at least min_bytes that are there. */
int64_t pq__thrift_list(pq_thrift *t, const pq_slot *f, int type, int64_t min_bytes);
bool pq__thrift_struct(pq_thrift *t, const pq_slot *f); /* false (and an error) if the field is no struct */
void pq__thrift_skip(pq_thrift *t, const pq_slot *f);
/* Elements of a list, after pq__thrift_list. */
hr_view pq__thrift_item_bytes(pq_thrift *t);
int64_t pq__thrift_item_int(pq_thrift *t);
bool pq__thrift_item_bool(pq_thrift *t);

/* ------------------------------------------------------------------------------------------- footer: parquet_meta.c */

typedef enum pq_physical {
    PQ_BOOLEAN,
    PQ_INT32,
    PQ_INT64,
    PQ_INT96,
    PQ_FLOAT,
    PQ_DOUBLE,
    PQ_BYTE_ARRAY,
    PQ_FIXED,
    PQ_N_PHYSICAL
} pq_physical;
typedef enum pq_repetition { PQ_REQUIRED, PQ_OPTIONAL, PQ_REPEATED } pq_repetition;
typedef enum pq_logical {
    PQ_L_NONE,
    PQ_L_STRING,
    PQ_L_MAP,
    PQ_L_LIST,
    PQ_L_ENUM,
    PQ_L_DECIMAL,
    PQ_L_DATE,
    PQ_L_TIME,
    PQ_L_TIMESTAMP,
    PQ_L_INTERVAL,
    PQ_L_INTEGER,
    PQ_L_NULL,
    PQ_L_JSON,
    PQ_L_BSON,
    PQ_L_UUID,
    PQ_L_FLOAT16,
    PQ_L_OTHER
} pq_logical;
typedef enum pq_encoding {
    PQ_PLAIN = 0,
    PQ_PLAIN_DICTIONARY = 2,
    PQ_RLE = 3,
    PQ_BIT_PACKED = 4,
    PQ_DELTA_BINARY = 5,
    PQ_DELTA_LENGTH = 6,
    PQ_DELTA_BYTES = 7,
    PQ_RLE_DICTIONARY = 8,
    PQ_BYTE_SPLIT = 9
} pq_encoding;

/* One element of the schema tree, which the file stores depth first. Texts are borrowed from the footer. */
typedef struct pq_element {
    hr_view name;
    int32_t n_children; /* 0: a leaf */
    int8_t physical;    /* -1: none, that is, a group */
    uint8_t repetition;
    uint8_t logical;
    uint8_t unit; /* hr_unit of times */
    bool utc;
    bool is_signed;
    int32_t bits;  /* of an integer */
    int32_t width; /* of PQ_FIXED */
    int32_t precision, scale;
    int32_t field_id; /* -1: none */
} pq_element;

/* One column of one row group. Sizes and places are checked against the file when the footer is read. */
typedef struct pq_chunk {
    int8_t physical;
    uint8_t codec;
    bool encrypted;
    bool elsewhere;         /* in another file */
    int64_t n_values;       /* with nulls and empty lists */
    int64_t begin, n_bytes; /* where its pages stand, with the dictionary */
    int64_t slack;          /* of n_bytes: may be no part of it */
    int64_t memory_bytes;   /* uncompressed, as the writer says */
    int64_t text_bytes;     /* of all byte arrays, unencoded; -1: not said */
    int64_t index_at;       /* offset index; 0: none */
    int32_t index_bytes;
    uint32_t at; /* in the footer: where its ColumnChunk begins */
} pq_chunk;

typedef struct pq_group {
    int64_t n_rows;
    pq_chunk *chunks; /* n_leaves */
} pq_group;

/* What a page may have behind its values, by writer. */
enum {
    PQ_PADS_RUNS = 1,  /* DuckDB: packed runs without values */
    PQ_PADS_ZEROS = 2, /* fastparquet: up to PQ_MAX_ZEROS bytes of zero, also behind such runs */
};
#define PQ_MAX_ZEROS 8

/* The footer. Counted: files opened with other projections share it. */
typedef struct pq_meta {
    atomic_int refs;
    hr_buffer *bytes; /* the footer itself, which texts are borrowed from */
    pq_element *elements;
    int n_elements, n_leaves;
    pq_group *groups;
    int n_groups;
    int64_t n_rows;
    hr_view created_by;   /* the writer, empty: not said */
    bool all_compressed;  /* pages of version 2 that say they were not are compressed all the same */
    uint8_t padding;      /* PQ_PADS_*: what this writer puts behind values */
    hr_view arrow_schema; /* base64, empty: none */
    uint8_t *ordered;     /* n_ordered, by column: min_value and max_value are of the type's order */
    int n_ordered;
    uint8_t *metadata; /* the other key-values, Arrow-encoded; NULL: none */
    int64_t metadata_bytes;
} pq_meta;

hr_status pq__meta_read(hr_source *source, hr_account *account, pq_meta **out, hr_error *err) HR_MUST_USE;
/* From a footer's bytes. Takes `bytes`, even on failure. data_end: where data ends and the footer begins. */
hr_status pq__meta_parse(hr_buffer *bytes, int64_t data_end, const char *name, hr_account *account, pq_meta **out,
                         hr_error *err) HR_MUST_USE;
pq_meta *pq__meta_ref(pq_meta *m);
void pq__meta_unref(pq_meta *m);

/* ------------------------------------------------------------------------------------- page headers: parquet_meta.c */

typedef enum pq_page_type { PQ_PAGE_DATA, PQ_PAGE_INDEX, PQ_PAGE_DICTIONARY, PQ_PAGE_DATA_V2 } pq_page_type;

typedef struct pq_page {
    int type;             /* pq_page_type; others are skipped */
    int64_t n_values;     /* with nulls */
    int64_t n_rows;       /* V2; -1: not said */
    int64_t n_nulls;      /* V2; -1: not said */
    int64_t stored_bytes; /* after the header */
    int64_t memory_bytes; /* uncompressed */
    int encoding, def_encoding, rep_encoding;
    int64_t def_bytes, rep_bytes; /* V2: of the level streams, which stand uncompressed before the values */
    bool compressed;              /* V2 may say no */
    bool has_crc;
    uint32_t crc; /* of the stored bytes */
} pq_page;

/* Header at `bytes`; *n_used its length. HR_PENDING: more bytes are needed to tell. */
hr_status pq__page_parse(hr_view bytes, pq_page *out, int64_t *n_used, hr_error *err) HR_MUST_USE;

/* -------------------------------------------------------------------------- what is known of pages: parquet_index.c */

typedef struct pq_place {
    int64_t offset;  /* of the page's header in the file */
    int64_t row;     /* first row that begins in it */
    int64_t entries; /* level entries before it; -1: not known */
    int32_t ordinal; /* number of the page, for errors */
} pq_place;
/* An offset index. *out is new (hr__free). */
hr_status pq__index_parse(hr_view bytes, hr_account *account, pq_place **out, int64_t *n, hr_error *err) HR_MUST_USE;

/* Least and most value, as stored (PLAIN without lengths); data NULL: not known. */
typedef struct pq_stats {
    hr_view least, most;
    bool deprecated;    /* of the fields whose order was never defined but for signed numbers */
    int64_t null_count; /* -1: not known */
    int64_t n_distinct; /* -1: not known */
} pq_stats;

/* What the footer says of a column chunk and is seldom needed. Views point into the footer. */
typedef struct pq_detail {
    pq_stats stats;
    uint32_t encodings; /* bits, by pq_encoding */
    int64_t column_index_at, bloom_at;
    int64_t column_index_bytes; /* 0: there is none */
    int64_t bloom_bytes;        /* 0: there is one if bloom_at says so, of unknown length */
} pq_detail;
void pq__detail_read(const pq_meta *m, const pq_chunk *c, pq_detail *out);

/* A column index: the statistics of each page. Views point into `bytes`. */
typedef struct pq_page_stats {
    hr_buffer *bytes;
    int64_t n;
    pq_stats *pages;
    bool *all_null;
} pq_page_stats;
/* Takes `bytes`, even on failure. HR_BAD_DATA unless it is of n pages. */
hr_status pq__page_stats_parse(hr_buffer *bytes, int64_t n_pages, hr_account *account, pq_page_stats *out,
                               hr_error *err) HR_MUST_USE;
void pq__page_stats_clear(pq_page_stats *p);

uint64_t pq__xxh64(const void *data, int64_t n); /* XXH64 with seed 0 */
/* False only if the bloom filter at `at` in the source rules out a value of this hash. What cannot be read or is of an
 * unknown kind rules out nothing. */
bool pq__bloom_may_have(hr_source *s, int64_t at, uint64_t hash);

/* ----------------------------------------------------------------------------------------- schema: parquet_schema.c */

/* How stored values become Arrow values. */
typedef enum pq_kind {
    PQ_K_NULL, /* nothing is kept */
    PQ_K_COPY, /* the same bytes */
    PQ_K_BOOL,
    PQ_K_NARROW,  /* int32 -> 8 or 16 bits */
    PQ_K_INT96,   /* -> nanoseconds */
    PQ_K_DECIMAL, /* integers, or big-endian bytes -> 16 or 32 bytes */
    PQ_K_BYTES    /* byte arrays: offsets and bytes */
} pq_kind;

/* A stored column: a leaf of the tree. */
typedef struct pq_leaf {
    char *name; /* dotted path, for errors */
    int column; /* number of its chunk in each row group */
    uint8_t max_def, max_rep;
    uint8_t def_slot; /* least definition level at which there is a slot for it (the innermost list has an item) */
    uint8_t def_items[PQ_MAX_LEVEL +
                      1]; /* [r]: least definition level of an item of the list r, which levels r go on with */
    pq_physical physical;
    int32_t stored_width; /* bytes of a PLAIN value; 0: byte arrays, booleans */
    pq_kind kind;
    int32_t width; /* bytes of an Arrow value; PQ_K_BYTES: of an offset */
    int digits;    /* PQ_K_DECIMAL: that a value may have; 0: any number */
    bool is_text;  /* must be UTF-8 */
    bool no_order; /* least and most say nothing */
} pq_leaf;

/* A column or a part of one, as a tree. Levels: see parquet_levels.c. */
typedef struct pq_node {
    hr_field field; /* what it becomes */
    int leaf;       /* number in pq_schema.leaves; -1: has children */
    int n_children;
    struct pq_node *children;
    uint8_t rep;       /* of its slots: the number of lists around it */
    uint8_t def_slot;  /* least definition level at which it has a slot */
    uint8_t def_valid; /* ... at which it is not null */
    uint8_t def_item;  /* lists: ... at which there is an item */
} pq_node;

/* The columns of a projection. */
typedef struct pq_schema {
    hr_account *account;
    int n_nodes;
    pq_node *nodes; /* top-level columns */
    int n_leaves;
    pq_leaf *leaves;
    int *node_leaf; /* n_nodes + 1: node i has leaves [node_leaf[i], node_leaf[i + 1]) */
    hr_schema *arrow;
} pq_schema;

hr_status pq__schema_new(const pq_meta *m, const hr_projection *projection, const char *name, hr_account *account,
                         pq_schema **out, hr_error *err) HR_MUST_USE;
void pq__schema_free(pq_schema *s);

/* The embedded schema: base64 of an IPC message. Own small reader: parquet_arrow.c. *out NULL: not understood (then the
 * Parquet types stand alone). Dictionary-encoded fields come as their values. */
hr_status pq__arrow_schema_parse(hr_view base64, hr_account *account, hr_schema **out, hr_error *err) HR_MUST_USE;

/* ----------------------------------------------------------------------------------------- bounds: parquet_index.c */

/* Whether least and most of a column mean something: not of every type, and of the old fields only for signed
 * numbers. */
bool pq__has_order(const pq_meta *m, const pq_leaf *l, const hr_type *type, bool deprecated);
/* A stored bound as an array of one row. *out NULL: it is no valid value. */
hr_status pq__bound_decode(const pq_leaf *l, hr_type *type, hr_view v, bool is_most, hr_account *account,
                           hr_array **out, hr_error *err) HR_MUST_USE;
bool pq__is_float_special(const hr_type *t, const uint8_t *p); /* NaN, or one of two equal zeros */

/* ------------------------------------------------------------------------------ RLE and bit-packing: parquet_page.c */

/* A stream of small integers in runs. Reading beyond its bytes sets `bad`; the values are zeros then. */
typedef struct pq_runs {
    const uint8_t *at, *end;
    int width; /* bits, 0 to 32 */
    bool bad;
    bool packed;
    int64_t left;        /* values left in this run */
    int64_t cut;         /* packed: values that the run announces and has no bytes for */
    uint32_t value;      /* not packed */
    const uint8_t *bits; /* packed: 8 values are `width` bytes */
    int64_t bit;         /* where the next value begins, in bits after `bits` */
} pq_runs;

void pq__runs_init(pq_runs *r, const uint8_t *at, const uint8_t *end, int width);
/* Makes r->left > 0 if there is another run; false: none. */
bool pq__runs_next(pq_runs *r);
void pq__runs_skip(pq_runs *r, int64_t n);
/* Whether the stream ends behind the n values that were taken from it: no run goes on, but for what fills up the last
 * group of packed ones, and no byte is left over but for what this writer pads with (PQ_PADS_*). */
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
hr_status pq__dict_new(const pq_leaf *l, hr_view page, int64_t n_values, const hr_mem *mem, pq_dict **out,
                       hr_error *err) HR_MUST_USE;
pq_dict *pq__dict_ref(pq_dict *d);
void pq__dict_unref(pq_dict *d); /* NULL is fine */

/* Integers as differences: parquet_delta.c. Borrows the bytes. */
typedef struct pq_delta {
    const uint8_t *at, *end;
    int most_width;        /* bits of a difference, at most */
    int n_mini, per_mini;  /* miniblocks in a block, values in a miniblock */
    int mini;              /* the next of this block; n_mini: a block begins */
    const uint8_t *widths; /* of this block's miniblocks */
    int64_t total;         /* values in the stream */
    int64_t left;          /* not read yet, without the first */
    bool has_first;        /* the first value, in `last`, is not read yet */
    int64_t last, least;
    int width; /* of this miniblock */
    const uint8_t *bits;
    int64_t bit, mini_left;
} pq_delta;
/* bits: of an integer, 32 or 64. *rest: what follows the stream. */
hr_status pq__delta_init(pq_delta *d, int bits, hr_view in, hr_view *rest, hr_error *err) HR_MUST_USE;
hr_status pq__delta_read(pq_delta *d, int64_t *out, int64_t n, hr_error *err) HR_MUST_USE;

/* The values of one page, one after the other, nulls left out. Borrows the page's bytes and the dictionary. A zeroed
 * one may be initialised again and again; what it holds is freed by clear. */
typedef struct pq_values {
    const pq_leaf *leaf;
    const pq_dict *dict; /* NULL: not by dictionary */
    int encoding;
    const uint8_t *at, *end;
    hr_mem mem;              /* for what follows */
    pq_delta delta;          /* numbers, or lengths */
    pq_delta prefixes;       /* DELTA_BYTE_ARRAY: lengths of what is taken from the value before */
    hr_buffer *spelled;      /* DELTA_BYTE_ARRAY: the last values given, whole */
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
/* *n <= PQ_BLOCK byte arrays; HR_SLACK bytes after each can be read. *sum: their bytes. Borrowed from page, dictionary
 * or v, until v is used again. *n: how many there are, fewer (one at least) if they are large and had to be put
 * together. */
hr_status pq__values_views(pq_values *v, hr_view *out, int64_t *n, int64_t *sum, hr_error *err) HR_MUST_USE;
/* n numbers of values in v->dict, which is there. */
hr_status pq__values_codes(pq_values *v, uint32_t *out, int64_t n, hr_error *err) HR_MUST_USE;
hr_status pq__values_skip(pq_values *v, int64_t n, hr_error *err) HR_MUST_USE;
/* After n values, all that the page's levels announce: HR_BAD_DATA if the page has more, or bytes that belong to
 * none. */
hr_status pq__values_end(const pq_values *v, int64_t n, unsigned padding, hr_error *err) HR_MUST_USE;
bool pq__is_ascii(const uint8_t *p, int64_t n);
/* One stored value -> an Arrow value of l->width bytes; for kinds of fixed width. False: it is none. */
bool pq__value_convert(const pq_leaf *l, hr_view stored, uint8_t *out);

/* ----------------------------------------------------------------------------------------- levels: parquet_levels.c */

/* A validity bitmap being built; no bitmap exists before the first null. */
typedef struct pq_bits {
    hr_growbuf bytes;
    int64_t n, n_nulls;
} pq_bits;

/* What a struct or list on the way to a leaf takes from the leaf's levels. The first leaf below a node feeds it. */
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
    int64_t taken, rows, n_values; /* of those taken: how many, how many began a row, how many have a value */
    int at, n;                     /* decoded, not taken: [at, n) of the arrays below */
    uint8_t last_def;              /* of the last entry checked, also of the page before; 255: not known */
    uint8_t def_block[PQ_BLOCK + 8], rep_block[PQ_BLOCK + 8]; /* 8: loads of words go beyond the last */
} pq_levels;

/* Where the levels of one page go, and how far. */
typedef struct pq_take {
    pq_track *tracks;
    int n_tracks;
    pq_bits *valid; /* the leaf's; NULL: only count (tracks must be none) */
    int64_t rows;   /* rows that may still begin; the entry that would begin another is left */
    int64_t max_entries;
    int64_t n_entries, n_slots, n_values; /* out: taken; places in the leaf; of those not null */
} pq_take;

hr_status pq__levels_take(pq_levels *lv, pq_take *t, hr_error *err) HR_MUST_USE;
/* With all entries taken: HR_BAD_DATA if a stream of levels goes on. */
hr_status pq__levels_end(const pq_levels *lv, unsigned padding, hr_error *err) HR_MUST_USE;
/* How many of a page's n repetition levels are zero, that is, begin a row. Uses the stream up. */
hr_status pq__count_rows(pq_runs *rep, int64_t n, int64_t *rows, hr_error *err) HR_MUST_USE;

/* ------------------------------------------------------------------------------------------- pages: parquet_pages.c */

/* Where the pages of one column chunk stand, as far as anyone needed to know. */
typedef struct pq_directory {
    hr_mutex lock;
    pq_place *places;
    int64_t n, cap;
    int64_t next;    /* offset of the first page that is not known */
    int64_t rows;    /* rows that begin before it */
    int64_t entries; /* level entries before it; -1: not known (places come from an offset index) */
    bool complete;
} pq_directory;

/* What an open file shares between its readers, per leaf of the projection. */
typedef struct pq_shared {
    int dict_group; /* the row group that `dict` belongs to */
    pq_dict *dict;
} pq_shared;

/* A filter, bound to the columns that it reads. */
typedef struct pq_filter {
    struct pq_file *columns; /* the same file, with these columns */
    hr_bound *bound;
    bool by_row;                  /* rows are looked at; else statistics alone say what is left out */
    atomic_llong looked_at, kept; /* rows that readers have evaluated it for, and where it was true or nearly so */
} pq_filter;

/* Rows of a row group that a filter may leave: ranges in order, which do not touch. */
typedef struct pq_range {
    int64_t begin, end;
} pq_range;
typedef struct pq_selection {
    int64_t n, cap;
    pq_range *ranges;
    int64_t n_rows;
    bool always; /* the filter is true for all rows: statistics say so */
} pq_selection;

typedef struct pq_file {
    hr_scan_file base;
    hr_source *source;
    pq_meta *meta;
    pq_schema *schema;
    bool check_crc;
    bool verify;                 /* values against statistics */
    hr_skipped *skipped;         /* NULL: nobody counts */
    pq_filter *filter;           /* NULL: none that is of use */
    pq_selection **selections;   /* by row group, made when needed; NULL without a filter */
    hr_mutex lock;               /* of what stands below; held for moments */
    pq_directory ***directories; /* by row group, then leaf; made when needed */
    pq_shared *shared;           /* by leaf */
} pq_file;

#define PQ_SKIPPED(f, what, by)                                                                                        \
    do {                                                                                                               \
        if ((f)->skipped)                                                                                              \
            atomic_fetch_add_explicit(&(f)->skipped->what, (by), memory_order_relaxed);                                \
    } while (0)

/* What hr_scan_file_class.describe says: parquet_describe.c. */
hr_status pq__describe(hr_scan_file *f, int fragment, hr_text *out, hr_error *err) HR_MUST_USE;
/* The filter of an open file; one that does not fit the file is none. */
hr_status pq__filter_set(pq_file *f, const hr_open *how, hr_error *err) HR_MUST_USE;
void pq__filter_free(pq_file *f);
/* *out NULL: all rows. Borrowed from the file. */
hr_status pq__select(pq_file *f, int group, const pq_selection **out, hr_error *err) HR_MUST_USE;

/* The pages of one column chunk, one after another. Not moved while in use. */
typedef struct pq_cursor {
    pq_file *file;
    const pq_leaf *leaf;
    const pq_chunk *chunk;
    const hr_codec *codec; /* NULL: not compressed */
    int leaf_number, group;
    hr_mem mem;                /* for what lives no longer than the cursor */
    int64_t at, end;           /* in the file: the next header; where the chunk ends */
    int64_t enough;            /* ... and what need not be read */
    int64_t entries;           /* level entries before the next page; -1: not known */
    int64_t window_bytes;      /* read at once, unless a page is larger */
    int64_t header_at;         /* of the page in hand */
    const pq_directory *index; /* of an offset index by which the cursor moved; NULL: none. Borrowed from the file */
    int ordinal;               /* of the page in hand */
    hr_buffer *window;         /* bytes [window_at, window_at + window_n) of the file */
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
/* Goes to the page in which row `row` of the row group begins; *first is the first row that begins in it. Entries that
 * go on with the row before may come first. A cursor that has read that page, or a later one, stays: *first is -1.
 * from: the row at which it stands, for the counters. row_end: rows from there on are not wanted for now. */
hr_status pq__cursor_seek(pq_cursor *c, int64_t from, int64_t row, int64_t row_end, int64_t *first,
                          hr_error *err) HR_MUST_USE;
/* The next data page: levels and values are set up. *more false: there is none. Of a page all entries must have been
 * taken and their values been read or skipped, and pq__cursor_page_end called. */
hr_status pq__cursor_next(pq_cursor *c, bool *more, hr_error *err) HR_MUST_USE;
/* After the last value of a page: what its header announces must have come, and its bytes must be used up. The error is
 * without place. */
hr_status pq__cursor_page_end(const pq_cursor *c, hr_error *err) HR_MUST_USE;
/* Of a column chunk's first data page, uncompressed; reads no more than its header. */
hr_status pq__first_page_bytes(pq_file *f, int group, int leaf, int64_t *out, hr_error *err) HR_MUST_USE;
/* Where a page has been read to its end: passes over the pages that lie within the next *rows rows, unread if possible,
 * and takes their rows from *rows. */
hr_status pq__cursor_pass(pq_cursor *c, int64_t *rows, hr_error *err) HR_MUST_USE;
/* Adds the place to an error: "a.parquet: row group 7, column 'label', page 3". */
hr_status pq__cursor_error(const pq_cursor *c, hr_status st, hr_error *err);
void pq__directories_free(pq_file *f);

/* ------------------------------------------------------------------------------------- statistics: parquet_verify.c */

/* What the file says of one leaf of a row group, and what has come of it. Errors are without place. */
typedef struct pq_verify pq_verify;
/* Borrows all of it. type: of the values as they come out. */
hr_status pq__verify_new(pq_file *f, const pq_leaf *l, const pq_chunk *chunk, hr_type *type, hr_account *account,
                         pq_verify **out, hr_error *err) HR_MUST_USE;
/* Slots [begin, begin + n), which come from page number `page`. */
hr_status pq__verify_slots(pq_verify *v, int page, const hr_array *a, int64_t begin, int64_t n,
                           hr_error *err) HR_MUST_USE;
/* A page has been read whole. */
hr_status pq__verify_page(pq_verify *v, int page, int64_t entries, int64_t nulls, hr_error *err) HR_MUST_USE;
/* The row group has been read; says nothing if pages were passed over. */
hr_status pq__verify_chunk(const pq_verify *v, hr_error *err) HR_MUST_USE;
void pq__verify_free(pq_verify *v); /* NULL is fine */

/* ---------------------------------------------------------------------------------------- columns: parquet_column.c */

/* One projected column of one row group, read forward. */
typedef struct pq_column pq_column;
/* Rows from rows.begin on; those from rows.end on will not be wanted soon. `from`: what rows.begin was before a filter
 * moved it, for the counters. Shares nothing: the file must outlive it. */
hr_status pq__column_new(pq_file *f, int group, int node, int64_t from, pq_range rows, const hr_mem *mem,
                         pq_column **out, hr_error *err) HR_MUST_USE;
/* Goes on to row `row`; rows from row_end on will not be wanted soon. */
hr_status pq__column_seek(pq_column *c, int64_t row, int64_t row_end, hr_error *err) HR_MUST_USE;
/* The first n > 0 rows of these ranges, which stand in order at or after the column's place; or fewer (one at least) if
 * their bytes would much exceed max_bytes. What lies between is passed over. */
hr_status pq__column_read(pq_column *c, const pq_range *ranges, int64_t n, int64_t max_bytes, hr_array **out,
                          hr_error *err) HR_MUST_USE;
/* Whether it is text, and no part of anything. Only such a column has codes: the numbers of its rows' values in a
 * dictionary. */
bool pq__column_has_codes(const pq_column *c);
/* The dictionary of the page that comes next, borrowed; *out NULL: it has none. */
hr_status pq__column_dict(pq_column *c, const pq_dict **out, hr_error *err) HR_MUST_USE;
/* After that, where there is one: rows of this page, *n at most, and then how many; nulls are dict->n. */
hr_status pq__column_codes(pq_column *c, uint32_t *codes, int64_t *n, hr_error *err) HR_MUST_USE;
/* Checks that the chunks end where the row group ends, if the column has been read to there. */
hr_status pq__column_end(pq_column *c, hr_error *err) HR_MUST_USE;
void pq__column_free(pq_column *c); /* NULL is fine */
/* Estimate of the bytes of one row. */
double pq__column_row_bytes(const pq_file *f, int group, int node);

#endif
