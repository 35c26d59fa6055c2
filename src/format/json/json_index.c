/* json_index.c - finds the structure of a JSON text without reading its values.
 *
 * Each step turns 64 bytes into masks with a bit for each byte; the rest is arithmetic on masks (stage 1 of G.
 * Langdale, D. Lemire: Parsing Gigabytes of JSON per Second, 2019):
 *   escaped   bytes after a run of backslashes of odd length: the carry of an addition finds the runs' ends
 *   strings   quotes that are not escaped; prefix XOR of them (a carry-less product by all ones) is "within a string"
 *   classes   brackets, comma and colon, and white space: one look-up by the low half of a byte each, compared with
 *             the byte
 *   values    the first byte of each run of other bytes outside of strings
 * Unlike in that paper, closing quotes are places, too, so that a string's length is known without reading it, and
 * newlines can be places. There are forms for AVX2 with PCLMUL, NEON, and plain C; all three give the same result.
 *
 * Tests: test_json.c. */
#include "format/json/json.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HAVE_AVX2 1
#include <immintrin.h>
#elif defined(__aarch64__)
#define HAVE_NEON 1
#include <arm_neon.h>
#endif

#define PIECE_BYTES (64 << 10) /* bytes for whose places room is reserved at once */

typedef struct masks {
    uint64_t backslash, quote, operators, blank, newline, control, high;
} masks;

/* State that one step passes to the next. */
typedef struct carry {
    uint64_t escaped;   /* bit 0: the first byte is escaped */
    uint64_t in_string; /* all ones or zero */
    uint64_t follows;   /* bit 0: the byte before was part of a number or word */
    uint64_t high, backslash;
    int64_t control; /* -1: none yet */
} carry;

/* Bytes after backslashes that are not escaped themselves. */
static inline __attribute__((always_inline)) uint64_t escaped_bytes(uint64_t backslash, carry *c)
{
    const uint64_t even = 0x5555555555555555u;
    uint64_t follows, starts, sum, escaped;

    if (!backslash) {
        escaped = c->escaped;
        c->escaped = 0;
        return escaped;
    }
    backslash &= ~c->escaped;
    follows = backslash << 1 | c->escaped;
    starts = backslash & ~even & ~follows; /* runs that begin at an odd place */
    c->escaped = __builtin_add_overflow(starts, backslash, &sum);
    return (even ^ sum << 1) & follows;
}

/* Places of one step, as a mask. `within` is the prefix XOR of the unescaped quotes. */
static inline __attribute__((always_inline)) uint64_t step_places(const masks *m, uint64_t quote, uint64_t within,
                                                                  int64_t at, carry *c)
{
    uint64_t value, follows, places;

    within ^= c->in_string;
    c->in_string = (uint64_t)((int64_t)within >> 63);
    value = ~(m->operators | m->blank | quote);
    follows = value << 1 | c->follows;
    c->follows = value >> 63;
    places = ((m->operators | (value & ~follows) | m->newline) & ~within) | quote;
    c->high |= m->high;
    c->backslash |= m->backslash;
    if (__builtin_expect((m->control & within) != 0, 0) && c->control < 0)
        c->control = at + __builtin_ctzll(m->control & within);
    return places;
}

static inline __attribute__((always_inline)) uint32_t *add_places(uint64_t places, uint32_t at, uint32_t *out)
{
    int n = __builtin_popcountll(places);

    for (int k = 0; k < n;
         k += 8, out += 8) { /* eight at once: fewer branches; the next write overwrites the surplus */
        for (int i = 0; i < 8; i++) {
            out[i] = at + (uint32_t)__builtin_ctzll(places | 1ull << 63);
            places &= places - 1;
        }
    }
    return out - (HR_ROUND_UP(n, 8) - n);
}

static uint64_t prefix_xor(uint64_t x)
{
    for (int k = 1; k < 64; k *= 2)
        x ^= x << k;
    return x;
}

/* ---------------------------------------------------------------------------------------------------------- plain C */

enum { BACKSLASH = 1, QUOTE = 2, OPERATOR = 4, BLANK = 8, NEWLINE = 16 };

static const uint8_t classes[256] = {
    ['\t'] = BLANK,   ['\n'] = BLANK | NEWLINE, ['\r'] = BLANK,    [' '] = BLANK,     ['\\'] = BACKSLASH,
    ['"'] = QUOTE,    ['{'] = OPERATOR,         ['}'] = OPERATOR,  ['['] = OPERATOR,  [']'] = OPERATOR,
    [','] = OPERATOR, [':'] = OPERATOR,         [0x0C] = OPERATOR, [0x1A] = OPERATOR, /* the result of the look-ups */
};

