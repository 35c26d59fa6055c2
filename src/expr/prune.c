/* prune.c - decides from bounds of the columns whether a predicate can be true in a range of rows.
 *
 * One pass over the nodes of a bound expression, as in evaluation, but each value is a range: the least and the
 * greatest value, and whether nulls or NaN may occur; for a boolean, the set of its possible values (false, null,
 * true). A range may be wider than the truth, never narrower, so an unknown one (a function without `range`, a bound
 * that does not fit) is "anything". Functions compute their own ranges; the code that compares rows compares bounds. */
#include "expr/fn.h"

#include <math.h>

static hr_range range_anything(void)
{
    return (hr_range){ .truth = HR_CAN_ANY, .can_null = true, .can_nan = true, .can_value = true };
}

static void range_clear(hr_range *r)
{
    hr__array_unref(r->least);
    hr__array_unref(r->most);
    *r = (hr_range){ 0 };
}

/* The value as a double; 1 for other types. */
static double float_value(const hr_array *a)
{
    uint16_t h;
    float f;
    double d;

    if (a->type->id == HR_T_FLOAT16) {
        memcpy(&h, hr__array_values(a), 2);
        return hr__half_value(h);
    }
    if (a->type->id == HR_T_FLOAT32) {
        memcpy(&f, hr__array_values(a), 4);
        return (double)f;
    }
    if (a->type->id != HR_T_FLOAT64)
        return 1;
    memcpy(&d, hr__array_values(a), 8);
    return d;
}

static bool is_nan(const hr_array *a) { return isnan(float_value(a)); }

bool hr__range_absent(const hr_pruner *p, const hr_range *column, const hr_array *value)
{
    return column->column && p->may_contain && !hr__array_is_null(value, 0) && float_value(value) != 0 &&
           !p->may_contain(p->context, column->column, value);
}

static unsigned truth_of(const hr_array *a)
{
    return hr__bit(a->buffers[1]->data, a->offset) ? HR_CAN_TRUE : HR_CAN_FALSE;
}

static void range_of_constant(const hr_array *a, hr_range *out)
{
    *out = (hr_range){ 0 };
    if (hr__array_is_null(a, 0)) {
        out->can_null = true;
        out->truth = HR_CAN_NULL;
    } else if (a->type->id == HR_T_BOOL) {
        out->truth = truth_of(a);
    } else if (is_nan(a)) {
        out->can_nan = true;
    } else {
        out->can_value = true;
        out->least = hr__array_ref((hr_array *)a);
        out->most = hr__array_ref((hr_array *)a);
    }
}

/* Whether a bound is usable: one valid row of the column's type, no NaN. */
static hr_array *usable(const hr_array *a, const hr_type *type)
{
    if (!a || a->length != 1 || !hr__type_equal(a->type, type) || hr__array_is_null(a, 0) || is_nan(a))
        return NULL;
    return hr__array_ref((hr_array *)a);
}

static void range_of_column(const hr_bound *b, const hr_node *n, const hr_pruner *p, hr_range *out)
{
    const char *name = b->schema->fields[n->column].name;
    hr_bounds known = { .null_count = -1, .may_have_nan = true };

    if (n->type->id == HR_T_NULL) {
        *out = (hr_range){ .can_null = true, .truth = HR_CAN_NULL };
        return;
    }
    if (hr__schema_find(b->schema, name) == n->column)
        out->column = name;
    if (!p->bounds || !p->bounds(p->context, name, &known))
        return;
    out->can_null = known.null_count != 0;
    out->can_value = known.null_count < 0 || known.null_count < known.n_rows;
    out->can_nan = hr__type_is_float(n->type) && known.may_have_nan && out->can_value;
    out->least = usable(known.least, n->type);
    out->most = usable(known.most, n->type);
    if (n->type->id != HR_T_BOOL)
        return;
    out->truth = (out->can_null ? HR_CAN_NULL : 0u) | (out->can_value ? HR_CAN_TRUE | HR_CAN_FALSE : 0u);
    if (out->can_value && out->least && out->most && truth_of(out->least) == truth_of(out->most))
        out->truth = (out->can_null ? HR_CAN_NULL : 0u) | truth_of(out->least);
}

/* `truth` has the range of a boolean; sets the other fields accordingly, for functions of any type. */
static void agree(const hr_node *n, hr_range *r)
{
    if (n->type->id == HR_T_BOOL) {
        hr__array_unref(r->least);
        hr__array_unref(r->most);
        r->least = r->most = NULL;
        r->can_null = r->truth & HR_CAN_NULL;
        r->can_value = r->truth & (HR_CAN_TRUE | HR_CAN_FALSE);
        r->can_nan = false;
    } else if (!hr__type_is_float(n->type)) {
        r->can_nan = false;
    }
}

static void range_of_call(const hr_node *n, const hr_pruner *p, const hr_range *all, hr_range *inputs, hr_range *out)
{
    if (!n->function->range)
        return;
    for (int i = 0; i < n->call.n_inputs; i++)
        inputs[i] = all[n->inputs[i]]; /* borrowed */
    n->function->range(&n->call, p, inputs, out);
}

static hr_truth truth_of_range(const hr_range *r)
{
    if (!(r->truth & HR_CAN_TRUE))
        return HR_TRUTH_NEVER;
    return r->truth == HR_CAN_TRUE ? HR_TRUTH_ALWAYS : HR_TRUTH_MAYBE;
}

hr_truth hr__bound_prune(const hr_bound *b, const hr_pruner *p)
{
    hr_range *all = NULL, *inputs = NULL;
    hr_truth found = HR_TRUTH_MAYBE;
    int most = 1;

    if (b->n_exprs < 1 || hr__bound_type(b)->id != HR_T_BOOL)
        return HR_TRUTH_MAYBE;
    for (int i = 0; i < b->n_nodes; i++)
        most = HR_MAX(most, b->nodes[i].call.n_inputs);
    all = hr__zalloc(NULL, (size_t)b->n_nodes * sizeof *all);
    inputs = hr__zalloc(NULL, (size_t)most * sizeof *inputs);
    for (int i = 0; all && inputs && i < b->n_nodes; i++) {
        const hr_node *n = &b->nodes[i];

        all[i] = range_anything();
        if (!n->used)
            continue;
        if (n->kind == HR_NODE_CONSTANT)
            range_of_constant(n->value, &all[i]);
        else if (n->kind == HR_NODE_COLUMN)
            range_of_column(b, n, p, &all[i]);
        else
            range_of_call(n, p, all, inputs, &all[i]);
        agree(n, &all[i]);
    }
    if (all && inputs)
        found = truth_of_range(&all[b->roots[0]]);
    for (int i = 0; all && i < b->n_nodes; i++)
        range_clear(&all[i]);
    hr__free(all);
    hr__free(inputs);
    return found;
}
