/* pages.c - large blocks, each a memory map of one of a few size classes, and the pool of free ones.
 *
 * Buffers (buffer.c) and large blocks of hr__alloc (mem.c) lie in them. A block is a map of its own; the sizes are
 * powers of two in quarter steps, so that a freed map fits the next request. Free maps wait in the pool. The newest map
 * of a class is reused first: its pages are in memory, perhaps in the cache, while the first touch of fresh pages costs
 * several times a copy.
 *
 * The pool's bytes belong to no account but are resident. The process counts them (budget.c), and frees the oldest
 *   - when a charge would take the process over its limit,
 *   - when they exceed max(64 MiB, limit / 8), or limit / 4. A block is subtracted from the pool's sum before it is
 * charged, and discharged before it is added: the peak is never too high.
 *
 * Lock: pool.lock is a leaf. Nothing is mapped, unmapped or charged while it is held. Under AddressSanitizer free
 * blocks are poisoned, so that a use after free is reported although the map stays. */
#include "base/pages.h"

#include "base/poison.h"

#define CLASS_0_LOG 16 /* 64 KiB: HR_PAGES_LEAST */
#define N_CLASSES ((46 - CLASS_0_LOG) * 4)
#define POOL_BYTES ((int64_t)64 << 20)

/* Class 4 * i + q holds (4 + q) / 4 of 2^(CLASS_0_LOG + i). */
int hr__pages_class(int64_t n)
{
    int log;

    if (n <= HR_PAGES_LEAST)
        return 0;
    log = 63 - __builtin_clzll((unsigned long long)n - 1);
    return (log - CLASS_0_LOG) * 4 + (int)((n - 1) >> (log - 2) & 3) + 1;
}

int64_t hr__pages_bytes(int c) { return (int64_t)(4 + c % 4) << (CLASS_0_LOG - 2 + c / 4); }

/* Whole pages, and one page for the slack. */
int64_t hr__pages_charged(int c)
{
    int64_t page = hr__memory_page();

    return HR_ROUND_UP(hr__pages_bytes(c), page) + page;
}

int64_t hr__pages_most(void)
{
    static _Atomic int64_t most;
    int64_t n = atomic_load_explicit(&most, memory_order_relaxed);

    if (!n) {
        n = HR_MIN(hr__memory_physical(), hr__pages_bytes(N_CLASSES - 1));
        atomic_store(&most, n);
    }
    return n;
}

/* The head of a free block, written into the block itself. */
typedef struct free_block {
    struct free_block *next, *prev;   /* of its class: next was freed before */
    struct free_block *newer, *older; /* of all */
    int class;
} free_block;

static struct {
    hr_mutex lock;
    free_block *free[N_CLASSES]; /* the newest of each */
    free_block *newest, *oldest;
    _Atomic int64_t n_bytes;
} pool = { .lock = HR_MUTEX_INIT };

static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static void pool_register(void) { hr__mutex_survives_fork(&pool.lock); }

static void pool_lock(void)
{
    pthread_once(&pool_once, pool_register);
    hr__lock(&pool.lock);
}

int64_t hr__pool_bytes(void) { return atomic_load(&pool.n_bytes); }

static int64_t pool_most(void)
{
    int64_t limit = hr_memory_limit();

    return HR_MIN(HR_MAX(POOL_BYTES, limit / 8), limit / 4);
}

static void link_locked(free_block *f, int c)
{
    *f = (free_block){ .next = pool.free[c], .older = pool.newest, .class = c };
    if (f->next)
        f->next->prev = f;
    pool.free[c] = f;
    if (f->older)
        f->older->newer = f;
    else
        pool.oldest = f;
    pool.newest = f;
    atomic_fetch_add(&pool.n_bytes, hr__pages_charged(c));
}

static void unlink_locked(free_block *f)
{
    if (f->next)
        f->next->prev = f->prev;
    if (f->prev)
        f->prev->next = f->next;
    else
        pool.free[f->class] = f->next;
    if (f->newer)
        f->newer->older = f->older;
    else
        pool.newest = f->older;
    if (f->older)
        f->older->newer = f->newer;
    else
        pool.oldest = f->newer;
    atomic_fetch_sub(&pool.n_bytes, hr__pages_charged(f->class));
}

/* Takes the oldest blocks out until at most `keep` bytes are left; returns them as a chain by `next`. */
static free_block *pool_evict_locked(int64_t keep)
{
    free_block *out = NULL;

    while (pool.oldest && hr__pool_bytes() > keep) {
        free_block *f = pool.oldest;
        unlink_locked(f);
        f->next = out;
        out = f;
    }
    return out;
}

static void block_unmap(void *p, int c)
{
    ASAN_UNPOISON_MEMORY_REGION(p, (size_t)hr__pages_charged(c));
    hr__unmap(p, (size_t)hr__pages_charged(c));
}

static int64_t chain_unmap(free_block *f)
{
    int64_t n = 0;

    for (free_block *next; f; f = next) {
        next = f->next;
        n += hr__pages_charged(f->class);
        block_unmap(f, f->class);
    }
    return n;
}

int64_t hr__pool_trim(int64_t keep_bytes)
{
    free_block *f;

    pool_lock();
    f = pool_evict_locked(keep_bytes);
    hr__unlock(&pool.lock);
    return chain_unmap(f);
}

void *hr__pages_take(int *c)
{
    free_block *f;

    pool_lock();
    if (!(f = pool.free[*c]) && *c + 1 < N_CLASSES)
        f = pool.free[*c + 1];
    if (f)
        unlink_locked(f);
    hr__unlock(&pool.lock);
    if (f) {
        *c = f->class;
        ASAN_UNPOISON_MEMORY_REGION(f, (size_t)hr__pages_charged(*c));
    }
    return f;
}

void hr__pages_put(void *p, int c)
{
    int64_t most = pool_most();
    free_block *f;

    if (hr__pages_charged(c) > most) {
        block_unmap(p, c);
        return;
    }
    ASAN_POISON_MEMORY_REGION((uint8_t *)p + sizeof *f, (size_t)hr__pages_charged(c) - sizeof *f);
    pool_lock();
    link_locked(p, c);
    f = pool_evict_locked(most);
    hr__unlock(&pool.lock);
    chain_unmap(f);
}

/* A new map, all zero. When the kernel refuses, trims the pool and tries again; an injected fault is not retried. */
static void *block_map(int c)
{
    void *p = hr__map_private((size_t)hr__pages_charged(c));

    if (!p && !hr__fault_hit()) {
        hr__pool_trim(0);
        p = hr__map_private((size_t)hr__pages_charged(c));
    }
    return p;
}

/* --- blocks in use are charged to an account */

void *hr__pages_new(hr_account *a, int64_t n, int *c, bool *fresh)
{
    void *p;

    if (n < 0 || n > hr__pages_most())
        return NULL;
    *c = hr__pages_class(n);
    *fresh = false;
    if ((p = hr__pages_take(c))) {
        hr__account_add(a, hr__pages_charged(*c), 1);
        return p;
    }
    *fresh = true;
    hr__account_add(a, hr__pages_charged(*c), 1);
    if (!(p = block_map(*c)))
        hr__account_add(a, -hr__pages_charged(*c), -1);
    return p;
}

void hr__pages_free(hr_account *a, void *p, int c)
{
    hr__account_add(a, -hr__pages_charged(c), -1);
    hr__pages_put(p, c);
}
