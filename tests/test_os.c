/* test_os.c - the operating system: faults, clock, threads, limits of containers, files, maps, memfds, sockets. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---------------------------------------------------------------------------------------------------------- faults */

static void fault_switch(void **state)
{
    (void)state;
    assert_false(hr__fault(HR_FAULT_MEMORY));
    hr__fault_arm(HR_FAULT_IO, 2);
    assert_false(hr__fault(HR_FAULT_IO));
    assert_false(hr__fault(HR_FAULT_MEMORY)); /* not counted */
    assert_false(hr__fault(HR_FAULT_IO));
    assert_false(hr__fault_hit());
    assert_true(hr__fault(HR_FAULT_IO));
    assert_true(hr__fault_hit());
    assert_false(hr__fault(HR_FAULT_IO)); /* once */
    assert_true(hr__fault_disarm());
    assert_false(hr__fault_disarm());
    hr__fault_arm(HR_FAULT_IO | HR_FAULT_MEMORY, 0);
    assert_true(hr__fault(HR_FAULT_MEMORY));
    hr__fault_arm(HR_FAULT_IO, 5);
    assert_false(hr__fault_disarm());
    assert_false(hr__fault(HR_FAULT_IO));
}

static atomic_int faults_seen;

static void ask_for_faults(void *arg, int thread)
{
    (void)arg;
    (void)thread;
    for (int i = 0; i < 2000; i++)
        if (hr__fault(HR_FAULT_IO))
            atomic_fetch_add(&faults_seen, 1);
}

static void one_fault_for_all_threads(void **state)
{
    (void)state;
    atomic_store(&faults_seen, 0);
    hr__fault_arm(HR_FAULT_IO, 7999); /* the very last of 4 * 2000 */
    run_threads(4, ask_for_faults, NULL);
    assert_int_equal(atomic_load(&faults_seen), 1);
    assert_true(hr__fault_disarm());
}

/* --------------------------------------------------------------------------------------------------------- threads */

static void clock_runs(void **state)
{
    int64_t a = hr__clock_ns(), b;

    (void)state;
    usleep(2000);
    b = hr__clock_ns();
    assert_true(b - a >= 2000000);
    assert_true(b - a < 60000000000);
}

typedef struct ping {
    hr_mutex lock;
    hr_cond changed;
    int turn, rounds;
    bool signals_blocked, faults_open;
    char name[16];
} ping;

static void ping_thread(void *arg)
{
    ping *p = arg;
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    pthread_getname_np(pthread_self(), p->name, sizeof p->name);
    hr__lock(&p->lock);
    p->signals_blocked = sigismember(&mask, SIGINT) && sigismember(&mask, SIGTERM) && sigismember(&mask, SIGALRM);
    p->faults_open = !sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGBUS);
    while (p->rounds < 100) {
        while (p->turn != 1)
            hr__cond_wait(&p->changed, &p->lock);
        p->turn = 0;
        p->rounds++;
        hr__cond_signal(&p->changed);
    }
    hr__unlock(&p->lock);
}

static void threads_and_conditions(void **state)
{
    live_memory before = live_now();
    sigset_t mask;
    hr_thread t;
    ping p = { 0 };

    (void)state;
    hr__mutex_init(&p.lock);
    hr__cond_init(&p.changed);
    assert_int_equal(hr__thread_start(&t, "a name that is too long", ping_thread, &p), 0);
    hr__lock(&p.lock);
    while (p.rounds < 100) {
        p.turn = 1;
        hr__cond_broadcast(&p.changed);
        while (p.turn == 1)
            hr__cond_wait(&p.changed, &p.lock);
    }
    hr__unlock(&p.lock);
    hr__thread_join(t);
    assert_string_equal(p.name, "a name that is ");
    assert_true(p.signals_blocked);
    assert_true(p.faults_open);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    assert_false(sigismember(&mask, SIGINT)); /* ours is as before */
    hr__cond_clear(&p.changed);
    hr__mutex_clear(&p.lock);
    assert_no_leak(before);
}

static hr_mutex outer = HR_MUTEX_INIT, inner = HR_MUTEX_INIT;
static atomic_bool holds_outer, forked;

static void take_both(void *arg)
{
    (void)arg;
    hr__lock(&outer);
    atomic_store(&holds_outer, true);
    usleep(100000); /* the fork waits for `outer` now */
    hr__lock(&inner);
    hr__unlock(&inner);
    hr__unlock(&outer);
    while (!atomic_load(&forked)) /* TSan reports in the child a thread that ended, unjoined, before the fork */
        sched_yield();
}

