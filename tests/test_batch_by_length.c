/* test_batch_by_length.c - batches as a slow program makes them, whatever the cuts, and from any marker the same
 * batches again. */
#include "arrays.h"
#include "op/rows/length_batches.h"
#include "task_harness.h"

#include <stdlib.h>

#define MAX_ROWS 7000
#define MAX_BATCHES 7000
#define MAX_PARTS 40
#define SLOTS 12

/* ------------------------------------------------------------------------------------------------------------- rows */

typedef struct rows {
    int n;
    int lengths[MAX_ROWS];
} rows;

static rows *some_rows(uint64_t *random, int n, int most)
{
    rows *r = calloc(1, sizeof *r);

    assert_non_null(r);
    r->n = n;
    for (int i = 0; i < n; i++)
        r->lengths[i] = random_below(random, 9) ? (int)(1 + random_below(random, 1 + random_below(random, most))) : 0;
    return r;
}

/* Columns "x" int64: the number of the row; "t" list<int32>: this number, as often as the row is long, null for some
 * empty rows; "n" int32: the length. */
static hr_table *table_of(const rows *r)
{
    hr_type *types[3] = { type_named("int64"), type_named("list<item: int32>"), type_named("int32") };
    hr_run_coords coords = { .n = r->n };
    hr_field fields[3] = { { 0 } };
    hr_array *columns[3];
    hr_builder *b[3];
    hr_origin *origin = NULL;
    hr_schema *schema = NULL;
    hr_table *t = NULL;

    for (int k = 0; k < 3; k++) {
        assert_ok(hr__field_init(&fields[k], (const char *[]){ "x", "t", "n" }[k], types[k], true, NULL), NULL);
        b[k] = builder_of(types[k]);
    }
    for (int i = 0; i < r->n; i++) {
        assert_ok(hr__builder_int(b[0], i, NULL), NULL);
        assert_ok(hr__builder_int(b[2], r->lengths[i], NULL), NULL);
        for (int j = 0; j < r->lengths[i]; j++)
            assert_ok(hr__builder_int(hr__builder_child(b[1], 0), i, NULL), NULL);
        assert_ok(!r->lengths[i] && i % 2 ? hr__builder_null(b[1], NULL) : hr__builder_end(b[1], NULL), NULL);
    }
    for (int k = 0; k < 3; k++)
        columns[k] = finish(b[k]);
    assert_ok(hr__schema_new(fields, 3, &schema, NULL), NULL);
    assert_ok(hr__origin_new(&coords, 1, &origin, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, r->n, origin, &t, NULL), NULL);
    hr__origin_unref(origin);
    hr__schema_unref(schema);
    for (int k = 0; k < 3; k++) {
        hr__field_clear(&fields[k]);
        hr__type_unref(types[k]);
    }
    return t;
}

/* ----------------------------------------------------------------------------------------- the slow way of batching */

typedef struct batch {
    int bucket, opened_at, n, longest; /* n rows, [first, first + n) of reference.members once it is closed */
    int first;
    int rows[500];
} batch;

typedef struct reference {
    hr_length_options o;
    int max_tokens;
    int64_t bounds[SLOTS];
    int n_bounds;
    batch open[SLOTS]; /* in the order of opening */
    int n_open;
    batch closed[MAX_BATCHES]; /* `rows` is not used */
    int n_closed, n_rows;
    int members[MAX_ROWS];
} reference;

static void close_one(reference *f, int i)
{
    batch *b = &f->open[i];

    b->first = f->n_rows;
    memcpy(f->members + f->n_rows, b->rows, (size_t)b->n * sizeof *b->rows);
    f->n_rows += b->n;
    assert_true(f->n_closed < MAX_BATCHES);
    f->closed[f->n_closed++] = *b;
    memmove(b, b + 1, (size_t)(--f->n_open - i) * sizeof *b);
}

