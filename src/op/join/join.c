/* join.c - rows of two inputs that have equal keys, side by side.
 *
 * The order is that of the left rows, those of one left row in the order of the right ones; then, of right and full
 * joins, the right rows that nobody had, in their order. A null in a key equals nothing, as in SQL.
 *
 * 1. Input 0, the right side, is kept. As long as it fits into the allowance it becomes a table of keys (join_table.c)
 *    when it has ended, and the left side streams: its rows are looked up in the front, in parallel, and go on at once.
 *    Where the left side is known to be the smaller one, it is the other way round: it comes first, is kept and looked
 *    up, and the right rows that have a partner are kept beside it (join_turned.c).
 * 2. If what is kept does not fit, both sides are *dealt* to partitions by the hash of their keys, which spill
 *    (store.h). Each partition is a piece (join_part.c). What comes out then carries a last column, its row's `place`:
 *    the number of the left row, or behind all of these that of the right one; arrange.c, right behind, brings the
 *    order back. */
#include "op/join/join.h"

#include "data/keys.h"
#include "op/store/store.h"

#define PARTS 256

typedef struct join_op {
    hr_op base;
    hr_join_kind kind;
    int n_keys;
    char **left_keys, **right_keys;
    char *left_suffix, *right_suffix;
    hr_schema *left, *right; /* where they are known before */
    hr_join_layout *layout;  /* if both are */
} join_op;

/* Of the run, shared with the front. */
typedef struct join_run {
    hr_account *account; /* borrowed */
    hr_mutex lock;       /* layout and bound are made */
    hr_join_layout *layout;
    hr_join_bound *bound;
    hr_schema *right; /* of the right tables */
    bool turns;       /* the left side comes first */
    hr_schema *left;  /* then: of its tables */
    /* the side that is kept, as it comes */
    hr_table **tables;
    int64_t n_tables, cap_tables, held_bytes, n_held, n_right;
    hr_join_table *table;   /* of the right side, when it has ended, if it fits */
    hr_join_turned *turned; /* when the left side has ended first, if it fits */
    int64_t left_bytes;     /* that it holds */
    hr_schema *numbered;    /* of the right tables that are looked up in it */
    atomic_bool dealing;
    hr_spill *spill;
    hr_store *right_parts, *left_parts;
    hr_schema *left_dealt, *right_dealt; /* with the column `place` */
    int64_t n_left, n_out;
    hr_join_parts parts;     /* the same, when they are read */
    int64_t *unmatched_rows; /* of each piece: where its right rows begin, and how many rows come before */
    int64_t n_unmatched;
} join_run;

static hr_join_names names_of(const join_op *o)
{
    return (hr_join_names){ .left_keys = (const char *const *)o->left_keys,
                            .right_keys = (const char *const *)o->right_keys,
                            .n_keys = o->n_keys,
                            .left_suffix = o->left_suffix,
                            .right_suffix = o->right_suffix };
}

/* ---------------------------------------------------------------------------------------------------------- columns */

static hr_status join_schema(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    const join_op *o = (const join_op *)op;
    hr_join_names names = names_of(o);
    hr_join_layout *l = NULL;
    hr_join_bound *b = NULL;
    hr_status st = HR_OK;

    (void)n;
    *out = NULL;
    if (!o->layout) /* else the names are settled, though inputs may come with fewer columns */
        HR_GO(hr__join_layout(o->kind, &names, ins[1], ins[0], &l, err));
    HR_GO(hr__join_bind(o->layout ? o->layout : l, &names, ins[1], ins[0], &b, err));
    *out = hr__schema_ref(b->out);
done:
    hr__join_layout_free(l);
    hr__join_bound_free(b);
    return st;
}

static bool is_wanted(const char *name, const char *const *wanted, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(wanted[i], name))
            return true;
    return false;
}

static hr_status join_needs(const hr_op *op, int input, const char *const *wanted, int n, hr_needs *out, hr_error *err)
{
    const join_op *o = (const join_op *)op;

    if (!o->layout || (n < 0 && (input || o->kind < HR_JOIN_SEMI))) {
        out->n = -1;
        return HR_OK;
    }
    for (int k = 0; k < o->n_keys; k++)
        HR_TRY(hr__needs_add(out, input ? o->left_keys[k] : o->right_keys[k], err));
    for (int i = 0; i < o->layout->n_columns; i++) {
        const hr_join_column *c = &o->layout->columns[i];

        if (c->right == (input == 0) && (n < 0 || is_wanted(c->name, wanted, n)))
            HR_TRY(hr__needs_add(out, c->from, err));
    }
    return HR_OK;
}

