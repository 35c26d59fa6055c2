/* google_credentials.c - tokens for Google's stores, as application default credentials are found:
 *
 * 1. the options: a token, a file of keys, or its text;
 * 2. the file that GOOGLE_APPLICATION_CREDENTIALS names;
 * 3. what `gcloud auth application-default login` has left (below CLOUDSDK_CONFIG, or ~/.config/gcloud);
 * 4. the metadata of the machine (GCE_METADATA_HOST), unless NO_GCE_CHECK is true.
 *
 * A file is of a service account (a text that its key signs is exchanged for a token) or of a user (a refresh token
 * is). Others are an error that names their type.
 *
 * Sources: "Application Default Credentials"; RFC 7519, RFC 7523; "Using OAuth 2.0 for Server to Server Applications".
 *
 * Tests: test_credentials.c, test_credentials.py. */
#include "io/http/http.h"

#include <stdlib.h>
#include <time.h>

#define SCOPE "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URL "https://oauth2.googleapis.com/token"
#define LIFE_S 3600

/* The texts of an identity. */
enum { KEY_FILE, KEY_TEXT, METADATA_HOST, PROXY, PROXY_EXCLUDES, N_TEXTS };

static const hr_member_names token_names = { .token = "access_token", .expires_in = "expires_in" };

static hr_status no_memory(hr_error *err) { return hr__error_memory(err, "credentials", 100); }

/* ----------------------------------------------------------------------------------------------------- signed texts */

#ifdef HR_HAVE_S3

#include <openssl/evp.h>
#include <openssl/pem.h>

/* RFC 7515, 2: without padding, "-" and "_" for "+" and "/". */
static void add_base64url(hr_text *out, const void *data, int64_t n)
{
    hr_text plain = { 0 };

    hr__text_add_base64(&plain, data, n);
    out->failed = out->failed || plain.failed;
    for (int64_t i = 0; i < plain.n && plain.data[i] != '='; i++) {
        char c = plain.data[i];

        hr__text_add_bytes(out, c == '+' ? "-" : c == '/' ? "_" : &c, 1);
    }
    hr__text_clear(&plain);
}

/* Adds ".signature" (RS256) of the text itself. */
static hr_status add_signature(hr_text *text, const char *pem, hr_error *err)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t *signature = NULL;
    size_t n = 0;
    hr_status st = HR_OK;

    if (!bio || !ctx)
        HR_GO(no_memory(err));
    if (!key)
        HR_FAIL(HR_INVALID, "the private key of the service account cannot be read");
    if (EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
        EVP_DigestSign(ctx, NULL, &n, (const uint8_t *)text->data, (size_t)text->n) != 1)
        HR_FAIL(HR_INVALID, "the private key of the service account does not sign");
    if (!(signature = hr__alloc(NULL, n)) ||
        EVP_DigestSign(ctx, signature, &n, (const uint8_t *)text->data, (size_t)text->n) != 1)
        HR_GO(no_memory(err));
    hr__text_add(text, ".");
    add_base64url(text, signature, (int64_t)n);
done:
    hr__free(signature);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return st;
}

/* "header.claims.signature": that the account asks for a token now. */
static hr_status make_assertion(const char *email, const char *pem, const char *audience, hr_text *out, hr_error *err)
{
    static const char header[] = "{\"alg\":\"RS256\",\"typ\":\"JWT\"}";
    long long now = (long long)time(NULL);
    hr_text claims = { 0 };
    hr_status st = HR_OK;

    hr__text_add(&claims, "{\"iss\":");
    hr__text_add_json(&claims, email);
    hr__text_add(&claims, ",\"scope\":\"" SCOPE "\",\"aud\":");
    hr__text_add_json(&claims, audience);
    hr__text_add(&claims, ",\"iat\":%lld,\"exp\":%lld}", now, now + LIFE_S);
    add_base64url(out, header, sizeof header - 1);
    hr__text_add(out, ".");
    add_base64url(out, claims.data, claims.n);
    st = claims.failed || out->failed ? no_memory(err) : add_signature(out, pem, err);
    if (!st && out->failed)
        st = no_memory(err);
    hr__text_clear(&claims);
    return st;
}

#else

