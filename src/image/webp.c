/* webp.c - WebP by libwebp: lossy and lossless, with and without alpha, and the first frame of an animation by
 * libwebpdemux.
 *
 * Tests: test_pixels.c, test_images.py. */
#include "image/pixels.h"

static bool webp_bid(hr_view in)
{
    return in.n >= 12 && memcmp(in.data, "RIFF", 4) == 0 && memcmp(in.data + 8, "WEBP", 4) == 0;
}

#ifdef HR_HAVE_WEBP
#include <webp/decode.h>
#include <webp/demux.h>
#include <webp/encode.h>

static uint32_t little(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* EXIF chunks lie after the pixels. Some writers put JPEG's "Exif\0\0" before the data. */
static int orientation(hr_view in)
{
    uint32_t n;

    for (int64_t at = 12; at + 8 <= in.n; at += 8 + (int64_t)n + (n & 1)) {
        n = little(in.data + at + 4);
        if ((int64_t)n > in.n - at - 8)
            break;
        if (memcmp(in.data + at, "EXIF", 4) == 0) {
            hr_view v = { in.data + at + 8, n };

            if (n >= 6 && memcmp(v.data, "Exif\0", 5) == 0)
                v = (hr_view){ v.data + 6, v.n - 6 };
            return hr__exif_orientation(v);
        }
    }
    return 1;
}

static const char *text_of(VP8StatusCode rc)
{
    switch (rc) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "libwebp does not know a feature of the file";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED: return "the file ends inside the image";
    default: return "damaged data";
    }
}

static hr_status failed(VP8StatusCode rc, hr_error *err)
{
    return hr_error_set(err, rc == VP8_STATUS_OUT_OF_MEMORY ? HR_NO_MEMORY : HR_BAD_DATA, "webp: %s", text_of(rc));
}

static hr_status webp_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    WebPBitstreamFeatures f;
    VP8StatusCode rc = WebPGetFeatures(in.data, (size_t)in.n, &f);

    if (rc != VP8_STATUS_OK)
        return failed(rc, err);
    out->width = f.width;
    out->height = f.height;
    out->stored = f.has_alpha || f.has_animation ? HR_PIXELS_RGBA : HR_PIXELS_RGB;
    if (exif)
        out->orientation = orientation(in);
    return HR_OK;
}

static hr_status first_frame(hr_view in, const hr_image_info *info, hr_image *out, hr_error *err)
{
    WebPData data = { in.data, (size_t)in.n };
    WebPAnimDecoder *d = NULL;
    hr_status st = HR_OK;
    uint8_t *pixels;
    int time;

    if (!hr__fault(HR_FAULT_MEMORY))
        d = WebPAnimDecoderNew(&data, NULL);
    if (!d)
        return hr_error_set(err, HR_BAD_DATA, "webp: damaged animation, or no memory for its frame");
    if (!WebPAnimDecoderGetNext(d, &pixels, &time))
        HR_FAIL(HR_BAD_DATA, "webp: damaged first frame");
    memcpy(out->data, pixels, (size_t)(info->width * info->height * 4));
done:
    WebPAnimDecoderDelete(d);
    return st;
}

static hr_status webp_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    bool alpha = info->stored == HR_PIXELS_RGBA && job->mode != HR_PIXELS_RGB && job->mode != HR_PIXELS_L;
    WebPDecoderConfig config;
    VP8StatusCode rc;

    if (!WebPInitDecoderConfig(&config))
        return hr_error_set(err, HR_UNSUPPORTED, "webp: the running libwebp has another version than the build's");
    rc = WebPGetFeatures(in.data, (size_t)in.n, &config.input);
    if (rc != VP8_STATUS_OK)
        return failed(rc, err);
    alpha = alpha || config.input.has_animation;
    HR_TRY(hr__image_room(job, alpha ? HR_PIXELS_RGBA : HR_PIXELS_RGB, info->width, info->height, out, err));
    if (config.input.has_animation)
        return first_frame(in, info, out, err);
    if (job->truncated_ok)
        memset(out->data, 0, (size_t)(out->stride * out->height));
    config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA = (WebPRGBABuffer){ out->data, (int)out->stride, (size_t)(out->stride * out->height) };
    if (hr__fault(HR_FAULT_MEMORY))
        return failed(VP8_STATUS_OUT_OF_MEMORY, err);
    rc = WebPDecode(in.data, (size_t)in.n, &config);
    if (job->truncated_ok && (rc == VP8_STATUS_NOT_ENOUGH_DATA || rc == VP8_STATUS_SUSPENDED))
        rc = VP8_STATUS_OK;
    return rc == VP8_STATUS_OK ? HR_OK : failed(rc, err);
}

/* --------------------------------------------------------------------------------------------------------- encoding */

hr_status hr__webp_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                          hr_error *err)
{
    int c = hr__pixel_channels(in->mode), w = (int)in->width, h = (int)in->height, stride = (int)in->stride;
    hr_image grey = { 0 };
    uint8_t *bytes = NULL;
    size_t n = 0;
    hr_status st = HR_OK;

    *out = NULL;
    if (c == 2)
        return hr_error_set(err, HR_TYPE, "webp: the image has 2 channels, expected 1, 3 or 4");
    if (in->width > WEBP_MAX_DIMENSION || in->height > WEBP_MAX_DIMENSION)
        return hr_error_set(err, HR_TYPE, "webp: %lld x %lld pixels, expected at most %d a side", (long long)in->width,
                            (long long)in->height, WEBP_MAX_DIMENSION);
    if (c == 1) { /* WebP has no grey */
        hr_image view = *in;

        hr__buffer_ref(view.buffer);
        st = hr__image_convert(mem, &view, HR_PIXELS_RGB, err);
        grey = view;
        HR_GO(st);
        in = &grey;
        stride = (int)grey.stride;
        c = 3;
    }
    if (!hr__fault(HR_FAULT_MEMORY))
        n = how->lossless ? (c == 4 ? WebPEncodeLosslessRGBA(in->data, w, h, stride, &bytes)
                                    : WebPEncodeLosslessRGB(in->data, w, h, stride, &bytes))
                          : (c == 4 ? WebPEncodeRGBA(in->data, w, h, stride, (float)how->quality, &bytes)
                                    : WebPEncodeRGB(in->data, w, h, stride, (float)how->quality, &bytes));
    if (!n)
        HR_GO(hr__error_memory(err, "webp", in->stride * in->height));
    HR_GO(hr__buffer_copy(mem, bytes, (int64_t)n, out, err));
done:
    WebPFree(bytes);
    hr__image_clear(&grey);
    return st;
}

#else
hr_status hr__webp_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                          hr_error *err)
{
    (void)in, (void)how, (void)mem;
    *out = NULL;
    return hr_error_set(err, HR_UNSUPPORTED, "a webp image: this build lacks libwebp");
}
#endif

const hr_image_codec hr__image_webp = {
    .name = "webp",
    .library = "libwebp",
    .max_ratio = 0, /* a picture of one colour needs a few bytes at any size; sides have at most 16,383 pixels */
    .bid = webp_bid,
#ifdef HR_HAVE_WEBP
    .look = webp_look,
    .decode = webp_decode,
#endif
};