/* The story: a fork took the locks one after another, and waited for a thread that held one and waited for another.
 * Python forks with its own lock held, so that the whole program stood still. */
static void locks_under_locks_and_a_fork(void **state)
{
    hr_thread t;
    pid_t pid;
    int status;

    (void)state;
    hr__mutex_survives_fork(&inner);
    hr__mutex_survives_fork(&outer);
    assert_int_equal(hr__thread_start(&t, "both", take_both, NULL), 0);
    while (!atomic_load(&holds_outer))
        sched_yield();
    pid = fork();
    if (pid == 0) {
        hr__lock(&outer);
        hr__lock(&inner);
        _exit(0);
    }
    atomic_store(&forked, true);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    hr__thread_join(t);
}

static void timed_waits(void **state)
{
    int64_t start = hr__clock_ns();
    hr_mutex m = HR_MUTEX_INIT;
    hr_cond c;

    (void)state;
    hr__cond_init(&c);
    hr__lock(&m);
    assert_false(hr__cond_wait_ns(&c, &m, 20000000));
    assert_true(hr__clock_ns() - start >= 20000000);
    start = hr__clock_ns();
    assert_false(hr__cond_wait_ns(&c, &m, -5));
    assert_true(hr__clock_ns() - start < 20000000000);
    hr__unlock(&m);
    hr__cond_clear(&c);
}

static void wake_late(void *arg)
{
    ping *p = arg;

    hr__lock(&p->lock);
    p->turn = 1;
    hr__cond_signal(&p->changed);
    hr__unlock(&p->lock);
}

static void longest_wait(void **state)
{
    ping p = { 0 };
    hr_thread t;

    (void)state;
    hr__mutex_init(&p.lock);
    hr__cond_init(&p.changed);
    hr__lock(&p.lock);
    assert_int_equal(hr__thread_start(&t, "late", wake_late, &p), 0);
    while (!p.turn)
        assert_true(hr__cond_wait_ns(&p.changed, &p.lock, INT64_MAX)); /* no overflow into the past */
    hr__unlock(&p.lock);
    hr__thread_join(t);
    hr__cond_clear(&p.changed);
    hr__mutex_clear(&p.lock);
}

static void no_work(void *arg) { (void)arg; }

static hr_status start_one(hr_error *err)
{
    hr_thread t;
    int rc = hr__thread_start(&t, "x", no_work, NULL);

    if (rc < 0)
        return hr__error_os(err, rc, "x", "thread");
    hr__thread_join(t);
    return HR_OK;
}

static void thread_faults(void **state)
{
    (void)state;
    assert_int_equal(run_with_faults(start_one, HR_FAULT_MEMORY | HR_FAULT_IO), 1);
}

/* --------------------------------------------------------------------------------------------------------- machine */

/* A machine as files: what the limits are read from. */
typedef struct machine_file {
    const char *name, *text;
} machine_file;

#define V2_MOUNT "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"

