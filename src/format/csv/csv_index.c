/* csv_index.c - finds the ends of fields and rows: the automaton of quotes, and kernels that do the same 64 bytes at a
 * time.
 *
 * Tests: test_csv.c. */
#include "format/csv/csv.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define HAVE_NEON 1
#include <arm_neon.h>
#endif

/* ---------------------------------------------------------------------------------------------------- the automaton */

static inline csv_state walk_outside(const csv_dialect *d, uint8_t c, csv_state s, bool newline, bool *end)
{
    *end = false;
    if (newline) {
        *end = true;
        return CSV_ROW;
    }
    if (s == CSV_ROW && d->comment && c == d->comment)
        return CSV_COMMENT;
    if (c == d->delimiter) {
        *end = true;
        return CSV_BEGIN;
    }
    if (d->escape && c == d->escape)
        return CSV_ESCAPED;
    if (d->quote && c == d->quote) {
        if (s == CSV_BEGIN || s == CSV_ROW || (s == CSV_CLOSED && d->double_quote))
            return CSV_QUOTED;
    }
    return CSV_UNQUOTED;
}

uint64_t hr__csv_walk(const csv_dialect *d, const uint8_t *p, int64_t n, csv_state *state, uint64_t *newlines)
{
    csv_state s = *state;
    uint64_t ends = 0;
    bool end;

    *newlines = 0;
    for (int i = 0; i < n; i++) {
        uint8_t c = p[i];
        bool newline = c == '\n' || (c == '\r' && p[i + 1] != '\n');

        switch (s) {
        case CSV_QUOTED:
            if (d->escape && c == d->escape)
                s = CSV_ESCAPED_QUOTED;
            else if (c == d->quote)
                s = CSV_CLOSED;
            break;
        case CSV_ESCAPED_QUOTED: s = CSV_QUOTED; break;
        case CSV_ESCAPED: s = CSV_UNQUOTED; break;
        case CSV_COMMENT:
            if (newline) {
                ends |= (uint64_t)1 << i;
                *newlines |= (uint64_t)1 << i;
                s = CSV_ROW;
            }
            break;
        default:
            s = walk_outside(d, c, s, newline, &end);
            ends |= (uint64_t)end << i;
            *newlines |= (uint64_t)(end && newline) << i;
        }
    }
    *state = s;
    return ends;
}

/* -------------------------------------------------------------------------------------------- shared by the kernels */

typedef struct csv_masks {
    uint64_t quotes, delimiters, newlines, returns;
} csv_masks;

/* The positions of the set bits; each step writes eight, even if there are fewer. */
static inline uint32_t *take_bits(uint32_t *to, uint32_t at, uint64_t bits)
{
    int n = __builtin_popcountll(bits);
    uint32_t *end = to + n;

    for (; n > 0; n -= 8, to += 8) {
        for (int i = 0; i < 8; i++) {
            to[i] = at + (uint32_t)__builtin_ctzll(bits | (uint64_t)1 << 63);
            bits &= bits - 1;
        }
    }
    return end;
}

/* Newlines are few: nearly always at most two. */
static inline void take_newlines(csv_ends *out, uint32_t at, uint64_t newlines)
{
    uint32_t *to = out->newlines + out->n_newlines;
    int n = __builtin_popcountll(newlines);

    to[0] = at + (uint32_t)__builtin_ctzll(newlines | (uint64_t)1 << 63);
    newlines &= newlines - 1;
    to[1] = at + (uint32_t)__builtin_ctzll(newlines | (uint64_t)1 << 63);
    if (n > 2)
        take_bits(to + 2, at, newlines & (newlines - 1));
    out->n_newlines += n;
}

static inline void take_ends(csv_ends *out, uint32_t at, uint64_t ends, uint64_t newlines)
{
    out->n = take_bits(out->items + out->n, at, ends) - out->items;
    take_newlines(out, at, newlines);
}

static inline uint64_t between_by_shifts(uint64_t q)
{
    for (int k = 1; k < 64; k *= 2)
        q ^= q << k;
    return q;
}

/* ----------------------------------------------------------------------------------------------------------- scalar */

/* The bytes of a word that equal c, as eight bits. */
static inline uint64_t equal_bytes(uint64_t word, uint8_t c)
{
    uint64_t x = word ^ 0x0101010101010101 * c;

    x = ~(((x & 0x7F7F7F7F7F7F7F7F) + 0x7F7F7F7F7F7F7F7F) | x | 0x7F7F7F7F7F7F7F7F); /* high bits */
    x >>=
        /* gathered by shifts, so that memcheck sees that bytes after the data do not affect bytes before them */
        7;
    x = (x | x >> 7) & 0x0003000300030003;
    x = (x | x >> 14) & 0x0000000F0000000F;
    return (x | x >> 28) & 0xFF;
}

static inline csv_masks masks_scalar(const csv_dialect *d, const uint8_t *p)
{
    csv_masks m = { 0 };

    for (int i = 0; i < 8; i++) {
        uint64_t word;

        memcpy(&word, p + i * 8, 8);
        m.quotes |= equal_bytes(word, d->quote) << i * 8;
        m.delimiters |= equal_bytes(word, d->delimiter) << i * 8;
        m.newlines |= equal_bytes(word, '\n') << i * 8;
        m.returns |= equal_bytes(word, '\r') << i * 8;
    }
    if (!d->quote)
        m.quotes = 0;
    return m;
}

