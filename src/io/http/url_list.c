/* url_list.c - the size and the version of the files that URLs name.
 *
 * A URL of a store is an object, a folder or a pattern: store_list.c.
 *
 * A URL of http or https is one file: no folder, and no pattern, since '?' and '*' mean something else there. HEAD
 * gives its size and its ETag. A server that refuses HEAD, or does not say the size, gets a request for the first byte.
 * AT_ONCE URLs are asked for at the same time.
 *
 * Tests: test_http.c, test_stores.py. */
#include "io/http/http.h"

#define AT_ONCE 1024

typedef struct batch {
    hr_mutex lock;
    hr_cond done;
    int n_left;
} batch;

static void one_done(hr_http_request *r)
{
    batch *b = r->context;

    hr__lock(&b->lock);
    if (--b->n_left == 0)
        hr__cond_signal(&b->done); /* under the lock: the batch goes when n_left is 0 */
    hr__unlock(&b->lock);
}

void hr__http_run_all(hr_http_request *r, int n)
{
    batch b = { .n_left = n };
    bool stopped = false;

    hr__mutex_init(&b.lock);
    hr__cond_init(&b.done);
    for (int i = 0; i < n; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_status st = r[i].st;

        r[i].done = one_done;
        r[i].context = &b;
        if (!st && !(st = hr__http_begin(&r[i], &err)))
            continue; /* the request is not ours until it is done */
        if (!r[i].st)
            hr__error_move(&r[i].err, &err);
        r[i].st = st;
        one_done(&r[i]);
    }
    hr__waits_begin();
    hr__lock(&b.lock);
    while (b.n_left) {
        if (hr__cond_wait_ns(&b.done, &b.lock, HR_LOOK_NS) || !b.n_left || stopped)
            continue;
        hr__unlock(&b.lock);
        stopped = hr__reads_stop();
        for (int i = 0; stopped && i < n; i++)
            hr__http_cancel(&r[i]);
        hr__lock(&b.lock);
    }
    hr__unlock(&b.lock);
    hr__waits_end();
    hr__cond_clear(&b.done);
    hr__mutex_clear(&b.lock);
}

int64_t hr__version_of(const char *tag)
{
    hr_hash h;

    if (!tag || !tag[0])
        return 0;
    hr__hash_init(&h, 1);
    hr__hash_text(&h, tag);
    return (int64_t)(hr__hash_end(&h).lo >> 1) | 1;
}

/* What tells two versions of an object apart. */
static const char *version_text(const hr_http_answer *a)
{
    return a->etag[0] ? a->etag : a->modified[0] ? a->modified : a->weak;
}

static bool knows_size(const hr_http_request *r) { return r->st == HR_OK && r->answer.total >= 0; }

/* HEAD did not give the size, and the object may be there. */
static bool asks_again(const hr_http_request *r)
{
    int status = r->answer.status;

    return !knows_size(r) && (r->st == HR_OK || status == 403 || status == 405 || status == 501);
}

/* Asks for the first byte instead. A server without ranges answers with the whole object, which is not read. */
static hr_status ask_first_byte(hr_store *store, const char *url, hr_account *account, hr_http_request *r,
                                hr_error *err)
{
    uint8_t byte;
    hr_status st;

    hr__http_clear(r);
    HR_TRY(hr__store_request(r, "GET", store, url, "", account, err));
    r->n_bytes = 1;
    r->out = &byte;
    st = hr__http_run(r, err);
    r->out = NULL;
    if (st && r->answer.total >= 0 && (r->answer.status == 200 || r->answer.status == 416))
        st = HR_OK; /* no ranges; or no byte, of an empty object */
    if (!st && r->answer.total < 0)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: the server does not say how many bytes it has", url);
    if (!st)
        hr_error_clear(err);
    return st;
}

/* The key as a pattern; NULL: it has no wildcards. */
static const char *pattern_of(const char *key, const hr_paths_options *options)
{
    return !options->plain && hr__has_pattern(key) ? key : NULL;
}

