/* observe.c - what the dispatcher records of a run: times, queues, and what a waiting consumer waits for.
 *
 * The dispatcher calls one function per event (run.h lists them); operators record nothing. A trace hangs on the same
 * functions. Clocks are read at these hand-overs alone, and are CLOCK_MONOTONIC.
 *
 * 1. A *look* (hr__look_locked) comes after each choice of work, when a ticket resumes, and when the consumer begins or
 *    ends to wait. The time since the last look is added to the state that the last look found: what each stage does or
 *    waits for, and, while the consumer is *hungry*, the cause. So all times are exact up to the events between looks.
 * 2. The order of output is canonical, so a hungry consumer waits for one ticket: the oldest of the last stage that has
 *    one. What that ticket waits for is the cause. A stage whose window has room and that has no input is not the limit
 *    of the throughput, whatever its oldest ticket does: then the cause is that of the stage before it.
 * 3. The CPU clock of a thread costs a system call: calls of operators that are short read it once in SAMPLE calls.
 * 4. A *mark* copies all times: at the first table that the consumer took, and when the run is warm. Times since a mark
 *    leave out the start.
 *
 * All of it is guarded by run->lock, but the counters of hr_op_state, which are relaxed atomics.
 *
 * Tests: test_observe.c, test_verdicts.py. */
#include "exec/run.h"

#include "io/http/remote.h"

#define SAMPLE 16           /* of short calls one in so many reads the CPU clock */
#define LONG_CALL_NS 100000 /* calls of this mean length all read it */
#define MACHINE_EACH_NS 20000000
#define MANY_STAGES 64       /* of a union of many inputs: a look at all of them costs microseconds, */
#define MANY_LOOK_NS 1000000 /* so looks are this far apart, and times as inexact */

/* ------------------------------------------------------------------------------------------------------ calls */

static bool reads_cpu(const hr_call_times *c)
{
    int64_t n = atomic_load_explicit(&c->calls, memory_order_relaxed);

    return n % SAMPLE == 0 || atomic_load_explicit(&c->busy_ns, memory_order_relaxed) / n >= LONG_CALL_NS;
}

hr_call_clock hr__timing_begins(const hr_call_times *c)
{
    return (hr_call_clock){ .cpu_ns = reads_cpu(c) ? hr__thread_cpu_ns() : -1, .begin_ns = hr__clock_ns() };
}

void hr__timing_ends(hr_run *r, hr_call_times *c, const hr_call_clock *from, const char *name, int thread, int64_t rows)
{
    int64_t now = hr__clock_ns(), took = now - from->begin_ns;

    atomic_fetch_add_explicit(&c->busy_ns, took, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->calls, 1, memory_order_relaxed);
    if (from->cpu_ns >= 0) {
        atomic_fetch_add_explicit(&c->sampled_cpu_ns, hr__thread_cpu_ns() - from->cpu_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&c->sampled_ns, took, memory_order_relaxed);
    }
    if (name)
        hr__trace_span(r->trace, name, thread, from->begin_ns, now, rows);
}

hr_call_sums hr__call_sums(const hr_call_times *c)
{
    int64_t busy = atomic_load_explicit(&c->busy_ns, memory_order_relaxed);
    int64_t of = atomic_load_explicit(&c->sampled_ns, memory_order_relaxed);
    int64_t cpu = atomic_load_explicit(&c->sampled_cpu_ns, memory_order_relaxed);

    return (hr_call_sums){
        .calls = atomic_load_explicit(&c->calls, memory_order_relaxed),
        .busy_ns = busy,
        .cpu_ns = of > 0 ? (int64_t)((double)busy * HR_MIN((double)cpu / (double)of, 1.0)) : 0,
    };
}

/* --------------------------------------------------------------------------------------------------- what stages do */

static hr_ticket *oldest(const hr_stage *s)
{
    return s->window.head_seq < s->window.next_seq ? s->window.tickets[s->window.head_seq % s->window.cap] : NULL;
}

static bool window_full(const hr_stage *s) { return s->window.next_seq - s->window.head_seq >= s->window.limit; }

static bool input_waits(const hr_stage *s) { return s->in.items.n > 0 || s->in.at_block_part < s->in.n_block_parts; }

static bool gate_works(const hr_stage *s) { return s->gate.draining && s->gate.stream; }

