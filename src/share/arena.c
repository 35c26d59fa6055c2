/* arena.c - exchange arenas: memory that other processes may map.
 *
 * An arena is a list of memfd segments, divided into blocks. The first segment has 1 MiB; each next one doubles the
 * arena, up to 16 MiB or a sixteenth of the arena, so that large arenas do not run out of descriptors. A larger request
 * gets a segment of its own size.
 *
 * 1. Descriptions of blocks lie in private memory: a peer that writes into a segment can spoil contents, not the lists.
 * 2. A free block merges with its free neighbours and joins the list of its size class, newest first; a request takes
 *    from the smallest class that has a block. So touched memory is reused first, and the untouched rest of a segment,
 *    its largest free block, comes last: the first touch of shared pages is several times slower than a copy.
 * 3. An empty segment is freed when the rest still holds the peak of the last seconds, when the account or the process
 *    exceeds its limit, or when nobody needs the arena for now (hr__arena_trim). Punching its pages out frees them even
 *    if a peer still maps them.
 * 4. A segment is retired when a peer that reads it will never release its messages (link.c). It gets no new blocks and
 *    is freed with our last block in it, without punching: its contents stay unchanged until the peer unmaps them.
 * 5. The arena's account is charged for all bytes of a segment that were ever in a block: touching a page creates it,
 *    and it stays until the segment is freed.
 *
 * A forked child may read the buffers, but neither allocates nor frees in its parent's segments.
 * Lock: arena->lock is a leaf. Nothing is allocated, freed or mapped while it is held.
 *
 * Tests: test_share.c, test_process.c. */
#include "share/share.h"

#include "base/poison.h"
#include "share/exchange_arena.h"

#include <stdio.h>

#define ALIGN 64
#define FIRST_BYTES ((int64_t)1 << 20)
#define SEGMENT_BYTES ((int64_t)16 << 20)
#define SEGMENT_ROUND ((int64_t)2 << 20)
#define KEEP_BYTES ((int64_t)32 << 20) /* an arena of this size frees no segments */
#define TOUCH_BYTES ((int64_t)64 << 10)
#define MIN_REST 256 /* a smaller rest stays with its block */
#define PERIOD_NS ((int64_t)1000000000)
#define MAX_LOOKS 8 /* blocks of the request's own class to look at: some are too small */
#define MAX_BYTES ((int64_t)1 << 46)

#define CLASS_0_LOG 7 /* 128 bytes: 64 of data, 64 of slack */
#define N_CLASSES ((47 - CLASS_0_LOG) * 4)
#define N_WORDS ((N_CLASSES + 63) / 64)

typedef struct hr_arena_block {
    hr_segment *segment;
    int64_t offset, n_bytes; /* multiples of ALIGN */
    bool free;
    struct hr_arena_block *before, *after; /* neighbours in the segment; in the list of spares `after` is the next */
    struct hr_arena_block *next, *prev;    /* free: in the list of its class */
} block;

typedef struct arena_buffer {
    hr_buffer base; /* .owner: the arena, counted; .place: the offset in the segment */
    block *block;
} arena_buffer;

struct hr_arena {
    const hr_buffer_class *cls; /* first: buffer.c looks there */
    atomic_int refs;
    int pid;
    hr_account *account;
    char name[32];
    hr_mutex lock; /* guards what follows */
    hr_segment *segments;
    block *free[N_CLASSES];
    uint64_t in_use[N_WORDS]; /* bits: the class's list is not empty */
    block *spare;
    int64_t peak, peak_before; /* most used bytes in this period and the one before */
    int64_t period_ns;         /* when it began */
    _Atomic int64_t n_bytes, n_used;
};

static void buffer_shrink(hr_buffer *b, int64_t n_bytes);
static void buffer_free(hr_buffer *b);
static const hr_buffer_class arena_class = { hr__arena_buffer, buffer_shrink, buffer_free };

static _Atomic uint64_t last_id;
static _Atomic uint64_t n_gone;

static bool is_ours(const hr_arena *a) { return a->pid == hr__pid(); }

/* --------------------------------------------------------------------------------------------------------- segments */

