/* test_parquet_write.c - random tables of all types, written and read again; every failure on the way leaves
 * nothing. */
#include "arrays.h"
#include "format/parquet/parquet_write.h"

#include "exec/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static hr_status write_table(hr_table *t, const char *path, const char *const *options, int n_options, hr_error *err)
{
    hr_write_options o = { .struct_bytes = sizeof o, .single_file = true, .mode = HR_WRITE_OVERWRITE };
    hr_feed_options one = { .struct_bytes = sizeof one, .num_threads = 1 };
    hr_plan *in = NULL, *p = NULL;
    hr_feed *f = NULL;
    hr_table *files = NULL;
    hr_status st = HR_OK;

    o.format_options = options;
    o.n_format_options = n_options;
    HR_GO(hr_plan_tables(&t, 1, &in, err));
    HR_GO(hr_plan_write(in, "parquet", path, &o, &p, err));
    HR_GO(hr_feed_open(p, &one, &f, err));
    HR_GO(hr_feed_next(f, &files, err));
done:
    hr_table_unref(files);
    hr_feed_close(f);
    hr_plan_unref(p);
    hr_plan_unref(in);
    return st;
}

/* All rows of a file, as one table; new. */
static hr_table *read_all(const char *path)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *parts[4096], *whole = NULL;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    int n = 0;

    assert_ok(hr_plan_read(&path, 1, "parquet", NULL, &p, &err), &err);
    assert_ok(hr_feed_open(p, NULL, &f, &err), &err);
    for (;; n++) {
        assert_true(n < HR_LEN(parts));
        assert_ok(hr_feed_next(f, &parts[n], &err), &err);
        if (!parts[n])
            break;
    }
    if (n)
        assert_ok(hr__table_concat(&(hr_mem){ 0 }, parts[0]->schema, parts, n, &whole, &err), &err);
    while (n)
        hr_table_unref(parts[--n]);
    hr_feed_close(f);
    hr_plan_unref(p);
    return whole;
}

/* What the format has in coarser or finer units comes back in them. */
static bool comes_back(const hr_type *t)
{
    if (t->id == HR_T_DATE64 || (t->id == HR_T_TIME32 && t->unit == HR_SECOND) ||
        (t->id == HR_T_TIMESTAMP && t->unit == HR_SECOND) || (t->id == HR_T_FIXED_BINARY && t->width == 0) ||
        (t->id == HR_T_STRUCT && t->n_children == 0) || t->pickled /* from a file it is binary */ ||
        ((t->id == HR_T_FIXED_LIST) && t->width == 0))
        return false;
    if ((t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256) && (t->scale < 0 || t->scale > t->precision))
        return false;
    for (int i = 0; i < t->n_children; i++)
        if (!comes_back(t->children[i].type))
            return false;
    return true;
}

/* Values outside of a decimal's digits cannot be stored in its bytes. */
static bool has_decimals(const hr_type *t)
{
    if (t->id == HR_T_DECIMAL128 || t->id == HR_T_DECIMAL256)
        return true;
    for (int i = 0; i < t->n_children; i++)
        if (has_decimals(t->children[i].type))
            return true;
    return false;
}

static void test_every_type(void **unused)
{
    static const char *const settings[][4] = {
        { "compression=none", "page_bytes=1MiB", "row_group_rows=1000000", "page_index=false" },
        { "compression=none", "page_bytes=64", "row_group_rows=50", "statistics=false" },
        { "compression=snappy", "page_version=2", "page_bytes=200", "dictionary=false" },
    };
    uint64_t random = 11;
    int n_tried = 0;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++)
        for (int64_t n = 1; n < 400; n = n * 5 + 2) {
            hr_type *type = sample_type(k);
            hr_error err = HR_ERROR_INIT;
            char path[200];

            snprintf(path, sizeof path, "%s/x.parquet", test_dir);
            for (int s = 0; s < HR_LEN(settings) && comes_back(type) && !has_decimals(type); s++) {
                hr_table *t = random_table(&random, &type, 1, n), *back;

                assert_ok(write_table(t, path, settings[s], 4, &err), &err);
                back = read_all(path);
                assert_same_array(back->columns[0], t->columns[0]);
                hr_table_unref(back);
                hr_table_unref(t);
                n_tried++;
            }
            hr__type_unref(type);
        }
    assert_true(n_tried > 200);
}

