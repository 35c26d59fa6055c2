/* test_pixels.c - images encoded and decoded again, a part of one, headers that lie, bytes that are cut or flipped;
 * resizing by all kernels; chains. (Files of other makers and Pillow's pixels: tests/python/test_images.py.) */
#include "image/image_chain.h"
#include "harness.h"

#ifdef HR_HAVE_JPEG
#include "image/jpeg_huffman.h"
#endif

#include <math.h>
#include <stdlib.h>

static const hr_mem mem = { NULL, NULL };

/* A smooth picture with some noise. */
static hr_image picture(hr_pixel_mode mode, int64_t w, int64_t h)
{
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 7;
    hr_image i;
    int c = hr__pixel_channels(mode);

    assert_ok(hr__image_new(&mem, mode, w, h, &i, &err), &err);
    for (int64_t y = 0; y < h; y++)
        for (int64_t x = 0; x < w * c; x++)
            i.data[y * i.stride + x] =
                (uint8_t)((x / c * 120 / w + y * 50 / h + x % c * 20 + random_below(&random, 6)) & 255);
    return i;
}

static const struct {
    const char *name;
    hr_image_encoder *encode;
    bool lossy;
} kinds[] = {
    { "bmp", hr__bmp_encode, false },
#ifdef HR_HAVE_PNG
    { "png", hr__png_encode, false },
#endif
#ifdef HR_HAVE_JPEG
    { "jpeg", hr__jpeg_encode, true },
#endif
#ifdef HR_HAVE_WEBP
    { "webp", hr__webp_encode, true },
#endif
};
static const hr_image_save how = { 90, 6, false };

static hr_status decode(hr_view in, hr_image_job *job, hr_image *out, hr_error *err)
{
    hr_image_info info;

    *out = (hr_image){ 0 };
    job->mem = &mem;
    HR_TRY(hr__image_look(in, true, HR_IMAGE_MAX_PIXELS, &info, err));
    return hr__image_decode(in, &info, job, out, err);
}

static int worst(const hr_image *a, const hr_image *b)
{
    int most = 0;

    for (int64_t y = 0; y < a->height; y++)
        for (int64_t x = 0; x < a->width * hr__pixel_channels(a->mode); x++)
            most = HR_MAX(most, abs(a->data[y * a->stride + x] - b->data[y * b->stride + x]));
    return most;
}

static void test_there_and_back(void **state)
{
    static const int64_t sizes[][2] = { { 1, 1 }, { 17, 5 }, { 120, 90 }, { 3, 200 } };
    live_memory before = live_now();

    (void)state;
    for (int k = 0; k < HR_LEN(kinds); k++) {
        for (int s = 0; s < HR_LEN(sizes) * 4; s++) {
            hr_pixel_mode mode = (hr_pixel_mode)(s % 4 + 1);
            hr_image in = picture(mode, sizes[s / 4][0], sizes[s / 4][1]), out;
            hr_image_job job = { .mode = mode };
            hr_error err = HR_ERROR_INIT;
            hr_buffer *bytes;
            hr_status st = kinds[k].encode(&in, &how, &mem, &bytes, &err);

            if (st) { /* a kind that has no such channels says so */
                assert_status(st, HR_TYPE, &err);
                assert_contains(err.text, "channels");
            } else {
                assert_ok(decode((hr_view){ bytes->data, bytes->n_bytes }, &job, &out, &err), &err);
                assert_true(out.mode == mode && out.width == in.width && out.height == in.height);
                assert_true(worst(&in, &out) <= (kinds[k].lossy ? 40 : 0));
                hr__image_clear(&out);
            }
            hr__buffer_unref(bytes);
            hr__image_clear(&in);
        }
    }
    assert_no_leak(before);
}

