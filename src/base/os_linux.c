/* os_linux.c - the operating system, on Linux (glibc or musl).
 *
 * Thin: each function wraps one call, repeats it on EINTR, and returns -errno. Two things are more than thin:
 *
 * 1. Faults. One atomic word holds the armed kinds, the countdown and "it was hit", so that arming, counting down on
 *    many threads and disarming need no lock, and exactly one call fails.
 * 2. Limits of containers. A limit may stand at any level between our cgroup and the mount, in v1 and in v2, and the
 * mount may show only a part of the tree. See "the machine" below. That code allocates nothing: the first allocation
 * reads the memory limit.
 *
 * Tests: test_os.c. */
#include "base/all.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Repeats the call while a signal interrupts it. */
#define RETRY(result, call)                                                                                            \
    do {                                                                                                               \
        (result) = (call);                                                                                             \
    } while ((result) < 0 && errno == EINTR)

/* ---------------------------------------------------------------------------------------------------------- faults */

/* Bits 0-3: armed kinds; bit 4: hit; from bit 8: calls that still pass. */
enum { FAULT_KINDS = 15, FAULT_HIT = 16, FAULT_ONE = 256 };
static _Atomic uint64_t fault_word;

bool hr__fault(int kind)
{
    uint64_t w = atomic_load_explicit(&fault_word, memory_order_relaxed);

    while (w & (uint64_t)kind & FAULT_KINDS) {
        uint64_t next = w < FAULT_ONE ? FAULT_HIT : w - FAULT_ONE;
        if (atomic_compare_exchange_weak(&fault_word, &w, next))
            return next == FAULT_HIT;
    }
    return false;
}

void hr__fault_arm(int kinds, int64_t after)
{
    atomic_store(&fault_word, (uint64_t)after * FAULT_ONE | ((uint64_t)kinds & FAULT_KINDS));
}

bool hr__fault_hit(void) { return atomic_load(&fault_word) == FAULT_HIT; }
bool hr__fault_disarm(void) { return atomic_exchange(&fault_word, 0) == FAULT_HIT; }

/* ----------------------------------------------------------------------------------------------------------- clock */

static int64_t clock_of(clockid_t id)
{
    struct timespec t = { 0 };

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t hr__clock_ns(void) { return clock_of(CLOCK_MONOTONIC); }

int64_t hr__thread_cpu_ns(void) { return clock_of(CLOCK_THREAD_CPUTIME_ID); }

int64_t hr__process_cpu_ns(void) { return clock_of(CLOCK_PROCESS_CPUTIME_ID); }

/* Up to cap - 1 bytes of a small file, as text; -errno. */
static int read_small(const char *path, char *out, int64_t cap)
{
    int fd = hr__file_open(path);
    int64_t n = fd < 0 ? fd : hr__file_read_at(fd, out, cap - 1, 0);

    if (fd >= 0)
        hr__file_close(fd);
    out[HR_MAX(n, 0)] = 0;
    return (int)HR_MIN(n, 0);
}

int64_t hr__thread_delay_ns(void)
{
    char text[128];
    long long delay = -1;

    if (read_small("/proc/thread-self/schedstat", text, sizeof text) || sscanf(text, "%*d %lld", &delay) != 1)
        return -1;
    return delay;
}

void hr__process_kernel(int64_t *ns, int64_t *faults)
{
    struct rusage u = { 0 };

    getrusage(RUSAGE_SELF, &u);
    *ns = (int64_t)u.ru_stime.tv_sec * 1000000000 + (int64_t)u.ru_stime.tv_usec * 1000;
    *faults = u.ru_minflt;
}

void hr__sleep_ns(int64_t ns)
{
    struct timespec t = { ns / 1000000000, ns % 1000000000 };

    nanosleep(&t, NULL);
}

int64_t hr__stall_ns(const char *name)
{
    const char *v = getenv("HR_STALL");
    size_t n = strlen(name);

    for (; v && *v; v = strchr(v, ',') ? strchr(v, ',') + 1 : NULL)
        if ((*v == '*' && v[1] == ':' && strcmp(name, "disk") != 0) || (!strncmp(v, name, n) && v[n] == ':'))
            return (int64_t)(strtod(strchr(v, ':') + 1, NULL) * 1e6);
    return 0;
}

/* --------------------------------------------------------------------------------------------------------- threads */

/* A lock or condition that fails is a bug of ours: the process ends. */
static void must(int rc)
{
    if (rc)
        abort();
}

void hr__mutex_init(hr_mutex *m) { must(pthread_mutex_init(m, NULL)); }
void hr__mutex_clear(hr_mutex *m) { must(pthread_mutex_destroy(m)); }
void hr__lock(hr_mutex *m) { must(pthread_mutex_lock(m)); }

bool hr__try_lock(hr_mutex *m)
{
    int rc = pthread_mutex_trylock(m);

    if (rc != EBUSY)
        must(rc);
    return rc == 0;
}

void hr__unlock(hr_mutex *m) { must(pthread_mutex_unlock(m)); }

void hr__cond_init(hr_cond *c)
{
    pthread_condattr_t attr;

    must(pthread_condattr_init(&attr));
    must(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
    must(pthread_cond_init(c, &attr));
    pthread_condattr_destroy(&attr);
}

void hr__cond_clear(hr_cond *c) { must(pthread_cond_destroy(c)); }
void hr__cond_wait(hr_cond *c, hr_mutex *m) { must(pthread_cond_wait(c, m)); }
void hr__cond_signal(hr_cond *c) { must(pthread_cond_signal(c)); }
void hr__cond_broadcast(hr_cond *c) { must(pthread_cond_broadcast(c)); }

bool hr__cond_wait_ns(hr_cond *c, hr_mutex *m, int64_t wait_ns)
{
    const int64_t longest = (int64_t)1000000000 * 86400 * 3650; /* the sum below must not overflow */
    int64_t until = hr__clock_ns() + HR_MAX(0, HR_MIN(wait_ns, longest));
    struct timespec t = { .tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000) };
    int rc = pthread_cond_timedwait(c, m, &t);

    if (rc == ETIMEDOUT)
        return false;
    must(rc);
    return true;
}

/* Lies on the starter's stack: the starter waits until the thread has copied it, so that starting a thread allocates
 * nothing. */
typedef struct thread_start {
    void (*fn)(void *);
    void *arg;
    const char *name;
    hr_mutex lock;
    hr_cond cond;
    bool taken;
} thread_start;

static void *thread_main(void *p)
{
    thread_start *s = p;
    void (*fn)(void *) = s->fn;
    void *arg = s->arg;
    char name[16];

    snprintf(name, sizeof name, "%s", s->name);
    hr__lock(&s->lock);
    s->taken = true;
    hr__cond_signal(&s->cond);
    hr__unlock(&s->lock); /* s is gone from here on */
    pthread_setname_np(pthread_self(), name);
    fn(arg);
    return NULL;
}

/* Signals go to the program's own threads. A thread's own faults must reach the handlers, or a crash leaves no
 * report. */
static void signals_of_threads(sigset_t *set)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS };

    sigfillset(set);
    for (int i = 0; i < HR_LEN(own); i++)
        sigdelset(set, own[i]);
}

