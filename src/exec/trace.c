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
 * A trace may be *watched*: hr__trace_news gives what is new since the last call, with short spans of BIN_NS summed up,
 * so that a page can draw a run that goes on. A run that is watched and writes no file sums them up at once, and keeps
 * WATCHED_EVENTS.
 *
 * Lock: `lock` is a leaf.
 *
 * Tests: test_run.c, test_trace.py. */
#include "exec/run.h"

#include "base/number.h"
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
#define FAST 1 /* level of compression */
#define WATCHED_EVENTS (1 << 16)
#define BIN_NS 10000000 /* of watched traces: less than a pixel, if a page shows ten seconds or more */
#define MAX_BINS 256    /* pairs of a track and a name */

typedef enum event_kind { EVENT_SPAN, EVENT_WAIT, EVENT_CONSUMER, EVENT_RANK, EVENT_COUNTERS } event_kind;

typedef struct event {
    const char *name;
    int64_t begin_ns, end_ns;
    int64_t rows;    /* counters: bytes in memory */
    int64_t spilled; /* counters: bytes in spill files, written so far */
    int track;       /* a thread, a lane, or a rank */
    int many;        /* spans that it stands for */
    event_kind kind;
} event;

/* Tracks are drawn in this order: consumer 0, threads from 1, ranks and lanes behind them. */
static int track_of(const event *e)
{
    switch (e->kind) {
    case EVENT_SPAN: return e->track + 1;
    case EVENT_WAIT: return LANE_BASE + e->track;
    case EVENT_RANK: return RANK_BASE + e->track;
    default: return 0;
    }
}

/* Short spans of a track and a name that begin in the same BIN_NS, as one. */
typedef struct bin {
    event sum; /* many 0: none */
    int64_t index;
} bin;

typedef struct bins {
    bin list[MAX_BINS];
    int n;
} bins;

typedef void span_fn(void *context, const event *e);

struct hr_trace {
    hr_mutex lock;
    hr_account *account;
    char *path;    /* NULL: it is watched, and writes no file */
    char *stats;   /* JSON; NULL: none */
    event *events; /* a ring once it is full: `head` is the oldest */
    int64_t n, cap, head, n_lost, zero_ns, sampled_ns;
    int64_t seen, watch_zero_ns;  /* events that hr__trace_news has given, lost ones too; its times begin there */
    int64_t lane_ends[MAX_LANES]; /* when the last span of a lane ends */
    const char *lane_names[MAX_LANES];
    bins bins; /* without a file */
};

/* "FOLDER/trace.json.gz", 2 -> "FOLDER/trace-2.json.gz"; `mark` comes before the suffix. */
static char *marked(hr_account *a, const char *path, const char *mark)
{
    const char *name = strrchr(path, '/');
    const char *dot = strchr(name ? name + 1 : path, '.');
    int n = dot ? (int)(dot - path) : (int)strlen(path);

    return hr__printf(a, "%.*s%s%s", n, path, mark, dot ? dot : "");
}

/* The rank that a launcher gives, of docs/launchers.md; NULL: there is none, or it is 0. */
static const char *rank_of_environment(void)
{
    static const char *const names[] = { "HEADRACE_RANK",       "RANK",     "OMPI_COMM_WORLD_RANK",
                                         "MV2_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID" };

    for (int i = 0; i < HR_LEN(names); i++) {
        const char *rank = getenv(names[i]);

        if (rank && *rank && strspn(rank, "0123456789") == strlen(rank) && strlen(rank) < 10)
            return strcmp(rank, "0") != 0 ? rank : NULL;
    }
    return NULL;
}

/* The file of HEADRACE_TRACE: the process's later runs, a launcher's other ranks, and forked processes, such as the
 * workers of a DataLoader, write files beside it. In a folder, "FOLDER/", it has a name of ours. */
