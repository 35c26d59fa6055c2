/* test_pickle.c - plain values as pickles: their bytes, which Python reads in tests/python/test_objects.py, and all
 * faults. */
#include "arrays.h"

#define PROTOCOL "\x80\x03"

static void assert_pickle(const hr_array *a, int64_t i, const char *want, int64_t n)
{
    int64_t n_got = 0;
    const uint8_t *got = hr__array_bytes(a, i, &n_got);

    assert_int_equal(n_got, n);
    assert_memory_equal(got, want, (size_t)n);
}
#define assert_pickled(a, i, want) assert_pickle((a), (i), PROTOCOL want ".", (int64_t)sizeof(PROTOCOL want ".") - 1)

static hr_array *pickled(hr_array *takes)
{
    hr_array *out = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_true(hr__type_can_pickle(takes->type));
    assert_ok(hr__array_pickle(NULL, takes, &out, &err), &err);
    assert_ok(hr__array_check(out, false, &err), &err);
    assert_true(out->type->pickled);
    assert_int_equal(out->length, takes->length);
    hr__array_unref(takes);
    return out;
}

static void integers(void **state)
{
    hr_builder *b = builder_of(hr__type_simple(HR_T_UINT64));
    hr_array *a = pickled(
        array_of_ints((const int64_t[]){ 0, -1, INT32_MAX, INT64_MIN, (int64_t)INT32_MAX + 1, -5000000000 }, 6));

    (void)state;
    assert_pickled(a, 0, "J\0\0\0\0");
    assert_pickled(a, 1, "J\xff\xff\xff\xff");
    assert_pickled(a, 2, "J\xff\xff\xff\x7f");
    assert_true(hr__array_is_null(a, 3));
    assert_pickled(a, 4, "\x8a\x08\0\0\0\x80\0\0\0\0");
    assert_pickled(a, 5, "\x8a\x08\0\x0e\xfa\xd5\xfe\xff\xff\xff");
    hr__array_unref(a);
    assert_ok(hr__builder_bytes(b, &(uint64_t){ UINT64_MAX }, 8, NULL), NULL);
    assert_ok(hr__builder_int(b, 7, NULL), NULL);
    a = pickled(finish(b));
    assert_pickled(a, 0, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0");
    assert_pickled(a, 1, "J\x07\0\0\0");
    hr__array_unref(a);
}

static void others(void **state)
{
    hr_array *a = pickled(array_of_strings((const char *const[]){ "", "a\xc3\xa4", NULL }, 3));
    hr_builder *b = builder_of(hr__type_simple(HR_T_FLOAT32));

    (void)state;
    assert_pickled(a, 0, "X\0\0\0\0");
    assert_pickled(a, 1,
                   "X\x03\0\0\0"
                   "a\xc3\xa4");
    assert_true(hr__array_is_null(a, 2));
    hr__array_unref(a);
    assert_ok(hr__builder_double(b, -1.5, NULL), NULL);
    a = pickled(finish(b));
    assert_pickled(a, 0, "G\xbf\xf8\0\0\0\0\0\0");
    hr__array_unref(a);
    b = builder_of(hr__type_simple(HR_T_BOOL));
    assert_ok(hr__builder_int(b, 1, NULL), NULL);
    assert_ok(hr__builder_int(b, 0, NULL), NULL);
    a = pickled(finish(b));
    assert_pickled(a, 0, "\x88");
    assert_pickled(a, 1, "\x89");
    hr__array_unref(a);
    b = builder_of(hr__type_simple(HR_T_DATE32));
    assert_ok(hr__builder_int(b, -1, NULL), NULL);
    assert_ok(hr__builder_int(b, 19782, NULL), NULL);
    a = pickled(finish(b));
    assert_pickled(a, 0,
                   "cdatetime\ndate\n(J\xb1\x07\0\0J\x0c\0\0\0J\x1f\0\0\0"
                   "tR");
    assert_pickled(a, 1,
                   "cdatetime\ndate\n(J\xe8\x07\0\0J\x02\0\0\0J\x1d\0\0\0"
                   "tR");
    hr__array_unref(a);
}

static void nested(void **state)
{
    hr_type *type = type_named("struct<id: int64, name: string, tags: list<item: int8>>");
    hr_builder *b = builder_of(type);
    hr_array *whole, *part = NULL, *a;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_ok(hr__builder_int(hr__builder_child(b, 0), i, NULL), NULL);
        assert_ok(hr__builder_null(hr__builder_child(b, 1), NULL), NULL);
        for (int k = 0; k < i; k++)
            assert_ok(hr__builder_int(hr__builder_child(hr__builder_child(b, 2), 0), 9, NULL), NULL);
        assert_ok(hr__builder_end(hr__builder_child(b, 2), NULL), NULL);
        assert_ok(hr__builder_end(b, NULL), NULL);
    }
    whole = finish(b);
    assert_ok(hr__array_slice(whole, 1, 1, &part, NULL), NULL);
    hr__array_unref(whole);
    a = pickled(part);
    assert_pickled(a, 0,
                   "}(X\x02\0\0\0idJ\x01\0\0\0X\x04\0\0\0nameNX\x04\0\0\0tags](J\x09\0\0\0"
                   "eu");
    hr__array_unref(a);
    hr__type_unref(type);
}

