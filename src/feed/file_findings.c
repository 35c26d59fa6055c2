/* file_findings.c - whether the files suit the access that a run showed, and what writing them again would gain.
 *
 * headrace stat (plan/file_advice.c) looks at files alone. A run knows more: how large the requests were, how many rows
 * of a fragment were wanted, for which fragments threads and trainer waited. Each finding has a part of the trainer's
 * waits that would go, and its gain is the period without this part: an estimate, as that of the verdict. A trainer
 * that does not wait has no finding, however odd its files are.
 *
 * Tests: test_verdict.c, test_verdicts.py. */
#include "feed/verdict.h"

#include <inttypes.h>
#include <stdio.h>

#define WORTH 1.05
#define MANY 50                 /* files or fragments; fewer say little */
#define SOME 20                 /* requests to a store, each of which takes long */
#define GOOD_REQUEST (8 << 20)  /* what the advice proposes for a store */
#define SMALL_REQUEST (1 << 20) /* to a store */
#define SMALL_PIECE (64 << 10)  /* stored, of a disk: takes about as long to open as to read */
#define GOOD_PIECE (16 << 20)   /* what the advice proposes for a disk */
#define ROWS_A_SECOND 40e6
#define BYTES_A_SECOND 200e6 /* decoded by one thread, of large pieces */
#define UNUSED 0.1           /* of the rows that were read, a filter keeps less than this */
#define LARGER 3.0           /* than the mean: one fragment that others wait for */

typedef struct look {
    const hr_evidence *e;
    const hr_run_view *run;
    hr_verdict *v;
    double period_ns, wait_ns;
    double all_ns;                          /* waits with any cause */
    double cause_ns[HR_N_CAUSES];           /* of all stages */
    int64_t files, fragments, stored, rows; /* of the whole run */
    int leaf;                               /* the stage that read most rows; -1: none */
} look;

/* Waits with this cause. */
static double waits_of(const look *k, hr_cause cause) { return k->wait_ns * hr__share(k->cause_ns[cause], k->all_ns); }

/* Waits for threads, whatever they did. */
static double waits_for_threads(const look *k)
{
    return waits_of(k, HR_CAUSE_THREADS) + waits_of(k, HR_CAUSE_TICKET) + waits_of(k, HR_CAUSE_FEW) +
           waits_of(k, HR_CAUSE_HANDOVER) + waits_of(k, HR_CAUSE_OPENING);
}

/* The time of an operator if the files came in few large tables. A rebatch then cuts each batch out of one of them, and
 * does not put it together from many; other operators count as they were. */
static double with_large_tables(const hr_op_view *o)
{
    double busy = (double)o->sums.call.busy_ns;

    if (o->table_rows < 1 || o->sums.rows_out < 1)
        return busy;
    return busy * hr__share((double)o->sums.rows_out / (double)o->table_rows, (double)o->sums.call.calls);
}

/* The time of all operators. large: if the files came in few large tables. */
static double busy_of_operators(const look *k, bool large, bool serial_alone)
{
    double busy = 0;

    for (int i = 0; i < k->run->n_ops; i++)
        if (k->run->ops[i].is_serial || !serial_alone)
            busy += large ? with_large_tables(&k->run->ops[i]) : (double)k->run->ops[i].sums.call.busy_ns;
    return busy;
}

/* Waits for serial operators that did not run: they get many small tables one by one, and each time want a thread. */
static double waits_for_tables(const look *k, bool large)
{
    return HR_MAX(0, waits_of(k, HR_CAUSE_SERIAL) - busy_of_operators(k, large, true));
}

/* The part of the whole run that the period is, by rows. */
static double of_period(const look *k)
{
    const hr_stage_view *s = &k->run->stages[k->leaf];

    return s->all_ticket_rows ? hr__share((double)s->sums.ticket_rows, (double)s->all_ticket_rows) : 1;
}

/* A place for the next finding, if it saves so much of the waits; NULL: it does not, or there are enough. */
static hr_finding *found(look *k, double saved_ns)
{
    double left = HR_MAX(k->period_ns - saved_ns, k->period_ns / 100);
    hr_finding *f = &k->v->files[k->v->n_files];

    if (k->v->n_files == HR_LEN(k->v->files) || k->period_ns / left < WORTH)
        return NULL;
    k->v->n_files++;
    *f = (hr_finding){ .gain = k->period_ns / left };
    return f;
}

