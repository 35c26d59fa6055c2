/* test_gs_az.c - addresses, signatures, lists and configuration of Google's and Azure's stores. */
#include "harness.h"

#include "io/http/http.h"

#include <stdlib.h>

#define KEY "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

static const struct {
    const char *url, *query, *endpoint, *account, *sas, *want;
} addresses[] = {
    { "gs://b1/a b/é+=%.x", "", NULL, NULL, NULL, "https://storage.googleapis.com/b1/a%20b/%C3%A9%2B%3D%25.x" },
    { "gcs://anonymous@b.1", "list-type=2", NULL, NULL, NULL, "https://storage.googleapis.com/b.1?list-type=2" },
    { "gs://b1/x", "", "http://127.0.0.1:4443/", NULL, NULL, "http://127.0.0.1:4443/b1/x" },
    { "az://c1/a b/é", "", NULL, "acc", NULL, "https://acc.blob.core.windows.net/c1/a%20b/%C3%A9" },
    { "azure://c1", "comp=list", NULL, "acc", "sv=1&sig=2",
      "https://acc.blob.core.windows.net/c1?comp=list&sv=1&sig=2" },
    { "az://anonymous@c1/x", "", NULL, "acc", "sv=1", "https://acc.blob.core.windows.net/c1/x" },
    { "abfss://c1@acc.dfs.core.windows.net/x//y", "", NULL, "other", "sv=1",
      "https://acc.blob.core.windows.net/c1/x//y?sv=1" },
    { "ABFS://c1@acc.dfs.core.chinacloudapi.cn/x", "", NULL, NULL, NULL,
      "https://acc.blob.core.chinacloudapi.cn/c1/x" },
    { "wasbs://c1@acc.blob.core.windows.net", "comp=list", NULL, NULL, NULL,
      "https://acc.blob.core.windows.net/c1?comp=list" },
    { "az://acc.blob.core.windows.net/c1/x/y", "", NULL, NULL, NULL, "https://acc.blob.core.windows.net/c1/x/y" },
    { "az://acc.blob.core.windows.net/c1", "comp=list", NULL, NULL, NULL,
      "https://acc.blob.core.windows.net/c1?comp=list" },
    { "abfs://c1@acc/x", "", NULL, NULL, NULL, "https://acc.blob.core.windows.net/c1/x" },
    { "az://c1/x", "", "http://127.0.0.1:10000", "acc", NULL, "http://127.0.0.1:10000/acc/c1/x" },
    { "abfs://c1@one.dfs.core.windows.net/x", "", "http://localhost:10000/", "acc", NULL,
      "http://localhost:10000/one/c1/x" },
    { "az://c1/x", "", "http://127.0.0.1:10000/acc", "acc", NULL, "http://127.0.0.1:10000/acc/c1/x" },
    { "az://c1/x", "", "https://private.example.com/", "acc", NULL, "https://private.example.com/c1/x" },
};

static void urls_lead_to_addresses(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(addresses); i++) {
        hr_store store = { .gs.endpoint = (char *)addresses[i].endpoint,
                           .az = { .endpoint = (char *)addresses[i].endpoint,
                                   .account = (char *)addresses[i].account,
                                   .sas = (char *)addresses[i].sas } };
        bool of_bucket = addresses[i].query[0];
        char *found = hr__store_address(&store, addresses[i].url, of_bucket, addresses[i].query, NULL);

        assert_string_equal(found, addresses[i].want);
        hr__free(found);
    }
}

static const struct {
    const char *url, *want;
} shown[] = {
    { "abfss://c1@acc.dfs.core.windows.net/x?y", "abfss://c1@acc.dfs.core.windows.net/x?y" },
    { "abfss://me:hush@acc.dfs.core.windows.net/x", "abfss://acc.dfs.core.windows.net/x" },
    { "az://anonymous@c1/x", "az://c1/x" },
    { "az://anonymous@c1@acc/x", "az://c1@acc/x" },
    { "az://c1/x?sv=1&sig=hush", "az://c1/x" },
    { "gs://anonymous@b1/x", "gs://b1/x" },
};

static void urls_are_shown_without_secrets(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(shown); i++) {
        char *found = hr__url_shown(shown[i].url, NULL);

        assert_string_equal(found, shown[i].want);
        hr__free(found);
    }
}

