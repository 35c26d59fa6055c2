/* ring_server.c - serves splits to ranks in other processes.
 *
 * The server sends batches ahead, limited by a connection's credits (ring_protocol.h). The run's last operator writes
 * batches into the server's exchange arena; messages carry descriptors. A block of the arena is free again when the
 * client has dropped the batch: a batch is valid as long as it is held, and the arena grows by the batches that clients
 * hold.
 *
 * Threads: one dispatcher per server does all work except schemas, which may need a run of the plan (a thread of their
 * own answers them). It waits for its sockets and for an event, which the splits set when a run gives a batch. Locks:
 * server->lock is a leaf.
 *
 * Tests: test_ring.c. */
#include "feed/ring.h"
#include "feed/ring_protocol.h"
#include "share/exchange_arena.h"

#include <inttypes.h>

#define TICK_MS 100            /* the dispatcher looks at all connections at this interval, whatever wakes it */
#define HELLO_NS 10000000000LL /* closes a connection without HELLO after this time */

/* Keys of the dispatcher's watch; the others are addresses of connections. */
enum { EVENT_KEY, DOOR_KEY };

typedef struct conn {
    struct hr_ring_server *server;
    struct conn *next;
    hr_link *link;
    bool watched;
    int pid;
    int64_t since_ns;
    hr_split *split; /* NULL: no HELLO yet */
    int rank;
    uint64_t pass;
    hr_split_request request;
    bool requested; /* HR_RING_BEGIN came, no answer yet */
    bool in;        /* batches may be sent */
    int64_t sent, taken;
    int64_t convert_ns;  /* of the pass, that the split has */
    int64_t batch_bytes; /* of the last batch sent; -1: none */
    bool bye;            /* BYE came: its end is not the loss of the rank */
    bool dead;
    bool has_own; /* its rank is the server's own */
    bool asks;    /* its request for a position waits until the other connections were read */
} conn;

/* A request for a schema. The answer may need a run of the plan, for which the dispatcher must not wait. */
typedef struct schema_request {
    struct schema_request *next;
    hr_link *link;
    hr_split *split;
    uint64_t tag;
} schema_request;

struct hr_ring_server {
    hr_split **splits;
    int n_splits;
    hr_account *account;
    hr_arena *arena;
    hr_listener *listener;
    char key[HR_RING_KEY];
    int own_rank; /* of split 0; -1: none */
    atomic_int n_clients;
    int watch, event;  /* the event wakes the dispatcher */
    atomic_bool awake; /* the event is set */
    bool door_watched; /* dispatcher only, as are these: */
    int64_t tick_ns;   /* when it looks at all connections again */
    conn *conns;
    hr_thread thread;
    bool running;
    hr_mutex lock; /* guards what follows */
    bool stop;
    bool own_taken, own_served; /* the own rank is this process's, or a client's */
    schema_request *requests;
    bool answering;         /* a thread is answering them */
    bool has_schema_thread; /* `schema_thread` must be joined; dispatcher only */
    hr_thread schema_thread;
};

/* ---------------------------------------------------------------------------------------------------------- wake-up */

static void server_wake(void *context)
{
    hr_ring_server *s = context;

    if (!atomic_exchange(&s->awake, true))
        hr__event_set(s->event);
}

/* If the system is out of memory, the next tick tries again. */
static void conn_watch(conn *c)
{
    if (!c->watched)
        c->watched = !hr__watch_add(c->server->watch, hr__link_fd(c->link), (uint64_t)(uintptr_t)c);
}

static void conn_unwatch(conn *c)
{
    if (c->watched)
        hr__watch_remove(c->server->watch, hr__link_fd(c->link));
    c->watched = false;
}

static void door_watch(hr_ring_server *s)
{
    if (!s->door_watched)
        s->door_watched = !hr__watch_add(s->watch, hr__listener_fd(s->listener), DOOR_KEY);
}

/* --------------------------------------------------------------------------------------------------- one connection */