static hr_stage_does what_it_does(const hr_stage *s)
{
    if (s->ended)
        return HR_STAGE_ENDED;
    if (s->watch.n_running || gate_works(s) || s->window.taking)
        return HR_STAGE_WORKS;
    if (!hr__next_accepts(s))
        return HR_STAGE_AWAITS_OUTPUT;
    if (s->watch.n_calling)
        return HR_STAGE_AWAITS_FUNCTION;
    if (s->watch.n_receiving || s->window.awaits || !hr__gate_accepts(s))
        return HR_STAGE_AWAITS_NETWORK;
    if (s->watch.refused)
        return HR_STAGE_AWAITS_MEMORY;
    return oldest(s) || input_waits(s) ? HR_STAGE_AWAITS_THREAD : HR_STAGE_AWAITS_INPUT;
}

/* -------------------------------------------------------------------------------------- what the consumer waits for */

static bool threads_full(const hr_run *r, bool idle)
{
    return hr__run_working(r) >= hr__run_threads(r) || (!idle && hr__pool_n_idle() == 0);
}

static bool no_more_tickets(const hr_stage *s)
{
    if (s->scan)
        return s->leaf.done;
    return !input_waits(s) && (s->in.st || s->in.n_ended >= s->in.n_inputs);
}

static hr_cause cause_of(const hr_stage *s, const hr_ticket *t, bool full)
{
    if (!s->gate.draining && !hr__gate_accepts(s))
        return HR_CAUSE_NETWORK;
    if (t && t->state == HR_TICKET_PENDING)
        return t->receiving ? HR_CAUSE_NETWORK : HR_CAUSE_FUNCTION;
    if (!t && s->window.awaits) /* files that open ahead: open_ahead.c */
        return HR_CAUSE_NETWORK;
    if (full)
        return HR_CAUSE_THREADS;
    if (s->watch.refused)
        return HR_CAUSE_MEMORY;
    if (t && t->state == HR_TICKET_RUNNING)
        return window_full(s) ? HR_CAUSE_TICKET : no_more_tickets(s) ? HR_CAUSE_FEW : HR_CAUSE_HANDOVER;
    return s->window.taking ? HR_CAUSE_OPENING : HR_CAUSE_HANDOVER;
}

static hr_stage *upstream(const hr_stage *s)
{
    for (int i = 0; i < s->run->n_stages; i++)
        if (s->run->stages[i]->next == s && s->run->stages[i]->input_of_next == s->in.current)
            return s->run->stages[i];
    return NULL;
}

/* Threads that could work on more tickets wait for the thread that makes them. */
static hr_cause cause_of_leaf(const hr_stage *s, const hr_ticket *t, bool full)
{
    bool waits_for_more = !t || (t->state == HR_TICKET_RUNNING && !window_full(s) && !full);

    return s->window.taking && waits_for_more ? HR_CAUSE_OPENING : cause_of(s, t, full);
}

/* Rule 2. Falls back to the last stage that has a ticket. */
static hr_cause find_cause(hr_run *r, bool idle, hr_stage **at)
{
    bool full = threads_full(r, idle);
    hr_stage *with_ticket = NULL;

    for (hr_stage *s = r->n_stages ? r->stages[r->n_stages - 1] : NULL; s; s = upstream(s)) {
        hr_ticket *t = oldest(s);

        *at = s;
        if (gate_works(s))
            return hr__has_shares_locked(r) || r->n_helping > 0 ? HR_CAUSE_THREADS : HR_CAUSE_SERIAL;
        if (t && !with_ticket)
            with_ticket = s;
        if (s->scan) {
            if (t || !s->leaf.done)
                return cause_of_leaf(s, t, full);
            break;
        }
        if (t && (window_full(s) || no_more_tickets(s)))
            return cause_of(s, t, full);
        if (input_waits(s))
            return cause_of(s, t, full);
    }
    *at = with_ticket;
    return with_ticket ? cause_of(with_ticket, oldest(with_ticket), full) : HR_CAUSE_HANDOVER;
}

/* The oldest ticket, whose time this is, may hold up all others: the one that did so longest is kept. */
static void blame_ticket(hr_stage *s, hr_cause cause, int64_t ns)
{
    hr_stage_watch *w = &s->watch;
    hr_ticket *t = oldest(s);

    if (!t || (cause != HR_CAUSE_TICKET && cause != HR_CAUSE_FEW && cause != HR_CAUSE_FUNCTION))
        return;
    t->blamed_ns += ns;
    if (t->blamed_ns > w->held.blamed_ns)
        w->held = (hr_slow_ticket){ t->begin, t->n_taken, t->busy_ns, t->blamed_ns };
}

