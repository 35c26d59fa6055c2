/* plan_lanes.c - a plan as lanes: ranges of its rows, whose batches come in turn.
 *
 * Hosts that read one dataset together each read some lanes, and exchange no data. So every host must know the number
 * of rows of each lane before it reads: each operator has as many rows out as in, and the files know their rows. Then
 * row i of the plan comes from row i of the scan, in the order in which the epoch reads it, and a lane is a range of
 * the scan's rows.
 *
 *      scan   [ lane 0          | lane 1          | lane 2         ]    T = 20, L = 3, B = 2
 *               0 1 2 3 4 5       6 7 8 9 10 11 12  13 .. 19
 *      order  0 1 | 6 7 | 13 14 | 2 3 | 8 9 | 15 16 | 4 5 | 10 11 | 17 18 |  12 | 19
 *             \________________ F = 3 batches of each lane ______________/   \_ rest
 *
 * The order does not depend on the number of hosts. A run begins at any batch: the scan of each lane skips rows, and
 * operators whose batches count from the lane's start declare the first row that they need (hr_op_class.lane_needs).
 *
 * A slice or a limit becomes part of the range. It fixed the order of the rows upstream, which stays so.
 *
 * Tests: test_lanes.c. */
#include "plan/plan.h"

/* Traits of one operator, downstream of which are functions that count blocks of the source, or not. */
static bool may_be_in_lane(const hr_op *op, bool blocks_downstream)
{
    if (op->in_order || op->saves || op->closes || op->instances || op->cls->inputs != HR_INPUTS_ONE)
        return false; /* instances: an epoch is two runs (feed.c), which would make them twice */
    if (op->cuts)
        return true;
    if (op->cls->kind == HR_OP_MAP)
        return op->one_to_one && !(op->cls->new_rows && blocks_downstream);
    return op->cls->kind == HR_OP_STREAM && op->cls->lane_needs && op->cls->lane_gives && !op->drops_rest;
}

const hr_plan *hr__plan_no_lanes(const hr_plan *p)
{
    bool blocks = false;

    for (; p->kind == HR_PLAN_OP; p = p->inputs[0]) {
        if (!may_be_in_lane(p->op, blocks))
            return p;
        blocks = blocks || p->op->block_rows > 0;
    }
    return p->kind == HR_PLAN_SCAN ? NULL : p;
}

void hr__plan_print_no_lanes(const hr_plan *why, hr_text *out)
{
    if (why->kind == HR_PLAN_UNION)
        hr__text_add(out, "union has several sources");
    else if (why->op->cls->describe)
        why->op->cls->describe(why->op, out);
    else
        hr__text_add(out, "%s", why->op->cls->name);
    if (why->kind == HR_PLAN_OP && why->op->caches)
        hr__text_add(out, " keeps rows in the order of the whole plan");
    else if (why->kind == HR_PLAN_OP)
        hr__text_add(out, why->op->instances ? " is a class" : " depends on other rows, or changes their number");
}

/* The rows [begin, end) of the scan that make the plan's rows. */
static void range_of(const hr_plan *p, int64_t *begin, int64_t *end)
{
    if (p->kind == HR_PLAN_SCAN)
        return;
    range_of(p->inputs[0], begin, end);
    if (!p->op->cuts)
        return;
    if (p->op->cut_end >= 0)
        *end = HR_MIN(*end, *begin + p->op->cut_end);
    *begin = HR_MIN(*end, *begin + p->op->cut_begin);
}

static const hr_plan *scan_of(const hr_plan *p)
{
    while (p->kind == HR_PLAN_OP)
        p = p->inputs[0];
    return p;
}

