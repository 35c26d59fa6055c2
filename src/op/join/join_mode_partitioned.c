/* join_mode_partitioned.c - a join whose sides do not fit: both are divided by partition.
 *
 * hr__join_begin_partitions changes to this mode, in the middle of either side: the held rows and all later rows go to
 * HR_JOIN_PARTITIONS partitions by the hash of their keys, and spill (partition_store.h). Each partition is a block
 * part (join_partition.c). Output rows carry a last column, their `place`: the number of the left row, or n_left + the
 * number of the right row; arrange.c, directly downstream, restores the order.
 *
 * Tests: test_keyed.c. */
#include "op/join/join_modes.h"

/* Adds the rows of t, numbered from `first` on, to the partitions of a store. */
static hr_status partition_rows(hr_partition_store *store, hr_schema *partitioned, const hr_table *t, const int *keys,
                                int n_keys, int64_t first, hr_account *account, hr_error *err)
{
    const hr_mem mem = { .account = account };
    hr_buffer *places = NULL;
    hr_table *placed = NULL, *sorted = NULL;
    uint64_t *hashes = hr__alloc(account, (size_t)(t->n_rows + 1) * sizeof *hashes);
    int64_t begins[HR_JOIN_PARTITIONS + 1];
    hr_status st = HR_OK;

    if (!hashes)
        HR_GO(hr__error_memory(err, "join", t->n_rows * 8));
    hr__rows_hash(t, keys, n_keys, 0, t->n_rows, hashes);
    HR_GO(hr__buffer_new(&mem, t->n_rows * 8, &places, err));
    for (int64_t i = 0; i < t->n_rows; i++)
        ((int64_t *)places->data)[i] = first + i;
    st = hr__join_with_places(t, partitioned, places, &placed, err);
    places = NULL;
    HR_GO(st);
    HR_GO(hr__partition_rows(placed, hashes, 56, HR_JOIN_PARTITIONS, &mem, begins, &sorted, err));
    st = hr__partition_store_add_slices(store, sorted, begins, HR_JOIN_PARTITIONS, err);
done:
    hr__buffer_unref(places);
    hr_table_unref(placed);
    hr_table_unref(sorted);
    hr__free(hashes);
    return st;
}

/* The store's tables share memory: spills all or none. */
static hr_status spill_if_much(hr_partition_store *s, int64_t most, hr_error *err)
{
    return hr__partition_store_held(s) > most ? hr__partition_store_spill(s, 0, err) : HR_OK;
}

static hr_status right_store(hr_join_run *j, hr_schema *schema, hr_op_run *run, hr_error *err)
{
    if (j->partitioned.right)
        return HR_OK;
    HR_TRY(hr__join_schema_with_places(schema, -1, &j->partitioned.right_schema, err));
    return hr__partition_store_new(HR_JOIN_PARTITIONS, j->partitioned.right_schema, j->partitioned.spill, run->account,
                                   &j->partitioned.right, err);
}

static hr_status partition_right(const hr_join_op *o, hr_join_run *j, const hr_table *in, hr_op_run *run, hr_error *err)
{
    hr_table *t = NULL;
    int keys[HR_MAX_KEYS];
    hr_status st = HR_OK;

    if (j->left_first.found)
        HR_GO(hr__table_first(in, j->right, &t, err)); /* without the numbers */
    else
        t = hr_table_ref((hr_table *)in);
    HR_GO(right_store(j, j->right, run, err));
    HR_GO(hr__join_key_columns(t->schema, o->right_keys, o->n_keys, keys, err));
    HR_GO(partition_rows(j->partitioned.right, j->partitioned.right_schema, t, keys, o->n_keys, j->n_right,
                         run->account, err));
    j->n_right += t->n_rows;
    st = spill_if_much(j->partitioned.right, hr__op_allowance(run) - j->left_first.n_bytes, err);
done:
    hr_table_unref(t);
    return st;
}

