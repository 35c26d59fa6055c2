/* hash.c - a 128-bit hash, for fingerprints, groups and joins: MurmurHash3_x64_128 by Austin Appleby (public domain).
 *
 * One add and the end give exactly the published value, but for a seed of 64 bits. There is no buffer between adds:
 * each add is hashed on its own, and its end (the total so far) is mixed in before the next. All words are read
 * little-endian. */
#include "base/all.h"

#define STOP_BYTES ((size_t)1 << 20) /* between two looks at `stop` */

static const uint64_t c1 = 0x87C37B91114253D5, c2 = 0x4CF5AD432745937F;

static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

/* n < 8 bytes as a word. */
static uint64_t load_some(const uint8_t *p, size_t n)
{
    uint64_t w = 0;

    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)p[i] << (8 * i);
    return w;
}

static uint64_t finish(uint64_t k)
{
    k = (k ^ (k >> 33)) * 0xFF51AFD7ED558CCD;
    k = (k ^ (k >> 33)) * 0xC4CEB9FE1A85EC53;
    return k ^ (k >> 33);
}

static uint64_t mix_1(uint64_t k) { return rotate(k * c1, 31) * c2; }
static uint64_t mix_2(uint64_t k) { return rotate(k * c2, 33) * c1; }

void hr__hash_init(hr_hash *h, uint64_t seed) { *h = (hr_hash){ .a = seed, .b = seed }; }

/* The published function's last step; between two parts, too. */
static void close_part(hr_hash *h)
{
    uint64_t a = h->a ^ h->n, b = h->b ^ h->n;

    a += b;
    b += a;
    a = finish(a);
    b = finish(b);
    a += b;
    h->a = a;
    h->b = b + a;
}

/* The first n bytes without the last n % 16; -> these */
static const uint8_t *add_words(hr_hash *h, const uint8_t *p, size_t n)
{
    uint64_t a = h->a, b = h->b;

    for (; n >= 16; n -= 16, p += 16) {
        a = (rotate(a ^ mix_1(hr__load_le64(p)), 27) + b) * 5 + 0x52DCE729;
        b = (rotate(b ^ mix_2(hr__load_le64(p + 8)), 31) + a) * 5 + 0x38495AB5;
    }
    h->a = a;
    h->b = b;
    return p;
}

void hr__hash_add_until(hr_hash *h, const void *data, size_t n, const atomic_bool *stop)
{
    const uint8_t *p = data;
    size_t left = n;

    if (h->n)
        close_part(h);
    for (; left > STOP_BYTES; left -= STOP_BYTES) {
        if (hr__is_stopped(stop))
            return;
        p = add_words(h, p, STOP_BYTES);
    }
    p = add_words(h, p, left);
    left %= 16;
    if (left > 8)
        h->b ^= mix_2(load_some(p + 8, left - 8));
    if (left)
        h->a ^= mix_1(left >= 8 ? hr__load_le64(p) : load_some(p, left));
    h->n += n;
}

void hr__hash_add(hr_hash *h, const void *data, size_t n) { hr__hash_add_until(h, data, n, NULL); }

void hr__hash_int(hr_hash *h, int64_t v)
{
    if (h->n)
        close_part(h);
    h->a ^= mix_1((uint64_t)v); /* as eight bytes, little-endian */
    h->n += 8;
}

void hr__hash_text(hr_hash *h, const char *s)
{
    size_t n = s ? strlen(s) : 0;

    hr__hash_int(h, s ? (int64_t)n : -1);
    if (n)
        hr__hash_add(h, s, n);
}

hr_bits128 hr__hash_end(const hr_hash *h)
{
    hr_hash end = *h;

    close_part(&end);
    return (hr_bits128){ .lo = end.a, .hi = end.b };
}
