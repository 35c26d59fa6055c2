/* test_pack.c - rows of tokens as a slow program makes them, whatever the cuts, and from any marker the same rows
 * again. */
#include "arrays.h"
#include "task_harness.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_DOCUMENTS 150
#define MAX_ROWS 2000
#define MAX_LENGTH 24 /* of a row */
#define MAX_PARTS 40

/* ------------------------------------------------------------------------------------------------------- documents */

typedef struct documents {
    int n;
    int lengths[MAX_DOCUMENTS];
    int first[MAX_DOCUMENTS]; /* token; those that follow count on */
} documents;

/* Lengths up to `most`, about one in eight of them 0. */
static documents some_documents(uint64_t *random, int most)
{
    documents d = { .n = (int)random_below(random, MAX_DOCUMENTS) };
    int token = 100;

    for (int i = 0; i < d.n; i++) {
        d.lengths[i] = random_below(random, 8) ? (int)(1 + random_below(random, most)) : 0;
        d.first[i] = token;
        token += d.lengths[i];
    }
    return d;
}

/* Columns "x" int64 (not tokens), "t" list<int32> with nulls for some empty documents, "w" list<float>: minus the
 * token. */
static hr_table *table_of(const documents *d)
{
    hr_type *types[3] = { type_named("int64"), type_named("list<item: int32>"), NULL };
    hr_field item = { 0 }, fields[3] = { { 0 }, { 0 }, { 0 } };
    hr_run_coords coords = { .n = d->n };
    hr_builder *b[3];
    hr_array *columns[3];
    hr_origin *origin = NULL;
    hr_schema *schema = NULL;
    hr_table *t = NULL;

    assert_ok(hr__field_init(&item, "item", hr__type_simple(HR_T_FLOAT32), true, NULL), NULL);
    assert_ok(hr__type_list(HR_T_LARGE_LIST, &item, 0, &types[2], NULL), NULL);
    for (int k = 0; k < 3; k++) {
        assert_ok(hr__field_init(&fields[k], (const char *[]){ "x", "t", "w" }[k], types[k], true, NULL), NULL);
        b[k] = builder_of(types[k]);
    }
    for (int i = 0; i < d->n; i++) {
        assert_ok(hr__builder_int(b[0], i, NULL), NULL);
        for (int j = 0; j < d->lengths[i]; j++) {
            assert_ok(hr__builder_int(hr__builder_child(b[1], 0), d->first[i] + j, NULL), NULL);
            assert_ok(hr__builder_double(hr__builder_child(b[2], 0), -(d->first[i] + j), NULL), NULL);
        }
        if (!d->lengths[i] && i % 2)
            assert_ok(hr__builder_null(b[1], NULL), NULL);
        else
            assert_ok(hr__builder_end(b[1], NULL), NULL);
        assert_ok(hr__builder_end(b[2], NULL), NULL);
    }
    for (int k = 0; k < 3; k++)
        columns[k] = finish(b[k]);
    assert_ok(hr__schema_new(fields, 3, &schema, NULL), NULL);
    assert_ok(hr__origin_new(&coords, 1, &origin, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, d->n, origin, &t, NULL), NULL);
    hr__origin_unref(origin);
    hr__schema_unref(schema);
    hr__field_clear(&item);
    for (int k = 0; k < 3; k++) {
        hr__field_clear(&fields[k]);
        hr__type_unref(types[k]);
    }
    return t;
}

/* ------------------------------------------------------------------------------------------ the slow way of packing */

typedef struct row {
    int n; /* tokens; those after them are padding */
    int tokens[MAX_LENGTH], segments[MAX_LENGTH], positions[MAX_LENGTH];
    int n_segments, opened_at;
} row;

typedef struct reference {
    hr_pack_options o;
    int seq_len, most;
    row rows[MAX_ROWS];
    int n_rows;
    row open[MAX_DOCUMENTS];
    int n_open;
} reference;

static void put(row *r, const int *tokens, int n)
{
    r->n_segments++;
    for (int i = 0; i < n; i++, r->n++) {
        r->tokens[r->n] = tokens[i];
        r->segments[r->n] = r->n_segments;
        r->positions[r->n] = i;
    }
}

