/* plan_order.c - nodes that put all rows in another order or into other tables: sort, random_shuffle, block order,
 * repartition.
 *
 * A sort key is a column, or an expression, which becomes a hidden column after the others; the sort drops it again.
 *
 * Tests: test_ordering.c, test_structs.c. */
#include "plan/plan.h"
#include "expr/expr.h"

#include <stdio.h>

#define BLOCK_ROWS 256 /* of blocks in random order if the source's blocks have a fixed order */

/* Takes op, even on failure; checks it against the input's schema if that is known. */
static hr_status add_checked(hr_plan *in, hr_op *op, hr_plan **out, hr_error *err)
{
    hr_schema *schema = NULL;
    hr_status st;

    HR_TRY(hr__plan_op(in, op, out, err));
    if ((st = hr__plan_schema_early(*out, &schema, err))) {
        hr_plan_unref(*out);
        *out = NULL;
    }
    hr__schema_unref(schema);
    return st;
}

/* A name that no column has. */
static void hidden_name(const hr_schema *schema, int i, char name[40])
{
    int n = snprintf(name, 40, "(sort key %d)", i);

    while (schema && hr__schema_find(schema, name) >= 0 && n < 39) {
        name[n++] = ')';
        name[n] = 0;
    }
}

typedef struct hidden {
    char (*names)[40];
    const char **borrowed;
    hr_expr **exprs;
    char **texts;
    int n;
} hidden;

static void hidden_clear(hidden *h)
{
    for (int i = 0; h->texts && i < h->n; i++)
        hr_string_free(h->texts[i]);
    hr__free(h->names);
    hr__free((void *)h->borrowed);
    hr__free(h->exprs);
    hr__free(h->texts);
}

static hr_status hidden_new(hidden *h, int n, hr_error *err)
{
    h->names = hr__zalloc(NULL, (size_t)n * sizeof *h->names);
    h->borrowed = hr__zalloc(NULL, (size_t)n * sizeof *h->borrowed);
    h->exprs = hr__zalloc(NULL, (size_t)n * sizeof *h->exprs);
    h->texts = hr__zalloc(NULL, (size_t)n * sizeof *h->texts);
    if (h->names && h->borrowed && h->exprs && h->texts)
        return HR_OK;
    return hr__error_memory(err, "sort", n * (int64_t)sizeof *h->names);
}

/* The sort keys, and the hidden columns to compute for them. */
static hr_status resolve_keys(const hr_sort_key *keys, int n, const hr_schema *schema, hr_sort_column *out, hidden *h,
                              hr_error *err)
{
    for (int i = 0; i < n; i++) {
        const hr_expr *e = keys[i].expr;

        out[i] = (hr_sort_column){ .name = keys[i].column,
                                   .descending = keys[i].descending,
                                   .nulls_first = keys[i].nulls_first };
        if (!e && !keys[i].column)
            return hr_error_set(err, HR_INVALID, "sort: key %d is neither a column nor an expression", i);
        if (e && e->kind == HR_EXPR_COLUMN)
            out[i].name = e->name;
        if (!e || e->kind == HR_EXPR_COLUMN)
            continue;
        HR_TRY(hr_expr_print(e, &h->texts[h->n], err));
        hidden_name(schema, i, h->names[h->n]);
        h->borrowed[h->n] = h->names[h->n];
        h->exprs[h->n] = keys[i].expr;
        out[i].name = h->names[h->n];
        out[i].text = h->texts[h->n];
        h->n++;
    }
    return HR_OK;
}

