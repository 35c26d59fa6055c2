/* test_served.c - filesystems of the program: threads that answer requests, cancels in each state, files that get their
 * names at the end, and each allocation that fails. test_served.py has those of fsspec and pyarrow. */
#include "harness.h"

#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_BYTES (300 << 10)
#define N_FILES 16
#define N_THREADS 3
#define TAKE_NS INT64_C(20000000)

/* A filesystem of some files, which its threads serve. */
typedef struct file {
    char name[64]; /* "": none */
    uint8_t *data;
    int64_t n;
} file;

static struct {
    hr_mutex lock;
    hr_cond changed;
    int64_t number;
    file files[N_FILES];
    atomic_bool stop, gone;
    hr_thread threads[N_THREADS];
    char option[40];
    atomic_int n_gets, n_moves, refuse_move; /* refuse_move: the n-th one; 0: none */
    bool cut, hold;                          /* hold: a GET waits until it is false */
    int n_held;
    char dropped[64][17]; /* uploads that were thrown away: a part that is late does not bring them back */
    int n_dropped;
} disk;

static const char *options[1];

static file *find_file(const char *name)
{
    for (int i = 0; i < N_FILES; i++)
        if (strcmp(disk.files[i].name, name) == 0)
            return &disk.files[i];
    return NULL;
}

static void remove_file(const char *name)
{
    file *f = find_file(name);

    if (f) {
        free(f->data);
        *f = (file){ 0 };
    }
}

static void append(const char *name, const uint8_t *data, int64_t n)
{
    file *f = find_file(name);

    if (!f) {
        f = find_file("");
        assert_non_null(f);
        snprintf(f->name, sizeof f->name, "%s", name);
    }
    f->data = realloc(f->data, (size_t)(f->n + n) + 1);
    if (n)
        memcpy(f->data + f->n, data, (size_t)n);
    f->n += n;
}

static int n_files(void)
{
    int n = 0;

    for (int i = 0; i < N_FILES; i++)
        n += disk.files[i].name[0] != 0;
    return n;
}

static void refuse(const hr_served_call *c, hr_status st, const char *text)
{
    hr_error err = HR_ERROR_INIT;

    (void)hr_error_set(&err, st, "%s", text);
    hr_error_set_detail(&err, "why", 3);
    hr__served_refuse(c->job, &err);
}

/* As fsspec: a file, or those below a folder. */
static void serve_find(const hr_served_call *c)
{
    char out[2048];
    size_t n = strlen(c->path);
    int at = snprintf(out, sizeof out, "D") + 1;
    const file *f = find_file(c->path);

    if (f && n) {
        at = snprintf(out, sizeof out, "F") + 1;
        at += snprintf(out + at, sizeof out - (size_t)at, "%c%lld%cv%lld", 0, (long long)f->n, 0, (long long)f->n) + 1;
        hr__served_answer(c->job, out, at, NULL);
        return;
    }
    for (int i = 0; i < N_FILES; i++) {
        const char *name = disk.files[i].name;

        if (!name[0] || strncmp(name, c->path, n) != 0 || (n && name[n] != '/'))
            continue;
        at += snprintf(out + at, sizeof out - (size_t)at, "%s%c%lld%cv%lld", name + n + (n > 0), 0,
                       (long long)disk.files[i].n, 0, (long long)disk.files[i].n) +
              1;
    }
    if (at == 2 && n)
        refuse(c, HR_NOT_FOUND, "no such file");
    else
        hr__served_answer(c->job, out, disk.cut ? at - 1 : at, NULL);
}

static void serve_get(const hr_served_call *c)
{
    const file *f;

    atomic_fetch_add(&disk.n_gets, 1);
    disk.n_held++;
    hr__cond_broadcast(&disk.changed);
    while (disk.hold)
        hr__cond_wait(&disk.changed, &disk.lock);
    disk.n_held--;
    hr__cond_broadcast(&disk.changed);
    f = find_file(c->path);
    if (!f)
        refuse(c, HR_NOT_FOUND, "no such file");
    else if (!c->n_bytes)
        hr__served_answer(c->job, f->data, f->n, NULL);
    else
        hr__served_answer(c->job, f->data + c->offset, disk.cut ? c->n_bytes - 1 : c->n_bytes, NULL);
}

