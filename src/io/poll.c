/* poll.c - the poller: one thread that waits for many descriptors.
 *
 * The poller has a list of entries: descriptors, and ticks, whose fd is -1. Each entry has a number that is never used
 * again and comes back with the event; an event that arrives after its entry was removed finds no entry.
 *
 * A removal waits while the entry's callback runs, unless the poller's thread itself removes. Nothing else waits. A
 * thread that was never stopped ends with the process.
 *
 * Forks: the lock survives (os.h). The child finds another pid in the state, closes the inherited descriptors, and
 * starts anew; it closes only its copy of the parent's watch, so the parent's registrations stay. Lock: poller.lock is
 * a leaf. It is not held while a callback runs. */
#include "io/poll.h"
#include "share/process_link.h"

#define TICK_MS 100
#define WAKE_KEY 0 /* entries are numbered from 1 on */

typedef struct entry {
    struct entry *next;
    uint64_t id;
    int fd; /* -1: a tick */
    void (*fn)(void *context);
    void *context;
} entry;

static struct {
    hr_mutex lock;
    hr_cond idle; /* a callback has returned */
    int pid;      /* the process of the thread; 0: no thread */
    int watch, wake;
    hr_thread thread;
    bool stop;
    entry *entries;
    int n_ticks;
    uint64_t last_id;
    entry running; /* the entry whose callback runs; id 0: none. It may be removed already */
} poller = { .lock = HR_MUTEX_INIT };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool is_poller; /* this is the poller's thread */

static void poller_init(void)
{
    hr__mutex_survives_fork(&poller.lock);
    hr__cond_init(&poller.idle);
}

static void entries_free(entry *e)
{
    for (entry *next; e; e = next) {
        next = e->next;
        hr__free(e);
    }
}

/* Ends the state of the thread. -> the entries; the caller frees them. */
static entry *forget_locked(void)
{
    entry *e = poller.entries;

    hr__file_close(poller.watch);
    hr__file_close(poller.wake);
    poller.entries = NULL;
    poller.n_ticks = 0;
    poller.running.id = 0;
    poller.pid = 0;
    poller.stop = false;
    return e;
}

/* In a forked child, forgets the parent's state. */
static void poller_lock(void)
{
    entry *old = NULL;

    pthread_once(&once, poller_init);
    hr__lock(&poller.lock);
    if (poller.pid && poller.pid != hr__pid()) {
        old = forget_locked();
        hr__cond_init(&poller.idle);
        is_poller = false;
    }
    if (old) {
        hr__unlock(&poller.lock);
        entries_free(old);
        hr__lock(&poller.lock);
    }
}

/* ------------------------------------------------------------------------------------------------------- the thread */

/* Calls the entry's function, unless it was removed. */
static void run(uint64_t id)
{
    entry *e, found;

    hr__lock(&poller.lock);
    for (e = poller.entries; e && e->id != id; e = e->next)
        ;
    if (e) {
        poller.running = found = *e;
    }
    hr__unlock(&poller.lock);
    if (!e)
        return;
    found.fn(found.context);
    hr__lock(&poller.lock);
    poller.running.id = 0;
    hr__cond_broadcast(&poller.idle);
    hr__unlock(&poller.lock);
}

/* The tick that was added next after `id`; 0: none. */
static uint64_t next_tick(uint64_t id)
{
    uint64_t next = 0;

    hr__lock(&poller.lock);
    for (const entry *e = poller.entries; e; e = e->next)
        if (e->fd < 0 && e->id > id && (!next || e->id < next))
            next = e->id;
    hr__unlock(&poller.lock);
    return next;
}

/* Milliseconds to wait until the next tick; -1: no limit; -2: stop. */
static int time_left(int64_t tick_ns)
{
    int64_t left = (tick_ns - hr__clock_ns() + 999999) / 1000000;
    int ms;

    hr__lock(&poller.lock);
    ms = poller.stop ? -2 : poller.n_ticks ? (int)HR_MAX(0, HR_MIN(left, TICK_MS)) : -1;
    hr__unlock(&poller.lock);
    return ms;
}

static void poller_main(void *arg)
{
    int64_t tick_ns = hr__clock_ns() + TICK_MS * 1000000;
    uint64_t keys[64];
    int ms, n, watch, wake;

    (void)arg;
    is_poller = true;
    hr__lock(&poller.lock);
    watch = poller.watch;
    wake = poller.wake;
    hr__unlock(&poller.lock);
    while ((ms = time_left(tick_ns)) != -2) {
        n = hr__watch_wait(watch, keys, HR_LEN(keys), ms);
        for (int i = 0; i < n; i++)
            if (keys[i] == WAKE_KEY)
                hr__event_clear(wake);
            else
                run(keys[i]);
        if (hr__clock_ns() < tick_ns)
            continue;
        for (uint64_t id = 0; (id = next_tick(id));)
            run(id);
        tick_ns = hr__clock_ns() + TICK_MS * 1000000;
    }
}