hr_segment *hr__segment_ref(hr_segment *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__segment_unref(hr_segment *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    hr__file_close(s->fd);
    hr__free(s);
}

uint64_t hr__segments_gone(void) { return atomic_load_explicit(&n_gone, memory_order_acquire); }

/* A segment of one free block. Not in the arena's lists yet. */
static hr_status segment_new(hr_arena *a, int64_t n_bytes, hr_segment **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_segment *s = hr__zalloc(a->account, sizeof *s);
    block *b = hr__zalloc(a->account, sizeof *b);
    int fd = -1;

    hr__account_add(a->account, 0, 1);
    if (!s || !b) {
        st = hr__error_memory(err, "arena", sizeof *s);
        goto done;
    }
    if ((fd = hr__memfd(a->name, n_bytes)) < 0) {
        st = hr__error_os(err, fd, a->name, "shared memory");
        goto done;
    }
    if (!(s->data = hr__map_shared(fd, (size_t)n_bytes, true))) {
        st = hr__error_memory(err, "arena", n_bytes);
        goto done;
    }
    atomic_init(&s->refs, 1);
    s->id = atomic_fetch_add(&last_id, 1) + 1;
    s->n_bytes = n_bytes;
    s->fd = fd;
    s->arena = a;
    s->first = b;
    *b = (block){ .segment = s, .n_bytes = n_bytes, .free = true };
    ASAN_POISON_MEMORY_REGION(s->data, (size_t)n_bytes);
    *out = s;
    return HR_OK;
done:
    hr__file_close(fd);
    hr__free(b);
    hr__free(s);
    hr__account_add(a->account, 0, -1);
    return st;
}

/* Takes the arena's reference, when the segment is out of all lists. */
static void segment_give_back(hr_segment *s, bool punch)
{
    hr_account *account = s->arena->account;
    int64_t n = s->n_bytes, charged = s->charged;

    ASAN_UNPOISON_MEMORY_REGION(s->data, (size_t)n);
    hr__unmap(s->data, (size_t)n);
    if (punch && !s->retired)
        hr__memfd_punch(s->fd, 0, n);
    atomic_store(&s->gone, true);
    atomic_fetch_add_explicit(&n_gone, 1, memory_order_release);
    hr__segment_unref(s);
    hr__account_add(account, -charged, -1);
}

/* -------------------------------------------------------------------------------------- blocks; arena->lock is held */

/* The largest class c with class_bytes(c) <= n. */
static int class_of(int64_t n)
{
    int log = 63 - __builtin_clzll((unsigned long long)n);

    if (log < CLASS_0_LOG)
        return 0;
    return (log - CLASS_0_LOG) * 4 + (int)(n >> (log - 2) & 3);
}

static void list_locked(hr_arena *a, block *b)
{
    int c = class_of(b->n_bytes);

    b->free = true;
    b->prev = NULL;
    b->next = a->free[c];
    if (b->next)
        b->next->prev = b;
    a->free[c] = b;
    a->in_use[c / 64] |= (uint64_t)1 << c % 64;
}

static void unlist_locked(hr_arena *a, block *b)
{
    int c = class_of(b->n_bytes);

    if (b->next)
        b->next->prev = b->prev;
    if (b->prev)
        b->prev->next = b->next;
    else if (!(a->free[c] = b->next))
        a->in_use[c / 64] &= ~((uint64_t)1 << c % 64);
    b->free = false;
}

static void spare_locked(hr_arena *a, block *b)
{
    b->after = a->spare;
    a->spare = b;
}

/* The first class from c on that has blocks; -1: none. */
static int next_class(const hr_arena *a, int c)
{
    for (int w = c / 64; w < N_WORDS; w++) {
        uint64_t bits = a->in_use[w];
        if (w == c / 64)
            bits &= ~(uint64_t)0 << c % 64;
        if (bits)
            return w * 64 + __builtin_ctzll(bits);
    }
    return -1;
}

/* A free block of at least n bytes. Its own class is searched to the end only if there is nothing larger. */
static block *find_locked(const hr_arena *a, int64_t n)
{
    int c = class_of(n), larger = next_class(a, c + 1), looks = 0;

    for (block *b = a->free[c]; b && (looks < MAX_LOOKS || larger < 0); b = b->next, looks++)
        if (b->n_bytes >= n)
            return b;
    return larger < 0 ? NULL : a->free[larger];
}

/* Makes the rest of b after its first n bytes a free block; needs a spare block. */
static void split_locked(hr_arena *a, block *b, int64_t n)
{
    block *rest = a->spare;

    a->spare = rest->after;
    *rest = (block){
        .segment = b->segment, .offset = b->offset + n, .n_bytes = b->n_bytes - n, .before = b, .after = b->after
    };
    if (rest->after)
        rest->after->before = rest;
    b->after = rest;
    b->n_bytes = n;
    list_locked(a, rest);
}

/* The most bytes used lately. */
static int64_t recent_peak_locked(hr_arena *a)
{
    int64_t now = hr__clock_ns(), used = a->n_used;

    if (now - a->period_ns > PERIOD_NS) {
        a->peak_before = a->peak;
        a->peak = 0;
        a->period_ns = now;
    }
    a->peak = HR_MAX(a->peak, used);
    return HR_MAX(a->peak, a->peak_before);
}

/* Marks b as touched; returns the bytes to charge now. */
static int64_t touch_locked(const block *b)
{
    hr_segment *s = b->segment;
    int64_t end = HR_MIN(HR_ROUND_UP(b->offset + b->n_bytes, TOUCH_BYTES), s->n_bytes), more = end - s->charged;

    if (more <= 0)
        return 0;
    s->charged = end;
    return more;
}

/* Takes a block for n bytes; *charge: bytes to charge. NULL: a spare block (*spare) or space is missing. */
static block *take_locked(hr_arena *a, int64_t n, bool *spare, int64_t *charge)
{
    block *b = find_locked(a, n);

    *spare = b && b->n_bytes - n >= MIN_REST && !a->spare;
    if (!b || *spare)
        return NULL;
    unlist_locked(a, b);
    if (b->n_bytes - n >= MIN_REST)
        split_locked(a, b, n);
    b->segment->n_used += b->n_bytes;
    a->n_used += b->n_bytes;
    (void)recent_peak_locked(a);
    *charge = touch_locked(b);
    ASAN_UNPOISON_MEMORY_REGION(b->segment->data + b->offset, (size_t)b->n_bytes);
    return b;
}

/* Merges b and the free block after it; the result is in no list. */
static void join_locked(hr_arena *a, block *b)
{
    block *gone = b->after;

    b->n_bytes += gone->n_bytes;
    b->after = gone->after;
    if (b->after)
        b->after->before = b;
    spare_locked(a, gone);
}

static void drop_blocks_locked(hr_arena *a, hr_segment *s)
{
    for (block *b = s->first, *next; b; b = next) {
        next = b->after;
        if (b->free && !s->retired)
            unlist_locked(a, b);
        spare_locked(a, b);
    }
    s->first = NULL;
}

/* Removes the segment from the arena. */
static void remove_segment_locked(hr_arena *a, hr_segment *s)
{
    hr_segment **at = &a->segments;

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    a->n_bytes -= s->n_bytes;
    drop_blocks_locked(a, s);
}

static void free_locked(hr_arena *a, block *b)
{
    hr_segment *s = b->segment;

    ASAN_POISON_MEMORY_REGION(s->data + b->offset, (size_t)b->n_bytes);
    s->n_used -= b->n_bytes;
    a->n_used -= b->n_bytes;
    if (s->retired)
        return;
    if (b->after && b->after->free) {
        unlist_locked(a, b->after);
        join_locked(a, b);
    }
    if (b->before && b->before->free) {
        b = b->before;
        unlist_locked(a, b);
        join_locked(a, b);
    }
    list_locked(a, b);
}

/* Removes empty segments while at least `keep` bytes stay, and empty retired ones. Returns a chain of segments to
 * free. */
static hr_segment *trim_locked(hr_arena *a, int64_t keep)
{
    hr_segment *out = NULL;

    for (hr_segment *s = a->segments, *next; s; s = next) {
        next = s->next;
        if (s->n_used || (!s->retired && a->n_bytes - s->n_bytes < keep))
            continue;
        remove_segment_locked(a, s);
        s->next = out;
        out = s;
    }
    return out;
}

/* -------------------------------------------------------------------------------------------------------- the arena */

hr_status hr__arena_new(hr_account *account, const char *name, hr_arena **out, hr_error *err)
{
    hr_arena *a = hr__zalloc(account, sizeof *a);

    *out = a;
    if (!a)
        return hr__error_memory(err, "arena", sizeof *a);
    a->cls = &arena_class;
    atomic_init(&a->refs, 1);
    a->pid = hr__pid();
    a->account = hr__account_ref(account);
    snprintf(a->name, sizeof a->name, "headrace-%s", name ? name : "");
    hr__mutex_init(&a->lock);
    return HR_OK;
}

hr_arena *hr__arena_ref(hr_arena *a)
{
    if (a)
        atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
    return a;
}

void hr__arena_unref(hr_arena *a)
{
    if (!a || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) > 1)
        return;
    while (a->segments) {
        hr_segment *s = a->segments;
        remove_segment_locked(a, s);
        segment_give_back(s, is_ours(a));
    }
    for (block *b = a->spare, *next; b; b = next) {
        next = b->after;
        hr__free(b);
    }
    if (is_ours(a)) /* in a forked child a thread of the parent may have held it */
        hr__mutex_clear(&a->lock);
    hr__account_unref(a->account);
    hr__free(a);
}

