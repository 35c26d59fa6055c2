/* test_scan.c - scans: files with their paths, schemas that must agree, tables, ranges, streams. */
#include "arrays.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>

static char dir[64];

static const char *data_path(const char *name)
{
    static char paths[4][1000];
    static int next;
    const char *folder = getenv("HEADRACE_TEST_DATA");

    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[0], "%s/parquet/%s", folder ? folder : "tests/data", name);
    return paths[next];
}

static int setup(void **state)
{
    (void)state;
    temp_dir_new(dir);
    temp_file(dir, "in/a.txt", "one\ntwo\n", 8);
    temp_file(dir, "in/b.txt", "three\n", 6);
    temp_file(dir, "in/_c.txt", "hidden\n", 7);
    temp_file(dir, "in/d.bin", "no format\n", 10);
    temp_file(dir, "hive/day=3/k=a/f.txt", "one\ntwo\n", 8);
    temp_file(dir, "hive/day=4/f.txt", "three\n", 6);
    temp_file(dir, "parquet.bin", "PAR1....", 8);
    temp_file(dir, "bytes.bin", "bytes", 5);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    temp_dir_free(dir);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* All rows of a scan, or of its projection; max_bytes for each table. */
static hr_status read_scan(hr_scan *s, const hr_projection *projection, int64_t max_bytes, hr_table **out,
                           hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_table *tables[200] = { NULL };
    int n = 0;
    hr_status st = HR_OK;

    *out = NULL;
    for (int i = 0; i < hr__scan_n_files(s); i++) {
        hr__scan_file_unref(f);
        f = NULL;
        HR_GO(hr__scan_open(s, i, &(hr_open){ .projection = projection }, &f, err));
        assert_int_equal(f->file, i);
        for (int k = 0; k < f->n_fragments; k++) {
            hr__reader_close(r);
            r = NULL;
            HR_GO(f->cls->read(f, k, 0, -1, &mem, &r, err));
            while (true) {
                assert_true(n < HR_LEN(tables));
                HR_GO(hr__reader_next(r, max_bytes, &tables[n], err));
                if (!tables[n])
                    break;
                assert_int_equal(hr__origin_at(tables[n]->origin, 0).file, i);
                assert_int_equal(hr__origin_at(tables[n]->origin, 0).fragment, k);
                n++;
            }
        }
    }
    HR_GO(hr__table_concat(&mem, f->schema, tables, n, out, err));
done:
    hr__reader_close(r);
    hr__scan_file_unref(f);
    for (int i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    return st;
}

static hr_scan *scan_files(const char *a, const char *b, const char *format, const hr_read_options *options)
{
    const char *urls[] = { a, b };
    hr_error err = HR_ERROR_INIT;
    hr_scan *s = NULL;

    assert_ok(hr__scan_new_files(urls, b ? 2 : 1, format, options, NULL, &s, &err), &err);
    return s;
}

static const char *in_dir(const char *name)
{
    static char paths[4][200];
    static int next;

    next = (next + 1) % 4;
    snprintf(paths[next], sizeof paths[0], "%s/%s", dir, name);
    return paths[next];
}

/* ------------------------------------------------------------------------------------------------------------ files */

static void test_text_files(void **state)
{
    const char *suffixes[] = { ".txt" };
    hr_read_options options = {
        .struct_bytes = sizeof options, .suffixes = suffixes, .n_suffixes = 1, .include_paths = "path"
    };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_scan *s = scan_files(in_dir("in"), NULL, NULL, &options);
    const char *wanted[] = { "path", "text" };
    hr_projection projection = { 2, wanted }, only_path = { 1, wanted };
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    int64_t n;
    char want[400];

    (void)state;
    assert_int_equal(hr__scan_n_files(s), 2);
    assert_string_equal(hr__scan_file_name(s, 1), in_dir("in/b.txt"));
    assert_ok(hr__scan_schema(s, &schema, &err), &err);
    assert_int_equal(schema->n, 2);
    assert_string_equal(schema->fields[1].name, "path");
    hr__schema_unref(schema);
    assert_ok(read_scan(s, NULL, 1 << 20, &t, &err), &err);
    assert_string_equal(values_text(t->columns[0]), "one two three");
    hr_table_unref(t);
    assert_ok(read_scan(s, &projection, 1, &t, &err), &err);
    snprintf(want, sizeof want, "%s %s %s", in_dir("in/a.txt"), in_dir("in/a.txt"), in_dir("in/b.txt"));
    assert_string_equal(values_text(t->columns[0]), want);
    assert_string_equal(values_text(t->columns[1]), "one two three");
    hr_table_unref(t);
    assert_ok(read_scan(s, &only_path, 1 << 20, &t, &err), &err);
    assert_int_equal(t->schema->n, 1);
    assert_string_equal(values_text(t->columns[0]), want);
    hr_table_unref(t);
    assert_ok(hr__scan_count(s, &n, &err), &err);
    assert_int_equal(n, -1);
    hr__scan_unref(s);
    assert_no_leak(before);
}

static void test_parquet_files(void **state)
{
    hr_read_options options = { .struct_bytes = sizeof options, .include_paths = "from" };
    hr_error err = HR_ERROR_INIT;
    hr_scan *s = scan_files(data_path("flat_plain.parquet"), data_path("flat_groups.parquet"), NULL, &options);
    const char *wanted[] = { "from", "id" };
    hr_projection projection = { 2, wanted };
    hr_text text = { 0 };
    hr_table *t = NULL;
    int64_t n;

    (void)state;
    assert_ok(hr__scan_count(s, &n, &err), &err);
    assert_int_equal(n, 300);
    assert_ok(read_scan(s, &projection, 600, &t, &err), &err);
    assert_int_equal(t->n_rows, 300);
    assert_string_equal((const char *)hr__array_bytes(t->columns[0], 299, &n) + n - 19, "flat_groups.parquet");
    assert_int_equal(((const int64_t *)(const void *)hr__array_values(t->columns[1]))[299], 149);
    hr_table_unref(t);
    hr__scan_describe(s, &text);
    assert_contains(text.data, "read_parquet [2 files, ");
    assert_contains(text.data, " kB] ");
    assert_true(hr__scan_floor_bytes(s) > 0);
    hr__text_clear(&text);
    hr__scan_unref(s);
}

static const struct {
    const char *a, *b, *column;
    hr_status st;
    const char *text;
} disagree[] = {
    { "flat_plain.parquet", "other_types.parquet", "id", HR_TYPE, "other_types.parquet: column 'id' is double, in " },
    { "flat_plain.parquet", "no_id.parquet", "id", HR_OK, "" }, /* null there */
    { "flat_plain.parquet", "no_id.parquet", "text", HR_OK, "" },
    { "no_id.parquet", "flat_plain.parquet", NULL, HR_OK, "" }, /* more columns are no harm */
    { "flat_plain.parquet", "no_id.parquet", NULL, HR_OK, "" },
    { "flat_plain.parquet", "int96.parquet", "nowhere", HR_INVALID, "nowhere" },
    { "flat_plain.parquet", "not there.parquet", "id", HR_NOT_FOUND, "not there.parquet" },
};

static void test_schemas(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(disagree); i++) {
        const char *urls[] = { data_path(disagree[i].a), data_path(disagree[i].b) };
        hr_projection projection = { 1, &disagree[i].column };
        hr_error err = HR_ERROR_INIT;
        hr_scan *s = NULL;
        hr_table *t = NULL;
        hr_status st = hr__scan_new_files(urls, 2, "parquet", NULL, NULL, &s, &err);

        if (!st)
            st = read_scan(s, disagree[i].column ? &projection : NULL, 1 << 20, &t, &err);
        assert_status(st, disagree[i].st, &err);
        assert_contains(err.text, disagree[i].text);
        hr_table_unref(t);
        hr__scan_unref(s);
        hr_error_clear(&err);
    }
    assert_no_leak(before);
}

static void test_wrong(void **state)
{
    static const char *const bad_settings[] = { "nonsense=1" };
    hr_read_options bad = { .struct_bytes = sizeof bad, .format_options = bad_settings, .n_format_options = 1 };
    hr_read_options taken = { .struct_bytes = sizeof taken, .include_paths = "id" };
    const char *url = in_dir("in/a.txt"), *bytes = in_dir("bytes.bin"), *flat = data_path("flat_plain.parquet");
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_scan *s = NULL;

    (void)state;
    assert_status(hr__scan_new_files(&url, 1, "nonsense", NULL, NULL, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "format 'nonsense' is unknown; formats are parquet, ");
    assert_contains(err.text, ", text, ");
    assert_status(hr__scan_new_files(&url, 1, "text", &bad, NULL, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "nonsense");
    assert_status(hr__scan_new_files(&flat, 1, "parquet", &bad, NULL, &s, &err), HR_INVALID, &err);
    assert_status(hr__scan_new_files(&bytes, 1, NULL, NULL, NULL, &s, &err), HR_INVALID, &err);
    assert_contains(err.text, "bytes.bin: neither the name nor the first bytes");
    assert_status(hr__scan_new_files(&bytes, 0, NULL, NULL, NULL, &s, &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "no path given");
    assert_null(s);
    s = scan_files(in_dir("parquet.bin"), NULL, NULL, NULL); /* by its first bytes */
    assert_status(hr__scan_schema(s, &schema, &err), HR_BAD_DATA, &err);
    hr__scan_unref(s);
    s = scan_files(flat, NULL, NULL, &taken);
    assert_status(hr__scan_schema(s, &schema, &err), HR_INVALID, &err);
    assert_contains(err.text, "a column 'id' of its own: include_paths needs another name");
    hr__scan_unref(s);
    hr_error_clear(&err);
}

static hr_bits128 fingerprint(hr_scan *s)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__scan_fingerprint(s, &h);
    hr__scan_unref(s);
    return hr__hash_end(&h);
}

/* Which files there are is compared on its own: exec/inputs.c. */
static bool same(hr_bits128 a, hr_bits128 b) { return a.lo == b.lo && a.hi == b.hi; }

static void test_fingerprints(void **state)
{
    hr_read_options with = { .struct_bytes = sizeof with, .include_paths = "path" };
    const char *a = in_dir("in/a.txt"), *b = in_dir("in/b.txt");
    hr_bits128 one = fingerprint(scan_files(a, b, "text", NULL));

    (void)state;
    assert_true(same(one, fingerprint(scan_files(a, b, NULL, NULL))));
    assert_true(same(one, fingerprint(scan_files(b, a, NULL, NULL))));
    assert_false(same(one, fingerprint(scan_files(a, b, "parquet", NULL))));
    assert_false(same(one, fingerprint(scan_files(a, b, NULL, &with))));
}

/* Many threads ask an unopened scan at once. */
static void ask(void *arg, int thread)
{
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_table *t = NULL;
    hr_scan *s = arg;

    if (thread % 2)
        assert_ok(hr__scan_schema(s, &schema, &err), &err);
    assert_ok(read_scan(s, NULL, 1 << 20, &t, &err), &err);
    assert_int_equal(t->n_rows, 150);
    hr__schema_unref(schema);
    hr_table_unref(t);
}

static void test_threads(void **state)
{
    hr_scan *s = scan_files(data_path("flat_dict.parquet"), NULL, NULL, NULL);

    (void)state;
    run_threads(4, ask, s);
    hr__scan_unref(s);
}

static hr_status files_with_faults(void *context, hr_error *err)
{
    hr_read_options options = { .struct_bytes = sizeof options, .include_paths = "path" };
    hr_scan *s = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__scan_new_files(context, 2, NULL, &options, NULL, &s, err));
    HR_GO(read_scan(s, NULL, 1 << 20, &t, err));
done:
    hr_table_unref(t);
    hr__scan_unref(s);
    return st;
}

static void test_faults(void **state)
{
    const char *urls[] = { data_path("no_id.parquet"), data_path("other_types.parquet") };
    const char *texts[] = { in_dir("in/a.txt"), in_dir("in/b.txt") };

    (void)state;
    run_with_faults_on(files_with_faults, urls, HR_FAULT_MEMORY | HR_FAULT_IO);
    run_with_faults_on(files_with_faults, texts, HR_FAULT_MEMORY | HR_FAULT_IO);
}

/* ------------------------------------------------------------------------------------------- many files, one schema */

static void schema_of(hr_schema *s, struct ArrowSchema *out) { assert_ok(hr__schema_export(s, out, NULL), NULL); }

/* Text files whose folders have keys: columns of one value, in any order, cut small; nothing but them; rows know their
 * file. */
static void test_file_columns(void **state)
{
    static const char *const want[] = { "path", "k", "text", "day" };
    hr_read_options options = { .struct_bytes = sizeof options, .include_paths = "path", .partitioning = "hive" };
    live_memory before = live_now();
    hr_projection projection = { 4, want }, one = { 1, &want[3] };
    hr_scan *s;
    hr_table *t = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    s = scan_files(in_dir("hive/day=3/k=a/f.txt"), in_dir("hive/day=4/f.txt"), "text", &options);
    for (int64_t max_bytes = 1; max_bytes < 1 << 20; max_bytes *= 1000) {
        assert_ok(read_scan(s, &projection, max_bytes, &t, &err), &err);
        assert_string_equal(values_text(t->columns[1]), "a a null");
        assert_string_equal(values_text(t->columns[2]), "one two three");
        assert_string_equal(values_text(t->columns[3]), "3 3 4");
        assert_int_equal(hr__origin_at(t->origin, 2).file, 1);
        hr_table_unref(t);
        assert_ok(read_scan(s, &one, max_bytes, &t, &err), &err);
        assert_string_equal(values_text(t->columns[0]), "3 3 4");
        hr_table_unref(t);
    }
    hr__scan_unref(s);
    assert_no_leak(before);
}

/* `id` is int64 in one file, double in another and not there in a third. */
static void test_unified(void **state)
{
    const char *urls[] = { data_path("flat_plain.parquet"), data_path("other_types.parquet"),
                           data_path("no_id.parquet") };
    hr_read_options options = { .struct_bytes = sizeof options, .unify = true };
    const char *id = "id";
    hr_projection projection = { 1, &id };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_scan *s = NULL;
    hr_table *t = NULL;

    (void)state;
    assert_ok(hr__scan_new_files(urls, 3, "parquet", &options, NULL, &s, &err), &err);
    if (!hr__scan_schema(s, &schema, &err)) {
        assert_string_equal(type_text(schema->fields[hr__schema_find(schema, "id")].type), "double");
        hr__schema_unref(schema);
        assert_ok(read_scan(s, &projection, 4096, &t, &err), &err);
        assert_true(hr__array_null_count(t->columns[0]) > 0);
        assert_string_equal(type_text(t->columns[0]->type), "double");
        hr_table_unref(t);
    } else { /* another column has no common type */
        assert_status(err.status, HR_TYPE, &err);
    }
    hr__scan_unref(s);
    hr_error_clear(&err);
    assert_no_leak(before);
}

static hr_schema *schema_named(const char *name, hr_type_id id)
{
    hr_field field = { 0 };
    hr_schema *out = NULL;

    assert_ok(hr__field_init(&field, name, hr__type_simple(id), true, NULL), NULL);
    assert_ok(hr__schema_new(&field, 1, &out, NULL), NULL);
    hr__field_clear(&field);
    return out;
}

static void test_given(void **state)
{
    const char *url = data_path("flat_plain.parquet");
    hr_schema *wide = schema_named("id", HR_T_FLOAT64), *narrow = schema_named("id", HR_T_INT8);
    struct ArrowSchema given = { 0 };
    hr_read_options options = { .struct_bytes = sizeof options, .schema = &given };
    hr_error err = HR_ERROR_INIT;
    hr_scan *s = NULL;
    hr_table *t = NULL;

    (void)state;
    schema_of(wide, &given);
    assert_ok(hr__scan_new_files(&url, 1, NULL, &options, NULL, &s, &err), &err);
    assert_ok(read_scan(s, NULL, 1 << 20, &t, &err), &err);
    assert_int_equal(t->schema->n, 1);
    assert_true(((const double *)(const void *)hr__array_values(t->columns[0]))[149] == 149);
    hr_table_unref(t);
    hr__scan_unref(s);
    schema_of(narrow, &given);
    assert_ok(hr__scan_new_files(&url, 1, NULL, &options, NULL, &s, &err), &err);
    assert_status(read_scan(s, NULL, 1 << 20, &t, &err), HR_TYPE, &err);
    assert_contains(err.text, "flat_plain.parquet: column 'id' is int64, in the schema it is int8");
    hr__scan_unref(s);
    schema_of(narrow, &given); /* taken also where the scan cannot be made */
    url = "/not there";
    assert_status(hr__scan_new_files(&url, 1, NULL, &options, NULL, &s, &err), HR_NOT_FOUND, &err);
    hr__schema_unref(wide);
    hr__schema_unref(narrow);
    hr_error_clear(&err);
}

static void test_orders(void **state)
{
    const char *urls[64];
    uint64_t seed = 5;
    hr_read_options options = { .struct_bytes = sizeof options, .shuffle_files = true };
    int32_t *a, *b;
    hr_scan *s = NULL;
    hr_error err = HR_ERROR_INIT;
    bool seen[64] = { false }, same = true, sorted = true;

    (void)state;
    for (int i = 0; i < HR_LEN(urls); i++)
        urls[i] = in_dir("in/a.txt");
    assert_ok(hr__scan_new_files(urls, 64, "text", &options, NULL, &s, &err), &err);
    assert_ok(hr__scan_order(s, 1, 2, &a, &err), &err);
    assert_ok(hr__scan_order(s, 1, 2, &b, &err), &err);
    assert_memory_equal(a, b, sizeof *a * 64);
    hr__free(b);
    assert_ok(hr__scan_order(s, 1, 3, &b, &err), &err);
    for (int i = 0; i < 64; i++) {
        assert_false(seen[a[i]]);
        seen[a[i]] = true;
        same = same && a[i] == b[i];
        sorted = sorted && a[i] == i;
    }
    assert_false(same || sorted);
    hr__free(a);
    hr__free(b);
    hr__scan_unref(s);
    options.shuffle_seed = &seed;
    options.shuffle_once = true;
    assert_ok(hr__scan_new_files(urls, 64, "text", &options, NULL, &s, &err), &err);
    assert_ok(hr__scan_order(s, 1, 2, &a, &err), &err);
    assert_ok(hr__scan_order(s, 9, 3, &b, &err), &err);
    assert_memory_equal(a, b, sizeof *a * 64);
    hr__free(a);
    hr__free(b);
    hr__scan_unref(s);
    s = scan_files(in_dir("in/a.txt"), NULL, "text", NULL);
    assert_ok(hr__scan_order(s, 1, 2, &a, &err), &err);
    assert_null(a);
    hr__scan_unref(s);
}

static hr_status add_columns_with_faults(void *context, hr_error *err)
{
    hr_read_options options = {
        .struct_bytes = sizeof options, .include_paths = "path", .partitioning = "hive", .unify = true
    };
    int32_t *order = NULL;
    hr_scan *s = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__scan_new_files(context, 2, NULL, &options, NULL, &s, err));
    HR_GO(read_scan(s, NULL, 1 << 20, &t, err));
    HR_GO(hr__scan_order(s, 0, 0, &order, err));
done:
    hr__free(order);
    hr_table_unref(t);
    hr__scan_unref(s);
    return st;
}

static void test_file_columns_with_faults(void **state)
{
    const char *texts[] = { in_dir("hive/day=3/k=a/f.txt"), in_dir("hive/day=4/f.txt") };
    const char *files[] = { data_path("flat_plain.parquet"), data_path("no_id.parquet") };

    (void)state;
    run_with_faults_on(add_columns_with_faults, texts, HR_FAULT_MEMORY | HR_FAULT_IO);
    /* that a column is missing is no error here, whether its text could be written or not */
    run_with_faults_on(add_columns_with_faults, files, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
}

/* More files than one thread is for: counted and unified by several, and the first broken one is named. */
static void test_crowd(void **state)
{
    hr_read_options options = { .struct_bytes = sizeof options, .unify = true };
    const char *urls[200];
    hr_error err = HR_ERROR_INIT;
    hr_schema *schema = NULL;
    hr_scan *s = NULL;
    int64_t n;

    (void)state;
    for (int i = 0; i < HR_LEN(urls); i++)
        urls[i] = data_path("flat_plain.parquet");
    assert_ok(hr_set_num_threads(4, &err), &err);
    assert_ok(hr__scan_new_files(urls, HR_LEN(urls), "parquet", &options, NULL, &s, &err), &err);
    assert_ok(hr__scan_count(s, &n, &err), &err);
    assert_int_equal(n, 200 * 150);
    assert_ok(hr__scan_schema(s, &schema, &err), &err);
    hr__schema_unref(schema);
    hr__scan_unref(s);
    urls[150] = in_dir("bytes.bin");
    urls[170] = in_dir("in/d.bin");
    assert_ok(hr__scan_new_files(urls, HR_LEN(urls), "parquet", &options, NULL, &s, &err), &err);
    assert_int_not_equal(hr__scan_count(s, &n, &err), HR_OK);
    assert_contains(err.text, "bytes.bin");
    hr_error_clear(&err);
    assert_int_not_equal(hr__scan_schema(s, &schema, &err), HR_OK);
    assert_contains(err.text, "bytes.bin");
    hr__scan_unref(s);
    hr_error_clear(&err);
    assert_ok(hr_set_num_threads(0, &err), &err);
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static hr_table *some_table(uint64_t *random, int64_t n)
{
    hr_type *types[] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), hr__type_simple(HR_T_BOOL) };

    return random_table(random, types, HR_LEN(types), n);
}

static void test_tables(void **state)
{
    static const char *const wanted[] = { "c2", "c0" };
    hr_projection projection = { 2, wanted };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 1;
    hr_table *tables[] = { some_table(&random, 10), some_table(&random, 0), some_table(&random, 33) }, *whole = NULL;
    hr_mem mem = { NULL, NULL };
    hr_table *t = NULL;
    hr_scan *s = NULL;
    hr_text text = { 0 };
    int64_t n;

    (void)state;
    assert_ok(hr__scan_new_tables(tables, 3, &s, &err), &err);
    assert_ok(hr__table_concat(&mem, tables[0]->schema, tables, 3, &whole, &err), &err);
    for (int64_t max_bytes = 1; max_bytes < 1 << 20; max_bytes *= 50) {
        assert_ok(read_scan(s, NULL, max_bytes, &t, &err), &err);
        for (int i = 0; i < 3; i++)
            assert_same_array(t->columns[i], whole->columns[i]);
        hr_table_unref(t);
        assert_ok(read_scan(s, &projection, max_bytes, &t, &err), &err);
        assert_same_array(t->columns[0], whole->columns[2]);
        assert_same_array(t->columns[1], whole->columns[0]);
        hr_table_unref(t);
    }
    assert_ok(hr__scan_count(s, &n, &err), &err);
    assert_int_equal(n, 43);
    hr__scan_describe(s, &text);
    assert_string_equal(text.data, "memory [3 tables, 43 rows]");
    hr__text_clear(&text);
    assert_string_equal(hr__scan_file_name(s, 0), "memory");
    hr__scan_unref(s);
    for (int i = 0; i < 3; i++)
        hr_table_unref(tables[i]);
    hr_table_unref(whole);
    assert_no_leak(before);
}

static void test_tables_disagree(void **state)
{
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 1;
    hr_type *other = hr__type_simple(HR_T_DATE32);
    hr_table *tables[] = { some_table(&random, 10), random_table(&random, &other, 1, 5) };
    hr_scan *s = NULL;

    (void)state;
    assert_status(hr__scan_new_tables(tables, 2, &s, &err), HR_TYPE, &err);
    assert_contains(err.text, "table 1: ");
    assert_status(hr__scan_new_tables(tables, 0, &s, &err), HR_INVALID, &err);
    assert_null(s);
    hr_table_unref(tables[0]);
    hr_table_unref(tables[1]);
}

static void test_range(void **state)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = (1 << 20) + 77;
    hr_mem mem = { NULL, NULL };
    hr_scan_file *f = NULL;
    hr_fragment info;
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_scan *s = NULL;

    (void)state;
    assert_ok(hr__scan_new_range(n, 0, "number", &s, &err), &err);
    assert_ok(read_scan(s, NULL, 100000, &t, &err), &err);
    assert_int_equal(t->n_rows, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(((const int64_t *)(const void *)hr__array_values(t->columns[0]))[i], i);
    hr_table_unref(t);
    assert_ok(hr__scan_open(s, 0, &(hr_open){ 0 }, &f, &err), &err);
    assert_int_equal(f->n_fragments, 2);
    assert_ok(f->cls->fragment(f, 1, &info, &err), &err);
    assert_int_equal(info.n_rows, 77);
    assert_ok(f->cls->read(f, 1, 70, 100, &mem, &r, &err), &err);
    assert_ok(hr__reader_next(r, 1 << 20, &t, &err), &err);
    assert_string_equal(values_text(t->columns[0]), "1048646 1048647 1048648 1048649 1048650 1048651 1048652");
    hr_table_unref(t);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__scan_unref(s);
    assert_ok(hr__scan_new_range(0, 0, "number", &s, &err), &err);
    assert_ok(read_scan(s, NULL, 1, &t, &err), &err);
    assert_int_equal(t->n_rows, 0);
    hr_table_unref(t);
    hr__scan_unref(s);
    assert_status(hr__scan_new_range(-1, 0, "number", &s, &err), HR_INVALID, &err);
}

/* A stream of tables, as a foreign library would give it. */
typedef struct feed {
    hr_table *tables[3];
    int n, at, fail_at;
    bool released;
} feed;

static int feed_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
    feed *f = stream->private_data;
    hr_error err = HR_ERROR_INIT;

    return hr__schema_export(f->tables[0]->schema, out, &err);
}

