/* test_array.c - arrays: slices, checks of damaged ones, UTF-8, equality, sizes, texts, dense lists. */
#include "arrays.h"

#include <math.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------- slices, counts */

static void slices(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        for (int round = 0; round < 8; round++) {
            int64_t n = random_below(&seed, 40), begin = random_below(&seed, n + 1),
                    m = random_below(&seed, n - begin + 1);
            hr_array *a = random_array(&seed, type, n), *part = NULL, *want;
            hr_builder *b = builder_of(type);
            hr_error err = HR_ERROR_INIT;

            if (round % 2)
                hr__array_null_count(a); /* known before the slice */
            assert_ok(hr__array_slice(a, begin, m, &part, &err), &err);
            for (int64_t i = 0; i < m; i++)
                append_value(b, a, begin + i);
            want = finish(b);
            assert_same_array(part, want);
            assert_int_equal(hr__array_null_count(part), hr__array_null_count(want));
            assert_ok(hr__array_check(part, true, &err), &err);
            assert_int_equal(hr__array_bytes_used(part) >= 0, true);
            hr__array_unref(a);
            hr__array_unref(part);
            hr__array_unref(want);
        }
        hr__type_unref(type);
    }
}

static void slices_outside(void **state)
{
    static const int64_t ranges[][2] = { { -1, 1 }, { 0, 4 }, { 4, 0 }, { 1, -1 }, { 2, INT64_MAX } };
    static const int64_t values[] = { 1, 2, 3 };
    hr_array *a = array_of_ints(values, 3), *part = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(ranges); i++) {
        assert_status(hr__array_slice(a, ranges[i][0], ranges[i][1], &part, &err), HR_BUG, &err);
        assert_null(part);
    }
    hr__array_unref(a);
    hr__array_unref(NULL);
    assert_null(hr__array_ref(NULL));
}

static void bytes_used(void **state)
{
    static const char *const texts[] = { "abc", NULL, "", "defghij" };
    hr_array *a = array_of_strings(texts, 4), *part = NULL;

    (void)state;
    assert_int_equal(hr__array_bytes_used(a), 1 + 5 * 4 + 10);
    assert_int_equal(hr__array_slice(a, 1, 2, &part, NULL), HR_OK);
    assert_int_equal(hr__array_bytes_used(part), 1 + 3 * 4);
    hr__array_unref(part);
    hr__array_unref(a);
}

/* ----------------------------------------------------------------------------------------------------------- checks */

/* Offsets of a list<int8> with three rows and four values, and the error of the check. */
static const struct {
    int32_t offsets[4];
    const char *part; /* NULL: fine */
} offset_cases[] = {
    { { 0, 1, 4, 4 }, NULL },
    { { 1, 1, 2, 3 }, NULL },
    { { 0, 2, 1, 4 }, "row 1: offset 1 comes after 2" },
    { { 0, 1, 2, 5 }, "offsets from 0 to 5, found 4" },
    { { -1, 1, 2, 3 }, "offsets from -1" },
    { { 0, INT32_MAX, INT32_MIN, 4 }, "row 1" },
};

static hr_array *int8_child(int64_t n)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *a = NULL;

    assert_int_equal(hr__buffer_new(NULL, n, &buffers[1], NULL), HR_OK);
    memset(buffers[1]->data, 7, (size_t)n);
    assert_int_equal(hr__array_new(hr__type_simple(HR_T_INT8), n, 0, buffers, NULL, 0, &a, NULL), HR_OK);
    return a;
}

static void damaged_offsets(void **state)
{
    hr_field item = { 0 };
    hr_type *list = NULL;

    (void)state;
    assert_int_equal(hr__field_init(&item, "item", hr__type_simple(HR_T_INT8), true, NULL), HR_OK);
    assert_int_equal(hr__type_list(HR_T_LIST, &item, 0, &list, NULL), HR_OK);
    for (int i = 0; i < HR_LEN(offset_cases); i++) {
        hr_buffer *buffers[3] = { NULL, NULL, NULL };
        hr_array *child = int8_child(4), *a = NULL;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__buffer_copy(NULL, offset_cases[i].offsets, 16, &buffers[1], &err), &err);
        assert_ok(hr__array_new(list, 3, -1, buffers, &child, 1, &a, &err), &err);
        assert_status(hr__array_check(a, true, &err), offset_cases[i].part ? HR_BAD_DATA : HR_OK, &err);
        if (offset_cases[i].part)
            assert_contains(err.text, offset_cases[i].part);
        hr__array_unref(a);
    }
    hr__type_unref(list);
    hr__field_clear(&item);
}

