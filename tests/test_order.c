/* test_order.c - keys of rows: three ways to compare two rows agree, and with the order that is written down here. */
#include "arrays.h"
#include "data/keys.h"

static int sign(int v) { return (v > 0) - (v < 0); }

static int compare_bytes(const hr_order *o, const hr_table *t, int64_t i, int64_t j)
{
    hr_text a = { 0 }, b = { 0 };
    int c;

    hr__order_bytes(o, t, i, &a);
    hr__order_bytes(o, t, j, &b);
    c = memcmp(a.data, b.data, (size_t)HR_MIN(a.n, b.n));
    c = c ? c : (a.n > b.n) - (a.n < b.n);
    hr__text_clear(&a);
    hr__text_clear(&b);
    return sign(c);
}

static int compare_prefixes(const hr_order *o, const uint64_t *p, int64_t i, int64_t j)
{
    for (int w = 0; w < o->words; w++) {
        uint64_t x = p[i * o->words + w], y = p[j * o->words + w];

        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

/* All pairs of rows. */
static void check_agree(const hr_order *o, const hr_table *t)
{
    uint64_t *p = test_malloc((size_t)(t->n_rows * HR_ORDER_WORDS + 1) * sizeof *p);

    hr__order_prefixes(o, t, 0, t->n_rows, p);
    for (int64_t i = 0; i < t->n_rows; i++) {
        for (int64_t j = 0; j < t->n_rows; j++) {
            int c = sign(hr__order_compare(o, t, i, t, j)), q = compare_prefixes(o, p, i, j);

            assert_int_equal(c, compare_bytes(o, t, i, j));
            assert_true(q == c || (q == 0 && !hr__order_decides(o, p + i * o->words)));
        }
        if (i > 0) { /* from the middle, the same */
            uint64_t one[HR_ORDER_WORDS];

            hr__order_prefixes(o, t, i, 1, one);
            assert_memory_equal(one, p + i * o->words, (size_t)o->words * sizeof *p);
        }
    }
    test_free(p);
}

static void test_agree(void **unused)
{
    uint64_t random = 11;
    hr_error err = HR_ERROR_INIT;
    int n_orderable = 0;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);

        n_orderable += hr__type_is_orderable(type);
        for (int way = 0; way < 4 && hr__type_is_orderable(type); way++) {
            hr_table *t = random_table(&random, &type, 1, 23);
            hr_order_key key = { .descending = way & 1, .nulls_first = way & 2 };
            hr_order *o = NULL;

            assert_ok(hr__order_new(t->schema, &key, 1, NULL, &o, &err), &err);
            check_agree(o, t);
            hr__order_free(o);
            hr_table_unref(t);
        }
        hr__type_unref(type);
    }
    assert_true(n_orderable >= 20);
}

/* Several keys of any types. */
static void test_many_keys(void **unused)
{
    uint64_t random = 12;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int round = 0; round < repeats(300); round++) {
        hr_order_key keys[3];
        hr_type *types[3];
        hr_order *o = NULL;
        hr_table *t;

        for (int k = 0; k < 3; k++) {
            do {
                types[k] = sample_type((int)random_below(&random, n_sample_types()));
            } while (!hr__type_is_orderable(types[k]) && (hr__type_unref(types[k]), true));
            keys[k] = (hr_order_key){ .column = k,
                                      .descending = random_below(&random, 2),
                                      .nulls_first = random_below(&random, 2) };
        }
        t = random_table(&random, types, 3, 12);
        assert_ok(hr__order_new(t->schema, keys, 1 + (int)random_below(&random, 3), NULL, &o, &err), &err);
        check_agree(o, t);
        hr__order_free(o);
        hr_table_unref(t);
        for (int k = 0; k < 3; k++)
            hr__type_unref(types[k]);
    }
}

/* values[0 .. n) is in order; the rest of the rows are nulls. */
static void check_order(hr_table *t, int64_t n_values, int64_t n_nan)
{
    for (int way = 0; way < 4; way++) {
        bool descending = way & 1, first = way & 2;
        hr_order_key key = { .descending = descending, .nulls_first = first };
        hr_error err = HR_ERROR_INIT;
        hr_order *o = NULL;

        assert_ok(hr__order_new(t->schema, &key, 1, NULL, &o, &err), &err);
        for (int64_t i = 0; i < t->n_rows; i++) {
            for (int64_t j = i + 1; j < t->n_rows; j++) {
                int64_t group_i = i < n_values ? 0 : i < n_values + n_nan ? 1 : 2;
                int64_t group_j = j < n_values ? 0 : j < n_values + n_nan ? 1 : 2;
                int want = group_i != group_j ? (first ? 1 : -1) : group_i ? 0 : descending ? 1 : -1;

                assert_int_equal(sign(hr__order_compare(o, t, i, t, j)), want);
                assert_int_equal(sign(hr__order_compare(o, t, j, t, i)), -want);
            }
        }
        check_agree(o, t);
        hr__order_free(o);
    }
}

