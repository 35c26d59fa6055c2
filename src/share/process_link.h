/* process_link.h - tables between two processes: links and listeners. */
#ifndef HR_PROCESS_LINK_H
#define HR_PROCESS_LINK_H

#include "data/table.h"
#include "share/exchange_arena.h"

/* A link is one end of a local socket over which tables and small messages travel between two processes: descriptors by
 * the socket, bytes by shared memory. A sender shares the table's buffers until the peer releases them or ends; it
 * copies buffers outside arenas into the link's arena. Received tables go back over their link without a copy. All
 * functions are thread-safe. A link belongs to the process that made it: in a forked child its functions return
 * HR_PEER. */
typedef struct hr_link hr_link;
typedef struct hr_message {
    uint32_t kind; /* the user's, below 0x8000 */
    uint64_t tag;  /* the user's */
    void *bytes;   /* new, n_bytes, NUL-terminated beyond; hr__free; NULL if none */
    int64_t n_bytes;
    /* New; NULL if none. Its buffers map the sender's memory until the last unref. They are writable if the table is
     * `sole`: the sent table was sole, or all its buffers were copied. Otherwise a write is a fault. It has no
     * origin. */
    hr_table *table;
} hr_message;
/* Takes the socket, even on failure. `arena`: for copies that are sent (shared; NULL: the link makes its own). */
hr_status hr__link_new(int fd, hr_account *account, hr_arena *arena, hr_link **out, hr_error *err) HR_MUST_USE;
hr_link *hr__link_ref(hr_link *l);
void hr__link_unref(hr_link *l);   /* the last one closes */
int hr__link_fd(const hr_link *l); /* to poll for reading */
/* Borrows table and bytes (either may be NULL). If the caller holds the only reference of a sole table, the peer may
 * write to it: the caller must not read it again. Never waits for the peer: the link queues the packets that the socket
 * does not accept, and the next send, receive, release or flush sends them. hr__link_recv frees the tables that the
 * peer has released, so callers that expect no messages must call it, too. HR_PEER: the peer has ended. hr__link_recv
 * still returns its earlier messages, and frees its tables when it reports the end; hr__link_close frees them, too. */
hr_status hr__link_send(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                        const hr_table *table, hr_error *err) HR_MUST_USE;
/* The next message. HR_PENDING: none within timeout_ms (0: do not wait; < 0: no limit). HR_PEER: the peer closed or
 * died. Checks descriptors against the segments' sizes, and tables by hr__table_check: a damaged peer cannot crash us.
 * It causes HR_BAD_DATA, and the link closes. After HR_NO_MEMORY the message can be received again. */
hr_status hr__link_recv(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* The same, but retries for up to two seconds while the system has no memory: a short lack of memory must not look
 * like the loss of a process. HR_NO_MEMORY after that: no message is lost, a later call can receive it. */
hr_status hr__link_send_patiently(hr_link *l, uint32_t kind, uint64_t tag, const void *bytes, int64_t n_bytes,
                                  const hr_table *table, hr_error *err) HR_MUST_USE;
hr_status hr__link_recv_patiently(hr_link *l, int timeout_ms, hr_message *out, hr_error *err) HR_MUST_USE;
/* Waits until all is sent: HR_PENDING after timeout_ms. A caller that only sends calls it with 0 from time to time. */
hr_status hr__link_flush(hr_link *l, int timeout_ms, hr_error *err) HR_MUST_USE;
/* Before its first use, for links that may be silent while a packet is queued. The link calls `fn` on any thread,
 * without its locks, when it has queued a packet. If fn returns true, its owner calls hr__link_flush from time to time
 * until that is not HR_PENDING, then hr__link_settled; the link's memory stays until then. */
void hr__link_set_backlog(hr_link *l, bool (*fn)(hr_link *l));
void hr__link_settled(hr_link *l);
void hr__message_clear(hr_message *m);
int64_t hr__link_outstanding(const hr_link *l); /* messages with tables that the peer still holds */
/* Ends the connection: tries once more to send what is queued, drops outstanding references; later calls return
 * HR_PEER. Received tables stay valid with their contents, here and at the peer. */
void hr__link_close(hr_link *l);

/* A listener accepts links at an abstract socket. An address is "name" or "name:token"; a client must be of the same
 * user and, if there is a token (32 hexadecimal digits), must know it. */
typedef struct hr_listener hr_listener;
/* address NULL: a random name and token. */
hr_status hr__listener_open(const char *address, hr_listener **out, hr_error *err) HR_MUST_USE;
void hr__listener_close(hr_listener *l);                /* NULL is fine */
const char *hr__listener_address(const hr_listener *l); /* with the token: a secret. Borrowed from l */
int hr__listener_fd(const hr_listener *l);              /* readable when accept may return a link */
/* The next link, its arguments as for hr__link_new. HR_PENDING: none now. Closes connections of other users, or without
 * the token, and reports nothing. */
hr_status hr__listener_accept(hr_listener *l, hr_account *account, hr_arena *arena, hr_link **out,
                              hr_error *err) HR_MUST_USE;
/* HR_PEER: no process listens there. If the listener refuses us, the first receive returns HR_PEER. */
hr_status hr__link_connect(const char *address, hr_account *account, hr_link **out, hr_error *err) HR_MUST_USE;

#endif
