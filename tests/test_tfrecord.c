/* test_tfrecord.c - TFRecord files: examples in every layout, tables of every size, what is refused, faults. */
#include "arrays.h"
#include "format/tfrecord/tfrecord.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct bytes {
    uint8_t data[4096];
    int64_t n;
} bytes;

static void put(bytes *b, const void *data, int64_t n)
{
    memcpy(b->data + b->n, data, (size_t)n);
    b->n += n;
}

static void put_number(bytes *b, uint64_t v, int n)
{
    for (int i = 0; i < n; i++, v >>= 8)
        b->data[b->n++] = (uint8_t)v;
}

static void put_record(bytes *b, const void *payload, int64_t n)
{
    int64_t at = b->n;

    put_number(b, (uint64_t)n, 8);
    put_number(b, tf__masked_crc(b->data + at, 8), 4);
    put(b, payload, n);
    put_number(b, tf__masked_crc(payload, n), 4);
}

#define BYTES(s) s, (int)sizeof(s) - 1

/* Records, and what comes out: columns, then rows. */
static const struct {
    const char *records[3];
    int n[3];
    hr_status st;
    const char *want;
} cases[] = {
    { { "" }, { 0 }, HR_OK, "|" }, /* an example without features is a row without columns */
    { { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07" }, { 14 }, HR_OK, "x: int64|7|" },
    { { "\x0a\x0b\x0a\x09\x0a\x01x\x12\x04\x1a\x02\x08\x07" }, { 13 }, HR_OK, "x: int64|7|" },
    { { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x1a\x04\x0a\x02\x07\x08", "" },
      { 15, 0 },
      HR_OK,
      "x: list<item: int64>|[7, 8]|null|" },
    { { "\x0a\x0f\x0a\x0d\x0a\x01x\x12\x08\x12\x06\x0a\x04\0\0\x80\x3f" }, { 17 }, HR_OK, "x: float|1.0|" },
    { { "\x0a\x0e\x0a\x0c\x0a\x01x\x12\x07\x12\x05\x0d\0\0\x80\x3f" }, { 16 }, HR_OK, "x: float|1.0|" },
    { { "\x0a\x0d\x0a\x0b\x0a\x01x\x12\x06\x0a\x04\x0a\x02"
        "ab" },
      { 15 },
      HR_OK,
      "x: binary|ab|" },
    { { "\x0a\x07\x0a\x05\x0a\x01x\x12\0" }, { 9 }, HR_OK, "x: null|null|" }, /* a feature without a list */
    { { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x08" },
      { 28 },
      HR_OK,
      "x: int64|8|" }, /* the last one counts */
    { { "\x12\0" }, { 2 }, HR_UNSUPPORTED, "a.tfrecord: record 0: a tf.train.SequenceExample" },
    { { "\x0a\x05\x0a" }, { 3 }, HR_BAD_DATA, "a.tfrecord: record 0: not a tf.train.Example: malformed record" },
    { { "\x0a\x02\x0a\x05" }, { 4 }, HR_BAD_DATA, "malformed features" },
    { { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x87" }, { 14 }, HR_BAD_DATA, "malformed list of values" },
    { { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x12\x03\x0a\x01\x07" }, { 14 }, HR_BAD_DATA, "malformed list of values" },
    { { "\x0a\x0c\x0a\x0a\x0a\x01x\x12\x05\x1a\x03\x0a\x01\x07", "\x0a\x0b\x0a\x09\x0a\x01x\x12\x04\x0a\x02\x0a\0" },
      { 14, 13 },
      HR_TYPE,
      "record 1: feature 'x' is bytes, but int64 in earlier records" },
};

static hr_status read_tf(const char *name, const bytes *b, const char *setting, int64_t row, int64_t max_bytes,
                         hr_text *out, hr_error *err)
{
    static uint64_t options[16];
    const hr_format *format = &hr__format_tfrecords;
    hr_mem mem = { NULL, NULL };
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    assert_true(format->options_bytes <= sizeof options);
    hr__options_default(format->options, options);
    HR_GO(hr__options_parse(format->options, &setting, setting != NULL, options, err));
    HR_GO(hr__source_new_memory(name, b->data, b->n, NULL, &source, err));
    HR_GO(format->open(source, &(hr_open){ .options = options }, &f, err));
    hr__schema_print(f->schema, out);
    for (int64_t i = 0; i < out->n; i++)
        out->data[i] = out->data[i] == '\n' ? '|' : out->data[i];
    if (out->n == 0 || out->data[out->n - 1] != '|')
        hr__text_add(out, "|");
    for (int i = 0; i < f->n_fragments; i++) {
        HR_GO(f->cls->read(f, i, row, -1, &mem, &r, err));
        for (int64_t at = row;; at += t->n_rows, hr_table_unref(t), t = NULL) {
            HR_GO(hr__reader_next(r, max_bytes, &t, err));
            if (!t)
                break;
            HR_GO(hr__table_check(t, true, err));
            assert_int_equal(hr__origin_at(t->origin, 0).row, at);
            for (int64_t k = 0; k < t->n_rows; k++)
                for (int c = 0; c < t->schema->n; c++) {
                    hr__array_print_value(t->columns[c], k, out);
                    hr__text_add(out, "|");
                }
        }
        hr__reader_close(r);
        r = NULL;
    }
done:
    hr__options_clear(format->options, options);
    hr_table_unref(t);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

static void make_case(int i, bytes *b)
{
    b->n = 0;
    for (int k = 0; k < 3 && cases[i].records[k]; k++)
        put_record(b, cases[i].records[k], cases[i].n[k]);
}

static void test_examples(void **state)
{
    static const int64_t sizes[] = { 1, 1 << 20 };
    live_memory before = live_now();
    bytes b;

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        make_case(i, &b);
        for (int k = 0; k < HR_LEN(sizes); k++) {
            hr_error err = HR_ERROR_INIT;
            hr_text text = { 0 };

            assert_status(read_tf("a.tfrecord", &b, NULL, 0, sizes[k], &text, &err), cases[i].st, &err);
            if (cases[i].st)
                assert_contains(err.text, cases[i].want);
            else
                assert_string_equal(text.data, cases[i].want);
            hr__text_clear(&text);
            hr_error_clear(&err);
        }
    }
    assert_no_leak(before);
}

static void test_raw(void **state)
{
    hr_error err = HR_ERROR_INIT;
    bytes b = { .n = 0 };

    (void)state;
    put_record(&b, "one", 3);
    put_record(&b, "", 0);
    put_record(&b, "three", 5);
    for (int row = 0; row < 5; row++) {
        static const char *const want[] = { "bytes: binary not null|one||three|", "bytes: binary not null||three|",
                                            "bytes: binary not null|three|", "bytes: binary not null|",
                                            "bytes: binary not null|" };
        hr_text text = { 0 };

        assert_ok(read_tf("a.tfrecord", &b, "raw=true", row, row % 2 ? 1 : 1000, &text, &err), &err);
        assert_string_equal(text.data, want[row]);
        hr__text_clear(&text);
    }
}

/* What the bytes of a frame may be: every flipped bit of length, payload and checksums is found. */
static void test_damage(void **state)
{
    bytes b;

    (void)state;
    make_case(1, &b);
    for (int64_t i = 0; i < b.n * 8; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_text text = { 0 };

        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        assert_int_not_equal(read_tf("a.tfrecord", &b, NULL, 0, 1000, &text, &err), HR_OK);
        assert_contains(err.text, "a.tfrecord");
        b.data[i / 8] ^= (uint8_t)(1 << i % 8);
        hr__text_clear(&text);
        hr_error_clear(&err);
    }
}

static hr_status read_with_faults(void *context, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st;
    bytes b;

    make_case(*(int *)context, &b);
    st = read_tf("a.tfrecord", &b, NULL, 0, 1, &text, err);
    if (!st && text.failed)
        st = hr__error_memory(err, "text", text.n);
    hr__text_clear(&text);
    return st;
}

static void test_faults(void **state)
{
    int which[] = { 1, 3, 4, 6 };

    (void)state;
    for (int i = 0; i < HR_LEN(which); i++)
        run_with_faults_on(read_with_faults, &which[i], HR_FAULT_MEMORY | HR_FAULT_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_raw),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
