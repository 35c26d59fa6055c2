/* filter.c - the rows that a C function keeps, with their coordinates.
 * The rows themselves: data/keep_rows.c. */
#include "op/operators.h"

typedef struct filter_op {
    hr_op base;
    char *name;
    hr_filter_function fn; /* owns its context */
} filter_op;

/* -------------------------------------------------------------------------------------------------- the operator */

static hr_status filter_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const filter_op *f = (const filter_op *)op;
    hr_status st = HR_OK;
    hr_table *out = NULL;
    uint8_t *keep = NULL;

    if (in->n_rows == 0)
        return HR_OK;
    if (!(keep = hr__zalloc(hr__task_run(task)->account, (size_t)in->n_rows))) {
        st = hr__error_memory(err, f->name, in->n_rows);
        goto done;
    }
    if ((st = f->fn.call(f->fn.context, in, keep, err))) {
        st = hr__function_failed(f->name, st, err);
        goto done;
    }
    HR_GO(hr__table_keep(hr__task_mem(task), in, keep, &out, err));
    if (out)
        HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    hr__free(keep);
    return st;
}

static void filter_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "filter(%s)", ((const filter_op *)op)->name);
}

static void filter_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_text(h, ((const filter_op *)op)->name); }

static void filter_free(hr_op *op)
{
    filter_op *f = (filter_op *)op;

    if (f->fn.context_free)
        f->fn.context_free(f->fn.context);
    hr__free(f->name);
    hr__free(f);
}

static const hr_op_class filter_class = {
    .name = "filter",
    .doc = "the rows that a function keeps",
    .kind = HR_OP_MAP,
    .calls = true,
    .row_local = true,
    .schema = hr__kept_schema,
    .push = filter_push,
    .describe = filter_describe,
    .fingerprint = filter_fingerprint,
    .free = filter_free,
};

hr_status hr__op_filter(const hr_filter_function *fn, hr_op **out, hr_error *err)
{
    hr_status st = HR_OK;
    filter_op *f = NULL;
    const char *name = fn->name ? fn->name : "function";

    *out = NULL;
    if (!fn->call)
        HR_FAIL(HR_INVALID, "filter(%s): the function is NULL", name);
    if (!(f = hr__zalloc(NULL, sizeof *f)) || !(f->name = hr__strdup(NULL, name))) {
        st = hr__error_memory(err, "filter", sizeof *f);
        goto done;
    }
    hr__op_init(&f->base, &filter_class);
    f->base.calls = true;
    f->fn = *fn;
    f->fn.name = f->name;
    *out = &f->base;
    return HR_OK;
done:
    if (fn->context_free)
        fn->context_free(fn->context);
    hr__free(f);
    return st;
}
