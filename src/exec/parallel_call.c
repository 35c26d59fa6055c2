/* parallel_call.c - one call in shares, which all idle threads run.
 *
 * hr__task_share: an operator's call on which all other work of the run depends (the table of a join's right side). It
 * waits in the run's list; pool threads that look at the run do its shares before any other work. Guarded by run->lock.
 *
 * each(), the function of hr__scan_set_each: work on many files outside a run (the footers of all files, for a schema).
 * The call is its own client of the pool. A call whose shares wait for disks more than they compute starts its own
 * threads instead: the pool has one thread per CPU.
 *
 * In both, the calling thread does shares, too, one after another, then waits for the shares that other threads have
 * begun: a share never waits, so this takes at most as long as one share. Shares begin in the order of their numbers.
 * After an error no share begins; the call fails with the error of the lowest number that failed.
 *
 * Tests: test_keyed.c. */
#include "exec/run.h"

typedef struct shares {
    hr_share_fn *fn;
    void *context;
    int64_t n, at, busy; /* number of shares; the next one; the number that run now */
    int64_t failed;      /* the lowest that failed; n: none did */
    hr_status st;
    hr_error err;
} shares;

static bool share_begin(shares *c, int64_t *i)
{
    if (c->at >= c->n)
        return false;
    *i = c->at++;
    c->busy++;
    return true;
}

/* Clears err. */
static void share_end(shares *c, int64_t i, hr_status st, hr_error *err)
{
    if (st && i < c->failed) {
        c->failed = i;
        c->st = st;
        hr__error_move(&c->err, err);
        c->at = c->n;
    }
    hr_error_clear(err);
    c->busy--;
}

static hr_status shares_over(shares *c, hr_error *err)
{
    if (c->st)
        hr__error_move(err, &c->err);
    hr_error_clear(&c->err);
    return c->st;
}

static hr_status do_all(int64_t n, hr_share_fn *fn, void *context, hr_error *err)
{
    for (int64_t i = 0; i < n; i++)
        HR_TRY(fn(context, i, err));
    return HR_OK;
}

/* -------------------------------------------------------------------------------------- an operator's call in a run */

struct hr_parallel_call {
    hr_parallel_call *next;
    shares shares;
};

/* Does the next share, without the lock; false: there is none. */
static bool do_share_relocks(hr_run *r, shares *c)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;
    int64_t i;

    hr__assert_locked(r);
    if (!share_begin(c, &i))
        return false;
    hr__run_unlock(r);
    st = c->fn(c->context, i, &err);
    hr__run_lock(r);
    share_end(c, i, st, &err);
    if (!c->busy)
        hr__cond_broadcast(&r->shares_done);
    return true;
}

static hr_parallel_call *open_call(const hr_run *r)
{
    hr_parallel_call *c = r->calls;

    while (c && c->shares.at >= c->shares.n)
        c = c->next;
    return c;
}

bool hr__has_shares_locked(const hr_run *r) { return open_call(r) != NULL; }

void hr__do_shares(hr_run *r)
{
    hr_parallel_call *c;

    hr__run_lock(r);
    while ((c = open_call(r)))
        do_share_relocks(r, &c->shares);
    hr__run_unlock(r);
}

static void remove_call_locked(hr_run *r, hr_parallel_call *c)
{
    hr_parallel_call **at = &r->calls;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

hr_status hr__task_share(hr_task *task, int64_t n, hr_share_fn *fn, void *context, hr_error *err)
{
    hr_parallel_call c = { .shares = { .fn = fn, .context = context, .n = n, .failed = n } };
    hr_run *r = task ? task->run : NULL;

    if (n < 2 || !r)
        return do_all(n, fn, context, err);
    hr__run_lock(r);
    c.next = r->calls;
    r->calls = &c;
    hr__run_unlock(r);
    hr__pool_wake();
    hr__run_lock(r);
    while (do_share_relocks(r, &c.shares))
        ;
    while (c.shares.busy)
        hr__run_wait(r, &r->shares_done);
    remove_call_locked(r, &c);
    hr__run_unlock(r);
    return shares_over(&c.shares, err);
}

/* ---------------------------------------------------------------------------------------------------- without a run */

#define MAX_THREADS 32

typedef struct pool_call {
    hr_pool_client client;
    int n_threads; /* maximum of shares that run at a time */
    hr_mutex lock; /* no other lock is taken under it; guards the fields below */
    int n_helping; /* pool threads that run a share */
    shares shares;
} pool_call;

/* Does the next share; false: there is none. `helps`: on a pool thread, of which n_threads may be enough. */
static bool do_share(pool_call *c, bool helps)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;
    bool begun;
    int64_t i = 0;

    hr__lock(&c->lock);
    begun = (!helps || c->n_helping < c->n_threads - 1) && share_begin(&c->shares, &i);
    c->n_helping += begun && helps;
    hr__unlock(&c->lock);
    if (!begun)
        return false;
    if (helps)
        hr__pool_wake();
    st = c->shares.fn(c->shares.context, i, &err);
    hr__lock(&c->lock);
    share_end(&c->shares, i, st, &err);
    c->n_helping -= helps;
    hr__unlock(&c->lock);
    return true;
}

/* The work of the pool's client. */
static bool help(void *context, int thread)
{
    (void)thread;
    return do_share(context, true);
}

/* On the caller's thread, and on threads of the call's own. */
static void do_shares(void *context)
{
    while (do_share(context, false))
        ;
}

static void with_own_threads(pool_call *c)
{
    hr_thread threads[MAX_THREADS];
    int n = 0;

    while (n < c->n_threads - 1 && hr__thread_start(&threads[n], "hr-readers", do_shares, c) >= 0)
        n++; /* the caller does the shares of a thread that did not start */
    do_shares(c);
    while (n)
        hr__thread_join(threads[--n]);
}

static void with_pool(pool_call *c)
{
    bool attached = !hr__pool_attach(&c->client, NULL); /* without threads the caller does all shares */

    do_shares(c);
    if (attached)
        hr__pool_detach(&c->client); /* waits for the shares that pool threads have begun */
}

static hr_status each(int64_t n, int n_threads, bool waits, hr_share_fn *fn, void *context, hr_error *err)
{
    pool_call c = { .n_threads = HR_MIN(n_threads, MAX_THREADS),
                    .shares = { .fn = fn, .context = context, .n = n, .failed = n } };

    if (n < 2 || n_threads < 2)
        return do_all(n, fn, context, err);
    c.client.work = help;
    c.client.context = &c;
    hr__mutex_init(&c.lock);
    if (waits)
        with_own_threads(&c);
    else
        with_pool(&c);
    hr__mutex_clear(&c.lock);
    return shares_over(&c.shares, err);
}

/* Before main: a program may request a schema before any run. */
__attribute__((constructor)) static void set_each(void) { hr__scan_set_each(each); }
