/* test_groups.c - whole groups of rows out of tables cut anywhere. */
#include "task_harness.h"
#include "op/call.h"

#include <math.h>
#include <string.h>

#define N_KEYS 3

/* One value of column c (0 double, 1 string, 2 list<int32>, 3 the row) of a row of run `run`. Rows of a run differ in
 * the signs of NaN and of zero, and agree nevertheless. */
static void add_value(hr_builder *b, int c, int run, int64_t row)
{
    double sign = row % 2 ? 1 : -1;

    if (c == 0 && run % 5 == 4)
        assert_ok(hr__builder_null(b, NULL), NULL);
    else if (c == 0)
        assert_ok(hr__builder_double(b, run % 5 == 3 ? sign * NAN : run % 5 ? run % 5 : sign * 0.0, NULL), NULL);
    else if (c == 1)
        assert_ok(hr__builder_bytes(b, "xyz", run / 5 % 4, NULL), NULL);
    else if (c == 3)
        assert_ok(hr__builder_int(b, row, NULL), NULL);
    else {
        for (int k = 0; k < run / 20; k++)
            assert_ok(hr__builder_int(hr__builder_child(b, 0), k, NULL), NULL);
        assert_ok(hr__builder_end(b, NULL), NULL);
    }
}

static hr_table *keyed(const int *runs, int64_t n)
{
    static const char *const names[] = { "a", "b", "c", "row" };
    static const char *const types[] = { "double", "string", "list<item: int32>", "int64" };
    hr_run_coords run = { .n = n };
    hr_field fields[4];
    hr_array *columns[4];
    hr_schema *schema = NULL;
    hr_origin *origin = NULL;
    hr_table *t = NULL;

    for (int c = 0; c < 4; c++) {
        hr_builder *b = NULL;
        hr_type *type = NULL;

        assert_ok(hr__type_parse(types[c], &type, NULL), NULL);
        assert_ok(hr__builder_new(NULL, type, &b, NULL), NULL);
        for (int64_t i = 0; i < n; i++)
            add_value(b, c, runs[i], i);
        assert_ok(hr__builder_finish(b, &columns[c], NULL), NULL);
        hr__builder_free(b);
        fields[c] = (hr_field){ .name = (char *)names[c], .type = columns[c]->type, .nullable = true };
        hr__type_unref(type);
    }
    assert_ok(hr__schema_new(fields, 4, &schema, NULL), NULL);
    assert_ok(hr__origin_new(&run, n > 0, &origin, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, n, origin, &t, NULL), NULL);
    hr__schema_unref(schema);
    hr__origin_unref(origin);
    return t;
}

static const char *const all_keys[N_KEYS] = { "a", "b", "c" };

/* Runs of random lengths up to `longest`, numbered from 0; -> how many. */
static int make_runs(uint64_t *random, int longest, int *runs, int64_t n)
{
    int run = 0;

    for (int64_t i = 0; i < n; run++)
        for (int64_t end = HR_MIN(n, i + 1 + (int64_t)random_below(random, (uint64_t)longest)); i < end; i++)
            runs[i] = run;
    return run;
}

/* Takes what is complete: rows in order, each part one run and all of it, cuts where they should be. */
static void take(hr_groups *g, bool last, int64_t most, const int *runs, int64_t n_rows, int64_t *row, int64_t rows,
                 int64_t n_groups)
{
    hr_error err = HR_ERROR_INIT;
    hr_batch_place *parts = NULL;
    hr_table *t = NULL;
    int64_t n = 0;

    for (;;) {
        int64_t at = 0;

        assert_ok(hr__groups_next(g, last, most, &t, &parts, &n, &err), &err);
        if (!t)
            return;
        for (int64_t i = 0; i < n; i++) {
            assert_true(*row == 0 || runs[*row] != runs[*row - 1]);
            assert_int_equal(parts[i].ordinal, runs[*row]);
            for (int64_t k = 0; k < parts[i].n_rows; k++, at++, ++*row) {
                assert_int_equal(runs[*row], parts[i].ordinal);
                assert_int_equal(hr__array_int(t->columns[3], at), *row);
                assert_int_equal(hr__origin_at(t->origin, at).row, *row);
            }
            if (i + 1 < n) /* it would have ended here */
                assert_true(at < rows && i + 1 < n_groups);
        }
        assert_int_equal(at, t->n_rows);
        assert_true(most || *row == n_rows || at >= rows || n == n_groups);
        assert_true(!most || n <= most);
        hr_table_unref(t);
        hr__free(parts);
    }
}

