/* test_hdfs_write.c - jobs, lists and small objects of HDFS, where each allocation fails once; test_hdfs_write.py has
 * the failures of servers. */
#include "harness.h"

#include "io/http/http.h"
#include "webhdfs_server.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef HR_HAVE_CURL

#define LARGE (6 << 20) /* more than a part */

static char endpoint[100], url[100];
static const char *options[] = { endpoint, "hdfs_user=ann", "max_retries=0" };
static const hr_store_options store = { options, HR_LEN(options) };
static char *large;

static int start(void **state)
{
    (void)state;
    webhdfs_start();
    snprintf(endpoint, sizeof endpoint, "webhdfs_endpoint=http://127.0.0.1:%d", webhdfs_port);
    large = malloc(LARGE);
    assert_non_null(large);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 31 + i / 256);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    webhdfs_stop();
    free(large);
    return 0;
}

static hr_status write_files(hr_uploads *u, const char *const *names, const char *data, int64_t n, hr_error *err)
{
    for (; *names; names++) {
        hr_upload *f;

        snprintf(url, sizeof url, "hdfs://h/out/%s", *names);
        HR_TRY(hr__upload_begin(u, url, &f, err));
        HR_TRY(hr__upload_write(f, data, n, err));
        HR_TRY(hr__upload_finish(f, err));
    }
    return HR_OK;
}

/* A job into a folder, which is new where nothing is there. */
static hr_status write_job(const char *const *names, const char *data, int64_t n, const hr_paths *old, hr_error *err)
{
    hr_account *account = hr__account_new("run", NULL, 64 << 20);
    hr_uploads *u = NULL;
    hr_status st = HR_OK;

    if (!account)
        HR_GO(hr__error_memory(err, "account", 64));
    HR_GO(hr__uploads_new("hdfs://h/out", HR_UPLOADS_JOB, "job", options, HR_LEN(options), account, &u, err));
    HR_GO(write_files(u, names, data, n, err));
    HR_GO(hr__uploads_commit(u, false, false, old, err));
done:
    hr__uploads_free(u);
    hr__account_unref(account);
    return st;
}

static hr_status write_new_folder(hr_error *err)
{
    static const char *const names[] = { "job_1", "k=a/job_2", NULL };
    hr_status st;

    webhdfs_clear();
    st = write_job(names, "12345", 5, NULL, err);
    if (!st) {
        assert_string_equal(webhdfs_get("out/job_1"), "12345");
        assert_string_equal(webhdfs_get("out/k=a/job_2"), "12345");
        assert_int_equal(webhdfs_files(), 3); /* and _SUCCESS */
    } else {
        assert_true(webhdfs_bytes("out/_SUCCESS") >= 0 || webhdfs_bytes("out/job_1") < 0); /* all or nothing */
    }
    hr__http_stop();
    return st;
}

static hr_status write_parts(hr_error *err)
{
    static const char *const names[] = { "job_1", NULL };
    hr_status st;

    webhdfs_clear();
    st = write_job(names, large, LARGE, NULL, err);
    if (!st) {
        assert_int_equal(webhdfs_bytes("out/job_1"), LARGE);
        assert_int_equal(memcmp(webhdfs_get("out/job_1"), large, LARGE), 0); /* cmocka compares bytes one by one */
        assert_int_equal(webhdfs_count("CONCAT"), 1);
    }
    hr__http_stop();
    return st;
}

/* The folder was there, and its file is replaced: a record, folders, renames. */
static hr_status write_into_folder(hr_error *err)
{
    static const char *const names[] = { "job_1", "k=a/job_2", NULL };
    hr_paths old = { 0 };
    hr_status st;

    webhdfs_clear();
    webhdfs_put("out/k=b/old", "old");
    HR_GO(hr__paths_add(&old, "hdfs://h/out/k=b/old", NULL, 3, 0, err));
    HR_GO(write_job(names, "12345", 5, &old, err));
    assert_string_equal(webhdfs_get("out/k=a/job_2"), "12345");
    assert_null(webhdfs_get("out/k=b/old"));
    assert_int_equal(webhdfs_files(), 4); /* two files, a folder, _SUCCESS */
done:
    hr__paths_clear(&old);
    hr__http_stop();
    return st;
}

/* Two files of a job are not visible, as its record stands. */
static hr_status list_around_a_record(hr_error *err)
{
    hr_paths found = { 0 };
    hr_status st;

    webhdfs_clear();
    webhdfs_put("out/k=a/1", "1");
    webhdfs_put("out/k=a/2", "2");
    webhdfs_put("out/_headrace_parts_x/3", "3");
    webhdfs_put("out/_headrace_commit_j", "headrace-commit 1\njob j\nfile out/k=a/2 1 x\nend\n");
    HR_GO(hr__objects_list(&store, "hdfs://h/out", &found, err));
    assert_int_equal(found.n, 2);
    assert_string_equal(found.items[1].path, "hdfs://h/out/k=a/1");
    hr__paths_clear(&found);
    HR_GO(hr__objects_list(&store, "hdfs://h/out/k=a", &found, err));
    assert_int_equal(found.n, 1);
done:
    hr__paths_clear(&found);
    hr__http_stop();
    return st;
}

