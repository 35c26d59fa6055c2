/* link.c - one end of a socket over which tables travel between two processes.
 *
 * Sending. Columns that are not in shared memory are copied into the arena. What the message refers to is its *cargo*; it gets
 * a slot, whose number and sequence number go along. Segments that the peer does not map yet go first, each with its
 * descriptor. Then the packet is queued, and the queue goes out as far as the socket takes it.
 *
 * Receiving. Buffers of a received table map the peer's memory and share one *hold*. When the last of them goes, on
 * whatever thread, the hold is queued and leaves as RELEASE(slot, seq); the peer drops its cargo. A hold is the node of that queue
 * itself: giving back needs no memory and cannot fail.
 *
 * The end. Contents of held tables must not change, so a block may be used again only when nobody reads it:
 * 1. A peer that died (the socket ends) reads no more. Its cargo is dropped, the blocks are free.
 * 2. A peer that closed its end while it held tables has said BYE first: they are retired (arena.c), then dropped.
 *    If BYE does not fit into the socket, the end is not shown before the last table went.
 * 3. We close while the peer holds tables: likewise.
 * A send that fails (EPIPE) does not know which it is: cargo stays until the end was read, or until we close.
 *
 * Locks: send_lock, so that messages leave in the order of their schemas; recv_lock, for one reader; link->lock within both, a
 * leaf. Nothing is freed under link->lock, it goes into a `trash` that is emptied afterwards: freeing may call anybody, a
 * link too. Nothing waits under any of them, so that a thread that waits in hr__link_recv holds up no other. */
#include "core/share.h"

#include <errno.h>

#define SLICE_MS 100
#define BACKLOG_SLICE_MS 5 /* while packets are queued: the socket may take them soon */
#define IN_BYTES 65536
#define MAX_KIND 0x8000
#define MAX_SLOTS (1 << 24)
#define MAX_DRAIN 4096 /* packets; the socket holds some hundred */

/* What a message refers to, kept until the peer releases it. */
typedef struct cargo {
    struct cargo *next;
    bool table;
    hr_buffer *body; /* NULL: was in the packet */
    int n;
    hr_array *columns[];
} cargo;

typedef struct slot {
    uint64_t seq; /* 0: free */
    cargo *cargo;
    int64_t next_free;
} slot;

typedef struct packet {
    struct packet *next;
    hr_segment *segment; /* its descriptor goes along; counted */
    int64_t n;
    uint64_t data[];
} packet;

typedef struct known_schema {
    hr_schema *schema;
    hr_text bytes;
} known_schema;

/* What is to be freed when no lock is held. */
typedef struct trash {
    packet *packets;
    cargo *cargo;
    hr_hold *holds;
    hr_segment **known; /* references */
    int64_t n_known;
    hr_segment *gone[16]; /* references */
    int n_gone;
    bool retire; /* the cargo's segments first */
} trash;

struct hr_link {
    atomic_int users; /* references by hr__link_ref */
    atomic_int parts; /* 1 for all users, 1 for each hold */
    atomic_int n_holds;
    int fd;
    int pid;
    hr_account *account;
    hr_mem mem; /* where copies go */
    hr_peer peer;

    hr_mutex send_lock; /* guards what follows */
    known_schema schemas[HR_WIRE_SCHEMAS];
    int next_schema;

    hr_mutex recv_lock; /* guards what follows */
    uint64_t *in;       /* IN_BYTES */
    int64_t n_in;       /* > 0: a packet that is still to be decoded */
    int in_fd;          /* that came with it */

    hr_mutex lock; /* guards what follows */
    bool closed;   /* by us */
    bool broken;   /* nothing can be sent */
    int64_t why;   /* -errno of the send that failed */
    bool ended;    /* nothing will come */
    bool peer_holds; /* it said BYE: it closed, but still reads what it was given */
    bool kept_open;  /* closed, but the end is not shown yet */
    packet *out, **out_end;
    hr_hold *released, **released_end;
    hr_segment **known; /* that the peer maps */
    int64_t n_known, cap_known;
    uint64_t gone_seen;
    slot *slots;
    int64_t n_slots, cap_slots, free_slot; /* free_slot < 0: none */
    uint64_t last_seq;
    int64_t n_tables;
};

static bool is_ours(const hr_link *l) { return l->pid == hr__pid(); }

