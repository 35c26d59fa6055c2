/* join.c - the join operator: rows of two inputs with equal keys, side by side.
 *
 * Output order: the left rows in their order, each with its right rows in their order; then, for right and full joins,
 * the right rows without a partner in their order. A null in a key equals nothing, as in SQL. Input 0 is the right
 * side. join_modes.h describes the three modes.
 *
 * Tests: test_keyed.c. */
#include "op/join/join_modes.h"

/* ---------------------------------------------------------------------------------------------------------- columns */

static hr_status join_schema(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    const hr_join_op *o = (const hr_join_op *)op;
    hr_join_names names = hr__join_names_of(o);
    hr_join_layout *l = NULL;
    hr_join_bound *b = NULL;
    hr_status st = HR_OK;

    (void)n;
    *out = NULL;
    if (!o->layout) /* with a layout the names are settled, though inputs may have fewer columns */
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
    const hr_join_op *o = (const hr_join_op *)op;

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

/* ---------------------------------------------------------------------------------------------------------- the run */

static hr_status join_start(const hr_op *op, hr_op_run *run, hr_error *err)
{
    hr_join_run *j = hr__zalloc(run->account, sizeof *j);

    (void)op;
    if (!j)
        return hr__error_memory(err, "join", sizeof *j);
    j->account = run->account;
    j->begins_left = run->first_input == HR_JOIN_INPUT_LEFT;
    j->mode = j->begins_left ? &hr__join_mode_left : &hr__join_mode_right;
    hr__mutex_init(&j->lock);
    run->state = j;
    return HR_OK;
}

static void join_stop(const hr_op *op, hr_op_run *run)
{
    hr_join_run *j = run->state;

    (void)op;
    if (!j)
        return;
    hr__join_forget_held(j);
    hr__join_table_free(j->table);
    hr__join_turned_free(j->left_first.found);
    hr__schema_unref(j->left_first.numbered);
    hr__partition_store_free(j->partitioned.right);
    hr__partition_store_free(j->partitioned.left);
    hr__spill_file_unref(j->partitioned.spill);
    hr__join_bound_free(j->bound);
    hr__join_layout_free(j->layout);
    hr__schema_unref(j->left);
    hr__schema_unref(j->right);
    hr__schema_unref(j->partitioned.left_schema);
    hr__schema_unref(j->partitioned.right_schema);
    hr__free(j->unmatched.before);
    hr__mutex_clear(&j->lock);
    hr__free(j);
}

void hr__join_front_free(hr_op *op)
{
    hr__op_unref((hr_op *)((hr_join_front *)op)->of);
    hr__free(op);
}

static hr_status join_front(const hr_op *op, int input, int first_input, hr_op **out, hr_error *err)
{
    hr_join_front *f;

    *out = NULL;
    if (input == first_input)
        return HR_OK;
    if (!(f = hr__zalloc(NULL, sizeof *f)))
        return hr__error_memory(err, "join", sizeof *f);
    hr__op_init(&f->base, input == HR_JOIN_INPUT_LEFT ? &hr__join_left_front : &hr__join_right_front);
    f->of = (const hr_join_op *)hr__op_ref((hr_op *)op);
    *out = &f->base;
    return HR_OK;
}

static hr_status join_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_join_run *j = hr__task_run(task)->state;

    return j->mode->take((const hr_join_op *)op, j, task, hr__task_input(task), in, err);
}

static hr_status join_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    hr_join_run *j = hr__task_run(task)->state;

    return j->mode->ended((const hr_join_op *)op, j, task, input, err);
}

static hr_status join_block_parts(const hr_op *op, hr_task *task, int64_t *n, hr_error *err)
{
    hr_join_run *j = hr__task_run(task)->state;

    *n = 0;
    return j->mode->block_parts((const hr_join_op *)op, j, task, n, err);
}

static hr_status join_read(const hr_op *op, hr_op_run *run, int64_t block_part, const hr_mem *mem, hr_reader **out,
                           int64_t *estimate, hr_error *err)
{
    hr_join_run *j = run->state;

    (void)op;
    return j->mode->read(j, run, block_part, mem, out, estimate, err);
}

/* --------------------------------------------------------------------------------------------------------- partners */

static int join_partner_keys(const hr_op *op, int input, const char *const **keys)
{
    const hr_join_op *o = (const hr_join_op *)op;
    bool drops_left = o->kind == HR_JOIN_INNER || o->kind == HR_JOIN_RIGHT || o->kind == HR_JOIN_SEMI;

    *keys = (const char *const *)(input ? o->left_keys : o->right_keys);
    return (input ? drops_left : !hr__join_keeps_right(o->kind)) ? o->n_keys : 0;
}

