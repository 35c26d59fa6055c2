/* test_parquet_prune.c - a reader with a filter: which rows it leaves, what it counts, and that a fault leaves none
 * behind.
 *
 * The file has rows 0 .. 149 in row groups of 100, pages of 10; `even` holds even numbers and has a bloom filter.
 * Another has `text`: by dictionary but for the last rows of each row group. */
#include "format/parquet/parquet_read.h"
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>

static hr_status compare(const char *name, const char *column, int64_t value, hr_expr **out, hr_error *err)
{
    hr_expr *args[2] = { NULL, NULL };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr_expr_column(column, &args[0], err));
    HR_GO(hr_expr_int(value, &args[1], err));
    HR_GO(hr_expr_call(name, args, 2, NULL, 0, out, err));
done:
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    return st;
}

static hr_status equal_text(const char *text, hr_expr **out, hr_error *err)
{
    hr_expr *args[2] = { NULL, NULL };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr_expr_column("text", &args[0], err));
    HR_GO(hr_expr_string(text, &args[1], err));
    HR_GO(hr_expr_call("equal", args, 2, NULL, 0, out, err));
done:
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    return st;
}

static hr_status open_filtered(const char *name, hr_expr *e, hr_skipped *skipped, hr_scan_file **out, hr_error *err)
{
    static const char *const only[] = { "id" };
    const hr_projection projection = { 1, only };
    hr_source *source = NULL;
    hr_status st = HR_OK;
    char path[512];

    *out = NULL;
    snprintf(path, sizeof path, "%s/parquet/%s", getenv("HEADRACE_TEST_DATA"), name);
    HR_GO(hr__source_open(path, NULL, &source, err));
    HR_GO(hr__format_parquet.open(source, &(hr_open){ .projection = &projection, .filter = e, .skipped = skipped }, out,
                                  err));
done:
    hr__source_unref(source);
    return st;
}

/* Rows of [begin, begin + n) of a fragment that come out: how many, and the first and last of them. */
static hr_status read_rows(hr_scan_file *f, int fragment, int64_t begin, int64_t n, int64_t found[3], hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    found[0] = 0;
    found[1] = found[2] = -1;
    HR_GO(f->cls->read(f, fragment, begin, n, &mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, 1 << 20, &t, err));
        if (!t)
            break;
        for (int64_t i = 0; i < t->n_rows; i++) {
            int64_t id, row = hr__origin_at(t->origin, i).row + 100 * fragment;

            memcpy(&id, hr__array_values(t->columns[0]) + 8 * i, 8);
            assert_int_equal(id, row); /* coordinates are those of the file */
            found[1] = found[0] ? found[1] : id;
            found[2] = id;
            found[0]++;
        }
        hr_table_unref(t);
    }
done:
    hr__reader_close(r);
    return st;
}

static const struct {
    const char *function, *column;
    int64_t value;
    int fragment;
    int64_t begin, n;
    int64_t found[3];
    int64_t fragments, rows, pages, blooms; /* passed over */
} cases[] = {
    { "less", "id", 1000, 0, 0, -1, { 100, 0, 99 }, 0, 0, 0, 0 },
    { "less", "id", 15, 0, 0, -1, { 15, 0, 14 }, 0, 80, 0, 0 },
    { "greater", "id", 64, 0, 0, -1, { 35, 65, 99 }, 0, 60, 6, 0 },
    { "greater", "id", 64, 0, 75, 10, { 10, 75, 84 }, 0, 60, 0, 0 },
    { "greater", "id", 64, 0, 0, 50, { 0, -1, -1 }, 0, 60, 0, 0 },
    { "equal", "id", 33, 0, 0, -1, { 1, 33, 33 }, 0, 90, 3, 0 },
    { "equal", "id", 33, 1, 0, -1, { 0, -1, -1 }, 1, 50, 0, 0 },
    { "equal", "even", 77, 0, 0, -1, { 0, -1, -1 }, 1, 100, 0, 1 },
    { "equal", "nobody", 77, 0, 0, -1, { 100, 0, 99 }, 0, 0, 0, 0 },
};