void hr__look_locked(hr_run *r, bool idle)
{
    hr_run_watch *w = &r->watch;
    int64_t now = hr__clock_ns(), dt = now - w->at_ns;

    hr__assert_locked(r);
    if (r->n_stages > MANY_STAGES && dt < MANY_LOOK_NS)
        return;
    w->at_ns = now;
    w->sums.active_ns += w->n_active * dt;
    w->sums.out_ns += w->n_out * dt;
    if (w->hungry) {
        w->sums.hungry_ns += dt;
        w->hungry_since_taken_ns += dt;
        if (w->of) {
            w->of->watch.times.cause_ns[w->cause] += dt;
            blame_ticket(w->of, w->cause, dt);
        }
    }
    for (int i = 0; i < r->n_stages; i++) {
        hr_stage *s = r->stages[i];
        hr_stage_watch *k = &s->watch;

        k->times.does_ns[k->does] += dt;
        k->times.queue_ns += k->n_queue * dt;
        k->times.window_ns += k->n_window * dt;
        k->does = what_it_does(s);
        k->n_queue = s->in.items.n;
        k->n_window = s->window.next_seq - s->window.head_seq;
    }
    w->n_active = r->n_active;
    w->n_out = r->out.n;
    if (w->hungry)
        w->cause = find_cause(r, idle, &w->of);
}

void hr__hungry_locked(hr_run *r, bool hungry)
{
    if (r->watch.hungry == hungry)
        return;
    hr__look_locked(r, false);
    r->watch.hungry = hungry;
    if (hungry)
        r->watch.cause = find_cause(r, false, &r->watch.of);
    else
        r->watch.hungry_since_taken_ns = 0;
}

/* --------------------------------------------------------------------------------------------------------- tickets */

void hr__ticket_begins_locked(hr_ticket *t)
{
    t->stage->watch.n_running++;
    t->stage->watch.refused = false;
    t->step_ns = hr__clock_ns();
    t->stage->run->watch.moved_ns = t->step_ns;
}

/* The state after the step is set. */
void hr__ticket_stops_locked(hr_ticket *t)
{
    hr_stage_watch *w = &t->stage->watch;
    int64_t now = hr__clock_ns(), took = now - t->step_ns;

    w->n_running--;
    t->n_taken = t->n_read;
    t->busy_ns += took;
    w->times.ticket_ns += took;
    t->stage->run->watch.moved_ns = now;
    if (t->state == HR_TICKET_PENDING) {
        t->pending_since = now;
        w->n_calling += !t->receiving;
        w->n_receiving += t->receiving;
        return;
    }
    if (t->state != HR_TICKET_DONE)
        return;
    w->times.tickets++;
    w->times.ticket_rows += t->n_taken;
    if (t->busy_ns > w->longest.busy_ns)
        w->longest = (hr_slow_ticket){ t->begin, t->n_taken, t->busy_ns, t->blamed_ns };
}

void hr__ticket_resumes_locked(hr_ticket *t, hr_op_state *op)
{
    hr_stage_watch *w = &t->stage->watch;
    int64_t waited = hr__clock_ns() - t->pending_since;

    w->n_calling -= !t->receiving;
    w->n_receiving -= t->receiving;
    if (op)
        atomic_fetch_add_explicit(&op->pending_ns, waited, memory_order_relaxed);
    else
        w->times.receiving_ns += waited;
    t->stage->run->watch.moved_ns = t->pending_since + waited;
    hr__trace_pending(t->stage->run->trace, op ? hr__op_label(op) : "network", t->pending_since,
                      t->pending_since + waited);
}

/* ---------------------------------------------------------------------------------------------------------- marks */

static hr_op_sums op_sums(hr_op_state *o)
{
    hr_op_sums sums = { .call = hr__call_sums(&o->times),
                        .rows_in = o->rows_in,
                        .rows_out = o->rows_out,
                        .bytes_out = o->bytes_out,
                        .wait_ns = o->pending_ns };

    if (o->run.op->cls->served)
        o->run.op->cls->served(o->run.op, &o->run, &sums.served);
    return sums;
}

void hr__run_sums_locked(const hr_run *r, hr_run_sums *run)
{
    *run = r->watch.sums;
    run->at_ns = hr__clock_ns();
    run->cpu_ns = hr__process_cpu_ns() - r->watch.began_cpu_ns;
    hr__process_kernel(&run->kernel_ns, &run->faults);
    run->kernel_ns -= r->watch.began_kernel_ns;
    run->faults -= r->watch.began_faults;
    run->throttled = hr__network_throttled() - r->watch.began_throttled;
    for (int i = 0; i < HR_N_IO; i++)
        run->io[i] = hr__account_io_sums(r->account, (hr_io_kind)i);
}

