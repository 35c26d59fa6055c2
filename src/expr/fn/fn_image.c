/* fn_image.c - functions of images: decode, resize, crops, mirroring, normalizing.
 *
 * Each function takes images and settings, and returns images. It absorbs its argument if that is a call of an image
 * function: only the outermost call is evaluated, on the innermost argument, in one pass for each image
 * (image/image_chain.h).
 *
 * Tests: test_image_rule.c, test_image_expressions.py. */
#include "image/image_chain.h"
#include "expr/fn.h"

#include <stdlib.h>

/* The settings of all image functions; each function's table has those that it reads. */
typedef struct image_settings {
    int mode, filter, dtype, layout;
    bool exact, exif, truncated;
    int64_t height, width, seed, max_pixels;
    double scale_low, scale_high, ratio_low, ratio_high, p;
    char *mean, *std;
} image_settings;

#define SETTING(setting_name, setting_kind, field, ...)                                                                \
    { .name = setting_name, .kind = setting_kind, .at = offsetof(image_settings, field), __VA_ARGS__ }
#define SIZE_SETTINGS                                                                                                  \
    SETTING("height", HR_OPT_INT, height, .min = 1, .max = 1 << 20, .value = 224, .doc = "rows of pixels"),            \
        SETTING("width", HR_OPT_INT, width, .min = 1, .max = 1 << 20, .value = 224, .doc = "columns of pixels")
#define FILTER_SETTING                                                                                                 \
    SETTING("interpolation", HR_OPT_CHOICE, filter, .text = HR_IMAGE_FILTERS, .value = HR_FILTER_BILINEAR,             \
            .doc = "filter, antialiased (except nearest)")
#define SEED_SETTING SETTING("seed", HR_OPT_INT, seed, .doc = "another number gives other random values")

static const hr_option decode_table[] = {
    SETTING("mode", HR_OPT_CHOICE, mode, .text = "stored L LA RGB RGBA", .value = HR_PIXELS_RGB, .doc = "channels"),
    SETTING("exact", HR_OPT_BOOL, exact, .value = 1,
            .doc = "false: a JPEG may be decoded at 1/2, 1/4 or 1/8 if that is still twice the needed size"),
    SETTING("exif_orientation", HR_OPT_BOOL, exif, .doc = "turn and mirror by the EXIF data"),
    SETTING("allow_truncated", HR_OPT_BOOL, truncated, .doc = "the missing end of a file is grey or black"),
    SETTING("max_pixels", HR_OPT_INT, max_pixels, .max = 1e12, .value = (double)HR_IMAGE_MAX_PIXELS,
            .doc = "an image with more counts as damaged; 0: no limit"),
    { 0 },
};
static const hr_option resize_table[] = { SIZE_SETTINGS, FILTER_SETTING, { 0 } };
static const hr_option center_table[] = { SIZE_SETTINGS, { 0 } };
static const hr_option random_table[] = {
    SIZE_SETTINGS,
    FILTER_SETTING,
    SETTING("scale_low", HR_OPT_DOUBLE, scale_low, .value = 0.08, .doc = "least part of the area to keep"),
    SETTING("scale_high", HR_OPT_DOUBLE, scale_high, .value = 1, .doc = "largest part"),
    SETTING("ratio_low", HR_OPT_DOUBLE, ratio_low, .value = 3.0 / 4, .doc = "least width for a height of 1"),
    SETTING("ratio_high", HR_OPT_DOUBLE, ratio_high, .value = 4.0 / 3, .doc = "largest width"),
    SEED_SETTING,
    { 0 },
};
static const hr_option flip_table[] = { SETTING("p", HR_OPT_DOUBLE, p, .value = 0.5, .doc = "probability"),
                                        SEED_SETTING,
                                        { 0 } };
static const hr_option normalize_table[] = {
    SETTING("mean", HR_OPT_TEXT, mean, .text = "0",
            .doc = "mean of values from 0 to 1; one number, or one a channel: 0.5,0.4,0.3"),
    SETTING("std", HR_OPT_TEXT, std, .text = "1", .doc = "the same"),
    SETTING("dtype", HR_OPT_CHOICE, dtype, .text = HR_PIXEL_TYPES, .value = HR_PIXEL_FLOAT32,
            .doc = "type of the values; bfloat16 is stored as uint16"),
    SETTING("layout", HR_OPT_CHOICE, layout, .text = "CHW HWC", .doc = "order of channels, height and width"),
    { 0 },
};

/* ---------------------------------------------------------------------------------------------------------- binding */

/* "0.5" or "0.5,0.4,0.3" */
static hr_status numbers(const char *what, const char *text, double out[4], int *n, hr_error *err)
{
    const char *at = text;

    for (*n = 0; *n < 4;) {
        char *end;

        out[(*n)++] = strtod(at, &end);
        if (end == at)
            break;
        if (!*end)
            return HR_OK;
        if (*end != ',')
            break;
        at = end + 1;
    }
    return hr_error_set(err, HR_INVALID, "normalize: %s is '%s', expected 1 to 4 numbers with commas between", what,
                        text);
}

