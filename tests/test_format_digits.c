/* test_format_digits.c - the example of a format: what its files give, wrong files, failures, and back again.
 *
 * A new format's test begins like this one (docs/adding-a-format.md). */
#include "file_rows.h"

#include <stdlib.h>

extern const hr_format hr__format_digits; /* of examples/format_digits.c; HR_FORMATS declares those of the engine */

static const struct {
    const char *data, *want;
    hr_status st;
} cases[] = {
    { "", "", HR_OK },
    { "7\n", "7\n", HR_OK },
    { "0\n-12\r\n9223372036854775807", "0\n-12\n9223372036854775807\n", HR_OK },
    { "1\n2\n12x\n4\n", "line 3: expected an integer of 64 bits, found '12x'", HR_BAD_DATA },
    { "1\n\n", "line 2: expected an integer of 64 bits, found ''", HR_BAD_DATA },
    { "1\n0000000000000000000000000", "line 2: expected an integer of 64 bits, found '0", HR_BAD_DATA },
};

/* The same rows, whatever the size of the tables. */
static void test_files(void **unused)
{
    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 20) {
            hr_error err = HR_ERROR_INIT;
            file_rows r = { 0 };
            file_request q = { .format = &hr__format_digits,
                               .data = cases[i].data,
                               .n = (int64_t)strlen(cases[i].data),
                               .max_bytes = max_bytes,
                               .out = &r };

            assert_status(file_read(&q, &err), cases[i].st, &err);
            if (cases[i].st)
                assert_contains(err.text, cases[i].want);
            else
                assert_string_equal(r.text ? r.text : "", cases[i].want);
            free(r.text);
        }
    }
}

static void test_row_ranges(void **unused)
{
    (void)unused;
    file_check_ranges(
        (file_request){ .format = &hr__format_digits, .data = "1\n2\n3\n4\n5\n", .n = 10, .max_bytes = 1 }, 5);
}

static void test_projection(void **unused)
{
    static const char *const names[] = { "other" };
    const hr_projection none = { 0, NULL }, other = { 1, names };
    hr_error err = HR_ERROR_INIT;
    file_rows r = { 0 };
    file_request q = { .format = &hr__format_digits, .data = "1\n2\n", .n = 4, .projection = &none, .out = &r };

    (void)unused;
    assert_ok(file_read(&q, &err), &err);
    assert_int_equal(r.n_rows, 2); /* rows without columns count */
    q.projection = &other;
    assert_status(file_read(&q, &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "no column 'other'; there are: value");
    free(r.text);
}

static void test_faults(void **unused)
{
    file_request q = { .format = &hr__format_digits, .data = "1\n2\n3\n", .n = 6 };

    (void)unused;
    run_with_faults_on(file_read, &q, HR_FAULT_MEMORY | HR_FAULT_IO);
}

/* A column of integers as the bytes of a file. */
static hr_status encode(void *context, hr_error *err)
{
    const char *want = "-1\n9223372036854775807\n";
    hr_array *a = context;
    hr_field field = { .name = (char *)"value", .type = a->type };
    hr_encoded_chunk chunk = { 0 };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_writer *w = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__schema_new(&field, 1, &schema, err));
    HR_GO(hr__format_digits.create(schema, NULL, NULL, &w, err));
    hr__array_ref(a);
    HR_GO(hr__table_new(schema, &a, a->length, NULL, &t, err)); /* takes a */
    HR_GO(w->cls->encode(w, &(hr_mem){ 0 }, t, &chunk, err));
    assert_int_equal(chunk.n_rows, a->length);
    assert_int_equal(chunk.bytes->n_bytes, strlen(want));
    assert_memory_equal(chunk.bytes->data, want, strlen(want));
done:
    hr__encoded_chunk_clear(&chunk);
    if (w)
        w->cls->free(w);
    hr_table_unref(t);
    hr__schema_unref(schema);
    return st;
}

static void test_writing(void **unused)
{
    hr_array *a = array_of_ints((const int64_t[]){ -1, INT64_MAX }, 2);
    hr_array *null = array_of_ints((const int64_t[]){ INT64_MIN }, 1);
    hr_array *text = array_of_strings((const char *const[]){ "1" }, 1);
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    run_with_faults_on(encode, a, HR_FAULT_MEMORY);
    assert_status(encode(null, &err), HR_INVALID, &err);
    assert_contains(err.text, "row 0 of the table is null");
    assert_status(encode(text, &err), HR_TYPE, &err);
    hr__array_unref(a);
    hr__array_unref(null);
    hr__array_unref(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),  cmocka_unit_test(test_row_ranges), cmocka_unit_test(test_projection),
        cmocka_unit_test(test_faults), cmocka_unit_test(test_writing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
