/* test_partition_store.c - partitions give what they got, in order, wherever it lay meanwhile. */
#include "arrays.h"
#include "op/store/partition_store.h"
#include "task_harness.h"

typedef struct kept {
    hr_table *tables[200];
    int n;
} kept;

static hr_table *rows_of(kept *k) { return k->n ? join(k->tables, k->n) : NULL; }

static hr_status read_part(hr_partition_store *s, int part, bool drain, kept *out, hr_error *err)
{
    hr_partition_store_cursor c = { .store = s, .part = part, .drain = drain };
    hr_mem mem = { 0 };

    out->n = 0;
    for (;;) {
        hr_table *t = NULL;

        HR_TRY(hr__partition_store_next(&c, &mem, &t, err));
        if (!t)
            return HR_OK;
        out->tables[out->n++] = t;
    }
}

static bool same_values(const hr_table *a, const hr_table *b)
{
    for (int i = 0; i < a->schema->n; i++)
        if (!hr__array_equal(a->columns[i], b->columns[i]))
            return false;
    return a->n_rows == b->n_rows;
}

/* Random adds and spills, tables small and large, one partition much larger; then all of it, in order, twice. */
static void test_random(void **unused)
{
    enum { PARTS = 5 };
    uint64_t random = 41;

    (void)unused;
    for (int round = 0; round < repeats(40); round++) {
        live_memory before = live_now();
        kept want[PARTS] = { 0 }, got = { 0 };
        hr_error err = HR_ERROR_INIT;
        hr_table *first = numbers(0, 1);
        hr_spill_file *spill = NULL;
        hr_partition_store *s = NULL;
        int64_t at = 0;

        assert_ok(hr__spill_file_new(test_dir, "test", NULL, &spill, &err), &err);
        assert_ok(hr__partition_store_new(PARTS, first->schema, spill, NULL, &s, &err), &err);
        for (int i = 0; i < 60; i++) {
            int drawn = (int)random_below(&random, 2 * PARTS), part = HR_MIN(drawn, PARTS - 1);
            int64_t n = random_below(&random, 10) ? random_below(&random, 50) : random_below(&random, 20000);
            hr_table *t = numbers(at, n);

            at += n;
            if (n)
                want[part].tables[want[part].n++] = hr_table_ref(t);
            assert_ok(hr__partition_store_add(s, part, t, &err), &err);
            if (random_below(&random, 8) == 0) {
                int64_t keep = random_below(&random, 200000);

                assert_ok(hr__partition_store_spill(s, keep, &err), &err);
                assert_true(hr__partition_store_held(s) <= keep);
            }
        }
        for (int pass = 0; pass < 2; pass++) {
            for (int p = PARTS; p-- > 0;) {
                hr_table *a = rows_of(&want[p]), *b;
                int64_t rows = a ? a->n_rows : 0;

                assert_int_equal(hr__partition_store_size(s, p).rows, rows);
                assert_ok(read_part(s, p, pass == 1, &got, &err), &err);
                b = rows_of(&got);
                assert_true(!a == !b && (!a || same_values(a, b)));
                hr_table_unref(a);
                hr_table_unref(b);
                unref_all(got.tables, got.n);
            }
        }
        assert_int_equal(hr__spill_file_counts(spill).live_bytes, 0); /* drained */
        for (int p = 0; p < PARTS; p++)
            unref_all(want[p].tables, want[p].n);
        hr__partition_store_free(s);
        hr__spill_file_unref(spill);
        hr_table_unref(first);
        assert_no_leak(before);
    }
}

/* Small tables are joined, large ones cut. */
static void test_pages(void **unused)
{
    hr_table *small = numbers(0, 10), *large = numbers(0, 200000);
    hr_error err = HR_ERROR_INIT;
    kept got = { 0 };
    hr_spill_file *spill = NULL;
    hr_partition_store *s = NULL;

    (void)unused;
    assert_ok(hr__spill_file_new(test_dir, "test", NULL, &spill, &err), &err);
    assert_ok(hr__partition_store_new(2, small->schema, spill, NULL, &s, &err), &err);
    for (int i = 0; i < 100; i++)
        assert_ok(hr__partition_store_add(s, 0, hr_table_ref(small), &err), &err);
    assert_ok(hr__partition_store_add(s, 1, hr_table_ref(large), &err), &err);
    assert_ok(hr__partition_store_spill(s, 0, &err), &err);
    assert_ok(read_part(s, 0, false, &got, &err), &err);
    assert_int_equal(got.n, 1);
    assert_int_equal(got.tables[0]->n_rows, 1000);
    unref_all(got.tables, got.n);
    assert_ok(read_part(s, 1, false, &got, &err), &err);
    assert_true(got.n >= hr__table_bytes_used(large) / HR_PARTITION_STORE_PAGE);
    for (int i = 0; i < got.n; i++)
        assert_true(hr__table_bytes_used(got.tables[i]) < HR_PARTITION_STORE_PAGE * 5 / 4);
    unref_all(got.tables, got.n);
    hr__partition_store_free(s);
    hr__spill_file_unref(spill);
    hr_table_unref(small);
    hr_table_unref(large);
}

