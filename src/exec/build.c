/* build.c - cuts a plan into stages.
 *
 * A map operator joins the stage before it; a stream or block operator closes its stage; a union, or an operator with
 * several inputs, opens a stage with several inputs. The next stage takes the block parts of a block operator.
 * Operators and sources have numbers in post-order, which is canonical: seeds and positions use these numbers.
 *
 * Tests: test_stages.c, test_combine.c. */
#include "exec/run.h"

/* The next operator of the first lane. */
static hr_status same_op(hr_run *r, const hr_op *op, hr_op_state **out, hr_error *err)
{
    if (r->same_op >= r->n_ops || r->ops[r->same_op]->run.op->cls != op->cls)
        return hr_error_set(err, HR_BUG, "run: lanes with other operators");
    *out = r->ops[r->same_op++];
    return HR_OK;
}

hr_status hr__op_state_new(hr_run *r, const hr_op *op, int index, hr_op_state **out, hr_error *err)
{
    hr_op_state *o = *out = hr__zalloc(r->account, sizeof *o);

    if (!o)
        return hr__error_memory(err, "run", sizeof *o);
    o->run = (hr_op_run){ .op = op, .index = index, .seed = r->options.seed, .epoch = r->options.epoch };
    o->stall_ns = hr__stall_ns(op->cls->name);
    o->run.account = hr__account_new(op->cls->name, r->account, 0);
    o->thread_states = hr__zalloc(r->account, (size_t)r->n_slots * sizeof *o->thread_states);
    if (!o->run.account || !o->thread_states) {
        hr__op_state_free(r, o);
        *out = NULL;
        return hr__error_memory(err, "run", r->n_slots * (int64_t)sizeof *o->thread_states);
    }
    o->mem = (hr_mem){ o->run.account, NULL };
    return HR_OK;
}

static hr_status new_op(hr_run *r, hr_op *op, hr_op_state **out, hr_error *err)
{
    int64_t cap = r->cap_ops;

    *out = NULL;
    if (r->same_op >= 0) /* a lane after the first */
        return same_op(r, op, out, err);
    if (!hr__grow(r->account, (void **)&r->ops, &cap, r->n_ops + 1, sizeof(hr_op_state *)))
        return hr__error_memory(err, "run", (r->n_ops + 1) * (int64_t)sizeof(hr_op_state *));
    r->cap_ops = (int)cap;
    HR_TRY(hr__op_state_new(r, op, r->options.first_op + r->n_ops + r->n_other_ops, out, err));
    r->ops[r->n_ops++] = *out;
    return HR_OK;
}

static hr_status new_stage(hr_run *r, hr_stage **out, hr_error *err)
{
    hr_stage *s = hr__zalloc(r->account, sizeof *s);
    int64_t cap = r->cap_stages;

    *out = NULL;
    if (!s || !hr__grow(r->account, (void **)&r->stages, &cap, r->n_stages + 1, sizeof(hr_stage *))) {
        hr__free(s);
        return hr__error_memory(err, "run", sizeof *s);
    }
    r->cap_stages = (int)cap;
    s->run = r;
    s->index = r->n_stages;
    s->leaf.rows_left = -1;
    r->stages[r->n_stages++] = s;
    *out = s;
    return HR_OK;
}

static void connect(hr_stage *from, hr_stage *to)
{
    from->next = to;
    from->input_of_next = to->in.n_inputs++;
}

/* `blocks`: rows of a block that a function downstream counts; 0: no function counts blocks. */
static hr_status build(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err);

static hr_status build_scan(hr_run *r, hr_plan *p, hr_stage **out, hr_error *err)
{
    const char *column;

    HR_TRY(new_stage(r, out, err));
    (*out)->scan = p->scan;
    (*out)->leaf.columns = p->columns;
    (*out)->leaf.filter = p->filter;
    (*out)->leaf.partners = p->partners;
    (*out)->leaf.n_partners = p->n_partners;
    if (p->images && !hr__expr_image_steps(p->images, &(*out)->leaf.image_steps, &column))
        return hr_error_set(err, HR_BUG, "plan: the image steps of a reader are no image steps");
    (*out)->leaf.rows_left = p->limit_rows;
    (*out)->leaf.skip_rows = p->skip_rows;
    (*out)->leaf.lane = p->lane;
    (*out)->order.random_blocks = p->random_blocks;
    (*out)->order.seed = p->block_seed.own ? p->block_seed.seed : r->options.seed;
    (*out)->order.epoch = p->block_seed.once ? 0 : (uint64_t)r->options.epoch;
    (*out)->leaf.instance = r->n_instances++;
    return HR_OK;
}

