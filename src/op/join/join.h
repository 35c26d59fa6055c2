/* join.h - the parts of a join: the layout of its output and the table of keys. Private to src/op. */
#ifndef HR_JOIN_H
#define HR_JOIN_H

#include "data/keys.h"
#include "op/operators.h"
#include "op/store/partition_store.h"

/* A column of the output. */
typedef struct hr_join_column {
    char *name, *from; /* its name in the output and in its input */
    bool right;
    int key; /* index of the key; -1: no key. Rows without a left row have the right row's keys */
} hr_join_column;

/* The output columns of a join, for the schemas of its inputs. Immutable. */
typedef struct hr_join_layout {
    hr_join_kind kind;
    int n_keys;
    hr_join_column *columns;
    int n_columns;
} hr_join_layout;

typedef struct hr_join_names {
    const char *const *left_keys, *const *right_keys; /* n_keys each */
    int n_keys;
    const char *left_suffix, *right_suffix; /* NULL: none */
} hr_join_names;

/* HR_INVALID: a missing key, or two output columns of one name; HR_TYPE: keys of different types. */
hr_status hr__join_layout(hr_join_kind kind, const hr_join_names *names, const hr_schema *left, const hr_schema *right,
                          hr_join_layout **out, hr_error *err) HR_MUST_USE;
void hr__join_layout_free(hr_join_layout *l); /* NULL is fine */

/* The layout over the columns that were read; columns that no operator needs are not. */
typedef struct hr_join_bound {
    hr_join_kind kind;
    int n_keys, n_columns;
    int *left_keys, *right_keys; /* columns of the inputs */
    int *from;                   /* of each output column: the column of its input */
    int *key;                    /* of each output column: index of the key; -1: no key */
    bool *right;
    hr_schema *left_in, *right_in, *out;
} hr_join_bound;
hr_status hr__join_bind(const hr_join_layout *l, const hr_join_names *names, hr_schema *left, hr_schema *right,
                        hr_join_bound **out, hr_error *err) HR_MUST_USE;
void hr__join_bound_free(hr_join_bound *b); /* NULL is fine */

/* The keys of a table's rows, numbered. A key with a null equals nothing and has no number. */
typedef struct hr_join_keys hr_join_keys;
#define HR_NO_KEY UINT32_MAX
#define HR_JOIN_MAX_ROWS (1 << 29) /* of one such table */
/* Numbers the keys of all rows of t (borrowed until the keys are freed) on all idle threads (task NULL: on this one).
 * ids[i]: the number of row i's key, less than hr__join_keys_n(); equal keys have equal numbers. */
hr_status hr__join_keys_new(const hr_table *t, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_keys **out, hr_error *err) HR_MUST_USE;
void hr__join_keys_free(hr_join_keys *k); /* NULL is fine */
int64_t hr__join_keys_n(const hr_join_keys *k);
bool hr__join_keys_gaps(const hr_join_keys *k); /* some numbers may belong to no row */
/* The rows of the least and the greatest value of an array of integers, dates or times; false: it has no value, or
 * another type. */
bool hr__join_extremes(const hr_array *a, int64_t *least, int64_t *most);
/* ids: the numbers of the keys of rows [begin, begin + n) of t, whose columns have the keys' types. Thread-safe. */
void hr__join_keys_find(const hr_join_keys *k, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids);
/* Whether values of the type are compared as integers. */
bool hr__join_is_integer(const hr_type *t);
/* Sets ids of rows with a null in these columns to HR_NO_KEY. */
void hr__join_no_nulls(const hr_table *t, const int *columns, int n_columns, int64_t begin, int64_t n, uint32_t *ids);

/* join_hash.c: the same by hash, for fewer than 2^29 rows; a key's number is the number of its first row. For rows with
 * a null the result of find is undefined. Borrows `rows` until it is freed. */
