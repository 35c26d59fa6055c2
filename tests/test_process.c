/* test_process.c - functions in worker processes. This program is the worker, too: `test_process worker FD`.
 *
 * What a worker does with its calls is said by the bytes that it is sent first (see obey). */
#include "task_harness.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"
#include "op/call.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* -------------------------------------------------------------------------------------------- in the worker process */

static const char *program; /* argv[0]: under valgrind /proc/self/exe is valgrind */

static uint64_t current; /* the call at hand */

static hr_status give(hr_worker *w, hr_table *takes, hr_error *err)
{
    hr_status st = hr__worker_result(w, current, takes, NULL, NULL, err);

    hr_table_unref(takes);
    return st;
}

static hr_status give_doubled(hr_worker *w, const hr_table *in, hr_error *err)
{
    hr_table *t = NULL;
    hr_status st = doubled(hr__worker_mem(w), in, HR_T_INT64, 1, &t, err);

    return st ? st : give(w, t, err);
}

/* One int64 column whose every row is v. */
static hr_status give_number(hr_worker *w, const hr_table *in, int64_t v, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field field = { .name = "v", .type = hr__type_simple(HR_T_INT64) };
    hr_schema *schema = NULL;
    hr_builder *b = NULL;
    hr_array *a = NULL;
    hr_table *t = NULL;

    HR_GO(hr__schema_new(&field, 1, &schema, err));
    HR_GO(hr__builder_new(NULL, field.type, &b, err)); /* not in the worker's arena: the link copies */
    for (int64_t i = 0; i < in->n_rows; i++)
        HR_GO(hr__builder_int(b, v, err));
    HR_GO(hr__builder_finish(b, &a, err));
    HR_GO(hr__table_new(schema, &a, in->n_rows, NULL, &t, err));
    HR_GO(give(w, t, err));
done:
    hr__builder_free(b);
    hr__schema_unref(schema);
    return st;
}

static hr_status give_keep(hr_worker *w, const hr_table *in, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field field = { .name = "keep", .type = hr__type_simple(HR_T_BOOL) };
    hr_schema *schema = NULL;
    hr_builder *b = NULL;
    hr_array *a = NULL;
    hr_table *t = NULL;

    HR_GO(hr__schema_new(&field, 1, &schema, err));
    HR_GO(hr__builder_new(hr__worker_mem(w), field.type, &b, err));
    for (int64_t i = 0; i < in->n_rows; i++)
        HR_GO(hr__builder_int(b, x_at(in, i) % 2, err));
    HR_GO(hr__builder_finish(b, &a, err));
    HR_GO(hr__table_new(schema, &a, in->n_rows, NULL, &t, err));
    HR_GO(give(w, t, err));
done:
    hr__builder_free(b);
    hr__schema_unref(schema);
    return st;
}

static hr_status give_in_three(hr_worker *w, const hr_table *in, hr_error *err)
{
    int64_t third = in->n_rows / 3;

    for (int i = 0; i < 3; i++) {
        hr_table *part = slice(in, i * third, i == 2 ? in->n_rows - 2 * third : third);
        hr_status st = give_doubled(w, part, err);

        hr_table_unref(part);
        HR_TRY(st);
    }
    return HR_OK;
}

static hr_status raise_at(const hr_table *in, int64_t x, hr_error *err)
{
    static const char big[100000] = "pickle";

    if (x_at(in, 0) != x)
        return HR_OK;
    hr_error_set(err, HR_CALLBACK, "ValueError: at %lld", (long long)x);
    hr_error_set_detail(err, big, sizeof big);
    return HR_CALLBACK;
}

/* `n` tables of one row, row 0 doubled, as a generator gives them; what it paused it goes on with. */
typedef struct stream {
    uint64_t tag;
    hr_table *in;
    int n, n_given;
} stream;
static stream streams[10];
static int n_streams;

static hr_status go_on(hr_worker *w, stream s, hr_error *err)
{
    hr_status st = HR_OK;
    hr_go go = HR_GO_ON;

    while (!st && s.n_given < s.n && go == HR_GO_ON) {
        hr_table *row = slice(s.in, 0, 1), *t = NULL;

        st = doubled(hr__worker_mem(w), row, HR_T_INT64, 1, &t, err);
        if (!st)
            st = hr__worker_result(w, s.tag, t, NULL, &go, err);
        hr_table_unref(row);
        hr_table_unref(t);
        s.n_given++;
    }
    if (!st && go == HR_GO_PAUSE) {
        streams[n_streams++] = s;
        return HR_PENDING;
    }
    hr_table_unref(s.in);
    return st;
}

static stream kept(uint64_t tag)
{
    for (int i = 0; i < n_streams; i++)
        if (streams[i].tag == tag) {
            stream s = streams[i];

            streams[i] = streams[--n_streams];
            return s;
        }
    return (stream){ 0 };
}

/* Writes begins and ends of runs into a file: "+1", "-1". */
static void note_run(const char *word, const hr_work *todo)
{
    FILE *f = !strncmp(word, "runs ", 5) ? fopen(word + 5, "a") : NULL;

    if (f) {
        fprintf(f, "%c%d", todo->kind == HR_WORK_RUN ? '+' : '-', (int)todo->tag);
        fclose(f);
    }
}

/* The words: runs FILE, state (its run's instance has one), double, three, odd, same, stream N, once (the first worker
 * dies: there is a file), slow MS, number (how many calls came so far; slow after six), random (the place's low bits),
 * raise X, die X (at the batch that begins with x = X). */