static hr_status put_in_place(hr_error *err)
{
    char *first = NULL, *second = NULL, *tag = NULL;
    hr_text text = { 0 };
    hr_status st;

    webhdfs_clear();
    HR_GO(hr__object_put(&store, "hdfs://h/runs/state", "1", 1, "", &first, err));
    HR_GO(hr__object_put(&store, "hdfs://h/runs/state", "2", 1, first, &second, err));
    HR_GO(hr__object_read_range(&store, "hdfs://h/runs/state", 0, 10, &text, &tag, err));
    assert_string_equal(tag, second);
    assert_int_equal(text.n, 1);
    assert_int_equal(text.data[0], '2');
    HR_GO(hr__objects_remove(&store, (const char *const[]){ "hdfs://h/runs/state" }, 1, err));
    assert_int_equal(webhdfs_files(), 0);
done:
    hr__text_clear(&text);
    hr__free(first);
    hr__free(second);
    hr__free(tag);
    hr__http_stop();
    return st;
}

/* A writer was killed after it had decided, and another one who asked for the same version completes its step. */
static hr_status help_another(hr_error *err)
{
    char *tag = NULL, *version = NULL;
    hr_error lost = HR_ERROR_INIT;
    hr_status st;

    webhdfs_clear();
    webhdfs_put("runs/_headrace_parts_put_0123456789abcdef", "other");
    HR_GO(hr__object_put(&store, "hdfs://h/runs/state", "1", 1, "", &version, err));
    webhdfs_decide("runs/state", "_headrace_parts_put_0123456789abcdef");
    st = hr__object_put(&store, "hdfs://h/runs/state", "2", 1, version, &tag, &lost);
    if (st != HR_MISMATCH) {
        hr__error_move(err, &lost);
        goto done;
    }
    st = HR_OK;
    assert_string_equal(webhdfs_get("runs/state"), "other");
done:
    hr_error_clear(&lost);
    hr__free(version);
    hr__free(tag);
    hr__http_stop();
    return st;
}

static hr_status clean(hr_error *err)
{
    hr_text report = { 0 };
    hr_status st;

    webhdfs_clear();
    webhdfs_put("out/1", "1");
    webhdfs_put("out/_headrace_parts_x/2", "2");
    webhdfs_put("out/_headrace_commit_j", "headrace-commit 1\njob j\nfile out/3 1 out/_headrace_parts_j/3\nend\n");
    webhdfs_put("out/_headrace_parts_j/3", "3");
    st = hr__store_clean("hdfs://h/out/", "", options, HR_LEN(options), &report, err);
    if (!st && !report.failed) {
        assert_string_equal(report.data, "completed\thdfs://h/out\tj\naborted\thdfs://h/out/_headrace_parts_x\n");
        assert_string_equal(webhdfs_get("out/3"), "3");
        assert_int_equal(webhdfs_files(), 3);
    }
    hr__text_clear(&report);
    hr__http_stop();
    return st;
}

static void no_memory_is_one_error(void **state)
{
    static hr_status (*const calls[])(hr_error *) = {
        write_new_folder, write_parts, write_into_folder, list_around_a_record, put_in_place, help_another, clean
    };

    (void)state;
    for (int i = 0; i < HR_LEN(calls); i++)
        assert_true(run_with_faults(calls[i], HR_FAULT_MEMORY | MAY_RECOVER) > 20);
}

/* What FileStatus lacks is an error that names the URL. */
static void an_answer_that_is_none_of_webhdfs(void **state)
{
    static const char *const bad[] = { "{\"FileStatus\":{\"type\":\"FILE\"}}", "{}", "" };
    hr_error err = HR_ERROR_INIT;
    hr_paths found = { 0 };

    (void)state;
    for (int i = 0; i < HR_LEN(bad); i++) {
        webhdfs_clear();
        webhdfs_say(bad[i]);
        assert_int_equal(hr__objects_list(&store, "hdfs://h/out", &found, &err), HR_BAD_DATA);
        assert_contains(err.text, "hdfs://h/out/: the server's answer is not one of WebHDFS");
        hr_error_clear(&err);
        hr__http_stop();
    }
    webhdfs_say(NULL);
}

#endif

static void other_places_are_not_written_to(void **state)
{
    const hr_store_options none = { NULL, 0 };
    hr_error err = HR_ERROR_INIT;
    char *tag;

    (void)state;
    assert_int_not_equal(hr__object_put(&none, "hdfs://me:hush@x/y", "", 0, NULL, &tag, &err), HR_OK);
    assert_null(strstr(err.text, "hush"));
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
#ifdef HR_HAVE_CURL
        cmocka_unit_test_setup_teardown(no_memory_is_one_error, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_that_is_none_of_webhdfs, start, stop),
#endif
        cmocka_unit_test(other_places_are_not_written_to),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
