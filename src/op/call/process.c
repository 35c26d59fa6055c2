/* process.c - worker processes that serve a queue of calls: the driver's side; worker.c is the worker's side.
 *
 * Each worker is at the other end of a link. It runs one call; if calls are short, one more waits in its socket, so
 * that the worker does not idle while a result travels. Long calls go out one by one, because another worker could
 * begin a waiting one. A call goes to the worker with the fewest calls. Input lies in one arena that all workers map,
 * results in the worker's own arena: messages carry descriptors.
 *
 *   INIT bytes            ->                    once
 *   CALL tag place table  ->
 *   RUN run, RUN_END run  ->                    instances of classes: make one, free it
 *   DROP tag              ->                    the call is not wanted: skip it if it has not begun, or streams
 *                         <-  RESULT tag table  any number; STREAM: more follow
 *                         <-  PAUSED tag times  it has many uncollected results and waits for MORE
 *   MORE tag              ->
 *                         <-  STATE tag text    the instance's state before the call's first batch
 *                         <-  DONE tag status
 *   END                   ->                    then the worker closes its end
 *
 * Threads. Only the poller's thread receives and declares workers lost, so messages that a worker sent before it died
 * count. Any thread sends: it picks a call and a worker under the lock and sends without the lock, holding only
 * references. If the send fails because the worker is gone, the poller notices too.
 *
 * When a worker dies, the call that it ran fails or is repeated by another worker (hr__calls_configure); calls that it
 * had not begun go to other workers. The code that starts workers decides whether to replace it, and announces that by
 * hr__calls_expect. With no worker left and none expected, all calls fail. A worker that got END stays listed until it
 * closes its end, because it may still read input; tasks that wait for its results fail at once. */
#include "op/call/calls.h"

#include "io/poll.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"

#include <inttypes.h>
#include <stdio.h>

#define MAX_OUT 2                        /* calls of a worker at a time */
#define SHORT_NS (20 * INT64_C(1000000)) /* a worker may have two calls this short; a result travels about 50 us */

struct hr_calls_worker {
    hr_calls *calls; /* a part's reference */
    hr_calls_worker *next;
    hr_link *link;
    int pid;
    atomic_int refs;
    bool open; /* gets calls */
    bool listed;
    bool gone;        /* the poller saw the end of its socket */
    bool ending;      /* END was sent: its end is no loss */
    hr_call_list had; /* TAKEN calls in the order in which it got them, and PAUSED calls */
    int n_out;        /* TAKEN calls among them */
    int64_t busy_ns;  /* when it began its current call */
    int64_t n_done;
    uint64_t run;  /* of its last call */
    hr_error lost; /* why it was lost */
};

/* ------------------------------------------------------------------------------------------------------ the workers */

static void worker_unref(hr_calls_worker *w)
{
    if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (w->link)
        hr__link_close(w->link);
    hr__link_unref(w->link);
    hr__calls_inner_unref(w->calls);
    hr__free(w);
}

static void unlist_locked(hr_calls_worker *w)
{
    hr_calls *c = w->calls;
    hr_calls_worker **at = &c->workers;

    if (!w->listed)
        return;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    w->listed = false;
    if (!w->ending)
        c->n_workers--;
}

static hr_call *find_call(const hr_calls_worker *w, uint64_t tag)
{
    hr_call *call = w->had.first;

    while (call && call->tag != tag)
        call = call->next;
    return call;
}

void hr__worker_forget_locked(hr_call *call)
{
    hr_calls_worker *w = call->worker;

    if (!w)
        return;
    hr__call_list_remove(&w->had, call);
    w->n_out -= call->state == HR_CALL_TAKEN;
    call->worker = NULL;
}

int hr__calls_n_workers(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->n_workers;
    hr__unlock(&c->lock);
    return n;
}

int hr__calls_n_expected(hr_calls *c)
{
    int n;

    hr__lock(&c->lock);
    n = c->n_expected;
    hr__unlock(&c->lock);
    return n;
}

void hr__calls_configure(hr_calls *c, int depth, int max_retries)
{
    hr__lock(&c->lock);
    c->depth = depth;
    c->max_retries = max_retries;
    hr__unlock(&c->lock);
}

