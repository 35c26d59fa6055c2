/* test_sorter.c - one order of rows for any cut of tables, any spilling and any thread. */
#include "arrays.h"
#include "op/order/sorter.h"
#include "task_harness.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

typedef struct sorting {
    hr_table *in, *want;
    hr_order_key keys[3];
    int n_keys, n_hidden;
    int64_t allowance;
    int64_t n_first;   /* 0: all */
    int64_t most_rows; /* of a table that comes in */
    int n_helpers;
    uint64_t random;
    hr_sorter_counts counts; /* out */
} sorting;

/* The slow way: insertion by comparing, stable. */
static hr_table *sorted_slowly(const sorting *x)
{
    int64_t n = x->in->n_rows, *idx = test_malloc((size_t)(n + 1) * sizeof *idx),
            *half = test_malloc((size_t)(n + 1) * sizeof *idx);
    hr_table bare = *x->in, *out = NULL;
    hr_order *o = NULL;

    assert_ok(hr__order_new(x->in->schema, x->keys, x->n_keys, NULL, &o, NULL), NULL);
    for (int64_t i = 0; i < n; i++)
        idx[i] = i;
    for (int64_t width = 1; width < n; width *= 2) { /* merges, from the bottom up */
        for (int64_t at = 0; at < n; at += 2 * width) {
            int64_t middle = HR_MIN(at + width, n), end = HR_MIN(at + 2 * width, n), i = at, k = middle;

            for (int64_t w = at; w < end; w++)
                half[w] = k >= end || (i < middle && hr__order_compare(o, &bare, idx[i], &bare, idx[k]) <= 0)
                              ? idx[i++]
                              : idx[k++];
        }
        memcpy(idx, half, (size_t)n * sizeof *idx);
    }
    bare.origin = NULL;
    assert_ok(hr__table_take(NULL, &bare, idx, 8, n, &out, NULL), NULL);
    hr__order_free(o);
    test_free(idx);
    test_free(half);
    return out;
}

typedef struct helping {
    hr_sorter *sorter;
    atomic_bool stop;
    atomic_int failed;
} helping;

static void help(void *arg)
{
    helping *h = arg;
    hr_sort_space space = { 0 };

    while (!atomic_load(&h->stop)) {
        bool did;

        if (hr__sorter_help(h->sorter, &space, &did, NULL))
            atomic_store(&h->failed, 1);
    }
    hr__sort_space_clear(&space);
}

static hr_status add_all(sorting *x, hr_sorter *s, hr_error *err)
{
    hr_sort_space space = { 0 };
    hr_status st = HR_OK;
    hr_mem mem = { 0 };

    for (int64_t at = 0; at < x->in->n_rows && !st;) {
        int64_t drawn = 1 + random_below(&x->random, x->most_rows), n = HR_MIN(x->in->n_rows - at, drawn);
        hr_table *part = NULL, *sorted = NULL;

        if (!(st = hr_table_slice(x->in, at, n, &part, err)) &&
            !(st = hr__sorter_sort(s, &mem, &space, part, &sorted, err)))
            st = hr__sorter_add(s, sorted, err);
        hr_table_unref(part);
        at += n;
    }
    hr__sort_space_clear(&space);
    return st;
}

/* Pieces are opened in random order, and must say by themselves where in the whole they stand. */
static hr_status read_all(sorting *x, hr_sorter *s, int64_t n_block_parts, hr_table ***out, int *n_out, hr_error *err)
{
    hr_table **by_block_part = test_calloc((size_t)(n_block_parts + 1) * 4096, sizeof(hr_table *));
    int64_t *order = test_malloc((size_t)(n_block_parts + 1) * sizeof *order),
            *n = test_calloc((size_t)n_block_parts + 1, sizeof *n);
    hr_status st = HR_OK;
    hr_mem mem = { 0 };

    for (int64_t i = 0; i < n_block_parts; i++) {
        int64_t k = random_below(&x->random, i + 1);

        order[i] = order[k];
        order[k] = i;
    }
    for (int64_t i = 0; i < n_block_parts && !st; i++) {
        int64_t p = order[i], estimate = 0;
        hr_reader *r = NULL;
        hr_table *t = NULL;

        if ((st = hr__sorter_read(s, p, &mem, &r, &estimate, err)))
            break;
        assert_true(estimate > 0);
        while (!(st = hr__reader_next(r, 1 << 20, &t, err)) && t) {
            assert_true(n[p] < 4096);
            by_block_part[p * 4096 + n[p]++] = t;
        }
        hr__reader_close(r);
    }
    *out = test_calloc((size_t)(n_block_parts + 1) * 4096, sizeof(hr_table *));
    *n_out = 0;
    for (int64_t p = 0; p < n_block_parts; p++)
        for (int64_t i = 0; i < n[p]; i++)
            (*out)[(*n_out)++] = by_block_part[p * 4096 + i];
    test_free(by_block_part);
    test_free(order);
    test_free(n);
    return st;
}

