/* waiting.h - rows of one of several inputs, which wait until rows of the others are there. */
#ifndef HR_WAITING_H
#define HR_WAITING_H

#include "op/operators.h"

typedef struct hr_waiting_mark {
    hr_marker *marker;
    int64_t row; /* before which it lies, of all rows of the input */
} hr_waiting_mark;
typedef struct hr_waiting {
    hr_table **tables; /* the first one is at `head` */
    int64_t head, n, cap;
    int64_t at;             /* rows of the first that were taken */
    int64_t n_rows;         /* that wait */
    int64_t n_seen;         /* that ever came */
    int64_t skip;           /* so many of those that come next were taken by an earlier run */
    bool ended;             /* no more come */
    hr_waiting_mark *marks; /* in their order; the first is the newest before all that wait, the others lie behind it */
    int64_t n_marks, cap_marks;
} hr_waiting;
/* Shares t; of no rows: nothing. */
hr_status hr__waiting_add(hr_waiting *w, hr_account *account, const hr_table *t, hr_error *err) HR_MUST_USE;
hr_table *hr__waiting_first(const hr_waiting *w); /* borrowed; NULL: nothing waits */
int64_t hr__waiting_left(const hr_waiting *w);    /* rows of the first that were not taken */
void hr__waiting_take(hr_waiting *w, int64_t n);  /* n of those */
void hr__waiting_drop(hr_waiting *w);             /* all that wait */
void hr__waiting_clear(hr_waiting *w);
/* A marker lies before the rows that come next. Takes it; without memory an older one serves. */
void hr__waiting_mark(hr_waiting *w, hr_account *account, hr_marker *takes);
/* Passes one marker that says what all n inputs said last, and for each how many rows were taken since. */
void hr__waiting_pass(hr_waiting *w, int n, hr_task *task);
/* From the state of such a marker: rows are counted and skipped accordingly, and inputs that had ended end. HR_INVALID:
 * it is no such state. */
hr_status hr__waiting_restore(hr_waiting *w, int n, hr_task *task, const char *state, hr_error *err) HR_MUST_USE;
int64_t hr__waiting_taken(const hr_waiting *w); /* rows that were taken, also by earlier runs */

#endif
