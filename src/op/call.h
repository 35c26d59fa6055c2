/* call.h - functions that run elsewhere: the queue of calls, and what one call sees. */
#ifndef HR_CALL_H
#define HR_CALL_H

#include "op/operators.h"

/* --- calls.c: a queue of function calls, filled by operators, served by worker processes, Python threads or the
 * consumer. It outlives runs, so that workers are started once for all epochs. Thread-safe. */

typedef struct hr_call hr_call;
hr_status hr__calls_new(const char *name, hr_calls **out, hr_error *err) HR_MUST_USE;
/* 16 characters that are others when the function gives other rows; until they are set, positions know nothing of its
 * code. */
void hr__calls_set_code(hr_calls *c, const char *code);
void hr__calls_code(hr_calls *c, char out[17]);
hr_calls *hr__calls_ref(hr_calls *c);
void hr__calls_unref(hr_calls *c);
/* Server side, any thread without engine locks. HR_PENDING: none in timeout_ms; HR_CANCELLED: closed for good. *out is
 * the server's until hr__call_done or hr__call_pause. `server`: who asks; a call that it paused comes back to it
 * alone. */
hr_status hr__calls_take(hr_calls *c, uint64_t server, int timeout_ms, hr_call **out, hr_error *err) HR_MUST_USE;
const hr_table *hr__call_input(const hr_call *call); /* borrowed */
/* The batches of a call: the function is called once for each, in this order. */
typedef struct hr_batch_place {
    int64_t n_rows;
    int64_t ordinal; /* as hr_call_place.ordinal, of this batch */
    uint64_t random; /* likewise */
} hr_batch_place;
int64_t hr__call_batches(const hr_call *call, const hr_batch_place **out); /* how many; borrowed */
uint64_t hr__call_tag(const hr_call *call);                                /* names it as long as it lives; never 0 */
enum {
    HR_CALL_IN_ORDER = 1, /* a worker does not begin it while one before it is paused */
    HR_CALL_LAST = 2,     /* no batch: for what the instance has left */
    HR_CALL_SAVE = 4      /* before its first batch the instance's state is wanted (hr__call_save, hr__worker_save) */
};
/* What makes the call repeatable: seeds random generators. Canonical: (seed, epoch, operator, batch ordinal). */
typedef struct hr_call_place {
    uint64_t seed;
    int64_t epoch;
    int32_t op_index;
    int64_t ordinal;      /* of the batch, in canonical order after a rebatch; else of the batch within its fragment */
    hr_coord begin;       /* first source row */
    uint64_t random;      /* 64 bits made of all of these by hr__random_bits */
    int64_t limit_bytes;  /* of the run */
    uint64_t run;         /* names the operator's run among those of its hr_calls; from 1 */
    uint32_t flags;       /* HR_CALL_... */
    uint32_t state_bytes; /* of a state that a new instance begins with, in a CALL message behind the batches */
} hr_call_place;
void hr__call_place(const hr_call *call, hr_call_place *out);
/* Which batches a table of results is of: `batch` and those behind it; the first n_counts have counts[i] rows each
 * (borrowed; NULL: all rows are of `batch`). */
typedef struct hr_result_place {
    int64_t batch;
    const int64_t *counts;
    int64_t n_counts;
} hr_result_place;
/* A table of results, in order. Takes it. `of` NULL: of the first batch. */
void hr__call_result(hr_call *call, hr_table *takes, const hr_result_place *of);
/* The same, and more will come: it goes on to whoever waits as soon as it is its turn. */
typedef enum hr_go { HR_GO_ON, HR_GO_PAUSE, HR_GO_AWAY } hr_go; /* wait until asked again; nobody wants any more */
hr_go hr__call_stream(hr_call *call, hr_table *takes, const hr_result_place *of);
/* After HR_GO_PAUSE (or when the server likes): takes the call, which comes back by hr__calls_take when what it gave
 * was collected, or never, if nobody wants it any more: see hr__calls_paused. */
void hr__call_pause(hr_call *takes);
bool hr__calls_paused(hr_calls *c, uint64_t tag); /* it is paused, or waits to go on */
void hr__call_done(hr_call *takes, hr_status st, hr_error *moved);
/* What the run's instance has to load before this call; NULL: nothing. Borrowed. */
const char *hr__call_state(const hr_call *call);
void hr__call_save(hr_call *call, const char *state); /* of HR_CALL_SAVE; borrowed. Never called: there is none */
void hr__call_begins(hr_call *call);                  /* its time counts from here: an instance was made first */
bool hr__calls_runs(hr_calls *c, uint64_t run);       /* the run has not ended: its instances are wanted */
/* A worker process at the other end of this socket (taken). `init` bytes (the pickled function) are sent first. `pid`
 * only for messages. The poller serves it from now on; if it dies, the calls it had fail with HR_PEER naming pid and
 * function, and calls with no worker left fail too. */
hr_status hr__calls_add_worker(hr_calls *c, int fd, int pid, const void *init, int64_t init_bytes,
                               hr_error *err) HR_MUST_USE;
int hr__calls_n_workers(hr_calls *c);
/* Tells one worker that has nothing to do to end. -> its pid; 0: none is idle. */
int hr__calls_end_idle(hr_calls *c);
int hr__calls_busy(hr_calls *c, int *pids, int most); /* pids of workers that run a call; -> how many */
int hr__calls_n_expected(hr_calls *c);
int hr__calls_n_waiting(hr_calls *c); /* queued, not yet taken */
/* How many calls a worker may have at a time (0: one, and one more where calls are short) and how often a call is done
 * again whose worker died (< 0: always). Before the first worker. */
