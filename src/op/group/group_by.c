/* group_by.c - rows with equal keys become one row, with aggregates of their values.
 *
 * 1. The front turns each chunk of CHUNK_ROWS source rows into a partial result (fold.h), a row per group of the chunk,
 *    in parallel. Coordinates and the bytes of rows determine the chunks, so sums of floats do not depend on threads or
 *    on cuts of tables.
 * 2. The operator merges partial results in canonical order as long as the groups are few.
 * 3. When the groups are many it divides partial results by the hash of their keys into PARTS partitions instead; from
 *    then on the fronts order rows by partition. Partitions spill (partition_store.h); the groups merged so far go
 *    first. Each partition is a block part, merged when it is read. A partition that does not fit is divided again, by
 *    other bits of the hash.
 *
 * The order of groups is unspecified; a sort downstream gives one. Without keys there is one group, and one output row
 * even if no row came.
 *
 * Tests: test_aggregate_own.c, test_keyed.c. */
#include "op/group/fold.h"
#include "op/call.h"
#include "op/store/partition_store.h"

#include <inttypes.h>

#define CHUNK_ROWS 65536
#define CHUNK_BYTES (16 << 20) /* ends chunks of long keys and values, of which CHUNK_ROWS could take gigabytes */
#define PARTS 256
#define FEW_GROUPS 16384
#define SUB_PARTS 16
#define MAX_DEPTH 4

typedef struct group_op {
    hr_op base;
    int n_keys, n_aggs;
    char **keys;
    hr_agg *aggs;
    hr_schema *schema; /* of the input, if known */
} group_op;

/* State of the run, shared by the operator and its front. */
typedef struct group_run {
    hr_mutex lock; /* guards the creation of `grouping` */
    hr_grouping *grouping;
    atomic_bool partitioned;
    hr_fold *fold;
    hr_spill_file *spill;
    hr_partition_store *store;
} group_run;

static hr_status group_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const group_op *o = (const group_op *)op;
    hr_grouping *g = NULL;

    HR_TRY(hr__grouping_new(in, (const char *const *)o->keys, o->n_keys, o->aggs, o->n_aggs, &g, err));
    *out = hr__schema_ref(g->out);
    hr__grouping_free(g);
    return HR_OK;
}

static hr_status group_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const group_op *o = (const group_op *)op;
    bool all = false;

    (void)input;
    (void)wanted;
    (void)n;
    for (int k = 0; k < o->n_keys; k++)
        HR_TRY(hr__needs_add(out, o->keys[k], err));
    for (int a = 0; a < o->n_aggs; a++)
        if (!o->aggs[a].column && o->aggs[a].own)
            all = true; /* the aggregate sees whole rows */
        else if (o->aggs[a].column)
            HR_TRY(hr__needs_add(out, o->aggs[a].column, err));
    for (int a = 0; a < o->n_aggs; a++)
        if (o->aggs[a].cls->pairs && o->aggs[a].options.by)
            HR_TRY(hr__needs_add(out, o->aggs[a].options.by, err));
    out->n = all ? -1 : out->n;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the run */

static hr_status group_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    group_run *g = hr__zalloc(run->account, sizeof *g);

    (void)op;
    if (!g)
        return hr__error_memory(err, "group", sizeof *g);
    hr__mutex_init(&g->lock);
    run->state = g;
    return HR_OK;
}

static void group_stop(const hr_op *op, hr_op_run *run)
{
    group_run *g = run->state;

    (void)op;
    if (!g)
        return;
    hr__fold_free(g->fold);
    hr__partition_store_free(g->store);
    hr__spill_file_unref(g->spill);
    hr__grouping_free(g->grouping);
    hr__mutex_clear(&g->lock);
    hr__free(g);
}

/* The grouping, made for the schema of the first table. */
static hr_status grouping_of(const group_op *o, group_run *g, hr_schema *in, const hr_grouping **out, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&g->lock);
    if (!g->grouping)
        HR_GO(hr__grouping_new(in, (const char *const *)o->keys, o->n_keys, o->aggs, o->n_aggs, &g->grouping, err));
    HR_GO(hr__same_schema(in, g->grouping->in, "", err));
    *out = g->grouping;
