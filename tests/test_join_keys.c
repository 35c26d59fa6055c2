/* test_join_keys.c - keys of a join as numbers: equal where they are equal, of values that lie close together and far
 * apart. */
#include "arrays.h"

#include "data/keys.h"
#include "op/join/join.h"

#include <stdio.h>

static const char *const types[] = { "int8",         "uint8", "int16",  "uint16",      "int32",
                                     "uint32",       "int64", "uint64", "date32[day]", "timestamp[us, tz=UTC]",
                                     "duration[ms]", "string" };

/* n integers of the type, by their bits, or texts; about every ninth is null. */
static hr_array *array_of(hr_type *type, const int64_t *values, const bool *nulls, int64_t n)
{
    int bytes = hr__type_bytes(type);
    hr_buffer *buffers[3] = { NULL };
    hr_array *a = NULL;
    char text[32];

    if (hr__type_is_bytes(type)) {
        hr_builder *b = builder_of(type);

        for (int64_t i = 0; i < n; i++)
            if (nulls[i])
                assert_ok(hr__builder_null(b, NULL), NULL);
            else
                assert_ok(hr__builder_bytes(b, text, snprintf(text, sizeof text, "%lld", (long long)values[i]), NULL),
                          NULL);
        return finish(b);
    }
    assert_ok(hr__buffer_new(&(hr_mem){ 0 }, hr__bits_bytes(n), &buffers[0], NULL), NULL);
    assert_ok(hr__buffer_new(&(hr_mem){ 0 }, n * bytes, &buffers[1], NULL), NULL);
    memset(buffers[0]->data, 0, (size_t)buffers[0]->n_bytes);
    for (int64_t i = 0; i < n; i++) {
        memcpy(buffers[1]->data + i * bytes, &values[i], (size_t)bytes);
        if (!nulls[i])
            hr__bit_set(buffers[0]->data, i);
    }
    assert_ok(hr__array_new(type, n, -1, buffers, NULL, 0, &a, NULL), NULL);
    return a;
}

/* Values are `base` and up to `spread` more, each `step` apart, in the type's bits. */
static hr_table *table_of(uint64_t *random, hr_type *type, int64_t base, int64_t spread, int64_t step, int64_t n)
{
    hr_field field = { 0 };
    hr_schema *schema = NULL;
    int64_t values[256];
    bool nulls[256];
    hr_array *column;
    hr_table *t = NULL;

    for (int64_t i = 0; i < n; i++) {
        values[i] = (int64_t)((uint64_t)base + (uint64_t)random_below(random, spread) * (uint64_t)step);
        nulls[i] = random_below(random, 9) == 0;
    }
    column = array_of(type, values, nulls, n);
    assert_ok(hr__field_init(&field, "k", type, true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, &column, n, NULL, &t, NULL), NULL);
    hr__schema_unref(schema);
    hr__field_clear(&field);
    return t;
}

static bool equal_rows(const hr_table *a, int64_t i, const hr_table *b, int64_t k)
{
    static const int column[] = { 0 };

    return !hr__array_is_null(a->columns[0], i) && hr__rows_equal(a, column, i, b, column, k, 1);
}

static void check(const hr_table *right, const hr_table *left)
{
    static const int column[] = { 0 };
    uint32_t ids[256], again[256], found[256];
    hr_join_keys *k = NULL;

    assert_ok(hr__join_keys_new(right, column, 1, NULL, NULL, ids, &k, NULL), NULL);
    hr__join_keys_find(k, right, column, 0, right->n_rows, again);
    assert_memory_equal(ids, again, (size_t)right->n_rows * sizeof *ids);
    for (int64_t at = 0; at < left->n_rows; at += 50)
        hr__join_keys_find(k, left, column, at, HR_MIN(50, left->n_rows - at), found + at);
    for (int64_t i = 0; i < right->n_rows; i++) {
        assert_true(ids[i] == HR_NO_KEY || ids[i] < hr__join_keys_n(k));
        assert_int_equal(ids[i] == HR_NO_KEY, hr__array_is_null(right->columns[0], i));
        for (int64_t j = 0; j < i; j++)
            assert_int_equal(ids[i] != HR_NO_KEY && ids[i] == ids[j], equal_rows(right, i, right, j));
    }
    for (int64_t i = 0; i < left->n_rows; i++)
        for (int64_t j = 0; j < right->n_rows; j++)
            assert_int_equal(found[i] != HR_NO_KEY && found[i] == ids[j], equal_rows(left, i, right, j));
    hr__join_keys_free(k);
}