static hr_status build_union(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err)
{
    hr_stage **ins = hr__zalloc(r->account, (size_t)p->n_inputs * sizeof(hr_stage *));
    hr_status st = HR_OK;

    *out = NULL;
    if (!ins)
        return hr__error_memory(err, "run", p->n_inputs * (int64_t)sizeof(hr_stage *));
    for (int i = 0; i < p->n_inputs; i++)
        HR_GO(build(r, p->inputs[i], blocks, &ins[i], err));
    HR_GO(new_stage(r, out, err));
    for (int i = 0; i < p->n_inputs; i++)
        connect(ins[i], *out);
done:
    hr__free(ins);
    return st;
}

static hr_status add_map(hr_run *r, hr_stage *s, hr_op *op, hr_error *err)
{
    int64_t cap = s->n_ops;
    hr_op_state *o;

    HR_TRY(new_op(r, op, &o, err));
    if (op->idle)
        return HR_OK; /* it has a number, but does nothing */
    if (!hr__grow(r->account, (void **)&s->ops, &cap, s->n_ops + 1, sizeof(hr_op_state *)))
        return hr__error_memory(err, "run", 64);
    s->ops[s->n_ops++] = o;
    if (op->closes) {
        s->closes = true;
        o->run.last_instance = r->n_instances++;
    }
    return HR_OK;
}

/* The run takes the reference to the operator that was added last, which is not the plan's; frees it if none was
 * added. */
static void own_last(hr_run *r, hr_op *op)
{
    if (r->n_ops && r->ops[r->n_ops - 1]->run.op == op && r->same_op < 0)
        r->ops[r->n_ops - 1]->is_ours = true;
    else
        hr__op_unref(op);
}

/* Adds a map operator that is not in the plan. Takes op, even on failure. */
static hr_status add_our_map(hr_run *r, hr_stage *s, hr_op *op, hr_error *err)
{
    hr_status st = add_map(r, s, op, err);

    own_last(r, op);
    return st;
}

/* *s becomes a stage without a stream operator, to which map operators can be added: its tickets are the ones that they
 * should see. */
static hr_status open_stage(hr_run *r, hr_stage **s, hr_error *err)
{
    hr_stage *next;

    if (!(*s)->gate.stream && !hr__row_leaf_gives_tables(*s))
        return HR_OK;
    HR_TRY(new_stage(r, &next, err));
    connect(*s, next);
    *s = next;
    return HR_OK;
}

/* Adds the `front` of operator p->op, a map that prepares its input, to the end of stage *s or of a new stage after it.
 * */
static hr_status add_front(hr_run *r, const hr_plan *p, int input, hr_stage **s, hr_op_state **out, hr_error *err)
{
    const hr_op *op = p->op;
    hr_op *front = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (op->cls->front)
        HR_TRY(op->cls->front(op, input, p->first_input, &front, err));
    if (!front)
        return HR_OK;
    HR_GO(open_stage(r, s, err));
    st = add_our_map(r, *s, front, err);
    front = NULL;
    if (!st)
        *out = r->ops[r->n_ops - 1];
done:
    hr__op_unref(front);
    return st;
}

static hr_status set_stream(hr_run *r, hr_stage *s, hr_op *op, hr_error *err)
{
    HR_TRY(new_op(r, op, &s->gate.stream, err));
    hr__task_init(&s->gate.task, s, NULL, s->gate.stream, 0);
    return HR_OK;
}

/* Tables of rows that an operator made have any size: a rebatch after it cuts them for a function that counts blocks.
 * */
