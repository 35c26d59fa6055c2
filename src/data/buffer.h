/* buffer.h - counted bytes: what columns are made of. */
#ifndef HR_BUFFER_H
#define HR_BUFFER_H

#include "base/bits.h"
#include "base/mem.h"

typedef struct hr_arena hr_arena; /* memory that other processes can map: below */

/* Where new bytes go. The plan decides it when an operator starts: arena non-NULL means "another process will read
 * it". */
typedef struct hr_mem {
    hr_account *account;
    hr_arena *arena;
} hr_mem;

/* hr_buffer.kind. share/ makes the last two; buffer.c works on them by their class. */
enum {
    HR_BUFFER_INLINE, /* small: the bytes follow the struct, one hr__alloc */
    HR_BUFFER_POOLED, /* a map of our own */
    HR_BUFFER_SLICE,  /* owner: the parent, never a slice itself */
    HR_BUFFER_WRAP,   /* owner: whatever release() takes */
    HR_BUFFER_ARENA,  /* in an arena of ours */
    HR_BUFFER_PEER    /* in a peer's arena: to be written only as a part of a sole table */
};

typedef struct hr_buffer hr_buffer;

/* Memory beside the pool's. What hr_mem.arena points to begins with a pointer to its class. */
typedef struct hr_buffer_class {
    hr_status (*make)(hr_arena *a, int64_t n_bytes, hr_buffer **out,
                      hr_error *err);              /* contents undefined, slack zero */
    void (*shrink)(hr_buffer *b, int64_t n_bytes); /* gives back what is not needed for n_bytes, if it pays */
    void (*free)(hr_buffer *b);                    /* the last reference went */
} hr_buffer_class;

struct hr_buffer {
    uint8_t *data; /* written by its maker before it is shared, then never */
    int64_t n_bytes;
    atomic_int refs;
    uint8_t kind; /* private to buffer.c, arena.c, wire.c */
    int64_t capacity;
    hr_account *account;
    void *owner; /* arena, parent buffer, or foreign owner */
    union {
        void (*release)(void *owner); /* WRAP */
        const hr_buffer_class *cls;   /* ARENA, PEER; `make` may be NULL */
    };
    int64_t place; /* arena.c, wire.c: offset in its segment */
};

/* Contents undefined, but the slack is zero. From the pool: fresh pages are the exception. */
hr_status hr__buffer_new(const hr_mem *mem, int64_t n_bytes, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* A copy of n bytes. Borrows. */
hr_status hr__buffer_copy(const hr_mem *mem, const void *data, int64_t n_bytes, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Foreign memory, not charged; `release(owner)` runs once, on whatever thread drops the last reference. No slack is
 * promised. On failure release is not called. */
hr_status hr__buffer_wrap(const void *data, int64_t n_bytes, void (*release)(void *), void *owner, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Bytes [begin, begin + n) of `b`, sharing. */
hr_status hr__buffer_slice(hr_buffer *b, int64_t begin, int64_t n, hr_buffer **out, hr_error *err) HR_MUST_USE;
hr_buffer *hr__buffer_ref(hr_buffer *b); /* NULL is fine */
void hr__buffer_unref(hr_buffer *b);
/* Only its maker, before sharing: says that just n bytes are used; the rest goes back to the pool when that pays. */
void hr__buffer_shrink(hr_buffer *b, int64_t n_bytes);
bool hr__buffer_sole(const hr_buffer *b); /* one reference, and memory of our own: its holder may write */
/* A buffer being built. grow: at least n bytes of capacity, doubling. All-zero (with mem) is an empty builder. */
typedef struct hr_growbuf {
    const hr_mem *mem;
    hr_buffer *buffer; /* n_bytes of it are used */
} hr_growbuf;
hr_status hr__growbuf_reserve(hr_growbuf *g, int64_t n_more,
                              hr_error *err) HR_MUST_USE; /* room for n_more after n_bytes */
hr_status hr__growbuf_add(hr_growbuf *g, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
/* What was built, shrunk, with its slack; *out is new, of no bytes if nothing was added; g is empty. On failure g
 * stays. */
hr_status hr__growbuf_finish(hr_growbuf *g, hr_buffer **out, hr_error *err) HR_MUST_USE;
void hr__growbuf_clear(hr_growbuf *g);

#endif
