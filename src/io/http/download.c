/* download.c - whole objects by their URLs, many at the same time: for URLs that stand in a column.
 *
 * URLs of data are not the user's words, so a caller can allow public addresses alone: the network's thread looks at
 * the address of each connection before the request goes out, also after a redirect and on a connection that is used
 * again. Stores are where the options or the provider say, and may redirect to public addresses. A URL that names its
 * server itself (az://host/...) is like one of http, and gets none of the user's credentials.
 *
 * Tests: test_http.c, test_download.py. */
#include "io/http/http.h"

#include <stdlib.h>

#define NO_LIMIT (INT64_C(1) << 40)

static hr_mutex prepares = HR_MUTEX_INIT; /* stores are shared by threads */

static hr_status prepare(hr_store *store, const char *url, hr_error *err)
{
    hr_status st;

    hr__lock(&prepares);
    st = hr__store_prepare(store, url, err);
    hr__unlock(&prepares);
    return st;
}

/* *names_server: no word of the user says which server it is. */
static hr_status check_credentials(const hr_store *store, const char *url, bool *names_server, hr_error *err)
{
    const hr_store_kind *k = hr__kind_of(url);

    *names_server = !k || (k->names_server && k->names_server(store, url));
    if (!k || !*names_server || !(k->signs(store, url) || (k->grant && k->grant(store, url))))
        return HR_OK;
    (void)hr_error_set(err, HR_INVALID,
                       "credentials go to no server that a URL of the data names; name it in storage_options");
    return hr__url_error(err, HR_INVALID, url);
}

static hr_status ask(hr_store *store, const char *url, const hr_download_limits *limits, hr_http_request *r,
                     hr_error *err)
{
    const char *wrong = hr__kind_of(url) ? NULL : hr__address_wrong(url);
    bool names_server;

    if (wrong) {
        (void)hr_error_set(err, HR_BAD_DATA, "%s", wrong); /* the data's fault, and no option's */
        return hr__url_error(err, HR_BAD_DATA, url);
    }
    HR_TRY(prepare(store, url, err));
    HR_TRY(check_credentials(store, url, &names_server, err));
    HR_TRY(hr__store_request(r, "GET", store, url, "", NULL, err));
    r->max_body = limits->max_bytes > 0 ? limits->max_bytes : NO_LIMIT;
    r->public_only = !limits->allow_private && names_server;
    r->public_abroad = !limits->allow_private;
    return HR_OK;
}

/* Another region, for example: once more. */
static void follow_refusal(hr_store *store, const char *url, const hr_download_limits *limits, hr_http_request *r)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st;

    if (!r->st || !hr__store_learn(store, url, r))
        return;
    hr__http_clear(r);
    st = ask(store, url, limits, r, &err);
    if (!st)
        st = hr__http_run(r, &err);
    if (!r->err.status)
        hr__error_move(&r->err, &err);
    r->st = st;
    hr_error_clear(&err);
}

static void take(hr_http_request *r, hr_download *out)
{
    out->st = r->st;
    if (r->st) {
        hr__error_move(&out->err, &r->err);
        return;
    }
    out->n = r->body.n;
    out->data = r->body.data;
    r->body = (hr_text){ 0 };
}

hr_status hr__download(hr_store *store, const char *const *urls, int n, const hr_download_limits *limits,
                       hr_download *out, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (size_t)HR_MAX(n, 1) * sizeof *r);

    if (!r)
        return hr__error_memory(err, "downloads", n * (int64_t)sizeof *r);
    for (int i = 0; i < n; i++)
        r[i].st = ask(store, urls[i], limits, &r[i], &r[i].err);
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        follow_refusal(store, urls[i], limits, &r[i]);
        take(&r[i], &out[i]);
        hr__http_clear(&r[i]);
    }
    hr__free(r);
    return HR_OK;
}

void hr__download_clear(hr_download *d)
{
    hr__free(d->data);
    hr_error_clear(&d->err);
    *d = (hr_download){ 0 };
}
