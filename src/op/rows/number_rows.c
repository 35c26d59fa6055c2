/* number_rows.c - a column of int64 that counts the rows from 0. A stream operator, since a row's number depends on the
 * order. */
#include "op/operators.h"

#include <inttypes.h>

typedef struct number_op {
    hr_op base;
    char *name;
} number_op;

typedef struct number_state {
    int64_t next;
} number_state;

static hr_status number_state_of(hr_task *task, number_state **out, hr_error *err)
{
    void **slot = hr__task_state(task);

    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof(number_state))))
        return hr__error_memory(err, "number_rows", sizeof(number_state));
    *out = *slot;
    return HR_OK;
}

static hr_status number_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    const char *name = ((const number_op *)op)->name;

    if (hr__schema_find(in, name) >= 0)
        return hr_error_set(err, HR_INVALID, "number_rows: column '%s' exists already", name);
    return hr__schema_append(in, name, hr__type_simple(HR_T_INT64), false, out, err);
}

/* The wanted columns except its own; perhaps none: it counts rows without columns. */
static hr_status number_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                              hr_error *err)
{
    (void)input;
    out->n = HR_MIN(n, 0);
    for (int i = 0; i < n; i++)
        if (strcmp(wanted[i], ((const number_op *)op)->name) != 0)
            HR_TRY(hr__needs_add(out, wanted[i], err));
    return HR_OK;
}

/* n numbers from `first` on. */
static hr_status numbers(const hr_mem *mem, int64_t first, int64_t n, hr_array **out, hr_error *err)
{
    hr_buffer *b = NULL;

    HR_TRY(hr__buffer_new(mem, n * 8, &b, err));
    for (int64_t i = 0; i < n; i++)
        ((int64_t *)(void *)b->data)[i] = first + i;
    return hr__array_new(hr__type_simple(HR_T_INT64), n, 0, (hr_buffer *const[]){ NULL, b, NULL }, NULL, 0, out, err);
}

static hr_status number_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const hr_mem mem = { .account = hr__task_run(task)->account };
    hr_array *made = NULL;
    hr_schema *schema = NULL;
    hr_table *out = NULL;
    number_state *s = NULL;
    hr_status st = HR_OK;

    HR_GO(number_state_of(task, &s, err));
    HR_GO(number_schema(op, in->schema, &schema, err));
    HR_GO(numbers(&mem, s->next, in->n_rows, &made, err));
    HR_GO(hr__table_append(in, schema, made, in->origin, &out, err));
    s->next += in->n_rows;
    st = hr__task_emit(task, &out, err);
done:
    hr__schema_unref(schema);
    hr_table_unref(out);
    return st;
}

static hr_status number_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    number_state *s = NULL;
    hr_status st = number_state_of(task, &s, err);

    (void)op;
    if (st) {
        hr__marker_drop(takes);
        return st;
    }
    hr__task_pass_int(task, takes, "next", s->next);
    return HR_OK;
}

static hr_status number_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    number_state *s = NULL;
    int64_t next = -1;

    (void)op;
    if (!hr__state_int(state, "next", &next) || next < 0)
        return hr_error_set(err, HR_INVALID, "number_rows: '%s' is not a position", state);
    HR_TRY(number_state_of(task, &s, err));
    s->next = next;
    return HR_OK;
}

static void number_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "number_rows(%s)", ((const number_op *)op)->name);
}

static void number_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_text(h, ((const number_op *)op)->name); }

static void number_free(hr_op *op)
{
    hr__free(((number_op *)op)->name);
    hr__free(op);
}

static const hr_op_class number_rows_class = {
    .name = "number_rows",
    .doc = "all columns, and one that counts the rows from 0",
    .kind = HR_OP_STREAM,
    .schema = number_schema,
    .needs = number_needs,
    .push = number_push,
    .marker = number_marker,
    .restore = number_restore,
    .describe = number_describe,
    .fingerprint = number_fingerprint,
    .free = number_free,
};

hr_status hr__op_number_rows(const char *name, hr_op **out, hr_error *err)
{
    number_op *o = hr__zalloc(NULL, sizeof *o);

    *out = NULL;
    if (!o || !(o->name = hr__strdup(NULL, name))) {
        hr__free(o);
        return hr__error_memory(err, "number_rows", (int64_t)strlen(name));
    }
    hr__op_init(&o->base, &number_rows_class);
    *out = &o->base;
    return HR_OK;
}
