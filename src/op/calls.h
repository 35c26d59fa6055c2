/* calls.h - the parts of a queue of calls, for the four files that share them and nobody else:
 *
 *   apply.c    the operator: rows -> a group of calls -> suspended -> results
 *   calls.c    the queue, and servers in this process (Python threads, the consumer's own)
 *   process.c  worker processes, served by the poller's thread
 *   worker.c   the worker process's side of the socket
 *
 * A *group* is what one suspended task waits for: the calls made of one push. It is complete when each of its calls is done,
 * or when its run is cancelled: then calls that wait are dropped, and those being served become *orphans*, whose results are
 * thrown away when they come. So nobody ever waits for user code that nobody wants.
 *
 * Who owns a call: its group, from hr__group_add on; an orphan, whoever serves it. A server fills the results without a
 * lock, and hands them over with state HR_CALL_DONE under calls->lock.
 * Locks: calls->lock guards all of hr_calls, groups, and the state and group of calls. It is a leaf: nothing is called
 * with it held but the budget's counters and condition variables. Functions ending in _locked expect it held. */
#ifndef HR_OP_CALLS_H
#define HR_OP_CALLS_H

#include "op/op.h"

typedef struct hr_call_group hr_call_group;
typedef struct hr_calls_worker hr_calls_worker;

typedef enum hr_call_state { HR_CALL_NEW, HR_CALL_WAITING, HR_CALL_TAKEN, HR_CALL_DONE } hr_call_state;

struct hr_call {
    hr_calls *calls; /* a part's reference */
    hr_call_state state;
    hr_call_group *group; /* NULL: an orphan */
    int index;            /* in its group */
    hr_call *prev, *next; /* the queue, while WAITING */
    uint64_t tag;         /* names it in messages */
    hr_table *input;
    hr_call_place place;
    hr_table **results;
    int64_t n_results, cap_results;
    bool incomplete; /* no memory for a result */
    bool in_hand;    /* a server in this process took it */
};

/* The calls of one operator in one run. Zero is a good start. */
typedef struct hr_calls_run {
    hr_call_group *groups; /* those submitted and not complete */
    bool cancelled;
} hr_calls_run;

struct hr_call_group {
    hr_calls *calls; /* borrowed: the operator holds it */
    hr_call **items; /* NULL where it became an orphan */
    int n;
    int64_t cap;
    int n_left;        /* not done */
    hr_resume *resume; /* whom to wake; NULL: nobody waits */
    int failed;        /* the first call that failed; n: none. What lies behind it may never have run */
    hr_status st;      /* of that one */
    hr_error err;
    hr_calls_run *run;
    hr_call_group *prev, *next; /* run->groups */
};

struct hr_calls {
    atomic_int users; /* operators and whoever made it; with the last one it closes */
    atomic_int parts; /* calls and workers that still point here, and 1 for all users */
    int pid;          /* whose it is: a forked child has a copy that serves nobody */
    char *name;
    hr_account *account;
    hr_mutex lock;
    hr_cond arrived;
    hr_call *first, *last; /* WAITING */
    int n_waiting;
    int n_asking, n_in_hand; /* servers in this process: wait for a call, have one */
    int n_takers;            /* the most of both together that were seen */
    uint64_t n_tags;
    bool closed;
    /* process.c */
    hr_calls_worker *workers;
    int n_workers, n_expected;
    bool by_workers;   /* there were workers or are to be: without any left, calls fail */
    int64_t call_ns;   /* how long a worker takes for a call, smoothed; 0: not known */
    hr_arena *arena;   /* what travels to workers; NULL: not made yet */
    hr_error lost_why; /* how the last worker went */
    hr_calls_lost_fn *lost;
    void *lost_context;
};

/* --- groups (calls.c) */
hr_status hr__group_new(hr_calls *c, hr_account *account, hr_call_group **out, hr_error *err) HR_MUST_USE;
hr_status hr__group_add(hr_call_group *g, hr_table *input, const hr_call_place *place,
                        hr_error *err) HR_MUST_USE; /* shares input */
/* Queues the calls. g->resume is set; it is completed when all are done, maybe before this returns: the caller must not
 * look at g again until its task was resumed. */
void hr__group_submit(hr_call_group *g, hr_calls_run *run);
void hr__group_free(hr_call_group *g); /* complete or never submitted; NULL is fine */
/* Completes all groups with HR_CANCELLED now, and each that comes later at once. */
void hr__calls_run_cancel(hr_calls *c, hr_calls_run *run);

int hr__calls_n_servers(hr_calls *c); /* worker processes, and threads as far as they have shown themselves */

/* --- for process.c */
hr_calls *hr__calls_part(hr_calls *c); /* a part's reference */
void hr__calls_part_end(hr_calls *c);
hr_call *hr__calls_pop_locked(hr_calls *c);        /* the longest waiting call, now TAKEN; NULL: none */
bool hr__calls_unserved_locked(const hr_calls *c); /* nobody is there, and nobody will come */
void hr__calls_refuse(hr_calls *c);                /* if nobody will serve them, waiting calls fail now */
/* It is TAKEN and has a group, which no longer waits for it. -> whom to wake (HR_OK) without the lock; NULL: nobody. */
hr_resume *hr__call_orphan_locked(hr_call *call, hr_status st, hr_error *moved);

/* --- process.c, for calls.c */
void hr__workers_dispatch(hr_calls *c); /* waiting calls to workers that are free */
void hr__workers_drop(hr_calls *c);     /* tells workers of orphans that they have not begun */
void hr__workers_close(hr_calls *c);
void hr__workers_clear(hr_calls *c); /* the last part went */

/* --- messages. Numbers in the machine's own layout: both ends are one program on one machine. */
enum {
    HR_MSG_INIT = 1, /* -> bytes */
    HR_MSG_CALL,     /* -> tag, a hr_call_place, table */
    HR_MSG_DROP,     /* -> tag: if it has not begun, let it be (DONE with HR_CANCELLED) */
    HR_MSG_END,      /* -> */
    HR_MSG_RESULT,   /* <- tag, table */
    HR_MSG_DONE      /* <- tag, hr_done_head, text, detail */
};
typedef struct hr_done_head {
    int32_t status;
    int32_t text_bytes;
    int64_t detail_bytes;
} hr_done_head;

#endif
