/* test_ipc.c - Arrow IPC: tables of every type written and read again, damaged files, every failure on the way. */
#include "arrays.h"
#include "format/arrow/ipc.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char dir[64], path[200];

static int setup(void **unused)
{
    (void)unused;
    temp_dir_new(dir);
    snprintf(path, sizeof path, "%s/x.arrow", dir);
    return 0;
}

static int teardown(void **unused)
{
    (void)unused;
    temp_dir_free(dir);
    return 0;
}

/* ------------------------------------------------------------------------------------------------- there and back */

/* The table twice, as two record batches. */
static hr_status write_table(const hr_table *t, const ipc_write_options *o, hr_error *err)
{
    hr_writer *w = NULL;
    hr_sink *sink = NULL;
    void *file = NULL;
    hr_encoded_chunk piece = { 0 };
    hr_mem mem = { 0 };
    hr_status st = HR_OK;

    HR_GO(ipc__create(t->schema, o, NULL, &w, err));
    HR_GO(hr__sink_open(path, true, NULL, &sink, err));
    if (!(file = hr__zalloc(NULL, w->cls->file_bytes)))
        HR_GO(hr__error_memory(err, path, (int64_t)w->cls->file_bytes));
    HR_GO(w->cls->begin(w, file, sink, err));
    for (int i = 0; i < 2; i++) {
        HR_GO(w->cls->encode(w, &mem, t, &piece, err));
        HR_GO(w->cls->add(w, file, sink, &piece, err));
        hr__encoded_chunk_clear(&piece);
    }
    HR_GO(w->cls->finish(w, file, sink, err));
    st = hr__sink_commit(sink, path, err);
    sink = NULL;
done:
    hr__encoded_chunk_clear(&piece);
    if (file)
        w->cls->file_clear(w, file);
    hr__free(file);
    hr__sink_drop(sink);
    if (w)
        w->cls->free(w);
    return st;
}