static masks classify(const uint8_t *p)
{
    masks m = { 0 };

    for (int i = 0; i < 64; i++) {
        uint64_t c = classes[p[i]];

        m.backslash |= (c & 1) << i;
        m.quote |= (c >> 1 & 1) << i;
        m.operators |= (c >> 2 & 1) << i;
        m.blank |= (c >> 3 & 1) << i;
        m.newline |= (c >> 4 & 1) << i;
        m.control |= (uint64_t)(p[i] < 0x20) << i;
        m.high |= (uint64_t)(p[i] >> 7) << i;
    }
    return m;
}

static uint32_t *index_scalar(const uint8_t *p, int64_t begin, int64_t end, uint64_t newlines, carry *c, uint32_t *out)
{
    for (int64_t at = begin; at < end; at += 64, p += 64) {
        masks m = classify(p);
        uint64_t quote = m.quote & ~escaped_bytes(m.backslash, c);

        m.newline &= newlines;
        out = add_places(step_places(&m, quote, prefix_xor(quote), at, c), (uint32_t)at, out);
    }
    return out;
}

/* ----------------------------------------------------------------------------------------------------- AVX2, PCLMUL */

#ifdef HAVE_AVX2
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt,pclmul")))
#define TWICE(...) _mm256_setr_epi8(__VA_ARGS__, __VA_ARGS__)

AVX2 static inline __attribute__((always_inline)) uint64_t both(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high) << 32;
}

AVX2 static inline __attribute__((always_inline)) uint64_t equal(__m256i low, __m256i high, char c)
{
    __m256i all = _mm256_set1_epi8(c);

    return both(_mm256_cmpeq_epi8(low, all), _mm256_cmpeq_epi8(high, all));
}

AVX2 static uint32_t *index_avx2(const uint8_t *p, int64_t begin, int64_t end, uint64_t newlines, carry *c,
                                 uint32_t *out)
{
    const __m256i operators = TWICE(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0);
    const __m256i blanks = TWICE(' ', 100, 100, 100, 17, 100, 113, 2, 100, '\t', '\n', 112, 100, '\r', 100, 100);
    const __m256i lower = _mm256_set1_epi8(0x20), last = _mm256_set1_epi8(0x1F);

    for (int64_t at = begin; at < end; at += 64, p += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
        uint64_t quote;
        __m128i within;
        masks m = {
            .backslash = equal(a, b, '\\'),
            .newline = equal(a, b, '\n') & newlines,
            .operators = both(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(operators, a), _mm256_or_si256(a, lower)),
                              _mm256_cmpeq_epi8(_mm256_shuffle_epi8(operators, b), _mm256_or_si256(b, lower))),
            .blank = both(_mm256_cmpeq_epi8(_mm256_shuffle_epi8(blanks, a), a),
                          _mm256_cmpeq_epi8(_mm256_shuffle_epi8(blanks, b), b)),
            .control = both(_mm256_cmpeq_epi8(_mm256_max_epu8(a, last), last),
                            _mm256_cmpeq_epi8(_mm256_max_epu8(b, last), last)),
            .high = both(a, b),
        };

        quote = equal(a, b, '"') & ~escaped_bytes(m.backslash, c);
        within = _mm_clmulepi64_si128(_mm_set_epi64x(0, (int64_t)quote), _mm_set1_epi8(-1), 0);
        out = add_places(step_places(&m, quote, (uint64_t)_mm_cvtsi128_si64(within), at, c), (uint32_t)at, out);
    }
    return out;
}
#endif

/* ------------------------------------------------------------------------------------------------------------- NEON */

#ifdef HAVE_NEON
/* A bit for each of 64 bytes that are all ones or zero. */
static inline uint64_t neon_mask(uint8x16_t a, uint8x16_t b, uint8x16_t c, uint8x16_t d)
{
    const uint8x16_t bits = { 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128 };
    uint8x16_t ab = vpaddq_u8(vandq_u8(a, bits), vandq_u8(b, bits));
    uint8x16_t cd = vpaddq_u8(vandq_u8(c, bits), vandq_u8(d, bits));
    uint8x16_t all = vpaddq_u8(ab, cd);

    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(all, all)), 0);
}

#define EACH(expr_of) neon_mask(expr_of(v[0]), expr_of(v[1]), expr_of(v[2]), expr_of(v[3]))
#define IS_BACKSLASH(x) vceqq_u8(x, vdupq_n_u8('\\'))
#define IS_QUOTE(x) vceqq_u8(x, vdupq_n_u8('"'))
#define IS_NEWLINE(x) vceqq_u8(x, vdupq_n_u8('\n'))
#define IS_CONTROL(x) vcltq_u8(x, vdupq_n_u8(0x20))
#define IS_HIGH(x) vcgeq_u8(x, vdupq_n_u8(0x80))
#define LOW(x) vandq_u8(x, vdupq_n_u8(0x8F)) /* a byte >= 0x80 is outside the table: 0 */
#define IS_OPERATOR(x) vceqq_u8(vqtbl1q_u8(operators, LOW(x)), vorrq_u8(x, vdupq_n_u8(0x20)))
#define IS_BLANK(x) vceqq_u8(vqtbl1q_u8(blanks, LOW(x)), x)

