/* counters.c - the counters of a run as JSON, of which hr_feed_stats is made.
 *
 * Tests: test_run.c, test_observe.c. */
#include "exec/run.h"

#include "io/http/remote.h"
#include "op/write/write.h"

#include <inttypes.h>

/* How much of the stage's input has tickets, from 0 to 1: of its scan, of what the block operator upstream keeps, or of
 * what the stages upstream pass on. */
static double input_taken(const hr_stage *s)
{
    if (s->scan || s->cache)
        return s->leaf.done ? 1 : (double)atomic_load_explicit(&s->counts.taken, memory_order_relaxed) / TAKEN_ALL;
    if (s->estimate.after_block)
        return s->in.n_block_parts ? (double)s->in.at_block_part / (double)s->in.n_block_parts : 0;
    return s->estimate.n ? s->estimate.sum / s->estimate.n : 0;
}

/* How much of its rows a limit at the end of the stage has given, from 0 to 1; 0: there is none. */
static double limit_passed(const hr_stage *s)
{
    const hr_op_state *o = s->gate.stream;
    int64_t most = o && o->run.op->cls->most_rows ? o->run.op->cls->most_rows(o->run.op) : -1;

    return most > 0 ? HR_MIN((double)o->rows_out / (double)most, 1.0) : most == 0;
}

/* How much of the stage's input has passed through, from 0 to 1: tickets under way and tables in its queue have not. */
static double stage_passed(const hr_stage *s)
{
    int64_t waits = s->window.next_seq - s->window.head_seq + s->in.items.n;
    double taken = input_taken(s);

    if (s->cut || s->ended)
        return 1;
    if (waits)
        taken *= (double)s->window.head_seq / (double)(s->window.head_seq + waits);
    return HR_MAX(taken, limit_passed(s));
}

/* The mean over what ends at a block operator and what ends at the output. An estimate falls when more waits than
 * before; what is shown does not. */
static double run_done_locked(hr_run *r)
{
    double sum = 0;
    int n = 0;

    for (int i = 0; i < r->n_stages; i++)
        r->stages[i]->estimate = (hr_stage_estimate){ 0 };
    for (int i = 0; i < r->n_stages; i++) {
        hr_stage *s = r->stages[i];
        double passed = stage_passed(s);

        if (s->next && s->gate.stream && s->gate.stream->run.op->cls->block_parts) {
            s->next->estimate.after_block = true;
        } else if (s->next) {
            s->next->estimate.sum += passed;
            s->next->estimate.n++;
            continue;
        }
        sum += passed;
        n++;
    }
    r->counts.done = HR_MAX(r->counts.done, n ? sum / n : 0);
    return r->counts.done;
}

static const char *slowest_of(const hr_run *r)
{
    long long longest = 0;
    const char *slowest = NULL;

    for (int i = 0; i < r->n_stages; i++)
        longest += hr__call_sums(&r->stages[i]->counts.reads).busy_ns;
    if (longest)
        slowest = "read";
    for (int i = 0; i < r->n_ops; i++) {
        long long busy = hr__call_sums(&r->ops[i]->times).busy_ns + r->ops[i]->pending_ns;

        if (busy > longest) {
            longest = busy;
            slowest = r->ops[i]->run.op->cls->name;
        }
    }
    return slowest;
}

/* The last operators of a write count pieces of files: what goes into the first of them are rows. */
static int64_t rows_made(const hr_run *r)
{
    for (int i = r->n_ops - 1; i >= 0; i--)
        if (r->ops[i]->run.op->cls == &hr__write_cut)
            return r->ops[i]->rows_in;
    for (int i = r->n_ops - 1; i >= 0; i--)
        if (r->ops[i]->rows_out)
            return r->ops[i]->rows_out;
    return 0;
}

