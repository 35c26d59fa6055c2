/* test_combine.c - zip, mix, slices and local shuffles in real runs: rows, coordinates, functions by blocks, ends, and
 * faults. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"

#include <stdlib.h>

static int64_t value_at(const hr_table *t, int column, int64_t i)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    assert_ok(hr_table_column_view(t, column, &v, NULL), NULL);
    return ((const int64_t *)v.data)[i];
}

static hr_plan *range_plan(int64_t n)
{
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "id", &p, NULL), NULL);
    return p;
}

typedef void row_fn(void *context, const hr_table *t, int64_t row, int64_t n);

/* Runs p and looks at each of its rows; -> how many. Rows are numbered through, of one source. */
static hr_status run_rows(hr_plan *p, int threads, row_fn *look, void *context, int64_t *n, hr_error *err)
{
    hr_run_options o = { .num_threads = threads, .prefetch = 2, .seed = 3 };
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *n = 0;
    HR_GO(hr__run_start(p, &o, &r, err));
    do {
        HR_GO(hr__run_next(r, -1, &t, NULL, err));
        for (int64_t i = 0; t && i < t->n_rows; i++, ++*n)
            if (look)
                look(context, t, i, *n);
        hr_table_unref(t);
    } while (t);
done:
    hr__run_close(r);
    return st;
}

/* --- zip */

static void is_pair(void *context, const hr_table *t, int64_t row, int64_t n)
{
    hr_coord c = hr__origin_at(t->origin, row);

    (void)context;
    assert_int_equal(value_at(t, 0, row), n);
    assert_int_equal(value_at(t, 1, row), n);
    assert_int_equal(c.row, n);
    assert_int_equal(c.instance, 2); /* after the two ranges */
}

static hr_plan *zip_of(hr_plan *takes_a, hr_plan *takes_b)
{
    hr_plan *ins[2] = { takes_a, takes_b }, *p = NULL;

    assert_ok(hr_plan_zip(ins, 2, &p, NULL), NULL);
    hr_plan_unref(takes_a);
    hr_plan_unref(takes_b);
    return p;
}

static void test_zip(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_plan *p = zip_of(range_plan(50000), range_plan(50000)), *q = NULL;
    struct ArrowSchema schema;
    int64_t n;

    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2) {
        assert_ok(run_rows(p, threads, is_pair, NULL, &n, &err), &err);
        assert_int_equal(n, 50000);
    }
    assert_ok(hr_plan_schema(p, &schema, NULL), NULL);
    assert_string_equal(schema.children[0]->name, "id");
    assert_string_equal(schema.children[1]->name, "id_1");
    schema.release(&schema);
    assert_ok(hr_plan_limit(p, 7, &q, NULL), NULL);
    assert_ok(run_rows(q, 2, is_pair, NULL, &n, &err), &err);
    assert_int_equal(n, 7);
    hr_plan_unref(q);
    hr_plan_unref(p);
    p = zip_of(range_plan(9), range_plan(60000));
    assert_status(run_rows(p, 2, NULL, NULL, &n, &err), HR_INVALID, &err);
    assert_contains(err.text, "9, 60000");
    hr_plan_unref(p);
    hr_error_clear(&err);
}

/* --- mix */

typedef struct mixing {
    int64_t given[2];
    double weight; /* of the first; the second's is 1 - that */
} mixing;

/* Values of the first are even, of the second odd: 2 i and 2 i + 1. */
static void is_mixed(void *context, const hr_table *t, int64_t row, int64_t n)
{
    mixing *m = context;
    int64_t v = value_at(t, 0, row);
    double behind[2] = { m->weight * (double)n - (double)m->given[0],
                         (1 - m->weight) * (double)n - (double)m->given[1] };

    assert_int_equal(v / 2, m->given[v % 2]++);
    if (behind[0] - behind[1] > 1e-6 || behind[1] - behind[0] > 1e-6)
        assert_int_equal(v % 2, behind[1] > behind[0]);
}

/* The same, of inputs that repeat: each goes on at its first value. */
static void count_mixed(void *context, const hr_table *t, int64_t row, int64_t n)
{
    static const int64_t sizes[2] = { 30000, 9000 };
    mixing *m = context;
    int64_t v = value_at(t, 0, row);

    (void)n;
    assert_int_equal(v / 2, m->given[v % 2]++ % sizes[v % 2]);
}