/* Many runs may begin in a second, each for a few rows, and a reading costs up to a millisecond, on machines with many
 * CPUs more. *n_cpus: that it is of; may be NULL. */
int64_t hr__machine_lately(int *n_cpus)
{
    static _Atomic int64_t read_at_ns, busy_ns;
    static atomic_int n_read;
    int64_t now = hr__clock_ns(), ns;
    int n;

    if (now - atomic_load(&read_at_ns) >= MACHINE_EACH_NS) {
        hr__machine_cpu("", &ns, &n);
        atomic_store(&busy_ns, ns);
        atomic_store(&n_read, n);
        atomic_store(&read_at_ns, now);
    }
    if (n_cpus)
        *n_cpus = atomic_load(&n_read);
    return atomic_load(&busy_ns);
}

/* What only marks and views have. */
static int64_t since_began(const hr_run *r, int64_t machine_ns)
{
    return machine_ns && r->watch.began_machine_ns ? machine_ns - r->watch.began_machine_ns : 0;
}

void hr__run_mark(hr_run *r, int mark)
{
    int64_t machine_ns = hr__machine_lately(NULL);

    hr__run_lock(r);
    hr__look_locked(r, false);
    hr__run_sums_locked(r, &r->watch.marks[mark]);
    r->watch.marks[mark].machine_ns = since_began(r, machine_ns);
    for (int i = 0; i < r->n_stages; i++) {
        r->stages[i]->watch.marks[mark] = r->stages[i]->watch.times;
        r->stages[i]->watch.read_marks[mark] = hr__call_sums(&r->stages[i]->counts.reads);
    }
    for (int i = 0; i < r->n_ops; i++)
        r->ops[i]->marks[mark] = op_sums(r->ops[i]);
    hr__run_unlock(r);
}

int64_t hr__run_moved_ns(hr_run *r)
{
    int64_t ns;

    hr__run_lock(r);
    ns = r->watch.moved_ns;
    hr__run_unlock(r);
    return ns;
}

/* ------------------------------------------------------------------------------------------------------------ views */

static void less(int64_t *sums, const int64_t *before, size_t bytes)
{
    for (size_t i = 0; i < bytes / sizeof *sums; i++)
        sums[i] -= before[i];
}

#define LESS(sums, before) less((int64_t *)&(sums), (const int64_t *)&(before), sizeof(sums))

/* NULL: no memory. */
static char *name_of(const hr_op *op)
{
    hr_text t = { 0 };
    char *name;

    if (op->cls->describe)
        op->cls->describe(op, &t);
    name = t.failed ? NULL : hr__strdup(NULL, t.data ? t.data : op->cls->name);
    hr__text_clear(&t);
    return name;
}

/* *out: the name of the file of a ticket that begins there; NULL: not known. False: no memory. */
static bool file_of(const hr_run *r, hr_coord at, char **out)
{
    *out = NULL;
    for (int i = 0; i < r->n_stages && !*out; i++)
        if (r->stages[i]->scan && r->stages[i]->leaf.instance == at.instance &&
            at.file < hr__scan_n_files(r->stages[i]->scan))
            return (*out = hr__strdup(NULL, hr__scan_file_name(r->stages[i]->scan, at.file))) != NULL;
    return true;
}

static bool view_stage(hr_run *r, int i, int mark, hr_stage_view *out)
{
    hr_stage *s = r->stages[i];

    *out = (hr_stage_view){ .is_leaf = s->scan != NULL,
                            .all_taken = no_more_tickets(s),
                            .window = s->window.limit,
                            .sums = s->watch.times,
                            .reads = hr__call_sums(&s->counts.reads),
                            .all_tickets = s->watch.times.tickets,
                            .all_ticket_rows = s->watch.times.ticket_rows,
                            .all_ticket_ns = s->watch.times.ticket_ns,
                            .longest = s->watch.longest,
                            .held = s->watch.held,
                            .rows_read = s->counts.rows_read,
                            .fragments = s->counts.fragments_read,
                            .files = s->counts.files_opened,
                            .fragment_rows = s->counts.fragment_rows,
                            .stored_bytes = s->counts.stored_bytes,
                            .n_running = s->watch.n_running,
                            .n_calling = s->watch.n_calling,
                            .n_receiving = s->watch.n_receiving,
                            .n_queue = s->in.items.n,
                            .n_window = s->window.next_seq - s->window.head_seq,
                            .does = s->watch.does };
    if (mark >= 0) {
        LESS(out->sums, s->watch.marks[mark]);
        LESS(out->reads, s->watch.read_marks[mark]);
    }
    if (oldest(s)) {
        out->oldest = oldest(s)->begin;
        if (!file_of(r, out->oldest, &out->oldest_file))
            return false;
    }
    return file_of(r, out->held.begin, &out->held_file) && file_of(r, out->longest.begin, &out->longest_file);
}