static int start_locked(void)
{
    int rc;

    if (poller.pid)
        return 0;
    poller.wake = -1;
    rc = poller.watch = hr__watch_new();
    if (rc >= 0)
        rc = poller.wake = hr__event_new();
    if (rc >= 0)
        rc = hr__watch_add(poller.watch, poller.wake, WAKE_KEY);
    if (rc >= 0)
        rc = hr__thread_start(&poller.thread, "hr-poller", poller_main, NULL);
    if (rc >= 0)
        poller.pid = hr__pid();
    else
        (void)forget_locked();
    return rc;
}

void hr__poller_stop(void)
{
    entry *old = NULL;

    poller_lock();
    if (poller.pid) {
        hr_thread thread = poller.thread;
        poller.stop = true;
        hr__event_set(poller.wake);
        hr__unlock(&poller.lock);
        hr__thread_join(thread);
        hr__lock(&poller.lock);
        old = forget_locked();
    }
    hr__unlock(&poller.lock);
    entries_free(old);
}

/* ------------------------------------------------------------------------------------------------- adding, removing */

/* The fd identifies a descriptor, function and context identify a tick. */
static bool is_called(const entry *e, int fd, void (*fn)(void *), const void *context)
{
    return e->fd == fd && (fd >= 0 || (e->fn == fn && e->context == context));
}

/* The entry's place in the list. */
static entry **find_locked(int fd, void (*fn)(void *), const void *context)
{
    entry **at = &poller.entries;

    while (*at && !is_called(*at, fd, fn, context))
        at = &(*at)->next;
    return at;
}

/* Adds e to the list, and starts to wait for it. */
static int add_locked(entry *e)
{
    int rc = start_locked();

    e->id = ++poller.last_id;
    if (!rc && e->fd >= 0)
        rc = hr__watch_add(poller.watch, e->fd, e->id);
    if (rc)
        return rc;
    e->next = poller.entries;
    poller.entries = e;
    if (e->fd < 0 && ++poller.n_ticks == 1)
        hr__event_set(poller.wake); /* it waits without limit */
    return 0;
}

static hr_status add(int fd, void (*fn)(void *context), void *context, hr_error *err)
{
    hr_status st = HR_OK;
    entry *e = hr__alloc(NULL, sizeof *e);
    int rc;

    if (!e)
        return hr__error_memory(err, "poller", sizeof *e);
    *e = (entry){ .fd = fd, .fn = fn, .context = context };
    poller_lock();
    if (*find_locked(fd, fn, context))
        st = hr_error_set(err, HR_BUG, "poller: descriptor %d was added twice", fd);
    else if ((rc = add_locked(e)))
        st = hr__error_os(err, rc, "poller", "wait for a descriptor");
    hr__unlock(&poller.lock);
    if (st)
        hr__free(e);
    return st;
}

static void remove_entry(int fd, void (*fn)(void *context), const void *context)
{
    entry **at, *e;

    poller_lock();
    at = find_locked(fd, fn, context);
    if ((e = *at)) {
        *at = e->next;
        if (fd >= 0)
            hr__watch_remove(poller.watch, fd);
        else
            poller.n_ticks--;
    }
    while (poller.running.id && is_called(&poller.running, fd, fn, context) && !is_poller)
        hr__cond_wait(&poller.idle, &poller.lock);
    hr__unlock(&poller.lock);
    hr__free(e);
}

hr_status hr__poller_add(int fd, void (*fn)(void *context), void *context, hr_error *err)
{
    if (fd < 0)
        return hr_error_set(err, HR_INVALID, "poller: descriptor %d", fd);
    return add(fd, fn, context, err);
}

void hr__poller_remove(int fd)
{
    if (fd >= 0)
        remove_entry(fd, NULL, NULL);
}

hr_status hr__poller_tick_add(void (*fn)(void *context), void *context, hr_error *err)
{
    return add(-1, fn, context, err);
}

void hr__poller_tick_remove(void (*fn)(void *context), void *context) { remove_entry(-1, fn, context); }

static void flush_link(void *context)
{
    hr_link *l = context;

    if (hr__link_flush(l, 0, NULL) == HR_PENDING)
        return;
    hr__poller_tick_remove(flush_link, l); /* first: it may be added again at once */
    hr__link_settled(l);
}

bool hr__poller_flush(hr_link *l) { return hr__poller_tick_add(flush_link, l, NULL) == HR_OK; }
