/* trace.c - what a run did when, as Chrome trace events, which Perfetto, chrome://tracing and headrace.observe open.
 *
 * Tracks are threads of one process, which Perfetto draws one below the other. Spans of a track never overlap:
 *
 *     rank N       of a split: waits of the rank, its steps, and the calls of report() within them
 *     consumer     waits of who takes the tables: the white spaces between them are the trainer's steps. Of a split:
 *                  of the rank that takes them for all
 *     thread N     calls of operators and reads, of a pool thread
 *     NAME N       tickets that wait for a result from elsewhere: a function's, or bytes of the network. Those that
 *                  wait at the same time get lanes of their own
 *
 * and counters: bytes of data in memory, bytes in spill files. The file also has the statistics of the run.
 *
 * Memory is a ring of MAX_EVENTS: the newest are kept. Nothing is written before the run closes, so a trace costs no
 * I/O meanwhile. A run from which nobody took writes none: an epoch that opened early, and was not wanted. Names are
 * borrowed: they belong to classes of operators. A path that ends in ".gz" is compressed.
 *
 * Lock: `lock` is a leaf.
 *
 * Tests: test_run.c, test_trace.py. */
#include "exec/run.h"

#include "codec/codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_EVENTS (1 << 20)
#define SAMPLE_NS 5000000   /* between two samples of the counters */
#define SHORT_WAIT_NS 20000 /* a table was there; the track of the consumer stays white */
#define MAX_LANES 64        /* of waiting tickets; the others share the last one */
#define LANE_BASE 100000    /* numbers of their tracks */
#define RANK_BASE 50000     /* of the ranks' tracks */
#define WRITE_BYTES (1 << 20)

typedef enum event_kind { EVENT_SPAN, EVENT_WAIT, EVENT_CONSUMER, EVENT_RANK, EVENT_COUNTERS } event_kind;

typedef struct event {
    const char *name;
    int64_t begin_ns, end_ns;
    int64_t rows;    /* counters: bytes in memory */
    int64_t spilled; /* counters: bytes in spill files, written so far */
    int track;       /* a thread, a lane, or a rank */
    event_kind kind;
} event;

struct hr_trace {
    hr_mutex lock;
    hr_account *account;
    char *path;
    char *stats;   /* JSON; NULL: none */
    event *events; /* a ring once it is full: `head` is the oldest */
    int64_t n, cap, head, n_lost, zero_ns, sampled_ns;
    int64_t lane_ends[MAX_LANES]; /* when the last span of a lane ends */
    const char *lane_names[MAX_LANES];
};

/* "FOLDER/trace.json.gz", 2 -> "FOLDER/trace-2.json.gz"; `mark` comes before the suffix. */
static char *marked(hr_account *a, const char *path, const char *mark)
{
    const char *name = strrchr(path, '/');
    const char *dot = strchr(name ? name + 1 : path, '.');
    int n = dot ? (int)(dot - path) : (int)strlen(path);

    return hr__printf(a, "%.*s%s%s", n, path, mark, dot ? dot : "");
}

/* The file of HEADRACE_TRACE: the process's later runs and a launcher's other ranks write files beside it. */
static char *path_of_environment(hr_account *a, const char *path)
{
    static atomic_int n_runs;
    int run = atomic_fetch_add(&n_runs, 1) + 1;
    const char *rank = getenv("RANK");
    char mark[64];
    int n = 0;

    *mark = 0;
    if (rank && strcmp(rank, "0") != 0 && strspn(rank, "0123456789") == strlen(rank) && strlen(rank) < 10)
        n = snprintf(mark, sizeof mark, "-rank%s", rank);
    if (run > 1)
        snprintf(mark + n, sizeof mark - (size_t)n, "-%d", run);
    return marked(a, path, mark);
}

hr_status hr__trace_new(const char *path, hr_account *a, hr_trace **out, hr_error *err)
{
    const char *all = getenv("HEADRACE_TRACE");
    hr_trace *t;

    *out = NULL;
    if (!path && (!all || !*all))
        return HR_OK;
    t = hr__zalloc(a, sizeof *t);
    if (!t || !(t->path = path ? hr__strdup(a, path) : path_of_environment(a, all))) {
        hr__free(t);
        return hr__error_memory(err, "trace", sizeof *t);
    }
    hr__mutex_init(&t->lock);
    t->account = a;
    t->zero_ns = hr__clock_ns();
    *out = t;
    return HR_OK;
}

