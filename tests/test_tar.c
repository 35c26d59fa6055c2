/* test_tar.c - tar archives and samples: names, windows of a stream, damage of every byte of a header, faults. */
#include "arrays.h"
#include "format/format.h"
#include "format/tar/tar.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct archive {
    uint8_t data[16384];
    int64_t n;
} archive;

static void add(archive *a, const char *name, char type, const void *data, int64_t n)
{
    uint8_t *p = a->data + a->n;
    unsigned sum = 0;

    memset(p, 0, 512 + (size_t)HR_ROUND_UP(n, 512));
    snprintf((char *)p, 100, "%s", name);
    snprintf((char *)p + 124, 12, "%011llo", (long long)n);
    p[156] = (uint8_t)type;
    memcpy(p + 257, "ustar\00000", 8);
    memset(p + 148, ' ', 8);
    for (int i = 0; i < 512; i++)
        sum += p[i];
    snprintf((char *)p + 148, 8, "%06o", sum);
    memcpy(p + 512, data, (size_t)n);
    a->n += 512 + HR_ROUND_UP(n, 512);
}

static void end(archive *a)
{
    memset(a->data + a->n, 0, 1024);
    a->n += 1024;
}

static void make(archive *a)
{
    a->n = 0;
    add(a, "a.txt", '0', "one", 3);
    add(a, "a.cls", '0', "1", 1);
    add(a, "folder/", '5', "", 0);
    add(a, "x", 'x', "20 path=folder/b.txt\n", 21); /* its length is wrong: 21 */
    memcpy(a->data + a->n - 512, "21 path=folder/b.txt\n", 21);
    add(a, "short", '0', "two", 3);
    add(a, "@LongLink", 'L', "folder/b.cls", 13);
    add(a, "short", '0', "", 0);
    add(a, "c.txt", '0', "three", 5);
    end(a);
}

static int64_t version; /* of the archive; 0: it has none, and is walked by each open */

static bool add_version(const hr_source *s, hr_hash *h)
{
    (void)s;
    hr__hash_int(h, version);
    return true;
}

