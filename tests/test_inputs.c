/* test_inputs.c - files in positions: moved, touched, rewritten, many; tables in memory; changed texts. */
#include "harness.h"

#include "exec/run.h"
#include "feed/feed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static int setup(void **state)
{
    (void)state;
    temp_dir_new(dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    temp_dir_free(dir);
    return 0;
}

/* Lines "<first>\n", "<first + 1>\n", ..., all of the same length. */
static void lines(const char *name, int first, int n)
{
    char *text = malloc((size_t)n * 8 + 1);

    for (int i = 0; i < n; i++)
        snprintf(text + i * 8, 9, "%07d\n", first + i);
    temp_file(dir, name, text, (int64_t)n * 8);
    free(text);
}

static void set_time(const char *name, int64_t s, int64_t ns)
{
    struct timespec at[2] = { { s, ns }, { s, ns } };
    char path[300];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(utimensat(AT_FDCWD, path, at, 0), 0);
}

static hr_plan *plan_of(const char *name)
{
    hr_error err = HR_ERROR_INIT;
    char path[300];
    const char *urls[] = { path };
    hr_plan *p = NULL;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    assert_ok(hr_plan_read(urls, 1, "text", NULL, &p, &err), &err);
    return p;
}

static char *position_of(hr_plan *p)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 10 };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    char *at = NULL;

    assert_ok(hr_feed_open(p, &o, &f, &err), &err);
    assert_ok(hr_feed_next(f, &t, &err), &err);
    hr_table_unref(t);
    assert_ok(hr_feed_position(f, &at, &err), &err);
    assert_true(strlen(at) <= 4096);
    hr_feed_close(f);
    return at;
}

static hr_status load(const char *name, const char *at, bool moved, hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 10, .position = at, .moved = moved };
    hr_plan *p = plan_of(name);
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = hr_feed_open(p, &o, &f, err);

    if (!st)
        assert_ok(hr_feed_next(f, &t, err), err);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    return st;
}

/* A file that was written anew with other values, of the same size: found by its time and then its contents; and where
 * somebody set the time back, by its contents alone. `touch` changes nothing. */
