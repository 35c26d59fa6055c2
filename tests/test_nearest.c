/* test_nearest.c - which known name a mistyped one is like. */
#include "harness.h"

#include "base/text.h"

static const char *nearest(const char *name, const char *const *known, int n)
{
    static hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < n; i++)
        hr__near_try(&near, known[i], strlen(known[i]));
    return hr__near_hint(&near);
}

static void names(void **state)
{
    static const char *const known[] = { "id", "x", "passengers", "passenger_id", "fare", "Größe" };
    static const char *const cases[][2] = {
        { "passenger", "; did you mean 'passengers'?" },     /* one letter is missing */
        { "pasengers", "; did you mean 'passengers'?" },     /* in the middle */
        { "PassengerId", "; did you mean 'passenger_id'?" }, /* case, and one letter */
        { "fair", "" },                                      /* half of it differs */
        { "fares", "; did you mean 'fare'?" },
        { "X", "; did you mean 'x'?" },
        { "y", "" },
        { "ix", "; did you mean 'id'?" }, /* the first of two that are equally like */
        { "groesse", "" },
        { "Grösse", "; did you mean 'Größe'?" },
        { "", "" },
        { "a name that is like none of them", "" },
        { "a name that is so long that nobody compares it with any other name, whatever it is", "" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++)
        assert_string_equal(nearest(cases[i][0], known, HR_LEN(known)), cases[i][1]);
}

static void long_names(void **state)
{
    char name[200];
    const char *known = name;

    (void)state;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    assert_string_equal(nearest("nnnn", &known, 1), "");
    assert_string_equal(nearest(name, &known, 1), "");
    name[HR_NEAR_CHARACTERS - 1] = 0; /* the longest that is compared */
    assert_string_equal(nearest(name + 1, &known, 1) + 2, "did you mean 'nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
                                                          "nnnnnnnnnnnnnnnnnnn'?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(long_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
