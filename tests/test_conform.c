/* test_conform.c - types that nearly agree, made to agree; and those that do not. */
#include "arrays.h"

#include <stdio.h>

static hr_type *list_of(hr_type_id id, hr_type *takes)
{
    hr_field item = { 0 };
    hr_type *out = NULL;

    assert_ok(hr__field_init(&item, "item", takes, true, NULL), NULL);
    assert_ok(hr__type_list(id, &item, 0, &out, NULL), NULL);
    hr__field_clear(&item);
    hr__type_unref(takes);
    return out;
}

static hr_type *simple(hr_type_id id) { return hr__type_ref(hr__type_simple(id)); }

static hr_type *tensor_of(hr_type *takes, int64_t a, int64_t b)
{
    hr_type *out = NULL;

    assert_ok(hr__type_tensor(takes, (const int64_t[]){ a, b }, 2, &out, NULL), NULL);
    hr__type_unref(takes);
    return out;
}

static hr_type *struct_of(const char *name, hr_type *takes)
{
    hr_field field = { 0 };
    hr_type *out = NULL;

    assert_ok(hr__field_init(&field, name, takes, true, NULL), NULL);
    assert_ok(hr__type_struct(&field, 1, &out, NULL), NULL);
    hr__field_clear(&field);
    hr__type_unref(takes);
    return out;
}

/* Both ways round; takes the types. want "": none. */
static void both(hr_type *a, hr_type *b, const char *want)
{
    for (int k = 0; k < 2; k++) {
        hr_type *out = NULL;

        assert_ok(hr__type_conform(k ? b : a, k ? a : b, &out, NULL), NULL);
        assert_string_equal(out ? type_text(out) : "", want);
        hr__type_unref(out);
    }
    hr__type_unref(a);
    hr__type_unref(b);
}

static void types(void **state)
{
    (void)state;
    both(simple(HR_T_NULL), simple(HR_T_INT64), "int64");
    both(simple(HR_T_NULL), simple(HR_T_NULL), "null");
    both(simple(HR_T_INT64), simple(HR_T_FLOAT64), "");
    both(simple(HR_T_INT32), simple(HR_T_INT64), "");
    both(simple(HR_T_STRING), list_of(HR_T_LIST, simple(HR_T_STRING)), "");
    both(list_of(HR_T_LIST, simple(HR_T_NULL)), list_of(HR_T_LIST, simple(HR_T_BOOL)), "list<item: bool>");
    both(list_of(HR_T_LIST, simple(HR_T_NULL)), list_of(HR_T_LARGE_LIST, simple(HR_T_BOOL)), "large_list<item: bool>");
    both(list_of(HR_T_LIST, simple(HR_T_INT64)), list_of(HR_T_LIST, simple(HR_T_STRING)), "");
    both(tensor_of(simple(HR_T_INT64), 2, 3), tensor_of(simple(HR_T_INT64), 2, 2), "list<item: list<item: int64>>");
    both(tensor_of(simple(HR_T_INT64), 2, 3), list_of(HR_T_LIST, list_of(HR_T_LIST, simple(HR_T_INT64))),
         "list<item: list<item: int64>>");
    both(tensor_of(simple(HR_T_INT64), 2, 3), list_of(HR_T_LIST, simple(HR_T_INT64)), "");
    both(tensor_of(simple(HR_T_INT64), 2, 3), tensor_of(simple(HR_T_INT32), 2, 3), "");
    both(struct_of("a", simple(HR_T_NULL)), struct_of("a", simple(HR_T_DATE32)), "struct<a: date32[day]>");
    both(struct_of("a", simple(HR_T_NULL)), struct_of("b", simple(HR_T_NULL)), "");
    both(hr__type_pickled(), hr__type_pickled(), "extension<headrace.pickle>");
    both(hr__type_pickled(), simple(HR_T_NULL), "extension<headrace.pickle>");
    both(hr__type_pickled(), simple(HR_T_STRING), "extension<headrace.pickle>");
    both(hr__type_pickled(), list_of(HR_T_LIST, simple(HR_T_DATE32)), "extension<headrace.pickle>");
    both(hr__type_pickled(), tensor_of(simple(HR_T_INT64), 2, 3), "");
    both(hr__type_pickled(), list_of(HR_T_LIST, tensor_of(simple(HR_T_INT64), 2, 3)), "");
}

