/* project.c - some columns, in a new order, under new names. Nothing is copied.
 *
 * Each thread looks up the columns once for each schema, not for each table: otherwise strcmp takes most of the time
 * for wide tables of few rows. */
#include "op/operators.h"

typedef struct project_op {
    hr_op base;
    int n;
    char **names;
    char **new_names; /* == names: no renames */
} project_op;

/* A thread's last input schema, and its output. */
typedef struct project_thread {
    hr_schema *in, *out;
    int *index; /* of each output column in `in` */
} project_thread;

/* ------------------------------------------------------------------------------------------------------- schemas */

/* The output schema for `in`, and where its columns lie. *index is new (hr__free). */
static hr_status project_resolve(const project_op *p, const hr_schema *in, hr_schema **out, int **index, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field *fields = hr__zalloc(NULL, (size_t)p->n * sizeof *fields);
    int *at = hr__alloc(NULL, (size_t)p->n * sizeof *at);
    int n = 0;

    *out = NULL;
    if (!fields || !at) {
        st = hr__error_memory(err, "project", p->n * (int64_t)sizeof *fields);
        goto done;
    }
    for (n = 0; n < p->n; n++) {
        if ((at[n] = hr__schema_find(in, p->names[n])) < 0) {
            st = hr__schema_missing(in, p->names[n], err);
            goto done;
        }
        fields[n] = in->fields[at[n]]; /* borrowed: hr__schema_new copies */
        fields[n].name = p->new_names[n];
    }
    HR_GO(hr__schema_new(fields, n, out, err));
    *index = at;
    at = NULL;
done:
    hr__free(at);
    hr__free(fields);
    return st;
}

static hr_status project_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    int *index = NULL;
    hr_status st = project_resolve((const project_op *)op, in, out, &index, err);

    hr__free(index);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- running */

static void thread_forget(project_thread *t)
{
    hr__schema_unref(t->in);
    hr__schema_unref(t->out);
    hr__free(t->index);
    *t = (project_thread){ 0 };
}

static void project_thread_clear(const hr_op *op, hr_op_run *run, void *thread_state)
{
    (void)op;
    (void)run;
    thread_forget(thread_state);
    hr__free(thread_state);
}

/* The calling thread's lookup for the schema `in`. */
static hr_status project_thread_for(const project_op *p, hr_task *task, hr_schema *in, project_thread **out,
                                    hr_error *err)
{
    void **slot = hr__task_thread_state(task);
    project_thread *t = *slot;

    if (!t && !(t = *slot = hr__zalloc(hr__task_run(task)->account, sizeof *t)))
        return hr__error_memory(err, "project", sizeof *t);
    *out = t;
    if (t->in == in)
        return HR_OK;
    thread_forget(t);
    HR_TRY(project_resolve(p, in, &t->out, &t->index, err));
    t->in = hr__schema_ref(in);
    return HR_OK;
}

static hr_status project_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const project_op *p = (const project_op *)op;
    hr_status st = HR_OK;
    project_thread *t = NULL;
    hr_array **columns = NULL;
    hr_table *out = NULL;

    HR_GO(project_thread_for(p, task, in->schema, &t, err));
    if (!(columns = hr__alloc(NULL, (size_t)p->n * sizeof *columns))) {
        st = hr__error_memory(err, "project", p->n * (int64_t)sizeof *columns);
        goto done;
    }
    for (int i = 0; i < p->n; i++)
        columns[i] = hr__array_ref(in->columns[t->index[i]]);
    HR_GO(hr__table_new(t->out, columns, in->n_rows, in->origin, &out, err)); /* takes the arrays, even on failure */
    HR_GO(hr__task_emit(task, &out, err));
done:
    hr_table_unref(out);
    hr__free(columns);
    return st;
}

/* ------------------------------------------------------------------------------------------------- the operator */

static void project_describe(const hr_op *op, hr_text *out)
{
    const project_op *p = (const project_op *)op;

    hr__text_add(out, "project(");
    for (int i = 0; i < p->n; i++) {
        hr__text_add(out, "%s%s", i ? ", " : "", p->names[i]);
        if (strcmp(p->names[i], p->new_names[i]) != 0)
            hr__text_add(out, " as %s", p->new_names[i]);
    }
    hr__text_add(out, ")");
}

