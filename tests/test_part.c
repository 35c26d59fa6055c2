/* test_part.c - of hidden files only those of writers that have ended are removed, whatever container these ran in.
 *
 * The story: a file counted as left over if its boot id was ours and /proc did not show its process. Containers of one
 * host have one boot id and numbers of processes of their own, so that a job in one removed the files of a job in
 * another. */
#include "harness.h"
#include "io/io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Names that end so; NULL: all. */
static int count(const char *suffix)
{
    DIR *d = opendir(test_dir);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        size_t have = strlen(e->d_name), want = suffix ? strlen(suffix) : 0;

        n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && have >= want &&
             !strcmp(e->d_name + have - want, suffix ? suffix : "");
    }
    closedir(d);
    return n;
}

/* An empty file of such a writer. */
static void put(const hr_process *p, const char *rest)
{
    char name[160];

    snprintf(name, sizeof name, ".headrace-%016" PRIx64 "-%d-%" PRId64 "-%s", p->space, p->pid, p->start_ticks, rest);
    temp_file(test_dir, name, "x", 1);
}

/* A process that has ended: its number is free, unless the system reused it at once. */
static int ended(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return (int)pid;
}

static void test_who_is_gone(void **unused)
{
    hr_process self, p;

    (void)unused;
    assert_int_equal(hr__process_self(&self), 0);
    assert_true(self.space && self.pid == getpid() && self.start_ticks > 0);
    assert_false(hr__process_is_gone(&self));
    p = self;
    p.pid = ended();
    assert_true(hr__process_is_gone(&p));
    p.space++; /* of another container or machine: nothing is known about its processes */
    assert_false(hr__process_is_gone(&p));
    p = self;
    p.start_ticks--; /* one that had our number before us */
    assert_true(hr__process_is_gone(&p));
    p.start_ticks = 0;
    assert_false(hr__process_is_gone(&p));
    assert_false(hr__process_is_gone(&(hr_process){ .space = self.space }));
}

static void test_names(void **unused)
{
    static const char *const others[] = { ".headrace-12345678-77-0.part", ".headrace-.part", "data.parquet",
                                          ".headrace-spill-0011", ".headrace-zz-1-1-1-1.part" };
    hr_process self, gone;

    (void)unused;
    assert_int_equal(hr__process_self(&self), 0);
    gone = self;
    gone.pid = ended();
    put(&self, "0000000000000000-1.part");  /* ours */
    put(&gone, "0000000000000000-2.part");  /* goes */
    put(&gone, "00000000000000ab-3.part");  /* goes: its lease is not there, its process is gone */
    put(&gone, "0000000000000000-4.partx"); /* other names */
    put(&gone, "0000000000000000-x.part");
    put(&gone, "0000000000000000-.part");
    gone.space ^= 1;
    put(&gone, "0000000000000000-5.part"); /* of another space */
    put(&gone, "00000000000000cd-6.part");
    put(&(hr_process){ 0 }, "0000000000000000-7.part"); /* of one who knew nothing about itself */
    for (int i = 0; i < HR_LEN(others); i++)
        temp_file(test_dir, others[i], "x", 1);
    assert_int_equal(count(NULL), 9 + HR_LEN(others));
    hr__part_sweep(test_dir);
    assert_int_equal(count(NULL), 7 + HR_LEN(others));
    hr__part_sweep(test_dir);
    assert_int_equal(count(NULL), 7 + HR_LEN(others));
}

/* --- containers */

/* The first process of a new pid namespace runs fn(arg), in a process of its own there if `second`. -> its pid here; 0:
 * not permitted */
static pid_t in_container(void (*fn)(int), int arg, bool second)
{
    int pipes[2];
    pid_t pid = -1, outer;

    assert_int_equal(pipe(pipes), 0);
    if ((outer = fork()) == 0) {
        pid_t first = unshare(CLONE_NEWPID) ? 0 : fork();

        if (first == 0 && getpid() == 1) {
            pid_t inner = second ? fork() : 0;

            if (inner == 0)
                fn(arg);
            waitpid(inner, NULL, 0);
            _exit(0);
        }
        _exit(write(pipes[1], &first, sizeof first) != sizeof first);
    }
    assert_int_equal(read(pipes[0], &pid, sizeof pid), sizeof pid);
    close(pipes[0]);
    close(pipes[1]);
    assert_int_equal(waitpid(outer, NULL, 0), outer);
    return pid;
}

static int ready[2], go[2]; /* pipes */

static void wait_ready(void)
{
    char byte;

    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
}

static void say(bool ok) { _exit(write(ready[1], ok ? "y" : "n", 1) != 1); }

/* Parks a file, says so, and waits for its end. */
static void write_file(int with_lease)
{
    hr_leases *leases = with_lease ? hr__leases_new(NULL) : NULL;
    hr_error err = HR_ERROR_INIT;
    hr_sink *s = NULL;
    char path[128], byte;

    close(go[1]); /* the test's end is the end of us */
    snprintf(path, sizeof path, "%s/part-%d", test_dir, with_lease);
    if (hr__sink_open(path, false, NULL, &s, &err) || hr__sink_finish(s, HR_SYNC_NONE, &err) ||
        hr__sink_park(s, leases, &err) || write(ready[1], "y", 1) != 1)
        say(false);
    if (read(go[0], &byte, 1) == 1 && byte == 'c') {
        if (hr__sink_commit(s, path, &err))
            say(false);
        hr__leases_free(leases);
        say(true);
    }
    _exit(1);
}

