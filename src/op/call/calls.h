/* calls.h - shared by the files that queue function calls and serve them. Private to op/call.
 *
 *   apply.c    the operator: rows -> a call set -> suspended -> results
 *   call_columns.c  a column made of some columns: the function's input, and joining its result to the other columns
 *   first_columns.c  conforms the function's tables to the columns of its first
 *   calls.c    the queue, and servers in this process (Python threads, the consumer's own)
 *   turns.c    runs: their instances, and calls that begin in the order of the rows
 *   process.c  worker processes, served by the poller's thread
 *   worker.c   the worker process's side of the socket
 *
 * A *call set* is the calls that one suspended task waits for. The operator collects results call by call, in order.
 * hr__resume wakes the operator when the set is done, when the call whose turn it is streams a result, or, if calls
 * take long, when the next call is done.
 *
 * The states of a call (hr_call_state):
 *
 *   NEW --> WAITING --> TAKEN --> DONE
 *              ^  ^      |  ^
 *              |  +------+  |
 *              |         v  |
 *              +------ PAUSED
 *
 *   NEW to WAITING      hr__call_set_submit
 *   WAITING to TAKEN    process.c assigns it to a worker, or a server in this process takes it (hr__calls_take)
 *   TAKEN to DONE       the server is done (hr__call_done)
 *   TAKEN to PAUSED     it has many uncollected results (hr__call_pause, a worker's PAUSED)
 *   PAUSED to TAKEN     its results were collected, and a worker has the call: MORE is sent
 *   PAUSED to WAITING   its results were collected; only the server in this process that had it may take it
 *   TAKEN to WAITING    its worker died, and the call is repeated (hr__call_requeue_locked)
 *   WAITING, PAUSED to DONE   refused, the run was cancelled, or a call before it failed; not PAUSED by a worker
 *
 *   WAITING is in hr_calls.waiting. TAKEN and PAUSED are in hr_calls_worker.had of a worker; of a server in this
 *   process TAKEN is in no list, PAUSED in hr_calls.paused.
 *
 * A call that *streams* (a generator's) pauses when it has too many uncollected results. Its server may then serve
 * other calls, but of the same run only earlier ones. So a server holds few results that wait for their turn, and the
 * call whose turn it is always finds a server.
 *
 * Freeing a call set frees its waiting calls; calls that are TAKEN, or PAUSED by a worker, become *orphans*
 * (hr_call.set NULL): results of the server are dropped, and hr__call_done frees the call. So no thread waits for
 * user code whose result is not wanted.
 *
 * The states of a worker (process.c):
 *
 *   expected --hr__calls_add_worker--> listed --open_up--> open --END is sent--> ending --it closes its end--> gone
 *                                        |                  |                                                   ^
 *                                        +------------------+---------------it died-----------------------------+
 *
 *   Only an open worker gets calls. `gone`: the poller saw the end of the socket; reap() takes the worker out of the
 *   list, and its calls are WAITING again or DONE with HR_PEER.
 *
 * Ownership: a call set owns its calls from hr__call_set_add on; a server owns an orphan. Locks: calls->lock guards
 * hr_calls, call sets, calls and results. It is a leaf: a thread that holds it uses only the budget's counters and
 * condition variables. Functions ending in _locked expect the lock held; functions ending in _relocks release it and
 * take it again, so state that the caller read before may have changed. */
#ifndef HR_OP_CALLS_H
#define HR_OP_CALLS_H

#include "op/call.h"

typedef struct hr_call_set hr_call_set;
typedef struct hr_calls_run hr_calls_run;
typedef struct hr_calls_worker hr_calls_worker;

typedef enum hr_call_state { HR_CALL_NEW, HR_CALL_WAITING, HR_CALL_TAKEN, HR_CALL_PAUSED, HR_CALL_DONE } hr_call_state;

#define HR_SET_CALLS 16 /* in a set at most */
#define HR_SET_SHARE 4  /* the part of the memory limit that results of one set take */
/* A call pauses when its uncollected results reach this number of tables, or its part of the set's memory: with less,
 * a server that has a later call waits while an earlier one is at work, and calls run one at a time. */