/* Parts go to ".ID"; the order of their numbers is the caller's, with one thread. */
static void serve_put(const hr_served_call *c)
{
    char name[64];

    if (strncmp(c->query, "part=", 5) == 0)
        snprintf(name, sizeof name, ".%.16s", c->query + 5);
    else
        snprintf(name, sizeof name, "%s", c->path);
    for (int i = 0; i < HR_LEN(disk.dropped); i++)
        if (name[0] == '.' && strcmp(disk.dropped[i], name + 1) == 0) {
            refuse(c, HR_CANCELLED, "the upload was thrown away");
            return;
        }
    if (c->lines && strstr(c->lines, "If-None-Match") && find_file(name)) {
        refuse(c, HR_MISMATCH, "it exists");
        return;
    }
    if (c->query[0] == 0)
        remove_file(name);
    append(name, c->data, c->n_data);
    hr__served_answer(c->job, "", 0, "v1");
}

static void serve_move(const hr_served_call *c)
{
    char name[64];
    file *f;

    snprintf(name, sizeof name, ".%.16s", c->query + 3);
    f = find_file(name);
    if (atomic_fetch_add(&disk.n_moves, 1) + 1 == disk.refuse_move || !f ||
        (strstr(c->query, "&new") && find_file(c->path))) {
        refuse(c, HR_IO, "it does not move");
        return;
    }
    remove_file(c->path);
    snprintf(f->name, sizeof f->name, "%s", c->path);
    hr__served_answer(c->job, "", 0, NULL);
}

static void serve_one(const hr_served_call *c)
{
    char name[64];

    if (strcmp(c->method, "FIND") == 0) {
        serve_find(c);
    } else if (strcmp(c->method, "GET") == 0) {
        serve_get(c);
    } else if (strcmp(c->method, "PUT") == 0) {
        serve_put(c);
    } else if (strcmp(c->method, "MOVE") == 0) {
        serve_move(c);
    } else {
        if (strncmp(c->query, "end=", 4) == 0) {
            snprintf(name, sizeof name, ".%.16s", c->query + 4);
            append(name, NULL, 0);
        } else if (strncmp(c->query, "id=", 3) == 0) {
            snprintf(name, sizeof name, ".%.16s", c->query + 3);
            remove_file(name);
            snprintf(disk.dropped[disk.n_dropped++ % HR_LEN(disk.dropped)], 17, "%.16s", name + 1);
        } else {
            remove_file(c->path);
        }
        hr__served_answer(c->job, "", 0, NULL);
    }
}

static void serve(void *none)
{
    hr_served_call c;

    (void)none;
    while (!disk.stop) {
        if (!hr__served_take(TAKE_NS, &c))
            continue;
        if (c.gone) {
            disk.gone = true;
            continue;
        }
        hr__lock(&disk.lock);
        serve_one(&c);
        hr__unlock(&disk.lock);
    }
}

static void nap(void)
{
    struct timespec t = { .tv_nsec = 100000 };

    nanosleep(&t, NULL);
}

