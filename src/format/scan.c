/* scan.c - scans: what all have in common, and the scan of files.
 *
 * A scan of files lists its paths when it is made and opens the first file when its schema is asked for. The open file is
 * kept, published by one atomic exchange instead of a lock, so that a scan survives a fork at any moment: two threads may
 * both open it, and one of the two is dropped.
 *
 * The first file's schema is the scan's. Another file is opened with the projected columns by name; one that is missing or
 * of another type is an error that names both files. Columns that only later files have are never looked at. */
#include "format/scan.h"

typedef struct file_scan {
    hr_scan base;
    hr_paths paths;
    const hr_format *format;
    void *options;                 /* of the format; NULL: it has none */
    hr_text settings;              /* as given, for the fingerprint */
    char *path_column;             /* NULL: none */
    _Atomic(hr_scan_file *) first; /* all columns, without the path column */
    _Atomic(hr_schema *) schema;   /* with it */
} file_scan;

/* ------------------------------------------------------------------------------------------------------------- common */

hr_scan *hr__scan_ref(hr_scan *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__scan_unref(hr_scan *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        s->cls->free(s);
}

int hr__scan_n_files(const hr_scan *s) { return s->n_files; }
const char *hr__scan_file_name(const hr_scan *s, int file) { return s->cls->file_name(s, file); }
hr_status hr__scan_schema(hr_scan *s, hr_schema **out, hr_error *err)
{
    *out = NULL;
    return s->cls->schema(s, out, err);
}

hr_status hr__scan_open(hr_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_open mine = *how;

    *out = NULL;
    if (file < 0 || file >= s->n_files)
        return hr_error_set(err, HR_BUG, "file %d of a scan of %d", file, s->n_files);
    if (mine.projection && mine.projection->n < 0)
        mine.projection = NULL;
    HR_TRY(s->cls->open(s, file, &mine, out, err));
    if ((*out)->file != file) /* the first file is shared, and right already */
        (*out)->file = file;
    return HR_OK;
}

hr_status hr__scan_count(hr_scan *s, int64_t *out, hr_error *err)
{
    *out = -1;
    return s->cls->count(s, out, err);
}

void hr__scan_describe(const hr_scan *s, hr_text *out) { s->cls->describe(s, out); }
void hr__scan_fingerprint(const hr_scan *s, hr_hash *h) { s->cls->fingerprint(s, h); }
int64_t hr__scan_floor_bytes(const hr_scan *s) { return s->cls->floor_bytes(s); }

hr_status hr__scan_column(const hr_schema *s, const char *name, int *out, hr_error *err)
{
    *out = hr__schema_find(s, name);
    return *out < 0 ? hr__schema_missing(s, name, err) : HR_OK;
}

hr_status hr__scan_project(hr_schema *all, const hr_projection *projection, hr_schema **out, hr_error *err)
{
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!projection) {
        *out = hr__schema_ref(all);
        return HR_OK;
    }
    fields = hr__alloc(NULL, (size_t)projection->n * sizeof *fields);
    if (!fields)
        return hr__error_memory(err, "projection", projection->n * (int64_t)sizeof *fields);
    for (int i = 0; i < projection->n; i++) {
        int at;

        HR_GO(hr__scan_column(all, projection->names[i], &at, err));
        fields[i] = all->fields[at]; /* borrowed */
    }
    HR_GO(hr__schema_new(fields, projection->n, out, err));
done:
    hr__free(fields);
    return st;
}

/* -------------------------------------------------------------------------------------------------------- path column */

/* A file whose readers add a column with its path. */
typedef struct path_file {
    hr_scan_file base;
    hr_scan_file *inner;
    int at; /* where the path column stands */
} path_file;

typedef struct path_reader {
    hr_reader base;
    path_file *file;
    hr_reader *inner;
    hr_mem mem;
} path_reader;

