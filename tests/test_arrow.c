/* test_arrow.c - the Arrow C data interface: there and back for every type; foreign arrays in every supported encoding;
 * damaged ones; releases. */
#include "arrays.h"

#include <stdio.h>
#include <stdlib.h>

/* --------------------------------------------------------------------------------------------------- there and back */

static void types_there_and_back(void **state)
{
    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_field f = { 0 };
        hr_schema *s = NULL, *again = NULL;
        struct ArrowSchema exported;
        hr_error err = HR_ERROR_INIT;
        live_memory before = live_now();
        char text[1000];

        assert_ok(hr__field_init(&f, "x", type, k % 2, &err), &err);
        assert_ok(hr__metadata_set(&f.metadata, &f.metadata_bytes, "unit", "cm", 2, &err), &err);
        assert_ok(hr__schema_new(&f, 1, &s, &err), &err);
        assert_ok(hr__metadata_set(&s->metadata, &s->metadata_bytes, "made by", "hand", 4, &err), &err);
        assert_ok(hr__schema_export(s, &exported, &err), &err);
        assert_ok(hr__schema_import(&exported, &again, &err), &err);
        assert_null(exported.release);
        snprintf(text, sizeof text, "%s", type_text(type));
        assert_string_equal(type_text(again->fields[0].type), text);
        assert_true(hr__schema_equal(s, again));
        assert_int_equal(again->fields[0].nullable, k % 2);
        assert_int_equal(again->metadata_bytes, s->metadata_bytes);
        assert_memory_equal(again->metadata, s->metadata, (size_t)s->metadata_bytes);
        assert_int_equal(again->fields[0].metadata_bytes, f.metadata_bytes);
        assert_memory_equal(again->fields[0].metadata, f.metadata, (size_t)f.metadata_bytes);
        hr__schema_unref(s);
        hr__schema_unref(again);
        hr__field_clear(&f);
        assert_no_leak(before);
        hr__type_unref(type);
    }
}

static void arrays_there_and_back(void **state)
{
    uint64_t seed = 1;

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        for (int round = 0; round < 6; round++) {
            hr_type *type = sample_type(k);
            live_memory before = live_now();
            hr_array *a = random_array(&seed, type, round ? 20 : 0), *again = NULL, *copy = NULL;
            struct ArrowSchema schema;
            struct ArrowArray array;
            hr_error err = HR_ERROR_INIT;

            assert_int_equal(hr__array_concat(NULL, type, &a, 1, &copy, NULL), HR_OK);
            assert_ok(hr__type_export(type, &schema, &err), &err);
            assert_ok(hr__array_export(a, &array, &err), &err);
            hr__array_unref(a); /* the exported one holds what it needs */
            assert_ok(hr__array_import(&array, &schema, &again, &err), &err);
            assert_null(array.release);
            schema.release(&schema);
            assert_same_array(again, copy);
            assert_int_equal(hr__array_null_count(again), hr__array_null_count(copy));
            assert_ok(hr__array_check(again, true, &err), &err);
            hr__array_unref(again);
            hr__array_unref(copy);
            assert_no_leak(before);
            hr__type_unref(type);
        }
    }
}

static void tables_there_and_back(void **state)
{
    uint64_t seed = 2;
    hr_type *types[64];
    int n_types = HR_MIN(n_sample_types(), HR_LEN(types));

    (void)state;
    for (int i = 0; i < n_types; i++)
        types[i] = sample_type(i);
    for (int round = 0; round < 3; round++) {
        live_memory before = live_now();
        hr_table *t = random_table(&seed, types, round == 2 ? 0 : n_types, 30), *again = NULL;
        struct ArrowSchema schema;
        struct ArrowArray array;
        hr_error err = HR_ERROR_INIT;

        assert_ok(hr_table_export(t, &schema, &array, &err), &err);
        if (round == 1) { /* rows 5 to 24, by the offset of the top array */
            array.offset = 5;
            array.length = 20;
        }
        assert_ok(hr_table_import(&schema, &array, &again, &err), &err);
        assert_null(schema.release);
        assert_null(array.release);
        assert_int_equal(hr_table_rows(again), round == 1 ? 20 : 30);
        assert_int_equal(hr_table_columns(again), round == 2 ? 0 : n_types);
        assert_ok(hr__table_check(again, true, &err), &err);
        for (int c = 0; c < hr_table_columns(again); c++) {
            hr_array *part = NULL;

            assert_ok(hr__array_slice(t->columns[c], round == 1 ? 5 : 0, hr_table_rows(again), &part, &err), &err);
            assert_same_array(again->columns[c], part);
            hr__array_unref(part);
        }
        hr_table_unref(again);
        assert_ok(hr_table_export(t, &schema, NULL, &err), &err);
        assert_ok(hr_table_export(t, NULL, &array, &err), &err);
        hr_table_unref(t);
        schema.release(&schema);
        array.release(&array);
        assert_no_leak(before);
    }
    for (int i = 0; i < n_types; i++)
        hr__type_unref(types[i]);
}

