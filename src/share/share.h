/* share.h - the trust boundary: declarations that arena.c, wire.c, link.c and listener.c share. Outside this folder
 * op/remembered_columns.c includes it, to store schemas as wire_schema.c writes them.
 *
 *   arena.c                  segments of shared memory, and blocks in them
 *   wire_reader.c            reads bytes of a peer: typed, bounded, errors that name the place
 *   wire.c, wire_schema.c    packets, and what one end knows of the other
 *   link.c, link_send.c      the socket: receives; sends and releases
 *   listener.c               accepts and opens connections
 *
 * A *segment* is a memfd. Its number is unique in the process that made it and is never used again. A *message_ref*
 * keeps a received message's memory: one for all of its buffers.
 *
 * Threat model
 * ------------
 * Who can reach us. The address of a listener is visible to every process of the machine. The kernel names the user of
 * the other end (both ends compare it with their own), and the first packet must be the token, 16 random bytes. So a
 * peer is a process of the same user that knows the token: in practice our own worker or trainer, perhaps of another
 * version, perhaps damaged by the user's code. A listener holds at most 32 connections without a token, for 10 seconds
 * each.
 *
 * What a peer may do, and the answer:
 *   send any bytes, in packets of any kind and order    hr_wire_reader checks every field against the bytes present:
 *                                                       HR_BAD_DATA names place, value and limits; the link closes
 *   name any segment, offset, size                      the range must lie in a segment whose descriptor came,
 *                                                       with slack
 *   send any descriptor                                 it must be a memfd, sealed against shrinking (no SIGBUS later),
 *                                                       of the size that the packet says; others are closed
 *   send any values                                     hr__table_check: offsets, lengths, null counts, lists, keys.
 *                                                       Not: whether text is UTF-8
 *   send a schema that is too deep, wide or long        nesting and counts are limited by the bytes that are there
 *   release messages that it does not hold, or twice    HR_BAD_DATA: slot and number must match
 *   return memory of ours that it was never given       HR_BAD_DATA: only memory of a message that it holds is found
 *   read slowly, or not at all                          no thread waits for it: packets are queued; memory is
 *                                                       charged to us
 *   keep tables for ever                                their blocks stay charged to us; the ring limits
 *                                                       their number
 *   die at any moment                                   the kernel ends the socket; its tables become free
 *   close while it still reads                          it says BYE: those segments are retired, never written again
 *
 * What is trusted. A peer maps our segments and could write there. It may also change its own segments after we have
 * checked them: we copy only schemas and column descriptions before we read them. Columns of pickles stay pickles: code
 * that loads them runs what the peer sent. None of this stops a malicious process of the same user, which could attach
 * a debugger as well. */
#ifndef HR_SHARE_H
#define HR_SHARE_H

#include "data/data.h"
#include "share/process_link.h"

/* ------------------------------------------------------------------------------------------------ our side: arena.c */

typedef struct hr_segment {
    atomic_int refs; /* the arena's, and one for each link whose peer maps it */
    uint64_t id;
    int64_t n_bytes;
    uint8_t *data;
    int fd;
    atomic_bool gone; /* freed: peers may unmap it */
    hr_arena *arena;  /* no reference. The fields below belong to arena.c */
    struct hr_segment *next;
    struct hr_arena_block *first;
    int64_t n_used, charged;
    bool retired;
} hr_segment;

hr_segment *hr__segment_ref(hr_segment *s);
void hr__segment_unref(hr_segment *s);
uint64_t hr__segments_gone(void); /* grows with each freed segment */
/* The segment of b's bytes if they are in an arena of this process, also for slices; else NULL. Borrowed from b. */
hr_segment *hr__buffer_segment(const hr_buffer *b, int64_t *offset);
/* No block of s is used again: a peer that can no longer report its releases reads there. The kernel frees the pages
 * when no process maps them. */
void hr__segment_retire(hr_segment *s);

/* ---------------------------------------------------------------------------------------------------- wire_reader.c */

/* The unread rest of bytes that a peer sent. Each error is HR_BAD_DATA and names the place, the expected and the found
 * value. `what`: the name of the value, with its article. */
typedef struct hr_wire_reader {
    const char *name; /* of the whole, with its article: "a schema" */
    const uint8_t *begin, *at, *end;
} hr_wire_reader;

hr_wire_reader hr__wire_reader(const char *name, const void *data, int64_t n_bytes);
static inline int64_t hr__wire_left(const hr_wire_reader *r) { return r->end - r->at; }
/* The next n bytes, borrowed from the read bytes. */
hr_status hr__wire_get_bytes(hr_wire_reader *r, const char *what, int64_t n, const uint8_t **out,
                             hr_error *err) HR_MUST_USE;
/* Copies a struct of n bytes; the caller checks its fields. */
hr_status hr__wire_get_struct(hr_wire_reader *r, const char *what, void *out, int64_t n, hr_error *err) HR_MUST_USE;
/* Numbers within [min, max]. */
hr_status hr__wire_get_int32(hr_wire_reader *r, const char *what, int64_t min, int64_t max, int32_t *out,
                             hr_error *err) HR_MUST_USE;
hr_status hr__wire_get_int64(hr_wire_reader *r, const char *what, int64_t min, int64_t max, int64_t *out,
                             hr_error *err) HR_MUST_USE;
/* Checks v, the value that was read last: HR_OK within [min, max]. */
hr_status hr__wire_check(const hr_wire_reader *r, const char *what, int64_t v, int64_t min, int64_t max,
                         hr_error *err) HR_MUST_USE;