#define HR_AHEAD_TABLES 64
static inline int64_t hr__ahead_bytes(const hr_call_place *p)
{
    return HR_MAX(2 * hr__table_bytes_wanted(p->limit_bytes), p->limit_bytes / HR_SET_SHARE / HR_SET_CALLS);
}

/* One table of results, and its batches. */
typedef struct hr_result {
    hr_table *table;
    int64_t batch;
    int64_t *counts; /* owned; NULL: all rows are of `batch` */
    int64_t n_counts;
} hr_result;

typedef struct hr_results {
    hr_result *items;
    int64_t n, cap;
    int64_t n_bytes;
} hr_results;

/* What a thread without a CPU lost. Starts all zero. */
typedef struct hr_delay_clock {
    int64_t at_ns, delay_ns; /* hr__thread_delay_ns(), and when it was read */
} hr_delay_clock;
/* The time that this thread could run and had no CPU since the last reading; 0: too soon, a reading takes some
 * microseconds, or the kernel does not say. */
int64_t hr__delay_since(hr_delay_clock *d);

struct hr_call {
    hr_calls *calls; /* counted in `parts` */
    hr_call_state state;
    hr_call_set *set;     /* NULL: an orphan */
    hr_calls_run *run;    /* only for comparing: may dangle */
    int index;            /* in its call set */
    hr_call *prev, *next; /* in c->waiting, c->paused or its worker's list */
    uint64_t tag;         /* identifies it in messages */
    int64_t turn, number; /* its order in the run: the ticket's turn, then its number in the ticket */
    hr_table *input;
    hr_table *whole; /* the table whose columns the input has in part; NULL: the input has all columns */
    int64_t input_bytes;
    hr_call_place place;
    hr_batch_place *batches;
    int64_t n_batches;
    hr_results results; /* not collected yet */
    bool streams;       /* has given a result and may give more */
    bool incomplete;    /* a result was lost for lack of memory */
    hr_status st;       /* DONE: its status */
    hr_error err;
    bool in_hand;            /* a server in this process took it */
    uint64_t server;         /* the server that paused it; undefined before */
    bool resumes;            /* was paused: only `server` may take it */
    int64_t queued_ns;       /* when it was submitted */
    int64_t taken_ns;        /* when a server took it, or continued it */
    int64_t taken_cpu_ns;    /* the CPU time of the server's thread then, if in_hand */
    int64_t spent_ns;        /* of its server, before its last pause */
    hr_calls_worker *worker; /* the worker that has it */
    bool dropped;            /* DROP was sent to the worker */
    int n_deaths;            /* of workers that ran it */
    int64_t n_collected;     /* tables that the operator has collected */
    int64_t n_skip;          /* tables to drop: collected before a worker died */
    bool begun;              /* it counts in run->n_begun */
    char *loads;             /* the state that the instance loads before it; NULL: none. Owned */
    char *saved;             /* HR_CALL_SAVE: the state that the server saved; NULL: none. Owned */
};

typedef struct hr_call_list {
    hr_call *first, *last;
    int n;
} hr_call_list;
void hr__call_list_add(hr_call_list *l, hr_call *call, hr_call *next); /* before `next`; NULL: at the end */
void hr__call_list_remove(hr_call_list *l, hr_call *call);

/* first_columns.c: the columns of a run's first table. The first ticket sets it once; then it is only read. */
typedef struct hr_first_columns {
    hr_schema *schema;
    bool *
        /* of each column: its doubles are taken for the integers that the function saw as doubles */
        guessed;
    hr_remembered remembered;
} hr_first_columns;

/* The calls of one operator in one run. Starts all zero; hr__calls_run_begin if the function has instances. */
struct hr_calls_run {
    hr_call_set *sets; /* submitted call sets */
    bool cancelled;
    int64_t n_errored;   /* batches that failed and were left out */
    int64_t input_bytes; /* of submitted calls */
    hr_served served;
    hr_first_columns first;
    /* turns.c */
    hr_calls_run *prev, *next; /* c->runs */
    bool listed;
    uint64_t id;
    hr_calls_class how;
    int n_ahead;    /* workers that got RUN for an instance ahead of calls */
    int64_t turn;   /* all calls of the tickets before this turn are submitted */
    int64_t *early; /* later turns whose calls are all submitted */
    int64_t n_early, cap_early;
    int n_begun;              /* calls that have begun and not ended */
    _Atomic int64_t saved_ns; /* when the state of the instance was last requested; 0: never */
    char *loads;              /* the state that its instance loads before the first call; NULL: none, or loaded */
    bool sends;               /* a thread is sending one of its calls */
    hr_calls_worker *home;    /* only for comparing: the worker with the instance; NULL: none yet */
    hr_error lost;            /* set: the instance is lost with its rows */
};

