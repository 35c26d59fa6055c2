/* lz4.c - LZ4 by liblz4: raw blocks, as in Parquet, and frames, as in .lz4 files and Arrow IPC.
 *
 * Parquet's first LZ4 codec is Hadoop's framing of raw blocks in most files: two big-endian lengths stand before each
 * block, of its decompressed and of its compressed bytes. Some files have a raw block instead.
 *
 * Tests: test_codec.c. */
#include "codec/codec.h"

#ifdef HR_HAVE_LZ4
#include <lz4.h>
#include <lz4frame.h>
#include <lz4hc.h>

static hr_status lz4_block(hr_view v, uint8_t *out, int64_t n_out, hr_error *err)
{
    uint8_t nothing;
    int n;

    if (v.n > INT32_MAX || n_out > INT32_MAX)
        return hr_error_set(err, HR_BAD_DATA, "lz4: %lld bytes cannot decompress to %lld, a block has at most 2 GiB",
                            (long long)v.n, (long long)n_out);
    if (v.n == 0 && n_out == 0)
        return HR_OK;
    n = LZ4_decompress_safe((const char *)v.data, (char *)(out ? out : &nothing), (int)v.n, (int)n_out);
    if (n < 0)
        return hr_error_set(err, HR_BAD_DATA, "lz4: malformed block");
    if (n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "lz4: the block has %d bytes, expected %lld", n, (long long)n_out);
    return HR_OK;
}

static hr_status lz4_prefix(hr_view v, uint8_t *out, int64_t n_out, int64_t *n_made, hr_error *err)
{
    int n;

    *n_made = 0;
    if (v.n > INT32_MAX || n_out > INT32_MAX)
        return hr_error_set(err, HR_BAD_DATA, "lz4: %lld bytes cannot decompress to %lld, a block has at most 2 GiB",
                            (long long)v.n, (long long)n_out);
    n = LZ4_decompress_safe_partial((const char *)v.data, (char *)out, (int)v.n, (int)n_out, (int)n_out);
    if (n < 0)
        return hr_error_set(err, HR_BAD_DATA, "lz4: malformed block");
    *n_made = n;
    return HR_OK;
}

static int64_t big_endian(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

/* Whether v is a sequence of blocks whose lengths fit v and n_out exactly. Raw blocks hardly ever do. */
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

/* --- packing */

static int64_t lz4_max_packed(int64_t n) { return n + n / 255 + 16; }

static hr_status check_level(int level, hr_error *err)
{
    return level < 0 || level > LZ4HC_CLEVEL_MAX
               ? hr_error_set(err, HR_INVALID, "lz4: level is %d, expected 1 to %d", level, LZ4HC_CLEVEL_MAX)
               : HR_OK;
}

static hr_status lz4_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    int n, room = (int)HR_MIN(cap, INT32_MAX);

    HR_TRY(check_level(level, err));
    if (in.n > LZ4_MAX_INPUT_SIZE)
        return hr_error_set(err, HR_UNSUPPORTED, "lz4: a block has %lld bytes, expected at most %d", (long long)in.n,
                            LZ4_MAX_INPUT_SIZE);
    if (hr__fault(HR_FAULT_MEMORY))
        return hr__error_memory(err, "lz4", 16 << 10);
    n = level < LZ4HC_CLEVEL_MIN ? LZ4_compress_default((const char *)in.data, (char *)out, (int)in.n, room)
                                 : LZ4_compress_HC((const char *)in.data, (char *)out, (int)in.n, room, level);
    if (n <= 0)
        return hr_error_set(err, HR_INVALID, "lz4: %lld bytes do not fit into a block of %lld", (long long)in.n,
                            (long long)cap);
    *n_out = n;
    return HR_OK;
}

static hr_status hadoop_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    int64_t n = 0;

    if (cap < 8)
        return hr_error_set(err, HR_INVALID, "lz4: %lld bytes do not fit into a block of %lld", (long long)in.n,
                            (long long)cap);
    HR_TRY(lz4_pack(in, out + 8, cap - 8, level, &n, err));
    for (int i = 0; i < 4; i++) {
        out[i] = (uint8_t)(in.n >> (24 - 8 * i));
        out[4 + i] = (uint8_t)(n >> (24 - 8 * i));
    }
    *n_out = n + 8;
    return HR_OK;
}

static int64_t hadoop_max_packed(int64_t n) { return 8 + lz4_max_packed(n); }

/* --- frames */

static const LZ4F_preferences_t usual = { .frameInfo = { .blockSizeID = LZ4F_max64KB,
                                                         .blockMode = LZ4F_blockIndependent } };

static int64_t frame_max_packed(int64_t n) { return (int64_t)LZ4F_compressFrameBound((size_t)n, &usual) + 4; }

static hr_status frame(hr_view in, uint8_t *out, int64_t cap, int level, bool checksum, int64_t *n_out, hr_error *err)
{
    LZ4F_preferences_t how = usual;
    size_t n;

    HR_TRY(check_level(level, err));
    if (hr__fault(HR_FAULT_MEMORY))
        return hr__error_memory(err, "lz4", 16 << 10);
    how.compressionLevel = level;
    how.frameInfo.contentSize = (unsigned long long)in.n;
    how.frameInfo.contentChecksumFlag = checksum ? LZ4F_contentChecksumEnabled : LZ4F_noContentChecksum;
    n = LZ4F_compressFrame(out, (size_t)cap, in.data, (size_t)in.n, &how);
    if (LZ4F_isError(n))
        return hr_error_set(err, HR_INVALID, "lz4: %s", LZ4F_getErrorName(n));
    *n_out = (int64_t)n;
    return HR_OK;
}

static hr_status frame_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    return frame(in, out, cap, level, false, n_out, err);
}

