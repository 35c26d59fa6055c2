/* test_csv.c - CSV files: rows and types, splits at every byte, each kernel, options, errors and their places. */
#include "file_rows.h"
#include "format/csv/csv.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------------------------------------------------ cases */

static const struct {
    const char *data, *setting, *want; /* types, then rows; or the error's text */
} cases[] = {
    { "a,b\n1,x\n2,y\n", NULL, "a:int64 b:string\n1|x\n2|y\n" },
    { "a,b\r\n1,x\r\n2,y", NULL, "a:int64 b:string\n1|x\n2|y\n" },
    { "a\r1\r2\r", NULL, "a:int64\n1\n2\n" },
    { "a,b\n-1,2\n5,-1\n", "null_values=-1",
      "a:int64 b:int64\n~|2\n5|~\n" }, /* text that looks like a number is no number */
    { "a,b\n0.50,1\n1,0\n", "null_values=0,0.50", "a:int64 b:int64\n~|1\n1|~\n" },
    { "a\n2020-01-01\n9999-12-31\n", "null_values=9999-12-31", "a:date32[day]\n2020-01-01\n~\n" },
    { "a,b\n1.51,2\n121,3.5\n", "quote=1", "a:double b:double\n0.5|2.0\n2.0|3.5\n" },
    { "a,b\n1;5,2\n12,3\n", "decimal_point=;", "a:double b:int64\n1.5|2\n12.0|3\n" },
    { "\xEF\xBB\xBF"
      "a\n1\n",
      NULL, "a:int64\n1\n" },
    { "a,b\n", NULL, "a:null b:null\n" },
    /* pyarrow refuses these two as well; a cut file had no rows, or its last rows as one text */
    { "a,b", NULL, "a.csv: byte 3: the file ends within its first row, the names of columns: expected a newline" },
    { "a,b\n1,2\n3,\"x\n4,y\n", NULL, "a.csv: line 3: a quote that this row opens is not closed before the file ends" },
    { "a,b\n1,2\n3,\"x\"\"", NULL, "a.csv: line 3: a quote that this row opens is not closed" },
    { "a,b\n1,2\n3,\"x\n4,y\n", "quote=", "a:int64 b:string\n1|2\n3|\"x\n4|y\n" },
    { "a,b\n1,2\n3,\"x\"", NULL, "a:int64 b:string\n1|2\n3|x\n" },
    { "a\n\"x\\\"", "escape=\\\\", "a.csv: line 2: a quote that this row opens is not closed" },
    { "a\n\n1\n\r\n\n2\n", NULL, "a:int64\n1\n2\n" },
    { "a\n\n1\n", "ignore_empty_lines=false", "a:int64\n~\n1\n" },
    { "a,b\n\n1,2\r\n", "ignore_empty_lines=false", "a:int64 b:int64\n~|~\n1|2\n" },
    { "a\n\"x\ny\"\n", NULL, "a:string\nx\ny\n" },
    { "a,b\n\"\",1\n,2\n", NULL, "a:null b:int64\n~|1\n~|2\n" },
    { "a,b\n\"\",1\nx,2\n", NULL, "a:string b:int64\n|1\nx|2\n" },
    { "a,b\n\"\",1\nx,2\n", "strings_can_be_null=true", "a:string b:int64\n~|1\nx|2\n" },
    { "a\n\"x\"\"y\"\nx\"y\"z\n\"x\"y\n \"x\"\n", NULL, "a:string\nx\"y\nx\"y\"z\nxy\n \"x\"\n" },
    { "\"a\"\"b\",\"c\nd\"\n1,2\n", NULL, "a\"b:int64 c\nd:int64\n1|2\n" },
    { "a\n1\n1.5\n", NULL, "a:double\n1.0\n1.5\n" },
    { "a\n1\nx\n", NULL, "a:string\n1\nx\n" },
    { "a\n1\ntrue\n", NULL, "a:bool\ntrue\ntrue\n" },
    { "a\n0x1F\n 7 \n", NULL, "a:int64\n31\n7\n" },
    { "a\n+1\nnan(1)\n", NULL, "a:double\n1.0\nnan\n" },
    { "a\nNA\n1\n", NULL, "a:int64\n~\n1\n" },
    { "a\n2020-01-01\n 2020-02-29 \n", NULL, "a:date32[day]\n2020-01-01\n2020-02-29\n" },
    { "a\n10:00\n23:59:59\n", NULL, "a:time32[s]\n10:00:00\n23:59:59\n" },
    { "a\n2020-01-01 10:00\n2020-01-02\n", NULL, "a:timestamp[s]\n2020-01-01T10:00:00\n2020-01-02T00:00:00\n" },
    { "a\n\xff\n", NULL, "a:binary\n\xff\n" },
    { "a\n\xff\n", "default_type=string", "a.csv: line 2, column 'a': expected string, found text that is not UTF-8" },
    { "a;b\n1,5;2\n", "delimiter=;", "a:string b:int64\n1,5|2\n" },
    { "a\n1,5\n", "delimiter=;", "a:string\n1,5\n" },
    { "a,b\n1,2\n", "header=none", "f0:string f1:string\na|b\n1|2\n" },
    { "a,b\n1,2\n", "names=x,y", "x:string y:string\na|b\n1|2\n" },
    { "a,b\n1,2\n3,4\n", "skip_rows=1", "1:int64 2:int64\n3|4\n" },
    { "a,b\n1,2\n3,4\n", "skip_rows_after_names=1", "a:int64 b:int64\n3|4\n" },
    { "a,b\n1,2\n", "dtypes=a:double,b:string", "a:double b:string\n1.0|2\n" },
    { "a,b\n1,2\n", "dtypes=c:double", "a.csv: dtypes: no column 'c'" },
    { "a\n300\n", "dtypes=a:int8", "a.csv: line 2, column 'a': expected int8, found '300'" },
    { "a\n-1\n", "dtypes=a:uint64", "a.csv: line 2, column 'a': expected uint64, found '-1'" },
    { "a\n1\n", "dtypes=a:list", "no type 'list'" },
    { "a\nx\\,y\n\"x\\\"y\"\n\\\"z\n", "escape=\\\\", "a:string\nx,y\nx\"y\n\"z\n" },
    { "a\n\"x\"\"y\"\n", "double_quote=false", "a:string\nx\"y\"\n" },
    { "a,b\n\"x\",y\n", "quote=", "a:string b:string\n\"x\"|y\n" },
    { "#x\na\n#,\"\n1\n", "comment=#", "a:int64\n1\n" },
    { "a,b\n1,2\n3\n", NULL, "a.csv: line 3: expected 2 fields, found 1" },
    { "a,b\n1,2\n3,4,5\n", NULL, "a.csv: line 3: expected 2 fields, found 3" },
    { "a,b\n1,2\n3\n", "ragged=pad", "a:int64 b:int64\n1|2\n3|~\n" },
    { "a,b\n1,2\n3,4,5\n", "ragged=truncate", "a:int64 b:int64\n1|2\n3|4\n" },
    { "a,b\n1\n3,4,5\n", "ragged=fit", "a:int64 b:int64\n1|~\n3|4\n" },
    { "a,b\n1\n3,4,5\n5,6\n", "ragged=skip", "a:int64 b:int64\n5|6\n" },
    { "a,b\n1\n3,4,5\n", "ragged=pad", "a.csv: line 3: expected 2 fields, found 3" },
    { "", NULL, "a.csv: the file is empty, expected a row with the names of columns" },
    { "\n\n", NULL, "a.csv: the file is empty, expected a row with the names of columns" },
    { "\xff\n1\n", NULL, "a.csv: byte 0: a column's name is not UTF-8" },
    { "\xff\xfe", NULL, "a.csv: begins like UTF-16" },
    { "a\n\xe4\n", "encoding=latin1", "a:string\n\xc3\xa4\n" },
    { "a\n1\n", "encoding=no such", "a.csv: this system's iconv does not know the encoding 'no such'" },
    { "a\nxxxxxxxxx\n", "max_line_bytes=4", "a:string\nxxxxxxxxx\n" },
    { "a\n1\n", "delimiter=\"", "cannot be two of" },
    { "a\n1\n", "delimiter=\n", "a newline cannot be" },
};

