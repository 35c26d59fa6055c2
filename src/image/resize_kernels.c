/* resize_kernels.c - see resize_kernels.h.
 *
 * scalar plain loops: what the others have to agree with AVX2 four source pixels at a time, for four rows with the same
 * weights AVX-512 with VBMI, which picks any bytes out of 64: four neighbours of the result at a time, two weights a
 * step, and
 *           nothing to add up across lanes
 * NEON      four source pixels at a time
 *
 * Tests: test_pixels.c. */
#include "image/resize_kernels.h"

#define HALF (HR_WEIGHT_ONE / 2)

/* ----------------------------------------------------------------------------------------------------------- scalar */

static uint8_t clip(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

static void across_row(const hr_axis *a, const uint8_t *from, uint8_t *to, int channels)
{
    for (int64_t i = 0; i < a->n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const int16_t *w = a->fixed + i * a->room;
        int sum[4] = { HALF, HALF, HALF, HALF };

        for (int k = 0; k < a->count[i]; k++, p += channels) {
            for (int c = 0; c < channels; c++)
                sum[c] += w[k] * p[c];
        }
        for (int c = 0; c < channels; c++)
            to[c] = clip(sum[c] >> 14);
    }
}

static void across_scalar(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels)
{
    for (int r = 0; r < HR_ROWS_AT_ONCE; r++)
        across_row(a, from[r], to[r], channels);
}

static void precise_scalar(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels)
{
    for (int r = 0; r < HR_ROWS_AT_ONCE; r++) {
        for (int64_t i = 0; i < a->n; i++) {
            const uint8_t *p = from[r] + (int64_t)a->first[i] * channels;
            const float *w = a->weights + i * a->room;
            float sum[4] = { 0.5F, 0.5F, 0.5F, 0.5F };

            for (int k = 0; k < a->count[i]; k++, p += channels) {
                for (int c = 0; c < channels; c++)
                    sum[c] += w[k] * (float)p[c];
            }
            for (int c = 0; c < channels; c++)
                to[r][i * channels + c] = (uint8_t)(sum[c] < 0 ? 0 : sum[c] > 255 ? 255 : sum[c]);
        }
    }
}

static void down_scalar(const uint8_t *from, int64_t stride, const int16_t *weights, int count, uint8_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int sum = HALF;

        for (int k = 0; k < count; k++)
            sum += weights[k] * from[k * stride + i];
        to[i] = clip(sum >> 14);
    }
}

static void down_precise_scalar(const uint8_t *from, int64_t stride, const float *weights, int count, uint8_t *to,
                                int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = 0.5F;

        for (int k = 0; k < count; k++)
            sum += weights[k] * (float)from[k * stride + i];
        to[i] = (uint8_t)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

static void planes_scalar(const uint8_t *from, int channels, const float *scale, const float *bias, float *const *to,
                          int64_t n)
{
    for (int c = 0; c < channels; c++) {
        for (int64_t i = 0; i < n; i++)
            to[c][i] = (float)from[i * channels + c] * scale[c] + bias[c];
    }
}

static void halves_scalar(const float *from, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hr__half_of((double)from[i]);
}

/* ---------------------------------------------------------------------------------------------------------- windows */

int64_t hr__windows_bytes(int64_t n, int64_t room, int channels)
{
    int64_t groups = (n + 3) / 4, steps = (room + 1) / 2;

    if (room * channels > 2 * HR_WINDOW_BYTES)
        return 0;
    return groups * ((int64_t)sizeof(hr_window) + steps * 128) + 128;
}

/* Four pixels of the result, each with four lanes of 32 bits: [c0 c1 c2 c3] of pixel 0, of pixel 1, ... */
static bool fill_group(hr_windows *w, const hr_axis *a, int64_t group, int64_t width)
{
    uint8_t *order = w->order + group * w->steps * 64;
    int16_t *weights = w->weights + group * w->steps * 32;
    int64_t i = group * 4, n = HR_MIN(4, a->n - i), low = INT64_MAX, high = 0, left;

    for (int64_t k = i; k < i + n; k++) {
        low = HR_MIN(low, a->first[k]);
        high = HR_MAX(high, a->first[k] + a->count[k]);
    }
    if ((high - low) * w->channels > HR_WINDOW_BYTES)
        return false;
    left = (width - low) * w->channels;
    w->windows[group] = (hr_window){ low * w->channels, left >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << left) - 1 };
    memset(order, 0, (size_t)w->steps * 64);
    memset(weights, 0, (size_t)w->steps * 64);
    for (int64_t k = 0; k < n; k++) {
        for (int t = 0; t < a->count[i + k]; t++) {
            for (int c = 0; c < w->channels; c++) {
                int64_t at = (int64_t)(t / 2) * 32 + (k * 4 + c) * 2 + t % 2; /* of 16-bit values */

                order[at * 2] = (uint8_t)((a->first[i + k] - low + t) * w->channels + c);
                weights[at] = a->fixed[(i + k) * a->room + t];
            }
        }
    }
    return true;
}

