/* sched.c - decides what a pool thread does next for a run: take tickets serially, run them in parallel, pass their
 * output on in canonical order.
 *
 * The life of a ticket. A ticket changes its state with run->lock held. Four things run without the lock: the step
 * itself, the making of a ticket (window.taking), the stream operator (gate.draining), and frees.
 *
 *      take(), next(), close_stage(): a new ticket enters its stage's window, with the next number
 *        |
 *        |                +--------------------------------------------------------------+
 *        v                v                                                              |
 *      READY  ----->  RUNNING  ----->  settle_locked() checks what the step returned:    |
 *        ^    choose_   |  hr__ticket_step() on one thread: an operator call, a read     |
 *        |    locked()  |                                                                |
 *        |              +-- HR_OK, and there is more to do ---------------> READY -------+
 *        |              +-- HR_PENDING, and hr__resume() came already, or
 *        |              |   hr__task_await_turn() was called ------------> READY
 *        |              +-- HR_PENDING -----------------------------------> PENDING
 *        |              +-- HR_OK and finished, or an error --------------> DONE
 *        |                                                                     |
 *        +-- hr__resume(), by any thread -- PENDING                            |
 *                                                                              v
 *      drain(), one thread a stage, passes on the output of READY, PENDING and DONE tickets; a DONE ticket without
 *      output leaves the window for run->dropped; the next drain() or take(), or hr__run_close(), frees it.
 *
 *      take() with an error: a new ticket is DONE at once, so that the error waits for its turn.
 *      cut_stage_locked(): all tickets leave the window. READY and DONE go to run->dropped; RUNNING and PENDING are
 *      marked `dropped`: step() frees the first when it comes back, hr__resume() puts the second on run->dropped.
 *      A cut does not cancel calls that are under way.
 *
 * A READY ticket is not stepped while it is the head of the window and has output, while it is behind the head and far
 * enough ahead (is_ahead), or while it awaits its turn (hr__task_await_turn: until it is the oldest, or its operator is
 * settled).
 *
 * What a thread does. Shares of a parallel call come first. Then, for each stage from the last to the first: drain,
 * else step, else take; so work in progress ends before new work begins. One drain continues until the next stage is
 * full or nothing is left, one step ends with the first output, one take makes one ticket:
 *   help   an operator's call has shares that any thread may do (parallel_call.c)
 *   drain  the oldest ticket's output goes through the stage's stream operator to the next stage (one thread per stage)
 *   step   the oldest READY ticket continues, if the budget admits it; never a younger one instead
 *   take   a new ticket is made if the window has room: from the scan (unless its next file is on its way), from the
 *          output of the stage before, or of a block part of a block operator; and after all others one without rows,
 *          if an operator needs it (hr_op.closes)
 *
 * Rules.
 * 1. Admission: a step reserves its estimate in the run's account, between operator calls only, so that no thread waits
 *    for memory.
 * 2. The oldest ticket of a stage is never refused while everything downstream of the stage is empty: the others wait
 *    for its output. So a run moves in any budget.
 * 3. An error ends its ticket, then its stage. It waits in the next stage's in.st until all tables before it have
 *    passed, and so on down to run->st. Rows that a stream or block operator still holds at that time are not
 *    delivered. A cut stage drops the error.
 * 4. A stage that needs no more rows cuts itself and everything upstream. Its stream operator still gets `finish`.
 * 5. Back pressure. A stage drains only while the next stage's queue has fewer than 2 x its window's limit of items, or
 *    the output queue fewer than `prefetch` tables. Then its DONE tickets stay, its window fills and `take` stops, and
 *    so on up to the scan. Neither does it while its stream operator does not accept (a writer whose bytes travel).
 * 6. With options.any_order tickets are drained as they complete, an error ends the run at once, and there are no
 *    markers.
 *
 * Waking: every event that makes work possible (a step done, a table consumed, bytes released) calls hr__pool_wake; see
 * pool.c. Locks and names (_locked, _relocks): see run.h.
 *
 * Tests: test_stages.c, test_combine.c. */
