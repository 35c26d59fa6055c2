/* run.c - one run from start to close, from the consumer's side.
 *
 * start: rewrite, build the stages, check that the floors fit the budget, start the operators, seek, attach to the
 * pool. close: detach from the pool, cancel suspended tickets so that they resume, wait until no thread works for the
 * run, then free from upstream to downstream. The struct itself lives until the last hr_resume is freed. */
#include "exec/run.h"

#include "io/http/remote.h"

#include <inttypes.h>

#define MAX_STEP_BYTES (4 << 20)
#define MIN_STEP_BYTES (256 << 10)

/* --- start */

/* An inline call waits, which only the consumer's thread can serve. */
static void notify(void *context)
{
    hr_run *r = context;

    hr__run_lock(r);
    r->inline_waiting = true;
    hr__cond_broadcast(&r->consumer);
    hr__run_unlock(r);
    if (r->options.ready)
        r->options.ready(r->options.ready_context);
    if (r->options.outer)
        notify(r->options.outer);
}

static int64_t floor_bytes(const hr_run *r)
{
    int64_t n = 0;

    for (int i = 0; i < r->n_stages; i++)
        if (r->stages[i]->scan) /* every lane has a reader at work */
            n = HR_MAX(n, hr__scan_floor_bytes(r->stages[i]->scan) * HR_MAX(1, r->stages[i]->n_lanes));
    for (int i = 0; i < r->n_ops; i++)
        if (r->ops[i]->run.op->cls->floor_bytes)
            n += r->ops[i]->run.op->cls->floor_bytes(r->ops[i]->run.op);
    return n;
}

/* Operators that keep rows get half of the free memory; the other half is for tables between operators. */
static void share_out(hr_run *r, int64_t limit)
{
    int64_t others = hr_memory_used() - hr__pool_bytes();
    int n_blocks = 0;

    limit = HR_MAX(limit / 4, HR_MIN(limit, hr_memory_limit() - others));

    for (int i = 0; i < r->n_ops; i++)
        n_blocks += r->ops[i]->run.op->cls->kind == HR_OP_BLOCK;
    for (int i = 0; i < r->n_ops; i++) {
        r->ops[i]->run.allowance = limit / 2 / HR_MAX(1, n_blocks);
        r->ops[i]->run.step_bytes = r->step_bytes;
    }
}

/* Names for the trace, as statistics have them. Without memory an operator keeps the name of its class. */
static void label_ops(hr_run *r)
{
    for (int i = 0; i < r->n_ops; i++) {
        const hr_op *op = r->ops[i]->run.op;
        hr_text text = { 0 };

        if (op->cls->describe)
            op->cls->describe(op, &text);
        if (text.data && !text.failed)
            r->ops[i]->label = hr__strdup(r->account, text.data);
        hr__text_clear(&text);
    }
}

/* A thread that sorts a table holds about six times its bytes: it comes in, its keys and their order, it goes out. All
 * threads together get half of the limit. */
static int64_t step_bytes(const hr_run *r, int64_t limit)
{
    int n_lanes = 1;

    for (int i = 0; i < r->n_stages; i++)
        n_lanes = HR_MAX(n_lanes, r->stages[i]->n_lanes);
    limit /= HR_MAX(32 * n_lanes, 2 * 6 * r->threads.tuner.most);
    return HR_MAX(MIN_STEP_BYTES, HR_MIN(MAX_STEP_BYTES, limit));
}

static hr_status check_budget(hr_run *r, hr_error *err)
{
    int64_t limit = hr__account_limit(r->account), need = floor_bytes(r) + (1 << 20);

    if (limit < need)
        return hr_error_set(err, HR_BUDGET, "the plan needs at least %" PRId64 " bytes, the memory limit is %" PRId64,
                            need, limit);
    r->step_bytes = step_bytes(r, limit);
    share_out(r, limit);
    return HR_OK;
}

