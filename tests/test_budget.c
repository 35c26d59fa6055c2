/* test_budget.c - accounts, admission and its waiter, the process's limit and threads, sizes as people write them. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int woken;
static void wake(void) { atomic_fetch_add(&woken, 1); }

static void tree(void **state)
{
    live_memory before = live_now();
    char name[] = "run";
    hr_account *run = hr__account_new(name, NULL, 1000), *op = hr__account_new("sort", run, 0);
    int64_t root;

    (void)state;
    name[0] = 'X'; /* was copied */
    assert_int_equal(hr__account_limit(op), 1000);
    assert_int_equal(hr__account_limit(NULL), hr_memory_limit());
    root = hr__account_used(NULL);
    hr__account_unref(run); /* op keeps it */
    hr__account_charge(op, 400);
    hr__account_charge(run, 50);
    assert_int_equal(hr__account_used(op), 400);
    assert_int_equal(hr__account_used(run), 450);
    assert_int_equal(hr__account_used(NULL), root + 450);
    hr__account_charge(op, -300);
    hr__account_charge(run, -50);
    assert_int_equal(hr__account_used(run), 100);
    assert_int_equal(hr__account_peak(run), 450);
    assert_int_equal(hr__account_peak(op), 400);
    hr__account_charge(op, -100);
    assert_ptr_equal(hr__account_ref(op), op);
    hr__account_unref(op);
    hr__account_unref(op);
    hr__account_unref(NULL);
    assert_null(hr__account_ref(NULL));
    assert_no_leak(before);
}

/* Blocks are references, given back several at once. */
static void blocks_keep_accounts(void **state)
{
    live_memory before = live_now(), with_run;
    hr_account *run = hr__account_new("run", NULL, 0), *op;

    (void)state;
    with_run = live_now();
    op = hr__account_new("op", run, 0);
    hr__account_add(op, 300, 3);
    hr__account_unref(op);
    assert_int_equal(hr__account_used(run), 300);
    hr__account_add(op, -300, -3); /* the last reference on op, and op's on run */
    assert_no_leak(with_run);
    assert_int_equal(hr__account_used(run), 0);
    hr__account_unref(run);
    assert_no_leak(before);
}

static void smallest_limit_holds(void **state)
{
    hr_account *a = hr__account_new("a", NULL, 500), *b = hr__account_new("b", a, 900),
               *c = hr__account_new(NULL, b, 300);

    (void)state;
    assert_int_equal(hr__account_limit(a), 500);
    assert_int_equal(hr__account_limit(b), 500);
    assert_int_equal(hr__account_limit(c), 300);
    hr__account_unref(c);
    hr__account_unref(b);
    hr__account_unref(a);
}

static void charges_are_not_live(void **state)
{
    live_memory before = live_now();

    (void)state;
    hr__account_charge(NULL, 12345);
    assert_no_leak(before); /* it is not our memory */
    hr__account_charge(NULL, -12345);
    hr__account_add(NULL, 100, 1);
    assert_int_equal(live_now().bytes, before.bytes + 100);
    assert_int_equal(live_now().blocks, before.blocks + 1);
    hr__account_add(NULL, -100, -1);
    assert_no_leak(before);
}

/* --- admission. A story: each step acts on one of two accounts, b below a. */
static const struct {
    char act; /* r reserve, f force, R release, + charge */
    char who; /* a, b */
    int64_t n;
    bool ok;
    int woken; /* in all, afterwards */
} story[] = {
    { 'r', 'b', 300, true, 0 },                               /* a 300 of 1000, b 300 of 600 */
    { 'r', 'b', 301, false, 0 },                              /* b would pass 600 */
    { 'r', 'b', 300, true, 0 },                               /* just full */
    { 'r', 'a', 401, false, 0 },                              /* a: 600 of 1000 */
    { '+', 'a', 100, true, 0 },                               /* charging never fails and wakes nobody */
    { 'R', 'a', 0, true, 1 },                                 /* something came back at a, where one was refused */
    { 'R', 'a', 0, true, 1 },                                 /* once only */
    { 'R', 'b', 300, true, 2 },                               /* b's refusal is still open */
    { '+', 'b', 300, true, 2 },                               /* b 300 reserved, 300 used; a 300 reserved, 400 used */
    { 'r', 'b', 1, false, 2 },   { 'f', 'b', 50, true, 2 },   /* the oldest ticket */
    { 'r', 'a', 250, true, 2 },                               /* a 600 reserved, 400 used */
    { 'r', 'a', 1, false, 2 },   { '+', 'b', -100, true, 3 }, /* both wait, one call */
    { 'r', 'b', 50, true, 3 },   { 'r', 'b', INT64_MAX, false, 3 },
    { 'R', 'b', 400, true, 4 }, /* the books close: b 300 + 50 + 50 */
    { 'R', 'a', 250, true, 4 },  { '+', 'b', -200, true, 4 },
    { '+', 'a', -100, true, 4 }, { 'r', 'a', 1000, true, 4 },
    { 'R', 'a', 1000, true, 4 },
};

