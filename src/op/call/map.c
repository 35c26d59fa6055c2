/* map.c - a C function over tables, on pool threads, with a state for each thread that calls it.
 *
 * What the function sees does not depend on threads or readers: either batches of the source (batch_cutter.c), or each
 * table as it is, which a rebatch upstream has cut. The operator checks the function's table against the declared
 * schema and gives it coordinates: the input's if the function promises one row per row, otherwise new ones made from
 * the batch's first (op.h: origins). apply.c shares this half for functions in other processes. */
#include "op/call.h"

#include <inttypes.h>

#define BLOCK_ROWS 4096

typedef struct map_op {
    hr_op base;
    char *name;
    hr_map_function fn; /* owns its context */
    hr_schema *schema;  /* declared; NULL: none */
    bool as_is;         /* each table is one batch */
} map_op;

typedef struct map_thread {
    void *state; /* the function's */
} map_thread;

/* -------------------------------------------------------------------------- results of a function: also for apply.c */

static hr_status result_origin(const hr_function *f, const hr_table *in, int64_t n_before, int64_t n, hr_origin **out,
                               hr_error *err)
{
    hr_coord first;

    if (f->one_to_one)
        return hr__origin_slice(in->origin, n_before, n, out, err);
    first = hr__origin_at(in->origin, 0);
    first.ordinal += n_before;
    return hr__origin_made(first, n, out, err);
}

static hr_status result_check(const hr_function *f, const hr_table *in, int64_t n_before, const hr_table *found,
                              hr_error *err)
{
    char text[300];

    if (f->one_to_one && n_before + found->n_rows > in->n_rows)
        return hr_error_set(err, HR_CALLBACK, "%s: gave %" PRId64 " rows for a batch of %" PRId64, f->name,
                            n_before + found->n_rows, in->n_rows);
    if (!f->schema || f->schema == found->schema || hr__schema_equal(found->schema, f->schema))
        return HR_OK;
    hr__schema_difference(found->schema, f->schema, text, sizeof text);
    return hr_error_set(err, HR_TYPE, "%s: %s", f->name, text);
}

hr_status hr__function_result(const hr_function *f, const hr_table *in, int64_t n_before, hr_table *found,
                              hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_origin *origin = NULL;
    hr_table *typed = NULL;

    *out = NULL;
    HR_GO(result_check(f, in, n_before, found, err));
    if (found == in) {
        *out = hr_table_ref(found);
        return HR_OK;
    }
    if (f->schema && f->schema != found->schema) /* same names and types: takes the declared metadata and nullability */
        HR_GO(hr__table_with_schema(found, f->schema, &typed, err));
    else
        typed = hr_table_ref(found);
    HR_GO(result_origin(f, in, n_before, found->n_rows, &origin, err));
    HR_GO(hr__table_with_origin(typed, origin, out, err));
done:
    hr__origin_unref(origin);
    hr_table_unref(typed);
    return st;
}

/* HR_CALLBACK: the function promised one row per row and returned another number. */
static hr_status rows_promised(const hr_function *f, const hr_table *in, int64_t n_rows, hr_error *err)
{
    if (!f->one_to_one || n_rows == in->n_rows)
        return HR_OK;
    return hr_error_set(err, HR_CALLBACK, "%s: gave %" PRId64 " rows for a batch of %" PRId64, f->name, n_rows,
                        in->n_rows);
}

/* ------------------------------------------------------------------------------------------------------- one batch */

static hr_status map_thread_for(const map_op *m, hr_task *task, map_thread **out, hr_error *err)
{
    void **slot = hr__task_thread_state(task);
    map_thread *t = *slot;
    hr_status st;

    if (!t) {
        if (!(t = hr__zalloc(hr__task_run(task)->account, sizeof *t)))
            return hr__error_memory(err, m->name, sizeof *t);
        if (m->fn.state_new && (st = m->fn.state_new(m->fn.context, &t->state, err))) {
            hr__free(t);
            return hr__function_failed(m->name, st, err);
        }
        *slot = t;
    }
    *out = t;
    return HR_OK;
}