struct hr_call_set {
    hr_calls *calls; /* borrowed from the operator */
    hr_call **items;
    int n;
    int64_t cap;
    int next;                   /* index of the call whose results are collected now */
    hr_resume *resume;          /* wakes the task that waits for the set; NULL: no task waits */
    hr_calls_run *run;          /* NULL: not submitted */
    hr_call_set *prev, *others; /* run->sets */
};

/* What a batch costs; 0: unknown. */
typedef struct hr_batch_cost {
    int64_t ns;    /* smoothed */
    int64_t bytes; /* of its results: rises at once, falls slowly */
} hr_batch_cost;

struct hr_calls {
    atomic_int users; /* operators and the creator; the last one closes the queue */
    atomic_int parts; /* references: calls, workers, and 1 for all users */
    int pid;          /* of the owner: in a forked child the copy serves no calls */
    char *name;
    hr_account *account;
    hr_mutex lock;
    hr_cond arrived;
    hr_call_list waiting;
    hr_call_list paused;     /* by servers in this process; workers have their own lists */
    int n_idle, n_in_hand;   /* servers in this process that wait for a call; that have one */
    int n_takers;            /* the highest sum of both so far */
    _Atomic int64_t lock_ns; /* see hr__calls_waited; since the last call that ended */
    uint64_t n_tags;
    bool closed;
    bool tolerant;      /* failed batches may be left out: calls after a failed one are still served */
    hr_calls_run *runs; /* runs that have begun and not ended */
    uint64_t n_runs;
    int64_t n_ended;  /* runs of instances */
    hr_served served; /* of all runs: calls, busy_ns, cpu_ns, delay_ns */
    hr_batch_cost batch;
    int64_t n_errored; /* since the last hr__calls_errored */
    hr_error errored;  /* the first of them */
    int64_t private_bytes, private_peak;
    char code[17]; /* hash of the function's code, for positions; "": unknown */
    /* process.c */
    hr_calls_worker *workers;
    int n_workers, n_expected;
    int depth, max_retries;
    bool by_workers;   /* workers exist, existed or are expected: calls fail when none is left */
    int64_t call_ns;   /* smoothed duration of a call in a worker; 0: unknown */
    hr_arena *arena;   /* of the workers' input; NULL: not created yet */
    hr_error lost_why; /* why the last worker was lost */
};

/* --- call sets (calls.c) */
hr_status hr__call_set_new(hr_calls *c, hr_account *account, hr_call_set **out, hr_error *err) HR_MUST_USE;
/* Shares input and whole (NULL: see hr_call), takes batches (hr__alloc), even on failure. */
hr_status hr__call_set_add(hr_call_set *g, hr_table *input, hr_table *whole, const hr_call_place *place,
                           hr_batch_place *batches, int64_t n_batches, int64_t turn, int64_t number,
                           hr_error *err) HR_MUST_USE;
/* Queues the calls. HR_CANCELLED, HR_PEER, HR_INVALID: they are not served. */
hr_status hr__call_set_submit(hr_call_set *g, hr_calls_run *run, hr_error *err) HR_MUST_USE;
/* Takes the new results of call g->next; the caller owns *out (hr__results_clear). True: the call is done with status
 * call->st, and g->next is the next one. *again: a server in this process may continue a paused call. */
bool hr__call_set_collect(hr_call_set *g, hr_results *out, bool *again);
/* Completes `takes` when there is a result to collect, perhaps before it returns. False: there is one already; takes
 * nothing. */
bool hr__call_set_wait(hr_call_set *g, hr_resume *takes);
bool hr__call_set_cancelled(hr_call_set *g);
void hr__call_set_free(hr_call_set *g); /* NULL is fine; see orphans */
void hr__results_clear(hr_results *r);
/* Fails all call sets of the run, present and future, with HR_CANCELLED. */
void hr__calls_run_cancel(hr_calls *c, hr_calls_run *run);
void hr__calls_left_out(hr_calls *c, hr_call *call, const char *where); /* records a failed batch that is left out */

