/* s3.c - what S3 has of its own: addresses, lists, uploads of several parts.
 *
 * Tests: test_s3.c, test_s3.py, test_s3_write.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <stdio.h>

const char *hr__s3_region(const hr_store *s) { return s->s3.region ? s->s3.region : "us-east-1"; }

const char *hr__aws_domain(const char *region)
{
    return strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
}

/* A bucket's name with a dot is in no certificate; other servers mostly know no names of buckets. */
static bool by_host(const hr_store *s, const hr_place *p, const char *endpoint)
{
    if (s->s3.virtual_host != HR_SWITCH_UNSET)
        return s->s3.virtual_host == HR_SWITCH_ON;
    if (endpoint && strstr(endpoint, HR_S3_EXPRESS "-"))
        return true;
    return !endpoint && !memchr(p->bucket, '.', (size_t)p->n_bucket);
}

/* The given one. A directory bucket is not at an endpoint of Amazon that is not one of zones. */
static const char *given_endpoint(const hr_store *s, const char *url)
{
    const char *e = s->s3.endpoint;

    return e && hr__s3_is_express(s, url) && strstr(e, ".amazonaws.com") && !strstr(e, HR_S3_EXPRESS "-") ? NULL : e;
}

static const char *default_scheme(const hr_store *s) { return s->s3.use_ssl == HR_SWITCH_OFF ? "http://" : "https://"; }

/* Amazon's, of the region or of the zone. */
static void add_amazon(const hr_store *s, const char *url, hr_text *out)
{
    hr__text_add(out, "%s", default_scheme(s));
    if (hr__s3_is_express(s, url))
        hr__s3_add_zone(s, url, out);
    else
        hr__text_add(out, "s3.%s.%s", hr__s3_region(s), hr__aws_domain(hr__s3_region(s)));
}

/* Whether the endpoint begins with the bucket's name already. */
static bool names_bucket(const char *host, const hr_place *p)
{
    return strncmp(host, p->bucket, (size_t)p->n_bucket) == 0 && host[p->n_bucket] == '.';
}

static void s3_add_address(const hr_store *s, const char *url, bool of_bucket, hr_text *out)
{
    hr_place p = hr__place(url);
    const char *given = given_endpoint(s, url), *endpoint = given, *host;
    bool named = by_host(s, &p, given);
    hr_text amazon = { .account = out->account };

    if (!given) {
        add_amazon(s, url, &amazon);
        out->failed = out->failed || amazon.failed;
        endpoint = amazon.data ? amazon.data : "";
    }
    host = strstr(endpoint, "://");
    named = named && host;
    if (named && !(hr__s3_is_express(s, url) && names_bucket(host + 3, &p)))
        hr__text_add(out, "%.*s://%.*s.%s", (int)(host - endpoint), endpoint, p.n_bucket, p.bucket, host + 3);
    else
        hr__text_add(out, "%s%s", host ? "" : default_scheme(s), endpoint);
    while (out->n && out->data[out->n - 1] == '/')
        out->data[--out->n] = 0;
    if (!named)
        hr__text_add(out, "/%.*s", p.n_bucket, p.bucket);
    hr__text_add(out, "/");
    if (!of_bucket)
        hr__url_add_encoded(out, p.key, true);
    hr__text_clear(&amazon);
}

static bool s3_signs(const hr_store *s, const char *url)
{
    return s->s3.anonymous != HR_SWITCH_ON && !hr__place(url).anonymous;
}

static bool query_has(const char *url, const char *name)
{
    const char *query = strchr(url, '?');

    return query && strstr(query, name);
}

/* How objects are encrypted. Whoever holds the key has to give it for each part and each range, too. */
static void add_encryption(const hr_http_request *r, const char *url, hr_text *out)
{
    const hr_s3 *s3 = &r->store->s3;
    bool part = query_has(url, "partNumber="), list = query_has(url, "list-type=") || query_has(url, "uploads=");
    bool put = strcmp(r->method, "PUT") == 0, begins = strcmp(r->method, "POST") == 0 && query_has(url, "?uploads=");
    bool reads = (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0) && !list;

    if (s3->customer_key && (put || begins || reads))
        hr__text_add(out,
                     "x-amz-server-side-encryption-customer-algorithm: AES256\n"
                     "x-amz-server-side-encryption-customer-key: %s\n"
                     "x-amz-server-side-encryption-customer-key-md5: %s\n",
                     s3->customer_key, s3->key_sum);
    if (s3->customer_key || !s3->encryption || !((put && !part) || begins))
        return;
    hr__text_add(out, "x-amz-server-side-encryption: %s\n", s3->encryption);
    if (s3->kms_key)
        hr__text_add(out, "x-amz-server-side-encryption-aws-kms-key-id: %s\n", s3->kms_key);
    if (s3->bucket_key)
        hr__text_add(out, "x-amz-server-side-encryption-bucket-key-enabled: %s\n",
                     s3->bucket_key == HR_SWITCH_ON ? "true" : "false");
}

