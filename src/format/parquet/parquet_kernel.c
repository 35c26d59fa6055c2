/* parquet_kernel.c - the inner loops, and the choice between their forms.
 *
 * Measurements decide which form a table has; each table has notes. Three ideas recur:
 * - Unpacking: a shuffle brings the bytes that each value lies in into its lane, a shift by lanes and a mask do the
 *   rest. Controls depend on the width alone and are made once a call.
 * - Spreading: going backwards, the next values are loaded whole and moved apart by a permutation that follows from 8
 *   or 16 bits of the bitmap.
 * - Splitting and joining streams of bytes: zipping the two halves of a sequence of 2^b bytes turns the bits of each
 *   byte's number left by one place. A value's number and a byte's place in it are such bits: 16 values of w bytes are
 *   joined by log2(w) such steps, and split by four. */
#include "format/parquet/parquet_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_X86 1
#include <immintrin.h>
#define SSE42 __attribute__((target("sse4.2,popcnt")))
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,bmi,bmi2,popcnt")))
#elif defined(__aarch64__)
#define HAVE_NEON 1
#include <arm_neon.h>
#endif
#define INLINE inline __attribute__((always_inline))

/* 64 bits from any bit on; touches the ninth byte only if they reach it. */
static INLINE uint64_t bits64(const uint8_t *bits, int64_t at)
{
    const uint8_t *p = bits + (at >> 3);
    int shift = (int)(at & 7);

    return shift ? hr__load_le64(p) >> shift | (uint64_t)p[8] << (64 - shift) : hr__load_le64(p);
}

/* ----------------------------------------------------------------------------------------------------------- scalar */

/* 8 values are `w` bytes: with w known to the compiler, shifts and offsets are constants. */
static INLINE void unpack8_u32(const uint8_t *p, uint32_t *out, const int w)
{
    const uint64_t mask = (1ull << w) - 1;

    for (int j = 0; j < 8; j++)
        out[j] = (uint32_t)(hr__load_le64(p + (j * w >> 3)) >> (j * w & 7) & mask);
}

static INLINE void unpack8_u8(const uint8_t *p, uint8_t *out, const int w)
{
    const uint64_t v = hr__load_le64(p), mask = (1ull << w) - 1;

    for (int j = 0; j < 8; j++)
        out[j] = (uint8_t)(v >> (j * w) & mask);
}

/* Beyond 57 bits a value can lie in nine bytes. */
static INLINE void unpack8_u64(const uint8_t *p, uint64_t *out, const int w)
{
    const uint64_t mask = w == 64 ? ~0ull : (1ull << w) - 1;

    for (int j = 0; j < 8; j++) {
        uint64_t v = hr__load_le64(p + (j * w >> 3)) >> (j * w & 7);

        if (w + (j * w & 7) > 64)
            v |= (uint64_t)p[(j * w >> 3) + 8] << (64 - (j * w & 7));
        out[j] = v & mask;
    }
}

/* clang-format off */
#define EACH_8(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define EACH_32(X) EACH_8(X) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19) X(20) X(21) \
    X(22) X(23) X(24) \
    X(25) X(26) X(27) X(28) X(29) X(30) X(31) X(32)
#define EACH_64(X) EACH_32(X) X(33) X(34) X(35) X(36) X(37) X(38) X(39) X(40) X(41) X(42) X(43) X(44) X(45) \
    X(46) X(47) \
    X(48) X(49) X(50) X(51) X(52) X(53) X(54) X(55) X(56) X(57) X(58) X(59) X(60) X(61) X(62) X(63) X(64)
/* clang-format on */

#define UNPACK(name, type, each, unpack8)                                                                              \
    static void name(const uint8_t *in, int width, type *out, int64_t n_groups)                                        \
    {                                                                                                                  \
        if (width == 0)                                                                                                \
            memset(out, 0, (size_t)n_groups * 8 * sizeof *out);                                                        \
        switch (width) {                                                                                               \
            each(unpack8)                                                                                              \
        }                                                                                                              \
    }
#define CASE(w, unpack8)                                                                                               \
    case w:                                                                                                            \
        for (int64_t i = 0; i < n_groups; i++)                                                                         \
            unpack8(in + i * w, out + i * 8, w);                                                                       \
        break;
#define CASE_U8(w) CASE(w, unpack8_u8)
#define CASE_U32(w) CASE(w, unpack8_u32)
#define CASE_U64(w) CASE(w, unpack8_u64)
#define EACH_U8(f) EACH_8(CASE_U8)
#define EACH_U32(f) EACH_32(CASE_U32)
#define EACH_U64(f) EACH_64(CASE_U64)
UNPACK(unpack_u8_scalar, uint8_t, EACH_U8, )
UNPACK(unpack_u32_scalar, uint32_t, EACH_U32, )
UNPACK(unpack_u64_scalar, uint64_t, EACH_U64, )

