/* test_compute.c - filters and columns by expressions, as operators: coordinates, places of columns, errors, faults. */
#include "task_harness.h"

/* x % 10 < 3, or with `column` x * 2 */
static hr_expr *expression(bool column)
{
    hr_expr *e[5] = { 0 };

    assert_ok(hr_expr_column("x", &e[0], NULL), NULL);
    assert_ok(hr_expr_int(column ? 2 : 10, &e[1], NULL), NULL);
    assert_ok(hr_expr_call(column ? "multiply" : "modulo", e, 2, NULL, 0, &e[2], NULL), NULL);
    if (!column) {
        assert_ok(hr_expr_int(3, &e[3], NULL), NULL);
        assert_ok(hr_expr_call("less", &e[2], 2, NULL, 0, &e[4], NULL), NULL);
    } else {
        e[4] = hr_expr_ref(e[2]);
    }
    for (int i = 0; i < 4; i++)
        hr_expr_unref(e[i]);
    return e[4];
}

static hr_status run_op(bool columns, const char *name, hr_table **tables, int n, rig *r, hr_op **op, hr_error *err)
{
    hr_expr *e = expression(columns);
    hr_status st = columns ? hr__op_with_columns(&name, &e, 1, op, err) : hr__op_filter_expr(e, op, err);

    hr_expr_unref(e);
    HR_TRY(st);
    HR_TRY(rig_open(r, *op, NULL, err));
    return rig_run(r, tables, n, err);
}

static void end_op(rig *r, hr_op *op)
{
    rig_close(r);
    hr__op_unref(op);
}

static void test_filter(void **unused)
{
    hr_table *in = numbers(100, 57), *parts[8], *got, *cut;
    live_memory before = live_now();
    uint64_t random = 3;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };
    int n;

    (void)unused;
    assert_ok(run_op(false, NULL, &in, 1, &r, &op, &err), &err);
    assert_int_equal(rig_rows(&r), 18);
    got = rig_joined(&r);
    for (int64_t i = 0; i < got->n_rows; i++) {
        hr_table *have = slice(got, i, 1), *want = slice(in, i / 3 * 10 + i % 3, 1);

        assert_true(tables_equal(have, want)); /* the coordinate, too */
        hr_table_unref(have);
        hr_table_unref(want);
    }
    end_op(&r, op);
    n = cut_randomly(in, &random, parts, 8);
    r = (rig){ 0 };
    assert_ok(run_op(false, NULL, parts, n, &r, &op, &err), &err);
    cut = rig_joined(&r);
    assert_true(tables_equal(cut, got));
    end_op(&r, op);
    unref_all(parts, n);
    hr_table_unref(cut);
    hr_table_unref(got);
    assert_no_leak(before);
    hr_table_unref(in);
}

static void test_columns(void **unused)
{
    hr_table *in = numbers(0, 9), *got;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    for (int k = 0; k < 2; k++) { /* after the others; in the place of one */
        const char *name = k ? "x" : "y";

        r = (rig){ 0 };
        assert_ok(run_op(true, name, &in, 1, &r, &op, &err), &err);
        got = rig_table(&r, 0);
        assert_int_equal(got->schema->n, in->schema->n + !k);
        assert_int_equal(hr__schema_find(got->schema, name), k ? 0 : in->schema->n);
        assert_ptr_equal(got->columns[1], in->columns[1]);
        for (int64_t i = 0; i < 9; i++) {
            const hr_array *a = got->columns[hr__schema_find(got->schema, name)];

            assert_int_equal(((const int64_t *)(const void *)hr__array_values(a))[i], 2 * i);
            assert_true(coords_equal(hr__origin_at(got->origin, i), hr__origin_at(in->origin, i)));
        }
        end_op(&r, op);
    }
    hr_table_unref(in);
}

