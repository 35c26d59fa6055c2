/* rules.c - the rules that rewrite a plan: they change its cost, never its rows.
 *
 * One walk from the last operator upstream to the scans carries a `wanted`: the columns, the maximum of rows, and the
 * filter that downstream operators need. Each operator declares by its traits (op/op.h) which of this holds for its
 * input; this file knows no operator by name. Operators stay in the plan: a limit downstream of a shortened scan still
 * counts, and a filter downstream of a reader that skips rows still filters. So a rule that fires too rarely costs
 * time, not rows.
 *
 * The rules (hr_rule in plan.h), each recorded in the `rules` of the node that it changed:
 *   columns      a scan reads only the columns that an operator or the consumer uses
 *   narrow       an operator gives only the columns that are used downstream (hr_op_class.narrow)
 *   uncalled     the plan drops a function whose one column is not used (hr_op.made)
 *   rows         a scan stops at the last row that a limit lets through (hr_op.cuts)
 *   skip         a scan skips the first rows, which a slice drops
 *   sorted       a sort whose order a sort downstream makes anyway is dropped (hr_op_class.order_keys)
 *   first_rows   a sort gives only the rows that a limit downstream lets through (hr_op_class.first_rows)
 *   filter       a scan gets the terms of filters that hold for its own columns; terms over computed columns stay
 *   sides        a filter downstream of a join runs on the join's inputs, too (hr_op_class.column_of_input)
 *   partners     a scan of a join's later input gets the keys of the earlier one (hr_op_class.partner_keys)
 *   first_input  a join begins with the input that has fewer rows (hr_op_class.first_input)
 *   blocks       a scan reads its blocks in the random order that an operator downstream wants (hr_op.blocks)
 *   permuted     repartition() gives its blocks in a random order (hr_op_class.permuted)
 *   images       a reader of images applies the image functions downstream (image_rule.c)
 * A new rule needs a line here and in hr_rule, and two cases in tests/test_rules.c: a plan on which it fires, and a
 * similar plan on which it must not. HEADRACE_RULES=strict makes it an error if the rewritten plan has other columns
 * than the plan. */
#include "plan/plan.h"

#include <stdlib.h>

static void fire(hr_plan *p, hr_rule rule) { p->rules |= 1u << rule; }

#define MAX_ORDER 16 /* columns of a sort that are remembered; a sort with more is dropped less often */

typedef struct wanted {
    int n_columns; /* < 0: all */
    const char *const *columns;
    int64_t rows;    /* < 0: all */
    int64_t skip;    /* of these rows, those at the beginning that are not needed */
    bool any_blocks; /* the scan reads its blocks in a random order, by block_seed */
    bool only_files; /* but keeps the order of tables in memory */
    hr_shuffle_seed block_seed;
    hr_expr *filter; /* NULL: all rows; else only rows for which it is true */
    struct {
        const hr_op *op;
        int key;
        hr_expr *column;
    } partners[HR_MAX_PARTNERS]; /* semi-join hints: see hr_partner */
    int n_partners;
    hr_expr *images;              /* NULL: none; image functions on the scan's images, which only one operator reads */
    const char *order[MAX_ORDER]; /* a sort downstream orders the rows by these columns, and keeps the order of equal
                                     rows; no operator in between looks at the order */
    int n_order;
} wanted;