static void known_cases(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        file_rows r = { 0 };
        file_request q = { .format = &hr__format_csv,
                           .data = cases[i].data,
                           .n = (int64_t)strlen(cases[i].data),
                           .settings = { cases[i].setting },
                           .schema = true,
                           .out = &r };
        hr_status st = file_read(&q, &err);
        const char *got = st ? err.text : r.text ? r.text : "";

        if (st ? strstr(got, cases[i].want) == NULL : strcmp(got, cases[i].want) != 0) {
            print_message("case %d: '%s' with %s\n  got  %s\n  want %s\n", i, cases[i].data,
                          cases[i].setting ? cases[i].setting : "-", got, cases[i].want);
            assert_string_equal(got, cases[i].want);
        }
        hr_error_clear(&err);
        free(r.text);
        assert_no_leak(before);
    }
}

/* ------------------------------------------------------------------------------- the same rows, however it is split */

/* Rows by a reader written another way: byte by byte, for a file of strings without a header. */
static void read_slowly(const char *s, int64_t n, file_rows *out)
{
    int64_t row = out->n;
    bool quoted = false, literal = false, first = true;
    int64_t i = 0;

    while (i < n) {
        char c = s[i];

        if (quoted) {
            if (c == '"' && i + 1 < n && s[i + 1] == '"') {
                file_rows_add(out, "\"", 1);
                i += 2;
                continue;
            }
            if (c == '"') {
                quoted = false;
                literal = true;
            } else {
                file_rows_add(out, &c, 1);
            }
        } else if (c == '"' && !literal) {
            quoted = true;
            first = false;
        } else if (c == ',') {
            file_rows_add(out, "|", 1);
            literal = first = false;
        } else if (c == '\n' || c == '\r') {
            if (out->n > row || !first)
                file_rows_add(out, "\n", 1);
            i += c == '\r' && i + 1 < n && s[i + 1] == '\n';
            row = out->n;
            literal = false;
            first = true;
        } else {
            file_rows_add(out, &c, 1);
            literal = true;
            first = false;
        }
        i++;
    }
    if (out->n > row || !first)
        file_rows_add(out, "\n", 1);
}