/* Every buffer of every type, cut by a byte at its needed end; every child without its last value. */
static void short_buffers(void **state)
{
    uint64_t seed = 2;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_array *a = random_array(&seed, type, 24);
        hr_error err = HR_ERROR_INIT;

        for (int i = 0; i < 3; i++) {
            hr_buffer *whole = a->buffers[i], *cut = NULL;
            int64_t end = a->offset + a->length, n, begin = 0;

            if (!whole || (i == 1 && type->id == HR_T_FIXED_BINARY && type->width == 0))
                continue;
            n = i == 0 || type->id == HR_T_BOOL ? hr__bits_bytes(end) : end * hr__type_bytes(type);
            if (i == 1 && hr__type_offset_bytes(type))
                n = (end + 1) * hr__type_offset_bytes(type);
            if (i == 2) {
                begin = hr__array_bytes(a, a->length - 1, &n) - whole->data;
                n += begin;
            }
            if (n == 0)
                continue;
            assert_ok(hr__buffer_slice(whole, 0, n - 1, &cut, &err), &err);
            a->buffers[i] = cut;
            assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
            a->buffers[i] = whole;
            hr__buffer_unref(cut);
        }
        if (a->n_children && type->id != HR_T_LIST && type->id != HR_T_LARGE_LIST && type->id != HR_T_MAP &&
            (type->id == HR_T_STRUCT || type->width)) {
            hr_array *whole = a->children[0], *cut = NULL;
            int64_t n = (a->offset + a->length) * (type->id == HR_T_STRUCT ? 1 : type->width);

            assert_ok(hr__array_slice(whole, 0, n - 1, &cut, &err), &err);
            a->children[0] = cut;
            assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
            a->children[0] = whole;
            hr__array_unref(cut);
        }
        assert_ok(hr__array_check(a, true, &err), &err);
        hr__array_unref(a);
        hr__type_unref(type);
    }
}

/* Eight-byte values and offsets at an unaligned address: vector loops would fault. */
static void unaligned_buffers(void **state)
{
    static const char *const types[] = { "int64", "float", "decimal128(10, 2)", "string", "large_list<item: bool>" };
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < HR_LEN(types); i++) {
        hr_type *type = type_named(types[i]);
        hr_array *a = random_array(&seed, type, 9);
        hr_buffer *whole = a->buffers[1], *moved = NULL, *odd = NULL;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__buffer_new(NULL, whole->n_bytes + 1, &moved, &err), &err);
        memcpy(moved->data + 1, whole->data, (size_t)whole->n_bytes);
        assert_ok(hr__buffer_slice(moved, 1, whole->n_bytes, &odd, &err), &err);
        a->buffers[1] = odd;
        assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
        assert_contains(err.text, "no multiple of");
        a->buffers[1] = whole;
        hr__buffer_unref(odd);
        hr__buffer_unref(moved);
        hr__array_unref(a);
        hr__type_unref(type);
    }
}