hr_status hr__wire_get_end(const hr_wire_reader *r, hr_error *err) HR_MUST_USE; /* HR_OK at the end */

/* -------------------------------------------------------------------------------------------------- packets: wire.c */

#define HR_PACKET_BYTES 60000 /* at most; the rest goes into a block */
#define HR_WIRE_SCHEMAS 64    /* both ends remember this many schemas */

enum { HR_PACKET_MESSAGE = 1, HR_PACKET_SEGMENT, HR_PACKET_RELEASE, HR_PACKET_FORGET, HR_PACKET_BYE };

typedef struct hr_packet_head {
    uint32_t magic;
    uint16_t version;
    uint16_t what;
} hr_packet_head;

enum {
    HR_MESSAGE_TABLE = 1,
    HR_MESSAGE_SOLE = 2,    /* the receiver may write to the table's memory */
    HR_MESSAGE_HELD = 4,    /* has a slot: a RELEASE is expected */
    HR_MESSAGE_OUTSIDE = 8, /* the body is in a block */
};
/* The body is [schema] [columns] [bytes]. */
typedef struct hr_packet_message {
    hr_packet_head head;
    uint32_t kind, flags;
    uint64_t tag, seq;
    uint32_t slot, schema; /* schema: which of HR_WIRE_SCHEMAS */
    int64_t n_schema;      /* 0: known */
    int64_t n_columns_bytes;
    int64_t n_bytes, n_rows;
    uint64_t segment; /* of the body, if outside */
    int64_t offset;
} hr_packet_message;

typedef struct hr_packet_segment { /* brings a descriptor */
    hr_packet_head head;
    uint64_t id;
    int64_t n_bytes;
} hr_packet_segment;

typedef struct hr_released {
    uint64_t seq;
    uint32_t slot;
    uint32_t spare;
} hr_released;
#define HR_RELEASED_MOST 128
typedef struct hr_packet_release {
    hr_packet_head head;
    uint32_t n;
    uint32_t spare;
    hr_released items[HR_RELEASED_MOST]; /* n are sent */
} hr_packet_release;

typedef struct hr_packet_forget {
    hr_packet_head head;
    uint64_t id;
} hr_packet_forget;

hr_packet_head hr__packet_head(int what);

/* Keeps a message's memory on the sender's side; a reference for each buffer. */
typedef struct hr_message_ref {
    atomic_int refs;
    bool voided; /* no RELEASE leaves for it */
    uint32_t slot;
    uint64_t seq;
    void *owner;
    void (*gone)(struct hr_message_ref *h); /* called after the last unref; takes h */
    struct hr_message_ref *next;
} hr_message_ref;

typedef struct hr_map hr_map; /* a mapped segment of the peer's */

/* What one end knows of the other. Thread-safe, except that hr__peer_packet takes one call at a time. */
typedef struct hr_peer {
    hr_account *account; /* borrowed */
    hr_mutex lock;       /* a leaf; guards maps */
    hr_map **maps;
    int64_t n_maps, cap_maps;
    hr_schema *schemas[HR_WIRE_SCHEMAS];
    void *owner; /* of message_refs; not NULL */
    void (*message_ref_new)(void *owner);
    void (*message_ref_gone)(hr_message_ref *h);
    /* The peer returns our memory: *out is new, and must lie in memory that the peer holds. */
    hr_status (*own)(void *owner, uint64_t segment, int64_t offset, int64_t n, hr_buffer **out, hr_error *err);
} hr_peer;

void hr__peer_init(hr_peer *p, hr_account *account);
void hr__peer_clear(hr_peer *p);

/* A decoded packet. */
typedef struct hr_incoming {
    int what;
    hr_message message;      /* MESSAGE; its table is not checked yet */
    hr_wire_reader released; /* RELEASE: hr_released after hr_released, in the packet */
} hr_incoming;
/* Decodes one packet; nothing in it is trusted. Takes *fd (-1: none) if it uses it, and then sets -1. `data` is
 * aligned to 8. HR_NO_MEMORY: the caller may try again; HR_BAD_DATA: the sender is damaged. */
hr_status hr__peer_packet(hr_peer *p, const void *data, int64_t n, int *fd, hr_incoming *out,
                          hr_error *err) HR_MUST_USE;

/* The bytes that describe a table in a message, and the segments that the peer must map to read it. */
typedef struct hr_wire {
    hr_text bytes;
    hr_segment **segments; /* counted */
    int64_t n_segments, cap_segments;
    bool alone; /* set before: the table is sole, and the sender its only holder */
    bool sole;  /* set before; becomes false if another holder uses an added buffer */
} hr_wire;
void hr__wire_clear(hr_wire *w);
/* Adds it if it is not there. Shares. */
hr_status hr__wire_segment(hr_wire *w, hr_segment *s, hr_error *err) HR_MUST_USE;
/* Adds a column. *sent is new: `a` itself if it lies where the peer can read it, else a copy in mem->arena. */
hr_status hr__wire_column(hr_wire *w, hr_peer *p, const hr_mem *mem, hr_array *a, hr_array **sent,
                          hr_error *err) HR_MUST_USE;

/* Visits the buffers of an array and of all below it. */
void hr__array_buffers(const hr_array *a, void (*fn)(void *context, hr_buffer *b), void *context);

/* ---------------------------------------------------------------------------------------------------- wire_schema.c */

hr_status hr__wire_schema(const hr_schema *s, hr_text *out, hr_error *err) HR_MUST_USE;       /* appends */
hr_status hr__wire_read_schema(hr_wire_reader r, hr_schema **out, hr_error *err) HR_MUST_USE; /* *out is new */

#endif
