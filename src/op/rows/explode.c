/* explode.c - lists become rows: a row for each value of a column's lists, the other columns repeated.
 *
 * A null or empty list gives one row with a null. A table goes out in pieces of PIECE_ROWS rows at most, and of about
 * PIECE_BYTES, since lists may be long and the repeated columns wide. */
#include "op/operators.h"

#define PIECE_ROWS 65536
#define PIECE_BYTES (16 << 20)
#define LEVEL_BITS 20 /* ordinals of rows that come from an ordinal: disjoint up to 2^20 values a list */

typedef struct explode_op {
    hr_op base;
    char *column;
} explode_op;

static bool is_list(const hr_type *t)
{
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || t->id == HR_T_FIXED_LIST;
}

static hr_status list_column(const hr_op *op, const hr_schema *in, int *out, hr_error *err)
{
    const char *column = ((const explode_op *)op)->column;
    hr_text type = { 0 };
    hr_status st = HR_OK;

    if ((*out = hr__schema_find(in, column)) < 0)
        return hr__error_at(err, hr__schema_missing(in, column, err), "explode");
    if (is_list(in->fields[*out].type))
        return HR_OK;
    hr__type_print(in->fields[*out].type, &type);
    st = hr_error_set(err, HR_TYPE, "explode: column '%s' is %s, expected lists", column, type.data ? type.data : "");
    hr__text_clear(&type);
    return st;
}

static hr_status explode_schema(const hr_op *op, const hr_schema *in, hr_schema **out, hr_error *err)
{
    hr_field *fields = NULL;
    hr_status st;
    int at = -1;

    HR_TRY(list_column(op, in, &at, err));
    if (!(fields = hr__zalloc(NULL, (size_t)in->n * sizeof *fields)))
        return hr__error_memory(err, "explode", in->n * (int64_t)sizeof *fields);
    memcpy(fields, in->fields, (size_t)in->n * sizeof *fields); /* borrowed: hr__schema_new copies */
    fields[at] =
        (hr_field){ .name = in->fields[at].name, .type = in->fields[at].type->children[0].type, .nullable = true };
    st = hr__schema_new(fields, in->n, out, err);
    hr__free(fields);
    return st;
}

static hr_status explode_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out,
                               hr_error *err)
{
    (void)input;
    out->n = HR_MIN(n, 0);
    for (int i = 0; i < n; i++)
        HR_TRY(hr__needs_add(out, wanted[i], err));
    return n < 0 ? HR_OK : hr__needs_add(out, ((const explode_op *)op)->column, err);
}

/* ------------------------------------------------------------------------------------------------------------ rows */

/* The rows of a piece: for each its input row, and its value's place in the list's child (-1: null). */
typedef struct piece {
    int64_t *rows, *values;
    hr_run_coords *runs; /* coordinates: a run for each input row in the piece */
    int64_t n, n_runs, most;
} piece;

static void piece_clear(piece *p)
{
    hr__free(p->rows);
    hr__free(p->values);
    hr__free(p->runs);
}

static hr_status piece_new(piece *p, const hr_table *in, hr_account *account, hr_error *err)
{
    int64_t row_bytes = in->n_rows ? hr__table_bytes_used(in) / in->n_rows : 0;

    p->most = HR_MAX(1, HR_MIN(PIECE_ROWS, PIECE_BYTES / HR_MAX(1, row_bytes)));
    p->rows = hr__alloc(account, (size_t)p->most * sizeof *p->rows);
    p->values = hr__alloc(account, (size_t)p->most * sizeof *p->values);
    p->runs = hr__alloc(account, (size_t)p->most * sizeof *p->runs);
    return p->rows && p->values && p->runs ? HR_OK : hr__error_memory(err, "explode", p->most * 64);
}

static hr_status piece_origin(const piece *p, const hr_table *in, hr_origin **out, hr_error *err)
{
    *out = NULL;
    return in->origin ? hr__origin_new(p->runs, p->n_runs, out, err) : HR_OK;
}