static hr_status cut_made_rows(hr_run *r, hr_stage **s, int64_t blocks, hr_error *err)
{
    hr_op *op = NULL;
    hr_status st;

    if (!blocks)
        return HR_OK;
    HR_TRY(open_stage(r, s, err));
    HR_TRY(hr__op_rebatch_blocks(blocks, &op, err));
    st = set_stream(r, *s, op, err);
    own_last(r, op);
    return st;
}

/* Sets this operator as the partner that narrows the scans from stage `first` on. An operator may occur at several
 * places of a plan: scans of the other places have their own, or are not built yet. */
static void tell_scans(hr_run *r, int first, const hr_op_run *run)
{
    for (int i = first; i < r->n_stages; i++) {
        hr_stage *s = r->stages[i];

        for (int k = 0; k < s->leaf.n_partners; k++)
            if (s->leaf.partners[k].op == run->op && !s->leaf.partner_runs[k])
                s->leaf.partner_runs[k] = run;
    }
}

/* Before input i of an operator whose inputs are one plan over other rows: its operators and sources have the numbers
 * of the first input, and the run has each operator once, with one set of instances and one line of statistics. */
static void begin_same(hr_run *r, int i, int n_ops, int n_instances)
{
    r->same_op = i ? n_ops : -1;
    r->n_instances = n_instances;
}

/* A block operator, an operator with several inputs, or a stream operator with new_rows: it makes new rows. */
static hr_status build_maker(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err)
{
    int n = p->n_inputs, n_before = r->n_stages, n_ops_before = r->n_ops, n_instances = r->n_instances;
    hr_stage **ins = hr__zalloc(r->account, (size_t)n * sizeof(hr_stage *)), *s;
    hr_op_state **fronts = hr__zalloc(r->account, (size_t)n * sizeof(hr_op_state *));
    hr_status st = HR_OK;

    *out = NULL;
    if (!ins || !fronts)
        HR_GO(hr__error_memory(err, "run", n * (int64_t)sizeof(hr_stage *)));
    for (int i = 0; i < n; i++) {
        if (p->op->cls->same_plans)
            begin_same(r, i, n_ops_before, n_instances);
        HR_GO(build(r, p->inputs[i], p->op->block_rows, &ins[i], err));
        HR_GO(add_front(r, p, i, &ins[i], &fronts[i], err));
    }
    r->same_op = -1;
    for (int i = n_before; i < r->n_stages && p->op->cls->same_plans; i++)
        r->stages[i]->n_lanes = n;
    s = ins[0];
    if (n > 1 || s->gate.stream || p->op->cls->same_plans)
        HR_GO(new_stage(r, &s, err));
    for (int i = 0; i < n && s != ins[0]; i++)
        connect(ins[i], s);
    if (p->op->cls->inputs != HR_INPUTS_ONE && !(s->in.ended = hr__zalloc(r->account, (size_t)n)))
        HR_GO(hr__error_memory(err, "run", n));
    HR_GO(set_stream(r, s, p->op, err));
    s->gate.stream->instance = r->n_instances++;
    s->in.current = s->gate.wanted = s->gate.stream->run.first_input = p->first_input;
    tell_scans(r, n_before, &s->gate.stream->run);
    for (int i = 0; i < n; i++)
        if (fronts[i])
            fronts[i]->run.partner = &s->gate.stream->run;
    if (p->op->cls->block_parts)
        HR_GO(open_stage(r, &s, err));
    HR_GO(cut_made_rows(r, &s, blocks, err));
    *out = s;
done:
    hr__free(ins);
    hr__free(fronts);
    return st;
}

/* A map operator that makes new rows. */
static hr_status build_numbered(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err)
{
    hr_stage *s;

    *out = NULL;
    HR_TRY(build(r, p->inputs[0], 0, &s, err));
    HR_TRY(open_stage(r, &s, err));
    HR_TRY(add_map(r, s, p->op, err));
    s->ops[s->n_ops - 1]->instance = r->n_instances++;
    HR_TRY(cut_made_rows(r, &s, blocks, err));
    *out = s;
    return HR_OK;
}

