/* buffer.c - counted bytes: small ones, pooled ones, slices, foreign ones; growing ones; bitmaps.
 *
 * Small buffers (below 64 KiB) are one hr__alloc: malloc keeps such blocks warm by itself. Larger ones are a struct and a
 * map of their own, whose size is one of a few classes (powers of two in quarter steps), so that a freed map fits the
 * next request. Free maps wait in the pool, the newest of a class is taken first: its pages are in memory, perhaps in the
 * cache, while the first touch of fresh pages costs several times a copy. Huge pages cost a third of small ones, so blocks
 * below 2 MiB are cut, several at once, from a map that can have them; each is given back to the system by itself.
 *
 * The pool's bytes belong to no account but are resident, so that the process counts them (budget.c), and the oldest go
 *   - when a charge would take the process over its limit,
 *   - when they exceed max(64 MiB, limit / 8), or limit / 4.
 * A block is first taken from the pool's sum, then charged, and the other way back: the peak is never counted too high.
 *
 * Lock: pool.lock is a leaf. Nothing is mapped, unmapped or charged while it is held. Under AddressSanitizer free blocks
 * are poisoned, so that a late reader is caught although the memory stays ours. */
#include "core/core.h"

#include "core/poison.h"

#define CLASS_0_LOG 16 /* 64 KiB */
#define N_CLASSES ((46 - CLASS_0_LOG) * 4)
#define POOL_BYTES ((int64_t)64 << 20)
#define CHUNK_BYTES ((int64_t)2 << 20)

/* ---------------------------------------------------------------------------------------------------------- blocks */

/* The least class that holds n bytes. Class 4 * i + q holds (4 + q) / 4 of 2^(CLASS_0_LOG + i). */
static int class_of(int64_t n)
{
    int log;

    if (n <= (int64_t)1 << CLASS_0_LOG)
        return 0;
    log = 63 - __builtin_clzll((unsigned long long)n - 1);
    return (log - CLASS_0_LOG) * 4 + (int)((n - 1) >> (log - 2) & 3) + 1;
}

static int64_t class_bytes(int c) { return (int64_t)(4 + c % 4) << (CLASS_0_LOG - 2 + c / 4); }

/* What is mapped and charged: whole pages, and one more for the slack. */
static int64_t block_bytes(int c)
{
    int64_t page = hr__memory_page();

    return HR_ROUND_UP(class_bytes(c), page) + page;
}

/* The head of a free block, written into the block itself. */
typedef struct free_block {
    struct free_block *next, *prev;   /* of its class: next was freed before */
    struct free_block *newer, *older; /* of all */
    int class;
} free_block;

static struct {
    hr_mutex lock;
    free_block *free[N_CLASSES]; /* the newest of each */
    free_block *newest, *oldest;
    _Atomic int64_t n_bytes;
} pool = { .lock = HR_MUTEX_INIT };

static pthread_once_t pool_once = PTHREAD_ONCE_INIT;
static void pool_register(void) { hr__mutex_survives_fork(&pool.lock); }

static void pool_lock(void)
{
    pthread_once(&pool_once, pool_register);
    hr__lock(&pool.lock);
}

int64_t hr__pool_bytes(void) { return atomic_load(&pool.n_bytes); }

static int64_t pool_most(void)
{
    int64_t limit = hr_memory_limit();

    return HR_MIN(HR_MAX(POOL_BYTES, limit / 8), limit / 4);
}

static void link_locked(free_block *f, int c)
{
    *f = (free_block){ .next = pool.free[c], .older = pool.newest, .class = c };
    if (f->next)
        f->next->prev = f;
    pool.free[c] = f;
    if (f->older)
        f->older->newer = f;
    else
        pool.oldest = f;
    pool.newest = f;
    atomic_fetch_add(&pool.n_bytes, block_bytes(c));
}

static void unlink_locked(free_block *f)
{
    if (f->next)
        f->next->prev = f->prev;
    if (f->prev)
        f->prev->next = f->next;
    else
        pool.free[f->class] = f->next;
    if (f->newer)
        f->newer->older = f->older;
    else
        pool.newest = f->older;
    if (f->older)
        f->older->newer = f->newer;
    else
        pool.oldest = f->newer;
    atomic_fetch_sub(&pool.n_bytes, block_bytes(f->class));
}

/* Takes the oldest blocks out until at most `keep` bytes are left: a chain by `next`. */
static free_block *pool_evict_locked(int64_t keep)
{
    free_block *out = NULL;

    while (pool.oldest && hr__pool_bytes() > keep) {
        free_block *f = pool.oldest;
        unlink_locked(f);
        f->next = out;
        out = f;
    }
    return out;
}

