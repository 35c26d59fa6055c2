/* test_ordering.c - sort, shuffle, repartition and block order as plans: whole passes, in memory and spilled, with
 * everything failing in turn. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"
#include "format/spill/spill_file.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[64];
static bool spilled; /* in the last pass */

typedef enum order_kind {
    BY_COLUMN,
    BY_EXPRESSION,
    SHUFFLED,
    CUT,
    CUT_SHUFFLED,
    BY_HASH,
    CUT_BLOCKS,    /* those of repartition in a random order */
    SORTED_BLOCKS, /* rows of a sort, in blocks in a random order */
    N_KINDS
} order_kind;

/* id % 10 * -1 */
static hr_status last_digit(hr_expr **out, hr_error *err)
{
    hr_expr *id = NULL, *ten = NULL, *digit = NULL, *minus = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_expr_column("id", &id, err));
    HR_GO(hr_expr_int(10, &ten, err));
    HR_GO(hr_expr_int(-1, &minus, err));
    HR_GO(hr_expr_call("modulo", (hr_expr *const[]){ id, ten }, 2, NULL, 0, &digit, err));
    HR_GO(hr_expr_call("multiply", (hr_expr *const[]){ digit, minus }, 2, NULL, 0, out, err));
done:
    hr_expr_unref(id);
    hr_expr_unref(ten);
    hr_expr_unref(digit);
    hr_expr_unref(minus);
    return st;
}

static hr_status blocks_of(hr_plan *takes, hr_plan **out, hr_error *err)
{
    hr_status st = hr_plan_randomize_block_order(takes, NULL, out, err);

    hr_plan_unref(takes);
    return st;
}

static hr_status plan_of(order_kind kind, int64_t n_rows, hr_plan **out, hr_error *err)
{
    const char *const keys[] = { "id" };
    hr_repartition_options how = { .struct_bytes = sizeof how, .shuffle = kind == CUT_SHUFFLED };
    hr_sort_key key = { .struct_bytes = sizeof key, .column = "id", .descending = true };
    hr_plan *in = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr_plan_range(n_rows, "id", &in, err));
    if (kind == BY_EXPRESSION)
        HR_GO(last_digit(&key.expr, err));
    if (kind == BY_HASH) {
        how.keys = keys;
        how.n_keys = 1;
        how.sort = true;
    }
    if (kind <= BY_EXPRESSION || kind == SORTED_BLOCKS)
        st = hr_plan_sort(in, &key, 1, out, err);
    else if (kind == SHUFFLED)
        st = hr_plan_random_shuffle(in, NULL, out, err);
    else
        st = hr_plan_repartition(in, 7, &how, out, err);
    if (!st && kind >= CUT_BLOCKS)
        st = blocks_of(*out, out, err);
done:
    hr_expr_unref(key.expr);
    hr_plan_unref(in);
    return st;
}

/* The order as a number; HR_BUG if rows are lost, out of order, or numbered wrongly. */
static hr_status pass(hr_plan *p, order_kind kind, int64_t n_rows, int n_threads, int64_t limit, uint64_t *digest,
                      hr_error *err)
{
    hr_run_options how = { .num_threads = n_threads, .memory_limit = limit, .prefetch = 2, .seed = 3 };
    int64_t n = 0, sum = 0, last = 0, before = -1, n_jumps = 0;
    hr_status st = HR_OK;
    hr_table *t = NULL;
    hr_run *r = NULL;
    bool bad = false;

    *digest = 0;
    spilled = false;
    HR_GO(hr__run_start(p, &how, &r, err));
    for (;;) {
        HR_GO(hr__run_next(r, -1, &t, NULL, err));
        if (!t)
            break;
        spilled = spilled || hr_spill_used() > 0;
        bad = bad || t->schema->n != 1 || hr__origin_at(t->origin, 0).row != n;
        for (int64_t i = 0; i < t->n_rows; i++, n++) {
            int64_t id = hr__array_int(t->columns[0], i);
            /* descending by -(id % 10): digits rise, and rows keep their order */
            int64_t key = kind == BY_COLUMN ? -id : kind == BY_EXPRESSION ? id % 10 * n_rows + id : id;

            if ((kind <= BY_EXPRESSION || kind == CUT) && n)
                bad = bad || key <= last;
            n_jumps += id != before + 1 && id != before - 1;
            before = id;
            last = key;
            sum += id;
            *digest = *digest * 0x9E3779B97F4A7C15 + (uint64_t)id;
        }
        hr_table_unref(t);
        t = NULL;
    }
    if (kind == CUT_BLOCKS) /* 7 of them; neighbours may happen to stay so */
        bad = bad || n_jumps < 2 || n_jumps > 7;
    if (kind == SORTED_BLOCKS)
        bad = bad || n_jumps > n_rows / 256 + 1 || (n_rows > 10000 && n_jumps < n_rows / 300);
    if (bad || n != n_rows || sum != n_rows * (n_rows - 1) / 2)
        HR_FAIL(HR_BUG, "kind %d: %lld rows of %lld, or out of order", kind, (long long)n, (long long)n_rows);
done:
    hr_table_unref(t);
    hr__run_close(r);
    return st;
}

