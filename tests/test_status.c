/* test_status.c - texts of statuses, errors: set, placed, moved, cut. */
#include "harness.h"
#include "op/call.h"

#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>

/* The numbers of version 0.1: processes of two versions, and programs, rely on them. */
static const struct {
    hr_status st;
    int number;
    const char *name;
} numbers[] = {
    { HR_OK, 0, "HR_OK" },
    { HR_NO_MEMORY, 1, "HR_NO_MEMORY" },
    { HR_BUDGET, 2, "HR_BUDGET" },
    { HR_INVALID, 3, "HR_INVALID" },
    { HR_TYPE, 4, "HR_TYPE" },
    { HR_NOT_FOUND, 5, "HR_NOT_FOUND" },
    { HR_BAD_DATA, 6, "HR_BAD_DATA" },
    { HR_IO, 7, "HR_IO" },
    { HR_DISK_FULL, 8, "HR_DISK_FULL" },
    { HR_UNSUPPORTED, 9, "HR_UNSUPPORTED" },
    { HR_CALLBACK, 10, "HR_CALLBACK" },
    { HR_PEER, 11, "HR_PEER" },
    { HR_CANCELLED, 12, "HR_CANCELLED" },
    { HR_MISMATCH, 13, "HR_MISMATCH" },
    { HR_PENDING, 14, "HR_PENDING" },
    { HR_BUG, 255, "HR_BUG" },
};

static void status_texts(void **state)
{
    (void)state;
    assert_string_equal(hr_status_name(HR_BAD_DATA), "HR_BAD_DATA");
    assert_string_equal(hr_status_text(HR_BAD_DATA), "malformed data");
    assert_string_equal(hr_status_text(HR_OK), "ok");
    for (int i = 0; i < HR_LEN(numbers); i++) {
        assert_int_equal(numbers[i].st, numbers[i].number);
        assert_string_equal(hr_status_name(numbers[i].st), numbers[i].name);
        assert_int_equal(hr__status_place(numbers[i].st), i);
        assert_int_equal(hr__status_is_error(numbers[i].st), numbers[i].st != HR_OK && numbers[i].st != HR_PENDING);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(hr_status_text(numbers[i].st), hr_status_text(numbers[j].st));
    }
    for (int64_t i = -300; i < 600; i++) {
        bool known = (i >= 0 && i <= HR_PENDING) || i == HR_BUG;

        assert_int_equal(strcmp(hr_status_name((hr_status)i), "HR_UNKNOWN") != 0, known);
        assert_int_equal(strcmp(hr_status_text((hr_status)i), "unknown status") != 0, known);
        assert_true(known || !hr__status_is_error(i));
    }
    assert_false(hr__status_is_error(((int64_t)1 << 32) + HR_IO));
}

static void version(void **state)
{
    char want[32];

    (void)state;
    snprintf(want, sizeof want, "%d.%d.%d", HR_VERSION_MAJOR, HR_VERSION_MINOR, HR_VERSION_PATCH);
    assert_string_equal(hr_version(), want);
}

static void set_and_clear(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr_error_set(&err, HR_TYPE, "%s: %d of %d", "a", 1, 2), HR_TYPE);
    assert_int_equal(err.status, HR_TYPE);
    assert_string_equal(err.text, "a: 1 of 2");
    hr_error_set_detail(&err, "blob", 4);
    assert_memory_equal(err.detail, "blob", 4);
    assert_int_equal(err.detail_bytes, 4);
    hr_error_set_detail(&err, "longer", 6);
    assert_memory_equal(err.detail, "longer", 6);
    hr_error_set(&err, HR_IO, "<%s>", err.text); /* an argument inside of err; the old detail goes */
    assert_string_equal(err.text, "<a: 1 of 2>");
    assert_null(err.detail);
    hr_error_set_detail(&err, "x", 1);
    hr_error_clear(&err);
    assert_int_equal(err.status, HR_OK);
    assert_string_equal(err.text, "");
    assert_null(err.detail);
    assert_int_equal(hr_error_set(NULL, HR_IO, "unwanted"), HR_IO);
    hr_error_set_detail(NULL, "x", 1);
    hr_error_clear(NULL);
    assert_no_leak(before);
}

static const struct {
    const char *in, *want;
} one_line[] = {
    { "two\nlines", "two lines" },
    { "a\r\n\tb\x7f\x1b[0m", "a   b  [0m" },
    { "h\xc3\xa4user", "h\xc3\xa4user" },
};

static void texts_are_one_line(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(one_line); i++) {
        hr_error_set(&err, HR_IO, "%s", one_line[i].in);
        assert_string_equal(err.text, one_line[i].want);
    }
}

