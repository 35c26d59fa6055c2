/* lanes.c - takes batches of several lanes in turn. A lane is a plan over a range of the source's rows.
 *
 * Turn t is batch t / L of lane t % L, where a batch is batch_rows rows of the lane's output. The operator gives the
 * turns first, first + step, ...: on one of K hosts those of its lanes. After its last turn it gives the rest of each
 * lane, in the order of the lanes, if that is wanted. The numbers of rows are known before the run (plan/plan_lanes.c),
 * so a lane that ends early is an error: other hosts have counted with its rows.
 *
 * An input may begin before the first row that is wanted of its lane (hr__task_first_row): its functions then see whole
 * batches. These rows, and turns of other hosts, are dropped here.
 *
 * It passes no markers: a run that begins later has lanes that begin later.
 *
 * Tests: test_lanes.c. */
#include "op/rows/waiting.h"

#include <inttypes.h>

typedef struct lanes_op {
    hr_op base;
    hr_lane_turns turns;
    int64_t *rows, *rest; /* of each lane */
    int *inputs;
    int n_inputs;
} lanes_op;

typedef struct lanes_state {
    hr_waiting *inputs;
    int64_t *at;   /* number in its lane of each input's next waiting row; -1: no row came yet */
    int64_t turn;  /* turns so far, of turns.n */
    int64_t given; /* rows of this turn */
    int lane;      /* of the rest */
    bool over;
} lanes_state;

static hr_status state_of(const hr_op *op, hr_task *task, lanes_state **out, hr_error *err)
{
    size_t n = (size_t)((const lanes_op *)op)->n_inputs;
    hr_account *account = hr__task_run(task)->account;
    lanes_state *s = *hr__task_state(task);

    if (!s) {
        if (!(s = *hr__task_state(task) = hr__zalloc(account, sizeof *s)))
            return hr__error_memory(err, "lanes", sizeof *s);
        s->inputs = hr__zalloc(account, n * sizeof *s->inputs);
        s->at = hr__alloc(account, n * sizeof *s->at);
        for (size_t i = 0; s->at && i < n; i++)
            s->at[i] = -1;
    }
    *out = s;
    return s->inputs && s->at ? HR_OK : hr__error_memory(err, "lanes", (int64_t)(n * sizeof *s->inputs));
}

static void lanes_task_clear(const hr_op *op, hr_task *task)
{
    lanes_state *s = *hr__task_state(task);

    if (!s)
        return;
    for (int i = 0; s->inputs && i < ((const lanes_op *)op)->n_inputs; i++)
        hr__waiting_clear(&s->inputs[i]);
    hr__free(s->inputs);
    hr__free(s->at);
    hr__free(s);
    *hr__task_state(task) = NULL;
}

static hr_status lanes_schema_of(const hr_op *op, hr_schema *const *ins, int n, hr_schema **out, hr_error *err)
{
    (void)op;
    (void)n;
    (void)err;
    *out = hr__schema_ref(ins[0]); /* all inputs are the same plan */
    return HR_OK;
}

/* Rows of a lane: n from `begin` on. */
typedef struct wanted {
    int lane;
    int64_t begin, n;
} wanted;

/* The next rows; false: there are none. */
static bool next_rows(const lanes_op *o, lanes_state *s, wanted *out)
{
    const hr_lane_turns *t = &o->turns;

    if (s->turn < t->n) {
        int64_t turn = t->first + s->turn * t->step;

        *out = (wanted){ .lane = (int)(turn % t->n_lanes),
                         .begin = turn / t->n_lanes * t->batch_rows + s->given,
                         .n = t->batch_rows - s->given };
        return true;
    }
    for (; s->lane < t->n_lanes; s->lane++, s->given = 0) {
        int64_t begin = o->rest[s->lane] + s->given;

        if (begin < o->rows[s->lane]) {
            *out = (wanted){ .lane = s->lane, .begin = begin, .n = o->rows[s->lane] - begin };
            return true;
        }
    }
    return false;
}

/* n of the wanted rows were given. */
static void gave(const lanes_op *o, lanes_state *s, int64_t n)
{
    s->given += n;
    if (s->turn < o->turns.n && s->given == o->turns.batch_rows) {
        s->given = 0;
        s->turn++;
    }
}

/* Drops rows before `begin` of input i. */
static void drop_before(lanes_state *s, int i, int64_t begin)
{
    hr_waiting *w = &s->inputs[i];

    while (w->n_rows && s->at[i] < begin) {
        int64_t n = HR_MIN(begin - s->at[i], hr__waiting_left(w));

        hr__waiting_take(w, n);
        s->at[i] += n;
    }
}

static hr_status too_few(const lanes_op *o, const wanted *w, int64_t found, hr_error *err)
{
    return hr_error_set(err, HR_MISMATCH,
                        "lanes: lane %d of %d has %" PRId64 " rows, and its files promise %" PRId64
                        ": they have changed, or rows were skipped; read them in one lane (lanes=1)",
                        w->lane, o->turns.n_lanes, HR_MAX(found, 0), o->rows[w->lane]);
}

