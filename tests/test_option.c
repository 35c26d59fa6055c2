/* test_option.c - option tables: defaults, settings, ranges, messages, printing, copies of texts. */
#include "harness.h"

#include <locale.h>
#include <stdio.h>

typedef struct sample {
    bool header;
    char delimiter;
    int64_t rows, block_bytes;
    double ratio;
    char *column, *comment;
    int level;
} sample;

static const hr_option table[] = {
    { "header", HR_OPT_BOOL, offsetof(sample, header), 0, 0, 1, NULL, "names in the first line" },
    { "delimiter", HR_OPT_CHAR, offsetof(sample, delimiter), 0, 0, '\t', NULL, "byte between fields" },
    { "rows", HR_OPT_INT, offsetof(sample, rows), 1, 100, 10, NULL, "rows a batch" },
    { "block_bytes", HR_OPT_BYTES, offsetof(sample, block_bytes), 0, 0, 1 << 20, NULL, "bytes a task" },
    { "ratio", HR_OPT_DOUBLE, offsetof(sample, ratio), 0, 1, 0.5, NULL, "share" },
    { "column", HR_OPT_TEXT, offsetof(sample, column), 0, 0, 0, "text", "name of the column" },
    { "comment", HR_OPT_TEXT, offsetof(sample, comment), 0, 0, 0, NULL, "start of a comment" },
    { "level", HR_OPT_CHOICE, offsetof(sample, level), 0, 0, 1, "fast good best", "effort" },
    { 0 },
};

static void defaults(void **state)
{
    sample s;

    (void)state;
    memset(&s, 0xEE, sizeof s);
    hr__options_default(table, &s);
    assert_true(s.header);
    assert_int_equal(s.delimiter, '\t');
    assert_int_equal(s.rows, 10);
    assert_int_equal(s.block_bytes, 1 << 20);
    assert_true(s.ratio == 0.5);
    assert_string_equal(s.column, "text");
    assert_null(s.comment);
    assert_int_equal(s.level, 1);
    hr__options_clear(table, &s); /* nothing to free */
}

/* The field that `name` means, as a text. */
static void show(const sample *s, const char *name, char out[64])
{
    if (!strcmp(name, "header"))
        snprintf(out, 64, "%s", s->header ? "true" : "false");
    else if (!strcmp(name, "delimiter"))
        snprintf(out, 64, "%d", s->delimiter);
    else if (!strcmp(name, "rows"))
        snprintf(out, 64, "%lld", (long long)s->rows);
    else if (!strcmp(name, "block_bytes"))
        snprintf(out, 64, "%lld", (long long)s->block_bytes);
    else if (!strcmp(name, "ratio"))
        snprintf(out, 64, "%g", s->ratio);
    else if (!strcmp(name, "column"))
        snprintf(out, 64, "%s", s->column);
    else if (!strcmp(name, "comment"))
        snprintf(out, 64, "%s", s->comment);
    else
        snprintf(out, 64, "%d", s->level);
}

static const struct {
    const char *setting, *want; /* want: the value, or a part of the message */
    hr_status st;
} cases[] = {
    { "header=false", "false", HR_OK },
    { "header=1", "true", HR_OK },
    { "header=off", "false", HR_OK },
    { "header=maybe", "option 'header': expected true or false, found 'maybe'", HR_INVALID },
    { "header=", "found ''", HR_INVALID },
    { "delimiter=,", "44", HR_OK },
    { "delimiter==", "61", HR_OK },
    { "delimiter=\\t", "9", HR_OK },
    { "delimiter=\\\\", "92", HR_OK },
    { "delimiter=\\", "92", HR_OK },
    { "delimiter=\\0", "0", HR_OK },
    { "delimiter=", "0", HR_OK },
    { "delimiter=ab", "expected one byte, found 'ab'", HR_INVALID },
    { "delimiter=\\x", "expected one byte", HR_INVALID },
    { "rows=1", "1", HR_OK },
    { "rows=100", "100", HR_OK },
    { "rows=0", "expected a whole number from 1 to 100, found '0'", HR_INVALID },
    { "rows=101", "from 1 to 100", HR_INVALID },
    { "rows=5x", "found '5x'", HR_INVALID },
    { "rows=5.0", "found '5.0'", HR_INVALID },
    { "rows=99999999999999999999", "found", HR_INVALID },
    { "block_bytes=64KiB", "65536", HR_OK },
    { "block_bytes=1.5k", "1500", HR_OK },
    { "block_bytes=-1", "number of bytes", HR_INVALID },
    { "ratio=0.25", "0.25", HR_OK },
    { "ratio=1e-1", "0.1", HR_OK },
    { "ratio=0,25", "found '0,25'", HR_INVALID },
    { "ratio=2", "expected a number from 0 to 1", HR_INVALID },
    { "ratio=nan", "found 'nan'", HR_INVALID },
    { "ratio=inf", "found 'inf'", HR_INVALID },
    { "column=a=b", "a=b", HR_OK },
    { "column=", "", HR_OK },
    { "level=best", "2", HR_OK },
    { "level=fast", "0", HR_OK },
    { "level=goood", "found 'goood'; did you mean 'good'?", HR_INVALID },
    { "level=be", "option 'level': expected one of 'fast', 'good', 'best', found 'be'", HR_INVALID },
    { "level=", "found ''", HR_INVALID },
    { "lines=3", "no option 'lines'; there are: header, delimiter, rows", HR_INVALID },
    { "row=3", "no option 'row'", HR_INVALID },
    { "header", "expected name=value", HR_INVALID },
    { "=3", "no option ''", HR_INVALID },
};

