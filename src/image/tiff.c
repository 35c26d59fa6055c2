/* tiff.c - the first page of a TIFF by libtiff.
 *
 * The code reads stored strips and tiles and converts them to 8 bits, as Pillow does: grey, palette, RGB and CMYK of 1
 * to 16 bits in one plane (grey also of 32 bits and floats); YCbCr if it is JPEG, which the library converts. Other
 * images go through TIFFReadRGBAImage, whose pixels may differ from Pillow's in the last bit.
 *
 * Tests: test_images.py. */
#include "image/pixels.h"

static bool tiff_bid(hr_view in)
{
    return in.n >= 8 && (memcmp(in.data, "II*\0", 4) == 0 || memcmp(in.data, "MM\0*", 4) == 0 ||
                         memcmp(in.data, "II+\0", 4) == 0 || memcmp(in.data, "MM\0+", 4) == 0);
}

#ifdef HR_HAVE_TIFF
#include <stdarg.h>
#include <stdio.h>

#include <tiffio.h>

#define MAX_ALLOC_BYTES (INT64_C(1) << 30) /* in one allocation of the library */

typedef struct input {
    hr_view in;
    int64_t at;
    char text[200];
    int n_warnings;
} input;

static tmsize_t on_read(thandle_t h, void *out, tmsize_t n)
{
    input *i = h;
    int64_t got = HR_MAX(0, HR_MIN((int64_t)n, i->in.n - i->at));

    memcpy(out, i->in.data + HR_MIN(i->at, i->in.n), (size_t)got);
    i->at += got;
    return (tmsize_t)got;
}

static tmsize_t on_write(thandle_t h, void *data, tmsize_t n)
{
    (void)h, (void)data, (void)n;
    return -1;
}

static toff_t on_seek(thandle_t h, toff_t to, int from)
{
    input *i = h;
    int64_t base = from == SEEK_CUR ? i->at : from == SEEK_END ? i->in.n : 0;

    if (__builtin_add_overflow(base, (int64_t)to, &i->at) || i->at < 0)
        i->at = i->in.n;
    return (toff_t)i->at;
}

static int on_close(thandle_t h)
{
    (void)h;
    return 0;
}
static toff_t on_size(thandle_t h) { return (toff_t)((input *)h)->in.n; }

static int on_map(thandle_t h, void **base, toff_t *n)
{
    *base = (void *)(uintptr_t)((input *)h)->in.data;
    *n = (toff_t)((input *)h)->in.n;
    return 1;
}
static void on_unmap(thandle_t h, void *base, toff_t n) { (void)h, (void)base, (void)n; }

static int on_error(TIFF *t, void *data, const char *module, const char *fmt, va_list args)
{
    input *i = data;

    (void)t, (void)module;
    if (!i->text[0])
        vsnprintf(i->text, sizeof i->text, fmt, args);
    return 1;
}

static int on_warning(TIFF *t, void *data, const char *module, const char *fmt, va_list args)
{
    (void)t, (void)module, (void)fmt, (void)args;
    ((input *)data)->n_warnings++;
    return 1;
}

static TIFF *open_input(input *i)
{
    TIFFOpenOptions *o = hr__fault(HR_FAULT_MEMORY) ? NULL : TIFFOpenOptionsAlloc();
    TIFF *t;

    if (!o)
        return NULL;
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, i);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, i);
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)MAX_ALLOC_BYTES);
    t = TIFFClientOpenExt("image", "r", i, on_read, on_write, on_seek, on_close, on_size, on_map, on_unmap, o);
    TIFFOpenOptionsFree(o);
    return t;
}

static hr_status failed(const input *i, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "tiff: %s", i->text[0] ? i->text : "damaged data");
}

/* ---------------------------------------------------------------------------------------------------------- looking */

typedef struct page {
    uint32_t width, height;
    uint16_t bits, samples, photometric, planar, format, compression;
    uint16_t n_extra, extra; /* the first of the extra samples */
    bool plain;              /* our code decodes it; else the library's RGBA interface */
    hr_pixel_mode mode;
} page;

