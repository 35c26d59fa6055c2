/* test_project.c - columns chosen, put in another order, renamed. */
#include "task_harness.h"

static const char *const vx[] = { "v", "x" };
static const char *const as_ab[] = { "a", "b" };

static void test_order_and_names(void **unused)
{
    live_memory before = live_now();
    hr_table *in = numbers(10, 20), *out;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_project(vx, as_ab, 2, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_run(&r, &in, 1, &err), &err);
    out = rig_table(&r, 0);
    assert_int_equal(out->schema->n, 2);
    assert_string_equal(out->schema->fields[0].name, "a");
    assert_string_equal(out->schema->fields[1].name, "b");
    assert_true(hr__array_equal(out->columns[0], in->columns[2]));
    assert_ptr_equal(out->columns[1]->buffers[1], in->columns[0]->buffers[1]); /* not copied */
    assert_ptr_equal(out->origin, in->origin);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    assert_no_leak(before);
}

static void test_other_schema_midway(void **unused)
{
    hr_table *in = numbers(0, 5), *swapped, *out;
    static const char *const sx[] = { "s", "x" };
    hr_error err = HR_ERROR_INIT;
    hr_op *swap = NULL, *op = NULL;
    rig r = { 0 }, q = { 0 };

    (void)unused;
    assert_ok(hr__op_project(sx, NULL, 2, &swap, &err), &err);
    assert_ok(rig_open(&q, swap, NULL, &err), &err);
    assert_ok(rig_push(&q, in, &err), &err);
    swapped = rig_table(&q, 0);
    assert_ok(hr__op_project(sx + 1, NULL, 1, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, in, &err), &err);
    assert_ok(rig_push(&r, swapped, &err), &err); /* x is in another place there */
    assert_ok(rig_push(&r, in, &err), &err);
    for (int i = 0; i < 3; i++) {
        out = rig_table(&r, i);
        assert_int_equal(out->schema->n, 1);
        assert_int_equal(x_at(out, 4), 4);
    }
    rig_close(&q);
    rig_close(&r);
    hr__op_unref(op);
    hr__op_unref(swap);
    hr_table_unref(in);
}

static void test_no_columns(void **unused)
{
    hr_table *in = numbers(0, 7);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_project(NULL, NULL, 0, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, in, &err), &err);
    assert_int_equal(rig_table(&r, 0)->n_rows, 7);
    assert_int_equal(rig_table(&r, 0)->schema->n, 0);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    static const char *const twice[] = { "x", "s" }, *const same[] = { "y", "y" }, *const none[] = { "nope" };
    hr_table *in = numbers(0, 1);
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_status(hr__op_project(twice, same, 2, &op, &err), HR_INVALID, &err);
    assert_contains(err.text, "columns 0 and 1 would both be called 'y'");
    assert_null(op);
    assert_ok(hr__op_project(none, NULL, 1, &op, &err), &err);
    assert_int_not_equal(op->cls->schema(op, in->schema, &schema, &err), HR_OK);
    assert_contains(err.text, "nope");
    assert_null(schema);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_int_not_equal(rig_push(&r, in, &err), HR_OK);
    assert_contains(err.text, "nope");
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static void test_description(void **unused)
{
    hr_text text = { 0 };
    hr_op *op = NULL, *plain = NULL;
    hr_hash a, b;

    (void)unused;
    assert_ok(hr__op_project(vx, as_ab, 2, &op, NULL), NULL);
    assert_ok(hr__op_project(vx, NULL, 2, &plain, NULL), NULL);
    op->cls->describe(op, &text);
    assert_string_equal(text.data, "project(v as a, x as b)");
    hr__hash_init(&a, 0);
    hr__hash_init(&b, 0);
    op->cls->fingerprint(op, &a);
    plain->cls->fingerprint(plain, &b);
    assert_int_not_equal(hr__hash_end(&a).lo, hr__hash_end(&b).lo);
    assert_string_equal(op->cls->column_upstream(op, "b"), "x");
    assert_null(op->cls->column_upstream(op, "x"));
    assert_true(op->one_to_one);
    hr__text_clear(&text);
    hr__op_unref(op);
    hr__op_unref(plain);
}

static hr_status make(hr_op **out, hr_error *err) { return hr__op_project(vx, as_ab, 2, out, err); }

static void test_faults(void **unused)
{
    (void)unused;
    rig_faults(make, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_names), cmocka_unit_test(test_other_schema_midway),
        cmocka_unit_test(test_no_columns),      cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_description),     cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
