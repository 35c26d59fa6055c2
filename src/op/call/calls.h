/* calls.h - what the files share that queue calls of functions and serve them. Private to op/call.
 *
 *   apply.c    the operator: rows -> a group of calls -> suspended -> results
 *   call_columns.c  a column made of some columns: what goes to the function, and how its result comes to the rest
 *   first_columns.c  the function's tables under the columns of its first
 *   calls.c    the queue, and servers in this process (Python threads, the consumer's own)
 *   turns.c    runs of operators: their instances, and calls that begin in the order of the rows
 *   process.c  worker processes, served by the poller's thread
 *   worker.c   the worker process's side of the socket
 *
 * A *group* is the calls that one suspended task waits for. The operator collects results in the order of the calls:
 * all of the first, then those of the next. hr__resume wakes it when it can go on: when the group is done, when a call
 * that streams has given something and it is its turn, or, where calls take long, when the next call is done.
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
 *   WAITING to TAKEN    a worker gets it (process.c: assign), or a server in this process (hr__calls_take)
 *   TAKEN to DONE       the server is done (hr__call_done)
 *   TAKEN to PAUSED     it has given much that nobody has collected (hr__call_pause, a worker's PAUSED)
 *   PAUSED to TAKEN     that was collected, and a worker has the call: MORE is sent
 *   PAUSED to WAITING   that was collected, and a server in this process had it: only that one may take it again
 *   TAKEN to WAITING    its worker died, and the call is done again (hr__call_requeue_locked)
 *   WAITING, PAUSED to DONE   refused, the run was cancelled, or a call before it failed; not PAUSED by a worker
 *
 *   WAITING is in hr_calls.waiting. TAKEN and PAUSED are in hr_calls_worker.had of a worker; of a server in this
 *   process TAKEN is in no list, PAUSED in hr_calls.paused.
 *
 * A call that *streams* (a generator's) is paused when it has given so much that nobody has collected. Its server
 * then may serve other calls, but of the same run only those before it in order. So a server holds few results that
 * wait for their turn, and the call whose turn it is always finds a server.
 *
 * When a group is freed, calls that wait are freed with it; calls that are TAKEN, or PAUSED by a worker, become
 * *orphans* (hr_call.group NULL): the server's results are dropped, and hr__call_done frees the call. So no thread
 * waits for user code whose result nobody wants.
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
 * Who owns a call: its group, from hr__call_set_add on; an orphan belongs to its server. Locks: calls->lock guards
 * all of hr_calls, groups and calls, results too. It is a leaf: a thread that holds it calls only the budget's counters
 * and condition variables. Functions ending in _locked expect the lock held; those ending in _relocks let go of it and
 * take it again, so that what the caller read before may have changed. */
#ifndef HR_OP_CALLS_H
#define HR_OP_CALLS_H

#include "op/call.h"

typedef struct hr_call_set hr_call_set;
typedef struct hr_calls_run hr_calls_run;
typedef struct hr_calls_worker hr_calls_worker;

typedef enum hr_call_state { HR_CALL_NEW, HR_CALL_WAITING, HR_CALL_TAKEN, HR_CALL_PAUSED, HR_CALL_DONE } hr_call_state;

/* What a call may have given that nobody collected, before it is paused: so many tables, or the bytes of two that are
 * wanted. */
#define HR_AHEAD_TABLES 64
static inline int64_t hr__ahead_bytes(const hr_call_place *p) { return 2 * hr__table_bytes_wanted(p->limit_bytes); }

/* One table of results, and which batches it is of. */
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