static inline uint64_t between_scalar(uint64_t q) { return q ? between_by_shifts(q) : 0; }

#define take_scalar take_ends

#define KERNEL(name) name##_scalar
#define TARGET
#include "format/csv/csv_kernel.h"
#undef KERNEL
#undef TARGET

/* ---------------------------------------------------------------------------------------------------- AVX2, AVX-512 */

#ifdef HAVE_X86
#define TARGET __attribute__((target("avx2,pclmul,bmi,bmi2,popcnt")))
#define KERNEL(name) name##_avx2

TARGET static inline uint64_t equal_avx2(__m256i low, __m256i high, uint8_t c)
{
    __m256i all = _mm256_set1_epi8((char)c);

    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, all)) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, all)) << 32;
}

TARGET static inline csv_masks masks_avx2(const csv_dialect *d, const uint8_t *p)
{
    __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)p);
    __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    csv_masks m = { d->quote ? equal_avx2(low, high, d->quote) : 0, equal_avx2(low, high, d->delimiter),
                    equal_avx2(low, high, '\n'), equal_avx2(low, high, '\r') };

    return m;
}

TARGET static inline uint64_t between_avx2(uint64_t q)
{
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)q), _mm_set1_epi8((char)0xFF), 0));
}

#define take_avx2 take_ends

#include "format/csv/csv_kernel.h"
#undef KERNEL
#undef TARGET

#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,pclmul,bmi,bmi2,popcnt")))
#define KERNEL(name) name##_avx512

TARGET static inline csv_masks masks_avx512(const csv_dialect *d, const uint8_t *p)
{
    __m512i v = _mm512_loadu_si512(p);
    csv_masks m = { d->quote ? _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)d->quote)) : 0,
                    _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8((char)d->delimiter)),
                    _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\n')),
                    _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8('\r')) };

    return m;
}

TARGET static inline uint64_t between_avx512(uint64_t q)
{
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)q), _mm_set1_epi8((char)0xFF), 0));
}

TARGET static inline void take_avx512(csv_ends *out, uint32_t at, uint64_t ends, uint64_t newlines)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    uint32_t *to = out->items + out->n;
    __m512i places = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)at));

    for (int i = 0; i < 4; i++, ends >>= 16) {
        _mm512_storeu_si512(to, _mm512_maskz_compress_epi32((__mmask16)ends, places));
        to += __builtin_popcountll(ends & 0xFFFF);
        places = _mm512_add_epi32(places, _mm512_set1_epi32(16));
    }
    out->n = to - out->items;
    take_newlines(out, at, newlines);
}

#include "format/csv/csv_kernel.h"
#undef KERNEL
#undef TARGET
#endif

/* ------------------------------------------------------------------------------------------------------------- NEON */

#ifdef HAVE_NEON
#define TARGET
#define KERNEL(name) name##_neon

static inline uint64_t equal_neon(const uint8x16_t v[4], uint8_t c)
{
    static const uint8_t bits[16] = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    uint8x16_t bit = vld1q_u8(bits), all = vdupq_n_u8(c), low, high;

    low = vpaddq_u8(vandq_u8(vceqq_u8(v[0], all), bit), vandq_u8(vceqq_u8(v[1], all), bit));
    high = vpaddq_u8(vandq_u8(vceqq_u8(v[2], all), bit), vandq_u8(vceqq_u8(v[3], all), bit));
    low = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(low, low)), 0);
}

static inline csv_masks masks_neon(const csv_dialect *d, const uint8_t *p)
{
    uint8x16_t v[4] = { vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48) };
    csv_masks m = { d->quote ? equal_neon(v, d->quote) : 0, equal_neon(v, d->delimiter), equal_neon(v, '\n'),
                    equal_neon(v, '\r') };

    return m;
}

static inline uint64_t between_neon(uint64_t q) { return q ? between_by_shifts(q) : 0; }

#define take_neon take_ends

#include "format/csv/csv_kernel.h"
#undef KERNEL
#undef TARGET
#endif

/* ------------------------------------------------------------------------------------------------------- the choice */

static const struct {
    unsigned needs;
    void (*index)(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out);
} kernels[] = { /* the first one that the CPU supports runs */
#ifdef HAVE_X86
                { HR_CPU_AVX512 | HR_CPU_PCLMUL | HR_CPU_BMI2, index_avx512 },
                { HR_CPU_AVX2 | HR_CPU_PCLMUL | HR_CPU_BMI2 | HR_CPU_SSE42, index_avx2 },
#endif
#ifdef HAVE_NEON
                { HR_CPU_NEON, index_neon },
#endif
                { 0, index_scalar }
};

static void index_walking(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out)
{
    uint64_t ends, newlines;

    for (int64_t at = 0; at < n; at += 64) {
        ends = hr__csv_walk(d, data + at, HR_MIN(n - at, 64), state, &newlines);
        if (out)
            take_ends(out, out->base + (uint32_t)at, ends, newlines);
    }
}

void hr__csv_index_by(unsigned cpu, const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state,
                      csv_ends *out)
{
    int k = 0;

    if (!d->plain) {
        index_walking(d, data, n, state, out);
        return;
    }
    while ((kernels[k].needs & cpu) != kernels[k].needs)
        k++;
    kernels[k].index(d, data, n, state, out);
}

void hr__csv_index(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state *state, csv_ends *out)
{
    hr__csv_index_by(hr__cpu_features(), d, data, n, state, out);
}
