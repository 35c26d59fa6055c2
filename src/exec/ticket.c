/* ticket.c - one ticket's path: its input, then the map operators of its stage, depth first.
 *
 * A step ends with the first output, so that the scheduler can drain it, check the budget and notice a cancellation
 * between operator calls. Tables in inboxes stay there.
 *
 * Tests: test_keyed.c, test_aggregate_own.c. */
#include "exec/run.h"

#include <inttypes.h>

hr_status hr__ticket_new(hr_stage *s, hr_ticket **out, hr_error *err)
{
    hr_account *a = s->run->account;
    hr_ticket *t = hr__zalloc(a, sizeof *t);

    *out = NULL;
    if (!t || (s->n_ops && !(t->tasks = hr__zalloc(a, (size_t)s->n_ops * sizeof *t->tasks)))) {
        hr__free(t);
        return hr__error_memory(err, "ticket", sizeof *t);
    }
    t->stage = s;
    t->resumed = -1;
    t->n_rows = -1;
    for (int i = 0; i < s->n_ops; i++)
        hr__task_init(&t->tasks[i], s, t, s->ops[i], i);
    *out = t;
    return HR_OK;
}

void hr__ticket_free(hr_ticket *t)
{
    if (!t)
        return;
    for (int i = 0; t->tasks && i < t->stage->n_ops; i++)
        hr__task_end(&t->tasks[i]);
    hr__free(t->tasks);
    hr__queue_clear(&t->out);
    hr__reader_close(t->reader);
    hr__scan_file_unref(t->file);
    for (int i = 0; t->sources && i < t->n_files; i++)
        hr__source_unref(t->sources[i]);
    hr__free(t->sources);
    hr__wait_unref(t->wait);
    hr_table_unref(t->in);
    hr__row_leaf_part_free(t);
    hr__marker_drop(t->before);
    for (int64_t i = 0; i < t->n_saved; i++)
        hr__free(t->saved[i].text);
    hr__free(t->saved);
    hr_error_clear(&t->err);
    hr__free(t);
}

void hr__tickets_free(hr_ticket *t)
{
    while (t) {
        hr_ticket *next = t->next_dropped;

        hr__ticket_free(t);
        t = next;
    }
}

/* --- input */

static hr_status give(hr_ticket *t, hr_table *takes)
{
    hr_queue *to = t->stage->n_ops ? &t->tasks[0].inbox : &t->out;

    return hr__queue_push(to, t->stage->run->account, (hr_item){ .table = takes }, &t->err);
}

/* The bytes of a table that a reader of the stage makes. */
static int64_t read_bytes(const hr_stage *s)
{
    int64_t own = s->gate.stream ? s->gate.stream->run.op->cls->reads_bytes : 0;

    return own ? HR_MIN(own, s->run->step_bytes) : s->run->step_bytes;
}

static hr_status read_fragment(hr_ticket *t, const hr_mem *mem, hr_table **out)
{
    if (!t->reader)
        HR_TRY(t->file->cls->read(t->file, t->fragment, t->row_begin, t->n_rows, mem, &t->reader, &t->err));
    HR_TRY(hr__reader_next(t->reader, read_bytes(t->stage), out, &t->err));
    if (!*out) {
        t->input_done = true;
        hr__reader_close(t->reader);
        t->reader = NULL;
    }
    return HR_OK;
}

/* `read` may raise the estimate above what was admitted: then the first read waits for the next step. */
static hr_status read_block_part(hr_ticket *t, const hr_mem *mem, hr_table **out)
{
    hr_op_run *run = &t->block_parts_of->run;
    int64_t estimate = t->estimate;

    if (!t->reader) {
        HR_TRY(run->op->cls->read(run->op, run, t->block_part, mem, &t->reader, &t->estimate, &t->err));
        if (t->reader && t->estimate > estimate)
            return HR_OK;
    }
    if (t->reader)
        HR_TRY(hr__reader_next(t->reader, t->stage->run->step_bytes, out, &t->err));
    if (!*out) {
        t->input_done = true;
        hr__reader_close(t->reader);
        t->reader = NULL;
    }
    return HR_OK;
}

