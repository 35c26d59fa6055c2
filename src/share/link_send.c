/* link_send.c - the sending side of a link: messages, releases, freed segments. See link.c.
 *
 * A message is a *draft* until it is queued: placing or copying columns, finding the schema and making packets happen
 * without link->lock. Queueing cannot fail, so slots, the peer's known segments and the order of packets stay
 * consistent. Messages go before releases: the peer may wait for a message, but only its memory waits for a release.
 *
 * Tests: test_link.c, test_process.c. */
#include "share/link.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"

#include <errno.h>

#define MAX_KIND 0x8000
#define MAX_SLOTS (1 << 24)
#define SLICE_MS 100

/* ---------------------------------------------------------------------------------------------------------- freeing */

static void retire_buffer(void *context, hr_buffer *b)
{
    int64_t offset;
    hr_segment *s = hr__buffer_segment(b, &offset);

    (void)context;
    if (s)
        hr__segment_retire(s);
}

static void sent_free(hr_sent_message *c, bool retire)
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

static void packet_free(hr_packet *p)
{
    if (p)
        hr__segment_unref(p->segment);
    hr__free(p);
}

void hr__free_pending(hr_pending_free *t)
{
    for (hr_packet *p; (p = t->packets);) {
        t->packets = p->next;
        packet_free(p);
    }
    for (hr_sent_message *c; (c = t->sent);) {
        t->sent = c->next;
        sent_free(c, t->retire);
    }
    for (hr_message_ref *h; (h = t->message_refs);) {
        t->message_refs = h->next;
        hr__free(h);
    }
    while (t->n_gone)
        hr__segment_unref(t->gone[--t->n_gone]);
    while (t->n_known)
        hr__segment_unref(t->known[--t->n_known]);
    hr__free(t->known);
    t->known = NULL;
}

void hr__link_drop_all_locked(hr_link *l, hr_pending_free *t)
{
    for (int64_t i = 0; i < l->n_slots; i++)
        if (l->slots[i].seq) {
            l->slots[i].sent->next = t->sent;
            t->sent = l->slots[i].sent;
        }
    l->n_slots = l->n_tables = 0;
    l->free_slot = -1;
    *l->out_end = t->packets;
    t->packets = l->out;
    l->out = NULL;
    l->out_end = &l->out;
    *l->released_end = t->message_refs;
    t->message_refs = l->released;
    l->released = NULL;
    l->released_end = &l->released;
    t->known = l->known;
    t->n_known = l->n_known;
    l->known = NULL;
    l->n_known = l->cap_known = 0;
}

/* ----------------------------------------------------------------------------------------------- sending, lock held */

/* Sending is no longer possible. Unless the peer is gone, it must not wait for us, and may continue to read. */
static void break_locked(hr_link *l, int64_t why)
{
    l->broken = true;
    l->why = why;
    if (why == -EPIPE || why == -ECONNRESET)
        return;
    l->peer_reads = true;
    hr__socket_shutdown(l->fd);
}

/* Whether the error is temporary: it ends when the peer reads, or takes the descriptors in flight. */
static bool is_passing(int64_t rc) { return rc == -EAGAIN || rc == -ENOBUFS || rc == -ENOMEM || rc == -ETOOMANYREFS; }

bool hr__link_put_locked(hr_link *l, const void *data, int64_t n, const hr_segment *s)
{
    int64_t rc = hr__socket_send(l->fd, data, n, s ? &s->fd : NULL, s ? 1 : 0);

    if (rc < 0 && !is_passing(rc))
        break_locked(l, rc);
    return rc >= 0;
}

static bool put_releases_locked(hr_link *l, hr_pending_free *t)
{
    while (l->released && !l->broken) {
        hr_packet_release r = { .head = hr__packet_head(HR_PACKET_RELEASE) };
        hr_message_ref *last = NULL;
        for (hr_message_ref *h = l->released; h && r.n < HR_RELEASED_MOST; last = h, h = h->next)
            r.items[r.n++] = (hr_released){ .seq = h->seq, .slot = h->slot };
        if (!hr__link_put_locked(l, &r, (int64_t)(offsetof(hr_packet_release, items) + r.n * sizeof r.items[0]), NULL))
            return false;
        hr_message_ref *first = l->released;
        if (!(l->released = last->next))
            l->released_end = &l->released;
        last->next = t->message_refs;
        t->message_refs = first;
    }
    return true;
}

/* Reports freed segments to the peer. No descriptor of such a segment is queued, since a sent message keeps its
 * blocks. */
static void put_forgets_locked(hr_link *l, hr_pending_free *t)
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
        if (t->n_gone == HR_LEN(t->gone) || !hr__link_put_locked(l, &f, sizeof f, NULL))
            return; /* later */
        l->known[i] = l->known[--l->n_known];
        t->gone[t->n_gone++] = s;
    }
    l->gone_seen = now;
}

