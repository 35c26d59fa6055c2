/* block_order.c - blocks of the source (fragments of files, tables in memory) in a random order.
 *
 * The operator itself does nothing. The plan's rules (plan/rules.c) make the scans upstream read their files, and the
 * fragments of each file, in an order that is a function of seed and epoch (exec/take.c); a repartition() upstream
 * emits its blocks in a random order. That is correct only if no operator in between looks at earlier rows: map
 * operators and unions. Downstream of any other operator (a limit, for example) sort.c holds the rows and shuffles
 * blocks; plan_order.c chooses.
 *
 * Tests: test_ordering.c, test_block_order.py. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct block_order_op {
    hr_op base;
    hr_shuffle_seed seed;
} block_order_op;

static hr_status order_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_table *same = hr_table_ref((hr_table *)in);

    (void)op;
    return hr__task_emit(task, &same, err);
}

static void order_describe(const hr_op *op, hr_text *out)
{
    const block_order_op *o = (const block_order_op *)op;

    hr__text_add(out, "randomize_block_order(");
    if (o->seed.own)
        hr__text_add(out, "seed=%" PRIu64 "%s", o->seed.seed, o->seed.once ? "" : ", each epoch its own");
    hr__text_add(out, ")");
}

static void order_fingerprint(const hr_op *op, hr_hash *h)
{
    const block_order_op *o = (const block_order_op *)op;

    hr__hash_int(h, o->seed.own);
    hr__hash_int(h, o->seed.once);
    hr__hash_int(h, (int64_t)o->seed.seed);
}

static void order_free(hr_op *op) { hr__free(op); }

static const hr_op_class block_order_class = {
    .name = "randomize_block_order",
    .doc = "blocks of the source in a random order",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .filter_upstream = true,
    .schema = hr__kept_schema,
    .needs = hr__same_needs,
    .push = order_push,
    .describe = order_describe,
    .fingerprint = order_fingerprint,
    .free = order_free,
};

hr_status hr__op_block_order(const hr_shuffle_seed *seed, hr_op **out, hr_error *err)
{
    block_order_op *o;

    *out = NULL;
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "randomize_block_order", sizeof *o);
    hr__op_init(&o->base, &block_order_class);
    o->base.idle = true;
    o->base.blocks = HR_BLOCKS_ALL;
    o->seed = o->base.blocks_seed = *seed;
    o->base.by_epoch = !seed->once;
    *out = &o->base;
    return HR_OK;
}
