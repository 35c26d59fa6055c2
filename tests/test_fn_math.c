/* test_fn_math.c - functions of numbers. */
#include "function_cases.h"

static const function_case cases[] = {
    { "abs", { 0 }, { "int8: -5|null|127" }, "int8: 5 null 127", HR_OK },
    { "abs", { 0 }, { "int8: 1|-128" }, "row 1: abs(-128) does not fit int8", HR_BAD_DATA },
    { "abs", { 0 }, { "uint64: 18446744073709551615" }, "uint64: 18446744073709551615", HR_OK },
    { "abs", { 0 }, { "float: -0.5|nan" }, "float: 0.5 nan", HR_OK },
    { "sign", { 0 }, { "int64: -7|0|null|9" }, "int8: -1 0 null 1", HR_OK },
    { "sign", { 0 }, { "double: -0.0|-2.5|nan" }, "double: 0.0 -1.0 nan", HR_OK },
    { "ceil", { 0 }, { "double: 1.2|-1.2|null" }, "double: 2.0 -1.0 null", HR_OK },
    { "floor", { 0 }, { "int32: 3|-3" }, "double: 3.0 -3.0", HR_OK },
    { "trunc", { 0 }, { "float: -1.75|1.75" }, "float: -1.0 1.0", HR_OK },
    { "round", { 0 }, { "double: 0.5|1.5|-2.5|inf" }, "double: 0.0 2.0 -2.0 inf", HR_OK },
    { "round", { "ndigits=1" }, { "double: 1.25|1.35|1e308" }, "double: 1.2 1.4 1e+308", HR_OK },
    { "round", { "ndigits=-2" }, { "int16: 1250|1350|-151|null" }, "int16: 1200 1400 -200 null", HR_OK },
    { "round", { "ndigits=-1" }, { "int8: 1|126" }, "row 1: round(126) does not fit int8", HR_BAD_DATA },
    { "round", { "ndigits=-30" }, { "uint64: 18446744073709551615" }, "uint64: 0", HR_OK },
    { "ln", { 0 }, { "int8: 1|0|-1|null" }, "double: 0.0 -inf nan null", HR_OK },
    { "log2", { 0 }, { "double: 8" }, "double: 3.0", HR_OK },
    { "log10", { 0 }, { "float: 1000" }, "float: 3.0", HR_OK },
    { "sqrt", { 0 }, { "uint8: 9|16" }, "double: 3.0 4.0", HR_OK },
    { "exp", { 0 }, { "double: 0" }, "double: 1.0", HR_OK },
    { "sin", { 0 }, { "double: 0" }, "double: 0.0", HR_OK },
    { "cos", { 0 }, { "double: 0" }, "double: 1.0", HR_OK },
    { "tan", { 0 }, { "double: 0" }, "double: 0.0", HR_OK },
    { "asin", { 0 }, { "double: 2" }, "double: nan", HR_OK },
    { "acos", { 0 }, { "double: 1" }, "double: 0.0", HR_OK },
    { "atan", { 0 }, { "double: 0" }, "double: 0.0", HR_OK },
    { "exp", { 0 }, { "string: a" }, "exp of string: expected a number", HR_TYPE },
    { "power", { 0 }, { "int32: 2|-3|null", "int32: 10|3|1" }, "int32: 1024 -27 null", HR_OK },
    { "power", { 0 }, { "int32: 2|0", "=int32: 31" }, "row 0: 2 to the power of 31 does not fit int32", HR_BAD_DATA },
    { "power", { 0 }, { "int64: 2", "=int64: -1" }, "2 to the power of -1 does not fit int64", HR_BAD_DATA },
    { "power", { 0 }, { "int64: 0|1", "=int64: 0" }, "int64: 1 1", HR_OK },
    { "power", { 0 }, { "double: 2|null", "=double: 0.5" }, "double: 1.4142135623730951 null", HR_OK },
    { "power", { 0 }, { "string: 2", "=double: 0.5" }, "expected numbers", HR_TYPE },
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
