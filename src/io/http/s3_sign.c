/* s3_sign.c - the signature (version 4) of requests to S3, and to Google's store with an HMAC key.
 *
 * The canonical request is made from the address as it is sent, where keys are encoded once, as S3 wants; callers give
 * queries that are encoded and sorted. Few headers are signed: host, date, the hash of the body, the session's token,
 * and those that options add. Each attempt is signed anew, with the clock of the server where it differs from ours.
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
#define MAX_HEADERS 16
#define KEY_BASE64 44 /* characters of 256 bits in base64 */
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
    const char *name, *end, *service, *hash, *date;
} dialect;

static dialect dialect_of(const hr_sign_keys *k)
{
    static const dialect amazon = { "AWS4", "aws4_request", "s3", "x-amz-content-sha256", "x-amz-date" },
                         google = { "GOOG4", "goog4_request", "storage", "x-goog-content-sha256", "x-goog-date" };
    dialect d = k->condition ? google : amazon;

    d.service = k->service ? k->service : d.service;
    return d;
}

/* The headers that are signed, but the host, by their names. */
typedef struct signed_header {
    const char *name, *value;
    int n_name, n_value;
} signed_header;
typedef struct signed_headers {
    signed_header items[MAX_HEADERS];
    int n;
} signed_headers;

static void put_header(signed_headers *all, const char *name, int n_name, const char *value, int n_value)
{
    int i = all->n;

    if (i == MAX_HEADERS)
        return;
    for (; i > 0; i--) {
        const signed_header *before = &all->items[i - 1];
        int order = memcmp(before->name, name, (size_t)HR_MIN(before->n_name, n_name));

        if (order < 0 || (order == 0 && before->n_name < n_name))
            break;
        all->items[i] = *before;
    }
    all->items[i] = (signed_header){ name, value, n_name, n_value };
    all->n++;
}

static void put_text(signed_headers *all, const char *name, const char *value)
{
    put_header(all, name, (int)strlen(name), value, (int)strlen(value));
}

static const char *header_of(const hr_sign_keys *k) { return k->header ? k->header : "x-amz-security-token"; }

static void collect_headers(const hr_sign_keys *k, const dialect *d, const char *hash, const char *date,
                            signed_headers *out)
{
    out->n = 0;
    put_text(out, d->hash, hash);
    put_text(out, d->date, date);
    if (k->token)
        put_text(out, header_of(k), k->token);
    if (k->condition)
        put_text(out, "x-goog-if-generation-match", k->condition);
    for (const char *line = k->more ? k->more : ""; *line;) {
        int n = (int)strcspn(line, "\n"), n_name = (int)strcspn(line, ":");

        put_header(out, line, n_name, line + n_name + 2, n - n_name - 2);
        line += n + (line[n] == '\n');
    }
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
    const char *path, *host = hr__url_host(url, &path), *query = strchr(path, '?');
    int n_host = (int)(path - host), n_path = (int)(query ? query - path : (ptrdiff_t)strlen(path));
    const char *implied = strncasecmp(url, "https:", 6) == 0 ? ":443" : ":80";
    int n_implied = (int)strlen(implied);

    if (n_host > n_implied && strncmp(path - n_implied, implied, (size_t)n_implied) == 0)
        n_host -= n_implied;
    hr__text_add(out, "%s\n%.*s\n%s\nhost:%.*s\n", method, n_path ? n_path : 1, n_path ? path : "/",
                 query ? query + 1 : "", n_host, host);
}

static void add_names(hr_text *out, const signed_headers *headers)
{
    hr__text_add(out, "host");
    for (int i = 0; i < headers->n; i++)
        hr__text_add(out, ";%.*s", headers->items[i].n_name, headers->items[i].name);
}

static void add_canonical(hr_text *out, const signed_headers *headers, const char *method, const char *url,
                          const char *hash)
{
    add_request(out, method, url);
    for (int i = 0; i < headers->n; i++) {
        const signed_header *h = &headers->items[i];

        hr__text_add(out, "%.*s:%.*s\n", h->n_name, h->name, h->n_value, h->value);
    }
    hr__text_add(out, "\n");
    add_names(out, headers);
    hr__text_add(out, "\n%s", hash);
}