static void add_locked(hr_trace *t, event e)
{
    if (t->n < MAX_EVENTS && hr__grow(t->account, (void **)&t->events, &t->cap, t->n + 1, sizeof *t->events)) {
        t->events[t->n++] = e;
        return;
    }
    t->n_lost++;
    if (!t->n)
        return;
    t->events[t->head] = e;
    t->head = (t->head + 1) % t->n;
}

static void sample_locked(hr_trace *t, int64_t now)
{
    if (now - t->sampled_ns < SAMPLE_NS)
        return;
    t->sampled_ns = now;
    add_locked(t, (event){ .kind = EVENT_COUNTERS,
                           .begin_ns = now,
                           .rows = hr_memory_used(),
                           .spilled = hr__account_spill_written(t->account) });
}

void hr__trace_span(hr_trace *t, const char *name, int thread, int64_t begin_ns, int64_t end_ns, int64_t rows)
{
    if (!t)
        return;
    hr__lock(&t->lock);
    add_locked(t, (event){ name, begin_ns, end_ns, rows, 0, thread, EVENT_SPAN });
    sample_locked(t, end_ns);
    hr__unlock(&t->lock);
}

/* A lane of this name that is free at `begin`, or a new one. */
static int lane_locked(hr_trace *t, const char *name, int64_t begin, int64_t end)
{
    int lane = MAX_LANES - 1;

    for (int i = MAX_LANES - 1; i >= 0; i--)
        if (!t->lane_names[i] || (t->lane_names[i] == name && t->lane_ends[i] <= begin))
            lane = i;
    t->lane_names[lane] = name;
    t->lane_ends[lane] = end;
    return lane;
}

void hr__trace_pending(hr_trace *t, const char *name, int64_t begin_ns, int64_t end_ns)
{
    if (!t)
        return;
    hr__lock(&t->lock);
    add_locked(t, (event){ .kind = EVENT_WAIT,
                           .name = name,
                           .begin_ns = begin_ns,
                           .end_ns = end_ns,
                           .track = lane_locked(t, name, begin_ns, end_ns) });
    hr__unlock(&t->lock);
}

void hr__trace_consumer(hr_trace *t, int64_t begin_ns, int64_t end_ns)
{
    if (!t || end_ns - begin_ns < SHORT_WAIT_NS)
        return;
    hr__lock(&t->lock);
    add_locked(t, (event){ .kind = EVENT_CONSUMER, .name = "wait", .begin_ns = begin_ns, .end_ns = end_ns });
    sample_locked(t, end_ns);
    hr__unlock(&t->lock);
}