static void connection_strings_are_read(void **state)
{
    hr_az az = { 0 };
    live_memory before = live_now();

    (void)state;
    assert_int_equal(hr__az_take_connection(&az,
                                            "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a+/b==;"
                                            "BlobEndpoint=http://h:1/acc;;EndpointSuffix=x.y;Other",
                                            NULL),
                     HR_OK);
    assert_string_equal(az.account, "acc");
    assert_string_equal(az.key, "a+/b==");
    assert_string_equal(az.endpoint, "http://h:1/acc");
    assert_string_equal(az.suffix, "x.y");
    assert_null(az.sas);
    assert_int_equal(az.emulator, HR_SWITCH_UNSET);
    assert_int_equal(hr__az_take_connection(&az, "accountname=two;SharedAccessSignature=sv=1&sig=2", NULL), HR_OK);
    assert_string_equal(az.account, "acc");
    assert_string_equal(az.sas, "sv=1&sig=2");
    assert_int_equal(hr__az_take_connection(&az, "UseDevelopmentStorage=true", NULL), HR_OK);
    assert_int_equal(az.emulator, HR_SWITCH_ON);
    hr__free(az.account);
    hr__free(az.key);
    hr__free(az.endpoint);
    hr__free(az.suffix);
    hr__free(az.sas);
    assert_no_leak(before);
}

static const struct {
    const char *url, *option, *text;
} refusals[] = {
    { "gs://b1/x", NULL, "gs://b1/x: no credentials in storage_options (google_service_account, google_token" },
    { "gs:///x", "anon=true", "expected gs://bucket/key" },
    { "gs://b1/x", "google_hmac_key_id=a", "google_hmac_key_id without google_hmac_secret" },
    { "az://c1/x", "azure_storage_account_key=hush", "az://c1/x: no account in the URL" },
    { "az:///x", "account_name=acc", "expected az://container/path" },
    { "abfs://c1@acc/x", NULL, "abfs://c1@acc/x: no credentials in storage_options (azure_storage_account_key" },
    { "az://acc.blob.core.windows.net/c1/x", "account_key=hush!", "the account's key is not in base64" },
    { "az://c1@acc/x?sv=1&sig=hush", "anon=true", "az://c1@acc/x: a shared access signature belongs into" },
};

static void what_is_missing_is_said(void **state)
{
    (void)state;
    unsetenv("STORAGE_EMULATOR_HOST");
    unsetenv("AZURE_STORAGE_CONNECTION_STRING");
    unsetenv("AZURE_STORAGE_ACCOUNT_NAME");
    unsetenv("AZURE_STORAGE_ACCOUNT_KEY");
    unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
    unsetenv("AZURE_CLIENT_SECRET");
    unsetenv("AZURE_FEDERATED_TOKEN_FILE");
    setenv("HOME", "/nothing", 1);
    setenv("NO_GCE_CHECK", "true", 1);
    setenv("IDENTITY_ENDPOINT", "http://127.0.0.1:1/nobody", 1);
    for (int i = 0; i < HR_LEN(refusals); i++) {
        hr_paths_options options = { .store_options = &refusals[i].option, .n_store_options = !!refusals[i].option };
        hr_error err = HR_ERROR_INIT;
        hr_paths paths;

        assert_status(hr__paths_list(&refusals[i].url, 1, &options, NULL, &paths, &err), HR_INVALID, &err);
        assert_contains(err.text, refusals[i].text);
        assert_null(strstr(err.text, "hush"));
    }
    hr__http_stop();
    hr__identities_forget();
}

#ifdef HR_HAVE_S3

static const struct {
    const char *method, *name, *url, *lines;
    int64_t n_data;
    const char *want;
} signatures[] = {
    { "GET", "az://c/a b.txt", "http://127.0.0.1:10000/devstoreaccount1/c/a%20b.txt",
      "Accept:\nRange: bytes=1-9\nIf-Match: \"0x8D\"\n", 0,
      "SharedKey devstoreaccount1:9ZQfZAvQHacjBhkV4HFqlwlN1k5820pTrqAGNADQk7Q=" },
    { "GET", "az://c@myaccount/é/b", "https://h/c?comp=list&marker=2%21x&prefix=%C3%A9%2Fb&restype=container", "", 0,
      "SharedKey myaccount:XJri0tpf0IJ3XF4NMQuQQtTpwpt9kBStZVcsxi8I11k=" },
    { "PUT", "az://c@myaccount.dfs.x/x", "https://h/c/x", "x-ms-blob-type: BlockBlob\nIf-None-Match: *\n", 5,
      "SharedKey myaccount:tXtTamgQeW6x/cvixGcHtq/uQ6JZ8MxkRE3JJc7HchA=" },
};

