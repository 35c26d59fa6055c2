/* test_image_rule.c - image functions that move into the reader: plans, results, and every failure. */
#include "harness.h"

#include "exec/exec.h"

#include <stdio.h>

#define N_FILES 5

static char folder[64];

/* Pictures of different sizes, as bitmaps, which need no library. */
static int make_folder(void **state)
{
    hr_mem mem = { 0 };

    (void)state;
    temp_dir_new(folder);
    for (int i = 0; i < N_FILES; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_buffer *bytes = NULL;
        hr_image image = { 0 };
        char name[16];

        assert_ok(hr__image_new(&mem, HR_PIXELS_RGB, 20 + 3 * i, 31 - 2 * i, &image, &err), &err);
        for (int64_t k = 0; k < image.stride * image.height; k++)
            image.data[k] = (uint8_t)(k * (7 + i) / 5);
        assert_ok(hr__bmp_encode(&image, &(hr_image_save){ 0 }, &mem, &bytes, &err), &err);
        snprintf(name, sizeof name, "%d.bmp", i);
        temp_file(folder, name, bytes->data, bytes->n_bytes);
        hr__buffer_unref(bytes);
        hr__image_clear(&image);
    }
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    temp_dir_free(folder);
    return 0;
}

static hr_status read_images(const char *size, hr_plan **out, hr_error *err)
{
    const char *const urls[] = { folder }, *const settings[] = { "mode=RGB", size, "width=25" };
    hr_read_options options = { .struct_bytes = sizeof options,
                                .format_options = settings,
                                .n_format_options = size ? 3 : 1,
                                .include_paths = "path" };

    return hr_plan_read(urls, 1, "images", &options, out, err);
}

/* random_flip(random_resized_crop(column)) */
static hr_status steps(const char *column, hr_expr **out, hr_error *err)
{
    const char *const crop[] = { "height=8", "width=9", "seed=3" };
    hr_expr *input = NULL, *cropped = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_expr_column(column, &input, err));
    HR_GO(hr_expr_call("image_random_resized_crop", &input, 1, crop, 3, &cropped, err));
    HR_GO(hr_expr_call("image_random_flip", &cropped, 1, NULL, 0, out, err));
done:
    hr_expr_unref(input);
    hr_expr_unref(cropped);
    return st;
}

/* The plan with `name` = steps(column); its input is given up. */
static hr_status add_steps(hr_plan **p, const char *name, const char *column, hr_error *err)
{
    hr_expr *e = NULL;
    hr_plan *next = NULL;
    hr_status st = steps(column, &e, err);

    if (!st)
        st = hr_plan_with_columns(*p, &name, &e, 1, &next, err);
    hr_expr_unref(e);
    hr_plan_unref(*p);
    *p = next;
    return st;
}

static hr_status add_project(hr_plan **p, const char *const *names, const char *const *new_names, int n, hr_error *err)
{
    hr_plan *next = NULL;
    hr_status st = hr_plan_project(*p, names, new_names, n, &next, err);

    hr_plan_unref(*p);
    *p = next;
    return st;
}

static bool is_pushed(hr_plan *p)
{
    hr_error err = HR_ERROR_INIT;
    char *text = NULL;
    bool found;

    assert_ok(hr_plan_explain(p, &text, &err), &err);
    assert_null(strstr(text, "image=image_") < strstr(text, "runs as") ? strstr(text, "image=image_") : NULL);
    found = strstr(text, " image=image_random_flip(image_random_resized_crop(col('image'), ") != NULL;
    hr_string_free(text);
    return found;
}

/* A digest of column `name`, by shapes and values; the schema of the tables is the plan's. */
static hr_bits128 digest(hr_plan *p, const char *name, int n_threads, int64_t epoch)
{
    hr_run_options options = { .prefetch = 1, .num_threads = n_threads, .epoch = epoch, .seed = 5 };
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_run *run = NULL;
    hr_table *t = NULL;
    hr_hash h;

    hr__hash_init(&h, 0);
    assert_ok(hr__plan_schema(p, &schema, &err), &err);
    assert_ok(hr__run_start(p, &options, &run, &err), &err);
    while (true) {
        assert_ok(hr__run_next(run, -1, &t, NULL, &err), &err);
        if (!t)
            break;
        assert_true(hr__schema_equal(t->schema, schema));
        for (int64_t i = 0; i < t->n_rows; i++) {
            hr_text text = { 0 };

            hr__array_print_value(t->columns[hr__schema_find(schema, name)], i, &text);
            hr__hash_text(&h, text.data);
            hr__text_clear(&text);
        }
        hr_table_unref(t);
    }
    hr__run_close(run);
    hr__schema_unref(schema);
    return hr__hash_end(&h);
}

static void assert_same(hr_plan *a, hr_plan *b, const char *name_of_b)
{
    for (int i = 0; i < 4; i++) {
        hr_bits128 x = digest(a, "image", 1 + i % 2, i / 2), y = digest(b, name_of_b, 2, i / 2);

        assert_true(x.lo == y.lo && x.hi == y.hi);
    }
}

/* In place of the images, or under another name where those are dropped; with a size of the reader's own, or
 * without. */
