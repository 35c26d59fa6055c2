/* test_pages.c - large blocks: classes, the pool of free ones and its limits, forks. */
#include "base/pages.h"
#include "harness.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define BIG (2 * MIB)

/* Each class holds what it says, and is the least that does; a quarter more at most is lost. */
static void classes(void **state)
{
    int64_t page = hr__memory_page();

    (void)state;
    assert_int_equal(hr__pages_class(1), 0);
    assert_int_equal(hr__pages_bytes(0), HR_PAGES_LEAST);
    for (int c = 0; hr__pages_bytes(c) <= MIB << 20; c++) {
        int64_t n = hr__pages_bytes(c);
        assert_int_equal(hr__pages_class(n), c);
        assert_int_equal(hr__pages_class(n + 1), c + 1);
        assert_in_range(hr__pages_bytes(c + 1), n + 1, n + n / 4);
        assert_in_range(hr__pages_charged(c), n + HR_PAGES_SLACK, n + 2 * page);
        assert_int_equal(hr__pages_charged(c) % page, 0);
    }
}

static void one_block(void **state)
{
    live_memory before = live_now();
    hr_account *a = hr__account_new("a", NULL, 0);
    uint8_t *p, *q;
    bool fresh;
    int c, d;

    (void)state;
    hr__pool_trim(0);
    assert_null(hr__pages_new(a, -1, &c, &fresh));
    assert_null(hr__pages_new(a, hr__pages_most() + 1, &c, &fresh));
    assert_int_equal(hr__account_used(a), 0);
    assert_non_null(p = hr__pages_new(a, 3 * MIB, &c, &fresh));
    assert_true(fresh);
    assert_int_equal(c, hr__pages_class(3 * MIB));
    assert_int_equal(hr__account_used(a), hr__pages_charged(c));
    for (int64_t i = 0; i < hr__pages_charged(c); i += 997)
        assert_int_equal(p[i], 0);
    memset(p, 1, (size_t)hr__pages_charged(c));
    hr__pages_free(a, p, c);
    assert_int_equal(hr__account_used(a), 0);
    assert_non_null(q = hr__pages_new(a, 5 * MIB / 2 + 1, &d, &fresh)); /* what is there, if it fits nearly */
    assert_ptr_equal(p, q);
    assert_false(fresh);
    assert_int_equal(d, c);
    hr__account_add(a, -hr__pages_charged(d), -1);
    hr__pages_put(q, d);
    d = c;
    assert_ptr_equal(hr__pages_take(&d), p);
    assert_int_equal(hr__pool_bytes(), 0);
    assert_null(hr__pages_take(&d));
    hr__pages_put(p, c);
    hr__pool_trim(0);
    hr__account_unref(a);
    assert_no_leak(before);
}

static hr_buffer *buffer_of(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b = NULL;

    assert_ok(hr__buffer_new(NULL, n, &b, &err), &err);
    return b;
}

static void newest_comes_back_first(void **state)
{
    hr_buffer *a, *b, *c;
    uint8_t *of_a, *of_b;

    (void)state;
    hr__pool_trim(0);
    a = buffer_of(BIG);
    b = buffer_of(BIG);
    of_a = a->data;
    of_b = b->data;
    hr__buffer_unref(a);
    hr__buffer_unref(b);
    assert_true(hr__pool_bytes() >= 2 * BIG);
    a = buffer_of(BIG);
    assert_ptr_equal(a->data, of_b);
    c = buffer_of(BIG * 7 / 8); /* the class below takes it as well */
    assert_ptr_equal(c->data, of_a);
    assert_int_equal(hr__pool_bytes(), 0);
    b = buffer_of(BIG);
    assert_ptr_not_equal(b->data, of_a);
    hr__buffer_unref(a);
    hr__buffer_unref(b);
    hr__buffer_unref(c);
    b = buffer_of(BIG / 2); /* far smaller: out of none of these */
    assert_ptr_not_equal(b->data, of_a);
    assert_ptr_not_equal(b->data, of_b);
    hr__buffer_unref(b);
}

