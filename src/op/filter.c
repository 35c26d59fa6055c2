/* filter.c - the rows that a function wants to keep, with their coordinates.
 *
 * All kept: the same table goes on. None kept: nothing does. A single range of at least half of the rows is shared; what
 * is left of others is copied together, so that a few rows do not hold the memory of many. */
#include "op/op.h"

typedef struct filter_op {
    hr_op base;
    char *name;
    hr_filter_function fn; /* owns its context */
} filter_op;

/* ---------------------------------------------------------------------------------------------------------- rows */

/* How many, and the first and last of them. No branches in the loops over all rows: which rows are kept is hard to guess. */
static int64_t count_kept(const uint8_t *keep, int64_t n, int64_t *first, int64_t *last)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        kept += keep[i] != 0;
    *first = *last = 0;
    if (kept == 0)
        return 0;
    while (!keep[*first])
        ++*first;
    for (*last = n - 1; !keep[*last];)
        --*last;
    return kept;
}

/* The row behind the last that is kept is written, too, and then not counted. */
static hr_status take_kept(const hr_mem *mem, const hr_table *in, const uint8_t *keep, int64_t n_kept, hr_table **out,
                           hr_error *err)
{
    const bool narrow = in->n_rows <= INT32_MAX;
    void *index = hr__alloc(mem->account, ((size_t)n_kept + 1) * (narrow ? 4 : 8));
    int32_t *small = index;
    int64_t *large = index, n = 0;
    hr_status st;

    if (!index)
        return hr__error_memory(err, "filter", n_kept * (narrow ? 4 : 8));
    for (int64_t i = 0; narrow && i < in->n_rows; i++) {
        small[n] = (int32_t)i;
        n += keep[i] != 0;
    }
    for (int64_t i = 0; !narrow && i < in->n_rows; i++) {
        large[n] = i;
        n += keep[i] != 0;
    }
    st = hr__table_take(mem, in, index, narrow ? 4 : 8, n, out, err);
    hr__free(index);
    return st;
}

hr_status hr__table_keep(const hr_mem *mem, const hr_table *in, const uint8_t *keep, hr_table **out, hr_error *err)
{
    int64_t first, last, n_kept = count_kept(keep, in->n_rows, &first, &last);

    *out = NULL;
    if (n_kept == 0)
        return HR_OK;
    if (n_kept == in->n_rows) {
        *out = hr_table_ref((hr_table *)in);
        return HR_OK;
    }
    if (last - first + 1 == n_kept && n_kept >= in->n_rows / 2)
        return hr_table_slice(in, first, n_kept, out, err);
    return take_kept(mem, in, keep, n_kept, out, err);
}

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

const hr_op_class hr__filter = {
    .name = "filter",
    .doc = "the rows that a function keeps",
    .kind = HR_OP_MAP,
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
        HR_FAIL(HR_INVALID, "filter(%s): no function to call", name);
    if (!(f = hr__zalloc(NULL, sizeof *f)) || !(f->name = hr__strdup(NULL, name))) {
        st = hr__error_memory(err, "filter", sizeof *f);
        goto done;
    }
    hr__op_init(&f->base, &hr__filter);
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
