/* test_feed.c - exact batches, positions, the Arrow stream. */
#include "harness.h"

#include "feed/feed.h"
#include "op/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* --- plans: column "x" of int64 */

/* Tables of these sizes, values 0, 1, ... throughout. */
static void make_tables(const int64_t *sizes, int n, hr_table **tables)
{
    hr_error err = HR_ERROR_INIT;
    hr_field field;
    hr_schema *schema = NULL;
    int64_t next = 0;

    assert_ok(hr__field_init(&field, "x", hr__type_simple(HR_T_INT64), true, &err), &err);
    assert_ok(hr__schema_new(&field, 1, &schema, &err), &err);
    for (int i = 0; i < n; i++) {
        hr_mem mem = { NULL, NULL };
        hr_builder *b = NULL;
        hr_array *a = NULL;

        assert_ok(hr__builder_new(&mem, field.type, &b, &err), &err);
        for (int64_t k = 0; k < sizes[i]; k++)
            assert_ok(hr__builder_int(b, next++, &err), &err);
        assert_ok(hr__builder_finish(b, &a, &err), &err);
        hr__builder_free(b);
        assert_ok(hr__table_new(schema, &a, sizes[i], NULL, &tables[i], &err), &err);
    }
    hr__schema_unref(schema);
    hr__field_clear(&field);
}

static hr_plan *plan_of_tables(const int64_t *sizes, int n)
{
    hr_table *tables[64] = { NULL };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    make_tables(sizes, n, tables);
    assert_ok(hr_plan_tables(tables, n, &p, &err), &err);
    for (int i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    return p;
}

static hr_plan *plan_of_range(int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "x", &p, &err), &err);
    return p;
}

static hr_status keep_some(void *context, const hr_table *in, uint8_t *keep, hr_error *err)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    (void)context;
    HR_TRY(hr_table_column_view(in, 0, &v, err));
    for (int64_t i = 0; i < v.n_rows; i++)
        keep[i] = ((const int64_t *)v.data)[i] % 3 != 1;
    return HR_OK;
}

/* Ragged tables, a filter, twice in a union, a limit: stream operators before and behind. */
static hr_plan *plan_of_many(void)
{
    static const int64_t sizes[] = { 5, 1, 7, 100, 3, 64, 31 };
    const hr_filter_function keep = { .struct_bytes = sizeof keep, .name = "keep_some", .call = keep_some };
    hr_error err = HR_ERROR_INIT;
    hr_plan *a = plan_of_tables(sizes, HR_LEN(sizes)), *b = NULL, *both[2], *u = NULL, *p = NULL;

    assert_ok(hr_plan_filter_function(a, &keep, &b, &err), &err);
    both[0] = b;
    both[1] = a;
    assert_ok(hr_plan_union(both, 2, &u, &err), &err);
    assert_ok(hr_plan_limit(u, 300, &p, &err), &err);
    hr_plan_unref(a);
    hr_plan_unref(b);
    hr_plan_unref(u);
    return p;
}

/* --- reading */

typedef struct rows {
    int64_t v[4096];
    int64_t n;
} rows;

static void rows_add(rows *r, const hr_table *t)
{
    hr_column_view v = { .struct_bytes = sizeof v };
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
    assert_true(r->n + v.n_rows <= HR_LEN(r->v));
    if (v.n_rows)
        memcpy(r->v + r->n, v.data, (size_t)v.n_rows * 8);
    r->n += v.n_rows;
}

static void rows_equal(const rows *a, const rows *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->v, b->v, (size_t)a->n * 8);
}

static hr_feed *open_feed(hr_plan *p, int64_t batch_rows, bool drop_last, const char *position)
{
    hr_feed_options o = { .struct_bytes = sizeof o,
                          .batch_rows = batch_rows,
                          .drop_last = drop_last,
                          .seed = 7,
                          .epoch = 3,
                          .position = position };
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL;

    assert_ok(hr_feed_open(p, &o, &f, &err), &err);
    return f;
}

/* At most n_tables tables into r; returns how many came. */
static int take(hr_feed *f, int n_tables, rows *r)
{
    hr_error err = HR_ERROR_INIT;
    int n = 0;

    for (; n < n_tables; n++) {
        hr_table *t = NULL;

        assert_ok(hr_feed_next(f, &t, &err), &err);
        if (!t)
            break;
        rows_add(r, t);
        hr_table_unref(t);
    }
    return n;
}

