/* test_run.c - the scheduler: order, early ends, errors in their place, positions, budgets, and ends at any moment.
 *
 * The source is hr_plan_range, whose values say where they belong, so that every property is checked row by row. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"
#include "op/call.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- plans to run */

static hr_plan *range_plan(int64_t n)
{
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "id", &p, NULL), NULL);
    return p;
}

static int64_t value_at(const hr_table *t, int64_t i)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    assert_ok(hr_table_column_view(t, 0, &v, NULL), NULL);
    return ((const int64_t *)v.data)[i];
}

/* Adds a constant to each value, after a random rest, so that tickets overtake each other. */
static hr_status add_slowly(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    hr_mem mem = { 0 };
    hr_buffer *buffers[3] = { 0 };
    hr_array *a = NULL;
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_status st = HR_OK;

    (void)state;
    HR_GO(hr_table_column_view(in, 0, &v, err));
    HR_GO(hr__buffer_new(&mem, in->n_rows * 8, &buffers[1], err));
    for (int64_t i = 0; i < in->n_rows; i++)
        ((int64_t *)buffers[1]->data)[i] = ((const int64_t *)v.data)[i] + *(int64_t *)context;
    if (getenv("HR_TEST_SLOW"))
        usleep((useconds_t)(hr__random_bits((uint64_t)hr__clock_ns(), 0, 0, 0).lo % 2000));
    HR_GO(hr__array_new(hr__type_simple(HR_T_INT64), in->n_rows, 0, buffers, NULL, 0, &a, err));
    HR_GO(hr__table_new(in->schema, &a, in->n_rows, NULL, out, err));
done:
    return st;
}

static int64_t hundred = 100;

static hr_plan *map_plan(hr_plan *takes, hr_status (*call)(void *, void *, const hr_table *, hr_table **, hr_error *),
                         bool one_to_one)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "fn", .context = &hundred, .call = call };
    hr_map_options options = { .struct_bytes = sizeof options, .one_to_one = one_to_one };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    assert_ok(hr_plan_map(takes, &fn, &options, &p, &err), &err);
    hr_plan_unref(takes);
    return p;
}

static hr_plan *limit_plan(hr_plan *takes, int64_t n)
{
    hr_plan *p = NULL;

    assert_ok(hr_plan_limit(takes, n, &p, NULL), NULL);
    hr_plan_unref(takes);
    return p;
}

static hr_plan *rebatch_plan(hr_plan *takes, int64_t n)
{
    hr_plan *p = NULL;

    assert_ok(hr_plan_rebatch(takes, n, false, &p, NULL), NULL);
    hr_plan_unref(takes);
    return p;
}

/* --- running them */

typedef struct seen {
    int64_t *values;
    int64_t n, cap;
} seen;

static void keep(seen *s, const hr_table *t)
{
    for (int64_t i = 0; i < t->n_rows; i++) {
        if (s->n == s->cap)
            s->values = realloc(s->values, (size_t)(s->cap = s->cap ? 2 * s->cap : 1024) * sizeof(int64_t));
        s->values[s->n++] = value_at(t, i);
    }
}

static hr_status run_plan(hr_plan *p, const hr_run_options *options, seen *out, hr_run_counts *counts, hr_error *err)
{
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__run_start(p, options, &r, err));
    do {
        HR_GO(hr__run_next(r, -1, &t, NULL, err));
        if (t && out)
            keep(out, t);
        hr_table_unref(t);
    } while (t);
    if (counts)
        hr__run_counts(r, counts);
done:
    hr__run_close(r);
    return st;
}

static void assert_range(const seen *s, int64_t n, int64_t first)
{
    assert_int_equal(s->n, n);
    for (int64_t i = 0; i < n; i++)
        if (s->values[i] != first + i)
            assert_int_equal(s->values[i], first + i);
}

/* --- a source of two fragments that cannot be split, whose first one waits for all of the second */

#define AHEAD_TABLES 20
#define AHEAD_ROWS 1000
#define AHEAD_LIMIT_S 120

typedef struct ahead_source {
    atomic_int made[2]; /* tables of each fragment */
} ahead_source;
typedef struct ahead_stream {
    ahead_source *of;
    int fragment;
} ahead_stream;

