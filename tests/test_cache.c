/* test_cache.c - the cache of remote objects: what it gives is right or missing, whatever happens to its files. */
#include "harness.h"
#include "http_server.h"

#include "io/http/http.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define N_BYTES 400000
#define URL "http://host/object"

static uint8_t object[N_BYTES];
static int n_warnings;

static void count_warning(void *context, hr_log_level level, const char *text)
{
    (void)context;
    assert_int_equal(level, HR_LOG_WARNING);
    assert_contains(text, "cannot write");
    n_warnings++;
}

static int setup(void **state)
{
    uint64_t seed = 1;

    hr__cache_forget();
    n_warnings = 0;
    for (int i = 0; i < N_BYTES; i++)
        object[i] = (uint8_t)next_random(&seed);
    return test_dir_new(state);
}

static hr_store *store_with(const char *size)
{
    char folder[100], limit[40];
    const char *options[] = { folder, limit, "timeout=2" };
    hr_error err = HR_ERROR_INIT;
    hr_store *store;

    snprintf(folder, sizeof folder, "cache_dir=%s/a/cache", test_dir);
    snprintf(limit, sizeof limit, "cache_size=%s", size);
    assert_ok(hr__store_new(options, HR_LEN(options), NULL, &store, &err), &err);
    return store;
}

/* The object that the store has of this version; the caller frees it. */
static hr_cached *opened(const char *url, const char *tag)
{
    hr_store *store = store_with("1GB");
    hr_cached *c = hr__cached_open(store, url, tag, N_BYTES, NULL);

    hr__store_unref(store);
    return c;
}

/* Whether the cache has the range. If it has, its bytes are right. */
static bool has(const char *url, const char *tag, int64_t at, int64_t n)
{
    hr_cached *c = opened(url, tag);
    uint8_t *out = malloc((size_t)n);
    int64_t begin, n_range;
    bool found = false;

    assert_non_null(out);
    if (c && hr__cached_range(c, at, &begin, &n_range) && begin + n_range >= at + n)
        found = hr__cached_read(c, begin, n_range, at, n, out);
    if (found)
        assert_memory_equal(out, object + at, (size_t)n);
    free(out);
    hr__cached_free(c);
    return found;
}

static void put(const char *url, const char *tag, int64_t at, int64_t n)
{
    hr_cached *c = opened(url, tag);

    assert_non_null(c);
    assert_true(hr__cached_write(c, at, n, object + at));
    hr__cached_free(c);
}