static void close_row(reference *f, int i)
{
    assert_true(f->n_rows < MAX_ROWS);
    f->rows[f->n_rows++] = f->open[i];
    memmove(f->open + i, f->open + i + 1, (size_t)(--f->n_open - i) * sizeof *f->open);
}

static void close_aged(reference *f)
{
    while (f->n_open && f->n_rows - f->open[0].opened_at >= 4 * f->most)
        close_row(f, 0);
}

static void close_with_aged(reference *f, int i)
{
    close_row(f, i);
    close_aged(f);
}

static row *open_row(reference *f)
{
    f->open[f->n_open] = (row){ .opened_at = f->n_rows };
    return &f->open[f->n_open++];
}

static void pack_whole(reference *f, const int *tokens, int n)
{
    int to = -1, fullest = 0;

    for (int i = f->n_open - 1; i >= 0; i--) { /* from the youngest on, so that of equals the oldest stays */
        if (f->open[i].n >= f->open[fullest].n)
            fullest = i;
        if (f->open[i].n + n > f->seq_len)
            continue;
        if (to < 0 || f->o.strategy == HR_PACK_FIRST_FIT || f->open[i].n >= f->open[to].n)
            to = i;
    }
    if (to < 0) {
        for (int i = 0; i < f->n_open; i++)
            if (f->open[i].n > f->open[fullest].n)
                fullest = i;
        if (f->n_open == f->most)
            close_with_aged(f, fullest);
        open_row(f);
        to = f->n_open - 1;
    }
    put(&f->open[to], tokens, n);
    if (f->open[to].n == f->seq_len)
        close_with_aged(f, to);
}

static void pack_document(reference *f, const int *tokens, int n)
{
    if (n > f->seq_len && f->o.long_documents == HR_PACK_DROP)
        return;
    if (n > f->seq_len && f->o.long_documents == HR_PACK_TRUNCATE)
        n = f->seq_len;
    while (n > 0 && f->o.strategy == HR_PACK_CONCAT) {
        row *r = f->n_open ? f->open : open_row(f);
        int some = HR_MIN(n, f->seq_len - r->n);

        put(r, tokens, some);
        tokens += some;
        n -= some;
        if (r->n == f->seq_len)
            close_row(f, 0);
    }
    for (; n >= f->seq_len; tokens += f->seq_len, n -= f->seq_len) {
        f->rows[f->n_rows] = (row){ 0 };
        put(&f->rows[f->n_rows++], tokens, f->seq_len);
        close_aged(f);
    }
    if (n)
        pack_whole(f, tokens, n);
}

static void pack_all(reference *f, const documents *d)
{
    int tokens[200];

    for (int i = 0; i < d->n; i++) {
        int n = 0;

        if (!d->lengths[i])
            continue;
        if (f->o.bos)
            tokens[n++] = (int)f->o.bos[0];
        for (int j = 0; j < d->lengths[i]; j++)
            tokens[n++] = d->first[i] + j;
        if (f->o.eos)
            tokens[n++] = (int)f->o.eos[0];
        pack_document(f, tokens, n);
    }
    while (f->n_open && !f->o.drop_last)
        close_row(f, 0);
}

/* ------------------------------------------------------------------------------------------------------- comparing */

static int64_t int_at(const hr_table *t, const char *column, int64_t row, int64_t i, int64_t seq_len)
{
    const hr_array *a = t->columns[hr__schema_find(t->schema, column)];

    return hr__array_int(a->children[0], (a->offset + row) * seq_len + i);
}

static float weight_at(const hr_table *t, int64_t row, int64_t i, int64_t seq_len)
{
    const hr_array *a = t->columns[hr__schema_find(t->schema, "w")];
    float v;

    memcpy(&v, hr__array_values(a->children[0]) + ((a->offset + row) * seq_len + i) * 4, 4);
    return v;
}