/* Free buffers are the process's, not live ones; trimming takes the oldest. */
static void counted_and_trimmed(void **state)
{
    live_memory before = live_now();
    int64_t used, one;
    hr_buffer *a, *b;

    (void)state;
    hr__pool_trim(0);
    used = hr_memory_used();
    a = buffer_of(BIG);
    one = hr_memory_used() - used;
    b = buffer_of(3 * BIG);
    uint8_t *of_b = b->data;
    hr__buffer_unref(a);
    hr__buffer_unref(b);
    assert_no_leak(before);
    assert_int_equal(hr_memory_used(), used + hr__pool_bytes());
    assert_in_range(hr__pool_bytes(), 4 * BIG, 4 * BIG + 3 * 4096 * 16);
    assert_in_range(one, BIG, BIG + 70000);
    assert_int_equal(hr__pool_trim(hr__pool_bytes()), 0);
    assert_true(hr__pool_trim(hr__pool_bytes() - 1) >= BIG); /* a: the oldest */
    assert_true(hr__pool_bytes() >= 3 * BIG);
    b = buffer_of(3 * BIG);
    assert_ptr_equal(b->data, of_b);
    hr__buffer_unref(b);
    assert_true(hr__pool_trim(0) >= 3 * BIG);
    assert_int_equal(hr__pool_bytes(), 0);
    assert_int_equal(hr_memory_used(), used);
}

/* The peak is that of the resident bytes: of what is used and of what is free, also after both are gone. */
static void peak_counts_the_pool(void **state)
{
    (void)state;
    hr__pool_trim(0);
    hr__buffer_unref(buffer_of(BIG));
    hr_memory_reset_peak();
    hr__buffer_unref(buffer_of(5 * BIG));
    hr__pool_trim(0);
    assert_in_range(hr_memory_peak() - hr_memory_used(), 6 * BIG, 6 * BIG + 4 * 65536);
}

static void pool_has_a_cap(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b[32];

    (void)state;
    hr__pool_trim(0);
    assert_ok(hr_set_memory_limit(128 * MIB, &err), &err); /* so that a quarter, 32 MiB, is the cap */
    for (int i = 0; i < 32; i++)
        b[i] = buffer_of(BIG);
    for (int i = 0; i < 32; i++)
        hr__buffer_unref(b[i]);
    assert_in_range(hr__pool_bytes(), 29 * MIB, 32 * MIB);
    b[0] = buffer_of(40 * MIB); /* larger than the pool itself */
    hr__buffer_unref(b[0]);
    assert_in_range(hr__pool_bytes(), 0, 32 * MIB);
    assert_ok(hr_set_memory_limit(2 * MIB, &err), &err); /* a lower limit trims */
    assert_true(hr_memory_used() <= 2 * MIB);
    assert_ok(hr_set_memory_limit(0, &err), &err);
    hr__pool_trim(0);
}

/* What is used and what is free together never pass the limit, as long as what is used does not. */
static void pool_makes_room(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_buffer *b[8];

    (void)state;
    hr__pool_trim(0);
    assert_ok(hr_set_memory_limit(80 * MIB, &err), &err);
    for (int i = 0; i < 8; i++)
        b[i] = buffer_of(BIG);
    for (int i = 0; i < 8; i++)
        hr__buffer_unref(b[i]);
    assert_true(hr__pool_bytes() >= 8 * BIG);
    hr_memory_reset_peak();
    hr_buffer *large = buffer_of(72 * MIB);
    assert_true(hr_memory_used() <= 81 * MIB); /* classes are rounded up: 80 MiB and a page */
    assert_true(hr_memory_peak() <= 81 * MIB);
    assert_true(hr__pool_bytes() < BIG);
    hr__buffer_unref(large);
    for (int i = 0; i < 8; i++)
        b[i] = buffer_of(BIG);
    for (int i = 0; i < 8; i++)
        hr__buffer_unref(b[i]);
    hr__account_charge(NULL, 76 * MIB); /* a worker's memory pushes, too */
    assert_true(hr__pool_bytes() <= 4 * MIB);
    hr__account_charge(NULL, -76 * MIB);
    assert_ok(hr_set_memory_limit(0, &err), &err);
    hr__pool_trim(0);
}

