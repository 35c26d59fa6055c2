/* test_remembered_columns.c - columns as text for positions: all types come back, damaged texts are refused, too many
 * are a hash. */
#include "harness.h"

#include "op/operators.h"

#include <stdio.h>

static const char *const types[] = {
    "null",
    "bool",
    "int8",
    "uint64",
    "float16",
    "double",
    "string",
    "large_binary",
    "date32",
    "timestamp[us, tz=UTC]",
    "time64[ns]",
    "duration[ms]",
    "decimal128(10, 2)",
    "fixed_size_binary[16]",
    "list<int64>",
    "fixed_size_list<list<string>>[3]",
};

static void add(hr_field *fields, int *n, const char *name, hr_type *takes)
{
    assert_ok(hr__field_init(&fields[*n], name, takes, *n % 2, NULL), NULL);
    hr__type_unref(takes);
    ++*n;
}

static hr_schema *schema_of(hr_field *fields, int n)
{
    hr_schema *s = NULL;

    assert_ok(hr__schema_new(fields, n, &s, NULL), NULL);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    return s;
}

static hr_schema *all_types(void)
{
    static const int64_t shape[] = { 3, 4 };
    hr_field fields[32] = { 0 };
    hr_type *type = NULL;
    hr_type *value = hr__type_simple(HR_T_FLOAT32);
    char name[32];
    int n = 0;

    for (int i = 0; i < HR_LEN(types); i++) {
        assert_ok(hr__type_parse(types[i], &type, NULL), NULL);
        snprintf(name, sizeof name, "c%d;\x01 \"\xc3\xa9", i);
        add(fields, &n, name, type);
    }
    assert_ok(hr__type_tensor(value, shape, 2, &type, NULL), NULL);
    add(fields, &n, "tensor", type);
    assert_ok(hr__type_ragged(value, 2, &type, NULL), NULL);
    add(fields, &n, "ragged", type);
    assert_ok(hr__type_ragged_image(value, &type, NULL), NULL);
    add(fields, &n, "image", type);
    assert_ok(hr__type_struct(fields, n, &type, NULL), NULL);
    add(fields, &n, "struct", type);
    add(fields, &n, "", hr__type_ref(hr__type_pickled()));
    return schema_of(fields, n);
}

static hr_schema *many(int n)
{
    hr_field *fields = hr__zalloc(NULL, (size_t)n * sizeof *fields);
    char name[32];
    hr_schema *s;
    int made = 0;

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof name, "column %d", i);
        add(fields, &made, name, hr__type_ref(hr__type_simple(HR_T_INT64)));
    }
    s = schema_of(fields, n);
    hr__free(fields);
    return s;
}

static void comes_back(void **state)
{
    hr_schema *s = all_types(), *again = NULL;
    hr_remembered m = { 0 }, other = { 0 };
    bool marks[32] = { true, false, true }, *found = NULL;

    (void)state;
    assert_ok(hr__remembered_set(&m, s, marks, NULL), NULL);
    assert_ok(hr__remembered_recall(&other, m.text, (int64_t)strlen(m.text), &again, &found, NULL), NULL);
    assert_true(hr__schema_equal(s, again));
    for (int i = 0; i < s->n; i++) {
        assert_int_equal(found[i], marks[i]);
        assert_int_equal(again->fields[i].nullable, s->fields[i].nullable);
        assert_int_equal(again->fields[i].type->pickled, s->fields[i].type->pickled);
        assert_int_equal(again->fields[i].type->image, s->fields[i].type->image);
    }
    assert_string_equal(m.text, other.text);
    hr__free(found);
    hr__schema_unref(again);
    hr__schema_unref(s);
    hr__remembered_clear(&m);
    hr__remembered_clear(&other);
}

/* Each text is refused or says some columns: nothing else. -> whether it was refused. */
static bool is_refused(const char *text)
{
    hr_remembered m = { 0 };
    hr_schema *s = NULL;
    bool *marks = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_status st = hr__remembered_recall(&m, text, (int64_t)strlen(text), &s, &marks, &err);

    if (st) {
        assert_int_equal(st, HR_INVALID);
        assert_contains(err.text, "position");
    }
    assert_int_equal(s != NULL, marks != NULL);
    hr__schema_unref(s);
    hr__free(marks);
    hr__remembered_clear(&m);
    hr_error_clear(&err);
    return st != HR_OK;
}

static void damaged(void **state)
{
    hr_schema *s = all_types();
    hr_remembered m = { 0 };
    live_memory before;
    uint64_t random = 7;
    size_t n;

    (void)state;
    assert_ok(hr__remembered_set(&m, s, NULL, NULL), NULL);
    n = strlen(m.text);
    before = live_now();
    assert_true(is_refused(""));
    assert_true(is_refused(";"));
    assert_true(is_refused("#"));
    assert_true(is_refused("0;!!!!"));
    for (size_t cut = n - 1; cut > 0; cut -= 1 + cut / 97) { /* cut at the end */
        char was = m.text[cut];

        m.text[cut] = 0;
        if (m.text[cut - 1] != '=') /* padding may lack */
            assert_true(n - cut <= 2 || is_refused(m.text));
        m.text[cut] = was;
    }
    assert_true(is_refused(m.text + 1)); /* a mark lacks */
    for (int i = 0; i < repeats(20000); i++) {
        size_t at = (size_t)random_below(&random, (int64_t)n);
        char was = m.text[at];

        m.text[at] = (char)random_below(&random, 127) + 1;
        (void)is_refused(m.text);
        m.text[at] = was;
    }
    assert_no_leak(before);
    hr__remembered_clear(&m);
    hr__schema_unref(s);
}

static void too_many(void **state)
{
    hr_schema *s = many(700), *fewer = many(699), *again = NULL;
    hr_remembered m = { 0 }, later = { 0 };
    bool *marks = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__remembered_set(&m, s, NULL, &err), &err);
    assert_int_equal(m.text[0], '#');
    assert_ok(hr__remembered_recall(&later, m.text, (int64_t)strlen(m.text), &again, &marks, &err), &err);
    assert_null(again);
    assert_null(marks);
    assert_status(hr__remembered_set(&later, fewer, NULL, &err), HR_TYPE, &err);
    assert_contains(err.text, "699 columns that differ");
    assert_null(later.text);
    hr_error_clear(&err);
    assert_ok(hr__remembered_set(&later, s, NULL, &err), &err);
    assert_string_equal(m.text, later.text);
    hr__remembered_clear(&m);
    hr__remembered_clear(&later);
    hr__schema_unref(s);
    hr__schema_unref(fewer);
}

static hr_status set_and_recall(void *context, hr_error *err)
{
    hr_remembered m = { 0 }, later = { 0 };
    hr_schema *again = NULL;
    bool *marks = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__remembered_set(&m, context, NULL, err));
    HR_GO(hr__remembered_recall(&later, m.text, (int64_t)strlen(m.text), &again, &marks, err));
done:
    hr__schema_unref(again);
    hr__free(marks);
    hr__remembered_clear(&m);
    hr__remembered_clear(&later);
    return st;
}

static void faults(void **state)
{
    hr_schema *s = all_types();

    (void)state;
    run_with_faults_on(set_and_recall, s, HR_FAULT_MEMORY);
    hr__schema_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back),
        cmocka_unit_test(damaged),
        cmocka_unit_test(too_many),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
