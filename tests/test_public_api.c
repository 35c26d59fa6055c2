/* test_public_api.c - the public C API, used as an outside program uses it.
 *
 * It includes headrace.h and no other header of ours, and where a shared library is built it links that one. So a
 * symbol that headrace.map hides, or a function that needs an hr__ header to be useful, fails here. */
#include <headrace.h>

#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h> /* needs the first four */

static void check_ok(hr_status st, const hr_error *err, const char *file, int line)
{
    if (st)
        print_error("%s: %s\n", hr_status_name(st), err ? err->text : "");
    _assert_int_equal(st, HR_OK, file, line);
}
#define OK(call) check_ok((call), &err, __FILE__, __LINE__)

static hr_plan *range_of(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    OK(hr_plan_range(n, "id", &p, &err));
    return p;
}

/* --------------------------------------------------------------------------------------------------- NULL arguments */

/* The story: about 35 functions crashed when `out` was NULL. Each now says which argument is missing. test_header.py
 * checks that every function with an `out` has a line here. */
static void check_refused(hr_status st, const char *function, const char *argument, hr_error *err)
{
    char want[200];

    snprintf(want, sizeof want, "%s: argument '%s' is NULL", function, argument);
    assert_int_equal(st, HR_INVALID);
    assert_string_equal(err->text, want);
    hr_error_clear(err);
}
#define REFUSES(argument, function, ...) check_refused(function(__VA_ARGS__, &err), #function, argument, &err)

static void refuse_tables(hr_table *t)
{
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema schema = { 0 };
    struct ArrowArray array = { 0 };
    hr_column_view view = { .struct_bytes = sizeof view };
    hr_table *out;

    REFUSES("out", hr_table_slice, t, 0, 1, NULL);
    REFUSES("t", hr_table_slice, NULL, 0, 1, &out);
    REFUSES("t", hr_table_export, NULL, &schema, &array);
    REFUSES("out", hr_table_import, &schema, &array, NULL);
    REFUSES("schema", hr_table_import, NULL, &array, &out);
    REFUSES("array", hr_table_import, &schema, NULL, &out);
    REFUSES("t", hr_table_column_view, NULL, 0, &view);
    REFUSES("out", hr_table_column_view, t, 0, NULL);
    REFUSES("out", hr_table_text_view, t, 0, NULL);
    REFUSES("out", hr_table_print_json, t, 0, 1, NULL);
}

static void refuse_expressions(void)
{
    hr_error err = HR_ERROR_INIT;
    struct ArrowSchema type = { 0 };
    struct ArrowArray value = { 0 };
    hr_expr *e = NULL, *out;
    char *text;

    OK(hr_expr_column("id", &e, &err));
    REFUSES("out", hr_expr_column, "id", NULL);
    REFUSES("name", hr_expr_column, NULL, &out);
    REFUSES("out", hr_expr_literal, &type, &value, NULL);
    REFUSES("type", hr_expr_literal, NULL, &value, &out);
    REFUSES("out", hr_expr_int, 1, NULL);
    REFUSES("out", hr_expr_double, 1.5, NULL);
    REFUSES("out", hr_expr_string, "a", NULL);
    REFUSES("v", hr_expr_string, NULL, &out);
    REFUSES("out", hr_expr_call, "is_null", &e, 1, NULL, 0, NULL);
    REFUSES("function", hr_expr_call, NULL, &e, 1, NULL, 0, &out);
    REFUSES("out", hr_expr_print, e, NULL);
    REFUSES("out", hr_expr_parse, "a", NULL);
    REFUSES("text", hr_expr_parse, NULL, &out);
    REFUSES("e", hr_expr_print, NULL, &text);
    hr_expr_unref(e);
}

static hr_status never(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context, (void)state, (void)in, (void)out;
    return hr_error_set(err, HR_BUG, "called");
}

static hr_status never_keep(void *context, const hr_table *in, uint8_t *keep, hr_error *err)
{
    (void)context, (void)in, (void)keep;
    return hr_error_set(err, HR_BUG, "called");
}

static void refuse_sources(hr_table *t)
{
    hr_error err = HR_ERROR_INIT;
    struct ArrowArrayStream stream = { 0 };
    hr_source_functions source = { .struct_bytes = sizeof source };
    const char *url = "x";
    hr_plan *out;

    REFUSES("out", hr_plan_read, &url, 1, NULL, NULL, NULL);
    REFUSES("urls", hr_plan_read, NULL, 1, NULL, NULL, &out);
    REFUSES("out", hr_plan_tables, &t, 1, NULL);
    REFUSES("out", hr_plan_range, 3, "id", NULL);
    REFUSES("name", hr_plan_range, 3, NULL, &out);
    REFUSES("out", hr_plan_stream, &stream, NULL);
    REFUSES("stream", hr_plan_stream, NULL, &out);
    REFUSES("out", hr_plan_source, &source, NULL);
}

