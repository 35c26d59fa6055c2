/* test_calls.c - functions that Python threads or the consumer serve: order, errors, cancelling, several runs at
 * once. */
#include "op/call/calls.h"
#include "task_harness.h"
#include "op/call.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a server does with each call. */
typedef enum mode { DOUBLE, IN_THREE, KEEP_ODD, FAIL_SOME, NOTHING, SLOWLY, WRONG_KEEP, BY_PARTS, WRONG_PARTS } mode;

typedef struct server {
    hr_calls *calls;
    mode mode;
    int n_columns; /* that calls should have; 0: any number */
    atomic_int n_served;
    atomic_int n_failed;
    const char *state; /* of its instance, if the call requests it */
    int n_saved, n_last;
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

        hr__call_result(call, made(part, 1), NULL);
        hr_table_unref(part);
    }
}

/* The first row of each batch, doubled; none of those of more than six rows. As one table, and with its batches'
 * rows. */
static void give_by_parts(hr_call *call, const hr_table *in, bool wrong)
{
    const hr_batch_place *parts;
    int64_t n = hr__call_batches(call, &parts), at = 0, m = 0, counts[128];
    hr_table *firsts[128], *all;

    for (int64_t i = 0; i < n; at += parts[i++].n_rows)
        if ((counts[i] = parts[i].n_rows <= 6))
            firsts[m++] = slice(in, at, 1);
    if (m) {
        all = join(firsts, (int)m);
        counts[0] += wrong;
        hr__call_result(call, made(all, 1), &(hr_result_place){ 0, counts, n });
        hr_table_unref(all);
    }
    unref_all(firsts, (int)m);
}

/* Two rows that no batch has. */
static void give_last(server *s, hr_call *call)
{
    hr_table *in = numbers(0, 2);

    s->n_last++;
    hr__call_result(call, made(in, 1), NULL);
    hr_table_unref(in);
    hr__call_done(call, HR_OK, NULL);
}

static void serve(server *s, hr_call *call)
{
    const hr_table *in = hr__call_input(call);
    hr_error err = HR_ERROR_INIT;
    hr_call_place place;

    atomic_fetch_add(&s->n_served, 1);
    hr__call_place(call, &place);
    if (place.flags & HR_CALL_SAVE) {
        s->n_saved++;
        if (s->state)
            hr__call_save(call, s->state);
    }
    if (place.flags & HR_CALL_LAST) {
        give_last(s, call);
        return;
    }
    if (s->n_columns)
        assert_int_equal(in->schema->n, s->n_columns);
    if (s->mode == SLOWLY)
        usleep((useconds_t)(x_at(in, 0) * 37 % 2000));
    switch (s->mode) {
    case IN_THREE: give_in_three(call, in); break;
    case KEEP_ODD: hr__call_result(call, bools("keep", in->n_rows, odd, in), NULL); break;
    case WRONG_KEEP: hr__call_result(call, bools("keep", in->n_rows + 1, odd, in), NULL); break;
    case NOTHING: break;
    case BY_PARTS:
    case WRONG_PARTS: give_by_parts(call, in, s->mode == WRONG_PARTS); break;
    case FAIL_SOME:
        if (x_at(in, 0) % 40 == 20) {
            atomic_fetch_add(&s->n_failed, 1);
            hr_error_set(&err, HR_CALLBACK, "ValueError: at %d", (int)x_at(in, 0));
            hr_error_set_detail(&err, "pickle", 6);
            hr__call_result(call, made(in, 1), NULL); /* thrown away */
            hr__call_done(call, HR_CALLBACK, &err);
            return;
        }
        hr__call_result(call, made(in, 1), NULL);
        break;
    default: hr__call_result(call, made(in, 1), NULL); break;
    }
    hr__call_done(call, HR_OK, NULL);
}

/* A Python thread's loop. */
static void serve_until_closed(void *arg)
{
    server *s = arg;
    hr_call *call = NULL;
    hr_status st;

    while ((st = hr__calls_take(s->calls, 0, 50, &call, NULL)) == HR_OK || st == HR_PENDING)
        if (!st)
            serve(s, call);
    assert_int_equal(st, HR_CANCELLED);
}

/* The consumer's: all that waits. */
static void serve_inline(rig *r)
{
    server *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, 0, &call, NULL) == HR_OK)
        serve(s, call);
}