static void wrong_numbers(void **state)
{
    static const int64_t values[] = { 1, INT64_MIN, 3 };
    static const struct {
        int64_t length, offset, null_count;
    } wrong[] = {
        { -1, 0, 0 }, { 3, -1, -1 }, { 3, 0, 2 }, { 3, 0, 0 }, { INT64_MAX, 5, -1 }, { INT64_MAX - 9, 0, -1 }
    };
    hr_array *a = array_of_ints(values, 3), *child;
    hr_error err = HR_ERROR_INIT;
    hr_type *fixed = NULL;

    (void)state;
    for (int i = 0; i < HR_LEN(wrong); i++) {
        a->length = wrong[i].length;
        a->offset = wrong[i].offset;
        atomic_store(&a->null_count, wrong[i].null_count);
        assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
    }
    a->length = 3;
    a->offset = 0;
    atomic_store(&a->null_count, 1);
    assert_ok(hr__array_check(a, true, &err), &err);
    a->n_children = 1;
    assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
    a->n_children = 0;
    hr__array_unref(a);
    for (int k = 0; k < n_sample_types() && !fixed; k++) {
        fixed = sample_type(k);
        if (fixed->id != HR_T_FIXED_LIST) {
            hr__type_unref(fixed);
            fixed = NULL;
        }
    }
    child = int8_child(12); /* float is expected */
    assert_ok(hr__array_new(fixed, 4, 0, NULL, &child, 1, &a, &err), &err);
    assert_status(hr__array_check(a, true, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "another type");
    hr__array_unref(a);
    hr__type_unref(fixed);
}

/* Text that is valid as a whole but cut inside a character; and nulls with any bytes. */
static void utf8_by_row(void **state)
{
    static const char text[] = "a\xC3\xBC"
                               "b";
    int32_t offsets[4] = { 0, 1, 3, 4 };
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *a = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int round = 0; round < 3; round++) {
        static const uint8_t second_is_null = 0x5;

        offsets[1] = round ? 2 : 1;
        buffers[0] = NULL;
        if (round == 2) { /* rows "a", 2 bytes that are no text, "b" */
            offsets[1] = 1;
            assert_ok(hr__buffer_copy(NULL, &second_is_null, 1, &buffers[0], &err), &err);
        }
        assert_ok(hr__buffer_copy(NULL, offsets, sizeof offsets, &buffers[1], &err), &err);
        assert_ok(hr__buffer_copy(NULL,
                                  round == 2 ? "a\xFF\xFE"
                                               "b"
                                             : text,
                                  4, &buffers[2], &err),
                  &err);
        assert_ok(hr__array_new(hr__type_simple(HR_T_STRING), 3, -1, buffers, NULL, 0, &a, &err), &err);
        assert_ok(hr__array_check(a, false, &err), &err);
        assert_status(hr__array_check(a, true, &err), round == 1 ? HR_BAD_DATA : HR_OK, &err);
        if (round == 1)
            assert_contains(err.text, "row 0: not valid UTF-8");
        hr__array_unref(a);
    }
}

/* --------------------------------------------------------------------------------------------------------- equality */

static void equality(void **state)
{
    uint64_t seed = 3;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_array *a = random_array(&seed, type, 50), *part = NULL, *copy = NULL, *other = random_array(&seed, type, 50);
        bool constant = type->id == HR_T_NULL || (hr__type_is_fixed_list(type) && type->width == 0) ||
                        (type->id == HR_T_STRUCT && type->n_children == 0) ||
                        (type->id == HR_T_FIXED_BINARY && type->width == 0) ||
                        (hr__type_is_fixed_list(type) && type->children[0].type->id == HR_T_NULL);

        assert_int_equal(hr__array_concat(NULL, type, &a, 1, &copy, NULL), HR_OK);
        assert_true(hr__array_equal(a, copy));
        assert_int_equal(hr__array_slice(a, 0, 49, &part, NULL), HR_OK);
        assert_false(hr__array_equal(a, part));
        if (!constant)
            assert_false(hr__array_equal(a, other));
        hr__array_unref(a);
        hr__array_unref(part);
        hr__array_unref(copy);
        hr__array_unref(other);
        hr__type_unref(type);
    }
}

static void equality_of_floats(void **state)
{
    static const hr_type_id ids[] = { HR_T_FLOAT16, HR_T_FLOAT32, HR_T_FLOAT64 };

    (void)state;
    for (int i = 0; i < HR_LEN(ids); i++) {
        static const double x[] = { (double)NAN, 0.0, 1.0 }, y[] = { -(double)NAN, -0.0, 1.0 }, z[] = { 1.0, 0.0, 1.0 };
        const double *sets[] = { x, y, z };
        hr_array *a[3];

        for (int s = 0; s < 3; s++) {
            hr_builder *b = builder_of(hr__type_simple(ids[i]));

            for (int k = 0; k < 3; k++)
                assert_int_equal(hr__builder_double(b, sets[s][k], NULL), HR_OK);
            a[s] = finish(b);
        }
        assert_true(hr__array_equal(a[0], a[1]));
        assert_false(hr__array_equal(a[0], a[2]));
        for (int s = 0; s < 3; s++)
            hr__array_unref(a[s]);
    }
}

/* ------------------------------------------------------------------------------------------------------------ texts */

