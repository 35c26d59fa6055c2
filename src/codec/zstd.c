/* zstd.c - Zstandard by libzstd: blocks (one frame or several, one after the other) and streams.
 *
 * Frames without a checksum, which is what Parquet's writers make, are checked beyond what libzstd before 1.5.6 does:
 * it decodes blocks whose header has reserved bits, or which have bytes behind a section that says it is empty. No
 * writer makes such blocks, but damage does (check_frames).
 *
 * The window of a stream is what its writer chose, up to libzstd's default limit of 128 MiB; blocks need none, they are
 * decoded in place. */
#include "codec/codec.h"

#ifdef HR_HAVE_ZSTD
#include <zstd.h>

static hr_codec_local contexts = HR_CODEC_LOCAL_INIT;

static void drop(void *context) { ZSTD_freeDCtx(context); }
static void init(void) { pthread_key_create(&contexts.key, drop); }
static void *make(void) { return ZSTD_createDCtx(); }

static uint32_t load_le(const uint8_t *p, int n)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint32_t)p[i] << (8 * i);
    return v;
}

/* Bytes of a compressed block's literals section, with its header; -1: they are more than the block's n. */
static int64_t literals_bytes(const uint8_t *p, int64_t n)
{
    int type = p[0] & 3, format = p[0] >> 2 & 3, header;
    int64_t stored;

    if (type < 2) { /* raw, or one byte repeated */
        header = format == 1 ? 2 : format == 3 ? 3 : 1;
        if (n < header)
            return -1;
        stored = type == 1 ? 1 : load_le(p, header) >> (header == 1 ? 3 : 4);
    } else {
        int bits = format < 2 ? 10 : format == 2 ? 14 : 18;
        uint64_t v;

        header = format < 2 ? 3 : format == 2 ? 4 : 5;
        if (n < header)
            return -1;
        v = load_le(p, HR_MIN(header, 4)) | (uint64_t)(header == 5 ? p[4] : 0) << 32;
        stored = (int64_t)(v >> (4 + bits) & ((1u << bits) - 1));
    }
    return header + stored <= n ? header + stored : -1;
}

/* Whether a compressed block's sequences section begins as one may. What is cut short is left to the decoder. */
static bool block_is_sound(const uint8_t *p, int64_t n)
{
    int64_t at = n > 0 ? literals_bytes(p, n) : -1, n_seq;

    if (at < 0 || at == n)
        return true;
    n_seq = p[at++];
    if (n_seq >= 128 && at < n)
        n_seq = n_seq == 255 ? n_seq : (n_seq - 128) << 8 | p[at];
    at += p[at - 1] == 255 ? 2 : p[at - 1] >= 128;
    if (at > n)
        return true;
    return n_seq == 0 ? at == n : at == n || (p[at] & 3) == 0;
}

/* Whether all blocks of all frames begin as they may. */
static bool frames_are_sound(hr_view in)
{
    const uint8_t *p = in.data, *end = in.data + in.n;

    while (end - p >= 5 && load_le(p, 4) == ZSTD_MAGICNUMBER) {
        static const int id_bytes[] = { 0, 1, 2, 4 }, size_bytes[] = { 0, 2, 4, 8 };
        int flags = p[4];
        bool last = false;

        p += 5 + !(flags & 0x20) + id_bytes[flags & 3] + (flags >> 6 || !(flags & 0x20) ? size_bytes[flags >> 6] : 1);
        while (!last) {
            uint32_t header;
            int64_t n;

            if (end - p < 3)
                return true;
            header = load_le(p, 3);
            last = header & 1;
            n = (header >> 1 & 3) == 1 ? 1 : header >> 3;
            p += 3;
            if (n > end - p)
                return true;
            if ((header >> 1 & 3) == 2 && !block_is_sound(p, n))
                return false;
            p += n;
        }
        p += flags & 4 ? 4 : 0;
    }
    return true;
}

static hr_status zstd_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    ZSTD_DCtx *context;
    size_t n;

    unsigned long long says = ZSTD_getFrameContentSize(in.data, (size_t)in.n);

    if (says != ZSTD_CONTENTSIZE_UNKNOWN && says != ZSTD_CONTENTSIZE_ERROR && says > (unsigned long long)n_out)
        return hr_error_set(err, HR_BAD_DATA, "zstd: makes %llu bytes, %lld are announced", says, (long long)n_out);
    if (!frames_are_sound(in))
        return hr_error_set(err, HR_BAD_DATA, "zstd: a block's header is malformed");
    context = hr__codec_local(&contexts, init, make);
    if (!context)
        return hr__error_memory(err, "zstd", (int64_t)sizeof context);
    n = ZSTD_decompressDCtx(context, out, (size_t)n_out, in.data, (size_t)in.n);
    if (ZSTD_isError(n))
        return hr_error_set(err, HR_BAD_DATA, "zstd: %s", ZSTD_getErrorName(n));
    if ((int64_t)n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "zstd: makes %lld bytes, %lld are announced", (long long)n,
                            (long long)n_out);
    return HR_OK;
}

static hr_status zstd_prefix(hr_view in, uint8_t *out, int64_t n_out, int64_t *n_made, hr_error *err)
{
    ZSTD_DCtx *context = hr__codec_local(&contexts, init, make);
    ZSTD_inBuffer from = { in.data, (size_t)in.n, 0 };
    ZSTD_outBuffer to = { out, (size_t)n_out, 0 };

    if (!context)
        return hr__error_memory(err, "zstd", (int64_t)sizeof context);
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    while (to.pos < to.size) {
        size_t had_in = from.pos, had_out = to.pos, rc = ZSTD_decompressStream(context, &to, &from);

        if (ZSTD_isError(rc))
            return hr_error_set(err, HR_BAD_DATA, "zstd: %s", ZSTD_getErrorName(rc));
        if (from.pos == had_in && to.pos == had_out)
            break;
    }
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    *n_made = (int64_t)to.pos;
    return HR_OK;
}