static hr_op *operator_of(hr_calls *calls, hr_calls_options o)
{
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    o.name = "map(f)";
    o.qualified = "module.f";
    if (!o.block_rows)
        o.block_rows = 10;
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

/* ---------------------------------------------------------------------------------------------------------- results */

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
    assert_int_equal(r.n_suspended, 6); /* nine batches of the push, two at a time, and one at the end */
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
    assert_int_equal(hr__origin_at(rig_table(&r, 5)->origin, 0).ordinal, 6); /* after 3 and 3 of the same batch */
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

/* ------------------------------------------------------------------------------------------- several batches a call */

static void check_firsts(const rig *r, int64_t n)
{
    hr_table *all = rig_joined(r);

    assert_int_equal(all->n_rows, n);
    for (int64_t i = 0; i < n; i++) { /* each is of its own batch */
        assert_int_equal(x_at(all, i), 2 * 5 * i);
        assert_int_equal(hr__origin_at(all->origin, i).row, 5 * i);
        assert_int_equal(hr__origin_at(all->origin, i).ordinal, 0);
    }
    hr_table_unref(all);
}

static void test_batches_together(void **unused)
{
    hr_table *in = numbers(0, 500);
    hr_error err = HR_ERROR_INIT;
    live_memory before = live_now();
    server s = { .mode = BY_PARTS };
    int n_served = 0;

    (void)unused;
    for (int round = 0; round < 2; round++) { /* one at a time, until it is known how short they are */
        rig r = { 0 };

        assert_ok(run_inline(&r, &s, (hr_calls_options){ .block_rows = 5, .max_batches = 40 }, in, &err), &err);
        check_firsts(&r, 100);
        assert_true(s.n_served < 60);
        n_served += s.n_served;
        s.n_served = 0;
        end_inline(&r, &s);
    }
    assert_true(n_served >= 2 * 3);
    assert_no_leak(before);
    hr_table_unref(in);
}

static void test_groups(void **unused)
{
    static const char *const keys[] = { "b" };
    hr_table *in = numbers(0, 100), *all;
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = BY_PARTS };
    hr_calls_options o = { .group_keys = keys, .n_group_keys = 1 };
    rig r = { 0 };
    int64_t n = 0;

    (void)unused;
    assert_ok(run_inline(&r, &s, o, in, &err), &err);
    assert_in_range(s.n_served, 3,
                    20); /* two alone, a limit after may want no more; then together, as many as are quick */
    all = rig_joined(&r);
    for (int64_t i = 0; i < 100; i++) /* b = i * 5 % 3 == 0: groups of one true, two false */
        if (i == 0 || (i * 5 % 3 == 0) != ((i - 1) * 5 % 3 == 0)) {
            assert_int_equal(x_at(all, n), 2 * i);
            assert_int_equal(hr__origin_at(all->origin, n++).row, i);
        }
    assert_int_equal(all->n_rows, n);
    hr_table_unref(all);
    end_inline(&r, &s);
    s.mode = WRONG_PARTS;
    r = (rig){ 0 };
    assert_status(run_inline(&r, &s, o, in, &err), HR_CALLBACK, &err);
    assert_contains(err.text, "map(f): a result of batch 0 of ");
    end_inline(&r, &s);
    hr_error_clear(&err);
    hr_table_unref(in);
}

/* ---------------------------------------------------------------------------------------------------------- streams */

/* A consumer's thread that serves generators of `length` tables; it keeps those that it paused. */
typedef struct streamer {
    hr_calls *calls;
    int length;
    struct {
        uint64_t tag;
        int n_given;
    } kept[20];
    int n_kept, n_paused, n_away, most_ahead;
    bool fails;
} streamer;

static int resume_at(streamer *s, uint64_t tag)
{
    for (int i = 0; i < s->n_kept; i++)
        if (s->kept[i].tag == tag) {
            int n = s->kept[i].n_given;

            s->kept[i] = s->kept[--s->n_kept];
            return n;
        }
    return 0;
}

static void stream(streamer *s, hr_call *call)
{
    uint64_t tag = hr__call_tag(call);
    hr_error err = HR_ERROR_INIT;
    hr_go go = HR_GO_ON;
    int n = resume_at(s, tag), ahead = 0;

    while (n < s->length && go == HR_GO_ON) {
        hr_table *in = slice(hr__call_input(call), 0, 1);

        go = hr__call_stream(call, made(in, 1), NULL);
        hr_table_unref(in);
        n++;
        ahead++;
        s->most_ahead = HR_MAX(s->most_ahead, ahead);
    }
    if (go == HR_GO_PAUSE) {
        s->kept[s->n_kept].tag = tag;
        s->kept[s->n_kept++].n_given = n;
        s->n_paused++;
        hr__call_pause(call);
        return;
    }
    s->n_away += go == HR_GO_AWAY;
    if (s->fails)
        hr_error_set(&err, HR_CALLBACK, "ValueError: at the end");
    hr__call_done(call, s->fails ? HR_CALLBACK : HR_OK, &err);
}

static void serve_streams(rig *r)
{
    streamer *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, 0, &call, NULL) == HR_OK)
        stream(s, call);
}

