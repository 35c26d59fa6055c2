/* test_glob.c - lists of files: URLs, folders, patterns, order, and files left out. */
#include "harness.h"
#include "io/io.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64];

static const char *const files[] = {
    "a.txt",          "b.parquet",         "sub/c.parquet",      "sub/deep/d.parquet", "sub-2/e.parquet", "sub.x",
    "_SUCCESS",       ".hidden/f.parquet", "sub/_tmp/g.parquet", "z/[1].txt",          "z/1.txt",         "z/2.txt",
    "z/\xc3\xa4.txt", "many/p=1/x.pq",     "many/p=2/x.pq",      "many/p=2/y.PQ",      "many/q/x.pq",     "z/*.txt",
};

static int setup(void **state)
{
    (void)state;
    temp_dir_new(dir);
    for (int i = 0; i < HR_LEN(files); i++)
        temp_file(dir, files[i], "this is the content", i);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_free(dir);
    return 0;
}

/* The paths of a list without the folder, separated by blanks. */
static const char *list_text(const hr_paths *p)
{
    static char text[2000];

    text[0] = 0;
    for (int64_t i = 0; i < p->n; i++) {
        const char *s = p->items[i].path;

        if (strncmp(s, dir, strlen(dir)) == 0)
            s += strlen(dir) + 1;
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", s);
    }
    return text;
}

static const struct {
    const char *pattern, *want;
} patterns[] = {
    { "a.txt", "a.txt" },
    { "*.txt", "a.txt" },
    { "sub", "sub/c.parquet sub/deep/d.parquet" },
    { "sub/", "sub/c.parquet sub/deep/d.parquet" },
    { "s*", "sub-2/e.parquet sub.x sub/c.parquet sub/deep/d.parquet" },
    { "*/*.parquet", "sub-2/e.parquet sub/c.parquet" },
    { "**/*.parquet", "b.parquet sub-2/e.parquet sub/c.parquet sub/deep/d.parquet" },
    { "sub/**", "sub/c.parquet sub/deep/d.parquet" },
    { "**/deep/*", "sub/deep/d.parquet" },
    { "**/**/d.*", "sub/deep/d.parquet" },
    { "_*", "_SUCCESS" },
    { ".h*/*", ".hidden/f.parquet" },
    { "sub/_tmp", "sub/_tmp/g.parquet" },
    { "z/[12].txt", "z/1.txt z/2.txt" },
    { "z/[!2].txt", "z/*.txt z/1.txt z/\xc3\xa4.txt" },
    { "z/[0-1\xc3\xa0-\xc3\xa9].txt", "z/1.txt z/\xc3\xa4.txt" },
    { "z/?.txt", "z/*.txt z/1.txt z/2.txt z/\xc3\xa4.txt" },
    { "z/[1].txt", "z/[1].txt" }, /* exists: taken literally */
    { "z/*.txt", "z/*.txt" },     /* the same */
    { "z/[].txt", "" },
    { "z/[1.txt", "" },
    { "many/p=*", "many/p=1/x.pq many/p=2/x.pq many/p=2/y.PQ" },
    { "many/*/x.pq", "many/p=1/x.pq many/p=2/x.pq many/q/x.pq" },
    { "*/*/*/*/*", "" },
    { "a.txt/*", "" },
};

static void test_patterns(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(patterns); i++) {
        const hr_paths_options options = { .ignore_missing = true };
        hr_error err = HR_ERROR_INIT;
        char url[200];
        const char *one = url;
        hr_paths p;

        snprintf(url, sizeof url, "%s/%s", dir, patterns[i].pattern);
        assert_ok(hr__paths_list(&one, 1, &options, NULL, &p, &err), &err);
        assert_string_equal(list_text(&p), patterns[i].want);
        hr__paths_clear(&p);
    }
    assert_no_leak(before);
}

