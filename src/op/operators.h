/* operators.h - the constructors of all operators, and declarations that operators share. */
#ifndef HR_OPERATORS_H
#define HR_OPERATORS_H

#include "op/task.h"

/* --- the operators: each constructor checks its arguments; *out is new */

hr_status hr__op_project(const char *const *names, const char *const *new_names, int n, hr_op **out,
                         hr_error *err) HR_MUST_USE;
/* limit 0: what the disk has. version: a part of the key; NULL: none. Copies both texts. */
hr_status hr__op_cache(const char *folder, int64_t limit, const char *version, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_limit(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_number_rows(const char *name, hr_op **out, hr_error *err) HR_MUST_USE;
/* A row for each value of the lists of `column`, which becomes the value; a null or empty list gives one null. */
hr_status hr__op_explode(const char *column, hr_op **out, hr_error *err) HR_MUST_USE;
/* Tables of exactly n_rows; the state is {rows to skip of the open batch, ordinal of the next batch}. HR_BUDGET: one
 * batch is larger than the memory limit and is no slice of one table. */
hr_status hr__op_rebatch(int64_t n_rows, bool drop_last, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same for blocks, from which a later stage makes smaller batches: blocks of any size. */
hr_status hr__op_rebatch_blocks(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same rows in tables that depend on the rows alone, as fragments of materialized rows (fragment_cut.c). */
hr_status hr__op_fragments(hr_op **out, hr_error *err) HR_MUST_USE;
/* HR_BUDGET: the rows of one batch take more than the limit. `more`: the batch has even more rows. */
hr_status hr__batch_too_large(int64_t n_rows, int64_t n_bytes, int64_t limit, bool more, hr_error *err);
hr_status hr__op_map(const hr_map_function *fn, const hr_map_options *options, hr_op **out,
                     hr_error *err) HR_MUST_USE;                                               /* takes fn's context */
hr_status hr__op_filter(const hr_filter_function *fn, hr_op **out, hr_error *err) HR_MUST_USE; /* takes fn's context */
/* The rows for which e is true; all columns and computed ones (see headrace.h). Shared. HR_TYPE and HR_INVALID come
 * from `schema`. */
hr_status hr__op_filter_expr(hr_expr *e, hr_op **out, hr_error *err) HR_MUST_USE;
/* The same; the output has only the named columns, if they exist, in the input's order. Copies the names. */
hr_status hr__op_filter_giving(hr_expr *e, const char *const *names, int n, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_with_columns(const char *const *names, hr_expr *const *exprs, int n, hr_op **out,
                              hr_error *err) HR_MUST_USE;
/* One row for all rows with the same keys. `schema` of the input, NULL: not known yet. The order of the groups is not
 * defined. */
hr_status hr__op_group(const hr_schema *schema, const char *const *keys, int n_keys, const hr_aggregate *aggs,
                       int n_aggs, hr_op **out, hr_error *err) HR_MUST_USE;
/* Frees the contexts of the user's aggregates [begin, n), which no operator has taken. */
void hr__aggregates_drop(const hr_aggregate *aggs, int begin, int n);
/* Inputs: the right side, then the left one. Schemas NULL: not known yet. The output may need hr__op_arrange after
 * it. */
hr_status hr__op_join(hr_schema *left, hr_schema *right, const hr_join_options *options, hr_op **out,
                      hr_error *err) HR_MUST_USE;
/* Puts tables in the order of their last column HR_PLACE_COLUMN, which holds the place of each row among all rows (the
 * schema's metadata has the number of places), and drops that column. Tables without it pass unchanged. */
#define HR_PLACE_COLUMN "\001place"
hr_status hr__op_arrange(hr_op **out, hr_error *err) HR_MUST_USE;
/* Aggregate function i, from 0: its name and result; NULL: there is none. */
const char *hr__aggregate_at(int i, const char **doc);
/* All rows in order by n columns, stable; the last n_hidden columns order the rows and are not in the output. Copies
 * the keys. */
typedef struct hr_sort_column {
    const char *name;
    const char *text; /* for describe; NULL: the name */
    bool descending, nulls_first;
} hr_sort_column;
hr_status hr__op_sort(const hr_sort_column *keys, int n, int n_hidden, hr_op **out, hr_error *err) HR_MUST_USE;
/* n_parts tables; rows with equal keys are in the same one, by their hash. `sorted`: each in the order of the keys. */
hr_status hr__op_hash_partition(const hr_sort_column *keys, int n, int64_t n_parts, bool sorted, hr_op **out,
                                hr_error *err) HR_MUST_USE;
/* The same rows in n tables of about equal size. */
hr_status hr__op_repartition(int64_t n_blocks, hr_op **out, hr_error *err) HR_MUST_USE;
/* All rows in random order. */
/* op.c. The seed that a run uses, and the epoch (0 if all epochs have the same order). */
uint64_t hr__shuffle_seed_of(const hr_shuffle_seed *seed, const hr_op_run *run, uint64_t *epoch);
void hr__shuffle_fingerprint(const hr_shuffle_seed *seed, hr_hash *h);
hr_status hr__op_random_shuffle(const hr_shuffle_seed *seed, hr_op **out, hr_error *err) HR_MUST_USE;
/* Rows r with the same r / block_rows in a fragment of the source are a block. Puts the blocks in random order; rows
 * in a block keep theirs. */
hr_status hr__op_shuffle_blocks(const hr_shuffle_seed *seed, int64_t block_rows, hr_op **out,
                                hr_error *err) HR_MUST_USE;
/* --- block_order.c */
hr_status hr__op_block_order(const hr_shuffle_seed *seed, hr_op **out, hr_error *err) HR_MUST_USE;
/* Copies each table to contiguous memory of its own (hr_table.sole), in the run's arena if its output goes to another
 * process; lists of equal length stay lists. */
hr_status hr__op_gather(hr_op **out, hr_error *err) HR_MUST_USE;
/* The same rows, cut like function batches of n_rows. A run needs it upstream of a limit or union that feeds a function
 * by batches (blocks.c). */
hr_status hr__op_blocks(int64_t n_rows, hr_op **out, hr_error *err) HR_MUST_USE;
/* A function in worker processes or Python threads: rows to `calls`. */
typedef struct hr_calls hr_calls;
/* A function with state: a server makes an *instance* of it for each run. */
typedef struct hr_calls_class {
    bool instances; /* servers get messages when runs begin and end */
    int ahead;      /* this many workers make their instance when the run begins, others at their first call */
    int at_a_time;  /* > 0: there is one instance. Its calls begin in row order, at most this many at the same time */
    bool keeps;     /* the instance holds rows: a run that loses it with its worker fails */
    bool finishes;  /* its last call, after all rows, has the flag HR_CALL_LAST. keeps */
    bool saves;     /* its state is part of markers. keeps */
} hr_calls_class;
typedef struct hr_calls_options {
    const char *name;      /* "map_batches(augment)", for explain() and errors; copied */
    const char *qualified; /* "module.qualname", for the fingerprint; copied */
    int64_t
        /* 0: batches of up to `block_rows` by source coordinate; < 0: each input table is one batch (after a
         * rebatch) */
        batch_rows;
    int64_t block_rows;  /* default 4,096 */
    int64_t batch_bytes; /* > 0: batches also end at this many bytes (per-row functions: 8 MiB) */
    bool one_to_one; /* as in hr_map_options; the result must have as many rows as the input (HR_CALLBACK otherwise) */
    bool
        /* the result is one boolean column "keep"; the output is those rows of the input */
        filter;
    int64_t max_batches; /* > 1: while calls are short, one call takes up to this many batches */
    int64_t max_errored; /* batches that may fail in a run, which leaves them out; < 0: any number */
    const char *const
        *group_keys; /* n_group_keys > 0: a batch is a group: consecutive rows that agree in these columns (copied);
                                    * batch_rows and block_rows have no effect */
    int n_group_keys;
    /* The function makes this column (copied), one_to_one, from `columns`: its batches have only those, and the output
     * is the input's columns with this one after them. NULL: its batches have all columns, its results are the
     * output. */
    const char *made;
    const char *const *columns; /* n_columns (copied) */
    int n_columns;
    bool shows_doubles; /* the function gets integers with nulls as doubles, as in NumPy and pandas */
    bool inline_calls;  /* the consumer's thread runs the calls: notify it when a call is queued */
    int64_t pieces;     /* for statistics: as in hr_served */
    int64_t piece_bytes;
    hr_calls_class of_class;    /* zero: a function without state */
    struct ArrowSchema *schema; /* declared output, with `made` of that column; taken; NULL: from the first table */
} hr_calls_options;
hr_status hr__op_calls(hr_calls *calls, const hr_calls_options *options, hr_op **out,
                       hr_error *err) HR_MUST_USE; /* shares calls */

/* --- union_columns.c: gives rows the columns of `known`. `in`: an input's columns, before the union; NULL: after it.
 * !settled: the columns of the first table come first. Shares the schemas. */
hr_status hr__op_union_columns(hr_schema *in, hr_schema *known, bool settled, hr_op **out, hr_error *err) HR_MUST_USE;
/* All columns of a, then those that only b has, with types that hold the values of both. HR_TYPE names a column without
 * such a type. */
hr_status hr__schema_unify(const hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err) HR_MUST_USE;
/* --- pack.c: lists of tokens as rows of seq_len tokens. `schema` of the input, NULL: not known yet. Borrows. HR_TYPE
 * and HR_INVALID name a column that does not fit. */
hr_status hr__op_pack(const hr_schema *schema, int64_t seq_len, const hr_pack_options *options, hr_op **out,
                      hr_error *err) HR_MUST_USE;
/* --- batch_by_length.c: `schema` as for a pack. */
hr_status hr__op_batch_by_length(const hr_schema *schema, const char *column, int64_t max_tokens,
                                 const hr_length_options *options, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- sample.c. depth: the number of samples upstream */
hr_status hr__op_sample(const hr_sample_options *options, int depth, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- slice.c: rows [begin, end); end INT64_MAX: to the last */
hr_status hr__op_slice(int64_t begin, int64_t end, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- side_by_side.c (zip): the columns of all inputs side by side, row by row. `schemas`: of the inputs, where known
 * (borrowed, NULLs else). HR_INVALID at the end of the run if their numbers of rows differ. */
hr_status hr__op_zip(hr_schema *const *schemas, int n, hr_op **out, hr_error *err) HR_MUST_USE;
/* --- mix.c: rows of the inputs, in the proportion of the weights (n; > 0). drop: goes on without inputs that have
 * ended, until all have; else the first end of an input ends the output. */
hr_status hr__op_mix(const double *weights, int n, bool drop, const int64_t *until, hr_op **out,
                     hr_error *err) HR_MUST_USE;
/* --- lanes.c: batches of L lanes in turn. Turn t is batch t / L of lane t % L; the operator gives the n turns first,
 * first + step, ... */
typedef struct hr_lane_turns {
    int64_t batch_rows;
    int n_lanes; /* L */
    int64_t first, step, n;
} hr_lane_turns;
/* Of each lane (n_lanes; copied): the number of its rows; the first row to give after all turns, in the order of the
 * lanes (its number of rows: none); its input, -1: it has none, and no row of it is given. */
hr_status hr__op_lanes(const hr_lane_turns *turns, const int64_t *rows, const int64_t *rest, const int *inputs,
                       hr_op **out, hr_error *err) HR_MUST_USE;
/* --- local_shuffle.c, local_gather.c: a local shuffle is both, one after the other. `seed` (borrowed) NULL: the run's.
 * HR_INVALID: windows of less than one row, or too large ones. */
hr_status hr__op_local_shuffle(int64_t window_rows, const uint64_t *seed, hr_op **out, hr_error *err) HR_MUST_USE;
hr_status hr__op_local_gather(hr_op **out, hr_error *err) HR_MUST_USE;
/* --- write_job.c, write_cut.c, write_encode.c, write_add.c: rows into files, in three steps (write.h). *out: the
 * operators, in their order. `schema`: of the rows; NULL: that of the first table. */
hr_status hr__op_write(hr_schema *schema, const hr_format *format, const char *path, const hr_write_options *options,
                       hr_op *out[3], hr_error *err) HR_MUST_USE;
/* Whether files exist at `path`: the file itself, or any but hidden files in the folder. */
hr_status hr__write_exists(const char *path, const hr_write_options *o, bool *out, hr_error *err) HR_MUST_USE;
hr_status hr__write_schema(hr_schema **out, hr_error *err) HR_MUST_USE; /* of a write's output rows */

/* States of stream operators are words "key=number": false if the state has no such key. ("ordinal" is a rebatch's next
 * batch.) */
bool hr__state_int(const char *state, const char *key, int64_t *out);
/* For `marker`: passes the marker with the state "key=value". */
void hr__task_pass_int(hr_task *task, hr_marker *takes, const char *key, int64_t value);
/* For constructors of operators without arguments, and their `free`. */
hr_status hr__op_plain(const hr_op_class *cls, hr_op **out, hr_error *err) HR_MUST_USE;
void hr__op_plain_free(hr_op *op);

/* --- remembered_columns.c: the columns of a run's first rows, for positions */

typedef struct hr_remembered {
    char *text; /* the text in positions; NULL: not known yet */
    char expected
        [18]; /* the position's hash where there were too many columns: the first rows must have that hash; "": none */
} hr_remembered;
void hr__remembered_clear(hr_remembered *m);
/* marks: of each column, NULL: none. HR_TYPE: the columns differ from the remembered ones. */
hr_status hr__remembered_set(hr_remembered *m, const hr_schema *s, const bool *marks, hr_error *err) HR_MUST_USE;
/* Reads n bytes of such a text. *out and *marks (hr__free) are new; NULL: the columns are not known yet. HR_INVALID:
 * the text is damaged. */
hr_status hr__remembered_recall(hr_remembered *m, const char *text, int64_t n, hr_schema **out, bool **marks,
                                hr_error *err) HR_MUST_USE;

/* --- helpers of several operators */

/* HR_TYPE, "a table<where> differs from the first one: ...", unless the schemas are equal. */
hr_status hr__same_schema(const hr_schema *found, const hr_schema *first, const char *where, hr_error *err) HR_MUST_USE;

/* A function's results, for map and apply: `name` is for errors, `schema` the declared one (NULL: none). */
typedef struct hr_function {
    const char *name;
    hr_schema *schema;
    bool one_to_one;
} hr_function;
/* The function failed with st: sets `err` with its name. Returns the status to pass on, never HR_PENDING. */
hr_status hr__function_failed(const char *name, hr_status st, hr_error *err);
/* Checks a result and gives it its coordinates. n_before: rows of earlier results of the same input. */
hr_status hr__function_result(const hr_function *f, const hr_table *in, int64_t n_before, hr_table *found,
                              hr_table **out, hr_error *err) HR_MUST_USE;

#endif