int64_t hr__calls_count_errored(hr_calls *c, hr_calls_run *run); /* counts one more; returns the count of the run */
void hr__calls_forgive(hr_calls *c);                             /* failures may be left out */
void hr__calls_stats(hr_calls *c, const hr_calls_run *run, hr_text *out);
void hr__calls_served(hr_calls *c, const hr_calls_run *run, hr_served *out); /* run NULL: none has begun */
/* Times of a call's server, as in hr_served, since the call began, continued, or they were counted last. */
typedef struct hr_spent {
    int64_t busy_ns, cpu_ns, delay_ns;
} hr_spent;
void hr__call_spent_locked(hr_call *call, const hr_spent *spent); /* counts them */
/* Counts a call that ends now. -> the time that it took its server, without pauses. */
int64_t hr__call_served_locked(hr_call *call, const hr_spent *spent);
void hr__call_took_locked(hr_call *call, int64_t ns); /* updates the mean durations of calls and batches */

int hr__calls_n_servers(hr_calls *c); /* worker processes, and the threads seen so far */
hr_batch_cost hr__calls_batch_cost(hr_calls *c);

/* --- turns.c */
/* Between begin and end servers keep instances for the run. */
void hr__calls_run_begin(hr_calls *c, hr_calls_run *run, const hr_calls_class *how);
void hr__calls_run_end(hr_calls *c, hr_calls_run *run);
/* The instance loads this state first. Borrows. */
hr_status hr__calls_run_restore(hr_calls *c, hr_calls_run *run, const char *state, hr_error *err) HR_MUST_USE;
/* All calls of ticket `turn` are submitted: calls of the next ticket may begin. */
hr_status hr__calls_turn_done(hr_calls *c, hr_calls_run *run, int64_t turn, hr_error *err) HR_MUST_USE;
char *hr__call_take_saved(hr_call *call); /* new; NULL: none */
/* Whether the worker, or (NULL) a server in this process, may begin a waiting call. */
bool hr__call_may_begin_locked(const hr_call *call, const hr_calls_worker *w);
void hr__call_begin_locked(hr_call *call, hr_calls_worker *w); /* begins it */
void hr__call_sent(hr_calls *c, const hr_call_place *place);   /* the call was sent to its worker, or sending failed */
void hr__call_end_locked(hr_call *call);                       /* the call has ended, or waits again */
/* The worker and its instances are lost for the reason `why`. */
void hr__runs_lost_locked(hr_calls *c, const hr_calls_worker *w, const hr_error *why);
/* The reason why calls of the run are no longer served; HR_OK: they are. */
hr_status hr__run_refusal_locked(const hr_calls_run *run, hr_error *err);

/* --- call_columns.c */
typedef struct hr_call_columns {
    char *made;   /* NULL: calls get all columns */
    char **names; /* the columns that calls get */
    int n;
} hr_call_columns;
hr_status hr__call_columns_init(hr_call_columns *c, const hr_calls_options *o, hr_error *err) HR_MUST_USE;
void hr__call_columns_clear(hr_call_columns *c);
/* The function's input columns of `in`; shares its arrays. HR_INVALID: a column is missing. */
hr_status hr__call_columns_input(const hr_call_columns *c, const hr_table *in, hr_table **out,
                                 hr_error *err) HR_MUST_USE;
/* The columns of `whole`, then the made column of `found`. HR_CALLBACK: `found` has other columns. */
hr_status hr__call_columns_schema(const hr_call_columns *c, const hr_schema *whole, const hr_schema *found,
                                  hr_schema **out, hr_error *err) HR_MUST_USE;
/* The rows of `whole` from `begin` on with the made column, whose origin `found` has. HR_CALLBACK: `found` has other
 * columns. */
hr_status hr__call_columns_join(const hr_call_columns *c, const hr_table *whole, int64_t begin, const hr_table *found,
                                hr_table **out, hr_error *err) HR_MUST_USE;
hr_status hr__call_columns_needs(const hr_call_columns *c, const char *const *wanted, int n, hr_needs *out,
                                 hr_error *err) HR_MUST_USE;