static hr_status obey(hr_worker *w, const char *word, const hr_table *in, const hr_call_place *place, int n_calls,
                      hr_error *err)
{
    long arg = strchr(word, ' ') ? strtol(strchr(word, ' '), NULL, 10) : 0;

    if (!strcmp(word, "three"))
        return give_in_three(w, in, err);
    if (!strcmp(word, "odd"))
        return give_keep(w, in, err);
    if (!strcmp(word, "same"))
        return hr__worker_result(w, current, in, NULL, NULL, err);
    if (!strncmp(word, "stream", 6))
        return go_on(w, (stream){ current, hr_table_ref((hr_table *)in), (int)arg, 0 }, err);
    if (!strncmp(word, "once ", 5) && x_at(in, 0) == 50 && !access(word + 5, F_OK)) {
        unlink(word + 5);
        raise(SIGKILL);
    }
    if (!strcmp(word, "number")) {
        usleep(n_calls > 6 ? 100000 : 0);
        return give_number(w, in, n_calls, err);
    }
    if (!strcmp(word, "random"))
        return give_number(w, in, (int64_t)(place->random >> 1), err);
    if (!strncmp(word, "slow", 4))
        usleep((useconds_t)arg * 1000);
    if (!strncmp(word, "die", 3) && x_at(in, 0) == arg)
        raise(SIGKILL);
    if (!strncmp(word, "raise", 5))
        HR_TRY(raise_at(in, arg, err));
    return give_doubled(w, in, err);
}

static int work(int fd)
{
    hr_worker *w = NULL;
    hr_work todo;
    void *word = NULL;
    int64_t n_bytes = 0;
    int n_calls = 0;
    hr_status st;

    if (hr__worker_open(fd, &w, NULL))
        return 2;
    while ((st = hr__worker_init(w, 100, &word, &n_bytes, NULL)) == HR_PENDING)
        ;
    while (st == HR_PENDING || (!st && word)) {
        hr_error err = HR_ERROR_INIT;

        st = hr__worker_next(w, 100, &todo, &err);
        if (st == HR_PENDING)
            continue;
        if (st || todo.kind == HR_WORK_END)
            break;
        if (todo.kind == HR_WORK_RUN || todo.kind == HR_WORK_RUN_END) {
            note_run(word, &todo);
            continue;
        }
        current = todo.tag;
        if ((todo.place.flags & HR_CALL_SAVE) &&
            (st = hr__worker_save(w, current, todo.state ? todo.state : "fresh", NULL)))
            break;
        hr__free(todo.state);
        if (todo.kind == HR_WORK_DROP)
            hr_table_unref(kept(current).in);
        else if (todo.kind == HR_WORK_MORE)
            st = go_on(w, kept(current), &err);
        else
            st = obey(w, word, todo.table, &todo.place, ++n_calls, &err);
        hr_table_unref(todo.table);
        hr__free(todo.batches);
        if (st == HR_PENDING)
            continue;
        st = hr__worker_done(w, current, st, &err, NULL);
        hr_error_clear(&err);
    }
    hr__free(word);
    hr__worker_close(w);
    return st == HR_OK ? 0 : st == HR_PEER ? 3 : 4;
}

/* -------------------------------------------------------------------------------------------------- keeping workers */

typedef struct keeper {
    hr_calls *calls;
    int pids[4];
    int n;
} keeper;

static int start_process(int fd)
{
    char text[16];
    int pid;

    snprintf(text, sizeof text, "%d", fd);
    pid = fork();
    if (pid == 0) {
        fcntl(fd, F_SETFD, 0);
        execl(program, "test_process", "worker", text, (char *)NULL);
        _exit(127);
    }
    assert_true(pid > 0);
    return pid;
}

static hr_status add_worker(keeper *k, const char *word, hr_error *err)
{
    int fds[2];
    hr_status st;

    if (local_sockets(fds) < 0)
        return hr_error_set(err, HR_IO, "no socket");
    k->pids[k->n++] = start_process(fds[1]);
    hr__file_close(fds[1]);
    st = hr__calls_add_worker(k->calls, fds[0], k->pids[k->n - 1], word, (int64_t)strlen(word) + 1, err);
    return st;
}

static void keep(keeper *k, int n, const char *word)
{
    hr_error err = HR_ERROR_INIT;

    *k = (keeper){ 0 };
    assert_ok(hr__calls_new("map(f)", &k->calls, &err), &err);
    hr__calls_expect(k->calls, n, NULL);
    for (int i = 0; i < n; i++)
        assert_ok(add_worker(k, word, &err), &err);
    assert_int_equal(hr__calls_n_workers(k->calls), n);
}

