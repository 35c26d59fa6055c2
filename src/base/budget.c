/* budget.c - accounts of bytes, admission of work, and the process's memory limit and number of threads.
 *
 * Accounts form a tree under the root, which is the process. An account counts its own bytes and those of all accounts
 * below it, so its limit holds for all of them. Bytes are counted in two ways:
 *
 * 1. Charged: the bytes exist. A charge is never refused; bytes above a limit are a debt that delays later admissions.
 * 2. Reserved: work that is about to start announces how much it will need. The scheduler reserves between operator
 * calls and gets yes or no. The level that refuses marks itself, and calls the waiter when bytes come back to it.
 *
 * Why reserve first instead of watching a high-water mark: when the mark is reached, the bytes exist.
 *
 * Free buffers of the pool are resident but belong to no account. The root counts them as used but refuses nothing
 * because of them: a charge that takes the process over its limit trims the pool.
 *
 * Locks: `admission` is a leaf, for reservations only. Charging takes no lock: sums are atomic. A refusal marks its
 * level and then reads the sum again; a release subtracts from the sum and then reads the mark; so at least one of the
 * two sees the other. A new memory limit is stored before the mark is read, for the same reason. All four accesses have
 * to be sequentially consistent: with a relaxed or acquire load a CPU (ARM) may load before its own store is visible,
 * both sides miss each other, and the waiter sleeps for ever. The waiter is called last, without any lock of the
 * engine. */
#include "base/all.h"

#include <stdlib.h>

#define MAX_THREADS 1024

typedef struct io_counts {
    _Atomic int64_t requests, bytes, ns, first_ns;
    _Atomic int64_t by_time[HR_IO_CLASSES], by_size[HR_IO_CLASSES];
} io_counts;

struct hr_account {
    atomic_int refs;
    atomic_bool refused; /* somebody waits for bytes of this level */
    hr_account *parent;  /* NULL: the root */
    const char *name;
    _Atomic int64_t used, peak;
    _Atomic int64_t reserved; /* changed with `admission` held */
    _Atomic int64_t limit;    /* its own; 0: none (the root: not looked up yet) */
    _Atomic int64_t spill_written, spill_read;
    _Atomic int64_t traffic[HR_TRAFFIC_COUNT];
    io_counts io[HR_N_IO];
};

static hr_account root = { .name = "process" };
static hr_mutex admission = HR_MUTEX_INIT;
static pthread_once_t admission_once = PTHREAD_ONCE_INIT;
static _Atomic(void (*)(void)) waiter;
static _Atomic int64_t live_blocks;
static _Atomic int64_t foreign_bytes; /* of root.used, what was not allocated by us */

/* -------------------------------------------------------------------------------------------------------- accounts */

hr_account *hr__account_new(const char *name, hr_account *parent, int64_t limit_bytes)
{
    size_t n = strlen(name ? name : "") + 1;
    hr_account *a = hr__zalloc(NULL, sizeof *a + n);

    if (!a)
        return NULL;
    memcpy(a + 1, name ? name : "", n);
    a->name = (const char *)(a + 1);
    a->parent = hr__account_ref(parent ? parent : &root);
    atomic_init(&a->refs, 1);
    atomic_init(&a->limit, limit_bytes);
    return a;
}