static void refuse_steps(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    const char *name = "id";
    char *said = NULL;
    hr_table *listed = NULL;
    hr_expr *e = NULL;
    hr_filter_function keep = { .struct_bytes = sizeof keep, .call = never_keep };
    hr_map_function map = { .struct_bytes = sizeof map, .call = never };
    hr_aggregate count = { .struct_bytes = sizeof count, .function = "count" };
    hr_join_options join = { .struct_bytes = sizeof join, .left_keys = &name, .n_keys = 1 };
    hr_sample_options sample = { .struct_bytes = sizeof sample, .to = 1 };
    hr_sort_key key = { .struct_bytes = sizeof key, .column = "id" };
    hr_plan *out;

    OK(hr_expr_column("id", &e, &err));
    REFUSES("out", hr_plan_project, p, &name, NULL, 1, NULL);
    REFUSES("in", hr_plan_project, NULL, &name, NULL, 1, &out);
    REFUSES("out", hr_plan_filter_expr, p, e, NULL);
    REFUSES("e", hr_plan_filter_expr, p, NULL, &out);
    REFUSES("out", hr_plan_filter_function, p, &keep, NULL);
    REFUSES("out", hr_plan_with_columns, p, &name, &e, 1, NULL);
    REFUSES("out", hr_plan_group, p, &name, 1, &count, 1, NULL);
    REFUSES("out", hr_plan_join, p, p, &join, NULL);
    REFUSES("right", hr_plan_join, p, NULL, &join, &out);
    REFUSES("out", hr_plan_limit, p, 1, NULL);
    REFUSES("in", hr_plan_limit, NULL, 1, &out);
    REFUSES("out", hr_plan_number_rows, p, "n", NULL);
    REFUSES("out", hr_plan_distinct, p, NULL, 0, HR_KEEP_FIRST, NULL);
    REFUSES("in", hr_plan_distinct, NULL, NULL, 0, HR_KEEP_FIRST, &out);
    REFUSES("keys", hr_plan_distinct, p, NULL, 1, HR_KEEP_FIRST, &out);
    REFUSES("out", hr_plan_explode, p, "n", NULL);
    REFUSES("column", hr_plan_explode, p, NULL, &out);
    REFUSES("out", hr_plan_sample_rows, p, 1, 0, NULL);
    REFUSES("in", hr_plan_cache, NULL, "cache", NULL, &out);
    REFUSES("folder", hr_plan_cache, p, NULL, NULL, &out);
    REFUSES("out", hr_plan_cache, p, "cache", NULL, NULL);
    REFUSES("out", hr_plan_slice, p, 0, 1, NULL);
    REFUSES("out", hr_plan_sample, p, &sample, NULL);
    REFUSES("out", hr_plan_zip, &p, 1, NULL);
    REFUSES("ins", hr_plan_zip, NULL, 1, &out);
    REFUSES("out", hr_plan_mix, &p, 1, (const double[]){ 1 }, HR_MIX_SHORTEST, NULL);
    REFUSES("out", hr_plan_mix_repeat, &p, 1, (const double[]){ 1 }, NULL, NULL);
    REFUSES("weights", hr_plan_mix, &p, 1, NULL, HR_MIX_SHORTEST, &out);
    REFUSES("out", hr_plan_union, &p, 1, NULL);
    REFUSES("out", hr_plan_rebatch, p, 2, false, NULL);
    REFUSES("out", hr_plan_pack, p, 2, NULL, NULL);
    REFUSES("out", hr_plan_batch_by_length, p, "n", 2, NULL, NULL);
    REFUSES("column", hr_plan_batch_by_length, p, NULL, 2, NULL, &out);
    REFUSES("out", hr_plan_local_shuffle, p, 10, NULL, NULL);
    REFUSES("out", hr_plan_sort, p, &key, 1, NULL);
    REFUSES("keys", hr_plan_sort, p, NULL, 1, &out);
    REFUSES("out", hr_plan_random_shuffle, p, NULL, NULL);
    REFUSES("out", hr_plan_randomize_block_order, p, NULL, NULL);
    REFUSES("out", hr_plan_repartition, p, 2, NULL, NULL);
    REFUSES("out", hr_plan_map, p, &map, NULL, NULL);
    REFUSES("out", hr_plan_write, p, "csv", "x", NULL, NULL);
    REFUSES("path", hr_plan_write, p, "csv", NULL, NULL, &out);
    REFUSES("path", hr_clean, NULL, NULL, NULL, 0, &said);
    REFUSES("out", hr_clean, "x", NULL, NULL, 0, NULL);
    REFUSES("paths", hr_list, NULL, 0, NULL, 0, &listed);
    REFUSES("out", hr_list, &name, 1, NULL, 0, NULL);
    REFUSES("out", hr_plan_materialize, p, NULL, NULL);
    hr_expr_unref(e);
}

