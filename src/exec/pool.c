/* pool.c - the process's threads, shared by all runs.
 *
 * A client (pool.h) is a run, or a call in shares. A thread looks for work in client after client, each time from the
 * client after the last one that had work, and sleeps when a whole round finds none. A wake-up is a counter and, if a
 * thread sleeps, a signal: a thread that is about to sleep sees that the counter changed. A client that finds work
 * wakes one more thread before it starts, so that as many threads run as there is work.
 *
 * A thread that waits for a network (a commit of a write job, a read beyond what was announced) is not one of the
 * threads that work: hr__waits_begin lets a *spare* thread work in its place, and up to MAX_SPARES threads can wait so.
 * When the wait ends both work, until the spare has done its unit of work and parks. The thread that waited does not
 * wait for that: it may hold a lock that the spare needs.
 *
 * Locks: run.h has their order. pool.resize guards n_threads and threads; pool.lock guards the list of clients and the
 * sleeping threads. hr__pool_wake may be called with a run's lock held, and by any free. Threads belong to one process
 * id: a forked child starts with an empty pool.
 *
 * Tests: test_run.c, test_keyed.c, test_waiting_threads.py. */
#include "exec/pool.h"

#include <stdlib.h>

#define MAX_THREADS 1024
#define MAX_SPARES 64

static struct {
    hr_mutex resize;
    hr_mutex lock;
    hr_cond work;
    hr_cond left; /* the users of a client became 0 */
    hr_pool_client *clients;
    uint64_t n_clients; /* clients ever attached; the id of the newest one */
    int n_threads;
    int n_wanted;
    atomic_int n_idle;
    atomic_llong generation;
    hr_thread threads[MAX_THREADS];
    /* Under `lock`. Spares have the numbers from MAX_THREADS on. */
    hr_cond spare;  /* one more thread waits for a network */
    int n_waiting;  /* threads, spares too, that wait for a network */
    int n_standing; /* spares that are not parked */
    int n_spares;
    bool spares_end;
    hr_thread spares[MAX_SPARES];
} pool;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local hr_pool_client *served; /* for whom this thread works */

static void after_fork(void)
{
    hr__mutex_init(&pool.resize);
    hr__mutex_init(&pool.lock);
    hr__cond_init(&pool.work);
    hr__cond_init(&pool.left);
    pool.clients = NULL;
    pool.n_threads = 0;
    pool.n_waiting = pool.n_standing = pool.n_spares = 0;
    hr__cond_init(&pool.spare);
    atomic_store(&pool.n_idle, 0);
}

static void threads_changed(int n_wanted);
static void waits_changed(int by);

static void init(void)
{
    hr__mutex_init(&pool.resize);
    hr__mutex_init(&pool.lock);
    hr__cond_init(&pool.work);
    hr__cond_init(&pool.left);
    hr__cond_init(&pool.spare);
    pthread_atfork(NULL, NULL, after_fork);
    hr__budget_set_waiter(hr__pool_wake);
    hr__threads_set_hook(threads_changed);
    hr__waits_set_hook(waits_changed);
}

int hr__pool_slots(void) { return MAX_THREADS + MAX_SPARES; }

int hr__pool_n_idle(void) { return atomic_load_explicit(&pool.n_idle, memory_order_relaxed); }

void hr__pool_wake(void)
{
    atomic_fetch_add(&pool.generation, 1);
    if (atomic_load(&pool.n_idle) > 0) {
        hr__lock(&pool.lock);
        hr__cond_signal(&pool.work);
        hr__unlock(&pool.lock);
    }
}

static hr_pool_client *client_behind(uint64_t id)
{
    hr_pool_client *c = pool.clients;

    while (c && c->id <= id)
        c = c->next;
    return c;
}

/* Does one unit of work of the next client after *last that has any. Holds one client at a time: a client that detaches
 * waits for the threads that look at it, and must not wait for another client's work. */
static bool work_once_relocks(int thread, uint64_t *last)
{
    uint64_t at = *last, end = UINT64_MAX;
    bool did = false;

    while (!did) {
        hr_pool_client *c = client_behind(at);

        if ((!c && end == *last) || (c && c->id > end))
            return false;
        if (!c) { /* from the first client, up to the one where the round began */
            end = *last;
            at = 0;
            continue;
        }
        at = c->id;
        c->users++;
        hr__unlock(&pool.lock);
        served = c;
        did = c->work(c->context, thread);
        served = NULL;
        hr__lock(&pool.lock);
        if (--c->users == 0)
            hr__cond_broadcast(&pool.left);
    }
    *last = at;
    return true;
}

/* Whether this thread has to go or to park. */
static bool is_over(int thread)
{
    return thread < MAX_THREADS ? thread >= pool.n_wanted : pool.spares_end || pool.n_standing > pool.n_waiting;
}

static void serve_relocks(int thread)
{
    uint64_t last = 0;

    while (!is_over(thread)) {
        long long seen = atomic_load(&pool.generation);

        if (work_once_relocks(thread, &last))
            continue;
        atomic_fetch_add(&pool.n_idle, 1);
        if (atomic_load(&pool.generation) == seen && !is_over(thread))
            hr__cond_wait(&pool.work, &pool.lock);
        atomic_fetch_sub(&pool.n_idle, 1);
    }
    hr__cond_signal(&pool.work); /* what woke this thread may have been for another one */
}

static void thread_main(void *arg)
{
    hr__is_pool_thread = true;
    hr__lock(&pool.lock);
    serve_relocks((int)(intptr_t)arg);
    hr__unlock(&pool.lock);
}

