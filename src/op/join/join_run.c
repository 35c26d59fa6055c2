/* join_run.c - shared by the modes of a join: schemas, held tables, right rows without a partner.
 *
 * Tests: test_keyed.c. */
#include "op/join/join_modes.h"

/* ---------------------------------------------------------------------------------------------------------- columns */

hr_join_names hr__join_names_of(const hr_join_op *o)
{
    return (hr_join_names){ .left_keys = (const char *const *)o->left_keys,
                            .right_keys = (const char *const *)o->right_keys,
                            .n_keys = o->n_keys,
                            .left_suffix = o->left_suffix,
                            .right_suffix = o->right_suffix };
}

bool hr__join_keeps_right(hr_join_kind kind) { return kind == HR_JOIN_RIGHT || kind == HR_JOIN_FULL; }

hr_status hr__join_key_columns(const hr_schema *s, char *const *keys, int n, int *out, hr_error *err)
{
    for (int k = 0; k < n; k++)
        if ((out[k] = hr__schema_find(s, keys[k])) < 0)
            return hr__schema_missing(s, keys[k], err);
    return HR_OK;
}

hr_status hr__join_settle(hr_schema **schema, hr_schema *found, const char *where, hr_error *err)
{
    if (!*schema)
        *schema = hr__schema_ref(found);
    return hr__same_schema(found, *schema, where, err);
}

/* The schema of a side that gave no row and is not known otherwise: its keys, with the types of the other side's keys.
 * *out is new. */
static hr_status assumed_schema(char *const *keys, char *const *other_keys, int n, const hr_schema *other,
                                hr_schema **out, hr_error *err)
{
    hr_field fields[HR_MAX_KEYS];

    *out = NULL;
    for (int k = 0; k < n; k++) {
        int at = hr__schema_find(other, other_keys[k]);

        if (at < 0)
            return hr__schema_missing(other, other_keys[k], err);
        fields[k] = other->fields[at]; /* borrowed: hr__schema_new copies */
        fields[k].name = keys[k];
    }
    return hr__schema_new(fields, n, out, err);
}

/* Makes an empty table of keys with the left schema's types. */
hr_status hr__join_assume_right(const hr_join_op *o, hr_join_run *j, const hr_schema *left, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    HR_TRY(assumed_schema(o->right_keys, o->left_keys, o->n_keys, left, &j->right, err));
    for (int k = 0; k < o->n_keys; k++)
        keys[k] = k;
    HR_TRY(hr__table_empty(j->right, &rows, err));
    return hr__join_table_new(keys, o->n_keys, rows, NULL, j->account, &j->table, err);
}

/* Makes the bound join on the first call. */
hr_status hr__join_bound_of(const hr_join_op *o, hr_join_run *j, hr_schema *left, const hr_join_bound **out,
                            hr_error *err)
{
    hr_join_names names = hr__join_names_of(o);
    hr_schema *right, *assumed = NULL;
    hr_status st = HR_OK;

    hr__lock(&j->lock);
    if (!j->bound) {
        if (!j->right && !o->right) /* no right row came, so there is a left schema */
            HR_GO(hr__join_assume_right(o, j, left, err));
        right = j->right ? j->right : o->right;
        if (!left)
            HR_GO(assumed_schema(o->left_keys, o->right_keys, o->n_keys, right, &assumed, err));
        left = left ? left : assumed;
        if (!o->layout)
            HR_GO(hr__join_layout(o->kind, &names, left, right, &j->layout, err));
        HR_GO(hr__join_bind(o->layout ? o->layout : j->layout, &names, left, right, &j->bound, err));
    }
    if (left)
        HR_GO(hr__same_schema(left, j->bound->left_in, " of the left side", err));
    *out = j->bound;
done:
    hr__unlock(&j->lock);
    hr__schema_unref(assumed);
    return st;
}

/* ------------------------------------------------------------------------------------------------------ held tables */

void hr__join_forget_held(hr_join_run *j)
{
    for (int64_t i = 0; i < j->held.n; i++)
        hr_table_unref(j->held.tables[i]);
    hr__free(j->held.tables);
    j->held = (hr_join_held){ 0 };
}

hr_status hr__join_hold(const hr_join_op *o, hr_join_run *j, int input, int64_t most, const hr_table *in,
                        hr_op_run *run, hr_error *err)
{
    if (!hr__grow(run->account, (void **)&j->held.tables, &j->held.cap, j->held.n + 1, sizeof *j->held.tables))
        return hr__error_memory(err, "join", j->held.n * 8);
    j->held.tables[j->held.n++] = hr_table_ref((hr_table *)in);
    j->held.n_bytes += hr__table_bytes_used(in);
    j->held.n_rows += in->n_rows;
    if (2 * j->held.n_bytes <= most && j->held.n_rows <= HR_JOIN_MAX_ROWS)
        return HR_OK;
    return hr__join_begin_partitions(o, j, input, run, err);
}

/* Concatenates tables column by column. */
typedef struct joining {
    hr_mem mem;
    hr_table *const *tables;
    int64_t n;
    hr_array **columns;
} joining;

/* Whether the parts are neighbouring slices of one array in memory. */
static bool are_neighbours(hr_array *const *parts, int64_t n)
{
    const hr_array *first = parts[0];
    int64_t end = first->offset;

    for (int64_t i = 0; i < n; i++) {
        const hr_array *a = parts[i];

        if (a->n_children || a->offset != end || a->buffers[0] != first->buffers[0] ||
            a->buffers[1] != first->buffers[1] || a->buffers[2] != first->buffers[2])
            return false;
        end += a->length;
    }
    return true;
}