static hr_pixel_mode mode_of(const page *p, bool *plain)
{
    int colours = p->photometric == PHOTOMETRIC_RGB || p->photometric == PHOTOMETRIC_YCBCR ? 3
                  : p->photometric == PHOTOMETRIC_SEPARATED                                ? 4
                                                                                           : 1;
    bool integer = p->format == SAMPLEFORMAT_UINT || p->format == SAMPLEFORMAT_VOID;
    bool alpha = p->samples > colours && p->n_extra > 0 && p->extra != EXTRASAMPLE_UNSPECIFIED;
    bool grey = p->photometric == PHOTOMETRIC_MINISBLACK || p->photometric == PHOTOMETRIC_MINISWHITE;

    *plain =
        p->samples >= colours && (p->planar == PLANARCONFIG_CONTIG || p->samples == 1 || p->bits == 8 || p->bits == 16);
    if (p->photometric == PHOTOMETRIC_YCBCR)
        *plain = *plain && p->compression == COMPRESSION_JPEG && p->bits == 8 && p->planar == PLANARCONFIG_CONTIG;
    else if (!grey && p->photometric != PHOTOMETRIC_RGB && p->photometric != PHOTOMETRIC_SEPARATED &&
             p->photometric != PHOTOMETRIC_PALETTE)
        *plain = false;
    if (p->bits == 32)
        *plain = *plain && grey && p->samples == 1;
    else if (p->bits == 16)
        *plain = *plain && (integer || (grey && p->samples == 1 && p->format == SAMPLEFORMAT_INT)) &&
                 p->photometric != PHOTOMETRIC_PALETTE;
    else
        *plain =
            *plain && integer && (p->bits == 8 || ((p->bits == 1 || p->bits == 2 || p->bits == 4) && p->samples == 1));
    if (p->photometric == PHOTOMETRIC_PALETTE)
        return HR_PIXELS_RGB;
    if (p->photometric == PHOTOMETRIC_SEPARATED)
        return *plain ? HR_PIXELS_CMYK : HR_PIXELS_RGB;
    if (grey)
        return alpha ? HR_PIXELS_LA : HR_PIXELS_L;
    return alpha ? HR_PIXELS_RGBA : HR_PIXELS_RGB;
}

/* Checks that each strip or tile has an offset. The library uses 0, the place of the file's header, for a missing
 * one. */
static hr_status check_places(TIFF *t, hr_error *err)
{
    uint32_t n = TIFFIsTiled(t) ? TIFFNumberOfTiles(t) : TIFFNumberOfStrips(t);

    for (uint32_t k = 0; k < n; k++)
        if (TIFFGetStrileByteCount(t, k) && !TIFFGetStrileOffset(t, k))
            return hr_error_set(err, HR_BAD_DATA, "tiff: strip or tile %u of %u has no offset", k, n);
    return HR_OK;
}

static hr_status read_page(TIFF *t, const input *i, page *p, hr_error *err)
{
    uint16_t *extra = NULL;

    *p = (page){ 0 };
    if (!TIFFGetField(t, TIFFTAG_IMAGEWIDTH, &p->width) || !TIFFGetField(t, TIFFTAG_IMAGELENGTH, &p->height) ||
        !TIFFGetField(t, TIFFTAG_PHOTOMETRIC, &p->photometric))
        return failed(i, err);
    TIFFGetFieldDefaulted(t, TIFFTAG_BITSPERSAMPLE, &p->bits);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLESPERPIXEL, &p->samples);
    TIFFGetFieldDefaulted(t, TIFFTAG_PLANARCONFIG, &p->planar);
    TIFFGetFieldDefaulted(t, TIFFTAG_SAMPLEFORMAT, &p->format);
    TIFFGetFieldDefaulted(t, TIFFTAG_COMPRESSION, &p->compression);
    TIFFGetFieldDefaulted(t, TIFFTAG_EXTRASAMPLES, &p->n_extra, &extra);
    p->extra = p->n_extra ? extra[0] : 0;
    p->mode = mode_of(p, &p->plain);
    if (!TIFFIsCODECConfigured(p->compression))
        return hr_error_set(err, HR_UNSUPPORTED, "tiff: this libtiff does not know compression %d", p->compression);
    return check_places(t, err);
}

