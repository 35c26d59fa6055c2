/* format_digits.c - a whole format in one file: integers as text, one a line, in the int64 column `value`.
 *
 * docs/adding-a-format.md walks through it.
 *
 * Tests: test_format_digits.c. */
#include "format/format.h"
#include "format/window.h"

#define MAX_LINE_BYTES 24 /* a number of 64 bits has at most 20 characters */

/* --- 1. an open file, and a reader of it: each struct begins with the part that all formats share */

typedef struct digits_file {
    hr_scan_file base;
    hr_source *source;
    const hr_codec *codec; /* NULL: the file is not compressed */
} digits_file;

typedef struct digits_reader {
    hr_reader base;
    digits_file *file;
    hr_window window; /* the bytes, decompressed */
    hr_mem mem;       /* for the tables' buffers */
    int64_t row, end; /* the next row, and the first one after the range */
} digits_reader;

/* --- 2. reading: one line, then tables of lines */

/* The next line's number. *found false: the file ends. */
static hr_status next_number(digits_reader *r, int64_t *value, bool *found, hr_error *err)
{
    int64_t n;
    hr_view line;

    HR_TRY(hr__window_line(&r->window, MAX_LINE_BYTES, &line, &n, err));
    *found = n != 0;
    if (!*found)
        return HR_OK;
    if (n < 0 || !hr__parse_int64(line.data, line.n, value)) /* a reader believes nothing that a file says */
        return hr_error_set(err, HR_BAD_DATA, "%s: line %lld: expected an integer of 64 bits, found '%.*s'",
                            r->file->base.name, (long long)r->row + 1, (int)HR_MIN(line.n, MAX_LINE_BYTES),
                            (const char *)line.data);
    r->row++;
    return hr__window_skip(&r->window, n, &n, err);
}

static hr_status digits_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    digits_reader *r = (digits_reader *)base;
    int64_t first = r->row, value;
    hr_builder *values = NULL;
    hr_array *column = NULL;
    hr_status st = HR_OK;
    bool found = true;

    HR_GO(hr__builder_new(&r->mem, hr__type_simple(HR_T_INT64), &values, err));
    while (r->row < r->end && r->row - first < HR_MAX(max_bytes / 8, 1)) {
        HR_GO(next_number(r, &value, &found, err));
        if (!found)
            break;
        HR_GO(hr__builder_int(values, value, err));
    }
    HR_GO(hr__builder_finish(values, &column, err));
    if (r->row > first) /* else *out stays NULL: the end */
        HR_GO(hr__file_table(&r->file->base, 0, first, r->row - first, &column, out, err));
done:
    hr__array_unref(column);
    hr__builder_free(values);
    return st;
}

static void digits_close_reader(hr_reader *base)
{
    digits_reader *r = (digits_reader *)base;

    hr__window_clear(&r->window);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static const hr_reader_class digits_reader_class = { .next = digits_next, .close = digits_close_reader };

/* --- 3. files: one fragment each; a reader may begin at any row */

static hr_status digits_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                             hr_reader **out, hr_error *err)
{
    digits_file *f = (digits_file *)base;
    digits_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;
    bool found = true;
    int64_t value;

    (void)fragment;
    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &digits_reader_class;
    r->file = (digits_file *)hr__scan_file_ref(base);
    r->mem = *mem;
    r->end = hr__rows_end(row_begin, n_rows);
    HR_GO(hr__window_open(&r->window, f->source, f->codec, 0, mem->account, err));
    while (found && r->row < row_begin)
        HR_GO(next_number(r, &value, &found, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        digits_close_reader(&r->base);
    return st;
}

static hr_status digits_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    int64_t n = ((digits_file *)base)->source->n_bytes;

    (void)fragment, (void)err;
    *out = (hr_fragment){ .n_rows = -1, .stored_bytes = n, .memory_bytes = n * 4 }; /* "7\n" becomes 8 bytes */
    return HR_OK;
}

static void digits_close(hr_scan_file *base) { hr__source_unref(((digits_file *)base)->source); }

static const hr_scan_file_class digits_file_class = {
    .fragment = digits_fragment,
    .read = digits_read,
    .close = digits_close,
};

static hr_status digits_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    digits_file *f;
    uint8_t head[16];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(hr__scan_file_new(&digits_file_class, sizeof *f, source->name, how->account, out, err));
    f = (digits_file *)*out;
    f->source = hr__source_ref(source);
    f->codec = hr__codec_guess(source->name, (hr_view){ head, n });
    f->base.n_fragments = source->n_bytes > 0;
    f->base.n_rows = source->n_bytes > 0 ? -1 : 0; /* -1: known only by reading */
    HR_GO(hr__one_column_schema("value", hr__type_simple(HR_T_INT64), false, how->projection, source->name,
                                &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

/* --- 4. writing: `encode` runs on many threads at once, so all that it makes goes into the chunk */

static hr_status digits_encode(const hr_writer *w, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                               hr_error *err)
{
    hr_growbuf text = { .mem = mem };
    hr_status st = HR_OK;
    char line[HR_NUMBER_CHARS + 1];

    (void)w;
    for (int64_t i = 0; i < t->n_rows; i++) {
        int n;

        if (hr__array_is_null(t->columns[0], i))
            HR_FAIL(HR_INVALID, "digits: row %lld of the table is null, which the format has no text for",
                    (long long)i);
        n = hr__print_int64(hr__array_int(t->columns[0], i), line);
        line[n++] = '\n';
        HR_GO(hr__growbuf_add(&text, line, n, err));
    }
    HR_GO(hr__growbuf_finish(&text, &out->bytes, err));
    out->n_rows = t->n_rows;
done:
    hr__growbuf_clear(&text);
    return st;
}

static void digits_free(hr_writer *w) { hr__free(w); }

static const hr_writer_class digits_writer_class = { .encode = digits_encode, .free = digits_free };

static hr_status digits_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out,
                               hr_error *err)
{
    (void)options;
    *out = NULL;
    if (schema->n != 1 || schema->fields[0].type->id != HR_T_INT64)
        return hr_error_set(err, HR_TYPE, "digits: a file holds one column of int64, not %d columns", schema->n);
    *out = hr__zalloc(account, sizeof **out);
    if (!*out)
        return hr__error_memory(err, "digits", sizeof **out);
    **out = (hr_writer){ .cls = &digits_writer_class, .suffix = ".digits" };
    return HR_OK;
}

/* --- 5. the table: HR_FORMATS of src/format/format.h lists those of the engine */

const hr_format hr__format_digits = {
    .name = "digits",
    .suffixes = "digits",
    .doc = "integers as text, one a line",
    .open = digits_open,
    .create = digits_create,
};
