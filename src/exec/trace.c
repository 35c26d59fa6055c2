/* trace.c - spans of a run as Chrome trace events, which Perfetto and chrome://tracing open.
 *
 * The run keeps at most MAX_SPANS spans in memory and writes them when it closes: tracing must not add I/O to the run.
 * Names are borrowed: they belong to operators that live as long as the run.
 *
 * Tests: test_run.c. */
#include "exec/run.h"

#include <inttypes.h>

#define MAX_SPANS (1 << 20)

typedef struct span {
    const char *name;
    int64_t begin_ns, end_ns, rows;
    int thread;
} span;

struct hr_trace {
    hr_mutex lock;
    hr_account *account;
    char *path;
    span *spans;
    int64_t n, cap, n_lost, zero_ns;
};

hr_status hr__trace_new(const char *path, hr_account *a, hr_trace **out, hr_error *err)
{
    hr_trace *t = hr__zalloc(a, sizeof *t);

    *out = NULL;
    if (!t || !(t->path = hr__strdup(a, path))) {
        hr__free(t);
        return hr__error_memory(err, "trace", sizeof *t);
    }
    hr__mutex_init(&t->lock);
    t->account = a;
    t->zero_ns = hr__clock_ns();
    *out = t;
    return HR_OK;
}

void hr__trace_span(hr_trace *t, const char *name, int thread, int64_t begin_ns, int64_t end_ns, int64_t rows)
{
    if (!t)
        return;
    hr__lock(&t->lock);
    if (t->n < MAX_SPANS && hr__grow(t->account, (void **)&t->spans, &t->cap, t->n + 1, sizeof *t->spans))
        t->spans[t->n++] = (span){ name, begin_ns, end_ns, rows, thread };
    else
        t->n_lost++;
    hr__unlock(&t->lock);
}

static void print_span(const hr_trace *t, const span *s, hr_text *out)
{
    hr__text_add(
        out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"rows\":%" PRId64 "},\"name\":",
        hr__pid(), s->thread, (double)(s->begin_ns - t->zero_ns) / 1e3, (double)(s->end_ns - s->begin_ns) / 1e3,
        s->rows);
    hr__text_add_json(out, s->name);
    hr__text_add(out, "}");
}

static void write_spans(hr_trace *t)
{
    hr_text text = { .account = t->account };
    int fd = hr__file_create(t->path);

    if (fd < 0) { /* not an error: the run itself succeeded */
        hr__log(HR_LOG_WARNING, "%s: the trace cannot be written: %s", t->path, strerror(-fd));
        return;
    }
    hr__text_add(&text, "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"spans_lost\":%" PRId64 "},\"traceEvents\":[\n",
                 t->n_lost);
    for (int64_t i = 0; i < t->n && !text.failed; i++) {
        if (i)
            hr__text_add(&text, ",\n");
        print_span(t, &t->spans[i], &text);
        if (text.n > 1 << 20) {
            if (hr__file_write(fd, text.data, text.n) < 0)
                break;
            text.n = 0;
        }
    }
    hr__text_add(&text, "\n]}\n");
    if (text.n)
        (void)hr__file_write(fd, text.data, text.n);
    hr__text_clear(&text);
    hr__file_close(fd);
}

void hr__trace_close(hr_trace *t)
{
    if (!t)
        return;
    write_spans(t);
    hr__mutex_clear(&t->lock);
    hr__free(t->spans);
    hr__free(t->path);
    hr__free(t);
}
