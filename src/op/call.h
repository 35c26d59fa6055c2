/* call.h - the queue of function calls, and the two sides that serve it. */
#ifndef HR_CALL_H
#define HR_CALL_H

#include "op/operators.h"

/* --- calls.c: a queue of function calls, filled by operators, served by worker processes, Python threads or the
 * consumer. It outlives runs, so that workers are started once for all epochs. Thread-safe. */

typedef struct hr_call hr_call;
hr_status hr__calls_new(const char *name, hr_calls **out, hr_error *err) HR_MUST_USE;
/* Sets 16 characters that identify the function's code. Positions do not check the code until they are set. */
void hr__calls_set_code(hr_calls *c, const char *code);
void hr__calls_code(hr_calls *c, char out[17]);
hr_calls *hr__calls_ref(hr_calls *c);
void hr__calls_unref(hr_calls *c);
/* Server side, any thread without engine locks. HR_PENDING: no call within timeout_ms; HR_CANCELLED: the queue is
 * closed. The server owns *out until hr__call_done or hr__call_pause. `server` identifies the caller: a paused call
 * returns only to the server that paused it. */
hr_status hr__calls_take(hr_calls *c, uint64_t server, int timeout_ms, hr_call **out, hr_error *err) HR_MUST_USE;
/* A server waited this long for the lock of its interpreter, at the end of one of the functions below or above. */
void hr__calls_waited(hr_calls *c, int64_t ns);
const hr_table *hr__call_input(const hr_call *call); /* borrowed */
/* The batches of a call: the function is called once for each, in this order. */
typedef struct hr_batch_place {
    int64_t n_rows;
    int64_t ordinal; /* as hr_call_place.ordinal, of this batch */
    uint64_t random; /* likewise */
} hr_batch_place;
int64_t hr__call_batches(const hr_call *call, const hr_batch_place **out); /* returns their number; borrowed */
uint64_t hr__call_tag(const hr_call *call); /* identifies the call while it lives; never 0 */
enum {
    HR_CALL_IN_ORDER = 1, /* a worker does not begin it while an earlier call is paused */
    HR_CALL_LAST = 2,     /* no batch: finish(), the remaining rows of the instance */
    HR_CALL_SAVE = 4 /* the server saves the instance's state before the first batch (hr__call_save, hr__worker_save) */
};
/* What makes the call repeatable: seeds random generators. Canonical: (seed, epoch, operator, batch ordinal). */
typedef struct hr_call_place {
    uint64_t seed;
    int64_t epoch;
    int32_t op_index;
    int64_t ordinal;      /* of the batch: in canonical order after a rebatch, otherwise within its fragment */
    hr_coord begin;       /* first source row */
    uint64_t random;      /* hr__random_bits of all the above */
    int64_t limit_bytes;  /* of the run */
    uint64_t run;         /* identifies the operator's run within its hr_calls; from 1 */
    uint32_t flags;       /* HR_CALL_... */
    uint32_t state_bytes; /* of the state that a new instance loads, which follows the batches in a CALL message */
} hr_call_place;
void hr__call_place(const hr_call *call, hr_call_place *out);
/* The batches of a table of results: `batch` and the following ones; batch + i has counts[i] rows, i < n_counts
 * (borrowed; NULL: all rows are of `batch`). */
typedef struct hr_result_place {
    int64_t batch;
    const int64_t *counts;
    int64_t n_counts;
} hr_result_place;
/* Adds a table of results, in order. Takes it. `of` NULL: it is of the first batch. */
void hr__call_result(hr_call *call, hr_table *takes, const hr_result_place *of);
/* The same for a call that streams: more results follow, and the operator emits this one as soon as its turn comes. */
typedef enum hr_go {
    HR_GO_ON,
    HR_GO_PAUSE,
    HR_GO_AWAY
} hr_go; /* PAUSE: wait for MORE; AWAY: the call is no longer wanted */
hr_go hr__call_stream(hr_call *call, hr_table *takes, const hr_result_place *of);
/* After HR_GO_PAUSE (or at any time): takes the call. hr__calls_take returns it when its results have been collected,
 * or never, if the call is no longer wanted: see hr__calls_paused. */