/* Each row's batch gives `length` rows: all of them, in order, and no more ahead of the operator than is allowed. */
static void check_stream(int length, bool fails)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 6);
    hr_error err = HR_ERROR_INIT;
    streamer s = { .length = length, .fails = fails };
    rig r = { .while_suspended = serve_streams, .context = &s };
    hr_op *op;
    int64_t n = 0;

    assert_ok(hr__calls_new("map(f)", &s.calls, &err), &err);
    op = operator_of(s.calls, (hr_calls_options){ .block_rows = 1 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    if (fails) {
        assert_status(rig_run(&r, &in, 1, &err), HR_CALLBACK, &err);
        assert_contains(err.text, "ValueError: at the end");
    } else {
        assert_ok(rig_run(&r, &in, 1, &err), &err);
    }
    for (int i = 0; i < rig_tables(&r); i++, n++) {
        assert_int_equal(x_at(rig_table(&r, i), 0), 2 * (n / length));
        assert_int_equal(hr__origin_at(rig_table(&r, i)->origin, 0).row, n / length);
        assert_int_equal(hr__origin_at(rig_table(&r, i)->origin, 0).ordinal, n % length);
    }
    assert_int_equal(n, (fails ? 1 : 6) * length); /* what came before the failure comes out */
    assert_in_range(s.most_ahead, 1, 64);
    assert_true(length < 100 || s.n_paused >= (length - 1) / 64);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(s.calls);
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_no_leak(before);
}

static void test_streams(void **unused)
{
    (void)unused;
    check_stream(1, false);
    check_stream(63, false);
    check_stream(64, false);
    check_stream(500, false);
    check_stream(200, true);
}

static void cancel_when_paused(rig *r)
{
    streamer *s = r->context;

    serve_streams(r);
    assert_int_equal(s->n_kept, 1);
    assert_true(hr__calls_paused(s->calls, s->kept[0].tag));
    r->op->cls->cancel(r->op, &r->run);
    assert_false(hr__calls_paused(s->calls, s->kept[0].tag));
}

/* The run ends while a call is paused: the call ends without a message. */
static void test_cancelled_streams(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(0, 6);
    hr_error err = HR_ERROR_INIT;
    streamer s = { .length = 10000 };
    rig r = { .while_suspended = cancel_when_paused, .context = &s };
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &s.calls, &err), &err);
    op = operator_of(s.calls, (hr_calls_options){ .block_rows = 1 });
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_CANCELLED, &err);
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(s.calls);
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_no_leak(before);
}

/* A group of `n` calls of the ticket with this turn. */
static hr_call_set *group_of(hr_calls *calls, hr_calls_run *run, hr_table *in, int64_t turn, int n)
{
    hr_call_set *g = NULL;

    assert_ok(hr__call_set_new(calls, NULL, &g, NULL), NULL);
    for (int i = 0; i < n; i++)
        assert_ok(hr__call_set_add(g, in, NULL, &(hr_call_place){ 0 }, hr__zalloc(NULL, sizeof(hr_batch_place)), 1,
                                   turn, i, NULL),
                  NULL);
    assert_ok(hr__call_set_submit(g, run, NULL), NULL);
    return g;
}

static hr_call *take_one(hr_calls *calls, uint64_t server)
{
    hr_call *call = NULL;

    assert_ok(hr__calls_take(calls, server, 0, &call, NULL), NULL);
    return call;
}

/* Calls of a run are served in the order of its rows, in whatever order they were queued; a call of another run has its
 * place among them by its arrival; one that goes on comes first, but for those before it. */
static void test_order_of_rows(void **unused)
{
    static const struct {
        int run;
        int64_t turn;
        int n;
    } queued[] = { { 0, 5, 2 }, { 0, 2, 1 }, { 1, 0, 1 }, { 0, 7, 1 }, { 0, 6, 1 }, { 0, 0, 1 }, { 1, 1, 1 } };
    static const struct {
        int queued, number;
    } served[] = { { 5, 0 }, { 1, 0 }, { 0, 0 }, { 0, 1 }, { 2, 0 }, { 4, 0 }, { 3, 0 }, { 6, 0 } };
    live_memory before = live_now();
    hr_table *in = numbers(0, 1);
    hr_calls *calls = NULL;
    hr_calls_run runs[2] = { { 0 } };
    hr_call_set *groups[HR_LEN(queued)], *late;
    hr_call *call;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &calls, NULL), NULL);
    for (int i = 0; i < HR_LEN(queued); i++)
        groups[i] = group_of(calls, &runs[queued[i].run], in, queued[i].turn, queued[i].n);
    for (int i = 0; i < HR_LEN(served); i++) {
        call = take_one(calls, 1);
        assert_ptr_equal(call, groups[served[i].queued]->items[served[i].number]);
        if (i != 2) {
            hr__call_done(call, HR_OK, NULL);
            continue;
        }
        assert_int_equal(hr__call_stream(call, made(in, 1), NULL),
                         HR_GO_ON); /* {0, 5}: it goes on as soon as it is paused */
        groups[0]->next = 0;
        hr__results_clear(&call->results);
        late = group_of(calls, &runs[0], in, 3, 1);
        hr__call_pause(call);
        assert_ptr_equal(take_one(calls, 1), late->items[0]);
        hr__call_done(late->items[0], HR_OK, NULL);
        assert_ptr_equal(take_one(calls, 1), call);
        hr__call_done(call, HR_OK, NULL);
        hr__call_set_free(late);
    }
    assert_int_equal(hr__calls_n_waiting(calls), 0);
    for (int i = 0; i < HR_LEN(queued); i++)
        hr__call_set_free(groups[i]);
    hr__calls_unref(calls);
    hr_table_unref(in);
    assert_no_leak(before);
}

