/* pixels.h - compressed pixels -> pixels, and pixels -> other sizes and types.
 *
 * Each kind of image is one file around one library (JPEG, PNG, WebP, GIF, TIFF) or of our own (BMP). A library that
 * this build lacks leaves its kind in the list without functions, so that its files are recognised and refused by name.
 *
 * 1. What a header says is a stranger's word: hr__image_look() reads width and height without allocating, and refuses
 *    more pixels than the limit, or than so many bytes of that kind can become.
 * 2. Pixels are 8 bits a value, rows from the top, channels together (height, width, channels). What is stored
 *    otherwise is brought there as Pillow's convert() does, but that the high byte of 16 bits counts for grey as well.
 * 3. Of several frames or pages the first is decoded, on its canvas.
 * 4. Messages have no file name in them: the caller knows it. */
#ifndef HR_PIXELS_H
#define HR_PIXELS_H

#include "data/data.h"
#include "io/io.h"

typedef enum hr_pixel_mode {
    HR_PIXELS_STORED, /* asked for: whichever of the next four the file has */
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
    int orientation; /* by EXIF: 1 to 8; 1 where nothing is said. Left at 1 unless it was asked for */
} hr_image_info;

/* Decoded pixels. Row y begins at data + y * stride. */
typedef struct hr_image {
    hr_buffer *buffer;
    uint8_t *data;
    int64_t width, height, stride;
    hr_pixel_mode mode;
    int64_t x, y; /* where the first pixel lies in the whole (shrunken) image */
} hr_image;
void hr__image_clear(hr_image *i);
/* Room for width x height pixels, without gaps between rows. */
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

/* What is wanted of one image. Zero but for `mem`: all of it, as stored. */
struct hr_image_job {
    const hr_mem *mem;
    hr_pixel_mode mode;
    /* At least these pixels of the whole image (w = 0: all); a decoder may give more, and says where they lie. */
    int64_t x, y, w, h;
    int shrink; /* 0 or 1: none; 2, 4, 8: each side so many times smaller (rounded up). Only if the kind can_shrink */
    bool truncated_ok; /* a file that ends early gives grey or black for what is missing */
    /* Not NULL: where the pixels are to lie if they become exactly so many bytes of `mode` without a conversion. The
     * image has no buffer then. */
    uint8_t *into;
    int64_t into_bytes;
    bool library_only; /* nothing of our own in place of the library's parts (tests) */
    int n_warnings;    /* out: what the library complained about and went on */
};

struct hr_image_codec {
    const char *name;
    const char *library; /* what a build must have found to know it; NULL: nothing */
    bool can_shrink, can_crop;
    int64_t max_ratio; /* pixels that a byte can become; 0: any number */
    bool (*bid)(hr_view in);
    /* Fills width, height, stored. Reads the header only. NULL: not in this build. `exif`: fill the orientation as
     * well. */
    hr_status (*look)(hr_view in, bool exif, hr_image_info *out, hr_error *err);
    /* Any mode that is at hand: hr__image_decode converts. The limits were checked. */
    hr_status (*decode)(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err);
};
extern const hr_image_codec hr__image_jpeg, hr__image_png, hr__image_webp, hr__image_gif, hr__image_bmp, hr__image_tiff;

#define HR_IMAGE_MAX_PIXELS INT64_C(178956970) /* the default limit: where Pillow refuses */

/* Whether it begins as images do. */
bool hr__image_known(hr_view head);
/* HR_BAD_DATA, HR_UNSUPPORTED (of no known kind, or without its library). */
hr_status hr__image_look(hr_view in, bool exif, int64_t max_pixels, hr_image_info *out, hr_error *err) HR_MUST_USE;
/* In job->mode. Without a region its pixels are the whole image and have no gaps between rows. */
hr_status hr__image_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out,
                           hr_error *err) HR_MUST_USE;
/* *i in another mode (not STORED, not CMYK); pixels that do not change are kept. */
hr_status hr__image_convert(const hr_mem *mem, hr_image *i, hr_pixel_mode mode, hr_error *err) HR_MUST_USE;
/* *i turned and mirrored so that EXIF orientation `how` becomes 1. */
hr_status hr__image_orient(const hr_mem *mem, hr_image *i, int how, hr_error *err) HR_MUST_USE;
/* EXIF data (from its "II" or "MM" on) -> orientation; 1 if it says nothing. */
int hr__exif_orientation(hr_view tiff);

/* Pixels as a file of kind "png", "jpeg" or "webp": L, RGB, and but for JPEG LA (not WebP) and RGBA. */
typedef struct hr_image_save {
    int quality;     /* JPEG, WebP: 1 to 100 */
    int compression; /* PNG: 0 to 9 */
    bool lossless;   /* WebP */
} hr_image_save;
typedef hr_status hr_image_encoder(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                                   hr_error *err);
hr_image_encoder hr__jpeg_encode, hr__png_encode, hr__webp_encode, hr__bmp_encode;

#endif