static hr_table *table_of(hr_array *a)
{
    hr_field f = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL;
    int64_t n = a->length;

    assert_ok(hr__field_init(&f, "key", a->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &s, NULL), NULL);
    assert_ok(hr__table_new(s, &a, n, NULL, &t, NULL), NULL);
    hr__field_clear(&f);
    hr__schema_unref(s);
    return t;
}

static void test_ints(void **unused)
{
    static const int64_t values[] = { INT64_MIN + 1, -4294967297, -256,  -255,      -1,       0, 1,
                                      255,           256,         65536, INT64_MAX, INT64_MIN /* a null */ };
    hr_table *t = table_of(array_of_ints(values, HR_LEN(values)));

    (void)unused;
    check_order(t, HR_LEN(values) - 1, 0);
    hr_table_unref(t);
}

static void test_texts(void **unused)
{
    static const char *const values[] = {
        "",   "\x01", "a", "a\x01",    "aa",           "aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaab",
        "ab", "b",    "z", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80",     NULL,
        NULL
    };
    hr_builder *b = builder_of(hr__type_simple(HR_T_BINARY));
    hr_table *t = table_of(array_of_strings(values, HR_LEN(values)));

    (void)unused;
    check_order(t, HR_LEN(values) - 2, 0);
    hr_table_unref(t);
    assert_ok(hr__builder_bytes(b, "", 0, NULL), NULL); /* with bytes of 0 and 255 */
    assert_ok(hr__builder_bytes(b, "\0", 1, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\0\0", 2, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 17, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\0\1", 2, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\0\xff", 2, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\1", 1, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\xff", 1, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\xff\0", 2, NULL), NULL);
    assert_ok(hr__builder_bytes(b, "\xff\xff", 2, NULL), NULL);
    t = table_of(finish(b));
    check_order(t, t->n_rows, 0);
    hr_table_unref(t);
}

static void test_floats(void **unused)
{
    static const double values[] = { -1.0 / 0.0, -60000, -1.5, -6e-5, 0, 6e-5, 1, 1.5, 60000, 1.0 / 0.0 };
    static const hr_type_id ids[] = { HR_T_FLOAT16, HR_T_FLOAT32, HR_T_FLOAT64 };

    (void)unused;
    for (int k = 0; k < HR_LEN(ids); k++) {
        hr_builder *b = builder_of(hr__type_simple(ids[k]));
        hr_order_key key = { .column = 0 };
        hr_order *o = NULL;
        hr_table *t;

        for (int i = 0; i < HR_LEN(values); i++)
            assert_ok(hr__builder_double(b, values[i], NULL), NULL);
        assert_ok(hr__builder_double(b, 0.0 / 0.0, NULL), NULL);
        assert_ok(hr__builder_double(b, -(0.0 / 0.0), NULL), NULL);
        assert_ok(hr__builder_null(b, NULL), NULL);
        t = table_of(finish(b));
        check_order(t, HR_LEN(values), 2);
        hr_table_unref(t);
        b = builder_of(hr__type_simple(ids[k]));
        assert_ok(hr__builder_double(b, 0.0, NULL), NULL);
        assert_ok(hr__builder_double(b, -0.0, NULL), NULL);
        t = table_of(finish(b));
        assert_ok(hr__order_new(t->schema, &key, 1, NULL, &o, NULL), NULL);
        assert_int_equal(hr__order_compare(o, t, 0, t, 1), 0);
        check_agree(o, t);
        hr__order_free(o);
        hr_table_unref(t);
    }
}

static void test_widths(void **unused)
{
    static const struct {
        hr_type_id ids[2];
        int n, words;
        bool exact;
    } cases[] = {
        { { HR_T_FLOAT32 }, 1, 1, true },           { { HR_T_INT64 }, 1, 2, true },
        { { HR_T_STRING }, 1, 2, false },           { { HR_T_BOOL, HR_T_INT32 }, 2, 1, true },
        { { HR_T_INT64, HR_T_INT32 }, 2, 2, true }, { { HR_T_INT64, HR_T_INT64 }, 2, 2, false },
        { { HR_T_NULL, HR_T_INT32 }, 2, 1, true },
    };

    (void)unused;
    for (int c = 0; c < HR_LEN(cases); c++) {
        hr_type *types[] = { hr__type_simple(cases[c].ids[0]), hr__type_simple(cases[c].ids[1]) };
        hr_order_key keys[] = { { .column = 0 }, { .column = 1 } };
        uint64_t random = 3;
        hr_table *t = random_table(&random, types, 2, 1);
        hr_order *o = NULL;

        assert_ok(hr__order_new(t->schema, keys, cases[c].n, NULL, &o, NULL), NULL);
        assert_int_equal(o->words, cases[c].words);
        assert_int_equal(o->exact, cases[c].exact);
        hr__order_free(o);
        hr_table_unref(t);
    }
}