/* A consumer may move children out, release the parent, and use the children still. */
static void moved_children(void **state)
{
    hr_type *types[2] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING) };
    live_memory before = live_now();
    uint64_t seed = 3;
    hr_table *t = random_table(&seed, types, 2, 10);
    struct ArrowSchema schema, text_schema;
    struct ArrowArray array, text;
    hr_array *a = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(hr_table_export(t, &schema, &array, &err), &err);
    text = *array.children[1];
    array.children[1]->release = NULL;
    text_schema = *schema.children[1];
    schema.children[1]->release = NULL;
    array.release(&array);
    schema.release(&schema);
    assert_string_equal(text_schema.name, "c1");
    assert_ok(hr__array_import(&text, &text_schema, &a, &err), &err);
    assert_same_array(a, t->columns[1]);
    text_schema.release(&text_schema);
    hr__array_unref(a);
    hr_table_unref(t);
    assert_no_leak(before);
}

/* --------------------------------------------------------------------------------------------------- foreign arrays */

static atomic_int n_released;

static void schema_gone(struct ArrowSchema *s)
{
    assert_non_null(s->release);
    s->release = NULL;
}

static void array_gone(struct ArrowArray *a)
{
    atomic_fetch_add(&n_released, 1);
    a->release = NULL;
}

/* A foreign array and its schema, by hand. */
typedef struct node {
    struct ArrowSchema s;
    struct ArrowArray a;
    struct ArrowSchema *schemas[2];
    struct ArrowArray *arrays[2];
    const void *buffers[6];
} node;

static void node_init(node *n, const char *format, int64_t length, int n_buffers, const void *b0, const void *b1,
                      const void *b2)
{
    *n = (node){ .buffers = { b0, b1, b2 } };
    n->s = (struct ArrowSchema){ .format = format, .name = "x", .flags = ARROW_FLAG_NULLABLE, .release = schema_gone };
    n->a = (struct ArrowArray){ .length = length, .null_count = -1, .n_buffers = n_buffers, .release = array_gone };
    n->a.buffers = n->buffers;
}

static void node_child(node *n, node *child)
{
    n->schemas[n->s.n_children] = &child->s;
    n->arrays[n->s.n_children] = &child->a;
    n->s.children = n->schemas;
    n->a.children = n->arrays;
    n->s.n_children++;
    n->a.n_children++;
}

static void node_dictionary(node *n, node *values)
{
    n->s.dictionary = &values->s;
    n->a.dictionary = &values->a;
}

/* The values as text, or the error; the type comes first. */
static void assert_imports(node *n, const char *type, const char *values)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_array *a = NULL;
    int released = atomic_load(&n_released);

    assert_ok(hr__array_import(&n->a, &n->s, &a, &err), &err);
    assert_string_equal(type_text(a->type), type);
    assert_string_equal(values_text(a), values);
    assert_ok(hr__array_check(a, true, &err), &err);
    hr__array_unref(a);
    assert_int_equal(atomic_load(&n_released), released + 1);
    assert_no_leak(before);
}

static void assert_refused(node *n, hr_status st, const char *part)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_array *a = NULL;
    int released = atomic_load(&n_released);

    assert_status(hr__array_import(&n->a, &n->s, &a, &err), st, &err);
    assert_contains(err.text, part);
    assert_null(a);
    assert_int_equal(atomic_load(&n_released), released + 1);
    assert_no_leak(before);
}

static const uint8_t all_but_second = 0xFD;
static const int32_t abc_offsets[] = { 0, 1, 3, 6 };
static const char abc_bytes[] = "abbccc";

static void strings_init(node *n) { node_init(n, "u", 3, 3, NULL, abc_offsets, abc_bytes); }

static void dictionaries(void **state)
{
    static const int8_t i8[] = { 0, 2, 1, 0 };
    static const uint16_t u16[] = { 0, 2, 1, 0 };
    static const int32_t i32[] = { 0, 2, 1, 0 };
    static const uint64_t u64[] = { 0, 2, 1, 0 };
    static const struct {
        const char *format;
        const void *data;
    } kinds[] = { { "c", i8 },  { "C", i8 },  { "S", u16 }, { "s", u16 },
                  { "i", i32 }, { "I", i32 }, { "l", u64 }, { "L", u64 } };
    static const int8_t outside[] = { 0, 3, 1, -1 };
    static const uint64_t beyond[] = { UINT64_MAX };
    node n, values;

    (void)state;
    strings_init(&values);
    for (int i = 0; i < HR_LEN(kinds); i++) {
        node_init(&n, kinds[i].format, 4, 2, NULL, kinds[i].data, NULL);
        node_dictionary(&n, &values);
        assert_imports(&n, "string", "a ccc bb a");
        node_init(&n, kinds[i].format, 3, 2, &all_but_second, kinds[i].data, NULL);
        n.a.offset = 1;
        node_dictionary(&n, &values);
        assert_imports(&n, "string", "null bb a");
    }
    node_init(&n, "c", 4, 2, NULL, outside, NULL);
    node_dictionary(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "row 1: index 3 into a dictionary of 3");
    node_init(&n, "c", 1, 2, NULL, outside + 3, NULL);
    node_dictionary(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "row 0: index -1");
    node_init(&n, "L", 1, 2, NULL, beyond, NULL);
    node_dictionary(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "row 0: index");
    node_init(&n, "f", 1, 2, NULL, beyond, NULL);
    node_dictionary(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "have the format 'f', expected");
    node_init(&n, "c", 1, 2, NULL, NULL, NULL);
    node_dictionary(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "no buffer for 1 indices");
    node_init(&n, "c", 4, 2, NULL, i8, NULL);
    node_dictionary(&n, &values);
    n.a.dictionary = NULL;
    assert_refused(&n, HR_BAD_DATA, "lacks the dictionary of its schema");
    node_init(&n, "c", 4, 2, NULL, i8, NULL);
    n.a.dictionary = &values.a;
    assert_refused(&n, HR_BAD_DATA, "a dictionary, the schema has none");
    node_init(&n, "c", 0, 2, NULL, NULL, NULL);
    node_dictionary(&n, &values);
    assert_imports(&n, "string", "");
}

