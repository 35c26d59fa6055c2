/* side_by_side.c - puts the columns of several inputs side by side: row i of each makes row i.
 *
 * An output table ends where an input table ends; columns are shared, never copied. The operator reads the input with
 * the fewest waiting rows next, so that few rows wait.
 *
 * Names. The columns of the first input keep theirs; a column of a later input with the same name gets "_1", or "_2",
 * ... as in Ray. If the constructor knows the schemas, it chooses the names, and unwanted columns are not read; else
 * the first tables decide.
 *
 * A marker has the markers of all inputs, each with the number of rows taken after it (waiting.c).
 *
 * If an input ends before another, the operator reads the others to their ends, so that the error has the rows of each.
 *
 * Tests: test_combine.c. */
#include "op/rows/waiting.h"

#include <inttypes.h>
#include <stdio.h>

/* A column of an input, and its output name. */
typedef struct column_name {
    char *name, *out;
} column_name;
typedef struct input_names {
    column_name *columns;
    int n;
} input_names;

typedef struct zip_op {
    hr_op base;
    int n;
    input_names *names; /* n; NULL: the constructor does not know them */
} zip_op;

typedef struct zip_state {
    hr_waiting *inputs;
    hr_schema **schemas; /* of the inputs' last tables that `schema` was made for */
    hr_schema *schema;
    input_names *names; /* from the first tables */
    int64_t n_rows;     /* emitted */
    bool uneven;
    bool begun; /* a marker lies before the first row */
} zip_state;

/* ------------------------------------------------------------------------------------------------------------ names */

static void names_free(input_names *names, int n)
{
    for (int i = 0; names && i < n; i++) {
        for (int k = 0; k < names[i].n; k++) {
            hr__free(names[i].columns[k].name);
            hr__free(names[i].columns[k].out);
        }
        hr__free(names[i].columns);
    }
    hr__free(names);
}

static bool is_taken(const input_names *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < names[i].n; k++)
            if (names[i].columns[k].out && !strcmp(names[i].columns[k].out, name))
                return true;
    return false;
}

static hr_status name_column(const input_names *names, int n, const char *name, column_name *out, hr_error *err)
{
    out->name = hr__strdup(NULL, name);
    out->out = hr__strdup(NULL, name);
    for (int i = 1; out->out && is_taken(names, n, out->out); i++) {
        hr__free(out->out);
        out->out = hr__printf(NULL, "%s_%d", name, i);
    }
    return out->name && out->out ? HR_OK : hr__error_memory(err, "zip", (int64_t)strlen(name));
}

static hr_status settle_names(hr_schema *const *schemas, int n, input_names **out, hr_error *err)
{
    hr_status st = HR_OK;
    input_names *names = hr__zalloc(NULL, (size_t)n * sizeof *names);

    *out = NULL;
    if (!names)
        return hr__error_memory(err, "zip", n * (int64_t)sizeof *names);
    for (int i = 0; i < n; i++) {
        if (!(names[i].columns = hr__zalloc(NULL, ((size_t)schemas[i]->n + 1) * sizeof *names[i].columns)))
            HR_GO(hr__error_memory(err, "zip", schemas[i]->n * (int64_t)sizeof *names[i].columns));
        for (int k = 0; k < schemas[i]->n; k++) {
            column_name c = { NULL, NULL };

            st = name_column(names, i ? i + 1 : 0, schemas[i]->fields[k].name, &c, err);
            names[i].columns[k] = c;
            names[i].n = k + 1;
            HR_GO(st);
        }
    }
    *out = names;
    names = NULL;
done:
    names_free(names, n);
    return st;
}

/* The output name of column k of this schema of input i; NULL: the column is new. */
static const char *out_name(const input_names *names, const hr_schema *s, int k)
{
    if (k < names->n && !strcmp(names->columns[k].name, s->fields[k].name))
        return names->columns[k].out;
    for (int i = 0; i < names->n; i++)
        if (!strcmp(names->columns[i].name, s->fields[k].name))
            return names->columns[i].out;
    return NULL;
}

static hr_status joined_schema(const input_names *names, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    hr_status st = HR_OK;
    int n_fields = 0;
    hr_field *fields = NULL;

    for (int i = 0; i < n; i++)
        n_fields += ins[i]->n;
    if (!(fields = hr__alloc(NULL, ((size_t)n_fields + 1) * sizeof *fields)))
        return hr__error_memory(err, "zip", n_fields * (int64_t)sizeof *fields);
    n_fields = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < ins[i]->n; k++) {
            const char *name = out_name(&names[i], ins[i], k);

            if (!name)
                HR_FAIL(HR_TYPE, "zip: input %d has a column '%s' that it did not have before", i,
                        ins[i]->fields[k].name);
            fields[n_fields] = ins[i]->fields[k]; /* borrowed */
            fields[n_fields++].name = (char *)name;
        }
    st = hr__schema_new(fields, n_fields, out, err);