/* Before a text, numbers whose last bytes look like a text's end, up to after the prefix: it was said to be all of the
 * key. */
static void test_numbers_before_texts(void **unused)
{
    static const hr_type_id second[] = { HR_T_INT8, HR_T_INT16, HR_T_INT32, HR_T_INT64 };
    static const int64_t numbers[] = { -2, -1, 0, 1, -256, 256, -257, 255 };
    static const char *const texts[] = { "", NULL, "a", "ab", "\xff\xff", "" };

    (void)unused;
    for (int c = 0; c < 4 * 16; c++) {
        hr_builder *b[] = { builder_of(hr__type_simple(HR_T_INT64)), builder_of(hr__type_simple(second[c / 16])),
                            builder_of(hr__type_simple(HR_T_BINARY)) };
        hr_order_key keys[] = { { .column = 0, .bare = c & 1 },
                                { .column = 1, .descending = c & 2, .bare = c & 8 },
                                { .column = 2, .descending = c & 4 } };
        hr_array *columns[3];
        hr_field f[3] = { 0 };
        hr_schema *schema = NULL;
        hr_order *o = NULL;
        hr_table *t = NULL;

        for (int i = 0; i < 48; i++) {
            const char *text = texts[i % HR_LEN(texts)];

            assert_ok(hr__builder_int(b[0], i % 5 ? 7 : 8, NULL), NULL);
            assert_ok(hr__builder_int(b[1], second[c / 16] == HR_T_INT8 ? numbers[i / 6 % 4] : numbers[i / 6], NULL),
                      NULL);
            assert_ok(text ? hr__builder_bytes(b[2], text, (int64_t)strlen(text), NULL) : hr__builder_null(b[2], NULL),
                      NULL);
        }
        for (int k = 0; k < 3; k++) {
            columns[k] = finish(b[k]);
            assert_ok(hr__field_init(&f[k], "key", columns[k]->type, true, NULL), NULL);
        }
        assert_ok(hr__schema_new(f, 3, &schema, NULL), NULL);
        assert_ok(hr__table_new(schema, columns, 48, NULL, &t, NULL), NULL);
        assert_ok(hr__order_new(schema, keys, 3, NULL, &o, NULL), NULL);
        check_agree(o, t);
        hr__order_free(o);
        hr_table_unref(t);
        hr__schema_unref(schema);
        for (int k = 0; k < 3; k++)
            hr__field_clear(&f[k]);
    }
}

/* Without nulls and NaN eight bytes may be all of a key. */
static void test_bare(void **unused)
{
    static const int64_t values[] = { INT64_MIN + 1, -1, 0, 1, 255, 256, INT64_MAX };
    hr_table *t = table_of(array_of_ints(values, HR_LEN(values)));

    (void)unused;
    for (int way = 0; way < 2; way++) {
        hr_order_key key = { .descending = way, .bare = true };
        hr_order *o = NULL;

        assert_ok(hr__order_new(t->schema, &key, 1, NULL, &o, NULL), NULL);
        assert_true(o->words == 1 && o->exact);
        check_agree(o, t);
        assert_int_equal(sign(hr__order_compare(o, t, 0, t, 1)), way ? 1 : -1);
        hr__order_free(o);
    }
    hr_table_unref(t);
}

static void test_refusals(void **unused)
{
    hr_type *type = type_named("list<item: int32>");
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 4;
    hr_table *t = random_table(&random, &type, 1, 1);
    hr_order_key key = { 0 };
    hr_order *o = NULL;

    (void)unused;
    assert_status(hr__order_new(t->schema, &key, 1, NULL, &o, &err), HR_TYPE, &err);
    assert_contains(err.text, "column 'c0' is list<item: int32>");
    hr_error_clear(&err);
    hr_table_unref(t);
    hr__type_unref(type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_before_texts),
        cmocka_unit_test(test_agree),
        cmocka_unit_test(test_many_keys),
        cmocka_unit_test(test_ints),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_floats),
        cmocka_unit_test(test_widths),
        cmocka_unit_test(test_bare),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