/* n rows, the third of five null, after two others. */
static hr_array *tensors(int64_t n, hr_type *type)
{
    int64_t width = type->width, total = (n + 2) * width;
    hr_buffer *values = NULL, *validity = NULL;
    hr_array *child = NULL, *out = NULL, *part = NULL;

    assert_ok(hr__buffer_new(NULL, total * 8, &values, NULL), NULL);
    for (int64_t i = 0; i < total; i++)
        memcpy(values->data + i * 8, &i, 8);
    assert_ok(hr__buffer_new(NULL, hr__bits_bytes(n + 2), &validity, NULL), NULL);
    hr__bits_fill(validity->data, 0, n + 2, true);
    hr__bit_clear(validity->data, 4);
    assert_ok(
        hr__array_new(type->children[0].type, total, 0, (hr_buffer *[3]){ NULL, values, NULL }, NULL, 0, &child, NULL),
        NULL);
    assert_ok(hr__array_new(type, n + 2, -1, (hr_buffer *[3]){ validity, NULL, NULL }, &child, 1, &out, NULL), NULL);
    assert_ok(hr__array_slice(out, 2, n, &part, NULL), NULL);
    hr__array_unref(out);
    return part;
}

static void arrays(void **state)
{
    hr_type *tensor = tensor_of(simple(HR_T_INT64), 2, 1), *empty = tensor_of(simple(HR_T_INT64), 0, 3),
            *out_type = NULL;
    hr_array *a = tensors(3, tensor), *out = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int k = 0; k < 2; k++) {
        hr_type *lists = list_of(k ? HR_T_LARGE_LIST : HR_T_LIST, list_of(HR_T_LIST, simple(HR_T_INT64)));

        assert_ok(hr__type_conform(tensor, lists, &out_type, &err), &err);
        assert_ok(hr__array_conform(NULL, a, out_type, &out, &err), &err);
        assert_ok(hr__array_check(out, true, &err), &err);
        assert_string_equal(values_text(out), "[[4], [5]] [[6], [7]] null");
        hr__array_unref(out);
        hr__type_unref(out_type);
        hr__type_unref(lists);
    }
    hr__array_unref(a);
    hr__type_unref(tensor);

    a = tensors(3, empty);
    out_type = list_of(HR_T_LIST, list_of(HR_T_LIST, simple(HR_T_INT64)));
    assert_ok(hr__array_conform(NULL, a, out_type, &out, &err), &err);
    assert_ok(hr__array_check(out, true, &err), &err);
    assert_string_equal(values_text(out), "[] [] null");
    hr__array_unref(out);
    hr__array_unref(a);
    hr__type_unref(empty);
    hr__type_unref(out_type);
}

/* Random arrays of every type beside a column of nulls, and within lists, as themselves. */
static void random_arrays(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k), *null_type = hr__type_simple(HR_T_NULL), *out_type = NULL;
        hr_array *a = random_array(&seed, type, 20), *nulls = NULL, *want = NULL, *out = NULL;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__array_nulls(NULL, null_type, 7, &nulls, &err), &err);
        assert_ok(hr__array_nulls(NULL, type, 7, &want, &err), &err);
        assert_ok(hr__type_conform(null_type, type, &out_type, &err), &err);
        assert_ok(hr__array_conform(NULL, nulls, out_type, &out, &err), &err);
        assert_same_array(out, want);
        hr__array_unref(out);
        assert_ok(hr__array_conform(NULL, a, out_type, &out, &err), &err);
        assert_ptr_equal(out, a);
        hr__array_unref(out);
        hr__array_unref(a);
        hr__array_unref(nulls);
        hr__array_unref(want);
        hr__type_unref(out_type);
        hr__type_unref(type);
    }
}

static hr_table *table_of(const char *const *names, hr_array *const *columns, int n)
{
    hr_field fields[4] = { { 0 } };
    hr_schema *schema = NULL;
    hr_table *out = NULL;

    for (int i = 0; i < n; i++)
        assert_ok(hr__field_init(&fields[i], names[i], columns[i]->type, true, NULL), NULL);
    assert_ok(hr__schema_new(fields, n, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, columns[0]->length, NULL, &out, NULL), NULL);
    hr__schema_unref(schema);
    for (int i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    return out;
}

static hr_array *nulls(int64_t n)
{
    hr_array *a = NULL;

    assert_ok(hr__array_nulls(NULL, hr__type_simple(HR_T_NULL), n, &a, NULL), NULL);
    return a;
}

static hr_status conform_tables(void *context, hr_error *err)
{
    hr_table **t = context, *out = NULL;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__schema_conform(t[0]->schema, t[1]->schema, &schema, err));
    for (int k = 0; k < 2; k++) {
        HR_GO(hr__table_conform(NULL, t[k], schema, &out, err));
        assert_int_equal(out->n_rows, t[k]->n_rows);
        hr_table_unref(out);
        out = NULL;
    }
done:
    hr__schema_unref(schema);
    return st;
}