typedef struct view {
    int32_t length;
    union {
        char inlined[12];
        struct {
            char prefix[4];
            int32_t buffer, offset;
        } far;
    } u;
} view;

static void views(void **state)
{
    static const char first[] = "thirteen byte", second[] = "..fourteen bytes";
    static const int64_t sizes[] = { 13, 16 };
    view v[4] = {
        { 3, { "abc" } }, { 99, { "null" } }, { 13, { .far = { "thir", 0, 0 } } }, { 14, { .far = { "four", 1, 2 } } }
    };
    node n;

    (void)state;
    for (int i = 0; i < 2; i++) {
        node_init(&n, i ? "vz" : "vu", 4, 5, &all_but_second, v, first);
        n.buffers[3] = second;
        n.buffers[4] = sizes;
        assert_imports(&n, i ? "large_binary" : "large_string", "abc null thirteen byte fourteen bytes");
    }
    for (int i = 0; i < 6; i++) {
        view bad = v[3];

        bad.u.far.buffer = i == 0 ? 2 : i == 1 ? -1 : 1;
        bad.u.far.offset = i == 2 ? 3 : i == 3 ? -1 : i == 5 ? INT32_MAX : 2;
        bad.length = i == 4 ? -1 : 14;
        node_init(&n, "vu", 1, 5, NULL, &bad, first);
        n.buffers[3] = second;
        n.buffers[4] = sizes;
        assert_refused(&n, HR_BAD_DATA, "row 0: a view of");
    }
    for (int i = 0; i < 2; i++) { /* changed length or bytes: the other half of the view detects it */
        view bad = i ? v[3] : v[0];

        if (i)
            bad.u.far.prefix[2] = 'x';
        else
            bad.length = 2;
        node_init(&n, "vu", 1, 5, NULL, &bad, first);
        n.buffers[3] = second;
        n.buffers[4] = sizes;
        assert_refused(&n, HR_BAD_DATA, i ? "row 0: a view of 14 bytes and its bytes differ" : "a view of 2 bytes");
    }
    node_init(&n, "vu", 1, 3, NULL, &v[2], NULL); /* no data buffers at all */
    assert_refused(&n, HR_BAD_DATA, "a view of");
    node_init(&n, "vu", 1, 2, NULL, v, NULL);
    assert_refused(&n, HR_BAD_DATA, "2 buffers, format 'vu' has 3");
    node_init(&n, "vu", 1, 3, NULL, NULL, NULL);
    assert_refused(&n, HR_BAD_DATA, "no buffer for 1 views");
    node_init(&n, "vu", 0, 3, NULL, NULL, NULL);
    assert_imports(&n, "large_string", "");
}

static void list_views(void **state)
{
    static const int32_t offsets[] = { 1, 9, 0, 1 }, sizes[] = { 2, 9, 3, 0 };
    static const int64_t large_offsets[] = { 1, 9, 0, 1 }, large_sizes[] = { 2, 9, 3, 0 };
    static const int32_t bad_sizes[] = { 3, -1 }, huge_sizes[] = { 3, 3 };
    node n, values;

    (void)state;
    strings_init(&values);
    node_init(&n, "+vl", 4, 3, &all_but_second, offsets, sizes);
    node_child(&n, &values);
    assert_imports(&n, "list<x: string>", "[\"bb\", \"ccc\"] null [\"a\", \"bb\", \"ccc\"] []");
    node_init(&n, "+vL", 3, 3, &all_but_second, large_offsets, large_sizes);
    n.a.offset = 1;
    node_child(&n, &values);
    assert_imports(&n, "large_list<x: string>", "null [\"a\", \"bb\", \"ccc\"] []");
    node_init(&n, "+vl", 1, 3, NULL, offsets, bad_sizes);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "row 0: 3 values from value 1, of 3");
    node_init(&n, "+vl", 1, 3, NULL, offsets, bad_sizes + 1);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "row 0: -1 values");
    node_init(&n, "+vl", 1, 3, NULL, offsets, NULL);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "no buffers");
    node_init(&n, "+vl", 0, 3, NULL, NULL, NULL);
    node_child(&n, &values);
    assert_imports(&n, "list<x: string>", "");
    node_init(&n, "+vl", 2, 3, NULL, offsets + 2, huge_sizes);
    node_child(&n, &values);
    n.a.n_children = 0;
    assert_refused(&n, HR_BAD_DATA, "0 children, format '+vl' has 1");
}