/* The path of the only file in the only folder of the cache. */
static void only_file(char *out, size_t cap)
{
    char folder[200], name[300] = "";
    struct dirent *e;
    DIR *d;

    snprintf(folder, sizeof folder, "%s/a/cache/v1", test_dir);
    for (int level = 0; level < 2; level++) {
        assert_non_null(d = opendir(folder));
        while ((e = readdir(d)))
            if (e->d_name[0] != '.')
                snprintf(name, sizeof name, "%.80s/%.80s", folder, e->d_name);
        closedir(d);
        snprintf(folder, sizeof folder, "%.190s", name);
    }
    snprintf(out, cap, "%s", name);
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

static void ranges_are_kept(void **state)
{
    live_memory before = live_now();

    (void)state;
    put(URL, "\"1\"", 0, 10);
    put(URL, "\"1\"", 1000, 300000);
    put(URL, "\"1\"", N_BYTES - 1, 1);
    assert_true(has(URL, "\"1\"", 0, 10));
    assert_true(has(URL, "\"1\"", 1000, 300000));
    assert_true(has(URL, "\"1\"", 1000, 1));
    assert_true(has(URL, "\"1\"", 70000, 70000));
    assert_true(has(URL, "\"1\"", 300999, 1));
    assert_true(has(URL, "\"1\"", N_BYTES - 1, 1));
    assert_false(has(URL, "\"1\"", 5, 10));
    assert_false(has(URL, "\"1\"", 999, 1));
    assert_false(has(URL, "\"1\"", 301000, 1));
    assert_no_leak(before);
}

static void a_version_is_an_object_of_its_own(void **state)
{
    (void)state;
    put(URL, "\"1\"", 0, 100);
    assert_true(has(URL, "\"1\"", 0, 100));
    assert_false(has(URL, "\"2\"", 0, 100));
    assert_false(has(URL "2", "\"1\"", 0, 100));
    assert_false(has("https://host/object", "\"1\"", 0, 100));
    assert_false(has(URL "?id=2", "\"1\"", 0, 100));
    assert_null(opened(URL, NULL));
    assert_null(opened(URL, ""));
}

static void signatures_and_users_name_no_object(void **state)
{
    (void)state;
    put("https://user:word@host/a?X-Amz-Date=1&X-Amz-Signature=12", "\"1\"", 0, 100);
    assert_true(has("https://host/a?X-Amz-Date=2&X-Amz-Signature=34", "\"1\"", 0, 100));
    assert_true(has("https://host/a?se=1&sig=99", "\"1\"", 0, 100));
    assert_true(has("https://host/a", "\"1\"", 0, 100));
    assert_false(has("https://host/b?se=1&sig=99", "\"1\"", 0, 100));
}

static void the_range_that_ends_last_is_found(void **state)
{
    hr_cached *c = opened(URL, "\"1\"");
    int64_t begin, n;

    (void)state;
    hr__cached_add(c, 0, 1000);
    hr__cached_add(c, 500, 100);
    hr__cached_add(c, 500, 100);
    hr__cached_add(c, 900, 400);
    assert_true(hr__cached_range(c, 550, &begin, &n));
    assert_int_equal(begin, 0);
    assert_int_equal(hr__cached_end(c, 950), 1300);
    assert_int_equal(hr__cached_end(c, 1300), 1300);
    assert_int_equal(hr__cached_next(c, 0, 2000), 500);
    assert_int_equal(hr__cached_next(c, 900, 2000), 2000);
    hr__cached_drop(c, 0, 1000);
    assert_false(hr__cached_range(c, 0, &begin, &n));
    assert_int_equal(hr__cached_end(c, 550), 600);
    hr__cached_free(c);
}

/* ----------------------------------------------------------------------------------------------------------- damage */

/* Ways to damage a file of 3 blocks; `how` of the test's loop. */
static void damage(const char *path, int how)
{
    static const uint8_t other[64] = { 0xa5, 0xa5, 0xa5 };
    FILE *f = fopen(path, "r+b");
    uint8_t was[3];
    long at = how == 0 ? 0 : how == 1 ? 47 : how == 2 ? 48 : how == 3 ? 48 + 65536 : 48 + 140000 - 1;
    struct stat s;

    assert_non_null(f);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_size, 48 + 140000);
    if (how < 5) {
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fread(was, 1, 1, f), 1);
        was[0] ^= 1;
        assert_int_equal(fseek(f, at, SEEK_SET), 0);
        assert_int_equal(fwrite(was, 1, 1, f), 1);
    } else if (how == 5) {
        assert_int_equal(ftruncate(fileno(f), s.st_size - 1), 0);
    } else if (how == 6) {
        assert_int_equal(ftruncate(fileno(f), 0), 0);
    } else {
        assert_int_equal(fwrite(other, 1, sizeof other, f), sizeof other);
    }
    assert_int_equal(fclose(f), 0);
}

static void damaged_files_are_not_read(void **state)
{
    (void)state;
    for (int how = 0; how < 8; how++) {
        char path[400];

        put(URL, "\"1\"", 0, 140000);
        only_file(path, sizeof path);
        damage(path, how);
        assert_false(has(URL, "\"1\"", 0, 140000));
        assert_int_equal(access(path, F_OK), -1);
    }
}