/* Objects of a store below the URL, or those that fit it. */
static hr_status list_below(hr_store *store, const char *url, const hr_paths_options *options, hr_paths *out,
                            hr_error *err)
{
    const char *key = hr__place(url).key, *pattern = pattern_of(key, options);
    size_t n = pattern ? strcspn(key, "*?[") : strlen(key);
    char *prefix = hr__printf(NULL, "%.*s%s", (int)n, key, pattern || n == 0 || key[n - 1] == '/' ? "" : "/");
    int64_t begin = out->n;
    hr_status st;

    if (!prefix)
        return hr__error_memory(err, url, (int64_t)n);
    st = hr__store_list(store, url, prefix, pattern, options, out, err);
    hr__free(prefix);
    if (!st && pattern && out->n == begin && !options->ignore_missing)
        return hr_error_set(err, HR_NOT_FOUND, "%s: no object matches", url);
    return st;
}

static hr_status find_below(hr_store *store, const char *url, const hr_paths_options *options, hr_paths *out,
                            hr_error *err)
{
    const hr_store_kind *k = hr__kind_of(url);

    return k->find ? k->find(store, url, pattern_of(hr__place(url).key, options), options, out, err)
                   : list_below(store, url, options, out, err);
}

/* A URL of a store that names no object: a folder, if anything is below it. */
static hr_status add_folder(hr_store *store, const char *url, const hr_paths_options *options, hr_paths *out,
                            hr_error *err)
{
    hr_paths_options all = *options;
    hr_paths any = { .account = out->account };
    int64_t n = out->n;
    hr_status st = list_below(store, url, options, out, err);

    if (st || out->n > n || options->ignore_missing)
        return st;
    all.suffixes = NULL;
    all.n_suffixes = 0;
    st = list_below(store, url, &all, &any, err);
    n = any.n;
    hr__paths_clear(&any);
    return st || n ? st : hr_error_set(err, HR_NOT_FOUND, "%s: no such object, and nothing below it", url);
}

static bool is_list(const char *url, const hr_paths_options *options)
{
    const hr_store_kind *k = hr__kind_of(url);
    const char *key = k ? hr__place(url).key : "x";

    return !key[0] || (k && k->find) || pattern_of(key, options) || key[strlen(key) - 1] == '/';
}

static hr_status add_one(hr_store *store, const char *url, hr_http_request *r, const hr_paths_options *options,
                         hr_paths *out, hr_error *err)
{
    hr_status st = r->st;

    if (hr__store_learn(store, url, r)) {
        hr__http_clear(r);
        st = hr__store_request(r, "HEAD", store, url, "", out->account, err);
        if (!st)
            st = hr__http_run(r, err);
        r->st = st;
    }
    if (asks_again(r))
        st = ask_first_byte(store, url, out->account, r, err);
    else if (st && r->err.status)
        hr__error_move(err, &r->err);
    if (!st && r->answer.is_folder)
        st = HR_NOT_FOUND;
    if (hr__kind_of(url) && st == HR_NOT_FOUND) {
        hr_error_clear(err);
        return add_folder(store, url, options, out, err);
    }
    if (st == HR_NOT_FOUND && options->ignore_missing) {
        hr_error_clear(err);
        return HR_OK;
    }
    HR_TRY(st);
    return hr__paths_add(out, url, r->answer.etag[0] ? r->answer.etag : NULL, r->answer.total,
                         hr__version_of(version_text(&r->answer)), err);
}

hr_status hr__url_list(hr_store *store, const char *const *urls, int n, const hr_paths_options *options, hr_paths *out,
                       hr_error *err)
{
    int most = HR_MIN(n, AT_ONCE);
    hr_http_request *r = hr__zalloc(out->account, (size_t)most * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, "list of URLs", most * (int64_t)sizeof *r);
    for (int i = 0; i < n && !st; i++)
        st = hr__store_prepare(store, urls[i], err);
    for (int at = 0; at < n && !st; at += most) {
        int m = HR_MIN(most, n - at);

        for (int i = 0; i < m; i++)
            r[i].st = is_list(urls[at + i], options)
                          ? HR_PENDING
                          : hr__store_request(&r[i], "HEAD", store, urls[at + i], "", out->account, &r[i].err);
        hr__http_run_all(r, m);
        for (int i = 0; i < m && !st; i++)
            st = r[i].st == HR_PENDING ? find_below(store, urls[at + i], options, out, err)
                                       : add_one(store, urls[at + i], &r[i], options, out, err);
        for (int i = 0; i < m; i++)
            hr__http_clear(&r[i]);
    }
    hr__free(r);
    return st;
}