static hr_status emit(lanes_state *s, hr_task *task, int i, int64_t n, hr_error *err)
{
    hr_waiting *w = &s->inputs[i];
    hr_table *t = NULL;

    HR_TRY(hr_table_slice(hr__waiting_first(w), w->at, n, &t, err));
    hr__waiting_take(w, n);
    s->at[i] += n;
    return hr__task_emit(task, &t, err);
}

/* Gives rows until the next ones have still to come. */
static hr_status go_on(const lanes_op *o, lanes_state *s, hr_task *task, hr_error *err)
{
    wanted w = { 0 };

    while (!hr__task_cancelled(task)) {
        int64_t n;
        int i;

        if (!next_rows(o, s, &w)) {
            s->over = true;
            for (int k = 0; k < o->n_inputs; k++)
                hr__waiting_drop(&s->inputs[k]);
            hr__task_enough(task);
            return HR_OK;
        }
        i = o->inputs[w.lane];
        drop_before(s, i, w.begin);
        n = HR_MIN(w.n, hr__waiting_left(&s->inputs[i]));
        if (n == 0 && s->inputs[i].ended)
            return too_few(o, &w, s->at[i], err);
        if (n == 0) {
            hr__task_want(task, i);
            return HR_OK;
        }
        HR_TRY(emit(s, task, i, n, err));
        gave(o, s, n);
    }
    return HR_OK;
}

static hr_status lanes_push(const hr_op *op, hr_task *task, const hr_table *in, hr_error *err)
{
    const lanes_op *o = (const lanes_op *)op;
    int i = hr__task_input(task);
    lanes_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    if (s->over)
        return HR_OK;
    if (s->at[i] < 0)
        s->at[i] = hr__task_first_row(task, i);
    HR_TRY(hr__waiting_add(&s->inputs[i], hr__task_run(task)->account, in, err));
    return go_on(o, s, task, err);
}

static hr_status lanes_ended(const hr_op *op, hr_task *task, int input, hr_error *err)
{
    lanes_state *s = NULL;

    HR_TRY(state_of(op, task, &s, err));
    s->inputs[input].ended = true;
    return s->over ? HR_OK : go_on((const lanes_op *)op, s, task, err);
}

static void lanes_describe(const hr_op *op, hr_text *out)
{
    const lanes_op *o = (const lanes_op *)op;

    hr__text_add(out, "lanes(%d of %d, batches of %" PRId64 ")", o->n_inputs, o->turns.n_lanes, o->turns.batch_rows);
}

static void lanes_fingerprint(const hr_op *op, hr_hash *h)
{
    const lanes_op *o = (const lanes_op *)op;

    hr__hash_int(h, o->turns.batch_rows);
    hr__hash_int(h, o->turns.n_lanes);
    hr__hash_int(h, o->turns.first);
    hr__hash_int(h, o->turns.step);
    hr__hash_int(h, o->turns.n);
}

static void lanes_free(hr_op *op)
{
    lanes_op *o = (lanes_op *)op;

    hr__free(o->rows);
    hr__free(o->rest);
    hr__free(o->inputs);
    hr__free(o);
}

static const hr_op_class lanes_class = {
    .name = "lanes",
    .doc = "batches of several ranges of the source in turn",
    .kind = HR_OP_STREAM,
    .inputs = HR_INPUTS_CHOSEN,
    .same_plans = true,
    .schema_of = lanes_schema_of,
    .needs = hr__same_needs,
    .push = lanes_push,
    .ended = lanes_ended,
    .task_clear = lanes_task_clear,
    .describe = lanes_describe,
    .fingerprint = lanes_fingerprint,
    .free = lanes_free,
};

static int64_t *copied(const int64_t *values, int n)
{
    int64_t *copy = hr__alloc(NULL, (size_t)n * sizeof *copy);

    if (copy)
        memcpy(copy, values, (size_t)n * sizeof *copy);
    return copy;
}

hr_status hr__op_lanes(const hr_lane_turns *turns, const int64_t *rows, const int64_t *rest, const int *inputs,
                       hr_op **out, hr_error *err)
{
    int n = turns->n_lanes;
    lanes_op *o;

    *out = NULL;
    if (n < 1 || turns->batch_rows < 1 || turns->step < 1)
        return hr_error_set(err, HR_INVALID, "lanes: %d lanes, batches of %" PRId64 " rows, step %" PRId64, n,
                            turns->batch_rows, turns->step);
    if (!(o = hr__zalloc(NULL, sizeof *o)))
        return hr__error_memory(err, "lanes", sizeof *o);
    hr__op_init(&o->base, &lanes_class);
    o->turns = *turns;
    o->rows = copied(rows, n);
    o->rest = copied(rest, n);
    o->inputs = hr__alloc(NULL, (size_t)n * sizeof *o->inputs);
    if (!o->rows || !o->rest || !o->inputs) {
        hr__op_unref(&o->base);
        return hr__error_memory(err, "lanes", n * (int64_t)sizeof *o->rows);
    }
    memcpy(o->inputs, inputs, (size_t)n * sizeof *inputs);
    for (int l = 0; l < n; l++)
        o->n_inputs += inputs[l] >= 0;
    *out = &o->base;
    return HR_OK;
}