static void test_order(void **state)
{
    char a[100], b[100], c[100];
    const char *urls[] = { a, b, c };
    const char *suffixes[] = { ".pq" };
    hr_paths_options options = { .suffixes = suffixes, .n_suffixes = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_paths p;

    (void)state;
    snprintf(a, sizeof a, "file://%s/z/2.txt", dir);
    snprintf(b, sizeof b, "%s/many", dir);
    snprintf(c, sizeof c, "FILE://localhost%s/%%61.txt", dir);
    assert_ok(hr__paths_list(urls, 3, &options, NULL, &p, &err), &err);
    assert_string_equal(list_text(&p), "z/2.txt many/p=1/x.pq many/p=2/x.pq many/p=2/y.PQ many/q/x.pq a.txt");
    assert_int_equal(p.items[0].n_bytes, 11);
    hr__paths_clear(&p);
}

static void test_here(void **state)
{
    const char *urls[] = { "z/1.txt", "local://sub", "sub*/*.parquet", "." };
    hr_error err = HR_ERROR_INIT;
    char was[1000];
    hr_paths p;

    (void)state;
    assert_non_null(getcwd(was, sizeof was));
    assert_int_equal(chdir(dir), 0);
    assert_ok(hr__paths_list(urls, 3, NULL, NULL, &p, &err), &err);
    assert_string_equal(list_text(&p), "z/1.txt sub/c.parquet sub/deep/d.parquet sub-2/e.parquet sub/c.parquet");
    hr__paths_clear(&p);
    assert_ok(hr__paths_list(urls + 3, 1, NULL, NULL, &p, &err), &err);
    assert_int_equal(p.n, 15);
    assert_int_equal(chdir(was), 0);
    hr__paths_clear(&p);
}

static const struct {
    const char *url;
    hr_status st;
    const char *text;
} wrong[] = {
    { "ftp://me:hush@host/key", HR_UNSUPPORTED, "ftp://host/key: headrace does not read URLs of scheme 'ftp' yet" },
    { "gs+x://a", HR_UNSUPPORTED, "scheme 'gs+x'" },
    { "file://relative/path", HR_INVALID, "absolute path" },
    { "file:///a%00b", HR_INVALID, "a path cannot contain %00" }, /* was "/a" */
    { "", HR_INVALID, "a path is empty" },
    { "/nowhere/at/all", HR_NOT_FOUND, "/nowhere/at/all: no such file or folder" },
    { "/nowhere/*.txt", HR_NOT_FOUND, "/nowhere/*.txt: no file matches" },
};

static void test_wrong(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(wrong); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_paths p;

        assert_status(hr__paths_list(&wrong[i].url, 1, NULL, NULL, &p, &err), wrong[i].st, &err);
        assert_contains(err.text, wrong[i].text);
        assert_int_equal(p.n, 0);
    }
}

/* The name that is most like the first part that is not there, in its folder. */
static void test_near(void **state)
{
    static const char *const cases[][2] = {
        { "b.parqet", "b.parqet: no such file or folder; did you mean 'b.parquet'?" },
        { "sub/deap/d.parquet", "; did you mean 'deep'?" },
        { "mnay/p=1/x.pq", "; did you mean 'many'?" },
        { "sub/deep/d.parquet/", "d.parquet/: " },
        { "else", "else: no such file or folder" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        live_memory before = live_now();
        char path[300];
        const char *url = path;
        hr_paths p;

        snprintf(path, sizeof path, "%s/%s", dir, cases[i][0]);
        assert_int_not_equal(hr__paths_list(&url, 1, NULL, NULL, &p, &err), HR_OK);
        assert_contains(err.text, cases[i][1]);
        assert_true(strstr(cases[i][1], "mean") || !strstr(err.text, "did you mean"));
        hr_error_clear(&err);
        assert_no_leak(before);
    }
}

static void test_loop(void **state)
{
    hr_error err = HR_ERROR_INIT;
    char link[100], url[100];
    const char *one = url;
    hr_paths p;

    (void)state;
    snprintf(link, sizeof link, "%s/z/again", dir);
    snprintf(url, sizeof url, "%s/z", dir);
    assert_int_equal(symlink("../z", link), 0);
    assert_status(hr__paths_list(&one, 1, NULL, NULL, &p, &err), HR_INVALID, &err);
    assert_contains(err.text, "a link may lead back to a folder above it");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("nowhere", link), 0);
    assert_ok(hr__paths_list(&one, 1, NULL, NULL, &p, &err), &err); /* a link to nowhere is no file */
    assert_int_equal(p.n, 5);
    hr__paths_clear(&p);
    assert_int_equal(unlink(link), 0);
}