static void spare_main(void *arg)
{
    hr__is_pool_thread = true;
    hr__lock(&pool.lock);
    while (!pool.spares_end) {
        if (pool.n_standing >= pool.n_waiting) {
            hr__cond_wait(&pool.spare, &pool.lock);
            continue;
        }
        pool.n_standing++;
        serve_relocks((int)(intptr_t)arg);
        pool.n_standing--;
    }
    hr__unlock(&pool.lock);
}

/* One more thread waits for a network, or one less. */
static void waits_changed(int by)
{
    int n = -1;

    hr__lock(&pool.lock);
    pool.n_waiting += by;
    atomic_fetch_add(&served->n_waiting, by);
    if (by > 0 && pool.n_waiting > pool.n_spares && pool.n_spares < MAX_SPARES && !pool.spares_end) {
        n = pool.n_spares;
        if (hr__thread_start(&pool.spares[n], "headrace", spare_main, (void *)(intptr_t)(MAX_THREADS + n)) >= 0)
            pool.n_spares++; /* else nobody works in its place */
    }
    if (by > 0 && n < 0)
        hr__cond_signal(&pool.spare);
    hr__unlock(&pool.lock);
    if (by > 0)
        hr__pool_wake(); /* the client may have one more thread that works */
}

/* With `resize`, without the lock, and no client. */
static void end_spares(void)
{
    hr__lock(&pool.lock);
    pool.spares_end = true;
    hr__cond_broadcast(&pool.spare);
    hr__cond_broadcast(&pool.work);
    hr__unlock(&pool.lock);
    for (int i = 0; i < pool.n_spares; i++)
        hr__thread_join(pool.spares[i]);
    hr__lock(&pool.lock);
    pool.n_spares = 0;
    pool.spares_end = false;
    hr__unlock(&pool.lock);
}

static void end_threads(int keep)
{
    hr__lock(&pool.lock);
    pool.n_wanted = HR_MIN(pool.n_wanted, keep);
    hr__cond_broadcast(&pool.work);
    hr__unlock(&pool.lock);
    while (pool.n_threads > keep)
        hr__thread_join(pool.threads[--pool.n_threads]);
}

/* Never fewer than there are. With `resize`, without the lock. */
static hr_status start_threads(int n, hr_error *err)
{
    int missing = 0;

    hr__lock(&pool.lock);
    n = HR_MIN(MAX_THREADS, HR_MAX(1, n));
    pool.n_wanted = HR_MAX(n, pool.n_threads);
    hr__unlock(&pool.lock);
    while (pool.n_threads < n) {
        int i = pool.n_threads;
        int rc = hr__thread_start(&pool.threads[i], "headrace", thread_main, (void *)(intptr_t)i);

        if (rc < 0 && i == 0)
            return hr__error_os(err, rc, "thread pool", "start");
        if (rc < 0) {
            missing = rc;
            break; /* fewer will do */
        }
        pool.n_threads++;
    }
    if (missing)
        hr__log(HR_LOG_WARNING, "thread pool: %d of %d threads start: %s", pool.n_threads, n, strerror(-missing));
    return HR_OK;
}

static void threads_changed(int n_wanted)
{
    hr__lock(&pool.resize);
    if (n_wanted < pool.n_threads)
        end_threads(HR_MAX(1, n_wanted));
    else if (pool.n_threads)
        (void)start_threads(n_wanted, NULL); /* fewer threads than wanted are not an error */
    hr__unlock(&pool.resize);
}

hr_status hr__pool_attach(hr_pool_client *c, hr_error *err)
{
    hr_pool_client **end = &pool.clients;
    hr_status st = HR_OK;

    pthread_once(&once, init);
    /* On a pool thread (a callback opens a feed) threads exist, and a thread that joins this one may hold `resize`. */
    if (!hr__is_pool_thread) {
        hr__lock(&pool.resize);
        st = start_threads(hr_num_threads(), err);
        hr__unlock(&pool.resize);
    }
    HR_TRY(st);
    hr__lock(&pool.lock);
    c->id = ++pool.n_clients;
    c->next = NULL;
    while (*end)
        end = &(*end)->next;
    *end = c;
    c->attached = true;
    hr__unlock(&pool.lock);
    hr__pool_wake();
    return HR_OK;
}

/* Does not wait for `resize`: its holder joins pool threads, which may wait for locks that the caller holds. */
void hr__pool_grow(int n)
{
    if (hr__is_pool_thread || !hr__try_lock(&pool.resize))
        return;
    if (n > pool.n_threads)
        (void)start_threads(n, NULL); /* fewer threads than wanted are not an error */
    hr__unlock(&pool.resize);
    hr__pool_wake();
}

void hr__pool_detach(hr_pool_client *c)
{
    pthread_once(&once, init);
    hr__lock(&pool.lock);
    for (hr_pool_client **p = &pool.clients; c->attached && *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    c->attached = false;
    while (c->users)
        hr__cond_wait(&pool.left, &pool.lock);
    hr__unlock(&pool.lock);
}

hr_status hr_shutdown(hr_error *err)
{
    bool busy;

    if (hr__is_pool_thread)
        return hr_error_set(err, HR_INVALID, "shutdown: called in a callback, which would wait for its own thread");
    pthread_once(&once, init);
    hr__lock(&pool.lock);
    busy = pool.clients != NULL;
    hr__unlock(&pool.lock);
    if (busy)
        return hr_error_set(err, HR_INVALID, "shutdown: a feed is open; close it first");
    hr__lock(&pool.resize);
    end_threads(0);
    end_spares();
    hr__unlock(&pool.resize);
    (void)hr__pool_trim(0);
    return HR_OK;
}
