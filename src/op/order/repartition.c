/* repartition.c - the same rows in the same order, in n tables of equal size: block k of n is rows [k N / n, (k + 1) N
 * / n) of N. With `permuted` (a randomize_block_order downstream) the blocks come in a random order of the seed.
 *
 * N is known only at the end, so the operator keeps all rows: tables as they came and, above the allowance, chunks on
 * disk, each with the number of its first row. Reading a block concatenates the rows of its range.
 *
 * Tests: test_ordering.c. */
#include "format/spill/spill_file.h"
#include "op/operators.h"

#include <inttypes.h>

#define CHUNK_BYTES (1 << 20)

typedef struct repartition_op {
    hr_op base;
    int64_t n_blocks;
    bool permuted;
    hr_shuffle_seed seed; /* of the random order, if `permuted` */
} repartition_op;

typedef struct stretch {
    hr_table *table; /* NULL: on disk */
    hr_spilled_table place;
    int64_t first; /* number of its first row, counted over all rows */
    int64_t n;
} stretch;

typedef struct repartition_state {
    hr_spill_file *spill;
    hr_schema *schema;
    stretch *items;
    int64_t n, cap;
    int64_t in_memory; /* items from here on are in memory, those before on disk */
    int64_t held, n_rows;
    uint32_t *order; /* permuted: order[k] is the block that comes k-th; NULL: block k */
    int64_t *places; /* places[k]: number of the first row of the k-th block in the new order */
} repartition_state;

static void repartition_stop(const hr_op *op, hr_op_run *run)
{
    repartition_state *s = run->state;

    (void)op;
    for (int64_t i = 0; i < s->n; i++)
        hr_table_unref(s->items[i].table);
    hr__free(s->items);
    hr__free(s->order);
    hr__free(s->places);
    hr__spill_file_unref(s->spill);
    hr__schema_unref(s->schema);
    hr__free(s);
    run->state = NULL;
}

static hr_status repartition_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    repartition_state *s = hr__zalloc(run->account, sizeof *s);
    hr_status st;

    if (!s)
        return hr__error_memory(err, op->cls->name, sizeof *s);
    run->state = s;
    if ((st = hr__spill_file_new(NULL, op->cls->name, run->account, &s->spill, err)))
        repartition_stop(op, run);
    return st;
}

static hr_status add(repartition_state *s, hr_account *account, stretch item, hr_error *err)
{
    void *items = s->items;

    if (!hr__grow(account, &items, &s->cap, s->n + 1, sizeof *s->items))
        return hr__error_memory(err, "repartition", (s->n + 1) * (int64_t)sizeof *s->items);
    s->items = items;
    s->items[s->n++] = item;
    return HR_OK;
}

/* Replaces a table in memory by chunks on disk, in order. */
static hr_status spill_table(repartition_state *s, hr_account *account, const stretch *from, hr_error *err)
{
    int64_t n_chunks = HR_MAX(1, hr__table_bytes_used(from->table) / CHUNK_BYTES);
    int64_t step = (from->n + n_chunks - 1) / n_chunks;

    for (int64_t at = 0; at < from->n; at += step) {
        stretch item = { .first = from->first + at, .n = HR_MIN(step, from->n - at) };
        hr_table *part = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(from->table, at, item.n, &part, err));
        st = hr__spill_file_write(s->spill, part, &item.place, err);
        hr_table_unref(part);
        HR_TRY(st);
        HR_TRY(add(s, account, item, err));
    }
    return HR_OK;
}

/* Spills all tables in memory. */
static hr_status spill_all(repartition_state *s, hr_account *account, hr_error *err)
{
    int64_t from = s->in_memory, n = s->n - from;
    stretch *tables = hr__alloc(account, (size_t)n * sizeof *tables);
    hr_status st = HR_OK;

    if (!tables)
        return hr__error_memory(err, "repartition", n * (int64_t)sizeof *tables);
    memcpy(tables, s->items + from, (size_t)n * sizeof *tables);
    s->n = from;
    for (int64_t i = 0; i < n && !st; i++)
        st = spill_table(s, account, &tables[i], err);
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(tables[i].table);
    hr__free(tables);
    s->in_memory = s->n;
    s->held = 0;
    return st;
}