hr_status hr_plan_sort(hr_plan *in, const hr_sort_key *keys, int n, hr_plan **out, hr_error *err)
{
    HR_NEED(in, keys, out);

    hr_sort_key *own = NULL;
    hr_sort_column *columns = NULL;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;
    hr_plan *made = NULL;
    hidden h = { 0 };
    hr_op *op = NULL;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "sort: at least one key is needed");
    HR_GO(hidden_new(&h, n, err));
    columns = hr__zalloc(NULL, (size_t)n * sizeof *columns);
    own = hr__zalloc(NULL, (size_t)n * sizeof *own);
    if (!columns || !own)
        HR_GO(hr__error_memory(err, "sort", n * (int64_t)sizeof *columns));
    HR_GO(HR_STRUCTS_READ(hr_sort_key, keys, n, own));
    HR_GO(hr__plan_schema_early(in, &schema, err));
    HR_GO(resolve_keys(own, n, schema, columns, &h, err));
    if (h.n)
        HR_GO(hr_plan_with_columns(in, h.borrowed, h.exprs, h.n, &made, err));
    HR_GO(hr__op_sort(columns, n, h.n, &op, err));
    st = add_checked(made ? made : in, op, out, err);
done:
    hr_plan_unref(made);
    hr__schema_unref(schema);
    hr__free(columns);
    hr__free(own);
    hidden_clear(&h);
    return st;
}

/* Whether p or an operator upstream fixes the order of the rows (in_order, or a stream or block operator that is not
 * `permuted`). */
static bool keeps_order(const hr_plan *p)
{
    if (p->op && p->op->in_order)
        return true;
    if (p->op && p->op->cls->kind != HR_OP_MAP)
        return !p->op->cls->permuted;
    for (int i = 0; i < p->n_inputs; i++)
        if (keeps_order(p->inputs[i]))
            return true;
    return false;
}

static hr_status seed_of(const hr_shuffle_options *options, hr_shuffle_seed *out, hr_error *err)
{
    hr_shuffle_options all;

    HR_TRY(HR_STRUCT_READ(hr_shuffle_options, options, &all));
    *out = (hr_shuffle_seed){ .own = all.seed != NULL, .once = all.once, .seed = all.seed ? *all.seed : 0 };
    return HR_OK;
}

hr_status hr_plan_randomize_block_order(hr_plan *in, const hr_shuffle_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_shuffle_seed seed;
    hr_op *op = NULL;

    *out = NULL;
    HR_TRY(seed_of(options, &seed, err));
    if (keeps_order(in))
        HR_TRY(hr__op_shuffle_blocks(&seed, BLOCK_ROWS, &op, err));
    else
        HR_TRY(hr__op_block_order(&seed, &op, err));
    return hr__plan_op(in, op, out, err);
}

hr_status hr_plan_random_shuffle(hr_plan *in, const hr_shuffle_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_shuffle_seed seed;
    hr_op *op = NULL;

    *out = NULL;
    HR_TRY(seed_of(options, &seed, err));
    HR_TRY(hr__op_random_shuffle(&seed, &op, err));
    return hr__plan_op(in, op, out, err);
}

static hr_status by_keys(hr_plan *in, int64_t n_blocks, const hr_repartition_options *o, hr_plan **out, hr_error *err)
{
    hr_sort_column *keys = hr__zalloc(NULL, (size_t)o->n_keys * sizeof *keys);
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    if (!keys)
        return hr__error_memory(err, "repartition", o->n_keys * (int64_t)sizeof *keys);
    for (int i = 0; i < o->n_keys; i++)
        keys[i].name = o->keys[i];
    st = hr__op_hash_partition(keys, o->n_keys, n_blocks, o->sort, &op, err);
    hr__free(keys);
    return st ? st : add_checked(in, op, out, err);
}

hr_status hr_plan_repartition(hr_plan *in, int64_t n_blocks, const hr_repartition_options *options, hr_plan **out,
                              hr_error *err)
{
    HR_NEED(in, out);

    const uint64_t seed = 0;
    hr_shuffle_options once = { .struct_bytes = sizeof once, .seed = &seed, .once = true };
    hr_repartition_options o;
    hr_plan *mixed = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_repartition_options, options, &o));
    if (o.n_keys)
        return by_keys(in, n_blocks, &o, out, err);
    HR_TRY(hr__op_repartition(n_blocks, &op, err));
    if (o.shuffle && (st = hr_plan_random_shuffle(in, &once, &mixed, err))) {
        hr__op_unref(op);
        return st;
    }
    st = hr__plan_op(mixed ? mixed : in, op, out, err);
    hr_plan_unref(mixed);
    return st;
}
