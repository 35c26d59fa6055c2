/* test_first_columns.c - a function's later tables under the columns of its first: guesses of integers, conversions. */
#include "arrays.h"

#include "op/call/calls.h"

#include <math.h>

#define NO (double)NAN

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

/* int64, null where NaN. */
static hr_array *ints(const double *values, int64_t n)
{
    hr_array *shown = doubles(values, n), *a = NULL;

    assert_ok(hr__array_of_whole(&(hr_mem){ 0 }, shown, hr__type_simple(HR_T_INT64), &a, NULL), NULL);
    hr__array_unref(shown);
    return a;
}

/* Takes the array. */
static hr_table *table_of_one(const char *name, hr_array *a)
{
    hr_field field = { 0 };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    int64_t n = a->length;

    assert_ok(hr__field_init(&field, name, a->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, &a, n, NULL, &t, NULL), NULL);
    hr__field_clear(&field);
    hr__schema_unref(schema);
    return t;
}

#define ALL 20

/* The type of the first table's column of doubles if the function got rows [begin, begin + n) of these integers. */
static void guesses(void **state)
{
    static const struct {
        double in[ALL];
        int n, begin, n_shown;
        double out[ALL];
        int n_out;
        const char *type;
    } cases[] = {
        { { 1, NO, 3, 4 }, 4, 0, 4, { 1, NO, 3, 4 }, 4, "int64" },    /* the same */
        { { 1, NO, 3, 4 }, 4, 0, 4, { 1, 4 }, 2, "int64" },           /* some rows */
        { { 1, NO, 3, 4 }, 4, 0, 4, { NO, 4 }, 2, "int64" },          /**/
        { { 1, NO, 3, 4 }, 4, 0, 4, { 4, 1 }, 2, "double" },          /* in another order */
        { { 1, NO, 3, 4 }, 4, 0, 4, { 3 }, 1, "double" },             /* may be a mean */
        { { 1, NO, 3, 4 }, 4, 0, 4, { 2, NO, 4, 5 }, 4, "double" },   /* few numbers prove nothing */
        { { 1, NO, 3, 4 }, 4, 2, 2, { 3, 4 }, 2, "double" },          /* no null among what was shown */
        { { 1, NO, 3, 4 }, 4, 1, 2, { NO, 3 }, 2, "int64" },          /**/
        { { 1, NO, 3, 4 }, 4, 0, 4, { NO, 3, NO, NO }, 4, "double" }, /**/
        { { 1, NO, 3, 4 }, 4, 0, 4, { 0.5, NO }, 2, "double" },       /**/
        { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, NO },
          17,
          0,
          17,
          { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, NO },
          17,
          "int64" }, /* computed, and many */
        { { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, NO },
          17,
          0,
          17,
          { 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 0 },
          17,
          "double" }, /* nulls were filled */
        { { NO, NO }, 2, 0, 2, { NO, NO }, 2, "int64" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_table *in = table_of_one("x", ints(cases[i].in, cases[i].n));
        hr_table *t = table_of_one("x", doubles(cases[i].out, cases[i].n_out)), *out = NULL;
        hr_shown shown = { in, cases[i].begin, cases[i].n_shown };
        hr_first_columns f = { 0 };
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__first_columns_set(&f, &(hr_mem){ 0 }, t, &shown, &err), &err);
        assert_string_equal(type_text(f.schema->fields[0].type), cases[i].type);
        assert_ok(hr__first_columns_fit(&f, &(hr_mem){ 0 }, t, &out, &err), &err);
        assert_string_equal(type_text(out->schema->fields[0].type), cases[i].type);
        assert_ok(hr__table_check(out, true, &err), &err);
        hr_table_unref(out);
        hr_table_unref(t);
        hr_table_unref(in);
        hr__first_columns_clear(&f);
    }
}

