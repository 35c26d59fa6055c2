/* store.c - what all URLs of a reader share: limits on time, retries, and how stores are reached.
 *
 * Options come as texts "name=value", under the names that other libraries have for them. Their values are secrets or
 * not: no error prints the value of a text.
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

typedef struct number_option {
    const char *name;
    size_t offset; /* of an int in hr_store */
    double scale, least, most;
} number_option;

static const number_option numbers[] = {
    { "timeout", offsetof(hr_store, silence_ms), 1000, 0.01, 86400 },
    { "first_byte_timeout", offsetof(hr_store, first_byte_ms), 1000, 0.01, 86400 },
    { "connect_timeout", offsetof(hr_store, connect_ms), 1000, 0.01, 86400 },
    { "max_retries", offsetof(hr_store, max_retries), 1, 0, 100 },
    { "max_connections", offsetof(hr_store, max_connections), 1, 1, 1024 },
};

/* A NULL or empty `size` is the default. */
static hr_status set_cache_size(hr_store *s, const char *name, const char *size, hr_error *err)
{
    hr_status st;

    s->cache_bytes = CACHE_BYTES;
    if (!size || !*size)
        return HR_OK;
    st = hr_parse_bytes(size, &s->cache_bytes, err);
    return st ? hr__error_at(err, st, "%s", name) : HR_OK;
}

typedef struct text_option {
    const char *names; /* separated by blanks: ours, then those of other libraries. Stores share some: each takes it */
    size_t offset;     /* of a char * in hr_store */
} text_option;

static const text_option texts[] = {
    { "cache_dir", offsetof(hr_store, cache_dir) },
    { "aws_access_key_id access_key_id key", offsetof(hr_store, s3.key_id) },
    { "aws_secret_access_key secret_access_key secret", offsetof(hr_store, s3.secret) },
    { "aws_session_token session_token token", offsetof(hr_store, s3.token) },
    { "aws_region region aws_default_region", offsetof(hr_store, s3.region) },
    { "aws_endpoint_url aws_endpoint endpoint_url endpoint", offsetof(hr_store, s3.endpoint) },
    { "aws_profile profile", offsetof(hr_store, s3.profile) },
    { "google_token bearer_token token", offsetof(hr_store, gs.token) },
    { "google_service_account google_service_account_path google_application_credentials service_account "
      "service_account_path application_credentials",
      offsetof(hr_store, gs.key_file) },
    { "google_service_account_key service_account_key", offsetof(hr_store, gs.key) },
    { "google_hmac_key_id", offsetof(hr_store, gs.key_id) },
    { "google_hmac_secret", offsetof(hr_store, gs.secret) },
    { "google_endpoint_url google_base_url endpoint_url endpoint", offsetof(hr_store, gs.endpoint) },
    { "azure_storage_account_name azure_account_name account_name", offsetof(hr_store, az.account) },
    { "azure_storage_account_key azure_storage_access_key account_key access_key", offsetof(hr_store, az.key) },
    { "azure_storage_sas_token azure_storage_sas_key sas_token sas_key", offsetof(hr_store, az.sas) },
    { "azure_storage_token bearer_token token", offsetof(hr_store, az.token) },
    { "azure_storage_tenant_id azure_storage_authority_id azure_tenant_id azure_authority_id tenant_id authority_id",
      offsetof(hr_store, az.tenant) },
    { "azure_storage_client_id azure_client_id client_id", offsetof(hr_store, az.client) },
    { "azure_storage_client_secret azure_client_secret client_secret", offsetof(hr_store, az.client_secret) },
    { "azure_federated_token_file federated_token_file", offsetof(hr_store, az.token_file) },
    { "azure_storage_authority_host azure_authority_host authority_host", offsetof(hr_store, az.authority) },
    { "azure_msi_endpoint azure_identity_endpoint identity_endpoint msi_endpoint",
      offsetof(hr_store, az.identity_endpoint) },
    { "azure_storage_connection_string connection_string", offsetof(hr_store, az.connection) },
    { "azure_storage_endpoint azure_endpoint endpoint_url endpoint", offsetof(hr_store, az.endpoint) },
    { "webhdfs_endpoint endpoint_url endpoint", offsetof(hr_store, hdfs.endpoint) },
    { "hdfs_user", offsetof(hr_store, hdfs.user) },
    { "hdfs_delegation_token", offsetof(hr_store, hdfs.token) },
    { "azure_endpoint_suffix endpoint_suffix", offsetof(hr_store, az.suffix) },
};

typedef struct switch_option {
    const char *names;
    size_t offset; /* of an hr_switch in hr_store */
} switch_option;

