/* test_custom_scan.c - a user's own source: its order, positions, columns, errors and releases. */
#include "arrays.h"
#include "format/format.h"

#include <stdio.h>

#define N_FRAGMENTS 5
#define BATCHES 3 /* in a fragment, of 10, 0 and 7 rows */

typedef struct counters {
    atomic_int opened, closed, freed;
    int fail_at;     /* the fragment whose stream fails in its last batch; -1: none */
    int64_t rows;    /* the result of n_rows */
    hr_type_id type; /* of "id" in the streams */
    bool no_stream;
} counters;

typedef struct numbers {
    counters *c;
    int fragment, batch;
} numbers;

static const int64_t batch_rows[BATCHES] = { 10, 0, 7 };

static void schema_with(hr_type_id id, struct ArrowSchema *out)
{
    hr_field fields[2] = { { 0 } };
    hr_schema *schema = NULL;

    assert_ok(hr__field_init(&fields[0], "id", hr__type_simple(id), false, NULL), NULL);
    assert_ok(hr__field_init(&fields[1], "text", hr__type_simple(HR_T_STRING), false, NULL), NULL);
    assert_ok(hr__schema_new(fields, 2, &schema, NULL), NULL);
    assert_ok(hr__schema_export(schema, out, NULL), NULL);
    hr__schema_unref(schema);
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
}

static int numbers_schema(struct ArrowArrayStream *s, struct ArrowSchema *out)
{
    schema_with(((numbers *)s->private_data)->c->type, out);
    return 0;
}

/* ids: fragment * 100 + row; texts "t". */
static int numbers_next(struct ArrowArrayStream *s, struct ArrowArray *out)
{
    numbers *n = s->private_data;
    hr_builder *id, *text;
    hr_array *columns[2];
    hr_table *t = NULL;
    hr_schema *schema = NULL;
    struct ArrowSchema exported;
    int64_t first = n->batch == 2 ? 10 : 0;

    *out = (struct ArrowArray){ 0 };
    if (n->batch == BATCHES)
        return 0;
    if (n->batch == BATCHES - 1 && n->fragment == n->c->fail_at)
        return 5;
    id = builder_of(hr__type_simple(n->c->type));
    text = builder_of(hr__type_simple(HR_T_STRING));
    for (int64_t i = 0; i < batch_rows[n->batch]; i++) {
        assert_ok(hr__builder_int(id, n->fragment * 100 + first + i, NULL), NULL);
        assert_ok(hr__builder_bytes(text, "t", 1, NULL), NULL);
    }
    columns[0] = finish(id);
    columns[1] = finish(text);
    schema_with(n->c->type, &exported);
    assert_ok(hr__schema_import(&exported, &schema, NULL), NULL);
    assert_ok(hr__table_new(schema, columns, batch_rows[n->batch], NULL, &t, NULL), NULL);
    assert_ok(hr_table_export(t, NULL, out, NULL), NULL);
    hr_table_unref(t);
    hr__schema_unref(schema);
    n->batch++;
    return 0;
}

static const char *numbers_error(struct ArrowArrayStream *s)
{
    (void)s;
    return "the sensor is cold";
}

static void numbers_release(struct ArrowArrayStream *s)
{
    numbers *n = s->private_data;

    atomic_fetch_add(&n->c->closed, 1);
    hr__free(n);
    s->release = NULL;
}

static hr_status source_schema(void *context, struct ArrowSchema *out, hr_error *err)
{
    (void)context;
    (void)err;
    schema_with(HR_T_INT64, out);
    return HR_OK;
}

static hr_status source_read(void *context, int fragment, const char *const *columns, int n_columns,
                             struct ArrowArrayStream *out, hr_error *err)
{
    counters *c = context;
    numbers *n;

    assert_true(n_columns == 0 || columns[0] != NULL);
    if (c->no_stream)
        return HR_OK;
    n = hr__zalloc(NULL, sizeof *n);
    if (!n)
        return hr__error_memory(err, "numbers", sizeof *n);
    *n = (numbers){ c, fragment, 0 };
    *out = (struct ArrowArrayStream){ numbers_schema, numbers_next, numbers_error, numbers_release, n };
    atomic_fetch_add(&c->opened, 1);
    return HR_OK;
}

static int64_t source_rows(void *context, int fragment)
{
    (void)fragment;
    return ((counters *)context)->rows;
}

static void source_free(void *context) { atomic_fetch_add(&((counters *)context)->freed, 1); }

static hr_source_functions functions_of(counters *c)
{
    return (hr_source_functions){ .struct_bytes = sizeof(hr_source_functions),
                                  .name = "numbers",
                                  .context = c,
                                  .context_free = source_free,
                                  .n_fragments = N_FRAGMENTS,
                                  .schema = source_schema,
                                  .read = source_read,
                                  .n_rows = source_rows };
}

static counters begin(void) { return (counters){ .fail_at = -1, .rows = -1, .type = HR_T_INT64 }; }

/* The first column of all rows as text, in batches of 4; from `position` on, or NULL. */
static hr_status read_all(hr_plan *p, const char *position, hr_text *out, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = 4, .position = position };
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_feed_open(p, &options, &f, err));
    for (;;) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        hr__text_add(out, "%s ", values_text(t->columns[0]));
        hr_table_unref(t);
    }
done:
    hr_feed_close(f);
    return st;
}

static void want_text(int from, hr_text *out)
{
    int k = 0;

    for (int f = 0; f < N_FRAGMENTS; f++) {
        for (int row = 0; row < 17; row++, k++)
            if (k >= from)
                hr__text_add(out, "%d ", f * 100 + row);
    }
}