/* Whether all indices are below n_dict < 2^31: neither an index nor n_dict - 1 - index has its highest bit set. */
bool pq__indices_fit(const uint32_t *index, int64_t n, int64_t n_dict)
{
    uint32_t most = (uint32_t)n_dict - 1, wrong = n_dict > 0 || n == 0 ? 0 : ~0u;

    for (int64_t i = 0; i < n; i++)
        wrong |= (most - index[i]) | index[i];
    return !(wrong >> 31);
}

#define GATHER(name, type)                                                                                             \
    static bool name(const uint8_t *restrict dict, int64_t n_dict, const uint32_t *restrict index,                     \
                     uint8_t *restrict out, int64_t n)                                                                 \
    {                                                                                                                  \
        if (!pq__indices_fit(index, n, n_dict))                                                                        \
            return false;                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                                                \
            memcpy(out + (size_t)i * sizeof(type), dict + (size_t)index[i] * sizeof(type), sizeof(type));              \
        return true;                                                                                                   \
    }
GATHER(gather_4_scalar, uint32_t)
GATHER(gather_8_scalar, uint64_t)

/* Slots [i - count, i) with the bits of `word`, the last of them in its highest of `count`; branch-free. */
#define SPREAD_SLOTS(p, type, begin)                                                                                   \
    while (i > (begin)) {                                                                                              \
        type bit = (type)(word >> (--i - (begin)) & 1);                                                                \
        j -= (int64_t)bit;                                                                                             \
        (p)[i] = (type)((p)[j] & (type)(0 - bit));                                                                     \
    }

/* From the end, so that no value is overwritten before it moves. WORD does 64 slots of which some have values. */
#define SPREAD(name, target, type, WORD)                                                                               \
    target static void name(uint8_t *data, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at)              \
    {                                                                                                                  \
        type *p = (type *)(void *)data;                                                                                \
        int64_t i = n, j = n_values;                                                                                   \
        while (i > j) {                                                                                                \
            int64_t begin = (i - 1) & ~(int64_t)63;                                                                    \
            uint64_t word = bits64(valid, at + begin);                                                                 \
            if (i - begin < 64) {                                                                                      \
                SPREAD_SLOTS(p, type, begin)                                                                           \
            } else if (word == ~0ull) {                                                                                \
                j -= 64;                                                                                               \
                memmove(p + begin, p + j, 64 * sizeof *p);                                                             \
                i = begin;                                                                                             \
            } else if (word == 0) {                                                                                    \
                memset(p + begin, 0, 64 * sizeof *p);                                                                  \
                i = begin;                                                                                             \
            } else {                                                                                                   \
                WORD(p, type, begin)                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
SPREAD(spread_1, , uint8_t, SPREAD_SLOTS)
SPREAD(spread_2, , uint16_t, SPREAD_SLOTS)
SPREAD(spread_4_scalar, , uint32_t, SPREAD_SLOTS)
SPREAD(spread_8_scalar, , uint64_t, SPREAD_SLOTS)

static uint64_t at_least_64(const uint8_t *level, uint8_t least)
{
    uint8_t is[64];
    uint64_t word = 0;

    for (int i = 0; i < 64; i++)
        is[i] = level[i] >= least;
    for (int i = 0; i < 8; i++) /* the lowest bit of byte j becomes bit j */
        word |= (hr__load_le64(is + 8 * i) * 0x0102040810204080ull >> 56) << (8 * i);
    return word;
}

/* The levels of the last word are copied to a place with 64 readable bytes. */
#define AT_LEAST(name, target, one)                                                                                    \
    target static void name(const uint8_t *level, int64_t n, uint8_t least, uint64_t *words)                           \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + 64 <= n; i += 64)                                                                                   \
            *words++ = one(level + i, least);                                                                          \
        if (i < n) {                                                                                                   \
            uint8_t rest[64] = { 0 };                                                                                  \
            memcpy(rest, level + i, (size_t)(n - i));                                                                  \
            *words = one(rest, least) & ((1ull << (n - i)) - 1);                                                       \
        }                                                                                                              \
    }
AT_LEAST(at_least_scalar, , at_least_64)

static void join_scalar(const uint8_t *in, int64_t stride, int w, uint8_t *out, int64_t n)
{
    for (int k = 0; k < w; k++)
        for (int64_t i = 0; i < n; i++)
            out[i * w + k] = in[k * stride + i];
}

static void split_scalar(const uint8_t *in, int w, uint8_t *out, int64_t stride, int64_t n)
{
    for (int k = 0; k < w; k++)
        for (int64_t i = 0; i < n; i++)
            out[k * stride + i] = in[i * w + k];
}

/* ------------------------------------------------------------------------------------------------- zipping of bytes */

/* `width` values at a time. A register of more than 16 bytes solves several problems of 16 values side by side: it
 * loads from `lanes` places that are 16 values apart, or 16 * `lanes` bytes of one stream. */
#define ZIP_JOIN(name, target, reg, lanes, load, store_lanes, low, high)                                               \
    target static INLINE int64_t name##_of(const uint8_t *in, int64_t stride, const int w, uint8_t *out, int64_t n)    \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + 16 * (lanes) <= n; i += 16 * (lanes)) {                                                             \
            reg v[16], next[16];                                                                                       \
            for (int k = 0; k < w; k++)                                                                                \
                v[k] = load(in + k * stride + i);                                                                      \
            for (int step = 1; step < w; step *= 2) {                                                                  \
                for (int k = 0; k < w / 2; k++) {                                                                      \
                    next[2 * k] = low(v[k], v[k + w / 2]);                                                             \
                    next[2 * k + 1] = high(v[k], v[k + w / 2]);                                                        \
                }                                                                                                      \
                memcpy(v, next, (size_t)w * sizeof *v);                                                                \
            }                                                                                                          \
            for (int k = 0; k < w; k++)                                                                                \
                store_lanes(out + i * w + 16 * k, 16 * w, v[k]);                                                       \
        }                                                                                                              \
        return i;                                                                                                      \
    }                                                                                                                  \
    target static void name(const uint8_t *in, int64_t stride, int w, uint8_t *out, int64_t n)                         \
    {                                                                                                                  \
        int64_t done = 0;                                                                                              \
        switch (w) {                                                                                                   \
        case 2: done = name##_of(in, stride, 2, out, n); break;                                                        \
        case 4: done = name##_of(in, stride, 4, out, n); break;                                                        \
        case 8: done = name##_of(in, stride, 8, out, n); break;                                                        \
        case 16: done = name##_of(in, stride, 16, out, n); break;                                                      \
        default: break;                                                                                                \
        }                                                                                                              \
        join_scalar(in + done, stride, w, out + done * w, n - done);                                                   \
    }