static void run_ends(void **state)
{
    static const int16_t ends16[] = { 1, 3, 6 };
    static const int32_t ends32[] = { 1, 3, 6, 9 };
    static const int64_t ends64[] = { 1, 3, 6 };
    static const struct {
        const char *format;
        const void *data;
    } kinds[] = { { "s", ends16 }, { "i", ends32 }, { "l", ends64 } };
    static const int32_t falling[] = { 2, 1, 6 }, negative[] = { -5, 3, 6 };
    node n, ends, values;

    (void)state;
    strings_init(&values);
    values.buffers[0] = &all_but_second;
    for (int i = 0; i < HR_LEN(kinds); i++) {
        node_init(&ends, kinds[i].format, 3, 2, NULL, kinds[i].data, NULL);
        node_init(&n, "+r", 6, 0, NULL, NULL, NULL);
        node_child(&n, &ends);
        node_child(&n, &values);
        assert_imports(&n, "string", "a null null ccc ccc ccc");
        node_init(&n, "+r", 3, 0, NULL, NULL, NULL);
        n.a.offset = 2;
        node_child(&n, &ends);
        node_child(&n, &values);
        assert_imports(&n, "string", "null ccc ccc");
    }
    for (int i = 0; i < 6; i++) {
        static const uint8_t not_the_last = 0x03;
        static const char *const parts[] = { "run 1 ends at 1, the one before at 2",
                                             "run 0 ends at -5, the one before at 0",
                                             "ends at row 6, expected 7 rows",
                                             "ends at row 0, expected 6 rows",
                                             "4 runs of 3 values",
                                             "some run ends are null" };

        node_init(&ends, "i",
                  i == 3   ? 0
                  : i == 4 ? 4
                           : 3,
                  2, NULL,
                  i == 0   ? falling
                  : i == 1 ? negative
                           : ends32,
                  NULL);
        if (i == 5) {
            ends.buffers[0] = &not_the_last;
            ends.a.null_count = 1;
        }
        node_init(&n, "+r", i == 2 ? 7 : 6, 0, NULL, NULL, NULL); /* one row beyond the last end */
        node_child(&n, &ends);
        node_child(&n, &values);
        assert_refused(&n, HR_BAD_DATA, parts[i]);
    }
    /* Runs that end after each other but not beyond the rows: those after the rows were never looked at. */
    node_init(&ends, "i", 3, 2, NULL, (const int32_t[]){ 2, 7, 6 }, NULL);
    node_init(&n, "+r", 4, 0, NULL, NULL, NULL);
    node_child(&n, &ends);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "run 2 ends at 6, the one before at 7");
    node_init(&ends, "f", 3, 2, NULL, ends32, NULL);
    node_init(&n, "+r", 6, 0, NULL, NULL, NULL);
    node_child(&n, &ends);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "the run ends have the format 'f'");
    node_init(&n, "+r", 6, 0, NULL, NULL, NULL);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, ", expected 2");
    node_init(&ends, "i", 3, 2, NULL, NULL, NULL);
    node_init(&n, "+r", 6, 0, NULL, NULL, NULL);
    node_child(&n, &ends);
    node_child(&n, &values);
    assert_refused(&n, HR_BAD_DATA, "no buffer for 3 run ends");
}

static void small_decimals(void **state)
{
    static const int32_t d32[] = { 12345, 0, -12345 };
    static const int64_t d64[] = { 12345, 0, -12345 };
    node n;

    (void)state;
    node_init(&n, "d:9,2,32", 3, 2, &all_but_second, d32, NULL);
    assert_imports(&n, "decimal128(9, 2)", "123.45 null -123.45");
    node_init(&n, "d:18,1,64", 2, 2, &all_but_second, d64, NULL);
    n.a.offset = 1;
    assert_imports(&n, "decimal128(18, 1)", "null -1234.5");
    node_init(&n, "d:99,1,64", 2, 2, NULL, d64, NULL);
    assert_refused(&n, HR_BAD_DATA, "'d:99,1,64'");
    node_init(&n, "d:x,1,64", 2, 2, NULL, d64, NULL);
    assert_refused(&n, HR_BAD_DATA, "decimal format");
}

/* Encodings inside of encodings. */
static void nested_encodings(void **state)
{
    static const int8_t idx[] = { 2, 0, 1 };
    static const int32_t ends[] = { 2, 3 }, offsets[] = { 0, 1, 3 };
    node n, runs, end, words, list;

    (void)state;
    strings_init(&words);
    node_init(&list, "c", 3, 2, NULL, idx, NULL);
    node_dictionary(&list, &words);
    node_init(&n, "+l", 2, 2, NULL, offsets, NULL);
    node_child(&n, &list);
    node_init(&end, "i", 2, 2, NULL, ends, NULL);
    node_init(&runs, "+r", 3, 0, NULL, NULL, NULL);
    node_child(&runs, &end);
    node_child(&runs, &n);
    assert_imports(&runs, "list<x: string>", "[\"ccc\"] [\"ccc\"] [\"a\", \"bb\"]");
}

/* --------------------------------------------------------------------------------- buffers that producers leave out */

static void empty_arrays_of_null_buffers(void **state)
{
    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        struct ArrowSchema schema;
        hr_array *a = NULL, *empty = NULL;
        struct ArrowArray array;
        static const void *none[3] = { NULL, NULL, NULL };
        hr_error err = HR_ERROR_INIT;

        assert_int_equal(hr__array_nulls(NULL, type, 0, &empty, NULL), HR_OK);
        assert_int_equal(hr__array_export(empty, &array, NULL), HR_OK);
        assert_int_equal(hr__type_export(type, &schema, NULL), HR_OK);
        array.buffers = none;
        array.null_count = -1;
        assert_ok(hr__array_import(&array, &schema, &a, &err), &err);
        assert_int_equal(a->length, 0);
        assert_same_array(a, empty);
        schema.release(&schema);
        hr__array_unref(a);
        hr__array_unref(empty);
        hr__type_unref(type);
    }
}

