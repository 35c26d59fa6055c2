/* fuzz_codec.c - any bytes as a compressed block or stream: the first byte picks the codec, two more the announced
 * size.
 *
 * Our own decoders need it most, but the code around the libraries can be wrong, too. */
#include "codec/codec.h"
#include "codec/zstd_check.h"

#include "require.h"

#define MAX_STREAM (1 << 22) /* bytes read of a stream: a few hundred may legally become gigabytes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An LZ4 block may copy from distance 0, which the format forbids and liblz4 accepts: the output is then the old
 * content of the buffer, and differs from call to call. (Only a checksum finds such damage.) */
static bool copies_itself(hr_view in)
{
    const uint8_t *p = in.data, *end = in.data + in.n;

    while (p < end) {
        int64_t literals = *p >> 4, more = *p++ & 15;

        for (int x = 255; literals >= 15 && x == 255 && p < end; literals += x)
            x = *p++;
        if (literals > end - p - 2)
            return false;
        p += literals;
        if (p[0] == 0 && p[1] == 0)
            return true;
        p += 2;
        for (int x = 255; more == 15 && x == 255 && p < end;)
            x = *p++;
    }
    return false;
}

/* A block decoded whole and in part must agree. */
static void try_block(const hr_codec *c, hr_view in, int64_t n_out)
{
    uint8_t *out = malloc((size_t)n_out + 1), *part = malloc((size_t)n_out + 1);
    hr_error err = HR_ERROR_INIT;
    int64_t n = n_out / 2, made = 0;
    hr_status whole = hr__codec_block(c, in, out, n_out, &err), st;

    REQUIRE(!whole || (whole == err.status && err.text[0]));
    if (c->prefix) {
        st = c->prefix(in, part, n, &made, &err);
        REQUIRE(st || made <= n);
        REQUIRE(whole || (!st && made == n && memcmp(out, part, (size_t)n) == 0) ||
                (c == &hr__codec_lz4 && copies_itself(in)));
    }
    hr_error_clear(&err);
    free(out);
    free(part);
}

static void try_stream(const hr_codec *c, hr_view in)
{
    static uint8_t out[10000];
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_stream *s = NULL;
    int64_t n = sizeof out;
    hr_status st;

    REQUIRE(hr__source_new_memory("input", in.data, in.n, NULL, &source, &err) == HR_OK);
    st = hr__codec_stream(c, source, NULL, &s, &err);
    for (int64_t total = 0; !st && n == sizeof out && total < MAX_STREAM; total += n)
        st = hr__stream_read(s, out, sizeof out, &n, &err);
    REQUIRE(!st || (st == err.status && strstr(err.text, "input")));
    hr__stream_close(s);
    hr__source_unref(source);
    hr_error_clear(&err);
}

/* The check of a frame in parts says the same as the check of the whole. */
static void try_zstd_check(hr_view in)
{
    hr_zstd_check *c = hr__zstd_check_new(NULL);
    bool ok = true;

    REQUIRE(c);
    for (int64_t at = 0; ok && at < in.n; at += 37)
        ok = hr__zstd_check_next(c, in.data + at, HR_MIN(37, in.n - at));
    REQUIRE(ok == hr__zstd_is_sound(in));
    hr__zstd_check_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const hr_codec *c;
    hr_view in;
    int64_t blocks = hr__live_blocks();

    if (size < 3)
        return 0;
    c = hr__codecs[data[0] % 5];
    in = (hr_view){ data + 3, (int64_t)size - 3 };
    try_block(c, in, data[1] | data[2] << 8);
    if (c->stream)
        try_stream(c, in);
    if (c == &hr__codec_zstd)
        try_zstd_check(in);
    REQUIRE(hr__live_blocks() == blocks);
    return 0;
}
