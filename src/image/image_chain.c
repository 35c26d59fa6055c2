/* image_chain.c - see image_chain.h.
 *
 * A plan is a list of stages, each a crop, a resize, and a crop of the result; a step becomes a part of the last stage
 * if possible. The usual recipes are one stage: crop and resize; resize and crop. A second resize is a second stage.
 *
 * Tests: test_pixels.c, test_image_rule.c. */
#include "image/image_chain.h"

#include <math.h>

/* ----------------------------------------------------------------------------------------------------------- chains */

static hr_status check_step(const hr_image_step *s, hr_error *err)
{
    if ((s->kind == HR_STEP_RESIZE || s->kind == HR_STEP_CENTER_CROP || s->kind == HR_STEP_RANDOM_CROP) &&
        (s->h < 1 || s->w < 1 || s->h > (1 << 20) || s->w > (1 << 20)))
        return hr_error_set(err, HR_INVALID, "an image of height %lld and width %lld", (long long)s->h,
                            (long long)s->w);
    if (s->kind == HR_STEP_RANDOM_CROP && !(s->scale[0] > 0 && s->scale[0] <= s->scale[1] && s->scale[1] <= 1 &&
                                            s->ratio[0] > 0 && s->ratio[0] <= s->ratio[1] && s->ratio[1] < 1e6))
        return hr_error_set(
            err, HR_INVALID,
            "random_resized_crop: scale %g to %g, ratio %g to %g; expected 0 < low <= high, scale at most 1",
            s->scale[0], s->scale[1], s->ratio[0], s->ratio[1]);
    if (s->kind == HR_STEP_RANDOM_FLIP && !(s->p >= 0 && s->p <= 1))
        return hr_error_set(err, HR_INVALID, "random_flip: p is %g, expected 0 to 1", s->p);
    if (s->kind != HR_STEP_NORMALIZE)
        return HR_OK;
    for (int i = 0; i < s->n_std; i++) {
        if (!(fabs(s->std[i]) > 0) || !isfinite(s->std[i]))
            return hr_error_set(err, HR_INVALID, "normalize: std[%d] is %g, expected a finite number other than 0", i,
                                s->std[i]);
    }
    if (s->n_mean > 1 && s->n_std > 1 && s->n_mean != s->n_std)
        return hr_error_set(err, HR_INVALID,
                            "normalize: %d means and %d standard deviations, expected equal numbers, or one of either",
                            s->n_mean, s->n_std);
    if (s->type == HR_PIXEL_UINT8)
        return hr_error_set(err, HR_INVALID, "normalize: dtype is uint8, expected float32, float16 or bfloat16");
    return HR_OK;
}

hr_status hr__image_chain_add(hr_image_chain *c, const hr_image_step *step, hr_error *err)
{
    if (c->n == HR_IMAGE_MAX_STEPS)
        return hr_error_set(err, HR_INVALID, "more than %d operations on one image", HR_IMAGE_MAX_STEPS);
    if (step->kind == HR_STEP_DECODE && c->n)
        return hr_error_set(err, HR_TYPE, "decode: the images are decoded already");
    if (c->n && c->steps[c->n - 1].kind == HR_STEP_NORMALIZE)
        return hr_error_set(err, HR_TYPE, "normalize has to be the last operation on an image");
    HR_TRY(check_step(step, err));
    c->steps[c->n++] = *step;
    return HR_OK;
}

static const hr_image_step *normalize_of(const hr_image_chain *c)
{
    return c->n && c->steps[c->n - 1].kind == HR_STEP_NORMALIZE ? &c->steps[c->n - 1] : NULL;
}

static bool is_uint8(const hr_type *t) { return t->id == HR_T_UINT8; }

/* The sizes that are known before any image is read; -1: unknown. *flat: grey images have two dimensions. */
static hr_status shape_before(const hr_image_chain *c, const hr_type *in, int64_t *h, int64_t *w, int *channels,
                              bool *flat, hr_error *err)
{
    bool bytes = !in || in->id == HR_T_BINARY || in->id == HR_T_LARGE_BINARY;

    *h = *w = -1;
    *channels = -1;
    *flat = true;
    if (bytes) {
        if (!c->n || c->steps[0].kind != HR_STEP_DECODE)
            return hr_error_set(err, HR_TYPE, "the column holds bytes: .image.decode() comes first");
        *channels = c->steps[0].mode ? hr__pixel_channels(c->steps[0].mode) : -1;
        return HR_OK;
    }
    if (c->n && c->steps[0].kind == HR_STEP_DECODE)
        return hr_error_set(err, HR_TYPE, "decode: the column holds no bytes");
    if (in->id == HR_T_TENSOR && is_uint8(in->children[0].type) &&
        (in->n_dims == 2 || (in->n_dims == 3 && in->shape[2] >= 1 && in->shape[2] <= 4))) {
        *h = in->shape[0];
        *w = in->shape[1];
        *channels = in->n_dims == 2 ? 1 : (int)in->shape[2];
        *flat = in->n_dims == 2;
        return HR_OK;
    }
    if (hr__type_is_ragged(in) && (in->n_dims == 2 || in->n_dims == 3) &&
        is_uint8(in->children[0].type->children[0].type)) {
        *channels = in->n_dims == 2 ? 1 : -1;
        *flat = in->n_dims == 2 || in->image;
        return HR_OK;
    }
    return hr_error_set(
        err, HR_TYPE,
        "the column holds no images: bytes, or uint8 tensors of height, width, and perhaps 1 to 4 channels");
}

