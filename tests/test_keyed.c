/* test_keyed.c - groups and joins in real runs: the same result for any threads, cuts and memory; nothing is lost when
 * anything fails.
 *
 * The rows are made so that what comes out can be counted: key i % KEYS, value i. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"

#include <stdio.h>
#include <stdlib.h>

/* k: "key" and a number (text, some null), x: the row's number, in tables of `cut` rows. */
static hr_status keyed_plan(int64_t n, int64_t keys, int64_t cut, hr_plan **out, hr_error *err)
{
    hr_field fields[2] = { 0 };
    hr_schema *schema = NULL;
    hr_builder *k = NULL, *x = NULL;
    hr_table **tables = NULL;
    hr_mem mem = { 0 };
    int n_tables = 0;
    char text[40];
    hr_status st = HR_OK;

    *out = NULL;
    if (!(tables = hr__zalloc(NULL, (size_t)(n / cut + 2) * sizeof *tables)))
        return hr__error_memory(err, "test", 1);
    HR_GO(hr__field_init(&fields[0], "k", hr__type_simple(HR_T_STRING), true, err));
    HR_GO(hr__field_init(&fields[1], "x", hr__type_simple(HR_T_INT64), true, err));
    HR_GO(hr__schema_new(fields, 2, &schema, err));
    HR_GO(hr__builder_new(&mem, fields[0].type, &k, err));
    HR_GO(hr__builder_new(&mem, fields[1].type, &x, err));
    for (int64_t i = 0; i < n || n_tables == 0;) {
        hr_array *columns[2] = { NULL };
        int64_t end = HR_MIN(n, i + cut), rows = end - i;

        for (; i < end; i++) {
            snprintf(text, sizeof text, "key number %lld", (long long)(i % keys));
            if (i % keys == 7)
                HR_GO(hr__builder_null(k, err));
            else
                HR_GO(hr__builder_bytes(k, text, (int64_t)strlen(text), err));
            HR_GO(hr__builder_int(x, i, err));
        }
        HR_GO(hr__builder_finish(k, &columns[0], err));
        st = hr__builder_finish(x, &columns[1], err);
        if (st)
            hr__array_unref(columns[0]);
        HR_GO(st);
        HR_GO(hr__table_new(schema, columns, rows, NULL, &tables[n_tables], err));
        n_tables++;
    }
    st = hr_plan_tables(tables, n_tables, out, err);
done:
    for (int i = 0; i < n_tables; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    hr__builder_free(k);
    hr__builder_free(x);
    hr__field_clear(&fields[0]);
    hr__field_clear(&fields[1]);
    hr__schema_unref(schema);
    return st;
}

/* Everything that p gives, as one table; *out NULL: no rows. */
static hr_status run_all(hr_plan *p, int threads, int64_t memory, hr_table **out, hr_error *err)
{
    hr_run_options o = { .num_threads = threads, .prefetch = 2, .memory_limit = memory };
    hr_table **tables = NULL, *t = NULL;
    int64_t n = 0, cap = 0;
    hr_run *r = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__run_start(p, &o, &r, err));
    for (;;) {
        HR_GO(hr__run_next(r, -1, &t, NULL, err));
        if (!t)
            break;
        if (!hr__grow(NULL, (void **)&tables, &cap, n + 1, sizeof *tables)) {
            hr_table_unref(t);
            HR_GO(hr__error_memory(err, "test", 1));
        }
        tables[n++] = t;
    }
    if (n)
        st = hr__table_concat(&(hr_mem){ 0 }, tables[0]->schema, tables, (int)n, out, err);
done:
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    hr__run_close(r);
    return st;
}

static const char *const key[] = { "k" };

#define SIZED .struct_bytes = sizeof(hr_aggregate)

static hr_status group_plan(hr_plan *in, hr_plan **out, hr_error *err)
{
    static const char *const half[] = { "q=0.5" }, *const by[] = { "by=x" };
    static const hr_aggregate aggs[] = {
        { SIZED, .function = "count" },
        { SIZED, .function = "sum", .column = "x", .name = "total" },
        { SIZED, .function = "std", .column = "x" },
        { SIZED, .function = "unique", .column = "x" },
        { SIZED, .function = "max", .column = "k" },
        { SIZED, .function = "quantile", .column = "x", .settings = half, .n_settings = 1 },
        { SIZED, .function = "last", .column = "x" },
        { SIZED, .function = "arg_min", .column = "x", .settings = by, .n_settings = 1 },
    };

    return hr_plan_group(in, key, 1, aggs, HR_LEN(aggs), out, err);
}

