/* url.c - URLs as texts: what of them is shown, encoded, compared.
 *
 * A URL can hold secrets: a password before the host, and a signature in the query. No error and no log shows them.
 *
 * Tests: test_http.c. */
#include "io/http/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

const char *hr__url_host(const char *url, const char **end)
{
    const char *p = strstr(url, "://"), *at;

    p = p ? p + 3 : url;
    *end = p + strcspn(p, "/?#");
    at = memchr(p, '@', (size_t)(*end - p));
    while (at) {
        p = at + 1;
        at = memchr(p, '@', (size_t)(*end - p));
    }
    return p;
}

const char *hr__address_wrong(const char *url)
{
    const char *end, *host = hr__url_host(url, &end);
    size_t n = strncasecmp(url, "http:/", 6) == 0 ? 6 : strncasecmp(url, "https:/", 7) == 0 ? 7 : 0;

    if (!n)
        return "expected an address that begins with http:// or https://";
    if (url[n] != '/') /* an endpoint "http://" without its last slash */
        return "the address names no host";
    if (host == end || *host == ':')
        return "the address names no host";
    for (const char *p = host; p < end; p++)
        if ((unsigned char)*p <= ' ' || *p == 0x7f)
            return "the host's name has a blank or a control character";
    return NULL;
}

hr_status hr__check_address(const char *option, const char *url, hr_error *err)
{
    const char *wrong = hr__address_wrong(url);

    return wrong ? hr_error_set(err, HR_INVALID, "%s: %s", option, wrong) : HR_OK;
}

/* The query of a store's URL: a '?' and "NAME=" behind it; NULL: none. A key may hold a '?'; what may be a signature
 * is hidden from the first one on. */
static const char *store_query(const char *rest)
{
    const char *first = strchr(rest, '?');

    if (first && strcasestr(first, "sig="))
        return first;
    for (const char *q = first; q; q = strchr(q + 1, '?')) {
        size_t n = strcspn(q + 1, "=/?");

        if (n > 0 && q[1 + n] == '=')
            return q;
    }
    return NULL;
}

/* As hr__url_host, but "container@account" of Azure is no password. */
static const char *shown_from(const char *url, const char **end)
{
    const char *host = hr__url_host(url, end), *container = hr__kind_of(url) ? hr__place(url).bucket : host;

    return container < host && hr__kind_of(url) == &hr__az_kind && !memchr(container, ':', (size_t)(host - container))
               ? container
               : host;
}

char *hr__url_shown(const char *url, hr_account *account)
{
    const char *end, *host = shown_from(url, &end), *scheme_end = strstr(url, "://");
    const hr_store_kind *k = hr__kind_of(url);
    const char *query = k ? store_query(end) : NULL;
    size_t n_path = query ? (size_t)(query - end) : k ? strlen(end) : strcspn(end, "?#");

    if (k == &hr__served_kind) /* the path that the user knows */
        return hr__strdup(account, hr__place(url).key[0] ? hr__place(url).key : "/");
    return hr__printf(account, "%.*s%.*s", scheme_end ? (int)(scheme_end + 3 - url) : 0, url,
                      (int)(end + n_path - host), host);
}

void hr__url_hide(const char *url, hr_error *err)
{
    char *shown = hr__url_shown(url, NULL), text[sizeof err->text];
    const char *at = shown && err && strcmp(shown, url) != 0 ? strstr(err->text, url) : NULL;

    for (; at; at = strstr(err->text, url)) {
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - err->text), err->text, shown, at + strlen(url));
        memcpy(err->text, text, sizeof text);
    }
    hr__free(shown);
}

hr_status hr__url_error(hr_error *err, hr_status st, const char *url)
{
    char *shown = hr__url_shown(url, NULL);

    st = hr__error_at(err, st, "%s", shown ? shown : "a URL");
    hr__free(shown);
    return st;
}

char *hr__url_encoded(const char *url, hr_account *account)
{
    hr_text out = { .account = account };

    for (; *url; url++) {
        unsigned char c = (unsigned char)*url;

        if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c))
            hr__text_add(&out, "%%%02X", c);
        else
            hr__text_add_bytes(&out, url, 1);
    }
    if (out.failed)
        hr__text_clear(&out);
    return out.data;
}

bool hr__url_same_host(const char *a, const char *b)
{
    const char *a_end, *b_end, *a_host = hr__url_host(a, &a_end), *b_host = hr__url_host(b, &b_end);
    size_t n = (size_t)(a_end - a_host);

    if (strncasecmp(a, b, strcspn(a, ":") + 1) != 0)
        return false;
    return n == (size_t)(b_end - b_host) && strncasecmp(a_host, b_host, n) == 0;
}

