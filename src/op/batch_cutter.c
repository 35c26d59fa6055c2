/* batch_cutter.c - cuts a ticket's rows into a function's batches, within blocks of the source.
 *
 * A function sees the rows of one *block*, the rows [k*rows, (k+1)*rows) of a fragment, or those that a filter upstream
 * kept. Readers may cut tables anywhere; a function's result may depend on its batch (a mean, a random draw) but must
 * not depend on readers. So the cuts are a function of the sequence of rows alone:
 *
 * 1. A new block begins a new batch.
 * 2. Inside a block a batch ends when it has `rows` rows (one source row may have become many), or where the next row
 *    would bring it over `bytes`; both count from the batch's first row, hence from the block's.
 * 3. The bytes of a row are those of the row alone: widths, lengths, offsets, no validity bits. Their sum does not
 *    depend on cuts, unlike the memory of a table.
 *
 * A batch's ordinal is its block's number, and from bit 40 on its number in the block. */
#include "op/call.h"

#define PART_SHIFT 40

typedef struct batch {
    hr_table **parts; /* counted */
    int64_t n, cap;
    int64_t n_rows, n_bytes;
    int64_t ordinal;
} batch;

typedef struct block {
    int32_t instance, file, fragment;
    int64_t number; /* -1: none yet */
} block;

struct hr_batch_cutter {
    hr_mem mem;
    int64_t rows, bytes, most_bytes; /* most_bytes 0: no limit */
    block block;                     /* of the open batch */
    int64_t part;                    /* number of the open batch in its block */
    batch open;
    batch *ready; /* a queue: items [head, n_ready) */
    int64_t head, n_ready, cap_ready;
};

hr_status hr__batch_cutter_new(int64_t rows, int64_t bytes, const hr_mem *mem, hr_batch_cutter **out, hr_error *err)
{
    hr_batch_cutter *p = hr__zalloc(mem->account, sizeof *p);

    *out = p;
    if (!p)
        return hr__error_memory(err, "batches", sizeof *p);
    p->mem = *mem;
    p->rows = rows;
    p->bytes = bytes;
    p->block.number = -1;
    return HR_OK;
}

void hr__batch_cutter_refuse(hr_batch_cutter *p, int64_t most_bytes) { p->most_bytes = most_bytes; }

static void batch_clear(batch *p)
{
    for (int64_t i = 0; i < p->n; i++)
        hr_table_unref(p->parts[i]);
    hr__free(p->parts);
    *p = (batch){ 0 };
}

void hr__batch_cutter_free(hr_batch_cutter *p)
{
    if (!p)
        return;
    for (int64_t i = p->head; i < p->n_ready; i++)
        batch_clear(&p->ready[i]);
    batch_clear(&p->open);
    hr__free(p->ready);
    hr__free(p);
}

/* -------------------------------------------------------------------------------------------------------- blocks */

/* The block of a row. */
static block block_of(const hr_batch_cutter *p, const hr_origin *o, int64_t row)
{
    hr_coord c = hr__origin_at(o, row);

    return (block){ c.instance, c.file, c.fragment, c.row / p->rows };
}

static bool block_equal(block a, block b)
{
    return a.number == b.number && a.fragment == b.fragment && a.file == b.file && a.instance == b.instance;
}

/* ------------------------------------------------------------------------------------------------------- batches */

/* Completes the open batch. */
static hr_status close_open(hr_batch_cutter *p, hr_error *err)
{
    if (p->open.n_rows == 0)
        return HR_OK;
    if (p->head == p->n_ready)
        p->head = p->n_ready = 0;
    if (!hr__grow(p->mem.account, (void **)&p->ready, &p->cap_ready, p->n_ready + 1, sizeof *p->ready))
        return hr__error_memory(err, "batches", (p->n_ready + 1) * (int64_t)sizeof *p->ready);
    p->open.ordinal = p->block.number | p->part << PART_SHIFT;
    p->ready[p->n_ready++] = p->open;
    p->open = (batch){ 0 };
    p->part++;
    return HR_OK;
}