static void refuse_questions(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    char *text;

    REFUSES("out", hr_plan_schema, p, NULL);
    REFUSES("out", hr_plan_print_schema, p, NULL);
    REFUSES("out", hr_plan_files, p, NULL);
    REFUSES("out", hr_plan_describe_file, p, 0, NULL);
    REFUSES("out", hr_plan_file_advice, p, NULL);
    REFUSES("out", hr_plan_describe_file_json, p, 0, NULL);
    REFUSES("out", hr_format_at, 0, NULL);
    REFUSES("out", hr_format_options, "csv", HR_READ, NULL);
    REFUSES("out", hr_function_at, 0, NULL);
    REFUSES("out", hr_function_options, "cast", NULL);
    REFUSES("out", hr_plan_count, p, NULL);
    REFUSES("out", hr_plan_explain, p, NULL);
    REFUSES("p", hr_plan_explain, NULL, &text);
    REFUSES("out", hr_plan_fingerprint, p, NULL);
    REFUSES("out", hr_parse_bytes, "1", NULL);
    REFUSES("out", hr_spill_dir, NULL);
}

static void refuse_feeds(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    hr_feed_options how = { .struct_bytes = sizeof how, .batch_rows = 1 };
    hr_split *s = NULL;
    hr_feed *f = NULL;
    hr_table *t;

    OK(hr_feed_open(p, NULL, &f, &err));
    OK(hr_split_open(p, 1, HR_TAIL_EQUAL, &how, &s, &err));
    REFUSES("out", hr_split_open, p, 1, HR_TAIL_EQUAL, &how, NULL);
    REFUSES("out", hr_split_next, s, 0, 0, NULL);
    REFUSES("s", hr_split_next, NULL, 0, 0, &t);
    REFUSES("out", hr_split_position, s, NULL);
    REFUSES("out", hr_split_stats, s, NULL);
    REFUSES("out", hr_feed_next_within, f, 0, NULL);
    REFUSES("out", hr_feed_descriptor, f, NULL);
    REFUSES("out", hr_feed_progress, f, NULL);
    hr_split_unref(s);
    REFUSES("out", hr_feed_open, p, NULL, NULL);
    REFUSES("p", hr_feed_open, NULL, NULL, &f);
    REFUSES("out", hr_feed_next, f, NULL);
    REFUSES("f", hr_feed_next, NULL, &t);
    REFUSES("out", hr_feed_position, f, NULL);
    REFUSES("out", hr_feed_stats, f, NULL);
    REFUSES("out", hr_feed_export, f, NULL); /* which takes nothing then */
    hr_feed_close(f);
}

static void test_null_arguments(void **state)
{
    hr_plan *p = range_of(10);
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    (void)state;
    OK(hr_feed_open(p, NULL, &f, &err));
    OK(hr_feed_next(f, &t, &err));
    refuse_tables(t);
    refuse_expressions();
    refuse_sources(t);
    refuse_steps(p);
    refuse_questions(p);
    refuse_feeds(p);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
}

/* ------------------------------------------------------------------------------------------ a run that waits for us */

/* A step that passes tables on, each when there is a permit for it. */
typedef struct gate {
    atomic_int permits, waiting, n_freed;
} gate;

static void gate_free(void *context) { atomic_fetch_add(&((gate *)context)->n_freed, 1); }

static void nap(void) { usleep(1000); }

static hr_status gate_call(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    gate *g = context;

    (void)state, (void)err;
    atomic_fetch_add(&g->waiting, 1);
    for (int n = atomic_load(&g->permits); n <= 0 || !atomic_compare_exchange_weak(&g->permits, &n, n - 1);
         n = atomic_load(&g->permits))
        nap();
    atomic_fetch_sub(&g->waiting, 1);
    *out = hr_table_ref((hr_table *)(uintptr_t)in);
    return HR_OK;
}

/* Batches of 1,000 rows of 0 .. n-1, each through the gate. */
static hr_feed *gated_feed(gate *g, int64_t n)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .context = g, .context_free = gate_free, .call = gate_call };
    hr_map_options how = { .struct_bytes = sizeof how, .batch_rows = 1000, .one_to_one = true };
    hr_feed_options one = { .struct_bytes = sizeof one, .num_threads = 1 }; /* permits in the order of the batches */
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range_of(n), *gated = NULL;
    hr_feed *f = NULL;

    OK(hr_plan_map(p, &fn, &how, &gated, &err));
    OK(hr_feed_open(gated, &one, &f, &err));
    hr_plan_unref(gated);
    hr_plan_unref(p);
    return f;
}

static void *cancel_soon(void *feed)
{
    for (int i = 0; i < 20; i++)
        nap();
    hr_feed_cancel(feed);
    return NULL;
}

static void test_cancel_from_another_thread(void **state)
{
    gate g = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = gated_feed(&g, 5000);
    hr_table *t = NULL;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, f), 0);
    assert_int_equal(hr_feed_next(f, &t, &err), HR_CANCELLED); /* no table can come: the gate is shut */
    assert_null(t);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(hr_feed_next(f, &t, &err), HR_CANCELLED);
    atomic_store(&g.permits, 1 << 20);
    hr_feed_close(f);
    hr_feed_cancel(NULL);
    hr_error_clear(&err);
    assert_int_equal(atomic_load(&g.n_freed), 1);
}

