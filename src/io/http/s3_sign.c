/* s3_sign.c - the signature (version 4) of requests to S3, and to Google's store with an HMAC key.
 *
 * The canonical request is made from the address as it is sent, where keys are encoded once, as S3 wants; callers give
 * queries that are encoded and sorted. Few headers are signed: host, date, the hash of the body, and the session's
 * token. Each attempt is signed anew, with the clock of the server where it differs from ours.
 *
 * Tests: test_s3.c. */
#include "io/http/http.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

#ifdef HR_HAVE_S3

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define HASH_BYTES 32
#define EMPTY_HASH "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" /* SHA-256 of no bytes */

static void add_hex(hr_text *out, const uint8_t *hash)
{
    for (int i = 0; i < HASH_BYTES; i++)
        hr__text_add(out, "%02x", hash[i]);
}

static bool hmac(uint8_t *out, const void *key, size_t n_key, const char *text)
{
    unsigned n = 0;

    return HMAC(EVP_sha256(), key, (int)n_key, (const uint8_t *)text, strlen(text), out, &n) && n == HASH_BYTES;
}

/* The words of a provider. */
typedef struct dialect {
    const char *name, *end, *service, *header;
} dialect;

static dialect dialect_of(const hr_sign_keys *k)
{
    static const dialect amazon = { "AWS4", "aws4_request", "s3", "x-amz" },
                         google = { "GOOG4", "goog4_request", "storage", "x-goog" };
    dialect d = k->condition ? google : amazon;

    d.service = k->service ? k->service : d.service;
    return d;
}

/* The key of a day, a region and the service. */
static bool signing_key(const hr_sign_keys *k, const dialect *d, const char *day, uint8_t *key)
{
    hr_text secret = { 0 };
    bool ok;

    hr__text_add(&secret, "%s%s", d->name, k->secret);
    ok = !secret.failed && hmac(key, secret.data, (size_t)secret.n, day) && hmac(key, key, HASH_BYTES, k->region) &&
         hmac(key, key, HASH_BYTES, d->service) && hmac(key, key, HASH_BYTES, d->end);
    if (secret.data)
        OPENSSL_cleanse(secret.data, (size_t)secret.n);
    hr__text_clear(&secret);
    return ok;
}

/* Host, path and query of an address, as they are signed. Ports that the scheme implies are not sent. */
static void add_request(hr_text *out, const char *method, const char *url)
{
    const char *host = strstr(url, "://") + 3, *path = host + strcspn(host, "/?"), *query = strchr(path, '?');
    int n_host = (int)(path - host), n_path = (int)(query ? query - path : (ptrdiff_t)strlen(path));
    const char *implied = strncasecmp(url, "https:", 6) == 0 ? ":443" : ":80";
    int n_implied = (int)strlen(implied);

    if (n_host > n_implied && strncmp(path - n_implied, implied, (size_t)n_implied) == 0)
        n_host -= n_implied;
    hr__text_add(out, "%s\n%.*s\n%s\nhost:%.*s\n", method, n_path ? n_path : 1, n_path ? path : "/",
                 query ? query + 1 : "", n_host, host);
}

static const char *header_of(const hr_sign_keys *k) { return k->header ? k->header : "x-amz-security-token"; }

/* The names of the signed headers, by which they are sorted. */
static void add_names(hr_text *out, const hr_sign_keys *k, const dialect *d)
{
    hr__text_add(out, "host;%s-content-sha256;%s-date%s%s%s", d->header, d->header, k->token ? ";" : "",
                 k->token ? header_of(k) : "", k->condition ? ";x-goog-if-generation-match" : "");
}

static void add_canonical(hr_text *out, const hr_sign_keys *k, const dialect *d, const char *method, const char *url,
                          const char *hash, const char *date)
{
    add_request(out, method, url);
    hr__text_add(out, "%s-content-sha256:%s\n%s-date:%s\n", d->header, hash, d->header, date);
    if (k->token)
        hr__text_add(out, "%s:%s\n", header_of(k), k->token);
    if (k->condition)
        hr__text_add(out, "x-goog-if-generation-match:%s\n", k->condition);
    hr__text_add(out, "\n");
    add_names(out, k, d);
    hr__text_add(out, "\n%s", hash);
}

