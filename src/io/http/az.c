/* az.c - Azure Blob Storage: addresses, the signature of requests, lists.
 *
 *   az://container/path                               the account is an option, or in the environment
 *   az://account.blob.core.windows.net/container/path
 *   abfs[s]://container@account.dfs.core.windows.net/path, and wasb[s]:
 * All of them are read by the Blob API; its host is account.blob where the URL has account.dfs.
 *
 * A request is signed by the account's key (SharedKey: the headers and the address are hashed), or carries a bearer
 * token, or its address has a shared access signature (SAS), which is a secret as keys are. Each one says which version
 * of the API it means.
 *
 * A file is written as blocks, which become visible by a list of their names. An upload has no id of the store: ours is
 * random, begins the names of its blocks, and stands in the blob's metadata. Blocks that no list names go after a week.
 *
 * Folders of accounts with a hierarchical namespace are in lists, and HEAD finds them: they are no objects.
 *
 * Tests: test_gs_az.c, test_az.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <strings.h>
#include <time.h>

#define VERSION "2021-08-06"

/* ---------------------------------------------------------------------------------------------------------- address */

/* The name of the account, which the URL or the options have. */
static const char *account_of(const hr_store *s, const hr_place *p, int *n)
{
    *n = p->account ? (int)HR_MIN(strcspn(p->account, "."), (size_t)p->n_account)
                    : (int)strlen(s->az.account ? s->az.account : "");
    return p->account ? p->account : s->az.account ? s->az.account : "";
}

/* "https://account.blob.core.windows.net" of "account.dfs.core.windows.net", or of "account". */
static void add_host(const hr_store *s, const hr_place *p, hr_text *out)
{
    int n, n_all = p->account ? p->n_account : 0;
    const char *account = account_of(s, p, &n), *rest = account + n;
    const char *suffix = s->az.suffix ? s->az.suffix : "core.windows.net";

    if (n_all - n <= 1) {
        hr__text_add(out, "https://%.*s.blob.%s", n, account, suffix);
        return;
    }
    if (n_all - n > 5 && strncmp(rest, ".dfs.", 5) == 0)
        hr__text_add(out, "https://%.*s.blob.%.*s", n, account, n_all - n - 5, rest + 5);
    else
        hr__text_add(out, "https://%.*s", n_all, account);
}

/* A server of this host has the account in the path: it has no name that the account could begin. */
static void add_endpoint(const hr_store *s, const hr_place *p, hr_text *out)
{
    const char *endpoint = s->az.endpoint, *host = strstr(endpoint, "://");
    int n, n_endpoint = (int)strlen(endpoint);
    const char *account = account_of(s, p, &n);

    while (n_endpoint && endpoint[n_endpoint - 1] == '/')
        n_endpoint--;
    hr__text_add(out, "%s%.*s", host ? "" : "https://", n_endpoint, endpoint);
    host = host ? host + 3 : endpoint;
    if (hr__url_is_near(endpoint) && !memchr(host, '/', (size_t)(endpoint + n_endpoint - host)))
        hr__text_add(out, "/%.*s", n, account);
}

static void az_add_address(const hr_store *s, const char *url, bool of_bucket, hr_text *out)
{
    hr_place p = hr__place(url);

    if (s->az.endpoint)
        add_endpoint(s, &p, out);
    else
        add_host(s, &p, out);
    hr__text_add(out, "/%.*s", p.n_bucket, p.bucket);
    if (!of_bucket) {
        hr__text_add(out, "/");
        hr__url_add_encoded(out, p.key, true);
    }
}

static bool account_is_in(const hr_place *p, const char *domain)
{
    return hr__host_is_in(p->account, (size_t)p->n_account, domain, strlen(domain));
}

/* "account.host" of a host that is none of Azure's, nor the one of the options. */
static bool az_names_server(const hr_store *s, const char *url)
{
    static const char *const azure[] = { "core.windows.net", "core.chinacloudapi.cn", "core.usgovcloudapi.net",
                                         "core.cloudapi.de", "fabric.microsoft.com",  "storage.azure.net" };
    hr_place p = hr__place(url);

    if (s->az.endpoint || !p.account || !memchr(p.account, '.', (size_t)p.n_account))
        return false;
    for (int i = 0; i < HR_LEN(azure); i++)
        if (account_is_in(&p, azure[i]))
            return false;
    return !(s->az.suffix && account_is_in(&p, s->az.suffix));
}

static bool is_anonymous(const hr_store *s, const char *url)
{
    return s->az.anonymous == HR_SWITCH_ON || hr__place(url).anonymous;
}

static bool az_signs(const hr_store *s, const char *url)
{
    return !is_anonymous(s, url) && (s->az.key || s->az.identity);
}

static hr_identity *az_identity(const hr_store *s, const char *url)
{
    (void)url;
    return s->az.key ? NULL : s->az.identity;
}

