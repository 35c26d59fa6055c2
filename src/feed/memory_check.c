/* memory_check.c - compares values in memory with those of a position, while the run makes its first batch.
 *
 * A position has a hash of all these values. A thread hashes them, beside the run. The feed gives nothing before the
 * thread is through and has found them equal: if batches went out before, a pass that is left early, its checkpoint, or
 * the workers of a loader would forget that the values are not compared yet.
 *
 * Tests: test_feed.c, test_positions.py. */
#include "feed/memory_check.h"

struct hr_memory_check {
    hr_plan *plan; /* borrowed */
    uint64_t saved;
    void (*ready)(void *context);
    void *context;
    hr_thread thread;
    bool has_thread;
    int pid;
    atomic_bool stop, done;
    hr_status st; /* with err: set before `done` */
    hr_error err;
    hr_mutex lock;
    hr_cond changed;
};

static void compare(void *arg)
{
    hr_memory_check *c = arg;

    c->st = hr__inputs_check_memory(c->plan, c->saved, &c->stop, &c->err);
    hr__lock(&c->lock);
    atomic_store(&c->done, true);
    hr__cond_broadcast(&c->changed);
    hr__unlock(&c->lock);
    c->ready(c->context);
}

hr_status hr__memory_check_start(hr_plan *p, uint64_t saved, void (*ready)(void *context), void *context,
                                 hr_memory_check **out, hr_error *err)
{
    hr_memory_check *c = hr__zalloc(NULL, sizeof *c);

    *out = c;
    if (!c)
        return hr__error_memory(err, "position", sizeof *c);
    c->plan = p;
    c->saved = saved;
    c->ready = ready;
    c->context = context;
    c->pid = hr__pid();
    c->err = (hr_error)HR_ERROR_INIT;
    hr__mutex_init(&c->lock);
    hr__cond_init(&c->changed);
    c->has_thread = hr__thread_start(&c->thread, "hr-compare", compare, c) >= 0;
    if (!c->has_thread)
        compare(c);
    return HR_OK;
}

static void await(hr_memory_check *c, int timeout_ms)
{
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000, left = 1;

    hr__lock(&c->lock);
    while (!atomic_load(&c->done) && left > 0) {
        if (timeout_ms < 0)
            hr__cond_wait(&c->changed, &c->lock);
        else if ((left = until - hr__clock_ns()) > 0)
            (void)hr__cond_wait_ns(&c->changed, &c->lock, left);
    }
    hr__unlock(&c->lock);
}

hr_status hr__memory_check_wait(hr_memory_check *c, int timeout_ms, hr_error *err)
{
    if (!atomic_load(&c->done) && timeout_ms)
        await(c, timeout_ms);
    if (!atomic_load(&c->done))
        return HR_PENDING;
    return c->st ? hr__error_copy(err, &c->err) : HR_OK;
}

void hr__memory_check_close(hr_memory_check *c)
{
    if (!c || c->pid != hr__pid()) /* a forked child has no such thread, and its locks are as they were */
        return;
    atomic_store(&c->stop, true);
    if (c->has_thread)
        hr__thread_join(c->thread);
    hr_error_clear(&c->err);
    hr__cond_clear(&c->changed);
    hr__mutex_clear(&c->lock);
    hr__free(c);
}
