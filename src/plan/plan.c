/* plan.c - plans: immutable trees of scans, operators and unions.
 *
 * The constructor of a node checks it, if the schema of its input is known without running a function; downstream of a
 * function without a declared schema the first table is the check. Building a plan does no I/O except for the first
 * file's footer, and that only when a check needs it. */
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#define MAX_COPIES 1000 /* of an input of a mix that repeats: each has a stage of its own */

static hr_status plan_new(hr_plan_kind kind, int n_inputs, hr_plan **out, hr_error *err)
{
    hr_plan *p = hr__zalloc(NULL, sizeof *p);

    *out = NULL;
    if (!p || (n_inputs && !(p->inputs = hr__zalloc(NULL, (size_t)n_inputs * sizeof(hr_plan *))))) {
        hr__free(p);
        return hr__error_memory(err, "plan", sizeof *p);
    }
    atomic_init(&p->refs, 1);
    p->kind = kind;
    p->columns.n = -1;
    p->limit_rows = -1;
    hr__mutex_init(&p->lock);
    *out = p;
    return HR_OK;
}

hr_plan *hr_plan_ref(hr_plan *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void hr_plan_unref(hr_plan *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1)
        return;
    for (int i = 0; i < p->n_inputs; i++)
        hr_plan_unref(p->inputs[i]);
    for (int i = 0; i < p->columns.n; i++)
        hr__free((char *)p->columns.names[i]);
    hr__free((void *)p->columns.names);
    hr__free(p->inputs);
    hr__scan_unref(p->scan);
    hr_expr_unref(p->filter);
    hr_expr_unref(p->images);
    for (int i = 0; i < p->n_partners; i++)
        hr__free(p->partners[i].column);
    hr__op_unref(p->op);
    hr__schema_unref(p->schema);
    hr__free(p->learned);
    hr__mutex_clear(&p->lock);
    hr__free(p);
}

static bool any_node(const hr_plan *p, bool (*is)(const hr_plan *))
{
    if (is(p))
        return true;
    for (int i = 0; i < p->n_inputs; i++)
        if (any_node(p->inputs[i], is))
            return true;
    return false;
}

static bool has_instances(const hr_plan *p) { return p->op && p->op->instances; }

static bool calls(const hr_plan *p) { return (p->op && p->op->calls) || (p->scan && hr__scan_calls(p->scan)); }

static bool is_remote(const hr_plan *p)
{
    return p->scan && hr__scan_n_files(p->scan) > 0 && hr__scan_is_remote(p->scan, 0);
}

bool hr__plan_has_instances(const hr_plan *p) { return any_node(p, has_instances); }
bool hr__plan_calls(const hr_plan *p) { return any_node(p, calls); }
bool hr__plan_is_remote(const hr_plan *p) { return any_node(p, is_remote); }

/* A node like `p` over other inputs (the caller frees its references on failure). Shares scan, operator and schema. */
hr_status hr__plan_like(hr_plan *p, hr_plan *const *inputs, hr_plan **out, hr_error *err)
{
    HR_TRY(plan_new(p->kind, p->n_inputs, out, err));
    (*out)->n_inputs = p->n_inputs;
    for (int i = 0; i < p->n_inputs; i++)
        (*out)->inputs[i] = hr_plan_ref(inputs[i]);
    if (p->scan)
        (*out)->scan = hr__scan_ref(p->scan);
    (*out)->lane = p->lane;
    if (p->op)
        (*out)->op = hr__op_ref(p->op);
    return HR_OK;
}

/* --- making nodes */

hr_status hr__plan_scan(hr_scan *scan, hr_plan **out, hr_error *err)
{
    HR_TRY(plan_new(HR_PLAN_SCAN, 0, out, err));
    (*out)->scan = hr__scan_ref(scan);
    return HR_OK;
}

static hr_status take_scan(hr_status st, hr_scan *scan, hr_plan **out, hr_error *err)
{
    *out = NULL;
    if (!st)
        st = hr__plan_scan(scan, out, err);
    hr__scan_unref(scan);
    return st;
}

/* The scan of a plan that only has the first files of a list; NULL: it has others. */
static const hr_scan *scan_of_beginning(const hr_plan *p)
{
    while (p && p->n_inputs == 1)
        p = p->inputs[0];
    return p && p->scan && hr__scan_is_beginning(p->scan) ? p->scan : NULL;
}

bool hr_plan_is_beginning(const hr_plan *p) { return scan_of_beginning(p) != NULL; }

hr_status hr_plan_read(const char *const *urls, int n_urls, const char *format, const hr_read_options *options,
                       hr_plan **out, hr_error *err)
{
    HR_NEED(urls, out);

    hr_read_options o;
    hr_scan *s = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_read_options, options, &o));
    st = hr__scan_new_files(urls, n_urls, format, &o, scan_of_beginning(o.begun), &s, err);
    st = take_scan(st, s, out, err);
    if (!st && o.columns) { /* the name of a missing column fails here, not in the run */
        hr_plan *all = *out;

        st = hr_plan_project(all, o.columns, NULL, o.n_columns, out, err);
        hr_plan_unref(all);
    }
    return st;
}

hr_status hr_plan_tables(hr_table *const *tables, int n_tables, hr_plan **out, hr_error *err)
{
    HR_NEED(tables, out);

    hr_scan *s = NULL;
    hr_status st = hr__scan_new_tables(tables, n_tables, &s, err);

    return take_scan(st, s, out, err);
}

