/* store_options.c - storage options: texts "name=value", under the names that object_store, Polars and fsspec share.
 *
 * 1. Upper and lower case of a name are equal. An option of the client (time-outs, proxy) can begin with "aws_",
 *    "azure_" or "google_", as object_store has it; it counts for all stores.
 * 2. A name that several stores have counts for each of them.
 * 3. Each name of object_store and fsspec is taken, or has no effect here and is taken, or is refused with a reason.
 * 4. A value can be a secret, also one under a wrong name: no error shows it.
 *
 * Tests: test_store_options.c, test_store_options.py, test_s3.c. */
#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define TRUE "true 1 on yes y"
#define FALSE "false 0 off no n"

typedef enum option_kind {
    IS_TEXT,    /* a char * */
    IS_LINE,    /* likewise, which becomes a part of a header */
    IS_SWITCH,  /* an hr_switch */
    IS_PAYER,   /* an hr_switch, perhaps with a project */
    IS_COUNT,   /* an int */
    IS_SECONDS, /* an int */
    IS_MS       /* an int of milliseconds, given in seconds */
} option_kind;

typedef struct store_option {
    const char *names; /* separated by blanks: ours, then those of other libraries */
    size_t offset;     /* in hr_store */
    option_kind kind;
    double least, most; /* of a number */
} store_option;

#define OPTION(option_names, field, of_kind, from, to)                                                                 \
    { .names = option_names, .offset = offsetof(hr_store, field), .kind = of_kind, .least = from, .most = to }
#define TEXT(names, field) OPTION(names, field, IS_TEXT, 0, 0)
#define LINE(names, field) OPTION(names, field, IS_LINE, 0, 0)
#define SWITCH(names, field) OPTION(names, field, IS_SWITCH, 0, 0)
#define PAYER(names, field) OPTION(names, field, IS_PAYER, 0, 0)

/* Of all stores. */
static const store_option client_options[] = {
    OPTION("timeout read_timeout request_timeout requests_timeout socket_timeout", silence_ms, IS_MS, 0.01, 86400),
    OPTION("first_byte_timeout", first_byte_ms, IS_MS, 0.01, 86400),
    OPTION("connect_timeout connection_timeout", connect_ms, IS_MS, 0.01, 86400),
    OPTION("pool_idle_timeout", idle_s, IS_SECONDS, 1, 86400),
    OPTION("max_retries", max_retries, IS_COUNT, 0, 100),
    OPTION("max_connections max_pool_connections", max_connections, IS_COUNT, 1, 1024),
    SWITCH("hedges", hedges),
    SWITCH("allow_http", allow_http),
    SWITCH("randomize_addresses", shuffle_addresses),
    TEXT("cache_dir", cache_dir),
    TEXT("proxy_url", proxy),
    TEXT("proxy_excludes", proxy_excludes),
    LINE("user_agent", user_agent),
};