static void days_that_python_lacks(void **state)
{
    static const int64_t days[] = { -719163, 2932897 };

    (void)state;
    for (int i = 0; i < 2; i++) {
        hr_builder *b = builder_of(hr__type_simple(HR_T_DATE32));
        hr_array *a, *out = NULL;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr__builder_null(b, NULL), NULL);
        assert_ok(hr__builder_int(b, days[i], NULL), NULL);
        a = finish(b);
        assert_status(hr__array_pickle(NULL, a, &out, &err), HR_TYPE, &err);
        assert_contains(err.text, "row 1");
        assert_null(out);
        hr_error_clear(&err);
        hr__array_unref(a);
    }
}

/* Each type, values of which can be pickled, and that each of them is one pickle: it ends where it should. */
static void any_type(void **state)
{
    uint64_t seed = 3;
    int n = 0;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_array *a, *out = NULL;
        hr_error err = HR_ERROR_INIT;
        hr_status st;

        if (hr__type_can_pickle(type)) {
            a = random_array(&seed, type, 40);
            st = hr__array_pickle(NULL, a, &out, &err); /* random days are mostly out of range */
            assert_true(st == HR_OK || st == HR_TYPE);
            for (int64_t i = 0; !st && i < 40; i++) {
                int64_t n_bytes = 0;
                const uint8_t *p = hr__array_bytes(out, i, &n_bytes);

                assert_int_equal(hr__array_is_null(a, i), hr__array_is_null(out, i));
                if (!hr__array_is_null(a, i))
                    assert_true(p[0] == 0x80 && p[n_bytes - 1] == '.');
            }
            n++;
            hr__array_unref(out);
            hr__array_unref(a);
            hr_error_clear(&err);
        }
        hr__type_unref(type);
    }
    assert_true(n > 20);
}

static hr_status pickle_some(void *context, hr_error *err)
{
    hr_array *out = NULL;
    hr_status st = hr__array_pickle(NULL, context, &out, err);

    hr__array_unref(out);
    return st;
}

static void faults(void **state)
{
    hr_array *a = array_of_strings((const char *const[]){ "some text that is longer than what is reserved", NULL }, 2);

    (void)state;
    run_with_faults_on(pickle_some, a, HR_FAULT_MEMORY);
    hr__array_unref(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers), cmocka_unit_test(others),
        cmocka_unit_test(nested),   cmocka_unit_test(days_that_python_lacks),
        cmocka_unit_test(any_type), cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
