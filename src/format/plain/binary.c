/* binary.c - whole files: one row per file, column `bytes`.
 *
 * A file is one fragment of one row, with its unchanged bytes: the reader does not decompress compressed files. `bytes`
 * is binary, whose offsets end at 2 GiB; larger files need large=true, which makes it large_binary. */
#include "format/format.h"

typedef struct binary_options {
    bool large;
} binary_options;

static const hr_option binary_option_table[] = {
    { .name = "large",
      .kind = HR_OPT_BOOL,
      .at = offsetof(binary_options, large),
      .doc = "read a column of large_binary, whose files may exceed 2 GiB" },
    { 0 },
};

typedef struct binary_file {
    hr_scan_file base;
    hr_source *source;
} binary_file;

typedef struct binary_reader {
    hr_reader base;
    binary_file *file;
    hr_mem mem;
    bool given;
} binary_reader;

/* One row: the whole file. */
static hr_status whole_file(const binary_reader *r, hr_array **out, hr_error *err)
{
    hr_source *source = r->file->source;
    hr_type *type = r->file->base.schema->fields[0].type;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    int64_t n = source->n_bytes, wide[2] = { 0, n };
    int32_t narrow[2] = { 0, (int32_t)n };
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(&r->mem, n, &buffers[2], err));
    HR_GO(hr__source_read(source, buffers[2]->data, 0, n, err));
    if (type->id == HR_T_LARGE_BINARY)
        HR_GO(hr__buffer_copy(&r->mem, wide, sizeof wide, &buffers[1], err));
    else
        HR_GO(hr__buffer_copy(&r->mem, narrow, sizeof narrow, &buffers[1], err));
    return hr__array_new(type, 1, 0, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[1]);
    hr__buffer_unref(buffers[2]);
    return st;
}

static hr_status binary_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    binary_reader *r = (binary_reader *)base;
    hr_array *array = NULL;
    hr_status st = HR_OK;

    (void)max_bytes;
    if (r->given)
        return HR_OK;
    if (r->file->base.schema->n)
        HR_GO(whole_file(r, &array, err));
    st = hr__file_table(&r->file->base, 0, 0, 1, &array, out, err);
    r->given = !st;
done:
    return st;
}

static void binary_reader_close(hr_reader *base)
{
    hr__scan_file_unref(&((binary_reader *)base)->file->base);
    hr__free(base);
}

static const hr_reader_class binary_reader_class = { binary_next, binary_reader_close };

static hr_status binary_read(hr_scan_file *base, int fragment, int64_t row, int64_t n, const hr_mem *mem,
                             hr_reader **out, hr_error *err)
{
    binary_reader *r = hr__zalloc(mem->account, sizeof *r);

    (void)fragment;
    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &binary_reader_class;
    r->file = (binary_file *)hr__scan_file_ref(base);
    r->mem = *mem;
    r->given = row > 0 || n == 0;
    *out = &r->base;
    return HR_OK;
}

static hr_status binary_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    int64_t n = base->schema->n ? ((binary_file *)base)->source->n_bytes : 0;

    (void)fragment;
    (void)err;
    *out = (hr_fragment){ .n_rows = 1, .stored_bytes = n, .memory_bytes = n + 16 };
    return HR_OK;
}

static void binary_ahead(hr_scan_file *base, int fragment)
{
    hr_source *source = ((binary_file *)base)->source;

    (void)fragment;
    if (base->schema->n)
        hr__source_ahead(source, 0, source->n_bytes);
}

static void binary_close(hr_scan_file *base) { hr__source_unref(((binary_file *)base)->source); }

static const hr_scan_file_class binary_file_class = {
    .fragment = binary_fragment,
    .read = binary_read,
    .ahead = binary_ahead,
    .close = binary_close,
};

static hr_status binary_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    bool large = ((const binary_options *)how->options)->large;
    hr_status st = HR_OK;
    binary_file *f;

    *out = NULL;
    if (source->n_bytes > INT32_MAX && !large)
        HR_FAIL(HR_UNSUPPORTED, "%s: %lld bytes: a file of more than 2 GiB needs the option large=true", source->name,
                (long long)source->n_bytes);
    HR_GO(hr__scan_file_new(&binary_file_class, sizeof *f, source->name, how->account, out, err));
    f = (binary_file *)*out;
    f->source = hr__source_ref(source);
    f->base.n_rows = 1;
    f->base.n_fragments = 1;
    HR_GO(hr__one_column_schema("bytes", hr__type_simple(large ? HR_T_LARGE_BINARY : HR_T_BINARY), false,
                                how->projection, source->name, &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

const hr_format hr__format_binary = {
    .name = "binary",
    .suffixes = "", /* any file can be read so, but only on request */
    .row_growth = 1,
    .doc = "whole files: one row per file, column `bytes`",
    .options = binary_option_table,
    .options_bytes = sizeof(binary_options),
    .open = binary_open,
};