static void close_batch(reference *f, int i)
{
    close_one(f, i);
    while (f->n_open && f->n_closed - f->open[0].opened_at >= (f->o.max_wait ? f->o.max_wait : 256))
        close_one(f, 0);
}

static bool fits(const reference *f, const batch *b, int length)
{
    int64_t longest = HR_MAX(HR_MAX(b->longest, length), 1);

    return (b->n + 1) * longest <= f->max_tokens && (!f->o.max_rows || b->n < f->o.max_rows);
}

static void add_row(reference *f, int row, int length)
{
    int k = 0, i = 0;

    if (length > f->max_tokens) {
        assert_int_not_equal(f->o.long_rows, HR_LONG_ROW_ERROR);
        if (f->o.long_rows == HR_LONG_ROW_DROP)
            return;
    }
    while (k < f->n_bounds && length > f->bounds[k])
        k++;
    k = length > f->max_tokens ? SLOTS : k;
    while (i < f->n_open && f->open[i].bucket != k)
        i++;
    if (i < f->n_open && !fits(f, &f->open[i], length)) {
        close_batch(f, i);
        i = f->n_open;
    }
    if (i == f->n_open)
        f->open[f->n_open++] = (batch){ .bucket = k, .opened_at = f->n_closed };
    f->open[i].rows[f->open[i].n++] = row;
    f->open[i].longest = HR_MAX(f->open[i].longest, length);
    if (k == SLOTS || !fits(f, &f->open[i], k ? (int)f->bounds[k - 1] + 1 : 1))
        close_batch(f, i);
}

static void batch_all(reference *f, const rows *r)
{
    int64_t *first = malloc(sizeof *first * MAX_ROWS);
    int n = 0;

    assert_non_null(first);
    for (int i = 0; i < r->n && n < 4096; i++)
        if (r->lengths[i] <= f->max_tokens)
            first[n++] = r->lengths[i];
    if (!f->o.buckets)
        assert_ok(hr__length_bounds(first, n, f->o.n_buckets, f->bounds, &f->n_bounds, NULL), NULL);
    free(first);
    for (int i = 0; i < r->n; i++)
        add_row(f, i, r->lengths[i]);
    while (f->n_open && !f->o.drop_last)
        close_one(f, 0);
}

/* Arguments drawn at random. *out is new. */
static reference *random_batching(uint64_t *random, bool sampled, hr_op **out)
{
    reference *f = calloc(1, sizeof *f);
    hr_error err = HR_ERROR_INIT;
    int64_t bound = 0;

    assert_non_null(f);
    f->max_tokens = (int)(20 + random_below(random, 300));
    f->o = (hr_length_options){ .struct_bytes = sizeof f->o,
                                .n_buckets = (int)(1 + random_below(random, 8)),
                                .max_rows = random_below(random, 2) ? 1 + random_below(random, 9) : 0,
                                .max_wait = random_below(random, 2) ? 1 + random_below(random, 30) : 0,
                                .long_rows = random_below(random, 2) ? HR_LONG_ROW_DROP : HR_LONG_ROW_ALONE,
                                .drop_last = random_below(random, 4) == 0 };
    if (!sampled) {
        f->n_bounds = f->o.n_buckets;
        for (int i = 0; i < f->n_bounds; i++)
            f->bounds[i] = bound += 1 + random_below(random, 15);
        f->o.buckets = f->bounds;
    }
    assert_ok(hr__op_batch_by_length(NULL, random_below(random, 2) ? "t" : "n", f->max_tokens, &f->o, out, &err), &err);
    return f;
}

/* -------------------------------------------------------------------------------------------------------- comparing */

