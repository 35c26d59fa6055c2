/* test_parquet_read.c - whole Parquet files: the same table stored in many ways, and small files that lie. */
#include "arrays.h"
#include "format/parquet/parquet_read.h"

#include <stdio.h>
#include <stdlib.h>

#define ROWS 150

static const char *data_path(const char *name)
{
    static char path[1000];
    const char *folder = getenv("HEADRACE_TEST_DATA");

    snprintf(path, sizeof path, "%s/parquet/%s", folder ? folder : "tests/data", name);
    return path;
}

/* ------------------------------------------------------------------------------------- the rules of make_parquet.py */

#define DO(e) assert_ok((e), &err)

static void add_int(hr_builder *b, int64_t v)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_int(b, v, &err));
}

static void add_double(hr_builder *b, double v)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_double(b, v, &err));
}

static void add_text(hr_builder *b, const char *text)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_bytes(b, text, (int64_t)strlen(text), &err));
}

static void add_bytes(hr_builder *b, const void *data, int64_t n)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_bytes(b, data, n, &err));
}

static void add_null(hr_builder *b)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_null(b, &err));
}

static void end(hr_builder *b)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_end(b, &err));
}

static void id(hr_builder *b, int i) { add_int(b, i); }
static void i64(hr_builder *b, int i) { i % 7 == 3 ? add_null(b) : add_int(b, i * i - 50); }
static void i8(hr_builder *b, int i) { i % 5 == 3 ? add_null(b) : add_int(b, i % 100 - 50); }
static void u16(hr_builder *b, int i) { i % 6 == 2 ? add_null(b) : add_int(b, i * 199 % 65536); }
static void f32(hr_builder *b, int i) { i < 100 ? add_null(b) : add_double(b, i / 4.0); }
static void f16(hr_builder *b, int i) { add_double(b, i / 4.0); }
static void f64(hr_builder *b, int i) { i % 3 == 0 ? add_null(b) : add_double(b, i * 1.5); }
static void flag(hr_builder *b, int i) { i % 9 == 2 ? add_null(b) : add_int(b, i % 3 == 1); }
static void sure(hr_builder *b, int i) { add_int(b, i % 5 < 2); }
static void day(hr_builder *b, int i) { add_int(b, i * 10); }
static void instant(hr_builder *b, int i) { add_int(b, (1577836800ll + i) * 1000000); }
static void span(hr_builder *b, int i) { add_int(b, i * 7); }
static void none(hr_builder *b, int i) { (void)i, add_null(b); }

static void u64(hr_builder *b, int i)
{
    hr_error err = HR_ERROR_INIT;

    DO(hr__builder_bytes(b, &(uint64_t){ (1ull << 63) + (uint64_t)i }, 8, &err));
}

static void text(hr_builder *b, int i)
{
    char s[40];

    if (i % 5 == 4) {
        add_null(b);
        return;
    }
    snprintf(s, sizeof s,
             i % 17 ? "row %d"
                    : "gr\xc3\xb6\xc3\x9f"
                      "e %d",
             i);
    add_text(b, i % 11 == 0 ? "" : s);
}

static void long_text(hr_builder *b, int i)
{
    char s[100] = "";

    for (int j = 0; j < i % 40; j++)
        strcat(s, "ab");
    add_text(b, s);
}

static void some_bytes(hr_builder *b, int i)
{
    uint8_t s[6];

    memset(s, i % 256, sizeof s);
    add_bytes(b, s, i % 6);
}

static void three_bytes(hr_builder *b, int i)
{
    uint8_t s[3] = { (uint8_t)i, 1, 2 };

    if (i % 4 == 0)
        add_null(b);
    else
        add_bytes(b, s, 3);
}

static void add_wide(hr_builder *b, int64_t v, int width)
{
    uint8_t s[32];

    memset(s, v < 0 ? 0xff : 0, sizeof s);
    memcpy(s, &v, 8);
    add_bytes(b, s, width);
}

static void dec(hr_builder *b, int i) { i % 6 == 1 ? add_null(b) : add_wide(b, i * i - 1000, 16); }
static void dec9(hr_builder *b, int i) { add_wide(b, -i, 16); }
static void wide(hr_builder *b, int i) { add_wide(b, i * 1000000000000000ll, 32); }

static void city(hr_builder *b, int i)
{
    char s[20];

    snprintf(s, sizeof s, "city %d", i % 5);
    i % 4 == 3 ? add_null(b) : add_text(b, s);
}

static void numbers(hr_builder *b, int i)
{
    if (i % 10 == 9) {
        add_null(b);
        return;
    }
    for (int j = 0; j < i % 4; j++)
        (i + j) % 13 == 0 ? add_null(hr__builder_child(b, 0)) : add_int(hr__builder_child(b, 0), i + j);
    end(b);
}

static void lists(hr_builder *b, int i)
{
    hr_builder *inner = hr__builder_child(b, 0);

    for (int j = 0; j < i % 3; j++) {
        for (int k = 0; k < (i + j) % 4; k++)
            add_int(hr__builder_child(inner, 0), i * 100 + j * 10 + k);
        end(inner);
    }
    end(b);
}

static void pair(hr_builder *b, int i)
{
    hr_builder *x = hr__builder_child(b, 0), *y = hr__builder_child(b, 1);
    char s[20];

    if (i % 8 == 7) {
        add_null(b);
        return;
    }
    i % 6 == 5 ? add_null(x) : add_int(x, i);
    snprintf(s, sizeof s, "y%d", i);
    for (int j = 0; j < i % 3; j++)
        add_text(hr__builder_child(y, 0), s);
    end(y);
    end(b);
}

static void map(hr_builder *b, int i)
{
    hr_builder *entry = hr__builder_child(b, 0);
    char s[20];

    for (int j = 0; j < i % 3; j++) {
        snprintf(s, sizeof s, "k%d", j);
        add_text(hr__builder_child(entry, 0), s);
        j == 1 ? add_null(hr__builder_child(entry, 1)) : add_int(hr__builder_child(entry, 1), i);
        end(entry);
    }
    end(b);
}

static void triple(hr_builder *b, int i)
{
    if (i % 9 == 8) {
        add_null(b);
        return;
    }
    for (int j = 0; j < 3; j++)
        add_int(hr__builder_child(b, 0), i + j);
    end(b);
}