done:
    hr__free(fields);
    return st;
}

static hr_status zip_schema_of(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    input_names *names = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (((const zip_op *)op)->names)
        return joined_schema(((const zip_op *)op)->names, ins, n, out, err);
    HR_TRY(settle_names(ins, n, &names, err));
    st = joined_schema(names, ins, n, out, err);
    names_free(names, n);
    return st;
}

static hr_status zip_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const zip_op *o = (const zip_op *)op;

    out->n = n < 0 || !o->names ? -1 : 0;
    for (int i = 0; out->n >= 0 && i < n; i++)
        for (int k = 0; k < o->names[input].n; k++)
            if (!strcmp(o->names[input].columns[k].out, wanted[i]))
                HR_TRY(hr__needs_add(out, o->names[input].columns[k].name, err));
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ state */

static hr_status state_of(const hr_op *op, hr_task *task, zip_state **out, hr_error *err)
{
    int n = ((const zip_op *)op)->n;
    hr_account *account = hr__task_run(task)->account;
    zip_state *s = *hr__task_state(task);

    if (!s) {
        if (!(s = *hr__task_state(task) = hr__zalloc(account, sizeof *s)))
            return hr__error_memory(err, "zip", sizeof *s);
        s->inputs = hr__zalloc(account, (size_t)n * sizeof *s->inputs);
        s->schemas = hr__zalloc(account, (size_t)n * sizeof *s->schemas);
    }
    *out = s;
    return s->inputs && s->schemas ? HR_OK : hr__error_memory(err, "zip", n * (int64_t)sizeof *s->inputs);
}

static void zip_task_clear(const hr_op *op, hr_task *task)
{
    int n = ((const zip_op *)op)->n;
    zip_state *s = *hr__task_state(task);

    if (!s)
        return;
    for (int i = 0; i < n; i++) {
        if (s->inputs)
            hr__waiting_clear(&s->inputs[i]);
        if (s->schemas)
            hr__schema_unref(s->schemas[i]);
    }
    hr__schema_unref(s->schema);
    names_free(s->names, n);
    hr__free(s->inputs);
    hr__free(s->schemas);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* --------------------------------------------------------------------------------------------------------- the rows */

/* Sets s->schema for the first waiting tables. */
static hr_status settle_schema(const zip_op *o, zip_state *s, hr_error *err)
{
    bool same = s->schema != NULL;

    for (int i = 0; i < o->n; i++) {
        hr_schema *now = hr__waiting_first(&s->inputs[i])->schema;

        same = same && now == s->schemas[i];
        if (now != s->schemas[i]) {
            hr__schema_unref(s->schemas[i]);
            s->schemas[i] = hr__schema_ref(now);
        }
    }
    if (same)
        return HR_OK;
    if (!o->names && !s->names)
        HR_TRY(settle_names(s->schemas, o->n, &s->names, err));
    hr__schema_unref(s->schema);
    s->schema = NULL;
    return joined_schema(o->names ? o->names : s->names, s->schemas, o->n, &s->schema, err);
}

/* Emits the next n rows, which the first table of each input has. */
static hr_status emit(const zip_op *o, zip_state *s, hr_task *task, int64_t n, hr_error *err)
{
    hr_status st = HR_OK;
    hr_run_coords coords = { .first = { .row = s->n_rows }, .n = n };
    hr_array **columns = hr__zalloc(hr__task_run(task)->account, ((size_t)s->schema->n + 1) * sizeof(hr_array *));
    hr_origin *origin = NULL;
    hr_table *t = NULL;
    int n_columns = 0;

    if (!columns)
        return hr__error_memory(err, "zip", s->schema->n * (int64_t)sizeof(hr_array *));
    HR_GO(hr__origin_new(&coords, 1, &origin, err));
    for (int i = 0; i < o->n; i++) {
        const hr_table *in = hr__waiting_first(&s->inputs[i]);

        for (int k = 0; k < in->schema->n; k++, n_columns++)
            HR_GO(hr__array_slice(in->columns[k], s->inputs[i].at, n, &columns[n_columns], err));
    }
    st = hr__table_new(s->schema, columns, n, origin, &t, err);
    n_columns = 0; /* taken */
    HR_GO(st);
    HR_GO(hr__task_emit(task, &t, err));
    for (int i = 0; i < o->n; i++)
        hr__waiting_take(&s->inputs[i], n);
    s->n_rows += n;
    hr__waiting_pass(s->inputs, o->n, task);
done:
    for (int i = 0; i < n_columns; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    hr__origin_unref(origin);
    return st;
}

/* The number of rows that all first tables have. */
static int64_t rows_at_hand(const zip_op *o, const zip_state *s)
{
    int64_t n = INT64_MAX;

    for (int i = 0; i < o->n; i++)
        n = HR_MIN(n, hr__waiting_left(&s->inputs[i]));
    return n;
}

/* The input with the fewest waiting rows. After the early end of one the others are only counted. */
static void ask(const zip_op *o, zip_state *s, hr_task *task)
{
    int least = 0;

    for (int i = 0; i < o->n; i++)
        s->uneven = s->uneven || (s->inputs[i].ended && s->inputs[i].n_rows == 0);
    for (int i = 0; s->uneven && i < o->n; i++)
        hr__waiting_drop(&s->inputs[i]);
    for (int i = 1; i < o->n; i++)
        if (s->inputs[least].ended || (!s->inputs[i].ended && s->inputs[i].n_rows < s->inputs[least].n_rows))
            least = i;
    hr__task_want(task, least);
}

static hr_status zip_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const zip_op *o = (const zip_op *)op;
    zip_state *s = NULL;
    int64_t n;

    HR_TRY(state_of(op, task, &s, err));
    HR_TRY(hr__waiting_add(&s->inputs[hr__task_input(task)], hr__task_run(task)->account, in, err));
    while (!s->uneven && (n = rows_at_hand(o, s)) > 0 && !hr__task_cancelled(task)) {
        HR_TRY(settle_schema(o, s, err));
        if (!s->begun)
            hr__waiting_pass(s->inputs, o->n, task);
        s->begun = true;
        HR_TRY(emit(o, s, task, n, err));
    }
    ask(o, s, task);
    return HR_OK;
}

static hr_status zip_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    zip_state *s = NULL;
    hr_status st = state_of(op, task, &s, err);

    if (st)
        hr__marker_drop(takes);
    else
        hr__waiting_mark(&s->inputs[hr__task_input(task)], hr__task_run(task)->account, takes);
    return st;
}