static hr_type *value_type(const hr_image_step *normalize)
{
    static const hr_type_id ids[] = { HR_T_UINT8, HR_T_FLOAT32, HR_T_FLOAT16, HR_T_UINT16 };

    return hr__type_simple(ids[normalize ? normalize->type : HR_PIXEL_UINT8]);
}

hr_status hr__image_chain_type(const hr_image_chain *c, const hr_type *in, hr_type **out, hr_error *err)
{
    const hr_image_step *normalize = normalize_of(c);
    int64_t h, w;
    int channels;
    bool flat, planar = normalize && normalize->planar;

    *out = NULL;
    HR_TRY(shape_before(c, in, &h, &w, &channels, &flat, err));
    for (int i = 0; i < c->n; i++) {
        if (c->steps[i].h) {
            h = c->steps[i].h;
            w = c->steps[i].w;
        }
    }
    if (normalize && HR_MAX(normalize->n_mean, normalize->n_std) > 1) {
        int n = HR_MAX(normalize->n_mean, normalize->n_std);

        if (channels > 0 && channels != n)
            return hr_error_set(err, HR_INVALID, "normalize: %d values, the images have %d channels", n, channels);
        channels = n;
    }
    if ((h < 0 || channels < 0) && flat && !planar)
        return hr__type_ragged_image(value_type(normalize), out, err);
    if (h < 0 || channels < 0)
        return hr__type_ragged(value_type(normalize), 3, out, err);
    if (planar)
        return hr__type_tensor(value_type(normalize), (int64_t[]){ channels, h, w }, 3, out, err);
    return hr__type_tensor(value_type(normalize), (int64_t[]){ h, w, channels }, flat && channels == 1 ? 2 : 3, out,
                           err);
}

/* ------------------------------------------------------------------------------------------------------------- dice */

typedef struct dice {
    uint64_t seed;
    const hr_image_dice *of;
    uint64_t n; /* drawn */
    hr_bits128 bits;
} dice;

/* A number in [0, 1). Each step has its own numbers, independent of those that other steps draw. */
static double draw(dice *d)
{
    uint64_t v;

    if (d->n % 2 == 0)
        d->bits = hr__random_coord(d->seed + d->n * UINT64_C(0x9e3779b97f4a7c15), (uint64_t)d->of->epoch, &d->of->at);
    v = d->n++ % 2 ? d->bits.hi : d->bits.lo;
    return (double)(v >> 11) * 0x1p-53;
}

static dice dice_of(const hr_image_dice *of, const hr_image_step *s, int i)
{
    hr_hash h;
    hr_bits128 mixed;

    hr__hash_init(&h, of->seed);
    hr__hash_int(&h, (int64_t)s->seed);
    hr__hash_int(&h, i);
    mixed = hr__hash_end(&h);
    return (dice){ .seed = mixed.lo, .of = of };
}

/* A box of random area and shape, as torchvision's RandomResizedCrop: ten attempts, then the middle. */
static void random_box(dice *d, const hr_image_step *s, int64_t w, int64_t h, int64_t box[4])
{
    double area = (double)w * (double)h, in_ratio = (double)w / (double)h;

    for (int i = 0; i < 10; i++) {
        double part = area * (s->scale[0] + draw(d) * (s->scale[1] - s->scale[0]));
        double ratio = exp(log(s->ratio[0]) + draw(d) * (log(s->ratio[1]) - log(s->ratio[0])));
        int64_t bw = (int64_t)nearbyint(sqrt(part * ratio)), bh = (int64_t)nearbyint(sqrt(part / ratio));
        double y = draw(d), x = draw(d);

        if (bw < 1 || bh < 1 || bw > w || bh > h)
            continue;
        box[0] = (int64_t)(x * (double)(w - bw + 1));
        box[1] = (int64_t)(y * (double)(h - bh + 1));
        box[2] = bw;
        box[3] = bh;
        return;
    }
    box[2] = w;
    box[3] = h;
    if (in_ratio < s->ratio[0])
        box[3] = HR_MAX(1, HR_MIN(h, (int64_t)nearbyint((double)w / s->ratio[0])));
    else if (in_ratio > s->ratio[1])
        box[2] = HR_MAX(1, HR_MIN(w, (int64_t)nearbyint((double)h * s->ratio[1])));
    box[0] = (w - box[2]) / 2;
    box[1] = (h - box[3]) / 2;
}