static hr_schema *id_schema(void)
{
    hr_field field = { 0 };
    hr_schema *schema = NULL;

    assert_ok(hr__field_init(&field, "id", hr__type_simple(HR_T_INT64), false, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    hr__field_clear(&field);
    return schema;
}

static hr_status ahead_columns(void *context, struct ArrowSchema *out, hr_error *err)
{
    hr_schema *schema = id_schema();
    hr_status st = hr__schema_export(schema, out, err);

    (void)context;
    hr__schema_unref(schema);
    return st;
}

static int ahead_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    (void)s;
    return ahead_columns(NULL, out, NULL);
}

static int ahead_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    ahead_stream *me = s->private_data;
    int k = atomic_load(&me->of->made[me->fragment]);
    hr_schema *schema = id_schema();
    hr_buffer *buffers[3] = { 0 };
    hr_mem mem = { 0 };
    hr_array *a = NULL;
    hr_table *t = NULL;

    *out = (struct ArrowArray){ 0 };
    for (int ms = 0; me->fragment == 0 && k == 1 && atomic_load(&me->of->made[1]) < AHEAD_TABLES; ms++) {
        assert_true(ms < 1000 * AHEAD_LIMIT_S);
        usleep(1000);
    }
    if (k < AHEAD_TABLES) {
        assert_ok(hr__buffer_new(&mem, AHEAD_ROWS * 8, &buffers[1], NULL), NULL);
        for (int64_t i = 0; i < AHEAD_ROWS; i++)
            ((int64_t *)buffers[1]->data)[i] = (me->fragment * AHEAD_TABLES + k) * AHEAD_ROWS + i;
        assert_ok(hr__array_new(hr__type_simple(HR_T_INT64), AHEAD_ROWS, 0, buffers, NULL, 0, &a, NULL), NULL);
        assert_ok(hr__table_new(schema, &a, AHEAD_ROWS, NULL, &t, NULL), NULL);
        assert_ok(hr_table_export(t, NULL, out, NULL), NULL);
        hr_table_unref(t);
        atomic_fetch_add(&me->of->made[me->fragment], 1);
    }
    hr__schema_unref(schema);
    return 0;
}

static const char *ahead_error(struct ArrowArrayStream *s)
{
    (void)s;
    return "no error";
}

static void ahead_release(struct ArrowArrayStream *s)
{
    free(s->private_data);
    s->release = NULL;
}

static hr_status ahead_read(void *context, int fragment, const char *const *columns, int n_columns,
                            struct ArrowArrayStream *out, hr_error *err)
{
    ahead_stream *made = malloc(sizeof *made);

    (void)columns;
    (void)n_columns;
    (void)err;
    *made = (ahead_stream){ context, fragment };
    *out = (struct ArrowArrayStream){ ahead_schema, ahead_next, ahead_error, ahead_release, made };
    return HR_OK;
}

/* --- tests */

static void test_order(void **state)
{
    static const int threads[] = { 1, 2, 8 };

    (void)state;
    setenv("HR_TEST_SLOW", "1", 1);
    for (int i = 0; i < HR_LEN(threads); i++) {
        hr_plan *p = map_plan(range_plan(300000), add_slowly, true);
        hr_run_options options = { .prefetch = 2, .num_threads = threads[i], .memory_limit = 32 << 20 };
        hr_error err = HR_ERROR_INIT;
        seen s = { 0 };

        assert_ok(hr_set_num_threads(threads[i], &err), &err);
        assert_ok(run_plan(p, &options, &s, NULL, &err), &err);
        assert_range(&s, 300000, 100);
        free(s.values);
        hr_plan_unref(p);
    }
    unsetenv("HR_TEST_SLOW");
    assert_ok(hr_set_num_threads(0, NULL), NULL);
}

/* Files in gzip were read by one thread: a ticket behind the oldest stopped after two tables. */
static void test_a_hungry_consumer_lets_fragments_run_ahead(void **state)
{
    ahead_source of = { 0 };
    hr_source_functions source = { .struct_bytes = sizeof source,
                                   .name = "ahead",
                                   .context = &of,
                                   .n_fragments = 2,
                                   .schema = ahead_columns,
                                   .read = ahead_read };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    seen s = { 0 };

    (void)state;
    assert_ok(hr_set_num_threads(2, &err), &err);
    assert_ok(hr_plan_source(&source, &p, &err), &err);
    assert_ok(run_plan(p, &(hr_run_options){ .prefetch = 2 }, &s, NULL, &err), &err);
    assert_range(&s, 2 * AHEAD_TABLES * AHEAD_ROWS, 0);
    free(s.values);
    hr_plan_unref(p);
    assert_ok(hr_set_num_threads(0, NULL), NULL);
}