static void unaligned_values_are_copied(void **state)
{
    static const int64_t values[] = { 1, -2, 3 };
    uint8_t bytes[40] __attribute__((aligned(8)));
    hr_array *a = NULL;
    hr_error err = HR_ERROR_INIT;
    node n;

    (void)state;
    memcpy(bytes + 3, values, sizeof values);
    node_init(&n, "l", 3, 2, NULL, bytes + 3, NULL);
    assert_ok(hr__array_import(&n.a, &n.s, &a, &err), &err);
    assert_int_equal((uintptr_t)a->buffers[1]->data % 8, 0);
    assert_string_equal(values_text(a), "1 -2 3");
    hr__array_unref(a);
    memcpy(bytes + 1, abc_offsets, sizeof abc_offsets);
    node_init(&n, "u", 3, 3, NULL, bytes + 1, abc_bytes);
    assert_imports(&n, "string", "a bb ccc");
    memcpy(bytes + 8, values, sizeof values);
    node_init(&n, "l", 3, 2, NULL, bytes + 8, NULL);
    assert_ok(hr__array_import(&n.a, &n.s, &a, &err), &err);
    assert_ptr_equal(a->buffers[1]->data, bytes + 8); /* not copied */
    hr__array_unref(a);
}

/* null_count 0 is trusted and drops the bitmap; other numbers are not trusted. */
static void null_counts(void **state)
{
    static const int64_t values[] = { 1, 2, 3 };
    static const struct {
        int64_t null_count;
        const char *text;
    } counts[] = { { 0, "1 2 3" }, { -1, "1 null 3" }, { 1, "1 null 3" }, { 3, "1 null 3" } };
    node n;

    (void)state;
    for (int i = 0; i < HR_LEN(counts); i++) {
        node_init(&n, "l", 3, 2, &all_but_second, values, NULL);
        n.a.null_count = counts[i].null_count;
        assert_imports(&n, "int64", counts[i].text);
    }
}

/* ----------------------------------------------------------------------------------------------------------- damage */

typedef struct family {
    node top, text, numbers, list, items;
} family;

/* A table of a string, an int64 and a list<int64> column, of three rows. */
static void family_init(family *f)
{
    static const int64_t values[] = { 1, 2, 3, 4, 5, 6 };

    strings_init(&f->text);
    node_init(&f->numbers, "l", 3, 2, NULL, values, NULL);
    node_init(&f->items, "l", 6, 2, NULL, values, NULL);
    node_init(&f->list, "+l", 3, 2, NULL, abc_offsets, NULL);
    node_child(&f->list, &f->items);
    node_init(&f->top, "+s", 3, 1, NULL, NULL, NULL);
    f->text.s.name = "text";
    f->numbers.s.name = "numbers";
    f->list.s.name = "list";
    node_child(&f->top, &f->text);
    node_child(&f->top, &f->list);
}

static void no_format(family *f) { f->list.s.format = NULL; }
static void union_column(family *f) { f->list.s.format = "+us:0"; }
static void union_inside(family *f) { f->items.s.format = "+ud:0"; }
static void unknown_format(family *f) { f->text.s.format = "q"; }
static void fewer_children(family *f) { f->list.a.n_children = 0; }
static void fewer_columns(family *f) { f->top.a.n_children = 1; }
static void more_columns(family *f) { f->top.s.n_children = 1; }
static void no_children(family *f) { f->top.a.children = NULL; }
static void no_schema_children(family *f) { f->top.s.children = NULL; }
static void negative_children(family *f) { f->list.s.n_children = -1; }
static void column_missing(family *f) { f->top.arrays[0] = NULL; }
static void column_schema_missing(family *f) { f->top.schemas[0] = NULL; }
static void fewer_buffers(family *f) { f->text.a.n_buffers = 2; }
static void no_buffers(family *f) { f->text.a.buffers = NULL; }
static void no_offsets(family *f) { f->text.buffers[1] = NULL; }
static void no_data(family *f) { f->text.buffers[2] = NULL; }
static void negative_length(family *f) { f->text.a.length = -3; }
static void negative_offset(family *f) { f->text.a.offset = -1; }
static void overflowing_offset(family *f) { f->text.a.offset = INT64_MAX; }
static void short_column(family *f) { f->text.a.length = 2; }
static void short_items(family *f) { f->items.a.length = 5; }
static void large_top_offset(family *f) { f->top.a.offset = 1; }
static void not_a_struct(family *f) { f->top.s.format = "+l"; }
static void released_schema(family *f) { f->top.s.release = NULL; }
static void dictionary_at_the_top(family *f) { f->top.s.dictionary = &f->text.s; }
static void falling_offsets(family *f)
{
    static const int32_t offsets[] = { 0, 3, 1, 6 };

    f->text.buffers[1] = offsets;
}
static void negative_offsets(family *f)
{
    static const int32_t offsets[] = { 0, 1, 2, -6 };

    f->text.buffers[1] = offsets;
}
static void null_rows(family *f)
{
    f->top.buffers[0] = &all_but_second;
    f->top.a.null_count = -1;
}
static void flat_with_child(family *f) { node_child(&f->text, &f->items); }
static void metadata_of_negative_size(family *f)
{
    static const int32_t m[] = { 1, -1, 0 };

    f->text.s.metadata = (const char *)m;
}
static void self_nesting(family *f) { f->list.schemas[0] = &f->list.s; }