static void block_unmap(void *p, int c)
{
    ASAN_UNPOISON_MEMORY_REGION(p, (size_t)block_bytes(c));
    hr__unmap(p, (size_t)block_bytes(c));
}

static int64_t chain_unmap(free_block *f)
{
    int64_t n = 0;

    for (free_block *next; f; f = next) {
        next = f->next;
        n += block_bytes(f->class);
        block_unmap(f, f->class);
    }
    return n;
}

int64_t hr__pool_trim(int64_t keep_bytes)
{
    free_block *f;

    pool_lock();
    f = pool_evict_locked(keep_bytes);
    hr__unlock(&pool.lock);
    return chain_unmap(f);
}

/* A free block of class *c or the next one, NULL if there is none. */
static void *pool_take(int *c)
{
    free_block *f;

    pool_lock();
    if (!(f = pool.free[*c]) && *c + 1 < N_CLASSES)
        f = pool.free[*c + 1];
    if (f)
        unlink_locked(f);
    hr__unlock(&pool.lock);
    if (f) {
        *c = f->class;
        ASAN_UNPOISON_MEMORY_REGION(f, (size_t)block_bytes(*c));
    }
    return f;
}

/* Takes the block, which is no longer charged. */
static void pool_put(void *p, int c)
{
    int64_t most = pool_most();
    free_block *f;

    if (block_bytes(c) > most) {
        block_unmap(p, c);
        return;
    }
    ASAN_POISON_MEMORY_REGION((uint8_t *)p + sizeof *f, (size_t)block_bytes(c) - sizeof *f);
    pool_lock();
    link_locked(p, c);
    f = pool_evict_locked(most);
    hr__unlock(&pool.lock);
    chain_unmap(f);
}

/* --- fresh blocks */

/* The size of the map to cut blocks of class c from; 0: each has a map of its own, since it is large, or since the limit
 * leaves no room for blocks that nobody asked for. */
static int64_t chunk_bytes(int c)
{
    int64_t each = block_bytes(c), chunk = each <= CHUNK_BYTES / 3 ? CHUNK_BYTES : 2 * CHUNK_BYTES;

    if (each >= CHUNK_BYTES || chunk > pool_most() / 8 || hr_memory_used() + chunk > hr_memory_limit())
        return 0;
    return chunk;
}

/* Cuts a chunk; the first block is the caller's, the others go into the pool. */
static void *chunk_cut(int c, int64_t chunk)
{
    int64_t each = block_bytes(c), n = chunk / each;
    uint8_t *p = hr__map_private((size_t)chunk);

    if (!p)
        return NULL;
    for (int64_t i = 0; i < n; i++) { /* its pages are touched before the lock */
        *(volatile uint8_t *)(p + i * each) = 0;
        if (i > 0)
            ASAN_POISON_MEMORY_REGION(p + i * each + sizeof(free_block), (size_t)each - sizeof(free_block));
    }
    if (chunk > n * each)
        hr__unmap(p + n * each, (size_t)(chunk - n * each));
    pool_lock();
    for (int64_t i = n - 1; i > 0; i--)
        link_locked((free_block *)(void *)(p + i * each), c);
    hr__unlock(&pool.lock);
    return p;
}

/* All zero. What the kernel refuses may be in the pool; a failure that a test asked for is not mended. */
static void *block_map(int c)
{
    int64_t chunk = chunk_bytes(c);
    void *p = chunk ? chunk_cut(c, chunk) : hr__map_private((size_t)block_bytes(c));

    if (!p && !hr__fault_hit()) {
        hr__pool_trim(0);
        p = hr__map_private((size_t)block_bytes(c));
    }
    return p;
}

/* --- blocks in use are charged to an account */

/* A block for n bytes; its class in *c, *fresh: all zero. */
static void *block_new(hr_account *a, int64_t n, int *c, bool *fresh)
{
    void *p;

    if (hr__fault(HR_FAULT_MEMORY))
        return NULL;
    *c = class_of(n);
    *fresh = false;
    if ((p = pool_take(c))) {
        hr__account_add(a, block_bytes(*c), 1);
        return p;
    }
    *fresh = true;
    hr__account_add(a, block_bytes(*c), 1);
    if (!(p = block_map(*c)))
        hr__account_add(a, -block_bytes(*c), -1);
    return p;
}

static void block_free(hr_account *a, void *p, int c)
{
    hr__account_add(a, -block_bytes(c), -1);
    pool_put(p, c);
}