void hr__calls_configure(hr_calls *c, int depth, int max_retries);
/* What the workers hold themselves, as whoever watches them measured: for stats. */
void hr__calls_measured(hr_calls *c, int64_t private_bytes);
/* Batches that failed and were left out since the last time; *first (new, or NULL) how the first of them did. */
int64_t hr__calls_errored(hr_calls *c, hr_error *first);
/* n more workers are being started: calls wait for them, though there may be none yet. Each hr__calls_add_worker that
 * succeeds is one of them. n < 0: so many will not come after all; if nobody is left, waiting calls fail with HR_PEER
 * and `why` (borrowed; NULL: unknown). */
void hr__calls_expect(hr_calls *c, int n, const hr_error *why);
/* Where its workers want their input: made when first asked for, NULL: no workers, or no memory. Borrowed. */
hr_arena *hr__calls_arena(hr_calls *c);
void hr__calls_close(hr_calls *c); /* workers are told to end, waiting calls fail HR_CANCELLED, takers wake */

/* The worker process's side: a loop over one link, used by the Python worker. One thread at a time. */
typedef struct hr_worker hr_worker;
typedef enum hr_work_kind {
    HR_WORK_END,
    HR_WORK_CALL,
    HR_WORK_MORE,
    HR_WORK_DROP,
    HR_WORK_RUN,    /* run `tag` begins: its instance may be made now */
    HR_WORK_RUN_END /* it has ended: the instance goes */
} hr_work_kind;
typedef struct hr_work {
    hr_work_kind
        /* CALL: a new one. MORE: `tag` may go on. DROP: of `tag`, which was paused, nobody wants more: be done with
         * it */
        kind;
    uint64_t tag;
    hr_table *table; /* CALL: new */
    hr_call_place place;
    hr_batch_place *batches; /* CALL: new (hr__free) */
    int64_t n_batches;
    char *state; /* CALL: as hr__call_state says; new (hr__free) */
} hr_work;
hr_status hr__worker_open(int fd, hr_worker **out, hr_error *err) HR_MUST_USE;
int hr__worker_fd(const hr_worker *w); /* to poll for reading */
/* The init bytes, first; then calls. timeout_ms slices let Python check signals: HR_PENDING. Several calls may be open
 * at a time. */
hr_status hr__worker_init(hr_worker *w, int timeout_ms, void **bytes, int64_t *n_bytes, hr_error *err) HR_MUST_USE;
hr_status hr__worker_next(hr_worker *w, int timeout_ms, hr_work *out, hr_error *err) HR_MUST_USE;
const hr_mem *hr__worker_mem(hr_worker *w); /* results built here travel without a copy */
/* As hr__call_result and hr__call_stream. HR_GO_PAUSE: the driver knows, MORE or DROP will come. `go` NULL: no more
 * will come. */
hr_status hr__worker_result(hr_worker *w, uint64_t tag, const hr_table *t, const hr_result_place *of, hr_go *go,
                            hr_error *err) HR_MUST_USE;
hr_status hr__worker_save(hr_worker *w, uint64_t tag, const char *state, hr_error *err) HR_MUST_USE;
hr_status hr__worker_done(hr_worker *w, uint64_t tag, hr_status st, const hr_error *what, hr_error *err) HR_MUST_USE;
void hr__worker_close(hr_worker *w);

/* --- batch_cutter.c: function batches of source-defined size, shared by map and calls. Collects a ticket's tables and
 * hands out batches whose rows lie in one block [k*rows, (k+1)*rows) of their fragment, so that what a function sees
 * never depends on how readers cut their tables. */
typedef struct hr_batch_cutter hr_batch_cutter;
hr_status hr__batch_cutter_new(int64_t rows, int64_t bytes, const hr_mem *mem, hr_batch_cutter **out,
                               hr_error *err) HR_MUST_USE;
void hr__batch_cutter_refuse(hr_batch_cutter *p,
                             int64_t most_bytes); /* one copied together that is larger is HR_BUDGET */
void hr__batch_cutter_free(hr_batch_cutter *p);
hr_status hr__batch_cutter_add(hr_batch_cutter *p, const hr_table *t, hr_error *err) HR_MUST_USE;
/* *out NULL: none complete. `last`: the ticket's end, what is left is complete. *ordinal: the block's number, and from
 * bit 40 on that of the batch in its block. */
hr_status hr__batch_cutter_next(hr_batch_cutter *p, bool last, hr_table **out, int64_t *ordinal,
                                hr_error *err) HR_MUST_USE;

/* --- groups.c: rows that follow each other and agree in the key columns (nulls agree, NaNs agree, 0.0 and -0.0 do),
 * however tables are cut. Whole groups are handed out together, about `rows` rows or `n_groups` groups at a time. */
typedef struct hr_groups hr_groups;
hr_status hr__groups_new(const char *const *keys, int n_keys, int64_t rows, int64_t bytes, int64_t n_groups,
                         hr_account *account, hr_groups **out,
                         hr_error *err) HR_MUST_USE; /* borrows keys as long as it lives */
void hr__groups_free(hr_groups *g);
hr_status hr__groups_add(hr_groups *g, const hr_table *t, hr_error *err) HR_MUST_USE; /* HR_INVALID: no such column */
/* *out NULL: no complete ones. `last`: the end, what is left is complete. At most `most` groups, 0: all up to the cut.
 * *batches is new (hr__free): n groups; ordinals count up. */
hr_status hr__groups_next(hr_groups *g, bool last, int64_t most, hr_table **out, hr_batch_place **batches, int64_t *n,
                          hr_error *err) HR_MUST_USE;

/* whole_groups.c: no table of this operator ends in the middle of a group. Copies the names. */
hr_status hr__op_whole_groups(const char *const *keys, int n_keys, hr_op **out, hr_error *err) HR_MUST_USE;

#endif
