/* test_parquet_meta.c - Thrift, footers, page headers, offset indexes, the embedded Arrow schema: what is read of them,
 * and that no byte of them can do harm. */
#include "arrays.h"
#include "format/parquet/parquet_meta.h"

#include <stdio.h>
#include <stdlib.h>

#define BYTES(s) (const uint8_t *)(s), (int64_t)sizeof(s) - 1

/* ----------------------------------------------------------------------------------------------------------- Thrift */

static const struct {
    const uint8_t *data;
    int64_t n;
    const char *wrong; /* NULL: none */
    int64_t sum;       /* of all integers in the top struct */
} structs[] = {
    { BYTES("\0"), NULL, 0 },
    { BYTES("\x15\x02\x15\x04\0"), NULL, 3 }, /* 1: 1, 2: 2 */
    { BYTES("\x05\x50\x02\0"), NULL, 1 },     /* the number written out: 40 */
    { BYTES("\x13\x7f\0"), NULL, 127 },       /* a byte */
    { BYTES("\x15\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0"), NULL, INT64_MIN },
    { BYTES("\x11\x12\x15\x02\0"), NULL, 1 }, /* booleans have no bytes */
    { BYTES("\x18\x03"
            "abc\x15\x02\0"),
      NULL, 1 },                                      /* text is skipped */
    { BYTES("\x1c\x15\x02\0\x15\x02\0"), NULL, 1 },   /* a struct is skipped */
    { BYTES("\x19\x25\x02\x04\x15\x02\0"), NULL, 1 }, /* a list of integers */
    { BYTES("\x19\x21\x01\x02\x15\x02\0"), NULL, 1 }, /* a list of booleans */
    { BYTES("\x1b\x01\x58\x02\x01"
            "a\x15\x02\0"),
      NULL, 1 },                            /* a map of integer to text */
    { BYTES("\x1b\0\x15\x02\0"), NULL, 1 }, /* an empty map */
    { BYTES("\x17"
            "12345678\x15\x02\0"),
      NULL, 1 }, /* a double */
    { BYTES(""), "it is cut off", 0 },
    { BYTES("\x15"), "it is cut off", 0 },
    { BYTES("\x15\x80"), "it is cut off", 0 },
    { BYTES("\x18\x04"
            "abc"),
      "it is cut off", 0 },
    { BYTES("\x18\xff\xff\xff\xff\x0f"
            "abc"),
      "it is cut off", 0 },
    { BYTES("\x19\xf5\xff\xff\xff\xff\x0f\x02"), "it is cut off", 0 },
    { BYTES("\x17"
            "1234"),
      "it is cut off", 0 },
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
            assert_int_equal(t.short_of, strcmp(t.wrong, "it is cut off") == 0);
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
    pq_slot f = { .id = 1, .type = PQ_T_LIST };

    (void)state;
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_STRUCT, 3), 3);
    t = (pq_thrift){ .at = data, .end = data + sizeof data };
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_STRUCT, 4), 0);
    assert_string_equal(t.wrong, "a list is longer than the bytes that are left");
    t = (pq_thrift){ .at = data, .end = data + sizeof data };
    assert_int_equal(pq__thrift_list(&t, &f, PQ_T_I32, 1), 0);
    assert_string_equal(t.wrong, "a list has elements of another type");
}

/* ----------------------------------------------------------------------------------------------------- page headers */

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

/* ---------------------------------------------------------------------------------------------------------- footers */

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

/* ------------------------------------------------------------------------------------------------------------ trees */

/* A tree as text: name, then ? * or ! (optional, repeated, required), then for a leaf i (int32) or s (string), for a
 * group L (list), M (map) or nothing, and [children]. */
typedef struct tree {
    pq_element elements[400];
    pq_meta meta;
} tree;

static const char *read_tree(tree *t, const char *s)
{
    while (*s && *s != ']') {
        pq_element *e = &t->elements[t->meta.n_elements++];

        *e = (pq_element){ .physical = -1, .field_id = -1, .name.data = (const uint8_t *)s };
        e->name.n = (int64_t)strcspn(s, "?*!");
        s += e->name.n;
        e->repetition = *s == '?' ? PQ_OPTIONAL : *s == '*' ? PQ_REPEATED : PQ_REQUIRED;
        s++;
        e->logical = *s == 'L' ? PQ_L_LIST : *s == 'M' ? PQ_L_MAP : *s == 's' ? PQ_L_STRING : PQ_L_NONE;
        if (*s == 'i' || *s == 's') {
            e->physical = *s == 'i' ? PQ_INT32 : PQ_BYTE_ARRAY;
            t->meta.n_leaves++;
        }
        s += *s != '[';
        if (*s == '[') {
            int first = t->meta.n_elements;

            s = read_tree(t, s + 1) + 1;
            for (int i = first; i < t->meta.n_elements; e->n_children++) {
                for (int open = 1; open > 0; i++)
                    open += t->elements[i].n_children - 1;
            }
        }
        s += strspn(s, " ");
    }
    return s;
}