#define ZIP_SPLIT(name, target, reg, lanes, load_lanes, store, low, high)                                              \
    target static INLINE int64_t name##_of(const uint8_t *in, const int w, uint8_t *out, int64_t stride, int64_t n)    \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + 16 * (lanes) <= n; i += 16 * (lanes)) {                                                             \
            reg v[16], next[16];                                                                                       \
            for (int k = 0; k < w; k++)                                                                                \
                v[k] = load_lanes(in + i * w + 16 * k, 16 * w);                                                        \
            for (int step = 0; step < 4; step++) {                                                                     \
                for (int k = 0; k < w / 2; k++) {                                                                      \
                    next[2 * k] = low(v[k], v[k + w / 2]);                                                             \
                    next[2 * k + 1] = high(v[k], v[k + w / 2]);                                                        \
                }                                                                                                      \
                memcpy(v, next, (size_t)w * sizeof *v);                                                                \
            }                                                                                                          \
            for (int k = 0; k < w; k++)                                                                                \
                store(out + k * stride + i, v[k]);                                                                     \
        }                                                                                                              \
        return i;                                                                                                      \
    }                                                                                                                  \
    target static void name(const uint8_t *in, int w, uint8_t *out, int64_t stride, int64_t n)                         \
    {                                                                                                                  \
        int64_t done = 0;                                                                                              \
        switch (w) {                                                                                                   \
        case 2: done = name##_of(in, 2, out, stride, n); break;                                                        \
        case 4: done = name##_of(in, 4, out, stride, n); break;                                                        \
        case 8: done = name##_of(in, 8, out, stride, n); break;                                                        \
        case 16: done = name##_of(in, 16, out, stride, n); break;                                                      \
        default: break;                                                                                                \
        }                                                                                                              \
        split_scalar(in + done * w, w, out + done, stride, n - done);                                                  \
    }

#ifdef HAVE_X86
/* ---------------------------------------------------------------------------------------------------------- SSE 4.2 */

#define LOAD_16(p) _mm_loadu_si128((const __m128i *)(const void *)(p))
#define STORE_16(p, v) _mm_storeu_si128((__m128i *)(void *)(p), (v))
#define STORE_16_APART(p, apart, v) STORE_16(p, v)
#define LOAD_16_APART(p, apart) LOAD_16(p)
ZIP_JOIN(join_sse, SSE42, __m128i, 1, LOAD_16, STORE_16_APART, _mm_unpacklo_epi8, _mm_unpackhi_epi8)
ZIP_SPLIT(split_sse, SSE42, __m128i, 1, LOAD_16_APART, STORE_16, _mm_unpacklo_epi8, _mm_unpackhi_epi8)

/* ------------------------------------------------------------------------------------------------------------- AVX2 */

