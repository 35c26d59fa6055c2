/* task_harness.h - one operator alone: a tiny serial stand-in for the scheduler.
 *
 * Implements what op.h lets an operator do with its task, by calling it straight away: push, wait if it was suspended,
 * resumed. What comes out is kept in order, tables and markers. The harness's own memory is plain malloc, so that
 * neither faults nor counts of live memory see it. */
#ifndef TASK_HARNESS_H
#define TASK_HARNESS_H

#include "harness.h"
#include "op/operators.h"

struct hr_marker {
    int64_t at; /* the test's: rows that came before */
};

typedef struct rig_item {
    hr_table *table; /* or */
    hr_marker *marker;
    char state[400];
} rig_item;

typedef struct rig {
    const hr_op *op;
    hr_op_run run;
    hr_mem mem;
    hr_task *task;
    int64_t ordinal; /* of the ticket */
    hr_coord begin;
    rig_item *out;
    int n_out, cap_out;
    int n_thread_states; /* made in this run */
    bool enough, cancelled;
    bool last, closes, marked; /* what the task says of the ticket */
    char saved[100];           /* with the ticket's marker; "none": it goes no further */
    int input, wanted;         /* of an operator with several: which the pushed table is of; which it wants next */
    int n_suspended;           /* how often */
    atomic_int n_notified;
    void (*while_suspended)(struct rig *r); /* called before waiting: serves calls, or cancels. NULL: others do */
    void *context;                          /* the test's */
} rig;

/* start, with an optional arena for output. */
hr_status rig_open(rig *r, const hr_op *op, hr_arena *arena, hr_error *err);
hr_status rig_push(rig *r, const hr_table *t, hr_error *err);
hr_status rig_mark(rig *r, int64_t at, hr_error *err);
hr_status rig_restore(rig *r, const char *state, hr_error *err);
hr_status rig_finish(rig *r, hr_error *err);
/* A map operator's next ticket: the task ends, another begins. */
void rig_next_ticket(rig *r);
void rig_close(rig *r); /* task_clear, thread_clear, stop; what came out is freed */
/* push all, finish. */
hr_status rig_run(rig *r, hr_table *const *tables, int n, hr_error *err);
/* run_with_faults over runs of an operator that `make` makes: a marker (`mark`), then 30 rows of numbers(). */
void rig_faults(hr_status (*make)(hr_op **out, hr_error *err), bool mark);
int64_t rig_rows(const rig *r);
int rig_tables(const rig *r);
hr_table *rig_table(const rig *r, int i); /* borrowed; the i-th table that came out */
/* All rows that came out, as one table; new. NULL: none. */
hr_table *rig_joined(const rig *r);

/* Rows [begin, begin + n) of a made-up fragment: x int64 = row, s string with nulls, v list<int32>, b bool. New. */
hr_table *numbers_at(int32_t file, int32_t fragment, int64_t begin, int64_t n);
hr_table *numbers(int64_t begin, int64_t n);
hr_table *slice(const hr_table *t, int64_t begin, int64_t n);
hr_table *join(hr_table *const *tables, int n);
/* Slices of t at random places; -> how many. */
int cut_randomly(const hr_table *t, uint64_t *random, hr_table **parts, int max_parts);
void unref_all(hr_table **tables, int n);
/* What test functions give: one column y of `type` (int64 or double), twice the first column, `times` times over. */
hr_status doubled(const hr_mem *mem, const hr_table *in, hr_type_id type, int times, hr_table **out, hr_error *err);
int64_t x_at(const hr_table *t, int64_t row); /* column 0, int64 */
/* Columns, values, names and origins are the same. */
bool tables_equal(const hr_table *a, const hr_table *b);
bool coords_equal(hr_coord a, hr_coord b);

#endif
