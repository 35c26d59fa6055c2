/* test_parquet_meta.c - Thrift, footers, page headers, offset indexes, the embedded Arrow schema: what is read of them, and
 * that no byte of them can do harm. */
#include "arrays.h"
#include "format/parquet.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES(s) (const uint8_t *)(s), (int64_t)sizeof(s) - 1

/* ------------------------------------------------------------------------------------------------------------- Thrift */

static const struct {
    const uint8_t *data;
    int64_t n;
    const char *wrong; /* NULL: none */
    int64_t sum; /* of all integers in the top struct */
} structs[] = {
    { BYTES("\0"), NULL, 0 },
    { BYTES("\x15\x02\x15\x04\0"), NULL, 3 }, /* 1: 1, 2: 2 */
    { BYTES("\x05\x50\x02\0"), NULL, 1 }, /* the number written out: 40 */
    { BYTES("\x13\x7f\0"), NULL, 127 }, /* a byte */
    { BYTES("\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"), NULL, INT64_MIN },
    { BYTES("\x11\x12\x15\x02\0"), NULL, 1 }, /* booleans have no bytes */
    { BYTES("\x18\x03"
            "abc\x15\x02\0"),
      NULL, 1 }, /* text is skipped */
    { BYTES("\x1c\x15\x02\0\x15\x02\0"), NULL, 1 }, /* a struct is skipped */
    { BYTES("\x19\x25\x02\x04\x15\x02\0"), NULL, 1 }, /* a list of integers */
    { BYTES("\x19\x21\x01\x02\x15\x02\0"), NULL, 1 }, /* a list of booleans */
    { BYTES("\x1b\x01\x58\x02\x01"
            "a\x15\x02\0"),
      NULL, 1 }, /* a map of integer to text */
    { BYTES("\x1b\0\x15\x02\0"), NULL, 1 }, /* an empty map */
    { BYTES("\x17"
            "12345678\x15\x02\0"),
      NULL, 1 }, /* a double */
    { BYTES(""), "it is cut short", 0 },
    { BYTES("\x15"), "it is cut short", 0 },
    { BYTES("\x15\x80"), "it is cut short", 0 },
    { BYTES("\x18\x04"
            "abc"),
      "it is cut short", 0 },
    { BYTES("\x18\xff\xff\xff\xff\x0f"
            "abc"),
      "it is cut short", 0 },
    { BYTES("\x19\xf5\xff\xff\xff\xff\x0f\x02"), "it is cut short", 0 },
    { BYTES("\x17"
            "1234"),
      "it is cut short", 0 },
    { BYTES("\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"), "a number has more than 64 bits", 0 },
    { BYTES("\x1d\0"), "a field has an unknown type", 0 },
    { BYTES("\x19\x1e\0\0"), "a field has an unknown type", 0 },
};

static void test_thrift(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(structs); i++) {
        uint8_t *data = malloc((size_t)structs[i].n + 1);
        pq_thrift t = { .at = data, .end = data + structs[i].n };
        pq_slot f = { 0 };
        uint64_t sum = 0;

        memcpy(data, structs[i].data, (size_t)structs[i].n);
        while (pq__thrift_next(&t, &f)) {
            if (f.type >= PQ_T_I8 && f.type <= PQ_T_I64)
                sum += (uint64_t)pq__thrift_int(&t, &f);
            else
                pq__thrift_skip(&t, &f);
        }
        if (structs[i].wrong) {
            assert_non_null(t.wrong);
            assert_string_equal(t.wrong, structs[i].wrong);
            assert_int_equal(t.short_of, strcmp(t.wrong, "it is cut short") == 0);
        } else {
            assert_null(t.wrong);
            assert_int_equal((int64_t)sum, structs[i].sum);
            assert_ptr_equal(t.at, t.end);
        }
        free(data);
    }
}

static void test_depth(void **state)
{
    uint8_t deep[100000];
    pq_thrift t = { .at = deep, .end = deep + sizeof deep };
    pq_slot f = { 0 };

    (void)state;
    memset(deep, 0x1c, sizeof deep); /* structs in structs */
    assert_true(pq__thrift_next(&t, &f));
    pq__thrift_skip(&t, &f);
    assert_string_equal(t.wrong, "structs are nested too deep");
}

static void test_lists(void **state)
{
    static const uint8_t data[] = { 0x3c, 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    pq_thrift t = { .at = data, .end = data + sizeof data };
    pq_slot f = { 1, PQ_T_LIST };

    (void)state;
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_STRUCT, 3), 3);
    t = (pq_thrift){ .at = data, .end = data + sizeof data };
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_STRUCT, 4), 0);
    assert_string_equal(t.wrong, "a list is longer than the bytes that are left");
    t = (pq_thrift){ .at = data, .end = data + sizeof data };
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_I32, 1), 0);
    assert_string_equal(t.wrong, "a list has elements of another type");
}

