/* gzip.c - gzip and zlib framing of deflate: whole blocks by libdeflate, streams by ISA-L, each by zlib if the library
 * is missing.
 *
 * A gzip file has one or several consecutive members (`cat a.gz b.gz` and parallel compressors make several). Zeros
 * after the last member are ignored, as gzip does.
 *
 * Tests: test_codec.c. */
#include "codec/codec.h"

#if defined(HR_HAVE_DEFLATE)
#include <libdeflate.h>
#endif
#if defined(HR_HAVE_ISAL)
#include <isa-l/igzip_lib.h>
#endif
#if defined(HR_HAVE_ZLIB)
#include <zlib.h>
#endif

#if defined(HR_HAVE_DEFLATE) || defined(HR_HAVE_ISAL) || defined(HR_HAVE_ZLIB)
static bool only_zeros(const uint8_t *p, int64_t n)
{
    while (n > 0 && p[n - 1] == 0)
        n--;
    return n == 0;
}

static bool is_gzip(const uint8_t *p, int64_t n) { return n >= 2 && p[0] == 0x1f && p[1] == 0x8b; }
#endif

/* --- blocks */

#if defined(HR_HAVE_DEFLATE)

static hr_codec_local contexts = HR_CODEC_LOCAL_INIT;

static void drop(void *context) { libdeflate_free_decompressor(context); }
static void init(void) { pthread_key_create(&contexts.key, drop); }
static void *make(void) { return libdeflate_alloc_decompressor(); }

/* Decodes one member; *took and *made are the bytes that it consumed and produced. */
static hr_status one_member(hr_view in, uint8_t *out, int64_t n_out, size_t *took, size_t *made, hr_error *err)
{
    struct libdeflate_decompressor *d = hr__codec_local(&contexts, init, make);
    enum libdeflate_result rc;

    if (!d)
        return hr__error_memory(err, "gzip", (int64_t)sizeof d);
    rc = is_gzip(in.data, in.n)
             ? libdeflate_gzip_decompress_ex(d, in.data, (size_t)in.n, out, (size_t)n_out, took, made)
             : libdeflate_zlib_decompress_ex(d, in.data, (size_t)in.n, out, (size_t)n_out, took, made);
    if (rc == LIBDEFLATE_INSUFFICIENT_SPACE)
        return hr_error_set(err, HR_BAD_DATA, "gzip: the block has more bytes than the expected %lld",
                            (long long)n_out);
    return rc == LIBDEFLATE_SUCCESS ? HR_OK : hr_error_set(err, HR_BAD_DATA, "gzip: malformed block");
}

#elif defined(HR_HAVE_ZLIB)

static hr_status one_member(hr_view in, uint8_t *out, int64_t n_out, size_t *took, size_t *made, hr_error *err)
{
    z_stream z = { .next_in = (Bytef *)(uintptr_t)in.data,
                   .avail_in = (uInt)HR_MIN(in.n, INT32_MAX),
                   .next_out = out,
                   .avail_out = (uInt)HR_MIN(n_out, INT32_MAX) };
    int rc;

    if (hr__fault(HR_FAULT_MEMORY) || inflateInit2(&z, 15 + 32) != Z_OK)
        return hr__error_memory(err, "gzip", (int64_t)sizeof z);
    rc = inflate(&z, Z_FINISH);
    *took = z.total_in;
    *made = z.total_out;
    inflateEnd(&z);
    if (rc == Z_BUF_ERROR && z.avail_out == 0)
        return hr_error_set(err, HR_BAD_DATA, "gzip: the block has more bytes than the expected %lld",
                            (long long)n_out);
    return rc == Z_STREAM_END ? HR_OK : hr_error_set(err, HR_BAD_DATA, "gzip: malformed block");
}

#endif

#if defined(HR_HAVE_DEFLATE) || defined(HR_HAVE_ZLIB)
static hr_status gzip_block(hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    int64_t n = 0;

    do {
        size_t took = 0, made = 0;

        HR_TRY(one_member(in, out + n, n_out - n, &took, &made, err));
        n += (int64_t)made;
        in = (hr_view){ in.data + took, in.n - (int64_t)took };
    } while (is_gzip(in.data, in.n));
    if (n != n_out)
        return hr_error_set(err, HR_BAD_DATA, "gzip: the block has %lld bytes, expected %lld", (long long)n,
                            (long long)n_out);
    if (!only_zeros(in.data, in.n))
        return hr_error_set(err, HR_BAD_DATA, "gzip: %lld bytes follow the end of the block", (long long)in.n);
    return HR_OK;
}
#else
#define gzip_block NULL
#endif

/* --- packing: one member */

#define USUAL_LEVEL 6

#if defined(HR_HAVE_DEFLATE)
#define MAX_LEVEL 12

