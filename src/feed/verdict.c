/* verdict.c - what limits a feed, in one sentence, from what its run and its consumer recorded.
 *
 * 1. Whether: the share of its time that the trainer waited for batches. Below FED nothing is wrong, and the trainer is
 *    the limit; then only its own making of batches (collate) can be worth a word.
 * 2. What: the cause that the dispatcher saw while the trainer waited (exec/observe.c), by its longest time. Counters
 *    then tell causes apart that look alike to the dispatcher: threads that compute from threads that wait for a disk,
 *    a row that takes long from a fragment that is large, a network's latency from its bandwidth.
 * 3. How much: each resource has a demand, the time that it needs for the rows of the period if nothing else limits.
 *    The gain of removing the cause is the period, divided by the largest demand that is left: the trainer's is one of
 *    them. It is also at most what the trainer waited for this cause. For a function, the gain is that of the number of
 *    workers that the advice names.
 *
 * It is a function of its argument: tests/test_verdict.c has a table of cases.
 *
 * Tests: test_verdict.c, test_verdicts.py. */
#include "feed/verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define FED 0.05             /* a trainer that waits less than this share of its time is fed */
#define IDLE 0.98            /* a consumer that waits this share of its time does nothing else */
#define LEAST_STEPS 8        /* fewer steps say nothing, */
#define LEAST_NS 250000000   /* nor does a shorter period, */
#define ENOUGH_NS 2000000000 /* unless the steps are long */
#define WHOLE_NS 1000000000  /* a whole run of one step */
#define TURNS 1.2            /* the servers of functions that take turns are busy for hardly more than the period */
#define OUTLIER 3.0          /* times the mean */
#define ONE_CPU 1.1          /* threads that take turns at Python's lock compute hardly longer than the period, */
#define LOCKED 0.06          /* and wait for the lock for a larger share of their time, */
#define LONG_LOCK_NS 4e6     /* or, around long calls, for longer; */
#define LOCK_OR_CPU 0.1      /* of the waits for CPUs: waits for a thread that has the lock, and no CPU, are shorter */
#define CROWDED 0.85         /* a machine whose CPUs are used for this share of the time, */
#define OTHERS 0.2           /* and for this share of the time by other processes, makes ours wait */
#define ASLEEP 0.15          /* what computes for a smaller share of its time waits for something else than CPUs */
#define DELAYED 0.1          /* of the time of calls: the worker could run, and had no CPU */
#define IDLE_WORKERS 0.2     /* of the waits for them: workers that were busy for a smaller share had to start */
#define SMALL_CHUNK (128 << 10) /* a smaller chunk of an array takes longer to begin than to read, */
#define GOOD_CHUNK (1 << 20)    /* and of this size its beginning is a small part */
#define FAULT_NS 4000           /* a page fault takes less, with the zeros of the page */

static const char *const names[] = {
    [HR_VERDICT_SHORT] = "short",       [HR_VERDICT_TRAINER] = "trainer",   [HR_VERDICT_COLLATE] = "collate",
    [HR_VERDICT_SERIAL] = "serial",     [HR_VERDICT_CPU] = "cpu",           [HR_VERDICT_THREADS] = "threads",
    [HR_VERDICT_DISK] = "disk",         [HR_VERDICT_LATENCY] = "latency",   [HR_VERDICT_BANDWIDTH] = "bandwidth",
    [HR_VERDICT_THROTTLE] = "throttle", [HR_VERDICT_MEMORY] = "memory",     [HR_VERDICT_SPILL] = "spill",
    [HR_VERDICT_FUNCTION] = "function", [HR_VERDICT_GIL] = "gil",           [HR_VERDICT_FRAGMENT] = "fragment",
    [HR_VERDICT_GROUPS] = "row_groups", [HR_VERDICT_HEAD] = "head_of_line", [HR_VERDICT_OPENING] = "opening",
    [HR_VERDICT_RANK] = "rank",         [HR_VERDICT_WAITS] = "waits",       [HR_VERDICT_CHUNKS] = "chunks",
    [HR_VERDICT_OTHERS] = "others",
};
_Static_assert(HR_LEN(names) == HR_N_VERDICTS, "each verdict has a name");

/* What verdict_of finds on its way. */
typedef struct case_of {
    const hr_evidence *e;
    const hr_run_view *run;
    hr_verdict *v;
    double period_ns;     /* of the steps: waits and work */
    double waited_ns;     /* for this cause */
    int64_t workers;      /* that the advice gives to c->op; 0: none */
    hr_op_view joined;    /* the sum of n_alike functions of one name, as in the inputs of a union: then it is c->op */
    int n_alike, at_once; /* at_once: so many of them work at a time; 1: they take turns */
    const hr_stage_view *stage;
    const hr_op_view *op;      /* that the verdict names; its demand goes with the cause. NULL: the reading */
    const hr_call_sums *calls; /* the threads' work for the cause; NULL: nothing, or not known */
    int stage_index;
} case_of;

__attribute__((format(printf, 3, 4))) static void say(char *out, size_t cap, const char *format, ...)
{
    size_t n = strlen(out);
    va_list args;

    va_start(args, format);
    vsnprintf(out + n, cap - n, format, args);
    va_end(args);
}

#define TEXT(c, ...) say((c)->v->text, sizeof(c)->v->text, __VA_ARGS__)
#define ADVICE(c, ...) say((c)->v->advice, sizeof(c)->v->advice, __VA_ARGS__)

static void set(case_of *c, hr_verdict_kind kind) { c->v->kind = kind; }