static hr_status join_plan(hr_plan *left, hr_plan *right, hr_join_kind kind, hr_plan **out, hr_error *err)
{
    hr_join_options o = {
        .struct_bytes = sizeof o, .kind = kind, .left_keys = key, .n_keys = 1, .right_suffix = "_right"
    };

    return hr_plan_join(left, right, &o, out, err);
}

static int64_t sum_of(const hr_table *t, const char *name)
{
    int c = hr__schema_find(t->schema, name);
    int64_t sum = 0;

    for (int64_t i = 0; i < t->n_rows; i++)
        if (!hr__array_is_null(t->columns[c], i))
            sum += hr__array_int(t->columns[c], i);
    return sum;
}

static bool same_columns(const hr_table *a, const hr_table *b)
{
    if (a->n_rows != b->n_rows || !hr__schema_equal(a->schema, b->schema))
        return false;
    for (int c = 0; c < a->schema->n; c++)
        if (!hr__array_equal(a->columns[c], b->columns[c]))
            return false;
    return true;
}

/* Small memory partitions and spills, large memory does not. Threads and cuts do not change the result. */
static void check(hr_status (*make)(int64_t cut, hr_plan **out, hr_error *err), int64_t small, bool all_ways,
                  hr_table **out)
{
    static const struct {
        int threads;
        int64_t cut, memory;
    } ways[] = { { 1, 1000, 0 }, { 8, 1000, 0 }, { 2, 777, 0 }, { 1, 1000, 1 }, { 8, 5000, 1 } };

    *out = NULL;
    for (int i = 0; i < HR_LEN(ways); i += all_ways ? 1 : HR_LEN(ways) - 1) {
        hr_error err = HR_ERROR_INIT;
        hr_table *found = NULL;
        hr_plan *p = NULL;

        assert_ok(make(ways[i].cut, &p, &err), &err);
        assert_ok(run_all(p, ways[i].threads, ways[i].memory ? small : 0, &found, &err), &err);
        hr_plan_unref(p);
        assert_ok(hr__table_check(found, true, &err), &err);
        if (*out) {
            assert_true(same_columns(*out, found));
            hr_table_unref(found);
        } else
            *out = found;
    }
}

#define ROWS 30000
#define KEYS 10000

static hr_status make_groups(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *in = NULL;
    hr_status st;

    (void)cut; /* tables in memory are fragments of their own: other cuts are other chunks */
    HR_TRY(keyed_plan(ROWS, KEYS, 5000, &in, err));
    st = group_plan(in, out, err);
    hr_plan_unref(in);
    return st;
}

static void test_groups(void **state)
{
    hr_table *t = NULL;

    (void)state;
    check(make_groups, 3 << 20, true, &t);
    assert_int_equal(t->n_rows, KEYS);
    assert_int_equal(sum_of(t, "count()"), ROWS);
    assert_int_equal(sum_of(t, "total"), (int64_t)ROWS * (ROWS - 1) / 2);
    /* key k has the rows k, k + KEYS, k + 2 * KEYS */
    assert_int_equal(sum_of(t, "arg_min(x)"), (int64_t)KEYS * (KEYS - 1) / 2);
    assert_int_equal(sum_of(t, "last(x)"), (int64_t)KEYS * (KEYS - 1) / 2 + (int64_t)KEYS * (ROWS - KEYS));
    hr_table_unref(t);
}

static hr_keep keep_to_make;

static hr_status make_distinct(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *in = NULL;
    hr_status st;

    (void)cut;
    /* 100 keys have a row less; or: 300 keys have two rows, the others one */
    HR_TRY(keyed_plan(keep_to_make == HR_KEEP_NONE ? KEYS + 300 : ROWS - 100, KEYS, 5000, &in, err));
    st = hr_plan_distinct(in, key, 1, keep_to_make, out, err);
    hr_plan_unref(in);
    return st;
}