static hr_codec_local packers = HR_CODEC_LOCAL_INIT;
static _Thread_local int packer_level; /* the level of this thread's compressor */

static void drop_packer(void *context) { libdeflate_free_compressor(context); }
static void init_packers(void) { pthread_key_create(&packers.key, drop_packer); }
static void *make_packer(void) { return libdeflate_alloc_compressor(packer_level); }

static int64_t gzip_max_packed(int64_t n) { return (int64_t)libdeflate_gzip_compress_bound(NULL, (size_t)n); }

static hr_status pack_member(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    struct libdeflate_compressor *p;

    if (packer_level != level && packer_level != 0) {
        libdeflate_free_compressor(pthread_getspecific(packers.key));
        pthread_setspecific(packers.key, NULL);
    }
    packer_level = level;
    p = hr__codec_local(&packers, init_packers, make_packer);
    if (!p)
        return hr__error_memory(err, "gzip", (int64_t)sizeof p);
    *n_out = (int64_t)libdeflate_gzip_compress(p, in.data, (size_t)in.n, out, (size_t)cap);
    return HR_OK;
}

#elif defined(HR_HAVE_ZLIB)
#define MAX_LEVEL 9

static int64_t gzip_max_packed(int64_t n) { return n + (n >> 10) + 64; }

static hr_status pack_member(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    z_stream z = {
        .next_in = (Bytef *)(uintptr_t)in.data, .avail_in = (uInt)in.n, .next_out = out, .avail_out = (uInt)cap
    };
    int rc;

    if (in.n > INT32_MAX || cap > UINT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "gzip: a block has %lld bytes, zlib takes at most 2 GiB",
                            (long long)in.n);
    if (hr__fault(HR_FAULT_MEMORY) || deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return hr__error_memory(err, "gzip", (int64_t)sizeof z);
    rc = deflate(&z, Z_FINISH);
    *n_out = rc == Z_STREAM_END ? (int64_t)z.total_out : 0;
    deflateEnd(&z);
    return HR_OK;
}
#endif

#if defined(HR_HAVE_DEFLATE) || defined(HR_HAVE_ZLIB)
static hr_status gzip_pack(hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out, hr_error *err)
{
    if (level < 0 || level > MAX_LEVEL)
        return hr_error_set(err, HR_INVALID, "gzip: level is %d, expected 1 to %d", level, MAX_LEVEL);
    HR_TRY(pack_member(in, out, cap, level ? level : USUAL_LEVEL, n_out, err));
    if (*n_out == 0)
        return hr_error_set(err, HR_NO_MEMORY, "gzip: %lld bytes do not fit into a block of %lld", (long long)in.n,
                            (long long)cap);
    return HR_OK;
}
#else
#define gzip_pack NULL
#define gzip_max_packed NULL
#endif

/* --- streams */

#if defined(HR_HAVE_ISAL) || defined(HR_HAVE_ZLIB)

#define IN_BYTES (128 << 10)

typedef struct gzip_stream {
    hr_stream base;
    hr_stream *below;
    const char *name;
    bool below_ended;
    bool in_member; /* inside a member */
    bool padding;   /* zeros followed a member: only zeros may follow */
    int64_t at, n;  /* the unused part of bytes */
    uint8_t bytes[IN_BYTES];
#if defined(HR_HAVE_ISAL)
    struct inflate_state state;
#else
    z_stream state;
#endif
} gzip_stream;

/* Feeds the decoder with the unused bytes: it produces *made bytes; *ended: a member ended. Moves s->at. */
#if defined(HR_HAVE_ISAL)

static hr_status engine_begin(gzip_stream *s, hr_error *err)
{
    (void)err;
    isal_inflate_init(&s->state);
    s->state.crc_flag = ISAL_GZIP;
    return HR_OK;
}

static void engine_end(gzip_stream *s) { (void)s; }

static hr_status engine_run(gzip_stream *s, uint8_t *out, int64_t n, int64_t *made, bool *ended, hr_error *err)
{
    int rc;

    s->state.next_in = s->bytes + s->at;
    s->state.avail_in = (uint32_t)(s->n - s->at);
    s->state.next_out = out;
    s->state.avail_out = (uint32_t)HR_MIN(n, 1 << 30);
    rc = isal_inflate(&s->state);
    if (rc != ISAL_DECOMP_OK && rc != ISAL_END_INPUT)
        return hr_error_set(err, HR_BAD_DATA, "%s: gzip: %s", s->name,
                            rc == ISAL_INCORRECT_CHECKSUM ? "the checksum does not fit" : "malformed data");
    s->at = s->n - (int64_t)s->state.avail_in;
    *made = HR_MIN(n, 1 << 30) - (int64_t)s->state.avail_out;
    *ended = s->state.block_state == ISAL_BLOCK_FINISH;
    return HR_OK;
}

#else

static hr_status engine_begin(gzip_stream *s, hr_error *err)
{
    memset(&s->state, 0, sizeof s->state);
    if (hr__fault(HR_FAULT_MEMORY) || inflateInit2(&s->state, 15 + 16) != Z_OK)
        return hr__error_memory(err, s->name, (int64_t)sizeof s->state);
    return HR_OK;
}

static void engine_end(gzip_stream *s) { inflateEnd(&s->state); }

static hr_status engine_run(gzip_stream *s, uint8_t *out, int64_t n, int64_t *made, bool *ended, hr_error *err)
{
    int rc;

    s->state.next_in = s->bytes + s->at;
    s->state.avail_in = (uInt)(s->n - s->at);
    s->state.next_out = out;
    s->state.avail_out = (uInt)HR_MIN(n, 1 << 30);
    rc = inflate(&s->state, Z_NO_FLUSH);
    if (rc == Z_MEM_ERROR)
        return hr__error_memory(err, s->name, 32 << 10);
    if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
        return hr_error_set(err, HR_BAD_DATA, "%s: gzip: %s", s->name, s->state.msg ? s->state.msg : "malformed data");
    s->at = s->n - (int64_t)s->state.avail_in;
    *made = HR_MIN(n, 1 << 30) - (int64_t)s->state.avail_out;
    *ended = rc == Z_STREAM_END;
    return HR_OK;
}

#endif

static hr_status refill(gzip_stream *s, hr_error *err)
{
    int64_t n;

    memmove(s->bytes, s->bytes + s->at, (size_t)(s->n - s->at));
    s->n -= s->at;
    s->at = 0;
    HR_TRY(hr__stream_read(s->below, s->bytes + s->n, IN_BYTES - s->n, &n, err));
    s->below_ended = n < IN_BYTES - s->n;
    s->n += n;
    return HR_OK;
}

/* Between members: expects the next one, padding, or the end. */
static hr_status next_member(gzip_stream *s, bool *more, hr_error *err)
{
    hr_status st = HR_OK;

    *more = false;
    while (s->n - s->at < 2 && !s->below_ended)
        HR_GO(refill(s, err));
    if (is_gzip(s->bytes + s->at, s->n - s->at) && !s->padding) {
        HR_GO(engine_begin(s, err));
        *more = s->in_member = true;
        goto done;
    }
    if (s->n > s->at) {
        s->padding = true;
        for (;; s->at = s->n) {
            if (!only_zeros(s->bytes + s->at, s->n - s->at))
                HR_FAIL(HR_BAD_DATA, "%s: gzip: expected a member, found 0x%02x", s->name, s->bytes[s->at]);
            if (s->below_ended)
                break;
            s->at = s->n;
            HR_GO(refill(s, err));
        }
    }
done:
    return st;
}

static hr_status gzip_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    gzip_stream *s = (gzip_stream *)base;

    *n_read = 0;
    while (*n_read == 0) {
        bool more, ended = false;
        int64_t had;

        if (!s->in_member) {
            HR_TRY(next_member(s, &more, err));
            if (!more)
                return HR_OK;
        }
        if (s->at == s->n && !s->below_ended)
            HR_TRY(refill(s, err));
        had = s->at;
        HR_TRY(engine_run(s, out, n, n_read, &ended, err));
        if (ended) {
            engine_end(s);
            s->in_member = false;
        } else if (*n_read == 0 && s->at == had && s->below_ended) {
            return hr_error_set(err, HR_BAD_DATA, "%s: gzip: the last member is incomplete", s->name);
        }
    }
    return HR_OK;
}

