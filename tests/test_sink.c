/* test_sink.c - files appear whole or not at all. */
#include "harness.h"
#include "io/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char *at(const char *name)
{
    static char paths[4][200];
    static int next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", test_dir, name);
    return path;
}

/* Everything in the folder, hidden files as well. */
static int count_entries(const char *path)
{
    DIR *d = opendir(path); /* not hr__dir_list: faults are for the code under test */
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    closedir(d);
    return n;
}

static void check_bytes(const char *path, const uint8_t *want, int64_t n)
{
    uint8_t *got = malloc((size_t)n + 1);
    int fd = open(path, O_RDONLY);

    assert_true(fd >= 0);
    assert_int_equal(read(fd, got, (size_t)n + 1), n);
    assert_memory_equal(got, want, (size_t)n);
    close(fd);
    free(got);
}

enum { TOTAL = 900000 };

static void fill(uint8_t *data)
{
    uint64_t random = 7;

    for (int i = 0; i < TOTAL; i++)
        data[i] = (uint8_t)next_random(&random);
}

/* In pieces from one byte to more than the buffer, then the first bytes again. */
static hr_status write_all(hr_sink *s, const uint8_t *data, hr_error *err)
{
    uint64_t random = 3;

    for (int64_t done = 0; done < TOTAL;) {
        int64_t n = 1 + random_below(&random, done % 3 ? 300000 : 40);

        n = HR_MIN(n, TOTAL - done);
        HR_TRY(hr__sink_write(s, data + done, n, err));
        done += n;
        if (hr__sink_bytes(s) != done)
            return hr_error_set(err, HR_BUG, "counted wrong");
    }
    return hr__sink_write_at(s, 5, data + 5, 10, err);
}

static hr_status write_file(const char *path, bool replace, bool park, hr_error *err)
{
    static uint8_t data[TOTAL];
    hr_leases *leases = NULL;
    hr_sink *s = NULL;
    hr_status st = HR_OK;

    fill(data);
    if (park && !(leases = hr__leases_new(NULL)))
        return hr_error_set(err, HR_NO_MEMORY, "no memory for leases");
    HR_GO(hr__sink_open(path, replace, NULL, &s, err));
    HR_GO(write_all(s, data, err));
    HR_GO(hr__sink_finish(s, HR_SYNC_ALL, err));
    if (park)
        HR_GO(hr__sink_park(s, leases, err));
    st = hr__sink_commit(s, path, err);
    s = NULL;
done:
    hr__sink_drop(s);
    hr__leases_free(leases);
    return st;
}

static void test_contents(void **unused)
{
    static uint8_t data[TOTAL];
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    fill(data);
    for (int park = 0; park < 2; park++)
        for (int replace = 0; replace < 2; replace++) {
            char *path = at("a/b/c.bin");
            live_memory before = live_now();

            unlink(path);
            assert_ok(write_file(path, replace, park, &err), &err);
            check_bytes(path, data, TOTAL);
            assert_int_equal(count_entries(at("a/b")), 1);
            if (replace)
                assert_ok(write_file(path, true, park, &err), &err);
            else {
                assert_status(write_file(path, false, park, &err), HR_IO, &err);
                assert_contains(err.text, "c.bin");
                assert_contains(err.text, "exists");
            }
            check_bytes(path, data, TOTAL);
            assert_int_equal(count_entries(at("a/b")), 1);
            assert_no_leak(before);
        }
}

static void test_nothing_before_commit(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;

    (void)unused;
    assert_ok(hr__sink_open(at("x/y/z.bin"), false, NULL, &s, &err), &err);
    assert_ok(hr__sink_write(s, "abc", 3, &err), &err);
    assert_ok(hr__sink_finish(s, HR_SYNC_DATA, &err), &err);
    assert_int_equal(access(at("x/y/z.bin"), F_OK), -1);
    hr__sink_drop(s);
    assert_int_equal(access(at("x"), F_OK), -1); /* folders that it made are gone as well */
    assert_int_equal(count_entries(test_dir), 0);
}

static hr_status one_file(void *context, hr_error *err)
{
    int way = *(int *)context;
    hr_status st = write_file(at("f/g.bin"), way & 1, way & 2, err);
    int left = access(at("f"), F_OK) == 0 ? count_entries(at("f")) : 0;

    if (!st && left != 1)
        return hr_error_set(err, HR_BUG, "%d files", left);
    if (st && left && !((way & 1) && (strstr(err->text, "sync") || strstr(err->text, "f: ")))) {
        print_error("way %d: %d files are left after: %s\n", way, left, err->text);
        fail();
    }
    unlink(at("f/g.bin"));
    rmdir(at("f"));
    return st;
}

