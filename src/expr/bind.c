/* bind.c - binds trees to a schema: looks up names, fixes types and casts, computes constants, shares equal parts.
 *
 * A bound expression is a list of nodes, each after the nodes that it needs, so that evaluation is one loop. Equal
 * nodes (the same function of the same nodes) are one node. A node may be unused, after a function absorbed its
 * argument's call: the binder marks the nodes that a result needs, and only those are evaluated.
 *
 * Tests: test_expr.c, test_eval.c. */
#include "expr/fn.h"

#include <inttypes.h>

enum { MAX_ROUNDS = 1000 }; /* a function absorbs at least one call a round, and trees are not deeper */

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void call_reset(hr_bound_call *call, const hr_expr_function *f)
{
    if (call->state && f->state_free)
        f->state_free(call->state);
    else
        hr__free(call->state);
    call->state = NULL;
    hr__type_unref(call->type);
    call->type = NULL;
    for (int i = 0; call->casts && i < call->n_inputs; i++) {
        hr__type_unref(call->casts[i]);
        call->casts[i] = NULL;
    }
}

static void call_clear(hr_bound_call *call, const hr_expr_function *f)
{
    if (f)
        call_reset(call, f);
    hr__free(call->inputs);
    hr__free(call->input_types);
    hr__free(call->constants);
    hr__free(call->weak);
    hr__free(call->casts);
    *call = (hr_bound_call){ 0 };
}

static void node_clear(hr_node *n)
{
    call_clear(&n->call, n->function);
    hr__free(n->inputs);
    hr__type_unref(n->type);
    hr__array_unref(n->value);
}

/* Moves *n into the list; *n is cleared on failure. */
static hr_status add_node(hr_bound *b, hr_node *n, int *out, hr_error *err)
{
    if (!hr__grow(NULL, (void **)&b->nodes, &b->cap_nodes, b->n_nodes + 1, sizeof *b->nodes)) {
        node_clear(n);
        return hr__error_memory(err, "expression", (b->n_nodes + 1) * (int64_t)sizeof *b->nodes);
    }
    *out = b->n_nodes;
    b->nodes[b->n_nodes++] = *n;
    return HR_OK;
}

static hr_status bind_column(hr_bound *b, const hr_expr *e, int *out, hr_error *err)
{
    int at = hr__schema_find(b->schema, e->name);

    if (at < 0)
        return hr__schema_missing(b->schema, e->name, err);
    for (int i = 0; i < b->n_nodes; i++)
        if (b->nodes[i].kind == HR_NODE_COLUMN && b->nodes[i].column == at) {
            *out = i;
            return HR_OK;
        }
    return add_node(
        b, &(hr_node){ .kind = HR_NODE_COLUMN, .column = at, .type = hr__type_ref(b->schema->fields[at].type) }, out,
        err);
}

/* Takes the value. */
static hr_status add_constant(hr_bound *b, hr_array *value, bool weak, int *out, hr_error *err)
{
    for (int i = 0; i < b->n_nodes; i++) {
        const hr_node *n = &b->nodes[i];

        if (n->kind == HR_NODE_CONSTANT && n->weak == weak && hr__literal_equal(n->value, value)) {
            hr__array_unref(value);
            *out = i;
            return HR_OK;
        }
    }
    return add_node(
        b, &(hr_node){ .kind = HR_NODE_CONSTANT, .value = value, .weak = weak, .type = hr__type_ref(value->type) }, out,
        err);
}

