/* test_batch_cutter.c - what a function sees does not depend on how readers cut. */
#include "task_harness.h"
#include "op/call.h"

#include <stdlib.h>

#define MAX_PARTS 60
#define MAX_PIECES 400

typedef struct cut {
    hr_table *tables[MAX_PIECES];
    int64_t ordinals[MAX_PIECES];
    int n;
} cut;

static void collect(hr_batch_cutter *p, bool last, cut *out)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    int64_t ordinal = -1;

    while (assert_ok(hr__batch_cutter_next(p, last, &t, &ordinal, &err), &err), t) {
        assert_true(out->n < MAX_PIECES);
        out->ordinals[out->n] = ordinal;
        out->tables[out->n++] = t;
    }
}

static cut pieces_of(hr_table *const *parts, int n, int64_t rows, int64_t bytes)
{
    const hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_batch_cutter *p = NULL;
    cut out = { .n = 0 };

    assert_ok(hr__batch_cutter_new(rows, bytes, &mem, &p, &err), &err);
    for (int i = 0; i < n; i++) {
        assert_ok(hr__batch_cutter_add(p, parts[i], &err), &err);
        collect(p, false, &out);
    }
    collect(p, true, &out);
    hr__batch_cutter_free(p);
    return out;
}

static void assert_same(const cut *a, const cut *b)
{
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) {
        assert_int_equal(a->ordinals[i], b->ordinals[i]);
        assert_true(tables_equal(a->tables[i], b->tables[i]));
    }
}

static int64_t block_at(const hr_table *t, int64_t i, int64_t rows) { return hr__origin_at(t->origin, i).row / rows; }

/* Each batch within one block and not too long, all rows there, in order. */
static void check_pieces(const cut *c, const hr_table *in, int64_t rows)
{
    hr_table *all = c->n ? join(c->tables, c->n) : hr_table_ref((hr_table *)in);

    for (int i = 0; i < c->n; i++) {
        const hr_table *t = c->tables[i];

        assert_in_range(t->n_rows, 1, rows);
        assert_int_equal(c->ordinals[i] & ((INT64_C(1) << 40) - 1), block_at(t, 0, rows));
        for (int64_t k = 1; k < t->n_rows; k++) {
            hr_coord a = hr__origin_at(t->origin, 0), b = hr__origin_at(t->origin, k);

            assert_true(a.file == b.file && a.fragment == b.fragment);
            assert_int_equal(block_at(t, k, rows), block_at(t, 0, rows));
        }
    }
    assert_true(tables_equal(all, in));
    hr_table_unref(all);
}

/* Some rows of `in`, as a filter leaves them. */
static hr_table *some_rows(const hr_table *in, uint64_t *random)
{
    const hr_mem mem = { NULL, NULL };
    int64_t *index = malloc(((size_t)in->n_rows + 1) * sizeof *index), n = 0, chance = 1 + random_below(random, 4);
    hr_table *t = NULL;

    assert_non_null(index);
    for (int64_t i = 0; i < in->n_rows; i++)
        if (random_below(random, chance) == 0)
            index[n++] = i;
    assert_ok(hr__table_take(&mem, in, index, 8, n, &t, NULL), NULL);
    free(index);
    return t;
}

/* Rows of several fragments, some missing, some become many (by ordinal). */
static hr_table *make_input(uint64_t *random)
{
    hr_table *parts[4], *all, *some, *out = NULL;
    hr_run_coords runs[60];
    hr_origin *origin = NULL;
    int64_t at = 0;
    int n = 0;

    for (int i = 0; i < 4; i++)
        parts[i] = numbers_at(i / 2, i % 2, random_below(random, 20), 1 + random_below(random, 60));
    all = join(parts, 4);
    unref_all(parts, 4);
    if (random_below(random, 2)) {
        some = some_rows(all, random);
        hr_table_unref(all);
        return some;
    }
    while (at < all->n_rows && n < HR_LEN(runs)) {
        int64_t left = all->n_rows - at, some_many = 1 + random_below(random, 30), rows = HR_MIN(left, some_many);
        bool many = random_below(random, 2);

        runs[n] =
            (hr_run_coords){ .first = { .fragment = n / 8, .row = n * 3 }, .n = many ? rows : 1, .by_ordinal = many };
        at += runs[n++].n;
    }
    assert_ok(hr__origin_new(runs, n, &origin, NULL), NULL);
    some = slice(all, 0, HR_MIN(at, all->n_rows));
    if (at == some->n_rows)
        assert_ok(hr__table_with_origin(some, origin, &out, NULL), NULL);
    else
        out = hr_table_ref(some);
    hr__origin_unref(origin);
    hr_table_unref(some);
    hr_table_unref(all);
    return out;
}

