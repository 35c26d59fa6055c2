/* csv_encoding.c - text of other encodings as a stream of UTF-8, by the C library's iconv.
 *
 * Tests: test_csv.c. */
#include "codec/codec.h"
#include "format/csv/csv.h"

#include <errno.h>
#include <iconv.h>
#include <strings.h>

#define IN_BYTES (64 << 10)

typedef struct decoder {
    hr_stream base;
    hr_stream *below;
    char *name, *encoding;
    iconv_t cd;
    int errors;
    bool ended; /* `below` has */
    int64_t at; /* of in[0] in the encoded bytes */
    size_t n;
    int64_t n_small; /* decoded, not yet returned */
    char small[16];
    char in[IN_BYTES];
} decoder;

bool hr__csv_is_utf8_name(const char *encoding)
{
    static const char *const names[] = { "utf-8", "utf8", "utf_8", "ascii", "us-ascii", "utf-8-sig", "" };

    for (int i = 0; i < HR_LEN(names); i++) {
        if (!encoding || strcasecmp(encoding, names[i]) == 0)
            return true;
    }
    return false;
}

static void decoder_close(hr_stream *base)
{
    decoder *d = (decoder *)base;

    hr__stream_close(d->below);
    if (d->cd != (iconv_t)-1)
        iconv_close(d->cd);
    hr__free(d->name);
    hr__free(d->encoding);
    hr__free(d);
}

/* The first byte is invalid: an error, or continues after it. */
static hr_status bad_byte(decoder *d, char **in, size_t *n_in, char **to, size_t *n_to, hr_error *err)
{
    if (d->errors == CSV_STRICT)
        return hr_error_set(err, HR_BAD_DATA, "%s: byte %lld: 0x%02x is not %s", d->name,
                            (long long)(d->at + (*in - d->in)), (unsigned)(uint8_t)**in, d->encoding);
    if (d->errors == CSV_REPLACE) {
        memcpy(*to, "\xEF\xBF\xBD", 3); /* the caller left room */
        *to += 3;
        *n_to -= 3;
    }
    ++*in;
    --*n_in;
    return HR_OK;
}

static void give_small(decoder *d, void *out, int64_t n, int64_t *n_read)
{
    *n_read = HR_MIN(n, d->n_small);
    memcpy(out, d->small, (size_t)*n_read);
    d->n_small -= *n_read;
    memmove(d->small, d->small + *n_read, (size_t)d->n_small);
}

static hr_status decoder_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    decoder *d = (decoder *)base;
    char *to = d->small, *begin = to;
    size_t n_to = sizeof d->small;
    int64_t got;

    if (d->n_small > 0) {
        give_small(d, out, n, n_read);
        return HR_OK;
    }
    if (n >= (int64_t)sizeof d->small) { /* otherwise one character might not fit */
        to = begin = out;
        n_to = (size_t)n;
    }
    *n_read = 0;
    while (to == begin) {
        char *in = d->in;
        size_t left;

        if (!d->ended && d->n < IN_BYTES / 2) {
            HR_TRY(hr__stream_read(d->below, d->in + d->n, (int64_t)(IN_BYTES - d->n), &got, err));
            d->ended = got < (int64_t)(IN_BYTES - d->n);
            d->n += (size_t)got;
        }
        if (d->n == 0)
            break;
        left = d->n;
        if (iconv(d->cd, &in, &left, &to, &n_to) == (size_t)-1 && errno != E2BIG) {
            if (errno == EILSEQ || d->ended) {
                if (n_to >= 3)
                    HR_TRY(bad_byte(d, &in, &left, &to, &n_to, err));
            } else if (in == d->in && d->n >= IN_BYTES / 2) {
                return hr_error_set(err, HR_BAD_DATA, "%s: byte %lld: not %s", d->name, (long long)d->at, d->encoding);
            }
        }
        d->at += in - d->in;
        memmove(d->in, in, left);
        d->n = left;
    }
    *n_read = to - begin;
    if (begin == d->small) {
        d->n_small = to - begin;
        give_small(d, out, n, n_read);
    }
    return HR_OK;
}

static const hr_stream_class decoder_class = { decoder_read, decoder_close };

hr_status hr__csv_decode(hr_stream *below, const char *name, const char *encoding, int errors, hr_account *account,
                         hr_stream **out, hr_error *err)
{
    decoder *d = hr__alloc(account, sizeof *d);
    hr_status st;

    *out = NULL;
    if (!d) {
        hr__stream_close(below);
        return hr__error_memory(err, name, sizeof *d);
    }
    d->base.cls = &decoder_class;
    d->below = below;
    d->name = hr__strdup(account, name);
    d->encoding = hr__strdup(account, encoding);
    d->errors = errors;
    d->ended = false;
    d->at = 0;
    d->n = 0;
    d->n_small = 0;
    d->cd = hr__encoding_open(encoding);
    if (d->cd != (iconv_t)-1 && d->name && d->encoding) {
        *out = &d->base;
        return HR_OK;
    }
    st = d->cd == (iconv_t)-1 ? hr_error_set(err, HR_UNSUPPORTED,
                                             "%s: this system's iconv does not know the encoding '%s'", name, encoding)
                              : hr__error_memory(err, name, (int64_t)strlen(name));
    decoder_close(&d->base);
    return st;
}