static void test_refused(void **unused)
{
    hr_table *in = numbers(0, 9);
    hr_expr *e = expression(true), *nix = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_schema *s = NULL;
    hr_op *op = NULL;

    (void)unused;
    assert_int_equal(hr__op_with_columns((const char *[]){ "a", "a" }, (hr_expr *[]){ e, e }, 2, &op, &err),
                     HR_INVALID);
    assert_contains(err.text, "'a' is given twice");
    assert_ok(hr__op_filter_expr(e, &op, &err), &err);
    assert_status(op->cls->schema(op, in->schema, &s, &err), HR_TYPE, &err);
    assert_string_equal(err.text, "filter: col('x') * 2 is int64, expected bool");
    hr__op_unref(op);
    assert_ok(hr_expr_column("nix", &nix, NULL), NULL);
    assert_ok(hr__op_with_columns((const char *[]){ "a" }, &nix, 1, &op, &err), &err);
    assert_status(op->cls->schema(op, in->schema, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "'nix'");
    hr__op_unref(op);
    hr_expr_unref(nix);
    hr_expr_unref(e);
    hr_error_clear(&err);
    hr_table_unref(in);
}

/* A filter's own column need not go on: the rows are the same, without it, or without any. */
static void test_filter_giving(void **unused)
{
    static const char *const nothing[] = { "nix" };
    hr_table *in = numbers(100, 57), *got, *want;
    hr_expr *e = expression(false), *x = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_op *add = NULL, *op = NULL, *plain = NULL;
    rig r = { 0 }, all = { 0 }, some = { 0 };

    (void)unused;
    assert_ok(hr_expr_column("x", &x, NULL), NULL);
    assert_ok(hr__op_with_columns((const char *[]){ "copy" }, &x, 1, &add, &err), &err);
    assert_ok(rig_open(&r, add, NULL, &err), &err);
    assert_ok(rig_run(&r, &in, 1, &err), &err);
    got = rig_joined(&r);
    for (int k = 0; k < 2; k++) {
        assert_ok(k ? hr__op_filter_giving(e, (const char *[]){ "copy" }, 1, &op, &err)
                    : hr__op_filter_giving(e, nothing, 1, &op, &err),
                  &err);
        assert_ok(rig_open(&some, op, NULL, &err), &err);
        assert_ok(rig_run(&some, &got, 1, &err), &err);
        assert_ok(hr__op_filter_expr(e, &plain, &err), &err);
        assert_ok(rig_open(&all, plain, NULL, &err), &err);
        assert_ok(rig_run(&all, &got, 1, &err), &err);
        assert_int_equal(rig_rows(&some), rig_rows(&all));
        want = rig_joined(&some);
        assert_int_equal(want->schema->n, k);
        if (k)
            assert_string_equal(want->schema->fields[0].name, "copy");
        hr_table_unref(want);
        end_op(&some, op);
        end_op(&all, plain);
        some = all = (rig){ 0 };
    }
    hr_table_unref(got);
    end_op(&r, add);
    hr_expr_unref(x);
    hr_expr_unref(e);
    hr_table_unref(in);
}

typedef struct faulty {
    hr_table *in;
    hr_expr *e;
    int kind; /* 0: a filter, 1: columns, 2: a filter whose column does not go on */
} faulty;

static hr_status one_run(void *context, hr_error *err)
{
    faulty *f = context;
    const char *name = "y";
    hr_schema *s = NULL;
    hr_op *op = NULL;
    rig r = { 0 };
    hr_status st = f->kind == 1   ? hr__op_with_columns(&name, &f->e, 1, &op, err)
                   : f->kind == 2 ? hr__op_filter_giving(f->e, &name, 1, &op, err)
                                  : hr__op_filter_expr(f->e, &op, err);

    HR_GO(st);
    HR_GO(op->cls->schema(op, f->in->schema, &s, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, &f->in, 1, err));
done:
    hr__schema_unref(s);
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

static void test_faults(void **unused)
{
    (void)unused;
    for (int k = 0; k < 3; k++) {
        faulty f = { numbers(0, 30), expression(k == 1), k };

        run_with_faults_on(one_run, &f, HR_FAULT_MEMORY);
        hr_expr_unref(f.e);
        hr_table_unref(f.in);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_filter),  cmocka_unit_test(test_columns), cmocka_unit_test(test_filter_giving),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
