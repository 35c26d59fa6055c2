/* worker.c - the worker process's side of its link: receives calls, sends results and a status. process.c lists the
 * messages.
 *
 * One thread uses it, in a loop. Before each call it reads all messages that have come, so that it answers a cancelled
 * call without running it. RUN and RUN_END keep their place among the calls. Several calls may be open: functions that
 * await, and paused generators. Results lie in an arena of this process, which the driver maps: results built with
 * hr__worker_mem travel without a copy; the link copies others once.
 *
 * Tests: test_process.c. */
#include "op/call/calls.h"

#include "io/poll.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"

/* An open call: the user has it. */
typedef struct open_call {
    uint64_t tag, run;
    int64_t ahead_bytes;
    int64_t n_bytes, n_tables; /* results since it began or continued */
    bool paused;
    bool dropped, more; /* DROP or MORE came; reported when it is paused */
} open_call;

struct hr_worker {
    hr_account *account;
    hr_arena *arena;
    hr_mem mem;
    hr_link *link;
    void *init; /* received, not taken yet */
    int64_t init_bytes;
    bool has_init;
    hr_work *calls; /* a queue: items [head, n) */
    int64_t head, n, cap;
    open_call *open;
    int64_t n_open, cap_open;
    bool ended;
    int64_t cpu_ns; /* CPU time of the process when the open call began, or one last paused or ended */
    hr_delay_clock delay;
};

hr_status hr__worker_open(int fd, hr_worker **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_worker *w = hr__zalloc(NULL, sizeof *w);

    *out = NULL;
    if (!w || !(w->account = hr__account_new("worker", NULL, 0))) {
        hr__free(w);
        hr__file_close(fd);
        return hr__error_memory(err, "worker", sizeof *w);
    }
    if ((st = hr__arena_new(w->account, "worker", &w->arena, err))) {
        hr__file_close(fd);
        goto done;
    }
    HR_GO(hr__link_new(fd, w->account, w->arena, &w->link, err));
    hr__link_set_backlog(w->link, hr__poller_flush);
    w->mem = (hr_mem){ w->account, w->arena };
    *out = w;
    w = NULL;
done:
    hr__worker_close(w);
    return st;
}

void hr__worker_close(hr_worker *w)
{
    if (!w)
        return;
    for (int64_t i = w->head; i < w->n; i++) {
        hr_table_unref(w->calls[i].table);
        hr__free(w->calls[i].batches);
        hr__free(w->calls[i].state);
    }
    hr__free(w->calls);
    hr__free(w->open);
    hr__free(w->init);
    if (w->link)
        hr__link_close(w->link);
    hr__link_unref(w->link);
    hr__arena_unref(w->arena);
    hr__account_unref(w->account);
    hr__free(w);
}

const hr_mem *hr__worker_mem(hr_worker *w) { return &w->mem; }
int hr__worker_fd(const hr_worker *w) { return hr__link_fd(w->link); }

static open_call *find_open(hr_worker *w, uint64_t tag)
{
    for (int64_t i = 0; i < w->n_open; i++)
        if (w->open[i].tag == tag)
            return &w->open[i];
    return NULL;
}

/* -------------------------------------------------------------------------------------------------------- answering */

static hr_worker_times times_since(hr_worker *w)
{
    int64_t now = hr__process_cpu_ns(), before = w->cpu_ns;

    w->cpu_ns = now;
    return (hr_worker_times){ now - before, hr__delay_since(&w->delay) };
}

static hr_status send_done(hr_worker *w, uint64_t tag, hr_status result, const hr_error *what, hr_error *err)
{
    hr_done_head h = { .status = (int32_t)result, .times = times_since(w) };
    hr_status st;
    char *bytes;

    if (what) {
        h.text_bytes = (int32_t)strlen(what->text);
        h.detail_bytes = (int64_t)what->detail_bytes;
    }
    if (!(bytes = hr__alloc(w->account, sizeof h + (size_t)h.text_bytes + (size_t)h.detail_bytes)))
        return hr__error_memory(err, "worker", h.detail_bytes);
    memcpy(bytes, &h, sizeof h);
    if (h.text_bytes)
        memcpy(bytes + sizeof h, what->text, (size_t)h.text_bytes);
    if (h.detail_bytes)
        memcpy(bytes + sizeof h + h.text_bytes, what->detail, (size_t)h.detail_bytes);
    st = hr__link_send_patiently(w->link, HR_MSG_DONE, tag, bytes, (int64_t)sizeof h + h.text_bytes + h.detail_bytes,
                                 NULL, err);
    hr__free(bytes);
    return st;
}

static hr_status receive(hr_worker *w, int timeout_ms, hr_error *err);

/* Receives all messages that have come. */
static hr_status receive_all(hr_worker *w, hr_error *err)
{
    hr_status st = HR_OK;

    while (!st && !w->ended)
        st = receive(w, 0, err);
    return st == HR_PENDING ? HR_OK : st;
}

