/* union_columns.c - gives the tables of a union's inputs one schema.
 *
 * The columns are those of the first input, then the new ones of the second, and so on; a column has the type that
 * holds the values of all (data/unify.c). A column that an input lacks is null. Two places:
 *
 * 1. Before the union, after an input whose schema is known and differs. The constructor decides everything.
 * 2. After the union, if only its rows tell the schema of an input (a function's). If that is the first input, the very
 *    first table in canonical order has its columns, and the operator adds those of the known inputs; other tables wait
 *    for that, and positions store it. Later inputs with unknown schemas may lack columns, but cannot add any, since
 *    earlier rows have gone on without them.
 *
 * Tests: test_plan.c, test_union.py. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct union_op {
    hr_op base;
    hr_schema *in; /* of the input, if the operator is before the union; NULL: after it */
    hr_schema *
        /* the schema of all output tables; after a union with an unknown first input: the columns to add */
        known;
    bool settled; /* `known` has all columns */
} union_op;

typedef struct union_run {
    hr_schema *schema; /* read-only once the run is settled */
    hr_remembered remembered;
} union_run;

/* ---------------------------------------------------------------------------------------------------------- schemas */

static hr_status differs(const hr_field *have, const hr_type *type, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    hr__text_add(&t, "column '%s' is ", have->name);
    hr__type_print(type, &t);
    hr__text_add(&t, ", expected ");
    hr__type_print(have->type, &t);
    st = t.failed ? hr__error_memory(err, "union", 64) : hr_error_set(err, HR_TYPE, "%s", t.data);
    hr__text_clear(&t);
    return st;
}

static void fields_free(hr_field *fields, int n)
{
    for (int i = 0; fields && i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
}

hr_status hr__schema_unify(const hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)a->n + (size_t)b->n + 1) * sizeof *fields);
    hr_type *type = NULL;
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "union", (a->n + b->n) * (int64_t)sizeof *fields);
    for (int i = 0; i < a->n + b->n; i++) {
        bool first = i < a->n;
        const hr_field *f = first ? &a->fields[i] : &b->fields[i - a->n];
        int other = first ? hr__schema_find(b, f->name) : hr__schema_find(a, f->name);

        if (!first && other >= 0)
            continue;
        HR_GO(hr__field_copy(&fields[n], f, err));
        n++;
        if (other < 0) {
            fields[n - 1].nullable = true;
            continue;
        }
        HR_GO(hr__type_unify(f->type, b->fields[other].type, &type, err));
        if (!type)
            HR_GO(differs(f, b->fields[other].type, err));
        hr__type_unref(fields[n - 1].type);
        fields[n - 1].type = type;
        fields[n - 1].nullable = f->nullable || b->fields[other].nullable;
        type = NULL;
    }
    HR_GO(hr__schema_new(fields, n, out, err));
done:
    fields_free(fields, n);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- one table */

static hr_status new_column(const hr_schema *s, const char *name, hr_error *err)
{
    char names[200];

    hr__schema_names(s, names, sizeof names);
    return hr_error_set(
        err, HR_TYPE,
        "union: column '%s' of a function's rows is not in the inputs before it, whose columns are %s: put "
        "that input first, or materialize() it before",
        name, names);
}

static hr_status unified(const hr_mem *mem, hr_array *a, const hr_field *to, hr_array **out, hr_error *err)
{
    bool widens = false;
    hr_status st;

    *out = NULL;
    HR_TRY(hr__type_widens(a->type, to->type, &widens, err));
    if (!widens)
        return hr__error_at(err, differs(to, a->type, err), "union");
    st = hr__array_unify(mem, a, to->type, out, err);
    return st ? hr__error_at(err, st, "union: column '%s'", to->name) : HR_OK;
}

