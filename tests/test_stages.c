/* test_stages.c - operators that keep everything, that have a front, and that have several inputs, in a real run.
 *
 * The operators here are made for this: they keep or choose by rules whose result can be said beforehand, so that what
 * the scheduler owes them (order, block parts, turns, ends, errors in their place) is checked row by row. */
#include "harness.h"

#include "exec/exec.h"
#include "exec/run.h"
#include "op/call.h"

#include <stdio.h>
#include <stdlib.h>

static int64_t value_at(const hr_table *t, int64_t i)
{
    hr_column_view v = { .struct_bytes = sizeof v };

    assert_ok(hr_table_column_view(t, 0, &v, NULL), NULL);
    return ((const int64_t *)v.data)[i];
}

/* n rows from `first` on, numbered so. */
static hr_status count_up(const hr_mem *mem, hr_schema *schema, int64_t first, int64_t n, hr_table **out, hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    hr_array *a = NULL;
    hr_origin *o = NULL;
    hr_run_coords at = { { .row = first }, n, false };
    hr_status st = HR_OK;

    HR_GO(hr__origin_new(&at, 1, &o, err));
    HR_GO(hr__buffer_new(mem, n * 8, &buffers[1], err));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)buffers[1]->data)[i] = first + i;
    HR_GO(hr__array_new(hr__type_simple(HR_T_INT64), n, 0, buffers, NULL, 0, &a, err));
    st = hr__table_new(schema, &a, n, o, out, err);
done:
    hr__origin_unref(o);
    return st;
}

/* --- keep: a BLOCK operator. It counts the rows n that come; out come 0 .. n-1, in block parts of `rows` */

typedef struct keep_op {
    hr_op base;
    int64_t rows;
    bool front, fail_block_parts;
} keep_op;
typedef struct keep_state {
    atomic_llong before; /* rows that the front saw */
    int64_t n;
    hr_schema *schema;
} keep_state;
typedef struct keep_reader {
    hr_reader base;
    const hr_mem *mem;
    hr_schema *schema;
    hr_mem own;
    int64_t at, end;
} keep_reader;

static hr_status keep_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)err;
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

static hr_status keep_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    (void)op;
    run->state = hr__zalloc(run->account, sizeof(keep_state));
    return run->state ? HR_OK : hr__error_memory(err, "keep", 1);
}

static void keep_stop(const hr_op *op, hr_op_run *run)
{
    keep_state *s = run->state;

    (void)op;
    hr__schema_unref(s->schema);
    hr__free(s);
}

static hr_status keep_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    keep_state *s = hr__task_run(task)->state;

    (void)err;
    if (!s->schema)
        s->schema = hr__schema_ref(in->schema);
    assert_true(value_at(in, 0) == s->n); /* in canonical order, nothing left out */
    s->n += in->n_rows;
    if (((const keep_op *)op)->front)
        assert_true(atomic_load(&s->before) >= s->n);
    assert_true(hr__task_run(task)->allowance > 0);
    return HR_OK;
}

static hr_status keep_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    const keep_op *k = (const keep_op *)op;

    *n = (((keep_state *)hr__task_run(task)->state)->n + k->rows - 1) / k->rows;
    return k->fail_block_parts ? hr_error_set(err, HR_DISK_FULL, "no block parts") : HR_OK;
}

static hr_status keep_next(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    keep_reader *k = (keep_reader *)r;
    int64_t n = HR_MIN(k->end - k->at, 1000);

    (void)max_bytes;
    if (n > 0)
        HR_TRY(count_up(&k->own, k->schema, k->at, n, out, err));
    k->at += n;
    return HR_OK;
}

static void keep_close(hr_reader *r) { hr__free(r); }

static const hr_reader_class keep_reading = { .next = keep_next, .close = keep_close };

static hr_status keep_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                           int64_t *estimate, hr_error *err)
{
    const keep_op *k = (const keep_op *)op;
    keep_state *s = run->state;
    keep_reader *r;

    if (block_part % 7 == 3)
        *estimate *= 2; /* is asked for, then it goes on */
    if (!(r = hr__zalloc(mem->account, sizeof *r)))
        return hr__error_memory(err, "keep", sizeof *r);
    r->base.cls = &keep_reading;
    r->schema = s->schema;
    r->own = *mem;
    r->at = block_part * k->rows;
    r->end = HR_MIN(s->n, r->at + k->rows);
    *out = &r->base;
    return HR_OK;
}

