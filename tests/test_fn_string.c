/* test_fn_string.c - text by characters. */
#include "function_cases.h"

static const function_case cases[] = {
    { "str_len", { 0 }, { "string: héllo|null|" }, "int32: 5 null 0", HR_OK },
    { "str_len", { 0 }, { "large_string: a" }, "int64: 1", HR_OK },
    { "str_byte_len", { 0 }, { "string: héllo|null" }, "int32: 6 null", HR_OK },
    { "str_len", { 0 }, { "int8: 1" }, "str_len of int8: expected text as the first argument", HR_TYPE },
    { "str_upper", { 0 }, { "string: abC1|null|z" }, "string: ABC1 null Z", HR_OK },
    { "str_upper", { 0 }, { "string: éσ" }, "string: ÉΣ", HR_OK },
    { "str_lower", { 0 }, { "large_string: ÀB|C" }, "large_string: àb c", HR_OK },
    { "str_capitalize", { 0 }, { "string: hELLO w|éA" }, "string: Hello w Éa", HR_OK },
    { "str_title", { 0 }, { "string: hello world's x1y" }, "string: Hello World'S X1Y", HR_OK },
    { "str_swapcase", { 0 }, { "string: aBé" }, "string: AbÉ", HR_OK },
    { "str_is_alpha", { 0 }, { "string: abé|a1||null" }, "bool: true false false null", HR_OK },
    { "str_is_alnum", { 0 }, { "string: a1²|-" }, "bool: true false", HR_OK },
    { "str_is_digit", { 0 }, { "string: 1²|a" }, "bool: true false", HR_OK },
    { "str_is_decimal", { 0 }, { "string: 12|²" }, "bool: true false", HR_OK },
    { "str_is_numeric", { 0 }, { "string: Ⅷ|a" }, "bool: true false", HR_OK },
    { "str_is_space", { 0 }, { "string:  \t| x|" }, "bool: true false false", HR_OK },
    { "str_is_lower", { 0 }, { "string: a1|aB|1" }, "bool: true false false", HR_OK },
    { "str_is_upper", { 0 }, { "string: A1|aB|1" }, "bool: true false false", HR_OK },
    { "str_is_title", { 0 }, { "string: Ab Cd|AB|ab|1" }, "bool: true false false false", HR_OK },
    { "str_is_printable", { 0 }, { "string: a b||\n" }, "bool: true true false", HR_OK },
    { "str_is_ascii", { 0 }, { "string: a||é|null" }, "bool: true true false null", HR_OK },
    { "str_strip", { 0 }, { "string:   a b \t|null" }, "string: a b null", HR_OK },
    { "str_lstrip", { 0 }, { "string:  a " }, "string: a ", HR_OK },
    { "str_rstrip", { 0 }, { "string:  a " }, "string:  a", HR_OK },
    { "str_strip", { 0 }, { "string: xéaxé", "=string: éx" }, "string: a", HR_OK },
    { "str_strip", { 0 }, { "string:  a ", "=string: " }, "string:  a ", HR_OK },
    { "str_strip", { 0 }, { "string: a", "string: a" }, "expected a constant text for characters", HR_INVALID },
    { "str_lpad", { "width=4" }, { "string: ab|abcdef|null", "=string: é" }, "string: ééab abcdef null", HR_OK },
    { "str_rpad", { "width=3" }, { "string: a" }, "string: a  ", HR_OK },
    { "str_center", { "width=5" }, { "string: ab", "=string: *" }, "string: *ab**", HR_OK },
    { "str_zfill", { "width=4" }, { "string: -5|+x|7" }, "string: -005 +00x 0007", HR_OK },
    { "str_lpad",
      { "width=4" },
      { "string: a", "=string: xy" },
      "the padding has 2 characters, expected one",
      HR_INVALID },
    { "str_slice", { "start=1", "stop=3" }, { "string: héllo|h|null" }, "string: él  null", HR_OK },
    { "str_slice", { "start=-3" }, { "string: hello|hi" }, "string: llo hi", HR_OK },
    { "str_slice", { "start=-1", "step=-2" }, { "string: héllo|" }, "string: olh ", HR_OK },
    { "str_slice", { "start=0", "stop=-1", "step=2" }, { "string: abcde" }, "string: ac", HR_OK },
    { "str_slice", { "step=0" }, { "string: a" }, "str_slice: step is 0", HR_INVALID },
    { "str_replace_slice", { "start=1", "stop=3" }, { "string: héllo|", "=string: XX" }, "string: hXXlo XX", HR_OK },
    { "str_replace_slice", { "start=-2", "stop=-1" }, { "string: hello", "=string: " }, "string: helo", HR_OK },
    { "str_repeat", { "n=3" }, { "string: ab|null|" }, "string: ababab null ", HR_OK },
    { "str_repeat", { "n=200000000" }, { "string: 0123456789abcdef" }, "row 0: more than 2 GiB of text", HR_BAD_DATA },
    { "str_reverse", { 0 }, { "string: héx|null" }, "string: xéh null", HR_OK },
    { "add", { 0 }, { "string: a|null|b", "=string: é" }, "string: aé null bé", HR_OK },
    { "add", { 0 }, { "string: a|b", "large_string: x|null" }, "large_string: ax null", HR_OK },
    { "add", { 0 }, { "string: a", "int8: 1" }, "add of string and int8: no type holds all of them", HR_TYPE },
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
