/* store_kind.c - which kind of store a URL leads to, and what all kinds share: the parts of a URL, addresses, requests.
 *
 * What a kind has of its own stands in its table: how the address of an object is made, how an attempt is signed, how a
 * page of a list is asked for. Lists, uploads and commits work by these tables. URLs of http and https are of no store.
 *
 * Tests: test_s3.c. */
#include "io/http/http.h"

#include <ctype.h>
#include <strings.h>

static const hr_store_kind *const kinds[] = { &hr__s3_kind, &hr__gs_kind, &hr__az_kind, &hr__hdfs_kind,
                                              &hr__served_kind };

/* Whether the scheme is one of the kind's. */
static bool is_of(const hr_store_kind *k, const char *scheme, size_t n)
{
    for (const char *p = k->schemes; *p; p += strcspn(p, " "), p += *p == ' ')
        if (strcspn(p, " ") == n && strncasecmp(p, scheme, n) == 0)
            return true;
    return false;
}

const hr_store_kind *hr__kind_of(const char *url)
{
    const char *colon = strstr(url, "://");

    for (int i = 0; colon && i < HR_LEN(kinds); i++)
        if (is_of(kinds[i], url, (size_t)(colon - url)))
            return kinds[i];
    return NULL;
}

bool hr__url_is_store(const char *url) { return hr__kind_of(url) != NULL; }

/* "container@account.host/key", and "account.host/container/key": no name of a container has a dot. */
static void find_account(hr_place *p)
{
    const char *at = memchr(p->bucket, '@', (size_t)p->n_bucket);

    if (at) {
        p->account = at + 1;
        p->n_account = (int)(p->bucket + p->n_bucket - p->account);
        p->n_bucket = (int)(at - p->bucket);
    } else if (memchr(p->bucket, '.', (size_t)p->n_bucket)) {
        p->account = p->bucket;
        p->n_account = p->n_bucket;
        p->bucket = p->key;
        p->n_bucket = (int)strcspn(p->bucket, "/");
        p->key = p->bucket + p->n_bucket + (p->bucket[p->n_bucket] == '/');
    }
}

hr_place hr__place(const char *url)
{
    hr_place p = { .bucket = strstr(url, "://") + 3 };

    p.anonymous = strncmp(p.bucket, "anonymous@", 10) == 0;
    p.bucket += p.anonymous ? 10 : 0;
    p.n_bucket = (int)strcspn(p.bucket, "/");
    p.key = p.bucket + p.n_bucket + (p.bucket[p.n_bucket] == '/');
    if (hr__kind_of(url) == &hr__az_kind)
        find_account(&p);
    return p;
}

void hr__url_trim(char *url)
{
    hr_place p = hr__place(url);
    size_t least = (size_t)(p.bucket - url) + (size_t)p.n_bucket;

    for (size_t n = strlen(url); n > least && url[n - 1] == '/';)
        url[--n] = 0;
}

char *hr__url_of_key(const char *url, const char *key, hr_account *account)
{
    int n = (int)(hr__place(url).key - url);

    return hr__printf(account, "%.*s%s%s", n, url, url[n - 1] == '/' ? "" : "/", key);
}

/* RFC 3986: all but letters, digits and -_.~ as %XX. */
void hr__url_add_encoded(hr_text *out, const char *s, bool keep_slash)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if ((c < 0x80 && isalnum(c)) || c == '-' || c == '_' || c == '.' || c == '~' || (keep_slash && c == '/'))
            hr__text_add_bytes(out, s, 1);
        else
            hr__text_add(out, "%%%02X", c);
    }
}

/* Letters, digits and `more`, as in all names of buckets: nothing else may become a part of an address. */
static bool is_name(const char *p, int n, const char *more)
{
    int k = 0;

    while (k < n && ((unsigned char)p[k] < 0x80 && (isalnum((unsigned char)p[k]) || strchr(more, p[k]))))
        k++;
    return k == n;
}

static hr_status check_names(const hr_store_kind *k, const char *url, hr_error *err)
{
    hr_place p;

    if (k->any_bucket)
        return HR_OK;
    p = hr__place(url);
    if (is_name(p.bucket, p.n_bucket, "-_.$") && is_name(p.account ? p.account : "", p.n_account, "-_.:[]"))
        return HR_OK;
    (void)hr_error_set(err, HR_INVALID, "what follows :// is no name of %s",
                       k == &hr__az_kind ? "an account and a container" : "a bucket");
    return hr__url_error(err, HR_INVALID, url);
}

/* An object's key follows the endpoint, and would be a part of a query. */
static hr_status check_endpoints(const hr_store *s, const char *url, hr_error *err)
{
    const char *const all[] = { s->s3.endpoint, s->gs.endpoint, s->az.endpoint, s->hdfs.endpoint };

    for (int i = 0; i < HR_LEN(all); i++)
        if (all[i] && strpbrk(all[i], "?#")) {
            (void)hr_error_set(err, HR_INVALID, "the endpoint has a '?' or a '#': expected an address without a query");
            return hr__url_error(err, HR_INVALID, url);
        }
    return HR_OK;
}

hr_status hr__store_prepare(hr_store *s, const char *url, hr_error *err)
{
    const hr_store_kind *k = hr__kind_of(url);

    if (!k)
        return HR_OK;
    if (!k->begin)
        HR_TRY(hr__http_check_build(url, err)); /* before anybody looks for credentials */
    HR_TRY(check_names(k, url, err));
    HR_TRY(k->prepare(s, url, err));
    return check_endpoints(s, url, err);
}

bool hr__store_learn(hr_store *s, const char *url, const hr_http_request *r)
{
    const hr_store_kind *k = hr__kind_of(url);

    return k && k->learn && k->learn(s, r);
}

char *hr__store_address(const hr_store *s, const char *url, bool of_bucket, const char *query, hr_account *account)
{
    const hr_store_kind *k = hr__kind_of(url);
    hr_text out = { .account = account };
    const char *grant;

    if (!k)
        return hr__url_encoded(url, account);
    k->add_address(s, url, of_bucket, &out);
    if (query[0])
        hr__text_add(&out, "?%s", query);
    grant = k->grant ? k->grant(s, url) : NULL;
    if (grant)
        hr__text_add(&out, "%c%s", query[0] ? '&' : '?', grant);
    if (out.failed)
        hr__text_clear(&out);
    return out.data;
}

static hr_status request(hr_http_request *r, const char *method, hr_store *s, const char *url, bool of_bucket,
                         const char *query, hr_account *account, hr_error *err)
{
    hr_http_request asked = { .method = method };
    const hr_store_kind *k = hr__kind_of(url);

    if (k && k->ask && !query[0] && !of_bucket)
        query = k->ask(&asked);
    HR_TRY(hr__http_init(r, asked.method, hr__store_address(s, url, of_bucket, query, NULL), s, err));
    r->account = account;
    r->kind = k;
    r->is_signed = r->kind && r->kind->signs(s, url);
    if ((r->name = hr__strdup(NULL, url)))
        return HR_OK;
    hr__http_clear(r);
    return hr__error_memory(err, "a URL", (int64_t)strlen(url));
}

hr_status hr__store_request(hr_http_request *r, const char *method, hr_store *s, const char *url, const char *query,
                            hr_account *account, hr_error *err)
{
    return request(r, method, s, url, false, query, account, err);
}

hr_status hr__bucket_request(hr_http_request *r, const char *method, hr_store *s, const char *url, const char *query,
                             hr_account *account, hr_error *err)
{
    return request(r, method, s, url, true, query, account, err);
}
