/* worker.c - a worker process's side of its link: calls come in, results and a status go out. See process.c for the talk.
 *
 * One thread uses it, in a loop. Before each call it reads whatever has come meanwhile, so that a call whose run was
 * cancelled is answered unseen. Results lie in an arena of this process, which the other one maps: what was built with
 * hr__worker_mem is sent without a copy, anything else is copied once by the link. */
#include "op/calls.h"

#include "io/poll.h"

typedef struct worker_call {
    uint64_t tag;
    hr_call_place place;
    hr_table *table;
} worker_call;

struct hr_worker {
    hr_account *account;
    hr_arena *arena;
    hr_mem mem;
    hr_link *link;
    void *init; /* came, and was not asked for yet */
    int64_t init_bytes;
    bool has_init;
    worker_call *calls; /* a queue: items [head, n) */
    int64_t head, n, cap;
    bool busy; /* a call was handed out, of tag `current` */
    uint64_t current;
    bool ended;
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
    for (int64_t i = w->head; i < w->n; i++)
        hr_table_unref(w->calls[i].table);
    hr__free(w->calls);
    hr__free(w->init);
    if (w->link)
        hr__link_close(w->link);
    hr__link_unref(w->link);
    hr__arena_unref(w->arena);
    hr__account_unref(w->account);
    hr__free(w);
}

const hr_mem *hr__worker_mem(hr_worker *w) { return &w->mem; }

/* ----------------------------------------------------------------------------------------------------------- answering */

static hr_status send_done(hr_worker *w, uint64_t tag, hr_status result, const hr_error *what, hr_error *err)
{
    hr_done_head h = { .status = (int32_t)result };
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
    st = hr__link_send(w->link, HR_MSG_DONE, tag, bytes, (int64_t)sizeof h + h.text_bytes + h.detail_bytes, NULL, err);
    hr__free(bytes);
    return st;
}

hr_status hr__worker_result(hr_worker *w, const hr_table *t, hr_error *err)
{
    if (!w->busy)
        return hr_error_set(err, HR_INVALID, "worker: a result without a call");
    return hr__link_send(w->link, HR_MSG_RESULT, w->current, NULL, 0, t, err);
}

hr_status hr__worker_done(hr_worker *w, hr_status st, const hr_error *what, hr_error *err)
{
    if (!w->busy)
        return hr_error_set(err, HR_INVALID, "worker: the end of no call");
    HR_TRY(send_done(w, w->current, st, st ? what : NULL, err));
    w->busy = false;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- listening */

static hr_status on_call(hr_worker *w, hr_message *m, hr_error *err)
{
    worker_call *c;

    if (m->n_bytes != (int64_t)sizeof c->place || !m->table)
        return hr_error_set(err, HR_PEER, "worker: a call of %lld bytes", (long long)m->n_bytes);
    if (w->head == w->n)
        w->head = w->n = 0;
    if (!hr__grow(w->account, (void **)&w->calls, &w->cap, w->n + 1, sizeof *w->calls))
        return hr__error_memory(err, "worker", (w->n + 1) * (int64_t)sizeof *w->calls);
    c = &w->calls[w->n++];
    c->tag = m->tag;
    memcpy(&c->place, m->bytes, sizeof c->place);
    c->table = m->table;
    m->table = NULL;
    return HR_OK;
}

/* A call that has not begun is answered at once; of others nothing is known any more. */
static hr_status on_drop(hr_worker *w, uint64_t tag, hr_error *err)
{
    for (int64_t i = w->head; i < w->n; i++)
        if (w->calls[i].tag == tag) {
            hr_table_unref(w->calls[i].table);
            memmove(&w->calls[i], &w->calls[i + 1], (size_t)(w->n - i - 1) * sizeof *w->calls);
            w->n--;
            return send_done(w, tag, HR_CANCELLED, NULL, err);
        }
    return HR_OK;
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
    case HR_MSG_END: w->ended = true; return HR_OK;
    default: return hr_error_set(err, HR_PEER, "worker: a message of kind %u", m->kind);
    }
}

static hr_status receive(hr_worker *w, int timeout_ms, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = hr__link_recv(w->link, timeout_ms, &m, err);

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

hr_status hr__worker_next(hr_worker *w, int timeout_ms, hr_table **table, hr_call_place *place, hr_error *err)
{
    hr_status st = HR_OK;
    worker_call *c;

    *table = NULL;
    if (w->busy)
        return hr_error_set(err, HR_INVALID, "worker: the call before is not done");
    while (!st && !w->ended) /* what is here already */
        st = receive(w, 0, err);
    while (st == HR_PENDING && w->head == w->n && !w->ended && timeout_ms != 0) {
        if ((st = receive(w, timeout_ms, err)))
            break;
        st = HR_PENDING; /* it may have been a DROP */
    }
    if (st && st != HR_PENDING)
        return st;
    if (w->ended)
        return HR_OK;
    if (w->head == w->n)
        return HR_PENDING;
    c = &w->calls[w->head++];
    *table = c->table;
    *place = c->place;
    w->current = c->tag;
    w->busy = true;
    return HR_OK;
}
