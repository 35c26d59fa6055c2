/* png.c - PNG by libpng, whose memory is charged to our account.
 *
 * libpng reports errors by longjmp, which never leaves the function that called setjmp. libpng's own transformations
 * turn bits, palettes and 16-bit values into 8 bits. An animated PNG gives its default image. The checksums of all
 * chunks before and between the pixels must be right.
 *
 * Tests: test_pixels.c. */
#include "image/pixels.h"

#define SIGNATURE "\x89PNG\r\n\x1a\n"

static bool png_bid(hr_view in) { return in.n >= 8 && memcmp(in.data, SIGNATURE, 8) == 0; }

#ifdef HR_HAVE_PNG
#include <setjmp.h>
#include <stdio.h>

#include <png.h>

#define MAX_CHUNK_BYTES (64 << 20) /* the limit for an inflated text or profile chunk; we read none of them */

static uint32_t big(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The data and length of the first chunk of this name; NULL: none before the end. */
static const uint8_t *find_chunk(hr_view in, const char *name, uint32_t *n)
{
    for (int64_t at = 8; at + 12 <= in.n; at += 12 + (int64_t)*n) {
        *n = big(in.data + at);
        if ((int64_t)*n > in.n - at - 12)
            break;
        if (memcmp(in.data + at + 4, name, 4) == 0)
            return in.data + at + 8;
    }
    return NULL;
}

static hr_status png_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    static const hr_pixel_mode modes[7] = { HR_PIXELS_L,  0, HR_PIXELS_RGB, HR_PIXELS_RGB,
                                            HR_PIXELS_LA, 0, HR_PIXELS_RGBA };
    const uint8_t *p = in.data + 16;
    uint32_t n;

    if (in.n < 33 || memcmp(in.data + 12, "IHDR", 4) != 0)
        return hr_error_set(err, HR_BAD_DATA, "png: byte 12: expected the header chunk (IHDR)");
    out->width = big(p);
    out->height = big(p + 4);
    out->stored = p[9] < 7 ? modes[p[9]] : HR_PIXELS_STORED;
    if (!out->stored)
        return hr_error_set(err, HR_BAD_DATA, "png: colour type is %d, expected 0, 2, 3, 4 or 6", p[9]);
    if (p[9] == 3 && find_chunk(in, "tRNS", &n))
        out->stored = HR_PIXELS_RGBA;
    if (exif && (p = find_chunk(in, "eXIf", &n)))
        out->orientation = hr__exif_orientation((hr_view){ p, n });
    return HR_OK;
}

typedef struct reader {
    png_structp png;
    png_infop info;
    hr_view in;
    int64_t at;
    char text[200];
    bool truncated, truncated_ok, no_memory;
    int n_warnings;
    jmp_buf back;
} reader;

static void on_error(png_structp png, png_const_charp text)
{
    reader *r = png_get_error_ptr(png);

    if (!r->text[0])
        snprintf(r->text, sizeof r->text, "%s", text);
    longjmp(r->back, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)text;
    ((reader *)png_get_error_ptr(png))->n_warnings++;
}

static png_voidp on_malloc(png_structp png, png_alloc_size_t n)
{
    void *p = hr__alloc(NULL, n);

    if (!p && png_get_mem_ptr(png))
        ((reader *)png_get_mem_ptr(png))->no_memory = true;
    return p;
}

static void on_free(png_structp png, png_voidp p)
{
    (void)png;
    hr__free(p);
}

static void on_read(png_structp png, png_bytep out, size_t n)
{
    reader *r = png_get_io_ptr(png);

    if ((int64_t)n > r->in.n - r->at) {
        r->truncated = true;
        snprintf(r->text, sizeof r->text, "the file ends inside the image");
        longjmp(r->back, 1);
    }
    memcpy(out, r->in.data + r->at, n);
    r->at += (int64_t)n;
}

static hr_status failed(reader *r, hr_error *err)
{
    if (r->no_memory)
        return hr__error_memory(err, "png", r->in.n);
    return hr_error_set(err, HR_BAD_DATA, "png: byte %lld: %s", (long long)r->at, r->text);
}

