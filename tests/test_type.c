/* test_type.c - types: Arrow's formats there and back, pyarrow's texts, equality, what is refused. */
#include "arrays.h"

#include <stdlib.h>

static const struct {
    const char *format, *text;
    int bytes;
} flat[] = {
    { "n", "null", 0 },
    { "b", "bool", 0 },
    { "c", "int8", 1 },
    { "C", "uint8", 1 },
    { "s", "int16", 2 },
    { "S", "uint16", 2 },
    { "i", "int32", 4 },
    { "I", "uint32", 4 },
    { "l", "int64", 8 },
    { "L", "uint64", 8 },
    { "e", "halffloat", 2 },
    { "f", "float", 4 },
    { "g", "double", 8 },
    { "u", "string", 0 },
    { "U", "large_string", 0 },
    { "z", "binary", 0 },
    { "Z", "large_binary", 0 },
    { "w:16", "fixed_size_binary[16]", 16 },
    { "w:0", "fixed_size_binary[0]", 0 },
    { "tdD", "date32[day]", 4 },
    { "tdm", "date64[ms]", 8 },
    { "tts", "time32[s]", 4 },
    { "ttm", "time32[ms]", 4 },
    { "ttu", "time64[us]", 8 },
    { "ttn", "time64[ns]", 8 },
    { "tss:", "timestamp[s]", 8 },
    { "tsm:UTC", "timestamp[ms, tz=UTC]", 8 },
    { "tsu:", "timestamp[us]", 8 },
    { "tsn:Europe/Berlin", "timestamp[ns, tz=Europe/Berlin]", 8 },
    { "tDs", "duration[s]", 8 },
    { "tDn", "duration[ns]", 8 },
    { "tiM", "month_interval", 4 },
    { "tiD", "day_time_interval", 8 },
    { "tin", "month_day_nano_interval", 16 },
    { "d:10,2", "decimal128(10, 2)", 16 },
    { "d:38,-3", "decimal128(38, -3)", 16 },
    { "d:50,0,256", "decimal256(50, 0)", 32 },
};

static void flat_types(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(flat); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_type *t = NULL, *again = NULL;

        assert_ok(hr__type_from_format(flat[i].format, NULL, 0, &t, &err), &err);
        assert_ok(hr__type_from_format(flat[i].format, NULL, 0, &again, &err), &err);
        assert_string_equal(type_text(t), flat[i].text);
        assert_string_equal(hr__type_format(t), flat[i].format);
        assert_int_equal(hr__type_bytes(t), flat[i].bytes);
        assert_true(hr__type_equal(t, again));
        hr__type_unref(t);
        hr__type_unref(again);
    }
}

static const struct {
    const char *format;
    hr_status st;
    const char *part;
} bad[] = {
    { "", HR_UNSUPPORTED, "format ''" },
    { "x", HR_UNSUPPORTED, "'x'" },
    { "ll", HR_UNSUPPORTED, "'ll'" },
    { "w:", HR_INVALID, "-1 bytes" },
    { "w:-2", HR_INVALID, "-2 bytes" },
    { "w:3x", HR_INVALID, "" },
    { "w:99999999999", HR_INVALID, "" },
    { "d:", HR_BAD_DATA, "'d:'" },
    { "d:5", HR_BAD_DATA, "" },
    { "d:5,x", HR_BAD_DATA, "" },
    { "d:5,2,", HR_BAD_DATA, "" },
    { "d:5,2,512", HR_UNSUPPORTED, "512" },
    { "d:39,0", HR_INVALID, "39 digits, expected 1 to 38" },
    { "d:0,0", HR_INVALID, "0 digits" },
    { "d:77,0,256", HR_INVALID, "77" },
    { "t", HR_UNSUPPORTED, "" },
    { "td", HR_UNSUPPORTED, "" },
    { "tdx", HR_UNSUPPORTED, "" },
    { "ttx", HR_UNSUPPORTED, "" },
    { "ttsx", HR_UNSUPPORTED, "" },
    { "tss", HR_UNSUPPORTED, "" },
    { "tsx:", HR_UNSUPPORTED, "" },
    { "tDs:", HR_UNSUPPORTED, "" },
    { "tiN", HR_UNSUPPORTED, "" },
    { "tinn", HR_UNSUPPORTED, "" },
    { "+", HR_UNSUPPORTED, "" },
    { "+l", HR_BAD_DATA, "0 children, expected 1" },
    { "+lx", HR_UNSUPPORTED, "" },
    { "+w:3", HR_BAD_DATA, "0 children" },
    { "+w3", HR_BAD_DATA, "" },
    { "+w:-1", HR_BAD_DATA, "" },
    { "+w:x", HR_BAD_DATA, "" },
    { "+ud:0,1", HR_UNSUPPORTED, "unions" },
    { "+us:0,1", HR_UNSUPPORTED, "unions" },
    { "+r", HR_UNSUPPORTED, "'+r'" },
};