/* --------------------------------------------------------------------------------------------------------- planning */

static int64_t out_w(const hr_image_stage *s) { return s->pad_w ? s->pad_w : s->out_w; }
static int64_t out_h(const hr_image_stage *s) { return s->pad_w ? s->pad_h : s->out_h; }

static hr_image_stage *new_stage(hr_image_plan *p, int64_t w, int64_t h)
{
    hr_image_stage *s = &p->stages[p->n_stages++];

    *s = (hr_image_stage){ .w = w, .h = h, .full_w = w, .full_h = h, .out_w = w, .out_h = h };
    return s;
}

/* The last stage, if the next step can become a part of it. */
static hr_image_stage *open_stage(hr_image_plan *p)
{
    hr_image_stage *s = &p->stages[p->n_stages - 1];

    return s->pad_w ? new_stage(p, s->pad_w, s->pad_h) : s;
}

/* Crops the result of the stage to the box x, y, w, h. */
static void crop(hr_image_stage *s, int64_t x, int64_t y, int64_t w, int64_t h)
{
    if (s->resized) {
        s->at_x += x;
        s->at_y += y;
    } else {
        s->x += s->flip ? s->w - x - w : x;
        s->y += y;
        s->w = s->full_w = w;
        s->h = s->full_h = h;
    }
    s->out_w = w;
    s->out_h = h;
}

static void resize(hr_image_plan *p, const hr_image_step *step)
{
    hr_image_stage *s = open_stage(p);

    if (s->resized)
        s = new_stage(p, s->out_w, s->out_h);
    s->resized = true;
    s->full_w = s->out_w = step->w;
    s->full_h = s->out_h = step->h;
    s->filter = step->filter;
}

/* Crops to the middle; a smaller image gets an even border of zeros, as in torchvision. */
static void center_crop(hr_image_plan *p, const hr_image_step *step)
{
    hr_image_stage *s = open_stage(p);
    int64_t w = HR_MIN(s->out_w, step->w), h = HR_MIN(s->out_h, step->h);
    int64_t x = s->out_w - w, y = s->out_h - h, pad_x = step->w - w, pad_y = step->h - h;

    crop(s, (int64_t)nearbyint((double)x / 2), (int64_t)nearbyint((double)y / 2), w, h);
    if (pad_x || pad_y) {
        s->pad_x = pad_x / 2;
        s->pad_y = pad_y / 2;
        s->pad_w = step->w;
        s->pad_h = step->h;
    }
}

static void random_crop(hr_image_plan *p, const hr_image_step *step, dice *d)
{
    hr_image_stage *s = open_stage(p);
    int64_t box[4];

    if (s->resized)
        s = new_stage(p, s->out_w, s->out_h);
    random_box(d, step, s->out_w, s->out_h, box);
    crop(s, box[0], box[1], box[2], box[3]);
    resize(p, step);
}

/* Mirrors the result of a stage: counts its part of the result from the other side. */
static void flip(hr_image_plan *p)
{
    hr_image_stage *s = open_stage(p);

    s->flip = !s->flip;
    s->at_x = s->full_w - s->at_x - s->out_w;
}

static void plan_steps(hr_image_plan *p, const hr_image_dice *of)
{
    int n_random = 0; /* the index among the random steps; a decode step at the beginning does not change it */

    new_stage(p, p->in_w, p->in_h);
    for (int i = 0; i < p->chain->n; i++) {
        const hr_image_step *s = &p->chain->steps[i];
        dice d = dice_of(of, s, n_random);

        n_random += s->kind == HR_STEP_RANDOM_CROP || s->kind == HR_STEP_RANDOM_FLIP;
        switch (s->kind) {
        case HR_STEP_RESIZE: resize(p, s); break;
        case HR_STEP_CENTER_CROP: center_crop(p, s); break;
        case HR_STEP_RANDOM_CROP: random_crop(p, s, &d); break;
        case HR_STEP_RANDOM_FLIP:
            if (draw(&d) < s->p)
                flip(p);
            break;
        default: break;
        }
    }
}

