/* ring_client.c - one rank of a split that another process serves.
 *
 * The client has no thread of its own: one thread that waits (for a batch, an answer) receives all messages, the others
 * wait for the messages that it files. ring_protocol.h lists the messages. Locks: ring->lock, then the link's own.
 * X_relocks releases ring->lock while it receives.
 *
 * Tests: test_ring.c. */
#include "feed/ring.h"
#include "feed/ring_protocol.h"
#include "io/poll.h"

#include <inttypes.h>

/* A request that waits for its answer, on its thread's stack. */
typedef struct question {
    uint64_t tag;
    bool answered;
    hr_message answer;
    struct question *next;
} question;

struct hr_ring {
    hr_link *link;
    hr_account *account;
    int rank;
    hr_ring_welcome server;
    hr_mutex lock; /* guards what follows */
    hr_cond changed;
    bool receiving; /* a thread is in hr__link_recv, without the lock */
    uint64_t last_tag;
    question *questions;

    uint64_t pass; /* number of the current pass */
    hr_split_request request;
    bool requested, in, end_came;
    bool welcome;
    hr_table **queue; /* received, not taken; a ring of cap */
    int64_t cap, head, n;
    int64_t n_taken, wait_ns, convert_ns; /* of the pass */
    hr_status pass_st;                    /* HR_RING_FAILED */
    hr_error pass_err;
    hr_status dead_st; /* the server is gone, or refused the connection */
    hr_error dead_err;
};

static void queue_clear_locked(hr_ring *r)
{
    for (; r->n > 0; r->n--, r->head = (r->head + 1) % r->cap)
        hr_table_unref(r->queue[r->head]);
}

static void ring_dead_locked(hr_ring *r, hr_status st, const char *text)
{
    if (r->dead_st)
        return;
    r->dead_st = st;
    hr_error_set(&r->dead_err, st, "%s", text);
}

/* Records the error of the connection to the server. */
static void ring_lost_locked(hr_ring *r, hr_status st, const hr_error *e)
{
    if (st == HR_PEER)
        ring_dead_locked(r, HR_PEER, "the process that feeds this trainer is gone");
    else
        ring_dead_locked(r, st == HR_NO_MEMORY ? st : HR_PEER, e->text);
}

/* Files a message of the current pass. May take its table. */
static void file_pass_locked(hr_ring *r, hr_message *m)
{
    if (m->tag != r->pass)
        return;
    if (m->kind == HR_RING_BEGUN) {
        r->requested = false;
        r->in = true;
    } else if (m->kind == HR_RING_FAILED) {
        r->requested = false;
        hr_error_clear(&r->pass_err);
        r->pass_st = hr__ring_read_error(m, &r->pass_err);
    } else if (m->kind == HR_RING_END) {
        r->end_came = true;
    } else if (m->table && r->in && r->n < r->cap) {
        r->queue[(r->head + r->n++) % r->cap] = m->table;
        m->table = NULL;
    }
}

static void file_message_locked(hr_ring *r, hr_message *m)
{
    question *q = r->questions;

    if (m->kind == HR_RING_BEGUN || m->kind == HR_RING_FAILED || m->kind == HR_RING_BATCH || m->kind == HR_RING_END) {
        file_pass_locked(r, m);
        return;
    }
    if (m->kind == HR_RING_WELCOME && !r->welcome)
        r->welcome = hr__ring_get_welcome(m, &r->server);
    if (m->kind == HR_RING_REFUSED && m->tag == 0 && !r->dead_st)
        r->dead_st = hr__ring_read_error(m, &r->dead_err);
    while (q && q->tag != m->tag)
        q = q->next;
    if (q && !q->answered && (m->kind == HR_RING_ANSWER || m->kind == HR_RING_REFUSED)) {
        q->answered = true;
        q->answer = *m;
        *m = (hr_message){ 0 };
    }
}

/* Receives a message, or waits for the thread that does. HR_PENDING: the time is up. HR_NO_MEMORY: out of memory for a
 * while; the message stays in the socket, and the caller may try again. */