static void test_faults(void **unused)
{
    (void)unused;
    for (int way = 0; way < 4; way++)
        run_with_faults_on(one_file, &way, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    assert_int_equal(count_entries(test_dir), 0);
}

static void in_child(void (*fn)(void), int want_signal)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        fn();
        _exit(0);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (want_signal) {
        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), want_signal);
    } else {
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void write_and_die(void)
{
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;

    if (!hr__sink_open(at("killed.bin"), false, NULL, &s, &err) &&
        !hr__sink_write(s, test_dir, sizeof test_dir, &err) && !hr__sink_finish(s, HR_SYNC_NONE, &err))
        kill(getpid(), SIGKILL);
}

static void park_and_die(void)
{
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;

    if (!hr__sink_open(at("killed.bin"), false, NULL, &s, &err) &&
        !hr__sink_write(s, test_dir, sizeof test_dir, &err) && !hr__sink_finish(s, HR_SYNC_NONE, &err) &&
        !hr__sink_park(s, NULL, &err))
        kill(getpid(), SIGKILL);
}

/* The kernel forgets an unnamed file; a hidden one is removed by the next who writes there, but not that of a process
 * that lives. */
static void test_kill(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;

    (void)unused;
    in_child(write_and_die, SIGKILL);
    assert_int_equal(count_entries(test_dir), 0);
    in_child(park_and_die, SIGKILL);
    assert_int_equal(count_entries(test_dir), 1);
    assert_ok(hr__sink_open(at("mine.bin"), false, NULL, &s, &err), &err);
    assert_ok(hr__sink_finish(s, HR_SYNC_NONE, &err), &err);
    assert_ok(hr__sink_park(s, NULL, &err), &err);
    assert_int_equal(count_entries(test_dir), 2);
    hr__part_sweep(test_dir);
    assert_int_equal(count_entries(test_dir), 1);
    hr__sink_drop(s);
    assert_int_equal(count_entries(test_dir), 0);
}

static void write_too_much(void)
{
    struct rlimit limit = { 300000, 300000 };
    hr_error err = HR_ERROR_INIT;

    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    if (write_file(at("big.bin"), false, false, &err) != HR_DISK_FULL || !strstr(err.text, "big.bin") ||
        !strstr(err.text, "bytes after"))
        _exit(1);
}

static void test_disk_full(void **unused)
{
    (void)unused;
    in_child(write_too_much, 0);
    assert_int_equal(count_entries(test_dir), 0);
}

static void test_refusals(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;

    (void)unused;
    temp_file(test_dir, "file", "x", 1);
    assert_status(hr__sink_open(at("file/x"), false, NULL, &s, &err), HR_IO, &err);
    assert_contains(err.text, "expected a folder, found the file");
    assert_status(hr__sink_open(at("sub/"), false, NULL, &s, &err), HR_INVALID, &err);
    assert_status(hr__sink_open("s3://bucket/x", false, NULL, &s, &err), HR_UNSUPPORTED, &err);
    assert_ok(hr__sink_open(at("y"), false, NULL, &s, &err), &err);
    assert_status(hr__sink_write_at(s, 0, "x", 1, &err), HR_BUG, &err);
    hr__sink_drop(s);
    assert_int_equal(count_entries(test_dir), 1);
}

/* "/dev/fd/N" continues the open file where it stands; its bytes cannot be written twice once they left. */
static void test_descriptor(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    char *path = at("log"), name[64];
    static uint8_t data[TOTAL + 5];
    hr_sink *s = NULL;
    int fd = open(path, O_WRONLY | O_CREAT, 0666);

    (void)unused;
    assert_int_equal(write(fd, "head:", 5), 5);
    snprintf(name, sizeof name, "/dev/fd/%d", fd);
    assert_true(hr__sink_streams(name) && hr__sink_streams("/dev/null") && hr__sink_streams("/dev/stdout"));
    assert_false(hr__sink_streams(path) || hr__sink_streams(test_dir) || hr__sink_streams("/dev/fd/x"));
    memcpy(data, "head:", 5);
    fill(data + 5);
    assert_ok(hr__sink_open(name, false, NULL, &s, &err), &err);
    assert_ok(hr__sink_write(s, data + 5, 10, &err), &err);
    assert_ok(hr__sink_write_at(s, 0, data + 5, 5, &err), &err); /* still in the buffer */
    assert_ok(hr__sink_write(s, data + 15, TOTAL - 10, &err), &err);
    assert_status(hr__sink_write_at(s, 0, data + 5, 5, &err), HR_UNSUPPORTED, &err);
    assert_contains(err.text, "pipe");
    assert_int_equal(hr__sink_bytes(s), TOTAL);
    assert_ok(hr__sink_finish(s, HR_SYNC_ALL, &err), &err);
    assert_ok(hr__sink_park(s, NULL, &err), &err);
    assert_ok(hr__sink_commit(s, name, &err), &err);
    assert_int_equal(close(fd), 0); /* the sink had its own */
    check_bytes(path, data, TOTAL + 5);
    assert_status(hr__sink_open(name, false, NULL, &s, &err), HR_IO, &err);
    assert_contains(err.text, name);
}

static void *read_slowly(void *fd)
{
    static uint8_t got[TOTAL];
    int64_t n = 0, more;

    while ((more = read(*(int *)fd, got + n, (size_t)HR_MIN(TOTAL - n, 5000))) > 0)
        n += more;
    close(*(int *)fd);
    return got;
}

/* A full pipe that another process made non-blocking is waited for; a pipe without a reader is an error. */
static void test_pipe(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    static uint8_t data[TOTAL];
    char name[64];
    hr_sink *s = NULL;
    pthread_t reader;
    void *got;
    int ends[2];

    (void)unused;
    fill(data);
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(pthread_create(&reader, NULL, read_slowly, &ends[0]), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    assert_ok(hr__sink_open(name, false, NULL, &s, &err), &err);
    assert_ok(hr__sink_write(s, data, TOTAL, &err), &err);
    pthread_join(reader, &got);
    assert_memory_equal(got, data, TOTAL);
    assert_status(hr__sink_write(s, data, TOTAL, &err), HR_IO, &err);
    assert_contains(err.text, name);
    hr__sink_drop(s);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_contents, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_nothing_before_commit, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_faults, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_kill, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_disk_full, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_refusals, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_descriptor, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_pipe, test_dir_new, test_dir_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
