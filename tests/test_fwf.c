/* test_fwf.c - text of fixed width: where columns stand, names, types, every split and table size, wrong input. */
#include "file_rows.h"

#include <stdio.h>
#include <stdlib.h>

#define GZIP_AB /* "ab  1\ncd 22\n" */                                                                                 \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\x4b\x4c\x52\x50\x30\xe4\x4a\x4e\x51\x30\x32\xe2\x02\x00\xf9"             \
    "\xcb\x8b\x88\x0c\x00\x00\x00"

static const struct {
    const char *data, *settings[5], *want; /* types, then rows; or the error's text */
} cases[] = {
    { "name   n\nAnna   1\nBert  22\n", { "widths=5,3" }, "name:string n:int64\nAnna|1\nBert|22\n" },
    { "name   n\r\nAnna   1\r\nBert  22", { "colspecs=0:5,5:" }, "name:string n:int64\nAnna|1\nBert|22\n" },
    { "aabbb\n1 2.5\n", { "widths=2,3" }, "aa:int64 bbb:double\n1|2.5\n" },
    /* overlapping columns, gaps, any order */
    { "2026-11-22x\n",
      { "colspecs=5:7,0:4,0:10", "header=none" },
      "f0:int64 f1:int64 f2:date32[day]\n11|2026|2026-11-22\n" },
    { "1 2\n3 4\n", { "widths=1,2", "names=a,b" }, "a:int64 b:int64\n1|2\n3|4\n" },
    { "a b\n3 4\n", { "widths=1,2", "names=x,y", "header=first" }, "x:int64 y:int64\n3|4\n" },
    { "about\n\na b\n3 4\n", { "widths=1,2", "skip_rows=1" }, "a:int64 b:int64\n3|4\n" },
    /* a line that ends early: null; a field of blanks: null, but for strings empty */
    { "12 ab\n34\n   cd\n", { "widths=3,2", "header=none" }, "f0:int64 f1:string\n12|ab\n34|~\n~|cd\n" },
    { "12 ab\n34   \n", { "widths=3,2", "header=none" }, "f0:int64 f1:string\n12|ab\n34|\n" },
    { "12 ab\n34   \n",
      { "widths=3,2", "header=none", "strings_can_be_null=true" },
      "f0:int64 f1:string\n12|ab\n34|~\n" },
    { "12ab and more\n34cd\n", { "widths=2,2", "header=none" }, "f0:int64 f1:string\n12|ab\n34|cd\n" },
    { "12\n\n \t \n34\n", { "widths=2", "header=none" }, "f0:int64\n12\n34\n" },
    { "12\n\n34\n", { "widths=2", "header=none", "ignore_empty_lines=false" }, "f0:int64\n12\n~\n34\n" },
    { "12\n\n34\n",
      { "widths=2", "header=none", "ignore_empty_lines=false", "dtypes=f0:string" },
      "f0:string\n12\n~\n34\n" },
    { "**7*..\n12*...\n", { "widths=4,2", "header=none", "fill=*." }, "f0:int64 f1:null\n7|~\n12|~\n" },
    /* characters, not bytes */
    { "\xC3\xA4\xC3\xB6 1\n\xE6\x97\xA5x\xF0\x9F\x98\x80"
      "2\n",
      { "widths=3,1", "header=none" },
      "f0:string f1:int64\n\xC3\xA4\xC3\xB6|1\n\xE6\x97\xA5x\xF0\x9F\x98\x80|2\n" },
    { "\xC3\xA4"
      "bc\n",
      { "colspecs=2:3,0:1,1:2", "header=none" },
      "f0:string f1:string f2:string\nc|\xC3\xA4|b\n" },
    { "\xE4 1\n", { "widths=1,2", "header=none", "encoding=latin-1" }, "f0:string f1:int64\n\xC3\xA4|1\n" },
    { "\xEF\xBB\xBF"
      "a\n1\n",
      { "widths=1" },
      "a:int64\n1\n" },
    { "a\nx\n", { "widths=1", "dtypes=a:large_string" }, "a:large_string\nx\n" },
    { "7,5\n", { "widths=3", "header=none", "decimal_point=," }, "f0:double\n7.5\n" },
    { "yes\nno \n", { "widths=3", "header=none", "true_values=yes", "false_values=no" }, "f0:bool\ntrue\nfalse\n" },
    { "a\n", { "widths=1" }, "a:null\n" },
    { "", { "widths=1", "names=a" }, "a:null\n" },
    /* errors */
    { "",
      { "widths=1" },
      "a.fwf: the file is empty, expected a line with the names of columns; names= or header=none reads it" },
    { "a b\n1 2\n1 x\n",
      { "colspecs=0:1,2:", "dtypes=b:int64" },
      "a.fwf: line 3, column 'b' (characters 2:): expected int64, found 'x'; dtypes= says how to read it" },
    { "a b\n1 2\n\n1 x\n",
      { "colspecs=0:1,2:3", "infer_bytes=5" },
      "a.fwf: line 4, column 'b' (characters 2:3): expected int64, found 'x'" },
    { "a\n1\n\xE4\n", { "widths=1", "dtypes=a:string" }, "a.fwf: line 3 is not UTF-8; encoding= names its encoding" },
    { "\xE4\n1\n", { "widths=1" }, "a.fwf: line 1 is not UTF-8" },
    { "1\n", { NULL }, "fwf: expected widths or colspecs, found neither" },
    { "1\n", { "widths=1", "colspecs=0:1" }, "fwf: expected widths or colspecs, found both" },
    { "1\n", { "widths=1,0" }, "fwf: widths: '0': expected a whole number of at least 1" },
    { "1\n", { "widths=1,99999999999" }, "fwf: widths: '99999999999': expected a whole number" },
    { "1\n", { "widths=1,x" }, "fwf: widths: 'x': expected a whole number" },
    { "1\n", { "colspecs=0:1,2" }, "fwf: colspecs: '2': expected begin:end with begin < end" },
    { "1\n", { "colspecs=3:3" }, "fwf: colspecs: '3:3': expected begin:end" },
    { "1\n", { "colspecs=0:1x" }, "fwf: colspecs: '0:1x': expected begin:end" },
    { "1\n", { "widths=1", "names=a,b" }, "fwf: 2 names for 1 columns" },
    { "a\n1\n", { "widths=1", "dtypes=b:int64" }, "a.fwf: dtypes: no column 'b'" },
    { "a\n1\n", { "widths=1", "dtypes=a" }, "fwf: dtypes: 'a': expected name:type" },
    { "a\n1\n", { "widths=1", "fill=\xC3\xA4" }, "fwf: fill: expected only ASCII characters" },
};

