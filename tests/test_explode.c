/* test_explode.c - lists as rows: the same rows and coordinates for any cut; wrong columns. */
#include "task_harness.h"

static hr_status make(hr_op **out, hr_error *err) { return hr__op_explode("v", out, err); }

static void test_values_and_repeated_columns(void **unused)
{
    hr_table *in = numbers(0, 60), *out;
    const hr_array *lists = in->columns[2];
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };
    int64_t row = 0;

    (void)unused;
    assert_ok(make(&op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_run(&r, &in, 1, &err), &err);
    out = rig_joined(&r);
    assert_int_equal(out->schema->fields[2].type->id, HR_T_INT32);
    for (int64_t i = 0; i < in->n_rows; i++) {
        int64_t begin = 0, n = 0;

        if (!hr__array_is_null(lists, i))
            hr__array_range(lists, i, &begin, &n);
        for (int64_t k = 0; k < HR_MAX(n, 1); k++, row++) {
            hr_coord c = hr__origin_at(out->origin, row);

            assert_int_equal(x_at(out, row), x_at(in, i));
            assert_int_equal(hr__array_is_null(out->columns[2], row), !n);
            if (n)
                assert_int_equal(hr__array_int(out->columns[2], row), hr__array_int(lists->children[0], begin + k));
            assert_int_equal(c.row, hr__origin_at(in->origin, i).row);
            assert_int_equal(c.ordinal, k);
        }
    }
    assert_int_equal(row, out->n_rows);
    hr_table_unref(out);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_any_cut(void **unused)
{
    hr_table *in = numbers(3, 200), *whole, *parts[64];
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 7;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(make(&op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_run(&r, &in, 1, &err), &err);
    whole = rig_joined(&r);
    rig_close(&r);
    for (int round = 0; round < 20; round++) {
        int n = cut_randomly(in, &random, parts, HR_LEN(parts));
        hr_table *joined;

        r = (rig){ 0 };
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        joined = rig_joined(&r);
        assert_true(tables_equal(whole, joined));
        hr_table_unref(joined);
        rig_close(&r);
        unref_all(parts, n);
    }
    hr_table_unref(whole);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void refused(const char *column, hr_status status, const char *text)
{
    hr_table *in = numbers(0, 5);
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_op *op = NULL;

    assert_ok(hr__op_explode(column, &op, &err), &err);
    assert_int_equal(op->cls->schema(op, in->schema, &schema, &err), status);
    assert_contains(err.text, text);
    hr_error_clear(&err);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_wrong_columns(void **unused)
{
    (void)unused;
    refused("nothing", HR_INVALID, "nothing");
    refused("x", HR_TYPE, "explode: column 'x' is int64, expected lists");
}

static void test_faults(void **unused)
{
    (void)unused;
    rig_faults(make, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_repeated_columns),
        cmocka_unit_test(test_any_cut),
        cmocka_unit_test(test_wrong_columns),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