static bool mask_at(const hr_table *t, int64_t row, int64_t i, int64_t seq_len)
{
    const hr_array *a = t->columns[hr__schema_find(t->schema, "loss_mask")], *c = a->children[0];

    return hr__bit(c->buffers[1]->data, c->offset + (a->offset + row) * seq_len + i);
}

static void check_row(const reference *f, const hr_table *t, int64_t at, const row *want)
{
    int n = f->seq_len;

    for (int i = 0; i < n; i++) {
        bool pad = i >= want->n;
        int token = pad ? (f->o.pad ? (int)f->o.pad[0] : 0) : want->tokens[i];
        bool special = !pad && ((f->o.bos && token == f->o.bos[0]) || (f->o.eos && token == f->o.eos[0]));
        int64_t weight = pad ? (f->o.pad ? f->o.pad[1] : 0) : -token;

        if (special)
            weight = f->o.bos && token == f->o.bos[0] ? f->o.bos[1] : f->o.eos[1];
        assert_int_equal(int_at(t, "t", at, i, n), token);
        assert_true(weight_at(t, at, i, n) == (float)weight);
        assert_int_equal(int_at(t, "segment_ids", at, i, n), pad ? 0 : want->segments[i]);
        assert_int_equal(int_at(t, "position_ids", at, i, n), pad ? 0 : want->positions[i]);
        assert_int_equal(mask_at(t, at, i, n), !pad && want->positions[i] > 0);
    }
}

/* Rows [from, n) of the reference. */
static void check_rows(const reference *f, int from, const rig *r)
{
    hr_error err = HR_ERROR_INIT;
    int at = from;

    for (int i = 0; i < rig_tables(r); i++) {
        const hr_table *t = rig_table(r, i);

        assert_ok(hr__table_check(t, true, &err), &err);
        assert_true(t->sole);
        for (int64_t k = 0; k < t->n_rows; k++, at++) {
            assert_true(at < f->n_rows);
            assert_int_equal(hr__origin_at(t->origin, k).row, at);
            check_row(f, t, k, &f->rows[at]);
        }
    }
    assert_int_equal(at, f->n_rows);
}

/* -------------------------------------------------------------------------------------------------------- the tests */

static const char *const columns[] = { "t", "w" };
static const int64_t pad[] = { -7, 9 }, bos[] = { 1, 11 }, eos[] = { 2, 22 };

/* Arguments drawn at random; the columns are t and w. */
static reference *random_packing(uint64_t *random, hr_op **out)
{
    reference *f = calloc(1, sizeof *f);
    hr_error err = HR_ERROR_INIT;

    assert_non_null(f);
    f->o = (hr_pack_options){
        .struct_bytes = sizeof f->o,
        .strategy = (hr_pack_strategy)random_below(random, 3),
        .long_documents = (hr_pack_long_documents)random_below(random, 3),
        .columns = columns,
        .n_columns = 2,
        .open_bins = (int)(1 + random_below(random, 6)),
        .drop_last = random_below(random, 3) == 0,
        .pad = random_below(random, 2) ? pad : NULL,
        .bos = random_below(random, 2) ? bos : NULL,
        .eos = random_below(random, 2) ? eos : NULL,
        .loss_mask = "loss_mask",
    };
    f->seq_len = (int)(1 + random_below(random, MAX_LENGTH));
    f->most = f->o.strategy == HR_PACK_CONCAT ? 1 : f->o.open_bins;
    assert_ok(hr__op_pack(NULL, f->seq_len, &f->o, out, &err), &err);
    return f;
}