static void conn_free(conn *c)
{
    conn_unwatch(c);
    if (c->split)
        atomic_fetch_sub(&c->server->n_clients, 1);
    if (c->has_own) {
        hr__lock(&c->server->lock);
        c->server->own_served = false;
        hr__unlock(&c->server->lock);
    }
    hr__link_close(c->link);
    hr__link_unref(c->link);
    hr__split_unref(c->split);
    hr__free(c);
}

/* The peer is gone or sent an invalid message (`what`). */
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

static void conn_receive(conn *c);

/* After a send. What the peer said before its end (FAIL, BYE) counts first: it may have come since the last look. */
static void conn_check(conn *c, hr_status st)
{
    if (st == HR_PEER) {
        conn_receive(c);
        if (!c->dead)
            conn_lost(c, "died");
    } else if (st == HR_NO_MEMORY)
        conn_lost(c, "could not be served: out of memory");
    else if (st)
        conn_lost(c, "could not be served");
}

static void conn_refuse(conn *c, uint64_t tag, hr_status st, const char *text)
{
    hr_error e = HR_ERROR_INIT;

    hr_error_set(&e, st, "%s", text);
    conn_check(c, hr__ring_send_error(c->link, HR_RING_REFUSED, tag, &e));
    hr_error_clear(&e);
}

bool hr__ring_take_own(hr_ring_server *s)
{
    bool served;

    hr__lock(&s->lock);
    served = s->own_served;
    s->own_taken = s->own_taken || !served;
    hr__unlock(&s->lock);
    return !served;
}

int hr__ring_clients(hr_ring_server *s) { return atomic_load(&s->n_clients); }

/* The connection requests the server's own rank. false: this process has it. */
static bool conn_takes_own(conn *c)
{
    hr__lock(&c->server->lock);
    c->has_own = !c->server->own_taken;
    c->server->own_served = c->server->own_served || c->has_own;
    hr__unlock(&c->server->lock);
    return c->has_own;
}

static void on_hello(conn *c, const hr_message *m)
{
    hr_ring_server *s = c->server;
    hr_ring_welcome w = { .pid = hr__pid(), .rank = s->own_rank };
    hr_ring_hello h;

    if (c->split || !hr__ring_get_hello(m, &h)) {
        conn_lost(c, "sent an invalid HELLO");
        return;
    }
    c->pid = h.pid;
    if (h.version != HR_RING_PROTOCOL) {
        conn_refuse(c, 0, HR_MISMATCH, "the server has another version of headrace");
        return;
    }
    if (h.split < 0 || h.split >= s->n_splits || h.rank < 0 || h.rank >= hr__split_n_ranks(s->splits[h.split])) {
        conn_refuse(c, 0, HR_INVALID, "the server has no split or rank of this number");
        return;
    }
    if (strcmp(h.key, s->key)) {
        conn_refuse(c, 0, HR_MISMATCH, "the rank reads other data than the process that feeds it");
        return;
    }
    for (conn *o = s->conns; o; o = o->next)
        if (o->split == s->splits[h.split] && o->rank == h.rank && !o->dead) {
            conn_refuse(c, 0, HR_INVALID, "another connection serves this rank already");
            return;
        }
    if (h.split == 0 && h.rank == s->own_rank && !conn_takes_own(c)) {
        conn_refuse(c, 0, HR_INVALID, "another connection serves this rank already");
        return;
    }
    c->split = hr__split_ref(s->splits[h.split]);
    c->rank = h.rank;
    atomic_fetch_add(&s->n_clients, 1);
    hr__split_join(c->split, c->rank, c->pid);
    conn_check(c, hr__link_send_patiently(c->link, HR_RING_WELCOME, 0, &w, sizeof w, NULL, NULL));
}

static void on_begin(conn *c, const hr_message *m)
{
    hr_split_request q;

    if (!hr__ring_get_request(m, &q)) {
        conn_lost(c, "sent an invalid request");
        return;
    }
    if (c->requested || c->in)
        hr__split_leave(c->split, c->rank);
    c->request = q;
    c->pass = m->tag;
    c->requested = true;
    c->in = false;
}

