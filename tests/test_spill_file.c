/* test_spill_file.c - tables come back from the disk as they were, or an error says what is wrong. */
#include "arrays.h"
#include "format/spill/spill_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int files_in(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    closedir(d);
    return n;
}

/* The descriptor of the one spill file that this process has: nobody else has a name for it. */
static int spill_descriptor(void)
{
    char name[64], to[512];
    ssize_t n;

    for (int fd = 3; fd < 100; fd++) {
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if ((n = readlink(name, to, sizeof to - 1)) < 0)
            continue;
        to[n] = 0;
        if (strstr(to, test_dir) && strstr(to, "(deleted)"))
            return fd;
    }
    fail_msg("no spill file is open");
    return -1;
}

static hr_spill_file *store(void)
{
    hr_spill_file *s = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__spill_file_new(test_dir, "test", NULL, &s, &err), &err);
    return s;
}

static void check_same(const hr_table *a, const hr_table *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_true(hr__schema_equal(a->schema, b->schema));
    for (int i = 0; i < a->schema->n; i++)
        assert_same_array(a->columns[i], b->columns[i]);
}

/* Every type, whole tables and slices, several chunks in one file; read in another order than written. */
static void test_types(void **unused)
{
    live_memory before = live_now();
    hr_spill_file *s = store();
    hr_mem mem = { 0 };
    uint64_t random = 31;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_table *in[4], *out = NULL;
        hr_spilled_table places[4];

        for (int i = 0; i < 4; i++) {
            hr_table *t = random_table(&random, &type, 1, 1 + random_below(&random, 600));
            int64_t begin = random_below(&random, t->n_rows);

            assert_ok(hr_table_slice(t, i ? begin : 0, i ? random_below(&random, t->n_rows - begin + 1) : t->n_rows,
                                     &in[i], &err),
                      &err);
            assert_ok(hr__spill_file_write(s, in[i], &places[i], &err), &err);
            assert_int_equal(places[i].n_rows, in[i]->n_rows);
            hr_table_unref(t);
        }
        for (int i = 4; i-- > 0;) {
            assert_ok(hr__spill_file_read(s, &places[i], &mem, in[i]->schema, &out, &err), &err);
            assert_ok(hr__table_check(out, false, &err), &err);
            check_same(out, in[i]);
            hr__spill_file_forget(s, &places[i]);
            hr_table_unref(out);
            hr_table_unref(in[i]);
        }
        hr__type_unref(type);
    }
    assert_int_equal(hr__spill_file_counts(s).live_bytes, 0);
    assert_true(hr__spill_file_counts(s).read_bytes == hr__spill_file_counts(s).written_bytes);
    assert_int_equal(files_in(test_dir), 0);
    hr__spill_file_unref(s);
    assert_int_equal(hr_spill_used(), 0);
    assert_no_leak(before);
}

static hr_table *large_table(int64_t n, bool random_values)
{
    hr_type *types[] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    hr_builder *b[] = { builder_of(types[0]), builder_of(types[1]) };
    hr_array *columns[2];
    hr_field fields[2] = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL;
    uint64_t random = 5;
    char text[40];

    for (int64_t i = 0; i < n; i++) {
        uint64_t v = random_values ? next_random(&random) : (uint64_t)i % 100;

        assert_ok(hr__builder_int(b[0], (int64_t)v, NULL), NULL);
        assert_ok(hr__builder_bytes(b[1], text, snprintf(text, sizeof text, "text %llu", (unsigned long long)v), NULL),
                  NULL);
    }
    for (int i = 0; i < 2; i++) {
        columns[i] = finish(b[i]);
        assert_ok(hr__field_init(&fields[i], i ? "s" : "x", types[i], true, NULL), NULL);
    }
    assert_ok(hr__schema_new(fields, 2, &s, NULL), NULL);
    assert_ok(hr__table_new(s, columns, n, NULL, &t, NULL), NULL);
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    hr__schema_unref(s);
    return t;
}

/* Large parts are compressed where that pays, a slice costs its own bytes, and what was read or forgotten frees the
 * disk. */
static void test_sizes(void **unused)
{
    hr_spill_file *s = store();
    hr_mem mem = { 0 };
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int random = 0; random < 2; random++) {
        hr_table *t = large_table(50000, random), *part = NULL, *out = NULL;
        hr_spilled_table whole, small;

        assert_ok(hr_table_slice(t, 1000, 100, &part, &err), &err);
        assert_ok(hr__spill_file_write(s, t, &whole, &err), &err);
        assert_ok(hr__spill_file_write(s, part, &small, &err), &err);
        assert_true(small.n_bytes < 8000);
        assert_in_range(whole.memory_bytes, hr__table_bytes_used(t) * 9 / 10, hr__table_bytes_used(t) * 11 / 10);
#ifdef HR_HAVE_LZ4
        if (!random)
            assert_true(whole.n_bytes < hr__table_bytes_used(t) / 2);
#endif
        assert_ok(hr__spill_file_read(s, &whole, &mem, t->schema, &out, &err), &err);
        check_same(out, t);
        hr_table_unref(out);
        assert_ok(hr__spill_file_read(s, &small, &mem, t->schema, &out, &err), &err);
        check_same(out, part);
        hr_table_unref(out);
        hr__spill_file_forget(s, &whole);
        assert_int_equal(hr__spill_file_counts(s).live_bytes, HR_ROUND_UP(small.n_bytes, 4096));
        hr__spill_file_forget(s, &small);
        hr_table_unref(part);
        hr_table_unref(t);
    }
    hr__spill_file_unref(s);
}