static const struct {
    const char *tree;
    hr_status st;
    const char *want; /* the column's type and nullability, or the error */
} trees[] = {
    { "a?i", HR_OK, "int32" },
    { "a!s", HR_OK, "string not null" },
    { "a?[x?i y!s]", HR_OK, "struct<x: int32, y: string not null>" },
    /* lists in three levels */
    { "a?L[list*[element?s]]", HR_OK, "list<element: string>" },
    { "a!L[bag*[array_element!i]]", HR_OK, "list<array_element: int32 not null> not null" },
    { "a?L[list*[element?[x?i]]]", HR_OK, "list<element: struct<x: int32>>" },
    { "a?L[list*[element?L[list*[element?i]]]]", HR_OK, "list<element: list<element: int32>>" },
    /* in two */
    { "a?L[element*i]", HR_OK, "list<element: int32 not null>" },
    { "a?L[element*[x?i y?s]]", HR_OK, "list<element: struct<x: int32, y: string> not null>" },
    { "a?L[array*[x?i]]", HR_OK, "list<array: struct<x: int32> not null>" },
    { "a?L[a_tuple*[x?i]]", HR_OK, "list<a_tuple: struct<x: int32> not null>" },
    { "a?L[array*L[item*i]]", HR_OK, "list<array: list<item: int32 not null> not null>" },
    { "a?L[array*M[kv*[key!s value?i]]]", HR_OK, "list<array: map<string, int32 ('kv')> not null>" },
    /* in one */
    { "a*i", HR_OK, "list<a: int32 not null> not null" },
    { "a*[x?i]", HR_OK, "list<a: struct<x: int32> not null> not null" },
    { "a*L[list*[element?i]]", HR_OK, "list<a: list<element: int32> not null> not null" },
    { "a?[b*i]", HR_OK, "struct<b: list<b: int32 not null> not null>" },
    /* maps */
    { "a?M[key_value*[key!s value?i]]", HR_OK, "map<string, int32 ('key_value')>" },
    { "a?M[map*[key!s]]", HR_OK, "list<key: string not null>" },
    /* and what is none */
    { "a?L[x?i]", HR_BAD_DATA, "x.parquet: column 'a': a list needs one repeated child" },
    { "a?L[x*i y*i]", HR_BAD_DATA, "column 'a': a list needs one repeated child" },
    { "a?L[x*[y*i]]", HR_BAD_DATA, "column 'a': a group with one repeated child is not a list" },
    { "a?M[kv*[a!i b!i c!i]]", HR_BAD_DATA, "column 'a': a map needs one repeated group of key and value" },
    { "a?M[kv?[a!i b!i]]", HR_BAD_DATA, "column 'a': a map needs one repeated group" },
    { "a?[b?[c?L[x?i]]]", HR_BAD_DATA, "column 'a.b.c': a list needs one repeated child" },
};

static hr_status tree_schema(const char *text, pq_schema **out, hr_error *err)
{
    static tree t;

    memset(&t, 0, sizeof t);
    t.elements[t.meta.n_elements++] = (pq_element){ .physical = -1, .n_children = 1 };
    read_tree(&t, text);
    t.meta.elements = t.elements;
    return pq__schema_new(&t.meta, NULL, "x.parquet", NULL, out, err);
}

static void test_trees(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(trees); i++) {
        hr_error err = HR_ERROR_INIT;
        pq_schema *s = NULL;
        char got[200];

        assert_status(tree_schema(trees[i].tree, &s, &err), trees[i].st, &err);
        if (trees[i].st) {
            assert_contains(err.text, trees[i].want);
            continue;
        }
        snprintf(got, sizeof got, "%s%s", type_text(s->nodes[0].field.type),
                 s->nodes[0].field.nullable ? "" : " not null");
        assert_string_equal(got, trees[i].want);
        pq__schema_free(s);
    }
}

