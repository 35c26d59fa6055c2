/* test_pick_runs.c - rows by stretches and then one by one, compared with pick.c, for every type. */
#include "arrays.h"

#include <stdlib.h>

#define MAX_PARTS 6
#define PART_ROWS 300

/* Tables of one column that begin anywhere in their buffers. */
static hr_table *random_part(uint64_t *seed, hr_schema *schema, hr_type *type, bool empty)
{
    int64_t n = empty ? 0 : 1 + random_below(seed, PART_ROWS), begin = random_below(seed, 9);
    hr_array *whole = random_array(seed, type, n + begin + random_below(seed, 5)), *part = NULL, *full = NULL;
    hr_table *t = NULL;

    assert_int_equal(hr__array_slice(whole, begin, n, &part, NULL), HR_OK);
    if (random_below(seed, 2)) { /* without nulls, for sure */
        hr_buffer *buffers[3] = { NULL };

        for (int i = 1; i < 3; i++)
            buffers[i] = part->buffers[i] ? hr__buffer_ref(part->buffers[i]) : NULL;
        if (!type->n_children && type->id != HR_T_NULL && (n == 0 || buffers[1])) {
            assert_int_equal(hr__array_new(type, n, 0, buffers, NULL, 0, &full, NULL), HR_OK);
            full->offset = part->offset;
            hr__array_unref(part);
            part = full;
        } else {
            for (int i = 1; i < 3; i++)
                hr__buffer_unref(buffers[i]);
        }
    }
    assert_int_equal(hr__table_new(schema, &part, n, NULL, &t, NULL), HR_OK);
    hr__array_unref(whole);
    return t;
}

/* Rows of all parts: stretches of up to `longest` in any order, each row once. */
static int64_t random_runs(uint64_t *seed, hr_table **parts, int n_parts, int64_t longest, uint32_t *picks)
{
    uint32_t run[MAX_PARTS * PART_ROWS], begin[MAX_PARTS * PART_ROWS], length[MAX_PARTS * PART_ROWS];
    int64_t n = 0, n_runs = 0;

    for (int i = 0; i < n_parts; i++)
        for (int64_t at = 0, k; at < parts[i]->n_rows; at += k) {
            k = longest == 16 ? 16 : 1 + random_below(seed, longest);
            k = HR_MIN(k, parts[i]->n_rows - at);
            run[n_runs] = (uint32_t)n_runs;
            begin[n_runs] = (uint32_t)i << HR_PICK_BITS | (uint32_t)at;
            length[n_runs++] = (uint32_t)k;
        }
    hr__random_permute(run, n_runs, *seed);
    for (int64_t r = 0; r < n_runs; r++)
        for (uint32_t k = 0; k < length[run[r]]; k++)
            picks[n++] = begin[run[r]] + k;
    return n;
}

