/* image_chain.h - what is done to one image, from its file's bytes to the tensor of a batch, as one pass.
 *
 * A chain is a list of steps: decode, resize, center_crop, random_resized_crop, random_flip, normalize. It is planned
 * for each image from the image's header alone: crops, mirroring and what resizing sees are followed back through the
 * steps, so that just the needed region is decoded, and only what is needed of it is resized; normalizing happens as
 * pixels are stored.
 *
 * What is random is a function of (seed, epoch, coordinate of the row), and of the step's own seed and place among
 * those. */
#ifndef HR_IMAGE_CHAIN_H
#define HR_IMAGE_CHAIN_H

#include "image/pixels.h"
#include "image/resize.h"

#define HR_IMAGE_MAX_STEPS 16

typedef enum hr_image_step_kind {
    HR_STEP_DECODE, /* first, if at all; without it the chain begins with pixels */
    HR_STEP_RESIZE,
    HR_STEP_CENTER_CROP,
    HR_STEP_RANDOM_CROP, /* random_resized_crop */
    HR_STEP_RANDOM_FLIP,
    HR_STEP_NORMALIZE /* last, if at all */
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
    /* random ones */
    uint64_t seed;
    double p;
    /* normalize; n: how many numbers were given, 1 (for all channels) to 4 */
    double mean[4], std[4];
    int n_mean, n_std;
    hr_pixel_type type;
    bool planar;
} hr_image_step;

typedef struct hr_image_chain {
    int n;
    hr_image_step steps[HR_IMAGE_MAX_STEPS];
} hr_image_chain;

/* Appends a step. HR_INVALID: where it cannot stand, or with numbers that make no sense. */
hr_status hr__image_chain_add(hr_image_chain *c, const hr_image_step *step, hr_error *err) HR_MUST_USE;
/* The type of what comes out: a tensor if all its rows have one shape, else a ragged one. Grey images are (height,
 * width), but planar ones, and those made of a column whose images have a third dimension of 1. `in`: of the column it
 * is applied to; NULL or binary: the bytes of images. HR_TYPE if that holds no images. */
hr_status hr__image_chain_type(const hr_image_chain *c, const hr_type *in, hr_type **out, hr_error *err) HR_MUST_USE;

/* What makes random numbers of one row. */
typedef struct hr_image_dice {
    uint64_t seed;
    int64_t epoch;
    hr_coord at;
} hr_image_dice;

/* One image, planned. */
typedef struct hr_image_stage {
    int64_t x, y, w, h; /* what it takes of the image before it */
    bool resized;       /* to full_w x full_h by filter; else w x h stay */
    int64_t full_w, full_h;
    hr_image_filter filter;
    int64_t at_x, at_y, out_w, out_h; /* what is made of that; after mirroring */
    bool flip;
    int64_t pad_x, pad_y, pad_w, pad_h; /* pad_w > 0: it stands there in an empty image of pad_w x pad_h */
} hr_image_stage;
typedef struct hr_image_plan {
    const hr_image_chain *chain;
    hr_view bytes;         /* of a file, or */
    const uint8_t *pixels; /* pixels of `mode`, without gaps */
    hr_image_info info;
    hr_pixel_mode mode;
    int64_t in_w, in_h; /* after decoding and turning */
    int n_stages;
    hr_image_stage stages[HR_IMAGE_MAX_STEPS + 1];
    const hr_image_step *normalize; /* NULL: 8 bits, channels together */
    int64_t w, h;                   /* what comes out */
    int channels;
    int64_t n_bytes;
} hr_image_plan;
hr_status hr__image_plan_bytes(const hr_image_chain *c, hr_view bytes, const hr_image_dice *dice, hr_image_plan *out,
                               hr_error *err) HR_MUST_USE;
/* Pixels (height, width, channels) of 8 bits, borrowed while the plan lives. */
hr_status hr__image_plan_pixels(const hr_image_chain *c, const uint8_t *pixels, int64_t h, int64_t w, int channels,
                                const hr_image_dice *dice, hr_image_plan *out, hr_error *err) HR_MUST_USE;
/* Does it: plan->n_bytes bytes into `out`. */
hr_status hr__image_plan_run(const hr_image_plan *p, hr_account *scratch, uint8_t *out, hr_error *err) HR_MUST_USE;
/* The same into a buffer of its own; what needs nothing but decoding is decoded there. */
hr_status hr__image_plan_make(const hr_image_plan *p, const hr_mem *mem, hr_buffer **out, hr_error *err) HR_MUST_USE;

/* A column of images of different sizes being made: image_rows.c. `mem` and `type` (ragged, of 3 dimensions) are
 * borrowed. */
typedef struct hr_image_rows {
    hr_growbuf values, ends, shapes;
    const hr_type *type;
} hr_image_rows;
void hr__image_rows_begin(hr_image_rows *r, const hr_mem *mem, const hr_type *type);
void hr__image_rows_clear(hr_image_rows *r);
int64_t hr__image_rows_bytes(const hr_image_rows *r); /* of values so far */
hr_status hr__image_rows_add(hr_image_rows *r, const hr_image_plan *p, hr_account *scratch, hr_error *err) HR_MUST_USE;
hr_status hr__image_rows_add_null(hr_image_rows *r, hr_error *err) HR_MUST_USE;
/* The n rows as an array, new; r is empty. */
hr_status hr__image_rows_finish(hr_image_rows *r, int64_t n, hr_buffer *takes_validity, hr_array **out,
                                hr_error *err) HR_MUST_USE;

#endif