static void free_op(hr_op *op) { hr__free(op); }

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    keep_state *s = hr__task_run(task)->partner->state;
    hr_table *same = hr_table_ref((hr_table *)in);

    (void)op;
    atomic_fetch_add(&s->before, in->n_rows);
    return hr__task_emit(task, &same, err);
}

static const hr_op_class front_class = {
    .name = "front", .kind = HR_OP_MAP, .schema = keep_schema, .push = front_push, .free = free_op
};

static hr_status keep_front(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err)
{
    (void)first_input;
    *out = NULL;
    assert_int_equal(input, 0);
    if (!((const keep_op *)op)->front)
        return HR_OK;
    if (!(*out = hr__zalloc(NULL, sizeof **out)))
        return hr__error_memory(err, "front", sizeof **out);
    hr__op_init(*out, &front_class);
    return HR_OK;
}

static const hr_op_class keep_class = { .name = "keep",
                                        .kind = HR_OP_BLOCK,
                                        .same_rows = true,
                                        .schema = keep_schema,
                                        .front = keep_front,
                                        .start = keep_start,
                                        .stop = keep_stop,
                                        .push = keep_push,
                                        .block_parts = keep_block_parts,
                                        .read = keep_read,
                                        .free = free_op };

static hr_status keep_plan(hr_plan *in, int64_t rows, bool front, bool fail, hr_plan **out, hr_error *err)
{
    keep_op *op = hr__zalloc(NULL, sizeof *op);

    *out = NULL;
    if (!op)
        return hr__error_memory(err, "keep", sizeof *op);
    hr__op_init(&op->base, &keep_class);
    op->rows = rows;
    op->front = front;
    op->fail_block_parts = fail;
    return hr__plan_op(in, &op->base, out, err);
}

/* --- several inputs. turns: the rows of each input, in turn. weave: a row of each, as long as the first one lasts, by
 * choice */

typedef struct weave_state {
    int64_t seen[2], ended;
    hr_table *rows[2]; /* waiting */
    int64_t made;
} weave_state;

static hr_status first_schema(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)err;
    assert_int_equal(n, 2);
    *out = hr__schema_ref(ins[0]);
    return HR_OK;
}

static hr_status weave_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    (void)op;
    run->state = hr__zalloc(run->account, sizeof(weave_state));
    return run->state ? HR_OK : hr__error_memory(err, "weave", 1);
}

static void weave_stop(const hr_op *op, hr_op_run *run)
{
    weave_state *s = run->state;

    (void)op;
    hr_table_unref(s->rows[0]);
    hr_table_unref(s->rows[1]);
    hr__free(s);
}

static hr_status turns_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    weave_state *s = hr__task_run(task)->state;
    int i = hr__task_input(task);
    hr_table *same = hr_table_ref((hr_table *)in);

    (void)op;
    assert_int_equal(s->ended, i); /* all of those before it have ended */
    assert_int_equal(value_at(in, 0), s->seen[i]);
    s->seen[i] += in->n_rows;
    return hr__task_emit(task, &same, err);
}

static hr_status turns_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    weave_state *s = hr__task_run(task)->state;

    (void)op;
    (void)err;
    assert_int_equal(input, s->ended++);
    return HR_OK;
}

static const hr_op_class turns_class = { .name = "turns",
                                         .kind = HR_OP_STREAM,
                                         .inputs = HR_INPUTS_IN_TURN,
                                         .schema_of = first_schema,
                                         .start = weave_start,
                                         .stop = weave_stop,
                                         .push = turns_push,
                                         .ended = turns_ended,
                                         .free = free_op };

static hr_status weave_emit(weave_state *s, hr_task *task, hr_error *err)
{
    hr_table *part = NULL;
    int64_t n;

    while (s->rows[0] && s->rows[1]) {
        n = HR_MIN(s->rows[0]->n_rows, s->rows[1]->n_rows);
        assert_int_equal(value_at(s->rows[0], 0), value_at(s->rows[1], 0));
        HR_TRY(hr_table_slice(s->rows[0], 0, n, &part, err));
        HR_TRY(hr__task_emit(task, &part, err));
        for (int i = 0; i < 2; i++) {
            hr_table *rest = NULL;

            if (n < s->rows[i]->n_rows)
                HR_TRY(hr_table_slice(s->rows[i], n, s->rows[i]->n_rows - n, &rest, err));
            hr_table_unref(s->rows[i]);
            s->rows[i] = rest;
        }
    }
    hr__task_want(task, s->rows[0] ? 1 : 0);
    return HR_OK;
}