static hr_status sort_it(void *context, hr_error *err)
{
    sorting *x = context;
    hr_sorter_options options = {
        .name = "test",
        .keys = x->keys,
        .n_keys = x->n_keys,
        .n_hidden = x->n_hidden,
        .n_first = x->n_first,
        .allowance = x->allowance,
    };
    helping h = { .stop = false };
    hr_thread helpers[4];
    hr_table **tables = NULL;
    hr_sorter *s = NULL;
    hr_status st = HR_OK;
    int64_t n_block_parts = 0, at = 0, wanted = x->n_first ? HR_MIN(x->n_first, x->in->n_rows) : x->in->n_rows;
    int n = 0, n_helpers = 0;

    HR_GO(hr__sorter_new(x->in->schema, &options, &s, err));
    h.sorter = s;
    for (; n_helpers < x->n_helpers; n_helpers++)
        assert_int_equal(hr__thread_start(&helpers[n_helpers], "help", help, &h), 0);
    st = add_all(x, s, err);
    atomic_store(&h.stop, true);
    for (int i = 0; i < n_helpers; i++)
        hr__thread_join(helpers[i]);
    assert_int_equal(h.failed, 0);
    HR_GO(st);
    HR_GO(hr__sorter_end(s, &n_block_parts, err));
    x->counts = hr__sorter_counts(s);
    HR_GO(read_all(x, s, n_block_parts, &tables, &n, err));
    for (int i = 0; i < n; i++) {
        assert_int_equal(tables[i]->schema->n, x->in->schema->n - x->n_hidden);
        assert_int_equal(hr__origin_run(tables[i]->origin, 0).n, tables[i]->n_rows);
        assert_int_equal(hr__origin_at(tables[i]->origin, 0).row, at);
        for (int c = 0; c < tables[i]->schema->n; c++)
            for (int64_t k = 0; k < tables[i]->n_rows && at + k < wanted; k++)
                assert_true(hr__values_equal(tables[i]->columns[c], k, x->want->columns[c], at + k));
        at += tables[i]->n_rows;
    }
    assert_in_range(at, wanted, x->n_first ? x->in->n_rows : wanted);
done:
    for (int i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    test_free(tables);
    hr__sorter_free(s);
    if (hr_spill_used())
        fail_msg("%lld bytes are left on the disk", (long long)hr_spill_used());
    return st;
}

/* Keys that repeat much or little, a payload of every kind, and the row's number, so that stability shows. */
static hr_table *mixed_table(uint64_t *random, int64_t n, int kind)
{
    static const char *const names[] = { "key", "text", "list", "number" };
    hr_type *types[] = { kind == 0   ? hr__type_simple(HR_T_INT64)
                         : kind == 1 ? hr__type_simple(HR_T_FLOAT32)
                                     : hr__type_simple(HR_T_STRING),
                         hr__type_simple(HR_T_STRING), type_named("list<item: int32>"), hr__type_simple(HR_T_INT64) };
    hr_builder *b[4];
    hr_array *columns[4];
    hr_field fields[4] = { 0 };
    hr_schema *s = NULL;
    hr_table *t = NULL;
    char text[600];

    for (int c = 0; c < 4; c++)
        b[c] = builder_of(types[c]);
    for (int64_t i = 0; i < n; i++) {
        uint64_t v = next_random(random);
        int length = snprintf(text, sizeof text, "%.*s%llu", (int)(v >> 40) % 30, "a common beginning of all texts",
                              (unsigned long long)(v % 50));

        if (v % 23 == 0)
            assert_ok(hr__builder_null(b[0], NULL), NULL);
        else if (kind == 0)
            assert_ok(hr__builder_int(b[0], (v & 64) ? (int64_t)(v >> 32) - (1 << 30) : (int64_t)(v % 7), NULL), NULL);
        else if (kind == 1)
            assert_ok(hr__builder_double(b[0], v % 19 == 0 ? 0.0 / 0.0 : (double)(int64_t)(v >> 20) / 1e9 - 3000, NULL),
                      NULL);
        else if (v % 29 == 0) { /* too long for a cut, and different only after its end */
            memset(text, 'x', 500);
            length = 500 + snprintf(text + 500, 100, "%llu", (unsigned long long)(v % 10));
            assert_ok(hr__builder_bytes(b[0], text, length, NULL), NULL);
        } else
            assert_ok(hr__builder_bytes(b[0], text, length, NULL), NULL);
        if (kind == 3) { /* few rows, many bytes */
            memset(text, 'y', sizeof text);
            length = sizeof text;
        }
        assert_ok(hr__builder_bytes(b[1], text, kind == 3 ? length : HR_MIN(length, (int)(v % 80)), NULL), NULL);
        for (uint64_t k = 0; k < v % 5; k++)
            assert_ok(hr__builder_int(hr__builder_child(b[2], 0), (int64_t)k, NULL), NULL);
        assert_ok(hr__builder_end(b[2], NULL), NULL);
        assert_ok(hr__builder_int(b[3], i, NULL), NULL);
    }
    for (int c = 0; c < 4; c++) {
        columns[c] = finish(b[c]);
        assert_ok(hr__field_init(&fields[c], names[c], types[c], true, NULL), NULL);
    }
    assert_ok(hr__schema_new(fields, 4, &s, NULL), NULL);
    assert_ok(hr__table_new(s, columns, n, NULL, &t, NULL), NULL);
    for (int c = 0; c < 4; c++)
        hr__field_clear(&fields[c]);
    hr__schema_unref(s);
    hr__type_unref(types[2]);
    return t;
}

static void run_it(sorting *x)
{
    live_memory before;
    hr_error err = HR_ERROR_INIT;

    x->want = sorted_slowly(x);
    before = live_now();
    assert_ok(sort_it(x, &err), &err);
    assert_no_leak(before);
    hr_table_unref(x->want);
}

static void test_in_memory(void **unused)
{
    uint64_t random = 61;

    (void)unused;
    for (int round = 0; round < 24; round++) {
        int64_t n = round < 3 ? round : round % 4 == 0 ? 4000 : random_below(&random, 700);
        sorting x = { .in = mixed_table(&random, n, round % 3),
                      .n_keys = 1 + round / 3 % 2,
                      .allowance = 1 << 24,
                      .most_rows = round % 2 ? 40 : 900,
                      .random = random };

        x.keys[0] = (hr_order_key){ .column = 0, .descending = round & 4, .nulls_first = round & 8 };
        x.keys[1] = (hr_order_key){ .column = 1, .descending = round & 16 };
        run_it(&x);
        assert_int_equal(x.counts.n_spilled_runs, 0);
        hr_table_unref(x.in);
    }
}

static void test_spilled(void **unused)
{
    uint64_t random = 62;
    int64_t passes = 0, runs = 0;

    (void)unused;
    for (int round = 0; round < repeats(60) + 3; round++) {
        sorting x = { .in = mixed_table(&random, round == 4 ? 1300 : 1500 + random_below(&random, 1000),
                                        round == 4 ? 3 : round % 3),
                      .n_keys = 1 + round / 3 % 2,
                      .n_hidden = round % 5 == 0,
                      .allowance = round % 4 || round == 4 ? 64 << 10 : 256 << 10,
                      .most_rows = round % 2 || round == 4 ? 60 : 700,
                      .n_helpers = round % 3,
                      .random = random };

        x.keys[0] = (hr_order_key){ .column = 0, .descending = round & 4, .nulls_first = round & 8 };
        x.keys[1] = (hr_order_key){ .column = 1, .descending = round & 16 };
        run_it(&x);
        runs = HR_MAX(runs, x.counts.n_spilled_runs);
        passes += x.counts.n_passes;
        hr_table_unref(x.in);
    }
    assert_true(runs > 3);
    assert_true(passes > 0);
}

/* The first k rows, of which the rest is dropped: at once, now and then, where memory is short, or not at all since k
 * rows do not fit. */
static void test_first(void **unused)
{
    static const int64_t wanted[] = { 1, 7, 300, 1500, 8000, 9000 };
    uint64_t random = 65;
    int64_t least_left = INT64_MAX, spilled = 0;

    (void)unused;
    for (int round = 0; round < 24; round++) {
        sorting x = { .in = mixed_table(&random, round % 8 == 7 ? 500 : 8000, round % 3),
                      .n_keys = 1 + round / 3 % 2,
                      .n_first = wanted[round % HR_LEN(wanted)],
                      .allowance = round % 4 == 3 ? 64 << 10 : 1 << 24,
                      .most_rows = round % 2 ? 60 : 2000,
                      .n_helpers = round % 4 == 3,
                      .random = random };

        x.keys[0] = (hr_order_key){ .column = 0, .descending = round & 4, .nulls_first = round & 8 };
        x.keys[1] = (hr_order_key){ .column = 1, .descending = round & 16 };
        run_it(&x);
        least_left = HR_MIN(least_left, x.counts.n_rows);
        spilled += x.counts.n_spilled_runs;
        hr_table_unref(x.in);
    }
    assert_true(least_left < 500);
    assert_true(spilled > 0);
}

/* Already in order, in reverse, and all alike: the same block parts, nothing lost. */
static void test_patterns(void **unused)
{
    (void)unused;
    for (int pattern = 0; pattern < 3; pattern++) {
        for (int spilled = 0; spilled < 2; spilled++) {
            hr_builder *b = builder_of(hr__type_simple(HR_T_INT64));
            sorting x = { .n_keys = 1, .allowance = spilled ? 64 << 10 : 1 << 24, .most_rows = 500, .random = 7 };
            hr_table *numbered = numbers(0, 3000), *t = NULL;
            hr_array *columns[4];

            for (int64_t i = 0; i < 3000; i++)
                assert_ok(hr__builder_int(b, pattern == 0 ? i : pattern == 1 ? -i : 5, NULL), NULL);
            columns[0] = finish(b);
            for (int c = 1; c < 4; c++)
                columns[c] = hr__array_ref(numbered->columns[c]);
            assert_ok(hr__table_new(numbered->schema, columns, 3000, NULL, &t, NULL), NULL);
            x.in = t;
            run_it(&x);
            hr_table_unref(t);
            hr_table_unref(numbered);
        }
    }
}

/* Its first two columns: fewer calls that can fail. */
static hr_table *narrowed(hr_table *takes)
{
    hr_array *columns[] = { hr__array_ref(takes->columns[0]), hr__array_ref(takes->columns[1]) };
    hr_schema *s = NULL;
    hr_table *t = NULL;

    assert_ok(hr__schema_new(takes->schema->fields, 2, &s, NULL), NULL);
    assert_ok(hr__table_new(s, columns, takes->n_rows, NULL, &t, NULL), NULL);
    hr__schema_unref(s);
    hr_table_unref(takes);
    return t;
}

/* Runs that are alike: table r of n has the keys r, r + n, r + 2 n, ..., so that pages of all runs end together. */
static hr_table *every_nth(hr_schema *schema, int64_t r, int64_t n, int64_t n_rows)
{
    hr_builder *b = builder_of(schema->fields[0].type);
    hr_array *columns[2];
    hr_table *t = NULL;

    for (int64_t i = 0; i < n_rows; i++)
        assert_ok(hr__builder_int(b, i * n + r, NULL), NULL);
    columns[0] = finish(b);
    columns[1] = schema->n > 1 ? hr__array_ref(columns[0]) : NULL;
    assert_ok(hr__table_new(schema, columns, n_rows, NULL, &t, NULL), NULL);
    return t;
}

/* Reads all block parts, of keys 0, 1, 2, ..., none of which may take more than it says. */
static int64_t read_within_estimates(hr_sorter *s, int64_t n_block_parts)
{
    hr_account *reading = hr__account_new("reading", NULL, 0);
    hr_mem mem = { .account = reading };
    int64_t estimate, next = 0;

    for (int64_t p = 0; p < n_block_parts; p++) {
        hr_reader *r = NULL;
        hr_table *t = NULL;

        assert_ok(hr__sorter_read(s, p, &mem, &r, &estimate, NULL), NULL);
        while (assert_ok(hr__reader_next(r, 1, &t, NULL), NULL), t) {
            for (int64_t i = 0; i < t->n_rows; i++)
                assert_int_equal(hr__array_int(t->columns[0], i), next++);
            hr_table_unref(t);
        }
        hr__reader_close(r);
        assert_in_range(hr__account_peak(reading), 1, estimate);
    }
    hr__account_unref(reading);
    return next;
}

/* Pages of all runs became sure at once, and were sorted and given in one step: 10 GB in 256 MiB took 293 MB of
 * memory. */
static void test_estimates(void **unused)
{
    enum { TABLES = 32, ROWS = 32 << 10 };
    hr_order_key key = { .column = 0 };
    hr_sorter_options options = { .name = "test", .keys = &key, .n_keys = 1, .allowance = 1 << 20 };
    hr_type *number = hr__type_simple(HR_T_INT64);

    (void)unused;
    for (int n_columns = 1; n_columns <= 2; n_columns++) {
        hr_field fields[2] = { 0 };
        hr_schema *schema = NULL;
        hr_sorter *s = NULL;
        int64_t n_block_parts;

        for (int c = 0; c < n_columns; c++)
            assert_ok(hr__field_init(&fields[c], c ? "b" : "a", number, true, NULL), NULL);
        assert_ok(hr__schema_new(fields, n_columns, &schema, NULL), NULL);
        assert_ok(hr__sorter_new(schema, &options, &s, NULL), NULL);
        for (int64_t r = 0; r < TABLES; r++)
            assert_ok(hr__sorter_add(s, every_nth(schema, r, TABLES, ROWS), NULL), NULL);
        assert_ok(hr__sorter_end(s, &n_block_parts, NULL), NULL);
        assert_in_range(hr__sorter_counts(s).n_spilled_runs, 8, TABLES);
        assert_int_equal(read_within_estimates(s, n_block_parts), TABLES * ROWS);
        hr__sorter_free(s);
        hr__schema_unref(schema);
        for (int c = 0; c < n_columns; c++)
            hr__field_clear(&fields[c]);
    }
    hr__type_unref(number);
}

static void test_faults(void **unused)
{
    uint64_t random = 63;
    sorting memory = { .in = mixed_table(&random, 20, 2), .n_keys = 1, .allowance = 1 << 20, .most_rows = 10 };
    sorting disk = { .in = narrowed(mixed_table(&random, 56, 3)), .n_keys = 1, .allowance = 64 << 10, .most_rows = 30 };

    (void)unused;
    memory.want = sorted_slowly(&memory);
    disk.want = sorted_slowly(&disk);
    run_with_faults_on(sort_it, &memory, HR_FAULT_MEMORY | HR_FAULT_IO);
    run_with_faults_on(sort_it, &disk, HR_FAULT_MEMORY | HR_FAULT_IO);
    assert_true(disk.counts.n_spilled_runs > 0);
    memory.n_first = 3;
    disk.n_first = 40;
    run_with_faults_on(sort_it, &memory, HR_FAULT_MEMORY | HR_FAULT_IO);
    run_with_faults_on(sort_it, &disk, HR_FAULT_MEMORY | HR_FAULT_IO);
    hr_table_unref(memory.in);
    hr_table_unref(memory.want);
    hr_table_unref(disk.in);
    hr_table_unref(disk.want);
}

static void test_full_disk(void **unused)
{
    uint64_t random = 64;
    sorting x = { .in = mixed_table(&random, 6000, 0), .n_keys = 1, .allowance = 64 << 10, .most_rows = 300 };
    hr_error err = HR_ERROR_INIT;

    (void)unused;
    setenv("HEADRACE_SPILL_QUOTA", "100kB", 1);
    assert_status(sort_it(&x, &err), HR_DISK_FULL, &err);
    assert_contains(err.text, "HEADRACE_SPILL_QUOTA");
    unsetenv("HEADRACE_SPILL_QUOTA");
    hr_error_clear(&err);
    hr_table_unref(x.in);
}

static int make_folder(void **unused)
{
    (void)unused;
    temp_dir_new(folder);
    setenv("HEADRACE_SPILL_DIR", folder, 1);
    return 0;
}

static int drop_folder(void **unused)
{
    (void)unused;
    temp_dir_free(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_memory), cmocka_unit_test(test_spilled),   cmocka_unit_test(test_first),
        cmocka_unit_test(test_patterns),  cmocka_unit_test(test_estimates), cmocka_unit_test(test_faults),
        cmocka_unit_test(test_full_disk),
    };

    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