static void bad_formats(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(bad); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_type *t = NULL;

        assert_status(hr__type_from_format(bad[i].format, NULL, 0, &t, &err), bad[i].st, &err);
        assert_contains(err.text, bad[i].part);
        assert_null(t);
    }
}

static void children_of_flat_types_are_refused(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *t = NULL;
    hr_field f[2] = { 0 };

    (void)state;
    assert_ok(hr__field_init(&f[0], "x", hr__type_simple(HR_T_INT8), true, &err), &err);
    assert_ok(hr__field_init(&f[1], "y", hr__type_simple(HR_T_INT8), true, &err), &err);
    assert_status(hr__type_from_format("l", f, 1, &t, &err), HR_BAD_DATA, &err);
    assert_status(hr__type_from_format("+l", f, 2, &t, &err), HR_BAD_DATA, &err);
    assert_status(hr__type_from_format("+m", f, 1, &t, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "key and value");
    assert_status(hr__type_list(HR_T_STRUCT, f, 0, &t, &err), HR_INVALID, &err);
    assert_status(hr__type_list(HR_T_MAP, f, 0, &t, &err), HR_INVALID, &err);
    assert_status(hr__type_list(HR_T_FIXED_LIST, f, -1, &t, &err), HR_INVALID, &err);
    assert_status(hr__type_decimal(HR_T_INT8, 3, 0, &t, &err), HR_INVALID, &err);
    hr__field_clear(&f[0]);
    hr__field_clear(&f[1]);
}

static void units(void **state)
{
    hr_type *t = NULL;

    (void)state;
    assert_int_equal(hr__type_unit(HR_T_TIME32, HR_NANO, NULL, &t, NULL), HR_INVALID);
    assert_int_equal(hr__type_unit(HR_T_TIME64, HR_SECOND, NULL, &t, NULL), HR_INVALID);
    assert_int_equal(hr__type_unit(HR_T_INT64, HR_SECOND, NULL, &t, NULL), HR_INVALID);
    assert_int_equal(hr__type_unit(HR_T_DURATION, (hr_unit)7, NULL, &t, NULL), HR_INVALID);
    assert_int_equal(hr__type_unit(HR_T_TIMESTAMP, HR_SECOND, "", &t, NULL), HR_OK);
    assert_null(t->zone);
    hr__type_unref(t);
}

static void singletons(void **state)
{
    (void)state;
    assert_ptr_equal(hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_INT64));
    assert_null(hr__type_simple(HR_T_LIST));
    assert_null(hr__type_simple(HR_T_TIMESTAMP));
    assert_null(hr__type_simple(HR_N_TYPES));
    for (int i = 0; i < 5; i++)
        hr__type_unref(hr__type_simple(HR_T_INT64)); /* does nothing */
    hr__type_unref(NULL);
    assert_null(hr__type_ref(NULL));
}

/* Texts as pyarrow prints them. */
static const char *const nested[] = {
    [15] = "list<item: int32>",
    [19] = "list<item: list<item: double>>",
    [21] = "list<item: struct<id: int64, name: string, tags: list<item: int8>>>",
    [17] = "large_list<item: bool>",
    [22] = "fixed_size_list<item: float>[3]",
    [26] = "fixed_size_list<item: fixed_size_list<item: int16>[2]>[2]",
    [30] = "struct<id: int64, name: string, tags: list<item: int8>>",
    [32] = "struct<>",
    [33] = "map<string, int32>",
    [34] = "map<int8, list<item: float>>",
    [35] = "extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[2,3]]>",
    [37] = "extension<arrow.fixed_shape_tensor[value_type=int64, shape=[]]>",
};

static void nested_types(void **state)
{
    const int first = n_sample_types() - 41;

    (void)state;
    for (int i = 0; i < HR_LEN(nested); i++) {
        hr_type *t = sample_type(first + i);

        if (nested[i])
            assert_string_equal(type_text(t), nested[i]);
        hr__type_unref(t);
    }
}

static void samples_differ(void **state)
{
    (void)state;
    for (int i = 0; i < n_sample_types(); i++) {
        for (int k = 0; k < n_sample_types(); k++) {
            hr_type *a = sample_type(i), *b = sample_type(k);

            assert_int_equal(hr__type_equal(a, b), i == k);
            hr__type_unref(a);
            hr__type_unref(b);
        }
    }
}

