/* memory_scan.c - scans without files: tables, a range of numbers, a foreign stream (materialized.h stores its tables).
 *
 * Each is one file of fragments; a reader can begin at any row. Readers return slices of tables that share their
 * buffers, and compute the numbers of a range.
 *
 * Tests: test_scan.c, test_feed.c. */
#include "format/scan/materialized.h"
#include "format/scan/scan.h"

#define RANGE_FRAGMENT (1 << 20) /* rows, by default */

typedef struct memory_scan {
    hr_scan base;
    const char *kind; /* "memory" or "range": also the file's name */
    hr_schema *schema;
    hr_table **tables;
    int64_t n_tables, cap;
    int64_t n_rows;
    int64_t fragment_rows;   /* of a range */
    _Atomic uint64_t digest; /* of the tables; 0: not computed yet */
} memory_scan;

typedef struct memory_file {
    hr_scan_file base;
    memory_scan *scan;
    int *columns; /* numbers of the projected columns in the scan's schema */
} memory_file;

typedef struct memory_reader {
    hr_reader base;
    memory_file *file;
    int fragment;
    int64_t row, end;
    double row_bytes;
    hr_mem mem;
} memory_reader;

static bool is_range(const memory_scan *s) { return !s->tables; }

static int64_t range_fragments(int64_t n_rows, int64_t fragment_rows)
{
    return n_rows / fragment_rows + (n_rows % fragment_rows != 0);
}

/* ---------------------------------------------------------------------------------------------------------- readers */

static hr_status table_column(const memory_reader *r, int column, int64_t n, hr_array **out, hr_error *err)
{
    hr_array *a = r->file->scan->tables[r->fragment]->columns[column];

    if (r->row == 0 && n == a->length) {
        *out = hr__array_ref(a);
        return HR_OK;
    }
    return hr__array_slice(a, r->row, n, out, err);
}

static hr_status range_column(const memory_reader *r, int64_t n, hr_array **out, hr_error *err)
{
    int64_t first = r->fragment * r->file->scan->fragment_rows + r->row, *values;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };

    HR_TRY(hr__buffer_new(&r->mem, n * 8, &buffers[1], err));
    values = (int64_t *)(void *)buffers[1]->data;
    for (int64_t i = 0; i < n; i++)
        values[i] = first + i;
    return hr__array_new(hr__type_simple(HR_T_INT64), n, 0, buffers, NULL, 0, out, err);
}

static hr_status memory_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    memory_reader *r = (memory_reader *)base;
    int n_columns = r->file->base.schema->n;
    double fit = (double)max_bytes / r->row_bytes;
    int64_t n = HR_MIN(r->end - r->row, fit < 1 ? 1 : fit > 1e15 ? (int64_t)1e15 : (int64_t)fit);
    hr_run_coords run = { .first = { .fragment = r->fragment, .row = r->row }, .n = n };
    hr_origin *origin = NULL;
    hr_array **arrays;
    hr_status st = HR_OK;

    if (r->row == r->end)
        return HR_OK;
    arrays = hr__zalloc(r->mem.account, (size_t)n_columns * sizeof *arrays);
    if (!arrays)
        return hr__error_memory(err, r->file->base.name, n_columns * (int64_t)sizeof *arrays);
    for (int i = 0; i < n_columns; i++) {
        if (is_range(r->file->scan))
            HR_GO(range_column(r, n, &arrays[i], err));
        else
            HR_GO(table_column(r, r->file->columns[i], n, &arrays[i], err));
    }
    HR_GO(hr__origin_new(&run, 1, &origin, err));
    st = hr__table_new(r->file->base.schema, arrays, n, origin, out, err);
    memset(arrays, 0, (size_t)n_columns * sizeof *arrays); /* taken */
    if (!st)
        r->row += n;
done:
    for (int i = 0; i < n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    hr__origin_unref(origin);
    return st;
}

static void memory_reader_close(hr_reader *base)
{
    hr__scan_file_unref(&((memory_reader *)base)->file->base);
    hr__free(base);
}

