/* store.c - what all URLs of a reader share: limits on time, retries, and how stores are reached.
 *
 * Tests: test_http.c, test_s3.c. */
#include "io/http/http.h"

#include <stdlib.h>

#define CONNECT_MS 10000
#define SILENCE_MS 30000
#define MAX_RETRIES 5
#define IDLE_S 30
#define MAX_CONNECTIONS 256
#define CACHE_BYTES ((int64_t)64 << 30)

/* A NULL or empty `size` is the default. */
static hr_status take_cache_size(hr_store *s, const char *size, hr_error *err)
{
    hr_status st;

    s->cache_bytes = CACHE_BYTES;
    if (!size || !*size)
        return HR_OK;
    st = hr_parse_bytes(size, &s->cache_bytes, err);
    return st ? hr__error_at(err, st, "HEADRACE_CACHE_SIZE") : HR_OK;
}

hr_status hr__set_default(char **at, const char *value, int64_t n, hr_error *err)
{
    if (*at || !value || n <= 0)
        return HR_OK;
    *at = hr__strndup(NULL, value, (size_t)n);
    return *at ? HR_OK : hr__error_memory(err, "configuration of a store", n);
}

hr_status hr__set_text(char **at, const char *value, hr_error *err)
{
    return hr__set_default(at, value, value ? (int64_t)strlen(value) : 0, err);
}

hr_status hr__set_from(char **at, const char *variable, hr_error *err)
{
    return hr__set_text(at, getenv(variable), err);
}

/* The number of a served filesystem, which Python adds; no user types it. */
static hr_status set_filesystem(hr_store *s, const char *value, hr_error *err)
{
    int64_t number = strtoll(value, NULL, 10);

    HR_TRY(hr__served_ref(number, err));
    hr__served_unref(s->filesystem);
    s->filesystem = number;
    return HR_OK;
}

static hr_status set_option(hr_store *s, const char *option, hr_error *err)
{
    return strncmp(option, "filesystem=", 11) == 0 ? set_filesystem(s, option + 11, err)
                                                   : hr__store_set(s, option, err);
}

hr_status hr__store_new(const char *const *options, int n_options, hr_account *account, hr_store **out, hr_error *err)
{
    hr_store *s = hr__zalloc(account, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "store", sizeof *s);
    atomic_init(&s->refs, 1);
    s->connect_ms = CONNECT_MS;
    s->silence_ms = SILENCE_MS;
    s->max_retries = MAX_RETRIES;
    s->idle_s = IDLE_S;
    s->max_connections = MAX_CONNECTIONS;
    HR_GO(take_cache_size(s, getenv("HEADRACE_CACHE_SIZE"), err));
    for (int i = 0; i < n_options; i++)
        HR_GO(set_option(s, options[i], err));
    HR_GO(hr__set_from(&s->certificates, "SSL_CERT_FILE", err));
    if (!s->filesystem) /* no version of such files is known to be unique */
        HR_GO(hr__set_from(&s->cache_dir, "HEADRACE_CACHE_DIR", err));
    if (s->cache_dir && strstr(s->cache_dir, "://"))
        HR_FAIL(HR_INVALID, "cache_dir (HEADRACE_CACHE_DIR): expected a folder on a disk of this machine, found a URL");
    *out = s;
    s = NULL;
done:
    hr__store_unref(s);
    return st;
}

hr_store *hr__store_ref(hr_store *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__store_unref(hr_store *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr__s3_end_sessions(s);
    hr__served_unref(s->filesystem);
    hr__identity_unref(s->s3.identity);
    hr__identity_unref(s->gs.identity);
    hr__identity_unref(s->az.identity);
    hr__free(s->hdfs.query);
    hr__free(s->s3.key_sum);
    hr__free(s->az.key_sum);
    hr__free(s->certificates);
    hr__store_options_clear(s);
    hr__free(s);
}
