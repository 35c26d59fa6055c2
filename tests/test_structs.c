/* test_structs.c - every struct that a call of headrace.h takes may be of an older or a newer caller; its size says so.
 *
 * The story: some calls never read struct_bytes. Zero meant an error in one, "all of it" in the second, and "nothing of
 * it" in the third: a write that was asked to overwrite ran with the default mode. tests/python/test_header.py checks
 * that the table is complete. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

static char dir[64];
static hr_plan *range;

static int setup(void **unused)
{
    (void)unused;
    temp_dir_new(dir);
    temp_file(dir, "in/a.txt", "x\ny\n", 4);
    return hr_plan_range(100, "id", &range, NULL) != HR_OK;
}

static int teardown(void **unused)
{
    (void)unused;
    hr_plan_unref(range);
    temp_dir_free(dir);
    return 0;
}

static const char *in_dir(const char *name)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

/* --- callbacks, and what they were asked for */

static int n_freed;
static void count_free(void *context) { n_freed += context == &n_freed; }

static hr_status pass(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context, (void)state, (void)err;
    *out = hr_table_ref((hr_table *)(uintptr_t)in);
    return HR_OK;
}

static hr_status keep(void *context, const hr_table *in, uint8_t *keep, hr_error *err)
{
    (void)context, (void)err;
    memset(keep, 1, (size_t)hr_table_rows(in));
    return HR_OK;
}

static hr_status add_rows(void *context, const hr_table *rows, const uint32_t *groups, void *states, hr_error *err)
{
    (void)context, (void)rows, (void)groups, (void)states, (void)err;
    return HR_OK;
}

static hr_status add_states(void *context, const void *from, int64_t n, const uint32_t *groups, void *states,
                            hr_error *err)
{
    (void)context, (void)from, (void)n, (void)groups, (void)states, (void)err;
    return HR_OK;
}

static hr_status results(void *context, const void *states, int64_t n, void *values, uint8_t *valid, hr_error *err)
{
    (void)context, (void)states, (void)valid, (void)err;
    memset(values, 0, (size_t)n * 8);
    return HR_OK;
}

static hr_status source_schema(void *context, struct ArrowSchema *out, hr_error *err)
{
    (void)context;
    return hr_plan_schema(range, out, err);
}

static hr_status source_read(void *context, int fragment, const char *const *columns, int n_columns,
                             struct ArrowArrayStream *out, hr_error *err)
{
    hr_feed *f = NULL;

    (void)context, (void)fragment, (void)columns, (void)n_columns;
    HR_TRY(hr_feed_open(range, NULL, &f, err));
    return hr_feed_export(f, out, err);
}

/* --- the calls. Each gets a struct of some size at `p`, or NULL. */

static hr_status done(hr_status st, hr_plan *made)
{
    assert_int_equal(made != NULL, st == HR_OK);
    hr_plan_unref(made);
    return st;
}

static hr_status call_read(const void *p, hr_error *err)
{
    const char *url = in_dir("in");
    hr_plan *made = NULL;
    hr_status st = hr_plan_read(&url, 1, "text", p, &made, err);

    return done(st, made);
}

#define CALL(name, call)                                                                                               \
    static hr_status name(const void *p, hr_error *err)                                                                \
    {                                                                                                                  \
        hr_plan *made = NULL;                                                                                          \
        hr_status st = call;                                                                                           \
                                                                                                                       \
        return done(st, made);                                                                                         \
    }