static hr_status send_result(hr_worker *w, uint32_t kind, uint64_t tag, const hr_table *t, const hr_result_place *of,
                             hr_error *err)
{
    int64_t few[16], *head = few, n = 1 + (of && of->counts ? of->n_counts : 0);
    hr_status st;

    if (n > HR_LEN(few) && !(head = hr__alloc(w->account, (size_t)n * sizeof *head)))
        return hr__error_memory(err, "worker", n * (int64_t)sizeof *head);
    head[0] = of ? of->batch : 0;
    if (n > 1)
        memcpy(head + 1, of->counts, (size_t)(n - 1) * sizeof *head);
    st = hr__link_send_patiently(w->link, kind, tag, head, n * (int64_t)sizeof *head, t, err);
    if (head != few)
        hr__free(head);
    return st;
}

hr_status hr__worker_result(hr_worker *w, uint64_t tag, const hr_table *t, const hr_result_place *of, hr_go *go,
                            hr_error *err)
{
    open_call *o = find_open(w, tag);
    hr_worker_times times;

    if (!o)
        return hr_error_set(err, HR_INVALID, "worker: a result for a call that is not open");
    o->n_bytes += hr__table_bytes_used(t); /* before the table may be the other process's */
    o->n_tables++;
    HR_TRY(send_result(w, go ? HR_MSG_STREAM : HR_MSG_RESULT, tag, t, of, err));
    if (!go)
        return HR_OK;
    HR_TRY(receive_all(w, err));
    o = find_open(w, tag);
    *go = o->dropped || w->ended                                           ? HR_GO_AWAY
          : o->n_bytes >= o->ahead_bytes || o->n_tables >= HR_AHEAD_TABLES ? HR_GO_PAUSE
                                                                           : HR_GO_ON;
    if (*go != HR_GO_PAUSE)
        return HR_OK;
    o->paused = true;
    o->n_bytes = o->n_tables = 0;
    times = times_since(w);
    return hr__link_send_patiently(w->link, HR_MSG_PAUSED, tag, &times, sizeof times, NULL, err);
}

hr_status hr__worker_save(hr_worker *w, uint64_t tag, const char *state, hr_error *err)
{
    if (!find_open(w, tag))
        return hr_error_set(err, HR_INVALID, "worker: a state for a call that is not open");
    return hr__link_send_patiently(w->link, HR_MSG_STATE, tag, state, (int64_t)strlen(state), NULL, err);
}

