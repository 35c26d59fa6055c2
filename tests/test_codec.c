/* test_codec.c - blocks and streams of each codec, members one after the other, and input that is cut or wrong.
 *
 * The compressed texts were made by the codecs' own command lines, so that no test needs their compressors. */
#include "codec/codec.h"
#include "harness.h"

#include <stdlib.h>

static const char hello[] = "hello hello hello hello\n";
#define HELLO_BYTES ((int64_t)sizeof hello - 1)

#define GZIP_HELLO                                                                                                     \
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x00\x88\x59\x0b\x18\x00\x00" \
    "\x00"
#define ZLIB_HELLO "\x78\xda\xcb\x48\xcd\xc9\xc9\x57\xc8\x40\x27\xb9\x00\x70\xbe\x08\xbb"
#define ZSTD_HELLO "\x28\xb5\x2f\xfd\x20\x18\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x01\x00\x99\x4b\x11"
#define ZSTD_SUM_HELLO                                                                                                 \
    "\x28\xb5\x2f\xfd\x04\x68\x6d\x00\x00\x38\x68\x65\x6c\x6c\x6f\x20\x0a\x01\x00\x99\x4b\x11\xa8\x7c\x2e\xa8"
#define SNAPPY_HELLO "\x18\x14\x68\x65\x6c\x6c\x6f\x20\x42\x06\x00\x00\x0a"

/* by hand: six literals, a match of 13, five literals; and the same as two blocks of Hadoop's */
#define LZ4_HELLO                                                                                                      \
    "\x69hello \6\0\x50"                                                                                               \
    "ello\n"
#define LZ4_FRAMED_HELLO                                                                                               \
    "\0\0\0\6\0\0\0\7\x60hello \0\0\0\x12\0\0\0\x0f\x63hello \6\0\x50"                                                 \
    "ello\n"

/* with the content's checksum; and by brotli */
#define LZ4_FRAME_HELLO                                                                                                \
    "\x04\x22\x4d\x18\x64\x40\xa7\x0f\x00\x00\x00\x69\x68\x65\x6c\x6c\x6f\x20\x06\x00\x50\x65\x6c\x6c\x6f\x0a"         \
    "\x00\x00\x00\x00\xe2\xff\x03\x42"
#define BROTLI_HELLO "\x1b\x17\x00\x00\xa4\x14\x40\x72\x10\x45\x94\xa9\xc3\x73\xfa\x0b"

#define BYTES(s) { (const uint8_t *)(s), (int64_t)sizeof(s) - 1 }

/* ----------------------------------------------------------------------------------------------------------- blocks */