static bool is_private_4(const uint8_t *a)
{
    return a[0] == 0 || a[0] == 10 || a[0] == 127 || a[0] >= 224 || (a[0] == 100 && a[1] >> 6 == 1) ||
           (a[0] == 169 && a[1] == 254) || (a[0] == 172 && a[1] >> 4 == 1) || (a[0] == 192 && a[1] == 168) ||
           (a[0] == 192 && a[1] == 0 && a[2] == 0) || (a[0] == 198 && a[1] >> 1 == 9);
}

/* Only 2000::/3 is public; in it 2002::/16 and 64:ff9b::/96 below carry an address of IPv4. */
static bool is_private_6(const uint8_t *a)
{
    static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }, nat64[12] = { 0, 0x64, 0xff, 0x9b };

    if (memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0)
        return is_private_4(a + 12);
    if (a[0] == 0x20 && a[1] == 0x02)
        return is_private_4(a + 2);
    return a[0] >> 5 != 1;
}

bool hr__address_is_private(const char *address)
{
    uint8_t a[16];

    if (inet_pton(AF_INET, address, a) == 1)
        return is_private_4(a);
    return inet_pton(AF_INET6, address, a) != 1 || is_private_6(a);
}

static const char *variable(const char *name, const char *other)
{
    const char *value = getenv(name);

    if ((!value || !*value) && other)
        value = getenv(other);
    return value && *value ? value : NULL;
}

/* The name of the host, without its port and the brackets of IPv6. */
static const char *name_of(const char *url, size_t *n)
{
    const char *end, *host = hr__url_host(url, &end);

    if (*host != '[') {
        *n = strcspn(host, ":/?#");
        return host;
    }
    *n = strcspn(host + 1, "]");
    return host + 1;
}

bool hr__host_is_in(const char *host, size_t n, const char *domain, size_t n_domain)
{
    if (n_domain == 0 || n_domain > n || strncasecmp(host + n - n_domain, domain, n_domain) != 0)
        return false;
    return n_domain == n || host[n - n_domain - 1] == '.';
}

/* Whether the list has the host's name, or the end of it after a dot. */
static bool is_excepted(const char *host, size_t n, const char *list)
{
    for (size_t m; list && *list; list += m + (list[m] != 0)) {
        size_t dot = *list == '.';

        m = strcspn(list, ", ");
        if ((m == 1 && *list == '*') || hr__host_is_in(host, n, list + dot, m - dot))
            return true;
    }
    return false;
}

const char *hr__url_proxy(const char *url, const hr_store *s)
{
    bool tls = strncasecmp(url, "https:", 6) == 0;
    const char *proxy = tls ? variable("https_proxy", "HTTPS_PROXY") : variable("http_proxy", NULL);
    size_t n;
    const char *host = name_of(url, &n), *exceptions = s->proxy_excludes;

    if (!exceptions && !s->proxy)
        exceptions = variable("no_proxy", "NO_PROXY");
    if (!proxy)
        proxy = variable("all_proxy", "ALL_PROXY");
    if (s->proxy)
        proxy = s->proxy[0] ? s->proxy : NULL;
    return hr__url_is_near(url) || is_excepted(host, n, exceptions) ? NULL : proxy;
}

/* 127.0.0.0/8 and 169.254.0.0/16; ::1, fe80::/10, and the addresses at which AWS has metadata, fd00:ec2::/32. */
static bool is_near_address(const char *host)
{
    static const uint8_t loopback[16] = { [15] = 1 }, metadata[4] = { 0xfd, 0x00, 0x0e, 0xc2 };
    uint8_t a[16];

    if (inet_pton(AF_INET, host, a) == 1)
        return a[0] == 127 || (a[0] == 169 && a[1] == 254);
    return inet_pton(AF_INET6, host, a) == 1 &&
           (memcmp(a, loopback, 16) == 0 || memcmp(a, metadata, 4) == 0 || (a[0] == 0xfe && (a[1] & 0xc0) == 0x80));
}

bool hr__url_is_near(const char *url)
{
    size_t n;
    const char *name = name_of(url, &n);
    char host[256];

    if (n >= sizeof host)
        return false;
    memcpy(host, name, n);
    host[n] = 0;
    return is_near_address(host) || strcasecmp(host, "metadata.google.internal") == 0 ||
           hr__host_is_in(host, n, "localhost", strlen("localhost"));
}
