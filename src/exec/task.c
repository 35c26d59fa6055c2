/* task.c - what an operator may do: emit, suspend, pass a marker, get the place of rows (declared in op.h).
 *
 * Operators never call each other. A table that one emits lies in the inbox of the next (after the last operator in the
 * ticket's output, after a stream operator in gate.staged) until the scheduler's thread moves it. So a suspended
 * operator finds its input again, and the stack stays flat.
 *
 * Tests: test_stages.c, test_combine.c. */
#include "exec/run.h"

#include <inttypes.h>

void hr__task_init(hr_task *task, hr_stage *s, hr_ticket *t, hr_op_state *op, int place)
{
    *task = (hr_task){ .run = s->run, .stage = s, .ticket = t, .op = op, .place = place };
}

void hr__task_end(hr_task *task)
{
    hr__queue_clear(&task->inbox);
    if (!task->op || !task->state)
        return;
    if (task->op->run.op->cls->task_clear)
        task->op->run.op->cls->task_clear(task->op->run.op, task);
    else
        hr__free(task->state);
    task->state = NULL;
}

/* The bytes of a row of t that takes more than `most`; 0: there is none. */
static int64_t large_row(const hr_table *t, int64_t most)
{
    int64_t begin = 0, n = t->n_rows, bytes = hr__table_bytes_used(t);

    while (bytes > most && n > 1) { /* the row is in one half of the range, or there is none */
        hr_table *half = NULL;

        if (hr_table_slice(t, begin, n / 2, &half, NULL))
            return 0;
        bytes = hr__table_bytes_used(half);
        hr_table_unref(half);
        if (bytes > most) {
            n /= 2;
            continue;
        }
        begin += n / 2;
        n -= n / 2;
        if (hr_table_slice(t, begin, n, &half, NULL))
            return 0;
        bytes = hr__table_bytes_used(half);
        hr_table_unref(half);
    }
    return bytes > most ? bytes : 0;
}

hr_status hr__check_rows(const hr_table *t, const hr_account *account, hr_error *err)
{
    int64_t limit = hr__account_limit(account), bytes;

    if (t->payload) /* one row with a payload represents many of the user's rows */
        return HR_OK;
    if (!(bytes = large_row(t, limit)))
        return HR_OK;
    return hr_error_set(err, HR_BUDGET, "one row takes %lld bytes, the memory limit is %lld", (long long)bytes,
                        (long long)limit);
}

hr_status hr__number_instance(hr_table **table, int32_t instance, hr_error *err)
{
    hr_origin *o = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    if (!instance || !(*table)->origin)
        return HR_OK;
    HR_GO(hr__origin_instance((*table)->origin, instance, &o, err));
    HR_GO(hr__table_with_origin(*table, o, &t, err));
    hr_table_unref(*table);
    *table = t;
done:
    hr__origin_unref(o);
    return st;
}

/* For an output table of a block operator: drops the rows before the start of the run, and puts a marker before the
 * rest. */
static hr_status mark_made(hr_task *task, hr_table **table, hr_error *err)
{
    if (task->ticket || task->op->run.op->cls->kind != HR_OP_BLOCK)
        return HR_OK;
    HR_TRY(hr__leave_out_made(task->op, table, err));
    if (!task->stage->gate.marker)
        task->stage->gate.marker = hr__made_marker(task->op, *table);
    return HR_OK;
}

hr_status hr__task_emit(hr_task *task, hr_table **takes, hr_error *err)
{
    hr_item item = { .table = *takes };
    hr_queue *to = &task->stage->gate.staged;
    hr_status st;

    *takes = NULL;
    if (!item.table || !item.table->n_rows) { /* empty tables stop here */
        hr__item_clear(&item);
        return HR_OK;
    }
    st = hr__check_rows(item.table, task->run->account, err);
    if (st)
        st = hr__error_at(err, st, "%s", task->op->run.op->cls->name);
    else
        st = hr__number_instance(&item.table, task->op->instance, err);
    if (!st)
        st = mark_made(task, &item.table, err);
    if (st || !item.table->n_rows) {
        hr__item_clear(&item);
        return st;
    }
    atomic_fetch_add_explicit(&task->op->rows_out, item.table->n_rows, memory_order_relaxed);
    atomic_fetch_add_explicit(&task->op->bytes_out, hr__table_bytes_used(item.table), memory_order_relaxed);
    if (!task->ticket) {
        item.marker = task->stage->gate.marker;
        task->stage->gate.marker = NULL;
    } else if (task->place + 1 < task->stage->n_ops)
        to = &task->ticket->tasks[task->place + 1].inbox;
    else
        to = &task->ticket->out;
    return hr__queue_push(to, task->run->account, item, err);
}