/* Nested as deep as types go, and deeper. */
static void test_deep_trees(void **state)
{
    static const struct {
        const char *first, *open, *leaf, *close, *last;
    } shapes[] = { { "", "a?L[list*[", "x?i", "]]", "" },
                   { "", "a?[", "x?i", "]", "" },
                   { "a?L[", "array*L[", "x*i", "]", "]" } };

    (void)state;
    for (int k = 0; k < HR_LEN(shapes) * 2; k++) {
        int depth = k % 2 ? 90 : 10;
        hr_error err = HR_ERROR_INIT;
        pq_schema *s = NULL;
        char text[3000];

        strcpy(text, shapes[k / 2].first);
        for (int i = 0; i < depth; i++)
            strcat(text, shapes[k / 2].open);
        strcat(text, shapes[k / 2].leaf);
        for (int i = 0; i < depth; i++)
            strcat(text, shapes[k / 2].close);
        strcat(text, shapes[k / 2].last);
        assert_status(tree_schema(text, &s, &err), k % 2 ? HR_UNSUPPORTED : HR_OK, &err);
        assert_true(k % 2 == 0 || strstr(err.text, "x.parquet: "));
        pq__schema_free(s);
        hr_error_clear(&err);
    }
}

/* The type of one leaf. */
static const struct {
    pq_element e;
    const char *want; /* NULL: it does not fit */
} leaves[] = {
    { { .physical = PQ_BOOLEAN }, "bool" },
    { { .physical = PQ_INT32, .logical = PQ_L_INTEGER, .bits = 8, .is_signed = true }, "int8" },
    { { .physical = PQ_INT32, .logical = PQ_L_INTEGER, .bits = 16 }, "uint16" },
    { { .physical = PQ_INT32, .logical = PQ_L_INTEGER, .bits = 32 }, "uint32" },
    { { .physical = PQ_INT64, .logical = PQ_L_INTEGER, .bits = 64 }, "uint64" },
    { { .physical = PQ_INT32, .logical = PQ_L_INTEGER, .bits = 24 }, NULL },
    { { .physical = PQ_INT64, .logical = PQ_L_INTEGER, .bits = 8 }, NULL },
    { { .physical = PQ_INT32, .logical = PQ_L_DATE }, "date32[day]" },
    { { .physical = PQ_INT64, .logical = PQ_L_DATE }, NULL },
    { { .physical = PQ_INT32, .logical = PQ_L_TIME, .unit = HR_MILLI }, "time32[ms]" },
    { { .physical = PQ_INT32, .logical = PQ_L_TIME, .unit = HR_MICRO }, NULL },
    { { .physical = PQ_INT64, .logical = PQ_L_TIME, .unit = HR_NANO }, "time64[ns]" },
    { { .physical = PQ_INT64, .logical = PQ_L_TIME, .unit = HR_MILLI }, NULL },
    { { .physical = PQ_INT64, .logical = PQ_L_TIMESTAMP, .unit = HR_MILLI }, "timestamp[ms]" },
    { { .physical = PQ_INT64, .logical = PQ_L_TIMESTAMP, .unit = HR_NANO, .utc = true }, "timestamp[ns, tz=UTC]" },
    { { .physical = PQ_INT32, .logical = PQ_L_TIMESTAMP }, NULL },
    { { .physical = PQ_INT96 }, "timestamp[ns]" },
    { { .physical = PQ_FLOAT }, "float" },
    { { .physical = PQ_DOUBLE, .logical = PQ_L_DATE }, NULL },
    { { .physical = PQ_BYTE_ARRAY }, "binary" },
    { { .physical = PQ_BYTE_ARRAY, .logical = PQ_L_ENUM }, "binary" },
    { { .physical = PQ_BYTE_ARRAY, .logical = PQ_L_JSON }, "string" },
    { { .physical = PQ_BYTE_ARRAY, .logical = PQ_L_OTHER }, "binary" },
    { { .physical = PQ_BYTE_ARRAY, .logical = PQ_L_DATE }, NULL },
    { { .physical = PQ_FIXED, .width = 16, .logical = PQ_L_UUID }, "fixed_size_binary[16]" },
    { { .physical = PQ_FIXED, .width = 12, .logical = PQ_L_INTERVAL }, "fixed_size_binary[12]" },
    { { .physical = PQ_FIXED, .width = 11, .logical = PQ_L_INTERVAL }, NULL },
    { { .physical = PQ_FIXED, .width = 2, .logical = PQ_L_FLOAT16 }, "halffloat" },
    { { .physical = PQ_FIXED, .width = 4, .logical = PQ_L_FLOAT16 }, NULL },
    { { .physical = PQ_FIXED, .width = 4, .logical = PQ_L_STRING }, NULL },
    { { .physical = PQ_FIXED, .logical = PQ_L_DECIMAL, .precision = 3 }, NULL },
    { { .physical = PQ_FIXED, .width = 9, .logical = PQ_L_DECIMAL, .precision = 20, .scale = 2 }, "decimal128(20, 2)" },
    { { .physical = PQ_FIXED, .width = 20, .logical = PQ_L_DECIMAL, .precision = 40 }, "decimal256(40, 0)" },
    { { .physical = PQ_BYTE_ARRAY, .logical = PQ_L_DECIMAL, .precision = 5, .scale = 5 }, "decimal128(5, 5)" },
    { { .physical = PQ_INT64, .logical = PQ_L_DECIMAL, .precision = 19 }, NULL },
    { { .physical = PQ_INT64, .logical = PQ_L_DECIMAL, .precision = 9, .scale = 10 }, NULL },
    { { .physical = PQ_DOUBLE, .logical = PQ_L_DECIMAL, .precision = 9 }, NULL },
    { { .physical = PQ_INT32, .logical = PQ_L_NULL }, "null" },
    { { .physical = -1 }, NULL }, /* a group without children */
};