static const char *az_grant(const hr_store *s, const char *url)
{
    return is_anonymous(s, url) || az_signs(s, url) ? NULL : s->az.sas;
}

static void az_add_list_query(const hr_list_query *q, hr_text *out)
{
    hr__text_add(out, "comp=list%s", q->level ? "&delimiter=%2F" : "");
    if (q->token) {
        hr__text_add(out, "&marker=");
        hr__url_add_encoded(out, q->token, false);
    }
    hr__text_add(out, "&prefix=");
    hr__url_add_encoded(out, q->prefix, false);
    hr__text_add(out, "&restype=container");
}

/* -------------------------------------------------------------------------------------------------------- signature */

#ifdef HR_HAVE_S3

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define MAX_KEY 256
#define MAX_HEADERS 16

/* -> its length; < 0: it is no key in base64. */
static int decode_key(const char *key, uint8_t *out)
{
    int n = (int)strlen(key), n_out;

    if (n == 0 || n % 4 || n > MAX_KEY / 3 * 4 || (n_out = EVP_DecodeBlock(out, (const uint8_t *)key, n)) < 0)
        return -1;
    return n_out - (key[n - 1] == '=') - (key[n - 2] == '=');
}

bool hr__az_key_is_good(const char *key)
{
    uint8_t bytes[MAX_KEY];
    int n = decode_key(key, bytes);

    OPENSSL_cleanse(bytes, sizeof bytes);
    return n > 0;
}

/* The line after this one; NULL: it is the last. */
static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end && end[1] ? end + 1 : NULL;
}

static void add_value(const hr_text *lines, const char *name, hr_text *out)
{
    size_t n = strlen(name);

    for (const char *l = lines->data; l; l = next_line(l))
        if (strncmp(l, name, n) == 0 && l[n] == ':' && l[n + 1] == ' ')
            hr__text_add(out, "%.*s", (int)strcspn(l + n + 2, "\n"), l + n + 2);
    hr__text_add(out, "\n");
}

/* "name:value" of the headers that are Azure's own, sorted by name. */
static void add_own_headers(const hr_text *lines, hr_text *out)
{
    const char *found[MAX_HEADERS];
    int n = 0;

    for (const char *l = lines->data; l && n < MAX_HEADERS; l = next_line(l)) {
        int k = n;

        if (strncmp(l, "x-ms-", 5) != 0)
            continue;
        for (n++; k > 0 && strncmp(found[k - 1], l, strcspn(l, ":")) > 0; k--)
            found[k] = found[k - 1];
        found[k] = l;
    }
    for (int i = 0; i < n; i++) {
        size_t name = strcspn(found[i], ":"), gap = 1 + strspn(found[i] + name + 1, " ");

        hr__text_add(out, "%.*s:%.*s\n", (int)name, found[i], (int)strcspn(found[i] + name + gap, "\n"),
                     found[i] + name + gap);
    }
}

/* The path as it is sent, and the query's values as they are meant. */
static void add_resource(const char *account, int n_account, const char *url, hr_text *out)
{
    const char *path;
    char *query, *next, *value;

    (void)hr__url_host(url, &path);
    query = hr__strdup(NULL, path[strcspn(path, "?")] ? strchr(path, '?') + 1 : "");
    hr__text_add(out, "/%.*s%.*s", n_account, account, (int)strcspn(path, "?"), path);
    if (!query)
        out->failed = true;
    for (char *at = query; at && *at; at = next) {
        next = strchr(at, '&');
        if (next)
            *next++ = 0;
        value = at + strcspn(at, "=");
        if (*value)
            *value++ = 0;
        (void)hr__percent_decode(value);
        hr__text_add(out, "\n%s:%s", at, value);
    }
    hr__free(query);
}

/* What is signed. */
static void add_request(const hr_http_request *r, const char *url, const hr_text *lines, hr_text *out)
{
    static const char *const names[] = { "Content-MD5",         "Content-Type", "Date",
                                         "If-Modified-Since",   "If-Match",     "If-None-Match",
                                         "If-Unmodified-Since", "Range" };
    hr_place p = hr__place(r->name);
    const char *account;
    int n;

    account = account_of(r->store, &p, &n);
    hr__text_add(out, "%s\n\n\n", r->method);
    if (hr__http_writes(r) && r->n_data > 0)
        hr__text_add(out, "%lld", (long long)r->n_data);
    hr__text_add(out, "\n");
    for (int i = 0; i < HR_LEN(names); i++)
        add_value(lines, names[i], out);
    add_own_headers(lines, out);
    add_resource(account, n, url, out);
}