static hr_status tiff_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    input i = { .in = in };
    TIFF *t = open_input(&i);
    hr_status st = HR_OK;
    uint16_t how = 1;
    page p;

    if (!t)
        return failed(&i, err);
    HR_GO(read_page(t, &i, &p, err));
    out->width = p.width;
    out->height = p.height;
    out->stored = p.mode == HR_PIXELS_CMYK ? HR_PIXELS_RGB : p.mode;
    if (exif && TIFFGetField(t, TIFFTAG_ORIENTATION, &how) && how >= 1 && how <= 8)
        out->orientation = how;
    /* In fax codes a bit can be a blank row; in other files a bit is a pixel, or deflate, the densest, expands a byte
     * to 1,032. */
    if (p.compression != COMPRESSION_CCITTFAX3 && p.compression != COMPRESSION_CCITTFAX4 &&
        p.compression != COMPRESSION_CCITTRLE &&
        (int64_t)p.width * p.height / (p.compression == COMPRESSION_NONE ? 8 : 8 * 1032) > in.n)
        HR_FAIL(HR_BAD_DATA, "tiff: %u x %u pixels cannot come from %lld bytes", p.width, p.height, (long long)in.n);
done:
    TIFFClose(t);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- decoding */

static uint8_t clip(int64_t v) { return (uint8_t)HR_MAX(0, HR_MIN(v, 255)); }

/* One value of a grey pixel of 16 or 32 bits, as 8 bits. */
static uint8_t wide_grey(const page *p, const uint8_t *from, int64_t x)
{
    if (p->bits == 16) {
        uint16_t v;

        memcpy(&v, from + x * 2 * p->samples, 2);
        return p->format == SAMPLEFORMAT_INT ? clip((int16_t)v) : (uint8_t)(v >> 8);
    }
    if (p->format == SAMPLEFORMAT_IEEEFP) {
        float v;

        memcpy(&v, from + x * 4, 4);
        return v <= 0 ? 0 : v >= 255 ? 255 : (uint8_t)v;
    }
    int32_t v;

    memcpy(&v, from + x * 4, 4);
    return clip(v);
}

/* Converts n pixels of one row from any number of bits. */
static void unpack(TIFF *t, const page *p, const uint8_t *from, uint8_t *to, int64_t n)
{
    int channels = hr__pixel_channels(p->mode);
    bool inverted = p->photometric == PHOTOMETRIC_MINISWHITE;
    uint16_t *map[3] = { NULL, NULL, NULL };

    if (p->photometric == PHOTOMETRIC_PALETTE && !TIFFGetField(t, TIFFTAG_COLORMAP, &map[0], &map[1], &map[2]))
        map[0] = NULL;
    for (int64_t x = 0; x < n; x++, to += channels) {
        if (p->bits >= 16) {
            for (int c = 0; c < channels; c++) {
                uint16_t v;

                if (channels <= 2 && c == 0) {
                    to[0] = wide_grey(p, from, x);
                    continue;
                }
                memcpy(&v, from + (x * p->samples + c) * 2, 2);
                to[c] = (uint8_t)(v >> 8);
            }
        } else if (p->bits < 8 || p->photometric == PHOTOMETRIC_PALETTE) {
            int64_t bit = x * p->bits * p->samples;
            int most = (1 << p->bits) - 1, v = from[bit / 8] >> (8 - p->bits - bit % 8) & most;

            for (int c = 0; c < channels; c++)
                to[c] = map[c] ? (uint8_t)(map[c][v] >> 8) : (uint8_t)(v * 255 / most);
        } else {
            memcpy(to, from + x * p->samples, (size_t)channels);
        }
        if (inverted)
            to[0] = (uint8_t)~to[0];
        if (channels == 4 && p->mode == HR_PIXELS_RGBA && p->extra == EXTRASAMPLE_ASSOCALPHA && to[3] && to[3] < 255) {
            for (int c = 0; c < 3; c++)
                to[c] = clip(255 * to[c] / to[3]);
        }
    }
}