static hr_status map_call(const map_op *m, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_function rules = { m->name, m->schema, m->base.one_to_one };
    hr_status st = HR_OK;
    map_thread *t = NULL;
    hr_table *found = NULL, *out = NULL;

    HR_GO(map_thread_for(m, task, &t, err));
    if ((st = m->fn.call(m->fn.context, t->state, in, &found, err))) {
        st = hr__function_failed(m->name, st, err);
        goto done;
    }
    HR_GO(rows_promised(&rules, in, found ? found->n_rows : 0, err));
    if (!found)
        goto done;
    if (found != in)
        hr__table_charge(found);
    HR_GO(hr__function_result(&rules, in, 0, found, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(found);
    hr_table_unref(out);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- running */

static hr_status map_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    (void)in;
    (void)err;
    *out = hr__schema_ref(((const map_op *)op)->schema);
    return HR_OK;
}

/* Calls the function with every complete batch. */
static hr_status map_batches(const map_op *m, hr_task *task, hr_batch_cutter *cutter, bool last, hr_error *err)
{
    for (;;) {
        hr_status st = HR_OK;
        hr_table *batch = NULL;
        int64_t ordinal;

        HR_TRY(hr__batch_cutter_next(cutter, last, &batch, &ordinal, err));
        if (!batch)
            return HR_OK;
        st = hr__task_cancelled(task) ? hr_error_set(err, HR_CANCELLED, "%s: the run was stopped", m->name)
                                      : map_call(m, task, batch, err);
        hr_table_unref(batch);
        HR_TRY(st);
    }
}

static hr_status map_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const map_op *m = (const map_op *)op;
    const hr_mem mem = { hr__task_run(task)->account, NULL }; /* only the function reads them */
    hr_batch_cutter **cutter = (hr_batch_cutter **)hr__task_state(task);

    if (in->n_rows == 0)
        return HR_OK;
    if (m->as_is)
        return map_call(m, task, in, err);
    if (!*cutter) {
        HR_TRY(hr__batch_cutter_new(BLOCK_ROWS, 0, &mem, cutter, err));
        hr__batch_cutter_refuse(*cutter, hr__account_limit(mem.account));
    }
    HR_TRY(hr__batch_cutter_add(*cutter, in, err));
    return map_batches(m, task, *cutter, false, err);
}

static hr_status map_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_batch_cutter *cutter = *hr__task_state(task);

    return cutter ? map_batches((const map_op *)op, task, cutter, true, err) : HR_OK;
}

static void map_task_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr__batch_cutter_free(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

static void map_thread_clear(const hr_op *op, hr_op_run *run, void *thread_state)
{
    const map_op *m = (const map_op *)op;
    map_thread *t = thread_state;

    (void)run;
    if (m->fn.state_free)
        m->fn.state_free(m->fn.context, t->state);
    hr__free(t);
}

/* --------------------------------------------------------------------------------------------------- the operator */

static void map_describe(const hr_op *op, hr_text *out) { hr__text_add(out, "map(%s)", ((const map_op *)op)->name); }

static void map_fingerprint(const hr_op *op, hr_hash *h)
{
    hr__hash_text(h, ((const map_op *)op)->name);
    hr__hash_int(h, ((const map_op *)op)->as_is);
    hr__hash_int(h, op->one_to_one);
}

static void map_free(hr_op *op)
{
    map_op *m = (map_op *)op;

    if (m->fn.context_free)
        m->fn.context_free(m->fn.context);
    hr__schema_unref(m->schema);
    hr__free(m->name);
    hr__free(m);
}

static const hr_op_class map_class = {
    .name = "map",
    .doc = "a function over tables, on pool threads",
    .kind = HR_OP_MAP,
    .calls = true,
    .schema = map_schema,
    .push = map_push,
    .finish = map_finish,
    .task_clear = map_task_clear,
    .thread_clear = map_thread_clear,
    .describe = map_describe,
    .fingerprint = map_fingerprint,
    .free = map_free,
};

static hr_status map_new(const hr_map_function *fn, const hr_map_options *o, map_op **out, hr_error *err)
{
    const char *name = fn->name ? fn->name : "function";
    map_op *m = NULL;

    if (!fn->call)
        return hr_error_set(err, HR_INVALID, "map(%s): the function is NULL", name);
    if (o->batch_rows < 0)
        return hr_error_set(err, HR_INVALID, "map(%s): batches of %" PRId64 " rows", name, o->batch_rows);
    if (!(m = hr__zalloc(NULL, sizeof *m)) || !(m->name = hr__strdup(NULL, name))) {
        hr__free(m);
        return hr__error_memory(err, "map", sizeof *m);
    }
    hr__op_init(&m->base, &map_class);
    m->base.calls = true;
    m->base.one_to_one = o->one_to_one;
    m->as_is = o->batch_rows > 0;
    m->base.block_rows = m->as_is ? 0 : BLOCK_ROWS;
    m->fn = *fn;
    m->fn.name = m->name;
    *out = m;
    return HR_OK;
}

hr_status hr__op_map(const hr_map_function *fn, const hr_map_options *options, hr_op **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_map_options o = options ? *options : (hr_map_options){ 0 };
    hr_schema *schema = NULL;
    map_op *m = NULL;

    *out = NULL;
    if (o.schema)
        st = hr__schema_import(o.schema, &schema, err);
    if (!st)
        st = map_new(fn, &o, &m, err);
    if (st) {
        hr__schema_unref(schema);
        if (fn->context_free)
            fn->context_free(fn->context);
        return st;
    }
    m->schema = schema;
    *out = &m->base;
    return HR_OK;
}
