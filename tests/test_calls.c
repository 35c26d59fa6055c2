/* test_calls.c - functions that Python threads or the consumer serve: order, errors, cancelling, several runs at once. */
#include "task_harness.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a server does with each call. */
typedef enum mode { DOUBLE, IN_THREE, KEEP_ODD, FAIL_SOME, NOTHING, SLOWLY, WRONG_KEEP } mode;

typedef struct server {
    hr_calls *calls;
    mode mode;
    atomic_int n_served;
    atomic_int n_failed;
} server;

static hr_table *made(const hr_table *in, int times)
{
    hr_table *t = NULL;

    assert_ok(doubled(NULL, in, HR_T_INT64, times, &t, NULL), NULL);
    return t;
}

static hr_table *bools(const char *name, int64_t n, bool (*fn)(int64_t x), const hr_table *in)
{
    hr_field field = { .name = (char *)name, .type = hr__type_simple(HR_T_BOOL) };
    hr_schema *schema = NULL;
    hr_builder *b = NULL;
    hr_array *a = NULL;
    hr_table *t = NULL;

    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__builder_new(NULL, field.type, &b, NULL), NULL);
    for (int64_t i = 0; i < n; i++)
        assert_ok(hr__builder_int(b, fn(x_at(in, i % in->n_rows)), NULL), NULL);
    assert_ok(hr__builder_finish(b, &a, NULL), NULL);
    assert_ok(hr__table_new(schema, &a, n, NULL, &t, NULL), NULL);
    hr__builder_free(b);
    hr__schema_unref(schema);
    return t;
}

static bool odd(int64_t x) { return x % 2; }

static void give_in_three(hr_call *call, const hr_table *in)
{
    int64_t third = in->n_rows / 3;

    for (int i = 0; i < 3; i++) {
        hr_table *part = slice(in, i * third, i == 2 ? in->n_rows - 2 * third : third);

        hr__call_result(call, made(part, 1));
        hr_table_unref(part);
    }
}

static void serve(server *s, hr_call *call)
{
    const hr_table *in = hr__call_input(call);
    hr_error err = HR_ERROR_INIT;

    atomic_fetch_add(&s->n_served, 1);
    if (s->mode == SLOWLY)
        usleep((useconds_t)(x_at(in, 0) * 37 % 2000));
    switch (s->mode) {
    case IN_THREE: give_in_three(call, in); break;
    case KEEP_ODD: hr__call_result(call, bools("keep", in->n_rows, odd, in)); break;
    case WRONG_KEEP: hr__call_result(call, bools("keep", in->n_rows + 1, odd, in)); break;
    case NOTHING: break;
    case FAIL_SOME:
        if (x_at(in, 0) % 40 == 20) {
            atomic_fetch_add(&s->n_failed, 1);
            hr_error_set(&err, HR_CALLBACK, "ValueError: at %d", (int)x_at(in, 0));
            hr_error_set_detail(&err, "pickle", 6);
            hr__call_result(call, made(in, 1)); /* thrown away */
            hr__call_done(call, HR_CALLBACK, &err);
            return;
        }
        hr__call_result(call, made(in, 1));
        break;
    default: hr__call_result(call, made(in, 1)); break;
    }
    hr__call_done(call, HR_OK, NULL);
}

/* A Python thread's loop. */
static void serve_until_closed(void *arg)
{
    server *s = arg;
    hr_call *call = NULL;
    hr_status st;

    while ((st = hr__calls_take(s->calls, 50, &call, NULL)) == HR_OK || st == HR_PENDING)
        if (!st)
            serve(s, call);
    assert_int_equal(st, HR_CANCELLED);
}

/* The consumer's: all that waits. */
static void serve_inline(rig *r)
{
    server *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, &call, NULL) == HR_OK)
        serve(s, call);
}

static hr_op *operator_of(hr_calls *calls, hr_calls_options o)
{
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    o.name = "map(f)";
    o.qualified = "module.f";
    if (!o.piece_rows)
        o.piece_rows = 10;
    assert_ok(hr__op_calls(calls, &o, &op, &err), &err);
    return op;
}

/* One run of all of `in`, in one push, served by the consumer. */
static hr_status run_inline(rig *r, server *s, hr_calls_options o, hr_table *in, hr_error *err)
{
    hr_op *op;
    hr_status st;

    assert_ok(hr__calls_new("map(f)", &s->calls, err), err);
    o.inline_calls = true;
    op = operator_of(s->calls, o);
    r->while_suspended = serve_inline;
    r->context = s;
    st = rig_open(r, op, NULL, err);
    return st ? st : rig_run(r, &in, 1, err);
}