static void test_random(void **unused)
{
    uint64_t random = 1;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 400; round++) {
        documents d = some_documents(&random, (int)(1 + random_below(&random, 60)));
        hr_table *in = table_of(&d), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        reference *f = random_packing(&random, &op);
        rig r = { 0 };

        pack_all(f, &d);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        check_rows(f, 0, &r);
        rig_close(&r);
        free(f);
        hr__op_unref(op);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* Pushes the documents from `at` on in random parts, with markers at random places. */
static void push_with_markers(rig *r, const hr_table *in, int64_t at, uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;

    while (at < in->n_rows) {
        int64_t n = 1 + random_below(random, HR_MIN(in->n_rows - at, 9));
        hr_table *part = slice(in, at, n);

        if (random_below(random, 4))
            assert_ok(rig_mark(r, at, &err), &err);
        assert_ok(rig_push(r, part, &err), &err);
        at += n;
        hr_table_unref(part);
    }
    assert_ok(rig_finish(r, &err), &err);
}

/* The rows that came out before item `i`. */
static int rows_before(const rig *r, int i)
{
    int64_t n = 0;

    for (int k = 0; k < i; k++)
        n += r->out[k].table ? r->out[k].table->n_rows : 0;
    return (int)n;
}

/* Goes on from every marker that `r`, which began at row `from`, passed; and from every marker of those runs, `deep`
 * times. -> how many. */
static int resume_all(const reference *f, const hr_op *op, const hr_table *in, const rig *r, int from, int deep,
                      uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;
    int n = 0;

    for (int i = 0; i < r->n_out; i++) {
        rig tail = { 0 };
        int begin = from + rows_before(r, i);

        if (!r->out[i].marker)
            continue;
        assert_ok(rig_open(&tail, op, NULL, &err), &err);
        assert_ok(rig_restore(&tail, r->out[i].state, &err), &err);
        push_with_markers(&tail, in, r->out[i].marker->at, random);
        check_rows(f, begin, &tail);
        n += 1 + (deep ? resume_all(f, op, in, &tail, begin, deep - 1, random) : 0);
        rig_close(&tail);
    }
    return n;
}

static void test_resume(void **unused)
{
    uint64_t random = 7;
    int n = 0;

    (void)unused;
    for (int round = 0; round < 60; round++) {
        documents d = some_documents(&random, (int)(1 + random_below(&random, 40)));
        hr_table *in = table_of(&d);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        reference *f = random_packing(&random, &op);
        rig r = { 0 };

        pack_all(f, &d);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        push_with_markers(&r, in, 0, &random);
        check_rows(f, 0, &r);
        n += resume_all(f, op, in, &r, 0, 1, &random);
        rig_close(&r);
        free(f);
        hr__op_unref(op);
        hr_table_unref(in);
    }
    assert_true(n > 1000); /* markers do pass */
}

/* A row that nothing fits any more does not stop positions. */
static void test_markers_pass(void **unused)
{
    documents d = { .n = MAX_DOCUMENTS };
    hr_pack_options o = {
        .struct_bytes = sizeof o, .strategy = HR_PACK_BEST_FIT, .open_bins = 2, .columns = columns, .n_columns = 2
    };
    hr_error err = HR_ERROR_INIT;
    hr_table *in;
    hr_op *op = NULL;
    rig r = { 0 };
    int64_t newest = 0;

    (void)unused;
    for (int i = 0; i < d.n; i++)
        d.lengths[i] = i ? 7 : 5; /* the row of the first one has room for 5, all others take 7 of 10 */
    in = table_of(&d);
    assert_ok(hr__op_pack(in->schema, 10, &o, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    for (int i = 0; i < d.n; i++) {
        hr_table *one = slice(in, i, 1);

        assert_ok(rig_mark(&r, i, &err), &err);
        assert_ok(rig_push(&r, one, &err), &err);
        hr_table_unref(one);
    }
    for (int i = 0; i < r.n_out; i++)
        newest = r.out[i].marker ? r.out[i].marker->at : newest;
    assert_true(newest >= d.n - 3 * 4 * 2);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
}

static void test_states(void **unused)
{
    documents d = { .n = 4, .lengths = { 3, 4, 2, 6 }, .first = { 10, 20, 30, 40 } };
    hr_pack_options o = {
        .struct_bytes = sizeof o, .strategy = HR_PACK_FIRST_FIT, .open_bins = 2, .columns = columns, .n_columns = 1
    };
    hr_table *in = table_of(&d), *parts[4];
    hr_error err = HR_ERROR_INIT;
    hr_text stats = { 0 };
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    for (int i = 0; i < 4; i++)
        parts[i] = slice(in, i, 1);
    assert_ok(hr__op_pack(in->schema, 6, &o, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_mark(&r, 0, &err), &err);
    assert_string_equal(r.out[0].state, "row=0 skip=0 bins=-"); /* nothing is open: at once */
    assert_ok(rig_push(&r, parts[0], &err), &err);
    assert_ok(rig_mark(&r, 1, &err), &err);
    assert_ok(rig_push(&r, parts[1], &err), &err);
    assert_int_equal(r.n_out, 1);                  /* 3 | 4 */
    assert_ok(rig_push(&r, parts[2], &err), &err); /* 3 + 2 | 4: the first one has room */
    assert_ok(rig_push(&r, parts[3], &err), &err); /* 6 is a row, which overtakes the others */
    assert_int_equal(r.n_out, 2);
    assert_int_equal(int_at(r.out[1].table, "t", 0, 0, 6), 40);
    assert_ok(rig_finish(&r, &err), &err);
    assert_int_equal(rig_rows(&r), 3);
    op->cls->stats(op, &r.run, &stats);
    assert_string_equal(stats.data, ",\"tokens\":15,\"padding_tokens\":3,\"padding_rate\":0.166667,"
                                    "\"truncated_tokens\":0,\"dropped_tokens\":0,\"empty_documents\":0");
    hr__text_clear(&stats);
    rig_close(&r);

    r = (rig){ 0 }; /* the marker after the first document, when one row was closed after it */
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_restore(&r, "row=0 skip=3 bins=3:0", &err), &err);
    for (int i = 1; i < 4; i++)
        assert_ok(rig_push(&r, parts[i], &err), &err);
    assert_ok(rig_finish(&r, &err), &err);
    assert_int_equal(rig_rows(&r), 0);
    rig_close(&r);

    r = (rig){ 0 }; /* other documents than those of the position */
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_restore(&r, "row=0 skip=1 bins=3:0", &err), &err);
    for (int i = 1; i < 4; i++)
        assert_ok(rig_push(&r, parts[i], &err), &err);
    assert_status(rig_finish(&r, &err), HR_MISMATCH, &err);
    rig_close(&r);
    hr__op_unref(op);
    unref_all(parts, 4);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static void refuse(int64_t seq_len, hr_pack_options o, const hr_schema *schema, hr_status st, const char *text)
{
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    o.struct_bytes = sizeof o;
    assert_status(hr__op_pack(schema, seq_len, &o, &op, &err), st, &err);
    assert_contains(err.text, text);
    assert_null(op);
    hr_error_clear(&err);
}

static void test_refusals(void **unused)
{
    static const char *const x[] = { "x" }, *const none[] = { "none" }, *const t[] = { "t" };
    static const int64_t large[] = { INT64_C(1) << 31 };
    static const char *const bad[] = { "",
                                       "row=1 skip=0",
                                       "row=1 bins=-",
                                       "row=-1 skip=0 bins=-",
                                       "row=1 skip=0 bins=",
                                       "row=1 skip=0 bins=0:0",
                                       "row=1 skip=0 bins=5:2",
                                       "row=1 skip=0 bins=11:0",
                                       "row=1 skip=0 bins=5:0,",
                                       "row=1 skip=0 bins=5",
                                       "row=1 skip=0 bins=1:0,1:0,1:0",
                                       "row=1 skip=0 bins=5:0x" };
    documents d = { .n = 2, .lengths = { 3, 4 } };
    hr_table *in = table_of(&d);
    hr_pack_options o = { .struct_bytes = sizeof o, .open_bins = 2, .strategy = HR_PACK_BEST_FIT };
    hr_error err = HR_ERROR_INIT;
    hr_schema *out = NULL;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    refuse(0, (hr_pack_options){ 0 }, NULL, HR_INVALID, "rows of 0 tokens");
    refuse(INT64_C(1) << 40, (hr_pack_options){ 0 }, NULL, HR_INVALID, "1 to 134217728");
    refuse(8, (hr_pack_options){ .strategy = 3 }, NULL, HR_INVALID, "strategy 3");
    refuse(8, (hr_pack_options){ .long_documents = 3 }, NULL, HR_INVALID, "long_documents 3");
    refuse(8, (hr_pack_options){ .open_bins = 1025 }, NULL, HR_INVALID, "1025 open bins");
    refuse(8, (hr_pack_options){ .n_columns = 2 }, NULL, HR_INVALID, "2 columns without names");
    refuse(8, (hr_pack_options){ .columns = x, .n_columns = 1 }, in->schema, HR_TYPE, "column 'x' is int64");
    refuse(8, (hr_pack_options){ .columns = none, .n_columns = 1 }, in->schema, HR_INVALID, "'none'");
    refuse(8, (hr_pack_options){ .columns = t, .n_columns = 1, .eos = large }, in->schema, HR_INVALID,
           "eos is 2147483648, no value of column 't'");
    refuse(8, (hr_pack_options){ .eos = eos }, in->schema, HR_INVALID, "for 2 columns");
    refuse(8, (hr_pack_options){ .segment_ids = "t" }, in->schema, HR_INVALID, "two columns would be called 't'");

    assert_ok(hr__op_pack(in->schema, 10, &o, &op, &err), &err);
    assert_ok(op->cls->schema(op, in->schema, &out, &err), &err);
    assert_int_equal(out->n, 4); /* t, w, segment_ids, position_ids: x holds no tokens */
    hr__schema_unref(out);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    for (int i = 0; i < HR_LEN(bad); i++)
        assert_status(rig_restore(&r, bad[i], &err), HR_INVALID, &err);
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_error_clear(&err);
}

/* Columns whose lengths differ, and a null token: errors that name the row. */
static void test_bad_rows(void **unused)
{
    documents d = { .n = 3, .lengths = { 3, 4, 2 } };
    hr_table *in = table_of(&d), *shifted = NULL;
    hr_array *three[3] = { NULL, NULL, NULL };
    hr_pack_options o = { .struct_bytes = sizeof o, .columns = columns, .n_columns = 2 };
    hr_builder *b = builder_of(in->columns[1]->type);
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < (i == 1 ? 5 : d.lengths[i]); j++)
            assert_ok(hr__builder_int(hr__builder_child(b, 0), j, &err), &err);
        assert_ok(hr__builder_end(b, &err), &err);
    }
    three[0] = hr__array_ref(in->columns[0]);
    three[1] = finish(b);
    three[2] = hr__array_ref(in->columns[2]);
    assert_ok(hr__table_new(in->schema, three, 3, in->origin, &shifted, &err), &err);
    assert_ok(hr__op_pack(NULL, 8, &o, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, shifted, &err), HR_BAD_DATA, &err);
    assert_string_equal(err.text, "pack: 't' has 5 tokens, 'w' has 4, row 1");
    rig_close(&r);
    hr_table_unref(shifted);

    b = builder_of(in->columns[1]->type);
    assert_ok(hr__builder_int(hr__builder_child(b, 0), 5, &err), &err);
    assert_ok(hr__builder_null(hr__builder_child(b, 0), &err), &err);
    assert_ok(hr__builder_end(b, &err), &err);
    for (int i = 1; i < 3; i++)
        assert_ok(hr__builder_end(b, &err), &err);
    three[0] = hr__array_ref(in->columns[0]);
    three[1] = finish(b);
    three[2] = hr__array_ref(in->columns[2]);
    assert_ok(hr__table_new(in->schema, three, 3, in->origin, &shifted, &err), &err);
    hr__op_unref(op);
    o.n_columns = 1;
    assert_ok(hr__op_pack(NULL, 8, &o, &op, &err), &err);
    r = (rig){ 0 };
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, shifted, &err), HR_BAD_DATA, &err);
    assert_string_equal(err.text, "pack: a token of 't' is null, row 0");
    rig_close(&r);
    hr_table_unref(shifted);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_error_clear(&err);
}