void hr__link_flush_locked(hr_link *l, hr_pending_free *t)
{
    if (l->broken || l->closed)
        return;
    while (l->out && hr__link_put_locked(l, l->out->data, l->out->n, l->out->segment)) {
        hr_packet *p = l->out;
        if (!(l->out = p->next))
            l->out_end = &l->out;
        p->next = t->packets;
        t->packets = p;
    }
    if (put_releases_locked(l, t) && !l->out && !l->broken)
        put_forgets_locked(l, t);
}

void hr__link_flush_now(hr_link *l)
{
    hr_pending_free t = { 0 };

    hr__lock(&l->lock);
    hr__link_flush_locked(l, &t);
    hr__unlock(&l->lock);
    hr__free_pending(&t);
}

void hr__link_set_backlog(hr_link *l, bool (*fn)(hr_link *l)) { l->on_backlog = fn; }

bool hr__link_calls_backlog_locked(hr_link *l)
{
    if (!l->on_backlog || l->flushing || l->broken || l->closed || (!l->out && !l->released))
        return false;
    atomic_fetch_add_explicit(&l->parts, 1, memory_order_relaxed);
    return l->flushing = true;
}

static void backlog_over(hr_link *l)
{
    hr__lock(&l->lock);
    l->flushing = false;
    hr__unlock(&l->lock);
    hr__link_part_unref(l);
}

void hr__link_call_backlog(hr_link *l)
{
    if (!l->on_backlog(l))
        backlog_over(l); /* the next send or release tries again */
}

void hr__link_settled(hr_link *l)
{
    bool again;

    hr__lock(&l->lock);
    l->flushing = false;
    again = hr__link_calls_backlog_locked(l); /* meanwhile */
    hr__unlock(&l->lock);
    if (again)
        hr__link_call_backlog(l);
    hr__link_part_unref(l);
}

/* ---------------------------------------------------------------------------------------------------------- sending */

/* A message that is not queued yet. */
typedef struct draft {
    hr_wire wire;          /* columns, and the segments of all their buffers */
    hr_sent_message *sent; /* NULL: the packet has the whole message */
    hr_text schema_bytes;
    hr_schema *schema;
    int schema_slot;
    bool schema_new;
    hr_packet *message;
    hr_packet *segments; /* one for each segment that the peer may not know */
} draft;

static void draft_clear(draft *d)
{
    hr__wire_clear(&d->wire);
    sent_free(d->sent, false);
    hr__text_clear(&d->schema_bytes);
    packet_free(d->message);
    for (hr_packet *p; (p = d->segments);) {
        d->segments = p->next;
        packet_free(p);
    }
}

static hr_packet *packet_new(hr_link *l, int64_t n)
{
    hr_packet *p = hr__zalloc(l->account, sizeof *p + (size_t)n);

    if (p)
        p->n = n;
    return p;
}

static hr_status draft_sent(hr_link *l, draft *d, int n, hr_error *err)
{
    if (!d->sent && !(d->sent = hr__zalloc(l->account, sizeof *d->sent + (size_t)n * sizeof(hr_array *))))
        return hr__error_memory(err, "link", n);
    d->sent->n = n;
    return HR_OK;
}

static hr_status draft_table(hr_link *l, draft *d, const hr_table *t, hr_error *err)
{
    d->wire.bytes.account = d->schema_bytes.account = l->account;
    d->wire.sole = true;
    d->wire.alone = t->sole && atomic_load_explicit(&t->refs, memory_order_acquire) == 1;
    HR_TRY(draft_sent(l, d, t->schema->n, err));
    d->sent->table = true;
    for (int i = 0; i < t->schema->n; i++) {
        hr_status st = hr__wire_column(&d->wire, &l->peer, &l->mem, t->columns[i], &d->sent->columns[i], err);
        if (st)
            return hr__error_at(err, st, "column '%s'", t->schema->fields[i].name);
    }
    d->schema = t->schema;
    return HR_OK;
}

