/* restore.c - markers between the tables of a ticket, and how a run begins at a marker.
 *
 * Markers. take.c puts one before each ticket of a scan. A ticket may be a whole file, so more of them lie between the
 * tables that come out of it: where a table begins with another block of rows than the one before it ended with. All
 * rows of earlier blocks have gone on then, and none of this block has; functions see whole blocks, so that a run that
 * begins there gives them the same. Where no function counts blocks, each table may have its marker. What comes out of
 * a block operator has the operator's source instance: the marker names the number of the row where the operator
 * numbers its rows through, else it lies before all of them.
 *
 * Restoring. The way goes from the last stage up to the sources. A union goes on with the input to which a source of
 * the marker belongs; those before it have ended, those behind it begin at their start. An operator that chooses among
 * its inputs has put the markers of all of them into one, and says itself which have ended. A scan seeks; a block
 * operator does all its work again, and its rows before the marker are left out where they come out, before any
 * function sees them.
 *
 * Tests: test_stages.c, test_combine.c, test_constant_resume.py. */
#include "exec/run.h"

/* ---------------------------------------------------------------------------------------------------------- markers */

static bool same_fragment(const hr_coord *a, const hr_coord *b)
{
    return a->instance == b->instance && a->file == b->file && a->fragment == b->fragment;
}

/* Without memory there is none: an older one serves, at the price of a longer way. */
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

/* Whether block `a` of rows lies before that of b, or b is of another fragment. */
static bool before_block(const hr_coord *a, const hr_coord *b, int64_t block)
{
    return !same_fragment(a, b) || a->row / block < b->row / block;
}

/* The same where an operator of the stage has a state: the marker lies before the last block for which the state is
 * known, of those that give no rows between `last` and `first`. */
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

/* Map operators that added a state to the marker restore it. */
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
        return hr_error_set(err, HR_MISMATCH, "position: has a state of %s, which keeps none",
                            s->gate.stream->run.op->cls->name);
    HR_TRY(s->gate.stream->run.op->cls->restore(s->gate.stream->run.op, &s->gate.task, state, err));
    if (s->next)
        (void)hr__state_int(state, "ordinal", &s->next->window.n_taken); /* tables are numbered on */
    return HR_OK;
}

static hr_stage *input_of(const hr_stage *s, int input)
{
    for (int i = 0; i < s->run->n_stages; i++)
        if (s->run->stages[i]->next == s && s->run->stages[i]->input_of_next == input)
            return s->run->stages[i];
    return NULL;
}

/* The row of what the stage's block operator gives; NULL: it has none, or the marker lies elsewhere. */
static const hr_coord *made_row(const hr_stage *s, const hr_marker *m)
{
    const hr_op_state *o = s->gate.stream;

    return o && o->instance && !hr__marker_state(m, o->run.index) ? hr__marker_at(m, o->instance) : NULL;
}

/* Whether the marker names a source above the stage. */
static bool is_named(const hr_stage *s, const hr_marker *m)
{
    if (made_row(s, m) || (s->scan && hr__marker_at(m, s->leaf.instance)))
        return true;
    for (int i = 0; i < s->in.n_inputs; i++)
        if (is_named(input_of(s, i), m))
            return true;
    return false;
}

/* All of it was passed on before the marker. */
static void end_all(hr_stage *s)
{
    s->ended = true;
    for (int i = 0; i < s->in.n_inputs; i++)
        end_all(input_of(s, i));
}

static hr_status restore(hr_stage *s, const hr_marker *m, hr_error *err);

/* Of a union: the input that the marker names, and no more of those before it. */
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

/* Of an operator that chooses: each input at its own. */
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
    while (n < n_rows) { /* runs of rows that follow each other */
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