void hr__call_pause(hr_call *takes);
bool hr__calls_paused(hr_calls *c, uint64_t tag); /* whether it is paused, or waits to continue */
void hr__call_done(hr_call *takes, hr_status st, hr_error *moved);
/* The state that the run's instance loads before this call; NULL: none. Borrowed. */
const char *hr__call_state(const hr_call *call);
void hr__call_save(hr_call *call,
                   const char *state);          /* answers HR_CALL_SAVE; borrowed. Not called: the call has no state */
void hr__call_begins(hr_call *call);            /* starts its clock again, after an instance was made */
bool hr__calls_runs(hr_calls *c, uint64_t run); /* the run has not ended: servers keep its instances */
/* A worker process at the other end of this socket (taken). `init` bytes (the pickled function) are sent first. `pid`
 * is for messages only. The poller serves the worker from now on. If the worker dies, its calls fail with HR_PEER,
 * which names pid and function; if no worker is left, all calls fail. */
hr_status hr__calls_add_worker(hr_calls *c, int fd, int pid, const void *init, int64_t init_bytes,
                               hr_error *err) HR_MUST_USE;
int hr__calls_n_workers(hr_calls *c);
/* Requests one idle worker to end. Returns its pid; 0: no worker is idle. Without workers no empty memory is kept for
 * their input. */
int hr__calls_end_idle(hr_calls *c);
int hr__calls_busy(hr_calls *c, int *pids, int most); /* pids of workers that run a call; returns their number */
int hr__calls_n_expected(hr_calls *c);
int hr__calls_n_waiting(hr_calls *c); /* queued, not yet taken */
/* Calls of all runs that have ended, the time that they took, and that in which they neither were on a CPU nor could
 * have been. */
void hr__calls_ended(hr_calls *c, int64_t *n, int64_t *busy_ns, int64_t *waited_ns);
/* Sets the number of calls of a worker at a time (0: one, or two if calls are short), and how often a call is repeated
 * after its worker died (< 0: always). Call it before the first worker. */
void hr__calls_configure(hr_calls *c, int depth, int max_retries);
/* Reports the private memory of the workers, for stats. */
void hr__calls_measured(hr_calls *c, int64_t private_bytes);
/* The number of failed batches left out since the last call; *first (new, or NULL): the error of the first. */
int64_t hr__calls_errored(hr_calls *c, hr_error *first);
/* Announces n more workers: calls wait for them even if there is no worker yet. Each successful hr__calls_add_worker
 * counts as one of them. n < 0: -n of them will not come; if no server is left, waiting calls fail with HR_PEER and
 * `why` (borrowed; NULL: unknown). */
void hr__calls_expect(hr_calls *c, int n, const hr_error *why);
/* The arena for the workers' input, created on first use; NULL: no workers, or no memory. Borrowed. */
hr_arena *hr__calls_arena(hr_calls *c);
void hr__calls_close(hr_calls *c); /* workers end, waiting calls fail with HR_CANCELLED, takers wake */

/* The worker process's side: a loop over one link, used by the Python worker. One thread at a time. */
typedef struct hr_worker hr_worker;
typedef enum hr_work_kind {
    HR_WORK_END,
    HR_WORK_CALL,
    HR_WORK_MORE,
    HR_WORK_DROP,
    HR_WORK_RUN,    /* run `tag` begins: its instance may be made now */
    HR_WORK_RUN_END /* the run has ended: free its instance */
} hr_work_kind;
typedef struct hr_work {
    hr_work_kind
        /* CALL: a new call. MORE: the paused call `tag` may continue. DROP: the paused call `tag` is no longer wanted:
         * end it */
        kind;
    uint64_t tag;
    hr_table *table; /* CALL: new */
    hr_call_place place;
    hr_batch_place *batches; /* CALL: new (hr__free) */
    int64_t n_batches;
    char *state; /* CALL: as hr__call_state; new (hr__free) */
} hr_work;
hr_status hr__worker_open(int fd, hr_worker **out, hr_error *err) HR_MUST_USE;
int hr__worker_fd(const hr_worker *w); /* poll it for reading */
/* First the init bytes, then calls. HR_PENDING: nothing within timeout_ms, so that Python can check signals. Several
 * calls may be open at a time. */