#ifdef HR_HAVE_JPEG
/* A picture that needs codes of all lengths: the more noise, the longer. */
static hr_image noise(hr_pixel_mode mode, int64_t w, int64_t h, int most, uint64_t *random)
{
    hr_image i = picture(mode, w, h);

    for (int64_t k = 0; k < i.stride * i.height; k++)
        i.data[k] = (uint8_t)HR_MIN(255, i.data[k] + random_below(random, most + 1));
    return i;
}

static void spoil(uint8_t *bytes, int64_t *n, int how_much, uint64_t *random)
{
    if (how_much == 1)
        *n = random_below(random, *n) + 1;
    for (int k = 0; k < how_much; k++)
        bytes[random_below(random, *n)] = (uint8_t)random_below(random, 256);
}
#endif

/* The library's private structs are tried out before they are used: at other places than these nothing is. */
static void test_the_library_is_known(void **state)
{
    (void)state;
#ifdef HR_HAVE_JPEG
    const hr_jpeg_layout at = hr__jpeg_layout;

    if (!hr__jpeg_layout_is_known())
        skip();
    assert_true(hr__jpeg_layout_is(&at));
    assert_false(hr__jpeg_layout_is(&(hr_jpeg_layout){ at.decode_mcu - sizeof(void *), at.has_multiple_scans }));
    assert_false(hr__jpeg_layout_is(&(hr_jpeg_layout){ at.decode_mcu, at.has_multiple_scans - sizeof(void *) }));
    assert_false(hr__jpeg_layout_is(&(hr_jpeg_layout){ at.decode_mcu, at.has_multiple_scans + sizeof(int) }));
#endif
}

/* Our own decoding of codes gives what the library's gives: all pixels or a part, of good data and of bad. */
static void test_own_huffman(void **state)
{
    (void)state;
#ifdef HR_HAVE_JPEG
    uint64_t random = 11;
    int n_bad = 0;

    for (int n = 0; n < 1200; n++) {
        int64_t w = 1 + random_below(&random, 90), h = 1 + random_below(&random, 90);
        hr_image in = noise(n % 5 ? HR_PIXELS_RGB : HR_PIXELS_L, w, h, n % 3 * 100, &random), ours, theirs;
        hr_image_save save = { .quality = 1 + (int)random_below(&random, 100) };
        hr_image_job a = { .truncated_ok = n % 7 == 0 }, b;
        hr_error err = HR_ERROR_INIT;
        hr_status st;
        hr_buffer *bytes;
        hr_view v;

        assert_ok(hr__jpeg_encode(&in, &save, &mem, &bytes, &err), &err);
        v = (hr_view){ bytes->data, bytes->n_bytes };
        if (n % 2)
            spoil(bytes->data, &v.n, n % 4 / 2 + 1, &random);
        if (n % 11 == 0) {
            a.w = 1 + random_below(&random, w);
            a.h = 1 + random_below(&random, h);
            a.x = random_below(&random, w - a.w + 1);
            a.y = random_below(&random, h - a.h + 1);
        }
        b = a;
        b.library_only = true;
        st = decode(v, &a, &ours, &err);
        hr_error_clear(&err);
        assert_int_equal(decode(v, &b, &theirs, &err), st);
        n_bad += st != HR_OK;
        if (!st) {
            assert_true(ours.width == theirs.width && ours.height == theirs.height && ours.mode == theirs.mode);
            assert_int_equal(worst(&ours, &theirs), 0);
        }
        assert_true(st || n % 2 == 1 || a.n_warnings == 0);
        hr_error_clear(&err);
        hr__image_clear(&ours);
        hr__image_clear(&theirs);
        hr__buffer_unref(bytes);
        hr__image_clear(&in);
    }
    assert_true(n_bad > 100);
#endif
}