static hr_status path_array(const path_reader *r, int64_t n, hr_array **out, hr_error *err)
{
    const char *path = r->file->base.name;
    int64_t length = (int64_t)strlen(path);
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_status st = HR_OK;
    int32_t *offsets;

    if (n > 0 && length > INT32_MAX / n)
        HR_FAIL(HR_UNSUPPORTED, "%s: %lld paths in one table are more than 2 GiB", path, (long long)n);
    HR_GO(hr__buffer_new(&r->mem, (n + 1) * 4, &buffers[1], err));
    HR_GO(hr__buffer_new(&r->mem, n * length, &buffers[2], err));
    offsets = (int32_t *)(void *)buffers[1]->data;
    for (int64_t i = 0; i <= n; i++)
        offsets[i] = (int32_t)(i * length);
    for (int64_t i = 0; i < n; i++)
        memcpy(buffers[2]->data + i * length, path, (size_t)length);
    return hr__array_new(hr__type_simple(HR_T_STRING), n, 0, buffers, NULL, 0, out, err);
done:
    hr__buffer_unref(buffers[1]);
    hr__buffer_unref(buffers[2]);
    return st;
}

static hr_status path_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    path_reader *r = (path_reader *)base;
    int n = r->file->base.schema->n, at = r->file->at;
    hr_array **arrays = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__reader_next(r->inner, max_bytes, &t, err));
    if (!t)
        goto done;
    arrays = hr__zalloc(r->mem.account, (size_t)n * sizeof *arrays);
    if (!arrays)
        HR_GO(hr__error_memory(err, r->file->base.name, n * (int64_t)sizeof *arrays));
    HR_GO(path_array(r, t->n_rows, &arrays[at], err));
    for (int i = 0; i < n; i++) {
        if (i != at)
            arrays[i] = hr__array_ref(t->columns[i - (i > at)]);
    }
    st = hr__table_new(r->file->base.schema, arrays, t->n_rows, t->origin, out, err);
    memset(arrays, 0, (size_t)n * sizeof *arrays); /* taken */
done:
    for (int i = 0; arrays && i < n; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    hr_table_unref(t);
    return st;
}

static void path_reader_close(hr_reader *base)
{
    path_reader *r = (path_reader *)base;

    hr__reader_close(r->inner);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static const hr_reader_class path_reader_class = { path_next, path_reader_close };

static hr_status path_read(hr_scan_file *base, int fragment, int64_t row, int64_t n, const hr_mem *mem, hr_reader **out,
                           hr_error *err)
{
    path_file *f = (path_file *)base;
    path_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &path_reader_class;
    r->mem = *mem;
    HR_GO(f->inner->cls->read(f->inner, fragment, row, n, mem, &r->inner, err));
    r->file = f;
    hr__scan_file_ref(base);
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    hr__free(r);
    return st;
}

static hr_status path_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    path_file *f = (path_file *)base;

    HR_TRY(f->inner->cls->fragment(f->inner, fragment, out, err));
    if (out->n_rows > 0)
        out->memory_bytes += out->n_rows * ((int64_t)strlen(base->name) + 4);
    return HR_OK;
}

static void path_ahead(hr_scan_file *base, int fragment)
{
    path_file *f = (path_file *)base;

    if (f->inner->cls->ahead)
        f->inner->cls->ahead(f->inner, fragment);
}

static void path_close(hr_scan_file *base) { hr__scan_file_unref(((path_file *)base)->inner); }

static const hr_scan_file_class path_file_class = {
    .fragment = path_fragment,
    .read = path_read,
    .ahead = path_ahead,
    .close = path_close,
};

/* The columns of `schema` with a column `name` put in at `at`. */
static hr_status with_path(const hr_schema *schema, const char *name, int at, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__alloc(NULL, ((size_t)schema->n + 1) * sizeof *fields), path = { 0 };
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, name, (schema->n + 1) * (int64_t)sizeof *fields);
    HR_GO(hr__field_init(&path, name, hr__type_simple(HR_T_STRING), false, err));
    memcpy(fields, schema->fields, (size_t)at * sizeof *fields); /* borrowed */
    fields[at] = path;
    memcpy(fields + at + 1, schema->fields + at, (size_t)(schema->n - at) * sizeof *fields);
    HR_GO(hr__schema_new(fields, schema->n + 1, out, err));
