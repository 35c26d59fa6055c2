/* image.c - files that are one image each: one row, column `image`.
 *
 * A chain (image/image_chain.h) makes the row from the file's bytes: decode, resize if a size is given, and the steps
 * that a rule moved from the plan into the reader (hr_open.image_steps). With a size and a mode all rows have one
 * shape, and the column is a tensor. With a size alone all files must have the channels of the first one (fixed_shape),
 * and an image with other channels is an error. Otherwise the column is ragged. Opening a file other than the first
 * reads none of its bytes: the type is known without, and one thread opens thousands of files one after another.
 *
 * The writer writes each row as a file.
 *
 * Tests: test_image_rule.c, test_images.py. */
#include "image/image_chain.h"
#include "format/format.h"

typedef struct image_options {
    int mode, filter, on_error;
    int64_t height, width, max_pixels;
    bool exif, truncated, exact, fixed_shape;
} image_options;

static const hr_option image_option_table[] = {
    { .name = "mode",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(image_options, mode),
      .text = "stored L LA RGB RGBA",
      .doc = "channels: as stored; or grey; grey and alpha; colour; colour and alpha" },
    { .name = "height",
      .kind = HR_OPT_INT,
      .at = offsetof(image_options, height),
      .max = 1 << 20,
      .doc = "resize all images to this height, together with width; 0: keep the size" },
    { .name = "width",
      .kind = HR_OPT_INT,
      .at = offsetof(image_options, width),
      .max = 1 << 20,
      .doc = "resize all images to this width, together with height" },
    { .name = "fixed_shape",
      .kind = HR_OPT_BOOL,
      .at = offsetof(image_options, fixed_shape),
      .value = 1,
      .doc = "given a size and mode \"stored\": every image must have as many channels as the first file; false: "
             "any number" },
    { .name = "interpolation",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(image_options, filter),
      .text = HR_IMAGE_FILTERS,
      .value = HR_FILTER_BILINEAR,
      .doc = "filter for resizing; all but nearest antialias" },
    { .name = "exact",
      .kind = HR_OPT_BOOL,
      .at = offsetof(image_options, exact),
      .value = 1,
      .doc = "resize from all pixels; false: decode JPEG at 1/2, 1/4 or 1/8 if that is twice the size or more" },
    { .name = "exif_orientation",
      .kind = HR_OPT_BOOL,
      .at = offsetof(image_options, exif),
      .doc = "rotate and mirror images as their EXIF data say" },
    { .name = "on_error",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(image_options, on_error),
      .text = "raise skip",
      .doc = "a file that is damaged or not an image: an error that names it, or skip it" },
    { .name = "allow_truncated",
      .kind = HR_OPT_BOOL,
      .at = offsetof(image_options, truncated),
      .doc = "read a file that ends early; the missing pixels are grey or black" },
    { .name = "max_pixels",
      .kind = HR_OPT_INT,
      .at = offsetof(image_options, max_pixels),
      .max = 1e12,
      .value = (double)HR_IMAGE_MAX_PIXELS,
      .doc = "maximum pixels of an image; an image with more counts as damaged; 0: no limit" },
    { 0 },
};

typedef struct image_file {
    hr_scan_file base;
    hr_source *source;
    hr_image_chain chain; /* the reader's own steps, and the steps moved from the plan */
    hr_image_dice dice;   /* random choices of these steps; the file's number comes later */
    hr_type *type;        /* of the column, which need not be projected */
    bool skip;
    hr_skipped *skipped;
} image_file;

typedef struct image_reader {
    hr_reader base;
    image_file *file;
    hr_mem mem;
    bool ended;
} image_reader;

/* ---------------------------------------------------------------------------------------------------------- reading */

/* The one row of a column of images of any size. */
static hr_status ragged_row(const image_reader *r, const hr_image_plan *p, hr_array **out, hr_error *err)
{
    hr_image_rows rows;
    hr_status st = HR_OK;

    if (p->w * p->h * p->channels > INT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "an image of more than 2 GiB");
    hr__image_rows_begin(&rows, &r->mem, r->file->type);
    HR_GO(hr__image_rows_add(&rows, p, r->mem.account, err));
    HR_GO(hr__image_rows_finish(&rows, 1, NULL, out, err));
done:
    hr__image_rows_clear(&rows);
    return st;
}