done:
    hr__unlock(&g->lock);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- partitions */

/* A divided partial result: a last column has the partition of each row. */
static hr_status with_parts(const hr_table *t, const int64_t *begins, const hr_mem *mem, hr_table **out, hr_error *err)
{
    hr_type *type = hr__type_simple(HR_T_UINT8);
    hr_buffer *buffers[3] = { 0 };
    hr_schema *schema = NULL;
    hr_array *column = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__schema_append(t->schema, "part", type, false, &schema, err));
    HR_GO(hr__buffer_new(mem, t->n_rows, &buffers[1], err));
    for (int p = 0; p < PARTS; p++)
        memset(buffers[1]->data + begins[p], p, (size_t)(begins[p + 1] - begins[p]));
    HR_GO(hr__array_new(type, t->n_rows, 0, buffers, NULL, 0, &column, err));
    st = hr__table_append(t, schema, column, NULL, out, err);
done:
    hr__schema_unref(schema);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ front */

static void front_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr__batch_cutter_free(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

typedef struct front_op {
    hr_op base;
    const group_op *of; /* counted */
} front_op;

/* Emits a partial result, divided if `partitioned`. Takes it. */
static hr_status emit_partial(hr_task *task, hr_coord at, hr_table *takes, const uint64_t *hashes, hr_error *err)
{
    group_run *g = hr__task_run(task)->partner->state;
    hr_table *divided = NULL, *parts = NULL, *out = NULL;
    hr_origin *origin = NULL;
    int64_t begins[PARTS + 1];
    hr_status st = HR_OK;

    HR_GO(hr__origin_made(at, takes->n_rows, &origin, err));
    if (atomic_load_explicit(&g->partitioned, memory_order_relaxed)) {
        HR_GO(hr__partition_rows(takes, hashes, 56, PARTS, hr__task_mem(task), begins, &divided, err));
        HR_GO(with_parts(divided, begins, hr__task_mem(task), &parts, err));
    }
    HR_GO(hr__table_with_origin(parts ? parts : takes, origin, &out, err));
    st = hr__task_emit(task, &out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(takes);
    hr_table_unref(divided);
    hr_table_unref(parts);
    return st;
}

/* Emits the partial results of all complete chunks. */
static hr_status front_flush(const hr_op *op, hr_task *task, hr_batch_cutter *cutter, bool last, hr_error *err)
{
    const group_op *o = ((const front_op *)op)->of;
    group_run *run = hr__task_run(task)->partner->state;
    const hr_grouping *g = NULL;
    hr_table *rows = NULL, *partial = NULL;
    uint64_t *hashes = NULL;
    hr_status st = HR_OK;

    for (;;) {
        int64_t ordinal;
        hr_coord at;

        HR_GO(hr__batch_cutter_next(cutter, last, &rows, &ordinal, err));
        if (!rows)
            return HR_OK;
        at = hr__origin_at(rows->origin, 0);
        at.row -= at.row % CHUNK_ROWS;
        HR_GO(grouping_of(o, run, rows->schema, &g, err));
        HR_GO(hr__grouping_partial(g, rows, hr__task_mem(task), &partial, &hashes, err));
        hr_table_unref(rows);
        rows = NULL;
        HR_GO(emit_partial(task, at, partial, hashes, err));
        hr__free(hashes);
        hashes = NULL;
    }
done:
    hr_table_unref(rows);
    hr__free(hashes);
    return st;
}

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    group_run *run = hr__task_run(task)->partner->state;
    hr_batch_cutter **cutter = (hr_batch_cutter **)hr__task_state(task);
    const hr_grouping *g = NULL;

    if (!*cutter)
        HR_TRY(hr__batch_cutter_new(CHUNK_ROWS, CHUNK_BYTES, hr__task_mem(task), cutter, err));
    HR_TRY(grouping_of(((const front_op *)op)->of, run, in->schema, &g, err));
    HR_TRY(hr__batch_cutter_add(*cutter, in, err));
    return front_flush(op, task, *cutter, false, err);
}

static hr_status front_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_batch_cutter *cutter = *hr__task_state(task);

    return cutter ? front_flush(op, task, cutter, true, err) : HR_OK;
}