static hr_status start_ops(hr_run *r, hr_error *err)
{
    for (int i = 0; i < r->n_ops; i++) {
        hr_op_state *o = r->ops[i];

        o->run.notify = notify;
        o->run.notify_context = r;
        o->run.other_code = r->options.other_code;
        if (o->run.op->cls->start)
            HR_TRY(o->run.op->cls->start(o->run.op, &o->run, err));
        o->started = true;
        o->holds = o->run.op->cls->kind == HR_OP_BLOCK;
        hr__op_holds(o->holds);
    }
    return HR_OK;
}

static hr_status build(hr_run *r, hr_plan *p, const hr_run_options *options, hr_error *err)
{
    hr_trace *trace = NULL;

    r->options = *options;
    r->options.from = NULL;
    if (r->options.prefetch <= 0)
        r->options.prefetch = 1;
    r->n_instances = r->options.first_instance;
    r->out_table_bytes = -1;
    r->pid = hr__pid();
    r->n_slots = hr__pool_slots();
    r->started_ns = r->watch.at_ns = r->watch.moved_ns = hr__clock_ns();
    r->watch.began_cpu_ns = hr__process_cpu_ns();
    hr__process_kernel(&r->watch.began_kernel_ns, &r->watch.began_faults);
    r->watch.began_machine_ns = options->is_trial ? 0 : hr__machine_lately(NULL);
    r->watch.began_throttled = hr__network_throttled();
    hr__network_begins(&r->began_network);
    if (!(r->account = hr__account_new("run", options->outer ? options->outer->account : NULL, options->memory_limit)))
        return hr__error_memory(err, "run", 64);
    HR_TRY(hr__plan_rewrite(p, &r->plan, err));
    if (!options->is_trial)
        HR_TRY(hr__trace_new(options->trace_path, r->account, &trace, err));
    r->trace = trace;
    HR_TRY(hr__run_build(r, err));
    label_ops(r);
    return HR_OK;
}

static hr_status start(hr_run *r, const hr_run_options *options, hr_error *err)
{
    HR_TRY(check_budget(r, err));
    HR_TRY(start_ops(r, err));
    if (options->from)
        HR_TRY(hr__run_restore(r, options->from, err));
    r->client = (hr_pool_client){ .work = hr__run_work, .context = r };
    HR_TRY(hr__pool_attach(&r->client, err));
    hr__pool_grow(hr__run_threads(r));
    return HR_OK;
}

hr_status hr__run_new(hr_plan *p, const hr_run_options *options, hr_run **out, hr_error *err)
{
    hr_run *r = hr__zalloc(NULL, sizeof *r);
    hr_status st;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, "run", sizeof *r);
    atomic_init(&r->refs, 1);
    hr__mutex_init(&r->lock);
    hr__cond_init(&r->consumer);
    hr__cond_init(&r->idle);
    hr__cond_init(&r->shares_done);
    if ((st = build(r, p, options, err))) {
        hr__run_close(r);
        return st;
    }
    *out = r;
    return HR_OK;
}

hr_status hr__run_start(hr_plan *p, const hr_run_options *options, hr_run **out, hr_error *err)
{
    hr_status st;

    HR_TRY(hr__run_new(p, options, out, err));
    if ((st = start(*out, options, err))) {
        hr__run_close(*out);
        *out = NULL;
    }
    return st;
}

/* --- next */

static bool has_news(const hr_run *r) { return r->out.n || r->out_ended || r->st || r->cancelled || r->inline_waiting; }

static hr_status check_pid(const hr_run *r, hr_error *err)
{
    if (r->pid == hr__pid())
        return HR_OK;
    return hr_error_set(err, HR_INVALID,
                        "this run belongs to process %d, and was inherited by a fork: start a new one here", r->pid);
}

static void wait_for_news(hr_run *r, int timeout_ms)
{
    int64_t begin = hr__clock_ns(), left = (int64_t)timeout_ms * 1000000, end;

    if (!has_news(r))
        hr__hungry_locked(r, true);
    while (!has_news(r) && (timeout_ms < 0 || left > 0)) {
        if (timeout_ms < 0)
            hr__run_wait(r, &r->consumer);
        else
            hr__run_wait_ns(r, &r->consumer, left);
        left = (int64_t)timeout_ms * 1000000 - (hr__clock_ns() - begin);
    }
    end = hr__clock_ns();
    r->consumer_wait_ns += end - begin;
    hr__trace_consumer(r->trace, begin, end);
}

