/* test_aggregate_own.c - a user's own aggregates in real runs: equal to the built-in ones, in memory and from disk;
 * contexts are freed once. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"

/* A sum of x * y over whole rows, or of squares of one column, and the last value: states must be merged in order. */
typedef struct state {
    int64_t n, sum, last;
} state;

typedef struct context {
    int n_freed;
    hr_status fail_update, fail_merge, fail_result;
    bool silent; /* it fails without a text */
} context;

static void context_free(void *p) { ((context *)p)->n_freed++; }

static hr_status failed(const context *c, hr_status st, hr_error *err)
{
    return !st || c->silent ? st : hr_error_set(err, st, "as it was told");
}

static hr_status update(void *p, const hr_table *rows, const uint32_t *groups, void *states, hr_error *err)
{
    const context *c = p;
    hr_column_view x = { .struct_bytes = sizeof x }, y = { .struct_bytes = sizeof y };

    HR_TRY(hr_table_column_view(rows, 0, &x, err));
    HR_TRY(hr_table_column_view(rows, hr_table_columns(rows) - 1, &y, err));
    for (int64_t i = 0; i < x.n_rows; i++) {
        state *s = (state *)states + groups[i];
        int64_t v = ((const int64_t *)x.data)[i];

        if (s->n++ && s->last >= v)
            return hr_error_set(err, HR_INVALID, "rows in another order");
        s->sum += v * ((const int64_t *)y.data)[i];
        s->last = v;
    }
    return failed(c, c->fail_update, err);
}

static hr_status merge(void *p, const void *from, int64_t n, const uint32_t *groups, void *states, hr_error *err)
{
    const context *c = p;

    for (int64_t i = 0; i < n; i++) {
        const state *f = (const state *)from + i;
        state *s = (state *)states + groups[i];

        if (s->n && s->last >= f->last)
            return hr_error_set(err, HR_INVALID, "states in another order");
        s->n += f->n;
        s->sum += f->sum;
        s->last = f->last;
    }
    return failed(c, c->fail_merge, err);
}

static hr_status result(void *p, const void *states, int64_t n, void *values, uint8_t *valid, hr_error *err)
{
    const context *c = p;
    const state *s = states;

    for (int64_t i = 0; i < n; i++) {
        ((int64_t *)values)[i] = s[i].sum;
        valid[i] = s[i].n > 0 && s[i].last % 3 != 0;
    }
    return failed(c, c->fail_result, err);
}

static hr_aggregate_function own_of(context *c)
{
    return (hr_aggregate_function){ .struct_bytes = sizeof(hr_aggregate_function),
                                    .context = c,
                                    .context_free = context_free,
                                    .state_bytes = sizeof(state),
                                    .result_type = "int64",
                                    .update = update,
                                    .merge = merge,
                                    .result = result };
}

#define SIZED .struct_bytes = sizeof(hr_aggregate)

/* id, key = id % keys; groups of key, with own aggregates of a column and of whole rows, whose last column is the
 * key. */
static hr_status plan_of(int64_t rows, int64_t keys, context *c, hr_plan **out, hr_error *err)
{
    const hr_aggregate_function own = own_of(c);
    const hr_aggregate aggregates[] = { { SIZED, .function = "squares", .column = "id", .own = &own },
                                        { SIZED, .function = "products", .name = "products", .own = &own },
                                        { SIZED, .function = "max", .column = "id" } };
    static const char *const key[] = { "key" };
    hr_plan *range = NULL, *keyed = NULL;
    hr_expr *sides[2] = { NULL }, *rest = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr_plan_range(rows, "id", &range, err));
    HR_GO(hr_expr_column("id", &sides[0], err));
    HR_GO(hr_expr_int(keys, &sides[1], err));
    HR_GO(hr_expr_call("modulo", sides, 2, NULL, 0, &rest, err));
    HR_GO(hr_plan_with_columns(range, key, &rest, 1, &keyed, err));
    st = hr_plan_group(keyed, key, 1, aggregates, HR_LEN(aggregates), out, err);
done:
    for (int i = 0; i < 2; i++)
        hr_expr_unref(sides[i]);
    hr_expr_unref(rest);
    hr_plan_unref(range);
    hr_plan_unref(keyed);
    return st;
}

typedef struct found {
    int64_t rows, squares, products, nulls;
} found;

static void add_found(const hr_table *t, found *f)
{
    for (int64_t i = 0; i < t->n_rows; i++) {
        int64_t key = hr__array_int(t->columns[0], i), last = hr__array_int(t->columns[3], i);
        bool null = hr__array_is_null(t->columns[1], i);

        assert_int_equal(null, last % 3 == 0);
        assert_int_equal(null, hr__array_is_null(t->columns[2], i));
        f->nulls += null;
        if (null)
            continue;
        f->squares += hr__array_int(t->columns[1], i);
        f->products += hr__array_int(t->columns[2], i);
        assert_true(key == f->rows + i); /* in the order of the keys */
    }
    f->rows += t->n_rows;
}

static hr_status run(hr_plan *p, int threads, int64_t memory, found *f, hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .num_threads = threads, .memory_limit = memory };
    hr_feed *feed = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *f = (found){ 0 };
    HR_GO(hr_feed_open(p, &o, &feed, err));
    do {
        HR_GO(hr_feed_next(feed, &t, err));
        if (t)
            add_found(t, f);
        hr_table_unref(t);
    } while (t);
done:
    hr_feed_close(feed);
    return st;
}

