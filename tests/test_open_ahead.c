/* test_open_ahead.c - files of a network that a leaf opens before their turn, against a server that counts and waits.
 * test_stores.py has rows, resume and the order of requests. */
#include "harness.h"
#include "http_server.h"

#include "exec/run.h"
#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef HR_HAVE_CURL

#define N_FILES 40
#define ROWS 60000 /* of a file: more bytes than one that is read whole */
#define DELAY_US 20000

static char dir[64], urls[N_FILES][80];
static http_server server;

/* One Arrow file of ROWS numbers, which the server gives for each URL. */
static int setup(void **state)
{
    hr_write_options options = { .struct_bytes = sizeof options, .single_file = true };
    hr_plan *numbers = NULL, *written = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    uint8_t *data;
    char path[100];
    FILE *file;
    long n;

    (void)state;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/a.arrow", dir);
    assert_ok(hr_plan_range(ROWS, "id", &numbers, &err), &err);
    assert_ok(hr_plan_write(numbers, "arrow", path, &options, &written, &err), &err);
    assert_ok(hr_feed_open(written, NULL, &f, &err), &err);
    do {
        hr_table_unref(t);
        assert_ok(hr_feed_next(f, &t, &err), &err);
    } while (t);
    hr_feed_close(f);
    hr_plan_unref(written);
    hr_plan_unref(numbers);
    file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    data = malloc((size_t)n);
    assert_non_null(data);
    rewind(file);
    assert_int_equal(fread(data, 1, (size_t)n, file), n);
    fclose(file);
    assert_true(n > 300000);
    server = (http_server){ .data = data, .n = n, .etag = "\"v1\"" };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    free((void *)server.data);
    temp_dir_free(dir);
    return 0;
}

static hr_plan *plan_of(int n)
{
    static const char *const quick[] = { "timeout=20", "max_retries=0", "hedges=false" }; /* requests are counted */
    hr_read_options options = { .struct_bytes = sizeof options, .storage_options = quick, .n_storage_options = 3 };
    const char *names[N_FILES];
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    for (int i = 0; i < n; i++) {
        snprintf(urls[i], sizeof urls[i], "http://127.0.0.1:%d/%02d.arrow", server.port, i);
        names[i] = urls[i];
    }
    assert_ok(hr_plan_read(names, n, "arrow", &options, &p, &err), &err);
    return p;
}

static void count_anew(void)
{
    atomic_store(&server.n_gets, 0);
    atomic_store(&server.most_at_once, 0);
}

/* Reads to the end, or to the first error. -> its status. */
static hr_status read_all(hr_plan *p, int threads, int64_t *n_rows)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .num_threads = threads };
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    hr_status st;

    *n_rows = 0;
    assert_ok(hr_feed_open(p, &options, &f, &err), &err);
    while (!(st = hr_feed_next(f, &t, &err)) && t) {
        *n_rows += hr_table_rows(t);
        hr_table_unref(t);
    }
    hr_feed_close(f);
    return st;
}

/* One thread asks for what opens many files at once: one after the other would be one request at a time. */
static void openings_travel_together(void **state)
{
    int64_t n_rows;
    hr_plan *p;

    (void)state;
    http_server_start(&server);
    p = plan_of(N_FILES);
    atomic_store(&server.delay_us, DELAY_US);
    count_anew();
    assert_int_equal(read_all(p, 1, &n_rows), HR_OK);
    assert_int_equal(n_rows, (int64_t)N_FILES * ROWS);
    assert_true(atomic_load(&server.most_at_once) >= 16);
    assert_true(atomic_load(&server.n_gets) <= 3 * N_FILES); /* a footer and the rows of each, and what is cut */
    atomic_store(&server.delay_us, 0);
    hr_plan_unref(p);
    hr__http_stop();
    http_server_stop(&server);
}

/* With a limit no more files are begun than the window of a run that ends soon has tickets. */
static void a_limit_begins_few_files(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *all, *p = NULL;
    int64_t n_rows;

    (void)state;
    http_server_start(&server);
    all = plan_of(N_FILES);
    assert_ok(hr_plan_limit(all, 5, &p, &err), &err);
    count_anew();
    assert_int_equal(read_all(p, 1, &n_rows), HR_OK);
    assert_int_equal(n_rows, 5);
    assert_true(atomic_load(&server.n_gets) <= 8);
    hr_plan_unref(p);
    hr_plan_unref(all);
    hr__http_stop();
    http_server_stop(&server);
}

