/* wait.c - waits for bytes that were announced, without a thread that waits.
 *
 * A reader's `ahead` announces the bytes of a fragment, source by source. The caller that wants to read them opens a
 * wait on its thread before and closes it after; each source adds what is on its way. The last thing that comes calls
 * the function of the wait, on the network's thread.
 *
 * n counts the things that have not come, and one more until the wait is closed: so that nothing is called before.
 *
 * Tests: test_http.c. */
#include "io/io.h"

struct hr_wait {
    atomic_int refs, n;
    atomic_bool called;
    int64_t least_bytes; /* of the thread between begin and end */
    void (*fn)(void *context);
    void *context;
};

static _Thread_local hr_wait *current;
static _Thread_local int64_t refused;
static _Thread_local const atomic_bool *stop_by;
static _Atomic(bool (*)(void)) interrupted;

void hr__reads_stop_by(const atomic_bool *stop) { stop_by = stop; }
void hr__reads_ask(bool (*fn)(void)) { atomic_store(&interrupted, fn); }

bool hr__reads_stop(void)
{
    bool (*fn)(void) = atomic_load_explicit(&interrupted, memory_order_relaxed);

    return (stop_by && atomic_load_explicit(stop_by, memory_order_relaxed)) || (fn && !hr__is_pool_thread && fn());
}

hr_status hr__wait_begin(int64_t least_bytes, hr_wait **out, hr_error *err)
{
    hr_wait *w = hr__zalloc(NULL, sizeof *w);

    *out = w;
    if (!w)
        return hr__error_memory(err, "wait", sizeof *w);
    atomic_init(&w->refs, 1);
    atomic_init(&w->n, 1);
    w->least_bytes = least_bytes;
    current = w;
    return HR_OK;
}

hr_wait *hr__wait_current(void) { return current; }

int64_t hr__wait_spend(hr_wait *w, int64_t n_bytes, int64_t room)
{
    n_bytes = HR_MIN(n_bytes, HR_MAX(room, w->least_bytes));
    n_bytes = HR_MAX(0, n_bytes);
    w->least_bytes -= n_bytes;
    return n_bytes;
}

void hr__ahead_refused(int64_t n_bytes) { refused += n_bytes; }

int64_t hr__aheads_refused(void)
{
    int64_t n = refused;

    refused = 0;
    return n;
}

hr_wait *hr__wait_add(hr_wait *w)
{
    atomic_fetch_add(&w->refs, 1);
    atomic_fetch_add(&w->n, 1);
    return w;
}

static void nothing(void *context) { (void)context; }

void hr__wait_drop(hr_wait *w) { (void)hr__wait_end(w, nothing, NULL); }

hr_wait *hr__wait_ref(hr_wait *w)
{
    atomic_fetch_add(&w->refs, 1);
    return w;
}

void hr__wait_unref(hr_wait *w)
{
    if (w && atomic_fetch_sub(&w->refs, 1) == 1)
        hr__free(w);
}

static void call(hr_wait *w)
{
    if (!atomic_exchange(&w->called, true))
        w->fn(w->context);
}

void hr__wait_came(hr_wait *takes)
{
    if (atomic_fetch_sub(&takes->n, 1) == 1)
        call(takes);
    hr__wait_unref(takes);
}

bool hr__wait_end(hr_wait *w, void (*fn)(void *context), void *context)
{
    current = NULL;
    w->fn = fn;
    w->context = context;
    if (atomic_fetch_sub(&w->n, 1) > 1)
        return true;
    atomic_store(&w->called, true);
    return false;
}

void hr__wait_cancel(hr_wait *w) { call(w); }
