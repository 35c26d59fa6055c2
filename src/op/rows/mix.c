/* mix.c - mixes rows of several inputs in proportion to weights, exact by row.
 *
 * Each row comes from the input that is the furthest behind its share of the rows so far: the one with the largest
 *
 *     weight * rows of all - rows of this one
 *
 * Of equal inputs the larger weight wins, then the first. So after any number of rows each input has its share to
 * within one row, and the order depends only on the weights and the inputs' rows. A choice needs to know which inputs
 * have ended: the operator first reads inputs without a waiting row.
 *
 * A choice depends on the number of rows from each input: a marker holds these numbers and the markers of all inputs
 * (waiting.c).
 *
 * If the shorter inputs repeat, the plan has them several times (plan.c), and `until` says after how many rows each
 * has been there once: the mix ends when all have.
 *
 * The operator collects choices as picks (data/pick), and copies each row once.
 *
 * Tests: test_combine.c. */
#include "op/rows/waiting.h"

#include <math.h>
#include <stdio.h>

#define MAX_ROWS 16384 /* of an output table */

typedef struct mix_op {
    hr_op base;
    int n;
    bool drop;
    double *weights; /* their sum is 1 */
    int64_t *until;  /* the mix ends when each input has given this many rows; NULL: `drop` decides */
} mix_op;

typedef struct mix_state {
    hr_waiting *inputs;
    int64_t *given; /* rows of each so far */
    int n_full;     /* inputs that have given as many as `until` says */
    hr_schema *schema;
    int64_t n_rows;
    bool over;
    bool begun; /* a marker lies before the first row */
    /* the next output table: picks of parts; part_of: the part of each input's first table, -1: none yet */
    hr_table **parts;
    int64_t n_parts, cap_parts;
    int64_t *part_of;
    uint32_t *picks;
    int64_t n_picks;
} mix_state;

static hr_status state_of(const hr_op *op, hr_task *task, mix_state **out, hr_error *err)
{
    size_t n = (size_t)((const mix_op *)op)->n;
    hr_account *account = hr__task_run(task)->account;
    mix_state *s = *hr__task_state(task);

    if (!s) {
        if (!(s = *hr__task_state(task) = hr__zalloc(account, sizeof *s)))
            return hr__error_memory(err, "mix", sizeof *s);
        s->inputs = hr__zalloc(account, n * sizeof *s->inputs);
        s->given = hr__zalloc(account, n * sizeof *s->given);
        s->part_of = hr__zalloc(account, n * sizeof *s->part_of);
        s->picks = hr__alloc(account, MAX_ROWS * sizeof *s->picks);
        for (size_t i = 0; s->part_of && i < n; i++)
            s->part_of[i] = -1;
        for (size_t i = 0; ((const mix_op *)op)->until && i < n; i++)
            s->n_full += ((const mix_op *)op)->until[i] == 0;
    }
    *out = s;
    return s->inputs && s->given && s->part_of && s->picks
               ? HR_OK
               : hr__error_memory(err, "mix", (int64_t)(n * sizeof(void *)));
}

static void drop_parts(mix_state *s)
{
    while (s->n_parts)
        hr_table_unref(s->parts[--s->n_parts]);
    s->n_picks = 0;
}

