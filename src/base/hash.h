/* hash.h - a 128-bit hash of bytes. */
#ifndef HR_HASH_H
#define HR_HASH_H

#include "base/base.h"

typedef struct hr_bits128 {
    uint64_t lo, hi;
} hr_bits128;

/* 128-bit hash of bytes, for fingerprints and keys; stable across machines and versions: MurmurHash3_x64_128 (Appleby).
 * Each add is hashed on its own: adding "ab", then "c", differs from adding "abc". Not for secrets. */
typedef struct hr_hash {
    uint64_t a, b, n;
} hr_hash;
void hr__hash_init(hr_hash *h, uint64_t seed);
void hr__hash_add(hr_hash *h, const void *data, size_t n);
/* The same; soon after *stop is true it returns, and the hash is of no use. stop NULL: never. */
void hr__hash_add_until(hr_hash *h, const void *data, size_t n, const atomic_bool *stop);
static inline bool hr__is_stopped(const atomic_bool *stop)
{
    return stop && atomic_load_explicit(stop, memory_order_relaxed);
}
void hr__hash_text(hr_hash *h, const char *s); /* with its length, so that ("ab","c") != ("a","bc"); NULL is fine */
void hr__hash_int(hr_hash *h, int64_t v);
hr_bits128 hr__hash_end(const hr_hash *h);

#endif
