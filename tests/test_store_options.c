/* test_store_options.c - names and values of storage options, as object_store and fsspec have them. */
#include "harness.h"

#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>

/* Names of any case and of other libraries lead to one field. */
static const struct {
    const char *option;
    size_t offset;
    const char *want;
} texts[] = {
    { "AWS_ACCESS_KEY_ID=a", offsetof(hr_store, s3.key_id), "a" },
    { "Key=a", offsetof(hr_store, s3.key_id), "a" },
    { "username=a", offsetof(hr_store, s3.key_id), "a" },
    { "token=t", offsetof(hr_store, s3.token), "t" },
    { "AWS_TOKEN=t=", offsetof(hr_store, s3.session_token), "t=" },
    { "token=t", offsetof(hr_store, gs.token), "t" },
    { "token=t", offsetof(hr_store, az.token), "t" },
    { "token=t", offsetof(hr_store, hdfs.token), "t" },
    { "default_region=r", offsetof(hr_store, s3.default_region), "r" },
    { "region_name=r", offsetof(hr_store, s3.region), "r" },
    { "AWS_ENDPOINT_URL_S3=http://h", offsetof(hr_store, s3.endpoint_s3), "http://h" },
    { "aws_role_arn=arn", offsetof(hr_store, s3.role), "arn" },
    { "metadata_endpoint=http://m", offsetof(hr_store, s3.metadata), "http://m" },
    { "GOOGLE_SERVICE_ACCOUNT=/f", offsetof(hr_store, gs.key_file), "/f" },
    { "base_url=http://g", offsetof(hr_store, gs.endpoint), "http://g" },
    { "google_bearer_token=b", offsetof(hr_store, gs.token), "b" },
    { "project=p", offsetof(hr_store, gs.project), "p" },
    { "AZURE_STORAGE_MASTER_KEY=k", offsetof(hr_store, az.key), "k" },
    { "master_key=k", offsetof(hr_store, az.key), "k" },
    { "azure_object_id=o", offsetof(hr_store, az.object_id), "o" },
    { "msi_resource_id=/sub", offsetof(hr_store, az.resource_id), "/sub" },
    { "account_host=h", offsetof(hr_store, az.endpoint), "h" },
    { "user=ann", offsetof(hr_store, hdfs.user), "ann" },
    { "proxy_url=http://p:1", offsetof(hr_store, proxy), "http://p:1" },
    { "AWS_PROXY_URL=http://p:1", offsetof(hr_store, proxy), "http://p:1" },
    { "azure_proxy_excludes=a,b", offsetof(hr_store, proxy_excludes), "a,b" },
    { "google_user_agent=me/1", offsetof(hr_store, user_agent), "me/1" },
};

static const struct {
    const char *option;
    size_t offset;
    int want; /* -1: it is refused */
} numbers[] = {
    { "timeout=30", offsetof(hr_store, silence_ms), 30000 },
    { "timeout=30s", offsetof(hr_store, silence_ms), 30000 },
    { "timeout=500ms", offsetof(hr_store, silence_ms), 500 },
    { "timeout=1m", offsetof(hr_store, silence_ms), 60000 },
    { "timeout=1m 30s", offsetof(hr_store, silence_ms), 90000 },
    { "timeout=1min30sec", offsetof(hr_store, silence_ms), 90000 },
    { "timeout=2 hours", offsetof(hr_store, silence_ms), 7200000 },
    { "timeout=0.5", offsetof(hr_store, silence_ms), 500 },
    { "timeout=1d", offsetof(hr_store, silence_ms), 86400000 },
    { "timeout=2d", 0, -1 },
    { "timeout=1us", 0, -1 },
    { "timeout=5parsecs", 0, -1 },
    { "timeout=5 5", 0, -1 },
    { "timeout=-5s", 0, -1 },
    { "timeout=s", 0, -1 },
    { "timeout=", 0, -1 },
    { "timeout=nan", 0, -1 },
    { "timeout=1m30", 0, -1 },
    { "aws_timeout=7s", offsetof(hr_store, silence_ms), 7000 },
    { "REQUEST_TIMEOUT=7s", offsetof(hr_store, silence_ms), 7000 },
    { "read_timeout=7", offsetof(hr_store, silence_ms), 7000 },
    { "connect_timeout=5s", offsetof(hr_store, connect_ms), 5000 },
    { "connection_timeout=5", offsetof(hr_store, connect_ms), 5000 },
    { "pool_idle_timeout=90s", offsetof(hr_store, idle_s), 90 },
    { "max_retries=3", offsetof(hr_store, max_retries), 3 },
    { "max_retries=3s", 0, -1 },
    { "max_pool_connections=12", offsetof(hr_store, max_connections), 12 },
    { "hedges=Off", offsetof(hr_store, hedges), HR_SWITCH_OFF },
    { "hedges=1", offsetof(hr_store, hedges), HR_SWITCH_ON },
    { "hedges=perhaps", 0, -1 },
    { "AWS_ALLOW_HTTP=true", offsetof(hr_store, allow_http), HR_SWITCH_ON },
    { "allow_http=no", offsetof(hr_store, allow_http), HR_SWITCH_OFF },
    { "anon=Yes", offsetof(hr_store, s3.anonymous), HR_SWITCH_ON },
    { "aws_unsigned_payload=true", offsetof(hr_store, s3.unsigned_payload), HR_SWITCH_ON },
    { "requester_pays=true", offsetof(hr_store, gs.request_payer), HR_SWITCH_ON },
    { "requester_pays=my-project", offsetof(hr_store, gs.request_payer), HR_SWITCH_ON },
    { "requester_pays=false", offsetof(hr_store, s3.request_payer), HR_SWITCH_OFF },
    { "AWS_REQUEST_PAYER=true", offsetof(hr_store, s3.request_payer), HR_SWITCH_ON },
    { "request_payer=somebody", 0, -1 },
    { "user_agent=a\nX-Evil: 1", 0, -1 },
};

