/* test_pick_rows.c - rows of tables of many columns, compared with each column on its own. */
#include "arrays.h"

#include <stdlib.h>

#define MAX_PARTS 5
#define MAX_COLUMNS 24
#define MAX_ROWS 3000

static const hr_type_id ids[] = { HR_T_INT32, HR_T_FLOAT32, HR_T_DATE32,  HR_T_INT64, HR_T_FLOAT64,
                                  HR_T_INT8,  HR_T_INT16,   HR_T_FLOAT16, HR_T_BOOL,  HR_T_STRING };

/* Whole numbers as bytes, so that every value is another one. */
static hr_array *full_array(uint64_t *seed, hr_type *type, int64_t n)
{
    const hr_mem mem = { 0 };
    int64_t n_bytes = n * hr__type_bytes(type);
    hr_buffer *buffers[3] = { NULL };
    hr_array *a = NULL;

    assert_int_equal(hr__buffer_new(&mem, n_bytes, &buffers[1], NULL), HR_OK);
    for (int64_t i = 0; i < n_bytes; i++)
        buffers[1]->data[i] = (uint8_t)next_random(seed);
    assert_int_equal(hr__array_new(type, n, 0, buffers, NULL, 0, &a, NULL), HR_OK);
    return a;
}

/* Rows that begin anywhere in their buffers; a third of the columns has nulls. */
static hr_array *random_column(uint64_t *seed, hr_type *type, int64_t n, bool full)
{
    int64_t begin = random_below(seed, 9), more = random_below(seed, 5);
    bool numbers = type->id != HR_T_BOOL && type->id != HR_T_STRING;
    hr_array *whole =
        numbers && full ? full_array(seed, type, n + begin + more) : random_array(seed, type, n + begin + more);
    hr_array *part = NULL;

    assert_int_equal(hr__array_slice(whole, begin, n, &part, NULL), HR_OK);
    hr__array_unref(whole);
    return part;
}

typedef struct sample {
    hr_schema *schema;
    hr_table *parts[MAX_PARTS];
    int n_parts;
    int64_t n_rows;
} sample;

static sample sample_new(uint64_t *seed, int n_columns, int n_ids, int64_t most)
{
    sample s = { .n_parts = 1 + (int)random_below(seed, MAX_PARTS) };
    hr_field fields[MAX_COLUMNS] = { { 0 } };
    bool full[MAX_COLUMNS];

    for (int k = 0; k < n_columns; k++) {
        fields[k] = (hr_field){ .name = (char *)"c",
                                .type = hr__type_simple(ids[random_below(seed, n_ids)]),
                                .nullable = true };
        full[k] = random_below(seed, 3) > 0;
    }
    assert_int_equal(hr__schema_new(fields, n_columns, &s.schema, NULL), HR_OK);
    for (int i = 0; i < s.n_parts; i++) {
        hr_array *columns[MAX_COLUMNS];
        int64_t n = random_below(seed, 6) ? random_below(seed, most) + 1 : 0;

        for (int k = 0; k < n_columns; k++)
            columns[k] = random_column(seed, fields[k].type, n, full[k]);
        assert_int_equal(hr__table_new(s.schema, columns, n, NULL, &s.parts[i], NULL), HR_OK);
        s.n_rows += n;
    }
    return s;
}

static void sample_clear(sample *s)
{
    for (int i = 0; i < s->n_parts; i++)
        hr_table_unref(s->parts[i]);
    hr__schema_unref(s->schema);
}

static void check_columns(const sample *s, const hr_table *got, const uint32_t *picks, int64_t n)
{
    hr_error err = HR_ERROR_INIT;

    assert_ok(hr__table_check(got, true, &err), &err);
    assert_int_equal(got->n_rows, n);
    assert_true(got->sole);
    for (int k = 0; k < s->schema->n; k++) {
        hr_array *arrays[MAX_PARTS], *want = NULL;

        for (int i = 0; i < s->n_parts; i++)
            arrays[i] = s->parts[i]->columns[k];
        assert_ok(hr__array_pick(NULL, s->schema->fields[k].type, arrays, s->n_parts, picks, n, &want, &err), &err);
        assert_same_array(got->columns[k], want);
        assert_int_equal(hr__array_null_count(got->columns[k]), hr__array_null_count(want));
        hr__array_unref(want);
    }
}

/* Some rows of all parts, in any order, some of them twice. */
static int64_t random_picks(uint64_t *seed, const sample *s, uint32_t *picks)
{
    int64_t n = 0, most = random_below(seed, 4) ? 2 * s->n_rows : s->n_rows / 8;

    for (int64_t i = 0; i < most && n < MAX_ROWS; i++) {
        uint32_t part = (uint32_t)random_below(seed, s->n_parts);

        if (s->parts[part]->n_rows)
            picks[n++] = part << HR_PICK_BITS | (uint32_t)random_below(seed, s->parts[part]->n_rows);
    }
    return n;
}

