/* test_binary.c - whole files as rows. */
#include "arrays.h"
#include "format/format.h"

static char dir[64];

static int setup(void **state)
{
    (void)state;
    temp_dir_new(dir);
    temp_file(dir, "a",
              "\0\xff"
              "a\n",
              4);
    temp_file(dir, "b", "", 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_free(dir);
    return 0;
}

/* Both files, as one column; NULL columns: all of them. */
static hr_status read_both(const hr_read_options *options, const hr_projection *columns, hr_table **out, hr_error *err)
{
    const char *url = dir;
    hr_mem mem = { NULL, NULL };
    hr_table *tables[2] = { NULL, NULL }, *end = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_scan *s = NULL;
    hr_status st = HR_OK;
    hr_fragment fragment;

    HR_GO(hr__scan_new_files(&url, 1, "binary", options, NULL, &s, err));
    for (int i = 0; i < 2; i++) {
        HR_GO(hr__scan_open(s, i, &(hr_open){ .projection = columns }, &f, err));
        HR_GO(f->cls->fragment(f, 0, &fragment, err));
        assert_int_equal(fragment.n_rows, 1);
        HR_GO(f->cls->read(f, 0, 0, -1, &mem, &r, err));
        HR_GO(hr__reader_next(r, 1, &tables[i], err));
        assert_int_equal(hr__origin_at(tables[i]->origin, 0).file, i);
        HR_GO(hr__reader_next(r, 1, &end, err));
        assert_null(end);
        hr__reader_close(r);
        r = NULL;
        if (i == 1)
            HR_GO(hr__table_concat(&mem, f->schema, tables, 2, out, err));
        hr__scan_file_unref(f);
        f = NULL;
    }
done:
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr_table_unref(tables[0]);
    hr_table_unref(tables[1]);
    hr__scan_unref(s);
    return st;
}

static void bytes(void **state)
{
    static const char *const settings[] = { "large=true" };
    hr_read_options large = { .struct_bytes = sizeof large, .format_options = settings, .n_format_options = 1 };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_projection nothing = { 0, NULL };
    hr_table *t = NULL;
    int64_t n;

    (void)state;
    for (int k = 0; k < 2; k++) {
        assert_ok(read_both(k ? &large : NULL, NULL, &t, &err), &err);
        assert_string_equal(type_text(t->columns[0]->type), k ? "large_binary" : "binary");
        assert_memory_equal(hr__array_bytes(t->columns[0], 0, &n),
                            "\0\xff"
                            "a\n",
                            4);
        assert_int_equal(n, 4);
        hr__array_bytes(t->columns[0], 1, &n);
        assert_int_equal(n, 0);
        hr_table_unref(t);
    }
    assert_ok(read_both(NULL, &nothing, &t, &err), &err);
    assert_int_equal(t->n_rows, 2);
    hr_table_unref(t);
    assert_no_leak(before);
}

/* A file of 2 GiB by its size alone: refused before a byte is read. */
static hr_status no_bytes(hr_source *s, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err)
{
    (void)s;
    (void)out;
    (void)offset;
    (void)n;
    *n_read = 0;
    return hr_error_set(err, HR_BUG, "was read");
}

static void no_close(hr_source *s) { (void)s; }

static void too_large(void **state)
{
    static const hr_source_class cls = { .read_at = no_bytes, .close = no_close };
    bool large = false;
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;

    (void)state;
    assert_ok(hr__source_new(&cls, sizeof *source, "huge", INT64_C(1) << 31, NULL, &source, &err), &err);
    assert_status(hr__format_binary.open(source, &(hr_open){ .options = &large }, &f, &err), HR_UNSUPPORTED, &err);
    assert_string_equal(err.text, "huge: 2147483648 bytes: a file of more than 2 GiB needs the option large=true");
    hr__source_unref(source);
    hr_error_clear(&err);
}

static hr_status with_faults(hr_error *err)
{
    hr_table *t = NULL;
    hr_status st = read_both(NULL, NULL, &t, err);

    hr_table_unref(t);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(with_faults, HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(bytes), cmocka_unit_test(too_large),
                                        cmocka_unit_test(faults) };

    return cmocka_run_group_tests(tests, setup, teardown);
}