void hr__run_counts(hr_run *r, hr_run_counts *out)
{
    hr__run_lock(r);
    *out = r->counts;
    for (int i = 0; i < r->n_stages; i++) {
        out->files_opened += r->stages[i]->counts.files_opened;
        out->fragments_read += r->stages[i]->counts.fragments_read;
        out->rows_read += r->stages[i]->counts.rows_read;
        out->fragments_skipped += r->stages[i]->counts.skipped.fragments;
        out->rows_skipped += r->stages[i]->counts.skipped.rows;
        out->pages_skipped += r->stages[i]->counts.skipped.pages;
        out->bloom_hits += r->stages[i]->counts.skipped.blooms;
        out->bad_rows += r->stages[i]->counts.skipped.bad;
    }
    out->bytes_out = r->n_ops ? r->ops[r->n_ops - 1]->bytes_out : 0;
    out->rows_made = rows_made(r);
    out->done = r->out_ended ? 1 : run_done_locked(r);
    out->slowest = slowest_of(r);
    hr__run_unlock(r);
    for (int i = 0; i < r->n_stages; i++)
        hr__row_leaf_counts(r->stages[i], out);
}

static void print_spill(const hr_account *a, hr_text *out)
{
    hr__text_add(out, ",\"spill_written_bytes\":%" PRId64 ",\"spill_read_bytes\":%" PRId64,
                 hr__account_spill_written(a), hr__account_spill_read(a));
}

static void print_served(hr_op_state *o, hr_text *out)
{
    hr_served s = { 0 };

    o->run.op->cls->served(o->run.op, &o->run, &s);
    hr__text_add(out, ",\"served\":{\"calls\":%" PRId64 ",\"busy_ns\":%" PRId64 ",\"cpu_ns\":%" PRId64, s.calls,
                 s.busy_ns, s.cpu_ns);
    hr__text_add(out, ",\"delayed_ns\":%" PRId64 ",\"queued_ns\":%" PRId64 ",\"lock_ns\":%" PRId64, s.delay_ns,
                 s.queued_ns, s.lock_ns);
    hr__text_add(out, ",\"servers\":%" PRId64 ",\"in_process\":%s", s.servers, s.here ? "true" : "false");
    if (s.pieces)
        hr__text_add(out, ",\"pieces\":%" PRId64 ",\"piece_bytes\":%" PRId64, s.pieces, s.piece_bytes);
    hr__text_add(out, "}");
}

void hr__op_state_print(hr_op_state *o, hr_text *out)
{
    hr_call_sums c = hr__call_sums(&o->times);
    hr_text name = { 0 };

    if (o->run.op->cls->describe)
        o->run.op->cls->describe(o->run.op, &name);
    hr__text_add(out, "{\"name\":");
    hr__text_add_json(out, name.data ? name.data : o->run.op->cls->name);
    hr__text_add(out, ",\"calls\":%lld,\"rows_in\":%lld,\"rows_out\":%lld,\"busy_ns\":%lld,\"wait_ns\":%lld",
                 (long long)c.calls, o->rows_in, o->rows_out, (long long)c.busy_ns, o->pending_ns);
    hr__text_add(out, ",\"cpu_ns\":%" PRId64, c.cpu_ns);
    hr__text_add(out, ",\"bytes_out\":%lld,\"used_bytes\":%" PRId64 ",\"peak_bytes\":%" PRId64, o->bytes_out,
                 hr__account_used(o->run.account), hr__account_peak(o->run.account));
    print_spill(o->run.account, out);
    if (o->run.op->cls->served)
        print_served(o, out);
    if (o->run.op->cls->stats)
        o->run.op->cls->stats(o->run.op, &o->run, out);
    hr__text_add(out, "}");
    hr__text_clear(&name);
}

/* In the order of their numbers; a cache after the operators below it. */
static void print_ops(hr_run *r, hr_text *out)
{
    int64_t begin = out->n;
    int at = 0;

    for (int i = 0; i <= r->n_ops; i++) {
        for (; at < r->n_stages && (i == r->n_ops || hr__row_leaf_is_before(r->stages[at], r->ops[i])); at++)
            if (r->stages[at]->cache)
                hr__row_leaf_print(r->stages[at], out);
        if (i == r->n_ops)
            break;
        hr__op_state_print(r->ops[i], out);
        hr__text_add(out, ",");
    }
    if (!out->failed && out->n > begin)
        out->n--; /* the last comma */
}

void hr__print_classes(const char *name, const int64_t *n, int n_classes, hr_text *out)
{
    int end = n_classes;

    while (end > 0 && !n[end - 1])
        end--;
    hr__text_add(out, ",\"%s\":[", name);
    for (int i = 0; i < end; i++)
        hr__text_add(out, "%s%" PRId64, i ? "," : "", n[i]);
    hr__text_add(out, "]");
}