hr_account *hr__account_ref(hr_account *a)
{
    if (a && a != &root)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

static void account_drop(hr_account *a, int n)
{
    while (a != &root && atomic_fetch_sub_explicit(&a->refs, n, memory_order_acq_rel) == n) {
        hr_account *parent = a->parent;
        hr__free(a);
        a = parent;
        n = 1;
    }
}

void hr__account_unref(hr_account *a)
{
    if (a)
        account_drop(a, 1);
}

/* The pool's free buffers count in the root only. */
static int64_t pooled(const hr_account *a) { return a == &root ? hr__pool_bytes() : 0; }

int64_t hr__account_used(const hr_account *a)
{
    a = a ? a : &root;
    return atomic_load(&a->used) + pooled(a);
}

int64_t hr__account_peak(const hr_account *a)
{
    a = a ? a : &root;
    return HR_MAX(atomic_load(&a->peak), hr__account_used(a)); /* the pool grows by itself where blocks are cut */
}

void hr__account_spilled(hr_account *a, int64_t written, int64_t was_read)
{
    for (a = a ? a : &root; a; a = a->parent) {
        atomic_fetch_add_explicit(&a->spill_written, written, memory_order_relaxed);
        atomic_fetch_add_explicit(&a->spill_read, was_read, memory_order_relaxed);
    }
}

int64_t hr__account_spill_written(const hr_account *a) { return atomic_load(&(a ? a : &root)->spill_written); }
int64_t hr__account_spill_read(const hr_account *a) { return atomic_load(&(a ? a : &root)->spill_read); }

void hr__account_travelled(hr_account *a, hr_traffic what, int64_t n)
{
    for (a = a ? a : &root; a; a = a->parent)
        atomic_fetch_add_explicit(&a->traffic[what], n, memory_order_relaxed);
}

int64_t hr__account_traffic(const hr_account *a, hr_traffic what)
{
    return atomic_load_explicit(&(a ? a : &root)->traffic[what], memory_order_relaxed);
}

/* The number of halvings until n is 0, as a class. */
static int class_of(int64_t n)
{
    int k = 0;

    for (; n > 0 && k < HR_IO_CLASSES - 1; n /= 2)
        k++;
    return k;
}

void hr__account_io(hr_account *a, hr_io_kind kind, int64_t n_bytes, int64_t ns, int64_t first_ns)
{
    int by_time = class_of(ns / 1000), by_size = class_of(n_bytes / 1024);

    for (a = a ? a : &root; a; a = a->parent) {
        io_counts *c = &a->io[kind];

        atomic_fetch_add_explicit(&c->requests, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->bytes, n_bytes, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->ns, ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->first_ns, first_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->by_time[by_time], 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->by_size[by_size], 1, memory_order_relaxed);
    }
}

static int64_t count_of(const _Atomic int64_t *c) { return atomic_load_explicit(c, memory_order_relaxed); }

hr_io_sums hr__account_io_sums(const hr_account *a, hr_io_kind kind)
{
    const io_counts *c = &(a ? a : &root)->io[kind];
    hr_io_sums sums = {
        count_of(&c->requests), count_of(&c->bytes), count_of(&c->ns), count_of(&c->first_ns), { 0 }, { 0 }
    };

    for (int i = 0; i < HR_IO_CLASSES; i++) {
        sums.by_time[i] = count_of(&c->by_time[i]);
        sums.by_size[i] = count_of(&c->by_size[i]);
    }
    return sums;
}

/* A level's own limit; INT64_MAX: none. Sequentially consistent: admission reads it again after it set its mark. */
static int64_t level_limit(const hr_account *a)
{
    int64_t limit = atomic_load(&a->limit);

    if (!limit && a == &root)
        limit = hr_memory_limit(); /* for the first time */
    return limit > 0 ? limit : INT64_MAX;
}

int64_t hr__account_limit(const hr_account *a)
{
    int64_t limit = INT64_MAX;

    for (a = a ? a : &root; a; a = a->parent)
        limit = HR_MIN(limit, level_limit(a));
    return limit;
}

/* -------------------------------------------------------------------------------------------------------- charging */

static void raise_peak(hr_account *a, int64_t now)
{
    int64_t peak = atomic_load_explicit(&a->peak, memory_order_relaxed);

    while (now > peak && !atomic_compare_exchange_weak(&a->peak, &peak, now))
        ;
}

void hr__budget_wake(void)
{
    void (*fn)(void) = atomic_load(&waiter);

    if (fn)
        fn();
}

/* True once for each refusal of this level. */
static bool take_refusal(hr_account *a) { return atomic_load(&a->refused) && atomic_exchange(&a->refused, false); }

static void charge(hr_account *a, int64_t n)
{
    bool wake = false;
    int64_t over;

    for (; a; a = a->parent) {
        int64_t now = atomic_fetch_add(&a->used, n) + n;
        if (n < 0)
            wake |= take_refusal(a);
        else if (a->parent)
            raise_peak(a, now);
        else if (hr__pool_bytes() && (over = now + hr__pool_bytes() - hr_memory_limit()) > 0)
            hr__pool_trim(HR_MAX(0, hr__pool_bytes() - over));
        if (n >= 0 && !a->parent)
            raise_peak(a, now + hr__pool_bytes());
    }
    if (wake)
        hr__budget_wake();
}

void hr__account_add(hr_account *a, int64_t n_bytes, int n_blocks)
{
    a = a ? a : &root;
    atomic_fetch_add_explicit(&live_blocks, n_blocks, memory_order_relaxed);
    if (n_blocks > 0 && a != &root)
        atomic_fetch_add_explicit(&a->refs, n_blocks, memory_order_relaxed);
    charge(a, n_bytes);
    if (n_blocks < 0)
        account_drop(a, -n_blocks);
}

void hr__account_charge(hr_account *a, int64_t n_bytes)
{
    atomic_fetch_add(&foreign_bytes, n_bytes);
    charge(a ? a : &root, n_bytes);
}

int64_t hr__live_bytes(void) { return atomic_load(&root.used) - atomic_load(&foreign_bytes); }
int64_t hr__live_blocks(void) { return atomic_load(&live_blocks); }

/* ------------------------------------------------------------------------------------------------------- admission */

static void admission_register(void) { hr__mutex_survives_fork(&admission); }

static void admission_lock(void)
{
    pthread_once(&admission_once, admission_register);
    hr__lock(&admission);
}

static bool fits(const hr_account *a, int64_t n)
{
    int64_t limit = level_limit(a), held = atomic_load(&a->used) + atomic_load(&a->reserved);

    return held <= limit && n <= limit - held;
}

/* Checks twice: bytes that came back between the first check and the mark would not wake the waiter. */
static bool fits_or_refused_locked(hr_account *a, int64_t n)
{
    if (fits(a, n))
        return true;
    atomic_store(&a->refused, true);
    return fits(a, n);
}

bool hr__account_reserve(hr_account *a, int64_t n_bytes, bool force)
{
    bool ok = true;

    a = a ? a : &root;
    admission_lock();
    for (hr_account *l = a; l && ok && !force; l = l->parent)
        ok = fits_or_refused_locked(l, n_bytes);
    for (hr_account *l = a; l && ok; l = l->parent)
        atomic_fetch_add(&l->reserved, n_bytes);
    hr__unlock(&admission);
    return ok;
}

void hr__account_release(hr_account *a, int64_t n_bytes)
{
    bool wake = false;

    admission_lock();
    for (a = a ? a : &root; a; a = a->parent) {
        atomic_fetch_sub(&a->reserved, n_bytes);
        wake |= take_refusal(a);
    }
    hr__unlock(&admission);
    if (wake)
        hr__budget_wake();
}

void hr__budget_set_waiter(void (*fn)(void)) { atomic_store(&waiter, fn); }

/* ------------------------------------------------------------------------------------------------- the memory limit */

/* An int of the environment within [1, max]; 0 if unset or wrong. */
static int env_int(const char *name, int max)
{
    const char *text = getenv(name);
    char *end;
    long n = text ? strtol(text, &end, 10) : 0;

    return text && end != text && !*end && n >= 1 && n <= max ? (int)n : 0;
}

/* HR_INVALID only if HEADRACE_MEMORY_LIMIT is set and malformed; *out is the default in that case, too. */
static hr_status default_limit(int64_t *out, hr_error *err)
{
    const char *text = getenv("HEADRACE_MEMORY_LIMIT");
    int ranks = env_int("LOCAL_WORLD_SIZE", 1 << 16);
    int64_t n = 0;
    hr_status st = text && *text ? hr_parse_bytes(text, &n, err) : HR_OK;

    *out = !st && n > 0 ? n : HR_MAX(1, hr__memory_physical() / 2 / HR_MAX(1, ranks));
    return st ? hr__error_at(err, st, "HEADRACE_MEMORY_LIMIT") : HR_OK;
}

/* The default; an error of the variable goes to the log, since this call has no status. */
static int64_t first_limit(void)
{
    hr_error err = HR_ERROR_INIT;
    int64_t limit;

    if (default_limit(&limit, &err))
        hr__log(HR_LOG_WARNING, "%s; the limit is %lld bytes", err.text, (long long)limit);
    hr_error_clear(&err);
    return limit;
}

int64_t hr_memory_limit(void)
{
    int64_t limit = atomic_load_explicit(&root.limit, memory_order_relaxed), none = 0;

    if (limit)
        return limit;
    limit = first_limit();
    return atomic_compare_exchange_strong(&root.limit, &none, limit) ? limit : none;
}

hr_status hr_set_memory_limit(int64_t n_bytes, hr_error *err)
{
    int64_t now;

    if (n_bytes < 0)
        return hr_error_set(err, HR_INVALID, "memory limit: found %lld bytes, expected 0 (the default) or more",
                            (long long)n_bytes);
    if (n_bytes == 0)
        HR_TRY(default_limit(&n_bytes, err));
    atomic_store(&root.limit, n_bytes);
    now = atomic_load(&root.used);
    if (now + hr__pool_bytes() > n_bytes)
        hr__pool_trim(HR_MAX(0, n_bytes - now));
    if (take_refusal(&root))
        hr__budget_wake();
    return HR_OK;
}

int64_t hr_memory_used(void) { return hr__account_used(&root); }
int64_t hr_memory_peak(void) { return hr__account_peak(&root); }
void hr_memory_reset_peak(void) { atomic_store(&root.peak, hr_memory_used()); }

/* --- sizes as people write them. Not by strtod, whose decimal point depends on the locale. */

/* The bytes of the unit at *s ("", "MiB", "gb", "k", ...), which moves after it; 0: no unit stands there. */
static int64_t parse_unit(const char **s)
{
    static const char prefixes[] = "kmgtp";
    const char *p = **s ? strchr(prefixes, **s | 0x20) : NULL;
    int64_t unit = 1;

    if (p) {
        bool binary = ((*s)[1] | 0x20) == 'i';
        for (const char *q = prefixes; q <= p; q++)
            unit *= binary ? 1024 : 1000;
        *s += binary ? 2 : 1;
    }
    if ((**s | 0x20) == 'b')
        ++*s;
    return unit;
}

static const char *skip_blanks(const char *s)
{
    while (*s == ' ' || *s == '\t')
        s++;
    return s;
}

static bool parse_bytes(const char *s, int64_t *out)
{
    int64_t whole = 0, unit, part = 0, part_of = 1;
    int digits = 0;

    for (s = skip_blanks(s); *s >= '0' && *s <= '9'; s++, digits++) {
        if (whole > (INT64_MAX - 9) / 10)
            return false;
        whole = whole * 10 + (*s - '0');
    }
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++, digits++)
            if (part_of < 1000000000) { /* further digits are less than a byte */
                part = part * 10 + (*s - '0');
                part_of *= 10;
            }
    s = skip_blanks(s);
    unit = parse_unit(&s);
    if (!digits || *skip_blanks(s) || (part && unit == 1) || whole > INT64_MAX / 2 / unit)
        return false;
    *out = whole * unit + (int64_t)((double)part / (double)part_of * (double)unit + 0.5);
    return true;
}