/* A file under the name of another range, or in the folder of another version. */
static void a_file_passes_for_no_other(void **state)
{
    char path[400], other[420];

    (void)state;
    put(URL, "\"1\"", 0, 140000);
    only_file(path, sizeof path);
    snprintf(other, sizeof other, "%.*s/1-140000", (int)(strrchr(path, '/') - path), path);
    assert_int_equal(rename(path, other), 0);
    assert_false(has(URL, "\"1\"", 1, 140000));
    assert_int_equal(access(other, F_OK), -1);
    put(URL, "\"1\"", 0, 140000);
    snprintf(other, sizeof other, "%s/away", test_dir);
    assert_int_equal(rename(path, other), 0);
    *strrchr(path, '/') = 0;
    assert_int_equal(rmdir(path), 0);
    put(URL, "\"2\"", 140000, 1);
    only_file(path, sizeof path);
    strcpy(strrchr(path, '/') + 1, "0-140000");
    assert_int_equal(rename(other, path), 0);
    assert_false(has(URL, "\"2\"", 0, 140000));
}

/* ----------------------------------------------------------------------------------------------------------- limits */

typedef struct usage {
    int64_t n_bytes;
    int n_files, n_tmp;
} usage;

static usage used(void)
{
    char command[300], line[100];
    usage u = { 0, 0, 0 };
    FILE *f;

    snprintf(command, sizeof command, "find %s/a/cache -type f ! -name .lock -printf '%%s %%f\\n'", test_dir);
    assert_non_null(f = popen(command, "r"));
    while (fgets(line, sizeof line, f)) {
        u.n_bytes += atoll(line);
        u.n_files++;
        u.n_tmp += strstr(line, ".tmp") != NULL;
    }
    pclose(f);
    return u;
}

static void the_limit_holds_and_the_oldest_go(void **state)
{
    hr_store *store = store_with("1MB");
    usage u;

    (void)state;
    for (int i = 0; i < 40; i++) {
        char tag[20];
        hr_cached *c;

        snprintf(tag, sizeof tag, "\"%d\"", i);
        c = hr__cached_open(store, URL, tag, N_BYTES, NULL);
        assert_true(hr__cached_write(c, 0, 100000, object));
        assert_false(hr__cached_write(c, 0, 200000, object)); /* more than an eighth of the limit */
        hr__cached_free(c);
        assert_true(used().n_bytes <= 1000000);
        usleep(2000);
    }
    u = used();
    assert_in_range(u.n_files, 6, 10);
    assert_true(has(URL, "\"39\"", 0, 100000));
    assert_false(has(URL, "\"0\"", 0, 100000));
    hr__store_unref(store);
}