static void test_damage(void **unused)
{
    hr_table *t = large_table(300, true), *out = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_spill_file *s = store();
    hr_spilled_table p, other;
    hr_mem mem = { 0 };
    int fd;

    (void)unused;
    assert_ok(hr__spill_file_write(s, t, &other, &err), &err);
    assert_ok(hr__spill_file_write(s, t, &p, &err), &err);
    fd = spill_descriptor();
    for (int64_t at = 0; at < p.n_bytes; at += at < 600 ? 1 : 37) {
        uint8_t byte, flipped;

        assert_int_equal(pread(fd, &byte, 1, p.at + at), 1);
        flipped = byte ^ (uint8_t)(1 << at % 8);
        assert_int_equal(pwrite(fd, &flipped, 1, p.at + at), 1);
        assert_status(hr__spill_file_read(s, &p, &mem, t->schema, &out, &err), HR_BAD_DATA, &err);
        assert_null(out);
        assert_int_equal(pwrite(fd, &byte, 1, p.at + at), 1);
    }
    assert_contains(err.text, test_dir);
    assert_contains(err.text, "checksum does not match");
    assert_ok(hr__spill_file_read(s, &p, &mem, t->schema, &out, &err), &err);
    check_same(out, t);
    hr_table_unref(out);
    assert_int_equal(ftruncate(fd, p.at + p.n_bytes - 1), 0);
    assert_status(hr__spill_file_read(s, &p, &mem, t->schema, &out, &err), HR_BAD_DATA, &err);
    hr_error_clear(&err);
    hr__spill_file_unref(s);
    hr_table_unref(t);
}