typedef struct hr_join_hash hr_join_hash;
hr_status hr__join_hash_new(const hr_table *rows, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_hash **out, hr_error *err) HR_MUST_USE;
void hr__join_hash_free(hr_join_hash *h); /* NULL is fine */
void hr__join_hash_find(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids);

/* The right side as a table of keys. */
typedef struct hr_join_table {
    hr_account *account;
    int n_keys;
    int right_keys[HR_MAX_KEYS]; /* columns */
    hr_table *rows;
    hr_join_keys *keys;
    uint32_t *begins; /* the rows of key k are order[begins[k] .. begins[k + 1]); NULL: key k is row k */
    uint32_t *order;  /* rows by key, within a key in their order */
    uint32_t *next; /* instead of begins and order, if few keys have several rows: next[row] of the same key; 0: none */
    _Atomic uint8_t *hit; /* of each key: a left row has it */
    /* instead of keys, if the left side's keys are numbered (join_turned.c): */
    uint32_t *ids; /* ids[row]: the number of its key; HR_NO_KEY: no left row has it */
    uint32_t
        *row_of; /* row_of[number]: its only row, or HR_NO_KEY; NULL: some numbers have several rows (begins, order) */
} hr_join_table;
/* Takes rows, even on failure. */
hr_status hr__join_table_new(const int *keys, int n_keys, hr_table *takes_rows, hr_task *task, hr_account *account,
                             hr_join_table **out, hr_error *err) HR_MUST_USE;
void hr__join_table_free(hr_join_table *t); /* NULL is fine */
/* The same for rows whose keys have the numbers ids[row], less than n_numbers. hit (borrowed): the numbers that a row
 * has; NULL: those in ids. Takes rows and ids, even on failure. */
hr_status hr__join_table_numbered(const int *keys, int n_keys, hr_table *takes_rows, uint32_t *takes_ids,
                                  int64_t n_numbers, const _Atomic uint8_t *hit, hr_account *account,
                                  hr_join_table **out, hr_error *err) HR_MUST_USE;
/* Puts the rows of [begin, begin + n) without a left partner into `rows`, returns their number. ids: room for n. */
int64_t hr__join_alone(const hr_join_table *t, int64_t begin, int64_t n, uint32_t *ids, int32_t *rows);

/* A walk over the output rows of a left table. */
typedef struct hr_join_walk {
    const hr_table *left; /* borrowed */
    uint32_t *ids;        /* ids[row]: number of its key; UINT32_MAX: none */
    int64_t row, match;   /* the next output row */
} hr_join_walk;
/* Finds the rows' keys and marks them as hit. */
hr_status hr__join_walk_begin(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_table *left,
                              hr_error *err) HR_MUST_USE;
/* The same for left rows whose keys have these numbers. */
hr_status hr__join_walk_known(hr_join_walk *w, const hr_join_table *t, const hr_table *left, const uint32_t *numbers,
                              hr_error *err) HR_MUST_USE;
int64_t hr__join_walk_rows(const hr_join_walk *w, hr_join_kind kind,
                           const hr_join_table *t); /* number of output rows */
void hr__join_walk_end(hr_join_walk *w);
/* The next output rows, about 64 thousand. *out is new, of schema bound->out, without origin; NULL at the end. lefts
 * (may be NULL; new, hr__free): the left row of each output row. */
hr_status hr__join_walk_next(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_mem *mem,
                             hr_table **out, int32_t **lefts, hr_error *err) HR_MUST_USE;
/* Sets bit first + i of each left row i that has a partner. */
void hr__join_walk_mark(const hr_join_walk *w, const hr_join_table *t, uint8_t *bits, int64_t first);
/* The output rows of a left table that depend on whether a left row has any partner: bit first + i says it of row i.
 * *out NULL: no such rows. t: any table of keys. lefts as above. */
hr_status hr__join_rest(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, const uint8_t *bits,
                        int64_t first, const hr_mem *mem, hr_table **out, int32_t **lefts, hr_error *err) HR_MUST_USE;