static void check(hr_schema *schema, hr_table **parts, int n_parts, const uint32_t *picks, int64_t n, uint64_t *seed)
{
    const hr_mem mem = { 0 };
    uint32_t *order = malloc((size_t)(n + 1) * sizeof *order), *ordered = malloc((size_t)(n + 1) * sizeof *ordered);
    hr_table *got = NULL, *want = NULL;
    hr_error err = HR_ERROR_INIT;

    assert_true(order && ordered);
    for (int64_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    hr__random_permute(order, n, (*seed)++);
    for (int64_t i = 0; i < n; i++)
        ordered[i] = picks[order[i]];
    assert_ok(hr__table_pick_runs(&mem, schema, parts, n_parts, picks, order, n, NULL, &got, &err), &err);
    assert_ok(hr__table_pick(&mem, schema, parts, n_parts, ordered, n, NULL, &want, &err), &err);
    assert_ok(hr__table_check(got, true, &err), &err);
    assert_true(got->sole);
    for (int k = 0; k < schema->n; k++) {
        assert_same_array(got->columns[k], want->columns[k]);
        assert_int_equal(hr__array_null_count(got->columns[k]), hr__array_null_count(want->columns[k]));
    }
    hr_table_unref(got);
    hr_table_unref(want);
    free(order);
    free(ordered);
}

static void random_stretches(void **state)
{
    static const int64_t longest[] = { 16, 40, 5, 1 };
    uint64_t seed = 3;
    uint32_t picks[MAX_PARTS * PART_ROWS];

    (void)state;
    for (int k = 0; k < n_sample_types(); k++) {
        hr_type *type = sample_type(k);
        hr_field field = { .name = (char *)"c", .type = type, .nullable = true };
        hr_schema *schema = NULL;

        assert_int_equal(hr__schema_new(&field, 1, &schema, NULL), HR_OK);
        for (int round = 0; round < 12; round++) {
            hr_table *parts[MAX_PARTS];
            int n_parts = 1 + (int)random_below(&seed, MAX_PARTS);
            int64_t n;

            for (int i = 0; i < n_parts; i++)
                parts[i] = random_part(&seed, schema, type, random_below(&seed, 6) == 0);
            n = random_runs(&seed, parts, n_parts, longest[round % 4], picks);
            check(schema, parts, n_parts, picks, round == 7 ? 0 : n, &seed);
            for (int i = 0; i < n_parts; i++)
                hr_table_unref(parts[i]);
        }
        hr__schema_unref(schema);
        hr__type_unref(type);
    }
}

static void without_kernels(void **state) { run_without_kernels(random_stretches, state); }

/* The last row of a part and the first of the next have picks that follow each other, if parts are as long as can
 * be. */
static void parts_end(void **state)
{
    enum { AROUND = 40 };
    const hr_mem mem = { 0 };
    hr_type *type = hr__type_simple(HR_T_INT32);
    hr_field field = { .name = (char *)"c", .type = type };
    hr_schema *schema = NULL;
    hr_table *parts[2] = { NULL };
    uint32_t picks[2 * AROUND];
    uint64_t seed = 8;

    (void)state;
    assert_int_equal(hr__schema_new(&field, 1, &schema, NULL), HR_OK);
    for (int i = 0; i < 2; i++) {
        hr_buffer *buffers[3] = { NULL };
        hr_array *a = NULL;

        assert_int_equal(hr__buffer_new(&mem, HR_PICK_ROWS * INT64_C(4), &buffers[1], NULL), HR_OK);
        for (int32_t k = 0; k < HR_PICK_ROWS; k++)
            ((int32_t *)(void *)buffers[1]->data)[k] = i * HR_PICK_ROWS + k;
        assert_int_equal(hr__array_new(type, HR_PICK_ROWS, 0, buffers, NULL, 0, &a, NULL), HR_OK);
        assert_int_equal(hr__table_new(schema, &a, HR_PICK_ROWS, NULL, &parts[i], NULL), HR_OK);
    }
    for (uint32_t i = 0; i < 2 * AROUND; i++)
        picks[i] = HR_PICK_ROWS - AROUND + i; /* 13 and 27 rows, say, on either side of the border */
    check(schema, parts, 2, picks + 5, 2 * AROUND - 5, &seed);
    hr_table_unref(parts[0]);
    hr_table_unref(parts[1]);
    hr__schema_unref(schema);
}

static void refusals(void **state)
{
    const hr_mem mem = { 0 };
    uint64_t seed = 5;
    hr_type *type = hr__type_simple(HR_T_INT32);
    hr_field field = { .name = (char *)"c", .type = type, .nullable = true };
    hr_schema *schema = NULL;
    hr_table *t, *got = NULL;
    uint32_t picks[2] = { 0 }, order[2] = { 1, 0 };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_int_equal(hr__schema_new(&field, 1, &schema, NULL), HR_OK);
    t = random_part(&seed, schema, type, false);
    picks[0] = (uint32_t)t->n_rows - 1;
    picks[1] = (uint32_t)t->n_rows;
    assert_status(hr__table_pick_runs(&mem, schema, &t, 1, picks, order, 2, NULL, &got, &err), HR_BUG, &err);
    assert_contains(err.text, "of part 0 of 1");
    picks[1] = 1u << HR_PICK_BITS;
    assert_status(hr__table_pick_runs(&mem, schema, &t, 1, picks, order, 2, NULL, &got, &err), HR_BUG, &err);
    assert_null(got);
    hr_table_unref(t);
    hr__schema_unref(schema);
    hr_error_clear(&err);
}

typedef struct faulty {
    hr_schema *schema;
    hr_table *parts[2];
    uint32_t picks[2 * PART_ROWS], order[2 * PART_ROWS];
    int64_t n;
} faulty;

static hr_status pick_once(void *context, hr_error *err)
{
    const hr_mem mem = { 0 };
    faulty *f = context;
    hr_table *got = NULL;
    hr_status st = hr__table_pick_runs(&mem, f->schema, f->parts, 2, f->picks, f->order, f->n, NULL, &got, err);

    hr_table_unref(got);
    return st;
}

/* A column of numbers, one of text, and one that goes the other way. */
static void faults(void **state)
{
    static const hr_type_id ids[] = { HR_T_INT64, HR_T_STRING, HR_T_BOOL };
    faulty f = { 0 };
    uint64_t seed = 6;
    hr_field fields[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        fields[i] = (hr_field){ .name = (char *)(i ? i > 1 ? "c" : "b" : "a"), .type = hr__type_simple(ids[i]) };
    assert_int_equal(hr__schema_new(fields, 3, &f.schema, NULL), HR_OK);
    for (int p = 0; p < 2; p++) {
        hr_array *columns[3];

        for (int i = 0; i < 3; i++) {
            hr_builder *b = builder_of(fields[i].type);

            for (int64_t row = 0; row < PART_ROWS; row++)
                if (ids[i] == HR_T_STRING)
                    assert_int_equal(hr__builder_bytes(b, "a text of 20 letters", row % 21, NULL), HR_OK);
                else
                    assert_int_equal(hr__builder_int(b, ids[i] == HR_T_BOOL ? row % 2 : row, NULL), HR_OK);
            columns[i] = finish(b);
        }
        assert_int_equal(hr__table_new(f.schema, columns, PART_ROWS, NULL, &f.parts[p], NULL), HR_OK);
    }
    f.n = random_runs(&seed, f.parts, 2, 16, f.picks);
    for (int64_t i = 0; i < f.n; i++)
        f.order[i] = (uint32_t)i;
    hr__random_permute(f.order, f.n, 1);
    run_with_faults_on(pick_once, &f, HR_FAULT_MEMORY);
    hr_table_unref(f.parts[0]);
    hr_table_unref(f.parts[1]);
    hr__schema_unref(f.schema);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_kernels), /* first: before the features are read */
        cmocka_unit_test(random_stretches), cmocka_unit_test(parts_end),
        cmocka_unit_test(refusals),         cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