/* Finds the number of the schema; schema_bytes stays empty if the peer knows it. send_lock is held. */
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
        if (l->schemas[i].schema && have->n == d->schema_bytes.n &&
            !memcmp(have->data, d->schema_bytes.data, (size_t)have->n)) {
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
    hr_known_schema *k = &l->schemas[d->schema_slot];

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

/* Makes the message's packet; bytes that do not fit go into a block. */
static hr_status draft_packet(hr_link *l, draft *d, hr_packet_message *m, const void *bytes, hr_error *err)
{
    const int64_t n_head = sizeof *m;
    int64_t n = m->n_schema + m->n_columns_bytes + m->n_bytes;
    bool outside = n > HR_PACKET_BYTES - n_head;

    if (outside) {
        hr_segment *s;
        HR_TRY(draft_sent(l, d, d->sent ? d->sent->n : 0, err));
        HR_TRY(hr__arena_buffer(l->mem.arena, n, &d->sent->body, err));
        put_body(d->sent->body->data, d, bytes, m->n_bytes);
        s = hr__buffer_segment(d->sent->body, &m->offset);
        HR_TRY(hr__wire_segment(&d->wire, s, err));
        m->segment = s->id;
        m->flags |= HR_MESSAGE_OUTSIDE;
    }
    if (d->sent)
        m->flags |= HR_MESSAGE_HELD;
    if (!(d->message = packet_new(l, n_head + (outside ? 0 : n))))
        return hr__error_memory(err, "link", n_head + n);
    memcpy(d->message->data, m, sizeof *m);
    if (!outside)
        put_body((uint8_t *)d->message->data + n_head, d, bytes, m->n_bytes);
    return HR_OK;
}

/* Makes packets for all segments; which of them the peer knows is known only under the lock. */
static hr_status draft_segments(hr_link *l, draft *d, hr_error *err)
{
    for (int64_t i = 0; i < d->wire.n_segments; i++) {
        hr_segment *s = d->wire.segments[i];
        hr_packet_segment head = { .head = hr__packet_head(HR_PACKET_SEGMENT), .id = s->id, .n_bytes = s->n_bytes };
        hr_packet *p = packet_new(l, sizeof head);
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

/* Makes room for everything that queue_locked adds. */
static hr_status room_locked(hr_link *l, const draft *d, hr_error *err)
{
    void *slots = l->slots, *known = l->known;
    bool ok = l->free_slot >= 0 || hr__grow(l->account, &slots, &l->cap_slots, l->n_slots + 1, sizeof *l->slots);

    l->slots = slots;
    ok = ok && hr__grow(l->account, &known, &l->cap_known, l->n_known + d->wire.n_segments, sizeof *l->known);
    l->known = known;
    if (l->free_slot < 0 && l->n_slots == MAX_SLOTS)
        return hr_error_set(err, HR_BUDGET, "link: the peer holds %d messages, the maximum", MAX_SLOTS);
    return ok ? HR_OK : hr__error_memory(err, "link", sizeof *l->slots);
}

static void append_locked(hr_link *l, hr_packet *p)
{
    p->next = NULL;
    *l->out_end = p;
    l->out_end = &p->next;
}

static void slot_locked(hr_link *l, draft *d, hr_packet_message *m)
{
    int64_t i = l->free_slot;

    if (!d->sent)
        return;
    if (i >= 0)
        l->free_slot = l->slots[i].next_free;
    else
        i = l->n_slots++;
    l->slots[i] = (hr_slot){ .seq = ++l->last_seq, .sent = d->sent };
    l->n_tables += d->sent->table;
    d->sent = NULL;
    m->slot = (uint32_t)i;
    m->seq = l->last_seq;
}

/* Cannot fail. */
static void queue_locked(hr_link *l, draft *d)
{
    for (hr_packet **at = &d->segments, *p; (p = *at);) {
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
        return hr__link_closed(err);
    if (l->broken && l->why && l->why != -EPIPE && l->why != -ECONNRESET)
        return hr__error_os(err, l->why, "link", "send");
    return l->broken || l->ended ? hr__link_gone(err) : HR_OK;
}

static hr_status enqueue(hr_link *l, draft *d, bool *calls_backlog, hr_error *err)
{
    hr_pending_free t = { 0 };
    hr_status st;

    hr__lock(&l->lock);
    if (!(st = state_locked(l, err)) && !(st = room_locked(l, d, err))) {
        queue_locked(l, d);
        hr__link_flush_locked(l, &t);
        *calls_backlog = hr__link_calls_backlog_locked(l);
        st = state_locked(l, err);
    }
    hr__unlock(&l->lock);
    hr__free_pending(&t);
    return st;
}

hr_status hr__link_send(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                        const hr_table *table, hr_error *err)
{
    hr_status st = HR_OK;
    draft d = { 0 };
    bool calls_backlog = false;
    hr_packet_message m = { .head = hr__packet_head(HR_PACKET_MESSAGE), .kind = kind, .tag = tag };

    if (!hr__link_is_ours(l))
        return hr__link_not_ours(l, err);
    if (kind >= MAX_KIND || n_bytes < 0)
        return hr_error_set(err, HR_INVALID,
                            "link: a message has kind %u and %lld bytes; kinds are below 32768, bytes 0 or more", kind,
                            (long long)n_bytes);
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
        !(st = enqueue(l, &d, &calls_backlog, err)))
        learn_schema(l, &d);
    hr__unlock(&l->send_lock);
    if (calls_backlog)
        hr__link_call_backlog(l);
done:
    draft_clear(&d);
    return st;
}

hr_status hr__link_flush(hr_link *l, int timeout_ms, hr_error *err)
{
    int64_t until = hr__clock_ns() + (int64_t)timeout_ms * 1000000;

    if (!hr__link_is_ours(l))
        return hr__link_not_ours(l, err);
    for (;;) {
        int64_t left;
        bool empty;
        hr_status st;
        int rc;

        hr__link_flush_now(l);
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