static hr_status twice_plus(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL };
    hr_array *a = NULL;
    hr_mem mem = { 0 };
    hr_status st = HR_OK;

    (void)state;
    HR_GO(hr__buffer_new(&mem, in->n_rows * 8, &buffers[1], err));
    for (int64_t i = 0; i < in->n_rows; i++)
        ((int64_t *)(void *)buffers[1]->data)[i] = 2 * value_at(in, 0, i) + *(const int *)context;
    HR_GO(hr__array_new(hr__type_simple(HR_T_INT64), in->n_rows, 0, buffers, NULL, 0, &a, err));
    st = hr__table_new(in->schema, &a, in->n_rows, in->origin, out, err);
done:
    return st;
}

static hr_plan *numbered(int64_t n, int *plus)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "twice_plus", .context = plus, .call = twice_plus };
    hr_plan *p = range_plan(n), *q = NULL;

    assert_ok(hr_plan_map(p, &fn, NULL, &q, NULL), NULL);
    hr_plan_unref(p);
    return q;
}

static void test_mix(void **state)
{
    static int plus[2] = { 0, 1 };
    double weights[2] = { 3, 1 };
    hr_plan *ins[2] = { numbered(30000, &plus[0]), numbered(9000, &plus[1]) }, *p = NULL;
    hr_error err = HR_ERROR_INIT;
    int64_t n;

    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2) {
        mixing m = { .weight = 0.75 };

        assert_ok(hr_plan_mix(ins, 2, weights, HR_MIX_SHORTEST, &p, &err), &err);
        assert_ok(run_rows(p, threads, is_mixed, &m, &n, &err), &err);
        assert_int_equal(m.given[1], 9000);
        assert_int_equal(n, m.given[0] + 9000);
        assert_in_range(n, 35996, 36003);
        hr_plan_unref(p);
    }
    assert_ok(hr_plan_mix(ins, 2, weights, HR_MIX_LONGEST_DROP, &p, &err), &err);
    assert_ok(run_rows(p, 2, NULL, NULL, &n, &err), &err);
    assert_int_equal(n, 39000);
    hr_plan_unref(p);
    {
        mixing m = { 0 };
        const int64_t sizes[2] = { 30000, 9000 }, wrong[2] = { 30000, -1 }, few[2] = { 1, 100000 };

        assert_status(hr_plan_mix(ins, 2, weights, HR_MIX_LONGEST_REPEAT + 1, &p, &err), HR_INVALID, &err);
        assert_ok(hr_plan_mix_repeat(ins, 2, weights, sizes, &p, &err), &err);
        assert_ok(run_rows(p, 2, count_mixed, &m, &n, &err), &err);
        assert_int_equal(m.given[0], 30000);
        assert_in_range(m.given[1], 9999, 10001);
        hr_plan_unref(p);
        assert_status(hr_plan_mix_repeat(ins, 2, weights, wrong, &p, &err), HR_INVALID, &err);
        assert_contains(err.text, "rows of input 1");
        assert_status(hr_plan_mix_repeat(ins, 2, weights, few, &p, &err), HR_INVALID, &err);
        assert_contains(err.text, "input 0 would repeat");
        assert_status(hr_plan_mix_repeat(ins, 0, weights, NULL, &p, &err), HR_INVALID, &err);
    }
    weights[1] = 0;
    assert_status(hr_plan_mix_repeat(ins, 2, weights, NULL, &p, &err), HR_INVALID, &err);
    assert_status(hr_plan_mix(ins, 2, weights, HR_MIX_SHORTEST, &p, &err), HR_INVALID, &err);
    assert_contains(err.text, "weight 1");
    assert_status(hr_plan_mix(ins, 0, weights, HR_MIX_SHORTEST, &p, &err), HR_INVALID, &err);
    assert_status(hr_plan_zip(ins, 0, &p, &err), HR_INVALID, &err);
    hr_plan_unref(ins[0]);
    hr_plan_unref(ins[1]);
    hr_error_clear(&err);
}