hr_status hr__plan_lane_rows(hr_plan *p, int64_t *out, hr_error *err)
{
    int64_t begin = 0, end;

    *out = -1;
    if (hr__plan_no_lanes(p))
        return HR_OK;
    HR_TRY(hr__scan_count(scan_of(p)->scan, &end, err));
    if (end < 0)
        return HR_OK;
    range_of(p, &begin, &end);
    *out = end - begin;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------- one lane */

/* The plan over the rows of `lane`, of which it gives those from lane->from on, or earlier ones, too. */
static hr_status plan_of_lane(hr_plan *p, hr_lane lane, hr_plan **out, hr_error *err)
{
    hr_plan *in = NULL;
    hr_status st;

    *out = NULL;
    if (p->kind == HR_PLAN_SCAN) {
        HR_TRY(hr__plan_like(p, NULL, out, err));
        (*out)->lane = lane;
        return HR_OK;
    }
    if (p->op->cuts) {
        lane.fixed_order = true;
        return plan_of_lane(p->inputs[0], lane, out, err);
    }
    if (p->op->cls->kind == HR_OP_STREAM)
        lane.from = lane.begin + p->op->cls->lane_needs(p->op, lane.from - lane.begin);
    HR_TRY(plan_of_lane(p->inputs[0], lane, &in, err));
    st = hr__plan_like(p, &in, out, err);
    hr_plan_unref(in);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- all lanes */

static int64_t begin_of(const hr_lane_order *o, int lane)
{
    return o->n_rows / o->n_lanes * lane + o->n_rows % o->n_lanes * lane / o->n_lanes;
}

static int64_t full_batches(const hr_lane_order *o) { return o->n_rows / o->n_lanes / o->batch_rows; }

int64_t hr__lane_turns(const hr_lane_order *o) { return full_batches(o) * o->n_lanes; }

typedef struct lanes {
    int64_t *rows, *rest, *from; /* of each lane; from -1: none of its rows is wanted */
    int *inputs;
    hr_plan **plans;
    int n_plans;
} lanes;

static void lanes_clear(lanes *l)
{
    for (int i = 0; i < l->n_plans; i++)
        hr_plan_unref(l->plans[i]);
    hr__free(l->plans);
    hr__free(l->rows);
    hr__free(l->rest);
    hr__free(l->from);
    hr__free(l->inputs);
}

static hr_status lanes_new(lanes *l, int n, hr_error *err)
{
    size_t bytes = (size_t)n * sizeof(int64_t);

    l->rows = hr__zalloc(NULL, bytes);
    l->rest = hr__zalloc(NULL, bytes);
    l->from = hr__zalloc(NULL, bytes);
    l->inputs = hr__zalloc(NULL, (size_t)n * sizeof *l->inputs);
    l->plans = hr__zalloc(NULL, (size_t)n * sizeof *l->plans);
    return l->rows && l->rest && l->from && l->inputs && l->plans ? HR_OK
                                                                  : hr__error_memory(err, "lanes", (int64_t)bytes);
}

/* Finds the first wanted row of each lane. */
static void find_rows(const hr_lane_order *o, const hr_lane_part *part, lanes *l)
{
    int64_t skip = part->skip_rest;

    for (int i = 0; i < o->n_lanes; i++) {
        int64_t begin = full_batches(o) * o->batch_rows, n, passed;

        l->from[i] = -1;
        l->rows[i] = begin_of(o, i + 1) - begin_of(o, i);
        n = l->rows[i] - begin;
        passed = HR_MIN(skip, n);
        skip -= passed;
        l->rest[i] = part->rest ? begin + passed : l->rows[i];
    }
    for (int64_t k = 0; k < HR_MIN(part->n, o->n_lanes); k++) { /* then the lanes come again */
        int64_t turn = part->first + k * part->step;
        int64_t *from = &l->from[turn % o->n_lanes];

        if (*from < 0)
            *from = turn / o->n_lanes * o->batch_rows;
    }
    for (int i = 0; i < o->n_lanes; i++)
        if (l->from[i] < 0 && l->rest[i] < l->rows[i])
            l->from[i] = l->rest[i];
}

hr_status hr__plan_lanes(hr_plan *p, const hr_lane_order *o, const hr_lane_part *part, hr_plan **out, hr_error *err)
{
    const hr_lane_turns turns = { o->batch_rows, o->n_lanes, part->first, part->step, part->n };
    int64_t first = 0, end = INT64_MAX;
    hr_status st = HR_OK;
    hr_op *op = NULL;
    lanes l = { 0 };

    *out = NULL;
    range_of(p, &first, &end);
    HR_GO(lanes_new(&l, o->n_lanes, err));
    find_rows(o, part, &l);
    for (int i = 0; i < o->n_lanes; i++) {
        hr_lane lane = { .on = true, .number = i, .begin = first + begin_of(o, i), .end = first + begin_of(o, i + 1) };
        bool needs_one = i == o->n_lanes - 1 && !l.n_plans; /* no row at all: an empty lane has the columns */

        l.inputs[i] = -1;
        if (l.from[i] < 0 && !needs_one)
            continue;
        lane.from = l.from[i] < 0 ? lane.end : lane.begin + l.from[i];
        HR_GO(plan_of_lane(p, lane, &l.plans[l.n_plans], err));
        l.inputs[i] = l.n_plans++;
    }
    HR_GO(hr__op_lanes(&turns, l.rows, l.rest, l.inputs, &op, err));
    st = hr__plan_op_n(l.plans, l.n_plans, op, out, err);
done:
    lanes_clear(&l);
    return st;
}