/* What stands for the schema of a side where nobody knows it, since no row of it came: its keys, of the types of the
 * other side's. *out is new. */
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

/* No right row came, and only the left schema tells what keys there are: the table of keys is made now, of none. */
static hr_status assume_right(const join_op *o, join_run *j, const hr_schema *left, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    HR_TRY(assumed_schema(o->right_keys, o->left_keys, o->n_keys, left, &j->right, err));
    for (int k = 0; k < o->n_keys; k++)
        keys[k] = k;
    HR_TRY(hr__table_empty(j->right, &rows, err));
    return hr__join_table_new(keys, o->n_keys, rows, NULL, j->account, &j->table, err);
}

/* The bound join, once there is a left schema, or there will be none; the right side has ended. */
static hr_status bound_of(const join_op *o, join_run *j, hr_schema *left, const hr_join_bound **out, hr_error *err)
{
    hr_join_names names = names_of(o);
    hr_schema *right, *assumed = NULL;
    hr_status st = HR_OK;

    hr__lock(&j->lock);
    if (!j->bound) {
        if (!j->right && !o->right) /* then no right row came: there is a left one */
            HR_GO(assume_right(o, j, left, err));
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

/* ---------------------------------------------------------------------------------------------------------- the run */

static hr_status join_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    join_run *j = hr__zalloc(run->account, sizeof *j);

    (void)op;
    if (!j)
        return hr__error_memory(err, "join", sizeof *j);
    j->account = run->account;
    j->turns = run->first_input != 0;
    hr__mutex_init(&j->lock);
    run->state = j;
    return HR_OK;
}

static void forget_tables(join_run *j)
{
    for (int64_t i = 0; i < j->n_tables; i++)
        hr_table_unref(j->tables[i]);
    hr__free(j->tables);
    j->tables = NULL;
    j->n_tables = j->cap_tables = j->held_bytes = j->n_held = 0;
}

static void join_stop(const hr_op *op, hr_op_run *run)
{
    join_run *j = run->state;

    (void)op;
    if (!j)
        return;
    forget_tables(j);
    hr__join_table_free(j->table);
    hr__join_turned_free(j->turned);
    hr__schema_unref(j->numbered);
    hr__store_free(j->right_parts);
    hr__store_free(j->left_parts);
    hr__spill_unref(j->spill);
    hr__join_bound_free(j->bound);
    hr__join_layout_free(j->layout);
    hr__schema_unref(j->left);
    hr__schema_unref(j->right);
    hr__schema_unref(j->left_dealt);
    hr__schema_unref(j->right_dealt);
    hr__free(j->unmatched_rows);
    hr__mutex_clear(&j->lock);
    hr__free(j);
}

/* ---------------------------------------------------------------------------------------------------------- dealing */

/* Rows of t, numbered from `first` on, into the partitions of a store. */
static hr_status deal_rows(hr_store *store, hr_schema *dealt, const hr_table *t, const int *keys, int n_keys,
                           int64_t first, hr_account *account, hr_error *err)
{
    const hr_mem mem = { .account = account };
    hr_buffer *places = NULL;
    hr_table *placed = NULL, *sorted = NULL;
    uint64_t *hashes = hr__alloc(account, (size_t)(t->n_rows + 1) * sizeof *hashes);
    int64_t begins[PARTS + 1];
    hr_status st = HR_OK;

    if (!hashes)
        HR_GO(hr__error_memory(err, "join", t->n_rows * 8));
    hr__rows_hash(t, keys, n_keys, 0, t->n_rows, hashes);
    HR_GO(hr__buffer_new(&mem, t->n_rows * 8, &places, err));
    for (int64_t i = 0; i < t->n_rows; i++)
        ((int64_t *)places->data)[i] = first + i;
    st = hr__join_with_places(t, dealt, places, &placed, err);
    places = NULL;
    HR_GO(st);
    HR_GO(hr__deal(placed, hashes, 56, PARTS, &mem, begins, &sorted, err));
    st = hr__store_add_dealt(store, sorted, begins, PARTS, err);
done:
    hr__buffer_unref(places);
    hr_table_unref(placed);
    hr_table_unref(sorted);
    hr__free(hashes);
    return st;
}

/* The store's tables are slices of each other's memory: all go, or none. */
static hr_status spill_if_much(hr_store *s, int64_t most, hr_error *err)
{
    return hr__store_held(s) > most ? hr__store_spill(s, 0, err) : HR_OK;
}

static hr_status key_columns(const hr_schema *s, char *const *keys, int n, int *out, hr_error *err)
{
    for (int k = 0; k < n; k++)
        if ((out[k] = hr__schema_find(s, keys[k])) < 0)
            return hr__schema_missing(s, keys[k], err);
    return HR_OK;
}

static hr_status right_store(join_run *j, hr_schema *schema, hr_op_run *run, hr_error *err)
{
    if (j->right_parts)
        return HR_OK;
    HR_TRY(hr__join_schema_with_places(schema, -1, &j->right_dealt, err));
    return hr__store_new(PARTS, j->right_dealt, j->spill, run->account, &j->right_parts, err);
}

static hr_status deal_right(const join_op *o, join_run *j, const hr_table *in, hr_op_run *run, hr_error *err)
{
    hr_table *t = NULL;
    int keys[HR_MAX_KEYS];
    hr_status st = HR_OK;

    if (j->turned)
        HR_GO(hr__table_first(in, j->right, &t, err)); /* without the numbers */
    else
        t = hr_table_ref((hr_table *)in);
    HR_GO(right_store(j, j->right, run, err));
    HR_GO(key_columns(t->schema, o->right_keys, o->n_keys, keys, err));
    HR_GO(deal_rows(j->right_parts, j->right_dealt, t, keys, o->n_keys, j->n_right, run->account, err));
    j->n_right += t->n_rows;
    st = spill_if_much(j->right_parts, hr__op_allowance(run) - j->left_bytes, err);
done:
    hr_table_unref(t);
    return st;
}

static hr_status deal_left(const join_op *o, join_run *j, const hr_table *t, hr_op_run *run, hr_error *err)
{
    int keys[HR_MAX_KEYS];

    if (!j->left_parts) {
        HR_TRY(hr__join_schema_with_places(t->schema, -1, &j->left_dealt, err));
        HR_TRY(hr__store_new(PARTS, j->left_dealt, j->spill, run->account, &j->left_parts, err));
    }
    HR_TRY(key_columns(t->schema, o->left_keys, o->n_keys, keys, err));
    HR_TRY(deal_rows(j->left_parts, j->left_dealt, t, keys, o->n_keys, j->n_left, run->account, err));
    j->n_left += t->n_rows;
    return spill_if_much(j->left_parts, hr__op_allowance(run) - j->left_bytes, err);
}

typedef hr_status deal_fn(const join_op *o, join_run *j, const hr_table *t, hr_op_run *run, hr_error *err);

/* It is too much to be held: what has come so far, and all that comes, goes to partitions. */
static hr_status begin_dealing(const join_op *o, join_run *j, deal_fn *deal, hr_op_run *run, hr_error *err)
{
    atomic_store(&j->dealing, true);
    HR_TRY(hr__spill_new(NULL, "join", run->account, &j->spill, err));
    for (int64_t i = 0; i < j->n_tables; i++) {
        HR_TRY(deal(o, j, j->tables[i], run, err));
        hr_table_unref(j->tables[i]);
        j->tables[i] = NULL;
    }
    forget_tables(j);
    return HR_OK;
}

#define DEAL_ROWS 65536

/* The left side was kept, but the right one is too much. */
static hr_status deal_turned(const join_op *o, join_run *j, hr_op_run *run, hr_error *err)
{
    hr_table *left = j->turned->left, *some = NULL;
    hr_status st = HR_OK;

    for (int64_t i = 0; i < left->n_rows && !st; i += DEAL_ROWS) {
        HR_TRY(hr_table_slice(left, i, HR_MIN(DEAL_ROWS, left->n_rows - i), &some, err));
        st = deal_left(o, j, some, run, err);
        hr_table_unref(some);
    }
    hr__join_turned_free(j->turned);
    j->turned = NULL;
    j->left_bytes = 0;
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ front */

typedef struct front_op {
    hr_op base;
    const join_op *of; /* counted */
} front_op;

typedef struct front_state {
    hr_table *left;
    hr_join_walk walk;
} front_state;

static void front_clear(const hr_op *op, hr_task *task)
{
    front_state *s = *hr__task_state(task);

    (void)op;
    if (!s)
        return;
    hr__join_walk_end(&s->walk);
    hr_table_unref(s->left);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

/* The next rows of the table at hand go on; the rest when these have. */
static hr_status front_more(const hr_op *op, hr_task *task, hr_error *err)
{
    front_state *s = *hr__task_state(task);
    join_run *j = hr__task_run(task)->partner->state;
    hr_origin *origin = NULL;
    hr_table *found = NULL, *out = NULL;
    hr_status st = HR_OK;

    (void)op;
    HR_GO(hr__join_walk_next(&s->walk, j->bound, j->table, hr__task_mem(task), &found, NULL, err));
    if (!found) {
        hr__join_walk_end(&s->walk);
        hr_table_unref(s->left);
        s->left = NULL;
        return HR_OK;
    }
    HR_GO(hr__origin_new(&(hr_run_coords){ .n = found->n_rows }, 1, &origin, err));
    HR_GO(hr__table_with_origin(found, origin, &out, err));
    HR_GO(hr__task_emit(task, &out, err));
    hr__task_more(task);
done:
    hr__origin_unref(origin);
    hr_table_unref(found);
    return st;
}

static hr_status front_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    join_run *j = hr__task_run(task)->partner->state;
    void **slot = hr__task_state(task);
    const hr_join_bound *bound = NULL;
    hr_table *same = NULL;
    front_state *s;

    HR_TRY(bound_of(((const front_op *)op)->of, j, in->schema, &bound, err));
    if (!j->table) { /* dealt: the operator does that, in order */
        same = hr_table_ref((hr_table *)in);
        return hr__task_emit(task, &same, err);
    }
    if (!*slot && !(*slot = hr__zalloc(hr__task_run(task)->account, sizeof *s)))
        return hr__error_memory(err, "join", sizeof *s);
    s = *slot;
    s->left = hr_table_ref((hr_table *)in);
    HR_TRY(hr__join_walk_begin(&s->walk, bound, j->table, s->left, err));
    return front_more(op, task, err);
}

static void front_free(hr_op *op)
{
    hr__op_unref((hr_op *)((front_op *)op)->of);
    hr__free(op);
}

static const hr_op_class front_class = { .name = "join, left side",
                                         .doc = "looks rows up",
                                         .kind = HR_OP_MAP,
                                         .push = front_push,
                                         .more = front_more,
                                         .task_clear = front_clear,
                                         .free = front_free };

/* The schemas of the right tables, as they come and with numbers. */
static hr_status right_schemas(join_run *j, hr_schema *right, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&j->lock);
    if (!j->numbered) {
        HR_GO(hr__join_schema_with_numbers(right, &j->numbered, err));
        j->right = hr__schema_ref(right);
    }
    st = hr__same_schema(right, j->right, " of the right side", err);
done:
    hr__unlock(&j->lock);
    return st;
}

static hr_status turned_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const join_op *o = ((const front_op *)op)->of;
    join_run *j = hr__task_run(task)->partner->state;
    hr_table *out = NULL;
    int keys[HR_MAX_KEYS];

    HR_TRY(right_schemas(j, in->schema, err));
    HR_TRY(key_columns(in->schema, o->right_keys, o->n_keys, keys, err));
    if (j->turned)
        HR_TRY(hr__join_turned_find(j->turned, in, keys, j->numbered, hr__task_mem(task), &out, err));
    else /* dealt: the operator does that, in order */
        out = hr_table_ref((hr_table *)in);
    return out ? hr__task_emit(task, &out, err) : HR_OK;
}