/* All rows of the file, or of one column; *out is new, NULL: no rows. */
static hr_status read_table(const char *column, int64_t max_bytes, hr_table **out, hr_error *err)
{
    hr_projection one = { 1, &column };
    hr_open how = { .projection = column ? &one : NULL };
    hr_table *parts[2000];
    hr_source *source = NULL;
    hr_scan_file *f = NULL;
    hr_reader *r = NULL;
    hr_mem mem = { 0 };
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    HR_GO(hr__source_open(path, NULL, &source, err));
    HR_GO(hr__format_arrow.open(source, &how, &f, err));
    for (int i = 0; i < f->n_fragments; i++) {
        HR_GO(f->cls->read(f, i, 0, -1, &mem, &r, err));
        while (n < HR_LEN(parts)) {
            HR_GO(hr__reader_next(r, max_bytes, &parts[n], err));
            if (!parts[n])
                break;
            n++;
        }
        hr__reader_close(r);
        r = NULL;
    }
    if (n)
        st = hr__table_concat(&mem, f->schema, parts, n, out, err);
done:
    while (n)
        hr_table_unref(parts[--n]);
    hr__reader_close(r);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

/* Pickles come back from a file as binary, with the mark that they were some: who reads them there does not know who
 * wrote them. */
static void check_untrusted(const hr_table *back, const hr_table *t)
{
    const hr_field *f = &back->schema->fields[0];
    int64_t n = 0;

    if (f->type->id == HR_T_LIST)
        f = &f->type->children[0];
    assert_string_equal(type_text(f->type), "large_binary");
    assert_memory_equal(hr__metadata_get(f->metadata, f->metadata_bytes, "ARROW:extension:name", &n), "headrace.pickle",
                        15);
    assert_null(hr__metadata_get(f->metadata, f->metadata_bytes, "ARROW:extension:metadata", &n));
    assert_string_equal(values_text(back->columns[0]), values_text(t->columns[0]));
}

static void test_every_type(void **unused)
{
    static const ipc_write_options options[] = { { 0 }, { true, 0 }, { false, 1 }, { true, 2 } };
    uint64_t random = 11;
    int n_tried = 0;

    (void)unused;
    for (int k = 0; k < n_sample_types(); k++)
        for (int64_t n = 1; n < 300; n = n * 7 + 1) {
            hr_type *type = sample_type(k);
            hr_table *t = random_table(&random, &type, 1, n), *twice = NULL, *back = NULL, *both[2] = { t, t };
            hr_error err = HR_ERROR_INIT;

            assert_ok(hr__table_concat(&(hr_mem){ 0 }, t->schema, both, 2, &twice, &err), &err);
            for (int s = 0; s < HR_LEN(options); s++) {
                assert_ok(write_table(t, &options[s], &err), &err);
                assert_ok(read_table(NULL, s % 2 ? 1 << 20 : 64, &back, &err), &err);
                if (hr__type_has_pickles(type)) {
                    check_untrusted(back, twice);
                } else {
                    assert_string_equal(type_text(back->columns[0]->type), type_text(type));
                    assert_same_array(back->columns[0], twice->columns[0]);
                }
                hr_table_unref(back);
                n_tried++;
            }
            hr_table_unref(twice);
            hr_table_unref(t);
            hr__type_unref(type);
        }
    assert_true(n_tried > 200);
}

static hr_table *some_table(uint64_t *random, int64_t n)
{
    hr_type *types[3] = { hr__type_simple(HR_T_INT64), hr__type_simple(HR_T_STRING), type_named("list<item: int32>") };
    hr_table *t = random_table(random, types, 3, n);

    hr__type_unref(types[2]);
    return t;
}

static void test_one_column(void **unused)
{
    uint64_t random = 7;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = some_table(&random, 50), *back = NULL;

    (void)unused;
    assert_ok(write_table(t, &(ipc_write_options){ 0 }, &err), &err);
    assert_ok(read_table("c1", 1 << 20, &back, &err), &err);
    assert_int_equal(back->schema->n, 1);
    assert_int_equal(back->n_rows, 100);
    assert_int_equal(hr__origin_at(back->origin, 60).fragment, 1);
    assert_int_equal(hr__origin_at(back->origin, 60).row, 10);
    hr_table_unref(back);
    assert_status(read_table("nowhere", 1, &back, &err), HR_NOT_FOUND, &err);
    assert_contains(err.text, "no column 'nowhere'");
    hr_table_unref(t);
}

/* ---------------------------------------------------------------------------------------------------------- damage */

static int64_t slurp(uint8_t **out)
{
    FILE *f = fopen(path, "rb");
    long n;

    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    n = ftell(f);
    rewind(f);
    *out = malloc((size_t)n);
    assert_int_equal(fread(*out, 1, (size_t)n, f), n);
    fclose(f);
    return n;
}

/* Cut anywhere, a file is refused; a byte changed, it is refused or gives other rows, and no harm. */
static void test_damaged(void **unused)
{
    uint64_t random = 3;
    hr_error err = HR_ERROR_INIT;
    hr_table *t = some_table(&random, 20), *back = NULL;
    uint8_t *data;
    int64_t n;

    (void)unused;
    for (int s = 0; s < 3; s++) {
        assert_ok(write_table(t, &(ipc_write_options){ s == 1, s }, &err), &err);
        n = slurp(&data);
        for (int64_t cut = 0; cut < n; cut += 1 + n / 300) {
            hr_status st;

            temp_file(dir, "x.arrow", data, cut);
            st = read_table(NULL, 1 << 20, &back, &err);
            if (s != 1) /* a stream may end after any message */
                assert_int_not_equal(st, HR_OK);
            if (st)
                assert_contains(err.text, "x.arrow");
            hr_table_unref(back);
        }
        for (int round = 0; round < 1500; round++) {
            int64_t at = random_below(&random, n);
            uint8_t had = data[at];

            data[at] = (uint8_t)next_random(&random);
            temp_file(dir, "x.arrow", data, n);
            if (read_table(NULL, 1 << 20, &back, &err))
                assert_contains(err.text, "x.arrow");
            hr_table_unref(back);
            data[at] = had;
        }
        free(data);
    }
    hr_error_clear(&err);
    hr_table_unref(t);
}

static void test_what_is_refused(void **unused)
{
    static const struct {
        const char *data;
        int64_t n;
        hr_status st;
        const char *text;
    } cases[] = {
        { "", 0, HR_BAD_DATA, "too short" },
        { "FEA1xxxxFEA1", 12, HR_UNSUPPORTED, "Feather V1" },
        { "ARROW1\0\0ARROW1", 14, HR_BAD_DATA, "14 bytes are too few for an Arrow file" },
        { "ARROW1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 27, HR_BAD_DATA, "footer" },
        { "\xff\xff\xff\xff\x00\x00\x00\x7f", 8, HR_BAD_DATA, "a message of 2130706432 bytes" },
        { "\xff\xff\xff\xff\x00\x00\x00\x80", 8, HR_BAD_DATA, "a message of -" },
        { "\xff\xff\xff\xff\x00\x00\x00\x00", 8, HR_BAD_DATA, "a message of 0 bytes" },
        { "\xff\xff\xff\xff\x10\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 24,
          HR_BAD_DATA, "damaged" },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_table *t;

        temp_file(dir, "x.arrow", cases[i].data, cases[i].n);
        assert_status(read_table(NULL, 1, &t, &err), cases[i].st, &err);
        assert_contains(err.text, cases[i].text);
        assert_contains(err.text, "x.arrow");
    }
}

/* ---------------------------------------------------------------------------------- redundant fields */

/* A file to damage: its bytes, and the places of its parts. */
typedef struct patient {
    uint8_t *data;
    int64_t n;
    int64_t ends[8];  /* messages: where their bodies end */
    hr_flat flats[8]; /* their flatbuffers */
    int64_t at[8];    /* where these begin */
    int n_messages;
    int64_t footer_at; /* its flatbuffer; 0: a stream */
    hr_flat footer;
} patient;

static int64_t header_of(hr_flat *f) { return hr__flat_table(f, (int64_t)hr__flat_load(f, 0, 4), 2); }

static void open_patient(patient *p)
{
    int64_t at;
    bool is_file;

    *p = (patient){ 0 };
    p->n = slurp(&p->data);
    is_file = memcmp(p->data, "ARROW1", 6) == 0;
    for (at = is_file ? 8 : 0; p->n_messages < 8;) {
        int32_t n;
        hr_flat *f = &p->flats[p->n_messages];

        memcpy(&n, p->data + at + 4, 4);
        if (n == 0)
            break;
        p->at[p->n_messages] = at + 8;
        *f = (hr_flat){ .data = p->data + at + 8, .n = n };
        at += 8 + n + hr__flat_number(f, (int64_t)hr__flat_load(f, 0, 4), 3, 8, 0);
        p->ends[p->n_messages++] = at;
    }
    if (is_file) {
        int32_t n;

        memcpy(&n, p->data + p->n - 10, 4);
        p->footer_at = p->n - 10 - n;
        p->footer = (hr_flat){ .data = p->data + p->footer_at, .n = n };
    }
}

static void put(patient *p, int64_t at, int64_t v, int n)
{
    for (int i = 0; i < n; i++)
        p->data[at + i] = (uint8_t)((uint64_t)v >> (8 * i));
}

/* Node and buffer i of record batch `message`. */
static int64_t node_place(patient *p, int message, int i)
{
    int64_t first;

    hr__flat_vector(&p->flats[message], header_of(&p->flats[message]), 1, 16, &first);
    return p->at[message] + first + 16 * i;
}

static int64_t buffer_place(patient *p, int message, int i)
{
    int64_t first;

    hr__flat_vector(&p->flats[message], header_of(&p->flats[message]), 2, 16, &first);
    return p->at[message] + first + 16 * i;
}

static int64_t block_place(patient *p, int i)
{
    int64_t first;

    hr__flat_vector(&p->footer, (int64_t)hr__flat_load(&p->footer, 0, 4), 3, 24, &first);
    return p->footer_at + first + 24 * i;
}

static void fewer_nulls(patient *p) { put(p, node_place(p, 1, 0) + 8, 1, 8); }
static void no_nulls(patient *p) { put(p, node_place(p, 1, 0) + 8, 0, 8); }
static void a_bit_of_validity(patient *p)
{
    hr_flat *f = &p->flats[1];
    int64_t at = (int64_t)hr__flat_load(f, buffer_place(p, 1, 0) - p->at[1], 8);

    p->data[p->at[1] + f->n + at] ^= 1;
}
static void other_rows(patient *p) { put(p, node_place(p, 1, 1), 7, 8); }
static void a_batch_without_rows(patient *p)
{
    hr_flat *f = &p->flats[1];

    put(p, p->at[1] + hr__flat_slot(f, header_of(f), 0), 0, 8);
}
static void a_buffer_beyond(patient *p) { put(p, buffer_place(p, 1, 3), INT64_C(0x2020202020202020), 8); }
static void a_node_less(patient *p) { put(p, node_place(p, 1, 0) - 4, 1, 4); }
static void a_node_more(patient *p)
{
    put(p, node_place(p, 1, 0) - 4, 3, 4); /* what follows is read as another node */
}
static void old_version(patient *p)
{
    hr_flat *f = &p->flats[1];

    put(p, p->at[1] + hr__flat_slot(f, (int64_t)hr__flat_load(f, 0, 4), 0), 2, 2);
}
static void a_field_over_another(patient *p)
{
    hr_flat *f = &p->flats[0];
    int64_t root = (int64_t)hr__flat_load(f, 0, 4), vtable = root - (int32_t)hr__flat_load(f, root, 4);

    put(p, p->at[0] + vtable + 4, (int64_t)hr__flat_load(f, vtable + 4 + 4, 2), 2); /* version where the header is */
}
static void a_name_of_itself(patient *p)
{
    hr_flat *f = &p->flats[0];
    int64_t first, field;

    hr__flat_vector(f, header_of(f), 1, 4, &first);
    field = hr__flat_element(f, first, 0);
    put(p, p->at[0] + hr__flat_slot(f, field, 0), 0, 4);
}
static void zeros_for_a_message(patient *p) { memset(p->data + p->ends[1], 0, 8); }
static void another_stream_behind(patient *p)
{
    p->data = realloc(p->data, (size_t)p->n * 2);
    memcpy(p->data + p->n, p->data, (size_t)p->n);
    p->n *= 2;
}
static void name_in_the_footer(patient *p)
{
    for (int64_t i = p->footer_at; i + 4 < p->n; i++)
        if (memcmp(p->data + i, "c0\0", 3) == 0)
            p->data[i + 1] = '7';
}
static void body_elsewhere(patient *p)
{
    int32_t n;

    memcpy(&n, p->data + block_place(p, 0) + 8, 4);
    put(p, block_place(p, 0) + 8, n + 8, 4);
}
static void one_block_twice(patient *p) { memcpy(p->data + block_place(p, 1), p->data + block_place(p, 0), 24); }
static void a_block_less(patient *p) { put(p, block_place(p, 0) - 4, 1, 4); }

/* Each was read as other rows, or as none, without a word; Arrow's own reader refuses the first group with full
 * validation. */
static void test_what_accounts_for_itself(void **unused)
{
    static const struct {
        const char *name;
        bool stream;
        void (*spoil)(patient *p);
        const char *text;
    } cases[] = {
        /* The number of nulls was taken from the bitmap, or the bitmap left out, whatever the message said. */
        { "fewer nulls", true, fewer_nulls, "a field of 100 rows with 1 nulls, its validity has 3" },
        { "no nulls", true, no_nulls, "a field of 100 rows with 0 nulls, its validity has 3" },
        { "a bit of validity", true, a_bit_of_validity, "a field of 100 rows with 3 nulls, its validity has " },
        /* clusterfuzz 4961281405222912 of arrow-testing: batches without rows were never looked into. */
        { "a batch without rows", true, a_batch_without_rows, "column 'c0': 100 rows, the record batch has 0" },
        { "other rows", true, other_rows, "column 'c1': 7 rows, the record batch has 100" },
        { "a buffer beyond", true, a_buffer_beyond, "buffer 3: " },
        { "a node less", true, a_node_less, "1 fields, the schema needs more" },
        { "a node more", true, a_node_more, "3 fields with 5 buffers, the schema needs 2 with 5" },
        { "an old version", true, old_version, "is of version 3 of Arrow's format" },
        { "a field over another", true, a_field_over_another, "Message, field 2: in the place of another field" },
        { "a name of itself", true, a_name_of_itself, "Field, field 0: refers to itself" },
        /* clusterfuzz 4757582821064704: a length of zeros ends a stream, what stood after was dropped. */
        { "zeros for a message", true, zeros_for_a_message, "bytes follow" },
        { "another stream behind", true, another_stream_behind, "bytes follow" },
        { "a name in the footer", false, name_in_the_footer,
          "the schema in the footer is not the one at the beginning" },
        { "the body elsewhere", false, body_elsewhere, "the footer and the message at byte" },
        { "one block twice", false, one_block_twice, "the footer names a message at byte" },
        { "a block less", false, a_block_less, "the footer does not name the message at byte" },
    };
    hr_type *types[] = { hr__type_simple(HR_T_INT32), hr__type_simple(HR_T_STRING) };
    hr_table *t, *back = NULL;
    hr_builder *numbers = builder_of(types[0]), *texts = builder_of(types[1]);
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 3;

    (void)unused;
    t = random_table(&random, types, 2, 100);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(i % 40 == 5 ? hr__builder_null(numbers, NULL) : hr__builder_int(numbers, i, NULL), HR_OK);
        assert_int_equal(hr__builder_bytes(texts, "text", i % 5, NULL), HR_OK);
    }
    hr__array_unref(t->columns[0]);
    hr__array_unref(t->columns[1]);
    t->columns[0] = finish(numbers);
    t->columns[1] = finish(texts);
    for (int i = 0; i < HR_LEN(cases); i++) {
        patient p;

        assert_ok(write_table(t, &(ipc_write_options){ cases[i].stream, 0 }, &err), &err);
        open_patient(&p);
        cases[i].spoil(&p);
        temp_file(dir, "x.arrow", p.data, p.n);
        free(p.data);
        if (read_table(NULL, 1 << 20, &back, &err) == HR_OK)
            fail_msg("%s: was read", cases[i].name);
        assert_int_equal(err.status, strstr(cases[i].text, "version") ? HR_UNSUPPORTED : HR_BAD_DATA);
        assert_contains(err.text, cases[i].text);
        assert_contains(err.text, "x.arrow");
    }
    hr_error_clear(&err);
    hr_table_unref(t);
}

/* An order of bytes that is neither was taken for big-endian, and a schema without its list of fields for one of
 * none. */
static void test_schemas_that_are_none(void **unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++) {
        hr_flat_builder b = { 0 };
        hr_error err = HR_ERROR_INIT;
        ipc_schema *schema = NULL;
        int64_t fields = hr__flat_put_refs(&b, NULL, 0), root;
        hr_view bytes;
        hr_flat f;

        hr__flat_begin(&b);
        hr__flat_add_number(&b, 0, i == 0 ? 2 : i == 1 ? -1 : 1, 2);
        if (i != 2)
            hr__flat_add_ref(&b, 1, fields);
        root = hr__flat_end(&b);
        bytes = hr__flat_finish(&b, root);
        f = (hr_flat){ .data = bytes.data, .n = bytes.n };
        if (i < 3) {
            assert_status(ipc__schema_read(&f, (int64_t)hr__flat_load(&f, 0, 4), NULL, &schema, &err), HR_BAD_DATA,
                          &err);
            assert_string_equal(err.text, "the Arrow schema is damaged");
        } else {
            assert_ok(ipc__schema_read(&f, (int64_t)hr__flat_load(&f, 0, 4), NULL, &schema, &err), &err);
            assert_true(schema->big_endian);
        }
        ipc__schema_free(schema);
        hr_error_clear(&err);
        hr__flat_clear(&b);
    }
}