static void any_rows(void **state)
{
    const hr_mem mem = { 0 };
    uint32_t *picks = malloc(MAX_ROWS * sizeof *picks);
    uint64_t seed = 3;

    (void)state;
    assert_non_null(picks);
    for (int round = 0; round < 120; round++) {
        sample s = sample_new(&seed, 1 + round % MAX_COLUMNS, round % 3 ? 5 : HR_LEN(ids), round % 5 ? 60 : 600);
        int64_t n = random_picks(&seed, &s, picks);
        hr_error err = HR_ERROR_INIT;
        hr_table *got = NULL;

        assert_ok(hr__table_pick(&mem, s.schema, s.parts, s.n_parts, picks, n, NULL, &got, &err), &err);
        check_columns(&s, got, picks, n);
        hr_table_unref(got);
        sample_clear(&s);
    }
    free(picks);
}

/* All rows: runs of 16 of each part, the runs in any order, then the rows in any order. */
static void rows_of_runs(void **state)
{
    const hr_mem mem = { 0 };
    uint32_t *room = malloc(3 * MAX_ROWS * sizeof *room);
    uint32_t *picks = room, *order = room + MAX_ROWS, *ordered = room + 2 * MAX_ROWS;
    uint64_t seed = 4;

    (void)state;
    assert_non_null(room);
    for (int round = 0; round < 60; round++) {
        sample s = sample_new(&seed, 1 + round % MAX_COLUMNS, round % 3 ? 5 : HR_LEN(ids), 500);
        hr_error err = HR_ERROR_INIT;
        hr_table *got = NULL;
        int64_t n = 0;

        for (int i = s.n_parts - 1; i >= 0; i--)
            for (int64_t at = (s.parts[i]->n_rows - 1) / 16 * 16; at >= 0; at -= 16)
                for (int64_t row = at; row < HR_MIN(at + 16, s.parts[i]->n_rows); row++)
                    picks[n++] = (uint32_t)i << HR_PICK_BITS | (uint32_t)row;
        for (int64_t i = 0; i < n; i++)
            order[i] = (uint32_t)i;
        hr__random_permute(order, n, seed);
        for (int64_t i = 0; i < n; i++)
            ordered[i] = picks[order[i]];
        assert_ok(hr__table_pick_runs(&mem, s.schema, s.parts, s.n_parts, picks, order, n, NULL, &got, &err), &err);
        check_columns(&s, got, ordered, n);
        hr_table_unref(got);
        sample_clear(&s);
    }
    free(room);
}

static void any_rows_without_kernels(void **state) { run_without_kernels(any_rows, state); }

/* A room takes memory beside the table: with a small limit the columns are picked one by one. */
static void small_limit(void **state)
{
    enum { ROWS = 4000 };
    uint64_t seed = 5;
    hr_account *account = hr__account_new("small", NULL, ROWS * 32);
    const hr_mem mem = { .account = account };
    hr_field fields[3] = { { 0 } };
    hr_array *columns[3];
    uint32_t picks[ROWS];
    hr_error err = HR_ERROR_INIT;
    sample s = { .n_parts = 1, .n_rows = ROWS };
    hr_table *got = NULL;

    (void)state;
    assert_non_null(account);
    for (int k = 0; k < 3; k++)
        fields[k] = (hr_field){ .name = (char *)"c", .type = hr__type_simple(HR_T_INT32) };
    assert_int_equal(hr__schema_new(fields, 3, &s.schema, NULL), HR_OK);
    for (int k = 0; k < 3; k++)
        columns[k] = full_array(&seed, fields[k].type, ROWS);
    assert_int_equal(hr__table_new(s.schema, columns, ROWS, NULL, &s.parts[0], NULL), HR_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        picks[i] = ROWS - 1 - i;
    assert_ok(hr__table_pick(&mem, s.schema, s.parts, 1, picks, ROWS, NULL, &got, &err), &err);
    assert_true(hr__account_peak(account) < ROWS * 24);
    check_columns(&s, got, picks, ROWS);
    hr_table_unref(got);
    sample_clear(&s);
    hr__account_unref(account);
}

typedef struct faulty {
    sample s;
    uint32_t picks[MAX_ROWS];
    int64_t n;
} faulty;

static hr_status pick_once(void *context, hr_error *err)
{
    const hr_mem mem = { 0 };
    const faulty *f = context;
    hr_table *got = NULL;
    hr_status st = hr__table_pick(&mem, f->s.schema, f->s.parts, f->s.n_parts, f->picks, f->n, NULL, &got, err);

    hr_table_unref(got);
    return st;
}

static void faults(void **state)
{
    static faulty f;
    uint64_t seed = 6;

    (void)state;
    f.s = sample_new(&seed, 20, 5, 200);
    f.n = random_picks(&seed, &f.s, f.picks);
    run_with_faults_on(pick_once, &f, HR_FAULT_MEMORY);
    sample_clear(&f.s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_rows_without_kernels), /* first: before the features are read */
        cmocka_unit_test(any_rows),
        cmocka_unit_test(rows_of_runs),
        cmocka_unit_test(small_limit),
        cmocka_unit_test(faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
