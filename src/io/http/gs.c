/* gs.c - Google Cloud Storage, by its XML API.
 *
 * That API is like S3's: objects and ranges of them, lists by list-type=2, uploads of several parts. The differences:
 * 1. A request carries an OAuth token, or is signed by an HMAC key, as requests to S3 are.
 * 2. A request asks for gzip. Otherwise the store decompresses objects whose Content-Encoding is gzip: their bytes
 *    would not be those that the list counts, and ranges of them would be of no use.
 * 3. Headers x-amz and x-goog do not mix. A signed request with a condition has Google's own words; see s3_sign.c.
 *
 * Tests: test_gs_az.c, test_gs.py. */
#include "io/http/http.h"

#include <stdlib.h>

#define ENDPOINT "https://storage.googleapis.com"
#define CONDITION "x-goog-if-generation-match: "

/* The address of a server of tests, in place of the store's. */
static hr_status take_emulator(hr_gs *gs, hr_error *err)
{
    const char *host = getenv("STORAGE_EMULATOR_HOST");

    if (gs->endpoint || !host || !host[0])
        return HR_OK;
    gs->endpoint = hr__printf(NULL, "%s%s", strstr(host, "://") ? "" : "http://", host);
    if (!gs->endpoint)
        return hr__error_memory(err, "configuration of gs://", (int64_t)strlen(host));
    if (gs->anonymous == HR_SWITCH_UNSET && !gs->token && !gs->key_id)
        gs->anonymous = HR_SWITCH_ON;
    return HR_OK;
}

static hr_status configure(hr_store *s, hr_error *err)
{
    hr_gs *gs = &s->gs;

    HR_TRY(take_emulator(gs, err));
    if (gs->token && strcmp(gs->token, "anon") == 0)
        gs->anonymous = HR_SWITCH_ON;
    if (gs->anonymous != HR_SWITCH_ON && !gs->key_id)
        HR_TRY(hr__google_identity(s, &gs->identity, err));
    if (gs->request_payer == HR_SWITCH_ON && !gs->project)
        return hr_error_set(err, HR_INVALID, "requester_pays needs the option project: who pays");
    if (gs->request_payer == HR_SWITCH_ON && gs->key_id)
        return hr_error_set(err, HR_UNSUPPORTED, "requester_pays needs a token, and no HMAC key");
    gs->prepared = true;
    return HR_OK;
}

hr_status hr__gs_prepare(hr_store *s, const char *url, hr_error *err)
{
    hr_gs *gs = &s->gs;
    hr_status st = HR_OK;

    if (!gs->prepared)
        st = configure(s, err);
    if (!st && hr__place(url).n_bucket == 0)
        return hr_error_set(err, HR_INVALID, "%s: expected gs://bucket/key", url);
    if (!st && (hr__place(url).anonymous || gs->anonymous == HR_SWITCH_ON))
        return HR_OK;
    if (!st && gs->key_id && !gs->secret)
        st = hr_error_set(err, HR_INVALID, "google_hmac_key_id without google_hmac_secret");
    if (!st && !gs->key_id)
        st = gs->identity ? hr__identity_wait(gs->identity, err) : hr_error_set(err, HR_INVALID, HR_NO_GOOGLE);
    return st ? hr__error_at(err, st, "%s", url) : HR_OK;
}

static hr_identity *gs_identity(const hr_store *s, const char *url)
{
    (void)url;
    return s->gs.identity;
}

static bool gs_signs(const hr_store *s, const char *url)
{
    return s->gs.anonymous != HR_SWITCH_ON && !hr__place(url).anonymous;
}

static void gs_add_address(const hr_store *s, const char *url, bool of_bucket, hr_text *out)
{
    hr_place p = hr__place(url);

    hr__text_add(out, "%s", s->gs.endpoint ? s->gs.endpoint : ENDPOINT);
    while (out->n && out->data[out->n - 1] == '/')
        out->data[--out->n] = 0;
    hr__text_add(out, "/%.*s", p.n_bucket, p.bucket);
    if (!of_bucket) {
        hr__text_add(out, "/");
        hr__url_add_encoded(out, p.key, true);
    }
}

/* Of the condition among the header lines; NULL: there is none. */
static const char *condition_of(const hr_http_request *r, char *value, size_t cap)
{
    const char *at = r->more ? strstr(r->more, CONDITION) : NULL;
    size_t n;

    if (!at)
        return NULL;
    at += strlen(CONDITION);
    n = HR_MIN(strcspn(at, "\n"), cap - 1);
    memcpy(value, at, n);
    value[n] = 0;
    return value;
}

static hr_status gs_sign(const hr_http_request *r, const char *url, int64_t now_s, hr_text *lines, hr_error *err)
{
    const hr_gs *gs = &r->store->gs;
    char value[40];

    if (!hr__http_writes(r))
        hr__text_add(lines, "Accept-Encoding: gzip\n");
    if (!r->is_signed)
        return HR_OK;
    if (gs->request_payer == HR_SWITCH_ON)
        hr__text_add(lines, "x-goog-user-project: %s\n", gs->project);
    if (!r->who)
        return hr__sign4(&(hr_sign_keys){ .key_id = gs->key_id,
                                          .secret = gs->secret,
                                          .region = "auto",
                                          .condition = condition_of(r, value, sizeof value) },
                         r->method, url, r->hash, now_s, lines, err);
    hr__text_add(lines, "Authorization: Bearer %s\n", r->who->token);
    return HR_OK;
}

static hr_status gs_hash(hr_http_request *r, hr_error *err)
{
    return r->store->gs.identity ? HR_OK : hr__s3_hash(r, err);
}

static void gs_add_list_query(const hr_list_query *q, hr_text *out) { hr__s3_add_list_query(q, false, out); }

/* The store knows no conditions for completing an upload. */
static const hr_upload_kind gs_upload = {
    .has_ids = true,
    .put_new = CONDITION "0\n",
    .generation = CONDITION,
    .complete = "POST",
    .lost = "NoSuchUpload",
    .add_part_query = hr__s3_add_part_query,
    .add_complete_query = hr__s3_add_complete_query,
    .add_parts = hr__s3_add_parts,
};

const hr_store_kind hr__gs_kind = {
    .schemes = "gs gcs",
    .prepare = hr__gs_prepare,
    .signs = gs_signs,
    .identity = gs_identity,
    .add_address = gs_add_address,
    .sign = gs_sign,
    .hash = gs_hash,
    .skewed = "RequestTimeTooSkewed",
    .add_list_query = gs_add_list_query,
    .list_way = hr__list_behind,
    .upload = &gs_upload,
};