/* A server that paused a call serves none after it, but others do, and it serves those before it. */
static void test_whom_a_paused_call_lets_by(void **unused)
{
    hr_table *in = numbers(0, 1);
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_calls_run run = { 0 };
    hr_call_set *groups[3] = { NULL };
    hr_call *first, *got = NULL;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &calls, &err), &err);
    for (int i = 0; i < 3; i++) { /* turns 1, 2 and 0 */
        hr_batch_place *part = hr__zalloc(NULL, sizeof *part);
        hr_call_place place = { 0 };

        assert_ok(hr__call_set_new(calls, NULL, &groups[i], &err), &err);
        assert_ok(hr__call_set_add(groups[i], in, NULL, &place, part, 1, (i + 1) % 3, 0, &err), &err);
    }
    assert_ok(hr__call_set_submit(groups[0], &run, &err), &err);
    assert_ok(hr__calls_take(calls, 7, 0, &first, &err), &err);
    assert_int_equal(hr__call_stream(first, made(in, 1), NULL), HR_GO_ON);
    hr__call_pause(first);
    assert_ok(hr__call_set_submit(groups[1], &run, &err), &err);
    assert_int_equal(hr__calls_take(calls, 7, 0, &got, &err), HR_PENDING);
    assert_ok(hr__call_set_submit(groups[2], &run, &err), &err);
    assert_ok(hr__calls_take(calls, 7, 0, &got, &err), &err); /* the one before it */
    assert_ptr_equal(got, groups[2]->items[0]);
    hr__call_done(got, HR_OK, NULL);
    assert_ok(hr__calls_take(calls, 8, 0, &got, &err), &err); /* for others there is no such rule */
    assert_ptr_equal(got, groups[1]->items[0]);
    hr__call_done(got, HR_OK, NULL);
    for (int i = 0; i < 3; i++)
        hr__call_set_free(groups[i]);
    hr__calls_unref(calls);
    hr_table_unref(in);
}

/* ----------------------------------------------------------------------------------------------------- one instance */

static hr_call_set *group_in_order(hr_calls *calls, hr_calls_run *run, hr_table *in, int64_t turn, int n)
{
    const hr_call_place place = { .run = run->id, .flags = HR_CALL_IN_ORDER };
    hr_call_set *g = NULL;

    assert_ok(hr__call_set_new(calls, NULL, &g, NULL), NULL);
    for (int i = 0; i < n; i++)
        assert_ok(hr__call_set_add(g, in, NULL, &place, hr__zalloc(NULL, sizeof(hr_batch_place)), 1, turn, i, NULL),
                  NULL);
    assert_ok(hr__call_set_submit(g, run, NULL), NULL);
    return g;
}

static void assert_nothing_to_take(hr_calls *calls)
{
    hr_call *call = NULL;

    assert_int_equal(hr__calls_take(calls, 1, 0, &call, NULL), HR_PENDING);
}

/* The story: calls of a later ticket were queued first, and an idle server took them, so that a class that carries rows
 * over saw batches in an order that depended on the threads. */
