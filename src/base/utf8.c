/* utf8.c - checks that bytes are UTF-8; readers of text columns check every byte.
 *
 * Scalar: 32 bytes of ASCII at a step, other characters by the table of well-formed sequences of the Unicode standard.
 * AVX2: three look-ups by half a byte, of the byte before and the byte itself; their common bits name the error of the
 * pair. A second check finds third and fourth bytes that are missing (J. Keiser, D. Lemire: Validating UTF-8 in less
 * than one instruction per byte, 2020). The result does not name the place of the error; no caller needs it. NEON: the
 * same, 16 bytes at a time. */
#include "base/all.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX2 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define HAVE_NEON 1
#include <arm_neon.h>
#endif

/* ----------------------------------------------------------------------------------------------------------- scalar */

/* Bytes of the sequence at p, 0 if it is malformed. */
static int sequence_length(const uint8_t *p, int64_t n)
{
    uint8_t c = p[0], low = 0x80, high = 0xBF;
    int more;

    if (c < 0x80)
        return 1;
    if (c < 0xC2 || c > 0xF4)
        return 0;
    more = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    if (n <= more)
        return 0;
    low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : low;
    high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : high;
    if (p[1] < low || p[1] > high)
        return 0;
    for (int i = 2; i <= more; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return more + 1;
}

static bool valid_scalar(const uint8_t *p, int64_t n)
{
    const uint8_t *end = p + n;
    uint64_t word[4];

    while (p < end) {
        int length = 1;

        if (end - p >= (ptrdiff_t)sizeof word) { /* most text is plain ASCII */
            memcpy(word, p, sizeof word);
            if (((word[0] | word[1] | word[2] | word[3]) & 0x8080808080808080u) == 0) {
                p += sizeof word;
                continue;
            }
        }
        while (p < end && *p < 0x80)
            p++;
        for (; p < end && *p >= 0x80; p += length)
            if ((length = sequence_length(p, end - p)) == 0)
                return false;
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------- kinds of errors */

#if defined(HAVE_AVX2) || defined(HAVE_NEON)
enum {
    TOO_SHORT = 1 << 0,  /* a lead byte, then no continuation */
    TOO_LONG = 1 << 1,   /* ASCII, then a continuation */
    OVERLONG_3 = 1 << 2, /* E0, then below A0 */
    TOO_LARGE = 1 << 3,  /* F4, then above 8F; F5 and more */
    SURROGATE = 1 << 4,  /* ED, then above 9F */
    OVERLONG_2 = 1 << 5, /* C0, C1 */
    OVERLONG_4 = 1 << 6, /* F0, then below 90; and F5 and more, then 80 */
    TWO_CONTS = 1 << 7,  /* two continuations: right if a longer sequence goes on */
    ANY_LOW = TOO_SHORT | TOO_LONG | TWO_CONTS
};
#endif

/* ------------------------------------------------------------------------------------------------------------- AVX2 */

#ifdef HAVE_AVX2
#define AVX2 __attribute__((target("avx2")))
#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)
#define B(x) ((char)(x))

/* The 32 bytes that end k bytes before the end of `now`. */
#define BEFORE(now, last, k) _mm256_alignr_epi8((now), _mm256_permute2x128_si256((last), (now), 0x21), 16 - (k))

/* Bits for the malformed pairs (byte before, byte) of a block. */
AVX2 static __m256i wrong_pairs(__m256i now, __m256i before)
{
    const __m256i low_half = _mm256_set1_epi8(0x0F);
    const __m256i by_first_high =
        TWICE(B(TOO_LONG), B(TOO_LONG), B(TOO_LONG), B(TOO_LONG), B(TOO_LONG), B(TOO_LONG), B(TOO_LONG), B(TOO_LONG),
              B(TWO_CONTS), B(TWO_CONTS), B(TWO_CONTS), B(TWO_CONTS), B(TOO_SHORT | OVERLONG_2), B(TOO_SHORT),
              B(TOO_SHORT | OVERLONG_3 | SURROGATE), B(TOO_SHORT | TOO_LARGE | OVERLONG_4));
    const __m256i by_first_low = TWICE(
        B(ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4), B(ANY_LOW | OVERLONG_2), B(ANY_LOW), B(ANY_LOW),
        B(ANY_LOW | TOO_LARGE), B(ANY_LOW | TOO_LARGE | OVERLONG_4), B(ANY_LOW | TOO_LARGE | OVERLONG_4),
        B(ANY_LOW | TOO_LARGE | OVERLONG_4), B(ANY_LOW | TOO_LARGE | OVERLONG_4), B(ANY_LOW | TOO_LARGE | OVERLONG_4),
        B(ANY_LOW | TOO_LARGE | OVERLONG_4), B(ANY_LOW | TOO_LARGE | OVERLONG_4), B(ANY_LOW | TOO_LARGE | OVERLONG_4),
        B(ANY_LOW | TOO_LARGE | OVERLONG_4 | SURROGATE), B(ANY_LOW | TOO_LARGE | OVERLONG_4),
        B(ANY_LOW | TOO_LARGE | OVERLONG_4));
    const __m256i by_second_high =
        TWICE(B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT),
              B(TOO_SHORT), B(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | OVERLONG_4),
              B(TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE),
              B(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE),
              B(TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE), B(TOO_SHORT), B(TOO_SHORT), B(TOO_SHORT),
              B(TOO_SHORT));
    __m256i first_high = _mm256_and_si256(_mm256_srli_epi16(before, 4), low_half);
    __m256i second_high = _mm256_and_si256(_mm256_srli_epi16(now, 4), low_half);

    return _mm256_and_si256(_mm256_and_si256(_mm256_shuffle_epi8(by_first_high, first_high),
                                             _mm256_shuffle_epi8(by_first_low, _mm256_and_si256(before, low_half))),
                            _mm256_shuffle_epi8(by_second_high, second_high));
}

/* Non-zero bytes where the block is malformed, given the block before it. */
AVX2 static __m256i wrong_bytes(__m256i now, __m256i last)
{
    __m256i third = _mm256_subs_epu8(BEFORE(now, last, 2), _mm256_set1_epi8(0xE0 - 0x80)); /* high bit: must go on */
    __m256i fourth = _mm256_subs_epu8(BEFORE(now, last, 3), _mm256_set1_epi8(0xF0 - 0x80));
    __m256i goes_on = _mm256_and_si256(_mm256_or_si256(third, fourth), _mm256_set1_epi8(B(0x80)));

    return _mm256_xor_si256(goes_on, wrong_pairs(now, BEFORE(now, last, 1)));
}

/* Takes blocks of 32 bytes; the last is filled with zeros, before which an incomplete sequence is too short. */
AVX2 static bool valid_avx2(const uint8_t *p, int64_t n)
{
    __m256i last = _mm256_setzero_si256(), wrong = last;
    uint8_t rest[32] = { 0 };
    bool plain = true; /* the block before is ASCII: no sequence continues into this one */

    for (; n >= 32; p += 32, n -= 32) {
        __m256i now = _mm256_loadu_si256((const __m256i *)(const void *)p);

        if (!plain || _mm256_movemask_epi8(now)) {
            wrong = _mm256_or_si256(wrong, wrong_bytes(now, last));
            plain = !_mm256_movemask_epi8(now);
        }
        last = now;
    }
    if (n)
        memcpy(rest, p, (size_t)n);
    wrong = _mm256_or_si256(wrong, wrong_bytes(_mm256_loadu_si256((const __m256i *)(const void *)rest), last));
    return _mm256_testz_si256(wrong, wrong);
}
#endif

/* ------------------------------------------------------------------------------------------------------------- NEON */

#ifdef HAVE_NEON
static uint8x16_t wrong_pairs(uint8x16_t now, uint8x16_t before)
{
    static const uint8_t by_first_high[16] = { TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TOO_LONG,
                                               TWO_CONTS,
                                               TWO_CONTS,
                                               TWO_CONTS,
                                               TWO_CONTS,
                                               TOO_SHORT | OVERLONG_2,
                                               TOO_SHORT,
                                               TOO_SHORT | OVERLONG_3 | SURROGATE,
                                               TOO_SHORT | TOO_LARGE | OVERLONG_4 };
    static const uint8_t by_first_low[16] = { ANY_LOW | OVERLONG_3 | OVERLONG_2 | OVERLONG_4,
                                              ANY_LOW | OVERLONG_2,
                                              ANY_LOW,
                                              ANY_LOW,
                                              ANY_LOW | TOO_LARGE,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4 | SURROGATE,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4,
                                              ANY_LOW | TOO_LARGE | OVERLONG_4 };
    static const uint8_t by_second_high[16] = { TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | OVERLONG_4,
                                                TOO_LONG | OVERLONG_2 | TWO_CONTS | OVERLONG_3 | TOO_LARGE,
                                                TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE,
                                                TOO_LONG | OVERLONG_2 | TWO_CONTS | SURROGATE | TOO_LARGE,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT,
                                                TOO_SHORT };

    return vandq_u8(vandq_u8(vqtbl1q_u8(vld1q_u8(by_first_high), vshrq_n_u8(before, 4)),
                             vqtbl1q_u8(vld1q_u8(by_first_low), vandq_u8(before, vdupq_n_u8(15)))),
                    vqtbl1q_u8(vld1q_u8(by_second_high), vshrq_n_u8(now, 4)));
}

static uint8x16_t wrong_bytes(uint8x16_t now, uint8x16_t last)
{
    uint8x16_t third = vqsubq_u8(vextq_u8(last, now, 14), vdupq_n_u8(0xE0 - 0x80)); /* high bit: must go on */
    uint8x16_t fourth = vqsubq_u8(vextq_u8(last, now, 13), vdupq_n_u8(0xF0 - 0x80));
    uint8x16_t goes_on = vandq_u8(vorrq_u8(third, fourth), vdupq_n_u8(0x80));

    return veorq_u8(goes_on, wrong_pairs(now, vextq_u8(last, now, 15)));
}

static bool valid_neon(const uint8_t *p, int64_t n)
{
    uint8x16_t last = vdupq_n_u8(0), wrong = last;
    uint8_t rest[16] = { 0 };
    bool plain = true;

    for (; n >= 16; p += 16, n -= 16) {
        uint8x16_t now = vld1q_u8(p);
        bool is_ascii = vmaxvq_u8(now) < 0x80;

        if (!plain || !is_ascii)
            wrong = vorrq_u8(wrong, wrong_bytes(now, last));
        plain = is_ascii;
        last = now;
    }
    if (n)
        memcpy(rest, p, (size_t)n);
    wrong = vorrq_u8(wrong, wrong_bytes(vld1q_u8(rest), last));
    return vmaxvq_u8(wrong) == 0;
}
#endif

/* ------------------------------------------------------------------------------------------------------- the choice */

static const struct {
    unsigned needs;
    bool (*fn)(const uint8_t *p, int64_t n);
} kernels[] = { /* the first that fits runs */
#ifdef HAVE_AVX2
                { HR_CPU_AVX2, valid_avx2 },
#endif
#ifdef HAVE_NEON
                { HR_CPU_NEON, valid_neon },
#endif
                { 0, valid_scalar }
};

bool hr__utf8_valid_by(unsigned cpu, const void *data, int64_t n)
{
    int k = 0;

    while ((kernels[k].needs & cpu) != kernels[k].needs)
        k++;
    return kernels[k].fn(data, n);
}

bool hr__utf8_valid(const void *data, int64_t n)
{
    return n < 32 ? valid_scalar(data, n) : hr__utf8_valid_by(hr__cpu_features(), data, n);
}