static const hr_op_class turned_class = {
    .name = "join, right side", .doc = "looks rows up", .kind = HR_OP_MAP, .push = turned_push, .free = front_free
};

static hr_status join_front(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err)
{
    front_op *f;

    *out = NULL;
    if (input == first_input)
        return HR_OK;
    if (!(f = hr__zalloc(NULL, sizeof *f)))
        return hr__error_memory(err, "join", sizeof *f);
    hr__op_init(&f->base, input ? &front_class : &turned_class);
    f->of = (const join_op *)hr__op_ref((hr_op *)op);
    *out = &f->base;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ tables come */

/* Keeps a table as long as there is room for it. */
static hr_status keep(const join_op *o, join_run *j, deal_fn *deal, int64_t most, const hr_table *in, hr_op_run *run,
                      hr_error *err)
{
    if (atomic_load(&j->dealing))
        return deal(o, j, in, run, err);
    if (!hr__grow(run->account, (void **)&j->tables, &j->cap_tables, j->n_tables + 1, sizeof *j->tables))
        return hr__error_memory(err, "join", j->n_tables * 8);
    j->tables[j->n_tables++] = hr_table_ref((hr_table *)in);
    j->held_bytes += hr__table_bytes_used(in);
    j->n_held += in->n_rows;
    return 2 * j->held_bytes > most || j->n_held > HR_JOIN_MAX_ROWS ? begin_dealing(o, j, deal, run, err) : HR_OK;
}

static hr_status keep_right(const join_op *o, join_run *j, const hr_table *in, hr_op_run *run, hr_error *err)
{
    if (j->turns)
        return keep(o, j, deal_right, hr__op_allowance(run) - 2 * j->left_bytes, in, run, err);
    if (!j->right)
        j->right = hr__schema_ref(in->schema);
    HR_TRY(hr__same_schema(in->schema, j->right, " of the right side", err));
    return keep(o, j, deal_right, hr__op_allowance(run), in, run, err);
}

/* Rows that were looked up go on, numbered; others are dealt. */
static hr_status take_left(const join_op *o, join_run *j, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_op_run *run = hr__task_run(task);
    hr_origin *origin = NULL;
    hr_table *out = NULL;
    hr_status st = HR_OK;

    if (j->turns) {
        if (!j->left)
            j->left = hr__schema_ref(in->schema);
        HR_TRY(hr__same_schema(in->schema, j->left, " of the left side", err));
        return keep(o, j, deal_left, hr__op_allowance(run) / 2, in, run, err);
    }
    if (!j->table)
        return deal_left(o, j, in, run, err);
    HR_GO(hr__origin_new(&(hr_run_coords){ .first = { .row = j->n_out }, .n = in->n_rows }, 1, &origin, err));
    HR_GO(hr__table_with_origin(in, origin, &out, err));
    j->n_out += in->n_rows;
    st = hr__task_emit(task, &out, err);
done:
    hr__origin_unref(origin);
    return st;
}

static hr_status join_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const join_op *o = (const join_op *)op;
    hr_op_run *run = hr__task_run(task);

    if (hr__task_input(task) == 0)
        return keep_right(o, run->state, in, run, err);
    return take_left(o, run->state, task, in, err);
}

