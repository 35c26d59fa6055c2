/* served_kind.c - filesystems of the program as a kind of store: "filesystem:///PATH", where PATH is what the
 * filesystem takes, often with a '/' at its beginning. The option "filesystem=NUMBER" says which one; nobody types such
 * URLs.
 *
 * Requests, by their methods; hr__served_call has them:
 *   FIND               -> "F" or "D", then name, bytes and version of each file, all ended by a zero byte: the file, or
 *                         the files below the folder, as their paths below it
 *   GET                -> bytes of a range. tag: the version that the file must have, if the range ends it
 *   PUT part=ID.N      a part of the file that will be named PATH; the first one is number 1; the parts after it may
 *                      come before it
 *   PUT                the whole file; lines: "If-None-Match" or "If-Match", its condition -> the new version
 *   POST end=ID        all parts have come: the file is complete, under a name that nobody sees
 *   MOVE id=ID         gives it its name; with "&new" only if there is no such file
 *   DELETE id=ID       throws it away, if it has no name
 *   DELETE             removes the file PATH
 *
 * Tests: test_served.c, test_served.py. */
#include "io/http/http.h"

#include <stdlib.h>

static hr_status served_prepare(hr_store *s, const char *url, hr_error *err)
{
    if (s->filesystem)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "%s: the path of a filesystem, without the argument filesystem", url);
}

static bool served_signs(const hr_store *s, const char *url)
{
    (void)s;
    (void)url;
    return false;
}

static hr_identity *served_identity(const hr_store *s, const char *url)
{
    (void)s;
    (void)url;
    return NULL;
}

static void served_add_address(const hr_store *s, const char *url, bool of_bucket, hr_text *out)
{
    (void)s;
    (void)of_bucket;
    hr__text_add(out, "filesystem:///");
    hr__url_add_encoded(out, hr__place(url).key, true);
}

/* ------------------------------------------------------------------------------------------------------------ lists */

/* The next text of the answer; NULL: there is none. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at, *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

    if (!stop)
        return NULL;
    *at = stop + 1;
    return text;
}

typedef struct finding {
    const char *url, *pattern, *folder; /* folder: the key of the list, without '/' at its end */
    const hr_paths_options *options;
    hr_paths *out;
    int64_t n_files; /* of any name */
} finding;

static hr_status add_file(finding *f, const char *name, int64_t n_bytes, const char *tag, hr_error *err)
{
    size_t n = strlen(f->folder);
    char *key = hr__printf(NULL, "%s%s%s", f->folder, n == 0 || f->folder[n - 1] == '/' ? "" : "/", name), *path;
    hr_status st = HR_OK;

    f->n_files++;
    if (!key)
        return hr__error_memory(err, f->url, (int64_t)strlen(name));
    if (hr__key_fits(f->pattern, f->pattern ? key + strspn(key, "/") : name, f->options)) {
        path = hr__url_of_key(f->url, key, NULL);
        st = path ? hr__paths_add(f->out, path, tag[0] ? tag : NULL, n_bytes, hr__version_of(tag), err)
                  : hr__error_memory(err, f->url, (int64_t)strlen(key));
        hr__free(path);
    }
    hr__free(key);
    return st;
}

static hr_status no_list(const char *url, hr_error *err)
{
    (void)hr_error_set(err, HR_BAD_DATA, "the filesystem gives a list that is cut");
    return hr__url_error(err, HR_BAD_DATA, url);
}

/* Adds the files of the answer. file: the URL names one. */
static hr_status add_files(finding *f, const hr_text *body, bool *file, hr_error *err)
{
    const char *at = body->data, *end = at ? at + body->n : NULL, *kind = next_text(&at, end), *name;

    *file = kind && kind[0] == 'F';
    if (!kind)
        return no_list(f->url, err);
    while (at < end) {
        const char *size, *tag;

        name = next_text(&at, end);
        size = name ? next_text(&at, end) : NULL;
        tag = size ? next_text(&at, end) : NULL;
        if (!tag)
            return no_list(f->url, err);
        if (*file)
            return hr__paths_add(f->out, f->url, tag[0] ? tag : NULL, strtoll(size, NULL, 10), hr__version_of(tag),
                                 err);
        HR_TRY(add_file(f, name, strtoll(size, NULL, 10), tag, err));
    }
    return HR_OK;
}

/* Adds what is at the key, or below it. */
static hr_status find_at(hr_store *s, const char *key, finding *f, bool *file, hr_error *err)
{
    char *url = hr__url_of_key(f->url, key, NULL);
    hr_http_request r = { 0 };
    int64_t begin = f->out->n;
    hr_status st;

    HR_GO(url ? hr__store_request(&r, "FIND", s, url, "", NULL, err) : hr__error_memory(err, f->url, 64));
    HR_GO(hr__http_run(&r, err));
    HR_GO(add_files(f, &r.body, file, err));
    hr__paths_sort(f->out, begin);
done:
    hr__http_clear(&r);
    hr__free(url);
    return st;
}

/* Of a list of nothing that the caller calls missing. */
static hr_status missing(const finding *f, const char *what, hr_error *err)
{
    if (f->options->ignore_missing)
        return HR_OK;
    (void)hr_error_set(err, HR_NOT_FOUND, "%s", what);
    return hr__url_error(err, HR_NOT_FOUND, f->url);
}

static hr_status find_pattern(hr_store *s, finding *f, hr_error *err)
{
    size_t n = strcspn(f->pattern, "*?[");
    int64_t begin = f->out->n;
    char *folder;
    hr_status st;
    bool file;

    while (n && f->pattern[n - 1] != '/')
        n--;
    while (n > 1 && f->pattern[n - 1] == '/')
        n--;
    folder = hr__strndup(NULL, f->pattern, n);
    if (!folder)
        return hr__error_memory(err, f->url, (int64_t)n);
    f->folder = folder;
    f->pattern += strspn(f->pattern, "/");
    st = find_at(s, folder, f, &file, err);
    hr__free(folder);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
    return !st && f->out->n == begin ? missing(f, "no file matches", err) : st;
}

/* What exists is no pattern, as for local files. */
static hr_status served_find(hr_store *s, const char *url, const char *pattern, const hr_paths_options *options,
                             hr_paths *out, hr_error *err)
{
    char *key = hr__strdup(NULL, hr__place(url).key);
    finding f = { .url = url, .folder = key, .options = options, .out = out };
    bool file = false;
    hr_status st;

    if (!key)
        return hr__error_memory(err, url, (int64_t)strlen(url));
    for (size_t n = strlen(key); n > 1 && key[n - 1] == '/';)
        key[--n] = 0;
    st = find_at(s, key, &f, &file, err);
    if (st == HR_NOT_FOUND && pattern) {
        hr_error_clear(err);
        f.pattern = pattern;
        st = find_pattern(s, &f, err);
    } else if (st == HR_NOT_FOUND && options->ignore_missing) {
        hr_error_clear(err);
        st = HR_OK;
    } else if (!st && !file && f.n_files == 0) {
        st = missing(&f, "the folder has no files", err);
    }
    hr__free(key);
    return st;
}

const hr_store_kind hr__served_kind = {
    .schemes = HR_SERVED_SCHEME,
    .any_bucket = true,
    .prepare = served_prepare,
    .signs = served_signs,
    .identity = served_identity,
    .add_address = served_add_address,
    .find = served_find,
    .upload = &hr__served_upload,
    .begin = hr__served_begin,
    .cancel = hr__served_cancel,
};