static const store_option store_options[] = {
    TEXT("aws_access_key_id access_key_id key username", s3.key_id),
    TEXT("aws_secret_access_key secret_access_key secret password", s3.secret),
    TEXT("aws_session_token aws_token session_token", s3.session_token),
    TEXT("token", s3.token), /* of four stores: it may be of another one */
    TEXT("aws_region region region_name", s3.region),
    TEXT("aws_default_region default_region", s3.default_region),
    TEXT("aws_endpoint_url aws_endpoint endpoint_url endpoint", s3.endpoint),
    TEXT("aws_endpoint_url_s3", s3.endpoint_s3),
    TEXT("aws_endpoint_url_sts endpoint_url_sts", s3.sts),
    TEXT("aws_profile profile", s3.profile),
    TEXT("aws_role_arn role_arn", s3.role),
    TEXT("aws_role_session_name role_session_name", s3.role_session),
    TEXT("aws_external_id external_id", s3.external_id),
    TEXT("aws_web_identity_token_file web_identity_token_file", s3.token_file),
    TEXT("aws_metadata_endpoint metadata_endpoint", s3.metadata),
    TEXT("aws_container_credentials_relative_uri container_credentials_relative_uri", s3.container_path),
    TEXT("aws_container_credentials_full_uri container_credentials_full_uri", s3.container_url),
    TEXT("aws_container_authorization_token_file container_authorization_token_file", s3.container_token_file),
    TEXT("aws_server_side_encryption server_side_encryption", s3.encryption),
    LINE("aws_sse_kms_key_id sse_kms_key_id", s3.kms_key),
    TEXT("aws_sse_customer_key_base64 sse_customer_key_base64", s3.customer_key),
    SWITCH("aws_sse_bucket_key_enabled sse_bucket_key_enabled", s3.bucket_key),
    SWITCH("aws_skip_signature skip_signature anon", s3.anonymous),
    SWITCH("aws_virtual_hosted_style_request virtual_hosted_style_request", s3.virtual_host),
    SWITCH("aws_s3_express s3_express", s3.express),
    SWITCH("aws_unsigned_payload unsigned_payload", s3.unsigned_payload),
    SWITCH("aws_request_payer request_payer", s3.request_payer),
    PAYER("requester_pays", s3.request_payer),
    SWITCH("use_ssl", s3.use_ssl),
    TEXT("google_token google_bearer_token bearer_token token", gs.token),
    TEXT("google_service_account google_service_account_path google_application_credentials service_account "
         "service_account_path application_credentials",
         gs.key_file),
    TEXT("google_service_account_key service_account_key", gs.key),
    TEXT("google_hmac_key_id", gs.key_id),
    TEXT("google_hmac_secret", gs.secret),
    TEXT("google_endpoint_url google_base_url base_url endpoint_url endpoint", gs.endpoint),
    LINE("google_project_id google_project project project_id", gs.project),
    SWITCH("google_skip_signature skip_signature anon", gs.anonymous),
    PAYER("google_request_payer requester_pays", gs.request_payer),
    TEXT("azure_storage_account_name azure_account_name account_name", az.account),
    TEXT(
        "azure_storage_account_key azure_storage_access_key azure_storage_master_key master_key account_key access_key",
        az.key),
    TEXT("azure_storage_sas_token azure_storage_sas_key sas_token sas_key", az.sas),
    TEXT("azure_storage_token bearer_token token", az.token),
    TEXT("azure_storage_tenant_id azure_storage_authority_id azure_tenant_id azure_authority_id tenant_id authority_id",
         az.tenant),
    TEXT("azure_storage_client_id azure_client_id client_id", az.client),
    TEXT("azure_storage_client_secret azure_client_secret client_secret", az.client_secret),
    TEXT("azure_federated_token_file federated_token_file", az.token_file),
    TEXT("azure_storage_authority_host azure_authority_host authority_host", az.authority),
    TEXT("azure_msi_endpoint azure_identity_endpoint identity_endpoint msi_endpoint", az.identity_endpoint),
    TEXT("azure_object_id object_id", az.object_id),
    TEXT("azure_msi_resource_id msi_resource_id", az.resource_id),
    TEXT("azure_storage_connection_string connection_string", az.connection),
    TEXT("azure_storage_endpoint azure_endpoint endpoint_url endpoint account_host", az.endpoint),
    TEXT("azure_endpoint_suffix endpoint_suffix", az.suffix),
    TEXT("azure_storage_encryption_key encryption_key", az.encryption_key),
    SWITCH("azure_skip_signature skip_signature anon", az.anonymous),
    SWITCH("azure_storage_use_emulator azure_use_emulator object_store_use_emulator use_emulator", az.emulator),
    SWITCH("azure_use_fabric_endpoint use_fabric_endpoint", az.fabric),
    TEXT("webhdfs_endpoint endpoint_url endpoint", hdfs.endpoint),
    TEXT("hdfs_user user", hdfs.user),
    TEXT("hdfs_delegation_token token", hdfs.token),
};