hr_status hr__worker_done(hr_worker *w, uint64_t tag, hr_status st, const hr_error *what, hr_error *err)
{
    open_call *o = find_open(w, tag);

    if (!o)
        return hr_error_set(err, HR_INVALID, "worker: the end of a call that is not open");
    HR_TRY(send_done(w, tag, st, st ? what : NULL, err));
    *o = w->open[--w->n_open];
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- listening */

/* Appends an all-zero entry to the queue. */
static hr_status queue(hr_worker *w, hr_work_kind kind, uint64_t tag, hr_work **out, hr_error *err)
{
    if (w->head == w->n)
        w->head = w->n = 0;
    if (!hr__grow(w->account, (void **)&w->calls, &w->cap, w->n + 1, sizeof *w->calls))
        return hr__error_memory(err, "worker", (w->n + 1) * (int64_t)sizeof *w->calls);
    *out = &w->calls[w->n];
    **out = (hr_work){ .kind = kind, .tag = tag };
    return HR_OK;
}

static hr_status on_run(hr_worker *w, hr_work_kind kind, uint64_t run, hr_error *err)
{
    hr_work *at;

    HR_TRY(queue(w, kind, run, &at, err));
    w->n++;
    return HR_OK;
}

static hr_status on_call(hr_worker *w, hr_message *m, hr_error *err)
{
    hr_call_place place = { 0 };
    const char *bytes = m->bytes;
    int64_t batches_bytes = m->n_bytes - (int64_t)sizeof place;
    hr_work *c = NULL;

    if (batches_bytes > 0)
        memcpy(&place, bytes, sizeof place);
    batches_bytes -= place.state_bytes;
    if (batches_bytes < (int64_t)sizeof *c->batches || batches_bytes % (int64_t)sizeof *c->batches || !m->table)
        return hr_error_set(err, HR_PEER, "worker: a CALL message has %lld bytes", (long long)m->n_bytes);
    HR_TRY(queue(w, HR_WORK_CALL, m->tag, &c, err));
    c->place = place;
    bytes += sizeof place;
    if (!(c->batches = hr__alloc(NULL, (size_t)batches_bytes)) ||
        (place.state_bytes && !(c->state = hr__strndup(NULL, bytes + batches_bytes, place.state_bytes)))) {
        hr__free(c->batches);
        return hr__error_memory(err, "worker", batches_bytes + place.state_bytes);
    }
    memcpy(c->batches, bytes, (size_t)batches_bytes);
    c->n_batches = batches_bytes / (int64_t)sizeof *c->batches;
    c->table = m->table;
    m->table = NULL;
    w->n++;
    return HR_OK;
}

/* Removes an entry from the queue. */
static hr_work take_out(hr_worker *w, int64_t i)
{
    hr_work found = w->calls[i];

    if (i == w->head) {
        w->head++;
    } else {
        memmove(&w->calls[i], &w->calls[i + 1], (size_t)(w->n - i - 1) * sizeof *w->calls);
        w->n--;
    }
    return found;
}

/* Answers a call that has not begun at once; an open call learns of it with its next result or continuation. */
static hr_status on_drop(hr_worker *w, uint64_t tag, hr_error *err)
{
    open_call *o = find_open(w, tag);

    if (o)
        o->dropped = true;
    for (int64_t i = w->head; i < w->n; i++)
        if (w->calls[i].kind == HR_WORK_CALL && w->calls[i].tag == tag) {
            hr_work dropped = take_out(w, i);

            hr_table_unref(dropped.table);
            hr__free(dropped.batches);
            hr__free(dropped.state);
            return send_done(w, tag, HR_CANCELLED, NULL, err);
        }
    return HR_OK;
}

static void on_more(hr_worker *w, uint64_t tag)
{
    open_call *o = find_open(w, tag);

    if (o)
        o->more = true;
}

static hr_status on_message(hr_worker *w, hr_message *m, hr_error *err)
{
    switch (m->kind) {
    case HR_MSG_INIT:
        hr__free(w->init);
        w->init = m->bytes;
        w->init_bytes = m->n_bytes;
        w->has_init = true;
        m->bytes = NULL;
        return HR_OK;
    case HR_MSG_CALL: return on_call(w, m, err);
    case HR_MSG_DROP: return on_drop(w, m->tag, err);
    case HR_MSG_MORE: on_more(w, m->tag); return HR_OK;
    case HR_MSG_RUN: return on_run(w, HR_WORK_RUN, m->tag, err);
    case HR_MSG_RUN_END: return on_run(w, HR_WORK_RUN_END, m->tag, err);
    case HR_MSG_END: w->ended = true; return HR_OK;
    default: return hr_error_set(err, HR_PEER, "worker: unknown message kind %u", m->kind);
    }
}

static hr_status receive(hr_worker *w, int timeout_ms, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = hr__link_recv_patiently(w->link, timeout_ms, &m, err);

    if (!st)
        st = on_message(w, &m, err);
    hr__message_clear(&m);
    return st;
}

hr_status hr__worker_init(hr_worker *w, int timeout_ms, void **bytes, int64_t *n_bytes, hr_error *err)
{
    *bytes = NULL;
    *n_bytes = 0;
    while (!w->has_init)
        HR_TRY(receive(w, timeout_ms, err));
    *bytes = w->init;
    *n_bytes = w->init_bytes;
    w->init = NULL;
    return HR_OK;
}

/* Reports DROP or MORE of a paused call. */
static bool next_paused(hr_worker *w, hr_work *out)
{
    for (int64_t i = 0; i < w->n_open; i++) {
        open_call *o = &w->open[i];

        if (!o->paused || (!o->more && !o->dropped))
            continue;
        *out = (hr_work){ .kind = o->dropped ? HR_WORK_DROP : HR_WORK_MORE, .tag = o->tag };
        o->paused = o->more = false;
        return true;
    }
    return false;
}

/* Whether the instance of its run is in the middle of a call. */
static bool has_to_wait(const hr_worker *w, const hr_work *c)
{
    if (c->kind != HR_WORK_CALL || !(c->place.flags & HR_CALL_IN_ORDER))
        return false;
    for (int64_t i = 0; i < w->n_open; i++)
        if (w->open[i].paused && w->open[i].run == c->place.run)
            return true;
    return false;
}

/* The entry that may begin now; -1: none. */
static int64_t next_of_queue(const hr_worker *w)
{
    int64_t i = w->head;

    while (i < w->n && has_to_wait(w, &w->calls[i]))
        i++;
    return i < w->n ? i : -1;
}

static hr_status next_call(hr_worker *w, int64_t i, hr_work *out, hr_error *err)
{
    if (!hr__grow(w->account, (void **)&w->open, &w->cap_open, w->n_open + 1, sizeof *w->open))
        return hr__error_memory(err, "worker", (w->n_open + 1) * (int64_t)sizeof *w->open);
    *out = take_out(w, i);
    if (out->kind == HR_WORK_CALL && !w->n_open)
        w->cpu_ns = hr__process_cpu_ns();
    if (out->kind == HR_WORK_CALL)
        w->open[w->n_open++] =
            (open_call){ .tag = out->tag, .run = out->place.run, .ahead_bytes = hr__ahead_bytes(&out->place) };
    return HR_OK;
}

hr_status hr__worker_next(hr_worker *w, int timeout_ms, hr_work *out, hr_error *err)
{
    *out = (hr_work){ .kind = HR_WORK_END };
    for (;;) {
        int64_t i;

        HR_TRY(receive_all(w, err));
        if (w->ended || next_paused(w, out))
            return HR_OK;
        if ((i = next_of_queue(w)) >= 0)
            return next_call(w, i, out, err);
        if (timeout_ms == 0)
            return HR_PENDING;
        HR_TRY(receive(w, timeout_ms, err)); /* the message may have been a DROP */
    }
}