static int start(void **state)
{
    uint8_t *data = malloc(N_BYTES);

    (void)state;
    hr__mutex_init(&disk.lock);
    hr__cond_init(&disk.changed);
    for (int i = 0; i < N_BYTES; i++)
        data[i] = (uint8_t)(i * 31 + i / 256);
    append("data/a b%", data, N_BYTES);
    append("data/b.csv", data, 1000);
    append("data/x/.hidden", data, 10);
    append("data/x/c.csv", data, 2000);
    free(data);
    disk.stop = disk.gone = disk.cut = disk.hold = false;
    disk.n_gets = disk.n_moves = disk.refuse_move = 0;
    assert_ok(hr__served_new(&disk.number, NULL), NULL);
    snprintf(disk.option, sizeof disk.option, "filesystem=%lld", (long long)disk.number);
    options[0] = disk.option;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(hr__thread_start(&disk.threads[i], "server", serve, NULL), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    hr__served_unref(disk.number);
    while (!disk.gone)
        nap();
    disk.stop = true;
    for (int i = 0; i < N_THREADS; i++)
        hr__thread_join(disk.threads[i]);
    for (int i = 0; i < N_FILES; i++) {
        free(disk.files[i].data);
        disk.files[i] = (file){ 0 };
    }
    hr__poller_stop();
    hr__cond_clear(&disk.changed);
    hr__mutex_clear(&disk.lock);
    return 0;
}

#define URL "filesystem:///"
static const hr_store_options store = { options, 1 };

static hr_status list(const char *url, hr_paths *out, hr_error *err)
{
    hr_paths_options o = { .store_options = options, .n_store_options = 1 };

    return hr__paths_list(&url, 1, &o, NULL, out, err);
}

/* --------------------------------------------------------------------------------------------------------- reading */

static const struct {
    const char *url, *want; /* the paths, or the error */
} lists[] = {
    { URL "data", "data/a b%;data/b.csv;data/x/c.csv;" },
    { URL "data/", "data/a b%;data/b.csv;data/x/c.csv;" },
    { URL, "data/a b%;data/b.csv;data/x/c.csv;" },
    { URL "data/*.csv", "data/b.csv;" },
    { URL "data/**/*.csv", "data/b.csv;data/x/c.csv;" },
    { URL "da*/x", "data/x/c.csv;" },
    { URL "data/b.csv", "data/b.csv;" },
    { URL "data/x/.hidden", "data/x/.hidden;" },
    { URL "none", "none: no such file" },
    { URL "none/*", "none/*: no file matches" },
};

static void lists_are_those_of_folders(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(lists); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_paths found = { 0 };
        hr_text text = { 0 };

        if (list(lists[i].url, &found, &err))
            hr__text_add(&text, "%s", err.text);
        for (int64_t k = 0; k < found.n; k++)
            hr__text_add(&text, "%s;", hr__paths_shown(&found, k));
        assert_string_equal(text.data, lists[i].want);
        hr__text_clear(&text);
        hr__paths_clear(&found);
        hr_error_clear(&err);
    }
}

static void came(void *context) { atomic_store((atomic_bool *)context, true); }

/* Lists, announces, waits without a thread, and reads. */
static hr_status read_file(hr_error *err)
{
    static uint8_t bytes[N_BYTES];
    atomic_bool here = false;
    hr_source *source = NULL;
    hr_paths found = { 0 };
    hr_wait *w = NULL;
    hr_status st;

    HR_GO(list(URL "data", &found, err));
    HR_GO(hr__paths_open(&found, 0, NULL, &source, err));
    assert_true(hr__source_is_remote(source));
    HR_GO(hr__wait_begin(1 << 20, &w, err));
    hr__source_ahead(source, 100, 1000);
    hr__source_ahead(source, 200000, N_BYTES - 200000);
    if (hr__wait_end(w, came, &here))
        while (!here)
            nap();
    HR_GO(hr__source_read(source, bytes, 0, N_BYTES, err));
    for (int i = 0; i < N_BYTES; i++)
        assert_int_equal(bytes[i], (uint8_t)(i * 31 + i / 256));
done:
    hr__wait_unref(w);
    hr__source_unref(source);
    hr__paths_clear(&found);
    return st;
}

static void ranges_are_read(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(read_file(&err), &err);
    assert_true(disk.n_gets >= 2);
    disk.cut = true;
    assert_int_equal(read_file(&err), HR_BAD_DATA);
    assert_contains(err.text, "the filesystem gives a list that is cut");
    hr_error_clear(&err);
}

static void a_short_answer_and_a_refusal_are_errors(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_paths found = { 0 };
    uint8_t byte;

    (void)state;
    assert_ok(list(URL "data/b.csv", &found, &err), &err);
    assert_ok(hr__paths_open(&found, 0, NULL, &source, &err), &err);
    disk.cut = true;
    assert_int_equal(hr__source_read(source, &byte, 3, 1, &err), HR_BAD_DATA);
    assert_contains(err.text, "data/b.csv: the filesystem gives 996 bytes at 3, expected 997");
    hr_error_clear(&err);
    hr__lock(&disk.lock);
    remove_file("data/b.csv");
    hr__unlock(&disk.lock);
    assert_int_equal(hr__source_read(source, &byte, 3, 1, &err), HR_NOT_FOUND);
    assert_string_equal(err.text, "data/b.csv: no such file");
    assert_int_equal(err.detail_bytes, 3); /* the exception of Python travels with it */
    hr_error_clear(&err);
    hr__source_unref(source);
    hr__paths_clear(&found);
}

