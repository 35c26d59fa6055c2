/* image_chain.h - the steps on one image, from its file's bytes to the tensor of a batch, in one pass.
 *
 * A chain is a list of steps: decode, resize, center_crop, random_resized_crop, random_flip, normalize. Each image is
 * planned from its header alone: the plan follows crops, mirroring and the input of resizes back through the steps, so
 * that only the needed region is decoded and only the needed pixels are resized. Pixels are normalized when they are
 * stored.
 *
 * Random steps are functions of (seed, epoch, coordinate of the row), and of the step's own seed and index among the
 * random steps. */
#ifndef HR_IMAGE_CHAIN_H
#define HR_IMAGE_CHAIN_H

#include "image/pixels.h"
#include "image/resize.h"

#define HR_IMAGE_MAX_STEPS 16

typedef enum hr_image_step_kind {
    HR_STEP_DECODE, /* only as the first step; without it the chain begins with pixels */
    HR_STEP_RESIZE,
    HR_STEP_CENTER_CROP,
    HR_STEP_RANDOM_CROP, /* random_resized_crop */
    HR_STEP_RANDOM_FLIP,
    HR_STEP_NORMALIZE /* only as the last step */
} hr_image_step_kind;

typedef struct hr_image_step {
    hr_image_step_kind kind;
    /* decode */
    hr_pixel_mode mode;
    bool exif, truncated_ok, exact;
    int64_t max_pixels;
    /* resize, crops */
    int64_t h, w;
    hr_image_filter filter;
    double scale[2], ratio[2];
    /* random steps */
    uint64_t seed;
    double p;
    /* normalize; n: the number of means, 1 (for all channels) to 4 */
    double mean[4], std[4];
    int n_mean, n_std;
    hr_pixel_type type;
    bool planar;
} hr_image_step;

typedef struct hr_image_chain {
    int n;
    hr_image_step steps[HR_IMAGE_MAX_STEPS];
} hr_image_chain;

/* Appends a step. HR_INVALID: the step cannot follow the last one, or its numbers are out of range. */
hr_status hr__image_chain_add(hr_image_chain *c, const hr_image_step *step, hr_error *err) HR_MUST_USE;
/* The type of the result: a tensor if all rows have one shape, else a ragged tensor. Grey images are (height, width),
 * except planar ones and those from a column whose images have a third dimension of 1. `in`: the type of the input;
 * NULL or binary: the bytes of images. HR_TYPE if `in` holds no images. */
hr_status hr__image_chain_type(const hr_image_chain *c, const hr_type *in, hr_type **out, hr_error *err) HR_MUST_USE;

/* The key of the random numbers of one row. */
typedef struct hr_image_dice {
    uint64_t seed;
    int64_t epoch;
    hr_coord at;
} hr_image_dice;

/* One image, planned. */
typedef struct hr_image_stage {
    int64_t x, y, w, h; /* the box that it takes of its input */
    bool resized;       /* resizes to full_w x full_h by filter; else w x h stay */
    int64_t full_w, full_h;
    hr_image_filter filter;
    int64_t at_x, at_y, out_w, out_h; /* the box of that result, after mirroring */
    bool flip;
    int64_t pad_x, pad_y, pad_w, pad_h; /* pad_w > 0: its place in an empty image of pad_w x pad_h */
} hr_image_stage;
typedef struct hr_image_plan {
    const hr_image_chain *chain;
    hr_view bytes;         /* the bytes of a file, or */
    const uint8_t *pixels; /* pixels of `mode`, without gaps */
    hr_image_info info;
    hr_pixel_mode mode;
    int64_t in_w, in_h; /* after decoding and orientation */
    int n_stages;
    hr_image_stage stages[HR_IMAGE_MAX_STEPS + 1];
    const hr_image_step *normalize; /* NULL: 8 bits, channels together */
    int64_t w, h;                   /* the result */
    int channels;
    int64_t n_bytes;
} hr_image_plan;
hr_status hr__image_plan_bytes(const hr_image_chain *c, hr_view bytes, const hr_image_dice *dice, hr_image_plan *out,
                               hr_error *err) HR_MUST_USE;
/* Pixels (height, width, channels) of 8 bits, borrowed while the plan lives. */
hr_status hr__image_plan_pixels(const hr_image_chain *c, const uint8_t *pixels, int64_t h, int64_t w, int channels,
                                const hr_image_dice *dice, hr_image_plan *out, hr_error *err) HR_MUST_USE;
/* Runs the plan: writes plan->n_bytes bytes into `out`. */
hr_status hr__image_plan_run(const hr_image_plan *p, hr_account *scratch, uint8_t *out, hr_error *err) HR_MUST_USE;
/* The same into a new buffer; an image that is only decoded is decoded directly into it. */
hr_status hr__image_plan_make(const hr_image_plan *p, const hr_mem *mem, hr_buffer **out, hr_error *err) HR_MUST_USE;

/* Builds a column of images of different sizes: image_rows.c. `mem` and `type` (ragged, of 3 dimensions) are
 * borrowed. */
typedef struct hr_image_rows {
    hr_growbuf values, ends, shapes;
    const hr_type *type;
} hr_image_rows;
void hr__image_rows_begin(hr_image_rows *r, const hr_mem *mem, const hr_type *type);
void hr__image_rows_clear(hr_image_rows *r);
int64_t hr__image_rows_bytes(const hr_image_rows *r); /* values so far */
hr_status hr__image_rows_add(hr_image_rows *r, const hr_image_plan *p, hr_account *scratch, hr_error *err) HR_MUST_USE;
hr_status hr__image_rows_add_null(hr_image_rows *r, hr_error *err) HR_MUST_USE;
/* The n rows as an array, new; r is empty. */
hr_status hr__image_rows_finish(hr_image_rows *r, int64_t n, hr_buffer *takes_validity, hr_array **out,
                                hr_error *err) HR_MUST_USE;

#endif