static void on_taken(conn *c, const hr_message *m)
{
    hr_ring_taken t;

    if (m->tag != c->pass)
        return; /* of a pass that the rank has left */
    if (!hr__ring_get_taken(m, &t)) {
        conn_lost(c, "sent damaged messages");
        return;
    }
    if (m->kind == HR_RING_REPORT) {
        hr__split_report_rows(c->split, c->rank, t.n_steps);
        return;
    }
    c->taken = HR_MIN(HR_MAX(c->taken, t.n_steps), c->sent);
    hr__split_converted(c->split, c->rank, HR_MAX(0, t.convert_ns - c->convert_ns));
    c->convert_ns = t.convert_ns;
    hr__split_taken(c->split, c->rank, c->taken, t.wait_ns);
    if (m->kind == HR_RING_FINISHED)
        hr__split_finish(c->split, c->rank);
}

static void on_fail(conn *c, const hr_message *m)
{
    hr_error e = HR_ERROR_INIT;

    hr_error_set(&e, HR_PEER, "%.*s", (int)HR_MIN(m->n_bytes, 900), m->bytes ? (const char *)m->bytes : "");
    hr__split_lost(c->split, c->rank, &e);
    c->bye = true;
    c->in = c->requested = false;
    hr_error_clear(&e);
}

static void request_free(schema_request *a)
{
    hr__link_unref(a->link);
    hr__split_unref(a->split);
    hr__free(a);
}

static schema_request *next_request(hr_ring_server *s)
{
    schema_request *a;

    hr__lock(&s->lock);
    if ((a = s->stop ? NULL : s->requests))
        s->requests = a->next;
    else
        s->answering = false;
    hr__unlock(&s->lock);
    return a;
}

/* The schema thread: answers requests one by one, because the first answer makes the others quick. */
static void answer_schemas(void *context)
{
    hr_ring_server *s = context;

    for (schema_request *a; (a = next_request(s)); request_free(a)) {
        hr_error e = HR_ERROR_INIT;
        hr_schema *schema = NULL;
        hr_table *table = NULL;
        hr_status st = hr__split_schema(a->split, &schema, &e);

        if (!st)
            st = hr__table_empty(schema, &table, &e);
        if (st)
            st = hr__ring_send_error(a->link, HR_RING_REFUSED, a->tag, &e);
        else
            st = hr__link_send_patiently(a->link, HR_RING_ANSWER, a->tag, NULL, 0, table, NULL);
        if (st)
            hr__link_close(a->link); /* the dispatcher notices */
        hr_table_unref(table);
        hr__schema_unref(schema);
        hr_error_clear(&e);
    }
}

static hr_status start_schema_thread(hr_ring_server *s)
{
    bool answering;

    hr__lock(&s->lock);
    answering = s->answering;
    s->answering = true;
    hr__unlock(&s->lock);
    if (answering)
        return HR_OK;
    if (s->has_schema_thread)
        hr__thread_join(s->schema_thread);
    s->has_schema_thread = hr__thread_start(&s->schema_thread, "hr-ring-schema", answer_schemas, s) >= 0;
    if (s->has_schema_thread)
        return HR_OK;
    hr__lock(&s->lock);
    s->answering = false;
    hr__unlock(&s->lock);
    return HR_NO_MEMORY;
}

static void on_ask_schema(conn *c, const hr_message *m)
{
    hr_ring_server *s = c->server;
    schema_request *a = hr__alloc(s->account, sizeof *a);

    if (!a) {
        conn_refuse(c, m->tag, HR_NO_MEMORY, "ring: out of memory for the request of a schema");
        return;
    }
    *a = (schema_request){ .link = hr__link_ref(c->link), .split = hr__split_ref(c->split), .tag = m->tag };
    hr__lock(&s->lock);
    a->next = s->requests;
    s->requests = a;
    hr__unlock(&s->lock);
    if (start_schema_thread(s)) {
        hr__lock(&s->lock);
        s->requests = a->next; /* without a thread no one else takes requests */
        hr__unlock(&s->lock);
        request_free(a);
        conn_refuse(c, m->tag, HR_NO_MEMORY, "ring: cannot start a thread that finds the schema");
    }
}

static hr_status on_restore(conn *c, const char *text, char **differs, hr_error *err)
{
    hr_position_how how = { .differs = differs };
    const char *position = hr__ring_get_restore(text, &how);

    how.agree = true;
    return hr__split_restore(c->split, position, &how, err);
}