/* --------------------------------------------------------------------------------------------------------- buffers */

/* No buffer is larger than the machine's memory: a length that lies is refused before the kernel overcommits. */
static int64_t most_bytes(void)
{
    static _Atomic int64_t most;
    int64_t n = atomic_load_explicit(&most, memory_order_relaxed);

    if (!n) {
        n = HR_MIN(hr__memory_physical(), class_bytes(N_CLASSES - 1));
        atomic_store(&most, n);
    }
    return n;
}

static hr_buffer *head_new(hr_account *a, size_t more, int kind)
{
    hr_buffer *b = hr__alloc(a, sizeof *b + more);

    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    atomic_init(&b->refs, 1);
    b->kind = (uint8_t)kind;
    b->account = a;
    return b;
}

static hr_buffer *inline_new(hr_account *a, int64_t n)
{
    int64_t cap = HR_ROUND_UP(HR_MAX(n, 1), 64);
    hr_buffer *b = head_new(a, 63 + (size_t)cap + HR_SLACK, HR_BUFFER_INLINE);
    uintptr_t at;

    if (!b)
        return NULL;
    at = (uintptr_t)(b + 1);
    b->data = (uint8_t *)(b + 1) + (HR_ROUND_UP(at, 64) - at);
    b->capacity = cap;
    memset(b->data + n, 0, HR_SLACK);
    return b;
}

static hr_buffer *pooled_new(hr_account *a, int64_t n)
{
    hr_buffer *b = head_new(a, 0, HR_BUFFER_POOLED);
    bool fresh;
    int c;

    if (!b)
        return NULL;
    if (!(b->data = block_new(a, n, &c, &fresh))) {
        hr__free(b);
        return NULL;
    }
    b->capacity = class_bytes(c);
    if (!fresh)
        memset(b->data + n, 0, HR_SLACK);
    return b;
}

hr_status hr__buffer_new(const hr_mem *mem, int64_t n_bytes, hr_buffer **out, hr_error *err)
{
    hr_account *a = mem ? mem->account : NULL;
    hr_buffer *b = NULL;

    *out = NULL;
    if (n_bytes >= 0 && n_bytes <= most_bytes()) {
        if (mem && mem->arena)
            return hr__arena_buffer(mem->arena, n_bytes, out, err);
        b = n_bytes < (int64_t)1 << CLASS_0_LOG ? inline_new(a, n_bytes) : pooled_new(a, n_bytes);
    }
    if (!b)
        return hr__error_memory(err, "buffer", n_bytes);
    b->n_bytes = n_bytes;
    *out = b;
    return HR_OK;
}

hr_status hr__buffer_copy(const hr_mem *mem, const void *data, int64_t n_bytes, hr_buffer **out, hr_error *err)
{
    HR_TRY(hr__buffer_new(mem, n_bytes, out, err));
    if (n_bytes)
        memcpy((*out)->data, data, (size_t)n_bytes);
    return HR_OK;
}

hr_status hr__buffer_wrap(const void *data, int64_t n_bytes, void (*release)(void *), void *owner, hr_buffer **out,
                          hr_error *err)
{
    hr_buffer *b = head_new(NULL, 0, HR_BUFFER_WRAP);

    *out = b;
    if (!b)
        return hr__error_memory(err, "buffer", sizeof *b);
    b->data = (uint8_t *)(uintptr_t)data;
    b->n_bytes = b->capacity = n_bytes;
    b->release = release;
    b->owner = owner;
    return HR_OK;
}

hr_status hr__buffer_slice(hr_buffer *b, int64_t begin, int64_t n, hr_buffer **out, hr_error *err)
{
    hr_buffer *s;

    *out = NULL;
    if (begin < 0 || n < 0 || begin > b->n_bytes || n > b->n_bytes - begin)
        return hr_error_set(err, HR_INVALID, "buffer: bytes %lld and %lld more of %lld", (long long)begin, (long long)n,
                            (long long)b->n_bytes);
    if (!(s = head_new(b->account, 0, HR_BUFFER_SLICE)))
        return hr__error_memory(err, "buffer", sizeof *s);
    s->data = n ? b->data + begin : b->data; /* data may be NULL in foreign buffers of no bytes */
    s->n_bytes = s->capacity = n;
    s->owner = hr__buffer_ref(b->kind == HR_BUFFER_SLICE ? b->owner : b);
    *out = s;
    return HR_OK;
}

hr_buffer *hr__buffer_ref(hr_buffer *b)
{
    if (b)
        atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
    return b;
}

