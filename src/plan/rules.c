/* rules.c - rewrites of a plan that change what it costs, never what it gives.
 *
 * One walk from the top carries down what is wanted of the input: which columns (a projection narrows them, a function
 * wants all), how many rows at most (a limit says so; whatever keeps every row passes that on), and for which rows at
 * all (a filter by an expression says so, in terms of the columns that stand there: renames are undone, terms over
 * computed columns stay behind). A scan takes all three; a sort keeps no more rows than are wanted of it. Operators
 * stay where they are: a limit above a shortened scan still counts and a filter above a reader that skips still
 * filters, so that a rule that is too timid costs time, not rows. So do the keys of a join's first input go down the
 * other, for a scan to leave out what is beyond them, when they are known; which input comes first is said here, by how
 * many rows there may be of each. Computed columns that nobody looks at are not computed, and functions that make such
 * are not called; what is computed of images alone, their reader does (image_rule.c). */
#include "plan/plan.h"

typedef struct wanted {
    int n_columns; /* < 0: all */
    const char *const *columns;
    int64_t rows;    /* < 0: all */
    int64_t skip;    /* rows at the beginning, of those, that are not needed */
    bool any_blocks; /* the scan's blocks are to come in a random order, by block_seed */
    bool only_files; /* but not those of tables in memory */
    hr_shuffle_seed block_seed;
    hr_expr *filter; /* NULL: all rows; else at most those for which it is true */
    struct {
        const hr_op *op;
        int key;
        hr_expr *column;
    } partners[HR_MAX_PARTNERS]; /* rows are wanted for their partners alone: see hr_partner */
    int n_partners;
    hr_expr
        *images; /* NULL: as they are; else image functions on the scan's, which only the operator that had them sees */
} wanted;

/* What one step makes of it; owns what it had to make anew. */
typedef struct step {
    wanted below;
    hr_op *op;          /* in place of the plan's; NULL: that one */
    hr_expr *images;    /* below.images, if they begin here */
    const char **names; /* below.columns, borrowed texts */
    int64_t cap;
} step;

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

/* -------------------------------------------------------------------------------------------------------- columns */