static const char *const key[] = { "id" };
static const hr_map_function map_function = { .struct_bytes = sizeof map_function, .call = pass };
CALL(call_source, hr_plan_source(p, &made, err))
CALL(call_join, hr_plan_join(range, range, p, &made, err))
CALL(call_cache, hr_plan_cache(range, in_dir("cache"), p, &made, err))
CALL(call_sample, hr_plan_sample(range, p, &made, err))
CALL(call_shuffle, hr_plan_random_shuffle(range, p, &made, err))
CALL(call_block_order, hr_plan_randomize_block_order(range, p, &made, err))
CALL(call_repartition, hr_plan_repartition(range, 4, p, &made, err))
CALL(call_map_function, hr_plan_map(range, p, NULL, &made, err))
CALL(call_map_options, hr_plan_map(range, &map_function, p, &made, err))
CALL(call_filter, hr_plan_filter_function(range, p, &made, err))
CALL(call_write, hr_plan_write(range, "csv", in_dir("out"), p, &made, err))
CALL(call_materialize, hr_plan_materialize(range, p, &made, err))
CALL(call_lengths, hr_plan_batch_by_length(range, "id", 8, p, &made, err))
CALL(call_sort, hr_plan_sort(range, p, 1, &made, err))
CALL(call_group, hr_plan_group(range, key, 1, p, 1, &made, err))
CALL(call_own,
     hr_plan_group(range, key, 1, &(hr_aggregate){ .struct_bytes = sizeof(hr_aggregate), .function = "mine", .own = p },
                   1, &made, err))

static hr_status call_pack(const void *p, hr_error *err)
{
    hr_plan *unknown = NULL, *made = NULL; /* its columns are known only in a run */
    hr_status st = hr_plan_map(range, &map_function, NULL, &unknown, err);

    if (!st)
        st = hr_plan_pack(unknown, 8, p, &made, err);
    hr_plan_unref(unknown);
    return done(st, made);
}

static hr_status call_feed(const void *p, hr_error *err)
{
    hr_feed *f = NULL;
    hr_status st = hr_feed_open(range, p, &f, err);

    assert_int_equal(f != NULL, st == HR_OK);
    hr_feed_close(f);
    return st;
}

static hr_status call_view(const void *p, hr_error *err)
{
    hr_table *t = NULL;
    hr_feed *f = NULL;
    hr_status st;

    assert_int_equal(hr_feed_open(range, NULL, &f, NULL), HR_OK);
    assert_int_equal(hr_feed_next(f, &t, NULL), HR_OK);
    st = hr_table_column_view(t, 0, (void *)(uintptr_t)p, err);
    hr_table_unref(t);
    hr_feed_close(f);
    return st;
}

static hr_status call_text_view(const void *p, hr_error *err)
{
    hr_plan *in = NULL;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    const char *url = in_dir("in");
    hr_status st;

    assert_int_equal(hr_plan_read(&url, 1, "text", NULL, &in, NULL), HR_OK);
    assert_int_equal(hr_feed_open(in, NULL, &f, NULL), HR_OK);
    assert_int_equal(hr_feed_next(f, &t, NULL), HR_OK);
    st = hr_table_text_view(t, 0, (void *)(uintptr_t)p, err);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(in);
    return st;
}

static hr_status call_progress(const void *p, hr_error *err)
{
    hr_feed *f = NULL;
    hr_status st;

    assert_int_equal(hr_feed_open(range, NULL, &f, NULL), HR_OK);
    st = hr_feed_progress(f, (void *)(uintptr_t)p, err);
    hr_feed_close(f);
    return st;
}

static hr_status call_format(const void *p, hr_error *err) { return hr_format_at(0, (void *)(uintptr_t)p, err); }
static hr_status call_function(const void *p, hr_error *err) { return hr_function_at(0, (void *)(uintptr_t)p, err); }

static hr_status call_split(const void *p, hr_error *err)
{
    hr_split *s = NULL;
    hr_status st = hr_split_open(range, 2, HR_TAIL_EQUAL, p, &s, err);

    assert_int_equal(s != NULL, st == HR_OK);
    hr_split_unref(s);
    return st;
}

/* --- the table. `least`: what the shortest struct holds that means something; all behind it has a default. */

static const hr_read_options read_options = { .struct_bytes = sizeof read_options, .include_paths = "path" };
static const hr_source_functions source = { .struct_bytes = sizeof source,
                                            .context = &n_freed,
                                            .context_free = count_free,
                                            .n_fragments = 1,
                                            .schema = source_schema,
                                            .read = source_read };