/* --- tests */

static void exact_batches(void **state)
{
    static const int64_t sizes[] = { 5, 1, 7, 100, 3 };
    static const struct {
        int64_t batch;
        bool drop;
        int n_tables;
        int64_t n_rows;
    } cases[] = {
        { 10, false, 12, 116 }, { 10, true, 11, 110 },   { 1, false, 116, 116 }, { 116, true, 1, 116 },
        { 117, true, 0, 0 },    { 1000, false, 1, 116 }, { 58, false, 2, 116 },
    };
    live_memory before = live_now();
    hr_plan *p = plan_of_tables(sizes, HR_LEN(sizes));

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_feed *f = open_feed(p, cases[i].batch, cases[i].drop, NULL);
        hr_error err = HR_ERROR_INIT;
        int64_t next = 0;
        int n = 0;

        for (;; n++) {
            hr_table *t = NULL;
            rows r = { .n = 0 };

            assert_ok(hr_feed_next(f, &t, &err), &err);
            if (!t)
                break;
            rows_add(&r, t);
            assert_true(r.n == cases[i].batch || next + r.n == cases[i].n_rows);
            for (int64_t k = 0; k < r.n; k++)
                assert_int_equal(r.v[k], next++);
            hr_table_unref(t);
        }
        assert_int_equal(n, cases[i].n_tables);
        assert_int_equal(next, cases[i].n_rows);
        hr_feed_close(f);
    }
    hr_plan_unref(p);
    assert_no_leak(before);
}

static void own_memory(void **state)
{
    static const int64_t sizes[] = { 64, 64 };
    const hr_feed_extra extra = { .own_memory = true };
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 64 };
    hr_plan *p = plan_of_tables(sizes, 2);
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL;
    hr_table *t = NULL;

    (void)state;
    assert_ok(hr__feed_open(p, &o, &extra, &f, &err), &err);
    assert_ok(hr_feed_next(f, &t, &err), &err);
    assert_true(t->sole);
    assert_true(hr__buffer_sole(t->columns[0]->buffers[1]));
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
}

/* From any batch on, the rest is what it would have been; also after going on twice. */
static void positions(void **state)
{
    static const int64_t batches[] = { 0, 1, 7, 64, 1000 };
    live_memory before = live_now();

    (void)state;
    for (int plan = 0; plan < 2; plan++)
        for (int b = 0; b < HR_LEN(batches); b++) {
            hr_plan *p = plan ? plan_of_many() : plan_of_range(211);
            hr_feed *f = open_feed(p, batches[b], false, NULL);
            rows all = { .n = 0 };
            int n = take(f, INT32_MAX, &all), step = n > 60 ? 7 : 1;

            hr_feed_close(f);
            for (int k = 0; k <= n + 1; k += step) {
                hr_error err = HR_ERROR_INIT;
                char *at = NULL, *again = NULL;
                rows r = { .n = 0 };

                f = open_feed(p, batches[b], false, NULL);
                take(f, k, &r);
                assert_ok(hr_feed_position(f, &at, &err), &err);
                assert_true(strlen(at) <= 4096);
                hr_feed_close(f);
                f = open_feed(p, batches[b], false, at);
                take(f, 2, &r);
                assert_ok(hr_feed_position(f, &again, &err), &err);
                hr_feed_close(f);
                f = open_feed(p, batches[b], false, again);
                take(f, INT32_MAX, &r);
                hr_feed_close(f);
                rows_equal(&r, &all);
                hr_string_free(at);
                hr_string_free(again);
            }
            hr_plan_unref(p);
        }
    assert_no_leak(before);
}

static void position_of_the_end(void **state)
{
    hr_plan *p = plan_of_range(10);
    hr_feed *f = open_feed(p, 4, false, NULL);
    hr_error err = HR_ERROR_INIT;
    rows r = { .n = 0 };
    char *at = NULL, *again = NULL;

    (void)state;
    assert_int_equal(take(f, 10, &r), 3);
    assert_ok(hr_feed_position(f, &at, &err), &err);
    hr_feed_close(f);
    f = open_feed(p, 4, false, at);
    assert_int_equal(take(f, 10, &r), 0);
    assert_ok(hr_feed_position(f, &again, &err), &err);
    assert_string_equal(at, again);
    hr_feed_close(f);
    hr_string_free(at);
    hr_string_free(again);
    hr_plan_unref(p);
}