static const struct {
    const char *format;
    int64_t v;
    const char *text;
} number_texts[] = {
    { "c", -128, "-128" },
    { "C", 200, "200" },
    { "S", 65535, "65535" },
    { "I", 4000000000, "4000000000" },
    { "l", INT64_MIN, "-9223372036854775808" },
    { "b", 1, "true" },
    { "b", 0, "false" },
    { "tdD", 0, "1970-01-01" },
    { "tdD", 19782, "2024-02-29" },
    { "tdD", -1, "1969-12-31" },
    { "tdD", -719528, "0000-01-01" },
    { "tdD", 11016, "2000-02-29" },
    { "tdm", 1709164800000, "2024-02-29" },
    { "tdm", -1, "1969-12-31" },
    { "tts", 3661, "01:01:01" },
    { "ttm", 86399999, "23:59:59.999" },
    { "ttu", 1, "00:00:00.000001" },
    { "ttn", 43200000000001, "12:00:00.000000001" },
    { "tss:", 1709210096, "2024-02-29T12:34:56" },
    { "tsm:", -1, "1969-12-31T23:59:59.999" },
    { "tsu:UTC", 1709210096123456, "2024-02-29T12:34:56.123456Z" },
    { "tsn:", INT64_MAX, "2262-04-11T23:47:16.854775807" },
    { "tsn:", INT64_MIN, "1677-09-21T00:12:43.145224192" },
    { "tDs", -5, "-5s" },
    { "tDu", 5, "5us" },
};

static void texts_of_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(number_texts); i++) {
        hr_type *t = NULL;
        hr_builder *b;
        hr_array *a;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__type_from_format(number_texts[i].format, NULL, 0, &t, &err), &err);
        b = builder_of(t);
        assert_ok(hr__builder_int(b, number_texts[i].v, &err), &err);
        a = finish(b);
        assert_string_equal(values_text(a), number_texts[i].text);
        hr__array_unref(a);
        hr__type_unref(t);
    }
}

static const struct {
    hr_type_id id;
    double v;
    const char *text;
} float_texts[] = {
    { HR_T_FLOAT64, 0.1, "0.1" },
    { HR_T_FLOAT64, 1.0, "1.0" },
    { HR_T_FLOAT64, 1.0 / 3.0, "0.3333333333333333" },
    { HR_T_FLOAT64, 1e300, "1e+300" },
    { HR_T_FLOAT64, -0.0, "-0.0" },
    { HR_T_FLOAT64, (double)NAN, "nan" },
    { HR_T_FLOAT64, -(double)INFINITY, "-inf" },
    { HR_T_FLOAT32, 0.1, "0.1" },
    { HR_T_FLOAT32, 16777216.0, "16777216.0" },
    { HR_T_FLOAT16, 0.1, "0.1" },
    { HR_T_FLOAT16, 65504.0, "65500.0" },
};

static void texts_of_floats(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(float_texts); i++) {
        hr_builder *b = builder_of(hr__type_simple(float_texts[i].id));
        hr_array *a;

        assert_int_equal(hr__builder_double(b, float_texts[i].v, NULL), HR_OK);
        a = finish(b);
        assert_string_equal(values_text(a), float_texts[i].text);
        hr__array_unref(a);
    }
}

static const struct {
    int bits, scale;
    int64_t low, rest; /* rest: all higher words */
    const char *text;
} decimal_texts[] = {
    { 128, 2, 12345, 0, "123.45" },
    { 128, 2, -12345, -1, "-123.45" },
    { 128, 0, 7, 0, "7" },
    { 128, 3, 7, 0, "0.007" },
    { 128, 3, -7, -1, "-0.007" },
    { 128, -2, 7, 0, "7E+2" },
    { 128, 0, 0, 0, "0" },
    { 128, 2, 0, 0, "0.00" },
    { 128, 0, 0, INT64_MIN, "-170141183460469231731687303715884105728" },
    { 256, 1, 12345, 0, "1234.5" },
    { 256, 1, -12345, -1, "-1234.5" },
};