static void deep(hr_builder *b, int i)
{
    hr_builder *item = hr__builder_child(b, 0);

    if (i % 7 == 0) {
        add_null(b);
        return;
    }
    for (int j = 0; j < i % 3; j++) {
        lists(hr__builder_child(item, 0), i + j);
        add_int(hr__builder_child(item, 1), i % 2 == 0);
        end(item);
    }
    end(b);
}

static void tensor(hr_builder *b, int i)
{
    hr_builder *values = hr__builder_child(b, 0);

    add_double(values, i);
    add_double(values, i + 0.5);
    add_double(values, -i);
    add_double(values, 0);
    end(b);
}

typedef struct rule {
    const char *name, *type;
    void (*add)(hr_builder *b, int i);
} rule;

static const rule flat[] = {
    { "id", "int64", id },
    { "i64", "int64", i64 },
    { "i8", "int8", i8 },
    { "u16", "uint16", u16 },
    { "u64", "uint64", u64 },
    { "f16", "halffloat", f16 },
    { "f32", "float", f32 },
    { "f64", "double", f64 },
    { "flag", "bool", flag },
    { "sure", "bool", sure },
    { "text", "string", text },
    { "long", "large_string", long_text },
    { "bytes", "binary", some_bytes },
    { "fixed", "fixed_size_binary[3]", three_bytes },
    { "day", "date32[day]", day },
    { "time", "timestamp[us, tz=Europe/Berlin]", instant },
    { "span", "duration[ms]", span },
    { "dec", "decimal128(20, 2)", dec },
    { "dec9", "decimal128(9, 2)", dec9 },
    { "wide", "decimal256(50, 0)", wide },
    { "none", "null", none },
    { "dict", "string", city },
};

static const rule nested[] = {
    { "list", "list<element: int32>", numbers },
    { "large", "large_list<element: int32>", numbers },
    { "lists", "list<element: list<element: int64>>", lists },
    { "pair", "struct<x: int32, y: list<element: string not null>>", pair },
    { "map", "map<string, int32 ('key_value')>", map },
    { "fixed", "fixed_size_list<element: int16>[3]", triple },
    { "deep", "list<element: struct<a: list<element: list<element: int32>>, b: bool>>", deep },
    { "tensor", "extension<arrow.fixed_shape_tensor[value_type=float, shape=[2,2]]>", tensor },
};

static hr_array *expected(const rule *r, hr_type *type, int begin, int n)
{
    hr_builder *b = builder_of(type);

    for (int i = begin; i < begin + n; i++)
        r->add(b, i);
    return finish(b);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

static hr_scan_file *open_file(const char *path, const hr_projection *projection)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;

    DO(hr__source_open(path, NULL, &source, &err));
    DO(hr__format_parquet.open(source, &(hr_open){ .projection = projection }, &f, &err));
    hr__source_unref(source);
    return f;
}

/* Whether this build has the codec of a file. */
static bool in_build(const hr_scan_file *f)
{
    int codec = ((const pq_file *)f)->meta->groups[0].chunks[0].codec;

    return codec == 2 ? hr__codec_gzip.block != NULL : codec != 6 || hr__codec_zstd.block;
}

/* Rows [row, row + n) of a fragment, or all of it (n < 0), added to parts. */
static hr_status read_part(hr_scan_file *f, int fragment, int64_t row, int64_t n, int64_t max_bytes, hr_table ***parts,
                           int *n_parts, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_reader *r = NULL;
    hr_status st = HR_OK;
    hr_table *t;

    HR_GO(f->cls->read(f, fragment, row, n, &mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, max_bytes, &t, err));
        if (!t)
            break;
        assert_int_equal(hr__origin_rows(t->origin), t->n_rows);
        assert_int_equal(hr__origin_at(t->origin, 0).fragment, fragment);
        assert_int_equal(hr__origin_at(t->origin, 0).row, row);
        row += t->n_rows;
        *parts = realloc(*parts, ((size_t)*n_parts + 1) * sizeof **parts);
        (*parts)[(*n_parts)++] = t;
    }
done:
    hr__reader_close(r);
    return st;
}

/* All rows; split > 0: each fragment by readers of so many rows, the last first. */
static hr_status read_all(hr_scan_file *f, int64_t max_bytes, int64_t split, hr_table **out, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_table **parts = NULL;
    int n_parts = 0;
    hr_status st = HR_OK;

    for (int i = 0; i < f->n_fragments; i++) {
        hr_fragment info;

        HR_GO(f->cls->fragment(f, i, &info, err));
        for (int64_t row = 0; row < info.n_rows; row += split > 0 ? split : info.n_rows)
            HR_GO(read_part(f, i, row, split > 0 ? split : -1, max_bytes, &parts, &n_parts, err));
    }
    HR_GO(hr__table_concat(&mem, f->schema, parts, n_parts, out, err));
done:
    for (int i = 0; i < n_parts; i++)
        hr_table_unref(parts[i]);
    free(parts);
    return st;
}

static void check_rules(const char *name, const rule *rules, int n_rules)
{
    static const struct {
        int64_t max_bytes, split;
    } ways[] = { { 1 << 20, 0 }, { 2000, 0 }, { 1, 0 }, { 1 << 20, 37 }, { 300, 11 } };
    hr_error err = HR_ERROR_INIT;
    hr_scan_file *f = open_file(data_path(name), NULL);

    assert_int_equal(f->schema->n, n_rules);
    assert_int_equal(f->n_rows, ROWS);
    for (int w = 0; w < HR_LEN(ways) && in_build(f); w++) {
        hr_table *t = NULL;

        DO(read_all(f, ways[w].max_bytes, ways[w].split, &t, &err));
        DO(hr__table_check(t, true, &err));
        for (int i = 0; i < n_rules; i++) {
            hr_array *want = expected(&rules[i], t->columns[i]->type, 0, ROWS);

            assert_string_equal(f->schema->fields[i].name, rules[i].name);
            assert_string_equal(type_text(f->schema->fields[i].type), rules[i].type);
            assert_same_array(t->columns[i], want);
            hr__array_unref(want);
        }
        hr_table_unref(t);
    }
    hr__scan_file_unref(f);
}

static void test_variants(void **state)
{
    static const char *const names[] = { "plain", "dict", "v2", "gzip", "pages", "index", "mixed", "groups" };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        char name[50];

        snprintf(name, sizeof name, "flat_%s.parquet", names[i]);
        check_rules(name, flat, HR_LEN(flat));
        snprintf(name, sizeof name, "nested_%s.parquet", names[i]);
        check_rules(name, nested, HR_LEN(nested));
    }
    check_rules("flat_delta.parquet", flat, HR_LEN(flat));
    assert_no_leak(before);
}