void hr__windows_fill(hr_windows *w, uint8_t *at, const hr_axis *a, int64_t width, int channels)
{
    int64_t groups = (a->n + 3) / 4;
    int most = 1;

    for (int64_t i = 0; i < a->n; i++)
        most = HR_MAX(most, a->count[i]);
    w->n = 0;
    w->steps = (most + 1) / 2;
    w->channels = channels;
    w->order = (uint8_t *)HR_ROUND_UP((uintptr_t)at, 64);
    w->weights = (int16_t *)(void *)(w->order + groups * w->steps * 64);
    w->windows = (hr_window *)(void *)(w->weights + groups * w->steps * 32);
    for (int64_t g = 0; g < groups; g++) {
        if (!fill_group(w, a, g, width))
            return;
    }
    w->n = groups;
}

/* -------------------------------------------------------------------------------------------------------------- x86 */

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#define VBMI __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni")))

static __m128i load16(const void *p) { return _mm_loadu_si128(p); }

/* The bytes of four pixels that become pairs of 16-bit values: pixels 0 and 1 in the low half, 2 and 3 in the high. */
AVX2 static __m256i pairs_of_pixels(int channels)
{
    uint8_t order[32];

    memset(order, 0x80, sizeof order);
    for (int pixel = 0; pixel < 4; pixel++) {
        for (int c = 0; c < HR_MIN(channels, 4); c++)
            order[pixel / 2 * 16 + c * 4 + pixel % 2 * 2] = (uint8_t)(pixel * channels + c);
    }
    return _mm256_loadu_si256((const __m256i *)(const void *)order);
}

AVX2 static inline __m128i both_halves(__m256i v)
{
    return _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
}

/* The bytes that are written beyond a pixel belong to the next one, or lie beyond the row. */
AVX2 static inline void put4(uint8_t *to, int v) { memcpy(to, &v, 4); }

AVX2 static void across_avx2(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels)
{
    const __m256i each = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /* */
                                          4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m256i order = pairs_of_pixels(channels);

    for (int64_t i = 0; i < a->n; i++) {
        int64_t at = (int64_t)a->first[i] * channels;
        const int16_t *w = a->fixed + i * a->room;
        __m256i sum[HR_ROWS_AT_ONCE] = { 0 };
        __m128i low, high;

        for (int k = 0; k < a->count[i]; k += HR_WEIGHT_PAD, at += (int64_t)HR_WEIGHT_PAD * channels) {
            __m256i weights;
            int64_t packed;

            memcpy(&packed, w + k, 8);
            weights = _mm256_shuffle_epi8(_mm256_set1_epi64x(packed), each);
            for (int r = 0; r < HR_ROWS_AT_ONCE; r++) {
                __m256i pixels = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load16(from[r] + at)), order);

                sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(pixels, weights));
            }
        }
        low = _mm_packs_epi32(_mm_srai_epi32(_mm_add_epi32(both_halves(sum[0]), _mm_set1_epi32(HALF)), 14),
                              _mm_srai_epi32(_mm_add_epi32(both_halves(sum[1]), _mm_set1_epi32(HALF)), 14));
        high = _mm_packs_epi32(_mm_srai_epi32(_mm_add_epi32(both_halves(sum[2]), _mm_set1_epi32(HALF)), 14),
                               _mm_srai_epi32(_mm_add_epi32(both_halves(sum[3]), _mm_set1_epi32(HALF)), 14));
        low = _mm_packus_epi16(low, high);
        put4(to[0] + i * channels, _mm_extract_epi32(low, 0));
        put4(to[1] + i * channels, _mm_extract_epi32(low, 1));
        put4(to[2] + i * channels, _mm_extract_epi32(low, 2));
        put4(to[3] + i * channels, _mm_extract_epi32(low, 3));
    }
}

