/* compute.c - columns and filters by expressions.
 *
 * Each thread binds an expression once for each input schema (a run has one). The constructor binds it, too, so that an
 * unknown column or a wrong type is an error at the user's line. with_columns passes its input's columns on. */
#include "op/operators.h"

#include <stdio.h>

typedef struct compute_op {
    hr_op base;
    int n;
    char **names; /* NULL: a filter, of one expression */
    hr_expr **exprs;
    char **gives; /* n_gives: a filter's output columns; only its expression reads the others */
    int n_gives;  /* < 0: all */
} compute_op;

/* A thread's last input schema, and the expressions bound to it. */
typedef struct compute_thread {
    hr_schema *in, *out;
    hr_bound *bound;
} compute_thread;

static bool is_filter(const compute_op *c) { return !c->names; }

/* ------------------------------------------------------------------------------------------------------- schemas */

static hr_status check_filter(const compute_op *c, const hr_bound *b, hr_error *err)
{
    hr_text text = { 0 }, type = { 0 };
    hr_status st;

    if (hr__bound_type(b)->id == HR_T_BOOL)
        return HR_OK;
    hr__expr_print(c->exprs[0], &text);
    hr__type_print(hr__bound_type(b), &type);
    st = hr_error_set(err, HR_TYPE, "filter: %.300s is %s, expected bool", text.data ? text.data : "?",
                      type.data ? type.data : "?");
    hr__text_clear(&text);
    hr__text_clear(&type);
    return st;
}

/* The input's fields, and the computed ones in their places. *out is new. */
static hr_status computed_schema(const compute_op *c, const hr_bound *b, const hr_schema *in, hr_schema **out,
                                 hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)in->n + (size_t)c->n + 1) * sizeof *fields);
    int n = in->n;
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, "with_columns", (in->n + c->n) * (int64_t)sizeof *fields);
    if (in->n)
        memcpy(fields, in->fields, (size_t)in->n * sizeof *fields); /* borrowed: hr__schema_new copies */
    for (int i = 0; i < c->n && !st; i++) {
        int found = hr__schema_find(in, c->names[i]), at = found >= 0 ? found : n++;
        const char *categories = hr__bound_categories(b, i);

        fields[at] = (hr_field){ .name = c->names[i], .type = hr__bound_type_of(b, i), .nullable = true };
        if (categories)
            st = hr__metadata_set(&fields[at].metadata, &fields[at].metadata_bytes, HR_CATEGORIES_KEY, categories,
                                  (int64_t)strlen(categories), err);
    }
    if (!st)
        st = hr__schema_new(fields, n, out, err);
    for (int i = 0; i < n; i++)
        if (i >= in->n || fields[i].name != in->fields[i].name)
            hr__free(fields[i].metadata); /* of the new ones */
    hr__free(fields);
    return st;
}

static bool goes_on(const compute_op *c, const char *name)
{
    for (int i = 0; i < c->n_gives; i++)
        if (!strcmp(c->gives[i], name))
            return true;
    return c->n_gives < 0;
}

/* The output schema of a filter. *out is new. */
static hr_status filtered_schema(const compute_op *c, hr_schema *in, hr_schema **out, hr_error *err)
{
    hr_field *fields;
    int n = 0;
    hr_status st;

    if (c->n_gives < 0) {
        *out = hr__schema_ref(in);
        return HR_OK;
    }
    if (!(fields = hr__zalloc(NULL, ((size_t)in->n + 1) * sizeof *fields)))
        return hr__error_memory(err, "filter", in->n * (int64_t)sizeof *fields);
    for (int i = 0; i < in->n; i++)
        if (goes_on(c, in->fields[i].name))
            fields[n++] = in->fields[i]; /* borrowed: hr__schema_new copies */
    st = hr__schema_new(fields, n, out, err);
    hr__free(fields);
    return st;
}

static hr_status resolve(const compute_op *c, hr_schema *in, compute_thread *t, hr_error *err)
{
    HR_TRY(hr__exprs_bind(c->exprs, c->n, in, &t->bound, err));
    t->in = hr__schema_ref(in);
    if (!is_filter(c))
        return computed_schema(c, t->bound, in, &t->out, err);
    HR_TRY(check_filter(c, t->bound, err));
    return filtered_schema(c, in, &t->out, err);
}

static void thread_forget(compute_thread *t)
{
    hr__schema_unref(t->in);
    hr__schema_unref(t->out);
    hr__bound_free(t->bound);
    *t = (compute_thread){ 0 };
}

