/* resize.c - see resize.h.
 *
 * 1. For each column of the result: which source columns it sees, with weights of 14 bits whose sum is exactly 1. The same for
 *    rows, in floating point. Mirroring is only another order of columns.
 * 2. Horizontal pass, for the rows that the result sees: 8 bits in, 8 bits out, four source pixels at a time (in floating point
 *    for filters with negative weights).
 * 3. Vertical pass: a row of the result as whole numbers of 0..255, then scaled, converted and stored where it belongs.
 *
 * Both passes have a scalar kernel and one for AVX2; they differ by rounding in the last bit of a float at most. */
#include "codec/resize.h"

#include <math.h>

#if defined(__x86_64__)
#include <immintrin.h>
#define AVX2 __attribute__((target("avx2,fma,f16c")))
#endif

#define ONE (1 << 14) /* weights of the horizontal pass */
#define PAD 4         /* they are read so many at a time */

/* ------------------------------------------------------------------------------------------------------------- weights */

static double sinc(double x)
{
    double pi = 3.14159265358979323846;

    return x == 0 ? 1 : sin(x * pi) / (x * pi);
}

static double weight_of(hr_image_filter f, double x)
{
    double a = fabs(x);

    switch (f) {
    case HR_FILTER_BILINEAR: return a < 1 ? 1 - a : 0;
    case HR_FILTER_HAMMING: return a == 0 ? 1 : a >= 1 ? 0 : sinc(a) * (0.54 + 0.46 * cos(a * 3.14159265358979323846));
    case HR_FILTER_BICUBIC: return a < 1 ? (1.5 * a - 2.5) * a * a + 1 : a < 2 ? ((a - 5) * a + 8) * a * -0.5 + 2 : 0;
    case HR_FILTER_LANCZOS: return a < 3 ? sinc(a) * sinc(a / 3) : 0;
    default: return x > -0.5 && x <= 0.5 ? 1 : 0;
    }
}

static double support_of(hr_image_filter f)
{
    switch (f) {
    case HR_FILTER_BILINEAR:
    case HR_FILTER_HAMMING: return 1;
    case HR_FILTER_BICUBIC: return 2;
    case HR_FILTER_LANCZOS: return 3;
    default: return 0.5;
    }
}

/* For each of n places of the result along one axis: the first source pixel seen, how many, and their weights. */
typedef struct axis {
    int32_t *first, *count;
    float *weights; /* `room` for each place */
    int16_t *fixed; /* the same, of 14 bits, zeros behind; NULL: not wanted */
    int64_t room;
} axis;

static int64_t room_of(hr_image_filter f, double box, int64_t full)
{
    double scale = HR_MAX(box / (double)full, 1);

    return HR_ROUND_UP((int64_t)ceil(support_of(f) * scale) * 2 + 1, PAD);
}

/* Rounds to 14 bits; what is missing from 1 goes to the heaviest. */
static void fix_weights(const float *w, int16_t *fixed, int n, int64_t room)
{
    int sum = 0, heaviest = 0;

    for (int k = 0; k < n; k++) {
        fixed[k] = (int16_t)lrintf(w[k] * ONE);
        sum += fixed[k];
        heaviest = fixed[k] > fixed[heaviest] ? k : heaviest;
    }
    fixed[heaviest] = (int16_t)(fixed[heaviest] + ONE - sum);
    for (int64_t k = n; k < room; k++)
        fixed[k] = 0;
}

/* One place: as Pillow's precompute_coeffs, so that weights agree. */
static void weigh(axis *a, int64_t i, int64_t at, hr_image_filter f, double begin, double scale, int64_t size)
{
    double wide = HR_MAX(scale, 1), support = support_of(f) * wide, centre = begin + ((double)at + 0.5) * scale,
           sum = 0;
    int64_t low = (int64_t)HR_MAX(centre - support + 0.5, 0), high = HR_MIN((int64_t)(centre + support + 0.5), size);
    float *w = a->weights + i * a->room;
    int n;

    low = HR_MIN(low, size - 1);
    n = (int)HR_MIN(HR_MAX(high - low, 1), a->room);
    for (int k = 0; k < n; k++)
        sum += weight_of(f, ((double)(low + k) - centre + 0.5) / wide);
    for (int k = 0; k < n; k++)
        w[k] = sum != 0 ? (float)(weight_of(f, ((double)(low + k) - centre + 0.5) / wide) / sum) : (float)(k == 0);
    a->first[i] = (int32_t)low;
    a->count[i] = n;
    if (a->fixed)
        fix_weights(w, a->fixed + i * a->room, n, a->room);
}

