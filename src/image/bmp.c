/* bmp.c - BMP in our own code: 1 to 32 bits, palettes, bit fields, run lengths, headers of Windows and OS/2, both
 * directions.
 *
 * A colour of fewer than 8 bits is stretched to 255 without rounding, as in Pillow. Pixels that a run-length file skips
 * have palette entry 0. As in Pillow, a palette that maps each index to the same grey counts as none: 8 bits whose
 * entry i is i of each colour, 1 bit of black and white.
 *
 * Tests: test_pixels.c. */
#include "image/pixels.h"

typedef enum { BMP_PLAIN, BMP_RLE8, BMP_RLE4, BMP_FIELDS } bmp_packing;

typedef struct bmp_header {
    int64_t width, height;
    bool top_down;
    int bits;
    bmp_packing packing;
    uint32_t masks[4]; /* red, green, blue, alpha; of 16 and 32 bits */
    const uint8_t *palette;
    int n_colours, colour_bytes;
    bool grey;      /* the palette maps each index to the same grey */
    int64_t pixels; /* the offset of the pixels */
} bmp_header;

static bool bmp_bid(hr_view in)
{
    return in.n >= 18 && in.data[0] == 'B' && in.data[1] == 'M' && in.data[15] == 0 && in.data[16] == 0 &&
           in.data[17] == 0 && (in.data[14] == 12 || in.data[14] >= 16);
}

static uint32_t u16(const uint8_t *p) { return (uint32_t)(p[0] | p[1] << 8); }
static uint32_t u32(const uint8_t *p) { return u16(p) | u16(p + 2) << 16; }

static hr_status bad(hr_error *err, const char *what, int64_t v)
{
    return hr_error_set(err, HR_BAD_DATA, "bmp: %s %lld", what, (long long)v);
}

/* The colour masks of 16 and 32 bits: in the header, after a short header, or the defaults. */
static hr_status masks_of(hr_view in, uint32_t header, uint32_t compression, bmp_header *h, hr_error *err)
{
    static const uint32_t usual[2][4] = { { 0x7c00, 0x3e0, 0x1f, 0 }, { 0xff0000, 0xff00, 0xff, 0 } };
    int n = compression == 6 || header >= 56 ? 4 : 3;

    memcpy(h->masks, usual[h->bits == 32], sizeof h->masks);
    if (h->packing != BMP_FIELDS)
        return HR_OK;
    h->masks[3] = 0;
    if (in.n < 54 + 4 * n)
        return bad(err, "the header is cut off after byte", in.n);
    for (int i = 0; i < n; i++)
        h->masks[i] = u32(in.data + 54 + 4 * (size_t)i);
    for (int i = 0; i < 4; i++) { /* each mask is one run of bits */
        uint32_t m = h->masks[i] ? h->masks[i] >> __builtin_ctz(h->masks[i]) : 0;

        if (m & (m + 1))
            return bad(err, "a colour's mask is", h->masks[i]);
    }
    return HR_OK;
}

static bool palette_is_grey(const bmp_header *h, int n_wanted)
{
    if (h->n_colours != n_wanted || (h->bits == 1 ? h->n_colours != 2 : h->bits != 8 || h->n_colours <= 2))
        return false;
    for (int i = 0; i < h->n_colours; i++) {
        const uint8_t *c = h->palette + (size_t)i * (size_t)h->colour_bytes;
        int v = h->bits == 1 ? i * 255 : i;

        if (c[0] != v || c[1] != v || c[2] != v)
            return false;
    }
    return true;
}