/* "1.5 ms" */
static hr_label time_of(double ns)
{
    hr_label s;

    if (ns < 1e6)
        snprintf(s.text, sizeof s.text, "%.0f us", ns / 1e3);
    else if (ns < 1e9)
        snprintf(s.text, sizeof s.text, "%.1f ms", ns / 1e6);
    else
        snprintf(s.text, sizeof s.text, "%.1f s", ns / 1e9);
    return s;
}

/* An operator's name, which has a user's text, cut. */
static hr_label name_of(const hr_op_view *o)
{
    hr_label s;

    snprintf(s.text, sizeof s.text, "%s", o ? o->name : "read");
    if (o && strlen(o->name) >= sizeof s.text)
        memcpy(s.text + sizeof s.text - 4, "...", 4);
    return s;
}

/* ---------------------------------------------------------------------------------------------------------- demands */

static double pool_busy(const hr_run_view *r)
{
    double ns = 0;

    for (int i = 0; i < r->n_ops; i++)
        ns += (double)r->ops[i].sums.call.busy_ns;
    for (int i = 0; i < r->n_stages; i++)
        ns += (double)r->stages[i].reads.busy_ns;
    return ns;
}

/* The time that an operator needs for the rows of the period. */
static double demand_of(const hr_op_view *o)
{
    double ns = o->is_serial ? (double)o->sums.call.busy_ns : 0;

    if (o->calls && o->sums.served.servers > 0)
        ns = HR_MAX(ns, (double)o->sums.served.busy_ns / (double)o->sums.served.servers);
    return ns;
}

/* The trainer's steps. With its batches made elsewhere they are shorter. A function that keeps Python's lock makes them
 * longer by an unknown part; then the CPU time of the function is what is left, on as many CPUs as it has servers. */
static double demand_of_trainer(const case_of *c)
{
    const hr_step_sums *s = &c->e->steps;
    const hr_served *f = c->op ? &c->op->sums.served : NULL;

    switch (c->v->kind) {
    case HR_VERDICT_COLLATE: return (double)(s->step_ns - s->convert_ns);
    case HR_VERDICT_GIL: return (double)f->cpu_ns / (double)HR_MAX(HR_MIN(f->servers, c->run->n_cpus), 1);
    case HR_VERDICT_RANK: return (double)c->e->others_step_ns;
    default: return (double)s->step_ns;
    }
}

/* CPU time of page faults. Below a tight limit pages go back to the system, and each new one is a page fault. */
static double faults_of(const case_of *c)
{
    const hr_run_sums *s = &c->run->sums;

    return HR_MIN((double)s->kernel_ns, (double)s->faults * FAULT_NS);
}

/* The threads' work. Nothing else takes it over when threads are the cause; without waits for a disk it is shorter. */
static double demand_of_threads(const case_of *c)
{
    const hr_run_view *r = c->run;
    double busy = pool_busy(r) - (c->op ? (double)c->op->sums.call.busy_ns : 0);

    switch (c->v->kind) {
    case HR_VERDICT_CPU:
    case HR_VERDICT_THREADS:
    case HR_VERDICT_OTHERS:
    case HR_VERDICT_WAITS: return 0;
    case HR_VERDICT_DISK: busy -= (double)r->sums.io[HR_IO_FILE].ns; break;
    case HR_VERDICT_MEMORY: busy -= faults_of(c); break;
    default: break;
    }
    return r->n_threads > 0 && busy > 0 ? busy / r->n_threads : 0;
}

/* CPU time of this process and of its workers. */
static double own_cpu(const hr_run_view *r)
{
    double ns = (double)r->sums.cpu_ns;

    for (int i = 0; i < r->n_ops; i++)
        if (!r->ops[i].sums.served.here)
            ns += (double)r->ops[i].sums.served.cpu_ns;
    return ns;
}

/* How many CPUs other processes used, on a machine whose CPUs are full; 0: they are not, or it is not known. */
static double cpus_of_others(const hr_run_view *r)
{
    double all = (double)r->sums.at_ns * r->n_machine_cpus, used = (double)r->sums.machine_ns, own = own_cpu(r);

    if (all <= 0 || used < CROWDED * all || used - own < OTHERS * all)
        return 0;
    return (used - own) / (double)r->sums.at_ns;
}

/* CPU time of this process and of workers, without the cause's, on all CPUs. Too many threads, and other programs,
 * are known by their use of the CPUs, not by what they would need. */
static double demand_of_cpus(const case_of *c)
{
    const hr_run_view *r = c->run;
    double ns = own_cpu(r) - (c->v->kind == HR_VERDICT_MEMORY ? faults_of(c) : 0);

    if (c->v->kind == HR_VERDICT_THREADS || c->v->kind == HR_VERDICT_WAITS || r->n_cpus <= 0)
        return 0;
    if (c->v->kind == HR_VERDICT_OTHERS)
        return ns / r->n_cpus;
    if (c->v->kind == HR_VERDICT_CHUNKS) /* a reader may compute in threads of its own */
        return pool_busy(r) / r->n_cpus;
    if (c->v->kind != HR_VERDICT_GIL) /* the same work, in processes */
        ns -= (c->op ? (double)c->op->sums.served.cpu_ns : 0) + (c->calls ? (double)c->calls->cpu_ns : 0);
    return ns / r->n_cpus;
}

/* Whether the operator goes with the cause. */
static bool is_cause(const case_of *c, const hr_op_view *o)
{
    return o == c->op || (c->n_alike > 1 && o->calls && !strcmp(o->name, c->op->name));
}