#define LOAD_32(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define STORE_32(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), (v))
#define TWO(low, high) _mm256_inserti128_si256(_mm256_castsi128_si256(low), (high), 1)
#define STORE_32_APART(p, apart, v)                                                                                    \
    do {                                                                                                               \
        STORE_16((p), _mm256_castsi256_si128(v));                                                                      \
        STORE_16((p) + (apart), _mm256_extracti128_si256((v), 1));                                                     \
    } while (0)
#define LOAD_32_APART(p, apart) TWO(LOAD_16(p), LOAD_16((p) + (apart)))
ZIP_JOIN(join_avx2, AVX2, __m256i, 2, LOAD_32, STORE_32_APART, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8)
ZIP_SPLIT(split_avx2, AVX2, __m256i, 2, LOAD_32_APART, STORE_32, _mm256_unpacklo_epi8, _mm256_unpackhi_epi8)

/* The bytes that lanes of 32 bits need, which begin at bits bit[0..8) of the 16 bytes of their half. */
AVX2 static __m256i bytes_of_4(__m256i bit)
{
    __m256i first = _mm256_shuffle_epi8(_mm256_srli_epi32(bit, 3),
                                        _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0, 0, 0,
                                                         4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));

    return _mm256_add_epi8(first, _mm256_set1_epi32(0x03020100));
}

/* Up to 25 bits a value lies in four bytes, wherever it begins, and four values in 16. */
AVX2 static void unpack_u32_avx2(const uint8_t *in, int width, uint32_t *out, int64_t n_groups)
{
    const int half = width * 4; /* where value 4 begins, in bits */
    const __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3);
    const __m256i base = TWO(_mm_setzero_si128(), _mm_set1_epi32(half & 7));
    const __m256i bit = _mm256_add_epi32(_mm256_mullo_epi32(number, _mm256_set1_epi32(width)), base);
    const __m256i bytes = bytes_of_4(bit), shift = _mm256_and_si256(bit, _mm256_set1_epi32(7));
    const __m256i mask = _mm256_set1_epi32((int)((1u << (width & 31)) - 1));

    if (width > 25) {
        unpack_u32_scalar(in, width, out, n_groups);
        return;
    }
    for (int64_t i = 0; i < n_groups; i++, in += width, out += 8) {
        __m256i v = _mm256_shuffle_epi8(TWO(LOAD_16(in), LOAD_16(in + (half >> 3))), bytes);

        STORE_32(out, _mm256_and_si256(_mm256_srlv_epi32(v, shift), mask));
    }
}

/* Controls for values `first` to `first` + 3, two in each half: the bytes to take and the number of bits to shift. */
AVX2 static INLINE void pair_controls(int first, int width, __m256i *bytes, __m256i *shift)
{
    int64_t low = (int64_t)first * width & 7, high = (int64_t)(first + 2) * width & 7;
    const __m256i bit = _mm256_setr_epi64x(low, low + width, high, high + width);
    const __m256i spell = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 8, 8, 8, 8, 8, 8, 8, 8, 0, 0, 0, 0, 0, 0, 0, 0, 8, 8,
                                           8, 8, 8, 8, 8, 8);

    *bytes =
        _mm256_add_epi8(_mm256_shuffle_epi8(_mm256_srli_epi64(bit, 3), spell), _mm256_set1_epi64x(0x0706050403020100));
    *shift = _mm256_and_si256(bit, _mm256_set1_epi64x(7));
}

/* Up to 57 bits a value lies in eight bytes, wherever it begins, and two values in 16. */
AVX2 static void unpack_u64_avx2(const uint8_t *in, int width, uint64_t *out, int64_t n_groups)
{
    const __m256i mask = _mm256_set1_epi64x((long long)((1ull << (width & 63)) - 1));
    const int at[3] = { 2 * width >> 3, 4 * width >> 3, 6 * width >> 3 };
    __m256i bytes[2], shift[2];

    if (width > 57) {
        unpack_u64_scalar(in, width, out, n_groups);
        return;
    }
    pair_controls(0, width, &bytes[0], &shift[0]);
    pair_controls(4, width, &bytes[1], &shift[1]);
    for (int64_t i = 0; i < n_groups; i++, in += width, out += 8) {
        __m256i a = _mm256_shuffle_epi8(TWO(LOAD_16(in), LOAD_16(in + at[0])), bytes[0]);
        __m256i b = _mm256_shuffle_epi8(TWO(LOAD_16(in + at[1]), LOAD_16(in + at[2])), bytes[1]);

        STORE_32(out, _mm256_and_si256(_mm256_srlv_epi64(a, shift[0]), mask));
        STORE_32(out + 4, _mm256_and_si256(_mm256_srlv_epi64(b, shift[1]), mask));
    }
}

/* A lane of 16 bits holds a value wherever the value begins; a multiplication shifts the value left into the upper
 * byte. */