static void positions_that_do_not_fit(void **state)
{
    hr_plan *p = plan_of_range(100), *q = plan_of_range(101);
    hr_feed *f = open_feed(p, 4, false, NULL);
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 5 };
    hr_error err = HR_ERROR_INIT;
    char *at = NULL;
    rows r = { .n = 0 };

    (void)state;
    take(f, 3, &r);
    assert_ok(hr_feed_position(f, &at, &err), &err);
    hr_feed_close(f);
    f = NULL;
    o.position = at;
    assert_status(hr_feed_open(p, &o, &f, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "batches of 4 rows, this feed makes 5");
    o.batch_rows = 4;
    assert_status(hr_feed_open(q, &o, &f, &err), HR_MISMATCH, &err);
    assert_contains(
        err.text, "position was saved by another plan: its steps, their order or their arguments differ, as explain()");
    o.position = "{\"epoch\":";
    assert_status(hr_feed_open(p, &o, &f, &err), HR_INVALID, &err);
    assert_null(f);
    hr_error_clear(&err);
    hr_string_free(at);
    hr_plan_unref(p);
    hr_plan_unref(q);
}

/* Positions of earlier rows, which a split needs. */
static void positions_kept(void **state)
{
    const hr_feed_extra extra = { .keep_positions = true };
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 7 };
    hr_plan *p = plan_of_many();
    hr_error err = HR_ERROR_INIT;
    hr_feed *f = NULL, *g;
    rows all = { .n = 0 };

    (void)state;
    assert_ok(hr__feed_open(p, &o, &extra, &f, &err), &err);
    take(f, 20, &all);
    for (int64_t row = 0; row <= 140; row += 35) {
        rows r = { .n = 0 };
        char *at = NULL;

        hr__feed_forget(f, row);
        assert_ok(hr__feed_position_at(f, row, true, &at, &err), &err);
        g = open_feed(p, 7, false, at);
        take(g, (int)(20 - row / 7), &r);
        assert_int_equal(r.n, 140 - row);
        assert_memory_equal(r.v, all.v + row, (size_t)r.n * 8);
        hr_feed_close(g);
        hr_string_free(at);
    }
    hr_feed_close(f);
    hr_plan_unref(p);
}

static hr_status slow(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    atomic_bool *done = context;

    (void)state;
    (void)err;
    while (!atomic_load(done)) {
        hr_mutex m;
        hr_cond c;

        hr__mutex_init(&m);
        hr__cond_init(&c);
        hr__lock(&m);
        hr__cond_wait_ns(&c, &m, 5000000);
        hr__unlock(&m);
        hr__cond_clear(&c);
        hr__mutex_clear(&m);
    }
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static bool interrupted(void *context)
{
    atomic_store((atomic_bool *)context, true); /* so that closing need not wait */
    return true;
}

static void interrupt(void **state)
{
    atomic_bool done = false;
    const hr_map_function fn = { .struct_bytes = sizeof fn, .name = "slow", .context = &done, .call = slow };
    hr_plan *p = plan_of_range(10), *q = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f;
    int64_t begin;

    (void)state;
    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    f = open_feed(q, 5, false, NULL);
    hr_feed_set_interrupt(f, interrupted, &done);
    begin = hr__clock_ns();
    assert_status(hr_feed_next(f, &t, &err), HR_CANCELLED, &err);
    assert_true(hr__clock_ns() - begin < 20000000000); /* without it this would never end */
    hr_error_clear(&err);
    hr_feed_close(f);
    hr_plan_unref(p);
    hr_plan_unref(q);
}

static void statistics(void **state)
{
    hr_plan *p = plan_of_range(100);
    hr_feed *f = open_feed(p, 10, false, NULL);
    hr_error err = HR_ERROR_INIT;
    rows r = { .n = 0 };
    char *text = NULL;

    (void)state;
    take(f, 3, &r);
    assert_ok(hr_feed_stats(f, &text, &err), &err);
    assert_contains(text, "{\"epoch\":3,\"taken_rows\":30,\"taken_tables\":3,\"consumer_wait_ns\":");
    assert_contains(text, "\"operators\":[");
    hr_string_free(text);
    hr_feed_close(f);
    hr_plan_unref(p);
}

static void arrow_stream(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int early = 0; early < 2; early++) {
        hr_plan *p = plan_of_many();
        hr_feed *f = open_feed(p, 64, false, NULL);
        struct ArrowArrayStream s;
        struct ArrowSchema schema;
        struct ArrowArray a;
        hr_error err = HR_ERROR_INIT;
        int64_t n = 0;

        assert_ok(hr_feed_export(f, &s, &err), &err);
        assert_int_equal(s.get_schema(&s, &schema), 0);
        assert_string_equal(schema.children[0]->name, "x");
        schema.release(&schema);
        while (!early || n == 0) {
            assert_int_equal(s.get_next(&s, &a), 0);
            if (!a.release)
                break;
            n += a.length;
            a.release(&a);
        }
        assert_int_equal(n, early ? 64 : 300);
        s.release(&s);
        assert_null(s.release);
        hr_plan_unref(p);
    }
    assert_no_leak(before);
}