static const struct {
    const char *codec;
    hr_view in;
    int64_t n_out; /* announced; 0: as many as come */
    hr_status st;
    const char *text;
} blocks[] = {
    { "gzip", BYTES(GZIP_HELLO), 0, HR_OK, "" },
    { "gzip", BYTES(ZLIB_HELLO), 0, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO GZIP_HELLO GZIP_HELLO), 0, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO "\0\0\0"), 0, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO "x"), 24, HR_BAD_DATA, "1 bytes follow the end of the block" },
    { "gzip", BYTES(GZIP_HELLO), 23, HR_BAD_DATA, "more bytes than the expected 23" },
    { "gzip", BYTES(GZIP_HELLO), 25, HR_BAD_DATA, "24 bytes, expected 25" },
    { "gzip", BYTES("\x1f\x8b garbage in here"), 25, HR_BAD_DATA, "malformed" },
    { "gzip", BYTES(""), 1, HR_BAD_DATA, "malformed" },
    { "gzip", BYTES(GZIP_HELLO), 1 << 20, HR_BAD_DATA, "29 bytes of gzip cannot decompress to 1048576" },
    { "zstd", BYTES(ZSTD_HELLO), 0, HR_OK, "" },
    { "zstd", BYTES(ZSTD_SUM_HELLO), 0, HR_OK, "" },
    { "zstd", BYTES(ZSTD_HELLO ZSTD_SUM_HELLO), 0, HR_OK, "" },
    { "zstd", BYTES(ZSTD_HELLO), 23, HR_BAD_DATA, "the block has 24 bytes, expected 23" },
    { "zstd", BYTES(ZSTD_HELLO), 25, HR_BAD_DATA, "the block has 24 bytes, expected 25" },
    { "zstd", BYTES(ZSTD_HELLO "x"), 24, HR_BAD_DATA, "zstd: " },
    { "zstd", BYTES("garbage"), 24, HR_BAD_DATA, "zstd: " },
    { "zstd", BYTES(ZSTD_HELLO), 1 << 30, HR_BAD_DATA, "22 bytes of zstd cannot decompress to 1073741824" },
    { "snappy", BYTES(SNAPPY_HELLO), 0, HR_OK, "" },
    { "snappy", BYTES(SNAPPY_HELLO), 25, HR_BAD_DATA, "24 bytes, expected 25" },
    { "snappy", BYTES("\x18garbage"), 24, HR_BAD_DATA, "malformed block" },
    { "snappy", BYTES(""), 0, HR_BAD_DATA, "malformed" },
    { "lz4", BYTES(LZ4_HELLO), 0, HR_OK, "" },
    { "lz4", BYTES(LZ4_HELLO), 23, HR_BAD_DATA, "lz4: malformed block" },
    { "lz4", BYTES(LZ4_HELLO), 25, HR_BAD_DATA, "24 bytes, expected 25" },
    { "lz4", BYTES("\x6dhello \7\0\x10\n"), 24, HR_BAD_DATA, "malformed" }, /* a match before the beginning */
    { "lz4", BYTES("\x6dhello \6"), 24, HR_BAD_DATA, "malformed" },
    { "lz4", BYTES("\x6fhello \6\0\xff"), 24, HR_BAD_DATA, "malformed" },
    { "lz4", BYTES("\xf0\xff\xff"), 24, HR_BAD_DATA, "malformed" },
    { "lz4", BYTES(""), 1, HR_BAD_DATA, "lz4: malformed block" },
    { "lz4_hadoop", BYTES(LZ4_HELLO), 0, HR_OK, "" },
    { "lz4_hadoop", BYTES(LZ4_FRAMED_HELLO), 0, HR_OK, "" },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO), 0, HR_OK, "" },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO LZ4_FRAME_HELLO), 48, HR_OK, "" },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO), 23, HR_BAD_DATA, "lz4: the frames have more bytes than the expected 23" },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO), 25, HR_BAD_DATA, "lz4: the frames have 24 bytes, expected 25" },
    { "lz4_frame", BYTES("\x04\x22\x4d\x18\x60\x40"), 25, HR_BAD_DATA, "lz4: the last frame is incomplete" },
    { "lz4_frame", BYTES("garbage"), 25, HR_BAD_DATA, "lz4: ERROR_frameType_unknown" },
    { "brotli", BYTES(BROTLI_HELLO), 0, HR_OK, "" },
    { "brotli", BYTES(BROTLI_HELLO), 23, HR_BAD_DATA, "brotli: the block has more bytes than the expected 23" },
    { "brotli", BYTES(BROTLI_HELLO), 25, HR_BAD_DATA, "brotli: the block has 24 bytes, expected 25" },
    { "brotli", BYTES(BROTLI_HELLO "x"), 24, HR_BAD_DATA, "brotli: 1 bytes follow the end of the block" },
    { "brotli", BYTES("\xff\xff\xff\xff\xff\xff"), 24, HR_BAD_DATA, "brotli: " },
    { "brotli", BYTES(""), 1, HR_BAD_DATA, "brotli: the block has 0 bytes, expected 1" },
    { "lzo", BYTES("anything"), 8, HR_UNSUPPORTED, "compressed by lzo: this build lacks lzo" },
};

static int64_t times_hello(const char *codec, hr_view in)
{
    int64_t n = 0;

    for (int64_t i = 0; i + 4 <= in.n; i++)
        n += memcmp(in.data + i, strcmp(codec, "zstd") ? "\x1f\x8b\x08\x00" : "\x28\xb5\x2f\xfd", 4) == 0;
    return HR_MAX(n, 1);
}