/* Bytes of address space that this process has. */
static rlim_t address_space(void)
{
    char text[64] = { 0 };
    int fd = hr__file_open("/proc/self/statm");

    if (fd < 0 || hr__file_read_at(fd, text, sizeof text - 1, 0) <= 0)
        _exit(2);
    hr__file_close(fd);
    return (rlim_t)strtoll(text, NULL, 10) * (rlim_t)hr__memory_page();
}

/* In a child whose address space cannot grow much: what the kernel refuses is found in the pool, or is an error. */
static int child_at_its_limit(void)
{
    hr_buffer *b[10], *large = NULL;
    hr_error err = HR_ERROR_INIT;
    struct rlimit limit;

    for (int i = 0; i < 10; i++)
        b[i] = buffer_of(3 * BIG);
    for (int i = 0; i < 10; i++)
        hr__buffer_unref(b[i]);
    limit.rlim_cur = limit.rlim_max = address_space() + (rlim_t)(8 * MIB);
    if (setrlimit(RLIMIT_AS, &limit) || hr__pool_bytes() < 30 * BIG)
        return 3;
    if (hr__buffer_new(NULL, 40 * MIB, &large, &err) || hr__pool_bytes() != 0)
        return 4;
    hr__buffer_unref(large);
    if (hr__buffer_new(NULL, 400 * MIB, &large, &err) != HR_NO_MEMORY || large)
        return 5;
    return 0;
}

static void kernel_refuses(void **state)
{
    pid_t child;
    int status;

    (void)state;
    if (SANITIZED)
        skip(); /* they reserve terabytes */
    if ((child = fork()) == 0)
        _exit(child_at_its_limit());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* A child that is forked while other threads use the pool can use it. */
static atomic_bool stop;

static void use_pool(void *arg, int thread)
{
    (void)arg;
    if (thread) {
        while (!atomic_load(&stop)) {
            hr_buffer *b = NULL;
            if (hr__buffer_new(NULL, 100000, &b, NULL))
                abort();
            hr__buffer_unref(b);
            (void)hr__account_reserve(NULL, 1, true);
            hr__account_release(NULL, 1);
        }
        return;
    }
    for (int i = 0; i < 100; i++) {
        int status = 1;
        pid_t child = fork();
        if (child == 0) {
            hr_buffer *b = NULL;
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_UNBLOCK, &all, NULL); /* those of threads are blocked */
            alarm(20);
            if (hr__buffer_new(NULL, 100000, &b, NULL) || !hr__account_reserve(NULL, 1, true) ||
                hr__pid() != (int)getpid())
                _exit(1);
            hr__buffer_unref(b);
            _exit(0);
        }
        if (waitpid(child, &status, 0) != child || status)
            abort();
    }
    atomic_store(&stop, true);
}

static void forks(void **state)
{
    (void)state;
    assert_int_equal(hr__pid(), getpid());
    if (SANITIZED)
        skip(); /* the sanitizers' own malloc does not survive the fork of a threaded process */
    run_threads(3, use_pool, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(classes),
        cmocka_unit_test(one_block),
        cmocka_unit_test(newest_comes_back_first),
        cmocka_unit_test(counted_and_trimmed),
        cmocka_unit_test(peak_counts_the_pool),
        cmocka_unit_test(pool_has_a_cap),
        cmocka_unit_test(pool_makes_room),
        cmocka_unit_test(kernel_refuses),
        cmocka_unit_test(forks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