static const struct {
    const char *what;
    machine_file files[10];
    int64_t bytes; /* 0: no limit */
    double cpus;
} machines[] = {
    { .what = "no cgroups at all" },
    { .what = "v2, no limit",
      .files = { { "proc/self/cgroup", "0::/\n" },
                 { "proc/self/mountinfo", V2_MOUNT },
                 { "sys/fs/cgroup/memory.max", "max\n" },
                 { "sys/fs/cgroup/cpu.max", "max 100000\n" } } },
    { .what = "v2, at our group",
      .files = { { "proc/self/cgroup", "0::/a/b\n" },
                 { "proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n" V2_MOUNT },
                 { "sys/fs/cgroup/a/b/memory.max", "1000000\n" },
                 { "sys/fs/cgroup/a/b/cpu.max", "150000 100000\n" } },
      .bytes = 1000000,
      .cpus = 1.5 },
    { .what = "v2, a group above is narrower",
      .files = { { "proc/self/cgroup", "0::/a/b\n" },
                 { "proc/self/mountinfo", V2_MOUNT },
                 { "sys/fs/cgroup/a/b/memory.max", "5000000\n" },
                 { "sys/fs/cgroup/a/memory.max", "3000000\n" },
                 { "sys/fs/cgroup/a/b/cpu.max", "max 100000\n" },
                 { "sys/fs/cgroup/a/cpu.max", "50000 100000\n" } },
      .bytes = 3000000,
      .cpus = 0.5 },
    { .what = "v2, memory.high counts, a neighbour does not",
      .files = { { "proc/self/cgroup", "0::/a\n" },
                 { "proc/self/mountinfo", V2_MOUNT },
                 { "sys/fs/cgroup/a/memory.max", "max\n" },
                 { "sys/fs/cgroup/a/memory.high", "777\n" },
                 { "sys/fs/cgroup/b/memory.max", "5\n" },
                 { "sys/fs/cgroup/a/c/memory.max", "6\n" } },
      .bytes = 777 },
    { .what = "v2 in a container: the mount shows only our part",
      .files = { { "proc/self/cgroup", "0::/docker/abc/inner\n" },
                 { "proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro master:9 - cgroup2 cgroup rw\n" },
                 { "sys/fs/cgroup/inner/memory.max", "4000\n" },
                 { "sys/fs/cgroup/memory.max", "9000\n" } },
      .bytes = 4000 },
    { .what = "v2, our group is outside of what the mount shows",
      .files = { { "proc/self/cgroup", "0::/../other\n" },
                 { "proc/self/mountinfo", V2_MOUNT },
                 { "sys/fs/cgroup/memory.max", "9000\n" },
                 { "sys/fs/other/memory.max", "1\n" } },
      .bytes = 9000 },
    { .what = "v2, a name that begins like the mount's root",
      .files = { { "proc/self/cgroup", "0::/docker/abcdef\n" },
                 { "proc/self/mountinfo", "30 23 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n" },
                 { "sys/fs/cgroup/def/memory.max", "1\n" },
                 { "sys/fs/cgroup/memory.max", "9000\n" } },
      .bytes = 9000 },
    { .what = "v1, controllers apart, one mount for two",
      .files = { { "proc/self/cgroup", "9:name=systemd:/\n4:memory:/x/y\n2:cpu,cpuacct:/z\n0::/\n" },
                 { "proc/self/mountinfo", "33 31 0:29 / /cg/cpu,cpuacct rw shared:5 - cgroup cgroup rw,cpuacct,cpu\n"
                                          "35 31 0:32 / /cg/memory rw shared:6 - cgroup cgroup rw,memory\n" },
                 { "cg/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n" },
                 { "cg/memory/x/memory.limit_in_bytes", "2000000\n" },
                 { "cg/memory/memory.limit_in_bytes", "9223372036854771712\n" },
                 { "cg/cpu,cpuacct/z/cpu.cfs_quota_us", "250000\n" },
                 { "cg/cpu,cpuacct/z/cpu.cfs_period_us", "100000\n" },
                 { "cg/cpu,cpuacct/cpu.cfs_quota_us", "-1\n" },
                 { "cg/cpu,cpuacct/cpu.cfs_period_us", "100000\n" } },
      .bytes = 2000000,
      .cpus = 2.5 },
    { .what = "v1 in a container that sees the host's names",
      .files = { { "proc/self/cgroup", "4:memory:/docker/abc\n" },
                 { "proc/self/mountinfo", "35 31 0:32 /docker/abc /cg/memory ro - cgroup cgroup rw,memory\n" },
                 { "cg/memory/memory.limit_in_bytes", "123456\n" } },
      .bytes = 123456 },
    { .what = "v1 and v2 side by side",
      .files = { { "proc/self/cgroup", "4:memory:/m\n0::/u\n" },
                 { "proc/self/mountinfo", "35 31 0:32 / /cg/memory rw - cgroup cgroup rw,memory\n"
                                          "36 31 0:33 / /cg/unified rw - cgroup2 cgroup2 rw\n" },
                 { "cg/memory/m/memory.limit_in_bytes", "5000\n" },
                 { "cg/unified/u/cpu.max", "100000 100000\n" } },
      .bytes = 5000,
      .cpus = 1 },
    { .what = "damaged files",
      .files = { { "proc/self/cgroup", "\n:\n4\n4:memory\n0:\n0::/a\n" },
                 { "proc/self/mountinfo",
                   "\n1 2\n1 2 3 4 5\n - cgroup2 x y\n30 23 0:26 / - cgroup2 cgroup2 rw\n" V2_MOUNT },
                 { "sys/fs/cgroup/a/memory.max", "\n" },
                 { "sys/fs/cgroup/a/cpu.max", "100000\n" },
                 { "sys/fs/cgroup/memory.max", "-7\n" },
                 { "sys/fs/cgroup/cpu.max", "0 0\n" } } },
};