/* Reads what the other ranks of the split have sent so far. */
static void hear_others(conn *c)
{
    c->asks = true;
    for (conn *o = c->server->conns; o; o = o->next)
        if (o->split == c->split && !o->asks && !o->dead)
            conn_receive(o);
    c->asks = false;
}

/* The ranks report each batch that they take; connections are read one after another. So if the ranks seem to be at
 * different places, a report may wait on another connection, although its rank sent it before this one asked. */
static hr_status common_position(conn *c, char **text, hr_error *err)
{
    hr_status st = hr__split_position(c->split, text, err);

    if (st != HR_MISMATCH)
        return st;
    hear_others(c);
    hr_error_clear(err);
    return hr__split_position(c->split, text, err);
}

/* ASK_POSITION_OF: one digit. */
static int taken_ahead(const hr_message *m)
{
    const char *text = m->n_bytes > 0 ? m->bytes : "0";

    return *text >= '0' && *text <= '9' ? *text - '0' : 0;
}

static void on_ask(conn *c, const hr_message *m)
{
    hr_error e = HR_ERROR_INIT;
    char *text = NULL;
    hr_status st;

    if (m->kind == HR_RING_ASK_POSITION)
        st = common_position(c, &text, &e);
    else if (m->kind == HR_RING_ASK_POSITION_OF)
        st = hr__split_position_of(c->split, c->rank, taken_ahead(m), &text, &e);
    else if (m->kind == HR_RING_ASK_RANKS)
        st = hr__split_describe_ranks(c->split, &text, &e);
    else if (m->kind == HR_RING_ASK_STATS)
        st = hr__split_stats(c->split, &text, &e);
    else
        st = on_restore(c, m->bytes ? m->bytes : "", &text, &e);
    if (st)
        st = hr__ring_send_error(c->link, HR_RING_REFUSED, m->tag, &e);
    else
        st = hr__link_send_patiently(c->link, HR_RING_ANSWER, m->tag, text, text ? (int64_t)strlen(text) : 0, NULL,
                                     NULL);
    conn_check(c, st);
    hr_string_free(text);
    hr_error_clear(&e);
}

static void on_message(conn *c, const hr_message *m)
{
    if (m->kind != HR_RING_HELLO && !c->split) {
        c->dead = true; /* a message before HELLO */
        return;
    }
    switch (m->kind) {
    case HR_RING_HELLO: on_hello(c, m); break;
    case HR_RING_BEGIN: on_begin(c, m); break;
    case HR_RING_TAKEN:
    case HR_RING_REPORT:
    case HR_RING_FINISHED: on_taken(c, m); break;
    case HR_RING_LEAVE:
        c->requested = c->in = false;
        hr__split_leave(c->split, c->rank);
        break;
    case HR_RING_ASK_POSITION:
    case HR_RING_ASK_POSITION_OF:
    case HR_RING_ASK_RANKS:
    case HR_RING_ASK_RESTORE:
    case HR_RING_ASK_STATS: on_ask(c, m); break;
    case HR_RING_ASK_SCHEMA: on_ask_schema(c, m); break;
    case HR_RING_FAIL: on_fail(c, m); break;
    case HR_RING_BYE:
        c->bye = true;
        conn_lost(c, "left with BYE");
        break;
    default: conn_lost(c, "sent an unknown message"); break;
    }
}

