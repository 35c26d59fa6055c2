/* hdfs.c - HDFS, by the REST API of its NameNode (WebHDFS): addresses, what answers and refusals mean, FileStatus.
 *
 *   hdfs://host[:port]/path        the port is of RPC: webhdfs_endpoint says where HTTP is, default http://host:9870
 *   webhdfs://host[:port]/path     the port is of HTTP
 *   swebhdfs://host[:port]/path    the same over TLS
 *
 * OPEN has the range in its query and is answered by a redirect to a DataNode, which sends the range as 200. The
 * redirect's URL has all that the DataNode needs, also who we are. An attempt after a failure begins at the NameNode
 * again, which may name another DataNode.
 *
 * CREATE is answered by a redirect, too. So a body goes where the redirect leads, and the NameNode gets none.
 *
 * A file has no ETag. Its length, its time of modification and its number are its version; the source asks for them
 * again when the last bytes of the file have come.
 *
 * Tests: test_hdfs.py, test_hdfs_write.py. */
#include "io/http/hdfs/hdfs.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define HTTP_PORT 9870
#define HTTPS_PORT 9871

/* ---------------------------------------------------------------------------------------------------------- address */

static bool has_scheme(const char *url, const char *scheme)
{
    size_t n = strlen(scheme);

    return strncasecmp(url, scheme, n) == 0 && strncmp(url + n, "://", 3) == 0;
}

/* The query that says who we are; nothing: the server's user for strangers. */
static hr_status set_query(hr_hdfs *h, hr_error *err)
{
    hr_text query = { 0 };

    if (h->token) {
        hr__text_add(&query, "delegation=");
        hr__url_add_encoded(&query, h->token, false);
    } else if (h->user) {
        hr__text_add(&query, "user.name=");
        hr__url_add_encoded(&query, h->user, false);
    }
    if (query.failed) {
        hr__text_clear(&query);
        return hr__error_memory(err, "configuration of hdfs://", 64);
    }
    h->query = query.data;
    return HR_OK;
}

static hr_status configure(hr_hdfs *h, hr_error *err)
{
    HR_TRY(hr__set_from(&h->endpoint, "WEBHDFS_ENDPOINT", err));
    HR_TRY(hr__set_from(&h->user, "HADOOP_USER_NAME", err));
    HR_TRY(set_query(h, err));
    h->prepared = true;
    return HR_OK;
}

static hr_status hdfs_prepare(hr_store *s, const char *url, hr_error *err)
{
    hr_place p = hr__place(url);

    if (!s->hdfs.prepared)
        HR_TRY(configure(&s->hdfs, err));
    if (memchr(p.bucket, '@', (size_t)p.n_bucket) || p.anonymous)
        (void)hr_error_set(err, HR_INVALID, "the URL has a user: the option hdfs_user names it");
    else if (p.n_bucket == 0 && !s->hdfs.endpoint)
        (void)hr_error_set(err, HR_INVALID, "expected hdfs://host/path, or the option webhdfs_endpoint");
    else
        return HR_OK;
    return hr__url_error(err, HR_INVALID, url);
}

static bool hdfs_names_server(const hr_store *s, const char *url)
{
    (void)url;
    return !s->hdfs.endpoint;
}

static bool hdfs_signs(const hr_store *s, const char *url)
{
    (void)s;
    (void)url;
    return false;
}

static hr_identity *hdfs_identity(const hr_store *s, const char *url)
{
    (void)s;
    (void)url;
    return NULL;
}

/* "http://host:port" */
static void add_host(const hr_store *s, const char *url, hr_text *out)
{
    hr_place p = hr__place(url);
    const char *port = memchr(p.bucket, ':', (size_t)p.n_bucket);
    const char *bracket = memchr(p.bucket, ']', (size_t)p.n_bucket); /* "[::1]:9870" */
    bool tls = has_scheme(url, "swebhdfs");

    if (bracket)
        port = memchr(bracket, ':', (size_t)(p.bucket + p.n_bucket - bracket));
    if (s->hdfs.endpoint) {
        hr__text_add(out, "%s%s", strstr(s->hdfs.endpoint, "://") ? "" : "http://", s->hdfs.endpoint);
        while (out->n && out->data[out->n - 1] == '/')
            out->data[--out->n] = 0;
    } else if (has_scheme(url, "hdfs") || !port) {
        hr__text_add(out, "%s://%.*s:%d", tls ? "https" : "http", port ? (int)(port - p.bucket) : p.n_bucket, p.bucket,
                     tls ? HTTPS_PORT : HTTP_PORT);
    } else {
        hr__text_add(out, "%s://%.*s", tls ? "https" : "http", p.n_bucket, p.bucket);
    }
}