static hr_status not_ours(const hr_link *l, hr_error *err)
{
    return hr_error_set(err, HR_PEER, "link: it belongs to process %d, not to its child %d", l->pid, hr__pid());
}

static hr_status gone(hr_error *err)
{
    return hr_error_set(err, HR_PEER, "link: the other process has closed its end or died");
}

static hr_status closed(hr_error *err) { return hr_error_set(err, HR_PEER, "link: it was closed"); }

/* ----------------------------------------------------------------------------------------------------------- freeing */

static void retire_buffer(void *context, hr_buffer *b)
{
    int64_t offset;
    hr_segment *s = hr__buffer_segment(b, &offset);

    (void)context;
    if (s)
        hr__segment_retire(s);
}

static void cargo_free(cargo *c, bool retire)
{
    if (!c)
        return;
    if (retire && c->body)
        retire_buffer(NULL, c->body);
    for (int i = 0; i < c->n && retire; i++)
        if (c->columns[i])
            hr__array_buffers(c->columns[i], retire_buffer, NULL);
    for (int i = 0; i < c->n; i++)
        hr__array_unref(c->columns[i]);
    hr__buffer_unref(c->body);
    hr__free(c);
}

static void packet_free(packet *p)
{
    if (p)
        hr__segment_unref(p->segment);
    hr__free(p);
}

static void part_unref(hr_link *l)
{
    if (atomic_fetch_sub_explicit(&l->parts, 1, memory_order_acq_rel) > 1)
        return;
    hr__file_close(l->fd);
    hr__file_close(l->in_fd);
    for (int64_t i = 0; i < l->n_known; i++)
        hr__segment_unref(l->known[i]);
    hr__free(l->known);
    hr__free(l->slots);
    for (int i = 0; i < HR_WIRE_SCHEMAS; i++) {
        hr__schema_unref(l->schemas[i].schema);
        hr__text_clear(&l->schemas[i].bytes);
    }
    hr__peer_clear(&l->peer);
    hr__free(l->in);
    hr__mutex_clear(&l->send_lock);
    hr__mutex_clear(&l->recv_lock);
    hr__mutex_clear(&l->lock);
    hr__arena_unref(l->mem.arena);
    hr__account_unref(l->account);
    hr__free(l);
}

static void trash_empty(trash *t)
{
    for (packet *p; (p = t->packets);) {
        t->packets = p->next;
        packet_free(p);
    }
    for (cargo *c; (c = t->cargo);) {
        t->cargo = c->next;
        cargo_free(c, t->retire);
    }
    for (hr_hold *h; (h = t->holds);) {
        t->holds = h->next;
        hr__free(h);
    }
    while (t->n_gone)
        hr__segment_unref(t->gone[--t->n_gone]);
    while (t->n_known)
        hr__segment_unref(t->known[--t->n_known]);
    hr__free(t->known);
    t->known = NULL;
}

/* All cargo, and what was still to be sent. */
static void drop_all_locked(hr_link *l, trash *t)
{
    for (int64_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].seq) {
            l->slots[i].cargo->next = t->cargo;
            t->cargo = l->slots[i].cargo;
        }
    l->n_slots = l->n_tables = 0;
    l->free_slot = -1;
    *l->out_end = t->packets;
    t->packets = l->out;
    l->out = NULL;
    l->out_end = &l->out;
    *l->released_end = t->holds;
    t->holds = l->released;
    l->released = NULL;
    l->released_end = &l->released;
    t->known = l->known;
    t->n_known = l->n_known;
    l->known = NULL;
    l->n_known = l->cap_known = 0;
}

/* ------------------------------------------------------------------------------------------------- what goes out, lock held */

/* Nothing more can be sent. If that is not because the peer is gone, it must not wait for us, and may go on reading. */
static void break_locked(hr_link *l, int64_t why)
{
    l->broken = true;
    l->why = why;
    if (why == -EPIPE || why == -ECONNRESET)
        return;
    l->peer_holds = true;
    hr__socket_shutdown(l->fd);
}

/* True if the socket took it. */
static bool put_locked(hr_link *l, const void *data, int64_t n, const hr_segment *s)
{
    int64_t rc = hr__socket_send(l->fd, data, n, s ? &s->fd : NULL, s ? 1 : 0);

    if (rc == n)
        return true;
    /* the latter: too much is in flight, the peer takes it up soon */
    if (rc != -EAGAIN && rc != -ENOBUFS && rc != -ENOMEM && rc != -ETOOMANYREFS)
        break_locked(l, rc);
    return false;
}

