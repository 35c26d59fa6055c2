/* test_digest.c - hashes of tables: of the values alone, however they are stored. */
#include "arrays.h"
#include "harness.h"

static uint64_t digest(const hr_array *a)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__array_digest(a, &h, NULL);
    return hr__hash_end(&h).lo;
}

/* Rows [begin, begin + n) as a slice and as a contiguous array of their own. */
static void check_stored(hr_array *a, int64_t begin, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { 0 };
    hr_array *slice = NULL, *own = NULL;

    assert_ok(hr__array_slice(a, begin, n, &slice, &err), &err);
    assert_ok(hr__array_concat(&mem, a->type, &slice, 1, &own, &err), &err);
    assert_true(digest(slice) == digest(own));
    hr__array_unref(slice);
    hr__array_unref(own);
}

static void test_stored(void **state)
{
    uint64_t random = 3;

    (void)state;
    for (int i = 0; i < repeats(100) * n_sample_types(); i++) {
        hr_type *type = sample_type(i % n_sample_types());
        hr_array *a = random_array(&random, type, random_below(&random, 600));
        int64_t begin = random_below(&random, a->length + 1);

        check_stored(a, begin, random_below(&random, a->length - begin + 1));
        hr__array_unref(a);
        hr__type_unref(type);
    }
}

/* Other values, other lengths of lists, another order: other digests. */
static void test_differ(void **state)
{
    static const int64_t a[] = { 1, 2, 3 }, b[] = { 1, 3, 2 }, c[] = { 1, 2, INT64_MIN };
    static const char *const s[] = { "ab", "c", NULL }, *const t[] = { "a", "bc", NULL },
                             *const u[] = { "ab", "c", "" };
    hr_array *all[] = { array_of_ints(a, 3),    array_of_ints(b, 3),    array_of_ints(c, 3),
                        array_of_ints(a, 2),    array_of_strings(s, 3), array_of_strings(t, 3),
                        array_of_strings(u, 3), array_of_strings(s, 2), array_of_strings(t, 2) };

    (void)state;
    for (int i = 0; i < HR_LEN(all); i++)
        for (int k = 0; k < i; k++)
            assert_true(digest(all[i]) != digest(all[k]));
    for (int i = 0; i < HR_LEN(all); i++)
        hr__array_unref(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_stored), cmocka_unit_test(test_differ) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