hr_status hr__constant_rows(const hr_mem *mem, const hr_array *a, int64_t n, hr_array **out, hr_error *err)
{
    int32_t *zeros;
    hr_status st;

    *out = NULL;
    if (n == 1) {
        *out = hr__array_ref((hr_array *)a);
        return HR_OK;
    }
    if (hr__array_is_null(a, 0))
        return hr__array_nulls(mem, a->type, n, out, err);
    if (n > INT32_MAX || !(zeros = hr__zalloc(mem->account, (size_t)n * sizeof *zeros)))
        return hr__error_memory(err, "constant", n * (int64_t)sizeof *zeros);
    st = hr__array_take(mem, a, zeros, 4, n, out, err);
    hr__free(zeros);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

static hr_status call_alloc(hr_bound_call *call, int n, hr_error *err)
{
    size_t count = (size_t)n + 1;

    call->n_inputs = n;
    call->inputs = hr__zalloc(NULL, count * sizeof *call->inputs);
    call->input_types = hr__zalloc(NULL, count * sizeof *call->input_types);
    call->constants = hr__zalloc(NULL, count * sizeof *call->constants);
    call->weak = hr__zalloc(NULL, count * sizeof *call->weak);
    call->casts = hr__zalloc(NULL, count * sizeof *call->casts);
    if (!call->inputs || !call->input_types || !call->constants || !call->weak || !call->casts)
        return hr__error_memory(err, "expression", (int64_t)count * 40);
    return HR_OK;
}

/* Tells the call the type and the constant of input i, node `at`. */
static void describe_input(const hr_bound *b, hr_bound_call *call, int i, int at)
{
    const hr_node *n = &b->nodes[at];

    call->input_types[i] = n->type;
    call->constants[i] = n->kind == HR_NODE_CONSTANT ? n->value : NULL;
    call->weak[i] = n->weak;
}

static bool same_settings(const hr_expr *a, const hr_expr *b)
{
    if (!a || !b)
        return a == b; /* the binder's own casts have no expression; their types distinguish them */
    if (a->n_settings != b->n_settings)
        return false;
    for (int i = 0; i < a->n_settings; i++)
        if (strcmp(a->settings[i], b->settings[i]) != 0)
            return false;
    return true;
}

static bool same_call(const hr_node *a, const hr_node *b)
{
    return a->kind == HR_NODE_CALL && a->function == b->function && a->call.n_inputs == b->call.n_inputs &&
           !a->function->row_random && hr__type_equal(a->type, b->type) && same_settings(a->call.expr, b->call.expr) &&
           !memcmp(a->inputs, b->inputs, (size_t)a->call.n_inputs * sizeof *a->inputs) &&
           (a->call.expr == b->call.expr || !a->call.expr || a->call.expr->n_args == b->call.expr->n_args);
}

/* A function that absorbed calls depends on more than its inputs: equal only if the whole trees are. */
static bool same_trees(const hr_node *a, const hr_node *b)
{
    const hr_expr *x = a->call.expr, *y = b->call.expr;

    if (!x || x == y)
        return true;
    for (int i = 0; i < x->n_args; i++) {
        bool swallowed = i >= a->call.n_inputs || a->call.inputs[i] != x->args[i];

        if (swallowed && !hr__expr_equal(x, y))
            return false;
    }
    return true;
}

/* The value of a call of constants. *out is new. */
static hr_status fold(const hr_bound *b, const hr_node *n, hr_array **out, hr_error *err)
{
    const hr_mem mem = { 0 };
    const hr_eval how = { .mem = &mem, .n_rows = 1 };
    hr_array **args = hr__zalloc(NULL, ((size_t)n->call.n_inputs + 1) * sizeof(hr_array *));
    hr_status st;

    *out = NULL;
    if (!args)
        return hr__error_memory(err, n->function->name, n->call.n_inputs * (int64_t)sizeof(hr_array *));
    for (int i = 0; i < n->call.n_inputs; i++)
        args[i] = b->nodes[n->inputs[i]].value;
    st = n->function->eval(&n->call, &how, args, out, err);
    hr__free(args);
    return st;
}

static bool is_folded(const hr_bound *b, const hr_node *n, bool *weak)
{
    *weak = n->function->symbol && (n->type->id == HR_T_INT64 || n->type->id == HR_T_FLOAT64);
    for (int i = 0; i < n->call.n_inputs; i++) {
        if (b->nodes[n->inputs[i]].kind != HR_NODE_CONSTANT)
            return false;
        *weak = *weak && b->nodes[n->inputs[i]].weak;
    }
    return n->call.n_inputs > 0 && !n->function->row_random;
}

/* Adds a complete call: an equal existing node, its constant value, or a new node. Takes *n. */
static hr_status add_call(hr_bound *b, hr_node *n, int *out, hr_error *err)
{
    hr_array *value = NULL;
    hr_status st = HR_OK;
    bool weak;

    for (int i = 0; i < b->n_nodes; i++)
        if (same_call(&b->nodes[i], n) && same_trees(&b->nodes[i], n)) {
            *out = i;
            goto done;
        }
    if (!is_folded(b, n, &weak))
        return add_node(b, n, out, err);
    HR_GO(fold(b, n, &value, err));
    st = add_constant(b, value, weak, out, err);
done:
    node_clear(n);
    return st;
}

static hr_status add_cast(hr_bound *b, int from, hr_type *to, int *out, hr_error *err)
{
    hr_node n = { .kind = HR_NODE_CALL, .function = hr__cast_function() };
    hr_status st = HR_OK;

    HR_GO(call_alloc(&n.call, 1, err));
    if (!(n.inputs = hr__alloc(NULL, sizeof *n.inputs)))
        HR_GO(hr__error_memory(err, "cast", sizeof *n.inputs));
    n.inputs[0] = from;
    n.call.schema = b->schema;
    describe_input(b, &n.call, 0, from);
    HR_GO(hr__cast_bind_to(&n.call, n.call.input_types[0], to, true, err));
    n.type = hr__type_ref(n.call.type);
    return add_call(b, &n, out, err);
done:
    node_clear(&n);
    return st;
}

static hr_status bind_expr(hr_bound *b, const hr_expr *e, int *out, hr_error *err);

/* Expressions can only test Python objects for null. */
static hr_status check_input(const hr_bound *b, const hr_node *n, int input, hr_error *err)
{
    const hr_node *in = &b->nodes[input];

    if (in->kind != HR_NODE_COLUMN || !in->type->pickled || n->function->takes_objects)
        return HR_OK;
    return hr__refuse_pickles(n->function->name, &b->schema->fields[in->column], err);
}

/* One round: binds the inputs, then the function. *again: the function replaced its inputs. */
static hr_status bind_round(hr_bound *b, hr_node *n, bool *again, hr_error *err)
{
    hr_bound_call *call = &n->call;
    const hr_expr **before = NULL;
    int n_before = call->n_inputs;
    hr_status st = HR_OK;

    *again = false;
    for (int i = 0; i < call->n_inputs; i++)
        HR_GO(bind_expr(b, call->inputs[i], &n->inputs[i], err));
    for (int i = 0; i < call->n_inputs; i++) {
        describe_input(b, call, i, n->inputs[i]);
        HR_GO(check_input(b, n, n->inputs[i], err));
    }
    if (!(before = hr__alloc(NULL, ((size_t)n_before + 1) * sizeof *before)))
        HR_GO(hr__error_memory(err, n->function->name, n_before * (int64_t)sizeof *before));
    memcpy(before, call->inputs, (size_t)n_before * sizeof *before);
    HR_GO(n->function->bind(call, err));
    *again = call->n_inputs != n_before || memcmp(before, call->inputs, (size_t)n_before * sizeof *before) != 0;
done:
    hr__free(before);
    return st;
}

static hr_status apply_casts(hr_bound *b, hr_node *n, hr_error *err)
{
    for (int i = 0; i < n->call.n_inputs; i++) {
        if (n->call.casts[i])
            HR_TRY(add_cast(b, n->inputs[i], n->call.casts[i], &n->inputs[i], err));
        describe_input(b, &n->call, i, n->inputs[i]);
    }
    return HR_OK;
}

static hr_status bind_call(hr_bound *b, const hr_expr *e, int *out, hr_error *err)
{
    hr_node n = { .kind = HR_NODE_CALL, .function = e->function };
    hr_status st = HR_OK;
    bool again = true;
    int rounds = 0;

    HR_GO(call_alloc(&n.call, e->n_args, err));
    if (!(n.inputs = hr__zalloc(NULL, ((size_t)e->n_args + 1) * sizeof *n.inputs)))
        HR_GO(hr__error_memory(err, e->function->name, e->n_args * (int64_t)sizeof *n.inputs));
    n.call.expr = e;
    n.call.schema = b->schema;
    memcpy(n.call.inputs, e->args, (size_t)e->n_args * sizeof *n.call.inputs);
    while (again) {
        if (++rounds > MAX_ROUNDS)
            HR_FAIL(HR_BUG, "%s: the function never stops replacing its inputs", e->function->name);
        HR_GO(bind_round(b, &n, &again, err));
        if (again)
            call_reset(&n.call, n.function);
    }
    if (!n.call.type)
        HR_FAIL(HR_BUG, "%s: bind set no type", e->function->name);
    HR_GO(apply_casts(b, &n, err));
    n.type = hr__type_ref(n.call.type);
    return add_call(b, &n, out, err);
done:
    node_clear(&n);
    return st;
}

static hr_status bind_expr(hr_bound *b, const hr_expr *e, int *out, hr_error *err)
{
    if (e->kind == HR_EXPR_COLUMN)
        return bind_column(b, e, out, err);
    if (e->kind == HR_EXPR_LITERAL)
        return add_constant(b, hr__array_ref(e->value), e->weak, out, err);
    return bind_call(b, e, out, err);
}

/* -------------------------------------------------------------------------------------------------------- the whole */

static void use_node(hr_bound *b, int at, int by)
{
    hr_node *n = &b->nodes[at];

    n->used = true;
    n->last_use = HR_MAX(n->last_use, by);
}

/* Marks the nodes that the results need, from the last to the first. */
static void mark_used(hr_bound *b)
{
    for (int i = 0; i < b->n_exprs; i++)
        use_node(b, b->roots[i], INT32_MAX);
    for (int i = b->n_nodes - 1; i >= 0; i--)
        for (int k = 0; b->nodes[i].used && k < b->nodes[i].call.n_inputs; k++)
            use_node(b, b->nodes[i].inputs[k], i);
}

hr_status hr__exprs_bind(hr_expr *const *es, int n, hr_schema *schema, hr_bound **out, hr_error *err)
{
    hr_bound *b = hr__zalloc(NULL, sizeof *b);
    hr_status st = HR_OK;

    *out = NULL;
    if (!b || !(b->exprs = hr__zalloc(NULL, ((size_t)n + 1) * sizeof(hr_expr *))) ||
        !(b->roots = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *b->roots)))
        HR_GO(hr__error_memory(err, "expression", n * (int64_t)sizeof *b));
    b->schema = hr__schema_ref(schema);
    for (int i = 0; i < n; i++) {
        b->exprs[b->n_exprs++] = hr_expr_ref(es[i]);
        HR_GO(bind_expr(b, es[i], &b->roots[i], err));
    }
    mark_used(b);
    *out = b;
    b = NULL; /* moved to the caller */
done:
    hr__bound_free(b);
    return st;
}