static void front_free(hr_op *op)
{
    hr__op_unref((hr_op *)((front_op *)op)->of);
    hr__free(op);
}

static const hr_op_class front_class = { .name = "group by chunk",
                                         .doc = "partial results of chunks of rows",
                                         .kind = HR_OP_MAP,
                                         .push = front_push,
                                         .finish = front_finish,
                                         .task_clear = front_clear,
                                         .free = front_free };

static hr_status group_front(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err)
{
    front_op *f = hr__zalloc(NULL, sizeof *f);

    (void)input;
    (void)first_input;
    if (!f)
        return hr__error_memory(err, "group", sizeof *f);
    hr__op_init(&f->base, &front_class);
    f->base.block_rows = CHUNK_ROWS;
    f->of = (const group_op *)hr__op_ref((hr_op *)op);
    *out = &f->base;
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------- partial results come */

/* Divides a partial result and adds it to the store. */
static hr_status partition_into_store(group_run *g, const hr_table *partial, hr_account *account, hr_error *err)
{
    const hr_mem mem = { .account = account };
    hr_table *divided = NULL;
    uint64_t *hashes = NULL;
    int64_t begins[PARTS + 1];
    hr_status st = HR_OK;

    HR_GO(hr__grouping_hashes(g->grouping, partial, account, &hashes, err));
    HR_GO(hr__partition_rows(partial, hashes, 56, PARTS, &mem, begins, &divided, err));
    st = hr__partition_store_add_slices(g->store, divided, begins, PARTS, err);
done:
    hr__free(hashes);
    hr_table_unref(divided);
    return st;
}

/* Changes to partitions; the groups merged so far go first. */
static hr_status begin_partitions(group_run *g, hr_op_run *run, hr_error *err)
{
    const hr_mem mem = { .account = run->account };
    hr_table *so_far = NULL;
    hr_status st = HR_OK;

    atomic_store(&g->partitioned, true);
    HR_GO(hr__spill_file_new(NULL, "group", run->account, &g->spill, err));
    HR_GO(hr__partition_store_new(PARTS, g->grouping->partial, g->spill, run->account, &g->store, err));
    if (g->fold && hr__fold_n(g->fold)) {
        HR_GO(hr__fold_partial(g->fold, &mem, &so_far, err));
        HR_GO(partition_into_store(g, so_far, run->account, err));
    }
    hr__fold_free(g->fold);
    g->fold = NULL;
done:
    hr_table_unref(so_far);
    return st;
}

/* Adds a divided partial result to the store. */
static hr_status store_partitioned(group_run *g, const hr_table *in, hr_error *err)
{
    int n = g->grouping->partial->n;
    const uint8_t *parts = hr__array_values(in->columns[n]);
    int64_t begins[PARTS + 1], row = 0;
    hr_table *t = NULL;
    hr_status st;

    HR_TRY(hr__table_first(in, g->grouping->partial, &t, err));
    for (int p = 0; p < PARTS; p++) {
        begins[p] = row;
        while (row < in->n_rows && parts[row] == p)
            row++;
    }
    begins[PARTS] = row;
    st = hr__partition_store_add_slices(g->store, t, begins, PARTS, err);
    hr_table_unref(t);
    return st;
}

static bool too_much(const hr_fold *f, const hr_op_run *run)
{
    return hr__fold_n(f) > FEW_GROUPS || hr__fold_bytes(f) > hr__op_allowance(run) / 4;
}

static hr_status group_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const group_op *o = (const group_op *)op;
    hr_op_run *run = hr__task_run(task);
    group_run *g = run->state;
    bool divided = in->schema->n > g->grouping->partial->n;

    if (!atomic_load(&g->partitioned)) {
        if (!g->fold)
            HR_TRY(hr__fold_new(g->grouping, run->account, &g->fold, err));
        HR_TRY(hr__fold_add(g->fold, in, err));
        if (o->n_keys && too_much(g->fold, run))
            return begin_partitions(g, run, err);
        if (hr__fold_bytes(g->fold) > hr__account_limit(run->account))
            return hr_error_set(err, HR_BUDGET,
                                "the values of a group take %" PRId64 " bytes; the memory limit is %" PRId64,
                                hr__fold_bytes(g->fold), hr__account_limit(run->account));
        return HR_OK;
    }
    if (divided)
        HR_TRY(store_partitioned(g, in, err));
    else
        HR_TRY(partition_into_store(g, in, run->account, err));
    if (hr__partition_store_held(g->store) > hr__op_allowance(run))
        return hr__partition_store_spill(g->store, 0, err); /* all: their tables share memory */
    return HR_OK;
}