static const hr_join_options join = {
    .struct_bytes = sizeof join, .left_keys = key, .n_keys = 1, .left_suffix = "_l", .right_suffix = "_r"
};
static const hr_cache_options cache = { .struct_bytes = sizeof cache, .limit_bytes = 1 << 20 };
static const hr_sample_options sample = { .struct_bytes = sizeof sample, .to = 0.5 };
static const hr_pack_options pack = { .struct_bytes = sizeof pack, .columns = key, .n_columns = 1, .loss_mask = "m" };
static const hr_length_options lengths = { .struct_bytes = sizeof lengths };
static const hr_shuffle_options shuffle = { .struct_bytes = sizeof shuffle, .once = true };
static const hr_repartition_options repartition = { .struct_bytes = sizeof repartition, .keys = key, .n_keys = 1 };
static const hr_map_function map = {
    .struct_bytes = sizeof map, .context = &n_freed, .context_free = count_free, .call = pass
};
static const hr_map_options map_options = { .struct_bytes = sizeof map_options, .batch_rows = 10 };
static const hr_filter_function filter = {
    .struct_bytes = sizeof filter, .context = &n_freed, .context_free = count_free, .call = keep
};
static const hr_write_options write_options = { .struct_bytes = sizeof write_options, .mode = HR_WRITE_OVERWRITE };
static const hr_feed_options feed = { .struct_bytes = sizeof feed, .batch_rows = 7 };
static const hr_sort_key sort = { .struct_bytes = sizeof sort, .column = "id" };
static const hr_aggregate aggregate = { .struct_bytes = sizeof aggregate, .function = "count" };
static const hr_aggregate_function own = { .struct_bytes = sizeof own,
                                           .context = &n_freed,
                                           .context_free = count_free,
                                           .state_bytes = 8,
                                           .result_type = "int64",
                                           .update = add_rows,
                                           .merge = add_states,
                                           .result = results };
static const hr_column_view view = { .struct_bytes = sizeof view };
static const hr_text_view text_view = { .struct_bytes = sizeof text_view };
static const hr_progress progress = { .struct_bytes = sizeof progress };
static const hr_format_info format = { .struct_bytes = sizeof format };
static const hr_function_info function = { .struct_bytes = sizeof function };