static void buffer_free(hr_buffer *b)
{
    if (b->kind == HR_BUFFER_ARENA || b->kind == HR_BUFFER_PEER) {
        hr__arena_buffer_free(b);
        return;
    }
    if (b->kind == HR_BUFFER_POOLED)
        block_free(b->account, b->data, class_of(b->capacity));
    else if (b->kind == HR_BUFFER_SLICE)
        hr__buffer_unref(b->owner);
    else if (b->kind == HR_BUFFER_WRAP && b->release)
        b->release(b->owner);
    hr__free(b);
}

void hr__buffer_unref(hr_buffer *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        buffer_free(b);
}

/* Moves b's bytes into a free block of class c, or cuts its map where such a block would end. Needs no memory, cannot fail.
 * The copy is preferred: the large block goes back warm, to whoever asks for as much next. */
static void pooled_shrink(hr_buffer *b, int c)
{
    int was = class_of(b->capacity), to = c;
    uint8_t *p = pool_take(&to);

    if (p) {
        memcpy(p, b->data, (size_t)b->n_bytes);
        hr__account_add(b->account, block_bytes(to) - block_bytes(was), 0);
        pool_put(b->data, was);
        b->data = p;
    } else {
        hr__unmap(b->data + block_bytes(c), (size_t)(block_bytes(was) - block_bytes(c)));
        hr__account_add(b->account, block_bytes(c) - block_bytes(was), 0);
    }
    b->capacity = class_bytes(to);
}

void hr__buffer_shrink(hr_buffer *b, int64_t n_bytes)
{
    b->n_bytes = n_bytes;
    if (b->kind == HR_BUFFER_WRAP || b->kind == HR_BUFFER_SLICE)
        return; /* what follows is not ours */
    if (b->kind == HR_BUFFER_ARENA)
        hr__arena_buffer_shrink(b, n_bytes);
    if (b->kind == HR_BUFFER_POOLED && class_bytes(class_of(n_bytes)) <= b->capacity / 2)
        pooled_shrink(b, class_of(n_bytes));
    memset(b->data + n_bytes, 0, HR_SLACK);
}

bool hr__buffer_sole(const hr_buffer *b)
{
    if (atomic_load_explicit(&b->refs, memory_order_acquire) != 1)
        return false;
    if (b->kind == HR_BUFFER_SLICE)
        return hr__buffer_sole(b->owner);
    return b->kind == HR_BUFFER_INLINE || b->kind == HR_BUFFER_POOLED || b->kind == HR_BUFFER_ARENA;
}

/* --------------------------------------------------------------------------------------------------------- growing */

hr_status hr__growbuf_reserve(hr_growbuf *g, int64_t n_more, hr_error *err)
{
    int64_t used = g->buffer ? g->buffer->n_bytes : 0, cap = g->buffer ? g->buffer->capacity : 0;
    hr_buffer *b = NULL;

    if (n_more <= cap - used && g->buffer)
        return HR_OK;
    if (n_more > INT64_MAX - used)
        return hr__error_memory(err, "buffer", n_more);
    HR_TRY(hr__buffer_new(g->mem, HR_MAX(used + n_more, HR_MIN(cap * 2, most_bytes())), &b, err));
    b->n_bytes = used;
    if (used)
        memcpy(b->data, g->buffer->data, (size_t)used);
    hr__buffer_unref(g->buffer);
    g->buffer = b;
    return HR_OK;
}

hr_status hr__growbuf_add(hr_growbuf *g, const void *data, int64_t n, hr_error *err)
{
    HR_TRY(hr__growbuf_reserve(g, n, err));
    if (n)
        memcpy(g->buffer->data + g->buffer->n_bytes, data, (size_t)n);
    g->buffer->n_bytes += n;
    return HR_OK;
}

hr_status hr__growbuf_finish(hr_growbuf *g, hr_buffer **out, hr_error *err)
{
    *out = NULL;
    HR_TRY(hr__growbuf_reserve(g, 0, err));
    hr__buffer_shrink(g->buffer, g->buffer->n_bytes);
    *out = g->buffer;
    g->buffer = NULL;
    return HR_OK;
}

void hr__growbuf_clear(hr_growbuf *g)
{
    hr__buffer_unref(g->buffer);
    g->buffer = NULL;
}

/* ------------------------------------------------------------------------------------------------------------ bits
 *
 * Words of 64 bits in the middle, single bits or bytes at the ends. No byte outside [begin, begin + n) is read or changed:
 * bitmaps end where foreign memory ends. */