static hr_status read_tar(const archive *a, const char *setting, int64_t row, int64_t max_bytes, hr_text *out,
                          hr_error *err)
{
    static uint64_t options[16];
    const hr_format *format = &hr__format_webdataset;
    hr_mem mem = { NULL, NULL };
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    assert_true(format->options_bytes <= sizeof options);
    hr__options_default(format->options, options);
    HR_GO(hr__options_parse(format->options, &setting, setting != NULL, options, err));
    HR_GO(hr__source_new_memory("a.tar", a->data, a->n, NULL, &source, err));
    if (version) {
        static hr_source_class cls;

        cls = *source->cls;
        cls.add_version = add_version;
        source->cls = &cls;
    }
    HR_GO(format->open(source, &(hr_open){ .options = options }, &f, err));
    for (int i = 0; i < f->n_fragments; i++) {
        HR_GO(f->cls->read(f, i, row, -1, &mem, &r, err));
        for (int64_t at = row;; at += t->n_rows, hr_table_unref(t), t = NULL) {
            HR_GO(hr__reader_next(r, max_bytes, &t, err));
            if (!t)
                break;
            HR_GO(hr__table_check(t, true, err));
            assert_int_equal(hr__origin_at(t->origin, 0).row, at);
            for (int64_t k = 0; k < t->n_rows; k++) {
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

static void test_samples(void **state)
{
    static const char *const want[] = { "a,1,one|folder/b,,two|c,null,three|", "folder/b,,two|c,null,three|",
                                        "c,null,three|", "" };
    live_memory before = live_now();
    archive a;

    (void)state;
    make(&a);
    for (int row = 0; row < 4; row++) {
        for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 100) {
            hr_error err = HR_ERROR_INIT;
            hr_text text = { 0 };

            assert_ok(read_tar(&a, NULL, row, max_bytes, &text, &err), &err);
            assert_string_equal(text.data ? text.data : "", want[row]);
            hr__text_clear(&text);
        }
    }
    assert_no_leak(before);
}

static void test_decode(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_text text = { 0 };
    archive a = { .n = 0 };

    (void)state;
    add(&a, "a.cls", '0', " 12\n", 4);
    add(&a, "b.txt", '0', "x", 1);
    end(&a);
    assert_ok(read_tar(&a, "decode=true", 0, 100, &text, &err), &err);
    assert_string_equal(text.data, "a,12,null|b,null,x|");
    hr__text_clear(&text);
    make(&a);
    assert_status(read_tar(&a, "decode=true", 0, 100, &text, &err), HR_BAD_DATA, &err); /* folder/b.cls is empty */
    assert_contains(err.text, "a.tar: tar: byte 4608: 'folder/b.cls': expected a number");
    hr__text_clear(&text);
    hr_error_clear(&err);
}

/* A picture of 2 x 1 pixels: red, blue. BMP needs no library. */
static const uint8_t bmp[62] = { 'B',      'M',       62,       [10] = 54, [14] = 40, [18] = 2, [22] = 1,
                                 [26] = 1, [28] = 24, [54] = 0, 0,         255,       255 };

static void make_images(archive *a)
{
    a->n = 0;
    add(a, "a.png", '0', bmp, sizeof bmp);
    add(a, "b.cls", '0', "1", 1);
    add(a, "c.png", '0', bmp, sizeof bmp);
    end(a);
}

static void test_images(void **state)
{
    static const struct {
        const char *setting, *want;
    } cases[] = { { "images=stored", "{data: [255, 0, 0, 0, 0, 255], shape: [1, 2, 3]}" },
                  { "images=L", "{data: [76, 29], shape: [1, 2, 1]}" },
                  { "images=RGBA", "{data: [255, 0, 0, 255, 0, 0, 255, 255], shape: [1, 2, 4]}" } };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    archive a;

    (void)state;
    make_images(&a);
    for (int i = 0; i < HR_LEN(cases); i++) {
        for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 100) {
            hr_text text = { 0 };
            char want[200];

            snprintf(want, sizeof want, "a,null,%s|b,1,null|c,null,%s|", cases[i].want, cases[i].want);
            assert_ok(read_tar(&a, cases[i].setting, 0, max_bytes, &text, &err), &err);
            assert_string_equal(text.data, want);
            hr__text_clear(&text);
        }
    }
    memset(a.data + 512, 'x', 20);
    assert_status(read_tar(&a, "images=RGB", 0, 100, NULL, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "a.tar: tar: byte 0: 'a.png': ");
    hr_error_clear(&err);
    assert_no_leak(before);
}

/* Any byte of any header changed: refused, or (in what does not count) read; never as more samples. */
static void test_damage(void **state)
{
    archive a;

    (void)state;
    make(&a);
    for (int64_t i = 0; i < a.n; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_text text = { 0 };

        a.data[i] ^= 0x41;
        if (read_tar(&a, NULL, 0, 1000, &text, &err))
            assert_contains(err.text, "a.tar");
        a.data[i] ^= 0x41;
        hr__text_clear(&text);
        hr_error_clear(&err);
    }
    for (int64_t n = a.n; n >= 0; n -= 100) {
        archive cut = a;
        hr_error err = HR_ERROR_INIT;
        hr_text text = { 0 };

        cut.n = n;
        if (read_tar(&cut, NULL, 0, 1000, &text, &err))
            assert_contains(err.text, "a.tar");
        hr__text_clear(&text);
        hr_error_clear(&err);
    }
}

static const struct {
    const char *setting;
    int64_t row;
} faulty[] = { { NULL, 0 }, { NULL, 1 }, { "images=stored", 0 } };

static hr_status read_with_faults(void *context, hr_error *err)
{
    int i = *(int *)context;
    hr_text text = { 0 };
    hr_status st;
    archive a;

    if (faulty[i].setting)
        make_images(&a);
    else
        make(&a);
    st = read_tar(&a, faulty[i].setting, faulty[i].row, 1, &text, err);
    if (!st && text.failed)
        st = hr__error_memory(err, "text", text.n);
    hr__text_clear(&text);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(faulty); i++)
        run_with_faults_on(read_with_faults, &i, HR_FAULT_MEMORY | HR_FAULT_IO);
}

/* What an open found serves the next open of the same version. Each schema and epoch walked anew. */
static void test_known_versions(void **state)
{
    static const char *const settings[] = { NULL, "images=stored", "decode=false", NULL };
    hr_error err = HR_ERROR_INIT;
    hr_text want = { 0 }, found = { 0 };
    archive a;

    (void)state;
    for (int i = 0; i < HR_LEN(settings); i++) {
        if (settings[i] && i == 1)
            make_images(&a);
        else
            make(&a);
        want.n = found.n = 0;
        version = 0;
        assert_ok(read_tar(&a, settings[i], 0, 1 << 20, &want, &err), &err);
        version = 1 + i % 3;
        for (int k = 0; k < 3; k++) {
            found.n = 0;
            assert_ok(read_tar(&a, settings[i], 0, 1 << 20, &found, &err), &err);
            assert_string_equal(found.data, want.data);
        }
    }
    version = 0;
    hr_error_clear(&err);
    hr__text_clear(&want);
    hr__text_clear(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples), cmocka_unit_test(test_decode), cmocka_unit_test(test_images),
        cmocka_unit_test(test_damage),  cmocka_unit_test(test_faults), cmocka_unit_test(test_known_versions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