/* -> how many ended by themselves, with 0 */
static int wait_for_all(keeper *k)
{
    int good = 0, status;

    for (int i = 0; i < k->n; i++) {
        assert_int_equal(waitpid(k->pids[i], &status, 0), k->pids[i]);
        good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    k->n = 0;
    return good;
}

/* The end of the operator and of its calls: their workers end. -> how many, with 0 */
static int end(keeper *k, hr_op *op)
{
    hr__op_unref(op);
    hr__calls_unref(k->calls);
    return wait_for_all(k);
}

/* The poller lets go of workers when they closed their ends. */
static void assert_settles(live_memory before)
{
    for (int i = 0; i < 500 && live_now().blocks != before.blocks; i++)
        usleep(10000);
    assert_no_leak(before);
}

static hr_op *operator_of(hr_calls *calls, hr_calls_options o)
{
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    o.name = "map(f)";
    if (!o.block_rows)
        o.block_rows = 10;
    assert_ok(hr__op_calls(calls, &o, &op, &err), &err);
    return op;
}

/* One run of `in`, cut in some places. */
static hr_status run(rig *r, const hr_op *op, const hr_table *in, uint64_t seed, hr_error *err)
{
    hr_table *parts[8];
    int n = cut_randomly(in, &seed, parts, HR_LEN(parts));
    hr_status st;

    assert_ok(rig_open(r, op, NULL, err), err);
    st = rig_run(r, parts, n, err);
    unref_all(parts, n);
    return st;
}

static void check_doubled(const rig *r, const hr_table *in)
{
    hr_table *all = rig_joined(r);

    assert_int_equal(all->n_rows, in->n_rows);
    for (int64_t i = 0; i < in->n_rows; i++)
        assert_int_equal(x_at(all, i), 2 * x_at(in, i));
    hr_table_unref(all);
}

/* ---------------------------------------------------------------------------------------------------------- results */

static void test_any_number_of_workers(void **unused)
{
    static const char *const words[] = { "double", "three", "slow 1" };
    hr_table *in = numbers(0, 450);

    (void)unused;
    for (int i = 0; i < 6; i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        keeper k;
        hr_op *op;

        keep(&k, i < 3 ? 1 : 3, words[i % 3]);
        op = operator_of(k.calls, (hr_calls_options){ 0 });
        for (int epoch = 0; epoch < 2; epoch++) { /* workers stay */
            rig r = { 0 };

            assert_ok(run(&r, op, in, (uint64_t)i, &err), &err);
            check_doubled(&r, in);
            rig_close(&r);
        }
        assert_int_equal(end(&k, op), i < 3 ? 1 : 3);
        assert_settles(before);
    }
    hr_table_unref(in);
}

typedef struct one_run {
    const hr_op *op;
    hr_table *in;
    int n_cancelled;
} one_run;

static void give_up(rig *r)
{
    one_run *o = r->context;

    if (r->n_suspended == 2 && o->n_cancelled++ == 0)
        r->op->cls->cancel(r->op, &r->run);
}

/* Each thread runs three times; the second run of the last thread is cancelled. */
static void run_three_times(void *arg, int thread)
{
    one_run *runs = arg, *o = &runs[thread];

    for (int i = 0; i < 3; i++) {
        hr_error err = HR_ERROR_INIT;
        bool stops = thread == 2 && i == 1;
        rig r = { .while_suspended = stops ? give_up : NULL, .context = o };
        hr_status st = run(&r, o->op, o->in, (uint64_t)(10 * thread + i), &err);

        if (stops) {
            assert_status(st, HR_CANCELLED, &err);
        } else {
            assert_ok(st, &err);
            check_doubled(&r, o->in);
        }
        rig_close(&r);
        hr_error_clear(&err);
    }
}

static void test_many_runs_at_once(void **unused)
{
    live_memory before = live_now();
    one_run runs[3] = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 2, "slow 1");
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    for (int i = 0; i < 3; i++)
        runs[i] = (one_run){ .op = op, .in = numbers(13 * i, 200) };
    run_threads(3, run_three_times, runs);
    for (int i = 0; i < 3; i++)
        hr_table_unref(runs[i].in);
    assert_int_equal(end(&k, op), 2);
    assert_settles(before);
}

/* Every type of column there and back, kept beyond the end of the workers. */
static void test_tables_outlive_workers(void **unused)
{
    hr_table *in = numbers(0, 300), *all;
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 2, "same");
    op = operator_of(k.calls, (hr_calls_options){ .one_to_one = true });
    assert_ok(run(&r, op, in, 1, &err), &err);
    hr__calls_close(k.calls);
    assert_int_equal(wait_for_all(&k), 2);
    all = rig_joined(&r);
    assert_true(tables_equal(all, in));
    hr_table_unref(all);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(k.calls);
    assert_settles(before);
    hr_table_unref(in);
}

static void test_filter(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 100);
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 2, "odd");
    op = operator_of(k.calls, (hr_calls_options){ .filter = true });
    assert_ok(run(&r, op, in, 1, &err), &err);
    assert_int_equal(rig_rows(&r), 50);
    assert_int_equal(x_at(rig_table(&r, 3), 2), 35);
    assert_int_equal(hr__origin_at(rig_table(&r, 3)->origin, 2).row, 35);
    rig_close(&r);
    end(&k, op);
    hr_table_unref(in);
    assert_settles(before);
}

/* The same random bits whichever worker gets the batch. */
static void test_places(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 200), *first = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int n = 1; n <= 3; n += 2) {
        rig r = { .run = { .seed = 9, .epoch = 4, .index = 2 } };
        hr_table *all;
        keeper k;
        hr_op *op;

        keep(&k, n, "random");
        op = operator_of(k.calls, (hr_calls_options){ 0 });
        assert_ok(run(&r, op, in, (uint64_t)n, &err), &err);
        all = rig_joined(&r);
        for (int64_t i = 10; i < 200; i += 10)
            assert_int_not_equal(x_at(all, i), x_at(all, i - 10));
        if (first) {
            assert_true(tables_equal(first, all));
            hr_table_unref(all);
        } else {
            first = all;
        }
        rig_close(&r);
        end(&k, op);
    }
    hr_table_unref(first);
    hr_table_unref(in);
    assert_settles(before);
}

