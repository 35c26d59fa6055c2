/* test_fn_search.c - a text in a text. */
#include "function_cases.h"

static const function_case cases[] = {
    { "str_starts_with", { 0 }, { "string: abc|xbc|null|", "=string: ab" }, "bool: true false null false", HR_OK },
    { "str_starts_with", { "ignore_case=true" }, { "string: ÉB|x", "=string: é" }, "bool: true false", HR_OK },
    { "str_ends_with", { 0 }, { "string: abc|ab", "=string: bc" }, "bool: true false", HR_OK },
    { "str_ends_with", { "ignore_case=true" }, { "string: aBC|BCa", "=string: bc" }, "bool: true false", HR_OK },
    { "str_contains",
      { 0 },
      { "string: abc|ab|bca|null||bcbc|xb|c", "=string: bc" },
      "bool: true false true null false true false false",
      HR_OK },
    { "str_contains", { 0 }, { "large_string: abc", "=string: " }, "bool: true", HR_OK },
    { "str_contains", { "ignore_case=true" }, { "string: aÉc|x", "=string: é" }, "bool: true false", HR_OK },
    { "str_contains",
      { 0 },
      { "string: a", "string: a" },
      "expected a constant text for the text to find",
      HR_INVALID },
    { "str_contains", { 0 }, { "string: a", "=int8: 1" }, "expected a constant text for the text to find", HR_TYPE },
    { "str_find", { 0 }, { "string: éa|b|null", "=string: a" }, "int32: 2 -1 null", HR_OK },
    { "str_find", { "ignore_case=true" }, { "large_string: éA", "=string: a" }, "int64: 2", HR_OK },
    { "str_count", { 0 }, { "string: aaa|ba|null", "=string: aa" }, "int32: 1 0 null", HR_OK },
    { "str_count", { 0 }, { "string: ab", "=string: " }, "int32: 3", HR_OK },
    { "str_count", { "ignore_case=true" }, { "string: aAa", "=string: a" }, "int32: 3", HR_OK },
    { "str_replace", { 0 }, { "string: aaa|b|null", "=string: a", "=string: xy" }, "string: xyxyxy b null", HR_OK },
    { "str_replace", { "max_replacements=1" }, { "string: aaa", "=string: a", "=string: " }, "string: aa", HR_OK },
    { "str_replace",
      { 0 },
      { "string: aaa", "=string: ", "=string: " },
      "str_replace: the text to find is empty",
      HR_INVALID },
    { "str_split",
      { 0 },
      { "string: a,b,,c|null||,", "=string: ," },
      "list<item: string>: [\"a\", \"b\", \"\", \"c\"] null [\"\"] [\"\", \"\"]",
      HR_OK },
    { "str_split",
      { "max_splits=1" },
      { "string: a,b,c", "=string: ," },
      "list<item: string>: [\"a\", \"b,c\"]",
      HR_OK },
    { "str_split",
      { "max_splits=1", "reverse=true" },
      { "string: a,b,c", "=string: ," },
      "list<item: string>: [\"a,b\", \"c\"]",
      HR_OK },
    { "str_split",
      { "max_splits=2", "reverse=true" },
      { "string: aaaaa", "=string: aa" },
      "list<item: string>: [\"a\", \"\", \"\"]",
      HR_OK },
    { "str_split_whitespace",
      { 0 },
      { "string:  a  b\tc|null|x" },
      "list<item: string>: [\"\", \"a\", \"b\", \"c\"] null [\"x\"]",
      HR_OK },
    { "str_split_whitespace",
      { "max_splits=1", "reverse=true" },
      { "large_string: a  b c " },
      "list<item: large_string>: [\"a  b c\", \"\"]",
      HR_OK },
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
