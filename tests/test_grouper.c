/* test_grouper.c - keys as numbers: equal where they are equal, in the order of first sights, of every type. */
#include "harness.h"

#include "arrays.h"
#include "op/group/grouper.h"

#include <math.h>

static int same(const hr_table *t, int c, int64_t i, int64_t j)
{
    hr_array *a = NULL, *b = NULL;
    bool equal;

    assert_ok(hr__array_slice(t->columns[c], i, 1, &a, NULL), NULL);
    assert_ok(hr__array_slice(t->columns[c], j, 1, &b, NULL), NULL);
    equal = hr__array_equal(a, b);
    hr__array_unref(a);
    hr__array_unref(b);
    return equal;
}

/* What numbers should be, the slow way. */
static void check_numbers(const hr_table *t, const int *columns, int n_columns, const uint32_t *ids, int64_t n_keys)
{
    uint32_t next = 0;

    for (int64_t i = 0; i < t->n_rows; i++) {
        uint32_t expected = next;

        for (int64_t j = 0; j < i; j++) {
            bool equal = true;

            for (int c = 0; c < n_columns; c++)
                equal = equal && same(t, columns[c], i, j);
            if (equal) {
                expected = ids[j];
                break;
            }
        }
        assert_int_equal(ids[i], expected);
        next += expected == next;
    }
    assert_int_equal(next, n_keys);
}

static void check_table(const hr_table *t, const int *columns, int n_columns)
{
    hr_mem mem = { 0 };
    hr_grouper *g = NULL;
    hr_array *keys[8] = { NULL };
    uint32_t ids[300], again[300];
    uint64_t hashes[300];

    assert_ok(hr__grouper_new(t->schema, columns, n_columns, NULL, &g, NULL), NULL);
    for (int64_t at = 0; at < t->n_rows; at += 7)
        assert_ok(hr__grouper_add(g, t, at, HR_MIN(7, t->n_rows - at), ids + at, NULL), NULL);
    check_numbers(t, columns, n_columns, ids, hr__grouper_n(g));
    assert_ok(hr__grouper_add(g, t, 0, t->n_rows, again, NULL), NULL);
    assert_memory_equal(ids, again, (size_t)t->n_rows * sizeof *ids);
    hr__grouper_hash(g, t, 0, t->n_rows, hashes);
    for (int64_t i = 0; i < t->n_rows; i++)
        assert_int_equal(hashes[i], hr__grouper_hashes(g)[ids[i]]);
    assert_ok(hr__grouper_keys(g, &mem, keys, NULL), NULL);
    for (int c = 0; c < n_columns; c++) {
        assert_ok(hr__array_check(keys[c], true, NULL), NULL);
        for (int64_t i = 0; i < t->n_rows; i++) {
            hr_array *a = NULL, *b = NULL;

            assert_ok(hr__array_slice(t->columns[columns[c]], i, 1, &a, NULL), NULL);
            assert_ok(hr__array_slice(keys[c], ids[i], 1, &b, NULL), NULL);
            assert_true(hr__array_equal(a, b));
            hr__array_unref(a);
            hr__array_unref(b);
        }
        hr__array_unref(keys[c]);
    }
    hr__grouper_free(g);
}

static hr_table *table_of(hr_array **takes, int n, int64_t n_rows)
{
    hr_field fields[8] = { 0 };
    char names[8][2] = { "a", "b", "c", "d", "e", "f", "g", "h" };
    hr_schema *schema = NULL;
    hr_table *t = NULL;

    for (int i = 0; i < n; i++)
        assert_ok(hr__field_init(&fields[i], names[i], takes[i]->type, true, NULL), NULL);
    assert_ok(hr__schema_new(fields, n, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, takes, n_rows, NULL, &t, NULL), NULL);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    hr__schema_unref(schema);
    return t;
}

/* n values of few kinds, some null. */
static hr_array *few(hr_type *type, int64_t n, int kinds, uint64_t *random)
{
    static const char *const texts[] = {
        "", "a", "b", "ab", "a\0b", "longer than eight bytes", "longer than eight bytez"
    };
    static const double numbers[] = { 0.0, -0.0, 1.5, NAN, INFINITY, -1.5, 1e-300 };
    hr_mem mem = { 0 };
    hr_builder *b = NULL;
    hr_array *a = NULL;

    assert_ok(hr__builder_new(&mem, type, &b, NULL), NULL);
    for (int64_t i = 0; i < n; i++) {
        int k = (int)(next_random(random) % (uint64_t)kinds);

        if (next_random(random) % 5 == 0)
            assert_ok(hr__builder_null(b, NULL), NULL);
        else if (hr__type_is_bytes(type))
            assert_ok(hr__builder_bytes(b, texts[k], k == 4 ? 3 : (int64_t)strlen(texts[k]), NULL), NULL);
        else if (type->id == HR_T_FIXED_BINARY || type->id == HR_T_DECIMAL128)
            assert_ok(hr__builder_bytes(b, &"0123456789abcdef0123456789"[k],
                                        hr__type_bytes(type) ? hr__type_bytes(type) : type->width, NULL),
                      NULL);
        else if (type->id >= HR_T_FLOAT16 && type->id <= HR_T_FLOAT64)
            assert_ok(hr__builder_double(b, numbers[k] == 1e-300 && type->id != HR_T_FLOAT64 ? 2 : numbers[k], NULL),
                      NULL);
        else
            assert_ok(hr__builder_int(b, type->id == HR_T_BOOL ? k & 1 : k, NULL), NULL);
    }
    assert_ok(hr__builder_finish(b, &a, NULL), NULL);
    hr__builder_free(b);
    return a;
}