/* --- local shuffle */

static hr_status is_block(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    (void)err;
    assert_int_equal(hr__origin_at(in->origin, 0).row % 4096, 0);
    assert_true(in->n_rows == 4096 || hr__origin_at(in->origin, in->n_rows - 1).row == 49999);
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void is_numbered(void *context, const hr_table *t, int64_t row, int64_t n)
{
    hr_coord c = hr__origin_at(t->origin, row);

    ((uint8_t *)context)[value_at(t, 0, row)]++;
    assert_int_equal(c.row, n);
    assert_int_equal(c.instance, 1);
}

/* Rows of a shuffle are new ones: a function after it sees whole blocks of them. */
static void test_blocks_of_shuffled_rows(void **state)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "is_block", .call = is_block };
    hr_plan *in = range_plan(50000), *p = NULL, *q = NULL;
    uint8_t *seen = calloc(50000, 1);
    hr_error err = HR_ERROR_INIT;
    int64_t n;

    (void)state;
    assert_ok(hr_plan_local_shuffle(in, 5000, NULL, &p, &err), &err);
    assert_ok(hr_plan_count(p, &n, &err), &err);
    assert_int_equal(n, 50000);
    assert_ok(hr_plan_map(p, &fn, NULL, &q, &err), &err);
    assert_ok(run_rows(q, 4, is_numbered, seen, &n, &err), &err);
    for (int i = 0; i < 50000; i++)
        assert_int_equal(seen[i], 1);
    free(seen);
    hr_plan_unref(q);
    hr_plan_unref(p);
    hr_plan_unref(in);
}

/* --- faults */

static hr_table *few[3];

static hr_status everything(hr_error *err)
{
    double weights[2] = { 1, 2 };
    hr_sample_options half = { .struct_bytes = sizeof half, .to = 0.5 };
    hr_plan *a = NULL, *b = NULL, *mixed = NULL, *part = NULL, *some = NULL, *shuffled = NULL, *zipped = NULL;
    hr_plan *tables = NULL, *blocks = NULL;
    hr_status st = HR_OK;
    int64_t n;

    HR_GO(hr_plan_range(300, "id", &a, err));
    HR_GO(hr_plan_range(200, "id", &b, err));
    HR_GO(hr_plan_mix((hr_plan *[]){ a, b }, 2, weights, HR_MIX_SHORTEST, &mixed, err));
    HR_GO(hr_plan_slice(mixed, 10, 210, &part, err));
    HR_GO(hr_plan_local_shuffle(b, 50, NULL, &shuffled, err));
    HR_GO(hr_plan_zip((hr_plan *[]){ part, shuffled }, 2, &zipped, err));
    HR_GO(hr_plan_sample(zipped, &half, &some, err));
    HR_GO(run_rows(some, 2, NULL, NULL, &n, err));
    HR_GO(hr_plan_tables(few, 3, &tables, err));
    HR_GO(hr_plan_randomize_block_order(tables, NULL, &blocks, err));
    HR_GO(run_rows(blocks, 2, NULL, NULL, &n, err));
done:
    hr_plan_unref(tables);
    hr_plan_unref(blocks);
    hr_plan_unref(a);
    hr_plan_unref(b);
    hr_plan_unref(mixed);
    hr_plan_unref(part);
    hr_plan_unref(some);
    hr_plan_unref(shuffled);
    hr_plan_unref(zipped);
    return st;
}

static void test_faults(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_run_options o = { .prefetch = 1 };
    hr_plan *p = range_plan(5);
    hr_run *r = NULL;

    (void)state;
    assert_ok(hr__run_start(p, &o, &r, &err), &err);
    assert_ok(hr__run_next(r, -1, &few[0], NULL, &err), &err);
    hr__run_close(r);
    hr_plan_unref(p);
    few[1] = few[2] = few[0];
    assert_ok(everything(&err), &err);
    assert_true(run_with_faults(everything, HR_FAULT_MEMORY | MAY_RECOVER) > 50);
    hr_table_unref(few[0]);
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
        cmocka_unit_test(test_zip),
        cmocka_unit_test(test_mix),
        cmocka_unit_test(test_blocks_of_shuffled_rows),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, end_pool);
}
