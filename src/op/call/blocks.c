/* blocks.c - the same rows in tables that begin and end with blocks of the source (batch_cutter.c).
 *
 * A function's batches do not depend on how readers cut, as long as the function's ticket holds whole blocks. Tickets
 * of a scan do. Downstream of a limit or a union a ticket is one table as a reader cut it. This operator, at the end of
 * the reading stage, makes each table one block, or the rows of a block that a filter kept.
 *
 * Tests: test_run.c, test_batch_cutter.c. */
#include "op/call.h"

#include <inttypes.h>

typedef struct blocks_op {
    hr_op base;
    int64_t n_rows;
} blocks_op;

static hr_status emit_batches(hr_task *task, hr_batch_cutter *cutter, bool last, hr_error *err)
{
    for (;;) {
        hr_table *batch = NULL;
        int64_t ordinal;

        HR_TRY(hr__batch_cutter_next(cutter, last, &batch, &ordinal, err));
        if (!batch)
            return HR_OK;
        HR_TRY(hr__task_emit(task, &batch, err));
    }
}

static hr_status blocks_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_batch_cutter **cutter = (hr_batch_cutter **)hr__task_state(task);

    if (!*cutter)
        HR_TRY(hr__batch_cutter_new(((const blocks_op *)op)->n_rows, 0, hr__task_mem(task), cutter, err));
    HR_TRY(hr__batch_cutter_add(*cutter, in, err));
    return emit_batches(task, *cutter, false, err);
}

static hr_status blocks_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_batch_cutter *cutter = *hr__task_state(task);

    (void)op;
    return cutter ? emit_batches(task, cutter, true, err) : HR_OK;
}

static void blocks_task_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr__batch_cutter_free(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

static void blocks_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "blocks(%" PRId64 ")", ((const blocks_op *)op)->n_rows);
}

static void blocks_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_int(h, ((const blocks_op *)op)->n_rows); }
static void blocks_free(hr_op *op) { hr__free(op); }

static const hr_op_class blocks_class = {
    .name = "blocks",
    .doc = "the same rows in tables that do not depend on the reader",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .schema = hr__kept_schema,
    .push = blocks_push,
    .finish = blocks_finish,
    .task_clear = blocks_task_clear,
    .describe = blocks_describe,
    .fingerprint = blocks_fingerprint,
    .free = blocks_free,
};

hr_status hr__op_blocks(int64_t n_rows, hr_op **out, hr_error *err)
{
    blocks_op *b = NULL;

    *out = NULL;
    if (n_rows < 1)
        return hr_error_set(err, HR_INVALID, "blocks: %" PRId64 " rows per block; expected at least 1", n_rows);
    if (!(b = hr__alloc(NULL, sizeof *b)))
        return hr__error_memory(err, "blocks", sizeof *b);
    hr__op_init(&b->base, &blocks_class);
    b->n_rows = n_rows;
    *out = &b->base;
    return HR_OK;
}