void hr__trace_rank(hr_trace *t, int rank, const char *name, int64_t begin_ns, int64_t end_ns)
{
    begin_ns = t ? HR_MAX(begin_ns, t->zero_ns) : 0; /* it may have asked for its epoch before the run began */
    if (!t || end_ns <= begin_ns)
        return;
    hr__lock(&t->lock);
    add_locked(t, (event){ .kind = EVENT_RANK, .name = name, .begin_ns = begin_ns, .end_ns = end_ns, .track = rank });
    sample_locked(t, end_ns);
    hr__unlock(&t->lock);
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static int track_of(const event *e)
{
    switch (e->kind) {
    case EVENT_SPAN: return e->track + 1;
    case EVENT_WAIT: return LANE_BASE + e->track;
    case EVENT_RANK: return RANK_BASE + e->track;
    default: return 0;
    }
}

static double since(const hr_trace *t, int64_t ns) { return (double)(ns - t->zero_ns) / 1e3; }

static void print_counter(const hr_trace *t, const event *e, const char *name, int64_t n_bytes, hr_text *out)
{
    hr__text_add(out, "{\"ph\":\"C\",\"pid\":%d,\"ts\":%.3f,\"name\":\"%s\",\"args\":{\"bytes\":%" PRId64 "}}",
                 hr__pid(), since(t, e->begin_ns), name, n_bytes);
}

static void print_event(const hr_trace *t, const event *e, hr_text *out)
{
    if (e->kind == EVENT_COUNTERS) {
        print_counter(t, e, "memory", e->rows, out);
        hr__text_add(out, ",\n");
        print_counter(t, e, "spilled", e->spilled, out);
        return;
    }
    hr__text_add(out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,", hr__pid(), track_of(e),
                 since(t, e->begin_ns), (double)(e->end_ns - e->begin_ns) / 1e3);
    if (e->kind == EVENT_SPAN)
        hr__text_add(out, "\"args\":{\"rows\":%" PRId64 "},", e->rows);
    hr__text_add(out, "\"name\":");
    hr__text_add_json(out, e->name);
    hr__text_add(out, "}");
}

static void print_track(const hr_trace *t, int track, hr_text *out)
{
    int order = track >= RANK_BASE && track < LANE_BASE ? track - LANE_BASE : track; /* ranks are the first */

    hr__text_add(out, ",\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":", hr__pid(),
                 track);
    if (track >= LANE_BASE) {
        hr_text name = { .account = t->account };

        hr__text_add(&name, "%s, waiting %d", t->lane_names[track - LANE_BASE], track - LANE_BASE + 1);
        hr__text_add_json(out, name.data ? name.data : "waiting");
        hr__text_clear(&name);
    } else if (track >= RANK_BASE)
        hr__text_add(out, "\"rank %d\"", track - RANK_BASE);
    else if (track)
        hr__text_add(out, "\"thread %d\"", track - 1);
    else
        hr__text_add(out, "\"consumer\"");
    hr__text_add(
        out, "}},\n{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%d}}",
        hr__pid(), track, order);
}

/* Names of the tracks that have spans. */
static void print_tracks(const hr_trace *t, hr_text *out)
{
    int n_threads = 0, n_ranks = 0;
    bool consumer = false;

    for (int64_t i = 0; i < t->n; i++) {
        if (t->events[i].kind == EVENT_SPAN)
            n_threads = HR_MAX(n_threads, t->events[i].track + 1);
        if (t->events[i].kind == EVENT_RANK)
            n_ranks = HR_MAX(n_ranks, t->events[i].track + 1);
        consumer = consumer || t->events[i].kind == EVENT_CONSUMER;
    }
    for (int i = 0; i < n_ranks; i++)
        print_track(t, RANK_BASE + i, out);
    for (int i = consumer ? 0 : 1; i <= n_threads; i++)
        print_track(t, i, out);
    for (int i = 0; i < MAX_LANES && t->lane_names[i]; i++)
        print_track(t, LANE_BASE + i, out);
}

/* Writes what the text has, and empties it. -> 0, or -errno. */
static int flush(const hr_trace *t, int fd, hr_text *text)
{
    const hr_codec *gzip = &hr__codec_gzip;
    size_t n_path = strlen(t->path);
    hr_view all = { (const uint8_t *)text->data, text->n };
    int64_t cap, n;
    uint8_t *packed;
    int64_t rc;

    if (n_path < 3 || strcmp(t->path + n_path - 3, ".gz") != 0 || !gzip->pack) {
        rc = hr__file_write(fd, text->data, text->n);
    } else {
        cap = gzip->max_packed_bytes(text->n);
        packed = hr__alloc(t->account, (size_t)cap);
        rc = !packed || gzip->pack(all, packed, cap, 0, &n, NULL) ? -ENOMEM : hr__file_write(fd, packed, n);
        hr__free(packed);
    }
    text->n = 0;
    return rc < 0 ? (int)rc : 0;
}

static int write_events(const hr_trace *t, int fd)
{
    hr_text text = { .account = t->account };
    int rc = 0;

    hr__text_add(&text,
                 "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"spans_lost\":%" PRId64
                 ",\"stats\":%s},\"traceEvents\":[\n",
                 t->n_lost, t->stats ? t->stats : "null");
    hr__text_add(&text, "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"headrace\"}}",
                 hr__pid());
    print_tracks(t, &text);
    for (int64_t i = 0; i < t->n && !text.failed && !rc; i++) {
        hr__text_add(&text, ",\n");
        print_event(t, &t->events[(t->head + i) % t->n], &text);
        if (text.n > WRITE_BYTES)
            rc = flush(t, fd, &text);
    }
    hr__text_add(&text, "\n]}\n");
    if (!rc)
        rc = text.failed ? -ENOMEM : flush(t, fd, &text);
    hr__text_clear(&text);
    return rc;
}

void hr__trace_stats(hr_trace *t, const char *stats)
{
    hr__free(t->stats);
    t->stats = hr__strdup(t->account, stats);
}

void hr__trace_close(hr_trace *t, bool write)
{
    int fd, rc;

    if (!t)
        return;
    fd = write ? hr__file_create(t->path) : -1;
    rc = fd < 0 ? fd : write_events(t, fd);
    if (fd >= 0)
        hr__file_close(fd);
    if (write && rc) /* not an error: the run itself succeeded */
        hr__log(HR_LOG_WARNING, "%s: the trace cannot be written: %s", t->path, strerror(-rc));
    hr__mutex_clear(&t->lock);
    hr__free(t->events);
    hr__free(t->stats);
    hr__free(t->path);
    hr__free(t);
}