/* The largest demand besides the cause's. */
static double next_demand(const case_of *c)
{
    const hr_run_view *r = c->run;
    double most = HR_MAX(HR_MAX(demand_of_trainer(c), demand_of_threads(c)), demand_of_cpus(c));

    for (int i = 0; i < r->n_ops; i++)
        if (!is_cause(c, &r->ops[i]))
            most = HR_MAX(most, demand_of(&r->ops[i]));
    return most;
}

/* The time that is left without the cause. */
static double rest_of(const case_of *c) { return HR_MAX(next_demand(c), c->period_ns - c->waited_ns); }

/* The time that a function needs with n workers, which share the CPUs with everything else. */
static double with_workers(const case_of *c, int64_t n)
{
    const hr_served *s = &c->op->sums.served;
    double cpus = demand_of_cpus(c) + (double)s->cpu_ns / HR_MAX(c->run->n_cpus, 1);

    return HR_MAX(cpus, n > 0 ? (double)s->busy_ns / (double)n / HR_MAX(c->at_once, 1) : 0);
}

/* The smallest number of workers (of each, where functions are alike) with which the function is no longer the limit.
 * More than there are calls find nothing to do. */
static int64_t enough_workers(const case_of *c)
{
    double least = HR_MAX(rest_of(c), with_workers(c, 0));
    double busy = (double)c->op->sums.served.busy_ns / HR_MAX(c->at_once, 1);
    int64_t most = HR_CALLS_A_THREAD * (int64_t)HR_MAX(c->run->n_threads, 1);

    return least * (double)most > busy ? HR_MAX(1, (int64_t)(busy / least + 0.65)) : most;
}

/* The time that a reader needs for the same bytes in fewer chunks, if only the number of chunks counts. */
static double with_chunks(const case_of *c)
{
    const hr_served *s = &c->op->sums.served;

    return (double)s->busy_ns / (double)HR_MAX(s->servers, 1) * hr__share((double)s->piece_bytes, GOOD_CHUNK);
}

/* The time that the cause needs if its servers have CPUs for themselves: that of its computing, and of its sleeping. */
static double with_cpus(const case_of *c)
{
    const hr_served *s = c->op && c->op->calls ? &c->op->sums.served : NULL;

    if (s && s->servers > 0)
        return (double)(s->delay_ns ? s->busy_ns - s->delay_ns : s->cpu_ns) / (double)s->servers;
    if (c->op && c->op->is_serial)
        return (double)c->op->sums.call.cpu_ns;
    return c->calls ? (double)c->calls->cpu_ns / HR_MAX(c->run->n_threads, 1) : 0;
}

static void find_gain(case_of *c)
{
    double least = rest_of(c);

    if (c->workers)
        least = HR_MAX(least, with_workers(c, c->workers));
    if (c->v->kind == HR_VERDICT_CHUNKS)
        least = HR_MAX(least, with_chunks(c));
    if (c->v->kind == HR_VERDICT_OTHERS)
        least = HR_MAX(least, with_cpus(c));
    if (c->v->kind == HR_VERDICT_LATENCY && c->e->is_whole)
        least = HR_MAX(least, hr__request_ns(&c->run->sums.io[HR_IO_NETWORK]));
    c->v->most = c->e->steps.step_ns > 0 ? c->period_ns / (double)c->e->steps.step_ns : 0;
    c->v->gain = least > 0 ? HR_MAX(1.0, c->period_ns / least) : 1.0;
    c->v->gain = HR_MIN(c->v->gain, 100.0);
    c->v->most = c->v->most > 0 ? HR_MIN(c->v->most, 100.0) : 100.0;
}

/* ----------------------------------------------------------------------------------------------------------- causes */

static const hr_op_view *op_of_stage(const case_of *c, bool serial, bool calls)
{
    const hr_op_view *found = NULL;

    for (int i = 0; i < c->run->n_ops; i++) {
        const hr_op_view *o = &c->run->ops[i];
        int64_t ns = calls ? o->sums.wait_ns : o->sums.call.busy_ns;

        if (o->stage == c->stage_index && o->is_serial == serial && (!calls || o->calls) &&
            (!found || ns > (calls ? found->sums.wait_ns : found->sums.call.busy_ns)))
            found = o;
    }
    return found;
}

/* What is wanted is CPUs, and other processes have them. busy_ns: of the cause, of which it computed cpu_ns. */
static bool crowded_out(case_of *c, double busy_ns, double cpu_ns)
{
    double others = cpus_of_others(c->run), on_cpu = hr__share(cpu_ns, busy_ns);

    if (others <= 0 || on_cpu > 0.9)
        return false;
    set(c, HR_VERDICT_OTHERS);
    TEXT(c, "other processes use %.1f of the %d CPUs: %s had work all of the time, and computed %.0f %% of it", others,
         c->run->n_machine_cpus, name_of(c->op).text, 100 * on_cpu);
    ADVICE(c, "end or move the other programs, or give this one CPUs of its own; more workers or threads do not help");
    return true;
}

static void serial(case_of *c)
{
    double busy;

    c->op = op_of_stage(c, true, false);
    if (c->op && c->run->spilled > 0 && c->op->is_block) {
        set(c, HR_VERDICT_SPILL);
        TEXT(c, "%s keeps its rows on disk: %s were spilled, of which memory holds %s", name_of(c->op).text,
             hr__bytes_label((double)c->op->spilled).text, hr__bytes_label((double)c->run->limit_bytes).text);
        ADVICE(c, "raise the memory limit (HEADRACE_MEMORY_LIMIT), or select fewer columns before it");
        return;
    }
    c->calls = c->op ? &c->op->sums.call : NULL;
    if (c->op && (double)c->calls->cpu_ns > ASLEEP * (double)c->calls->busy_ns &&
        crowded_out(c, (double)c->calls->busy_ns, (double)c->calls->cpu_ns))
        return;
    set(c, HR_VERDICT_SERIAL);
    busy = c->op ? hr__share((double)c->op->sums.call.busy_ns, c->period_ns) : 0;
    TEXT(c, "%s runs on one thread, which it kept busy %.0f %% of the time", name_of(c->op).text, 100 * busy);
    ADVICE(c, "make %s cheaper, or move work out of it into steps that run on all threads", name_of(c->op).text);
}

