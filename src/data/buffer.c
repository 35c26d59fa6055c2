/* buffer.c - counted bytes (small, large, slices, foreign), growing bytes, and bitmaps.
 *
 * A small buffer (below 64 KiB) is one hr__alloc: malloc reuses warm blocks of this size. A larger one is a struct and
 * a block of pages from the pool (pages.c). */
#include "base/pages.h"
#include "data/buffer.h"

/* --------------------------------------------------------------------------------------------------------- buffers */

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
    if (hr__fault(HR_FAULT_MEMORY) || !(b->data = hr__pages_new(a, n, &c, &fresh))) {
        hr__free(b);
        return NULL;
    }
    b->capacity = hr__pages_bytes(c);
    if (!fresh)
        memset(b->data + n, 0, HR_SLACK);
    return b;
}

hr_status hr__buffer_new(const hr_mem *mem, int64_t n_bytes, hr_buffer **out, hr_error *err)
{
    hr_account *a = mem ? mem->account : NULL;
    hr_buffer *b = NULL;

    *out = NULL;
    if (n_bytes >= 0 && n_bytes <= hr__pages_most()) {
        if (mem && mem->arena)
            return (*(const hr_buffer_class *const *)(const void *)mem->arena)->make(mem->arena, n_bytes, out, err);
        b = n_bytes < HR_PAGES_LEAST ? inline_new(a, n_bytes) : pooled_new(a, n_bytes);
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
        return hr_error_set(err, HR_INVALID, "buffer: %lld bytes from byte %lld, found %lld", (long long)begin,
                            (long long)n, (long long)b->n_bytes);
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

void hr__buffer_charge(hr_buffer *b, int64_t n_bytes)
{
    int64_t none = 0;

    if (b->kind == HR_BUFFER_SLICE)
        b = b->owner;
    if (b->kind == HR_BUFFER_WRAP && n_bytes > 0 && atomic_compare_exchange_strong(&b->charged, &none, n_bytes))
        hr__account_charge(NULL, n_bytes);
}

static void wrap_free(hr_buffer *b)
{
    int64_t charged = atomic_load_explicit(&b->charged, memory_order_relaxed);

    if (b->release)
        b->release(b->owner);
    if (charged)
        hr__account_charge(NULL, -charged);
}

static void buffer_free(hr_buffer *b)
{
    if (b->kind == HR_BUFFER_ARENA || b->kind == HR_BUFFER_PEER) {
        b->cls->free(b);
        return;
    }
    if (b->kind == HR_BUFFER_POOLED)
        hr__pages_free(b->account, b->data, hr__pages_class(b->capacity));
    else if (b->kind == HR_BUFFER_SLICE)
        hr__buffer_unref(b->owner);
    else if (b->kind == HR_BUFFER_WRAP)
        wrap_free(b);
    hr__free(b);
}

void hr__buffer_unref(hr_buffer *b)
{
    if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
        buffer_free(b);
}

/* Moves b's bytes into a free block of class c, or cuts its map where a block of class c ends. Needs no memory, cannot
 * fail. The copy comes first: it returns the large block warm to the pool. */
static void pooled_shrink(hr_buffer *b, int c)
{
    int was = hr__pages_class(b->capacity), to = c;
    uint8_t *p = hr__pages_take(&to);

    if (p) {
        memcpy(p, b->data, (size_t)b->n_bytes);
        hr__account_add(b->account, hr__pages_charged(to) - hr__pages_charged(was), 0);
        hr__pages_put(b->data, was);
        b->data = p;
    } else {
        hr__unmap(b->data + hr__pages_charged(c), (size_t)(hr__pages_charged(was) - hr__pages_charged(c)));
        hr__account_add(b->account, hr__pages_charged(c) - hr__pages_charged(was), 0);
    }
    b->capacity = hr__pages_bytes(to);
}

void hr__buffer_shrink(hr_buffer *b, int64_t n_bytes)
{
    b->n_bytes = n_bytes;
    if (b->kind == HR_BUFFER_WRAP || b->kind == HR_BUFFER_SLICE)
        return; /* the bytes that follow are not ours */
    if (b->kind == HR_BUFFER_ARENA)
        b->cls->shrink(b, n_bytes);
    if (b->kind == HR_BUFFER_POOLED && hr__pages_bytes(hr__pages_class(n_bytes)) <= b->capacity / 2)
        pooled_shrink(b, hr__pages_class(n_bytes));
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
    HR_TRY(hr__buffer_new(g->mem, HR_MAX(used + n_more, HR_MIN(cap * 2, hr__pages_most())), &b, err));
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
 * Words of 64 bits in the middle, single bits or bytes at the ends. The functions touch no byte outside [begin, begin +
 * n): a bitmap may end where foreign memory ends. */

static void store_le(uint8_t *p, uint64_t w) { memcpy(p, &w, 8); }

/* Returns up to 8 bits from any bit on, in the low bits; reads the second byte only if they reach it. */
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
    if (hr__cpu_features() & HR_CPU_SSE42) /* AVX2 came after popcnt */
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

/* Copies whole words to a byte boundary; -> the number of bits. A shifted word reads a ninth byte, which holds bits of
 * the range. */
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