static void every_type(void **state)
{
    static const struct {
        int64_t base, spread, step, n;
    } cases[] = {
        { 0, 100, 1, 60 },        { -50, 100, 1, 60 },           { 100, 8, 1, 60 },
        { INT64_MIN, 40, 1, 60 }, { INT64_MAX - 20, 40, 1, 60 }, { -3, 5, INT64_MAX / 4, 60 },
        { 7, 1, 1, 1 },           { 0, 30, 1000, 60 },           { 0, 60, 100000, 60 },
        { 0, 1, 1, 0 },           { 1000, 100000, 1, 20 },
    };
    uint64_t random = 11;

    (void)state;
    for (int k = 0; k < HR_LEN(types); k++) {
        hr_type *type = type_named(types[k]);

        for (int i = 0; i < HR_LEN(cases); i++) {
            hr_table *right = table_of(&random, type, cases[i].base, cases[i].spread, cases[i].step, cases[i].n);
            hr_table *left = table_of(&random, type, cases[i].base, cases[i].spread + 1, cases[i].step, 100);

            check(right, left);
            hr_table_unref(right);
            hr_table_unref(left);
        }
        hr__type_unref(type);
    }
}

/* A row each: numbers are those of rows, where values are close; and where they are not. */
static void one_row_a_key(void **state)
{
    static const int column[] = { 0 };
    int64_t close[] = { 12, -4, 7, INT64_MIN, 0 }, far[] = { 1, 1LL << 40, -9, 3 };
    hr_join_keys *k = NULL;
    uint32_t ids[8];

    (void)state;
    for (int i = 0; i < 2; i++) {
        int64_t n = i ? HR_LEN(far) : HR_LEN(close);
        hr_array *a = array_of_ints(i ? far : close, n);
        hr_field field = { 0 };
        hr_schema *schema = NULL;
        hr_table *t = NULL;

        assert_ok(hr__field_init(&field, "k", a->type, true, NULL), NULL);
        assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
        assert_ok(hr__table_new(schema, &a, n, NULL, &t, NULL), NULL);
        assert_ok(hr__join_keys_new(t, column, 1, NULL, NULL, ids, &k, NULL), NULL);
        for (int64_t r = 0; r < n; r++)
            assert_int_equal(ids[r], !i && r == 3 ? HR_NO_KEY : (uint32_t)r);
        hr__join_keys_free(k);
        hr_table_unref(t);
        hr__schema_unref(schema);
        hr__field_clear(&field);
    }
}

