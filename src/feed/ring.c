/* ring.c - the ranks of splits in other processes.
 *
 * The server hands batches ahead: each connection has prefetch + 1 credits, a batch on its way or waiting at the client
 * takes one, and the client gives it back when its consumer takes the batch. Bytes lie in the server's exchange arena,
 * written there by the run's last operator; what travels are descriptors. A block is free again when the client dropped
 * the batch, so a batch is valid as long as it is held, and what clients hold is what the arena grows by.
 *
 *   client                                server
 *   HELLO split, rank, pid          ->                            once; the token is the listener's affair
 *                                   <-    WELCOME | REFUSED
 *   BEGIN request                   ->                            tag: number of the pass, in all messages of it
 *                                   <-    BEGUN epoch | FAILED
 *                                   <-    BATCH table ... END | FAILED
 *   TAKEN steps, wait               ->                            gives the credit back; FINISHED when the end was told
 *   LEAVE                           ->                            what is on its way is dropped by its number
 *   ASK_POSITION ...                ->                            tag: number of the question
 *                                   <-    ANSWER | REFUSED
 *   FAIL text, BYE                  ->
 *
 * A socket that ends without BYE is a rank that died: the kernel tells at once, and the split tells the other ranks.
 *
 * Threads: one dispatcher a server does all the work but schemas, which may need a run of the plan; nothing else here
 * has locks but the wake-up. The poller and the splits (when a batch came out of a run) only set a flag and wake it.
 * The poller calls as long as there is something to read, so it is told to look away until the dispatcher has read. In
 * the client the thread that waits receives for all. Locks: server->lock and client->lock are leaves, but for the
 * link's own. */
#include "feed/feed.h"
#include "io/poll.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"

#include <inttypes.h>
#include <stdio.h>

#define TICK_MS 100            /* the dispatcher looks at all connections so often even if nobody woke it */
#define HELLO_NS 10000000000LL /* a connection that has not said who it is by then is closed */

enum {
    HELLO = 1,
    WELCOME,
    REFUSED,
    BEGIN,
    BEGUN,
    FAILED,
    BATCH,
    END,
    TAKEN,
    FINISHED,
    LEAVE,
    ASK_POSITION,
    ASK_RESTORE,
    ASK_SCHEMA,
    ASK_STATS,
    ANSWER,
    FAIL,
    BYE
};

/* What travels: structs without padding, whose every field is looked at by whoever gets it. */
typedef struct hello {
    int32_t split, rank, pid, version;
} hello;
#define PROTOCOL 2

/* A hr_split_request. */
typedef struct wire_request {
    int64_t batch_rows, shuffle_rows;
    uint64_t shuffle_seed;
    int32_t prefetch;
    uint8_t drop_last, own_memory, has_shuffle_seed; /* 0 or 1 */
    uint8_t zero;
    char extra[sizeof((hr_split_request *)NULL)->extra]; /* zeros behind its end */
} wire_request;
#define MOST_PREFETCH (1 << 20)

typedef struct taken {
    int64_t n_steps, wait_ns;
} taken;
_Static_assert(sizeof(hello) == 16 && sizeof(wire_request) == 32 + 256 && sizeof(taken) == 16, "no padding");

/* A descriptor that the poller watches, until it has something to read. */
typedef struct watched {
    struct hr_ring_server *server;
    int fd;
    bool on; /* the server's lock guards it */
} watched;

typedef struct conn {
    struct hr_ring_server *server;
    struct conn *next;
    hr_link *link;
    watched watch;
    int pid;
    int64_t since_ns;
    hr_split *split; /* NULL: has not said hello */
    int rank;
    uint64_t pass;
    hr_split_request request;
    bool asked; /* BEGIN came, no answer yet */
    bool in;    /* batches may be sent */
    int64_t sent, taken;
    bool bye; /* nothing is to be said when it ends */
    bool dead;
} conn;

/* Asks for a schema: a run of the plan, maybe, with the user's functions, which the dispatcher must not wait for. */
typedef struct schema_ask {
    struct schema_ask *next;
    hr_link *link;
    hr_split *split;
    uint64_t tag;
} schema_ask;

struct hr_ring_server {
    hr_split **splits;
    int n_splits;
    hr_account *account;
    hr_arena *arena;
    hr_listener *listener;
    watched door;
    int64_t door_ns; /* the dispatcher's: closed until then */
    hr_thread thread;
    bool running;
    conn *conns;   /* the dispatcher's */
    hr_mutex lock; /* guards what follows */
    hr_cond wake;
    bool awake, stop;
    schema_ask *asks;
    bool asking; /* there is a thread that answers them */
    bool asked;  /* the dispatcher's: `asker` is to be joined */
    hr_thread asker;
};