static const struct {
    void (*spoil)(family *f);
    hr_status st;
    const char *part;
} damages[] = {
    { no_format, HR_BAD_DATA, "without format" },
    { union_column, HR_UNSUPPORTED, "column 'list': unions" },
    { union_inside, HR_UNSUPPORTED, "column 'list': 'x': unions" },
    { unknown_format, HR_UNSUPPORTED, "column 'text': format 'q'" },
    { fewer_children, HR_BAD_DATA, "column 'list': 0 children, format '+l' has 1" },
    { fewer_columns, HR_BAD_DATA, "1 children, format '+s' has 2" },
    { more_columns, HR_BAD_DATA, "2 children, format '+s' has 1" },
    { no_children, HR_BAD_DATA, "children" },
    { no_schema_children, HR_BAD_DATA, "children" },
    { negative_children, HR_BAD_DATA, "-1 children" },
    { column_missing, HR_BAD_DATA, "column 'text'" },
    { column_schema_missing, HR_BAD_DATA, "column ''" },
    { fewer_buffers, HR_BAD_DATA, "column 'text': 2 buffers, format 'u' has 3" },
    { no_buffers, HR_BAD_DATA, "column 'text'" },
    { no_offsets, HR_BAD_DATA, "column 'text': a buffer is missing, expected 16 bytes" },
    { no_data, HR_BAD_DATA, "column 'text': a buffer is missing, expected 6 bytes" },
    { negative_length, HR_BAD_DATA, "-3 rows" },
    { negative_offset, HR_BAD_DATA, "from row -1" },
    { overflowing_offset, HR_BAD_DATA, "column 'text'" },
    { short_column, HR_BAD_DATA, "column 'text': 2 rows, the table has 3" },
    { short_items, HR_BAD_DATA, "column 'list': offsets from 0 to 6, found 5 values" },
    { large_top_offset, HR_BAD_DATA, "3 rows, the table has 4" },
    { not_a_struct, HR_TYPE, "'+l'" },
    { released_schema, HR_INVALID, "ArrowSchema was released" },
    { dictionary_at_the_top, HR_TYPE, "'+s'" },
    { falling_offsets, HR_BAD_DATA, "column 'text': row 1: offset 1 comes after 3" },
    { negative_offsets, HR_BAD_DATA, "column 'text': the last offset is -6" },
    { null_rows, HR_UNSUPPORTED, "1 of 3 rows of the table are null" },
    { flat_with_child, HR_BAD_DATA, "column 'text': format 'u' has 1 children" },
    { metadata_of_negative_size, HR_BAD_DATA, "column 'text': metadata" },
    { self_nesting, HR_UNSUPPORTED, "levels" },
};

static void damaged_tables(void **state)
{
    family f;
    hr_table *t = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    family_init(&f);
    assert_ok(hr_table_import(&f.top.s, &f.top.a, &t, &err), &err);
    assert_string_equal(values_text(t->columns[1]), "[1] [2, 3] [4, 5, 6]");
    hr_table_unref(t);
    for (int i = 0; i < HR_LEN(damages); i++) {
        live_memory before = live_now();
        int released = atomic_load(&n_released);

        family_init(&f);
        damages[i].spoil(&f);
        assert_status(hr_table_import(&f.top.s, &f.top.a, &t, &err), damages[i].st, &err);
        assert_contains(err.text, damages[i].part);
        assert_null(t);
        assert_null(f.top.s.release); /* both were taken */
        assert_null(f.top.a.release);
        assert_int_equal(atomic_load(&n_released), released + 1);
        assert_no_leak(before);
    }
    family_init(&f);
    f.top.a.release = NULL;
    assert_status(hr_table_import(&f.top.s, &f.top.a, &t, &err), HR_INVALID, &err);
    assert_contains(err.text, "ArrowArray was released");
    assert_null(f.top.s.release);
}