static hr_status tensor_row(const image_reader *r, const hr_image_plan *p, hr_array **out, hr_error *err)
{
    hr_type *type = r->file->type;
    hr_buffer *values = NULL;
    hr_array *inner = NULL;

    if (p->w * p->h * p->channels != type->width)
        return hr_error_set(
            err, HR_TYPE,
            "an image of %d channel%s, the first file has %d: a mode (\"RGB\", \"L\") converts all images, "
            "fixed_shape=false accepts any",
            p->channels, p->channels == 1 ? "" : "s", (int)(type->width / (p->w * p->h)));
    HR_TRY(hr__image_plan_make(p, &r->mem, &values, err));
    HR_TRY(hr__array_new(type->children[0].type, type->width, 0, (hr_buffer *[3]){ NULL, values, NULL }, NULL, 0,
                         &inner, err));
    return hr__array_new(type, 1, 0, (hr_buffer *[3]){ NULL, NULL, NULL }, &inner, 1, out, err);
}

static hr_status run_chain(const image_reader *r, hr_view bytes, hr_array **out, hr_error *err)
{
    const image_file *f = r->file;
    hr_image_dice dice = f->dice;
    hr_image_plan p;

    dice.at.file = f->base.file;
    HR_TRY(hr__image_plan_bytes(&f->chain, bytes, &dice, &p, err));
    return hr__type_is_ragged(f->type) ? ragged_row(r, &p, out, err) : tensor_row(r, &p, out, err);
}

/* The row's value, from the file's bytes. *out NULL: the file is bad and is skipped. */
static hr_status make_image(const image_reader *r, hr_array **out, hr_error *err)
{
    const image_file *f = r->file;
    hr_buffer *bytes = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(hr__buffer_new(&(hr_mem){ r->mem.account, NULL }, f->source->n_bytes, &bytes, err));
    HR_GO(hr__source_read(f->source, bytes->data, 0, f->source->n_bytes, err));
    st = run_chain(r, (hr_view){ bytes->data, bytes->n_bytes }, out, err);
    if (f->skip && (st == HR_BAD_DATA || st == HR_UNSUPPORTED)) {
        hr__count_bad(f->skipped, 1);
        hr_error_clear(err);
        st = HR_OK;
    }
    if (st)
        hr__error_at(err, st, "%s", f->base.name);
done:
    hr__buffer_unref(bytes);
    return st;
}

static hr_status image_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    image_reader *r = (image_reader *)base;
    hr_schema *schema = r->file->base.schema;
    hr_array *image = NULL;
    hr_status st = HR_OK;

    (void)max_bytes;
    if (r->ended)
        return HR_OK;
    r->ended = true;
    if (schema->n > 0 || r->file->skip) { /* the projection must not decide whether there is a row */
        HR_GO(make_image(r, &image, err));
        if (!image)
            return HR_OK;
    }
    st = hr__file_table(&r->file->base, 0, 0, 1, &image, out, err);
done:
    hr__array_unref(image);
    return st;
}

static void image_close_reader(hr_reader *base)
{
    image_reader *r = (image_reader *)base;

    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static const hr_reader_class image_reader_class = { image_next, image_close_reader };

static hr_status image_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                            hr_reader **out, hr_error *err)
{
    image_reader *r = hr__zalloc(mem->account, sizeof *r);

    (void)fragment; /* there is one */
    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &image_reader_class;
    r->file = (image_file *)base;
    hr__scan_file_ref(base);
    r->mem = *mem;
    r->ended = row_begin > 0 || n_rows == 0;
    *out = &r->base;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ files */

/* The decoded size is unknown before the read; JPEG, the usual format, grows about twelvefold. */
static hr_status image_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    image_file *f = (image_file *)base;
    const hr_type *t = base->schema->n ? base->schema->fields[0].type : NULL;

    (void)fragment, (void)err;
    *out = (hr_fragment){ .n_rows = base->n_rows, .stored_bytes = f->source->n_bytes };
    if (t)
        out->memory_bytes = f->source->n_bytes * 13;
    if (t && t->id == HR_T_TENSOR)
        out->memory_bytes += (int64_t)t->width * hr__type_bytes(t->children[0].type);
    return HR_OK;
}

static void image_ahead(hr_scan_file *base, int fragment)
{
    image_file *f = (image_file *)base;

    (void)fragment;
    hr__source_ahead(f->source, 0, f->source->n_bytes);
}

static void image_close(hr_scan_file *base)
{
    image_file *f = (image_file *)base;

    hr__source_unref(f->source);
    hr__type_unref(f->type);
}

static const hr_scan_file_class image_file_class = {
    .fragment = image_fragment,
    .read = image_read,
    .ahead = image_ahead,
    .close = image_close,
};

