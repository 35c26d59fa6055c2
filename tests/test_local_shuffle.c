/* test_local_shuffle.c - the order is a function of seed, epoch and windows alone, and from any marker it goes on. */
#include "op/order/local_shuffle.h"
#include "task_harness.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_PARTS 60

/* What local_gather makes of a pick list; new. */
static hr_status gathered(const hr_table *list, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_local_gather(&op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_push(&r, list, err));
    HR_GO(rig_finish(&r, err));
    *out = hr_table_ref(rig_table(&r, 0));
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

/* All rows that came out, in their order, as one table; new. NULL: none. */
static hr_table *rows_of(const rig *r, int from_item)
{
    hr_table **all = calloc((size_t)r->n_out + 1, sizeof(hr_table *)), *one = NULL;
    int n = 0;

    assert_non_null(all);
    for (int i = from_item; i < r->n_out; i++)
        if (r->out[i].table)
            assert_int_equal(gathered(r->out[i].table, &all[n++], NULL), HR_OK);
    one = n ? join(all, n) : NULL;
    unref_all(all, n);
    free(all);
    return one;
}

static hr_op *shuffle(int64_t window, const uint64_t *seed)
{
    hr_op *op = NULL;

    assert_int_equal(hr__op_local_shuffle(window, seed, &op, NULL), HR_OK);
    return op;
}

static hr_table *shuffled(int64_t window, const uint64_t *seed, uint64_t run_seed, int64_t epoch, const hr_table *in,
                          uint64_t *cuts)
{
    hr_op *op = shuffle(window, seed);
    hr_table *parts[MAX_PARTS], *out;
    int n = 1;
    rig r = { 0 };

    parts[0] = hr_table_ref((hr_table *)in);
    if (cuts) {
        hr_table_unref(parts[0]);
        n = cut_randomly(in, cuts, parts, MAX_PARTS);
    }
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    r.run.seed = run_seed;
    r.run.epoch = epoch;
    assert_int_equal(rig_run(&r, parts, n, NULL), HR_OK);
    out = rows_of(&r, 0);
    rig_close(&r);
    hr__op_unref(op);
    unref_all(parts, n);
    return out;
}

static void check_permutation(const hr_table *in, const hr_table *out, int64_t window)
{
    uint8_t *seen = calloc((size_t)in->n_rows + 1, 1);
    hr_table *row, *want, *named;

    assert_non_null(seen);
    assert_int_equal(in->n_rows, out->n_rows);
    for (int64_t i = 0; i < out->n_rows; i++) {
        int64_t x = x_at(out, i) - x_at(in, 0);
        hr_coord c = hr__origin_at(out->origin, i);

        assert_in_range(x, 0, in->n_rows - 1);
        assert_false(seen[x]);
        seen[x] = 1;
        assert_true(llabs(x - i) <= window + window / 2 + 1);
        assert_true(coords_equal(c, (hr_coord){ .row = i }));
        if (i % 7)
            continue;
        row = slice(out, i, 1);
        want = slice(in, x, 1);
        assert_int_equal(hr__table_with_origin(want, row->origin, &named, NULL), HR_OK);
        assert_true(tables_equal(row, named));
        hr_table_unref(row);
        hr_table_unref(want);
        hr_table_unref(named);
    }
    free(seen);
}

/* Windows smaller and larger than what makes a chunk; rows that end anywhere in them. */
static void test_windows(void **unused)
{
    static const int64_t windows[] = { 1, 2, 3, 1000, 16384, 20000, 100000 };
    static const int64_t sizes[] = { 1, 2, 999, 1000, 16384, 40001 };
    uint64_t random = 1;
    live_memory before = live_now();

    (void)unused;
    for (int s = 0; s < HR_LEN(sizes); s++) {
        hr_table *in = numbers(5, sizes[s]);

        for (int w = 0; w < HR_LEN(windows); w++) {
            hr_table *whole = shuffled(windows[w], NULL, 1, 0, in, NULL);
            hr_table *cut = shuffled(windows[w], NULL, 1, 0, in, &random);

            check_permutation(in, whole, windows[w]);
            assert_true(tables_equal(whole, cut));
            hr_table_unref(whole);
            hr_table_unref(cut);
        }
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* Rows of one group of the first layer come apart in the second; of those in a row's neighbourhood few stay there. */
static int64_t still_neighbours(const hr_table *out)
{
    int64_t n = 0;

    for (int64_t i = 1; i < out->n_rows; i++)
        n += llabs(x_at(out, i) - x_at(out, i - 1)) == 1;
    return n;
}

/* Windows that are permuted by groups, and such of more than a leaf; the last group of a window may be short. */
static void test_large_windows(void **unused)
{
    static const int64_t windows[] = { 70001, 140000 };
    hr_table *in = numbers(5, 180007);
    uint64_t random = 2;
    live_memory before = live_now();

    (void)unused;
    for (int w = 0; w < HR_LEN(windows); w++) {
        hr_table *whole = shuffled(windows[w], NULL, 1, 0, in, NULL);
        hr_table *cut = shuffled(windows[w], NULL, 1, 0, in, &random);

        check_permutation(in, whole, windows[w]);
        assert_true(tables_equal(whole, cut));
        assert_in_range(still_neighbours(whole), 0, 60); /* 2 * rows / window is chance */
        hr_table_unref(whole);
        hr_table_unref(cut);
    }
    assert_no_leak(before);
    hr_table_unref(in);
}

static int64_t same_places(const hr_table *a, const hr_table *b)
{
    int64_t n = 0;

    for (int64_t i = 0; i < a->n_rows; i++)
        n += x_at(a, i) == x_at(b, i);
    return n;
}

/* Seed and epoch each give another order; a seed of its own is independent of the run's; windows cross each other's
 * borders. */
static void test_seeds(void **unused)
{
    enum { ROWS = 20000, WINDOW = 2000 };
    uint64_t own = 5;
    hr_table *in = numbers(0, ROWS), *plain = shuffled(WINDOW, NULL, 0, 0, in, NULL);
    hr_table *others[] = { in, shuffled(WINDOW, NULL, 1, 0, in, NULL), shuffled(WINDOW, NULL, 0, 1, in, NULL),
                           shuffled(WINDOW, &own, 0, 0, in, NULL), shuffled(WINDOW, &own, 0, 1, in, NULL) };
    hr_table *again = shuffled(WINDOW, &own, 9, 0, in, NULL);
    int64_t crossed = 0;

    (void)unused;
    for (int i = 0; i < HR_LEN(others); i++)
        assert_in_range(same_places(plain, others[i]), 0, 60); /* about ROWS / WINDOW = 10 by chance */
    assert_in_range(same_places(others[3], others[4]), 0, 60);
    assert_true(tables_equal(others[3], again));
    for (int64_t i = 0; i < ROWS; i++)
        crossed += x_at(plain, i) / WINDOW != i / WINDOW;
    assert_in_range(crossed, ROWS / 4, 3 * ROWS / 4);
    unref_all(others, HR_LEN(others));
    hr_table_unref(again);
    hr_table_unref(plain);
}

/* The order itself is what positions depend on: it must never change. */
static void test_order_that_stays(void **unused)
{
    static const int64_t want[] = { 0, 2, 4, 5, 3, 6, 8, 9, 1, 10, 7, 11 };
    uint64_t seed = 1;
    hr_table *in = numbers(0, HR_LEN(want)), *out = shuffled(6, &seed, 0, 0, in, NULL);

    (void)unused;
    for (int i = 0; i < HR_LEN(want); i++)
        assert_int_equal(x_at(out, i), want[i]);
    hr_table_unref(out);
    hr_table_unref(in);
}

/* Nor that of windows of several leaves, whether each comes as one pick list, which is drawn where it is gathered, or
 * as several. */
static void test_large_order_that_stays(void **unused)
{
    enum { ROWS = 280000 };
    static const int64_t limits[] = { 0, 60 << 20 };
    static const char *const want = "0017afbd2df3c17f";
    hr_table *in = numbers(0, ROWS), *out[2];
    uint64_t seed = 1;
    hr_op *op = shuffle(140000, &seed);

    (void)unused;
    for (int k = 0; k < HR_LEN(limits); k++) {
        hr_account *account = hr__account_new("shuffle", NULL, limits[k]);
        hr_error err = HR_ERROR_INIT;
        char text[40];
        hr_bits128 sum;
        int n_lists;
        hr_hash h;
        rig r = { 0 };

        assert_ok(rig_open(&r, op, NULL, &err), &err);
        r.run.account = account;
        assert_ok(rig_push(&r, in, &err), &err);
        assert_ok(rig_finish(&r, &err), &err);
        n_lists = rig_tables(&r);
        out[k] = rows_of(&r, 0);
        assert_int_equal(out[k]->n_rows, ROWS);
        assert_true(k ? n_lists > 8 : n_lists <= 4);
        hr__hash_init(&h, 0);
        for (int64_t i = 0; i < ROWS; i++)
            hr__hash_int(&h, x_at(out[k], i));
        sum = hr__hash_end(&h);
        snprintf(text, sizeof text, "%016" PRIx64, sum.lo);
        assert_string_equal(text, want);
        rig_close(&r);
        hr__account_unref(account);
    }
    assert_true(tables_equal(out[0], out[1]));
    unref_all(out, 2);
    hr__op_unref(op);
    hr_table_unref(in);
}

/* Pushes the rows of `in` from `at` on in random parts, with markers at random places. */
static void push_with_markers(rig *r, const hr_table *in, int64_t at, int64_t longest, uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;

    while (at < in->n_rows) {
        int64_t n = 1 + random_below(random, HR_MIN(in->n_rows - at, longest));
        hr_table *part = slice(in, at, n);

        if (random_below(random, 3))
            assert_ok(rig_mark(r, at, &err), &err);
        assert_ok(rig_push(r, part, &err), &err);
        at += n;
        hr_table_unref(part);
    }
    assert_ok(rig_finish(r, &err), &err);
}

static void check_tail(const rig *whole, int item, const rig *tail)
{
    hr_table *want = rows_of(whole, item), *got = rows_of(tail, 0);

    assert_true(want ? got && tables_equal(want, got) : !got);
    hr_table_unref(want);
    hr_table_unref(got);
}

/* From every marker of a run, and from every marker of the run that began there. */
static void test_resume(void **unused)
{
    static const int64_t windows[] = { 1, 300, 9000, 16384, 17001, 65543 }, longest[] = { 6000, 30000, 100 };
    uint64_t random = 7;

    (void)unused;
    for (int round = 0; round < 6; round++) {
        int64_t most = longest[round % HR_LEN(longest)], window = windows[round % HR_LEN(windows)];
        hr_table *in = numbers(3, (window > 60000 ? 90000 : 40000) + random_below(&random, 20000));
        hr_op *op = shuffle(window, NULL);
        int n_markers = 0;
        rig whole = { 0 };

        assert_int_equal(rig_open(&whole, op, NULL, NULL), HR_OK);
        push_with_markers(&whole, in, 0, most, &random);
        for (int i = 0; i < whole.n_out; i++) {
            rig tail = { 0 };

            if (!whole.out[i].marker)
                continue;
            n_markers++;
            assert_int_equal(rig_open(&tail, op, NULL, NULL), HR_OK);
            assert_int_equal(rig_restore(&tail, whole.out[i].state, NULL), HR_OK);
            push_with_markers(&tail, in, whole.out[i].marker->at, most, &random);
            check_tail(&whole, i, &tail);
            for (int k = 0; k < tail.n_out; k++) {
                rig again = { 0 };

                if (!tail.out[k].marker)
                    continue;
                assert_int_equal(rig_open(&again, op, NULL, NULL), HR_OK);
                assert_int_equal(rig_restore(&again, tail.out[k].state, NULL), HR_OK);
                push_with_markers(&again, in, tail.out[k].marker->at, most, &random);
                check_tail(&tail, k, &again);
                rig_close(&again);
            }
            rig_close(&tail);
        }
        assert_in_range(n_markers, 1, 5);
        rig_close(&whole);
        hr__op_unref(op);
        hr_table_unref(in);
    }
}

/* A marker goes on when all that it would give again is out, and says where: never more than two chunks before the rows
 * to come. */
static void test_marker_states(void **unused)
{
    hr_table *in = numbers(0, 70000), *a = slice(in, 0, 10000), *b = slice(in, 10000, 30000),
             *c = slice(in, 40000, 30000);
    hr_op *op = shuffle(20000, NULL);
    rig r = { 0 };
    int last = -1;

    (void)unused;
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    assert_int_equal(rig_mark(&r, 0, NULL), HR_OK);
    assert_int_equal(rig_push(&r, a, NULL), HR_OK);
    assert_int_equal(rig_mark(&r, 10000, NULL), HR_OK);
    assert_int_equal(r.n_out, 0);
    assert_int_equal(rig_push(&r, b, NULL), HR_OK); /* chunks 0 and 1 are full */
    for (int i = 0; i < r.n_out; i++)
        last = r.out[i].marker ? i : last;
    assert_string_equal(r.out[last].state, "chunk=1 skip=10000");
    assert_int_equal(r.out[last].marker->at, 10000);
    assert_int_equal(rig_mark(&r, 40000, NULL), HR_OK);
    assert_int_equal(rig_push(&r, c, NULL), HR_OK);
    for (int i = 0; i < r.n_out; i++)
        last = r.out[i].marker ? i : last;
    assert_string_equal(r.out[last].state, "chunk=2 skip=0");
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(a);
    hr_table_unref(b);
    hr_table_unref(c);
    hr_table_unref(in);
}

/* Tables of a few rows, thousands of them, are copied together: a chunk never has more parts than picks can number. */
static void test_small_tables(void **unused)
{
    enum { ROWS = 40000 };
    hr_table *in = numbers(0, ROWS), *want = shuffled(20000, NULL, 0, 0, in, NULL), *got;
    hr_op *op = shuffle(20000, NULL);
    rig r = { 0 };

    (void)unused;
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    for (int64_t at = 0, n; at < ROWS; at += n) {
        n = at % 1000 ? HR_MIN(3, ROWS - at) : 200;
        hr_table *part = slice(in, at, n);

        assert_int_equal(rig_push(&r, part, NULL), HR_OK);
        hr_table_unref(part);
    }
    assert_int_equal(rig_finish(&r, NULL), HR_OK);
    for (int i = 0; i < r.n_out; i++) {
        hr_payload *list = NULL;

        if (r.out[i].table) {
            assert_ok(hr__table_payload(r.out[i].table, &hr__pick_list_class, &list, NULL), NULL);
            assert_in_range(((hr_pick_list *)list)->after->n_parts, 1, 1100);
        }
    }
    got = rows_of(&r, 0);
    assert_true(tables_equal(got, want));
    hr_table_unref(got);
    hr_table_unref(want);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_refusals(void **unused)
{
    static const char *const bad[] = { "", "chunk=1", "skip=0", "chunk=-1 skip=0", "chunk=9000000000000000000 skip=0" };
    hr_table *in = numbers(0, 20000), *renamed = NULL;
    hr_account *small = hr__account_new("small", NULL, 100000);
    hr_error err = HR_ERROR_INIT;
    static const char *const sx[] = { "s", "x" };
    hr_op *op = NULL, *gather = NULL, *swap = NULL;
    rig r = { 0 }, q = { 0 }, p = { 0 };

    (void)unused;
    assert_status(hr__op_local_shuffle(0, NULL, &op, &err), HR_INVALID, &err);
    assert_contains(err.text, "0 rows");
    assert_status(hr__op_local_shuffle(INT64_MAX, NULL, &op, &err), HR_INVALID, &err);
    op = shuffle(1000, NULL);
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    for (int i = 0; i < HR_LEN(bad); i++)
        assert_status(rig_restore(&r, bad[i], &err), HR_INVALID, &err);
    assert_int_equal(rig_restore(&r, "chunk=3 skip=5", NULL), HR_OK);
    hr_table *few = slice(in, 0, 100);
    assert_int_equal(rig_push(&r, few, NULL), HR_OK);
    assert_status(rig_finish(&r, &err), HR_MISMATCH, &err); /* a position after the end of the rows */
    hr_table_unref(few);
    rig_close(&r);
    assert_int_equal(hr__op_project(sx, NULL, 2, &swap, NULL), HR_OK);
    assert_int_equal(rig_open(&p, swap, NULL, NULL), HR_OK);
    assert_int_equal(rig_push(&p, in, NULL), HR_OK);
    renamed = rig_table(&p, 0);
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    assert_int_equal(rig_push(&r, renamed, NULL), HR_OK);
    assert_status(rig_push(&r, in, &err), HR_TYPE, &err);
    assert_contains(err.text, "local_shuffle: ");
    rig_close(&r);
    rig_close(&p);
    assert_int_equal(rig_open(&r, op, NULL, NULL), HR_OK);
    r.run.account = small;
    assert_status(rig_push(&r, in, &err), HR_BUDGET, &err);
    assert_contains(err.text, "the memory limit is 100000");
    rig_close(&r);
    assert_int_equal(hr__op_local_gather(&gather, NULL), HR_OK);
    assert_int_equal(rig_open(&q, gather, NULL, NULL), HR_OK);
    assert_status(rig_push(&q, in, &err), HR_BUG, &err);
    rig_close(&q);
    hr__op_unref(gather);
    hr__op_unref(swap);
    hr__op_unref(op);
    hr__account_unref(small);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static hr_status run_of(int64_t window, hr_table **parts, hr_error *err)
{
    hr_table *out = NULL;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_local_shuffle(window, NULL, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_mark(&r, 0, err));
    for (int i = 0; i < 3; i++)
        HR_GO(rig_push(&r, parts[i], err));
    HR_GO(rig_mark(&r, 18012, err));
    HR_GO(rig_finish(&r, err));
    for (int i = 0; i < r.n_out && !st; i++)
        if (r.out[i].table) {
            st = gathered(r.out[i].table, &out, err);
            hr_table_unref(out);
            out = NULL;
        }
done:
    rig_close(&r);
    hr__op_unref(op);
    return st;
}

static hr_status one_run(void *context, hr_error *err) { return run_of(500, context, err); }
static hr_status large_run(void *context, hr_error *err) { return run_of(65536, context, err); }

static void test_faults(void **unused)
{
    hr_table *parts[3] = { numbers(0, 6), numbers(6, 6), numbers(12, 18000) };
    hr_table *many[3] = { numbers(0, 6), numbers(6, 30000), numbers(30006, 36000) };

    (void)unused;
    run_with_faults_on(one_run, parts, HR_FAULT_MEMORY);
    run_with_faults_on(large_run, many, HR_FAULT_MEMORY);
    unref_all(parts, 3);
    unref_all(many, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_large_windows),
        cmocka_unit_test(test_seeds),
        cmocka_unit_test(test_order_that_stays),
        cmocka_unit_test(test_large_order_that_stays),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_marker_states),
        cmocka_unit_test(test_small_tables),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