static void end_inline(rig *r, server *s)
{
    hr_op *op = (hr_op *)r->op;

    rig_close(r);
    hr__op_unref(op);
    hr__calls_unref(s->calls);
}

/* ------------------------------------------------------------------------------------------------------------- results */

static void check_doubled(const rig *r, const hr_table *in)
{
    hr_table *all = rig_joined(r);

    assert_int_equal(all->n_rows, in->n_rows);
    for (int64_t i = 0; i < in->n_rows; i++)
        assert_int_equal(x_at(all, i), 2 * x_at(in, i));
    hr_table_unref(all);
}

static void test_inline(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 95);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = DOUBLE };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), &err);
    check_doubled(&r, in);
    assert_int_equal(rig_tables(&r), 10);
    assert_int_equal(r.n_suspended, 6); /* nine pieces of the push, two at a time, and one at the end */
    assert_int_equal(r.n_notified, 6);
    assert_int_equal(hr__origin_at(rig_table(&r, 3)->origin, 2).row, 30); /* made of row 30 */
    assert_int_equal(hr__origin_at(rig_table(&r, 3)->origin, 2).ordinal, 2);
    end_inline(&r, &s);
    hr_table_unref(in);
    assert_no_leak(before);
}

static void test_generators(void **unused)
{
    hr_table *in = numbers(0, 20);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = IN_THREE };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), &err);
    check_doubled(&r, in);
    assert_int_equal(rig_tables(&r), 6);
    assert_int_equal(hr__origin_at(rig_table(&r, 5)->origin, 0).row, 10);
    assert_int_equal(hr__origin_at(rig_table(&r, 5)->origin, 0).ordinal, 6); /* behind 3 and 3 of the same piece */
    end_inline(&r, &s);
    r = (rig){ 0 };
    assert_ok(run_inline(&r, &s, (hr_calls_options){ .one_to_one = true }, in, &err), &err);
    assert_int_equal(hr__origin_at(rig_table(&r, 5)->origin, 1).row, 17);
    end_inline(&r, &s);
    hr_table_unref(in);
}

static void test_filter(void **unused)
{
    hr_table *in = numbers(0, 35), *all;
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = KEEP_ODD };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ .filter = true }, in, &err), &err);
    all = rig_joined(&r);
    assert_int_equal(all->n_rows, 17);
    for (int64_t i = 0; i < 17; i++) {
        hr_table *have = slice(all, i, 1), *want = slice(in, 2 * i + 1, 1);

        assert_true(tables_equal(have, want));
        hr_table_unref(have);
        hr_table_unref(want);
    }
    hr_table_unref(all);
    end_inline(&r, &s);
    hr_table_unref(in);
}

static void test_tables_as_they_are(void **unused)
{
    hr_table *in = numbers(0, 35);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = DOUBLE };
    rig r = { .ordinal = 7 };

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ .batch_rows = -1 }, in, &err), &err);
    assert_int_equal(rig_tables(&r), 1);
    end_inline(&r, &s);
    hr_table_unref(in);
}

static void test_nothing(void **unused)
{
    hr_table *in = numbers(0, 35), *none = numbers(0, 0);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = NOTHING };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), &err);
    assert_int_equal(r.n_out, 0);
    end_inline(&r, &s);
    r = (rig){ 0 };
    assert_ok(run_inline(&r, &s, (hr_calls_options){ 0 }, none, &err), &err);
    assert_int_equal(r.n_suspended, 0);
    end_inline(&r, &s);
    hr_table_unref(in);
    hr_table_unref(none);
}

/* -------------------------------------------------------------------------------------------------------------- errors */

static void test_first_error_by_order(void **unused)
{
    hr_table *in = numbers(0, 95);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = FAIL_SOME };
    live_memory before = live_now();
    rig r = { 0 };

    (void)unused;
    assert_status(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), HR_CALLBACK, &err);
    assert_string_equal(err.text, "map(f): ValueError: at 20");
    assert_int_equal(err.detail_bytes, 6);
    assert_memory_equal(err.detail, "pickle", 6);
    assert_int_equal(rig_rows(&r), 20); /* what came before it */
    assert_int_equal(s.n_served, 3);    /* what waited behind it was not done */
    end_inline(&r, &s);
    hr_error_clear(&err);
    assert_no_leak(before);
    hr_table_unref(in);
}