static void sweep(int unused)
{
    (void)unused;
    hr__part_sweep(test_dir);
    say(true);
}

static void sweep_elsewhere(void)
{
    assert_true(in_container(sweep, 0, false) > 0);
    wait_ready();
}

static void pipes_open(void)
{
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
}

static void pipes_close(void)
{
    for (int i = 0; i < 2; i++) {
        close(ready[i]);
        close(go[i]);
    }
}

/* The writer's pid namespace ends with its first process, and nobody waits for that one: this does, through its
 * lock. */
static void end_container(pid_t first)
{
    char byte;

    kill(first, SIGKILL);
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0); /* all that had the other end are gone */
    close(ready[0]);
    assert_int_equal(pipe(ready), 0);
}

static void test_containers(void **unused)
{
    pid_t writer;

    (void)unused;
    for (int with_lease = 0; with_lease < 2; with_lease++) {
        pipes_open();
        if (!(writer = in_container(write_file, with_lease, true))) {
            pipes_close();
            print_message("no right to make pid namespaces\n");
            skip();
        }
        wait_ready();
        assert_int_equal(count(".part"), 1 + with_lease);
        assert_int_equal(count(".lease"), with_lease);
        hr__part_sweep(test_dir);
        sweep_elsewhere(); /* its number is nobody's there */
        assert_int_equal(count(".part"), 1 + with_lease);
        assert_int_equal(count(".lease"), with_lease);
        end_container(writer);
        sweep_elsewhere();
        assert_int_equal(count(".part"), 1); /* the one without a lease stays: nobody can know */
        assert_int_equal(count(".lease"), 0);
        pipes_close();
    }
}

/* The lease goes with the job, and the file has its name. */
static void test_lease_ends(void **unused)
{
    pid_t writer;

    (void)unused;
    pipes_open();
    if ((writer = fork()) == 0)
        write_file(1);
    wait_ready();
    assert_int_equal(count(".lease"), 1);
    assert_int_equal(write(go[1], "c", 1), 1);
    wait_ready();
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    assert_int_equal(count(NULL), 1);
    assert_int_equal(count("part-1"), 1);
    pipes_close();
}

/* A child that was forked off has the lock, too: as long as it lives the files stay. */
static void test_forked_child_holds(void **unused)
{
    hr_leases *leases = hr__leases_new(NULL);
    char byte, *name;
    pid_t first;

    (void)unused;
    pipes_open();
    assert_non_null(leases);
    if ((first = fork()) == 0) {
        if (!hr__lease_of(leases, test_dir) || !(name = hr__part_name(test_dir, leases, NULL)))
            say(false);
        close(open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        if (fork() == 0) {
            close(go[1]);
            if (write(ready[1], "y", 1) != 1 || read(go[0], &byte, 1) != 0)
                _exit(1);
            say(true);
        }
        _exit(0);
    }
    wait_ready();
    assert_int_equal(waitpid(first, NULL, 0), first);
    hr__part_sweep(test_dir);
    assert_int_equal(count(NULL), 2);
    close(go[1]); /* ends the child */
    go[1] = -1;
    wait_ready();
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 0);
    hr__part_sweep(test_dir);
    assert_int_equal(count(NULL), 0);
    hr__leases_free(leases);
    close(ready[0]);
    close(go[0]);
}

/* Where not all see one inode a lock proves nothing: no lease is made there. */
static void test_overlay(void **unused)
{
    char merged[100], options[400];
    hr_leases *leases;
    pid_t pid;
    int status;

    (void)unused;
    snprintf(merged, sizeof merged, "%s/merged", test_dir);
    snprintf(options, sizeof options, "lowerdir=%s/low,upperdir=%s/up,workdir=%s/work", test_dir, test_dir, test_dir);
    temp_file(test_dir, "low/a", "x", 1);
    temp_file(test_dir, "up/a", "x", 1);
    temp_file(test_dir, "work/a", "x", 1);
    temp_file(test_dir, "merged/a", "x", 1);
    if ((pid = fork()) == 0) {
        if (unshare(CLONE_NEWNS) || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) ||
            mount("overlay", merged, "overlay", 0, options))
            _exit(77);
        leases = hr__leases_new(NULL);
        _exit(!leases || hr__lease_of(leases, merged) != 0 || hr__lease_of(leases, test_dir) == 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* A lease for each of a few folders, none for the rest. */
static void test_many_folders(void **unused)
{
    live_memory before = live_now();
    hr_leases *leases = hr__leases_new(NULL);
    char folder[100];
    int n[2] = { 0, 0 };

    (void)unused;
    assert_non_null(leases);
    for (int i = 0; i < 80; i++) {
        snprintf(folder, sizeof folder, "%s/%d", test_dir, i % 40);
        mkdir(folder, 0700);
        n[i / 40] += hr__lease_of(leases, folder) != 0;
    }
    assert_int_equal(n[0], 16);
    assert_int_equal(n[1], 16);
    hr__leases_free(leases);
    for (int i = 0; i < 40; i++) {
        snprintf(folder, sizeof folder, "%s/%d", test_dir, i);
        assert_int_equal(rmdir(folder), 0);
    }
    assert_no_leak(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_gone),
        cmocka_unit_test_setup_teardown(test_names, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_containers, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_lease_ends, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_forked_child_holds, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_overlay, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_many_folders, test_dir_new, test_dir_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