int hr__thread_start(hr_thread *out, const char *name, void (*fn)(void *), void *arg)
{
    thread_start s = { .fn = fn, .arg = arg, .name = name };
    sigset_t blocked, before;
    int rc;

    hr__mutex_init(&s.lock);
    hr__cond_init(&s.cond);
    signals_of_threads(&blocked);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    rc = hr__fault(HR_FAULT_IO) ? EAGAIN : pthread_create(out, NULL, thread_main, &s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    hr__lock(&s.lock);
    while (!rc && !s.taken)
        hr__cond_wait(&s.cond, &s.lock);
    hr__unlock(&s.lock);
    hr__cond_clear(&s.cond);
    hr__mutex_clear(&s.lock);
    return -rc;
}

void hr__thread_join(hr_thread t) { must(pthread_join(t, NULL)); }

/* --- forks */

static atomic_int cached_pid;
static atomic_bool is_fork;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
/* Held from `prepare` to `parent`: no lock joins the list during a fork. */
static hr_mutex fork_list = HR_MUTEX_INIT;
static hr_mutex *fork_locks[12];

/* Takes all locks of the list, or none and returns one that another thread holds. */
static hr_mutex *take_all_or_none(void)
{
    int n = 0;

    while (n < HR_LEN(fork_locks) && (!fork_locks[n] || hr__try_lock(fork_locks[n])))
        n++;
    if (n == HR_LEN(fork_locks))
        return NULL;
    for (int i = n - 1; i >= 0; i--)
        if (fork_locks[i])
            hr__unlock(fork_locks[i]);
    return fork_locks[n];
}

/* A thread may take one of the locks under another one (a cache allocates under its lock, and the first allocation
 * adds a lock to the list). So nothing is held here while it waits. */
static void fork_prepare(void)
{
    hr_mutex *held;

    hr__lock(&fork_list);
    while ((held = take_all_or_none())) {
        hr__unlock(&fork_list);
        hr__lock(held);
        hr__unlock(held);
        hr__lock(&fork_list);
    }
}

static void fork_parent(void)
{
    for (int i = HR_LEN(fork_locks) - 1; i >= 0; i--)
        if (fork_locks[i])
            hr__unlock(fork_locks[i]);
    hr__unlock(&fork_list);
}

static void fork_child(void)
{
    atomic_store(&cached_pid, 0);
    atomic_store(&is_fork, true);
    fork_parent();
}

static void fork_register(void) { must(pthread_atfork(fork_prepare, fork_parent, fork_child)); }

void hr__mutex_survives_fork(hr_mutex *m)
{
    int i = 0;

    pthread_once(&fork_once, fork_register);
    hr__lock(&fork_list);
    while (i < HR_LEN(fork_locks) && fork_locks[i])
        i++;
    if (i == HR_LEN(fork_locks))
        abort(); /* make the list longer */
    fork_locks[i] = m;
    hr__unlock(&fork_list);
}

int hr__pid(void)
{
    int pid = atomic_load_explicit(&cached_pid, memory_order_relaxed);

    if (!pid) {
        pthread_once(&fork_once, fork_register); /* before the store: a child never sees its parent's */
        pid = (int)getpid();
        atomic_store(&cached_pid, pid);
    }
    return pid;
}

bool hr__is_fork(void) { return atomic_load(&is_fork); }

int hr__uid(void) { return (int)geteuid(); }

/* ----------------------------------------------------------------------------------------------------- the machine
 *
 * /proc/self/cgroup names our group, a line for each hierarchy: "0::/a/b" (v2), "4:memory:/a/b" (v1).
 * /proc/self/mountinfo names the mount of a hierarchy: fields 4 and 5 are the group at the mount's root and the folder;
 * after " - " come the type and the controllers. The group's folder is the mount folder + (group without the mount's
 * root); where the group is not below the mount's root (another namespace), we see only the mount folder itself. */

/* A text file, line by line, without allocation. Lines longer than the buffer are cut into several. */
typedef struct line_reader {
    int fd;
    int at, n;
    char buf[4096];
    char line[4096];
} line_reader;

static bool lines_open(line_reader *r, const char *root, const char *path)
{
    char full[PATH_MAX];

    r->at = r->n = 0;
    r->fd = -1;
    if (snprintf(full, sizeof full, "%s%s", root, path) < (int)sizeof full)
        RETRY(r->fd, open(full, O_RDONLY | O_CLOEXEC));
    return r->fd >= 0;
}

/* The next line, without its end; NULL at the end of the file. */
static char *lines_next(line_reader *r)
{
    int n = 0;

    for (;;) {
        if (r->at == r->n) {
            ssize_t got;
            RETRY(got, read(r->fd, r->buf, sizeof r->buf));
            if (got <= 0)
                break;
            r->at = 0;
            r->n = (int)got;
        }
        char c = r->buf[r->at++];
        if (c == '\n' || n == (int)sizeof r->line - 1) {
            r->line[n] = 0;
            return r->line;
        }
        r->line[n++] = c;
    }
    r->line[n] = 0;
    return n ? r->line : NULL;
}

/* The number in the first line of a file; false: no number ("max" and "-1" give false, too). */
static bool read_line(const char *root, const char *path, char *out, size_t cap)
{
    line_reader r;
    char *line = NULL;

    if (!lines_open(&r, root, path))
        return false;
    if ((line = lines_next(&r)))
        snprintf(out, cap, "%s", line);
    close(r.fd);
    return line != NULL;
}

static bool read_number(const char *root, const char *folder, const char *name, int64_t *out)
{
    char path[PATH_MAX], text[64], *end;

    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    if (!read_line(root, path, text, sizeof text))
        return false;
    *out = strtoll(text, &end, 10);
    return end != text && *out >= 0;
}

/* Whether "a,b,c" has the word "b". */
static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, word, n) && (p[n] == 0 || p[n] == ','))
            return true;
    return false;
}