/* Emits the piece and empties it. */
static hr_status piece_emit(hr_task *task, const hr_table *in, int at, hr_schema *schema, piece *p, hr_error *err)
{
    const hr_mem *mem = hr__task_mem(task);
    hr_array **columns = hr__zalloc(mem->account, (size_t)schema->n * sizeof(hr_array *));
    hr_origin *origin = NULL;
    hr_table *out = NULL;
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, "explode", schema->n * (int64_t)sizeof *columns);
    for (int i = 0; i < schema->n; i++)
        if (i == at)
            HR_GO(hr__array_take(mem, in->columns[i]->children[0], p->values, 8, p->n, &columns[i], err));
        else
            HR_GO(hr__array_take(mem, in->columns[i], p->rows, 8, p->n, &columns[i], err));
    HR_GO(piece_origin(p, in, &origin, err));
    st = hr__table_new(schema, columns, p->n, origin, &out, err);
    memset(columns, 0, (size_t)schema->n * sizeof *columns);
    HR_GO(st);
    st = hr__task_emit(task, &out, err);
    p->n = p->n_runs = 0;
done:
    for (int i = 0; i < schema->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    hr__origin_unref(origin);
    return st;
}

/* Adds values [from, from + n) of row i; begin < 0: the one null of a row without values. */
static void piece_add(piece *p, const hr_table *in, int64_t i, int64_t from, int64_t n, int64_t begin)
{
    hr_coord c = in->origin ? hr__origin_at(in->origin, i) : (hr_coord){ 0 };

    c.ordinal = (int64_t)((uint64_t)c.ordinal << LEVEL_BITS) + from;
    p->runs[p->n_runs++] = (hr_run_coords){ c, n, true };
    for (int64_t k = 0; k < n; k++, p->n++) {
        p->rows[p->n] = i;
        p->values[p->n] = begin < 0 ? -1 : begin + from + k;
    }
}

static hr_status explode_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_schema *schema = NULL;
    hr_array *lists;
    piece p = { 0 };
    hr_status st = HR_OK;
    int at = -1;

    HR_TRY(list_column(op, in->schema, &at, err));
    lists = in->columns[at];
    HR_GO(explode_schema(op, in->schema, &schema, err));
    HR_GO(piece_new(&p, in, hr__task_mem(task)->account, err));
    for (int64_t i = 0; i < in->n_rows; i++) {
        int64_t begin = -1, n = 0, some;

        if (!hr__array_is_null(lists, i))
            hr__array_range(lists, i, &begin, &n);
        if (!n) {
            begin = -1;
            n = 1;
        }
        for (int64_t from = 0; from < n; from += some) {
            some = HR_MIN(n - from, p.most - p.n);
            piece_add(&p, in, i, from, some, begin);
            if (p.n == p.most)
                HR_GO(piece_emit(task, in, at, schema, &p, err));
        }
    }
    if (p.n)
        st = piece_emit(task, in, at, schema, &p, err);
done:
    piece_clear(&p);
    hr__schema_unref(schema);
    return st;
}

/* --------------------------------------------------------------------------------------------------- the operator */

static void explode_describe(const hr_op *op, hr_text *out)
{
    hr__text_add(out, "explode(%s)", ((const explode_op *)op)->column);
}

static void explode_fingerprint(const hr_op *op, hr_hash *h) { hr__hash_text(h, ((const explode_op *)op)->column); }

static void explode_free(hr_op *op)
{
    hr__free(((explode_op *)op)->column);
    hr__free(op);
}

static const hr_op_class explode_class = {
    .name = "explode",
    .doc = "a row for each value of a column's lists",
    .kind = HR_OP_MAP,
    .row_local = true,
    .schema = explode_schema,
    .needs = explode_needs,
    .push = explode_push,
    .describe = explode_describe,
    .fingerprint = explode_fingerprint,
    .free = explode_free,
};

hr_status hr__op_explode(const char *column, hr_op **out, hr_error *err)
{
    explode_op *o = hr__zalloc(NULL, sizeof *o);

    *out = NULL;
    if (!o || !(o->column = hr__strdup(NULL, column))) {
        hr__free(o);
        return hr__error_memory(err, "explode", (int64_t)strlen(column));
    }
    hr__op_init(&o->base, &explode_class);
    *out = &o->base;
    return HR_OK;
}