#include "exec/run.h"
#include "share/exchange_arena.h"

#define MAX_AHEAD 2    /* tables that a ticket behind the head may always hold */
#define AHEAD_SHARE 64 /* of the memory limit: this part is for more tables, of a ticket and all older ones, */
#define HUNGRY_SHARE 4 /* and this one while who comes next waits for them */

typedef enum work_kind { NOTHING, HELP, DRAIN, STEP, TAKE, NEXT, CLOSE } work_kind;
typedef struct work {
    work_kind kind;
    hr_stage *stage;
    hr_ticket *ticket;
    int64_t reserved;
} work;

static hr_ticket **slot(hr_stage *s, int64_t seq) { return &s->window.tickets[seq % s->window.cap]; }

static bool has_tickets(const hr_stage *s) { return s->window.head_seq < s->window.next_seq; }

static bool block_parts_left(const hr_stage *s) { return s->in.at_block_part < s->in.n_block_parts; }

/* No more rows will come. */
static bool rows_done(const hr_stage *s)
{
    if (s->scan || s->cache)
        return s->leaf.done;
    return s->in.items.n == 0 && (s->in.st || (s->in.n_ended >= s->in.n_inputs && !block_parts_left(s)));
}

/* All its rows were taken, and an operator needs a last ticket. */
static bool wants_to_close(const hr_stage *s) { return s->closes && !s->closed && !s->in.st && rows_done(s); }

static bool inputs_done(const hr_stage *s) { return s->cut || (rows_done(s) && !wants_to_close(s)); }

/* The operator has several inputs, and sees the end of each. */
static bool tells_inputs(const hr_stage *s)
{
    return s->gate.stream && s->gate.stream->run.op->cls->inputs != HR_INPUTS_ONE;
}

/* --- choosing work */

bool hr__next_accepts(const hr_stage *s)
{
    const hr_run *r = s->run;

    if (!s->next)
        return r->out.n < hr__run_ahead(r);
    return s->input_of_next == s->next->in.current && s->next->in.items.n < 2 * s->next->window.limit;
}

bool hr__gate_accepts(const hr_stage *s)
{
    const hr_op *op = s->gate.stream ? s->gate.stream->run.op : NULL;

    return !op || !op->cls->accepts || op->cls->accepts(s->gate.task.state);
}

/* The ticket whose output may be passed on now; NULL: none. */
static hr_ticket *drainable(hr_stage *s)
{
    bool any = s->run->options.any_order && !tells_inputs(s);
    int64_t last = any ? s->window.next_seq : HR_MIN(s->window.next_seq, s->window.head_seq + 1);

    for (int64_t q = s->window.head_seq; q < last; q++) {
        hr_ticket *t = *slot(s, q);

        if (t && t->state != HR_TICKET_RUNNING && (t->out.n || t->state == HR_TICKET_DONE))
            return t;
    }
    return NULL;
}

static bool can_drain(hr_stage *s)
{
    if (s->gate.draining || s->ended || !hr__next_accepts(s) || !hr__gate_accepts(s))
        return false;
    return drainable(s) || (!has_tickets(s) && !s->window.taking && inputs_done(s));
}

/* Everything between `s` and the consumer is empty: only `s` can move the run. */
static bool downstream_idle(const hr_stage *s)
{
    for (const hr_stage *d = s->next; d; d = d->next)
        if (has_tickets(d) || d->in.items.n || d->gate.draining)
            return false;
    return s->run->out.n == 0 && !s->gate.draining;
}

/* Operators of several inputs downstream wait for rows of this stage, and not of another input. */
static bool is_wanted(const hr_stage *s)
{
    for (; s->next; s = s->next)
        if (tells_inputs(s->next) && s->input_of_next != s->next->in.current)
            return false;
    return true;
}

/* Bytes in arenas are charged to the arenas' owners, which outlive runs; they also count for the runs that write there.
 * No account reports when these bytes are released, but the thread that releases them takes a table or resumes a ticket
 * next. */