static hr_status image_chain(const image_options *o, hr_image_chain *out, hr_error *err)
{
    hr_image_step decode = { .kind = HR_STEP_DECODE,
                             .mode = (hr_pixel_mode)o->mode,
                             .exif = o->exif,
                             .truncated_ok = o->truncated,
                             .exact = o->exact,
                             .max_pixels = o->max_pixels };
    hr_image_step resize = {
        .kind = HR_STEP_RESIZE, .h = o->height, .w = o->width, .filter = (hr_image_filter)o->filter
    };

    out->n = 0;
    HR_TRY(hr__image_chain_add(out, &decode, err));
    return o->height || o->width ? hr__image_chain_add(out, &resize, err) : HR_OK;
}

/* The type is the result of the steps on the original column: the plan's result does not depend on where the steps
 * run. */
static hr_status add_steps(image_file *f, const hr_open *how, hr_error *err)
{
    hr_type *own = f->type;
    hr_status st = HR_OK;

    f->dice = how->dice;
    for (int i = 0; i < how->image_steps->n; i++)
        HR_TRY(hr__image_chain_add(&f->chain, &how->image_steps->steps[i], err));
    st = hr__image_chain_type(how->image_steps, own, &f->type, err);
    hr__type_unref(own);
    return st;
}

/* The type of images of one size with the channels of this file; it stays ragged if the file is bad: reading its row
 * reports the error. */
static hr_status look_at_file(image_file *f, hr_account *account, hr_error *err)
{
    hr_image_chain chain = f->chain;
    const hr_image_step *decode = &chain.steps[0];
    hr_buffer *bytes = NULL;
    hr_type *type = NULL;
    hr_image_info info;
    hr_status st = HR_OK;

    HR_TRY(hr__buffer_new(&(hr_mem){ account, NULL }, f->source->n_bytes, &bytes, err));
    if (hr__source_read(f->source, bytes->data, 0, f->source->n_bytes, NULL) ||
        hr__image_look((hr_view){ bytes->data, bytes->n_bytes }, decode->exif, decode->max_pixels, &info, NULL))
        goto done;
    chain.steps[0].mode = info.stored == HR_PIXELS_CMYK ? HR_PIXELS_RGB : info.stored;
    HR_GO(hr__image_chain_type(&chain, NULL, &type, err));
    hr__type_unref(f->type);
    f->type = type;
done:
    hr__buffer_unref(bytes);
    return st;
}

static hr_status find_type(image_file *f, const hr_open *how, hr_error *err)
{
    const image_options *o = how->options;
    int at = how->schema ? hr__schema_find(how->schema, "image") : -1;
    const hr_type *first = at >= 0 ? how->schema->fields[at].type : NULL;

    HR_TRY(hr__image_chain_type(&f->chain, NULL, &f->type, err));
    if (!o->fixed_shape || o->mode || !(o->height || o->width))
        return HR_OK;
    if (!how->schema)
        return how->projection && !how->projection->n ? HR_OK : look_at_file(f, how->account, err);
    if (first && first->id == HR_T_TENSOR && (first->n_dims == 2 || first->n_dims == 3) &&
        first->shape[0] == o->height && first->shape[1] == o->width) {
        hr__type_unref(f->type);
        f->type = hr__type_ref((hr_type *)(uintptr_t)first);
    }
    return HR_OK;
}

