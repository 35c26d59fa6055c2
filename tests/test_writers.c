/* test_writers.c - each format that writes small files: every failure on the way leaves no memory and no file. */
#include "arrays.h"
#include "format/format.h"

#include <stdio.h>
#include <unistd.h>

static char dir[64], path[200];

static int setup(void **unused)
{
    (void)unused;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/x", dir);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    temp_dir_free(dir);
    return 0;
}

static const struct {
    const char *format;
    const char *settings[3];
    int n_settings;
    int n_columns; /* of the table below */
    int64_t least_bytes;
} cases[] = {
    { "csv", { "quoting=all", "compression=gzip" }, 2, 4, 50 },
    { "csv", { "delimiter=;" }, 1, 4, 200 },
    { "json", { "compression=zstd" }, 1, 4, 50 },
    { "arrow", { "compression=lz4" }, 1, 4, 200 },
    { "numpy", { NULL }, 0, 1, 384 },
    { "tfrecords", { NULL }, 0, 3, 200 },
    { "webdataset", { NULL }, 0, 3, 1024 },
};

/* int64 without nulls, strings, floats, booleans. */
static hr_table *some_table(int n_columns, int64_t n)
{
    hr_type *types[4] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), hr__type_simple(HR_T_FLOAT32),
                          hr__type_simple(HR_T_BOOL) };
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 9;
    hr_table *t = random_table(&random, types, n_columns, n), *dense = NULL;
    hr_array *columns[4];
    int64_t values[100];

    for (int64_t i = 0; i < n; i++)
        values[i] = (i - 10) * 1000003;
    columns[0] = array_of_ints(values, n);
    for (int i = 1; i < n_columns; i++)
        columns[i] = hr__array_ref(t->columns[i]);
    assert_ok(hr__table_new(t->schema, columns, n, t->origin, &dense, &err), &err);
    hr_table_unref(t);
    return dense;
}

typedef struct job {
    int at; /* in cases */
    hr_table *t;
} job;

static hr_status add_piece(const hr_writer *w, void *file, hr_sink *sink, const hr_table *t, hr_error *err)
{
    hr_encoded_chunk piece = { 0 };
    hr_mem mem = { 0 };
    hr_status st = HR_OK;

    HR_GO(w->cls->encode(w, &mem, t, &piece, err));
    if (w->cls->add)
        HR_GO(w->cls->add(w, file, sink, &piece, err));
    else if (piece.bytes)
        HR_GO(hr__sink_write(sink, piece.bytes->data, piece.bytes->n_bytes, err));
done:
    hr__encoded_chunk_clear(&piece);
    return st;
}

static hr_status write_file(const hr_writer *w, hr_sink *sink, const hr_table *t, hr_error *err)
{
    void *file = hr__zalloc(NULL, w->cls->file_bytes);
    hr_status st = HR_OK;

    if (!file)
        return hr__error_memory(err, path, (int64_t)w->cls->file_bytes);
    if (w->cls->begin)
        HR_GO(w->cls->begin(w, file, sink, err));
    for (int i = 0; i < 2; i++)
        HR_GO(add_piece(w, file, sink, t, err));
    if (w->cls->finish)
        HR_GO(w->cls->finish(w, file, sink, err));
done:
    if (w->cls->file_clear)
        w->cls->file_clear(w, file);
    hr__free(file);
    return st;
}

static hr_status one_file(void *context, hr_error *err)
{
    const job *j = context;
    const hr_format *f = hr__format_by_name(cases[j->at].format);
    void *options = hr__zalloc(NULL, f->write_options_bytes + 1);
    hr_sink *sink = NULL;
    hr_writer *w = NULL;
    hr_status st = HR_OK;

    if (!options)
        return hr__error_memory(err, path, (int64_t)f->write_options_bytes);
    hr__options_default(f->write_options, options);
    HR_GO(hr__options_parse(f->write_options, cases[j->at].settings, cases[j->at].n_settings, options, err));
    HR_GO(f->create(j->t->schema, options, NULL, &w, err));
    HR_GO(hr__sink_open(path, true, NULL, &sink, err));
    HR_GO(write_file(w, sink, j->t, err));
    st = hr__sink_commit(sink, path, err);
    sink = NULL;
done:
    hr__sink_drop(sink);
    if (w)
        w->cls->free(w);
    hr__options_clear(f->write_options, options);
    hr__free(options);
    return st;
}

static hr_status one_file_and_away(void *context, hr_error *err)
{
    hr_status st = one_file(context, err);

    unlink(path);
    return st;
}

static void test_faults(void **unused)
{
    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        job j = { i, some_table(cases[i].n_columns, 20) };
        hr_error err = HR_ERROR_INIT;
        hr_source *source = NULL;

        assert_ok(one_file(&j, &err), &err);
        assert_ok(hr__source_open(path, NULL, &source, &err), &err);
        assert_true(source->n_bytes >= cases[i].least_bytes);
        hr__source_unref(source);
        run_with_faults_on(one_file_and_away, &j, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
        hr_table_unref(j.t);
    }
}

/* What a format cannot hold is refused before a file is made. */
static void test_refused(void **unused)
{
    static const char *const formats[] = { "csv", "numpy", "tfrecords", "webdataset" };
    hr_error err = HR_ERROR_INIT;
    hr_field x = { .name = (char *)"x", .type = hr__type_simple(HR_T_INT64) };
    hr_type *type = NULL;
    uint64_t random = 1;
    hr_table *t;

    (void)unused;
    assert_ok(hr__type_struct(&x, 1, &type, &err), &err);
    t = random_table(&random, &type, 1, 3);
    for (int i = 0; i < HR_LEN(formats); i++) {
        const hr_format *f = hr__format_by_name(formats[i]);
        void *options = hr__zalloc(NULL, f->write_options_bytes + 1);
        hr_writer *w;

        hr__options_default(f->write_options, options);
        assert_status(f->create(t->schema, options, NULL, &w, &err), HR_TYPE, &err);
        assert_contains(err.text, "column 'c0' is struct");
        hr__options_clear(f->write_options, options);
        hr__free(options);
    }
    hr_table_unref(t);
    hr__type_unref(type);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