static void test_turns(void **unused)
{
    const hr_calls_class how = { .instances = true, .at_a_time = 1 };
    live_memory before = live_now();
    hr_table *in = numbers(0, 1);
    hr_calls *calls = NULL;
    hr_calls_run run = { 0 }, other = { 0 };
    hr_call_set *groups[4], *free_one;
    hr_call *call;

    (void)unused;
    assert_ok(hr__calls_new("map(f)", &calls, NULL), NULL);
    hr__calls_run_begin(calls, &run, &how);
    hr__calls_run_begin(calls, &other, &(hr_calls_class){ 0 });
    assert_ok(hr__calls_run_restore(calls, &run, "left", NULL), NULL);
    groups[2] = group_in_order(calls, &run, in, 2, 1);
    assert_ok(hr__calls_turn_done(calls, &run, 2, NULL), NULL);
    assert_nothing_to_take(calls);
    free_one = group_of(calls, &other, in, 5, 1); /* another run has no such rule */
    call = take_one(calls, 1);
    assert_ptr_equal(call, free_one->items[0]);
    assert_null(hr__call_state(call));
    hr__call_done(call, HR_OK, NULL);
    groups[0] = group_in_order(calls, &run, in, 0, 2);
    call = take_one(calls, 1);
    assert_ptr_equal(call, groups[0]->items[0]);
    assert_string_equal(hr__call_state(call), "left"); /* for the instance's first call */
    assert_nothing_to_take(calls);                     /* it has one at a time */
    hr__call_done(call, HR_OK, NULL);
    call = take_one(calls, 1);
    assert_ptr_equal(call, groups[0]->items[1]);
    assert_null(hr__call_state(call));
    assert_int_equal(hr__call_stream(call, made(in, 1), NULL), HR_GO_ON);
    hr__call_pause(call);
    groups[1] = group_in_order(calls, &run, in, 1, 1);
    assert_ok(hr__calls_turn_done(calls, &run, 0, NULL), NULL);
    assert_nothing_to_take(calls); /* a paused one is in the middle of something */
    groups[0]->next = 1;
    {
        hr_results got;
        bool again;

        assert_false(hr__call_set_collect(groups[0], &got, &again));
        assert_true(again);
        hr__results_clear(&got);
    }
    assert_ptr_equal(take_one(calls, 1), groups[0]->items[1]);
    hr__call_done(groups[0]->items[1], HR_OK, NULL);
    call = take_one(calls, 1);
    assert_ptr_equal(call, groups[1]->items[0]);
    hr__call_done(call, HR_OK, NULL);
    assert_nothing_to_take(calls); /* ticket 1 may have more */
    assert_ok(hr__calls_turn_done(calls, &run, 1, NULL), NULL);
    call = take_one(calls, 1);
    assert_ptr_equal(call, groups[2]->items[0]);
    hr__call_done(call, HR_OK, NULL);
    groups[3] = group_in_order(calls, &run, in, 3, 1); /* of ticket 2 all was known before */
    call = take_one(calls, 1);
    hr__call_done(call, HR_OK, NULL);
    assert_true(hr__calls_runs(calls, run.id));
    for (int i = 0; i < 4; i++)
        hr__call_set_free(groups[i]);
    hr__call_set_free(free_one);
    hr__calls_run_end(calls, &run);
    hr__calls_run_end(calls, &other);
    assert_false(hr__calls_runs(calls, 1));
    hr__calls_unref(calls);
    hr_table_unref(in);
    assert_no_leak(before);
}

/* The last call comes after all batches, once, also where there were none; what it gives has coordinates of its
 * own. */