/* The layout of a strip or tile: the samples of a pixel side by side, or each in its own plane. */
typedef struct layout {
    bool tiled;
    int n_planes;            /* 1: side by side */
    int64_t n_bytes;         /* of a stored part: of one plane */
    int64_t row_bytes;       /* with samples side by side */
    hr_buffer *part, *plane; /* the samples side by side; room for a plane, if they are stored in planes */
} layout;

static hr_status layout_init(TIFF *t, const page *p, const hr_mem *mem, layout *l, hr_error *err)
{
    l->tiled = TIFFIsTiled(t);
    l->n_planes = p->planar == PLANARCONFIG_CONTIG ? 1 : p->samples;
    l->n_bytes = l->tiled ? TIFFTileSize(t) : TIFFStripSize(t);
    l->row_bytes = (l->tiled ? TIFFTileRowSize(t) : TIFFScanlineSize(t)) * l->n_planes;
    if (l->n_bytes <= 0 || l->row_bytes <= 0 || l->n_bytes > MAX_ALLOC_BYTES / l->n_planes)
        return hr_error_set(err, HR_BAD_DATA, "tiff: a strip or tile has %lld bytes", (long long)l->n_bytes);
    HR_TRY(hr__buffer_new(mem, l->n_bytes * l->n_planes, &l->part, err));
    return l->n_planes > 1 ? hr__buffer_new(mem, l->n_bytes, &l->plane, err) : HR_OK;
}

static void layout_clear(layout *l)
{
    hr__buffer_unref(l->part);
    hr__buffer_unref(l->plane);
}

static int64_t read_stored(TIFF *t, const layout *l, uint32_t x, uint32_t y, int sample, uint8_t *to)
{
    uint16_t s = (uint16_t)sample;

    memset(to, 0, (size_t)l->n_bytes);
    return l->tiled ? TIFFReadEncodedTile(t, TIFFComputeTile(t, x, y, 0, s), to, (tmsize_t)l->n_bytes)
                    : TIFFReadEncodedStrip(t, TIFFComputeStrip(t, y, s), to, (tmsize_t)l->n_bytes);
}

/* Reads the strip or tile at (x, y) into l->part; -> the number of bytes, < 0: damaged. Missing bytes are zero. */
static int64_t read_part(TIFF *t, const page *p, const layout *l, uint32_t x, uint32_t y)
{
    int64_t least = INT64_MAX, width = p->bits / 8;

    if (l->n_planes == 1)
        return read_stored(t, l, x, y, 0, l->part->data);
    for (int s = 0; s < l->n_planes; s++) {
        least = HR_MIN(least, read_stored(t, l, x, y, s, l->plane->data));
        for (int64_t k = 0; k < l->n_bytes / width; k++)
            memcpy(l->part->data + (k * l->n_planes + s) * width, l->plane->data + k * width, (size_t)width);
    }
    return least < 0 ? least : least * l->n_planes;
}

static hr_status strips(TIFF *t, input *i, const page *p, const hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_mem scratch = { job->mem->account, NULL };
    uint32_t per_strip = 0;
    hr_status st = HR_OK;
    layout l = { 0 };

    TIFFGetFieldDefaulted(t, TIFFTAG_ROWSPERSTRIP, &per_strip);
    per_strip = HR_MIN(per_strip, p->height);
    if (!per_strip)
        return failed(i, err);
    HR_GO(layout_init(t, p, &scratch, &l, err));
    for (uint32_t y = 0; y < p->height; y += per_strip) {
        int64_t got = read_part(t, p, &l, 0, y), n_rows = HR_MIN(per_strip, p->height - y);

        if (!job->truncated_ok && (got < 0 || got < l.row_bytes * n_rows))
            HR_GO(failed(i, err));
        for (int64_t r = 0; r < n_rows; r++)
            unpack(t, p, l.part->data + r * l.row_bytes, out->data + (y + r) * out->stride, p->width);
    }
done:
    layout_clear(&l);
    return st;
}