static int feed_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    feed *f = stream->private_data;
    hr_error err = HR_ERROR_INIT;

    memset(out, 0, sizeof *out);
    if (f->at == f->fail_at)
        return 5;
    return f->at < f->n ? (int)hr_table_export(f->tables[f->at++], NULL, out, &err) : 0;
}

static const char *feed_error(struct ArrowArrayStream *stream)
{
    (void)stream;
    return "the source ran dry";
}

static void feed_release(struct ArrowArrayStream *stream)
{
    ((feed *)stream->private_data)->released = true;
    stream->release = NULL;
}

static void test_stream(void **state)
{
    static const struct {
        int n, fail_at;
    } runs[] = { { 3, -1 }, { 0, -1 }, { 3, 2 } };
    live_memory before = live_now();
    uint64_t random = 3;
    feed f = { .tables = { some_table(&random, 5), some_table(&random, 0), some_table(&random, 8) } };

    (void)state;
    for (int i = 0; i < HR_LEN(runs); i++) {
        struct ArrowArrayStream stream = { feed_schema, feed_next, feed_error, feed_release, &f };
        hr_error err = HR_ERROR_INIT;
        hr_table *t = NULL;
        hr_scan *s = NULL;
        hr_status st;

        f.n = runs[i].n;
        f.fail_at = runs[i].fail_at;
        f.at = 0;
        f.released = false;
        st = hr__scan_new_stream(&stream, &s, &err);
        assert_true(f.released);
        assert_status(st, runs[i].fail_at < 0 ? HR_OK : HR_IO, &err);
        if (st) {
            assert_contains(err.text, "the source ran dry");
            continue;
        }
        assert_ok(read_scan(s, NULL, 1 << 20, &t, &err), &err);
        assert_int_equal(t->n_rows, runs[i].n ? 13 : 0);
        assert_int_equal(t->schema->n, 3);
        hr_table_unref(t);
        hr__scan_unref(s);
    }
    for (int i = 0; i < 3; i++)
        hr_table_unref(f.tables[i]);
    assert_no_leak(before);
}

