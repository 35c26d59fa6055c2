/* test_builder.c - arrays value by value: ranges, rounding, nulls, lists that do not fit; what finish gives. */
#include "arrays.h"

#include <math.h>

static const struct {
    hr_type_id id;
    int64_t least;
    uint64_t most;
} ranges[] = {
    { HR_T_BOOL, 0, 1 },
    { HR_T_INT8, INT8_MIN, INT8_MAX },
    { HR_T_UINT8, 0, UINT8_MAX },
    { HR_T_INT16, INT16_MIN, INT16_MAX },
    { HR_T_UINT16, 0, UINT16_MAX },
    { HR_T_INT32, INT32_MIN, INT32_MAX },
    { HR_T_UINT32, 0, UINT32_MAX },
    { HR_T_DATE32, INT32_MIN, INT32_MAX },
    { HR_T_INT64, INT64_MIN, INT64_MAX },
    { HR_T_DATE64, INT64_MIN, INT64_MAX },
    { HR_T_UINT64, 0, UINT64_MAX },
};

static void integer_ranges(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(ranges); i++) {
        hr_builder *b = builder_of(hr__type_simple(ranges[i].id));
        hr_error err = HR_ERROR_INIT;
        hr_array *a;

        assert_ok(hr__builder_int(b, ranges[i].least, &err), &err);
        if (ranges[i].most <= INT64_MAX)
            assert_ok(hr__builder_int(b, (int64_t)ranges[i].most, &err), &err);
        if (ranges[i].least > INT64_MIN) {
            assert_status(hr__builder_int(b, ranges[i].least - 1, &err), HR_TYPE, &err);
            assert_contains(err.text, "out of the range of");
        }
        if (ranges[i].most < INT64_MAX)
            assert_status(hr__builder_int(b, (int64_t)ranges[i].most + 1, &err), HR_TYPE, &err);
        assert_status(hr__builder_double(b, 1.0, &err), HR_TYPE, &err);
        a = finish(b);
        assert_ok(hr__array_check(a, true, &err), &err);
        hr__array_unref(a);
    }
}

static void texts_of_integers(void **state)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_INT16));
    hr_array *a;

    (void)state;
    assert_int_equal(hr__builder_int(b, -32768, NULL), HR_OK);
    assert_int_equal(hr__builder_null(b, NULL), HR_OK);
    assert_int_equal(hr__builder_int(b, 7, NULL), HR_OK);
    a = finish(b);
    assert_string_equal(values_text(a), "-32768 null 7");
    assert_int_equal(hr__array_null_count(a), 1);
    hr__array_unref(a);
}

static const struct {
    double v;
    uint16_t bits;
} halves[] = {
    { 0.0, 0x0000 },
    { -0.0, 0x8000 },
    { 1.0, 0x3C00 },
    { -2.0, 0xC000 },
    { 65504.0, 0x7BFF },
    { 65519.999, 0x7BFF },
    { 65520.0, 0x7C00 },
    { -1e300, 0xFC00 },
    { (double)INFINITY, 0x7C00 },
    { 0x1p-14, 0x0400 },
    { 0x1p-24, 0x0001 },
    { 0x1p-25, 0x0000 },   /* a tie, to even */
    { 0x1.8p-24, 0x0002 }, /* a tie, to even */
    { 0x1.000002p-25, 0x0001 },
    { 0x1.ff8p-15, 0x03FF },
    { 0x1.ffep-15, 0x0400 },   /* the largest subnormal and a half: up to the normal ones */
    { 1.0 + 0x1p-11, 0x3C00 }, /* a tie, to even */
    { 1.0 + 0x1.8p-10, 0x3C02 },
    { 1.0 + 0x1p-10, 0x3C01 },
    { 0x1.ffep0, 0x4000 },
    { 0.1, 0x2E66 },
};

static void half_precision(void **state)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_FLOAT16));
    hr_array *a;

    (void)state;
    for (int i = 0; i < HR_LEN(halves); i++)
        assert_int_equal(hr__builder_double(b, halves[i].v, NULL), HR_OK);
    assert_int_equal(hr__builder_double(b, (double)NAN, NULL), HR_OK);
    assert_int_equal(hr__builder_int(b, 1, NULL), HR_TYPE);
    a = finish(b);
    for (int i = 0; i < HR_LEN(halves); i++) {
        uint16_t got;

        memcpy(&got, hr__array_values(a) + 2 * i, 2);
        assert_int_equal(got, halves[i].bits);
    }
    assert_int_equal(hr__array_values(a)[2 * HR_LEN(halves) + 1] & 0x7E, 0x7E);
    hr__array_unref(a);
}