static bool view_op(hr_run *r, int i, int mark, hr_op_view *out)
{
    hr_op_state *o = r->ops[i];

    *out = (hr_op_view){ .name = name_of(o->run.op), .stage = -1, .sums = op_sums(o) };
    out->table_rows = o->run.op->table_rows;
    out->spilled = hr__account_spill_written(o->run.account);
    out->is_block = o->run.op->cls->kind == HR_OP_BLOCK;
    out->calls = o->run.op->cls->served != NULL;
    if (mark >= 0) {
        const hr_served now = out->sums.served;

        LESS(out->sums, o->marks[mark]);
        out->sums.served.servers = now.servers;
        out->sums.served.here = now.here;
        out->sums.served.pieces = now.pieces;
        out->sums.served.piece_bytes = now.piece_bytes;
    }
    for (int k = 0; k < r->n_stages; k++) {
        if (r->stages[k]->gate.stream == o) {
            out->stage = k;
            out->is_serial = true;
        }
        for (int j = 0; j < r->stages[k]->n_ops; j++)
            if (r->stages[k]->ops[j] == o)
                out->stage = k;
    }
    return out->name != NULL;
}

hr_status hr__run_view(hr_run *r, int mark, hr_run_view *out, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t machine_ns;

    *out = (hr_run_view){ 0 };
    machine_ns = hr__machine_lately(&out->n_machine_cpus);
    hr__run_lock(r);
    out->stages = hr__zalloc(NULL, (size_t)HR_MAX(1, r->n_stages) * sizeof *out->stages);
    out->ops = hr__zalloc(NULL, (size_t)HR_MAX(1, r->n_ops) * sizeof *out->ops);
    if (!out->stages || !out->ops)
        HR_FAIL(HR_NO_MEMORY, "stats: no memory for %d operators", r->n_ops);
    hr__look_locked(r, false);
    hr__run_sums_locked(r, &out->sums);
    memcpy(out->all_io, out->sums.io, sizeof out->all_io);
    out->sums.machine_ns = since_began(r, machine_ns);
    if (!out->sums.machine_ns)
        out->n_machine_cpus = 0;
    if (mark >= 0)
        LESS(out->sums, r->watch.marks[mark]);
    else
        out->sums.at_ns -= r->started_ns;
    out->hungry = r->watch.hungry;
    out->cause = r->watch.cause;
    out->cause_stage = -1;
    out->moved_ns = r->watch.moved_ns;
    out->n_active = r->n_active;
    out->n_out = r->out.n;
    out->n_threads = hr__run_threads(r);
    out->n_cpus = hr__cpus_allowed();
    out->used_bytes = hr__account_used(r->account);
    out->limit_bytes = hr__account_limit(r->account);
    out->peak_bytes = hr__account_peak(r->account);
    out->spilled = hr__account_spill_written(r->account);
    for (int i = 0; i < r->n_stages; i++) {
        out->n_stages++;
        if (r->watch.of == r->stages[i])
            out->cause_stage = i;
        if (!view_stage(r, i, mark, &out->stages[i]))
            HR_FAIL(HR_NO_MEMORY, "stats: no memory for a file's name");
    }
    for (int i = 0; i < r->n_ops; i++) {
        out->n_ops++;
        if (!view_op(r, i, mark, &out->ops[i]))
            HR_FAIL(HR_NO_MEMORY, "stats: no memory for an operator's name");
    }
done:
    hr__run_unlock(r);
    if (st)
        hr__run_view_clear(out);
    return st;
}

void hr__run_view_clear(hr_run_view *v)
{
    for (int i = 0; i < v->n_stages; i++) {
        hr__free(v->stages[i].held_file);
        hr__free(v->stages[i].longest_file);
        hr__free(v->stages[i].oldest_file);
    }
    for (int i = 0; i < v->n_ops; i++)
        hr__free(v->ops[i].name);
    hr__free(v->stages);
    hr__free(v->ops);
    *v = (hr_run_view){ 0 };
}