bool hr__calls_unserved_locked(const hr_calls *c) { return c->by_workers && c->n_workers == 0 && c->n_expected == 0; }

void hr__calls_expect(hr_calls *c, int n, const hr_error *why)
{
    hr__lock(&c->lock);
    c->by_workers = true;
    c->n_expected = HR_MAX(c->n_expected + n, 0);
    if (n < 0)
        hr_error_set(&c->lost_why, HR_PEER, "no worker process: %s",
                     why && why->text[0] ? why->text : "none could be started");
    hr__unlock(&c->lock);
    hr__calls_refuse(c);
}

hr_arena *hr__calls_arena(hr_calls *c)
{
    hr_arena *a, *made = NULL;
    bool wanted;

    hr__lock(&c->lock);
    a = c->arena;
    wanted = c->by_workers && !a;
    hr__unlock(&c->lock);
    if (!wanted || hr__arena_new(c->account, c->name, &made, NULL))
        return a;
    hr__lock(&c->lock);
    if (!c->arena) {
        c->arena = made;
        made = NULL;
    }
    a = c->arena;
    hr__unlock(&c->lock);
    hr__arena_unref(made);
    return a;
}

void hr__workers_clear(hr_calls *c)
{
    hr__arena_unref(c->arena);
    hr_error_clear(&c->lost_why);
}

/* ---------------------------------------------------------------------------------------------------------- sending */

/* The values that a thread holds while it sends without the lock. */
typedef struct sending {
    hr_link *link;
    uint64_t tag;
    hr_call_place place;
    hr_batch_place *batches; /* copies: the call may be freed during the send */
    int64_t n_batches;
    char *loads; /* likewise */
    hr_table *table;
} sending;

static void sending_clear(sending *s)
{
    hr__link_unref(s->link);
    hr_table_unref(s->table);
    hr__free(s->batches);
    hr__free(s->loads);
    *s = (sending){ 0 };
}

/* The worker with the fewest calls that may take this one; *any: some worker could take another call. */
static hr_calls_worker *freest_locked(hr_calls *c, const hr_call *call, bool *any)
{
    hr_calls_worker *best = NULL;
    int most = c->depth ? c->depth : c->call_ns > 0 && c->call_ns < SHORT_NS ? MAX_OUT : 1;

    *any = false;
    for (hr_calls_worker *w = c->workers; w; w = w->next) {
        if (!w->open || w->n_out >= most)
            continue;
        *any = true;
        if ((!best || w->n_out < best->n_out) && hr__call_fits_locked(call, &w->had, 0) &&
            hr__call_may_begin_locked(call, w))
            best = w;
    }
    return best;
}

static hr_call *choose_locked(hr_calls *c, hr_calls_worker **out)
{
    bool any = true;

    *out = NULL;
    for (hr_call *call = c->waiting.first; call && any; call = call->next)
        if (!call->resumes && (*out = freest_locked(c, call, &any)))
            return call;
    return NULL;
}

/* Assigns the first waiting call to a worker; false: no call, or no free worker. */
static bool assign(hr_calls *c, sending *out)
{
    hr_calls_worker *w;
    hr_call *call;

    hr__lock(&c->lock);
    if ((call = choose_locked(c, &w))) {
        size_t n_bytes = (size_t)call->n_batches * sizeof *call->batches;

        hr__call_list_remove(&c->waiting, call);
        hr__call_begin_locked(call, w);
        call->state = HR_CALL_TAKEN;
        call->worker = w;
        call->server = 0;
        call->dropped = false;
        if (w->n_out++ == 0)
            w->busy_ns = hr__clock_ns();
        hr__call_list_add(&w->had, call, NULL);
        *out = (sending){ .link = hr__link_ref(w->link),
                          .tag = call->tag,
                          .place = call->place,
                          .n_batches = call->n_batches,
                          .table = hr_table_ref(call->input) };
        if (call->n_batches && (out->batches = hr__alloc(NULL, n_bytes)))
            memcpy(out->batches, call->batches, n_bytes);
        if (call->loads) {
            out->place.state_bytes = (uint32_t)strlen(call->loads);
            out->loads = hr__strdup(NULL, call->loads);
        }
    }
    hr__unlock(&c->lock);
    return call;
}