static int64_t arena_bytes(const hr_run *r)
{
    int64_t n = 0;

    for (int64_t i = 0; i < r->n_arenas; i++)
        n += hr__arena_used(r->arenas[i]);
    return n;
}

static bool admit(hr_stage *s, hr_ticket *t, int64_t *reserved)
{
    bool force = t->seq == s->window.head_seq && downstream_idle(s) && is_wanted(s);

    *reserved = t->estimate + (force ? 0 : hr__ticket_missing_bytes(t));
    if (!force &&
        arena_bytes(s->run) + hr__account_used(s->run->account) + *reserved > hr__account_limit(s->run->account))
        return false;
    return hr__account_reserve(s->run->account, *reserved, force);
}

/* Whether a ticket behind the head has made enough. A fragment that cannot be split, such as a file in gzip, may give
 * hundreds of tables. While who comes next finds no table, threads have nothing better to do than to make them: else
 * the oldest file would be read by one thread, and all others would wait for it. While it finds some, a store of tables
 * lets a consumer that is as fast as the threads never wait. Older tickets come first: theirs is all of the memory, as
 * equal parts would stop tickets of large tables after two. n_bytes: of its tables and of those between the head and
 * it. */
static bool is_ahead(const hr_stage *s, const hr_ticket *t, int64_t n_bytes)
{
    bool hungry = s->next ? !s->next->in.items.n : !s->run->out.n;

    if (t->out.n < MAX_AHEAD)
        return false;
    return s->window.begins_small ||
           n_bytes >= hr__account_limit(s->run->account) / (hungry ? HUNGRY_SHARE : AHEAD_SHARE);
}

static hr_ticket *ready_ticket(hr_stage *s, int64_t *reserved)
{
    int64_t ahead = 0;

    for (int64_t q = s->window.head_seq; q < s->window.next_seq; q++) {
        hr_ticket *t = *slot(s, q);

        if (t && q > s->window.head_seq)
            ahead += atomic_load_explicit(&t->made_bytes, memory_order_relaxed);
        if (!t || t->state != HR_TICKET_READY)
            continue;
        if (t->out.n && (q == s->window.head_seq || s->run->options.any_order || is_ahead(s, t, ahead)))
            continue; /* its output must be drained first */
        t->is_first = q == s->window.head_seq;
        if (t->awaits && !t->is_first && !atomic_load_explicit(&t->awaits->run.settled, memory_order_acquire))
            continue;
        s->watch.refused = !admit(s, t, reserved);
        return s->watch.refused ? NULL : t;
    }
    return NULL;
}

static bool source_exhausted(const hr_stage *s)
{
    const hr_run *r = s->run;

    if (s->ended || s->cut)
        return true;
    if (s->scan || s->cache)
        return s->leaf.done;
    if (block_parts_left(s))
        return false;
    for (int i = 0; i < r->n_stages; i++)
        if (r->stages[i]->next == s && !source_exhausted(r->stages[i]))
            return false;
    return true;
}

/* Whether the stage may read ahead: a later input of a union only when the inputs before it are read to their ends; a
 * later input of an operator that takes its inputs in turn, not even then; every input of an operator that chooses. */
static bool is_its_turn(const hr_stage *s)
{
    const hr_run *r = s->run;

    for (; s->next; s = s->next) {
        if (s->input_of_next == s->next->in.current)
            continue;
        if (tells_inputs(s->next)) {
            if (s->next->gate.stream->run.op->cls->inputs == HR_INPUTS_IN_TURN)
                return false;
            continue;
        }
        if (r->has_limit)
            return false;
        for (int i = 0; i < r->n_stages; i++)
            if (r->stages[i]->next == s->next && r->stages[i]->input_of_next < s->input_of_next &&
                !source_exhausted(r->stages[i]))
                return false;
    }
    return true;
}

static bool can_take(const hr_stage *s)
{
    if (s->cut || s->window.taking || s->window.awaits || s->window.next_seq - s->window.head_seq >= s->window.limit)
        return false;
    if (wants_to_close(s))
        return true;
    if (s->cache && hr__row_leaf_waits(s))
        return false;
    return s->scan || s->cache ? !s->leaf.done && is_its_turn(s) : s->in.items.n > 0 || block_parts_left(s);
}