/* The right rows without a partner, from *row on, about 64 thousand; advances *row. *out NULL: no more. rights: as
 * lefts. */
hr_status hr__join_unmatched(const hr_join_bound *b, const hr_join_table *t, int64_t *row, const hr_mem *mem,
                             hr_table **out, int32_t **rights, hr_error *err) HR_MUST_USE;

/* --- join_turned.c: the left side is numbered and held */

typedef struct hr_join_turned {
    hr_account *account;
    hr_join_kind kind;
    hr_table *left;
    int keys_at[HR_MAX_KEYS]; /* the key columns */
    hr_join_keys *keys;
    uint32_t *ids;        /* numbers of its rows' keys */
    uint8_t *there;       /* there[number]: a left row has it; NULL: every found number has one */
    _Atomic uint8_t *hit; /* semi and anti joins, hit[number]: a right row has it */
    int64_t n_block_parts;
    int64_t *before; /* before[block part]: output rows of the block parts before it */
} hr_join_turned;
/* Takes left, even on failure. */
hr_status hr__join_turned_new(hr_join_kind kind, const int *keys, int n_keys, hr_table *takes_left, hr_task *task,
                              hr_account *account, hr_join_turned **out, hr_error *err) HR_MUST_USE;
void hr__join_turned_free(hr_join_turned *t); /* NULL is fine */
hr_status hr__join_schema_with_numbers(const hr_schema *s, hr_schema **out, hr_error *err) HR_MUST_USE;
/* The rows of a right table to keep, with their numbers as last column (schema `numbered`). *out is new; NULL: no rows.
 * Thread-safe. */
hr_status hr__join_turned_find(hr_join_turned *t, const hr_table *right, const int *keys, hr_schema *numbered,
                               const hr_mem *mem, hr_table **out, hr_error *err) HR_MUST_USE;
/* Makes the kept right rows a table of keys by the left side's numbers. schema: without the numbers. */
hr_status hr__join_turned_table(hr_join_turned *t, const int *keys, int n_keys, hr_schema *schema, hr_table *kept,
                                hr_join_table **out, hr_error *err) HR_MUST_USE;
/* Sets `before`. */
hr_status hr__join_turned_count(hr_join_turned *t, const hr_join_table *right, hr_task *task,
                                hr_error *err) HR_MUST_USE;
/* Reads the rows of a block part, numbered from before[block part] on. Borrows all arguments. */
hr_status hr__join_turned_read(const hr_join_turned *t, const hr_join_table *right, const hr_join_bound *bound,
                               int64_t block_part, const hr_mem *mem, hr_reader **out, hr_error *err) HR_MUST_USE;

/* --- partitions */

/* The table with a last column of int64, the places of its rows. Takes `places`, a buffer of n_rows. *out is new. */
hr_status hr__join_with_places(const hr_table *t, hr_schema *schema, hr_buffer *places, hr_table **out,
                               hr_error *err) HR_MUST_USE;
/* The schema of these tables. n_places: the number of places, for arrange.c; < 0: unknown. *out is new. */
hr_status hr__join_schema_with_places(const hr_schema *s, int64_t n_places, hr_schema **out, hr_error *err) HR_MUST_USE;
/* Both sides, divided into the same partitions by the hash of their keys. Borrowed. */
typedef struct hr_join_partitions {
    const hr_join_bound *bound;
    hr_partition_store *left, *right; /* left NULL: it has no rows */
    hr_schema *right_schema;
    int64_t n_left, n_right; /* rows of all partitions */
    int64_t share;           /* bytes of right rows to hold at once */
} hr_join_partitions;
/* Reads the output of a partition, with places: of its left rows; for right rows without a partner n_left + the right
 * row's. */
hr_status hr__join_partition_read(const hr_join_partitions *p, int part, hr_account *account, const hr_mem *mem,
                                  hr_reader **out, int64_t *estimate, hr_error *err) HR_MUST_USE;

#endif