static void an_unknown_filesystem_is_an_error(void **state)
{
    static const char *const wrong[] = { "filesystem=12345" };
    hr_paths_options o = { .store_options = wrong, .n_store_options = 1 }, none = { 0 };
    const char *url = URL "data";
    hr_error err = HR_ERROR_INIT;
    hr_paths found = { 0 };

    (void)state;
    assert_int_equal(hr__paths_list(&url, 1, &o, NULL, &found, &err), HR_INVALID);
    assert_contains(err.text, "not one of this process");
    assert_int_equal(hr__paths_list(&url, 1, &none, NULL, &found, &err), HR_INVALID);
    assert_contains(err.text, "without the argument filesystem");
    hr_error_clear(&err);
}

/* ------------------------------------------------------------------------------------------------------- cancelling */

static void hold(bool on)
{
    hr__lock(&disk.lock);
    disk.hold = on;
    hr__cond_broadcast(&disk.changed);
    while (!on && disk.n_held)
        hr__cond_wait(&disk.changed, &disk.lock);
    hr__unlock(&disk.lock);
}

/* A source whose requests hang can go: their threads answer nobody. */
static void a_source_goes_while_its_requests_hang(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_paths found = { 0 };
    hr_source *source;

    (void)state;
    for (int round = 0; round < 3; round++) {
        hold(true);
        assert_ok(list(URL "data/a b%", &found, &err), &err);
        assert_ok(hr__paths_open(&found, 0, NULL, &source, &err), &err);
        for (int i = 0; i < 6; i++) /* more than there are threads: one is taken, others are queued */
            hr__source_ahead(source, i * 50000, 1000);
        hr__lock(&disk.lock);
        while (round && disk.n_held == 0)
            hr__cond_wait(&disk.changed, &disk.lock);
        hr__unlock(&disk.lock);
        hr__source_unref(source);
        hr__paths_clear(&found);
        hold(false);
    }
}

static atomic_bool stop_reads;

static void stop_soon(void *none)
{
    (void)none;
    hr__lock(&disk.lock);
    while (disk.n_held == 0)
        hr__cond_wait(&disk.changed, &disk.lock);
    hr__unlock(&disk.lock);
    stop_reads = true;
}

static void a_read_that_waits_ends_when_it_is_stopped(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_paths found = { 0 };
    hr_thread other;
    uint8_t byte;

    (void)state;
    stop_reads = false;
    hold(true);
    assert_ok(list(URL "data/a b%", &found, &err), &err);
    assert_ok(hr__paths_open(&found, 0, NULL, &source, &err), &err);
    assert_int_equal(hr__thread_start(&other, "stop", stop_soon, NULL), 0);
    hr__reads_stop_by(&stop_reads);
    assert_int_equal(hr__source_read(source, &byte, 0, 1, &err), HR_CANCELLED);
    hr__reads_stop_by(NULL);
    hr__thread_join(other);
    hr_error_clear(&err);
    hr__source_unref(source);
    hr__paths_clear(&found);
    hold(false);
}

/* Sources that come and go on several threads, while others read to the end. */
static void come_and_go(void *n_rounds, int thread)
{
    uint64_t seed = (uint64_t)thread;

    for (int i = 0; i < *(const int *)n_rounds; i++) {
        hr_error err = HR_ERROR_INIT;
        hr_source *source = NULL;
        hr_paths found = { 0 };
        uint8_t bytes[100];

        assert_ok(list(URL "data/a b%", &found, &err), &err);
        assert_ok(hr__paths_open(&found, 0, NULL, &source, &err), &err);
        for (int k = 0; k < 4; k++)
            hr__source_ahead(source, random_below(&seed, N_BYTES), 500);
        if (random_below(&seed, 2))
            assert_ok(hr__source_read(source, bytes, random_below(&seed, N_BYTES - 100), 100, &err), &err);
        hr__source_unref(source);
        hr__paths_clear(&found);
    }
}

static void requests_are_cancelled_in_each_state(void **state)
{
    int n = repeats(60);

    (void)state;
    run_threads(4, come_and_go, &n);
}

/* --------------------------------------------------------------------------------------------------------- writing */