/* The bytes of the next file do not come: the only thread reads another plan meanwhile. */
static void a_thread_does_not_wait_for_files(void **state)
{
    hr_feed_options one = { .struct_bytes = sizeof one, .num_threads = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p, *numbers = NULL;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    int64_t n_rows;

    (void)state;
    assert_ok(hr_set_num_threads(1, &err), &err);
    http_server_start(&server);
    p = plan_of(4);
    http_server_fault(&server, HTTP_MUTE, -1);
    assert_ok(hr_feed_open(p, &one, &f, &err), &err);
    assert_int_equal(hr_feed_next_within(f, 100, &t, &err), HR_PENDING);
    assert_ok(hr_plan_range(1000, "id", &numbers, &err), &err);
    assert_int_equal(read_all(numbers, 1, &n_rows), HR_OK);
    assert_int_equal(n_rows, 1000);
    assert_int_equal(hr_feed_next_within(f, 0, &t, &err), HR_PENDING);
    hr_feed_close(f); /* ends what is awaited */
    hr_plan_unref(numbers);
    hr_plan_unref(p);
    assert_ok(hr_set_num_threads(0, &err), &err);
    http_server_fault(&server, HTTP_GOOD, 0);
    hr__http_stop();
    http_server_stop(&server);
}

/* All requests after the first ones fail: what was begun ahead fails at its turn, behind the rows that came before. */
static void a_file_that_fails_does_so_at_its_turn(void **state)
{
    hr_feed_options one = { /* far fewer files than all are begun */
                            .struct_bytes = sizeof one,
                            .num_threads = 1,
                            .prefetch = 1,
                            .memory_limit = 32 << 20
    };
    hr_error err = HR_ERROR_INIT;
    hr_status st = HR_OK;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    int64_t n_rows = 0;
    hr_plan *p;

    (void)state;
    http_server_start(&server);
    p = plan_of(N_FILES);
    assert_ok(hr_feed_open(p, &one, &f, &err), &err);
    for (bool first = true; !(st = hr_feed_next(f, &t, &err)) && t; first = false) {
        if (first)
            http_server_fault(&server, HTTP_403, -1);
        n_rows += hr_table_rows(t);
        hr_table_unref(t);
    }
    assert_int_equal(st, HR_IO);
    assert_non_null(strstr(err.text, ".arrow: "));
    assert_true(n_rows > 0 && n_rows < (int64_t)N_FILES * ROWS);
    hr_feed_close(f);
    hr_plan_unref(p);
    http_server_fault(&server, HTTP_GOOD, 0);
    hr__http_stop();
    http_server_stop(&server);
}

static hr_status read_three(hr_error *err)
{
    static const char *const quick[] = { "timeout=5" };
    hr_read_options options = { .struct_bytes = sizeof options, .storage_options = quick, .n_storage_options = 1 };
    const char *names[] = { urls[0], urls[1], urls[2] };
    hr_plan *p = NULL;
    hr_table *t = NULL;
    hr_feed *f = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_plan_read(names, 3, "arrow", &options, &p, err));
    HR_GO(hr_feed_open(p, NULL, &f, err));
    do {
        hr_table_unref(t);
        t = NULL;
        HR_GO(hr_feed_next(f, &t, err));
    } while (t);
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    hr__http_stop();
    return st;
}

static void no_memory_is_one_error(void **state)
{
    (void)state;
    http_server_start(&server);
    hr_plan_unref(plan_of(3)); /* the URLs */
    assert_true(run_with_faults(read_three, HR_FAULT_MEMORY | MAY_RECOVER) > 10);
    http_server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openings_travel_together),         cmocka_unit_test(a_limit_begins_few_files),
        cmocka_unit_test(a_thread_does_not_wait_for_files), cmocka_unit_test(a_file_that_fails_does_so_at_its_turn),
        cmocka_unit_test(no_memory_is_one_error),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}

#else

int main(void) { return 77; /* skipped */ }

#endif
