/* test_row_cache.c - cached rows: the rows of the plan, whatever happens to the folder, memory and disk. */
#include "harness.h"

#include "feed/feed.h"
#include "format/spill/row_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t n_rows = 300000; /* three stretches */
static int folder_number;

/* ----------------------------------------------------------------------------------------------------------- plans */

static atomic_llong mapped; /* rows that the function saw */

static hr_status same(void *context, void *thread, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)thread;
    (void)err;
    atomic_fetch_add(&mapped, hr_table_rows(in));
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

/* Rows 0 .. n - 1 through a function, in batches of batch_rows (0: blocks), cached. */
static hr_status plan_new(int64_t n, int64_t batch_rows, int64_t limit, const char *version, hr_plan **out,
                          hr_error *err)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "same", .call = same };
    hr_map_options options = { .struct_bytes = sizeof options, .batch_rows = batch_rows, .one_to_one = true };
    hr_cache_options cache = { .struct_bytes = sizeof cache, .limit_bytes = limit, .version = version };
    hr_plan *range = NULL, *map = NULL;
    char folder[100];
    hr_status st;

    *out = NULL;
    snprintf(folder, sizeof folder, "%s/cache%d", test_dir, folder_number);
    HR_GO(hr_plan_range(n, "x", &range, err));
    HR_GO(hr_plan_map(range, &fn, &options, &map, err));
    st = hr_plan_cache(map, folder, &cache, out, err);
done:
    hr_plan_unref(range);
    hr_plan_unref(map);
    return st;
}

/* Reads rows from `next` on, `most` of them (< 0: all that there are), and the position after them. */
static hr_status read_rows(hr_plan *p, const char *position, int64_t next, int64_t most, char **at, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = 1000, .position = position };
    hr_feed *f = NULL;
    hr_table *t = NULL;
    int64_t n = 0;
    hr_status st;

    HR_GO(hr_feed_open(p, &options, &f, err));
    for (; most < 0 || n < most; hr_table_unref(t)) {
        hr_column_view v = { .struct_bytes = sizeof v };

        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        assert_int_equal(hr_table_column_view(t, 0, &v, NULL), HR_OK);
        for (int64_t i = 0; i < v.n_rows; i++)
            assert_int_equal(((const int64_t *)v.data)[i], next++);
        n += v.n_rows;
    }
    if (most < 0)
        assert_int_equal(next, n_rows);
    if (at)
        st = hr_feed_position(f, at, err);
done:
    hr_feed_close(f);
    return st;
}

static void read_all(hr_plan *p, int64_t calls)
{
    hr_error err = HR_ERROR_INIT;

    atomic_store(&mapped, 0);
    assert_ok(read_rows(p, NULL, 0, -1, NULL, &err), &err);
    assert_int_equal(atomic_load(&mapped), calls);
}

static void test_epochs(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    (void)state;
    for (int batch = 0; batch <= 700; batch += 700) {
        assert_ok(plan_new(n_rows, batch, 0, "1", &p, &err), &err);
        read_all(p, n_rows);
        read_all(p, 0);
        read_all(p, 0);
        hr_plan_unref(p);
        assert_ok(plan_new(n_rows, batch, 0, "2", &p, &err), &err);
        read_all(p, n_rows);
        hr_plan_unref(p);
    }
    assert_no_leak(before);
}

/* Positions at many places of the first epoch and of later ones. */
static void test_positions(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    char *at = NULL;

    (void)state;
    for (int batch = 0; batch <= 700; batch += 700) {
        assert_ok(plan_new(n_rows, batch, 0, "1", &p, &err), &err);
        for (int64_t n = 0; n <= n_rows; n += 75000) {
            assert_ok(read_rows(p, NULL, 0, n, &at, &err), &err);
            assert_ok(read_rows(p, at, n, -1, NULL, &err), &err);
            hr_string_free(at);
        }
        read_all(p, 0);
        hr_plan_unref(p);
    }
}