static void admission(void **state)
{
    hr_account *a = hr__account_new("a", NULL, 1000), *b = hr__account_new("b", a, 600);

    (void)state;
    atomic_store(&woken, 0);
    hr__budget_set_waiter(wake);
    for (int i = 0; i < HR_LEN(story); i++) {
        hr_account *who = story[i].who == 'a' ? a : b;
        bool ok = true;
        if (story[i].act == 'r' || story[i].act == 'f')
            ok = hr__account_reserve(who, story[i].n, story[i].act == 'f');
        else if (story[i].act == 'R')
            hr__account_release(who, story[i].n);
        else
            hr__account_charge(who, story[i].n);
        if (ok != story[i].ok || atomic_load(&woken) != story[i].woken)
            fail_msg("step %d: %d, woken %d", i, ok, atomic_load(&woken));
    }
    hr__budget_set_waiter(NULL);
    assert_int_equal(hr__account_used(a), 0);
    hr__account_unref(b);
    hr__account_unref(a);
}

static void root_admission(void **state)
{
    hr_error err = HR_ERROR_INIT;
    int64_t limit;
    char *p = hr__alloc(NULL, 1000);

    (void)state;
    assert_ok(hr_set_memory_limit(hr_memory_used() + 10000, &err), &err);
    hr__budget_set_waiter(wake);
    atomic_store(&woken, 0);
    assert_true(hr__account_reserve(NULL, 9000, false));
    assert_false(hr__account_reserve(NULL, 1500, false));
    hr__free(p);
    assert_int_equal(atomic_load(&woken), 1);
    assert_true(hr__account_reserve(NULL, 1500, false));
    assert_false(hr__account_reserve(NULL, 10000, false));
    limit = hr_memory_limit();
    assert_ok(hr_set_memory_limit(limit + 10000, &err), &err); /* a higher limit wakes, too */
    assert_int_equal(atomic_load(&woken), 2);
    assert_true(hr__account_reserve(NULL, 10000, false));
    hr__account_release(NULL, 20500);
    hr__budget_set_waiter(NULL);
    assert_ok(hr_set_memory_limit(0, &err), &err);
}

/* Threads reserve under a limit and sleep until the waiter wakes them. A wake-up that is lost hangs the test; a
 * reservation too many is seen. */
enum { THREADS = 4, ROUNDS = 3000, ROOM = 2 };

static struct crowd {
    hr_mutex lock;
    hr_cond came_back;
    int64_t wakes;
    hr_account *account;
    atomic_int inside;
    atomic_int worst;
} crowd;

static void crowd_wake(void)
{
    hr__lock(&crowd.lock);
    crowd.wakes++;
    hr__cond_broadcast(&crowd.came_back);
    hr__unlock(&crowd.lock);
}

static void crowd_work(void *arg, int thread)
{
    (void)arg;
    (void)thread;
    for (int i = 0; i < ROUNDS; i++) {
        hr__lock(&crowd.lock);
        int64_t seen = crowd.wakes;
        hr__unlock(&crowd.lock);
        while (!hr__account_reserve(crowd.account, 100, false)) {
            hr__lock(&crowd.lock);
            while (crowd.wakes == seen)
                hr__cond_wait(&crowd.came_back, &crowd.lock);
            seen = crowd.wakes;
            hr__unlock(&crowd.lock);
        }
        int now = atomic_fetch_add(&crowd.inside, 1) + 1;
        if (now > ROOM)
            atomic_store(&crowd.worst, now);
        atomic_fetch_sub(&crowd.inside, 1);
        hr__account_release(crowd.account, 100);
    }
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    hr__mutex_init(&crowd.lock);
    hr__cond_init(&crowd.came_back);
    crowd.account = hr__account_new("crowd", NULL, ROOM * 100 + 99);
    hr__budget_set_waiter(crowd_wake);
    run_threads(THREADS, crowd_work, NULL);
    hr__budget_set_waiter(NULL);
    assert_int_equal(atomic_load(&crowd.worst), 0);
    assert_true(hr__account_reserve(crowd.account, ROOM * 100 + 99, false)); /* all came back */
    hr__account_release(crowd.account, ROOM * 100 + 99);
    hr__account_unref(crowd.account);
    hr__cond_clear(&crowd.came_back);
    hr__mutex_clear(&crowd.lock);
}