static hr_status next_locked(hr_run *r, hr_item *item, hr_error *err)
{
    if (r->cancelled)
        return hr_error_set(err, HR_CANCELLED, "the run was stopped");
    if (hr__queue_pop(&r->out, item))
        return HR_OK;
    if (r->st) {
        if (err) {
            hr_error_set(err, r->st, "%s", r->err.text);
            hr_error_set_detail(err, r->err.detail, r->err.detail_bytes);
        }
        return r->st;
    }
    if (r->out_ended)
        return HR_OK;
    r->inline_waiting = false;
    return HR_PENDING;
}

/* Whether a thread should make more tables. Where many may be ahead it begins when half of them are left. */
static bool wants_tables(const hr_run *r)
{
    int may = hr__run_ahead(r);

    return r->out.n <= may / 2 || (r->out.n < may && r->out.n < r->threads.ahead.tuner.depth);
}

hr_status hr__run_next(hr_run *r, int timeout_ms, hr_table **out, hr_marker **marker, hr_error *err)
{
    hr_item item = { 0 };
    bool has_room, moved = false;
    hr_status st;

    *out = NULL;
    if (marker)
        *marker = NULL;
    HR_TRY(check_pid(r, err));
    hr__run_lock(r);
    r->watch.asked = true;
    if (timeout_ms != 0)
        wait_for_news(r, timeout_ms);
    st = next_locked(r, &item, err);
    hr__hungry_locked(r, st == HR_PENDING);
    if (item.table) {
        hr__took_locked(r);
        moved = hr__threads_look_locked(r);
    }
    has_room = wants_tables(r);
    hr__run_unlock(r);
    if (moved)
        hr__threads_moved(r);
    if (item.table && has_room)
        hr__pool_wake();
    *out = item.table;
    if (marker)
        *marker = item.marker;
    else
        hr__marker_drop(item.marker);
    return st;
}

/* --- end */

void hr__run_cancel(hr_run *r)
{
    hr__run_lock(r);
    r->cancelled = true;
    atomic_store(&r->stop, true);
    hr__cond_broadcast(&r->consumer);
    hr__run_unlock(r);
    if (r->options.ready)
        r->options.ready(r->options.ready_context);
}

static void cancel_ops(hr_run *r)
{
    for (int i = 0; i < r->n_ops; i++)
        if (r->ops[i]->started && r->ops[i]->run.op->cls->cancel)
            r->ops[i]->run.op->cls->cancel(r->ops[i]->run.op, &r->ops[i]->run);
}

static void wait_until_idle(hr_run *r)
{
    hr__run_lock(r);
    while (r->n_active || r->n_pending) {
        hr__run_unlock(r);
        hr__waits_cancel(r);
        hr__row_leaf_cancel(r);
        cancel_ops(r); /* again: a ticket that was running may be suspended since then */
        hr__run_lock(r);
        if (r->n_active || r->n_pending)
            hr__run_wait_ns(r, &r->idle, 10000000);
    }
    hr__run_unlock(r);
}

void hr__op_state_free(hr_run *r, hr_op_state *o)
{
    const hr_op_class *cls = o->run.op->cls;

    for (int i = 0; o->thread_states && i < r->n_slots; i++)
        if (o->thread_states[i] && cls->thread_clear)
            cls->thread_clear(o->run.op, &o->run, o->thread_states[i]);
    hr__op_holds(-o->holds);
    if (o->started && cls->stop)
        cls->stop(o->run.op, &o->run);
    if (o->is_ours)
        hr__op_unref((hr_op *)o->run.op);
    hr__free(o->thread_states);
    hr__free(o->label);
    hr__account_unref(o->run.account);
    hr__free(o);
}

