/* mem.h - accounts of bytes, and the only way to malloc.
 *
 * Every byte for data comes from hr__alloc (small) or hr__buffer_new (pooled) and is charged to an account; accounts
 * form a tree under the process's one budget. */
#ifndef HR_MEM_H
#define HR_MEM_H

#include "base/base.h"

/* An account counts the bytes of one operator or run. Blocks keep their account alive; an account keeps its parent.
 * All functions are thread-safe. NULL means the process's root account. */
typedef struct hr_account hr_account;

/* limit_bytes 0: no limit of its own (its ancestors' limits hold). `name` is copied. NULL without memory. */
hr_account *hr__account_new(const char *name, hr_account *parent, int64_t limit_bytes);
hr_account *hr__account_ref(hr_account *a);
void hr__account_unref(hr_account *a);
int64_t hr__account_used(const hr_account *a);
int64_t hr__account_peak(const hr_account *a);
int64_t hr__account_limit(const hr_account *a); /* the smallest of its own and its ancestors' limits */
void hr__account_charge(hr_account *a,
                        int64_t n_bytes); /* memory we did not allocate (a worker's private bytes); n may be < 0 */
/* Counts bytes that were written to, or read from, spill files for `a`, at all levels. */
void hr__account_spilled(hr_account *a, int64_t written, int64_t was_read);
int64_t hr__account_spill_written(const hr_account *a);
int64_t hr__account_spill_read(const hr_account *a);
/* Counts what travelled over networks for `a`, at all levels. */
typedef enum hr_traffic {
    HR_TRAFFIC_REQUESTS, /* attempts */
    HR_TRAFFIC_BYTES,    /* received, of bodies */
    HR_TRAFFIC_RETRIES,
    HR_TRAFFIC_HEDGES, /* second attempts beside slow ones */
    HR_TRAFFIC_WON,    /* hedges that were faster */
    HR_TRAFFIC_WASTED, /* bytes that were received and thrown away */
    HR_TRAFFIC_CACHED, /* bytes that were read from the cache instead */
    HR_TRAFFIC_COUNT
} hr_traffic;
void hr__account_travelled(hr_account *a, hr_traffic what, int64_t n);
int64_t hr__account_traffic(const hr_account *a, hr_traffic what);
/* Counts a request to a disk or a network for `a`, at all levels: its bytes, its time, and of these the time to the
 * first byte (a disk's: 0). */
typedef enum hr_io_kind { HR_IO_FILE, HR_IO_NETWORK, HR_N_IO } hr_io_kind;
#define HR_IO_CLASSES 24 /* class k: less than 2^k microseconds, or 2^k KiB */
typedef struct hr_io_sums {
    int64_t requests, bytes, ns, first_ns;
    int64_t by_time[HR_IO_CLASSES], by_size[HR_IO_CLASSES];
} hr_io_sums;
void hr__account_io(hr_account *a, hr_io_kind kind, int64_t n_bytes, int64_t ns, int64_t first_ns);
hr_io_sums hr__account_io_sums(const hr_account *a, hr_io_kind kind);
/* For the allocators (mem.c, buffer.c, arena.c): charges the bytes and counts them as live. Each block is a reference
 * on `a`; negative numbers give back. Call it before the allocation, so that the pool makes room first. */
void hr__account_add(hr_account *a, int64_t n_bytes, int n_blocks);

/* Admission, between operator calls: reserves n bytes if used + reserved + n <= limit at every level; false otherwise,
 * and then the waiter is called once when bytes come back. `force` (the oldest ticket) always reserves. Give back by
 * release. */
bool hr__account_reserve(hr_account *a, int64_t n_bytes, bool force);
void hr__account_release(hr_account *a, int64_t n_bytes);
/* fn is called from any thread when bytes came back after a refusal. The caller holds no lock of the engine, but stands
 * inside the call that freed the bytes: fn must not take a lock under which anybody frees. One per process (the
 * scheduler's wake-up). */
void hr__budget_set_waiter(void (*fn)(void));
void hr__budget_wake(void); /* calls the waiter: something else than bytes came that work waits for */
/* hr_set_num_threads calls fn with the new number, without locks. One per process (the scheduler). */
void hr__threads_set_hook(void (*fn)(int n_threads));
/* A thread that waits for a network says so, with any locks but those of exec/pool.c. If it is one of the pool,
 * another thread works in its place meanwhile. fn gets 1 and -1, on the thread. One per process (the scheduler). */
void hr__waits_set_hook(void (*fn)(int by));
void hr__waits_begin(void);
void hr__waits_end(void);
bool hr__threads_are_fixed(void); /* the number was given, by hr_set_num_threads or HEADRACE_NUM_THREADS */
extern _Thread_local bool
    hr__is_pool_thread; /* set by exec/pool.c on its threads, which must not wait for threads of the pool */
/* Live blocks and bytes of the whole process, without pooled free buffers: what a test compares before and after. */
int64_t hr__live_bytes(void);
int64_t hr__live_blocks(void); /* For tests: blocks that are not freed yet. */

/* Frees pooled buffers until at most `keep_bytes` are left; called when the budget is short. Returns the freed
 * bytes. */
int64_t hr__pool_trim(int64_t keep_bytes);
int64_t hr__pool_bytes(void); /* in free pooled buffers */

/* malloc, counted. 16-byte aligned. NULL without memory (or when a fault is armed). n = 0 gives a valid block. */
void *hr__alloc(hr_account *a, size_t n);
void *hr__zalloc(hr_account *a, size_t n);
void *hr__realloc(hr_account *a, void *p, size_t n); /* p NULL: alloc; keeps p's account; on failure p stays */
void hr__free(void *p);                              /* NULL is fine */
char *hr__strdup(hr_account *a, const char *s);      /* NULL gives NULL */
char *hr__strndup(hr_account *a, const char *s, size_t n);
char *hr__printf(hr_account *a, const char *fmt, ...) HR_PRINTF(2, 3); /* new string; NULL without memory */

/* Grows the array *items so that it holds at least n items of item_bytes; doubles. false: no memory, *items is
 * unchanged. */
bool hr__grow(hr_account *a, void **items, int64_t *cap, int64_t n, size_t item_bytes);

#endif
