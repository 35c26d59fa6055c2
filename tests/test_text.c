/* test_text.c - text files: lines and their ends, fragments and who owns a line, compression, wrong bytes. */
#include "file_rows.h"

#include <stdio.h>
#include <stdlib.h>

#define FRAGMENT (4 << 20) /* as text.c cuts */

#define GZIP_HELLO                                                                                                     \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88\x59\x0b\x18\x00\x00" \
    "\x00"

/* Each line is followed by "|". */
static file_request request(const char *name, const void *data, int64_t n, bool drop, int64_t max_bytes, file_rows *out)
{
    return (file_request){ .format = &hr__format_text,
                           .name = name,
                           .data = data,
                           .n = n,
                           .settings = { drop ? "drop_empty_lines=true" : "drop_empty_lines=false" },
                           .max_bytes = max_bytes,
                           .row_end = '|',
                           .out = out };
}

static hr_status read_text(const char *name, const void *data, int64_t n, bool drop, int64_t max_bytes, file_rows *out,
                           hr_error *err)
{
    file_request q = request(name, data, n, drop, max_bytes, out);

    return file_read(&q, err);
}

#define BYTES(s) s, (int)sizeof(s) - 1

static const struct {
    const char *data;
    int n;
    bool drop;
    hr_status st;
    const char *want; /* lines, each followed by "|"; or the error's text */
} cases[] = {
    { BYTES(""), true, HR_OK, "" },
    { BYTES("one"), true, HR_OK, "one|" },
    { BYTES("one\n"), true, HR_OK, "one|" },
    { BYTES("one\ntwo"), true, HR_OK, "one|two|" },
    { BYTES("one\r\ntwo\r\n"), true, HR_OK, "one|two|" },
    { BYTES("one\r\ntwo\r"), true, HR_OK, "one|two|" },
    { BYTES("o\rne\n"), true, HR_OK, "o\rne|" },
    { BYTES("\n\na\n\n\nb\n\n"), true, HR_OK, "a|b|" },
    { BYTES("\n\na\n\n\nb\n\n"), false, HR_OK, "||a|||b||" },
    { BYTES(" \t\n a \n\v\f\r\n"), true, HR_OK, " a |" },
    { BYTES(" \t\n a \n\r\n"), false, HR_OK, " \t| a ||" },
    { BYTES("\n"), false, HR_OK, "|" },
    { BYTES("gr\xc3\xb6\xc3\x9f"
            "e\n\xe6\x97\xa5\n"),
      true, HR_OK,
      "gr\xc3\xb6\xc3\x9f"
      "e|\xe6\x97\xa5|" },
    { BYTES("ab\ncd\xff\nef\n"), true, HR_BAD_DATA,
      "a.txt: byte 5: 0xff is not UTF-8, in the line that begins at byte 3" },
    { BYTES("ab\nc\xe6\x97\nef\n"), true, HR_BAD_DATA, "a.txt: byte 4: 0xe6 is not UTF-8" },
    { BYTES("ab\nc\xe6\x97"), true, HR_BAD_DATA, "a.txt: byte 4: 0xe6 is not UTF-8" },
    { BYTES("\xed\xa0\x80\n"), true, HR_BAD_DATA, "a.txt: byte 0: 0xed is not UTF-8" },
    { BYTES(GZIP_HELLO), true, HR_OK, "hello hello hello hello|" },
    { BYTES("\x1f\x8bgarbage garbage"), true, HR_BAD_DATA, "a.txt: gzip: " },
};

static void test_lines(void **state)
{
    static const int64_t sizes[] = { 1, 4096, 1 << 20 };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        for (int k = 0; k < HR_LEN(sizes); k++) {
            hr_error err = HR_ERROR_INIT;
            file_rows r = { 0 };

            if (cases[i].n && cases[i].data[0] == 0x1f && !hr__codec_gzip.stream)
                continue; /* not in this build */
            assert_status(read_text("a.txt", cases[i].data, cases[i].n, cases[i].drop, sizes[k], &r, &err), cases[i].st,
                          &err);
            if (cases[i].st)
                assert_contains(err.text, cases[i].want);
            else
                assert_string_equal(r.text ? r.text : "", cases[i].want);
            free(r.text);
            hr_error_clear(&err);
        }
    }
    assert_no_leak(before);
}