static hr_status finish_plan(hr_image_plan *p, const hr_image_dice *dice, hr_error *err)
{
    const hr_image_step *n = normalize_of(p->chain);
    const hr_image_stage *last;

    plan_steps(p, dice);
    last = &p->stages[p->n_stages - 1];
    p->normalize = n;
    p->w = out_w(last);
    p->h = out_h(last);
    p->channels = hr__pixel_channels(p->mode);
    p->n_bytes = p->w * p->h * p->channels * hr__pixel_type_bytes(n ? n->type : HR_PIXEL_UINT8);
    if (n && HR_MAX(n->n_mean, n->n_std) > 1 && HR_MAX(n->n_mean, n->n_std) != p->channels)
        return hr_error_set(err, HR_BAD_DATA, "normalize: %d values, the image has %d channels",
                            HR_MAX(n->n_mean, n->n_std), p->channels);
    return HR_OK;
}

hr_status hr__image_plan_bytes(const hr_image_chain *c, hr_view bytes, const hr_image_dice *dice, hr_image_plan *out,
                               hr_error *err)
{
    const hr_image_step *s = &c->steps[0];
    bool turned;

    out->chain = c;
    out->bytes = bytes;
    out->pixels = NULL;
    out->n_stages = 0;
    if (!c->n || s->kind != HR_STEP_DECODE)
        return hr_error_set(err, HR_BUG, "images that are not decoded");
    HR_TRY(hr__image_look(bytes, s->exif, s->max_pixels, &out->info, err));
    turned = out->info.orientation >= 5;
    out->in_w = turned ? out->info.height : out->info.width;
    out->in_h = turned ? out->info.width : out->info.height;
    out->mode = s->mode ? s->mode : out->info.stored;
    if (out->mode == HR_PIXELS_CMYK)
        out->mode = HR_PIXELS_RGB;
    return finish_plan(out, dice, err);
}

hr_status hr__image_plan_pixels(const hr_image_chain *c, const uint8_t *pixels, int64_t h, int64_t w, int channels,
                                const hr_image_dice *dice, hr_image_plan *out, hr_error *err)
{
    out->chain = c;
    out->bytes = (hr_view){ 0 };
    out->pixels = pixels;
    out->n_stages = 0;
    out->in_w = w;
    out->in_h = h;
    if (channels < 1 || channels > 4 || w < 1 || h < 1)
        return hr_error_set(err, HR_BAD_DATA, "an image of %lld x %lld pixels and %d channels", (long long)w,
                            (long long)h, channels);
    out->mode = (hr_pixel_mode)channels;
    return finish_plan(out, dice, err);
}

/* ---------------------------------------------------------------------------------------------------------- running */

/* The factor by which the JPEG decoder may shrink, so that a reduction of at least two remains: the filter's input then
 * differs little from the pixels. */
static int shrink_of(const hr_image_plan *p)
{
    const hr_image_stage *s = &p->stages[0];
    int shrink = 1;

    if (p->chain->steps[0].exact || !s->resized || !p->info.codec->can_shrink || s->filter == HR_FILTER_NEAREST)
        return 1;
    while (shrink < 8 && s->w >= s->full_w * shrink * 4 && s->h >= s->full_h * shrink * 4)
        shrink *= 2;
    return shrink;
}

/* Decodes the pixels that the first stage takes, or all. `into`: the place of the result, if no stage follows; or
 * NULL. */
static hr_status get_pixels(const hr_image_plan *p, const hr_mem *mem, uint8_t *into, hr_image *out, int *shrink,
                            hr_error *err)
{
    const hr_image_step *s = &p->chain->steps[0];
    const hr_image_stage *first = &p->stages[0];
    hr_image_job job = {
        .mem = mem, .mode = p->mode, .truncated_ok = s->truncated_ok, .into = into, .into_bytes = p->n_bytes
    };

    *shrink = 1;
    if (p->pixels) {
        *out = (hr_image){ .data = (uint8_t *)(uintptr_t)p->pixels,
                           .width = p->in_w,
                           .height = p->in_h,
                           .stride = p->in_w * p->channels,
                           .mode = p->mode };
        return HR_OK;
    }
    if (p->info.orientation == 1 && p->info.codec->can_crop) {
        *shrink = shrink_of(p);
        job.shrink = *shrink;
        job.x = first->x;
        job.y = first->y;
        job.w = first->w == p->in_w && first->h == p->in_h ? 0 : first->w;
        job.h = first->h;
    }
    HR_TRY(hr__image_decode(p->bytes, &p->info, &job, out, err));
    return hr__image_orient(mem, out, p->info.orientation, err);
}

