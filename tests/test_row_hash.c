/* test_row_hash.c - equal rows have equal hashes, others hardly ever. */
#include "arrays.h"
#include "data/keys.h"

#include <stdio.h>
#include <stdlib.h>

static uint64_t hash_of(const hr_table *t, int64_t row)
{
    uint64_t h = 0;

    hr__rows_hash(t, NULL, t->schema->n, row, 1, &h);
    return h;
}

static hr_table *table_of(hr_array *a)
{
    hr_field f = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL;

    assert_ok(hr__field_init(&f, "key", a->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &s, NULL), NULL);
    assert_ok(hr__table_new(s, &a, a->length, NULL, &t, NULL), NULL);
    hr__field_clear(&f);
    hr__schema_unref(s);
    return t;
}

/* Of every type: whole columns as rows alone, copies as originals, and unequal rows differ. */
static void test_types(void **unused)
{
    uint64_t random = 21;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *types[2] = { sample_type(k), sample_type((k * 7 + 3) % n_sample_types()) };
        const int second[] = { 1 };
        enum { N = 40 };

        for (int round = 0; round < 3; round++) {
            hr_table *t = random_table(&random, types, 2, N), *copy = NULL;
            uint64_t all[N], again[N], one[N], idx[N];

            for (int i = 0; i < N; i++)
                idx[i] = (uint64_t)i;
            assert_ok(hr__table_take(NULL, t, idx, 8, N, &copy, NULL), NULL);
            hr__rows_hash(t, NULL, 2, 0, N, all);
            hr__rows_hash(copy, NULL, 2, 0, N, again);
            assert_memory_equal(all, again, sizeof all);
            hr__rows_hash(t, second, 1, 0, N, one);
            for (int i = 0; i < N; i++) {
                assert_int_equal(hash_of(t, i), all[i]);
                for (int j = 0; j < N; j++) {
                    bool same = hr__rows_equal(t, NULL, i, copy, NULL, j, 2);

                    assert_int_equal(same, all[i] == all[j]);
                    assert_int_equal(hr__rows_equal(t, second, i, copy, second, j, 1), one[i] == one[j]);
                }
            }
            hr_table_unref(copy);
            hr_table_unref(t);
        }
        hr__type_unref(types[0]);
        hr__type_unref(types[1]);
    }
}

static void test_floats(void **unused)
{
    static const hr_type_id ids[] = { HR_T_FLOAT16, HR_T_FLOAT32, HR_T_FLOAT64 };

    (void)unused;
    for (int k = 0; k < HR_LEN(ids); k++) {
        hr_builder *b = builder_of(hr__type_simple(ids[k]));
        hr_table *t;

        assert_ok(hr__builder_double(b, 0.0, NULL), NULL);
        assert_ok(hr__builder_double(b, -0.0, NULL), NULL);
        assert_ok(hr__builder_double(b, 0.0 / 0.0, NULL), NULL);
        assert_ok(hr__builder_double(b, -(0.0 / 0.0), NULL), NULL);
        assert_ok(hr__builder_null(b, NULL), NULL);
        assert_ok(hr__builder_null(b, NULL), NULL);
        assert_ok(hr__builder_double(b, 1.0, NULL), NULL);
        assert_ok(hr__builder_double(b, -1.0, NULL), NULL);
        t = table_of(finish(b));
        for (int i = 0; i < 8; i++)
            for (int j = 0; j < 8; j++) {
                bool same = i == j || (i < 6 && i / 2 == j / 2);

                assert_int_equal(hash_of(t, i) == hash_of(t, j), same);
                assert_int_equal(hr__rows_equal(t, NULL, i, t, NULL, j, 1), same);
            }
        hr_table_unref(t);
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* No collisions among many rows that look alike, and every bit is set about half the time. */
static void test_quality(void **unused)
{
    enum { N = 20000 };
    uint64_t *h = test_malloc(N * sizeof *h);
    int64_t *values = test_malloc(N * sizeof *values);

    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        int64_t ones[64] = { 0 };
        hr_table *t;

        if (kind < 2) {
            for (int64_t i = 0; i < N; i++)
                values[i] = kind ? i << 40 : i;
            t = table_of(array_of_ints(values, N));
        } else {
            hr_builder *b = builder_of(hr__type_simple(HR_T_STRING));
            char text[64];

            for (int i = 0; i < N; i++)
                assert_ok(hr__builder_bytes(b, text, snprintf(text, sizeof text, "%0*d", 1 + i % 40, i), NULL), NULL);
            t = table_of(finish(b));
        }
        hr__rows_hash(t, NULL, 1, 0, N, h);
        for (int64_t i = 0; i < N; i++)
            for (int bit = 0; bit < 64; bit++)
                ones[bit] += h[i] >> bit & 1;
        for (int bit = 0; bit < 64; bit++)
            assert_in_range(ones[bit], N / 2 - N / 25, N / 2 + N / 25);
        qsort(h, N, sizeof *h, compare);
        for (int64_t i = 1; i < N && kind < 2; i++)
            assert_int_not_equal(h[i], h[i - 1]);
        hr_table_unref(t);
    }
    test_free(h);
    test_free(values);
}

/* Disks and positions hold rows divided by these hashes: the values must never change. */
static void test_fixed(void **unused)
{
    static const int64_t ints[] = { 0, 1, -1 };
    static const char *const texts[] = { "", "headrace", "a longer text than sixteen bytes" };
    hr_table *a = table_of(array_of_ints(ints, 3)), *b = table_of(array_of_strings(texts, 3));
    uint64_t h[6];

    (void)unused;
    hr__rows_hash(a, NULL, 1, 0, 3, h);
    hr__rows_hash(b, NULL, 1, 0, 3, h + 3);
    static const uint64_t want[6] = { 0xB5A01BD76725BE05, 0x760626F51AB8223D, 0x352C5B9776263E29,
                                      0xD6D5E4A6D2341206, 0xD3639D57A9A70EC7, 0xF747929BBE916792 };
    for (int i = 0; i < 6; i++)
        if (h[i] != want[i])
            fail_msg("hash %d is 0x%016llX", i, (unsigned long long)h[i]);
    hr_table_unref(a);
    hr_table_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_quality),
        cmocka_unit_test(test_fixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