static hr_status read_header(hr_view in, bmp_header *h, hr_error *err)
{
    const uint8_t *p = in.data + 14;
    uint32_t header = u32(p), compression = 0, n_colours = 0;
    int64_t at = 14 + (int64_t)header, room;

    *h = (bmp_header){ .pixels = u32(in.data + 10), .colour_bytes = header == 12 ? 3 : 4 };
    if (in.n < at || (header > 12 && header < 40 && header != 16))
        return bad(err, "a header of bytes:", header);
    if (header == 12) {
        h->width = u16(p + 4);
        h->height = u16(p + 6);
        h->bits = (int)u16(p + 10);
    } else {
        h->width = (int32_t)u32(p + 4);
        h->height = (int32_t)u32(p + 8);
        h->bits = (int)u16(p + 14);
    }
    if (header >= 40) {
        compression = u32(p + 16);
        n_colours = u32(p + 32);
    }
    h->top_down = h->height < 0;
    h->height = h->top_down ? -h->height : h->height;
    if (compression > 3 && compression != 6)
        return hr_error_set(err, HR_UNSUPPORTED, "bmp: compression %u", compression);
    h->packing = compression == 6 ? BMP_FIELDS : (bmp_packing)compression;
    if ((h->bits != 1 && h->bits != 2 && h->bits != 4 && h->bits != 8 && h->bits != 16 && h->bits != 24 &&
         h->bits != 32) ||
        (h->packing == BMP_RLE8 && h->bits != 8) || (h->packing == BMP_RLE4 && h->bits != 4) ||
        (h->packing == BMP_FIELDS && h->bits != 16 && h->bits != 32))
        return bad(err, "bits a pixel:", h->bits);
    HR_TRY(masks_of(in, header, compression, h, err));
    if (h->bits <= 8) {
        room = HR_MIN(in.n, h->pixels > at ? h->pixels : in.n) - at;
        h->palette = in.data + at;
        h->n_colours = (int)HR_MIN(HR_MIN(n_colours ? (int64_t)n_colours : 256, 1 << h->bits), room / h->colour_bytes);
        if (n_colours > 256)
            return bad(err, "colours:", n_colours);
        h->grey = palette_is_grey(h, n_colours ? (int)n_colours : 1 << h->bits);
        if (h->pixels == at) /* the header lacks the palette, which still lies before the pixels */
            h->pixels += (int64_t)h->n_colours * h->colour_bytes;
    }
    if (h->pixels < at || h->pixels > in.n)
        return bad(err, "pixels begin at byte", h->pixels);
    return HR_OK;
}

static hr_status bmp_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    bmp_header h;

    (void)exif; /* a BMP has none */
    if (in.n < 26)
        return bad(err, "the header is cut off after byte", in.n);
    HR_TRY(read_header(in, &h, err));
    out->width = h.width;
    out->height = h.height;
    out->stored = h.grey ? HR_PIXELS_L : h.bits >= 16 && h.masks[3] ? HR_PIXELS_RGBA : HR_PIXELS_RGB;
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- decoding */

static uint8_t stretch(uint32_t v, uint32_t mask)
{
    uint32_t most;

    if (!mask)
        return 0;
    most = mask >> __builtin_ctz(mask);
    return (uint8_t)((uint64_t)((v & mask) >> __builtin_ctz(mask)) * 255 / most);
}

static void from_palette(const bmp_header *h, int index, uint8_t *to)
{
    static const uint8_t none[4];
    const uint8_t *c;

    if (h->grey) {
        to[0] = (uint8_t)(h->bits == 1 ? index * 255 : index);
        return;
    }
    c = index < h->n_colours ? h->palette + (size_t)index * (size_t)h->colour_bytes : none;

    to[0] = c[2];
    to[1] = c[1];
    to[2] = c[0];
}

static void plain_row(const bmp_header *h, const uint8_t *from, uint8_t *to, int channels)
{
    for (int64_t x = 0; x < h->width; x++, to += channels) {
        if (h->bits <= 8) {
            int64_t bit = x * h->bits;

            from_palette(h, from[bit / 8] >> (8 - h->bits - bit % 8) & ((1 << h->bits) - 1), to);
        } else if (h->bits == 24) {
            to[0] = from[x * 3 + 2];
            to[1] = from[x * 3 + 1];
            to[2] = from[x * 3];
        } else {
            uint32_t v = h->bits == 16 ? u16(from + x * 2) : u32(from + x * 4);

            for (int c = 0; c < channels; c++)
                to[c] = stretch(v, h->masks[c]);
        }
    }
}

/* Decodes run lengths into palette indices, rows from the bottom. */
static hr_status unpack(const bmp_header *h, hr_view in, uint8_t *index, bool truncated_ok, hr_error *err)
{
    int64_t at = h->pixels, x = 0, y = 0;
    bool four = h->packing == BMP_RLE4;

    while (at + 2 <= in.n && y < h->height) {
        int n = in.data[at], v = in.data[at + 1];

        at += 2;
        if (n > 0) {
            for (int i = 0; i < n && x < h->width; i++, x++)
                index[y * h->width + x] = (uint8_t)(four ? (i % 2 ? v & 15 : v >> 4) : v);
        } else if (v == 0) {
            x = 0;
            y++;
        } else if (v == 1) {
            return HR_OK;
        } else if (v == 2) {
            if (at + 2 > in.n)
                break;
            x += in.data[at];
            y += in.data[at + 1];
            at += 2;
        } else {
            int64_t n_bytes = four ? (v + 1) / 2 : v;

            if (at + n_bytes > in.n)
                break;
            for (int i = 0; i < v && x < h->width; i++, x++)
                index[y * h->width + x] =
                    (uint8_t)(four ? (i % 2 ? in.data[at + i / 2] & 15 : in.data[at + i / 2] >> 4) : in.data[at + i]);
            at += HR_ROUND_UP(n_bytes, 2);
        }
    }
    if (y < h->height && !truncated_ok)
        return hr_error_set(err, HR_BAD_DATA, "bmp: the file ends inside the image");
    return HR_OK;
}