/* Rows of two fields, some with quotes that hold anything, some with stray ones. */
static int64_t random_rows(uint64_t *seed, char *out, int64_t cap)
{
    static const char *const fields[] = { "",
                                          "a",
                                          "bcd",
                                          "\"q\"",
                                          "\"x,y\"",
                                          "\"1\n2\"",
                                          "s\"t",
                                          "\"\"\"\"",
                                          "\"a\"\"b\"",
                                          "\"\"",
                                          "\"\r\n,\"\"\n\"",
                                          "\"u\"v",
                                          "long text that fills some more bytes than others" };
    static const char *const ends[] = { "\n", "\r\n", "\r", "\n\n" };
    int64_t n = 0;

    while (n < cap - 200) {
        for (int k = 0; k < 2; k++) {
            const char *f = fields[random_below(seed, HR_LEN(fields))];

            if (k == 0 && !*f)
                f = "z"; /* so that no row is an empty line */
            n += snprintf(out + n, (size_t)(cap - n), "%s%s", k ? "," : "", f);
        }
        n += snprintf(out + n, (size_t)(cap - n), "%s", ends[random_below(seed, HR_LEN(ends))]);
    }
    return n;
}

static void all_splits(void **state)
{
    uint64_t seed = 11;
    char data[1200], fragment[40];

    (void)state;
    for (int round = 0; round < (SANITIZED ? 10 : 60); round++) {
        int64_t n = random_rows(&seed, data, round % 3 ? 400 : sizeof data);
        file_rows want = { 0 };

        read_slowly(data, n, &want);
        for (int each = 1; each < n + 2; each += each < 100 ? 1 : 37) {
            for (int blocks = 0; blocks < 2; blocks++) { /* fragments as a whole, and block by block */
                file_rows got = { 0 };
                hr_error err = HR_ERROR_INIT;
                file_request q = { .format = &hr__format_csv, .data = data, .n = n, .out = &got, .max_bytes = 1 };

                snprintf(fragment, sizeof fragment, "fragment_bytes=%d", each);
                q.settings[0] = fragment;
                q.settings[1] = "header=none";
                q.settings[2] = "default_type=string";
                q.settings[3] = blocks ? "ragged=fit" : NULL; /* none is */
                assert_ok(file_read(&q, &err), &err);
                if (strcmp(got.text, want.text) != 0)
                    fail_msg("round %d, fragments of %d bytes:\n%s\ngot\n%s\nwant\n%s", round, each, data, got.text,
                             want.text);
                free(got.text);
            }
        }
        free(want.text);
    }
}

/* Fragments of many tables: not a row between two of them is lost or doubled. */
static void many_tables(void **state)
{
    static const char *const sizes[] = { "fragment_bytes=25000", "fragment_bytes=4096", "fragment_bytes=70000" };
    static char data[60000];
    uint64_t seed = 14;
    int64_t n = random_rows(&seed, data, sizeof data);
    file_rows want = { 0 };

    (void)state;
    read_slowly(data, n, &want);
    for (int i = 0; i < HR_LEN(sizes) * 3; i++) {
        file_rows got = { 0 };
        hr_error err = HR_ERROR_INIT;
        file_request q = {
            .format = &hr__format_csv, .data = data, .n = n, .out = &got, .max_bytes = 1 + i / HR_LEN(sizes) * 7000
        };

        q.settings[0] = sizes[i % HR_LEN(sizes)];
        q.settings[1] = "header=none";
        q.settings[2] = "default_type=string";
        assert_ok(file_read(&q, &err), &err);
        assert_int_equal(got.n, want.n);
        assert_memory_equal(got.text, want.text, (size_t)want.n);
        free(got.text);
    }
    free(want.text);
}