static int64_t most_in_arena;

static void see_arena(rig *r) { most_in_arena = HR_MAX(most_in_arena, hr__arena_used(hr__calls_arena(r->context))); }

/* What the plan had written into the workers' arena is sent as it is. */
static void test_input_in_the_arena(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 1000), *there = NULL;
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    int64_t used;
    hr_mem mem;
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "slow 20");
    op = operator_of(k.calls, (hr_calls_options){ .batch_rows = -1 });
    mem = (hr_mem){ NULL, op->cls->input_arena(op) };
    assert_non_null(mem.arena);
    assert_ok(hr__table_concat(&mem, in->schema, &in, 1, &there, &err), &err);
    assert_true(hr__table_in_arena(there, mem.arena));
    assert_false(hr__table_in_arena(in, mem.arena));
    used = hr__arena_used(mem.arena);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, there, &err), &err);
    assert_true(hr__arena_used(mem.arena) < used + 20000);
    check_doubled(&r, in);
    rig_close(&r);
    hr_table_unref(there);
    hr_table_unref(in);
    end(&k, op);
    assert_settles(before);
}

/* A wide column stays here: what travels, and what is copied for that, is the column that the function asked for. */
static void test_one_column_of_a_wide_table(void **unused)
{
    static const char *const only_x[] = { "x" };
    live_memory before = live_now();
    hr_table *in = numbers(0, 1000), *all;
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 2, "slow 1");
    op = operator_of(
        k.calls,
        (hr_calls_options){ .made = "y", .columns = only_x, .n_columns = 1, .one_to_one = true, .batch_rows = -1 });
    assert_null(op->cls->input_arena(op));
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    r.while_suspended = see_arena;
    r.context = k.calls;
    most_in_arena = 0;
    assert_ok(rig_push(&r, in, &err), &err);
    assert_true(most_in_arena >= 8 * 1000 && most_in_arena < 12 * 1000); /* x, and no more */
    assert_int_equal(rig_tables(&r), 1);
    all = rig_table(&r, 0);
    assert_int_equal(all->n_rows, 1000);
    assert_int_equal(all->schema->n, 5);
    assert_ptr_equal(all->columns[2]->children[0]->buffers[1]->data, in->columns[2]->children[0]->buffers[1]->data);
    for (int64_t i = 0; i < 1000; i++)
        assert_int_equal(((const int64_t *)hr__array_values(all->columns[4]))[i], 2 * i);
    rig_close(&r);
    hr_table_unref(in);
    end(&k, op);
    assert_settles(before);
}

/* ----------------------------------------------------------------------------------------------------------- errors */

static void test_exceptions(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 2, "raise 50");
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CALLBACK, &err);
    assert_string_equal(err.text, "map(f): row 50: ValueError: at 50");
    assert_int_equal(err.detail_bytes, 100000);
    assert_string_equal(err.detail, "pickle");
    assert_int_equal(rig_rows(&r), 50);
    rig_close(&r);
    r = (rig){ 0 };
    hr_error_clear(&err);
    assert_status(run(&r, op, in, 1, &err), HR_CALLBACK, &err); /* workers live on */
    rig_close(&r);
    assert_int_equal(end(&k, op), 2);
    hr_error_clear(&err);
    hr_table_unref(in);
    assert_settles(before);
}

static void test_one_that_dies(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;
    char want[200];
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "die 50");
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    assert_status(run(&r, op, in, 3, &err), HR_PEER, &err);
    snprintf(want, sizeof want, "map(f): row 50: worker process %d was lost", k.pids[0]);
    assert_string_equal(err.text, want);
    assert_int_equal(hr__calls_n_workers(k.calls), 0);
    rig_close(&r);
    r = (rig){ 0 };
    assert_status(run(&r, op, in, 3, &err), HR_PEER, &err); /* nobody is left */
    assert_contains(err.text, "map(f): no worker process is left; worker process");
    rig_close(&r);
    assert_int_equal(end(&k, op), 0);
    hr_error_clear(&err);
    hr_table_unref(in);
    assert_settles(before);
}

/* Workers that end at once get no calls: the next has them all. */
static void test_dead_when_they_come(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;
    int ends[40][2];
    rig r = { 0 };
    keeper k = { 0 };
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &k.calls, &err), &err);
    hr__calls_expect(k.calls, HR_LEN(ends) + 1, NULL);
    for (int i = 0; i < HR_LEN(ends); i++) {
        assert_int_equal(local_sockets(ends[i]), 0);
        shutdown(ends[i][1], SHUT_WR); /* says nothing more, but takes what is sent */
        assert_ok(hr__calls_add_worker(k.calls, ends[i][0], 1, "", 1, &err), &err);
    }
    usleep(30000);
    assert_ok(add_worker(&k, "double", &err), &err);
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    assert_ok(run(&r, op, in, 3, &err), &err);
    check_doubled(&r, in);
    rig_close(&r);
    assert_int_equal(end(&k, op), 1);
    for (int i = 0; i < HR_LEN(ends); i++)
        close(ends[i][1]);
    hr_table_unref(in);
    assert_settles(before);
}

