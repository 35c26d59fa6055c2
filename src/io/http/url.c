/* url.c - URLs as texts: what of them is shown, encoded, compared.
 *
 * A URL can hold secrets: a password before the host, and a signature in the query. No error and no log shows them.
 *
 * Tests: test_http.c. */
#include "io/http/http.h"

#include <ctype.h>
#include <strings.h>

/* Where the host begins, after "https://" and "name:password@". */
static const char *host_of(const char *url, const char **end)
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

char *hr__url_shown(const char *url, hr_account *account)
{
    const char *end, *host = host_of(url, &end), *scheme_end = strstr(url, "://");
    bool has_query = strncasecmp(url, "http", 4) == 0; /* a key of S3 may hold a '?' */
    size_t n_path = has_query ? strcspn(end, "?#") : strlen(end);

    return hr__printf(account, "%.*s%.*s", scheme_end ? (int)(scheme_end + 3 - url) : 0, url,
                      (int)(end + n_path - host), host);
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
    const char *a_end, *b_end, *a_host = host_of(a, &a_end), *b_host = host_of(b, &b_end);
    size_t n = (size_t)(a_end - a_host);

    if (strncasecmp(a, b, strcspn(a, ":") + 1) != 0)
        return false;
    return n == (size_t)(b_end - b_host) && strncasecmp(a_host, b_host, n) == 0;
}

bool hr__url_is_near(const char *url)
{
    static const char *const hosts[] = { "localhost", "127.", "[::1]", "169.254.", "metadata.google.internal" };
    const char *end, *host = host_of(url, &end);

    for (int i = 0; i < HR_LEN(hosts); i++)
        if (strncasecmp(host, hosts[i], strlen(hosts[i])) == 0)
            return true;
    return false;
}