/* A table made of many, column by column. */
typedef struct joining {
    hr_mem mem;
    hr_table *const *tables;
    int64_t n;
    hr_array **columns;
} joining;

/* Slices of one array, one behind the other, of values that lie in it alone: of a table in memory. */
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
    (*out)->offset = first->offset; /* nobody else has it yet */
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

/* What was kept as one table. schema: where there is no table. *out is new. */
static hr_status kept_rows(join_run *j, hr_schema *schema, hr_task *task, hr_table **out, hr_error *err)
{
    hr_account *account = hr__task_run(task)->account;
    joining k = { .mem = { .account = account }, .tables = j->tables, .n = j->n_tables };
    hr_status st = HR_OK;

    if (!k.n)
        return hr__table_empty(schema, out, err);
    schema = j->tables[0]->schema;
    if (!(k.columns = hr__zalloc(account, ((size_t)schema->n + 1) * sizeof(hr_array *))))
        return hr__error_memory(err, "join", schema->n * 8);
    st = hr__task_share(task, schema->n, join_column, &k, err);
    if (!st)
        st = hr__table_new(schema, k.columns, j->n_held, NULL, out, err);
    else
        for (int c = 0; c < schema->n; c++)
            hr__array_unref(k.columns[c]);
    hr__free(k.columns);
    forget_tables(j);
    return st;
}

