/* add_file_columns.c - a file with the columns of its scan: in the scan's order, widened to its types (data/unify.c),
 * null if the file lacks them, and with columns that have one value for the whole file (its path, its folders' names).
 *
 * A full_file wraps the inner file, which is open with the columns that it has. A reader makes a column of one value
 * once, for its longest table; tables share slices of that column.
 *
 * Tests: test_scan.c. */
#include "format/scan/scan.h"

typedef struct full_file {
    hr_scan_file base;
    hr_scan_file *inner;
    hr_file_column *columns; /* base.schema->n */
    int64_t row_bytes;       /* about how many bytes a row takes more than in the inner file */
} full_file;

typedef struct full_reader {
    hr_reader base;
    full_file *file;
    hr_reader *inner;
    hr_array **constants; /* by column, as long as the longest table so far; NULL: none yet */
    hr_table *rest;       /* of the inner file; rows before `at` are returned already */
    int64_t at;
    hr_mem mem;
} full_reader;

/* The value of row 0 of `value`, n times; without a value, nulls. */
static hr_status repeat(const hr_mem *mem, hr_type *type, const hr_array *value, int64_t n, hr_array **out,
                        hr_error *err)
{
    hr_buffer *rows = NULL;
    hr_status st = HR_OK;

    if (!value)
        return hr__array_nulls(mem, type, n, out, err);
    HR_TRY(hr__buffer_new(mem, n * 4, &rows, err));
    memset(rows->data, 0, (size_t)(n * 4));
    st = hr__array_take(mem, value, rows->data, 4, n, out, err);
    hr__buffer_unref(rows);
    return st;
}

static hr_status constant(full_reader *r, int column, int64_t n, hr_array **out, hr_error *err)
{
    hr_array **kept = &r->constants[column];
    hr_type *type = r->file->base.schema->fields[column].type;

    if (!*kept || (*kept)->length < n) {
        hr__array_unref(*kept);
        *kept = NULL;
        HR_TRY(repeat(&r->mem, type, r->file->columns[column].value, n, kept, err));
    }
    return hr__array_slice(*kept, 0, n, out, err);
}

static hr_status full_column(full_reader *r, const hr_table *t, int column, hr_array **out, hr_error *err)
{
    const hr_field *f = &r->file->base.schema->fields[column];
    int at = r->file->columns[column].inner;
    hr_coord first = t->origin && t->n_rows ? hr__origin_at(t->origin, 0) : (hr_coord){ 0 };
    hr_status st =
        at < 0 ? constant(r, column, t->n_rows, out, err) : hr__array_unify(&r->mem, t->columns[at], f->type, out, err);

    return st ? hr__error_at(err, st, "%s: column '%s', fragment %d, from row %lld on", r->file->base.name, f->name,
                             (int)first.fragment, (long long)first.row)
              : HR_OK;
}

/* The next rows of the inner file: few enough that the added columns fit, too. (A table without columns may have any
 * number of rows.) */
static hr_status next_rows(full_reader *r, int64_t max_bytes, hr_table **out, hr_error *err)
{
    int64_t most = HR_MAX(max_bytes / HR_MAX(r->file->row_bytes, 1), 1), n;

    if (!r->rest) {
        HR_TRY(hr__reader_next(r->inner, max_bytes, &r->rest, err));
        r->at = 0;
        if (!r->rest)
            return HR_OK;
    }
    n = HR_MIN(r->rest->n_rows - r->at, most);
    if (r->at == 0 && n == r->rest->n_rows) {
        *out = r->rest;
        r->rest = NULL; /* moved */
        return HR_OK;
    }
    HR_TRY(hr_table_slice(r->rest, r->at, n, out, err));
    r->at += n;
    if (r->at == r->rest->n_rows) {
        hr_table_unref(r->rest);
        r->rest = NULL;
    }
    return HR_OK;
}

static hr_status full_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    full_reader *r = (full_reader *)base;
    int n = r->file->base.schema->n;
    hr_array **arrays = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(next_rows(r, max_bytes, &t, err));
    if (!t)
        goto done;
    arrays = hr__zalloc(r->mem.account, ((size_t)n + 1) * sizeof *arrays);
    if (!arrays)
        HR_GO(hr__error_memory(err, r->file->base.name, n * (int64_t)sizeof *arrays));
    for (int i = 0; i < n; i++)
        HR_GO(full_column(r, t, i, &arrays[i], err));
    st = hr__table_new(r->file->base.schema, arrays, t->n_rows, t->origin, out, err);
    memset(arrays, 0, (size_t)n * sizeof *arrays); /* taken */
done:
    for (int i = 0; arrays && i < n; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    hr_table_unref(t);
    return st;
}