static void limits_of_containers(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(machines); i++) {
        char dir[64];
        int64_t bytes;
        double cpus;
        temp_dir_new(dir);
        for (int k = 0; k < HR_LEN(machines[i].files) && machines[i].files[k].name; k++)
            temp_file(dir, machines[i].files[k].name, machines[i].files[k].text,
                      (int64_t)strlen(machines[i].files[k].text));
        hr__cgroup_limits(dir, &bytes, &cpus);
        if (bytes != (machines[i].bytes ? machines[i].bytes : INT64_MAX) || cpus != machines[i].cpus)
            fail_msg("%s: %lld bytes, %g CPUs", machines[i].what, (long long)bytes, cpus);
        temp_dir_free(dir);
    }
}

/* Long lines come in pieces, and a long group is no harm. */
static void long_lines(void **state)
{
    char dir[64], text[12000];
    int64_t bytes;
    double cpus;

    (void)state;
    temp_dir_new(dir);
    memset(text, 'x', sizeof text);
    memcpy(text, "0::/", 4);
    text[sizeof text - 1] = '\n';
    temp_file(dir, "proc/self/cgroup", text, sizeof text);
    memcpy(text, "30 23 0:26 / ", 13);
    temp_file(dir, "proc/self/mountinfo", text, sizeof text);
    hr__cgroup_limits(dir, &bytes, &cpus);
    assert_int_equal(bytes, INT64_MAX);
    temp_dir_free(dir);
}

