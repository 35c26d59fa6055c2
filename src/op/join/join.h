/* join.h - the parts of a join: which columns come out, and the side that is looked up. Private to src/op. */
#ifndef HR_JOIN_H
#define HR_JOIN_H

#include "data/keys.h"
#include "op/operators.h"
#include "op/store/partition_store.h"

/* A column of what comes out. */
typedef struct hr_join_column {
    char *name, *from; /* its name, and that in its input */
    bool right;
    int key; /* of a key column: which; -1: none. In rows without a left one, keys are the right one's */
} hr_join_column;

/* What a join gives, by the schemas of its inputs. Immutable. */
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

/* HR_INVALID: a key that is not there, a name that would be there twice; HR_TYPE: keys of different types. */
hr_status hr__join_layout(hr_join_kind kind, const hr_join_names *names, const hr_schema *left, const hr_schema *right,
                          hr_join_layout **out, hr_error *err) HR_MUST_USE;
void hr__join_layout_free(hr_join_layout *l); /* NULL is fine */

/* The layout over the columns that are really there: those that nobody wants were not read. */
typedef struct hr_join_bound {
    hr_join_kind kind;
    int n_keys, n_columns;
    int *left_keys, *right_keys; /* columns of the inputs */
    int *from;                   /* of each column that comes out: that of its input */
    int *key;                    /* which key it is; -1 */
    bool *right;
    hr_schema *left_in, *right_in, *out;
} hr_join_bound;
hr_status hr__join_bind(const hr_join_layout *l, const hr_join_names *names, hr_schema *left, hr_schema *right,
                        hr_join_bound **out, hr_error *err) HR_MUST_USE;
void hr__join_bound_free(hr_join_bound *b); /* NULL is fine */

/* Numbers of the keys of a table's rows. A key with a null in it equals nothing: it has none. */
typedef struct hr_join_keys hr_join_keys;
#define HR_NO_KEY UINT32_MAX
#define HR_JOIN_MAX_ROWS (1 << 29) /* of one such table */
/* Of all rows of t, which must stay, by all threads that have nothing else to do (task NULL: by this one); ids[i]: the
 * number of row i's key, of hr__join_keys_n(); rows of one key have one number. */
hr_status hr__join_keys_new(const hr_table *t, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_keys **out, hr_error *err) HR_MUST_USE;
void hr__join_keys_free(hr_join_keys *k); /* NULL is fine */
int64_t hr__join_keys_n(const hr_join_keys *k);
bool hr__join_keys_gaps(const hr_join_keys *k); /* numbers that no row has may be found */
/* Rows of the least and the greatest value of an array of integers, dates or times; false: there is none, or it is of
 * another type. */
bool hr__join_extremes(const hr_array *a, int64_t *least, int64_t *most);
/* Of n rows of a table, from `begin` on: columns of the types that the keys had. Thread-safe. */
void hr__join_keys_find(const hr_join_keys *k, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids);
/* Of a type that is compared as a number. */
bool hr__join_is_integer(const hr_type *t);
/* Rows with a null in these columns have no key. */
void hr__join_no_nulls(const hr_table *t, const int *columns, int n_columns, int64_t begin, int64_t n, uint32_t *ids);

/* join_hash.c: the same by hash, of less than 2^29 rows; a key's number is that of the first row that has it. Of rows
 * with a null find may tell anything. Shares the memory of `rows`, which must stay. */
typedef struct hr_join_hash hr_join_hash;
hr_status hr__join_hash_new(const hr_table *rows, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_hash **out, hr_error *err) HR_MUST_USE;
void hr__join_hash_free(hr_join_hash *h); /* NULL is fine */
void hr__join_hash_find(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids);

/* The right side as a table that is looked up by its keys. */
typedef struct hr_join_table {
    hr_account *account;
    int n_keys;
    int right_keys[HR_MAX_KEYS]; /* columns */
    hr_table *rows;
    hr_join_keys *keys;
    uint32_t *begins; /* of each key: its rows are order[begins[k] .. begins[k + 1]); NULL: keys are numbered as rows */
    uint32_t *order;  /* rows, by key, in their order */
    uint32_t
        *next; /* instead of both, where few keys have several rows: of each row, the next one of its key; 0: none */
    _Atomic uint8_t *hit; /* of each key: a left row had it */
    /* instead of keys, where the left side's keys are what is numbered (join_turned.c): */
    uint32_t *ids;    /* of each row: the number of its key; HR_NO_KEY: no left row has it */
    uint32_t *row_of; /* of each number: its only row, or HR_NO_KEY; NULL: some have several (begins, order) */
} hr_join_table;
/* Takes rows, even on failure. */
hr_status hr__join_table_new(const int *keys, int n_keys, hr_table *takes_rows, hr_task *task, hr_account *account,
                             hr_join_table **out, hr_error *err) HR_MUST_USE;
void hr__join_table_free(hr_join_table *t); /* NULL is fine */
/* The same by numbers below n_numbers that its rows have. hit (borrowed): which numbers any row had, is then what
 * counts; NULL: those of the rows. Takes rows and ids, even on failure. */
hr_status hr__join_table_numbered(const int *keys, int n_keys, hr_table *takes_rows, uint32_t *takes_ids,
                                  int64_t n_numbers, const _Atomic uint8_t *hit, hr_account *account,
                                  hr_join_table **out, hr_error *err) HR_MUST_USE;
/* Of n rows from `begin` on those that no left row had, to rows[0 .. n); -> how many. ids: room for n. */
int64_t hr__join_alone(const hr_join_table *t, int64_t begin, int64_t n, uint32_t *ids, int32_t *rows);

