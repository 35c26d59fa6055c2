/* test_pick.c - rows of several arrays, compared with copying value by value, for every type. */
#include "arrays.h"

#include <stdlib.h>

#define MAX_PARTS 40 /* more than a table of bases holds */
#define MAX_PICKS 150

/* Some rows of arrays that begin anywhere in their buffers. */
static hr_array *random_part(uint64_t *seed, hr_type *type)
{
    int64_t n = random_below(seed, 50), begin = random_below(seed, 9);
    hr_array *whole = random_array(seed, type, n + begin + random_below(seed, 5)), *part = NULL;

    assert_int_equal(hr__array_slice(whole, begin, n, &part, NULL), HR_OK);
    hr__array_unref(whole);
    return part;
}

static void random_picks(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int round = 0; round < 12; round++) {
            hr_array *parts[MAX_PARTS], *got = NULL, *want;
            int n_parts = 1 + (int)random_below(&seed, round % 2 ? MAX_PARTS : 6), n = 0;
            uint32_t picks[MAX_PICKS];
            hr_builder *b = builder_of(type);
            hr_error err = HR_ERROR_INIT;

            for (int i = 0; i < n_parts; i++)
                parts[i] = random_part(&seed, type);
            for (int tries = (int)random_below(&seed, MAX_PICKS); tries > 0; tries--) {
                uint32_t part = (uint32_t)random_below(&seed, n_parts);
                int64_t row = parts[part]->length ? random_below(&seed, parts[part]->length) : -1;

                if (row < 0)
                    continue;
                picks[n++] = part << HR_PICK_BITS | (uint32_t)row;
                append_value(b, parts[part], row);
            }
            want = finish(b);
            assert_ok(hr__array_pick(NULL, type, parts, n_parts, picks, n, &got, &err), &err);
            assert_ok(hr__array_check(got, true, &err), &err);
            assert_int_equal(got->offset, 0);
            assert_same_array(got, want);
            assert_int_equal(hr__array_null_count(got), hr__array_null_count(want));
            hr__array_unref(got);
            hr__array_unref(want);
            for (int i = 0; i < n_parts; i++)
                hr__array_unref(parts[i]);
        }
        hr__type_unref(type);
    }
}

static void without_kernels(void **state) { run_without_kernels(random_picks, state); }

/* So much data that loads are announced. */
static void much_data(void **state)
{
    static const hr_type_id ids[] = { HR_T_INT8, HR_T_INT32, HR_T_FLOAT64, HR_T_STRING };
    enum { ROWS = 300000, PICKS = 2000 };
    uint64_t seed = 4;
    uint32_t *picks = malloc(PICKS * sizeof *picks);

    (void)state;
    assert_non_null(picks);
    for (int k = 0; k < HR_LEN(ids); k++) {
        hr_type *type = hr__type_simple(ids[k]);
        hr_array *one = random_array(&seed, type, 1000), *many[ROWS / 1000], *parts[2], *got = NULL;

        for (int i = 0; i < HR_LEN(many); i++)
            many[i] = one;
        assert_int_equal(hr__array_concat(NULL, type, many, HR_LEN(many), &parts[0], NULL), HR_OK);
        parts[1] = parts[0];
        for (int i = 0; i < PICKS; i++)
            picks[i] = (uint32_t)random_below(&seed, 2) << HR_PICK_BITS | (uint32_t)random_below(&seed, ROWS);
        assert_int_equal(hr__array_pick(NULL, type, parts, 2, picks, PICKS, &got, NULL), HR_OK);
        for (int i = 0; i < PICKS; i++) {
            hr_array *a = NULL, *b = NULL;

            assert_int_equal(hr__array_slice(got, i, 1, &a, NULL), HR_OK);
            assert_int_equal(hr__array_slice(one, (picks[i] & (HR_PICK_ROWS - 1)) % 1000, 1, &b, NULL), HR_OK);
            assert_true(hr__array_equal(a, b));
            hr__array_unref(a);
            hr__array_unref(b);
        }
        hr__array_unref(got);
        hr__array_unref(parts[0]);
        hr__array_unref(one);
    }
    free(picks);
}

static void refusals(void **state)
{
    uint64_t seed = 5;
    hr_array *a = random_array(&seed, hr__type_simple(HR_T_INT32), 10), *got = NULL;
    uint32_t row = 10, part = 1u << HR_PICK_BITS;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(hr__array_pick(NULL, a->type, &a, 1, &row, 1, &got, &err), HR_BUG, &err);
    assert_contains(err.text, "row 10 of part 0");
    assert_status(hr__array_pick(NULL, a->type, &a, 1, &part, 1, &got, &err), HR_BUG, &err);
    assert_status(hr__array_pick(NULL, a->type, &a, HR_PICK_PARTS + 1, &row, 0, &got, &err), HR_BUG, &err);
    assert_int_equal(hr__array_pick(NULL, a->type, NULL, 0, NULL, 0, &got, &err), HR_OK);
    assert_int_equal(got->length, 0);
    hr__array_unref(got);
    hr__array_unref(a);
    hr_error_clear(&err);
}

/* A chain of text that does not fit 32-bit offsets: said, and not wrapped around. */
static void too_much_text(void **state)
{
    enum { BYTES = 1 << 20, PICKS = 2100 };
    char *text = malloc(BYTES);
    uint32_t *picks = calloc(PICKS, sizeof *picks);
    hr_builder *b = builder_of(hr__type_simple(HR_T_STRING));
    hr_array *a, *got = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_true(text && picks);
    memset(text, 'x', BYTES);
    assert_int_equal(hr__builder_bytes(b, text, BYTES, NULL), HR_OK);
    a = finish(b);
    assert_status(hr__array_pick(NULL, a->type, &a, 1, picks, PICKS, &got, &err), HR_BUDGET, &err);
    assert_contains(err.text, "large_string");
    hr__array_unref(a);
    hr_error_clear(&err);
    free(picks);
    free(text);
}

static hr_status pick_once(void *context, hr_error *err)
{
    hr_table *parts[2] = { context, context }, *got = NULL;
    uint32_t picks[] = { 3, 1u << HR_PICK_BITS | 2, 0, 3 };
    hr_mem mem = { 0 };
    hr_status st = hr__table_pick(&mem, parts[0]->schema, parts, 2, picks, HR_LEN(picks), NULL, &got, err);

    hr_table_unref(got);
    return st;
}

static void faults(void **state)
{
    uint64_t seed = 6;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_field field = { 0 };
        hr_schema *schema = NULL;
        hr_array *a = random_array(&seed, type, 5);
        hr_table *t = NULL;

        assert_int_equal(hr__field_init(&field, "x", type, true, NULL), HR_OK);
        assert_int_equal(hr__schema_new(&field, 1, &schema, NULL), HR_OK);
        assert_int_equal(hr__table_new(schema, &a, 5, NULL, &t, NULL), HR_OK);
        run_with_faults_on(pick_once, t, HR_FAULT_MEMORY);
        hr_table_unref(t);
        hr__schema_unref(schema);
        hr__field_clear(&field);
        hr__type_unref(type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_kernels), /* first: before the features are read */
        cmocka_unit_test(random_picks),    cmocka_unit_test(much_data), cmocka_unit_test(refusals),
        cmocka_unit_test(too_much_text),   cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