static bool put_releases_locked(hr_link *l, trash *t)
{
    while (l->released && !l->broken) {
        hr_packet_release r = { .head = hr__packet_head(HR_PACKET_RELEASE) };
        hr_hold *last = NULL;
        for (hr_hold *h = l->released; h && r.n < HR_RELEASED_MOST; last = h, h = h->next)
            r.items[r.n++] = (hr_released){ .seq = h->seq, .slot = h->slot };
        if (!put_locked(l, &r, (int64_t)(offsetof(hr_packet_release, items) + r.n * sizeof r.items[0]), NULL))
            return false;
        hr_hold *first = l->released;
        if (!(l->released = last->next))
            l->released_end = &l->released;
        last->next = t->holds;
        t->holds = first;
    }
    return true;
}

/* Tells the peer which segments were given back. One that is still to be sent to it is not among them: its blocks are cargo. */
static void put_forgets_locked(hr_link *l, trash *t)
{
    uint64_t now = hr__segments_gone();

    if (l->gone_seen == now)
        return;
    for (int64_t i = 0; i < l->n_known;) {
        hr_segment *s = l->known[i];
        hr_packet_forget f = { .head = hr__packet_head(HR_PACKET_FORGET), .id = s->id };
        if (!atomic_load(&s->gone)) {
            i++;
            continue;
        }
        if (t->n_gone == HR_LEN(t->gone) || !put_locked(l, &f, sizeof f, NULL))
            return; /* later */
        l->known[i] = l->known[--l->n_known];
        t->gone[t->n_gone++] = s;
    }
    l->gone_seen = now;
}

static void flush_locked(hr_link *l, trash *t)
{
    if (l->broken || l->closed || !put_releases_locked(l, t))
        return;
    while (l->out && put_locked(l, l->out->data, l->out->n, l->out->segment)) {
        packet *p = l->out;
        if (!(l->out = p->next))
            l->out_end = &l->out;
        p->next = t->packets;
        t->packets = p;
    }
    if (!l->out && !l->broken)
        put_forgets_locked(l, t);
}

static void flush(hr_link *l)
{
    trash t = { 0 };

    hr__lock(&l->lock);
    flush_locked(l, &t);
    hr__unlock(&l->lock);
    trash_empty(&t);
}

/* ------------------------------------------------------------------------------------------------------------- holds */

static void link_hold_new(void *owner)
{
    hr_link *l = owner;

    atomic_fetch_add_explicit(&l->parts, 1, memory_order_relaxed);
    atomic_fetch_add(&l->n_holds, 1);
}

/* The last buffer of a received message went. */
static void link_hold_gone(hr_hold *h)
{
    hr_link *l = h->owner;
    trash t = { 0 };

    if (!is_ours(l)) { /* in a forked child: our parent has one, too */
        hr__free(h);
        return;
    }
    hr__lock(&l->lock);
    h->next = NULL;
    if (h->voided || l->closed || l->broken) {
        t.holds = h;
    } else {
        *l->released_end = h;
        l->released_end = &h->next;
        flush_locked(l, &t);
    }
    if (atomic_fetch_sub(&l->n_holds, 1) == 1 && l->kept_open)
        hr__socket_shutdown(l->fd);
    hr__unlock(&l->lock);
    trash_empty(&t);
    part_unref(l);
}

/* --- columns of ours that come back */

typedef struct search {
    uint64_t segment;
    int64_t offset, n;
    hr_buffer *found; /* counted; the whole of it */
} search;

static void search_buffer(void *context, hr_buffer *b)
{
    search *s = context;
    hr_buffer *root = b->kind == HR_BUFFER_SLICE ? b->owner : b;
    int64_t at = 0;
    const hr_segment *segment = s->found ? NULL : hr__buffer_segment(root, &at);

    if (segment && segment->id == s->segment && s->offset >= at && s->n <= root->n_bytes &&
        s->offset - at <= root->n_bytes - s->n)
        s->found = hr__buffer_ref(root);
}