/* Row i of t is the row `first` + i, of the columns k and x alone. */
static void check_numbers(const hr_table *t, int64_t first)
{
    assert_int_equal(t->schema->n, 2);
    for (int64_t i = 0; i < t->n_rows; i++)
        assert_int_equal(hr__array_int(t->columns[1], i), first + i);
}

static void test_distinct(void **state)
{
    hr_table *t = NULL;

    (void)state;
    keep_to_make = HR_KEEP_FIRST;
    check(make_distinct, 3 << 20, true, &t);
    assert_int_equal(t->n_rows, KEYS);
    check_numbers(t, 0);
    hr_table_unref(t);
    keep_to_make = HR_KEEP_LAST;
    check(make_distinct, 3 << 20, false, &t);
    assert_int_equal(t->n_rows, KEYS);
    check_numbers(t, ROWS - 100 - KEYS);
    hr_table_unref(t);
    keep_to_make = HR_KEEP_NONE;
    check(make_distinct, 3 << 20, false, &t);
    assert_int_equal(t->n_rows, KEYS - 300);
    check_numbers(t, 300);
    hr_table_unref(t);
}

static hr_status make_sample(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *in = NULL;
    hr_status st;

    (void)cut;
    HR_TRY(keyed_plan(ROWS, ROWS, 5000, &in, err));
    st = hr_plan_sample_rows(in, 1234, 5, out, err);
    hr_plan_unref(in);
    return st;
}

static void test_sample(void **state)
{
    hr_table *t = NULL;

    (void)state;
    check(make_sample, 3 << 20, true, &t);
    assert_int_equal(t->n_rows, 1234);
    assert_int_equal(t->schema->n, 2);
    for (int64_t i = 1; i < t->n_rows; i++)
        assert_true(hr__array_int(t->columns[1], i) > hr__array_int(t->columns[1], i - 1));
    hr_table_unref(t);
}

static void test_wrong_choices(void **state)
{
    static const char *const twice[] = { "x", "x" }, *const other[] = { "y" };
    hr_plan *in = NULL, *out = NULL;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    assert_ok(keyed_plan(10, 5, 5, &in, &err), &err);
    assert_int_equal(hr_plan_distinct(in, NULL, 0, (hr_keep)3, &out, &err), HR_INVALID);
    assert_contains(err.text, "keep 3, expected 0 to 2");
    assert_int_equal(hr_plan_distinct(in, twice, 2, HR_KEEP_FIRST, &out, &err), HR_INVALID);
    assert_contains(err.text, "'x' is given twice");
    assert_int_equal(hr_plan_distinct(in, other, 1, HR_KEEP_FIRST, &out, &err), HR_INVALID);
    assert_contains(err.text, "no column 'y'");
    assert_int_equal(hr_plan_sample_rows(in, -1, 0, &out, &err), HR_INVALID);
    assert_contains(err.text, "-1 rows");
    hr_error_clear(&err);
    hr_plan_unref(in);
}

static hr_join_kind kind_to_make;

static hr_status make_join(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *left = NULL, *right = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(keyed_plan(20000, 10000, cut, &left, err));
    HR_GO(keyed_plan(14000, 14000, cut, &right, err));
    st = join_plan(left, right, kind_to_make, out, err);
done:
    hr_plan_unref(left);
    hr_plan_unref(right);
    return st;
}

static void test_joins(void **state)
{
    static const int64_t rows[] = { 19998, 20000, 23999, 24001, 19998, 2 }; /* key 7 is null, and equals nothing */
    hr_table *t = NULL;

    (void)state;
    for (int kind = 0; kind <= HR_JOIN_ANTI; kind++) {
        kind_to_make = (hr_join_kind)kind;
        check(make_join, 2 << 20, kind == HR_JOIN_FULL, &t);
        assert_int_equal(t->n_rows, rows[kind]);
        hr_table_unref(t);
    }
}

/* The left side is the smaller one, and comes first: keys several times on either side, some on one alone. In 1 MiB
 * neither side fits. */
