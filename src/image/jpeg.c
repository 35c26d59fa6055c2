/* jpeg.c - JPEG by libjpeg-turbo's libjpeg API: baseline and progressive, grey, YCbCr, RGB, CMYK and YCCK.
 *
 * The library reports errors by longjmp, which never leaves the function that called setjmp. Each image gets a new
 * decompressor (half a microsecond): a reused one keeps the tables of the image before, and would decode a damaged
 * image without tables by them. Only the needed rows and columns (whole MCUs) are decoded: rows above are skipped, rows
 * below are not even entropy-decoded. jpeg_huffman.c decodes the Huffman codes of baseline images.
 *
 * The library fills the missing part of a truncated file with grey and warns; here the end of the file inside an image
 * is an error. Other complaints (a wrong code, an early marker) are warnings, as in Pillow.
 *
 * Tests: test_pixels.c. */
#include "codec/codec.h"
#include "image/pixels.h"

static bool jpeg_bid(hr_view in) { return hr__view_starts(in, "\xff\xd8\xff"); }

#ifdef HR_HAVE_JPEG
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include "image/jpeg_huffman.h"

#include <jpeglib.h>

#include <jerror.h>

#define MAX_SCANS 500 /* a progressive file can demand any number of passes over all of its pixels */

/* ---------------------------------------------------------------------------------------------------------- looking */

static hr_pixel_mode mode_of_components(int n)
{
    return n == 1 ? HR_PIXELS_L : n == 3 ? HR_PIXELS_RGB : n == 4 ? HR_PIXELS_CMYK : HR_PIXELS_STORED;
}

static bool is_frame(int marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static hr_status jpeg_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    const uint8_t *p = in.data;

    for (int64_t at = 2; at + 4 <= in.n;) {
        int marker = p[at + 1], n;

        if (p[at] != 0xff || marker == 0xff || marker == 0 || (marker >= 0xd0 && marker <= 0xd8) || marker == 1) {
            at++; /* the library also searches for the next marker */
            continue;
        }
        n = p[at + 2] << 8 | p[at + 3];
        if (is_frame(marker)) {
            if (n < 8 || at + 10 > in.n)
                break;
            out->height = p[at + 5] << 8 | p[at + 6];
            out->width = p[at + 7] << 8 | p[at + 8];
            out->stored = mode_of_components(p[at + 9]);
            if (!out->stored)
                return hr_error_set(err, HR_UNSUPPORTED, "jpeg: the image has %d components, expected 1, 3 or 4",
                                    p[at + 9]);
            return HR_OK;
        }
        if (marker == 0xd9 || marker == 0xda)
            break;
        if (exif && marker == 0xe1 && n >= 8 && at + 2 + n <= in.n && memcmp(p + at + 4, "Exif\0", 5) == 0)
            out->orientation = hr__exif_orientation((hr_view){ p + at + 10, n - 8 });
        at += 2 + HR_MAX(n, 2);
    }
    return hr_error_set(err, HR_BAD_DATA, "jpeg: no frame header in %lld bytes", (long long)in.n);
}

/* ---------------------------------------------------------------------------------------------------------- library */

typedef struct context {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    bool truncated;    /* it read beyond the end */
    bool truncated_ok; /* and may do so */
    bool no_memory;
    hr_jpeg_huffman *huffman; /* NULL: libjpeg's own */
    bool damaged;             /* our decoder gave up: libjpeg's decodes the image from its beginning */
} context;

static context *context_of(j_common_ptr j) { return j->client_data; }

hr_jpeg_huffman *hr__jpeg_huffman_of(j_decompress_ptr j) { return context_of((j_common_ptr)j)->huffman; }

static void on_trouble(j_decompress_ptr j)
{
    context *c = context_of((j_common_ptr)j);

    c->damaged = true;
    longjmp(c->back, 1);
}

static void on_error(j_common_ptr j)
{
    context *c = context_of(j);

    c->no_memory = j->err->msg_code == JERR_OUT_OF_MEMORY;
    if (!c->truncated)
        j->err->format_message(j, c->text);
    longjmp(c->back, 1);
}