static void test_long_lists(void **state)
{
    static const int lengths[] = { 3000, 0, 1, 700, 0, 5000 };
    static const int64_t splits[] = { 0, 1, 7, 30 };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int v = 1; v <= 2; v++) {
        hr_scan_file *f = open_file(data_path(v == 1 ? "long_v1.parquet" : "long_v2.parquet"), NULL);
        hr_builder *b = builder_of(f->schema->fields[0].type);
        hr_array *want;

        for (int i = 0; i < 30; i++) {
            for (int j = 0; j < lengths[i % 6]; j++)
                add_int(hr__builder_child(b, 0), (i * 31 + j) % 1000);
            end(b);
        }
        want = finish(b);
        for (int s = 0; s < HR_LEN(splits) && in_build(f); s++) {
            hr_table *t = NULL;

            DO(read_all(f, s % 2 ? 1 << 20 : 500, splits[s], &t, &err));
            assert_same_array(t->columns[0], want);
            hr_table_unref(t);
        }
        hr__array_unref(want);
        hr__scan_file_unref(f);
    }
}

/* Values much longer than expected: columns stop early, and those that went further give what they have kept. */
static void test_skewed(void **state)
{
    static const char *const names[] = { "skewed.parquet", "skewed_pages.parquet" };
    static const int64_t sizes[] = { 1 << 20, 30000, 5000, 100, 1 };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int k = 0; k < HR_LEN(names) * HR_LEN(sizes); k++) {
        hr_scan_file *f = open_file(data_path(names[k % 2]), NULL);
        hr_table *t = NULL;

        if (in_build(f)) {
            hr_array *s, *list;

            DO(read_all(f, sizes[k / 2], k % 3 * 150, &t, &err));
            DO(hr__table_check(t, true, &err));
            assert_int_equal(t->n_rows, 400);
            list = t->columns[2]->children[1];
            s = list->children[0];
            for (int64_t i = 0; i < 400; i++) {
                int64_t n, begin, wanted = i % 50 < 45 ? 1 : 9000;

                assert_int_equal(((const int64_t *)(const void *)hr__array_values(t->columns[0]))[i], i);
                assert_int_equal(((const int64_t *)(const void *)hr__array_values(t->columns[2]->children[0]))[i], i);
                hr__array_bytes(t->columns[1], i, &n);
                assert_int_equal(n, wanted);
                hr__array_range(list, i, &begin, &n);
                assert_int_equal(n, i % 3);
                for (int64_t j = begin; j < begin + i % 3; j++) {
                    hr__array_bytes(s, j, &n);
                    assert_int_equal(n, wanted);
                }
            }
        }
        hr_table_unref(t);
        hr__scan_file_unref(f);
    }
}

static void test_int96(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_scan_file *f = open_file(data_path("int96.parquet"), NULL);
    hr_table *t = NULL;

    (void)state;
    assert_string_equal(type_text(f->schema->fields[0].type), "timestamp[ns]");
    DO(read_all(f, 1 << 20, 0, &t, &err));
    for (int i = 0; i < 40; i++) {
        assert_int_equal(hr__array_is_null(t->columns[0], i), i % 4 == 3);
        if (i % 4 != 3)
            assert_int_equal(((const int64_t *)(const void *)hr__array_values(t->columns[0]))[i], i * 1000000000ll);
    }
    hr_table_unref(t);
    hr__scan_file_unref(f);
}

static void test_projection(void **state)
{
    static const char *const wanted[] = { "dec", "id", "text" }, *const missing[] = { "id", "nowhere" };
    hr_projection projection = { 3, wanted }, nothing = { 0, NULL }, wrong = { 2, missing };
    hr_error err = HR_ERROR_INIT;
    hr_scan_file *f = open_file(data_path("flat_groups.parquet"), &projection), *other = NULL;
    hr_table *t = NULL;
    hr_array *want;

    (void)state;
    DO(read_all(f, 1 << 20, 0, &t, &err));
    assert_int_equal(t->schema->n, 3);
    assert_string_equal(t->schema->fields[0].name, "dec");
    want = expected(&flat[0], t->columns[1]->type, 0, ROWS);
    assert_same_array(t->columns[1], want);
    hr__array_unref(want);
    hr_table_unref(t);
    DO(f->cls->project(f, &(hr_open){ .projection = &nothing }, &other, &err));
    DO(read_all(other, 1 << 20, 40, &t, &err));
    assert_int_equal(t->n_rows, ROWS);
    assert_int_equal(t->schema->n, 0);
    hr_table_unref(t);
    hr__scan_file_unref(other);
    assert_status(f->cls->project(f, &(hr_open){ .projection = &wrong }, &other, &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "no column 'nowhere'; there are: id, i64");
    hr__scan_file_unref(f);
}

static void test_empty(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_scan_file *f = open_file(data_path("empty.parquet"), NULL);
    hr_table *t = NULL;

    (void)state;
    assert_int_equal(f->n_rows, 0);
    DO(read_all(f, 1 << 20, 0, &t, &err));
    assert_int_equal(t->n_rows, 0);
    assert_int_equal(t->schema->n, HR_LEN(flat));
    hr_table_unref(t);
    hr__scan_file_unref(f);
}

/* Readers of many parts of one open file at once: page directories and dictionaries are shared. */
typedef struct many {
    hr_scan_file *file;
    atomic_int failed;
} many;

static void read_many(void *arg, int thread)
{
    many *m = arg;

    for (int k = 0; k < 12; k++) {
        int64_t row = (thread * 53 + k * 31) % ROWS, n = 0;
        hr_error err = HR_ERROR_INIT;
        hr_mem mem = { NULL, NULL };
        hr_reader *r = NULL;
        hr_table *t = NULL;
        hr_status st = m->file->cls->read(m->file, 0, row, 20, &mem, &r, &err);

        for (; !st && !(st = hr__reader_next(r, 700, &t, &err)) && t; n += t->n_rows, hr_table_unref(t))
            ;
        if (st || n != HR_MIN(20, ROWS - row))
            atomic_store(&m->failed, 1);
        hr__reader_close(r);
        hr_error_clear(&err);
    }
}

static void test_threads(void **state)
{
    static const char *const names[] = { "flat_mixed", "flat_delta", "flat_index", "nested_pages", "nested_mixed" };

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        char name[50];
        many m = { 0 };

        snprintf(name, sizeof name, "%s.parquet", names[i]);
        m.file = open_file(data_path(name), NULL);
        if (in_build(m.file))
            run_threads(4, read_many, &m);
        assert_int_equal(atomic_load(&m.failed), 0);
        hr__scan_file_unref(m.file);
    }
}

