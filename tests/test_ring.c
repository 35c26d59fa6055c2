/* test_ring.c - ranks in other processes: their rows, and their errors when a rank or the server is killed.
 *
 * The program starts itself again: `test_ring client ADDRESS RANK MODE` is a rank, `test_ring server N_RANKS` feeds
 * some. Ranks that only ask are threads of the test. */
#include "harness.h"

#include "feed/ring.h"
#include "share/process_link.h"
#include "op/call.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define BATCH 10
#define LIMIT_NS 30000000000LL /* in which everybody has to notice a death; half a second on a quiet machine */
#define WAIT_MS 30000          /* for what comes at once, unless the machine is busy */

static const char *program;

/* --- reading, as a trainer does it: in slices */

static hr_status begin(hr_ring *r, const hr_split_request *q, hr_error *err)
{
    hr_status st;

    while ((st = hr__ring_begin(r, q, 50, err)) == HR_PENDING)
        ;
    return st;
}

static hr_status next(hr_ring *r, hr_table **t, hr_error *err)
{
    hr_status st;

    while ((st = hr__ring_next(r, 0, 50, t, err)) == HR_PENDING)
        ;
    return st;
}

static int64_t value(const hr_table *t, int64_t row)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    if (hr_table_column_view(t, 0, &v, NULL))
        return -1;
    return ((const int64_t *)v.data)[row];
}

static bool batch_is(const hr_table *t, int64_t step, int n_ranks, int rank)
{
    int64_t n = hr_table_rows(t);

    for (int64_t i = 0; i < n; i++)
        if (value(t, i) != (step * n_ranks + rank) * BATCH + i)
            return false;
    return n == BATCH;
}

static void pause_ms(int ms) { usleep((useconds_t)ms * 1000); }

/* --- a rank in a process of its own. Exit code 0: all was right; 3: HR_PEER; 1: anything else */

static int client_main(const char *address, int rank, const char *mode)
{
    hr_split_request q = { .batch_rows = BATCH, .prefetch = 2, .own_memory = true };
    hr_error err = HR_ERROR_INIT;
    hr_table *held[64] = { NULL };
    int64_t held_step[64];
    int n_held = 0, n_ranks = 2, bad = 0, n_hit = 0;
    hr_ring *r = NULL;
    hr_status st;

    if ((st = hr__ring_connect(address, 0, rank, NULL, WAIT_MS, &r, &err)))
        goto done;
    if (!strcmp(mode, "fail")) {
        hr__ring_fail(r, "ValueError: it broke");
        pause_ms(2000);
        _exit(1);
    }
    for (int epoch = 0; epoch < 2; epoch++) {
        if ((st = begin(r, &q, &err)))
            goto done;
        for (int64_t step = 0;; step++) {
            hr_table *t = NULL;

            if (!strcmp(mode, "memory")) /* one allocation after the other fails, of receiving and of sending */
                hr__fault_arm(HR_FAULT_MEMORY, step % 20);
            st = next(r, &t, &err);
            n_hit += hr__fault_disarm();
            if (st)
                goto done;
            if (!t)
                break;
            bad += !batch_is(t, step, n_ranks, rank);
            if (!strcmp(mode, "slow"))
                pause_ms(3);
            if (!strcmp(mode, "write")) { /* its own: the other rank must not see this */
                hr_buffer *b = t->columns[0]->buffers[1];

                bad += !t->sole;
                for (int64_t i = 0; t->sole && i < BATCH; i++)
                    ((int64_t *)(uintptr_t)b->data)[i] = -7;
            }
            if (!strcmp(mode, "hold") && step % 5 == 0 && n_held < 64) {
                held[n_held] = t;
                held_step[n_held++] = step;
                t = NULL;
            }
            hr_table_unref(t);
        }
    }
done:
    for (int i = 0; i < n_held; i++) {
        bad += !batch_is(held[i], held_step[i], n_ranks, rank);
        hr_table_unref(held[i]);
    }
    hr__ring_close(r);
    bad += !strcmp(mode, "memory") && n_hit < 20;
    if (st)
        fprintf(stderr, "rank %d: %s: %s\n", rank, hr_status_name(st), err.text);
    hr_error_clear(&err);
    return st == HR_PEER ? 3 : st || bad;
}