/* Lets one batch through after the other and finds it by poll() alone. */
static void test_wait_with_limit_and_descriptor(void **state)
{
    gate g = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = gated_feed(&g, 5000);
    hr_table *t = NULL;
    int64_t n_rows = 0, n_tables = 0;
    struct pollfd poller = { .events = POLLIN };
    int again;
    hr_status st = HR_PENDING;

    (void)state;
    assert_int_equal(hr_feed_next_within(f, 0, &t, &err), HR_PENDING);
    assert_int_equal(hr_feed_next_within(f, 30, &t, &err), HR_PENDING);
    assert_null(t);
    OK(hr_feed_descriptor(f, &poller.fd, &err));
    OK(hr_feed_descriptor(f, &again, &err));
    assert_int_equal(poller.fd, again);
    assert_int_equal(hr_feed_next_within(f, 0, &t, &err), HR_PENDING);
    assert_int_equal(poll(&poller, 1, 0), 0); /* nothing waits */
    for (bool more = true; more;) {
        atomic_fetch_add(&g.permits, st == HR_PENDING);
        assert_int_equal(poll(&poller, 1, 60000), 1);
        t = NULL;
        st = hr_feed_next_within(f, 0, &t, &err);
        assert_true(st == HR_OK || st == HR_PENDING);
        more = st == HR_PENDING || t;
        if (t) {
            n_rows += hr_table_rows(t);
            n_tables++;
            hr_table_unref(t);
        }
    }
    assert_int_equal(n_rows, 5000);
    assert_int_equal(n_tables, 5);
    assert_int_equal(poll(&poller, 1, 0), 1); /* the end stays to be seen */
    hr_feed_close(f);
}

typedef struct seen_progress {
    int n;
    hr_progress last;
} seen_progress;

static void see_progress(void *context, const hr_progress *done)
{
    seen_progress *s = context;

    assert_true(done->rows_taken >= s->last.rows_taken && done->rows_read >= s->last.rows_read);
    assert_true(done->done >= 0 && done->done <= 1 && done->bytes_out >= s->last.bytes_out);
    s->last = *done;
    s->n++;
}

static void test_progress(void **state)
{
    gate g = { .permits = 5 };
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = gated_feed(&g, 5000);
    hr_progress done = { .struct_bytes = sizeof done };
    seen_progress seen = { 0 };
    hr_table *t = NULL;

    (void)state;
    hr_feed_set_progress(f, see_progress, &seen, 0);
    for (;;) {
        OK(hr_feed_next(f, &t, &err));
        if (!t)
            break;
        hr_table_unref(t);
    }
    OK(hr_feed_progress(f, &done, &err));
    assert_int_equal(done.rows_taken, 5000);
    assert_int_equal(done.tables_taken, 5);
    assert_int_equal(done.rows_read, 5000);
    assert_true(done.wait_ns > 0 && done.memory_bytes >= 0);
    assert_true(done.done == 1 && done.bytes_out == 5000 * 8);
    assert_non_null(done.slowest);
    assert_true(seen.n >= 6);
    assert_int_equal(seen.last.rows_taken, 5000);
    hr_feed_close(f);
}

static char logged[1000];

static void keep_line(void *context, hr_log_level level, const char *text)
{
    assert_ptr_equal(context, logged);
    assert_int_equal(level, HR_LOG_WARNING);
    snprintf(logged, sizeof logged, "%s", text);
}

static void trace_to_nowhere(hr_plan *p, bool take)
{
    hr_feed_options how = { .struct_bytes = sizeof how, .trace_path = "/no such folder/trace.json" };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = NULL;

    logged[0] = 0;
    OK(hr_feed_open(p, &how, &f, &err));
    if (take)
        OK(hr_feed_next(f, &t, &err));
    hr_table_unref(t);
    hr_feed_close(f);
}

/* A trace that cannot be written is no error of the run: it is logged. A run from which nobody took writes none. */
static void test_log(void **state)
{
    hr_plan *p = range_of(10);

    (void)state;
    hr_set_log(keep_line, logged);
    trace_to_nowhere(p, true);
    assert_non_null(strstr(logged, "/no such folder/trace.json: the trace cannot be written: No such file"));
    trace_to_nowhere(p, false);
    assert_string_equal(logged, "");
    hr_set_log(NULL, NULL);
    trace_to_nowhere(p, true);
    assert_string_equal(logged, "");
    hr_plan_unref(p);
}

static int64_t count_rows(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int64_t n = 0;

    OK(hr_feed_open(p, NULL, &f, &err));
    for (;;) {
        OK(hr_feed_next(f, &t, &err));
        if (!t)
            break;
        n += hr_table_rows(t);
        hr_table_unref(t);
    }
    hr_feed_close(f);
    return n;
}

/* A wrong value of the environment is as none, and is logged once. */
static void test_autotune_of_environment(void **state)
{
    static const struct {
        const char *value, *logs;
    } cases[] = {
        { "on", "" },    { "off", "" },
        { "", "" },      { "maybe", "HEADRACE_AUTOTUNE: 'maybe', expected on or off; it is on" },
        { "maybe", "" },
    };
    hr_plan *p = range_of(10);

    (void)state;
    hr_set_log(keep_line, logged);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        logged[0] = 0;
        setenv("HEADRACE_AUTOTUNE", cases[i].value, 1);
        assert_int_equal(count_rows(p), 10);
        assert_string_equal(logged, cases[i].logs);
    }
    unsetenv("HEADRACE_AUTOTUNE");
    hr_set_log(NULL, NULL);
    hr_plan_unref(p);
}

