/* whole_groups.c - an operator whose output tables hold whole groups.
 *
 * The input has the rows of a group next to each other, in tables cut anywhere. The output tables hold whole groups,
 * about 4,096 rows, 2,048 groups or a few MiB each, so each ticket downstream has all rows of its groups. The operator
 * holds the open group, which must fit in memory.
 *
 * A marker lies before each output table: an input marker before its rows, with the number of rows between, which a run
 * that begins there skips.
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

typedef struct whole_state {
    hr_groups *groups;      /* NULL: none came yet */
    int64_t n_in, n_out;    /* rows */
    int64_t skip;           /* input rows to leave out: an earlier run gave them */
    hr_marker *base, *next; /* one before row n_out of the input, and one after it; NULL: none */
    int64_t base_row, next_row;
} whole_state;

static hr_status whole_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const whole_op *w = (const whole_op *)op;

    for (int i = 0; i < w->n_keys; i++)
        if (hr__schema_find(in, w->keys[i]) < 0)
            return hr__schema_missing_in("groupby", HR_INVALID, in, w->keys[i], err);
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

static hr_status state_of(hr_task *task, whole_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);

    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof **out)))
        return hr__error_memory(err, "groups", sizeof **out);
    *out = *slot;
    return HR_OK;
}

/* Without memory for a copy, an earlier marker serves. */
static void pass(whole_state *s, hr_task *task)
{
    hr_marker *m = NULL;

    if (s->next && s->next_row <= s->n_out) {
        hr__marker_drop(s->base);
        s->base = s->next;
        s->base_row = s->next_row;
        s->next = NULL;
    }
    if (s->base && !hr__marker_copy(s->base, &m, NULL))
        hr__task_pass_int(task, m, "skip", s->n_out - s->base_row);
}

static hr_status whole_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    whole_state *s = NULL;
    hr_status st = state_of(task, &s, err);

    (void)op;
    if (st || s->next) { /* the first one after row n_out is the first to be of use */
        hr__marker_drop(takes);
        return st;
    }
    s->next = takes;
    s->next_row = s->n_in;
    return HR_OK;
}

static hr_status whole_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    whole_state *s = NULL;
    int64_t skip = -1;

    (void)op;
    if (!hr__state_int(state, "skip", &skip) || skip < 0)
        return hr_error_set(err, HR_INVALID, "groups: '%s' is not a position", state);
    HR_TRY(state_of(task, &s, err));
    s->skip = s->n_out = skip;
    return HR_OK;
}

static hr_status emit(whole_state *s, hr_task *task, bool last, hr_error *err)
{
    for (;;) {
        hr_batch_place *batches = NULL;
        hr_table *t = NULL;
        int64_t n;

        HR_TRY(hr__groups_next(s->groups, last, 0, &t, &batches, &n, err));
        hr__free(batches);
        if (!t)
            return HR_OK;
        pass(s, task);
        s->n_out += t->n_rows;
        HR_TRY(hr__task_emit(task, &t, err));
    }
}

static hr_status whole_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const whole_op *w = (const whole_op *)op;
    whole_state *s = NULL;
    hr_table *rest = NULL;
    int64_t skip;
    hr_status st;

    HR_TRY(state_of(task, &s, err));
    if (!s->groups)
        HR_TRY(hr__groups_new((const char *const *)w->keys, w->n_keys, TABLE_ROWS,
                              hr__table_bytes_wanted(hr__account_limit(hr__task_run(task)->account)), TABLE_GROUPS,
                              hr__task_run(task)->account, &s->groups, err));
    skip = HR_MIN(s->skip, in->n_rows);
    s->skip -= skip;
    s->n_in += in->n_rows;
    if (skip == in->n_rows)
        return HR_OK;
    HR_TRY(hr_table_slice(in, skip, in->n_rows - skip, &rest, err));
    st = hr__groups_add(s->groups, rest, err);
    hr_table_unref(rest);
    return st ? st : emit(s, task, false, err);
}

static hr_status whole_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    whole_state *s = *hr__task_state(task);

    (void)op;
    return s && s->groups ? emit(s, task, true, err) : HR_OK;
}

static void whole_task_clear(const hr_op *op, hr_task *task)
{
    whole_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    hr__groups_free(s->groups);
    hr__marker_drop(s->base);
    hr__marker_drop(s->next);
    hr__free(s);
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
    .marker = whole_marker,
    .restore = whole_restore,
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