static void test_the_last_call(void **unused)
{
    const hr_calls_options o = { .of_class = { .instances = true, .at_a_time = 1, .keeps = true, .finishes = true } };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int n = 0; n < 3; n++) {
        hr_table *in = numbers(0, n * 25);
        server s = { .mode = DOUBLE };
        rig r = { .closes = true, .last = true };

        r.run.last_instance = 9;
        assert_ok(run_inline(&r, &s, o, in, &err), &err);
        assert_int_equal(s.n_last, 1);
        assert_int_equal(rig_rows(&r), n * 25 + 2);
        assert_int_equal(hr__origin_at(rig_table(&r, rig_tables(&r) - 1)->origin, 1).instance, 9);
        assert_int_equal(hr__origin_at(rig_table(&r, rig_tables(&r) - 1)->origin, 1).ordinal, 1);
        end_inline(&r, &s);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* A state goes with the marker before the rows of which it knows nothing yet; without calls, or without a state, no
 * marker goes. */
static void test_saved_states(void **unused)
{
    const hr_calls_options o = { .of_class = { .instances = true, .at_a_time = 1, .keeps = true, .saves = true } };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_table *in = numbers(0, 25), *none = numbers(0, 0);
    server s = { .mode = DOUBLE, .state = "7 left" };
    rig r = { .marked = true };

    (void)unused;
    assert_ok(run_inline(&r, &s, o, in, &err), &err);
    assert_string_equal(r.saved, "7 left");
    assert_int_equal(s.n_saved, 1); /* of three calls */
    end_inline(&r, &s);
    r = (rig){ .marked = true };
    s = (server){ .mode = DOUBLE };
    assert_ok(run_inline(&r, &s, o, in, &err), &err);
    assert_string_equal(r.saved, "none");
    end_inline(&r, &s);
    r = (rig){ .marked = true };
    assert_ok(run_inline(&r, &s, o, none, &err), &err);
    assert_string_equal(r.saved, "none");
    end_inline(&r, &s);
    hr_table_unref(none);
    hr_table_unref(in);
    assert_no_leak(before);
}

/* ----------------------------------------------------------------------------------------------------------- errors */

/* Failed batches are left out, up to the allowed number. */
static void test_left_out(void **unused)
{
    hr_table *in = numbers(0, 95);
    hr_error err = HR_ERROR_INIT;
    live_memory before = live_now();

    (void)unused;
    for (int may = -1; may <= 2; may++) { /* those from 20 and 60 on fail */
        server s = { .mode = FAIL_SOME };
        hr_text stats = { 0 };
        rig r = { 0 };
        hr_status st = run_inline(&r, &s, (hr_calls_options){ .max_errored = may }, in, &err);

        if (may == 0 || may == 1) {
            assert_status(st, HR_CALLBACK, &err);
            assert_contains(err.text, may ? "row 60: ValueError: at 60" : "row 20: ValueError: at 20");
            assert_int_equal(rig_rows(&r), may ? 50 : 20);
        } else {
            assert_ok(st, &err);
            assert_int_equal(rig_rows(&r), 75);
            r.op->cls->stats(r.op, &r.run, &stats);
            assert_contains(stats.data, "\"errored_blocks\":2");
            assert_int_equal(hr__calls_errored(s.calls, &err), 2);
            assert_string_equal(err.text, "row 20: ValueError: at 20");
            assert_int_equal(hr__calls_errored(s.calls, NULL), 0);
        }
        hr__text_clear(&stats);
        end_inline(&r, &s);
        hr_error_clear(&err);
    }
    assert_no_leak(before);
    hr_table_unref(in);
}

static void test_first_error_by_order(void **unused)
{
    hr_table *in = numbers(0, 95);
    hr_error err = HR_ERROR_INIT;
    server s = { .mode = FAIL_SOME };
    live_memory before = live_now();
    rig r = { 0 };

    (void)unused;
    assert_status(run_inline(&r, &s, (hr_calls_options){ 0 }, in, &err), HR_CALLBACK, &err);
    assert_string_equal(err.text, "map(f): row 20: ValueError: at 20");
    assert_int_equal(err.detail_bytes, 6);
    assert_memory_equal(err.detail, "pickle", 6);
    assert_int_equal(rig_rows(&r), 20); /* what came before it */
    assert_int_equal(s.n_served, 3);    /* what waited after it was not done */
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
        { DOUBLE, { .filter = true }, "map(f): the function did not return one boolean for each of 10 rows" },
        { WRONG_KEEP, { .filter = true }, "map(f): the function did not return one boolean for each of 10 rows" },
        { NOTHING, { .filter = true }, "map(f): the function did not return one boolean for each of 10 rows" },
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

static const char *const only_x[] = { "x" };
static const hr_calls_options made_of_x = { .made = "y", .columns = only_x, .n_columns = 1, .one_to_one = true };

/* Of a column that was made: what goes out has all columns, the new one after them, and where it came from. */
static void check_made(const rig *r, hr_table *in)
{
    hr_table *all = rig_joined(r), *first = NULL;

    assert_int_equal(all->n_rows, in->n_rows);
    assert_int_equal(all->schema->n, in->schema->n + 1);
    assert_string_equal(all->schema->fields[in->schema->n].name, "y");
    for (int64_t i = 0; i < in->n_rows; i++)
        assert_int_equal(((const int64_t *)hr__array_values(all->columns[in->schema->n]))[i], 2 * x_at(in, i));
    assert_ok(hr__table_first(all, in->schema, &first, NULL), NULL);
    for (int64_t i = 0; i < in->n_rows; i += 7) {
        hr_table *have = slice(first, i, 1), *want = slice(in, i, 1), *had = NULL;

        assert_true(coords_equal(hr__origin_at(all->origin, i), hr__origin_at(in->origin, i)));
        assert_ok(hr__table_with_origin(have, want->origin, &had, NULL), NULL);
        assert_true(tables_equal(had, want));
        hr_table_unref(had);
        hr_table_unref(have);
        hr_table_unref(want);
    }
    hr_table_unref(first);
    hr_table_unref(all);
}

/* The function gets the columns that it asked for, and no others; batches and results in any number of tables. */
static void test_made_column(void **unused)
{
    static const char *const two[] = { "x", "b" };
    hr_calls_options wide = made_of_x;
    hr_table *in = numbers(0, 95), *parts[9];
    uint64_t random = 3;
    int n = cut_randomly(in, &random, parts, HR_LEN(parts));
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    wide.columns = two;
    wide.n_columns = 2;
    for (int i = 0; i < 6; i++) {
        live_memory before = live_now();
        server s = { .mode = i % 2 ? IN_THREE : DOUBLE, .n_columns = i < 2 ? 1 : 2 };
        hr_calls_options o = i < 2 ? made_of_x : wide;
        hr_op *op;
        rig r = { .while_suspended = serve_inline, .context = &s };

        o.inline_calls = true;
        o.batch_rows = i < 4 ? 0 : -1;
        assert_ok(hr__calls_new("map(f)", &s.calls, &err), &err);
        op = operator_of(s.calls, o);
        assert_null(op->cls->input_arena(op));
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        check_made(&r, in);
        end_inline(&r, &s);
        assert_no_leak(before);
    }
    unref_all(parts, n);
    hr_table_unref(in);
}

/* The number of bytes that the function got is reported, and is less than all. */
static void test_input_bytes(void **unused)
{
    int64_t bytes[2];
    hr_table *in = numbers(0, 1000);

    (void)unused;
    for (int i = 0; i < 2; i++) {
        server s = { .mode = DOUBLE };
        hr_error err = HR_ERROR_INIT;
        hr_text text = { 0 };
        const char *at;
        rig r = { 0 };

        assert_ok(run_inline(&r, &s, i ? made_of_x : (hr_calls_options){ 0 }, in, &err), &err);
        r.op->cls->stats(r.op, &r.run, &text);
        at = strstr(text.data, "\"input_bytes\":");
        assert_non_null(at);
        bytes[i] = strtoll(at + 14, NULL, 10);
        hr__text_clear(&text);
        end_inline(&r, &s);
    }
    assert_int_equal(bytes[1], 8 * 1000);
    assert_true(bytes[0] > 2 * bytes[1]);
    hr_table_unref(in);
}

/* The columns needed of the input: those needed of the output without the new column, and the function's. */
static void test_needs(void **unused)
{
    static const char *const wanted[] = { "s", "y" };
    hr_needs needs = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_op *op;

    (void)unused;
    assert_ok(hr__calls_new("f", &calls, &err), &err);
    op = operator_of(calls, made_of_x);
    assert_ok(op->cls->needs(op, 0, wanted, 2, &needs, &err), &err);
    assert_int_equal(needs.n, 2);
    assert_string_equal(needs.names[0], "s");
    assert_string_equal(needs.names[1], "x");
    hr__free(needs.names);
    needs = (hr_needs){ 0 };
    assert_ok(op->cls->needs(op, 0, NULL, -1, &needs, &err), &err);
    assert_true(needs.n < 0);
    hr__op_unref(op);
    needs = (hr_needs){ 0 };
    op = operator_of(calls, (hr_calls_options){ 0 });
    assert_ok(op->cls->needs(op, 0, wanted, 2, &needs, &err), &err);
    assert_true(needs.n < 0);
    hr__op_unref(op);
    hr__calls_unref(calls);
}

static void test_wrong_columns(void **unused)
{
    static const char *const nix[] = { "nix" };
    static const struct {
        mode mode;
        hr_calls_options options;
        hr_status st;
        const char *text;
    } cases[] = {
        { DOUBLE, { .made = "y", .columns = nix, .n_columns = 1, .one_to_one = true }, HR_INVALID, "no column 'nix'" },
        { DOUBLE,
          { .made = "z", .columns = only_x, .n_columns = 1, .one_to_one = true },
          HR_CALLBACK,
          "must return one column of this name" },
        { KEEP_ODD,
          { .made = "y", .columns = only_x, .n_columns = 1, .one_to_one = true },
          HR_CALLBACK,
          "must return one column of this name" },
        { NOTHING,
          { .made = "y", .columns = only_x, .n_columns = 1, .one_to_one = true },
          HR_CALLBACK,
          "gave 0 rows for a batch of 10" },
    };
    hr_table *in = numbers(0, 15), *twice = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        server s = { .mode = cases[i].mode };
        rig r = { 0 };

        assert_status(run_inline(&r, &s, cases[i].options, in, &err), cases[i].st, &err);
        assert_contains(err.text, cases[i].text);
        end_inline(&r, &s);
        hr_error_clear(&err);
    }
    {
        server s = { .mode = DOUBLE };
        rig r = { 0 };

        assert_ok(run_inline(&r, &s, made_of_x, in, &err), &err);
        twice = rig_joined(&r);
        end_inline(&r, &s);
    }
    {
        server s = { .mode = DOUBLE };
        rig r = { 0 };

        assert_status(run_inline(&r, &s, made_of_x, twice, &err), HR_INVALID, &err);
        assert_contains(err.text, "a column of this name exists already");
        end_inline(&r, &s);
        hr_error_clear(&err);
    }
    hr_table_unref(twice);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    hr_calls_options bad = { .name = "f", .block_rows = -1 }, no_promise = { .name = "f", .made = "y" };
    hr_error err = HR_ERROR_INIT;
    hr_calls *calls = NULL;
    hr_op *op = NULL;

    (void)unused;
    assert_ok(hr__calls_new("f", &calls, &err), &err);
    assert_status(hr__op_calls(calls, &bad, &op, &err), HR_INVALID, &err);
    hr_error_clear(&err);
    assert_status(hr__op_calls(calls, &no_promise, &op, &err), HR_INVALID, &err);
    assert_contains(err.text, "must return one row per row");
    hr__calls_unref(calls);
    hr_error_clear(&err);
}

/* ---------------------------------------------------------------------------------------------------------- threads */

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
    assert_int_equal(hr__calls_take(calls, 0, 0, &call, &err), HR_PENDING);
    begin = hr__clock_ns();
    assert_int_equal(hr__calls_take(calls, 0, 30, &call, &err), HR_PENDING);
    assert_true(hr__clock_ns() - begin >= 29 * 1000000);
    hr__calls_close(calls);
    assert_status(hr__calls_take(calls, 0, -1, &call, &err), HR_CANCELLED, &err);
    hr__calls_unref(calls);
    hr_error_clear(&err);
}

