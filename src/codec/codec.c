/* codec.c - the list of codecs, and the code that they share. */
#include "codec/codec.h"

#include <strings.h>

/* Codecs without code: known by name, so that an error can name what the file needs. */
static const hr_codec lzo = { .name = "lzo", .library = "lzo" };
static const hr_codec bzip2 = { .name = "bzip2", .suffixes = "bz2", .magic = "BZh", .library = "bzip2" };
static const hr_codec xz = { .name = "xz",
                             .suffixes = "xz",
                             .magic = "\xfd"
                                      "7zXZ",
                             .library = "liblzma" };

const hr_codec *const hr__codecs[] = { &hr__codec_zstd,
                                       &hr__codec_snappy,
                                       &hr__codec_gzip,
                                       &hr__codec_lz4,
                                       &hr__codec_lz4_hadoop,
                                       &hr__codec_lz4_frame,
                                       &hr__codec_brotli,
                                       &lzo,
                                       &bzip2,
                                       &xz,
                                       NULL };

const hr_codec *hr__codec_by_name(const char *name)
{
    for (const hr_codec *const *c = hr__codecs; *c; c++) {
        if (strcmp((*c)->name, name) == 0)
            return *c;
    }
    return NULL;
}

static bool has_suffix(const char *path, const char *suffixes)
{
    const char *dot = strrchr(path, '.');
    size_t n = dot ? strlen(++dot) : 0;

    if (n == 0 || !suffixes || strchr(dot, '/'))
        return false;
    for (const char *s = suffixes; *s; s += strcspn(s, " "), s += strspn(s, " ")) {
        if (strcspn(s, " ") == n && strncasecmp(s, dot, n) == 0)
            return true;
    }
    return false;
}

const hr_codec *hr__codec_by_suffix(const char *path)
{
    for (const hr_codec *const *c = hr__codecs; *c; c++) {
        if (has_suffix(path, (*c)->suffixes))
            return *c;
    }
    return NULL;
}

const hr_codec *hr__codec_guess(const char *path, hr_view head)
{
    for (const hr_codec *const *c = hr__codecs; *c; c++) {
        if ((*c)->magic && hr__view_starts(head, (*c)->magic))
            return *c;
    }
    return head.n > 0 ? hr__codec_by_suffix(path) : NULL; /* an empty file needs no codec */
}

static hr_status missing(const hr_codec *c, hr_error *err)
{
    return hr_error_set(err, HR_UNSUPPORTED, "compressed by %s: this build lacks %s", c->name, c->library);
}

hr_status hr__codec_check(const hr_codec *c, int64_t n_in, int64_t n_out, hr_error *err)
{
    if (!c->block)
        return missing(c, err);
    if (n_in < 0 || n_out < 0 || n_out / c->max_ratio > n_in)
        return hr_error_set(err, HR_BAD_DATA, "%lld bytes of %s cannot decompress to %lld", (long long)n_in, c->name,
                            (long long)n_out);
    return HR_OK;
}

hr_status hr__codec_block_verified(const hr_codec *c, hr_codec_verify verify, hr_view in, uint8_t *out, int64_t n_out,
                                   hr_error *err)
{
    HR_TRY(hr__codec_check(c, in.n, n_out, err));
    HR_TRY(c->block(in, out, n_out, err));
    return verify && c->check ? c->check(in, verify == HR_VERIFY_ALL, err) : HR_OK;
}

hr_status hr__codec_block(const hr_codec *c, hr_view in, uint8_t *out, int64_t n_out, hr_error *err)
{
    return hr__codec_block_verified(c, HR_VERIFY_USUAL, in, out, n_out, err);
}

hr_status hr__codec_pack(const hr_codec *c, hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out,
                         hr_error *err)
{
    if (!c->pack)
        return hr_error_set(err, HR_UNSUPPORTED, "compressing by %s: this build lacks %s", c->name, c->library);
    return c->pack(in, out, cap, level, n_out, err);
}

hr_status hr__codec_pack_file(const hr_codec *c, hr_view in, uint8_t *out, int64_t cap, int level, int64_t *n_out,
                              hr_error *err)
{
    if (!c->pack_file)
        return hr__codec_pack(c, in, out, cap, level, n_out, err);
    return c->pack_file(in, out, cap, level, n_out, err);
}

hr_status hr__codec_stream(const hr_codec *c, hr_source *source, hr_account *account, hr_stream **out, hr_error *err)
{
    hr_stream *plain;

    *out = NULL;
    if (c && !c->stream)
        return hr__error_at(err, missing(c, err), "%s", source->name);
    HR_TRY(hr__stream_new(source, account, &plain, err));
    if (c)
        return c->stream(plain, source->name, account, out, err);
    *out = plain;
    return HR_OK;
}

void *hr__codec_local(hr_codec_local *l, void (*init)(void), void *(*make)(void))
{
    void *context;

    if (hr__fault(HR_FAULT_MEMORY) || pthread_once(&l->once, init) != 0)
        return NULL;
    context = pthread_getspecific(l->key);
    if (context)
        return context;
    context = make();
    if (context)
        pthread_setspecific(l->key, context); /* fails only without memory; the stream then stays open, unused */
    return context;
}