static void on_message(j_common_ptr j, int level)
{
    if (level < 0)
        j->err->num_warnings++;
}
static void on_output(j_common_ptr j) { (void)j; }

static void on_progress(j_common_ptr j)
{
    if (j->is_decompressor && ((j_decompress_ptr)j)->input_scan_number > MAX_SCANS) {
        context *c = context_of(j);

        snprintf(c->text, sizeof c->text, "more than %d scans", MAX_SCANS);
        longjmp(c->back, 1);
    }
}

static void source_init(j_decompress_ptr j) { (void)j; }

static boolean source_fill(j_decompress_ptr j)
{
    static const JOCTET end[] = { 0xff, JPEG_EOI };
    context *c = context_of((j_common_ptr)j);

    c->truncated = true;
    if (!c->truncated_ok) {
        snprintf(c->text, sizeof c->text, "the file ends inside the image");
        longjmp(c->back, 1);
    }
    j->src->next_input_byte = end;
    j->src->bytes_in_buffer = 2;
    return TRUE;
}

static void source_skip(j_decompress_ptr j, long n)
{
    if (n <= 0)
        return;
    if ((size_t)n > j->src->bytes_in_buffer) {
        source_fill(j);
        return;
    }
    j->src->next_input_byte += n;
    j->src->bytes_in_buffer -= (size_t)n;
}

static void source_term(j_decompress_ptr j) { (void)j; }

static hr_codec_local contexts = HR_CODEC_LOCAL_INIT;

static void drop(void *p)
{
    context *c = p;

    hr__jpeg_huffman_free(c->huffman);
    free(c); /* not charged: it belongs to the thread, not to a run */
}
static void init(void) { pthread_key_create(&contexts.key, drop); }

static bool create(context *c)
{
    if (setjmp(c->back))
        return false;
    jpeg_create_decompress(&c->jpeg);
    return true;
}

static void *make(void)
{
    context *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->jpeg.err = jpeg_std_error(&c->errors);
    c->errors.error_exit = on_error;
    c->errors.emit_message = on_message;
    c->errors.output_message = on_output;
    c->jpeg.client_data = c;
    c->source = (struct jpeg_source_mgr){ .init_source = source_init,
                                          .fill_input_buffer = source_fill,
                                          .skip_input_data = source_skip,
                                          .resync_to_restart = jpeg_resync_to_restart,
                                          .term_source = source_term };
    c->progress.progress_monitor = on_progress;
    c->huffman = hr__jpeg_huffman_new(on_trouble);
    return c;
}

static hr_status failed(const context *c, hr_error *err)
{
    if (c->no_memory)
        return hr__error_memory(err, "jpeg", (int64_t)c->jpeg.image_width * c->jpeg.image_height);
    return hr_error_set(err, HR_BAD_DATA, "jpeg: %s", c->text);
}

static void begin(context *c, hr_view in, bool truncated_ok)
{
    c->truncated = c->no_memory = false;
    c->truncated_ok = truncated_ok;
    c->errors.num_warnings = 0;
    c->source.next_input_byte = in.data;
    c->source.bytes_in_buffer = (size_t)in.n;
    c->jpeg.src = &c->source;
    c->jpeg.progress = &c->progress;
}

/* --------------------------------------------------------------------------------------------------------- decoding */

