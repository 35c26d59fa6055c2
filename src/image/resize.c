/* resize.c - see resize.h.
 *
 * 1. For each column of the result: its source columns, with weights of 14 bits whose sum is exactly 1; the same for
 *    rows. Mirroring is only another order of columns.
 * 2. Horizontal pass, for the source rows that the result needs: 8 bits in, 8 bits out, four rows at a time.
 * 3. Vertical pass: computes a row of the result in 8 bits, then scales, converts and stores it.
 *
 * The loops over pixels are in resize_kernels.c, once for each kind of CPU. All forms give the same pixels, with two
 * exceptions: a float may differ in its last bit, and a filter with negative weights where its sum is a tie.
 *
 * Tests: test_pixels.c. */
#include "image/resize.h"

#include "image/resize_kernels.h"

#include <math.h>

/* ---------------------------------------------------------------------------------------------------------- weights */

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

static int64_t room_of(hr_image_filter f, double box, int64_t full)
{
    double scale = HR_MAX(box / (double)full, 1);

    return HR_ROUND_UP((int64_t)ceil(support_of(f) * scale) * 2 + 1, HR_WEIGHT_PAD);
}

/* Rounds to 14 bits, and adds the difference from 1 to the largest weight. */
static void fix_weights(const float *w, int16_t *fixed, int n, int64_t room)
{
    int sum = 0, heaviest = 0;

    for (int k = 0; k < n; k++) {
        fixed[k] = (int16_t)lrintf(w[k] * HR_WEIGHT_ONE);
        sum += fixed[k];
        heaviest = fixed[k] > fixed[heaviest] ? k : heaviest;
    }
    fixed[heaviest] = (int16_t)(fixed[heaviest] + HR_WEIGHT_ONE - sum);
    for (int64_t k = n; k < room; k++)
        fixed[k] = 0;
}

/* The weights of one pixel of the result, computed as in Pillow's precompute_coeffs, so that they agree. */
static void weigh(hr_axis *a, int64_t i, int64_t at, hr_image_filter f, double begin, double scale, int64_t size)
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
    fix_weights(w, a->fixed + i * a->room, n, a->room);
}

/* The nearest filter: the source pixel of each of [from, from + n). Adds up the steps as Pillow does, so that borders
 * between two pixels fall to the same side. */
static void weigh_nearest(hr_axis *a, int64_t from, int64_t n, int64_t full, bool flip, double begin, double scale,
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
        fix_weights(a->weights + i * a->room, a->fixed + i * a->room, 1, a->room);
    }
}

static void weigh_all(hr_axis *a, int64_t from, int64_t n, int64_t full, bool flip, hr_image_filter f, double begin,
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

/* ------------------------------------------------------------------------------------------------------------ sinks */

static uint16_t brain_of(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, 4);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* rounds to nearest even; v is a number */
}

/* Stores n floats in the sink's type. */
static void store(const hr_resize_kernels *k, const hr_pixel_sink *to, const float *v, int64_t place, int64_t n)
{
    uint16_t *half = (uint16_t *)(void *)to->out + place;

    if (to->type == HR_PIXEL_FLOAT32) {
        memcpy((float *)(void *)to->out + place, v, (size_t)n * 4);
    } else if (to->type == HR_PIXEL_FLOAT16) {
        k->halves(v, half, n);
    } else {
        for (int64_t i = 0; i < n; i++)
            half[i] = brain_of(v[i]);
    }
}

static void put_bytes(const hr_pixel_sink *to, const uint8_t *v, int64_t row, int64_t w, int channels)
{
    if (!to->planar) {
        memcpy(to->out + row * channels, v, (size_t)(w * channels));
        return;
    }
    for (int c = 0; c < channels; c++) {
        uint8_t *p = to->out + c * to->width * to->height + row;

        for (int64_t x = 0; x < w; x++)
            p[x] = v[x * channels + c];
    }
}

/* Stores row y of the result, w pixels with their channels together. `spare` holds w * channels floats. */
static void put_row(const hr_resize_kernels *k, const hr_pixel_sink *to, const uint8_t *v, int64_t y, int64_t w,
                    int channels, float *spare)
{
    int64_t row = (to->at_y + y) * to->width + to->at_x;
    float *planes[4] = { NULL };

    if (to->type == HR_PIXEL_UINT8) {
        put_bytes(to, v, row, w, channels);
    } else if (to->planar) {
        for (int c = 0; c < channels; c++)
            planes[c] = to->type == HR_PIXEL_FLOAT32 ? (float *)(void *)to->out + c * to->width * to->height + row
                                                     : spare + c * w;
        k->planes(v, channels, to->scale, to->bias, planes, w);
        for (int c = 0; c < channels && to->type != HR_PIXEL_FLOAT32; c++)
            store(k, to, planes[c], c * to->width * to->height + row, w);
    } else {
        for (int64_t x = 0; x < w; x++) {
            for (int c = 0; c < channels; c++)
                spare[x * channels + c] = (float)v[x * channels + c] * to->scale[c] + to->bias[c];
        }
        store(k, to, spare, row * channels, w * channels);
    }
}

void hr__pixel_sink_blank(const hr_pixel_sink *to, int channels)
{
    int64_t n = to->width * to->height;

    for (int64_t i = 0; i < n * channels; i++) {
        float v = to->type == HR_PIXEL_UINT8 ? 0 : to->bias[to->planar ? i / n : i % channels];

        if (to->type == HR_PIXEL_UINT8)
            to->out[i] = 0;
        else
            store(hr__resize_kernels(0), to, &v, i, 1);
    }
}

/* -------------------------------------------------------------------------------------------------------- all of it */

