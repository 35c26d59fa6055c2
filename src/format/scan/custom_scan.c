/* custom_scan.c - a scan over a user's own source: the functions of hr_plan_source.
 *
 * One file with the user's number of fragments. A fragment is an Arrow stream that the user opens; the pool thread that
 * reads the fragment pulls the stream, one batch at a time. The reader does not copy batches; it returns a large batch
 * in slices. To begin in the middle of a fragment, it reads from the fragment's beginning and skips rows. */
#include "format/scan/scan.h"

#define UNKNOWN_BYTES (1 << 20) /* assumed for a fragment of unknown size */

typedef struct custom_scan {
    hr_scan base;
    hr_source_functions functions;
    char *name;
    hr_schema *schema;
} custom_scan;

typedef struct custom_file {
    hr_scan_file base;
    custom_scan *scan; /* shared */
} custom_file;

typedef struct custom_reader {
    hr_reader base;
    custom_file *file;
    int fragment;
    struct ArrowArrayStream stream; /* release NULL: none */
    struct ArrowSchema schema;      /* of the stream */
    int *columns;                   /* of the stream, for each of the file's */
    hr_table *rest;                 /* rows from `at` on are not yet returned */
    int64_t at, row, end;           /* row: of the fragment */
    hr_mem mem;
} custom_reader;

/* ---------------------------------------------------------------------------------------------------------- readers */