static void conn_receive(conn *c)
{
    while (!c->dead) {
        hr_message m = { 0 };
        hr_status st = hr__link_recv(c->link, 0, &m, NULL);

        if (st == HR_NO_MEMORY)
            conn_unwatch(c); /* until the next tick, which tries again */
        if (st == HR_PENDING || st == HR_NO_MEMORY)
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

/* ------------------------------------------------------------------------------------------------ begin and batches */

static void conn_failed(conn *c, const hr_error *e)
{
    c->requested = c->in = false;
    conn_check(c, hr__ring_send_error(c->link, HR_RING_FAILED, c->pass, e));
}

static void conn_begin(conn *c)
{
    hr_error e = HR_ERROR_INIT;
    hr_status st = hr__split_begin(c->split, c->rank, &c->request, 0, &e);

    if (st && st != HR_PENDING)
        conn_failed(c, &e);
    if (!st) {
        c->requested = false;
        c->in = true;
        c->sent = c->taken = c->convert_ns = 0;
        c->batch_bytes = -1;
        conn_check(c, hr__link_send_patiently(c->link, HR_RING_BEGUN, c->pass, NULL, 0, NULL, NULL));
    }
    hr_error_clear(&e);
}

/* Whether batches here and at the clients exceed the limit: then each client gets one batch at a time. */
static bool over_limit(const hr_ring_server *s)
{
    int64_t limit = hr__account_limit(s->account);

    return limit > 0 && hr__arena_used(s->arena) > limit;
}

/* Whether the client's credits allow another batch. */
static bool conn_has_credit(const conn *c)
{
    int64_t ahead = c->sent - c->taken;

    return ahead == 0 || (ahead <= hr__split_ahead(c->request.prefetch, c->batch_bytes) && !over_limit(c->server));
}

/* HR_BUDGET: with the batches that this client holds another one would exceed the limit. */
static hr_status conn_admit(const conn *c, hr_error *err)
{
    int64_t held = hr__link_outstanding(c->link) - (c->sent - c->taken);

    if (held <= c->request.prefetch + 2 || !over_limit(c->server))
        return HR_OK;
    return hr_error_set(err, HR_BUDGET,
                        "rank %d holds %" PRId64 " batches; the held batches of all ranks need %" PRId64
                        " bytes; the memory limit is %" PRId64 "; drop batches, or copy the rows to keep",
                        c->rank, held, hr__arena_used(c->server->arena), hr__account_limit(c->server->account));
}

/* Sends a batch, the end or an error to the client; false: there is none now. */
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
        c->batch_bytes = hr__table_bytes_used(t);
        conn_check(c, hr__link_send_patiently(c->link, HR_RING_BATCH, c->pass, NULL, 0, t, NULL));
    } else {
        c->in = false;
        conn_check(c, hr__link_send_patiently(c->link, HR_RING_END, c->pass, NULL, 0, NULL, NULL));
    }
    hr_table_unref(t);
    hr_error_clear(&e);
    return true;
}

/* Sends batches round robin until no client gets one. */
static void serve_all(hr_ring_server *s)
{
    bool again = true;

    while (again) {
        again = false;
        for (conn *c = s->conns; c; c = c->next) {
            if (c->requested && !c->dead)
                conn_begin(c);
            if (c->in && !c->dead && conn_has_credit(c))
                again = conn_batch(c) || again;
        }
    }
}

/* --------------------------------------------------------------------------------------------------------- its life */

static hr_status server_accept_one(hr_ring_server *s)
{
    hr_link *link = NULL;
    conn *c;

    HR_TRY(hr__listener_accept(s->listener, s->account, s->arena, &link, NULL));
    c = hr__zalloc(s->account, sizeof *c);
    if (!c) {
        hr__link_close(link);
        hr__link_unref(link);
        return HR_NO_MEMORY;
    }
    c->server = s;
    c->link = link;
    c->since_ns = hr__clock_ns();
    c->next = s->conns;
    s->conns = c;
    conn_watch(c);
    return HR_OK;
}

/* A connection that cannot be accepted (for example, no descriptor is left) stays readable: then the listener is not
 * watched until the next tick. */
static void server_accept(hr_ring_server *s)
{
    hr_status st;

    while (!(st = server_accept_one(s)))
        ;
    if (st == HR_PENDING)
        return;
    if (s->door_watched)
        hr__watch_remove(s->watch, hr__listener_fd(s->listener));
    s->door_watched = false;
}

static void free_dead(hr_ring_server *s)
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

/* Looks at all connections and at the listener. */
static void server_tick(hr_ring_server *s)
{
    if (hr__clock_ns() < s->tick_ns)
        return;
    s->tick_ns = hr__clock_ns() + TICK_MS * 1000000LL;
    door_watch(s);
    server_accept(s);
    for (conn *c = s->conns; c; c = c->next) {
        conn_watch(c);
        conn_receive(c);
    }
}