static hr_status end_right(const join_op *o, join_run *j, hr_task *task, hr_error *err)
{
    hr_schema *schema = j->right ? j->right : o->right;
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    if (!schema) /* or when the first left table tells */
        return o->left ? assume_right(o, j, o->left, err) : HR_OK;
    HR_TRY(key_columns(schema, o->right_keys, o->n_keys, keys, err));
    HR_TRY(kept_rows(j, schema, task, &rows, err));
    if (!j->right)
        j->right = hr__schema_ref(rows->schema);
    j->n_right = rows->n_rows;
    return hr__join_table_new(keys, o->n_keys, rows, task, hr__task_run(task)->account, &j->table, err);
}

/* It has ended first. */
static hr_status end_left(const join_op *o, join_run *j, hr_task *task, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];

    j->left_bytes = j->held_bytes;
    if (!j->left)
        j->left = hr__schema_ref(o->left);
    HR_TRY(key_columns(j->left, o->left_keys, o->n_keys, keys, err));
    HR_TRY(kept_rows(j, j->left, task, &rows, err));
    return hr__join_turned_new(o->kind, keys, o->n_keys, rows, task, hr__task_run(task)->account, &j->turned, err);
}

/* The right side has ended behind it. */
static hr_status end_turned(const join_op *o, join_run *j, hr_task *task, hr_error *err)
{
    hr_table *rows = NULL;
    int keys[HR_MAX_KEYS];
    hr_status st = HR_OK;

    if (!j->turned)
        return HR_OK;
    if (atomic_load(&j->dealing))
        return deal_turned(o, j, hr__task_run(task), err);
    if (!j->numbered)
        HR_GO(right_schemas(j, o->right, err));
    HR_GO(key_columns(j->right, o->right_keys, o->n_keys, keys, err));
    HR_GO(kept_rows(j, j->numbered, task, &rows, err));
    HR_GO(hr__join_turned_table(j->turned, keys, o->n_keys, j->right, rows, &j->table, err));
    HR_GO(hr__join_turned_count(j->turned, j->table, task, err));
    j->n_right = rows->n_rows;
    j->n_out = j->turned->before[j->turned->n_pieces];
done:
    hr_table_unref(rows);
    return st;
}

