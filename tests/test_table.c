/* test_table.c - tables: the public functions, slices, takes and joins of rows with their origins, what is refused. */
#include "arrays.h"

static hr_table *sample_table(uint64_t *seed, int64_t n)
{
    hr_type *types[64];
    int n_types = HR_MIN(n_sample_types(), HR_LEN(types));
    hr_table *t;

    for (int i = 0; i < n_types; i++)
        types[i] = sample_type(i);
    t = random_table(seed, types, n_types, n);
    for (int i = 0; i < n_types; i++)
        hr__type_unref(types[i]);
    return t;
}

/* Row i of `got` is row rows[i] of `t`, in values and in origin. */
static void assert_rows(const hr_table *got, const hr_table *t, const int64_t *rows, int64_t n)
{
    hr_error err = HR_ERROR_INIT;

    assert_int_equal(hr_table_rows(got), n);
    assert_ok(hr__table_check(got, true, &err), &err);
    for (int c = 0; c < hr_table_columns(t); c++) {
        hr_array *want = NULL;

        assert_ok(hr__array_take(NULL, t->columns[c], rows, 8, n, &want, &err), &err);
        assert_same_array(got->columns[c], want);
        hr__array_unref(want);
    }
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(hr__origin_at(got->origin, i).row, rows[i]);
}

static void public_functions(void **state)
{
    hr_type *types[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    uint64_t seed = 1;
    hr_table *t = random_table(&seed, types, 2, 10), *part = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr_table_rows(t), 10);
    assert_int_equal(hr_table_columns(t), 2);
    assert_string_equal(hr_table_column_name(t, 1), "c1");
    assert_null(hr_table_column_name(t, 2));
    assert_null(hr_table_column_name(t, -1));
    assert_int_equal(hr_table_column_index(t, "c1"), 1);
    assert_int_equal(hr_table_column_index(t, "c2"), -1);
    assert_int_equal(hr_table_column_index(t, NULL), -1);
    assert_ptr_equal(hr_table_ref(t), t);
    hr_table_unref(t);
    hr_table_unref(NULL);
    assert_null(hr_table_ref(NULL));
    assert_status(hr_table_slice(t, 5, 6, &part, &err), HR_INVALID, &err);
    assert_contains(err.text, "6 rows from row 5, the table has 10");
    assert_status(hr_table_slice(t, -1, 1, &part, &err), HR_INVALID, &err);
    assert_status(hr_table_slice(t, 0, -1, &part, &err), HR_INVALID, &err);
    assert_status(hr_table_slice(t, INT64_MAX, INT64_MAX, &part, &err), HR_INVALID, &err);
    assert_null(part);
    hr_table_unref(t);
}

static void slices_and_takes(void **state)
{
    uint64_t seed = 2;

    (void)state;
    for (int round = 0; round < 6; round++) {
        hr_table *t = sample_table(&seed, 40), *part = NULL, *taken = NULL, *again = NULL;
        int64_t rows[40], n = random_below(&seed, 41), begin = random_below(&seed, 41 - n);
        int32_t few[4] = { 3, 0, 3, 1 };
        hr_error err = HR_ERROR_INIT;

        for (int64_t i = 0; i < n; i++)
            rows[i] = begin + i;
        assert_ok(hr_table_slice(t, begin, n, &part, &err), &err);
        assert_false(part->sole);
        assert_rows(part, t, rows, n);
        for (int64_t i = 0; i < n; i++)
            rows[i] = random_below(&seed, 40);
        assert_ok(hr__table_take(NULL, t, rows, 8, n, &taken, &err), &err);
        assert_true(taken->sole);
        assert_rows(taken, t, rows, n);
        if (n >= 4) {
            int64_t want[4] = { rows[3], rows[0], rows[3], rows[1] };

            assert_ok(hr__table_take(NULL, taken, few, 4, 4, &again, &err), &err);
            assert_rows(again, t, want, 4);
        }
        assert_true(hr__table_bytes_used(taken) >= 0);
        hr_table_unref(again);
        hr_table_unref(part);
        hr_table_unref(taken);
        hr_table_unref(t);
    }
}