static hr_status link_own(void *owner, uint64_t segment, int64_t offset, int64_t n, hr_buffer **out, hr_error *err)
{
    hr_link *l = owner;
    search s = { segment, offset, n, NULL };
    int64_t at = 0;
    hr_status st = HR_OK;

    hr__lock(&l->lock);
    for (int64_t i = l->n_slots; i-- > 0 && !s.found;)
        for (int k = 0; l->slots[i].seq && k < l->slots[i].cargo->n && !s.found; k++)
            hr__array_buffers(l->slots[i].cargo->columns[k], search_buffer, &s);
    hr__unlock(&l->lock);
    if (!s.found)
        return hr_error_set(err, HR_BAD_DATA, "link: %lld bytes of segment %llu come back that the peer does not hold",
                            (long long)n, (unsigned long long)segment);
    (void)hr__buffer_segment(s.found, &at);
    if (at == offset && n == s.found->n_bytes) {
        *out = s.found;
        return HR_OK;
    }
    st = hr__buffer_slice(s.found, offset - at, n, out, err);
    hr__buffer_unref(s.found);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- making, ending */

hr_status hr__link_new(int fd, hr_account *account, hr_arena *arena, hr_link **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_link *l = hr__zalloc(account, sizeof *l);
    uint64_t *in = hr__alloc(account, IN_BYTES);

    *out = NULL;
    if (!l || !in) {
        st = hr__error_memory(err, "link", IN_BYTES);
        goto done;
    }
    if (!arena)
        HR_GO(hr__arena_new(account, "link", &l->mem.arena, err));
    else
        l->mem.arena = hr__arena_ref(arena);
    atomic_init(&l->users, 1);
    atomic_init(&l->parts, 1);
    l->fd = fd;
    l->in_fd = -1;
    l->pid = hr__pid();
    l->account = l->mem.account = hr__account_ref(account);
    hr__peer_init(&l->peer, account);
    l->peer.owner = l;
    l->peer.hold_new = link_hold_new;
    l->peer.hold_gone = link_hold_gone;
    l->peer.own = link_own;
    hr__mutex_init(&l->send_lock);
    hr__mutex_init(&l->recv_lock);
    hr__mutex_init(&l->lock);
    l->out_end = &l->out;
    l->released_end = &l->released;
    l->free_slot = -1;
    l->in = in;
    *out = l;
    return HR_OK;
done:
    hr__free(in);
    hr__free(l);
    hr__file_close(fd);
    return st;
}

hr_link *hr__link_ref(hr_link *l)
{
    if (l)
        atomic_fetch_add_explicit(&l->users, 1, memory_order_relaxed);
    return l;
}

void hr__link_unref(hr_link *l)
{
    if (!l || atomic_fetch_sub_explicit(&l->users, 1, memory_order_acq_rel) > 1)
        return;
    if (!is_ours(l)) { /* its locks may never be let go here; our parent's end must not stay open for our sake */
        hr__file_close(l->fd);
        return;
    }
    hr__link_close(l);
    part_unref(l);
}

int hr__link_fd(const hr_link *l) { return l->fd; }

int64_t hr__link_outstanding(const hr_link *l)
{
    hr_mutex *lock = (hr_mutex *)&l->lock;
    int64_t n;

    if (!is_ours(l))
        return 0;
    hr__lock(lock);
    n = l->n_tables;
    hr__unlock(lock);
    return n;
}

void hr__message_clear(hr_message *m)
{
    hr__free(m->bytes);
    hr_table_unref(m->table);
    *m = (hr_message){ 0 };
}

/* ------------------------------------------------------------------------------------------------------------ sending */

/* A message on its way into the queue. */
typedef struct draft {
    hr_wire wire; /* columns, and segments of all that is referred to */
    cargo *cargo; /* NULL: the packet is all */
    hr_text schema_bytes;
    hr_schema *schema;
    int schema_slot;
    bool schema_new;
    packet *message;
    packet *segments; /* one for each segment that the peer may not know */
} draft;

static void draft_clear(draft *d)
{
    hr__wire_clear(&d->wire);
    cargo_free(d->cargo, false);
    hr__text_clear(&d->schema_bytes);
    packet_free(d->message);
    for (packet *p; (p = d->segments);) {
        d->segments = p->next;
        packet_free(p);
    }
}

static packet *packet_new(hr_link *l, int64_t n)
{
    packet *p = hr__zalloc(l->account, sizeof *p + (size_t)n);

    if (p)
        p->n = n;
    return p;
}

static hr_status draft_cargo(hr_link *l, draft *d, int n, hr_error *err)
{
    if (!d->cargo && !(d->cargo = hr__zalloc(l->account, sizeof *d->cargo + (size_t)n * sizeof(hr_array *))))
        return hr__error_memory(err, "link", n);
    d->cargo->n = n;
    return HR_OK;
}

static hr_status draft_table(hr_link *l, draft *d, const hr_table *t, hr_error *err)
{
    d->wire.bytes.account = d->schema_bytes.account = l->account;
    d->wire.sole = true;
    d->wire.alone = t->sole && atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
    HR_TRY(draft_cargo(l, d, t->schema->n, err));
    d->cargo->table = true;
    for (int i = 0; i < t->schema->n; i++) {
        hr_status st = hr__wire_column(&d->wire, &l->peer, &l->mem, t->columns[i], &d->cargo->columns[i], err);
        if (st)
            return hr__error_at(err, st, "column '%s'", t->schema->fields[i].name);
    }
    d->schema = t->schema;
    return HR_OK;
}

/* Which number the schema has; schema_bytes stays empty if the peer knows it. send_lock is held. */
static hr_status draft_schema(hr_link *l, draft *d, hr_error *err)
{
    for (int i = 0; i < HR_WIRE_SCHEMAS; i++)
        if (l->schemas[i].schema == d->schema) {
            d->schema_slot = i;
            return HR_OK;
        }
    HR_TRY(hr__wire_schema(d->schema, &d->schema_bytes, err));
    for (int i = 0; i < HR_WIRE_SCHEMAS; i++) {
        const hr_text *have = &l->schemas[i].bytes;
        if (l->schemas[i].schema && have->n == d->schema_bytes.n && !memcmp(have->data, d->schema_bytes.data, (size_t)have->n)) {
            d->schema_slot = i;
            hr__text_clear(&d->schema_bytes);
            return HR_OK;
        }
    }
    d->schema_slot = l->next_schema;
    d->schema_new = true;
    return HR_OK;
}

/* It was queued. */
static void learn_schema(hr_link *l, draft *d)
{
    known_schema *k = &l->schemas[d->schema_slot];

    if (!d->schema_new)
        return;
    hr__schema_unref(k->schema);
    hr__text_clear(&k->bytes);
    k->schema = hr__schema_ref(d->schema);
    k->bytes = d->schema_bytes;
    d->schema_bytes = (hr_text){ 0 };
    l->next_schema = (l->next_schema + 1) % HR_WIRE_SCHEMAS;
}

static void put_body(uint8_t *to, const draft *d, const void *bytes, int64_t n_bytes)
{
    if (d->schema_bytes.n)
        memcpy(to, d->schema_bytes.data, (size_t)d->schema_bytes.n);
    to += d->schema_bytes.n;
    if (d->wire.bytes.n)
        memcpy(to, d->wire.bytes.data, (size_t)d->wire.bytes.n);
    to += d->wire.bytes.n;
    if (n_bytes)
        memcpy(to, bytes, (size_t)n_bytes);
}

/* The message's packet; what does not fit goes into a block. */
static hr_status draft_packet(hr_link *l, draft *d, hr_packet_message *m, const void *bytes, hr_error *err)
{
    const int64_t n_head = sizeof *m;
    int64_t n = m->n_schema + m->n_columns_bytes + m->n_bytes;
    bool outside = n > HR_PACKET_BYTES - n_head;

    if (outside) {
        hr_segment *s;
        HR_TRY(draft_cargo(l, d, d->cargo ? d->cargo->n : 0, err));
        HR_TRY(hr__arena_buffer(l->mem.arena, n, &d->cargo->body, err));
        put_body(d->cargo->body->data, d, bytes, m->n_bytes);
        s = hr__buffer_segment(d->cargo->body, &m->offset);
        HR_TRY(hr__wire_segment(&d->wire, s, err));
        m->segment = s->id;
        m->flags |= HR_MESSAGE_OUTSIDE;
    }
    if (d->cargo)
        m->flags |= HR_MESSAGE_HELD;
    if (!(d->message = packet_new(l, n_head + (outside ? 0 : n))))
        return hr__error_memory(err, "link", n_head + n);
    memcpy(d->message->data, m, sizeof *m);
    if (!outside)
        put_body((uint8_t *)d->message->data + n_head, d, bytes, m->n_bytes);
    return HR_OK;
}

/* Packets for all segments, since only the lock tells which of them the peer knows. */
static hr_status draft_segments(hr_link *l, draft *d, hr_error *err)
{
    for (int64_t i = 0; i < d->wire.n_segments; i++) {
        hr_segment *s = d->wire.segments[i];
        hr_packet_segment head = { .head = hr__packet_head(HR_PACKET_SEGMENT), .id = s->id, .n_bytes = s->n_bytes };
        packet *p = packet_new(l, sizeof head);
        if (!p)
            return hr__error_memory(err, "link", sizeof head);
        memcpy(p->data, &head, sizeof head);
        p->segment = hr__segment_ref(s);
        p->next = d->segments;
        d->segments = p;
    }
    return HR_OK;
}

static bool knows_locked(const hr_link *l, const hr_segment *s)
{
    for (int64_t i = l->n_known; i-- > 0;)
        if (l->known[i] == s)
            return true;
    return false;
}

/* Room for all that queue_locked adds. */
static hr_status room_locked(hr_link *l, const draft *d, hr_error *err)
{
    void *slots = l->slots, *known = l->known;
    bool ok = l->free_slot >= 0 || hr__grow(l->account, &slots, &l->cap_slots, l->n_slots + 1, sizeof *l->slots);

    l->slots = slots;
    ok = ok && hr__grow(l->account, &known, &l->cap_known, l->n_known + d->wire.n_segments, sizeof *l->known);
    l->known = known;
    if (l->free_slot < 0 && l->n_slots == MAX_SLOTS)
        return hr_error_set(err, HR_BUDGET, "link: the peer holds %d messages", MAX_SLOTS);
    return ok ? HR_OK : hr__error_memory(err, "link", sizeof *l->slots);
}

static void append_locked(hr_link *l, packet *p)
{
    p->next = NULL;
    *l->out_end = p;
    l->out_end = &p->next;
}

static void slot_locked(hr_link *l, draft *d, hr_packet_message *m)
{
    int64_t i = l->free_slot;

    if (!d->cargo)
        return;
    if (i >= 0)
        l->free_slot = l->slots[i].next_free;
    else
        i = l->n_slots++;
    l->slots[i] = (slot){ .seq = ++l->last_seq, .cargo = d->cargo };
    l->n_tables += d->cargo->table;
    d->cargo = NULL;
    m->slot = (uint32_t)i;
    m->seq = l->last_seq;
}

/* Cannot fail. */
static void queue_locked(hr_link *l, draft *d)
{
    for (packet **at = &d->segments, *p; (p = *at);) {
        if (knows_locked(l, p->segment)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        l->known[l->n_known++] = hr__segment_ref(p->segment);
        append_locked(l, p);
    }
    slot_locked(l, d, (hr_packet_message *)(void *)d->message->data);
    append_locked(l, d->message);
    d->message = NULL;
}

static hr_status state_locked(const hr_link *l, hr_error *err)
{
    if (l->closed)
        return closed(err);
    if (l->broken && l->why && l->why != -EPIPE && l->why != -ECONNRESET)
        return hr__error_os(err, l->why, "link", "send");
    return l->broken || l->ended ? gone(err) : HR_OK;
}

static hr_status enqueue(hr_link *l, draft *d, hr_error *err)
{
    trash t = { 0 };
    hr_status st;

    hr__lock(&l->lock);
    if (!(st = state_locked(l, err)) && !(st = room_locked(l, d, err))) {
        queue_locked(l, d);
        flush_locked(l, &t);
        st = state_locked(l, err);
    }
    hr__unlock(&l->lock);
    trash_empty(&t);
    return st;
}

hr_status hr__link_send(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes, const hr_table *table,
                        hr_error *err)
{
    hr_status st = HR_OK;
    draft d = { 0 };
    hr_packet_message m = { .head = hr__packet_head(HR_PACKET_MESSAGE), .kind = kind, .tag = tag };

    if (!is_ours(l))
        return not_ours(l, err);
    if (kind >= MAX_KIND || n_bytes < 0)
        return hr_error_set(err, HR_INVALID, "link: a message of kind %u with %lld bytes", kind, (long long)n_bytes);
    if (table)
        HR_GO(draft_table(l, &d, table, err));
    hr__lock(&l->send_lock);
    if (table)
        st = draft_schema(l, &d, err);
    m.flags = table ? HR_MESSAGE_TABLE | (d.wire.sole ? HR_MESSAGE_SOLE : 0) : 0;
    m.schema = (uint32_t)d.schema_slot;
    m.n_schema = d.schema_bytes.n;
    m.n_columns_bytes = d.wire.bytes.n;
    m.n_bytes = n_bytes;
    m.n_rows = table ? table->n_rows : 0;
    if (!st && !(st = draft_packet(l, &d, &m, bytes, err)) && !(st = draft_segments(l, &d, err)) &&
        !(st = enqueue(l, &d, err)))
        learn_schema(l, &d);
    hr__unlock(&l->send_lock);
done:
    draft_clear(&d);
    return st;
}

hr_status hr__link_flush(hr_link *l, int timeout_ms, hr_error *err)
{
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    if (!is_ours(l))
        return not_ours(l, err);
    for (;;) {
        int64_t left;
        bool empty;
        hr_status st;
        int rc;

        flush(l);
        hr__lock(&l->lock);
        st = state_locked(l, err);
        empty = !l->out && !l->released;
        hr__unlock(&l->lock);
        if (st || empty)
            return st;
        left = timeout_ms < 0 ? SLICE_MS : (until - hr__clock_ns() + 999999) / 1000000;
        if (left <= 0)
            return HR_PENDING;
        if ((rc = hr__wait_writable(l->fd, (int)HR_MIN(left, SLICE_MS))) < 0)
            return hr__error_os(err, rc, "link", "wait");
    }
}

/* ---------------------------------------------------------------------------------------------------------- receiving */

/* The peer dropped what it got in these slots. */
static hr_status on_release(hr_link *l, const hr_incoming *in, hr_error *err)
{
    trash t = { 0 };
    hr_status st = HR_OK;

    hr__lock(&l->lock);
    for (int i = 0; i < in->n_released && !st; i++) {
        hr_released r = in->released[i];
        slot *s = r.slot < l->n_slots ? &l->slots[r.slot] : NULL;
        if (!s || !s->seq || s->seq != r.seq) {
            st = hr_error_set(err, HR_BAD_DATA, "link: message %llu is released, but not held", (unsigned long long)r.seq);
            break;
        }
        s->cargo->next = t.cargo;
        t.cargo = s->cargo;
        l->n_tables -= s->cargo->table;
        *s = (slot){ .next_free = l->free_slot };
        l->free_slot = r.slot;
    }
    hr__unlock(&l->lock);
    trash_empty(&t);
    return st;
}

/* The socket ended. */
static void on_end(hr_link *l)
{
    trash t = { 0 };

    hr__lock(&l->lock);
    l->ended = l->broken = true;
    t.retire = l->peer_holds;
    drop_all_locked(l, &t);
    hr__unlock(&l->lock);
    trash_empty(&t);
}

static void set_flag(hr_link *l, bool *flag)
{
    hr__lock(&l->lock);
    *flag = true;
    hr__unlock(&l->lock);
}

/* A packet into l->in, unless one is there. HR_PENDING: none has come. */
static hr_status read_packet(hr_link *l, hr_error *err)
{
    int n_fds = 0;

    for (int again = 0; l->n_in <= 0; again++) {
        int64_t n = hr__socket_recv(l->fd, l->in, IN_BYTES, &l->in_fd, 1, &n_fds);
        if (n == -EAGAIN)
            return HR_PENDING;
        if (n == -ECONNRESET && again < 2) { /* it did not read all that we sent; what it sent follows */
            set_flag(l, &l->broken);
            continue;
        }
        if (n == 0 || n == -ECONNRESET) {
            on_end(l);
            return gone(err);
        }
        if (n == -EMSGSIZE)
            return hr_error_set(err, HR_BAD_DATA, "link: a packet of over %d bytes, or with descriptors", IN_BYTES);
        if (n < 0)
            return hr__error_os(err, n, "link", "receive");
        l->n_in = n;
    }
    return HR_OK;
}

/* Forgets the packet in l->in. */
static void drop_packet(hr_link *l)
{
    hr__file_close(l->in_fd);
    l->in_fd = -1;
    l->n_in = 0;
}

/* One packet. recv_lock is held. */
static hr_status recv_packet(hr_link *l, hr_incoming *in, hr_error *err)
{
    hr_status st;

    *in = (hr_incoming){ 0 };
    HR_TRY(read_packet(l, err));
    st = hr__peer_packet(&l->peer, l->in, l->n_in, &l->in_fd, in, err);
    if (st == HR_NO_MEMORY)
        return st; /* the packet stays */
    if (!st && in->what == HR_PACKET_RELEASE)
        st = on_release(l, in, err);
    if (!st && in->what == HR_PACKET_BYE)
        set_flag(l, &l->peer_holds);
    drop_packet(l);
    return st;
}

/* Packets until a message has come. */
static hr_status recv_message(hr_link *l, hr_message *out, hr_error *err)
{
    hr_incoming in;
    hr_status st;

    flush(l);
    hr__lock(&l->recv_lock);
    do {
        hr__lock(&l->lock);
        st = l->closed ? closed(err) : l->ended ? gone(err) : HR_OK;
        hr__unlock(&l->lock);
        if (!st)
            st = recv_packet(l, &in, err);
    } while (!st && in.what != HR_PACKET_MESSAGE);
    hr__unlock(&l->recv_lock);
    if (st)
        return st;
    *out = in.message;
    if (out->table && (st = hr__table_check(out->table, false, err))) {
        hr__message_clear(out);
        st = st == HR_NO_MEMORY ? st : hr__error_at(err, st, "link");
    }
    return st;
}

static bool has_backlog(hr_link *l)
{
    bool has;

    hr__lock(&l->lock);
    has = !l->broken && (l->out || l->released);
    hr__unlock(&l->lock);
    return has;
}

hr_status hr__link_recv(hr_link *l, int timeout_ms, hr_message *out, hr_error *err)
{
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    *out = (hr_message){ 0 };
    if (!is_ours(l))
        return not_ours(l, err);
    for (;;) {
        hr_status st = recv_message(l, out, err);
        int64_t left = timeout_ms < 0 ? SLICE_MS : timeout_ms ? (until - hr__clock_ns() + 999999) / 1000000 : 0;
        int rc;

        if (st && st != HR_PENDING && st != HR_NO_MEMORY && st != HR_PEER)
            hr__link_close(l); /* what follows cannot be trusted */
        if (st != HR_PENDING || left <= 0)
            return st;
        rc = hr__wait_readable(l->fd, (int)HR_MIN(left, has_backlog(l) ? BACKLOG_SLICE_MS : SLICE_MS));
        if (rc < 0)
            return hr__error_os(err, rc, "link", "wait");
    }
}

/* ------------------------------------------------------------------------------------------------------------- closing */

/* Reads what has come, for what it says about the peer: releases, BYE, the end. Messages are dropped. */
static void drain(hr_link *l)
{
    hr_incoming in;
    hr_status st = HR_OK;

    hr__lock(&l->recv_lock);
    for (int i = 0; i < MAX_DRAIN && !st; i++) {
        st = recv_packet(l, &in, NULL);
        hr__message_clear(&in.message);
    }
    hr__unlock(&l->recv_lock);
}

/* Says BYE if the peer's tables are still read here. False if that cannot be said now. */
static bool say_bye_locked(hr_link *l)
{
    hr_packet_head bye = hr__packet_head(HR_PACKET_BYE);

    return l->broken || !atomic_load(&l->n_holds) || put_locked(l, &bye, sizeof bye, NULL) || l->broken;
}

void hr__link_close(hr_link *l)
{
    trash t = { 0 };
    bool first;

    if (!is_ours(l))
        return;
    hr__lock(&l->lock);
    flush_locked(l, &t);
    first = !l->closed;
    l->closed = true;
    hr__unlock(&l->lock);
    trash_empty(&t);
    if (!first)
        return;
    drain(l);
    hr__lock(&l->lock);
    t.retire = l->peer_holds || !l->ended;
    drop_all_locked(l, &t);
    if (say_bye_locked(l))
        hr__socket_shutdown(l->fd);
    else
        l->kept_open = true;
    hr__unlock(&l->lock);
    trash_empty(&t);
}