static hr_status tiles(TIFF *t, input *i, const page *p, const hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_mem scratch = { job->mem->account, NULL };
    int64_t c = hr__pixel_channels(p->mode);
    uint32_t w = 0, h = 0;
    hr_status st = HR_OK;
    layout l = { 0 };

    TIFFGetField(t, TIFFTAG_TILEWIDTH, &w);
    TIFFGetField(t, TIFFTAG_TILELENGTH, &h);
    if (!w || !h || TIFFTileSize(t) > (64 << 20) + 8 * (int64_t)p->width * p->height)
        return failed(i, err);
    HR_GO(layout_init(t, p, &scratch, &l, err));
    for (uint32_t y = 0; y < p->height; y += HR_MIN(h, p->height - y)) {
        for (uint32_t x = 0; x < p->width; x += HR_MIN(w, p->width - x)) {
            if (read_part(t, p, &l, x, y) < 0 && !job->truncated_ok)
                HR_GO(failed(i, err));
            for (int64_t r = 0; r < HR_MIN(h, p->height - y); r++)
                unpack(t, p, l.part->data + r * l.row_bytes, out->data + (y + r) * out->stride + x * c,
                       HR_MIN(w, p->width - x));
        }
    }
done:
    layout_clear(&l);
    return st;
}

static hr_status by_library(TIFF *t, input *i, const page *p, const hr_image_job *job, hr_image *out, hr_error *err)
{
    int channels = hr__pixel_channels(p->mode);
    hr_image all = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__image_new(&(hr_mem){ job->mem->account, NULL }, HR_PIXELS_RGBA, p->width, p->height, &all, err));
    memset(all.data, 0, (size_t)all.buffer->n_bytes);
    if (!TIFFReadRGBAImageOriented(t, p->width, p->height, (uint32_t *)(void *)all.data, ORIENTATION_TOPLEFT,
                                   !job->truncated_ok))
        HR_GO(failed(i, err));
    for (int64_t k = 0; k < (int64_t)p->width * p->height; k++) {
        uint32_t v = ((const uint32_t *)(const void *)all.data)[k];
        uint8_t rgba[4] = { (uint8_t)TIFFGetR(v), (uint8_t)TIFFGetG(v), (uint8_t)TIFFGetB(v), (uint8_t)TIFFGetA(v) };

        memcpy(out->data + k * channels, channels == 2 ? rgba + 2 : rgba, (size_t)channels);
    }
done:
    hr__image_clear(&all);
    return st;
}

static hr_status tiff_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    input i = { .in = in };
    TIFF *t = open_input(&i);
    hr_status st = HR_OK;
    page p;

    (void)info;
    if (!t)
        return failed(&i, err);
    HR_GO(read_page(t, &i, &p, err));
    if (p.photometric == PHOTOMETRIC_YCBCR && p.plain)
        TIFFSetField(t, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    HR_GO(hr__image_room(job, p.mode, p.width, p.height, out, err));
    if (!p.plain)
        HR_GO(by_library(t, &i, &p, job, out, err));
    else if (TIFFIsTiled(t))
        HR_GO(tiles(t, &i, &p, job, out, err));
    else
        HR_GO(strips(t, &i, &p, job, out, err));
done:
    job->n_warnings = i.n_warnings;
    TIFFClose(t);
    return st;
}
#endif

const hr_image_codec hr__image_tiff = {
    .name = "tiff",
    .library = "libtiff",
    .bid = tiff_bid,
#ifdef HR_HAVE_TIFF
    .look = tiff_look,
    .decode = tiff_decode,
#endif
};
