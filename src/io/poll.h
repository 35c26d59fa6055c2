/* poll.h - one thread of the process that waits for many descriptors, so that no pool thread has to.
 *
 * It starts when first used, and belongs to the process: in a forked child it starts afresh, and knows nothing of what
 * its parent waited for. Callbacks run on its thread, one after the other, without locks of ours; they must not
 * wait. */
#ifndef HR_POLL_H
#define HR_POLL_H

#include "data/data.h"
#include "share/process_link.h"

/* Calls fn(context) again and again as long as fd has something to read, or its other end is closed. One call per
 * fd. */
hr_status hr__poller_add(int fd, void (*fn)(void *context), void *context, hr_error *err) HR_MUST_USE;
/* Before fd is closed. After the return fn is neither running nor called again; but when called on the poller's thread,
 * from fn itself or another callback, it may still be running. Fine if fd was not added. Do not hold a lock that fn
 * takes. */
void hr__poller_remove(int fd);

/* Calls fn(context) about every 100 ms. One call per (fn, context); removed likewise. */
hr_status hr__poller_tick_add(void (*fn)(void *context), void *context, hr_error *err) HR_MUST_USE;
void hr__poller_tick_remove(void (*fn)(void *context), void *context);

/* For hr__link_set_backlog: has what is queued in the link flushed at each tick until it is sent. */
bool hr__poller_flush(hr_link *l);

/* Ends the thread and forgets everything; the next add starts it again. For tests; not from a callback. */
void hr__poller_stop(void);

#endif
