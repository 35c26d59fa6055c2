/* test_map.c - C functions over tables: their batches and their results. */
#include "task_harness.h"
#include "op/call.h"

typedef enum mode { SHARE, DOUBLE, TWICE_AS_MANY, NOTHING, FAIL, OTHER_TYPE } mode;

typedef struct function {
    mode mode;
    int n_states, n_states_freed, n_calls, n_freed;
    int64_t rows_seen[64];
    bool state_fails;
} function;

static hr_status state_new(void *context, void **state, hr_error *err)
{
    function *f = context;

    if (f->state_fails)
        return hr_error_set(err, HR_CALLBACK, "no state today");
    f->n_states++;
    *state = f;
    return HR_OK;
}

static void state_free(void *context, void *state)
{
    assert_ptr_equal(context, state);
    ((function *)context)->n_states_freed++;
}

static void context_free(void *context) { ((function *)context)->n_freed++; }

static hr_status call(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    function *f = context;

    assert_ptr_equal(state, f);
    f->rows_seen[f->n_calls++ % HR_LEN(f->rows_seen)] = in->n_rows;
    switch (f->mode) {
    case SHARE: *out = hr_table_ref((hr_table *)in); return HR_OK;
    case DOUBLE: return doubled(NULL, in, HR_T_INT64, 1, out, err);
    case TWICE_AS_MANY: return doubled(NULL, in, HR_T_INT64, 2, out, err);
    case OTHER_TYPE: return doubled(NULL, in, f->n_calls == 1 ? HR_T_INT64 : HR_T_FLOAT64, 1, out, err);
    case FAIL: return hr_error_set(err, HR_CALLBACK, "row %d is bad", 3);
    default: return HR_OK;
    }
}

static hr_map_function function_of(function *f)
{
    return (hr_map_function){ sizeof(hr_map_function), "f", f, context_free, state_new, call, state_free };
}

static void declare_y(struct ArrowSchema *out)
{
    hr_field field = { .name = "y", .type = hr__type_simple(HR_T_INT64) };
    hr_schema *schema = NULL;

    assert_ok(hr__schema_new(&field, 1, &schema, NULL), NULL);
    assert_ok(hr__schema_export(schema, out, NULL), NULL);
    hr__schema_unref(schema);
}

static hr_status run_map(rig *r, function *f, hr_map_options *options, hr_table *const *in, int n, hr_error *err)
{
    hr_map_function fn = function_of(f);
    hr_op *op = NULL;

    if (options)
        options->struct_bytes = sizeof *options;
    assert_ok(hr__op_map(&fn, options, &op, err), err);
    assert_ok(rig_open(r, op, NULL, err), err);
    return rig_run(r, in, n, err);
}

static void end_map(rig *r)
{
    hr_op *op = (hr_op *)r->op;

    rig_close(r);
    hr__op_unref(op);
}

static void test_pieces(void **unused)
{
    hr_table *in[3] = { numbers(0, 1000), numbers(1000, 7000), numbers(8000, 1000) };
    hr_error err = HR_ERROR_INIT;
    function f = { .mode = DOUBLE };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_map(&r, &f, NULL, in, 3, &err), &err);
    assert_int_equal(f.n_calls, 3);
    assert_int_equal(f.rows_seen[0], 4096);
    assert_int_equal(f.rows_seen[1], 4096);
    assert_int_equal(f.rows_seen[2], 9000 - 8192);
    assert_int_equal(f.n_states, 1);
    assert_int_equal(x_at(rig_table(&r, 1), 5), 2 * 4101);
    assert_int_equal(hr__origin_at(rig_table(&r, 1)->origin, 5).row, 4096); /* made: of the batch's first row */
    assert_int_equal(hr__origin_at(rig_table(&r, 1)->origin, 5).ordinal, 5);
    end_map(&r);
    assert_int_equal(f.n_states_freed, 1);
    assert_int_equal(f.n_freed, 1);
    unref_all(in, 3);
}

static void test_tables_as_they_are(void **unused)
{
    hr_table *in[3] = { numbers(0, 100), numbers(100, 0), numbers(100, 50) };
    hr_map_options options = { .batch_rows = 100, .one_to_one = true };
    hr_error err = HR_ERROR_INIT;
    function f = { .mode = DOUBLE };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_map(&r, &f, &options, in, 3, &err), &err);
    assert_int_equal(f.n_calls, 2);
    assert_int_equal(f.rows_seen[1], 50);
    assert_int_equal(hr__origin_at(rig_table(&r, 1)->origin, 5).row, 105); /* kept: one to one */
    assert_true(r.op->one_to_one);
    end_map(&r);
    unref_all(in, 3);
}

static void test_shared_and_nothing(void **unused)
{
    hr_table *in = numbers(0, 100);
    hr_error err = HR_ERROR_INIT;
    function share = { .mode = SHARE }, nothing = { .mode = NOTHING };
    rig r = { 0 };

    (void)unused;
    assert_ok(run_map(&r, &share, NULL, &in, 1, &err), &err);
    assert_ptr_equal(rig_table(&r, 0), in);
    end_map(&r);
    assert_ok(run_map(&r, &nothing, NULL, &in, 1, &err), &err);
    assert_int_equal(r.n_out, 0);
    end_map(&r);
    hr_table_unref(in);
}

