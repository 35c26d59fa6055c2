/* test_slice.c - ranges of rows whatever the cuts, from any marker, and with rows that a reader left out. Samples
 * beside it: which rows are kept does not depend on cuts, and ranges that do not meet have no row in common. */
#include "task_harness.h"

#include <stdlib.h>

#define MAX_PARTS 40

static void check_range(const rig *r, const hr_table *in, int64_t begin, int64_t end)
{
    hr_table *got = rig_joined(r), *want = NULL;

    begin = HR_MIN(begin, in->n_rows);
    end = HR_MIN(end, in->n_rows);
    assert_int_equal(rig_rows(r), end - begin);
    if (got) {
        want = slice(in, begin, end - begin);
        assert_true(tables_equal(got, want));
    }
    hr_table_unref(got);
    hr_table_unref(want);
}

static void test_random_ranges(void **unused)
{
    uint64_t random = 1;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 300; round++) {
        hr_table *in = numbers(3, 1 + random_below(&random, 120)), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        int64_t begin = random_below(&random, 130), end = begin + random_below(&random, 60);
        int first = 0;
        hr_op *op = NULL;
        rig r = { 0 };

        end = random_below(&random, 5) ? end : INT64_MAX;
        assert_int_equal(hr__op_slice(begin, end, &op, NULL), HR_OK);
        assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
        if (random_below(&random, 2)) { /* the reader left out parts that are not wanted */
            int64_t skipped = 0;

            while (first < n && skipped + parts[first]->n_rows <= begin)
                skipped += parts[first++]->n_rows;
            atomic_store(&r.run.skipped_rows, skipped);
        }
        for (int i = first; i < n && !r.enough; i++)
            assert_int_equal(rig_push(&r, parts[i], NULL), HR_OK);
        assert_int_equal(rig_finish(&r, NULL), HR_OK);
        check_range(&r, in, begin, end);
        assert_true(r.enough || end >= in->n_rows);
        rig_close(&r);
        hr__op_unref(op);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

static void test_resume(void **unused)
{
    hr_table *in = numbers(0, 50);

    (void)unused;
    for (int64_t at = 0; at <= 50; at += 5) {
        hr_table *head = slice(in, 0, at), *tail = slice(in, at, 50 - at), *got, *want;
        hr_op *op = NULL;
        rig a = { 0 }, b = { 0 };

        assert_int_equal(hr__op_slice(12, 33, &op, NULL), HR_OK);
        assert_int_equal(rig_open(&a, op, NULL, NULL), HR_OK);
        if (at)
            assert_int_equal(rig_push(&a, head, NULL), HR_OK);
        assert_int_equal(rig_mark(&a, at, NULL), HR_OK);
        assert_int_equal(rig_open(&b, op, NULL, NULL), HR_OK);
        assert_int_equal(rig_restore(&b, a.out[a.n_out - 1].state, NULL), HR_OK);
        assert_true(b.enough == (at >= 33));
        if (at < 33)
            assert_int_equal(rig_push(&b, tail, NULL), HR_OK);
        assert_int_equal(rig_rows(&a) + rig_rows(&b), 21);
        if ((got = rig_joined(&b))) {
            want = slice(in, HR_MAX(at, 12), got->n_rows);
            assert_true(tables_equal(got, want));
            hr_table_unref(want);
        }
        hr_table_unref(got);
        rig_close(&a);
        rig_close(&b);
        hr__op_unref(op);
        hr_table_unref(head);
        hr_table_unref(tail);
    }
    hr_table_unref(in);
}

static hr_op *sample(double from, double to, uint64_t seed, const char *column)
{
    hr_sample_options o = { .struct_bytes = sizeof o, .from = from, .to = to, .seed = &seed, .column = column };
    hr_op *op = NULL;

    assert_int_equal(hr__op_sample(&o, 0, &op, NULL), HR_OK);
    return op;
}

static hr_table *sampled(hr_op *op, const hr_table *in, int64_t epoch, uint64_t *cuts)
{
    hr_table *parts[MAX_PARTS], *out;
    int n = cut_randomly(in, cuts, parts, MAX_PARTS);
    rig r = { 0 };

    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    r.run.epoch = epoch;
    assert_int_equal(rig_run(&r, parts, n, NULL), HR_OK);
    out = rig_joined(&r);
    rig_close(&r);
    unref_all(parts, n);
    return out;
}

static void test_samples(void **unused)
{
    static const char *const columns[] = { NULL, "x", "s" };
    uint64_t random = 5;
    hr_table *in = numbers(0, 3000);

    (void)unused;
    for (int k = 0; k < HR_LEN(columns); k++) {
        hr_op *low = sample(0, 0.3, 1, columns[k]), *high = sample(0.3, 1, 1, columns[k]);
        hr_op *other = sample(0, 0.3, 2, columns[k]);
        hr_table *a = sampled(low, in, 0, &random), *b = sampled(high, in, 0, &random);
        hr_table *again = sampled(low, in, 0, &random), *c = sampled(other, in, 0, &random);
        hr_table *later = sampled(low, in, 1, &random);
        uint8_t seen[3000] = { 0 };

        assert_int_equal(a->n_rows + b->n_rows, 3000);
        for (int64_t i = 0; i < a->n_rows; i++)
            seen[x_at(a, i)]++;
        for (int64_t i = 0; i < b->n_rows; i++)
            seen[x_at(b, i)]++;
        for (int i = 0; i < 3000; i++)
            assert_int_equal(seen[i], 1);
        if (!columns[k] || columns[k][0] == 'x')
            assert_in_range(a->n_rows, 900 - 150, 900 + 150); /* 6 standard deviations of 25 */
        assert_true(tables_equal(a, again));
        assert_true(tables_equal(a, c) == (columns[k] != NULL)); /* a hash has no seed, and no epoch */
        assert_true(tables_equal(a, later) == (columns[k] != NULL));
        hr_table_unref(a);
        hr_table_unref(b);
        hr_table_unref(c);
        hr_table_unref(again);
        hr_table_unref(later);
        hr__op_unref(low);
        hr__op_unref(high);
        hr__op_unref(other);
    }
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    static const double bad[][2] = { { -0.1, 0.5 }, { 0.5, 0.4 }, { 0, 1.1 } };
    hr_table *in = numbers(0, 5);
    hr_schema *schema = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_status(hr__op_slice(-1, 5, &op, &err), HR_INVALID, &err);
    assert_status(hr__op_slice(6, 5, &op, &err), HR_INVALID, &err);
    assert_int_equal(hr__op_slice(1, 5, &op, NULL), HR_OK);
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    assert_status(rig_restore(&r, "left=5", &err), HR_INVALID, &err);
    rig_close(&r);
    hr__op_unref(op);
    for (int i = 0; i < HR_LEN(bad); i++) {
        hr_sample_options o = { .struct_bytes = sizeof o, .from = bad[i][0], .to = bad[i][1] };

        assert_status(hr__op_sample(&o, 0, &op, &err), HR_INVALID, &err);
    }
    op = sample(0, 1, 0, "nobody");
    assert_status(op->cls->schema(op, in->schema, &schema, &err), HR_INVALID, &err);
    assert_contains(err.text, "nobody");
    hr__op_unref(op);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static hr_status one_slice(void *context, hr_error *err)
{
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_slice(2, 7, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_mark(&r, 0, err));
    HR_GO(rig_push(&r, context, err));
    HR_GO(rig_finish(&r, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

static hr_status one_sample(void *context, hr_error *err)
{
    hr_sample_options o = { .struct_bytes = sizeof o, .to = 0.5, .column = "s" };
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_sample(&o, 0, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_push(&r, context, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *in = numbers(0, 20);

    (void)unused;
    run_with_faults_on(one_slice, in, HR_FAULT_MEMORY);
    run_with_faults_on(one_sample, in, HR_FAULT_MEMORY);
    hr_table_unref(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_ranges), cmocka_unit_test(test_resume), cmocka_unit_test(test_samples),
        cmocka_unit_test(test_refusals),      cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