AVX2 static void precise_row_avx2(const hr_axis *a, const uint8_t *from, uint8_t *to, int channels)
{
    const __m128i order = channels == 3 ? _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1)
                                        : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1);

    for (int64_t i = 0; i < a->n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const float *w = a->weights + i * a->room;
        __m256 sum = _mm256_setzero_ps();
        __m128i all;

        for (int k = 0; k < a->count[i]; k += 2, p += (ptrdiff_t)2 * channels) {
            __m128i two = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p), order);
            __m256 weights = _mm256_set_m128(_mm_set1_ps(k + 1 < a->count[i] ? w[k + 1] : 0), _mm_set1_ps(w[k]));

            sum = _mm256_fmadd_ps(weights, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(two)), sum);
        }
        all = _mm_cvttps_epi32(_mm_max_ps(
            _mm_add_ps(_mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1)), _mm_set1_ps(0.5F)),
            _mm_setzero_ps()));
        put4(to, _mm_cvtsi128_si32(_mm_packus_epi16(_mm_packs_epi32(all, all), all)));
    }
}

AVX2 static void precise_avx2(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels)
{
    if (channels < 3) {
        precise_scalar(a, from, to, channels);
        return;
    }
    for (int r = 0; r < HR_ROWS_AT_ONCE; r++)
        precise_row_avx2(a, from[r], to[r], channels);
}

/* Two rows become pairs of 16-bit values, which one instruction multiplies and adds. */
AVX2 static void down_avx2(const uint8_t *from, int64_t stride, const int16_t *weights, int count, uint8_t *to,
                           int64_t n)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256i low = _mm256_set1_epi32(HALF), high = low;

        for (int k = 0; k < count; k += 2) {
            bool two = k + 1 < count;
            const uint8_t *p = from + k * stride + i;
            __m256i a = _mm256_cvtepu8_epi16(load16(p)), b = _mm256_cvtepu8_epi16(load16(two ? p + stride : p));
            __m256i w = _mm256_set1_epi32((uint16_t)weights[k] | (two ? weights[k + 1] * 65536 : 0));

            low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), w));
            high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), w));
        }
        low = _mm256_packs_epi32(_mm256_srai_epi32(low, 14), _mm256_srai_epi32(high, 14));
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm_packus_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
    }
    down_scalar(from + i, stride, weights, count, to + i, n - i);
}

AVX2 static void down_precise_avx2(const uint8_t *from, int64_t stride, const float *weights, int count, uint8_t *to,
                                   int64_t n)
{
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_set1_ps(0.5F), b = a;
        __m256i all;

        for (int k = 0; k < count; k++) {
            __m128i v = load16(from + k * stride + i);
            __m256 w = _mm256_broadcast_ss(weights + k);

            a = _mm256_fmadd_ps(w, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)), a);
            b = _mm256_fmadd_ps(w, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))), b);
        }
        a = _mm256_max_ps(a, _mm256_setzero_ps());
        b = _mm256_max_ps(b, _mm256_setzero_ps());
        all = _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_cvttps_epi32(a), _mm256_cvttps_epi32(b)), 0xd8);
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm_packus_epi16(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)));
    }
    down_precise_scalar(from + i, stride, weights, count, to + i, n - i);
}

/* Eight pixels at a time: their bytes of one channel become eight numbers of 32 bits. */
AVX2 static void planes_avx2(const uint8_t *from, int channels, const float *scale, const float *bias, float *const *to,
                             int64_t n)
{
    const __m256i pixel = _mm256_mullo_epi32(_mm256_set1_epi32(channels), _mm256_setr_epi32(0, 1, 2, 3, 0, 1, 2, 3));
    float *rest[4] = { NULL };
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        const uint8_t *p = from + i * channels;
        __m256i v = _mm256_set_m128i(load16(p + (ptrdiff_t)4 * channels), load16(p));

        for (int c = 0; c < channels; c++) {
            __m256i order = _mm256_add_epi32(pixel, _mm256_set1_epi32((int)0x80808000 + c)); /* 0x80: a zero */
            __m256 x = _mm256_cvtepi32_ps(_mm256_shuffle_epi8(v, order));

            _mm256_storeu_ps(to[c] + i, _mm256_fmadd_ps(x, _mm256_set1_ps(scale[c]), _mm256_set1_ps(bias[c])));
        }
    }
    for (int c = 0; c < channels; c++)
        rest[c] = to[c] + i;
    planes_scalar(from + i * channels, channels, scale, bias, rest, n - i);
}