static void texts_of_decimals(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(decimal_texts); i++) {
        hr_type *t = NULL;
        int64_t words[4] = { decimal_texts[i].low, decimal_texts[i].rest, decimal_texts[i].rest,
                             decimal_texts[i].rest };
        hr_type_id id = decimal_texts[i].bits == 128 ? HR_T_DECIMAL128 : HR_T_DECIMAL256;
        hr_builder *b;
        hr_array *a;

        assert_int_equal(hr__type_decimal(id, 38, decimal_texts[i].scale, &t, NULL), HR_OK);
        b = builder_of(t);
        assert_int_equal(hr__builder_bytes(b, words, decimal_texts[i].bits / 8, NULL), HR_OK);
        a = finish(b);
        assert_string_equal(values_text(a), decimal_texts[i].text);
        hr__array_unref(a);
        hr__type_unref(t);
    }
}

static void texts_of_bytes(void **state)
{
    static const char *const texts[] = { "it's \"so\" \\ here", "a\tb\nc",
                                         "Gr\xC3\xBC\xC3\x9F"
                                         "e",
                                         "bad\xFF\x01\x7F", NULL };
    hr_array *a = array_of_strings(texts, 5);
    hr_text t = { 0 };

    (void)state;
    assert_string_equal(values_text(a), "it's \"so\" \\ here a\\tb\\nc Gr\xC3\xBC\xC3\x9F"
                                        "e bad\\xff\\x01\\x7f null");
    hr__array_print_some(a, 0, 4, &t);
    assert_string_equal(t.data, "it's");
    hr__text_clear(&t);
    hr__array_unref(a);
}

static const struct {
    const char *type, *text;
} nested_texts[] = {
    { "list<item: list<item: double>>", "[[0.5, 1.5], []]" },
    { "list<item: struct<id: int64, name: string, tags: list<item: int8>>>",
      "[{id: 7, name: \"x\\\"y\", tags: [1, null]}, null]" },
    { "map<string, int32>", "{\"a\": 1, \"b\": null}" },
    { "extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[2,3]]>", "[[0, 1, 2], [3, 4, 5]]" },
    { "fixed_size_list<item: fixed_size_list<item: int16>[2]>[2]", "[[0, 1], [2, 3]]" },
    { "struct<>", "{}" },
};

/* One value of each type above, by its shape. */
static void append_sample(hr_builder *b, const hr_type *t, int64_t *next)
{
    if (t->id == HR_T_FLOAT64) {
        assert_int_equal(hr__builder_double(b, (double)(*next)++ + 0.5, NULL), HR_OK);
    } else if (t->n_children == 0 && t->id != HR_T_STRUCT) {
        assert_int_equal(hr__builder_int(b, (*next)++, NULL), HR_OK);
    } else {
        int64_t n = hr__type_is_fixed_list(t) ? t->width : 2;

        for (int64_t i = 0; i < n && t->n_children; i++)
            append_sample(hr__builder_child(b, 0), t->children[0].type, next);
        assert_int_equal(hr__builder_end(b, NULL), HR_OK);
    }
}

static void append_person_list(hr_builder *b)
{
    hr_builder *person = hr__builder_child(b, 0), *tags = hr__builder_child(person, 2);

    assert_int_equal(hr__builder_int(hr__builder_child(person, 0), 7, NULL), HR_OK);
    assert_int_equal(hr__builder_bytes(hr__builder_child(person, 1), "x\"y", 3, NULL), HR_OK);
    assert_int_equal(hr__builder_int(hr__builder_child(tags, 0), 1, NULL), HR_OK);
    assert_int_equal(hr__builder_null(hr__builder_child(tags, 0), NULL), HR_OK);
    assert_int_equal(hr__builder_end(tags, NULL), HR_OK);
    assert_int_equal(hr__builder_end(person, NULL), HR_OK);
    assert_int_equal(hr__builder_null(person, NULL), HR_OK);
    assert_int_equal(hr__builder_end(b, NULL), HR_OK);
}

static void append_map(hr_builder *b)
{
    hr_builder *entries = hr__builder_child(b, 0), *key = hr__builder_child(entries, 0),
               *value = hr__builder_child(entries, 1);

    assert_int_equal(hr__builder_bytes(key, "a", 1, NULL), HR_OK);
    assert_int_equal(hr__builder_int(value, 1, NULL), HR_OK);
    assert_int_equal(hr__builder_end(entries, NULL), HR_OK);
    assert_int_equal(hr__builder_bytes(key, "b", 1, NULL), HR_OK);
    assert_int_equal(hr__builder_null(value, NULL), HR_OK);
    assert_int_equal(hr__builder_end(entries, NULL), HR_OK);
    assert_int_equal(hr__builder_end(b, NULL), HR_OK);
}