static void charge_in_a_loop(void *arg, int thread)
{
    hr_account *a = arg;

    for (int i = 0; i < 5000; i++) {
        hr__account_charge(a, thread + 1);
        if (i % 2)
            hr__account_charge(a, -(thread + 1) * 2);
    }
}

static void charges_of_many_threads(void **state)
{
    hr_account *run = hr__account_new("run", NULL, 0), *op = hr__account_new("op", run, 0);
    int64_t before = hr_memory_used();

    (void)state;
    run_threads(THREADS, charge_in_a_loop, op);
    assert_int_equal(hr__account_used(op), 0);
    assert_int_equal(hr__account_used(run), 0);
    assert_int_equal(hr_memory_used(), before);
    assert_in_range(hr__account_peak(run), THREADS, 5000 * 10);
    hr__account_unref(op);
    hr__account_unref(run);
}

/* --- settings */

static const struct {
    const char *text;
    int64_t want; /* -1: HR_INVALID */
} sizes[] = {
    { "4096", 4096 },
    { "0", 0 },
    { "256MiB", 256 << 20 },
    { "2GB", 2000000000 },
    { "1.5GB", 1500000000 },
    { "1.5GiB", 1610612736 },
    { "0.5k", 500 },
    { ".5k", 500 },
    { "10 MB", 10000000 },
    { "  7 B ", 7 },
    { "7b", 7 },
    { "1K", 1000 },
    { "1ki", 1024 },
    { "1KIB", 1024 },
    { "3m", 3000000 },
    { "1TiB", (int64_t)1 << 40 },
    { "1T", 1000000000000 },
    { "2PiB", (int64_t)1 << 51 },
    { "1.000000001G", 1000000001 },
    { "0.333333333333333G", 333333333 },
    { "4611686018427387903", INT64_MAX / 2 },
    { "1.0", 1 },
    { "1.5", -1 },
    { "1.5B", -1 },
    { "", -1 },
    { " ", -1 },
    { "MiB", -1 },
    { ".", -1 },
    { ".k", -1 },
    { "-1", -1 },
    { "+1", -1 },
    { "1 2", -1 },
    { "1kk", -1 },
    { "1 k B", -1 },
    { "1i", -1 },
    { "1e3", -1 },
    { "0x10", -1 },
    { "12 apples", -1 },
    { "1,5GB", -1 },
    { "99999999999999999999", -1 },
    { "9999999999G", -1 },
};

static void sizes_of_people(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        int64_t got = -2;
        hr_status st = hr_parse_bytes(sizes[i].text, &got, &err);
        if (st != (sizes[i].want < 0 ? HR_INVALID : HR_OK) || got != HR_MAX(0, sizes[i].want))
            fail_msg("'%s': %s, %lld", sizes[i].text, hr_status_name(st), (long long)got);
        if (st)
            assert_contains(err.text, sizes[i].text);
    }
    assert_int_equal(hr_parse_bytes(NULL, &(int64_t){ 0 }, &err), HR_INVALID);
}

/* What a fresh child says whose environment is `name`=`value`: limit or threads, and the status of setting the
 * default. */
static int64_t child_says(const char *name, const char *value, bool threads, hr_status *st)
{
    struct {
        int64_t n;
        hr_status st;
    } answer = { 0 };
    int to_us[2], status;
    pid_t child;

    assert_int_equal(pipe(to_us), 0);
    if ((child = fork()) == 0) {
        setenv(name, value, 1);
        answer.st = threads ? hr_set_num_threads(0, NULL) : hr_set_memory_limit(0, NULL);
        if (answer.st)
            answer.n = -1; /* what was set before stays */
        else
            answer.n = threads ? hr_num_threads() : hr_memory_limit();
        _exit(write(to_us[1], &answer, sizeof answer) != sizeof answer);
    }
    assert_int_equal(read(to_us[0], &answer, sizeof answer), sizeof answer);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close(to_us[0]);
    close(to_us[1]);
    *st = answer.st;
    return answer.n;
}

