/* join_mode_right.c - a join that holds its right side by key.
 *
 * The right side comes first. The join holds its tables; when the side has ended, they become a table of keys
 * (join_table.c). The left side streams: the front looks up its rows in parallel, and the operator numbers the output
 * rows and emits them at once. Right rows without a partner come as block parts at the end. If the right side does not
 * fit, the mode becomes partitioned.
 *
 * Tests: test_keyed.c. */
#include "op/join/join_modes.h"

/* ------------------------------------------------------------------------------------------------------------ front */

typedef struct front_state {
    hr_table *left;
    hr_join_walk walk;
} front_state;

static void front_clear(const hr_op *op, hr_task *task)
{
    front_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    hr__join_walk_end(&s->walk);
    hr_table_unref(s->left);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* Emits the next output rows of the current table; resumes for the rest. */
static hr_status front_more(const hr_op *op, hr_task *task, hr_error *err)
{
    front_state *s = *hr__task_state(task);
    hr_join_run *j = hr__task_run(task)->partner->state;
    hr_origin *origin = NULL;
    hr_table *found = NULL, *out = NULL;
    hr_status st = HR_OK;

    (void)op;
    HR_GO(hr__join_walk_next(&s->walk, j->bound, j->table, hr__task_mem(task), &found, NULL, err));
    if (!found) {
        hr__join_walk_end(&s->walk);
        hr_table_unref(s->left);
        s->left = NULL;
        return HR_OK;
    }
    HR_GO(hr__origin_new(&(hr_run_coords){ .n = found->n_rows }, 1, &origin, err));
    HR_GO(hr__table_with_origin(found, origin, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
    hr__task_more(task);
done:
    hr__origin_unref(origin);
    hr_table_unref(found);
    return st;
}

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_join_run *j = hr__task_run(task)->partner->state;
    void **slot = hr__task_state(task);
    const hr_join_bound *bound = NULL;
    hr_table *same = NULL;
    front_state *s;

    HR_TRY(hr__join_bound_of(((const hr_join_front *)op)->of, j, in->schema, &bound, err));
    if (!j->table) { /* partitioned: the operator divides the rows, in order */
        same = hr_table_ref((hr_table *)in);
        return hr__task_emit(task, &same, err);
    }
    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof *s)))
        return hr__error_memory(err, "join", sizeof *s);
    s = *slot;
    s->left = hr_table_ref((hr_table *)in);
    HR_TRY(hr__join_walk_begin(&s->walk, bound, j->table, s->left, err));
    return front_more(op, task, err);
}

const hr_op_class hr__join_left_front = { .name = "join, left side",
                                          .doc = "looks up rows",
                                          .kind = HR_OP_MAP,
                                          .push = front_push,
                                          .more = front_more,
                                          .task_clear = front_clear,
                                          .free = hr__join_front_free };

/* ----------------------------------------------------------------------------------------------------- the operator */

/* Numbers and emits the rows that the front found. */
static hr_status emit_found(hr_join_run *j, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_origin *origin = NULL;
    hr_table *out = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__origin_new(&(hr_run_coords){ .first = { .row = j->n_out }, .n = in->n_rows }, 1, &origin, err));
    HR_GO(hr__table_with_origin(in, origin, &out, err));
    j->n_out += in->n_rows;
    st = hr__task_emit(task, &out, err);
done:
    hr__origin_unref(origin);
    return st;
}

static hr_status right_take(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, const hr_table *in,
                            hr_error *err)
{
    hr_op_run *run = hr__task_run(task);

    if (input != HR_JOIN_INPUT_RIGHT)
        return emit_found(j, task, in, err);
    HR_TRY(hr__join_settle(&j->right, in->schema, " of the right side", err));
    return hr__join_hold(o, j, input, hr__op_allowance(run), in, run, err);
}

static hr_status right_ended(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, hr_error *err)
{
    hr_schema *schema = j->right ? j->right : o->right;
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    if (input != HR_JOIN_INPUT_RIGHT)
        return HR_OK;
    if (!schema) /* otherwise the first left table gives the schema */
        return o->left ? hr__join_assume_right(o, j, o->left, err) : HR_OK;
    HR_TRY(hr__join_key_columns(schema, o->right_keys, o->n_keys, keys, err));
    HR_TRY(hr__join_held_rows(j, schema, task, &rows, err));
    if (!j->right)
        j->right = hr__schema_ref(rows->schema);
    j->n_right = rows->n_rows;
    return hr__join_table_new(keys, o->n_keys, rows, task, hr__task_run(task)->account, &j->table, err);
}

static hr_status right_block_parts(const hr_join_op *o, hr_join_run *j, hr_task *task, int64_t *n, hr_error *err)
{
    const hr_join_bound *bound = NULL;

    HR_TRY(hr__join_count_unmatched(o, j, hr__task_run(task)->account, err));
    *n = j->unmatched.n;
    return *n ? hr__join_bound_of(o, j, j->bound ? j->bound->left_in : o->left, &bound, err) : HR_OK;
}

static hr_status right_read(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                            int64_t *estimate, hr_error *err)
{
    (void)estimate;
    return hr__join_unmatched_read(j, run, block_part, mem, out, err);
}

const hr_join_mode hr__join_mode_right = { right_take, right_ended, right_block_parts, right_read };