/* Our group in the hierarchy of `controller` ("": v2), as "/a/b". */
static bool group_of(const char *root, const char *controller, char *out, size_t cap)
{
    line_reader r;
    bool found = false;

    if (!lines_open(&r, root, "/proc/self/cgroup"))
        return false;
    for (char *line; !found && (line = lines_next(&r));) {
        char *names = strchr(line, ':'), *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        found = *controller ? has_word(names + 1, controller) : !strncmp(line, "0:", 2) && !names[1];
        if (found)
            snprintf(out, cap, "%s", group);
    }
    close(r.fd);
    return found;
}

/* The folder where that hierarchy is mounted, and the group of the mount's root. */
static bool mount_of(const char *root, const char *controller, char *top, char *folder, size_t cap)
{
    line_reader r;
    bool found = false;

    if (!lines_open(&r, root, "/proc/self/mountinfo"))
        return false;
    for (char *line; !found && (line = lines_next(&r));) {
        char *type = strstr(line, " - "), *fields[5] = { line }, *options, *at = line;
        for (int i = 1; at && i < HR_LEN(fields); i++)
            if ((at = strchr(at, ' ')))
                *at++ = 0, fields[i] = at;
        if (!type || !at || !(at = strchr(at, ' ')) || at > type)
            continue;
        *at = 0;
        type += 3;
        options = strrchr(type, ' ');
        found = *controller ? !strncmp(type, "cgroup ", 7) && options && has_word(options + 1, controller)
                            : !strncmp(type, "cgroup2 ", 8);
        if (found) {
            snprintf(top, cap, "%s", fields[3]);
            snprintf(folder, cap, "%s", fields[4]);
        }
    }
    close(r.fd);
    return found;
}

/* Lowers *bytes and *cpus to the limits of one group. */
static void limits_of_group(const char *root, const char *group, int64_t *bytes, double *cpus)
{
    static const char *const names[] = { "memory.max", "memory.high", "memory.limit_in_bytes" };
    char path[PATH_MAX], text[64];
    int64_t n, period = 0;

    for (int i = 0; i < HR_LEN(names); i++)
        if (read_number(root, group, names[i], &n))
            *bytes = HR_MIN(*bytes, n);
    if (read_number(root, group, "cpu.cfs_quota_us", &n) && read_number(root, group, "cpu.cfs_period_us", &period) &&
        n > 0 && period > 0)
        *cpus = HR_MIN(*cpus, (double)n / (double)period);
    if (snprintf(path, sizeof path, "%s/cpu.max", group) < (int)sizeof path &&
        read_line(root, path, text, sizeof text)) {
        long long quota = 0, of = 0;
        if (sscanf(text, "%lld %lld", &quota, &of) == 2 && quota > 0 && of > 0)
            *cpus = HR_MIN(*cpus, (double)quota / (double)of);
    }
}

/* All groups of one hierarchy, from ours up to the mount. */
static void limits_of_hierarchy(const char *root, const char *controller, int64_t *bytes, double *cpus)
{
    char group[PATH_MAX / 2], top[PATH_MAX / 2], path[PATH_MAX];
    size_t n_top, n_mount;

    if (!group_of(root, controller, group, sizeof group) || !mount_of(root, controller, top, path, sizeof top))
        return;
    n_mount = strlen(path);
    n_top = strcmp(top, "/") ? strlen(top) : 0;
    if (!strncmp(group, top, n_top) && (group[n_top] == '/' || !group[n_top]) && !strstr(group, "/.."))
        snprintf(path + n_mount, sizeof path - n_mount, "%s", group + n_top);
    for (;;) {
        limits_of_group(root, path, bytes, cpus);
        char *slash = strrchr(path, '/');
        if (!slash || (size_t)(slash - path) < n_mount)
            break;
        *slash = 0;
    }
}

void hr__cgroup_limits(const char *root, int64_t *memory_bytes, double *cpus)
{
    double least = 1e9;

    *memory_bytes = INT64_MAX;
    limits_of_hierarchy(root, "", memory_bytes, &least);
    limits_of_hierarchy(root, "memory", memory_bytes, &least);
    limits_of_hierarchy(root, "cpu", memory_bytes, &least);
    *cpus = least < 1e9 ? least : 0;
}

/* CPUs in the affinity mask; room for 8,192, as the kernel refuses a mask shorter than its own. */
static int cpus_of_mask(void)
{
    cpu_set_t sets[8];

    return sched_getaffinity(0, sizeof sets, sets) ? 0 : CPU_COUNT_S(sizeof sets, sets);
}

