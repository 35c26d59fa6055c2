/* test_gather_rows.c - tables in contiguous memory of their own. */
#include "task_harness.h"

static void test_copies_what_is_shared(void **unused)
{
    hr_table *whole = numbers(0, 100), *in = slice(whole, 13, 50), *out;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_gather(&op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, in, &err), &err);
    out = rig_table(&r, 0);
    assert_true(out->sole);
    assert_true(tables_equal(in, out));
    assert_int_equal(out->columns[1]->offset, 0);
    assert_ptr_not_equal(out->columns[0]->buffers[1], in->columns[0]->buffers[1]);
    assert_ok(rig_push(&r, out, &err), &err); /* is so already */
    assert_ptr_equal(rig_table(&r, 1), out);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_table_unref(whole);
}

static void test_faults(void **unused)
{
    (void)unused;
    rig_faults(hr__op_gather, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_what_is_shared),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