static void test_values(void **state)
{
    const char *const sizes[] = { NULL, "height=30" };
    const char *const wanted[] = { "y", "path" }, *const called[] = { "image", "path" };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < 2; i++) {
        hr_plan *in_place = NULL, *beside = NULL, *renamed = NULL;

        assert_ok(read_images(sizes[i], &in_place, &err), &err);
        beside = hr_plan_ref(in_place);
        assert_ok(add_steps(&in_place, "image", "image", &err), &err);
        assert_ok(add_steps(&beside, "y", "image", &err), &err);
        assert_true(is_pushed(in_place));
        assert_false(is_pushed(beside));
        assert_same(in_place, beside, "y");
        renamed = hr_plan_ref(beside);
        assert_ok(add_project(&renamed, wanted, called, 2, &err), &err);
        assert_true(is_pushed(renamed));
        assert_same(renamed, beside, "y");
        hr_plan_unref(renamed);
        hr_plan_unref(beside);
        hr_plan_unref(in_place);
    }
}

/* Names change on the way down; two names for the images are two users. */
static void test_the_way_down(void **state)
{
    const char *const image[] = { "image", "image" }, *const x[] = { "x" }, *const twice[] = { "x", "image" };
    const char *const path[] = { "path" };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL, *limited = NULL, *both = NULL;

    (void)state;
    assert_ok(read_images(NULL, &p, &err), &err);
    assert_ok(hr_plan_limit(p, 3, &limited, &err), &err);
    assert_ok(add_project(&limited, image, x, 1, &err), &err);
    assert_ok(add_steps(&limited, "x", "x", &err), &err);
    assert_true(is_pushed(limited));
    hr_plan_unref(limited);

    limited = hr_plan_ref(p);
    assert_ok(add_project(&limited, image, twice, 2, &err), &err);
    assert_ok(add_steps(&limited, "x", "x", &err), &err);
    assert_false(is_pushed(limited));
    hr_plan_unref(limited);

    limited = hr_plan_ref(p); /* nobody wants it */
    assert_ok(add_steps(&limited, "image", "image", &err), &err);
    assert_ok(add_project(&limited, path, NULL, 1, &err), &err);
    assert_false(is_pushed(limited));
    hr_plan_unref(limited);

    assert_ok(hr_plan_union((hr_plan *[]){ p, p }, 2, &both, &err), &err);
    assert_ok(add_steps(&both, "image", "image", &err), &err);
    assert_false(is_pushed(both));
    hr_plan_unref(both);
    hr_plan_unref(p);
}

/* A position is checked against the plan before the rules. */
static void test_fingerprint(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL, *runs = NULL;
    char before[33], after[33];

    (void)state;
    assert_ok(read_images(NULL, &p, &err), &err);
    assert_ok(add_steps(&p, "image", "image", &err), &err);
    assert_ok(hr_plan_fingerprint(p, before, &err), &err);
    assert_ok(hr__plan_rewrite(p, &runs, &err), &err);
    assert_ok(hr_plan_fingerprint(p, after, &err), &err);
    assert_string_equal(before, after);
    hr_plan_unref(runs);
    hr_plan_unref(p);
}

static hr_status rewrite_with_faults(hr_error *err)
{
    const char *const wanted[] = { "y" };
    hr_plan *p = NULL, *runs = NULL;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;

    HR_GO(read_images(NULL, &p, err));
    HR_GO(add_steps(&p, "y", "image", err));
    HR_GO(add_project(&p, wanted, NULL, 1, err));
    HR_GO(hr__plan_rewrite(p, &runs, err));
    HR_GO(hr__plan_schema_early(runs, &schema, err));
done:
    hr__schema_unref(schema);
    hr_plan_unref(runs);
    hr_plan_unref(p);
    return st;
}

static hr_status read_all(hr_scan *s, const hr_open *how, hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_reader *reader = NULL;
    hr_table *t = NULL;
    hr_mem mem = { 0 };
    hr_status st = HR_OK;

    for (int i = 0; i < hr__scan_n_files(s); i++) {
        HR_GO(hr__scan_open(s, i, how, &f, err));
        HR_GO(f->cls->read(f, 0, 0, -1, &mem, &reader, err));
        HR_GO(hr__reader_next(reader, 1 << 20, &t, err));
        assert_int_equal(t->n_rows, 1);
        hr_table_unref(t);
        t = NULL;
        hr__reader_close(reader);
        reader = NULL;
        hr__scan_file_unref(f);
        f = NULL;
    }
done:
    hr__reader_close(reader);
    hr__scan_file_unref(f);
    return st;
}

/* Opened with steps, beside a column of paths, and read. */
static hr_status read_with_faults(hr_error *err)
{
    const char *column;
    hr_image_chain chain;
    hr_expr *e = NULL;
    hr_plan *p = NULL;
    hr_status st = HR_OK;

    HR_GO(read_images(NULL, &p, err));
    HR_GO(steps("image", &e, err));
    assert_true(hr__expr_image_steps(e, &chain, &column));
    assert_string_equal(column, "image");
    HR_GO(read_all(p->scan, &(hr_open){ .image_steps = &chain }, err));
done:
    hr_expr_unref(e);
    hr_plan_unref(p);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(rewrite_with_faults, HR_FAULT_MEMORY) > 20);
    assert_true(run_with_faults(read_with_faults, HR_FAULT_MEMORY | HR_FAULT_IO) > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_the_way_down),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
