/* format_digits.c - a whole format in one file: whole numbers as text, one a line, in the int64 column `value`.
 *
 * docs/adding-a-format.md walks through it. A format lives inside the engine, so this program is linked with the
 * engine's own objects (see examples/meson.build) and calls the format as the scheduler does. */
#include "codec/codec.h"
#include "format/format.h"
#include "format/window.h"

#include <stdio.h>

#define MAX_LINE_BYTES 24 /* a number of 64 bits has at most 20 characters */

/* --- 1. an open file, and a reader of it: each struct begins with what all formats have in common */

typedef struct digits_file {
    hr_scan_file base;
    hr_source *source;
    const hr_codec *codec; /* NULL: the file is not compressed */
} digits_file;

typedef struct digits_reader {
    hr_reader base;
    digits_file *file;
    hr_window window; /* the bytes, decompressed */
    hr_mem mem;       /* where the tables' buffers go */
    int64_t row, end; /* the next row, and the first that nobody asked for */
} digits_reader;

/* --- 2. reading: one line, then tables of lines */

/* The next line's number. *found false: the file ends. */
static hr_status next_number(digits_reader *r, int64_t *value, bool *found, hr_error *err)
{
    const char *name = r->file->base.name;
    const uint8_t *p, *newline;
    int64_t n, left;

    HR_TRY(hr__window_fill(&r->window, MAX_LINE_BYTES, HR_WINDOW_BYTES, err));
    left = HR_MIN(hr__window_left(&r->window), MAX_LINE_BYTES);
    *found = left > 0;
    if (!*found)
        return HR_OK;
    p = hr__window_data(&r->window);
    newline = memchr(p, '\n', (size_t)left);
    n = newline ? newline - p : left;
    if (n == MAX_LINE_BYTES || !hr__parse_int64(p, n, value)) /* nothing in a file is believed */
        return hr_error_set(err, HR_BAD_DATA, "%s: line %lld: '%.*s' is not a whole number of 64 bits", name,
                            (long long)r->row + 1, (int)n, (const char *)p);
    r->row++;
    return hr__window_skip(&r->window, n + (newline != NULL), &n, err);
}

static hr_status digits_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    digits_reader *r = (digits_reader *)base;
    hr_scan_file *f = &r->file->base;
    hr_run_coords run = { .first = { .file = f->file, .row = r->row } }; /* where the table's rows come from */
    hr_builder *values = NULL;
    hr_origin *origin = NULL;
    hr_array *column = NULL;
    hr_status st = HR_OK;
    bool found = true;
    int64_t value;

    HR_GO(hr__builder_new(&r->mem, hr__type_simple(HR_T_INT64), &values, err));
    while (r->row < r->end && run.n < HR_MAX(max_bytes / 8, 1)) {
        HR_GO(next_number(r, &value, &found, err));
        if (!found)
            break;
        HR_GO(hr__builder_int(values, value, err));
        run.n++;
    }
    if (run.n == 0)
        goto done; /* *out stays NULL: the end */
    HR_GO(hr__builder_finish(values, &column, err));
    HR_GO(hr__origin_new(&run, 1, &origin, err));
    st = hr__table_new(f->schema, f->schema->n ? &column : NULL, run.n, origin, out, err);
    if (f->schema->n)
        column = NULL; /* taken */
done:
    hr__array_unref(column);
    hr__origin_unref(origin);
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

/* --- 3. files: one fragment each, which a reader may enter at any row */

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
    r->file = f;
    hr__scan_file_ref(base);
    r->mem = *mem;
    r->end = n_rows < 0 || n_rows > INT64_MAX - row_begin ? INT64_MAX : row_begin + n_rows;
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

/* The column `value`, or nothing: rows without columns can still be counted. */
static hr_status digits_schema(const hr_projection *projection, const char *path, hr_schema **out, hr_error *err)
{
    hr_field field = { 0 };
    hr_status st = HR_OK;

    for (int i = 0; projection && i < projection->n; i++) {
        if (i > 0 || strcmp(projection->names[i], "value") != 0)
            return hr_error_set(err, HR_NOT_FOUND, "%s: no column '%s'; the only column is 'value'", path,
                                projection->names[i]);
    }
    HR_GO(hr__field_init(&field, "value", hr__type_simple(HR_T_INT64), false, err));
    HR_GO(hr__schema_new(&field, projection ? projection->n : 1, out, err));
done:
    hr__field_clear(&field);
    return st;
}

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
    HR_GO(digits_schema(how->projection, source->name, &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

/* --- 4. writing: `encode` runs on many threads at once, so all it makes goes into the piece */

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

/* --- 5. the table: in the engine HR_FORMATS of src/format/format.h lists it as well */

static const hr_format format_digits = {
    .name = "digits",
    .suffixes = "digits",
    .doc = "whole numbers as text, one a line",
    .open = digits_open,
    .create = digits_create,
};

/* ------------------------------------------------------------------------------------------------- a test of it all */

/* Reads the text as the scheduler reads a file, in tables of about `max_bytes`, and writes them again to *out. */
static hr_status copy_text(const char *text, int64_t max_bytes, hr_growbuf *out, hr_error *err)
{
    hr_scan_file *f = NULL;
    hr_source *source = NULL;
    hr_reader *r = NULL;
    hr_writer *w = NULL;
    hr_table *t = NULL;
    hr_encoded_chunk piece = { 0 };
    hr_status st = HR_OK;

    HR_GO(hr__source_new_memory("a.digits", text, (int64_t)strlen(text), NULL, &source, err));
    HR_GO(format_digits.open(source, &(hr_open){ 0 }, &f, err));
    HR_GO(format_digits.create(f->schema, NULL, NULL, &w, err));
    HR_GO(f->cls->read(f, 0, 0, -1, out->mem, &r, err));
    for (;;) {
        HR_GO(hr__reader_next(r, max_bytes, &t, err));
        if (!t)
            break;
        HR_GO(hr__table_check(t, true, err));
        HR_GO(w->cls->encode(w, out->mem, t, &piece, err));
        HR_GO(hr__growbuf_add(out, piece.bytes->data, piece.bytes->n_bytes, err));
        hr__encoded_chunk_clear(&piece);
        hr_table_unref(t);
        t = NULL;
    }
done:
    hr__encoded_chunk_clear(&piece);
    hr_table_unref(t);
    hr__reader_close(r);
    if (w)
        w->cls->free(w);
    hr__scan_file_unref(f);
    hr__source_unref(source);
    return st;
}

int main(void)
{
    static const char text[] = "0\n-12\n9223372036854775807\n", damaged[] = "1\n2\n12x\n4\n";
    int64_t n = (int64_t)strlen(text);
    hr_error err = HR_ERROR_INIT;
    bool right = true;

    for (int64_t max_bytes = 1; max_bytes < 1000000; max_bytes *= 20) { /* the same rows, whatever the tables' size */
        hr_mem mem = { NULL, NULL };
        hr_growbuf copy = { .mem = &mem };

        right &= !copy_text(text, max_bytes, &copy, &err) && copy.buffer->n_bytes == n &&
                 memcmp(copy.buffer->data, text, (size_t)n) == 0;
        hr__growbuf_clear(&copy);
        right &= copy_text(damaged, max_bytes, &copy, &err) == HR_BAD_DATA && strstr(err.text, "line 3: '12x'");
        hr__growbuf_clear(&copy);
    }
    printf("%s: %s\n", right ? "ok" : "wrong", err.text);
    return !right;
}