static hr_status ring_wait_relocks(hr_ring *r, int timeout_ms, int64_t until, hr_error *err)
{
    int64_t left = timeout_ms < 0 ? 1000000000LL : until - hr__clock_ns();
    hr_error e = HR_ERROR_INIT;
    hr_message m = { 0 };
    hr_status st;

    if (r->receiving) {
        if (left <= 0)
            return HR_PENDING;
        hr__cond_wait_ns(&r->changed, &r->lock, left);
        return HR_OK;
    }
    r->receiving = true;
    hr__unlock(&r->lock);
    st = hr__link_recv_patiently(r->link, (int)HR_MAX(0, (left + 999999) / 1000000), &m, &e);
    hr__lock(&r->lock);
    r->receiving = false;
    if (!st)
        file_message_locked(r, &m);
    else if (st == HR_NO_MEMORY)
        hr__error_move(err, &e);
    else if (st != HR_PENDING)
        ring_lost_locked(r, st, &e);
    hr_error_clear(&e);
    hr__message_clear(&m);
    hr__cond_broadcast(&r->changed);
    if (st == HR_NO_MEMORY)
        return st;
    return st == HR_PENDING && timeout_ms >= 0 && hr__clock_ns() >= until ? HR_PENDING : HR_OK;
}

static hr_status ring_dead_locked_error(hr_ring *r, hr_error *err)
{
    return hr_error_set(err, r->dead_st, "%s", r->dead_err.text);
}

static void ring_send_locked(hr_ring *r, uint32_t kind, uint64_t tag, const void *bytes, int64_t n)
{
    hr_error e = HR_ERROR_INIT;
    hr_status st = r->dead_st ? HR_OK : hr__link_send_patiently(r->link, kind, tag, bytes, n, NULL, &e);

    if (st)
        ring_lost_locked(r, st, &e);
    hr_error_clear(&e);
}

static int64_t ring_until(int timeout_ms)
{
    return timeout_ms < 0 ? INT64_MAX : hr__clock_ns() + (int64_t)timeout_ms * 1000000;
}

static void ring_free(hr_ring *r)
{
    if (!r)
        return;
    if (r->link)
        hr__link_close(r->link);
    hr__link_unref(r->link);
    queue_clear_locked(r);
    hr__free(r->queue);
    hr_error_clear(&r->pass_err);
    hr_error_clear(&r->dead_err);
    hr__account_unref(r->account);
    hr__cond_clear(&r->changed);
    hr__mutex_clear(&r->lock);
    hr__free(r);
}

static hr_status ring_greet(hr_ring *r, const hr_ring_hello *h, int timeout_ms, int64_t until, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&r->lock);
    ring_send_locked(r, HR_RING_HELLO, 0, h, sizeof *h);
    while (!st && !r->welcome && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    if (r->dead_st)
        st = ring_dead_locked_error(r, err);
    else if (st == HR_PENDING)
        st = hr_error_set(err, HR_PEER, "ring: the process that feeds this trainer did not answer within %d ms",
                          timeout_ms);
    hr__unlock(&r->lock);
    return st;
}

void hr__ring_server_of(const hr_ring *r, int *pid, int *rank)
{
    *pid = r->server.pid;
    *rank = r->server.rank;
}

hr_status hr__ring_connect(const char *address, int split, int rank, const char *key, int timeout_ms, hr_ring **out,
                           hr_error *err)
{
    int64_t until = ring_until(timeout_ms);
    hr_ring_hello h = { .split = split, .rank = rank, .pid = hr__pid(), .version = HR_RING_PROTOCOL };
    hr_status st = HR_OK;
    hr_ring *r;

    *out = NULL;
    if (key && strlen(key) >= HR_RING_KEY)
        return hr_error_set(err, HR_INVALID, "ring: a key has at most %d bytes", HR_RING_KEY - 1);
    if (key)
        memcpy(h.key, key, strlen(key));
    r = hr__zalloc(NULL, sizeof *r);
    if (!r)
        return hr__error_memory(err, "ring", sizeof *r);
    hr__mutex_init(&r->lock);
    hr__cond_init(&r->changed);
    r->rank = rank;
    r->account = hr__account_new("ring client", NULL, 0);
    if (!r->account)
        HR_FAIL(HR_NO_MEMORY, "ring: out of memory for a connection");
    HR_GO(hr__link_connect(address, r->account, &r->link, err));
    hr__link_set_backlog(r->link, hr__poller_flush);
    HR_GO(ring_greet(r, &h, timeout_ms, until, err));
    *out = r;
    r = NULL;
done:
    ring_free(r);
    return st;
}

/* Makes room for all batches that can be on their way. */
static hr_status ring_queue_locked(hr_ring *r, int prefetch, hr_error *err)
{
    int64_t cap = HR_MAX(prefetch, HR_SMALL_AHEAD) + 2;
    hr_table **q;

    queue_clear_locked(r);
    q = hr__realloc(r->account, r->queue, (size_t)cap * sizeof *q);
    if (!q)
        return hr__error_memory(err, "ring", cap * (int64_t)sizeof *q);
    r->queue = q;
    r->cap = cap;
    r->head = 0;
    return HR_OK;
}

