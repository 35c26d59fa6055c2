/* sample.c - a random sample: keeps each row whose number, from 0 to 1, lies in a range.
 *
 * The number is random bits of the row's coordinate (and of seed, epoch and the number of samples upstream, so that a
 * sample of a sample is independent of it), or the hash of a column's value. So the sample does not depend on threads
 * or cuts, and samples of disjoint ranges have no row in common: a split into training and test rows is two of them.
 *
 * Tests: test_slice.c, test_combine.c. */
#include "data/keys.h"
#include "op/operators.h"

typedef struct sample_op {
    hr_op base;
    double from, to;
    bool has_seed, once;
    uint64_t seed;
    int depth;
    char *column; /* NULL: by coordinate */
} sample_op;

static hr_status sample_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const sample_op *o = (const sample_op *)op;

    if (o->column && hr__schema_find(in, o->column) < 0)
        return hr__schema_missing(in, o->column, err);
    *out = hr__schema_ref((hr_schema *)in);
    return HR_OK;
}

static hr_status sample_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                              hr_error *err)
{
    const sample_op *o = (const sample_op *)op;

    HR_TRY(hr__same_needs(op, input, wanted, n, out, err));
    return out->n >= 0 && o->column ? hr__needs_add(out, o->column, err) : HR_OK;
}

static bool in_range(const sample_op *o, uint64_t bits)
{
    double u = (double)(bits >> 11) * 0x1p-53; /* below 1 */

    return u >= o->from && u < o->to;
}

static void keep_by_coordinate(const sample_op *o, const hr_op_run *run, const hr_table *in, uint8_t *keep)
{
    uint64_t seed = (o->has_seed ? o->seed : run->seed) + (uint64_t)o->depth * 0x9E3779B97F4A7C15;
    uint64_t epoch = o->once ? 0 : (uint64_t)run->epoch;

    for (int64_t at = 0; at < in->n_rows;) {
        hr_run_coords c = hr__origin_run(in->origin, at);

        for (int64_t i = 0; i < c.n; i++) {
            hr_coord one = c.first;

            *(c.by_ordinal ? &one.ordinal : &one.row) += i;
            keep[at + i] = in_range(o, hr__random_coord(seed, epoch, &one).lo);
        }
        at += c.n;
    }
}

static hr_status keep_by_hash(const sample_op *o, hr_account *account, const hr_table *in, uint8_t *keep, hr_error *err)
{
    int column = hr__schema_find(in->schema, o->column);
    uint64_t *hashes;

    if (column < 0)
        return hr__schema_missing(in->schema, o->column, err);
    HR_TRY(hr__refuse_pickles("sample", &in->schema->fields[column], err));
    if (!(hashes = hr__alloc(account, (size_t)in->n_rows * sizeof *hashes)))
        return hr__error_memory(err, "sample", in->n_rows * (int64_t)sizeof *hashes);
    hr__rows_hash(in, &column, 1, 0, in->n_rows, hashes);
    for (int64_t i = 0; i < in->n_rows; i++)
        keep[i] = in_range(o, hashes[i]);
    hr__free(hashes);
    return HR_OK;
}

static hr_status sample_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const sample_op *o = (const sample_op *)op;
    const hr_op_run *run = hr__task_run(task);
    uint8_t *keep = hr__alloc(run->account, (size_t)in->n_rows);
    hr_table *out = NULL;
    hr_status st = HR_OK;

    if (!keep)
        return hr__error_memory(err, "sample", in->n_rows);
    if (o->column)
        HR_GO(keep_by_hash(o, run->account, in, keep, err));
    else
        keep_by_coordinate(o, run, in, keep);
    HR_GO(hr__table_keep(hr__task_mem(task), in, keep, &out, err));
    if (out)
        HR_GO(hr__task_emit(task, &out, err));
done:
    hr__free(keep);
    hr_table_unref(out);
    return st;
}

static void sample_describe(const hr_op *op, hr_text *out)
{
    const sample_op *o = (const sample_op *)op;

    hr__text_add(out, "sample(%.4g to %.4g", o->from, o->to);
    if (o->column)
        hr__text_add(out, " of %s", o->column);
    else if (o->has_seed)
        hr__text_add(out, ", seed=%llu", (unsigned long long)o->seed);
    hr__text_add(out, ")");
}

static void sample_fingerprint(const hr_op *op, hr_hash *h)
{
    const sample_op *o = (const sample_op *)op;

    hr__hash_add(h, &o->from, sizeof o->from);
    hr__hash_add(h, &o->to, sizeof o->to);
    hr__hash_int(h, o->has_seed);
    hr__hash_int(h, (int64_t)o->seed);
    hr__hash_int(h, o->once);
    hr__hash_int(h, o->depth);
    hr__hash_text(h, o->column);
}

static void sample_free(hr_op *op)
{
    hr__free(((sample_op *)op)->column);
    hr__free(op);
}

static const hr_op_class sample_class = {
    .name = "sample",
    .doc = "rows by chance",
    .kind = HR_OP_MAP,
    .row_local = true,
    .draws_by_depth = true,
    .schema = sample_schema,
    .needs = sample_needs,
    .push = sample_push,
    .describe = sample_describe,
    .fingerprint = sample_fingerprint,
    .free = sample_free,
};

hr_status hr__op_sample(const hr_sample_options *s, int depth, hr_op **out, hr_error *err)
{
    sample_op *o;

    *out = NULL;
    if (!(s->from >= 0 && s->from <= s->to && s->to <= 1))
        return hr_error_set(err, HR_INVALID, "sample: from %g to %g; expected a range between 0 and 1", s->from, s->to);
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "sample", sizeof *o);
    hr__op_init(&o->base, &sample_class);
    o->from = s->from;
    o->to = s->to;
    o->has_seed = s->seed != NULL;
    o->seed = s->seed ? *s->seed : 0;
    o->once = s->once;
    o->base.by_epoch = !s->once;
    o->depth = depth;
    if (s->column && !(o->column = hr__strdup(NULL, s->column))) {
        sample_free(&o->base);
        return hr__error_memory(err, "sample", (int64_t)strlen(s->column));
    }
    *out = &o->base;
    return HR_OK;
}