static void texts_of_nested(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(nested_texts); i++) {
        hr_type *t = type_named(nested_texts[i].type);
        hr_builder *b = builder_of(t);
        hr_array *a;
        int64_t next = 0;

        if (i == 0) { /* two values, and none */
            hr_builder *inner = hr__builder_child(b, 0);

            append_sample(inner, t->children[0].type, &next);
            assert_int_equal(hr__builder_end(inner, NULL), HR_OK);
            assert_int_equal(hr__builder_end(b, NULL), HR_OK);
        } else if (i == 1) {
            append_person_list(b);
        } else if (i == 2) {
            append_map(b);
        } else {
            append_sample(b, t, &next);
        }
        a = finish(b);
        assert_string_equal(values_text(a), nested_texts[i].text);
        hr__array_unref(a);
        hr__type_unref(t);
    }
}

static void long_values_end_early(void **state)
{
    hr_type *t = type_named("list<item: int32>");
    hr_builder *b = builder_of(t);
    hr_text text = { 0 };
    hr_array *a;

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(hr__builder_int(hr__builder_child(b, 0), 5, NULL), HR_OK);
    assert_int_equal(hr__builder_end(b, NULL), HR_OK);
    a = finish(b);
    hr__array_print_some(a, 0, 6, &text);
    assert_string_equal(text.data, "[5, 5, ...]");
    hr__text_clear(&text);
    hr__array_unref(a);
    hr__type_unref(t);
}

/* ------------------------------------------------------------------------------------------------------ dense lists */

/* Lists of int8 by their lengths; -1: a null list; -2: a list of one null. The array begins with a row that is cut
 * off. */
static const struct {
    int lengths[4], n;
    bool is_dense;
    int64_t length;
} dense_cases[] = {
    { { 3, 3, 3 }, 3, true, 3 },  { { 0, 0 }, 2, true, 0 },      { { 2 }, 1, true, 2 },      { { 0 }, 0, true, 0 },
    { { 3, 2, 4 }, 3, false, 0 }, { { 3, -1, 3 }, 3, false, 0 }, { { 1, -2 }, 2, false, 0 }, { { 2, 4 }, 2, false, 0 },
};

static void dense_lists(void **state)
{
    hr_field item = { 0 };
    hr_type *list = NULL;

    (void)state;
    assert_int_equal(hr__field_init(&item, "item", hr__type_simple(HR_T_INT8), true, NULL), HR_OK);
    assert_int_equal(hr__type_list(HR_T_LARGE_LIST, &item, 0, &list, NULL), HR_OK);
    for (int i = 0; i < HR_LEN(dense_cases); i++) {
        hr_builder *b = builder_of(list);
        hr_array *whole, *a = NULL;
        const hr_array *values = NULL;
        int64_t shape[HR_MAX_DIMS], begin = 0;
        int n_dims = 0;

        assert_int_equal(hr__builder_int(hr__builder_child(b, 0), 99, NULL), HR_OK);
        assert_int_equal(hr__builder_end(b, NULL), HR_OK);
        for (int k = 0; k < dense_cases[i].n; k++) {
            for (int v = 0; v < dense_cases[i].lengths[k]; v++)
                assert_int_equal(hr__builder_int(hr__builder_child(b, 0), v, NULL), HR_OK);
            if (dense_cases[i].lengths[k] == -2)
                assert_int_equal(hr__builder_null(hr__builder_child(b, 0), NULL), HR_OK);
            assert_int_equal(dense_cases[i].lengths[k] == -1 ? hr__builder_null(b, NULL) : hr__builder_end(b, NULL),
                             HR_OK);
        }
        whole = finish(b);
        assert_int_equal(hr__array_slice(whole, 1, dense_cases[i].n, &a, NULL), HR_OK);
        assert_int_equal(hr__array_dense(a, &n_dims, shape, &values, &begin), dense_cases[i].is_dense);
        if (dense_cases[i].is_dense) {
            assert_int_equal(n_dims, 1);
            assert_int_equal(shape[0], dense_cases[i].length);
            assert_int_equal(begin, 1);
            assert_int_equal(values->type->id, HR_T_INT8);
        }
        hr__array_unref(whole);
        hr__array_unref(a);
    }
    hr__type_unref(list);
    hr__field_clear(&item);
}