static int64_t pieces_of(int64_t bytes, int64_t each) { return HR_MAX(1, (bytes + each - 1) / each); }

/* Requests to a store that bring few bytes each. */
static void small_requests(look *k)
{
    const hr_io_sums *io = &k->run->all_io[HR_IO_NETWORK];
    int64_t few = pieces_of(io->bytes, GOOD_REQUEST);
    double first = hr__share((double)io->first_ns, (double)io->ns), saved;
    hr_finding *f;

    if (io->requests < SOME || io->bytes / io->requests >= SMALL_REQUEST)
        return;
    saved = waits_of(k, HR_CAUSE_NETWORK) * first * (1 - hr__share((double)few, (double)io->requests));
    if (k->e->is_whole)
        saved = HR_MIN(saved, k->period_ns - hr__request_ns(io));
    if (!(f = found(k, saved)))
        return;
    snprintf(f->text, sizeof f->text,
             "%" PRId64 " requests for %" PRId64 " file%s brought %s each, and %.0f %% of their time passed before "
             "the first byte",
             io->requests, HR_MAX(k->files, 1), k->files > 1 ? "s" : "",
             hr__bytes_label((double)io->bytes / (double)io->requests).text, 100 * first);
    snprintf(f->advice, sizeof f->advice, "write files, row groups or chunks of %s: about %" PRId64 " request%s",
             hr__bytes_label(GOOD_REQUEST).text, few, few == 1 ? "" : "s");
}

/* A store whose bytes are waited for: a copy on the disk helps each later epoch. */
static void slow_source(look *k)
{
    const hr_io_sums *io = &k->run->all_io[HR_IO_NETWORK];
    hr_finding *f;

    if (io->requests < 1 || !(f = found(k, waits_of(k, HR_CAUSE_NETWORK))))
        return;
    snprintf(f->text, sizeof f->text, "the store brought %s/s, and %.0f %% of the time was a wait for it",
             hr__bytes_label((double)k->run->sums.io[HR_IO_NETWORK].bytes / HR_MAX(k->period_ns, 1) * 1e9).text,
             100 * hr__share(waits_of(k, HR_CAUSE_NETWORK), k->period_ns));
    snprintf(
        f->advice, sizeof f->advice,
        "keep the files in the cache (HEADRACE_CACHE_DIR, cache=): from the second epoch on they come from the disk");
}

/* Many small files, or many small fragments, of a disk. */
static void small_pieces(look *k)
{
    bool of_files = k->files >= MANY && k->fragments < 4 * k->files;
    int64_t n = of_files ? k->files : k->fragments;
    double ideal = ((double)k->stored / BYTES_A_SECOND + (double)k->rows / ROWS_A_SECOND) * 1e9 * of_period(k);
    double took = (double)k->run->sums.active_ns, rest = HR_MIN(ideal + busy_of_operators(k, true, false), took);
    hr_finding *f;

    if (n < MANY || k->run->all_io[HR_IO_NETWORK].requests > 0 || k->stored / n >= SMALL_PIECE)
        return;
    if (!(f = found(k, (waits_for_threads(k) + waits_for_tables(k, true)) * (1 - hr__share(rest, took)))))
        return;
    snprintf(f->text, sizeof f->text, "%" PRId64 " %s of %s each were read, %.0f us of each for the beginning", n,
             of_files ? "files" : "fragments", hr__bytes_label((double)k->stored / (double)n).text,
             (took - rest) / (double)n / of_period(k) / 1e3);
    snprintf(f->advice, sizeof f->advice, "write %s of %s: %" PRId64,
             of_files ? "files" : "fragments (row groups, chunks)", hr__bytes_label(GOOD_PIECE).text,
             pieces_of(k->stored, GOOD_PIECE));
}