hr_status hr__plan_range(int64_t n, int64_t n_blocks, const char *name, hr_plan **out, hr_error *err)
{
    hr_scan *s = NULL;
    hr_status st = hr__scan_new_range(n, n_blocks, name, &s, err);

    return take_scan(st, s, out, err);
}

hr_status hr_plan_range(int64_t n, const char *name, hr_plan **out, hr_error *err)
{
    HR_NEED(name, out);

    return hr__plan_range(n, 0, name, out, err);
}

hr_status hr_plan_source(const hr_source_functions *functions, hr_plan **out, hr_error *err)
{
    HR_NEED(out);

    hr_source_functions f;
    hr_scan *s = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_source_functions, functions, &f));
    st = hr__scan_new_source(&f, &s, err);
    return take_scan(st, s, out, err);
}

hr_status hr_plan_stream(struct ArrowArrayStream *stream, hr_plan **out, hr_error *err)
{
    HR_NEED(stream, out);

    hr_scan *s = NULL;
    hr_status st = hr__scan_new_stream(stream, &s, err);

    return take_scan(st, s, out, err);
}

hr_status hr__plan_op_n(hr_plan *const *ins, int n, hr_op *op, hr_plan **out, hr_error *err)
{
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(plan_new(HR_PLAN_OP, n, out, err));
    (*out)->n_inputs = n;
    for (int i = 0; i < n; i++)
        (*out)->inputs[i] = hr_plan_ref(ins[i]);
    (*out)->op = op;
    op = NULL;
done:
    hr__op_unref(op);
    return st;
}

hr_status hr__plan_op(hr_plan *in, hr_op *op, hr_plan **out, hr_error *err)
{
    return hr__plan_op_n(&in, 1, op, out, err);
}

/* A node for operator `op`, whose constructor returned `st`. */
static hr_status add_op(hr_plan *in, hr_status st, hr_op *op, hr_plan **out, hr_error *err)
{
    *out = NULL;
    return st ? st : hr__plan_op(in, op, out, err);
}

/* The same, checked against the input's schema if that is known. */
static hr_status add_checked_op(hr_plan *in, hr_status st, hr_op *op, hr_plan **out, hr_error *err)
{
    hr_schema *schema = NULL;

    st = add_op(in, st, op, out, err);
    if (!st && (st = hr__plan_schema_early(*out, &schema, err))) {
        hr_plan_unref(*out);
        *out = NULL;
    }
    hr__schema_unref(schema);
    return st;
}

hr_status hr_plan_project(hr_plan *in, const char *const *names, const char *const *new_names, int n, hr_plan **out,
                          hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_status st = hr__op_project(names, new_names, n, &op, err);

    return add_checked_op(in, st, op, out, err);
}

hr_status hr_plan_filter_expr(hr_plan *in, hr_expr *e, hr_plan **out, hr_error *err)
{
    HR_NEED(in, e, out);

    hr_op *op = NULL;
    hr_status st = hr__op_filter_expr(e, &op, err);

    return add_checked_op(in, st, op, out, err);
}

hr_status hr_plan_with_columns(hr_plan *in, const char *const *names, hr_expr *const *exprs, int n, hr_plan **out,
                               hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_status st = hr__op_with_columns(names, exprs, n, &op, err);

    return add_checked_op(in, st, op, out, err);
}

static hr_status sort_by(hr_plan *in, const char *const *columns, int n, hr_plan **out, hr_error *err)
{
    hr_sort_key *keys = hr__zalloc(NULL, (size_t)n * sizeof *keys);
    hr_status st;

    if (!keys)
        return hr__error_memory(err, "plan", n * (int64_t)sizeof *keys);
    for (int i = 0; i < n; i++)
        keys[i] = (hr_sort_key){ .struct_bytes = sizeof *keys, .column = columns[i] };
    st = hr_plan_sort(in, keys, n, out, err);
    hr__free(keys);
    return st;
}

/* Converts the caller's aggregates, into two new blocks. */
static hr_status read_aggregates(const hr_aggregate *aggs, int n, hr_aggregate **out, hr_aggregate_function **owns,
                                 hr_error *err)
{
    hr_status st = HR_OK;

    *out = hr__zalloc(NULL, ((size_t)HR_MAX(n, 0) + 1) * sizeof **out);
    *owns = hr__zalloc(NULL, ((size_t)HR_MAX(n, 0) + 1) * sizeof **owns);
    if (!*out || !*owns)
        HR_GO(hr__error_memory(err, "group", n * (int64_t)sizeof **owns));
    HR_GO(HR_STRUCTS_READ(hr_aggregate, aggs, n, *out));
    for (int i = 0; i < n; i++)
        if ((*out)[i].own) {
            HR_GO(HR_STRUCT_READ(hr_aggregate_function, (*out)[i].own, &(*owns)[i]));
            (*out)[i].own = &(*owns)[i];
        }
done:
    if (st) {
        hr__free(*out);
        hr__free(*owns);
        *out = NULL;
        *owns = NULL;
    }
    return st;
}