/* -------------------------------------------------------------------------------------------------- errors as bytes */

/* Status, text, detail, one after the other. */
static hr_status send_error(hr_link *l, uint32_t kind, uint64_t tag, const hr_error *what)
{
    size_t n_text = strlen(what->text) + 1, n = sizeof(int32_t) + n_text + what->detail_bytes;
    char *bytes = hr__alloc(NULL, n);
    int32_t status = what->status;
    hr_status st;

    if (!bytes)
        return hr__link_send_patiently(l, kind, tag, &status, sizeof status, NULL, NULL);
    memcpy(bytes, &status, sizeof status);
    memcpy(bytes + sizeof status, what->text, n_text);
    if (what->detail_bytes)
        memcpy(bytes + sizeof status + n_text, what->detail, what->detail_bytes);
    st = hr__link_send_patiently(l, kind, tag, bytes, (int64_t)n, NULL, NULL);
    hr__free(bytes);
    return st;
}

static hr_status read_error(const hr_message *m, hr_error *err)
{
    int32_t status = HR_BUG;
    const char *text;
    size_t n, n_text;

    if (m->n_bytes >= (int64_t)sizeof status)
        memcpy(&status, m->bytes, sizeof status);
    if (!hr__status_is_error(status))
        status = HR_BUG;
    if (m->n_bytes <= (int64_t)sizeof status)
        return hr_error_set(err, (hr_status)status, "%s", hr_status_text((hr_status)status));
    text = (const char *)m->bytes + sizeof status;
    n = (size_t)m->n_bytes - sizeof status;
    n_text = strnlen(text, n);
    hr_error_set(err, (hr_status)status, "%.*s", (int)HR_MIN(n_text, 999), text);
    if (n_text + 1 < n)
        hr_error_set_detail(err, text + n_text + 1, n - n_text - 1);
    return (hr_status)status;
}

/* -------------------------------------------------------------------------------------------------- server: wake-up */

static void server_wake(void *context)
{
    hr_ring_server *s = context;

    hr__lock(&s->lock);
    s->awake = true;
    hr__cond_signal(&s->wake);
    hr__unlock(&s->lock);
}

/* On the poller's thread. */
static void watch_fired(void *context)
{
    watched *w = context;

    hr__poller_remove(w->fd);
    hr__lock(&w->server->lock);
    w->on = false;
    hr__unlock(&w->server->lock);
    server_wake(w->server);
}

/* After all was read. Without memory, the next tick tries again. */
static void watch_again(watched *w)
{
    bool on;

    hr__lock(&w->server->lock);
    on = w->on;
    w->on = true;
    hr__unlock(&w->server->lock);
    if (!on && hr__poller_add(w->fd, watch_fired, w, NULL)) {
        hr__lock(&w->server->lock);
        w->on = false;
        hr__unlock(&w->server->lock);
    }
}

/* ------------------------------------------------------------------------------------------- server: one connection */

static void conn_free(conn *c)
{
    hr__poller_remove(c->watch.fd);
    hr__link_close(c->link);
    hr__link_unref(c->link);
    hr__split_unref(c->split);
    hr__free(c);
}

/* The peer is gone, or misbehaves (`what`). */
static void conn_lost(conn *c, const char *what)
{
    hr_error e = HR_ERROR_INIT;

    c->dead = true;
    if (!c->split)
        return;
    hr_error_set(&e, HR_PEER, "its process (pid %d) %s", c->pid, what);
    hr__split_lost(c->split, c->rank, c->bye ? NULL : &e);
    hr_error_clear(&e);
}

static void conn_check(conn *c, hr_status st)
{
    if (st == HR_PEER)
        conn_lost(c, "died");
    else if (st == HR_NO_MEMORY)
        conn_lost(c, "could not be served: out of memory");
    else if (st)
        conn_lost(c, "could not be served");
}

static void conn_refuse(conn *c, uint64_t tag, hr_status st, const char *text)
{
    hr_error e = HR_ERROR_INIT;

    hr_error_set(&e, st, "%s", text);
    conn_check(c, send_error(c->link, REFUSED, tag, &e));
    hr_error_clear(&e);
}

