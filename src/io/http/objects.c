/* objects.c - single objects of a store, and folders of them, for callers who keep their state there: the runs of
 * trainers, and positions of write jobs.
 *
 * Lists, reads and uploads are those of readers and writers (url_list.c, url_source.c, store_upload.c), so they work
 * for every store that these know. All calls wait for the network: they are not for threads of the pool.
 *
 * Tests: test_objects.py. */
#include "io/http/http.h"

#include <inttypes.h>

#define CHUNK (8 << 20) /* of a file on its way to the disk */
#define CHUNKS_AHEAD 8
#define LOCAL_CHUNK (1 << 20)
#define AT_ONCE 128
#define TRIES 5 /* to read an object that is replaced meanwhile */
#define MAX_TEXT_BYTES (256 << 20)

typedef struct found {
    hr_paths list;
    hr_source *source;
} found;

char *hr__path_tag(const hr_path *p)
{
    const hr_store_kind *k = hr__kind_of(p->path);

    if (!p->tag && k && k->has_versions)
        return hr__printf(NULL, "%" PRId64, p->mtime_ns);
    return hr__strdup(NULL, p->tag ? p->tag : "");
}

static void found_clear(found *f)
{
    hr__source_unref(f->source);
    hr__paths_clear(&f->list);
    *f = (found){ 0 };
}

static hr_status list_urls(const hr_store_options *o, const char *url, hr_paths *out, hr_error *err)
{
    hr_paths_options options = {
        .ignore_missing = true, .hidden = true, .plain = true, .store_options = o->items, .n_store_options = o->n
    };

    return hr__paths_list(&url, 1, &options, NULL, out, err);
}

/* Opens the object. HR_NOT_FOUND: there is none. */
static hr_status find(const hr_store_options *o, const char *url, found *out, hr_error *err)
{
    HR_TRY(list_urls(o, url, &out->list, err));
    if (out->list.n != 1 || strcmp(out->list.items[0].path, url) != 0)
        return hr_error_set(err, HR_NOT_FOUND, "%s: no such object", url);
    return hr__paths_open(&out->list, 0, NULL, &out->source, err);
}

static hr_status read_once(const hr_store_options *o, const char *url, int64_t offset, int64_t most, hr_text *out,
                           char **tag, hr_error *err)
{
    found f = { 0 };
    uint8_t *data = NULL;
    hr_status st;
    int64_t n, begin;

    *tag = NULL;
    hr__text_clear(out);
    HR_GO(find(o, url, &f, err));
    n = f.source->n_bytes;
    begin = HR_MIN(n, offset < 0 ? HR_MAX(0, n + offset) : offset);
    n = HR_MIN(n - begin, most);
    if (!(data = hr__alloc(NULL, (size_t)n + 1)))
        HR_GO(hr__error_memory(err, url, n));
    HR_GO(hr__source_read(f.source, data, begin, n, err));
    hr__text_add_bytes(out, (const char *)data, n);
    *tag = hr__path_tag(&f.list.items[0]);
    if (out->failed || !*tag)
        st = hr__error_memory(err, url, n);
done:
    hr__free(data);
    found_clear(&f);
    return st;
}

hr_status hr__object_read_range(const hr_store_options *o, const char *url, int64_t offset, int64_t n, hr_text *out,
                                char **tag, hr_error *err)
{
    hr_status st = HR_OK;

    for (int i = 0; i < TRIES; i++) {
        hr_error_clear(err);
        st = read_once(o, url, offset, n, out, tag, err);
        if (st != HR_BAD_DATA) /* which says that it was replaced */
            break;
        hr__free(*tag);
        *tag = NULL;
    }
    return st;
}

hr_status hr__object_open(const hr_store_options *o, const char *url, hr_source **out, char **tag, hr_error *err)
{
    found f = { 0 };
    hr_status st;

    *out = NULL;
    *tag = NULL;
    HR_GO(find(o, url, &f, err));
    *tag = hr__path_tag(&f.list.items[0]);
    if (!*tag)
        HR_GO(hr__error_memory(err, url, 64));
    *out = f.source;
    f.source = NULL; /* moved to the caller */
done:
    found_clear(&f);
    return st;
}

static void announce(hr_source *s, int64_t i)
{
    int64_t at = i * CHUNK;

    if (at < s->n_bytes)
        hr__source_ahead(s, at, HR_MIN(CHUNK, s->n_bytes - at));
}