/* ------------------------------------------------------------------------------------------------------- page headers */

static void test_pages(void **state)
{
    /* a data page: 100 values in 300 bytes, 200 stored; a field of the future, 20 */
    static const uint8_t data[] = { 0x15, 0, 0x15, 0xd8, 4,    0x15, 0x90, 3,    0x2c, 0x15, 0xc8, 1,
                                    0x15, 0, 0x15, 6,    0x15, 6,    0,    0x05, 40,   2,    0,    99 };
    hr_error err = HR_ERROR_INIT;
    pq_page p;
    int64_t n;

    (void)state;
    for (int64_t cut = 0; cut < (int64_t)sizeof data - 1; cut++)
        assert_int_equal(pq__page_parse((hr_view){ data, cut }, &p, &n, &err), HR_PENDING);
    assert_ok(pq__page_parse((hr_view){ data, sizeof data }, &p, &n, &err), &err);
    assert_int_equal(n, sizeof data - 1);
    assert_int_equal(p.type, PQ_PAGE_DATA);
    assert_int_equal(p.n_values, 100);
    assert_int_equal(p.memory_bytes, 300);
    assert_int_equal(p.stored_bytes, 200);
    assert_int_equal(p.encoding, PQ_PLAIN);
    assert_status(pq__page_parse((hr_view){ BYTES("\x15\0\x15\x02\x15\x02\0") }, &p, &n, &err), HR_BAD_DATA, &err);
    assert_status(pq__page_parse((hr_view){ BYTES("\x15\0\x15\x01\x15\x02\0") }, &p, &n, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "page header: type 0, 1 bytes, uncompressed -1");
    assert_status(pq__page_parse((hr_view){ BYTES("\x1d") }, &p, &n, &err), HR_BAD_DATA, &err);
}

static void test_index(void **state)
{
    /* pages at 4 (row 0) and 100 (row 50) */
    static const uint8_t data[] = {
        0x19, 0x2c, 0x16, 8, 0x15, 20, 0x16, 0, 0, 0x16, 200, 1, 0x15, 20, 0x16, 100, 0, 0
    };
    static const uint8_t order[] = { 0x19, 0x2c, 0x16, 8, 0x15, 20, 0x16, 0, 0, 0x16, 6, 0x15, 20, 0x16, 100, 0, 0 };
    hr_error err = HR_ERROR_INIT;
    pq_place *places = NULL;
    int64_t n;

    (void)state;
    assert_ok(pq__index_parse((hr_view){ data, sizeof data }, NULL, &places, &n, &err), &err);
    assert_int_equal(n, 2);
    assert_int_equal(places[1].offset, 100);
    assert_int_equal(places[1].row, 50);
    hr__free(places);
    assert_status(pq__index_parse((hr_view){ order, sizeof order }, NULL, &places, &n, &err), HR_BAD_DATA, &err);
    assert_contains(err.text, "offset index: page 1 at 3 begins with row 50");
    assert_status(pq__index_parse((hr_view){ BYTES("\0") }, NULL, &places, &n, &err), HR_BAD_DATA, &err);
    assert_null(places);
}

/* ------------------------------------------------------------------------------------------------------------- footers */

static uint8_t *read_file(const char *name, int64_t *n)
{
    const char *folder = getenv("HEADRACE_TEST_DATA");
    char path[1000];
    hr_stat info;
    uint8_t *data;
    int fd;

    snprintf(path, sizeof path, "%s/parquet/%s", folder ? folder : "tests/data", name);
    fd = hr__file_open(path);
    assert_true(fd >= 0);
    assert_int_equal(hr__file_stat_fd(fd, &info), 0);
    *n = info.n_bytes;
    data = malloc((size_t)*n);
    assert_int_equal(hr__file_read_at(fd, data, *n, 0), *n);
    hr__file_close(fd);
    return data;
}

/* The footer's bytes, and where they begin. */
static uint8_t *read_footer(const char *name, int64_t *n, int64_t *at)
{
    int64_t n_file;
    uint8_t *data = read_file(name, &n_file);
    uint32_t n_footer;

    memcpy(&n_footer, data + n_file - 8, 4);
    *n = n_footer;
    *at = n_file - 8 - *n;
    memmove(data, data + *at, (size_t)*n);
    return data;
}

/* Parses a footer and makes its schema. */
static hr_status parse(const uint8_t *data, int64_t n, int64_t at, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_buffer *bytes = NULL;
    pq_schema *s = NULL;
    pq_meta *m = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_copy(&mem, data, n, &bytes, err));
    HR_GO(pq__meta_parse(bytes, at, "x.parquet", NULL, &m, err));
    HR_GO(pq__schema_new(m, NULL, "x.parquet", NULL, &s, err));
done:
    pq__schema_free(s);
    pq__meta_unref(m);
    return st;
}