struct hr_call {
    hr_calls *calls; /* a part's reference */
    hr_call_state state;
    hr_call_set *group;   /* NULL: an orphan */
    hr_calls_run *run;    /* to compare, maybe dangling */
    int index;            /* in its group */
    hr_call *prev, *next; /* c->waiting, c->paused, or those of its worker */
    uint64_t tag;         /* names it in messages */
    int64_t turn, number; /* its order in the run: that of its ticket, then in the ticket */
    hr_table *input;
    hr_table *whole; /* of which the input has some columns; NULL: all of it is the input */
    int64_t input_bytes;
    hr_call_place place;
    hr_batch_place *batches;
    int64_t n_batches;
    hr_results results; /* given, not collected */
    bool streams;       /* has given some and may give more */
    bool incomplete;    /* no memory for a result */
    hr_status st;       /* DONE: how */
    hr_error err;
    bool in_hand;    /* a server in this process took it */
    uint64_t server; /* who paused it; meaningless before */
    bool resumes;    /* was paused: only `server` may have it */
    int64_t taken_ns;
    hr_calls_worker *worker; /* that has it */
    bool dropped;            /* the worker was told that nobody wants it */
    int n_deaths;            /* of workers that ran it */
    int64_t n_collected;     /* tables that were handed on */
    int64_t n_skip;          /* of those that come, that were handed on before a worker died */
    bool begun;              /* it counts in run->n_begun */
    char *loads;             /* the state that the instance loads first; NULL: none. Owned */
    char *saved;             /* HR_CALL_SAVE: what the server gave; NULL: nothing. Owned */
};

typedef struct hr_call_list {
    hr_call *first, *last;
    int n;
} hr_call_list;
void hr__call_list_add(hr_call_list *l, hr_call *call, hr_call *next); /* before `next`; NULL: at the end */
void hr__call_list_remove(hr_call_list *l, hr_call *call);

/* first_columns.c: what the first table of a run says. Set once, by the ticket that is first; then only read. */
typedef struct hr_first_columns {
    hr_schema *schema;
    bool *
        /* of each column: it was doubles, which are taken for the integers that the function was shown as such */
        guessed;
    hr_remembered remembered;
} hr_first_columns;

/* The calls of one operator in one run. Zero is a good start; hr__calls_run_begin where there are instances. */
struct hr_calls_run {
    hr_call_set *groups; /* those submitted */
    bool cancelled;
    int64_t n_errored;   /* batches that failed and were left out */
    int64_t input_bytes; /* of calls that were submitted */
    hr_first_columns first;
    /* turns.c */
    hr_calls_run *prev, *next; /* c->runs */
    bool listed;
    uint64_t id;
    hr_calls_class how;
    int n_ahead;    /* workers that were told to make an instance */
    int64_t turn;   /* the calls of all tickets before this one are there */
    int64_t *early; /* tickets behind it of which that is so, too */
    int64_t n_early, cap_early;
    int n_begun;           /* calls that were begun and have not ended */
    char *loads;           /* the state for its instance to load before its first call; NULL: none, or it has it */
    bool sends;            /* a thread sends a call of it, and has not yet */
    hr_calls_worker *home; /* to compare: the worker that has the instance; NULL: none yet */
    hr_error lost;         /* the instance is gone, and rows with it */
};

struct hr_call_set {
    hr_calls *calls; /* borrowed: the operator holds it */
    hr_call **items;
    int n;
    int64_t cap;
    int next;                   /* whose results are collected now */
    hr_resume *resume;          /* whom to wake; NULL: nobody waits */
    hr_calls_run *run;          /* NULL: not submitted */
    hr_call_set *prev, *others; /* run->groups */
};

struct hr_calls {
    atomic_int users; /* operators and whoever made it; with the last one it closes */
    atomic_int parts; /* calls and workers that still point here, and 1 for all users */
    int pid;          /* whose it is: a forked child has a copy that serves nobody */
    char *name;
    hr_account *account;
    hr_mutex lock;
    hr_cond arrived;
    hr_call_list waiting;
    hr_call_list paused;     /* by servers in this process; workers have their own lists */
    int n_asking, n_in_hand; /* servers in this process: wait for a call, have one */
    int n_takers;            /* the most of both together that were seen */
    uint64_t n_tags;
    bool closed;
    bool tolerant;      /* failed batches may be left out: those behind one are done all the same */
    hr_calls_run *runs; /* that have begun and not ended */
    uint64_t n_runs;
    int64_t n_ended;   /* runs of instances */
    int64_t batch_ns;  /* how long a batch takes, smoothed; 0: not known */
    int64_t n_errored; /* since somebody asked */
    hr_error errored;  /* the first of them */
    int64_t private_bytes, private_peak;
    char code[17]; /* a hash of what the function is, for positions; "": not known */
    /* process.c */
    hr_calls_worker *workers;
    int n_workers, n_expected;
    int depth, max_retries;
    bool by_workers;   /* there were workers or are to be: without any left, calls fail */
    int64_t call_ns;   /* how long a worker takes for a call, smoothed; 0: not known */
    hr_arena *arena;   /* what travels to workers; NULL: not made yet */
    hr_error lost_why; /* how the last worker went */
};