static bool is_hello(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (p[i] != (uint8_t)hello[i % HELLO_BYTES])
            return false;
    }
    return true;
}

static void test_blocks(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(blocks); i++) {
        const hr_codec *c = hr__codec_by_name(blocks[i].codec);
        int64_t n = blocks[i].n_out ? blocks[i].n_out : HELLO_BYTES * times_hello(blocks[i].codec, blocks[i].in);
        uint8_t *in = malloc((size_t)blocks[i].in.n + 1), *out = malloc((size_t)HR_MIN(n, 4096));
        hr_error err = HR_ERROR_INIT;

        if (!c->block && blocks[i].st != HR_UNSUPPORTED)
            goto next; /* not in this build */
        memcpy(in, blocks[i].in.data, (size_t)blocks[i].in.n);
        assert_status(hr__codec_block(c, (hr_view){ in, blocks[i].in.n }, out, n, &err), blocks[i].st, &err);
        assert_contains(err.text, blocks[i].text);
        assert_true(blocks[i].st || is_hello(out, n));
    next:
        free(in);
        free(out);
        hr_error_clear(&err);
    }
}

/* Random elements of all kinds and lengths, with their meaning; then a cut block, and a wrong output size. */
static int64_t random_snappy(uint64_t *random, uint8_t *in, uint8_t *want, int64_t *n_want)
{
    int64_t n = 3, made = 0, most = random_below(random, 3000);

    while (made < most) {
        int64_t kind = made ? random_below(random, 4) : 0, far = made ? random_below(random, made) + 1 : 0, length;

        int64_t near = 1 + random_below(random, 20);

        if (random_below(random, 2))
            far = HR_MIN(far, near);
        if (kind == 0) {
            length = 1 + random_below(random, random_below(random, 3) ? 20 : 300);
            if (length <= 60) {
                in[n++] = (uint8_t)((length - 1) << 2);
            } else {
                in[n++] = (uint8_t)(61 << 2);
                in[n++] = (uint8_t)(length - 1);
                in[n++] = (uint8_t)((length - 1) >> 8);
            }
            for (int64_t i = 0; i < length; i++)
                in[n++] = want[made++] = (uint8_t)next_random(random);
            continue;
        }
        length = kind == 1 ? 4 + random_below(random, 8) : 1 + random_below(random, 64);
        if (kind == 1) {
            far = HR_MIN(far, 2047);
            in[n++] = (uint8_t)(far >> 8 << 5 | (length - 4) << 2 | 1);
            in[n++] = (uint8_t)far;
        } else {
            in[n++] = (uint8_t)((length - 1) << 2 | kind);
            for (int k = 0; k < (kind == 2 ? 2 : 4); k++)
                in[n++] = (uint8_t)(far >> (8 * k));
        }
        for (; length > 0; length--, made++)
            want[made] = want[made - far];
    }
    for (int i = 0; i < 3; i++)
        in[i] = (uint8_t)((made >> (7 * i) & 0x7f) | (i < 2 ? 0x80 : 0));
    *n_want = made;
    return n;
}

static void test_snappy(void **state)
{
    static uint8_t buffer[20000], want[5000];
    const hr_codec *c = &hr__codec_snappy;
    uint64_t random = 31;

    (void)state;
    for (int round = 0; round < 3000; round++) {
        hr_error err = HR_ERROR_INIT;
        int64_t n_want, n = random_snappy(&random, buffer, want, &n_want);
        uint8_t *in = malloc((size_t)n), *out = malloc((size_t)n_want + 1);

        memcpy(in, buffer, (size_t)n);
        out[n_want] = 0x5a;
        assert_ok(c->block((hr_view){ in, n }, out, n_want, &err), &err);
        assert_memory_equal(out, want, (size_t)n_want);
        assert_int_equal(out[n_want], 0x5a);
        for (int64_t some = 0, made; some < n_want + 10; some += 1 + random_below(&random, 1 + n_want / 3)) {
            uint8_t *part = malloc((size_t)some + 1);

            assert_ok(c->prefix((hr_view){ in, n }, part, some, &made, &err), &err);
            assert_int_equal(made, HR_MIN(some, n_want));
            assert_memory_equal(part, want, (size_t)made);
            free(part);
        }
        for (int k = 0; k < 5 && n > 4; k++) { /* damaged: an error or other bytes, and nothing beyond */
            in[3 + random_below(&random, n - 3)] = (uint8_t)next_random(&random);
            (void)!c->block((hr_view){ in, n }, out, n_want, &err);
            assert_int_equal(out[n_want], 0x5a);
        }
        if (n_want > 0)
            assert_int_not_equal(c->block((hr_view){ in, 3 + random_below(&random, n - 3) }, out, n_want, &err), HR_OK);
        free(in);
        free(out);
        hr_error_clear(&err);
    }
}