static const hr_reader_class memory_reader_class = { memory_next, memory_reader_close };

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status memory_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    memory_file *f = (memory_file *)base;
    const memory_scan *s = f->scan;

    (void)err;
    *out = (hr_fragment){ .splittable = true };
    if (is_range(s)) {
        out->n_rows = HR_MIN(s->n_rows - fragment * s->fragment_rows, s->fragment_rows);
        out->memory_bytes = out->n_rows * 8 * base->schema->n;
        return HR_OK;
    }
    out->n_rows = s->tables[fragment]->n_rows;
    for (int i = 0; i < base->schema->n; i++)
        out->memory_bytes += hr__array_bytes_used(s->tables[fragment]->columns[f->columns[i]]);
    out->stored_bytes = out->memory_bytes;
    return HR_OK;
}

static hr_status memory_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                             hr_reader **out, hr_error *err)
{
    memory_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;
    hr_fragment info;
    int64_t row;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    HR_GO(memory_fragment(base, fragment, &info, err));
    row = HR_MIN(HR_MAX(row_begin, 0), info.n_rows);
    r->base.cls = &memory_reader_class;
    r->file = (memory_file *)hr__scan_file_ref(base);
    r->fragment = fragment;
    r->row = row;
    r->end = n_rows < 0 ? info.n_rows : row + HR_MIN(n_rows, info.n_rows - row);
    r->row_bytes = HR_MAX((double)info.memory_bytes / (double)HR_MAX(info.n_rows, 1), 1.0 / 64);
    r->mem = *mem;
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    hr__free(r);
    return st;
}

static void memory_file_close(hr_scan_file *base)
{
    memory_file *f = (memory_file *)base;

    hr__free(f->columns);
    if (f->scan)
        hr__scan_unref(&f->scan->base);
}

static const hr_scan_file_class memory_file_class = {
    .fragment = memory_fragment,
    .read = memory_read,
    .close = memory_file_close,
};

/* ------------------------------------------------------------------------------------------------------------ scans */

static hr_status memory_schema(hr_scan *base, hr_schema **out, hr_error *err)
{
    (void)err;
    *out = hr__schema_ref(((memory_scan *)base)->schema);
    return HR_OK;
}