static void mix_task_clear(const hr_op *op, hr_task *task)
{
    mix_state *s = *hr__task_state(task);

    if (!s)
        return;
    for (int i = 0; s->inputs && i < ((const mix_op *)op)->n; i++)
        hr__waiting_clear(&s->inputs[i]);
    drop_parts(s);
    hr__schema_unref(s->schema);
    hr__free(s->inputs);
    hr__free(s->given);
    hr__free(s->part_of);
    hr__free(s->picks);
    hr__free(s->parts);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

static hr_status mix_schema_of(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)n;
    (void)err;
    *out = hr__schema_ref(ins[0]); /* the plan has checked that they are equal */
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- choosing */

/* The input of the next row. -1: known only after rows, or the end, of input *wait; *over: there is no next row. */
static int choose(const mix_op *o, const mix_state *s, int *wait, bool *over)
{
    int best = -1;
    double most = 0;

    *over = o->until && s->n_full == o->n;
    if (*over)
        return -1;
    for (int i = 0; i < o->n; i++)
        if (s->inputs[i].n_rows == 0 && !s->inputs[i].ended) {
            *wait = i;
            return -1;
        }
    for (int i = 0; i < o->n; i++) {
        double behind = o->weights[i] * (double)s->n_rows - (double)s->given[i];

        if (s->inputs[i].n_rows == 0) {
            *over = *over || !o->drop;
            continue;
        }
        if (best < 0 || behind > most || (behind == most && o->weights[i] > o->weights[best])) {
            best = i;
            most = behind;
        }
    }
    *over = *over || best < 0;
    return *over ? -1 : best;
}

/* Emits the chosen rows as a table. */
static hr_status emit(const mix_op *o, mix_state *s, hr_task *task, hr_error *err)
{
    hr_status st = HR_OK;
    hr_run_coords coords = { .first = { .row = s->n_rows - s->n_picks }, .n = s->n_picks };
    hr_origin *origin = NULL;
    hr_table *t = NULL;

    if (s->n_picks == 0)
        return HR_OK;
    HR_GO(hr__origin_new(&coords, 1, &origin, err));
    HR_GO(hr__table_pick(hr__task_mem(task), s->schema, s->parts, (int)s->n_parts, s->picks, s->n_picks, origin, &t,
                         err));
    HR_GO(hr__task_emit(task, &t, err));
    drop_parts(s);
    for (int i = 0; i < o->n; i++)
        s->part_of[i] = -1;
    hr__waiting_pass(s->inputs, o->n, task);
done:
    hr__origin_unref(origin);
    hr_table_unref(t);
    return st;
}

/* The next row of input i. */
static hr_status pick(const mix_op *o, mix_state *s, hr_task *task, int i, hr_error *err)
{
    hr_waiting *w = &s->inputs[i];

    if (s->part_of[i] < 0) {
        if (!hr__grow(hr__task_run(task)->account, (void **)&s->parts, &s->cap_parts, s->n_parts + 1, sizeof *s->parts))
            return hr__error_memory(err, "mix", (s->n_parts + 1) * (int64_t)sizeof *s->parts);
        s->parts[s->n_parts] = hr_table_ref(hr__waiting_first(w));
        s->part_of[i] = s->n_parts++;
    }
    s->picks[s->n_picks++] = (uint32_t)s->part_of[i] << HR_PICK_BITS | (uint32_t)w->at;
    if (hr__waiting_left(w) == 1)
        s->part_of[i] = -1;
    hr__waiting_take(w, 1);
    s->given[i]++;
    s->n_full += o->until && s->given[i] == o->until[i];
    s->n_rows++;
    return HR_OK;
}

/* Takes rows until a choice needs more input. */
static hr_status go_on(const mix_op *o, mix_state *s, hr_task *task, hr_error *err)
{
    int wait = 0, i;

    while ((i = choose(o, s, &wait, &s->over)) >= 0 && !hr__task_cancelled(task)) {
        if (!s->begun)
            hr__waiting_pass(s->inputs, o->n, task);
        s->begun = true;
        HR_TRY(pick(o, s, task, i, err));
        if (s->n_picks == MAX_ROWS || s->n_parts == HR_PICK_PARTS)
            HR_TRY(emit(o, s, task, err));
    }
    HR_TRY(emit(o, s, task, err));
    if (s->over)
        hr__task_enough(task);
    else
        hr__task_want(task, wait);
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ input */

/* The tables of all inputs have nearly one schema: converts later tables, and the waiting ones if a later table has
 * wider types. */
static hr_status settle_schema(const mix_op *o, mix_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    char what[48];
    bool wider;

    snprintf(what, sizeof what, "mix: a table of input %d", hr__task_input(task));
    HR_TRY(hr__schema_widen(&s->schema, in->schema, what, &wider, err));
    for (int i = 0; wider && i < o->n; i++)
        for (int64_t k = 0; k < s->inputs[i].n; k++)
            HR_TRY(hr__table_conform_in_place(hr__task_mem(task), &s->inputs[i].tables[s->inputs[i].head + k],
                                              s->schema, err));
    return HR_OK;
}

static hr_status add(mix_state *s, hr_task *task, const hr_table *in, hr_error *err)
{
    hr_waiting *w = &s->inputs[hr__task_input(task)];

    for (int64_t at = 0, n; at < in->n_rows; at += n) { /* parts that picks can number */
        hr_table *part = NULL;
        hr_status st;

        n = HR_MIN(in->n_rows - at, HR_PICK_ROWS);
        HR_TRY(hr_table_slice(in, at, n, &part, err));
        st = hr__waiting_add(w, hr__task_run(task)->account, part, err);
        hr_table_unref(part);
        HR_TRY(st);
    }
    return HR_OK;
}

static hr_status mix_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const mix_op *o = (const mix_op *)op;
    hr_table *fitting = NULL;
    mix_state *s = NULL;
    hr_status st;

    HR_TRY(state_of(op, task, &s, err));
    if (s->over)
        return HR_OK;
    HR_TRY(settle_schema(o, s, task, in, err));
    HR_TRY(hr__table_conform(hr__task_mem(task), in, s->schema, &fitting, err));
    st = add(s, task, fitting, err);
    hr_table_unref(fitting);
    return st ? st : go_on(o, s, task, err);
}

static hr_status mix_marker(const hr_op *op, hr_task *task, hr_marker *takes, hr_error *err)
{
    mix_state *s = NULL;
    hr_status st = state_of(op, task, &s, err);

    if (st)
        hr__marker_drop(takes);
    else
        hr__waiting_mark(&s->inputs[hr__task_input(task)], hr__task_run(task)->account, takes);
    return st;
}

static hr_status mix_restore(const hr_op *op, hr_task *task, const char *state, hr_error *err)
{
    const mix_op *o = (const mix_op *)op;
    mix_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    HR_TRY(hr__waiting_restore(s->inputs, o->n, task, state, err));
    for (int i = 0; i < o->n; i++) {
        s->given[i] = hr__waiting_taken(&s->inputs[i]);
        s->n_rows += s->given[i];
        s->n_full += o->until && o->until[i] > 0 && s->given[i] >= o->until[i];
    }
    return go_on(o, s, task, err);
}

static hr_status mix_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    mix_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    s->inputs[input].ended = true;
    return s->over ? HR_OK : go_on((const mix_op *)op, s, task, err);
}