/* `in`: a column that this has and t lacks is unwanted; NULL: it is null. */
static hr_status fit(const hr_mem *mem, const hr_table *t, hr_schema *to, const hr_schema *in, hr_table **out,
                     hr_error *err)
{
    hr_array **columns = hr__zalloc(NULL, ((size_t)to->n + 1) * sizeof(hr_array *));
    hr_field *fields = hr__zalloc(NULL, ((size_t)to->n + 1) * sizeof *fields);
    hr_schema *schema = NULL;
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    if (!columns || !fields)
        HR_GO(hr__error_memory(err, "union", to->n * (int64_t)sizeof *fields));
    for (int i = 0; i < to->n; i++) {
        int at = hr__schema_find(t->schema, to->fields[i].name);

        if (at < 0 && in && hr__schema_find(in, to->fields[i].name) >= 0)
            continue;
        fields[n] = to->fields[i]; /* borrowed: hr__schema_new copies */
        if (at < 0)
            HR_GO(hr__array_nulls(mem, fields[n].type, t->n_rows, &columns[n], err));
        else
            HR_GO(unified(mem, t->columns[at], &fields[n], &columns[n], err));
        n++;
    }
    if (n == to->n)
        schema = hr__schema_ref(to);
    else
        HR_GO(hr__schema_new(fields, n, &schema, err));
    n = 0; /* taken */
    st = hr__table_new(schema, columns, t->n_rows, t->origin, out, err);
done:
    while (n-- > 0)
        hr__array_unref(columns[n]);
    hr__free(columns);
    hr__free(fields);
    hr__schema_unref(schema);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- running */

static hr_status union_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    const union_op *u = (const union_op *)op;
    union_run *r = hr__zalloc(run->account, sizeof *r);

    if (!(run->state = r))
        return hr__error_memory(err, "union", sizeof *r);
    if (u->settled)
        r->schema = hr__schema_ref(u->known);
    atomic_store(&run->settled, u->settled);
    return HR_OK;
}

static void union_stop(const hr_op *op, hr_op_run *run)
{
    union_run *r = run->state;

    (void)op;
    if (r) {
        hr__schema_unref(r->schema);
        hr__remembered_clear(&r->remembered);
    }
    hr__free(r);
    run->state = NULL;
}

static void union_remember(const hr_op *op, const hr_op_run *run, const char *state, hr_text *out)
{
    const union_run *r = run->state;

    (void)op;
    (void)state;
    if (atomic_load_explicit(&run->settled, memory_order_acquire) && r->remembered.text)
        hr__text_add(out, "%s", r->remembered.text);
}

static hr_status union_restore(const hr_op *op, hr_op_run *run, const char *state, hr_error *err)
{
    union_run *r = run->state;
    bool *marks = NULL;

    if (((const union_op *)op)->settled || run->other_code)
        return HR_OK;
    HR_TRY(hr__remembered_recall(&r->remembered, state, (int64_t)strlen(state), &r->schema, &marks, err));
    hr__free(marks);
    atomic_store_explicit(&run->settled, r->schema != NULL, memory_order_release);
    return HR_OK;
}

static hr_status give(const union_op *u, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    union_run *r = run->state;
    hr_table *out = NULL;
    hr_status st = HR_OK;

    if (!atomic_load_explicit(&run->settled, memory_order_acquire)) {
        st = hr__schema_unify(in->schema, u->known, &r->schema, err);
        if (!st)
            st = hr__remembered_set(&r->remembered, r->schema, NULL, err);
        if (st)
            return hr__error_at(err, st, "union");
        atomic_store_explicit(&run->settled, true, memory_order_release);
    }
    for (int i = 0; i < in->schema->n && !u->in; i++)
        if (hr__schema_find(r->schema, in->schema->fields[i].name) < 0)
            return new_column(r->schema, in->schema->fields[i].name, err);
    if (in->schema == r->schema)
        out = hr_table_ref((hr_table *)in);
    else
        HR_TRY(fit(hr__task_mem(task), in, r->schema, u->in, &out, err));
    return hr__task_emit(task, &out, err);
}

static hr_status union_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);

    if (in->n_rows == 0)
        return HR_OK;
    if (atomic_load_explicit(&run->settled, memory_order_acquire) || hr__task_is_first(task))
        return give((const union_op *)op, task, in, err);
    *hr__task_state(task) = hr_table_ref((hr_table *)in);
    hr__task_await_turn(task);
    return HR_PENDING;
}