hr_status hr__ring_begin(hr_ring *r, const hr_split_request *q, int timeout_ms, hr_error *err)
{
    int64_t until = ring_until(timeout_ms), begin = hr__clock_ns();
    hr_ring_request wanted;
    hr_status st = HR_OK;

    HR_TRY(hr__ring_put_request(q, &wanted, err));
    hr__lock(&r->lock);
    if (!r->requested) { /* otherwise continues to wait for the earlier request */
        HR_GO(ring_queue_locked(r, wanted.prefetch, err));
        r->pass = ++r->last_tag;
        r->requested = true;
        r->in = r->end_came = false;
        r->pass_st = HR_OK;
        r->n_taken = r->wait_ns = r->convert_ns = 0;
        ring_send_locked(r, HR_RING_BEGIN, r->pass, &wanted, sizeof wanted);
    }
    while (!st && r->requested && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    r->wait_ns += hr__clock_ns() - begin;
    if (r->requested && r->dead_st)
        st = ring_dead_locked_error(r, err);
    else if (!r->requested && r->pass_st) {
        hr__error_move(err, &r->pass_err);
        st = r->pass_st;
        r->pass_st = HR_OK;
    } else if (!r->requested)
        st = HR_OK;
done:
    hr__unlock(&r->lock);
    return st;
}

/* The consumer has seen the end: the pass is over. */
static void ring_over_locked(hr_ring *r, uint32_t kind)
{
    hr_ring_taken t = { r->n_taken, r->wait_ns, r->convert_ns };

    r->in = r->end_came = false;
    ring_send_locked(r, kind, r->pass, &t, sizeof t);
}

int64_t hr__ring_pass(hr_ring *r)
{
    int64_t pass;

    hr__lock(&r->lock);
    pass = (int64_t)r->pass;
    hr__unlock(&r->lock);
    return pass;
}

hr_status hr__ring_next(hr_ring *r, int64_t pass, int timeout_ms, hr_table **out, hr_error *err)
{
    int64_t until = ring_until(timeout_ms), begin = hr__clock_ns();
    hr_status st = HR_OK;

    *out = NULL;
    hr__lock(&r->lock);
    if (pass && pass != (int64_t)r->pass)
        HR_FAIL(HR_INVALID, "a new iteration of this share began, which ended this one");
    if (!r->in)
        HR_FAIL(r->dead_st ? r->dead_st : HR_INVALID, "%s",
                r->dead_st ? r->dead_err.text : "ring: this rank has not begun a pass");
    while (!st && (!pass || pass == (int64_t)r->pass) && r->n == 0 && !r->end_came && !r->pass_st && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    if (pass && pass != (int64_t)r->pass)
        HR_FAIL(HR_INVALID, "a new iteration of this share began, which ended this one");
    r->wait_ns += hr__clock_ns() - begin;
    if (r->n > 0) {
        hr_ring_taken t = { ++r->n_taken, r->wait_ns, r->convert_ns };

        st = HR_OK;
        *out = r->queue[r->head];
        r->head = (r->head + 1) % r->cap;
        r->n--;
        ring_send_locked(r, HR_RING_TAKEN, r->pass, &t, sizeof t);
    } else if (r->pass_st) {
        st = r->pass_st;
        hr__error_copy(err, &r->pass_err);
    } else if (r->end_came) {
        st = HR_OK;
        ring_over_locked(r, HR_RING_FINISHED);
    } else if (r->dead_st) {
        st = ring_dead_locked_error(r, err);
    }
done:
    hr__unlock(&r->lock);
    return st;
}

void hr__ring_converted(hr_ring *r, int64_t ns)
{
    hr__lock(&r->lock);
    r->convert_ns += HR_MAX(0, ns);
    hr__unlock(&r->lock);
}

void hr__ring_report_rows(hr_ring *r, int64_t n_rows)
{
    hr_ring_taken t = { n_rows, 0, 0 };

    hr__lock(&r->lock);
    if (r->in)
        ring_send_locked(r, HR_RING_REPORT, r->pass, &t, sizeof t);
    hr__unlock(&r->lock);
}

void hr__ring_leave(hr_ring *r)
{
    hr__lock(&r->lock);
    if (r->requested || r->in) {
        r->requested = r->in = r->end_came = false;
        queue_clear_locked(r);
        ring_send_locked(r, HR_RING_LEAVE, r->pass, NULL, 0);
        r->pass = ++r->last_tag; /* batches on their way have an old tag and are dropped */
    }
    hr__unlock(&r->lock);
}

/* Sends a request and waits for its answer; the caller clears *answer. HR_PENDING: no answer within timeout_ms. */
static hr_status ring_ask(hr_ring *r, uint32_t kind, const char *text, int timeout_ms, hr_message *answer,
                          hr_error *err)
{
    int64_t until = ring_until(timeout_ms);
    question q = { 0 };
    hr_status st = HR_OK;

    hr__lock(&r->lock);
    q.tag = ++r->last_tag;
    q.next = r->questions;
    r->questions = &q;
    ring_send_locked(r, kind, q.tag, text, text ? (int64_t)strlen(text) : 0);
    while (!st && !q.answered && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    for (question **at = &r->questions; *at; at = &(*at)->next)
        if (*at == &q) {
            *at = q.next;
            break;
        }
    if (q.answered)
        st = q.answer.kind == HR_RING_REFUSED ? hr__ring_read_error(&q.answer, err) : HR_OK;
    else if (r->dead_st)
        st = ring_dead_locked_error(r, err);
    hr__unlock(&r->lock);
    *answer = q.answer;
    return st;
}

static hr_status ring_ask_with(hr_ring *r, uint32_t kind, const char *text, int timeout_ms, char **out, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = ring_ask(r, kind, text, timeout_ms, &m, err);

    *out = NULL;
    if (!st) {
        *out = hr__strndup(NULL, m.bytes ? m.bytes : "", (size_t)m.n_bytes);
        st = *out ? HR_OK : hr__error_memory(err, "ring", m.n_bytes);
    }
    hr__message_clear(&m);
    return st;
}

static hr_status ring_ask_text(hr_ring *r, uint32_t kind, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_with(r, kind, NULL, timeout_ms, out, err);
}

hr_status hr__ring_position(hr_ring *r, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_text(r, HR_RING_ASK_POSITION, timeout_ms, out, err);
}

hr_status hr__ring_position_of(hr_ring *r, int n_ahead, int timeout_ms, char **out, hr_error *err)
{
    char text[2] = { (char)('0' + HR_MIN(n_ahead, 9)), 0 };

    return ring_ask_with(r, HR_RING_ASK_POSITION_OF, text, timeout_ms, out, err);
}

hr_status hr__ring_describe_ranks(hr_ring *r, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_text(r, HR_RING_ASK_RANKS, timeout_ms, out, err);
}

hr_status hr__ring_stats(hr_ring *r, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_text(r, HR_RING_ASK_STATS, timeout_ms, out, err);
}

hr_status hr__ring_restore(hr_ring *r, const char *position, const hr_position_how *how, int timeout_ms, hr_error *err)
{
    hr_message m = { 0 };
    char *text = hr__ring_put_restore(position, how);
    hr_status st;

    if (how && how->differs)
        *how->differs = NULL;
    if (!text)
        return hr__error_memory(err, "position", (int64_t)strlen(position));
    st = ring_ask(r, HR_RING_ASK_RESTORE, text, timeout_ms, &m, err);
    if (!st && how && how->differs && m.n_bytes > 0 && !(*how->differs = hr__strndup(NULL, m.bytes, (size_t)m.n_bytes)))
        st = hr__error_memory(err, "position", m.n_bytes);
    hr__message_clear(&m);
    hr__free(text);
    return st;
}

hr_status hr__ring_schema(hr_ring *r, int timeout_ms, hr_schema **out, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = ring_ask(r, HR_RING_ASK_SCHEMA, NULL, timeout_ms, &m, err);

    *out = NULL;
    if (!st && !m.table)
        st = hr_error_set(err, HR_BUG, "ring: the answer to ASK_SCHEMA has no table");
    else if (!st)
        *out = hr__schema_ref(m.table->schema);
    hr__message_clear(&m);
    return st;
}

void hr__ring_fail(hr_ring *r, const char *why)
{
    hr__lock(&r->lock);
    ring_send_locked(r, HR_RING_FAIL, 0, why, (int64_t)strlen(why));
    hr__unlock(&r->lock);
}

void hr__ring_close(hr_ring *r)
{
    if (!r)
        return;
    hr__lock(&r->lock);
    ring_send_locked(r, HR_RING_BYE, 0, NULL, 0);
    hr__unlock(&r->lock);
    ring_free(r);
}