static hr_status memory_with_faults(void *context, hr_error *err)
{
    feed *f = context;
    struct ArrowArrayStream stream = { feed_schema, feed_next, feed_error, feed_release, f };
    hr_scan *s = NULL, *range = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    f->at = 0;
    HR_GO(hr__scan_new_stream(&stream, &s, err));
    HR_GO(read_scan(s, NULL, 1 << 20, &t, err));
    hr_table_unref(t);
    t = NULL;
    HR_GO(hr__scan_new_range(10, 0, "n", &range, err));
    HR_GO(read_scan(range, NULL, 1 << 20, &t, err));
done:
    hr_table_unref(t);
    hr__scan_unref(range);
    hr__scan_unref(s);
    return st;
}

static void test_memory_faults(void **state)
{
    uint64_t random = 3;
    feed f = { .tables = { some_table(&random, 5), some_table(&random, 4) }, .n = 2, .fail_at = -1 };

    (void)state;
    run_with_faults_on(memory_with_faults, &f, HR_FAULT_MEMORY);
    hr_table_unref(f.tables[0]);
    hr_table_unref(f.tables[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_files),      cmocka_unit_test(test_parquet_files),
        cmocka_unit_test(test_schemas),         cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_fingerprints),    cmocka_unit_test(test_threads),
        cmocka_unit_test(test_faults),          cmocka_unit_test(test_file_columns),
        cmocka_unit_test(test_unified),         cmocka_unit_test(test_given),
        cmocka_unit_test(test_orders),          cmocka_unit_test(test_file_columns_with_faults),
        cmocka_unit_test(test_crowd),           cmocka_unit_test(test_tables),
        cmocka_unit_test(test_tables_disagree), cmocka_unit_test(test_range),
        cmocka_unit_test(test_stream),          cmocka_unit_test(test_memory_faults),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
