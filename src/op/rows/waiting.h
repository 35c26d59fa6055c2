/* waiting.h - a queue of one input's rows that wait for rows of the other inputs. */
#ifndef HR_WAITING_H
#define HR_WAITING_H

#include "op/operators.h"

typedef struct hr_waiting_mark {
    hr_marker *marker;
    int64_t row; /* of all rows of the input: the marker lies before it */
} hr_waiting_mark;
typedef struct hr_waiting {
    hr_table **tables; /* the first one is at `head` */
    int64_t head, n, cap;
    int64_t at;             /* rows taken from the first one */
    int64_t n_rows;         /* rows that wait */
    int64_t n_seen;         /* all rows so far */
    int64_t skip;           /* an earlier run has taken this many of the next rows */
    bool ended;             /* the input has ended */
    hr_waiting_mark *marks; /* in order; the first is the newest before all waiting rows */
    int64_t n_marks, cap_marks;
} hr_waiting;
/* Shares t; does nothing for a table without rows. */
hr_status hr__waiting_add(hr_waiting *w, hr_account *account, const hr_table *t, hr_error *err) HR_MUST_USE;
hr_table *hr__waiting_first(const hr_waiting *w); /* borrowed; NULL: nothing waits */
int64_t hr__waiting_left(const hr_waiting *w);    /* rows of the first table that are not taken */
void hr__waiting_take(hr_waiting *w, int64_t n);  /* takes n of those */
void hr__waiting_drop(hr_waiting *w);             /* drops all waiting rows */
void hr__waiting_clear(hr_waiting *w);
/* A marker lies before the next rows. Takes it; without memory an older one stays. */
void hr__waiting_mark(hr_waiting *w, hr_account *account, hr_marker *takes);
/* Passes one marker: the last marker of each of the n inputs, and the rows taken since. */
void hr__waiting_pass(hr_waiting *w, int n, hr_task *task);
/* Restores the state of such a marker: counts and skips rows, and ends inputs that had ended. HR_INVALID: it is no such
 * state. */
hr_status hr__waiting_restore(hr_waiting *w, int n, hr_task *task, const char *state, hr_error *err) HR_MUST_USE;
int64_t hr__waiting_taken(const hr_waiting *w); /* rows taken, also by earlier runs */

#endif
