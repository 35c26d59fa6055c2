/* restore.c - makes markers between the tables of a ticket, and begins a run at a marker.
 *
 * Markers. take.c puts a marker before each ticket of a scan. A ticket may be a whole file, so hr__ticket_marker makes
 * more markers between the ticket's output tables: wherever a table begins with a new block of rows. Then the stage has
 * emitted all rows of earlier blocks and no row of the new block. Functions see whole blocks, so a run that begins at
 * the marker calls them with the same batches. If no function counts blocks, every table may have a marker. The output
 * rows of a block operator have the operator's source instance: the marker has the row's number if the operator numbers
 * its rows (hr_op_class.numbered); otherwise the only marker lies before all of them.
 *
 * Restoring. restore() goes upstream from the last stage to the sources. A union continues with the input that has the
 * marker's source: the inputs before it have ended, the inputs after it begin at their start. An operator that chooses
 * among its inputs passed one marker for all of them, and its restored state says which inputs have ended. A scan
 * seeks. A block operator repeats all its work; hr__leave_out_made drops its output rows before the marker, before any
 * function sees them.
 *
 * Tests: test_stages.c, test_combine.c, test_constant_resume.py. */
#include "exec/run.h"

/* ---------------------------------------------------------------------------------------------------------- markers */

static bool same_fragment(const hr_coord *a, const hr_coord *b)
{
    return a->instance == b->instance && a->file == b->file && a->fragment == b->fragment;
}

/* NULL if out of memory: an older marker serves, and a resumed run repeats more work. */
static hr_marker *marker_at(const hr_coord *at, int64_t row)
{
    const hr_coord c = { .instance = at->instance, .file = at->file, .fragment = at->fragment, .row = row };
    hr_marker *m = NULL;

    return hr__marker_new(c, &m, NULL) ? NULL : m;
}

hr_marker *hr__made_marker(hr_op_state *o, const hr_table *made)
{
    hr_coord first = made->origin && made->n_rows ? hr__origin_at(made->origin, 0) : (hr_coord){ 0 };
    bool begins = !o->marked;

    if (!first.instance || first.instance != o->instance)
        return NULL;
    o->marked = true;
    if (o->run.op->cls->numbered)
        return marker_at(&first, first.row);
    return begins ? marker_at(&first, 0) : NULL;
}

/* Whether the block of row `a` lies before the block of row b, or b is in another fragment. */
static bool before_block(const hr_coord *a, const hr_coord *b, int64_t block)
{
    return !same_fragment(a, b) || a->row / block < b->row / block;
}

/* The marker between rows `last` and `first` if an operator of the stage has a state: it lies before the last block
 * whose state the operator has saved, among the blocks after `last` and up to the block of `first`. Drops the saved
 * states up to there. */
static hr_marker *saved_marker(hr_ticket *t, const hr_coord *last, const hr_coord *first, int64_t block)
{
    hr_marker *m = NULL;
    int64_t n = 0;

    for (; n < t->n_saved && !before_block(first, &t->saved[n].at, block); n++) {
        hr_saved *s = &t->saved[n];

        hr__marker_drop(m);
        m = before_block(last, &s->at, block) && s->at.row % block == 0 ? marker_at(&s->at, s->at.row) : NULL;
        if (m && hr__marker_add(m, s->op_index, s->text, (int64_t)strlen(s->text), NULL)) {
            hr__marker_drop(m);
            m = NULL;
        }
        hr__free(s->text);
    }
    t->n_saved -= n;
    if (n)
        memmove(t->saved, t->saved + n, (size_t)t->n_saved * sizeof *t->saved);
    return m;
}

hr_marker *hr__ticket_marker(hr_ticket *t, const hr_table *table)
{
    const hr_stage *s = t->stage;
    int64_t block = HR_MAX(1, s->leaf.block_rows);
    hr_coord first, last = t->last;

    if (s->n_saving > 1 || s->run->options.any_order || !table->origin || table->n_rows == 0)
        return NULL;
    if (t->block_parts_of)
        return s->n_saving ? NULL : hr__made_marker(t->block_parts_of, table);
    first = hr__origin_at(table->origin, 0);
    t->last = hr__origin_at(table->origin, table->n_rows - 1);
    if (!s->scan || first.instance != s->leaf.instance || !before_block(&last, &first, block))
        return NULL;
    if (s->n_saving)
        return saved_marker(t, &last, &first, block);
    return marker_at(&first, first.row / block * block);
}

/* -------------------------------------------------------------------------------------------------------- restoring */

/* Restores the operators of the stage that added a state to the marker. */
static hr_status restore_ops(hr_stage *s, const hr_marker *m, hr_error *err)
{
    const char *state = s->gate.stream ? hr__marker_state(m, s->gate.stream->run.index) : NULL;

    for (int i = 0; i < s->n_ops; i++) {
        const hr_op *op = s->ops[i]->run.op;
        const char *own = op->cls->restore_run ? hr__marker_state(m, s->ops[i]->run.index) : NULL;

        if (own)
            HR_TRY(op->cls->restore_run(op, &s->ops[i]->run, own, err));
    }
    if (!state)
        return HR_OK;
    if (!s->gate.stream->run.op->cls->restore)
        return hr_error_set(err, HR_MISMATCH, "position: has a state of %s, an operator that has none",
                            s->gate.stream->run.op->cls->name);
    HR_TRY(s->gate.stream->run.op->cls->restore(s->gate.stream->run.op, &s->gate.task, state, err));
    if (s->next)
        (void)hr__state_int(state, "ordinal", &s->next->window.n_taken); /* the next stage continues to number tables */
    return HR_OK;
}

