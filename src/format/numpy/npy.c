/* npy.c - NumPy's files: .npy, one array, and .npz, a zip archive of arrays. Rows are slices along the first axis.
 *
 * The array of a .npy file is the column `data`, a structured array has a column for each field. A fragment is the rows
 * that begin in FRAGMENT_BYTES; a reader can begin at any row. It reads data in C order and in the machine's byte order
 * directly into the table's memory; in Fortran order it reads each column of the file by itself and scatters it.
 *
 * The arrays of an .npz file are columns named like its members, which must have one length. A file is one fragment,
 * since members may be compressed; the reader reads them side by side as streams, so it checks a member's checksum only
 * at its end. It first reads a member in Fortran order as a whole. */
#include "format/numpy/npy.h"
#include "format/numpy/zip.h"

#define FRAGMENT_BYTES (4 << 20)
#define STRIP_BYTES (256 << 10) /* of columns in Fortran order, read at once */
#define MAX_TABLE_ROWS (1 << 20)

/* An array: the file's, or a member's. */
typedef struct npy_array {
    npy_header header;
    char *name;         /* of the member; NULL: the file is the array */
    zip_member *member; /* NULL: the file is the array */
} npy_array;

typedef struct npy_file {
    hr_scan_file base;
    hr_source *source;
    zip_list zip;
    int64_t n_arrays;
    npy_array *arrays;
    struct npy_column {
        npy_array *array;
        npy_field *field;
    } *columns; /* base.schema->n */
    int64_t fragment_rows;
    int64_t row_bytes; /* of all projected arrays */
} npy_file;

/* ---------------------------------------------------------------------------------------------------------- readers */

/* One array being read. */
typedef struct npy_input {
    hr_stream *stream; /* a member's; NULL: the source's bytes */
    hr_buffer *whole;  /* all of a member in Fortran order; NULL: C order */
    hr_buffer *raw;    /* the current rows, in C order */
    bool used;         /* a projected column belongs to this array */
} npy_input;

typedef struct npy_reader {
    hr_reader base;
    npy_file *file;
    int fragment;
    int64_t row, end;  /* of the file */
    int64_t row_begin; /* ... where the fragment begins */
    hr_mem mem;
    hr_buffer *strip;
    npy_input inputs[];
} npy_reader;

