/* link.c - one end of a socket over which tables travel between two processes.
 *
 * Sending. The link copies columns that are not in shared memory into the arena. hr_sent_message keeps the buffers that
 * a message refers to; it has a slot, and the message carries the slot's number and a sequence number. Segments that
 * the peer does not map yet go first, each with its descriptor. Then the packet is queued, and the link sends queued
 * packets until the socket is full. The peer may wait for the rest while we wait for the peer: for such callers
 * on_backlog watches the socket (io/poll.c).
 *
 * Receiving. Buffers of a received table map the peer's memory and share one hr_message_ref. The thread that drops the
 * last of them queues the message_ref, which leaves as RELEASE(slot, seq); the peer then drops its hr_sent_message. The
 * message_ref is the queue's node itself, so releasing needs no memory and cannot fail.
 *
 * The end. Tables that the peer has must not change, so a block is reused only when no process reads it.
 * 1. A peer that died (the socket ends) reads no more: the link drops its sent messages, and their blocks are free.
 * 2. A peer that closed its end while it had tables has sent BYE first: the link retires their segments (arena.c) and
 *    then drops its sent messages. If BYE does not fit into the socket, the peer closes the socket with its last table.
 * 3. We close while the peer has tables: the same. A failed send (EPIPE) does not show which case it is: sent messages
 *    stay until the end is read, or until we close.
 *
 * Locks: send_lock, so that messages leave in the order of their schemas; recv_lock, for one reader; link->lock within
 * both, a leaf. No code frees under link->lock, because freeing may call other code, a link too: it fills a
 * hr_pending_free, which the thread frees after releasing the lock. No code waits under these locks, so a thread that
 * waits in hr__link_recv holds up no other thread. */
#include "share/link.h"
#include "share/process_link.h"
#include "share/exchange_arena.h"

#include <errno.h>

#define SLICE_MS 100
#define BACKLOG_SLICE_MS 5 /* while packets are queued: tries to send at this interval */
#define IN_BYTES 65536
#define MAX_DRAIN 4096 /* packets; the socket holds a few hundred */

/* ----------------------------------------------------------------------------------------------------- message refs */

static void link_ref_new(void *owner)
{
    hr_link *l = owner;

    atomic_fetch_add_explicit(&l->parts, 1, memory_order_relaxed);
    atomic_fetch_add(&l->n_message_refs, 1);
}

/* The last buffer of a received message is freed. */
static void link_ref_gone(hr_message_ref *h)
{
    hr_link *l = h->owner;
    hr_pending_free t = { 0 };
    bool calls_backlog;

    if (!hr__link_is_ours(l)) { /* in a forked child: the parent has the message, too */
        hr__free(h);
        return;
    }
    hr__lock(&l->lock);
    h->next = NULL;
    if (h->voided || l->closed || l->broken) {
        t.message_refs = h;
    } else {
        *l->released_end = h;
        l->released_end = &h->next;
        hr__link_flush_locked(l, &t);
    }
    if (atomic_fetch_sub(&l->n_message_refs, 1) == 1 && l->kept_open)
        hr__socket_shutdown(l->fd);
    calls_backlog = hr__link_calls_backlog_locked(l);
    hr__unlock(&l->lock);
    hr__free_pending(&t);
    if (calls_backlog)
        hr__link_call_backlog(l);
    hr__link_part_unref(l);
}

/* --- columns of ours that come back */

typedef struct search {
    uint64_t segment;
    int64_t offset, n;
    hr_buffer *found; /* counted; the whole buffer */
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
        for (int k = 0; l->slots[i].seq && k < l->slots[i].sent->n && !s.found; k++)
            hr__array_buffers(l->slots[i].sent->columns[k], search_buffer, &s);
    hr__unlock(&l->lock);
    if (!s.found)
        return hr_error_set(err, HR_BAD_DATA,
                            "link: the peer returns %lld bytes of segment %llu, which it does not hold", (long long)n,
                            (unsigned long long)segment);
    (void)hr__buffer_segment(s.found, &at);
    if (at == offset && n == s.found->n_bytes) {
        *out = s.found;
        return HR_OK;
    }
    st = hr__buffer_slice(s.found, offset - at, n, out, err);
    hr__buffer_unref(s.found);
    return st;
}