/* Values that a type does not allow; each was read as it stood. */
static void test_values_of_their_types(void **unused)
{
    static const struct {
        const char *type;
        int64_t v;
        const char *text; /* NULL: it may be, but not where all is checked */
    } cases[] = {
        { "date64", 86400001, "row 1: a date that is no whole number of days: 86400001 as date64[ms]" },
        { "time32[s]", 86400, "row 1: a time of day beyond the day: 86400 as time32[s]" },
        { "time64[ns]", -1, "row 1: a time of day beyond the day: -1 as time64[ns]" },
        { "decimal128(38, 10)", INT64_MAX, NULL },
        { "decimal128(5, 2)", 100000, NULL },
        { "decimal256(76, 3)", INT64_MAX, NULL },
    };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_type *type = NULL;
        hr_builder *b;
        hr_array *a;
        hr_error err = HR_ERROR_INIT;
        uint8_t bytes[32] = { 0 }, zeros[32] = { 0 };

        assert_ok(hr__type_parse(cases[i].type, &type, &err), &err);
        b = builder_of(type);
        for (int k = 0; k < hr__type_bytes(type) / 8; k++) /* INT64_MAX: in all words */
            memcpy(bytes + 8 * k, k == 0 || cases[i].v == INT64_MAX ? (const void *)&cases[i].v : zeros, 8);
        memcpy(bytes, &cases[i].v, (size_t)HR_MIN(8, hr__type_bytes(type)));
        assert_int_equal(hr__builder_bytes(b, zeros, hr__type_bytes(type), NULL), HR_OK);
        assert_int_equal(hr__builder_bytes(b, bytes, hr__type_bytes(type), NULL), HR_OK);
        assert_int_equal(hr__builder_null(b, NULL), HR_OK);
        a = finish(b);
        assert_ok(hr__array_check(a, true, &err), &err);
        if (cases[i].text) {
            assert_status(hr__array_check_values(a, false, &err), HR_BAD_DATA, &err);
            assert_contains(err.text, cases[i].text);
        } else {
            assert_ok(hr__array_check_values(a, false, &err), &err);
            assert_status(hr__array_check_values(a, true, &err), HR_BAD_DATA, &err);
        }
        /* A null may hold anything. */
        memcpy(a->buffers[1]->data + 2 * hr__type_bytes(type), bytes, (size_t)hr__type_bytes(type));
        memset(a->buffers[1]->data + hr__type_bytes(type), 0, (size_t)hr__type_bytes(type));
        assert_ok(hr__array_check_values(a, true, &err), &err);
        hr_error_clear(&err);
        hr__array_unref(a);
        hr__type_unref(type);
    }
}