/* ----------------------------------------------------------------------------------------------------- the operator */

static void mix_describe(const hr_op *op, hr_text *out)
{
    const mix_op *o = (const mix_op *)op;

    hr__text_add(out, "mix(");
    for (int i = 0; i < o->n; i++)
        hr__text_add(out, "%s%.3g", i ? ", " : "", o->weights[i]);
    hr__text_add(out, "%s)", o->until ? ", the shorter repeated" : o->drop ? ", to the longest" : "");
}

static void mix_fingerprint(const hr_op *op, hr_hash *h)
{
    const mix_op *o = (const mix_op *)op;

    hr__hash_int(h, o->drop);
    hr__hash_add(h, o->weights, (size_t)o->n * sizeof *o->weights);
    if (o->until)
        hr__hash_add(h, o->until, (size_t)o->n * sizeof *o->until);
}

static void mix_free(hr_op *op)
{
    hr__free(((mix_op *)op)->weights);
    hr__free(((mix_op *)op)->until);
    hr__free(op);
}

static const hr_op_class mix_class = {
    .name = "mix",
    .doc = "rows of several inputs in proportion of weights",
    .kind = HR_OP_STREAM,
    .inputs = HR_INPUTS_CHOSEN,
    .schema_of = mix_schema_of,
    .needs = hr__same_needs,
    .push = mix_push,
    .ended = mix_ended,
    .task_clear = mix_task_clear,
    .marker = mix_marker,
    .restore = mix_restore,
    .describe = mix_describe,
    .fingerprint = mix_fingerprint,
    .free = mix_free,
};

hr_status hr__op_mix(const double *weights, int n, bool drop, const int64_t *until, hr_op **out, hr_error *err)
{
    double sum = 0;
    mix_op *o;

    *out = NULL;
    for (int i = 0; i < n; i++) {
        if (!(weights[i] > 0) || isinf(weights[i]))
            return hr_error_set(err, HR_INVALID, "mix: weight %d is %g; all must be above 0", i, weights[i]);
        sum += weights[i];
    }
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "mix", sizeof *o);
    hr__op_init(&o->base, &mix_class);
    o->n = n;
    o->drop = drop || until;
    o->weights = hr__alloc(NULL, (size_t)n * sizeof *o->weights);
    if (until)
        o->until = hr__alloc(NULL, (size_t)n * sizeof *o->until);
    if (!o->weights || (until && !o->until)) {
        hr__op_unref(&o->base);
        return hr__error_memory(err, "mix", n * (int64_t)sizeof *o->weights);
    }
    for (int i = 0; i < n; i++)
        o->weights[i] = weights[i] / sum;
    if (until)
        memcpy(o->until, until, (size_t)n * sizeof *until);
    *out = &o->base;
    return HR_OK;
}