static void test_prefix(void **state)
{
    static const char two[] = ZSTD_HELLO ZSTD_SUM_HELLO;
    hr_view in = { (const uint8_t *)two, sizeof two - 1 };
    hr_error err = HR_ERROR_INIT;
    uint8_t out[100];

    (void)state;
    if (!hr__codec_zstd.prefix)
        return;
    for (int64_t n = 1; n < 100; n++) {
        int64_t made;

        assert_ok(hr__codec_zstd.prefix(in, out, n, &made, &err), &err);
        assert_int_equal(made, HR_MIN(n, 2 * HELLO_BYTES));
        assert_true(is_hello(out, made));
    }
}

static void test_guess(void **state)
{
    static const hr_view none = BYTES("plain"), lz = BYTES(LZ4_FRAME_HELLO), gz = BYTES(GZIP_HELLO),
                         zstd = BYTES(ZSTD_HELLO), empty = { NULL, 0 };

    (void)state;
    assert_null(hr__codec_guess("a.txt", none));
    assert_null(hr__codec_guess("a.gz/b", none));
    assert_null(hr__codec_guess("gz", none));
    assert_null(hr__codec_guess("a.gz", empty));
    assert_ptr_equal(hr__codec_guess("a.txt", gz), &hr__codec_gzip);
    assert_ptr_equal(hr__codec_guess("a.gz", zstd), &hr__codec_zstd); /* the bytes know better than the name */
    assert_ptr_equal(hr__codec_guess("dir/a.GZ", none), &hr__codec_gzip);
    assert_ptr_equal(hr__codec_guess("a.txt.zst", none), &hr__codec_zstd);
    assert_string_equal(hr__codec_guess("a.br", none)->name, "brotli");
    assert_ptr_equal(hr__codec_guess("a.data", lz), &hr__codec_lz4_frame);
    assert_ptr_equal(hr__codec_guess("a.lz4", none), &hr__codec_lz4_frame);
    assert_null(hr__codec_by_name("none"));
}

/* ---------------------------------------------------------------------------------------------------------- packing */

static const char *const packers[] = { "snappy", "zstd", "gzip", "lz4", "lz4_hadoop", "lz4_frame", "brotli" };

/* Bytes of many kinds: by chance, runs, text that repeats near and far, few different ones. */
static void fill_by_kind(uint64_t *random, int kind, uint8_t *p, int64_t n)
{
    int64_t period = 1 + random_below(random, kind == 2 ? 40 : 70000);

    for (int64_t i = 0; i < n; i++) {
        switch (kind) {
        case 0: p[i] = (uint8_t)next_random(random); break;
        case 1: p[i] = (uint8_t)(i / period); break;
        case 2:
        case 3: p[i] = i < period ? (uint8_t)next_random(random) : p[i - period]; break;
        default: p[i] = (uint8_t)("ab"[random_below(random, 20) == 0]); break;
        }
    }
}