static void on_hello(conn *c, const hr_message *m)
{
    hr_ring_server *s = c->server;
    hello h;

    if (c->split || m->n_bytes != sizeof h) {
        conn_lost(c, "sent a wrong hello");
        return;
    }
    memcpy(&h, m->bytes, sizeof h);
    c->pid = h.pid;
    if (h.version != PROTOCOL) {
        conn_refuse(c, 0, HR_MISMATCH, "the server is of another version of headrace");
        return;
    }
    if (h.split < 0 || h.split >= s->n_splits || h.rank < 0 || h.rank >= hr__split_n_ranks(s->splits[h.split])) {
        conn_refuse(c, 0, HR_INVALID, "no such split or rank");
        return;
    }
    for (conn *o = s->conns; o; o = o->next)
        if (o->split == s->splits[h.split] && o->rank == h.rank && !o->dead) {
            conn_refuse(c, 0, HR_INVALID, "this rank is connected already");
            return;
        }
    c->split = hr__split_ref(s->splits[h.split]);
    c->rank = h.rank;
    hr__split_join(c->split, c->rank);
    conn_check(c, hr__link_send_patiently(c->link, WELCOME, 0, NULL, 0, NULL, NULL));
}

/* Ends in zeros, behind its first one. */
static bool is_padded(const char *text, size_t cap)
{
    size_t n = strnlen(text, cap);

    for (size_t i = n; i < cap; i++)
        if (text[i])
            return false;
    return n < cap;
}

static bool request_read(const hr_message *m, hr_split_request *out)
{
    wire_request w;

    if (m->n_bytes != sizeof w)
        return false;
    memcpy(&w, m->bytes, sizeof w);
    if (w.drop_last > 1 || w.own_memory > 1 || w.has_shuffle_seed > 1 || w.zero || w.batch_rows < 0 ||
        w.shuffle_rows < 0 || w.prefetch > MOST_PREFETCH || !is_padded(w.extra, sizeof w.extra))
        return false;
    *out = (hr_split_request){ .batch_rows = w.batch_rows,
                               .drop_last = w.drop_last,
                               .prefetch = HR_MAX(w.prefetch, 0),
                               .own_memory = w.own_memory,
                               .shuffle_rows = w.shuffle_rows,
                               .has_shuffle_seed = w.has_shuffle_seed,
                               .shuffle_seed = w.shuffle_seed };
    memcpy(out->extra, w.extra, sizeof out->extra);
    return true;
}

static void on_begin(conn *c, const hr_message *m)
{
    hr_split_request q;

    if (!request_read(m, &q)) {
        conn_lost(c, "sent a wrong request");
        return;
    }
    if (c->asked || c->in)
        hr__split_leave(c->split, c->rank);
    c->request = q;
    c->pass = m->tag;
    c->asked = true;
    c->in = false;
}

static void on_taken(conn *c, const hr_message *m)
{
    taken t;

    if (m->n_bytes != sizeof t || m->tag != c->pass)
        return; /* of a pass that was left */
    memcpy(&t, m->bytes, sizeof t);
    if (t.n_steps < 0 || t.wait_ns < 0) {
        conn_lost(c, "sent damaged messages");
        return;
    }
    c->taken = HR_MIN(HR_MAX(c->taken, t.n_steps), c->sent);
    hr__split_taken(c->split, c->rank, c->taken, t.wait_ns);
    if (m->kind == FINISHED)
        hr__split_finish(c->split, c->rank);
}

static void on_fail(conn *c, const hr_message *m)
{
    hr_error e = HR_ERROR_INIT;

    hr_error_set(&e, HR_PEER, "%.*s", (int)HR_MIN(m->n_bytes, 900), m->bytes ? (const char *)m->bytes : "");
    hr__split_lost(c->split, c->rank, &e);
    c->bye = true;
    c->in = c->asked = false;
    hr_error_clear(&e);
}

static void ask_free(schema_ask *a)
{
    hr__link_unref(a->link);
    hr__split_unref(a->split);
    hr__free(a);
}

static schema_ask *next_ask(hr_ring_server *s)
{
    schema_ask *a;

    hr__lock(&s->lock);
    if ((a = s->stop ? NULL : s->asks))
        s->asks = a->next;
    else
        s->asking = false;
    hr__unlock(&s->lock);
    return a;
}

/* The asker's thread, one question after the other: the first answer makes the others quick. */
static void answer_schemas(void *context)
{
    hr_ring_server *s = context;

    for (schema_ask *a; (a = next_ask(s)); ask_free(a)) {
        hr_error e = HR_ERROR_INIT;
        hr_schema *schema = NULL;
        hr_table *table = NULL;
        hr_status st = hr__split_schema(a->split, &schema, &e);

        if (!st)
            st = hr__table_empty(schema, &table, &e);
        if (st)
            st = send_error(a->link, REFUSED, a->tag, &e);
        else
            st = hr__link_send_patiently(a->link, ANSWER, a->tag, NULL, 0, table, NULL);
        if (st)
            hr__link_close(a->link); /* the dispatcher hears of it */
        hr_table_unref(table);
        hr__schema_unref(schema);
        hr_error_clear(&e);
    }
}