static hr_status send_call(sending *s, hr_error *err)
{
    size_t batches_bytes = (size_t)s->n_batches * sizeof *s->batches;
    size_t n_bytes = sizeof s->place + batches_bytes + s->place.state_bytes;
    bool copied = (s->batches || !s->n_batches) && (s->loads || !s->place.state_bytes);
    char *bytes = copied ? hr__alloc(NULL, n_bytes) : NULL;
    hr_status st;

    if (!bytes)
        return hr__error_memory(err, "call", (int64_t)n_bytes);
    memcpy(bytes, &s->place, sizeof s->place);
    if (s->n_batches)
        memcpy(bytes + sizeof s->place, s->batches, batches_bytes);
    if (s->loads)
        memcpy(bytes + sizeof s->place + batches_bytes, s->loads, s->place.state_bytes);
    st = hr__link_send_patiently(s->link, HR_MSG_CALL, s->tag, bytes, (int64_t)n_bytes, s->table, err);
    hr__free(bytes);
    return st;
}

/* Takes back a call that could not be sent, if its worker still has it. */
static hr_call *take_back(hr_calls *c, uint64_t tag)
{
    hr_call *call = NULL;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && !call; w = w->next)
        if ((call = find_call(w, tag)))
            hr__worker_forget_locked(call);
    hr__unlock(&c->lock);
    return call;
}

void hr__workers_dispatch(hr_calls *c)
{
    sending s = { 0 };

    while (assign(c, &s)) {
        hr_error err = HR_ERROR_INIT;
        hr_status st = send_call(&s, &err);
        hr_call *call = st && st != HR_PEER ? take_back(c, s.tag) : NULL;

        hr__call_sent(c, &s.place);
        if (call)
            hr__call_done(call, st, &err); /* out of memory while sending: only this call fails */
        hr_error_clear(&err);
        sending_clear(&s);
    }
}

static bool notify(hr_link *link, uint32_t kind, uint64_t tag)
{
    return hr__link_send_patiently(link, kind, tag, NULL, 0, NULL, NULL) == HR_OK;
}

static bool unwanted(const hr_call *call) { return !call->set || call->run->cancelled; }

/* An orphan whose worker has not got DROP. */
static bool next_to_drop(hr_calls *c, sending *out)
{
    bool found = false;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && !found; w = w->next)
        for (hr_call *call = w->had.first; call && !found; call = call->next)
            if (unwanted(call) && !call->dropped) {
                call->dropped = found = true;
                *out = (sending){ .link = hr__link_ref(w->link), .tag = call->tag };
            }
    hr__unlock(&c->lock);
    return found;
}

void hr__workers_drop(hr_calls *c)
{
    sending s = { 0 };

    while (next_to_drop(c, &s)) {
        notify(s.link, HR_MSG_DROP, s.tag); /* on failure the call runs in vain */
        sending_clear(&s);
    }
}

void hr__workers_notify_run(hr_calls *c, hr_calls_run *run, uint32_t kind, int most)
{
    hr_link **links = NULL;
    int64_t cap = 0;
    int n = 0;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && n < most; w = w->next)
        if (w->open && hr__grow(NULL, (void **)&links, &cap, n + 1, sizeof(hr_link *)))
            links[n++] = hr__link_ref(w->link);
    if (kind == HR_MSG_RUN)
        run->n_ahead += n;
    hr__unlock(&c->lock);
    for (int i = 0; i < n; i++) {
        notify(links[i], kind, run->id);
        hr__link_unref(links[i]);
    }
    hr__free(links);
}

void hr__worker_go_on_relocks(hr_calls *c, hr_call *call)
{
    hr_calls_worker *w = call->worker;
    hr_link *link = hr__link_ref(w->link);
    uint64_t tag = call->tag;

    call->state = HR_CALL_TAKEN;
    if (w->n_out++ == 0)
        w->busy_ns = hr__clock_ns();
    hr__unlock(&c->lock);
    notify(link, HR_MSG_MORE, tag); /* on failure the worker is lost, and the poller reports that */
    hr__link_unref(link);
    hr__lock(&c->lock);
}