void hr__task_more(hr_task *task) { task->more = true; }

void hr__task_enough(hr_task *task)
{
    if (!task->ticket)
        task->stage->gate.enough = true; /* the draining thread acts on it */
}

int hr__task_input(const hr_task *task) { return task->stage->gate.input; }

void hr__task_want(hr_task *task, int input) { task->stage->gate.wanted = input; }

static const hr_stage *input_stage(const hr_stage *s, int input)
{
    for (int i = 0; i < s->run->n_stages; i++)
        if (s->run->stages[i]->next == s && s->run->stages[i]->input_of_next == input)
            return s->run->stages[i];
    return NULL;
}

int64_t hr__task_first_row(const hr_task *task, int input)
{
    const hr_stage *s = task->stage, *up;

    if (!s->gate.stream || s->gate.stream->run.op->cls->inputs == HR_INPUTS_ONE)
        return s->lane_in;
    up = input_stage(s, input);
    return up ? up->lane_out : 0;
}

int hr__task_lane(const hr_task *task) { return task->stage->lane; }

void **hr__task_state(hr_task *task) { return &task->state; }

void **hr__task_thread_state(hr_task *task) { return &task->op->thread_states[task->thread]; }

hr_op_run *hr__task_run(hr_task *task) { return &task->op->run; }

const hr_mem *hr__task_mem(hr_task *task) { return &task->op->mem; }

bool hr__task_cancelled(const hr_task *task) { return atomic_load_explicit(&task->run->stop, memory_order_relaxed); }

hr_coord hr__task_begin(const hr_task *task) { return task->ticket ? task->ticket->begin : (hr_coord){ 0 }; }

int64_t hr__task_turn(const hr_task *task) { return task->ticket ? task->ticket->seq : 0; }

int64_t hr__task_ordinal(const hr_task *task) { return task->ticket ? task->ticket->ordinal : 0; }

/* The stage that reads the source of this number; NULL: an operator made the rows. */
static const hr_stage *source_of(const hr_run *r, int32_t instance)
{
    for (int i = 0; i < r->n_stages; i++)
        if (r->stages[i]->scan && r->stages[i]->leaf.instance == instance)
            return r->stages[i];
    return NULL;
}

void hr__task_source(const hr_task *task, hr_coord row, hr_text *out)
{
    const hr_stage *s = source_of(task->run, row.instance);

    if (s && row.file < hr__scan_n_files(s->scan))
        hr__text_add(out, " of %s", hr__scan_file_name(s->scan, row.file));
    if (s && row.fragment)
        hr__text_add(out, ", fragment %d", row.fragment);
}

void hr__task_where(const hr_task *task, const hr_origin *o, hr_text *out)
{
    int64_t n = hr__origin_rows(o);
    hr_coord first, last;

    if (n == 0)
        return;
    first = hr__origin_at(o, 0);
    last = hr__origin_at(o, n - 1);
    if (first.instance != last.instance || first.file != last.file || first.fragment != last.fragment)
        hr__text_add(out, "%" PRId64 " rows from row %" PRId64 " on", n, first.row);
    else if (first.row == last.row)
        hr__text_add(out, "row %" PRId64, first.row);
    else
        hr__text_add(out, "rows %" PRId64 " to %" PRId64, first.row, last.row);
    hr__task_source(task, first, out);
}

void hr__task_pass(hr_task *task, hr_marker *takes, const char *state)
{
    hr_stage *s = task->stage;

    /* Without memory for the state the marker is dropped: an older marker is used, and a resume reads more rows
     * again. */
    if (hr__marker_add(takes, task->op->run.index, state, state ? (int64_t)strlen(state) : 0, NULL)) {
        hr__marker_drop(takes);
        return;
    }
    hr__marker_drop(s->gate.marker);
    s->gate.marker = takes;
}

void hr__task_end_input(hr_task *task, int input)
{
    hr_stage_input *in = &task->stage->in;

    if (in->ended && input >= 0 && input < in->n_inputs && !in->ended[input]) {
        in->ended[input] = true;
        in->n_ended++;
    }
}

bool hr__task_last(const hr_task *task)
{
    const hr_ticket *t = task->ticket;

    if (!t || !t->input_done || task->inbox.n)
        return false;
    for (int i = 0; i < task->place; i++) {
        const hr_task *before = &t->tasks[i];

        if (before->inbox.n || before->more || (t->n_finished <= i && before->op->run.op->cls->finish))
            return false;
    }
    return true;
}

bool hr__task_closes(const hr_task *task) { return task->ticket && task->ticket->closes; }