/* Adds the line of a CPU: "cpu7 user nice system idle iowait irq softirq steal ...", in ticks. */
static void add_cpu(const char *line, const cpu_set_t *mask, size_t mask_bytes, int64_t *ticks, int *n_cpus)
{
    unsigned cpu;
    long long user, nice, system, idle, io, irq = 0, softirq = 0, stolen = 0;

    if (sscanf(line, "cpu%u %lld %lld %lld %lld %lld %lld %lld %lld", &cpu, &user, &nice, &system, &idle, &io, &irq,
               &softirq, &stolen) < 6 ||
        !CPU_ISSET_S(cpu, mask_bytes, mask))
        return;
    *ticks += user + nice + system + irq + softirq + stolen;
    ++*n_cpus;
}

bool hr__machine_cpu(const char *root, int64_t *ns, int *n_cpus)
{
    cpu_set_t mask[8];
    line_reader r;
    int64_t ticks = 0;

    *ns = *n_cpus = 0;
    if (sched_getaffinity(0, sizeof mask, mask) || !lines_open(&r, root, "/proc/stat"))
        return false;
    for (char *line; (line = lines_next(&r)) && !strncmp(line, "cpu", 3);)
        if (line[3] != ' ') /* that one is the sum of all CPUs */
            add_cpu(line, mask, sizeof mask, &ticks, n_cpus);
    close(r.fd);
    *ns = ticks * (1000000000 / HR_MAX(sysconf(_SC_CLK_TCK), 1));
    return *n_cpus > 0;
}

/* CPUs that cgroups allow, rounded up; INT_MAX: no limit. Twenty files say so, in a quarter of a millisecond: they are
 * read once a second at most. */
static int cpus_of_cgroups(void)
{
    static _Atomic int64_t read_ns;
    static atomic_int allowed;
    int64_t now = hr__clock_ns(), then = atomic_load(&read_ns), memory_bytes;
    double cpus;

    if (then && now - then < 1000000000)
        return atomic_load(&allowed);
    hr__cgroup_limits("", &memory_bytes, &cpus);
    atomic_store(&allowed, cpus > 0 && cpus < INT_MAX ? (int)cpus + (cpus > (int)cpus) : INT_MAX);
    atomic_store(&read_ns, now);
    return atomic_load(&allowed);
}

int hr__cpus_allowed(void)
{
    int n = cpus_of_mask();

    if (n <= 0)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return HR_MAX(HR_MIN(n, cpus_of_cgroups()), 1);
}

int64_t hr__memory_page(void)
{
    static _Atomic int64_t page;
    int64_t n = atomic_load_explicit(&page, memory_order_relaxed);

    if (!n) {
        n = (int64_t)sysconf(_SC_PAGESIZE);
        atomic_store(&page, n);
    }
    return n;
}

int64_t hr__memory_physical(void)
{
    int64_t pages = (int64_t)sysconf(_SC_PHYS_PAGES), limit;
    double cpus;

    hr__cgroup_limits("", &limit, &cpus);
    return pages > 0 ? HR_MIN(limit, pages * hr__memory_page()) : HR_MIN(limit, (int64_t)1 << 30);
}

/* ------------------------------------------------------------------------------------------------------- processes */

/* The number of a namespace, "pid:[4026531836]"; -errno. */
static int add_namespace(hr_hash *h, const char *link)
{
    char text[64];
    int n = hr__link_read(link, text, sizeof text);

    if (n < 0)
        return n;
    hr__hash_text(h, text);
    return 0;
}

/* When a process started, in ticks since boot as our time namespace counts them; 0: unknown. */
static int64_t start_of(const char *stat_path)
{
    char text[1024], *at;
    long long ticks = 0;

    if (read_small(stat_path, text, sizeof text) < 0 ||
        !(at = strrchr(text, ')'))) /* after the name, which may contain any byte */
        return 0;
    for (int field = 2; at && field < 22; field++)
        if ((at = strchr(at, ' ')))
            at++;
    return at && sscanf(at, "%lld", &ticks) == 1 ? ticks : 0;
}

int hr__process_self(hr_process *out)
{
    char boot[64];
    hr_hash h;
    int rc;

    *out = (hr_process){ 0 };
    hr__hash_init(&h, 0);
    if ((rc = read_small("/proc/sys/kernel/random/boot_id", boot, sizeof boot)))
        return rc;
    hr__hash_text(&h, boot);
    if ((rc = add_namespace(&h, "/proc/self/ns/pid")))
        return rc;
    if ((rc = add_namespace(&h, "/proc/self/ns/time")) && rc != -ENOENT) /* kernels before 5.6 have none */
        return rc;
    *out = (hr_process){ .space = hr__hash_end(&h).lo, .start_ticks = start_of("/proc/self/stat"), .pid = hr__pid() };
    return 0;
}

/* /proc may belong to another namespace (unshare --pid without --mount-proc): its numbers are not ours. */
static bool proc_is_ours(void)
{
    char text[32];
    ssize_t n = readlink("/proc/self", text, sizeof text - 1);

    text[HR_MAX(n, 0)] = 0;
    return atoi(text) == hr__pid();
}

bool hr__process_is_gone(const hr_process *p)
{
    char path[40];
    int64_t ticks;
    hr_process self;

    if (p->pid <= 0 || hr__process_self(&self) || self.space != p->space)
        return false;
    if (kill(p->pid, 0)) /* not /proc: with hidepid it hides processes of others */
        return errno == ESRCH;
    if (!p->start_ticks || !proc_is_ours())
        return false;
    snprintf(path, sizeof path, "/proc/%d/stat", p->pid);
    ticks = start_of(path);
    return ticks && ticks != p->start_ticks;
}

/* -------------------------------------------------------------------------------------------------------- programs */

/* -> pid; -errno. The child has no signals blocked, whichever thread begins it. */
static int spawn(char *const *argv, int output)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    pid_t pid = 0;
    int rc;

    sigemptyset(&none);
    if (posix_spawn_file_actions_init(&actions))
        return -ENOMEM;
    if (posix_spawnattr_init(&attributes)) {
        posix_spawn_file_actions_destroy(&actions);
        return -ENOMEM;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigmask(&attributes, &none);
    rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!rc)
        rc = posix_spawn_file_actions_adddup2(&actions, output, 1);
    if (!rc)
        rc = posix_spawnp(&pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return rc ? -rc : (int)pid;
}