/* They are of parts of other libraries that have no counterpart here: what is read and written is the same. */
static const char no_effect[] =
    /* object_store: of HTTP/2, of its pool, of requests that Headrace does not send. */
    "http1_only http2_keep_alive_interval http2_keep_alive_timeout http2_keep_alive_while_idle http2_max_frame_size "
    "pool_max_idle_per_host aws_copy_if_not_exists copy_if_not_exists aws_disable_tagging azure_disable_tagging "
    "disable_tagging aws_disable_bulk_delete disable_bulk_delete "
    /* Polars and deltalake: pauses between attempts, files of their own, renames. */
    "file_cache_ttl retry_timeout_ms retry_init_backoff_ms retry_max_backoff_ms retry_base_multiplier retry_timeout "
    "aws_s3_allow_unsafe_rename allow_unsafe_rename aws_s3_locking_provider "
    /* fsspec, s3fs, gcsfs, adlfs: their buffers, caches of lists and threads. */
    "access assume_container_exists asynchronous auto_mkdir batch_size block_size blocksize cache_regions "
    "cache_timeout check_connection consistency default_block_size default_cache_type default_fill_cache "
    "default_location fixed_upload_size listings_expiry_time loop max_concurrency max_paths secure_serialize "
    "skip_instance_cache use_listings_cache version_aware";

/* What cannot be honoured. */
static const struct refusal {
    const char *names;
    const char *fine; /* values that ask for what is done anyhow, separated by blanks; "": none */
    const char *why;
} refusals[] = {
    { "allow_invalid_certificates", "false", "certificates are always checked; SSL_CERT_FILE names those to trust" },
    { "disable_system_certificates", "false",
      "SSL_CERT_FILE names the certificates to trust, in place of the system's" },
    { "verify", "true", "certificates are always checked; SSL_CERT_FILE names those to trust" },
    { "proxy_ca_certificate", "", "SSL_CERT_FILE names the certificates to trust, also those of a proxy" },
    { "http2_only", "false", "requests are of HTTP/1.1, which is faster for bodies" },
    { "default_content_type", "", "objects are written without a Content-Type" },
    { "aws_bucket aws_bucket_name bucket_name bucket google_bucket google_bucket_name", "",
      "the URL names the bucket: s3://bucket/key" },
    { "azure_container_name container_name", "", "the URL names the container: az://container/path" },
    { "aws_imdsv1_fallback imdsv1_fallback", "false", "the metadata of a machine are asked by version 2 alone" },
    { "aws_checksum_algorithm checksum_algorithm", "", "objects are written without such checksums" },
    { "aws_conditional_put conditional_put", "etag", "conditions are those of ETags" },
    { "azure_use_azure_cli use_azure_cli", "false",
      "azure_storage_token takes the token of 'az account get-access-token --resource https://storage.azure.com'" },
    { "azure_fabric_token_service_url azure_fabric_workload_host azure_fabric_session_token "
      "azure_fabric_cluster_identifier fabric_token_service_url fabric_workload_host fabric_session_token "
      "fabric_cluster_identifier",
      "", "Fabric's token service is not asked; azure_storage_token takes a token of it" },
    { "azure_credential_type credential_type", "auto",
      "give the options of one kind of credentials: docs/stores/azure.md has the order" },
    { "location_mode", "primary", "the primary location is read; azure_storage_endpoint names another one" },
    { "local_expiry_check", "false", "each request for a range names its version by If-Match" },
    { "session session_kwargs request_session", "", "the engine has no session of Python's" },
    { "credential", "", "azure_storage_sas_token, azure_storage_account_key or azure_storage_token take a text" },
    { "kerberos kerb_kwargs", "false", "hdfs_delegation_token takes a delegation token" },
    { "host port use_https", "", "the URL names the server: webhdfs://host:port/path, over TLS swebhdfs://" },
    { "data_proxy proxy_to session_cert session_verify", "", "WebHDFS has no counterpart of it here" },
};

static void *place_of(hr_store *s, const store_option *o) { return (char *)s + o->offset; }

/* Whether the first n characters of `name` are one of the names. Offers all of them to `near` (NULL: to none). */
static bool is_one_of(const char *names, const char *name, size_t n)
{
    for (size_t m; *names; names += m + (names[m] == ' ')) {
        m = strcspn(names, " ");
        if (m == n && strncasecmp(names, name, n) == 0)
            return true;
    }
    return false;
}