static hr_status image_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const image_options *o = how->options;
    hr_status st = HR_OK;
    image_file *f;

    *out = NULL;
    HR_GO(hr__scan_file_new(&image_file_class, sizeof *f, source->name, how->account, out, err));
    f = (image_file *)*out;
    f->source = hr__source_ref(source);
    f->skip = o->on_error == 1;
    f->skipped = how->skipped;
    HR_GO(image_chain(o, &f->chain, err));
    HR_GO(find_type(f, how, err));
    if (how->image_steps)
        HR_GO(add_steps(f, how, err));
    f->base.n_fragments = 1;
    f->base.n_rows = f->skip ? -1 : 1;
    HR_GO(hr__one_column_schema("image", f->type, true, how->projection, source->name, &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

typedef struct image_write_options {
    char *column;
    int file_format;
    int64_t quality, compression;
    bool lossless;
} image_write_options;

static const hr_option image_write_table[] = {
    { .name = "column",
      .kind = HR_OPT_TEXT,
      .at = offsetof(image_write_options, column),
      .text = "image",
      .doc = "the column of images to write; other columns are not written" },
    { .name = "file_format",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(image_write_options, file_format),
      .text = "png jpeg jpg webp bmp",
      .doc = "format of the files" },
    { .name = "quality",
      .kind = HR_OPT_INT,
      .at = offsetof(image_write_options, quality),
      .min = 1,
      .max = 100,
      .value = 75,
      .doc = "quality of JPEG and WebP" },
    { .name = "lossless",
      .kind = HR_OPT_BOOL,
      .at = offsetof(image_write_options, lossless),
      .doc = "write WebP without loss" },
    { .name = "compression",
      .kind = HR_OPT_INT,
      .at = offsetof(image_write_options, compression),
      .min = 0,
      .max = 9,
      .value = 6,
      .doc = "compression of PNG: 0 (none) to 9 (small and slow)" },
    { 0 },
};

static const struct {
    const char *suffix;
    hr_image_encoder *encode;
} kinds[] = { { ".png", hr__png_encode },
              { ".jpeg", hr__jpeg_encode },
              { ".jpg", hr__jpeg_encode },
              { ".webp", hr__webp_encode },
              { ".bmp", hr__bmp_encode } };

typedef struct image_writer {
    hr_writer base;
    int column, kind;
    hr_image_save how;
} image_writer;

/* Row 0 of the column as pixels, borrowed. HR_TYPE: not an image. */
static hr_status pixels_of(const hr_array *a, hr_image *out, hr_error *err)
{
    const hr_array *values;
    int64_t shape[HR_MAX_DIMS], begin;
    int n_dims;

    if (!hr__array_dense(a, &n_dims, shape, &values, &begin) || values->type->id != HR_T_UINT8 ||
        (n_dims != 2 && n_dims != 3) || (n_dims == 3 && (shape[2] < 1 || shape[2] > 4)) || shape[0] < 1 || shape[1] < 1)
        return hr_error_set(
            err, HR_TYPE,
            "not an image: expected uint8 values of height, width and 1 to 4 channels, none of them null");
    *out = (hr_image){ .data = (uint8_t *)(uintptr_t)hr__array_values(values) + begin,
                       .width = shape[1],
                       .height = shape[0],
                       .mode = (hr_pixel_mode)(n_dims == 2 ? 1 : shape[2]) };
    out->stride = out->width * hr__pixel_channels(out->mode);
    return HR_OK;
}

static hr_status image_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                              hr_error *err)
{
    const image_writer *w = (const image_writer *)base;
    const char *name = t->schema->fields[w->column].name;
    hr_image pixels;
    hr_status st;

    if (t->n_rows != 1)
        return hr_error_set(err, HR_BUG, "write_images: %lld rows for one file", (long long)t->n_rows);
    st = pixels_of(t->columns[w->column], &pixels, err);
    if (!st)
        st = kinds[w->kind].encode(&pixels, &w->how, mem, &out->bytes, err);
    out->n_rows = 1;
    return st ? hr__error_at(err, st, "column '%s'", name) : HR_OK;
}

static void image_writer_free(hr_writer *w) { hr__free(w); }

static const hr_writer_class image_writer_class = { .encode = image_encode, .free = image_writer_free };

static hr_status image_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                              hr_error *err)
{
    const image_write_options *o = options;
    int column = hr__schema_find(schema, o->column);
    image_writer *w;

    *out = NULL;
    if (column < 0)
        return hr__schema_missing(schema, o->column, err);
    w = hr__zalloc(account, sizeof *w);
    if (!w)
        return hr__error_memory(err, "write_images", sizeof *w);
    w->base =
        (hr_writer){ .cls = &image_writer_class, .suffix = kinds[o->file_format].suffix, .file_for_each_row = true };
    w->column = column;
    w->kind = o->file_format;
    w->how = (hr_image_save){ (int)o->quality, (int)o->compression, o->lossless };
    *out = &w->base;
    return HR_OK;
}

static int image_bid(hr_view head) { return hr__image_known(head) ? 24 : 0; }

/* The skipped files must not depend on the pixels that the steps keep: with on_error=skip the reader decodes whole
 * images. */
static const char *image_column(const void *options)
{
    return ((const image_options *)options)->on_error == 1 ? NULL : "image";
}

const hr_format hr__format_images = {
    .name = "images",
    .suffixes = "jpg jpeg png webp gif bmp tif tiff",
    .image_column = image_column,
    .row_growth = 13, /* JPEG, the usual format */
    .doc = "one row per file, column `image` of pixels",
    .options = image_option_table,
    .options_bytes = sizeof(image_options),
    .bid = image_bid,
    .open = image_open,
    .write_options = image_write_table,
    .write_options_bytes = sizeof(image_write_options),
    .create = image_create,
};