static void full_reader_close(hr_reader *base)
{
    full_reader *r = (full_reader *)base;

    hr__reader_close(r->inner);
    hr_table_unref(r->rest);
    for (int i = 0; r->constants && i < r->file->base.schema->n; i++)
        hr__array_unref(r->constants[i]);
    hr__free(r->constants);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static const hr_reader_class full_reader_class = { full_next, full_reader_close };

static hr_status full_read(hr_scan_file *base, int fragment, int64_t row, int64_t n, const hr_mem *mem, hr_reader **out,
                           hr_error *err)
{
    full_file *f = (full_file *)base;
    full_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &full_reader_class;
    r->mem = *mem;
    r->file = f;
    hr__scan_file_ref(base);
    r->constants = hr__zalloc(mem->account, ((size_t)base->schema->n + 1) * sizeof *r->constants);
    if (!r->constants)
        HR_GO(hr__error_memory(err, base->name, base->schema->n * (int64_t)sizeof *r->constants));
    HR_GO(f->inner->cls->read(f->inner, fragment, row, n, mem, &r->inner, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        full_reader_close(&r->base);
    return st;
}

static hr_status full_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    full_file *f = (full_file *)base;

    HR_TRY(f->inner->cls->fragment(f->inner, fragment, out, err));
    if (out->n_rows > 0 && f->row_bytes < (INT64_MAX - out->memory_bytes) / out->n_rows)
        out->memory_bytes += out->n_rows * f->row_bytes;
    return HR_OK;
}

static void full_ahead(hr_scan_file *base, int fragment)
{
    full_file *f = (full_file *)base;

    if (f->inner->cls->ahead)
        f->inner->cls->ahead(f->inner, fragment);
}

static void full_ahead_rows(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows)
{
    full_file *f = (full_file *)base;

    if (f->inner->cls->ahead_rows)
        f->inner->cls->ahead_rows(f->inner, fragment, row_begin, n_rows);
}

static void full_close(hr_scan_file *base)
{
    full_file *f = (full_file *)base;

    for (int i = 0; f->columns && base->schema && i < base->schema->n; i++)
        hr__array_unref(f->columns[i].value);
    hr__free(f->columns);
    hr__scan_file_unref(f->inner);
}

static const hr_scan_file_class full_file_class = {
    .fragment = full_fragment,
    .read = full_read,
    .ahead = full_ahead,
    .ahead_rows = full_ahead_rows,
    .close = full_close,
};

static int64_t more_bytes(const hr_scan_file *inner, const hr_field *f, const hr_file_column *c)
{
    if (c->value)
        return hr__array_bytes_used(c->value);
    if (c->inner >= 0 && hr__type_equal(inner->schema->fields[c->inner].type, f->type))
        return 0;
    return HR_MAX(hr__type_bytes(f->type), hr__type_offset_bytes(f->type));
}

hr_status hr__scan_add_file_columns(hr_scan_file *takes_inner, hr_schema *schema, const hr_file_column *columns,
                                    hr_account *account, hr_scan_file **out, hr_error *err)
{
    hr_scan_file *inner = takes_inner;
    hr_status st = HR_OK;
    full_file *f;

    *out = NULL;
    HR_GO(hr__scan_file_new(&full_file_class, sizeof *f, inner->name, account, out, err));
    (*out)->is_remote = inner->is_remote;
    f = (full_file *)*out;
    f->columns = hr__zalloc(account, ((size_t)schema->n + 1) * sizeof *f->columns);
    if (!f->columns)
        HR_GO(hr__error_memory(err, inner->name, schema->n * (int64_t)sizeof *f->columns));
    f->base.schema = hr__schema_ref(schema);
    for (int i = 0; i < schema->n; i++) {
        f->columns[i] = columns[i];
        if (columns[i].value)
            hr__array_ref(columns[i].value);
        f->row_bytes += more_bytes(inner, &schema->fields[i], &columns[i]);
    }
    f->base.n_fragments = inner->n_fragments;
    f->base.n_rows = inner->n_rows;
    f->base.file = inner->file;
    f->inner = inner;
    inner = NULL; /* taken */
done:
    hr__scan_file_unref(inner);
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ----------------------------------------------------------------------------------------------------- without rows */

static hr_status no_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    *out = (hr_fragment){ 0 };
    return hr_error_set(err, HR_BUG, "%s: fragment %d, but the file has none", base->name, fragment);
}

static hr_status no_read(hr_scan_file *base, int fragment, int64_t row, int64_t n, const hr_mem *mem, hr_reader **out,
                         hr_error *err)
{
    (void)row;
    (void)n;
    (void)mem;
    *out = NULL;
    return hr_error_set(err, HR_BUG, "%s: fragment %d, but the file has none", base->name, fragment);
}

static void no_close(hr_scan_file *base) { (void)base; }

static const hr_scan_file_class empty_file_class = { .fragment = no_fragment, .read = no_read, .close = no_close };

hr_status hr__scan_file_empty(const char *name, hr_schema *schema, hr_account *account, hr_scan_file **out,
                              hr_error *err)
{
    HR_TRY(hr__scan_file_new(&empty_file_class, sizeof **out, name, account, out, err));
    (*out)->schema = hr__schema_ref(schema);
    return HR_OK;
}
