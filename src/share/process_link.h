/* process_link.h - tables between two processes: links and listeners. */
#ifndef HR_PROCESS_LINK_H
#define HR_PROCESS_LINK_H

#include "data/table.h"
#include "share/exchange_arena.h"

/* A link is one end of a local socket over which tables and small messages travel between two processes: descriptors by
 * the socket, bytes by shared memory. Sending shares the table's buffers until the peer says that it dropped them (or
 * is gone); buffers that are not in an arena are copied into the link's. What was received over a link goes back over
 * it without a copy. All functions are thread-safe. A link belongs to the process that made it: in a forked child
 * HR_PEER. */
typedef struct hr_link hr_link;
typedef struct hr_message {
    uint32_t kind; /* the user's, below 0x8000 */
    uint64_t tag;  /* the user's */
    void *bytes;   /* new, n_bytes, NUL-terminated beyond; hr__free; NULL if none */
    int64_t n_bytes;
    /* New; NULL if none. Its buffers map the sender's memory; unref tells the sender. They are writable if the table is
     * `sole`: it was when it was sent, or all that was sent are copies. Otherwise a write is a fault. It has no
     * origin. */
    hr_table *table;
} hr_message;
/* Takes the socket, even on failure. `arena`: where copies for sending go (shared; NULL: an own one is made). */
hr_status hr__link_new(int fd, hr_account *account, hr_arena *arena, hr_link **out, hr_error *err) HR_MUST_USE;
hr_link *hr__link_ref(hr_link *l);
void hr__link_unref(hr_link *l);   /* the last one closes */
int hr__link_fd(const hr_link *l); /* to poll for reading */
/* Borrows table and bytes (either may be NULL). A sole table whose only reference this is becomes the peer's to
 * write: the caller must not read it again. Never blocks on the peer: what the socket does not take now is queued and
 * goes out with the next send, receive, release or flush. What the peer dropped is given back by hr__link_recv, so that
 * even who expects no messages has to call it. HR_PEER if the peer is gone: then, too, hr__link_recv gives what it sent
 * before, and the tables that it had are dropped when that reports the end, or by hr__link_close. */
hr_status hr__link_send(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                        const hr_table *table, hr_error *err) HR_MUST_USE;
/* The next message. HR_PENDING: none within timeout_ms (0: do not wait; < 0: no limit). HR_PEER: the peer closed or
 * died. Descriptors are checked against the segments' sizes, tables by hr__table_check: a damaged peer cannot crash us,
 * gives HR_BAD_DATA, and is left: the link is closed. After HR_NO_MEMORY the message can be received again. */
hr_status hr__link_recv(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* The same, but what the system has no memory for is tried again, for two seconds at most: a moment's lack of memory
 * must not look like the loss of a process. HR_NO_MEMORY after that: nothing is lost, a later call can do it. */
hr_status hr__link_send_patiently(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                                  const hr_table *table, hr_error *err) HR_MUST_USE;
hr_status hr__link_recv_patiently(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* Waits until all is sent: HR_PENDING after timeout_ms. Who only sends calls it with 0 now and then. */
hr_status hr__link_flush(hr_link *l, int timeout_ms, hr_error *err) HR_MUST_USE;
/* Before its first use, for links that may be silent while something is queued. `fn` is called on any thread, without
 * the link's locks, when something had to be queued; if it returns true, it has hr__link_flush called now and then
 * until that is not HR_PENDING, then calls hr__link_settled. Until that the link's memory stays. */
void hr__link_set_backlog(hr_link *l, bool (*fn)(hr_link *l));
void hr__link_settled(hr_link *l);
void hr__message_clear(hr_message *m);
int64_t hr__link_outstanding(const hr_link *l); /* messages with tables that the peer still holds */
/* Ends the connection: what is queued is tried once more, outstanding references are dropped, later calls give HR_PEER.
 * Received tables stay valid, here and at the peer, contents included. */
void hr__link_close(hr_link *l);

/* Where processes meet: an abstract socket. An address is "name" or "name:token"; who connects has to be of the same
 * user and, if there is a token (32 hexadecimal digits), to know it. */
typedef struct hr_listener hr_listener;
/* address NULL: a random name and token. */
hr_status hr__listener_open(const char *address, hr_listener **out, hr_error *err) HR_MUST_USE;
void hr__listener_close(hr_listener *l);                /* NULL is fine */
const char *hr__listener_address(const hr_listener *l); /* with the token: a secret. Borrowed from l */
int hr__listener_fd(const hr_listener *l);              /* readable when accept may have something to do */
/* The next link, its arguments as for hr__link_new. HR_PENDING: none now. Who must not come in is turned away
 * silently. */
hr_status hr__listener_accept(hr_listener *l, hr_account *account, hr_arena *arena, hr_link **out,
                              hr_error *err) HR_MUST_USE;
/* HR_PEER: nobody listens there. A listener that turns us away ends the link: HR_PEER from the first receive. */
hr_status hr__link_connect(const char *address, hr_account *account, hr_link **out, hr_error *err) HR_MUST_USE;

#endif