static void test_failures(void **unused)
{
    static const struct {
        mode mode;
        bool one_to_one, declared, state_fails;
        hr_status want;
        const char *text;
    } cases[] = {
        { FAIL, false, false, false, HR_CALLBACK, "f: row 3 is bad" },
        { TWICE_AS_MANY, true, false, false, HR_CALLBACK, "f: gave 20 rows for a batch of 10" },
        { NOTHING, true, false, false, HR_CALLBACK, "f: gave 0 rows for a batch of 10" },
        { SHARE, false, true, false, HR_TYPE, "f: " },
        { OTHER_TYPE, false, true, false, HR_TYPE, "f: column 'y' is double, expected int64" },
        { SHARE, false, false, true, HR_CALLBACK, "f: no state today" },
    };
    hr_table *in[2] = { numbers(0, 10), numbers(10, 10) };

    (void)unused;
    for (int i = 0; i < HR_LEN(cases); i++) {
        live_memory before = live_now();
        struct ArrowSchema schema = { 0 };
        hr_map_options options = { .batch_rows = 10, .one_to_one = cases[i].one_to_one };
        function f = { .mode = cases[i].mode, .state_fails = cases[i].state_fails };
        hr_error err = HR_ERROR_INIT;
        rig r = { 0 };

        if (cases[i].declared) {
            declare_y(&schema);
            options.schema = &schema;
        }
        assert_status(run_map(&r, &f, &options, in, 2, &err), cases[i].want, &err);
        assert_contains(err.text, cases[i].text);
        end_map(&r);
        assert_int_equal(f.n_states, f.n_states_freed);
        assert_int_equal(f.n_freed, 1);
        hr_error_clear(&err);
        assert_no_leak(before);
    }
    unref_all(in, 2);
}

static void test_declared_schema(void **unused)
{
    hr_table *in = numbers(0, 10);
    struct ArrowSchema schema = { 0 };
    hr_map_options options = { .schema = &schema };
    hr_error err = HR_ERROR_INIT;
    function f = { .mode = TWICE_AS_MANY };
    hr_schema *out = NULL;
    rig r = { 0 };

    (void)unused;
    declare_y(&schema);
    assert_ok(run_map(&r, &f, &options, &in, 1, &err), &err);
    assert_ok(r.op->cls->schema(r.op, in->schema, &out, &err), &err);
    assert_ptr_equal(rig_table(&r, 0)->schema, out);
    assert_int_equal(rig_rows(&r), 20);
    hr__schema_unref(out);
    end_map(&r);
    hr_table_unref(in);
}

static void test_cancelled(void **unused)
{
    hr_table *in = numbers(0, 5000);
    hr_error err = HR_ERROR_INIT;
    function f = { .mode = SHARE };
    rig r = { .cancelled = true };

    (void)unused;
    assert_status(run_map(&r, &f, NULL, &in, 1, &err), HR_CANCELLED, &err);
    assert_int_equal(f.n_calls, 0);
    end_map(&r);
    hr_table_unref(in);
    hr_error_clear(&err);
}

static void test_refusals(void **unused)
{
    function f = { .mode = SHARE };
    hr_map_function fn = function_of(&f), no_call = function_of(&f);
    hr_map_options bad = { .struct_bytes = sizeof bad, .batch_rows = -1 };
    hr_error err = HR_ERROR_INIT;
    hr_op *op = NULL;

    (void)unused;
    no_call.call = NULL;
    assert_status(hr__op_map(&no_call, NULL, &op, &err), HR_INVALID, &err);
    assert_status(hr__op_map(&fn, &bad, &op, &err), HR_INVALID, &err);
    assert_int_equal(f.n_freed, 2);
    hr_error_clear(&err);
}

static hr_status one_run(void *context, hr_error *err)
{
    hr_table **in = context;
    function f = { .mode = DOUBLE };
    hr_map_function fn = function_of(&f);
    hr_status st = HR_OK;
    hr_op *op = NULL;
    rig r = { 0 };

    HR_GO(hr__op_map(&fn, NULL, &op, err));
    HR_GO(rig_open(&r, op, NULL, err));
    HR_GO(rig_run(&r, in, 2, err));
done:
    rig_close(&r);
    hr__op_unref(op);
    assert_int_equal(f.n_freed, 1);
    assert_int_equal(f.n_states, f.n_states_freed);
    return st;
}

static void test_faults(void **unused)
{
    hr_table *in[2] = { numbers(4090, 4), numbers(4094, 10) };

    (void)unused;
    run_with_faults_on(one_run, in, HR_FAULT_MEMORY);
    unref_all(in, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_tables_as_they_are),
        cmocka_unit_test(test_shared_and_nothing),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_declared_schema),
        cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
