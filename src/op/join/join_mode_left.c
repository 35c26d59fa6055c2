/* join_mode_left.c - a join that holds its left side, the smaller one, by key.
 *
 * The left side comes first. The join holds its tables; when the side has ended, it numbers their keys (join_turned.c).
 * The front looks up the right rows in parallel; the join holds the right rows that have a partner, with the numbers of
 * their keys. When the right side has ended, all output rows come as block parts. If either side does not fit, the mode
 * becomes partitioned.
 *
 * Tests: test_keyed.c. */
#include "op/join/join_modes.h"

/* ------------------------------------------------------------------------------------------------------------ front */

/* Sets the schemas of the right tables, without and with numbers. */
static hr_status right_schemas(hr_join_run *j, hr_schema *right, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&j->lock);
    if (!j->left_first.numbered) {
        HR_GO(hr__join_schema_with_numbers(right, &j->left_first.numbered, err));
        j->right = hr__schema_ref(right);
    }
    st = hr__same_schema(right, j->right, " of the right side", err);
done:
    hr__unlock(&j->lock);
    return st;
}

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_join_op *o = ((const hr_join_front *)op)->of;
    hr_join_run *j = hr__task_run(task)->partner->state;
    hr_table *out = NULL;
    int keys[HR_MAX_KEYS];

    HR_TRY(right_schemas(j, in->schema, err));
    HR_TRY(hr__join_key_columns(in->schema, o->right_keys, o->n_keys, keys, err));
    if (j->left_first.found)
        HR_TRY(
            hr__join_turned_find(j->left_first.found, in, keys, j->left_first.numbered, hr__task_mem(task), &out, err));
    else /* partitioned: the operator divides the rows, in order */
        out = hr_table_ref((hr_table *)in);
    return out ? hr__task_emit(task, &out, err) : HR_OK;
}

const hr_op_class hr__join_right_front = { .name = "join, right side",
                                           .doc = "looks up rows",
                                           .kind = HR_OP_MAP,
                                           .push = front_push,
                                           .free = hr__join_front_free };

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status left_take(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, const hr_table *in,
                           hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    int64_t allowance = hr__op_allowance(run);

    if (input == HR_JOIN_INPUT_RIGHT)
        return hr__join_hold(o, j, input, allowance - 2 * j->left_first.n_bytes, in, run, err);
    HR_TRY(hr__join_settle(&j->left, in->schema, " of the left side", err));
    return hr__join_hold(o, j, input, allowance / 2, in, run, err);
}

static hr_status end_left(const hr_join_op *o, hr_join_run *j, hr_task *task, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    j->left_first.n_bytes = j->held.n_bytes;
    if (!j->left)
        j->left = hr__schema_ref(o->left);
    HR_TRY(hr__join_key_columns(j->left, o->left_keys, o->n_keys, keys, err));
    HR_TRY(hr__join_held_rows(j, j->left, task, &rows, err));
    return hr__join_turned_new(o->kind, keys, o->n_keys, rows, task, hr__task_run(task)->account, &j->left_first.found,
                               err);
}

static hr_status end_right(const hr_join_op *o, hr_join_run *j, hr_task *task, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];
    hr_status st = HR_OK;

    if (!j->left_first.numbered)
        HR_GO(right_schemas(j, o->right, err));
    HR_GO(hr__join_key_columns(j->right, o->right_keys, o->n_keys, keys, err));
    HR_GO(hr__join_held_rows(j, j->left_first.numbered, task, &rows, err));
    HR_GO(hr__join_turned_table(j->left_first.found, keys, o->n_keys, j->right, rows, &j->table, err));
    HR_GO(hr__join_turned_count(j->left_first.found, j->table, task, err));
    j->n_right = rows->n_rows;
    j->n_out = j->left_first.found->before[j->left_first.found->n_block_parts];
done:
    hr_table_unref(rows);
    return st;
}

static hr_status left_ended(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, hr_error *err)
{
    return input == HR_JOIN_INPUT_RIGHT ? end_right(o, j, task, err) : end_left(o, j, task, err);
}

static hr_status left_block_parts(const hr_join_op *o, hr_join_run *j, hr_task *task, int64_t *n, hr_error *err)
{
    const hr_join_bound *bound = NULL;

    HR_TRY(hr__join_count_unmatched(o, j, hr__task_run(task)->account, err));
    *n = j->left_first.found->n_block_parts + j->unmatched.n;
    return *n ? hr__join_bound_of(o, j, j->bound ? j->bound->left_in : j->left, &bound, err) : HR_OK;
}

static hr_status left_read(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                           int64_t *estimate, hr_error *err)
{
    int64_t n = j->left_first.found->n_block_parts;

    (void)estimate;
    if (block_part < n)
        return hr__join_turned_read(j->left_first.found, j->table, j->bound, block_part, mem, out, err);
    return hr__join_unmatched_read(j, run, block_part - n, mem, out, err);
}

const hr_join_mode hr__join_mode_left = { left_take, left_ended, left_block_parts, left_read };