/* Batches [from, n_closed) of the reference. */
static void check_batches(const reference *f, int from, const rig *r)
{
    hr_error err = HR_ERROR_INIT;

    assert_int_equal(rig_tables(r), f->n_closed - from);
    for (int i = 0; i < rig_tables(r); i++) {
        const hr_table *t = rig_table(r, i);
        const batch *b = &f->closed[from + i];

        assert_ok(hr__table_check(t, true, &err), &err);
        assert_true(t->sole);
        assert_int_equal(t->n_rows, b->n);
        for (int64_t k = 0; k < t->n_rows; k++) {
            int64_t begin = 0, n = 0;

            assert_int_equal(x_at(t, k), f->members[b->first + k]);
            assert_int_equal(hr__origin_at(t->origin, k).row, b->first + k);
            if (!hr__array_is_null(t->columns[1], k))
                hr__array_range(t->columns[1], k, &begin, &n);
            assert_int_equal(n, hr__array_int(t->columns[2], k));
            assert_true(n == 0 || hr__array_int(t->columns[1]->children[0], begin) == x_at(t, k));
        }
    }
}

/* -------------------------------------------------------------------------------------------------------- the tests */

static void test_random(void **unused)
{
    uint64_t random = 1;
    live_memory before = live_now();

    (void)unused;
    for (int round = 0; round < 300; round++) {
        rows *given = some_rows(&random, (int)random_below(&random, 400), (int)(1 + random_below(&random, 100)));
        hr_table *in = table_of(given), *parts[MAX_PARTS];
        int n = cut_randomly(in, &random, parts, MAX_PARTS);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        reference *f = random_batching(&random, round % 2, &op);
        rig r = { 0 };

        batch_all(f, given);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_ok(rig_run(&r, parts, n, &err), &err);
        check_batches(f, 0, &r);
        rig_close(&r);
        free(f);
        free(given);
        hr__op_unref(op);
        unref_all(parts, n);
        hr_table_unref(in);
    }
    assert_no_leak(before);
}

/* Pushes the rows from `at` on in random parts, with markers at random places. */
static void push_with_markers(rig *r, const hr_table *in, int64_t at, int most, uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;

    while (at < in->n_rows) {
        int64_t n = 1 + random_below(random, HR_MIN(in->n_rows - at, most));
        hr_table *part = slice(in, at, n);

        if (random_below(random, 4))
            assert_ok(rig_mark(r, at, &err), &err);
        assert_ok(rig_push(r, part, &err), &err);
        at += n;
        hr_table_unref(part);
    }
    assert_ok(rig_finish(r, &err), &err);
}

/* Goes on from every `step`-th marker that `r`, which began at batch `from`, passed; and from those of these runs. ->
 * how many. */
static int resume_all(const reference *f, const hr_op *op, const hr_table *in, const rig *r, int from, int deep,
                      int most, int step, uint64_t *random)
{
    hr_error err = HR_ERROR_INIT;
    int n = 0, n_tables = 0, n_markers = 0;

    for (int i = 0; i < r->n_out; i++) {
        rig tail = { 0 };

        n_tables += r->out[i].table != NULL;
        if (!r->out[i].marker || n_markers++ % step)
            continue;
        assert_ok(rig_open(&tail, op, NULL, &err), &err);
        assert_ok(rig_restore(&tail, r->out[i].state, &err), &err);
        push_with_markers(&tail, in, r->out[i].marker->at, most, random);
        check_batches(f, from + n_tables, &tail);
        n += 1 + (deep ? resume_all(f, op, in, &tail, from + n_tables, deep - 1, most, step, random) : 0);
        rig_close(&tail);
    }
    return n;
}

static void test_resume(void **unused)
{
    uint64_t random = 7;
    int n = 0;

    (void)unused;
    for (int round = 0; round < 40; round++) {
        rows *given = some_rows(&random, (int)random_below(&random, 200), (int)(1 + random_below(&random, 60)));
        hr_table *in = table_of(given);
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        reference *f = random_batching(&random, false, &op);
        rig r = { 0 };

        batch_all(f, given);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        push_with_markers(&r, in, 0, 9, &random);
        check_batches(f, 0, &r);
        n += resume_all(f, op, in, &r, 0, 1, 9, 1, &random);
        rig_close(&r);
        free(f);
        free(given);
        hr__op_unref(op);
        hr_table_unref(in);
    }
    assert_true(n > 1000); /* markers do pass */
}