static void wrong_options(void **state)
{
    static const struct {
        hr_feed_options o;
        const char *want;
    } cases[] = {
        { { .batch_rows = 1 }, "struct_bytes" },
        { { .struct_bytes = sizeof(hr_feed_options), .batch_rows = -1 }, "batch_rows is -1" },
        { { .struct_bytes = sizeof(hr_feed_options), .epoch = -1 }, "epoch -1" },
        { { .struct_bytes = sizeof(hr_feed_options), .reserved_cpus = -1 }, "reserved_cpus is -1" },
        { { .struct_bytes = sizeof(hr_feed_options), .first_threads = -2 }, "first_threads -2" },
    };
    hr_plan *p = plan_of_range(10);

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_feed *f = NULL;

        assert_status(hr_feed_open(p, &cases[i].o, &f, &err), HR_INVALID, &err);
        assert_contains(err.text, cases[i].want);
        assert_null(f);
    }
    hr_plan_unref(p);
}

/* Rows that were lost for want of memory are not passed over: the feed gives no others, its position is before them. */
static void no_memory_loses_no_rows(void **state)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 10, .prefetch = 200 };
    const hr_feed_extra extra = { .keep_positions = true };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p;
    int64_t sizes[40];
    int n_failed = 0;

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++)
        sizes[i] = 10;
    p = plan_of_tables(sizes, HR_LEN(sizes));
    for (int call = 0; call < 40; call++) {
        int64_t next_row = 0;
        hr_column_view v = { .struct_bytes = sizeof v };
        char *at = NULL;
        hr_feed *f = NULL;
        hr_table *t = NULL;

        assert_ok(hr__feed_open(p, &o, &extra, &f, &err), &err);
        usleep(20000); /* the pool is through, all lies in the queue */
        for (int i = 0;; i++) {
            hr_status st;
            bool hit;

            if (i == call)
                hr__fault_arm(HR_FAULT_MEMORY, 0);
            st = hr_feed_next(f, &t, &err);
            hit = hr__fault_disarm();
            if (st) {
                n_failed++;
                assert_true(hit);
                assert_status(st, HR_NO_MEMORY, &err);
                assert_status(hr_feed_next(f, &t, &err), HR_NO_MEMORY, &err);
                assert_ok(hr_feed_position(f, &at, &err), &err);
                hr_feed_close(f);
                o.position = at;
                assert_ok(hr__feed_open(p, &o, &extra, &f, &err), &err);
                o.position = NULL;
                continue;
            }
            if (!t)
                break;
            assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
            assert_int_equal(((const int64_t *)v.data)[0], next_row);
            next_row += hr_table_rows(t);
            hr_table_unref(t);
        }
        assert_int_equal(next_row, 400);
        hr_string_free(at);
        hr_feed_close(f);
    }
    assert_true(n_failed > 0);
    hr_error_clear(&err);
    hr_plan_unref(p);
}

