/* poll.h - one thread of the process that waits for many descriptors, so that no pool thread has to.
 *
 * The first use starts the thread. It belongs to the process: a forked child starts its own, without the parent's
 * entries. Callbacks run on the thread one after the other, without any lock of the engine; they must not wait. */
#ifndef HR_POLL_H
#define HR_POLL_H

#include "data/data.h"
#include "share/process_link.h"

/* Calls fn(context) repeatedly while fd has bytes to read, or its other end is closed. Add an fd once. */
hr_status hr__poller_add(int fd, void (*fn)(void *context), void *context, hr_error *err) HR_MUST_USE;
/* Call it before you close fd. After the return fn neither runs nor is called again; only when a callback itself
 * removes, fn may still run. Fine if fd was not added. Do not hold a lock that fn takes. */
void hr__poller_remove(int fd);

/* Calls fn(context) about every 100 ms. Add a pair (fn, context) once; remove it as above. */
hr_status hr__poller_tick_add(void (*fn)(void *context), void *context, hr_error *err) HR_MUST_USE;
void hr__poller_tick_remove(void (*fn)(void *context), void *context);

/* For hr__link_set_backlog: flushes the link's queue at each tick until it is empty. */
bool hr__poller_flush(hr_link *l);

/* For tests: ends the thread and forgets everything; the next add starts it again. Not from a callback. */
void hr__poller_stop(void);

#endif