hr_status hr_parse_bytes(const char *text, int64_t *out, hr_error *err)
{
    HR_NEED(text, out);

    *out = 0;
    if (!text || !parse_bytes(text, out))
        return hr_error_set(err, HR_INVALID, "'%s' is not a number of bytes such as 4096, 256MiB or 1.5GB",
                            text ? text : "");
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- threads */

_Thread_local bool hr__is_pool_thread;
static atomic_int n_threads;          /* 0: not looked up yet */
static atomic_bool threads_are_fixed; /* a number was given, by hr_set_num_threads or the environment */
static _Atomic(void (*)(int)) threads_hook, waits_hook;

/* HR_INVALID only if HEADRACE_NUM_THREADS is set and malformed; *out is the default in that case, too. */
static hr_status default_threads(int *out, hr_error *err)
{
    const char *text = getenv("HEADRACE_NUM_THREADS");
    int n = env_int("HEADRACE_NUM_THREADS", MAX_THREADS);

    *out = n ? n : HR_MIN(hr__cpus_allowed(), MAX_THREADS);
    atomic_store(&threads_are_fixed, n > 0);
    if (text && *text && !n)
        return hr_error_set(err, HR_INVALID, "HEADRACE_NUM_THREADS: '%s' is not a number from 1 to %d", text,
                            MAX_THREADS);
    return HR_OK;
}

static int first_threads(void)
{
    hr_error err = HR_ERROR_INIT;
    int n;

    if (default_threads(&n, &err))
        hr__log(HR_LOG_WARNING, "%s; the pool has %d", err.text, n);
    hr_error_clear(&err);
    return n;
}

int hr_num_threads(void)
{
    int n = atomic_load_explicit(&n_threads, memory_order_relaxed), none = 0;

    if (n)
        return n;
    n = first_threads();
    return atomic_compare_exchange_strong(&n_threads, &none, n) ? n : none;
}

hr_status hr_set_num_threads(int n, hr_error *err)
{
    void (*hook)(int);

    if (n < 0 || n > MAX_THREADS)
        return hr_error_set(err, HR_INVALID, "threads: found %d, expected 1 to %d, or 0 for the default", n,
                            MAX_THREADS);
    if (hr__is_pool_thread)
        return hr_error_set(err, HR_INVALID,
                            "threads: a callback cannot set their number, it would wait for its own thread");
    if (n == 0)
        HR_TRY(default_threads(&n, err));
    else
        atomic_store(&threads_are_fixed, true);
    atomic_store(&n_threads, n);
    if ((hook = atomic_load(&threads_hook)))
        hook(n);
    return HR_OK;
}

bool hr__threads_are_fixed(void)
{
    (void)hr_num_threads(); /* looks it up */
    return atomic_load(&threads_are_fixed);
}

void hr__threads_set_hook(void (*fn)(int n_threads)) { atomic_store(&threads_hook, fn); }
void hr__waits_set_hook(void (*fn)(int by)) { atomic_store(&waits_hook, fn); }

static void waits(int by)
{
    void (*hook)(int) = hr__is_pool_thread ? atomic_load(&waits_hook) : NULL;

    if (hook)
        hook(by);
}

void hr__waits_begin(void) { waits(1); }
void hr__waits_end(void) { waits(-1); }
