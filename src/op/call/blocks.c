/* blocks.c - the same rows in tables that begin and end with blocks of the source (pieces.c).
 *
 * A function's pieces do not depend on how readers cut, as long as the function's ticket holds whole blocks. Tickets of
 * a scan do. Behind a limit or a union a ticket is one table, as some reader happened to cut it: with this operator in
 * front of those, at the end of the stage that reads, it is one block, or what a filter left of it.
 *
 * Tests: test_run.c, test_pieces.c. */
#include "op/call.h"

#include <inttypes.h>

typedef struct blocks_op {
    hr_op base;
    int64_t n_rows;
} blocks_op;

static hr_status emit_pieces(hr_task *task, hr_pieces *pieces, bool last, hr_error *err)
{
    for (;;) {
        hr_table *piece = NULL;
        int64_t ordinal;

        HR_TRY(hr__pieces_next(pieces, last, &piece, &ordinal, err));
        if (!piece)
            return HR_OK;
        HR_TRY(hr__task_emit(task, &piece, err));
    }
}

static hr_status blocks_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_pieces **pieces = (hr_pieces **)hr__task_state(task);

    if (!*pieces)
        HR_TRY(hr__pieces_new(((const blocks_op *)op)->n_rows, 0, hr__task_mem(task), pieces, err));
    HR_TRY(hr__pieces_add(*pieces, in, err));
    return emit_pieces(task, *pieces, false, err);
}

static hr_status blocks_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_pieces *pieces = *hr__task_state(task);

    (void)op;
    return pieces ? emit_pieces(task, pieces, true, err) : HR_OK;
}

static void blocks_task_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr__pieces_free(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

static void blocks_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "blocks(%" PRId64 ")", ((const blocks_op *)op)->n_rows);
}

static void blocks_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_int(h, ((const blocks_op *)op)->n_rows); }
static void blocks_free(hr_op *op) { hr__free(op); }

const hr_op_class hr__blocks = {
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
        return hr_error_set(err, HR_INVALID, "blocks: of %" PRId64 " rows", n_rows);
    if (!(b = hr__alloc(NULL, sizeof *b)))
        return hr__error_memory(err, "blocks", sizeof *b);
    hr__op_init(&b->base, &hr__blocks);
    b->n_rows = n_rows;
    *out = &b->base;
    return HR_OK;
}