static hr_status build_op(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err)
{
    const hr_op_class *cls = p->op->cls;
    hr_stage *s;

    if (p->op->caches) {
        HR_TRY(new_stage(r, out, err));
        return hr__row_leaf_build(*out, p, blocks, err);
    }
    if (cls->kind == HR_OP_BLOCK || cls->inputs != HR_INPUTS_ONE || (cls->kind == HR_OP_STREAM && cls->new_rows))
        return build_maker(r, p, blocks, out, err);
    if (cls->new_rows)
        return build_numbered(r, p, blocks, out, err);
    blocks = p->op->table_rows ? 0 : HR_MAX(blocks, p->op->block_rows);
    HR_TRY(build(r, p->inputs[0], blocks, &s, err));
    HR_TRY(open_stage(r, &s, err));
    *out = s;
    return cls->kind == HR_OP_MAP ? add_map(r, s, p->op, err) : set_stream(r, s, p->op, err);
}

static hr_status build(hr_run *r, hr_plan *p, int64_t blocks, hr_stage **out, hr_error *err)
{
    *out = NULL;
    if (p->kind == HR_PLAN_SCAN)
        return build_scan(r, p, out, err);
    if (p->kind == HR_PLAN_UNION)
        return build_union(r, p, blocks, out, err);
    return build_op(r, p, blocks, out, err);
}

/* Chooses where markers lie. A run that begins at a marker repeats its work for all rows after the marker; so that it
 * repeats few calls, the operator upstream of a function puts a marker before each batch. */
static void place_markers(hr_run *r)
{
    for (int k = 0; k < r->n_stages; k++) {
        hr_stage *s = r->stages[k];
        bool calls = false;

        for (int i = 0; i < s->n_ops; i++) {
            s->n_saving += s->ops[i]->run.op->saves;
            calls = calls || s->ops[i]->run.op->cls->calls;
        }
        for (int i = 0; calls && i < r->n_stages; i++)
            if (r->stages[i]->next == s && r->stages[i]->gate.stream)
                r->stages[i]->gate.stream->run.marks = true;
    }
}

static bool takes_few_rows(const hr_run *r)
{
    for (int i = 0; i < r->n_ops; i++)
        if (r->ops[i]->run.op->cls->takes_few_rows)
            return true;
    return false;
}

/* Stage `s` must see whole blocks of the source, however a reader cuts: cuts tables at the reader, unless an operator
 * between makes new ones. */
static hr_status cut_into_blocks(hr_run *r, hr_stage *s, int64_t rows, hr_error *err);

/* The same for one stage upstream. */
static hr_status cut_output(hr_run *r, hr_stage *up, int64_t rows, hr_error *err)
{
    hr_op *op = NULL;

    if (up->gate.stream && (up->gate.stream->instance || up->gate.stream->run.op->table_rows))
        return HR_OK;
    if (hr__row_leaf_gives_tables(up)) /* the run that computes the rows does it */
        return HR_OK;
    up->leaf.block_rows = HR_MAX(up->leaf.block_rows, rows);
    if (!up->scan && !up->cache)
        return cut_into_blocks(r, up, rows, err);
    HR_TRY(hr__op_blocks(rows, &op, err));
    return add_our_map(r, up, op, err);
}

static hr_status cut_into_blocks(hr_run *r, hr_stage *s, int64_t rows, hr_error *err)
{
    for (int i = 0; i < r->n_stages; i++)
        if (r->stages[i]->next == s)
            HR_TRY(cut_output(r, r->stages[i], rows, err));
    return HR_OK;
}

/* A function over batches of the source, after a limit or a union, where a ticket is a table that a reader cut. */
static hr_status protect_blocks(hr_run *r, hr_error *err)
{
    for (int k = 0; k < r->n_stages; k++) {
        hr_stage *s = r->stages[k];
        int64_t rows = 0;

        for (int i = 0; i < s->n_ops; i++)
            rows = HR_MAX(rows, s->ops[i]->run.op->block_rows);
        s->leaf.block_rows = HR_MAX(s->leaf.block_rows, rows);
        if (rows && !s->scan && !s->cache)
            HR_TRY(cut_into_blocks(r, s, rows, err));
    }
    return HR_OK;
}