/* Regions of a JPEG are what the whole has there. */
static void test_region(void **state)
{
    (void)state;
#ifdef HR_HAVE_JPEG
    hr_image in = picture(HR_PIXELS_RGB, 333, 257), whole, part;
    hr_image_job all = { .mode = HR_PIXELS_RGB };
    hr_error err = HR_ERROR_INIT;
    uint64_t random = 3;
    hr_buffer *bytes;
    hr_view v;

    assert_ok(hr__jpeg_encode(&in, &how, &mem, &bytes, &err), &err);
    v = (hr_view){ bytes->data, bytes->n_bytes };
    assert_ok(decode(v, &all, &whole, &err), &err);
    for (int n = 0; n < 200; n++) {
        hr_image_job job = { .mode = HR_PIXELS_RGB };

        job.w = 1 + random_below(&random, 333);
        job.h = 1 + random_below(&random, 257);
        job.x = random_below(&random, 333 - job.w + 1);
        job.y = random_below(&random, 257 - job.h + 1);
        assert_ok(decode(v, &job, &part, &err), &err);
        assert_true(part.x <= job.x && part.y <= job.y);
        assert_true(part.x + part.width >= job.x + job.w && part.y + part.height >= job.y + job.h);
        for (int64_t y = job.y; y < job.y + job.h; y++)
            assert_memory_equal(part.data + (y - part.y) * part.stride + (job.x - part.x) * 3,
                                whole.data + y * whole.stride + job.x * 3, (size_t)job.w * 3);
        hr__image_clear(&part);
    }
    hr__image_clear(&whole);
    hr__image_clear(&in);
    hr__buffer_unref(bytes);
#endif
}

/* Cut at every length and with flipped bits: an image or an error, never more. */
static void test_damage(void **state)
{
    live_memory before = live_now();

    (void)state;
    for (int k = 0; k < HR_LEN(kinds); k++) {
        hr_image in = picture(HR_PIXELS_RGB, 24, 18), out;
        hr_error err = HR_ERROR_INIT;
        uint64_t random = 1;
        hr_buffer *bytes;

        assert_ok(kinds[k].encode(&in, &how, &mem, &bytes, &err), &err);
        for (int64_t n = 0; n < bytes->n_bytes; n += 1 + n / 64) {
            uint8_t *cut = malloc((size_t)n + 1); /* its own block, so that ASan sees its end */
            hr_image_job job = { .mode = HR_PIXELS_RGB }, easy = { .mode = HR_PIXELS_RGB, .truncated_ok = true };

            memcpy(cut, bytes->data, (size_t)n);
            if (decode((hr_view){ cut, n }, &job, &out, &err) == HR_OK) /* all pixels were there */
                assert_true(n > bytes->n_bytes / 2);
            hr__image_clear(&out);
            (void)!decode((hr_view){ cut, n }, &easy, &out, &err);
            hr__image_clear(&out);
            free(cut);
        }
        for (int n = 0; n < 2000; n++) {
            uint8_t *bad = malloc((size_t)bytes->n_bytes);
            hr_image_job job = { .mode = HR_PIXELS_STORED };

            memcpy(bad, bytes->data, (size_t)bytes->n_bytes);
            for (int i = 0; i < 3; i++)
                bad[random_below(&random, bytes->n_bytes)] ^= (uint8_t)(1 << random_below(&random, 8));
            if (decode((hr_view){ bad, bytes->n_bytes }, &job, &out, &err))
                assert_true(err.text[0]);
            hr__image_clear(&out);
            free(bad);
        }
        hr__image_clear(&in);
        hr__buffer_unref(bytes);
        hr_error_clear(&err);
    }
    assert_no_leak(before);
}