bool hr__task_marked(const hr_task *task) { return task->ticket && task->ticket->before; }

/* The ticket is RUNNING, so no thread passes its marker on meanwhile. */
void hr__task_save(hr_task *task, const char *state)
{
    hr_ticket *t = task->ticket;

    if (!t->before)
        return;
    if (state && !hr__marker_add(t->before, task->op->run.index, state, (int64_t)strlen(state), NULL))
        return;
    hr__marker_drop(t->before); /* an older marker is used; a resume reads more rows again */
    t->before = NULL;
}

/* Out of memory: no marker lies there. */
void hr__task_save_at(hr_task *task, const hr_coord *at, const char *state)
{
    hr_ticket *t = task->ticket;
    char *copy = hr__strdup(NULL, state);

    if (!copy || !hr__grow(task->run->account, (void **)&t->saved, &t->cap_saved, t->n_saved + 1, sizeof *t->saved)) {
        hr__free(copy);
        return;
    }
    t->saved[t->n_saved++] = (hr_saved){ *at, task->op->run.index, copy };
}

/* --- suspension */

struct hr_resume {
    hr_run *run;
    hr_ticket *ticket;
    int place;
};

hr_status hr__task_suspend(hr_task *task, hr_resume **out, hr_error *err)
{
    hr_resume *res = NULL;

    *out = NULL;
    if (!task->ticket)
        return hr_error_set(err, HR_BUG, "%s: suspends, and is no map operator", task->op->run.op->cls->name);
    if (!(res = hr__alloc(NULL, sizeof *res)))
        return hr__error_memory(err, "suspend", sizeof *res);
    hr__run_ref(task->run);
    *res = (hr_resume){ task->run, task->ticket, task->place };
    task->ticket->receiving = false; /* its own thread runs the ticket */
    *out = res;
    return HR_OK;
}

hr_status hr__ticket_suspend(hr_ticket *t, hr_resume **out, hr_error *err)
{
    hr_run *r = t->stage->run;

    if (!(*out = hr__alloc(NULL, sizeof **out)))
        return hr__error_memory(err, "suspend", sizeof **out);
    hr__run_ref(r);
    **out = (hr_resume){ r, t, -1 };
    hr__run_lock(r);
    t->receiving = true;
    t->next_waiting = r->waiting;
    r->waiting = t;
    hr__run_unlock(r);
    return HR_OK;
}

static void leave_waiting_locked(hr_ticket *t)
{
    hr_ticket **at = &t->stage->run->waiting;

    hr__assert_locked(t->stage->run);
    while (*at != t)
        at = &(*at)->next_waiting;
    *at = t->next_waiting;
}

void hr__ticket_stay(hr_resume *takes)
{
    hr_run *r = takes->run;

    hr__run_lock(r);
    leave_waiting_locked(takes->ticket);
    hr__run_unlock(r);
    hr__free(takes);
    hr__run_unref(r);
}

void hr__resume(hr_resume *takes, hr_status st, hr_error *moved)
{
    hr_run *r = takes->run;
    hr_ticket *t = takes->ticket;
    hr_op_state *op = takes->place < 0 ? NULL : t->stage->ops[takes->place];

    hr__run_lock(r);
    t->resumed = takes->place;
    if (!op)
        leave_waiting_locked(t);
    if (st) {
        t->resume_st = st;
        hr__error_move(&t->err, moved);
    }
    if (t->state == HR_TICKET_PENDING) {
        t->state = HR_TICKET_READY;
        hr__ticket_resumes_locked(t, op);
        hr__look_locked(r, false);
        if (t->dropped) {
            t->next_dropped = r->dropped;
            r->dropped = t;
        }
        if (--r->n_pending == 0)
            hr__cond_broadcast(&r->idle);
    } else
        t->resume_early = true;
    hr__run_unlock(r);
    hr_error_clear(moved);
    hr__free(takes);
    hr__pool_wake();
    hr__run_unref(r);
}

bool hr__task_is_first(const hr_task *task) { return task->ticket && task->ticket->is_first; }

/* As if hr__resume came already: the scheduler does not step the ticket until its turn. */
void hr__task_await_turn(hr_task *task)
{
    hr_ticket *t = task->ticket;

    t->awaits = task->op;
    t->resumed = task->place;
    t->resume_early = true;
}

/* Delays an operator's calls by up to the time of HR_STALL, so that tests see tickets overtake each other. */
void hr__op_stall(hr_op_state *op)
{
    if (op->stall_ns)
        hr__sleep_ns((int64_t)(hr__random_bits((uint64_t)hr__clock_ns(), 0, 0, 0).lo % (uint64_t)op->stall_ns));
}