static void custom_reader_close(hr_reader *base)
{
    custom_reader *r = (custom_reader *)base;

    if (r->schema.release)
        r->schema.release(&r->schema);
    if (r->stream.release)
        r->stream.release(&r->stream);
    hr_table_unref(r->rest);
    hr__free(r->columns);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static hr_status at_fragment(const custom_reader *r, hr_status st, hr_error *err)
{
    return hr__error_at(err, st, "%s: fragment %d", r->file->scan->name, r->fragment);
}

/* Pulls the next batch with rows into `rest`; skips rows before the first requested one. */
static hr_status pull(custom_reader *r, int64_t *skip, hr_error *err)
{
    hr_status st;

    while (!r->rest) {
        st = hr__arrow_stream_next(&r->stream, &r->schema, &r->rest, err);
        if (st)
            return at_fragment(r, st, err);
        if (!r->rest)
            return HR_OK;
        r->at = HR_MIN(*skip, r->rest->n_rows);
        *skip -= r->at;
        if (r->at == r->rest->n_rows) {
            hr_table_unref(r->rest);
            r->rest = NULL;
        }
    }
    return HR_OK;
}

/* Finds each of the file's columns in the stream, and checks its type. */
static hr_status find_columns(custom_reader *r, hr_error *err)
{
    const hr_schema *want = r->file->base.schema;
    struct ArrowSchema borrowed = r->schema;
    hr_schema *found = NULL;
    hr_status st = HR_OK;

    borrowed.release = hr__arrow_schema_keep;
    HR_GO(hr__schema_import(&borrowed, &found, err));
    r->columns = hr__alloc(r->mem.account, ((size_t)want->n + 1) * sizeof *r->columns);
    if (!r->columns)
        HR_GO(hr__error_memory(err, r->file->scan->name, want->n * (int64_t)sizeof *r->columns));
    for (int i = 0; i < want->n; i++) {
        bool widens = false;

        r->columns[i] = hr__schema_find(found, want->fields[i].name);
        if (r->columns[i] < 0)
            HR_GO(hr__schema_missing(found, want->fields[i].name, err));
        HR_GO(hr__type_widens(found->fields[r->columns[i]].type, want->fields[i].type, &widens, err));
        if (!widens) {
            hr_text text = { 0 };

            hr__type_print(found->fields[r->columns[i]].type, &text);
            hr__text_add(&text, ", declared is ");
            hr__type_print(want->fields[i].type, &text);
            st = hr_error_set(err, HR_TYPE, "column '%s' is %s", want->fields[i].name, text.data ? text.data : "?");
            hr__text_clear(&text);
            goto done;
        }
    }
done:
    hr__schema_unref(found);
    return st ? at_fragment(r, st, err) : HR_OK;
}

static hr_status open_stream(custom_reader *r, hr_error *err)
{
    const hr_source_functions *f = &r->file->scan->functions;
    const hr_schema *want = r->file->base.schema;
    const char **names = hr__alloc(r->mem.account, ((size_t)want->n + 1) * sizeof *names);
    hr_status st;
    int rc;

    if (!names)
        return hr__error_memory(err, r->file->scan->name, want->n * (int64_t)sizeof *names);
    for (int i = 0; i < want->n; i++)
        names[i] = want->fields[i].name;
    st = f->read(f->context, r->fragment, names, want->n, &r->stream, err);
    hr__free(names);
    if (st)
        return at_fragment(r, st, err);
    if (!r->stream.release)
        return hr_error_set(err, HR_CALLBACK, "%s: fragment %d: read returned no stream", r->file->scan->name,
                            r->fragment);
    rc = r->stream.get_schema(&r->stream, &r->schema);
    if (rc)
        return at_fragment(r, hr__arrow_stream_error(&r->stream, rc, err), err);
    return find_columns(r, err);
}

static hr_status rows_of_rest(custom_reader *r, int64_t n, hr_table **out, hr_error *err)
{
    hr_run_coords run = { .first = { .fragment = r->fragment, .row = r->row }, .n = n };
    hr_schema *schema = r->file->base.schema;
    hr_array **arrays = hr__zalloc(r->mem.account, ((size_t)schema->n + 1) * sizeof *arrays), *part = NULL;
    hr_origin *origin = NULL;
    hr_status st = HR_OK;

    if (!arrays)
        return hr__error_memory(err, r->file->scan->name, schema->n * (int64_t)sizeof *arrays);
    for (int i = 0; i < schema->n; i++) {
        HR_GO(hr__array_slice(r->rest->columns[r->columns[i]], r->at, n, &part, err));
        st = hr__array_unify(&r->mem, part, schema->fields[i].type, &arrays[i], err);
        if (st)
            HR_GO(hr__error_at(err, st, "column '%s', from row %lld on", schema->fields[i].name, (long long)r->row));
        hr__array_unref(part);
        part = NULL;
    }
    HR_GO(hr__origin_new(&run, 1, &origin, err));
    st = hr__table_new(schema, arrays, n, origin, out, err);
    memset(arrays, 0, (size_t)schema->n * sizeof *arrays); /* taken */
done:
    for (int i = 0; i < schema->n; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    hr__array_unref(part);
    hr__origin_unref(origin);
    return st;
}

/* At the end of the stream: checks the number of rows against the announced one. */
static hr_status check_end(const custom_reader *r, hr_error *err)
{
    const hr_source_functions *f = &r->file->scan->functions;
    int64_t announced = f->n_rows ? f->n_rows(f->context, r->fragment) : -1;

    if (announced < 0 || r->row >= HR_MIN(announced, r->end))
        return HR_OK;
    return hr_error_set(err, HR_CALLBACK, "%s: fragment %d: the stream ends after %lld rows, expected %lld",
                        r->file->scan->name, r->fragment, (long long)r->row, (long long)announced);
}

static hr_status custom_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    custom_reader *r = (custom_reader *)base;
    int64_t skip = 0, n, row_bytes;

    if (r->row == r->end)
        return HR_OK;
    if (!r->columns) {
        skip = r->row;
        HR_TRY(open_stream(r, err));
    }
    HR_TRY(pull(r, &skip, err));
    if (!r->rest)
        return check_end(r, err);
    row_bytes = HR_MAX(1, hr__table_bytes_used(r->rest) / r->rest->n_rows);
    n = HR_MIN(HR_MIN(r->rest->n_rows - r->at, HR_MAX(1, max_bytes / row_bytes)), r->end - r->row);
    HR_TRY(rows_of_rest(r, n, out, err));
    r->at += n;
    r->row += n;
    if (r->at == r->rest->n_rows) {
        hr_table_unref(r->rest);
        r->rest = NULL;
    }
    return HR_OK;
}

static const hr_reader_class custom_reader_class = { custom_next, custom_reader_close };

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status custom_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                             hr_reader **out, hr_error *err)
{
    custom_reader *r = hr__zalloc(mem->account, sizeof *r);

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &custom_reader_class;
    r->file = (custom_file *)hr__scan_file_ref(base);
    r->fragment = fragment;
    r->row = HR_MAX(row_begin, 0);
    r->end = n_rows < 0 || n_rows > INT64_MAX - r->row ? INT64_MAX : r->row + n_rows;
    r->mem = *mem;
    *out = &r->base;
    return HR_OK;
}

static hr_status custom_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    const hr_source_functions *f = &((custom_file *)base)->scan->functions;
    int64_t bytes = f->n_bytes ? f->n_bytes(f->context, fragment) : UNKNOWN_BYTES;

    (void)err;
    *out = (hr_fragment){ .n_rows = f->n_rows ? f->n_rows(f->context, fragment) : -1,
                          .stored_bytes = bytes,
                          .memory_bytes = bytes < 0 ? UNKNOWN_BYTES : bytes };
    return HR_OK;
}