static int server_main(int n_ranks)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    hr_split *s = NULL;
    hr_ring_server *server = NULL;
    char *address = NULL;

    if (hr_plan_range(1000000, "x", &p, &err) || hr__split_new(p, n_ranks, HR_TAIL_EQUAL, NULL, &s, &err) ||
        hr__ring_serve(&s, 1, NULL, &server, &address, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s\n", address);
    fflush(stdout);
    for (;;)
        pause();
}

static pid_t start(const char *a, const char *b, const char *c, const char *d, int out_fd)
{
    pid_t pid = fork();

    if (pid == 0) {
        if (out_fd >= 0)
            dup2(out_fd, 1);
        execl(program, program, a, b, c, d, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static pid_t start_client(const char *address, int rank, const char *mode)
{
    char number[16];

    snprintf(number, sizeof number, "%d", rank);
    return start("client", address, number, mode, -1);
}

/* Its exit code, or 128 + signal. Fails the test after 20 s. */
static int wait_for(pid_t pid)
{
    int status = 0;

    for (int i = 0; i < 2000; i++) {
        pid_t got = waitpid(pid, &status, WNOHANG);

        if (got == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        pause_ms(10);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    fail_msg("process %d did not end", (int)pid);
    return -1;
}

/* --- a server in the test's own process */

typedef struct house {
    hr_plan *plan;
    hr_split *split;
    hr_ring_server *server;
    char *address;
} house;

static house house_of(int64_t n_rows, int n_ranks)
{
    hr_feed_options o = { .struct_bytes = sizeof o };
    hr_error err = HR_ERROR_INIT;
    house h = { 0 };

    assert_ok(hr_plan_range(n_rows, "x", &h.plan, &err), &err);
    assert_ok(hr__split_new(h.plan, n_ranks, HR_TAIL_EQUAL, &o, &h.split, &err), &err);
    assert_ok(hr__ring_serve(&h.split, 1, NULL, &h.server, &h.address, &err), &err);
    return h;
}

static void house_free(house *h)
{
    hr__ring_stop(h->server);
    hr__split_close(h->split);
    hr__split_unref(h->split);
    hr_plan_unref(h->plan);
    hr_string_free(h->address);
}

static hr_ring *connect_to(const house *h, int rank)
{
    hr_error err = HR_ERROR_INIT;
    hr_ring *r = NULL;

    assert_ok(hr__ring_connect(h->address, 0, rank, NULL, WAIT_MS, &r, &err), &err);
    return r;
}

static void all_rows(void **state)
{
    static const char *const modes[] = { "plain", "hold", "slow", "write", "memory" };

    (void)state;
    for (int i = 0; i < HR_LEN(modes); i++) {
        live_memory before = live_now();
        house h = house_of(BATCH * 2 * 150, 2);
        pid_t a = start_client(h.address, 0, modes[i]), b = start_client(h.address, 1, "plain");
        hr_error err = HR_ERROR_INIT;
        char *stats = NULL;

        assert_int_equal(wait_for(a), 0);
        assert_int_equal(wait_for(b), 0);
        for (int k = 0; k < WAIT_MS; k++) { /* the server reads the clients' last messages after their end */
            hr_string_free(stats);
            assert_ok(hr__split_stats(h.split, &stats, &err), &err);
            if (strstr(stats, "\"taken_steps\":[150,150]"))
                break;
            pause_ms(1);
        }
        assert_contains(stats, "\"rows\":[1500,1500],\"taken_steps\":[150,150]");
        hr_string_free(stats);
        house_free(&h);
        assert_no_leak(before);
    }
}

/* Has the split heard of a lost rank? Waits for it a little. */
static bool heard_of_a_loss(hr_split *s, hr_error *err)
{
    for (int i = 0; i < 300; i++) {
        char *text = NULL;

        if (hr__split_position(s, &text, err) == HR_PEER)
            return true;
        hr_string_free(text);
        pause_ms(5);
    }
    return false;
}

static void a_client_is_killed(void **state)
{
    uint64_t random = 11;

    (void)state;
    for (int round = 0; round < 6; round++) {
        live_memory before = live_now();
        house h = house_of(BATCH * 2 * 100000, 2);
        pid_t a = start_client(h.address, 0, "slow"), b = start_client(h.address, 1, "slow");
        hr_error err = HR_ERROR_INIT;
        int64_t killed_ns;

        pause_ms((int)random_below(&random, 300));
        kill(b, SIGKILL);
        killed_ns = hr__clock_ns();
        assert_int_equal(wait_for(b), 128 + SIGKILL);
        if (heard_of_a_loss(h.split, &err)) {
            assert_contains(err.text, "rank 1: its process (pid ");
            assert_int_equal(wait_for(a), 3);
            assert_true(hr__clock_ns() - killed_ns < LIMIT_NS);
        } else { /* it was killed before it said who it was */
            kill(a, SIGKILL);
            wait_for(a);
        }
        hr_error_clear(&err);
        house_free(&h);
        assert_no_leak(before);
    }
}

static void a_client_fails(void **state)
{
    house h = house_of(BATCH * 2 * 100, 2);
    pid_t b = start_client(h.address, 1, "fail");
    hr_split_request q = { .batch_rows = BATCH };
    hr_ring *r = connect_to(&h, 0);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(begin(r, &q, &err), HR_PEER, &err);
    assert_string_equal(err.text, "rank 1: ValueError: it broke");
    hr_error_clear(&err);
    hr__ring_close(r);
    kill(b, SIGKILL);
    wait_for(b);
    house_free(&h);
}

/* --- the server dies */

typedef struct watch {
    char address[200];
    hr_status st[2];
    int64_t ended_ns[2];
    atomic_int n_batches;
    pid_t server;
    int64_t killed_ns;
} watch;

static void watching(void *arg, int thread)
{
    const hr_split_request q = { .batch_rows = BATCH, .prefetch = 1 };
    watch *w = arg;
    hr_error err = HR_ERROR_INIT;
    hr_ring *r = NULL;

    if (thread == 2) {
        while (atomic_load(&w->n_batches) < 50)
            pause_ms(1);
        w->killed_ns = hr__clock_ns();
        kill(w->server, SIGKILL);
        return;
    }
    w->st[thread] = hr__ring_connect(w->address, 0, thread, NULL, WAIT_MS, &r, &err);
    if (!w->st[thread])
        w->st[thread] = begin(r, &q, &err);
    while (!w->st[thread]) {
        hr_table *t = NULL;

        w->st[thread] = next(r, &t, &err);
        hr_table_unref(t);
        if (!w->st[thread] && !t)
            break;
        atomic_fetch_add(&w->n_batches, 1);
    }
    w->ended_ns[thread] = hr__clock_ns();
    hr_error_clear(&err);
    hr__ring_close(r);
}

static void the_server_is_killed(void **state)
{
    watch w = { .n_batches = 0 };
    int fds[2], n = 0;

    (void)state;
    assert_int_equal(pipe(fds), 0);
    w.server = start("server", "2", "-", "-", fds[1]);
    close(fds[1]);
    while (n < (int)sizeof w.address - 1 && read(fds[0], w.address + n, 1) == 1 && w.address[n] != '\n')
        n++;
    w.address[n] = 0;
    close(fds[0]);
    run_threads(3, watching, &w);
    assert_int_equal(wait_for(w.server), 128 + SIGKILL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(w.st[i], HR_PEER);
        assert_true(w.ended_ns[i] - w.killed_ns < LIMIT_NS);
    }
}

/* --- questions */

static void refused(void **state)
{
    house h = house_of(100, 2);
    hr_ring *r = connect_to(&h, 0), *other = NULL;
    hr_error err = HR_ERROR_INIT;
    char wrong[200];

    (void)state;
    assert_status(hr__ring_connect(h.address, 0, 2, NULL, WAIT_MS, &other, &err), HR_INVALID, &err);
    assert_contains(err.text, "no split or rank of this number");
    assert_status(hr__ring_connect(h.address, 1, 0, NULL, WAIT_MS, &other, &err), HR_INVALID, &err);
    assert_status(hr__ring_connect(h.address, 0, 0, NULL, WAIT_MS, &other, &err), HR_INVALID, &err);
    assert_contains(err.text, "another connection serves this rank already");
    snprintf(wrong, sizeof wrong, "%s", h.address);
    wrong[strlen(wrong) - 1] = wrong[strlen(wrong) - 1] == '0' ? '1' : '0';
    assert_status(hr__ring_connect(wrong, 0, 1, NULL, WAIT_MS, &other, &err), HR_PEER, &err);
    assert_status(hr__ring_connect("nowhere:0", 0, 1, NULL, WAIT_MS, &other, &err), HR_INVALID, &err);
    assert_true(hr__ring_connect("nowhere:00112233445566778899aabbccddeeff", 0, 1, NULL, 200, &other, &err) != HR_OK);
    assert_null(other);
    hr_error_clear(&err);
    hr__ring_close(r);
    r = NULL;
    for (int i = 0; i < 500 && hr__ring_connect(h.address, 0, 0, NULL, WAIT_MS, &r, NULL); i++)
        pause_ms(10); /* the goodbye is on its way, and then there is room for it again */
    assert_non_null(r);
    hr__ring_close(r);
    house_free(&h);
}

/* A named server, as ranks of a launcher meet: the key, the server's own rank, what it tells of the ranks. */
static void a_named_server(void **state)
{
    char name[64];
    hr_ring_options o = { .address = name, .key = "abc", .has_own_rank = true, .own_rank = 0 };
    hr_ring_server *again = NULL;
    house h = house_of(100, 2);
    hr_error err = HR_ERROR_INIT;
    char *address = NULL, *text = NULL;
    hr_ring *r = NULL, *other = NULL;
    int pid = 0, rank = -1;

    (void)state;
    snprintf(name, sizeof name, "headrace-test-%d", (int)getpid());
    hr__ring_stop(h.server);
    hr_string_free(h.address);
    h.address = NULL;
    assert_ok(hr__ring_serve(&h.split, 1, &o, &h.server, &h.address, &err), &err);
    assert_string_equal(h.address, name);
    assert_int_equal(hr__ring_serve(&h.split, 1, &o, &again, &address, &err), HR_IO);
    assert_contains(err.text, "in use");
    assert_status(hr__ring_connect(name, 0, 1, "abd", WAIT_MS, &r, &err), HR_MISMATCH, &err);
    assert_status(hr__ring_connect(name, 0, 1, NULL, WAIT_MS, &r, &err), HR_MISMATCH, &err);
    assert_ok(hr__ring_connect(name, 0, 1, "abc", WAIT_MS, &r, &err), &err);
    hr__ring_server_of(r, &pid, &rank);
    assert_int_equal(pid, getpid());
    assert_int_equal(rank, 0);
    assert_int_equal(hr__ring_clients(h.server), 1);
    assert_true(hr__ring_take_own(h.server));
    assert_status(hr__ring_connect(name, 0, 0, "abc", WAIT_MS, &other, &err), HR_INVALID, &err);
    assert_contains(err.text, "another connection serves this rank already");
    assert_ok(hr__ring_describe_ranks(r, WAIT_MS, &text, &err), &err);
    assert_contains(text, "\"ranks\":[{\"state\":\"away\",\"pid\":0,");
    hr_string_free(text);
    assert_ok(hr__ring_position_of(r, 0, WAIT_MS, &text, &err), &err);
    assert_contains(text, "\"epoch\":0");
    hr_string_free(text);
    hr_error_clear(&err);
    hr__ring_close(r);
    house_free(&h);
}

static void begin_both(hr_ring *r[2], const hr_split_request *q)
{
    hr_error err = HR_ERROR_INIT;

    assert_int_equal(hr__ring_begin(r[0], q, 0, &err), HR_PENDING);
    assert_ok(begin(r[1], q, &err), &err);
    assert_ok(begin(r[0], q, &err), &err);
}

static void take_both(hr_ring *r[2], int64_t from, int64_t to)
{
    hr_error err = HR_ERROR_INIT;

    for (int64_t step = from; step < to; step++)
        for (int i = 0; i < 2; i++) {
            hr_table *t = NULL;

            assert_ok(next(r[i], &t, &err), &err);
            assert_non_null(t);
            assert_true(batch_is(t, step, 2, i));
            hr_table_unref(t);
        }
}

static void positions(void **state)
{
    const hr_split_request q = { .batch_rows = BATCH, .prefetch = 3 };
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    char *at = NULL, *stats = NULL;
    house h = house_of(BATCH * 2 * 20, 2);
    hr_ring *r[2] = { connect_to(&h, 0), connect_to(&h, 1) };
    hr_table *t = NULL;

    (void)state;
    assert_ok(hr__ring_schema(r[0], 2000, &schema, &err), &err);
    assert_string_equal(schema->fields[0].name, "x");
    hr__schema_unref(schema);
    begin_both(r, &q);
    take_both(r, 0, 7);
    assert_ok(next(r[0], &t, &err), &err); /* one more: what was handed ahead does not count, what was taken does */
    hr_table_unref(t);
    assert_status(hr__ring_position(r[0], 2000, &at, &err), HR_MISMATCH, &err);
    assert_ok(next(r[1], &t, &err), &err);
    hr_table_unref(t);
    assert_ok(hr__ring_position(r[1], 2000, &at, &err), &err);
    assert_ok(hr__ring_stats(r[0], WAIT_MS, &stats, &err), &err);
    assert_contains(stats, "\"taken_steps\":[8,8]");
    hr__ring_leave(r[0]);
    hr__ring_leave(r[1]);
    begin_both(r, &q); /* a new epoch */
    take_both(r, 0, 3);
    hr__ring_close(r[0]);
    hr__ring_close(r[1]);
    house_free(&h);

    h = house_of(BATCH * 2 * 20, 2);
    r[0] = connect_to(&h, 0);
    r[1] = connect_to(&h, 1);
    assert_ok(hr__ring_restore(r[1], at, NULL, 2000, &err), &err);
    begin_both(r, &q);
    take_both(r, 8, 20);
    for (int i = 0; i < 2; i++) {
        assert_ok(next(r[i], &t, &err), &err);
        assert_null(t);
    }
    begin_both(r, &q);
    take_both(r, 0, 20);
    hr__ring_close(r[0]);
    hr__ring_close(r[1]);
    hr_string_free(at);
    hr_string_free(stats);
    hr_error_clear(&err);
    house_free(&h);
}

/* Who holds everything hears how much that is. */
/* The story: under load a rank that asked after a barrier got HR_MISMATCH: the server had not read yet that the other
 * rank had taken its batch. */
static void a_position_right_after_a_step(void **state)
{
    enum { STEPS = 3000 };
    const hr_split_request q = { .batch_rows = BATCH, .prefetch = 3 };
    house h = house_of(BATCH * 2 * STEPS, 2);
    hr_ring *r[2] = { connect_to(&h, 0), connect_to(&h, 1) };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    begin_both(r, &q);
    for (int64_t step = 0; step < STEPS; step++) {
        char *at = NULL, rows[40];

        take_both(r, step, step + 1);
        assert_ok(hr__ring_position(r[step % 3 > 0], WAIT_MS, &at, &err), &err);
        snprintf(rows, sizeof rows, "\"rows\":%lld,", (long long)(BATCH * 2 * (step + 1)));
        assert_contains(at, rows);
        hr_string_free(at);
    }
    hr__ring_close(r[0]);
    hr__ring_close(r[1]);
    house_free(&h);
}

static void batches_held(void **state)
{
    const hr_split_request q = { .batch_rows = 32768, .prefetch = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_table *held[1000] = { NULL };
    hr_status st = HR_OK;
    int64_t limit = 24 << 20;
    hr_ring *r;
    int n = 0;
    house h;

    (void)state;
    assert_ok(hr_set_memory_limit(limit, &err), &err);
    h = house_of(200LL << 20, 1);
    r = connect_to(&h, 0);
    assert_ok(begin(r, &q, &err), &err);
    while (n < HR_LEN(held) && !(st = next(r, &held[n], &err)))
        n++;
    assert_int_equal(st, HR_BUDGET);
    assert_true(n >= 20 && n < 400);
    assert_contains(err.text, "rank 0 holds ");
    for (int i = 0; i < n; i++) {
        assert_int_equal(value(held[i], 0), (int64_t)i * 32768);
        hr_table_unref(held[i]);
    }
    hr_error_clear(&err);
    hr__ring_close(r);
    house_free(&h);
    assert_ok(hr_set_memory_limit(0, &err), &err);
}

typedef struct slow_call {
    atomic_bool begun, may_end;
} slow_call;

static hr_status slow_first(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    slow_call *s = context;

    (void)state;
    (void)err;
    atomic_store(&s->begun, true);
    for (int i = 0; i < 10000 && !atomic_load(&s->may_end); i++)
        pause_ms(10);
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* Two ranks of a plan whose function takes as long as `call` says. */
static house slow_house(slow_call *call)
{
    const hr_map_function fn = { .struct_bytes = sizeof fn, .name = "f", .context = call, .call = slow_first };
    hr_map_options mo = { .struct_bytes = sizeof mo };
    hr_feed_options o = { .struct_bytes = sizeof o };
    hr_error err = HR_ERROR_INIT;
    hr_plan *range = NULL;
    house h = { 0 };

    assert_ok(hr_plan_range(100, "x", &range, &err), &err);
    assert_ok(hr_plan_map(range, &fn, &mo, &h.plan, &err), &err);
    assert_ok(hr__split_new(h.plan, 2, HR_TAIL_EQUAL, &o, &h.split, &err), &err);
    assert_ok(hr__ring_serve(&h.split, 1, NULL, &h.server, &h.address, &err), &err);
    hr_plan_unref(range);
    return h;
}

/* A schema that needs a run of the user's function does not block other requests. */
static void a_late_schema(void **state)
{
    slow_call call = { 0 };
    hr_error err = HR_ERROR_INIT;
    house h = slow_house(&call);
    hr_schema *schema = NULL;
    char *stats = NULL;
    hr_ring *r[2];

    (void)state;
    r[0] = connect_to(&h, 0);
    r[1] = connect_to(&h, 1);
    for (int i = 0; i < 500 && !atomic_load(&call.begun); i++)
        assert_int_equal(hr__ring_schema(r[0], 100, &schema, &err), HR_PENDING);
    assert_true(call.begun);
    assert_ok(hr__ring_stats(r[1], WAIT_MS, &stats, &err), &err);
    assert_int_equal(hr__ring_schema(r[1], 0, &schema, &err), HR_PENDING);
    atomic_store(&call.may_end, true);
    assert_ok(hr__ring_schema(r[0], WAIT_MS, &schema, &err), &err);
    assert_string_equal(schema->fields[0].name, "x");
    hr__schema_unref(schema);
    hr_string_free(stats);
    hr__ring_close(r[0]);
    hr__ring_close(r[1]);
    house_free(&h);
}

static int64_t cpu_ns(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * INT64_C(1000000000) +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * INT64_C(1000);
}

/* While the plan is busy with the next batch, nobody uses a processor. The server woke itself each time it asked. */
static void a_late_batch(void **state)
{
    slow_call call = { 0 };
    house h = slow_house(&call);
    pid_t ranks[] = { start_client(h.address, 0, "plain"), start_client(h.address, 1, "plain") };
    int64_t used;

    (void)state;
    for (int i = 0; i < WAIT_MS && !atomic_load(&call.begun); i++)
        pause_ms(1);
    assert_true(call.begun);
    pause_ms(50); /* both ranks have asked */
    used = cpu_ns();
    pause_ms(300);
    used = cpu_ns() - used;
    atomic_store(&call.may_end, true);
    for (int i = 0; i < HR_LEN(ranks); i++)
        assert_int_equal(wait_for(ranks[i]), 0);
    assert_true(used < 60000000);
    house_free(&h);
}

/* Somebody who cannot be let in for want of descriptors is waited for, not spun on. */
static void no_descriptor_for_a_guest(void **state)
{
    hr_error err = HR_ERROR_INIT;
    house h = house_of(100, 1);
    struct rlimit was, few;
    char *name = strdup(h.address);
    int lowest = dup(0), guest;
    int64_t begin_ns;
    hr_ring *r;

    (void)state;
    pause_ms(50); /* the server and the poller have what they need */
    *strrchr(name, ':') = 0;
    close(lowest);
    lowest = dup(0);
    close(lowest);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    few = was;
    few.rlim_cur = (rlim_t)lowest + 1;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    guest = hr__socket_connect(name);
    begin_ns = cpu_ns();
    pause_ms(600);
    begin_ns = cpu_ns() - begin_ns;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(guest >= 0);
    assert_true(begin_ns < 200000000);
    r = connect_to(&h, 0); /* comes in after the guest */
    hr__ring_close(r);
    close(guest);
    free(name);
    hr_error_clear(&err);
    house_free(&h);
}

/* One rank, its server in the same process: both ends meet every fault. */
static hr_status one_rank(hr_error *err)
{
    const hr_split_request q = { .batch_rows = BATCH, .prefetch = 1 };
    hr_feed_options o = { .struct_bytes = sizeof o };
    hr_status st = HR_OK;
    house h = { 0 };
    hr_ring *r = NULL;
    hr_table *t = NULL;
    hr_schema *schema = NULL;
    char *at = NULL;

    HR_GO(hr_plan_range(BATCH * 3, "x", &h.plan, err));
    HR_GO(hr__split_new(h.plan, 1, HR_TAIL_EQUAL, &o, &h.split, err));
    HR_GO(hr__ring_serve(&h.split, 1, NULL, &h.server, &h.address, err));
    HR_GO(hr__ring_connect(h.address, 0, 0, NULL, WAIT_MS, &r, err));
    HR_GO(hr__ring_schema(r, WAIT_MS, &schema, err));
    HR_GO(begin(r, &q, err));
    do {
        hr_table_unref(t);
        t = NULL;
        HR_GO(next(r, &t, err));
    } while (t);
    HR_GO(hr__ring_position(r, WAIT_MS, &at, err));
    HR_GO(hr__ring_restore(r, at, NULL, WAIT_MS, err));
done:
    hr_string_free(at);
    hr__schema_unref(schema);
    hr_table_unref(t);
    hr__ring_close(r);
    hr__ring_stop(h.server);
    hr__split_unref(h.split);
    hr_plan_unref(h.plan);
    hr_string_free(h.address);
    return st;
}

/* What a rank asks for, as it travels: see hr_ring_request. The kinds are those of ring_protocol.h. */
typedef struct raw_request {
    int64_t batch_rows, shuffle_rows, epoch;
    uint64_t shuffle_seed;
    int32_t prefetch;
    uint8_t bits[12];
    char extra[256];
} raw_request;
typedef struct raw_hello {
    int32_t split, rank, pid, version;
    char key[128];
} raw_hello;
enum { HELLO = 1, WELCOME, REFUSED, BEGIN, BEGUN, TAKEN = 9 };

/* The kind of the answer to a rank that sends these bytes; 0: the server has closed the connection. */
static uint32_t answer_to(const house *h, uint32_t kind, const void *bytes, int64_t n)
{
    const raw_hello hello = { .pid = (int32_t)getpid(), .version = 6 };
    hr_account *account = hr__account_new("test", NULL, 0);
    hr_link *link = NULL;
    hr_message m = { 0 };
    uint32_t found;

    assert_int_equal(hr__link_connect(h->address, account, &link, NULL), HR_OK);
    assert_int_equal(hr__link_send(link, HELLO, 0, &hello, sizeof hello, NULL, NULL), HR_OK);
    assert_int_equal(hr__link_recv(link, WAIT_MS, &m, NULL), HR_OK);
    assert_int_equal(m.kind, WELCOME);
    hr__message_clear(&m);
    assert_int_equal(hr__link_send(link, kind, 1, bytes, n, NULL, NULL), HR_OK);
    if (hr__link_recv(link, kind == TAKEN ? 300 : WAIT_MS, &m, NULL))
        hr__message_clear(&m);
    found = m.kind;
    hr__message_clear(&m);
    hr__link_close(link);
    hr__link_unref(link);
    hr__account_unref(account);
    return found;
}

/* Bools, numbers and padding were taken as they came: a bool of 2 is neither true nor false to a compiler. */
static void damaged_requests(void **state)
{
    const raw_request good = { .batch_rows = BATCH, .bits = { 0, 1, 0, 0 }, .extra = "x" };
    raw_request bad[14];
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(bad); i++)
        bad[i] = good;
    bad[0].bits[0] = 2;
    bad[1].bits[1] = 255;
    bad[2].bits[2] = 7;
    bad[3].bits[3] = 2;
    bad[4].prefetch = INT32_MAX;
    bad[5].batch_rows = -1;
    bad[6].shuffle_rows = INT64_MIN;
    memset(bad[7].extra, 'x', sizeof bad[7].extra);
    bad[9].bits[4] = 2;
    bad[10].bits[11] = 1;
    bad[11].bits[5] = 2;
    bad[12].epoch = 1; /* no bit says that it has one */
    bad[13].bits[5] = 1;
    bad[13].epoch = -1;
    bad[8].extra[100] = 'y'; /* after the end */
    for (int i = -1; i < HR_LEN(bad); i++) {
        house h = house_of(BATCH, 1);

        assert_int_equal(answer_to(&h, BEGIN, i < 0 ? &good : &bad[i], sizeof good), i < 0 ? BEGUN : 0);
        if (i >= 0)
            assert_true(heard_of_a_loss(h.split, &err));
        hr_error_clear(&err);
        house_free(&h);
    }
    for (int64_t n = 0; n < (int64_t)sizeof good; n += 13) { /* cut short: an empty one has no bytes at all */
        house h = house_of(BATCH, 1);

        assert_int_equal(answer_to(&h, BEGIN, n ? &good : NULL, n), 0);
        house_free(&h);
    }
}

/* An error without a byte was read at 4 bytes after nothing. */
static void an_empty_refusal(void **state)
{
    static const int64_t sizes[] = { 0, 3, 4, 9 };

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        const char bytes[] = "\3\0\0\0text";
        hr_listener *door = NULL;
        hr_error err = HR_ERROR_INIT;
        hr_link *link = NULL;
        pid_t client;

        assert_int_equal(hr__listener_open(NULL, &door, &err), HR_OK);
        client = start_client(hr__listener_address(door), 0, "plain");
        while (hr__listener_accept(door, NULL, NULL, &link, NULL) == HR_PENDING)
            pause_ms(1);
        assert_int_equal(hr__link_send(link, REFUSED, 0, sizes[i] ? bytes : NULL, sizes[i], NULL, NULL), HR_OK);
        assert_int_equal(wait_for(client), 1); /* no crash, and not "the other process died" */
        hr__link_close(link);
        hr__link_unref(link);
        hr__listener_close(door);
    }
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(one_rank, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rows),         cmocka_unit_test(a_client_is_killed),
        cmocka_unit_test(a_client_fails),   cmocka_unit_test(the_server_is_killed),
        cmocka_unit_test(refused),          cmocka_unit_test(a_named_server),
        cmocka_unit_test(positions),        cmocka_unit_test(a_position_right_after_a_step),
        cmocka_unit_test(batches_held),     cmocka_unit_test(no_descriptor_for_a_guest),
        cmocka_unit_test(a_late_schema),    cmocka_unit_test(a_late_batch),
        cmocka_unit_test(damaged_requests), cmocka_unit_test(an_empty_refusal),
        cmocka_unit_test(faults),
    };

    program = argv[0];
    if (argc == 5 && !strcmp(argv[1], "client"))
        return client_main(argv[2], atoi(argv[3]), argv[4]);
    if (argc == 5 && !strcmp(argv[1], "server"))
        return server_main(atoi(argv[2]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