static work choose_locked(hr_run *r)
{
    hr__assert_locked(r);
    if (hr__has_shares_locked(r))
        return (work){ .kind = HELP };
    for (int i = r->n_stages - 1; i >= 0; i--) {
        hr_stage *s = r->stages[i];
        work w = { NOTHING, s, NULL, 0 };

        if (s->ended)
            continue;
        if (can_drain(s)) {
            s->gate.draining = true;
            w.kind = DRAIN;
        } else if ((w.ticket = ready_ticket(s, &w.reserved))) {
            w.ticket->state = HR_TICKET_RUNNING;
            hr__ticket_begins_locked(w.ticket);
            w.kind = STEP;
        } else if (can_take(s)) {
            s->window.taking = true;
            w.kind = wants_to_close(s) ? CLOSE : s->scan || s->cache ? TAKE : NEXT;
        }
        if (w.kind)
            return w;
    }
    return (work){ NOTHING, NULL, NULL, 0 };
}

/* --- drain */

/* All output of this stage has passed on: a larger window may be needed. */
static bool downstream_waits(const hr_stage *s)
{
    for (const hr_stage *d = s->next; d; d = d->next)
        if (has_tickets(d) || d->in.items.n)
            return false;
    return true;
}

static void window_advance(hr_stage *s)
{
    while (has_tickets(s) && !*slot(s, s->window.head_seq)) {
        s->window.head_seq++;
        if (s->window.limit < s->window.full && downstream_waits(s))
            s->window.limit = HR_MIN(s->window.full, s->window.limit * 2);
    }
}

static void remove_ticket(hr_stage *s, hr_ticket *t)
{
    *slot(s, t->seq) = NULL;
    window_advance(s);
}

/* No more output of `s` is needed. RUNNING and PENDING tickets are freed when they come back. */
static void cut_stage_locked(hr_stage *s, hr_queue *garbage)
{
    hr__assert_stage_locked(s);
    s->cut = true;
    s->in.at_block_part = s->in.n_block_parts;
    for (int64_t q = s->window.head_seq; q < s->window.next_seq; q++) {
        hr_ticket *t = *slot(s, q);

        if (!t)
            continue;
        *slot(s, q) = NULL;
        t->dropped = true;
        if (t->state == HR_TICKET_READY || t->state == HR_TICKET_DONE) {
            t->next_dropped = s->run->dropped;
            s->run->dropped = t;
        }
    }
    s->window.head_seq = s->window.next_seq;
    while (s->in.items.n) {
        hr_item item;

        hr__queue_pop(&s->in.items, &item);
        if (hr__queue_push(garbage, s->run->account, item, NULL))
            continue; /* without memory for the list hr__queue_push has freed it */
    }
}

static bool feeds(const hr_stage *from, const hr_stage *to)
{
    for (; from; from = from->next)
        if (from == to)
            return true;
    return false;
}

static void cut_above_locked(hr_stage *s, hr_queue *garbage)
{
    hr__assert_stage_locked(s);
    for (int i = 0; i < s->run->n_stages; i++)
        if (feeds(s->run->stages[i], s) && !s->run->stages[i]->cut)
            cut_stage_locked(s->run->stages[i], garbage);
}

/* Passes one item through the stream operator, if there is one. Lock not held. Takes marker and table. */
static hr_status pass(hr_stage *s, int thread, hr_marker *marker, hr_table *table, hr_error *err)
{
    hr_op_state *o = s->gate.stream;
    hr_call_clock clock;
    hr_status st = HR_OK;

    if (!o) {
        if (marker) {
            hr__marker_drop(s->gate.marker);
            s->gate.marker = marker;
        }
        if (table) {
            hr_item item = { .table = table, .marker = s->gate.marker };

            s->gate.marker = NULL;
            st = hr__queue_push(&s->gate.staged, s->run->account, item, err);
        }
        return st;
    }
    s->gate.task.thread = thread;
    if (marker && o->run.op->cls->marker)
        HR_GO(o->run.op->cls->marker(o->run.op, &s->gate.task, marker, err));
    else
        hr__marker_drop(marker);
    if (!table || s->gate.enough)
        goto done;
    clock = hr__timing_begins(&o->times);
    hr__op_stall(o);
    st = o->run.op->cls->push(o->run.op, &s->gate.task, table, err);
    atomic_fetch_add_explicit(&o->rows_in, table->n_rows, memory_order_relaxed);
    hr__timing_ends(s->run, &o->times, &clock, hr__op_label(o), thread, table->n_rows);
done:
    hr_table_unref(table);
    return st;
}

