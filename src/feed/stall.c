/* stall.c - explains, once for each run, why a consumer waits long, and ends a wait that is too long.
 *
 * A run is still while its consumer waits, and no step of a ticket begins or ends, no table passes on and no ticket
 * resumes. After HEADRACE_STALL_WARNING seconds (10; 0: never) the log gets one line: what the oldest rows wait for,
 * and what each stage holds. After HEADRACE_STALL_TIMEOUT seconds (0, the default: never) the wait is an error with the
 * same text, instead of a hang. The consumer's own thread looks, when a wait has brought nothing.
 *
 * Tests: test_stalls.py. */
#include "feed/stall.h"

#include <inttypes.h>
#include <stdlib.h>

#define USUAL_WARNING_S 10.0

static double seconds_of(const char *name, double usual)
{
    const char *text = getenv(name);
    char *end;
    double s = text ? strtod(text, &end) : 0;

    return text && *text && !*end && s >= 0 && s < 1e9 ? s : usual;
}

void hr__stall_init(hr_stall_watch *w)
{
    w->warning_ns = (int64_t)(seconds_of("HEADRACE_STALL_WARNING", USUAL_WARNING_S) * 1e9);
    w->timeout_ns = (int64_t)(seconds_of("HEADRACE_STALL_TIMEOUT", 0) * 1e9);
    w->warned = false;
}

static const hr_op_view *op_of(const hr_run_view *v, bool serial, bool calls)
{
    for (int i = 0; i < v->n_ops; i++)
        if (v->ops[i].stage == v->cause_stage && v->ops[i].is_serial == serial && (!calls || v->ops[i].calls))
            return &v->ops[i];
    return NULL;
}

static const char *name_of(const hr_run_view *v)
{
    const hr_op_view *o = op_of(v, true, false);

    return o ? o->name : "an operator";
}

/* Workers that import a large package on a busy machine take longer than a call. */
static void say_function(const hr_run_view *v, hr_text *out)
{
    const hr_op_view *o = op_of(v, false, true);

    hr__text_add(out, "%s has not returned", o ? o->name : "a function");
    if (o && !o->sums.served.calls && !o->sums.served.here)
        hr__text_add(out, " once (its workers start and import modules, or are in their first calls)");
}

static void say_cause(const hr_run_view *v, hr_text *out)
{
    switch (v->cause) {
    case HR_CAUSE_SERIAL: hr__text_add(out, "%s works, on one thread", name_of(v)); break;
    case HR_CAUSE_THREADS: hr__text_add(out, "all %d threads work", v->n_active); break;
    case HR_CAUSE_FUNCTION: say_function(v, out); break;
    case HR_CAUSE_NETWORK: hr__text_add(out, "bytes of the network have not come"); break;
    case HR_CAUSE_MEMORY: hr__text_add(out, "the memory limit refuses the next step"); break;
    case HR_CAUSE_OPENING: hr__text_add(out, "a file is being opened"); break;
    case HR_CAUSE_HANDOVER: hr__text_add(out, "work waits for a thread"); break;
    default: hr__text_add(out, "one thread works on the oldest rows");
    }
}

static void say_stage(const hr_run_view *v, int i, hr_text *out)
{
    const hr_stage_view *s = &v->stages[i];
    bool any = s->is_leaf;

    if (s->does == HR_STAGE_ENDED)
        return;
    hr__text_add(out, "; %s", s->is_leaf ? "read" : "");
    for (int k = 0; k < v->n_ops; k++)
        if (v->ops[k].stage == i) {
            hr__text_add(out, "%s%s", any ? " -> " : "", v->ops[k].name);
            any = true;
        }
    hr__text_add(out,
                 ": %" PRId64 " of %d tickets, %d run, %d wait for a function, %d for the network; %" PRId64
                 " tables wait before it",
                 s->n_window, s->window, s->n_running, s->n_calling, s->n_receiving, s->n_queue);
}

static void say_oldest(const hr_run_view *v, hr_text *out)
{
    const hr_stage_view *s = v->cause_stage < 0 ? NULL : &v->stages[v->cause_stage];

    if (!s || !s->n_window)
        return;
    hr__text_add(out, ", at row %" PRId64, s->oldest.row);
    if (s->oldest_file)
        hr__text_add(out, " of %s, fragment %d", s->oldest_file, s->oldest.fragment);
}

static void explain(const hr_run_view *v, double seconds, hr_text *out)
{
    hr__text_add(out, "no batch for %.1f s: ", seconds);
    say_cause(v, out);
    say_oldest(v, out);
    for (int i = v->n_stages - 1; i >= 0; i--)
        say_stage(v, i, out);
    hr__text_add(out, "; memory: %" PRId64 " of %" PRId64 " bytes", v->used_bytes, v->limit_bytes);
}

hr_status hr__stall_look(hr_stall_watch *w, hr_run *r, int64_t waits_since_ns, hr_error *err)
{
    int64_t now = hr__clock_ns(), still, least = w->timeout_ns;
    hr_run_view v;
    hr_text text = { 0 };
    hr_status st = HR_OK;

    if (w->warning_ns && !w->warned)
        least = least ? HR_MIN(least, w->warning_ns) : w->warning_ns;
    if (!least || now - waits_since_ns < least || now - hr__run_moved_ns(r) < least)
        return HR_OK;
    if (hr__run_view(r, -1, &v, NULL))
        return HR_OK; /* no memory for the text now: the next look tries again */
    still = now - HR_MAX(waits_since_ns, v.moved_ns);
    explain(&v, (double)(now - waits_since_ns) / 1e9, &text);
    hr__run_view_clear(&v);
    if (text.data && !text.failed && w->warning_ns && still >= w->warning_ns && !w->warned) {
        w->warned = true;
        hr__log(HR_LOG_WARNING, "%s", text.data);
    }
    if (w->timeout_ns && still >= w->timeout_ns)
        st = hr_error_set(err, HR_PEER, "nothing moved for %.1f s (HEADRACE_STALL_TIMEOUT): %s", (double)still / 1e9,
                          text.data && !text.failed ? text.data : "");
    hr__text_clear(&text);
    return st;
}