static void add_signed(hr_text *out, const hr_sign_keys *k, const dialect *d, const signed_headers *headers,
                       const char *hash, const char *date, const char *day, const uint8_t *sum)
{
    hr__text_add(out, "%s: %s\n%s: %s\n", d->date, date, d->hash, hash);
    if (k->token)
        hr__text_add(out, "%s: %s\n", header_of(k), k->token);
    hr__text_add(out, "Authorization: %s-HMAC-SHA256 Credential=%s/%s/%s/%s/%s, SignedHeaders=", d->name, k->key_id,
                 day, k->region, d->service, d->end);
    add_names(out, headers);
    hr__text_add(out, ", Signature=");
    add_hex(out, sum);
    hr__text_add(out, "\n");
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

static bool is_unsigned(const hr_http_request *r)
{
    hr_switch given = r->store ? r->store->s3.unsigned_payload : HR_SWITCH_UNSET;

    return given == HR_SWITCH_UNSET ? strncasecmp(r->url, "https:", 6) == 0 : given == HR_SWITCH_ON;
}

hr_status hr__s3_hash(hr_http_request *r, hr_error *err)
{
    uint8_t hash[HASH_BYTES];
    hr_text hex = { 0 };

    if (is_unsigned(r)) {
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
    signed_headers signed_ones;
    time_t now = (time_t)now_s;
    char date[20], day[10];
    struct tm tm;
    bool ok;

    hash = hash[0] ? hash : EMPTY_HASH;
    gmtime_r(&now, &tm);
    strftime(date, sizeof date, "%Y%m%dT%H%M%SZ", &tm);
    strftime(day, sizeof day, "%Y%m%d", &tm);
    collect_headers(k, d, hash, date, &signed_ones);
    add_canonical(&request, &signed_ones, method, url, hash);
    ok = !request.failed && EVP_Digest(request.data, (size_t)request.n, sum, NULL, EVP_sha256(), NULL) == 1;
    hr__text_add(&text, "%s-HMAC-SHA256\n%s\n%s/%s/%s/%s\n", d->name, date, day, k->region, d->service, d->end);
    if (ok)
        add_hex(&text, sum);
    ok = ok && !text.failed && signing_key(k, d, day, key) && hmac(sum, key, HASH_BYTES, text.data);
    if (ok)
        add_signed(headers, k, d, &signed_ones, hash, date, day, sum);
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

hr_status hr__key_sum(const char *name, const char *key, bool sha256, char **out, hr_error *err)
{
    uint8_t bytes[KEY_BASE64 / 4 * 3], sum[EVP_MAX_MD_SIZE];
    char base64[EVP_MAX_MD_SIZE * 2];
    unsigned n = 0;
    bool is_key = strlen(key) == KEY_BASE64 && key[KEY_BASE64 - 1] == '=' && key[KEY_BASE64 - 2] != '=' &&
                  EVP_DecodeBlock(bytes, (const uint8_t *)key, KEY_BASE64) == (int)sizeof bytes;
    bool ok = is_key && EVP_Digest(bytes, HASH_BYTES, sum, &n, sha256 ? EVP_sha256() : EVP_md5(), NULL) == 1;

    OPENSSL_cleanse(bytes, sizeof bytes);
    *out = NULL;
    if (!is_key)
        return hr_error_set(err, HR_INVALID,
                            "storage_options: %s: expected 256 bits in base64, which are %d characters", name,
                            KEY_BASE64);
    if (!ok)
        return hr_error_set(err, HR_UNSUPPORTED, "storage_options: %s: OpenSSL has no %s here", name,
                            sha256 ? "SHA-256" : "MD5");
    EVP_EncodeBlock((uint8_t *)base64, sum, (int)n);
    *out = hr__strdup(NULL, base64);
    return *out ? HR_OK : hr__error_memory(err, name, n);
}

#else

hr_status hr__key_sum(const char *name, const char *key, bool sha256, char **out, hr_error *err)
{
    (void)key;
    (void)sha256;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "storage_options: %s: this build has no OpenSSL", name);
}

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
