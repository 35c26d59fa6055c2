/* test_poll.c - the poller calls while there is something to read, and never after hr__poller_remove(). */
#include "harness.h"

#include "io/poll.h"

#include <sys/wait.h>
#include <unistd.h>

/* One descriptor that is watched, and what its callback does. */
typedef struct watched {
    int near, far;
    atomic_int calls;
    atomic_int running;
    bool drain; /* the callback reads what came */
    bool remove_itself;
    int sleep_us;
    atomic_bool removed;
    atomic_int late; /* calls after removal */
} watched;

static void on_readable(void *context)
{
    watched *w = context;
    char byte;

    atomic_fetch_add(&w->running, 1);
    if (atomic_load(&w->removed))
        atomic_fetch_add(&w->late, 1);
    if (w->sleep_us)
        usleep((useconds_t)w->sleep_us);
    if (w->drain)
        (void)!read(w->near, &byte, 1);
    if (w->remove_itself)
        hr__poller_remove(w->near);
    atomic_fetch_add(&w->calls, 1);
    atomic_fetch_sub(&w->running, 1);
}

static void watched_new(watched *w)
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    w->near = fds[0];
    w->far = fds[1];
}

static void watched_free(watched *w)
{
    close(w->near);
    close(w->far);
}

static void watch(watched *w)
{
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__poller_add(w->near, on_readable, w, &err), &err);
}

static void put(watched *w) { assert_int_equal(write(w->far, "x", 1), 1); }

static void wait_for_calls(watched *w, int n)
{
    for (int i = 0; i < 10000 && atomic_load(&w->calls) < n; i++)
        usleep(1000);
    assert_true(atomic_load(&w->calls) >= n);
}

static void each_byte_is_one_call(void **state)
{
    watched w[20] = { 0 };

    (void)state;
    for (int i = 0; i < HR_LEN(w); i++) {
        watched_new(&w[i]);
        w[i].drain = true;
        watch(&w[i]);
    }
    for (int i = 0; i < HR_LEN(w); i++)
        for (int k = 0; k <= i; k++)
            put(&w[i]);
    for (int i = 0; i < HR_LEN(w); i++)
        wait_for_calls(&w[i], i + 1);
    usleep(20000);
    for (int i = 0; i < HR_LEN(w); i++) {
        assert_int_equal(atomic_load(&w[i].calls), i + 1);
        hr__poller_remove(w[i].near);
        watched_free(&w[i]);
    }
    hr__poller_stop();
}

static void it_calls_until_all_is_read(void **state)
{
    watched w = { 0 };

    (void)state;
    watched_new(&w);
    watch(&w);
    put(&w);
    wait_for_calls(&w, 5);
    hr__poller_remove(w.near);
    w.calls = 0;
    usleep(20000);
    assert_int_equal(w.calls, 0);
    watch(&w); /* again */
    wait_for_calls(&w, 1);
    hr__poller_remove(w.near);
    hr__poller_remove(w.near);
    watched_free(&w);
    hr__poller_stop();
}

static void a_closed_end_is_readable(void **state)
{
    watched w = { .remove_itself = true };

    (void)state;
    watched_new(&w);
    watch(&w);
    close(w.far);
    wait_for_calls(&w, 1);
    usleep(20000);
    assert_int_equal(w.calls, 1);
    close(w.near);
    hr__poller_stop();
}

static void remove_waits_for_the_callback(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        watched w = { .sleep_us = 3000 };
        watched_new(&w);
        watch(&w);
        put(&w);
        usleep((useconds_t)(i * 500));
        hr__poller_remove(w.near);
        atomic_store(&w.removed, true);
        assert_int_equal(atomic_load(&w.running), 0);
        usleep(5000);
        assert_int_equal(atomic_load(&w.late), 0);
        watched_free(&w);
    }
    hr__poller_stop();
}

static void twice_is_a_bug(void **state)
{
    live_memory before = live_now();
    watched w = { 0 };

    (void)state;
    watched_new(&w);
    watch(&w);
    assert_int_equal(hr__poller_add(w.near, on_readable, &w, NULL), HR_BUG);
    assert_int_equal(hr__poller_add(-1, on_readable, &w, NULL), HR_INVALID);
    hr__poller_stop(); /* forgets what was not removed */
    watched_free(&w);
    assert_no_leak(before);
}