static hr_status make_turned(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *left = NULL, *right = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(keyed_plan(3000, 2500, cut, &left, err));
    HR_GO(keyed_plan(20000, 4000, cut, &right, err));
    st = join_plan(left, right, kind_to_make, out, err);
done:
    hr_plan_unref(left);
    hr_plan_unref(right);
    return st;
}

/* Each key once on the right; in 1 MiB the left side alone does not fit. */
static hr_status make_turned_once(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *left = NULL, *right = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(keyed_plan(7000, 7000, cut, &left, err));
    HR_GO(keyed_plan(15000, 15000, cut, &right, err));
    st = join_plan(left, right, kind_to_make, out, err);
done:
    hr_plan_unref(left);
    hr_plan_unref(right);
    return st;
}

static hr_status make_other_way(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *left = NULL, *right = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(keyed_plan(20000, 4000, cut, &left, err));
    HR_GO(keyed_plan(3000, 2500, cut, &right, err));
    st = join_plan(left, right, HR_JOIN_INNER, out, err);
done:
    hr_plan_unref(left);
    hr_plan_unref(right);
    return st;
}

static void test_turned(void **state)
{
    /* of 2,500 keys on the left the first 500 have two rows there, each has five on the right; key 7 is null */
    static const int64_t rows[] = { 14990, 14992, 22495, 22497, 2998, 2 },
                         once[] = { 6999, 7000, 15000, 15001, 6999, 1 };
    hr_table *t = NULL, *other = NULL;

    (void)state;
    for (int kind = 0; kind <= HR_JOIN_ANTI; kind++) {
        kind_to_make = (hr_join_kind)kind;
        check(make_turned, 1 << 20, kind == HR_JOIN_FULL || kind == HR_JOIN_SEMI, &t);
        assert_int_equal(t->n_rows, rows[kind]);
        if (kind == HR_JOIN_INNER) {
            check(make_other_way, 1 << 20, false, &other);
            assert_int_equal(other->n_rows, t->n_rows);
            assert_int_equal(sum_of(other, "x"), sum_of(t, "x_right"));
            assert_int_equal(sum_of(other, "x_right"), sum_of(t, "x"));
            hr_table_unref(other);
        }
        hr_table_unref(t);
        check(make_turned_once, 1 << 20, kind == HR_JOIN_FULL, &t);
        assert_int_equal(t->n_rows, once[kind]);
        hr_table_unref(t);
    }
}

/* A right side whose table all threads make. */
static void test_large_right(void **state)
{
    hr_plan *left = NULL, *right = NULL, *p = NULL;
    hr_table *found[2] = { NULL };

    (void)state;
    assert_ok(keyed_plan(66000, 60000, 20000, &left, NULL), NULL);
    assert_ok(keyed_plan(131100, 100000, 50000, &right, NULL), NULL);
    assert_ok(join_plan(left, right, HR_JOIN_LEFT, &p, NULL), NULL);
    for (int i = 0; i < 2; i++)
        assert_ok(run_all(p, i ? 8 : 1, 0, &found[i], NULL), NULL);
    assert_true(same_columns(found[0], found[1]));
    /* the keys below 31,100 have two rows on the right, those below 6,000 two on the left; key 7 is null */
    assert_int_equal(found[0]->n_rows, 66000 + 31100 - 1 + 6000 - 1);
    for (int i = 0; i < 2; i++)
        hr_table_unref(found[i]);
    hr_plan_unref(p);
    hr_plan_unref(left);
    hr_plan_unref(right);
}

/* Two keys of 18,000 right rows each: neither fits into the share of 2 MiB, nor does what comes out for one left
 * row. */
static hr_status make_skewed(int64_t cut, hr_plan **out, hr_error *err)
{
    hr_plan *left = NULL, *right = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(keyed_plan(10, 5, HR_MIN(cut, 3), &left, err));
    HR_GO(keyed_plan(36000, 2, cut, &right, err));
    st = join_plan(left, right, kind_to_make, out, err);
done:
    hr_plan_unref(left);
    hr_plan_unref(right);
    return st;
}

