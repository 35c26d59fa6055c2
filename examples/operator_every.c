/* operator_every.c - a whole operator in one file: each n-th row.
 *
 * docs/adding-an-operator.md walks through it. An operator lives inside the engine, so this program is linked with the
 * engine's own objects (see examples/meson.build), puts the operator into a plan and runs it. */
#include "op/operators.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <stdio.h>

/* --- 1. arguments (immutable, shared by all runs of a plan) and state (of one run) */

typedef struct every_op {
    hr_op base; /* first: an every_op is an hr_op */
    int64_t n;
} every_op;

typedef struct every_state {
    int64_t skip; /* rows to leave out before the next that is kept */
} every_state;

static hr_status state_of(const hr_op *op, hr_task *task, every_state **out, hr_error *err)
{
    void **slot = hr__task_state(task); /* NULL at first; the scheduler frees it */

    (void)op;
    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
        return hr__error_memory(err, "every", sizeof **out);
    *out = *slot;
    return HR_OK;
}

/* --- 2. push: borrows a table, emits new ones. How tables are cut does not change which rows are kept */

static hr_status every_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    int64_t n = ((const every_op *)op)->n, n_kept = 0, row;
    every_state *s = NULL;
    hr_table *out = NULL;
    int64_t *kept = NULL;
    hr_status st = HR_OK;

    HR_GO(state_of(op, task, &s, err));
    if (!(kept = hr__alloc(hr__task_run(task)->account, ((size_t)(in->n_rows / n) + 1) * sizeof *kept)))
        HR_GO(hr__error_memory(err, "every", in->n_rows / n * (int64_t)sizeof *kept));
    for (row = s->skip; row < in->n_rows; row += n)
        kept[n_kept++] = row;
    s->skip = row - in->n_rows;
    if (n_kept) {
        HR_GO(hr__table_take(hr__task_mem(task), in, kept, sizeof *kept, n_kept, &out, err)); /* coordinates too */
        HR_GO(hr__task_emit(task, &out, err)); /* takes it, even on failure */
    }
done:
    hr_table_unref(out);
    hr__free(kept);
    return st;
}

/* --- 3. positions: the state as text when a marker comes by, and back */

static hr_status every_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    every_state *s = NULL;
    char text[40];
    hr_status st = state_of(op, task, &s, err);

    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    snprintf(text, sizeof text, "skip=%" PRId64, s->skip);
    hr__task_pass(task, takes, text);
    return HR_OK;
}

static hr_status every_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    every_state *s = NULL;
    int64_t skip = -1, n = ((const every_op *)op)->n;

    if (!hr__state_int(state, "skip", &skip) || skip < 0 || skip >= n)
        return hr_error_set(err, HR_INVALID, "every: '%s' is not a position between two of %" PRId64 " rows", state, n);
    HR_TRY(state_of(op, task, &s, err));
    s->skip = skip;
    return HR_OK;
}

/* --- 4. the class: what it does, and the traits that rules may use */

static void every_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "every(%" PRId64 ")", ((const every_op *)op)->n);
}

static void every_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_int(h, ((const every_op *)op)->n); }
static void every_free(hr_op *op) { hr__free(op); }

static const hr_op_class every_class = {
    .name = "every",
    .doc = "each n-th row",
    .kind = HR_OP_STREAM,      /* counting is a matter of order */
    .schema = hr__kept_schema, /* the columns stay */
    .needs = hr__same_needs,   /* it looks at none: readers decode only what is used after it */
    .push = every_push,
    .marker = every_marker,
    .restore = every_restore,
    .describe = every_describe,
    .fingerprint = every_fingerprint,
    .free = every_free,
};

/* --- 5. the constructor: checks its arguments. In the engine it is declared in op/operators.h */

static hr_status op_every(int64_t n, hr_op **out, hr_error *err)
{
    every_op *o;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "every: each %" PRId64 "-th row, expected at least 1", n);
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "every", sizeof *o);
    hr__op_init(&o->base, &every_class);
    o->n = n;
    *out = &o->base;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------- a test of it all */

/* Reads from the position on, at least `most` rows or all; the rows must be *at, *at + 7, ... */
static hr_status read_rows(hr_plan *p, const char *position, int64_t most, int64_t *at, char **saved, hr_error *err)
{
    hr_feed_options options = { .struct_bytes = sizeof options, .batch_rows = 10, .position = position };
    int64_t begin = *at;
    hr_feed *f = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_feed_open(p, &options, &f, err));
    while (*at - begin < 7 * most) {
        HR_GO(hr_feed_next(f, &t, err));
        if (!t)
            break;
        for (int64_t i = 0; i < t->n_rows; i++, *at += 7)
            if (((const int64_t *)(void *)t->columns[0]->buffers[1]->data)[t->columns[0]->offset + i] != *at)
                HR_FAIL(HR_BUG, "row %" PRId64 " is not there", *at);
        hr_table_unref(t);
        t = NULL;
    }
    if (saved)
        st = hr_feed_position(f, saved, err);
done:
    hr_table_unref(t);
    hr_feed_close(f);
    return st;
}

static hr_status every_seventh(hr_error *err)
{
    hr_plan *numbers = NULL, *p = NULL;
    char *position = NULL, *text = NULL;
    hr_op *op = NULL;
    int64_t at = 0;
    hr_status st = HR_OK;

    HR_GO(hr_plan_range(10000, "id", &numbers, err));
    HR_GO(op_every(7, &op, err));
    HR_GO(hr__plan_op(numbers, op, &p, err)); /* takes op */
    HR_GO(hr_plan_explain(p, &text, err));
    printf("%s", text);
    HR_GO(read_rows(p, NULL, 500, &at, &position, err));
    HR_GO(read_rows(p, position, INT64_MAX / 7, &at, NULL, err)); /* as another process would go on */
    if (at != 10003)                                              /* 1,429 rows, the last of them 9,996 */
        HR_FAIL(HR_BUG, "the rows end before %" PRId64, at);
    if (op_every(0, &op, NULL) != HR_INVALID)
        HR_FAIL(HR_BUG, "0 is no error");
done:
    hr_string_free(position);
    hr_string_free(text);
    hr_plan_unref(p);
    hr_plan_unref(numbers);
    return st;
}

int main(void)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st = every_seventh(&err);

    printf("%s\n", st ? err.text : "ok");
    hr_error_clear(&err);
    return st != HR_OK;
}