static hr_status some_batches(hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 7 };
    hr_status st = HR_OK;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    char *at = NULL;

    HR_GO(hr_plan_range(40, "x", &p, err));
    for (int pass = 0; pass < 2; pass++) {
        o.position = at;
        HR_GO(hr_feed_open(p, &o, &f, err));
        for (int i = 0; i < 2; i++) {
            HR_GO(hr_feed_next(f, &t, err));
            hr_table_unref(t);
            t = NULL;
        }
        hr_string_free(at);
        at = NULL;
        HR_GO(hr_feed_position(f, &at, err));
        hr_feed_close(f);
        f = NULL;
    }
done:
    hr_table_unref(t);
    hr_string_free(at);
    hr_feed_close(f);
    hr_plan_unref(p);
    return st;
}

static void faults(void **state)
{
    (void)state;
    /* Pool threads meet the same faults in another order each time, and may be through with theirs when none is asked
     * for. */
    run_with_faults(some_batches, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

/* A position after two batches of 1,000 rows. */
static hr_status position_in(hr_plan *p, char **out, hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 1000 };
    hr_status st = HR_OK;
    hr_table *t = NULL;
    hr_feed *f = NULL;

    HR_GO(hr_feed_open(p, &o, &f, err));
    for (int i = 0; i < 2; i++) {
        HR_GO(hr_feed_next(f, &t, err));
        hr_table_unref(t);
        t = NULL;
    }
    HR_GO(hr_feed_position(f, out, err));
done:
    hr_feed_close(f);
    return st;
}

/* Resumes there and takes at most n batches: as many as there are, if they end before. */
static hr_status resume_in(hr_plan *p, const char *position, int n, int *n_taken, hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 1000, .position = position };
    hr_status st = HR_OK;
    hr_table *t = NULL;
    hr_feed *f = NULL;

    *n_taken = 0;
    HR_GO(hr_feed_open(p, &o, &f, err));
    while (*n_taken < n) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        hr_table_unref(t);
        t = NULL;
        ++*n_taken;
    }
done:
    hr_table_unref(t);
    hr_feed_close(f);
    return st;
}

static hr_table *large_table; /* 150,000 rows */

static hr_status large_table_resumes(hr_error *err)
{
    hr_plan *p = NULL, *again = NULL;
    hr_status st = HR_OK;
    char *at = NULL;
    int n;

    HR_GO(hr_plan_tables(&large_table, 1, &p, err));
    HR_GO(hr_plan_tables(&large_table, 1, &again, err)); /* which has not hashed its rows */
    HR_GO(position_in(p, &at, err));
    HR_GO(resume_in(again, at, 1000, &n, err));
    assert_int_equal(n, 148);
done:
    hr_string_free(at);
    hr_plan_unref(p);
    hr_plan_unref(again);
    return st;
}

