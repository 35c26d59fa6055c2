/* image_rule.c - moves steps on images into the reader that decodes the images.
 *
 * If image functions compute a column from the images of a scan, and nothing else reads these images, the reader can
 * decode and compute at once: it decodes only the pixels that the steps keep (image/image_chain.h). Random steps give
 * the same result, because it depends only on the run's seed and epoch and on the row's coordinate. The expression
 * keeps its place; the scan's column replaces the functions in it.
 *
 * Every operator upstream of the expression, up to the scan, must pass the column on without reading it. An operator
 * that drops rows may have dropped an image that a step refuses, so past one the rule moves only steps that cannot
 * refuse an image. */
#include "plan/plan.h"

/* The first and largest subexpression of e that is image functions of a column; NULL: none. */
static hr_expr *steps_in(hr_expr *e, hr_image_chain *steps, const char **column)
{
    hr_expr *found = NULL;

    if (hr__expr_image_steps(e, steps, column))
        return e;
    for (int i = 0; i < e->n_args && !found; i++)
        found = steps_in(e->args[i], steps, column);
    return found;
}

/* Whether a step can refuse an image: normalize, if it has no values for the image's number of channels. */
static bool may_refuse(const hr_image_chain *c)
{
    const hr_image_step *last = &c->steps[c->n - 1];

    return last->kind == HR_STEP_NORMALIZE && HR_MAX(last->n_mean, last->n_std) > 1;
}

/* The name of the column upstream of the operator; NULL: the operator reads it, or makes it. */
static const char *upstream(const hr_op *op, const char *column, const hr_image_chain *steps)
{
    const char *name = op->cls->images_upstream ? hr__op_column_upstream(op, column) : NULL;

    if (!name || (op->predicate && may_refuse(steps)))
        return NULL;
    return op->cls->looks_at && op->cls->looks_at(op, name) ? NULL : name;
}

/* The scan's name for the column, if its readers can do the steps. */
static const char *way_to_scan(const hr_plan *p, const char *column, const hr_image_chain *steps)
{
    const char *images;

    for (; column && p->kind == HR_PLAN_OP; p = p->inputs[0])
        column = upstream(p->op, column, steps);
    images = column && p->kind == HR_PLAN_SCAN ? hr__scan_image_column(p->scan) : NULL;
    return images && !strcmp(images, column) ? images : NULL;
}

/* A node's columns, and which of them are used downstream. */
typedef struct computed {
    const char *const *names, *const *wanted;
    hr_expr *const *exprs;
    int n, n_wanted;
} computed;

static bool is_wanted(const computed *c, const char *name)
{
    return c->n_wanted < 0 || hr__has_name(c->wanted, c->n_wanted, name);
}

/* Whether one place in one of the expressions is the only use of the column. */
static bool is_seen_once(const computed *c, const char *column)
{
    int64_t n = 0;

    for (int i = 0; i < c->n; i++)
        if (is_wanted(c, c->names[i]))
            n += hr__expr_reads(c->exprs[i], column);
    return n == 1 && (hr__has_name(c->names, c->n, column) || !is_wanted(c, column));
}

/* The node's expressions without the i-th, or with the rest of it. */
static hr_status what_is_left(const computed *c, int i, const hr_expr *part, const char *column, hr_op **out,
                              hr_error *err)
{
    const char **names = hr__alloc(NULL, ((size_t)c->n + 1) * sizeof *names);
    hr_expr **exprs = hr__alloc(NULL, ((size_t)c->n + 1) * sizeof *exprs), *name = NULL, *rest = NULL;
    bool gone = c->exprs[i] == part && !strcmp(c->names[i], column); /* the column passes through unchanged */
    hr_status st = HR_OK;
    int n = 0;

    if (!names || !exprs)
        HR_GO(hr__error_memory(err, "plan", c->n * (int64_t)sizeof *exprs));
    HR_GO(hr_expr_column(column, &name, err));
    HR_GO(hr__expr_replace(c->exprs[i], part, name, &rest, err));
    for (int k = 0; k < c->n; k++) {
        names[n] = c->names[k];
        exprs[n] = k == i ? rest : c->exprs[k];
        n += k != i || !gone;
    }
    st = hr__op_with_columns(names, exprs, n, out, err);
done:
    hr_expr_unref(name);
    hr_expr_unref(rest);
    hr__free(names);
    hr__free(exprs);
    return st;
}

/* `images`: the scan's name of `column`. */
static hr_status split(const computed *c, int i, hr_expr *part, const char *column, const char *images, hr_expr **out,
                       hr_op **op, hr_error *err)
{
    hr_status st;

    HR_TRY(hr__expr_rename(part, &column, &images, 1, out, err));
    st = what_is_left(c, i, part, column, op, err);
    if (st) {
        hr_expr_unref(*out);
        *out = NULL;
    }
    return st;
}

hr_status hr__image_rule(const hr_plan *p, const char *const *columns, int n, hr_expr **images, hr_op **op,
                         hr_error *err)
{
    computed c = { .wanted = columns, .n_wanted = n };
    hr_image_chain steps;

    *images = NULL;
    *op = NULL;
    if (p->op->cls->computed)
        c.n = p->op->cls->computed(p->op, &c.names, &c.exprs);
    for (int i = 0; i < c.n; i++) {
        const char *column, *upstream;
        hr_expr *part = is_wanted(&c, c.names[i]) ? steps_in(c.exprs[i], &steps, &column) : NULL;

        if (!part || steps.n > HR_OPEN_MAX_STEPS || steps.steps[0].kind == HR_STEP_DECODE || !is_seen_once(&c, column))
            continue;
        if ((upstream = way_to_scan(p->inputs[0], column, &steps)))
            return split(&c, i, part, column, upstream, images, op, err);
    }
    return HR_OK;
}