static void custom_close(hr_scan_file *base)
{
    if (((custom_file *)base)->scan)
        hr__scan_unref(&((custom_file *)base)->scan->base);
}

static const hr_scan_file_class custom_file_class = {
    .fragment = custom_fragment,
    .read = custom_read,
    .close = custom_close,
};

/* ------------------------------------------------------------------------------------------------------------- scan */

static hr_status custom_schema(hr_scan *base, hr_schema **out, hr_error *err)
{
    (void)err;
    *out = hr__schema_ref(((custom_scan *)base)->schema);
    return HR_OK;
}

static hr_status custom_count(hr_scan *base, int64_t *out, hr_error *err)
{
    const custom_scan *s = (const custom_scan *)base;
    int64_t sum = 0;

    for (int i = 0; i < s->functions.n_fragments; i++) {
        int64_t n = s->functions.n_rows ? s->functions.n_rows(s->functions.context, i) : -1;

        if (n < 0)
            return HR_OK; /* *out stays -1 */
        if (__builtin_add_overflow(sum, n, &sum))
            return hr_error_set(err, HR_CALLBACK, "%s: more than 2^63 rows", s->name);
    }
    *out = sum;
    return HR_OK;
}

static hr_status custom_open(hr_scan *base, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    custom_scan *s = (custom_scan *)base;
    hr_status st = HR_OK;
    custom_file *f;

    (void)file;
    HR_GO(hr__scan_file_new(&custom_file_class, sizeof *f, s->name, how->account, out, err));
    f = (custom_file *)*out;
    f->scan = (custom_scan *)hr__scan_ref(base);
    f->base.n_fragments = s->functions.n_fragments;
    f->base.n_rows = -1;
    HR_GO(hr__scan_project(s->schema, how->projection, &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static const char *custom_name(const hr_scan *base, int file)
{
    (void)file;
    return ((const custom_scan *)base)->name;
}

static void custom_describe(const hr_scan *base, hr_text *out)
{
    const custom_scan *s = (const custom_scan *)base;

    hr__text_add(out, "source %s [%d fragments]", s->name, s->functions.n_fragments);
}

static void custom_fingerprint(const hr_scan *base, hr_hash *h)
{
    const custom_scan *s = (const custom_scan *)base;
    hr_text schema = { 0 };

    hr__hash_text(h, "source");
    hr__hash_text(h, s->name);
    hr__hash_text(h, s->functions.version);
    hr__hash_int(h, s->functions.n_fragments);
    hr__schema_print(s->schema, &schema);
    hr__hash_text(h, schema.data);
    hr__text_clear(&schema);
}

static int64_t custom_floor(const hr_scan *base)
{
    (void)base;
    return UNKNOWN_BYTES;
}

static void custom_free(hr_scan *base)
{
    custom_scan *s = (custom_scan *)base;

    if (s->functions.context_free)
        s->functions.context_free(s->functions.context);
    hr__free((char *)(uintptr_t)s->functions.version);
    hr__schema_unref(s->schema);
    hr__free(s->name);
    hr__free(s);
}

static const hr_scan_class custom_scan_class = {
    .schema = custom_schema,
    .open = custom_open,
    .count = custom_count,
    .file_name = custom_name,
    .describe = custom_describe,
    .fingerprint = custom_fingerprint,
    .floor_bytes = custom_floor,
    .free = custom_free,
};

hr_status hr__scan_new_source(const hr_source_functions *functions, hr_scan **out, hr_error *err)
{
    custom_scan *s = hr__zalloc(NULL, sizeof *s);
    struct ArrowSchema schema = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (!s) {
        if (functions->context_free)
            functions->context_free(functions->context);
        return hr__error_memory(err, "source", sizeof *s);
    }
    s->base.cls = &custom_scan_class;
    atomic_init(&s->base.refs, 1);
    s->base.n_files = 1;
    s->base.calls = true;
    s->functions = *functions;
    s->functions.version = NULL;
    s->name = hr__strdup(NULL, functions->name ? functions->name : "source");
    if (functions->version)
        s->functions.version = hr__strdup(NULL, functions->version);
    if (!s->name || (functions->version && !s->functions.version))
        HR_GO(hr__error_memory(err, "source", 64));
    if (!functions->schema || !functions->read || functions->n_fragments < 0)
        HR_FAIL(HR_INVALID, "%s: a source needs the functions schema and read, and its number of fragments", s->name);
    st = functions->schema(functions->context, &schema, err);
    if (st) {
        st = hr__error_at(err, st, "%s: schema", s->name);
        goto done;
    }
    HR_GO(hr__schema_import(&schema, &s->schema, err));
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    if (s)
        custom_free(&s->base);
    return st;
}