/* Places [from, from + n) of `full`, each the source pixel that it lies in. Summed up, as Pillow does: borders between two pixels
 * then fall to the same side. */
static void weigh_nearest(axis *a, int64_t from, int64_t n, int64_t full, bool flip, double begin, double scale,
                          int64_t size)
{
    double at = begin + scale * 0.5;

    for (int64_t k = 0; k < full; k++, at += scale) {
        int64_t i = (flip ? full - 1 - k : k) - from;

        if (i < 0 || i >= n)
            continue;
        a->first[i] = (int32_t)HR_MAX(0, HR_MIN((int64_t)at, size - 1));
        a->count[i] = 1;
        a->weights[i * a->room] = 1;
        if (a->fixed)
            fix_weights(a->weights + i * a->room, a->fixed + i * a->room, 1, a->room);
    }
}

static void weigh_all(axis *a, int64_t from, int64_t n, int64_t full, bool flip, hr_image_filter f, double begin,
                      double box, int64_t size)
{
    double scale = box / (double)full;

    if (f == HR_FILTER_NEAREST) {
        weigh_nearest(a, from, n, full, flip, begin, scale, size);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        weigh(a, i, flip ? full - 1 - from - i : from + i, f, begin, scale, size);
}

/* -------------------------------------------------------------------------------------------------------------- passes */

typedef void across_fn(const axis *a, const uint8_t *from, uint8_t *to, int64_t n, int channels);
typedef void down_fn(const uint8_t *from, int64_t stride, const float *weights, int count, float *to, int64_t n);

static uint8_t clip(int v) { return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v); }

static void across_scalar(const axis *a, const uint8_t *from, uint8_t *to, int64_t n, int channels)
{
    for (int64_t i = 0; i < n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const int16_t *w = a->fixed + i * a->room;
        int sum[4] = { ONE / 2, ONE / 2, ONE / 2, ONE / 2 };

        for (int k = 0; k < a->count[i]; k++, p += channels) {
            for (int c = 0; c < channels; c++)
                sum[c] += w[k] * p[c];
        }
        for (int c = 0; c < channels; c++)
            to[c] = clip(sum[c] >> 14);
    }
}

static void down_scalar(const uint8_t *from, int64_t stride, const float *weights, int count, float *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;

        for (int k = 0; k < count; k++)
            sum += weights[k] * (float)from[k * stride + i];
        to[i] = sum < 0 ? 0 : sum > 255 ? 255 : floorf(sum + 0.5F);
    }
}

/* The same with weights as they are: a filter with negative weights makes more of what rounding them changed. */
static void precise_scalar(const axis *a, const uint8_t *from, uint8_t *to, int64_t n, int channels)
{
    for (int64_t i = 0; i < n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const float *w = a->weights + i * a->room;
        float sum[4] = { 0.5F, 0.5F, 0.5F, 0.5F };

        for (int k = 0; k < a->count[i]; k++, p += channels) {
            for (int c = 0; c < channels; c++)
                sum[c] += w[k] * (float)p[c];
        }
        for (int c = 0; c < channels; c++)
            to[c] = (uint8_t)(sum[c] < 0 ? 0 : sum[c] > 255 ? 255 : sum[c]);
    }
}