static hr_status repartition_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    repartition_state *s = run->state;
    stretch item = { .first = s->n_rows, .n = in->n_rows };

    (void)op;
    if (!in->n_rows)
        return HR_OK;
    if (!s->schema)
        s->schema = hr__schema_ref(in->schema);
    HR_TRY(hr__table_with_origin(in, NULL, &item.table, err));
    if (add(s, run->account, item, err)) {
        hr_table_unref(item.table);
        return err ? err->status : HR_NO_MEMORY;
    }
    s->n_rows += in->n_rows;
    s->held += hr__table_bytes_used(in);
    return s->held > hr__op_allowance(run) ? spill_all(s, run->account, err) : HR_OK;
}

/* The row at which block k begins, computed without overflow. */
static int64_t begin_of(int64_t k, int64_t n_blocks, int64_t n_rows)
{
    return n_rows / n_blocks * k + n_rows % n_blocks * k / n_blocks;
}

static hr_status permute(const repartition_op *op, const hr_op_run *run, repartition_state *s, int64_t n, hr_error *err)
{
    uint64_t epoch, seed = hr__shuffle_seed_of(&op->seed, run, &epoch);
    int64_t row = 0;

    if (n > UINT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "repartition: %" PRId64 " blocks are too many for a random order", n);
    s->order = hr__alloc(run->account, (size_t)n * sizeof *s->order);
    s->places = hr__alloc(run->account, (size_t)n * sizeof *s->places);
    if (!s->order || !s->places)
        return hr__error_memory(err, "repartition", n * (int64_t)(sizeof *s->order + sizeof *s->places));
    for (int64_t k = 0; k < n; k++)
        s->order[k] = (uint32_t)k;
    hr__random_permute(s->order, n, hr__random_bits(seed, epoch, (uint64_t)run->index, 0).lo);
    for (int64_t k = 0; k < n; k++) {
        s->places[k] = row;
        row += begin_of((int64_t)s->order[k] + 1, n, s->n_rows) - begin_of(s->order[k], n, s->n_rows);
    }
    return HR_OK;
}

static hr_status repartition_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    const repartition_op *r = (const repartition_op *)op;
    const hr_op_run *run = hr__task_run(task);
    repartition_state *s = run->state;

    *n = HR_MIN(r->n_blocks, s->n_rows); /* further blocks would have no rows */
    return r->permuted && *n ? permute(r, run, s, *n, err) : HR_OK;
}

typedef struct block_reader {
    hr_reader base;
    const repartition_state *state;
    hr_mem mem;
    int64_t begin, end; /* rows of the block; begin == end: it was given */
    int64_t first;      /* place of the first row in the output */
} block_reader;

/* The rows of the item that are in the block. *out NULL: none. */
static hr_status part_of_block(const block_reader *r, const stretch *item, hr_table **out, hr_error *err)
{
    int64_t begin = HR_MAX(r->begin, item->first), end = HR_MIN(r->end, item->first + item->n);
    hr_table *t = hr_table_ref(item->table);
    hr_status st = HR_OK;

    *out = NULL;
    if (begin < end && !t)
        st = hr__spill_file_read(r->state->spill, &item->place, &r->mem, r->state->schema, &t, err);
    if (!st && begin < end)
        st = hr_table_slice(t, begin - item->first, end - begin, out, err);
    hr_table_unref(t);
    return st;
}

static hr_status block_next(hr_reader *reader, int64_t max_bytes, hr_table **out, hr_error *err)
{
    block_reader *r = (block_reader *)reader;
    const repartition_state *s = r->state;
    hr_run_coords at = { .first = { .row = r->first }, .n = r->end - r->begin };
    int64_t lo = 0, hi = s->n;
    hr_table **parts = NULL, *all = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;
    int n_parts = 0;

    (void)max_bytes;
    *out = NULL;
    if (r->begin >= r->end)
        return HR_OK;
    while (lo < hi) { /* the first item that ends after the block begins */
        int64_t middle = lo + (hi - lo) / 2;

        if (s->items[middle].first + s->items[middle].n <= r->begin)
            lo = middle + 1;
        else
            hi = middle;
    }
    for (hi = lo; hi < s->n && s->items[hi].first < r->end;)
        hi++;
    if (!(parts = hr__zalloc(r->mem.account, (size_t)(hi - lo + 1) * sizeof(hr_table *))))
        return hr__error_memory(err, "repartition", (hi - lo) * (int64_t)sizeof(hr_table *));
    for (; lo < hi; lo++, n_parts++)
        HR_GO(part_of_block(r, &s->items[lo], &parts[n_parts], err));
    if (n_parts == 1)
        all = hr_table_ref(parts[0]);
    else
        HR_GO(hr__table_concat(&r->mem, s->schema, parts, n_parts, &all, err));
    HR_GO(hr__origin_new(&at, 1, &origin, err));
    HR_GO(hr__table_with_origin(all, origin, out, err));
    r->begin = r->end;
done:
    for (int i = 0; i < n_parts; i++)
        hr_table_unref(parts[i]);
    hr__free(parts);
    hr_table_unref(all);
    hr__origin_unref(origin);
    return st;
}