hr_status hr_plan_group(hr_plan *in, const char *const *keys, int n_keys, const hr_aggregate *aggs, int n_aggs,
                        hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_aggregate_function *owns = NULL;
    hr_aggregate *own = NULL;
    hr_schema *schema = NULL;
    hr_plan *groups = NULL;
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(read_aggregates(aggs, n_aggs, &own, &owns, err));
    st = hr__plan_schema_early(in, &schema, err);
    if (st)
        hr__aggregates_drop(own, 0, n_aggs);
    else
        st = hr__op_group(schema, keys, n_keys, own, n_aggs, &op, err);
    hr__schema_unref(schema);
    hr__free(own);
    hr__free(owns);
    if (st)
        return st;
    st = add_checked_op(in, st, op, &groups, err);
    if (st || !n_keys) {
        *out = groups;
        return st;
    }
    st = sort_by(groups, keys, n_keys, out, err);
    hr_plan_unref(groups);
    return st;
}

hr_status hr_plan_join(hr_plan *left, hr_plan *right, const hr_join_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(left, right, out);

    hr_schema *l = NULL, *r = NULL;
    hr_plan *ins[2] = { right, left }, *joined = NULL;
    hr_join_options o;
    hr_op *op = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_join_options, options, &o));
    if (o.kind > HR_JOIN_ANTI)
        return hr_error_set(err, HR_INVALID, "join: kind %d, expected 0 to %d", (int)o.kind, HR_JOIN_ANTI);
    HR_GO(hr__plan_schema_early(left, &l, err));
    HR_GO(hr__plan_schema_early(right, &r, err));
    HR_GO(hr__op_join(l, r, &o, &op, err));
    HR_GO(hr__plan_op_n(ins, 2, op, &joined, err));
    HR_GO(hr__op_arrange(&op, err));
    st = hr__plan_op(joined, op, out, err);
done:
    hr_plan_unref(joined);
    hr__schema_unref(l);
    hr__schema_unref(r);
    return st;
}

hr_status hr_plan_number_rows(hr_plan *in, const char *name, hr_plan **out, hr_error *err)
{
    HR_NEED(in, name, out);

    hr_op *op = NULL;
    hr_status st = hr__op_number_rows(name, &op, err);

    return add_op(in, st, op, out, err);
}

hr_status hr_plan_limit(hr_plan *in, int64_t n, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_status st = hr__op_limit(n, &op, err);

    return add_op(in, st, op, out, err);
}

hr_status hr_plan_slice(hr_plan *in, int64_t begin, int64_t end, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_status st = hr__op_slice(begin, end, &op, err);

    return add_op(in, st, op, out, err);
}

hr_status hr_plan_sample(hr_plan *in, const hr_sample_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_sample_options all;
    hr_op *op = NULL;
    int depth = 0;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_sample_options, options, &all));
    for (const hr_plan *p = in; p; p = p->n_inputs ? p->inputs[0] : NULL)
        depth += p->op && p->op->cls->draws_by_depth;
    st = hr__op_sample(&all, depth, &op, err);
    return add_checked_op(in, st, op, out, err);
}

hr_status hr_plan_rebatch(hr_plan *in, int64_t n_rows, bool drop_last, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_status st = hr__op_rebatch(n_rows, drop_last, &op, err);

    return add_op(in, st, op, out, err);
}

hr_status hr_plan_pack(hr_plan *in, int64_t seq_len, const hr_pack_options *options, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_schema *schema = NULL;
    hr_pack_options o;
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_pack_options, options, &o));
    HR_TRY(hr__plan_schema_early(in, &schema, err));
    st = hr__op_pack(schema, seq_len, &o, &op, err);
    hr__schema_unref(schema);
    return add_op(in, st, op, out, err);
}

hr_status hr_plan_batch_by_length(hr_plan *in, const char *column, int64_t max_tokens, const hr_length_options *options,
                                  hr_plan **out, hr_error *err)
{
    HR_NEED(in, column, out);

    hr_schema *schema = NULL;
    hr_length_options o;
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_length_options, options, &o));
    HR_TRY(hr__plan_schema_early(in, &schema, err));
    st = hr__op_batch_by_length(schema, column, max_tokens, &o, &op, err);
    hr__schema_unref(schema);
    return add_op(in, st, op, out, err);
}

hr_status hr_plan_local_shuffle(hr_plan *in, int64_t window_rows, const uint64_t *seed, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_op *op = NULL;
    hr_plan *lists = NULL;
    hr_status st = hr__op_local_shuffle(window_rows, seed, &op, err);

    *out = NULL;
    HR_TRY(add_op(in, st, op, &lists, err));
    op = NULL;
    st = hr__op_local_gather(&op, err);
    st = add_op(lists, st, op, out, err);
    hr_plan_unref(lists);
    return st;
}

hr_status hr_plan_map(hr_plan *in, const hr_map_function *fn, const hr_map_options *options, hr_plan **out,
                      hr_error *err)
{
    HR_NEED(in, out);

    hr_map_function f;
    hr_map_options o;
    hr_op *op = NULL;
    hr_plan *batches = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_map_function, fn, &f));
    HR_TRY(HR_STRUCT_READ(hr_map_options, options, &o));
    st = hr__op_map(&f, &o, &op, err);
    if (!st && o.batch_rows > 0) {
        HR_GO(hr_plan_rebatch(in, o.batch_rows, false, &batches, err));
        in = batches;
    }
    st = add_op(in, st, op, out, err);
    op = NULL;
done:
    hr__op_unref(op);
    hr_plan_unref(batches);
    return st;
}

hr_status hr_plan_filter_function(hr_plan *in, const hr_filter_function *fn, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_filter_function f;
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    HR_TRY(HR_STRUCT_NEED(hr_filter_function, fn, &f));
    st = hr__op_filter(&f, &op, err);
    return add_op(in, st, op, out, err);
}

