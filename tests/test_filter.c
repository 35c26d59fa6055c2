/* test_filter.c - the rows that a function keeps, with their coordinates. */
#include "task_harness.h"

/* What is kept: rows i with i % 10 in [low, high). */
typedef struct band {
    int64_t low, high;
    int n_freed;
    hr_status fails;
} band;

static hr_status keep_band(void *context, const hr_table *in, uint8_t *keep, hr_error *err)
{
    band *b = context;

    if (b->fails)
        return b->fails == HR_CALLBACK ? hr_error_set(err, HR_CALLBACK, "no such digit") : b->fails;
    for (int64_t i = 0; i < in->n_rows; i++)
        keep[i] = x_at(in, i) % 10 >= b->low && x_at(in, i) % 10 < b->high;
    return HR_OK;
}

static void freed(void *context) { ((band *)context)->n_freed++; }

static hr_filter_function function_of(band *b)
{
    return (hr_filter_function){ .struct_bytes = sizeof(hr_filter_function),
                                 .name = "digits",
                                 .context = b,
                                 .context_free = freed,
                                 .call = keep_band };
}

static void run_filter(rig *r, band *b, hr_table *in)
{
    hr_filter_function fn = function_of(b);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    assert_ok(hr__op_filter(&fn, &op, &err), &err);
    assert_ok(rig_open(r, op, NULL, &err), &err);
    assert_ok(rig_run(r, &in, 1, &err), &err);
}

static void end_filter(rig *r)
{
    hr_op *op = (hr_op *)r->op;

    rig_close(r);
    hr__op_unref(op);
}

static void test_some(void **unused)
{
    hr_table *in = numbers(100, 50), *got;
    live_memory before = live_now();
    band b = { 3, 5, 0, HR_OK };
    rig r = { 0 };

    (void)unused;
    run_filter(&r, &b, in);
    assert_int_equal(rig_tables(&r), 1);
    got = rig_table(&r, 0);
    assert_int_equal(got->n_rows, 10);
    for (int64_t i = 0; i < 10; i++) {
        hr_table *have = slice(got, i, 1), *want = slice(in, i / 2 * 10 + 3 + i % 2, 1);

        assert_true(tables_equal(have, want)); /* the coordinate, too */
        hr_table_unref(have);
        hr_table_unref(want);
    }
    end_filter(&r);
    assert_int_equal(b.n_freed, 1);
    assert_no_leak(before);
    hr_table_unref(in);
}

static void test_all_none_range(void **unused)
{
    hr_table *in = numbers(0, 10);
    band all = { 0, 10, 0, HR_OK }, none = { 0, 0, 0, HR_OK }, most = { 2, 9, 0, HR_OK }, few = { 2, 5, 0, HR_OK };
    rig r = { 0 };

    (void)unused;
    run_filter(&r, &all, in);
    assert_ptr_equal(rig_table(&r, 0), in);
    end_filter(&r);
    run_filter(&r, &none, in);
    assert_int_equal(r.n_out, 0);
    end_filter(&r);
    run_filter(&r, &most, in); /* a range: shared */
    assert_ptr_equal(hr__array_values(rig_table(&r, 0)->columns[0]), hr__array_values(in->columns[0]) + 16);
    assert_int_equal(rig_rows(&r), 7);
    end_filter(&r);
    run_filter(&r, &few, in); /* too few to hold the whole for */
    assert_true(rig_table(&r, 0)->sole);
    assert_int_equal(x_at(rig_table(&r, 0), 2), 4);
    end_filter(&r);
    hr_table_unref(in);
}

static void test_failures(void **unused)
{
    static const struct {
        hr_status fails, want;
        const char *text;
    } cases[] = {
        { HR_CALLBACK, HR_CALLBACK, "digits: no such digit" },
        { HR_IO, HR_IO, "digits: failed without saying why" },
        { HR_PENDING, HR_CALLBACK, "digits: failed without saying why" },
        { (hr_status)77, HR_CALLBACK, "digits: failed without saying why" },
    };
    hr_table *in = numbers(0, 10);
    hr_filter_function nothing = { .struct_bytes = sizeof nothing, .name = "nothing" };
    hr_op *op = NULL;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        band b = { .fails = cases[i].fails };
        hr_filter_function fn = function_of(&b);
        hr_error err = HR_ERROR_INIT;
        rig r = { 0 };

        assert_ok(hr__op_filter(&fn, &op, &err), &err);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_status(rig_push(&r, in, &err), cases[i].want, &err);
        assert_string_equal(err.text, cases[i].text);
        end_filter(&r);
        hr_error_clear(&err);
    }
    assert_int_equal(hr__op_filter(&nothing, &op, NULL), HR_INVALID);
    hr_table_unref(in);
}

static hr_status one_run(void *context, hr_error *err)
{
    hr_table *in = context;
    band b = { 3, 6, 0, HR_OK };
    hr_filter_function fn = function_of(&b);
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_filter(&fn, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, &in, 1, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    assert_int_equal(b.n_freed, 1); /* taken, even on failure */
    return st;
}

static void test_faults(void **unused)
{
    hr_table *in = numbers(0, 30);

    (void)unused;
    run_with_faults_on(one_run, in, HR_FAULT_MEMORY);
    hr_table_unref(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_some),
        cmocka_unit_test(test_all_none_range),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