/* A worker that has not got END; it gets no more calls. */
static bool next_to_end(hr_calls *c, sending *out)
{
    hr_calls_worker *w;

    hr__lock(&c->lock);
    for (w = c->workers; w && w->ending; w = w->next)
        ;
    if (w) {
        w->ending = true;
        w->open = false;
        c->n_workers--;
        out->link = hr__link_ref(w->link);
    }
    hr__unlock(&c->lock);
    return w;
}

int hr__calls_end_idle(hr_calls *c)
{
    sending s = { 0 };
    int pid = 0;
    hr_arena *unused;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && !pid; w = w->next)
        if (w->open && !w->had.first) {
            w->ending = true;
            w->open = false;
            c->n_workers--;
            s.link = hr__link_ref(w->link);
            pid = w->pid;
        }
    unused = c->n_workers == 0 ? c->arena : NULL;
    hr__unlock(&c->lock);
    if (pid && !notify(s.link, HR_MSG_END, 0))
        hr__link_close(s.link);
    sending_clear(&s);
    if (unused)
        hr__arena_trim(unused);
    return pid;
}

int hr__calls_busy(hr_calls *c, int *pids, int most)
{
    int n = 0;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && n < most; w = w->next)
        if (w->n_out > 0)
            pids[n++] = w->pid;
    hr__unlock(&c->lock);
    return n;
}

/* Fails a call of an ending worker that a task waits for. */
static bool next_to_fail(hr_calls *c)
{
    hr_error err = HR_ERROR_INIT;
    hr_call *call = NULL;

    hr__lock(&c->lock);
    for (hr_calls_worker *w = c->workers; w && !call; w = w->next)
        if (w->ending && w->had.first) {
            call = w->had.first;
            hr__worker_forget_locked(call);
        }
    hr__unlock(&c->lock);
    if (!call)
        return false;
    hr_error_set(&err, HR_CANCELLED, "cancelled: the function pool was closed");
    hr__call_done(call, HR_CANCELLED, &err);
    return true;
}

/* The links stay until the workers close their ends: they may still read input. */
void hr__workers_close(hr_calls *c)
{
    sending s = { 0 };

    while (next_to_end(c, &s)) {
        if (!notify(s.link, HR_MSG_END, 0))
            hr__link_close(s.link); /* this ends the worker, too, and the poller notices */
        sending_clear(&s);
    }
    while (next_to_fail(c))
        ;
}

/* -------------------------------------------------------------------------------------------------------- receiving */

/* Parses the bytes of a DONE. */
static hr_status done_parse(const hr_message *m, hr_status *st, hr_done_head *out, hr_error *what)
{
    const char *bytes = m->bytes;
    hr_done_head h;

    if (m->n_bytes < (int64_t)sizeof h)
        return HR_BAD_DATA;
    memcpy(&h, bytes, sizeof h);
    if (h.text_bytes < 0 || h.detail_bytes < 0 || h.text_bytes > m->n_bytes - (int64_t)sizeof h ||
        h.detail_bytes != m->n_bytes - (int64_t)sizeof h - h.text_bytes)
        return HR_BAD_DATA;
    *out = h;
    *st = h.status == HR_OK ? HR_OK : hr__status_is_error(h.status) ? (hr_status)h.status : HR_CALLBACK;
    if (*st) {
        hr_error_set(what, *st, "%.*s", (int)h.text_bytes, bytes + sizeof h);
        if (h.detail_bytes)
            hr_error_set_detail(what, bytes + sizeof h + h.text_bytes, (size_t)h.detail_bytes);
    }
    return HR_OK;
}

/* What a worker spent on its current call. */
static hr_spent spent_by(hr_calls_worker *w, const hr_worker_times *times)
{
    int64_t now = hr__clock_ns(), began = w->busy_ns;

    w->busy_ns = now;
    return (hr_spent){ now - began, times->cpu_ns, times->delay_ns };
}

/* Updates the mean durations. The first call of a run in a worker does not count: the worker may have started or made
 * an instance. */
static void count_done_locked(hr_calls_worker *w, hr_call *call, const hr_done_head *done)
{
    hr_spent spent = spent_by(w, &done->times);
    int64_t took = hr__call_served_locked(call, &spent);

    if (w->n_done++ > 0 && w->run == call->place.run)
        hr__call_took_locked(call, took);
    w->run = call->place.run;
}

