/* test_fn_nested.c - lists: their items. Structs and maps, which no text makes, are tested in Python. */
#include "function_cases.h"

static const function_case cases[] = {
    { "list_len", { 0 }, { "list<int32>: 3,1,2|null||5" }, "int32: 3 null 0 1", HR_OK },
    { "list_len", { 0 }, { "int8: 1" }, "list_len of int8: expected a list", HR_TYPE },
    { "list_get", { "index=1" }, { "list<int32>: 3,1,2|null||5" }, "int32: 1 null null null", HR_OK },
    { "list_get", { "index=-1" }, { "list<int32>: 3,1,2|null||5" }, "int32: 2 null null 5", HR_OK },
    { "list_get", { "index=0" }, { "list<string>: a,b|null" }, "string: a null", HR_OK },
    { "list_slice", { "start=1" }, { "list<int32>: 3,1,2|null||5" }, "list<item: int32>: [1, 2] null [] []", HR_OK },
    { "list_slice",
      { "start=-2", "stop=-1" },
      { "list<int32>: 3,1,2|null||5" },
      "list<item: int32>: [1] null [] []",
      HR_OK },
    { "list_slice", { "step=-2" }, { "list<int32>: 3,1,2|null||5" }, "list<item: int32>: [2, 3] null [] [5]", HR_OK },
    { "list_slice", { "step=0" }, { "list<int32>: 3,1,2|null||5" }, "list_slice: step is 0", HR_INVALID },
    { "list_sort", { 0 }, { "list<int32>: 3,1,2|null||5" }, "list<item: int32>: [1, 2, 3] null [] [5]", HR_OK },
    { "list_sort",
      { "descending=true" },
      { "list<double>: 1,nan,null,3,2,7,5,9,8,4,6,0" },
      "list<item: double>: [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0, nan, null]",
      HR_OK },
    { "list_sort",
      { "nulls_first=true" },
      { "list<string>: b,null,a" },
      "list<item: string>: [null, \"a\", \"b\"]",
      HR_OK },
    { "list_flatten", { 0 }, { "list<int32>: 3,1,2|null||5" }, "expected a list of lists", HR_TYPE },
    { "struct_field", { "name=a" }, { "list<int32>: 3,1,2|null||5" }, "expected a struct", HR_TYPE },
    { "map_keys", { 0 }, { "list<int32>: 3,1,2|null||5" }, "a map, or a list of structs", HR_TYPE },
    { "arr_to_list", { 0 }, { "list<int32>: 3,1,2|null||5" }, "list<item: int32>: [3, 1, 2] null [] [5]", HR_OK },
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
