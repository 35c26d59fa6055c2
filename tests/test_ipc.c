/* test_ipc.c - Arrow IPC: tables of every type written and read again, damaged files, every failure on the way. */
#include "arrays.h"
#include "format/ipc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64], path[200];

static int setup(void **unused)
{
    (void)unused;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/x.arrow", dir);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    temp_dir_free(dir);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- there and back */

/* The table twice, as two record batches. */
static hr_status write_table(const hr_table *t, const ipc_write_options *o, hr_error *err)
{
    hr_writer *w = NULL;
    hr_sink *sink = NULL;
    void *file = NULL;
    hr_piece piece = { 0 };
    hr_mem mem = { 0 };
    hr_status st = HR_OK;

    HR_GO(ipc__create(t->schema, o, NULL, &w, err));
    HR_GO(hr__sink_open(path, true, NULL, &sink, err));
    if (!(file = hr__zalloc(NULL, w->cls->file_bytes)))
        HR_GO(hr__error_memory(err, path, (int64_t)w->cls->file_bytes));
    HR_GO(w->cls->begin(w, file, sink, err));
    for (int i = 0; i < 2; i++) {
        HR_GO(w->cls->encode(w, &mem, t, &piece, err));
        HR_GO(w->cls->add(w, file, sink, &piece, err));
        hr__piece_clear(&piece);
    }
    HR_GO(w->cls->finish(w, file, sink, err));
    st = hr__sink_commit(sink, err);
    sink = NULL;
done:
    hr__piece_clear(&piece);
    if (file)
        w->cls->file_clear(w, file);
    hr__free(file);
    hr__sink_drop(sink);
    if (w)
        w->cls->free(w);
    return st;
}

/* All rows of the file, or of one column; *out is new, NULL: no rows. */
static hr_status read_table(const char *column, int64_t max_bytes, hr_table **out, hr_error *err)
{
    hr_projection one = { 1, &column };
    hr_open how = { .projection = column ? &one : NULL };
    hr_table *parts[2000];
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_mem mem = { 0 };
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    HR_GO(hr__source_open(path, NULL, &source, err));
    HR_GO(hr__format_arrow.open(source, &how, &f, err));
    for (int i = 0; i < f->n_fragments; i++) {
        HR_GO(f->cls->read(f, i, 0, -1, &mem, &r, err));
        while (n < HR_LEN(parts)) {
            HR_GO(hr__reader_next(r, max_bytes, &parts[n], err));
            if (!parts[n])
                break;
            n++;
        }
        hr__reader_close(r);
        r = NULL;
    }
    if (n)
        st = hr__table_concat(&mem, f->schema, parts, n, out, err);
done:
    while (n)
        hr_table_unref(parts[--n]);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

/* Pickles come back from a file as binary, with the mark that they were some: who reads them there does not know who wrote them. */
static void check_untrusted(const hr_table *back, const hr_table *t)
{
    const hr_field *f = &back->schema->fields[0];
    int64_t n = 0;

    if (f->type->id == HR_T_LIST)
        f = &f->type->children[0];
    assert_string_equal(type_text(f->type), "large_binary");
    assert_memory_equal(hr__metadata_get(f->metadata, f->metadata_bytes, "ARROW:extension:name", &n), "headrace.pickle",
                        15);
    assert_null(hr__metadata_get(f->metadata, f->metadata_bytes, "ARROW:extension:metadata", &n));
    assert_string_equal(values_text(back->columns[0]), values_text(t->columns[0]));
}

static void test_every_type(void **unused)
{
    static const ipc_write_options options[] = { { 0 }, { true, 0 }, { false, 1 }, { true, 2 } };
    uint64_t random = 11;
    int n_tried = 0;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++)
        for (int64_t n = 1; n < 300; n = n * 7 + 1) {
            hr_type *type = sample_type(k);
            hr_table *t = random_table(&random, &type, 1, n), *twice = NULL, *back = NULL, *both[2] = { t, t };
            hr_error err = HR_ERROR_INIT;

            assert_ok(hr__table_concat(&(hr_mem){ 0 }, t->schema, both, 2, &twice, &err), &err);
            for (int s = 0; s < HR_LEN(options); s++) {
                assert_ok(write_table(t, &options[s], &err), &err);
                assert_ok(read_table(NULL, s % 2 ? 1 << 20 : 64, &back, &err), &err);
                if (hr__type_has_pickles(type)) {
                    check_untrusted(back, twice);
                } else {
                    assert_string_equal(type_text(back->columns[0]->type), type_text(type));
                    assert_same_array(back->columns[0], twice->columns[0]);
                }
                hr_table_unref(back);
                n_tried++;
            }
            hr_table_unref(twice);
            hr_table_unref(t);
            hr__type_unref(type);
        }
    assert_true(n_tried > 200);
}

static hr_table *some_table(uint64_t *random, int64_t n)
{
    hr_type *types[3] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), type_named("list<item: int32>") };
    hr_table *t = random_table(random, types, 3, n);

    hr__type_unref(types[2]);
    return t;
}