static hr_status memory_open(hr_scan *base, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const hr_projection *projection = how->projection;
    memory_scan *s = (memory_scan *)base;
    hr_status st = HR_OK;
    memory_file *f;

    (void)file;
    HR_TRY(hr__scan_file_new(&memory_file_class, sizeof *f, s->kind, how->account, out, err));
    f = (memory_file *)*out;
    f->scan = s;
    hr__scan_ref(base);
    HR_GO(hr__scan_project(s->schema, projection, &f->base.schema, err));
    f->columns = hr__alloc(how->account, (size_t)f->base.schema->n * sizeof *f->columns);
    if (!f->columns)
        HR_GO(hr__error_memory(err, s->kind, f->base.schema->n * (int64_t)sizeof *f->columns));
    for (int i = 0; i < f->base.schema->n; i++)
        f->columns[i] = projection ? hr__schema_find(s->schema, projection->names[i]) : i;
    f->base.n_rows = s->n_rows;
    f->base.n_fragments = (int)(is_range(s) ? range_fragments(s->n_rows, s->fragment_rows) : s->n_tables);
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static hr_status memory_count(hr_scan *base, int64_t *out, hr_error *err)
{
    (void)err;
    *out = ((memory_scan *)base)->n_rows;
    return HR_OK;
}

static int64_t memory_guess(const hr_scan *base) { return ((const memory_scan *)base)->n_rows; }

static const char *memory_name(const hr_scan *base, int file)
{
    return file == 0 ? ((const memory_scan *)base)->kind : NULL;
}

static void memory_describe(const hr_scan *base, hr_text *out)
{
    const memory_scan *s = (const memory_scan *)base;

    if (is_range(s))
        hr__text_add(out, "range [%lld rows]", (long long)s->n_rows);
    else
        hr__text_add(out, "memory [%lld table%s, %lld rows]", (long long)s->n_tables, s->n_tables == 1 ? "" : "s",
                     (long long)s->n_rows);
}

void hr__memory_fingerprint(const char *kind, const hr_schema *schema, int64_t n_rows, hr_hash *h)
{
    hr_text text = { 0 };

    hr__schema_print(schema, &text);
    hr__hash_text(h, kind);
    hr__hash_text(h, text.data);
    hr__hash_int(h, n_rows);
    hr__text_clear(&text);
}

static void memory_fingerprint(const hr_scan *base, hr_hash *h)
{
    const memory_scan *s = (const memory_scan *)base;

    hr__memory_fingerprint(s->kind, s->schema, s->n_rows, h);
    for (int64_t i = 0; i < s->n_tables; i++)
        hr__hash_int(h, s->tables[i]->n_rows);
    if (is_range(s)) /* tables in memory have the same fingerprint as materialized ones */
        hr__hash_int(h, s->fragment_rows);
}

uint64_t hr__memory_digest_end(const hr_hash *h) { return HR_MAX(hr__hash_end(h).lo, 1); }

static uint64_t memory_digest(hr_scan *base, const atomic_bool *stop)
{
    memory_scan *s = (memory_scan *)base;
    uint64_t found = atomic_load_explicit(&s->digest, memory_order_relaxed);
    hr_hash h;

    if (found || is_range(s))
        return found;
    hr__hash_init(&h, 1);
    for (int64_t i = 0; i < s->n_tables; i++) {
        if (hr__is_stopped(stop))
            return 0;
        if (s->tables[i]->n_rows)
            hr__hash_int(&h, (int64_t)hr__table_digest(s->tables[i], stop));
    }
    if (hr__is_stopped(stop)) /* the last one may not be whole */
        return 0;
    found = hr__memory_digest_end(&h);
    atomic_store_explicit(&s->digest, found, memory_order_relaxed);
    return found;
}

static int64_t memory_floor(const hr_scan *base) { return is_range((const memory_scan *)base) ? 64 << 10 : 0; }

static void memory_free(hr_scan *base)
{
    memory_scan *s = (memory_scan *)base;

    for (int64_t i = 0; i < s->n_tables; i++)
        hr_table_unref(s->tables[i]);
    hr__free(s->tables);
    hr__schema_unref(s->schema);
    hr__free(s);
}

static const hr_scan_class memory_scan_class = {
    .schema = memory_schema,
    .open = memory_open,
    .count = memory_count,
    .file_name = memory_name,
    .describe = memory_describe,
    .fingerprint = memory_fingerprint,
    .floor_bytes = memory_floor,
    .free = memory_free,
    .guess_rows = memory_guess,
    .memory_digest = memory_digest,
};

static hr_status scan_new(const char *kind, memory_scan **out, hr_error *err)
{
    memory_scan *s = hr__zalloc(NULL, sizeof *s);

    *out = s;
    if (!s)
        return hr__error_memory(err, kind, sizeof *s);
    s->base.cls = &memory_scan_class;
    atomic_init(&s->base.refs, 1);
    s->base.n_files = 1;
    s->kind = kind;
    return HR_OK;
}

/* Takes the table, even on failure. */
static hr_status add_table(memory_scan *s, hr_table *t, hr_error *err)
{
    hr_status st = HR_OK;
    char text[300];

    if (!s->schema)
        s->schema = hr__schema_ref(t->schema);
    if (!hr__schema_equal(t->schema, s->schema)) {
        hr__schema_difference(t->schema, s->schema, text, sizeof text);
        HR_FAIL(HR_TYPE, "table %lld: %s", (long long)s->n_tables, text);
    }
    if (s->n_tables == INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "more than %d tables", INT32_MAX);
    if (!hr__grow(NULL, (void **)&s->tables, &s->cap, s->n_tables + 1, sizeof *s->tables))
        HR_GO(hr__error_memory(err, s->kind, (s->n_tables + 1) * (int64_t)sizeof *s->tables));
    if (__builtin_add_overflow(s->n_rows, t->n_rows, &s->n_rows))
        HR_FAIL(HR_UNSUPPORTED, "more than 2^63 rows");
    s->tables[s->n_tables++] = t;
    t = NULL; /* moved into the scan */
done:
    hr_table_unref(t);
    return st;
}

hr_status hr__scan_new_tables(hr_table *const *tables, int n, hr_scan **out, hr_error *err)
{
    memory_scan *s = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n <= 0)
        return hr_error_set(err, HR_INVALID, "no tables: the schema comes from the first one");
    HR_GO(scan_new(HR_MEMORY_NAME, &s, err));
    for (int i = 0; i < n; i++)
        HR_GO(add_table(s, hr_table_ref(tables[i]), err));
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    if (s)
        memory_free(&s->base);
    return st;
}