/* --- groups (calls.c) */
hr_status hr__call_set_new(hr_calls *c, hr_account *account, hr_call_set **out, hr_error *err) HR_MUST_USE;
/* Shares input and whole (NULL: see hr_call), takes batches (hr__alloc), even on failure. */
hr_status hr__call_set_add(hr_call_set *g, hr_table *input, hr_table *whole, const hr_call_place *place,
                           hr_batch_place *batches, int64_t n_batches, int64_t turn, int64_t number,
                           hr_error *err) HR_MUST_USE;
/* Queues the calls. HR_CANCELLED, HR_PEER, HR_INVALID: they are not served. */
hr_status hr__call_set_submit(hr_call_set *g, hr_calls_run *run, hr_error *err) HR_MUST_USE;
/* Takes what call g->next has given since; *out is the caller's (hr__results_clear). -> it is done, as call->st says:
 * g->next is the next one now. *again: a server in this process has to be told that it may go on. */
bool hr__call_set_collect(hr_call_set *g, hr_results *out, bool *again);
/* Nothing to collect: `takes` is completed when there is, maybe before this returns. False: there is already; takes
 * nothing. */
bool hr__call_set_wait(hr_call_set *g, hr_resume *takes);
bool hr__call_set_cancelled(hr_call_set *g);
void hr__call_set_free(hr_call_set *g); /* NULL is fine; see orphans */
void hr__results_clear(hr_results *r);
/* All groups, now and later, fail with HR_CANCELLED at once. */
void hr__calls_run_cancel(hr_calls *c, hr_calls_run *run);
void hr__calls_left_out(hr_calls *c, hr_call *call, const char *where); /* it failed, and that is forgiven */

int64_t hr__calls_count_errored(hr_calls *c, hr_calls_run *run); /* one more; -> how many in this run */
void hr__calls_forgive(hr_calls *c);                             /* failures may be left out */
void hr__calls_stats(hr_calls *c, const hr_calls_run *run, hr_text *out);

int hr__calls_n_servers(hr_calls *c); /* worker processes, and threads as far as they have shown themselves */
int64_t hr__calls_batch_ns(hr_calls *c);

/* --- turns.c */
/* Begin and end belong to each other; between them servers keep instances for the run. */
void hr__calls_run_begin(hr_calls *c, hr_calls_run *run, const hr_calls_class *how);
void hr__calls_run_end(hr_calls *c, hr_calls_run *run);
/* The instance begins with this state. Borrows. */
hr_status hr__calls_run_restore(hr_calls *c, hr_calls_run *run, const char *state, hr_error *err) HR_MUST_USE;
/* All calls of ticket `turn` were submitted: those of the next may begin. */
hr_status hr__calls_turn_done(hr_calls *c, hr_calls_run *run, int64_t turn, hr_error *err) HR_MUST_USE;
char *hr__call_take_saved(hr_call *call); /* the caller's; NULL: none */
/* A waiting call may be begun by the worker, or (NULL) by a server in this process. */
bool hr__call_may_begin_locked(const hr_call *call, const hr_calls_worker *w);
void hr__call_begin_locked(hr_call *call, hr_calls_worker *w); /* it does */
void hr__call_sent(hr_calls *c, const hr_call_place *place);   /* to its worker, or that failed */
void hr__call_end_locked(hr_call *call);                       /* it has ended, or waits again */
/* The worker is gone, as `why` says, and with it its instances. */
void hr__runs_lost_locked(hr_calls *c, const hr_calls_worker *w, const hr_error *why);
/* Why calls of the run are not served any more; HR_OK: they are. */
hr_status hr__run_refusal_locked(const hr_calls_run *run, hr_error *err);