/* A map whose key is null. */
static void test_keys_that_are_null(void **unused)
{
    hr_error err = HR_ERROR_INIT;
    hr_type *type = type_named("map<string, int32>");
    hr_builder *b = builder_of(type), *entries = hr__builder_child(b, 0);
    hr_array *a;

    (void)unused;
    for (int i = 0; i < 2; i++) {
        if (i)
            assert_int_equal(hr__builder_null(hr__builder_child(entries, 0), NULL), HR_OK);
        else
            assert_int_equal(hr__builder_bytes(hr__builder_child(entries, 0), "k", 1, NULL), HR_OK);
        assert_int_equal(hr__builder_int(hr__builder_child(entries, 1), 5, NULL), HR_OK);
        assert_int_equal(hr__builder_end(entries, NULL), HR_OK);
        assert_int_equal(hr__builder_end(b, NULL), HR_OK);
    }
    a = finish(b);
    assert_status(hr__array_check_values(a, false, &err), HR_BAD_DATA, &err);
    assert_string_equal(err.text, "a map with keys that are null");
    hr_error_clear(&err);
    hr__array_unref(a);
    hr__type_unref(type);
}

/* ---------------------------------------------------------------------------------------------------------- faults */

static hr_status there_and_back(void *context, hr_error *err)
{
    hr_table *back = NULL;
    hr_status st = write_table(context, &(ipc_write_options){ false, 2 }, err);

    if (!st)
        st = read_table(NULL, 1 << 20, &back, err);
    hr_table_unref(back);
    unlink(path);
    return st;
}

static void test_faults(void **unused)
{
    uint64_t random = 3;
    hr_table *t = some_table(&random, 30);

    (void)unused;
    run_with_faults_on(there_and_back, t, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER);
    hr_table_unref(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_column, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_accounts_for_itself, setup, teardown),
        cmocka_unit_test(test_schemas_that_are_none),
        cmocka_unit_test(test_values_of_their_types),
        cmocka_unit_test(test_keys_that_are_null),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
