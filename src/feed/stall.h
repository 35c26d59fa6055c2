/* stall.h - the watchdog of a feed (stall.c). Private to feed/. */
#ifndef HR_FEED_STALL_H
#define HR_FEED_STALL_H

#include "feed/feed.h"

typedef struct hr_stall_watch {
    int64_t warning_ns, timeout_ns; /* 0: never */
    bool warned;
} hr_stall_watch;
void hr__stall_init(hr_stall_watch *w);
/* A wait has brought nothing; it began at waits_since_ns. An error ends it. */
hr_status hr__stall_look(hr_stall_watch *w, hr_run *r, int64_t waits_since_ns, hr_error *err) HR_MUST_USE;

#endif