#ifdef AVX2
AVX2 static void precise_avx2(const axis *a, const uint8_t *from, uint8_t *to, int64_t n, int channels)
{
    const __m128i order = channels == 3 ? _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1)
                                        : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, -1, -1, -1, -1, -1, -1, -1, -1);

    if (channels < 3) {
        precise_scalar(a, from, to, n, channels);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const float *w = a->weights + i * a->room;
        __m256 sum = _mm256_setzero_ps();
        __m128i all;
        uint32_t v;

        for (int k = 0; k < a->count[i]; k += 2, p += (ptrdiff_t)2 * channels) {
            __m128i two = _mm_shuffle_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p), order);
            __m256 weights = _mm256_set_m128(_mm_set1_ps(k + 1 < a->count[i] ? w[k + 1] : 0), _mm_set1_ps(w[k]));

            sum = _mm256_fmadd_ps(weights, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(two)), sum);
        }
        all = _mm_cvttps_epi32(_mm_max_ps(
            _mm_add_ps(_mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1)), _mm_set1_ps(0.5F)),
            _mm_setzero_ps()));
        all = _mm_packus_epi16(_mm_packs_epi32(all, all), all);
        v = (uint32_t)_mm_cvtsi128_si32(all);
        memcpy(to, &v, 4);
    }
}

/* Four pixels of three or four channels become pairs of 16-bit values: pixels 0 and 1 in the low half, 2 and 3 in the high. */
AVX2 static void across_avx2(const axis *a, const uint8_t *from, uint8_t *to, int64_t n, int channels)
{
    const __m256i three = _mm256_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1, /* */
                                           6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1);
    const __m256i four = _mm256_setr_epi8(0, -1, 4, -1, 1, -1, 5, -1, 2, -1, 6, -1, 3, -1, 7, -1, /* */
                                          8, -1, 12, -1, 9, -1, 13, -1, 10, -1, 14, -1, 11, -1, 15, -1);
    const __m256i weights = _mm256_setr_epi8(0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, /* */
                                             4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7);
    const __m256i order = channels == 3 ? three : four;

    if (channels < 3) {
        across_scalar(a, from, to, n, channels);
        return;
    }
    for (int64_t i = 0; i < n; i++, to += channels) {
        const uint8_t *p = from + (int64_t)a->first[i] * channels;
        const int16_t *w = a->fixed + i * a->room;
        __m256i sum = _mm256_setzero_si256();
        __m128i all;
        uint32_t v;

        for (int k = 0; k < a->count[i]; k += PAD, p += PAD * channels) {
            __m256i pixels = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)p));
            int64_t packed;

            memcpy(&packed, w + k, 8);
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_shuffle_epi8(pixels, order),
                                                          _mm256_shuffle_epi8(_mm256_set1_epi64x(packed), weights)));
        }
        all = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
        all = _mm_srai_epi32(_mm_add_epi32(all, _mm_set1_epi32(ONE / 2)), 14);
        all = _mm_packus_epi16(_mm_packs_epi32(all, all), all);
        v = (uint32_t)_mm_cvtsi128_si32(all);
        memcpy(to, &v, 4); /* of three channels the fourth byte is the next pixel's, or beyond the row */
    }
}

AVX2 static void down_avx2(const uint8_t *from, int64_t stride, const float *weights, int count, float *to, int64_t n)
{
    const __m256 low = _mm256_setzero_ps(), high = _mm256_set1_ps(255), half = _mm256_set1_ps(0.5F);
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        __m256 a = _mm256_setzero_ps(), b = a;

        for (int k = 0; k < count; k++) {
            __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(from + k * stride + i));
            __m256 w = _mm256_broadcast_ss(weights + k);

            a = _mm256_fmadd_ps(w, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v)), a);
            b = _mm256_fmadd_ps(w, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(v, 8))), b);
        }
        _mm256_storeu_ps(to + i, _mm256_min_ps(_mm256_max_ps(_mm256_floor_ps(_mm256_add_ps(a, half)), low), high));
        _mm256_storeu_ps(to + i + 8, _mm256_min_ps(_mm256_max_ps(_mm256_floor_ps(_mm256_add_ps(b, half)), low), high));
    }
    down_scalar(from + i, stride, weights, count, to + i, n - i);
}
#endif

/* --------------------------------------------------------------------------------------------------------------- sinks */

static uint16_t brain_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* to the nearest, ties to even; v is a number */
}

/* Every `step`th of n floats, scaled. */
static inline __attribute__((always_inline)) void scaled(const float *v, int step, float scale, float bias, float *to,
                                                         int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = v[i * step] * scale + bias;
}