static void add_signed(hr_text *headers, const hr_sign_keys *k, const dialect *d, const char *hash, const char *date,
                       const char *day, const uint8_t *sum)
{
    hr__text_add(headers, "%s-date: %s\n%s-content-sha256: %s\n", d->header, date, d->header, hash);
    if (k->token)
        hr__text_add(headers, "%s: %s\n", header_of(k), k->token);
    hr__text_add(headers, "Authorization: %s-HMAC-SHA256 Credential=%s/%s/%s/%s/%s, SignedHeaders=", d->name, k->key_id,
                 day, k->region, d->service, d->end);
    add_names(headers, k, d);
    hr__text_add(headers, ", Signature=");
    add_hex(headers, sum);
    hr__text_add(headers, "\n");
}

static bool hash_pieces(const hr_http_request *r, uint8_t *out)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    bool ok = sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1;

    for (int64_t i = 0; ok && i < hr__http_pieces(r); i++) {
        hr_http_piece p = hr__http_piece(r, i);

        ok = EVP_DigestUpdate(sum, p.data, (size_t)p.n) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(sum, out, NULL) == 1;
    EVP_MD_CTX_free(sum);
    return ok;
}

hr_status hr__s3_hash(hr_http_request *r, hr_error *err)
{
    uint8_t hash[HASH_BYTES];
    hr_text hex = { 0 };

    if (strncasecmp(r->url, "https:", 6) == 0) {
        snprintf(r->hash, sizeof r->hash, "UNSIGNED-PAYLOAD");
        return HR_OK;
    }
    if (hash_pieces(r, hash))
        add_hex(&hex, hash);
    snprintf(r->hash, sizeof r->hash, "%s", hex.data && !hex.failed ? hex.data : "");
    hr__text_clear(&hex);
    return r->hash[0] ? HR_OK : hr__error_memory(err, "signature", 1000);
}

hr_status hr__sign4(const hr_sign_keys *k, const char *method, const char *url, const char *hash, int64_t now_s,
                    hr_text *headers, hr_error *err)
{
    const dialect found = dialect_of(k), *d = &found;
    hr_text request = { 0 }, text = { 0 };
    uint8_t sum[HASH_BYTES], key[HASH_BYTES];
    time_t now = (time_t)now_s;
    char date[20], day[10];
    struct tm tm;
    bool ok;

    hash = hash[0] ? hash : EMPTY_HASH;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &tm);
    strftime(day, sizeof day, "%Y%m%d", &tm);
    add_canonical(&request, k, d, method, url, hash, date);
    ok = !request.failed && EVP_Digest(request.data, (size_t)request.n, sum, NULL, EVP_sha256(), NULL) == 1;
    hr__text_add(&text, "%s-HMAC-SHA256\n%s\n%s/%s/%s/%s\n", d->name, date, day, k->region, d->service, d->end);
    if (ok)
        add_hex(&text, sum);
    ok = ok && !text.failed && signing_key(k, d, day, key) && hmac(sum, key, HASH_BYTES, text.data);
    if (ok)
        add_signed(headers, k, d, hash, date, day, sum);
    hr__text_clear(&request);
    hr__text_clear(&text);
    OPENSSL_cleanse(key, sizeof key);
    return ok ? HR_OK : hr__error_memory(err, "signature", 1000);
}

hr_status hr__sha1_hex(const char *text, char out[41], hr_error *err)
{
    uint8_t hash[20];

    if (EVP_Digest(text, strlen(text), hash, NULL, EVP_sha1(), NULL) != 1)
        return hr__error_memory(err, "a name", 1000);
    for (int i = 0; i < HR_LEN(hash); i++)
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    return HR_OK;
}

#else

hr_status hr__s3_hash(hr_http_request *r, hr_error *err)
{
    r->hash[0] = 0;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no OpenSSL and expat, so it reads no s3:// URLs");
}

hr_status hr__sign4(const hr_sign_keys *k, const char *method, const char *url, const char *hash, int64_t now_s,
                    hr_text *headers, hr_error *err)
{
    (void)k;
    (void)method;
    (void)url;
    (void)hash;
    (void)now_s;
    (void)headers;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no OpenSSL and expat, so it reads no s3:// URLs");
}

hr_status hr__sha1_hex(const char *text, char out[41], hr_error *err)
{
    (void)text;
    out[0] = 0;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no OpenSSL and expat, so it reads no s3:// URLs");
}

#endif