static void npy_reader_close(hr_reader *base)
{
    npy_reader *r = (npy_reader *)base;

    for (int64_t i = 0; i < r->file->n_arrays; i++) {
        hr__stream_close(r->inputs[i].stream);
        hr__buffer_unref(r->inputs[i].whole);
        hr__buffer_unref(r->inputs[i].raw);
    }
    hr__buffer_unref(r->strip);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* Rows [row, row + n) of an array in Fortran order, from the file or from all of its bytes. */
static hr_status read_fortran(npy_reader *r, const npy_header *h, const hr_buffer *whole, int64_t row, int64_t n,
                              uint8_t *out, hr_error *err)
{
    int64_t column_bytes = h->n_rows * h->record_bytes, step = 1, length = n * h->record_bytes;
    hr_mem scratch = { r->mem.account, NULL };

    if (whole) {
        npy__scatter(h, whole->data + row * h->record_bytes, h->n_rows, 0, h->row_records, n, out);
        return HR_OK;
    }
    if (column_bytes <= STRIP_BYTES / 2) /* short columns: many at once, whole */
        step = STRIP_BYTES / HR_MAX(column_bytes, 1);
    if (!r->strip || r->strip->n_bytes < length) {
        hr__buffer_unref(r->strip);
        r->strip = NULL;
        HR_TRY(hr__buffer_new(&scratch, HR_MAX(length, STRIP_BYTES), &r->strip, err));
    }
    for (int64_t k = 0; k < h->row_records; k += step) {
        int64_t m = HR_MIN(step, h->row_records - k), at = h->data_at + k * column_bytes + row * h->record_bytes;

        HR_TRY(hr__source_read(r->file->source, r->strip->data, at, (m - 1) * column_bytes + length, err));
        npy__scatter(h, r->strip->data, h->n_rows, k, m, n, out);
    }
    return HR_OK;
}

static hr_status read_stream(npy_reader *r, const npy_array *a, hr_stream *s, uint8_t *out, int64_t n, hr_error *err)
{
    int64_t n_read;

    HR_TRY(hr__stream_read(s, out, n, &n_read, err));
    return n_read == n ? HR_OK
                       : hr_error_set(err, HR_BAD_DATA, "%s: '%s': ends %lld bytes early", r->file->base.name,
                                      a->name ? a->name : "data", (long long)(n - n_read));
}

/* A member was read: the stream must report its end, which includes the checks. */
static hr_status end_stream(const npy_reader *r, const npy_array *a, npy_input *in, hr_error *err)
{
    uint8_t more;
    int64_t n_read;

    if (!in->stream)
        return HR_OK;
    HR_TRY(hr__stream_read(in->stream, &more, 1, &n_read, err));
    if (n_read)
        return hr_error_set(err, HR_BAD_DATA, "%s: '%s': goes on after its %lld bytes", r->file->base.name, a->name,
                            (long long)a->member->bytes);
    hr__stream_close(in->stream);
    in->stream = NULL;
    return HR_OK;
}

/* The next n rows of array i, in C order. */
static hr_status read_rows(npy_reader *r, int64_t i, int64_t n, hr_error *err)
{
    const npy_array *a = &r->file->arrays[i];
    const npy_header *h = &a->header;
    npy_input *in = &r->inputs[i];
    hr_mem scratch = { r->mem.account, NULL };
    bool direct = npy__is_values(h, &h->fields[0]);

    hr__buffer_unref(in->raw);
    in->raw = NULL;
    HR_TRY(hr__buffer_new(direct ? &r->mem : &scratch, n * h->row_bytes, &in->raw, err));
    if (h->fortran && h->n_dims > 1)
        return read_fortran(r, h, in->whole, r->row, n, in->raw->data, err);
    if (!a->member)
        return hr__source_read(r->file->source, in->raw->data, h->data_at + r->row * h->row_bytes, n * h->row_bytes,
                               err);
    HR_TRY(read_stream(r, a, in->stream, in->raw->data, n * h->row_bytes, err));
    return r->row + n == h->n_rows ? end_stream(r, a, in, err) : HR_OK;
}

static hr_status npy_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    npy_reader *r = (npy_reader *)base;
    npy_file *f = r->file;
    int64_t n = HR_MIN(r->end - r->row, HR_MIN(HR_MAX(max_bytes / HR_MAX(f->row_bytes, 1), 1), MAX_TABLE_ROWS));
    int n_columns = f->base.schema->n;
    hr_array **arrays = NULL;
    hr_status st = HR_OK;

    if (n == 0)
        return HR_OK;
    arrays = hr__zalloc(r->mem.account, (size_t)HR_MAX(n_columns, 1) * sizeof(hr_array *));
    if (!arrays)
        HR_GO(hr__error_memory(err, f->base.name, n_columns * (int64_t)sizeof(hr_array *)));
    for (int64_t i = 0; i < f->n_arrays; i++)
        if (r->inputs[i].used)
            HR_GO(read_rows(r, i, n, err));
    for (int i = 0; i < n_columns; i++) {
        npy_array *a = f->columns[i].array;

        HR_GO(npy__column(&a->header, f->columns[i].field, f->base.name, r->row, r->inputs[a - f->arrays].raw, n,
                          &r->mem, &arrays[i], err));
    }
    for (int64_t i = 0; i < f->n_arrays; i++) {
        hr__buffer_unref(r->inputs[i].raw);
        r->inputs[i].raw = NULL;
    }
    st = hr__file_table(&f->base, r->fragment, r->row - r->row_begin, n, arrays, out, err);
    r->row += n;
done:
    for (int i = 0; arrays && i < n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

static const hr_reader_class npy_reader_class = { npy_next, npy_reader_close };

/* Skips n bytes. */
static hr_status pass_over(npy_reader *r, const npy_array *a, hr_stream *s, int64_t n, hr_error *err)
{
    uint8_t bytes[4096];

    for (; n > 0; n -= HR_MIN(n, (int64_t)sizeof bytes))
        HR_TRY(read_stream(r, a, s, bytes, HR_MIN(n, (int64_t)sizeof bytes), err));
    return HR_OK;
}

/* Opens a member at the reader's first row. */
static hr_status open_member(npy_reader *r, int64_t i, hr_error *err)
{
    const npy_array *a = &r->file->arrays[i];
    const npy_header *h = &a->header;
    npy_input *in = &r->inputs[i];
    hr_mem scratch = { r->mem.account, NULL };

    HR_TRY(zip__stream(r->file->source, a->member, r->mem.account, &in->stream, err));
    HR_TRY(pass_over(r, a, in->stream, h->data_at, err));
    if (h->fortran && h->n_dims > 1) {
        HR_TRY(hr__buffer_new(&scratch, h->data_bytes, &in->whole, err));
        HR_TRY(read_stream(r, a, in->stream, in->whole->data, h->data_bytes, err));
        return end_stream(r, a, in, err);
    }
    return pass_over(r, a, in->stream, r->row * h->row_bytes, err);
}

static hr_status npy_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                          hr_reader **out, hr_error *err)
{
    npy_file *f = (npy_file *)base;
    int64_t begin = (int64_t)fragment * f->fragment_rows, has = HR_MIN(f->fragment_rows, base->n_rows - begin);
    int64_t bytes = (int64_t)sizeof(npy_reader) + f->n_arrays * (int64_t)sizeof(npy_input);
    npy_reader *r = hr__zalloc(mem->account, (size_t)bytes);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, bytes);
    r->base.cls = &npy_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->row_begin = begin;
    row_begin = HR_MIN(HR_MAX(row_begin, 0), has);
    r->row = begin + row_begin;
    r->end = n_rows < 0 || n_rows > has - row_begin ? begin + has : r->row + n_rows;
    for (int i = 0; i < base->schema->n; i++)
        r->inputs[f->columns[i].array - f->arrays].used = true;
    for (int64_t i = 0; i < f->n_arrays && r->row < r->end; i++)
        if (r->inputs[i].used && f->arrays[i].member)
            HR_GO(open_member(r, i, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        npy_reader_close(&r->base);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status npy_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    npy_file *f = (npy_file *)base;
    int64_t n = HR_MIN(f->fragment_rows, base->n_rows - (int64_t)fragment * f->fragment_rows);

    (void)err;
    *out = (hr_fragment){ .n_rows = n, .stored_bytes = n * f->row_bytes, .memory_bytes = n * f->row_bytes };
    out->splittable = !f->zip.items;
    return HR_OK;
}

static void npy_ahead(hr_scan_file *base, int fragment)
{
    npy_file *f = (npy_file *)base;

    if (!f->zip.items && !f->arrays[0].header.fortran)
        hr__source_ahead(f->source, f->arrays[0].header.data_at + (int64_t)fragment * f->fragment_rows * f->row_bytes,
                         f->fragment_rows * f->row_bytes);
}

static void npy_close(hr_scan_file *base)
{
    npy_file *f = (npy_file *)base;

    for (int64_t i = 0; i < f->n_arrays; i++) {
        npy__header_clear(&f->arrays[i].header);
        hr__free(f->arrays[i].name);
    }
    hr__free(f->arrays);
    hr__free(f->columns);
    zip__list_clear(&f->zip);
    hr__source_unref(f->source);
}

static const hr_scan_file_class npy_file_class = {
    .fragment = npy_fragment,
    .read = npy_read,
    .ahead = npy_ahead,
    .close = npy_close,
};

/* The header of an array that begins at the source's or the stream's beginning. `n_bytes`: of all of it. */
static hr_status read_header(npy_file *f, hr_stream *stream, int64_t n_bytes, const char *name, npy_header *out,
                             hr_error *err)
{
    uint8_t head[NPY_HEAD_BYTES], *all = NULL;
    int64_t n_read, n = 0;
    hr_status st = HR_OK;

    if (stream)
        HR_GO(hr__stream_read(stream, head, sizeof head, &n_read, err));
    else
        HR_GO(hr__source_read_some(f->source, head, 0, sizeof head, &n_read, err));
    HR_GO(npy__header_bytes(head, n_read, name, &n, err));
    n = HR_MAX(n, n_read);
    if (n > n_bytes)
        HR_FAIL(HR_BAD_DATA, "%s: byte 8: a header of %lld bytes, the file has %lld", name, (long long)n,
                (long long)n_bytes);
    all = hr__alloc(f->base.account, (size_t)n);
    if (!all)
        HR_GO(hr__error_memory(err, name, n));
    memcpy(all, head, (size_t)n_read);
    if (stream)
        HR_GO(hr__stream_read(stream, all + n_read, n - n_read, &n_read, err));
    else
        HR_GO(hr__source_read_some(f->source, all + n_read, n_read, n - n_read, &n_read, err));
    if (n_read < n - (int64_t)sizeof head)
        HR_FAIL(HR_BAD_DATA, "%s: ends in its header", name);
    HR_GO(npy__header_parse(out, all, n, n_bytes, name, f->base.account, err));
done:
    hr__free(all);
    return st;
}

/* The members that are arrays. */
static hr_status open_zip(npy_file *f, hr_error *err)
{
    hr_account *account = f->base.account;

    HR_TRY(zip__list(f->source, account, &f->zip, err));
    f->arrays = hr__zalloc(account, (size_t)HR_MAX(f->zip.n, 1) * sizeof *f->arrays);
    if (!f->arrays)
        return hr__error_memory(err, f->base.name, f->zip.n * (int64_t)sizeof *f->arrays);
    for (int64_t i = 0; i < f->zip.n; i++) {
        zip_member *m = &f->zip.items[i];
        npy_array *a = &f->arrays[f->n_arrays];
        size_t length = strlen(m->name);
        hr_stream *stream = NULL;
        char *place;
        hr_status st;

        if (length < 4 || strcmp(m->name + length - 4, ".npy") != 0)
            continue;
        f->n_arrays++;
        a->member = m;
        a->name = hr__strndup(account, m->name, length - 4);
        place = hr__printf(account, "%s: member '%s'", f->base.name, m->name);
        st = a->name && place ? HR_OK : hr__error_memory(err, f->base.name, (int64_t)length);
        if (!st)
            st = zip__stream(f->source, m, account, &stream, err);
        if (!st)
            st = read_header(f, stream, m->bytes, place, &a->header, err);
        hr__stream_close(stream);
        hr__free(place);
        HR_TRY(st);
    }
    if (f->n_arrays == 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: a zip archive of %lld members, none of which ends in .npy",
                            f->base.name, (long long)f->zip.n);
    for (int64_t i = 1; i < f->n_arrays; i++) {
        npy_array *a = &f->arrays[0], *b = &f->arrays[i];

        if (a->header.n_rows != b->header.n_rows)
            return hr_error_set(
                err, HR_UNSUPPORTED, "%s: '%s' has %lld rows, '%s' has %lld: columns need arrays of equal length",
                f->base.name, a->name, (long long)a->header.n_rows, b->name, (long long)b->header.n_rows);
    }
    return HR_OK;
}

static hr_status open_npy(npy_file *f, hr_error *err)
{
    f->arrays = hr__zalloc(f->base.account, sizeof *f->arrays);
    if (!f->arrays)
        return hr__error_memory(err, f->base.name, sizeof *f->arrays);
    f->n_arrays = 1;
    return read_header(f, NULL, f->source->n_bytes, f->base.name, &f->arrays[0].header, err);
}

/* --- columns */

/* The name of a field's column: of an .npy `data` or the field, of an .npz the member, or member.field. *out is new. */
static hr_status column_name(const npy_file *f, const npy_array *a, const npy_field *field, char **out, hr_error *err)
{
    hr_account *account = f->base.account;

    if (a->name && field->name)
        *out = hr__printf(account, "%s.%s", a->name, field->name);
    else
        *out = hr__strdup(account, a->name ? a->name : field->name ? field->name : "data");
    return *out ? HR_OK : hr__error_memory(err, f->base.name, 1);
}

/* The schema of all columns, and where they come from. */
static hr_status all_columns(npy_file *f, struct npy_column **columns, hr_schema **schema, hr_error *err)
{
    int64_t n = 0, at = 0;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    for (int64_t i = 0; i < f->n_arrays; i++)
        n += f->arrays[i].header.n_fields;
    if (n > 100000)
        HR_FAIL(HR_UNSUPPORTED, "%s: %lld columns", f->base.name, (long long)n);
    *columns = hr__zalloc(f->base.account, (size_t)n * sizeof **columns);
    fields = hr__zalloc(f->base.account, (size_t)n * sizeof *fields);
    if (!*columns || !fields)
        HR_GO(hr__error_memory(err, f->base.name, n * (int64_t)sizeof *fields));
    for (int64_t i = 0; i < f->n_arrays; i++) {
        for (int k = 0; k < f->arrays[i].header.n_fields; k++, at++) {
            npy_field *field = &f->arrays[i].header.fields[k];
            char *name = NULL;

            (*columns)[at] = (struct npy_column){ &f->arrays[i], field };
            HR_GO(column_name(f, &f->arrays[i], field, &name, err));
            st = hr__field_init(&fields[at], name, field->type, field->kind == NPY_TIME, err);
            hr__free(name);
            if (st)
                goto done;
        }
    }
    HR_GO(hr__schema_new(fields, (int)n, schema, err));
done:
    for (int64_t i = 0; fields && i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

static hr_status choose_columns(npy_file *f, const hr_projection *projection, hr_error *err)
{
    struct npy_column *all = NULL;
    hr_schema *schema = NULL;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    HR_GO(all_columns(f, &all, &schema, err));
    if (!projection) {
        f->columns = all;
        f->base.schema = schema;
        return HR_OK;
    }
    f->columns = hr__zalloc(f->base.account, (size_t)HR_MAX(projection->n, 1) * sizeof *f->columns);
    fields = hr__zalloc(f->base.account, (size_t)HR_MAX(projection->n, 1) * sizeof *fields);
    if (!f->columns || !fields)
        HR_GO(hr__error_memory(err, f->base.name, projection->n * (int64_t)sizeof *fields));
    for (int i = 0; i < projection->n; i++) {
        int at = hr__schema_find(schema, projection->names[i]);

        if (at < 0)
            HR_GO(hr__schema_missing_in(f->base.name, HR_NOT_FOUND, schema, projection->names[i], err));
        f->columns[i] = all[at];
        fields[i] = schema->fields[at]; /* borrowed */
    }
    HR_GO(hr__schema_new(fields, projection->n, &f->base.schema, err));
done:
    hr__free(all);
    hr__free(fields);
    hr__schema_unref(schema);
    return st;
}

/* Computes the fragments and the bytes of a row. */
static hr_status cut(npy_file *f, hr_error *err)
{
    int64_t n = f->arrays[0].header.n_rows, row_bytes = f->arrays[0].header.row_bytes, n_fragments;

    f->base.n_rows = n;
    f->fragment_rows = f->zip.items ? HR_MAX(n, 1) : HR_MAX(FRAGMENT_BYTES / HR_MAX(row_bytes, 1), 1);
    n_fragments = n / f->fragment_rows + (n % f->fragment_rows != 0);
    if (n_fragments > INT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: %lld rows in fragments of %lld", f->base.name, (long long)n,
                            (long long)f->fragment_rows);
    f->base.n_fragments = (int)n_fragments;
    for (int64_t i = 0; i < f->n_arrays; i++) {
        for (int k = 0; k < f->base.schema->n; k++)
            if (f->columns[k].array == &f->arrays[i]) {
                f->row_bytes += f->arrays[i].header.row_bytes;
                break;
            }
    }
    return HR_OK;
}

static hr_status npy_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    npy_file *f = NULL;
    uint8_t head[4];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(hr__scan_file_new(&npy_file_class, sizeof *f, source->name, how->account, out, err));
    f = (npy_file *)*out;
    f->source = hr__source_ref(source);
    if (hr__view_starts((hr_view){ head, n }, "PK"))
        HR_GO(open_zip(f, err));
    else
        HR_GO(open_npy(f, err));
    HR_GO(choose_columns(f, how->projection, err));
    HR_GO(cut(f, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static int npy_bid(hr_view head) { return hr__view_starts(head, "\x93NUMPY") ? 48 : 0; }

const hr_format hr__format_numpy = {
    .name = "numpy",
    .suffixes = "npy npz",
    .doc = "arrays of NumPy (.npy, .npz); rows are slices along the first axis",
    .opens = HR_OPENS_BOTH,
    .bid = npy_bid,
    .open = npy_open,
    .create = npy__create,
};