#define ROWS 300000

static void same_as_counted(int64_t keys)
{
    static const struct {
        int threads;
        int64_t memory;
    } ways[] = { { 1, 0 }, { 8, 0 }, { 2, 4 << 20 } };
    context c = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    found expected = { .rows = keys };

    for (int64_t id = 0; id < ROWS; id++) {
        int64_t last = id % keys + (ROWS - 1 - id % keys) / keys * keys;

        expected.squares += last % 3 ? id * id : 0;
        expected.products += last % 3 ? id * (id % keys) : 0;
        expected.nulls += id < keys && last % 3 == 0;
    }
    assert_ok(plan_of(ROWS, keys, &c, &p, &err), &err);
    for (int i = 0; i < HR_LEN(ways); i++) {
        found f;

        assert_ok(run(p, ways[i].threads, ways[i].memory, &f, &err), &err);
        assert_memory_equal(&f, &expected, sizeof f);
    }
    assert_int_equal(c.n_freed, 0);
    hr_plan_unref(p);
    assert_int_equal(c.n_freed, 2); /* two aggregates share it here */
}

static void as_counted(void **unused)
{
    (void)unused;
    same_as_counted(7);      /* merged in memory */
    same_as_counted(100000); /* divided among partitions */
}

static void says_whose_error_it_is(void **unused)
{
    static const struct {
        context c;
        hr_status st;
        const char *text;
    } cases[] = {
        { { .fail_update = HR_IO }, HR_IO, "squares: as it was told" },
        { { .fail_merge = HR_INVALID }, HR_INVALID, "squares: as it was told" },
        { { .fail_result = HR_TYPE }, HR_TYPE, "squares: as it was told" },
        { { .fail_update = HR_PENDING, .silent = true }, HR_CALLBACK, "squares: failed without saying why" },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        context c = cases[i].c;
        hr_error err = HR_ERROR_INIT;
        hr_plan *p = NULL;
        found f;

        assert_ok(plan_of(1000, 7, &c, &p, &err), &err);
        assert_int_equal(run(p, 1, 0, &f, &err), cases[i].st);
        assert_contains(err.text, cases[i].text);
        hr_error_clear(&err);
        hr_plan_unref(p);
        assert_int_equal(c.n_freed, 2);
    }
}

static void refuses(void **unused)
{
    context c = { 0 };
    hr_aggregate_function own = own_of(&c), wrong[5] = { own, own, own, own, own };
    static const char *const texts[] = { "update, merge, result", "states of 0 bytes", "states of 65537 bytes",
                                         "fixed width", "type" };
    hr_error err = HR_ERROR_INIT;
    hr_plan *range = NULL, *p = NULL;

    (void)unused;
    wrong[0].merge = NULL;
    wrong[1].state_bytes = 0;
    wrong[2].state_bytes = 65537;
    wrong[3].result_type = "string";
    wrong[4].result_type = "no such";
    assert_ok(hr_plan_range(10, "id", &range, &err), &err);
    for (int i = 0; i < HR_LEN(wrong); i++) {
        const hr_aggregate two[] = { { SIZED, .function = "good", .own = &own },
                                     { SIZED, .function = "mine", .own = &wrong[i] } };

        c.n_freed = 0;
        assert_int_not_equal(hr_plan_group(range, NULL, 0, two, 2, &p, &err), HR_OK);
        assert_contains(err.text, texts[i]);
        hr_error_clear(&err);
        assert_null(p);
        assert_int_equal(c.n_freed, 2);
    }
    hr_plan_unref(range);
}

static void of_no_rows(void **unused)
{
    context c = { 0 };
    const hr_aggregate_function own = own_of(&c);
    const hr_aggregate one = { SIZED, .function = "mine", .column = "id", .own = &own };
    hr_error err = HR_ERROR_INIT;
    hr_plan *range = NULL, *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    char *text = NULL;

    (void)unused;
    assert_ok(hr_plan_range(0, "id", &range, &err), &err);
    assert_ok(hr_plan_group(range, NULL, 0, &one, 1, &p, &err), &err);
    assert_ok(hr_plan_explain(p, &text, &err), &err);
    assert_contains(text, "mine(id)");
    assert_ok(hr_feed_open(p, NULL, &f, &err), &err);
    assert_ok(hr_feed_next(f, &t, &err), &err);
    assert_int_equal(hr_table_rows(t), 1);
    assert_string_equal(hr_table_column_name(t, 0), "mine(id)");
    assert_true(hr__array_is_null(t->columns[0], 0));
    hr_table_unref(t);
    hr_feed_close(f);
    hr_string_free(text);
    hr_plan_unref(range);
    hr_plan_unref(p);
}

static hr_status small(hr_error *err)
{
    context c = { 0 };
    hr_plan *p = NULL;
    found f;
    hr_status st = plan_of(1000, 400, &c, &p, err);

    if (!st)
        st = run(p, 1, 0, &f, err);
    hr_plan_unref(p);
    assert_true(c.n_freed == 2 || (st && c.n_freed == 0)); /* 0: the plan was never made */
    return st;
}

static void loses_nothing(void **unused)
{
    (void)unused;
    assert_true(run_with_faults(small, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
}

static int end_pool(void **unused)
{
    (void)unused;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_counted), cmocka_unit_test(says_whose_error_it_is), cmocka_unit_test(refuses),
        cmocka_unit_test(of_no_rows), cmocka_unit_test(loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, end_pool);
}