static void network(case_of *c)
{
    const hr_io_sums *io = &c->run->sums.io[HR_IO_NETWORK];
    double first = hr__share((double)io->first_ns, (double)io->ns), mean = hr__request_ns(io);

    if (c->run->sums.throttled > 0 && c->run->sums.throttled * 50 >= io->requests) {
        set(c, HR_VERDICT_THROTTLE);
        TEXT(c, "the store refuses requests (429, 503): %" PRId64 " of %" PRId64, c->run->sums.throttled, io->requests);
        ADVICE(c, "spread the objects over more prefixes or buckets, or keep them in the cache (HEADRACE_CACHE_DIR)");
    } else if (first >= 0.6) {
        set(c, HR_VERDICT_LATENCY);
        TEXT(c, "requests take long: %s each, of which %.0f %% until the first byte; %" PRId64 " requests of %s",
             time_of(mean).text, 100 * first, io->requests,
             hr__bytes_label(io->requests ? (double)io->bytes / (double)io->requests : 0).text);
        ADVICE(c, "write larger files or row groups, or keep them in the cache (HEADRACE_CACHE_DIR)");
    } else {
        set(c, HR_VERDICT_BANDWIDTH);
        TEXT(c, "the network brought %s/s, in requests of %s and %s each",
             hr__bytes_label((double)io->bytes / HR_MAX(c->period_ns, 1) * 1e9).text,
             hr__bytes_label(io->requests ? (double)io->bytes / (double)io->requests : 0).text, time_of(mean).text);
        ADVICE(c, "read fewer columns, compress more, or keep the files in the cache (HEADRACE_CACHE_DIR)");
    }
}

/* The operator, or the reading of a leaf (*reads), that kept the threads busy longest. */
static const hr_op_view *busiest(const case_of *c, const hr_stage_view **reads)
{
    const hr_op_view *found = NULL;
    int64_t most = -1;

    *reads = NULL;
    for (int i = 0; i < c->run->n_ops; i++)
        if (c->run->ops[i].sums.call.busy_ns > most) {
            most = c->run->ops[i].sums.call.busy_ns;
            found = &c->run->ops[i];
        }
    for (int i = 0; i < c->run->n_stages; i++)
        if (c->run->stages[i].is_leaf && c->run->stages[i].reads.busy_ns > most) {
            most = c->run->stages[i].reads.busy_ns;
            *reads = &c->run->stages[i];
            found = NULL;
        }
    return found;
}

static void threads(case_of *c)
{
    const hr_run_view *r = c->run;
    const hr_stage_view *reads;
    const hr_call_sums *call;
    double on_cpu, busy = pool_busy(r);
    const hr_io_sums *disk = &r->sums.io[HR_IO_FILE], *net = &r->sums.io[HR_IO_NETWORK];

    c->op = busiest(c, &reads);
    call = reads ? &reads->reads : c->op ? &c->op->sums.call : &(hr_call_sums){ 0 };
    on_cpu = hr__share((double)call->cpu_ns, (double)call->busy_ns);
    if (reads && on_cpu < 0.5 && (double)disk->ns > 0.4 * (double)call->busy_ns) {
        set(c, HR_VERDICT_DISK);
        TEXT(c,
             "the disk brought %s/s, and threads waited for it %.0f %% of their time; %" PRId64
             " reads of %s took %s each",
             hr__bytes_label((double)disk->bytes / HR_MAX(c->period_ns, 1) * 1e9).text,
             100 * hr__share((double)disk->ns, busy), disk->requests,
             hr__bytes_label(disk->requests ? (double)disk->bytes / (double)disk->requests : 0).text,
             time_of(disk->requests ? (double)disk->ns / (double)disk->requests : 0).text);
        ADVICE(c, "put the files on a faster disk, read fewer columns, or compress them more");
        /* what else waited, for a thread or an older ticket, waited for the disk in its turn */
        c->waited_ns = HR_MAX(c->waited_ns, (double)c->e->steps.wait_ns * hr__share((double)disk->ns, busy));
        return;
    }
    if (reads && on_cpu < 0.5 && (double)net->ns > 0.4 * (double)call->busy_ns) {
        network(c);
        return;
    }
    if (r->n_threads > r->n_cpus && on_cpu < 0.8 && (double)r->sums.cpu_ns > 0.7 * r->n_cpus * c->period_ns) {
        set(c, HR_VERDICT_THREADS);
        TEXT(c, "%d threads share %d CPUs, and %s computed only %.0f %% of its time", r->n_threads, r->n_cpus,
             name_of(c->op).text, 100 * on_cpu);
        ADVICE(c, "set num_threads to %d (HEADRACE_NUM_THREADS)", r->n_cpus);
        return;
    }
    c->calls = call;
    if (on_cpu > ASLEEP && crowded_out(c, (double)call->busy_ns, (double)call->cpu_ns))
        return;
    c->calls = NULL;
    if (on_cpu < 0.5 && busy > 0) {
        set(c, HR_VERDICT_WAITS);
        TEXT(c, "%s kept the threads, but computed only %.0f %% of that time: it waits, or other programs use the CPUs",
             name_of(c->op).text, 100 * on_cpu);
        ADVICE(c, "look for other programs on this machine, and for locks or waits in %s", name_of(c->op).text);
        return;
    }
    set(c, HR_VERDICT_CPU);
    c->calls = call;
    TEXT(c, "all %d threads work: %s took %.0f %% of their time", r->n_threads, name_of(c->op).text,
         100 * hr__share((double)call->busy_ns, busy));
    if (r->n_threads < r->n_cpus)
        ADVICE(c, "use more threads (num_threads, HEADRACE_NUM_THREADS): this machine has %d CPUs", r->n_cpus);
    else if (reads)
        ADVICE(c, "read fewer columns, choose a cheaper compression, or give it more CPUs");
    else
        ADVICE(c, "make %s cheaper, or give it more CPUs", name_of(c->op).text);
}