static hr_status list_some(void *context, hr_error *err)
{
    const char *const *urls = context;
    hr_paths p;

    HR_TRY(hr__paths_list(urls, 2, NULL, NULL, &p, err));
    hr__paths_clear(&p);
    return HR_OK;
}

static void test_faults(void **state)
{
    char a[100], b[100];
    const char *urls[] = { a, b };

    (void)state;
    snprintf(a, sizeof a, "%s/sub", dir);
    snprintf(b, sizeof b, "%s/**/many/**/[a-x]*.pq", dir);
    run_with_faults_on(list_some, urls, HR_FAULT_MEMORY | HR_FAULT_IO);
}

/* --- sources */

static void test_source(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *s = NULL;
    hr_stream *stream = NULL;
    char path[100], text[10] = "";
    int64_t n;

    (void)state;
    temp_file(dir, "digits", "0123456789", 10);
    snprintf(path, sizeof path, "%s/digits", dir);
    assert_ok(hr__source_open(path, NULL, &s, &err), &err);
    assert_int_equal(s->n_bytes, 10);
    assert_ok(hr__source_read(s, text, 3, 4, &err), &err);
    assert_string_equal(text, "3456");
    assert_status(hr__source_read(s, text, 8, 4, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "digits: the file ends at byte 10, expected 4 bytes at 8");
    assert_ok(hr__source_read_some(s, text, 8, 4, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_ok(hr__source_read_some(s, text, 80, 4, &n, &err), &err);
    assert_int_equal(n, 0);
    assert_int_equal(truncate(path, 12), 0);
    assert_ok(hr__source_read_some(s, text, 8, 4, &n, &err), &err);
    assert_int_equal(n, 2); /* what is appended is not seen */
    assert_int_equal(truncate(path, 9), 0);
    assert_status(hr__source_read_some(s, text, 8, 4, &n, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "digits: the file ends at byte 9, it had 10 bytes when it was opened");
    temp_file(dir, "digits", "0123456789", 10);
    hr__source_unref(s);
    assert_ok(hr__source_open(path, NULL, &s, &err), &err);
    assert_ok(hr__stream_new(s, NULL, &stream, &err), &err);
    hr__source_unref(s);
    assert_ok(hr__stream_read(stream, text, 6, &n, &err), &err);
    assert_int_equal(n, 6);
    assert_ok(hr__stream_read(stream, text, 6, &n, &err), &err);
    assert_int_equal(n, 4);
    assert_memory_equal(text, "6789", 4);
    hr__stream_close(stream);
    assert_status(hr__source_open(dir, NULL, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "expected a file, found a folder");
}

/* Ten times "**" lead to a folder of 24 names in two million ways, each of which listed folders. */
static void test_many_any(void **state)
{
    const hr_paths_options options = { .ignore_missing = true };
    hr_error err = HR_ERROR_INIT;
    hr_text file = { 0 }, url = { 0 };
    const char *one;
    hr_paths p;

    (void)state;
    hr__text_add(&file, "deep/");
    for (int i = 0; i < 24; i++)
        hr__text_add(&file, "a/");
    hr__text_add(&file, "x.txt");
    temp_file(dir, file.data, "x", 1);
    hr__text_add(&url, "%s/deep/", dir);
    for (int i = 0; i < 10; i++)
        hr__text_add(&url, "**/a/");
    hr__text_add(&url, "**/*.txt");
    one = url.data;
    assert_ok(hr__paths_list(&one, 1, &options, NULL, &p, &err), &err);
    assert_string_equal(list_text(&p), file.data);
    hr__paths_clear(&p);
    hr__text_clear(&file);
    hr__text_clear(&url);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns), cmocka_unit_test(test_order),  cmocka_unit_test(test_here),
        cmocka_unit_test(test_wrong),    cmocka_unit_test(test_near),   cmocka_unit_test(test_loop),
        cmocka_unit_test(test_faults),   cmocka_unit_test(test_source), cmocka_unit_test(test_many_any),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