/* Takes the table, even on failure. */
static hr_status give_read(hr_ticket *t, hr_table *table)
{
    int32_t instance = t->block_parts_of ? t->block_parts_of->instance : t->stage->leaf.instance;
    const char *name = t->block_parts_of ? t->block_parts_of->run.op->cls->name : t->file ? t->file->name : "a file";
    hr_status st = hr__check_rows(table, t->stage->run->account, &t->err);

    if (st)
        st = hr__error_at(&t->err, st, "%s", name);
    else
        st = hr__number_instance(&table, instance, &t->err);
    if (!st && t->block_parts_of)
        st = hr__leave_out_made(t->block_parts_of, &table, &t->err);
    if (!st)
        atomic_fetch_add_explicit(t->block_parts_of ? &t->block_parts_of->rows_out : &t->stage->counts.rows_read,
                                  table->n_rows, memory_order_relaxed);
    if (!st && table->n_rows)
        return give(t, table);
    hr_table_unref(table);
    return st;
}

static hr_status read_more(hr_ticket *t, int thread)
{
    hr_stage *s = t->stage;
    hr_mem mem = { s->run->account, s->leaf.arena };
    hr_call_times *times = t->block_parts_of ? &t->block_parts_of->times : &s->counts.reads;
    hr_small_tables found = { .n = 0 };
    hr_call_clock clock;
    int64_t n_rows = 0;
    hr_status st = t->block_parts_of ? HR_OK : hr__ticket_await(t);

    if (st)
        return st;
    clock = hr__timing_begins(times);
    if (t->n_files) {
        st = hr__small_files_read(t, &mem, &found);
    } else if (t->block_parts_of) {
        st = read_block_part(t, &mem, &found.tables[0]);
        found.n = found.tables[0] != NULL;
    } else {
        st = read_fragment(t, &mem, &found.tables[0]);
        found.n = found.tables[0] != NULL;
    }
    for (int i = 0; i < found.n; i++) {
        n_rows += found.tables[i]->n_rows;
        if (st)
            hr_table_unref(found.tables[i]);
        else
            st = give_read(t, found.tables[i]);
    }
    t->n_read += n_rows;
    hr__timing_ends(s->run, times, &clock,
                    !found.n || st      ? NULL
                    : t->block_parts_of ? hr__op_label(t->block_parts_of)
                                        : "read",
                    thread, n_rows);
    return st;
}

static hr_status take_input(hr_ticket *t, int thread)
{
    hr_table *in = t->in;

    if (t->part)
        return hr__row_leaf_read(t, &(hr_mem){ t->stage->run->account, t->stage->leaf.arena });
    if (t->stage->scan || t->block_parts_of)
        return read_more(t, thread);
    t->in = NULL;
    t->input_done = true;
    return in ? give(t, in) : HR_OK;
}

/* --- operators */

/* "map_batches(f): ...": adds the operator's name to its error. */
static hr_status at_op(hr_ticket *t, hr_status st, const hr_op *op)
{
    hr_text name = { 0 };

    if (st == HR_PENDING || st == HR_OK)
        return st;
    if (op->cls->describe)
        op->cls->describe(op, &name);
    if (t->err.status == HR_OK)
        hr_error_set(&t->err, st, "%s", hr_status_text(st));
    if (!name.data || name.failed || strncmp(t->err.text, name.data, (size_t)name.n) ||
        t->err.text[name.n] != ':') /* the text has the name already */
        st = hr__error_at(&t->err, st, "%s", name.data && !name.failed ? name.data : op->cls->name);
    hr__text_clear(&name);
    return st;
}

typedef enum call_kind { PUSH, RESUMED, MORE, FINISH } call_kind;