static void values_arrive_where_they_belong(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;

    (void)state;
    for (int i = 0; i < HR_LEN(texts); i++) {
        assert_ok(hr__store_new(&texts[i].option, 1, NULL, &s, &err), &err);
        assert_string_equal(*(char **)((char *)s + texts[i].offset), texts[i].want);
        hr__store_unref(s);
    }
    for (int i = 0; i < HR_LEN(numbers); i++) {
        hr_status st = hr__store_new(&numbers[i].option, 1, NULL, &s, &err);

        if (numbers[i].want < 0) {
            assert_status(st, HR_INVALID, &err);
            hr_error_clear(&err);
            continue;
        }
        assert_ok(st, &err);
        if (*(int *)((char *)s + numbers[i].offset) != numbers[i].want)
            fail_msg("%s: %d", numbers[i].option, *(int *)((char *)s + numbers[i].offset));
        hr__store_unref(s);
    }
    assert_no_leak(before);
}

static const struct {
    const char *option, *text; /* NULL: it is taken */
} reasons[] = {
    { "allow_invalid_certificates=true", "certificates are always checked; SSL_CERT_FILE" },
    { "AWS_ALLOW_INVALID_CERTIFICATES=true", "SSL_CERT_FILE" },
    { "allow_invalid_certificates=false", NULL },
    { "bucket=b", "the URL names the bucket" },
    { "azure_container_name=c", "the URL names the container" },
    { "http2_only=true", "HTTP/1.1" },
    { "http1_only=true", NULL },
    { "aws_http2_max_frame_size=1", NULL },
    { "use_azure_cli=true", "az account get-access-token" },
    { "AZURE_CREDENTIAL_TYPE=auto", NULL },
    { "azure_credential_type=sas_token", "one kind of credentials" },
    { "conditional_put=etag", NULL },
    { "aws_s3_allow_unsafe_rename=true", NULL },
    { "aws_acces_key_id=x", "there is no option 'aws_acces_key_id'; did you mean 'aws_access_key_id'?" },
};

static void what_cannot_be_has_a_reason(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;

    (void)state;
    for (int i = 0; i < HR_LEN(reasons); i++) {
        hr_status st = hr__store_new(&reasons[i].option, 1, NULL, &s, &err);

        if (!reasons[i].text) {
            assert_ok(st, &err);
            hr__store_unref(s);
            continue;
        }
        assert_true(st == HR_UNSUPPORTED || st == HR_INVALID);
        assert_contains(err.text, reasons[i].text);
        hr_error_clear(&err);
    }
}