static void test_any_order_loses_nothing(void **state)
{
    hr_plan *p = map_plan(range_plan(200000), add_slowly, true);
    hr_run_options options = { .prefetch = 2, .any_order = true };
    hr_error err = HR_ERROR_INIT;
    seen s = { 0 };
    int64_t sum = 0;

    (void)state;
    setenv("HR_TEST_SLOW", "1", 1);
    assert_ok(run_plan(p, &options, &s, NULL, &err), &err);
    unsetenv("HR_TEST_SLOW");
    assert_int_equal(s.n, 200000);
    for (int64_t i = 0; i < s.n; i++)
        sum += s.values[i];
    assert_int_equal(sum, INT64_C(200000) * 199999 / 2 + INT64_C(200000) * 100);
    free(s.values);
    hr_plan_unref(p);
}

static void test_limit_reads_little(void **state)
{
    hr_plan *p = limit_plan(map_plan(range_plan(50000000), add_slowly, false), 5);
    hr_run_options options = { .prefetch = 1 };
    hr_run_counts c;
    seen s = { 0 };

    (void)state;
    assert_ok(run_plan(p, &options, &s, &c, NULL), NULL);
    assert_range(&s, 5, 100);
    assert_true(c.tickets <= 3);
    assert_true(c.fragments_read <= 3);
    free(s.values);
    hr_plan_unref(p);
}

static void test_limit_goes_into_the_scan(void **state)
{
    hr_plan *p = limit_plan(map_plan(range_plan(50000000), add_slowly, true), 7);
    hr_run_options options = { .prefetch = 1 };
    hr_run_counts c;
    seen s = { 0 };

    (void)state;
    assert_ok(run_plan(p, &options, &s, &c, NULL), NULL);
    assert_range(&s, 7, 100);
    assert_int_equal(c.rows_read, 7);
    free(s.values);
    hr_plan_unref(p);
}

static void test_union_keeps_order_and_instances(void **state)
{
    hr_plan *a = range_plan(10000), *ins[3] = { a, NULL, a }, *u = NULL;
    hr_run_options options = { .prefetch = 1 };
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_error err = HR_ERROR_INIT;
    int64_t n = 0;

    (void)state;
    ins[1] = limit_plan(range_plan(100000), 5000);
    assert_ok(hr_plan_union(ins, 3, &u, &err), &err);
    assert_ok(hr__run_start(u, &options, &r, &err), &err);
    for (;;) {
        assert_ok(hr__run_next(r, -1, &t, NULL, &err), &err);
        if (!t)
            break;
        for (int64_t i = 0; i < t->n_rows; i++, n++) {
            int64_t part = n < 10000 ? 0 : n < 15000 ? 1 : 2;

            assert_int_equal(value_at(t, i), n - (part == 0 ? 0 : part == 1 ? 10000 : 15000));
            assert_int_equal(hr__origin_at(t->origin, i).instance, part);
        }
        hr_table_unref(t);
    }
    assert_int_equal(n, 25000);
    hr__run_close(r);
    hr_plan_unref(u);
    hr_plan_unref(ins[1]);
    hr_plan_unref(a);
}