/* ----------------------------------------------------------------------------------------------------------- faults */

static hr_status read_with_faults(void *context, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__source_open(context, NULL, &source, err));
    HR_GO(hr__format_parquet.open(source, &(hr_open){ 0 }, &f, err));
    HR_GO(f->cls->read(f, 0, 40, 10, &mem, &r, err));
    do {
        hr_table_unref(t);
        HR_GO(hr__reader_next(r, 3000, &t, err));
    } while (t);
done:
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

static void test_faults(void **state)
{
    static const char *const names[] = { "flat_mixed", "flat_delta", "nested_index", "nested_pages" };

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        char path[1000], name[50];
        hr_scan_file *f;
        bool known;

        snprintf(name, sizeof name, "%s.parquet", names[i]);
        snprintf(path, sizeof path, "%s", data_path(name));
        f = open_file(path, NULL);
        known = in_build(f);
        hr__scan_file_unref(f);
        if (known)
            run_with_faults_on(read_with_faults, path, HR_FAULT_MEMORY | HR_FAULT_IO);
    }
}

/* ----------------------------------------------------------------------------------------- files that are made here */

/* Thrift's compact protocol, written. */
typedef struct writer {
    uint8_t data[4096];
    int64_t n;
    int last;
} writer;

static void put(writer *w, const void *data, int64_t n)
{
    assert_true(n <= (int64_t)sizeof w->data - w->n);
    memcpy(w->data + w->n, data, (size_t)n);
    w->n += n;
}

static void put_byte(writer *w, int b) { put(w, &(uint8_t){ (uint8_t)b }, 1); }

static void put_varint(writer *w, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        put_byte(w, (int)(v | 0x80) & 0xff);
    put_byte(w, (int)v);
}

static void field(writer *w, int number, int type)
{
    put_byte(w, (number - w->last) << 4 | type);
    w->last = number;
}