/* Waits, and receives what has come. */
static void server_listen(hr_ring_server *s)
{
    uint64_t keys[16];
    int n = hr__watch_wait(s->watch, keys, HR_LEN(keys), TICK_MS);

    for (int i = 0; i < n; i++) {
        if (keys[i] == EVENT_KEY)
            hr__event_clear(s->event);
        else if (keys[i] == DOOR_KEY)
            server_accept(s);
        else
            conn_receive((conn *)(uintptr_t)keys[i]);
    }
    atomic_store(&s->awake, false); /* after the event is clear, before the splits are asked */
    server_tick(s);
}

static bool is_stopped(hr_ring_server *s)
{
    bool stop;

    hr__lock(&s->lock);
    stop = s->stop;
    hr__unlock(&s->lock);
    return stop;
}

static void server_main(void *context)
{
    hr_ring_server *s = context;

    while (!is_stopped(s)) {
        server_listen(s);
        serve_all(s);
        free_dead(s);
    }
}

hr_status hr__ring_serve(hr_split *const *splits, int n, const hr_ring_options *options, hr_ring_server **out,
                         char **address, hr_error *err)
{
    static const hr_ring_options none;
    const hr_ring_options *o = options ? options : &none;
    hr_status st = HR_OK;
    hr_ring_server *s = NULL;
    int bad = 0;

    *out = NULL;
    *address = NULL;
    if (o->key && strlen(o->key) >= HR_RING_KEY)
        return hr_error_set(err, HR_INVALID, "ring: a key has at most %d bytes", HR_RING_KEY - 1);
    s = hr__zalloc(NULL, sizeof *s);
    if (!s)
        return hr__error_memory(err, "ring", sizeof *s);
    hr__mutex_init(&s->lock);
    s->watch = s->event = -1;
    atomic_init(&s->awake, false);
    atomic_init(&s->n_clients, 0);
    if (o->key)
        memcpy(s->key, o->key, strlen(o->key));
    s->own_rank = o->has_own_rank ? o->own_rank : -1;
    s->account = hr__account_new("ring", NULL, 0);
    s->splits = hr__zalloc(s->account, (size_t)HR_MAX(n, 1) * sizeof *s->splits);
    if (!s->account || !s->splits)
        HR_FAIL(HR_NO_MEMORY, "ring: out of memory for %d splits", n);
    for (; s->n_splits < n; s->n_splits++)
        s->splits[s->n_splits] = hr__split_ref(splits[s->n_splits]);
    HR_GO(hr__arena_new(s->account, "ring", &s->arena, err));
    HR_GO(hr__listener_open(o->address, &s->listener, err));
    *address = hr__strdup(NULL, hr__listener_address(s->listener));
    if (!*address)
        HR_FAIL(HR_NO_MEMORY, "ring: out of memory for the address");
    if ((s->watch = hr__watch_new()) < 0 || (s->event = hr__event_new()) < 0 ||
        (bad = hr__watch_add(s->watch, s->event, EVENT_KEY))) {
        st = hr__error_os(err, s->watch < 0 ? s->watch : s->event < 0 ? s->event : bad, "ring", "watch its sockets");
        goto done;
    }
    door_watch(s);
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
        hr__unlock(&s->lock);
        hr__event_set(s->event);
        hr__thread_join(s->thread);
    }
    if (s->has_schema_thread)
        hr__thread_join(s->schema_thread);
    for (schema_request *a; (a = s->requests);) {
        s->requests = a->next;
        request_free(a);
    }
    while (s->conns) {
        conn *c = s->conns;

        s->conns = c->next;
        if (c->split)
            hr__split_lost(c->split, c->rank, NULL);
        conn_free(c);
    }
    hr__listener_close(s->listener);
    hr__file_close(s->event);
    hr__file_close(s->watch);
    for (int i = 0; i < s->n_splits; i++)
        hr__split_unref(s->splits[i]);
    hr__free(s->splits);
    hr__arena_unref(s->arena);
    hr__account_unref(s->account);
    hr__mutex_clear(&s->lock);
    hr__free(s);
}