static hr_status weave_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    weave_state *s = hr__task_run(task)->state;
    int i = hr__task_input(task);
    hr_table *both[2] = { s->rows[i], (hr_table *)in }, *all = NULL;

    (void)op;
    HR_TRY(
        hr__table_concat(hr__task_mem(task), in->schema, s->rows[i] ? both : both + 1, s->rows[i] ? 2 : 1, &all, err));
    hr_table_unref(s->rows[i]);
    s->rows[i] = all;
    return weave_emit(s, task, err);
}

static hr_status weave_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    weave_state *s = hr__task_run(task)->state;

    (void)op;
    (void)err;
    s->ended++;
    if (!s->rows[input])
        hr__task_enough(task);
    return HR_OK;
}

static const hr_op_class weave_class = { .name = "weave",
                                         .kind = HR_OP_STREAM,
                                         .inputs = HR_INPUTS_CHOSEN,
                                         .schema_of = first_schema,
                                         .start = weave_start,
                                         .stop = weave_stop,
                                         .push = weave_push,
                                         .ended = weave_ended,
                                         .free = free_op };

static hr_status two_plan(hr_plan *a, hr_plan *b, const hr_op_class *cls, hr_plan **out, hr_error *err)
{
    hr_plan *ins[2] = { a, b };
    hr_op *op = hr__zalloc(NULL, sizeof *op);

    *out = NULL;
    if (!op)
        return hr__error_memory(err, "two", sizeof *op);
    hr__op_init(op, cls);
    return hr__plan_op_n(ins, 2, op, out, err);
}

/* --- a stream operator that fails in the middle of a table */

#define GOOD_ROWS 1230

static hr_status tens_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_table *part = NULL;

    (void)op;
    for (int64_t i = 0; i < in->n_rows; i += 10) {
        if (value_at(in, i) >= GOOD_ROWS)
            return hr_error_set(err, HR_BAD_DATA, "no tens");
        HR_TRY(hr_table_slice((hr_table *)in, i, HR_MIN(10, in->n_rows - i), &part, err));
        HR_TRY(hr__task_emit(task, &part, err));
    }
    return HR_OK;
}

static const hr_op_class tens_class = {
    .name = "tens", .kind = HR_OP_STREAM, .schema = keep_schema, .push = tens_push, .free = free_op
};

/* --- running */

static hr_plan *range_plan(int64_t n)
{
    hr_plan *p = NULL;

    assert_ok(hr_plan_range(n, "id", &p, NULL), NULL);
    return p;
}

/* Runs p: the values that come out follow each other from 0, and again from 0 after `wrap` (0: never). -> how many;
 * coordinates are of source `instance` and numbered through. */
static hr_status run_counting(hr_plan *p, int threads, int64_t wrap, int32_t instance, int64_t *n, hr_error *err)
{
    hr_run_options o = { .num_threads = threads, .prefetch = 2 };
    hr_run *r = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    *n = 0;
    HR_GO(hr__run_start(p, &o, &r, err));
    do {
        HR_GO(hr__run_next(r, -1, &t, NULL, err));
        for (int64_t i = 0; t && i < t->n_rows; i++, ++*n) {
            hr_coord c = hr__origin_at(t->origin, i);

            assert_int_equal(value_at(t, i), wrap ? *n % wrap : *n);
            if (instance >= 0) {
                assert_int_equal(c.instance, instance);
                assert_int_equal(c.row, *n);
            }
        }
        hr_table_unref(t);
    } while (t);
done:
    hr__run_close(r);
    return st;
}

static int64_t counted(hr_plan *takes, int threads, int64_t wrap, int32_t instance)
{
    hr_error err = HR_ERROR_INIT;
    int64_t n = 0;

    assert_ok(run_counting(takes, threads, wrap, instance, &n, &err), &err);
    hr_plan_unref(takes);
    return n;
}

static hr_plan *keep_of(hr_plan *takes, int64_t rows, bool front)
{
    hr_plan *p = NULL;

    assert_ok(keep_plan(takes, rows, front, false, &p, NULL), NULL);
    hr_plan_unref(takes);
    return p;
}

static hr_plan *two_of(hr_plan *takes_a, hr_plan *takes_b, const hr_op_class *cls)
{
    hr_plan *p = NULL;

    assert_ok(two_plan(takes_a, takes_b, cls, &p, NULL), NULL);
    hr_plan_unref(takes_a);
    hr_plan_unref(takes_b);
    return p;
}