AVX2 static void unpack_u8_avx2(const uint8_t *in, int width, uint8_t *out, int64_t n_groups)
{
    const __m128i bit = _mm_mullo_epi16(_mm_setr_epi16(0, 1, 2, 3, 4, 5, 6, 7), _mm_set1_epi16((short)width));
    const __m128i first =
        _mm_shuffle_epi8(_mm_srli_epi16(bit, 3), _mm_setr_epi8(0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14));
    const __m128i bytes = _mm_add_epi8(first, _mm_set1_epi16(0x0100));
    const __m128i powers = _mm_setr_epi8((char)128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m128i by = _mm_slli_epi16(
        _mm_and_si128(_mm_shuffle_epi8(powers, _mm_and_si128(bit, _mm_set1_epi16(7))), _mm_set1_epi16(0xff)), 1);
    const __m256i bytes2 = TWO(bytes, bytes), by2 = TWO(by, by);
    const __m256i mask = _mm256_set1_epi16((short)((1 << width) - 1));
    int64_t i = 0;

    for (; i + 2 <= n_groups; i += 2, in += 2 * width, out += 16) {
        __m256i v = TWO(_mm_loadl_epi64((const __m128i *)(const void *)in),
                        _mm_loadl_epi64((const __m128i *)(const void *)(in + width)));

        v = _mm256_mullo_epi16(_mm256_shuffle_epi8(v, bytes2), by2);
        v = _mm256_and_si256(_mm256_srli_epi16(v, 8), mask);
        STORE_16(out, _mm_packus_epi16(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    }
    unpack_u8_scalar(in, width, out, n_groups - i);
}

AVX2 static bool gather_4_avx2(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n)
{
    const __m256i most = _mm256_set1_epi32((int)(n_dict - 1)), few = LOAD_32(dict);
    __m256i same = _mm256_set1_epi32(-1);
    int64_t i = 0;

    if (n_dict <= 0)
        return n == 0;
    if (n_dict <= 8) {
        for (; i + 8 <= n; i += 8) {
            __m256i x = LOAD_32(index + i);

            same = _mm256_and_si256(same, _mm256_cmpeq_epi32(x, _mm256_min_epu32(x, most)));
            STORE_32(out + 4 * i, _mm256_permutevar8x32_epi32(few, x));
        }
    } else {
        for (; i + 8 <= n; i += 8) {
            __m256i x = LOAD_32(index + i), fit = _mm256_min_epu32(x, most);

            same = _mm256_and_si256(same, _mm256_cmpeq_epi32(x, fit));
            STORE_32(out + 4 * i, _mm256_i32gather_epi32((const int *)(const void *)dict, fit, 4));
        }
    }
    return _mm256_movemask_epi8(same) == -1 && gather_4_scalar(dict, n_dict, index + i, out + 4 * i, n - i);
}

AVX2 static bool gather_8_avx2(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n)
{
    const __m128i most = _mm_set1_epi32((int)(n_dict - 1));
    __m128i same = _mm_set1_epi32(-1);
    int64_t i = 0;

    if (n_dict <= 0)
        return n == 0;
    for (; i + 4 <= n; i += 4) {
        __m128i x = LOAD_16(index + i), fit = _mm_min_epu32(x, most);

        same = _mm_and_si128(same, _mm_cmpeq_epi32(x, fit));
        STORE_32(out + 8 * i, _mm256_i32gather_epi64((const long long *)(const void *)dict, fit, 8));
    }
    return _mm_movemask_epi8(same) == 0xffff && gather_8_scalar(dict, n_dict, index + i, out + 8 * i, n - i);
}

/* Lane k gets item number "ones below bit k", or zero: the 8 bits become 8 bytes of all ones, and pdep puts 0, 1, 2 ...
 * into these bytes. */
AVX2 static INLINE __m256i spread_8_lanes(const uint8_t *from, uint64_t bits)
{
    uint64_t ones = _pdep_u64(bits, 0x0101010101010101u) * 255, ranks = _pdep_u64(0x0706050403020100u, ones);
    __m256i lanes = _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)ones));

    return _mm256_and_si256(
        lanes, _mm256_permutevar8x32_epi32(LOAD_32(from), _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)ranks))));
}

#define SPREAD_4_AVX2(p, type, begin)                                                                                  \
    for (int k = 56; k >= 0; k -= 8) {                                                                                 \
        j -= __builtin_popcountll(word >> k & 0xff);                                                                   \
        STORE_32((p) + (begin) + k, spread_8_lanes((const uint8_t *)((p) + j), word >> k & 0xff));                     \
    }                                                                                                                  \
    i = (begin);
/* An item of eight bytes is two lanes, which move together. */
#define SPREAD_8_AVX2(p, type, begin)                                                                                  \
    for (int k = 60; k >= 0; k -= 4) {                                                                                 \
        j -= __builtin_popcountll(word >> k & 0xf);                                                                    \
        STORE_32((p) + (begin) + k, spread_8_lanes((const uint8_t *)((p) + j), _pdep_u64(word >> k & 0xf, 0x55) * 3)); \
    }                                                                                                                  \
    i = (begin);