static const struct {
    const char *type;
    int n_dims; /* -1: never dense */
    int64_t shape[3];
} dense_types[] = {
    { "int64", 0, { 0 } },
    { "bool", 0, { 0 } },
    { "string", -1, { 0 } },
    { "map<string, int32>", -1, { 0 } },
    { "extension<arrow.fixed_shape_tensor[value_type=uint8, shape=[2,3]]>", 2, { 2, 3 } },
    { "extension<arrow.fixed_shape_tensor[value_type=int64, shape=[]]>", 0, { 0 } },
    { "fixed_size_list<item: fixed_size_list<item: int16>[2]>[2]", 2, { 2, 2 } },
    { "fixed_size_list<item: bool>[3]", 1, { 3 } },
    { "fixed_size_list<item: string>[2]", -1, { 0 } },
};

static void dense_types_of_fixed_size(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(dense_types); i++) {
        hr_type *t = type_named(dense_types[i].type);
        uint64_t seed = 1;
        hr_array *a, *part = NULL;
        const hr_array *values = NULL;
        int64_t shape[HR_MAX_DIMS], begin = 0, width = 1;
        int n_dims = 0;

        do { /* until one without nulls comes */
            a = random_array(&seed, t, 8);
            if (!strstr(values_text(a), "null"))
                break;
            assert_false(hr__array_dense(a, &n_dims, shape, &values, &begin));
            hr__array_unref(a);
        } while (true);
        assert_int_equal(hr__array_slice(a, 3, 4, &part, NULL), HR_OK);
        assert_int_equal(hr__array_dense(part, &n_dims, shape, &values, &begin), dense_types[i].n_dims >= 0);
        if (dense_types[i].n_dims >= 0) {
            assert_int_equal(n_dims, dense_types[i].n_dims);
            for (int d = 0; d < n_dims; d++) {
                assert_int_equal(shape[d], dense_types[i].shape[d]);
                width *= shape[d];
            }
            assert_int_equal(begin, n_dims || t->id == HR_T_TENSOR ? (a->offset + 3) * width : 0);
        }
        hr__array_unref(part);
        hr__array_unref(a);
        hr__type_unref(t);
    }
}

static void count_on_thread(void *arg, int thread)
{
    (void)thread;
    if (hr__array_null_count(arg) != 2)
        abort();
}

static void null_count_on_threads(void **state)
{
    static const int64_t values[] = { 1, INT64_MIN, 3, INT64_MIN };
    hr_array *a = array_of_ints(values, 4);

    (void)state;
    atomic_store(&a->null_count, -1);
    run_threads(4, count_on_thread, a);
    hr__array_unref(a);
}

/* The type survives its storage; grey rows have two dimensions, empty and coloured ones three. */
static void images_of_one_channel(void **state)
{
    live_memory before = live_now();
    const int64_t shapes[2][3] = { { 2, 3, 1 }, { 2, 1, 3 } };

    (void)state;
    for (int k = 0; k < 2; k++) {
        hr_field f = { 0 };
        hr_type *image = NULL, *plain = NULL, *tensor = NULL;
        hr_array *values = NULL, *all = NULL, *ragged = NULL;
        const hr_array *found;
        hr_buffer *bytes = NULL;
        int64_t dims[HR_MAX_DIMS], begin;
        uint8_t *m = NULL;
        int64_t n_m = 0;
        int n_dims;

        assert_ok(hr__type_ragged_image(hr__type_simple(HR_T_UINT8), &image, NULL), NULL);
        assert_ok(hr__type_ragged(hr__type_simple(HR_T_UINT8), 3, &plain, NULL), NULL);
        assert_false(hr__type_equal(image, plain));
        assert_ok(hr__field_init(&f, "i", image, true, NULL), NULL);
        assert_ok(hr__field_storage_metadata(&f, &m, &n_m, NULL), NULL);
        hr__type_unref(f.type);
        f.type = hr__type_ref(plain);
        f.metadata = m;
        f.metadata_bytes = n_m;
        assert_ok(hr__field_from_storage(&f, NULL), NULL);
        assert_true(hr__type_equal(f.type, image));
        hr__field_clear(&f);
        assert_ok(hr__buffer_new(NULL, 12, &bytes, NULL), NULL);
        memset(bytes->data, 7, 12);
        assert_ok(hr__array_new(hr__type_simple(HR_T_UINT8), 12, 0, (hr_buffer *[3]){ NULL, bytes, NULL }, NULL, 0,
                                &values, NULL),
                  NULL);
        assert_ok(hr__type_tensor(hr__type_simple(HR_T_UINT8), shapes[k], 3, &tensor, NULL), NULL);
        assert_ok(hr__array_new(tensor, 2, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, &values, 1, &all, NULL), NULL);
        assert_ok(hr__array_as_ragged(&(hr_mem){ 0 }, all, &ragged, NULL), NULL);
        hr__type_unref(ragged->type);
        ragged->type = hr__type_ref(image);
        assert_true(hr__array_dense(ragged, &n_dims, dims, &found, &begin));
        assert_int_equal(n_dims, k == 0 ? 2 : 3);
        hr__array_unref(ragged);
        hr__array_unref(all);
        hr__type_unref(tensor);
        hr__type_unref(image);
        hr__type_unref(plain);
    }
    assert_no_leak(before);
}