/* Moves the staged items to the next stage, or to the consumer. */
static hr_status deliver_locked(hr_stage *s, hr_queue *garbage, hr_error *err)
{
    hr_run *r = s->run;
    hr_queue *to = s->next ? &s->next->in.items : &r->out;
    hr_item item;

    hr__assert_stage_locked(s);
    if (s->gate.staged.n)
        r->watch.moved_ns = hr__clock_ns();
    while (hr__queue_pop(&s->gate.staged, &item)) {
        if (!s->next && item.table) {
            r->counts.tables_out++;
            r->counts.rows_out += item.table->n_rows;
            if (r->options.small_for || r->threads.ahead.on)
                r->out_table_bytes = hr__table_bytes_used(item.table);
            if (!r->first_table_ns)
                r->first_table_ns = hr__clock_ns() - r->started_ns;
        }
        item.input = s->input_of_next;
        HR_TRY(hr__queue_push(s->next && s->next->cut ? garbage : to, r->account, item, err));
    }
    if (!s->next)
        hr__run_notify_locked(r);
    return HR_OK;
}

static hr_status end_stage_locked(hr_stage *s, hr_error *err)
{
    hr_item end = { .input = s->input_of_next, .ends = true };

    hr__assert_stage_locked(s);
    s->ended = true;
    if (!s->next) {
        s->run->out_ended = true;
        hr__run_notify_locked(s->run);
        return HR_OK;
    }
    s->next->in.n_ended++;
    if (tells_inputs(s->next))
        return s->next->cut ? HR_OK : hr__queue_push(&s->next->in.items, s->run->account, end, err);
    s->next->in.current++;
    return HR_OK;
}

/* Counts the block parts of the operator: the next stage takes them. Lock not held. */
static hr_status count_block_parts(hr_stage *s, int64_t *n, hr_error *err)
{
    const hr_op *op = s->gate.stream->run.op;

    *n = 0;
    return op->cls->block_parts ? op->cls->block_parts(op, &s->gate.task, n, err) : HR_OK;
}

/* Several inputs: the next input is the chosen one, or any other if that has ended. */
static void turn_locked(hr_stage *s)
{
    int i;

    hr__assert_stage_locked(s);
    if (!tells_inputs(s))
        return;
    i = s->gate.wanted % s->in.n_inputs;
    for (int k = 0; k < s->in.n_inputs && s->in.ended[i]; k++)
        i = (i + 1) % s->in.n_inputs;
    s->in.current = s->gate.wanted = i;
}

/* The operator has had the last table of an input. */
static hr_status end_input_relocks(hr_stage *s, int input, int thread, hr_error *err)
{
    const hr_op *op = s->gate.stream->run.op;
    hr_status st = HR_OK;

    hr__assert_stage_locked(s);
    s->in.ended[input] = true;
    s->gate.wanted = input + 1;
    hr__run_unlock(s->run);
    s->gate.task.thread = thread;
    s->gate.input = input;
    if (op->cls->ended && !s->gate.enough)
        st = op->cls->ended(op, &s->gate.task, input, err);
    hr__run_lock(s->run);
    return st;
}