static double mean_of(int64_t sum, int64_t n) { return n > 0 ? (double)sum / (double)n : 0; }

/* The text for the rows of a ticket. */
static void say_where(case_of *c, const hr_slow_ticket *t, const char *file)
{
    TEXT(c, "%s%s%s, fragment %d, from row %" PRId64, file ? " of " : "", file ? "" : " of", file ? file : " the input",
         t->begin.fragment, t->begin.row);
}

static bool same_place(const hr_slow_ticket *a, const hr_slow_ticket *b)
{
    return a->begin.file == b->begin.file && a->begin.fragment == b->begin.fragment && a->begin.row == b->begin.row;
}

/* One ticket holds up all others: its fragment is large, or its rows take long; or all are alike, and too few. */
static void one_ticket(case_of *c, bool few)
{
    const hr_stage_view *s = c->stage;
    bool ended = same_place(&s->held, &s->longest) || s->held.blamed_ns == 0; /* then all its rows are known */
    const hr_slow_ticket *t = ended ? &s->longest : &s->held;
    const char *file = ended ? s->longest_file : s->held_file;
    int64_t n = s->all_tickets - ended;
    double rows = mean_of(s->all_ticket_rows - (ended ? t->rows : 0), n);
    double ns = mean_of(s->all_ticket_ns - (ended ? t->busy_ns : 0), n);
    bool many = n >= 3, alone = s->all_taken && s->all_tickets + !ended <= 1; /* no later rows wait */

    if (many && s->is_leaf && (double)t->rows > OUTLIER * rows) {
        set(c, HR_VERDICT_FRAGMENT);
        TEXT(c,
             "one fragment is larger than the others, and one thread reads it while the others are idle: %" PRId64
             " rows against %.0f",
             t->rows, rows);
        say_where(c, t, file);
        ADVICE(c, "write files with row groups or fragments of one size (repartition before you write)");
    } else if (many && (double)t->busy_ns > OUTLIER * ns) {
        set(c, HR_VERDICT_HEAD);
        TEXT(c, "all rows wait for the oldest ones, which took %s against %s:", time_of((double)t->busy_ns).text,
             time_of(ns).text);
        say_where(c, t, file);
        ADVICE(c, "look at these rows; with preserve_order=False later rows need not wait for them");
    } else if (s->is_leaf && (few || alone)) {
        set(c, HR_VERDICT_GROUPS);
        TEXT(c, "the files have too few fragments for %d threads: %" PRId64 " of %.0f rows, each read by one thread",
             c->run->n_threads, HR_MAX(s->fragments, 1), mean_of(s->rows_read, HR_MAX(s->fragments, 1)));
        ADVICE(c, "write smaller row groups, or more files");
    } else if (alone) {
        set(c, HR_VERDICT_GROUPS);
        TEXT(c, "all rows are one piece of work, for one of %d threads:", c->run->n_threads);
        say_where(c, t, file);
        ADVICE(c, "divide it: smaller row groups, more files, or repartition()");
    } else {
        set(c, HR_VERDICT_HEAD);
        TEXT(c, "all rows wait for the oldest ones:");
        say_where(c, t, file);
        ADVICE(c, "with preserve_order=False later rows need not wait for them");
    }
}

/* Several threads of this process want to run all of the time, use one CPU together, and wait for Python's lock
 * around calls. A function that frees the lock, as NumPy's do, lets others have it at once. A thread keeps the lock
 * for 5 ms when another one wants it, or until it waits. So waits fill the time where calls are short, and a long
 * call has some of 5 ms for each other thread. Where CPUs are few, the time in which threads could run counts as
 * well; then a thread also loses its CPU while it has the lock, and others wait, much shorter than they wait for
 * CPUs. */
static bool takes_turns(const case_of *c, const hr_op_view *o)
{
    const hr_served *s = &o->sums.served;
    double period = HR_MAX(c->period_ns, 1), cpu = (double)s->cpu_ns, lock = (double)s->lock_ns;
    double share = hr__share(lock, lock + (double)s->busy_ns);

    if (!s->here || s->servers < 2 || cpu > ONE_CPU * period || cpu + (double)s->delay_ns < 0.7 * period)
        return false;
    if (lock < LOCK_OR_CPU * (double)s->delay_ns)
        return false;
    return share > LOCKED || (share > LOCKED / 3 && lock > LONG_LOCK_NS * (double)s->calls);
}

static const hr_op_view *that_takes_turns(const case_of *c)
{
    for (int i = 0; i < c->run->n_ops; i++)
        if (c->run->ops[i].calls && takes_turns(c, &c->run->ops[i]))
            return &c->run->ops[i];
    return NULL;
}