static void what_was_killed_is_removed_later(void **state)
{
    const char *old = "a/cache/v1/0123/0-10.7-1.tmp";
    struct timespec times[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
    char folder[100], path[200];

    (void)state;
    snprintf(folder, sizeof folder, "%s/a/cache", test_dir);
    temp_file(test_dir, old, "xyz", 3);
    temp_file(test_dir, "a/cache/v1/0124/0-10.7-1.tmp", "xyz", 3);
    snprintf(path, sizeof path, "%s/%s", test_dir, old);
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    put(URL, "\"1\"", 0, 10);
    assert_int_equal(used().n_files, 2);
    assert_int_equal(access(path, F_OK), -1);
    hr__cache_forget();
    put(URL, "\"1\"", 20, 10);
    snprintf(path, sizeof path, "%s/v1/0123", folder);
    assert_int_equal(access(path, F_OK), -1); /* the empty folder went at the second look */
}

static void a_folder_that_cannot_be_written_is_one_warning(void **state)
{
    hr_cached *c;

    (void)state;
    temp_file(test_dir, "a", "a file", 6);
    hr_set_log(count_warning, NULL);
    c = opened(URL, "\"1\"");
    assert_non_null(c);
    for (int i = 0; i < 3; i++)
        assert_false(hr__cached_write(c, 0, 100, object));
    hr_set_log(NULL, NULL);
    assert_int_equal(n_warnings, 1);
    hr__cached_free(c);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

static hr_status write_and_read(void *store, hr_error *err)
{
    static uint8_t out[140000];
    hr_cached *c;
    int64_t begin, n;

    (void)err;
    hr__cache_forget();
    c = hr__cached_open(store, URL, "\"1\"", N_BYTES, NULL);
    if (c && hr__cached_write(c, 0, 140000, object))
        hr__cached_add(c, 0, 140000);
    if (c)
        (void)hr__cached_write(c, 200000, 100, object + 200000);
    hr__cached_free(c);
    c = hr__cached_open(store, URL, "\"1\"", N_BYTES, NULL);
    if (c && hr__cached_range(c, 0, &begin, &n) && hr__cached_read(c, begin, n, 0, n, out))
        assert_memory_equal(out, object, (size_t)n);
    hr__cached_free(c);
    return HR_OK;
}

static void silent(void *context, hr_log_level level, const char *text)
{
    (void)context;
    (void)level;
    (void)text;
}

static void every_failure_is_survived(void **state)
{
    hr_store *store = store_with("1GB");

    (void)state;
    hr_set_log(silent, NULL);
    assert_true(run_with_faults_on(write_and_read, store, HR_FAULT_IO | HR_FAULT_MEMORY | MAY_RECOVER) > 30);
    hr_set_log(NULL, NULL);
    hr__store_unref(store);
    assert_int_equal(used().n_tmp, 0);
}

#ifdef HR_HAVE_CURL
/* ---------------------------------------------------------------------------------------------------------- sources */

static http_server server;

typedef struct reader {
    hr_paths paths;
    hr_store *store;
    hr_source *source;
} reader;

static void reader_begin(reader *r, const char *size)
{
    char folder[100], limit[40];
    const char *options[] = { folder, limit, "timeout=2" }, *urls[] = { server.url };
    hr_error err = HR_ERROR_INIT;

    snprintf(folder, sizeof folder, "cache_dir=%s/a/cache", test_dir);
    snprintf(limit, sizeof limit, "cache_size=%s", size);
    assert_ok(hr__paths_list(urls, 1, &(hr_paths_options){ .store_options = options, .n_store_options = 3 }, NULL,
                             &r->paths, &err),
              &err);
    assert_ok(hr__paths_open(&r->paths, 0, NULL, &r->source, &err), &err);
}

static void reader_end(reader *r)
{
    hr__source_unref(r->source);
    hr__paths_clear(&r->paths);
}

static void read_right(hr_source *s, int64_t at, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    uint8_t *out = malloc((size_t)n);

    assert_non_null(out);
    assert_ok(hr__source_read(s, out, at, n, &err), &err);
    assert_memory_equal(out, object + at, (size_t)n);
    free(out);
}

static void serve(void)
{
    server = (http_server){ .data = object, .n = N_BYTES, .etag = "\"v1\"" };
    http_server_start(&server);
}

static void unserve(void)
{
    hr__http_stop();
    http_server_stop(&server);
}

static void what_was_read_is_not_asked_for_again(void **state)
{
    live_memory before = live_now();
    reader r;

    (void)state;
    serve();
    reader_begin(&r, "1GB");
    read_right(r.source, 0, N_BYTES);
    reader_end(&r);
    atomic_store(&server.n_gets, 0);
    for (int round = 0; round < 2; round++) {
        reader_begin(&r, "1GB");
        if (round == 1)
            hr__source_ahead(r.source, 0, N_BYTES);
        read_right(r.source, N_BYTES - 20, 20);
        read_right(r.source, 100, 300000);
        read_right(r.source, 10, 1000);
        read_right(r.source, 0, N_BYTES);
        reader_end(&r);
    }
    assert_int_equal(server.n_gets, 0);
    unserve();
    assert_no_leak(before);
}

static void a_new_version_is_fetched(void **state)
{
    reader r;

    (void)state;
    serve();
    reader_begin(&r, "1GB");
    read_right(r.source, 0, N_BYTES);
    reader_end(&r);
    hr__http_stop();
    http_server_replace(&server, "\"v2\"");
    object[5] ^= 1;
    reader_begin(&r, "1GB");
    read_right(r.source, 0, N_BYTES);
    reader_end(&r);
    unserve();
}

/* Another reader reads the range, and asks the server for nothing. */
static void read_without_a_request(int64_t at, int64_t n)
{
    reader r;

    atomic_store(&server.n_gets, 0);
    reader_begin(&r, "1GB");
    read_right(r.source, at, n);
    reader_end(&r);
    assert_int_equal(server.n_gets, 0);
}

static void a_damaged_file_is_fetched_again(void **state)
{
    char path[400];
    reader r;

    (void)state;
    serve();
    reader_begin(&r, "1GB");
    read_right(r.source, 0, 140000);
    reader_end(&r);
    only_file(path, sizeof path);
    damage(path, 2);
    reader_begin(&r, "1GB");
    read_right(r.source, 0, 140000);
    reader_end(&r);
    read_without_a_request(0, 140000);
    unserve();
}

/* A server without ranges sends the whole object, once for all runs. */
static void whole_objects_are_kept(void **state)
{
    reader r;

    (void)state;
    serve();
    http_server_fault(&server, HTTP_NO_RANGES, -1);
    reader_begin(&r, "1GB");
    read_right(r.source, 1000, 100000);
    reader_end(&r);
    read_without_a_request(200000, 100000);
    unserve();
}

static void read_some(void *arg, int thread)
{
    uint64_t seed = (uint64_t)thread;

    (void)arg;
    for (int round = 0; round < 8; round++) {
        reader r;

        reader_begin(&r, "1MB"); /* files are removed meanwhile */
        for (int i = 0; i < 8; i++) {
            int64_t at = random_below(&seed, N_BYTES - 1), n = 1 + random_below(&seed, N_BYTES - at - 1);

            if (i % 3 == 0)
                hr__source_ahead(r.source, at, n);
            read_right(r.source, at, n);
        }
        reader_end(&r);
    }
}

static void threads_share_the_folder(void **state)
{
    (void)state;
    serve();
    run_threads(4, read_some, NULL);
    assert_int_equal(used().n_tmp, 0);
    unserve();
}

static hr_status read_with_faults(hr_error *err)
{
    reader r;

    (void)err;
    hr__cache_forget();
    reader_begin(&r, "1GB");
    read_right(r.source, 0, 140000);
    read_right(r.source, 300000, 100);
    reader_end(&r);
    return HR_OK;
}

/* Failing I/O of the cache costs no row. */
static void failing_disks_cost_nothing(void **state)
{
    (void)state;
    serve();
    hr_set_log(silent, NULL);
    assert_true(run_with_faults(read_with_faults, HR_FAULT_IO | MAY_RECOVER) > 5);
    hr_set_log(NULL, NULL);
    unserve();
}
#define SOURCES                                                                                                        \
    CASE(what_was_read_is_not_asked_for_again), CASE(a_new_version_is_fetched), CASE(a_damaged_file_is_fetched_again), \
        CASE(whole_objects_are_kept), CASE(threads_share_the_folder), CASE(failing_disks_cost_nothing),
#else
#define SOURCES
#endif

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, test_dir_free)

int main(void)
{
    const struct CMUnitTest tests[] = { CASE(ranges_are_kept),
                                        CASE(a_version_is_an_object_of_its_own),
                                        CASE(signatures_and_users_name_no_object),
                                        CASE(the_range_that_ends_last_is_found),
                                        CASE(damaged_files_are_not_read),
                                        CASE(a_file_passes_for_no_other),
                                        CASE(the_limit_holds_and_the_oldest_go),
                                        CASE(what_was_killed_is_removed_later),
                                        CASE(a_folder_that_cannot_be_written_is_one_warning),
                                        CASE(every_failure_is_survived),
                                        SOURCES };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