/* --------------------------------------------------------------------------------------------------- making, ending */

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
    l->peer.message_ref_new = link_ref_new;
    l->peer.message_ref_gone = link_ref_gone;
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
    if (!hr__link_is_ours(l)) {
        hr__file_close(l->fd); /* only the descriptor: a thread of the parent may have held the locks */
        return;
    }
    hr__link_close(l);
    hr__link_part_unref(l);
}

int hr__link_fd(const hr_link *l) { return l->fd; }

int64_t hr__link_outstanding(const hr_link *l)
{
    hr_mutex *lock = (hr_mutex *)&l->lock;
    int64_t n;

    if (!hr__link_is_ours(l))
        return 0;
    hr__lock(lock);
    n = l->n_tables;
    hr__unlock(lock);
    return n;
}

/* -------------------------------------------------------------------------------------------------------- receiving */

/* The peer released the messages of these slots. */
static hr_status on_release(hr_link *l, const hr_incoming *in, hr_error *err)
{
    hr_wire_reader items = in->released;
    hr_pending_free t = { 0 };
    hr_status st = HR_OK;

    hr__lock(&l->lock);
    while (hr__wire_left(&items)) {
        hr_released r;
        hr_slot *s;
        if ((st = hr__wire_get_struct(&items, "a message", &r, sizeof r, err)))
            break;
        s = r.slot < l->n_slots ? &l->slots[r.slot] : NULL;
        if (!s || !s->seq || s->seq != r.seq) {
            st = hr_error_set(err, HR_BAD_DATA,
                              "link: message %llu in slot %u is released; the peer holds message %llu there (0: none)",
                              (unsigned long long)r.seq, r.slot, (unsigned long long)(s ? s->seq : 0));
            break;
        }
        s->sent->next = t.sent;
        t.sent = s->sent;
        l->n_tables -= s->sent->table;
        *s = (hr_slot){ .next_free = l->free_slot };
        l->free_slot = r.slot;
    }
    hr__unlock(&l->lock);
    hr__free_pending(&t);
    return st;
}

/* The socket ended. */
static void on_end(hr_link *l)
{
    hr_pending_free t = { 0 };

    hr__lock(&l->lock);
    l->ended = l->broken = true;
    t.retire = l->peer_reads;
    hr__link_drop_all_locked(l, &t);
    hr__unlock(&l->lock);
    hr__free_pending(&t);
}

static void set_flag(hr_link *l, bool *flag)
{
    hr__lock(&l->lock);
    *flag = true;
    hr__unlock(&l->lock);
}