/* The stage has no more input: the stream operator finishes. */
static hr_status finish_stage_relocks(hr_stage *s, int thread, hr_queue *garbage, hr_error *err)
{
    hr_run *r = s->run;
    hr_status st = s->cut ? HR_OK : s->in.st;
    int64_t n_block_parts = 0;

    hr__assert_stage_locked(s);
    if (st) { /* all rows before the error have passed on: now the error does */
        hr__error_move(err, &s->in.err);
        return st;
    }
    if (s->gate.stream && !s->gate.finished) {
        const hr_op *op = s->gate.stream->run.op;
        hr_call_clock clock;

        s->gate.finished = true;
        hr__run_unlock(r);
        s->gate.task.thread = thread;
        clock = hr__timing_begins(&s->gate.stream->times);
        if (op->cls->finish)
            st = op->cls->finish(op, &s->gate.task, err);
        hr__timing_ends(r, &s->gate.stream->times, &clock, op->cls->finish ? hr__op_label(s->gate.stream) : NULL,
                        thread, 0);
        if (!st && !s->gate.enough)
            st = count_block_parts(s, &n_block_parts, err);
        hr__run_lock(r);
        HR_TRY(st);
    }
    HR_TRY(deliver_locked(s, garbage, err));
    if (n_block_parts && !s->next->cut) {
        s->next->in.block_parts_of = s->gate.stream;
        s->next->in.n_block_parts = n_block_parts;
    }
    return end_stage_locked(s, err);
}

/* Adds the states of map operators to the marker (takes; NULL is fine). NULL: no memory, so an older marker is used. */
static hr_marker *remember(const hr_stage *s, hr_marker *takes)
{
    for (int i = 0; takes && i < s->n_ops; i++) {
        const hr_op_run *run = &s->ops[i]->run;
        hr_text text = { 0 };

        if (!run->op->cls->remember)
            continue;
        run->op->cls->remember(run->op, run, hr__marker_state(takes, run->index), &text);
        if (text.failed || (text.data && hr__marker_set(takes, run->index, text.data, NULL))) {
            hr__marker_drop(takes);
            takes = NULL;
        }
        hr__text_clear(&text);
    }
    return takes;
}

/* Passes on one item of ticket `t`. */
static hr_status drain_ticket_relocks(hr_stage *s, hr_ticket *t, int thread, hr_queue *garbage, hr_error *err)
{
    hr_run *r = s->run;
    hr_marker *marker = NULL;
    hr_item item = { 0 };
    hr_status st;
    bool ended = false;

    hr__assert_stage_locked(s);
    if (!t->before_passed) {
        t->before_passed = true;
        marker = t->before;
        t->before = NULL;
    }
    s->gate.input = t->input;
    if (hr__queue_pop(&t->out, &item)) {
        hr_marker *own = item.marker ? item.marker : item.table ? hr__ticket_marker(t, item.table) : NULL;

        if (marker)
            hr__marker_drop(own);
        else
            marker = own;
    } else if (t->state == HR_TICKET_DONE) {
        st = t->st;
        ended = t->ends;
        if (st)
            hr__error_move(err, &t->err);
        remove_ticket(s, t);
        t->next_dropped = r->dropped;
        r->dropped = t;
        if (st) {
            hr__marker_drop(marker);
            return st;
        }
    }
    if (!marker && !item.table && !ended)
        return HR_OK;
    if (ended) {
        hr__marker_drop(marker);
        HR_TRY(end_input_relocks(s, s->gate.input, thread, err));
    } else {
        hr__run_unlock(r);
        st = pass(s, thread, remember(s, marker), item.table, err);
        hr__run_lock(r);
        if (st) { /* rows that a push emitted before its error pass on; rows of a failed finish do not */
            hr_status given = deliver_locked(s, garbage, NULL);

            (void)given; /* without memory the rows are lost, and the run fails */
            return st;
        }
    }
    turn_locked(s);
    HR_TRY(deliver_locked(s, garbage, err));
    if (s->gate.enough && !s->cut)
        cut_above_locked(s, garbage);
    return HR_OK;
}

/* The stage ends with an error. Earlier rows are still in the stages downstream: the error follows them, and a stage
 * that has enough rows drops it. No more rows from upstream, and from later inputs of a union, are needed. */