static hr_status union_resumed(const hr_op *op, hr_task *task, hr_error *err)
{
    hr_table *in = *hr__task_state(task);
    hr_status st;

    *hr__task_state(task) = NULL;
    st = give((const union_op *)op, task, in, err);
    hr_table_unref(in);
    return st;
}

static void union_task_clear(const hr_op *op, hr_task *task)
{
    (void)op;
    hr_table_unref(*hr__task_state(task));
    *hr__task_state(task) = NULL;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static hr_status union_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const union_op *u = (const union_op *)op;

    (void)in;
    (void)err;
    *out = u->settled ? hr__schema_ref(u->known) : NULL;
    return HR_OK;
}

static void union_describe(const hr_op *op, hr_text *out)
{
    const union_op *u = (const union_op *)op;

    hr__text_add(out, "columns(");
    for (int i = 0; i < u->known->n; i++)
        hr__text_add(out, "%s%s", i ? ", " : "", u->known->fields[i].name);
    hr__text_add(out, "%s)", u->settled ? "" : " and those of the first rows");
}

static void union_fingerprint(const hr_op *op, hr_hash *h)
{
    const union_op *u = (const union_op *)op;

    for (int i = 0; i < u->known->n; i++)
        hr__hash_text(h, u->known->fields[i].name);
    hr__hash_int(h, u->settled);
}

static void union_free(hr_op *op)
{
    union_op *u = (union_op *)op;

    hr__schema_unref(u->in);
    hr__schema_unref(u->known);
    hr__free(u);
}

/* The wanted columns that the input has. After a union all columns, since only the first rows tell them. */
static hr_status union_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const union_op *u = (const union_op *)op;

    (void)input;
    out->n = u->in && n >= 0 ? 0 : -1;
    for (int i = 0; i < n && u->in; i++)
        if (hr__schema_find(u->in, wanted[i]) >= 0)
            HR_TRY(hr__needs_add(out, wanted[i], err));
    return HR_OK;
}

static hr_status union_narrow(const hr_op *op, const char *const *wanted, int n, hr_op **out, hr_error *err)
{
    const union_op *u = (const union_op *)op;
    hr_field *fields = hr__zalloc(NULL, ((size_t)u->known->n + 1) * sizeof *fields);
    hr_schema *some = NULL;
    hr_status st = HR_OK;
    int n_fields = 0;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "union", u->known->n * (int64_t)sizeof *fields);
    if (!u->in)
        goto done;
    for (int i = 0; i < u->known->n; i++)
        for (int k = 0; k < n; k++)
            if (!strcmp(u->known->fields[i].name, wanted[k])) {
                fields[n_fields++] = u->known->fields[i]; /* borrowed: hr__schema_new copies */
                break;
            }
    HR_GO(hr__schema_new(fields, n_fields, &some, err));
    st = hr__op_union_columns(u->in, some, true, out, err);
done:
    hr__free(fields);
    hr__schema_unref(some);
    return st;
}

static const hr_op_class union_columns_class = {
    .name = "columns",
    .doc = "tables of several inputs under one schema",
    .kind = HR_OP_MAP,
    .one_to_one = true,
    .row_local = true,
    .needs = union_needs,
    .narrow = union_narrow,
    .schema = union_schema,
    .start = union_start,
    .stop = union_stop,
    .push = union_push,
    .resumed = union_resumed,
    .restore_run = union_restore,
    .remember = union_remember,
    .task_clear = union_task_clear,
    .describe = union_describe,
    .fingerprint = union_fingerprint,
    .free = union_free,
};

hr_status hr__op_union_columns(hr_schema *in, hr_schema *known, bool settled, hr_op **out, hr_error *err)
{
    union_op *u = hr__zalloc(NULL, sizeof *u);

    *out = NULL;
    if (!u)
        return hr__error_memory(err, "union", sizeof *u);
    hr__op_init(&u->base, &union_columns_class);
    u->in = in ? hr__schema_ref(in) : NULL;
    u->known = hr__schema_ref(known);
    u->settled = settled;
    *out = &u->base;
    return HR_OK;
}