int64_t hr__arena_bytes(const hr_arena *a) { return a->n_bytes; }
int64_t hr__arena_used(const hr_arena *a) { return a->n_used; }

static void give_back_all(hr_segment *s)
{
    for (hr_segment *next; s; s = next) {
        next = s->next;
        segment_give_back(s, true);
    }
}

/* ---------------------------------------------------------------------------------------------------------- growing */

static int64_t next_segment_bytes(const hr_arena *a, int64_t n)
{
    int64_t total = a->n_bytes;
    int64_t want = HR_MAX(HR_MIN(HR_MAX(total, FIRST_BYTES), SEGMENT_BYTES), HR_ROUND_UP(total / 16, SEGMENT_ROUND));

    return n <= want ? want : HR_ROUND_UP(n, SEGMENT_ROUND);
}

static block *take(hr_arena *a, int64_t n, bool *spare)
{
    int64_t charge = 0;
    block *b;

    hr__lock(&a->lock);
    b = take_locked(a, n, spare, &charge);
    hr__unlock(&a->lock);
    if (charge)
        hr__account_add(a->account, charge, 0);
    return b;
}

static hr_status add_spare(hr_arena *a, hr_error *err)
{
    block *b = hr__zalloc(a->account, sizeof *b);

    if (!b)
        return hr__error_memory(err, "arena", sizeof *b);
    hr__lock(&a->lock);
    spare_locked(a, b);
    hr__unlock(&a->lock);
    return HR_OK;
}

