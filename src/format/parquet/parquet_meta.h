/* parquet_meta.h - the metadata of a Parquet file: Thrift, the footer, page headers, statistics and indexes, and the
 * schema of the columns of a projection.
 *
 *   parquet_meta.c    footer and page headers (Thrift compact)           bytes -> pq_meta, pq_page
 *   parquet_index.c   statistics, page indexes, bloom filters            what is known without reading pages
 *   parquet_schema.c  the tree of columns, and the embedded Arrow schema pq_meta -> pq_node, pq_leaf
 *
 * Nothing in the file is trusted. A count is valid only if the bytes for its elements exist. */
#ifndef HR_PARQUET_META_H
#define HR_PARQUET_META_H

#include "format/format.h"

#define PQ_MAX_LEVEL 200              /* definition levels; HR_MAX_DEPTH nested lists need no more */
#define PQ_MAX_PAGE ((1LL << 31) - 1) /* a page's bytes, compressed or not */

/* ------------------------------------------------------------------------------------------- Thrift: parquet_meta.c */

/* A reader of Thrift's compact protocol. The first error stays in `wrong` and ends every loop; check it at the end. */
typedef struct pq_thrift {
    const uint8_t *at, *end;
    const char *wrong; /* NULL: no error yet */
    bool short_of; /* the error is that bytes are missing (the caller may parse a page header again with more bytes) */
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
/* A list's length, after checks: the elements are of `type`, and min_bytes for each of them exist. */
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

/* One element of the schema tree, which the file stores depth first. Texts point into the footer. */
typedef struct pq_element {
    hr_view name;
    int32_t n_children; /* 0: a leaf */
    int8_t physical;    /* -1: a group */
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
    int64_t begin, n_bytes; /* offset and bytes of its pages, with the dictionary */
    int64_t dict_bytes;     /* of begin's page, a dictionary, with its header; by the footer. 0: none */
    int64_t slack;          /* bytes of n_bytes that may not belong to the chunk */
    int64_t memory_bytes;   /* uncompressed; by the footer */
    int64_t text_bytes;     /* of all byte arrays, unencoded; -1: not known */
    int64_t index_at;       /* offset index; 0: none */
    int32_t index_bytes;
    uint32_t at; /* offset of its ColumnChunk in the footer */
} pq_chunk;

typedef struct pq_group {
    int64_t n_rows;
    pq_chunk *chunks; /* n_leaves */
} pq_group;

/* What a page may have after its values, by writer. */
enum {
    PQ_PADS_RUNS = 1,       /* DuckDB: packed runs without values */
    PQ_PADS_ZEROS = 2,      /* fastparquet: up to PQ_MAX_ZEROS bytes of zero, also after packed runs without values */
    PQ_PADS_DICTIONARY = 4, /* Arrow C++: bytes that it never wrote, as long as the duplicates of an Arrow dictionary */
};
#define PQ_MAX_ZEROS 8

/* The footer. Counted: open files with other projections share it. */
typedef struct pq_meta {
    atomic_int refs;
    hr_buffer *bytes; /* the footer itself, into which texts point */
    pq_element *elements;
    int n_elements, n_leaves;
    pq_group *groups;
    int n_groups;
    int64_t n_rows;
    hr_view created_by;   /* the writer; empty: not known */
    bool all_compressed;  /* pages of version 2 are compressed even if marked as not compressed */
    uint8_t padding;      /* PQ_PADS_*: what this writer puts after values */
    hr_view arrow_schema; /* base64, empty: none */
    uint8_t *ordered;     /* n_ordered, by column: min_value and max_value use the order of the type */
    int n_ordered;
    uint8_t *metadata; /* the other key-values, Arrow-encoded; NULL: none */
    int64_t metadata_bytes;
} pq_meta;

hr_status pq__meta_read(hr_source *source, hr_account *account, pq_meta **out, hr_error *err) HR_MUST_USE;
/* Parses the bytes of a footer. Takes `bytes`, even on failure. data_end: where data ends and the footer begins. */
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
    int64_t def_bytes, rep_bytes; /* V2: of the level streams, which precede the values uncompressed */
    bool compressed;              /* V2 may say no */
    bool has_crc;
    uint32_t crc; /* of the stored bytes */
} pq_page;