/* Parses the bytes of a RESULT or STREAM: its first batch, and counts. */
static hr_status result_parse(hr_message *m, hr_result *out)
{
    int64_t n = m->n_bytes / (int64_t)sizeof(int64_t) - 1;

    if (m->n_bytes < (int64_t)sizeof(int64_t) || m->n_bytes % (int64_t)sizeof(int64_t) || !m->table)
        return HR_BAD_DATA;
    *out = (hr_result){ .n_counts = n };
    memcpy(&out->batch, m->bytes, sizeof out->batch);
    if (n) {
        memmove(m->bytes, (char *)m->bytes + sizeof(int64_t), (size_t)n * sizeof(int64_t));
        out->counts = m->bytes;
        m->bytes = NULL;
    }
    out->table = m->table;
    m->table = NULL;
    return HR_OK;
}

/* Parses the bytes of a PAUSED. */
static hr_status times_parse(const hr_message *m, hr_worker_times *out)
{
    if (m->n_bytes != (int64_t)sizeof *out)
        return HR_BAD_DATA;
    memcpy(out, m->bytes, sizeof *out);
    return HR_OK;
}

/* A worker paused a call. Continues it at once if all results have been collected meanwhile. */
static hr_resume *paused_relocks(hr_calls_worker *w, hr_call *call, const hr_worker_times *times)
{
    hr_spent spent = spent_by(w, times);

    hr__call_spent_locked(call, &spent);
    call->state = HR_CALL_PAUSED;
    w->n_out--;
    if (!unwanted(call) && call->results.n == 0) {
        hr__worker_go_on_relocks(w->calls, call);
        return NULL;
    }
    return call->set ? hr__call_set_ready_locked(call->set) : NULL;
}

static hr_status done_message(hr_calls_worker *w, hr_message *m)
{
    hr_error what = HR_ERROR_INIT;
    hr_status st = HR_OK;
    hr_done_head done;
    hr_call *call;

    HR_TRY(done_parse(m, &st, &done, &what));
    hr__lock(&w->calls->lock);
    if ((call = find_call(w, m->tag))) {
        count_done_locked(w, call, &done);
        hr__worker_forget_locked(call);
    }
    hr__unlock(&w->calls->lock);
    if (call)
        hr__call_done(call, st, &what);
    hr_error_clear(&what);
    return call || w->ending ? HR_OK : HR_INVALID;
}

static hr_status call_message(hr_calls_worker *w, hr_message *m)
{
    hr_worker_times times = { 0 };
    hr_result found = { 0 };
    hr_resume *r = NULL;
    hr_status st = HR_OK;
    hr_call *call;

    if (m->kind == HR_MSG_PAUSED ? times_parse(m, &times) : result_parse(m, &found))
        return HR_BAD_DATA;
    hr__lock(&w->calls->lock);
    call = find_call(w, m->tag);
    if (!call || call->state != HR_CALL_TAKEN) {
        st = w->ending ? HR_OK : HR_INVALID;
    } else if (m->kind == HR_MSG_PAUSED) {
        r = paused_relocks(w, call, &times);
    } else {
        call->streams |= m->kind == HR_MSG_STREAM;
        r = hr__call_add_locked(call, &found);
    }
    hr__unlock(&w->calls->lock);
    hr_table_unref(found.table);
    hr__free(found.counts);
    if (r)
        hr__resume(r, HR_OK, NULL);
    return st;
}

static hr_status state_message(hr_calls_worker *w, hr_message *m)
{
    hr_status st = HR_INVALID;
    char *text = m->n_bytes < 0 || !m->bytes ? NULL : hr__strndup(NULL, m->bytes, (size_t)m->n_bytes);
    hr_call *call;

    hr__lock(&w->calls->lock);
    if ((call = find_call(w, m->tag)) && call->state == HR_CALL_TAKEN) {
        char *old = call->saved;

        call->saved = text;
        text = old;
        st = HR_OK;
    }
    hr__unlock(&w->calls->lock);
    hr__free(text);
    return st && w->ending ? HR_OK : st;
}