/* Random numbers in all buffers whose contents are not trusted: refused or sound, and nothing is read outside. */
static void random_contents(void **state)
{
    uint64_t seed = 4;
    int n_ok = 0;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        int kind = round % 5;
        int32_t *x = test_malloc(16), *y = test_malloc(16);
        view *v = test_malloc(2 * sizeof *v);
        static const int64_t sizes[] = { 6 };
        node n, ends, values;
        hr_array *a = NULL;
        hr_error err = HR_ERROR_INIT;

        strings_init(&values);
        for (int i = 0; i < 4; i++) {
            x[i] = (int32_t)random_below(&seed, 6) - (random_below(&seed, 8) == 0);
            y[i] = (int32_t)random_below(&seed, 6) - (random_below(&seed, 8) == 0);
        }
        for (int i = 0; i < 2; i++)
            v[i] =
                (view){ (int32_t)random_below(&seed, 20) - 1,
                        { .far = { "", (int32_t)random_below(&seed, 3) - 1, (int32_t)random_below(&seed, 8) - 1 } } };
        for (int i = 0; i < 2 && kind == 4 && random_below(&seed, 2); i++) /* zeros after a short view */
            memset(&v[i].u, 0, sizeof v[i].u);
        for (int i = 1; i < 4 && kind == 2 && round % 2; i++) /* runs that end one after the other */
            x[i] = x[i - 1] + 1;
        if (random_below(&seed, 10) == 0)
            x[random_below(&seed, 4)] = random_below(&seed, 2) ? INT32_MAX : INT32_MIN;
        node_init(&ends, "i", 4, 2, NULL, x, NULL);
        if (kind == 0) {
            node_init(&n, "i", 4, 2, NULL, x, NULL);
            node_dictionary(&n, &values);
        } else if (kind == 1) {
            node_init(&n, "+vl", 4, 3, NULL, x, y);
            node_child(&n, &values);
        } else if (kind == 2) {
            node_init(&n, "+r", random_below(&seed, 5), 0, NULL, NULL, NULL);
            node_child(&n, &ends);
            node_child(&n, &values);
        } else if (kind == 3) {
            node_init(&n, "+l", 3, 2, NULL, x, NULL);
            node_child(&n, &values);
        } else {
            node_init(&n, "vu", 2, 4, NULL, v, abc_bytes);
            n.buffers[3] = sizes;
        }
        if (!hr__array_import(&n.a, &n.s, &a, &err)) {
            assert_ok(hr__array_check(a, false, &err), &err);
            values_text(a);
            n_ok++;
        } else {
            assert_int_equal(err.status, HR_BAD_DATA);
        }
        hr__array_unref(a);
        test_free(x);
        test_free(y);
        test_free(v);
    }
    assert_in_range(n_ok, 800, 19000);
}

/* ----------------------------------------------------------------------------------------------------- releases */

static void released_with_the_last_column(void **state)
{
    family f;
    hr_table *t = NULL, *part = NULL;
    hr_array *column;
    int released = atomic_load(&n_released);

    (void)state;
    family_init(&f);
    assert_int_equal(hr_table_import(&f.top.s, &f.top.a, &t, NULL), HR_OK);
    assert_int_equal(hr_table_slice(t, 1, 1, &part, NULL), HR_OK);
    column = hr__array_ref(part->columns[0]);
    hr_table_unref(t);
    hr_table_unref(part);
    assert_int_equal(atomic_load(&n_released), released);
    assert_string_equal(values_text(column), "bb");
    hr__array_unref(column);
    assert_int_equal(atomic_load(&n_released), released + 1);
}

typedef struct passing {
    struct ArrowSchema schema[8];
    struct ArrowArray array[8];
} passing;

static void import_on_thread(void *arg, int thread)
{
    passing *p = arg;
    hr_table *t = NULL;

    if (hr_table_import(&p->schema[thread], &p->array[thread], &t, NULL) || hr_table_rows(t) != 50)
        abort();
    hr_table_unref(t);
}

/* One table, exported eight times, each copy imported and released on a thread of its own. */
static void released_on_other_threads(void **state)
{
    uint64_t seed = 5;
    hr_type *types[64];
    int n_types = HR_MIN(n_sample_types(), HR_LEN(types));
    live_memory before = live_now();
    hr_table *t;
    passing p;

    (void)state;
    for (int i = 0; i < n_types; i++)
        types[i] = sample_type(i);
    t = random_table(&seed, types, n_types, 50);
    for (int i = 0; i < 8; i++)
        assert_int_equal(hr_table_export(t, &p.schema[i], &p.array[i], NULL), HR_OK);
    hr_table_unref(t);
    for (int i = 0; i < n_types; i++)
        hr__type_unref(types[i]);
    run_threads(8, import_on_thread, &p);
    assert_no_leak(before);
}

static void tensors_of_others(void **state)
{
    static const float values[12] = { 0 };
    node n, items;
    uint8_t *metadata = NULL;
    int64_t n_bytes = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *text = i ? "{\"shape\":[3,2],\"permutation\":[1,0]}" : "{\"shape\":[3,2]}";
        struct ArrowSchema exported;
        hr_schema *s = NULL;
        node top;

        assert_int_equal(
            hr__metadata_set(&metadata, &n_bytes, "ARROW:extension:name", "arrow.fixed_shape_tensor", 24, NULL), HR_OK);
        assert_int_equal(
            hr__metadata_set(&metadata, &n_bytes, "ARROW:extension:metadata", text, (int64_t)strlen(text), NULL),
            HR_OK);
        node_init(&items, "f", 12, 2, NULL, values, NULL);
        node_init(&n, "+w:6", 2, 1, NULL, NULL, NULL);
        n.s.metadata = (const char *)metadata;
        node_child(&n, &items);
        node_init(&top, "+s", 2, 1, NULL, NULL, NULL);
        node_child(&top, &n);
        assert_int_equal(hr__schema_import(&top.s, &s, NULL), HR_OK);
        assert_int_equal(s->fields[0].type->id, i ? HR_T_FIXED_LIST : HR_T_TENSOR);
        assert_int_equal(s->fields[0].metadata != NULL, i);
        assert_int_equal(hr__schema_export(s, &exported, NULL), HR_OK);
        assert_memory_equal(exported.children[0]->metadata, metadata, (size_t)n_bytes); /* as it came */
        exported.release(&exported);
        hr__schema_unref(s);
    }
    hr__free(metadata);
}