/* Rows of a side can go before the join if rows without them cannot come out: those of an outer join's other side
 * would lose their partner, and stay. */
static bool side_can_lose_rows(hr_join_kind kind, int input)
{
    if (kind == HR_JOIN_INNER)
        return true;
    return input == HR_JOIN_INPUT_LEFT ? kind == HR_JOIN_LEFT || kind == HR_JOIN_SEMI || kind == HR_JOIN_ANTI
                                       : kind == HR_JOIN_RIGHT;
}

static const char *join_column_of_input(const hr_op *op, int input, const char *column)
{
    const hr_join_op *o = (const hr_join_op *)op;
    const hr_join_column *c = NULL;

    if (!o->layout || !side_can_lose_rows(o->kind, input))
        return NULL;
    for (int i = 0; i < o->layout->n_columns && !c; i++)
        if (!strcmp(o->layout->columns[i].name, column))
            c = &o->layout->columns[i];
    if (!c)
        return NULL;
    if (c->right == (input != HR_JOIN_INPUT_LEFT))
        return c->from;
    return c->key >= 0 && input != HR_JOIN_INPUT_LEFT ? o->right_keys[c->key] : NULL; /* keys are equal */
}

#define MUCH_LARGER 2 /* times: row numbers are estimates, and usually the left side need not be held */

static int join_first_input(const hr_op *op, const int64_t *rows)
{
    const hr_join_op *o = (const hr_join_op *)op;

    return o->layout && rows[1] >= 0 && rows[0] >= 0 && rows[0] / MUCH_LARGER >= rows[1];
}

/* The expression function(column, key of the row): >= or <=. */
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
    const hr_join_run *j = run->state;
    hr_expr *low = NULL, *high = NULL;
    int64_t least, most;
    const hr_array *keys;
    hr_status st = HR_OK;

    (void)op;
    *out = NULL;
    if (j->left_first.found)
        keys = j->left_first.found->left->columns[j->left_first.found->keys_at[key]];
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
    const hr_join_op *o = (const hr_join_op *)op;

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
    const hr_join_op *o = (const hr_join_op *)op;

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
    hr_join_op *o = (hr_join_op *)op;

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

static const hr_op_class join_class = { .name = "join",
                                        .doc = "joins rows of two inputs with equal keys",
                                        .kind = HR_OP_BLOCK,
                                        .inputs = HR_INPUTS_IN_TURN,
                                        .schema_of = join_schema,
                                        .needs = join_needs,
                                        .column_of_input = join_column_of_input,
                                        .first_input = join_first_input,
                                        .partner_keys = join_partner_keys,
                                        .partner_filter = join_partner_filter,
                                        .front = join_front,
                                        .start = join_start,
                                        .stop = join_stop,
                                        .push = join_push,
                                        .ended = join_ended,
                                        .block_parts = join_block_parts,
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
    hr_join_op *o = hr__zalloc(NULL, sizeof *o);
    hr_join_names names;
    hr_status st = HR_OK;

    *out = NULL;
    if (!o)
        return hr__error_memory(err, "join", sizeof *o);
    hr__op_init(&o->base, &join_class);
    if (options->n_keys < 1 || options->n_keys > HR_MAX_KEYS)
        HR_FAIL(HR_INVALID, "join: %d keys; expected 1 to %d", options->n_keys, HR_MAX_KEYS);
    if ((int)options->kind < 0 || options->kind > HR_JOIN_ANTI)
        HR_FAIL(HR_INVALID, "join: unknown kind %d", (int)options->kind);
    o->kind = options->kind;
    o->n_keys = options->n_keys;
    HR_GO(copy_names(&o->left_keys, options->left_keys, o->n_keys, err));
    HR_GO(copy_names(&o->right_keys, options->right_keys ? options->right_keys : options->left_keys, o->n_keys, err));
    if ((options->left_suffix && !(o->left_suffix = hr__strdup(NULL, options->left_suffix))) ||
        (options->right_suffix && !(o->right_suffix = hr__strdup(NULL, options->right_suffix))))
        HR_GO(hr__error_memory(err, "join", 64));
    o->left = left ? hr__schema_ref(left) : NULL;
    o->right = right ? hr__schema_ref(right) : NULL;
    names = hr__join_names_of(o);
    if (left && right)
        HR_GO(hr__join_layout(o->kind, &names, left, right, &o->layout, err));
    *out = &o->base;
    o = NULL;
done:
    if (o)
        join_free(&o->base);
    return st;
}