static void test_wrong_results(void **unused)
{
    static const struct {
        mode mode;
        hr_calls_options options;
        const char *text;
    } cases[] = {
        { NOTHING, { .one_to_one = true }, "map(f): gave 0 rows for a batch of 10" },
        { DOUBLE, { .filter = true }, "map(f): did not give one boolean for each of 10 rows" },
        { WRONG_KEEP, { .filter = true }, "map(f): did not give one boolean for each of 10 rows" },
        { NOTHING, { .filter = true }, "map(f): did not give one boolean for each of 10 rows" },
    };
    hr_table *in = numbers(0, 15);

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        server s = { .mode = cases[i].mode };
        rig r = { 0 };

        assert_status(run_inline(&r, &s, cases[i].options, in, &err), HR_CALLBACK, &err);
        assert_string_equal(err.text, cases[i].text);
        end_inline(&r, &s);
        hr_error_clear(&err);
    }
    hr_table_unref(in);
}

static void test_declared_schema(void **unused)
{
    hr_table *in = numbers(0, 15);
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema declared = { 0 };
    hr_schema *schema = NULL;
    server s = { .mode = DOUBLE };
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__schema_export(in->schema, &declared, &err), &err);
    assert_status(run_inline(&r, &s, (hr_calls_options){ .schema = &declared }, in, &err), HR_TYPE, &err);
    assert_contains(err.text, "map(f): ");
    assert_ok(r.op->cls->schema(r.op, in->schema, &schema, NULL), NULL);
    assert_true(hr__schema_equal(schema, in->schema));
    hr__schema_unref(schema);
    end_inline(&r, &s);
    hr_error_clear(&err);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    hr_calls_options bad = { .name = "f", .piece_rows = -1 };
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_op *op = NULL;

    (void)unused;
    assert_ok(hr__calls_new("f", &calls, &err), &err);
    assert_status(hr__op_calls(calls, &bad, &op, &err), HR_INVALID, &err);
    hr__calls_unref(calls);
    hr_error_clear(&err);
}

/* ------------------------------------------------------------------------------------------------------------- threads */

typedef struct one_run {
    server *server;
    hr_op *op;
    hr_table *in;
    uint64_t seed;
    int64_t rows_out;
} one_run;

static void run_once(void *arg)
{
    one_run *o = arg;
    hr_table *parts[12];
    uint64_t random = o->seed;
    int n = cut_randomly(o->in, &random, parts, HR_LEN(parts));
    hr_error err = HR_ERROR_INIT;
    rig r = { 0 };

    assert_ok(rig_open(&r, o->op, NULL, &err), &err);
    assert_ok(rig_run(&r, parts, n, &err), &err);
    check_doubled(&r, o->in);
    o->rows_out = rig_rows(&r);
    rig_close(&r);
    unref_all(parts, n);
}

