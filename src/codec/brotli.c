/* brotli.c - Brotli by libbrotlidec and libbrotlienc: reads and writes blocks, as in Parquet, and reads streams (.br).
 * A file is one stream without magic bytes: only its suffix identifies it.
 *
 * Tests: test_codec.c. */
#include "codec/codec.h"

#ifdef HR_HAVE_BROTLI
#include <brotli/decode.h>
#include <brotli/encode.h>

/* A decoder has no reset, so each block allocates its tables anew; that takes little time beside the decoding. */
static BrotliDecoderState *decoder_new(void)
{
    return hr__fault(HR_FAULT_MEMORY) ? NULL : BrotliDecoderCreateInstance(NULL, NULL, NULL);
}

static hr_status wrong(BrotliDecoderState *d, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "brotli: %s", BrotliDecoderErrorString(BrotliDecoderGetErrorCode(d)));
}

/* Decodes up to n_out bytes from the beginning. *ended: the stream ended there. */
static hr_status decode(hr_view in, uint8_t *out, int64_t n_out, int64_t *n_made, bool *ended, size_t *rest,
                        hr_error *err)
{
    BrotliDecoderState *d = decoder_new();
    const uint8_t *next = in.data;
    uint8_t *at = out;
    size_t left = (size_t)in.n, room = (size_t)n_out;
    BrotliDecoderResult rc;
    hr_status st = HR_OK;

    if (!d)
        return hr__error_memory(err, "brotli", (int64_t)sizeof d);
    rc = BrotliDecoderDecompressStream(d, &left, &next, &room, &at, NULL);
    if (rc == BROTLI_DECODER_RESULT_ERROR)
        st = wrong(d, err);
    *n_made = n_out - (int64_t)room;
    *ended = rc == BROTLI_DECODER_RESULT_SUCCESS;
    *rest = left;
    if (rc == BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT)
        *rest = 1;
    BrotliDecoderDestroyInstance(d);
    return st;
}

static hr_status brotli_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    int64_t n = 0;
    bool ended = false;
    size_t rest = 0;

    HR_TRY(decode(in, out, n_out, &n, &ended, &rest, err));
    if (!ended && rest > 0)
        return hr_error_set(err, HR_BAD_DATA, "brotli: the block has more bytes than the expected %lld",
                            (long long)n_out);
    if (!ended || n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "brotli: the block has %lld bytes, expected %lld", (long long)n,
                            (long long)n_out);
    return rest ? hr_error_set(err, HR_BAD_DATA, "brotli: %lld bytes follow the end of the block", (long long)rest)
                : HR_OK;
}

static hr_status brotli_prefix(hr_view in, uint8_t *out, int64_t n_out, int64_t *n_made, hr_error *err)
{
    bool ended;
    size_t rest;

    return decode(in, out, n_out, n_made, &ended, &rest, err);
}

/* --- streams */

#define IN_BYTES (64 << 10)

typedef struct brotli_stream {
    hr_stream base;
    hr_stream *below;
    const char *name;
    BrotliDecoderState *decoder;
    bool below_ended, ended, begun;
    const uint8_t *next;
    size_t left;
    uint8_t bytes[IN_BYTES];
} brotli_stream;

static hr_status refill(brotli_stream *s, hr_error *err)
{
    int64_t n;

    HR_TRY(hr__stream_read(s->below, s->bytes, IN_BYTES, &n, err));
    s->next = s->bytes;
    s->left = (size_t)n;
    s->below_ended = n < IN_BYTES;
    return HR_OK;
}

static hr_status brotli_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    brotli_stream *s = (brotli_stream *)base;

    *n_read = 0;
    while (*n_read == 0) {
        uint8_t *at = out;
        size_t room = (size_t)n;
        BrotliDecoderResult rc;

        if (s->left == 0 && !s->below_ended)
            HR_TRY(refill(s, err));
        if (s->left == 0 && (s->ended || !s->begun))
            return HR_OK;
        if (s->ended)
            return hr_error_set(err, HR_BAD_DATA, "%s: brotli: bytes follow the end of the stream", s->name);
        s->begun = true;
        rc = BrotliDecoderDecompressStream(s->decoder, &s->left, &s->next, &room, &at, NULL);
        if (rc == BROTLI_DECODER_RESULT_ERROR)
            return hr__error_at(err, wrong(s->decoder, err), "%s", s->name);
        *n_read = n - (int64_t)room;
        s->ended = rc == BROTLI_DECODER_RESULT_SUCCESS;
        if (rc == BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT && s->below_ended && *n_read == 0)
            return hr_error_set(err, HR_BAD_DATA, "%s: brotli: the stream is cut short", s->name);
    }
    return HR_OK;
}

static void brotli_close(hr_stream *base)
{
    brotli_stream *s = (brotli_stream *)base;

    if (s->decoder)
        BrotliDecoderDestroyInstance(s->decoder);
    hr__stream_close(s->below);
    hr__free(s);
}

static const hr_stream_class brotli_class = { brotli_read, brotli_close };

static hr_status brotli_open(hr_stream *below, const char *name, hr_account *account, hr_stream **out, hr_error *err)
{
    brotli_stream *s = hr__zalloc(account, sizeof *s);

    *out = NULL;
    if (!s) {
        hr__stream_close(below);
        return hr__error_memory(err, name, sizeof *s);
    }
    s->base.cls = &brotli_class;
    s->below = below;
    s->name = name;
    s->decoder = decoder_new();
    if (!s->decoder) {
        brotli_close(&s->base);
        return hr__error_memory(err, name, (int64_t)sizeof s->decoder);
    }
    *out = &s->base;
    return HR_OK;
}

#define USUAL_QUALITY 5 /* the library's default is 11, which takes a hundred times as long */

static int64_t brotli_max_packed(int64_t n) { return (int64_t)BrotliEncoderMaxCompressedSize((size_t)n) + 16; }

static hr_status brotli_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    size_t n = (size_t)cap;

    if (level < BROTLI_MIN_QUALITY || level > BROTLI_MAX_QUALITY)
        return hr_error_set(err, HR_INVALID, "brotli: level is %d, expected %d to %d", level, BROTLI_MIN_QUALITY,
                            BROTLI_MAX_QUALITY);
    if (hr__fault(HR_FAULT_MEMORY) || !BrotliEncoderCompress(level ? level : USUAL_QUALITY, BROTLI_DEFAULT_WINDOW,
                                                             BROTLI_MODE_GENERIC, (size_t)in.n, in.data, &n, out))
        return hr__error_memory(err, "brotli", in.n);
    *n_out = (int64_t)n;
    return HR_OK;
}
#else
#define brotli_pack NULL
#define brotli_max_packed NULL
#define brotli_block NULL
#define brotli_prefix NULL
#define brotli_open NULL
#endif

/* A copy of 16 MiB takes a few bytes. */
const hr_codec hr__codec_brotli = {
    .name = "brotli",
    .suffixes = "br",
    .library = "libbrotlidec and libbrotlienc",
    .max_ratio = 1 << 24,
    .block = brotli_block,
    .prefix = brotli_prefix,
    .stream = brotli_open,
    .pack = brotli_pack,
    .max_packed_bytes = brotli_max_packed,
};