/* The CPUs of the affinity mask alone; the sum of all CPUs is no CPU. */
static void machine_cpu(void **state)
{
    int64_t ns, tick = 1000000000 / sysconf(_SC_CLK_TCK);
    char dir[64], text[1024];
    int cpu = sched_getcpu(), n_cpus;

    (void)state;
    temp_dir_new(dir);
    assert_false(hr__machine_cpu(dir, &ns, &n_cpus));
    assert_int_equal(n_cpus, 0);
    snprintf(text, sizeof text,
             "cpu  9 9 9 9 9 9 9 9 9 9\ncpu%d 100 20 30 4000 500 6 7 80 100 0\ncpu1000000 1 1 1 1 1 1 1 1 0 0\n"
             "intr 7 8 9\ncpu%d 1 1 1 1 1 1 1 1 1 1\n",
             cpu, cpu);
    temp_file(dir, "proc/stat", text, (int64_t)strlen(text));
    assert_true(hr__machine_cpu(dir, &ns, &n_cpus));
    assert_int_equal(n_cpus, 1);
    assert_int_equal(ns, (100 + 20 + 30 + 6 + 7 + 80) * tick);
    temp_dir_free(dir);
    assert_true(hr__machine_cpu("", &ns, &n_cpus));
    assert_in_range(n_cpus, 1, sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(hr__thread_delay_ns() >= -1);
}

static void this_machine(void **state)
{
    (void)state;
    assert_in_range(hr__cpus_allowed(), 1, sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(hr__memory_physical() >= 16 << 20);
    assert_true(hr__memory_physical() <= (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE));
    assert_int_equal(hr__memory_page(), sysconf(_SC_PAGESIZE));
    assert_int_equal(hr__pid(), getpid());
}

/* ----------------------------------------------------------------------------------------------------------- files */

static void files(void **state)
{
    char dir[64], path[128], back[16] = { 0 };
    hr_stat s;
    int fd;

    (void)state;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/file", dir);
    assert_int_equal(hr__file_open(path), -ENOENT);
    assert_int_equal(hr__file_stat(path, &s), -ENOENT);
    assert_true((fd = hr__file_create(path)) >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(hr__file_write(fd, "0123456789", 10), 10);
    assert_int_equal(hr__file_write(fd, NULL, 0), 0);
    assert_int_equal(hr__file_read_at(fd, back, 1, 0), -EBADF); /* opened for writing */
    hr__file_close(fd);
    assert_true((fd = hr__file_open(path)) >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    hr__file_advise(fd, 0, 10);
    assert_int_equal(hr__file_read_at(fd, back, 4, 3), 4);
    assert_memory_equal(back, "3456", 5);
    assert_int_equal(hr__file_read_at(fd, back, 16, 6), 4); /* the end */
    assert_int_equal(hr__file_read_at(fd, back, 16, 10), 0);
    assert_int_equal(hr__file_read_at(fd, back, 16, -1), -EINVAL);
    assert_int_equal(hr__file_write(fd, "x", 1), -EBADF);
    assert_int_equal(hr__file_stat_fd(fd, &s), 0);
    assert_true(s.n_bytes == 10 && s.is_file && !s.is_dir && s.mtime_ns > (int64_t)1600000000 * 1000000000);
    hr__file_close(fd);
    hr__file_close(-1);
    assert_int_equal(hr__file_stat_fd(-1, &s), -EBADF);
    assert_int_equal(hr__file_stat(dir, &s), 0);
    assert_true(s.is_dir && !s.is_file);
    assert_true((fd = hr__file_create(path)) >= 0); /* truncates */
    assert_int_equal(hr__file_stat_fd(fd, &s), 0);
    assert_int_equal(s.n_bytes, 0);
    hr__file_close(fd);
    assert_int_equal(hr__file_create(dir), -EISDIR);
    temp_dir_free(dir);
}

/* A write to a full pipe and a read that a signal interrupts are gone on with. */
static atomic_int alarms;
static void on_alarm(int sig)
{
    (void)sig;
    atomic_fetch_add(&alarms, 1);
}

static void drain(void *arg)
{
    static char buf[65536];
    int fd = *(int *)arg;

    while (read(fd, buf, sizeof buf) > 0)
        usleep(4000); /* some signals come while nothing is written yet */
}

static void interrupted_writes(void **state)
{
    struct sigaction act = { .sa_handler = on_alarm }, old;
    struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    static char data[1 << 19];
    int fds[2];
    hr_thread t;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    sigaction(SIGALRM, &act, &old); /* without SA_RESTART */
    assert_int_equal(hr__thread_start(&t, "drain", drain, &fds[0]), 0);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(hr__file_write(fds[1], data, sizeof data), sizeof data);
    assert_int_equal(hr__wait_readable(fds[1], 20), 0); /* not before its time either */
    setitimer(ITIMER_REAL, &never, NULL);
    close(fds[1]);
    hr__thread_join(t);
    close(fds[0]);
    sigaction(SIGALRM, &old, NULL);
    assert_true(atomic_load(&alarms) > 0);
}

static void folders(void **state)
{
    static const char *const made[] = { "b", "a", "B", "sub/x", ".hidden", "a.b", "\xc3\xa4" };
    static const char *const want[] = { ".hidden", "B", "a", "a.b", "b", "sub", "\xc3\xa4" };
    live_memory before = live_now();
    char dir[64], path[128], **names = NULL;

    (void)state;
    temp_dir_new(dir);
    assert_int_equal(hr__dir_list(dir, &names), 0);
    hr__dir_list_free(names, 0);
    for (int i = 0; i < HR_LEN(made); i++)
        temp_file(dir, made[i], "", 0);
    assert_int_equal(hr__dir_list(dir, &names), HR_LEN(want));
    for (int i = 0; i < HR_LEN(want); i++)
        assert_string_equal(names[i], want[i]);
    hr__dir_list_free(names, HR_LEN(want));
    snprintf(path, sizeof path, "%s/a", dir);
    assert_int_equal(hr__dir_list(path, &names), -ENOTDIR);
    assert_null(names);
    temp_dir_free(dir);
    assert_int_equal(hr__dir_list(dir, &names), -ENOENT);
    hr__dir_list_free(NULL, 0);
    assert_no_leak(before);
}

static void large_folder(void **state)
{
    char dir[64], name[32], **names = NULL;

    (void)state;
    temp_dir_new(dir);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "file-%03d", (i * 7) % 500);
        temp_file(dir, name, "", 0);
    }
    assert_int_equal(hr__dir_list(dir, &names), 500);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "file-%03d", i);
        assert_string_equal(names[i], name);
    }
    hr__dir_list_free(names, 500);
    temp_dir_free(dir);
}

/* ------------------------------------------------------------------------------------------------------------ maps */

static void private_maps(void **state)
{
    static const size_t sizes[] = { 1, 4096, 4097, 100000, (2 << 20) - 1, 2 << 20, (2 << 20) + 4096, 9999999 };

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        uint8_t *p = hr__map_private(sizes[i]);
        assert_non_null(p);
        for (size_t k = 0; k < sizes[i]; k += 4096)
            assert_int_equal(p[k], 0);
        memset(p, 1, sizes[i]);
        hr__unmap(p, sizes[i]);
    }
    hr__unmap(NULL, 5);
    assert_null(hr__map_private(SIZE_MAX));
    assert_null(hr__map_private(SIZE_MAX / 2));
}

