/* waiting.h - rows of one of several inputs, which wait until rows of the others are there. */
#ifndef HR_WAITING_H
#define HR_WAITING_H

#include "op/operators.h"

typedef struct hr_waiting {
    hr_table **tables; /* the first one is at `head` */
    int64_t head, n, cap;
    int64_t at;     /* rows of the first that were taken */
    int64_t n_rows; /* that wait */
    int64_t n_seen; /* that ever came */
    bool ended;     /* no more come */
} hr_waiting;
/* Shares t; of no rows: nothing. */
hr_status hr__waiting_add(hr_waiting *w, hr_account *account, const hr_table *t, hr_error *err) HR_MUST_USE;
hr_table *hr__waiting_first(const hr_waiting *w); /* borrowed; NULL: nothing waits */
int64_t hr__waiting_left(const hr_waiting *w);    /* rows of the first that were not taken */
void hr__waiting_take(hr_waiting *w, int64_t n);  /* n of those */
void hr__waiting_drop(hr_waiting *w);             /* all that wait */
void hr__waiting_clear(hr_waiting *w);

#endif