static void test_cases(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_skipped skipped = { 0 };
        hr_scan_file *f = NULL;
        hr_expr *e = NULL;
        int64_t found[3];

        assert_ok(compare(cases[i].function, cases[i].column, cases[i].value, &e, &err), &err);
        assert_ok(open_filtered("filter.parquet", e, &skipped, &f, &err), &err);
        for (int k = 0; k < 2; k++) { /* again: from what was kept */
            assert_ok(read_rows(f, cases[i].fragment, cases[i].begin, cases[i].n, found, &err), &err);
            for (int j = 0; j < 3; j++)
                assert_int_equal(found[j], cases[i].found[j]);
            assert_int_equal(skipped.fragments, cases[i].fragments);
            assert_int_equal(skipped.rows, cases[i].rows);
            assert_int_equal(skipped.pages, (k + 1) * cases[i].pages);
            assert_int_equal(skipped.blooms, cases[i].blooms);
        }
        hr__scan_file_unref(f);
        hr_expr_unref(e);
    }
    assert_no_leak(before);
}

static hr_status filter_with_faults(hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_expr *e = NULL;
    hr_status st = HR_OK;
    int64_t found[3];

    HR_GO(compare("equal", "id", 33, &e, err));
    HR_GO(open_filtered("filter.parquet", e, NULL, &f, err));
    HR_GO(read_rows(f, 0, 0, -1, found, err));
    assert_true(found[0] >= 1 && found[1] <= 33 && found[2] >= 33); /* what is not known is not passed over */
done:
    hr__scan_file_unref(f);
    hr_expr_unref(e);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults(filter_with_faults, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

/* The filter is asked for each value of the dictionary, and after it for each row. */
static const struct {
    const char *text;
    int fragment;
    int64_t begin, n;
    int64_t found[3];
} texts[] = {
    { "rare", 0, 0, -1, { 1, 35, 35 } },
    { "rare", 1, 0, -1, { 1, 135, 135 } },
    { "rare", 0, 20, 60, { 1, 35, 35 } },
    { "rare", 0, 36, -1, { 0, -1, -1 } },
    { "nobody", 0, 0, -1, { 0, -1, -1 } },
    { "k1", 0, 0, 10, { 1, 1, 1 } },
    { "k1", 0, 0, -1, { 51, 1, 51 } }, /* rows that lie so near each other are not worth passing over */
    { "long text number 80", 0, 0, -1, { 1, 80, 80 } },
    { "long text number 61", 0, 58, -1, { 1, 61, 61 } },
    { "long text number 61", 0, 0, 60, { 0, -1, -1 } },
};

static void test_texts(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(texts); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_scan_file *f = NULL;
        hr_expr *e = NULL;
        int64_t found[3];

        assert_ok(equal_text(texts[i].text, &e, &err), &err);
        assert_ok(open_filtered("filter_text.parquet", e, NULL, &f, &err), &err);
        assert_ok(read_rows(f, texts[i].fragment, texts[i].begin, texts[i].n, found, &err), &err);
        for (int j = 0; j < 3; j++)
            assert_int_equal(found[j], texts[i].found[j]);
        hr__scan_file_unref(f);
        hr_expr_unref(e);
    }
    assert_no_leak(before);
}

static hr_status text_with_faults(hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_expr *e = NULL;
    hr_status st = HR_OK;
    int64_t found[3];

    HR_GO(equal_text("rare", &e, err));
    HR_GO(open_filtered("filter_text.parquet", e, NULL, &f, err));
    HR_GO(read_rows(f, 0, 0, -1, found, err));
    assert_true(found[0] >= 1 && found[1] <= 35 && found[2] >= 35);
done:
    hr__scan_file_unref(f);
    hr_expr_unref(e);
    return st;
}

static void test_text_faults(void **state)
{
    (void)state;
    run_with_faults(text_with_faults, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_text_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