static void store_le(uint8_t *p, uint64_t w)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    w = __builtin_bswap64(w);
#endif
    memcpy(p, &w, 8);
}

/* Up to 8 bits from any bit on, in the low bits; touches the second byte only if they reach it. */
static unsigned few_bits(const uint8_t *bits, int64_t at, int n)
{
    const uint8_t *p = bits + (at >> 3);
    int shift = (int)(at & 7);
    unsigned v = p[0];

    if (shift + n > 8)
        v |= (unsigned)p[1] << 8;
    return v >> shift & ((1u << n) - 1);
}

/* Stores the low n <= 8 - (at & 7) bits of v. */
static void put_few_bits(uint8_t *bits, int64_t at, int n, unsigned v)
{
    uint8_t *p = bits + (at >> 3);
    unsigned mask = ((1u << n) - 1) << (at & 7);

    *p = (uint8_t)((*p & ~mask) | (v << (at & 7) & mask));
}

#if defined(__x86_64__)
__attribute__((target("popcnt"))) static int64_t count_words_popcnt(const uint8_t *p, int64_t n_words)
{
    int64_t n = 0;

    for (int64_t i = 0; i < n_words; i++)
        n += __builtin_popcountll(hr__load_le64(p + i * 8));
    return n;
}
#endif

static int64_t count_words_scalar(const uint8_t *p, int64_t n_words)
{
    int64_t n = 0;

    for (int64_t i = 0; i < n_words; i++)
        n += __builtin_popcountll(hr__load_le64(p + i * 8));
    return n;
}

static int64_t count_words(const uint8_t *p, int64_t n_words)
{
#if defined(__x86_64__)
    if (hr__cpu_features() & HR_CPU_SSE42) /* which came after popcnt */
        return count_words_popcnt(p, n_words);
#endif
    return count_words_scalar(p, n_words);
}

int64_t hr__bits_count(const uint8_t *bits, int64_t begin, int64_t n)
{
    int64_t ones = 0, words;

    if (n > 0 && (begin & 7)) {
        int head = (int)HR_MIN(n, 8 - (begin & 7));
        ones += __builtin_popcount(few_bits(bits, begin, head));
        begin += head;
        n -= head;
    }
    if ((words = n / 64) > 0)
        ones += count_words(bits + (begin >> 3), words);
    for (begin += words * 64, n -= words * 64; n > 0; begin += 8, n -= 8)
        ones += __builtin_popcount(few_bits(bits, begin, (int)HR_MIN(n, 8)));
    return ones;
}

/* Whole words to a byte boundary; -> bits done. A shifted word reads a ninth byte, which holds bits that are wanted. */
static int64_t copy_words(uint8_t *to, const uint8_t *from, int shift, int64_t n)
{
    int64_t words = n / 64;

    if (!shift) {
        memcpy(to, from, (size_t)(n / 8));
        return n / 8 * 8;
    }
    for (int64_t i = 0; i < words; i++)
        store_le(to + i * 8, hr__load_le64(from + i * 8) >> shift | (uint64_t)from[i * 8 + 8] << (64 - shift));
    return words * 64;
}

void hr__bits_copy(uint8_t *to, int64_t to_bit, const uint8_t *from, int64_t from_bit, int64_t n)
{
    int64_t done;

    if (n > 0 && (to_bit & 7)) {
        int head = (int)HR_MIN(n, 8 - (to_bit & 7));
        put_few_bits(to, to_bit, head, few_bits(from, from_bit, head));
        to_bit += head;
        from_bit += head;
        n -= head;
    }
    if (n <= 0)
        return;
    done = copy_words(to + (to_bit >> 3), from + (from_bit >> 3), (int)(from_bit & 7), n);
    for (to_bit += done, from_bit += done, n -= done; n > 0; to_bit += 8, from_bit += 8, n -= 8) {
        int some = (int)HR_MIN(n, 8);
        put_few_bits(to, to_bit, some, few_bits(from, from_bit, some));
    }
}

void hr__bits_fill(uint8_t *to, int64_t to_bit, int64_t n, bool value)
{
    if (n > 0 && (to_bit & 7)) {
        int head = (int)HR_MIN(n, 8 - (to_bit & 7));
        put_few_bits(to, to_bit, head, value ? 0xFF : 0);
        to_bit += head;
        n -= head;
    }
    if (n <= 0)
        return;
    memset(to + (to_bit >> 3), value ? 0xFF : 0, (size_t)(n / 8));
    if (n & 7)
        put_few_bits(to, to_bit + (n & ~(int64_t)7), (int)(n & 7), value ? 0xFF : 0);
}