static void int_field(writer *w, int number, int64_t v)
{
    field(w, number, PQ_T_I64);
    put_varint(w, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void text_field(writer *w, int number, const char *s)
{
    field(w, number, PQ_T_BINARY);
    put_varint(w, strlen(s));
    put(w, s, (int64_t)strlen(s));
}

static void list_field(writer *w, int number, int type, int n)
{
    field(w, number, PQ_T_LIST);
    put_byte(w, n << 4 | type);
}

static int begin_struct(writer *w)
{
    int last = w->last;

    w->last = 0;
    return last;
}

static void end_struct(writer *w, int last)
{
    put_byte(w, 0);
    w->last = last;
}

/* One column, one row group, one page (and a dictionary); what is 0 here is filled in truthfully. */
typedef struct spec {
    const char *about;
    int physical, repetition, converted; /* converted type + 1; 0: none */
    int precision;
    bool string;        /* logical type */
    int root_converted; /* as converted, of the group around */
    int width;
    int codec, encoding, page_type;
    int levels;                             /* encoding of the levels; 0: RLE */
    int64_t n_values, chunk_values, n_rows; /* of the page, of the chunk, of the row group */
    int64_t stored_bytes, memory_bytes;     /* of the page's header */
    int64_t chunk_bytes;
    int64_t file_rows;                            /* of the footer */
    int n_rows_v2, n_nulls, def_bytes, rep_bytes; /* of a page of version 2; rows as they are if 0 */
    const char *path, *writer;                    /* of the column chunk; of the footer */
    const char *page;
    int page_bytes;
    const char *dict; /* a dictionary page of `dict_values` */
    int dict_bytes, dict_values;
    hr_status st;
    const char *text;
} spec;

static void page_header(writer *w, const spec *s, bool dictionary)
{
    int n = dictionary ? s->dict_bytes : s->page_bytes, last = begin_struct(w), inner;

    int_field(w, 1, dictionary ? PQ_PAGE_DICTIONARY : s->page_type);
    int_field(w, 2, !dictionary && s->memory_bytes ? s->memory_bytes : n);
    int_field(w, 3, !dictionary && s->stored_bytes ? s->stored_bytes : n);
    field(w, dictionary ? 7 : s->page_type == PQ_PAGE_DATA_V2 ? 8 : 5, PQ_T_STRUCT);
    inner = begin_struct(w);
    int_field(w, 1, dictionary ? s->dict_values : s->n_values);
    if (!dictionary && s->page_type == PQ_PAGE_DATA_V2) {
        int_field(w, 2, s->n_nulls);
        int_field(w, 3, s->n_rows_v2 ? s->n_rows_v2 : s->n_rows ? s->n_rows : s->n_values);
        int_field(w, 4, s->encoding);
        int_field(w, 5, s->def_bytes);
        int_field(w, 6, s->rep_bytes);
        end_struct(w, inner);
        end_struct(w, last);
        return;
    }
    int_field(w, 2, dictionary ? PQ_PLAIN : s->encoding);
    if (!dictionary) {
        int_field(w, 3, s->levels ? s->levels : PQ_RLE);
        int_field(w, 4, s->levels ? s->levels : PQ_RLE);
    }
    end_struct(w, inner);
    end_struct(w, last);
}

static void column_chunk(writer *w, const spec *s, int64_t data_bytes)
{
    int last = begin_struct(w), inner;

    int_field(w, 2, 0);
    field(w, 3, PQ_T_STRUCT);
    inner = begin_struct(w);
    int_field(w, 1, s->physical);
    list_field(w, 2, PQ_T_I32, 1);
    put_varint(w, (uint64_t)s->encoding << 1);
    list_field(w, 3, PQ_T_BINARY, 1);
    put_varint(w, 1);
    put(w, s->path ? s->path : "x", 1);
    int_field(w, 4, s->codec);
    int_field(w, 5, s->chunk_values ? s->chunk_values : s->n_values);
    int_field(w, 6, data_bytes);
    int_field(w, 7, s->chunk_bytes ? s->chunk_bytes : data_bytes);
    int_field(w, 9, 4);
    end_struct(w, inner);
    end_struct(w, last);
}

static void schema(writer *w, const spec *s)
{
    int last;

    list_field(w, 2, PQ_T_STRUCT, 2);
    last = begin_struct(w);
    text_field(w, 4, "schema");
    int_field(w, 5, 1);
    if (s->root_converted)
        int_field(w, 6, s->root_converted - 1);
    end_struct(w, last);
    last = begin_struct(w);
    int_field(w, 1, s->physical);
    if (s->width)
        int_field(w, 2, s->width);
    int_field(w, 3, s->repetition);
    text_field(w, 4, "x");
    if (s->converted)
        int_field(w, 6, s->converted - 1);
    if (s->precision)
        int_field(w, 8, s->precision);
    if (s->string) {
        int outer, inner;

        field(w, 10, PQ_T_STRUCT);
        outer = begin_struct(w);
        field(w, 1, PQ_T_STRUCT);
        inner = begin_struct(w);
        end_struct(w, inner);
        end_struct(w, outer);
    }
    end_struct(w, last);
}

static void make_file(writer *w, const spec *s)
{
    int64_t rows = s->n_rows ? s->n_rows : s->chunk_values ? s->chunk_values : s->n_values, data_bytes, begin;
    int last;

    *w = (writer){ 0 };
    put(w, "PAR1", 4);
    if (s->dict) {
        page_header(w, s, true);
        put(w, s->dict, s->dict_bytes);
    }
    page_header(w, s, false);
    put(w, s->page, s->page_bytes);
    data_bytes = w->n - 4;
    begin = w->n;
    int_field(w, 1, 2);
    schema(w, s);
    int_field(w, 3, s->file_rows ? s->file_rows : rows);
    list_field(w, 4, PQ_T_STRUCT, 1);
    last = begin_struct(w);
    list_field(w, 1, PQ_T_STRUCT, 1);
    column_chunk(w, s, data_bytes);
    int_field(w, 2, data_bytes);
    int_field(w, 3, rows);
    end_struct(w, last);
    if (s->writer)
        text_field(w, 6, s->writer);
    put_byte(w, 0);
    put(w, &(uint32_t){ (uint32_t)(w->n - begin) }, 4);
    put(w, "PAR1", 4);
}

#define BYTES(s) s, (int)sizeof(s) - 1
#define I64(a) a "\0\0\0\0\0\0\0"

static const spec specs[] = {
    { "two plain values", .physical = PQ_INT64, .n_values = 2, .page = BYTES(I64("\1") I64("\2")), .text = "1 2" },
    { "fewer values than announced", .physical = PQ_INT64, .n_values = 3, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA,
      .text = "made.parquet: row group 0, column 'x', page 0: bytes for 2 values, the page announces 3" },
    { "more values than the chunk", .physical = PQ_INT64, .n_values = 2, .chunk_values = 1,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "2 values after 0, the column chunk has 1" },
    { "fewer values than the chunk", .physical = PQ_INT64, .n_values = 2, .chunk_values = 5,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "the column chunk ends 3 rows early" },
    { "more rows than values", .physical = PQ_INT64, .n_values = 2, .n_rows = 3, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA, .text = "column 'x': the column chunk has 2 values, the row group 3 rows" },
    { "a billion rows of nothing", .physical = PQ_INT64, .n_values = 2, .chunk_values = 1 << 30,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "rows early" },
    { "a page longer than its chunk", .physical = PQ_INT64, .n_values = 2, .stored_bytes = 17,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "17 bytes at " },
    { "a chunk longer than the file", .physical = PQ_INT64, .n_values = 2, .chunk_bytes = 1 << 20,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "2 values in 1048576 bytes at 4, data ends at" },
    { "a negative size", .physical = PQ_INT64, .n_values = 2, .stored_bytes = -5, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA, .text = "page header: type 0, -5 bytes" },
    { "a gigabyte from nothing", .physical = PQ_INT64, .n_values = 2, .codec = 1, .memory_bytes = 1 << 30,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "a page of 1073741824 bytes from 16" },
    { "more than snappy can", .physical = PQ_INT64, .n_values = 2, .codec = 1, .memory_bytes = 1 << 20,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA,
      .text = "16 bytes of snappy cannot decompress to 1048576" },
    { "snappy that is none", .physical = PQ_INT64, .n_values = 2, .codec = 1, .page = BYTES(I64("\x10") I64("\2")),
      .st = HR_BAD_DATA, .text = "page 0: snappy: malformed block" },
    { "lzo", .physical = PQ_INT64, .n_values = 2, .codec = 3, .page = BYTES(I64("\1") I64("\2")), .st = HR_UNSUPPORTED,
      .text = "column 'x': compressed by lzo: this build lacks lzo" },
    { "a codec of the future", .physical = PQ_INT64, .n_values = 2, .codec = 77, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_UNSUPPORTED, .text = "codec of unknown number 77" },
    { "an encoding of the future", .physical = PQ_INT64, .n_values = 2, .encoding = 42,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_UNSUPPORTED, .text = "encoding of unknown number (42)" },
    { "by a dictionary that is missing", .physical = PQ_INT64, .n_values = 2, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\3\2"), .st = HR_BAD_DATA,
      .text = "dictionary-encoded values in a column without a dictionary" },
    { "by dictionary", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\1\3\2"),
      .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .text = "5 6 5" },
    { "an index outside the dictionary", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\2\3\x0c\0"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "an index is outside the dictionary of 2 values" },
    { "a run outside the dictionary", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\2\6\3"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "an index is outside the dictionary of 2 values" },
    { "indices that end early", .physical = PQ_INT64, .n_values = 30, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\3\2"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "dictionary indices end early" },
    { "indices of 33 bits", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\x21\3\2"), .dict = BYTES(I64("\5")), .dict_values = 1, .st = HR_BAD_DATA,
      .text = "dictionary indices of 33 bits" },
    { "an empty dictionary", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\0"),
      .dict = BYTES(""), .dict_values = 0, .st = HR_BAD_DATA,
      .text = "an index is outside the dictionary of 0 values" },
    { "a dictionary that lies", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\3\2"), .dict = BYTES(I64("\5")), .dict_values = 1 << 30, .st = HR_BAD_DATA,
      .text = "bytes for 1 values, the page announces 1073741824" },
    { "nulls", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .page = BYTES("\2\0\0\0\3\5"
                    "\7\0\0\0\11\0\0\0"),
      .text = "7 null 9 null" },
    { "nulls, as very old writers packed them", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .levels = PQ_BIT_PACKED,
      .page = BYTES("\xa0"
                    "\7\0\0\0\11\0\0\0"),
      .text = "7 null 9 null" },
    { "too few packed levels", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 400,
      .levels = PQ_BIT_PACKED,
      .page = BYTES("\xa0"
                    "\7\0\0\0"),
      .st = HR_BAD_DATA, .text = "50 bytes of levels in 5 bytes" },
    { "levels of another encoding", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .levels = PQ_PLAIN + 8,
      .page = BYTES("\xa0"
                    "\7\0\0\0"),
      .st = HR_UNSUPPORTED, .text = "levels of encoding 8" },
    { "levels longer than the page", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .page = BYTES("\xff\0\0\0\3\5"
                    "\7\0\0\0"),
      .st = HR_BAD_DATA, .text = "levels are longer than the page of 10 bytes" },
    { "levels that end early", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 40,
      .page = BYTES("\2\0\0\0\3\0"
                    "\7\0\0\0"),
      .st = HR_BAD_DATA, .text = "definition levels end early" },
    { "a page without levels", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4, .page = BYTES("\2\0"),
      .st = HR_BAD_DATA, .text = "levels are longer than the page of 2 bytes" },
    { "text", .physical = PQ_BYTE_ARRAY, .converted = 1, .n_values = 2, .page = BYTES("\2\0\0\0ab\0\0\0\0"),
      .text = "ab " },
    { "text that is not UTF-8", .physical = PQ_BYTE_ARRAY, .converted = 1, .n_values = 1,
      .page = BYTES("\2\0\0\0a\xff"), .st = HR_BAD_DATA, .text = "page 0: a text is not UTF-8" },
    { "a character cut in two", .physical = PQ_BYTE_ARRAY, .converted = 1, .n_values = 2,
      .page = BYTES("\1\0\0\0\xc3\1\0\0\0\xa4"), .st = HR_BAD_DATA, .text = "a text is not UTF-8" },
    { "a dictionary that is not UTF-8", .physical = PQ_BYTE_ARRAY, .converted = 1, .n_values = 1,
      .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\0"), .dict = BYTES("\1\0\0\0\xff"), .dict_values = 1,
      .st = HR_BAD_DATA, .text = "value 0 of the dictionary is not UTF-8" },
    { "a text longer than its page", .physical = PQ_BYTE_ARRAY, .n_values = 1,
      .page = BYTES("\xff\xff\xff\x7f"
                    "a"),
      .st = HR_BAD_DATA, .text = "bytes for 0 values, the page announces 1" },
    { "one list of three", .physical = PQ_INT32, .repetition = PQ_REPEATED, .n_values = 3, .n_rows = 1,
      .page = BYTES("\2\0\0\0\3\6"
                    "\2\0\0\0\6\1"
                    "\7\0\0\0\10\0\0\0\11\0\0\0"),
      .text = "[7, 8, 9]" },
    { "a row group that begins within a row", .physical = PQ_INT32, .repetition = PQ_REPEATED, .n_values = 3,
      .n_rows = 1,
      .page = BYTES("\2\0\0\0\3\5"
                    "\2\0\0\0\6\1"
                    "\7\0\0\0\10\0\0\0\11\0\0\0"),
      .st = HR_BAD_DATA, .text = "the row group begins in the middle of a row" },
    { "rows that are not announced", .physical = PQ_INT32, .repetition = PQ_REPEATED, .n_values = 3, .n_rows = 1,
      .page = BYTES("\2\0\0\0\3\4"
                    "\2\0\0\0\6\1"
                    "\7\0\0\0\10\0\0\0\11\0\0\0"),
      .st = HR_BAD_DATA, .text = "2 values after the row group's last row" },
    { "a decimal of too many digits", .physical = PQ_INT32, .converted = 6, .n_values = 1, .page = BYTES("\1\0\0\0"),
      .st = HR_BAD_DATA, .text = "column 'x': decimal(0, 0) in INT32" },
    { "decimals", .physical = PQ_INT32, .converted = 6, .precision = 2, .n_values = 2,
      .page = BYTES("\143\0\0\0\1\0\0\0"), .text = "99 1" },
    { "a decimal of more digits than its column", .physical = PQ_INT32, .converted = 6, .precision = 2, .n_values = 1,
      .page = BYTES("\144\0\0\0"), .st = HR_BAD_DATA, .text = "page 0: a decimal of more than 2 digits" },
    { "a decimal as bytes of more digits than its column", .physical = PQ_BYTE_ARRAY, .converted = 6, .precision = 2,
      .n_values = 1, .page = BYTES("\1\0\0\0\x9c"), .st = HR_BAD_DATA, .text = "a decimal of more than 2 digits" },
    { "a long decimal of more digits than its column", .physical = PQ_FIXED, .converted = 6, .precision = 40,
      .width = 18, .n_values = 1, .page = BYTES("\0\x7f\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), .st = HR_BAD_DATA,
      .text = "a decimal of more than 40 digits" },
    { "text in a number", .physical = PQ_INT32, .converted = 1, .n_values = 1, .page = BYTES("\1\0\0\0"),
      .st = HR_BAD_DATA, .text = "logical type string does not fit INT32" },
    /* Pages and footers that do not account for themselves. Damage that still decodes was read as other rows in
     * silence. */
    { "plain values left over", .physical = PQ_INT64, .n_values = 1, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA, .text = "page 0: 8 bytes are left after the page's 1 values" },
    { "booleans left over", .physical = PQ_BOOLEAN, .n_values = 8, .page = BYTES("\1\2"), .st = HR_BAD_DATA,
      .text = "1 bytes are left after the page's 8 values" },
    { "booleans that fill a byte in part", .physical = PQ_BOOLEAN, .n_values = 9, .page = BYTES("\1\1"),
      .text = "true false false false false false false false true" },
    { "texts left over", .physical = PQ_BYTE_ARRAY, .converted = 1, .n_values = 1, .page = BYTES("\1\0\0\0a\0\0\0\0"),
      .st = HR_BAD_DATA, .text = "4 bytes are left after the page's 1 values" },
    { "zeros behind values, as fastparquet pads", .physical = PQ_INT64, .n_values = 1, .writer = "fastparquet-python",
      .page = BYTES(I64("\1") I64("\0")), .text = "1" },
    { "other bytes behind values, of fastparquet", .physical = PQ_INT64, .n_values = 1, .writer = "fastparquet-python",
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "8 bytes are left" },
    { "zeros behind values, of another writer", .physical = PQ_INT64, .n_values = 1, .page = BYTES(I64("\1") I64("\0")),
      .st = HR_BAD_DATA, .text = "8 bytes are left" },
    /* 50 bytes of 0xff in Fashion-MNIST became a run of 260771873 indices, and 755 of 10,000 images others. */
    { "a run of indices longer than the page", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\xc2\xff\xff\x0f\1"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "page 0: dictionary indices go on after the page's 3 values" },
    { "indices behind the last", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\6\1\6\1"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "dictionary indices go on after the page's 3 values" },
    { "packed indices without values, as DuckDB pads", .physical = PQ_INT64, .n_values = 3,
      .writer = "DuckDB version v1.3.0", .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\1\3\2\3\0"),
      .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2, .text = "5 6 5" },
    { "packed indices that the bytes do not suffice for", .physical = PQ_INT64, .n_values = 3,
      .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\1\5\2"), .dict = BYTES(I64("\5") I64("\6")), .dict_values = 2,
      .st = HR_BAD_DATA, .text = "dictionary indices go on after the page's 3 values" },
    { "packed indices of which the last bits are cut off", .physical = PQ_INT64, .n_values = 3,
      .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\2\3\x24"), .dict = BYTES(I64("\5") I64("\6") I64("\7")),
      .dict_values = 3, .text = "5 6 7" },
    { "a run of no bits longer than the page", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\0\10"), .dict = BYTES(I64("\5")), .dict_values = 1, .st = HR_BAD_DATA,
      .text = "dictionary indices go on after the page's 3 values" },
    { "a run of no bits", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\0\6"),
      .dict = BYTES(I64("\5")), .dict_values = 1, .text = "5 5 5" },
    { "a dictionary with bytes left over", .physical = PQ_INT64, .n_values = 3, .encoding = PQ_RLE_DICTIONARY,
      .page = BYTES("\1\3\2"), .dict = BYTES(I64("\5") I64("\6") "\7"), .dict_values = 2, .st = HR_BAD_DATA,
      .text = "1 bytes are left after the dictionary's 2 values" },
    { "a dictionary of texts with bytes left over", .physical = PQ_BYTE_ARRAY, .n_values = 1,
      .encoding = PQ_RLE_DICTIONARY, .page = BYTES("\0"), .dict = BYTES("\1\0\0\0a\1\0\0\0b"), .dict_values = 1,
      .st = HR_BAD_DATA, .text = "5 bytes are left after the dictionary's 1 values" },
    { "a run of levels longer than the page", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 2,
      .page = BYTES("\2\0\0\0\x7e\1\7\0\0\0\10\0\0\0"), .st = HR_BAD_DATA,
      .text = "definition levels go on after the page's 2 values" },
    { "levels left over", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 2,
      .page = BYTES("\4\0\0\0\4\1\2\0\7\0\0\0\10\0\0\0"), .st = HR_BAD_DATA,
      .text = "definition levels go on after the page's 2 values" },
    { "an item of a list that has none", .physical = PQ_INT32, .repetition = PQ_REPEATED, .n_values = 3, .n_rows = 1,
      .page = BYTES("\2\0\0\0\3\6\4\0\0\0\2\0\4\1\7\0\0\0\10\0\0\0"), .st = HR_BAD_DATA,
      .text = "a repetition level goes on with a list that has no item" },
    { "an item that is none", .physical = PQ_INT32, .repetition = PQ_REPEATED, .n_values = 3, .n_rows = 1,
      .page = BYTES("\2\0\0\0\3\6\4\0\0\0\4\1\2\0\7\0\0\0\10\0\0\0"), .st = HR_BAD_DATA,
      .text = "a repetition level goes on with a list that has no item" },
    { "values by differences left over", .physical = PQ_INT64, .n_values = 1, .encoding = PQ_DELTA_BINARY,
      .page = BYTES("\x80\1\4\2\2\0\0\0\0\0"), .st = HR_BAD_DATA,
      .text = "delta-encoded integers go on after the page's 1 values" },
    { "bytes behind values by differences", .physical = PQ_INT64, .n_values = 1, .encoding = PQ_DELTA_BINARY,
      .page = BYTES("\x80\1\4\1\2\5"), .st = HR_BAD_DATA, .text = "1 bytes are left after the page's 1 values" },
    { "differences wider than the numbers", .physical = PQ_INT32, .n_values = 2, .encoding = PQ_DELTA_BINARY,
      .page = BYTES("\x80\1\4\2\0\0\x21\0\0\0"), .st = HR_BAD_DATA,
      .text = "page 0: delta-encoded integers end early or are malformed" },
    { "differences without what fills them up", .physical = PQ_INT32, .n_values = 2, .encoding = PQ_DELTA_BINARY,
      .page = BYTES("\x80\1\4\2\0\0\10\0\0\0\5"), .st = HR_BAD_DATA,
      .text = "page 0: delta-encoded integers end early or are malformed" },
    { "bytes behind texts by lengths", .physical = PQ_BYTE_ARRAY, .n_values = 1, .encoding = PQ_DELTA_LENGTH,
      .page = BYTES("\x80\1\4\1\2ab"), .st = HR_BAD_DATA, .text = "1 bytes are left after the page's 1 values" },
    { "prefixes left over", .physical = PQ_BYTE_ARRAY, .n_values = 1, .encoding = PQ_DELTA_BYTES,
      .page = BYTES("\x80\1\4\2\0\0\0\0\0\0\x80\1\4\1\2a"), .st = HR_BAD_DATA,
      .text = "prefixes go on after the page's 1 values" },
    { "split values left over", .physical = PQ_INT32, .n_values = 1, .encoding = PQ_BYTE_SPLIT,
      .page = BYTES("\1\1\0\0\0\0\0\0"), .st = HR_BAD_DATA, .text = "4 bytes are left after the page's 1 values" },
    { "booleans by runs left over", .physical = PQ_BOOLEAN, .n_values = 3, .encoding = PQ_RLE,
      .page = BYTES("\2\0\0\0\6\1\6\1"), .st = HR_BAD_DATA, .text = "2 bytes are left after the page's 3 values" },
    { "a run of booleans longer than the page", .physical = PQ_BOOLEAN, .n_values = 3, .encoding = PQ_RLE,
      .page = BYTES("\2\0\0\0\10\1"), .st = HR_BAD_DATA, .text = "booleans go on after the page's 3 values" },
    { "a page that is not compressed and of two sizes", .physical = PQ_INT64, .n_values = 2, .memory_bytes = 17,
      .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA,
      .text = "page 0: an uncompressed page of 16 bytes, its header says 17" },
    { "bytes behind the last page", .physical = PQ_INT64, .n_values = 1, .chunk_values = 1, .stored_bytes = 8,
      .memory_bytes = 8, .page = BYTES(I64("\1") I64("\2")), .st = HR_BAD_DATA, .text = "the last page ends at " },
    { "version 2", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4, .page_type = PQ_PAGE_DATA_V2,
      .n_nulls = 2, .def_bytes = 2, .page = BYTES("\3\5\7\0\0\0\11\0\0\0"), .text = "7 null 9 null" },
    { "other nulls than announced", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .page_type = PQ_PAGE_DATA_V2, .n_nulls = 1, .def_bytes = 2, .page = BYTES("\3\5\7\0\0\0\11\0\0\0"),
      .st = HR_BAD_DATA, .text = "2 nulls, the page's header says 1" },
    { "other rows than announced", .physical = PQ_INT32, .repetition = PQ_OPTIONAL, .n_values = 4,
      .page_type = PQ_PAGE_DATA_V2, .n_nulls = 2, .n_rows_v2 = 3, .def_bytes = 2,
      .page = BYTES("\3\5\7\0\0\0\11\0\0\0"), .st = HR_BAD_DATA, .text = "4 rows, the page's header says 3" },
    { "levels of a column without, as hyparquet writes them", .physical = PQ_INT32, .n_values = 2,
      .page_type = PQ_PAGE_DATA_V2, .def_bytes = 2, .page = BYTES("\3\3\7\0\0\0\11\0\0\0"), .text = "7 9" },
    { "a footer of other rows", .physical = PQ_INT64, .n_values = 2, .file_rows = 3, .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA, .text = "made.parquet: 2 rows in row groups, the footer says 3" },
    { "a converted type of the future", .physical = PQ_INT64, .converted = 24, .n_values = 1, .page = BYTES(I64("\1")),
      .st = HR_BAD_DATA, .text = "a column has an unknown converted type" },
    { "a logical type that the converted one contradicts", .physical = PQ_INT32, .converted = 7, .string = true,
      .n_values = 1, .page = BYTES("\1\0\0\0"), .st = HR_BAD_DATA, .text = "logical and converted types differ" },
    { "a logical type that the converted one knows", .physical = PQ_BYTE_ARRAY, .converted = 1, .string = true,
      .n_values = 1, .page = BYTES("\1\0\0\0a"), .text = "a" },
    { "a group of a value's type", .physical = PQ_INT64, .root_converted = 8, .n_values = 1, .page = BYTES(I64("\1")),
      .st = HR_BAD_DATA, .text = "a group has the type of a value" },
    { "a chunk of another column", .physical = PQ_INT64, .n_values = 2, .path = "y", .page = BYTES(I64("\1") I64("\2")),
      .st = HR_BAD_DATA, .text = "a column chunk belongs to another column than the schema says" },
    { "a fixed size of nothing", .physical = PQ_FIXED, .n_values = 1, .page = BYTES("\1\0\0\0"), .st = HR_BAD_DATA,
      .text = "a fixed size of 0 bytes or less" },
};

static hr_status read_made(void *context, hr_error *err)
{
    const writer *w = context;
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__source_new_memory("made.parquet", w->data, w->n, NULL, &source, err));
    HR_GO(hr__format_parquet.open(source, &(hr_open){ 0 }, &f, err));
    HR_GO(read_all(f, 1 << 20, 0, &t, err));
    strcpy(err->text, values_text(t->columns[0]));
done:
    hr_table_unref(t);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

static void test_specs(void **state)
{
    static writer w;

    (void)state;
    for (int i = 0; i < HR_LEN(specs); i++) {
        hr_error err = HR_ERROR_INIT;
        int64_t peak;

        make_file(&w, &specs[i]);
        hr_memory_reset_peak();
        peak = hr_memory_peak();
        assert_status(read_made(&w, &err), specs[i].st, &err);
        assert_contains(err.text, specs[i].text);
        assert_true(hr_memory_peak() - peak < 8 << 20);
        hr_error_clear(&err);
    }
}

/* Every byte of a small file set to some other values, and the file cut at every byte: nothing but a status may come of
 * it. */
static void test_damage(void **state)
{
    static const uint8_t other[] = { 0, 1, 0x7f, 0x80, 0xff };
    static writer w, damaged;

    (void)state;
    for (int i = 0; i < HR_LEN(specs); i++) {
        if (specs[i].st)
            continue;
        make_file(&w, &specs[i]);
        for (int64_t at = 0; at < w.n; at++) {
            hr_error err = HR_ERROR_INIT;

            for (int k = 0; k < HR_LEN(other); k++) {
                damaged = w;
                damaged.data[at] = other[k];
                (void)!read_made(&damaged, &err);
                hr_error_clear(&err);
            }
            damaged = w;
            damaged.n = at;
            assert_int_not_equal(read_made(&damaged, &err), HR_OK);
            hr_error_clear(&err);
        }
    }
}

static void test_no_file(void **state)
{
    static const struct {
        const char *data;
        int n;
        hr_status st;
        const char *text;
    } cases[] = {
        { BYTES(""), HR_BAD_DATA, "x.parquet: 0 bytes are too few" },
        { BYTES("PAR1PAR1"), HR_BAD_DATA, "8 bytes are too few" },
        { BYTES("PAR1\0\0\0\0PAR1"), HR_BAD_DATA, "footer of 0 bytes: it is cut off" },
        { BYTES("PAR1\xff\xff\xff\x7fPAR1"), HR_BAD_DATA, "the footer has 2147483647 bytes, the file 12" },
        { BYTES("PAR1\0\1\0\0\0PAR1"), HR_BAD_DATA, "footer without a schema" },
        { BYTES("a,b\n1,2\n3,4\n5,6\n"), HR_BAD_DATA, "does not end with \"PAR1\"" },
        { BYTES("PAR1........PARE"), HR_UNSUPPORTED, "encrypted Parquet files are not supported" },
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_scan_file *f = NULL;
        hr_source *source = NULL;

        DO(hr__source_new_memory("x.parquet", cases[i].data, cases[i].n, NULL, &source, &err));
        assert_status(hr__format_parquet.open(source, &(hr_open){ 0 }, &f, &err), cases[i].st, &err);
        assert_contains(err.text, cases[i].text);
        hr__source_unref(source);
        hr_error_clear(&err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_variants), cmocka_unit_test(test_long_lists), cmocka_unit_test(test_int96),
        cmocka_unit_test(test_skewed),   cmocka_unit_test(test_projection), cmocka_unit_test(test_empty),
        cmocka_unit_test(test_threads),  cmocka_unit_test(test_faults),     cmocka_unit_test(test_specs),
        cmocka_unit_test(test_damage),   cmocka_unit_test(test_no_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