static void pack_and_back(const hr_codec *c, bool file, const uint8_t *in, int64_t n, int level)
{
    hr_status (*pack)(const hr_codec *, hr_view, uint8_t *, int64_t, int, int64_t *, hr_error *) =
        file ? hr__codec_pack_file : hr__codec_pack;
    int64_t cap = c->max_packed_bytes(n), packed = -1;
    uint8_t *out = malloc((size_t)cap + 1), *back = malloc((size_t)n + 1);
    hr_error err = HR_ERROR_INIT;

    out[cap] = back[n] = 0x5a;
    assert_ok(pack(c, (hr_view){ in, n }, out, cap, level, &packed, &err), &err);
    assert_true(packed >= 0 && packed <= cap && out[cap] == 0x5a);
    assert_ok(hr__codec_block(c, (hr_view){ out, packed }, back, n, &err), &err);
    assert_memory_equal(back, in, (size_t)n);
    assert_int_equal(back[n], 0x5a);
    free(out);
    free(back);
}

static void test_pack(void **state)
{
    static const int64_t sizes[] = { 0, 1, 15, 16, 17, 60, 61, 256, 257, 5000, 65535, 65536, 65537, 300000 };
    uint8_t *in = malloc(300000);
    uint64_t random = 47;

    (void)state;
    for (int i = 0; i < HR_LEN(packers); i++) {
        const hr_codec *c = hr__codec_by_name(packers[i]);
        hr_error err = HR_ERROR_INIT;
        int64_t n;

        if (!c->pack) {
            assert_status(hr__codec_pack(c, (hr_view){ in, 0 }, in, 100, 0, &n, &err), HR_UNSUPPORTED, &err);
            assert_contains(err.text, "this build lacks");
            continue;
        }
        for (int k = 0; k < HR_LEN(sizes); k++) {
            for (int kind = 0; kind < 5; kind++) {
                fill_by_kind(&random, kind, in, sizes[k]);
                pack_and_back(c, k % 2 == kind % 2, in, sizes[k], kind % 2 ? 1 : 0);
            }
        }
        fill_by_kind(&random, 3, in, 300000);
        pack_and_back(c, false, in, 300000, 9);
        pack_and_back(c, true, in, 300000, 9);
        if (c != &hr__codec_snappy)
            assert_status(c->pack((hr_view){ in, 10 }, in, 100, 1000, &n, &err), HR_INVALID, &err);
        hr_error_clear(&err);
    }
    /* what repeats becomes small */
    memset(in, 'x', 100000);
    for (int i = 0; i < HR_LEN(packers); i++) {
        const hr_codec *c = hr__codec_by_name(packers[i]);
        uint8_t *out = malloc(200000);
        hr_error err = HR_ERROR_INIT;
        int64_t n;

        if (c->pack) {
            assert_ok(c->pack((hr_view){ in, 100000 }, out, 200000, 0, &n, &err), &err);
            assert_true(n < 6000);
        }
        free(out);
    }
    free(in);
}

/* The story: a flipped bit in our own files gave other rows, because frames of zstd and lz4 have a checksum only on
 * request. */
static void test_files_have_checksums(void **state)
{
    static const char *const names[] = { "zstd", "lz4_frame", "gzip" };
    uint8_t in[3000], out[4000], back[3000];
    uint64_t random = 5;

    (void)state;
    fill_by_kind(&random, 0, in,
                 sizeof in); /* bytes by chance are stored as they are: any change of them is another text */
    for (int i = 0; i < HR_LEN(names); i++) {
        const hr_codec *c = hr__codec_by_name(names[i]);
        hr_error err = HR_ERROR_INIT;
        int64_t n = 0;

        if (!c->pack)
            continue; /* not in this build */
        for (int file = c == &hr__codec_gzip; file < 2; file++) {
            assert_ok((file ? hr__codec_pack_file : hr__codec_pack)(c, (hr_view){ in, sizeof in }, out, sizeof out, 0,
                                                                    &n, &err),
                      &err);
            out[n / 2] ^= 0x10;
            assert_status(hr__codec_block(c, (hr_view){ out, n }, back, sizeof back, &err), file ? HR_BAD_DATA : HR_OK,
                          &err);
            hr_error_clear(&err);
        }
    }
}

static hr_status pack_with_faults(void *context, hr_error *err)
{
    const hr_codec *c = context;
    uint8_t out[1000];
    int64_t n;

    return hr__codec_pack(c, (hr_view){ (const uint8_t *)hello, HELLO_BYTES }, out, sizeof out, 1, &n, err);
}