/* Three runs at once over one queue; the servers are slow by turns. */
static void check_threads(int n_servers)
{
    live_memory before = live_now();
    server s = { .mode = SLOWLY };
    hr_thread servers[8], runs[3];
    one_run run[3];
    hr_error err = HR_ERROR_INIT;
    hr_op *op;

    assert_ok(hr__calls_new("map(f)", &s.calls, &err), &err);
    op = operator_of(s.calls, (hr_calls_options){ 0 });
    for (int i = 0; i < n_servers; i++)
        assert_int_equal(hr__thread_start(&servers[i], "server", serve_until_closed, &s), 0);
    for (int i = 0; i < 3; i++) {
        run[i] = (one_run){ .server = &s, .op = op, .in = numbers(7 * i, 150 + 20 * i), .seed = (uint64_t)i };
        assert_int_equal(hr__thread_start(&runs[i], "run", run_once, &run[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        hr__thread_join(runs[i]);
        assert_int_equal(run[i].rows_out, run[i].in->n_rows);
        hr_table_unref(run[i].in);
    }
    hr__calls_close(s.calls);
    for (int i = 0; i < n_servers; i++)
        hr__thread_join(servers[i]);
    hr__op_unref(op);
    hr__calls_unref(s.calls);
    assert_no_leak(before);
}

static void test_threads(void **unused)
{
    (void)unused;
    check_threads(1);
    check_threads(3);
    check_threads(8);
}

static void test_take_waits(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_call *call = NULL;
    int64_t begin;

    (void)unused;
    assert_ok(hr__calls_new("f", &calls, &err), &err);
    assert_int_equal(hr__calls_take(calls, 0, &call, &err), HR_PENDING);
    begin = hr__clock_ns();
    assert_int_equal(hr__calls_take(calls, 30, &call, &err), HR_PENDING);
    assert_true(hr__clock_ns() - begin >= 29 * 1000000);
    hr__calls_close(calls);
    assert_status(hr__calls_take(calls, -1, &call, &err), HR_CANCELLED, &err);
    hr__calls_unref(calls);
    hr_error_clear(&err);
}

/* --------------------------------------------------------------------------------------------------- runs that end early */

typedef struct interrupted {
    server server;
    hr_call *taken[2];
    int n_waiting_after;
} interrupted;

/* Two calls are being served when the run is cancelled. */
static void cancel_midway(rig *r)
{
    interrupted *i = r->context;

    for (int k = 0; k < 2; k++)
        assert_ok(hr__calls_take(i->server.calls, 0, &i->taken[k], NULL), NULL);
    r->op->cls->cancel(r->op, &r->run);
    i->n_waiting_after = hr__calls_n_waiting(i->server.calls);
}

static void test_cancel(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 95);
    interrupted i = { .server = { .mode = DOUBLE } };
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = cancel_midway, .context = &i };
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &i.server.calls, &err), &err);
    op = operator_of(i.server.calls, (hr_calls_options){ 0 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    assert_int_equal(i.n_waiting_after, 0);
    op->cls->cancel(op, &r.run); /* may be called again */
    rig_next_ticket(&r);
    r.while_suspended = NULL;
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err); /* a push that was under way meanwhile */
    rig_close(&r);                                             /* does not wait for the two */
    serve(&i.server, i.taken[0]);
    hr__op_unref(op);
    hr__calls_unref(i.server.calls);
    serve(&i.server, i.taken[1]); /* the queue is gone for all others */
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_no_leak(before);
}

static void close_midway(rig *r)
{
    interrupted *i = r->context;

    assert_ok(hr__calls_take(i->server.calls, 0, &i->taken[0], NULL), NULL);
    hr__calls_close(i->server.calls);
    serve(&i->server, i->taken[0]);
}

static void test_close(void **unused)
{
    hr_table *in = numbers(0, 95);
    interrupted i = { .server = { .mode = DOUBLE } };
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = close_midway, .context = &i };
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &i.server.calls, &err), &err);
    op = operator_of(i.server.calls, (hr_calls_options){ 0 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    assert_int_equal(rig_rows(&r), 10); /* the one that was served */
    r.while_suspended = NULL;
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(i.server.calls);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static void no_workers_after_all(rig *r)
{
    interrupted *i = r->context;
    hr_error why = HR_ERROR_INIT;

    assert_int_equal(hr__calls_n_waiting(i->server.calls), 2);
    hr__calls_expect(i->server.calls, -1, NULL);
    assert_int_equal(hr__calls_n_waiting(i->server.calls), 2); /* one more is to come */
    hr_error_set(&why, HR_IO, "exec: no such file");
    hr__calls_expect(i->server.calls, -1, &why);
    hr_error_clear(&why);
}

static void test_workers_that_never_come(void **unused)
{
    hr_table *in = numbers(0, 95);
    interrupted i = { .server = { .mode = DOUBLE } };
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = no_workers_after_all, .context = &i };
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &i.server.calls, &err), &err);
    hr__calls_expect(i.server.calls, 2, NULL);
    op = operator_of(i.server.calls, (hr_calls_options){ 0 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_PEER, &err);
    assert_string_equal(err.text, "map(f): no worker process: exec: no such file");
    r.while_suspended = NULL;
    assert_status(rig_push(&r, in, &err), HR_PEER, &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(i.server.calls);
    hr_table_unref(in);
    hr_error_clear(&err);
}

/* A forked child has the plan, but nobody who serves it: it is told so, and leaves the parent's queue alone. */
static void test_forked_child(void **unused)
{
    hr_table *in = numbers(0, 15);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = DOUBLE };
    rig r = { 0 };
    int status = 0, pid;

    (void)unused;
    assert_ok(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), &err);
    if ((pid = fork()) == 0) {
        rig q = { 0 };
        hr_status st = rig_open(&q, r.op, NULL, &err);

        if (!st)
            st = rig_push(&q, in, &err);
        rig_close(&q);
        hr__calls_close(s.calls);
        end_inline(&r, &s);
        _exit(st == HR_INVALID && strstr(err.text, "not of its child") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(rig_push(&r, in, &err), &err);
    end_inline(&r, &s);
    hr_table_unref(in);
}

/* -------------------------------------------------------------------------------------------------------------- places */

typedef struct seen {
    server server;
    hr_call_place places[20];
    int n;
} seen;

static void note_places(rig *r)
{
    seen *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->server.calls, 0, &call, NULL) == HR_OK) {
        assert_true(s->n < HR_LEN(s->places));
        hr__call_place(call, &s->places[s->n++]);
        serve(&s->server, call);
    }
}