static hr_status runs(const bmp_header *h, hr_view in, const hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_mem scratch = { job->mem->account, NULL };
    hr_buffer *index = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(&scratch, h->width * h->height, &index, err));
    memset(index->data, 0, (size_t)index->n_bytes);
    HR_GO(unpack(h, in, index->data, job->truncated_ok, err));
    for (int64_t y = 0; y < h->height; y++) {
        uint8_t *to = out->data + (h->top_down ? y : h->height - 1 - y) * out->stride;

        for (int64_t x = 0; x < h->width; x++)
            from_palette(h, index->data[y * h->width + x], to + x * (h->grey ? 1 : 3));
    }
done:
    hr__buffer_unref(index);
    return st;
}

static hr_status bmp_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    bmp_header h;
    int64_t row_bytes;

    HR_TRY(read_header(in, &h, err));
    row_bytes = (h.width * h.bits + 31) / 32 * 4;
    HR_TRY(hr__image_room(job, info->stored, h.width, h.height, out, err));
    if (h.packing == BMP_RLE8 || h.packing == BMP_RLE4)
        return runs(&h, in, job, out, err);
    if (in.n - h.pixels < row_bytes * (h.height - 1) + (h.width * h.bits + 7) / 8 && !job->truncated_ok)
        return hr_error_set(err, HR_BAD_DATA, "bmp: %lld bytes of pixels, expected %lld by the header",
                            (long long)(in.n - h.pixels), (long long)(row_bytes * h.height));
    memset(out->data, 0, job->truncated_ok ? (size_t)(out->stride * out->height) : 0);
    for (int64_t y = 0; y < h.height; y++) {
        int64_t at = h.pixels + y * row_bytes;

        if (at + (h.width * h.bits + 7) / 8 > in.n)
            break;
        plain_row(&h, in.data + at, out->data + (h.top_down ? y : h.height - 1 - y) * out->stride,
                  hr__pixel_channels(info->stored));
    }
    return HR_OK;
}

/* --------------------------------------------------------------------------------------------------------- encoding */

static void put32(uint8_t *p, int64_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

hr_status hr__bmp_encode(const hr_image *in, const hr_image_save *how, const hr_mem *mem, hr_buffer **out,
                         hr_error *err)
{
    int c = hr__pixel_channels(in->mode);
    int64_t at = c == 1 ? 54 + 256 * 4 : 54; /* the offset of the pixels; grey ones lie after their palette */
    int64_t row_bytes = HR_ROUND_UP(in->width * c, 4), n = at + row_bytes * in->height;

    (void)how;
    *out = NULL;
    if (c % 2 == 0)
        return hr_error_set(err, HR_TYPE, "bmp: the image has %d channels, expected 1 or 3", c);
    if (n > UINT32_MAX)
        return hr_error_set(err, HR_TYPE, "bmp: %lld x %lld pixels exceed 4 GiB", (long long)in->width,
                            (long long)in->height);
    HR_TRY(hr__buffer_new(mem, n, out, err));
    memset((*out)->data, 0, 54);
    memcpy((*out)->data, "BM", 2);
    put32((*out)->data + 2, n);
    put32((*out)->data + 10, at);
    put32((*out)->data + 14, 40);
    put32((*out)->data + 18, in->width);
    put32((*out)->data + 22, in->height);
    (*out)->data[26] = 1;
    (*out)->data[28] = (uint8_t)(8 * c);
    for (int i = 0; i < 256 && c == 1; i++)
        put32((*out)->data + 54 + 4 * i, i * 0x10101);
    for (int64_t y = 0; y < in->height; y++) {
        const uint8_t *from = in->data + y * in->stride;
        uint8_t *to = (*out)->data + at + (in->height - 1 - y) * row_bytes;

        for (int64_t x = 0; x < in->width; x++, from += c) {
            for (int i = 0; i < c; i++)
                *to++ = from[c - 1 - i];
        }
        memset(to, 0, (size_t)(row_bytes - in->width * c));
    }
    return HR_OK;
}

const hr_image_codec hr__image_bmp = {
    .name = "bmp",
    .max_ratio = 1024, /* runs of 255 pixels in two bytes; jumps can skip more, but no writer makes files of jumps */
    .bid = bmp_bid,
    .look = bmp_look,
    .decode = bmp_decode,
};