/* Adds a column of numbers to fields[0 .. *n), unless it is there. */
static void assume(const char *column, hr_field *fields, int *n)
{
    for (int i = 0; i < *n; i++)
        if (!strcmp(fields[i].name, column))
            return;
    fields[(*n)++] = (hr_field){ .name = (char *)(uintptr_t)column, /* borrowed: hr__schema_new copies */
                                 .type = hr__type_simple(HR_T_INT64),
                                 .nullable = true };
}

/* The schema of an unknown input without rows: the aggregated columns as numbers; each function gives its result for no
 * rows. *out is new. */
static hr_status assumed_schema(const group_op *o, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)o->n_aggs * 2 + 1) * sizeof *fields);
    hr_status st;
    int n = 0;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "group", o->n_aggs * (int64_t)sizeof *fields);
    for (int a = 0; a < o->n_aggs; a++) {
        if (o->aggs[a].column)
            assume(o->aggs[a].column, fields, &n);
        if (o->aggs[a].options.by)
            assume(o->aggs[a].options.by, fields, &n);
    }
    st = hr__schema_new(fields, n, out, err);
    hr__free(fields);
    return st;
}

/* Prepares the one row of a group-by without keys and without input rows. */
static hr_status begin_empty(const group_op *o, group_run *g, hr_op_run *run, hr_error *err)
{
    const hr_grouping *grouping;
    hr_schema *schema = o->schema ? hr__schema_ref(o->schema) : NULL;
    hr_status st = HR_OK;

    if (!schema)
        HR_TRY(assumed_schema(o, &schema, err));
    st = grouping_of(o, g, schema, &grouping, err);
    hr__schema_unref(schema);
    return st ? st : hr__fold_new(g->grouping, run->account, &g->fold, err);
}

/* Emits few groups as one table; without keys and rows, one row. */
static hr_status group_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const group_op *o = (const group_op *)op;
    hr_op_run *run = hr__task_run(task);
    group_run *g = run->state;
    hr_table *all = NULL, *out = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    if (atomic_load(&g->partitioned) || (!g->fold && o->n_keys))
        return HR_OK;
    if (!g->fold)
        HR_TRY(begin_empty(o, g, run, err));
    HR_GO(hr__fold_result(g->fold, hr__task_mem(task), &all, err));
    HR_GO(hr__origin_new(&(hr_run_coords){ .n = all->n_rows }, 1, &origin, err));
    HR_GO(hr__table_with_origin(all, origin, &out, err));
    hr__fold_free(g->fold);
    g->fold = NULL;
    st = hr__task_emit(task, &out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(all);
    return st;
}

/* ---------------------------------------------------------------------------------------------------- block parts */

static hr_status group_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    group_run *g = hr__task_run(task)->state;

    (void)op;
    (void)err;
    *n = atomic_load(&g->partitioned) ? PARTS : 0;
    return HR_OK;
}

/* A stack of partitions to read: smaller partitions replace one that is too large. */
typedef struct level {
    hr_partition_store *store; /* owned, except the first */
    int part, n_parts;
    int shift; /* bits of the hash that divide its partitions again */
} level;
typedef struct group_reader {
    hr_reader base;
    group_run *run;
    hr_account *account;
    hr_mem mem;
    int64_t most; /* most bytes of one fold */
    int n_levels;
    level levels[MAX_DEPTH];
} group_reader;

static void group_close(hr_reader *r)
{
    group_reader *g = (group_reader *)r;

    for (int i = 1; i < g->n_levels; i++)
        hr__partition_store_free(g->levels[i].store);
    hr__free(g);
}

static int64_t part_bytes(const level *l)
{
    hr_partition_store_size s = hr__partition_store_size(l->store, l->part);

    return s.memory_bytes + s.disk_bytes;
}