SPREAD(spread_4_avx2, AVX2, uint32_t, SPREAD_4_AVX2)
SPREAD(spread_8_avx2, AVX2, uint64_t, SPREAD_8_AVX2)

AVX2 static INLINE uint64_t at_least_64_avx2(const uint8_t *level, uint8_t least)
{
    const __m256i x = _mm256_set1_epi8((char)least);
    __m256i a = LOAD_32(level), b = LOAD_32(level + 32);
    uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(a, _mm256_max_epu8(a, x)));
    uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(b, _mm256_max_epu8(b, x)));

    return low | (uint64_t)high << 32;
}
AT_LEAST(at_least_avx2, AVX2, at_least_64_avx2)

/* ---------------------------------------------------------------------------------------------------------- AVX-512 */

#define LOAD_64(p) _mm512_loadu_si512((const void *)(p))
#define STORE_64(p, v) _mm512_storeu_si512((void *)(p), (v))

AVX512 static bool gather_4_avx512(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n)
{
    const __m512i most = _mm512_set1_epi32((int)(n_dict - 1));
    __mmask16 wrong = 0;
    int64_t i = 0;

    if (n_dict <= 0 || n_dict > 32)
        return gather_4_avx2(dict, n_dict, index, out, n);

    __mmask16 has_low = (__mmask16)(n_dict >= 16 ? 0xffff : (1 << n_dict) - 1);
    __mmask16 has_high = (__mmask16)(n_dict <= 16 ? 0 : n_dict == 32 ? 0xffff : (1 << (n_dict - 16)) - 1);
    __m512i low = _mm512_maskz_loadu_epi32(has_low, dict), high = _mm512_maskz_loadu_epi32(has_high, dict + 64);

    for (; i + 16 <= n; i += 16) {
        __m512i x = LOAD_64(index + i);

        wrong |= _mm512_cmpgt_epu32_mask(x, most);
        STORE_64(out + 4 * i, _mm512_permutex2var_epi32(low, x, high));
    }
    return !wrong && gather_4_scalar(dict, n_dict, index + i, out + 4 * i, n - i);
}

AVX512 static bool gather_8_avx512(const uint8_t *dict, int64_t n_dict, const uint32_t *index, uint8_t *out, int64_t n)
{
    const __m256i most = _mm256_set1_epi32((int)(n_dict - 1));
    __mmask8 wrong = 0;
    int64_t i = 0;

    if (n_dict <= 0 || n_dict > 16)
        return gather_8_avx2(dict, n_dict, index, out, n);

    __mmask8 has_low = (__mmask8)(n_dict >= 8 ? 0xff : (1 << n_dict) - 1);
    __mmask8 has_high = (__mmask8)(n_dict <= 8 ? 0 : n_dict == 16 ? 0xff : (1 << (n_dict - 8)) - 1);
    __m512i low = _mm512_maskz_loadu_epi64(has_low, dict), high = _mm512_maskz_loadu_epi64(has_high, dict + 64);

    for (; i + 8 <= n; i += 8) {
        __m256i x = LOAD_32(index + i);

        wrong |= _mm256_cmpgt_epu32_mask(x, most);
        STORE_64(out + 8 * i, _mm512_permutex2var_epi64(low, _mm512_cvtepu32_epi64(x), high));
    }
    return !wrong && gather_8_scalar(dict, n_dict, index + i, out + 8 * i, n - i);
}

#define SPREAD_4_AVX512(p, type, begin)                                                                                \
    for (int k = 48; k >= 0; k -= 16) {                                                                                \
        j -= __builtin_popcountll(word >> k & 0xffff);                                                                 \
        STORE_64((p) + (begin) + k, _mm512_maskz_expand_epi32((__mmask16)(word >> k), LOAD_64((p) + j)));              \
    }                                                                                                                  \
    i = (begin);
#define SPREAD_8_AVX512(p, type, begin)                                                                                \
    for (int k = 56; k >= 0; k -= 8) {                                                                                 \
        j -= __builtin_popcountll(word >> k & 0xff);                                                                   \
        STORE_64((p) + (begin) + k, _mm512_maskz_expand_epi64((__mmask8)(word >> k), LOAD_64((p) + j)));               \
    }                                                                                                                  \
    i = (begin);
SPREAD(spread_4_avx512, AVX512, uint32_t, SPREAD_4_AVX512)
SPREAD(spread_8_avx512, AVX512, uint64_t, SPREAD_8_AVX512)
#endif

#ifdef HAVE_NEON
/* ------------------------------------------------------------------------------------------------------------- NEON */

#define STORE_NEON_APART(p, apart, v) vst1q_u8((p), (v))
#define LOAD_NEON_APART(p, apart) vld1q_u8(p)
ZIP_JOIN(join_neon, , uint8x16_t, 1, vld1q_u8, STORE_NEON_APART, vzip1q_u8, vzip2q_u8)
ZIP_SPLIT(split_neon, , uint8x16_t, 1, LOAD_NEON_APART, vst1q_u8, vzip1q_u8, vzip2q_u8)