static void known_cases(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        for (int64_t max_bytes = 1; max_bytes < 1 << 20; max_bytes *= 1000) {
            hr_error err = HR_ERROR_INIT;
            file_rows got = { 0 };
            file_request q = { .format = &hr__format_fwf,
                               .data = cases[i].data,
                               .n = (int64_t)strlen(cases[i].data),
                               .max_bytes = max_bytes,
                               .schema = true,
                               .out = &got };
            hr_status st;

            memcpy(q.settings, cases[i].settings, sizeof cases[i].settings);
            st = file_read(&q, &err);
            if (!st)
                assert_string_equal(got.text, cases[i].want);
            else
                assert_contains(err.text, cases[i].want);
            hr_error_clear(&err);
            free(got.text);
        }
    }
    assert_no_leak(before);
}

static void zero_in_a_name(void **state)
{
    static const char data[] = "a\0b\n123\n";
    file_request q = { .format = &hr__format_fwf, .data = data, .n = sizeof data - 1, .settings = { "widths=3" } };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(file_read(&q, &err), HR_BAD_DATA);
    assert_contains(err.text, "a.fwf: line 1: the name of column 0 holds a zero byte");
    hr_error_clear(&err);
}

static void compressed(void **state)
{
    file_rows got = { 0 };
    file_request q = { .format = &hr__format_fwf,
                       .name = "a.fwf.gz",
                       .data = GZIP_AB,
                       .n = sizeof GZIP_AB - 1,
                       .settings = { "widths=2,3", "header=none" },
                       .out = &got };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    if (!hr__codec_gzip.stream)
        skip();
    assert_ok(file_read(&q, &err), &err);
    assert_string_equal(got.text, "ab|1\ncd|22\n");
    free(got.text);
}

/* Some columns, in another order; none at all counts rows. Row numbers do not depend on it. */
static void projections(void **state)
{
    static const char data[] = "a b c\n1 2 3\n4    \n    6\n  5\n";
    static const char *const names[] = { "c", "a" }, *const wrong[] = { "d" };
    static const struct {
        hr_projection projection;
        const char *want;
    } parts[] = { { { 2, names }, "3|1\n|4\n6|~\n~|~\n" },
                  { { 1, names }, "3\n\n6\n~\n" },
                  { { 0, names }, "\n\n\n\n" } };
    hr_projection missing = { 1, wrong };
    file_rows got = { 0 };
    file_request q = { .format = &hr__format_fwf, .data = data, .n = sizeof data - 1, .out = &got };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    q.settings[0] = "widths=2,2,1";
    q.settings[1] = "dtypes=c:string";
    for (int i = 0; i < HR_LEN(parts); i++) {
        got.n = got.n_rows = 0;
        q.projection = &parts[i].projection;
        assert_ok(file_read(&q, &err), &err);
        assert_int_equal(got.n_rows, 4);
        assert_string_equal(got.text, parts[i].want);
    }
    q.projection = &missing;
    assert_int_equal(file_read(&q, &err), HR_NOT_FOUND);
    assert_contains(err.text, "a.fwf: no column 'd'; there are: a, b, c");
    hr_error_clear(&err);
    free(got.text);
}