static hr_status copy_to(hr_source *s, hr_sink *to, hr_error *err)
{
    uint8_t *buffer = hr__alloc(NULL, CHUNK);
    hr_status st = buffer ? HR_OK : hr__error_memory(err, s->name, CHUNK);

    for (int64_t i = 0; i < CHUNKS_AHEAD; i++)
        announce(s, i);
    for (int64_t at = 0; at < s->n_bytes && !st; at += CHUNK) {
        int64_t n = HR_MIN(CHUNK, s->n_bytes - at);

        announce(s, at / CHUNK + CHUNKS_AHEAD);
        st = hr__source_read(s, buffer, at, n, err);
        if (!st)
            st = hr__sink_write(to, buffer, n, err);
    }
    hr__free(buffer);
    return st;
}

hr_status hr__object_save(const hr_store_options *o, const char *url, const char *path, hr_error *err)
{
    found f = { 0 };
    hr_sink *sink = NULL;
    hr_status st;

    HR_GO(find(o, url, &f, err));
    HR_GO(hr__sink_open(path, true, NULL, &sink, err));
    HR_GO(copy_to(f.source, sink, err));
    HR_GO(hr__sink_finish(sink, HR_SYNC_NONE, err));
    st = hr__sink_commit(sink, path, err);
    sink = NULL;
done:
    hr__sink_drop(sink);
    found_clear(&f);
    return st;
}