static hr_status make_assertion(const char *email, const char *pem, const char *audience, hr_text *out, hr_error *err)
{
    (void)email;
    (void)pem;
    (void)audience;
    (void)out;
    return hr_error_set(err, HR_UNSUPPORTED, "this build has no OpenSSL, so it cannot use a service account");
}

#endif

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status exchange(const char *const *with, const char *url, const hr_text *form, hr_credentials *out,
                          hr_error *err)
{
    hr_question q = { .what = "Google's token service", .url = url, .wait_s = 10, .max_retries = 3 };
    hr_text answer = { 0 };
    hr_status st = form->failed ? no_memory(err) : HR_OK;

    q.form = form->data;
    q.proxy = with[PROXY];
    q.proxy_excludes = with[PROXY_EXCLUDES];
    q.more = "Content-Type: application/x-www-form-urlencoded\n";
    if (!st)
        st = hr__ask_service(&q, &answer, err);
    if (!st)
        st = hr__credentials_of_json(q.what, answer.data ? answer.data : "", answer.n, &token_names, out, err);
    hr__text_clear(&answer);
    return st;
}

static hr_status fetch_account(const char *const *with, const char *json, int64_t n, hr_credentials *out, hr_error *err)
{
    char *email = hr__json_text(json, n, "client_email"), *pem = hr__json_text(json, n, "private_key");
    char *url = hr__json_text(json, n, "token_uri");
    hr_text assertion = { 0 }, form = { 0 };
    hr_status st = HR_OK;

    if (!email || !pem)
        HR_FAIL(HR_INVALID, "a service account needs client_email and private_key");
    HR_GO(make_assertion(email, pem, url ? url : TOKEN_URL, &assertion, err));
    hr__text_add(&form, "grant_type=urn%%3Aietf%%3Aparams%%3Aoauth%%3Agrant-type%%3Ajwt-bearer&assertion=%s",
                 assertion.data);
    HR_GO(exchange(with, url ? url : TOKEN_URL, &form, out, err));
done:
    hr__text_clear(&assertion);
    hr__text_clear(&form);
    hr__free(email);
    hr__free(pem);
    hr__free(url);
    return st;
}

static hr_status fetch_user(const char *const *with, const char *json, int64_t n, hr_credentials *out, hr_error *err)
{
    char *id = hr__json_text(json, n, "client_id"), *secret = hr__json_text(json, n, "client_secret");
    char *refresh = hr__json_text(json, n, "refresh_token"), *url = hr__json_text(json, n, "token_uri");
    hr_text form = { 0 };
    hr_status st = HR_OK;

    if (!id || !secret || !refresh)
        HR_FAIL(HR_INVALID, "a user's file needs client_id, client_secret and refresh_token");
    hr__text_add(&form, "grant_type=refresh_token");
    hr__form_add(&form, "client_id", id);
    hr__form_add(&form, "client_secret", secret);
    hr__form_add(&form, "refresh_token", refresh);
    HR_GO(exchange(with, url ? url : TOKEN_URL, &form, out, err));
done:
    hr__text_clear(&form);
    hr__free(id);
    hr__free(secret);
    hr__free(refresh);
    hr__free(url);
    return st;
}

static hr_status fetch_file(const char *const *with, hr_credentials *out, hr_error *err)
{
    char *read = NULL, *type = NULL;
    const char *json = with[KEY_TEXT];
    hr_status st = HR_OK;
    int64_t n;

    if (!json) {
        HR_TRY(hr__text_of_file(with[KEY_FILE], &read, err));
        json = read;
    }
    n = (int64_t)strlen(json);
    type = hr__json_text(json, n, "type");
    if (type && strcmp(type, "service_account") == 0)
        st = fetch_account(with, json, n, out, err);
    else if (type && strcmp(type, "authorized_user") == 0)
        st = fetch_user(with, json, n, out, err);
    else if (type)
        st = hr_error_set(err, HR_UNSUPPORTED,
                          "credentials of type '%.100s'; expected service_account or authorized_user", type);
    else
        st = hr_error_set(err, HR_INVALID, "it is no file of credentials: it has no \"type\"");
    if (st)
        st = hr__error_at(err, st, "%s", with[KEY_FILE] ? with[KEY_FILE] : "the service account");
    hr__free(type);
    hr__free(read);
    return st;
}