static hr_status sign_by_key(const hr_http_request *r, const char *url, hr_text *lines, hr_error *err)
{
    hr_place p = hr__place(r->name);
    uint8_t key[MAX_KEY], sum[32];
    char base64[48];
    hr_text text = { 0 };
    unsigned n_sum = 0;
    const char *account;
    int n_key = decode_key(r->store->az.key, key), n;
    bool ok;

    account = account_of(r->store, &p, &n);
    add_request(r, url, lines, &text);
    ok = !text.failed && n_key > 0 &&
         HMAC(EVP_sha256(), key, n_key, (const uint8_t *)text.data, (size_t)text.n, sum, &n_sum) && n_sum == sizeof sum;
    if (ok) {
        EVP_EncodeBlock((uint8_t *)base64, sum, (int)sizeof sum);
        hr__text_add(lines, "Authorization: SharedKey %.*s:%s\n", n, account, base64);
    }
    OPENSSL_cleanse(key, sizeof key);
    hr__text_clear(&text);
    return ok ? HR_OK : hr__error_memory(err, "signature", 1000);
}

#else

bool hr__az_key_is_good(const char *key) { return key[0] != 0; }

static hr_status sign_by_key(const hr_http_request *r, const char *url, hr_text *lines, hr_error *err)
{
    (void)r;
    (void)url;
    (void)lines;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no OpenSSL and expat, so it reads no az:// URLs");
}

#endif

/* "Fri, 24 May 2013 00:00:00 GMT", in any locale. */
static void add_date(int64_t now_s, hr_text *lines)
{
    static const char days[] = "SunMonTueWedThuFriSat", months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    time_t now = (time_t)now_s;
    struct tm tm;

    gmtime_r(&now, &tm);
    hr__text_add(lines, "x-ms-date: %.3s, %02d %.3s %04d %02d:%02d:%02d GMT\n", days + 3 * tm.tm_wday, tm.tm_mday,
                 months + 3 * tm.tm_mon, tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

/* The key of blobs that a key of the options encrypts: for what is written, and for what is read but lists. */
static void add_encryption(const hr_http_request *r, const char *url, hr_text *lines)
{
    const char *query = strchr(url, '?');
    bool reads = strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0;

    if (!r->store->az.encryption_key || (query && strstr(query, "restype=container")) ||
        !(reads || strcmp(r->method, "PUT") == 0))
        return;
    hr__text_add(lines, "x-ms-encryption-algorithm: AES256\nx-ms-encryption-key: %s\nx-ms-encryption-key-sha256: %s\n",
                 r->store->az.encryption_key, r->store->az.key_sum);
}

static hr_status az_sign(const hr_http_request *r, const char *url, int64_t now_s, hr_text *lines, hr_error *err)
{
    add_date(now_s, lines);
    hr__text_add(lines, "x-ms-version: " VERSION "\n");
    add_encryption(r, url, lines);
    if (!r->is_signed)
        return HR_OK;
    if (!r->who)
        return sign_by_key(r, url, lines, err);
    hr__text_add(lines, "Authorization: Bearer %s\n", r->who->token);
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- writing */

#define MARK "x-ms-meta-headrace: "

/* The name of a block is as long as those of the others, and in base64: digits are. */
static void az_add_part_query(const char *id, int64_t number, hr_text *out)
{
    hr__text_add(out, "blockid=%s%08" PRId64 "&comp=block", id, number);
}

static void az_add_complete_query(const char *id, const char *url, bool only_new, hr_text *out)
{
    (void)id;
    (void)url;
    (void)only_new;
    hr__text_add(out, "comp=blocklist");
}

static void az_add_parts(char *const *tags, int64_t n, hr_text *out)
{
    hr__text_add(out, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
    for (int64_t i = 0; i < n; i++)
        hr__text_add(out, "<Latest>%s</Latest>", tags[i]);
    hr__text_add(out, "</BlockList>");
}

static void az_add_mark(const char *id, hr_text *out) { hr__text_add(out, MARK "%s\n", id); }

static const hr_upload_kind az_upload = {
    .put = "x-ms-blob-type: BlockBlob\n",
    .put_new = "x-ms-blob-type: BlockBlob\nIf-None-Match: *\n",
    .complete = "PUT",
    .new_only = "If-None-Match: *\n",
    .lost = "InvalidBlockList",
    .add_part_query = az_add_part_query,
    .add_complete_query = az_add_complete_query,
    .add_parts = az_add_parts,
    .add_mark = az_add_mark,
};

const hr_store_kind hr__az_kind = {
    .schemes = "az azure abfs abfss wasb wasbs",
    .prepare = hr__az_prepare,
    .signs = az_signs,
    .names_server = az_names_server,
    .identity = az_identity,
    .add_address = az_add_address,
    .grant = az_grant,
    .sign = az_sign,
    .skewed = "AuthenticationFailed",
    .add_list_query = az_add_list_query,
    .upload = &az_upload,
};