static hr_status compute_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const compute_op *c = (const compute_op *)op;
    compute_thread t = { 0 };
    hr_status st = resolve(c, (hr_schema *)in, &t, err);

    if (!st)
        *out = hr__schema_ref(t.out);
    thread_forget(&t);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- running */

static void compute_thread_clear(const hr_op *op, hr_op_run *run, void *thread_state)
{
    (void)op;
    (void)run;
    thread_forget(thread_state);
    hr__free(thread_state);
}

static hr_status thread_for(const compute_op *c, hr_task *task, hr_schema *in, compute_thread **out, hr_error *err)
{
    void **slot = hr__task_thread_state(task);
    compute_thread *t = *slot;
    hr_status st;

    if (!t && !(t = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *t)))
        return hr__error_memory(err, c->base.cls->name, sizeof *t);
    *out = t;
    if (t->in && (t->in == in || hr__schema_equal(t->in, in)))
        return HR_OK;
    thread_forget(t);
    if ((st = resolve(c, in, t, err)))
        thread_forget(t);
    return st;
}

static void name_row(const void *task, hr_coord row, char *out, size_t cap)
{
    hr_text text = { 0 };

    hr__text_add(&text, "row %lld", (long long)row.row);
    hr__task_source(task, row, &text);
    snprintf(out, cap, "%s", text.data ? text.data : "a row");
    hr__text_clear(&text);
}

static hr_eval how_in(hr_task *task, const hr_mem *mem)
{
    const hr_op_run *run = hr__task_run(task);

    return (hr_eval){ .mem = mem,
                      .seed = run->seed,
                      .epoch = run->epoch,
                      .op_index = run->index,
                      .name_row = name_row,
                      .context = task };
}

/* The output columns, with all rows. *out is new. */
static hr_status narrowed(const compute_op *c, const compute_thread *t, const hr_table *in, hr_table **out,
                          hr_error *err)
{
    hr_array **columns;
    int n = 0;
    hr_status st;

    if (c->n_gives < 0) {
        *out = hr_table_ref((hr_table *)in);
        return HR_OK;
    }
    if (!(columns = hr__zalloc(NULL, ((size_t)in->schema->n + 1) * sizeof(hr_array *))))
        return hr__error_memory(err, "filter", in->schema->n * (int64_t)sizeof(hr_array *));
    for (int i = 0; i < in->schema->n; i++)
        if (goes_on(c, in->schema->fields[i].name))
            columns[n++] = hr__array_ref(in->columns[i]);
    st = hr__table_new(t->out, columns, in->n_rows, in->origin, out, err);
    hr__free(columns);
    return st;
}

static hr_status filter_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_mem mem = { .account = hr__task_run(task)->account };
    const hr_eval how = how_in(task, &mem);
    compute_thread *t = NULL;
    hr_table *some = NULL, *out = NULL;
    uint8_t *keep = NULL;
    int64_t n_kept = 0;
    hr_status st = HR_OK;

    if (in->n_rows == 0)
        return HR_OK;
    HR_GO(thread_for((const compute_op *)op, task, in->schema, &t, err));
    if (!(keep = hr__alloc(mem.account, (size_t)in->n_rows)))
        HR_GO(hr__error_memory(err, "filter", in->n_rows));
    HR_GO(hr__bound_keep(t->bound, &how, in, keep, &n_kept, err));
    HR_GO(narrowed((const compute_op *)op, t, in, &some, err));
    HR_GO(hr__table_keep(hr__task_mem(task), some, keep, &out, err));
    if (out)
        HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(some);
    hr_table_unref(out);
    hr__free(keep);
    return st;
}

static hr_status columns_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const compute_op *c = (const compute_op *)op;
    const hr_eval how = how_in(task, hr__task_mem(task));
    compute_thread *t = NULL;
    hr_array **made = NULL, **columns = NULL;
    hr_table *out = NULL;
    int n = in->schema->n;
    hr_status st = HR_OK;

    HR_GO(thread_for(c, task, in->schema, &t, err));
    made = hr__zalloc(how.mem->account, ((size_t)c->n + 1) * sizeof(hr_array *));
    columns = hr__zalloc(how.mem->account, ((size_t)n + (size_t)c->n + 1) * sizeof(hr_array *));
    if (!made || !columns)
        HR_GO(hr__error_memory(err, "with_columns", (n + c->n) * (int64_t)sizeof(hr_array *)));
    HR_GO(hr__bound_eval_all(t->bound, &how, in, made, err));
    for (int i = 0; i < c->n; i++) {
        int at = hr__schema_find(in->schema, c->names[i]);

        columns[at >= 0 ? at : n++] = made[i];
    }
    for (int i = 0; i < in->schema->n; i++)
        if (!columns[i])
            columns[i] = hr__array_ref(in->columns[i]);
    HR_GO(hr__table_new(t->out, columns, in->n_rows, in->origin, &out, err)); /* takes the arrays, even on failure */
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    hr__free(columns);
    hr__free(made);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- traits */

