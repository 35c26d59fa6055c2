/* hdfs.c - HDFS, by the REST API of its NameNode (WebHDFS). Read only.
 *
 *   hdfs://host[:port]/path        the port is of RPC: webhdfs_endpoint says where HTTP is, default http://host:9870
 *   webhdfs://host[:port]/path     the port is of HTTP
 *   swebhdfs://host[:port]/path    the same over TLS
 *
 * OPEN has the range in its query and is answered by a redirect to a DataNode, which sends the range as 200. The
 * redirect's URL has all that the DataNode needs, also who we are. An attempt after a failure begins at the NameNode
 * again, which may name another DataNode.
 *
 * A file has no ETag. Its length and its time of modification are its version; the source asks for them again when the
 * last bytes of the file have come.
 *
 * Folders are read level by level, up to AT_ONCE of them at the same time.
 *
 * Tests: test_hdfs.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#define AT_ONCE 64
#define HTTP_PORT 9870
#define HTTPS_PORT 9871
#define LIST_BYTES ((int64_t)1 << 30) /* a folder of some million files */

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
            hr__http_says(r, "\"message\":\"Failed to find datanode"));
}

static const char *hdfs_meaning(const hr_http_request *r, hr_status *st)
{
    if (hr__http_says(r, "StandbyException"))
        return "this NameNode is a standby; name the active one";
    if (hr__http_says(r, "\"SafeModeException\""))
        return "the NameNode is in safe mode: it does not know all blocks yet";
    if (hdfs_passes(r))
        return "the cluster cannot serve it now";
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

/* ------------------------------------------------------------------------------------------------------------- JSON */

typedef struct status {
    char *name; /* owned; "": of the file itself */
    bool is_file, is_folder;
    int64_t n_bytes, version;
} status;

/* The end of the object that begins at `at`, behind its '}'; NULL: it has none. */
static const char *object_end(const char *at, const char *end)
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

/* One FileStatus. *out is cleared by the caller. */
static hr_status read_status(const char *url, const char *json, const char *end, status *out, hr_error *err)
{
    int64_t n = (int64_t)(end - json);
    char *type = hr__json_text(json, n, "type"), *length = hr__json_text(json, n, "length");
    char *time = hr__json_text(json, n, "modificationTime"), *tag = NULL;
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
    tag = hr__printf(NULL, "%s-%s", length, time);
    if (!tag)
        HR_GO(hr__error_memory(err, url, 64));
    out->version = hr__version_of(tag);
done:
    hr__free(type);
    hr__free(length);
    hr__free(time);
    hr__free(tag);
    return st;
}

/* Where the value of "FileStatus" begins: '{' or '['. NULL: the answer has none. */
static const char *value_of(const hr_text *body, char first)
{
    const char *at = body->data ? strstr(body->data, "\"FileStatus\"") : NULL;

    at = at ? at + strlen("\"FileStatus\"") : NULL;
    at = at ? at + strspn(at, " \t\r\n:") : NULL;
    return at && *at == first ? at : NULL;
}

static hr_status no_status(const char *url, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: the server's answer is not one of WebHDFS", url);
}

/* The status of the file or folder. HR_NOT_FOUND: there is none. The caller frees out->name. */
static hr_status ask_status(hr_store *s, const char *url, status *out, hr_error *err)
{
    hr_http_request r = { 0 };
    const char *at, *end;
    hr_status st = HR_OK;

    HR_GO(hr__store_request(&r, "GET", s, url, "op=GETFILESTATUS", NULL, err));
    HR_GO(hr__http_run(&r, err));
    at = value_of(&r.body, '{');
    end = at ? object_end(at, r.body.data + r.body.n) : NULL;
    st = end ? read_status(url, at, end, out, err) : no_status(url, err);
done:
    hr__http_clear(&r);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ lists */

typedef struct walk {
    hr_store *store;
    const char *url, *prefix, *pattern; /* pattern NULL: all that is visible below the prefix */
    const hr_paths_options *options;
    hr_paths *out;
    char **folders; /* keys, without '/' at the end; those before `at` are read */
    int64_t n, cap, at;
    int64_t n_files; /* of any name */
} walk;

static hr_status add_folder(walk *w, const char *key, size_t n, hr_error *err)
{
    char *copy = hr__strndup(NULL, key, n);

    if (!copy || !hr__grow(NULL, (void **)&w->folders, &w->cap, w->n + 1, sizeof *w->folders)) {
        hr__free(copy);
        return hr__error_memory(err, w->url, (int64_t)n);
    }
    w->folders[w->n++] = copy;
    return HR_OK;
}

static hr_status add_file(walk *w, const char *key, const status *f, hr_error *err)
{
    char *path;
    hr_status st;

    if (!hr__key_fits(w->pattern, w->pattern ? key : key + strlen(w->prefix), w->options))
        return HR_OK;
    path = hr__url_of_key(w->url, key, w->out->account);
    if (!path)
        return hr__error_memory(err, w->url, (int64_t)strlen(key));
    st = hr__paths_add(w->out, path, NULL, f->n_bytes, f->version, err);
    hr__free(path);
    return st;
}

/* An entry of a folder: a file that may fit, or a folder below which such files may be. */
static hr_status add_entry(walk *w, const char *folder, const status *f, hr_error *err)
{
    char *key = hr__printf(NULL, "%s%s%s", folder, folder[0] ? "/" : "", f->name);
    size_t n = HR_MIN(key ? strlen(key) : 0, strlen(w->prefix));
    hr_status st = HR_OK;

    if (!key)
        return hr__error_memory(err, w->url, (int64_t)strlen(folder));
    if (strncmp(key, w->prefix, n) == 0 && f->name[0]) {
        if (f->is_folder)
            st = add_folder(w, key, strlen(key), err);
        w->n_files += f->is_file;
        if (f->is_file && n == strlen(w->prefix))
            st = add_file(w, key, f, err);
    }
    hr__free(key);
    return st;
}

static hr_status add_entries(walk *w, const char *folder, const hr_text *body, hr_error *err)
{
    const char *at = value_of(body, '['), *end = at ? body->data + body->n : NULL;

    if (!at)
        return no_status(w->url, err);
    for (at += 1 + strspn(at + 1, " \t\r\n,"); *at == '{'; at += strspn(at, " \t\r\n,")) {
        const char *next = object_end(at, end);
        status f = { 0 };
        hr_status st = next ? read_status(w->url, at, next, &f, err) : no_status(w->url, err);

        if (!st)
            st = add_entry(w, folder, &f, err);
        hr__free(f.name);
        HR_TRY(st);
        at = next;
    }
    return *at == ']' ? HR_OK : no_status(w->url, err);
}

/* Asks for the next folders, at the same time. A folder that has gone since its parent was read is left out. */
static hr_status read_folders(walk *w, hr_error *err)
{
    int m = (int)HR_MIN(w->n - w->at, AT_ONCE);
    int64_t first = w->at;
    hr_http_request *r = hr__zalloc(NULL, (size_t)m * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, w->url, m * (int64_t)sizeof *r);
    w->at += m;
    for (int i = 0; i < m; i++) {
        char *url = hr__url_of_key(w->url, w->folders[first + i], NULL);

        r[i].st = url ? hr__store_request(&r[i], "GET", w->store, url, "op=LISTSTATUS", NULL, &r[i].err) : HR_NO_MEMORY;
        r[i].max_body = LIST_BYTES;
        hr__free(url);
    }
    hr__http_run_all(r, m);
    for (int i = 0; i < m && !st; i++) {
        st = r[i].st;
        if (!st)
            st = add_entries(w, w->folders[first + i], &r[i].body, err);
        else if (st == HR_NOT_FOUND && first + i > 0)
            st = HR_OK;
        else
            hr__error_move(err, &r[i].err);
    }
    for (int i = 0; i < m; i++)
        hr__http_clear(&r[i]);
    hr__free(r);
    return st;
}

/* Adds what is below the folder of the prefix. */
static hr_status list_below(walk *w, hr_error *err)
{
    const char *slash = strrchr(w->prefix, '/');
    int64_t begin = w->out->n;
    hr_status st = add_folder(w, w->prefix, slash ? (size_t)(slash - w->prefix) : 0, err);

    while (!st && w->at < w->n)
        st = read_folders(w, err);
    for (int64_t i = 0; i < w->n; i++)
        hr__free(w->folders[i]);
    hr__free(w->folders);
    if (!st)
        hr__paths_sort(w->out, begin);
    return st;
}

static hr_status find_pattern(walk *w, hr_error *err)
{
    size_t n = strcspn(w->pattern, "*?[");
    char *prefix = hr__strndup(NULL, w->pattern, n);
    int64_t begin = w->out->n;
    hr_status st;

    if (!prefix)
        return hr__error_memory(err, w->url, (int64_t)n);
    w->prefix = prefix;
    st = list_below(w, err);
    hr__free(prefix);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
    if (!st && w->out->n == begin && !w->options->ignore_missing)
        return hr_error_set(err, HR_NOT_FOUND, "%s: no file matches", w->url);
    return st;
}

static hr_status find_folder(walk *w, hr_error *err)
{
    const char *key = hr__place(w->url).key;
    size_t n = strlen(key);
    char *prefix;
    hr_status st;

    while (n && key[n - 1] == '/')
        n--;
    prefix = hr__printf(NULL, "%.*s%s", (int)n, key, n ? "/" : "");
    if (!prefix)
        return hr__error_memory(err, w->url, (int64_t)n);
    w->prefix = prefix;
    st = list_below(w, err);
    hr__free(prefix);
    if (!st && w->n_files == 0 && !w->options->ignore_missing)
        return hr_error_set(err, HR_NOT_FOUND, "%s: the folder has no files", w->url);
    return st;
}

static hr_status hdfs_find(hr_store *s, const char *url, const char *pattern, const hr_paths_options *options,
                           hr_paths *out, hr_error *err)
{
    walk w = { .store = s, .url = url, .pattern = pattern, .options = options, .out = out };
    status f = { 0 };
    hr_status st;

    st = ask_status(s, url, &f, err); /* what exists is no pattern, as for local files */
    if (st == HR_NOT_FOUND && pattern) {
        hr_error_clear(err);
        return find_pattern(&w, err);
    }
    w.pattern = NULL;
    if (!st && f.is_file)
        st = hr__paths_add(out, url, NULL, f.n_bytes, f.version, err);
    else if (!st)
        st = find_folder(&w, err);
    hr__free(f.name);
    if (st == HR_NOT_FOUND && options->ignore_missing) {
        hr_error_clear(err);
        st = HR_OK;
    }
    return st;
}

static hr_status hdfs_verify(hr_store *s, const char *url, int64_t version, hr_error *err)
{
    status f = { 0 };
    hr_status st = ask_status(s, url, &f, err);

    if (!st && f.version != version)
        st = hr_error_set(err, HR_BAD_DATA, "%s: the file was replaced while it was read: another length or time", url);
    hr__free(f.name);
    return st;
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
    .find = hdfs_find,
    .verify = hdfs_verify,
};