static inline __attribute__((always_inline)) void plane(const float *v, int step, float scale, float bias, float *to,
                                                        int64_t n)
{
    if (step == 3)
        scaled(v, 3, scale, bias, to, n);
    else if (step == 1)
        scaled(v, 1, scale, bias, to, n);
    else
        scaled(v, step, scale, bias, to, n);
}

typedef void plane_fn(const float *v, int step, float scale, float bias, float *to, int64_t n);
typedef void halves_fn(const float *v, uint16_t *to, int64_t n);

static void plane_scalar(const float *v, int step, float scale, float bias, float *to, int64_t n)
{
    plane(v, step, scale, bias, to, n);
}

static void halves_scalar(const float *v, uint16_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = hr__half_of((double)v[i]);
}

#ifdef AVX2
AVX2 static void plane_avx2(const float *v, int step, float scale, float bias, float *to, int64_t n)
{
    plane(v, step, scale, bias, to, n);
}

AVX2 static void halves_avx2(const float *v, uint16_t *to, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(void *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(v + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    halves_scalar(v + i, to + i, n - i);
}
#endif

typedef struct kernels {
    unsigned needs;
    across_fn *across, *precise;
    down_fn *down;
    plane_fn *plane;
    halves_fn *halves;
} kernels;

static const kernels table[] = {
#ifdef AVX2
    { HR_CPU_AVX2, across_avx2, precise_avx2, down_avx2, plane_avx2, halves_avx2 },
#endif
    { 0, across_scalar, precise_scalar, down_scalar, plane_scalar, halves_scalar },
};

/* n floats to where they belong, in the sink's type. `spare` holds n floats. */
static void store(const kernels *k, const hr_pixel_sink *to, const float *v, int64_t place, int64_t n, float *spare)
{
    uint16_t *half = (uint16_t *)(void *)to->out + place;

    (void)spare;
    if (to->type == HR_PIXEL_FLOAT32)
        memcpy((float *)(void *)to->out + place, v, (size_t)n * 4);
    else if (to->type == HR_PIXEL_FLOAT16)
        k->halves(v, half, n);
    else
        for (int64_t i = 0; i < n; i++)
            half[i] = brain_of(v[i]);
}

/* Row y of the result, w pixels of 0..255 with their channels together. `spare` holds w * channels floats. */
static void put_row(const kernels *k, const hr_pixel_sink *to, const float *v, int64_t y, int64_t w, int channels,
                    float *spare)
{
    int64_t row = (to->at_y + y) * to->width + to->at_x;

    if (to->type == HR_PIXEL_UINT8) {
        for (int c = 0; c < channels && to->planar; c++) {
            uint8_t *p = to->out + c * to->width * to->height + row;

            for (int64_t x = 0; x < w; x++)
                p[x] = (uint8_t)v[x * channels + c];
        }
        for (int64_t i = 0; i < w * channels && !to->planar; i++)
            to->out[row * channels + i] = (uint8_t)v[i];
        return;
    }
    if (to->planar) {
        for (int c = 0; c < channels; c++) {
            int64_t place = c * to->width * to->height + row;
            float *direct = to->type == HR_PIXEL_FLOAT32 ? (float *)(void *)to->out + place : spare;

            k->plane(v + c, channels, to->scale[c], to->bias[c], direct, w);
            if (direct == spare)
                store(k, to, spare, place, w, spare);
        }
        return;
    }
    for (int64_t x = 0; x < w; x++) {
        for (int c = 0; c < channels; c++)
            spare[x * channels + c] = v[x * channels + c] * to->scale[c] + to->bias[c];
    }
    store(k, to, spare, row * channels, w * channels, spare);
}

void hr__pixel_sink_blank(const hr_pixel_sink *to, int channels)
{
    int64_t n = to->width * to->height;

    for (int64_t i = 0; i < n * channels; i++) {
        float v = to->type == HR_PIXEL_UINT8 ? 0 : to->bias[to->planar ? i / n : i % channels];

        if (to->type == HR_PIXEL_UINT8)
            to->out[i] = 0;
        else
            store(&table[HR_LEN(table) - 1], to, &v, i, 1, NULL);
    }
}

/* ---------------------------------------------------------------------------------------------------------- all of it */

/* All scratch memory in one piece, in this order. */
typedef struct work {
    hr_buffer *buffer;
    axis x, y;
    float *row, *spare;
    uint8_t *middle; /* what the horizontal pass gives: rows [top, top + rows) of the source */
    int64_t top, rows, middle_stride;
} work;

static void *cut(uint8_t **at, int64_t n_bytes)
{
    void *p = *at;

    *at += HR_ROUND_UP(n_bytes, 64);
    return p;
}

static hr_status work_new(const hr_resample *r, hr_account *account, work *k, hr_error *err)
{
    int64_t rx = room_of(r->filter, r->box_w, r->full_w), ry = room_of(r->filter, r->box_h, r->full_h);
    int64_t row = r->w * r->channels, scale = (int64_t)ceil(r->box_h / (double)r->full_h) + 1;
    int64_t rows = HR_MIN(r->height, (r->h + 1) * scale + 2 * ry + 2); /* what h rows can see */
    int64_t n = HR_ROUND_UP(r->w * (8 + 6 * rx), 64) + HR_ROUND_UP(r->h * (8 + 4 * ry), 64) + row * 8 + 64 * 10;
    uint8_t *at;

    k->middle_stride = HR_ROUND_UP(row, 16) + 16;
    HR_TRY(hr__buffer_new(&(hr_mem){ account, NULL }, n + rows * k->middle_stride, &k->buffer, err));
    at = k->buffer->data;
    k->x = (axis){ cut(&at, r->w * 4), cut(&at, r->w * 4), cut(&at, r->w * rx * 4), cut(&at, r->w * rx * 2), rx };
    k->y = (axis){ cut(&at, r->h * 4), cut(&at, r->h * 4), cut(&at, r->h * ry * 4), NULL, ry };
    k->row = cut(&at, row * 4);
    k->spare = cut(&at, row * 4);
    k->middle = at;
    k->rows = rows;
    return HR_OK;
}

hr_status hr__image_resample_by(unsigned cpu, const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch,
                                hr_error *err)
{
    const kernels *best = table;
    int64_t bottom = 0, top = INT64_MAX;
    hr_status st = HR_OK;
    work k = { 0 };

    while ((best->needs & cpu) != best->needs)
        best++;
    HR_GO(work_new(r, scratch, &k, err));
    weigh_all(&k.x, r->x, r->w, r->full_w, r->flip, r->filter, r->box_x, r->box_w, r->width);
    weigh_all(&k.y, r->y, r->h, r->full_h, false, r->filter, r->box_y, r->box_h, r->height);
    for (int64_t i = 0; i < r->h; i++) {
        top = HR_MIN(top, k.y.first[i]);
        bottom = HR_MAX(bottom, k.y.first[i] + k.y.count[i]);
    }
    if (bottom - top > k.rows)
        HR_FAIL(HR_BUG, "resize: %lld rows are seen, room for %lld", (long long)(bottom - top), (long long)k.rows);
    for (int64_t y = top; y < bottom; y++) { /* the last rows may have nothing readable behind them */
        const kernels *safe = (r->height - 1 - y) * r->stride >= 32 ? best : &table[HR_LEN(table) - 1];
        across_fn *across =
            r->filter == HR_FILTER_BICUBIC || r->filter == HR_FILTER_LANCZOS ? safe->precise : safe->across;

        across(&k.x, r->data + y * r->stride, k.middle + (y - top) * k.middle_stride, r->w, r->channels);
    }
    for (int64_t i = 0; i < r->h; i++) {
        best->down(k.middle + (k.y.first[i] - top) * k.middle_stride, k.middle_stride, k.y.weights + i * k.y.room,
                   k.y.count[i], k.row, r->w * r->channels);
        put_row(best, to, k.row, i, r->w, r->channels, k.spare);
    }
done:
    hr__buffer_unref(k.buffer);
    return st;
}

hr_status hr__image_resample(const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch, hr_error *err)
{
    return hr__image_resample_by(hr__cpu_features(), r, to, scratch, err);
}
