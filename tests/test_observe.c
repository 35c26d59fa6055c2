/* test_observe.c - what the dispatcher records: exact counts, states of stages, the causes of a consumer's waits. */
#include "harness.h"

#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS 40000

/* The rows of a range through a filter, in batches. */
static hr_plan *plan_new(void)
{
    hr_plan *range = NULL, *kept = NULL, *cut = NULL;
    hr_expr *e = NULL;
    hr_op *op = NULL;

    assert_ok(hr_plan_range(ROWS, "id", &range, NULL), NULL);
    assert_ok(hr_expr_parse("id >= 100", &e, NULL), NULL);
    assert_ok(hr_plan_filter_expr(range, e, &kept, NULL), NULL);
    hr_expr_unref(e);
    assert_ok(hr__op_rebatch(1000, false, &op, NULL), NULL);
    assert_ok(hr__plan_op(kept, op, &cut, NULL), NULL);
    hr_plan_unref(range);
    hr_plan_unref(kept);
    return cut;
}

/* Takes all tables; after the first one the mark is set. Returns what was done since. */
static hr_status run_all(hr_plan *p, int num_threads, int mark, hr_run_view *out, hr_error *err)
{
    hr_run_options options = { .prefetch = 1, .num_threads = num_threads };
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_status st;
    int n = 0;

    *out = (hr_run_view){ 0 };
    HR_TRY(hr__run_start(p, &options, &r, err));
    do {
        hr_table_unref(t);
        st = hr__run_next(r, -1, &t, NULL, err);
        if (++n == 1)
            hr__run_mark(r, HR_MARK_FIRST);
    } while (!st && t);
    if (!st)
        st = hr__run_view(r, mark, out, err);
    hr__run_close(r);
    return st;
}

static const hr_op_view *op_of(const hr_run_view *v, const char *name)
{
    for (int i = 0; i < v->n_ops; i++)
        if (strstr(v->ops[i].name, name))
            return &v->ops[i];
    fail_msg("no operator %s", name);
    return NULL;
}

static int64_t sum_of(const int64_t *ns, int n)
{
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += ns[i];
    return sum;
}

static void test_counts(void **state)
{
    hr_plan *p = plan_new();
    hr_error err = HR_ERROR_INIT;
    hr_run_view v;

    (void)state;
    assert_ok(run_all(p, 2, -1, &v, &err), &err);
    assert_int_equal(v.n_stages, 1);
    assert_int_equal(v.n_threads, HR_MIN(2, hr_num_threads()));
    assert_true(v.stages[0].is_leaf && v.stages[0].all_taken);
    assert_int_equal(v.stages[0].rows_read, ROWS);
    assert_int_equal(v.stages[0].sums.ticket_rows, ROWS);
    assert_int_equal(v.stages[0].all_tickets, v.stages[0].sums.tickets);
    assert_true(v.stages[0].sums.tickets > 0 && v.stages[0].longest.busy_ns > 0);
    assert_string_equal(v.stages[0].longest_file, "range");
    assert_int_equal(op_of(&v, "filter")->sums.rows_in, ROWS);
    assert_int_equal(op_of(&v, "filter")->sums.rows_out, ROWS - 100);
    assert_false(op_of(&v, "filter")->is_serial);
    assert_true(op_of(&v, "rebatch")->is_serial);
    assert_int_equal(op_of(&v, "rebatch")->sums.rows_in, ROWS - 100);
    /* what a stage does has no gaps, and all waits have a cause */
    assert_true(sum_of(v.stages[0].sums.does_ns, HR_N_STAGE_DOES) <= v.sums.at_ns);
    assert_true(sum_of(v.stages[0].sums.cause_ns, HR_N_CAUSES) <= v.sums.hungry_ns);
    hr__run_view_clear(&v);
    hr_plan_unref(p);
}

/* The times since a mark leave out what was before. */
static void test_marks(void **state)
{
    hr_plan *p = plan_new();
    hr_error err = HR_ERROR_INIT;
    hr_run_view all, since;

    (void)state;
    assert_ok(run_all(p, 1, -1, &all, &err), &err);
    assert_ok(run_all(p, 1, HR_MARK_FIRST, &since, &err), &err);
    assert_true(op_of(&since, "filter")->sums.rows_in < ROWS);
    assert_int_equal(since.stages[0].all_ticket_rows, ROWS); /* of the whole run */
    assert_true(since.stages[0].sums.tickets <= all.stages[0].sums.tickets);
    hr__run_view_clear(&all);
    hr__run_view_clear(&since);
    hr_plan_unref(p);
}

static hr_cause longest_cause(const hr_run_view *v)
{
    hr_cause found = HR_CAUSE_SERIAL;

    for (int k = 0; k < HR_N_CAUSES; k++)
        if (v->stages[0].sums.cause_ns[k] > v->stages[0].sums.cause_ns[found])
            found = (hr_cause)k;
    return found;
}

/* The cause of most of the consumer's waits while an operator sleeps up to stall_ms in each call. */
static hr_cause cause_of_stall(const char *op, int stall_ms, int num_threads)
{
    hr_plan *p = plan_new();
    hr_error err = HR_ERROR_INIT;
    hr_run_view v;
    hr_cause found;
    char stall[64];

    snprintf(stall, sizeof(stall), "%s:%dms", op, stall_ms);
    setenv("HR_STALL", stall, 1);
    assert_ok(run_all(p, num_threads, -1, &v, &err), &err);
    unsetenv("HR_STALL");
    found = longest_cause(&v);
    hr__run_view_clear(&v);
    hr_plan_unref(p);
    return found;
}