/* Divides the partition at the top of the stack by other bits. */
static hr_status partition_again(group_reader *g, hr_error *err)
{
    level *top = &g->levels[g->n_levels - 1], *sub = top + 1;
    hr_partition_store_cursor c = { .store = top->store, .part = top->part, .drain = true };
    const hr_mem mem = { .account = g->account };
    int64_t begins[SUB_PARTS + 1];
    hr_table *t = NULL, *divided = NULL;
    uint64_t *hashes = NULL;
    hr_status st = HR_OK;

    *sub = (level){ .n_parts = SUB_PARTS, .shift = top->shift - 4 };
    HR_TRY(hr__partition_store_new(SUB_PARTS, g->run->grouping->partial, g->run->spill, g->account, &sub->store, err));
    g->n_levels++;
    do {
        HR_GO(hr__partition_store_next(&c, &mem, &t, err));
        if (!t)
            break;
        HR_GO(hr__grouping_hashes(g->run->grouping, t, g->account, &hashes, err));
        HR_GO(hr__partition_rows(t, hashes, top->shift, SUB_PARTS, &mem, begins, &divided, err));
        HR_GO(hr__partition_store_add_slices(sub->store, divided, begins, SUB_PARTS, err));
        if (hr__partition_store_held(sub->store) > g->most)
            HR_GO(hr__partition_store_spill(sub->store, 0, err));
        hr_table_unref(t);
        hr_table_unref(divided);
        hr__free(hashes);
        t = divided = NULL;
        hashes = NULL;
    } while (true);
done:
    hr_table_unref(t);
    hr_table_unref(divided);
    hr__free(hashes);
    return st;
}

/* Merges the partition at the top of the stack. */
static hr_status fold_part(group_reader *g, hr_table **out, hr_error *err)
{
    level *top = &g->levels[g->n_levels - 1];
    hr_partition_store_cursor c = { .store = top->store, .part = top->part, .drain = true };
    const hr_mem mem = { .account = g->account };
    hr_origin *origin = NULL;
    hr_table *t = NULL, *all = NULL;
    hr_fold *fold = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__fold_new(g->run->grouping, g->account, &fold, err));
    do {
        hr_table_unref(t);
        HR_GO(hr__partition_store_next(&c, &mem, &t, err));
        if (t)
            HR_GO(hr__fold_add(fold, t, err));
    } while (t);
    if (!hr__fold_n(fold))
        goto done;
    HR_GO(hr__fold_result(fold, &g->mem, &all, err));
    HR_GO(hr__origin_new(&(hr_run_coords){ .n = all->n_rows }, 1, &origin, err));
    st = hr__table_with_origin(all, origin, out, err);
done:
    hr_table_unref(t);
    hr_table_unref(all);
    hr__origin_unref(origin);
    hr__fold_free(fold);
    return st;
}

static hr_status group_next(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    group_reader *g = (group_reader *)r;

    (void)max_bytes;
    *out = NULL;
    while (g->n_levels && !*out) {
        level *top = &g->levels[g->n_levels - 1];

        if (top->part >= top->n_parts) {
            if (--g->n_levels)
                hr__partition_store_free(top->store);
            if (g->n_levels)
                g->levels[g->n_levels - 1].part++;
            continue;
        }
        if (part_bytes(top) > g->most && g->n_levels < MAX_DEPTH) {
            HR_TRY(partition_again(g, err));
            continue;
        }
        HR_TRY(fold_part(g, out, err));
        top->part++;
    }
    return HR_OK;
}

static const hr_reader_class group_reading = { .next = group_next, .close = group_close };