static void environment(void **state)
{
    int64_t half = hr__memory_physical() / 2;
    hr_status st;

    (void)state;
    unsetenv("HEADRACE_MEMORY_LIMIT");
    unsetenv("HEADRACE_NUM_THREADS");
    unsetenv("LOCAL_WORLD_SIZE");
    assert_int_equal(child_says("HEADRACE_MEMORY_LIMIT", "256MiB", false, &st), 256 << 20);
    assert_int_equal(child_says("HEADRACE_MEMORY_LIMIT", "", false, &st), half);
    assert_int_equal(child_says("LOCAL_WORLD_SIZE", "4", false, &st), half / 4);
    assert_int_equal(child_says("LOCAL_WORLD_SIZE", "nonsense", false, &st), half);
    child_says("HEADRACE_MEMORY_LIMIT", "much", false, &st);
    assert_int_equal(st, HR_INVALID);
    assert_int_equal(child_says("HEADRACE_NUM_THREADS", "7", true, &st), 7);
    assert_int_equal(child_says("HEADRACE_NUM_THREADS", "", true, &st), HR_MIN(1024, hr__cpus_allowed()));
    child_says("HEADRACE_NUM_THREADS", "0", true, &st);
    assert_int_equal(st, HR_INVALID);
    child_says("HEADRACE_NUM_THREADS", "1025", true, &st);
    assert_int_equal(st, HR_INVALID);
}

static int hook_saw;
static void hook(int n) { hook_saw = n; }

static void threads(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_in_range(hr_num_threads(), 1, 1024);
    hr__threads_set_hook(hook);
    assert_ok(hr_set_num_threads(3, &err), &err);
    assert_int_equal(hr_num_threads(), 3);
    assert_int_equal(hook_saw, 3);
    assert_int_equal(hr_set_num_threads(-1, &err), HR_INVALID);
    assert_int_equal(hr_set_num_threads(1025, &err), HR_INVALID);
    assert_contains(err.text, "1025");
    assert_int_equal(hr_num_threads(), 3);
    assert_ok(hr_set_num_threads(1024, &err), &err);
    assert_ok(hr_set_num_threads(0, &err), &err);
    assert_int_equal(hr_num_threads(), HR_MIN(1024, hr__cpus_allowed()));
    assert_int_equal(hook_saw, hr_num_threads());
    hr__threads_set_hook(NULL);
}

static void limit_and_peak(void **state)
{
    hr_error err = HR_ERROR_INIT;
    int64_t used = hr_memory_used();
    void *p;

    (void)state;
    assert_int_equal(hr_set_memory_limit(-5, &err), HR_INVALID);
    assert_contains(err.text, "-5");
    assert_ok(hr_set_memory_limit(123456789, &err), &err);
    assert_int_equal(hr_memory_limit(), 123456789);
    hr_memory_reset_peak();
    assert_int_equal(hr_memory_peak(), used);
    p = hr__alloc(NULL, 50000);
    hr__free(p);
    assert_int_equal(hr_memory_used(), used);
    assert_in_range(hr_memory_peak(), used + 50000, used + 50100);
    hr_memory_reset_peak();
    assert_int_equal(hr_memory_peak(), used);
    assert_ok(hr_set_memory_limit(0, &err), &err);
    assert_int_equal(hr_memory_limit(), hr__memory_physical() / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment), /* first: the others set what children would inherit */
        cmocka_unit_test(tree),
        cmocka_unit_test(blocks_keep_accounts),
        cmocka_unit_test(smallest_limit_holds),
        cmocka_unit_test(charges_are_not_live),
        cmocka_unit_test(admission),
        cmocka_unit_test(root_admission),
        cmocka_unit_test(no_wake_up_is_lost),
        cmocka_unit_test(charges_of_many_threads),
        cmocka_unit_test(sizes_of_people),
        cmocka_unit_test(threads),
        cmocka_unit_test(limit_and_peak),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
