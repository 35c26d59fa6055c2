/* test_write.c - rows into files: the same files whatever the number of threads, and all of them or none. */
#include "harness.h"

#include "exec/exec.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- a format of our own: one number a line, a head, and a foot with the count */

static hr_status digits_encode(const hr_writer *w, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                               hr_error *err)
{
    const int64_t *v = (const int64_t *)(const void *)hr__array_values(t->columns[0]);
    char line[32];
    hr_growbuf g = { .mem = mem };
    hr_status st = HR_OK;

    (void)w;
    for (int64_t i = 0; i < t->n_rows; i++)
        HR_GO(hr__growbuf_add(&g, line, snprintf(line, sizeof line, "%lld\n", (long long)v[i]), err));
    HR_GO(hr__growbuf_finish(&g, &out->bytes, err));
    out->n_rows = t->n_rows;
done:
    hr__growbuf_clear(&g);
    return st;
}

static hr_status digits_begin(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    (void)w;
    *(int64_t *)file = 0;
    return hr__sink_write(sink, "[\n", 2, err);
}

static hr_status digits_add(const hr_writer *w, void *file, hr_sink *sink, hr_encoded_chunk *p, hr_error *err)
{
    (void)w;
    *(int64_t *)file += p->n_rows;
    return hr__sink_write(sink, p->bytes->data, p->bytes->n_bytes, err);
}

static hr_status digits_finish(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    char foot[40];

    (void)w;
    return hr__sink_write(sink, foot, snprintf(foot, sizeof foot, "]%lld\n", (long long)*(int64_t *)file), err);
}

static void digits_free(hr_writer *w) { hr__free(w); }

static const hr_writer_class digits_class = {
    sizeof(int64_t), digits_encode, digits_begin, digits_add, digits_finish, NULL, digits_free,
};

static int64_t chunk_rows = 100;
static bool each_row;

static hr_status digits_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                               hr_error *err)
{
    hr_writer *w = hr__zalloc(account, sizeof *w);

    (void)options;
    if (!w)
        return hr__error_memory(err, "digits", sizeof *w);
    *w = (hr_writer){ &digits_class, ".digits", chunk_rows, 0, 0, each_row };
    if (schema->n < 1 || schema->fields[0].type->id != HR_T_INT64) {
        hr__free(w);
        return hr_error_set(err, HR_TYPE, "digits: no int64 column");
    }
    *out = w;
    return HR_OK;
}

static const hr_format digits = { .name = "digits", .suffixes = "digits", .create = digits_create };

/* --- running */

static char dir[64];

static int setup(void **unused)
{
    (void)unused;
    temp_dir_new(dir);
    chunk_rows = 100;
    each_row = false;
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    temp_dir_free(dir);
    return 0;
}

static hr_status run(hr_plan *in, const char *path, const hr_write_options *options, int threads, int64_t *n_files,
                     int64_t *n_rows, hr_error *err)
{
    hr_feed_options how = { .struct_bytes = sizeof how, .num_threads = threads };
    hr_op *ops[3] = { NULL };
    hr_schema *schema = NULL;
    hr_plan *p = hr_plan_ref(in);
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *n_files = *n_rows = 0;
    HR_GO(hr__plan_schema_early(in, &schema, err));
    HR_GO(hr__op_write(schema, &digits, path, options, ops, err));
    for (int i = 0; i < 3; i++) {
        hr_plan *next = NULL;

        st = hr__plan_op(p, ops[i], &next, err);
        ops[i] = NULL;
        if (st)
            goto done;
        hr_plan_unref(p);
        p = next;
    }
    HR_GO(hr_feed_open(p, &how, &f, err));
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        *n_files += t->n_rows;
        for (int64_t i = 0; i < t->n_rows; i++)
            *n_rows += ((const int64_t *)(const void *)hr__array_values(t->columns[1]))[i];
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr_table_unref(t);
    hr_feed_close(f);
    hr_plan_unref(p);
    for (int i = 0; i < 3; i++)
        hr__op_unref(ops[i]);
    hr__schema_unref(schema);
    return st;
}

