/* gather_rows.c - copies tables to contiguous memory of their own, for consumers that write into batches or read them
 * in another process.
 *
 * The output of a rebatch or a gather is often such a table already (`sole`). It passes unchanged if it lies in the
 * right memory: in the run's arena, when another process reads it. */
#include "op/operators.h"
#include "share/exchange_arena.h"

/* -------------------------------------------------------------------------------------------------- the operator */

static hr_status gather_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_mem *mem = hr__task_mem(task);
    hr_table *one = (hr_table *)in;
    hr_status st = HR_OK;
    hr_table *out = NULL;

    (void)op;
    if (in->sole && (!mem->arena || hr__table_in_arena(in, mem->arena)))
        out = hr_table_ref(one);
    else
        HR_GO(hr__table_concat(mem, in->schema, &one, 1, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    return st;
}

static const hr_op_class gather_class = {
    .name = "gather",
    .doc = "tables in contiguous memory of their own",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .schema = hr__kept_schema,
    .push = gather_push,
    .free = hr__op_plain_free,
};

hr_status hr__op_gather(hr_op **out, hr_error *err) { return hr__op_plain(&gather_class, out, err); }