static hr_status start_asker(hr_ring_server *s)
{
    bool asking;

    hr__lock(&s->lock);
    asking = s->asking;
    s->asking = true;
    hr__unlock(&s->lock);
    if (asking)
        return HR_OK;
    if (s->asked)
        hr__thread_join(s->asker);
    s->asked = hr__thread_start(&s->asker, "hr-ring-schema", answer_schemas, s) >= 0;
    if (s->asked)
        return HR_OK;
    hr__lock(&s->lock);
    s->asking = false;
    hr__unlock(&s->lock);
    return HR_NO_MEMORY;
}

static void on_ask_schema(conn *c, const hr_message *m)
{
    hr_ring_server *s = c->server;
    schema_ask *a = hr__alloc(s->account, sizeof *a);

    if (!a) {
        conn_refuse(c, m->tag, HR_NO_MEMORY, "ring: no memory to ask for the schema");
        return;
    }
    *a = (schema_ask){ .link = hr__link_ref(c->link), .split = hr__split_ref(c->split), .tag = m->tag };
    hr__lock(&s->lock);
    a->next = s->asks;
    s->asks = a;
    hr__unlock(&s->lock);
    if (start_asker(s)) {
        hr__lock(&s->lock);
        s->asks = a->next; /* nobody else takes any */
        hr__unlock(&s->lock);
        ask_free(a);
        conn_refuse(c, m->tag, HR_NO_MEMORY, "ring: no thread to ask for the schema");
    }
}

/* The text begins with how the position is taken up: see hr__ring_restore. */
static hr_status on_restore(conn *c, const char *text, char **differs, hr_error *err)
{
    const hr_position_how how = { *text != 0 && ((*text - '0') & 1), *text != 0 && ((*text - '0') & 2), differs };

    return hr__split_restore(c->split, *text ? text + 1 : text, &how, err);
}

static void on_ask(conn *c, const hr_message *m)
{
    hr_error e = HR_ERROR_INIT;
    char *text = NULL;
    hr_status st;

    if (m->kind == ASK_POSITION)
        st = hr__split_position(c->split, &text, &e);
    else if (m->kind == ASK_STATS)
        st = hr__split_stats(c->split, &text, &e);
    else
        st = on_restore(c, m->bytes ? m->bytes : "", &text, &e);
    if (st)
        st = send_error(c->link, REFUSED, m->tag, &e);
    else
        st = hr__link_send_patiently(c->link, ANSWER, m->tag, text, text ? (int64_t)strlen(text) : 0, NULL, NULL);
    conn_check(c, st);
    hr_string_free(text);
    hr_error_clear(&e);
}

static void on_message(conn *c, const hr_message *m)
{
    if (m->kind != HELLO && !c->split) {
        c->dead = true; /* not one of ours */
        return;
    }
    switch (m->kind) {
    case HELLO: on_hello(c, m); break;
    case BEGIN: on_begin(c, m); break;
    case TAKEN:
    case FINISHED: on_taken(c, m); break;
    case LEAVE:
        c->asked = c->in = false;
        hr__split_leave(c->split, c->rank);
        break;
    case ASK_POSITION:
    case ASK_RESTORE:
    case ASK_STATS: on_ask(c, m); break;
    case ASK_SCHEMA: on_ask_schema(c, m); break;
    case FAIL: on_fail(c, m); break;
    case BYE:
        c->bye = true;
        conn_lost(c, "said goodbye");
        break;
    default: conn_lost(c, "sent an unknown message"); break;
    }
}

static void conn_receive(conn *c)
{
    while (!c->dead) {
        hr_message m = { 0 };
        hr_status st = hr__link_recv(c->link, 0, &m, NULL);

        if (st == HR_PENDING || st == HR_NO_MEMORY) /* without memory, the next tick tries again */
            break;
        if (st)
            conn_lost(c, st == HR_PEER ? "died" : "sent damaged messages");
        else
            on_message(c, &m);
        hr__message_clear(&m);
    }
    if (!c->split && !c->dead && hr__clock_ns() - c->since_ns > HELLO_NS)
        c->dead = true;
}

/* ---------------------------------------------------------------------------------------- server: begin and batches */

static void conn_failed(conn *c, const hr_error *e)
{
    c->asked = c->in = false;
    conn_check(c, send_error(c->link, FAILED, c->pass, e));
}