/* Writes the result of a stage into a sink. */
static hr_status run_stage(const hr_image_stage *s, const hr_image *in, int shrink, const hr_pixel_sink *to,
                           hr_account *scratch, hr_error *err)
{
    double by = shrink;
    hr_resample r = { .data = in->data,
                      .stride = in->stride,
                      .width = in->width,
                      .height = in->height,
                      .channels = hr__pixel_channels(in->mode),
                      .box_x = (double)s->x / by - (double)in->x,
                      .box_y = (double)s->y / by - (double)in->y,
                      .box_w = (double)s->w / by,
                      .box_h = (double)s->h / by,
                      .full_w = s->full_w,
                      .full_h = s->full_h,
                      .x = s->at_x,
                      .y = s->at_y,
                      .w = s->out_w,
                      .h = s->out_h,
                      .flip = s->flip,
                      .filter = s->resized ? s->filter : HR_FILTER_NEAREST };

    if (shrink == 1) { /* filters see no pixel outside the box, as after a crop */
        r.data += (s->y - in->y) * in->stride + (s->x - in->x) * r.channels;
        r.width = s->w;
        r.height = s->h;
        r.box_x = r.box_y = 0;
    }
    if (s->pad_w)
        hr__pixel_sink_blank(to, r.channels);
    return hr__image_resample(&r, to, scratch, err);
}

static hr_pixel_sink sink_of(const hr_image_plan *p, uint8_t *out)
{
    const hr_image_stage *last = &p->stages[p->n_stages - 1];
    const hr_image_step *n = p->normalize;
    hr_pixel_sink to = { .out = out,
                         .width = p->w,
                         .height = p->h,
                         .at_x = last->pad_x,
                         .at_y = last->pad_y,
                         .type = n ? n->type : HR_PIXEL_UINT8,
                         .planar = n && n->planar };

    for (int c = 0; n && c < p->channels; c++) {
        double mean = n->mean[n->n_mean == 1 ? 0 : c], std = n->std[n->n_std == 1 ? 0 : c];

        to.scale[c] = (float)(1 / (255 * std));
        to.bias[c] = (float)(-mean / std);
    }
    return to;
}

/* The chain stores the pixels unchanged. */
static bool is_plain(const hr_image_plan *p)
{
    const hr_image_stage *s = &p->stages[0];

    return p->n_stages == 1 && !s->resized && !s->flip && !s->pad_w && !p->normalize && s->w == p->in_w &&
           s->h == p->in_h;
}

hr_status hr__image_plan_run(const hr_image_plan *p, hr_account *scratch, uint8_t *out, hr_error *err)
{
    hr_mem mem = { scratch, NULL };
    hr_image at = { 0 }, next = { 0 };
    hr_status st = HR_OK;
    int shrink = 1;

    HR_GO(get_pixels(p, &mem, is_plain(p) ? out : NULL, &at, &shrink, err));
    if (is_plain(p)) {
        if (at.data != out)
            memcpy(out, at.data, (size_t)p->n_bytes);
        goto done;
    }
    for (int i = 0; i < p->n_stages; i++) {
        const hr_image_stage *s = &p->stages[i];
        hr_pixel_sink to = sink_of(p, out);

        if (i + 1 < p->n_stages) {
            HR_GO(hr__image_new(&mem, p->mode, out_w(s), out_h(s), &next, err));
            to = (hr_pixel_sink){
                .out = next.data, .width = out_w(s), .height = out_h(s), .at_x = s->pad_x, .at_y = s->pad_y
            };
        }
        HR_GO(run_stage(s, &at, i ? 1 : shrink, &to, scratch, err));
        hr__image_clear(&at);
        at = next;
        next = (hr_image){ 0 };
    }
done:
    hr__image_clear(&at);
    hr__image_clear(&next);
    return st;
}

hr_status hr__image_plan_make(const hr_image_plan *p, const hr_mem *mem, hr_buffer **out, hr_error *err)
{
    hr_image at = { 0 };
    hr_status st = HR_OK;
    int shrink;

    *out = NULL;
    if (is_plain(p) && !p->pixels) {
        HR_TRY(get_pixels(p, mem, NULL, &at, &shrink, err));
        *out = at.buffer;
        return HR_OK;
    }
    HR_GO(hr__buffer_new(mem, p->n_bytes, out, err));
    HR_GO(hr__image_plan_run(p, mem->account, (*out)->data, err));
done:
    if (st) {
        hr__buffer_unref(*out);
        *out = NULL;
    }
    return st;
}