/* The wanted ones are computed by another program, from what Azure's documentation says is signed. */
static void requests_are_signed_by_the_key(void **state)
{
    hr_store store = { .az = { .account = (char *)"devstoreaccount1", .key = (char *)KEY } };

    (void)state;
    for (int i = 0; i < HR_LEN(signatures); i++) {
        hr_http_request r = { .method = signatures[i].method,
                              .name = (char *)signatures[i].name,
                              .store = &store,
                              .is_signed = true,
                              .n_data = signatures[i].n_data };
        hr_error err = HR_ERROR_INIT;
        hr_text lines = { 0 };

        hr__text_add(&lines, "%s", signatures[i].lines);
        assert_ok(hr__az_kind.sign(&r, signatures[i].url, 1369353600, &lines, &err), &err);
        assert_contains(lines.data, "x-ms-date: Fri, 24 May 2013 00:00:00 GMT\nx-ms-version: 2021-08-06\n");
        assert_contains(lines.data, signatures[i].want);
        hr__text_clear(&lines);
    }
}

static const char page[] =
    "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>"
    "<EnumerationResults ServiceEndpoint=\"http://h/\" ContainerName=\"c\"><Prefix>a</Prefix><Blobs>"
    "<Blob><Name>a/b+%20&amp;é</Name><Properties><Etag>0x8D</Etag><Content-Length>5</Content-Length>"
    "<ResourceType>file</ResourceType></Properties></Blob>"
    "<Blob><Name Encoded=\"true\">a%EF%BF%BE</Name><Properties><Content-Length>0</Content-Length><Etag>\"q\"</Etag>"
    "</Properties></Blob>"
    "<Blob><Name>a/c</Name><Properties><ResourceType>directory</ResourceType><Content-Length>0</Content-Length>"
    "</Properties></Blob></Blobs><NextMarker>2!x=</NextMarker></EnumerationResults>";

static void a_page_of_azure_is_parsed(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_list_page p;

    (void)state;
    assert_ok(hr__list_parse(page, sizeof page - 1, &p, &err), &err);
    assert_int_equal(p.n, 3);
    assert_string_equal(p.items[0].key, "a/b+%20&é");
    assert_string_equal(p.items[0].tag, "\"0x8D\"");
    assert_int_equal(p.items[0].n_bytes, 5);
    assert_false(p.items[0].is_folder);
    assert_string_equal(p.items[1].key, "a\xef\xbf\xbe");
    assert_string_equal(p.items[1].tag, "\"q\"");
    assert_true(p.items[2].is_folder);
    assert_true(p.truncated);
    assert_string_equal(p.next, "2!x=");
    hr__list_clear(&p);
    assert_no_leak(before);
}

static const char last_page[] = "<EnumerationResults><Blobs/><NextMarker /></EnumerationResults>";

static hr_status parse_pages(hr_error *err)
{
    hr_list_page p;

    HR_TRY(hr__list_parse(page, sizeof page - 1, &p, err));
    hr__list_clear(&p);
    HR_TRY(hr__list_parse(last_page, sizeof last_page - 1, &p, err));
    assert_false(p.truncated);
    hr__list_clear(&p);
    return HR_OK;
}

static void no_memory_is_one_error(void **state)
{
    (void)state;
    assert_true(run_with_faults(parse_pages, HR_FAULT_MEMORY) > 3);
}

static hr_status prepare(hr_error *err)
{
    static const char *const options[] = { "connection_string=UseDevelopmentStorage=true", "token=t" };
    hr_http_request r = { 0 };
    hr_text lines = { 0 };
    hr_store *s = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__store_new(options, 2, NULL, &s, err));
    HR_GO(hr__az_prepare(s, "az://c/x", err));
    HR_GO(hr__gs_prepare(s, "gs://c/x", err));
    HR_GO(hr__store_request(&r, "GET", s, "az://c/x", "", NULL, err));
    assert_string_equal(r.url, "http://127.0.0.1:10000/devstoreaccount1/c/x");
    HR_GO(hr__identity_now(r.kind->identity(s, "az://c/x"), &r.who, err));
    HR_GO(r.kind->sign(&r, r.url, 0, &lines, err));
    if (lines.failed)
        HR_FAIL(HR_NO_MEMORY, "headers");
done:
    hr__text_clear(&lines);
    hr__http_clear(&r);
    hr__store_unref(s);
    return st;
}

static void no_memory_for_a_request_is_one_error(void **state)
{
    (void)state;
    assert_true(run_with_faults(prepare, HR_FAULT_MEMORY) > 3);
}

#endif

int main(void)
{
    const struct CMUnitTest cases[] = {
#ifdef HR_HAVE_S3
        cmocka_unit_test(requests_are_signed_by_the_key), cmocka_unit_test(a_page_of_azure_is_parsed),
        cmocka_unit_test(no_memory_is_one_error),         cmocka_unit_test(no_memory_for_a_request_is_one_error),
#endif
        cmocka_unit_test(urls_lead_to_addresses),         cmocka_unit_test(urls_are_shown_without_secrets),
        cmocka_unit_test(connection_strings_are_read),    cmocka_unit_test(what_is_missing_is_said),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
