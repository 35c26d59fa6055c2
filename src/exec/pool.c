/* pool.c - the process's threads, shared by all runs.
 *
 * Threads look for work in run after run (hr__run_work) and sleep when a whole round found none. A wake-up is a counter and,
 * if anybody sleeps, a signal: a thread that is about to sleep sees that the counter moved. A thread that found work wakes one more
 * before it starts, so that as many threads run as there is work.
 *
 * Lock order: a run's lock, then pool.lock (hr__pool_wake may be called with the first held). Threads belong to one process id: a
 * forked child starts with an empty pool. */
#include "exec/run.h"

#include <stdlib.h>

#define MAX_THREADS 1024

static struct {
    hr_mutex lock;
    hr_cond work;
    hr_cond left; /* a run's pool_users became 0 */
    hr_run *runs;
    int n_threads, n_wanted;
    atomic_int n_idle;
    atomic_llong generation;
    bool stopping;
    hr_thread threads[MAX_THREADS];
} pool;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void after_fork(void)
{
    hr__mutex_init(&pool.lock);
    hr__cond_init(&pool.work);
    hr__cond_init(&pool.left);
    pool.runs = NULL;
    pool.n_threads = 0;
    pool.stopping = false;
    atomic_store(&pool.n_idle, 0);
}

static void threads_changed(int n_wanted);

static void init(void)
{
    hr__mutex_init(&pool.lock);
    hr__cond_init(&pool.work);
    hr__cond_init(&pool.left);
    pthread_atfork(NULL, NULL, after_fork);
    hr__budget_set_waiter(hr__pool_wake);
    hr__threads_set_hook(threads_changed);
}

int hr__pool_slots(void) { return MAX_THREADS; }

void hr__pool_wake(void)
{
    atomic_fetch_add(&pool.generation, 1);
    if (atomic_load(&pool.n_idle) > 0) {
        hr__lock(&pool.lock);
        hr__cond_signal(&pool.work);
        hr__unlock(&pool.lock);
    }
}

/* One piece of work of any run. Runs are taken in turn from the list, so that none starves. Called and left with the lock. */
static bool work_once(int thread)
{
    hr_run *tried[64];
    int n = 0;
    bool did = false;

    for (hr_run *r = pool.runs; r && n < HR_LEN(tried); r = r->pool_next) {
        r->pool_users++;
        tried[n++] = r;
    }
    hr__unlock(&pool.lock);
    for (int i = 0; i < n && !did; i++)
        did = hr__run_work(tried[(i + thread) % n], thread);
    hr__lock(&pool.lock);
    for (int i = 0; i < n; i++)
        if (--tried[i]->pool_users == 0)
            hr__cond_broadcast(&pool.left);
    return did;
}

static void thread_main(void *arg)
{
    int thread = (int)(intptr_t)arg;

    hr__lock(&pool.lock);
    while (!pool.stopping && thread < pool.n_wanted) {
        long long seen = atomic_load(&pool.generation);

        if (work_once(thread))
            continue;
        atomic_fetch_add(&pool.n_idle, 1);
        if (atomic_load(&pool.generation) == seen && !pool.stopping && thread < pool.n_wanted)
            hr__cond_wait(&pool.work, &pool.lock);
        atomic_fetch_sub(&pool.n_idle, 1);
    }
    hr__unlock(&pool.lock);
}

/* Ends the threads numbered `keep` and above. Called without the lock; never from a pool thread. */
static void end_threads(int keep)
{
    int n;

    hr__lock(&pool.lock);
    n = pool.n_threads;
    pool.n_wanted = HR_MIN(pool.n_wanted, keep);
    pool.n_threads = HR_MIN(n, keep);
    hr__cond_broadcast(&pool.work);
    hr__unlock(&pool.lock);
    for (int i = keep; i < n; i++)
        hr__thread_join(pool.threads[i]);
}

static hr_status start_threads_locked(hr_error *err)
{
    pool.n_wanted = HR_MIN(MAX_THREADS, HR_MAX(1, hr_num_threads()));
    while (pool.n_threads < pool.n_wanted) {
        int i = pool.n_threads;
        int rc = hr__thread_start(&pool.threads[i], "headrace", thread_main, (void *)(intptr_t)i);

        if (rc < 0 && i == 0)
            return hr__error_os(err, rc, "thread pool", "start");
        if (rc < 0)
            break; /* fewer will do */
        pool.n_threads++;
    }
    return HR_OK;
}

static void threads_changed(int n_wanted)
{
    int n = HR_MIN(MAX_THREADS, HR_MAX(1, n_wanted));

    if (n < pool.n_threads)
        end_threads(n);
    hr__lock(&pool.lock);
    if (pool.n_threads)
        (void)start_threads_locked(NULL); /* what cannot be started now is missing, not wrong */
    hr__unlock(&pool.lock);
}

hr_status hr__pool_attach(hr_run *r, hr_error *err)
{
    hr_status st;

    pthread_once(&once, init);
    hr__lock(&pool.lock);
    if (!(st = start_threads_locked(err))) {
        r->pool_next = pool.runs;
        pool.runs = r;
        r->in_pool = true;
    }
    hr__unlock(&pool.lock);
    hr__pool_wake();
    return st;
}

void hr__pool_detach(hr_run *r)
{
    pthread_once(&once, init);
    hr__lock(&pool.lock);
    for (hr_run **p = &pool.runs; r->in_pool && *p; p = &(*p)->pool_next)
        if (*p == r) {
            *p = r->pool_next;
            break;
        }
    r->in_pool = false;
    while (r->pool_users)
        hr__cond_wait(&pool.left, &pool.lock);
    hr__unlock(&pool.lock);
}

void hr__pool_shutdown(void)
{
    pthread_once(&once, init);
    end_threads(0);
}
