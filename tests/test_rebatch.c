/* test_rebatch.c - exact tables whatever the cuts, and from any marker the same tables again. */
#include "task_harness.h"

#define MAX_PARTS 40

/* The batches that n rows of `in` should become. */
static void check_batches(const rig *r, const hr_table *in, int64_t batch_rows, bool drop_last)
{
    int64_t at = 0;

    for (int i = 0; i < rig_tables(r); i++) {
        hr_table *got = rig_table(r, i), *want;

        assert_int_equal(got->n_rows, HR_MIN(batch_rows, in->n_rows - at));
        want = slice(in, at, got->n_rows);
        assert_true(tables_equal(got, want));
        at += got->n_rows;
        hr_table_unref(want);
    }
    assert_int_equal(at, drop_last ? in->n_rows / batch_rows * batch_rows : in->n_rows);
}

static void test_random_cuts(void **unused)
{
    uint64_t random = 1;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 300; round++) {
        hr_table *in = numbers(random_below(&random, 100), random_below(&random, 120)), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        int64_t batch_rows = 1 + random_below(&random, 40);
        bool drop_last = random_below(&random, 2);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        rig r = { 0 };

        assert_ok(hr__op_rebatch(batch_rows, drop_last, &op, &err), &err);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        check_batches(&r, in, batch_rows, drop_last);
        rig_close(&r);
        hr__op_unref(op);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

static void test_no_copy_inside_a_table(void **unused)
{
    hr_table *in = numbers(0, 30), *whole = numbers(30, 10);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_rebatch(10, false, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_push(&r, in, &err), &err);
    assert_ok(rig_push(&r, whole, &err), &err);
    assert_ok(rig_finish(&r, &err), &err);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(hr__array_values(rig_table(&r, i)->columns[0]), hr__array_values(in->columns[0]) + 80 * i);
    assert_ptr_equal(rig_table(&r, 3), whole);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_table_unref(whole);
}

/* Tables that came out from item `from` on. */
static void check_tail(const rig *whole, int from, const rig *tail)
{
    int n = 0;

    for (int i = from; i < whole->n_out; i++)
        if (whole->out[i].table)
            assert_true(tables_equal(whole->out[i].table, rig_table(tail, n++)));
    assert_int_equal(rig_tables(tail), n);
}

/* Pushes the rows of `in` from `at` on in random parts, with markers at random places; parts are cut there, as tickets
 * are. */
static void push_with_markers(rig *r, const hr_table *in, int64_t at, uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;

    while (at < in->n_rows) {
        int64_t left = in->n_rows - at, n = 1 + random_below(random, HR_MIN(left, 25));
        hr_table *part = slice(in, at, n);

        if (random_below(random, 3))
            assert_ok(rig_mark(r, at, &err), &err);
        assert_ok(rig_push(r, part, &err), &err);
        at += n;
        hr_table_unref(part);
    }
    if (random_below(random, 2))
        assert_ok(rig_mark(r, at, &err), &err);
    assert_ok(rig_finish(r, &err), &err);
}

/* The number in "ordinal=...": how many batches came before. */
static void check_ordinal(const rig *r, int item, int64_t before)
{
    int64_t ordinal = -1;

    for (int i = 0; i < item; i++)
        before += r->out[i].table != NULL;
    assert_true(hr__state_int(r->out[item].state, "ordinal", &ordinal));
    if (item + 1 < r->n_out) /* after a dropped last batch it does not matter */
        assert_int_equal(ordinal, before);
}

/* Rows [0, n) of several fragments. */
static hr_table *rows_of_fragments(int64_t n, uint64_t *random)
{
    hr_table *parts[8], *all;
    int n_parts = 0;

    for (int64_t at = 0; at < n; n_parts++) {
        int64_t some = n_parts == 7 ? n - at : 1 + random_below(random, n - at);

        parts[n_parts] = numbers_at(0, n_parts, at, some);
        at += some;
    }
    all = join(parts, n_parts);
    unref_all(parts, n_parts);
    return all;
}

/* A table of each fragment, however the input is cut. */
static void test_fragments(void **unused)
{
    uint64_t random = 3;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 100; round++) {
        hr_table *in = rows_of_fragments(1 + random_below(&random, 150), &random), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        rig r = { 0 };
        int64_t at = 0;

        assert_ok(hr__op_fragments(&op, &err), &err);
        assert_int_equal(op->table_rows, 0);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        for (int i = 0; i < rig_tables(&r); i++) {
            hr_table *got = rig_table(&r, i), *want = slice(in, at, got->n_rows);

            assert_true(tables_equal(got, want));
            at += got->n_rows;
            assert_int_equal(hr__origin_at(got->origin, 0).fragment, i);
            assert_int_equal(hr__origin_at(got->origin, got->n_rows - 1).fragment, i);
            hr_table_unref(want);
        }
        assert_int_equal(at, in->n_rows);
        assert_int_equal(rig_tables(&r), hr__origin_at(in->origin, at - 1).fragment + 1);
        rig_close(&r);
        hr__op_unref(op);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* From every marker of a run, and from every marker of the run that began there. */
static void test_resume(void **unused)
{
    uint64_t random = 7;

    (void)unused;
    for (int round = 0; round < 90; round++) {
        hr_table *in = rows_of_fragments(1 + random_below(&random, 120), &random);
        int64_t batch_rows = 1 + random_below(&random, 30);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        rig whole = { 0 };

        if (round % 3 == 0)
            assert_ok(hr__op_fragments(&op, &err), &err);
        else
            assert_ok(hr__op_rebatch(batch_rows, random_below(&random, 2), &op, &err), &err);
        assert_ok(rig_open(&whole, op, NULL, &err), &err);
        whole.run.marks = random_below(&random, 2);
        push_with_markers(&whole, in, 0, &random);
        for (int i = 0; i < whole.n_out; i++) {
            rig tail = { 0 };
            int64_t ordinal = 0;

            if (!whole.out[i].marker)
                continue;
            check_ordinal(&whole, i, 0);
            assert_true(hr__state_int(whole.out[i].state, "ordinal", &ordinal));
            assert_ok(rig_open(&tail, op, NULL, &err), &err);
            tail.run.marks = random_below(&random, 2);
            assert_ok(rig_restore(&tail, whole.out[i].state, &err), &err);
            push_with_markers(&tail, in, whole.out[i].marker->at, &random);
            check_tail(&whole, i, &tail);
            for (int k = 0; k < tail.n_out; k++) {
                rig again = { 0 };

                if (!tail.out[k].marker)
                    continue;
                check_ordinal(&tail, k, ordinal);
                assert_ok(rig_open(&again, op, NULL, &err), &err);
                assert_ok(rig_restore(&again, tail.out[k].state, &err), &err);
                push_with_markers(&again, in, tail.out[k].marker->at, &random);
                check_tail(&tail, k, &again);
                rig_close(&again);
            }
            rig_close(&tail);
        }
        rig_close(&whole);
        hr__op_unref(op);
        hr_table_unref(in);
    }
}

/* Of several markers in one open batch only the newest goes on, right behind the batch. */
static void test_marker_states(void **unused)
{
    hr_table *in = numbers(0, 12), *a = slice(in, 0, 2), *b = slice(in, 2, 2), *c = slice(in, 4, 8);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_rebatch(5, false, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_mark(&r, 0, &err), &err);
    assert_ok(rig_push(&r, a, &err), &err);
    assert_ok(rig_mark(&r, 2, &err), &err);
    assert_ok(rig_push(&r, b, &err), &err);
    assert_ok(rig_mark(&r, 4, &err), &err);
    assert_int_equal(r.n_out, 1);
    assert_string_equal(r.out[0].state, "skip=0 ordinal=0");
    assert_ok(rig_push(&r, c, &err), &err);
    assert_int_equal(r.n_out, 4);
    assert_int_equal(r.out[1].table->n_rows, 5);
    assert_int_equal(r.out[2].marker->at, 4);
    assert_string_equal(r.out[2].state, "skip=1 ordinal=1");
    assert_int_equal(r.out[3].table->n_rows, 5);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(a);
    hr_table_unref(b);
    hr_table_unref(c);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    static const char *const bad[] = { "", "skip=0", "ordinal=0", "skip=-1 ordinal=0", "skip=1 ordinal=x" };
    static const char *const sx[] = { "s", "x" };
    hr_table *in = numbers(0, 3), *other = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL, *swap = NULL;
    rig r = { 0 }, q = { 0 };

    (void)unused;
    assert_status(hr__op_rebatch(0, false, &op, &err), HR_INVALID, &err);
    assert_ok(hr__op_rebatch(5, true, &op, &err), &err);
    assert_int_equal(op->table_rows, 5);
    assert_true(op->drops_rest);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    for (int i = 0; i < HR_LEN(bad); i++)
        assert_status(rig_restore(&r, bad[i], &err), HR_INVALID, &err);
    assert_ok(hr__op_project(sx, NULL, 2, &swap, &err), &err);
    assert_ok(rig_open(&q, swap, NULL, &err), &err);
    assert_ok(rig_push(&q, in, &err), &err);
    other = rig_table(&q, 0);
    assert_ok(rig_push(&r, other, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_TYPE, &err);
    assert_contains(err.text, "rebatch: ");
    rig_close(&r);
    rig_close(&q);
    hr__op_unref(op);
    hr__op_unref(swap);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static hr_status one_run(void *context, hr_error *err)
{
    hr_table **parts = context;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_rebatch(8, false, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_mark(&r, 0, err));
    HR_GO(rig_push(&r, parts[0], err));
    HR_GO(rig_mark(&r, 5, err));
    HR_GO(rig_push(&r, parts[1], err));
    HR_GO(rig_push(&r, parts[2], err));
    HR_GO(rig_finish(&r, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *parts[3] = { numbers(0, 5), numbers(5, 20), numbers(25, 4) };

    (void)unused;
    run_with_faults_on(one_run, parts, HR_FAULT_MEMORY);
    unref_all(parts, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_cuts),   cmocka_unit_test(test_no_copy_inside_a_table),
        cmocka_unit_test(test_fragments),     cmocka_unit_test(test_resume),
        cmocka_unit_test(test_marker_states), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
