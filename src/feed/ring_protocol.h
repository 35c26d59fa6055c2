/* ring_protocol.h - the protocol of a ring: kinds of messages and their layouts.
 *
 *   client                                server
 *   HELLO split, rank, pid, key     ->                            once; the listener checks the token before
 *                                   <-    WELCOME pid, rank | REFUSED
 *   BEGIN request                   ->                            tag: number of the pass, in all messages of it
 *                                   <-    BEGUN | FAILED
 *                                   <-    BATCH table ... END | FAILED
 *   TAKEN steps, wait               ->                            gives a credit back
 *   FINISHED steps, wait            ->                            the same, after END
 *   REPORT rows                     ->                            before a question, if the pass is by rows
 *   LEAVE                           ->                            batches on their way are dropped by their tag
 *   ASK_POSITION | ASK_POSITION_OF | ASK_RESTORE text | ASK_SCHEMA | ASK_STATS | ASK_RANKS
 *                                   ->                            tag: number of the question
 *                                   <-    ANSWER | REFUSED
 *   FAIL text, BYE                  ->
 *
 * Credits: a connection has prefetch + 1, and more while batches are small (hr__split_ahead). A batch that is on its
 * way or waits at the client uses one; the client returns it (TAKEN) when its consumer takes the batch. If a socket
 * ends without BYE, its rank died. */
#ifndef HR_RING_PROTOCOL_H
#define HR_RING_PROTOCOL_H

#include "feed/feed.h"
#include "share/process_link.h"

#define HR_RING_PROTOCOL 6 /* version; both ends must have the same */

#define HR_RING_KEY 128 /* bytes of a key, with its NUL */

enum {
    HR_RING_HELLO = 1,
    HR_RING_WELCOME,
    HR_RING_REFUSED,
    HR_RING_BEGIN,
    HR_RING_BEGUN,
    HR_RING_FAILED,
    HR_RING_BATCH,
    HR_RING_END,
    HR_RING_TAKEN,
    HR_RING_FINISHED,
    HR_RING_REPORT,
    HR_RING_LEAVE,
    HR_RING_ASK_POSITION,
    HR_RING_ASK_RESTORE,
    HR_RING_ASK_SCHEMA,
    HR_RING_ASK_STATS,
    HR_RING_ASK_POSITION_OF,
    HR_RING_ASK_RANKS,
    HR_RING_ANSWER,
    HR_RING_FAIL,
    HR_RING_BYE
};

/* Message bodies: structs without padding. The receiver checks every field. */
typedef struct hr_ring_hello {
    int32_t split, rank, pid, version;
    char key[HR_RING_KEY]; /* zeros after its end */
} hr_ring_hello;

typedef struct hr_ring_welcome {
    int32_t pid, rank; /* the server's process, and its own rank or -1 */
} hr_ring_welcome;

/* A hr_split_request. */
typedef struct hr_ring_request {
    int64_t batch_rows, shuffle_rows, epoch;
    uint64_t shuffle_seed;
    int32_t prefetch;
    uint8_t drop_last, own_memory, has_shuffle_seed, by_row; /* 0 or 1 */
    uint8_t ahead, has_epoch, zero[6];
    char extra[sizeof((hr_split_request *)NULL)->extra]; /* zeros after its end */
} hr_ring_request;
#define HR_RING_MOST_PREFETCH (1 << 20)

typedef struct hr_ring_taken {
    int64_t n_steps, wait_ns; /* REPORT: rows, and 0 */
    int64_t convert_ns;       /* of this pass: the time in which the rank made its own batches of tables; REPORT: 0 */
} hr_ring_taken;
_Static_assert(sizeof(hr_ring_hello) == 16 + HR_RING_KEY && sizeof(hr_ring_welcome) == 8 &&
                   sizeof(hr_ring_request) == 48 + 256 && sizeof(hr_ring_taken) == 24,
               "no padding");

/* HR_INVALID: a field of q is out of range. */
hr_status hr__ring_put_request(const hr_split_request *q, hr_ring_request *out, hr_error *err) HR_MUST_USE;
/* false: the message is malformed. */
bool hr__ring_get_hello(const hr_message *m, hr_ring_hello *out) HR_MUST_USE;
bool hr__ring_get_welcome(const hr_message *m, hr_ring_welcome *out) HR_MUST_USE;
bool hr__ring_get_request(const hr_message *m, hr_split_request *out) HR_MUST_USE;
bool hr__ring_get_taken(const hr_message *m, hr_ring_taken *out) HR_MUST_USE;

/* An error as bytes: status, text with its NUL, detail. */
hr_status hr__ring_send_error(hr_link *l, uint32_t kind, uint64_t tag, const hr_error *what) HR_MUST_USE;
hr_status hr__ring_read_error(const hr_message *m, hr_error *err); /* returns the status; always an error */

/* ASK_RESTORE: one digit for `how`, then the position. Returns a new text (hr__free); NULL: out of memory. */
char *hr__ring_put_restore(const char *position, const hr_position_how *how);
/* The position, borrowed from `text`; how->differs stays. */
const char *hr__ring_get_restore(const char *text, hr_position_how *how);

#endif
