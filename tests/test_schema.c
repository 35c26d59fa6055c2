/* test_schema.c - schemas: look-up, differences, texts; metadata, damaged too; tensors in their storage. */
#include "arrays.h"

#include <stdio.h>

typedef struct column {
    const char *name;
    hr_type_id id;
    bool nullable;
} column;

static hr_schema *schema_of(const column *columns, int n)
{
    hr_field f[8] = { 0 };
    hr_schema *s = NULL;

    for (int i = 0; i < n; i++)
        assert_int_equal(
            hr__field_init(&f[i], columns[i].name, hr__type_simple(columns[i].id), columns[i].nullable, NULL), HR_OK);
    assert_int_equal(hr__schema_new(f, n, &s, NULL), HR_OK);
    for (int i = 0; i < n; i++)
        hr__field_clear(&f[i]);
    return s;
}

static const column three[] = { { "id", HR_T_INT64, false }, { "text", HR_T_STRING, true }, { "id", HR_T_INT8, true } };

static void look_up(void **state)
{
    hr_schema *s = schema_of(three, 3);
    hr_text text = { 0 };

    (void)state;
    assert_int_equal(hr__schema_find(s, "id"), 0); /* the first of two */
    assert_int_equal(hr__schema_find(s, "text"), 1);
    assert_int_equal(hr__schema_find(s, "tex"), -1);
    hr__schema_print(s, &text);
    assert_string_equal(text.data, "id: int64 not null\ntext: string\nid: int8\n");
    hr__text_clear(&text);
    hr__schema_unref(s);
    hr__schema_unref(NULL);
    assert_null(hr__schema_ref(NULL));
}

static const struct {
    column found[3], expected[3];
    const char *text; /* NULL: equal */
} differences[] = {
    { { { "a", HR_T_INT64, true } }, { { "a", HR_T_INT64, false } }, NULL },
    { { { "a", HR_T_INT64, true } }, { { "a", HR_T_FLOAT64, true } }, "column 'a' is int64, expected double" },
    { { { "a", HR_T_INT64, true } }, { { "b", HR_T_INT64, true } }, "column 0 is 'a', expected 'b'" },
    { { { "a", HR_T_INT64, true }, { "b", HR_T_INT8, true } },
      { { "a", HR_T_INT64, true } },
      "column 'b' is not expected" },
    { { { "a", HR_T_INT64, true } }, { { "a", HR_T_INT64, true }, { "b", HR_T_INT8, true } }, "column 'b' is missing" },
};

static int count(const column *c)
{
    int n = 0;

    while (n < 3 && c[n].name)
        n++;
    return n;
}

static void difference(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(differences); i++) {
        hr_schema *a = schema_of(differences[i].found, count(differences[i].found));
        hr_schema *b = schema_of(differences[i].expected, count(differences[i].expected));
        char text[100], few[8];

        assert_int_equal(hr__schema_equal(a, b), differences[i].text == NULL);
        assert_true(hr__schema_equal(a, a));
        if (differences[i].text) {
            hr__schema_difference(a, b, text, sizeof text);
            assert_string_equal(text, differences[i].text);
            hr__schema_difference(a, b, few, sizeof few);
            assert_int_equal(strlen(few), sizeof few - 1);
        }
        hr__schema_unref(a);
        hr__schema_unref(b);
    }
}

static void missing(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_schema *s = schema_of(three, 3), *none = schema_of(three, 0), *wide = NULL;
    hr_field f = { 0 }, *many = NULL;
    char name[40];

    (void)state;
    assert_status(hr__schema_missing(s, "label", &err), HR_INVALID, &err);
    assert_string_equal(err.text, "there is no column 'label', only 'id', 'text', 'id'");
    assert_status(hr__schema_missing(none, "label", &err), HR_INVALID, &err);
    assert_contains(err.text, "nor any other");
    many = test_calloc(500, sizeof *many);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "column number %d", i);
        assert_ok(hr__field_init(&many[i], name, hr__type_simple(HR_T_BOOL), true, &err), &err);
    }
    assert_ok(hr__schema_new(many, 500, &wide, &err), &err);
    assert_status(hr__schema_missing(wide, "label", &err), HR_INVALID, &err);
    assert_contains(err.text, "'column number 20', ");
    assert_contains(err.text, "...");
    for (int i = 0; i < 500; i++)
        hr__field_clear(&many[i]);
    test_free(many);
    hr__field_clear(&f);
    hr__schema_unref(s);
    hr__schema_unref(none);
    hr__schema_unref(wide);
}

static const char *value_of(const uint8_t *m, int64_t n_bytes, const char *key)
{
    static char text[64];
    int64_t n = 0;
    const char *v = hr__metadata_get(m, n_bytes, key, &n);

    if (!v)
        return NULL;
    snprintf(text, sizeof text, "%.*s", (int)n, v);
    return text;
}