static void free_stage(hr_stage *s)
{
    for (int64_t q = s->window.head_seq; s->window.tickets && q < s->window.next_seq; q++)
        hr__ticket_free(s->window.tickets[q % s->window.cap]);
    hr__task_end(&s->gate.task);
    hr__queue_clear(&s->in.items);
    hr__queue_clear(&s->gate.staged);
    hr__marker_drop(s->gate.marker);
    hr_error_clear(&s->in.err);
    hr__stage_close_files(s);
    hr__stage_forget_begun(s);
    hr__row_leaf_free(s);
    hr__free(s->order.files);
    hr_expr_unref(s->leaf.own_filter);
    hr__free(s->in.ended);
    hr__free(s->window.tickets);
    hr__free(s->ops);
    hr__free(s);
}

bool hr__run_traces(const hr_run *r) { return hr__trace_writes(r->trace); }
void hr__run_trace_stats(hr_run *r, const char *stats) { hr__trace_stats(r->trace, stats); }

void hr__run_trace_rank(hr_run *r, int rank, const char *name, int64_t begin_ns, int64_t end_ns)
{
    if (hr__trace_writes(r->trace))
        hr__trace_rank(r->trace, rank, name, begin_ns, end_ns);
}

hr_status hr__run_watch(hr_run *r, int64_t zero_ns, hr_error *err)
{
    hr_trace *t = NULL, *none = NULL;

    if (r->trace) {
        hr__trace_watch(r->trace, zero_ns);
        return HR_OK;
    }
    HR_TRY(hr__trace_watch_new(r->account, zero_ns, &t, err));
    if (!atomic_compare_exchange_strong(&r->trace, &none, t))
        hr__trace_close(t, false);
    return HR_OK;
}

hr_status hr__run_news(hr_run *r, hr_text *out, hr_error *err)
{
    return r->trace ? hr__trace_news(r->trace, out, err) : HR_OK;
}

void hr__run_close(hr_run *r)
{
    if (!r)
        return;
    if (r->pid != hr__pid())
        return; /* a forked child has no threads of the run; its memory is a copy of the parent's */
    hr__run_cancel(r);
    hr__run_lock(r);
    r->closed = true;
    hr__run_unlock(r);
    cancel_ops(r);
    hr__pool_detach(&r->client);
    wait_until_idle(r);
    hr__trace_close(r->trace, r->watch.asked);
    r->trace = NULL;
    hr__tickets_free(r->dropped);
    for (int i = 0; i < r->n_stages; i++)
        free_stage(r->stages[i]);
    for (int i = 0; i < r->n_ops; i++)
        hr__op_state_free(r, r->ops[i]);
    hr__queue_clear(&r->out);
    hr__free(r->stages);
    hr__free(r->arenas);
    hr__free(r->ops);
    r->arenas = NULL;
    r->n_arenas = r->cap_arenas = 0;
    r->stages = NULL;
    r->ops = NULL;
    r->n_stages = r->n_ops = 0;
    hr_plan_unref(r->plan);
    hr__run_unref(r);
}

/* --- what is left to do */

bool hr__run_reads(hr_run *r)
{
    bool reads = false;

    hr__run_lock(r);
    for (int i = 0; i < r->n_stages && !r->out_ended; i++)
        reads = reads || ((r->stages[i]->scan || r->stages[i]->cache) && !r->stages[i]->leaf.done &&
                          !r->stages[i]->cut && !r->stages[i]->ended);
    hr__run_unlock(r);
    return reads;
}

bool hr__run_has_table(hr_run *r)
{
    bool has;

    hr__run_lock(r);
    has = r->out.n > 0;
    hr__run_unlock(r);
    return has;
}

bool hr__run_keeps_rows(const hr_run *r)
{
    for (int i = 0; i < r->n_ops; i++)
        if (r->ops[i]->run.op->cls->kind == HR_OP_BLOCK)
            return true;
    return false;
}

bool hr__run_fits_twice(const hr_run *r)
{
    return hr_memory_used() - hr__pool_bytes() + hr__account_peak(r->account) <= hr__account_limit(r->account);
}