hr_status hr__objects_list(const hr_store_options *o, const char *folder, hr_paths *out, hr_error *err)
{
    char *url = hr__printf(NULL, "%s/", folder);
    hr_status st = url ? list_urls(o, url, out, err) : hr__error_memory(err, folder, 64);

    hr__free(url);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static hr_status store_for(const hr_store_options *o, const char *url, hr_store **out, hr_error *err)
{
    hr_status st;

    *out = NULL;
    if (!hr__url_is_store(url)) {
        (void)hr_error_set(err, HR_UNSUPPORTED, "headrace does not write to URLs of this kind");
        return hr__url_error(err, HR_UNSUPPORTED, url);
    }
    HR_TRY(hr__store_new(o->items, o->n, NULL, out, err));
    st = hr__store_prepare(*out, url, err);
    if (st)
        hr__url_hide(url, err);
    return st;
}

/* The object's bytes, with a 0 after them, and its ETag. HR_NOT_FOUND: there is none. */
static hr_status get(hr_store *s, const char *url, hr_account *account, hr_text *out, char tag[HR_ETAG_BYTES],
                     hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st;

    HR_GO(hr__store_request(&r, "GET", s, url, "", account, err));
    r.max_body = MAX_TEXT_BYTES;
    HR_GO(hr__http_run(&r, err));
    hr__text_add_bytes(&r.body, "", 0); /* an empty one is a text, too */
    if (r.body.failed)
        HR_GO(hr__error_memory(err, url, r.body.n));
    memcpy(tag, r.answer.etag, HR_ETAG_BYTES);
    *out = r.body;
    r.body = (hr_text){ 0 };
done:
    hr__http_clear(&r);
    return st;
}

/* The version of the object, of a store without ETags. */
static hr_status version_of(hr_store *s, const char *url, char tag[HR_ETAG_BYTES], hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st = hr__store_request(&r, "HEAD", s, url, "", NULL, err);

    if (!st)
        st = hr__http_run(&r, err);
    memcpy(tag, r.answer.etag, HR_ETAG_BYTES);
    hr__http_clear(&r);
    return st;
}

/* As hr__store_get does, if the version before is the one behind; else HR_PENDING. */
static hr_status get_of_version(hr_store *s, const char *url, hr_account *account, hr_text *out,
                                char tag[HR_ETAG_BYTES], hr_error *err)
{
    char before[HR_ETAG_BYTES];
    hr_status st;

    HR_TRY(version_of(s, url, before, err));
    HR_TRY(get(s, url, account, out, tag, err));
    st = version_of(s, url, tag, err);
    if (!st && strcmp(before, tag) != 0)
        st = HR_PENDING;
    if (st)
        hr__text_clear(out);
    return st;
}

hr_status hr__store_get(hr_store *s, const char *url, hr_account *account, hr_text *out, char tag[HR_ETAG_BYTES],
                        hr_error *err)
{
    hr_status st = HR_PENDING;

    if (!hr__kind_of(url)->has_versions)
        return get(s, url, account, out, tag, err);
    for (int i = 0; i < TRIES && st == HR_PENDING; i++)
        st = get_of_version(s, url, account, out, tag, err);
    return st == HR_PENDING ? hr_error_set(err, HR_IO, "%s: it was replaced in each of %d reads", url, TRIES) : st;
}

/* Whether the object holds these bytes: then a request whose answer was lost has put them there. */
static bool holds(hr_store *s, const char *url, const void *data, int64_t n, char **tag)
{
    char etag[HR_ETAG_BYTES] = "";
    hr_error none = HR_ERROR_INIT;
    hr_text there = { 0 };
    bool same = !hr__store_get(s, url, NULL, &there, etag, &none) && there.n == n &&
                (!n || !memcmp(there.data, data, (size_t)n)) && (*tag = hr__strdup(NULL, etag));

    hr_error_clear(&none);
    hr__text_clear(&there);
    return same;
}

/* The generation of the object, which is of this version. HR_MISMATCH: it is another one. */
static hr_status generation_of(hr_store *s, const char *url, const char *tag, char *out, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st;

    HR_GO(hr__store_request(&r, "HEAD", s, url, "", NULL, err));
    st = hr__http_run(&r, err);
    if (st == HR_NOT_FOUND || (!st && strcmp(r.answer.etag, tag) != 0))
        HR_FAIL(HR_MISMATCH, "%s: somebody else has written or removed it meanwhile", url);
    memcpy(out, r.answer.generation, sizeof r.answer.generation);
done:
    hr__http_clear(&r);
    return st;
}

/* The line of a header by which a request is for the object of this ETag alone. */
static hr_status add_condition(hr_store *s, const char *url, const char *tag, hr_text *out, hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(url)->upload;
    char generation[24];

    if (!k->generation) {
        hr__text_add(out, "If-Match: %s\n", tag);
        return HR_OK;
    }
    HR_TRY(generation_of(s, url, tag, generation, err));
    hr__text_add(out, "%s%s\n", k->generation, generation);
    return HR_OK;
}

/* The header lines of a PUT of a whole object. */
static hr_status add_lines(hr_store *s, const char *url, const char *if_tag, hr_text *out, hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(url)->upload;

    hr__text_add(out, "%s", if_tag && !if_tag[0] ? k->put_new : k->put ? k->put : "");
    if (if_tag && if_tag[0])
        HR_TRY(add_condition(s, url, if_tag, out, err));
    return out->failed ? hr__error_memory(err, url, 64) : HR_OK;
}

static hr_status put_once(hr_store *s, const char *url, const void *data, int64_t n, const char *lines,
                          hr_http_request *r, hr_error *err)
{
    HR_TRY(hr__store_request(r, "PUT", s, url, "", NULL, err));
    r->data = data;
    r->n_data = n;
    r->more = lines;
    return hr__http_run(r, err);
}

hr_status hr__store_send(hr_store *s, const char *url, const void *data, int64_t n, const char *lines, bool conditional,
                         hr_http_request *r, hr_error *err)
{
    hr_status st = put_once(s, url, data, n, lines, r, err);

    if (!st || !conditional || r->answer.status != 501)
        return st;
    hr__http_clear(r);
    hr_error_clear(err);
    return put_once(s, url, data, n, hr__kind_of(url)->upload->put, r, err);
}

hr_status hr__store_put(hr_store *s, const char *url, const void *data, int64_t n, const char *if_tag, char **tag,
                        hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(url)->upload;
    hr_http_request r = { 0 };
    hr_text lines = { 0 };
    hr_status st;
    int status;

    *tag = NULL;
    if (k->put_object)
        return k->put_object(s, url, data, n, if_tag, tag, err);
    HR_GO(add_lines(s, url, if_tag, &lines, err));
    st = hr__store_send(s, url, data, n, lines.data, if_tag != NULL, &r, err);
    status = r.answer.status;
    if (st && if_tag && (status == 412 || status == 409 || status == 404) && holds(s, url, data, n, tag)) {
        hr_error_clear(err);
        st = HR_OK;
        goto done;
    } else if (st && if_tag && (status == 412 || status == 404 || hr__http_says(&r, "BlobAlreadyExists"))) {
        st = hr_error_set(err, HR_MISMATCH, "%s: somebody else has written or removed it meanwhile", url);
    }
    HR_GO(st);
    *tag = hr__strdup(NULL, r.answer.etag);
    st = *tag ? HR_OK : hr__error_memory(err, url, 64);
done:
    hr__http_clear(&r);
    hr__text_clear(&lines);
    return st;
}

hr_status hr__object_put(const hr_store_options *o, const char *url, const void *data, int64_t n, const char *if_tag,
                         char **tag, hr_error *err)
{
    hr_store *s = NULL;
    hr_status st = store_for(o, url, &s, err);

    *tag = NULL;
    if (!st)
        st = hr__store_put(s, url, data, n, if_tag, tag, err);
    hr__store_unref(s);
    return st;
}

hr_status hr__store_delete(hr_store *s, const char *url, const char *query, const char *lines, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st;

    HR_GO(hr__store_request(&r, "DELETE", s, url, query, NULL, err));
    r.more = lines;
    st = hr__http_run(&r, err);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
done:
    hr__http_clear(&r);
    return st;
}

hr_status hr__store_remove(hr_store *s, const char *url, const char *if_tag, hr_error *err)
{
    hr_text lines = { 0 };
    hr_status st = if_tag && if_tag[0] ? add_condition(s, url, if_tag, &lines, err) : HR_OK;

    if (!st)
        st = lines.failed ? hr__error_memory(err, url, 64) : hr__store_delete(s, url, "", lines.data, err);
    hr__text_clear(&lines);
    return st;
}

/* Removes the folders above `url` and below `root` that are empty. Best effort. */
void hr__store_unmake(hr_store *s, const char *root, const char *url)
{
    char *path = hr__strdup(NULL, url), *slash;
    hr_error none = HR_ERROR_INIT;
    hr_status st = HR_OK;

    while (path && !st && (slash = strrchr(path, '/')) && slash > path + strlen(root)) {
        *slash = 0;
        st = hr__place(path).key[0] ? hr__store_delete(s, path, "", NULL, &none) : HR_PENDING;
    }
    hr_error_clear(&none);
    hr__free(path);
}

static hr_status remove_some(hr_store *s, const char *const *urls, int n, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (size_t)n * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, urls[0], n * (int64_t)sizeof *r);
    for (int i = 0; i < n; i++)
        r[i].st = hr__store_request(&r[i], "DELETE", s, urls[i], "", NULL, &r[i].err);
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        if (r[i].st && r[i].st != HR_NOT_FOUND && !st) {
            st = r[i].st;
            hr__error_move(err, &r[i].err);
        }
        hr__http_clear(&r[i]);
    }
    hr__free(r);
    return st;
}