#define ROW(type, name, call, from, least, null) { #type, #name, call, &from, sizeof(type), least, null }
#define UPTO(type, field) offsetof(type, field)
static const struct row {
    const char *type, *name;
    hr_status (*call)(const void *p, hr_error *err);
    const void *from;
    size_t n_bytes, least;
    hr_status null;
} rows[] = {
    ROW(hr_read_options, hr_plan_read, call_read, read_options, UPTO(hr_read_options, columns), HR_OK),
    ROW(hr_source_functions, hr_plan_source, call_source, source, UPTO(hr_source_functions, n_rows), HR_INVALID),
    ROW(hr_join_options, hr_plan_join, call_join, join, sizeof join, HR_INVALID),
    ROW(hr_cache_options, hr_plan_cache, call_cache, cache, UPTO(hr_cache_options, limit_bytes), HR_OK),
    ROW(hr_sample_options, hr_plan_sample, call_sample, sample, UPTO(hr_sample_options, seed), HR_INVALID),
    ROW(hr_pack_options, hr_plan_pack, call_pack, pack, UPTO(hr_pack_options, pad), HR_OK),
    ROW(hr_length_options, hr_plan_batch_by_length, call_lengths, lengths, UPTO(hr_length_options, buckets), HR_OK),
    ROW(hr_shuffle_options, hr_plan_random_shuffle, call_shuffle, shuffle, UPTO(hr_shuffle_options, seed), HR_OK),
    ROW(hr_shuffle_options, hr_plan_randomize_block_order, call_block_order, shuffle, UPTO(hr_shuffle_options, seed),
        HR_OK),
    ROW(hr_repartition_options, hr_plan_repartition, call_repartition, repartition, UPTO(hr_repartition_options, keys),
        HR_OK),
    ROW(hr_map_function, hr_plan_map, call_map_function, map, UPTO(hr_map_function, state_free), HR_INVALID),
    ROW(hr_map_options, hr_plan_map, call_map_options, map_options, UPTO(hr_map_options, batch_rows), HR_OK),
    ROW(hr_filter_function, hr_plan_filter_function, call_filter, filter, sizeof filter, HR_INVALID),
    ROW(hr_write_options, hr_plan_write, call_write, write_options, UPTO(hr_write_options, partition_columns), HR_OK),
    ROW(hr_feed_options, hr_feed_open, call_feed, feed, UPTO(hr_feed_options, batch_rows), HR_OK),
    ROW(hr_feed_options, hr_plan_materialize, call_materialize, feed, UPTO(hr_feed_options, batch_rows), HR_OK),
    ROW(hr_sort_key, hr_plan_sort, call_sort, sort, UPTO(hr_sort_key, expr), HR_INVALID),
    ROW(hr_aggregate, hr_plan_group, call_group, aggregate, UPTO(hr_aggregate, column), HR_INVALID),
    ROW(hr_aggregate_function, hr_plan_group, call_own, own, sizeof own, HR_NOT_FOUND /* no function "mine" */),
    ROW(hr_feed_options, hr_split_open, call_split, feed, UPTO(hr_feed_options, drop_last), HR_INVALID),
    ROW(hr_column_view, hr_table_column_view, call_view, view, UPTO(hr_column_view, data), HR_OK),
    ROW(hr_text_view, hr_table_text_view, call_text_view, text_view, UPTO(hr_text_view, offsets), HR_OK),
    ROW(hr_progress, hr_feed_progress, call_progress, progress, UPTO(hr_progress, rows_read), HR_OK),
    ROW(hr_format_info, hr_format_at, call_format, format, UPTO(hr_format_info, suffixes), HR_OK),
    ROW(hr_function_info, hr_function_at, call_function, function, UPTO(hr_function_info, doc), HR_OK),
};

/* A caller's struct of n bytes, that says it has `says`; what lies behind the known fields is `behind`. On the heap,
 * exactly as large, so that ASan sees a read beyond it. */
static hr_status call_with(const struct row *r, size_t n, size_t says, char behind, hr_error *err)
{
    char *p = malloc(n);
    hr_status st;

    assert_non_null(p);
    memset(p, behind, n);
    memcpy(p, r->from, HR_MIN(n, r->n_bytes));
    memcpy(p, &says, sizeof says);
    hr_error_clear(err);
    st = r->call(p, err);
    free(p);
    return st;
}

/* The call writes the struct. */
static bool is_filled(const struct row *r)
{
    return r->call == call_view || r->call == call_text_view || r->call == call_progress || r->call == call_format ||
           r->call == call_function;
}

static void test_sizes(void **unused)
{
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int i = 0; i < HR_LEN(rows); i++) {
        const struct row *r = &rows[i];
        bool fills = is_filled(r);
        live_memory before = live_now();
        int freed = n_freed, owns = r->from == &source || r->from == &map || r->from == &filter || r->from == &own;

        assert_ok(call_with(r, r->n_bytes, r->n_bytes, 0, &err), &err);
        assert_int_equal(n_freed - freed, owns);
        assert_ok(call_with(r, r->n_bytes + 16, r->n_bytes + 16, 0, &err), &err); /* newer, nothing asked for */
        assert_ok(call_with(r, r->least, r->least, 0, &err), &err);               /* older */
        assert_int_equal(n_freed - freed, 3 * owns);
        if (!fills) {
            assert_status(call_with(r, r->n_bytes + 16, r->n_bytes + 16, 1, &err), HR_UNSUPPORTED, &err);
            assert_contains(err.text, r->type);
        }
        assert_status(call_with(r, r->n_bytes, 0, 0, &err), HR_INVALID, &err);
        assert_contains(err.text, r->type);
        assert_contains(err.text, "struct_bytes is 0");
        assert_status(call_with(r, r->n_bytes, r->n_bytes - 1, 0, &err), HR_INVALID, &err);
        assert_contains(err.text, "struct_bytes");
        assert_status(call_with(r, r->n_bytes, (size_t)-8, 0, &err), HR_INVALID, &err);
        assert_int_equal(n_freed - freed, 3 * owns); /* nothing of what was refused was taken */
        hr_error_clear(&err);
        if (!fills)
            assert_status(r->call(NULL, &err), r->null, &err);
        hr_error_clear(&err);
        assert_no_leak(before);
    }
}