static hr_status suffix_format(const char *path, const hr_format **out, hr_error *err)
{
    *out = hr__format_guess(path, (hr_view){ NULL, 0 });
    if (!*out)
        return hr_error_set(err, HR_INVALID, "%s: no format has files of this suffix; name one", path);
    return HR_OK;
}

/* A plan without rows: the result of a write with mode "ignore" into a folder with files. */
static hr_status nothing_written(hr_plan **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_schema *schema = NULL;
    hr_table *none = NULL;

    HR_GO(hr__write_schema(&schema, err));
    HR_GO(hr__table_empty(schema, &none, err));
    HR_GO(hr_plan_tables(&none, 1, out, err));
done:
    hr_table_unref(none);
    hr__schema_unref(schema);
    return st;
}

hr_status hr_plan_write(hr_plan *in, const char *format, const char *path, const hr_write_options *options,
                        hr_plan **out, hr_error *err)
{
    HR_NEED(in, path, out);

    hr_status st = HR_OK;
    hr_write_options all;
    const hr_format *f = format ? hr__format_by_name(format) : NULL;
    hr_near near;
    hr_schema *schema = NULL;
    hr_op *ops[3] = { NULL };
    hr_plan *p = NULL;
    bool exists = false, owns = true;

    *out = NULL;
    HR_TRY(HR_STRUCT_READ(hr_write_options, options, &all));
    if (all.mode > HR_WRITE_IGNORE)
        HR_FAIL(HR_INVALID, "write: mode %d, expected 0 to %d", (int)all.mode, HR_WRITE_IGNORE);
    if (format && !f) {
        hr__format_near(format, &near);
        HR_FAIL(HR_INVALID, "write: no format '%s'%s", format, hr__near_hint(&near));
    }
    if (!format)
        HR_GO(suffix_format(path, &f, err));
    if (all.mode == HR_WRITE_IGNORE || all.mode == HR_WRITE_CREATE)
        HR_GO(hr__write_exists(path, &all, &exists, err));
    if (exists && all.mode == HR_WRITE_CREATE)
        HR_FAIL(HR_IO, "%s: already contains files (mode is \"create\", and \"overwrite\" replaces them)", path);
    if (exists) {
        HR_GO(nothing_written(out, err));
        goto done;
    }
    HR_GO(hr__plan_schema_early(in, &schema, err));
    owns = false;
    HR_GO(hr__op_write(schema, f, path, &all, ops, err));
    p = hr_plan_ref(in);
    for (int i = 0; i < HR_LEN(ops); i++) {
        hr_plan *next = NULL;

        st = hr__plan_op(p, ops[i], &next, err);
        ops[i] = NULL;
        hr_plan_unref(p);
        p = next;
        if (st)
            goto done;
    }
    *out = p;
    p = NULL;
done:
    if (owns && all.name_context_free)
        all.name_context_free(all.name_context);
    for (int i = 0; i < HR_LEN(ops); i++)
        hr__op_unref(ops[i]);
    hr_plan_unref(p);
    hr__schema_unref(schema);
    return st;
}

/* Checks that the known schemas of the inputs are equal. */
static hr_status check_same_schemas(const char *what, hr_plan *const *ins, int n, hr_error *err)
{
    hr_schema *first = NULL, *s = NULL;
    char text[300];
    hr_status st = HR_OK;

    for (int i = 0; i < n; i++) {
        HR_GO(hr__plan_schema_early(ins[i], &s, err));
        if (s && first && !hr__schema_equal(s, first)) {
            hr__schema_difference(s, first, text, sizeof text);
            HR_FAIL(HR_TYPE, "%s: input %d differs from the first: %s", what, i, text);
        }
        if (!first) {
            first = s;
            s = NULL;
        }
        hr__schema_unref(s);
        s = NULL;
    }
done:
    hr__schema_unref(s);
    hr__schema_unref(first);
    return st;
}

/* The known schemas of `n` plans; n references, NULL if not known. */
static hr_status known_schemas(hr_plan *const *ins, int n, hr_schema ***out, hr_error *err)
{
    hr_schema **all = hr__zalloc(NULL, (size_t)n * sizeof(hr_schema *));

    *out = all;
    if (!all)
        return hr__error_memory(err, "plan", n * (int64_t)sizeof(hr_schema *));
    for (int i = 0; i < n; i++)
        HR_TRY(hr__plan_schema_early(ins[i], &all[i], err));
    return HR_OK;
}

static void schemas_free(hr_schema **all, int n)
{
    for (int i = 0; all && i < n; i++)
        hr__schema_unref(all[i]);
    hr__free(all);
}

/* One schema for all known schemas; without columns if none is known. */
static hr_status unify_schemas(hr_schema *const *all, int n, hr_schema **out, hr_error *err)
{
    hr_status st = hr__schema_new(NULL, 0, out, err);
    bool any = false;

    for (int i = 0; i < n && !st; i++) {
        hr_schema *both = NULL;

        if (!all[i])
            continue;
        if (any)
            st = hr__schema_unify(*out, all[i], &both, err);
        else
            both = hr__schema_ref(all[i]);
        any = true;
        if (st)
            st = hr__error_at(err, st, "union: input %d differs from those before it", i);
        hr__schema_unref(*out);
        *out = both;
    }
    return st;
}