static void tables(void **state)
{
    hr_type *tensor = tensor_of(simple(HR_T_INT64), 2, 1);
    hr_table *t[2] = {
        table_of((const char *const[]){ "a", "b", "c" },
                 (hr_array *[]){ array_of_ints((const int64_t[]){ 1, 2, 3 }, 3), nulls(3), tensors(3, tensor) }, 3),
        NULL
    };
    hr_table *other = table_of((const char *const[]){ "a", "d" }, (hr_array *[]){ nulls(1), nulls(1) }, 2), *out = NULL;
    hr_schema *schema = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_type *square = tensor_of(simple(HR_T_INT64), 1, 1);

    (void)state;
    t[1] = table_of(
        (const char *const[]){ "c", "b", "a" },
        (hr_array *[]){ tensors(3, square), array_of_strings((const char *const[]){ "x", NULL, "z" }, 3), nulls(3) },
        3);
    assert_ok(hr__schema_conform(t[0]->schema, t[1]->schema, &schema, &err), &err);
    assert_int_equal(schema->n, 3);
    assert_string_equal(schema->fields[0].name, "a");
    assert_string_equal(type_text(schema->fields[0].type), "int64");
    assert_string_equal(type_text(schema->fields[1].type), "string");
    assert_string_equal(type_text(schema->fields[2].type), "list<item: list<item: int64>>");
    assert_ok(hr__table_conform(NULL, t[1], schema, &out, &err), &err);
    assert_ok(hr__table_check(out, true, &err), &err);
    assert_string_equal(values_text(out->columns[0]), "null null null");
    assert_string_equal(values_text(out->columns[2]), "[[2]] [[3]] null");
    hr_table_unref(out);
    hr__schema_unref(schema);
    run_with_faults_on(conform_tables, t, HR_FAULT_MEMORY);

    assert_status(hr__schema_conform(t[0]->schema, other->schema, &schema, &err), HR_TYPE, &err);
    assert_null(schema);
    hr_error_clear(&err);
    assert_status(hr__table_conform(NULL, other, t[0]->schema, &out, &err), HR_TYPE, &err);
    hr_error_clear(&err);
    hr_table_unref(t[0]);
    hr_table_unref(t[1]);
    hr_table_unref(other);
    hr__type_unref(tensor);
    hr__type_unref(square);
}

/* Integers beside doubles are doubles, as columns; within lists they differ, and beyond 2^53 there is no way. */
static void integers_and_doubles(void **state)
{
    hr_type *list = list_of(HR_T_LIST, simple(HR_T_INT64));
    hr_table *ints = table_of((const char *const[]){ "a", "b" },
                              (hr_array *[]){ array_of_ints((const int64_t[]){ 1, -2 }, 2), nulls(2) }, 2);
    hr_table *large =
        table_of((const char *const[]){ "a", "b" },
                 (hr_array *[]){ array_of_ints((const int64_t[]){ 1, (1ll << 53) + 1 }, 2), nulls(2) }, 2);
    hr_array *filled = NULL, *as_double = NULL;
    hr_table *doubles, *out = NULL;
    hr_schema *schema = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    both(hr__type_ref(list), list_of(HR_T_LIST, simple(HR_T_FLOAT64)), "");
    filled = array_of_ints((const int64_t[]){ 5, 6 }, 2);
    assert_ok(hr__array_fill_nulls(&(hr_mem){ 0 }, filled, &as_double, &err), &err);
    doubles = table_of((const char *const[]){ "a", "b" }, (hr_array *[]){ as_double, nulls(2) }, 2);
    for (int k = 0; k < 2; k++) {
        assert_ok(hr__schema_conform((k ? ints : doubles)->schema, (k ? doubles : ints)->schema, &schema, &err), &err);
        assert_string_equal(type_text(schema->fields[0].type), "double");
        assert_ok(hr__table_conform(&(hr_mem){ 0 }, ints, schema, &out, &err), &err);
        assert_string_equal(values_text(out->columns[0]), "1.0 -2.0");
        hr_table_unref(out);
        assert_status(hr__table_conform(&(hr_mem){ 0 }, large, schema, &out, &err), HR_TYPE, &err);
        assert_string_equal(err.text, "column 'a': row 1: no double is 9007199254740993");
        hr_error_clear(&err);
        hr__schema_unref(schema);
    }
    hr__array_unref(filled);
    hr_table_unref(ints);
    hr_table_unref(large);
    hr_table_unref(doubles);
    hr__type_unref(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types),
        cmocka_unit_test(arrays),
        cmocka_unit_test(random_arrays),
        cmocka_unit_test(tables),
        cmocka_unit_test(integers_and_doubles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