static void test_rewritten(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p;
    char *at;

    (void)state;
    for (int i = 0; i < 40; i++) {
        char name[40];

        snprintf(name, sizeof name, "r/%02d.txt", i);
        lines(name, i * 100, 100);
        set_time(name, 1000, 0);
    }
    p = plan_of("r");
    at = position_of(p);
    assert_ok(load("r", at, false, &err), &err);
    for (int i = 0; i < 40; i++) {
        char name[40];

        snprintf(name, sizeof name, "r/%02d.txt", i);
        set_time(name, 2000 + i, 5);
    }
    assert_ok(load("r", at, false, &err), &err);
    for (int same_time = 0; same_time < 2; same_time++) {
        lines("r/33.txt", 5, 100);
        set_time("r/33.txt", same_time ? 1000 : 3000, 0);
        for (int moved = 0; moved < 2; moved++) {
            assert_status(load("r", at, moved, &err), HR_MISMATCH, &err);
            assert_contains(err.text, "other contents than when the position was saved");
            assert_contains(err.text, "r/33.txt");
        }
    }
    lines("r/33.txt", 3300, 100);
    assert_ok(load("r", at, false, &err), &err);
    lines("r/33.txt", 3300, 101);
    assert_status(load("r", at, false, &err), HR_MISMATCH, &err);
    lines("r/99.txt", 3300, 101);
    assert_status(load("r", at, false, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "saved with 40 files to read, this plan has 41");
    hr_error_clear(&err);
    hr_string_free(at);
    hr_plan_unref(p);
}

/* Another folder, link or way to write it is the same; other names below it are only with `moved`. */
static void test_moved(void **state)
{
    hr_error err = HR_ERROR_INIT;
    char from[200], to[200];
    hr_plan *p;
    char *at;

    (void)state;
    lines("m/x/a.txt", 0, 100);
    lines("m/y/b.txt", 100, 100);
    lines("elsewhere/deep/x/a.txt", 0, 100);
    lines("elsewhere/deep/y/b.txt", 100, 100);
    lines("renamed/x/a.txt", 0, 100);
    lines("renamed/z/b.txt", 100, 100);
    p = plan_of("m");
    at = position_of(p);
    snprintf(from, sizeof from, "%s/m", dir);
    snprintf(to, sizeof to, "%s/link", dir);
    assert_int_equal(symlink(from, to), 0);
    assert_ok(load("elsewhere/deep", at, false, &err), &err);
    assert_ok(load("elsewhere/deep/*/*.txt", at, false, &err), &err);
    assert_ok(load("link", at, false, &err), &err);
    assert_ok(load("elsewhere/../m/", at, false, &err), &err);
    assert_status(load("renamed", at, false, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "other names");
    assert_contains(err.text, "moved=True");
    hr_error_clear(&err);
    assert_ok(load("renamed", at, true, &err), &err);
    lines("renamed/z/b.txt", 101, 100);
    assert_status(load("renamed", at, true, &err), HR_MISMATCH, &err);
    hr_error_clear(&err);
    hr_string_free(at);
    hr_plan_unref(p);
}

/* A file that changes after it was listed has no hash: its time decides, or `moved`. */
static void test_changed_after_listing(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p;
    char *at;

    (void)state;
    lines("c/a.txt", 0, 100);
    set_time("c/a.txt", 1000, 0);
    p = plan_of("c");
    set_time("c/a.txt", 2000, 0);
    at = position_of(p);
    assert_status(load("c", at, false, &err), HR_MISMATCH, &err);
    assert_contains(err.text, "c/a.txt has another size or time");
    assert_contains(err.text, "moved=True");
    hr_error_clear(&err);
    assert_ok(load("c", at, true, &err), &err);
    set_time("c/a.txt", 1000, 0);
    assert_ok(load("c", at, false, &err), &err);
    hr_string_free(at);
    hr_plan_unref(p);
}

/* Blocks are from the first byte to the last: of a small file all of it. */
static void test_blocks(void **state)
{
    static const int sizes[] = { 0, 1, 100, 4096, 16384, 16385, 524288, 524289, 700001 };
    uint64_t before = 0, after;

    (void)state;
    for (int i = 0; i < HR_LEN(sizes); i++) {
        uint8_t *bytes = calloc((size_t)sizes[i] + 1, 1);

        temp_file(dir, "b/a.txt", bytes, sizes[i]);
        for (int k = -1; k < 2 && sizes[i] > 0; k++) { /* as it is, its first byte, its last */
            hr_error err = HR_ERROR_INIT;
            const char *urls[1];
            char path[100];
            hr_scan *s = NULL;

            snprintf(path, sizeof path, "%s/b/a.txt", dir);
            urls[0] = path;
            if (k >= 0)
                bytes[k ? sizes[i] - 1 : 0] ^= 1;
            temp_file(dir, "b/a.txt", bytes, sizes[i]);
            assert_ok(hr__scan_new_files(urls, 1, "text", NULL, NULL, &s, &err), &err);
            assert_ok(hr__scan_input_hashes(s, 0, 1, &after, &err), &err);
            assert_true(after != 0);
            assert_true(k < 0 || sizes[i] == 0 || after != before);
            before = after;
            hr__scan_unref(s);
        }
        free(bytes);
    }
}

/* ------------------------------------------------------------------------------------------------- changed texts */

/* Every change of a text is found; and with a checksum that fits, which only a forger makes, there is a status, and no
 * more. */
static void test_changed_texts(void **state)
{
    uint64_t random = 7;
    hr_plan *p;
    char *at, changed[4200];

    (void)state;
    lines("t/a.txt", 0, 1000);
    lines("t/b.txt", 1000, 1000);
    p = plan_of("t");
    at = position_of(p);
    for (int i = 0; i < repeats(4000); i++) {
        hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 10, .position = changed };
        hr_error err = HR_ERROR_INIT;
        size_t n = strlen(at), body = n - 26; /* what is summed */
        hr_feed *f = NULL;
        hr_table *t = NULL;
        bool forged = i % 2;
        hr_status st;

        memcpy(changed, at, n + 1);
        for (int64_t k = 1 + random_below(&random, 3); k > 0; k--) {
            static const char letters[] = "0123456789-{}[],:\"\\etrux";
            size_t where = (size_t)random_below(&random, (int64_t)(forged ? body : n));

            if (random_below(&random, 8) == 0 && !forged)
                changed[where] = 0; /* cut */
            else
                changed[where] = letters[random_below(&random, HR_LEN(letters) - 1)];
        }
        if (forged)
            snprintf(changed + body, 27, ",\"sum\":\"%016llx\"}",
                     (unsigned long long)hr__position_sum(changed, (int64_t)body));
        if (!strcmp(changed, at))
            continue;
        st = hr_feed_open(p, &o, &f, &err);
        if (!forged)
            assert_status(st, HR_INVALID, &err);
        for (int k = 0; k < 3 && !st; k++) {
            st = hr_feed_next(f, &t, &err);
            hr_table_unref(t);
            t = NULL;
        }
        assert_true(!st || st == HR_INVALID || st == HR_MISMATCH);
        assert_true(!st || err.text[0]);
        hr_error_clear(&err);
        hr_feed_close(f);
    }
    hr_string_free(at);
    hr_plan_unref(p);
}

static hr_status with_faults(hr_error *err)
{
    hr_feed_options o = { .struct_bytes = sizeof o, .batch_rows = 10 };
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    char path[100], *at = NULL;
    const char *urls[] = { path };
    hr_status st = HR_OK;

    snprintf(path, sizeof path, "%s/f", dir);
    HR_GO(hr_plan_read(urls, 1, "text", NULL, &p, err));
    HR_GO(hr_feed_open(p, &o, &f, err));
    HR_GO(hr_feed_next(f, &t, err));
    HR_GO(hr_feed_position(f, &at, err));
    hr_feed_close(f);
    f = NULL;
    o.position = at;
    HR_GO(hr_feed_open(p, &o, &f, err));
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_string_free(at);
    hr_plan_unref(p);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    lines("f/a.txt", 0, 30);
    lines("f/b.txt", 30, 30);
    run_with_faults(with_faults, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewritten),
        cmocka_unit_test(test_moved),
        cmocka_unit_test(test_changed_after_listing),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_changed_texts),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