static void conn_begin(conn *c)
{
    hr_error e = HR_ERROR_INIT;
    hr_status st = hr__split_begin(c->split, c->rank, &c->request, 0, &e);

    if (st && st != HR_PENDING)
        conn_failed(c, &e);
    if (!st) {
        c->asked = false;
        c->in = true;
        c->sent = c->taken = 0;
        conn_check(c, hr__link_send_patiently(c->link, BEGUN, c->pass, NULL, 0, NULL, NULL));
    }
    hr_error_clear(&e);
}

/* Is more held, here and by clients, than the limit allows? Then batches are handed out one by one. */
static bool over_limit(const hr_ring_server *s)
{
    int64_t limit = hr__account_limit(s->account);

    return limit > 0 && hr__arena_used(s->arena) > limit;
}

/* May this client be sent another batch, as far as its credits go? */
static bool conn_has_credit(const conn *c)
{
    int64_t ahead = c->sent - c->taken;

    return ahead == 0 || (ahead <= c->request.prefetch && !over_limit(c->server));
}

/* HR_BUDGET if this client holds so many batches that another one would pass the limit. */
static hr_status conn_admit(const conn *c, hr_error *err)
{
    int64_t held = hr__link_outstanding(c->link) - (c->sent - c->taken);

    if (held <= c->request.prefetch + 2 || !over_limit(c->server))
        return HR_OK;
    return hr_error_set(err, HR_BUDGET,
                        "rank %d holds %" PRId64 " batches; all that are held need %" PRId64
                        " bytes, the memory limit is %" PRId64 ": drop batches, or copy what is to be kept",
                        c->rank, held, hr__arena_used(c->server->arena), hr__account_limit(c->server->account));
}

/* One batch, the end, or an error to the client. false: nothing now. */
static bool conn_batch(conn *c)
{
    hr_error e = HR_ERROR_INIT;
    hr_table *t = NULL;
    hr_status st = conn_admit(c, &e);

    if (!st)
        st = hr__split_next_ahead(c->split, c->rank, 0, &t, &e);
    if (st == HR_PENDING)
        return false;
    if (st) {
        conn_failed(c, &e);
    } else if (t) {
        c->sent++;
        conn_check(c, hr__link_send_patiently(c->link, BATCH, c->pass, NULL, 0, t, NULL));
    } else {
        c->in = false;
        conn_check(c, hr__link_send_patiently(c->link, END, c->pass, NULL, 0, NULL, NULL));
    }
    hr_table_unref(t);
    hr_error_clear(&e);
    return true;
}

/* Round robin, one batch each, until nobody gets any. */
static void serve_all(hr_ring_server *s)
{
    bool again = true;

    while (again) {
        again = false;
        for (conn *c = s->conns; c; c = c->next) {
            if (c->asked && !c->dead)
                conn_begin(c);
            if (c->in && !c->dead && conn_has_credit(c))
                again = conn_batch(c) || again;
        }
    }
}

/* ------------------------------------------------------------------------------------------------- server: its life */

/* Who cannot be let in, for want of descriptors maybe, goes on knocking: then the door is not watched for a tick. */
static void server_accept(hr_ring_server *s)
{
    if (hr__clock_ns() < s->door_ns)
        return;
    for (;;) {
        hr_link *link = NULL;
        conn *c;
        hr_status st = hr__listener_accept(s->listener, s->account, s->arena, &link, NULL);

        if (st == HR_PENDING)
            break;
        if (st) {
            s->door_ns = hr__clock_ns() + TICK_MS * 1000000LL;
            return;
        }
        c = hr__zalloc(s->account, sizeof *c);
        if (!c) {
            hr__link_close(link);
            hr__link_unref(link);
            break;
        }
        c->server = s;
        c->link = link;
        c->since_ns = hr__clock_ns();
        c->next = s->conns;
        c->watch = (watched){ s, hr__link_fd(link), false };
        s->conns = c;
    }
    watch_again(&s->door);
}

static void bury_the_dead(hr_ring_server *s)
{
    for (conn **at = &s->conns; *at;) {
        conn *c = *at;

        if (!c->dead) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        conn_free(c);
    }
}

static void server_main(void *context)
{
    hr_ring_server *s = context;

    for (;;) {
        bool stop;

        hr__lock(&s->lock);
        if (!s->awake && !s->stop)
            hr__cond_wait_ns(&s->wake, &s->lock, TICK_MS * 1000000LL);
        s->awake = false;
        stop = s->stop;
        hr__unlock(&s->lock);
        if (stop)
            break;
        server_accept(s);
        for (conn *c = s->conns; c; c = c->next) {
            conn_receive(c);
            if (!c->dead)
                watch_again(&c->watch);
        }
        serve_all(s);
        bury_the_dead(s);
    }
}