/* Reads a packet into l->in, unless it holds one. HR_PENDING: no packet has come. */
static hr_status read_packet(hr_link *l, hr_error *err)
{
    int n_fds = 0;

    for (int again = 0; l->n_in <= 0; again++) {
        int64_t n = hr__socket_recv(l->fd, l->in, IN_BYTES, &l->in_fd, 1, &n_fds);
        if (n == -EAGAIN)
            return HR_PENDING;
        if (n == -ECONNRESET && again < 2) { /* the peer did not read all our packets; its packets follow */
            set_flag(l, &l->broken);
            continue;
        }
        if (n == 0 || n == -ECONNRESET) {
            on_end(l);
            return hr__link_gone(err);
        }
        if (n == -EMSGSIZE)
            return hr_error_set(err, HR_BAD_DATA, "link: a packet has over %d bytes, or more descriptors than one",
                                IN_BYTES);
        if (n < 0)
            return hr__error_os(err, n, "link", n == -EMFILE ? "take the descriptor that came" : "receive");
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

/* Receives one packet. recv_lock is held. */
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
        set_flag(l, &l->peer_reads);
    drop_packet(l);
    return st;
}

/* Receives packets until a message has come. */
static hr_status recv_message(hr_link *l, hr_message *out, hr_error *err)
{
    hr_incoming in;
    hr_status st;

    hr__link_flush_now(l);
    hr__lock(&l->recv_lock);
    do {
        hr__lock(&l->lock);
        st = l->closed ? hr__link_closed(err) : l->ended ? hr__link_gone(err) : HR_OK;
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
        st = hr__error_at(err, st, "link"); /* HR_BAD_DATA */
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
    if (!hr__link_is_ours(l))
        return hr__link_not_ours(l, err);
    for (;;) {
        hr_status st = recv_message(l, out, err);
        int64_t left = timeout_ms < 0 ? SLICE_MS : timeout_ms ? (until - hr__clock_ns() + 999999) / 1000000 : 0;
        int rc;

        if (st && st != HR_PENDING && st != HR_NO_MEMORY && st != HR_PEER)
            hr__link_close(l); /* later packets cannot be trusted */
        if (st != HR_PENDING || left <= 0)
            return st;
        rc = hr__wait_readable(l->fd, (int)HR_MIN(left, has_backlog(l) ? BACKLOG_SLICE_MS : SLICE_MS));
        if (rc < 0)
            return hr__error_os(err, rc, "link", "wait");
    }
}

/* --------------------------------------------------------------------------------------------------------- patience */

#define PATIENCE_NS 2000000000LL
#define NAP_MS 5

/* Waits a little; false: it has waited long enough. *until: 0 at first. */
static bool nap(int64_t *until)
{
    int64_t now = hr__clock_ns();

    *until = *until ? *until : now + PATIENCE_NS;
    if (now >= *until)
        return false;
    (void)hr__wait_readable(-1, NAP_MS); /* no descriptor: only the time */
    return true;
}

hr_status hr__link_send_patiently(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                                  const hr_table *table, hr_error *err)
{
    int64_t until = 0;
    hr_status st;

    do {
        hr_error_clear(err);
        st = hr__link_send(l, kind, tag, bytes, n_bytes, table, err);
    } while (st == HR_NO_MEMORY && nap(&until));
    return st;
}

hr_status hr__link_recv_patiently(hr_link *l, int timeout_ms, hr_message *out, hr_error *err)
{
    int64_t until = 0;
    hr_status st;

    do {
        hr_error_clear(err);
        st = hr__link_recv(l, timeout_ms, out, err);
    } while (st == HR_NO_MEMORY && nap(&until));
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- closing */

/* Reads waiting packets for releases, BYE and the end; drops messages. */
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

/* Sends BYE if this process still reads the peer's tables. False: the socket does not take it now. */
static bool say_bye_locked(hr_link *l)
{
    hr_packet_head bye = hr__packet_head(HR_PACKET_BYE);

    return l->broken || !atomic_load(&l->n_message_refs) || hr__link_put_locked(l, &bye, sizeof bye, NULL) || l->broken;
}

void hr__link_close(hr_link *l)
{
    hr_pending_free t = { 0 };
    bool first;

    if (!hr__link_is_ours(l))
        return;
    hr__lock(&l->lock);
    hr__link_flush_locked(l, &t);
    first = !l->closed;
    l->closed = true;
    hr__unlock(&l->lock);
    hr__free_pending(&t);
    if (!first)
        return;
    drain(l);
    hr__lock(&l->lock);
    t.retire = l->peer_reads || !l->ended;
    hr__link_drop_all_locked(l, &t);
    if (say_bye_locked(l))
        hr__socket_shutdown(l->fd);
    else
        l->kept_open = true;
    hr__unlock(&l->lock);
    hr__free_pending(&t);
}