static hr_image_step_kind kind_of(const hr_expr_function *f);

static hr_status step_of(const hr_expr *e, hr_image_step *out, hr_error *err)
{
    const image_settings *o = e->options;

    *out = (hr_image_step){ .kind = kind_of(e->function),
                            .mode = (hr_pixel_mode)o->mode,
                            .exif = o->exif,
                            .exact = o->exact,
                            .truncated_ok = o->truncated,
                            .max_pixels = o->max_pixels,
                            .h = o->height,
                            .w = o->width,
                            .filter = (hr_image_filter)o->filter,
                            .scale = { o->scale_low, o->scale_high },
                            .ratio = { o->ratio_low, o->ratio_high },
                            .seed = (uint64_t)o->seed,
                            .p = o->p,
                            .type = (hr_pixel_type)o->dtype,
                            .planar = o->layout == 0 };
    if (out->kind != HR_STEP_NORMALIZE)
        return HR_OK;
    HR_TRY(numbers("mean", o->mean, out->mean, &out->n_mean, err));
    return numbers("std", o->std, out->std, &out->n_std, err);
}

static bool is_image_call(const hr_expr *e);

/* The steps of e, innermost first; *input: the expression that they apply to. */
static hr_status chain_of(const hr_expr *e, hr_image_chain *out, const hr_expr **input, hr_error *err)
{
    const hr_expr *calls[HR_IMAGE_MAX_STEPS];
    int n = 0;

    for (; is_image_call(e); e = e->args[0]) {
        if (n == HR_IMAGE_MAX_STEPS)
            return hr_error_set(err, HR_INVALID, "more than %d operations on one image", HR_IMAGE_MAX_STEPS);
        calls[n++] = e;
    }
    *input = e;
    out->n = 0;
    while (n-- > 0) {
        hr_image_step step;

        HR_TRY(step_of(calls[n], &step, err));
        HR_TRY(hr__image_chain_add(out, &step, err));
    }
    return HR_OK;
}

static hr_status image_bind(hr_bound_call *call, hr_error *err)
{
    hr_image_chain *chain = hr__zalloc(NULL, sizeof *chain);
    const hr_expr *input;

    if (!chain)
        return hr__error_memory(err, "image", sizeof *chain);
    call->state = chain;
    HR_TRY(chain_of(call->expr, chain, &input, err));
    if (call->inputs[0] != input) { /* bound again, to that input */
        call->inputs[0] = input;
        return HR_OK;
    }
    return hr__image_chain_type(chain, call->input_types[0], &call->type, err);
}