/* With bounds that the first 4,096 rows choose: they are in the position. */
static void test_resume_sampled(void **unused)
{
    uint64_t random = 3;
    rows *given = some_rows(&random, 6500, 60);
    hr_table *in = table_of(given);

    (void)unused;
    for (int round = 0; round < 3; round++) {
        hr_error err = HR_ERROR_INIT;
        hr_op *op = NULL;
        reference *f = random_batching(&random, true, &op);
        rig r = { 0 };

        batch_all(f, given);
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        push_with_markers(&r, in, 0, 90, &random);
        check_batches(f, 0, &r);
        assert_true(resume_all(f, op, in, &r, 0, 0, 90, 5, &random) > 2);
        rig_close(&r);
        free(f);
        hr__op_unref(op);
    }
    free(given);
    hr_table_unref(in);
}

/* The least cost of n sorted lengths in up to k buckets, by trying all. */
static int64_t least_cost(const int64_t *lengths, int n, int k)
{
    int64_t best = INT64_MAX;

    if (n == 0)
        return 0;
    if (k == 0)
        return INT64_MAX;
    for (int i = 0; i < n; i++) {
        int64_t before = least_cost(lengths, i, k - 1);

        if (before < INT64_MAX)
            best = HR_MIN(best, before + (n - i) * HR_MAX(lengths[n - 1], 1));
    }
    return best;
}

static void test_bounds(void **unused)
{
    uint64_t random = 5;

    (void)unused;
    for (int round = 0; round < 300; round++) {
        int n = (int)(1 + random_below(&random, 12)), k = (int)(1 + random_below(&random, 4)), n_bounds = 0;
        int64_t lengths[12], bounds[4], cost = 0;

        for (int i = 0; i < n; i++)
            lengths[i] = random_below(&random, 30);
        assert_ok(hr__length_bounds(lengths, n, k, bounds, &n_bounds, NULL), NULL);
        assert_true(n_bounds >= 1 && n_bounds <= k && bounds[n_bounds - 1] == lengths[n - 1]);
        for (int i = 0, b = 0; i < n; i++) {
            while (lengths[i] > bounds[b])
                b++;
            cost += HR_MAX(bounds[b], 1);
        }
        assert_int_equal(cost, least_cost(lengths, n, k));
    }
}