static hr_status fail_at_200000(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    for (int64_t i = 0; i < in->n_rows; i++)
        if (value_at(in, i) == 200000)
            return hr_error_set(err, HR_CALLBACK, "row 200000 is bad");
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* An error comes at its place in canonical order: every block of rows before it is handed out first. */
static void test_error_in_its_place(void **state)
{
    hr_plan *p = map_plan(range_plan(3000000), fail_at_200000, false);
    hr_run_options options = { .prefetch = 2 };
    hr_error err = HR_ERROR_INIT;
    seen s = { 0 };

    (void)state;
    assert_int_equal(run_plan(p, &options, &s, NULL, &err), HR_CALLBACK);
    assert_contains(err.text, "fn");
    assert_contains(err.text, "row 200000 is bad");
    assert_true(s.n >= 200000 / 4096 * 4096 - 70000 && s.n <= 200000);
    for (int64_t i = 0; i < s.n; i++)
        assert_int_equal(s.values[i], i);
    free(s.values);
    hr_error_clear(&err);
    hr_plan_unref(p);
}

static hr_status fail_behind(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)state;
    if (value_at(in, in->n_rows - 1) >= *(int64_t *)context)
        return hr_error_set(err, HR_CALLBACK, "a bad row");
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* fails at `bad` -> batches of 1,000 -> something slow */
static hr_plan *failing_plan(int64_t *bad)
{
    hr_map_function fails = { .struct_bytes = sizeof fails, .name = "fails", .context = bad, .call = fail_behind };
    hr_map_function slow = { .struct_bytes = sizeof slow, .name = "slow", .context = &hundred, .call = add_slowly };
    hr_map_options options = { .struct_bytes = sizeof options, .batch_rows = 1000 };
    hr_plan *range = range_plan(100000), *p = NULL, *q = NULL;

    assert_ok(hr_plan_map(range, &fails, NULL, &p, NULL), NULL);
    assert_ok(hr_plan_map(p, &slow, &options, &q, NULL), NULL);
    hr_plan_unref(range);
    hr_plan_unref(p);
    return q;
}

/* An error goes the way of its rows: it once overtook those that were still in the stages below, and even ended a limit
 * that had no need of the bad row. */
static void test_error_does_not_overtake(void **state)
{
    int64_t bad = 20000;
    hr_plan *p = failing_plan(&bad), *q = NULL;
    hr_run_options options = { .prefetch = 1 };
    hr_error err = HR_ERROR_INIT;
    seen s = { 0 };

    (void)state;
    setenv("HR_TEST_SLOW", "1", 1);
    assert_int_equal(run_plan(p, &options, &s, NULL, &err), HR_CALLBACK);
    assert_range(&s, 16000, 100); /* all whole batches of the blocks before the bad one */
    bad = 5000;
    s.n = 0;
    assert_ok(hr_plan_limit(p, 3000, &q, NULL), NULL);
    assert_ok(run_plan(q, &options, &s, NULL, &err), &err);
    assert_range(&s, 3000, 100);
    unsetenv("HR_TEST_SLOW");
    free(s.values);
    hr_error_clear(&err);
    hr_plan_unref(p);
    hr_plan_unref(q);
}

/* From every marker that comes out, with what the consumer took since, a new run gives the rest, and nothing else. */
static void test_resume_everywhere(void **state)
{
    hr_plan *p = limit_plan(rebatch_plan(map_plan(range_plan(100000), add_slowly, true), 777), 90000);
    hr_run_options options = { .prefetch = 1, .memory_limit = 32 << 20 };
    hr_error err = HR_ERROR_INIT;
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_marker *m = NULL, *newest = NULL;
    int64_t n = 0, n_marker = 0;

    (void)state;
    assert_ok(hr__run_start(p, &options, &r, &err), &err);
    for (int k = 0;; k++) {
        assert_ok(hr__run_next(r, -1, &t, &m, &err), &err);
        if (m) {
            hr__marker_drop(newest);
            newest = m;
            n_marker = n;
        }
        if (!t)
            break;
        n += t->n_rows;
        hr_table_unref(t);
        if (newest && k % 7 == 0) {
            hr_position pos = { .marker = newest,
                                .discard_rows = n - n_marker,
                                .plan = "0123456789abcdef0123456789abcdef" },
                        back;
            hr_run_options again = options;
            seen s = { 0 };
            char *text = NULL;

            assert_ok(hr__position_print(&pos, &text, &err), &err);
            assert_ok(hr__position_parse(text, &back, &err), &err);
            assert_int_equal(back.discard_rows, n - n_marker);
            again.from = back.marker;
            assert_ok(run_plan(p, &again, &s, NULL, &err), &err);
            assert_int_equal(s.n - back.discard_rows, 90000 - n);
            for (int64_t i = back.discard_rows; i < s.n; i++)
                assert_int_equal(s.values[i], 100 + n + i - back.discard_rows);
            free(s.values);
            hr__position_clear(&back);
            hr_string_free(text);
        }
    }
    assert_int_equal(n, 90000);
    assert_non_null(newest);
    hr__marker_drop(newest);
    hr__run_close(r);
    hr_plan_unref(p);
}

static void test_close_at_any_moment(void **state)
{
    uint64_t random = 5;

    (void)state;
    setenv("HR_TEST_SLOW", "1", 1);
    for (int i = 0; i < 60; i++) {
        live_memory before;
        hr_plan *p = rebatch_plan(map_plan(range_plan(300000), add_slowly, false), 1000);
        hr_run_options options = { .prefetch = 3 };
        hr_run *r = NULL;
        hr_table *t = NULL;

        before = live_now();
        assert_ok(hr__run_start(p, &options, &r, NULL), NULL);
        for (int64_t k = random_below(&random, 30); k > 0; k--) {
            assert_ok(hr__run_next(r, -1, &t, NULL, NULL), NULL);
            hr_table_unref(t);
        }
        hr__run_close(r);
        if (i)
            assert_no_leak(before);
        hr_plan_unref(p);
    }
    unsetenv("HR_TEST_SLOW");
}

/* Remembers how many rows each call saw, by its first row. */
static hr_status note_rows(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)state;
    (void)err;
    ((int64_t *)context)[value_at(in, 0)] = in->n_rows;
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* What a function sees must not depend on how readers cut, and that depends on the budget; also after limits and
 * unions, whose tickets are tables as some reader cut them. */
static void test_pieces_behind_a_limit(void **state)
{
    static const int64_t limits[] = { 0, 9000001, 20000003 };
    int64_t *sizes[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        hr_plan *ins[2] = { limit_plan(range_plan(150000), 140000), range_plan(10) }, *u = NULL, *p = NULL;
        hr_map_function fn = { .struct_bytes = sizeof fn, .name = "fn", .call = note_rows };
        hr_run_options options = { .prefetch = 1, .memory_limit = limits[i] };
        hr_error err = HR_ERROR_INIT;

        fn.context = sizes[i] = calloc(150000, sizeof(int64_t));
        assert_ok(hr_plan_union(ins, 2, &u, &err), &err);
        assert_ok(hr_plan_map(u, &fn, NULL, &p, &err), &err);
        assert_ok(run_plan(p, &options, NULL, NULL, &err), &err);
        assert_memory_equal(sizes[i], sizes[0], 150000 * sizeof(int64_t));
        assert_int_equal(sizes[i][4096], 4096);
        assert_int_equal(sizes[i][139264], 140000 - 139264);
        hr_plan_unref(p);
        hr_plan_unref(u);
        hr_plan_unref(ins[0]);
        hr_plan_unref(ins[1]);
    }
    for (int i = 0; i < 3; i++)
        free(sizes[i]);
}

/* What the threads of this process use while this one sleeps. */
static int64_t cpu_ms_of_a_rest(int ms)
{
    struct timespec before, after;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep((useconds_t)ms * 1000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    return (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
}

/* While the consumer is away the threads sleep: tickets with output that cannot go on were once stepped again and
 * again. */
static void test_threads_sleep_when_nobody_takes(void **state)
{
    hr_plan *p = map_plan(range_plan(40000000), add_slowly, true);
    hr_run_options options = { .prefetch = 1 };
    hr_error err = HR_ERROR_INIT;
    int64_t used = INT64_MAX;
    hr_run *r = NULL;
    hr_table *t = NULL;

    (void)state;
    assert_ok(hr__run_start(p, &options, &r, &err), &err);
    assert_ok(hr__run_next(r, -1, &t, NULL, &err), &err);
    hr_table_unref(t);
    /* Until all that may be prefetched is, however little of the machine is ours. */
    for (int i = 0; i < 60 && used > 100; i++)
        used = cpu_ms_of_a_rest(500);
    assert_in_range(used, 0, 100);
    hr__run_close(r);
    hr_plan_unref(p);
}

static void cancel_soon(void *arg, int thread)
{
    hr_run *r = arg;
    hr_table *t = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_status st = HR_OK;

    if (thread == 0) {
        usleep(3000);
        hr__run_cancel(r);
        return;
    }
    while (!st) {
        st = hr__run_next(r, -1, &t, NULL, &err);
        hr_table_unref(t);
        assert_true(st || t);
    }
    assert_int_equal(st, HR_CANCELLED);
}

static void test_cancel_wakes_the_consumer(void **state)
{
    hr_plan *p = map_plan(range_plan(INT64_C(1) << 40), add_slowly, false);
    hr_run_options options = { .prefetch = 3 };
    hr_run *r = NULL;

    (void)state;
    assert_ok(hr__run_start(p, &options, &r, NULL), NULL);
    run_threads(2, cancel_soon, r);
    hr__run_close(r);
    hr_plan_unref(p);
}

/* A consumer that keeps everything it gets does not stop the run: the oldest ticket is never refused. */
static void test_small_budget_finishes(void **state)
{
    hr_plan *p = rebatch_plan(map_plan(range_plan(4000000), add_slowly, true), 50000);
    hr_run_options options = { .prefetch = 2, .memory_limit = 2 << 20 };
    hr_error err = HR_ERROR_INIT;
    hr_run *r = NULL;
    hr_table *held[100] = { 0 };
    int n = 0;

    (void)state;
    assert_ok(hr__run_start(p, &options, &r, &err), &err);
    do
        assert_ok(hr__run_next(r, 20000, &held[n], NULL, &err), &err);
    while (held[n] && ++n < 100);
    assert_int_equal(n, 80);
    hr__run_close(r);
    for (int i = 0; i < n; i++) {
        assert_int_equal(value_at(held[i], 0), 100 + i * 50000);
        hr_table_unref(held[i]);
    }
    hr_plan_unref(p);
}

static void test_budget_below_the_floor_is_refused(void **state)
{
    hr_plan *p = range_plan(1000);
    hr_run_options options = { .prefetch = 2, .memory_limit = 1000 };
    hr_error err = HR_ERROR_INIT;
    hr_run *r = NULL;

    (void)state;
    assert_int_equal(hr__run_start(p, &options, &r, &err), HR_BUDGET);
    assert_contains(err.text, "1000");
    assert_null(r);
    hr_plan_unref(p);
}

static void one_run(void *arg, int thread)
{
    hr_plan *p = arg;
    hr_run_options options = { .prefetch = 1 + thread % 3, .num_threads = thread % 3 };
    seen s = { 0 };

    assert_ok(run_plan(p, &options, &s, NULL, NULL), NULL);
    assert_range(&s, 200000, 100);
    free(s.values);
}

static void test_runs_beside_each_other(void **state)
{
    hr_plan *p = map_plan(range_plan(200000), add_slowly, true);

    (void)state;
    run_threads(6, one_run, p);
    hr_plan_unref(p);
}

/* Runs whose consumers are away must not keep the threads from the others, however many they are. */
static void test_many_runs(void **state)
{
    hr_plan *p = map_plan(range_plan(2000000), add_slowly, true);
    hr_run_options options = { .prefetch = 1 };
    hr_run *runs[80] = { 0 };
    hr_table *t = NULL;
    int n = SANITIZED ? 24 : 80;

    (void)state;
    for (int i = 0; i < n; i++)
        assert_ok(hr__run_start(p, &options, &runs[i], NULL), NULL);
    for (int i = 0; i < n; i += n - 1)
        for (int k = 0; k < 20; k++) {
            assert_ok(hr__run_next(runs[i], 300000, &t, NULL, NULL), NULL);
            assert_non_null(t);
            hr_table_unref(t);
        }
    for (int i = 0; i < n; i++)
        hr__run_close(runs[i]);
    hr_plan_unref(p);
}

static atomic_bool slow_begun, slow_may_end;

static hr_status wait_for_the_test(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    (void)err;
    atomic_store(&slow_begun, true);
    for (int i = 0; i < 30000 && !atomic_load(&slow_may_end); i++)
        usleep(1000);
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void test_close_does_not_wait_for_others(void **state)
{
    hr_plan *slow = map_plan(range_plan(4096), wait_for_the_test, true), *quick = range_plan(10);
    hr_run_options options = { .prefetch = 1 };
    hr_run *a = NULL, *b = NULL;
    hr_table *t = NULL;
    int64_t begin;

    (void)state;
    assert_ok(hr_set_num_threads(2, NULL), NULL);
    assert_ok(hr__run_start(quick, &options, &b, NULL), NULL);
    assert_ok(hr__run_next(b, -1, &t, NULL, NULL), NULL);
    hr_table_unref(t);
    assert_ok(hr__run_start(slow, &options, &a, NULL), NULL);
    while (!atomic_load(&slow_begun))
        usleep(1000);
    begin = hr__clock_ns();
    hr__run_close(b);
    assert_true(hr__clock_ns() - begin < 20000000000); /* before the other's function gives up waiting */
    atomic_store(&slow_may_end, true);
    hr__run_close(a);
    hr_plan_unref(slow);
    hr_plan_unref(quick);
    assert_ok(hr_set_num_threads(0, NULL), NULL);
}

static void resize_or_run(void *arg, int thread)
{
    if (thread == 0) {
        one_run(arg, thread);
        return;
    }
    for (int i = 0; i < 50; i++)
        assert_ok(hr_set_num_threads(1 + (i * 7 + thread * 3) % 8, NULL), NULL);
}

static void test_resizing_at_once(void **state)
{
    hr_plan *p = map_plan(range_plan(200000), add_slowly, true);

    (void)state;
    run_threads(4, resize_or_run, p);
    hr_plan_unref(p);
    assert_ok(hr_set_num_threads(0, NULL), NULL);
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);

    assert_non_null(f);
    assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    return text;
}

/* What was done is counted, and drawn: spans of the reader and of the operators, in a file that opens in Perfetto. */
static void test_statistics_and_trace(void **state)
{
    hr_plan *p = map_plan(range_plan(100000), add_slowly, true);
    char dir[64], path[100];
    hr_run_options options = { .prefetch = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_text stats = { 0 };
    hr_run *r = NULL;
    hr_table *t = NULL;
    char *trace;

    (void)state;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/trace.json", dir);
    options.trace_path = path;
    assert_ok(hr__run_start(p, &options, &r, &err), &err);
    do {
        hr_table_unref(t);
        assert_ok(hr__run_next(r, -1, &t, NULL, &err), &err);
    } while (t);
    assert_ok(hr__run_stats(r, &stats, &err), &err);
    assert_contains(stats.data, "\"rows_read\":100000");
    assert_contains(stats.data, "\"rows_in\":100000,\"rows_out\":100000");
    assert_contains(stats.data, "\"bytes_out\":800000");
    hr__text_clear(&stats);
    hr__run_close(r);
    trace = read_all(path);
    assert_contains(trace, "\"traceEvents\"");
    assert_contains(trace, "\"name\":\"read\"");
    assert_contains(trace, "\"name\":\"map");
    assert_string_equal(trace + strlen(trace) - 4, "\n]}\n");
    free(trace);
    temp_dir_free(dir);
    hr_plan_unref(p);
}

static hr_status small_run(hr_error *err)
{
    hr_plan *range = NULL, *batches = NULL, *first = NULL;
    hr_run_options options = { .prefetch = 2, .num_threads = 1 };
    hr_status st = HR_OK;

    HR_GO(hr_plan_range(20000, "id", &range, err));
    HR_GO(hr_plan_rebatch(range, 3000, false, &batches, err));
    HR_GO(hr_plan_limit(batches, 10000, &first, err));
    HR_GO(run_plan(first, &options, NULL, NULL, err));
done:
    hr_plan_unref(range);
    hr_plan_unref(batches);
    hr_plan_unref(first);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(small_run, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
}

#define PLAN "\"plan\":\"0123456789abcdef0123456789abcdef\""

/* As they are, and with a checksum that fits, after which the text itself is read. */
static void test_bad_positions(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{\"v\":2,\"epoch\":-1," PLAN,
        "{\"v\":2,\"epoch\":1,," PLAN,
        "{\"v\":2,\"plan\":\"short\"",
        "{\"v\":2," PLAN ",\"at\":[1,2,3]",
        "{\"v\":2," PLAN ",\"at\":[1,2,3,99999999999999999999]",
        "{\"v\":2," PLAN ",\"at\":[99999999999,2,3,4]",
        "{\"v\":2," PLAN ",\"epoch\":99999999999999999999",
        "{\"v\":2," PLAN " x",
        "{\"v\":2," PLAN "}",
        "{\"v\":2," PLAN ",\"unknown\":1",
        "{\"v\":2," PLAN ",\"ops\":{\"x\":\"y\"}",
        "{\"v\":2," PLAN ",\"extra\":{\"a\":\"\\",
        "{\"v\":2," PLAN ",\"code\":\"short\"",
        "{\"v\":2," PLAN ",\"names\":\"0123456789abcdeg\"",
        "{\"v\":2," PLAN ",\"files\":2,\"groups\":\"0123456789abcdef0123456789abcdef\"",
        "{\"v\":2," PLAN ",\"files\":-2,\"groups\":\"\"",
        "{\"v\":2,\"epoch\":1",
        "{\"epoch\":0,\"seed\":0," PLAN ",\"discard\":0,\"end\":false}",
        "{\"v\":3,\"what\":0}",
    };

    (void)state;
    for (int i = 0; i < 2 * HR_LEN(texts); i++) {
        const char *text = texts[i / 2];
        hr_error err = HR_ERROR_INIT;
        char summed[300];
        hr_position p;

        snprintf(summed, sizeof summed, "%s,\"sum\":\"%016" PRIx64 "\"}", text,
                 hr__position_sum(text, (int64_t)strlen(text)));
        assert_int_equal(hr__position_parse(i % 2 ? summed : text, &p, &err), HR_INVALID);
        assert_contains(err.text, "not a position");
        assert_null(p.marker);
    }
}

static void test_versions_of_positions(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_position p;

    (void)state;
    assert_int_equal(hr__position_parse("{\"epoch\":0,\"seed\":0," PLAN "}", &p, &err), HR_INVALID);
    assert_contains(err.text, "of an older version");
    assert_int_equal(hr__position_parse("{\"v\":7,\"epoch\":0," PLAN "}", &p, &err), HR_INVALID);
    assert_contains(err.text, "of version 7, this one reads version 2");
}

static int end_pool(void **state)
{
    (void)state;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    return 0;
}

typedef struct setting {
    atomic_int calls, refused;
} setting;

static hr_status set_threads(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    setting *s = context;
    hr_error e = HR_ERROR_INIT;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_status st;

    (void)state;
    if (hr_set_num_threads(1 + atomic_fetch_add(&s->calls, 1) % 3, &e) == HR_INVALID && strstr(e.text, "callback"))
        atomic_fetch_add(&s->refused, 1);
    HR_TRY(hr_plan_range(10, "x", &p, err)); /* another run may begin there */
    st = hr_feed_open(p, NULL, &f, err);
    hr_feed_close(f);
    hr_plan_unref(p);
    *out = hr_table_ref((hr_table *)(uintptr_t)in);
    return st;
}

static void change_threads(void *stop)
{
    for (int i = 0; !atomic_load((atomic_bool *)stop); i++)
        assert_int_equal(hr_set_num_threads(2 + i % 6, NULL), HR_OK);
}

/* A callback that set the number of threads joined its own thread: an abort, or a wait for ever. Others may set it
 * meanwhile. */
static void test_threads_set_in_a_callback(void **state)
{
    setting s = { 0 };
    const hr_map_function fn = { .struct_bytes = sizeof fn, .name = "sets", .context = &s, .call = set_threads };
    const hr_map_options o = { .struct_bytes = sizeof o, .batch_rows = 10 };
    int n = hr_num_threads();
    hr_error err = HR_ERROR_INIT;
    hr_plan *range = NULL, *p = NULL;
    atomic_bool stop = false;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    hr_thread other;

    (void)state;
    assert_ok(hr_set_num_threads(8, &err), &err);
    assert_ok(hr_plan_range(2000, "x", &range, &err), &err);
    assert_ok(hr_plan_map(range, &fn, &o, &p, &err), &err);
    assert_ok(hr_feed_open(p, NULL, &f, &err), &err);
    assert_int_equal(hr__thread_start(&other, "test", change_threads, &stop), 0);
    do {
        hr_table_unref(t);
        assert_ok(hr_feed_next(f, &t, &err), &err);
    } while (t);
    atomic_store(&stop, true);
    hr__thread_join(other);
    assert_int_equal(atomic_load(&s.calls), 200);
    assert_int_equal(atomic_load(&s.refused), 200);
    hr_feed_close(f);
    hr_plan_unref(p);
    hr_plan_unref(range);
    assert_ok(hr_set_num_threads(n, &err), &err);
}

/* --- the run's lock knows its owner in debug builds */

static hr_run lock_run;

/* A child asserts that it holds the lock, after a wait; it has let go of it unless has_lock. Returns the status of
 * waitpid. */
static int lock_status(bool has_lock)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        hr__mutex_init(&lock_run.lock);
        hr__cond_init(&lock_run.idle);
        hr__run_lock(&lock_run);
        hr__run_wait_ns(&lock_run, &lock_run.idle, 1000);
        if (!has_lock)
            hr__run_unlock(&lock_run);
        hr__assert_locked(&lock_run);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void test_lock_has_an_owner(void **state)
{
    int without = lock_status(false);

    (void)state;
    assert_int_equal(lock_status(true), 0);
#ifdef NDEBUG
    assert_int_equal(without, 0);
#else
    assert_true(WIFSIGNALED(without) && WTERMSIG(without) == SIGABRT);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lock_has_an_owner),
        cmocka_unit_test(test_threads_set_in_a_callback),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_a_hungry_consumer_lets_fragments_run_ahead),
        cmocka_unit_test(test_any_order_loses_nothing),
        cmocka_unit_test(test_limit_reads_little),
        cmocka_unit_test(test_limit_goes_into_the_scan),
        cmocka_unit_test(test_union_keeps_order_and_instances),
        cmocka_unit_test(test_error_in_its_place),
        cmocka_unit_test(test_error_does_not_overtake),
        cmocka_unit_test(test_resume_everywhere),
        cmocka_unit_test(test_close_at_any_moment),
        cmocka_unit_test(test_pieces_behind_a_limit),
        cmocka_unit_test(test_threads_sleep_when_nobody_takes),
        cmocka_unit_test(test_cancel_wakes_the_consumer),
        cmocka_unit_test(test_small_budget_finishes),
        cmocka_unit_test(test_budget_below_the_floor_is_refused),
        cmocka_unit_test(test_runs_beside_each_other),
        cmocka_unit_test(test_many_runs),
        cmocka_unit_test(test_close_does_not_wait_for_others),
        cmocka_unit_test(test_resizing_at_once),
        cmocka_unit_test(test_statistics_and_trace),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_bad_positions),
        cmocka_unit_test(test_versions_of_positions),
    };

    return cmocka_run_group_tests(tests, NULL, end_pool);
}