static void test_footer(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };
    hr_buffer *bytes = NULL;
    pq_schema *s = NULL;
    pq_meta *m = NULL;
    int64_t n, at;
    uint8_t *data = read_footer("nested_groups.parquet", &n, &at);

    (void)state;
    assert_ok(hr__buffer_copy(&mem, data, n, &bytes, &err), &err);
    assert_ok(pq__meta_parse(bytes, at, "x.parquet", NULL, &m, &err), &err);
    assert_int_equal(m->n_groups, 3);
    assert_int_equal(m->groups[2].n_rows, 30);
    assert_int_equal(m->n_leaves, 11);
    assert_ok(pq__schema_new(m, NULL, "x.parquet", NULL, &s, &err), &err);
    assert_int_equal(s->n_nodes, 8);
    assert_int_equal(s->n_leaves, 11);
    assert_string_equal(s->leaves[8].name, "deep.element.a.element.element");
    assert_int_equal(s->leaves[8].max_rep, 3);
    assert_int_equal(s->leaves[8].max_def, 8);
    pq__schema_free(s);
    pq__meta_unref(m);
    free(data);
}

/* Each byte changed, and cut everywhere: a status, and nothing kept. */
static void test_damaged_footers(void **state)
{
    static const char *const names[] = { "nested_plain.parquet", "int96.parquet" };
    static const uint8_t flips[] = { 0xff, 0x80, 0x01, 0x1c };
    live_memory before = live_now();

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++) {
        int64_t n, at;
        uint8_t *data = read_footer(names[i], &n, &at);

        for (int64_t k = 0; k < n; k += 1 + n / 1000) {
            hr_error err = HR_ERROR_INIT;

            for (int f = 0; f < HR_LEN(flips); f++) {
                data[k] ^= flips[f];
                (void)!parse(data, n, at, &err);
                data[k] ^= flips[f];
            }
            assert_int_not_equal(parse(data, k, at, &err), HR_OK);
            hr_error_clear(&err);
        }
        free(data);
    }
    assert_no_leak(before);
}

static hr_status parse_with_faults(void *context, hr_error *err)
{
    static int64_t n, at;
    static uint8_t *data;

    if (!data)
        data = read_footer(context, &n, &at);
    return parse(data, n, at, err);
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults_on(parse_with_faults, "nested_plain.parquet", HR_FAULT_MEMORY);
}

/* ------------------------------------------------------------------------------------------------ the embedded schema */

static void test_arrow_schema(void **state)
{
    static const hr_type_id want[] = { HR_T_LIST, HR_T_LARGE_LIST, HR_T_LIST, HR_T_STRUCT,
                                       HR_T_MAP,  HR_T_FIXED_LIST, HR_T_LIST, HR_T_FIXED_LIST };
    int64_t n, at;
    uint8_t *data = read_footer("nested_plain.parquet", &n, &at);
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };
    hr_buffer *bytes = NULL;
    hr_schema *schema = NULL;
    pq_meta *m = NULL;
    char *copy;

    (void)state;
    assert_ok(hr__buffer_copy(&mem, data, n, &bytes, &err), &err);
    assert_ok(pq__meta_parse(bytes, at, "x.parquet", NULL, &m, &err), &err);
    assert_ok(pq__arrow_schema_parse(m->arrow_schema, NULL, &schema, &err), &err);
    assert_non_null(schema);
    assert_int_equal(schema->n, 8);
    for (int i = 0; i < HR_LEN(want); i++)
        assert_int_equal(schema->fields[i].type->id, want[i]);
    assert_string_equal(schema->fields[0].type->children[0].name, "item"); /* Arrow's name; Parquet says "element" */
    assert_non_null(schema->fields[7].metadata);
    hr__schema_unref(schema);
    /* damaged, it gives no schema or another one, and no harm */
    copy = malloc((size_t)m->arrow_schema.n);
    memcpy(copy, m->arrow_schema.data, (size_t)m->arrow_schema.n);
    for (int64_t k = 0; k < m->arrow_schema.n; k++) {
        static const char other[] = "A/9=!";
        char had = copy[k];

        for (int i = 0; i < 5; i++) {
            copy[k] = other[i];
            assert_ok(pq__arrow_schema_parse((hr_view){ (uint8_t *)copy, m->arrow_schema.n }, NULL, &schema, &err),
                      &err);
            hr__schema_unref(schema);
        }
        copy[k] = had;
        assert_ok(pq__arrow_schema_parse((hr_view){ (uint8_t *)copy, k }, NULL, &schema, &err), &err);
        hr__schema_unref(schema);
    }
    free(copy);
    pq__meta_unref(m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thrift),          cmocka_unit_test(test_depth),  cmocka_unit_test(test_lists),
        cmocka_unit_test(test_pages),           cmocka_unit_test(test_index),  cmocka_unit_test(test_footer),
        cmocka_unit_test(test_damaged_footers), cmocka_unit_test(test_faults), cmocka_unit_test(test_arrow_schema),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