/* ---------------------------------------------------------------------------------------------- runs that end early */

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
        assert_ok(hr__calls_take(i->server.calls, 0, 0, &i->taken[k], NULL), NULL);
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

    assert_ok(hr__calls_take(i->server.calls, 0, 0, &i->taken[0], NULL), NULL);
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

/* A forked child has the plan but no server: it gets an error, and does not touch the parent's queue. */
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
        _exit(st == HR_INVALID && strstr(err.text, "a forked child") ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_ok(rig_push(&r, in, &err), &err);
    end_inline(&r, &s);
    hr_table_unref(in);
}

/* ----------------------------------------------------------------------------------------------------------- places */

typedef struct seen {
    server server;
    hr_call_place places[20];
    int n;
} seen;

static void note_places(rig *r)
{
    seen *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->server.calls, 0, 0, &call, NULL) == HR_OK) {
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

/* ----------------------------------------------------------------------------------------------------------- faults */

static void serve_or_fail(rig *r)
{
    server *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, 0, &call, NULL) == HR_OK) {
        hr_error err = HR_ERROR_INIT;
        hr_table *t = NULL;
        hr_status st = doubled(NULL, hr__call_input(call), HR_T_INT64, 1, &t, &err);

        if (t)
            hr__call_result(call, t, NULL);
        hr__call_done(call, st, &err);
    }
}