static hr_status export_and_import(void *context, hr_error *err)
{
    hr_table *t = context, *again = NULL;
    struct ArrowSchema schema;
    struct ArrowArray array;
    hr_status st;

    HR_TRY(hr_table_export(t, &schema, &array, err));
    st = hr_table_import(&schema, &array, &again, err);
    hr_table_unref(again);
    return st;
}

/* A column marked as pickles, without this process's secret, is binary. */
static void pickles_of_others(void **state)
{
    hr_schema *schema = NULL, *again = NULL;
    hr_field f = { 0 };
    struct ArrowSchema c;
    int64_t n = 0;

    (void)state;
    assert_ok(hr__field_init(&f, "p", hr__type_pickled(), true, NULL), NULL);
    assert_ok(hr__schema_new(&f, 1, &schema, NULL), NULL);
    assert_ok(hr__schema_export(schema, &c, NULL), NULL);
    assert_ok(hr__schema_import(&c, &again, NULL), NULL);
    assert_string_equal(type_text(again->fields[0].type), "extension<headrace.pickle>");
    assert_null(again->fields[0].metadata);
    hr__schema_unref(again);
    hr__schema_unref(schema);
    hr__field_clear(&f);
    for (int k = 0; k < 3; k++) {
        assert_ok(hr__field_init(&f, "p", hr__type_simple(HR_T_LARGE_BINARY), true, NULL), NULL);
        assert_ok(hr__metadata_set(&f.metadata, &f.metadata_bytes, "ARROW:extension:name", "headrace.pickle", 15, NULL),
                  NULL);
        if (k)
            assert_ok(hr__metadata_set(&f.metadata, &f.metadata_bytes, "ARROW:extension:metadata",
                                       "0123456789abcdef0123456789abcdef", k == 1 ? 32 : 0, NULL),
                      NULL);
        assert_ok(hr__schema_new(&f, 1, &schema, NULL), NULL);
        assert_ok(hr__schema_export(schema, &c, NULL), NULL);
        assert_ok(hr__schema_import(&c, &again, NULL), NULL);
        assert_string_equal(type_text(again->fields[0].type), "large_binary");
        assert_non_null(
            hr__metadata_get(again->fields[0].metadata, again->fields[0].metadata_bytes, "ARROW:extension:name", &n));
        hr__schema_unref(again);
        hr__schema_unref(schema);
        hr__field_clear(&f);
    }
}

static hr_status import_encodings(hr_error *err)
{
    static const int8_t idx[] = { 2, 0, 1 };
    static const int32_t ends[] = { 2, 3 }, offsets[] = { 0, 1 }, sizes[] = { 1, 2 }, d32[] = { 1, 2 };
    static const view v[] = { { 3, { "abc" } }, { 2, { "de" } } };
    static const int64_t no_sizes[1];
    node runs, end, words, list, dictionary, views, decimals;
    node *all[3] = { &runs, &views, &decimals };
    hr_status st = HR_OK;

    strings_init(&words);
    node_init(&dictionary, "c", 3, 2, NULL, idx, NULL);
    node_dictionary(&dictionary, &words);
    node_init(&list, "+vl", 2, 3, &all_but_second, offsets, sizes);
    node_child(&list, &dictionary);
    node_init(&end, "i", 2, 2, NULL, ends, NULL);
    node_init(&runs, "+r", 3, 0, NULL, NULL, NULL);
    node_child(&runs, &end);
    node_child(&runs, &list);
    node_init(&views, "vu", 2, 3, &all_but_second, v, no_sizes);
    node_init(&decimals, "d:9,2,32", 2, 2, &all_but_second, d32, NULL);
    for (int i = 0; i < 3 && !st; i++) {
        hr_array *a = NULL;

        st = hr__array_import(&all[i]->a, &all[i]->s, &a, err);
        hr__array_unref(a);
    }
    return st;
}

static void faults(void **state)
{
    uint64_t seed = 6;
    hr_type *types[64];
    int n_types = HR_MIN(n_sample_types(), HR_LEN(types));
    hr_table *t;

    (void)state;
    for (int i = 0; i < n_types; i++)
        types[i] = sample_type(i);
    t = random_table(&seed, types, n_types, 3);
    run_with_faults_on(export_and_import, t, HR_FAULT_MEMORY);
    run_with_faults(import_encodings, HR_FAULT_MEMORY);
    hr_table_unref(t);
    for (int i = 0; i < n_types; i++)
        hr__type_unref(types[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_there_and_back),
        cmocka_unit_test(arrays_there_and_back),
        cmocka_unit_test(tables_there_and_back),
        cmocka_unit_test(moved_children),
        cmocka_unit_test(dictionaries),
        cmocka_unit_test(views),
        cmocka_unit_test(list_views),
        cmocka_unit_test(run_ends),
        cmocka_unit_test(small_decimals),
        cmocka_unit_test(nested_encodings),
        cmocka_unit_test(empty_arrays_of_null_buffers),
        cmocka_unit_test(unaligned_values_are_copied),
        cmocka_unit_test(null_counts),
        cmocka_unit_test(damaged_tables),
        cmocka_unit_test(random_contents),
        cmocka_unit_test(released_with_the_last_column),
        cmocka_unit_test(released_on_other_threads),
        cmocka_unit_test(tensors_of_others),
        cmocka_unit_test(pickles_of_others),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
