/* gif.c - the first frame of a GIF on its canvas: giflib finds the frame and its codes, this file decodes the pixels.
 *
 * The area outside the frame has the transparent colour (alpha 0 in modes with alpha), or else the first colour.
 *
 * Tests: test_images.py. */
#include "image/pixels.h"

static bool gif_bid(hr_view in) { return hr__view_starts(in, "GIF87a") || hr__view_starts(in, "GIF89a"); }

#ifdef HR_HAVE_GIF
#include <gif_lib.h>

static hr_status gif_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    (void)exif; /* a GIF has none */
    if (in.n < 13)
        return hr_error_set(err, HR_BAD_DATA, "gif: the file has %lld bytes, which is less than a header",
                            (long long)in.n);
    out->width = in.data[6] | in.data[7] << 8;
    out->height = in.data[8] | in.data[9] << 8;
    out->stored = HR_PIXELS_RGB;
    return HR_OK;
}

typedef struct input {
    hr_view in;
    int64_t at;
} input;

static int on_read(GifFileType *gif, GifByteType *out, int n)
{
    input *i = gif->UserData;
    int64_t got = HR_MIN(n, i->in.n - i->at);

    memcpy(out, i->in.data + i->at, (size_t)got);
    i->at += got;
    return (int)got;
}

static hr_status failed(int code, hr_error *err)
{
    const char *text = GifErrorString(code);

    if (code == D_GIF_ERR_NOT_ENOUGH_MEM)
        return hr_error_set(err, HR_NO_MEMORY, "gif: no memory");
    return hr_error_set(err, HR_BAD_DATA, "gif: %s",
                        code == D_GIF_ERR_READ_FAILED ? "the file ends inside the image"
                        : text                        ? text
                                                      : "damaged data");
}

/* Goes to the first frame; *clear: the number of the transparent colour, -1: none. */
static hr_status to_frame(GifFileType *gif, int *clear, hr_error *err)
{
    GifRecordType kind;

    *clear = -1;
    for (;;) {
        GifByteType *block = NULL;
        int code = 0;

        if (DGifGetRecordType(gif, &kind) == GIF_ERROR)
            return failed(gif->Error, err);
        if (kind == TERMINATE_RECORD_TYPE)
            return hr_error_set(err, HR_BAD_DATA, "gif: the file has no frame");
        if (kind == IMAGE_DESC_RECORD_TYPE)
            return DGifGetImageDesc(gif) == GIF_ERROR ? failed(gif->Error, err) : HR_OK;
        if (kind != EXTENSION_RECORD_TYPE)
            continue;
        if (DGifGetExtension(gif, &code, &block) == GIF_ERROR)
            return failed(gif->Error, err);
        if (code == GRAPHICS_EXT_FUNC_CODE && block && block[0] >= 4 && (block[1] & 1))
            *clear = block[4];
        while (block) {
            if (DGifGetExtensionNext(gif, &block) == GIF_ERROR)
                return failed(gif->Error, err);
        }
    }
}

static void paint(uint8_t *to, const ColorMapObject *map, int index, int clear)
{
    const GifColorType grey = { (GifByteType)index, (GifByteType)index, (GifByteType)index }, none = { 0, 0, 0 };
    const GifColorType *c = !map ? &grey : index < map->ColorCount ? &map->Colors[index] : &none;

    to[0] = c->Red;
    to[1] = c->Green;
    to[2] = c->Blue;
    to[3] = index == clear ? 0 : 255;
}

/* -------------------------------------------------------------------------------------------------------------- LZW */

#define MAX_CODES 4096

/* The strings of the codes. giflib finds the codes; its own decoder also makes pixels from codes that do not exist. */
typedef struct table {
    uint16_t before[MAX_CODES]; /* the string without its last pixel */
    uint8_t last[MAX_CODES], first[MAX_CODES];
    int clear, n; /* codes below `clear` are pixels */
} table;

/* Writes the string of a code to `out`, at most `room` pixels of it. -> its length */
static int put_string(const table *t, int code, uint8_t *out, int64_t room)
{
    int n = 1;

    for (int c = code; c >= t->clear; c = t->before[c])
        n++;
    for (int i = n; i-- > 0;) {
        bool is_pixel = code < t->clear;

        if (i < room)
            out[i] = is_pixel ? (uint8_t)code : t->last[code];
        code = is_pixel ? code : t->before[code];
    }
    return n;
}

/* Defines the next code: the string of `before` and the first pixel of `code`, which may be the new code itself. */
static void add_string(table *t, int before, int code)
{
    int head = code == t->n ? before : code;

    if (t->n == MAX_CODES)
        return;
    t->before[t->n] = (uint16_t)before;
    t->first[t->n] = before < t->clear ? (uint8_t)before : t->first[before];
    t->last[t->n++] = head < t->clear ? (uint8_t)head : t->first[head];
}