static hr_status zip_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    zip_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    HR_TRY(hr__waiting_restore(s->inputs, ((const zip_op *)op)->n, task, state, err));
    s->n_rows = hr__waiting_taken(&s->inputs[0]);
    ask((const zip_op *)op, s, task);
    return HR_OK;
}

static hr_status zip_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    zip_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    s->inputs[input].ended = true;
    ask((const zip_op *)op, s, task);
    return HR_OK;
}

static hr_status zip_finish(const hr_op *op, hr_task *task, hr_error *err)
{
    const zip_op *o = (const zip_op *)op;
    zip_state *s = *hr__task_state(task);
    hr_text counts = { 0 };
    hr_status st = HR_OK;
    bool equal = true;

    for (int i = 0; s && i < o->n; i++) {
        equal = equal && s->inputs[i].n_seen == s->inputs[0].n_seen;
        hr__text_add(&counts, "%s%" PRId64, i ? ", " : "", s->inputs[i].n_seen);
    }
    if (!equal)
        st = hr_error_set(err, HR_INVALID, "zip: the datasets have different numbers of rows: %s",
                          counts.data ? counts.data : "?");
    hr__text_clear(&counts);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static void zip_describe(const hr_op *op, hr_text *out) { hr__text_add(out, "zip(%d)", ((const zip_op *)op)->n); }
static void zip_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_int(h, ((const zip_op *)op)->n); }

static void zip_free(hr_op *op)
{
    names_free(((zip_op *)op)->names, ((zip_op *)op)->n);
    hr__free(op);
}

static const hr_op_class zip_class = {
    .name = "zip",
    .doc = "the columns of several inputs side by side",
    .kind = HR_OP_STREAM,
    .inputs = HR_INPUTS_CHOSEN,
    .schema_of = zip_schema_of,
    .needs = zip_needs,
    .push = zip_push,
    .ended = zip_ended,
    .finish = zip_finish,
    .task_clear = zip_task_clear,
    .marker = zip_marker,
    .restore = zip_restore,
    .describe = zip_describe,
    .fingerprint = zip_fingerprint,
    .free = zip_free,
};

hr_status hr__op_zip(hr_schema *const *schemas, int n, hr_op **out, hr_error *err)
{
    hr_status st = HR_OK;
    bool known = true;
    zip_op *o;

    *out = NULL;
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "zip", sizeof *o);
    hr__op_init(&o->base, &zip_class);
    o->n = n;
    for (int i = 0; i < n; i++)
        known = known && schemas[i];
    if (known)
        st = settle_names(schemas, n, &o->names, err);
    if (st)
        zip_free(&o->base);
    else
        *out = &o->base;
    return st;
}