/* A walk over the rows that a left table makes. */
typedef struct hr_join_walk {
    const hr_table *left; /* borrowed */
    uint32_t *ids;        /* of each row, its key in the table; UINT32_MAX: none */
    int64_t row, match;   /* the next one */
} hr_join_walk;
/* Finds the rows' keys and marks them as hit. */
hr_status hr__join_walk_begin(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_table *left,
                              hr_error *err) HR_MUST_USE;
/* Of left rows whose keys have these numbers. */
hr_status hr__join_walk_known(hr_join_walk *w, const hr_join_table *t, const hr_table *left, const uint32_t *numbers,
                              hr_error *err) HR_MUST_USE;
int64_t hr__join_walk_rows(const hr_join_walk *w, hr_join_kind kind, const hr_join_table *t); /* that it makes in all */
void hr__join_walk_end(hr_join_walk *w);
/* The next rows, some 64 thousand of them; *out is new, of bound->out and without origin, NULL at the end. lefts (may
 * be NULL, new, hr__free): which left row each is of. */
hr_status hr__join_walk_next(hr_join_walk *w, const hr_join_bound *b, const hr_join_table *t, const hr_mem *mem,
                             hr_table **out, int32_t **lefts, hr_error *err) HR_MUST_USE;
/* Sets bit first + i of each left row i that has a partner. */
void hr__join_walk_mark(const hr_join_walk *w, const hr_join_table *t, uint8_t *bits, int64_t first);
/* Of a left table whose rows' bits, from `first` on, say which ever had a partner: the rows that come out for that, or
 * for having had none. *out NULL: none; t: any. lefts as above. */
hr_status hr__join_rest(const hr_join_bound *b, const hr_join_table *t, const hr_table *left, const uint8_t *bits,
                        int64_t first, const hr_mem *mem, hr_table **out, int32_t **lefts, hr_error *err) HR_MUST_USE;
/* The right rows that no left row had, from *row on, some 64 thousand; *row moves. *out NULL: no more. rights as lefts
 * above. */
hr_status hr__join_unmatched(const hr_join_bound *b, const hr_join_table *t, int64_t *row, const hr_mem *mem,
                             hr_table **out, int32_t **rights, hr_error *err) HR_MUST_USE;

/* --- join_turned.c: the left side is looked up */

typedef struct hr_join_turned {
    hr_account *account;
    hr_join_kind kind;
    hr_table *left;
    int keys_at[HR_MAX_KEYS]; /* its columns */
    hr_join_keys *keys;
    uint32_t *ids;        /* of its rows */
    uint8_t *there;       /* of each number: a left row has it; NULL: all that are found are there */
    _Atomic uint8_t *hit; /* of each number, of semi and anti joins: a right row has it */
    int64_t n_block_parts;
    int64_t *before; /* of each block part: the rows that come out of those before it */
} hr_join_turned;
/* Takes left, even on failure. */
hr_status hr__join_turned_new(hr_join_kind kind, const int *keys, int n_keys, hr_table *takes_left, hr_task *task,
                              hr_account *account, hr_join_turned **out, hr_error *err) HR_MUST_USE;
void hr__join_turned_free(hr_join_turned *t); /* NULL is fine */
hr_status hr__join_schema_with_numbers(const hr_schema *s, hr_schema **out, hr_error *err) HR_MUST_USE;
/* What is to be kept of a right table, with its numbers as last column, which `numbered` has. *out is new, NULL:
 * nothing. Thread-safe. */
hr_status hr__join_turned_find(hr_join_turned *t, const hr_table *right, const int *keys, hr_schema *numbered,
                               const hr_mem *mem, hr_table **out, hr_error *err) HR_MUST_USE;
/* All that was kept of the right side as a table by the left side's numbers. schema: without them. */
hr_status hr__join_turned_table(hr_join_turned *t, const int *keys, int n_keys, hr_schema *schema, hr_table *kept,
                                hr_join_table **out, hr_error *err) HR_MUST_USE;
/* Sets `before`. */
hr_status hr__join_turned_count(hr_join_turned *t, const hr_join_table *right, hr_task *task,
                                hr_error *err) HR_MUST_USE;
/* The rows of a block part, numbered from before[block part] on. Shares nothing: all must stay. */
hr_status hr__join_turned_read(const hr_join_turned *t, const hr_join_table *right, const hr_join_bound *bound,
                               int64_t block_part, const hr_mem *mem, hr_reader **out, hr_error *err) HR_MUST_USE;

/* --- partitions */

/* Tables with a last column of int64, the places of their rows. Takes `places`, a buffer of n_rows. *out is new. */
hr_status hr__join_with_places(const hr_table *t, hr_schema *schema, hr_buffer *places, hr_table **out,
                               hr_error *err) HR_MUST_USE;
/* Their schema. n_places (< 0: not said): how many there are, for arrange.c. *out is new. */
hr_status hr__join_schema_with_places(const hr_schema *s, int64_t n_places, hr_schema **out, hr_error *err) HR_MUST_USE;
/* Both sides, divided into the same partitions by the hash of their keys. Borrowed. */
typedef struct hr_join_partitions {
    const hr_join_bound *bound;
    hr_partition_store *left, *right; /* left NULL: there are no rows */
    hr_schema *right_schema;
    int64_t n_left, n_right; /* rows of all */
    int64_t share;           /* bytes of right rows that may be held at a time */
} hr_join_partitions;
/* What comes out of a partition, with places: those of the left rows, behind all of these those of right rows alone. */
hr_status hr__join_partition_read(const hr_join_partitions *p, int part, hr_account *account, const hr_mem *mem,
                                  hr_reader **out, int64_t *estimate, hr_error *err) HR_MUST_USE;

#endif