static void turns(case_of *c)
{
    const hr_served *s = &c->op->sums.served;

    set(c, HR_VERDICT_GIL);
    TEXT(c,
         "%s runs in %" PRId64
         " threads of this process that take turns at Python's lock: %.1f were busy, on %.1f CPUs",
         name_of(c->op).text, s->servers, (double)s->busy_ns / HR_MAX(c->period_ns, 1),
         (double)s->cpu_ns / HR_MAX(c->period_ns, 1));
    ADVICE(c, "run it in processes (compute=\"processes\")");
}

/* A reader that the engine calls: each call reads chunks of arrays. */
static void reader(case_of *c)
{
    const hr_served *s = &c->op->sums.served;
    double read = (double)(HR_MAX(s->calls, 1) * s->pieces);

    if (s->piece_bytes < SMALL_CHUNK) {
        set(c, HR_VERDICT_CHUNKS);
        TEXT(c, "%s spends its time on small chunks: %.0f of %s, which take %s each", name_of(c->op).text, read,
             hr__bytes_label((double)s->piece_bytes).text, time_of((double)s->busy_ns / read).text);
        ADVICE(c, "write the arrays again with chunks of about %s: %.0f instead of %.0f",
               hr__bytes_label(GOOD_CHUNK).text, HR_MAX(1, read * (double)s->piece_bytes / GOOD_CHUNK), read);
        return;
    }
    set(c, HR_VERDICT_GROUPS);
    TEXT(c, "%s has too few pieces for %d threads: %" PRId64 ", with %.0f chunks of %s", name_of(c->op).text,
         c->run->n_threads, s->calls, read, hr__bytes_label((double)s->piece_bytes).text);
    ADVICE(c, "write the arrays again with smaller chunks, or in several stores");
}

static void add_served(hr_served *sum, const hr_served *s)
{
    sum->calls += s->calls;
    sum->busy_ns += s->busy_ns;
    sum->cpu_ns += s->cpu_ns;
    sum->delay_ns += s->delay_ns;
    sum->queued_ns += s->queued_ns;
    sum->lock_ns += s->lock_ns;
}

/* Functions of one name in several stages, as in the inputs of a union, are one cause: c->op becomes their sum. Each is
 * half of the demand, and would hide the other. The inputs of a union take turns, and then only one's servers work. */
static void join_alike(case_of *c)
{
    hr_served *sum = &c->joined.sums.served;

    c->joined = *c->op;
    c->n_alike = 1;
    for (int i = 0; i < c->run->n_ops; i++) {
        const hr_op_view *o = &c->run->ops[i];

        if (o == c->op || !o->calls || strcmp(o->name, c->op->name) != 0)
            continue;
        add_served(sum, &o->sums.served);
        sum->servers = HR_MAX(sum->servers, o->sums.served.servers);
        c->n_alike++;
    }
    if (c->n_alike == 1)
        return;
    c->at_once = (double)sum->busy_ns > TURNS * (double)HR_MAX(sum->servers, 1) * c->period_ns ? c->n_alike : 1;
    sum->servers *= c->at_once;
    c->op = &c->joined;
}

/* Whether the function's workers wait for CPUs, and not in the function. */
static bool lacks_cpus(const case_of *c)
{
    const hr_served *s = &c->op->sums.served;

    return s->delay_ns ? (double)s->delay_ns > DELAYED * (double)s->busy_ns
                       : (double)s->cpu_ns > 0.4 * (double)s->busy_ns;
}

/* A whole run in which the function's workers were idle for most of the waits for them, or all of them worked for less
 * time than the first rows were held: they had to start. */
static bool is_start(const case_of *c)
{
    double busy = (double)c->op->sums.served.busy_ns, held = (double)c->stage->held.blamed_ns;

    return c->e->is_whole && (busy < IDLE_WORKERS * c->waited_ns || (held > busy && held > 0.4 * c->waited_ns));
}

static void start(case_of *c)
{
    TEXT(c, "the workers of %s had to start: too short a run to judge", name_of(c->op).text);
    c->v->starved = false;
    c->op = NULL;
}

static void function(case_of *c)
{
    const hr_served *s;
    double at_once, cpu_share;
    int64_t enough, servers; /* of each */
    bool few;

    c->op = op_of_stage(c, false, true);
    if (!c->op) {
        one_ticket(c, false);
        return;
    }
    join_alike(c);
    s = &c->op->sums.served;
    at_once = (double)s->busy_ns / HR_MAX(c->period_ns, 1);
    cpu_share = hr__share((double)s->cpu_ns, (double)s->busy_ns);
    few = s->servers > 1 && at_once < 0.6 * (double)s->servers;
    if (s->pieces && (s->piece_bytes < SMALL_CHUNK || (few && c->stage->all_taken))) {
        reader(c);
        return;
    }
    if (is_start(c)) { /* before one_ticket(), which would blame the first rows */
        start(c);
        return;
    }
    if (few && (double)c->stage->held.blamed_ns > 0.4 * c->waited_ns) {
        one_ticket(c, false);
        if (c->v->kind != HR_VERDICT_GROUPS || s->calls == 1) {
            c->op = NULL;
            c->n_alike = 0;
            return;
        }
        c->v->text[0] = c->v->advice[0] = 0;
    }
    if (takes_turns(c, c->op)) {
        turns(c);
        return;
    }
    if (lacks_cpus(c) && crowded_out(c, (double)s->busy_ns, (double)s->cpu_ns))
        return;
    set(c, HR_VERDICT_FUNCTION);
    if (c->e->is_whole) /* the start of the workers remains */
        c->waited_ns = HR_MIN(c->waited_ns, (double)s->busy_ns);
    servers = s->servers / HR_MAX(c->at_once, 1);
    if (c->n_alike > 1)
        TEXT(c, "the %d functions %s: of each ", c->n_alike, name_of(c->op).text);
    else
        TEXT(c, "the function %s: ", name_of(c->op).text);
    TEXT(c, "%" PRId64 " %s %.0f %% busy%s, and %s %.0f %% of that time", servers,
         servers == 1 ? "worker was" : "workers were", 100 * hr__share(at_once, (double)HR_MAX(s->servers, 1)),
         c->n_alike < 2 || c->at_once > 1 ? ""
         : servers == 1                   ? " in its turn"
                                          : " in their turn",
         servers == 1 ? "it computed" : "they computed", 100 * cpu_share);
    enough = cpu_share > 0.5 && cpus_of_others(c->run) > 0 ? 0 : enough_workers(c); /* others have all CPUs */
    if (enough > servers) {
        c->workers = enough;
        ADVICE(c, "give %s more workers (concurrency=%" PRId64 "), or make it cheaper", c->n_alike > 1 ? "each" : "it",
               c->workers);
    } else if (cpu_share > 0.5 && cpus_of_others(c->run) > 0)
        ADVICE(c, "make it cheaper, or end the other programs: they use %.1f of the %d CPUs", cpus_of_others(c->run),
               c->run->n_machine_cpus);
    else
        ADVICE(c, "make it cheaper: a function of batches instead of rows, or an expression");
}