static void gzip_close(hr_stream *base)
{
    gzip_stream *s = (gzip_stream *)base;

    if (s->in_member)
        engine_end(s);
    hr__stream_close(s->below);
    hr__free(s);
}

static const hr_stream_class gzip_class = { gzip_read, gzip_close };

static hr_status gzip_open(hr_stream *below, const char *name, hr_account *account, hr_stream **out, hr_error *err)
{
    gzip_stream *s = hr__alloc(account, sizeof *s);

    *out = NULL;
    if (!s) {
        hr__stream_close(below);
        return hr__error_memory(err, name, sizeof *s);
    }
    s->base.cls = &gzip_class;
    s->below = below;
    s->name = name;
    s->below_ended = s->in_member = s->padding = false;
    s->at = s->n = 0;
    *out = &s->base;
    return HR_OK;
}
#else
#define gzip_open NULL
#endif

/* deflate: 258 bytes by two codes of one bit each. */
const hr_codec hr__codec_gzip = {
    .name = "gzip",
    .suffixes = "gz gzip",
    .magic = "\x1f\x8b",
    .library = "libdeflate, ISA-L or zlib",
    .max_ratio = 1040,
    .block = gzip_block,
    .stream = gzip_open,
    .pack = gzip_pack,
    .max_packed_bytes = gzip_max_packed,
};