static void memfds(void **state)
{
    int fd = hr__memfd("test", 10000), plain;
    int64_t n = 0;
    char *w, *r;

    (void)state;
    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(hr__memfd_check(fd, &n), 0);
    assert_int_equal(n, 10000);
    w = hr__map_shared(fd, 10000, true);
    r = hr__map_shared(fd, 10000, false);
    strcpy(w + 5000, "seen");
    assert_string_equal(r + 5000, "seen");
    assert_int_equal(ftruncate(fd, 5000), -1);                 /* sealed */
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), -1); /* nor may a peer seal more */
    assert_int_equal(ftruncate(fd, 20000), 0);                 /* growing is allowed */
    assert_int_equal(hr__memfd_check(fd, &n), 0);
    assert_int_equal(n, 20000);
    hr__memfd_punch(fd, 0, 8192);
    assert_int_equal(r[5000], 0);
    hr__unmap(w, 10000);
    hr__unmap(r, 10000);
    close(fd);
    assert_true((plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING)) >= 0);
    assert_int_equal(hr__memfd_check(plain, &n), -EPERM); /* not sealed: could shrink under us */
    close(plain);
    assert_true((plain = open("/dev/null", O_RDONLY)) >= 0);
    assert_true(hr__memfd_check(plain, &n) < 0);
    close(plain);
    assert_null(hr__map_shared(-1, 4096, false));
}

/* --------------------------------------------------------------------------------------------------------- sockets */

static void socket_messages(void **state)
{
    int fds[2], sent[3], got[4] = { -1, -1, -1, -1 }, n = -1;
    char buf[64];

    (void)state;
    assert_int_equal(local_sockets(fds), 0);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, got, 4, &n), -EAGAIN);
    assert_int_equal(hr__wait_readable(fds[1], 1), 0);
    assert_int_equal(hr__socket_send(fds[0], "one", 3, NULL, 0), 3);
    assert_int_equal(hr__socket_send(fds[0], "second", 6, NULL, 0), 6);
    assert_int_equal(hr__wait_readable(fds[1], -1), 1);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, got, 4, &n), 3); /* messages, not a stream */
    assert_int_equal(n, 0);
    assert_int_equal(hr__socket_recv(fds[1], buf, 3, got, 4, &n), -EMSGSIZE); /* not cut in silence */
    for (int i = 0; i < 3; i++)
        sent[i] = hr__memfd("passed", 100 + i);
    assert_int_equal(hr__socket_send(fds[0], "fds", 3, sent, 3), 3);
    for (int i = 0; i < 3; i++)
        close(sent[i]);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, got, 4, &n), 3);
    assert_int_equal(n, 3);
    for (int i = 0; i < 3; i++) {
        int64_t size = 0;
        assert_int_equal(hr__memfd_check(got[i], &size), 0);
        assert_int_equal(size, 100 + i);
        assert_true(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
        close(got[i]);
    }
    assert_int_equal(hr__socket_send(fds[0], "x", 1, sent, 254), -EINVAL);
    close(fds[0]);
    assert_int_equal(hr__wait_readable(fds[1], -1), 1);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, got, 4, &n), 0); /* the end */
    assert_int_equal(hr__socket_send(fds[1], "x", 1, NULL, 0), -EPIPE);        /* and no signal */
    close(fds[1]);
}

static int open_descriptors(void)
{
    char **names = NULL;
    int n = hr__dir_list("/proc/self/fd", &names);

    hr__dir_list_free(names, n);
    return n;
}

