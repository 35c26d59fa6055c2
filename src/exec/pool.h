/* pool.h - the process's threads, and the clients that give them work. */
#ifndef HR_EXEC_POOL_H
#define HR_EXEC_POOL_H

#include "base/all.h"

/* A source of work for the pool: a run, or a call in shares (parallel_call.c). */
typedef struct hr_pool_client {
    /* Does one unit of work, if there is any. Pool thread number `thread` calls it, without locks. */
    bool (*work)(void *context, int thread);
    void *context;
    /* The fields below belong to pool.c, under its lock. */
    struct hr_pool_client *next; /* in the order of id */
    uint64_t id;
    bool attached;
    int users;            /* pool threads that look at it now */
    atomic_int n_waiting; /* of these, threads that wait for a network: others work in their places. For any thread */
} hr_pool_client;

int hr__pool_slots(void);  /* more than any thread's number */
int hr__pool_n_idle(void); /* threads that sleep now */
/* Borrows c until it is detached. The first one starts the threads. */
hr_status hr__pool_attach(hr_pool_client *c, hr_error *err) HR_MUST_USE;
/* The pool gets up to n threads, if it has fewer. On a pool thread, and while others resize it, nothing happens. */
void hr__pool_grow(int n);
void hr__pool_detach(
    hr_pool_client *c);   /* waits until no thread looks at c: c must have run out of work, or end soon */
void hr__pool_wake(void); /* reports that there may be more work: at any time, with any locks held except pool.c's */

#endif