static hr_status shutdown_call(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context, (void)state;
    *out = hr_table_ref((hr_table *)(uintptr_t)in);
    return hr_shutdown(err) == HR_INVALID ? HR_OK : hr_error_set(err, HR_BUG, "a callback shut the library down");
}

static void test_shutdown(void **state)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .call = shutdown_call };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range_of(10000), *mapped = NULL;
    hr_feed *f = NULL;

    (void)state;
    OK(hr_feed_open(p, NULL, &f, &err));
    assert_int_equal(hr_shutdown(&err), HR_INVALID);
    assert_non_null(strstr(err.text, "a feed is open"));
    hr_feed_close(f);
    OK(hr_shutdown(&err));
    OK(hr_shutdown(&err));
    assert_int_equal(count_rows(p), 10000); /* threads start anew */
    OK(hr_plan_map(p, &fn, NULL, &mapped, &err));
    assert_int_equal(count_rows(mapped), 10000);
    OK(hr_shutdown(&err));
    hr_plan_unref(mapped);
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* ---------------------------------------------------------------------------------------------------------- splits */

enum { RANKS = 3, BATCH = 100 };

typedef struct rank_thread {
    hr_split *split;
    int rank;
    int64_t n_rows, n_steps, sum;
    hr_status st;
    hr_error err;
} rank_thread;

static void take_table(rank_thread *r, const hr_table *t)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    assert_int_equal(hr_table_column_view(t, 0, &v, NULL), HR_OK);
    if (v.n_rows == BATCH) /* step s of rank r is rows [(s*N + r)*B, +B) */
        assert_int_equal(*(const int64_t *)v.data, (r->n_steps * RANKS + r->rank) * BATCH);
    for (int64_t i = 0; i < v.n_rows; i++)
        r->sum += ((const int64_t *)v.data)[i];
    r->n_rows += v.n_rows;
    r->n_steps++;
}

static void *rank_main(void *arg)
{
    rank_thread *r = arg;
    hr_table *t = NULL;

    r->n_rows = r->n_steps = r->sum = 0;
    while ((r->st = hr_split_begin(r->split, r->rank, 50, &r->err)) == HR_PENDING)
        ;
    while (!r->st) {
        r->st = hr_split_next(r->split, r->rank, 50, &t, &r->err);
        if (r->st == HR_PENDING)
            r->st = HR_OK;
        else if (!r->st && !t)
            break;
        if (t)
            take_table(r, t);
        hr_table_unref(t);
        t = NULL;
    }
    return NULL;
}