/* --- packing */

static hr_codec_local packers = HR_CODEC_LOCAL_INIT;

static void drop_packer(void *context) { ZSTD_freeCCtx(context); }
static void init_packers(void) { pthread_key_create(&packers.key, drop_packer); }
static void *make_packer(void) { return ZSTD_createCCtx(); }

static int64_t zstd_max_packed(int64_t n) { return (int64_t)ZSTD_compressBound((size_t)n) + 4; }

/* A frame. Pages of Parquet have a checksum of their own, what is spilled needs none; a file of its own has the
 * frame's. */
static hr_status pack(hr_view in, uint8_t *out, int64_t cap, int level, bool checksum, int64_t *n_out, hr_error *err)
{
    ZSTD_CCtx *context;
    size_t n;

    if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
        return hr_error_set(err, HR_INVALID, "zstd: level is %d, %d to %d exist", level, ZSTD_minCLevel(),
                            ZSTD_maxCLevel());
    context = hr__codec_local(&packers, init_packers, make_packer);
    if (!context)
        return hr__error_memory(err, "zstd", (int64_t)sizeof context);
    n = ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level ? level : ZSTD_CLEVEL_DEFAULT);
    if (!ZSTD_isError(n))
        n = ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum);
    if (!ZSTD_isError(n))
        n = ZSTD_compress2(context, out, (size_t)cap, in.data, (size_t)in.n);
    if (ZSTD_isError(n))
        return hr_error_set(err, HR_NO_MEMORY, "zstd: %s", ZSTD_getErrorName(n));
    *n_out = (int64_t)n;
    return HR_OK;
}

static hr_status zstd_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    return pack(in, out, cap, level, false, n_out, err);
}

static hr_status zstd_pack_file(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    return pack(in, out, cap, level, true, n_out, err);
}

/* --- streams */

#define IN_BYTES (128 << 10)

typedef struct zstd_stream {
    hr_stream base;
    hr_stream *below;
    const char *name;
    ZSTD_DCtx *context;
    ZSTD_inBuffer in;
    bool below_ended;
    bool in_frame; /* a frame was begun and not ended */
    uint8_t bytes[IN_BYTES];
} zstd_stream;

static hr_status refill(zstd_stream *s, hr_error *err)
{
    int64_t n;

    HR_TRY(hr__stream_read(s->below, s->bytes, IN_BYTES, &n, err));
    s->in = (ZSTD_inBuffer){ s->bytes, (size_t)n, 0 };
    s->below_ended = n < IN_BYTES;
    return HR_OK;
}

static hr_status zstd_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    zstd_stream *s = (zstd_stream *)base;
    ZSTD_outBuffer to = { out, (size_t)n, 0 };

    *n_read = 0;
    while (to.pos == 0) {
        size_t had, rc;

        if (s->in.pos == s->in.size && !s->below_ended)
            HR_TRY(refill(s, err));
        if (s->in.pos == s->in.size && !s->in_frame)
            return HR_OK; /* the end, between frames */
        had = s->in.pos;
        rc = ZSTD_decompressStream(s->context, &to, &s->in);
        if (ZSTD_isError(rc))
            return hr_error_set(err, HR_BAD_DATA, "%s: zstd: %s", s->name, ZSTD_getErrorName(rc));
        if (to.pos == 0 && s->in.pos == had && s->below_ended && rc != 0)
            return hr_error_set(err, HR_BAD_DATA, "%s: zstd: the last frame is cut short", s->name);
        s->in_frame = rc != 0;
    }
    *n_read = (int64_t)to.pos;
    return HR_OK;
}

static void zstd_close(hr_stream *base)
{
    zstd_stream *s = (zstd_stream *)base;

    ZSTD_freeDCtx(s->context);
    hr__stream_close(s->below);
    hr__free(s);
}

static const hr_stream_class zstd_class = { zstd_read, zstd_close };

static hr_status zstd_open(hr_stream *below, const char *name, hr_account *account, hr_stream **out, hr_error *err)
{
    zstd_stream *s = hr__alloc(account, sizeof *s);

    *out = NULL;
    if (!s) {
        hr__stream_close(below);
        return hr__error_memory(err, name, sizeof *s);
    }
    *s = (zstd_stream){ .base.cls = &zstd_class, .below = below, .name = name };
    s->context = hr__fault(HR_FAULT_MEMORY) ? NULL : ZSTD_createDCtx();
    if (!s->context) {
        zstd_close(&s->base);
        return hr__error_memory(err, name, (int64_t)sizeof s->context);
    }
    *out = &s->base;
    return HR_OK;
}
#else
#define zstd_block NULL
#define zstd_prefix NULL
#define zstd_open NULL
#define zstd_pack NULL
#define zstd_pack_file NULL
#define zstd_max_packed NULL
#endif

/* A run of one byte takes 3 + 1 bytes of 128 KiB; a frame's header is no less. */
const hr_codec hr__codec_zstd = {
    .name = "zstd",
    .suffixes = "zst zstd",
    .magic = "\x28\xb5\x2f\xfd",
    .library = "libzstd",
    .max_ratio = 32 << 10,
    .block = zstd_block,
    .prefix = zstd_prefix,
    .stream = zstd_open,
    .pack = zstd_pack,
    .pack_file = zstd_pack_file,
    .max_packed_bytes = zstd_max_packed,
};