static bool has_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static hr_status need_columns_of(const hr_expr *e, hr_needs *out, hr_error *err)
{
    const char **names = NULL;
    int n = 0;
    hr_status st = hr__expr_columns(e, &names, &n, err);

    for (int i = 0; i < n && !st; i++)
        st = hr__needs_add(out, names[i], err);
    hr__free(names);
    return st;
}

static bool compute_looks_at(const hr_op *op, const char *column)
{
    const compute_op *c = (const compute_op *)op;

    for (int i = 0; i < c->n; i++)
        if (hr__expr_reads(c->exprs[i], column))
            return true;
    return false;
}

/* The wanted columns of a filter's output, and those of its predicate. */
static hr_status filter_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                              hr_error *err)
{
    HR_TRY(hr__same_needs(op, input, wanted, n, out, err));
    return n < 0 ? HR_OK : need_columns_of(op->predicate, out, err);
}

/* Drops columns that only the predicate reads, so that no operator copies them. */
static hr_status filter_narrow(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err)
{
    const char **names = NULL;
    bool reads_more = false;
    int n_names = 0;

    *out = NULL;
    HR_TRY(hr__expr_columns(op->predicate, &names, &n_names, err));
    for (int i = 0; i < n_names; i++)
        reads_more = reads_more || !has_name(wanted, n, names[i]);
    hr__free(names);
    return reads_more ? hr__op_filter_giving(op->predicate, wanted, n, out, err) : HR_OK;
}

static bool is_computed(const compute_op *c, const char *name)
{
    return has_name((const char *const *)c->names, c->n, name);
}

/* The columns that pass through, and those that the wanted expressions read. */
static hr_status columns_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                               hr_error *err)
{
    const compute_op *c = (const compute_op *)op;

    (void)input;
    out->n = HR_MIN(n, 0);
    for (int i = 0; i < n; i++)
        if (!is_computed(c, wanted[i]))
            HR_TRY(hr__needs_add(out, wanted[i], err));
    for (int i = 0; i < c->n && n >= 0; i++)
        if (has_name(wanted, n, c->names[i]))
            HR_TRY(need_columns_of(c->exprs[i], out, err));
    return HR_OK;
}

/* The same without unwanted expressions. */
static hr_status columns_narrow(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err)
{
    const compute_op *c = (const compute_op *)op;
    const char **names = hr__alloc(NULL, ((size_t)c->n + 1) * sizeof *names);
    hr_expr **exprs = hr__alloc(NULL, ((size_t)c->n + 1) * sizeof(hr_expr *));
    hr_status st = HR_OK;
    int n_kept = 0;

    *out = NULL;
    if (!names || !exprs)
        HR_GO(hr__error_memory(err, "plan", c->n * (int64_t)sizeof *exprs));
    for (int i = 0; i < c->n; i++)
        if (has_name(wanted, n, c->names[i])) {
            names[n_kept] = c->names[i];
            exprs[n_kept++] = c->exprs[i];
        }
    if (n_kept < c->n)
        st = hr__op_with_columns(names, exprs, n_kept, out, err);
done:
    hr__free(names);
    hr__free(exprs);
    return st;
}

static const char *columns_column_upstream(const hr_op *op, const char *column)
{
    return is_computed((const compute_op *)op, column) ? NULL : column;
}

static int columns_computed(const hr_op *op, const char *const **names, hr_expr *const **exprs)
{
    const compute_op *c = (const compute_op *)op;

    *names = (const char *const *)c->names;
    *exprs = c->exprs;
    return c->n;
}

/* ------------------------------------------------------------------------------------------------- the operators */

static void filter_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "filter(");
    hr__expr_print(((const compute_op *)op)->exprs[0], out);
    hr__text_add(out, ")");
}

static void columns_describe(const hr_op *op, hr_text *out)
{
    const compute_op *c = (const compute_op *)op;

    hr__text_add(out, "with_columns(");
    for (int i = 0; i < c->n; i++) {
        hr__text_add(out, "%s%s = ", i ? ", " : "", c->names[i]);
        hr__expr_print(c->exprs[i], out);
    }
    hr__text_add(out, ")");
}