static void run_ranks(hr_split *s, rank_thread *ranks)
{
    pthread_t threads[RANKS];

    for (int r = 0; r < RANKS; r++) {
        ranks[r] = (rank_thread){ .split = s, .rank = r };
        assert_int_equal(pthread_create(&threads[r], NULL, rank_main, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        assert_int_equal(ranks[r].st, HR_OK);
    }
}

static hr_split *split_of(hr_plan *p, const char *position)
{
    hr_feed_options how = { .struct_bytes = sizeof how, .batch_rows = BATCH, .position = position };
    hr_error err = HR_ERROR_INIT;
    hr_split *s = NULL;

    OK(hr_split_open(p, RANKS, HR_TAIL_EQUAL, &how, &s, &err));
    assert_int_equal(hr_split_ranks(s), RANKS);
    return s;
}

/* 1,000 rows for 3 ranks of batches of 100: three full steps, then one of 33 rows each; one row is left out. */
static void test_split_of_threads(void **state)
{
    hr_plan *p = range_of(1000);
    hr_error err = HR_ERROR_INIT;
    hr_split *s = split_of(p, NULL);
    rank_thread ranks[RANKS];
    char *text = NULL;

    (void)state;
    for (int pass = 0; pass < 2; pass++) {
        int64_t sum = 0;

        run_ranks(s, ranks);
        for (int r = 0; r < RANKS; r++) {
            assert_int_equal(ranks[r].n_steps, 4);
            assert_int_equal(ranks[r].n_rows, 333);
            sum += ranks[r].sum;
        }
        assert_int_equal(sum, 999 * 998 / 2);
    }
    OK(hr_split_stats(s, &text, &err));
    assert_non_null(strstr(text, "\"ranks\":3"));
    assert_non_null(strstr(text, "\"dropped_rows\":1"));
    hr_string_free(text);
    hr_split_close(s);
    hr_split_unref(s);
    hr_plan_unref(p);
}

/* One thread serves all ranks, which it must not wait for. */
static void begin_all(hr_split *s)
{
    hr_error err = HR_ERROR_INIT;
    bool begun[RANKS] = { false };

    for (int n = 0; n < RANKS;)
        for (int r = 0; r < RANKS; r++) {
            hr_status st = begun[r] ? HR_PENDING : hr_split_begin(s, r, 0, &err);

            assert_true(st == HR_OK || st == HR_PENDING);
            begun[r] = begun[r] || !st;
            n += !st;
        }
}

static int64_t first_of_next(hr_split *s, int rank)
{
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    int64_t first;

    OK(hr_split_next(s, rank, -1, &t, &err));
    OK(hr_table_column_view(t, 0, &v, &err));
    first = *(const int64_t *)v.data;
    hr_table_unref(t);
    return first;
}

static void test_split_position(void **state)
{
    hr_plan *p = range_of(1000);
    hr_error err = HR_ERROR_INIT;
    hr_split *s = split_of(p, NULL), *again;
    char *text = NULL;

    (void)state;
    begin_all(s);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(first_of_next(s, r), r * BATCH);
    OK(hr_split_position(s, &text, &err));
    assert_int_equal(first_of_next(s, 0), RANKS * BATCH);
    assert_int_equal(hr_split_restore(s, text, &err), HR_INVALID); /* an epoch is running */
    for (int r = 0; r < RANKS; r++)
        hr_split_leave(s, r);
    OK(hr_split_restore(s, text, &err));
    again = split_of(p, text);
    hr_string_free(text);
    for (int i = 0; i < 2; i++) {
        hr_split *one = i ? s : again;

        begin_all(one);
        for (int r = 0; r < RANKS; r++)
            assert_int_equal(first_of_next(one, r), (RANKS + r) * BATCH);
        hr_split_close(one);
        hr_split_unref(one);
    }
    hr_plan_unref(p);
    hr_error_clear(&err);
}

static void test_split_errors(void **state)
{
    hr_feed_options how = { .struct_bytes = sizeof how };
    hr_plan *p = range_of(1000);
    hr_error err = HR_ERROR_INIT;
    hr_split *s = NULL;
    hr_table *t = NULL;

    (void)state;
    assert_int_equal(hr_split_open(p, 2, HR_TAIL_EQUAL, &how, &s, &err), HR_INVALID);
    assert_non_null(strstr(err.text, "batch_rows is 0"));
    assert_int_equal(hr_split_open(p, 2, HR_TAIL_EQUAL, NULL, &s, &err), HR_INVALID);
    s = split_of(p, NULL);
    assert_int_equal(hr_split_begin(s, 0, 10, &err), HR_PENDING); /* the others did not come */
    assert_int_equal(hr_split_begin(s, RANKS, 0, &err), HR_INVALID);
    begin_all(s);
    hr_split_lost(s, 1, "its disk is full");
    assert_int_equal(hr_split_next(s, 0, -1, &t, &err), HR_PEER);
    assert_string_equal(err.text, "rank 1: its disk is full");
    hr_split_close(s);
    assert_int_equal(hr_split_next(hr_split_ref(s), 0, -1, &t, &err), HR_CANCELLED);
    hr_split_unref(s);
    hr_split_unref(s);
    hr_split_unref(NULL);
    hr_split_close(NULL);
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* ------------------------------------------------------------------------------------------------ text, as C has it */

/* Rows 0 .. 9 with `name` = the expression of this text. */
static hr_table *table_of(const char *name, const char *expression)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range_of(10), *made = NULL;
    hr_expr *e = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    OK(hr_expr_parse(expression, &e, &err));
    OK(hr_plan_with_columns(p, &name, &e, 1, &made, &err));
    OK(hr_feed_open(made, NULL, &f, &err));
    OK(hr_feed_next(f, &t, &err));
    hr_feed_close(f);
    hr_expr_unref(e);
    hr_plan_unref(made);
    hr_plan_unref(p);
    return t;
}

static void test_text_columns(void **state)
{
    hr_table *whole = table_of("text", "if_else(id == 4, null, str_repeat(cast(id, to='string'), n=3))"), *t = NULL;
    hr_text_view v = { .struct_bytes = sizeof v };
    hr_error err = HR_ERROR_INIT;
    int64_t n;

    (void)state;
    OK(hr_table_slice(whole, 2, 5, &t, &err));
    OK(hr_table_text_view(t, 1, &v, &err));
    assert_int_equal(v.n_rows, 5);
    assert_int_equal(v.null_count, 1);
    assert_true(v.is_text && v.offset_bytes == 4);
    for (int64_t i = 0; i < 5; i++) {
        const char *text = hr_text_at(&v, i, &n), want[3] = { (char)('2' + i), (char)('2' + i), (char)('2' + i) };

        if (i == 2) {
            assert_null(text);
            continue;
        }
        assert_int_equal(n, 3);
        assert_memory_equal(text, want, 3);
        assert_ptr_equal(text, v.data + ((const int32_t *)v.offsets)[i]);
    }
    assert_null(hr_text_at(&v, 5, &n));
    assert_null(hr_text_at(&v, -1, &n));
    assert_int_equal(hr_table_text_view(t, 0, &v, &err), HR_TYPE);
    assert_string_equal(err.text, "column 'id' is int64, neither text nor binary");
    assert_int_equal(hr_table_text_view(t, 2, &v, &err), HR_INVALID);
    hr_table_unref(t);
    hr_table_unref(whole);
    hr_error_clear(&err);
}

static void test_rows_as_text(void **state)
{
    hr_table *t = table_of("x", "if_else(id == 1, null, id / 2)");
    hr_error err = HR_ERROR_INIT;
    char *text = NULL, cell[8];

    (void)state;
    OK(hr_table_print_json(t, 0, 3, &text, &err));
    assert_string_equal(text, "{\"id\":0,\"x\":0.0}\n{\"id\":1,\"x\":null}\n{\"id\":2,\"x\":1.0}\n");
    hr_string_free(text);
    OK(hr_table_print_json(t, 10, 0, &text, &err));
    assert_string_equal(text, "");
    hr_string_free(text);
    assert_int_equal(hr_table_print_json(t, 8, 3, &text, &err), HR_INVALID);
    assert_int_equal(hr_table_print_value(t, 7, 1, cell, sizeof cell), 3);
    assert_string_equal(cell, "3.5");
    assert_int_equal(hr_table_print_value(t, 10, 1, cell, sizeof cell), 0);
    hr_table_unref(t);
    hr_error_clear(&err);
}

/* ----------------------------------------------------------------------------------------------------- expressions */

/* The text, and what hr_expr_print makes of it; NULL: the same text. */
static const struct {
    const char *text, *printed;
} parsed[] = {
    { "a > 1 and not is_null(b)", "(col('a') > 1) & ~is_null(col('b'))" },
    { "a > 1 & b < 2 | c", "((col('a') > 1) & (col('b') < 2)) | col('c')" },
    { "a + b * 2 - -c", "(col('a') + (col('b') * 2)) - -col('c')" },
    { "(a + b) * -2", "(col('a') + col('b')) * -2" },
    { "a // 2 / 3 % 4", "((col('a') // 2) / 3) % 4" },
    { "~a == b", "~col('a') == col('b')" },
    { "not a == b", "~(col('a') == col('b'))" },
    { "col('a b\\'c') != \"x\\ty\"", "col('a b\\'c') != 'x\\x09y'" },
    { "cast(x, to='int32', safe=false)", "cast(col('x'), to=int32, safe=false)" },
    { "is_in(k, [1, -2,3])", "is_in(col('k'), [1, -2, 3])" },
    { "is_in(k, [1, 2.5])", "is_in(col('k'), [1.0, 2.5])" },
    { "coalesce(a, b, 1.5e3, true, false, null)", "coalesce(col('a'), col('b'), 1500.0, true, false, null)" },
    { "k in [1, 2] and not s in ('a',)", "is_in(col('k'), [1, 2]) & ~is_in(col('s'), [\"a\"])" },
    { "k not in (1, 2)", "not_in(col('k'), [1, 2])" },
    { "a is null or b is not None", "is_null(col('a')) | is_not_null(col('b'))" },
    { "not (a + 1 is null)", "~is_null(col('a') + 1)" },
    { "coalesce(True, False, None)", "coalesce(true, false, null)" },
    { "inner in [1]", "is_in(col('inner'), [1])" },
    { "  gr\u00f6\u00dfe<=9223372036854775807 ", "col('gr\u00f6\u00dfe') <= 9223372036854775807" },
};

static const struct {
    const char *text, *wanted;
    hr_status st;
} refused[] = {
    { "", "character 1, at '': expected a value, a column or a function", HR_INVALID },
    { "a +", "character 4, at '': expected a value", HR_INVALID },
    { "a b", "character 3, at 'b': expected an operator or the end", HR_INVALID },
    { "a = 1", "character 3, at '= 1': expected '==' instead of '='", HR_INVALID },
    { "a > 1 && b", "expected 'and' instead of '&&'", HR_INVALID },
    { "a > 1 || b", "expected 'or' instead of '||'", HR_INVALID },
    { "a <> 1", "'!=' instead of '<>'", HR_INVALID },
    { "a.is_null()", "a function, as is_null(x) or struct_field(x, name='a'), instead of a method or field",
      HR_INVALID },
    { "a is 1", "expected null after 'is'", HR_INVALID },
    { "a in 1", "expected a list, as [1, 2]", HR_INVALID },
    { "a in (1 2)", "expected ',' or ')'", HR_INVALID },
    { "a not 1", "character 3, at 'not 1': expected an operator or the end", HR_INVALID },
    { "(a", "character 3, at '': expected ')'", HR_INVALID },
    { "a < b < c", "character 7, at '< c': expected an operator or the end", HR_INVALID },
    { "'abc", "expected the end of the text, a quote", HR_INVALID },
    { "'\\q'", "at 'q'': expected", HR_INVALID },
    { "12x", "character 1, at '12x': expected a number", HR_INVALID },
    { "9223372036854775808", "expected an integer of 64 bits", HR_INVALID },
    { "[1, 'a']", "expected a list of numbers or a list of texts", HR_INVALID },
    { "[1 2]", "expected ',' or ']'", HR_INVALID },
    { "nosuch(a)", "no function 'nosuch'", HR_NOT_FOUND },
    { "is_null(a, b, c)", "is_null: 3 arguments", HR_INVALID },
    { "cast(a, into='x')", "cast", HR_INVALID },
};

static void test_parse(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_expr *e = NULL;
    char *text = NULL, deep[2001];

    (void)state;
    for (size_t i = 0; i < sizeof parsed / sizeof *parsed; i++) {
        for (int again = 0; again < 2; again++) { /* what is printed is read as the same */
            OK(hr_expr_parse(again ? parsed[i].printed : parsed[i].text, &e, &err));
            OK(hr_expr_print(e, &text, &err));
            assert_string_equal(text, parsed[i].printed);
            hr_string_free(text);
            hr_expr_unref(e);
        }
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        assert_int_equal(hr_expr_parse(refused[i].text, &e, &err), refused[i].st);
        if (!strstr(err.text, refused[i].wanted))
            fail_msg("%s: %s", refused[i].text, err.text);
        assert_null(e);
    }
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    assert_int_equal(hr_expr_parse(deep, &e, &err), HR_INVALID);
    assert_non_null(strstr(err.text, "deep"));
    hr_error_clear(&err);
}

/* --------------------------------------------------------------------------------------------------- what there is */

static void test_catalog(void **state)
{
    hr_format_info format = { .struct_bytes = sizeof format };
    hr_function_info function = { .struct_bytes = sizeof function };
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    int n = 0, n_functions = 0, n_aggregates = 0;

    (void)state;
    for (; !hr_format_at(n, &format, &err); n++) {
        assert_true(*format.name && *format.doc);
        OK(hr_format_options(format.name, HR_READ, &text, &err));
        hr_string_free(text);
        assert_int_equal(hr_format_options(format.name, HR_WRITE, &text, &err) == HR_OK, format.can_write);
        if (format.can_write)
            hr_string_free(text);
    }
    assert_true(n >= 8);
    assert_int_equal(err.status, HR_NOT_FOUND);
    assert_int_equal(hr_format_at(-1, &format, &err), HR_NOT_FOUND);
    assert_string_equal(hr_format_of_path("x/y.csv.gz"), "csv");
    assert_null(hr_format_of_path("x/y.nosuch"));
    OK(hr_format_options("csv", HR_READ, &text, &err));
    assert_non_null(strstr(text, "delimiter="));
    hr_string_free(text);
    assert_int_equal(hr_format_options("nosuch", HR_READ, &text, &err), HR_NOT_FOUND);
    for (n = 0; !hr_function_at(n, &function, &err); n++)
        *(function.is_aggregate ? &n_aggregates : &n_functions) += 1;
    assert_true(n_functions > 80 && n_aggregates > 10);
    OK(hr_function_options("cast", &text, &err));
    assert_non_null(strstr(text, "to="));
    hr_string_free(text);
    assert_int_equal(hr_function_options("nosuch", &text, &err), HR_NOT_FOUND);
    hr_error_clear(&err);
}

static void test_files(void **state)
{
    char folder[] = "/tmp/headrace-public-XXXXXX", path[64];
    const char *url = path;
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = range_of(10), *q = NULL;
    char *text = NULL;
    FILE *file;
    int n = -1;

    (void)state;
    OK(hr_plan_files(p, &n, &err));
    assert_int_equal(n, 0);
    assert_int_equal(hr_plan_describe_file(p, 0, &text, &err), HR_INVALID);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.csv", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("a,b\n1,x\n2,y\n", file);
    fclose(file);
    OK(hr_plan_read(&url, 1, NULL, NULL, &q, &err));
    assert_false(hr_plan_is_beginning(q));
    assert_false(hr_plan_is_beginning(NULL));
    OK(hr_plan_files(q, &n, &err));
    assert_int_equal(n, 1);
    OK(hr_plan_describe_file(q, 0, &text, &err));
    assert_non_null(strstr(text, "a.csv: 1 fragment\n"));
    assert_non_null(strstr(text, "fragment 0: 12 bytes stored"));
    hr_string_free(text);
    OK(hr_plan_describe_file_json(q, 0, &text, &err));
    assert_non_null(strstr(text, "a.csv\", \"rows\": null, \"fragments\": [{\"rows\": null, \"stored_bytes\": 12"));
    hr_string_free(text);
    assert_int_equal(hr_plan_describe_file_json(q, 1, &text, &err), HR_INVALID);
    OK(hr_plan_file_advice(q, &text, &err));
    assert_string_equal(text, ""); /* too little data for any finding */
    hr_string_free(text);
    OK(hr_plan_print_schema(q, &text, &err));
    assert_string_equal(text, "a: int64\nb: string\n");
    hr_string_free(text);
    hr_plan_unref(q);
    hr_plan_unref(p);
    remove(path);
    rmdir(folder);
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_arguments),
        cmocka_unit_test(test_cancel_from_another_thread),
        cmocka_unit_test(test_wait_with_limit_and_descriptor),
        cmocka_unit_test(test_progress),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_autotune_of_environment),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_split_of_threads),
        cmocka_unit_test(test_split_position),
        cmocka_unit_test(test_split_errors),
        cmocka_unit_test(test_text_columns),
        cmocka_unit_test(test_rows_as_text),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_catalog),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