/* A secret under a wrong name is in no error. */
static void no_value_is_shown(void **state)
{
    static const char *const names[] = { "timeout",
                                         "max_retries",
                                         "hedges",
                                         "cache_size",
                                         "allow_http",
                                         "bucket",
                                         "http2_only",
                                         "nothing_of_ours",
                                         "pool_idle_timeout",
                                         "requester_payer",
                                         "aws_sse_customer_key_base64" };
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        char *option = hr__printf(NULL, "%s=HUSHsecret", names[i]);
        const char *one = option;
        hr_status st = hr__store_new(&one, 1, NULL, &s, &err);

        if (!st) { /* its key is looked at when a store is prepared */
            st = hr__store_prepare(s, "s3://b1/x", &err);
            hr__store_unref(s);
        }
        assert_int_not_equal(st, HR_OK);
        assert_null(strstr(err.text, "HUSH"));
        hr_error_clear(&err);
        hr__free(option);
    }
}

static void http_can_be_forbidden(void **state)
{
    static const char *const options[] = { "allow_http=false" };
    hr_http_request r = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;

    (void)state;
    assert_ok(hr__store_new(options, 1, NULL, &s, &err), &err);
    assert_status(hr__http_init(&r, "GET", hr__strdup(NULL, "http://h/x?key=HUSH"), s, &err), HR_INVALID, &err);
    assert_contains(err.text, "http://h/x: storage_options: allow_http is false");
    assert_null(strstr(err.text, "HUSH"));
    hr__http_clear(&r);
    hr_error_clear(&err);
    assert_ok(hr__http_init(&r, "GET", hr__strdup(NULL, "https://h/x"), s, &err), &err);
    hr__http_clear(&r);
    hr__store_unref(s);
}

/* An endpoint of "http://" became "http:/bucket/key", which has no host: the signer read address 3. */
static void an_address_has_a_scheme_and_a_host(void **state)
{
    static const struct {
        const char *url, *error;
    } cases[] = {
        { "http:/bucket/key", "the address names no host" },
        { "://bucket/key", "expected an address that begins with http:// or https://" },
        { "ftp://h/bucket", "ftp://h/bucket: expected an address that begins with http:// or https://" },
        { "https:///bucket/key", "the address names no host" },
        { "http://:9000/bucket", "the address names no host" },
        { "http://me@/bucket", "the address names no host" },
        { "http://a b/bucket", "the host's name has a blank or a control character" },
        { "http://a\r\nX: y/bucket", "the host's name has a blank or a control character" },
        { "HTTP://[::1]:9000/a b", NULL },
    };
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;

    (void)state;
    assert_ok(hr__store_new(NULL, 0, NULL, &s, &err), &err);
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_http_request r = { 0 };
        hr_status st = hr__http_init(&r, "GET", hr__strdup(NULL, cases[i].url), s, &err);

        assert_status(st, cases[i].error ? HR_INVALID : HR_OK, &err);
        if (cases[i].error)
            assert_contains(err.text, cases[i].error);
        hr__http_clear(&r);
        hr_error_clear(&err);
    }
    hr__store_unref(s);
}

#ifdef HR_HAVE_S3

#define CUSTOMER_KEY "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=" /* "01234567890123456789012345678901" */

/* The header lines of a request with these options. */
static hr_text lines_of(const char *const *options, int n, const char *method, const char *url, const char *query)
{
    hr_http_request r = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_store *s = NULL;
    hr_text lines = { 0 };

    setenv("AWS_CONFIG_FILE", "/dev/null", 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1);
    assert_ok(hr__store_new(options, n, NULL, &s, &err), &err);
    assert_ok(hr__store_prepare(s, url, &err), &err);
    assert_ok(hr__store_request(&r, method, s, url, query, NULL, &err), &err);
    if (r.is_signed && r.kind->identity(s, url))
        assert_ok(hr__identity_now(r.kind->identity(s, url), &r.who, &err), &err);
    assert_ok(r.kind->sign(&r, r.url, 1369353600, &lines, &err), &err);
    hr__http_clear(&r);
    hr__store_unref(s);
    return lines;
}

static const struct {
    const char *method, *query;
    bool encrypted, keyed;
} requests[] = {
    { "PUT", "", true, true },
    { "POST", "uploads=", true, true },
    { "PUT", "partNumber=1&uploadId=x", false, true },
    { "GET", "", false, true },
    { "HEAD", "", false, true },
    { "GET", "list-type=2&prefix=", false, false },
    { "POST", "uploadId=x", false, false },
    { "DELETE", "", false, false },
};

