/* test_recode.c - text in other encodings: every name and way to cut it, wrong bytes, ends in the middle of a
 * character. */
#include "codec/codec.h"
#include "harness.h"

/* A stream that gives at most `step` bytes at once. */
typedef struct slow_stream {
    hr_stream base;
    const char *data;
    int64_t n, at, step;
} slow_stream;

static hr_status slow_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    slow_stream *s = (slow_stream *)base;

    (void)err;
    *n_read = HR_MIN(HR_MIN(n, s->step), s->n - s->at);
    memcpy(out, s->data + s->at, (size_t)*n_read);
    s->at += *n_read;
    return HR_OK;
}

static void slow_close(hr_stream *base) { hr__free(base); }

static const hr_stream_class slow_class = { slow_read, slow_close };

static const struct {
    const char *encoding, *in;
    int64_t n;
    const char *want; /* or the error's text */
    hr_status st;
} cases[] = {
    { "latin-1", "caf\xe9\n", 5, "caf\xc3\xa9\n", HR_OK },
    { "ISO8859-1", "\xff", 1, "\xc3\xbf", HR_OK },
    { "cp1252", "\x80 5", 3, "\xe2\x82\xac 5", HR_OK },
    { "utf-16",
      "\xff\xfe"
      "a\0b\0",
      6, "ab", HR_OK },
    { "utf_16", "\xfe\xff\0a\0b", 6, "ab", HR_OK },
    { "utf-16-le", "\x3d\xd8\x00\xde", 4, "\xf0\x9f\x98\x80", HR_OK },
    { "utf_16_be", "\xd8\x3d\xde\x00", 4, "\xf0\x9f\x98\x80", HR_OK },
    { "UTF-16LE", "a\0", 2, "a", HR_OK },
    { "utf-32", "\xff\xfe\0\0a\0\0\0", 8, "a", HR_OK },
    { "shift_jis", "\x82\xa0", 2, "\xe3\x81\x82", HR_OK },
    { "euc_jp", "\xa4\xa2", 2, "\xe3\x81\x82", HR_OK },
    { "gb18030", "\xd6\xd0", 2, "\xe4\xb8\xad", HR_OK },
    { "koi8-r", "\xc1", 1, "\xd0\xb0", HR_OK },
    { "ascii", "plain", 5, "plain", HR_OK },
    { "utf-8-sig",
      "\xef\xbb\xbf"
      "a",
      4, "a", HR_OK },
    { "utf-8-sig", "ab", 2, "ab", HR_OK },
    { "latin-1", "", 0, "", HR_OK },
    { "ascii", "a\xe9", 2, "in: byte 1: 0xe9 is not ascii", HR_BAD_DATA },
    { "cp1252", "abc\x81", 4, "in: byte 3: 0x81 is not cp1252", HR_BAD_DATA },
    { "utf-16-le", "a\0b", 3, "in: byte 2: 0x62 is not utf-16-le", HR_BAD_DATA },
    { "utf-16-le", "a\0\x3d\xd8", 4, "in: byte 2: 0x3d... is not utf-16-le", HR_BAD_DATA },
    { "rot13", "a", 1, "in: this system does not know the encoding 'rot13'", HR_INVALID },
};

typedef struct job {
    int which;
    int64_t step, ask;
} job;

static hr_status recode(const job *j, hr_text *out, hr_error *err)
{
    slow_stream *below = hr__zalloc(NULL, sizeof *below);
    hr_stream *s = NULL;
    uint8_t part[64];
    hr_status st = HR_OK;
    int64_t n;

    if (!below)
        return hr__error_memory(err, "in", sizeof *below);
    *below = (slow_stream){ { &slow_class }, cases[j->which].in, cases[j->which].n, 0, j->step };
    HR_GO(hr__recode_stream(&below->base, cases[j->which].encoding, "in", NULL, &s, err));
    do {
        HR_GO(hr__stream_read(s, part, j->ask, &n, err));
        hr__text_add_bytes(out, part, n);
    } while (n == j->ask);
    if (out->failed)
        st = hr__error_memory(err, "out", out->n);
done:
    hr__stream_close(s);
    return st;
}

static void all_cases(void **state)
{
    static const int64_t sizes[] = { 1, 2, 3, 64 };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(cases) * HR_LEN(sizes) * HR_LEN(sizes); i++) {
        job j = { i / 16, sizes[i % 4], sizes[i / 4 % 4] };
        hr_error err = HR_ERROR_INIT;
        hr_text out = { 0 };

        assert_status(recode(&j, &out, &err), cases[j.which].st, &err);
        assert_string_equal(cases[j.which].st ? err.text : out.data ? out.data : "", cases[j.which].want);
        hr__text_clear(&out);
        hr_error_clear(&err);
    }
    assert_no_leak(before);
}

/* Longer than all buffers: 300,000 letters of two bytes, of which one is broken. */
static void long_text(void **state)
{
    int64_t n = 600000, n_read, total = 0;
    char *in = hr__alloc(NULL, (size_t)n);
    uint8_t *out = hr__alloc(NULL, (size_t)n);
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int64_t i = 0; i < n; i += 2)
        memcpy(in + i, "\xe9\0", 2);
    for (int round = 0; round < 2; round++) {
        slow_stream *below = hr__zalloc(NULL, sizeof *below);
        hr_stream *s = NULL;

        *below = (slow_stream){ { &slow_class }, in, n, 0, 5001 };
        assert_ok(hr__recode_stream(&below->base, "utf-16-le", "in", NULL, &s, &err), &err);
        if (round == 0) {
            assert_ok(hr__stream_read(s, out, n, &n_read, &err), &err);
            assert_int_equal(n_read, n);
            for (int64_t i = 0; i < n; i += 2)
                total += memcmp(out + i, "\xc3\xa9", 2) == 0;
            assert_int_equal(total, n / 2);
            memcpy(in + 400000, "\0\xdc", 2); /* half a pair */
        } else {
            assert_status(hr__stream_read(s, out, n, &n_read, &err), HR_BAD_DATA, &err);
            assert_string_equal(err.text, "in: byte 400000: 0x00... is not utf-16-le");
        }
        hr__stream_close(s);
    }
    hr_error_clear(&err);
    hr__free(in);
    hr__free(out);
}

static void names(void **state)
{
    (void)state;
    assert_true(hr__encoding_is_utf8("utf-8") && hr__encoding_is_utf8("UTF8") && hr__encoding_is_utf8("utf_8"));
    assert_false(hr__encoding_is_utf8("utf-16") || hr__encoding_is_utf8("utf-8-sig") || hr__encoding_is_utf8(""));
}

static hr_status with_faults(hr_error *err)
{
    job j = { 0, 1, 64 };
    hr_text out = { 0 };
    hr_status st = recode(&j, &out, err);

    hr__text_clear(&out);
    return st;
}

static void faults(void **state)
{
    (void)state;
    run_with_faults(with_faults, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(all_cases), cmocka_unit_test(long_text),
                                        cmocka_unit_test(names), cmocka_unit_test(faults) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