static void hdfs_add_address(const hr_store *s, const char *url, bool of_bucket, hr_text *out)
{
    add_host(s, url, out);
    hr__text_add(out, "/webhdfs/v1/");
    if (!of_bucket)
        hr__url_add_encoded(out, hr__place(url).key, true);
}

static const char *hdfs_grant(const hr_store *s, const char *url)
{
    (void)url;
    return s->hdfs.query;
}

static hr_status hdfs_sign(const hr_http_request *r, const char *url, int64_t now_s, hr_text *lines, hr_error *err)
{
    (void)r;
    (void)url;
    (void)now_s;
    (void)lines;
    (void)err;
    return HR_OK;
}

static void hdfs_add_range_query(int64_t offset, int64_t n, hr_text *out)
{
    hr__text_add(out, "length=%" PRId64 "&offset=%" PRId64 "&op=OPEN", n, offset);
}

/* WebHDFS answers 403 to each IOException. Those of a cluster that starts, or of blocks whose DataNodes are restarted,
 * pass. */
static bool hdfs_passes(const hr_http_request *r)
{
    return r->answer.status == 403 &&
           (hr__http_says(r, "\"SafeModeException\"") || hr__http_says(r, "\"RetriableException\"") ||
            hr__http_says(r, "\"message\":\"Failed to find datanode") ||
            hr__http_says(r, "could only be written to 0"));
}

static const char *meaning_of_write(const hr_http_request *r, hr_status *st)
{
    if (hr__http_says(r, "\"FileAlreadyExistsException\""))
        return "it exists already";
    if (hr__http_says(r, "\"AlreadyBeingCreatedException\"") || hr__http_says(r, "\"LeaseExpiredException\""))
        return "another writer is at work on it";
    if (!hr__http_says(r, "encryption zone"))
        return NULL;
    *st = HR_UNSUPPORTED;
    return "HDFS joins no parts in an encryption zone; write smaller files (max_file_bytes), of one part each";
}

static const char *hdfs_meaning(const hr_http_request *r, hr_status *st)
{
    const char *what;

    if (hr__http_says(r, "StandbyException"))
        return "this NameNode is a standby; name the active one";
    if (hr__http_says(r, "\"SafeModeException\""))
        return "the NameNode is in safe mode: it does not know all blocks yet";
    if (hdfs_passes(r))
        return "the cluster cannot serve it now";
    if (hr__http_writes(r) && (what = meaning_of_write(r, st)))
        return what;
    if (r->n_bytes > 0 && hr__http_says(r, "\"message\":\"Offset=")) {
        *st = HR_BAD_DATA;
        return "the file was replaced while it was read: it is shorter now";
    }
    if (r->answer.status == 403 && !hr__http_says(r, "\"AccessControlException\"") &&
        !hr__http_says(r, "\"AuthorizationException\""))
        return "the server refused";
    if (r->answer.status != 401)
        return NULL;
    if (r->store->hdfs.token)
        return "the server refuses the delegation token";
    *st = HR_UNSUPPORTED;
    return "the server asks for Kerberos, which headrace does not have; the option hdfs_delegation_token takes a token";
}

/* ----------------------------------------------------------------------------------------------------------- status */

const char *hr__hdfs_object_end(const char *at, const char *end)
{
    bool quoted = false;
    int depth = 0;

    for (; at < end; at++) {
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && *at == '{')
            depth++;
        else if (!quoted && *at == '}' && --depth == 0)
            return at + 1;
    }
    return NULL;
}

static int64_t number_of(const char *text)
{
    char *end;
    int64_t n = text ? strtoll(text, &end, 10) : -1;

    return text && end != text && !*end ? n : -1;
}

hr_status hr__hdfs_read_status(const char *url, const char *json, const char *end, hr_hdfs_status *out, hr_error *err)
{
    int64_t n = (int64_t)(end - json);
    char *type = hr__json_text(json, n, "type"), *length = hr__json_text(json, n, "length");
    char *time = hr__json_text(json, n, "modificationTime"), *number = hr__json_text(json, n, "fileId"), *tag = NULL;
    hr_status st = HR_OK;

    out->name = hr__json_text(json, n, "pathSuffix");
    out->n_bytes = number_of(length);
    if (!type || !time || out->n_bytes < 0 || !out->name || strchr(out->name, '/'))
        HR_FAIL(HR_BAD_DATA,
                "%s: the server's FileStatus is damaged: expected pathSuffix, type, length and "
                "modificationTime",
                url);
    out->is_file = strcmp(type, "FILE") == 0;
    out->is_folder = strcmp(type, "DIRECTORY") == 0;
    out->file_id = number_of(number); /* HttpFS does not say it */
    if (!number && memmem(json, (size_t)n, "\"fileId\"", 8))
        HR_GO(hr__error_memory(err, url, 64));
    tag = hr__printf(NULL, "%s-%s-%s", length, time, number ? number : "");
    if (!tag)
        HR_GO(hr__error_memory(err, url, 64));
    out->version = hr__version_of(tag);
done:
    hr__free(type);
    hr__free(length);
    hr__free(time);
    hr__free(number);
    hr__free(tag);
    return st;
}