bool hr__has_name(const char *const *names, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static hr_status want(step *s, const char *name, hr_error *err)
{
    if (hr__has_name(s->names, s->below.n_columns, name))
        return HR_OK;
    if (!hr__grow(NULL, (void **)&s->names, &s->cap, s->below.n_columns + 1, sizeof *s->names))
        return hr__error_memory(err, "plan", (s->below.n_columns + 1) * (int64_t)sizeof *s->names);
    s->names[s->below.n_columns++] = name;
    s->below.columns = s->names;
    return HR_OK;
}

static hr_status want_columns_of(step *s, const hr_expr *e, hr_error *err)
{
    const char **names = NULL;
    int n = 0;
    hr_status st = hr__expr_columns(e, &names, &n, err);

    for (int i = 0; i < n && !st; i++)
        st = want(s, names[i], err);
    hr__free(names);
    return st;
}

/* All that is wanted of a filter's output, and what it looks at. What is only looked at does not go on: it need not be
 * copied. */
static hr_status columns_of_filter(step *s, const wanted *w, hr_expr *predicate, hr_error *err)
{
    if (w->n_columns < 0)
        return HR_OK;
    s->below.n_columns = 0;
    for (int i = 0; i < w->n_columns; i++)
        HR_TRY(want(s, w->columns[i], err));
    HR_TRY(want_columns_of(s, predicate, err));
    if (s->below.n_columns == w->n_columns)
        return HR_OK;
    return hr__op_filter_giving(predicate, w->columns, w->n_columns, &s->op, err);
}

/* Of a projection those that are wanted of it. */
static hr_status columns_of_project(step *s, const wanted *w, const hr_op *op, hr_error *err)
{
    const char *const *inputs = NULL, *const *outputs = NULL, **kept = NULL;
    int n = hr__op_project_inputs(op, &inputs), n_kept = 0;
    hr_status st = HR_OK;

    hr__op_project_outputs(op, &outputs);
    s->below.columns = inputs;
    s->below.n_columns = n;
    if (w->n_columns < 0)
        return HR_OK;
    if (!(kept = hr__alloc(NULL, (2 * (size_t)n + 1) * sizeof *kept)))
        return hr__error_memory(err, "plan", n * (int64_t)sizeof *kept);
    s->below.n_columns = 0;
    for (int i = 0; i < n; i++) {
        if (!hr__has_name(w->columns, w->n_columns, outputs[i]))
            continue;
        HR_GO(want(s, inputs[i], err));
        kept[n_kept] = inputs[i];
        kept[n + n_kept++] = outputs[i];
    }
    if (n_kept < n)
        st = hr__op_project(kept, kept + n, n_kept, &s->op, err);
done:
    hr__free(kept);
    return st;
}

/* Of the computed columns those that are wanted; of the input what they need and what is handed through. */
static hr_status columns_of_computed(step *s, const wanted *w, const char *const *names, hr_expr *const *exprs, int n,
                                     hr_error *err)
{
    const char **kept_names = NULL;
    hr_expr **kept = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;
    int n_kept = 0;

    if (w->n_columns < 0)
        return HR_OK;
    kept_names = hr__alloc(NULL, ((size_t)n + 1) * sizeof *kept_names);
    kept = hr__alloc(NULL, ((size_t)n + 1) * sizeof(hr_expr *));
    if (!kept_names || !kept)
        HR_GO(hr__error_memory(err, "plan", n * (int64_t)sizeof *kept));
    s->below.n_columns = 0;
    for (int i = 0; i < w->n_columns; i++)
        if (!hr__has_name(names, n, w->columns[i]))
            HR_GO(want(s, w->columns[i], err));
    for (int i = 0; i < n; i++)
        if (hr__has_name(w->columns, w->n_columns, names[i])) {
            HR_GO(want_columns_of(s, exprs[i], err));
            kept_names[n_kept] = names[i];
            kept[n_kept++] = exprs[i];
        }
    if (n_kept < n) {
        st = hr__op_with_columns(kept_names, kept, n_kept, &op, err);
        hr__op_unref(s->op); /* which had those that were kept */
        s->op = op;
    }
done:
    hr__free(kept_names);
    hr__free(kept);
    return st;
}

/* Of what makes an input like the others of its union: what is wanted, as far as the input has it. */
static hr_status columns_of_union(step *s, const wanted *w, const hr_op *op, const hr_schema *in, hr_error *err)
{
    if (w->n_columns < 0)
        return HR_OK;
    s->below.n_columns = 0;
    for (int i = 0; i < w->n_columns; i++)
        if (hr__schema_find(in, w->columns[i]) >= 0)
            HR_TRY(want(s, w->columns[i], err));
    return hr__op_union_columns_giving(op, w->columns, w->n_columns, &s->op, err);
}

/* -------------------------------------------------------------------------------------------------------- filters */

/* Terms of a filter on their way below an operator. */
typedef struct terms {
    hr_expr *all;                /* what was let through so far, owned */
    const char *const *allowed;  /* only over these columns; NULL: any */
    const char *const *renamed;  /* which become these */
    const char *const *computed; /* not over these */
    int n;
} terms;

static hr_status pass_term(void *context, hr_expr *term, hr_error *err)
{
    terms *t = context;
    hr_expr *below = NULL, *both = NULL;
    const char **names = NULL;
    int n = 0;
    bool passes = !hr__expr_row_random(term);
    hr_status st = HR_OK;

    HR_GO(hr__expr_columns(term, &names, &n, err));
    for (int i = 0; i < n; i++)
        passes = passes && (!t->allowed || hr__has_name(t->allowed, t->n, names[i])) &&
                 (!t->computed || !hr__has_name(t->computed, t->n, names[i]));
    if (!passes)
        goto done;
    HR_GO(hr__expr_rename(term, t->allowed, t->renamed, t->allowed ? t->n : 0, &below, err));
    HR_GO(hr__expr_and(t->all, below, &both, err));
    hr_expr_unref(t->all);
    t->all = both;
done:
    hr_expr_unref(below);
    hr__free(names);
    return st;
}

/* Which terms an operator lets through; false: none. */
static bool lets_through(const hr_op *op, terms *t)
{
    const char *const *inputs = NULL, *const *outputs = NULL, *const *computed = NULL;
    int n_project = hr__op_project_inputs(op, &inputs), n_computed = hr__op_computed(op, &computed, NULL);

    *t = (terms){ 0 };
    if (n_project >= 0) {
        hr__op_project_outputs(op, &outputs);
        *t = (terms){ .allowed = outputs, .renamed = inputs, .n = n_project };
    } else if (n_computed >= 0) {
        *t = (terms){ .computed = computed, .n = n_computed };
    } else if (!hr__op_filter_predicate(op) && !op->cls->filter_below) {
        return false; /* a limit counts all rows, a function sees all */
    }
    return true;
}

/* The partners of w's rows are those of the input's, by the columns that go through. */
static hr_status partners_of_input(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    terms t;

    s->below.n_partners = 0;
    for (int i = 0; i < w->n_partners; i++) {
        if (!lets_through(op, &t))
            return HR_OK;
        HR_TRY(pass_term(&t, w->partners[i].column, err));
        if (!t.all)
            continue;
        s->below.partners[s->below.n_partners] = w->partners[i];
        s->below.partners[s->below.n_partners++].column = t.all;
    }
    return HR_OK;
}

/* What of w's filter, and the operator's own, holds below the operator. */
static hr_status filter_of_input(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    hr_expr *predicate = hr__op_filter_predicate(op);
    hr_status st = HR_OK;
    terms t;

    s->below.filter = NULL;
    if (!lets_through(op, &t))
        return HR_OK;
    if (predicate)
        st = hr__expr_each_term(predicate, pass_term, &t, err);
    if (!st && w->filter)
        st = hr__expr_each_term(w->filter, pass_term, &t, err);
    if (st)
        hr_expr_unref(t.all);
    else
        s->below.filter = t.all;
    return st;
}

/* --------------------------------------------------------------------------------------------------------- the walk */

static hr_status rewrite(hr_plan *p, const wanted *w, hr_plan **out, hr_error *err);

static void step_clear(step *s)
{
    hr_expr_unref(s->below.filter);
    for (int i = 0; i < s->below.n_partners; i++)
        hr_expr_unref(s->below.partners[i].column);
    hr_expr_unref(s->images);
    hr__op_unref(s->op);
    hr__free(s->names);
}

/* Blocks come in a random order below what says so, as far as operators do not look at rows before their own. */
static void order_of_blocks(const hr_op *op, wanted *w)
{
    const hr_shuffle_seed *seed = hr__op_block_order_seed(op);

    if (op->cls->kind != HR_OP_MAP || op->in_order)
        w->any_blocks = false;
    if (op->cls == &hr__local_shuffle) {
        w->any_blocks = w->only_files = true;
        w->block_seed = hr__op_local_shuffle_seed(op);
    } else if (seed) {
        w->any_blocks = true;
        w->only_files = false;
        w->block_seed = *seed;
    }
}

/* The operator that gives only the first of its rows, or its blocks in another order, if nobody wants more or minds.
 * NULL: as it is. */
static hr_status other_order(const hr_op *op, const wanted *w, hr_op **out, hr_error *err)
{
    *out = NULL;
    if (w->any_blocks && !w->only_files)
        HR_TRY(hr__op_repartition_permuted(op, &w->block_seed, out, err));
    return !*out && w->rows >= 0 && !w->filter ? hr__op_sort_first(op, w->rows, out, err) : HR_OK;
}

static hr_status step_below(const hr_plan *p, const wanted *w, step *s, hr_error *err)
{
    const char *const *names = NULL;
    hr_expr *const *exprs = NULL;
    const hr_schema *in;
    int n_computed;
    int64_t limit = hr__op_limit_rows(p->op), begin, end;

    s->below = *w;
    s->below.filter = NULL; /* those are not ours */
    s->below.n_partners = 0;
    s->below.skip = p->op->one_to_one && !p->op->in_order ? w->skip : 0;
    order_of_blocks(p->op, &s->below);
    HR_TRY(filter_of_input(s, p->op, w, err));
    HR_TRY(partners_of_input(s, p->op, w, err));
    if (hr__op_project_inputs(p->op, NULL) >= 0)
        return columns_of_project(s, w, p->op, err);
    if (limit >= 0) {
        s->below.rows = w->rows < 0 ? limit : HR_MIN(w->rows, limit);
        return HR_OK;
    }
    if (hr__op_slice_rows(p->op, &begin, &end)) {
        s->below.rows = w->rows >= 0 && w->rows < end - begin ? begin + w->rows : end < INT64_MAX ? end : -1;
        s->below.skip = begin;
        return HR_OK;
    }
    HR_TRY(other_order(p->op, w, &s->op, err));
    if (!p->op->one_to_one)
        s->below.rows = -1;
    if (hr__op_filter_predicate(p->op))
        return columns_of_filter(s, w, hr__op_filter_predicate(p->op), err);
    if (hr__op_computed(p->op, NULL, NULL) >= 0) {
        HR_TRY(hr__image_rule(p, w->columns, w->n_columns, &s->images, &s->op, err));
        if (s->images)
            s->below.images = s->images;
        n_computed = hr__op_computed(s->op ? s->op : p->op, &names, &exprs);
        return columns_of_computed(s, w, names, exprs, n_computed, err);
    }
    if (hr__op_union_columns_in(p->op, &in) >= 0)
        return columns_of_union(s, w, p->op, in, err);
    if (hr__op_rebatch_rows(p->op, NULL) < 0)
        s->below.n_columns = -1; /* a function sees every column */
    return HR_OK;
}

/* The keys of an operator's partners, as columns of the input: behind those of `w`, which stay the caller's. */
static hr_status add_partners(const hr_op *op, int input, wanted *w, hr_error *err)
{
    const char *const *keys = NULL;
    int n = op->cls->partner_keys ? op->cls->partner_keys(op, input, &keys) : 0;

    for (int k = 0; k < n && w->n_partners < HR_MAX_PARTNERS; k++) {
        HR_TRY(hr_expr_column(keys[k], &w->partners[w->n_partners].column, err));
        w->partners[w->n_partners].op = op;
        w->partners[w->n_partners++].key = k;
    }
    return HR_OK;
}

#define FILTER_KEEPS 4 /* one row of so many: nobody knows */

/* About how many rows p gives; -1: nobody knows. Functions are taken to give a row for a row, joins those of their left
 * side. */
static int64_t guess_rows(const hr_plan *p)
{
    int64_t sum = 0, begin, end;

    if (p->kind == HR_PLAN_SCAN)
        return hr__scan_guess_rows(p->scan);
    for (int i = 0; i < p->n_inputs; i++) {
        int64_t n = guess_rows(p->inputs[i]);

        if (n < 0)
            return -1;
        sum = p->kind == HR_PLAN_UNION ? sum + n : n;
    }
    if (p->kind == HR_PLAN_UNION)
        return sum;
    if (hr__op_limit_rows(p->op) >= 0)
        return HR_MIN(sum, hr__op_limit_rows(p->op));
    if (hr__op_slice_rows(p->op, &begin, &end))
        return HR_MAX(0, HR_MIN(sum, end) - begin);
    return hr__op_filter_predicate(p->op) ? sum / FILTER_KEEPS : sum;
}

#define MAX_ASKED 8

static int first_input(const hr_plan *p)
{
    int64_t rows[MAX_ASKED];

    if (p->kind != HR_PLAN_OP || !p->op->cls->first_input || p->n_inputs > MAX_ASKED)
        return 0;
    for (int i = 0; i < p->n_inputs; i++)
        rows[i] = guess_rows(p->inputs[i]);
    return p->op->cls->first_input(p->op, rows);
}

/* What an operator that says so itself needs of one of its inputs. */
static hr_status rewrite_input(const hr_plan *p, int i, int first, const wanted *w, const wanted *below, hr_plan **out,
                               hr_error *err)
{
    hr_needs needs = { 0 };
    wanted of_it = *below;
    int n_partners = below->n_partners;
    hr_status st = HR_OK;

    if (p->kind != HR_PLAN_OP || !p->op->cls->needs)
        return rewrite(p->inputs[i], below, out, err);
    HR_GO(p->op->cls->needs(p->op, i, w->columns, w->n_columns, &needs, err));
    of_it.columns = needs.names;
    of_it.n_columns = needs.n;
    if (i != first)
        HR_GO(add_partners(p->op, i, &of_it, err));
    st = rewrite(p->inputs[i], &of_it, out, err);
done:
    for (int k = n_partners; k < of_it.n_partners; k++)
        hr_expr_unref(of_it.partners[k].column);
    hr__free(needs.names);
    return st;
}

static hr_status rewrite_scan(hr_plan *p, const wanted *w, hr_error *err)
{
    p->limit_rows = w->filter ? -1 : w->rows;
    p->skip_rows = w->filter ? 0 : w->skip;
    p->random_blocks = w->any_blocks && (!w->only_files || hr__scan_orders_files(p->scan));
    p->block_seed = w->block_seed;
    p->filter = hr_expr_ref(w->filter);
    for (int i = 0; i < w->n_partners; i++) {
        if (!(p->partners[i].column = hr__strdup(NULL, w->partners[i].column->name)))
            return hr__error_memory(err, "plan", 64);
        p->partners[i].op = w->partners[i].op;
        p->partners[i].key = w->partners[i].key;
        p->n_partners++;
    }
    p->images = hr_expr_ref(w->images);
    return w->n_columns >= 0 ? set_columns(p, w, err) : HR_OK;
}

static bool makes_what_nobody_wants(const hr_plan *p, const wanted *w)
{
    const char *made = p->kind == HR_PLAN_OP ? hr__op_made_column(p->op) : NULL;

    for (int i = 0; made && i < w->n_columns; i++)
        if (!strcmp(w->columns[i], made))
            return false;
    return made && w->n_columns >= 0;
}

static hr_status rewrite(hr_plan *p, const wanted *w, hr_plan **out, hr_error *err)
{
    hr_plan **ins = hr__zalloc(NULL, ((size_t)p->n_inputs + 1) * sizeof(hr_plan *));
    hr_status st = HR_OK;
    step s = { 0 };
    int first = 0;

    *out = NULL;
    if (!ins)
        return hr__error_memory(err, "plan", 64);
    if (makes_what_nobody_wants(p, w)) {
        hr__free(ins);
        return rewrite(p->inputs[0], w, out, err);
    }
    if (p->kind == HR_PLAN_OP)
        HR_GO(step_below(p, w, &s, err));
    first = first_input(p);
    for (int i = 0; i < p->n_inputs; i++)
        HR_GO(rewrite_input(p, i, first, w, p->kind == HR_PLAN_OP ? &s.below : w, &ins[i], err));
    HR_GO(hr__plan_like(p, ins, out, err));
    (*out)->first_input = first;
    if (s.op) {
        hr__op_unref((*out)->op);
        (*out)->op = s.op;
        s.op = NULL; /* moved into the plan */
    }
    if (p->kind == HR_PLAN_SCAN)
        st = rewrite_scan(*out, w, err);
done:
    step_clear(&s);
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
    wanted all = { .n_columns = -1, .rows = -1 };

    return rewrite(p, &all, out, err);
}