static void fail_stage_locked(hr_stage *s, hr_status st, hr_error *moved, hr_queue *garbage)
{
    hr_run *r = s->run;

    hr__assert_stage_locked(s);
    if (!s->next || r->options.any_order) {
        hr__run_fail_locked(r, st, moved);
        return;
    }
    if (!s->next->cut && !s->next->in.st) {
        s->next->in.st = st;
        hr__error_move(&s->next->in.err, moved);
    }
    for (int i = 0; i < r->n_stages; i++)
        if (r->stages[i] != s->next && feeds(r->stages[i], s->next) && !r->stages[i]->cut)
            cut_stage_locked(r->stages[i], garbage);
    s->ended = true;
}

static void drain(hr_stage *s, int thread)
{
    hr_run *r = s->run;
    hr_queue garbage = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_ticket *dropped, *t;
    hr_status st = HR_OK;

    hr__run_lock(r);
    while (!st && !r->st && !r->cancelled && !s->ended && hr__next_accepts(s) && hr__gate_accepts(s)) {
        if ((t = drainable(s)))
            st = drain_ticket_relocks(s, t, thread, &garbage, &err);
        else if (!has_tickets(s) && !s->window.taking && inputs_done(s))
            st = finish_stage_relocks(s, thread, &garbage, &err);
        else
            break;
    }
    s->gate.draining = false;
    if (st)
        fail_stage_locked(s, st, &err, &garbage);
    dropped = r->dropped;
    r->dropped = NULL;
    hr__run_unlock(r);
    hr__tickets_free(dropped);
    hr__queue_clear(&garbage);
    hr_error_clear(&err);
}

/* --- step */

static void settle_locked(hr_ticket *t, hr_status st)
{
    hr_run *r = t->stage->run;

    hr__assert_locked(r);
    if (st == HR_PENDING && !t->resume_early) {
        t->state = HR_TICKET_PENDING;
        r->n_pending++;
        return;
    }
    t->resume_early = false;
    if (st && st != HR_PENDING) {
        t->st = st;
        t->state = HR_TICKET_DONE;
    } else
        t->state = st == HR_OK && hr__ticket_finished(t) ? HR_TICKET_DONE : HR_TICKET_READY;
}

static void step(work *w, int thread)
{
    hr_run *r = w->stage->run;
    hr_ticket *t = w->ticket;
    hr_status st = hr__ticket_step(t, thread);
    bool drop;

    hr__account_release(r->account, w->reserved);
    hr__run_lock(r);
    settle_locked(t, st);
    hr__ticket_stops_locked(t);
    drop = t->dropped && t->state != HR_TICKET_PENDING;
    hr__run_unlock(r);
    if (drop)
        hr__ticket_free(t);
}

/* --- take */

static void add_ticket_locked(hr_stage *s, hr_ticket *t)
{
    hr__assert_stage_locked(s);
    t->seq = s->window.next_seq++;
    *slot(s, t->seq) = t;
    s->run->counts.tickets++;
}

/* Puts a ticket that the taking thread made, or its error, into the window. */
static void took_locked(hr_stage *s, hr_ticket *t, hr_status st, hr_error *err)
{
    hr__assert_stage_locked(s);
    s->window.taking = false;
    if (st && !t) {
        s->leaf.done = true;
        hr__run_fail_locked(s->run, st, err); /* no memory for a ticket with the error */
    } else if (!t)
        s->leaf.done = true;
    else if (s->cut) {
        t->next_dropped = s->run->dropped;
        s->run->dropped = t;
    } else
        add_ticket_locked(s, t);
}

static void take(hr_stage *s)
{
    hr_run *r = s->run;
    hr_error err = HR_ERROR_INIT;
    hr_ticket *t = NULL, *dropped;
    hr_status st = s->cache ? hr__row_leaf_take(s, &t, &err) : hr__stage_take(s, &t, &err);

    if (st == HR_PENDING) { /* files are on their way */
        hr__run_lock(r);
        s->window.taking = false;
        hr__run_unlock(r);
        return;
    }
    if (st && !hr__ticket_new(s, &t, NULL)) { /* the error waits for its turn */
        t->st = st;
        t->state = HR_TICKET_DONE;
        hr__error_move(&t->err, &err);
    }
    hr__run_lock(r);
    if (st)
        s->leaf.done = true;
    took_locked(s, t, st, &err);
    dropped = r->dropped;
    r->dropped = NULL;
    hr__run_unlock(r);
    hr__tickets_free(dropped);
    hr_error_clear(&err);
}