static void test_any_cut(void **unused)
{
    uint64_t random = 7;
    int runs[300];

    (void)unused;
    for (int round = 0; round < 60; round++) {
        live_memory before = live_now();
        int64_t n = (int64_t)random_below(&random, HR_LEN(runs)), row = 0;
        int64_t rows = 1 + (int64_t)random_below(&random, 40), n_groups = 1 + (int64_t)random_below(&random, 9);
        int64_t most = round % 5 ? 0 : 1 + round % 3;
        hr_groups *g = NULL;
        hr_table *in, *parts[12];
        int n_parts;

        make_runs(&random, round % 3 ? 4 : 60, runs, n);
        in = keyed(runs, n);
        n_parts = cut_randomly(in, &random, parts, HR_LEN(parts));
        assert_ok(hr__groups_new(all_keys, N_KEYS, rows, INT64_MAX, n_groups, NULL, &g, NULL), NULL);
        for (int i = 0; i < n_parts; i++) {
            assert_ok(hr__groups_add(g, parts[i], NULL), NULL);
            if (round % 2)
                take(g, false, most, runs, n, &row, rows, n_groups);
        }
        take(g, true, most, runs, n, &row, rows, n_groups);
        assert_int_equal(row, n);
        hr__groups_free(g);
        unref_all(parts, n_parts);
        hr_table_unref(in);
        assert_no_leak(before);
    }
}

static void test_no_such_column(void **unused)
{
    static const char *const keys[] = { "b", "nowhere" };
    hr_table *in = keyed((const int[]){ 1 }, 1);
    hr_error err = HR_ERROR_INIT;
    hr_groups *g = NULL;

    (void)unused;
    assert_ok(hr__groups_new(keys, 2, 10, 1000, 10, NULL, &g, &err), &err);
    assert_status(hr__groups_add(g, in, &err), HR_INVALID, &err);
    assert_contains(err.text, "groupby: no column 'nowhere'; there are: ");
    hr__groups_free(g);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static hr_status collect(void *context, hr_error *err)
{
    hr_table **tables = context;
    hr_status st = HR_OK;
    hr_groups *g = NULL;
    hr_batch_place *parts = NULL;
    hr_table *t = NULL;
    int64_t n = 0;

    HR_GO(hr__groups_new(all_keys, N_KEYS, 10, 1000, 5, NULL, &g, err));
    for (int i = 0; i < 2; i++)
        HR_GO(hr__groups_add(g, tables[i], err));
    do {
        hr_table_unref(t);
        hr__free(parts);
        parts = NULL;
        t = NULL;
        HR_GO(hr__groups_next(g, true, 3, &t, &parts, &n, err));
    } while (t);
done:
    hr_table_unref(t);
    hr__free(parts);
    hr__groups_free(g);
    return st;
}

static void test_faults(void **unused)
{
    int runs[40];
    uint64_t random = 3;
    hr_table *in, *tables[2];

    (void)unused;
    make_runs(&random, 4, runs, HR_LEN(runs));
    in = keyed(runs, HR_LEN(runs));
    tables[0] = slice(in, 0, 17);
    tables[1] = slice(in, 17, HR_LEN(runs) - 17);
    run_with_faults_on(collect, tables, HR_FAULT_MEMORY);
    unref_all(tables, 2);
    hr_table_unref(in);
}

/* The operator: the same rows, and no group in two tables. */
static void test_whole_groups(void **unused)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    static const char *const nowhere[] = { "nowhere" };
    uint64_t random = 11;
    int runs[9000];
    hr_table *in, *parts[20], *all;
    hr_schema *schema = NULL;
    hr_op *op = NULL;
    rig r = { 0 };
    int n_parts;

    (void)unused;
    make_runs(&random, 6, runs, HR_LEN(runs));
    in = keyed(runs, HR_LEN(runs));
    n_parts = cut_randomly(in, &random, parts, HR_LEN(parts));
    assert_ok(hr__op_whole_groups(all_keys, N_KEYS, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_run(&r, parts, n_parts, &err), &err);
    assert_true(rig_tables(&r) >= 2);
    for (int i = 1; i < rig_tables(&r); i++)
        assert_int_not_equal(runs[hr__array_int(rig_table(&r, i)->columns[3], 0)],
                             runs[hr__array_int(rig_table(&r, i)->columns[3], 0) - 1]);
    all = rig_joined(&r);
    assert_true(tables_equal(all, in));
    hr_table_unref(all);
    rig_close(&r);
    hr__op_unref(op);
    assert_status(hr__op_whole_groups(all_keys, 0, &op, &err), HR_INVALID, &err);
    hr_error_clear(&err);
    assert_ok(hr__op_whole_groups(nowhere, 1, &op, &err), &err);
    assert_status(op->cls->schema(op, in->schema, &schema, &err), HR_INVALID, &err);
    hr__op_unref(op);
    unref_all(parts, n_parts);
    hr_table_unref(in);
    hr_error_clear(&err);
    assert_no_leak(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_no_such_column),
        cmocka_unit_test(test_whole_groups),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