static void compute_fingerprint(const hr_op *op, hr_hash *h)
{
    const compute_op *c = (const compute_op *)op;

    hr__hash_int(h, c->n);
    for (int i = 0; i < c->n; i++) {
        hr__hash_text(h, c->names ? c->names[i] : NULL);
        hr__expr_fingerprint(c->exprs[i], h);
    }
}

static void compute_free(hr_op *op)
{
    compute_op *c = (compute_op *)op;

    for (int i = 0; i < c->n; i++) {
        if (c->names)
            hr__free(c->names[i]);
        hr_expr_unref(c->exprs[i]);
    }
    for (int i = 0; i < c->n_gives; i++)
        hr__free(c->gives[i]);
    hr__free(c->gives);
    hr__free(c->names);
    hr__free(c->exprs);
    hr__free(c);
}

static const hr_op_class filter_expr_class = {
    .name = "filter_expr",
    .doc = "the rows for which an expression is true",
    .kind = HR_OP_MAP,
    .row_local = true,
    .filter_upstream = true,
    .images_upstream = true,
    .looks_at = compute_looks_at,
    .needs = filter_needs,
    .narrow = filter_narrow,
    .schema = compute_schema,
    .push = filter_push,
    .thread_clear = compute_thread_clear,
    .describe = filter_describe,
    .fingerprint = compute_fingerprint,
    .free = compute_free,
};

static const hr_op_class with_columns_class = {
    .name = "with_columns",
    .doc = "all columns, and some that are computed from them",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .filter_upstream = true,
    .images_upstream = true,
    .column_upstream = columns_column_upstream,
    .looks_at = compute_looks_at,
    .needs = columns_needs,
    .narrow = columns_narrow,
    .computed = columns_computed,
    .schema = compute_schema,
    .push = columns_push,
    .thread_clear = compute_thread_clear,
    .describe = columns_describe,
    .fingerprint = compute_fingerprint,
    .free = compute_free,
};

static hr_status compute_new(const hr_op_class *cls, const char *const *names, hr_expr *const *exprs, int n,
                             hr_op **out, hr_error *err)
{
    compute_op *c = hr__zalloc(NULL, sizeof *c);
    hr_status st = HR_OK;

    *out = NULL;
    if (!c)
        return hr__error_memory(err, cls->name, sizeof *c);
    hr__op_init(&c->base, cls);
    c->n_gives = -1;
    if (!(c->exprs = hr__zalloc(NULL, ((size_t)n + 1) * sizeof(hr_expr *))) ||
        (names && !(c->names = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *c->names))))
        HR_GO(hr__error_memory(err, cls->name, n * (int64_t)sizeof(hr_expr *)));
    for (int i = 0; i < n; i++) {
        c->exprs[c->n++] = hr_expr_ref(exprs[i]);
        c->base.by_epoch = c->base.by_epoch || hr__expr_by_epoch(exprs[i]);
        if (names && !(c->names[i] = hr__strdup(NULL, names[i])))
            HR_GO(hr__error_memory(err, cls->name, (int64_t)strlen(names[i])));
    }
    c->base.predicate = names ? NULL : c->exprs[0];
    c->base.idle = names && n == 0;
    *out = &c->base;
    c = NULL; /* moved to the caller */
done:
    if (c)
        compute_free(&c->base);
    return st;
}

hr_status hr__op_filter_expr(hr_expr *e, hr_op **out, hr_error *err)
{
    return compute_new(&filter_expr_class, NULL, &e, 1, out, err);
}

hr_status hr__op_filter_giving(hr_expr *e, const char *const *names, int n, hr_op **out, hr_error *err)
{
    compute_op *c;
    hr_status st = HR_OK;

    HR_TRY(hr__op_filter_expr(e, out, err));
    c = (compute_op *)*out;
    c->n_gives = 0;
    if (!(c->gives = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *c->gives)))
        HR_GO(hr__error_memory(err, "filter", n * (int64_t)sizeof *c->gives));
    for (; c->n_gives < n; c->n_gives++)
        if (!(c->gives[c->n_gives] = hr__strdup(NULL, names[c->n_gives])))
            HR_GO(hr__error_memory(err, "filter", (int64_t)strlen(names[c->n_gives])));
    return HR_OK;
done:
    compute_free(*out);
    *out = NULL;
    return st;
}

hr_status hr__op_with_columns(const char *const *names, hr_expr *const *exprs, int n, hr_op **out, hr_error *err)
{
    *out = NULL;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(names[i], names[j]))
                return hr_error_set(err, HR_INVALID, "with_columns: '%s' is given twice", names[i]);
    return compute_new(&with_columns_class, names, exprs, n, out, err);
}
