/* run_state.c - state of a run that all files of exec/ use: lock, references, the consumer, the number of threads.
 *
 * Tests: test_stages.c. */
#include "exec/run.h"

#include <stdlib.h>

/* --- references: the consumer's, and one for each hr_resume */

void hr__run_ref(hr_run *r) { atomic_fetch_add(&r->refs, 1); }

void hr__run_unref(hr_run *r)
{
    if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    hr__cond_clear(&r->consumer);
    hr__cond_clear(&r->idle);
    hr__cond_clear(&r->shares_done);
    hr__mutex_clear(&r->lock);
    hr_error_clear(&r->err);
    hr__network_ends(&r->began_network);
    hr__account_unref(r->account);
    hr__free(r);
}

/* --- the lock */

#ifndef NDEBUG
static _Thread_local char self; /* its address identifies the thread */

void hr__run_lock(hr_run *r)
{
    hr__lock(&r->lock);
    atomic_store_explicit(&r->lock_owner, &self, memory_order_relaxed);
}

void hr__run_unlock(hr_run *r)
{
    hr__assert_locked(r);
    atomic_store_explicit(&r->lock_owner, NULL, memory_order_relaxed);
    hr__unlock(&r->lock);
}

void hr__run_wait(hr_run *r, hr_cond *c)
{
    hr__assert_locked(r);
    atomic_store_explicit(&r->lock_owner, NULL, memory_order_relaxed);
    hr__cond_wait(c, &r->lock);
    atomic_store_explicit(&r->lock_owner, &self, memory_order_relaxed);
}

void hr__run_wait_ns(hr_run *r, hr_cond *c, int64_t ns)
{
    hr__assert_locked(r);
    atomic_store_explicit(&r->lock_owner, NULL, memory_order_relaxed);
    (void)hr__cond_wait_ns(c, &r->lock, ns);
    atomic_store_explicit(&r->lock_owner, &self, memory_order_relaxed);
}

void hr__assert_locked(const hr_run *r)
{
    if (atomic_load_explicit(&r->lock_owner, memory_order_relaxed) != &self)
        abort();
}
#endif

/* --- the consumer: news for it, and how far tables are ahead of it */

void hr__run_notify_locked(hr_run *r)
{
    hr__assert_locked(r);
    r->ready_due = true;
    hr__cond_broadcast(&r->consumer);
}

void hr__run_fail_locked(hr_run *r, hr_status st, hr_error *moved)
{
    hr__assert_locked(r);
    if (!r->st) {
        r->st = st;
        hr__error_move(&r->err, moved);
        atomic_store(&r->stop, true);
    }
    hr__run_notify_locked(r);
}

int hr__ahead(int prefetch, int n, int64_t table_bytes)
{
    if (n <= 0 || table_bytes < 0)
        return prefetch;
    return HR_MAX(prefetch, n * (int)HR_MIN(HR_SMALL_AHEAD, HR_SMALL_BYTES / HR_MAX(table_bytes, 1)));
}

/* --- counts */

void hr__stage_counts_fragment(hr_stage *s, const hr_fragment *f)
{
    atomic_fetch_add_explicit(&s->counts.fragments_read, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->counts.stored_bytes, HR_MAX(0, f->stored_bytes), memory_order_relaxed);
    atomic_fetch_add_explicit(&s->counts.fragment_rows, HR_MAX(0, f->n_rows), memory_order_relaxed);
}

/* --- threads */

int hr__run_threads(const hr_run *r)
{
    int most = hr_num_threads();

    if (r->threads.on && !hr__threads_are_fixed())
        return r->threads.tuner.threads;
    if (r->options.num_threads > 0)
        return HR_MIN(most, r->options.num_threads);
    return HR_MAX(1, most - r->options.reserved_cpus);
}
