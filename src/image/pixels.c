/* pixels.c - the list of image kinds, their limits, and the conversion of decoded pixels: modes and orientation.
 *
 * Conversions equal Pillow's, bit for bit: grey is (19595 R + 38470 G + 7471 B + 32768) >> 16, ink is subtracted from
 * white with rounding, and alpha is dropped without blending. */
#include "image/pixels.h"

#include <stdio.h>

static const hr_image_codec *const codecs[] = { &hr__image_jpeg, &hr__image_png, &hr__image_webp,
                                                &hr__image_gif,  &hr__image_bmp, &hr__image_tiff };

void hr__image_clear(hr_image *i)
{
    hr__buffer_unref(i->buffer);
    *i = (hr_image){ 0 };
}

hr_status hr__image_new(const hr_mem *mem, hr_pixel_mode mode, int64_t width, int64_t height, hr_image *out,
                        hr_error *err)
{
    int64_t stride = width * hr__pixel_channels(mode);

    *out = (hr_image){ .width = width, .height = height, .stride = stride, .mode = mode };
    HR_TRY(hr__buffer_new(mem, stride * height, &out->buffer, err));
    out->data = out->buffer->data;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- looking */

static hr_status unknown(hr_view in, hr_error *err)
{
    char head[8 * 3 + 1] = "";

    if (in.n == 0)
        return hr_error_set(err, HR_BAD_DATA, "the file is empty, expected an image");
    for (int i = 0; i < 8 && i < in.n; i++)
        snprintf(head + i * 3, 4, " %02x", in.data[i]);
    return hr_error_set(err, HR_BAD_DATA,
                        "expected a JPEG, PNG, WebP, GIF, BMP or TIFF, found a file that begins with%s", head);
}

hr_status hr__image_room(const hr_image_job *job, hr_pixel_mode mode, int64_t width, int64_t height, hr_image *out,
                         hr_error *err)
{
    int64_t stride = width * hr__pixel_channels(mode);

    if (!job->into || mode != job->mode || height * stride != job->into_bytes)
        return hr__image_new(job->mem, mode, width, height, out, err);
    *out = (hr_image){ .data = job->into, .width = width, .height = height, .stride = stride, .mode = mode };
    return HR_OK;
}

static const hr_image_codec *codec_of(hr_view in)
{
    for (int i = 0; i < HR_LEN(codecs); i++) {
        if (codecs[i]->bid(in))
            return codecs[i];
    }
    return NULL;
}

bool hr__image_known(hr_view head) { return codec_of(head) != NULL; }

hr_status hr__image_look(hr_view in, bool exif, int64_t max_pixels, hr_image_info *out, hr_error *err)
{
    const hr_image_codec *c = codec_of(in);

    *out = (hr_image_info){ .orientation = 1 };
    if (!c)
        return unknown(in, err);
    if (!c->look)
        return hr_error_set(err, HR_UNSUPPORTED, "a %s image: this build lacks %s", c->name, c->library);
    HR_TRY(c->look(in, exif, out, err));
    out->codec = c;
    if (out->width < 1 || out->height < 1 || out->width > INT32_MAX / 8 || out->height > INT32_MAX / 8)
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld x %lld pixels", c->name, (long long)out->width,
                            (long long)out->height);
    if (max_pixels > 0 && out->width * out->height > max_pixels)
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld x %lld pixels, the limit is %lld (max_pixels)", c->name,
                            (long long)out->width, (long long)out->height, (long long)max_pixels);
    if (c->max_ratio && out->width * out->height / c->max_ratio > in.n)
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld x %lld pixels cannot come from %lld bytes", c->name,
                            (long long)out->width, (long long)out->height, (long long)in.n);
    return HR_OK;
}

hr_status hr__image_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_pixel_mode mode = job->mode ? job->mode : info->stored;
    hr_status st;

    *out = (hr_image){ 0 };
    job->n_warnings = 0;
    st = info->codec->decode(in, info, job, out, err);
    if (!st)
        st = hr__image_convert(job->mem, out, mode == HR_PIXELS_CMYK ? HR_PIXELS_RGB : mode, err);
    if (st)
        hr__image_clear(out);
    return st;
}

static uint32_t exif_number(const uint8_t *p, int n, bool little)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v |= (uint32_t)p[little ? i : n - 1 - i] << (8 * i);
    return v;
}

