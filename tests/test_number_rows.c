/* test_number_rows.c - rows counted across tables, and on from where a run was left. */
#include "task_harness.h"

static hr_status push_three(rig *r, hr_error *err)
{
    hr_table *in = numbers(0, 20);
    hr_status st = HR_OK;

    for (int i = 0; i < 3 && !st; i++) {
        hr_table *part = slice(in, 5 * i, 5);

        st = rig_push(r, part, err);
        hr_table_unref(part);
    }
    hr_table_unref(in);
    return st;
}

static void check_numbers(const rig *r, int64_t first)
{
    for (int i = 0; i < r->n_out; i++) {
        const hr_table *t = r->out[i].table;

        if (!t)
            continue;
        assert_string_equal(t->schema->fields[t->schema->n - 1].name, "n");
        for (int64_t k = 0; k < t->n_rows; k++)
            assert_int_equal(hr__array_int(t->columns[t->schema->n - 1], k), first++);
    }
}

static void test_counting_and_resuming(void **unused)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 }, later = { 0 };

    (void)unused;
    assert_ok(hr__op_number_rows("n", &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(push_three(&r, &err), &err);
    assert_int_equal(rig_rows(&r), 15);
    check_numbers(&r, 0);
    assert_ok(rig_mark(&r, 15, &err), &err);
    assert_string_equal(r.out[r.n_out - 1].state, "next=15");
    assert_ok(rig_open(&later, op, NULL, &err), &err);
    assert_ok(rig_restore(&later, "next=15", &err), &err);
    assert_ok(push_three(&later, &err), &err);
    check_numbers(&later, 15);
    rig_close(&r);
    rig_close(&later);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_int_equal(rig_restore(&r, "next=-1", &err), HR_INVALID);
    assert_contains(err.text, "not a position");
    hr_error_clear(&err);
    rig_close(&r);
    hr__op_unref(op);
    assert_no_leak(before);
}

static hr_status make(hr_op **out, hr_error *err) { return hr__op_number_rows("n", out, err); }

static void test_faults(void **unused)
{
    (void)unused;
    rig_faults(make, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_counting_and_resuming), cmocka_unit_test(test_faults) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