static void metadata(void **state)
{
    hr_error err = HR_ERROR_INIT;
    uint8_t *m = NULL;
    int64_t n = 0;

    (void)state;
    assert_null(value_of(m, n, "a"));
    assert_ok(hr__metadata_set(&m, &n, "a", "1", 1, &err), &err);
    assert_ok(hr__metadata_set(&m, &n, "empty", "", 0, &err), &err);
    assert_ok(hr__metadata_set(&m, &n, "b", "two", 3, &err), &err);
    assert_string_equal(value_of(m, n, "a"), "1");
    assert_string_equal(value_of(m, n, "b"), "two");
    assert_string_equal(value_of(m, n, "empty"), "");
    assert_ok(hr__metadata_set(&m, &n, "a", "one", 3, &err), &err);
    assert_string_equal(value_of(m, n, "a"), "one");
    assert_ok(hr__metadata_set(&m, &n, "b", NULL, 0, &err), &err);
    assert_null(value_of(m, n, "b"));
    assert_ok(hr__metadata_set(&m, &n, "empty", NULL, 0, &err), &err);
    assert_ok(hr__metadata_set(&m, &n, "a", NULL, 0, &err), &err);
    assert_null(m);
    assert_int_equal(n, 0);
}

/* Every cut and every changed byte: no key is found that was not there, nothing is read outside (the sanitizer
 * says). */
static void damaged_metadata(void **state)
{
    uint8_t *m = NULL, *copy;
    int64_t n = 0;

    (void)state;
    assert_int_equal(hr__metadata_set(&m, &n, "key", "value", 5, NULL), HR_OK);
    assert_int_equal(hr__metadata_set(&m, &n, "other", "v", 1, NULL), HR_OK);
    for (int64_t cut = 0; cut < n; cut++) {
        copy = test_malloc((size_t)cut + 1);
        memcpy(copy, m, (size_t)cut);
        assert_null(value_of(copy, cut, "other"));
        test_free(copy);
    }
    for (int64_t at = 0; at < n; at++) {
        static const uint8_t bytes[] = { 0, 1, 0x7F, 0x80, 0xFF };

        for (int i = 0; i < HR_LEN(bytes); i++) {
            copy = test_malloc((size_t)n);
            memcpy(copy, m, (size_t)n);
            copy[at] = bytes[i];
            value_of(copy, n, "other");
            test_free(copy);
        }
    }
    hr__free(m);
}

static const struct {
    const char *name, *text;
    bool is_tensor; /* fixed_size_list[6] becomes one */
    int n_dims;
} storages[] = {
    { "arrow.fixed_shape_tensor", "{\"shape\":[2,3]}", true, 2 },
    { "arrow.fixed_shape_tensor", " { \"shape\" : [ 2 , 3 ] } ", true, 2 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[6]}", true, 1 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[1,1,1,1,1,1,1,6]}", true, 8 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[1,1,1,1,1,1,1,1,6]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[2,2]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[2,3],\"permutation\":[1,0]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"dim_names\":[\"H\",\"W\"],\"shape\":[2,3]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[2,3", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[2,-3]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[99999999999999999999]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"shape\":[4294967296,4294967296,4294967296]}", false, 0 },
    { "arrow.fixed_shape_tensor", "{\"sha\\", false, 0 },
    { "arrow.fixed_shape_tensor", "", false, 0 },
    { "arrow.json", "{\"shape\":[2,3]}", false, 0 },
};

static void set_key(hr_field *f, const char *key, const char *value)
{
    assert_int_equal(hr__metadata_set(&f->metadata, &f->metadata_bytes, key, value, (int64_t)strlen(value), NULL),
                     HR_OK);
}

static hr_field fixed_list_field(void)
{
    hr_field f = { 0 }, item = { 0 };
    hr_type *list = NULL;

    assert_int_equal(hr__field_init(&item, "item", hr__type_simple(HR_T_FLOAT32), true, NULL), HR_OK);
    assert_int_equal(hr__type_list(HR_T_FIXED_LIST, &item, 6, &list, NULL), HR_OK);
    assert_int_equal(hr__field_init(&f, "x", list, true, NULL), HR_OK);
    hr__type_unref(list);
    hr__field_clear(&item);
    return f;
}