static void test_types(void **state)
{
    uint64_t random = 1;
    hr_type *fixed = NULL, *decimal = NULL;
    hr_type_id ids[] = { HR_T_BOOL,   HR_T_INT8,    HR_T_UINT16,  HR_T_INT32,        HR_T_INT64,
                         HR_T_UINT64, HR_T_FLOAT16, HR_T_FLOAT32, HR_T_FLOAT64,      HR_T_STRING,
                         HR_T_BINARY, HR_T_DATE32,  HR_T_DATE64,  HR_T_LARGE_STRING, HR_T_LARGE_BINARY };
    static const int one[] = { 0 }, two[] = { 1, 0 }, three[] = { 0, 2, 1 };

    (void)state;
    assert_ok(hr__type_fixed_binary(3, &fixed, NULL), NULL);
    assert_ok(hr__type_decimal(HR_T_DECIMAL128, 38, 2, &decimal, NULL), NULL);
    for (int i = 0; i < HR_LEN(ids) + 2; i++) {
        hr_type *type = i < HR_LEN(ids) ? hr__type_simple(ids[i]) : i == HR_LEN(ids) ? fixed : decimal;
        hr_array *columns[3] = { few(type, 200, 7, &random), few(hr__type_simple(HR_T_INT8), 200, 3, &random),
                                 few(hr__type_simple(HR_T_STRING), 200, 2, &random) };
        hr_table *t = table_of(columns, 3, 200);

        check_table(t, one, 1);
        check_table(t, two, 2);
        check_table(t, three, 3);
        check_table(t, NULL, 0);
        hr_table_unref(t);
    }
    hr__type_unref(fixed);
    hr__type_unref(decimal);
}

static void test_nulls_only(void **state)
{
    hr_mem mem = { 0 };
    hr_array *nulls = NULL;
    hr_table *t;
    static const int one[] = { 0 };

    (void)state;
    assert_ok(hr__array_nulls(&mem, hr__type_simple(HR_T_NULL), 50, &nulls, NULL), NULL);
    t = table_of(&nulls, 1, 50);
    check_table(t, one, 1);
    hr_table_unref(t);
}

static void test_refused(void **state)
{
    hr_field item = { 0 };
    hr_type *list = NULL;
    hr_schema *schema = NULL;
    hr_grouper *g = NULL;
    hr_error err = HR_ERROR_INIT;
    static const int one[] = { 0 };

    (void)state;
    assert_ok(hr__field_init(&item, "item", hr__type_simple(HR_T_INT64), true, NULL), NULL);
    assert_ok(hr__type_list(HR_T_LIST, &item, 0, &list, NULL), NULL);
    hr__field_clear(&item);
    assert_ok(hr__field_init(&item, "tags", list, true, NULL), NULL);
    assert_ok(hr__schema_new(&item, 1, &schema, NULL), NULL);
    assert_int_equal(hr__grouper_new(schema, one, 1, NULL, &g, &err), HR_TYPE);
    assert_contains(err.text, "'tags'");
    assert_contains(err.text, "list<item: int64>");
    hr_error_clear(&err);
    hr__field_clear(&item);
    hr__type_unref(list);
    hr__schema_unref(schema);
}

static hr_table *for_faults;

static hr_status number_all(hr_error *err)
{
    static const int both[] = { 0, 1 };
    hr_mem mem = { 0 };
    hr_grouper *g = NULL;
    hr_array *keys[2] = { NULL };
    uint32_t ids[200];
    hr_status st = HR_OK;

    HR_GO(hr__grouper_new(for_faults->schema, both, 2, NULL, &g, err));
    HR_GO(hr__grouper_add(g, for_faults, 0, 200, ids, err));
    HR_GO(hr__grouper_keys(g, &mem, keys, err));
    hr__array_unref(keys[0]);
    hr__array_unref(keys[1]);
done:
    hr__grouper_free(g);
    return st;
}

static void test_faults(void **state)
{
    uint64_t random = 3;
    hr_array *columns[2] = { few(hr__type_simple(HR_T_STRING), 200, 7, &random),
                             few(hr__type_simple(HR_T_FLOAT64), 200, 7, &random) };

    (void)state;
    for_faults = table_of(columns, 2, 200);
    assert_true(run_with_faults(number_all, HR_FAULT_MEMORY) > 10);
    hr_table_unref(for_faults);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_nulls_only),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
