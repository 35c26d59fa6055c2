/* crc.c - checksums of formats: CRC-32 (zip, gzip) and CRC-32C (TFRecord).
 *
 * Takes eight bytes a step through eight tables, which are made once. CRC-32C uses the CPU's instruction if it exists:
 * in three independent streams, since the instruction takes three cycles but can start every cycle; two tables then
 * move the first streams' sums past the bytes of the others (a linear map of 32 bits, applied byte by byte). CRC-32 is
 * libdeflate's if the build has it. */
#include "codec/codec.h"

#if defined(HR_HAVE_DEFLATE)
#include <libdeflate.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLY_32 0xedb88320u /* bits reversed */
#define POLY_32C 0x82f63b78u
#define STREAM_BYTES 1024 /* of each of the three streams */

typedef struct crc_table {
    uint32_t of[8][256];
} crc_table;

static crc_table table_32, table_32c;
static uint32_t past_one[4][256], past_two[4][256]; /* CRC-32C moved past STREAM_BYTES zeros, and past twice as many */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_table(crc_table *t, uint32_t poly)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;

        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? poly : 0);
        t->of[0][i] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int i = 0; i < 256; i++)
            t->of[k][i] = t->of[k - 1][i] >> 8 ^ t->of[0][t->of[k - 1][i] & 255];
}

static void make_past(uint32_t past[4][256], int n_bytes)
{
    uint32_t bit[32];

    for (int b = 0; b < 32; b++) {
        bit[b] = 1u << b;
        for (int i = 0; i < n_bytes; i++)
            bit[b] = bit[b] >> 8 ^ table_32c.of[0][bit[b] & 255];
    }
    for (int k = 0; k < 4; k++)
        for (int v = 0; v < 256; v++) {
            past[k][v] = 0;
            for (int b = 0; b < 8; b++)
                past[k][v] ^= v >> b & 1 ? bit[8 * k + b] : 0;
        }
}

static void make_all(void)
{
    make_table(&table_32, POLY_32);
    make_table(&table_32c, POLY_32C);
    make_past(past_one, STREAM_BYTES);
    make_past(past_two, 2 * STREAM_BYTES);
}

static uint32_t load_4(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t by_table(const crc_table *t, uint32_t c, const uint8_t *p, int64_t n)
{
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t a = c ^ load_4(p), b = load_4(p + 4);

        c = t->of[7][a & 255] ^ t->of[6][a >> 8 & 255] ^ t->of[5][a >> 16 & 255] ^ t->of[4][a >> 24] ^
            t->of[3][b & 255] ^ t->of[2][b >> 8 & 255] ^ t->of[1][b >> 16 & 255] ^ t->of[0][b >> 24];
    }
    for (; n > 0; n--)
        c = c >> 8 ^ t->of[0][(c ^ *p++) & 255];
    return c;
}

#if defined(__x86_64__)
static uint32_t move(uint32_t past[4][256], uint32_t c)
{
    return past[0][c & 255] ^ past[1][c >> 8 & 255] ^ past[2][c >> 16 & 255] ^ past[3][c >> 24];
}

static uint64_t load_8(const uint8_t *p)
{
    uint64_t w;

    memcpy(&w, p, 8);
    return w;
}

__attribute__((target("sse4.2"))) static uint32_t by_sse42(uint32_t c, const uint8_t *p, int64_t n)
{
    uint64_t a = c;

    for (; n >= 3 * STREAM_BYTES; n -= 3 * STREAM_BYTES, p += 3 * STREAM_BYTES) {
        uint64_t b = 0, d = 0;

        for (int i = 0; i < STREAM_BYTES; i += 8) {
            a = _mm_crc32_u64(a, load_8(p + i));
            b = _mm_crc32_u64(b, load_8(p + STREAM_BYTES + i));
            d = _mm_crc32_u64(d, load_8(p + 2 * STREAM_BYTES + i));
        }
        a = move(past_two, (uint32_t)a) ^ move(past_one, (uint32_t)b) ^ (uint32_t)d;
    }
    for (; n >= 8; n -= 8, p += 8)
        a = _mm_crc32_u64(a, load_8(p));
    c = (uint32_t)a;
    for (; n > 0; n--)
        c = _mm_crc32_u8(c, *p++);
    return c;
}
#endif

uint32_t hr__crc32(uint32_t crc, const void *data, int64_t n)
{
#if defined(HR_HAVE_DEFLATE)
    return libdeflate_crc32(crc, data, (size_t)n);
#else
    return hr__crc32_by(0, crc, data, n);
#endif
}

uint32_t hr__crc32_by(unsigned cpu, uint32_t crc, const void *data, int64_t n)
{
    (void)cpu;
    pthread_once(&once, make_all);
    return ~by_table(&table_32, ~crc, data, n);
}

uint32_t hr__crc32c_by(unsigned cpu, uint32_t crc, const void *data, int64_t n)
{
    pthread_once(&once, make_all);
#if defined(__x86_64__)
    if (cpu & HR_CPU_SSE42)
        return ~by_sse42(~crc, data, n);
#endif
    (void)cpu;
    return ~by_table(&table_32c, ~crc, data, n);
}

uint32_t hr__crc32c(uint32_t crc, const void *data, int64_t n)
{
    return hr__crc32c_by(hr__cpu_features(), crc, data, n);
}
