/* whole_groups.c - an operator whose output tables hold whole groups.
 *
 * The input has the rows of a group next to each other, in tables cut anywhere. The output tables hold whole groups,
 * about 4,096 rows, 2,048 groups or a few MiB each, so each ticket downstream has all rows of its groups. The operator
 * holds the open group, which must fit in memory. It is a stream operator without positions (a resumed run starts
 * over).
 *
 * Tests: test_groups.c, test_map_groups.py. */
#include "op/call.h"

#include <inttypes.h>

#define TABLE_ROWS 4096
#define TABLE_GROUPS 2048

typedef struct whole_op {
    hr_op base;
    char **keys;
    int n_keys;
} whole_op;

static hr_status whole_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const whole_op *w = (const whole_op *)op;

    for (int i = 0; i < w->n_keys; i++)
        if (hr__schema_find(in, w->keys[i]) < 0)
            return hr_error_set(err, HR_INVALID, "no column '%s' to group by", w->keys[i]);
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

static hr_status emit(hr_task *task, hr_groups *g, bool last, hr_error *err)
{
    for (;;) {
        hr_batch_place *batches = NULL;
        hr_table *t = NULL;
        int64_t n;

        HR_TRY(hr__groups_next(g, last, 0, &t, &batches, &n, err));
        hr__free(batches);
        if (!t)
            return HR_OK;
        HR_TRY(hr__task_emit(task, &t, err));
    }
}

static hr_status whole_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const whole_op *w = (const whole_op *)op;
    hr_groups **g = (hr_groups **)hr__task_state(task);

    if (!*g)
        HR_TRY(hr__groups_new((const char *const *)w->keys, w->n_keys, TABLE_ROWS,
                              hr__table_bytes_wanted(hr__account_limit(hr__task_run(task)->account)), TABLE_GROUPS,
                              hr__task_run(task)->account, g, err));
    HR_TRY(hr__groups_add(*g, in, err));
    return emit(task, *g, false, err);
}

static hr_status whole_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_groups *g = *hr__task_state(task);

    (void)op;
    return g ? emit(task, g, true, err) : HR_OK;
}

static void whole_task_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr__groups_free(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

static void whole_describe(const hr_op *op, hr_text *out)
{
    const whole_op *w = (const whole_op *)op;

    hr__text_add(out, "whole_groups(");
    for (int i = 0; i < w->n_keys; i++)
        hr__text_add(out, "%s%s", i ? ", " : "", w->keys[i]);
    hr__text_add(out, ")");
}

static void whole_fingerprint(const hr_op *op, hr_hash *h)
{
    const whole_op *w = (const whole_op *)op;

    for (int i = 0; i < w->n_keys; i++)
        hr__hash_text(h, w->keys[i]);
}

static void whole_free(hr_op *op)
{
    whole_op *w = (whole_op *)op;

    for (int i = 0; i < w->n_keys; i++)
        hr__free(w->keys[i]);
    hr__free(w->keys);
    hr__free(w);
}

static const hr_op_class whole_groups_class = {
    .name = "whole_groups",
    .doc = "the same rows, as tables of whole groups",
    .kind = HR_OP_STREAM,
    .same_rows = true,
    .schema = whole_schema,
    .push = whole_push,
    .finish = whole_finish,
    .task_clear = whole_task_clear,
    .describe = whole_describe,
    .fingerprint = whole_fingerprint,
    .free = whole_free,
};

hr_status hr__op_whole_groups(const char *const *keys, int n_keys, hr_op **out, hr_error *err)
{
    whole_op *w = NULL;

    *out = NULL;
    if (n_keys < 1)
        return hr_error_set(err, HR_INVALID, "groups: expected at least one column to group by");
    if (!(w = hr__zalloc(NULL, sizeof *w)))
        return hr__error_memory(err, "groups", sizeof *w);
    hr__op_init(&w->base, &whole_groups_class);
    if (!(w->keys = hr__zalloc(NULL, (size_t)n_keys * sizeof *w->keys)))
        goto no_memory;
    for (; w->n_keys < n_keys; w->n_keys++)
        if (!(w->keys[w->n_keys] = hr__strdup(NULL, keys[w->n_keys])))
            goto no_memory;
    *out = &w->base;
    return HR_OK;
no_memory:
    whole_free(&w->base);
    return hr__error_memory(err, "groups", n_keys * (int64_t)sizeof *w->keys);
}