static void test_pack_faults(void **state)
{
    (void)state;
    for (int i = 1; i < HR_LEN(packers); i++) {
        const hr_codec *c = hr__codec_by_name(packers[i]);

        if (c->pack)
            run_with_faults_on(pack_with_faults, (void *)(uintptr_t)c, HR_FAULT_MEMORY);
    }
}

/* ---------------------------------------------------------------------------------------------------------- streams */

/* All of a stream, `piece` bytes at a time; counts in *n, checks that they are hellos. */
static hr_status drain(const char *codec, const uint8_t *data, int64_t n_data, int64_t piece, int64_t *n, hr_error *err)
{
    uint8_t *out = malloc((size_t)piece + HELLO_BYTES);
    hr_source *source = NULL;
    hr_stream *s = NULL;
    hr_status st = HR_OK;
    int64_t got;

    *n = 0;
    HR_GO(hr__source_new_memory("in.data", data, n_data, NULL, &source, err));
    HR_GO(hr__codec_stream(codec ? hr__codec_by_name(codec) : NULL, source, NULL, &s, err));
    do {
        HR_GO(hr__stream_read(s, out, piece, &got, err));
        for (int64_t i = 0; codec && i < got; i++)
            assert_int_equal(out[i], hello[(*n + i) % HELLO_BYTES]);
        *n += got;
    } while (got == piece);
done:
    hr__stream_close(s);
    hr__source_unref(source);
    free(out);
    return st;
}

static const struct {
    const char *codec;
    hr_view in;
    int64_t hellos;
    hr_status st;
    const char *text;
} streams[] = {
    { NULL, BYTES(GZIP_HELLO), 0, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO), 1, HR_OK, "" },
    { "gzip", BYTES(""), 0, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO GZIP_HELLO), 2, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO "\0"), 1, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO GZIP_HELLO "\0\0\0\0\0\0\0\0"), 2, HR_OK, "" },
    { "gzip", BYTES(GZIP_HELLO "\0\0x"), 1, HR_BAD_DATA, "in.data: gzip: expected a member, found 0x00" },
    { "gzip", BYTES("plain text"), 0, HR_BAD_DATA, "expected a member, found 0x70" },
    { "gzip", BYTES("\x1f\x8b\x08\x00\x00\x00\x00\x00\x02"), 0, HR_BAD_DATA, "the last member is incomplete" },
    { "gzip", BYTES("\x1f\x8bgarbage garbage garbage"), 0, HR_BAD_DATA, "in.data: gzip: " },
    { "zstd", BYTES(ZSTD_HELLO), 1, HR_OK, "" },
    { "zstd", BYTES(""), 0, HR_OK, "" },
    { "zstd", BYTES(ZSTD_HELLO ZSTD_SUM_HELLO ZSTD_HELLO), 3, HR_OK, "" },
    { "zstd", BYTES("plain text"), 0, HR_BAD_DATA, "in.data: zstd: " },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO), 1, HR_OK, "" },
    { "lz4_frame", BYTES(""), 0, HR_OK, "" },
    { "lz4_frame", BYTES(LZ4_FRAME_HELLO LZ4_FRAME_HELLO LZ4_FRAME_HELLO), 3, HR_OK, "" },
    { "lz4_frame", BYTES("plain text"), 0, HR_BAD_DATA, "in.data: lz4: ERROR_frameType_unknown" },
    { "brotli", BYTES(BROTLI_HELLO), 1, HR_OK, "" },
    { "brotli", BYTES(""), 0, HR_OK, "" },
    { "brotli", BYTES(BROTLI_HELLO "x"), 1, HR_BAD_DATA, "in.data: brotli: bytes follow the end of the stream" },
    { "brotli", BYTES("\xff\xff\xff\xff\xff\xff"), 0, HR_BAD_DATA, "in.data: brotli: " },
    { "bzip2", BYTES("x"), 0, HR_UNSUPPORTED, "in.data: compressed by bzip2" },
};

