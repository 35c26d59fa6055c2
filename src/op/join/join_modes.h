/* join_modes.h - the three modes of a join behind one interface.
 *
 *   mode   taken when                                            held                       what comes out
 *   right  the join begins so, unless the next line holds        right side, by key         at once, as left rows come
 *   left   the left side has at most half the right one's rows   left side, right partners  parts, at the end
 *   partitioned  the held rows pass the allowance, in either mode      nothing: partitions spill  parts, at the end
 *
 * The plan's rules choose between the first two (join_first_input); hr__join_begin_partitions changes to the third,
 * once. All calls of a mode are serial, except `read`. Private to src/op/join. */
#ifndef HR_JOIN_MODES_H
#define HR_JOIN_MODES_H

#include "op/join/join.h"

#define HR_JOIN_PARTITIONS 256 /* partitions of each side in mode partitioned */
enum { HR_JOIN_INPUT_RIGHT, HR_JOIN_INPUT_LEFT };

typedef struct hr_join_op {
    hr_op base;
    hr_join_kind kind;
    int n_keys;
    char **left_keys, **right_keys;
    char *left_suffix, *right_suffix;
    hr_schema *left, *right; /* if known before the run */
    hr_join_layout *layout;  /* if both schemas are known */
} hr_join_op;

typedef struct hr_join_run hr_join_run;
typedef struct hr_join_mode {
    /* Takes in a table of an input. */
    hr_status (*take)(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, const hr_table *in, hr_error *err);
    hr_status (*ended)(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, hr_error *err);
    /* As in hr_op_class. */
    hr_status (*block_parts)(const hr_join_op *o, hr_join_run *j, hr_task *task, int64_t *n, hr_error *err);
    hr_status (*read)(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                      int64_t *estimate, hr_error *err);
} hr_join_mode;
extern const hr_join_mode hr__join_mode_right, hr__join_mode_left;

/* Held tables: of the side that comes first; in mode left, later of the other side. */
typedef struct hr_join_held {
    hr_table **tables;
    int64_t n, cap, n_bytes, n_rows;
} hr_join_held;

/* State of the run, shared with the front. */
struct hr_join_run {
    const hr_join_mode *mode;
    hr_account *account; /* borrowed */
    bool begins_left;    /* the left side comes first: mode left, until rows are partitioned */
    hr_mutex lock;       /* guards the creation of layout, bound and left_first.numbered */
    hr_join_layout *layout;
    hr_join_bound *bound;
    hr_schema *left, *right; /* of the tables so far */
    int64_t n_left, n_right, n_out;
    hr_join_held held;
    hr_join_table *table; /* modes right and left: the right rows by key, when the right side has ended */
    struct {
        int64_t *before; /* before[k]: right rows without a partner in the block parts before k */
        int64_t n;       /* block parts */
    } unmatched;
    struct {
        /* The left side, once it has ended; in mode partitioned until the right side has ended. */
        hr_join_turned *found;
        int64_t n_bytes;     /* that `found` holds */
        hr_schema *numbered; /* schema of the right tables with their numbers */
    } left_first;
    struct {
        hr_spill_file *spill;
        hr_partition_store *right, *left;
        hr_schema *right_schema, *left_schema; /* with the column `place` */
        hr_join_partitions parts;              /* the partitions, for reading */
    } partitioned;
};

/* --- join_run.c: what the modes share */
hr_join_names hr__join_names_of(const hr_join_op *o);
bool hr__join_keeps_right(hr_join_kind kind); /* the output has right rows without a partner */
hr_status hr__join_key_columns(const hr_schema *s, char *const *keys, int n, int *out, hr_error *err) HR_MUST_USE;
/* Sets *schema to the first schema found; HR_TYPE: a later one differs. */
hr_status hr__join_settle(hr_schema **schema, hr_schema *found, const char *where, hr_error *err) HR_MUST_USE;
/* No right row came: makes an empty j->table with keys of the left schema's types. */
hr_status hr__join_assume_right(const hr_join_op *o, hr_join_run *j, const hr_schema *left, hr_error *err) HR_MUST_USE;
/* The bound join, after the right side has ended. left NULL: no left row will come. */
hr_status hr__join_bound_of(const hr_join_op *o, hr_join_run *j, hr_schema *left, const hr_join_bound **out,
                            hr_error *err) HR_MUST_USE;
/* Holds a table of the input; changes to mode partitioned when tables and keys exceed `most` bytes. */
hr_status hr__join_hold(const hr_join_op *o, hr_join_run *j, int input, int64_t most, const hr_table *in,
                        hr_op_run *run, hr_error *err) HR_MUST_USE;
/* The held tables as one. schema: used if there is no table. *out is new. */
hr_status hr__join_held_rows(hr_join_run *j, hr_schema *schema, hr_task *task, hr_table **out,
                             hr_error *err) HR_MUST_USE;
void hr__join_forget_held(hr_join_run *j);
/* For right and full joins: sets j->unmatched, the right rows without a partner. */
hr_status hr__join_count_unmatched(const hr_join_op *o, hr_join_run *j, hr_account *account, hr_error *err) HR_MUST_USE;
hr_status hr__join_unmatched_read(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem,
                                  hr_reader **out, hr_error *err) HR_MUST_USE;

/* --- the fronts: of the left side in mode right, of the right side in mode left */
typedef struct hr_join_front {
    hr_op base;
    const hr_join_op *of; /* counted */
} hr_join_front;
void hr__join_front_free(hr_op *op);
extern const hr_op_class hr__join_left_front, hr__join_right_front;

/* --- join_mode_partitioned.c: divides held and later rows by partition */
hr_status hr__join_begin_partitions(const hr_join_op *o, hr_join_run *j, int input, hr_op_run *run,
                                    hr_error *err) HR_MUST_USE;

#endif