/* A higher limit ends all waits but those for functions and the network: without bytes, threads are idle, the oldest
 * ticket goes on alone, and pieces of work are small. What of it is work remains as a demand. */
static void memory(case_of *c)
{
    double all = 0, idle = 0, elsewhere = 0, faults = hr__share(faults_of(c), (double)c->run->sums.cpu_ns);

    for (int i = 0; i < c->run->n_stages; i++) {
        const int64_t *ns = c->run->stages[i].sums.cause_ns;

        for (int k = 0; k < HR_N_CAUSES; k++)
            all += (double)ns[k];
        idle += (double)ns[HR_CAUSE_MEMORY];
        elsewhere += (double)(ns[HR_CAUSE_FUNCTION] + ns[HR_CAUSE_NETWORK]);
    }
    set(c, HR_VERDICT_MEMORY);
    c->waited_ns = (double)c->e->steps.wait_ns * hr__share(all - elsewhere, all);
    TEXT(c, "the memory limit of %s holds up work: threads were idle for want of memory %.0f %% of the time",
         hr__bytes_label((double)c->run->limit_bytes).text,
         100 * hr__share((double)c->e->steps.wait_ns * hr__share(idle, all), c->period_ns));
    if (faults >= 0.1)
        TEXT(c, "; %.0f %% of the CPU time went into pages that it could not keep", 100 * faults);
    if (c->run->spilled > 0)
        TEXT(c, "; %s were spilled", hr__bytes_label((double)c->run->spilled).text);
    ADVICE(c, "raise the memory limit (HEADRACE_MEMORY_LIMIT), use smaller batches, or fewer threads");
}

static void opening(case_of *c)
{
    const hr_io_sums *net = &c->run->sums.io[HR_IO_NETWORK];

    if (net->requests > 0 && net->ns > c->run->sums.io[HR_IO_FILE].ns) {
        network(c);
        return;
    }
    set(c, HR_VERDICT_OPENING);
    TEXT(c, "files are opened one after another, and there are many small ones: %.0f rows in each fragment",
         mean_of(c->stage->rows_read, c->stage->fragments));
    ADVICE(c, "write fewer, larger files");
}

/* --------------------------------------------------------------------------------------------------------- verdicts */

/* Of the time in which threads worked, that for page faults, if the limit refuses work as well. */
static double part_of_memory(const case_of *c, int stage)
{
    const int64_t *ns = c->run->stages[stage].sums.cause_ns;

    return ns[HR_CAUSE_MEMORY] > 0.2 * (double)ns[HR_CAUSE_THREADS]
               ? hr__share(faults_of(c), (double)c->run->sums.cpu_ns) * (double)ns[HR_CAUSE_THREADS]
               : 0;
}

/* The time of a serial operator while its thread did not run is want of a thread. */
static int64_t caused(const case_of *c, int stage, hr_cause cause)
{
    const hr_stage_view *s = &c->run->stages[stage];
    int64_t ns = s->sums.cause_ns[cause], of_serial = s->sums.cause_ns[HR_CAUSE_SERIAL], serial = 0;

    for (int i = 0; i < c->run->n_ops; i++)
        if (c->run->ops[i].stage == stage && c->run->ops[i].is_serial)
            serial = HR_MIN(of_serial, c->run->ops[i].sums.call.busy_ns);
    if (cause == HR_CAUSE_SERIAL)
        return serial;
    if (cause == HR_CAUSE_MEMORY)
        return ns + (int64_t)part_of_memory(c, stage);
    if (cause == HR_CAUSE_THREADS)
        return ns + s->sums.cause_ns[HR_CAUSE_HANDOVER] + of_serial - serial - (int64_t)part_of_memory(c, stage);
    return ns;
}