static hr_status group_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                            int64_t *estimate, hr_error *err)
{
    group_run *g = run->state;
    group_reader *r = hr__zalloc(run->account, sizeof *r);

    (void)op;
    if (!r)
        return hr__error_memory(err, "group", sizeof *r);
    r->base.cls = &group_reading;
    r->run = g;
    r->account = run->account;
    r->mem = *mem;
    r->most = hr__op_allowance(run) / 4;
    r->n_levels = 1;
    r->levels[0] = (level){ .store = g->store, .part = (int)block_part, .n_parts = (int)block_part + 1, .shift = 44 };
    *estimate = HR_MAX(*estimate, HR_MIN(part_bytes(&r->levels[0]), r->most) * 3);
    *out = &r->base;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static void group_describe(const hr_op *op, hr_text *out)
{
    const group_op *o = (const group_op *)op;

    hr__text_add(out, "group(");
    for (int k = 0; k < o->n_keys; k++)
        hr__text_add(out, "%s%s", k ? ", " : "", o->keys[k]);
    hr__text_add(out, "%s", o->n_keys ? ": " : "");
    for (int a = 0; a < o->n_aggs; a++) {
        hr__text_add(out, "%s", a ? ", " : "");
        hr__agg_describe(&o->aggs[a], out);
    }
    hr__text_add(out, ")");
}

static void group_fingerprint(const hr_op *op, hr_hash *h)
{
    const group_op *o = (const group_op *)op;

    hr__hash_int(h, o->n_keys);
    for (int k = 0; k < o->n_keys; k++)
        hr__hash_text(h, o->keys[k]);
    for (int a = 0; a < o->n_aggs; a++)
        hr__agg_fingerprint(&o->aggs[a], h);
}

static void group_free(hr_op *op)
{
    group_op *o = (group_op *)op;

    for (int k = 0; o->keys && k < o->n_keys; k++)
        hr__free(o->keys[k]);
    for (int a = 0; o->aggs && a < o->n_aggs; a++)
        hr__agg_clear(&o->aggs[a]);
    hr__free(o->keys);
    hr__free(o->aggs);
    hr__schema_unref(o->schema);
    hr__free(o);
}

static const hr_op_class group_class = { .name = "group",
                                         .doc = "one row for all rows with equal keys, with aggregates of their values",
                                         .kind = HR_OP_BLOCK,
                                         .schema = group_schema,
                                         .needs = group_needs,
                                         .front = group_front,
                                         .start = group_start,
                                         .stop = group_stop,
                                         .push = group_push,
                                         .finish = group_finish,
                                         .block_parts = group_block_parts,
                                         .read = group_read,
                                         .describe = group_describe,
                                         .fingerprint = group_fingerprint,
                                         .free = group_free };

void hr__aggregates_drop(const hr_aggregate *aggs, int begin, int n)
{
    for (int a = begin; a < n; a++)
        if (aggs[a].own && aggs[a].own->context_free)
            aggs[a].own->context_free(aggs[a].own->context);
}

hr_status hr__op_group(const hr_schema *schema, const char *const *keys, int n_keys, const hr_aggregate *aggs,
                       int n_aggs, hr_op **out, hr_error *err)
{
    group_op *o = hr__zalloc(NULL, sizeof *o);
    hr_status st = HR_OK;

    *out = NULL;
    if (!o)
        HR_GO(hr__error_memory(err, "group", sizeof *o));
    hr__op_init(&o->base, &group_class);
    o->base.block_rows = CHUNK_ROWS;
    o->keys = hr__zalloc(NULL, ((size_t)n_keys + 1) * sizeof *o->keys);
    o->aggs = hr__zalloc(NULL, ((size_t)n_aggs + 1) * sizeof *o->aggs);
    if (!o->keys || !o->aggs)
        HR_GO(hr__error_memory(err, "group", n_aggs * (int64_t)sizeof *o->aggs));
    if (!n_keys && !n_aggs)
        HR_FAIL(HR_INVALID, "group: no keys and no aggregates");
    for (; o->n_keys < n_keys; o->n_keys++)
        if (!(o->keys[o->n_keys] = hr__strdup(NULL, keys[o->n_keys])))
            HR_GO(hr__error_memory(err, "group", 64));
    for (; o->n_aggs < n_aggs; o->n_aggs++) {
        HR_GO(hr__agg_init(&o->aggs[o->n_aggs], &aggs[o->n_aggs], err));
        o->base.calls = o->base.calls || aggs[o->n_aggs].own;
    }
    o->schema = schema ? hr__schema_ref((hr_schema *)schema) : NULL;
    *out = &o->base;
    o = NULL;
done:
    if (st)
        hr__aggregates_drop(aggs, o ? o->n_aggs : 0, n_aggs);
    if (o)
        group_free(&o->base);
    return st;
}