AVX2 static void halves_avx2(const float *from, uint16_t *to, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    halves_scalar(from + i, to + i, n - i);
}

VBMI static void gather_vbmi(const hr_windows *w, const uint8_t *const *from, uint8_t *const *to)
{
    const __mmask64 even = 0x5555555555555555; /* bytes; the others are the high ones of 16 bits */
    uint8_t dense[16];
    __m128i closer;

    memset(dense, 0x80, sizeof dense);
    for (int i = 0; i < 4 * w->channels; i++)
        dense[i] = (uint8_t)(i / w->channels * 4 + i % w->channels);
    closer = load16(dense);
    for (int64_t g = 0; g < w->n; g++) {
        const hr_window *at = &w->windows[g];
        const uint8_t *order = w->order + g * w->steps * 64;
        const int16_t *weights = w->weights + g * w->steps * 32;
        __m512i v[HR_ROWS_AT_ONCE], sum[HR_ROWS_AT_ONCE];

        for (int r = 0; r < HR_ROWS_AT_ONCE; r++) {
            v[r] = _mm512_maskz_loadu_epi8(at->has, from[r] + at->at);
            sum[r] = _mm512_set1_epi32(HALF);
        }
        for (int k = 0; k < w->steps; k++) {
            __m512i bytes = _mm512_loadu_si512(order + (ptrdiff_t)k * 64);
            __m512i by = _mm512_loadu_si512(weights + (ptrdiff_t)k * 32);

            for (int r = 0; r < HR_ROWS_AT_ONCE; r++)
                sum[r] = _mm512_dpwssd_epi32(sum[r], _mm512_maskz_permutexvar_epi8(even, bytes, v[r]), by);
        }
        for (int r = 0; r < HR_ROWS_AT_ONCE; r++) {
            __m128i all = _mm512_cvtusepi32_epi8(_mm512_srai_epi32(sum[r], 14));

            _mm_storeu_si128((__m128i *)(void *)(to[r] + g * 4 * w->channels), _mm_shuffle_epi8(all, closer));
        }
    }
}

VBMI static void planes_vbmi(const uint8_t *from, int channels, const float *scale, const float *bias, float *const *to,
                             int64_t n)
{
    const __mmask64 lowest = 0x1111111111111111;
    __m512i order = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

    order = _mm512_mullo_epi32(order, _mm512_set1_epi32(channels));
    for (int64_t i = 0; i < n; i += 16) {
        int64_t left = HR_MIN(16, n - i), n_bytes = left * channels;
        __mmask64 has = n_bytes == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n_bytes) - 1;
        __mmask16 some = (__mmask16)((1U << left) - 1);
        __m512i v = _mm512_maskz_loadu_epi8(has, from + i * channels);

        for (int c = 0; c < channels; c++) {
            __m512i bytes = _mm512_add_epi32(order, _mm512_set1_epi32(c));
            __m512 x = _mm512_cvtepi32_ps(_mm512_maskz_permutexvar_epi8(lowest, bytes, v));

            _mm512_mask_storeu_ps(to[c] + i, some,
                                  _mm512_fmadd_ps(x, _mm512_set1_ps(scale[c]), _mm512_set1_ps(bias[c])));
        }
    }
}
#endif

/* ------------------------------------------------------------------------------------------------------------ table */

static const hr_resize_kernels table[] = {
#if defined(__x86_64__)
    { HR_CPU_AVX2 | HR_CPU_VBMI, across_avx2, gather_vbmi, precise_avx2, down_avx2, down_precise_avx2, planes_vbmi,
      halves_avx2 },
    { HR_CPU_AVX2, across_avx2, NULL, precise_avx2, down_avx2, down_precise_avx2, planes_avx2, halves_avx2 },
#endif
    { 0, across_scalar, NULL, precise_scalar, down_scalar, down_precise_scalar, planes_scalar, halves_scalar },
};

const hr_resize_kernels *hr__resize_kernels(unsigned cpu)
{
    const hr_resize_kernels *k = table;

    while ((k->needs & cpu) != k->needs)
        k++;
    return k;
}