/* Reads until the end of the pipe, and throws away what does not fit. -> bytes kept; -errno. */
static int64_t read_until(int fd, char *out, int64_t cap, int64_t deadline_ns)
{
    int64_t kept = 0;
    char rest[4096];

    for (;;) {
        int64_t left_ms = (deadline_ns - hr__clock_ns()) / 1000000;
        int ready = left_ms > 0 ? hr__wait_readable(fd, (int)left_ms) : 0;
        ssize_t n;

        if (ready <= 0)
            return ready < 0 ? ready : -ETIMEDOUT;
        RETRY(n, kept < cap ? read(fd, out + kept, (size_t)(cap - kept)) : read(fd, rest, sizeof rest));
        if (n < 0)
            return -errno;
        if (n == 0)
            return kept;
        kept += kept < cap ? n : 0;
    }
}

/* The status of a program whose output has ended. It is killed at the deadline. */
static int exit_of(pid_t pid, int64_t deadline_ns)
{
    int status = 0, rc;

    for (;;) {
        RETRY(rc, waitpid(pid, &status, WNOHANG));
        if (rc != 0)
            break;
        if (hr__clock_ns() >= deadline_ns)
            kill(pid, SIGKILL);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    if (rc < 0)
        return 0; /* the program ignores its children: their status is not known */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int64_t hr__program_run(char *const *argv, int timeout_ms, char *out, int64_t cap, int *exit)
{
    int64_t deadline_ns = hr__clock_ns() + (int64_t)timeout_ms * 1000000, n;
    int ends[2], pid;

    *exit = 0;
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid = spawn(argv, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return pid;
    }
    n = read_until(ends[0], out, cap, deadline_ns);
    close(ends[0]);
    *exit = exit_of(pid, n < 0 ? 0 : deadline_ns);
    return n;
}

/* ----------------------------------------------------------------------------------------------------------- files */

#define MAX_IO_BYTES ((int64_t)1 << 30) /* the kernel takes a little less than 2 GiB at once */

int hr__file_open(const char *path)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(path, O_RDONLY | O_CLOEXEC));
    return fd < 0 ? -errno : fd;
}

int hr__file_create(const char *path)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    return fd < 0 ? -errno : fd;
}

int64_t hr__file_read_at(int fd, void *out, int64_t n, int64_t offset)
{
    int64_t done = 0;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    while (done < n) {
        ssize_t got;
        RETRY(got, pread(fd, (char *)out + done, (size_t)HR_MIN(n - done, MAX_IO_BYTES), (off_t)(offset + done)));
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        done += got;
    }
    return done;
}

int hr__file_duplicate(int fd)
{
    int other;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(other, fcntl(fd, F_DUPFD_CLOEXEC, 3));
    return other < 0 ? -errno : other;
}

/* A pipe whose other end does not want to wait (O_NONBLOCK is the pipe's, not ours) says EAGAIN when it is full. */
static bool wait_to_write(int fd)
{
    struct pollfd one = { .fd = fd, .events = POLLOUT };

    return errno == EAGAIN && poll(&one, 1, -1) >= 0;
}

int64_t hr__file_write(int fd, const void *data, int64_t n)
{
    int64_t done = 0;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    while (done < n) {
        ssize_t put;
        RETRY(put, write(fd, (const char *)data + done, (size_t)HR_MIN(n - done, MAX_IO_BYTES)));
        if (put < 0 && wait_to_write(fd))
            continue;
        if (put < 0)
            return -errno;
        done += put;
    }
    return done;
}

int64_t hr__file_write_at(int fd, const void *data, int64_t n, int64_t offset)
{
    int64_t done = 0;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    while (done < n) {
        ssize_t put;
        RETRY(put,
              pwrite(fd, (const char *)data + done, (size_t)HR_MIN(n - done, MAX_IO_BYTES), (off_t)(offset + done)));
        if (put < 0)
            return -errno;
        done += put;
    }
    return done;
}

int hr__file_create_unnamed(const char *folder)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
    if (fd >= 0)
        return fd;
    return errno == EISDIR || errno == EINVAL ? -EOPNOTSUPP : -errno; /* EISDIR: a kernel or file system without it */
}

int hr__file_create_scratch(const char *folder)
{
    char path[4096];
    uint64_t name = 0;
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(folder, O_RDWR | O_TMPFILE | O_EXCL | O_CLOEXEC, 0600));
    if (fd >= 0)
        return fd;
    if (errno != EISDIR && errno != EINVAL && errno != EOPNOTSUPP)
        return -errno;
    if ((fd = hr__random_secret(&name, sizeof name)) < 0)
        return fd;
    if (snprintf(path, sizeof path, "%s/.headrace-spill-%016llx", folder, (unsigned long long)name) >= (int)sizeof path)
        return -ENAMETOOLONG;
    RETRY(fd, open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (fd < 0)
        return -errno;
    (void)unlink(path);
    return fd;
}

int hr__file_create_new(const char *path)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    return fd < 0 ? -errno : fd;
}

int hr__file_link(int fd, const char *path)
{
    char from[40];

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    return linkat(AT_FDCWD, from, AT_FDCWD, path, AT_SYMLINK_FOLLOW) ? -errno : 0;
}

int hr__file_rename(const char *from, const char *to, bool replace)
{
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (replace)
        return rename(from, to) ? -errno : 0;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (link(from, to)) /* a file system without that flag: links a second name, then removes the first */
        return -errno;
    return unlink(from) ? -errno : 0;
}

int hr__file_remove(const char *path)
{
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return unlink(path) ? -errno : 0;
}

void hr__file_touch(int fd) { (void)futimens(fd, NULL); }

int hr__file_sync(int fd)
{
    int rc;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(rc, fdatasync(fd));
    return rc ? -errno : 0;
}