static void block_close(hr_reader *r) { hr__free(r); }

static const hr_reader_class block_class = { .next = block_next, .close = block_close };

static hr_status repartition_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem,
                                  hr_reader **out, int64_t *estimate, hr_error *err)
{
    const repartition_state *s = run->state;
    int64_t n_blocks = HR_MIN(((const repartition_op *)op)->n_blocks, s->n_rows), n_bytes = 0, block;
    block_reader *r = hr__zalloc(mem->account, sizeof *r);

    if (!r)
        return hr__error_memory(err, "repartition", sizeof *r);
    for (int64_t i = 0; i < s->n; i++)
        n_bytes += s->items[i].table ? hr__table_bytes_used(s->items[i].table) : s->items[i].place.memory_bytes;
    r->base.cls = &block_class;
    r->state = s;
    r->mem = *mem;
    block = s->order ? s->order[block_part] : block_part;
    r->begin = begin_of(block, n_blocks, s->n_rows);
    r->end = begin_of(block + 1, n_blocks, s->n_rows);
    r->first = s->order ? s->places[block_part] : r->begin;
    *estimate = 2 * (n_bytes / n_blocks) + CHUNK_BYTES;
    *out = &r->base;
    return HR_OK;
}

static void repartition_describe(const hr_op *op, hr_text *out)
{
    const repartition_op *r = (const repartition_op *)op;

    hr__text_add(out, "repartition(%lld)%s", (long long)r->n_blocks, r->permuted ? ", in random order" : "");
}

static void repartition_fingerprint(const hr_op *op, hr_hash *h)
{
    const repartition_op *r = (const repartition_op *)op;

    hr__hash_int(h, r->n_blocks);
    if (r->permuted)
        hr__shuffle_fingerprint(&r->seed, h);
}

static void repartition_free(hr_op *op) { hr__free(op); }

static hr_status repartition_permuted(const hr_op *op, const hr_shuffle_seed *seed, hr_op **out, hr_error *err)
{
    HR_TRY(hr__op_repartition(((const repartition_op *)op)->n_blocks, out, err));
    ((repartition_op *)*out)->permuted = true;
    ((repartition_op *)*out)->seed = *seed;
    return HR_OK;
}

static const hr_op_class repartition_class = {
    .name = "repartition",
    .doc = "the same rows in n tables of equal size",
    .kind = HR_OP_BLOCK,
    .numbered = true,
    .same_rows = true,
    .filter_upstream = false, /* the block sizes count all rows */
    .schema = hr__kept_schema,
    .needs = hr__same_needs,
    .permuted = repartition_permuted,
    .start = repartition_start,
    .stop = repartition_stop,
    .push = repartition_push,
    .block_parts = repartition_block_parts,
    .read = repartition_read,
    .describe = repartition_describe,
    .fingerprint = repartition_fingerprint,
    .free = repartition_free,
};

hr_status hr__op_repartition(int64_t n_blocks, hr_op **out, hr_error *err)
{
    repartition_op *r;

    *out = NULL;
    if (n_blocks < 1)
        return hr_error_set(err, HR_INVALID, "repartition: %lld blocks; expected at least 1", (long long)n_blocks);
    if (!(r = hr__zalloc(NULL, sizeof *r)))
        return hr__error_memory(err, "repartition", sizeof *r);
    hr__op_init(&r->base, &repartition_class);
    r->n_blocks = n_blocks;
    r->base.makes_blocks = true;
    *out = &r->base;
    return HR_OK;
}
