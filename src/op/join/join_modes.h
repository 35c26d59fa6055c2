/* join_modes.h - how a join runs: three modes behind one interface.
 *
 *   mode   taken when                                            held                       what comes out
 *   right  the join begins so, unless the next line holds        right side, by key         at once, as left rows come
 *   left   the left side has at most half the right one's rows   left side, right partners  parts, at the end
 *   partitioned  what is held passes the allowance, in either mode     nothing: partitions spill  parts, at the end
 *
 * The plan's rules choose between the first two (join_first_input); hr__join_begin_partitions changes to the third,
 * once. Calls of a mode are serial but for `read`. Private to src/op/join. */
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
    hr_schema *left, *right; /* where they are known before */
    hr_join_layout *layout;  /* if both are */
} hr_join_op;

typedef struct hr_join_run hr_join_run;
typedef struct hr_join_mode {
    /* A table of an input. */
    hr_status (*take)(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, const hr_table *in, hr_error *err);
    hr_status (*ended)(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, hr_error *err);
    /* As in hr_op_class. */
    hr_status (*block_parts)(const hr_join_op *o, hr_join_run *j, hr_task *task, int64_t *n, hr_error *err);
    hr_status (*read)(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                      int64_t *estimate, hr_error *err);
} hr_join_mode;
extern const hr_join_mode hr__join_mode_right, hr__join_mode_left;

/* The tables of the side that comes first (mode left: then those of the other one), as long as they fit. */
typedef struct hr_join_held {
    hr_table **tables;
    int64_t n, cap, n_bytes, n_rows;
} hr_join_held;

/* Of the run, shared with the front. */
struct hr_join_run {
    const hr_join_mode *mode;
    hr_account *account; /* borrowed */
    bool begins_left;    /* the left side comes first: mode left, until rows are partitioned */
    hr_mutex lock;       /* guards the making of layout, bound and of left_first.numbered */
    hr_join_layout *layout;
    hr_join_bound *bound;
    hr_schema *left, *right; /* of the tables that came */
    int64_t n_left, n_right, n_out;
    hr_join_held held;
    hr_join_table *table; /* modes right and left: the right rows by key, when the right side has ended */
    struct {
        int64_t *before; /* of each part: the right rows without a partner in those before it */
        int64_t n;       /* parts */
    } unmatched;
    struct {
        /* The left side, when it has ended; kept until the right side has, if that is partitioned. */
        hr_join_turned *found;
        int64_t n_bytes;     /* that it holds */
        hr_schema *numbered; /* of the right tables that were looked up in it */
    } left_first;
    struct {
        hr_spill_file *spill;
        hr_partition_store *right, *left;
        hr_schema *right_schema, *left_schema; /* with the column `place` */
        hr_join_partitions parts;              /* the same, when they are read */
    } partitioned;
};

/* --- join_run.c: what the modes share */
hr_join_names hr__join_names_of(const hr_join_op *o);
bool hr__join_keeps_right(hr_join_kind kind); /* right rows without a partner come out */
hr_status hr__join_key_columns(const hr_schema *s, char *const *keys, int n, int *out, hr_error *err) HR_MUST_USE;
/* *schema becomes `found`, if it is the first; HR_TYPE: it is another one. */
hr_status hr__join_settle(hr_schema **schema, hr_schema *found, const char *where, hr_error *err) HR_MUST_USE;
/* No right row came, and only the left schema tells what keys there are: makes j->table, of none. */
hr_status hr__join_assume_right(const hr_join_op *o, hr_join_run *j, const hr_schema *left, hr_error *err) HR_MUST_USE;
/* The bound join, once there is a left schema, or there will be none (NULL); the right side has ended. */
hr_status hr__join_bound_of(const hr_join_op *o, hr_join_run *j, hr_schema *left, const hr_join_bound **out,
                            hr_error *err) HR_MUST_USE;
/* Holds a table of the input; beyond `most` bytes, with what is made of them, all are partitioned. */
hr_status hr__join_hold(const hr_join_op *o, hr_join_run *j, int input, int64_t most, const hr_table *in,
                        hr_op_run *run, hr_error *err) HR_MUST_USE;
/* What is held as one table. schema: where there is no table. *out is new. */
hr_status hr__join_held_rows(hr_join_run *j, hr_schema *schema, hr_task *task, hr_table **out,
                             hr_error *err) HR_MUST_USE;
void hr__join_forget_held(hr_join_run *j);
/* Right rows without a partner, by parts, of joins that give them: sets j->unmatched. */
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

/* --- join_mode_partitioned.c: what is held of the input, and all rows that come, go to partitions */
hr_status hr__join_begin_partitions(const hr_join_op *o, hr_join_run *j, int input, hr_op_run *run,
                                    hr_error *err) HR_MUST_USE;

#endif