static void private_files(void **state)
{
    char dir[64], path[128], link[128];
    int before = open_descriptors(), d, fd, other;

    (void)state;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/private", dir);
    d = hr__dir_open_private(path); /* makes it */
    assert_true(d >= 0);
    fd = hr__file_create_private(d, "a");
    assert_true(fd >= 0);
    assert_int_equal(hr__file_write(fd, "x", 1), 1);
    assert_int_equal(hr__file_close_written(fd), 0);
    assert_int_equal(hr__file_create_private(d, "a"), -EEXIST);
    fd = hr__file_open_private(d, "a");
    assert_true(fd >= 0);
    hr__file_close(fd);
    assert_int_equal(hr__file_rename_in(d, "a", "b"), 0);
    assert_int_equal(hr__file_open_private(d, "a"), -ENOENT);
    assert_int_equal(symlinkat("b", d, "link"), 0);
    assert_int_equal(hr__file_open_private(d, "link"), -ELOOP);
    assert_int_equal(hr__file_lock_private(d, "link"), -ELOOP);
    assert_int_equal(linkat(d, "b", d, "second", 0), 0);
    assert_int_equal(hr__file_open_private(d, "b"), -EPERM);
    assert_int_equal(hr__file_remove_in(d, "second"), 0);
    assert_int_equal(fchmodat(d, "b", 0640, 0), 0);
    assert_int_equal(hr__file_open_private(d, "b"), -EPERM);
    assert_int_equal(mkdirat(d, "folder", 0700), 0);
    assert_int_equal(hr__file_open_private(d, "folder"), -EPERM);
    fd = hr__file_lock_private(d, "lock");
    assert_true(fd >= 0);
    assert_int_equal(hr__file_lock_private(d, "lock"), -EAGAIN);
    hr__file_close(fd);
    other = hr__file_lock_private(d, "lock");
    assert_true(other >= 0);
    hr__file_close(other);
    hr__file_close(d);
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink(path, link), 0);
    assert_true(hr__dir_open_private(link) < 0);
    assert_int_equal(hr__link_read(link, path, 4), -ENAMETOOLONG);
    assert_int_equal(hr__link_read(link, path, sizeof path), (int)strlen(path));
    assert_int_equal(chmod(path, 0750), 0);
    assert_int_equal(hr__dir_open_private(path), -EPERM);
    temp_dir_free(dir);
    assert_int_equal(open_descriptors(), before);
}

/* Descriptors that the receiver has no room for are closed, not leaked. */
static void unwanted_descriptors(void **state)
{
    int before = open_descriptors(), fds[2], many[100], got[2], n;
    char buf[8];

    (void)state;
    assert_int_equal(local_sockets(fds), 0);
    for (int i = 0; i < 100; i++)
        many[i] = fds[0];
    assert_int_equal(hr__socket_send(fds[0], "x", 1, many, 100), 1);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, got, 2, &n), -EMSGSIZE);
    assert_int_equal(n, 0);
    assert_int_equal(hr__socket_send(fds[0], "x", 1, many, 1), 1);
    assert_int_equal(hr__socket_recv(fds[1], buf, sizeof buf, NULL, 0, &n), -EMSGSIZE);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(open_descriptors(), before);
}

static void full_socket(void **state)
{
    static char data[10000];
    int fds[2], sent = 0;
    int64_t rc;

    (void)state;
    assert_int_equal(local_sockets(fds), 0);
    while ((rc = hr__socket_send(fds[0], data, sizeof data, NULL, 0)) > 0)
        sent++;
    assert_int_equal(rc, -EAGAIN);
    assert_true(sent > 0);
    close(fds[0]);
    close(fds[1]);
}

static void listening(void **state)
{
    char name[64], long_name[200];
    int server, client, peer, uid = -1, pid = -1, n;
    char buf[8];

    (void)state;
    snprintf(name, sizeof name, "headrace-test-%d", (int)getpid());
    assert_int_equal(hr__socket_connect(name), -ECONNREFUSED);
    assert_true((server = hr__socket_listen(name)) >= 0);
    assert_int_equal(hr__socket_listen(name), -EADDRINUSE);
    assert_int_equal(hr__socket_accept(server, &uid, &pid), -EAGAIN);
    assert_true((client = hr__socket_connect(name)) >= 0);
    assert_true((peer = hr__socket_accept(server, &uid, &pid)) >= 0);
    assert_int_equal(uid, getuid());
    assert_int_equal(pid, getpid());
    assert_int_equal(hr__socket_send(client, "hi", 2, NULL, 0), 2);
    assert_int_equal(hr__socket_recv(peer, buf, sizeof buf, NULL, 0, &n), 2);
    close(client);
    close(peer);
    close(server);
    assert_int_equal(hr__socket_connect(name), -ECONNREFUSED); /* nothing is left in a file system */
    memset(long_name, 'x', sizeof long_name);
    long_name[107] = 0;
    assert_true((server = hr__socket_listen(long_name)) >= 0); /* the longest */
    close(server);
    long_name[107] = 'x';
    long_name[108] = 0;
    assert_int_equal(hr__socket_listen(long_name), -ENAMETOOLONG);
    assert_int_equal(hr__socket_connect(long_name), -ENAMETOOLONG);
}