/* Rows of one field, two of which look like one of two, before a row that makes the sum right in another fragment. */
static void ragged_pairs(void **state)
{
    static const char data[] = "a,b\n1\n2\n3,4,5,6\n";
    file_request q = { .format = &hr__format_csv,
                       .data = data,
                       .n = sizeof data - 1,
                       .settings = { "fragment_bytes=8", "default_type=string" } };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(file_read(&q, &err), HR_BAD_DATA);
    assert_string_equal(err.text, "a.csv: line 2: expected 2 fields, found 1: '1'; "
                                  "ragged= ('skip', 'truncate', ...) says what to do with it");
}

/* Fragments read in any order give the same rows: those of the last first. */
static void any_order(void **state)
{
    uint64_t seed = 12;
    char data[2000];
    file_rows rows[2] = { { 0 }, { 0 } };
    hr_error err = HR_ERROR_INIT;
    int64_t n = random_rows(&seed, data, sizeof data);

    (void)state;
    for (int backwards = 0; backwards < 2; backwards++) {
        file_request q = { .format = &hr__format_csv,
                           .data = data,
                           .n = n,
                           .out = &rows[backwards],
                           .backwards = backwards,
                           .settings = { "fragment_bytes=50", "header=none", "default_type=string" } };

        assert_ok(file_read(&q, &err), &err);
    }
    assert_int_equal(rows[0].n, rows[1].n);
    assert_string_not_equal(rows[0].text, rows[1].text);
    free(rows[0].text);
    free(rows[1].text);
}

/* Each kernel gives what the automaton gives, from each state, at each length. */
static void kernels(void **state)
{
    static const unsigned cpus[] = { 0, HR_CPU_AVX2 | HR_CPU_PCLMUL | HR_CPU_BMI2 | HR_CPU_SSE42, ~0u };
    static const char letters[] = "a,\"\n\rb\"\",x";
    csv_dialect plain = { .delimiter = ',', .quote = '"', .double_quote = true, .plain = true }, walking = plain;
    uint64_t seed = 13;
    uint8_t data[300 + HR_SLACK];
    uint32_t want[400], got[400], lines[2][400];

    (void)state;
    walking.plain = false;
    for (int round = 0; round < (SANITIZED ? 20000 : 200000); round++) {
        int64_t n = random_below(&seed, 260);
        int n_letters = (int)random_below(&seed, 9) + 2;
        csv_state begin = (csv_state)random_below(&seed, 4), s[2];
        csv_ends ends[2];
        unsigned cpu = cpus[round % 3] & (hr__cpu_features() | (round % 3 ? 0 : 0));

        for (int64_t i = 0; i < n + HR_SLACK; i++)
            data[i] = (uint8_t)(random_below(&seed, 4) && round % 2 ? 'k' : letters[random_below(&seed, n_letters)]);
        for (int k = 0; k < 2; k++) {
            s[k] = begin;
            ends[k] = (csv_ends){ .items = k ? got : want, .newlines = lines[k] };
            hr__csv_index_by(cpu, k ? &plain : &walking, data, n, &s[k], &ends[k]);
            s[k] = s[k] == CSV_ROW ? CSV_BEGIN : s[k];
        }
        if (ends[0].n != ends[1].n || ends[0].n_newlines != ends[1].n_newlines ||
            memcmp(want, got, (size_t)ends[0].n * 4) != 0 || s[0] != s[1] ||
            memcmp(lines[0], lines[1], (size_t)ends[0].n_newlines * 4) != 0)
            fail_msg("round %d, cpu %x, from %d: %.*s: %d ends, %d; %d newlines, %d; state %d, %d", round, cpu, begin,
                     (int)n, (char *)data, (int)ends[0].n, (int)ends[1].n, (int)ends[0].n_newlines,
                     (int)ends[1].n_newlines, s[0], s[1]);
    }
}

/* Row ranges of fragments: each row once, with its number. */
static void row_ranges(void **state)
{
    static const char data[] = "a,b\n1,x\n2,y\n3,\"z\n\"\n4,w\n5,v\n";

    (void)state;
    file_check_ranges((file_request){ .format = &hr__format_csv, .data = data, .n = sizeof data - 1, .max_bytes = 1 },
                      5);
}