static hr_stage *input_of(const hr_stage *s, int input)
{
    for (int i = 0; i < s->run->n_stages; i++)
        if (s->run->stages[i]->next == s && s->run->stages[i]->input_of_next == input)
            return s->run->stages[i];
    return NULL;
}

/* The marker's row in the output of the stage's block operator; NULL: there is no such operator, or the marker lies
 * elsewhere. */
static const hr_coord *made_row(const hr_stage *s, const hr_marker *m)
{
    const hr_op_state *o = s->gate.stream;

    return o && o->instance && !hr__marker_state(m, o->run.index) ? hr__marker_at(m, o->instance) : NULL;
}

/* Whether the marker names a source of the stage or upstream of it. */
static bool is_named(const hr_stage *s, const hr_marker *m)
{
    if (made_row(s, m) || (s->scan && hr__marker_at(m, s->leaf.instance)))
        return true;
    if (s->cache)
        return hr__row_leaf_is_named(s, m);
    for (int i = 0; i < s->in.n_inputs; i++)
        if (is_named(input_of(s, i), m))
            return true;
    return false;
}

/* Ends the stage and all stages upstream: the marker lies after all their rows. */
static void end_all(hr_stage *s)
{
    s->ended = true;
    for (int i = 0; i < s->in.n_inputs; i++)
        end_all(input_of(s, i));
}

static hr_status restore(hr_stage *s, const hr_marker *m, hr_error *err);

/* For a union: restores the input that the marker names, and ends the inputs before it. */
static hr_status restore_in_turn(hr_stage *s, const hr_marker *m, hr_error *err)
{
    int named = 0;

    while (named < s->in.n_inputs && !is_named(input_of(s, named), m))
        named++;
    if (named == s->in.n_inputs)
        return hr_error_set(err, HR_MISMATCH, "position: names source %d, which the plan does not have there",
                            m->at.instance);
    for (; s->in.current < named; s->in.current++) {
        end_all(input_of(s, s->in.current));
        s->in.n_ended++;
    }
    return restore(input_of(s, named), m, err);
}

/* For an operator that chooses among its inputs: restores each input at its own row. */
static hr_status restore_each(hr_stage *s, const hr_marker *m, hr_error *err)
{
    for (int i = 0; i < s->in.n_inputs; i++) {
        hr_stage *up = input_of(s, i);

        if (s->in.ended[i])
            end_all(up);
        else if (is_named(up, m))
            HR_TRY(restore(up, m, err));
    }
    for (s->in.current = s->gate.wanted; s->in.n_ended < s->in.n_inputs && s->in.ended[s->in.current];)
        s->in.current = (s->in.current + 1) % s->in.n_inputs;
    s->gate.wanted = s->in.current;
    return HR_OK;
}

static hr_status restore(hr_stage *s, const hr_marker *m, hr_error *err)
{
    const hr_coord *row = made_row(s, m);

    if (row) {
        s->gate.stream->made_from = row->row;
        return HR_OK;
    }
    HR_TRY(restore_ops(s, m, err));
    if (s->cache)
        return hr__row_leaf_seek(s, m, err);
    if (s->scan)
        return hr__stage_seek(s, hr__marker_at(m, s->leaf.instance), err);
    return s->in.ended ? restore_each(s, m, err) : restore_in_turn(s, m, err);
}

hr_status hr__run_restore(hr_run *r, const hr_marker *m, hr_error *err)
{
    hr_stage *last = r->stages[r->n_stages - 1];

    if (!is_named(last, m))
        return hr_error_set(err, HR_MISMATCH, "position: names source %d, the plan has %d", m->at.instance,
                            r->n_instances);
    return restore(last, m, err);
}

/* ------------------------------------------------------------------------------------- rows that were made before */

hr_status hr__leave_out_made(const hr_op_state *o, hr_table **table, hr_error *err)
{
    int64_t n = 0, n_rows = (*table)->n_rows;
    hr_table *rest = NULL;

    if (!o->made_from || !(*table)->origin)
        return HR_OK;
    if (hr__origin_at((*table)->origin, 0).row >= o->made_from)
        return HR_OK;
    while (n < n_rows) { /* runs of consecutive rows */
        hr_run_coords c = hr__origin_run((*table)->origin, n);

        if (c.first.row >= o->made_from)
            break;
        n += c.by_ordinal ? c.n : HR_MIN(c.n, o->made_from - c.first.row);
    }
    HR_TRY(hr_table_slice(*table, HR_MIN(n, n_rows), n_rows - HR_MIN(n, n_rows), &rest, err));
    hr_table_unref(*table);
    *table = rest;
    return HR_OK;
}