static void tensors(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(storages); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_field f = fixed_list_field();
        uint8_t *m = NULL;
        int64_t n = 0;

        set_key(&f, "kept", "yes");
        set_key(&f, "ARROW:extension:name", storages[i].name);
        set_key(&f, "ARROW:extension:metadata", storages[i].text);
        assert_ok(hr__field_from_storage(&f, &err), &err);
        assert_int_equal(f.type->id, storages[i].is_tensor ? HR_T_TENSOR : HR_T_FIXED_LIST);
        assert_int_equal(f.type->n_dims, storages[i].n_dims);
        assert_int_equal(value_of(f.metadata, f.metadata_bytes, "ARROW:extension:name") == NULL, storages[i].is_tensor);
        assert_string_equal(value_of(f.metadata, f.metadata_bytes, "kept"), "yes");
        assert_ok(hr__field_storage_metadata(&f, &m, &n, &err), &err);
        assert_string_equal(value_of(m, n, "ARROW:extension:name"), storages[i].name);
        assert_string_equal(value_of(m, n, "kept"), "yes");
        if (i == 0)
            assert_string_equal(value_of(m, n, "ARROW:extension:metadata"), "{\"shape\":[2,3]}");
        hr__free(m);
        hr__field_clear(&f);
    }
}

static void other_fields_have_no_storage(void **state)
{
    hr_field f = { 0 };
    uint8_t *m = NULL;
    int64_t n = 1;

    (void)state;
    assert_int_equal(hr__field_init(&f, "x", hr__type_simple(HR_T_INT8), true, NULL), HR_OK);
    assert_int_equal(hr__field_from_storage(&f, NULL), HR_OK);
    assert_int_equal(hr__field_storage_metadata(&f, &m, &n, NULL), HR_OK);
    assert_null(m);
    assert_int_equal(n, 0);
    hr__field_clear(&f);
}

static hr_status make_schemas(void *context, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field f[2] = { 0 };
    hr_schema *s = NULL;
    uint8_t *m = NULL;
    int64_t n = 0;

    HR_GO(hr__field_copy(&f[0], context, err));
    HR_GO(hr__field_from_storage(&f[0], err));
    HR_GO(hr__field_init(&f[1], "y", f[0].type, false, err));
    HR_GO(hr__schema_new(f, 2, &s, err));
    HR_GO(hr__field_storage_metadata(&s->fields[0], &m, &n, err));
done:
    hr__free(m);
    hr__schema_unref(s);
    hr__field_clear(&f[0]);
    hr__field_clear(&f[1]);
    return st;
}

static void faults(void **state)
{
    hr_field f = fixed_list_field();

    (void)state;
    set_key(&f, "ARROW:extension:name", "arrow.fixed_shape_tensor");
    set_key(&f, "ARROW:extension:metadata", "{\"shape\":[2,3]}");
    run_with_faults_on(make_schemas, &f, HR_FAULT_MEMORY);
    hr__field_clear(&f);
}

static hr_status append_once(hr_error *err)
{
    hr_schema *empty = NULL, *one = NULL, *two = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__schema_new(NULL, 0, &empty, err));
    HR_GO(hr__metadata_set(&empty->metadata, &empty->metadata_bytes, "key", "value", 5, err));
    HR_GO(hr__schema_append(empty, "a", hr__type_simple(HR_T_INT64), true, &one, err));
    HR_GO(hr__schema_append(one, "b", hr__type_simple(HR_T_STRING), false, &two, err));
    assert_int_equal(one->n, 1);
    assert_int_equal(two->n, 2);
    assert_int_equal(hr__schema_find(two, "b"), 1);
    assert_int_equal(two->fields[1].type->id, HR_T_STRING);
    assert_true(two->fields[0].nullable && !two->fields[1].nullable);
    assert_memory_equal(two->metadata, empty->metadata, (size_t)empty->metadata_bytes);
done:
    hr__schema_unref(empty);
    hr__schema_unref(one);
    hr__schema_unref(two);
    return st;
}

static void test_append(void **state)
{
    (void)state;
    assert_true(run_with_faults(append_once, HR_FAULT_MEMORY) > 3);
}

/* A name ends at its first zero byte here: 'a\0b' was 'a', as a column that is called so. */
static void names_with_zero_bytes(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr__name_check("a", 1, "a name", &err), &err);
    assert_ok(hr__name_check(NULL, 0, "a name", &err), &err);
    assert_int_equal(hr__name_check("a\0b", 3, "a name", &err), HR_BAD_DATA);
    assert_string_equal(err.text, "a name holds a zero byte: 'a\\0b'");
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_append), cmocka_unit_test(look_up),
        cmocka_unit_test(difference),  cmocka_unit_test(missing),
        cmocka_unit_test(metadata),    cmocka_unit_test(damaged_metadata),
        cmocka_unit_test(tensors),     cmocka_unit_test(other_fields_have_no_storage),
        cmocka_unit_test(faults),      cmocka_unit_test(names_with_zero_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
