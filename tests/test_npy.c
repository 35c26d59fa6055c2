/* test_npy.c - NumPy's files: rows of every block size and from every row, orders and types, headers that lie,
 * faults. */
#include "arrays.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>

/* A header of version 1 with this dict, then n bytes of data. -> length */
static int64_t make_npy(uint8_t *out, const char *dict, const void *data, int64_t n)
{
    int64_t length = (int64_t)strlen(dict) + 1;

    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (uint8_t)(length & 255);
    out[9] = (uint8_t)(length >> 8);
    memcpy(out + 10, dict, (size_t)length - 1);
    out[9 + length] = '\n';
    if (n)
        memcpy(out + 10 + length, data, (size_t)n);
    return 10 + length + n;
}

/* All rows of the file as text, by tables of max_bytes, from `row` on. */
static hr_status read_npy(const void *data, int64_t n, int64_t row, int64_t max_bytes, hr_text *out, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__source_new_memory("a.npy", data, n, NULL, &source, err));
    HR_GO(hr__format_numpy.open(source, &(hr_open){ 0 }, &f, err));
    for (int i = 0; i < f->n_fragments; i++) {
        hr_fragment info;

        HR_GO(f->cls->fragment(f, i, &info, err));
        HR_GO(f->cls->read(f, i, row, -1, &mem, &r, err));
        for (int64_t at = row;; at += t->n_rows, hr_table_unref(t), t = NULL) {
            HR_GO(hr__reader_next(r, max_bytes, &t, err));
            if (!t)
                break;
            HR_GO(hr__table_check(t, true, err));
            assert_int_equal(hr__origin_at(t->origin, 0).row, at);
            for (int64_t k = 0; out && k < t->n_rows; k++) {
                for (int c = 0; c < t->schema->n; c++) {
                    hr__text_add(out, c ? "," : "");
                    hr__array_print_value(t->columns[c], k, out);
                }
                hr__text_add(out, "|");
            }
        }
        hr__reader_close(r);
        r = NULL;
    }
done:
    hr_table_unref(t);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

#define BYTES(s) s, (int)sizeof(s) - 1

static const struct {
    const char *dict, *data;
    int n;
    hr_status st;
    const char *want; /* rows, each followed by "|"; or the error's text */
} cases[] = {
    { "{'descr': '<i2', 'fortran_order': False, 'shape': (3,), }", BYTES("\x01\0\x02\0\xff\xff"), HR_OK, "1|2|-1|" },
    { "{'descr': '>i2', 'fortran_order': False, 'shape': (2,)}", BYTES("\0\x01\x01\0"), HR_OK, "1|256|" },
    { "{'shape':(),'descr':'|u1','fortran_order':True}", BYTES("\x07"), HR_OK, "7|" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (2L, 3L), }", BYTES("\1\2\3\4\5\6"), HR_OK,
      "[1, 2, 3]|[4, 5, 6]|" },
    { "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", BYTES("\1\4\2\5\3\6"), HR_OK,
      "[1, 2, 3]|[4, 5, 6]|" },
    { "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }", BYTES("\0\1\2"), HR_OK, "false|true|true|" },
    { "{'descr': '|S2', 'fortran_order': False, 'shape': (3,), }", BYTES("ab\0\0c\0"), HR_OK, "ab||c|" },
    { "{'descr': '<U1', 'fortran_order': False, 'shape': (2,), }", BYTES("a\0\0\0\xe5\x65\0\0"), HR_OK,
      "a|\xe6\x97\xa5|" },
    { "{'descr': [('a', '|u1'), ('', '|V1'), (('title', 'b'), '<u2')], 'fortran_order': False, 'shape': (2,)}",
      BYTES("\1x\2\0\3x\4\0"), HR_OK, "1,2|3,4|" },
    { "{'descr': [('a', '|u1', (2,)), ('b\\x41\"', '|u1', 1)], 'fortran_order': False, 'shape': (1,)}", BYTES("\1\2\3"),
      HR_OK, "[1, 2],[3]|" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (0,), }", BYTES(""), HR_OK, "" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 0), }", BYTES(""), HR_OK, "[]|[]|" },
    { "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", BYTES("\0\xd8\0\0"), HR_BAD_DATA,
      "a.npy: row 0: a text with an invalid character" },
    { "{'descr': '<M8[W]', 'fortran_order': False, 'shape': (1,), }", BYTES("\0\0\0\0\0\0\0\x40"), HR_UNSUPPORTED,
      "a.npy: row 0: a time that does not fit" },
    { "{'descr': '<M8[Y]', 'fortran_order': False, 'shape': (1,), }", BYTES("\0\0\0\0\0\0\0\0"), HR_UNSUPPORTED,
      "[Y]" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (4,), }", BYTES("\1\2\3"), HR_BAD_DATA,
      "shape and type need 4 bytes of data, there are 3" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775807, 2), }", BYTES("\1"), HR_BAD_DATA,
      "2^63" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (9223372036854775808,), }", BYTES("\1"), HR_BAD_DATA,
      "below 2^63" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (9000000000, 0), }", BYTES(""), HR_UNSUPPORTED,
      "9000000000 rows of values without bytes" },
    { "{'descr': '|S0', 'fortran_order': False, 'shape': (2, 1000000000), }", BYTES(""), HR_UNSUPPORTED,
      "without bytes" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1), }", BYTES("\1"), HR_UNSUPPORTED,
      "more than 9 dimensions" },
    { "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", BYTES("\1"), HR_UNSUPPORTED, "Python objects" },
    { "{'descr': [('a', [('b', '<i4')])], 'fortran_order': False, 'shape': (1,), }", BYTES("\1"), HR_UNSUPPORTED,
      "field 'a' is itself a structure" },
    { "{'descr': [], 'fortran_order': False, 'shape': (1,), }", BYTES(""), HR_UNSUPPORTED, "without fields" },
    { "{'descr': '|u1', 'fortran_order': False}", BYTES(""), HR_BAD_DATA, "header has no 'shape'" },
    { "{'descr': '|u1', 'x': 1}", BYTES(""), HR_BAD_DATA, "once each before here" },
    { "{'descr': '|u1', 'descr': '|u1'}", BYTES(""), HR_BAD_DATA, "once each before here" },
    { "{'descr': '|u", BYTES(""), HR_BAD_DATA, "expected the string's end" },
    { "[]", BYTES(""), HR_BAD_DATA, "byte 10: expected '{'" },
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (1,), } x", BYTES("\1"), HR_BAD_DATA, "expected the end" },
};