static void test_quota(void **unused)
{
    hr_table *t = large_table(5000, true);
    hr_error err = HR_ERROR_INIT;
    hr_spill_file *s = NULL, *second = NULL;
    hr_spilled_table p, q;

    (void)unused;
    setenv("HEADRACE_SPILL_QUOTA", "lots", 1);
    assert_status(hr__spill_file_new(test_dir, "sort", NULL, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "HEADRACE_SPILL_QUOTA");
    setenv("HEADRACE_SPILL_QUOTA", "300kB", 1);
    assert_ok(hr__spill_file_new(test_dir, "sort", NULL, &s, &err), &err);
    assert_ok(hr__spill_file_new(test_dir, "join", NULL, &second, &err), &err);
    assert_ok(hr__spill_file_write(s, t, &p, &err), &err);
    assert_status(hr__spill_file_write(second, t, &q, &err), HR_DISK_FULL, &err); /* one quota for both */
    assert_contains(err.text, "join: spill folder");
    assert_contains(err.text, test_dir);
    assert_contains(err.text, "300000 bytes");
    assert_contains(err.text, "HEADRACE_SPILL_QUOTA");
    assert_int_equal(hr__spill_file_counts(second).live_bytes, 0);
    hr__spill_file_forget(s, &p);
    assert_ok(hr__spill_file_write(second, t, &q, &err), &err);
    unsetenv("HEADRACE_SPILL_QUOTA");
    hr__spill_file_unref(s);
    hr__spill_file_unref(second);
    assert_int_equal(hr_spill_used(), 0);
    hr_error_clear(&err);
    hr_table_unref(t);
}

static void test_folders(void **unused)
{
    hr_table *t = large_table(10, true);
    hr_error err = HR_ERROR_INIT;
    hr_spill_file *s = NULL;
    hr_spilled_table p;

    (void)unused;
    assert_ok(hr__spill_file_new("/no/such/folder", "sort", NULL, &s, &err), &err);
    assert_int_not_equal(hr__spill_file_write(s, t, &p, &err), HR_OK);
    assert_contains(err.text, "/no/such/folder");
    hr__spill_file_unref(s);
    setenv("HEADRACE_SPILL_DIR", "/no/such/folder either", 1);
    assert_ok(hr__spill_file_new(NULL, "sort", NULL, &s, &err), &err);
    assert_int_not_equal(hr__spill_file_write(s, t, &p, &err), HR_OK);
    assert_contains(err.text, "/no/such/folder either");
    hr__spill_file_unref(s);
    setenv("HEADRACE_SPILL_DIR", test_dir, 1);
    assert_ok(hr__spill_file_new(NULL, "sort", NULL, &s, &err), &err);
    assert_ok(hr__spill_file_write(s, t, &p, &err), &err);
    assert_true(spill_descriptor() >= 0);
    hr__spill_file_unref(s);
    unsetenv("HEADRACE_SPILL_DIR");
    hr_error_clear(&err);
    hr_table_unref(t);
}

/* A process that is killed leaves nothing. */
static void test_killed(void **unused)
{
    int ready[2], status;
    char byte;
    pid_t child;

    (void)unused;
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    if ((child = fork()) == 0) {
        hr_table *t = large_table(10, true);
        hr_spilled_table p;
        hr_spill_file *s = store();

        if (hr__spill_file_write(s, t, &p, NULL) == HR_OK && write(ready[1], "x", 1) == 1)
            for (;;)
                pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(files_in(test_dir), 0);
    close(ready[0]);
    close(ready[1]);
}

typedef struct shared {
    hr_spill_file *spill;
    hr_table *table;
} shared;

static void use_store(void *arg, int thread)
{
    shared *x = arg;
    hr_mem mem = { 0 };

    for (int i = 0; i < 20; i++) {
        hr_table *part = NULL, *out = NULL;
        hr_spilled_table p;

        if (hr_table_slice(x->table, 50 * thread + i, 200, &part, NULL) ||
            hr__spill_file_write(x->spill, part, &p, NULL) ||
            hr__spill_file_read(x->spill, &p, &mem, part->schema, &out, NULL) ||
            !hr__array_equal(part->columns[0], out->columns[0]) || !hr__array_equal(part->columns[1], out->columns[1]))
            abort();
        if (i % 2)
            hr__spill_file_forget(x->spill, &p);
        hr_table_unref(part);
        hr_table_unref(out);
    }
}

static void test_threads(void **unused)
{
    shared x = { store(), large_table(1000, false) };

    (void)unused;
    run_threads(4, use_store, &x);
    hr__spill_file_unref(x.spill);
    hr_table_unref(x.table);
    assert_int_equal(hr_spill_used(), 0);
}

static hr_status there_and_back(void *context, hr_error *err)
{
    hr_table *in = context, *out = NULL;
    hr_status st = HR_OK;
    hr_spill_file *s = NULL;
    hr_spilled_table p;
    hr_mem mem = { 0 };

    HR_GO(hr__spill_file_new(test_dir, "test", NULL, &s, err));
    HR_GO(hr__spill_file_write(s, in, &p, err));
    HR_GO(hr__spill_file_read(s, &p, &mem, in->schema, &out, err));
    check_same(in, out);
done:
    hr_table_unref(out);
    hr__spill_file_unref(s);
    if (hr_spill_used())
        fail_msg("%lld bytes are still counted", (long long)hr_spill_used());
    return st;
}

static void test_faults(void **unused)
{
    hr_type *types[] = { type_named("list<item: int32>"), hr__type_simple(HR_T_BOOL), hr__type_simple(HR_T_STRING) };
    uint64_t random = 8;
    hr_table *t = random_table(&random, types, 3, 900);

    (void)unused;
    run_with_faults_on(there_and_back, t, HR_FAULT_MEMORY | HR_FAULT_IO);
    hr_table_unref(t);
    hr__type_unref(types[0]);
}

/* How many times the process has read from a file; -1: the system does not say. */
static int64_t n_reads(void)
{
    FILE *f = fopen("/proc/self/io", "r");
    long long n = -1;
    char line[100];

    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "syscr: %lld", &n) == 1)
            break;
    if (f)
        (void)fclose(f);
    return n;
}

/* The size of the memory was looked up, in some ten files, for every chunk after the first 16 MiB. */
static void test_memory_is_looked_up_seldom(void **unused)
{
    enum { CHUNKS = 80, ROWS = 1 << 16 };
    hr_type *type = hr__type_simple(HR_T_INT64);
    hr_spilled_table places[CHUNKS];
    hr_error err = HR_ERROR_INIT;
    hr_spill_file *s = store();
    uint64_t random = 5;
    hr_table *t = random_table(&random, &type, 1, ROWS);
    int64_t reads = n_reads();

    (void)unused;
    if (reads < 0)
        skip();
    for (int i = 0; i < CHUNKS; i++)
        assert_ok(hr__spill_file_write(s, t, &places[i], &err), &err);
    assert_true(hr__spill_file_counts(s).written_bytes > 32 << 20);
    assert_in_range(n_reads() - reads, 0, CHUNKS);
    hr_table_unref(t);
    hr__spill_file_unref(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),   cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_damage),  cmocka_unit_test(test_quota),
        cmocka_unit_test(test_folders), cmocka_unit_test(test_killed),
        cmocka_unit_test(test_threads), cmocka_unit_test(test_memory_is_looked_up_seldom),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, test_dir_new, test_dir_free);
}
