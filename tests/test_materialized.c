/* test_materialized.c - tables that are kept: the same wherever they lie, and nothing is left when they go. */
#include "arrays.h"
#include "format/scan/materialized.h"
#include "format/spill/spill_file.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

enum { N_TABLES = 6 };
static hr_table *tables[N_TABLES];

/* Tables of several types, one of them longer than a parcel, one of no rows. */
static int setup(void **state)
{
    hr_type *types[3] = { type_named("int64"), type_named("string"), type_named("list<item: int32>") };
    static const int64_t rows[N_TABLES] = { 300, 0, 200000, 1, 5000, 77 };
    uint64_t random = 11;

    (void)state;
    temp_dir_new(folder);
    setenv("HEADRACE_SPILL_DIR", folder, 1);
    for (int i = 0; i < N_TABLES; i++)
        tables[i] = random_table(&random, types, i == 2 ? 1 : 3, rows[i]); /* the large one: made quickly */
    for (int i = 0; i < 3; i++)
        hr__type_unref(types[i]);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < N_TABLES; i++)
        hr_table_unref(tables[i]);
    temp_dir_free(folder);
    return 0;
}

/* Rows [begin, begin + n) of fragment k, joined. */
static hr_status read_rows(hr_scan_file *f, int k, int64_t begin, int64_t n, int64_t max_bytes, hr_table **out,
                           hr_error *err)
{
    hr_mem mem = { 0 };
    hr_table *all[600] = { NULL };
    hr_reader *r = NULL;
    hr_status st = HR_OK;
    int n_all = 0;
    int64_t at = begin;

    *out = NULL;
    HR_GO(f->cls->read(f, k, begin, n, &mem, &r, err));
    for (;; n_all++) {
        hr_coord c;

        assert_true(n_all < HR_LEN(all));
        HR_GO(hr__reader_next(r, max_bytes, &all[n_all], err));
        if (!all[n_all])
            break;
        c = hr__origin_at(all[n_all]->origin, 0);
        assert_int_equal(c.fragment, k);
        assert_int_equal(c.row, at);
        at += all[n_all]->n_rows;
    }
    st = hr__table_concat(&mem, f->schema, all, n_all, out, err);
done:
    hr__reader_close(r);
    for (int i = 0; i < n_all; i++)
        hr_table_unref(all[i]);
    return st;
}

static hr_status keep_all(const int *which, int n, int64_t memory_bytes, hr_materialized **out, hr_error *err)
{
    hr_status st = hr__materialized_new("test", memory_bytes, HR_FRAGMENTS_OF_TABLES, out, err);

    for (int i = 0; i < n && !st; i++)
        st = hr__materialized_add(*out, hr_table_ref(tables[which[i]]), err);
    return st;
}

static void check_same(const hr_table *a, const hr_table *b, int column, int of)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_same_array(a->columns[column], b->columns[of]);
}

static const int three[] = { 0, 1, 3, 4, 5 }; /* all of one schema, four with rows */