/* The calls of the dead one fail, those that wait are done by the next. */
static void test_replaced(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 100);
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "die 0");
    op = operator_of(k.calls, (hr_calls_options){ .batch_rows = -1 });
    hr__calls_expect(k.calls, 1, NULL);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_PEER, &err);
    rig_next_ticket(&r);
    assert_int_equal(hr__calls_n_workers(k.calls), 0);
    assert_ok(add_worker(&k, "double", &err), &err);
    assert_ok(rig_push(&r, in, &err), &err);
    check_doubled(&r, in);
    rig_close(&r);
    assert_int_equal(end(&k, op), 1);
    hr_error_clear(&err);
    hr_table_unref(in);
    assert_settles(before);
}

typedef struct shooter {
    int pid;
    int64_t after_us;
} shooter;

static void shoot(void *arg)
{
    shooter *s = arg;

    usleep((useconds_t)s->after_us);
    kill(s->pid, SIGKILL);
}

/* At any moment: all rows came, or the right error; never a hang, never a leak. */
static void test_killed_at_random(void **unused)
{
    hr_table *in = numbers(0, 300);
    uint64_t random = 99;
    int n_lost = 0;

    (void)unused;
    for (int round = 0; round < 25; round++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        shooter s = { .after_us = random_below(&random, 12000) };
        hr_thread shooting;
        char want[100];
        rig r = { 0 };
        keeper k;
        hr_op *op;
        hr_status st;

        keep(&k, 2, round % 2 ? "slow 1" : "three");
        op = operator_of(k.calls, (hr_calls_options){ 0 });
        s.pid = k.pids[round % 2];
        assert_int_equal(hr__thread_start(&shooting, "shooter", shoot, &s), 0);
        st = run(&r, op, in, (uint64_t)round, &err);
        hr__thread_join(shooting);
        if (st) {
            snprintf(want, sizeof want, ": worker process %d was lost", s.pid);
            assert_status(st, HR_PEER, &err);
            assert_contains(err.text, "map(f): row ");
            assert_contains(err.text, want);
            n_lost++;
        } else {
            check_doubled(&r, in);
        }
        rig_close(&r);
        end(&k, op);
        hr_error_clear(&err);
        assert_settles(before);
    }
    assert_true(n_lost > 0);
    hr_table_unref(in);
}

/* ---------------------------------------------------------------------------------------------- runs that end early */

static void cancel_soon(rig *r)
{
    usleep(10000);
    r->op->cls->cancel(r->op, &r->run);
}

/* A worker runs one call and has another in its socket: the first is finished for nothing, the second is skipped. */
static void test_cancel(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 100), *ten = numbers(0, 10);
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = cancel_soon };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "number");
    op = operator_of(k.calls, (hr_calls_options){ .batch_rows = -1 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    r.while_suspended = NULL;
    for (int i = 0; i < 6; i++)
        assert_ok(rig_push(&r, ten, &err), &err); /* it is awake, and known to be quick */
    rig_close(&r);
    hr__op_unref(op);
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    r = (rig){ .while_suspended = cancel_soon };
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    assert_int_equal(hr__calls_n_waiting(k.calls), 0);
    rig_close(&r);
    hr__op_unref(op);
    op = operator_of(k.calls, (hr_calls_options){ .batch_rows = -1 });
    r = (rig){ 0 };
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, ten, &err), &err);
    assert_int_equal(x_at(rig_table(&r, 0), 0), 8);
    rig_close(&r);
    assert_int_equal(end(&k, op), 1);
    hr_table_unref(in);
    hr_table_unref(ten);
    hr_error_clear(&err);
    assert_settles(before);
}

/* A worker that does not move any more holds up nobody. */
static void test_stopped_worker(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 100);
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = cancel_soon };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "double");
    kill(k.pids[0], SIGSTOP);
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_close(k.calls);
    assert_int_equal(hr__calls_n_workers(k.calls), 0);
    hr__calls_unref(k.calls);
    kill(k.pids[0], SIGKILL);
    wait_for_all(&k);
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_settles(before);
}

static void close_soon(rig *r)
{
    int pids[4];

    usleep(10000);
    assert_int_equal(hr__calls_busy(r->context, pids, HR_LEN(pids)), 1);
    assert_int_equal(hr__calls_busy(r->context, pids, 0), 0);
    hr__calls_close(r->context);
}

/* What a worker has when all ends fails at once, too. */
static void test_close_midway(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 100);
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = close_soon };
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "slow 500");
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    r.context = k.calls;
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    rig_close(&r);
    assert_int_equal(end(&k, op), 1);
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_settles(before);
}

/* ---------------------------------------------------------------------------------------------------------- streams */

/* Generators of any length, in order, and paused where they give more than is collected. */
static void test_streams(void **unused)
{
    static const char *const words[] = { "stream 1", "stream 64", "stream 300" };
    static const int lengths[] = { 1, 64, 300 };
    hr_table *in = numbers(0, 12);

    (void)unused;
    for (int i = 0; i < 6; i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        rig r = { 0 };
        keeper k;
        hr_op *op;

        keep(&k, 1 + i % 2, words[i / 2]);
        op = operator_of(k.calls, (hr_calls_options){ .block_rows = 1 });
        assert_ok(run(&r, op, in, (uint64_t)i, &err), &err);
        assert_int_equal(rig_tables(&r), 12 * lengths[i / 2]);
        for (int n = 0; n < rig_tables(&r); n++) {
            assert_int_equal(x_at(rig_table(&r, n), 0), 2 * (n / lengths[i / 2]));
            assert_int_equal(hr__origin_at(rig_table(&r, n)->origin, 0).ordinal, n % lengths[i / 2]);
        }
        rig_close(&r);
        assert_int_equal(end(&k, op), 1 + i % 2);
        assert_settles(before);
    }
    hr_table_unref(in);
}