static void test_one_column(void **unused)
{
    uint64_t random = 7;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = some_table(&random, 50), *back = NULL;

    (void)unused;
    assert_ok(write_table(t, &(ipc_write_options){ 0 }, &err), &err);
    assert_ok(read_table("c1", 1 << 20, &back, &err), &err);
    assert_int_equal(back->schema->n, 1);
    assert_int_equal(back->n_rows, 100);
    assert_int_equal(hr__origin_at(back->origin, 60).fragment, 1);
    assert_int_equal(hr__origin_at(back->origin, 60).row, 10);
    hr_table_unref(back);
    assert_status(read_table("nowhere", 1, &back, &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "no column 'nowhere'");
    hr_table_unref(t);
}

/* ---------------------------------------------------------------------------------------------------------- damage */

static int64_t slurp(uint8_t **out)
{
    FILE *f = fopen(path, "rb");
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    *out = malloc((size_t)n);
    assert_int_equal(fread(*out, 1, (size_t)n, f), n);
    fclose(f);
    return n;
}

/* Cut anywhere, a file is refused; a byte changed, it is refused or gives other rows, and no harm. */
static void test_damaged(void **unused)
{
    uint64_t random = 3;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = some_table(&random, 20), *back = NULL;
    uint8_t *data;
    int64_t n;

    (void)unused;
    for (int s = 0; s < 3; s++) {
        assert_ok(write_table(t, &(ipc_write_options){ s == 1, s }, &err), &err);
        n = slurp(&data);
        for (int64_t cut = 0; cut < n; cut += 1 + n / 300) {
            hr_status st;

            temp_file(dir, "x.arrow", data, cut);
            st = read_table(NULL, 1 << 20, &back, &err);
            if (s != 1) /* a stream may end behind any message */
                assert_int_not_equal(st, HR_OK);
            if (st)
                assert_contains(err.text, "x.arrow");
            hr_table_unref(back);
        }
        for (int round = 0; round < 1500; round++) {
            int64_t at = random_below(&random, n);
            uint8_t had = data[at];

            data[at] = (uint8_t)next_random(&random);
            temp_file(dir, "x.arrow", data, n);
            if (read_table(NULL, 1 << 20, &back, &err))
                assert_contains(err.text, "x.arrow");
            hr_table_unref(back);
            data[at] = had;
        }
        free(data);
    }
    hr_error_clear(&err);
    hr_table_unref(t);
}

static void test_what_is_refused(void **unused)
{
    static const struct {
        const char *data;
        int64_t n;
        hr_status st;
        const char *text;
    } cases[] = {
        { "", 0, HR_BAD_DATA, "too short" },
        { "FEA1xxxxFEA1", 12, HR_UNSUPPORTED, "Feather V1" },
        { "ARROW1\0\0ARROW1", 14, HR_BAD_DATA, "14 bytes are no Arrow file" },
        { "ARROW1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 27, HR_BAD_DATA, "footer" },
        { "\xff\xff\xff\xff\x00\x00\x00\x7f", 8, HR_BAD_DATA, "a message of 2130706432 bytes" },
        { "\xff\xff\xff\xff\x00\x00\x00\x80", 8, HR_BAD_DATA, "a message of -" },
        { "\xff\xff\xff\xff\x00\x00\x00\x00", 8, HR_BAD_DATA, "a message of 0 bytes" },
        { "\xff\xff\xff\xff\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 24,
          HR_BAD_DATA, "damaged" },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_table *t;

        temp_file(dir, "x.arrow", cases[i].data, cases[i].n);
        assert_status(read_table(NULL, 1, &t, &err), cases[i].st, &err);
        assert_contains(err.text, cases[i].text);
        assert_contains(err.text, "x.arrow");
    }
}

/* ---------------------------------------------------------------------------------------------------------- faults */

static hr_status there_and_back(void *context, hr_error *err)
{
    hr_table *back = NULL;
    hr_status st = write_table(context, &(ipc_write_options){ false, 2 }, err);

    if (!st)
        st = read_table(NULL, 1 << 20, &back, err);
    hr_table_unref(back);
    unlink(path);
    return st;
}

static void test_faults(void **unused)
{
    uint64_t random = 3;
    hr_table *t = some_table(&random, 30);

    (void)unused;
    run_with_faults_on(there_and_back, t, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    hr_table_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_column, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
