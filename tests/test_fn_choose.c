/* test_fn_choose.c - one of several values. */
#include "function_cases.h"

static const function_case cases[] = {
    { "if_else", { 0 }, { "bool: true|false|null", "int8: 1|2|3", "int8: 4|5|6" }, "int8: 1 5 null", HR_OK },
    { "if_else", { 0 }, { "bool: true|false", "=string: a", "string: x|null" }, "string: a null", HR_OK },
    { "if_else", { 0 }, { "=bool: true", "int8: 1|null", "int32: 4|5" }, "int32: 1 null", HR_OK },
    { "if_else", { 0 }, { "int8: 1", "int8: 1", "int8: 4" }, "expected a bool as the first argument", HR_TYPE },
    { "coalesce", { 0 }, { "double: null|1|null", "float: 2|3|null" }, "double: 2.0 1.0 null", HR_OK },
    { "coalesce", { 0 }, { "string: null|b", "=string: z" }, "string: z b", HR_OK },
    { "coalesce", { 0 }, { "bool: null|true", "=bool: false" }, "bool: false true", HR_OK },
    { "coalesce",
      { 0 },
      { "date32: null|2020-01-02", "date32: 2021-01-01|null" },
      "date32[day]: 2021-01-01 2020-01-02",
      HR_OK },
    { "coalesce",
      { 0 },
      { "int8: null", "string: a" },
      "coalesce of int8 and string: no type holds all of them",
      HR_TYPE },
    { "least", { 0 }, { "int8: 3|null", "int16: 2|-7", "=int8: 5" }, "int16: 2 -7", HR_OK },
    { "least", { 0 }, { "double: nan|nan|1", "double: 2|null|nan" }, "double: 2.0 nan 1.0", HR_OK },
    { "greatest", { 0 }, { "string: b|null|a", "string: aa|null|b" }, "string: b null b", HR_OK },
    { "greatest", { 0 }, { "list<int8>: 1", "list<int8>: 2" }, "these types do not compare", HR_TYPE },
};

static void test_cases(void **unused)
{
    (void)unused;
    check_function_cases(cases, HR_LEN(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