static hr_status write_files(bool replace, hr_error *err)
{
    static const char *const urls[] = { URL "out/1", URL "out/2", URL "out/3" };
    hr_uploads *u = NULL;
    hr_paths old = { 0 };
    hr_upload *f;
    hr_status st;

    HR_GO(hr__uploads_new(URL "out", HR_UPLOADS_JOB, "job", options, 1, NULL, &u, err));
    for (int i = 0; i < HR_LEN(urls); i++) {
        HR_GO(hr__upload_begin(u, urls[i], &f, err));
        if (i) /* the first file is empty */
            HR_GO(hr__upload_write(f, "12345", 5, err));
        HR_GO(hr__upload_finish(f, err));
    }
    if (replace)
        HR_GO(hr__paths_add(&old, URL "data/b.csv", "v1000", 1000, 0, err));
    HR_GO(hr__uploads_commit(u, false, replace, &old, err));
done:
    hr__uploads_free(u);
    hr__paths_clear(&old);
    return st;
}

static hr_status write_and_remove(hr_error *err)
{
    hr_status st = write_files(true, err);

    for (int i = 1; i <= 3; i++) {
        char name[16];

        snprintf(name, sizeof name, "out/%d", i);
        hr__lock(&disk.lock);
        remove_file(name);
        hr__unlock(&disk.lock);
    }
    return st;
}

static void files_get_their_names_together(void **state)
{
    hr_error err = HR_ERROR_INIT;
    int before = n_files();

    (void)state;
    assert_ok(write_files(false, &err), &err);
    assert_int_equal(n_files(), before + 3);
    assert_int_equal(find_file("out/2")->n, 5);
    assert_int_equal(find_file("out/1")->n, 0);
    assert_int_equal(write_files(false, &err), HR_IO); /* the names are taken */
    assert_contains(err.text, ": it does not move");
    hr_error_clear(&err);
    assert_int_equal(n_files(), before + 3);
    assert_ok(write_files(true, &err), &err);
    assert_null(find_file("data/b.csv"));
}

static void a_move_that_fails_takes_the_names_back(void **state)
{
    hr_error err = HR_ERROR_INIT;
    int before = n_files();

    (void)state;
    disk.refuse_move = 2;
    assert_int_equal(write_files(false, &err), HR_IO);
    assert_int_equal(n_files(), before);
    hr_error_clear(&err);
}

static hr_status put_and_read(hr_error *err)
{
    hr_text data = { 0 };
    char *tag = NULL;
    hr_status st;

    HR_GO(hr__object_put(&store, URL "state", "abc", 3, NULL, &tag, err));
    assert_string_equal(tag, "v1");
    hr__free(tag);
    tag = NULL;
    HR_GO(hr__object_read_range(&store, URL "state", 0, INT64_MAX, &data, &tag, err));
    assert_int_equal(data.n, 3);
done:
    hr__text_clear(&data);
    hr__free(tag);
    return st;
}

static void single_files_have_conditions(void **state)
{
    hr_error err = HR_ERROR_INIT;
    char *tag = NULL;

    (void)state;
    assert_ok(put_and_read(&err), &err);
    assert_int_equal(hr__object_put(&store, URL "state", "abc", 3, "", &tag, &err), HR_MISMATCH);
    hr_error_clear(&err);
}

static void no_memory_is_one_error(void **state)
{
    (void)state;
    assert_true(run_with_faults(read_file, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    assert_true(run_with_faults(put_and_read, HR_FAULT_MEMORY | MAY_RECOVER) > 10);
    assert_true(run_with_faults(write_and_remove, HR_FAULT_MEMORY | MAY_RECOVER) > 30);
    assert_int_equal(n_files(), 4); /* with "state"; of the jobs that failed nothing stays */
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, start, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(lists_are_those_of_folders),
        CASE(ranges_are_read),
        CASE(a_short_answer_and_a_refusal_are_errors),
        CASE(an_unknown_filesystem_is_an_error),
        CASE(a_source_goes_while_its_requests_hang),
        CASE(a_read_that_waits_ends_when_it_is_stopped),
        CASE(requests_are_cancelled_in_each_state),
        CASE(files_get_their_names_together),
        CASE(a_move_that_fails_takes_the_names_back),
        CASE(single_files_have_conditions),
        CASE(no_memory_is_one_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