static hr_status partition_left(const hr_join_op *o, hr_join_run *j, const hr_table *t, hr_op_run *run, hr_error *err)
{
    int keys[HR_MAX_KEYS];

    if (!j->partitioned.left) {
        HR_TRY(hr__join_schema_with_places(t->schema, -1, &j->partitioned.left_schema, err));
        HR_TRY(hr__partition_store_new(HR_JOIN_PARTITIONS, j->partitioned.left_schema, j->partitioned.spill,
                                       run->account, &j->partitioned.left, err));
    }
    HR_TRY(hr__join_key_columns(t->schema, o->left_keys, o->n_keys, keys, err));
    HR_TRY(partition_rows(j->partitioned.left, j->partitioned.left_schema, t, keys, o->n_keys, j->n_left, run->account,
                          err));
    j->n_left += t->n_rows;
    return spill_if_much(j->partitioned.left, hr__op_allowance(run) - j->left_first.n_bytes, err);
}

static hr_status partition(const hr_join_op *o, hr_join_run *j, int input, const hr_table *t, hr_op_run *run,
                           hr_error *err)
{
    return input == HR_JOIN_INPUT_RIGHT ? partition_right(o, j, t, run, err) : partition_left(o, j, t, run, err);
}

static hr_status partitioned_take(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, const hr_table *in,
                                  hr_error *err)
{
    /* the front checks the schema of the side that comes second */
    if (input == HR_JOIN_INPUT_RIGHT && !j->begins_left)
        HR_TRY(hr__join_settle(&j->right, in->schema, " of the right side", err));
    if (input == HR_JOIN_INPUT_LEFT && j->begins_left)
        HR_TRY(hr__join_settle(&j->left, in->schema, " of the left side", err));
    return partition(o, j, input, in, hr__task_run(task), err);
}

#define SLICE_ROWS 65536

/* The left side was held when the right side turned out not to fit. */
static hr_status partition_held_left(const hr_join_op *o, hr_join_run *j, hr_op_run *run, hr_error *err)
{
    hr_table *left = j->left_first.found->left, *some = NULL;
    hr_status st = HR_OK;

    for (int64_t i = 0; i < left->n_rows && !st; i += SLICE_ROWS) {
        HR_TRY(hr_table_slice(left, i, HR_MIN(SLICE_ROWS, left->n_rows - i), &some, err));
        st = partition_left(o, j, some, run, err);
        hr_table_unref(some);
    }
    hr__join_turned_free(j->left_first.found);
    j->left_first.found = NULL;
    j->left_first.n_bytes = 0;
    return st;
}

static hr_status partitioned_ended(const hr_join_op *o, hr_join_run *j, hr_task *task, int input, hr_error *err)
{
    if (input == HR_JOIN_INPUT_RIGHT && j->left_first.found)
        return partition_held_left(o, j, hr__task_run(task), err);
    return HR_OK;
}

static hr_status partitioned_block_parts(const hr_join_op *o, hr_join_run *j, hr_task *task, int64_t *n, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    const hr_join_bound *bound = NULL;

    *n = j->n_left || hr__join_keeps_right(o->kind) ? HR_JOIN_PARTITIONS : 0;
    if (!*n)
        return HR_OK;
    HR_TRY(hr__join_bound_of(o, j, j->bound ? j->bound->left_in : j->left ? j->left : o->left, &bound, err));
    HR_TRY(right_store(j, j->bound->right_in, run, err));
    j->partitioned.parts = (hr_join_partitions){ .bound = bound,
                                                 .left = j->partitioned.left,
                                                 .right = j->partitioned.right,
                                                 .right_schema = j->partitioned.right_schema,
                                                 .n_left = j->n_left,
                                                 .n_right = j->n_right,
                                                 .share = hr__op_allowance(run) };
    return HR_OK;
}

static hr_status partitioned_read(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem,
                                  hr_reader **out, int64_t *estimate, hr_error *err)
{
    return hr__join_partition_read(&j->partitioned.parts, (int)block_part, run->account, mem, out, estimate, err);
}

static const hr_join_mode partitioned_mode = { partitioned_take, partitioned_ended, partitioned_block_parts,
                                               partitioned_read };

hr_status hr__join_begin_partitions(const hr_join_op *o, hr_join_run *j, int input, hr_op_run *run, hr_error *err)
{
    j->mode = &partitioned_mode;
    HR_TRY(hr__spill_file_new(NULL, "join", run->account, &j->partitioned.spill, err));
    for (int64_t i = 0; i < j->held.n; i++) {
        HR_TRY(partition(o, j, input, j->held.tables[i], run, err));
        hr_table_unref(j->held.tables[i]);
        j->held.tables[i] = NULL;
    }
    hr__join_forget_held(j);
    return HR_OK;
}