static hr_status whole_of(hr_array *const *parts, int64_t n, hr_array **out, hr_error *err)
{
    const hr_array *first = parts[0];
    int64_t length = parts[n - 1]->offset + parts[n - 1]->length - first->offset;
    hr_buffer *buffers[3];

    for (int b = 0; b < 3; b++)
        buffers[b] = first->buffers[b] ? hr__buffer_ref(first->buffers[b]) : NULL;
    HR_TRY(hr__array_new(first->type, length, -1, buffers, NULL, 0, out, err));
    (*out)->offset = first->offset; /* no other owner yet */
    return HR_OK;
}

static hr_status join_column(void *context, int64_t c, hr_error *err)
{
    joining *k = context;
    hr_array **parts = hr__alloc(k->mem.account, (size_t)k->n * sizeof(hr_array *));
    hr_status st;

    if (!parts)
        return hr__error_memory(err, "join", k->n * 8);
    for (int64_t i = 0; i < k->n; i++)
        parts[i] = k->tables[i]->columns[c];
    if (are_neighbours(parts, k->n))
        st = whole_of(parts, k->n, &k->columns[c], err);
    else
        st = hr__array_concat(&k->mem, parts[0]->type, parts, (int)k->n, &k->columns[c], err);
    hr__free(parts);
    return st;
}

hr_status hr__join_held_rows(hr_join_run *j, hr_schema *schema, hr_task *task, hr_table **out, hr_error *err)
{
    hr_account *account = hr__task_run(task)->account;
    joining k = { .mem = { .account = account }, .tables = j->held.tables, .n = j->held.n };
    hr_status st = HR_OK;

    if (!k.n)
        return hr__table_empty(schema, out, err);
    schema = j->held.tables[0]->schema;
    if (!(k.columns = hr__zalloc(account, ((size_t)schema->n + 1) * sizeof(hr_array *))))
        return hr__error_memory(err, "join", schema->n * 8);
    st = hr__task_share(task, schema->n, join_column, &k, err);
    if (!st)
        st = hr__table_new(schema, k.columns, j->held.n_rows, NULL, out, err);
    else
        for (int c = 0; c < schema->n; c++)
            hr__array_unref(k.columns[c]);
    hr__free(k.columns);
    hr__join_forget_held(j);
    return st;
}

/* -------------------------------------------------------------------------------- right rows that no left row had */

#define BLOCK_PART_ROWS 65536

hr_status hr__join_count_unmatched(const hr_join_op *o, hr_join_run *j, hr_account *account, hr_error *err)
{
    const hr_join_table *t = j->table;
    uint32_t *ids = NULL;
    int32_t *rows = NULL;
    hr_status st = HR_OK;
    int64_t n;

    if (!hr__join_keeps_right(o->kind) || !j->n_right)
        return HR_OK;
    n = (t->rows->n_rows + BLOCK_PART_ROWS - 1) / BLOCK_PART_ROWS;
    ids = hr__alloc(account, BLOCK_PART_ROWS * sizeof *ids);
    rows = hr__alloc(account, BLOCK_PART_ROWS * sizeof *rows);
    j->unmatched.before = hr__zalloc(account, (size_t)(n + 1) * sizeof *j->unmatched.before);
    if (!ids || !rows || !j->unmatched.before)
        HR_GO(hr__error_memory(err, "join", n * 8));
    for (int64_t p = 0; p < n; p++) {
        int64_t begin = p * BLOCK_PART_ROWS, some = HR_MIN(BLOCK_PART_ROWS, t->rows->n_rows - begin);

        j->unmatched.before[p + 1] = j->unmatched.before[p] + hr__join_alone(t, begin, some, ids, rows);
    }
    j->unmatched.n = n;
done:
    hr__free(ids);
    hr__free(rows);
    return st;
}

typedef struct unmatched_reader {
    hr_reader base;
    hr_join_run *run;
    hr_mem mem;
    int64_t block_part, row, end, first;
} unmatched_reader;

static void unmatched_close(hr_reader *r) { hr__free(r); }

static hr_status next_unmatched(hr_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    unmatched_reader *j = (unmatched_reader *)r;
    hr_origin *origin = NULL;
    hr_table *found = NULL;
    hr_status st = HR_OK;

    (void)max_bytes;
    *out = NULL;
    if (j->row >= j->end || j->run->unmatched.before[j->block_part] == j->run->unmatched.before[j->block_part + 1])
        return HR_OK;
    HR_GO(hr__join_unmatched(j->run->bound, j->run->table, &j->row, &j->mem, &found, NULL, err));
    HR_GO(hr__origin_new(&(hr_run_coords){ .first = { .row = j->first }, .n = found->n_rows }, 1, &origin, err));
    st = hr__table_with_origin(found, origin, out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(found);
    return st;
}

static const hr_reader_class unmatched_reading = { .next = next_unmatched, .close = unmatched_close };

hr_status hr__join_unmatched_read(hr_join_run *j, hr_op_run *run, int64_t block_part, const hr_mem *mem,
                                  hr_reader **out, hr_error *err)
{
    unmatched_reader *r = hr__zalloc(run->account, sizeof *r);

    if (!r)
        return hr__error_memory(err, "join", sizeof *r);
    r->base.cls = &unmatched_reading;
    r->run = j;
    r->mem = *mem;
    r->block_part = block_part;
    r->row = block_part * BLOCK_PART_ROWS;
    r->end = HR_MIN(j->table->rows->n_rows, r->row + BLOCK_PART_ROWS);
    r->first = j->n_out + j->unmatched.before[block_part];
    *out = &r->base;
    return HR_OK;
}