/* So many that the bits of hashes in the slots are sometimes those of another key. */
static void many_keys(void **state)
{
    static const int column[] = { 0 };
    enum { N = 300000 };
    int64_t *values = hr__alloc(NULL, 2 * N * sizeof *values);
    bool *nulls = hr__zalloc(NULL, 2 * N);
    uint32_t *ids = hr__alloc(NULL, 2 * N * sizeof *ids);
    hr_type *type = hr__type_simple(HR_T_INT64);
    hr_field field = { 0 };
    hr_schema *schema = NULL;
    hr_table *right = NULL, *all = NULL;
    hr_join_keys *k = NULL;
    hr_array *a;

    (void)state;
    for (int64_t i = 0; i < 2 * N; i++)
        values[i] = (int64_t)((uint64_t)i * UINT64_C(0x9E3779B97F4A7C15));
    assert_ok(hr__field_init(&field, "k", type, true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    a = array_of(type, values, nulls, 2 * N);
    assert_ok(hr__table_new(schema, &a, 2 * N, NULL, &all, NULL), NULL);
    assert_ok(hr_table_slice(all, 0, N, &right, NULL), NULL);
    assert_ok(hr__join_keys_new(right, column, 1, NULL, NULL, ids, &k, NULL), NULL);
    for (int64_t i = 0; i < N; i++)
        assert_int_equal(ids[i], i);
    hr__join_keys_find(k, all, column, 0, 2 * N, ids);
    for (int64_t i = 0; i < 2 * N; i++)
        assert_int_equal(ids[i], i < N ? (uint32_t)i : HR_NO_KEY);
    hr__join_keys_free(k);
    hr_table_unref(right);
    hr_table_unref(all);
    hr__schema_unref(schema);
    hr__field_clear(&field);
    hr__free(values);
    hr__free(nulls);
    hr__free(ids);
}

/* Keys that come again, and rows without one, in so many rows that slots are in regions; then keys of one region alone,
 * which are more than it holds. */
static void large_tables(void **state)
{
    static const int column[] = { 0 };
    enum { N = 140000, KEYS = 50021 };
    int64_t *values = hr__alloc(NULL, N * sizeof *values), n_found = 0;
    uint32_t *ids = hr__alloc(NULL, N * sizeof *ids), *firsts = hr__zalloc(NULL, N * sizeof *firsts);
    bool *nulls = hr__zalloc(NULL, N);
    hr_type *type = hr__type_simple(HR_T_INT64);

    (void)state;
    for (int way = 0; way < 2; way++) {
        hr_table *t = NULL;
        hr_schema *schema = NULL;
        hr_field field = { 0 };
        hr_join_keys *k = NULL;
        hr_array *a;

        assert_ok(hr__field_init(&field, "k", type, true, NULL), NULL);
        assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
        for (int64_t i = 0; i < N; i++) {
            int64_t key = way ? i / 2 : i % KEYS;

            nulls[i] = i % 1000 == 77;
            values[i] = (int64_t)((uint64_t)key * UINT64_C(0x9E3779B97F4A7C15));
            firsts[i] = nulls[i] ? HR_NO_KEY : (uint32_t)(way ? i & ~1 : i % KEYS);
            if (way && i % 2 && nulls[i - 1])
                firsts[i] = (uint32_t)i;
            for (int64_t e = i % KEYS; !way && !nulls[i] && e < i && nulls[e]; e += KEYS)
                firsts[i] = (uint32_t)(e + KEYS);
        }
        a = array_of(type, values, nulls, N);
        assert_ok(hr__table_new(schema, &a, N, NULL, &t, NULL), NULL);
        assert_ok(hr__join_keys_new(t, column, 1, NULL, NULL, ids, &k, NULL), NULL);
        assert_memory_equal(ids, firsts, N * sizeof *ids);
        hr__join_keys_find(k, t, column, 0, N, ids);
        assert_memory_equal(ids, firsts, N * sizeof *ids);
        hr__join_keys_free(k);
        hr_table_unref(t);
        hr__schema_unref(schema);
        hr__field_clear(&field);
    }
    /* the lowest bits of the hash are the region */
    memset(nulls, 0, N);
    for (int64_t from = 1; n_found < N; from += N) {
        hr_table *t = NULL, *once = NULL;
        uint64_t *hashes = hr__alloc(NULL, N * sizeof *hashes);
        hr_schema *schema = NULL;
        hr_field field = { 0 };
        int64_t *some = hr__alloc(NULL, N * sizeof *some);
        hr_join_keys *k = NULL;
        hr_array *a;

        for (int64_t i = 0; i < N; i++)
            some[i] = (from + i) * 1000003;
        assert_ok(hr__field_init(&field, "k", type, true, NULL), NULL);
        assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
        a = array_of(type, some, nulls, N);
        assert_ok(hr__table_new(schema, &a, N, NULL, &t, NULL), NULL);
        hr__rows_hash(t, column, 1, 0, N, hashes);
        for (int64_t i = 0; i < N && n_found < N; i++)
            if ((hashes[i] & 15) == 5)
                values[n_found++] = some[i];
        if (n_found == N) {
            a = array_of(type, values, nulls, N);
            assert_ok(hr__table_new(schema, &a, N, NULL, &once, NULL), NULL);
            assert_ok(hr__join_keys_new(once, column, 1, NULL, NULL, ids, &k, NULL), NULL);
            for (int64_t i = 0; i < N; i++)
                assert_int_equal(ids[i], i);
            hr__join_keys_find(k, once, column, 0, N, ids);
            for (int64_t i = 0; i < N; i++)
                assert_int_equal(ids[i], i);
            hr__join_keys_free(k);
        }
        hr_table_unref(t);
        hr_table_unref(once);
        hr__schema_unref(schema);
        hr__field_clear(&field);
        hr__free(some);
        hr__free(hashes);
    }
    hr__free(values);
    hr__free(nulls);
    hr__free(ids);
    hr__free(firsts);
}

static hr_table *to_number;

static hr_status number(hr_error *err)
{
    static const int column[] = { 0 };
    uint32_t ids[256];
    hr_join_keys *k = NULL;
    hr_status st = hr__join_keys_new(to_number, column, 1, NULL, NULL, ids, &k, err);

    hr__join_keys_free(k);
    return st;
}

/* By one comparison a row. */
static void check_extremes(const hr_array *a, bool is_signed)
{
    int64_t least = -1, most = -1, found[2];

    for (int64_t i = 0; i < a->length; i++) {
        if (hr__array_is_null(a, i))
            continue;
        if (least < 0 || (is_signed ? hr__array_int(a, i) < hr__array_int(a, least)
                                    : hr__array_uint(a, i) < hr__array_uint(a, least)))
            least = i;
        if (most < 0 ||
            (is_signed ? hr__array_int(a, i) > hr__array_int(a, most) : hr__array_uint(a, i) > hr__array_uint(a, most)))
            most = i;
    }
    assert_int_equal(hr__join_extremes(a, &found[0], &found[1]), least >= 0);
    assert_int_equal(found[0], least);
    assert_int_equal(found[1], most);
}

/* The first row of each extreme; rows without nulls are compared by blocks. */
static void extremes(void **state)
{
    static const int64_t lengths[] = { 0, 1, 2, 1023, 1024, 1025, 5000 };
    static int64_t values[5000];
    static bool nulls[5000];
    uint64_t random = 5;

    (void)state;
    for (int k = 0; k < HR_LEN(types) - 1; k++) {
        hr_type *type = type_named(types[k]);

        for (int i = 0; i < HR_LEN(lengths) * 6; i++) {
            int64_t n = lengths[i / 6], spread = i % 3 == 0 ? 3 : i % 3 == 1 ? 200 : INT64_MAX;
            hr_array *a;

            for (int64_t row = 0; row < n; row++) {
                values[row] = (int64_t)(random_below(&random, (uint64_t)spread) * (random_below(&random, 2) * 2 - 1));
                nulls[row] = i % 6 > 2 && random_below(&random, 3) == 0;
            }
            a = array_of(type, values, nulls, n);
            check_extremes(a, types[k][0] != 'u');
            hr__array_unref(a);
        }
        hr__type_unref(type);
    }
}

static void test_faults(void **state)
{
    uint64_t random = 3;
    hr_type *type = type_named("int64");

    (void)state;
    for (int i = 0; i < 2; i++) {
        to_number = table_of(&random, type, 5, 1000, i ? 1LL << 33 : 1, 200);
        assert_true(run_with_faults(number, HR_FAULT_MEMORY) > 1);
        hr_table_unref(to_number);
    }
    hr__type_unref(type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),   cmocka_unit_test(one_row_a_key), cmocka_unit_test(many_keys),
        cmocka_unit_test(large_tables), cmocka_unit_test(test_faults),   cmocka_unit_test(extremes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
