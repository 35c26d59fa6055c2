/* test_objects.c - single objects of a store, and blocks of Azure, where each allocation fails once; test_objects.py
 * and test_store_write.py have the stores. */
#include "harness.h"

#include "http_server.h"
#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HR_HAVE_S3

#define N_BYTES 20000
#define URL "s3://bucket/object"

static uint8_t object[N_BYTES];
static http_server server;
static char endpoint[100];
static const char *options[] = { endpoint, "key=AKIATEST", "secret=hush", "max_retries=0", "aws_region=here" };
static const hr_store_options store = { options, HR_LEN(options) };

static void start(void)
{
    for (int i = 0; i < N_BYTES; i++)
        object[i] = (uint8_t)(i * 31 + i / 256);
    server = (http_server){ .data = object, .n = N_BYTES, .etag = "\"v1\"" };
    http_server_start(&server);
    snprintf(endpoint, sizeof endpoint, "endpoint=http://127.0.0.1:%d", server.port);
}

static hr_status read_object(hr_error *err)
{
    hr_text data = { 0 };
    char *tag = NULL;
    hr_status st = hr__object_read_range(&store, URL, 0, INT64_MAX, &data, &tag, err);

    if (!st) {
        assert_int_equal(data.n, N_BYTES);
        assert_memory_equal(data.data, object, N_BYTES);
        assert_string_equal(tag, "\"v1\"");
    }
    hr__text_clear(&data);
    hr__free(tag);
    hr__http_stop();
    return st;
}

static hr_status open_object(hr_error *err)
{
    hr_source *source = NULL;
    uint8_t data[100];
    char *tag = NULL;
    hr_status st;

    HR_GO(hr__object_open(&store, URL, &source, &tag, err));
    assert_int_equal(source->n_bytes, N_BYTES);
    assert_string_equal(tag, "\"v1\"");
    HR_GO(hr__source_read(source, data, N_BYTES - 200, sizeof data, err));
    assert_memory_equal(data, object + N_BYTES - 200, sizeof data);
done:
    hr__source_unref(source);
    hr__free(tag);
    hr__http_stop();
    return st;
}

static hr_status save_object(hr_error *err)
{
    char path[100];
    hr_status st;

    snprintf(path, sizeof path, "%s/saved", test_dir);
    st = hr__object_save(&store, URL, path, err);
    hr__http_stop();
    return st;
}

static hr_status put_object(hr_error *err)
{
    char *tag = NULL;
    hr_status st = hr__object_put(&store, URL, "12345", 5, "\"v0\"", &tag, err);

    assert_true((st == HR_OK) == (tag != NULL));
    hr__free(tag);
    hr__http_stop();
    return st;
}

static hr_status remove_objects(hr_error *err)
{
    static const char *const urls[] = { URL, "s3://bucket/other" };
    hr_status st = hr__objects_remove(&store, urls, 2, err);

    hr__http_stop();
    return st;
}

/* A file of Azure: blocks, and the list that makes it visible. */
static hr_status upload_blob(hr_error *err)
{
    static const char *const keys[] = { endpoint, "account_name=acct", "account_key=aHVzaA==", "max_retries=0" };
    hr_uploads *u = NULL;
    hr_upload *f;
    hr_status st;

    HR_GO(hr__uploads_new("az://c/file", HR_UPLOADS_FILE, "", keys, HR_LEN(keys), NULL, &u, err));
    HR_GO(hr__upload_begin(u, "az://c/file", &f, err));
    HR_GO(hr__upload_write(f, "12345", 5, err));
    HR_GO(hr__upload_finish(f, err));
    HR_GO(hr__uploads_commit(u, true, true, NULL, err));
    assert_true(server.n_put > 60); /* the list of its one block */
    assert_memory_equal(server.put, "<?xml", 5);
done:
    hr__uploads_free(u);
    hr__http_stop();
    return st;
}

static void no_memory_for_blocks_is_one_error(void **state)
{
    static const char none[] = "<EnumerationResults><Blobs/></EnumerationResults>";

    (void)state;
    start();
    server.data = (const uint8_t *)none;
    server.n = sizeof none - 1;
    assert_true(run_with_faults(upload_blob, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    http_server_stop(&server);
}

static void no_memory_is_one_error(void **state)
{
    static hr_status (*const calls[])(hr_error *) = { read_object, open_object, save_object, put_object,
                                                      remove_objects };

    (void)state;
    start();
    for (int i = 0; i < HR_LEN(calls); i++)
        assert_true(run_with_faults(calls[i], HR_FAULT_MEMORY | MAY_RECOVER) > 5);
    http_server_stop(&server);
}

static void an_object_that_is_replaced_is_read_again(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    start();
    http_server_fault(&server, HTTP_REPLACED, 1);
    assert_ok(read_object(&err), &err);
    http_server_stop(&server);
}

static void what_another_has_put_is_a_mismatch(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    start();
    http_server_fault(&server, HTTP_412, 1);
    assert_int_equal(put_object(&err), HR_MISMATCH);
    assert_contains(err.text, URL ": somebody else has written or removed it meanwhile");
    hr_error_clear(&err);
    http_server_stop(&server);
}

#endif

static void other_schemes_are_not_written_to(void **state)
{
    const hr_store_options none = { NULL, 0 };
    hr_error err = HR_ERROR_INIT;
    char *tag;

    (void)state;
    assert_int_equal(hr__object_put(&none, "ftp://me:hush@x/y?hush", "", 0, NULL, &tag, &err), HR_UNSUPPORTED);
    assert_string_equal(err.text, "ftp://x/y: headrace does not write to URLs of this kind");
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
#ifdef HR_HAVE_S3
        cmocka_unit_test(no_memory_is_one_error),
        cmocka_unit_test(no_memory_for_blocks_is_one_error),
        cmocka_unit_test(an_object_that_is_replaced_is_read_again),
        cmocka_unit_test(what_another_has_put_is_a_mismatch),
#endif
        cmocka_unit_test(other_schemes_are_not_written_to),
    };

    return cmocka_run_group_tests(cases, test_dir_new, test_dir_free);
}
