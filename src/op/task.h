/* task.h - what an operator may do with its task.
 *
 * The seam: operators call these, the scheduler above (exec/task.c, parallel_call.c, marker.c) has them. No other call
 * points up, and tests/test_layers.py reads the names here. */
#ifndef HR_TASK_H
#define HR_TASK_H

#include "op/op.h"

hr_status hr__task_emit(hr_task *task, hr_table **takes,
                        hr_error *err) HR_MUST_USE; /* *takes becomes NULL, even on failure */
void hr__task_more(hr_task *task);                  /* there is more to emit of what was pushed: see `more` */
int hr__task_input(const hr_task *task);            /* of several inputs: the one that the pushed table is of */
void hr__task_want(hr_task *task, int input);       /* CHOSEN: the one to come next; one that has ended is none */
void hr__task_enough(hr_task *task);                /* STREAM, BLOCK: no more input is wanted */
void **hr__task_state(hr_task *task);               /* this operator's, of this task; NULL at first */
void **
hr__task_thread_state(hr_task *task); /* this operator's, of the calling pool thread in this run; NULL at first */
hr_op_run *hr__task_run(hr_task *task);
/* Of a serial call (push, ended, finish, block_parts): fn(context, 0 .. n-1), in any order, on this thread and on those
 * that have nothing else to do; comes back when all are done, or with the error of the lowest i that failed. task NULL:
 * on this thread alone. */
hr_status hr__task_share(hr_task *task, int64_t n, hr_share_fn *fn, void *context, hr_error *err) HR_MUST_USE;
const hr_mem *hr__task_mem(hr_task *task);    /* where output goes: the run's account, and its arena if to_process */
bool hr__task_cancelled(const hr_task *task); /* long loops look here */
/* Of the ticket: its first coordinate and number in its stage, canonical. */
hr_coord hr__task_begin(const hr_task *task);
int64_t hr__task_ordinal(const hr_task *task);
int64_t hr__task_turn(const hr_task *task); /* of the ticket, among those of its stage: lower ones are emitted first */
/* MAP, in push: the ticket has no more input for this operator. False: it may have. */
bool hr__task_last(const hr_task *task);
bool hr__task_closes(const hr_task *task); /* MAP: all rows of the run have come by this operator; see hr_op.closes */
/* MAP: a marker lies before the ticket's rows. The operator adds its state as of there by hr__task_save, before it
 * emits anything of the ticket. state NULL: it has none, and the marker goes no further. Borrowed. */
bool hr__task_marked(const hr_task *task);
void hr__task_save(hr_task *task, const char *state);
/* "rows 0 to 4095 of a.parquet, row group 3": where n rows from `begin` on came from. */
void hr__task_where(const hr_task *task, const hr_origin *o, hr_text *out);
void hr__task_pass(hr_task *task, hr_marker *takes, const char *state); /* STREAM only; state borrowed, NULL: none */
void hr__marker_drop(hr_marker *m); /* instead of passing it: a newer one says more. NULL is fine */

/* Whether this ticket is the oldest of its stage: all output of earlier tickets has gone on. */
bool hr__task_is_first(const hr_task *task);
/* The ticket goes on when it is the first, or the operator's run is settled; then `resumed` is called. The operator
 * returns HR_PENDING next. MAP only, of a class with `resumed`. */
void hr__task_await_turn(hr_task *task);

/* Suspends the task: the operator must return HR_PENDING next. *out is new; complete it exactly once, by hr__resume. */
hr_status hr__task_suspend(hr_task *task, hr_resume **out, hr_error *err) HR_MUST_USE;
void hr__resume(hr_resume *takes, hr_status st,
                hr_error *moved); /* st != HR_OK: the ticket fails with it. Any thread, no locks held. */

#endif