/* Removes the folders of the objects that are empty now, up to the one that has all of them. */
static hr_status unmake_all(hr_store *s, const char *const *urls, int n, hr_error *err)
{
    const char *slash = strrchr(urls[0], '/');
    size_t common = (size_t)(slash - urls[0]);
    char *root;

    for (int i = 1; i < n; i++)
        while (common && (strncmp(urls[0], urls[i], common) != 0 || urls[i][common] != '/'))
            for (common--; common && urls[0][common] != '/';)
                common--;
    while (common && urls[0][common - 1] != '/') /* the folder above the common one */
        common--;
    root = hr__strndup(NULL, urls[0], common ? common - 1 : 0);
    if (!root)
        return hr__error_memory(err, urls[0], (int64_t)common);
    for (int i = 0; i < n; i++)
        hr__store_unmake(s, root, urls[i]);
    hr__free(root);
    return HR_OK;
}

hr_status hr__objects_remove(const hr_store_options *o, const char *const *urls, int n, hr_error *err)
{
    hr_store *s = NULL;
    hr_status st = n ? store_for(o, urls[0], &s, err) : HR_OK;

    for (int at = 0; at < n && !st; at += AT_ONCE)
        st = remove_some(s, urls + at, HR_MIN(AT_ONCE, n - at), err);
    if (!st && n && hr__kind_of(urls[0])->upload->has_folders)
        st = unmake_all(s, urls, n, err);
    hr__store_unref(s);
    return st;
}

static hr_status upload_one(hr_uploads *u, const char *url, const char *path, uint8_t *buffer, hr_error *err)
{
    hr_source *from = NULL;
    hr_upload *to;
    hr_status st = HR_OK;

    HR_GO(hr__source_open(path, NULL, &from, err));
    HR_GO(hr__upload_begin(u, url, &to, err));
    for (int64_t at = 0; at < from->n_bytes; at += LOCAL_CHUNK) {
        int64_t n = HR_MIN(LOCAL_CHUNK, from->n_bytes - at);

        HR_GO(hr__source_read(from, buffer, at, n, err));
        HR_GO(hr__upload_write(to, buffer, n, err));
    }
    HR_GO(hr__upload_finish(to, err));
done:
    hr__source_unref(from);
    return st;
}

hr_status hr__objects_upload(const hr_store_options *o, const char *folder, const char *const *urls,
                             const char *const *paths, int n, hr_error *err)
{
    uint8_t *buffer = hr__alloc(NULL, LOCAL_CHUNK);
    hr_uploads *u = NULL;
    hr_status st = HR_OK;

    if (!buffer)
        HR_GO(hr__error_memory(err, folder, LOCAL_CHUNK));
    HR_GO(hr__uploads_new(folder, HR_UPLOADS_FILES, "", o->items, o->n, NULL, &u, err));
    for (int i = 0; i < n; i++)
        HR_GO(upload_one(u, urls[i], paths[i], buffer, err));
    HR_GO(hr__uploads_commit(u, true, true, NULL, err));
done:
    hr__uploads_free(u);
    hr__free(buffer);
    return st;
}