static void test_streams(void **state)
{
    static const int64_t pieces[] = { 1, 5, 24, 1000 };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(streams); i++) {
        const hr_codec *c = streams[i].codec ? hr__codec_by_name(streams[i].codec) : NULL;

        if (c && !c->stream && streams[i].st != HR_UNSUPPORTED)
            continue; /* not in this build */
        for (int k = 0; k < HR_LEN(pieces); k++) {
            hr_error err = HR_ERROR_INIT;
            int64_t n;

            assert_status(drain(streams[i].codec, streams[i].in.data, streams[i].in.n, pieces[k], &n, &err),
                          streams[i].st, &err);
            assert_contains(err.text, streams[i].text);
            if (!streams[i].st)
                assert_int_equal(n, c ? streams[i].hellos * HELLO_BYTES : streams[i].in.n);
            hr_error_clear(&err);
        }
    }
    assert_no_leak(before);
}

/* Many members: their borders fall on every place of the input buffer. Then the same, cut at every byte of the last
 * one. */
static void test_members(void **state)
{
    static const struct {
        const char *codec;
        hr_view member;
    } cases[] = { { "gzip", BYTES(GZIP_HELLO) },
                  { "zstd", BYTES(ZSTD_SUM_HELLO) },
                  { "lz4_frame", BYTES(LZ4_FRAME_HELLO) } };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        int64_t m = cases[i].member.n, times = 40000, n;
        uint8_t *data = malloc((size_t)(m * times));
        hr_error err = HR_ERROR_INIT;

        for (int64_t k = 0; k < times; k++)
            memcpy(data + k * m, cases[i].member.data, (size_t)m);
        if (hr__codec_by_name(cases[i].codec)->stream) {
            assert_ok(drain(cases[i].codec, data, m * times, 10007, &n, &err), &err);
            assert_int_equal(n, times * HELLO_BYTES);
            for (int64_t cut = 1; cut < m; cut++) {
                assert_status(drain(cases[i].codec, data, m * 3 - cut, 100, &n, &err), HR_BAD_DATA, &err);
                hr_error_clear(&err);
            }
        }
        free(data);
    }
}

static const struct {
    const char *codec;
    hr_view block;
} faulty[] = { { "gzip", BYTES(GZIP_HELLO) },
               { "zstd", BYTES(ZSTD_HELLO) },
               { "lz4_frame", BYTES(LZ4_FRAME_HELLO) },
               { "brotli", BYTES(BROTLI_HELLO) } };

static hr_status drain_with_faults(void *context, hr_error *err)
{
    int i = *(int *)context;
    int64_t n;

    return drain(faulty[i].codec, faulty[i].block.data, faulty[i].block.n, 10, &n, err);
}

static hr_status block_with_faults(void *context, hr_error *err)
{
    int i = *(int *)context;
    uint8_t out[HELLO_BYTES];

    return hr__codec_block(hr__codec_by_name(faulty[i].codec), faulty[i].block, out, sizeof out, err);
}

static void test_faults(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(faulty); i++) {
        if (hr__codec_by_name(faulty[i].codec)->stream)
            run_with_faults_on(drain_with_faults, &i, HR_FAULT_MEMORY | HR_FAULT_IO);
        if (hr__codec_by_name(faulty[i].codec)->block)
            run_with_faults_on(block_with_faults, &i, HR_FAULT_MEMORY);
    }
}

static void use_contexts(void *arg, int thread)
{
    atomic_int *failed = arg;
    hr_view gz = BYTES(GZIP_HELLO), zs = BYTES(ZSTD_HELLO);
    uint8_t out[HELLO_BYTES];

    for (int i = 0; i < 200; i++) {
        const hr_codec *c = (i + thread) % 2 ? &hr__codec_zstd : &hr__codec_gzip;
        hr_error err = HR_ERROR_INIT;

        if (c->block &&
            (hr__codec_block(c, (i + thread) % 2 ? zs : gz, out, sizeof out, &err) || !is_hello(out, sizeof out)))
            atomic_store(failed, 1);
    }
}

static void test_threads(void **state)
{
    atomic_int failed = 0;

    (void)state;
    run_threads(4, use_contexts, &failed);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_pack_faults),
        cmocka_unit_test(test_snappy),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_guess),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_files_have_checksums),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