static void try_each(const char *names, hr_near *near)
{
    for (size_t m; *names; names += m + (names[m] == ' ')) {
        m = strcspn(names, " ");
        hr__near_try(near, names, m);
    }
}

/* ----------------------------------------------------------------------------------------------------------- values */

static hr_status wrong_value(const char *names, const char *expected, const char *value, hr_error *err)
{
    return hr_error_set(err, HR_INVALID, "storage_options: %.*s: expected %s; found another text of %d characters",
                        (int)strcspn(names, " "), names, expected, (int)HR_MIN(strlen(value), 100000));
}

static const struct {
    const char *names;
    double seconds;
} units[] = {
    { "ms msec millis millisecond milliseconds", 1e-3 },
    { "s sec secs second seconds", 1 },
    { "m min mins minute minutes", 60 },
    { "h hr hrs hour hours", 3600 },
    { "d day days", 86400 },
    { "us usec microsecond microseconds", 1e-6 },
    { "ns nsec nanosecond nanoseconds", 1e-9 },
};

/* The unit at the n characters; 0: there is no such unit. */
static double unit_of(const char *p, size_t n)
{
    for (int i = 0; i < HR_LEN(units); i++)
        if (is_one_of(units[i].names, p, n))
            return units[i].seconds;
    return 0;
}

/* "30", "500ms", "1m 30s" -> seconds; < 0: it is no time. */
static double seconds_of(const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    double sum = 0, x, unit;
    const char *p = value;
    char *end;

    do {
        size_t n;

        x = strtod(p, &end);
        if (end == p || !(x >= 0))
            return -1;
        if (p == value && !*end)
            return x;
        end += strspn(end, " ");
        n = strspn(end, letters);
        if (!(unit = unit_of(end, n)))
            return -1;
        sum += x * unit;
        p = end + n + strspn(end + n, " ");
    } while (*p);
    return sum;
}

static hr_status set_number(hr_store *s, const store_option *o, const char *value, hr_error *err)
{
    char *end, expected[120];
    bool is_time = o->kind != IS_COUNT;
    double x = is_time ? seconds_of(value) : strtod(value, &end);

    if (!(x >= o->least && x <= o->most) || (!is_time && *end)) {
        snprintf(expected, sizeof expected,
                 is_time ? "a number of seconds from %g to %g, or a time with a unit, such as 500ms, 30s or 1m"
                         : "a number from %g to %g",
                 o->least, o->most);
        return wrong_value(o->names, expected, value, err);
    }
    *(int *)place_of(s, o) = (int)(o->kind == IS_MS ? x * 1000 : x);
    return HR_OK;
}