const char *hr__hdfs_value(const hr_text *body, char first)
{
    const char *at = body->data ? strstr(body->data, "\"FileStatus\"") : NULL;

    at = at ? at + strlen("\"FileStatus\"") : NULL;
    at = at ? at + strspn(at, " \t\r\n:") : NULL;
    return at && *at == first ? at : NULL;
}

hr_status hr__hdfs_no_status(const char *url, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: the server's answer is not one of WebHDFS", url);
}

hr_status hr__hdfs_status(hr_store *s, const char *url, hr_hdfs_status *out, hr_error *err)
{
    hr_http_request r = { 0 };
    const char *at, *end;
    hr_status st = HR_OK;

    HR_GO(hr__store_request(&r, "GET", s, url, "op=GETFILESTATUS", NULL, err));
    HR_GO(hr__http_run(&r, err));
    at = hr__hdfs_value(&r.body, '{');
    end = at ? hr__hdfs_object_end(at, r.body.data + r.body.n) : NULL;
    st = end ? hr__hdfs_read_status(url, at, end, out, err) : hr__hdfs_no_status(url, err);
done:
    hr__http_clear(&r);
    return st;
}

static hr_status hdfs_verify(hr_store *s, const char *url, int64_t version, hr_error *err)
{
    hr_hdfs_status f = { 0 };
    hr_status st = hr__hdfs_status(s, url, &f, err);

    if (!st && f.version != version)
        st = hr_error_set(err, HR_BAD_DATA, "%s: the file was replaced while it was read: another length or time", url);
    hr__free(f.name);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- answers */

/* Whether the request has this operation in its query; in paths '=' is encoded. */
static bool asks(const hr_http_request *r, const char *op)
{
    const char *query = strchr(r->url, '?');

    return query && strstr(query, op);
}

static const char *hdfs_ask(hr_http_request *r)
{
    if (strcmp(r->method, "HEAD") == 0) {
        r->method = "GET";
        return "op=GETFILESTATUS";
    }
    return strcmp(r->method, "DELETE") == 0 ? "op=DELETE" : strcmp(r->method, "PUT") == 0 ? HR_HDFS_CREATE : "op=OPEN";
}

/* The length and the version into the answer, as those of a HEAD. */
static bool read_answer(hr_http_request *r)
{
    const char *at = hr__hdfs_value(&r->body, '{');
    const char *end = at ? hr__hdfs_object_end(at, r->body.data + r->body.n) : NULL;
    hr_error none = HR_ERROR_INIT;
    hr_hdfs_status f = { 0 };
    bool good = end && !hr__hdfs_read_status(r->url, at, end, &f, &none);

    hr_error_clear(&none);
    hr__free(f.name);
    r->answer.total = f.n_bytes;
    r->answer.is_folder = f.is_folder;
    snprintf(r->answer.etag, sizeof r->answer.etag, "%" PRId64, f.version);
    return good;
}

/* HttpFS does not know the options of a rename, and answers false where a file exists. */
static const char *hdfs_wrong(hr_http_request *r, hr_status *st)
{
    *st = HR_BAD_DATA;
    if (asks(r, "op=GETFILESTATUS"))
        return read_answer(r) ? NULL : "the server's answer is not one of WebHDFS";
    if (asks(r, "op=CREATE") && !r->target)
        return "the server takes no bytes: it answers CREATE without a redirect";
    *st = HR_IO;
    if (asks(r, "op=RENAME") && r->body.data && strstr(r->body.data, "\"boolean\":false"))
        return "the server does not rename it: the new name exists already, or its folder does not";
    return NULL;
}

const hr_store_kind hr__hdfs_kind = {
    .schemes = "hdfs webhdfs swebhdfs",
    .prepare = hdfs_prepare,
    .signs = hdfs_signs,
    .any_bucket = true,
    .identity = hdfs_identity,
    .add_address = hdfs_add_address,
    .grant = hdfs_grant,
    .sign = hdfs_sign,
    .skewed = "none",
    .add_range_query = hdfs_add_range_query,
    .meaning = hdfs_meaning,
    .passes = hdfs_passes,
    .find = hr__hdfs_find,
    .verify = hdfs_verify,
    .ask = hdfs_ask,
    .wrong = hdfs_wrong,
    .sends_abroad = true,
    .has_versions = true,
    .names_server = hdfs_names_server,
    .upload = &hr__hdfs_upload,
};