/* An input of a union, with an operator that converts its columns to the union's if they differ. */
static hr_status like_all(hr_plan *in, hr_schema *schema, hr_schema *all, hr_plan **out, hr_error *err)
{
    hr_op *op = NULL;
    hr_status st;

    if (!schema || hr__schema_equal(schema, all)) {
        *out = hr_plan_ref(in);
        return HR_OK;
    }
    st = hr__op_union_columns(schema, all, true, &op, err);
    return add_op(in, st, op, out, err);
}

hr_status hr_plan_union(hr_plan *const *ins, int n, hr_plan **out, hr_error *err)
{
    HR_NEED(ins, out);

    hr_schema **schemas = NULL, *all = NULL;
    hr_plan *made = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;
    bool known = true;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "union: no inputs");
    HR_GO(known_schemas(ins, n, &schemas, err));
    HR_GO(unify_schemas(schemas, n, &all, err));
    HR_GO(plan_new(HR_PLAN_UNION, n, &made, err));
    for (int i = 0; i < n; i++) {
        known = known && schemas[i];
        HR_GO(like_all(ins[i], schemas[i], all, &made->inputs[i], err));
        made->n_inputs++;
    }
    if (known || n == 1) {
        *out = made;
        made = NULL;
    } else {
        st = hr__op_union_columns(NULL, all, schemas[0] != NULL, &op, err);
        st = add_op(made, st, op, out, err);
    }
done:
    hr_plan_unref(made);
    schemas_free(schemas, n);
    hr__schema_unref(all);
    return st;
}

hr_status hr_plan_zip(hr_plan *const *ins, int n, hr_plan **out, hr_error *err)
{
    HR_NEED(ins, out);

    hr_schema **schemas = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "zip: no inputs");
    if (n == 1) {
        *out = hr_plan_ref(ins[0]);
        return HR_OK;
    }
    HR_GO(known_schemas(ins, n, &schemas, err));
    HR_GO(hr__op_zip(schemas, n, &op, err));
    st = hr__plan_op_n(ins, n, op, out, err);
done:
    schemas_free(schemas, n);
    return st;
}

hr_status hr_plan_mix(hr_plan *const *ins, int n, const double *weights, hr_mix_end when, hr_plan **out, hr_error *err)
{
    HR_NEED(ins, weights, out);

    hr_op *op = NULL;

    *out = NULL;
    if (when == HR_MIX_LONGEST_REPEAT)
        return hr_plan_mix_repeat(ins, n, weights, NULL, out, err);
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "mix: no inputs");
    HR_TRY(check_same_schemas("mix", ins, n, err));
    if (when > HR_MIX_LONGEST_REPEAT)
        return hr_error_set(err, HR_INVALID, "mix: end %d, expected 0 to 2", (int)when);
    HR_TRY(hr__op_mix(weights, n, when == HR_MIX_LONGEST_DROP, NULL, &op, err));
    if (n > 1)
        return hr__plan_op_n(ins, n, op, out, err);
    hr__op_unref(op);
    *out = hr_plan_ref(ins[0]);
    return HR_OK;
}

/* The rows of each input, given or counted. */
static hr_status rows_to_repeat(hr_plan *const *ins, int n, const int64_t *given, int64_t *n_rows, hr_error *err)
{
    for (int i = 0; i < n; i++) {
        if (given)
            n_rows[i] = given[i];
        else
            HR_TRY(hr_plan_count(ins[i], &n_rows[i], err));
        if (n_rows[i] < 0)
            return hr_error_set(
                err, HR_INVALID,
                "mix: only a run knows the number of rows of input %d, which may have to repeat; give it", i);
    }
    return HR_OK;
}

/* An input's part of the rows of a mix. All inputs are equally far behind their shares, to within n rows; so what
 * inputs without rows do not give comes from the others in equal parts. */
static double part_of_mix(int n, const double *weights, const int64_t *n_rows, int i)
{
    double sum = 0, missing = 0;
    int others = 0;

    for (int k = 0; k < n; k++) {
        sum += weights[k];
        missing += n_rows[k] ? 0 : weights[k];
        others += n_rows[k] != 0;
    }
    return (weights[i] + missing / others) / sum;
}

/* In how many copies an input suffices until all have been there once. A mix of `most` rows, or fewer, contains each
 * input once. */
static double copies_of(int n, const double *weights, const int64_t *n_rows, int i)
{
    double most = 0;

    if (!n_rows[i])
        return 1;
    for (int k = 0; k < n; k++)
        if (n_rows[k])
            most = HR_MAX(most, ((double)n_rows[k] + n) / part_of_mix(n, weights, n_rows, k));
    return ceil((most * part_of_mix(n, weights, n_rows, i) + n) / (double)n_rows[i]);
}

static hr_status repeat_plan(hr_plan *in, int64_t n_copies, hr_plan **out, hr_error *err)
{
    hr_plan **copies;
    hr_status st;

    if (n_copies == 1) {
        *out = hr_plan_ref(in);
        return HR_OK;
    }
    if (!(copies = hr__alloc(NULL, (size_t)n_copies * sizeof *copies)))
        return hr__error_memory(err, "mix", n_copies * (int64_t)sizeof(hr_plan *));
    for (int64_t i = 0; i < n_copies; i++)
        copies[i] = in;
    st = hr_plan_union(copies, (int)n_copies, out, err);
    hr__free(copies);
    return st;
}