hr_status hr__ring_serve(hr_split *const *splits, int n, hr_ring_server **out, char **address, hr_error *err)
{
    hr_status st = HR_OK;
    hr_ring_server *s = NULL;
    int bad;

    *out = NULL;
    *address = NULL;
    s = hr__zalloc(NULL, sizeof *s);
    if (!s)
        return hr__error_memory(err, "ring", sizeof *s);
    hr__mutex_init(&s->lock);
    hr__cond_init(&s->wake);
    s->account = hr__account_new("ring", NULL, 0);
    s->splits = hr__zalloc(s->account, (size_t)HR_MAX(n, 1) * sizeof *s->splits);
    if (!s->account || !s->splits)
        HR_FAIL(HR_NO_MEMORY, "ring: no memory for %d splits", n);
    for (; s->n_splits < n; s->n_splits++)
        s->splits[s->n_splits] = hr__split_ref(splits[s->n_splits]);
    HR_GO(hr__arena_new(s->account, "ring", &s->arena, err));
    HR_GO(hr__listener_open(NULL, &s->listener, err));
    *address = hr__strdup(NULL, hr__listener_address(s->listener));
    if (!*address)
        HR_FAIL(HR_NO_MEMORY, "ring: no memory for the address");
    s->door = (watched){ s, hr__listener_fd(s->listener), false };
    s->awake = true; /* at its first look round the dispatcher has the door watched */
    for (int i = 0; i < n; i++)
        hr__split_serve(s->splits[i], s->arena, server_wake, s);
    bad = hr__thread_start(&s->thread, "hr-ring", server_main, s);
    if (bad < 0) {
        st = hr__error_os(err, bad, "ring", "start a thread");
        goto done;
    }
    s->running = true;
    *out = s;
    s = NULL;
done:
    if (s) {
        hr__ring_stop(s);
        hr_string_free(*address);
        *address = NULL;
    }
    return st;
}

void hr__ring_stop(hr_ring_server *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n_splits; i++)
        hr__split_serve(s->splits[i], NULL, NULL, NULL);
    if (s->running) {
        hr__lock(&s->lock);
        s->stop = true;
        hr__cond_signal(&s->wake);
        hr__unlock(&s->lock);
        hr__thread_join(s->thread);
        hr__poller_remove(s->door.fd);
    }
    if (s->asked)
        hr__thread_join(s->asker);
    for (schema_ask *a; (a = s->asks);) {
        s->asks = a->next;
        ask_free(a);
    }
    while (s->conns) {
        conn *c = s->conns;

        s->conns = c->next;
        if (c->split)
            hr__split_lost(c->split, c->rank, NULL);
        conn_free(c);
    }
    hr__listener_close(s->listener);
    for (int i = 0; i < s->n_splits; i++)
        hr__split_unref(s->splits[i]);
    hr__free(s->splits);
    hr__arena_unref(s->arena);
    hr__account_unref(s->account);
    hr__cond_clear(&s->wake);
    hr__mutex_clear(&s->lock);
    hr__free(s);
}

/* ----------------------------------------------------------------------------------------------------------- client */

/* A question on its way, on the asking thread's stack. */
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
    hr_mutex lock; /* guards what follows */
    hr_cond changed;
    bool receiving; /* a thread is in hr__link_recv, without the lock */
    uint64_t last_tag;
    question *questions;

    uint64_t pass; /* number of the current one */
    hr_split_request request;
    bool asked, in, end_came;
    bool welcome;
    hr_table **queue; /* came, not taken; a ring of cap */
    int64_t cap, head, n;
    int64_t n_taken, wait_ns;
    hr_status pass_st; /* FAILED */
    hr_error pass_err;
    hr_status dead_st; /* the server is gone, or refused us */
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

/* What went wrong between us and the server. */
static void ring_lost_locked(hr_ring *r, hr_status st, const hr_error *e)
{
    if (st == HR_PEER)
        ring_dead_locked(r, HR_PEER, "the process that feeds this trainer is gone");
    else
        ring_dead_locked(r, st == HR_NO_MEMORY ? st : HR_PEER, e->text);
}

/* A message of the current pass. May keep the table. */
static void file_pass_locked(hr_ring *r, hr_message *m)
{
    if (m->tag != r->pass)
        return;
    if (m->kind == BEGUN) {
        r->asked = false;
        r->in = true;
    } else if (m->kind == FAILED) {
        r->asked = false;
        hr_error_clear(&r->pass_err);
        r->pass_st = read_error(m, &r->pass_err);
    } else if (m->kind == END) {
        r->end_came = true;
    } else if (m->table && r->in && r->n < r->cap) {
        r->queue[(r->head + r->n++) % r->cap] = m->table;
        m->table = NULL;
    }
}