static void order_and_positions(void **state)
{
    counters c = begin();
    hr_source_functions functions = functions_of(&c);
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = 4 };
    hr_error err = HR_ERROR_INIT;
    hr_text got = { 0 }, want = { 0 };
    hr_plan *p = NULL;
    char *text = NULL;
    int64_t n;

    (void)state;
    assert_ok(hr_plan_source(&functions, &p, &err), &err);
    assert_ok(hr_plan_count(p, &n, &err), &err);
    assert_int_equal(n, -1); /* a source that does not say it */
    want_text(0, &want);
    assert_ok(read_all(p, NULL, &got, &err), &err);
    assert_string_equal(got.data, want.data);
    assert_int_equal(c.opened, N_FRAGMENTS);
    for (int taken = 1; taken < 21; taken += 3) {
        hr_feed *f = NULL;
        hr_table *t = NULL;
        char *position = NULL;

        assert_ok(hr_feed_open(p, &options, &f, &err), &err);
        for (int i = 0; i < taken; i++) {
            assert_ok(hr_feed_next(f, &t, &err), &err);
            hr_table_unref(t);
        }
        assert_ok(hr_feed_position(f, &position, &err), &err);
        hr_feed_close(f);
        hr__text_clear(&got);
        hr__text_clear(&want);
        want_text(taken * 4, &want);
        assert_ok(read_all(p, position, &got, &err), &err);
        assert_string_equal(got.data, want.data);
        hr_string_free(position);
    }
    assert_int_equal(c.opened, c.closed);
    assert_ok(hr_plan_explain(p, &text, &err), &err);
    assert_contains(text, "source numbers [5 fragments]");
    hr_string_free(text);
    hr__text_clear(&got);
    hr__text_clear(&want);
    assert_int_equal(c.freed, 0);
    hr_plan_unref(p);
    assert_int_equal(c.freed, 1);
}

/* Projected, widened, counted by n_rows, limited. */
static void columns_and_counts(void **state)
{
    const char *text = "text", *id = "id";
    counters c = begin();
    hr_source_functions functions = functions_of(&c);
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL, *narrow = NULL, *ids = NULL, *few = NULL;
    hr_text got = { 0 }, want = { 0 };
    int64_t n;

    (void)state;
    c.rows = 17;
    c.type = HR_T_INT16;
    assert_ok(hr_plan_source(&functions, &p, &err), &err);
    assert_ok(hr_plan_count(p, &n, &err), &err);
    assert_true(n >= 0);
    assert_int_equal(n, 17 * N_FRAGMENTS);
    assert_ok(hr_plan_project(p, &id, NULL, 1, &ids, &err), &err);
    want_text(0, &want);
    assert_ok(read_all(ids, NULL, &got, &err), &err);
    assert_string_equal(got.data, want.data);
    hr__text_clear(&got);
    assert_ok(hr_plan_project(p, &text, NULL, 1, &narrow, &err), &err);
    assert_ok(hr_plan_limit(narrow, 3, &few, &err), &err);
    assert_ok(read_all(few, NULL, &got, &err), &err);
    assert_string_equal(got.data, "t t t ");
    hr__text_clear(&got);
    hr__text_clear(&want);
    hr_plan_unref(few);
    hr_plan_unref(narrow);
    hr_plan_unref(ids);
    hr_plan_unref(p);
    assert_int_equal(c.opened, c.closed);
}

static const struct {
    int fail_at;
    int64_t rows;
    hr_type_id type;
    bool no_stream;
    hr_status st;
    const char *text;
} wrong[] = {
    { 2, -1, HR_T_INT64, false, HR_IO, "numbers: fragment 2: Arrow stream: error 5: the sensor is cold" },
    { -1, 20, HR_T_INT64, false, HR_CALLBACK, "fragment 0: the stream ends after 17 rows, expected 20" },
    { -1, -1, HR_T_FLOAT64, false, HR_TYPE, "fragment 0: column 'id' is double, declared is int64" },
    { -1, -1, HR_T_INT64, true, HR_CALLBACK, "numbers: fragment 0: read returned no stream" },
};

static void errors(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(wrong); i++) {
        counters c = {
            .fail_at = wrong[i].fail_at, .rows = wrong[i].rows, .type = wrong[i].type, .no_stream = wrong[i].no_stream
        };
        hr_source_functions functions = functions_of(&c);
        hr_error err = HR_ERROR_INIT;
        hr_text got = { 0 };
        hr_plan *p = NULL;

        assert_ok(hr_plan_source(&functions, &p, &err), &err);
        assert_status(read_all(p, NULL, &got, &err), wrong[i].st, &err);
        assert_contains(err.text, wrong[i].text);
        hr__text_clear(&got);
        hr_plan_unref(p);
        assert_int_equal(c.opened, c.closed);
        assert_int_equal(c.freed, 1);
        hr_error_clear(&err);
    }
}

static void incomplete(void **state)
{
    counters c = begin();
    hr_source_functions functions = functions_of(&c);
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = NULL;

    (void)state;
    functions.read = NULL;
    assert_status(hr_plan_source(&functions, &p, &err), HR_INVALID, &err);
    assert_contains(err.text, "numbers: a source needs the functions schema and read");
    assert_null(p);
    assert_int_equal(c.freed, 1);
    hr_error_clear(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(order_and_positions), cmocka_unit_test(columns_and_counts),
                                        cmocka_unit_test(errors), cmocka_unit_test(incomplete) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