/* The last holder of all that a table has may write into it. */
static void only_what_nobody_else_has_is_claimed(void **state)
{
    hr_type *types[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    uint64_t seed = 5;
    hr_table *t = random_table(&seed, types, 2, 10), *other = NULL;
    hr_buffer *values = hr__buffer_ref(t->columns[0]->buffers[1]);
    hr_array *column = hr__array_ref(t->columns[1]);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    hr__table_claim(t);
    assert_false(t->sole);
    hr__array_unref(column);
    hr__table_claim(t);
    assert_false(t->sole);
    hr__buffer_unref(values);
    hr_table_ref(t);
    hr__table_claim(t);
    assert_false(t->sole);
    hr_table_unref(t);
    assert_ok(hr_table_slice(t, 2, 3, &other, &err), &err);
    hr__table_claim(t);
    hr__table_claim(other);
    assert_false(t->sole || other->sole);
    hr_table_unref(t);
    hr__table_claim(other); /* a part of what nobody has as a whole any more */
    assert_true(other->sole);
    hr_table_unref(other);
}

/* Two columns that are one. */
static void a_table_shares_no_column_with_itself(void **state)
{
    hr_type *types[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_INT64) };
    uint64_t seed = 6;
    hr_table *t = random_table(&seed, types, 2, 10);

    (void)state;
    hr__array_unref(t->columns[1]);
    t->columns[1] = hr__array_ref(t->columns[0]);
    hr__table_claim(t);
    assert_false(t->sole);
    hr_table_unref(t);
}

static void concats(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int n = 1; n < 6; n++) {
        hr_table *t = sample_table(&seed, 40), *parts[5], *joined = NULL;
        int64_t rows[200], n_rows = 0;
        hr_error err = HR_ERROR_INIT;

        for (int i = 0; i < n; i++) {
            int64_t m = random_below(&seed, 41), begin = random_below(&seed, 41 - m);

            assert_ok(hr_table_slice(t, begin, m, &parts[i], &err), &err);
            for (int64_t k = 0; k < m; k++)
                rows[n_rows++] = begin + k;
        }
        assert_ok(hr__table_concat(NULL, n % 2 ? t->schema : NULL, parts, n, &joined, &err), &err);
        assert_true(joined->sole);
        assert_rows(joined, t, rows, n_rows);
        hr_table_unref(joined);
        for (int i = 0; i < n; i++)
            hr_table_unref(parts[i]);
        hr_table_unref(t);
    }
}

static void concats_that_do_not_fit(void **state)
{
    uint64_t seed = 4;
    hr_type *a[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    hr_type *b[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_BOOL) };
    hr_table *parts[2] = { random_table(&seed, a, 2, 3), random_table(&seed, b, 2, 3) }, *joined = NULL, *bare = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(hr__table_concat(NULL, NULL, parts, 2, &joined, &err), HR_TYPE, &err);
    assert_string_equal(err.text, "concat: part 1 of 2: column 'c1' is bool, expected string");
    assert_status(hr__table_concat(NULL, NULL, parts, 0, &joined, &err), HR_BUG, &err);
    assert_null(joined);
    /* one part without origin: none in the result */
    assert_ok(hr__table_with_origin(parts[0], NULL, &bare, &err), &err);
    hr_table_unref(parts[1]);
    parts[1] = bare;
    assert_ok(hr__table_concat(NULL, NULL, parts, 2, &joined, &err), &err);
    assert_null(joined->origin);
    hr_table_unref(joined);
    assert_ok(hr__table_empty(parts[0]->schema, &joined, &err), &err);
    assert_int_equal(hr_table_rows(joined), 0);
    assert_ok(hr__table_check(joined, true, &err), &err);
    hr_table_unref(joined);
    hr_table_unref(parts[0]);
    hr_table_unref(parts[1]);
}