static void fill_locked(hr_stage *s, hr_ticket *t, const hr_item *item)
{
    t->in = item->table;
    t->before = item->marker;
    t->input = item->input;
    t->ends = item->ends;
    if (item->ends)
        return;
    t->begin = item->table->origin ? hr__origin_at(item->table->origin, 0) : (hr_coord){ 0 };
    t->ordinal = s->window.n_taken++;
    t->n_read = item->table->n_rows;
    t->estimate = hr__table_bytes_used(item->table);
}

static void begin_block_part_locked(hr_stage *s, hr_ticket *t)
{
    hr__assert_stage_locked(s);
    t->block_parts_of = s->in.block_parts_of;
    t->block_part = s->in.at_block_part++;
    t->begin = (hr_coord){ .instance = s->in.block_parts_of->instance };
    t->ordinal = s->window.n_taken++;
    t->estimate = s->run->step_bytes + s->run->step_bytes / 2;
}

static void next(hr_stage *s)
{
    hr_run *r = s->run;
    hr_error err = HR_ERROR_INIT;
    hr_ticket *t = NULL;
    hr_item item = { 0 };
    hr_status st = hr__ticket_new(s, &t, &err);

    hr__run_lock(r);
    if (!st && !hr__queue_pop(&s->in.items, &item) && !block_parts_left(s)) { /* cut meanwhile */
        s->window.taking = false;
        hr__run_unlock(r);
        hr__ticket_free(t);
        return;
    }
    if (!st && (item.table || item.ends))
        fill_locked(s, t, &item);
    else if (!st)
        begin_block_part_locked(s, t);
    took_locked(s, t, st, &err);
    hr__run_unlock(r);
    hr_error_clear(&err);
}

/* The ticket that ends a stage. */
static void close_stage(hr_stage *s)
{
    hr_run *r = s->run;
    hr_error err = HR_ERROR_INIT;
    hr_ticket *t = NULL;
    hr_status st = hr__ticket_new(s, &t, &err);

    if (!st)
        t->closes = t->input_done = true;
    hr__run_lock(r);
    s->closed = true;
    took_locked(s, t, st, &err);
    hr__run_unlock(r);
    hr_error_clear(&err);
}

bool hr__run_work(void *run, int thread)
{
    hr_run *r = run;
    work w = { NOTHING, NULL, NULL, 0 };
    bool ready_due;

    hr__run_lock(r);
    if (!r->closed && !r->cancelled && !r->st && thread < r->n_slots && hr__run_working(r) < hr__run_threads(r))
        w = choose_locked(r);
    r->n_active += w.kind != NOTHING;
    r->n_helping += w.kind == HELP;
    hr__look_locked(r, w.kind == NOTHING);
    hr__run_unlock(r);
    if (!w.kind)
        return false;
    hr__pool_wake(); /* one more thread may find other work */
    hr__reads_stop_by(&r->stop);
    if (w.kind == HELP)
        hr__do_shares(r);
    else if (w.kind == DRAIN)
        drain(w.stage, thread);
    else if (w.kind == STEP)
        step(&w, thread);
    else if (w.kind == TAKE)
        take(w.stage);
    else if (w.kind == CLOSE)
        close_stage(w.stage);
    else
        next(w.stage);
    hr__reads_stop_by(NULL);
    hr__run_lock(r);
    ready_due = r->ready_due;
    r->ready_due = false;
    r->n_helping -= w.kind == HELP;
    if (--r->n_active == 0)
        hr__cond_broadcast(&r->idle);
    hr__run_unlock(r);
    if (ready_due && r->options.ready)
        r->options.ready(r->options.ready_context);
    hr__pool_wake(); /* this may have made work possible */
    return true;
}