/* --- call_columns.c */
typedef struct hr_call_columns {
    char *made;   /* NULL: calls get all columns */
    char **names; /* that they get */
    int n;
} hr_call_columns;
hr_status hr__call_columns_init(hr_call_columns *c, const hr_calls_options *o, hr_error *err) HR_MUST_USE;
void hr__call_columns_clear(hr_call_columns *c);
/* What the function is to see of `in`: shares its arrays. HR_INVALID: it has no such column. */
hr_status hr__call_columns_input(const hr_call_columns *c, const hr_table *in, hr_table **out,
                                 hr_error *err) HR_MUST_USE;
/* The columns of `whole` and, behind them, the one of `found`. HR_CALLBACK: it is not the one that is made. */
hr_status hr__call_columns_schema(const hr_call_columns *c, const hr_schema *whole, const hr_schema *found,
                                  hr_schema **out, hr_error *err) HR_MUST_USE;
/* The rows of `whole` from `begin` on with the column that was made of them; `found` has its origin. HR_CALLBACK: it is
 * not that. */
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
/* As a position has it, n bytes. *known: they are; else they are found as always. */
hr_status hr__first_columns_recall(hr_first_columns *f, const char *text, int64_t n, bool *known,
                                   hr_error *err) HR_MUST_USE;
/* *out is new. HR_TYPE says what is wrong with t. */
hr_status hr__first_columns_fit(const hr_first_columns *f, const hr_mem *mem, hr_table *t, hr_table **out,
                                hr_error *err) HR_MUST_USE;

/* --- for process.c */
hr_calls *hr__calls_inner_ref(hr_calls *c); /* a part's reference */
void hr__calls_inner_unref(hr_calls *c);
bool hr__calls_unserved_locked(const hr_calls *c); /* nobody is there, and nobody will come */
void hr__calls_refuse(hr_calls *c);                /* if nobody will serve them, waiting calls fail now */
/* Of a server that paused `l`, may it begin this call? */
bool hr__call_fits_locked(const hr_call *call, const hr_call_list *l, uint64_t server);
/* A result of a call that is TAKEN. -> whom to wake; NULL: nobody. */
hr_resume *hr__call_add_locked(hr_call *call, hr_result *takes);
/* Whom to wake now; NULL: nobody. */
hr_resume *hr__call_set_ready_locked(hr_call_set *g);
void hr__call_requeue_locked(hr_call *call); /* to be done again from the beginning */

/* --- process.c, for calls.c and turns.c */
void hr__workers_tell_run(hr_calls *c, hr_calls_run *run, uint32_t kind, int most); /* so many of them */
void hr__workers_dispatch(hr_calls *c); /* waiting calls to workers that are free */
void hr__workers_drop(hr_calls *c);     /* tells workers of orphans */
void hr__workers_close(hr_calls *c);
void hr__workers_clear(hr_calls *c); /* the last part went */
/* A paused call of a worker's goes on; called with the lock, which it lets go for a while. */
void hr__worker_go_on_relocks(hr_calls *c, hr_call *call);
void hr__worker_forget_locked(hr_call *call); /* it is done: out of its worker's list */

/* --- messages. Numbers in the machine's own layout: both ends are one program on one machine. */
enum {
    HR_MSG_INIT = 1, /* -> bytes */
    HR_MSG_CALL,     /* -> tag, a hr_call_place, its hr_call_parts, the text of a state, table */
    HR_MSG_DROP,     /* -> tag: let it be (DONE with HR_CANCELLED), unless it runs and does not stream */
    HR_MSG_MORE,     /* -> tag: it was paused and may go on */
    HR_MSG_END,      /* -> */
    HR_MSG_RESULT,   /* <- tag, part, counts ..., table */
    HR_MSG_STREAM,   /* <- likewise, and more will come */
    HR_MSG_PAUSED,   /* <- tag: until MORE or DROP */
    HR_MSG_DONE,     /* <- tag, hr_done_head, text, detail */
    HR_MSG_RUN,      /* -> run: it begins */
    HR_MSG_RUN_END,  /* -> run: its instance goes */
    HR_MSG_STATE     /* <- tag, text: of HR_CALL_SAVE */
};
typedef struct hr_done_head {
    int32_t status;
    int32_t text_bytes;
    int64_t detail_bytes;
} hr_done_head;

#endif