static void with_faults(void **state)
{
    static const char data[] = "a,b,c\n1,\"x\"\"y\",\n2,y,1.5\n,\"z\n\",2\n4,w,3\n";
    file_request q = { .format = &hr__format_csv,
                       .data = data,
                       .n = sizeof data - 1,
                       .settings = { "fragment_bytes=9", "dtypes=a:int32", "null_values=NA,,x" } };

    (void)state;
    run_with_faults_on(file_read, &q, HR_FAULT_MEMORY | HR_FAULT_IO);
    q.settings[0] = "ragged=fit";
    q.settings[1] = "encoding=latin1";
    run_with_faults_on(file_read, &q, HR_FAULT_MEMORY | HR_FAULT_IO);
}

/* Where an error is: line, column, byte, in a later fragment as well. */
static void places(void **state)
{
    hr_error err = HR_ERROR_INIT;
    char data[20000];
    int n = snprintf(data, sizeof data, "id,x\r\n");
    file_request q = { .format = &hr__format_csv,
                       .data = data,
                       .settings = { "infer_bytes=100", "fragment_bytes=1000" } };

    (void)state;
    for (int i = 0; i < 1000; i++)
        n += snprintf(data + n, sizeof data - (size_t)n, "%d,\"%d\"\r\n", i, i);
    n += snprintf(data + n, sizeof data - (size_t)n, "1000,seven\r\n");
    q.n = n;
    assert_status(file_read(&q, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "a.csv: line 1002, column 'x': expected int64, found 'seven' (byte ");
    hr_error_clear(&err);
    q.settings[2] = "dtypes=x:string";
    assert_ok(file_read(&q, &err), &err);
    memset(data + 9000, '"', 1); /* a quote that is never closed, and does not stand where one opens: text */
    assert_ok(file_read(&q, &err), &err);
}

/* A row of any length is read, up to the limit. */
static void long_rows(void **state)
{
    static char data[3 << 20];
    hr_error err = HR_ERROR_INIT;
    file_request q = { .format = &hr__format_csv,
                       .data = data,
                       .n = sizeof data,
                       .settings = { "fragment_bytes=100000", "dtypes=a:string" } };

    (void)state;
    memset(data, 'x', sizeof data);
    memcpy(data, "a\n1\n\"", 5);
    memcpy(data + sizeof data - 5, "\"\n2\n", 4);
    for (size_t i = 100; i < sizeof data - 100; i += 1000)
        data[i] = '\n';
    assert_ok(file_read(&q, &err), &err);
    q.settings[2] = "max_line_bytes=100000";
    assert_status(file_read(&q, &err), HR_UNSUPPORTED, &err);
    assert_contains(err.text, "a.csv: line 3: a row of more than max_line_bytes, 100000; is a quote missing?");
    hr_error_clear(&err);
}

/* The story: the index of the first 4 MiB had room for eight times their bytes, under any memory limit. */
static void types_take_little_memory(void **state)
{
    static char data[5 << 20];
    hr_account *account = hr__account_new("csv", NULL, 1 << 30);
    csv_options *options = hr__zalloc(NULL, sizeof *options);
    hr_source *source = NULL;
    hr_scan_file *file = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_non_null(account);
    assert_non_null(options);
    hr__options_default(hr__format_csv.options, options);
    for (size_t i = 0; i + 32 < sizeof data; i += 32)
        memcpy(data + i, "1234567,1.25,some words of text\n", 32);
    memset(data + sizeof data - 32, '\n', 32);
    options->header = CSV_HEADER_NONE;
    assert_ok(hr__source_new_memory("a.csv", data, sizeof data, NULL, &source, &err), &err);
    assert_ok(hr__format_csv.open(source, &(hr_open){ .options = options, .account = account }, &file, &err), &err);
    assert_int_equal(file->schema->n, 3);
    assert_in_range(hr__account_peak(account), 4 << 20, 10 << 20);
    hr__scan_file_unref(file);
    hr__source_unref(source);
    hr__options_clear(hr__format_csv.options, options);
    hr__free(options);
    hr__account_unref(account);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_cases),
        cmocka_unit_test(kernels),
        cmocka_unit_test(all_splits),
        cmocka_unit_test(many_tables),
        cmocka_unit_test(ragged_pairs),
        cmocka_unit_test(any_order),
        cmocka_unit_test(row_ranges),
        cmocka_unit_test(with_faults),
        cmocka_unit_test(places),
        cmocka_unit_test(long_rows),
        cmocka_unit_test(types_take_little_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