static hr_status call_op(hr_ticket *t, int i, int thread, call_kind kind, hr_table *in)
{
    hr_task *task = &t->tasks[i];
    hr_op_state *o = task->op;
    const hr_op *op = o->run.op;
    int64_t rows = in ? in->n_rows : 0;
    hr_call_clock clock;
    hr_status st = HR_OK;

    task->thread = thread;
    clock = hr__timing_begins(&o->times);
    hr__op_stall(o);
    if (kind == RESUMED)
        st = op->cls->resumed(op, task, &t->err);
    else if (kind == MORE)
        st = op->cls->more(op, task, &t->err);
    else if (kind == PUSH)
        st = op->cls->push(op, task, in, &t->err);
    else if (op->cls->finish)
        st = op->cls->finish(op, task, &t->err);
    atomic_fetch_add_explicit(&o->rows_in, rows, memory_order_relaxed);
    hr__timing_ends(t->stage->run, &o->times, &clock, kind == FINISH ? NULL : hr__op_label(o), thread, rows);
    return at_op(t, st, op);
}

/* The deepest operator with work: a table in its inbox, or more of the last one; -1: none. */
static int deepest(const hr_ticket *t)
{
    for (int i = t->stage->n_ops - 1; i >= 0; i--)
        if (t->tasks[i].inbox.n || t->tasks[i].more)
            return i;
    return -1;
}

static hr_status step_once(hr_ticket *t, int thread)
{
    int i = deepest(t);
    hr_item item = { 0 };
    hr_status st;

    if (i >= 0 && t->tasks[i].more) {
        t->tasks[i].more = false;
        return call_op(t, i, thread, MORE, NULL);
    }
    if (i >= 0) {
        hr__queue_pop(&t->tasks[i].inbox, &item);
        st = call_op(t, i, thread, PUSH, item.table);
        hr__item_clear(&item);
        return st;
    }
    if (!t->input_done)
        return take_input(t, thread);
    return call_op(t, t->n_finished++, thread, FINISH, NULL);
}

bool hr__ticket_finished(const hr_ticket *t)
{
    return t->input_done && deepest(t) < 0 && t->n_finished >= t->stage->n_ops;
}

static hr_status resume_op(hr_ticket *t, int thread)
{
    int i = t->resumed;
    hr_status st = t->resume_st;

    t->resumed = -1;
    t->awaits = NULL;
    t->resume_st = HR_OK;
    return st ? at_op(t, st, t->stage->ops[i]->run.op) : call_op(t, i, thread, RESUMED, NULL);
}

/* Tables from item `first` on, made by this step: often no other holds their buffers. Claimed tables need no copy when
 * batches own their memory. */
static void claim_tables(hr_ticket *t, int64_t first)
{
    for (int64_t i = first; i < t->out.n; i++) {
        hr_item *item = &t->out.items[(t->out.head + i) % t->out.cap];

        if (!item->table)
            continue;
        hr__table_claim(item->table);
        atomic_fetch_add_explicit(&t->made_bytes, hr__table_bytes_used(item->table), memory_order_relaxed);
    }
}

hr_status hr__ticket_step(hr_ticket *t, int thread)
{
    int64_t n_before = t->out.n; /* a ticket behind the head may have output already, and its step must add some */
    hr_status st = t->resumed >= 0 ? resume_op(t, thread) : HR_OK;

    while (!st && t->out.n == n_before && !hr__ticket_finished(t)) {
        bool reading = (t->stage->scan || t->block_parts_of || t->part) && !t->input_done && deepest(t) < 0;

        if (atomic_load_explicit(&t->stage->run->stop, memory_order_relaxed))
            st = hr_error_set(&t->err, HR_CANCELLED, "the run was stopped");
        else
            st = step_once(t, thread);
        if (reading && !st && deepest(t) < 0)
            break; /* between two reads the scheduler checks the budget */
    }
    claim_tables(t, n_before);
    return st;
}