static void test_cuts_do_not_matter(void **unused)
{
    static const int64_t bytes[] = { 0, 1, 100, 400, 5000 };
    uint64_t random = 3;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 400; round++) {
        hr_table *in = make_input(&random), *parts[MAX_PARTS];
        int64_t rows = 1 + random_below(&random, 30), limit = bytes[random_below(&random, HR_LEN(bytes))];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        cut whole = pieces_of(&in, 1, rows, limit), cuts = pieces_of(parts, n, rows, limit);

        assert_same(&whole, &cuts);
        check_pieces(&whole, in, rows);
        unref_all(whole.tables, whole.n);
        unref_all(cuts.tables, cuts.n);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* The same again through buffers that are laid out in another way. */
static void test_layout_does_not_matter(void **unused)
{
    uint64_t random = 11;

    (void)unused;
    for (int round = 0; round < 50; round++) {
        hr_table *wide = numbers(0, 200), *in = slice(wide, random_below(&random, 50), 100), *copy = join(&in, 1);
        int64_t limit = 50 + random_below(&random, 500);
        cut a = pieces_of(&in, 1, 64, limit), b = pieces_of(&copy, 1, 64, limit);

        assert_same(&a, &b);
        assert_true(a.n > 2);
        unref_all(a.tables, a.n);
        unref_all(b.tables, b.n);
        hr_table_unref(wide);
        hr_table_unref(in);
        hr_table_unref(copy);
    }
}

/* The operator that cuts so above a limit or a union. */
static void test_blocks(void **unused)
{
    uint64_t random = 17;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 40; round++) {
        hr_table *in = make_input(&random), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        cut want = pieces_of(&in, 1, 16, 0);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        rig r = { 0 };

        assert_ok(hr__op_blocks(16, &op, &err), &err);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        assert_int_equal(rig_tables(&r), want.n);
        for (int i = 0; i < want.n; i++)
            assert_true(tables_equal(rig_table(&r, i), want.tables[i]));
        rig_close(&r);
        hr__op_unref(op);
        unref_all(want.tables, want.n);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

static void test_whole_tables_are_shared(void **unused)
{
    hr_table *a = numbers(0, 8), *b = numbers(8, 8);
    hr_table *both[2] = { a, b };
    cut c = pieces_of(both, 2, 8, 0);

    (void)unused;
    assert_int_equal(c.n, 2);
    assert_ptr_equal(c.tables[0], a);
    assert_ptr_equal(c.tables[1], b);
    assert_int_equal(c.ordinals[1], 1);
    unref_all(c.tables, c.n);
    unref_all(both, 2);
}

static void test_large_rows_stand_alone(void **unused)
{
    hr_table *in = numbers(0, 10);
    cut c = pieces_of(&in, 1, 8, 1);

    (void)unused;
    assert_int_equal(c.n, 10);
    assert_int_equal(c.ordinals[7], INT64_C(7) << 40);
    assert_int_equal(c.ordinals[9], 1 | INT64_C(1) << 40);
    unref_all(c.tables, c.n);
    hr_table_unref(in);
}

static void test_no_origin(void **unused)
{
    hr_table *in = numbers(0, 3), *bare = NULL;
    const hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_batch_cutter *p = NULL;

    (void)unused;
    assert_ok(hr__table_with_origin(in, NULL, &bare, &err), &err);
    assert_ok(hr__batch_cutter_new(4, 0, &mem, &p, &err), &err);
    assert_status(hr__batch_cutter_add(p, bare, &err), HR_BUG, &err);
    hr__batch_cutter_free(p);
    hr_table_unref(in);
    hr_table_unref(bare);
    hr_error_clear(&err);
}

static hr_status one_run(void *context, hr_error *err)
{
    const hr_mem mem = { NULL, NULL };
    hr_table **parts = context;
    hr_status st = HR_OK;
    hr_batch_cutter *p = NULL;

    HR_GO(hr__batch_cutter_new(8, 300, &mem, &p, err));
    for (int i = 0; i < 3; i++) {
        hr_table *t = NULL;
        int64_t ordinal;

        HR_GO(hr__batch_cutter_add(p, parts[i], err));
        do {
            hr_table_unref(t);
            HR_GO(hr__batch_cutter_next(p, i == 2, &t, &ordinal, err));
        } while (t);
    }
done:
    hr__batch_cutter_free(p);
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
        cmocka_unit_test(test_cuts_do_not_matter),
        cmocka_unit_test(test_layout_does_not_matter),
        cmocka_unit_test(test_whole_tables_are_shared),
        cmocka_unit_test(test_large_rows_stand_alone),
        cmocka_unit_test(test_no_origin),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
