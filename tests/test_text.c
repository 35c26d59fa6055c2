/* test_text.c - text files: lines and their ends, fragments and who owns a line, compression, wrong bytes. */
#include "arrays.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>

#define FRAGMENT (4 << 20) /* as text.c cuts */

#define GZIP_HELLO                                                                                                     \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88\x59\x0b\x18\x00\x00" \
    "\x00"

/* What a file gives: its lines joined by "|", and in how many tables. */
typedef struct result {
    char *text;
    int64_t n, cap;
    int64_t n_rows;
} result;

static void add(result *r, const uint8_t *s, int64_t n)
{
    if (r->n + n + 2 > r->cap) {
        r->cap = (r->n + n + 2) * 2;
        r->text = realloc(r->text, (size_t)r->cap);
    }
    memcpy(r->text + r->n, s, (size_t)n);
    r->n += n;
    r->text[r->n++] = '|';
    r->text[r->n] = 0;
    r->n_rows++;
}

static hr_status read_fragment(hr_scan_file *f, int fragment, int64_t row, int64_t n, int64_t max_bytes, result *out,
                               hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(f->cls->read(f, fragment, row, n, &mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, max_bytes, &t, err));
        if (!t)
            break;
        HR_GO(hr__table_check(t, true, err));
        assert_true(t->n_rows > 0);
        assert_int_equal(hr__origin_at(t->origin, 0).row, row);
        assert_int_equal(hr__origin_at(t->origin, 0).fragment, fragment);
        row += t->n_rows;
        for (int64_t i = 0; out && i < t->n_rows; i++) {
            int64_t length;
            const uint8_t *s = hr__array_bytes(t->columns[0], i, &length);

            add(out, s, length);
        }
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr__reader_close(r);
    return st;
}

static hr_status open_text(const char *name, const void *data, int64_t n, bool drop, hr_scan_file **out, hr_error *err)
{
    static uint64_t options[2][8]; /* two structs of options, as the scan would hold them */
    const char *setting = drop ? "drop_empty_lines=true" : "drop_empty_lines=false";
    const hr_format *format = &hr__format_text;
    hr_source *source = NULL;
    hr_status st = HR_OK;

    assert_true(format->options_bytes <= sizeof options[0]);
    hr__options_default(format->options, options[drop]);
    HR_GO(hr__options_parse(format->options, &setting, 1, options[drop], err));
    HR_GO(hr__source_new_memory(name, data, n, NULL, &source, err));
    HR_GO(format->open(source, &(hr_open){ .options = options[drop] }, out, err));
done:
    hr__source_unref(source);
    return st;
}

static hr_status read_text(const char *name, const void *data, int64_t n, bool drop, int64_t max_bytes, result *out,
                           hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_status st = HR_OK;

    HR_GO(open_text(name, data, n, drop, &f, err));
    for (int i = 0; i < f->n_fragments; i++)
        HR_GO(read_fragment(f, i, 0, -1, max_bytes, out, err));
done:
    hr__scan_file_unref(f);
    return st;
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
            result r = { 0 };

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
    result want = { 0 };

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

        add(&want, (const uint8_t *)data + begin, newline - data - begin);
        begin = newline - data + 1;
    }
    for (int k = 0; k < HR_LEN(sizes); k++) {
        hr_error err = HR_ERROR_INIT;
        result r = { 0 };

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
        result r = { 0 };

        memset(data, 'x', (size_t)n);
        data[FRAGMENT - m - 1] = '\n';
        memcpy(data + FRAGMENT - m + shift, lines, (size_t)m);
        assert_ok(read_text("a.txt", data, n, false, 1 << 20, &r, &err), &err);
        assert_int_equal(r.n_rows, 7);    /* the lines, and the x before and behind */
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
    hr_scan_file *f = NULL;
    result r = { 0 };

    (void)state;
    memset(data, 'x', (size_t)n);
    assert_ok(open_text("a.txt", data, n, true, &f, &err), &err);
    assert_int_equal(f->n_fragments, 4);
    assert_ok(read_fragment(f, 0, 0, -1, 1 << 20, &r, &err), &err);
    assert_int_equal(r.n_rows, 1);
    assert_int_equal(r.n, n + 1);
    for (int i = 1; i < 4; i++)
        assert_ok(read_fragment(f, i, 0, -1, 1 << 20, &r, &err), &err);
    assert_int_equal(r.n_rows, 1);
    hr__scan_file_unref(f);
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
            hr_scan_file *f = NULL;
            result r = { 0 };

            assert_ok(open_text("a.txt", data, sizeof data - 1, true, &f, &err), &err);
            assert_ok(read_fragment(f, 0, parts[i].row, parts[i].n, max_bytes, &r, &err), &err);
            assert_string_equal(r.text ? r.text : "", parts[i].want);
            hr__scan_file_unref(f);
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