/* HR_BAD_DATA: the message is invalid. */
static hr_status on_message(hr_calls_worker *w, hr_message *m, hr_error *err)
{
    hr_status st = HR_INVALID;

    if (m->kind == HR_MSG_DONE && (st = done_message(w, m)) == HR_BAD_DATA)
        return hr_error_set(err, HR_BAD_DATA, "DONE has %" PRId64 " bytes", m->n_bytes);
    if (m->kind == HR_MSG_RESULT || m->kind == HR_MSG_STREAM || m->kind == HR_MSG_PAUSED)
        st = call_message(w, m);
    if (m->kind == HR_MSG_STATE)
        st = state_message(w, m);
    if (st)
        return hr_error_set(err, HR_BAD_DATA, "unexpected message of kind %u for call %" PRIu64, m->kind, m->tag);
    return HR_OK;
}

/* Whether an earlier call of its set failed, so that no one needs this call. */
static bool is_moot_locked(const hr_call *call)
{
    const hr_call_set *g = call->set;

    for (int i = 0; i < call->index && !call->calls->tolerant; i++)
        if (g->items[i]->state == HR_CALL_DONE && g->items[i]->st)
            return true;
    return false;
}

/* Whether there is a worker, or a new one will replace the last: the code that starts workers reads n_expected. */
static bool expect_one_locked(hr_calls *c)
{
    if (c->n_workers + c->n_expected == 0) {
        if (c->closed || (c->max_retries == 0 && !c->tolerant))
            return false;
        c->n_expected = 1;
    }
    return true;
}

/* Takes a call of a dead worker. The worker ran the first call that it got, unless it had several at a time. NULL: no
 * call is left to fail. */
static hr_call *next_of_dead_locked(hr_calls_worker *w, bool *first)
{
    hr_calls *c = w->calls;
    hr_call *call = w->had.first;
    bool ran = *first || c->depth > 1 || (call && (call->state == HR_CALL_PAUSED || call->streams));

    if (!call)
        return NULL;
    *first = false;
    hr__worker_forget_locked(call);
    call->n_deaths += ran;
    if (unwanted(call) || is_moot_locked(call) || c->closed || (!ran && w->ending) || call->run->lost.status ||
        (ran && c->max_retries >= 0 && call->n_deaths > c->max_retries))
        return call;
    if (!expect_one_locked(c))
        return call; /* no server will come */
    hr__call_requeue_locked(call);
    return next_of_dead_locked(w, first);
}

/* Takes a waiting call of a run whose instance is lost. */
static hr_call *next_of_lost_locked(hr_calls *c)
{
    hr_call *call = c->waiting.first;

    while (call && !call->run->lost.status)
        call = call->next;
    if (call)
        hr__call_list_remove(&c->waiting, call);
    return call;
}

/* Removes a gone worker from the list; fails or repeats its calls. */
static void reap(hr_calls_worker *w)
{
    hr_calls *c = w->calls;
    hr_call *call;
    bool first = true;

    hr__lock(&c->lock);
    unlist_locked(w);
    hr__runs_lost_locked(c, w, &w->lost);
    if (!w->ending)
        hr_error_set(&c->lost_why, HR_PEER, "no worker process is left; %s", w->lost.text);
    if (!w->ending && c->tolerant) /* before any task resumes, which may queue more calls */
        (void)expect_one_locked(c);
    while ((call = next_of_dead_locked(w, &first)) || (call = next_of_lost_locked(c))) {
        hr_error err = HR_ERROR_INIT;
        bool lost = call->set && call->run->lost.status;

        hr_error_set(&err, w->lost.status, "%s", lost ? call->run->lost.text : w->lost.text);
        hr__unlock(&c->lock);
        hr__call_done(call, w->lost.status, &err);
        hr__lock(&c->lock);
    }
    if (c->waiting.first && !w->ending)
        (void)expect_one_locked(c);
    hr__unlock(&c->lock);
    hr__calls_refuse(c);
    hr__workers_dispatch(c);
    worker_unref(w);
}

/* The worker is lost: fails its calls with st, or repeats them. */
static void worker_lost(hr_calls_worker *w, hr_status st, const char *what)
{
    hr__poller_remove(hr__link_fd(w->link));
    hr__lock(&w->calls->lock);
    w->open = false;
    w->gone = true;
    hr__unlock(&w->calls->lock);
    hr_error_set(&w->lost, st, "worker process %d %s", w->pid, what);
    reap(w);
}

