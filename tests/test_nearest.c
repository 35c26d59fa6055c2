/* test_nearest.c - which known name a mistyped one is like. */
#include "harness.h"

#include "base/text.h"

#include <stdio.h>

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
        { "frae", "; did you mean 'fare'?" }, /* two neighbours are swapped: one edit */
        { "di", "; did you mean 'id'?" },
        { "arfe", "" },
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

static void errors(void **state)
{
    char name[300], many[40];
    hr_error err = HR_ERROR_INIT;
    hr_near near;

    (void)state;
    hr__near_begin(&near, "fares", 5);
    assert_status(hr__near_error(&near, HR_NOT_FOUND, "a.csv", "fares", &err), HR_NOT_FOUND, &err);
    assert_string_equal(err.text, "a.csv: no column 'fares', nor any other");
    hr__near_try(&near, "id", 2);
    hr__near_try(&near, "fare", 4);
    assert_status(hr__near_error(&near, HR_INVALID, "a.csv", "fares", &err), HR_INVALID, &err);
    assert_string_equal(err.text, "a.csv: no column 'fares'; there are: id, fare; did you mean 'fare'?");
    for (int i = 0; i < 200; i++) {
        snprintf(many, sizeof many, "column_%d", i);
        hr__near_try(&near, many, strlen(many));
    }
    (void)hr__near_error(&near, HR_INVALID, "a.csv", "fares", &err);
    assert_non_null(strstr(err.text, "column_40, "));
    assert_non_null(strstr(err.text, ", ...; did you mean 'fare'?"));
    memset(name, 'n', sizeof name);
    hr__near_begin(&near, "x", 1);
    hr__near_try(&near, name, sizeof name); /* one that fits, without an end */
    hr__near_try(&near, name, sizeof name); /* and one that does not */
    (void)hr__near_error(&near, HR_INVALID, "a.csv", "x", &err);
    assert_non_null(strstr(err.text, "nnn, ..."));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(long_names),
        cmocka_unit_test(errors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