/* Structs of one array lie as far apart as the caller's compiler puts them. */
static void test_strides(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    live_memory before = live_now();
    char newer[3 * (sizeof(hr_sort_key) + 8)] = { 0 };
    size_t n = sizeof newer / 3;
    hr_sort_key k = { .struct_bytes = n };
    hr_plan *made = NULL;
    char *text = NULL;

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        k.column = i == 1 ? "no such" : "id";
        memcpy(newer + i * n, &k, sizeof k);
    }
    assert_status(hr_plan_sort(range, (void *)newer, 3, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "no such"); /* it was found where it lies */
    k.column = "id";
    k.descending = true;
    memcpy(newer + n, &k, sizeof k);
    assert_ok(hr_plan_sort(range, (void *)newer, 2, &made, &err), &err);
    assert_ok(hr_plan_explain(made, &text, &err), &err);
    assert_contains(text, "id desc");
    hr_string_free(text);
    hr_plan_unref(made);
    k.struct_bytes = sizeof k;
    memcpy(newer + 2 * n, &k, sizeof k);
    assert_status(hr_plan_sort(range, (void *)newer, 3, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "hr_sort_key 2 of 3");
    hr_error_clear(&err);
    assert_no_leak(before);
}

/* A view of an older caller is written as far as that one knows it, one of a newer caller to its end. */
static void test_views(void **unused)
{
    size_t least = UPTO(hr_column_view, value_bytes);
    char buffer[sizeof(hr_column_view) + 16];
    hr_column_view v = { .struct_bytes = sizeof v };

    (void)unused;
    assert_int_equal(call_view(NULL, NULL), HR_INVALID); /* it was a crash */
    assert_int_equal(call_view(&v, NULL), HR_OK);
    assert_int_equal(v.value_bytes, 8);
    assert_int_equal(v.struct_bytes, sizeof v);
    memset(buffer, 0x55, sizeof buffer);
    memcpy(buffer, &least, sizeof least);
    assert_int_equal(call_view(buffer, NULL), HR_OK);
    assert_memory_equal(buffer + UPTO(hr_column_view, n_rows), &v.n_rows, sizeof v.n_rows);
    for (size_t i = least; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], 0x55);
    memset(buffer, 0x55, sizeof buffer);
    memcpy(buffer, &(size_t){ sizeof buffer }, sizeof(size_t));
    assert_int_equal(call_view(buffer, NULL), HR_OK);
    for (size_t i = sizeof v; i < sizeof buffer; i++)
        assert_int_equal(buffer[i], 0);
}

/* Enumerations of callers are checked as well: a mode that is none wrote as if none was given. */
static void test_enumerations(void **unused)
{
    hr_write_options w = { .struct_bytes = sizeof w, .mode = (hr_write_mode)7 };
    hr_join_options j = { .struct_bytes = sizeof j, .kind = (hr_join_kind)17, .left_keys = key, .n_keys = 1 };
    hr_plan *made = NULL, *two[] = { range, range };
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    assert_status(hr_plan_write(range, "csv", in_dir("out"), &w, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "mode 7");
    w.mode = HR_WRITE_APPEND;
    w.sync = (hr_sync)9;
    assert_status(hr_plan_write(range, "csv", in_dir("out"), &w, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "sync 9");
    assert_status(hr_plan_join(range, range, &j, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "kind 17");
    assert_status(hr_plan_mix(two, 2, (const double[]){ 1, 1 }, (hr_mix_end)5, &made, &err), HR_INVALID, &err);
    assert_contains(err.text, "end 5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_strides),
        cmocka_unit_test(test_views),
        cmocka_unit_test(test_enumerations),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
