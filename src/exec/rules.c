/* rules.c - rewrites of a plan that change what it costs, never what it gives.
 *
 * One walk from the top carries down what is wanted of the input: which columns (a projection narrows them, a function wants all) and
 * how many rows at most (a limit says so; whatever keeps every row passes that on). A scan takes both. Operators stay where
 * they are: a limit above a shortened scan still counts, so that a rule that is too timid costs time, not rows. */
#include "exec/exec.h"

typedef struct wanted {
    int n_columns; /* < 0: all */
    const char *const *columns;
    int64_t rows; /* < 0: all */
} wanted;

static hr_status set_columns(hr_plan *p, const wanted *w, hr_error *err)
{
    const char **names = hr__zalloc(NULL, ((size_t)w->n_columns + 1) * sizeof *names);

    if (!names)
        return hr__error_memory(err, "plan", w->n_columns);
    p->columns.names = names;
    p->columns.n = 0;
    for (int i = 0; i < w->n_columns; i++) {
        bool seen = false;

        for (int k = 0; k < p->columns.n; k++)
            seen = seen || !strcmp(names[k], w->columns[i]);
        if (seen)
            continue;
        if (!(names[p->columns.n] = hr__strdup(NULL, w->columns[i])))
            return hr__error_memory(err, "plan", (int64_t)strlen(w->columns[i]));
        p->columns.n++;
    }
    return HR_OK;
}

static wanted wanted_of_input(const hr_plan *p, const wanted *w)
{
    wanted below = *w;
    const char *const *names = NULL;
    int n = hr__op_project_inputs(p->op, &names);
    int64_t limit = hr__op_limit_rows(p->op);

    if (n >= 0) {
        below.columns = names;
        below.n_columns = n;
        return below;
    }
    if (limit >= 0) {
        below.rows = w->rows < 0 ? limit : HR_MIN(w->rows, limit);
        return below;
    }
    if (hr__op_rebatch_rows(p->op, NULL) < 0)
        below.n_columns = -1; /* a function sees every column */
    if (!p->op->one_to_one)
        below.rows = -1;
    return below;
}

static hr_status rewrite(hr_plan *p, const wanted *w, hr_plan **out, hr_error *err)
{
    hr_plan **ins = hr__zalloc(NULL, ((size_t)p->n_inputs + 1) * sizeof(hr_plan *));
    hr_status st = HR_OK;
    wanted below = *w;

    *out = NULL;
    if (!ins)
        return hr__error_memory(err, "plan", 64);
    if (p->kind == HR_PLAN_OP)
        below = wanted_of_input(p, w);
    for (int i = 0; i < p->n_inputs; i++)
        HR_GO(rewrite(p->inputs[i], &below, &ins[i], err));
    HR_GO(hr__plan_like(p, ins, out, err));
    if (p->kind == HR_PLAN_SCAN) {
        (*out)->limit_rows = w->rows;
        if (w->n_columns >= 0)
            st = set_columns(*out, w, err);
    }
done:
    for (int i = 0; i < p->n_inputs; i++)
        hr_plan_unref(ins[i]);
    hr__free(ins);
    if (st) {
        hr_plan_unref(*out);
        *out = NULL;
    }
    return st;
}

hr_status hr__plan_rewrite(hr_plan *p, hr_plan **out, hr_error *err)
{
    wanted all = { -1, NULL, -1 };

    return rewrite(p, &all, out, err);
}