static hr_status frame_pack_file(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    return frame(in, out, cap, level, true, n_out, err);
}

static hr_codec_local contexts = HR_CODEC_LOCAL_INIT;

static void drop(void *context) { LZ4F_freeDecompressionContext(context); }
static void init(void) { pthread_key_create(&contexts.key, drop); }
static void *make(void)
{
    LZ4F_dctx *c = NULL;

    return LZ4F_isError(LZ4F_createDecompressionContext(&c, LZ4F_VERSION)) ? NULL : c;
}

/* Decodes consecutive frames, n_out bytes in all. */
static hr_status frame_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    LZ4F_dctx *context = hr__codec_local(&contexts, init, make);
    size_t hint = 1;
    int64_t n = 0;

    if (!context)
        return hr__error_memory(err, "lz4", (int64_t)sizeof context);
    LZ4F_resetDecompressionContext(context);
    while (in.n > 0) {
        uint8_t beyond;
        size_t took = (size_t)in.n, made = (size_t)(n_out - n);

        hint = LZ4F_decompress(context, n < n_out ? out + n : &beyond, &made, in.data, &took, NULL);
        if (LZ4F_isError(hint))
            return hr_error_set(err, HR_BAD_DATA, "lz4: %s", LZ4F_getErrorName(hint));
        n += (int64_t)made;
        in = (hr_view){ in.data + took, in.n - (int64_t)took };
        if (took == 0 && made == 0)
            return hr_error_set(err, HR_BAD_DATA, "lz4: the frames have more bytes than the expected %lld",
                                (long long)n_out);
    }
    if (hint != 0)
        return hr_error_set(err, HR_BAD_DATA, "lz4: the last frame is incomplete");
    if (n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "lz4: the frames have %lld bytes, expected %lld", (long long)n,
                            (long long)n_out);
    return HR_OK;
}

#define IN_BYTES (64 << 10)

typedef struct lz4_stream {
    hr_stream base;
    hr_stream *below;
    const char *name;
    LZ4F_dctx *context;
    bool below_ended;
    bool in_frame; /* inside a frame */
    int64_t at, n; /* the unused part of bytes */
    uint8_t bytes[IN_BYTES];
} lz4_stream;

static hr_status lz4_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    lz4_stream *s = (lz4_stream *)base;

    *n_read = 0;
    while (*n_read == 0) {
        size_t made = (size_t)n, took, hint;

        if (s->at == s->n && !s->below_ended) {
            HR_TRY(hr__stream_read(s->below, s->bytes, IN_BYTES, &s->n, err));
            s->at = 0;
            s->below_ended = s->n < IN_BYTES;
        }
        if (s->at == s->n && !s->in_frame)
            return HR_OK; /* the end, between frames */
        took = (size_t)(s->n - s->at);
        hint = LZ4F_decompress(s->context, out, &made, s->bytes + s->at, &took, NULL);
        if (LZ4F_isError(hint))
            return hr_error_set(err, HR_BAD_DATA, "%s: lz4: %s", s->name, LZ4F_getErrorName(hint));
        if (made == 0 && took == 0 && s->below_ended)
            return hr_error_set(err, HR_BAD_DATA, "%s: lz4: the last frame is incomplete", s->name);
        s->at += (int64_t)took;
        s->in_frame = hint != 0;
        *n_read = (int64_t)made;
    }
    return HR_OK;
}

static void lz4_close(hr_stream *base)
{
    lz4_stream *s = (lz4_stream *)base;

    LZ4F_freeDecompressionContext(s->context);
    hr__stream_close(s->below);
    hr__free(s);
}

static const hr_stream_class lz4_class = { lz4_read, lz4_close };

static hr_status lz4_open(hr_stream *below, const char *name, hr_account *account, hr_stream **out, hr_error *err)
{
    lz4_stream *s = hr__zalloc(account, sizeof *s);

    *out = NULL;
    if (!s) {
        hr__stream_close(below);
        return hr__error_memory(err, name, sizeof *s);
    }
    s->base.cls = &lz4_class;
    s->below = below;
    s->name = name;
    s->context = hr__fault(HR_FAULT_MEMORY) ? NULL : make();
    if (!s->context) {
        lz4_close(&s->base);
        return hr__error_memory(err, name, (int64_t)sizeof s->context);
    }
    *out = &s->base;
    return HR_OK;
}
#else
#define lz4_block NULL
#define lz4_prefix NULL
#define lz4_pack NULL
#define lz4_max_packed NULL
#define hadoop_block NULL
#define hadoop_pack NULL
#define hadoop_max_packed NULL
#define frame_block NULL
#define frame_pack NULL
#define frame_pack_file NULL
#define frame_max_packed NULL
#define lz4_open NULL
#endif

/* A length byte counts 255. */
const hr_codec hr__codec_lz4 = {
    .name = "lz4",
    .library = "liblz4",
    .max_ratio = 256,
    .block = lz4_block,
    .prefix = lz4_prefix,
    .pack = lz4_pack,
    .max_packed_bytes = lz4_max_packed,
};
const hr_codec hr__codec_lz4_hadoop = {
    .name = "lz4_hadoop",
    .library = "liblz4",
    .max_ratio = 256,
    .block = hadoop_block,
    .pack = hadoop_pack,
    .max_packed_bytes = hadoop_max_packed,
};
const hr_codec hr__codec_lz4_frame = {
    .name = "lz4_frame",
    .suffixes = "lz4",
    .magic = "\x04\x22\x4d\x18",
    .library = "liblz4",
    .max_ratio = 256,
    .block = frame_block,
    .stream = lz4_open,
    .pack = frame_pack,
    .pack_file = frame_pack_file,
    .max_packed_bytes = frame_max_packed,
};