/* The feed gives nothing before they are compared; it may be closed before. */
static void large_tables_in_memory(void **state)
{
    static const int64_t sizes[] = { 400000, 0, 300000, 7 }, other_cuts[] = { 1, 400000, 0, 300006 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = plan_of_tables(sizes, 4), *other = plan_of_tables(other_cuts, 4);
    char *at = NULL;
    int n = 0;

    (void)state;
    assert_ok(position_in(p, &at, &err), &err);
    for (int i = 0; i < repeats(30); i++) { /* closed while they are compared */
        hr_plan *again = plan_of_tables(sizes, 4);

        assert_ok(resume_in(again, at, i % 4, &n, &err), &err);
        assert_int_equal(n, i % 4);
        hr_plan_unref(again);
    }
    assert_int_equal(resume_in(other, at, 1000, &n, &err), HR_MISMATCH); /* the plan: fragments count */
    hr_error_clear(&err);
    hr_string_free(at);
    hr_plan_unref(p);
    hr_plan_unref(other);
}

/* No row and no position comes of other values. */
static void other_values_in_memory(void **state)
{
    static const int64_t sizes[] = { 500000 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = plan_of_tables(sizes, 1), *other = plan_of_tables(sizes, 1);
    hr_feed_options o = { .struct_bytes = sizeof o };
    hr_column_view v = { .struct_bytes = sizeof v };
    char *at = NULL, *more = NULL;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    hr_status st;

    (void)state;
    assert_ok(position_in(p, &at, &err), &err);
    assert_ok(hr_feed_open(other, &o, &f, &err), &err);
    assert_ok(hr_feed_next(f, &t, &err), &err);
    assert_ok(hr_table_column_view(t, 0, &v, &err), &err);
    ((int64_t *)(uintptr_t)v.data)[500]++; /* the table's own memory, which a feed without batches gives */
    hr_table_unref(t);
    t = NULL;
    hr_feed_close(f);
    o.batch_rows = 1000;
    o.position = at;
    assert_ok(hr_feed_open(other, &o, &f, &err), &err);
    assert_int_equal(hr_feed_position(f, &more, NULL), HR_MISMATCH);
    while ((st = hr_feed_next_within(f, 0, &t, &err)) == HR_PENDING)
        hr_error_clear(&err);
    assert_int_equal(st, HR_MISMATCH);
    assert_null(t);
    assert_int_equal(hr_feed_position(f, &more, NULL), HR_MISMATCH);
    assert_null(more);
    hr_feed_close(f);
    hr_error_clear(&err);
    assert_int_equal(hr_feed_open(other, &o, &f, &err), HR_MISMATCH); /* its hash is known by now */
    hr_error_clear(&err);
    hr_string_free(at);
    hr_plan_unref(p);
    hr_plan_unref(other);
}

/* A cancelled feed does not wait for the comparison. */
static void cancelled_comparison(void **state)
{
    static const int64_t sizes[] = { 500000 };
    hr_plan *p = plan_of_tables(sizes, 1), *again = plan_of_tables(sizes, 1);
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 1000 };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    char *at = NULL;

    (void)state;
    assert_ok(position_in(p, &at, &err), &err);
    o.position = at;
    assert_ok(hr_feed_open(again, &o, &f, &err), &err);
    hr_feed_cancel(f);
    assert_int_equal(hr_feed_next(f, &t, &err), HR_CANCELLED);
    hr_error_clear(&err);
    hr_feed_close(f);
    hr_string_free(at);
    hr_plan_unref(p);
    hr_plan_unref(again);
}

static void large_faults(void **state)
{
    static const int64_t size = 150000;

    (void)state;
    make_tables(&size, 1, &large_table);
    run_with_faults(large_table_resumes, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    hr_table_unref(large_table);
}

/* A key that stands inside of a string, or in an object below, is not the key: positions come from users' checkpoints.
 * */
static void test_extra_keys(void **state)
{
    static const struct {
        const char *extra;
        int64_t rows; /* -7: there is no such integer */
    } cases[] = {
        { "{\"rows\":5}", 5 },
        { "{ \"a\" : 1 , \"rows\" : -5 }", -5 },
        { "{\"rows\":-9223372036854775808}", INT64_MIN },
        { "{\"rows\":9223372036854775808}", -7 },
        { "{\"note\":\"\\\"rows\\\":3,\",\"rows\":4}", 4 },
        { "{\"note\":\"\\\"rows\\\":3\"}", -7 },
        { "{\"below\":{\"rows\":3},\"list\":[1,{\"rows\":2}],\"rows\":6}", 6 },
        { "{\"below\":{\"rows\":3}}", -7 },
        { "{\"rows\":\"5\"}", -7 },
        { "{\"rows\":", -7 },
        { "{\"a\":{", -7 },
        { "", -7 },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_position p = { 0 };
        int64_t rows = -7;

        strcpy(p.extra, cases[i].extra);
        if (!hr__position_extra(&p, "rows", &rows))
            rows = -7;
        assert_int_equal(rows, cases[i].rows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_extra_keys),
        cmocka_unit_test(exact_batches),
        cmocka_unit_test(own_memory),
        cmocka_unit_test(positions),
        cmocka_unit_test(position_of_the_end),
        cmocka_unit_test(positions_that_do_not_fit),
        cmocka_unit_test(positions_kept),
        cmocka_unit_test(interrupt),
        cmocka_unit_test(statistics),
        cmocka_unit_test(arrow_stream),
        cmocka_unit_test(wrong_options),
        cmocka_unit_test(no_memory_loses_no_rows),
        cmocka_unit_test(faults),
        cmocka_unit_test(large_tables_in_memory),
        cmocka_unit_test(other_values_in_memory),
        cmocka_unit_test(cancelled_comparison),
        cmocka_unit_test(large_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