static void file_message_locked(hr_ring *r, hr_message *m)
{
    question *q = r->questions;

    if (m->kind == BEGUN || m->kind == FAILED || m->kind == BATCH || m->kind == END) {
        file_pass_locked(r, m);
        return;
    }
    if (m->kind == WELCOME)
        r->welcome = true;
    if (m->kind == REFUSED && m->tag == 0 && !r->dead_st)
        r->dead_st = read_error(m, &r->dead_err);
    while (q && q->tag != m->tag)
        q = q->next;
    if (q && !q->answered && (m->kind == ANSWER || m->kind == REFUSED)) {
        q->answered = true;
        q->answer = *m;
        *m = (hr_message){ 0 };
    }
}

/* Receives a message, or waits for the thread that does. HR_PENDING: the time is up. HR_NO_MEMORY: there was none for a
 * while; the message stays where it is, and the caller may ask again. */
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

static hr_status ring_greet(hr_ring *r, const hello *h, int timeout_ms, int64_t until, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&r->lock);
    ring_send_locked(r, HELLO, 0, h, sizeof *h);
    while (!st && !r->welcome && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    if (r->dead_st)
        st = ring_dead_locked_error(r, err);
    else if (st == HR_PENDING)
        st = hr_error_set(err, HR_PEER, "ring: the feeding process did not answer within %d ms", timeout_ms);
    hr__unlock(&r->lock);
    return st;
}

hr_status hr__ring_connect(const char *address, int split, int rank, int timeout_ms, hr_ring **out, hr_error *err)
{
    int64_t until = ring_until(timeout_ms);
    hello h = { .split = split, .rank = rank, .pid = hr__pid(), .version = PROTOCOL };
    hr_status st = HR_OK;
    hr_ring *r;

    *out = NULL;
    r = hr__zalloc(NULL, sizeof *r);
    if (!r)
        return hr__error_memory(err, "ring", sizeof *r);
    hr__mutex_init(&r->lock);
    hr__cond_init(&r->changed);
    r->rank = rank;
    r->account = hr__account_new("ring client", NULL, 0);
    if (!r->account)
        HR_FAIL(HR_NO_MEMORY, "ring: no memory for a connection");
    HR_GO(hr__link_connect(address, r->account, &r->link, err));
    hr__link_set_backlog(r->link, hr__poller_flush);
    HR_GO(ring_greet(r, &h, timeout_ms, until, err));
    *out = r;
    r = NULL;
done:
    ring_free(r);
    return st;
}

/* Room for all that may be on its way. */
static hr_status ring_queue_locked(hr_ring *r, int prefetch, hr_error *err)
{
    int64_t cap = HR_MAX(prefetch, 0) + 2;
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
    wire_request wanted = { .batch_rows = q->batch_rows,
                            .shuffle_rows = q->shuffle_rows,
                            .shuffle_seed = q->shuffle_seed,
                            .prefetch = HR_MIN(HR_MAX(q->prefetch, 0), MOST_PREFETCH),
                            .drop_last = q->drop_last,
                            .own_memory = q->own_memory,
                            .has_shuffle_seed = q->has_shuffle_seed };
    hr_status st = HR_OK;

    if (q->batch_rows < 0 || q->shuffle_rows < 0)
        return hr_error_set(err, HR_INVALID, "ring: batches of %" PRId64 " rows, a shuffle of %" PRId64, q->batch_rows,
                            q->shuffle_rows);
    snprintf(wanted.extra, sizeof wanted.extra, "%s", q->extra);
    hr__lock(&r->lock);
    if (!r->asked) { /* else this goes on waiting for what was asked before */
        HR_GO(ring_queue_locked(r, wanted.prefetch, err));
        r->pass = ++r->last_tag;
        r->asked = true;
        r->in = r->end_came = false;
        r->pass_st = HR_OK;
        r->n_taken = r->wait_ns = 0;
        ring_send_locked(r, BEGIN, r->pass, &wanted, sizeof wanted);
    }
    while (!st && r->asked && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    r->wait_ns += hr__clock_ns() - begin;
    if (r->asked && r->dead_st)
        st = ring_dead_locked_error(r, err);
    else if (!r->asked && r->pass_st) {
        hr__error_move(err, &r->pass_err);
        st = r->pass_st;
        r->pass_st = HR_OK;
    } else if (!r->asked)
        st = HR_OK;
done:
    hr__unlock(&r->lock);
    return st;
}

/* The end was told: the pass is over. */
static void ring_over_locked(hr_ring *r, uint32_t kind)
{
    taken t = { r->n_taken, r->wait_ns };

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
        HR_FAIL(HR_INVALID, "a new iteration of this share has ended this one");
    if (!r->in)
        HR_FAIL(r->dead_st ? r->dead_st : HR_INVALID, "%s", r->dead_st ? r->dead_err.text : "ring: no pass was begun");
    while (!st && (!pass || pass == (int64_t)r->pass) && r->n == 0 && !r->end_came && !r->pass_st && !r->dead_st)
        st = ring_wait_relocks(r, timeout_ms, until, err);
    if (pass && pass != (int64_t)r->pass)
        HR_FAIL(HR_INVALID, "a new iteration of this share has ended this one");
    r->wait_ns += hr__clock_ns() - begin;
    if (r->n > 0) {
        taken t = { ++r->n_taken, r->wait_ns };

        st = HR_OK;
        *out = r->queue[r->head];
        r->head = (r->head + 1) % r->cap;
        r->n--;
        ring_send_locked(r, TAKEN, r->pass, &t, sizeof t);
    } else if (r->pass_st) {
        st = r->pass_st;
        hr__error_copy(err, &r->pass_err);
    } else if (r->end_came) {
        st = HR_OK;
        ring_over_locked(r, FINISHED);
    } else if (r->dead_st) {
        st = ring_dead_locked_error(r, err);
    }
done:
    hr__unlock(&r->lock);
    return st;
}

void hr__ring_leave(hr_ring *r)
{
    hr__lock(&r->lock);
    if (r->asked || r->in) {
        r->asked = r->in = r->end_came = false;
        queue_clear_locked(r);
        ring_send_locked(r, LEAVE, r->pass, NULL, 0);
        r->pass = ++r->last_tag; /* what is still on its way belongs to nobody */
    }
    hr__unlock(&r->lock);
}

/* Sends a question and waits for its answer: *answer is to be cleared. HR_PENDING: not within the time. */
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
        st = q.answer.kind == REFUSED ? read_error(&q.answer, err) : HR_OK;
    else if (r->dead_st)
        st = ring_dead_locked_error(r, err);
    hr__unlock(&r->lock);
    *answer = q.answer;
    return st;
}