/* From none on the disk to all: the same fragments, rows and fingerprint, projected or not, from any row on. */
static void test_anywhere(void **state)
{
    static const int64_t memory[] = { 1 << 30, 4 << 10, 100 << 10, 1 };
    static const char *const names[] = { "c2", "c0" };
    const hr_projection some = { 2, names };
    live_memory before = live_now();
    hr_bits128 first = { 0, 0 };
    uint64_t digest = 0;

    (void)state;
    for (int m = 0; m < HR_LEN(memory); m++) {
        hr_error err = HR_ERROR_INIT;
        hr_scan_file *f = NULL, *g = NULL;
        hr_materialized *k = NULL;
        hr_scan *s = NULL;
        hr_hash h;
        hr_bits128 print;
        hr_text text = { 0 };
        int64_t n = 0;

        assert_ok(keep_all(three, HR_LEN(three), memory[m], &k, &err), &err);
        assert_int_equal(hr__materialized_size(k).fragments, 4);
        assert_int_equal(hr__materialized_size(k).disk_bytes == 0, m == 0);
        assert_int_equal(hr_spill_used() == 0, m == 0);
        assert_ok(hr__materialized_scan(k, &s, &err), &err);
        hr__materialized_free(k); /* the scan holds it */
        assert_ok(hr__scan_count(s, &n, &err), &err);
        assert_int_equal(n, 300 + 1 + 5000 + 77);
        assert_string_equal(hr__scan_file_name(s, 0), "memory");
        hr__scan_describe(s, &text);
        assert_int_equal(strstr(text.data, "on disk") != NULL, m > 0);
        hr__text_clear(&text);
        hr__hash_init(&h, 0);
        hr__scan_fingerprint(s, &h);
        print = hr__hash_end(&h);
        first = m == 0 ? print : first;
        assert_true(print.lo == first.lo && print.hi == first.hi);
        digest = m == 0 ? hr__scan_memory_digest(s, NULL) : digest;
        assert_true(digest != 0 && hr__scan_memory_digest(s, NULL) == digest);
        assert_ok(hr__scan_open(s, 0, &(hr_open){ 0 }, &f, &err), &err);
        assert_ok(hr__scan_open(s, 0, &(hr_open){ .projection = &some }, &g, &err), &err);
        assert_int_equal(f->n_fragments, 4);
        for (int i = 0; i < 4; i++) {
            hr_table *want = tables[three[i ? i + 1 : 0]], *got = NULL, *part = NULL;
            int64_t begin = want->n_rows / 3, rows = want->n_rows / 2;
            hr_fragment info;

            assert_ok(f->cls->fragment(f, i, &info, &err), &err);
            assert_int_equal(info.n_rows, want->n_rows);
            assert_true(info.memory_bytes > 0);
            assert_ok(read_rows(f, i, 0, -1, 20 << 10, &got, &err), &err);
            for (int c = 0; c < 3; c++)
                check_same(got, want, c, c);
            hr_table_unref(got);
            assert_ok(hr_table_slice(want, begin, HR_MIN(rows, want->n_rows - begin), &part, &err), &err);
            assert_ok(read_rows(g, i, begin, rows, 1 << 20, &got, &err), &err);
            check_same(got, part, 0, 2);
            check_same(got, part, 1, 0);
            hr_table_unref(got);
            hr_table_unref(part);
        }
        hr__scan_file_unref(f);
        hr__scan_file_unref(g);
        hr__scan_unref(s);
        assert_int_equal(hr_spill_used(), 0);
    }
    assert_no_leak(before);
}

/* A table of several parcels: read in pieces, and from the middle of one on. */
static void test_parcels(void **state)
{
    static const int only[] = { 2 };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_scan_file *f = NULL;
    hr_materialized *k = NULL;
    hr_scan *s = NULL;
    hr_table *got = NULL, *part = NULL;

    (void)state;
    assert_ok(keep_all(only, 1, 1, &k, &err), &err);
    assert_ok(hr__materialized_scan(k, &s, &err), &err);
    assert_ok(hr__scan_open(s, 0, &(hr_open){ 0 }, &f, &err), &err);
    assert_ok(read_rows(f, 0, 0, -1, 300 << 10, &got, &err), &err);
    check_same(got, tables[2], 0, 0);
    hr_table_unref(got);
    assert_ok(read_rows(f, 0, 150001, 40000, 64 << 10, &got, &err), &err);
    assert_ok(hr_table_slice(tables[2], 150001, 40000, &part, &err), &err);
    check_same(got, part, 0, 0);
    hr_table_unref(got);
    hr_table_unref(part);
    hr__scan_file_unref(f);
    hr__scan_unref(s);
    hr__materialized_free(k);
    assert_no_leak(before);
}

/* --- fragments of rows: a table with these coordinates, cut anywhere, is always the same scan */

enum { N_CUT_ROWS = 60000 };

/* Rows of two fragments, of 300 files of one row, and of a file after them; every third row of it. */
static hr_table *located_table(void)
{
    hr_type *types[2] = { type_named("int64"), type_named("string") };
    hr_run_coords runs[400];
    hr_error err = HR_ERROR_INIT;
    hr_origin *origin = NULL;
    hr_table *bare, *out = NULL;
    uint64_t random = 3;
    int n = 0;

    runs[n++] = (hr_run_coords){ .first = { .fragment = 0 }, .n = 700 };
    runs[n++] = (hr_run_coords){ .first = { .fragment = 1, .row = 12 }, .n = 19000 };
    for (int i = 0; i < 300; i++)
        runs[n++] = (hr_run_coords){ .first = { .file = 1 + i }, .n = 1 };
    runs[n++] = (hr_run_coords){ .first = { .file = 301, .fragment = 2 }, .n = N_CUT_ROWS - 20000 };
    assert_ok(hr__origin_new(runs, n, &origin, &err), &err);
    bare = random_table(&random, types, 2, N_CUT_ROWS);
    assert_ok(hr__table_with_origin(bare, origin, &out, &err), &err);
    hr_table_unref(bare);
    hr__origin_unref(origin);
    for (int i = 0; i < 2; i++)
        hr__type_unref(types[i]);
    return out;
}