/*
 * An operator that sleeps is what the consumer waits for: the serial one, or the one that runs on all threads.
 * Sleeps are random, and a busy machine has waits of its own: the sleeps grow until they are the longest.
 */
static void test_causes(void **state)
{
    static const struct {
        const char *op;
        int num_threads;
        hr_cause cause;
    } cases[] = {
        { "rebatch", 2, HR_CAUSE_SERIAL },
        { "filter_expr", 1, HR_CAUSE_THREADS },
    };

    (void)state;
    assert_ok(hr_set_num_threads(4, NULL), NULL);
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_cause found = HR_N_CAUSES;

        for (int ms = 40; found != cases[i].cause && ms <= 1000; ms *= 5)
            found = cause_of_stall(cases[i].op, ms, cases[i].num_threads);
        assert_int_equal(found, cases[i].cause);
    }
    assert_ok(hr_set_num_threads(0, NULL), NULL);
}

static hr_status one_view(hr_error *err)
{
    hr_plan *range = NULL;
    hr_run_view v;
    hr_status st;

    HR_TRY(hr_plan_range(100, "id", &range, err));
    st = run_all(range, 1, -1, &v, err);
    hr__run_view_clear(&v);
    hr_plan_unref(range);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(one_view, HR_FAULT_MEMORY | HR_FAULT_IO) > 10);
}

/* Requests are counted at every level, in classes by size and time. */
static void test_requests(void **state)
{
    hr_account *run = hr__account_new("run", NULL, 0), *file = hr__account_new("file", run, 0);
    hr_io_sums sums;

    (void)state;
    hr__account_io(file, HR_IO_FILE, 3000, 500, 0);
    hr__account_io(file, HR_IO_FILE, 1 << 20, 5000000, 0);
    hr__account_io(run, HR_IO_NETWORK, 0, INT64_MAX, 7);
    sums = hr__account_io_sums(run, HR_IO_FILE);
    assert_int_equal(sums.requests, 2);
    assert_int_equal(sums.bytes, 3000 + (1 << 20));
    assert_int_equal(sums.ns, 5000500);
    assert_int_equal(sums.by_time[0], 1);  /* less than a microsecond */
    assert_int_equal(sums.by_time[13], 1); /* 4096 to 8191 of them */
    assert_int_equal(sums.by_size[2], 1);  /* 2 to 3 KiB */
    assert_int_equal(sums.by_size[11], 1);
    sums = hr__account_io_sums(run, HR_IO_NETWORK);
    assert_int_equal(sums.first_ns, 7);
    assert_int_equal(sums.by_time[HR_IO_CLASSES - 1], 1);
    assert_int_equal(hr__account_io_sums(file, HR_IO_NETWORK).requests, 0);
    hr__account_unref(file);
    hr__account_unref(run);
}

/* By bytes: under ASan each strstr looks at the whole rest of the text. */
static int count_of(const char *text, const char *part)
{
    int n = 0;

    for (; *text; text++) {
        const char *at = text, *want = part;

        while (*want && *at == *want)
            at++, want++;
        n += !*want;
    }
    return n;
}

/* Short spans of 10 ms are one, long ones stay; each is given once. */
static void test_news(void **state)
{
    const int64_t ms = 1000000;
    hr_error err = HR_ERROR_INIT;
    hr_trace *t = NULL;
    hr_text news = { 0 };

    (void)state;
    assert_ok(hr__trace_watch_new(NULL, 1000 * ms, &t, &err), &err);
    for (int i = 0; i < 10; i++)
        hr__trace_rank(t, 1, i % 2 ? "wait" : "step", (1000 + i) * ms, (1000 + i) * ms + ms / 2);
    hr__trace_rank(t, 1, "step", 1010 * ms, 1040 * ms);
    hr__trace_rank(t, 0, "step", 1010 * ms, 1011 * ms);
    hr__trace_rank(t, 0, "step", 1021 * ms, 1023 * ms); /* the next 10 ms */
    assert_ok(hr__trace_news(t, &news, &err), &err);
    assert_contains(news.data, "[50001,0,2500,\"step\",5]");
    assert_contains(news.data, "[50001,1000,2500,\"wait\",5]");
    assert_contains(news.data, "[50001,10000,30000,\"step\",1]");
    assert_contains(news.data, "[50000,10000,1000,\"step\",1]");
    assert_contains(news.data, "[50000,21000,2000,\"step\",1]");
    assert_int_equal(count_of(news.data, "["), 5);
    assert_int_equal(count_of(news.data, "],["), 4);
    hr__text_clear(&news);
    assert_ok(hr__trace_news(t, &news, &err), &err);
    assert_int_equal(news.n, 0);
    hr__trace_close(t, true);
}

/* Nobody fetches the news: the newest are kept, and the number of the others. */
static void test_news_that_nobody_fetched(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_trace *t = NULL;
    hr_text news = { 0 };

    (void)state;
    assert_ok(hr__trace_watch_new(NULL, 1, &t, &err), &err);
    for (int64_t i = 0; i < (1 << 16) + 7; i++)
        hr__trace_rank(t, i < 7 ? 9 : 1, "step", 1 + i * 10000000, 1 + (i + 1) * 10000000);
    assert_ok(hr__trace_news(t, &news, &err), &err);
    assert_contains(news.data, "[-1,0,0,\"lost\",7]");
    assert_int_equal(count_of(news.data, "[50009,"), 0);
    assert_int_equal(count_of(news.data, "[50001,"), 1 << 16);
    hr__text_clear(&news);
    hr__trace_close(t, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_news),
        cmocka_unit_test(test_news_that_nobody_fetched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