static void test_states(void **unused)
{
    static const int64_t buckets[] = { 4, 10 };
    static const int lengths[] = { 3, 9, 4, 10, 12, 2 };
    hr_length_options o = { .struct_bytes = sizeof o, .buckets = buckets, .n_buckets = 2 };
    rows given = { .n = 6 };
    hr_table *in, *parts[6];
    hr_error err = HR_ERROR_INIT;
    hr_text text = { 0 };
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    memcpy(given.lengths, lengths, sizeof lengths);
    in = table_of(&given);
    for (int i = 0; i < 6; i++)
        parts[i] = slice(in, i, 1);
    assert_ok(hr__op_batch_by_length(in->schema, "t", 20, &o, &op, &err), &err);
    op->cls->describe(op, &text);
    assert_string_equal(text.data, "batch_by_length(t, 20 tokens, buckets 4,10)");
    hr__text_clear(&text);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_mark(&r, 0, &err), &err);
    assert_string_equal(r.out[0].state, "row=0 skip=0 open=- bounds=-"); /* nothing is open: at once */
    assert_ok(rig_push(&r, parts[0], &err), &err);
    assert_ok(rig_push(&r, parts[1], &err), &err);
    assert_ok(rig_mark(&r, 2, &err), &err); /* 3 | 9 */
    assert_ok(rig_push(&r, parts[2], &err), &err);
    assert_int_equal(r.n_out, 1);
    assert_ok(rig_push(&r, parts[3], &err), &err); /* 9 and 10 are 20 tokens: full */
    assert_int_equal(r.n_out, 2);
    assert_int_equal(r.out[1].table->n_rows, 2);
    assert_ok(rig_push(&r, parts[4], &err), &err); /* 12: no other of its bucket would fit */
    assert_int_equal(r.n_out, 3);
    assert_ok(rig_push(&r, parts[5], &err), &err); /* 3, 4, 2 */
    assert_ok(rig_finish(&r, &err), &err);
    assert_int_equal(r.n_out, 5);
    assert_string_equal(r.out[4].state, "row=0 skip=3 open=0:1:3:0,1:1:9:0 bounds=-");
    op->cls->stats(op, &r.run, &text);
    assert_string_equal(text.data, ",\"batches\":3,\"tokens\":40,\"padding_tokens\":4,\"padding_rate\":0.090909,"
                                   "\"dropped_rows\":0,\"waited_batches\":0,\"buckets\":[4,10]");
    hr__text_clear(&text);
    rig_close(&r);

    r = (rig){ 0 }; /* other rows than those of the position */
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_ok(rig_restore(&r, "row=0 skip=0 open=0:1:3:0,1:1:9:0 bounds=-", &err), &err);
    assert_ok(rig_push(&r, parts[2], &err), &err);
    assert_status(rig_push(&r, parts[3], &err), HR_MISMATCH, &err);
    rig_close(&r);
    hr__op_unref(op);
    unref_all(parts, 6);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static void refuse(const char *column, int64_t max_tokens, hr_length_options o, const hr_schema *schema, hr_status st,
                   const char *text)
{
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    o.struct_bytes = sizeof o;
    assert_status(hr__op_batch_by_length(schema, column, max_tokens, &o, &op, &err), st, &err);
    assert_contains(err.text, text);
    assert_null(op);
    hr_error_clear(&err);
}

static void test_refusals(void **unused)
{
    static const int64_t falling[] = { 8, 8 }, two[] = { 4, 10 };
    static const char *const bad[] = {
        "",
        "row=1 skip=0 open=-",
        "row=-1 skip=0 open=- bounds=-",
        "row=1 skip=0 open= bounds=-",
        "row=1 skip=0 open=0:0:3:0 bounds=-",
        "row=1 skip=0 open=0:1:5:0 bounds=-",
        "row=1 skip=0 open=0:6:4:0 bounds=-",
        "row=1 skip=0 open=3:1:30:0 bounds=-",
        "row=1 skip=0 open=0:1:3:0,0:1:3:0 bounds=-",
        "row=1 skip=0 open=0:1:3 bounds=-",
        "row=1 skip=0 open=0:1:3:0, bounds=-",
        "row=1 skip=0 open=- bounds=4,10",
    };
    rows given = { .n = 3, .lengths = { 3, 40, 2 } };
    hr_table *in = table_of(&given);
    hr_length_options o = { .struct_bytes = sizeof o, .buckets = two, .n_buckets = 2 };
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    refuse(NULL, 8, (hr_length_options){ 0 }, NULL, HR_INVALID, "is NULL");
    refuse("t", 0, (hr_length_options){ 0 }, NULL, HR_INVALID, "max_tokens: expected 1 to 1099511627776, found 0");
    refuse("t", 8, (hr_length_options){ .n_buckets = 257 }, NULL, HR_INVALID, "found 257");
    refuse("t", 8, (hr_length_options){ .buckets = two }, NULL, HR_INVALID, "found none");
    refuse("t", 8, (hr_length_options){ .buckets = falling, .n_buckets = 2 }, NULL, HR_INVALID, "found 8 at place 1");
    refuse("t", 8, (hr_length_options){ .max_rows = -1 }, NULL, HR_INVALID, "max_rows");
    refuse("t", 8, (hr_length_options){ .max_wait = -1 }, NULL, HR_INVALID, "max_wait");
    refuse("t", 8, (hr_length_options){ .long_rows = 3 }, NULL, HR_INVALID, "long_rows 3");
    refuse("none", 8, (hr_length_options){ 0 }, in->schema, HR_INVALID, "'none'");

    assert_ok(hr__op_batch_by_length(in->schema, "t", 20, &o, &op, &err), &err);
    for (int i = 0; i < HR_LEN(bad); i++) {
        r = (rig){ 0 };
        assert_ok(rig_open(&r, op, NULL, &err), &err);
        assert_status(rig_restore(&r, bad[i], &err), HR_INVALID, &err);
        rig_close(&r);
    }
    r = (rig){ 0 };
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_BAD_DATA, &err);
    assert_string_equal(err.text, "batch_by_length: expected at most max_tokens=20, found 40 in 't' (long_rows drops "
                                  "such a row, or makes it a batch alone), row 1");
    rig_close(&r);
    hr__op_unref(op);
    hr_table_unref(in);
    hr_error_clear(&err);
}

