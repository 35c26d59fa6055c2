/* lz4.c - LZ4 blocks, as Parquet has them: our own decoder, the format being a page long. Files of LZ4 frames come later.
 *
 * A block is a row of sequences: some literal bytes, then a match, that is, bytes to repeat from at most 64 KiB before. The
 * last sequence has no match. Parquet's first LZ4 codec was meant to be that and became Hadoop's framing of it in most
 * files: each block with two big-endian lengths before, of what it makes and of what it takes. */
#include "codec/codec.h"

static hr_status malformed(hr_error *err) { return hr_error_set(err, HR_BAD_DATA, "lz4: malformed block"); }

/* A length of 15 goes on in bytes, until one is not 255. */
static bool long_length(const uint8_t **in, const uint8_t *end, int64_t *n)
{
    uint8_t b;

    do {
        if (*in == end || *n > INT32_MAX)
            return false;
        b = *(*in)++;
        *n += b;
    } while (b == 255);
    return true;
}

/* n bytes from `offset` before; the two may overlap, and then the bytes repeat. */
static void copy_match(uint8_t *out, int64_t offset, int64_t n)
{
    const uint8_t *from = out - offset;

    if (offset >= n) {
        memcpy(out, from, (size_t)n);
        return;
    }
    for (; offset >= 8 && n >= 8; out += 8, from += 8, n -= 8)
        memcpy(out, from, 8);
    while (n-- > 0)
        *out++ = *from++;
}

static hr_status lz4_block(hr_view v, uint8_t *out, int64_t n_out, hr_error *err)
{
    const uint8_t *in = v.data, *end = in + v.n;
    uint8_t *at = out, *out_end = out + n_out;

    while (in < end) {
        int token = *in++;
        int64_t n = token >> 4, match = token & 15, offset;

        if (n == 15 && !long_length(&in, end, &n))
            return malformed(err);
        if (n > end - in || n > out_end - at)
            return malformed(err);
        memcpy(at, in, (size_t)n);
        at += n;
        in += n;
        if (in == end)
            break; /* the last sequence */
        if (end - in < 2)
            return malformed(err);
        offset = in[0] | in[1] << 8;
        in += 2;
        if (match == 15 && !long_length(&in, end, &match))
            return malformed(err);
        match += 4;
        if (offset == 0 || offset > at - out || match > out_end - at)
            return malformed(err);
        copy_match(at, offset, match);
        at += match;
    }
    if (at != out_end)
        return hr_error_set(err, HR_BAD_DATA, "lz4: makes %lld bytes, %lld are announced", (long long)(at - out),
                            (long long)n_out);
    return HR_OK;
}

static int64_t big_endian(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

/* Whether v is blocks with lengths that fit v and n_out exactly. Raw blocks hardly ever look so. */
static bool is_framed(hr_view v, int64_t n_out)
{
    while (v.n >= 8) {
        int64_t makes = big_endian(v.data), takes = big_endian(v.data + 4);

        if (takes > v.n - 8 || makes > n_out)
            return false;
        n_out -= makes;
        v = (hr_view){ v.data + 8 + takes, v.n - 8 - takes };
    }
    return v.n == 0 && n_out == 0;
}

static hr_status hadoop_block(hr_view v, uint8_t *out, int64_t n_out, hr_error *err)
{
    if (!is_framed(v, n_out))
        return lz4_block(v, out, n_out, err);
    while (v.n > 0) {
        int64_t makes = big_endian(v.data), takes = big_endian(v.data + 4);

        HR_TRY(lz4_block((hr_view){ v.data + 8, takes }, out, makes, err));
        out += makes;
        v = (hr_view){ v.data + 8 + takes, v.n - 8 - takes };
    }
    return HR_OK;
}

/* A length byte stands for 255. */
const hr_codec hr__codec_lz4 = { .name = "lz4",
                                 .suffixes = "lz4",
                                 .magic = "\x04\x22\x4d\x18",
                                 .library = "a reader of lz4 frames",
                                 .max_ratio = 256,
                                 .block = lz4_block };
const hr_codec hr__codec_lz4_hadoop = {
    .name = "lz4_hadoop", .library = "lz4", .max_ratio = 256, .block = hadoop_block
};