/* ----------------------------------------------------------------------------------------- every call that can fail */

static char fault_dir[64];

#define TRY_OS(call)                                                                                                   \
    do {                                                                                                               \
        if ((rc = (call)) < 0) {                                                                                       \
            st = hr__error_os(err, rc, "x", #call);                                                                    \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

static hr_status use_files(hr_error *err)
{
    char path[128], buf[8], **names = NULL;
    int out = -1, in = -1, n = 0;
    hr_status st = HR_OK;
    hr_stat s;
    int64_t rc;

    snprintf(path, sizeof path, "%s/f", fault_dir);
    TRY_OS(out = hr__file_create(path));
    TRY_OS(hr__file_write(out, "abc", 3));
    TRY_OS(in = hr__file_open(path));
    TRY_OS(hr__file_read_at(in, buf, 3, 0));
    TRY_OS(hr__file_stat(path, &s));
    TRY_OS(hr__file_stat_fd(in, &s));
    TRY_OS(n = hr__dir_list(fault_dir, &names));
done:
    hr__dir_list_free(names, n);
    hr__file_close(out);
    hr__file_close(in);
    return st;
}

static hr_status use_memory(hr_error *err)
{
    void *p = hr__map_private(100), *q = NULL;
    hr_status st = HR_OK;
    int64_t rc, n;
    int fd = -1;

    if (!p)
        HR_FAIL(HR_NO_MEMORY, "map");
    TRY_OS(fd = hr__memfd("x", 200));
    TRY_OS(hr__memfd_check(fd, &n));
    if (!(q = hr__map_shared(fd, 200, true)))
        HR_FAIL(HR_NO_MEMORY, "map");
done:
    hr__unmap(p, 100);
    hr__unmap(q, 200);
    hr__file_close(fd);
    return st;
}

static hr_status use_sockets(hr_error *err)
{
    int fds[2] = { -1, -1 }, server = -1, client = -1, peer = -1, uid, pid, n;
    char name[64], buf[8];
    hr_status st = HR_OK;
    int64_t rc;

    snprintf(name, sizeof name, "headrace-fault-%d", (int)getpid());
    TRY_OS(local_sockets(fds));
    TRY_OS(hr__socket_send(fds[0], "x", 1, NULL, 0));
    TRY_OS(hr__wait_readable(fds[1], 0));
    TRY_OS(hr__socket_recv(fds[1], buf, sizeof buf, NULL, 0, &n));
    TRY_OS(server = hr__socket_listen(name));
    TRY_OS(client = hr__socket_connect(name));
    TRY_OS(peer = hr__socket_accept(server, &uid, &pid));
done:
    hr__file_close(fds[0]);
    hr__file_close(fds[1]);
    hr__file_close(server);
    hr__file_close(client);
    hr__file_close(peer);
    return st;
}

static void faults(void **state)
{
    int before = open_descriptors();

    (void)state;
    temp_dir_new(fault_dir);
    assert_int_equal(run_with_faults(use_files, HR_FAULT_IO), 7);
    assert_int_equal(run_with_faults(use_files, HR_FAULT_MEMORY), 2);
    assert_int_equal(run_with_faults(use_memory, HR_FAULT_IO | HR_FAULT_MEMORY), 4);
    assert_int_equal(run_with_faults(use_sockets, HR_FAULT_IO), 7);
    temp_dir_free(fault_dir);
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fault_switch),
        cmocka_unit_test(one_fault_for_all_threads),
        cmocka_unit_test(clock_runs),
        cmocka_unit_test(threads_and_conditions),
        cmocka_unit_test(locks_under_locks_and_a_fork),
        cmocka_unit_test(timed_waits),
        cmocka_unit_test(longest_wait),
        cmocka_unit_test(thread_faults),
        cmocka_unit_test(limits_of_containers),
        cmocka_unit_test(long_lines),
        cmocka_unit_test(this_machine),
        cmocka_unit_test(machine_cpu),
        cmocka_unit_test(files),
        cmocka_unit_test(interrupted_writes),
        cmocka_unit_test(folders),
        cmocka_unit_test(private_files),
        cmocka_unit_test(large_folder),
        cmocka_unit_test(private_maps),
        cmocka_unit_test(memfds),
        cmocka_unit_test(socket_messages),
        cmocka_unit_test(unwanted_descriptors),
        cmocka_unit_test(full_socket),
        cmocka_unit_test(listening),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
