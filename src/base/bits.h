/* bits.h - little-endian words at any address, and bitmaps. */
#ifndef HR_BITS_H
#define HR_BITS_H

#include "base/base.h"

/* The code runs on little-endian machines alone: columns have Arrow's layout in memory, files and messages are
 * little-endian, and kernels read the bytes of words. Readers swap the bytes of big-endian files (npy '>f4', Arrow IPC,
 * decimals of Parquet). */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headrace runs on little-endian machines");

#define HR_SLACK 64 /* readable bytes after the end of every buffer that we allocate; data is 64-byte aligned */

/* Little-endian words at any address. */
static inline uint64_t hr__load_le64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, 8);
    return v;
}
static inline uint32_t hr__load_le32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, 4);
    return v;
}

/* bits, LSB first */
static inline bool hr__bit(const uint8_t *bits, int64_t i) { return (bits[i >> 3] >> (i & 7)) & 1; }
static inline void hr__bit_set(uint8_t *bits, int64_t i) { bits[i >> 3] |= (uint8_t)(1u << (i & 7)); }
static inline void hr__bit_clear(uint8_t *bits, int64_t i) { bits[i >> 3] &= (uint8_t)~(1u << (i & 7)); }
static inline int64_t hr__bits_bytes(int64_t n_bits) { return (n_bits + 7) / 8; }
int64_t hr__bits_count(const uint8_t *bits, int64_t begin, int64_t n); /* ones */
void hr__bits_copy(uint8_t *to, int64_t to_bit, const uint8_t *from, int64_t from_bit, int64_t n);
void hr__bits_fill(uint8_t *to, int64_t to_bit, int64_t n, bool value);

#endif