/* Reads the header, and sets the form of the pixels. */
static hr_status start(context *c, const hr_image_info *info, const hr_image_job *job, hr_pixel_mode *mode,
                       hr_error *err)
{
    if (setjmp(c->back))
        return failed(c, err);
    jpeg_read_header(&c->jpeg, TRUE);
    if (c->jpeg.image_width != info->width || c->jpeg.image_height != info->height)
        return hr_error_set(err, HR_BAD_DATA, "jpeg: a second frame of %u x %u pixels, the first has %lld x %lld",
                            c->jpeg.image_width, c->jpeg.image_height, (long long)info->width, (long long)info->height);
    *mode = mode_of_components(c->jpeg.num_components);
    if (*mode == HR_PIXELS_CMYK) {
        c->jpeg.out_color_space = JCS_CMYK;
    } else if (*mode == HR_PIXELS_RGB || job->mode == HR_PIXELS_RGB) {
        c->jpeg.out_color_space = JCS_RGB;
        *mode = HR_PIXELS_RGB;
    } else {
        c->jpeg.out_color_space = JCS_GRAYSCALE;
    }
    c->jpeg.scale_num = 1;
    c->jpeg.scale_denom = (unsigned)HR_MAX(job->shrink, 1);
    jpeg_start_decompress(&c->jpeg);
    if (c->huffman && !c->damaged)
        hr__jpeg_huffman_use(c->huffman, &c->jpeg);
    return HR_OK;
}

/* The needed region in the shrunken image, plus the neighbours that upsampling reads: whole MCUs from the left. */
static void region_of(context *c, const hr_image_job *job, int64_t *x, int64_t *y, int64_t *w, int64_t *h)
{
    int64_t shrink = HR_MAX(job->shrink, 1), width = c->jpeg.output_width, height = c->jpeg.output_height;
    int64_t margin = 2 * c->jpeg.max_h_samp_factor, right, bottom;

    *x = *y = 0;
    *w = width;
    *h = height;
    if (!job->w)
        return;
    right = HR_MIN(width, (job->x + job->w + shrink - 1) / shrink + margin);
    bottom = HR_MIN(height, (job->y + job->h + shrink - 1) / shrink);
    *x = HR_MAX(0, job->x / shrink - margin);
    *y = HR_MAX(0, job->y / shrink);
    *w = right - *x;
    *h = bottom - *y;
}

static hr_status crop(context *c, const hr_image_job *job, hr_image *out, hr_error *err)
{
    int64_t x, y, w, h;
    JDIMENSION left, width;

    if (setjmp(c->back))
        return failed(c, err);
    region_of(c, job, &x, &y, &w, &h);
    left = (JDIMENSION)x;
    width = (JDIMENSION)w;
    if (w < c->jpeg.output_width)
        jpeg_crop_scanline(&c->jpeg, &left, &width);
    if (y > 0)
        jpeg_skip_scanlines(&c->jpeg, (JDIMENSION)y);
    out->x = left;
    out->y = y;
    out->width = width;
    out->height = h;
    return HR_OK;
}

static hr_status rows(context *c, hr_image *out, hr_error *err)
{
    JSAMPROW at[16];

    if (setjmp(c->back))
        return failed(c, err);
    for (int64_t y = 0; y < out->height;) {
        int n = (int)HR_MIN(out->height - y, HR_LEN(at));

        for (int i = 0; i < n; i++)
            at[i] = out->data + (y + i) * out->stride;
        y += jpeg_read_scanlines(&c->jpeg, at, (JDIMENSION)n);
    }
    /* If all rows were decoded, the library may find missing bytes after the last row. */
    if (c->jpeg.output_scanline == c->jpeg.output_height)
        jpeg_finish_decompress(&c->jpeg);
    return HR_OK;
}

static hr_status decode(context *c, hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out,
                        hr_error *err)
{
    hr_status st = HR_OK;
    hr_pixel_mode mode;
    hr_image at = { 0 };

    if (!create(c))
        return failed(c, err);
    begin(c, in, job->truncated_ok);
    HR_GO(start(c, info, job, &mode, err));
    HR_GO(crop(c, job, &at, err));
    HR_GO(hr__image_new(job->mem, mode, at.width, at.height, out, err));
    out->x = at.x;
    out->y = at.y;
    HR_GO(rows(c, out, err));
    if (mode == HR_PIXELS_CMYK) { /* stored inverted, as Adobe and all other writers do */
        for (int64_t i = 0; i < out->stride * out->height; i++)
            out->data[i] = (uint8_t)~out->data[i];
    }
done:
    job->n_warnings = (int)c->errors.num_warnings;
    jpeg_destroy_decompress(&c->jpeg);
    return st;
}