static void bytes(void **state)
{
    hr_type *four = NULL;
    hr_builder *b;
    hr_array *a;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__type_fixed_binary(4, &four, &err), &err);
    b = builder_of(four);
    assert_ok(hr__builder_bytes(b, "abcd", 4, &err), &err);
    assert_ok(hr__builder_null(b, &err), &err);
    assert_status(hr__builder_bytes(b, "abc", 3, &err), HR_TYPE, &err);
    assert_contains(err.text, "a value of 3 bytes, expected 4");
    assert_status(hr__builder_int(b, 3, &err), HR_TYPE, &err);
    a = finish(b);
    assert_string_equal(values_text(a), "abcd null");
    hr__array_unref(a);
    hr__type_unref(four);
    b = builder_of(hr__type_simple(HR_T_BOOL));
    assert_status(hr__builder_bytes(b, "a", 1, &err), HR_TYPE, &err);
    assert_status(hr__builder_end(b, &err), HR_TYPE, &err);
    assert_null(hr__builder_child(b, 0));
    hr__builder_free(b);
    hr__builder_free(NULL);
}

static void rows_that_do_not_fit(void **state)
{
    hr_type *fixed = type_named("fixed_size_list<item: float>[3]");
    hr_type *person = type_named("struct<id: int64, name: string, tags: list<item: int8>>");
    hr_builder *b = builder_of(fixed);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__builder_double(hr__builder_child(b, 0), 1.0, &err), &err);
    assert_status(hr__builder_end(b, &err), HR_TYPE, &err);
    assert_contains(err.text, "row 0 has 1 values, expected 3");
    hr__builder_free(b);
    b = builder_of(person);
    assert_ok(hr__builder_int(hr__builder_child(b, 0), 1, &err), &err);
    assert_status(hr__builder_end(b, &err), HR_TYPE, &err);
    assert_contains(err.text, "'name'");
    hr__builder_free(b);
    hr__type_unref(fixed);
    hr__type_unref(person);
}

static void finish_empties(void **state)
{
    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *t = sample_type(k);
        hr_builder *b = builder_of(t);
        hr_error err = HR_ERROR_INIT;
        uint64_t seed = (uint64_t)k;
        hr_array *a = random_array(&seed, t, 9), *none = NULL, *first = NULL, *second = NULL;

        assert_ok(hr__builder_finish(b, &none, &err), &err);
        assert_int_equal(none->length, 0);
        for (int64_t i = 0; i < 9; i++)
            append_value(b, a, i);
        assert_ok(hr__builder_finish(b, &first, &err), &err);
        for (int64_t i = 0; i < 9; i++)
            append_value(b, a, i);
        assert_ok(hr__builder_finish(b, &second, &err), &err);
        assert_same_array(first, a);
        assert_same_array(second, a);
        assert_ok(hr__array_check(none, true, &err), &err);
        assert_ok(hr__array_check(second, true, &err), &err);
        hr__array_unref(a);
        hr__array_unref(none);
        hr__array_unref(first);
        hr__array_unref(second);
        hr__builder_free(b);
        hr__type_unref(t);
    }
}

static hr_status build(void *context, hr_error *err)
{
    hr_status st = HR_OK;
    hr_builder *b = NULL, *id, *name, *tags;
    hr_array *a = NULL;

    HR_GO(hr__builder_new(NULL, context, &b, err));
    id = hr__builder_child(b, 0), name = hr__builder_child(b, 1), tags = hr__builder_child(b, 2);
    HR_GO(hr__builder_int(id, 1, err));
    HR_GO(hr__builder_bytes(name, "Ada", 3, err));
    HR_GO(hr__builder_int(hr__builder_child(tags, 0), 4, err));
    HR_GO(hr__builder_end(tags, err));
    HR_GO(hr__builder_end(b, err));
    HR_GO(hr__builder_null(b, err));
    HR_GO(hr__builder_finish(b, &a, err));
done:
    hr__array_unref(a);
    hr__builder_free(b);
    return st;
}

static void faults(void **state)
{
    hr_type *person = type_named("struct<id: int64, name: string, tags: list<item: int8>>");

    (void)state;
    run_with_faults_on(build, person, HR_FAULT_MEMORY);
    hr__type_unref(person);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integer_ranges), cmocka_unit_test(texts_of_integers),    cmocka_unit_test(half_precision),
        cmocka_unit_test(bytes),          cmocka_unit_test(rows_that_do_not_fit), cmocka_unit_test(finish_empties),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