/* Numbers in all widths, in runs and without. */
static void test_encodings(void **unused)
{
    uint64_t random = 5;
    hr_mem mem = { 0 };
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int round = 0; round < 400; round++) {
        int64_t n = random_below(&random, 700);
        int width = 1 + round % 32;
        uint32_t *v = malloc((size_t)(n + 1) * 4), *back = malloc((size_t)(n + 1) * 4);
        int64_t *wide = malloc((size_t)(n + 1) * 8), *wide_back = malloc((size_t)(n + 1) * 8);
        hr_growbuf g = { .mem = &mem };
        pw_values values = { .physical = PQ_INT64, .width = 8, .n = n, .data = (const uint8_t *)wide };
        pq_runs runs;
        pq_delta delta;
        hr_view rest;

        for (int64_t i = 0; i < n; i++) {
            bool again = i && random_below(&random, 10) < round % 10;

            v[i] = again ? v[i - 1] : (uint32_t)(next_random(&random) & (width == 32 ? ~0u : (1u << width) - 1));
            wide[i] = again ? wide[i - 1] : (int64_t)(next_random(&random) >> (round % 64));
        }
        assert_ok(pw__runs_u32(v, n, width, &g, &err), &err);
        if (n) {
            pq__runs_init(&runs, g.buffer->data, g.buffer->data + g.buffer->n_bytes, width);
            pq__runs_u32(&runs, back, n);
            assert_false(runs.bad);
            assert_memory_equal(back, v, (size_t)n * 4);
        }
        hr__growbuf_clear(&g);
        assert_ok(pw__delta(&values, 0, n, &g, &err), &err);
        assert_ok(pq__delta_init(&delta, 64, (hr_view){ g.buffer->data, g.buffer->n_bytes }, &rest, &err), &err);
        assert_int_equal(delta.total, n);
        assert_int_equal(rest.n, 0);
        assert_ok(pq__delta_read(&delta, wide_back, n, &err), &err);
        assert_memory_equal(wide_back, wide, (size_t)n * 8);
        hr__growbuf_clear(&g);
        free(v);
        free(back);
        free(wide);
        free(wide_back);
    }
}

static hr_status one_write(void *context, hr_error *err)
{
    static const char *const small[] = { "page_bytes=100", "row_group_rows=40", "compression=snappy" };
    char path[200];
    hr_status st;

    snprintf(path, sizeof path, "%s/deep/x.parquet", test_dir);
    st = write_table(context, path, small, 3, err);
    if (access(path, F_OK) == 0) { /* whole, also where only the report of success could not be delivered */
        FILE *f = fopen(path, "rb");
        char last[5] = { 0 };

        assert_non_null(f);
        assert_int_equal(fseek(f, -4, SEEK_END), 0);
        assert_int_equal(fread(last, 1, 4, f), 4);
        assert_string_equal(last, "PAR1");
        fclose(f);
        unlink(path);
    } else
        assert_int_not_equal(st, HR_OK);
    *strrchr(path, '/') = 0;
    rmdir(path);
    return st;
}

static void test_faults(void **unused)
{
    hr_type *types[4] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), NULL, NULL };
    hr_field x = { .name = (char *)"x", .type = types[0], .nullable = true },
             y = { .name = (char *)"y", .type = types[1], .nullable = true };
    hr_field both[2] = { x, y };
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 3;
    hr_table *t;

    (void)unused;
    assert_ok(hr__type_list(HR_T_LIST, &y, 0, &types[2], &err), &err);
    assert_ok(hr__type_struct(both, 2, &types[3], &err), &err);
    t = random_table(&random, types, 4, 100);
    run_with_faults_on(one_write, t, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    hr_table_unref(t);
    hr__type_unref(types[2]);
    hr__type_unref(types[3]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_type, test_dir_new, test_dir_free),
        cmocka_unit_test(test_encodings),
        cmocka_unit_test_setup_teardown(test_faults, test_dir_new, test_dir_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