/* Adds the table in slices of 1 to `most` rows. */
static void keep_cut(const hr_table *t, int64_t most, uint64_t random, int64_t memory_bytes, hr_materialized **out)
{
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__materialized_new("test", memory_bytes, HR_FRAGMENTS_OF_ROWS, out, &err), &err);
    for (int64_t at = 0, n; at < t->n_rows; at += n) {
        hr_table *some = NULL;

        random = random * 6364136223846793005u + 1442695040888963407u;
        n = HR_MIN(t->n_rows - at, 1 + (int64_t)((random >> 33) % (uint64_t)most));
        assert_ok(hr_table_slice(t, at, n, &some, &err), &err);
        assert_ok(hr__materialized_add(*out, some, &err), &err);
    }
    assert_ok(hr__materialized_end(*out, &err), &err);
}

static hr_bits128 fingerprint_of(const hr_scan *s)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__scan_fingerprint(s, &h);
    return hr__hash_end(&h);
}

/* The tables of a run depend on threads and time: its fragments, fingerprint and digest must not. */
static void test_fragments_of_rows(void **state)
{
    static const int64_t most[] = { N_CUT_ROWS, 30000, 4096, 500, 7 };
    live_memory before = live_now();
    hr_table *all = located_table(), *first[64] = { NULL };
    hr_bits128 print = { 0, 0 };
    uint64_t digest = 0;
    int64_t n_first = 0;

    (void)state;
    for (int i = 0; i < 2 * HR_LEN(most); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_materialized *k = NULL;
        hr_scan *s = NULL;

        keep_cut(all, most[i / 2], (uint64_t)i, i % 2 ? 100 << 10 : 1 << 30, &k);
        assert_int_equal(hr__materialized_size(k).disk_bytes > 0, i % 2);
        assert_int_equal(hr__materialized_size(k).rows, N_CUT_ROWS);
        assert_ok(hr__materialized_scan(k, &s, &err), &err);
        if (i == 0) {
            n_first = hr__materialized_size(k).fragments;
            print = fingerprint_of(s);
            digest = hr__scan_memory_digest(s, NULL);
        }
        assert_true(n_first >= 4 && n_first < HR_LEN(first));
        assert_int_equal(hr__materialized_size(k).fragments, n_first);
        assert_true(print.lo == fingerprint_of(s).lo && print.hi == fingerprint_of(s).hi);
        assert_true(digest == hr__scan_memory_digest(s, NULL));
        for (int64_t f = 0; f < n_first; f++) {
            hr_table *t = NULL;

            assert_ok(hr__materialized_table(k, f, &t, &err), &err);
            if (i == 0)
                first[f] = hr_table_ref(t);
            for (int c = 0; c < 2; c++)
                check_same(t, first[f], c, c);
            hr_table_unref(t);
        }
        assert_int_equal(first[0]->n_rows, 700);
        assert_true(first[n_first - 1]->n_rows > 300);
        hr__scan_unref(s);
        hr__materialized_free(k);
    }
    for (int64_t f = 0; f < n_first; f++)
        hr_table_unref(first[f]);
    hr_table_unref(all);
    assert_no_leak(before);
}

/* A fragment ends at a multiple of 4,096 rows and 2 MiB, or before 4 MiB; 300 files of one row are one fragment. */
static void test_where_fragments_end(void **state)
{
    hr_type *type = hr__type_simple(HR_T_INT64);
    hr_error err = HR_ERROR_INIT;
    hr_table *all = located_table(), *large = NULL;
    uint64_t random = 5;
    hr_run_coords run = { .n = 1 << 20 };
    hr_fragment_cut c = { 0 };
    hr_origin *origin = NULL;
    bool ends;

    (void)state;
    assert_int_equal(hr__fragment_cut(&c, all, 0, &ends), 700);
    assert_false(ends);
    assert_int_equal(hr__fragment_cut(&c, all, 700, &ends), 0);
    assert_true(ends);
    assert_int_equal(hr__fragment_cut(&c, all, 19700, &ends), 300);
    assert_false(ends);
    hr_table_unref(all);
    c = (hr_fragment_cut){ 0 };
    all = random_table(&random, &type, 1, 1 << 20);
    assert_ok(hr__origin_new(&run, 1, &origin, &err), &err);
    assert_ok(hr__table_with_origin(all, origin, &large, &err), &err);
    assert_int_equal(hr__fragment_cut(&c, large, 5, &ends), (2 << 20) / 8);
    assert_true(ends && c.n_rows == 0);
    hr__origin_unref(origin);
    hr_table_unref(large);
    hr_table_unref(all);
}