hr_status hr__expr_bind(hr_expr *e, hr_schema *schema, hr_bound **out, hr_error *err)
{
    return hr__exprs_bind(&e, 1, schema, out, err);
}

void hr__bound_free(hr_bound *b)
{
    if (!b)
        return;
    for (int i = 0; i < b->n_nodes; i++)
        node_clear(&b->nodes[i]);
    for (int i = 0; i < b->n_exprs; i++)
        hr_expr_unref(b->exprs[i]);
    hr__schema_unref(b->schema);
    hr__free(b->nodes);
    hr__free(b->exprs);
    hr__free(b->roots);
    hr__free(b);
}

hr_type *hr__bound_type_of(const hr_bound *b, int i) { return b->nodes[b->roots[i]].type; }
hr_type *hr__bound_type(const hr_bound *b) { return hr__bound_type_of(b, 0); }

/* -------------------------------------------------------------------------------------------- a filter, pushed down */

typedef struct fitting {
    hr_schema *schema;
    hr_expr *all; /* the conjunction of the terms that can be bound */
} fitting;

static hr_status add_if_it_fits(void *context, hr_expr *term, hr_error *err)
{
    fitting *f = context;
    hr_bound *b = NULL;
    hr_expr *both = NULL;
    hr_error why = HR_ERROR_INIT;
    hr_status st = hr__expr_bind(term, f->schema, &b, &why);
    bool fits = !st && hr__bound_type(b)->id == HR_T_BOOL && !hr__expr_row_random(term);

    hr__bound_free(b);
    if (st == HR_NO_MEMORY) {
        hr__error_move(err, &why);
        return st;
    }
    hr_error_clear(&why);
    if (!fits)
        return HR_OK;
    HR_TRY(hr__expr_and(f->all, term, &both, err));
    hr_expr_unref(f->all);
    f->all = both;
    return HR_OK;
}

hr_status hr__expr_bind_filter(hr_expr *filter, hr_schema *schema, hr_bound **out, hr_error *err)
{
    fitting f = { .schema = schema };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__expr_each_term(filter, add_if_it_fits, &f, err));
    if (f.all)
        st = hr__expr_bind(f.all, schema, out, err);
done:
    hr_expr_unref(f.all);
    return st;
}