static void test_errors(void **state)
{
    hr_cache_options options = { .struct_bytes = sizeof options, .limit_bytes = -1 };
    hr_shuffle_options shuffle = { .struct_bytes = sizeof shuffle };
    hr_plan *p = NULL, *q = NULL, *out = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr_plan_range(10, "x", &p, &err), &err);
    assert_status(hr_plan_cache(p, test_dir, &options, &out, &err), HR_INVALID, &err);
    assert_status(hr_plan_cache(p, "", NULL, &out, &err), HR_INVALID, &err);
    assert_status(hr_plan_cache(p, NULL, NULL, &out, &err), HR_INVALID, &err);
    assert_ok(hr_plan_random_shuffle(p, &shuffle, &q, &err), &err);
    assert_status(hr_plan_cache(q, test_dir, NULL, &out, &err), HR_INVALID, &err);
    assert_contains(err.text, "put it after cache()");
    hr_plan_unref(q);
    hr_plan_unref(p);
    hr_error_clear(&err);
    assert_ok(plan_new(10, 0, 0, NULL, &p, &err), &err); /* a function of C has no hash */
    assert_status(read_rows(p, NULL, 0, -1, NULL, &err), HR_INVALID, &err);
    assert_contains(err.text, "map(same) calls a function whose code has no hash");
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* ----------------------------------------------------------------------------------------------------------- faults */

/* An epoch that fills a cache, and one that reads it. */
static hr_status two_epochs(hr_error *err)
{
    hr_plan *p = NULL;
    hr_status st;

    folder_number++;
    HR_GO(plan_new(n_rows, folder_number % 2 * 700, 0, "1", &p, err));
    HR_GO(read_rows(p, NULL, 0, -1, NULL, err));
    st = read_rows(p, NULL, 0, -1, NULL, err);
done:
    hr_plan_unref(p);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    n_rows = 3000;
    run_with_faults(two_epochs, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

static void consume(void *plan, int thread)
{
    hr_error err = HR_ERROR_INIT;

    (void)thread;
    assert_ok(read_rows(plan, NULL, 0, -1, NULL, &err), &err);
}

static void test_threads(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    (void)state;
    assert_ok(plan_new(n_rows, 0, 0, "1", &p, &err), &err);
    run_threads(3, consume, p);
    read_all(p, 0);
    hr_plan_unref(p);
}

/* ------------------------------------------------------------------------------------------------------- stretches */

static hr_cache_state folder_state;

static hr_row_cache *opened(uint64_t key, int64_t limit)
{
    hr_error err = HR_ERROR_INIT;
    hr_row_cache *c = NULL;

    assert_ok(hr__row_cache_new(test_dir, limit, (hr_bits128){ key, 7 }, &folder_state, NULL, &c, &err), &err);
    return c;
}

static hr_table *numbers(int64_t begin, int64_t n)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;
    hr_feed *f = NULL;
    hr_table *t = NULL, *some = NULL;
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = begin + n };

    assert_ok(hr_plan_range(begin + n, "x", &p, &err), &err);
    assert_ok(hr_feed_open(p, &options, &f, &err), &err);
    assert_ok(hr_feed_next(f, &t, &err), &err);
    assert_ok(hr_table_slice(t, begin, n, &some, &err), &err);
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    return some;
}

static void put(hr_row_cache *c, const char *from, const hr_table *t, int n_tables, const char *next)
{
    hr_stretch_writer *w = hr__stretch_writer_new(c, from);

    for (int i = 0; w && i < n_tables; i++)
        hr__stretch_writer_add(w, t, i ? "inner" : from);
    hr__stretch_writer_end(w, next);
}

/* Whether the stretch is there; if so, its tables are right. */
static bool has(hr_row_cache *c, const char *from, const hr_table *want, const char *next)
{
    const hr_stretch *s = hr__row_cache_find(c, from);
    const hr_mem mem = { NULL, NULL };
    hr_error err = HR_ERROR_INIT;
    hr_status st = HR_OK;
    const char *at;

    if (!s)
        return false;
    assert_int_equal(s->next == NULL, next == NULL);
    if (next)
        assert_string_equal(s->next, next);
    for (int64_t i = 0; i < s->n_tables && !st; i++) {
        hr_table *t = NULL;

        st = hr__stretch_read(s, i, &mem, &t, &at, &err);
        if (st) {
            assert_int_equal(st, HR_BAD_DATA);
            break;
        }
        assert_string_equal(at, i ? "inner" : from);
        assert_int_equal(t->n_rows, want->n_rows);
        assert_memory_equal(t->columns[0]->buffers[1]->data,
                            want->columns[0]->buffers[1]->data + 8 * want->columns[0]->offset, (size_t)(8 * t->n_rows));
        for (int64_t k = 0; k < t->n_rows; k += 13)
            assert_int_equal(hr__origin_at(t->origin, k).row, hr__origin_at(want->origin, k).row);
        hr_table_unref(t);
    }
    hr__stretch_close(s);
    hr_error_clear(&err);
    return !st;
}