static void see(seen *s, hr_table *const *parts, int n, uint64_t seed, int64_t epoch)
{
    hr_error err = HR_ERROR_INIT;
    rig r = { .while_suspended = note_places, .context = s };
    hr_op *op;

    *s = (seen){ .n = 0 };
    assert_ok(hr__calls_new("map(f)", &s->server.calls, &err), &err);
    op = operator_of(s->server.calls, (hr_calls_options){ 0 });
    r.run.seed = seed;
    r.run.epoch = epoch;
    r.run.index = 3;
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_run(&r, parts, n, &err), &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(s->server.calls);
}

/* The same for any cut, another for each batch, seed and epoch. */
static void test_places(void **unused)
{
    hr_table *in = numbers_at(2, 5, 30, 60), *parts[10];
    uint64_t random = 5;
    int n = cut_randomly(in, &random, parts, HR_LEN(parts));
    seen a, b, c, d;

    (void)unused;
    see(&a, &in, 1, 42, 1);
    see(&b, parts, n, 42, 1);
    see(&c, &in, 1, 43, 1);
    see(&d, &in, 1, 42, 2);
    assert_int_equal(a.n, 6);
    assert_int_equal(b.n, 6);
    for (int i = 0; i < a.n; i++) {
        assert_memory_equal(&a.places[i], &b.places[i], sizeof a.places[i]);
        assert_int_equal(a.places[i].ordinal, 3 + i);
        assert_int_equal(a.places[i].begin.file, 2);
        assert_int_equal(a.places[i].begin.row, 30 + 10 * i);
        assert_int_equal(a.places[i].op_index, 3);
        assert_int_not_equal(a.places[i].random, c.places[i].random);
        assert_int_not_equal(a.places[i].random, d.places[i].random);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(a.places[i].random, a.places[k].random);
    }
    unref_all(parts, n);
    hr_table_unref(in);
}

/* -------------------------------------------------------------------------------------------------------------- faults */

static void serve_or_fail(rig *r)
{
    server *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, &call, NULL) == HR_OK) {
        hr_error err = HR_ERROR_INIT;
        hr_table *t = NULL;
        hr_status st = doubled(NULL, hr__call_input(call), HR_T_INT64, 1, &t, &err);

        if (t)
            hr__call_result(call, t);
        hr__call_done(call, st, &err);
    }
}

static hr_status run_with_a_fault(void *context, hr_error *err)
{
    hr_calls_options o = { .name = "map(f)", .qualified = "m.f", .piece_rows = 10 };
    hr_table **parts = context;
    hr_status st = HR_OK;
    server s = { .mode = DOUBLE };
    rig r = { .while_suspended = serve_or_fail, .context = &s };
    hr_op *op = NULL;

    HR_GO(hr__calls_new("map(f)", &s.calls, err));
    HR_GO(hr__op_calls(s.calls, &o, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, parts, 2, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(s.calls);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *parts[2] = { numbers(0, 15), numbers(15, 20) };

    (void)unused;
    run_with_faults_on(run_with_a_fault, parts, HR_FAULT_MEMORY);
    unref_all(parts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inline),        cmocka_unit_test(test_generators),
        cmocka_unit_test(test_filter),        cmocka_unit_test(test_tables_as_they_are),
        cmocka_unit_test(test_nothing),       cmocka_unit_test(test_first_error_by_order),
        cmocka_unit_test(test_wrong_results), cmocka_unit_test(test_declared_schema),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_take_waits),    cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_close),         cmocka_unit_test(test_workers_that_never_come),
        cmocka_unit_test(test_forked_child),  cmocka_unit_test(test_places),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