/* The same tokens in fixed lists, tensors and ragged tensors. */
static void test_kinds_of_lists(void **unused)
{
    static const int64_t shape[] = { 4 };
    hr_pack_options o = { .struct_bytes = sizeof o, .eos = eos };
    uint64_t random = 3;
    hr_type *tensor = NULL;
    hr_array *a = NULL, *ragged = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    assert_ok(hr__type_tensor(hr__type_simple(HR_T_INT16), shape, 1, &tensor, &err), &err);
    do { /* one without nulls, in the values too */
        a = random_array(&random, tensor, 5);
        if (hr__array_null_count(a) == 0 && hr__array_null_count(a->children[0]) == 0)
            break;
        hr__array_unref(a);
    } while (true);
    assert_ok(hr__array_as_ragged(&(hr_mem){ 0 }, a, &ragged, &err), &err);
    for (int k = 0; k < 3; k++) {
        hr_array *column = k == 0 ? hr__array_ref(a) : NULL;
        hr_field f = { 0 };
        hr_schema *schema = NULL;
        hr_table *t = NULL;
        hr_op *op = NULL;
        rig r = { 0 };

        if (k)
            assert_ok(hr__array_slice(ragged, k - 1, 5 - (k - 1), &column, &err), &err);
        assert_ok(hr__field_init(&f, "t", column->type, true, &err), &err);
        assert_ok(hr__schema_new(&f, 1, &schema, &err), &err);
        assert_ok(hr__table_new(schema, &column, column->length, NULL, &t, &err), &err);
        assert_ok(hr__op_pack(schema, 10, &o, &op, &err), &err);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, &t, 1, &err), &err);
        assert_int_equal(rig_rows(&r), k == 2 ? 2 : 3);
        for (int64_t i = 0; i < 4; i++)
            assert_int_equal(int_at(rig_table(&r, 0), "t", 0, i, 10),
                             hr__array_int(a->children[0], (a->offset + (k == 2)) * 4 + i));
        assert_int_equal(int_at(rig_table(&r, 0), "t", 0, 4, 10), eos[0]);
        rig_close(&r);
        hr__op_unref(op);
        hr_table_unref(t);
        hr__schema_unref(schema);
        hr__field_clear(&f);
    }
    hr__array_unref(ragged);
    hr__array_unref(a);
    hr__type_unref(tensor);
}