/* A slice has the borders of the fragments, and shares the memory. */
static void test_slices(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_table *all = located_table(), *t = NULL, *want = NULL;
    hr_materialized *k = NULL, *some = NULL;

    (void)state;
    keep_cut(all, 500, 1, 1 << 30, &k);
    assert_ok(hr__materialized_slice(k, 650, 19703, &some, &err), &err);
    assert_int_equal(hr__materialized_size(some).rows, 19703 - 650);
    assert_ok(hr__materialized_table(some, 0, &t, &err), &err);
    assert_ok(hr_table_slice(all, 650, 50, &want, &err), &err);
    check_same(t, want, 1, 1);
    hr_table_unref(t);
    hr_table_unref(want);
    hr__materialized_free(some);
    assert_ok(hr__materialized_slice(k, 5, 5, &some, &err), &err);
    assert_int_equal(hr__materialized_size(some).rows, 0);
    hr__materialized_free(some);
    hr__materialized_free(k);
    hr_table_unref(all);
    assert_no_leak(before);
}

static void test_wrong(void **state)
{
    static const int mixed[] = { 0, 2 };
    hr_error err = HR_ERROR_INIT;
    hr_materialized *k = NULL;
    hr_scan *s = NULL;

    (void)state;
    assert_ok(hr__materialized_new("test", 0, HR_FRAGMENTS_OF_ROWS, &k, &err), &err);
    assert_status(hr__materialized_scan(k, &s, &err), HR_INVALID, &err);
    hr__materialized_free(k);
    assert_status(keep_all(mixed, 2, 1, &k, &err), HR_TYPE, &err);
    assert_contains(err.text, "table 1");
    hr__materialized_free(k);
    hr_error_clear(&err);
    assert_ok(hr_set_spill_quota(0, &err), &err);
    assert_int_equal(hr_spill_quota(), 0);
    assert_status(keep_all(three, HR_LEN(three), 1, &k, &err), HR_DISK_FULL, &err);
    assert_contains(err.text, "the quota of the process is 0 bytes");
    hr__materialized_free(k);
    assert_int_equal(hr_spill_used(), 0);
    assert_ok(hr_set_spill_quota(-1, &err), &err);
    assert_int_equal(hr_spill_quota(), -1);
}

static void test_settings(void **state)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;

    (void)state;
    assert_ok(hr_spill_dir(&text, &err), &err);
    assert_string_equal(text, folder);
    hr_string_free(text);
    assert_status(hr_set_spill_dir("/nowhere/at/all", &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "cannot make a spill file");
    assert_ok(hr_set_spill_dir("/tmp", &err), &err);
    assert_ok(hr_spill_dir(&text, &err), &err);
    assert_string_equal(text, "/tmp");
    hr_string_free(text);
    assert_ok(hr_set_spill_dir(NULL, &err), &err);
    setenv("HEADRACE_SPILL_QUOTA", "much", 1);
    assert_int_equal(hr_spill_quota(), -1);
    assert_status(hr_set_spill_quota(-1, &err), HR_INVALID, &err);
    assert_contains(err.text, "HEADRACE_SPILL_QUOTA: 'much'");
    setenv("HEADRACE_SPILL_QUOTA", "3KiB", 1);
    assert_int_equal(hr_spill_quota(), 3072);
    assert_ok(hr_set_spill_quota(5000, &err), &err);
    assert_int_equal(hr_spill_quota(), 5000);
    unsetenv("HEADRACE_SPILL_QUOTA");
    assert_ok(hr_set_spill_quota(-1, &err), &err);
}

static hr_status with_faults(hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_materialized *k = NULL;
    hr_scan *s = NULL;
    hr_table *got = NULL;
    hr_status st;

    HR_GO(keep_all(three, HR_LEN(three), 40 << 10, &k, err));
    HR_GO(hr__materialized_scan(k, &s, err));
    HR_GO(hr__scan_open(s, 0, &(hr_open){ 0 }, &f, err));
    for (int i = 0; i < f->n_fragments; i++) {
        HR_GO(read_rows(f, i, 0, -1, 1 << 20, &got, err));
        hr_table_unref(got);
        got = NULL;
    }
done:
    hr_table_unref(got);
    hr__scan_file_unref(f);
    hr__scan_unref(s);
    hr__materialized_free(k);
    assert_int_equal(hr_spill_used(), 0);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults(with_faults, HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anywhere),
        cmocka_unit_test(test_parcels),
        cmocka_unit_test(test_fragments_of_rows),
        cmocka_unit_test(test_where_fragments_end),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
