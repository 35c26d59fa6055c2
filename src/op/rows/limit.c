/* limit.c - the first n rows. A stream operator, since "first" depends on the order. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct limit_op {
    hr_op base;
    int64_t n_rows;
} limit_op;

typedef struct limit_state {
    int64_t left;
} limit_state;

static hr_status limit_state_of(const hr_op *op, hr_task *task, limit_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);
    limit_state *s = *slot;

    if (!s) {
        if (!(s = *slot = hr__alloc(hr__task_run(task)->account, sizeof *s)))
            return hr__error_memory(err, "limit", sizeof *s);
        s->left = ((const limit_op *)op)->n_rows;
    }
    *out = s;
    return HR_OK;
}

static hr_status limit_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_status st = HR_OK;
    limit_state *s = NULL;
    hr_table *head = NULL;

    HR_GO(limit_state_of(op, task, &s, err));
    if (s->left < in->n_rows)
        HR_GO(hr_table_slice(in, 0, s->left, &head, err));
    else
        head = hr_table_ref((hr_table *)in);
    s->left -= head->n_rows;
    if (head->n_rows > 0)
        HR_GO(hr__task_emit(task, &head, err));
    if (s->left == 0)
        hr__task_enough(task); /* upstream may stop */
done:
    hr_table_unref(head);
    return st;
}

static hr_status limit_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    limit_state *s = NULL;
    hr_status st = limit_state_of(op, task, &s, err);

    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    hr__task_pass_int(task, takes, "left", s->left);
    return HR_OK;
}

static hr_status limit_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    limit_state *s = NULL;
    int64_t left = -1;

    if (!hr__state_int(state, "left", &left) || left > ((const limit_op *)op)->n_rows)
        return hr_error_set(err, HR_INVALID, "limit: '%s' is not a position in the first %" PRId64 " rows", state,
                            ((const limit_op *)op)->n_rows);
    HR_TRY(limit_state_of(op, task, &s, err));
    s->left = left;
    if (left == 0)
        hr__task_enough(task);
    return HR_OK;
}

static void limit_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "limit(%" PRId64 ")", ((const limit_op *)op)->n_rows);
}

static int64_t limit_most_rows(const hr_op *op) { return ((const limit_op *)op)->n_rows; }

static void limit_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_int(h, ((const limit_op *)op)->n_rows); }

static const hr_op_class limit_class = {
    .name = "limit",
    .doc = "the first n rows",
    .kind = HR_OP_STREAM,
    .images_upstream = true,
    .takes_few_rows = true,
    .schema = hr__kept_schema,
    .needs = hr__same_needs,
    .push = limit_push,
    .marker = limit_marker,
    .restore = limit_restore,
    .describe = limit_describe,
    .most_rows = limit_most_rows,
    .fingerprint = limit_fingerprint,
    .free = hr__op_plain_free,
};

hr_status hr__op_limit(int64_t n_rows, hr_op **out, hr_error *err)
{
    limit_op *l = NULL;

    *out = NULL;
    if (n_rows < 0)
        return hr_error_set(err, HR_INVALID, "limit: %" PRId64 " rows", n_rows);
    if (!(l = hr__alloc(NULL, sizeof *l)))
        return hr__error_memory(err, "limit", sizeof *l);
    hr__op_init(&l->base, &limit_class);
    l->n_rows = n_rows;
    l->base.cuts = true;
    l->base.cut_end = n_rows;
    *out = &l->base;
    return HR_OK;
}