static hr_status join_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    const join_op *o = (const join_op *)op;
    join_run *j = hr__task_run(task)->state;

    if (j->turns && !input)
        return end_turned(o, j, task, err);
    if (input != (j->turns ? 1 : 0) || atomic_load(&j->dealing))
        return HR_OK;
    return j->turns ? end_left(o, j, task, err) : end_right(o, j, task, err);
}

/* ----------------------------------------------------------------------------------------------------------- pieces */

static bool keeps_right(hr_join_kind kind) { return kind == HR_JOIN_RIGHT || kind == HR_JOIN_FULL; }

#define PIECE_ROWS 65536

/* Right rows that nobody had, by pieces: how many there are before each. */
static hr_status count_unmatched(join_run *j, hr_account *account, hr_error *err)
{
    const hr_join_table *t = j->table;
    int64_t n = (t->rows->n_rows + PIECE_ROWS - 1) / PIECE_ROWS;
    uint32_t *ids = hr__alloc(account, PIECE_ROWS * sizeof *ids);
    int32_t *rows = hr__alloc(account, PIECE_ROWS * sizeof *rows);
    hr_status st = HR_OK;

    j->unmatched_rows = hr__zalloc(account, (size_t)(n + 1) * sizeof *j->unmatched_rows);
    if (!ids || !rows || !j->unmatched_rows)
        HR_GO(hr__error_memory(err, "join", n * 8));
    for (int64_t p = 0; p < n; p++) {
        int64_t begin = p * PIECE_ROWS, some = HR_MIN(PIECE_ROWS, t->rows->n_rows - begin);

        j->unmatched_rows[p + 1] = j->unmatched_rows[p] + hr__join_alone(t, begin, some, ids, rows);
    }
    j->n_unmatched = n;
done:
    hr__free(ids);
    hr__free(rows);
    return st;
}

static hr_status join_pieces(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    const join_op *o = (const join_op *)op;
    hr_op_run *run = hr__task_run(task);
    join_run *j = run->state;
    const hr_join_bound *bound = NULL;

    *n = 0;
    if (atomic_load(&j->dealing)) {
        if (j->n_left || keeps_right(o->kind))
            *n = PARTS;
    } else {
        if (keeps_right(o->kind) && j->n_right)
            HR_TRY(count_unmatched(j, run->account, err));
        *n = (j->turned ? j->turned->n_pieces : 0) + j->n_unmatched;
    }
    if (!*n)
        return HR_OK;
    HR_TRY(bound_of(o, j, j->bound ? j->bound->left_in : j->left ? j->left : o->left, &bound, err));
    if (atomic_load(&j->dealing))
        HR_TRY(right_store(j, j->bound->right_in, run, err));
    j->parts = (hr_join_parts){ .bound = bound,
                                .left = j->left_parts,
                                .right = j->right_parts,
                                .right_dealt = j->right_dealt,
                                .n_left = j->n_left,
                                .n_right = j->n_right,
                                .share = hr__op_allowance(run) };
    return HR_OK;
}