/* Names and contents of all files below a folder, hidden ones as well, as one hash; *n: how many. */
static uint64_t digest(const char *path, int *n)
{
    char **names = NULL;
    int n_names = hr__dir_list(path, &names);
    hr_hash h;

    hr__hash_init(&h, 1);
    for (int i = 0; i < n_names; i++) {
        char below[300], *data;
        hr_stat info;
        int fd;

        snprintf(below, sizeof below, "%s/%s", path, names[i]);
        assert_int_equal(hr__file_stat(below, &info), 0);
        hr__hash_text(&h, names[i]);
        if (info.is_dir) {
            hr__hash_int(&h, (int64_t)digest(below, n));
            continue;
        }
        ++*n;
        data = malloc((size_t)info.n_bytes + 1);
        fd = hr__file_open(below);
        assert_int_equal(hr__file_read_at(fd, data, info.n_bytes, 0), info.n_bytes);
        hr__file_close(fd);
        hr__hash_add(&h, data, (size_t)info.n_bytes);
        free(data);
    }
    hr__dir_list_free(names, n_names);
    return hr__hash_end(&h).lo;
}

/* Without the library's own calls: faults are for the code under test. */
static int count_files(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;

    if (!d)
        return 1;
    for (struct dirent *e; (e = readdir(d));) {
        char below[400];

        snprintf(below, sizeof below, "%s/%s", path, e->d_name);
        if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
            n += count_files(below);
    }
    closedir(d);
    return n;
}

static char *at(const char *name)
{
    static char path[200];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static hr_plan *numbers(int64_t n)
{
    hr_plan *p = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr_plan_range(n, "x", &p, &err), &err);
    return p;
}

static hr_status parity(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    const int64_t *x = (const int64_t *)(const void *)hr__array_values(in->columns[0]);
    hr_mem mem = { 0 };
    hr_builder *b = NULL;
    hr_field fields[2] = { in->schema->fields[0], { .name = (char *)"k", .type = hr__type_simple(HR_T_STRING) } };
    hr_array *columns[2] = { NULL };
    hr_schema *schema = NULL;
    hr_status st = HR_OK;
    char text[20];

    (void)context;
    (void)state;
    HR_GO(hr__builder_new(&mem, hr__type_simple(HR_T_STRING), &b, err));
    for (int64_t i = 0; i < in->n_rows; i++)
        if (x[i] % 5 == 4)
            HR_GO(hr__builder_null(b, err));
        else
            HR_GO(hr__builder_bytes(b, text, snprintf(text, sizeof text, "k/%d", (int)(x[i] % 5)), err));
    HR_GO(hr__schema_new(fields, 2, &schema, err));
    HR_GO(hr__builder_finish(b, &columns[1], err));
    columns[0] = hr__array_ref(in->columns[0]);
    st = hr__table_new(schema, columns, in->n_rows, in->origin, out, err);
    columns[0] = columns[1] = NULL;
done:
    hr__array_unref(columns[1]);
    hr__schema_unref(schema);
    hr__builder_free(b);
    return st;
}

/* Rows with a column k: "k/0" .. "k/3" and null. */
static hr_plan *with_keys(int64_t n)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "parity", .call = parity };
    hr_plan *p = numbers(n), *q = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    hr_plan_unref(p);
    return q;
}

static void test_same_for_any_threads(void **unused)
{
    static const char *const keys[] = { "k" };
    static const int threads[] = { 1, 2, 8 };
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    for (int partitioned = 0; partitioned < 2; partitioned++) {
        hr_plan *p = partitioned ? with_keys(20011) : numbers(200011);
        uint64_t first = 0;

        for (int i = 0; i < HR_LEN(threads); i++) {
            hr_write_options o = { .struct_bytes = sizeof o, .job = "job", .max_rows_per_file = 3050 };
            int64_t n_files, n_rows;
            char name[20];
            uint64_t d;
            int n = 0;

            if (partitioned) {
                o.partition_columns = keys;
                o.n_partition_columns = 1;
            }
            snprintf(name, sizeof name, "%d-%d", partitioned, i);
            assert_ok(run(p, at(name), &o, threads[i], &n_files, &n_rows, &err), &err);
            assert_int_equal(n_rows, partitioned ? 20011 : 200011);
            d = digest(at(name), &n);
            assert_int_equal(n, n_files);
            assert_int_equal(n_files, partitioned ? 10 : 66);
            first = i ? first : d;
            assert_true(d == first);
        }
        if (partitioned) {
            assert_int_equal(access(at("1-0/k=k%2F3"), F_OK), 0);
            assert_int_equal(access(at("1-0/k=__HIVE_DEFAULT_PARTITION__"), F_OK), 0);
        }
        hr_plan_unref(p);
    }
}