/* Every length of fragments: no line is lost or comes twice, in any order. */
static void all_splits(void **state)
{
    static const char data[] = "nn  s\n 1 aa\n\n12  b\r\n\n \n 3\n 4 \xC3\xA4\xC3\xB6\n5";
    static const char want[] = "1|aa\n12|b\n3|~\n4|\xC3\xA4\xC3\xB6\n5|~\n";
    char setting[40];

    (void)state;
    for (int size = 1; size < (int)sizeof data + 2; size++) {
        for (int backwards = 0; backwards < 2; backwards++) {
            hr_error err = HR_ERROR_INIT;
            file_rows got = { 0 };
            file_request q = { .format = &hr__format_fwf,
                               .data = data,
                               .n = sizeof data - 1,
                               .out = &got,
                               .settings = { "widths=2,5", setting },
                               .backwards = backwards };
            int64_t n = 0;

            snprintf(setting, sizeof setting, "fragment_bytes=%d", size);
            assert_ok(file_read(&q, &err), &err);
            assert_int_equal(got.n_rows, 5);
            if (!backwards)
                assert_string_equal(got.text, want);
            for (int64_t i = 0; i < got.n; i++)
                n += got.text[i] == '|';
            assert_int_equal(n, 5);
            free(got.text);
        }
    }
}

/* Row ranges: each row once, with its number. */
static void row_ranges(void **state)
{
    static const char data[] = "a\n1\n\n2\n3\n4\n\n5\n";

    (void)state;
    file_check_ranges(
        (file_request){
            .format = &hr__format_fwf, .data = data, .n = sizeof data - 1, .max_bytes = 1, .settings = { "widths=1" } },
        5);
}

/* Many tables, lines longer than a window, fragments of the usual size. */
static void large_files(void **state)
{
    int64_t n = 9 << 20, n_rows = 0, sum = 0, got = 0;
    char *data = malloc((size_t)n + 1);
    uint64_t random = 3;
    int64_t at = 0;
    file_rows r = { 0 };
    file_request q = { .format = &hr__format_fwf,
                       .settings = { "colspecs=2:8,0:2", "header=none", "default_type=int64" },
                       .data = data,
                       .out = &r };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    while (at < n - (3 << 20)) { /* "..123456" and a tail of any length */
        int64_t tail = random_below(&random, 1000) ? random_below(&random, 60) : random_below(&random, 2 << 20), value;

        value = random_below(&random, 1000000);
        at += snprintf(data + at, 9, "%2d%6d", (int)(n_rows % 100), (int)value);
        memset(data + at, 'x', (size_t)tail);
        at += tail;
        data[at++] = '\n';
        sum += value;
        n_rows++;
    }
    q.n = at;
    assert_ok(file_read(&q, &err), &err);
    assert_int_equal(r.n_rows, n_rows);
    for (char *p = r.text; *p; p = strchr(p, '\n') + 1)
        got += atoi(p);
    assert_int_equal(got, sum);
    free(r.text);
    free(data);
}

static void hostile(void **state)
{
    char *data = calloc(1, 65 << 20);
    char colspecs[9000] = "colspecs=0:";
    file_request q = {
        .format = &hr__format_fwf, .data = data, .n = 65 << 20, .settings = { colspecs, "header=none" }
    };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(file_read(&q, &err), HR_UNSUPPORTED); /* one line */
    assert_contains(err.text, "a.fwf: line 1 has more than 67108864 bytes");
    for (int i = 0; i < 2000; i++)
        strcat(colspecs, ",0:");
    memset(data, ' ', 1 << 20);
    data[(1 << 20) - 2] = 'x';
    data[(1 << 20) - 1] = '\n';
    q.n = 1 << 20;
    assert_int_equal(file_read(&q, &err), HR_UNSUPPORTED); /* a line that each of 2,001 columns holds */
    assert_contains(err.text, "a.fwf: line 1: 1048575 bytes in 2001 columns, more than 1073741824 bytes in all");
    hr_error_clear(&err);
    free(data);
}

static void with_faults(void **state)
{
    static const char data[] = "name  n\nAnna  1\n\nB\xC3\xA4rt 22\n";
    file_request q = { .format = &hr__format_fwf,
                       .data = data,
                       .n = sizeof data - 1,
                       .max_bytes = 1,
                       .settings = { "widths=5,2", "fragment_bytes=9" } };
    file_request z = { .format = &hr__format_fwf,
                       .name = "a.gz",
                       .data = GZIP_AB,
                       .n = sizeof GZIP_AB - 1,
                       .settings = { "widths=2,3", "header=none" } };

    (void)state;
    run_with_faults_on(file_read, &q, HR_FAULT_MEMORY | HR_FAULT_IO);
    if (hr__codec_gzip.stream)
        run_with_faults_on(file_read, &z, HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases), cmocka_unit_test(zero_in_a_name), cmocka_unit_test(compressed),
        cmocka_unit_test(projections), cmocka_unit_test(all_splits),     cmocka_unit_test(row_ranges),
        cmocka_unit_test(large_files), cmocka_unit_test(hostile),        cmocka_unit_test(with_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
