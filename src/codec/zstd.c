/* zstd.c - Zstandard by libzstd: blocks (one or several consecutive frames) and streams.
 *
 * Frames without a checksum, which is what Parquet's writers make, show damage where a block contradicts itself.
 * libzstd decodes some such blocks; zstd_check.c finds them.
 *
 * The writer of a stream chooses its window, up to libzstd's default limit of 128 MiB; blocks need no window, they are
 * decoded in place.
 *
 * Tests: test_codec.c. */
#include "codec/codec.h"
#include "codec/zstd_check.h"

#ifdef HR_HAVE_ZSTD
#include <zstd.h>

static hr_codec_local contexts = HR_CODEC_LOCAL_INIT;

static void drop(void *context) { ZSTD_freeDCtx(context); }
static void init(void) { pthread_key_create(&contexts.key, drop); }
static void *make(void) { return ZSTD_createDCtx(); }

/* Before 1.5.6 libzstd decodes many malformed blocks. */
static bool is_old(void) { return ZSTD_versionNumber() < 10506; }

static hr_status damaged(hr_error *err) { return hr_error_set(err, HR_BAD_DATA, "zstd: a block is malformed"); }

static hr_status zstd_check(hr_view in, bool all, hr_error *err)
{
    return (all || is_old()) && !hr__zstd_is_sound(in) ? damaged(err) : HR_OK;
}

static hr_status zstd_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    ZSTD_DCtx *context;
    size_t n;

    unsigned long long says = ZSTD_getFrameContentSize(in.data, (size_t)in.n);

    if (says != ZSTD_CONTENTSIZE_UNKNOWN && says != ZSTD_CONTENTSIZE_ERROR && says > (unsigned long long)n_out)
        return hr_error_set(err, HR_BAD_DATA, "zstd: the block has %llu bytes, expected %lld", says, (long long)n_out);
    context = hr__codec_local(&contexts, init, make);
    if (!context)
        return hr__error_memory(err, "zstd", (int64_t)sizeof context);
    n = ZSTD_decompressDCtx(context, out, (size_t)n_out, in.data, (size_t)in.n);
    if (ZSTD_isError(n))
        return hr_error_set(err, HR_BAD_DATA, "zstd: %s", ZSTD_getErrorName(n));
    if ((int64_t)n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "zstd: the block has %lld bytes, expected %lld", (long long)n,
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
    return zstd_check((hr_view){ in.data, (int64_t)from.pos }, false, err);
}

/* --- packing */

static hr_codec_local packers = HR_CODEC_LOCAL_INIT;

static void drop_packer(void *context) { ZSTD_freeCCtx(context); }
static void init_packers(void) { pthread_key_create(&packers.key, drop_packer); }
static void *make_packer(void) { return ZSTD_createCCtx(); }

static int64_t zstd_max_packed(int64_t n) { return (int64_t)ZSTD_compressBound((size_t)n) + 4; }

/* Packs one frame. Pages of Parquet have their own checksum, spill files have theirs; a .zst file has the frame's. */
static hr_status pack(hr_view in, uint8_t *out, int64_t cap, int level, bool checksum, int64_t *n_out, hr_error *err)
{
    ZSTD_CCtx *context;
    size_t n;

    if (level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())
        return hr_error_set(err, HR_INVALID, "zstd: level is %d, expected %d to %d", level, ZSTD_minCLevel(),
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
    hr_zstd_check *check; /* NULL: libzstd needs none */
    ZSTD_inBuffer in;
    bool below_ended;
    bool in_frame; /* inside a frame */
    uint8_t bytes[IN_BYTES];
} zstd_stream;

static hr_status refill(zstd_stream *s, hr_error *err)
{
    int64_t n;

    HR_TRY(hr__stream_read(s->below, s->bytes, IN_BYTES, &n, err));
    s->in = (ZSTD_inBuffer){ s->bytes, (size_t)n, 0 };
    s->below_ended = n < IN_BYTES;
    if (s->check && !hr__zstd_check_next(s->check, s->bytes, n))
        return hr__error_at(err, damaged(err), "%s", s->name);
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
            return hr_error_set(err, HR_BAD_DATA, "%s: zstd: the last frame is incomplete", s->name);
        s->in_frame = rc != 0;
    }
    *n_read = (int64_t)to.pos;
    return HR_OK;
}

static void zstd_close(hr_stream *base)
{
    zstd_stream *s = (zstd_stream *)base;

    ZSTD_freeDCtx(s->context);
    hr__zstd_check_free(s->check);
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
    if (is_old() && !(s->check = hr__zstd_check_new(account))) {
        zstd_close(&s->base);
        return hr__error_memory(err, name, HR_ZSTD_CHECK_BYTES);
    }
    *out = &s->base;
    return HR_OK;
}
#else
#define zstd_block NULL
#define zstd_check NULL
#define zstd_prefix NULL
#define zstd_open NULL
#define zstd_pack NULL
#define zstd_pack_file NULL
#define zstd_max_packed NULL
#endif

/* A run of one byte takes 3 + 1 bytes for 128 KiB; a frame's header is no smaller. */
const hr_codec hr__codec_zstd = {
    .name = "zstd",
    .suffixes = "zst zstd",
    .magic = "\x28\xb5\x2f\xfd",
    .library = "libzstd",
    .max_ratio = 32 << 10,
    .block = zstd_block,
    .check = zstd_check,
    .prefix = zstd_prefix,
    .stream = zstd_open,
    .pack = zstd_pack,
    .pack_file = zstd_pack_file,
    .max_packed_bytes = zstd_max_packed,
};