/* The same, three times each, as a generator gives them. */
static void stream_or_fail(rig *r)
{
    server *s = r->context;
    hr_call *call = NULL;

    while (hr__calls_take(s->calls, 0, 0, &call, NULL) == HR_OK) {
        hr_error err = HR_ERROR_INIT;
        hr_status st = HR_OK;

        for (int i = 0; i < 3 && !st; i++) {
            hr_table *t = NULL;

            st = doubled(NULL, hr__call_input(call), HR_T_INT64, 1, &t, &err);
            if (t && hr__call_stream(call, t, NULL) == HR_GO_AWAY)
                break;
        }
        hr__call_done(call, st, &err);
    }
}

typedef struct faulty {
    hr_table *parts[2];
    bool makes; /* a column of others */
    void (*serve)(rig *r);
} faulty;

static hr_status run_with_a_fault(void *context, hr_error *err)
{
    hr_calls_options o = { .name = "map(f)", .qualified = "m.f", .block_rows = 10 };
    faulty *f = context;
    hr_status st = HR_OK;
    server s = { .mode = DOUBLE };
    rig r = { .while_suspended = f->serve, .context = &s };
    hr_op *op = NULL;

    if (f->makes) {
        o = made_of_x;
        o.name = "map(f)";
        o.block_rows = 10;
    }
    HR_GO(hr__calls_new("map(f)", &s.calls, err));
    HR_GO(hr__op_calls(s.calls, &o, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, f->parts, 2, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    hr__calls_unref(s.calls);
    return st;
}

static void test_faults(void **unused)
{
    faulty f = { .parts = { numbers(0, 15), numbers(15, 20) }, .serve = serve_or_fail };

    (void)unused;
    run_with_faults_on(run_with_a_fault, &f, HR_FAULT_MEMORY);
    f.makes = true;
    run_with_faults_on(run_with_a_fault, &f, HR_FAULT_MEMORY);
    f.makes = false;
    f.serve = stream_or_fail;
    run_with_faults_on(run_with_a_fault, &f, HR_FAULT_MEMORY);
    unref_all(f.parts, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inline),
        cmocka_unit_test(test_generators),
        cmocka_unit_test(test_filter),
        cmocka_unit_test(test_tables_as_they_are),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_first_error_by_order),
        cmocka_unit_test(test_wrong_results),
        cmocka_unit_test(test_declared_schema),
        cmocka_unit_test(test_made_column),
        cmocka_unit_test(test_input_bytes),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_wrong_columns),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_take_waits),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_workers_that_never_come),
        cmocka_unit_test(test_forked_child),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_batches_together),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_cancelled_streams),
        cmocka_unit_test(test_order_of_rows),
        cmocka_unit_test(test_whom_a_paused_call_lets_by),
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_the_last_call),
        cmocka_unit_test(test_saved_states),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