/* Adds a segment for n bytes; frees it again if another thread has made room meanwhile. */
static hr_status grow(hr_arena *a, int64_t n, hr_error *err)
{
    hr_segment *s = NULL;

    HR_TRY(segment_new(a, next_segment_bytes(a, n), &s, err));
    hr__lock(&a->lock);
    s->next = a->segments;
    a->segments = s;
    a->n_bytes += s->n_bytes;
    if (find_locked(a, n)) {
        list_locked(a, s->first); /* listed, so that it can be removed */
        remove_segment_locked(a, s);
    } else {
        list_locked(a, s->first);
        s = NULL;
    }
    hr__unlock(&a->lock);
    if (s)
        segment_give_back(s, true);
    return HR_OK;
}

static hr_status block_new(hr_arena *a, int64_t n, block **out, hr_error *err)
{
    bool spare;

    while (!(*out = take(a, n, &spare)))
        HR_TRY(spare ? add_spare(a, err) : grow(a, n, err));
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- buffers */

hr_status hr__arena_buffer(hr_arena *a, int64_t n_bytes, hr_buffer **out, hr_error *err)
{
    arena_buffer *b;
    block *k;
    hr_status st;

    *out = NULL;
    if (!is_ours(a))
        return hr_error_set(err, HR_INVALID, "%s: shared memory of process %d cannot be allocated in process %d",
                            a->name, a->pid, hr__pid());
    if (n_bytes < 0 || n_bytes > MAX_BYTES)
        return hr__error_memory(err, "arena", n_bytes);
    if (!(b = hr__zalloc(a->account, sizeof *b)))
        return hr__error_memory(err, "arena", sizeof *b);
    if ((st = block_new(a, HR_ROUND_UP(n_bytes + HR_SLACK, ALIGN), &k, err))) {
        hr__free(b);
        return st;
    }
    atomic_init(&b->base.refs, 1);
    b->base.data = k->segment->data + k->offset;
    b->base.n_bytes = n_bytes;
    b->base.kind = HR_BUFFER_ARENA;
    b->base.cls = a->cls;
    b->base.capacity = k->n_bytes - HR_SLACK;
    b->base.account = a->account;
    b->base.owner = hr__arena_ref(a);
    b->base.place = k->offset;
    b->block = k;
    memset(b->base.data + n_bytes, 0, HR_SLACK);
    *out = &b->base;
    return HR_OK;
}

static bool has_spare(hr_arena *a)
{
    bool has;

    hr__lock(&a->lock);
    has = a->spare != NULL;
    hr__unlock(&a->lock);
    return has;
}

/* Merges the free block b with the block after it, if that is free. */
static void join_next_locked(hr_arena *a, block *b)
{
    if (!b->after || !b->after->free)
        return;
    unlist_locked(a, b);
    unlist_locked(a, b->after);
    join_locked(a, b);
    list_locked(a, b);
}

static void buffer_shrink(hr_buffer *b, int64_t n_bytes)
{
    hr_arena *a = b->owner;
    block *k = ((arena_buffer *)b)->block;
    int64_t n = HR_ROUND_UP(n_bytes + HR_SLACK, ALIGN), rest = k->n_bytes - n;

    if (rest < MIN_REST || rest < n / 8 || !is_ours(a) || (!has_spare(a) && add_spare(a, NULL)))
        return;
    hr__lock(&a->lock);
    if (a->spare && !k->segment->retired) {
        ASAN_POISON_MEMORY_REGION(k->segment->data + k->offset + n, (size_t)rest);
        k->segment->n_used -= rest;
        a->n_used -= rest;
        split_locked(a, k, n);
        join_next_locked(a, k->after);
        b->capacity = n - HR_SLACK;
    }
    hr__unlock(&a->lock);
}

static bool over_limit(const hr_account *a)
{
    return hr__account_used(a) > hr__account_limit(a) || hr_memory_used() > hr_memory_limit();
}

/* Frees the block, and segments beyond the high-water mark. */
static void block_free(hr_arena *a, block *k)
{
    bool over = over_limit(a->account);
    hr_segment *s = k->segment, *out = NULL;
    int64_t keep;

    hr__lock(&a->lock);
    keep = over ? 0 : HR_MAX(recent_peak_locked(a), KEEP_BYTES);
    free_locked(a, k);
    if (!s->n_used || a->n_bytes > keep)
        out = trim_locked(a, keep);
    hr__unlock(&a->lock);
    give_back_all(out);
}

void hr__arena_trim(hr_arena *a)
{
    hr_segment *out;

    if (!is_ours(a))
        return;
    hr__lock(&a->lock);
    out = trim_locked(a, 0);
    hr__unlock(&a->lock);
    give_back_all(out);
}

static void buffer_free(hr_buffer *b)
{
    arena_buffer *ab = (arena_buffer *)b;
    hr_arena *a = b->owner;

    if (is_ours(a))
        block_free(a, ab->block);
    hr__free(ab);
    hr__arena_unref(a);
}

hr_segment *hr__buffer_segment(const hr_buffer *b, int64_t *offset)
{
    const hr_buffer *root = b->kind == HR_BUFFER_SLICE ? b->owner : b;
    hr_segment *s;

    if (root->kind != HR_BUFFER_ARENA || !is_ours(root->owner))
        return NULL;
    s = ((const arena_buffer *)root)->block->segment;
    *offset = b->data - s->data;
    return s;
}

void hr__segment_retire(hr_segment *s)
{
    hr_arena *a = s->arena;

    hr__lock(&a->lock);
    for (block *b = s->first; b && !s->retired; b = b->after)
        if (b->free)
            unlist_locked(a, b); /* and never listed again */
    s->retired = true;
    hr__unlock(&a->lock);
}

/* ---------------------------------------------------------------------------------------------- where a table lies */

static bool buffer_in(const hr_buffer *b, const hr_arena *arena)
{
    if (!b || b->n_bytes == 0)
        return true;
    if (b->kind == HR_BUFFER_SLICE)
        b = b->owner;
    return b->kind == HR_BUFFER_ARENA && b->owner == arena;
}

static bool array_in(const hr_array *a, const hr_arena *arena)
{
    for (int i = 0; i < HR_LEN(a->buffers); i++)
        if (!buffer_in(a->buffers[i], arena))
            return false;
    for (int i = 0; i < a->n_children; i++)
        if (!array_in(a->children[i], arena))
            return false;
    return true;
}

bool hr__table_in_arena(const hr_table *t, const hr_arena *arena)
{
    for (int i = 0; i < t->schema->n; i++)
        if (!array_in(t->columns[i], arena))
            return false;
    return true;
}