hr_status hr_plan_mix_repeat(hr_plan *const *ins, int n, const double *weights, const int64_t *n_rows, hr_plan **out,
                             hr_error *err)
{
    HR_NEED(ins, weights, out);

    hr_plan **repeated = NULL;
    int64_t *until = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n < 1)
        return hr_error_set(err, HR_INVALID, "mix: no inputs");
    HR_TRY(check_same_schemas("mix", ins, n, err));
    until = hr__zalloc(NULL, (size_t)n * sizeof *until);
    repeated = hr__zalloc(NULL, (size_t)n * sizeof *repeated);
    if (!until || !repeated)
        HR_GO(hr__error_memory(err, "mix", n * (int64_t)sizeof *until));
    HR_GO(rows_to_repeat(ins, n, n_rows, until, err));
    HR_GO(hr__op_mix(weights, n, true, until, &op, err));
    for (int i = 0; i < n; i++) {
        double copies = copies_of(n, weights, until, i);

        if (copies > MAX_COPIES)
            HR_FAIL(
                HR_INVALID,
                "mix: input %d would repeat %.0f times, and at most %d are possible; give it more rows or less weight",
                i, copies, MAX_COPIES);
        HR_GO(repeat_plan(ins[i], (int64_t)copies, &repeated[i], err));
    }
    if (n == 1) {
        *out = hr_plan_ref(ins[0]);
    } else {
        st = hr__plan_op_n(repeated, n, op, out, err);
        op = NULL;
    }
done:
    hr__op_unref(op);
    for (int i = 0; repeated && i < n; i++)
        hr_plan_unref(repeated[i]);
    hr__free(repeated);
    hr__free(until);
    return st;
}

/* --- schemas */

/* The schema with the image column after the reader's steps. *out is new. */
static hr_status schema_of_images(const hr_plan *p, hr_schema *all, hr_schema **out, hr_error *err)
{
    const char *name = hr__scan_image_column(p->scan);
    hr_bound *bound = NULL;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__expr_bind(p->images, all, &bound, err));
    if (!(fields = hr__alloc(NULL, (size_t)all->n * sizeof *fields)))
        HR_GO(hr__error_memory(err, "schema", all->n * (int64_t)sizeof *fields));
    for (int i = 0; i < all->n; i++) {
        fields[i] = all->fields[i]; /* borrowed */
        if (!strcmp(fields[i].name, name))
            fields[i].type = hr__bound_type(bound);
    }
    HR_GO(hr__schema_new(fields, all->n, out, err));
done:
    hr__free(fields);
    hr__bound_free(bound);
    return st;
}

/* The schema of a scan that rules narrowed or changed. */
static hr_status scan_schema(hr_plan *p, hr_schema **out, hr_error *err)
{
    hr_schema *all = NULL;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__scan_schema(p->scan, &all, err));
    if (p->images) {
        hr_schema *raw = all;

        st = schema_of_images(p, raw, &all, err);
        hr__schema_unref(raw);
        if (st)
            return st;
    }
    if (p->columns.n < 0) {
        *out = all;
        return HR_OK;
    }
    if (!(fields = hr__alloc(NULL, ((size_t)p->columns.n + 1) * sizeof *fields)))
        HR_FAIL(HR_NO_MEMORY, "schema: no memory for %d fields", p->columns.n);
    for (int i = 0; i < p->columns.n; i++) {
        int k = hr__schema_find(all, p->columns.names[i]);

        if (k < 0)
            HR_GO(hr__schema_missing(all, p->columns.names[i], err));
        fields[i] = all->fields[k];
    }
    HR_GO(hr__schema_new(fields, p->columns.n, out, err));
done:
    hr__free(fields);
    hr__schema_unref(all);
    return st;
}

/* The schema of an operator with several inputs; unknown if one input's schema is. */
static hr_status schema_of_inputs(hr_plan *p, hr_schema **out, hr_error *err)
{
    hr_schema **ins = hr__zalloc(NULL, (size_t)p->n_inputs * sizeof(hr_schema *));
    hr_status st = HR_OK;
    bool known = true;

    *out = NULL;
    if (!ins)
        return hr__error_memory(err, "schema", p->n_inputs * (int64_t)sizeof(hr_schema *));
    for (int i = 0; i < p->n_inputs; i++) {
        HR_GO(hr__plan_schema_early(p->inputs[i], &ins[i], err));
        known = known && ins[i];
    }
    if (known)
        st = p->op->cls->schema_of(p->op, ins, p->n_inputs, out, err);
done:
    for (int i = 0; i < p->n_inputs; i++)
        hr__schema_unref(ins[i]);
    hr__free(ins);
    return st;
}

static hr_status early(hr_plan *p, hr_schema **out, hr_error *err)
{
    hr_schema *in = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (p->kind == HR_PLAN_SCAN)
        return scan_schema(p, out, err);
    if (p->kind == HR_PLAN_OP && p->op->cls->schema_of)
        return schema_of_inputs(p, out, err);
    HR_TRY(hr__plan_schema_early(p->inputs[0], &in, err));
    if (p->kind == HR_PLAN_UNION || !p->op->cls->schema)
        *out = in; /* the same columns */
    else if (in) {
        st = p->op->cls->schema(p->op, in, out, err);
        hr__schema_unref(in);
    }
    return st;
}

hr_schema *hr__plan_known_schema(hr_plan *p)
{
    hr_schema *s;

    hr__lock(&p->lock);
    s = p->schema ? hr__schema_ref(p->schema) : NULL;
    hr__unlock(&p->lock);
    return s;
}