static void test_pieces_in_order(void **state)
{
    int64_t n;
    hr_plan *p;

    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2)
        for (int front = 0; front < 2; front++)
            assert_int_equal(counted(keep_of(range_plan(100000), 1234, front), threads, 0, 1), 100000);
    assert_int_equal(counted(keep_of(range_plan(0), 10, true), 2, 0, 1), 0);
    assert_int_equal(counted(keep_of(keep_of(range_plan(5000), 10, true), 4999, true), 2, 0, 2), 5000);
    p = keep_of(range_plan(77), 10, false);
    assert_ok(hr_plan_count(p, &n, NULL), NULL);
    assert_int_equal(n, 77);
    hr_plan_unref(p);
}

static void test_inputs_in_turn(void **state)
{
    hr_plan *p;

    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2) {
        assert_int_equal(counted(two_of(range_plan(50000), range_plan(50000), &turns_class), threads, 50000, -1),
                         100000);
        p = two_of(keep_of(range_plan(3000), 100, true), keep_of(range_plan(3000), 70, true), &turns_class);
        assert_int_equal(counted(p, threads, 3000, -1), 6000);
    }
    assert_int_equal(counted(two_of(range_plan(0), range_plan(9), &turns_class), 2, 0, -1), 9);
    assert_int_equal(counted(two_of(range_plan(9), range_plan(0), &turns_class), 2, 0, -1), 9);
}

static void test_inputs_chosen(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 8; threads *= 2)
        assert_int_equal(
            counted(two_of(range_plan(50000), keep_of(range_plan(60000), 77, false), &weave_class), threads, 0, 3),
            50000);
    assert_int_equal(counted(two_of(range_plan(0), range_plan(9), &weave_class), 2, 0, -1), 0);
    assert_int_equal(counted(two_of(range_plan(9), range_plan(0), &weave_class), 2, 0, -1), 0);
}

/* Inside of a union, and under a limit. */
static void test_nested(void **state)
{
    hr_plan *ins[2] = { keep_of(range_plan(3000), 100, true), range_plan(3000) }, *p = NULL, *few = NULL;

    (void)state;
    assert_ok(hr_plan_union(ins, 2, &p, NULL), NULL);
    assert_ok(hr_plan_limit(p, 4000, &few, NULL), NULL);
    assert_int_equal(counted(hr_plan_ref(p), 2, 3000, -1), 6000);
    assert_int_equal(counted(few, 2, 3000, -1), 4000);
    assert_int_equal(counted(keep_of(two_of(p, range_plan(7), &weave_class), 3, false), 2, 0, -1), 7);
    hr_plan_unref(ins[0]);
    hr_plan_unref(ins[1]);
}

static hr_status is_block(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err)
{
    (void)context;
    (void)state;
    (void)err;
    assert_int_equal(value_at(in, 0) % 4096, 0); /* whole blocks of 4,096 rows, wherever a block part began */
    assert_true(in->n_rows == 4096 || value_at(in, in->n_rows - 1) == 19999);
    *out = hr_table_ref((hr_table *)in);
    return HR_OK;
}

static void test_blocks_of_made_rows(void **state)
{
    hr_map_function fn = { .struct_bytes = sizeof fn, .name = "is_block", .call = is_block };
    hr_plan *p = keep_of(range_plan(20000), 700, false), *q = NULL;

    (void)state;
    assert_ok(hr_plan_map(p, &fn, NULL, &q, NULL), NULL);
    hr_plan_unref(p);
    assert_int_equal(counted(q, 4, 0, -1), 20000);
}

static void test_errors_and_ends(void **state)
{
    hr_plan *in = range_plan(3000), *p = NULL, *q = NULL;
    hr_error err = HR_ERROR_INIT;
    hr_run_options o = { .prefetch = 1 };
    hr_run *r = NULL;
    hr_table *t = NULL;
    int64_t n;

    (void)state;
    assert_ok(keep_plan(in, 10, true, true, &p, NULL), NULL);
    assert_int_equal(run_counting(p, 2, 0, -1, &n, &err), HR_DISK_FULL);
    assert_non_null(strstr(err.text, "no block parts"));
    hr_error_clear(&err);
    assert_ok(two_plan(in, p, &turns_class, &q, NULL), NULL);
    assert_int_equal(run_counting(q, 2, 3000, -1, &n, &err), HR_DISK_FULL);
    assert_int_equal(n, 3000); /* what came before it did come */
    hr_error_clear(&err);
    hr_plan_unref(q);
    hr_plan_unref(p);
    p = keep_of(in, 10, true);
    for (int k = 0; k < 20; k++) { /* closed after k tables */
        assert_ok(hr__run_start(p, &o, &r, NULL), NULL);
        for (int i = 0; i < k; i++) {
            assert_ok(hr__run_next(r, -1, &t, NULL, NULL), NULL);
            hr_table_unref(t);
        }
        hr__run_close(r);
    }
    hr_plan_unref(p);
}

