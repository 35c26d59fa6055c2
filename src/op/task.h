/* task.h - what an operator may do with its task.
 *
 * The seam: operators call these functions; the scheduler (exec/task.c, parallel_call.c, marker.c) defines them. No
 * other call points up, and tests/test_layers.py reads the names here. */
#ifndef HR_TASK_H
#define HR_TASK_H

#include "op/op.h"

hr_status hr__task_emit(hr_task *task, hr_table **takes,
                        hr_error *err) HR_MUST_USE; /* *takes becomes NULL, even on failure */
void hr__task_more(hr_task *task);                  /* the operator has more to emit of the pushed table: see `more` */
int hr__task_input(const hr_task *task);            /* with several inputs: the input of the pushed table */
void hr__task_want(hr_task *task,
                   int input); /* CHOSEN: requests the next table from this input, which must not have ended */
/* STREAM: in a lane, the number of the first row of this input; else 0. Known before the input's first table. */
int64_t hr__task_first_row(const hr_task *task, int input);
int hr__task_lane(const hr_task *task);      /* STREAM: the number of the lane; 0: there are none */
void hr__task_enough(hr_task *task);         /* STREAM, BLOCK: the operator needs no more input */
void **hr__task_state(hr_task *task);        /* this operator's state in this task; NULL at first */
void **hr__task_thread_state(hr_task *task); /* this operator's state in this run and pool thread; NULL at first */
hr_op_run *hr__task_run(hr_task *task);
/* In a serial call (push, ended, finish, block_parts): runs fn(context, 0 .. n-1), in any order, on this thread and
 * idle threads. Returns when all are done, with the error of the lowest i that failed. task NULL: on this thread
 * only. */
hr_status hr__task_share(hr_task *task, int64_t n, hr_share_fn *fn, void *context, hr_error *err) HR_MUST_USE;
const hr_mem *hr__task_mem(hr_task *task);    /* for output: the run's account, and its arena if to_process */
bool hr__task_cancelled(const hr_task *task); /* long loops check it */
/* The ticket's first coordinate, and its number in the stage. Both are canonical. */
hr_coord hr__task_begin(const hr_task *task);
int64_t hr__task_ordinal(const hr_task *task);
int64_t hr__task_turn(const hr_task *task); /* the ticket's turn in its stage: lower turns emit first */
/* MAP, in push: the ticket has no more input for this operator. False: it may have some. */
bool hr__task_last(const hr_task *task);
bool hr__task_closes(const hr_task *task); /* MAP: all rows of the run have passed this operator; see hr_op.closes */
/* MAP: a marker lies before the ticket's rows. The operator adds its state at that point by hr__task_save, before it
 * emits rows of the ticket. state NULL: it has none, and the marker is dropped. Borrowed. */
bool hr__task_marked(const hr_task *task);
void hr__task_save(hr_task *task, const char *state);
/* MAP: the operator's state just before the block of its rows that begins at `at`, before it emits anything of that
 * block. A marker may lie there then. Borrowed. */
void hr__task_save_at(hr_task *task, const hr_coord *at, const char *state);
/* "rows 0 to 4095 of a.parquet, row group 3": where n rows from `begin` on came from. */
void hr__task_where(const hr_task *task, const hr_origin *o, hr_text *out);
void hr__task_source(const hr_task *task, hr_coord row, hr_text *out);  /* " of a.csv, fragment 3" */
void hr__task_pass(hr_task *task, hr_marker *takes, const char *state); /* STREAM only; state borrowed, NULL: none */
void hr__marker_drop(hr_marker *m); /* instead of passing it, if a newer one exists. NULL is fine */
hr_status hr__marker_copy(const hr_marker *m, hr_marker **out, hr_error *err) HR_MUST_USE; /* *out is new */
/* Joins n markers, each of another input, into one marker; a NULL adds nothing. *out is new; NULL: all are NULL. */
hr_status hr__marker_join(const hr_marker *const *markers, int n, hr_marker **out, hr_error *err) HR_MUST_USE;
/* CHOSEN, in restore: this input had ended. The operator must want another input (hr__task_want). */
void hr__task_end_input(hr_task *task, int input);

/* Whether this ticket is the oldest of its stage: all output of earlier tickets has gone on. */
bool hr__task_is_first(const hr_task *task);
/* Suspends the ticket until it is the first, or the operator's run is settled; then the scheduler calls `resumed`. The
 * operator must return HR_PENDING next. MAP with `resumed` only. */
void hr__task_await_turn(hr_task *task);

/* Suspends the task: the operator must return HR_PENDING next. *out is new; complete it exactly once, by hr__resume. */
hr_status hr__task_suspend(hr_task *task, hr_resume **out, hr_error *err) HR_MUST_USE;
void hr__resume(hr_resume *takes, hr_status st,
                hr_error *moved); /* st != HR_OK: the ticket fails with it. Any thread, no locks held. */

#endif