static void check_file(const char *path, const char *want)
{
    char got[200] = { 0 };
    int fd = hr__file_open(path);

    assert_true(fd >= 0);
    assert_true(hr__file_read_at(fd, got, sizeof got - 1, 0) >= 0);
    hr__file_close(fd);
    assert_string_equal(got, want);
}

static void test_contents(void **unused)
{
    hr_write_options o = { .struct_bytes = sizeof o, .job = "j", .max_rows_per_file = 3 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = numbers(7), *none = numbers(0);
    int64_t n_files, n_rows;

    (void)unused;
    assert_ok(run(p, at("a"), &o, 0, &n_files, &n_rows, &err), &err);
    assert_int_equal(n_files, 3);
    check_file(at("a/j_000000_000000.digits"), "[\n0\n1\n2\n]3\n");
    check_file(at("a/j_000001_000000.digits"), "[\n3\n4\n5\n]3\n");
    check_file(at("a/j_000002_000000.digits"), "[\n6\n]1\n");
    o = (hr_write_options){ .struct_bytes = sizeof o, .single_file = true };
    assert_ok(run(p, at("one.digits"), &o, 0, &n_files, &n_rows, &err), &err);
    check_file(at("one.digits"), "[\n0\n1\n2\n3\n4\n5\n6\n]7\n");
    assert_status(run(p, at("one.digits"), &o, 0, &n_files, &n_rows, &err), HR_IO, &err);
    assert_ok(run(none, at("none.digits"), &o, 0, &n_files, &n_rows, &err), &err);
    check_file(at("none.digits"), "[\n]0\n");
    o.mode = HR_WRITE_OVERWRITE;
    assert_ok(run(none, at("one.digits"), &o, 0, &n_files, &n_rows, &err), &err);
    check_file(at("one.digits"), "[\n]0\n");
    o = (hr_write_options){ .struct_bytes = sizeof o, .max_file_bytes = 1, .min_rows_per_file = 5, .job = "j" };
    chunk_rows = 2;
    assert_ok(run(p, at("b"), &o, 0, &n_files, &n_rows, &err), &err);
    assert_int_equal(n_files, 2); /* 6 rows: the first piece border at which there are 5 */
    check_file(at("b/j_000001_000000.digits"), "[\n6\n]1\n");
    each_row = true;
    assert_ok(run(p, at("c"), &o, 0, &n_files, &n_rows, &err), &err);
    assert_int_equal(n_files, 7);
    check_file(at("c/j_000000004.digits"), "[\n4\n]1\n");
    hr_plan_unref(p);
    hr_plan_unref(none);
}

static void test_modes(void **unused)
{
    hr_write_options o = { .struct_bytes = sizeof o, .max_rows_per_file = 10 };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = numbers(100), *few = numbers(15);
    int64_t n_files, n_rows;

    (void)unused;
    assert_ok(run(p, at("d"), &o, 0, &n_files, &n_rows, &err), &err);
    assert_ok(run(p, at("d"), &o, 0, &n_files, &n_rows, &err), &err); /* names that nobody has */
    assert_int_equal(count_files(at("d")), 20);
    temp_file(at("d"), "README", "x", 1);
    temp_file(at("d"), "old.parquet", "x", 1);
    o.mode = HR_WRITE_OVERWRITE;
    assert_ok(run(few, at("d"), &o, 0, &n_files, &n_rows, &err), &err);
    assert_int_equal(access(at("d/README"), F_OK), 0);
    assert_int_equal(access(at("d/old.parquet"), F_OK), -1);
    hr_plan_unref(p);
    hr_plan_unref(few);
}

static hr_status fails_late(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    if (((const int64_t *)(const void *)hr__array_values(in->columns[0]))[0] > 50000)
        return hr_error_set(err, HR_CALLBACK, "no more");
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void test_failure_leaves_nothing(void **unused)
{
    hr_write_options o = { .struct_bytes = sizeof o, .max_rows_per_file = 1000, .mode = HR_WRITE_OVERWRITE };
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "fails", .call = fails_late };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = numbers(100000), *q = NULL;
    int64_t n_files, n_rows;

    (void)unused;
    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    assert_status(run(q, at("e/f"), &o, 0, &n_files, &n_rows, &err), HR_CALLBACK, &err);
    assert_int_equal(access(at("e"), F_OK), -1);
    temp_file(dir, "e/f/old.parquet", "x", 1);
    assert_status(run(q, at("e/f"), &o, 0, &n_files, &n_rows, &err), HR_CALLBACK, &err);
    assert_int_equal(count_files(at("e")), 1);
    hr_plan_unref(p);
    hr_plan_unref(q);
}

static hr_status one_write(void *context, hr_error *err)
{
    hr_write_options o = { .struct_bytes = sizeof o, .max_rows_per_file = 40, .job = "j" };
    int64_t n_files, n_rows;
    hr_status st = run(context, at("g/h"), &o, 1, &n_files, &n_rows, err);

    if (st && access(at("g"), F_OK) != 0)
        return st;
    assert_int_equal(count_files(at("g/h")), 3); /* all, also where only the report of success could not be delivered */
    temp_dir_free(at("g"));
    return st;
}

static void test_faults(void **unused)
{
    hr_plan *p = numbers(100);

    (void)unused;
    run_with_faults_on(one_write, p, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    hr_plan_unref(p);
}

static hr_status kills(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    (void)err;
    if (((const int64_t *)(const void *)hr__array_values(in->columns[0]))[0] > 50000)
        kill(getpid(), SIGKILL);
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void test_kill_leaves_no_file(void **unused)
{
    hr_write_options o = { .struct_bytes = sizeof o, .max_rows_per_file = 1000 };
    int64_t n_files, n_rows;
    int status;
    pid_t pid;

    (void)unused;
    if (SANITIZED)
        skip(); /* threads in a forked child are not for them */
    pid = fork();
    if (pid == 0) {
        hr_map_function fn = { .struct_bytes = sizeof fn, .name = "kills", .call = kills };
        hr_plan *p = numbers(100000), *q = NULL;
        hr_error err = HR_ERROR_INIT;

        if (!hr_plan_map(p, &fn, NULL, &q, &err))
            (void)run(q, at("k"), &o, 0, &n_files, &n_rows, &err);
        _exit(1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(count_files(dir), 0);
}

static void test_refusals(void **unused)
{
    static const char *const absent[] = { "absent" }, *const x[] = { "x" };
    static const struct {
        hr_write_options o;
        const char *text;
    } cases[] = {
        { { .max_rows_per_file = 1, .min_rows_per_file = 2 }, "expected 0 <= min <= max" },
        { { .partition_columns = absent, .n_partition_columns = 1 }, "absent" },
        { { .partition_columns = x, .n_partition_columns = 1 }, "none is left to write" },
        { { .name_column = "x" }, "not of a string type" },
        { { .job = "a/b" }, "cannot be the prefix" },
        { { .single_file = true, .max_rows_per_file = 2 }, "single file" },
    };
    const hr_write_options one = { .struct_bytes = sizeof one, .single_file = true };
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = numbers(5), *q = NULL;
    int64_t n_files, n_rows;

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        assert_status(run(p, at("r"), &cases[i].o, 0, &n_files, &n_rows, &err), HR_INVALID + (i == 3), &err);
        assert_contains(err.text, cases[i].text);
    }
    assert_status(run(p, "", &one, 0, &n_files, &n_rows, &err), HR_INVALID, &err);
    assert_contains(err.text, "the path is empty");
    assert_status(run(p, at("r/"), &one, 0, &n_files, &n_rows, &err), HR_INVALID, &err);
    assert_contains(err.text, "found the name of a folder");
    assert_status(hr_plan_write(p, "text", at("r"), NULL, &q, &err), HR_UNSUPPORTED, &err);
    assert_status(hr_plan_write(p, "nonesuch", at("r"), NULL, &q, &err), HR_INVALID, &err);
    assert_status(hr_plan_write(p, NULL, at("r.xyz"), NULL, &q, &err), HR_INVALID, &err);
    assert_int_equal(count_files(dir), 0);
    hr_plan_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kill_leaves_no_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_same_for_any_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_contents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_failure_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