/* Fewer fragments than threads, or one that is much larger than the others. */
static void uneven(look *k)
{
    const hr_stage_view *s = &k->run->stages[k->leaf];
    double mean =
        s->all_tickets > 1 ? (double)(s->all_ticket_rows - s->longest.rows) / (double)(s->all_tickets - 1) : 0;
    hr_finding *f;

    if (mean > 0 && s->all_tickets > 3 && (double)s->longest.rows > LARGER * mean) {
        if (!(f = found(k, k->wait_ns * hr__share((double)s->longest.blamed_ns, k->all_ns) *
                               (1 - mean / (double)s->longest.rows))))
            return;
        snprintf(f->text, sizeof f->text, "fragment %d of %s has %" PRId64 " rows, others %.0f: all waited for it",
                 s->longest.begin.fragment, s->longest_file ? s->longest_file : "the input", s->longest.rows, mean);
        snprintf(f->advice, sizeof f->advice, "write row groups of one size: %.0f rows", mean);
    } else if (s->all_tickets < k->run->n_threads) {
        double idle = 1 - (double)HR_MAX(s->all_tickets, 1) / k->run->n_threads;

        if (!(f = found(k, (waits_of(k, HR_CAUSE_FEW) + waits_of(k, HR_CAUSE_TICKET)) * idle)))
            return;
        snprintf(f->text, sizeof f->text, "%" PRId64 " pieces were read, for %d threads", HR_MAX(s->all_tickets, 1),
                 k->run->n_threads);
        snprintf(f->advice, sizeof f->advice, "write row groups or files of %" PRId64 " rows",
                 HR_MAX(1, s->all_ticket_rows / (2 * k->run->n_threads)));
    }
}

/* Of the rows of the stage, those that a filter or a sample in it kept. *by: the operator; NULL: none is there. */
static double kept_by(const look *k, const hr_op_view **by)
{
    double least = 1;

    *by = NULL;
    for (int i = 0; i < k->run->n_ops; i++) {
        const hr_op_view *o = &k->run->ops[i];
        double used = hr__share((double)o->sums.rows_out, (double)o->sums.rows_in);

        if (o->stage != k->leaf || (strncmp(o->name, "filter(", 7) != 0 && !strstr(o->name, "sample")))
            continue;
        if (o->sums.rows_in > 0 && used <= least) {
            least = used;
            *by = o;
        }
    }
    return least;
}

/* A filter (also one that the reader applies), a sample, a limit, a resume: few of the rows of the fragments are
 * wanted. */
static void unused_rows(look *k)
{
    const hr_stage_view *s = &k->run->stages[k->leaf];
    const hr_op_view *by;
    double kept = kept_by(k, &by),
           wanted = s->fragment_rows ? hr__share((double)s->rows_read, (double)s->fragment_rows) : 1;
    double used = kept * wanted, least = HR_MAX(used, 1.0 / (double)HR_MAX(s->fragments, 1)); /* one is read */
    hr_finding *f;

    if (used >= UNUSED || s->fragments < 2 ||
        !(f = found(k, (waits_for_threads(k) + waits_for_tables(k, false)) * (1 - least))))
        return;
    snprintf(f->text, sizeof f->text,
             "%.2g %% of %" PRId64 " rows were wanted, and their %" PRId64 " fragments (row groups) were read%s%.60s",
             100 * used, HR_MAX(s->fragment_rows, s->rows_read), s->fragments, by ? ": " : "", by ? by->name : "");
    snprintf(
        f->advice, sizeof f->advice,
        "sort the files by the columns that choose the rows, and write smaller row groups: the others are not read");
}

static look look_at(const hr_evidence *e, hr_verdict *v)
{
    look k = { .e = e, .run = e->run, .v = v, .leaf = -1 };

    k.period_ns = (double)(e->steps.wait_ns + e->steps.step_ns);
    k.wait_ns = (double)e->steps.wait_ns;
    for (int i = 0; i < e->run->n_stages; i++) {
        const hr_stage_view *s = &e->run->stages[i];

        for (int c = 0; c < HR_N_CAUSES; c++) {
            k.cause_ns[c] += (double)s->sums.cause_ns[c];
            k.all_ns += (double)s->sums.cause_ns[c];
        }
        k.files += s->files;
        k.fragments += s->fragments;
        k.stored += s->stored_bytes;
        k.rows += s->rows_read;
        if (s->is_leaf && (k.leaf < 0 || s->rows_read > e->run->stages[k.leaf].rows_read))
            k.leaf = i;
    }
    return k;
}

void hr__file_findings(const hr_evidence *e, hr_verdict *v)
{
    look k = look_at(e, v);

    v->n_files = 0;
    if (!v->starved || k.leaf < 0 || k.stored < 1)
        return;
    small_requests(&k);
    slow_source(&k);
    small_pieces(&k);
    uneven(&k);
    unused_rows(&k);
}