/* On the poller's thread: a message came, or the end of the socket. */
static void worker_ready(void *context)
{
    hr_calls_worker *w = context;
    hr_message m = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_status st;
    char what[600];

    while (!(st = hr__link_recv_patiently(w->link, 0, &m, &err)) && !(st = on_message(w, &m, &err)))
        hr__message_clear(&m);
    hr__message_clear(&m);
    if (st == HR_PENDING) {
        hr__workers_dispatch(w->calls);
    } else if (st == HR_PEER) {
        worker_lost(w, st, "was lost");
    } else {
        snprintf(what, sizeof what, "sent an invalid message: %.500s", err.text);
        worker_lost(w, st, what);
    }
    hr_error_clear(&err);
}

/* -------------------------------------------------------------------------------------------------------- a new one */

/* Adds the worker to the list; it gets no calls yet. */
static hr_status list(hr_calls_worker *w, hr_error *err)
{
    hr_calls *c = w->calls;
    bool closed;

    hr__lock(&c->lock);
    if (!(closed = c->closed)) {
        c->by_workers = true;
        c->n_expected = HR_MAX(c->n_expected - 1, 0);
        c->n_workers++;
        w->next = c->workers;
        w->listed = true;
        c->workers = w;
    }
    hr__unlock(&c->lock);
    return closed ? hr_error_set(err, HR_CANCELLED, "%s: cancelled: the function pool was closed", c->name) : HR_OK;
}

/* The runs (at most n_max) that need more instances ahead; returns their number. */
static int runs_ahead(hr_calls *c, uint64_t *ids, int n_max)
{
    int n = 0;

    hr__lock(&c->lock);
    for (hr_calls_run *run = c->runs; run && n < n_max; run = run->next)
        if (run->how.instances && run->n_ahead < run->how.ahead) {
            run->n_ahead++;
            ids[n++] = run->id;
        }
    hr__unlock(&c->lock);
    return n;
}

/* Sends RUN for these runs. A run that ended meanwhile may have sent RUN_END before RUN: sends RUN_END again. */
static void tell_runs(hr_calls_worker *w)
{
    uint64_t ids[16];
    int n = runs_ahead(w->calls, ids, HR_LEN(ids));

    for (int i = 0; i < n; i++)
        if (notify(w->link, HR_MSG_RUN, ids[i]) && !hr__calls_runs(w->calls, ids[i]))
            notify(w->link, HR_MSG_RUN_END, ids[i]);
}

/* The worker gets calls from now on, unless it died or got END meanwhile. */
static void open_up(hr_calls_worker *w)
{
    hr__lock(&w->calls->lock);
    w->open = w->listed && !w->ending && !w->gone;
    hr__unlock(&w->calls->lock);
    hr__workers_dispatch(w->calls);
}

static void unlist(hr_calls_worker *w)
{
    hr__lock(&w->calls->lock);
    unlist_locked(w);
    w->calls->n_expected++; /* undoes the decrement of list() */
    hr__unlock(&w->calls->lock);
}

hr_status hr__calls_add_worker(hr_calls *c, int fd, int pid, const void *init, int64_t init_bytes, hr_error *err)
{
    hr_status st = HR_OK;
    hr_calls_worker *w = hr__zalloc(c->account, sizeof *w);

    if (!w) {
        hr__file_close(fd);
        return hr__error_memory(err, c->name, sizeof *w);
    }
    atomic_init(&w->refs, 1);
    w->calls = hr__calls_inner_ref(c);
    w->pid = pid;
    HR_GO(hr__link_new(fd, c->account, hr__calls_arena(c), &w->link, err));
    hr__link_set_backlog(w->link, hr__poller_flush);
    HR_GO(hr__link_send_patiently(w->link, HR_MSG_INIT, 0, init, init_bytes, NULL, err));
    HR_GO(list(w, err));
    atomic_fetch_add(&w->refs, 1); /* the poller's reference */
    if ((st = hr__poller_add(hr__link_fd(w->link), worker_ready, w, err))) {
        unlist(w);
        worker_unref(w);
        goto done;
    }
    tell_runs(w);
    open_up(w);
done:
    worker_unref(w);
    return st;
}