/* As with AVX2, one half at a time: a table look-up instead of a shuffle; a shift by a negative number shifts right. */
static void unpack_u32_neon(const uint8_t *in, int width, uint32_t *out, int64_t n_groups)
{
    const uint32x4_t mask = vdupq_n_u32((1u << (width & 31)) - 1);
    uint8_t bytes[2][16];
    int32_t shift[2][4];

    if (width > 25) {
        unpack_u32_scalar(in, width, out, n_groups);
        return;
    }
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++) {
            int bit = k * width + (h * 4 * width & 7);

            shift[h][k] = -(bit & 7);
            for (int b = 0; b < 4; b++)
                bytes[h][4 * k + b] = (uint8_t)((bit >> 3) + b);
        }
    uint8x16_t low = vld1q_u8(bytes[0]), high = vld1q_u8(bytes[1]);
    int32x4_t by_low = vld1q_s32(shift[0]), by_high = vld1q_s32(shift[1]);

    for (int64_t i = 0; i < n_groups; i++, in += width, out += 8) {
        uint32x4_t a = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(in), low));
        uint32x4_t b = vreinterpretq_u32_u8(vqtbl1q_u8(vld1q_u8(in + (4 * width >> 3)), high));

        vst1q_u32(out, vandq_u32(vshlq_u32(a, by_low), mask));
        vst1q_u32(out + 4, vandq_u32(vshlq_u32(b, by_high), mask));
    }
}

static void unpack_u64_neon(const uint8_t *in, int width, uint64_t *out, int64_t n_groups)
{
    const uint64x2_t mask = vdupq_n_u64((1ull << (width & 63)) - 1);
    uint8x16_t bytes[4];
    int64x2_t by[4];

    if (width > 57) {
        unpack_u64_scalar(in, width, out, n_groups);
        return;
    }
    for (int h = 0; h < 4; h++) {
        int bit = 2 * h * width & 7;
        uint8_t which[16];

        for (int b = 0; b < 8; b++) {
            which[b] = (uint8_t)(b);
            which[8 + b] = (uint8_t)(((bit + width) >> 3) + b);
        }
        bytes[h] = vld1q_u8(which);
        by[h] = (int64x2_t){ -(int64_t)bit, -(int64_t)((bit + width) & 7) };
    }
    for (int64_t i = 0; i < n_groups; i++, in += width, out += 8)
        for (int h = 0; h < 4; h++) {
            uint8x16_t v = vqtbl1q_u8(vld1q_u8(in + (2 * h * width >> 3)), bytes[h]);

            vst1q_u64(out + 2 * h, vandq_u64(vshlq_u64(vreinterpretq_u64_u8(v), by[h]), mask));
        }
}

static void unpack_u8_neon(const uint8_t *in, int width, uint8_t *out, int64_t n_groups)
{
    const uint16x8_t mask = vdupq_n_u16((uint16_t)((1u << width) - 1));
    uint8_t which[16];
    int16_t shift[8];

    for (int k = 0; k < 8; k++) {
        which[2 * k] = (uint8_t)(k * width >> 3);
        which[2 * k + 1] = (uint8_t)((k * width >> 3) + 1);
        shift[k] = (int16_t)-(k * width & 7);
    }
    uint8x16_t bytes = vld1q_u8(which);
    int16x8_t by = vld1q_s16(shift);

    for (int64_t i = 0; i < n_groups; i++, in += width, out += 8) {
        uint16x8_t v = vreinterpretq_u16_u8(vqtbl1q_u8(vld1q_u8(in), bytes));

        vst1_u8(out, vmovn_u16(vandq_u16(vshlq_u16(v, by), mask)));
    }
}

/* The bytes of four items that the four lanes get; 255: zero. */
#define NONE 255, 255, 255, 255
#define ITEM(k) 4 * (k), 4 * (k) + 1, 4 * (k) + 2, 4 * (k) + 3
static const uint8_t lanes_of[16][16] = {
    { NONE, NONE, NONE, NONE },          { ITEM(0), NONE, NONE, NONE },
    { NONE, ITEM(0), NONE, NONE },       { ITEM(0), ITEM(1), NONE, NONE },
    { NONE, NONE, ITEM(0), NONE },       { ITEM(0), NONE, ITEM(1), NONE },
    { NONE, ITEM(0), ITEM(1), NONE },    { ITEM(0), ITEM(1), ITEM(2), NONE },
    { NONE, NONE, NONE, ITEM(0) },       { ITEM(0), NONE, NONE, ITEM(1) },
    { NONE, ITEM(0), NONE, ITEM(1) },    { ITEM(0), ITEM(1), NONE, ITEM(2) },
    { NONE, NONE, ITEM(0), ITEM(1) },    { ITEM(0), NONE, ITEM(1), ITEM(2) },
    { NONE, ITEM(0), ITEM(1), ITEM(2) }, { ITEM(0), ITEM(1), ITEM(2), ITEM(3) },
};
#define SPREAD_4_NEON(p, type, begin)                                                                                  \
    for (int k = 60; k >= 0; k -= 4) {                                                                                 \
        unsigned bits = (unsigned)(word >> k) & 15;                                                                    \
        j -= __builtin_popcount(bits);                                                                                 \
        vst1q_u8((uint8_t *)((p) + (begin) + k),                                                                       \
                 vqtbl1q_u8(vld1q_u8((const uint8_t *)((p) + j)), vld1q_u8(lanes_of[bits])));                          \
    }                                                                                                                  \
    i = (begin);