/* Of right rows that nobody had. */
typedef struct unmatched_reader {
    hr_reader base;
    join_run *run;
    hr_mem mem;
    int64_t piece, row, end, first;
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
    if (j->row >= j->end || j->run->unmatched_rows[j->piece] == j->run->unmatched_rows[j->piece + 1])
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

static hr_status join_read(const hr_op *op, hr_op_run *run, int64_t piece, const hr_mem *mem, hr_reader **out,
                           int64_t *estimate, hr_error *err)
{
    join_run *j = run->state;
    int64_t n_before = j->turned ? j->turned->n_pieces : 0;
    unmatched_reader *r;

    (void)op;
    if (!j->table)
        return hr__join_part_read(&j->parts, (int)piece, run->account, mem, out, estimate, err);
    if (piece < n_before)
        return hr__join_turned_read(j->turned, j->table, j->bound, piece, mem, out, err);
    piece -= n_before;
    if (!(r = hr__zalloc(run->account, sizeof *r)))
        return hr__error_memory(err, "join", sizeof *r);
    r->base.cls = &unmatched_reading;
    r->run = j;
    r->mem = *mem;
    r->piece = piece;
    r->row = piece * PIECE_ROWS;
    r->end = HR_MIN(j->table->rows->n_rows, r->row + PIECE_ROWS);
    r->first = j->n_out + j->unmatched_rows[piece];
    *out = &r->base;
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- partners */

static int join_partner_keys(const hr_op *op, int input, const char *const **keys)
{
    const join_op *o = (const join_op *)op;
    bool drops_left = o->kind == HR_JOIN_INNER || o->kind == HR_JOIN_RIGHT || o->kind == HR_JOIN_SEMI;

    *keys = (const char *const *)(input ? o->left_keys : o->right_keys);
    return (input ? drops_left : !keeps_right(o->kind)) ? o->n_keys : 0;
}

#define MUCH_LARGER 2 /* so many times: numbers are guessed, and a left side that need not be kept is the rule */

static int join_first_input(const hr_op *op, const int64_t *rows)
{
    const join_op *o = (const join_op *)op;

    return o->layout && rows[1] >= 0 && rows[0] >= 0 && rows[0] / MUCH_LARGER >= rows[1];
}

/* column >= that of the row, or <=. */
static hr_status bound_at(const char *function, const char *column, const hr_array *keys, int64_t row, hr_expr **out,
                          hr_error *err)
{
    hr_expr *args[2] = { NULL };
    hr_array *value = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__array_take(&(hr_mem){ 0 }, keys, &row, 8, 1, &value, err));
    HR_GO(hr__expr_value(value, false, &args[1], err));
    HR_GO(hr_expr_column(column, &args[0], err));
    st = hr_expr_call(function, args, 2, NULL, 0, out, err);
done:
    hr_expr_unref(args[0]);
    hr_expr_unref(args[1]);
    return st;
}

static hr_status join_partner_filter(const hr_op *op, const hr_op_run *run, int key, const char *column, hr_expr **out,
                                     hr_error *err)
{
    const join_run *j = run->state;
    hr_expr *low = NULL, *high = NULL;
    int64_t least, most;
    const hr_array *keys;
    hr_status st = HR_OK;

    (void)op;
    *out = NULL;
    if (j->turned)
        keys = j->turned->left->columns[j->turned->keys_at[key]];
    else if (j->table)
        keys = j->table->rows->columns[j->table->right_keys[key]];
    else
        return HR_OK;
    if (!hr__join_extremes(keys, &least, &most))
        return HR_OK;
    HR_GO(bound_at("greater_equal", column, keys, least, &low, err));
    HR_GO(bound_at("less_equal", column, keys, most, &high, err));
    st = hr__expr_and(low, high, out, err);
done:
    hr_expr_unref(low);
    hr_expr_unref(high);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static const char *const kind_names[] = {
    "inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"
};

static void join_describe(const hr_op *op, hr_text *out)
{
    const join_op *o = (const join_op *)op;

    hr__text_add(out, "join(%s: ", kind_names[o->kind]);
    for (int k = 0; k < o->n_keys; k++) {
        hr__text_add(out, "%s%s", k ? ", " : "", o->left_keys[k]);
        if (strcmp(o->left_keys[k], o->right_keys[k]) != 0)
            hr__text_add(out, " = %s", o->right_keys[k]);
    }
    hr__text_add(out, "; the left side is the second input)");
}

static void join_fingerprint(const hr_op *op, hr_hash *h)
{
    const join_op *o = (const join_op *)op;

    hr__hash_int(h, o->kind);
    for (int k = 0; k < o->n_keys; k++) {
        hr__hash_text(h, o->left_keys[k]);
        hr__hash_text(h, o->right_keys[k]);
    }
    hr__hash_text(h, o->left_suffix);
    hr__hash_text(h, o->right_suffix);
}

static void join_free(hr_op *op)
{
    join_op *o = (join_op *)op;

    for (int k = 0; k < o->n_keys; k++) {
        if (o->left_keys)
            hr__free(o->left_keys[k]);
        if (o->right_keys)
            hr__free(o->right_keys[k]);
    }
    hr__free(o->left_keys);
    hr__free(o->right_keys);
    hr__free(o->left_suffix);
    hr__free(o->right_suffix);
    hr__schema_unref(o->left);
    hr__schema_unref(o->right);
    hr__join_layout_free(o->layout);
    hr__free(o);
}

const hr_op_class hr__join = { .name = "join",
                               .doc = "rows of two inputs that have equal keys, side by side",
                               .kind = HR_OP_BLOCK,
                               .inputs = HR_INPUTS_IN_TURN,
                               .schema_of = join_schema,
                               .needs = join_needs,
                               .first_input = join_first_input,
                               .partner_keys = join_partner_keys,
                               .partner_filter = join_partner_filter,
                               .front = join_front,
                               .start = join_start,
                               .stop = join_stop,
                               .push = join_push,
                               .ended = join_ended,
                               .pieces = join_pieces,
                               .read = join_read,
                               .describe = join_describe,
                               .fingerprint = join_fingerprint,
                               .free = join_free };

static hr_status copy_names(char ***to, const char *const *from, int n, hr_error *err)
{
    if (!(*to = hr__zalloc(NULL, ((size_t)n + 1) * sizeof **to)))
        return hr__error_memory(err, "join", n * 8);
    for (int k = 0; k < n; k++)
        if (!((*to)[k] = hr__strdup(NULL, from[k])))
            return hr__error_memory(err, "join", 64);
    return HR_OK;
}

hr_status hr__op_join(hr_schema *left, hr_schema *right, const hr_join_options *options, hr_op **out, hr_error *err)
{
    join_op *o = hr__zalloc(NULL, sizeof *o);
    hr_join_names names;
    hr_status st = HR_OK;

    *out = NULL;
    if (!o)
        return hr__error_memory(err, "join", sizeof *o);
    hr__op_init(&o->base, &hr__join);
    if (options->n_keys < 1 || options->n_keys > HR_MAX_KEYS)
        HR_FAIL(HR_INVALID, "join: %d keys, expected 1 to %d", options->n_keys, HR_MAX_KEYS);
    if ((int)options->kind < 0 || options->kind > HR_JOIN_ANTI)
        HR_FAIL(HR_INVALID, "join: kind %d", (int)options->kind);
    o->kind = options->kind;
    o->n_keys = options->n_keys;
    HR_GO(copy_names(&o->left_keys, options->left_keys, o->n_keys, err));
    HR_GO(copy_names(&o->right_keys, options->right_keys ? options->right_keys : options->left_keys, o->n_keys, err));
    if ((options->left_suffix && !(o->left_suffix = hr__strdup(NULL, options->left_suffix))) ||
        (options->right_suffix && !(o->right_suffix = hr__strdup(NULL, options->right_suffix))))
        HR_GO(hr__error_memory(err, "join", 64));
    o->left = left ? hr__schema_ref(left) : NULL;
    o->right = right ? hr__schema_ref(right) : NULL;
    names = names_of(o);
    if (left && right)
        HR_GO(hr__join_layout(o->kind, &names, left, right, &o->layout, err));
    *out = &o->base;
    o = NULL;
done:
    if (o)
        join_free(&o->base);
    return st;
}
