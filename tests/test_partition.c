/* test_partition.c - columns from folder names: keys, values, types, errors. */
#include "arrays.h"
#include "format/scan/scan.h"

typedef struct listing {
    const char *paths[4];
    const char *partitioning, *base;
    const char *names[3];
    const char *types[3];
    const char *want; /* "name: type: values", separated by "; "; or the error's text */
    hr_status st;
} listing;

static const listing cases[] = {
    { { "t/a=1/b=x/f", "t/a=2/b=y/f" }, "hive", NULL, { NULL }, { NULL }, "a: int64: 1 2; b: string: x y", HR_OK },
    { { "f", "g" }, "hive", NULL, { NULL }, { NULL }, "", HR_OK },
    { { "a=1/f", "b=2/f" }, "hive", NULL, { NULL }, { NULL }, "a: int64: 1 null; b: int64: null 2", HR_OK },
    { { "a=1/f", "a=x/f" }, "hive", NULL, { NULL }, { NULL }, "a: string: 1 x", HR_OK },
    { { "a=__HIVE_DEFAULT_PARTITION__/f", "a=-07/f" }, "hive", NULL, { NULL }, { NULL }, "a: int64: null -7", HR_OK },
    { { "a=__HIVE_DEFAULT_PARTITION__/f" }, "hive", NULL, { NULL }, { NULL }, "a: string: null", HR_OK },
    { { "a=/f", "a=NULL/f" }, "hive", NULL, { NULL }, { NULL }, "a: string:  NULL", HR_OK },
    { { "a%20b=c%2Fd%3d/f" }, "hive", NULL, { NULL }, { NULL }, "a b: string: c/d=", HR_OK },
    { { "a=1/f", "a%00b=1/f" }, /* was one column 'a' */
      "hive",
      NULL,
      { NULL },
      { NULL },
      "a%00b=1/f: folder 'a%00b=': a partition column's name holds a zero byte",
      HR_BAD_DATA },
    { { "a=5%00/f" },
      "hive",
      NULL,
      { "a" },
      { "c" },
      "a=5%00/f: partition column 'a': expected int8, found '5'",
      HR_TYPE },
    { { "a=1=2/f" }, "hive", NULL, { NULL }, { NULL }, "a: string: 1=2", HR_OK },
    { { "=1/x/a=1.parquet" }, "hive", NULL, { NULL }, { NULL }, "", HR_OK }, /* no key; the file's own name */
    { { "a=1/a=2/f" }, "hive", NULL, { NULL }, { NULL }, "a: int64: 2", HR_OK },
    { { "a=9223372036854775807/f", "a=-9223372036854775808/f" },
      "hive",
      NULL,
      { NULL },
      { NULL },
      "a: int64: 9223372036854775807 -9223372036854775808",
      HR_OK },
    { { "a=9223372036854775808/f" }, "hive", NULL, { NULL }, { NULL }, "a: string: 9223372036854775808", HR_OK },
    { { "a=1/t/b=2/f", "z/t/b=3/f" }, "hive", "a=1/t", { NULL }, { NULL }, "b: int64: 2 null", HR_OK },
    { { "a=1/t/b=2/f" }, "hive", "a=1/t/", { NULL }, { NULL }, "b: int64: 2", HR_OK },
    { { "a=1/tt/b=2/f", "a=1/t/f" }, "hive", "a=1/t", { NULL }, { NULL }, "", HR_OK }, /* below "t", not "tt" */
    { { "a=1/tt/b=2/f" },
      "hive",
      "a=1/t",
      { NULL },
      { NULL },
      "a=1/tt/b=2/f: no file lies below the partition base 'a=1/t'",
      HR_INVALID },
    { { "a=1/b=2/f" }, "hive", NULL, { "b", "c" }, { NULL }, "b: int64: 2; c: string: null", HR_OK },
    { { "a=1/f" }, "hive", NULL, { "a" }, { "u" }, "a: string: 1", HR_OK },
    { { "a=1.5/f" }, "hive", NULL, { "a" }, { "g" }, "a: double: 1.5", HR_OK },
    { { "a=True/f", "a=false/f" }, "hive", NULL, { "a" }, { "b" }, "a: bool: true false", HR_OK },
    { { "a=300/f" },
      "hive",
      NULL,
      { "a" },
      { "c" },
      "a=300/f: partition column 'a': expected int8, found '300'",
      HR_TYPE },
    { { "a=x/f" }, "hive", NULL, { "a" }, { "g" }, "a=x/f: partition column 'a': expected double, found 'x'", HR_TYPE },
    { { "a=%ff/f" },
      "hive",
      NULL,
      { NULL },
      { NULL },
      "a=%ff/f: partition column 'a': its value is not UTF-8",
      HR_BAD_DATA },
    { { "/d/x/1/f", "/d/y/2/f" }, "dir", "/d", { "k", "n" }, { NULL }, "k: string: x y; n: int64: 1 2", HR_OK },
    { { "/d/x/1/f" }, "dir", NULL, { "n" }, { NULL }, "n: int64: 1", HR_OK }, /* the last ones */
    { { "/d/x/1/f" },
      "dir",
      "/d",
      { "n" },
      { NULL },
      "/d/x/1/f: 2 folders below /d for 1 partition columns",
      HR_INVALID },
    { { "/d/x%2Fy/f" }, "dir", "/d", { "k" }, { NULL }, "k: string: x%2Fy", HR_OK },     /* as it stands */
    { { "/d/f", "/d/1/f" }, "dir", "/d", { "k" }, { NULL }, "k: int64: null 1", HR_OK }, /* Ray: "unpartitioned" */
    { { "a=2024-02-29/f", "a=1969-12-31/f" },
      "hive",
      NULL,
      { "a" },
      { "tdD" },
      "a: date32[day]: 2024-02-29 1969-12-31",
      HR_OK },
    { { "a=2024-02-29/f", "a=2023-02-29/f" },
      "hive",
      NULL,
      { "a" },
      { "tdD" },
      "a=2023-02-29/f: partition column 'a': expected date32[day], found '2023-02-29'",
      HR_TYPE },
    { { "1/f" }, "dir", NULL, { "a", "b" }, { NULL }, "1/f: 1 folders for 2 partition columns", HR_INVALID },
    { { "f" }, "dir", NULL, { NULL }, { NULL }, "partitioning 'dir' needs the names of its columns", HR_INVALID },
    { { "f" }, "tree", NULL, { NULL }, { NULL }, "partitioning 'tree': expected 'hive' or 'dir'", HR_INVALID },
};