/* Texts of all lengths around the limit, of characters of 1, 2, 3 and 4 bytes: no character is cut. */
static void long_texts_are_cut_between_characters(void **state)
{
    static const char *const characters[] = { "x", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x8e" };
    char text[1200];
    hr_error err = HR_ERROR_INIT;
    int most = (int)sizeof err.text - 1;

    (void)state;
    for (int c = 0; c < HR_LEN(characters); c++)
        for (int pad = 0; pad < 8; pad++) {
            int width = (int)strlen(characters[c]), n = pad;
            memset(text, '.', (size_t)pad);
            for (; n < 1100; n += width)
                memcpy(text + n, characters[c], (size_t)width);
            text[n] = 0;
            hr_error_set(&err, HR_IO, "%s", text);
            n = (int)strlen(err.text) - 3;
            assert_string_equal(err.text + n, "...");
            assert_memory_equal(err.text, text, (size_t)n);
            assert_int_equal((n - pad) % width, 0);
            assert_in_range(n, most - 3 - width, most - 3);
        }
    memset(text, 'y', sizeof text);
    text[most] = 0;
    hr_error_set(&err, HR_IO, "%s", text);
    assert_string_equal(err.text, text); /* just fits */
    text[most] = 'y';
    text[most + 1] = 0;
    hr__error_at(&err, HR_IO, "%s", text); /* the place alone is too long */
    assert_int_equal(strlen(err.text), most);
}

static void place_before_text(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    hr_error_set(&err, HR_BAD_DATA, "row 3: no number");
    assert_int_equal(hr__error_at(&err, HR_IO, "%s.csv", "a"), HR_BAD_DATA);
    assert_string_equal(err.text, "a.csv: row 3: no number");
    assert_int_equal(hr__error_at(NULL, HR_IO, "a"), HR_IO);
    hr_error_clear(&err);
    assert_int_equal(hr__error_at(&err, HR_IO, "silent"), HR_IO); /* the callee had written nothing */
    assert_int_equal(err.status, HR_IO);
    assert_string_equal(err.text, "silent: ");
}

static const struct {
    int64_t code;
    hr_status want;
    const char *text;
} os_errors[] = {
    { -ENOENT, HR_NOT_FOUND, "a/b: open: No such file or directory" },
    { -ENOMEM, HR_NO_MEMORY, "a/b: open: Cannot allocate memory" },
    { -EACCES, HR_IO, "a/b: open: Permission denied" },
    { -EIO, HR_IO, "a/b: open: Input/output error" },
};

static void errors_of_the_system(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(os_errors); i++) {
        assert_status(hr__error_os(&err, os_errors[i].code, "a/b", "open"), os_errors[i].want, &err);
        assert_string_equal(err.text, os_errors[i].text);
    }
    assert_int_equal(hr__error_memory(&err, "sort", 12), HR_NO_MEMORY);
    assert_string_equal(err.text, "sort: no memory for 12 bytes");
}

/* The story: ranks of a job under `ulimit -f` got "shared memory: File too large", and nobody knew whose limit. */
static void a_limit_for_files(void **state)
{
    hr_error err = HR_ERROR_INIT;
    struct rlimit old, low;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){ .rlim_cur = 1 << 30, .rlim_max = old.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    assert_status(hr__error_os(&err, -EFBIG, "a/b", "write"), HR_DISK_FULL, &err);
    assert_string_equal(err.text, "a/b: write: File too large; the limit for a file and for shared memory, "
                                  "`ulimit -f`, is 1073741824 bytes");
    assert_status(hr__error_os(&err, -ENOSPC, "a/b", "write"), HR_DISK_FULL, &err);
    assert_string_equal(err.text, "a/b: write: No space left on device");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
}

static void move(void **state)
{
    live_memory before = live_now();
    hr_error a = HR_ERROR_INIT, b = HR_ERROR_INIT;

    (void)state;
    hr_error_set(&a, HR_CALLBACK, "old");
    hr_error_set_detail(&a, "old", 3);
    hr_error_set(&b, HR_IO, "new");
    hr_error_set_detail(&b, "new", 3);
    hr__error_move(&a, &b);
    assert_int_equal(a.status, HR_IO);
    assert_string_equal(a.text, "new");
    assert_memory_equal(a.detail, "new", 3);
    assert_int_equal(b.status, HR_OK);
    assert_null(b.detail);
    hr__error_move(&a, &a);
    assert_string_equal(a.text, "new");
    hr__error_move(NULL, &a);
    assert_null(a.detail);
    assert_no_leak(before);
}

static hr_status detail_without_memory(hr_error *err)
{
    hr_error e = HR_ERROR_INIT;

    (void)err;
    hr_error_set(&e, HR_CALLBACK, "raised");
    hr_error_set_detail(&e, "pickle", 6);
    assert_int_equal(e.detail ? 6 : 0, e.detail_bytes);
    assert_string_equal(e.text, "raised");
    hr_error_clear(&e);
    return HR_OK;
}

static void faults(void **state)
{
    (void)state;
    assert_int_equal(run_with_faults(detail_without_memory, HR_FAULT_MEMORY | MAY_RECOVER), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_texts),
        cmocka_unit_test(version),
        cmocka_unit_test(set_and_clear),
        cmocka_unit_test(texts_are_one_line),
        cmocka_unit_test(place_before_text),
        cmocka_unit_test(long_texts_are_cut_between_characters),
        cmocka_unit_test(move),
        cmocka_unit_test(errors_of_the_system),
        cmocka_unit_test(a_limit_for_files),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