hr_status hr__worker_init(hr_worker *w, int timeout_ms, void **bytes, int64_t *n_bytes, hr_error *err) HR_MUST_USE;
hr_status hr__worker_next(hr_worker *w, int timeout_ms, hr_work *out, hr_error *err) HR_MUST_USE;
const hr_mem *hr__worker_mem(hr_worker *w); /* results built here travel without a copy */
/* As hr__call_result and hr__call_stream. HR_GO_PAUSE: MORE or DROP will follow. `go` NULL: this is the last result. */
hr_status hr__worker_result(hr_worker *w, uint64_t tag, const hr_table *t, const hr_result_place *of, hr_go *go,
                            hr_error *err) HR_MUST_USE;
hr_status hr__worker_save(hr_worker *w, uint64_t tag, const char *state, hr_error *err) HR_MUST_USE;
hr_status hr__worker_done(hr_worker *w, uint64_t tag, hr_status st, const hr_error *what, hr_error *err) HR_MUST_USE;
void hr__worker_close(hr_worker *w);

/* --- batch_cutter.c: function batches whose size depends on the source only, for map and calls. Collects a ticket's
 * tables and gives batches whose rows lie in one block [k*rows, (k+1)*rows) of their fragment, so that a function's
 * input does not depend on how readers cut tables. */
typedef struct hr_batch_cutter hr_batch_cutter;
hr_status hr__batch_cutter_new(int64_t rows, int64_t bytes, const hr_mem *mem, hr_batch_cutter **out,
                               hr_error *err) HR_MUST_USE;
void hr__batch_cutter_refuse(hr_batch_cutter *p,
                             int64_t most_bytes); /* HR_BUDGET for a larger batch that needs a copy */
void hr__batch_cutter_free(hr_batch_cutter *p);
bool hr__batch_begins_block(int64_t ordinal); /* of that number: no batch of its block comes before it */
hr_status hr__batch_cutter_add(hr_batch_cutter *p, const hr_table *t, hr_error *err) HR_MUST_USE;
/* *out NULL: no batch is complete. `last`: at the ticket's end the remaining rows are complete. *ordinal: the block's
 * number, and from bit 40 on the batch's number in its block. */
hr_status hr__batch_cutter_next(hr_batch_cutter *p, bool last, hr_table **out, int64_t *ordinal,
                                hr_error *err) HR_MUST_USE;

/* --- groups.c: neighbouring rows with equal key columns (null equals null, NaN equals NaN, 0.0 equals -0.0), however
 * tables are cut. Gives whole groups, about `rows` rows or `n_groups` groups at a time. */
typedef struct hr_groups hr_groups;
hr_status hr__groups_new(const char *const *keys, int n_keys, int64_t rows, int64_t bytes, int64_t n_groups,
                         hr_account *account, hr_groups **out,
                         hr_error *err) HR_MUST_USE; /* borrows keys until it is freed */
void hr__groups_free(hr_groups *g);
hr_status hr__groups_add(hr_groups *g, const hr_table *t, hr_error *err) HR_MUST_USE; /* HR_INVALID: no such column */
/* *out NULL: no complete groups. `last`: at the end of input the open group is complete. At most `most` groups; 0: all
 * up to the cut. *batches is new (hr__free): n groups, numbered by ordinal. */
hr_status hr__groups_next(hr_groups *g, bool last, int64_t most, hr_table **out, hr_batch_place **batches, int64_t *n,
                          hr_error *err) HR_MUST_USE;

/* whole_groups.c: no table of this operator ends in the middle of a group. Copies the names. */
hr_status hr__op_whole_groups(const char *const *keys, int n_keys, hr_op **out, hr_error *err) HR_MUST_USE;

#endif