static void names_of_entries(void **state)
{
    hr_field kv[2] = { 0 }, entries = { 0 };
    hr_type *inner = NULL, *map = NULL, *usual = NULL;

    (void)state;
    assert_int_equal(hr__field_init(&kv[0], "k", hr__type_simple(HR_T_STRING), false, NULL), HR_OK);
    assert_int_equal(hr__field_init(&kv[1], "value", hr__type_simple(HR_T_INT32), true, NULL), HR_OK);
    assert_int_equal(hr__type_struct(kv, 2, &inner, NULL), HR_OK);
    assert_string_equal(type_text(inner), "struct<k: string not null, value: int32>");
    assert_int_equal(hr__field_init(&entries, "pairs", inner, false, NULL), HR_OK);
    assert_int_equal(hr__type_list(HR_T_MAP, &entries, 0, &map, NULL), HR_OK);
    assert_string_equal(type_text(map), "map<string ('k'), int32 ('pairs')>");
    usual = sample_type(n_sample_types() - 41 + 33);
    assert_true(hr__type_equal(map, usual));
    map->keys_sorted = true;
    assert_string_equal(type_text(map), "map<string ('k'), int32, keys_sorted ('pairs')>");
    assert_false(hr__type_equal(map, usual));
    hr__type_unref(usual);
    hr__type_unref(map);
    hr__type_unref(inner);
    hr__field_clear(&entries);
    hr__field_clear(&kv[0]);
    hr__field_clear(&kv[1]);
}

static void depth_is_bounded(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *t = hr__type_simple(HR_T_INT8);
    hr_status st = HR_OK;
    int levels = 1;

    (void)state;
    while (!st) {
        hr_field f = { 0 };
        hr_type *outer = NULL;

        assert_ok(hr__field_init(&f, "item", t, true, &err), &err);
        st = hr__type_list(HR_T_LIST, &f, 0, &outer, &err);
        hr__field_clear(&f);
        if (!st) {
            hr__type_unref(t);
            t = outer;
            levels++;
        }
    }
    assert_int_equal(st, HR_UNSUPPORTED);
    assert_int_equal(levels, HR_MAX_DEPTH);
    hr__type_unref(t);
}

static void tensors(void **state)
{
    static const int64_t large[] = { 1 << 16, 1 << 15 }, negative[] = { -1 }, nine[9] = { 1 };
    hr_error err = HR_ERROR_INIT;
    hr_type *t = NULL;

    (void)state;
    assert_status(hr__type_tensor(hr__type_simple(HR_T_INT8), large, 2, &t, &err), HR_UNSUPPORTED, &err);
    assert_status(hr__type_tensor(hr__type_simple(HR_T_INT8), negative, 1, &t, &err), HR_UNSUPPORTED, &err);
    assert_status(hr__type_tensor(hr__type_simple(HR_T_INT8), nine, 9, &t, &err), HR_UNSUPPORTED, &err);
    assert_contains(err.text, "9 dimensions");
    assert_null(t);
}

static hr_status make_types(hr_error *err)
{
    hr_status st = HR_OK;
    hr_field item = { 0 }, two[2] = { 0 };
    hr_type *zoned = NULL, *list = NULL, *both = NULL, *tensor = NULL;
    static const int64_t shape[] = { 2, 2 };
    static const char metadata[] = "some bytes";

    HR_GO(hr__type_unit(HR_T_TIMESTAMP, HR_MICRO, "UTC", &zoned, err));
    HR_GO(hr__field_init(&item, "item", zoned, true, err));
    HR_GO(hr__type_list(HR_T_FIXED_LIST, &item, 3, &list, err));
    HR_GO(hr__field_init(&two[0], "a", list, true, err));
    HR_GO(hr__metadata_set(&two[0].metadata, &two[0].metadata_bytes, "k", metadata, 3, err));
    HR_GO(hr__field_init(&two[1], "b", zoned, true, err));
    HR_GO(hr__type_struct(two, 2, &both, err));
    HR_GO(hr__type_tensor(hr__type_simple(HR_T_INT8), shape, 2, &tensor, err));
done:
    hr__field_clear(&item);
    hr__field_clear(&two[0]);
    hr__field_clear(&two[1]);
    hr__type_unref(zoned);
    hr__type_unref(list);
    hr__type_unref(both);
    hr__type_unref(tensor);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(make_types, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_types),
        cmocka_unit_test(bad_formats),
        cmocka_unit_test(children_of_flat_types_are_refused),
        cmocka_unit_test(units),
        cmocka_unit_test(singletons),
        cmocka_unit_test(nested_types),
        cmocka_unit_test(samples_differ),
        cmocka_unit_test(names_of_entries),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(tensors),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
