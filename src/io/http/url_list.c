/* url_list.c - the size and the version of the files that URLs name.
 *
 * A URL of http or https is one file: no folder, and no pattern, since '?' and '*' mean something else there. HEAD
 * gives its size and its ETag. A server that refuses HEAD, or does not say the size, gets a request for the first byte.
 * AT_ONCE URLs are asked for at the same time.
 *
 * Tests: test_http.c, test_stores.py. */
#include "io/http/http.h"

#define AT_ONCE 256

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

/* Sends all and waits for all. The error of a request stays in it. */
static void run_all(hr_http_request *r, int n)
{
    batch b = { .n_left = n };

    hr__mutex_init(&b.lock);
    hr__cond_init(&b.done);
    for (int i = 0; i < n; i++) {
        r[i].done = one_done;
        r[i].context = &b;
        if (r[i].st)
            one_done(&r[i]); /* it could not be made */
        else if ((r[i].st = hr__http_begin(&r[i], &r[i].err)))
            one_done(&r[i]);
    }
    hr__lock(&b.lock);
    while (b.n_left)
        hr__cond_wait(&b.done, &b.lock);
    hr__unlock(&b.lock);
    hr__cond_clear(&b.done);
    hr__mutex_clear(&b.lock);
}

/* A number for "has it changed?", in the place of a time. */
static int64_t version_of(const hr_http_answer *a)
{
    hr_hash h;

    if (!a->etag[0] && !a->modified[0])
        return 0;
    hr__hash_init(&h, 1);
    hr__hash_text(&h, a->etag[0] ? a->etag : a->modified);
    return (int64_t)(hr__hash_end(&h).lo >> 1) | 1;
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
    HR_TRY(hr__http_init(r, "GET", hr__store_url(store, url, account), store, err));
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

static hr_status add_one(hr_store *store, const char *url, hr_http_request *r, const hr_paths_options *options,
                         hr_paths *out, hr_error *err)
{
    hr_status st = r->st;

    if (asks_again(r))
        st = ask_first_byte(store, url, out->account, r, err);
    else if (st)
        hr__error_move(err, &r->err);
    if (st == HR_NOT_FOUND && options->ignore_missing) {
        hr_error_clear(err);
        return HR_OK;
    }
    HR_TRY(st);
    return hr__paths_add(out, url, r->answer.etag[0] ? r->answer.etag : NULL, r->answer.total, version_of(&r->answer),
                         err);
}

hr_status hr__url_list(hr_store *store, const char *const *urls, int n, const hr_paths_options *options, hr_paths *out,
                       hr_error *err)
{
    int most = HR_MIN(n, AT_ONCE);
    hr_http_request *r = hr__zalloc(out->account, (size_t)most * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, "list of URLs", most * (int64_t)sizeof *r);
    for (int at = 0; at < n && !st; at += most) {
        int m = HR_MIN(most, n - at);

        for (int i = 0; i < m; i++)
            r[i].st = hr__http_init(&r[i], "HEAD", hr__store_url(store, urls[at + i], out->account), store, &r[i].err);
        run_all(r, m);
        for (int i = 0; i < m && !st; i++)
            st = add_one(store, urls[at + i], &r[i], options, out, err);
        for (int i = 0; i < m; i++)
            hr__http_clear(&r[i]);
    }
    hr__free(r);
    return st;
}