typedef struct fault_case {
    hr_table *parts[4];
    hr_pack_options o;
} fault_case;

static hr_status one_run(void *context, hr_error *err)
{
    const fault_case *c = context;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 }, tail = { 0 };

    HR_GO(hr__op_pack(c->parts[0]->schema, 12, &c->o, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    for (int i = 0; i < 4; i++) {
        HR_GO(rig_mark(&r, i, err));
        HR_GO(rig_push(&r, c->parts[i], err));
    }
    HR_GO(rig_finish(&r, err));
    HR_GO(rig_open(&tail, op, NULL, err));
    HR_GO(rig_restore(&tail, "row=3 skip=1000 bins=5:2,7:0", err));
    HR_GO(rig_mark(&tail, 0, err));
    HR_GO(rig_push(&tail, c->parts[0], err));
done:
    rig_close(&r);
    rig_close(&tail);
    hr__op_unref(op);
    return st;
}

static void test_faults(void **unused)
{
    uint64_t random = 5;
    documents d = some_documents(&random, 30);
    hr_table *in;
    fault_case c = { .o = { .struct_bytes = sizeof c.o,
                            .strategy = HR_PACK_BEST_FIT,
                            .open_bins = 3,
                            .columns = columns,
                            .n_columns = 2,
                            .pad = pad,
                            .bos = bos,
                            .eos = eos,
                            .loss_mask = "loss_mask" } };

    (void)unused;
    d.n = 60;
    in = table_of(&d);
    for (int i = 0; i < 4; i++)
        c.parts[i] = slice(in, 15 * i, 15);
    run_with_faults_on(one_run, &c, HR_FAULT_MEMORY);
    unref_all(c.parts, 4);
    hr_table_unref(in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),         cmocka_unit_test(test_resume),   cmocka_unit_test(test_markers_pass),
        cmocka_unit_test(test_states),         cmocka_unit_test(test_refusals), cmocka_unit_test(test_bad_rows),
        cmocka_unit_test(test_kinds_of_lists), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