done:
    hr__field_clear(&path);
    hr__free(fields);
    return st;
}

/* Takes `inner`, even on failure. */
static hr_status add_path(hr_scan_file *inner, const char *column, int at, hr_account *account, hr_scan_file **out,
                          hr_error *err)
{
    hr_status st = HR_OK;
    path_file *f;

    *out = NULL;
    st = hr__scan_file_new(&path_file_class, sizeof *f, inner->name, account, out, err);
    if (st) {
        hr__scan_file_unref(inner);
        return st;
    }
    f = (path_file *)*out;
    f->inner = inner;
    f->at = at;
    f->base.n_fragments = inner->n_fragments;
    f->base.n_rows = inner->n_rows;
    st = with_path(inner->schema, column, at, &f->base.schema, err);
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

/* -------------------------------------------------------------------------------------------------------------- files */

static const char *path_of(const file_scan *s, int file) { return s->paths.items[file].path; }

/* Of `how` its options are the scan's. */
static hr_status open_file(file_scan *s, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_open mine = *how;
    hr_source *source = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    mine.options = s->options;
    HR_GO(hr__source_open(path_of(s, file), how->account, &source, err));
    HR_GO(s->format->open(source, &mine, out, err));
    (*out)->file = file;
done:
    hr__source_unref(source);
    return st;
}

/* The first file, opened once. Borrowed from the scan. */
static hr_status first_file(file_scan *s, hr_scan_file **out, hr_error *err)
{
    hr_scan_file *none = NULL;

    *out = atomic_load_explicit(&s->first, memory_order_acquire);
    if (*out)
        return HR_OK;
    HR_TRY(open_file(s, 0, &(hr_open){ 0 }, out, err));
    if (!atomic_compare_exchange_strong(&s->first, &none, *out)) { /* another thread was faster */
        hr__scan_file_unref(*out);
        *out = none;
    }
    return HR_OK;
}

static hr_status files_schema(hr_scan *base, hr_schema **out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    hr_schema *schema = atomic_load_explicit(&s->schema, memory_order_acquire), *none = NULL;
    hr_scan_file *first;

    if (!schema) {
        HR_TRY(first_file(s, &first, err));
        if (!s->path_column) {
            schema = hr__schema_ref(first->schema);
        } else if (hr__schema_find(first->schema, s->path_column) >= 0) {
            return hr_error_set(err, HR_INVALID, "%s: has a column '%s' of its own: include_paths needs another name",
                                first->name, s->path_column);
        } else {
            HR_TRY(with_path(first->schema, s->path_column, first->schema->n, &schema, err));
        }
        if (!atomic_compare_exchange_strong(&s->schema, &none, schema)) {
            hr__schema_unref(schema);
            schema = none;
        }
    }
    *out = hr__schema_ref(schema);
    return HR_OK;
}

/* The names of a projection without the path column, which is none of the file's. */
typedef struct inner {
    hr_projection projection;
    const char **names;
    int path_at; /* -1: not wanted */
} inner;

static hr_status inner_names(const file_scan *s, const hr_schema *schema, const hr_projection *projection, inner *out,
                             hr_error *err)
{
    int n = projection ? projection->n : schema->n;

    *out = (inner){ .path_at = -1 };
    out->names = hr__alloc(NULL, (size_t)n * sizeof *out->names);
    if (!out->names)
        return hr__error_memory(err, "projection", n * (int64_t)sizeof *out->names);
    for (int i = 0; i < n; i++) {
        const char *name = projection ? projection->names[i] : schema->fields[i].name;
        int at;

        HR_TRY(hr__scan_column(schema, name, &at, err));
        if (s->path_column && out->path_at < 0 && strcmp(name, s->path_column) == 0)
            out->path_at = i;
        else
            out->names[out->projection.n++] = name;
    }
    out->projection.names = out->names;
    return HR_OK;
}

static hr_status type_differs(const file_scan *s, int file, const hr_field *found, const hr_type *expected,
                              hr_error *err)
{
    hr_text a = { 0 }, b = { 0 };
    hr_status st;

    hr__type_print(found->type, &a);
    hr__type_print(expected, &b);
    st = hr_error_set(err, HR_TYPE, "%s: column '%s' is %s, in %s it is %s", path_of(s, file), found->name,
                      a.data ? a.data : "?", path_of(s, 0), b.data ? b.data : "?");
    hr__text_clear(&a);
    hr__text_clear(&b);
    return st;
}

static hr_status check_types(const file_scan *s, const hr_scan_file *f, int file, const hr_schema *schema,
                             hr_error *err)
{
    for (int i = 0; i < f->schema->n; i++) {
        const hr_field *found = &f->schema->fields[i];
        int at = hr__schema_find(schema, found->name);

        if (at >= 0 && !hr__type_equal(found->type, schema->fields[at].type))
            return type_differs(s, file, found, schema->fields[at].type, err);
    }
    return HR_OK;
}

/* The file has not all columns: which one? */
static hr_status column_missing(file_scan *s, int file, const hr_projection *projection, const hr_schema *schema,
                                hr_error *err)
{
    hr_scan_file *all = NULL;
    hr_text type = { 0 };
    hr_status st = HR_OK;

    HR_GO(open_file(s, file, &(hr_open){ 0 }, &all, err));
    for (int i = 0; i < projection->n; i++) {
        const char *name = projection->names[i];

        if (hr__schema_find(all->schema, name) >= 0)
            continue;
        hr__type_print(schema->fields[hr__schema_find(schema, name)].type, &type);
        HR_FAIL(HR_TYPE, "%s: no column '%s', in %s it is %s", path_of(s, file), name, path_of(s, 0),
                type.data ? type.data : "?");
    }
    HR_FAIL(HR_BUG, "%s: no column is missing", path_of(s, file));
done:
    hr__text_clear(&type);
    hr__scan_file_unref(all);
    return st;
}

/* A file that is not the first: with the scan's columns, checked. */
static hr_status open_other(file_scan *s, int file, const hr_open *how, hr_schema *schema, hr_scan_file **out,
                            hr_error *err)
{
    hr_open mine = *how;
    hr_source *source = NULL;
    hr_status st = HR_OK;

    mine.options = s->options;
    mine.schema = schema;
    HR_GO(hr__source_open(path_of(s, file), how->account, &source, err));
    st = s->format->open(source, &mine, out, err);
    if (st == HR_NOT_FOUND) /* of the file itself it cannot be: it is open */
        st = column_missing(s, file, how->projection, schema, err);
    if (st)
        goto done;
    HR_GO(check_types(s, *out, file, schema, err));
done:
    hr__source_unref(source);
    return st;
}

static hr_status open_inner(file_scan *s, int file, const hr_open *how, bool all, hr_schema *schema, hr_scan_file **out,
                            hr_error *err)
{
    hr_open mine = *how;
    hr_scan_file *first;

    if (file > 0)
        return open_other(s, file, how, schema, out, err);
    HR_TRY(first_file(s, &first, err));
    if (all && !first->cls->project) {
        *out = hr__scan_file_ref(first);
        return HR_OK;
    }
    if (all)
        mine.projection = NULL;
    mine.options = s->options;
    mine.schema = first->schema;
    if (first->cls->project)
        return first->cls->project(first, &mine, out, err);
    return open_file(s, 0, &mine, out, err);
}

static hr_status files_open(hr_scan *base, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    file_scan *s = (file_scan *)base;
    hr_open mine = *how;
    hr_schema *schema = NULL;
    hr_scan_file *f = NULL;
    inner in = { 0 };
    hr_status st = HR_OK;

    HR_GO(files_schema(base, &schema, err));
    HR_GO(inner_names(s, schema, how->projection, &in, err));
    mine.projection = &in.projection;
    HR_GO(open_inner(s, file, &mine, !how->projection, schema, &f, err));
    if (f->file != file)
        f->file = file; /* its origins carry the number, also under a path column */
    if (in.path_at >= 0) {
        st = add_path(f, s->path_column, in.path_at, how->account, out, err);
        f = NULL; /* taken */
    } else {
        *out = f;
        f = NULL; /* moved to the caller */
    }
done:
    hr__scan_file_unref(f);
    hr__free(in.names);
    hr__schema_unref(schema);
    return st;
}

static hr_status files_count(hr_scan *base, int64_t *out, hr_error *err)
{
    static const hr_projection nothing = { 0, NULL };
    file_scan *s = (file_scan *)base;
    int64_t n = 0;

    for (int i = 0; i < base->n_files; i++) {
        hr_scan_file *f = NULL;
        hr_scan_file *first = i == 0 ? atomic_load_explicit(&s->first, memory_order_acquire) : NULL;
        int64_t rows;

        if (!first)
            HR_TRY(open_file(s, i, &(hr_open){ .projection = &nothing }, &f, err));
        rows = first ? first->n_rows : f->n_rows;
        hr__scan_file_unref(f);
        if (rows < 0)
            return HR_OK; /* *out stays -1 */
        if (__builtin_add_overflow(n, rows, &n))
            return hr_error_set(err, HR_BAD_DATA, "%s: more than 2^63 rows", path_of(s, i));
    }
    *out = n;
    return HR_OK;
}

static const char *files_name(const hr_scan *base, int file)
{
    return file >= 0 && file < base->n_files ? path_of((const file_scan *)base, file) : NULL;
}

static void add_size(hr_text *out, int64_t n)
{
    if (n < 1000)
        hr__text_add(out, "%lld bytes", (long long)n);
    else if (n < 1000000)
        hr__text_add(out, "%.1f kB", (double)n / 1e3);
    else if (n < 1000000000)
        hr__text_add(out, "%.1f MB", (double)n / 1e6);
    else
        hr__text_add(out, "%.1f GB", (double)n / 1e9);
}

static void files_describe(const hr_scan *base, hr_text *out)
{
    const file_scan *s = (const file_scan *)base;
    int64_t n_bytes = 0;

    for (int i = 0; i < base->n_files; i++)
        n_bytes += s->paths.items[i].n_bytes;
    hr__text_add(out, "read_%s [%d file%s, ", s->format->name, base->n_files, base->n_files == 1 ? "" : "s");
    add_size(out, n_bytes);
    hr__text_add(out, "] %s%s", path_of(s, 0), base->n_files > 1 ? " ..." : "");
}

static void files_fingerprint(const hr_scan *base, hr_hash *h)
{
    const file_scan *s = (const file_scan *)base;

    hr__hash_text(h, "files");
    hr__hash_text(h, s->format->name);
    hr__hash_text(h, s->settings.data);
    hr__hash_text(h, s->path_column);
    hr__hash_int(h, base->n_files);
    for (int i = 0; i < base->n_files; i++) {
        hr__hash_text(h, path_of(s, i));
        hr__hash_int(h, s->paths.items[i].n_bytes);
    }
}

/* A morsel's output and what it is decoded from; small files need no more than some copies of themselves. */
static int64_t files_floor(const hr_scan *base)
{
    const file_scan *s = (const file_scan *)base;
    int64_t most = 0;

    for (int i = 0; i < base->n_files; i++)
        most = HR_MAX(most, s->paths.items[i].n_bytes);
    return HR_MIN(most, 1 << 20) * 4 + (64 << 10);
}

static void files_free(hr_scan *base)
{
    file_scan *s = (file_scan *)base;

    hr__scan_file_unref(atomic_load(&s->first));
    hr__schema_unref(atomic_load(&s->schema));
    if (s->options && s->format->options)
        hr__options_clear(s->format->options, s->options);
    hr__free(s->options);
    hr__text_clear(&s->settings);
    hr__free(s->path_column);
    hr__paths_clear(&s->paths);
    hr__free(s);
}

static const hr_scan_class file_scan_class = { files_schema,   files_open,        files_count, files_name,
                                               files_describe, files_fingerprint, files_floor, files_free };

/* ------------------------------------------------------------------------------------------------------------- making */

static hr_status unknown_format(const char *path, const char *name, hr_error *err)
{
    char known[200] = "";

    for (const hr_format *const *f = hr__formats; *f; f++) {
        strncat(known, f == hr__formats ? "" : ", ", sizeof known - strlen(known) - 1);
        strncat(known, (*f)->name, sizeof known - strlen(known) - 1);
    }
    if (name)
        return hr_error_set(err, HR_INVALID, "format '%s' is unknown, there are %s", name, known);
    return hr_error_set(err, HR_INVALID, "%s: neither its name nor its first bytes tell its format; there are %s", path,
                        known);
}

static hr_status find_format(file_scan *s, const char *name, hr_error *err)
{
    hr_source *source = NULL;
    hr_status st = HR_OK;
    uint8_t head[64];
    int64_t n = 0;

    s->format = name ? hr__format_by_name(name) : hr__format_guess(path_of(s, 0), (hr_view){ 0 });
    if (s->format)
        return HR_OK;
    if (name)
        return unknown_format(NULL, name, err);
    HR_GO(hr__source_open(path_of(s, 0), NULL, &source, err));
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    s->format = hr__format_guess(path_of(s, 0), (hr_view){ head, n });
    if (!s->format)
        HR_GO(unknown_format(path_of(s, 0), NULL, err));
done:
    hr__source_unref(source);
    return st;
}

static hr_status set_options(file_scan *s, const hr_read_options *options, hr_error *err)
{
    static const hr_option nothing[] = { { 0 } };
    const hr_option *table = s->format->options ? s->format->options : nothing;

    s->options = hr__zalloc(NULL, HR_MAX(s->format->options_bytes, 1));
    if (!s->options)
        return hr__error_memory(err, s->format->name, (int64_t)s->format->options_bytes);
    if (s->format->options)
        hr__options_default(table, s->options);
    if (!options)
        return HR_OK;
    for (int i = 0; i < options->n_format_options; i++)
        hr__text_add(&s->settings, "%s\n", options->format_options[i]);
    if (s->settings.failed)
        return hr__error_memory(err, s->format->name, s->settings.n);
    return hr__options_parse(table, options->format_options, options->n_format_options, s->options, err);
}

hr_status hr__scan_new_files(const char *const *urls, int n_urls, const char *format, const hr_read_options *options,
                             hr_scan **out, hr_error *err)
{
    hr_paths_options listing = { 0 };
    file_scan *s = hr__zalloc(NULL, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "scan", sizeof *s);
    s->base.cls = &file_scan_class;
    atomic_init(&s->base.refs, 1);
    if (options)
        listing = (hr_paths_options){ options->ignore_missing_paths, options->suffixes, options->n_suffixes };
    HR_GO(hr__paths_list(urls, n_urls, &listing, NULL, &s->paths, err));
    if (s->paths.n == 0)
        HR_FAIL(HR_NOT_FOUND, "%s%s: no files there", n_urls > 0 ? urls[0] : "no path given",
                n_urls > 1 ? ", ..." : "");
    if (s->paths.n > INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%lld files in one scan", (long long)s->paths.n);
    s->base.n_files = (int)s->paths.n;
    HR_GO(find_format(s, format, err));
    HR_GO(set_options(s, options, err));
    if (options && options->include_paths) {
        s->path_column = hr__strdup(NULL, options->include_paths);
        if (!s->path_column)
            HR_GO(hr__error_memory(err, "scan", (int64_t)strlen(options->include_paths)));
    }
    *out = &s->base;
    s = NULL; /* moved to the caller */
done:
    if (s)
        files_free(&s->base);
    return st;
}