static void test_skewed(void **state)
{
    static const int64_t rows[] = { 72000, 72006, 72000, 72006, 4, 6 };
    hr_table *t = NULL;

    (void)state;
    for (int kind = 0; kind <= HR_JOIN_ANTI; kind++) {
        kind_to_make = (hr_join_kind)kind;
        check(make_skewed, 2 << 20, kind == HR_JOIN_FULL, &t);
        assert_int_equal(t->n_rows, rows[kind]);
        hr_table_unref(t);
    }
}

static hr_status small_group(hr_error *err)
{
    hr_plan *in = NULL, *p = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(keyed_plan(600, 500, 200, &in, err));
    HR_GO(group_plan(in, &p, err));
    st = run_all(p, 1, 0, &t, err);
done:
    hr_table_unref(t);
    hr_plan_unref(in);
    hr_plan_unref(p);
    return st;
}

static hr_status small_distinct(hr_error *err)
{
    hr_plan *in = NULL, *some = NULL, *p = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(keyed_plan(600, 500, 200, &in, err));
    HR_GO(hr_plan_distinct(in, key, 1, HR_KEEP_NONE, &some, err));
    HR_GO(hr_plan_sample_rows(some, 20, 3, &p, err));
    st = run_all(p, 1, 0, &t, err);
done:
    hr_table_unref(t);
    hr_plan_unref(in);
    hr_plan_unref(some);
    hr_plan_unref(p);
    return st;
}

static int64_t small_rows; /* of the left side */

static hr_status small_join(hr_error *err)
{
    hr_plan *left = NULL, *right = NULL, *p = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(keyed_plan(small_rows, 100, 100, &left, err));
    HR_GO(keyed_plan(120, 110, 60, &right, err));
    HR_GO(join_plan(left, right, kind_to_make, &p, err));
    st = run_all(p, 1, 0, &t, err);
done:
    hr_table_unref(t);
    hr_plan_unref(left);
    hr_plan_unref(right);
    hr_plan_unref(p);
    return st;
}

/* At random places of a run that spills: there are too many calls to try each. */
static void fail_somewhere(hr_status (*make)(int64_t cut, hr_plan **out, hr_error *err), int64_t memory, int kind)
{
    uint64_t random = 5;
    hr_plan *p = NULL;

    assert_ok(make(5000, &p, NULL), NULL);
    for (int i = 0; i < repeats(60); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_table *t = NULL;
        int64_t blocks = hr__live_blocks();
        hr_status st;

        hr__fault_arm(kind, random_below(&random, kind == HR_FAULT_IO ? 300 : 20000));
        st = run_all(p, 2, memory, &t, &err);
        hr__fault_disarm();
        assert_true(st == HR_OK || err.text[0]);
        hr_table_unref(t);
        hr_error_clear(&err);
        assert_int_equal(hr__live_blocks(), blocks);
    }
    hr_plan_unref(p);
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(small_group, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    assert_true(run_with_faults(small_distinct, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    kind_to_make = HR_JOIN_SEMI;
    small_rows = 50;
    assert_true(run_with_faults(small_join, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    kind_to_make = HR_JOIN_FULL;
    assert_true(run_with_faults(small_join, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    small_rows = 300;
    assert_true(run_with_faults(small_join, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
    fail_somewhere(make_groups, 3 << 20, HR_FAULT_MEMORY);
    fail_somewhere(make_join, 2 << 20, HR_FAULT_MEMORY);
    fail_somewhere(make_groups, 3 << 20, HR_FAULT_IO);
    fail_somewhere(make_join, 2 << 20, HR_FAULT_IO);
    fail_somewhere(make_turned, 1 << 20, HR_FAULT_MEMORY);
    fail_somewhere(make_turned, 1 << 20, HR_FAULT_IO);
    fail_somewhere(make_skewed, 2 << 20, HR_FAULT_MEMORY);
    fail_somewhere(make_skewed, 2 << 20, HR_FAULT_IO);
}

static int end_pool(void **state)
{
    (void)state;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distinct),    cmocka_unit_test(test_sample), cmocka_unit_test(test_wrong_choices),
        cmocka_unit_test(test_groups),      cmocka_unit_test(test_joins),  cmocka_unit_test(test_turned),
        cmocka_unit_test(test_large_right), cmocka_unit_test(test_skewed), cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, end_pool);
}
