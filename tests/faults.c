/* faults.c - implements harness.h: faults, threads, random data, files. */
#include "harness.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

live_memory live_now(void) { return (live_memory){ hr__live_blocks(), hr__live_bytes() }; }

void assert_no_leak_at(live_memory before, const char *file, int line)
{
    live_memory now = live_now();

    if (now.blocks != before.blocks || now.bytes != before.bytes) {
        print_error("live: %lld blocks of %lld bytes before, %lld of %lld now\n", (long long)before.blocks,
                    (long long)before.bytes, (long long)now.blocks, (long long)now.bytes);
        _fail(file, line);
    }
}

void assert_status_at(hr_status got, hr_status want, const hr_error *err, const char *file, int line)
{
    if (got != want) {
        print_error("%s, %s expected: %s\n", hr_status_name(got), hr_status_name(want), err ? err->text : "(no error)");
        _fail(file, line);
    }
}

void assert_contains_at(const char *text, const char *part, const char *file, int line)
{
    if (!text || !strstr(text, part)) {
        print_error("'%s' expected in: %s\n", part, text ? text : "(NULL)");
        _fail(file, line);
    }
}

/* ---------------------------------------------------------------------------------------------------------- faults */

typedef struct fault_run {
    hr_status (*fn)(void *context, hr_error *err);
    void *context;
    int kinds;
    live_memory before;
} fault_run;

/* One run with call number `call` failing (< 0: none); true if it was reached. */
static bool run_once(const fault_run *r, int64_t call)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;
    bool hit;

    if (call >= 0)
        hr__fault_arm(r->kinds & (HR_FAULT_MEMORY | HR_FAULT_IO), call);
    st = r->fn(r->context, &err);
    hit = hr__fault_disarm();
    if (!hit && st)
        fail_msg("nothing failed (call %lld), but: %s: %s", (long long)call, hr_status_name(st), err.text);
    if (hit && !st && !(r->kinds & MAY_RECOVER))
        fail_msg("call %lld failed, but HR_OK was returned", (long long)call);
    if (st && (err.status != st || !err.text[0]))
        fail_msg("call %lld failed: %s returned, the error says %s '%s'", (long long)call, hr_status_name(st),
                 hr_status_name(err.status), err.text);
    hr_error_clear(&err);
    return hit;
}

static bool is_thorough(void)
{
    static int all = -1;

    if (all < 0)
        all = getenv("HEADRACE_THOROUGH") != NULL;
    return all;
}

/* After the first thousand, growing steps: calls of a long loop fail alike. Without a sanitizer each of the thousand
 * fails, and what it leaves over is counted. A sanitizer takes ten times as long: growing steps from the two hundredth
 * call on. TSan looks at threads: each eighth call from the fiftieth on. */
static int64_t step_from(int64_t call)
{
    if (!SANITIZED || is_thorough())
        return 1 + call / 1000;
    if (THREADS_ARE_WATCHED)
        return (call >= 50 ? 8 : 1) + call / 1000;
    return 1 + (call >= 200 ? call / 50 : 0);
}

int run_with_faults_on(hr_status (*fn)(void *context, hr_error *err), void *context, int kinds)
{
    fault_run r = { .fn = fn, .context = context, .kinds = kinds };
    int n = 0;

    run_once(&r, -1); /* makes what lives until the process ends */
    hr__pool_trim(0);
    r.before = live_now();
    for (int64_t call = 0; run_once(&r, call); call += step_from(call)) {
        live_memory now = live_now();
        if (now.blocks != r.before.blocks || now.bytes != r.before.bytes)
            fail_msg("call %lld failed: %lld blocks of %lld bytes are left over", (long long)call,
                     (long long)(now.blocks - r.before.blocks), (long long)(now.bytes - r.before.bytes));
        n++;
    }
    assert_no_leak(r.before);
    assert_int_not_equal(n, 0);
    return n;
}

static hr_status call_plain(void *context, hr_error *err)
{
    hr_status (**fn)(hr_error *) = context;

    return (*fn)(err);
}

int run_with_faults(hr_status (*fn)(hr_error *err), int kinds) { return run_with_faults_on(call_plain, &fn, kinds); }

/* --------------------------------------------------------------------------------------------------------- threads */

typedef struct thread_run {
    hr_thread thread;
    void (*fn)(void *arg, int thread);
    void *arg;
    int number;
    pthread_barrier_t *start;
} thread_run;

static void run_one(void *p)
{
    thread_run *r = p;

    pthread_barrier_wait(r->start);
    r->fn(r->arg, r->number);
}

void run_threads(int n, void (*fn)(void *arg, int thread), void *arg)
{
    thread_run *runs = test_calloc((size_t)n, sizeof *runs);
    pthread_barrier_t start;

    pthread_barrier_init(&start, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        runs[i] = (thread_run){ .fn = fn, .arg = arg, .number = i, .start = &start };
        assert_int_equal(hr__thread_start(&runs[i].thread, "test", run_one, &runs[i]), 0);
    }
    for (int i = 0; i < n; i++)
        hr__thread_join(runs[i].thread);
    pthread_barrier_destroy(&start);
    test_free(runs);
}

void run_without_kernels(void (*fn)(void **state), void **state)
{
    pid_t child = fork();
    int status;

    if (child == 0) {
        setenv("HR_CPU", "scalar", 1);
        fn(state);
        _exit(hr__cpu_features() != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* --------------------------------------------------------------------------------------------------- random, files */

int repeats(int n) { return is_thorough() || n < 10 ? n : n / 10; }

uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15;

    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    return z ^ (z >> 31);
}

int64_t random_below(uint64_t *state, int64_t n) { return (int64_t)(next_random(state) % (uint64_t)n); }

int local_sockets(int fds[2])
{
    if (hr__fault(HR_FAULT_IO))
        return -EIO;
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0 ? -errno : 0;
}

void temp_dir_new(char path[64])
{
    strcpy(path, "/tmp/headrace_test_XXXXXX");
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *at)
{
    (void)s;
    (void)kind;
    (void)at;
    return remove(path);
}

void temp_dir_free(const char *path) { assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0); }

void temp_file(const char *dir, const char *name, const void *data, int64_t n)
{
    char path[1024];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0777);
        *p = '/';
    }
    remove(path); /* some file systems flush a file at once that is truncated and rewritten */
    assert_non_null(f = fopen(path, "wb"));
    assert_int_equal(fwrite(data, 1, (size_t)n, f), (size_t)n);
    assert_int_equal(fclose(f), 0);
}

char test_dir[64];

int test_dir_new(void **state)
{
    (void)state;
    temp_dir_new(test_dir);
    return 0;
}

int test_dir_free(void **state)
{
    (void)state;
    temp_dir_free(test_dir);
    return 0;
}