/* What callers from Python ask for beside. */
typedef struct how {
    bool text, others;
    int n_names; /* of which some are NULL; 0: up to the first NULL */
} how;

static const struct {
    listing listing;
    how how;
} more[] = {
    { { { "/d/x/1/f" }, "dir", "/d", { NULL, "n" }, { NULL }, "n: int64: 1", HR_OK }, { .n_names = 2 } },
    /* month=09 became the integer 9, where Ray's readers give '09' */
    { { { "m=09/f", "m=10/f" }, "hive", NULL, { NULL }, { NULL }, "m: string: 09 10", HR_OK }, { .text = true } },
    { { { "m=__HIVE_DEFAULT_PARTITION__/f" }, "hive", NULL, { NULL }, { NULL }, "m: string: null", HR_OK },
      { .text = true } },
    { { { "/d/09/f" }, "dir", "/d", { "m" }, { NULL }, "m: string: 09", HR_OK }, { .text = true } },
    { { { "a=1/m=09/f" }, "hive", NULL, { "m" }, { "l" }, "m: int64: 9", HR_OK }, { .text = true } },
    /* types for some keys took the others away */
    { { { "a=1/m=09/f" }, "hive", NULL, { "m" }, { "l" }, "a: string: 1; m: int64: 9", HR_OK },
      { .text = true, .others = true } },
    { { { "a=1/m=09/f" },
        "hive",
        NULL,
        { "n" },
        { "l" },
        "a=1/m=09/f: no folder has a partition column 'n', there are 'a', 'm'",
        HR_INVALID },
      { .others = true } },
    { { { "f" },
        "hive",
        NULL,
        { "n" },
        { "l" },
        "f: no folder has a partition column 'n', there are none",
        HR_INVALID },
      { .others = true } },
};

static int count(const char *const *texts, int most)
{
    int n = 0;

    while (n < most && texts[n])
        n++;
    return n;
}

static hr_status find(const listing *c, const how *how, hr_text *text, hr_error *err)
{
    hr_path items[4];
    hr_paths paths = { .items = items, .n = count(c->paths, 4) };
    hr_read_options o = { .struct_bytes = sizeof o, .partitioning = c->partitioning, .partition_base = c->base };
    hr_partitions found = { 0 };
    hr_status st;

    for (int i = 0; i < paths.n; i++)
        items[i] = (hr_path){ .path = (char *)(uintptr_t)c->paths[i], .n_bytes = 1 };
    o.partition_names = c->names;
    o.n_partition_names = how->n_names ? how->n_names : count(c->names, 3);
    o.partition_types = c->types[0] ? c->types : NULL;
    o.partition_text = how->text;
    o.partition_others = how->others;
    st = hr__partitions_find(&paths, &o, NULL, &found, err);
    for (int i = 0; text && i < found.n; i++) {
        hr__text_add(text, "%s%s: %s: ", i ? "; " : "", found.fields[i].name, type_text(found.fields[i].type));
        hr__text_add(text, "%s", values_text(found.values[i]));
    }
    hr__partitions_clear(&found);
    return st;
}

static void check(const listing *c, const how *how)
{
    hr_error err = HR_ERROR_INIT;
    hr_text text = { 0 };

    assert_status(find(c, how, &text, &err), c->st, &err);
    if (c->st)
        assert_string_equal(err.text, c->want);
    else
        assert_string_equal(text.data ? text.data : "", c->want);
    hr__text_clear(&text);
    hr_error_clear(&err);
}

static void all_cases(void **state)
{
    live_memory before = live_now();
    const how plain = { 0 };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++)
        check(&cases[i], &plain);
    for (int i = 0; i < HR_LEN(more); i++)
        check(&more[i].listing, &more[i].how);
    assert_no_leak(before);
}

static hr_status with_faults(hr_error *err)
{
    static const listing dates = {
        { "a=2024-02-29/f", "a=__HIVE_DEFAULT_PARTITION__/f" }, "hive", NULL, { "a" }, { "tdD" }, NULL, HR_OK
    };
    const how plain = { 0 };

    HR_TRY(find(&cases[0], &plain, NULL, err));
    HR_TRY(find(&more[5].listing, &more[5].how, NULL, err));
    return find(&dates, &plain, NULL, err);
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(with_faults, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_cases), cmocka_unit_test(faults) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