/* The result of one step of the walk; owns what the step made. */
typedef struct step {
    wanted upstream;
    hr_op *op;       /* replaces the plan's operator; NULL: no change */
    hr_expr *images; /* upstream.images, if the functions come from this node */
    unsigned fired;  /* rules, as in hr_plan.rules */
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

/* Narrows the operator to its used columns. */
static hr_status narrow(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    hr_op *some = NULL;

    if (w->n_columns < 0 || !op->cls->narrow)
        return HR_OK;
    HR_TRY(op->cls->narrow(op, w->columns, w->n_columns, &some, err));
    if (!some)
        return HR_OK;
    hr__op_unref(s->op);
    s->op = some;
    s->fired |= 1u << HR_RULE_NARROW;
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- filters */

/* Terms of a filter that move upstream past an operator. */
typedef struct terms {
    hr_expr *all; /* the terms that passed so far; owned */
    const hr_op *op;
    int input;
    const char *(*name)(const struct terms *t, const char *column); /* of the column in the input; NULL: none */
} terms;

static const char *name_upstream(const terms *t, const char *column) { return hr__op_column_upstream(t->op, column); }

static const char *name_in_side(const terms *t, const char *column)
{
    return t->op->cls->column_of_input(t->op, t->input, column);
}

static hr_status pass_term(void *context, hr_expr *term, hr_error *err)
{
    terms *t = context;
    hr_expr *upstream = NULL, *both = NULL;
    const char **names = NULL, **names_upstream = NULL;
    int n = 0;
    bool passes = !hr__expr_row_random(term);
    hr_status st = HR_OK;

    HR_GO(hr__expr_columns(term, &names, &n, err));
    if (!(names_upstream = hr__alloc(NULL, ((size_t)n + 1) * sizeof *names_upstream)))
        HR_GO(hr__error_memory(err, "plan", n * (int64_t)sizeof *names_upstream));
    for (int i = 0; i < n && passes; i++)
        passes = (names_upstream[i] = t->name(t, names[i])) != NULL;
    if (!passes)
        goto done;
    HR_GO(hr__expr_rename(term, names, names_upstream, n, &upstream, err));
    HR_GO(hr__expr_and(t->all, upstream, &both, err));
    hr_expr_unref(t->all);
    t->all = both;
done:
    hr_expr_unref(upstream);
    hr__free(names);
    hr__free(names_upstream);
    return st;
}

/* Carries w's partners over to the input, by the columns that pass through. */
static hr_status partners_of_input(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    s->upstream.n_partners = 0;
    for (int i = 0; i < w->n_partners && op->cls->filter_upstream; i++) {
        terms t = { .op = op, .name = name_upstream };

        HR_TRY(pass_term(&t, w->partners[i].column, err));
        if (!t.all)
            continue;
        s->upstream.partners[s->upstream.n_partners] = w->partners[i];
        s->upstream.partners[s->upstream.n_partners++].column = t.all;
    }
    return HR_OK;
}

/* The terms of w's filter, and of the operator's own, that hold upstream of the operator. */
static hr_status filter_of_input(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    hr_status st = HR_OK;
    terms t = { .op = op, .name = name_upstream };

    s->upstream.filter = NULL;
    if (!op->cls->filter_upstream)
        return HR_OK;
    if (op->predicate)
        st = hr__expr_each_term(op->predicate, pass_term, &t, err);
    if (!st && w->filter)
        st = hr__expr_each_term(w->filter, pass_term, &t, err);
    if (st)
        hr_expr_unref(t.all);
    else
        s->upstream.filter = t.all;
    return st;
}

static hr_status pass_to_side(void *context, hr_expr *term, hr_error *err)
{
    return hr__expr_is_total(term) ? pass_term(context, term, err) : HR_OK;
}

/* Input i of p behind a filter: the terms of w's filter that hold for it, and that cannot fail on rows which the
 * operator drops. *out is new; NULL: there are none. */
static hr_status filtered_side(const hr_plan *p, int i, const wanted *w, hr_plan **out, hr_error *err)
{
    terms t = { .op = p->op, .input = i, .name = name_in_side };
    hr_op *op = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (p->kind != HR_PLAN_OP || !p->op->cls->column_of_input || !w->filter)
        return HR_OK;
    HR_GO(hr__expr_each_term(w->filter, pass_to_side, &t, err));
    if (!t.all)
        return HR_OK;
    HR_GO(hr__op_filter_expr(t.all, &op, err));
    st = hr__plan_op(p->inputs[i], op, out, err);
done:
    hr_expr_unref(t.all);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- the walk */

static hr_status rewrite(hr_plan *p, const wanted *w, hr_plan **out, hr_error *err);

static void step_clear(step *s)
{
    hr_expr_unref(s->upstream.filter);
    for (int i = 0; i < s->upstream.n_partners; i++)
        hr_expr_unref(s->upstream.partners[i].column);
    hr_expr_unref(s->images);
    hr__op_unref(s->op);
}

/* Carries a random order of blocks upstream, past operators that do not depend on earlier rows. */
static void order_of_blocks(const hr_op *op, wanted *w)
{
    if (op->cls->kind != HR_OP_MAP || op->in_order)
        w->any_blocks = false;
    if (op->blocks == HR_BLOCKS_AS_THEY_ARE)
        return;
    w->any_blocks = true;
    w->only_files = op->blocks == HR_BLOCKS_OF_FILES;
    w->block_seed = op->blocks_seed;
}

/* Replaces the operator by one that gives only its first rows, or its blocks in another order, if downstream operators
 * allow that. */
static hr_status other_order(step *s, const hr_op *op, const wanted *w, hr_error *err)
{
    if (w->any_blocks && !w->only_files && op->cls->permuted) {
        s->fired |= 1u << HR_RULE_PERMUTED;
        return op->cls->permuted(op, &w->block_seed, &s->op, err);
    }
    if (w->rows < 0 || w->filter || !op->cls->first_rows)
        return HR_OK;
    s->fired |= 1u << HR_RULE_FIRST_ROWS;
    return op->cls->first_rows(op, w->rows, &s->op, err);
}

/* How many rows of its input an operator needs, and how many rows before them it drops. */
static void rows_of_input(const hr_op *op, const wanted *w, wanted *upstream)
{
    upstream->skip = op->cuts ? op->cut_begin : op->one_to_one && !op->in_order ? w->skip : 0;
    if (!op->cuts)
        upstream->rows = op->one_to_one ? w->rows : -1;
    else if (w->rows >= 0 && (op->cut_end < 0 || w->rows < op->cut_end - op->cut_begin))
        upstream->rows = op->cut_begin + w->rows;
    else
        upstream->rows = op->cut_end;
}

/* The columns by which a sort downstream orders the input. */
static void order_of_input(const hr_plan *p, const wanted *w, wanted *upstream)
{
    const hr_op *op = p->op;
    const char *keys[MAX_ORDER];
    int n = op->cls->order_keys ? op->cls->order_keys(op, keys, MAX_ORDER) : 0;

    upstream->n_order = 0;
    if (n) {
        memcpy(upstream->order, keys, (size_t)n * sizeof *keys);
        upstream->n_order = n;
        return;
    }
    if (!op->one_to_one || op->in_order || !op->cls->shares_columns || p->n_inputs != 1)
        return;
    for (int i = 0; i < w->n_order; i++) {
        const char *name = hr__op_column_upstream(op, w->order[i]);

        if (name)
            upstream->order[upstream->n_order++] = name;
    }
}

static hr_status step_upstream(const hr_plan *p, const wanted *w, step *s, hr_error *err)
{
    s->upstream = *w;
    order_of_input(p, w, &s->upstream);
    s->upstream.filter = NULL; /* filter_of_input translates the filter */
    s->upstream.n_partners = 0;
    s->upstream.n_columns = -1; /* an operator without `needs` reads every column; for others see rewrite_input */
    rows_of_input(p->op, w, &s->upstream);
    order_of_blocks(p->op, &s->upstream);
    HR_TRY(filter_of_input(s, p->op, w, err));
    HR_TRY(partners_of_input(s, p->op, w, err));
    HR_TRY(other_order(s, p->op, w, err));
    if (p->op->cls->computed)
        HR_TRY(hr__image_rule(p, w->columns, w->n_columns, &s->images, &s->op, err));
    if (s->images)
        s->upstream.images = s->images;
    return narrow(s, s->op ? s->op : p->op, w, err);
}

/* Adds the keys of an operator's partners, as columns of the input, to w's partners, which stay the caller's. */
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

#define FILTER_KEEPS 4 /* a filter keeps about 1 of 4 rows: a guess */

/* Estimates the number of rows of p; -1: unknown. Assumes that a function gives a row for each row, and a join the rows
 * of its left side. */
int64_t hr__plan_guess_rows(const hr_plan *p)
{
    int64_t sum = 0;

    if (p->kind == HR_PLAN_SCAN)
        return hr__scan_guess_rows(p->scan);
    for (int i = 0; i < p->n_inputs; i++) {
        int64_t n = hr__plan_guess_rows(p->inputs[i]);

        if (n < 0)
            return -1;
        sum = p->kind == HR_PLAN_UNION ? sum + n : n;
    }
    if (p->kind == HR_PLAN_UNION)
        return sum;
    if (p->op->cuts)
        return HR_MAX(0, (p->op->cut_end < 0 ? sum : HR_MIN(sum, p->op->cut_end)) - p->op->cut_begin);
    return p->op->predicate ? sum / FILTER_KEEPS : sum;
}

#define MAX_ASKED 8

static int first_input(const hr_plan *p)
{
    int64_t rows[MAX_ASKED];

    if (p->kind != HR_PLAN_OP || !p->op->cls->first_input || p->n_inputs > MAX_ASKED)
        return 0;
    for (int i = 0; i < p->n_inputs; i++)
        rows[i] = hr__plan_guess_rows(p->inputs[i]);
    return p->op->cls->first_input(p->op, rows);
}

/* Rewrites input i of `p`, as it is or behind a filter. `op` (the plan's, or the step's replacement) declares its
 * needs. */
static hr_status rewrite_input(const hr_plan *p, const hr_op *op, int i, hr_plan *input, int first, const wanted *w,
                               const wanted *upstream, hr_plan **out, hr_error *err)
{
    hr_needs needs = { 0 };
    wanted of_it = *upstream;
    int n_partners = upstream->n_partners;
    hr_status st = HR_OK;

    if (p->kind != HR_PLAN_OP || !op->cls->needs)
        return rewrite(input, upstream, out, err);
    HR_GO(op->cls->needs(op, i, w->columns, w->n_columns, &needs, err));
    of_it.columns = needs.names;
    of_it.n_columns = needs.n;
    if (i != first)
        HR_GO(add_partners(p->op, i, &of_it, err));
    st = rewrite(input, &of_it, out, err);
done:
    for (int k = n_partners; k < of_it.n_partners; k++)
        hr_expr_unref(of_it.partners[k].column);
    hr__free(needs.names);
    return st;
}

static void count_rules_of_scan(hr_plan *p)
{
    const bool fired[HR_N_RULES] = {
        [HR_RULE_COLUMNS] = p->columns.n >= 0,  [HR_RULE_ROWS] = p->limit_rows >= 0,
        [HR_RULE_SKIP] = p->skip_rows > 0,      [HR_RULE_FILTER] = p->filter != NULL,
        [HR_RULE_PARTNERS] = p->n_partners > 0, [HR_RULE_BLOCKS] = p->random_blocks,
        [HR_RULE_IMAGES] = p->images != NULL,
    };

    for (int i = 0; i < HR_N_RULES; i++)
        if (fired[i])
            fire(p, (hr_rule)i);
}

static hr_status rewrite_scan(hr_plan *p, const wanted *w, hr_error *err)
{
    p->limit_rows = w->filter ? -1 : w->rows;
    p->skip_rows = w->filter ? 0 : w->skip;
    p->random_blocks = w->any_blocks && !p->lane.fixed_order && (!w->only_files || hr__scan_orders_files(p->scan));
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
    if (w->n_columns >= 0)
        HR_TRY(set_columns(p, w, err));
    count_rules_of_scan(p);
    return HR_OK;
}

static bool makes_what_nobody_wants(const hr_plan *p, const wanted *w)
{
    const char *made = p->kind == HR_PLAN_OP ? p->op->made : NULL;

    return made && w->n_columns >= 0 && !hr__has_name(w->columns, w->n_columns, made);
}

/* Whether p sorts by columns by which a sort downstream orders the rows too: of rows that are equal there, which keep
 * their order, the keys of p are equal as well. */
static bool sorts_in_vain(const hr_plan *p, const wanted *w)
{
    const char *keys[MAX_ORDER + 1];
    int n = p->kind == HR_PLAN_OP && p->op->cls->order_keys ? p->op->cls->order_keys(p->op, keys, MAX_ORDER + 1) : 0;

    for (int i = 0; i < n; i++)
        if (!hr__has_name(w->order, w->n_order, keys[i]))
            return false;
    return n > 0 && n <= MAX_ORDER;
}

static hr_status rewrite_node(hr_plan *p, const wanted *w, step *s, hr_plan **ins, hr_plan **out, hr_error *err)
{
    int first = first_input(p);
    const hr_op *op;

    if (p->kind == HR_PLAN_OP)
        HR_TRY(step_upstream(p, w, s, err));
    op = s->op ? s->op : p->op;
    for (int i = 0; i < p->n_inputs; i++) {
        hr_plan *side = NULL;
        hr_status st;

        HR_TRY(filtered_side(p, i, w, &side, err));
        s->fired |= side ? 1u << HR_RULE_SIDES : 0;
        st = rewrite_input(p, op, i, side ? side : p->inputs[i], first, w, p->kind == HR_PLAN_OP ? &s->upstream : w,
                           &ins[i], err);
        hr_plan_unref(side);
        HR_TRY(st);
    }
    HR_TRY(hr__plan_like(p, ins, out, err));
    (*out)->first_input = first;
    (*out)->rules = s->fired;
    if (first)
        fire(*out, HR_RULE_FIRST_INPUT);
    if (s->op) {
        hr__op_unref((*out)->op);
        (*out)->op = s->op;
        s->op = NULL; /* moved into the plan */
    }
    return p->kind == HR_PLAN_SCAN ? rewrite_scan(*out, w, err) : HR_OK;
}

static hr_status rewrite(hr_plan *p, const wanted *w, hr_plan **out, hr_error *err)
{
    hr_plan **ins;
    step s = { 0 };
    hr_status st;

    *out = NULL;
    if (p->op && p->op->caches) /* a run rewrites the plan of cached rows when it computes some (exec/row_leaf.c) */
        return hr__plan_like(p, p->inputs, out, err);
    if (makes_what_nobody_wants(p, w)) {
        HR_TRY(rewrite(p->inputs[0], w, out, err));
        fire(*out, HR_RULE_UNCALLED);
        return HR_OK;
    }
    if (sorts_in_vain(p, w)) {
        HR_TRY(rewrite(p->inputs[0], w, out, err));
        fire(*out, HR_RULE_SORTED);
        return HR_OK;
    }
    if (!(ins = hr__zalloc(NULL, ((size_t)p->n_inputs + 1) * sizeof(hr_plan *))))
        return hr__error_memory(err, "plan", 64);
    st = rewrite_node(p, w, &s, ins, out, err);
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

unsigned hr__plan_rules(const hr_plan *p)
{
    unsigned fired = p->rules;

    for (int i = 0; i < p->n_inputs; i++)
        fired |= hr__plan_rules(p->inputs[i]);
    return fired;
}

static bool is_strict(void)
{
    const char *text = getenv("HEADRACE_RULES");

    return text && !strcmp(text, "strict");
}

/* Checks that the rewritten plan has the plan's columns, if these are known without opening a file. */
static hr_status check_columns(hr_plan *p, hr_plan *rewritten, hr_error *err)
{
    hr_schema *want = hr__plan_known_schema(p), *found = NULL;
    char text[300];
    hr_status st = HR_OK;

    if (!want)
        return HR_OK;
    HR_GO(hr__plan_schema_early(rewritten, &found, err));
    if (!found || hr__schema_equal(want, found))
        goto done;
    hr__schema_difference(found, want, text, sizeof text);
    HR_FAIL(HR_BUG, "a rule changed the columns of a plan: %s (rules that fired: %#x)", text,
            hr__plan_rules(rewritten));
done:
    hr__schema_unref(want);
    hr__schema_unref(found);
    return st;
}

hr_status hr__plan_rewrite(hr_plan *p, hr_plan **out, hr_error *err)
{
    wanted all = { .n_columns = -1, .rows = -1 };
    hr_status st;

    HR_TRY(rewrite(p, &all, out, err));
    if (is_strict() && (st = check_columns(p, *out, err))) {
        hr_plan_unref(*out);
        *out = NULL;
        return st;
    }
    return HR_OK;
}
