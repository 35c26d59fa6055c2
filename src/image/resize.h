/* resize.h - resizes pixels, and converts their type and layout, in one pass.
 *
 * The filters are Pillow's: separable, antialiased (their support grows with the reduction), rounded to 8 bits between
 * the horizontal and the vertical pass. The result differs from that of Pillow's resize() by at most 1/255. */
#ifndef HR_RESIZE_H
#define HR_RESIZE_H

#include "image/pixels.h"

typedef enum hr_image_filter { /* names: see HR_IMAGE_FILTERS */
                               HR_FILTER_NEAREST,
                               HR_FILTER_BOX,
                               HR_FILTER_BILINEAR,
                               HR_FILTER_HAMMING,
                               HR_FILTER_BICUBIC,
                               HR_FILTER_LANCZOS,
                               HR_FILTER_AREA /* another name of box */
} hr_image_filter;
#define HR_IMAGE_FILTERS "nearest box bilinear hamming bicubic lanczos area"

/* The source pixels, the size that they are resized to, and the part of the result that is computed. */
typedef struct hr_resample {
    const uint8_t *data; /* the first pixel of the available source */
    int64_t stride, width, height;
    int channels;
    double box_x, box_y, box_w, box_h; /* the box of the source that becomes the result */
    int64_t full_w, full_h;            /* size of the result */
    int64_t x, y, w, h;                /* the part of the result that is computed; after mirroring */
    bool flip;                         /* mirrored, left to right */
    hr_image_filter filter;
} hr_resample;

typedef enum hr_pixel_type { HR_PIXEL_UINT8, HR_PIXEL_FLOAT32, HR_PIXEL_FLOAT16, HR_PIXEL_BFLOAT16 } hr_pixel_type;
#define HR_PIXEL_TYPES "uint8 float32 float16 bfloat16"
static inline int hr__pixel_type_bytes(hr_pixel_type t)
{
    return t == HR_PIXEL_UINT8 ? 1 : t == HR_PIXEL_FLOAT32 ? 4 : 2;
}

/* The destination: pixel (x, y) of the result is (at_x + x, at_y + y) of an image of width x height at `out`. */
typedef struct hr_pixel_sink {
    uint8_t *out;
    int64_t width, height, at_x, at_y;
    hr_pixel_type type;
    bool planar;             /* (channels, height, width) instead of (height, width, channels) */
    float scale[4], bias[4]; /* of each channel: value * scale + bias; not for uint8 */
} hr_pixel_sink;

hr_status hr__image_resample(const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch,
                             hr_error *err) HR_MUST_USE;
/* The same by kernels that need only these CPU features, for tests. */
hr_status hr__image_resample_by(unsigned cpu, const hr_resample *r, const hr_pixel_sink *to, hr_account *scratch,
                                hr_error *err) HR_MUST_USE;
/* Fills the sink's image with the value of 0: the border around an image that is smaller than its place. */
void hr__pixel_sink_blank(const hr_pixel_sink *to, int channels);

#endif