/* Some 10 MB of lines of every length around the borders of blocks and fragments, against a plain loop. */
static void test_fragments(void **state)
{
    static const int64_t sizes[] = { 5000, 1 << 20 };
    int64_t n = 2 * (int64_t)FRAGMENT + 777777, at = 0;
    char *data = malloc((size_t)n);
    uint64_t random = 7;
    file_rows want = { 0 };

    (void)state;
    while (at < n) { /* lines of x, lines around a border of one byte */
        int64_t border = HR_ROUND_UP(at + 1, FRAGMENT),
                length = random_below(&random, 5) ? random_below(&random, 90) : random_below(&random, 9000);

        if (border - at < 200)
            length = random_below(&random, 3);
        length = HR_MIN(length, n - at - 1);
        memset(data + at, 'a' + (int)random_below(&random, 26), (size_t)length);
        at += length;
        data[at++] = '\n';
    }
    for (int64_t begin = 0; begin < n;) {
        char *newline = memchr(data + begin, '\n', (size_t)(n - begin));

        file_rows_add(&want, data + begin, newline - data - begin + 1);
        want.text[want.n - 1] = '|';
        want.n_rows++;
        begin = newline - data + 1;
    }
    for (int k = 0; k < HR_LEN(sizes); k++) {
        hr_error err = HR_ERROR_INIT;
        file_rows r = { 0 };

        assert_ok(read_text("a.txt", data, n, false, sizes[k], &r, &err), &err);
        assert_int_equal(r.n_rows, want.n_rows);
        assert_string_equal(r.text, want.text);
        free(r.text);
    }
    free(data);
    free(want.text);
}

/* A border at every place of a few lines: none is lost, none comes twice. */
static void test_borders(void **state)
{
    static const char lines[] = "aa\r\n\nbbb\n\r\nc\n";
    int64_t n = FRAGMENT + 40, m = sizeof lines - 1;
    char *data = malloc((size_t)n);

    (void)state;
    for (int64_t shift = 0; shift < m + 2; shift++) {
        hr_error err = HR_ERROR_INIT;
        file_rows r = { 0 };

        memset(data, 'x', (size_t)n);
        data[FRAGMENT - m - 1] = '\n';
        memcpy(data + FRAGMENT - m + shift, lines, (size_t)m);
        assert_ok(read_text("a.txt", data, n, false, 1 << 20, &r, &err), &err);
        assert_int_equal(r.n_rows, 7);    /* the lines, and the x before and after */
        assert_int_equal(r.n, n + 1 - 2); /* a bar for each newline and for the end; without two '\r' */
        free(r.text);
    }
    free(data);
}

static void test_no_newline(void **state)
{
    int64_t n = 3 * (int64_t)FRAGMENT + 5;
    char *data = malloc((size_t)n);
    hr_error err = HR_ERROR_INIT;
    file_rows r = { 0 };
    file_request q = request("a.txt", data, n, true, 1 << 20, &r);
    file_opened f;

    (void)state;
    memset(data, 'x', (size_t)n);
    assert_ok(file_open(&q, &f, &err), &err);
    assert_int_equal(f.file->n_fragments, 4);
    assert_ok(file_read_rows(&f, 0, 0, -1, &err), &err);
    assert_int_equal(r.n_rows, 1);
    assert_int_equal(r.n, n + 1);
    for (int i = 1; i < 4; i++)
        assert_ok(file_read_rows(&f, i, 0, -1, &err), &err);
    assert_int_equal(r.n_rows, 1);
    file_close(&f);
    free(r.text);
    free(data);
}

static void test_rows(void **state)
{
    static const char data[] = "a\n\nb\nc\n\nd\ne\n";
    static const struct {
        int64_t row, n;
        const char *want;
    } parts[] = { { 0, -1, "a|b|c|d|e|" }, { 0, 2, "a|b|" }, { 2, 2, "c|d|" },
                  { 4, 9, "e|" },          { 5, 1, "" },     { 1, 0, "" } };

    (void)state;
    for (int i = 0; i < HR_LEN(parts); i++) {
        for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 100) {
            hr_error err = HR_ERROR_INIT;
            file_rows r = { 0 };
            file_request q = request("a.txt", data, sizeof data - 1, true, max_bytes, &r);
            file_opened f;

            assert_ok(file_open(&q, &f, &err), &err);
            assert_ok(file_read_rows(&f, 0, parts[i].row, parts[i].n, &err), &err);
            assert_string_equal(r.text ? r.text : "", parts[i].want);
            file_close(&f);
            free(r.text);
        }
    }
}

static hr_status read_with_faults(void *context, hr_error *err)
{
    static const char plain[] = "one\n\ntwo\nthree";

    return context ? read_text("a.gz", GZIP_HELLO, sizeof GZIP_HELLO - 1, true, 100, NULL, err)
                   : read_text("a.txt", plain, sizeof plain - 1, true, 100, NULL, err);
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults_on(read_with_faults, NULL, HR_FAULT_MEMORY | HR_FAULT_IO);
    if (hr__codec_gzip.stream)
        run_with_faults_on(read_with_faults, "gz", HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),      cmocka_unit_test(test_fragments), cmocka_unit_test(test_borders),
        cmocka_unit_test(test_no_newline), cmocka_unit_test(test_rows),      cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