static void print_io(const char *name, const hr_io_sums *io, hr_text *out)
{
    if (!io->requests)
        return;
    hr__text_add(out, ",\"%s\":{\"requests\":%" PRId64 ",\"bytes\":%" PRId64 ",\"ns\":%" PRId64, name, io->requests,
                 io->bytes, io->ns);
    hr__text_add(out, ",\"first_byte_ns\":%" PRId64, io->first_ns);
    hr__print_classes("by_log2_us", io->by_time, HR_IO_CLASSES, out);
    hr__print_classes("by_log2_kib", io->by_size, HR_IO_CLASSES, out);
    hr__text_add(out, "}");
}

static const char *const does_names[] = {
    [HR_STAGE_AWAITS_INPUT] = "awaits_input",       [HR_STAGE_WORKS] = "works",
    [HR_STAGE_AWAITS_OUTPUT] = "awaits_output",     [HR_STAGE_AWAITS_MEMORY] = "awaits_memory",
    [HR_STAGE_AWAITS_FUNCTION] = "awaits_function", [HR_STAGE_AWAITS_NETWORK] = "awaits_network",
    [HR_STAGE_AWAITS_THREAD] = "awaits_thread",     [HR_STAGE_ENDED] = "ended"
};
static const char *const cause_names[] = { [HR_CAUSE_SERIAL] = "serial",     [HR_CAUSE_THREADS] = "threads",
                                           [HR_CAUSE_TICKET] = "ticket",     [HR_CAUSE_FEW] = "few",
                                           [HR_CAUSE_FUNCTION] = "function", [HR_CAUSE_NETWORK] = "network",
                                           [HR_CAUSE_MEMORY] = "memory",     [HR_CAUSE_OPENING] = "opening",
                                           [HR_CAUSE_HANDOVER] = "handover" };

static void print_times(const char *name, const char *const *names, const int64_t *ns, int n, hr_text *out)
{
    bool any = false;

    hr__text_add(out, ",\"%s\":{", name);
    for (int i = 0; i < n; i++) {
        if (!ns[i])
            continue;
        hr__text_add(out, "%s\"%s\":%" PRId64, any ? "," : "", names[i], ns[i]);
        any = true;
    }
    hr__text_add(out, "}");
}

static void print_slow(const char *name, const hr_slow_ticket *t, const char *file, hr_text *out)
{
    if (!t->busy_ns)
        return;
    hr__text_add(out, ",\"%s\":{\"file\":", name);
    hr__text_add_json(out, file ? file : "");
    hr__text_add(out, ",\"fragment\":%d,\"row\":%" PRId64 ",\"rows\":%" PRId64 ",\"busy_ns\":%" PRId64,
                 t->begin.fragment, t->begin.row, t->rows, t->busy_ns);
    hr__text_add(out, ",\"blamed_ns\":%" PRId64 "}", t->blamed_ns);
}

static void print_stage(const hr_run_view *v, int i, hr_text *out)
{
    const hr_stage_view *s = &v->stages[i];
    bool any = false;

    hr__text_add(out, "%s{\"reads\":%s,\"operators\":[", i ? "," : "", s->is_leaf ? "true" : "false");
    for (int k = 0; k < v->n_ops; k++)
        if (v->ops[k].stage == i) {
            hr__text_add(out, "%s%d", any ? "," : "", k);
            any = true;
        }
    hr__text_add(out, "]");
    print_times("does_ns", does_names, s->sums.does_ns, HR_N_STAGE_DOES, out);
    print_times("consumer_waited_ns", cause_names, s->sums.cause_ns, HR_N_CAUSES, out);
    hr__text_add(out, ",\"tickets\":%" PRId64 ",\"ticket_rows\":%" PRId64 ",\"ticket_ns\":%" PRId64, s->sums.tickets,
                 s->sums.ticket_rows, s->sums.ticket_ns);
    hr__text_add(out, ",\"queue_ns\":%" PRId64 ",\"window_ns\":%" PRId64 ",\"network_wait_ns\":%" PRId64,
                 s->sums.queue_ns, s->sums.window_ns, s->sums.receiving_ns);
    hr__text_add(out, ",\"queue\":%" PRId64 ",\"window\":%" PRId64 ",\"window_limit\":%d", s->n_queue, s->n_window,
                 s->window);
    if (s->is_leaf)
        hr__text_add(out, ",\"reads_ns\":%" PRId64 ",\"reads_cpu_ns\":%" PRId64, s->reads.busy_ns, s->reads.cpu_ns);
    print_slow("longest_ticket", &s->longest, s->longest_file, out);
    print_slow("held_ticket", &s->held, s->held_file, out);
    hr__text_add(out, "}");
}