/* All scratch memory is one block, in this order. */
typedef struct work {
    const hr_resize_kernels *best;
    hr_buffer *buffer;
    hr_axis x, y;
    hr_windows windows;
    float *spare;
    uint8_t *row;
    uint8_t *middle; /* the output of the horizontal pass: rows [top, top + rows) of the source */
    int64_t top, rows, middle_stride;
} work;

static void *cut(uint8_t **at, int64_t n_bytes)
{
    void *p = *at;

    *at += HR_ROUND_UP(n_bytes, 64);
    return p;
}

static hr_axis cut_axis(uint8_t **at, int64_t n, int64_t room)
{
    hr_axis a = { .n = n, .room = room };

    a.first = cut(at, n * 4);
    a.count = cut(at, n * 4);
    a.weights = cut(at, n * room * 4);
    a.fixed = cut(at, n * room * 2);
    return a;
}

static int64_t axis_bytes(int64_t n, int64_t room) { return n * (8 + 6 * room) + 64 * 4; }

static bool is_precise(hr_image_filter f) { return f == HR_FILTER_BICUBIC || f == HR_FILTER_LANCZOS; }

static hr_status work_new(const hr_resample *r, hr_account *account, work *k, hr_error *err)
{
    int64_t rx = room_of(r->filter, r->box_w, r->full_w), ry = room_of(r->filter, r->box_h, r->full_h);
    int64_t row = r->w * r->channels, scale = (int64_t)ceil(r->box_h / (double)r->full_h) + 1;
    int64_t rows = HR_MIN(r->height, (r->h + 1) * scale + 2 * ry + 2); /* the most source rows that h rows need */
    int64_t n_windows = k->best->gather && !is_precise(r->filter) ? hr__windows_bytes(r->w, rx, r->channels) : 0;
    int64_t n = axis_bytes(r->w, rx) + axis_bytes(r->h, ry) + n_windows + row * 5 + HR_ROW_PAD + 64 * 4;
    uint8_t *at;

    k->middle_stride = HR_ROUND_UP(row, 64) + HR_ROW_PAD;
    HR_TRY(hr__buffer_new(&(hr_mem){ account, NULL }, n + rows * k->middle_stride, &k->buffer, err));
    at = k->buffer->data;
    k->x = cut_axis(&at, r->w, rx);
    k->y = cut_axis(&at, r->h, ry);
    k->spare = cut(&at, row * 4);
    k->row = cut(&at, row + HR_ROW_PAD);
    weigh_all(&k->x, r->x, r->w, r->full_w, r->flip, r->filter, r->box_x, r->box_w, r->width);
    weigh_all(&k->y, r->y, r->h, r->full_h, false, r->filter, r->box_y, r->box_h, r->height);
    if (n_windows)
        hr__windows_fill(&k->windows, cut(&at, n_windows), &k->x, r->width, r->channels);
    k->middle = at;
    k->rows = rows;
    return HR_OK;
}

/* The horizontal pass for rows [y, y + n), n at most four; the last row replaces a missing one. */
static void across_rows(const work *k, const hr_resample *r, int64_t y, int64_t n)
{
    bool safe = (r->height - y - n) * r->stride >= 32; /* the bytes after the last rows may be unreadable */
    const hr_resize_kernels *best = safe ? k->best : hr__resize_kernels(0);
    const uint8_t *from[HR_ROWS_AT_ONCE];
    uint8_t *to[HR_ROWS_AT_ONCE];

    for (int64_t i = 0; i < HR_ROWS_AT_ONCE; i++) {
        from[i] = r->data + (y + HR_MIN(i, n - 1)) * r->stride;
        to[i] = k->middle + (y + HR_MIN(i, n - 1) - k->top) * k->middle_stride;
    }
    if (is_precise(r->filter))
        best->across_precise(&k->x, from, to, r->channels);
    else if (k->windows.n)
        k->best->gather(&k->windows, from, to);
    else
        best->across(&k->x, from, to, r->channels);
}

static void down_row(const work *k, const hr_resample *r, int64_t i)
{
    const uint8_t *from = k->middle + (k->y.first[i] - k->top) * k->middle_stride;
    int64_t n = r->w * r->channels;

    if (is_precise(r->filter))
        k->best->down_precise(from, k->middle_stride, k->y.weights + i * k->y.room, k->y.count[i], k->row, n);
    else
        k->best->down(from, k->middle_stride, k->y.fixed + i * k->y.room, k->y.count[i], k->row, n);
}

hr_status hr__image_resample_by(unsigned cpu, const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch,
                                hr_error *err)
{
    work k = { .best = hr__resize_kernels(cpu), .top = INT64_MAX };
    int64_t bottom = 0;
    hr_status st = HR_OK;

    HR_GO(work_new(r, scratch, &k, err));
    for (int64_t i = 0; i < r->h; i++) {
        k.top = HR_MIN(k.top, k.y.first[i]);
        bottom = HR_MAX(bottom, k.y.first[i] + k.y.count[i]);
    }
    if (bottom - k.top > k.rows)
        HR_FAIL(HR_BUG, "resize: the result needs %lld rows, the scratch memory has room for %lld",
                (long long)(bottom - k.top), (long long)k.rows);
    for (int64_t y = k.top; y < bottom; y += HR_ROWS_AT_ONCE)
        across_rows(&k, r, y, HR_MIN(HR_ROWS_AT_ONCE, bottom - y));
    for (int64_t i = 0; i < r->h; i++) {
        down_row(&k, r, i);
        put_row(k.best, to, k.row, i, r->w, r->channels, k.spare);
    }
done:
    hr__buffer_unref(k.buffer);
    return st;
}

hr_status hr__image_resample(const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch, hr_error *err)
{
    return hr__image_resample_by(hr__cpu_features(), r, to, scratch, err);
}