static void settings(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        char name[32], got[64];
        sample s;
        hr__options_default(table, &s);
        hr_status st = hr__options_parse(table, &cases[i].setting, 1, &s, &err);
        snprintf(name, sizeof name, "%.*s", (int)strcspn(cases[i].setting, "="), cases[i].setting);
        assert_status(st, cases[i].st, &err);
        if (st == HR_OK) {
            show(&s, name, got);
            assert_string_equal(got, cases[i].want);
        } else {
            assert_contains(err.text, cases[i].want);
        }
        hr__options_clear(table, &s);
    }
    assert_no_leak(before);
}

static void wrong_values_change_nothing(void **state)
{
    hr_error err = HR_ERROR_INIT;
    sample s;

    (void)state;
    hr__options_default(table, &s);
    for (int i = 0; i < HR_LEN(cases); i++)
        if (cases[i].st)
            assert_status(hr__options_parse(table, &cases[i].setting, 1, &s, &err), HR_INVALID, &err);
    assert_true(s.header && s.delimiter == '\t' && s.rows == 10 && s.block_bytes == 1 << 20 && s.ratio == 0.5 &&
                s.level == 1 && !strcmp(s.column, "text"));
}

/* A format without options has no table. */
static void no_table(void **state)
{
    const char *setting = "rows=3";
    hr_error err = HR_ERROR_INIT;
    hr_text t = { 0 };

    (void)state;
    hr__options_default(NULL, NULL);
    assert_ok(hr__options_parse(NULL, NULL, 0, NULL, &err), &err);
    assert_status(hr__options_parse(NULL, &setting, 1, NULL, &err), HR_INVALID, &err);
    assert_string_equal(err.text, "no option 'rows'; there are: none");
    hr__options_print(NULL, &t);
    assert_null(t.data);
    hr__options_clear(NULL, NULL);
}

static hr_status many(hr_error *err)
{
    static const char *const list[] = { "column=one", "column=two", "rows=3", "comment=#", "rows=4" };
    hr_status st;
    sample s;

    hr__options_default(table, &s);
    st = hr__options_parse(table, list, HR_LEN(list), &s, err);
    if (!st) {
        assert_string_equal(s.column, "two"); /* the last one counts */
        assert_string_equal(s.comment, "#");
        assert_int_equal(s.rows, 4);
    }
    hr__options_clear(table, &s);
    assert_string_equal(s.column, "text");
    return st;
}

static void faults(void **state)
{
    (void)state;
    assert_int_equal(run_with_faults(many, HR_FAULT_MEMORY), 3);
}

static void printed(void **state)
{
    hr_text t = { 0 };

    (void)state;
    hr__options_print(table, &t);
    assert_string_equal(t.data, "header=true  names in the first line\n"
                                "delimiter=\\t  byte between fields\n"
                                "rows=10  rows a batch\n"
                                "block_bytes=1MiB  bytes a task\n"
                                "ratio=0.5  share\n"
                                "column=text  name of the column\n"
                                "comment=  start of a comment\n"
                                "level=good (of fast good best)  effort\n");
    hr__text_clear(&t);
}

/* Under a locale whose numbers have a comma, if the machine has one. */
static void locales(void **state)
{
    static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE" };
    bool found = false;

    for (int i = 0; i < HR_LEN(names) && !found; i++)
        found = setlocale(LC_NUMERIC, names[i]) != NULL;
    if (!found)
        skip();
    settings(state);
    printed(state);
    setlocale(LC_NUMERIC, "C");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults), cmocka_unit_test(settings), cmocka_unit_test(wrong_values_change_nothing),
        cmocka_unit_test(no_table), cmocka_unit_test(faults),   cmocka_unit_test(printed),
        cmocka_unit_test(locales),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