/* more: header lines that have to be signed; NULL: none. */
static hr_status sign(const hr_http_request *r, const char *url, int64_t now_s, const char *more, hr_text *lines,
                      hr_error *err)
{
    const hr_credentials *who = r->who;
    bool express = hr__s3_is_express(r->store, r->name);

    return hr__sign4(&(hr_sign_keys){ .key_id = who->id,
                                      .secret = who->secret,
                                      .token = who->token,
                                      .region = hr__s3_region(r->store),
                                      .service = express ? HR_S3_EXPRESS : NULL,
                                      .header = express ? "x-amz-s3session-token" : NULL,
                                      .more = more },
                     r->method, url, r->hash, now_s, lines, err);
}

static hr_status s3_sign(const hr_http_request *r, const char *url, int64_t now_s, hr_text *lines, hr_error *err)
{
    hr_text more = { 0 };
    hr_status st;

    if (r->store->s3.request_payer == HR_SWITCH_ON)
        hr__text_add(&more, "x-amz-request-payer: requester\n");
    add_encryption(r, url, &more);
    if (more.failed)
        return hr__error_memory(err, "headers of a request", 1000);
    if (more.n)
        hr__text_add(lines, "%s", more.data);
    st = r->who ? sign(r, url, now_s, more.data, lines, err) : HR_OK;
    hr__text_clear(&more);
    return st;
}

void hr__s3_add_list_query(const hr_list_query *q, bool encoded, hr_text *out)
{
    if (q->token) {
        hr__text_add(out, "continuation-token=");
        hr__url_add_encoded(out, q->token, false);
        hr__text_add(out, "&");
    }
    hr__text_add(out, "%s%slist-type=2&%sprefix=", q->level ? "delimiter=%2F&" : "",
                 encoded ? "encoding-type=url&" : "", q->one ? "max-keys=1&" : "");
    hr__url_add_encoded(out, q->prefix, false);
    if (q->after && !q->token) {
        hr__text_add(out, "&start-after=");
        hr__url_add_encoded(out, q->after, false);
    }
}

static void s3_add_list_query(const hr_list_query *q, hr_text *out) { hr__s3_add_list_query(q, true, out); }

static hr_identity *s3_identity(const hr_store *s, const char *url)
{
    return hr__s3_is_express(s, url) ? hr__s3_session_of(s, url) : s->s3.identity;
}

hr_list_way hr__list_behind(const hr_store *s, const char *url)
{
    (void)s;
    (void)url;
    return HR_LIST_BEHIND;
}

static hr_list_way s3_list_way(const hr_store *s, const char *url)
{
    return hr__s3_is_express(s, url) ? HR_LIST_FOLDERS : HR_LIST_BEHIND;
}

/* The refusal names the bucket's region, which is another one: later requests go there. */
static bool s3_learn_region(hr_store *s, const hr_http_request *r)
{
    const char *found = r->answer.region;
    char *copy;

    if (r->st == HR_OK || !found[0] || (s->s3.region && strcmp(s->s3.region, found) == 0))
        return false;
    if (!(copy = hr__strdup(NULL, found)))
        return false;
    hr__free(s->s3.region);
    s->s3.region = copy;
    return true;
}

/* --------------------------------------------------------------------------------------------------------- writing */

void hr__s3_add_part_query(const char *id, int64_t number, hr_text *out)
{
    hr__text_add(out, "partNumber=%" PRId64 "&uploadId=", number);
    hr__url_add_encoded(out, id, false);
}

void hr__s3_add_complete_query(const char *id, const char *url, bool only_new, hr_text *out)
{
    (void)url;
    (void)only_new;
    hr__text_add(out, "uploadId=");
    hr__url_add_encoded(out, id, false);
}

void hr__s3_add_parts(char *const *tags, int64_t n, hr_text *out)
{
    hr__text_add(out, "<CompleteMultipartUpload>");
    for (int64_t i = 0; i < n; i++)
        hr__text_add(out, "<Part><PartNumber>%" PRId64 "</PartNumber><ETag>%s</ETag></Part>", i + 1, tags[i]);
    hr__text_add(out, "</CompleteMultipartUpload>");
}

static const hr_upload_kind s3_upload = {
    .has_ids = true,
    .counts_parts = true,
    .put_new = "If-None-Match: *\n",
    .complete = "POST",
    .new_only = "If-None-Match: *\n",
    .lost = "NoSuchUpload",
    .add_part_query = hr__s3_add_part_query,
    .add_complete_query = hr__s3_add_complete_query,
    .add_parts = hr__s3_add_parts,
};

const hr_store_kind hr__s3_kind = {
    .schemes = "s3 s3a",
    .prepare = hr__s3_prepare,
    .signs = s3_signs,
    .identity = s3_identity,
    .add_address = s3_add_address,
    .sign = s3_sign,
    .hash = hr__s3_hash,
    .skewed = "RequestTimeTooSkewed",
    .add_list_query = s3_add_list_query,
    .list_way = s3_list_way,
    .learn = s3_learn_region,
    .upload = &s3_upload,
};