static void test_stretches(void **state)
{
    hr_row_cache *a = opened(1, INT64_MAX), *b = opened(2, INT64_MAX);
    hr_table *t = numbers(100, 5000), *u = numbers(7, 20);
    live_memory before = live_now();

    (void)state;
    put(a, "", t, 3, "next");
    put(a, "next", u, 1, NULL);
    put(b, "", u, 2, NULL);
    assert_true(has(a, "", t, "next"));
    assert_true(has(a, "next", u, NULL));
    assert_true(has(b, "", u, NULL));
    assert_false(has(b, "next", u, NULL));
    assert_false(has(a, "other", u, NULL));
    put(a, "empty", t, 0, "next");
    assert_true(has(a, "empty", t, "next"));
    hr__stretch_writer_drop(hr__stretch_writer_new(a, "dropped"));
    assert_false(has(a, "dropped", u, NULL));
    assert_no_leak(before);
    hr_table_unref(t);
    hr_table_unref(u);
    hr__row_cache_free(a);
    hr__row_cache_free(b);
}

/* The only file below the folder. */
static void find_file(const char *folder, char *path, size_t n)
{
    DIR *d = opendir(folder);

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        char below[300];

        if (e->d_name[0] == '.')
            continue;
        snprintf(below, sizeof below, "%s/%.100s", folder, e->d_name);
        if (strstr(e->d_name, ".rows"))
            snprintf(path, n, "%s", below);
        else
            find_file(below, path, n);
    }
    closedir(d);
}

/* One bit of a file is wrong, at each place in turn: the stretch is missing, or its tables are right. */
static void test_damage(void **state)
{
    hr_row_cache *c = opened(3, INT64_MAX);
    hr_table *t = numbers(0, 50);
    char path[300] = "";
    uint8_t data[8192];
    ssize_t n;
    int fd, n_lost = 0;

    (void)state;
    put(c, "", t, 2, "next");
    find_file(test_dir, path, sizeof path);
    fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    n = read(fd, data, sizeof data);
    close(fd);
    assert_true(n > 0 && n < (ssize_t)sizeof data);
    for (ssize_t at = 0; at < n; at += 3) {
        data[at] ^= 4;
        temp_file("", path, data, n);
        n_lost += !has(c, "", t, "next");
        data[at] ^= 4;
    }
    for (ssize_t length = 0; length < n; length += 7) {
        temp_file("", path, data, length);
        assert_false(has(c, "", t, "next"));
    }
    assert_true(n_lost > n / 3 * 8 / 10); /* the others lie between the chunks */
    assert_int_equal(hr__row_cache_counts(c).damaged, n_lost + (n + 6) / 7);
    hr_table_unref(t);
    hr__row_cache_free(c);
}

/* A limit: what is there stays, more is not stored; rows of another key make room, unless someone holds them. */
static void test_limit(void **state)
{
    hr_row_cache *a, *b;
    hr_table *t = numbers(0, 30000);
    char from[20];
    int n_a = 0, n_b = 0, n_held = 0;

    (void)state;
    folder_state = (hr_cache_state){ 0 };
    a = opened(4, 1000000);
    for (int i = 0; i < 40; i++) {
        snprintf(from, sizeof from, "%d", i);
        put(a, from, t, 1, NULL);
    }
    for (int i = 0; i < 40; i++) {
        snprintf(from, sizeof from, "%d", i);
        n_a += has(a, from, t, NULL);
        assert_true(n_a == i + 1 || n_a < i + 1);
    }
    assert_in_range(n_a, 3, 39);
    assert_true(has(a, "0", t, NULL));
    b = opened(5, 1000000);
    folder_state = (hr_cache_state){ 0 };
    put(b, "b", t, 1, NULL); /* `a` is held: nothing of it goes */
    for (int i = 0; i < 40; i++) {
        snprintf(from, sizeof from, "%d", i);
        n_held += has(a, from, t, NULL);
    }
    assert_int_equal(n_held, n_a);
    hr__row_cache_free(a);
    for (int i = 0; i < 10; i++) {
        folder_state = (hr_cache_state){ 0 };
        snprintf(from, sizeof from, "%d", i);
        put(b, from, t, 1, NULL);
        n_b += has(b, from, t, NULL);
    }
    assert_true(n_b > 0);
    hr_table_unref(t);
    hr__row_cache_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_stretches, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_damage, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_limit, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_epochs, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_positions, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_errors, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_threads, test_dir_new, test_dir_free),
        cmocka_unit_test_setup_teardown(test_faults, test_dir_new, test_dir_free),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