int hr__file_close_written(int fd)
{
    if (hr__fault(HR_FAULT_IO)) {
        close(fd);
        return -EIO;
    }
    return close(fd) && errno != EINTR ? -errno : 0;
}

int hr__dir_create(const char *path)
{
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return mkdir(path, 0777) ? -errno : 0;
}

int hr__dir_remove(const char *path) { return rmdir(path) ? -errno : 0; }

/* fd with its lock, or an error, and closed. -EAGAIN: another descriptor has the lock. */
static int locked_or_closed(int fd)
{
    int rc;

    RETRY(rc, flock(fd, LOCK_EX | LOCK_NB));
    if (rc == 0)
        return fd;
    rc = -errno;
    (void)close(fd);
    return rc;
}

int hr__dir_lock(const char *path)
{
    int fd = hr__fault(HR_FAULT_IO) ? -EIO : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return fd == -EIO ? fd : -errno;
    return locked_or_closed(fd);
}

int hr__files_limit(void)
{
    struct rlimit r;

    return getrlimit(RLIMIT_NOFILE, &r) ? 256 : (int)HR_MIN(r.rlim_cur, (rlim_t)1 << 20);
}

static int stat_done(int rc, const struct stat *s, hr_stat *out)
{
    if (rc < 0)
        return -errno;
    out->n_bytes = (int64_t)s->st_size;
    out->mtime_ns = (int64_t)s->st_mtim.tv_sec * 1000000000 + s->st_mtim.tv_nsec;
    out->is_dir = S_ISDIR(s->st_mode);
    out->is_file = S_ISREG(s->st_mode);
    return 0;
}

int hr__file_stat(const char *path, hr_stat *out)
{
    struct stat s;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return stat_done(stat(path, &s), &s, out);
}

bool hr__file_may_replace(const char *path)
{
    struct stat s;

    return lstat(path, &s) ? errno == ENOENT : S_ISREG(s.st_mode);
}

int hr__file_stat_fd(int fd, hr_stat *out)
{
    struct stat s;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return stat_done(fstat(fd, &s), &s, out);
}

void hr__file_advise(int fd, int64_t offset, int64_t n) { (void)posix_fadvise(fd, offset, n, POSIX_FADV_WILLNEED); }

void hr__file_write_behind(int fd, int64_t offset, int64_t n)
{
    (void)sync_file_range(fd, offset, n, SYNC_FILE_RANGE_WRITE);
}

void hr__file_punch(int fd, int64_t offset, int64_t n)
{
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n);
}

int hr__disk_space(const char *path, int64_t *free_bytes, int64_t *all_bytes)
{
    struct statvfs s;
    int rc;

    *free_bytes = *all_bytes = 0;
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(rc, statvfs(path, &s));
    if (rc)
        return -errno;
    *free_bytes = (int64_t)s.f_bavail * (int64_t)s.f_frsize;
    *all_bytes = (int64_t)s.f_blocks * (int64_t)s.f_frsize;
    return 0;
}

void hr__file_close(int fd)
{
    if (fd >= 0)
        (void)close(fd); /* not again on EINTR: Linux has closed it already */
}

int hr__file_open_to_lock(const char *path)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(fd, open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    return fd < 0 ? -errno : fd;
}

/* fd, or -EPERM and closed. */
static int private_or_closed(int fd, mode_t kind)
{
    struct stat s;
    int rc;

    if (fd < 0)
        return -errno;
    rc = fstat(fd, &s) ? -errno : 0;
    if (rc == 0 && ((s.st_mode & S_IFMT) != kind || s.st_uid != geteuid() || (s.st_mode & 077) != 0 ||
                    (kind == S_IFREG && s.st_nlink != 1)))
        rc = -EPERM;
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

static int open_in(int dir, const char *name, int flags)
{
    int fd;

    RETRY(fd, openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
    return fd;
}

int hr__dir_open_private(const char *path)
{
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    (void)mkdir(path, 0700);
    return private_or_closed(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), S_IFDIR);
}

int hr__file_open_private(int dir, const char *name)
{
    return hr__fault(HR_FAULT_IO) ? -EIO : private_or_closed(open_in(dir, name, O_RDONLY), S_IFREG);
}

int hr__file_create_private(int dir, const char *name)
{
    return hr__fault(HR_FAULT_IO) ? -EIO : private_or_closed(open_in(dir, name, O_WRONLY | O_CREAT | O_EXCL), S_IFREG);
}

int hr__file_lock_private(int dir, const char *name)
{
    int fd = hr__fault(HR_FAULT_IO) ? -EIO : private_or_closed(open_in(dir, name, O_RDWR | O_CREAT), S_IFREG);

    return fd < 0 ? fd : locked_or_closed(fd);
}

int hr__file_rename_in(int dir, const char *from, const char *to)
{
    return hr__fault(HR_FAULT_IO) ? -EIO : renameat(dir, from, dir, to) ? -errno : 0;
}

int hr__file_remove_in(int dir, const char *name)
{
    return hr__fault(HR_FAULT_IO) ? -EIO : unlinkat(dir, name, 0) ? -errno : 0;
}

int hr__link_read(const char *path, char *out, int cap)
{
    ssize_t n = hr__fault(HR_FAULT_IO) ? (errno = EIO, -1) : readlink(path, out, (size_t)cap);

    if (n < 0 || n == cap)
        return n < 0 ? -errno : -ENAMETOOLONG;
    out[n] = 0;
    return (int)n;
}

/* File systems of one kernel, where all processes see a file through one inode. On others only we may see a lock, and
 * taking it proves nothing about the writer of the file. */
static bool locks_are_seen(int fd)
{
    static const uint32_t kinds[] = { 0xef53 /* ext2, 3, 4 */,   0x58465342 /* xfs */,
                                      0x9123683e /* btrfs */,    0x01021994 /* tmpfs */,
                                      0xf2f52010 /* f2fs */,     0x2fc12fc1 /* zfs */,
                                      0xca451a4e /* bcachefs */, 0x858458f6 /* ramfs */ };
    struct statfs s;
    int rc;

    RETRY(rc, fstatfs(fd, &s));
    for (int i = 0; rc == 0 && i < HR_LEN(kinds); i++)
        if ((uint32_t)s.f_type == kinds[i])
            return true;
    return false;
}

int hr__file_lock(int fd)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int rc;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (!locks_are_seen(fd))
        return -EOPNOTSUPP;
    RETRY(rc, fcntl(fd, F_OFD_SETLK, &whole));
    return rc == 0 ? 0 : errno == EACCES ? -EAGAIN : -errno;
}