static hr_status ring_ask_text(hr_ring *r, uint32_t kind, int timeout_ms, char **out, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = ring_ask(r, kind, NULL, timeout_ms, &m, err);

    *out = NULL;
    if (!st) {
        *out = hr__strndup(NULL, m.bytes ? m.bytes : "", (size_t)m.n_bytes);
        st = *out ? HR_OK : hr__error_memory(err, "ring", m.n_bytes);
    }
    hr__message_clear(&m);
    return st;
}

hr_status hr__ring_position(hr_ring *r, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_text(r, ASK_POSITION, timeout_ms, out, err);
}

hr_status hr__ring_stats(hr_ring *r, int timeout_ms, char **out, hr_error *err)
{
    return ring_ask_text(r, ASK_STATS, timeout_ms, out, err);
}

hr_status hr__ring_restore(hr_ring *r, const char *position, const hr_position_how *how, int timeout_ms, hr_error *err)
{
    hr_message m = { 0 };
    int flags = how ? how->moved + 2 * how->strict : 0;
    char *text = hr__printf(NULL, "%d%s", flags, position);
    hr_status st;

    if (how && how->differs)
        *how->differs = NULL;
    if (!text)
        return hr__error_memory(err, "position", (int64_t)strlen(position));
    st = ring_ask(r, ASK_RESTORE, text, timeout_ms, &m, err);
    if (!st && how && how->differs && m.n_bytes > 0 && !(*how->differs = hr__strndup(NULL, m.bytes, (size_t)m.n_bytes)))
        st = hr__error_memory(err, "position", m.n_bytes);
    hr__message_clear(&m);
    hr__free(text);
    return st;
}

hr_status hr__ring_schema(hr_ring *r, int timeout_ms, hr_schema **out, hr_error *err)
{
    hr_message m = { 0 };
    hr_status st = ring_ask(r, ASK_SCHEMA, NULL, timeout_ms, &m, err);

    *out = NULL;
    if (!st && !m.table)
        st = hr_error_set(err, HR_BUG, "ring: a schema without a table");
    else if (!st)
        *out = hr__schema_ref(m.table->schema);
    hr__message_clear(&m);
    return st;
}

void hr__ring_fail(hr_ring *r, const char *why)
{
    hr__lock(&r->lock);
    ring_send_locked(r, FAIL, 0, why, (int64_t)strlen(why));
    hr__unlock(&r->lock);
}

void hr__ring_close(hr_ring *r)
{
    if (!r)
        return;
    hr__lock(&r->lock);
    ring_send_locked(r, BYE, 0, NULL, 0);
    hr__unlock(&r->lock);
    ring_free(r);
}