static uint32_t *index_neon(const uint8_t *p, int64_t begin, int64_t end, uint64_t newlines, carry *c, uint32_t *out)
{
    const uint8x16_t operators = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ':', '{', ',', '}', 0, 0 };
    const uint8x16_t blanks = { ' ', 100, 100, 100, 17, 100, 113, 2, 100, '\t', '\n', 112, 100, '\r', 100, 100 };

    for (int64_t at = begin; at < end; at += 64, p += 64) {
        uint8x16_t v[4] = { vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48) };
        masks m = { .backslash = EACH(IS_BACKSLASH),
                    .newline = EACH(IS_NEWLINE) & newlines,
                    .operators = EACH(IS_OPERATOR),
                    .blank = EACH(IS_BLANK),
                    .control = EACH(IS_CONTROL),
                    .high = EACH(IS_HIGH) };
        uint64_t quote = EACH(IS_QUOTE) & ~escaped_bytes(m.backslash, c);

        out = add_places(step_places(&m, quote, prefix_xor(quote), at, c), (uint32_t)at, out);
    }
    return out;
}
#endif

/* ------------------------------------------------------------------------------------------------------- the choice */

/* data[0, end - begin) has the places from `begin` on; the length is a multiple of 64. -> the end of the places
 * written. */
typedef uint32_t *index_fn(const uint8_t *data, int64_t begin, int64_t end, uint64_t newlines, carry *c, uint32_t *out);

static const struct {
    unsigned needs;
    index_fn *fn;
} kernels[] = {
#ifdef HAVE_AVX2
    { HR_CPU_AVX2 | HR_CPU_BMI2 | HR_CPU_PCLMUL, index_avx2 },
#endif
#ifdef HAVE_NEON
    { HR_CPU_NEON, index_neon },
#endif
    { 0, index_scalar }
};

static hr_status make_room(const hr_mem *mem, hr_json_tokens *t, int64_t n_more, hr_error *err)
{
    int64_t need = (t->n + n_more + HR_JSON_SPARE + 8) * 4;
    hr_buffer *b;

    if (t->buffer && t->buffer->n_bytes >= need)
        return HR_OK;
    HR_TRY(hr__buffer_new(mem, t->n ? need + need / 2 : need, &b, err));
    if (t->n)
        memcpy(b->data, t->at, (size_t)t->n * 4);
    hr__buffer_unref(t->buffer);
    t->buffer = b;
    t->at = (uint32_t *)(void *)b->data;
    return HR_OK;
}

hr_status hr__json_index_by(unsigned cpu, const hr_mem *mem, const uint8_t *data, int64_t begin, int64_t end,
                            bool newlines, hr_json_tokens *t, hr_error *err)
{
    uint64_t newline_mask = newlines ? ~0ull : 0;
    carry c = { .control = -1 };
    int64_t at = begin;
    uint8_t rest[64];
    int k = 0;

    while ((kernels[k].needs & cpu) != kernels[k].needs)
        k++;
    t->n = 0;
    while (at + 64 <= end) {
        int64_t n = HR_MIN(end - at, PIECE_BYTES) / 64 * 64;

        HR_TRY(make_room(mem, t, n, err));
        t->n = kernels[k].fn(data + at, at, at + n, newline_mask, &c, t->at + t->n) - t->at;
        at += n;
    }
    HR_TRY(make_room(mem, t, 64, err));
    if (at < end) {
        memset(rest, ' ', sizeof rest);
        memcpy(rest, data + at, (size_t)(end - at));
        t->n = kernels[k].fn(rest, at, at + 64, newline_mask, &c, t->at + t->n) - t->at;
    }
    for (int i = 0; i < HR_JSON_SPARE; i++)
        t->at[t->n + i] = (uint32_t)end;
    t->has_backslash = c.backslash != 0;
    t->has_high = c.high != 0;
    t->control = c.control;
    return HR_OK;
}

hr_status hr__json_index(const hr_mem *mem, const uint8_t *data, int64_t begin, int64_t end, bool newlines,
                         hr_json_tokens *t, hr_error *err)
{
    return hr__json_index_by(hr__cpu_features(), mem, data, begin, end, newlines, t, err);
}

void hr__json_tokens_clear(hr_json_tokens *t)
{
    hr__buffer_unref(t->buffer);
    *t = (hr_json_tokens){ .control = -1 };
}