static hr_status print_view(hr_run *r, hr_text *out, hr_error *err)
{
    hr_run_view v;

    HR_TRY(hr__run_view(r, -1, &v, err));
    hr__text_add(out,
                 ",\"threads\":%d,\"threads_ns\":%" PRId64 ",\"hungry_ns\":%" PRId64 ",\"ready_tables_ns\":%" PRId64,
                 v.n_threads, v.sums.active_ns, v.sums.hungry_ns, v.sums.out_ns);
    hr__text_add(out, ",\"ready_tables\":%" PRId64, v.n_out);
    print_io("disk", &v.sums.io[HR_IO_FILE], out);
    print_io("requests", &v.sums.io[HR_IO_NETWORK], out);
    hr__text_add(out, ",\"stages\":[");
    for (int i = 0; i < v.n_stages; i++)
        print_stage(&v, i, out);
    hr__text_add(out, "]");
    hr__run_view_clear(&v);
    return HR_OK;
}

hr_status hr__run_stats(hr_run *r, hr_text *out, hr_error *err)
{
    hr_run_counts c;
    int64_t read_ns = 0, first_ns, wait_ns;

    hr__run_counts(r, &c);
    hr__run_lock(r);
    first_ns = r->first_table_ns;
    wait_ns = r->consumer_wait_ns;
    hr__run_unlock(r);
    for (int i = 0; i < r->n_stages; i++)
        read_ns += hr__call_sums(&r->stages[i]->counts.reads).busy_ns + hr__row_leaf_read_ns(r->stages[i]);
    hr__text_add(out, "{\"seconds\":%.6f,\"first_table_seconds\":%.6f,\"consumer_wait_seconds\":%.6f",
                 (double)(hr__clock_ns() - r->started_ns) / 1e9, (double)first_ns / 1e9, (double)wait_ns / 1e9);
    hr__text_add(out, ",\"done\":%.6f", c.done);
    hr__text_add(out,
                 ",\"files_opened\":%" PRId64 ",\"fragments_read\":%" PRId64 ",\"rows_read\":%" PRId64
                 ",\"read_ns\":%" PRId64,
                 c.files_opened, c.fragments_read, c.rows_read, read_ns);
    hr__text_add(out,
                 ",\"fragments_skipped\":%" PRId64 ",\"rows_skipped\":%" PRId64 ",\"pages_skipped\":%" PRId64
                 ",\"bloom_hits\":%" PRId64 ",\"bad_rows\":%" PRId64,
                 c.fragments_skipped, c.rows_skipped, c.pages_skipped, c.bloom_hits, c.bad_rows);
    hr__text_add(out, ",\"tickets\":%" PRId64 ",\"tables_out\":%" PRId64 ",\"rows_out\":%" PRId64, c.tickets,
                 c.tables_out, c.rows_out);
    hr__text_add(out, ",\"used_bytes\":%" PRId64 ",\"peak_bytes\":%" PRId64 ",\"limit_bytes\":%" PRId64,
                 hr__account_used(r->account), hr__account_peak(r->account), hr__account_limit(r->account));
    hr__text_add(out, ",\"process_bytes\":%" PRId64 ",\"process_peak_bytes\":%" PRId64, hr_memory_used(),
                 hr_memory_peak());
    hr__run_lock(r);
    hr__threads_print_locked(r, out);
    hr__run_unlock(r);
    print_spill(r->account, out);
    hr__network_stats(r->account, &r->began_network, out);
    HR_TRY(print_view(r, out, err));
    hr__text_add(out, ",\"operators\":[");
    print_ops(r, out);
    hr__text_add(out, "]}");
    return out->failed ? hr__error_memory(err, "stats", out->n) : HR_OK;
}