static void test_headers(void **state)
{
    static const int64_t sizes[] = { 1, 1 << 20 };
    live_memory before = live_now();
    uint8_t file[4096];

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t n = make_npy(file, cases[i].dict, cases[i].data, cases[i].n);

        for (int k = 0; k < HR_LEN(sizes); k++) {
            hr_error err = HR_ERROR_INIT;
            hr_text text = { 0 };

            assert_status(read_npy(file, n, 0, sizes[k], &text, &err), cases[i].st, &err);
            if (cases[i].st) {
                assert_contains(err.text, cases[i].want);
                assert_contains(err.text, "a.npy");
            } else {
                assert_string_equal(text.data ? text.data : "", cases[i].want);
            }
            hr__text_clear(&text);
            hr_error_clear(&err);
        }
    }
    assert_no_leak(before);
}

/* Every beginning of a good file is refused, and so is no file. */
static void test_cut(void **state)
{
    uint8_t file[256];
    int64_t n = make_npy(file, cases[0].dict, cases[0].data, cases[0].n);

    (void)state;
    for (int64_t i = 0; i < n; i++) {
        hr_error err = HR_ERROR_INIT;

        assert_status(read_npy(file, i, 0, 100, NULL, &err), HR_BAD_DATA, &err);
        assert_contains(err.text, "a.npy");
        hr_error_clear(&err);
    }
}

/* Rows of an array in both orders, in tables of every size, from every row: n rows of (2, 3) int32. */
static void test_blocks(void **state)
{
    enum { ROWS = 57, INNER = 6 };
    static const int64_t sizes[] = { 1, 24, 50, 100, 1000, 1 << 20 };
    int32_t c[ROWS][INNER], fortran[INNER][ROWS];
    uint8_t files[2][4096];
    int64_t n[2];

    (void)state;
    for (int i = 0; i < ROWS; i++)
        for (int a = 0; a < 2; a++)
            for (int b = 0; b < 3; b++)
                c[i][a * 3 + b] = fortran[b * 2 + a][i] = i * 10 + a * 3 + b;
    n[0] = make_npy(files[0], "{'descr': '<i4', 'fortran_order': False, 'shape': (57, 2, 3), }", c, sizeof c);
    n[1] =
        make_npy(files[1], "{'descr': '<i4', 'fortran_order': True, 'shape': (57, 2, 3), }", fortran, sizeof fortran);
    for (int64_t row = 0; row < ROWS; row += 8) {
        hr_text want = { 0 };

        for (int64_t i = row; i < ROWS; i++)
            hr__text_add(&want, "[[%d, %d, %d], [%d, %d, %d]]|", c[i][0], c[i][1], c[i][2], c[i][3], c[i][4], c[i][5]);
        for (int k = 0; k < 2 * HR_LEN(sizes); k++) {
            hr_error err = HR_ERROR_INIT;
            hr_text text = { 0 };

            assert_ok(read_npy(files[k & 1], n[k & 1], row, sizes[k / 2], &text, &err), &err);
            assert_string_equal(text.data, want.data);
            hr__text_clear(&text);
        }
        hr__text_clear(&want);
    }
}

static hr_status read_with_faults(void *context, hr_error *err)
{
    int i = *(int *)context;
    uint8_t file[4096];
    int64_t n = make_npy(file, cases[i].dict, cases[i].data, cases[i].n);

    return read_npy(file, n, 0, 1, NULL, err);
}

static void test_faults(void **state)
{
    int which[] = { 0, 1, 4, 6, 7, 8 };

    (void)state;
    for (int i = 0; i < HR_LEN(which); i++)
        run_with_faults_on(read_with_faults, &which[i], HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