static void test_headers_that_lie(void **state)
{
    static const struct {
        hr_view bytes;
        const char *text;
    } cases[] = {
#define BYTES(s) { (const uint8_t *)(s), (int64_t)sizeof(s) - 1 }
        { BYTES(""), "the file is empty, expected an image" },
        { BYTES("\x89Pxx"), "found a file that begins with 89 50 78 78" },
        { BYTES("BM\0\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\0\0\1\0\0\0\1\0\1\0\x18\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
                "\0\0\0"
                "\0\0"),
          "bmp: 65536 x 65536 pixels" },
#ifdef HR_HAVE_PNG
        { BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x20\0\0\0\x20\0\x08\2\0\0\0____"), "cannot come from 33 bytes" },
        { BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\1\0\0\0\1\0\0\x08\2\0\0\0____"), "the limit is 178956970" },
#endif
#ifdef HR_HAVE_JPEG
        { BYTES("\xff\xd8\xff\xc0\0\x11\x08\x10\0\x10\0\3\1\x22\0\2\x11\1\3\x11\1"), "cannot come from 21 bytes" },
        { BYTES("\xff\xd8\xff\xe0\0\4xx\xff\xd9"), "no frame header" },
#endif
    };

    (void)state;
    for (int i = 0; i < HR_LEN(cases); i++) {
        hr_error err = HR_ERROR_INIT;
        hr_image_info info;

        assert_status(hr__image_look(cases[i].bytes, true, HR_IMAGE_MAX_PIXELS, &info, &err), HR_BAD_DATA, &err);
        assert_contains(err.text, cases[i].text);
    }
}

/* --------------------------------------------------------------------------------------------------------- resizing */

static void test_kernels_agree(void **state)
{
    static const unsigned cpus[] = { 0, HR_CPU_AVX2, ~0U };
    uint64_t random = 5;

    (void)state;
    for (int n = 0; n < 420; n++) {
        hr_pixel_mode mode = (hr_pixel_mode)(n % 4 + 1);
        int64_t w = 1 + random_below(&random, 90), h = 1 + random_below(&random, 90);
        hr_image in = picture(mode, w, h);
        hr_resample r = { .data = in.data,
                          .stride = in.stride,
                          .width = w,
                          .height = h,
                          .channels = hr__pixel_channels(mode),
                          .box_w = (double)w,
                          .box_h = (double)h,
                          .flip = n % 3 == 0,
                          .filter = (hr_image_filter)(n % 7) };
        bool precise = r.filter == HR_FILTER_BICUBIC || r.filter == HR_FILTER_LANCZOS;
        float out[HR_LEN(cpus)][64 * 64 * 4];

        r.full_w = r.w = 1 + random_below(&random, 64);
        r.full_h = r.h = 1 + random_below(&random, 64);
        for (int c = 0; c < HR_LEN(cpus); c++) {
            hr_pixel_sink to = { .out = (uint8_t *)out[c],
                                 .width = r.w,
                                 .height = r.h,
                                 .type = HR_PIXEL_FLOAT32,
                                 .planar = n % 2,
                                 .scale = { 1, 1, 1, 1 } };
            hr_error err = HR_ERROR_INIT;

            assert_ok(hr__image_resample_by(cpus[c] & hr__cpu_features(), &r, &to, NULL, &err), &err);
        }
        for (int c = 1; c < HR_LEN(cpus); c++) { /* in floats a tie may round to the other side */
            for (int64_t i = 0; i < r.w * r.h * r.channels; i++)
                assert_true(precise ? fabsf(out[0][i] - out[c][i]) <= 1.3F : out[0][i] == out[c][i]);
        }
        hr__image_clear(&in);
    }
}

/* One colour stays that colour in every filter, type and layout. */
static void test_flat(void **state)
{
    (void)state;
    for (int f = 0; f < 7; f++) {
        for (int type = 0; type < 4; type++) {
            hr_image in = picture(HR_PIXELS_RGB, 50, 40);
            uint16_t out[30 * 20 * 3 * 2];
            hr_pixel_sink to = { .out = (uint8_t *)out,
                                 .width = 30,
                                 .height = 20,
                                 .type = (hr_pixel_type)type,
                                 .planar = f % 2,
                                 .scale = { 1, 1, 1 } };
            hr_resample r = { in.data, in.stride,         50, 40, 3, 0, 0, 50, 40, 30, 20, 0, 0, 30, 20,
                              false,   (hr_image_filter)f };
            hr_error err = HR_ERROR_INIT;
            float one = 128;

            memset(in.data, 128, (size_t)(in.stride * in.height));
            assert_ok(hr__image_resample(&r, &to, NULL, &err), &err);
            for (int i = 0; i < 30 * 20 * 3; i++) {
                if (type == HR_PIXEL_UINT8)
                    assert_int_equal(((uint8_t *)out)[i], 128);
                else if (type == HR_PIXEL_FLOAT16)
                    assert_int_equal(out[i], hr__half_of(128));
                else if (type == HR_PIXEL_BFLOAT16)
                    assert_int_equal(out[i], 0x4300);
                else
                    assert_true(((float *)(void *)out)[i] - one < 1e-3F && one - ((float *)(void *)out)[i] < 1e-3F);
            }
            hr__image_clear(&in);
        }
    }
}

/* ----------------------------------------------------------------------------------------------------------- chains */

static hr_image_chain recipe(int which, hr_error *err)
{
    static const hr_image_step decode_step = { .kind = HR_STEP_DECODE, .mode = HR_PIXELS_RGB, .exact = true };
    static const hr_image_step steps[] = {
        { .kind = HR_STEP_RANDOM_CROP,
          .h = 32,
          .w = 24,
          .filter = HR_FILTER_BILINEAR,
          .scale = { 0.1, 1 },
          .ratio = { 0.75, 1.33 },
          .seed = 1 },
        { .kind = HR_STEP_RESIZE, .h = 40, .w = 50, .filter = HR_FILTER_BICUBIC },
        { .kind = HR_STEP_CENTER_CROP, .h = 32, .w = 24 },
        { .kind = HR_STEP_RANDOM_FLIP, .p = 0.5, .seed = 2 },
        { .kind = HR_STEP_NORMALIZE,
          .mean = { 0.5, 0.4, 0.3 },
          .std = { 0.2, 0.3, 0.4 },
          .n_mean = 3,
          .n_std = 3,
          .type = HR_PIXEL_FLOAT32,
          .planar = true },
    };
    hr_image_chain c = { 0 };

    assert_ok(hr__image_chain_add(&c, &decode_step, err), err);
    for (int i = 0; i < HR_LEN(steps); i++)
        if (which >> i & 1)
            assert_ok(hr__image_chain_add(&c, &steps[i], err), err);
    return c;
}

static bool is_random(const hr_image_step *s)
{
    return s->kind == HR_STEP_RANDOM_CROP || s->kind == HR_STEP_RANDOM_FLIP;
}

/* A chain at once gives what its steps give one after the other, but for the rounding between them. */
static void test_chain_is_its_steps(void **state)
{
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int which = 0; which < 32; which++) {
        hr_image in = picture(HR_PIXELS_RGB, 83, 61);
        hr_image_chain all = recipe(which, &err), one = { 0 };
        hr_image_dice dice = { .seed = 9, .epoch = 2, .at = { .file = which, .row = 3 } };
        hr_buffer *file, *fused, *pixels = NULL;
        hr_image_plan p;
        int64_t w = 83, h = 61;

        assert_ok(hr__bmp_encode(&in, &how, &mem, &file, &err), &err);
        assert_ok(hr__image_plan_bytes(&all, (hr_view){ file->data, file->n_bytes }, &dice, &p, &err), &err);
        assert_ok(hr__image_plan_make(&p, &mem, &fused, &err), &err);
        pixels = hr__buffer_ref(in.buffer);
        for (int i = 1; i < all.n; i++) {
            hr_buffer *next;
            hr_image_plan q;

            one = all; /* the others changed into nothing, so that the dice of this one are the same */
            for (int k = 0; k < all.n; k++)
                if (k != i)
                    one.steps[k] =
                        (hr_image_step){ .kind = is_random(&all.steps[k]) ? HR_STEP_RANDOM_FLIP : HR_STEP_DECODE };
            assert_ok(hr__image_plan_pixels(&one, pixels->data, h, w, 3, &dice, &q, &err), &err);
            assert_ok(hr__image_plan_make(&q, &mem, &next, &err), &err);
            hr__buffer_unref(pixels);
            pixels = next;
            w = q.w;
            h = q.h;
        }
        assert_int_equal(pixels->n_bytes, fused->n_bytes);
        for (int64_t i = 0; which & 16 && i < fused->n_bytes / 4; i++) {
            float d = ((float *)(void *)fused->data)[i] - ((float *)(void *)pixels->data)[i];

            assert_true(d < 0.03F && d > -0.03F); /* 1.5 of 255, divided by 0.2 */
        }
        for (int64_t i = 0; !(which & 16) && i < fused->n_bytes; i++)
            assert_true(abs(fused->data[i] - pixels->data[i]) <= 1);
        hr__buffer_unref(pixels);
        hr__buffer_unref(fused);
        hr__buffer_unref(file);
        hr__image_clear(&in);
    }
}

static void test_small_images_get_a_border(void **state)
{
    hr_image_chain c = { 0 };
    hr_image_step crop = { .kind = HR_STEP_CENTER_CROP, .h = 5, .w = 6 };
    uint8_t pixels[2 * 2] = { 1, 2, 3, 4 };
    static const uint8_t want[5 * 6] = { 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 3, 4, 0, 0 };
    hr_error err = HR_ERROR_INIT;
    hr_buffer *out;
    hr_image_plan p;

    (void)state;
    assert_ok(hr__image_chain_add(&c, &crop, &err), &err);
    assert_ok(hr__image_plan_pixels(&c, pixels, 2, 2, 1, &(hr_image_dice){ 0 }, &p, &err), &err);
    assert_ok(hr__image_plan_make(&p, &mem, &out, &err), &err);
    assert_int_equal(out->n_bytes, 30);
    assert_memory_equal(out->data, want, 30);
    hr__buffer_unref(out);
}

static hr_status all_kinds(hr_error *err)
{
    hr_image in = { 0 }, out = { 0 };
    hr_buffer *bytes = NULL, *made = NULL;
    hr_status st = HR_OK;

    for (int k = 0; k < HR_LEN(kinds); k++) {
        hr_image_chain c = recipe(31, err);
        hr_image_dice dice = { 0 };
        hr_image_plan p;

        HR_GO(hr__image_new(&mem, HR_PIXELS_RGB, 200, 150, &in, err));
        memset(in.data, 77, (size_t)in.buffer->n_bytes);
        HR_GO(kinds[k].encode(&in, &how, &mem, &bytes, err));
        HR_GO(decode((hr_view){ bytes->data, bytes->n_bytes }, &(hr_image_job){ .mode = HR_PIXELS_L }, &out, err));
        HR_GO(hr__image_orient(&mem, &out, 6, err));
        HR_GO(hr__image_plan_bytes(&c, (hr_view){ bytes->data, bytes->n_bytes }, &dice, &p, err));
        HR_GO(hr__image_plan_make(&p, &mem, &made, err));
        hr__buffer_unref(made);
        hr__buffer_unref(bytes);
        made = bytes = NULL;
        hr__image_clear(&in);
        hr__image_clear(&out);
    }
done:
    hr__buffer_unref(made);
    hr__buffer_unref(bytes);
    hr__image_clear(&in);
    hr__image_clear(&out);
    return st;
}

static void test_faults(void **state)
{
    (void)state;
    run_with_faults(all_kinds, HR_FAULT_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_region),
        cmocka_unit_test(test_the_library_is_known),
        cmocka_unit_test(test_own_huffman),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_headers_that_lie),
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_flat),
        cmocka_unit_test(test_chain_is_its_steps),
        cmocka_unit_test(test_small_images_get_a_border),
        cmocka_unit_test(test_faults),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
