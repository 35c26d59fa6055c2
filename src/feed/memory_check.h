/* memory_check.h - the comparison of values in memory beside a run (memory_check.c). Private to feed/. */
#ifndef HR_FEED_MEMORY_CHECK_H
#define HR_FEED_MEMORY_CHECK_H

#include "feed/feed.h"

typedef struct hr_memory_check hr_memory_check;
/* Begins to compare the plan's values in memory with hr_inputs.memory of a position. Borrows the plan. It calls `ready`
 * when it is through, from any thread, without locks. */
hr_status hr__memory_check_start(hr_plan *p, uint64_t saved, void (*ready)(void *context), void *context,
                                 hr_memory_check **out, hr_error *err) HR_MUST_USE;
/* HR_OK: the values are equal. HR_MISMATCH: they are not. HR_PENDING: not known after timeout_ms (< 0: no limit). */
hr_status hr__memory_check_wait(hr_memory_check *c, int timeout_ms, hr_error *err) HR_MUST_USE;
void hr__memory_check_close(hr_memory_check *c); /* ends it soon; NULL is fine */

#endif
