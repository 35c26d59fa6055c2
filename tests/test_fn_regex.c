/* test_fn_regex.c - patterns in text. */
#include "function_cases.h"

static const function_case cases[] = {
    { "str_like", { 0 }, { "string: abc|aXc\n|ab|null", "=string: a_c%" }, "bool: true true false null", HR_OK },
    { "str_like", { 0 }, { "string: a%c|abc|a.c", "=string: a\\%c" }, "bool: true false false", HR_OK },
    { "str_like", { "ignore_case=true" }, { "string: ABC|b", "=string: a%" }, "bool: true false", HR_OK },
    { "str_match_regex", { 0 }, { "string: a1|b|null", "=string: [a-z][0-9]" }, "bool: true false null", HR_OK },
    { "str_match_regex", { 0 }, { "string: a\n|a", "=string: a$" }, "bool: false true", HR_OK },
    { "str_match_regex", { "ignore_case=true" }, { "string: É", "=string: é" }, "bool: true", HR_OK },
    { "str_match_regex",
      { 0 },
      { "string: a", "=string: (" },
      "pattern '(': missing closing parenthesis, at place 1",
      HR_INVALID },
    { "str_match_regex",
      { 0 },
      { "string: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "=string: (a|aa)+$" },
      "row 0: the pattern on a text of 42 bytes: match limit exceeded",
      HR_BAD_DATA },
    { "str_find_regex", { 0 }, { "string: éb1|x", "=string: [0-9]" }, "int32: 3 -1", HR_OK },
    { "str_count_regex", { 0 }, { "string: aaa|ab|", "=string: a*" }, "int32: 2 3 1", HR_OK },
    { "str_count_regex", { 0 }, { "large_string: éé", "=string: " }, "int64: 3", HR_OK },
    { "str_replace_regex",
      { 0 },
      { "string: abc|null", "=string: (b)", "=string: <\\1\\0\\\\>" },
      "string: a<bb\\>c null",
      HR_OK },
    { "str_replace_regex", { 0 }, { "string: abc|bb", "=string: b*", "=string: X" }, "string: XaXcX X", HR_OK },
    { "str_replace_regex",
      { "max_replacements=1" },
      { "string: bb", "=string: b", "=string: X" },
      "string: Xb",
      HR_OK },
    { "str_replace_regex",
      { 0 },
      { "string: bb", "=string: b", "=string: \\2" },
      "the pattern has 0 groups",
      HR_INVALID },
    { "str_replace_regex",
      { 0 },
      { "string: bb", "=string: b", "=string: \\x" },
      "expected a digit or \\ after \\",
      HR_INVALID },
    { "str_split_regex",
      { 0 },
      { "string: a1b22c||null", "=string: [0-9]+" },
      "list<item: string>: [\"a\", \"b\", \"c\"] [\"\"] null",
      HR_OK },
    { "str_split_regex",
      { "max_splits=1" },
      { "string: a1b22c", "=string: [0-9]+" },
      "list<item: string>: [\"a\", \"b22c\"]",
      HR_OK },
    { "str_extract",
      { 0 },
      { "string: a1|zz|null", "=string: (?P<l>[a-z])(?P<d>[0-9])" },
      "struct<l: string, d: string>: {l: \"a\", d: \"1\"} null null",
      HR_OK },
    { "str_extract", { 0 }, { "string: a1", "=string: ([a-z])" }, "group 1 of the pattern has no name", HR_INVALID },
};

static void test_cases(void **unused)
{
    (void)unused;
    check_function_cases(cases, HR_LEN(cases));
}

/* A column that is no UTF-8, as a damaged file can have it: an error that names the row, and nothing is read beyond. */
static void test_texts_that_are_none(void **unused)
{
    const hr_mem mem = { 0 };
    hr_array *bad = NULL, *made = NULL;
    hr_expr *args[2] = { NULL, NULL }, *e = NULL;
    hr_buffer *offsets = NULL, *bytes = NULL;
    hr_schema *schema = NULL;
    hr_field field = { 0 };
    hr_table *t = NULL;
    hr_bound *b = NULL;
    hr_error err = HR_ERROR_INIT;
    const hr_eval how = { .mem = &mem };

    (void)unused;
    assert_ok(hr__buffer_copy(&mem, (const int32_t[]){ 0, 1, 2 }, 12, &offsets, NULL), NULL);
    assert_ok(hr__buffer_copy(&mem, "\xC3\xA9", 2, &bytes, NULL), NULL); /* one character, cut in two rows */
    assert_ok(
        hr__array_new(hr__type_simple(HR_T_STRING), 2, 0, (hr_buffer *[]){ NULL, offsets, bytes }, NULL, 0, &bad, NULL),
        NULL);
    assert_ok(hr__field_init(&field, "a", bad->type, true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, &bad, 2, NULL, &t, NULL), NULL);
    assert_ok(hr_expr_column("a", &args[0], NULL), NULL);
    assert_ok(hr_expr_string("b", &args[1], NULL), NULL);
    assert_ok(hr_expr_call("str_match_regex", args, 2, NULL, 0, &e, NULL), NULL);
#ifdef HR_HAVE_PCRE2
    assert_ok(hr__expr_bind(e, schema, &b, NULL), NULL);
    assert_int_equal(hr__bound_eval(b, &how, t, &made, &err), HR_BAD_DATA);
    assert_contains(err.text, "row 0: the text is not UTF-8");
#else
    (void)how, (void)made;
    assert_int_equal(hr__expr_bind(e, schema, &b, &err), HR_UNSUPPORTED);
#endif
    hr_error_clear(&err);
    hr__bound_free(b);
    hr_expr_unref(e);
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    hr_table_unref(t);
    hr__schema_unref(schema);
    hr__field_clear(&field);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_cases), cmocka_unit_test(test_texts_that_are_none) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
