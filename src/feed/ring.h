/* ring.h - the ranks of splits in other processes: a server beside the splits, a client for each rank. */
#ifndef HR_RING_H
#define HR_RING_H

#include "feed/feed.h"

/* --- ring_server.c */
typedef struct hr_ring_server hr_ring_server;
/* Listens on an abstract socket; *address (new, hr_string_free()) is "name:token" for hr__ring_connect. Serves several
 * splits by index. Shares the splits. Batches of ring ranks lie in an arena charged to the run. When a rank's process
 * dies, the server calls hr__split_lost. */
hr_status hr__ring_serve(hr_split *const *splits, int n, hr_ring_server **out, char **address,
                         hr_error *err) HR_MUST_USE;
void hr__ring_stop(hr_ring_server *s); /* ends all connections; NULL is fine */

/* --- ring_client.c */
typedef struct hr_ring hr_ring; /* the client: one rank of one split */
hr_status hr__ring_connect(const char *address, int split, int rank, int timeout_ms, hr_ring **out,
                           hr_error *err) HR_MUST_USE;
/* The calls of a split, over a link; a batch is valid as long as it is held. HR_BUDGET: held batches leave no memory
 * for another; the text gives their number. */
hr_status hr__ring_begin(hr_ring *r, const hr_split_request *q, int timeout_ms, hr_error *err) HR_MUST_USE;
hr_status hr__ring_next(hr_ring *r, int64_t pass, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
int64_t hr__ring_pass(hr_ring *r);
void hr__ring_leave(hr_ring *r);
hr_status hr__ring_position(hr_ring *r, int timeout_ms, char **out,
                            hr_error *err) HR_MUST_USE; /* requests it from the server */
hr_status hr__ring_restore(hr_ring *r, const char *position, const hr_position_how *how, int timeout_ms,
                           hr_error *err) HR_MUST_USE;
hr_status hr__ring_schema(hr_ring *r, int timeout_ms, hr_schema **out, hr_error *err) HR_MUST_USE;
hr_status hr__ring_stats(hr_ring *r, int timeout_ms, char **out, hr_error *err) HR_MUST_USE;
void hr__ring_fail(hr_ring *r, const char *why); /* reports to the server that this rank raised */
void hr__ring_close(hr_ring *r);

#endif
