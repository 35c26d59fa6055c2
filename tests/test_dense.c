/* test_dense.c - columns with nulls as columns with NaN and NaT, compared row by row, for every type, slice and
 * length. */
#include "arrays.h"

#include <math.h>

/* The row as numpy has it: a double, or for times the integer. */
static double number_at(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a);

    switch (a->type->id) {
    case HR_T_INT8: return (double)((const int8_t *)p)[i];
    case HR_T_UINT8: return (double)p[i];
    case HR_T_INT16: return (double)((const int16_t *)(const void *)p)[i];
    case HR_T_UINT16: return (double)((const uint16_t *)(const void *)p)[i];
    case HR_T_INT32: return (double)((const int32_t *)(const void *)p)[i];
    case HR_T_UINT32: return (double)((const uint32_t *)(const void *)p)[i];
    case HR_T_INT64: return (double)((const int64_t *)(const void *)p)[i];
    case HR_T_UINT64: return (double)((const uint64_t *)(const void *)p)[i];
    case HR_T_FLOAT32: return (double)((const float *)(const void *)p)[i];
    default: return ((const double *)(const void *)p)[i];
    }
}

static int64_t time_at(const hr_array *a, int64_t i)
{
    const uint8_t *p = hr__array_values(a);

    return a->type->id == HR_T_DATE32 ? ((const int32_t *)(const void *)p)[i] : ((const int64_t *)(const void *)p)[i];
}

static bool is_nan_16(uint16_t v) { return (v & 0x7c00) == 0x7c00 && (v & 0x3ff); }

static void check_row(const hr_array *a, const hr_array *got, int64_t i)
{
    bool is_null = hr__array_is_null(a, i);

    if (got->type->id == HR_T_FLOAT16) {
        uint16_t found = ((const uint16_t *)(const void *)hr__array_values(got))[i];

        assert_true(is_null ? is_nan_16(found) : found == ((const uint16_t *)(const void *)hr__array_values(a))[i]);
    } else if (got->type->id == HR_T_INT64) {
        assert_true(((const int64_t *)(const void *)hr__array_values(got))[i] == (is_null ? INT64_MIN : time_at(a, i)));
    } else {
        double found = number_at(got, i), want = is_null ? (double)NAN : number_at(a, i);

        assert_true(isnan(want) ? isnan(found) : found == want);
    }
}

static void every_type(void **state)
{
    uint64_t seed = 3;
    int n_filled = 0;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        bool can = hr__type_is_int(type) || (type->id >= HR_T_FLOAT16 && type->id <= HR_T_FLOAT64) ||
                   type->id == HR_T_DATE32 || type->id == HR_T_DATE64 || type->id == HR_T_TIMESTAMP ||
                   type->id == HR_T_DURATION;

        n_filled += can;
        for (int64_t n = 0; n < 200; n += n < 70 ? 1 : 13) {
            hr_array *a = random_array(&seed, type, n), *got = NULL;
            hr_error err = HR_ERROR_INIT;
            hr_status st = hr__array_fill_nulls(&(hr_mem){ 0 }, a, &got, &err);

            assert_int_equal(st, can ? HR_OK : HR_TYPE);
            for (int64_t i = 0; can && i < n; i++)
                check_row(a, got, i);
            if (can) {
                assert_int_equal(got->length, n);
                assert_int_equal(hr__array_null_count(got), 0);
            }
            hr_error_clear(&err);
            hr__array_unref(got);
            hr__array_unref(a);
        }
        hr__type_unref(type);
    }
    assert_true(n_filled >= 13);
}

static hr_array *doubles(const double *values, int64_t n)
{
    hr_buffer *data = NULL;
    hr_array *a = NULL;

    assert_ok(hr__buffer_new(&(hr_mem){ 0 }, n * 8, &data, NULL), NULL);
    memcpy(data->data, values, (size_t)n * 8);
    assert_ok(
        hr__array_new(hr__type_simple(HR_T_FLOAT64), n, 0, (hr_buffer *[3]){ NULL, data, NULL }, NULL, 0, &a, NULL),
        NULL);
    return a;
}

/* Integers that a function got as doubles come back as integers: every integer type, filled and back. */
static void whole_again(void **state)
{
    uint64_t seed = 9;

    (void)state;
    for (int id = HR_T_INT8; id <= HR_T_UINT64; id++)
        for (int64_t n = 0; n < 150; n += 7) {
            hr_array *a = random_array(&seed, hr__type_simple((hr_type_id)id), n), *shown = NULL, *got = NULL;

            assert_ok(hr__array_fill_nulls(&(hr_mem){ 0 }, a, &shown, NULL), NULL);
            if (hr__array_not_exact(a) < 0) {
                assert_int_equal(hr__array_not_whole(shown, a->type), -1);
                assert_ok(hr__array_of_whole(&(hr_mem){ 0 }, shown, a->type, &got, NULL), NULL);
                assert_ok(hr__array_check(got, true, NULL), NULL);
                assert_true(hr__array_equal(got, a));
            }
            hr__array_unref(a);
            hr__array_unref(shown);
            hr__array_unref(got);
        }
}

static void what_is_whole(void **state)
{
    const struct {
        hr_type_id id;
        double values[3];
        int64_t not_whole;
    } cases[] = {
        { HR_T_INT64, { 1, -2, 9007199254740992.0 }, -1 },
        { HR_T_INT64, { 1, 0.5, 3 }, 1 },
        { HR_T_INT64, { 1, 9007199254740994.0, 3 }, 1 },
        { HR_T_INT64, { (double)NAN, -0.0, (double)INFINITY }, 2 },
        { HR_T_UINT64, { 1, 2, -1 }, 2 },
        { HR_T_INT8, { -128, 127, 128 }, 2 },
        { HR_T_UINT16, { 0, 65535, -1 }, 2 },
        { HR_T_INT32, { 2147483647.0, -2147483648.0, (double)NAN }, -1 },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_array *a = doubles(cases[i].values, 3);

        assert_int_equal(hr__array_not_whole(a, hr__type_simple(cases[i].id)), cases[i].not_whole);
        hr__array_unref(a);
    }
}

static hr_status whole(void *context, hr_error *err)
{
    hr_array *got = NULL;
    hr_status st = hr__array_of_whole(&(hr_mem){ 0 }, context, hr__type_simple(HR_T_INT32), &got, err);

    hr__array_unref(got);
    return st;
}

static hr_status fill(void *context, hr_error *err)
{
    hr_array *got = NULL;
    hr_status st = hr__array_fill_nulls(&(hr_mem){ 0 }, context, &got, err);

    hr__array_unref(got);
    return st;
}

static void faults(void **state)
{
    const int64_t values[] = { 1, INT64_MIN, 3 };
    hr_array *a = array_of_ints(values, 3);

    (void)state;
    run_with_faults_on(fill, a, HR_FAULT_MEMORY);
    hr__array_unref(a);
    a = doubles((const double[]){ 1, (double)NAN }, 2);
    run_with_faults_on(whole, a, HR_FAULT_MEMORY);
    hr__array_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),
        cmocka_unit_test(whole_again),
        cmocka_unit_test(what_is_whole),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
