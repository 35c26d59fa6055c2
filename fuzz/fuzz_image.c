/* fuzz_image.c - any bytes as an image file. The first byte chooses the mode, a crop, and whether EXIF counts. */
#include "image/image_chain.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = hr__live_blocks();
    hr_image_step decode = { .kind = HR_STEP_DECODE, .max_pixels = 1 << 20 };
    hr_image_step resize = { .kind = HR_STEP_RANDOM_CROP,
                             .h = 9,
                             .w = 7,
                             .filter = HR_FILTER_BICUBIC,
                             .scale = { 0.1, 1 },
                             .ratio = { 0.5, 2 } };
    hr_error err = HR_ERROR_INIT;
    hr_image_chain c = { 0 };
    hr_buffer *out = NULL;
    hr_image_plan p;

    if (size == 0)
        return 0;
    decode.mode = (hr_pixel_mode)(data[0] % 5);
    decode.exif = data[0] & 16;
    decode.truncated_ok = data[0] & 32;
    if (hr__image_chain_add(&c, &decode, &err) || (data[0] & 64 && hr__image_chain_add(&c, &resize, &err)))
        abort();
    if (!hr__image_plan_bytes(&c, (hr_view){ data + 1, (int64_t)size - 1 }, &(hr_image_dice){ 0 }, &p, &err) &&
        !hr__image_plan_make(&p, &(hr_mem){ NULL, NULL }, &out, &err) && out->n_bytes != p.n_bytes)
        abort();
    hr__buffer_unref(out);
    if (err.status && !err.text[0])
        abort();
    hr_error_clear(&err);
    if (hr__live_blocks() != blocks)
        abort();
    return 0;
}