static void project_fingerprint(const hr_op *op, hr_hash *h)
{
    const project_op *p = (const project_op *)op;

    hr__hash_int(h, p->n);
    for (int i = 0; i < p->n; i++) {
        hr__hash_text(h, p->names[i]);
        hr__hash_text(h, p->new_names[i]);
    }
}

static void names_free(char **names, int n)
{
    for (int i = 0; names && i < n; i++)
        hr__free(names[i]);
    hr__free(names);
}

static void project_free(hr_op *op)
{
    project_op *p = (project_op *)op;

    if (p->new_names != p->names)
        names_free(p->new_names, p->n);
    names_free(p->names, p->n);
    hr__free(p);
}

/* ------------------------------------------------------------------------------------------------------- traits */

static bool is_wanted(const char *const *wanted, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(wanted[i], name))
            return true;
    return n < 0;
}

static hr_status project_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                               hr_error *err)
{
    const project_op *p = (const project_op *)op;

    (void)input;
    for (int i = 0; i < p->n; i++)
        if (is_wanted(wanted, n, p->new_names[i]))
            HR_TRY(hr__needs_add(out, p->names[i], err));
    return HR_OK;
}

static hr_status project_narrow(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err)
{
    const project_op *p = (const project_op *)op;
    const char **kept = hr__alloc(NULL, (2 * (size_t)p->n + 1) * sizeof *kept);
    hr_status st = HR_OK;
    int n_kept = 0;

    *out = NULL;
    if (!kept)
        return hr__error_memory(err, "plan", p->n * (int64_t)sizeof *kept);
    for (int i = 0; i < p->n; i++)
        if (is_wanted(wanted, n, p->new_names[i])) {
            kept[n_kept] = p->names[i];
            kept[p->n + n_kept++] = p->new_names[i];
        }
    if (n_kept < p->n)
        st = hr__op_project(kept, kept + p->n, n_kept, out, err);
    hr__free(kept);
    return st;
}

static const char *project_column_upstream(const hr_op *op, const char *column)
{
    const project_op *p = (const project_op *)op;

    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->new_names[i], column))
            return p->names[i];
    return NULL;
}

/* Its output has the column twice. */
static bool project_looks_at(const hr_op *op, const char *column)
{
    const project_op *p = (const project_op *)op;
    int times = 0;

    for (int i = 0; i < p->n; i++)
        times += !strcmp(p->names[i], column);
    return times > 1;
}

static const hr_op_class project_class = {
    .name = "project",
    .doc = "some columns, in a new order, under new names",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .filter_upstream = true,
    .images_upstream = true,
    .shares_columns = true,
    .column_upstream = project_column_upstream,
    .looks_at = project_looks_at,
    .needs = project_needs,
    .narrow = project_narrow,
    .schema = project_schema,
    .push = project_push,
    .thread_clear = project_thread_clear,
    .describe = project_describe,
    .fingerprint = project_fingerprint,
    .free = project_free,
};

static hr_status names_copy(const char *const *names, int n, char ***out, hr_error *err)
{
    char **copy = hr__zalloc(NULL, (size_t)n * sizeof *copy);

    *out = copy;
    if (!copy)
        return hr__error_memory(err, "project", n * (int64_t)sizeof *copy);
    for (int i = 0; i < n; i++)
        if (!(copy[i] = hr__strdup(NULL, names[i])))
            return hr__error_memory(err, "project", (int64_t)strlen(names[i]));
    return HR_OK;
}

hr_status hr__op_project(const char *const *names, const char *const *new_names, int n, hr_op **out, hr_error *err)
{
    const char *const *as = new_names ? new_names : names;
    hr_status st = HR_OK;
    project_op *p = NULL;

    *out = NULL;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(as[i], as[j]))
                return hr_error_set(err, HR_INVALID, "project: columns %d and %d would both be called '%s'", j, i,
                                    as[i]);
    if (!(p = hr__zalloc(NULL, sizeof *p)))
        return hr__error_memory(err, "project", sizeof *p);
    hr__op_init(&p->base, &project_class);
    p->n = n;
    HR_GO(names_copy(names, n, &p->names, err));
    p->new_names = p->names;
    if (new_names)
        HR_GO(names_copy(new_names, n, &p->new_names, err));
    *out = &p->base;
    p = NULL;
done:
    if (p)
        hr__op_unref(&p->base);
    return st;
}