void hr__plan_learn_schema(hr_plan *p, hr_schema *s)
{
    hr__lock(&p->lock);
    if (!p->schema)
        p->schema = hr__schema_ref(s);
    hr__unlock(&p->lock);
}

hr_status hr__plan_schema_early(hr_plan *p, hr_schema **out, hr_error *err)
{
    if ((*out = hr__plan_known_schema(p)))
        return HR_OK;
    HR_TRY(early(p, out, err));
    if (*out)
        hr__plan_learn_schema(p, *out);
    return HR_OK;
}

/* --- counts */

static hr_status count(hr_plan *p, int64_t *out, hr_error *err)
{
    const hr_op *op = p->op;
    int64_t n, sum = 0;

    *out = -1;
    if (p->kind == HR_PLAN_SCAN) {
        HR_TRY(hr__scan_count(p->scan, &n, err));
        *out = n >= 0 && p->limit_rows >= 0 ? HR_MIN(n, p->limit_rows) : n;
        return HR_OK;
    }
    if (p->kind == HR_PLAN_UNION) {
        for (int i = 0; i < p->n_inputs; i++) {
            HR_TRY(count(p->inputs[i], &n, err));
            if (n < 0)
                return HR_OK;
            sum += n;
        }
        *out = sum;
        return HR_OK;
    }
    if (!op->cuts && !op->one_to_one && !op->cls->same_rows && !op->table_rows)
        return HR_OK;
    HR_TRY(count(p->inputs[0], &n, err));
    if (n >= 0 && op->cuts)
        n = HR_MAX(0, (op->cut_end < 0 ? n : HR_MIN(n, op->cut_end)) - op->cut_begin);
    if (n >= 0 && op->drops_rest)
        n = n / op->table_rows * op->table_rows;
    *out = n;
    return HR_OK;
}

bool hr__plan_makes_batches(const hr_plan *p)
{
    for (; p->op; p = p->inputs[0]) {
        if (p->op->makes_batches)
            return true;
        if (p->op->cls->kind != HR_OP_MAP || p->op->block_rows || p->op->cls->new_rows || p->n_inputs != 1)
            return false;
        if (!p->op->one_to_one && !p->op->predicate && !p->op->cls->calls)
            return false;
    }
    return false;
}

static bool gives_blocks(const hr_plan *p)
{
    for (; p->op; p = p->inputs[0]) {
        const hr_op_class *cls = p->op->cls;

        if (p->op->table_rows || p->op->makes_blocks)
            return true;
        if (p->n_inputs != 1 || cls->kind == HR_OP_BLOCK || cls->calls || cls->new_rows)
            return false;
    }
    for (int i = 0; i < p->n_inputs; i++)
        if (!gives_blocks(p->inputs[i]))
            return false;
    return p->n_inputs > 0;
}

hr_fragments_of hr__plan_fragments_of(const hr_plan *p)
{
    return hr__plan_makes_batches(p) || gives_blocks(p) ? HR_FRAGMENTS_OF_TABLES : HR_FRAGMENTS_OF_ROWS;
}

hr_status hr__plan_fragments(hr_plan *in, hr_plan **out, hr_error *err)
{
    hr_op *op = NULL;

    if (hr__plan_fragments_of(in) == HR_FRAGMENTS_OF_TABLES) {
        *out = hr_plan_ref(in);
        return HR_OK;
    }
    *out = NULL;
    HR_TRY(hr__op_fragments(&op, err));
    return hr__plan_op(in, op, out, err);
}

hr_status hr_plan_count(hr_plan *p, int64_t *out, hr_error *err)
{
    HR_NEED(p, out);

    return count(p, out, err);
}

/* --- text and fingerprint */

/* Files that the filter rules out by their names alone: nobody opens them. */
static void print_files_left(const hr_plan *p, hr_text *out)
{
    int n = hr__scan_files_left(p->scan, p->filter), n_files = hr__scan_n_files(p->scan);

    if (n >= 0 && n < n_files)
        hr__text_add(out, " [%d of %d files]", n, n_files);
}

static void print_node(const hr_plan *p, int depth, hr_text *out)
{
    hr__text_add(out, "%*s", depth * 2, "");
    if (p->kind == HR_PLAN_SCAN)
        hr__scan_describe(p->scan, out);
    else if (p->kind == HR_PLAN_UNION)
        hr__text_add(out, "union");
    else if (p->op->cls->describe)
        p->op->cls->describe(p->op, out);
    else
        hr__text_add(out, "%s", p->op->cls->name);
    if (p->columns.n >= 0) {
        hr__text_add(out, " columns=[");
        for (int i = 0; i < p->columns.n; i++)
            hr__text_add(out, "%s%s", i ? ", " : "", p->columns.names[i]);
        hr__text_add(out, "]");
    }
    if (p->first_input)
        hr__text_add(out, ", which comes first");
    if (p->images) {
        hr__text_add(out, " %s=", hr__scan_image_column(p->scan));
        hr__expr_print(p->images, out);
    }
    if (p->filter) {
        hr__text_add(out, " rows where ");
        hr__expr_print(p->filter, out);
        print_files_left(p, out);
    }
    for (int i = 0; i < p->n_partners; i++)
        hr__text_add(out, "%s col('%s') between the keys of %s", i || p->filter ? " and" : " rows where",
                     p->partners[i].column, p->partners[i].op->cls->name);
    if (p->random_blocks)
        hr__text_add(out, " blocks in random order");
    if (p->lane.on)
        hr__text_add(out, " lane %d: rows %" PRId64 " to %" PRId64, p->lane.number, p->lane.begin, p->lane.end);
    if (p->skip_rows > 0)
        hr__text_add(out, " skip=%" PRId64, p->skip_rows);
    if (p->limit_rows >= 0)
        hr__text_add(out, " rows<=%" PRId64, p->limit_rows);
    hr__text_add(out, "\n");
    for (int i = 0; i < p->n_inputs; i++)
        print_node(p->inputs[i], depth + 1, out);
}