static hr_status jpeg_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    context *c = hr__codec_local(&contexts, init, make);
    hr_status st;

    if (!c)
        return hr__error_memory(err, "jpeg", sizeof *c);
    c->damaged = job->library_only;
    st = decode(c, in, info, job, out, err);
    if (!c->damaged || job->library_only)
        return st;
    hr__image_clear(out);
    hr_error_clear(err);
    return decode(c, in, info, job, out, err);
}

/* --------------------------------------------------------------------------------------------------------- encoding */

typedef struct writer {
    struct jpeg_compress_struct jpeg;
    struct jpeg_error_mgr errors;
    jmp_buf back;
    char text[JMSG_LENGTH_MAX];
    unsigned char *bytes;
    unsigned long n;
} writer;

static void on_write_error(j_common_ptr j)
{
    writer *w = j->client_data;

    j->err->format_message(j, w->text);
    longjmp(w->back, 1);
}

static hr_status write_all(writer *w, const hr_image *in, const hr_image_save *how, hr_error *err)
{
    if (setjmp(w->back))
        return hr_error_set(err, HR_BAD_DATA, "jpeg: %s", w->text);
    jpeg_create_compress(&w->jpeg);
    jpeg_mem_dest(&w->jpeg, &w->bytes, &w->n);
    w->jpeg.image_width = (JDIMENSION)in->width;
    w->jpeg.image_height = (JDIMENSION)in->height;
    w->jpeg.input_components = hr__pixel_channels(in->mode);
    w->jpeg.in_color_space = in->mode == HR_PIXELS_L ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&w->jpeg);
    jpeg_set_quality(&w->jpeg, how->quality, TRUE);
    jpeg_start_compress(&w->jpeg, TRUE);
    for (int64_t y = 0; y < in->height; y++) {
        JSAMPROW row = in->data + y * in->stride;

        jpeg_write_scanlines(&w->jpeg, &row, 1);
    }
    jpeg_finish_compress(&w->jpeg);
    return HR_OK;
}

hr_status hr__jpeg_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                          hr_error *err)
{
    writer w = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (in->mode != HR_PIXELS_L && in->mode != HR_PIXELS_RGB)
        return hr_error_set(err, HR_TYPE, "jpeg: the image has %d channels, expected 1 or 3",
                            hr__pixel_channels(in->mode));
    if (in->width > JPEG_MAX_DIMENSION || in->height > JPEG_MAX_DIMENSION)
        return hr_error_set(err, HR_TYPE, "jpeg: %lld x %lld pixels, expected at most %ld a side", (long long)in->width,
                            (long long)in->height, (long)JPEG_MAX_DIMENSION);
    w.jpeg.err = jpeg_std_error(&w.errors);
    w.errors.error_exit = on_write_error;
    w.errors.output_message = on_output;
    w.jpeg.client_data = &w;
    if (hr__fault(HR_FAULT_MEMORY))
        HR_GO(hr__error_memory(err, "jpeg", in->stride * in->height));
    HR_GO(write_all(&w, in, how, err));
    HR_GO(hr__buffer_copy(mem, w.bytes, (int64_t)w.n, out, err));
done:
    jpeg_destroy_compress(&w.jpeg);
    free(w.bytes);
    return st;
}

#else
hr_status hr__jpeg_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                          hr_error *err)
{
    (void)in, (void)how, (void)mem;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "a jpeg image: this build lacks libjpeg-turbo");
}
#endif

const hr_image_codec hr__image_jpeg = {
    .name = "jpeg",
    .library = "libjpeg-turbo",
    .can_shrink = true,
    .can_crop = true,
    .max_ratio = 8192, /* a block of 64 pixels needs a fraction of a bit, chroma less */
    .bid = jpeg_bid,
#ifdef HR_HAVE_JPEG
    .look = jpeg_look,
    .decode = jpeg_decode,
#endif
};