/* The cause with the longest time over all stages, and the stage where it was longest. */
static hr_cause main_cause(case_of *c)
{
    hr_cause found = HR_CAUSE_THREADS;
    int64_t most = -1, all = 0;

    for (int k = 0; k < HR_N_CAUSES; k++) {
        int64_t ns = 0, at_most = -1;
        int at = 0;

        if (k == HR_CAUSE_HANDOVER)
            continue; /* counts as THREADS: a thread was wanted */
        for (int i = 0; i < c->run->n_stages; i++) {
            int64_t here = caused(c, i, (hr_cause)k);

            ns += here;
            if (here > at_most) {
                at_most = here;
                at = i;
            }
        }
        all += ns;
        if (ns > most) {
            most = ns;
            found = (hr_cause)k;
            c->stage_index = at;
        }
    }
    c->stage = &c->run->stages[c->stage_index];
    c->waited_ns = (double)c->e->steps.wait_ns * hr__share((double)most, (double)all);
    return found;
}

static void starved(case_of *c)
{
    switch (main_cause(c)) {
    case HR_CAUSE_SERIAL: serial(c); break;
    case HR_CAUSE_TICKET: one_ticket(c, false); break;
    case HR_CAUSE_FEW: one_ticket(c, true); break;
    case HR_CAUSE_FUNCTION: function(c); break;
    case HR_CAUSE_NETWORK: network(c); break;
    case HR_CAUSE_MEMORY: memory(c); break;
    case HR_CAUSE_OPENING: opening(c); break;
    default: threads(c);
    }
}

static void collate(case_of *c)
{
    const hr_step_sums *s = &c->e->steps;

    set(c, HR_VERDICT_COLLATE);
    c->v->starved = true;
    c->waited_ns = (double)s->convert_ns;
    TEXT(c,
         "the trainer's own thread makes its batches: collate_fn, conversions and copies took %s of each step, "
         "%.0f %% of the time",
         time_of(mean_of(s->convert_ns, s->n)).text, 100 * hr__share((double)s->convert_ns, c->period_ns));
    ADVICE(c, "move the work of collate_fn into map_batches(), which runs beside the trainer; without a collate_fn, "
              "select fewer columns");
}

static void slow_rank(case_of *c)
{
    set(c, HR_VERDICT_RANK);
    c->waited_ns = (double)c->e->held_ns;
    TEXT(c, "rank %d takes its batches late: the other ranks waited %s each for it", c->e->slow_rank,
         time_of((double)c->e->held_ns).text);
    ADVICE(c, "look at what rank %d does in its steps", c->e->slow_rank);
}

static void fed(case_of *c)
{
    const hr_step_sums *s = &c->e->steps;

    set(c, HR_VERDICT_TRAINER);
    TEXT(c, "the trainer is the limit: its steps take %s, and it found %.0f %% of its batches ready",
         time_of(mean_of(s->step_ns, s->n)).text, 100 * hr__share((double)s->n_ready, (double)s->n));
}

static bool too_short(const hr_evidence *e)
{
    double period = (double)(e->steps.wait_ns + e->steps.step_ns);

    if (e->is_whole)
        return period < WHOLE_NS || !e->run->n_stages;
    return e->steps.n < 2 || ((e->steps.n < LEAST_STEPS || period < LEAST_NS) && period < ENOUGH_NS) ||
           !e->run->n_stages;
}

bool hr__verdict_takes(const hr_step_sums *all)
{
    return (double)all->step_ns < (1 - IDLE) * (double)(all->wait_ns + all->step_ns);
}

void hr__verdict_of(const hr_evidence *e, hr_verdict *out)
{
    case_of c = { .e = e, .run = e->run, .v = out, .period_ns = (double)(e->steps.wait_ns + e->steps.step_ns) };
    double converts = hr__share((double)e->steps.convert_ns, c.period_ns);

    *out = (hr_verdict){ .gain = 1, .most = 1 };
    if (too_short(e)) {
        if (e->is_whole)
            TEXT(&c, "too short to judge: a run without steps of %s", time_of(c.period_ns).text);
        else
            TEXT(&c, "too short to judge: %" PRId64 " steps%s%s", e->steps.n, e->steps.n ? " in " : "",
                 e->steps.n ? time_of(c.period_ns).text : "");
        return;
    }
    out->wait_share = hr__share((double)e->steps.wait_ns, c.period_ns);
    out->starved = out->wait_share >= FED;
    if ((c.op = that_takes_turns(&c))) {
        out->starved = true; /* its own thread needs the lock, too */
        c.waited_ns = c.period_ns;
        turns(&c);
    } else if (converts >= 0.25 && converts > out->wait_share)
        collate(&c);
    else if (out->starved && e->n_ranks > 1 && (double)e->held_ns > 0.4 * (double)e->steps.wait_ns)
        slow_rank(&c);
    else if (out->starved)
        starved(&c);
    else
        fed(&c);
    if (out->starved)
        find_gain(&c);
    hr__file_findings(e, out);
}

void hr__verdict_print(const hr_verdict *v, hr_text *out)
{
    hr__text_add(out, "{\"kind\":\"%s\",\"starved\":%s,\"wait_share\":%.4f,\"gain\":%.3f,\"most_gain\":%.3f,\"text\":",
                 names[v->kind], v->starved ? "true" : "false", v->wait_share, v->gain, v->most);
    hr__text_add_json(out, v->text);
    hr__text_add(out, ",\"advice\":");
    hr__text_add_json(out, v->advice);
    hr__text_add(out, ",\"files\":[");
    for (int i = 0; i < v->n_files; i++) {
        hr__text_add(out, "%s{\"text\":", i ? "," : "");
        hr__text_add_json(out, v->files[i].text);
        hr__text_add(out, ",\"advice\":");
        hr__text_add_json(out, v->files[i].advice);
        hr__text_add(out, ",\"gain\":%.3f}", v->files[i].gain);
    }
    hr__text_add(out, "]}");
}