static void test_leaves(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(leaves); i++) {
        pq_element elements[2] = { { .physical = -1, .n_children = 1 }, leaves[i].e };
        pq_meta m = { .elements = elements, .n_elements = 2, .n_leaves = 1 };
        hr_error err = HR_ERROR_INIT;
        pq_schema *s = NULL;
        hr_status st;

        elements[1].name = (hr_view){ (const uint8_t *)"x", 1 };
        st = pq__schema_new(&m, NULL, "x.parquet", NULL, &s, &err);
        assert_status(st, leaves[i].want ? HR_OK : HR_BAD_DATA, &err);
        if (st)
            assert_contains(err.text, "x.parquet: column 'x': ");
        else
            assert_string_equal(type_text(s->nodes[0].field.type), leaves[i].want);
        pq__schema_free(s);
        hr_error_clear(&err);
    }
}

/* ---------------------------------------------------------------------------------------------- the embedded schema */

static void test_arrow_schema(void **state)
{
    static const hr_type_id want[] = { HR_T_LIST, HR_T_LARGE_LIST, HR_T_LIST, HR_T_STRUCT,
                                       HR_T_MAP,  HR_T_FIXED_LIST, HR_T_LIST, HR_T_TENSOR };
    int64_t n, at;
    uint8_t *data = read_footer("nested_plain.parquet", &n, &at);
    hr_error err = HR_ERROR_INIT;
    hr_mem mem = { NULL, NULL };
    hr_buffer *bytes = NULL;
    hr_schema *schema = NULL;
    pq_meta *m = NULL;
    int n_whole = 0;
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
    hr__schema_unref(schema);
    /* damaged, it is an error or gives another one, and no harm */
    copy = malloc((size_t)m->arrow_schema.n);
    memcpy(copy, m->arrow_schema.data, (size_t)m->arrow_schema.n);
    for (int64_t k = 0; k < m->arrow_schema.n; k++) {
        static const char other[] = "A/9=!";
        char had = copy[k];

        for (int i = 0; i < 5; i++) {
            copy[k] = other[i];
            hr_status st = pq__arrow_schema_parse((hr_view){ (uint8_t *)copy, m->arrow_schema.n }, NULL, &schema, &err);

            assert_true(st == HR_BAD_DATA || (st == HR_OK && i < 4));
            hr__schema_unref(schema);
            hr_error_clear(&err);
        }
        copy[k] = had;
        n_whole += !pq__arrow_schema_parse((hr_view){ (uint8_t *)copy, k }, NULL, &schema, &err);
        hr__schema_unref(schema);
        hr_error_clear(&err);
    }
    assert_in_range(n_whole, 0, 12); /* of those that were cut: padding at the end */
    free(copy);
    pq__meta_unref(m);
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_thrift),          cmocka_unit_test(test_depth),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_pages),           cmocka_unit_test(test_index),      cmocka_unit_test(test_footer),
        cmocka_unit_test(test_damaged_footers), cmocka_unit_test(test_faults),     cmocka_unit_test(test_arrow_schema),
        cmocka_unit_test(test_trees),           cmocka_unit_test(test_deep_trees), cmocka_unit_test(test_leaves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
