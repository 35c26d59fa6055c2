/* test_public_api.c - the public C API as a program of somebody else sees it.
 *
 * It includes headrace.h and no other header of ours, and where a shared library is built it links that one. So a
 * symbol that headrace.map hides, or a function that needs an hr__ header to be useful, fails here. */
#include <headrace.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    REFUSES("out", hr_plan_slice, p, 0, 1, NULL);
    REFUSES("out", hr_plan_sample, p, &sample, NULL);
    REFUSES("out", hr_plan_zip, &p, 1, NULL);
    REFUSES("ins", hr_plan_zip, NULL, 1, &out);
    REFUSES("out", hr_plan_mix, &p, 1, (const double[]){ 1 }, HR_MIX_SHORTEST, NULL);
    REFUSES("weights", hr_plan_mix, &p, 1, NULL, HR_MIX_SHORTEST, &out);
    REFUSES("out", hr_plan_union, &p, 1, NULL);
    REFUSES("out", hr_plan_rebatch, p, 2, false, NULL);
    REFUSES("out", hr_plan_local_shuffle, p, 10, NULL, NULL);
    REFUSES("out", hr_plan_sort, p, &key, 1, NULL);
    REFUSES("keys", hr_plan_sort, p, NULL, 1, &out);
    REFUSES("out", hr_plan_random_shuffle, p, NULL, NULL);
    REFUSES("out", hr_plan_randomize_block_order, p, NULL, NULL);
    REFUSES("out", hr_plan_repartition, p, 2, NULL, NULL);
    REFUSES("out", hr_plan_map, p, &map, NULL, NULL);
    REFUSES("out", hr_plan_write, p, "csv", "x", NULL, NULL);
    REFUSES("path", hr_plan_write, p, "csv", NULL, NULL, &out);
    REFUSES("out", hr_plan_materialize, p, NULL, NULL);
    hr_expr_unref(e);
}

static void refuse_questions(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    char *text;

    REFUSES("out", hr_plan_schema, p, NULL);
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
    hr_feed *f = NULL;
    hr_table *t;

    OK(hr_feed_open(p, NULL, &f, &err));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_null_arguments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