/* Which requests name a key, and which the key itself; all of it is signed. */
static void encryption_is_asked_for(void **state)
{
    const char *by_kms[] = { "key=k",
                             "secret=s",
                             "aws_server_side_encryption=sse:kms",
                             "aws_sse_kms_key_id=arn:k",
                             "aws_sse_bucket_key_enabled=true",
                             "request_payer=true" };
    const char *by_key[] = { "key=k", "secret=s", ("sse_customer_key_base64=" CUSTOMER_KEY) };

    (void)state;
    for (int i = 0; i < HR_LEN(requests); i++) {
        hr_text kms = lines_of(by_kms, HR_LEN(by_kms), requests[i].method, "s3://b1/x", requests[i].query);
        hr_text key = lines_of(by_key, HR_LEN(by_key), requests[i].method, "s3://b1/x", requests[i].query);

        assert_int_equal(strstr(kms.data, "x-amz-server-side-encryption: aws:kms\n") != NULL, requests[i].encrypted);
        assert_contains(kms.data, "x-amz-request-payer: requester\n");
        assert_contains(kms.data, requests[i].encrypted
                                      ? "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-request-payer;"
                                        "x-amz-server-side-encryption;x-amz-server-side-encryption-aws-kms-key-id;"
                                        "x-amz-server-side-encryption-bucket-key-enabled,"
                                      : "SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-request-payer,");
        assert_int_equal(strstr(key.data, "customer-key: " CUSTOMER_KEY "\n") != NULL, requests[i].keyed);
        assert_int_equal(strstr(key.data, "customer-key-md5: KYvwGXoFFJ42a2u2GDWhwQ==\n") != NULL, requests[i].keyed);
        hr__text_clear(&kms);
        hr__text_clear(&key);
    }
}

static void azure_has_a_key_of_its_own(void **state)
{
    const char *options[] = { "account_name=acct", "account_key=a2V5", ("encryption_key=" CUSTOMER_KEY) };
    hr_text put = lines_of(options, 3, "PUT", "az://c1/x", "");
    hr_text list = lines_of(options, 3, "GET", "az://c1/x", "comp=list&prefix=&restype=container");

    (void)state;
    assert_contains(put.data, "x-ms-encryption-key: " CUSTOMER_KEY "\n");
    assert_contains(put.data, "x-ms-encryption-key-sha256: hhAJ7E1Zn6sfQKvHbm+JiAz/WDPHnFSMmfkEXxkc2Qs=\n");
    assert_null(strstr(list.data, "x-ms-encryption"));
    hr__text_clear(&put);
    hr__text_clear(&list);
}

/* "GET Object" of AWS's examples signs the header range: as one of ours it gives the same signature. */
static void more_headers_are_signed(void **state)
{
    hr_sign_keys keys = { .key_id = "AKIAIOSFODNN7EXAMPLE",
                          .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                          .region = "us-east-1",
                          .more = "range: bytes=0-9\n" };
    hr_error err = HR_ERROR_INIT;
    hr_text lines = { 0 };

    (void)state;
    assert_ok(hr__sign4(&keys, "GET", "https://examplebucket.s3.amazonaws.com/test.txt", "", 1369353600, &lines, &err),
              &err);
    assert_contains(lines.data, "SignedHeaders=host;range;x-amz-content-sha256;x-amz-date");
    assert_contains(lines.data, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
    hr__text_clear(&lines);
}

static void wrong_encryption_is_named(void **state)
{
    static const struct {
        const char *option, *text;
    } cases[] = {
        { "server_side_encryption=rot13", "expected AES256, aws:kms, aws:kms:dsse or sse-c" },
        { "server_side_encryption=sse-c", "aws_sse_customer_key_base64" },
        { "sse_customer_key_base64=c2hvcnQ=", "expected 256 bits in base64" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        const char *options[] = { "key=k", "secret=s", cases[i].option };
        hr_error err = HR_ERROR_INIT;
        hr_store *s = NULL;

        assert_ok(hr__store_new(options, 3, NULL, &s, &err), &err);
        assert_status(hr__store_prepare(s, "s3://b1/x", &err), HR_INVALID, &err);
        assert_contains(err.text, cases[i].text);
        hr_error_clear(&err);
        hr__store_unref(s);
    }
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_arrive_where_they_belong),
        cmocka_unit_test(what_cannot_be_has_a_reason),
        cmocka_unit_test(no_value_is_shown),
        cmocka_unit_test(http_can_be_forbidden),
        cmocka_unit_test(an_address_has_a_scheme_and_a_host),
#ifdef HR_HAVE_S3
        cmocka_unit_test(encryption_is_asked_for),
        cmocka_unit_test(azure_has_a_key_of_its_own),
        cmocka_unit_test(more_headers_are_signed),
        cmocka_unit_test(wrong_encryption_is_named),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
