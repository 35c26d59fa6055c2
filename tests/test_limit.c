/* test_limit.c - the first n rows, and the same after a resume. */
#include "task_harness.h"

static const struct {
    int64_t limit;
    int n_tables;
    int64_t rows[4];
    int64_t want;
    bool enough;
} cases[] = {
    { 0, 1, { 5 }, 0, true },       { 1, 2, { 5, 5 }, 1, true },   { 5, 2, { 5, 5 }, 5, true },
    { 7, 3, { 5, 0, 5 }, 7, true }, { 10, 2, { 5, 5 }, 10, true }, { 11, 2, { 5, 5 }, 10, false },
    { 3, 0, { 0 }, 0, false },
};

static void test_cases(void **unused)
{
    (void)unused;
    for (int c = 0; c < HR_LEN(cases); c++) {
        hr_error err = HR_ERROR_INIT;
        live_memory before = live_now();
        int64_t at = 0;
        hr_op *op = NULL;
        rig r = { 0 };

        assert_ok(hr__op_limit(cases[c].limit, &op, &err), &err);
        assert_true(op->cuts && op->cut_begin == 0 && op->cut_end == cases[c].limit);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        for (int i = 0; i < cases[c].n_tables && !r.enough; i++) {
            hr_table *t = numbers(at, cases[c].rows[i]);

            at += t->n_rows;
            assert_ok(rig_push(&r, t, &err), &err);
            hr_table_unref(t);
        }
        assert_int_equal(rig_rows(&r), cases[c].want);
        assert_int_equal(r.enough, cases[c].enough);
        rig_close(&r);
        hr__op_unref(op);
        assert_no_leak(before);
    }
}

/* From any marker that passed, the rows after it come again, and no others. */
static void test_resume(void **unused)
{
    hr_table *in = numbers(0, 20);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig whole = { 0 };

    (void)unused;
    assert_ok(hr__op_limit(13, &op, &err), &err);
    assert_ok(rig_open(&whole, op, NULL, &err), &err);
    for (int i = 0; i < 5; i++) {
        hr_table *part = slice(in, 4 * i, 4);

        assert_ok(rig_mark(&whole, 4 * i, &err), &err);
        assert_ok(rig_push(&whole, part, &err), &err);
        hr_table_unref(part);
    }
    for (int i = 0, passed = 0; i < whole.n_out; i++) {
        rig tail = { 0 };
        hr_table *rest;

        if (!whole.out[i].marker)
            continue;
        assert_int_equal(whole.out[i].marker->at, 4 * passed++);
        rest = slice(in, whole.out[i].marker->at, 20 - whole.out[i].marker->at);
        assert_ok(rig_open(&tail, op, NULL, &err), &err);
        assert_ok(rig_restore(&tail, whole.out[i].state, &err), &err);
        assert_int_equal(tail.enough, whole.out[i].marker->at > 13);
        assert_ok(rig_push(&tail, rest, &err), &err);
        assert_int_equal(rig_rows(&tail), HR_MAX(13 - whole.out[i].marker->at, 0));
        hr_table_unref(rest);
        rig_close(&tail);
    }
    rig_close(&whole);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    static const char *const bad[] = { "", "left", "left=", "left=x", "left=-1", "left=4x", "left=6", "rest=3" };
    hr_error err = HR_ERROR_INIT;
    hr_text text = { 0 };
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_status(hr__op_limit(-1, &op, &err), HR_INVALID, &err);
    assert_ok(hr__op_limit(5, &op, &err), &err);
    op->cls->describe(op, &text);
    assert_string_equal(text.data, "limit(5)");
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    for (int i = 0; i < HR_LEN(bad); i++)
        assert_status(rig_restore(&r, bad[i], &err), HR_INVALID, &err);
    rig_close(&r);
    hr__text_clear(&text);
    hr__op_unref(op);
    hr_error_clear(&err);
}

static hr_status make(hr_op **out, hr_error *err) { return hr__op_limit(7, out, err); }

static void test_faults(void **unused)
{
    (void)unused;
    rig_faults(make, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