/* Makes admission of tickets count the bytes of the arena. */
static hr_status use_arena(hr_run *r, hr_arena *arena, hr_error *err)
{
    for (int64_t i = 0; i < r->n_arenas; i++)
        if (r->arenas[i] == arena)
            return HR_OK;
    if (!hr__grow(r->account, (void **)&r->arenas, &r->cap_arenas, r->n_arenas + 1, sizeof *r->arenas))
        return hr__error_memory(err, "run", (r->n_arenas + 1) * (int64_t)sizeof *r->arenas);
    r->arenas[r->n_arenas++] = arena;
    return HR_OK;
}

/* Makes the input of operator `i` of stage `s` (n_ops: the output of the stage) lie in `arena`, where another process
 * can read it: the last operator before it that makes new columns writes there, and the operators between copy there if
 * they must copy. */
static void write_to(hr_run *r, hr_stage *s, int i, hr_arena *arena)
{
    while (--i >= 0) {
        hr_op_state *o = s->ops[i];

        o->run.to_process = true;
        o->run.arena = o->mem.arena = arena;
        if (!o->run.op->cls->shares_columns)
            return;
    }
    s->leaf.arena = arena;
    for (int k = 0; k < r->n_stages; k++) {
        hr_stage *up = r->stages[k];

        if (up->next != s || (up->gate.stream && up->gate.stream->run.op->cls->kind == HR_OP_BLOCK))
            continue;
        if (up->gate.stream) {
            up->gate.stream->run.to_process = true;
            up->gate.stream->run.arena = up->gate.stream->mem.arena = arena;
        }
        write_to(r, up, up->n_ops, arena);
    }
}

static hr_status place_outputs(hr_run *r, hr_stage *last, hr_error *err)
{
    for (int k = 0; k < r->n_stages; k++)
        for (int i = 0; i < r->stages[k]->n_ops; i++) {
            const hr_op *op = r->stages[k]->ops[i]->run.op;
            hr_arena *arena = op->cls->input_arena ? op->cls->input_arena(op) : NULL;

            if (arena) {
                HR_TRY(use_arena(r, arena, err));
                write_to(r, r->stages[k], i, arena);
            }
        }
    if (r->options.arena && last->n_ops && !last->gate.stream) { /* the gather that the feed added */
        hr_op_state *o = last->ops[last->n_ops - 1];

        o->run.to_process = true;
        o->run.arena = o->mem.arena = r->options.arena;
        HR_TRY(use_arena(r, r->options.arena, err));
    }
    return HR_OK;
}

/* A block operator reads all its output, and no limit lies between. */
static bool is_read_whole(const hr_stage *s)
{
    for (; s; s = s->next) {
        const hr_op_class *cls = s->gate.stream ? s->gate.stream->run.op->cls : NULL;

        if (cls && (cls->kind == HR_OP_BLOCK || cls->takes_few_rows))
            return cls->kind == HR_OP_BLOCK;
    }
    return false;
}

hr_status hr__run_build(hr_run *r, hr_error *err)
{
    hr_stage *last;

    r->same_op = -1;
    hr__threads_init(r);
    HR_TRY(build(r, r->plan, r->options.block_rows, &last, err));
    r->n_plan_ops = r->n_ops + r->n_other_ops;
    HR_TRY(protect_blocks(r, err));
    if (r->options.block_rows)
        HR_TRY(cut_output(r, last, r->options.block_rows, err));
    place_markers(r);
    r->has_limit = takes_few_rows(r);
    for (int i = 0; i < r->n_stages; i++) {
        hr_stage *s = r->stages[i];

        s->window.cap = hr__window_tickets(s, r->threads.tuner.most);
        s->window.full = hr__window_tickets(s, HR_MAX(r->threads.tuner.first, r->threads.tuner.threads));
        s->window.begins_small = (r->has_limit && !is_read_whole(s)) || r->options.careful;
        s->window.limit = s->window.begins_small ? 1 : s->window.full;
        s->window.tickets = hr__zalloc(r->account, (size_t)s->window.cap * sizeof(hr_ticket *));
        if (!s->window.tickets)
            return hr__error_memory(err, "run", s->window.cap * (int64_t)sizeof(hr_ticket *));
    }
    return place_outputs(r, last, err);
}