/* Reads the header, and sets the form of the rows. */
static hr_status start(reader *r, const hr_image_info *info, hr_pixel_mode want, hr_pixel_mode *mode, hr_error *err)
{
    int type, bits;
    bool alpha = want == HR_PIXELS_RGBA || want == HR_PIXELS_LA || (!want && info->stored == HR_PIXELS_RGBA);

    if (setjmp(r->back))
        return failed(r, err);
    png_set_user_limits(r->png, INT32_MAX, INT32_MAX);
    png_set_chunk_malloc_max(r->png, MAX_CHUNK_BYTES);
    png_set_crc_action(r->png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, NULL, 0);
    png_set_keep_unknown_chunks(r->png, PNG_HANDLE_CHUNK_NEVER, /* unused, and possibly decompression bombs */
                                (png_const_bytep) "zTXt\0iTXt\0tEXt\0iCCP\0sPLT\0hIST", 6);
    png_set_read_fn(r->png, r, on_read);
    png_read_info(r->png, r->info);
    type = png_get_color_type(r->png, r->info);
    bits = png_get_bit_depth(r->png, r->info);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    if (type == PNG_COLOR_TYPE_GRAY && bits < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    if (png_get_valid(r->png, r->info, PNG_INFO_tRNS)) {
        if (alpha)
            png_set_tRNS_to_alpha(r->png);
        else if (type == PNG_COLOR_TYPE_PALETTE)
            png_set_strip_alpha(r->png);
    }
    if (bits == 16)
        png_set_strip_16(r->png);
    png_set_interlace_handling(r->png);
    png_read_update_info(r->png, r->info);
    type = png_get_color_type(r->png, r->info);
    *mode = type == PNG_COLOR_TYPE_GRAY         ? HR_PIXELS_L
            : type == PNG_COLOR_TYPE_GRAY_ALPHA ? HR_PIXELS_LA
            : type == PNG_COLOR_TYPE_RGB        ? HR_PIXELS_RGB
                                                : HR_PIXELS_RGBA;
    if ((int64_t)png_get_rowbytes(r->png, r->info) != info->width * hr__pixel_channels(*mode))
        return hr_error_set(err, HR_BUG, "png: rows of %zu bytes", png_get_rowbytes(r->png, r->info));
    return HR_OK;
}

static hr_status rows(reader *r, uint8_t *data, int64_t stride, int64_t height, hr_error *err)
{
    int passes = png_get_interlace_type(r->png, r->info) == PNG_INTERLACE_NONE ? 1 : 7;

    if (setjmp(r->back))
        return r->truncated && r->truncated_ok ? HR_OK : failed(r, err);
    for (int pass = 0; pass < passes; pass++) {
        for (int64_t y = 0; y < height; y++)
            png_read_row(r->png, data + y * stride, NULL);
    }
    return HR_OK;
}

static hr_status png_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    reader r = { .in = in, .truncated_ok = job->truncated_ok };
    hr_pixel_mode mode;
    hr_status st = HR_OK;

    r.png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, &r, on_error, on_warning, &r, on_malloc, on_free);
    r.info = r.png ? png_create_info_struct(r.png) : NULL;
    if (!r.info)
        HR_GO(hr__error_memory(err, "png", in.n));
    HR_GO(start(&r, info, job->mode, &mode, err));
    HR_GO(hr__image_room(job, mode, info->width, info->height, out, err));
    if (r.truncated_ok || png_get_interlace_type(r.png, r.info) != PNG_INTERLACE_NONE)
        memset(out->data, 0, (size_t)(out->stride * out->height));
    HR_GO(rows(&r, out->data, out->stride, out->height, err));
done:
    job->n_warnings = r.n_warnings;
    png_destroy_read_struct(r.png ? &r.png : NULL, r.info ? &r.info : NULL, NULL);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- encoding */

typedef struct writer {
    reader base; /* for its error functions */
    hr_growbuf out;
    hr_error *err;
} writer;

static void on_write(png_structp png, png_bytep data, size_t n)
{
    writer *w = png_get_io_ptr(png);

    if (hr__growbuf_add(&w->out, data, (int64_t)n, w->err)) {
        w->base.no_memory = true;
        longjmp(w->base.back, 1);
    }
}

static void on_flush(png_structp png) { (void)png; }

static hr_status write_all(writer *w, const hr_image *in, const hr_image_save *how, hr_error *err)
{
    static const int types[] = { 0, PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                                 PNG_COLOR_TYPE_RGB_ALPHA };

    if (setjmp(w->base.back))
        return failed(&w->base, err);
    png_set_write_fn(w->base.png, w, on_write, on_flush);
    png_set_user_limits(w->base.png, INT32_MAX, INT32_MAX);
    png_set_compression_level(w->base.png, how->compression);
    png_set_IHDR(w->base.png, w->base.info, (png_uint_32)in->width, (png_uint_32)in->height, 8, types[in->mode],
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(w->base.png, w->base.info);
    for (int64_t y = 0; y < in->height; y++)
        png_write_row(w->base.png, in->data + y * in->stride);
    png_write_end(w->base.png, NULL);
    return HR_OK;
}

hr_status hr__png_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                         hr_error *err)
{
    writer w = { .out.mem = mem, .err = err };
    hr_status st = HR_OK;

    *out = NULL;
    w.base.png =
        png_create_write_struct_2(PNG_LIBPNG_VER_STRING, &w.base, on_error, on_warning, &w.base, on_malloc, on_free);
    w.base.info = w.base.png ? png_create_info_struct(w.base.png) : NULL;
    if (!w.base.info)
        HR_GO(hr__error_memory(err, "png", in->stride));
    HR_GO(write_all(&w, in, how, err));
    HR_GO(hr__growbuf_finish(&w.out, out, err));
done:
    if (w.base.png)
        png_destroy_write_struct(&w.base.png, w.base.info ? &w.base.info : NULL);
    hr__growbuf_clear(&w.out);
    return st;
}

#else
hr_status hr__png_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                         hr_error *err)
{
    (void)in, (void)how, (void)mem;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "a png image: this build lacks libpng");
}
#endif

const hr_image_codec hr__image_png = {
    .name = "png",
    .library = "libpng",
    .max_ratio = 1032 * 8, /* deflate expands a byte to 1,032, and a byte holds 8 pixels */
    .bid = png_bid,
#ifdef HR_HAVE_PNG
    .look = png_look,
    .decode = png_decode,
#endif
};