static hr_status open_add(hr_batch_cutter *p, const hr_table *t, int64_t begin, int64_t n, hr_error *err)
{
    hr_table *part = NULL;

    if (!hr__grow(p->mem.account, (void **)&p->open.parts, &p->open.cap, p->open.n + 1, sizeof *p->open.parts))
        return hr__error_memory(err, "batches", (p->open.n + 1) * (int64_t)sizeof *p->open.parts);
    if (n == t->n_rows)
        part = hr_table_ref((hr_table *)t);
    else
        HR_TRY(hr_table_slice(t, begin, n, &part, err));
    p->open.parts[p->open.n++] = part;
    p->open.n_rows += n;
    if (p->bytes > 0)
        p->open.n_bytes += hr__table_row_bytes(t, begin, n);
    return p->open.n_rows == p->rows ? close_open(p, err) : HR_OK;
}

/* Adds rows [begin, begin + n), all of the open block. */
static hr_status add_rows(hr_batch_cutter *p, const hr_table *t, int64_t begin, int64_t n, hr_error *err)
{
    while (n > 0) {
        int64_t take = HR_MIN(n, p->rows - p->open.n_rows);

        if (p->bytes > 0)
            take = hr__table_rows_within(t, begin, take, p->bytes - p->open.n_bytes);
        if (take == 0 && p->open.n_rows > 0) {
            HR_TRY(close_open(p, err));
            continue;
        }
        take = HR_MAX(take, 1); /* a row larger than `bytes` is a batch of its own */
        HR_TRY(open_add(p, t, begin, take, err));
        begin += take;
        n -= take;
    }
    return HR_OK;
}

hr_status hr__batch_cutter_add(hr_batch_cutter *p, const hr_table *t, hr_error *err)
{
    int64_t begin = 0;

    if (t->n_rows == 0)
        return HR_OK;
    if (!t->origin)
        return hr_error_set(err, HR_BUG, "batch cutter: a table of %lld rows has no origin", (long long)t->n_rows);
    while (begin < t->n_rows) {
        block b = block_of(p, t->origin, begin);
        int64_t n = hr__origin_in_block(t->origin, begin, p->rows);

        if (!block_equal(b, p->block)) {
            HR_TRY(close_open(p, err));
            p->block = b;
            p->part = 0;
        }
        HR_TRY(add_rows(p, t, begin, n, err));
        begin += n;
    }
    return HR_OK;
}

/* HR_BUDGET: the batch is too large. A batch of one table is a slice and needs no memory. */
static hr_status check_batch(const hr_batch_cutter *p, const batch *got, hr_error *err)
{
    int64_t bytes = 0;

    for (int64_t i = 0; i < got->n && got->n > 1 && p->most_bytes; i++)
        bytes += hr__table_bytes_used(got->parts[i]);
    return bytes > p->most_bytes ? hr__batch_too_large(got->n_rows, bytes, p->most_bytes, false, err) : HR_OK;
}

bool hr__batch_begins_block(int64_t ordinal) { return ordinal >> PART_SHIFT == 0; }

hr_status hr__batch_cutter_next(hr_batch_cutter *p, bool last, hr_table **out, int64_t *ordinal, hr_error *err)
{
    hr_status st = HR_OK;
    batch got = { 0 };

    *out = NULL;
    if (last)
        HR_GO(close_open(p, err));
    if (p->head == p->n_ready)
        return HR_OK;
    got = p->ready[p->head++];
    *ordinal = got.ordinal;
    HR_GO(check_batch(p, &got, err));
    if (got.n == 1)
        *out = hr_table_ref(got.parts[0]);
    else
        HR_GO(hr__table_concat(&p->mem, got.parts[0]->schema, got.parts, (int)got.n, out, err));
done:
    batch_clear(&got);
    return st;
}