static hr_status set_text(hr_store *s, const store_option *o, const char *value, hr_error *err)
{
    char **at = place_of(s, o);

    for (const char *p = value; *p && o->kind == IS_LINE; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return wrong_value(o->names, "a text of one line", value, err);
    hr__free(*at);
    *at = hr__strdup(NULL, value);
    return *at ? HR_OK : hr__error_memory(err, "storage_options", (int64_t)strlen(value));
}

static hr_status set_switch(hr_store *s, const store_option *o, const char *value, hr_error *err)
{
    size_t n = strlen(value);
    bool on = is_one_of(TRUE, value, n);

    if (!on && !is_one_of(FALSE, value, n))
        return wrong_value(o->names, "true or false", value, err);
    *(hr_switch *)place_of(s, o) = on ? HR_SWITCH_ON : HR_SWITCH_OFF;
    return HR_OK;
}

/* true or false, or gcsfs's way: the project that pays. */
static hr_status set_payer(hr_store *s, const store_option *o, const char *value, hr_error *err)
{
    static const store_option project = LINE("project", gs.project);

    if (!value[0] || is_one_of(TRUE " " FALSE, value, strlen(value)))
        return set_switch(s, o, value, err);
    *(hr_switch *)place_of(s, o) = HR_SWITCH_ON;
    return set_text(s, &project, value, err);
}

static hr_status set_value(hr_store *s, const store_option *o, const char *value, hr_error *err)
{
    switch (o->kind) {
    case IS_TEXT:
    case IS_LINE: return set_text(s, o, value, err);
    case IS_SWITCH: return set_switch(s, o, value, err);
    case IS_PAYER: return set_payer(s, o, value, err);
    default: return set_number(s, o, value, err);
    }
}

/* ---------------------------------------------------------------------------------------------------------- options */

static hr_status set_cache_size(hr_store *s, const char *value, hr_error *err)
{
    hr_error unread = HR_ERROR_INIT;
    hr_status st = *value ? hr_parse_bytes(value, &s->cache_bytes, &unread) : HR_OK;

    hr_error_clear(&unread);
    return st ? wrong_value("cache_size", "a number of bytes, such as 200GB or 64GiB", value, err) : HR_OK;
}

/* Sets all options of the table that have this name. */
static hr_status set_of(hr_store *s, const store_option *table, int n_table, const char *name, size_t n,
                        const char *value, bool *found, hr_error *err)
{
    for (int i = 0; i < n_table; i++)
        if (is_one_of(table[i].names, name, n)) {
            HR_TRY(set_value(s, &table[i], value, err));
            *found = true;
        }
    return HR_OK;
}

/* The length of "aws_", "azure_" or "google_" at the name's begin; 0: it has none of them. */
static size_t prefix_of(const char *name)
{
    static const char *const prefixes[] = { "aws_", "azure_", "google_" };

    for (int i = 0; i < HR_LEN(prefixes); i++)
        if (strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return strlen(prefixes[i]);
    return 0;
}

/* Whether the name, or what follows its prefix, is one of them. */
static bool is_named(const char *names, const char *name, size_t n)
{
    size_t prefix = HR_MIN(prefix_of(name), n);

    return is_one_of(names, name, n) || (prefix && is_one_of(names, name + prefix, n - prefix));
}

static hr_status refuse(const char *name, size_t n, const char *value, bool *found, hr_error *err)
{
    for (int i = 0; i < HR_LEN(refusals); i++) {
        if (!is_named(refusals[i].names, name, n))
            continue;
        *found = true;
        return is_one_of(refusals[i].fine, value, strlen(value))
                   ? HR_OK
                   : hr_error_set(err, HR_UNSUPPORTED, "storage_options: %.*s: %s", (int)n, name, refusals[i].why);
    }
    *found = is_named(no_effect, name, n);
    return HR_OK;
}

static hr_status unknown(const char *option, size_t n, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, option, n);
    try_each("cache_size", &near);
    for (int i = 0; i < HR_LEN(client_options); i++)
        try_each(client_options[i].names, &near);
    for (int i = 0; i < HR_LEN(store_options); i++)
        try_each(store_options[i].names, &near);
    return hr_error_set(err, HR_INVALID, "storage_options: there is no option '%.*s'%s", (int)n, option,
                        hr__near_hint(&near));
}

hr_status hr__store_set(hr_store *s, const char *option, hr_error *err)
{
    size_t n = strcspn(option, "="), prefix = HR_MIN(prefix_of(option), n);
    const char *value = option[n] ? option + n + 1 : "";
    bool found = false;

    if (is_one_of("cache_size", option, n))
        return set_cache_size(s, value, err);
    HR_TRY(set_of(s, client_options, HR_LEN(client_options), option + prefix, n - prefix, value, &found, err));
    HR_TRY(set_of(s, store_options, HR_LEN(store_options), option, n, value, &found, err));
    if (!found)
        HR_TRY(refuse(option, n, value, &found, err));
    return found ? HR_OK : unknown(option, n, err);
}

static void clear_of(hr_store *s, const store_option *table, int n_table)
{
    for (int i = 0; i < n_table; i++)
        if (table[i].kind == IS_TEXT || table[i].kind == IS_LINE) {
            char **at = place_of(s, &table[i]);

            hr__free(*at);
            *at = NULL;
        }
}

void hr__store_options_clear(hr_store *s)
{
    clear_of(s, client_options, HR_LEN(client_options));
    clear_of(s, store_options, HR_LEN(store_options));
}
