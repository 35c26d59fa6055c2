/* link.h - the inside of a link, for link.c and link_send.c; link.c explains it. */
#ifndef HR_LINK_H
#define HR_LINK_H

#include "share/share.h"
#include "share/process_link.h"

/* The buffers of a sent message, kept until the peer releases it. */
typedef struct hr_sent_message {
    struct hr_sent_message *next;
    bool table;
    hr_buffer *body; /* NULL: was in the packet */
    int n;
    hr_array *columns[];
} hr_sent_message;

typedef struct hr_slot {
    uint64_t seq; /* 0: free */
    hr_sent_message *sent;
    int64_t next_free;
} hr_slot;

typedef struct hr_packet {
    struct hr_packet *next;
    hr_segment *segment; /* its descriptor travels with the packet; counted */
    int64_t n;
    uint64_t data[];
} hr_packet;

typedef struct hr_known_schema {
    hr_schema *schema;
    hr_text bytes;
} hr_known_schema;

/* Objects to free after releasing the lock. */
typedef struct hr_pending_free {
    hr_packet *packets;
    hr_sent_message *sent;
    hr_message_ref *message_refs;
    hr_segment **known; /* references */
    int64_t n_known;
    hr_segment *gone[16]; /* references */
    int n_gone;
    bool retire; /* the segments of `sent` first */
} hr_pending_free;

struct hr_link {
    atomic_int users; /* references by hr__link_ref */
    atomic_int parts; /* 1 for all users, 1 for each message_ref, 1 while on_backlog works */
    atomic_int n_message_refs;
    int fd;
    int pid;
    hr_account *account;
    hr_mem mem; /* where copies go */
    hr_peer peer;
    bool (*on_backlog)(hr_link *l); /* NULL: it is not called */

    hr_mutex send_lock; /* guards what follows */
    hr_known_schema schemas[HR_WIRE_SCHEMAS];
    int next_schema;

    hr_mutex recv_lock; /* guards what follows */
    uint64_t *in;       /* IN_BYTES */
    int64_t n_in;       /* > 0: a packet that is still to be decoded */
    int in_fd;          /* that came with it */

    hr_mutex lock;   /* guards what follows */
    bool closed;     /* by us */
    bool broken;     /* sending is impossible */
    int64_t why;     /* -errno of the send that failed */
    bool ended;      /* no more packets come */
    bool peer_reads; /* BYE came: the peer closed, but still reads our tables */
    bool kept_open;  /* closed, but the socket stays open for now */
    bool flushing;   /* between on_backlog and hr__link_settled: holds a part */
    hr_packet *out, **out_end;
    hr_message_ref *released, **released_end;
    hr_segment **known; /* that the peer maps */
    int64_t n_known, cap_known;
    uint64_t gone_seen;
    hr_slot *slots;
    int64_t n_slots, cap_slots, free_slot; /* free_slot < 0: none */
    uint64_t last_seq;
    int64_t n_tables;
};

static inline bool hr__link_is_ours(const hr_link *l) { return l->pid == hr__pid(); }

/* --- link_life.c: HR_PEER, and why */
hr_status hr__link_not_ours(const hr_link *l, hr_error *err);
hr_status hr__link_closed(hr_error *err);
hr_status hr__link_gone(hr_error *err);
void hr__link_part_unref(hr_link *l); /* the last part frees the link */

/* --- link_send.c */
void hr__free_pending(hr_pending_free *t);
/* Moves all sent messages and queued packets to t. */
void hr__link_drop_all_locked(hr_link *l, hr_pending_free *t);
/* Sends one packet now; true: the socket took it. `s` (NULL: none): sends its descriptor, too. */
bool hr__link_put_locked(hr_link *l, const void *data, int64_t n, const hr_segment *s);
/* Sends queued packets until the socket is full. */
void hr__link_flush_locked(hr_link *l, hr_pending_free *t);
void hr__link_flush_now(hr_link *l);
/* Whether the caller must call hr__link_call_backlog after releasing the lock. */
bool hr__link_calls_backlog_locked(hr_link *l);
void hr__link_call_backlog(hr_link *l);

#endif