static hr_status everything(hr_error *err)
{
    hr_plan *a = NULL, *b = NULL, *k = NULL, *w = NULL, *t = NULL;
    hr_status st = HR_OK;
    int64_t n;

    HR_GO(hr_plan_range(2000, "id", &a, err));
    HR_GO(hr_plan_range(2000, "id", &b, err));
    HR_GO(keep_plan(a, 300, true, false, &k, err));
    HR_GO(two_plan(k, b, &weave_class, &w, err));
    HR_GO(two_plan(w, b, &turns_class, &t, err));
    st = run_counting(t, 2, 2000, -1, &n, err);
done:
    hr_plan_unref(a);
    hr_plan_unref(b);
    hr_plan_unref(k);
    hr_plan_unref(w);
    hr_plan_unref(t);
    return st;
}

/* What an operator emitted before its error was once lost if it was in the same call: how many rows came then depended
 * on how long the reader's tables were. */
static void test_rows_before_an_error(void **state)
{
    hr_plan *in = range_plan(100000), *p = NULL, *q = NULL;
    hr_op *op = hr__zalloc(NULL, sizeof *op);
    hr_error err = HR_ERROR_INIT;
    int64_t n;

    (void)state;
    hr__op_init(op, &tens_class);
    assert_ok(hr__plan_op(in, op, &p, NULL), NULL);
    for (int threads = 1; threads <= 4; threads *= 2) {
        assert_int_equal(run_counting(p, threads, 0, -1, &n, &err), HR_BAD_DATA);
        assert_int_equal(n, GOOD_ROWS);
        assert_non_null(strstr(err.text, "no tens"));
        hr_error_clear(&err);
    }
    assert_ok(two_plan(p, in, &turns_class, &q, NULL), NULL); /* and through one more stage */
    assert_int_equal(run_counting(q, 2, 0, -1, &n, &err), HR_BAD_DATA);
    assert_int_equal(n, GOOD_ROWS);
    hr_error_clear(&err);
    hr_plan_unref(q);
    hr_plan_unref(p);
    hr_plan_unref(in);
}

static void test_faults(void **state)
{
    (void)state;
    assert_true(run_with_faults(everything, HR_FAULT_MEMORY | MAY_RECOVER) > 20);
}

static int end_pool(void **state)
{
    (void)state;
    assert_int_equal(hr_shutdown(NULL), HR_OK);
    return 0;
}

/* The arenas of all functions of a plan count when its tickets are admitted: there was room for eight. */
static void test_many_arenas(void **unused)
{
    enum { N = 11 };
    live_memory before = live_now();
    hr_calls *calls[N];
    hr_error err = HR_ERROR_INIT;
    hr_run_options o = { .num_threads = 1 };
    hr_plan *p = NULL;
    hr_run *r = NULL;

    (void)unused;
    assert_ok(hr_plan_range(10, "x", &p, &err), &err);
    for (int i = 0; i < N; i++) {
        hr_plan *next = NULL;
        hr_op *op;

        assert_ok(hr__calls_new("f", &calls[i], &err), &err);
        hr__calls_expect(calls[i], 1, NULL);
        assert_ok(
            hr__op_calls(calls[i], &(hr_calls_options){ .name = "f", .qualified = "f", .batch_rows = -1 }, &op, &err),
            &err);
        assert_ok(hr__plan_op(p, op, &next, &err), &err);
        hr_plan_unref(p);
        p = next;
    }
    assert_ok(hr__run_start(p, &o, &r, &err), &err);
    assert_int_equal(r->n_arenas, N);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(r->arenas[i], r->arenas[k]);
    hr__run_close(r);
    hr_plan_unref(p);
    for (int i = 0; i < N; i++)
        hr__calls_unref(calls[i]);
    assert_no_leak(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_arenas),     cmocka_unit_test(test_pieces_in_order),
        cmocka_unit_test(test_inputs_in_turn),  cmocka_unit_test(test_inputs_chosen),
        cmocka_unit_test(test_nested),          cmocka_unit_test(test_blocks_of_made_rows),
        cmocka_unit_test(test_errors_and_ends), cmocka_unit_test(test_rows_before_an_error),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, end_pool);
}