void hr__call_columns_fingerprint(const hr_call_columns *c, hr_hash *h);

/* --- first_columns.c. Rows [begin, begin + n) of `in` (NULL: none) were shown to a function, integers with nulls as
 * doubles. */
typedef struct hr_shown {
    const hr_table *in;
    int64_t begin, n;
} hr_shown;
void hr__first_columns_clear(hr_first_columns *f);
hr_status hr__first_columns_set(hr_first_columns *f, const hr_mem *mem, const hr_table *t, const hr_shown *shown,
                                hr_error *err) HR_MUST_USE;
/* Restores the columns from a position's text of n bytes. *known false: the first table sets them. */
hr_status hr__first_columns_recall(hr_first_columns *f, const char *text, int64_t n, bool *known,
                                   hr_error *err) HR_MUST_USE;
/* Conforms a table; *out is new. HR_TYPE: it cannot be conformed. */
hr_status hr__first_columns_fit(const hr_first_columns *f, const hr_mem *mem, hr_table *t, hr_table **out,
                                hr_error *err) HR_MUST_USE;

/* --- for process.c */
hr_calls *hr__calls_inner_ref(hr_calls *c); /* counted in `parts` */
void hr__calls_inner_unref(hr_calls *c);
bool hr__calls_unserved_locked(const hr_calls *c); /* no server exists and none is expected */
void hr__calls_refuse(hr_calls *c);                /* fails waiting calls that no server will serve */
/* Whether a server that paused the calls `l` may begin this call. */
bool hr__call_fits_locked(const hr_call *call, const hr_call_list *l, uint64_t server);
/* Adds a result of a TAKEN call. Returns the task to resume; NULL: none. */
hr_resume *hr__call_add_locked(hr_call *call, hr_result *takes);
/* The task to resume now; NULL: none. */
hr_resume *hr__call_set_ready_locked(hr_call_set *g);
void hr__call_requeue_locked(hr_call *call); /* repeats it from the beginning */

/* --- process.c, for calls.c and turns.c */
void hr__workers_notify_run(hr_calls *c, hr_calls_run *run, uint32_t kind,
                            int most);  /* sends `kind` to at most `most` workers */
void hr__workers_dispatch(hr_calls *c); /* sends waiting calls to free workers */
void hr__workers_drop(hr_calls *c);     /* sends DROP for orphans */
void hr__workers_close(hr_calls *c);
void hr__workers_clear(hr_calls *c); /* frees the workers with the last reference */
/* Continues a paused call of a worker. Releases and retakes the lock. */
void hr__worker_go_on_relocks(hr_calls *c, hr_call *call);
void hr__worker_forget_locked(hr_call *call); /* removes a done call from its worker's list */

/* --- messages. Numbers in the machine's own layout: both ends are one program on one machine. */
enum {
    HR_MSG_INIT = 1, /* -> bytes */
    HR_MSG_CALL,     /* -> tag, hr_call_place, hr_batch_place ..., the text of a state, table */
    HR_MSG_DROP,     /* -> tag: end it (DONE with HR_CANCELLED), unless it runs and does not stream */
    HR_MSG_MORE,     /* -> tag: a paused call may continue */
    HR_MSG_END,      /* -> */
    HR_MSG_RESULT,   /* <- tag, batch, counts ..., table */
    HR_MSG_STREAM,   /* <- the same, and more results follow */
    HR_MSG_PAUSED,   /* <- tag, hr_worker_times: until MORE or DROP */
    HR_MSG_DONE,     /* <- tag, hr_done_head, text, detail */
    HR_MSG_RUN,      /* -> run: make an instance */
    HR_MSG_RUN_END,  /* -> run: free its instance */
    HR_MSG_STATE     /* <- tag, text: answers HR_CALL_SAVE */
};
typedef struct hr_worker_times { /* since the worker last told */
    int64_t cpu_ns;              /* of the process, for its calls */
    int64_t delay_ns;            /* in which its thread had no CPU */
} hr_worker_times;
typedef struct hr_done_head {
    int32_t status;
    int32_t text_bytes;
    int64_t detail_bytes;
    hr_worker_times times;
} hr_done_head;

#endif