static void other_schemas_and_origins(void **state)
{
    uint64_t seed = 5;
    hr_type *a[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    hr_type *b[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_BOOL) };
    hr_table *t = random_table(&seed, a, 2, 3), *other = random_table(&seed, b, 2, 4), *same = NULL;
    hr_schema *narrow = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(hr__table_with_schema(t, other->schema, &same, &err), HR_BUG, &err);
    assert_contains(err.text, "'c1'");
    assert_ok(hr__schema_new(t->schema->fields, 1, &narrow, &err), &err);
    assert_status(hr__table_with_schema(t, narrow, &same, &err), HR_BUG, &err);
    assert_status(hr__table_with_origin(t, other->origin, &same, &err), HR_BUG, &err);
    assert_null(same);
    assert_ok(hr__table_with_schema(t, t->schema, &same, &err), &err);
    assert_ptr_equal(same->columns[0], t->columns[0]);
    assert_ptr_equal(same->origin, t->origin);
    hr__schema_unref(narrow);
    hr_table_unref(same);
    hr_table_unref(t);
    hr_table_unref(other);
}

static void columns_of_other_lengths(void **state)
{
    static const int64_t values[] = { 1, 2, 3 };
    hr_type *one[1] = { hr__type_simple(HR_T_INT64) };
    uint64_t seed = 6;
    hr_table *t = random_table(&seed, one, 1, 4), *bad = NULL;
    hr_array *short_column = array_of_ints(values, 3);
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_status(hr__table_new(t->schema, &short_column, 4, NULL, &bad, &err), HR_BUG, &err);
    assert_contains(err.text, "column 'c0': 3 rows, the table has 4");
    assert_null(bad);
    assert_true(hr__live_blocks() < before.blocks); /* the array was taken */
    short_column = array_of_ints(values, 3);
    assert_status(hr__table_new(t->schema, &short_column, 3, t->origin, &bad, &err), HR_BUG, &err);
    assert_contains(err.text, "origin of 4 rows");
    hr_table_unref(t);
}

