/* recode.c - a stream that turns text in another encoding into UTF-8, by libc's iconv.
 *
 * Names are what users write: "latin-1", "utf_16_le", "cp1252". iconv spells them differently, so the code tries
 * several spellings. iconv consumes the byte order mark of "utf-16" and "utf-32"; this code skips the one of
 * "utf-8-sig". Bytes that are invalid in the encoding are an error that names their place, and so is an end in the
 * middle of a character. */
#include "codec/codec.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

#define IN_BYTES (64 << 10)
#define MAX_NAME 60

typedef struct recode_stream {
    hr_stream base;
    hr_stream *below;
    const char *name;
    char encoding[MAX_NAME];
    iconv_t state;
    int64_t offset; /* the offset of bytes[at] in the stream below */
    int64_t at, n;
    bool below_ended;
    bool flushed; /* iconv has returned its last bytes */
    char bytes[IN_BYTES];
    int64_t given, n_ready; /* of `ready`: UTF-8 */
    char ready[IN_BYTES];
} recode_stream;

/* Spelling k of a name; false: no more. */
static bool spelling(const char *name, int k, char out[MAX_NAME])
{
    size_t n = 0;

    for (const char *c = name; *c && n + 1 < MAX_NAME; c++) {
        bool is_mark = *c == '-' || *c == '_' || *c == ' ';
        bool joins = is_mark && (!strcasecmp(c + 1, "le") || !strcasecmp(c + 1, "be"));

        if (is_mark && (k == 3 || (k == 2 && joins)))
            continue;
        out[n++] = k == 0 ? *c : is_mark ? '-' : (char)toupper((unsigned char)*c);
    }
    out[n] = 0;
    return k <= 3;
}

bool hr__encoding_is_utf8(const char *name)
{
    char plain[MAX_NAME];

    spelling(name, 3, plain);
    return !strcmp(plain, "UTF8") || !strcmp(plain, "U8");
}

iconv_t hr__encoding_open(const char *encoding)
{
    iconv_t state = (iconv_t)-1;
    char text[MAX_NAME];

    if (strcasecmp(encoding, "utf-8-sig") == 0)
        encoding = "UTF-8";
    for (int k = 0; state == (iconv_t)-1 && spelling(encoding, k, text); k++)
        state = iconv_open("UTF-8", text);
    return state;
}

static void recode_close(hr_stream *base)
{
    recode_stream *s = (recode_stream *)base;

    if (s->state != (iconv_t)-1)
        iconv_close(s->state);
    hr__stream_close(s->below);
    hr__free(s);
}

static hr_status refill(recode_stream *s, hr_error *err)
{
    int64_t n;

    memmove(s->bytes, s->bytes + s->at, (size_t)(s->n - s->at));
    s->n -= s->at;
    s->at = 0;
    HR_TRY(hr__stream_read(s->below, s->bytes + s->n, IN_BYTES - s->n, &n, err));
    s->below_ended = n < IN_BYTES - s->n;
    s->n += n;
    if (s->offset == 0 && s->n >= 3 && !strcasecmp(s->encoding, "utf-8-sig") && !memcmp(s->bytes, "\xef\xbb\xbf", 3))
        s->at = s->offset = 3;
    return HR_OK;
}

static hr_status malformed(const recode_stream *s, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: byte %lld: 0x%02x%s is not %s", s->name, (long long)s->offset,
                        (unsigned char)s->bytes[s->at], s->n - s->at > 1 ? "..." : "", s->encoding);
}

/* Fills `ready`, unless the stream has ended. */
static hr_status convert(recode_stream *s, hr_error *err)
{
    char *to = s->ready;
    size_t room = sizeof s->ready;

    s->given = 0;
    while (!s->flushed && room == sizeof s->ready) {
        char *from = s->bytes + s->at;
        size_t left = (size_t)(s->n - s->at), rc;
        bool flush = left == 0 && s->below_ended;

        rc = left || flush ? iconv(s->state, left ? &from : NULL, &left, &to, &room) : 0;
        s->offset += s->n - s->at - (int64_t)left;
        s->at = s->n - (int64_t)left;
        if (rc == (size_t)-1 && errno != E2BIG && (errno == EILSEQ || s->below_ended))
            return malformed(s, err);
        s->flushed = flush;
        if (!s->below_ended && room == sizeof s->ready)
            HR_TRY(refill(s, err));
    }
    s->n_ready = (int64_t)(sizeof s->ready - room);
    return HR_OK;
}

static hr_status recode_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    recode_stream *s = (recode_stream *)base;

    if (s->given == s->n_ready)
        HR_TRY(convert(s, err));
    *n_read = HR_MIN(n, s->n_ready - s->given);
    memcpy(out, s->ready + s->given, (size_t)*n_read);
    s->given += *n_read;
    return HR_OK;
}

static const hr_stream_class recode_class = { recode_read, recode_close };

hr_status hr__recode_stream(hr_stream *takes_below, const char *encoding, const char *name, hr_account *account,
                            hr_stream **out, hr_error *err)
{
    recode_stream *s = hr__zalloc(account, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s) {
        hr__stream_close(takes_below);
        return hr__error_memory(err, name, sizeof *s);
    }
    s->base.cls = &recode_class;
    s->below = takes_below;
    s->name = name;
    s->state = (iconv_t)-1;
    strncpy(s->encoding, encoding, MAX_NAME - 1);
    s->state = hr__encoding_open(encoding);
    if (s->state == (iconv_t)-1)
        HR_FAIL(HR_INVALID, "%s: this system does not know the encoding '%s'", name, encoding);
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    if (s)
        recode_close(&s->base);
    return st;
}
