/* resize_kernels.h - the loops of resize.c over pixels, in the best form for the CPU.
 *
 * Values have 8 bits, weights 14 bits with a sum of exactly 1, so that all forms give the same; filters with negative
 * weights use floats (`precise`), since a rounded weight changes them more. */
#ifndef HR_RESIZE_KERNELS_H
#define HR_RESIZE_KERNELS_H

#include "data/data.h"

#define HR_WEIGHT_ONE (1 << 14)
#define HR_WEIGHT_PAD 4 /* the number of weights that one step reads */
#define HR_ROW_PAD 64   /* the bytes after our own rows, which kernels may read and overwrite */
#define HR_ROWS_AT_ONCE 4

/* For each of n pixels of the result along one axis: the first source pixel, the number of source pixels, and their
 * weights. */
typedef struct hr_axis {
    int64_t n;
    int32_t *first, *count;
    float *weights; /* `room` for each pixel */
    int16_t *fixed; /* the same in 14 bits, zeros after */
    int64_t room;
} hr_axis;

/* The same for four neighbours of the result: a window of 64 source bytes that holds all their source pixels and, for
 * each two weights, the bytes of the window for each value. */
#define HR_WINDOW_BYTES 64
typedef struct hr_window {
    int64_t at;   /* byte in the source row */
    uint64_t has; /* the bytes of the window that are inside the row */
} hr_window;
typedef struct hr_windows {
    int64_t n; /* of four pixels; 0: they do not fit */
    int steps;
    int channels;
    hr_window *windows;
    uint8_t *order;   /* steps x 64 for each */
    int16_t *weights; /* steps x 32 for each */
} hr_windows;
/* The bytes of its arrays, for n pixels with `room` weights each; 0: they do not fit. */
int64_t hr__windows_bytes(int64_t n, int64_t room, int channels);
/* Cuts the arrays out of `at` and fills them; w->n stays 0 if some window is too small. */
void hr__windows_fill(hr_windows *w, uint8_t *at, const hr_axis *a, int64_t width, int channels);

typedef struct hr_resize_kernels {
    unsigned needs;
    /* Four rows; may write HR_ROW_PAD bytes beyond the end of `to`, and read 16 beyond that of `from`. */
    void (*across)(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels);
    /* The same by windows; reads no byte beyond the rows. NULL: not for this CPU. */
    void (*gather)(const hr_windows *w, const uint8_t *const *from, uint8_t *const *to);
    void (*across_precise)(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels);
    /* `count` rows of n bytes into one. */
    void (*down)(const uint8_t *from, int64_t stride, const int16_t *weights, int count, uint8_t *to, int64_t n);
    void (*down_precise)(const uint8_t *from, int64_t stride, const float *weights, int count, uint8_t *to, int64_t n);
    /* n pixels into a row of floats for each channel: value * scale + bias. */
    void (*planes)(const uint8_t *from, int channels, const float *scale, const float *bias, float *const *to,
                   int64_t n);
    void (*halves)(const float *from, uint16_t *to, int64_t n);
} hr_resize_kernels;
/* The best kernels for these CPU features. */
const hr_resize_kernels *hr__resize_kernels(unsigned cpu);

#endif