/* The same order for any number of threads, in memory and on the disk, of which nothing is left. */
static void test_one_order(void **unused)
{
    static const int64_t limits[] = { 0, 3 << 19 };
    enum { ROWS = 110000 };

    (void)unused;
    for (int kind = 0; kind < N_KINDS; kind++) {
        uint64_t want = 0, digest;
        hr_error err = HR_ERROR_INIT;
        hr_plan *p = NULL;

        assert_ok(plan_of((order_kind)kind, ROWS, &p, &err), &err);
        for (int threads = 1; threads <= 4; threads *= 4)
            for (int l = 0; l < HR_LEN(limits); l++) {
                assert_ok(pass(p, (order_kind)kind, ROWS, threads, limits[l], &digest, &err), &err);
                assert_int_equal(spilled, limits[l] > 0);
                want = want ? want : digest;
                assert_true(digest == want);
                assert_int_equal(hr_spill_used(), 0);
            }
        hr_plan_unref(p);
    }
}

typedef struct failing {
    order_kind kind;
    int64_t n_rows, limit;
} failing;

static hr_status one_pass(void *context, hr_error *err)
{
    const failing *f = context;
    uint64_t digest;
    hr_plan *p = NULL;
    hr_status st = HR_OK;

    HR_GO(plan_of(f->kind, f->n_rows, &p, err));
    st = pass(p, f->kind, f->n_rows, 1, f->limit, &digest, err);
done:
    hr_plan_unref(p);
    return st;
}

static void test_faults(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < N_KINDS; kind++) {
        failing f = { (order_kind)kind, 500, 0 };

        assert_true(run_with_faults_on(one_pass, &f, HR_FAULT_MEMORY | HR_FAULT_IO | MAY_RECOVER) > 20);
    }
}

static void test_refusals(void **unused)
{
    hr_sort_key nothing = { .struct_bytes = sizeof nothing };
    hr_sort_key unknown = { .struct_bytes = sizeof unknown, .column = "x" };
    hr_repartition_options how = { .struct_bytes = sizeof how };
    hr_error err = HR_ERROR_INIT;
    hr_plan *in = NULL, *p = NULL;

    (void)unused;
    assert_ok(hr_plan_range(5, "id", &in, &err), &err);
    assert_status(hr_plan_sort(in, &nothing, 1, &p, &err), HR_INVALID, &err);
    assert_status(hr_plan_sort(in, &nothing, 0, &p, &err), HR_INVALID, &err);
    assert_status(hr_plan_sort(in, &unknown, 1, &p, &err), HR_INVALID, &err);
    assert_contains(err.text, "'x'");
    assert_status(hr_plan_repartition(in, 0, &how, &p, &err), HR_INVALID, &err);
    assert_null(p);
    hr_error_clear(&err);
    hr_plan_unref(in);
}

/* Runs at once held half of the limit each. */
static void test_fair_shares(void **unused)
{
    const int64_t limit = 64 << 20, was = hr_memory_limit(), before = hr_memory_used() - hr__pool_bytes();
    hr_op_run run = { .allowance = limit / 2 };

    (void)unused;
    assert_ok(hr_set_memory_limit(limit, NULL), NULL);
    hr__op_holds(4);
    assert_int_equal(hr__op_allowance(&run), limit / 2); /* as long as there is enough */
    hr__account_charge(NULL, limit - (1 << 20) - before);
    assert_int_equal(hr__op_allowance(&run), limit / 8);
    hr__op_holds(-3);
    assert_int_equal(hr__op_allowance(&run), limit / 2);
    hr__account_charge(NULL, 2 << 20); /* too much, whoever has it */
    assert_int_equal(hr__op_allowance(&run), limit / 8);
    hr__op_holds(1000);
    assert_in_range(hr__op_allowance(&run), 1, 1 << 20);
    hr__op_holds(-1001);
    hr__account_charge(NULL, before - limit - (1 << 20));
    assert_ok(hr_set_memory_limit(was, NULL), NULL);
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
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    temp_dir_free(folder);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_order),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_fair_shares),
    };

    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