/* A resume gives all rows to the operator again: it passes no marker of its input on. */
static bool runs_again(const hr_plan *p)
{
    return p->kind == HR_PLAN_OP &&
           (p->op->cls->kind == HR_OP_BLOCK || (p->op->cls->kind == HR_OP_STREAM && !p->op->cls->marker));
}

/* The operators that run again, without those before them, which they name together. Returns their number. */
static int print_resume(const hr_plan *p, hr_text *out)
{
    int n = 0;

    if (!runs_again(p)) {
        for (int i = 0; i < p->n_inputs; i++)
            n += print_resume(p->inputs[i], out);
        return n;
    }
    hr__text_add(out, "  ");
    if (p->op->cls->describe)
        p->op->cls->describe(p->op, out);
    else
        hr__text_add(out, "%s", p->op->cls->name);
    hr__text_add(out, " and all before it run again, over ");
    for (int i = 0; i < p->n_inputs; i++) {
        int64_t rows = hr__plan_guess_rows(p->inputs[i]);

        hr__text_add(out, "%s", i ? " and " : "");
        if (rows < 0)
            hr__text_add(out, "all rows");
        else
            hr__text_add(out, "about %" PRId64 " rows", rows);
    }
    hr__text_add(out, "; materialize() after it keeps them\n");
    return 1;
}

static void print_hosts(const hr_plan *p, hr_text *out)
{
    const hr_plan *why = hr__plan_no_lanes(p);

    hr__text_add(out, "on several hosts:\n");
    if (why) {
        hr__text_add(out, "  each reads all rows: ");
        hr__plan_print_no_lanes(why, out);
    } else {
        hr__text_add(out, "  each reads its lanes, if the files know their numbers of rows");
    }
    hr__text_add(out, "\n");
}

/* The plan as written and as it runs; once, if these are the same. */
static void print_both(const hr_plan *p, const hr_plan *rewritten, hr_text *out)
{
    hr_text as_written = { 0 }, as_run = { 0 };

    print_node(p, 1, &as_written);
    print_node(rewritten, 1, &as_run);
    out->failed = out->failed || as_written.failed || as_run.failed;
    if (!out->failed && !strcmp(as_written.data, as_run.data))
        hr__text_add(out, "plan, runs as written:\n%s", as_run.data);
    else if (!out->failed)
        hr__text_add(out, "plan:\n%sruns as:\n%s", as_written.data, as_run.data);
    hr__text_clear(&as_written);
    hr__text_clear(&as_run);
}

hr_status hr_plan_explain(const hr_plan *p, char **out, hr_error *err)
{
    HR_NEED(p, out);

    hr_text t = { 0 };
    hr_plan *rewritten = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__plan_rewrite((hr_plan *)p, &rewritten, err));
    print_both(p, rewritten, &t);
    hr__text_add(&t, "on a resume:\n");
    if (!print_resume(rewritten, &t))
        hr__text_add(&t, "  goes on at the position\n");
    print_hosts(p, &t);
    if (t.failed)
        HR_FAIL(HR_NO_MEMORY, "explain: no memory for %" PRId64 " bytes of text", t.n);
    *out = t.data;
    t.data = NULL;
done:
    hr__text_clear(&t);
    hr_plan_unref(rewritten);
    return st;
}

void hr_string_free(char *s) { hr__free(s); }

/* A cache changes no rows: a position fits the plan with it and without it. */
static void add_fingerprint(const hr_plan *p, hr_hash *h)
{
    while (p->op && p->op->caches)
        p = p->inputs[0];
    hr__hash_int(h, p->kind);
    if (p->kind == HR_PLAN_SCAN)
        hr__scan_fingerprint(p->scan, h);
    if (p->kind == HR_PLAN_OP) {
        hr__hash_text(h, p->op->cls->name);
        if (p->op->cls->fingerprint)
            p->op->cls->fingerprint(p->op, h);
    }
    hr__hash_int(h, p->n_inputs);
    for (int i = 0; i < p->n_inputs; i++)
        add_fingerprint(p->inputs[i], h);
}

static void print_hash(const hr_hash *h, char out[33])
{
    hr_bits128 b = hr__hash_end(h);

    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, b.hi, b.lo);
}

void hr__plan_digest(const hr_plan *p, char out[33])
{
    hr_hash h;

    hr__hash_init(&h, 1);
    add_fingerprint(p, &h);
    print_hash(&h, out);
}

hr_status hr_plan_fingerprint(hr_plan *p, char out[33], hr_error *err)
{
    HR_NEED(p, out);

    hr_inputs inputs;
    hr_hash h;

    HR_TRY(hr__inputs_of(p, false, &inputs, err));
    hr__hash_init(&h, 1);
    add_fingerprint(p, &h);
    hr__hash_int(&h, (int64_t)inputs.names);
    hr__hash_int(&h, (int64_t)inputs.sizes);
    print_hash(&h, out);
    return HR_OK;
}
