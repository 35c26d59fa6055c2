/* ring.h - the ranks of splits in other processes: a server beside the splits, a client for each rank. */
#ifndef HR_RING_H
#define HR_RING_H

#include "feed/feed.h"

/* --- ring_server.c */
typedef struct hr_ring_server hr_ring_server;
/* Zero is the default. */
typedef struct hr_ring_options {
    const char *address; /* "name" or "name:token"; NULL: a random name and token */
    const char *key;     /* a client that brings another one gets HR_MISMATCH; NULL: "" */
    bool has_own_rank;   /* this process takes own_rank of split 0 itself, unless a client comes for it first */
    int own_rank;
} hr_ring_options;
/* Listens on an abstract socket; *address is "name:token" for hr__ring_connect; new, hr_string_free(). Serves several
 * splits by index. Shares the splits. Batches of ring ranks lie in an arena charged to the run. A rank's process that
 * dies is hr__split_lost for the split. options may be NULL. */
hr_status hr__ring_serve(hr_split *const *splits, int n, const hr_ring_options *options, hr_ring_server **out,
                         char **address, hr_error *err) HR_MUST_USE;
/* This process begins to take its own rank. false: a client has it. */
bool hr__ring_take_own(hr_ring_server *s) HR_MUST_USE;
int hr__ring_clients(hr_ring_server *s); /* that are connected now */
void hr__ring_stop(hr_ring_server *s);   /* ends all connections; NULL is fine */

/* --- ring_client.c */
typedef struct hr_ring hr_ring; /* the client: one rank of one split */
/* key: see hr_ring_options; NULL: "". */
hr_status hr__ring_connect(const char *address, int split, int rank, const char *key, int timeout_ms, hr_ring **out,
                           hr_error *err) HR_MUST_USE;
/* The server's process, and the rank that it takes itself, or -1. */
void hr__ring_server_of(const hr_ring *r, int *pid, int *rank);
/* The same calls as on a split, over the wire; a batch stays valid as long as it is held. HR_BUDGET names the number of
 * batches held if the server could not make another within the limit. */
hr_status hr__ring_begin(hr_ring *r, const hr_split_request *q, int timeout_ms, hr_error *err) HR_MUST_USE;
hr_status hr__ring_next(hr_ring *r, int64_t pass, int timeout_ms, hr_table **out, hr_error *err) HR_MUST_USE;
int64_t hr__ring_pass(hr_ring *r);
void hr__ring_leave(hr_ring *r);
void hr__ring_converted(hr_ring *r, int64_t ns); /* hr__split_converted of this rank */
/* By rows: see hr__split_report_rows. */
void hr__ring_report_rows(hr_ring *r, int64_t n_rows);
hr_status hr__ring_position(hr_ring *r, int timeout_ms, char **out, hr_error *err) HR_MUST_USE; /* asks the server */
/* Of this rank; n_ahead: 0 to 9, of hr__split_position_of. */
hr_status hr__ring_position_of(hr_ring *r, int n_ahead, int timeout_ms, char **out, hr_error *err) HR_MUST_USE;
hr_status hr__ring_describe_ranks(hr_ring *r, int timeout_ms, char **out, hr_error *err) HR_MUST_USE;
hr_status hr__ring_restore(hr_ring *r, const char *position, const hr_position_how *how, int timeout_ms,
                           hr_error *err) HR_MUST_USE;
hr_status hr__ring_schema(hr_ring *r, int timeout_ms, hr_schema **out, hr_error *err) HR_MUST_USE;
hr_status hr__ring_stats(hr_ring *r, int timeout_ms, char **out, hr_error *err) HR_MUST_USE;
void hr__ring_fail(hr_ring *r, const char *why); /* reports to the server that this rank raised */
void hr__ring_close(hr_ring *r);

#endif