static hr_status fetch_machine(const char *const *with, hr_credentials *out, hr_error *err)
{
    const char *host = with[METADATA_HOST] ? with[METADATA_HOST] : "metadata.google.internal";
    hr_question q = { .what = "the metadata of this machine", .method = "GET", .wait_s = 2, .max_retries = 1 };
    hr_text answer = { 0 };
    char *url = hr__printf(NULL, "http://%s/computeMetadata/v1/instance/service-accounts/default/token", host);
    hr_status st = url ? HR_OK : no_memory(err);

    q.url = url;
    q.more = "Metadata-Flavor: Google\n";
    if (!st)
        st = hr__ask_service(&q, &answer, err);
    if (st && st != HR_CANCELLED)
        st = hr_error_set(err, HR_INVALID, HR_NO_GOOGLE ", and the metadata of this machine do not answer");
    if (!st)
        st = hr__credentials_of_json(q.what, answer.data ? answer.data : "", answer.n, &token_names, out, err);
    hr__text_clear(&answer);
    hr__free(url);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the first */

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

/* Where gcloud leaves its file; NULL: it has left none. */
static char *gcloud_file(void)
{
    const char *folder = environment("CLOUDSDK_CONFIG"), *home = environment("HOME");
    char *path = folder ? hr__printf(NULL, "%s/application_default_credentials.json", folder)
                        : hr__printf(NULL, "%s/.config/gcloud/application_default_credentials.json", home ? home : "");
    hr_stat found;

    if (path && (hr__file_stat(path, &found) < 0 || !found.is_file)) {
        hr__free(path);
        return NULL;
    }
    return path;
}

/* gcsfs's words in the place of a token: its file, its text, or where one is found. */
static hr_status take_token(const char *token, const char **key_file, const char **key_text, bool *is_token,
                            hr_error *err)
{
    size_t n = token ? strlen(token) : 0;

    *is_token = false;
    if (!token || strcmp(token, "google_default") == 0 || strcmp(token, "cloud") == 0)
        return HR_OK;
    if (strcmp(token, "cache") == 0 || strcmp(token, "browser") == 0)
        return hr_error_set(err, HR_UNSUPPORTED,
                            "token: headrace has no login of gcsfs; run 'gcloud auth "
                            "application-default login', or give a token");
    if (token[strspn(token, " \t\r\n")] == '{')
        *key_text = token;
    else if (token[0] == '/' || (n > 5 && strcmp(token + n - 5, ".json") == 0))
        *key_file = token;
    else
        *is_token = true;
    return HR_OK;
}

hr_status hr__google_identity(const hr_store *s, hr_identity **out, hr_error *err)
{
    const char *key_file = s->gs.key_file, *key_text = s->gs.key;
    char *left = NULL;
    bool is_token;
    const char *with[N_TEXTS] = { 0 };
    hr_status st;

    *out = NULL;
    HR_TRY(take_token(s->gs.token, &key_file, &key_text, &is_token, err));
    if (is_token)
        return hr__identity_of_token(s->gs.token, out, err);
    if (!key_text && !key_file)
        key_file = environment("GOOGLE_APPLICATION_CREDENTIALS");
    if (!key_text && key_file && key_file[strspn(key_file, " \t\r\n")] == '{')
        key_text = key_file; /* the JSON itself, in the place of its path: no error may show it */
    with[KEY_TEXT] = key_text;
    with[KEY_FILE] = key_text ? NULL : key_file;
    if (!with[KEY_TEXT] && !with[KEY_FILE])
        with[KEY_FILE] = left = gcloud_file();
    with[METADATA_HOST] = environment("GCE_METADATA_HOST");
    with[PROXY] = s->proxy;
    with[PROXY_EXCLUDES] = s->proxy_excludes;
    if (with[KEY_TEXT] || with[KEY_FILE])
        st = hr__identity_of(fetch_file, with, N_TEXTS, out, err);
    else if (environment("NO_GCE_CHECK") && strcasecmp(environment("NO_GCE_CHECK"), "true") == 0)
        st = HR_OK;
    else
        st = hr__identity_shared("google machine", fetch_machine, with, N_TEXTS, out, err);
    hr__free(left);
    return st;
}