static void checks(void **state)
{
    static const int64_t values[] = { 1, 2, 3 };
    hr_type *one[1] = { hr__type_simple(HR_T_INT64) };
    uint64_t seed = 7;
    hr_table *t = random_table(&seed, one, 1, 3);
    hr_array *good = t->columns[0], *other = array_of_strings((const char *const[]){ "a", "b", "c" }, 3), *part = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    t->columns[0] = other;
    assert_status(hr__table_check(t, true, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "column 'c0': its type differs");
    assert_int_equal(hr__array_slice(good, 0, 2, &part, NULL), HR_OK);
    t->columns[0] = part;
    assert_status(hr__table_check(t, true, &err), HR_BAD_DATA, &err);
    hr__array_unref(part);
    part = array_of_ints(values, 3);
    atomic_store(&part->null_count, 2);
    t->columns[0] = part;
    assert_status(hr__table_check(t, true, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "column 'c0': 0 rows are null, expected 2");
    t->columns[0] = good;
    assert_ok(hr__table_check(t, true, &err), &err);
    hr__array_unref(part);
    hr__array_unref(other);
    hr_table_unref(t);
}

static const struct {
    const char *type, *format;
    int value_bytes; /* -1: no view */
} views[] = {
    { "int64", "l", 8 },
    { "bool", "b", 0 },
    { "timestamp[us, tz=UTC]", "tsu:UTC", 8 },
    { "decimal128(10, 2)", "d:10,2", 16 },
    { "fixed_size_binary[5]", "w:5", 5 },
    { "fixed_size_binary[0]", "w:0", 0 },
    { "string", NULL, -1 },
    { "list<item: int32>", NULL, -1 },
    { "null", NULL, -1 },
    { "extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[2,3]]>", NULL, -1 },
};

static void column_views(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(views); i++) {
        hr_type *type = type_named(views[i].type);
        uint64_t seed = 8;
        hr_error err = HR_ERROR_INIT;
        hr_column_view view = { .struct_bytes = sizeof view };

        for (int round = 0; round < 6; round++) {
            hr_table *t = random_table(&seed, &type, 1, 20);
            const hr_array *a = t->columns[0];

            if (views[i].value_bytes < 0) {
                assert_status(hr_table_column_view(t, 0, &view, &err), HR_TYPE, &err);
                assert_contains(err.text, "column 'c0' is ");
                hr_table_unref(t);
                continue;
            }
            assert_ok(hr_table_column_view(t, 0, &view, &err), &err);
            assert_string_equal(view.format, views[i].format);
            assert_int_equal(view.value_bytes, views[i].value_bytes);
            assert_int_equal(view.n_rows, 20);
            assert_int_equal(view.null_count, hr__array_null_count(a));
            assert_int_equal(view.validity != NULL, view.null_count > 0);
            for (int64_t r = 0; r < 20 && view.validity; r++)
                assert_int_equal(hr__bit(view.validity, view.validity_bit + r), !hr__array_is_null(a, r));
            if (view.value_bytes)
                assert_ptr_equal(view.data, hr__array_values(a));
            hr_table_unref(t);
        }
        hr__type_unref(type);
    }
}

static void columns_outside(void **state)
{
    hr_type *one[1] = { hr__type_simple(HR_T_INT64) };
    uint64_t seed = 9;
    hr_table *t = random_table(&seed, one, 1, 3);
    hr_column_view view = { .struct_bytes = sizeof view };
    hr_error err = HR_ERROR_INIT;
    char text[8] = "before";

    (void)state;
    assert_status(hr_table_column_view(t, 1, &view, &err), HR_INVALID, &err);
    assert_status(hr_table_column_view(t, -1, &view, &err), HR_INVALID, &err);
    hr_table_print_value(t, 0, 1, text, sizeof text);
    assert_string_equal(text, "");
    hr_table_print_value(t, 3, 0, text, sizeof text);
    assert_string_equal(text, "");
    hr_table_print_value(t, 0, 0, NULL, 0);
    hr_table_unref(t);
}

static void printed_values(void **state)
{
    hr_field f = { 0 };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_array *a = array_of_strings((const char *const[]){ "short", "d\xC3\xA9j\xC3\xA0 vu", NULL }, 3);
    char text[8];

    (void)state;
    assert_int_equal(hr__field_init(&f, "s", a->type, true, NULL), HR_OK);
    assert_int_equal(hr__schema_new(&f, 1, &schema, NULL), HR_OK);
    assert_int_equal(hr__table_new(schema, &a, 3, NULL, &t, NULL), HR_OK);
    hr_table_print_value(t, 0, 0, text, sizeof text);
    assert_string_equal(text, "short");
    hr_table_print_value(t, 2, 0, text, sizeof text);
    assert_string_equal(text, "null");
    hr_table_print_value(t, 1, 0, text, 6);
    assert_string_equal(text, "d\xC3\xA9j"); /* never half a character */
    hr_table_unref(t);
    hr__schema_unref(schema);
    hr__field_clear(&f);
}

static hr_status use_tables(void *context, hr_error *err)
{
    static const int64_t rows[] = { 3, 1, 1 };
    hr_status st = HR_OK;
    hr_table *t = context, *part = NULL, *taken = NULL, *joined = NULL, *bare = NULL, *empty = NULL, *parts[2];

    HR_GO(hr_table_slice(t, 1, 3, &part, err));
    HR_GO(hr__table_take(NULL, t, rows, 8, 3, &taken, err));
    parts[0] = part;
    parts[1] = taken;
    HR_GO(hr__table_concat(NULL, NULL, parts, 2, &joined, err));
    HR_GO(hr__table_with_origin(joined, NULL, &bare, err));
    HR_GO(hr__table_empty(t->schema, &empty, err));
done:
    hr_table_unref(part);
    hr_table_unref(taken);
    hr_table_unref(joined);
    hr_table_unref(bare);
    hr_table_unref(empty);
    return st;
}

static hr_status make_table(void *context, hr_error *err)
{
    hr_table *like = context, *t = NULL;
    hr_array *columns[64];
    hr_status st;

    for (int i = 0; i < like->schema->n; i++)
        columns[i] = hr__array_ref(like->columns[i]);
    st = hr__table_new(like->schema, columns, like->n_rows, like->origin, &t, err);
    hr_table_unref(t);
    return st;
}

static void faults(void **state)
{
    uint64_t seed = 10;
    hr_table *t = sample_table(&seed, 5);

    (void)state;
    run_with_faults_on(use_tables, t, HR_FAULT_MEMORY);
    run_with_faults_on(make_table, t, HR_FAULT_MEMORY);
    hr_table_unref(t);
}

/* A payload stays with the rows when their origin changes, and nobody takes it for another one. */
typedef struct note {
    hr_payload base;
    int *n_freed;
} note;

static int64_t note_bytes(const hr_payload *p)
{
    (void)p;
    return 1000;
}

static void note_free(hr_payload *p)
{
    ++*((note *)p)->n_freed;
    hr__free(p);
}

static const hr_payload_class note_class = { "a note", note_bytes, note_free };
static const hr_payload_class other_class = { "another note", note_bytes, note_free };

static hr_status carry(void *context, hr_error *err)
{
    int n_freed = 0, *before = context;
    note *n = hr__zalloc(NULL, sizeof *n);
    hr_table *t = NULL, *moved = NULL, *half = NULL;
    hr_payload *found = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    if (!n)
        return hr__error_memory(err, "note", sizeof *n);
    n->n_freed = &n_freed;
    HR_GO(hr__origin_made((hr_coord){ .row = 5 }, 4, &origin, err));
    st = hr__table_of_payload(&n->base, &note_class, 4, NULL, &t, err);
    n = NULL; /* taken */
    HR_GO(st);
    HR_GO(hr__table_with_origin(t, origin, &moved, err));
    HR_GO(hr_table_slice(moved, 1, 2, &half, err));
    HR_GO(hr__table_payload(moved, &note_class, &found, err));
    assert_ptr_equal(((note *)found)->n_freed, &n_freed);
    assert_true(hr__table_bytes_used(moved) >= 1000 && hr__table_bytes_used(half) < 1000);
    assert_int_equal(hr__table_payload(moved, &other_class, &found, NULL), HR_BUG);
    assert_null(found);
    assert_int_equal(hr__table_payload(half, &note_class, &found, NULL), HR_BUG);
    hr_table_unref(t);
    t = NULL;
    assert_int_equal(n_freed, 0);
    ++*before;
done:
    hr__free(n);
    hr__origin_unref(origin);
    hr_table_unref(t);
    hr_table_unref(moved);
    hr_table_unref(half);
    if (!st)
        assert_int_equal(n_freed, 1);
    return st;
}

static void test_payload(void **unused)
{
    int n = 0;

    (void)unused;
    assert_true(run_with_faults_on(carry, &n, HR_FAULT_MEMORY) > 3);
    assert_true(n > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(public_functions),
        cmocka_unit_test(slices_and_takes),
        cmocka_unit_test(concats),
        cmocka_unit_test(only_what_nobody_else_has_is_claimed),
        cmocka_unit_test(a_table_shares_no_column_with_itself),
        cmocka_unit_test(concats_that_do_not_fit),
        cmocka_unit_test(other_schemas_and_origins),
        cmocka_unit_test(columns_of_other_lengths),
        cmocka_unit_test(checks),
        cmocka_unit_test(column_views),
        cmocka_unit_test(columns_outside),
        cmocka_unit_test(printed_values),
        cmocka_unit_test(faults),
        cmocka_unit_test(test_payload),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