SPREAD(spread_4_neon, , uint32_t, SPREAD_4_NEON)

static INLINE uint64_t at_least_64_neon(const uint8_t *level, uint8_t least)
{
    const uint8x16_t weights = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    const uint8x16_t x = vdupq_n_u8(least);
    uint8x16_t a = vpaddq_u8(vandq_u8(vcgeq_u8(vld1q_u8(level), x), weights),
                             vandq_u8(vcgeq_u8(vld1q_u8(level + 16), x), weights));
    uint8x16_t b = vpaddq_u8(vandq_u8(vcgeq_u8(vld1q_u8(level + 32), x), weights),
                             vandq_u8(vcgeq_u8(vld1q_u8(level + 48), x), weights));

    a = vpaddq_u8(a, b);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(a, a)), 0);
}
AT_LEAST(at_least_neon, , at_least_64_neon)
#endif

/* ------------------------------------------------------------------------------------------------------- the choice */

static const pq_kernels kernels[] = {
#ifdef HAVE_X86
    { "avx512", HR_CPU_AVX512 | HR_CPU_AVX2 | HR_CPU_BMI2, unpack_u32_avx2, unpack_u64_avx2, unpack_u8_avx2,
      gather_4_avx512, gather_8_avx512, spread_4_avx512, spread_8_avx512, at_least_avx2, join_avx2, split_avx2 },
    { "avx2", HR_CPU_AVX2 | HR_CPU_BMI2 | HR_CPU_SSE42, unpack_u32_avx2, unpack_u64_avx2, unpack_u8_avx2, gather_4_avx2,
      gather_8_avx2, spread_4_avx2, spread_8_avx2, at_least_avx2, join_avx2, split_avx2 },
    { "sse42", HR_CPU_SSE42, unpack_u32_scalar, unpack_u64_scalar, unpack_u8_scalar, gather_4_scalar, gather_8_scalar,
      spread_4_scalar, spread_8_scalar, at_least_scalar, join_sse, split_sse },
#endif
#ifdef HAVE_NEON
    { "neon", HR_CPU_NEON, unpack_u32_neon, unpack_u64_neon, unpack_u8_neon, gather_4_scalar, gather_8_scalar,
      spread_4_neon, spread_8_scalar, at_least_neon, join_neon, split_neon },
#endif
    { "scalar", 0, unpack_u32_scalar, unpack_u64_scalar, unpack_u8_scalar, gather_4_scalar, gather_8_scalar,
      spread_4_scalar, spread_8_scalar, at_least_scalar, join_scalar, split_scalar },
};

const pq_kernels *pq__kernels_all(int *n)
{
    *n = HR_LEN(kernels);
    return kernels;
}

const pq_kernels *pq__kernels(void)
{
    static _Atomic(const pq_kernels *) chosen;
    const pq_kernels *k = atomic_load_explicit(&chosen, memory_order_relaxed);
    unsigned cpu;

    if (k)
        return k;
    cpu = hr__cpu_features();
    for (k = kernels; (k->needs & cpu) != k->needs;)
        k++;
    atomic_store_explicit(&chosen, k, memory_order_relaxed);
    return k;
}

static void spread_any(uint8_t *data, int64_t w, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at)
{
    int64_t i = n, j = n_values;

    while (i > j) {
        if (hr__bit(valid, at + --i))
            memmove(data + i * w, data + --j * w, (size_t)w);
        else
            memset(data + i * w, 0, (size_t)w);
    }
}

void pq__spread(uint8_t *data, int64_t w, int64_t n, int64_t n_values, const uint8_t *valid, int64_t at)
{
    switch (w) {
    case 1: spread_1(data, n, n_values, valid, at); break;
    case 2: spread_2(data, n, n_values, valid, at); break;
    case 4: pq__kernels()->spread_4(data, n, n_values, valid, at); break;
    case 8: pq__kernels()->spread_8(data, n, n_values, valid, at); break;
    default: spread_any(data, w, n, n_values, valid, at);
    }
}