static const switch_option switches[] = {
    { "hedges", offsetof(hr_store, hedges) },
    { "aws_skip_signature skip_signature anon", offsetof(hr_store, s3.anonymous) },
    { "google_skip_signature skip_signature anon", offsetof(hr_store, gs.anonymous) },
    { "azure_skip_signature skip_signature anon", offsetof(hr_store, az.anonymous) },
    { "azure_storage_use_emulator azure_use_emulator use_emulator", offsetof(hr_store, az.emulator) },
    { "aws_virtual_hosted_style_request virtual_hosted_style_request", offsetof(hr_store, s3.virtual_host) },
    { "aws_s3_express s3_express", offsetof(hr_store, s3.express) },
};

/* Whether the first n characters of `name` are one of the names. Offers all of them to `near`. */
static bool is_one_of(const char *names, const char *name, size_t n, hr_near *near)
{
    for (size_t m; *names; names += m + (names[m] == ' ')) {
        m = strcspn(names, " ");
        if (m == n && memcmp(names, name, n) == 0)
            return true;
        hr__near_try(near, names, m);
    }
    return false;
}

/* "timeout=30": seconds. */
static hr_status set_number(hr_store *s, const number_option *o, const char *value, hr_error *err)
{
    char *end;
    double x = strtod(value, &end);

    if (end == value || *end || !(x >= o->least && x <= o->most))
        return hr_error_set(err, HR_INVALID, "storage_options: %s: expected a number from %g to %g, found '%.100s'",
                            o->name, o->least, o->most, value);
    *(int *)((char *)s + o->offset) = (int)(x * o->scale);
    return HR_OK;
}

static hr_status set_text(hr_store *s, size_t offset, const char *value, hr_error *err)
{
    char **at = (char **)((char *)s + offset);

    hr__free(*at);
    *at = hr__strdup(NULL, value);
    return *at ? HR_OK : hr__error_memory(err, "storage_options", (int64_t)strlen(value));
}

static hr_status set_switch(hr_store *s, const switch_option *o, const char *value, hr_error *err)
{
    bool on = strcmp(value, "true") == 0;

    if (!on && strcmp(value, "false") != 0)
        return hr_error_set(err, HR_INVALID, "storage_options: %.*s: expected true or false, found '%.100s'",
                            (int)strcspn(o->names, " "), o->names, value);
    *(hr_switch *)((char *)s + o->offset) = on ? HR_SWITCH_ON : HR_SWITCH_OFF;
    return HR_OK;
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
    size_t n = strcspn(option, "=");
    const char *value = option[n] ? option + n + 1 : "";
    bool found = false;
    hr_near near;

    hr__near_begin(&near, option, n);
    if (n == 10 && memcmp(option, "filesystem", n) == 0)
        return set_filesystem(s, value, err);
    if (is_one_of("cache_size", option, n, &near))
        return set_cache_size(s, "storage_options: cache_size", value, err);
    for (int i = 0; i < HR_LEN(numbers); i++)
        if (is_one_of(numbers[i].name, option, n, &near))
            return set_number(s, &numbers[i], value, err);
    for (int i = 0; i < HR_LEN(texts); i++)
        if (is_one_of(texts[i].names, option, n, &near)) {
            HR_TRY(set_text(s, texts[i].offset, value, err));
            found = true;
        }
    for (int i = 0; i < HR_LEN(switches); i++)
        if (is_one_of(switches[i].names, option, n, &near)) {
            HR_TRY(set_switch(s, &switches[i], value, err));
            found = true;
        }
    if (found)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "storage_options: there is no option '%.*s'%s", (int)n, option,
                        hr__near_hint(&near));
}

hr_status hr__set_default(char **at, const char *value, int64_t n, hr_error *err)
{
    if (*at || !value || n <= 0)
        return HR_OK;
    *at = hr__strndup(NULL, value, (size_t)n);
    return *at ? HR_OK : hr__error_memory(err, "configuration of a store", n);
}

hr_status hr__set_from(char **at, const char *variable, hr_error *err)
{
    const char *value = getenv(variable);

    return hr__set_default(at, value, value ? (int64_t)strlen(value) : 0, err);
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
    HR_GO(set_cache_size(s, "HEADRACE_CACHE_SIZE", getenv("HEADRACE_CACHE_SIZE"), err));
    for (int i = 0; i < n_options; i++)
        HR_GO(set_option(s, options[i], err));
    if (!s->filesystem) /* no version of such files is known to be unique */
        HR_GO(hr__set_from(&s->cache_dir, "HEADRACE_CACHE_DIR", err));
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
    for (int i = 0; i < HR_LEN(texts); i++)
        hr__free(*(char **)((char *)s + texts[i].offset));
    hr__free(s);
}