bool hr__expr_image_steps(const hr_expr *e, hr_image_chain *out, const char **column)
{
    const hr_expr *input;

    if (!is_image_call(e) || chain_of(e, out, &input, NULL) || input->kind != HR_EXPR_COLUMN)
        return false;
    *column = input->name;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- evaluation */

/* Plans row i of the column. */
static hr_status plan_row(const hr_image_chain *chain, const hr_eval *how, const hr_array *a, int64_t i,
                          hr_image_plan *out, hr_error *err)
{
    hr_image_dice dice = { .seed = how->seed, .epoch = how->epoch, .at = { .row = i } };
    const hr_array *data, *shape;
    int64_t begin, n;

    if (how->origin)
        dice.at = hr__origin_at(how->origin, i);
    if (hr__type_is_bytes(a->type)) {
        const uint8_t *p = hr__array_bytes(a, i, &n);

        return hr__image_plan_bytes(chain, (hr_view){ p, n }, &dice, out, err);
    }
    if (a->type->id == HR_T_TENSOR) {
        hr__array_range(a, i, &begin, &n);
        return hr__image_plan_pixels(chain, hr__array_values(a->children[0]) + begin, a->type->shape[0],
                                     a->type->shape[1], a->type->n_dims == 2 ? 1 : (int)a->type->shape[2], &dice, out,
                                     err);
    }
    data = a->children[0];
    shape = a->children[1];
    hr__array_range(shape, a->offset + i, &begin, &n);
    const int32_t *s = (const int32_t *)(const void *)hr__array_values(shape->children[0]) + begin;
    int32_t channels = a->type->n_dims == 2 ? 1 : s[2];

    hr__array_range(data, a->offset + i, &begin, &n);
    if (s[0] < 1 || s[1] < 1 || channels < 1 || channels > 4 || (int64_t)s[0] * s[1] > n / channels)
        return hr_error_set(err, HR_BAD_DATA, "an image of shape (%d, %d, %d) with %lld values", (int)s[0], (int)s[1],
                            (int)channels, (long long)n);
    return hr__image_plan_pixels(chain, hr__array_values(data->children[0]) + begin, s[0], s[1], channels, &dice, out,
                                 err);
}

static hr_status fixed_rows(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_buffer **out,
                            hr_error *err)
{
    int64_t bytes = (int64_t)call->type->width * hr__type_bytes(call->type->children[0].type);
    hr_status st = HR_OK;

    HR_TRY(hr__buffer_new(how->mem, how->n_rows * bytes, out, err));
    for (int64_t i = 0; i < how->n_rows && !st; i++) {
        uint8_t *to = (*out)->data + i * bytes;
        hr_image_plan p;
        char place[HR_PLACE_BYTES];

        if (hr__array_is_null(a, i)) {
            memset(to, 0, (size_t)bytes);
            continue;
        }
        st = plan_row(call->state, how, a, i, &p, err);
        if (!st && p.n_bytes != bytes)
            st = hr_error_set(err, HR_BUG, "an image has %lld bytes, expected %lld", (long long)p.n_bytes,
                              (long long)bytes);
        if (!st)
            st = hr__image_plan_run(&p, how->mem->account, to, err);
        if (st)
            hr__error_at(err, st, "%s: %s", call->expr->function->name, hr__eval_place(how, i, place));
    }
    return st;
}

static hr_status ragged_rows(const hr_bound_call *call, const hr_eval *how, const hr_array *a, hr_image_rows *rows,
                             hr_error *err)
{
    hr_status st = HR_OK;

    for (int64_t i = 0; i < how->n_rows && !st; i++) {
        hr_image_plan p;
        char place[HR_PLACE_BYTES];

        if (hr__array_is_null(a, i)) {
            st = hr__image_rows_add_null(rows, err);
            continue;
        }
        st = plan_row(call->state, how, a, i, &p, err);
        if (!st)
            st = hr__image_rows_add(rows, &p, how->mem->account, err);
        if (st)
            hr__error_at(err, st, "%s: %s", call->expr->function->name, hr__eval_place(how, i, place));
    }
    return st;
}

static hr_status fixed_array(hr_type *type, int64_t n, hr_buffer *takes_validity, hr_buffer *takes_values,
                             hr_array **out, hr_error *err)
{
    hr_array *inner = NULL;
    hr_status st = hr__array_new(type->children[0].type, n * type->width, 0,
                                 (hr_buffer *[3]){ NULL, takes_values, NULL }, NULL, 0, &inner, err);

    if (st) {
        hr__buffer_unref(takes_validity);
        return st;
    }
    return hr__array_new(type, n, takes_validity ? -1 : 0, (hr_buffer *[3]){ takes_validity, NULL, NULL }, &inner, 1,
                         out, err);
}

static hr_status image_eval(const hr_bound_call *call, const hr_eval *how, hr_array *const *args, hr_array **out,
                            hr_error *err)
{
    hr_image_rows rows;
    hr_buffer *validity = NULL, *values = NULL;
    hr_status st = HR_OK;
    bool all_null;

    *out = NULL;
    hr__image_rows_begin(&rows, how->mem, call->type);
    HR_GO(hr__eval_validity(how, args, 1, &validity, &all_null, err));
    if (all_null) { /* in a ragged column these have shapes, too */
        HR_GO(hr__eval_bits(how, how->n_rows, &validity, err));
        memset(validity->data, 0, (size_t)validity->n_bytes);
    }
    if (call->type->id == HR_T_TENSOR) {
        HR_GO(fixed_rows(call, how, args[0], &values, err));
        st = fixed_array(call->type, how->n_rows, validity, values, out, err);
        validity = values = NULL;
    } else {
        HR_GO(ragged_rows(call, how, args[0], &rows, err));
        st = hr__image_rows_finish(&rows, how->n_rows, validity, out, err);
        validity = NULL;
    }
done:
    hr__buffer_unref(validity);
    hr__buffer_unref(values);
    hr__image_rows_clear(&rows);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- the table */

#define IMAGE_FUNCTION(function_name, table, random, text)                                                             \
    { .name = function_name,                                                                                           \
      .doc = text,                                                                                                     \
      .min_args = 1,                                                                                                   \
      .max_args = 1,                                                                                                   \
      .options = table,                                                                                                \
      .options_bytes = sizeof(image_settings),                                                                         \
      .row_random = random,                                                                                            \
      .bind = image_bind,                                                                                              \
      .eval = image_eval }

const hr_expr_function hr__fn_image[] = {
    /* in the order of hr_image_step_kind */
    IMAGE_FUNCTION("image_decode", decode_table, false, "the pixels of an image file"),
    IMAGE_FUNCTION("image_resize", resize_table, false, "resized images"),
    IMAGE_FUNCTION("image_center_crop", center_table, false,
                   "the middle, with a border of zeros around a smaller image"),
    IMAGE_FUNCTION("image_random_resized_crop", random_table, true, "a random part, resized"),
    IMAGE_FUNCTION("image_random_flip", flip_table, true, "mirrored, left to right, or not"),
    IMAGE_FUNCTION("image_normalize", normalize_table, false, "(value / 255 - mean) / std as floats"),
    { 0 },
};

static bool is_image_call(const hr_expr *e) { return e->kind == HR_EXPR_CALL && e->function->bind == image_bind; }
static hr_image_step_kind kind_of(const hr_expr_function *f) { return (hr_image_step_kind)(f - hr__fn_image); }
