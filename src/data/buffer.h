/* buffer.h - counted bytes, which columns consist of. */
#ifndef HR_BUFFER_H
#define HR_BUFFER_H

#include "base/bits.h"
#include "base/mem.h"

typedef struct hr_arena hr_arena; /* memory that other processes can map: below */

/* Where new bytes go; decided when an operator starts. `arena` is not NULL: another process will read them. */
typedef struct hr_mem {
    hr_account *account;
    hr_arena *arena;
} hr_mem;

/* hr_buffer.kind. share/ makes the last two; buffer.c works on them by their class. */
enum {
    HR_BUFFER_INLINE, /* small: the bytes follow the struct, one hr__alloc */
    HR_BUFFER_POOLED, /* a map of our own */
    HR_BUFFER_SLICE,  /* owner: the parent, never a slice itself */
    HR_BUFFER_WRAP,   /* owner: the argument of release() */
    HR_BUFFER_ARENA,  /* in an arena of ours */
    HR_BUFFER_PEER    /* in a peer's arena: writable only as a part of a sole table */
};

typedef struct hr_buffer hr_buffer;

/* Memory that the pool does not own. The struct behind hr_mem.arena begins with a pointer to its class. */
typedef struct hr_buffer_class {
    hr_status (*make)(hr_arena *a, int64_t n_bytes, hr_buffer **out,
                      hr_error *err);              /* contents undefined, slack zero */
    void (*shrink)(hr_buffer *b, int64_t n_bytes); /* gives back the bytes after n_bytes, if it pays */
    void (*free)(hr_buffer *b);                    /* the last reference went */
} hr_buffer_class;

struct hr_buffer {
    uint8_t *data; /* written by its maker before it is shared, never after */
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
    union {
        int64_t place;           /* ARENA, PEER: offset in its segment */
        _Atomic int64_t charged; /* WRAP: bytes, by hr__buffer_charge */
    };
};

/* The contents are undefined, the slack is zero. Most come from the pool; fresh pages are the exception. */
hr_status hr__buffer_new(const hr_mem *mem, int64_t n_bytes, hr_buffer **out, hr_error *err) HR_MUST_USE;
/* A copy of n bytes. Borrows. */
hr_status hr__buffer_copy(const hr_mem *mem, const void *data, int64_t n_bytes, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Foreign memory, not charged before hr__buffer_charge; `release(owner)` runs once, on the thread that drops the last
 * reference. It may have no slack. On failure release is not called. */
hr_status hr__buffer_wrap(const void *data, int64_t n_bytes, void (*release)(void *), void *owner, hr_buffer **out,
                          hr_error *err) HR_MUST_USE;
/* Charges the process for n bytes of foreign memory, which a run has caused, until the buffer is freed. Nothing happens
 * for memory of our own, and the second time. */
void hr__buffer_charge(hr_buffer *b, int64_t n_bytes);
/* Bytes [begin, begin + n) of `b`, sharing. */
hr_status hr__buffer_slice(hr_buffer *b, int64_t begin, int64_t n, hr_buffer **out, hr_error *err) HR_MUST_USE;
hr_buffer *hr__buffer_ref(hr_buffer *b); /* NULL is fine */
void hr__buffer_unref(hr_buffer *b);
/* Cuts b to n bytes; only its maker calls it, before it shares b. The rest goes back to the pool if that pays. */
void hr__buffer_shrink(hr_buffer *b, int64_t n_bytes);
bool hr__buffer_sole(const hr_buffer *b); /* one reference, and our own memory: the holder may write */
/* A buffer being built. grow: at least n bytes of capacity, doubling. All-zero (with mem) is an empty builder. */
typedef struct hr_growbuf {
    const hr_mem *mem;
    hr_buffer *buffer; /* n_bytes of it are used */
} hr_growbuf;
hr_status hr__growbuf_reserve(hr_growbuf *g, int64_t n_more,
                              hr_error *err) HR_MUST_USE; /* room for n_more after n_bytes */
hr_status hr__growbuf_add(hr_growbuf *g, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
/* *out is new: the added bytes, shrunk, with slack, and none if nothing was added; g becomes empty. On failure g
 * stays. */
hr_status hr__growbuf_finish(hr_growbuf *g, hr_buffer **out, hr_error *err) HR_MUST_USE;
void hr__growbuf_clear(hr_growbuf *g);

#endif