hr_status hr__scan_new_range(int64_t n, int64_t n_blocks, const char *name, hr_scan **out, hr_error *err)
{
    memory_scan *s = NULL;
    hr_field field = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (n < 0 || n_blocks < 0 || (n_blocks ? n_blocks : n / RANGE_FRAGMENT) >= INT32_MAX)
        return hr_error_set(err, HR_INVALID, "a range of %lld rows", (long long)n);
    HR_GO(scan_new("range", &s, err));
    HR_GO(hr__field_init(&field, name, hr__type_simple(HR_T_INT64), false, err));
    HR_GO(hr__schema_new(&field, 1, &s->schema, err));
    s->n_rows = n;
    s->fragment_rows = n_blocks ? HR_MAX(1, range_fragments(n, n_blocks)) : RANGE_FRAGMENT;
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    hr__field_clear(&field);
    if (s)
        memory_free(&s->base);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- streams */

hr_status hr__arrow_stream_error(struct ArrowArrayStream *stream, int rc, hr_error *err)
{
    const char *text = stream->get_last_error ? stream->get_last_error(stream) : NULL;

    return hr_error_set(err, HR_IO, "Arrow stream: error %d: %s", rc, text ? text : "no message");
}

void hr__arrow_schema_keep(struct ArrowSchema *schema) { schema->release = NULL; }

hr_status hr__arrow_stream_next(struct ArrowArrayStream *stream, const struct ArrowSchema *schema, hr_table **out,
                                hr_error *err)
{
    struct ArrowSchema borrowed = *schema;
    struct ArrowArray array = { 0 };
    int rc = stream->get_next(stream, &array);

    *out = NULL;
    if (rc)
        return hr__arrow_stream_error(stream, rc, err);
    if (!array.release)
        return HR_OK;
    borrowed.release = hr__arrow_schema_keep;
    return hr_table_import(&borrowed, &array, out, err);
}

/* Adds a table without rows, so that the columns are known without a batch. */
static hr_status add_empty(hr_materialized *k, struct ArrowSchema *schema, hr_error *err)
{
    struct ArrowSchema borrowed = *schema;
    hr_schema *imported = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    borrowed.release = hr__arrow_schema_keep;
    HR_GO(hr__schema_import(&borrowed, &imported, err));
    HR_GO(hr__table_empty(imported, &t, err));
    st = hr__materialized_add(k, t, err);
done:
    hr__schema_unref(imported);
    return st;
}

hr_status hr__scan_new_stream(struct ArrowArrayStream *stream, hr_scan **out, hr_error *err)
{
    struct ArrowSchema schema = { 0 };
    hr_materialized *k = NULL;
    hr_status st = HR_OK;
    int rc;

    *out = NULL;
    rc = stream->get_schema(stream, &schema);
    if (rc)
        HR_GO(hr__arrow_stream_error(stream, rc, err));
    HR_GO(hr__materialized_new(HR_MEMORY_NAME, 0, HR_FRAGMENTS_OF_FOREIGN, &k, err));
    HR_GO(add_empty(k, &schema, err));
    for (;;) {
        hr_table *t;

        HR_GO(hr__arrow_stream_next(stream, &schema, &t, err));
        if (!t)
            break;
        HR_GO(hr__materialized_add(k, t, err));
    }
    st = hr__materialized_scan(k, out, err);
done:
    hr__materialized_free(k);
    if (schema.release)
        schema.release(&schema);
    stream->release(stream);
    return st;
}