int hr__exif_orientation(hr_view v)
{
    bool little = v.n >= 8 && v.data[0] == 'I';
    uint32_t at, n;

    if (v.n < 8 || (memcmp(v.data, "II*\0", 4) != 0 && memcmp(v.data, "MM\0*", 4) != 0))
        return 1;
    at = exif_number(v.data + 4, 4, little);
    if ((int64_t)at + 2 > v.n)
        return 1;
    n = exif_number(v.data + at, 2, little);
    for (uint32_t i = 0; i < n && (int64_t)at + 2 + 12 * ((int64_t)i + 1) <= v.n; i++) {
        const uint8_t *entry = v.data + at + 2 + 12 * (size_t)i;

        if (exif_number(entry, 2, little) == 0x0112) {
            uint32_t how = exif_number(entry + 8, 2, little);

            return how >= 1 && how <= 8 ? (int)how : 1;
        }
    }
    return 1;
}

/* ------------------------------------------------------------------------------------------------------- conversion */

static uint8_t grey_of(const uint8_t *p)
{
    return (uint8_t)((p[0] * 19595 + p[1] * 38470 + p[2] * 7471 + 0x8000) >> 16);
}

static uint8_t without_ink(int ink, int paper)
{
    int t = ink * paper + 128;

    return (uint8_t)(paper - (((t >> 8) + t) >> 8));
}

static void cmyk_row(const uint8_t *from, uint8_t *to, int64_t n)
{
    for (int64_t i = 0; i < n; i++, from += 4, to += 3) {
        int paper = 255 - from[3], c = from[0], m = from[1], y = from[2];

        to[0] = without_ink(c, paper);
        to[1] = without_ink(m, paper);
        to[2] = without_ink(y, paper);
    }
}

/* Converts one row: grey or colour, with or without alpha. */
static void convert_row(const uint8_t *from, int n_from, uint8_t *to, int n_to, int64_t n)
{
    for (int64_t i = 0; i < n; i++, from += n_from, to += n_to) {
        uint8_t alpha = n_from % 2 ? 255 : from[n_from - 1];

        if (n_to <= 2) {
            to[0] = n_from <= 2 ? from[0] : grey_of(from);
        } else {
            to[0] = from[0];
            to[1] = n_from <= 2 ? from[0] : from[1];
            to[2] = n_from <= 2 ? from[0] : from[2];
        }
        if (n_to % 2 == 0)
            to[n_to - 1] = alpha;
    }
}

hr_status hr__image_convert(const hr_mem *mem, hr_image *i, hr_pixel_mode mode, hr_error *err)
{
    hr_image to = { 0 };

    if (i->mode == mode)
        return HR_OK;
    if (i->mode == HR_PIXELS_CMYK && mode != HR_PIXELS_RGB)
        HR_TRY(hr__image_convert(mem, i, HR_PIXELS_RGB, err));
    HR_TRY(hr__image_new(mem, mode, i->width, i->height, &to, err));
    for (int64_t y = 0; y < i->height; y++) {
        if (i->mode == HR_PIXELS_CMYK)
            cmyk_row(i->data + y * i->stride, to.data + y * to.stride, i->width);
        else
            convert_row(i->data + y * i->stride, hr__pixel_channels(i->mode), to.data + y * to.stride,
                        hr__pixel_channels(mode), i->width);
    }
    to.x = i->x;
    to.y = i->y;
    hr__image_clear(i);
    *i = to;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ orientation */

hr_status hr__image_orient(const hr_mem *mem, hr_image *i, int how, hr_error *err)
{
    int c = hr__pixel_channels(i->mode);
    bool turned = how >= 5;
    hr_image to = { 0 };

    if (how <= 1 || how > 8)
        return HR_OK;
    HR_TRY(hr__image_new(mem, i->mode, turned ? i->height : i->width, turned ? i->width : i->height, &to, err));
    for (int64_t y = 0; y < to.height; y++) {
        uint8_t *p = to.data + y * to.stride;
        int64_t sx = turned ? y : 0, sy = turned ? 0 : y, dx = turned ? 0 : 1, dy = turned ? 1 : 0;

        if (how == 2 || how == 3 || how == 7 || how == 8) { /* right to left */
            sx = i->width - 1 - sx;
            dx = -dx;
        }
        if (how == 3 || how == 4 || how == 6 || how == 7) { /* bottom to top */
            sy = i->height - 1 - sy;
            dy = -dy;
        }
        for (int64_t x = 0; x < to.width; x++, p += c)
            memcpy(p, i->data + (sy + x * dy) * i->stride + (sx + x * dx) * c, (size_t)c);
    }
    hr__image_clear(i);
    *i = to;
    return HR_OK;
}