/* One without end is left, while it is paused or runs, and its worker does the next. */
static void test_streams_that_nobody_wants(void **unused)
{
    hr_table *in = numbers(0, 1);

    (void)unused;
    for (int i = 0; i < 10; i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        keeper k;
        hr_op *op;

        keep(&k, 1, "stream 1000000000");
        op = operator_of(k.calls, (hr_calls_options){ .batch_rows = -1 });
        for (int epoch = 0; epoch < 2; epoch++) {
            rig r = { .while_suspended = cancel_soon };

            assert_ok(rig_open(&r, op, NULL, &err), &err);
            assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
            rig_close(&r);
            hr_error_clear(&err);
        }
        assert_int_equal(end(&k, op), 1);
        assert_settles(before);
    }
    hr_table_unref(in);
}

/* ---------------------------------------------------------------------------------------------------------- retries */

typedef struct replacer {
    keeper *k;
    const char *word;
    atomic_bool ended;
    hr_thread thread;
} replacer;

/* A worker for each that is expected. */
static void replace(void *arg)
{
    replacer *p = arg;

    while (!atomic_load(&p->ended)) {
        if (hr__calls_n_expected(p->k->calls))
            assert_ok(add_worker(p->k, p->word, NULL), NULL);
        usleep(1000);
    }
}

static void begin_replacing(replacer *p) { assert_int_equal(hr__thread_start(&p->thread, "replacer", replace, p), 0); }

static void end_replacing(replacer *p)
{
    atomic_store(&p->ended, true);
    hr__thread_join(p->thread);
}

/* The call of a worker that died is done again, as often as may be; those that it had not begun always are. */
static void test_done_again(void **unused)
{
    hr_table *in = numbers(0, 200);
    char word[] = "once /tmp/test_process_XXXXXX";
    int fd = mkstemp(word + 5);

    (void)unused;
    close(fd);
    for (int may = 1; may >= 0; may--) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        keeper k;
        replacer p = { .k = &k, .word = may ? word : "die 50" };
        rig r = { 0 };
        hr_op *op;

        keep(&k, 1, p.word);
        hr__calls_configure(k.calls, 0, 1);
        begin_replacing(&p);
        op = operator_of(k.calls, (hr_calls_options){ 0 });
        if (may) {
            assert_ok(run(&r, op, in, 3, &err), &err);
            check_doubled(&r, in);
        } else {
            assert_status(run(&r, op, in, 3, &err), HR_PEER, &err);
            assert_contains(err.text, "map(f): row 50: worker process");
            assert_int_equal(rig_rows(&r), 50);
        }
        end_replacing(&p);
        assert_int_equal(k.n, 2);
        rig_close(&r);
        end(&k, op);
        hr_error_clear(&err);
        assert_settles(before);
    }
    hr_table_unref(in);
}

/* What a dead worker was about is left out, if it may be; the rest is done by the next, whether the dead one had it
 * already or it waited (depth 1). */
static void check_left_out(int depth, hr_table *in)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    keeper k;
    replacer p = { .k = &k, .word = "die 50" };
    rig r = { 0 };
    hr_op *op;

    keep(&k, 1, p.word);
    hr__calls_configure(k.calls, depth, 0);
    begin_replacing(&p);
    op = operator_of(k.calls, (hr_calls_options){ .max_errored = 1 });
    assert_ok(run(&r, op, in, 3, &err), &err);
    end_replacing(&p);
    assert_int_equal(rig_rows(&r), 190);
    assert_int_equal(hr__calls_errored(k.calls, &err), 1);
    assert_contains(err.text, "row 50: worker process");
    rig_close(&r);
    end(&k, op);
    hr_error_clear(&err);
    assert_settles(before);
}

static void test_left_out(void **unused)
{
    hr_table *in = numbers(0, 200);

    (void)unused;
    check_left_out(1, in);
    check_left_out(0, in);
    hr_table_unref(in);
}

/* -------------------------------------------------------------------------------------------------------- instances */

static void assert_file_becomes(const char *path, const char *want)
{
    char found[100] = "";

    for (int i = 0; i < 1000 && strcmp(found, want) != 0; i++) {
        FILE *f = fopen(path, "r");
        size_t n = f ? fread(found, 1, sizeof found - 1, f) : 0;

        found[n] = 0;
        if (f)
            fclose(f);
        usleep(10000);
    }
    assert_string_equal(found, want);
}

/* A worker hears of the beginning and the end of each run, in their order among its calls. One that comes later hears
 * of those that are there. */
static void test_workers_hear_of_runs(void **unused)
{
    const hr_calls_options o = { .of_class = { .instances = true, .ahead = 1, .at_a_time = 1 } };
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    char path[] = "/tmp/headrace-test-runs-XXXXXX", word[60];
    int file = mkstemp(path);
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;

    (void)unused;
    assert_true(file >= 0);
    close(file);
    snprintf(word, sizeof word, "runs %s", path);
    keep(&k, 1, word);
    op = operator_of(k.calls, o);
    for (int i = 0; i < 2; i++) {
        assert_ok(run(&r, op, in, 3, &err), &err);
        check_doubled(&r, in);
        rig_close(&r);
    }
    assert_file_becomes(path, "+1-1+2-2");
    unlink(path);
    assert_int_equal(end(&k, op), 1);
    assert_ok(hr__calls_new("map(f)", &k.calls, &err), &err);
    hr__calls_expect(k.calls, 1, NULL);
    op = operator_of(k.calls, o);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(add_worker(&k, word, &err), &err);
    assert_ok(rig_run(&r, &in, 1, &err), &err);
    rig_close(&r);
    assert_file_becomes(path, "+1-1");
    unlink(path);
    assert_int_equal(end(&k, op), 1);
    hr_table_unref(in);
    assert_settles(before);
}

