/* pixels.h - decodes images of all kinds into pixels of 8 bits, and encodes pixels.
 *
 * Each kind of image is one file around one library (JPEG, PNG, WebP, GIF, TIFF) or our own code (BMP). If this build
 * lacks a library, its kind stays in the list without functions, so that an error can name the kind.
 *
 * 1. A header is untrusted input: hr__image_look() reads width and height without allocation, and refuses more pixels
 *    than the limit, or than a file of that size and kind can hold.
 * 2. Pixels are 8 bits a value, rows from the top, channels together (height, width, channels). Other stored forms are
 *    converted as by Pillow's convert(), except that grey of 16 bits, too, becomes its high byte.
 * 3. Of several frames or pages the first is decoded, on its canvas.
 * 4. Error texts have no file name: the caller adds it. */
#ifndef HR_PIXELS_H
#define HR_PIXELS_H

#include "data/data.h"
#include "io/io.h"

typedef enum hr_pixel_mode {
    HR_PIXELS_STORED, /* in a request: whichever of the next four modes the file has */
    HR_PIXELS_L,
    HR_PIXELS_LA,
    HR_PIXELS_RGB,
    HR_PIXELS_RGBA,
    HR_PIXELS_CMYK /* only between decoder and conversion; 255 is full ink */
} hr_pixel_mode;

typedef struct hr_image_codec hr_image_codec;

typedef struct hr_image_info {
    const hr_image_codec *codec;
    int64_t width, height;
    hr_pixel_mode stored;
    int orientation; /* by EXIF: 1 to 8; 1: none, or not requested */
} hr_image_info;

/* Decoded pixels. Row y begins at data + y * stride. */
typedef struct hr_image {
    hr_buffer *buffer;
    uint8_t *data;
    int64_t width, height, stride;
    hr_pixel_mode mode;
    int64_t x, y; /* the place of the first pixel in the whole (shrunken) image */
} hr_image;
void hr__image_clear(hr_image *i);
/* Allocates width x height pixels, without gaps between rows. */
hr_status hr__image_new(const hr_mem *mem, hr_pixel_mode mode, int64_t width, int64_t height, hr_image *out,
                        hr_error *err) HR_MUST_USE;
typedef struct hr_image_job hr_image_job;
/* The same for a decoder, at job->into if that fits. */
hr_status hr__image_room(const hr_image_job *job, hr_pixel_mode mode, int64_t width, int64_t height, hr_image *out,
                         hr_error *err) HR_MUST_USE;
static inline int hr__pixel_channels(hr_pixel_mode m)
{
    static const int channels[] = { 0, 1, 2, 3, 4, 4 };

    return channels[m];
}

/* A request for one image. All zero except `mem`: the whole image, in the stored mode. */
struct hr_image_job {
    const hr_mem *mem;
    hr_pixel_mode mode;
    /* At least these pixels of the whole image (w = 0: all); a decoder may return more, and sets their place. */
    int64_t x, y, w, h;
    int shrink;        /* 0 or 1: none; 2, 4, 8: divides each side (rounded up). Only if the kind can_shrink */
    bool truncated_ok; /* a file that ends early gives grey or black for the missing part */
    /* Not NULL: the place of the pixels if they become exactly into_bytes bytes of `mode` without a conversion. The
     * image then has no buffer. */
    uint8_t *into;
    int64_t into_bytes;
    bool library_only; /* replaces no part of the library by our code (tests) */
    int n_warnings;    /* out: the number of the library's warnings */
};

struct hr_image_codec {
    const char *name;
    const char *library; /* the library that the build needs; NULL: none */
    bool can_shrink, can_crop;
    int64_t max_ratio; /* the most pixels that a byte can hold; 0: any number */
    bool (*bid)(hr_view in);
    /* Fills width, height, stored. Reads the header only. NULL: not in this build. `exif`: fill the orientation as
     * well. */
    hr_status (*look)(hr_view in, bool exif, hr_image_info *out, hr_error *err);
    /* Decodes into any mode: hr__image_decode converts. The caller checked the limits. */
    hr_status (*decode)(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err);
};
extern const hr_image_codec hr__image_jpeg, hr__image_png, hr__image_webp, hr__image_gif, hr__image_bmp, hr__image_tiff;

#define HR_IMAGE_MAX_PIXELS INT64_C(178956970) /* the default limit, Pillow's */

/* Whether the bytes begin as those of an image. */
bool hr__image_known(hr_view head);
/* HR_BAD_DATA; HR_UNSUPPORTED: an unknown kind, or its library is missing. */
hr_status hr__image_look(hr_view in, bool exif, int64_t max_pixels, hr_image_info *out, hr_error *err) HR_MUST_USE;
/* Decodes into job->mode. Without a region the pixels are the whole image and have no gaps between rows. */
hr_status hr__image_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out,
                           hr_error *err) HR_MUST_USE;
/* *Converts i to another mode (not STORED, not CMYK); shares pixels that do not change. */
hr_status hr__image_convert(const hr_mem *mem, hr_image *i, hr_pixel_mode mode, hr_error *err) HR_MUST_USE;
/* *Turns and mirrors i so that EXIF orientation `how` becomes 1. */
hr_status hr__image_orient(const hr_mem *mem, hr_image *i, int how, hr_error *err) HR_MUST_USE;
/* The orientation in EXIF data (from its "II" or "MM" on); 1: none. */
int hr__exif_orientation(hr_view tiff);

/* Encodes pixels as "png" (L, LA, RGB, RGBA), "jpeg" (L, RGB) or "webp" (L, RGB, RGBA). */
typedef struct hr_image_save {
    int quality;     /* JPEG, WebP: 1 to 100 */
    int compression; /* PNG: 0 to 9 */
    bool lossless;   /* WebP */
} hr_image_save;
typedef hr_status hr_image_encoder(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                                   hr_error *err);
hr_image_encoder hr__jpeg_encode, hr__png_encode, hr__webp_encode, hr__bmp_encode;

#endif