/* --- folders: the names are gathered in one text, then laid out after their pointers in one block */

static int dir_read(DIR *d, hr_text *names)
{
    int n = 0;

    for (;;) {
        struct dirent *e;
        errno = 0;
        if (!(e = readdir(d)))
            return errno ? -errno : n;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        hr__text_add_bytes(names, e->d_name, (int64_t)strlen(e->d_name) + 1);
        if (names->failed || n == INT_MAX)
            return -ENOMEM;
        n++;
    }
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* `names` holds n texts, each with its NUL. */
static char **dir_lay_out(const hr_text *names, int n)
{
    size_t head = (size_t)HR_MAX(n, 1) * sizeof(char *);
    char **list = hr__alloc(NULL, head + (size_t)names->n), *at;

    if (!list)
        return NULL;
    at = (char *)list + head;
    if (names->n)
        memcpy(at, names->data, (size_t)names->n);
    for (int i = 0; i < n; i++, at += strlen(at) + 1)
        list[i] = at;
    qsort(list, (size_t)n, sizeof *list, compare_names);
    return list;
}

int hr__dir_list(const char *path, char ***names)
{
    hr_text text = { 0 };
    DIR *d = NULL;
    int n;

    *names = NULL;
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (!(d = opendir(path)))
        return -errno;
    n = dir_read(d, &text);
    closedir(d);
    if (n >= 0 && !(*names = dir_lay_out(&text, n)))
        n = -ENOMEM;
    hr__text_clear(&text);
    return n;
}

void hr__dir_list_free(char **names, int n)
{
    (void)n;
    hr__free(names);
}

/* ----------------------------------------------------------------------------------------------------- memory maps */

static size_t round_to_page(size_t n)
{
    size_t page = (size_t)hr__memory_page();

    return HR_ROUND_UP(HR_MAX(n, 1), page);
}

/* Does not request huge pages. In a virtual machine that reports its free memory to the host, the host has taken those
 * pages back: a first sort of 8 M rows took 2.0 s with them and 1.2 s without; later runs, in touched pages, took the
 * same. */
void *hr__map_private(size_t n)
{
    void *p;

    if (hr__fault(HR_FAULT_MEMORY) || n > PTRDIFF_MAX / 2)
        return NULL;
    p = mmap(NULL, round_to_page(n), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *hr__map_shared(int fd, size_t n, bool writable)
{
    void *p;

    if (hr__fault(HR_FAULT_MEMORY) || n > PTRDIFF_MAX / 2)
        return NULL;
    p = mmap(NULL, HR_MAX(n, 1), PROT_READ | (writable ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

void hr__unmap(void *p, size_t n)
{
    if (p)
        must(munmap(p, round_to_page(n)));
}

/* --- memfds: sealed against shrinking, or a peer could make our reads of it end in SIGBUS */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3; without it the kernel may log or refuse */
#endif

static int memfd_new(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fd;
}

int hr__memfd(const char *name, int64_t n)
{
    int fd, rc;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if ((fd = memfd_new(name)) < 0)
        return -errno;
    RETRY(rc, ftruncate(fd, (off_t)n));
    if (rc < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int hr__memfd_check(int fd, int64_t *n_bytes)
{
    struct stat s;
    int seals;

    *n_bytes = 0;
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if ((seals = fcntl(fd, F_GET_SEALS)) < 0 || fstat(fd, &s) < 0)
        return -errno;
    if (!(seals & F_SEAL_SHRINK))
        return -EPERM;
    *n_bytes = (int64_t)s.st_size;
    return 0;
}

void hr__memfd_punch(int fd, int64_t offset, int64_t n)
{
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)n);
}

/* --------------------------------------------------------------------------------------------------------- sockets */

enum { MAX_FDS = 253 /* SCM_MAX_FD: the kernel passes no more in one message */, SOCKET_BACKLOG = 128 };

static const int socket_kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

/* The address of an abstract name; its length, or -ENAMETOOLONG. */
static int socket_address(const char *name, struct sockaddr_un *out)
{
    size_t n = strlen(name);

    memset(out, 0, sizeof *out);
    out->sun_family = AF_UNIX;
    if (n > sizeof out->sun_path - 1)
        return -ENAMETOOLONG;
    memcpy(out->sun_path + 1, name, n);
    return (int)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

/* A new socket after `act` (bind or connect). */
static int socket_at(const char *name, int (*act)(int, const struct sockaddr *, socklen_t))
{
    struct sockaddr_un address;
    int n = socket_address(name, &address), fd, rc;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (n < 0)
        return n;
    if ((fd = socket(AF_UNIX, socket_kind, 0)) < 0)
        return -errno;
    RETRY(rc, act(fd, (struct sockaddr *)&address, (socklen_t)n));
    if (rc < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int hr__socket_listen(const char *abstract_name)
{
    int fd = socket_at(abstract_name, bind), rc;

    if (fd >= 0 && listen(fd, SOCKET_BACKLOG) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int hr__socket_connect(const char *abstract_name) { return socket_at(abstract_name, connect); }

static int peer_of(int fd, int *peer_uid, int *peer_pid)
{
    struct ucred peer = { 0 };
    socklen_t n = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
        return -errno;
    *peer_uid = (int)peer.uid;
    *peer_pid = (int)peer.pid;
    return 0;
}

int hr__socket_peer(int fd, int *peer_uid, int *peer_pid)
{
    return hr__fault(HR_FAULT_IO) ? -EIO : peer_of(fd, peer_uid, peer_pid);
}

int hr__socket_accept(int fd, int *peer_uid, int *peer_pid)
{
    int got, rc;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    RETRY(got, accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (got < 0)
        return -errno;
    if ((rc = peer_of(got, peer_uid, peer_pid))) {
        close(got);
        return rc;
    }
    return got;
}

void hr__socket_shutdown(int fd) { (void)shutdown(fd, SHUT_RDWR); }

int64_t hr__socket_send(int fd, const void *data, int64_t n, const int *fds, int n_fds)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct iovec part = { (void *)(uintptr_t)data, (size_t)n };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t put;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (n_fds < 0 || n_fds > MAX_FDS)
        return -EINVAL;
    if (n_fds) {
        m.msg_control = control.bytes;
        m.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, (size_t)n_fds * sizeof(int));
    }
    RETRY(put, sendmsg(fd, &m, MSG_NOSIGNAL));
    return put < 0 ? -errno : put;
}

/* Moves the descriptors that came with a message into fds. -EMSGSIZE: they do not fit; all are closed. -EMFILE: the
 * kernel cut some off though there was room: this process may have no more descriptors. */
static int socket_take_fds(struct msghdr *m, int *fds, int max_fds, int *n_fds)
{
    bool fits = !(m->msg_flags & (MSG_TRUNC | MSG_CTRUNC)), cut;
    int got[MAX_FDS], n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        int here = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || n + here > MAX_FDS)
            continue;
        memcpy(got + n, CMSG_DATA(c), (size_t)here * sizeof(int));
        n += here;
    }
    cut = !(m->msg_flags & MSG_TRUNC) && (m->msg_flags & MSG_CTRUNC) && n < MAX_FDS;
    fits = fits && n <= max_fds;
    for (int i = 0; i < n; i++)
        if (fits)
            fds[i] = got[i];
        else
            close(got[i]);
    *n_fds = fits ? n : 0;
    return fits ? 0 : cut ? -EMFILE : -EMSGSIZE;
}

int64_t hr__socket_recv(int fd, void *out, int64_t cap, int *fds, int max_fds, int *n_fds)
{
    union {
        char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = { { 0 } };
    struct iovec part = { out, (size_t)cap };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };
    ssize_t got;
    int rc;

    *n_fds = 0;
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    m.msg_control = control.bytes;
    m.msg_controllen = sizeof control.bytes;
    RETRY(got, recvmsg(fd, &m, MSG_CMSG_CLOEXEC));
    if (got < 0)
        return -errno;
    rc = socket_take_fds(&m, fds, max_fds, n_fds);
    return rc ? rc : got;
}

static int wait_for(int fd, short events, int timeout_ms)
{
    struct pollfd p = { .fd = fd, .events = events };
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    for (;;) {
        int rc = poll(&p, 1, timeout_ms);
        if (rc >= 0)
            return rc > 0;
        if (errno != EINTR)
            return -errno;
        if (timeout_ms > 0)
            timeout_ms = (int)HR_MAX(0, (until - hr__clock_ns() + 999999) / 1000000);
    }
}

int hr__wait_readable(int fd, int timeout_ms) { return wait_for(fd, POLLIN, timeout_ms); }
int hr__wait_writable(int fd, int timeout_ms) { return wait_for(fd, POLLOUT, timeout_ms); }

int hr__random_secret(void *out, int n)
{
    ssize_t got;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (n < 0 || n > 256) /* up to 256 bytes the kernel gives all or nothing */
        return -EINVAL;
    RETRY(got, getrandom(out, (size_t)n, 0));
    return got < 0 ? -errno : got < n ? -EIO : 0;
}

/* ----------------------------------------------------------------------------------------- many descriptors at once */

int hr__watch_new(void)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int hr__watch_add(int watch, int fd, uint64_t key)
{
    struct epoll_event e = { .events = EPOLLIN, .data.u64 = key };

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return epoll_ctl(watch, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

void hr__watch_remove(int watch, int fd)
{
    struct epoll_event e = { 0 };

    (void)epoll_ctl(watch, EPOLL_CTL_DEL, fd, &e);
}

int hr__watch_wait(int watch, uint64_t *keys, int max_keys, int timeout_ms)
{
    struct epoll_event events[64];
    int n = epoll_wait(watch, events, HR_MIN(max_keys, HR_LEN(events)), timeout_ms);

    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < n; i++)
        keys[i] = events[i].data.u64;
    return n;
}

int hr__watch_set(int watch, int fd, bool reads, bool writes, uint64_t key)
{
    struct epoll_event e = { .events = (reads ? EPOLLIN : 0) | (writes ? EPOLLOUT : 0), .data.u64 = key };

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    if (!reads && !writes) {
        hr__watch_remove(watch, fd);
        return 0;
    }
    if (epoll_ctl(watch, EPOLL_CTL_MOD, fd, &e) == 0)
        return 0;
    return errno != ENOENT || epoll_ctl(watch, EPOLL_CTL_ADD, fd, &e) < 0 ? -errno : 0;
}

int hr__watch_wait_ready(int watch, hr_ready *out, int max, int timeout_ms)
{
    struct epoll_event events[64];
    int n = epoll_wait(watch, events, HR_MIN(max, HR_LEN(events)), timeout_ms);

    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    for (int i = 0; i < n; i++) {
        bool broken = (events[i].events & (EPOLLERR | EPOLLHUP)) != 0;

        out[i] = (hr_ready){ events[i].data.u64, broken || events[i].events & EPOLLIN,
                             broken || events[i].events & EPOLLOUT };
    }
    return n;
}

int hr__event_new(void)
{
    int fd;

    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return fd < 0 ? -errno : fd;
}

void hr__event_set(int fd) { (void)eventfd_write(fd, 1); }

void hr__event_clear(int fd)
{
    eventfd_t n;

    (void)eventfd_read(fd, &n);
}