/* --- ticks */

static void on_tick(void *context) { atomic_fetch_add((atomic_int *)context, 1); }

static void on_tick_once(void *context)
{
    atomic_fetch_add((atomic_int *)context, 1);
    hr__poller_tick_remove(on_tick_once, context);
}

static void ticks_come_ten_times_a_second(void **state)
{
    atomic_int a = 0, b = 0, once = 0;
    watched w = { .drain = true };
    int64_t begin = hr__clock_ns();
    int n = 0;

    (void)state;
    watched_new(&w);
    watch(&w);
    assert_ok(hr__poller_tick_add(on_tick, &a, NULL), NULL);
    assert_ok(hr__poller_tick_add(on_tick, &b, NULL), NULL);
    assert_ok(hr__poller_tick_add(on_tick_once, &once, NULL), NULL);
    /* Bytes in between do not hold them up. b began after a, perhaps a tick later. */
    for (; (atomic_load(&a) < 4 || atomic_load(&b) < 3 || !atomic_load(&once)) && n < 2000; n++) {
        put(&w);
        usleep(10000);
    }
    hr__poller_tick_remove(on_tick, &b);
    assert_true(n < 2000);
    assert_true(hr__clock_ns() - begin >= 380000000);
    assert_true(b >= 3);
    assert_int_equal(once, 1);
    b = 0;
    usleep(250000);
    assert_int_equal(b, 0);
    hr__poller_tick_remove(on_tick, &a);
    hr__poller_remove(w.near);
    watched_free(&w);
    hr__poller_stop();
}

/* --- threads, forks, faults */

static void add_put_remove(void *arg, int thread)
{
    atomic_int *done = arg;

    for (int i = 0; i < 100; i++) {
        watched w = { .drain = i % 2, .remove_itself = i % 3 == 0 };
        watched_new(&w);
        watch(&w);
        put(&w);
        if (i % 4)
            wait_for_calls(&w, 1);
        hr__poller_remove(w.near);
        atomic_store(&w.removed, true);
        assert_int_equal(atomic_load(&w.running), 0);
        watched_free(&w);
    }
    atomic_fetch_add(done, 1 + thread * 0);
}

static void threads_add_and_remove(void **state)
{
    live_memory before = live_now();
    atomic_int done = 0;

    (void)state;
    run_threads(4, add_put_remove, &done);
    assert_int_equal(done, 4);
    hr__poller_stop();
    assert_no_leak(before);
}

static void a_forked_child_has_its_own(void **state)
{
    watched w = { .drain = true };
    int status = -1;
    pid_t pid;

    (void)state;
#if THREADS_ARE_WATCHED
    skip(); /* it does not follow threads that start after a fork of a program with threads */
#endif
    watched_new(&w);
    watch(&w);
    pid = fork();
    if (pid == 0) {
        watched mine = { .drain = true };
        bool ok;
        hr__poller_remove(w.near); /* knows nothing of it */
        watched_new(&mine);
        watch(&mine);
        put(&mine);
        wait_for_calls(&mine, 1);
        ok = atomic_load(&w.calls) == 0;
        hr__poller_stop();
        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    put(&w);
    wait_for_calls(&w, 1);
    hr__poller_remove(w.near);
    watched_free(&w);
    hr__poller_stop();
}

static hr_status poll_once(hr_error *err)
{
    hr_status st;
    watched w = { .drain = true };
    atomic_int ticks = 0;

    watched_new(&w);
    if (!(st = hr__poller_add(w.near, on_readable, &w, err)) && !(st = hr__poller_tick_add(on_tick, &ticks, err))) {
        put(&w);
        wait_for_calls(&w, 1);
    }
    hr__poller_stop();
    watched_free(&w);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(poll_once, HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_byte_is_one_call),
        cmocka_unit_test(it_calls_until_all_is_read),
        cmocka_unit_test(a_closed_end_is_readable),
        cmocka_unit_test(remove_waits_for_the_callback),
        cmocka_unit_test(twice_is_a_bug),
        cmocka_unit_test(ticks_come_ten_times_a_second),
        cmocka_unit_test(threads_add_and_remove),
        cmocka_unit_test(a_forked_child_has_its_own),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests_name("poll", tests, NULL, NULL);
}
