/* resize_kernels.h - the loops of resize.c over pixels, in the form that this CPU runs best.
 *
 * Values are 8 bits, weights of 14 bits whose sum is exactly 1, so that all forms give the same; filters with negative
 * weights go through floats (`precise`), since rounding a weight changes them more. */
#ifndef HR_RESIZE_KERNELS_H
#define HR_RESIZE_KERNELS_H

#include "data/data.h"

#define HR_WEIGHT_ONE (1 << 14)
#define HR_WEIGHT_PAD 4 /* weights are read so many at a time */
#define HR_ROW_PAD 64   /* rows of our own have so many bytes behind them: read, or written with anything */
#define HR_ROWS_AT_ONCE 4

/* For each of n places of the result along one axis: the first source pixel seen, how many, and their weights. */
typedef struct hr_axis {
    int64_t n;
    int32_t *first, *count;
    float *weights; /* `room` for each place */
    int16_t *fixed; /* the same, of 14 bits, zeros behind */
    int64_t room;
} hr_axis;

/* The same for four neighbours of the result at once: a window of 64 source bytes that holds all they see, and, for
 * each two weights, which of its bytes belong to each value. */
#define HR_WINDOW_BYTES 64
typedef struct hr_window {
    int64_t at;   /* byte in the source row */
    uint64_t has; /* which bytes of the window are inside of the row */
} hr_window;
typedef struct hr_windows {
    int64_t n; /* of four places; 0: they would not fit */
    int steps;
    int channels;
    hr_window *windows;
    uint8_t *order;   /* steps x 64 for each */
    int16_t *weights; /* steps x 32 for each */
} hr_windows;
/* Bytes of its arrays, for n places with room for so many weights; 0: they would not fit. */
int64_t hr__windows_bytes(int64_t n, int64_t room, int channels);
/* Cuts the arrays out of `at` and fills them; w->n stays 0 if some window is too small. */
void hr__windows_fill(hr_windows *w, uint8_t *at, const hr_axis *a, int64_t width, int channels);

typedef struct hr_resize_kernels {
    unsigned needs;
    /* Four rows; `to` may be written HR_ROW_PAD bytes beyond its end, `from` read 16. */
    void (*across)(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels);
    /* The same by windows; reads no byte beyond the rows. NULL: none. */
    void (*gather)(const hr_windows *w, const uint8_t *const *from, uint8_t *const *to);
    void (*across_precise)(const hr_axis *a, const uint8_t *const *from, uint8_t *const *to, int channels);
    /* `count` rows into one of n bytes. */
    void (*down)(const uint8_t *from, int64_t stride, const int16_t *weights, int count, uint8_t *to, int64_t n);
    void (*down_precise)(const uint8_t *from, int64_t stride, const float *weights, int count, uint8_t *to, int64_t n);
    /* n pixels into one row of floats for each channel, each value * scale + bias. */
    void (*planes)(const uint8_t *from, int channels, const float *scale, const float *bias, float *const *to,
                   int64_t n);
    void (*halves)(const float *from, uint16_t *to, int64_t n);
} hr_resize_kernels;
/* The best that these CPU features allow. */
const hr_resize_kernels *hr__resize_kernels(unsigned cpu);

#endif