/* Decodes n pixels; *n_made: their number, less if the file ends. `size`: bits of a pixel's code. */
static hr_status unpack(GifFileType *gif, int size, table *t, uint8_t *out, int64_t n, int64_t *n_made, hr_error *err)
{
    int before = -1, code, made;

    *n_made = 0;
    if (size < 1 || size > 8)
        return hr_error_set(err, HR_BAD_DATA, "gif: a code has %d bits, expected 1 to 8", size);
    t->clear = 1 << size;
    t->n = t->clear + 2;
    while (*n_made < n) {
        if (DGifGetLZCodes(gif, &code) == GIF_ERROR)
            return failed(gif->Error, err);
        if (code < 0)
            return hr_error_set(err, HR_BAD_DATA, "gif: the data ends after %lld of %lld pixels", (long long)*n_made,
                                (long long)n);
        if (code == t->clear) {
            t->n = t->clear + 2;
            before = -1;
            continue;
        }
        if (before < 0 ? code > t->clear : code > t->n || code == MAX_CODES)
            return hr_error_set(err, HR_BAD_DATA, "gif: code %d after %lld pixels, there are %d", code,
                                (long long)*n_made, before < 0 ? t->clear : t->n + 1);
        if (before >= 0)
            add_string(t, before, code);
        if (code >= t->n)
            return hr_error_set(err, HR_BAD_DATA, "gif: code %d after %lld pixels, there are %d", code,
                                (long long)*n_made, t->n);
        made = put_string(t, code, out + *n_made, n - *n_made);
        *n_made += HR_MIN(made, n - *n_made);
        before = code;
    }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- frames */

/* Paints the rows of the frame in stored order, `n_made` pixels. */
static void paint_rows(const GifImageDesc *d, const ColorMapObject *map, int clear, const uint8_t *pixels,
                       int64_t n_made, hr_image *out)
{
    static const int begins[] = { 0, 4, 2, 1 }, steps[] = { 8, 8, 4, 2 };

    for (int pass = 0; pass < (d->Interlace ? 4 : 1); pass++) {
        for (int y = d->Interlace ? begins[pass] : 0; y < d->Height; y += d->Interlace ? steps[pass] : 1) {
            uint8_t *to = out->data + (d->Top + y) * out->stride + (int64_t)d->Left * 4;

            if (n_made < d->Width)
                return;
            for (int x = 0; x < d->Width; x++)
                paint(to + (int64_t)x * 4, map, *pixels++, clear);
            n_made -= d->Width;
        }
    }
}

static hr_status frame(GifFileType *gif, int size, int clear, bool truncated_ok, const hr_mem *mem, hr_image *out,
                       hr_error *err)
{
    const GifImageDesc *d = &gif->Image;
    int64_t n = (int64_t)d->Width * d->Height, n_made = 0;
    hr_buffer *work = NULL;
    hr_status st = HR_OK;

    if (d->Left < 0 || d->Top < 0 || d->Width < 0 || d->Height < 0 || d->Left + d->Width > out->width ||
        d->Top + d->Height > out->height)
        return hr_error_set(err, HR_BAD_DATA, "gif: a frame of %d x %d at %d, %d exceeds the canvas of %lld x %lld",
                            d->Width, d->Height, d->Left, d->Top, (long long)out->width, (long long)out->height);
    HR_TRY(hr__buffer_new(mem, (int64_t)sizeof(table) + n, &work, err));
    st = unpack(gif, size, (table *)(void *)work->data, work->data + sizeof(table), n, &n_made, err);
    if (st && truncated_ok && gif->Error == D_GIF_ERR_READ_FAILED) {
        hr_error_clear(err);
        st = HR_OK;
    }
    if (!st)
        paint_rows(d, d->ColorMap ? d->ColorMap : gif->SColorMap, clear, work->data + sizeof(table), n_made, out);
    hr__buffer_unref(work);
    return st;
}

static hr_status gif_decode(hr_view in, const hr_image_info *info, hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_mem scratch = { job->mem->account, NULL };
    input from = { in, 0 };
    GifFileType *gif = NULL;
    int code = D_GIF_ERR_NOT_ENOUGH_MEM, clear;
    hr_status st = HR_OK;

    if (!hr__fault(HR_FAULT_MEMORY))
        gif = DGifOpen(&from, on_read, &code);
    if (!gif)
        return failed(code, err);
    HR_GO(to_frame(gif, &clear, err));
    HR_GO(hr__image_room(job, HR_PIXELS_RGBA, info->width, info->height, out, err));
    for (int64_t i = 0; i < info->width * info->height; i++)
        paint(out->data + i * 4, gif->Image.ColorMap ? gif->Image.ColorMap : gif->SColorMap, HR_MAX(clear, 0), clear);
    /* the last byte is the number of bits of a code */
    HR_GO(frame(gif, in.data[from.at - 1], clear, job->truncated_ok, &scratch, out, err));
done:
    DGifCloseFile(gif, &code);
    return st;
}
#endif

const hr_image_codec hr__image_gif = {
    .name = "gif",
    .library = "giflib",
    .max_ratio = 4096, /* a code of 12 bits has at most 4,096 pixels */
    .bid = gif_bid,
#ifdef HR_HAVE_GIF
    .look = gif_look,
    .decode = gif_decode,
#endif
};
