/* gif.c - the first frame of a GIF by giflib, on its canvas.
 *
 * What the frame does not cover has the transparent colour, with alpha 0 where alpha is asked for, or else the first one. */
#include "codec/pixels.h"

static bool gif_bid(hr_view in) { return hr__view_starts(in, "GIF87a") || hr__view_starts(in, "GIF89a"); }

#ifdef HR_HAVE_GIF
#include <gif_lib.h>

static hr_status gif_look(hr_view in, bool exif, hr_image_info *out, hr_error *err)
{
    (void)exif; /* a GIF has none */
    if (in.n < 13)
        return hr_error_set(err, HR_BAD_DATA, "gif: %lld bytes are no header", (long long)in.n);
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
                        code == D_GIF_ERR_READ_FAILED ? "the file ends inside of the image"
                        : text                        ? text
                                                      : "damaged data");
}

/* Goes to the first frame; *clear: the transparent colour's number, -1 if there is none. */
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
            return hr_error_set(err, HR_BAD_DATA, "gif: no frame");
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

static hr_status frame(GifFileType *gif, int clear, bool truncated_ok, const hr_mem *mem, hr_image *out, hr_error *err)
{
    static const int begins[] = { 0, 4, 2, 1 }, steps[] = { 8, 8, 4, 2 };
    const GifImageDesc *d = &gif->Image;
    const ColorMapObject *map = d->ColorMap ? d->ColorMap : gif->SColorMap;
    int passes = d->Interlace ? 4 : 1;
    hr_buffer *line = NULL;
    hr_status st = HR_OK;

    if (d->Left < 0 || d->Top < 0 || d->Width < 0 || d->Height < 0 || d->Left + d->Width > out->width ||
        d->Top + d->Height > out->height)
        return hr_error_set(err, HR_BAD_DATA, "gif: a frame of %d x %d at %d, %d is not inside of %lld x %lld",
                            d->Width, d->Height, d->Left, d->Top, (long long)out->width, (long long)out->height);
    HR_GO(hr__buffer_new(mem, HR_MAX(d->Width, 1), &line, err));
    for (int pass = 0; pass < passes; pass++) {
        for (int y = d->Interlace ? begins[pass] : 0; y < d->Height; y += d->Interlace ? steps[pass] : 1) {
            uint8_t *to = out->data + (d->Top + y) * out->stride + (int64_t)d->Left * 4;

            if (DGifGetLine(gif, line->data, d->Width) == GIF_ERROR) {
                if (!truncated_ok || gif->Error != D_GIF_ERR_READ_FAILED)
                    st = failed(gif->Error, err);
                goto done;
            }
            for (int x = 0; x < d->Width; x++)
                paint(to + (int64_t)x * 4, map, line->data[x], clear);
        }
    }
done:
    hr__buffer_unref(line);
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
    HR_GO(frame(gif, clear, job->truncated_ok, &scratch, out, err));
done:
    DGifCloseFile(gif, &code);
    return st;
}
#endif

const hr_image_codec hr__image_gif = {
    .name = "gif",
    .library = "giflib",
    .max_ratio = 4096, /* a code of 12 bits stands for at most 4,096 pixels */
    .bid = gif_bid,
#ifdef HR_HAVE_GIF
    .look = gif_look,
    .decode = gif_decode,
#endif
};