/* Header at `bytes`; *n_used its length. HR_PENDING: the header is longer than the bytes. */
hr_status pq__page_parse(hr_view bytes, pq_page *out, int64_t *n_used, hr_error *err) HR_MUST_USE;

/* -------------------------------------------------------------------------- statistics and indexes: parquet_index.c */

typedef struct pq_place {
    int64_t offset;  /* of the page's header in the file */
    int64_t row;     /* first row that begins in it */
    int64_t entries; /* level entries before it; -1: not known */
    int32_t ordinal; /* number of the page, for errors */
} pq_place;
/* An offset index. *out is new (hr__free). */
hr_status pq__index_parse(hr_view bytes, hr_account *account, pq_place **out, int64_t *n, hr_error *err) HR_MUST_USE;

/* Least and greatest value, as stored (PLAIN without lengths); data NULL: not known. */
typedef struct pq_stats {
    hr_view least, most;
    bool deprecated;    /* of the old fields, whose order is defined only for signed numbers */
    int64_t null_count; /* -1: not known */
    int64_t n_distinct; /* -1: not known */
} pq_stats;

/* What the footer says about a column chunk that is rarely needed. Views point into the footer. */
typedef struct pq_detail {
    pq_stats stats;
    uint32_t encodings; /* bits, by pq_encoding */
    int64_t column_index_at, bloom_at;
    int64_t column_index_bytes; /* 0: there is none */
    int64_t bloom_bytes;        /* 0: of unknown length if bloom_at is set */
} pq_detail;
void pq__detail_read(const pq_meta *m, const pq_chunk *c, pq_detail *out);

/* A column index: the statistics of each page. Views point into `bytes`. */
typedef struct pq_page_stats {
    hr_buffer *bytes;
    int64_t n;
    pq_stats *pages;
    bool *all_null;
} pq_page_stats;
/* Takes `bytes`, even on failure. HR_BAD_DATA unless the index has n_pages pages. */
hr_status pq__page_stats_parse(hr_buffer *bytes, int64_t n_pages, hr_account *account, pq_page_stats *out,
                               hr_error *err) HR_MUST_USE;
void pq__page_stats_clear(pq_page_stats *p);

uint64_t pq__xxh64(const void *data, int64_t n); /* XXH64 with seed 0 */
/* False only if the bloom filter at `at` in the source rules out a value of this hash. A filter that cannot be read or
 * is of an unknown kind rules out nothing. */
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
    uint8_t def_slot; /* least definition level at which it has a slot (the innermost list has an item) */
    uint8_t def_items[PQ_MAX_LEVEL +
                      1]; /* [r]: least definition level of an item of the list r, which levels r go on with */
    pq_physical physical;
    int32_t stored_width; /* bytes of a PLAIN value; 0: byte arrays, booleans */
    pq_kind kind;
    int32_t width; /* bytes of an Arrow value; PQ_K_BYTES: of an offset */
    int digits;    /* PQ_K_DECIMAL: the maximum of a value; 0: no limit */
    bool is_text;  /* must be UTF-8 */
    bool no_order; /* least and greatest value have no defined order */
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

/* The embedded schema: base64 of an IPC message (parquet_arrow.c). *out NULL: unknown types (then the Parquet types
 * hold alone). A dictionary-encoded field gets the type of its values. */
hr_status pq__arrow_schema_parse(hr_view base64, hr_account *account, hr_schema **out, hr_error *err) HR_MUST_USE;

/* ----------------------------------------------------------------------------------------- bounds: parquet_index.c */

/* Whether the least and greatest value of a column have a defined order: not for every type, and for the old fields
 * only for signed numbers. */
bool pq__has_order(const pq_meta *m, const pq_leaf *l, const hr_type *type, bool deprecated);
/* A stored bound as an array of one row. *out NULL: not a valid value. */
hr_status pq__bound_decode(const pq_leaf *l, hr_type *type, hr_view v, bool is_most, hr_account *account,
                           hr_array **out, hr_error *err) HR_MUST_USE;
bool pq__is_float_special(const hr_type *t, const uint8_t *p); /* NaN, or one of two equal zeros */

#endif