/* A state goes to the worker with the first call and comes back before its results, whatever its size. */
static void test_states_travel(void **unused)
{
    const hr_calls_options o = { .of_class = { .instances = true, .at_a_time = 1, .keeps = true, .saves = true } };
    static const int sizes[] = { 3, 99 };
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;
    keeper k;
    hr_op *op;

    (void)unused;
    keep(&k, 1, "double");
    op = operator_of(k.calls, o);
    for (int i = 0; i < HR_LEN(sizes); i++) {
        rig r = { .marked = true };
        char text[200] = "0:", *state = text + 2; /* no columns */

        memset(state, 'a' + i, (size_t)sizes[i]);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(op->cls->restore_run(op, &r.run, text, &err), &err);
        assert_ok(rig_run(&r, &in, 1, &err), &err);
        assert_string_equal(r.saved, state);
        check_doubled(&r, in);
        rig_close(&r);
    }
    assert_int_equal(end(&k, op), 1);
    hr_table_unref(in);
    assert_settles(before);
}

/* An instance that holds rows is lost with its worker: the run fails, whatever may be left out or done again. */
static void test_a_lost_instance(void **unused)
{
    hr_calls_options o = { .max_errored = -1, .of_class = { .instances = true, .at_a_time = 1 } };
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int keeps = 0; keeps < 2; keeps++) {
        keeper k;
        replacer p = { .k = &k, .word = "die 50" };
        rig r = { 0 };
        hr_op *op;
        hr_status st;

        keep(&k, 1, p.word);
        hr__calls_configure(k.calls, 0, 1);
        o.of_class.keeps = keeps;
        begin_replacing(&p);
        op = operator_of(k.calls, o);
        st = run(&r, op, in, 3, &err);
        end_replacing(&p);
        if (keeps) {
            assert_status(st, HR_PEER, &err);
            assert_contains(err.text, "the rows that its instance held are lost");
            assert_int_equal(rig_rows(&r), 50);
        } else {
            assert_ok(st, &err);
            assert_int_equal(rig_rows(&r), 190);
        }
        hr_error_clear(&err);
        rig_close(&r);
        end(&k, op);
    }
    hr_table_unref(in);
    assert_settles(before);
}

/* One that idles ends, and only one; the other has the calls then. After the last one no input memory is kept: the
 * story: 12 MB of it stayed beside a run that waited for memory. */
static void test_idle_workers_end(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 200);
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };
    keeper k;
    hr_op *op;
    int pid;

    (void)unused;
    keep(&k, 2, "double");
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    pid = hr__calls_end_idle(k.calls);
    assert_true(pid == k.pids[0] || pid == k.pids[1]);
    assert_int_equal(hr__calls_n_workers(k.calls), 1);
    assert_ok(run(&r, op, in, 3, &err), &err);
    check_doubled(&r, in);
    assert_true(hr__arena_bytes(hr__calls_arena(k.calls)) > 0);
    assert_true(hr__calls_end_idle(k.calls) > 0);
    rig_close(&r);
    assert_int_equal(hr__calls_end_idle(k.calls), 0);
    assert_int_equal(hr__arena_bytes(hr__calls_arena(k.calls)), 0);
    assert_int_equal(end(&k, op), 2);
    hr_table_unref(in);
    assert_settles(before);
}

/* ------------------------------------------------------------------------------------------------ damaged processes */

/* Ends of the talk that say what they should not. */
static void test_senseless_messages(void **unused)
{
    static const struct {
        uint32_t kind;
        uint64_t tag;
        const char *bytes;
        int64_t n_bytes;
        const char *text;
    } cases[] = {
        { 99, 1, NULL, 0, "sent an invalid message: unexpected message of kind 99 for call 1" },
        { 9, 1, "short", 5, "sent an invalid message: DONE has 5 bytes" },
        { 9, 1, "\1\0\0\0\377\377\377\177\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32,
          "sent an invalid message: DONE has 32 bytes" },
        { 9, 77, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 32,
          "sent an invalid message: unexpected message of kind 9 for call 77" },
        { 6, 1, NULL, 0, "sent an invalid message: unexpected message of kind 6 for call 1" },
    };
    hr_table *in = numbers(0, 10);

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        hr_calls *calls = NULL;
        hr_link *end = NULL;
        rig r = { 0 };
        int fds[2];
        hr_op *op;

        assert_ok(hr__calls_new("map(f)", &calls, &err), &err);
        assert_true(local_sockets(fds) >= 0);
        assert_ok(hr__calls_add_worker(calls, fds[0], 4711, NULL, 0, &err), &err);
        assert_ok(hr__link_new(fds[1], NULL, NULL, &end, &err), &err);
        op = operator_of(calls, (hr_calls_options){ .batch_rows = -1 });
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(hr__link_send(end, cases[i].kind, cases[i].tag, cases[i].bytes, cases[i].n_bytes, NULL, &err), &err);
        assert_int_not_equal(rig_push(&r, in, &err), HR_OK);
        assert_contains(err.text, "worker process 4711");
        assert_contains(err.text, cases[i].text);
        rig_close(&r);
        hr__op_unref(op);
        hr__calls_unref(calls);
        hr__link_close(end);
        hr__link_unref(end);
        hr_error_clear(&err);
        assert_settles(before);
    }
    hr_table_unref(in);
}