static char *path_of_environment(hr_account *a, const char *path)
{
    static atomic_int n_runs;
    int run = atomic_fetch_add(&n_runs, 1) + 1, n = 0;
    const char *rank = rank_of_environment();
    bool is_folder = path[strlen(path) - 1] == '/';
    char mark[64] = "";

    if (rank)
        n = snprintf(mark, sizeof mark, "-rank%s", rank);
    if (hr__is_fork())
        n += snprintf(mark + n, sizeof mark - (size_t)n, "-process%d", hr__pid());
    if (run > 1)
        snprintf(mark + n, sizeof mark - (size_t)n, "-%d", run);
    return is_folder ? hr__printf(a, "%strace%s.json.gz", path, mark) : marked(a, path, mark);
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

hr_status hr__trace_watch_new(hr_account *a, int64_t zero_ns, hr_trace **out, hr_error *err)
{
    hr_trace *t = *out = hr__zalloc(a, sizeof *t);

    if (!t)
        return hr__error_memory(err, "trace", sizeof *t);
    hr__mutex_init(&t->lock);
    t->account = a;
    t->zero_ns = t->watch_zero_ns = zero_ns;
    return HR_OK;
}

void hr__trace_watch(hr_trace *t, int64_t zero_ns)
{
    hr__lock(&t->lock);
    t->watch_zero_ns = zero_ns;
    t->seen = 0;
    hr__unlock(&t->lock);
}

bool hr__trace_writes(const hr_trace *t) { return t && t->path; }

static void add_locked(hr_trace *t, event e)
{
    if (t->n < (t->path ? MAX_EVENTS : WATCHED_EVENTS) &&
        hr__grow(t->account, (void **)&t->events, &t->cap, t->n + 1, sizeof *t->events)) {
        t->events[t->n++] = e;
        return;
    }
    t->n_lost++;
    if (!t->n)
        return;
    t->events[t->head] = e;
    t->head = (t->head + 1) % t->n;
}

/* A span_fn. */
static void keep_locked(void *context, const event *e) { add_locked(context, *e); }

static bin *bin_of(bins *b, const event *e)
{
    for (int i = 0; i < b->n; i++)
        if (b->list[i].sum.track == e->track && b->list[i].sum.name == e->name && b->list[i].sum.kind == e->kind)
            return &b->list[i];
    if (b->n == MAX_BINS)
        return NULL;
    b->list[b->n].sum = (event){ .track = e->track, .name = e->name, .kind = e->kind };
    return &b->list[b->n++];
}

/* Gives the span to `out`, or, if it is short, adds it to its bin, which `out` gets when it is over. */
static void bins_add(bins *b, int64_t zero_ns, event e, span_fn *out, void *context)
{
    int64_t ns = e.end_ns - e.begin_ns, index = (e.begin_ns - zero_ns) / BIN_NS;
    bin *of = ns < BIN_NS ? bin_of(b, &e) : NULL;

    e.many = 1;
    if (!of) {
        out(context, &e);
    } else if (of->sum.many && of->index == index) {
        of->sum.end_ns += ns;
        of->sum.many++;
    } else {
        if (of->sum.many)
            out(context, &of->sum);
        of->sum = e;
        of->index = index;
    }
}

static void bins_end(bins *b, span_fn *out, void *context)
{
    for (int i = 0; i < b->n; i++) {
        if (b->list[i].sum.many)
            out(context, &b->list[i].sum);
        b->list[i].sum.many = 0;
    }
}

/* All spans come here. */
static void record_locked(hr_trace *t, event e)
{
    if (t->path)
        add_locked(t, e);
    else
        bins_add(&t->bins, t->watch_zero_ns, e, keep_locked, t);
}

static void sample_locked(hr_trace *t, int64_t now)
{
    if (!t->path || now - t->sampled_ns < SAMPLE_NS)
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
    record_locked(
        t,
        (event){
            .kind = EVENT_SPAN, .name = name, .begin_ns = begin_ns, .end_ns = end_ns, .rows = rows, .track = thread });
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
    record_locked(t, (event){ .kind = EVENT_WAIT,
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
    record_locked(t, (event){ .kind = EVENT_CONSUMER, .name = "wait", .begin_ns = begin_ns, .end_ns = end_ns });
    sample_locked(t, end_ns);
    hr__unlock(&t->lock);
}

void hr__trace_rank(hr_trace *t, int rank, const char *name, int64_t begin_ns, int64_t end_ns)
{
    begin_ns = t ? HR_MAX(begin_ns, t->zero_ns) : 0; /* it may have asked for its epoch before the run began */
    if (!t || end_ns <= begin_ns)
        return;
    hr__lock(&t->lock);
    record_locked(t,
                  (event){ .kind = EVENT_RANK, .name = name, .begin_ns = begin_ns, .end_ns = end_ns, .track = rank });
    sample_locked(t, end_ns);
    hr__unlock(&t->lock);
}

/* ---------------------------------------------------------------------------------------------------------- writing */

/* ------------------------------------------------------------------------------------------------------------- news */

typedef struct news {
    hr_trace *trace;
    hr_text *out;
    bins bins;
} news;

static void print_news(void *context, const event *e)
{
    news *w = context;

    hr__text_add(w->out, "%s[%d,%" PRId64 ",%" PRId64 ",", w->out->n ? "," : "", track_of(e),
                 (e->begin_ns - w->trace->watch_zero_ns) / 1000, (e->end_ns - e->begin_ns) / 1000);
    hr__text_add_json(w->out, e->name);
    hr__text_add(w->out, ",%d]", e->many);
}

/* Copies the events since the last call. *events is new; NULL: there are none, or no memory. */
static int64_t new_events(hr_trace *t, event **events, int64_t *lost)
{
    int64_t n, first;

    hr__lock(&t->lock);
    bins_end(&t->bins, keep_locked, t);
    first = HR_MAX(t->seen, t->n_lost);
    n = t->n + t->n_lost - first;
    *lost = first - t->seen;
    t->seen = t->n + t->n_lost;
    *events = n > 0 ? hr__alloc(NULL, (size_t)n * sizeof **events) : NULL;
    for (int64_t i = 0; *events && i < n; i++)
        (*events)[i] = t->events[(t->head + first - t->n_lost + i) % t->n];
    hr__unlock(&t->lock);
    return *events ? n : 0;
}

/* Of a trace with a file all spans are there: they are summed up now. Those of ranks the split has. */
static void add_news(news *w, const event *e)
{
    if (!w->trace->path)
        print_news(w, e);
    else if (e->kind != EVENT_COUNTERS && e->kind != EVENT_RANK)
        bins_add(&w->bins, w->trace->watch_zero_ns, *e, print_news, w);
}

hr_status hr__trace_news(hr_trace *t, hr_text *out, hr_error *err)
{
    news *w = hr__zalloc(NULL, sizeof *w);
    int64_t n, lost;
    event *events;

    if (!w)
        return hr__error_memory(err, "trace", sizeof *w);
    w->trace = t;
    w->out = out;
    n = new_events(t, &events, &lost);
    if (lost)
        hr__text_add(out, "%s[-1,0,0,\"lost\",%" PRId64 "]", out->n ? "," : "", lost);
    for (int64_t i = 0; i < n; i++)
        add_news(w, &events[i]);
    bins_end(&w->bins, print_news, w);
    hr__free(events);
    hr__free(w);
    return out->failed ? hr__error_memory(err, "trace", out->n) : HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- file */

/* Text of an event, before its name. Printed by hand: printf would take more time than all the rest of a trace. */
typedef struct line {
    char bytes[256]; /* six words of less than 24 letters, and four numbers */
    int n;
} line;

static void line_word(line *l, const char *word)
{
    size_t n = strlen(word);

    memcpy(l->bytes + l->n, word, n);
    l->n += (int)n;
}

static void line_number(line *l, int64_t number) { l->n += hr__print_int64(number, l->bytes + l->n); }

/* Microseconds, with three digits behind the point. */
static void line_us(line *l, int64_t ns)
{
    int64_t part = ns < 0 ? -(ns % 1000) : ns % 1000;

    if (ns < 0 && ns > -1000)
        l->bytes[l->n++] = '-'; /* of "-0" */
    line_number(l, ns / 1000);
    l->bytes[l->n++] = '.';
    l->bytes[l->n++] = (char)('0' + part / 100);
    l->bytes[l->n++] = (char)('0' + part / 10 % 10);
    l->bytes[l->n++] = (char)('0' + part % 10);
}

static void print_counter(const hr_trace *t, const event *e, const char *name, int64_t n_bytes, hr_text *out)
{
    line l = { .n = 0 };

    line_word(&l, "{\"ph\":\"C\",\"pid\":");
    line_number(&l, hr__pid());
    line_word(&l, ",\"ts\":");
    line_us(&l, e->begin_ns - t->zero_ns);
    line_word(&l, ",\"args\":{\"bytes\":");
    line_number(&l, n_bytes);
    line_word(&l, "},\"name\":\"");
    line_word(&l, name);
    line_word(&l, "\"}");
    hr__text_add_bytes(out, l.bytes, l.n);
}

static void print_event(const hr_trace *t, const event *e, hr_text *out)
{
    line l = { .n = 0 };

    if (e->kind == EVENT_COUNTERS) {
        print_counter(t, e, "memory", e->rows, out);
        hr__text_add_bytes(out, ",\n", 2);
        print_counter(t, e, "spilled", e->spilled, out);
        return;
    }
    line_word(&l, "{\"ph\":\"X\",\"pid\":");
    line_number(&l, hr__pid());
    line_word(&l, ",\"tid\":");
    line_number(&l, track_of(e));
    line_word(&l, ",\"ts\":");
    line_us(&l, e->begin_ns - t->zero_ns);
    line_word(&l, ",\"dur\":");
    line_us(&l, e->end_ns - e->begin_ns);
    if (e->kind == EVENT_SPAN) {
        line_word(&l, ",\"args\":{\"rows\":");
        line_number(&l, e->rows);
        line_word(&l, "}");
    }
    line_word(&l, ",\"name\":");
    hr__text_add_bytes(out, l.bytes, l.n);
    hr__text_add_json(out, e->name);
    hr__text_add_bytes(out, "}", 1);
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

    if (n_path < 3 || strcasecmp(t->path + n_path - 3, ".gz") != 0 || !gzip->pack) {
        rc = hr__file_write(fd, text->data, text->n);
    } else {
        cap = gzip->max_packed_bytes(text->n);
        packed = hr__alloc(t->account, (size_t)cap);
        rc = !packed || gzip->pack(all, packed, cap, FAST, &n, NULL) ? -ENOMEM : hr__file_write(fd, packed, n);
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
        hr__text_add_bytes(&text, ",\n", 2);
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

/* The file has its name when it is complete: other processes may write one of the same name, and the disk may fill.
 * What is no regular file, or lies in a folder that takes no files, is written in place. -> 0, or -errno. */
static int write_file(const hr_trace *t)
{
    static atomic_int n_files;
    char *part = NULL;
    int fd = -1, rc, closed = 0;

    if (hr__file_may_replace(t->path))
        part = hr__printf(t->account, "%s.%d-%d.part", t->path, hr__pid(), atomic_fetch_add(&n_files, 1));
    if (part && (fd = hr__file_create_new(part)) < 0) {
        hr__free(part);
        part = NULL;
    }
    if (fd < 0)
        fd = hr__file_create(t->path);
    rc = fd < 0 ? fd : write_events(t, fd);
    if (fd >= 0)
        closed = hr__file_close_written(fd);
    rc = rc ? rc : closed;
    if (part && !rc)
        rc = hr__file_rename(part, t->path, true);
    if (part && rc)
        (void)hr__file_remove(part);
    hr__free(part);
    return rc;
}

void hr__trace_stats(hr_trace *t, const char *stats)
{
    hr__free(t->stats);
    t->stats = hr__strdup(t->account, stats);
}

void hr__trace_close(hr_trace *t, bool write)
{
    int rc;

    if (!t)
        return;
    rc = write && t->path ? write_file(t) : 0;
    if (rc) /* not an error: the run itself succeeded */
        hr__log(HR_LOG_WARNING, "%s: the trace cannot be written: %s", t->path, strerror(-rc));
    hr__mutex_clear(&t->lock);
    hr__free(t->events);
    hr__free(t->stats);
    hr__free(t->path);
    hr__free(t);
}