/* Rows by the top bits of their hashes, each part in its order, none with coordinates, and what a store gives of one
 * part. */
static hr_status partition_all(void *context, hr_error *err)
{
    enum { PARTS = 16 };
    const hr_mem mem = { 0 };
    hr_table *t = context, *divided = NULL, *one = NULL;
    uint64_t *hashes = hr__alloc(NULL, (size_t)t->n_rows * sizeof *hashes);
    int64_t begins[PARTS + 1];
    hr_spill_file *spill = NULL;
    hr_partition_store *s = NULL;
    hr_status st = HR_OK;

    if (!hashes)
        HR_GO(hr__error_memory(err, "hashes", t->n_rows * 8));
    for (int64_t i = 0; i < t->n_rows; i++)
        hashes[i] = (uint64_t)(x_at(t, i) * 7 % PARTS) << 60;
    HR_GO(hr__partition_rows(t, hashes, 60, PARTS, &mem, begins, &divided, err));
    assert_null(divided->origin);
    assert_int_equal(begins[0], 0);
    assert_int_equal(begins[PARTS], t->n_rows);
    for (int p = 0; p < PARTS; p++)
        for (int64_t i = begins[p]; i < begins[p + 1]; i++) {
            assert_int_equal(x_at(divided, i) * 7 % PARTS, p);
            assert_true(i == begins[p] || x_at(divided, i - 1) < x_at(divided, i));
        }
    HR_GO(hr__spill_file_new(test_dir, "test", NULL, &spill, err));
    HR_GO(hr__partition_store_new(PARTS, t->schema, spill, NULL, &s, err));
    HR_GO(hr__partition_store_add_slices(s, divided, begins, PARTS, err));
    HR_GO(hr__partition_store_load(s, 5, &mem, &one, err));
    assert_int_equal(one->n_rows, begins[6] - begins[5]);
    assert_int_equal(x_at(one, 0), x_at(divided, begins[5]));
done:
    hr_table_unref(one);
    hr_table_unref(divided);
    hr__partition_store_free(s);
    hr__spill_file_unref(spill);
    hr__free(hashes);
    return st;
}

static void test_partition_rows(void **unused)
{
    hr_table *t = numbers(7, 1000);
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    assert_non_null(t->origin);
    assert_ok(partition_all(t, &err), &err);
    run_with_faults_on(partition_all, t, HR_FAULT_MEMORY | HR_FAULT_IO);
    hr_table_unref(t);
}

static hr_status use_store(void *context, hr_error *err)
{
    hr_table *t = context;
    hr_partition_store *s = NULL;
    hr_spill_file *spill = NULL;
    hr_status st = HR_OK;
    kept got = { 0 };

    HR_GO(hr__spill_file_new(test_dir, "test", NULL, &spill, err));
    HR_GO(hr__partition_store_new(2, t->schema, spill, NULL, &s, err));
    for (int i = 0; i < 6; i++) {
        HR_GO(hr__partition_store_add(s, i % 2, hr_table_ref(t), err));
        if (i % 3 == 2)
            HR_GO(hr__partition_store_spill(s, 0, err));
    }
    HR_GO(hr__partition_store_add(s, 0, hr_table_ref(t), err));
    HR_GO(read_part(s, 0, true, &got, err));
    for (int i = 0, rows = 0; i < got.n; rows += (int)got.tables[i++]->n_rows)
        if (i == got.n - 1)
            assert_int_equal(rows + got.tables[i]->n_rows, 4 * t->n_rows);
done:
    unref_all(got.tables, got.n);
    hr__partition_store_free(s);
    if (spill && hr__spill_file_counts(spill).live_bytes)
        fail_msg("something is left on the disk");
    hr__spill_file_unref(spill);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *t = numbers(0, 100);

    (void)unused;
    run_with_faults_on(use_store, t, HR_FAULT_MEMORY | HR_FAULT_IO);
    hr_table_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_partition_rows),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, test_dir_new, test_dir_free);
}