/* The worker's side, when the other process is gone. */
static void test_keeper_gone(void **unused)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_worker *w = NULL;
    hr_work todo;
    int64_t n = 0;
    void *init = NULL;
    int fds[2];

    (void)unused;
    assert_true(local_sockets(fds) >= 0);
    assert_ok(hr__worker_open(fds[1], &w, &err), &err);
    assert_int_equal(hr__worker_init(w, 20, &init, &n, &err), HR_PENDING);
    assert_int_equal(hr__worker_next(w, 0, &todo, &err), HR_PENDING);
    assert_status(hr__worker_done(w, 1, HR_OK, NULL, &err), HR_INVALID, &err);
    hr__file_close(fds[0]);
    assert_status(hr__worker_init(w, 1000, &init, &n, &err), HR_PEER, &err);
    assert_status(hr__worker_next(w, 1000, &todo, &err), HR_PEER, &err);
    hr__worker_close(w);
    hr_error_clear(&err);
    assert_settles(before);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

static hr_status run_with_a_fault(void *context, hr_error *err)
{
    hr_calls_options o = { .name = "map(f)", .block_rows = 10 };
    hr_table **parts = context;
    hr_status st = HR_OK;
    live_memory before = live_now();
    keeper k = { 0 };
    rig r = { 0 };
    hr_op *op = NULL;

    HR_GO(hr__calls_new("map(f)", &k.calls, err));
    HR_GO(add_worker(&k, "double", err));
    HR_GO(hr__op_calls(k.calls, &o, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, parts, 2, err));
done:
    rig_close(&r);
    end(&k, op);
    for (int i = 0; i < 100 && live_now().blocks > before.blocks; i++)
        usleep(2000);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *parts[2] = { numbers(0, 15), numbers(15, 20) };

    (void)unused;
    run_with_faults_on(run_with_a_fault, parts, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    unref_all(parts, 2);
}

/* ----------------------------------------------------------------------------------------- a worker in this process */

static void give_many(rig *r)
{
    hr_worker *w = r->context;
    hr_error err = HR_ERROR_INIT;
    hr_work todo;

    assert_ok(hr__worker_next(w, 3000, &todo, &err), &err); /* HR_PENDING: the call never came */
    current = todo.tag;
    for (int i = 0; i < (x_at(todo.table, 0) == 0 ? 2000 : 1); i++)
        assert_ok(give_doubled(w, todo.table, &err), &err);
    hr_table_unref(todo.table);
    hr__free(todo.batches);
    assert_ok(hr__worker_done(w, todo.tag, HR_OK, NULL, &err), &err);
}

static void drop_what_came(rig *r)
{
    while (r->n_out)
        hr_table_unref(r->out[--r->n_out].table);
}

/* A call that the socket did not take, full of releases as it was, comes as soon as the worker has made room, though
 * nobody sends or receives any more. */
static void test_full_socket(void **unused)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_worker *w = NULL;
    keeper k = { 0 };
    rig r = { .while_suspended = give_many };
    void *bytes = NULL;
    int64_t n_bytes;
    hr_op *op;
    int fds[2];

    (void)unused;
    assert_int_equal(local_sockets(fds), 0);
    assert_ok(hr__calls_new("map(f)", &k.calls, &err), &err);
    assert_ok(hr__worker_open(fds[1], &w, &err), &err);
    assert_ok(hr__calls_add_worker(k.calls, fds[0], 1, "", 1, &err), &err);
    assert_ok(hr__worker_init(w, 3000, &bytes, &n_bytes, &err), &err);
    hr__free(bytes);
    op = operator_of(k.calls, (hr_calls_options){ 0 });
    r.context = w;
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    for (int64_t i = 0; i < 3; i++) { /* the second call finds the socket full */
        hr_table *in = numbers(10 * i, 10);

        assert_ok(rig_push(&r, in, &err), &err);
        hr_table_unref(in);
        drop_what_came(&r);
    }
    assert_ok(rig_finish(&r, &err), &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(k.calls);
    hr__worker_close(w);
    assert_settles(before);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_number_of_workers),
        cmocka_unit_test(test_many_runs_at_once),
        cmocka_unit_test(test_tables_outlive_workers),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_input_in_the_arena),
        cmocka_unit_test(test_one_column_of_a_wide_table),
        cmocka_unit_test(test_exceptions),
        cmocka_unit_test(test_one_that_dies),
        cmocka_unit_test(test_dead_when_they_come),
        cmocka_unit_test(test_replaced),
        cmocka_unit_test(test_killed_at_random),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_stopped_worker),
        cmocka_unit_test(test_close_midway),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_streams_that_nobody_wants),
        cmocka_unit_test(test_done_again),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_workers_hear_of_runs),
        cmocka_unit_test(test_states_travel),
        cmocka_unit_test(test_a_lost_instance),
        cmocka_unit_test(test_idle_workers_end),
        cmocka_unit_test(test_senseless_messages),
        cmocka_unit_test(test_keeper_gone),
        cmocka_unit_test(test_full_socket),
        cmocka_unit_test(test_faults),
    };

    program = argv[0];
    if (argc == 3 && !strcmp(argv[1], "worker"))
        return work(atoi(argv[2]));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