/* Rows of a tensor, or of a slice, as a ragged tensor with the same values; an array that is no tensor, or has
 * nulls, is refused. */
static void tensors_as_ragged(void **state)
{
    live_memory before = live_now();
    const int64_t shape[2] = { 2, 3 };
    hr_type *tensor = NULL;
    hr_array *values = NULL, *all = NULL, *part = NULL, *ragged = NULL;
    const hr_array *found;
    hr_buffer *numbers = NULL;
    int64_t dims[HR_MAX_DIMS], begin;
    hr_error err = HR_ERROR_INIT;
    int n_dims;

    (void)state;
    assert_ok(hr__buffer_new(NULL, 24 * 4, &numbers, &err), &err);
    for (int i = 0; i < 24; i++)
        ((int32_t *)(void *)numbers->data)[i] = i;
    assert_ok(hr__array_new(hr__type_simple(HR_T_INT32), 24, 0, (hr_buffer *[3]){ NULL, numbers, NULL }, NULL, 0,
                            &values, &err),
              &err);
    assert_status(hr__array_as_ragged(&(hr_mem){ 0 }, values, &ragged, &err), HR_TYPE, &err);
    assert_ok(hr__type_tensor(hr__type_simple(HR_T_INT32), shape, 2, &tensor, &err), &err);
    assert_ok(hr__array_new(tensor, 4, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, &values, 1, &all, &err), &err);
    assert_ok(hr__array_slice(all, 1, 2, &part, &err), &err);
    assert_ok(hr__array_as_ragged(&(hr_mem){ 0 }, part, &ragged, &err), &err);
    assert_true(hr__type_is_ragged(ragged->type) && ragged->type->n_dims == 2 && ragged->length == 2);
    assert_true(hr__array_dense(ragged, &n_dims, dims, &found, &begin));
    assert_true(n_dims == 2 && dims[0] == 2 && dims[1] == 3);
    assert_int_equal(hr__array_int(found, begin), 6);
    hr__array_unref(ragged);
    hr__array_unref(part);
    hr__array_unref(all);
    hr__type_unref(tensor);
    assert_no_leak(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices),
        cmocka_unit_test(slices_outside),
        cmocka_unit_test(bytes_used),
        cmocka_unit_test(damaged_offsets),
        cmocka_unit_test(short_buffers),
        cmocka_unit_test(unaligned_buffers),
        cmocka_unit_test(wrong_numbers),
        cmocka_unit_test(utf8_by_row),
        cmocka_unit_test(equality),
        cmocka_unit_test(equality_of_floats),
        cmocka_unit_test(texts_of_numbers),
        cmocka_unit_test(texts_of_floats),
        cmocka_unit_test(texts_of_decimals),
        cmocka_unit_test(texts_of_bytes),
        cmocka_unit_test(texts_of_nested),
        cmocka_unit_test(long_values_end_early),
        cmocka_unit_test(dense_lists),
        cmocka_unit_test(dense_types_of_fixed_size),
        cmocka_unit_test(tensors_as_ragged),
        cmocka_unit_test(images_of_one_channel),
        cmocka_unit_test(null_count_on_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