/* Nothing was shown: the first table stays as it is. */
static void not_shown(void **state)
{
    hr_table *t = table_of_one("x", doubles((const double[]){ 1, NO }, 2)), *out = NULL;
    hr_first_columns f = { 0 };
    hr_shown none = { NULL, 0, 0 };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__first_columns_set(&f, &(hr_mem){ 0 }, t, &none, &err), &err);
    assert_ok(hr__first_columns_fit(&f, &(hr_mem){ 0 }, t, &out, &err), &err);
    assert_ptr_equal(out, t);
    hr_table_unref(out);
    hr_table_unref(t);
    hr__first_columns_clear(&f);
}

/* Of a first table and another one. */
static void fits(void **state)
{
    static const double whole[] = { 1, NO }, parts[] = { 1, 0.5 };
    hr_table *first_ints = table_of_one("x", ints(whole, 2)), *first_doubles = table_of_one("x", doubles(parts, 2));
    struct {
        hr_table *first, *t; /* t is ours */
        const char *values, *error;
    } cases[] = {
        { first_ints, table_of_one("x", doubles(whole, 2)), "1 null", NULL },
        { first_ints, table_of_one("x", doubles(parts, 2)), NULL,
          "column 'x' is double, expected int64 as in the first batch: row 1 of them is 0.5" },
        { first_ints, table_of_one("x", array_of_strings((const char *const[]){ "a" }, 1)), NULL,
          "column 'x' is string, expected int64 as in the first batch" },
        { first_doubles, table_of_one("x", array_of_ints((const int64_t[]){ 7, -8 }, 2)), "7.0 -8.0", NULL },
        { first_doubles, table_of_one("x", array_of_ints((const int64_t[]){ 7, (1ll << 53) + 1 }, 2)), NULL,
          "column 'x' is int64, expected double as in the first batch: row 1 of them is 9007199254740993" },
        { first_ints, table_of_one("y", ints(whole, 2)), NULL,
          "column 'y' is not in the first batch, whose columns are 'x'; return all columns in every batch, with None "
          "where "
          "there is no value" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_first_columns f = { 0 };
        hr_shown none = { NULL, 0, 0 };
        hr_error err = HR_ERROR_INIT;
        hr_table *out = NULL;

        assert_ok(hr__first_columns_set(&f, &(hr_mem){ 0 }, cases[i].first, &none, &err), &err);
        if (cases[i].error) {
            assert_status(hr__first_columns_fit(&f, &(hr_mem){ 0 }, cases[i].t, &out, &err), HR_TYPE, &err);
            assert_string_equal(err.text, cases[i].error);
        } else {
            assert_ok(hr__first_columns_fit(&f, &(hr_mem){ 0 }, cases[i].t, &out, &err), &err);
            assert_string_equal(values_text(out->columns[0]), cases[i].values);
        }
        hr_error_clear(&err);
        hr_table_unref(out);
        hr_table_unref(cases[i].t);
        hr__first_columns_clear(&f);
    }
    hr_table_unref(first_ints);
    hr_table_unref(first_doubles);
}

static hr_status set_and_fit(void *context, hr_error *err)
{
    hr_table **t = context, *out = NULL;
    hr_shown shown = { t[0], 0, t[0]->n_rows };
    hr_first_columns f = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__first_columns_set(&f, &(hr_mem){ 0 }, t[1], &shown, err));
    HR_GO(hr__first_columns_fit(&f, &(hr_mem){ 0 }, t[2], &out, err));
done:
    hr_table_unref(out);
    hr__first_columns_clear(&f);
    return st;
}

static void faults(void **state)
{
    static const double values[] = { 1, NO, 3 };
    hr_table *t[3] = { table_of_one("x", ints(values, 3)), table_of_one("x", doubles(values, 3)),
                       table_of_one("x", doubles(values, 2)) };

    (void)state;
    run_with_faults_on(set_and_fit, t, HR_FAULT_MEMORY);
    for (int i = 0; i < 3; i++)
        hr_table_unref(t[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guesses),
        cmocka_unit_test(not_shown),
        cmocka_unit_test(fits),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