/* Lengths that are none, and a column of another type. */
static void test_bad_lengths(void **unused)
{
    hr_length_options o = { .struct_bytes = sizeof o };
    rows given = { .n = 3, .lengths = { 3, -4, 2 } };
    hr_error err = HR_ERROR_INIT;
    hr_table *in = table_of(&given), *more = numbers(0, 9);
    hr_op *op = NULL;
    rig r = { 0 };

    (void)unused;
    assert_ok(hr__op_batch_by_length(in->schema, "n", 20, &o, &op, &err), &err);
    assert_ok(rig_open(&r, op, NULL, &err), &err);
    assert_status(rig_push(&r, in, &err), HR_BAD_DATA, &err);
    assert_string_equal(err.text, "batch_by_length: the length in 'n' is negative, row 1");
    rig_close(&r);
    hr__op_unref(op);
    assert_status(hr__op_batch_by_length(more->schema, "s", 20, &o, &op, &err), HR_TYPE, &err);
    assert_contains(err.text, "column 's' is");
    hr_table_unref(more);
    hr_table_unref(in);
    hr_error_clear(&err);
}

typedef struct fault_case {
    hr_table *parts[4];
    hr_length_options o;
} fault_case;

static hr_status one_run(void *context, hr_error *err)
{
    const fault_case *c = context;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 }, tail = { 0 };

    HR_GO(hr__op_batch_by_length(c->parts[0]->schema, "t", 90, &c->o, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    for (int i = 0; i < 4; i++) {
        HR_GO(rig_mark(&r, i, err));
        HR_GO(rig_push(&r, c->parts[i], err));
    }
    HR_GO(rig_finish(&r, err));
    HR_GO(rig_open(&tail, op, NULL, err));
    if (c->o.buckets)
        HR_GO(rig_restore(&tail, "row=3 skip=1000 open=0:2:3:1,2:1:20:0 bounds=-", err));
    else
        HR_GO(rig_restore(&tail, "row=3 skip=1000 open=0:2:3:1,2:1:20:0 bounds=3,18", err));
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
    static const int64_t buckets[] = { 5, 18 };
    uint64_t random = 5;
    rows *given = some_rows(&random, 60, 30);
    hr_table *in = table_of(given);
    fault_case c = { .o = { .struct_bytes = sizeof c.o, .buckets = buckets, .n_buckets = 2 } };

    (void)unused;
    for (int i = 0; i < 4; i++)
        c.parts[i] = slice(in, 15 * i, 15);
    run_with_faults_on(one_run, &c, HR_FAULT_MEMORY);
    c.o.buckets = NULL;
    run_with_faults_on(one_run, &c, HR_FAULT_MEMORY);
    unref_all(c.parts, 4);
    hr_table_unref(in);
    free(given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),      cmocka_unit_test(test_resume), cmocka_unit_test(test_resume_sampled),
        cmocka_unit_test(test_bounds),      cmocka_unit_test(test_states), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_bad_lengths), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
