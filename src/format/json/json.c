/* json.c - JSON: a row is an object, its keys are the columns; lines of them, an array of them, or one after another.
 *
 * A plain file of lines is cut into fragments of hr__json_fragment_bytes; a line belongs to the fragment that holds its
 * first byte (see text.c); every other file is one fragment. json_schema.c infers types once, when a scan opens its
 * first file; the scan reads the other files with that schema. Reading is two passes over blocks that stay in the
 * cache: the places of brackets and quotes (json_index.c), then along these places into columns (json_build.c).
 *
 * No value is lost silently if a later row does not fit the schema: a value of another type and a key that is not a
 * column are errors by default, and the error names file, line and column. */
#include "format/json/json.h"

int64_t hr__json_fragment_bytes = 4 << 20;

static const hr_option json_option_table[] = {
    { .name = "layout",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_options, layout),
      .text = "auto lines array sequence",
      .doc =
          "one row per line; one array of rows; or rows after each other, over any lines; auto: by the first bytes" },
    { .name = "sample_bytes",
      .kind = HR_OPT_BYTES,
      .at = offsetof(hr_json_options, sample_bytes),
      .value = 4 << 20,
      .doc = "bytes of the first file from which types are inferred; 0: all of it" },
    { .name = "unexpected",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_options, unexpected),
      .text = "error ignore",
      .doc = "a key that is not in the schema: an error, or ignore it" },
    { .name = "on_error",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_options, on_error),
      .text = "error skip",
      .doc = "a row that is not JSON or does not fit the schema: an error, or skip it" },
    { .name = "big_integers",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_options, big_integers),
      .text = "error double string",
      .doc = "the type of a column whose integers fit neither int64 nor uint64; error: an error" },
    { .name = "allow_nan",
      .kind = HR_OPT_BOOL,
      .at = offsetof(hr_json_options, allow_nan),
      .doc = "read NaN, Infinity and -Infinity as numbers" },
    { .name = "times",
      .kind = HR_OPT_BOOL,
      .at = offsetof(hr_json_options, times),
      .value = 1,
      .doc = "read columns of dates and times (ISO 8601, whole seconds) as timestamps; false: as strings" },
    { 0 },
};

typedef struct json_file {
    hr_scan_file base;
    hr_source *source;
    hr_json_file head;
    hr_schema *all; /* every column; base.schema has the projected ones */
    hr_json_options options;
    hr_skipped *skipped;
} json_file;

typedef struct json_reader {
    hr_reader base;
    json_file *file;
    int fragment;
    hr_json_rows rows;
    hr_json_columns *columns;
    int64_t row, row_begin, rows_end; /* of the fragment; rows before row_begin are skipped */
    int64_t begin, end;               /* of the fragment in the file; end -1: not known */
    bool reserved;
} json_reader;

/* ----------------------------------------------------------------------------------------------------------- reader */

static void json_close_reader(hr_reader *base)
{
    json_reader *r = (json_reader *)base;

    hr__json_columns_free(r->columns);
    hr__json_rows_clear(&r->rows);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* Adds a row to r->columns; *more false: the end. */
static hr_status add_row(json_reader *r, bool *more, hr_error *err)
{
    bool skip = r->file->options.on_error == HR_JSON_BAD_SKIP, of_row = false;
    hr_status st;

    for (;;) {
        st = hr__json_rows_next(&r->rows, more, &of_row, err);
        if (!st && *more) {
            st = hr__json_columns_add(r->columns, &r->rows, &of_row, err);
            if (st && of_row && !skip)
                return hr__json_columns_error(r->columns, &r->rows, err);
        }
        if (!st || !of_row || !skip)
            return st;
        hr__count_bad(r->file->skipped, 1);
        hr_error_clear(err);
        hr__json_rows_skip(&r->rows);
    }
}

/* After the first rows: reserves room for the expected rows, so that columns do not grow step by step. */
static hr_status reserve(json_reader *r, int64_t max_bytes, hr_error *err)
{
    int64_t made = hr__json_columns_bytes(r->columns), consumed = r->rows.base + r->rows.row_begin - r->begin;
    double factor = (double)(r->end - r->begin) / (double)HR_MAX(consumed, 1);

    r->reserved = true;
    if (r->end < 0 || consumed <= 0)
        return HR_OK;
    factor = HR_MIN(factor, (double)max_bytes / (double)HR_MAX(made, 1)) * 1.04;
    return factor > 1 ? hr__json_columns_reserve(r->columns, factor, err) : HR_OK;
}

/* The columns to build: all columns if on_error is skip, since the skipped rows must not depend on the projection. */
static hr_schema *built(const json_file *f)
{
    return f->options.on_error == HR_JSON_BAD_SKIP ? f->all : f->base.schema;
}

/* Moves the projected columns to the front of the built ones and frees the others. */
static void pick(const json_file *f, hr_array **arrays, hr_array **picked)
{
    const hr_schema *schema = f->base.schema, *all = built(f);

    for (int i = 0; i < schema->n; i++)
        picked[i] = hr__array_ref(arrays[schema == all ? i : hr__schema_find(all, schema->fields[i].name)]);
    for (int i = 0; i < all->n; i++)
        hr__array_unref(arrays[i]);
}

static hr_status make_table(json_reader *r, hr_table **out, hr_error *err)
{
    int64_t n = hr__json_columns_rows(r->columns);
    int n_built = built(r->file)->n, n_read = r->file->base.schema->n;
    hr_array **arrays = hr__zalloc(r->rows.mem.account, ((size_t)n_built + (size_t)n_read + 1) * sizeof *arrays);
    hr_status st = HR_OK;

    if (!arrays)
        return hr__error_memory(err, r->file->base.name, (n_built + n_read) * (int64_t)sizeof *arrays);
    HR_GO(hr__json_columns_finish(r->columns, arrays, err));
    pick(r->file, arrays, arrays + n_built);
    st = hr__file_table(&r->file->base, r->fragment, r->row - n, n, arrays + n_built, out, err);
done:
    hr__free(arrays);
    return st;
}

static hr_status json_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    json_reader *r = (json_reader *)base;
    int64_t most_rows = HR_MAX(max_bytes / HR_MAX(hr__json_columns_row_bytes(r->columns), 1), 1), block = -1;
    bool more = true;

    while (r->row < r->rows_end) {
        HR_TRY(add_row(r, &more, err));
        if (!more)
            break;
        if (++r->row <= r->row_begin) {
            hr__json_columns_drop(r->columns);
            continue;
        }
        if (hr__json_columns_rows(r->columns) >= most_rows)
            break;
        if (block != r->rows.base) { /* checks the sizes once per block */
            if (block >= 0 && hr__json_columns_bytes(r->columns) >= max_bytes)
                break;
            if (block >= 0 && !r->reserved)
                HR_TRY(reserve(r, max_bytes, err));
            block = r->rows.base;
        }
    }
    return hr__json_columns_rows(r->columns) > 0 ? make_table(r, out, err) : HR_OK;
}

static const hr_reader_class json_reader_class = { json_next, json_close_reader };

/* ------------------------------------------------------------------------------------------------------------ files */

static bool is_cut(const json_file *f) { return !f->head.codec && f->head.layout == HR_JSON_LINES; }

static hr_status json_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                           hr_reader **out, hr_error *err)
{
    json_file *f = (json_file *)base;
    json_reader *r = hr__zalloc(mem->account, sizeof *r);
    int64_t begin = is_cut(f) ? (int64_t)fragment * hr__json_fragment_bytes : 0;
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &json_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->row_begin = HR_MAX(row_begin, 0);
    r->rows_end = hr__rows_end(r->row_begin, n_rows);
    r->begin = begin;
    r->end = is_cut(f) ? HR_MIN(begin + hr__json_fragment_bytes, f->source->n_bytes) : -1;
    if (r->rows_end == r->row_begin)
        r->rows_end = 0;
    HR_GO(hr__json_rows_open(&f->head, mem->account, begin, r->end >= 0 ? r->end : INT64_MAX / 2, &r->rows, err));
    st = hr__json_columns_new(mem, f->all, built(f), &f->options, &r->columns, err);
    if (st)
        HR_GO(hr__error_at(err, st, "%s", f->base.name));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        json_close_reader(&r->base);
    return st;
}

static hr_status json_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    json_file *f = (json_file *)base;
    int64_t n = f->source->n_bytes;

    (void)err;
    *out = (hr_fragment){ .n_rows = -1 };
    out->stored_bytes =
        is_cut(f) ? HR_MIN(n - (int64_t)fragment * hr__json_fragment_bytes, hr__json_fragment_bytes) : n;
    out->memory_bytes = out->stored_bytes * (f->head.codec ? 5 : 1);
    return HR_OK;
}

static void json_ahead(hr_scan_file *base, int fragment)
{
    json_file *f = (json_file *)base;

    hr__source_ahead(f->source, (int64_t)fragment * hr__json_fragment_bytes, hr__json_fragment_bytes);
}

static void json_close(hr_scan_file *base)
{
    json_file *f = (json_file *)base;

    hr__schema_unref(f->all);
    hr__source_unref(f->source);
}

/* The projected columns of `all`. */
static hr_status project(const char *path, hr_schema *all, const hr_projection *projection, hr_schema **out,
                         hr_error *err)
{
    hr_field *fields;
    hr_status st = HR_OK;

    *out = NULL;
    if (!projection || projection->n < 0) {
        *out = hr__schema_ref(all);
        return HR_OK;
    }
    fields = hr__alloc(NULL, ((size_t)projection->n + 1) * sizeof *fields);
    if (!fields)
        return hr__error_memory(err, path, projection->n * (int64_t)sizeof *fields);
    for (int i = 0; i < projection->n; i++) {
        int at = hr__schema_find(all, projection->names[i]);

        if (at < 0)
            HR_GO(hr__error_at(err, hr__schema_missing(all, projection->names[i], err), "%s", path));
        fields[i] = all->fields[at]; /* borrowed */
    }
    HR_GO(hr__schema_new(fields, projection->n, out, err));
done:
    hr__free(fields);
    return st;
}

static hr_status json_project(hr_scan_file *base, const hr_open *how, hr_scan_file **out, hr_error *err);

static const hr_scan_file_class json_file_class = {
    .fragment = json_fragment,
    .read = json_read,
    .ahead = json_ahead,
    .project = json_project,
    .close = json_close,
};

static hr_status new_file(hr_source *source, const hr_json_options *options, const hr_open *how, json_file **out,
                          hr_error *err)
{
    hr_scan_file *base;

    HR_TRY(hr__scan_file_new(&json_file_class, sizeof **out, source->name, how->account, &base, err));
    *out = (json_file *)base;
    (*out)->source = hr__source_ref(source);
    (*out)->options = *options;
    (*out)->skipped = how->skipped;
    (*out)->head.source = source;
    base->n_rows = source->n_bytes == 0 ? 0 : -1;
    return HR_OK;
}

static hr_status json_project(hr_scan_file *base, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    json_file *from = (json_file *)base, *f = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(new_file(from->source, &from->options, how, &f, err));
    f->head = from->head;
    f->all = hr__schema_ref(from->all);
    f->base.n_fragments = base->n_fragments;
    f->base.file = base->file;
    HR_GO(project(base->name, f->all, how->projection, &f->base.schema, err));
    *out = &f->base;
    f = NULL; /* moved to the caller */
done:
    hr__scan_file_unref(f ? &f->base : NULL);
    return st;
}

static hr_status json_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const hr_json_options *options = how->options;
    hr_status st = HR_OK;
    json_file *f = NULL;
    uint8_t head[16];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(new_file(source, options, how, &f, err));
    f->head.codec = hr__codec_guess(source->name, (hr_view){ head, n });
    f->head.layout = options->layout;
    f->options.guessed = !how->declared;
    if (f->head.layout == HR_JSON_AUTO)
        HR_GO(hr__json_layout(&f->head, how->account, err));
    f->base.n_fragments = source->n_bytes == 0 ? 0 : 1;
    if (is_cut(f))
        f->base.n_fragments = (int)(HR_ROUND_UP(source->n_bytes, hr__json_fragment_bytes) / hr__json_fragment_bytes);
    if (how->schema)
        f->all = hr__schema_ref(how->schema);
    else
        HR_GO(hr__json_infer(&f->head, options, how->account, &f->all, err));
    HR_GO(project(source->name, f->all, how->projection, &f->base.schema, err));
    *out = &f->base;
    f = NULL; /* moved to the caller */
done:
    hr__scan_file_unref(f ? &f->base : NULL);
    return st;
}

/* "{", or "[" and "{": then a name or the end. */
static int json_bid(hr_view head)
{
    const uint8_t *p = head.data, *end = p + head.n;
    int n = 0;

    for (; p < end && n < 3; p++) {
        if (strchr(" \t\r\n", *p) && *p)
            continue;
        if (*p == '[' && n == 0)
            n = 1;
        else if (*p == '{' && n < 2)
            n = 2;
        else if ((*p == '"' || *p == '}') && n == 2)
            n = 3;
        else
            return 0;
    }
    return n == 3 ? 16 : 0;
}

/* With the block in which the last row of the sample ends. */
static int64_t json_type_bytes(const void *options)
{
    int64_t n = ((const hr_json_options *)options)->sample_bytes;

    return n && n < INT64_MAX / 2 ? n + hr__json_block_bytes : INT64_MAX / 2;
}

const hr_format hr__format_json = {
    .name = "json",
    .suffixes = "json jsonl ndjson geojsonl",
    .doc = "one object per row: lines, an array, or objects after each other",
    .options = json_option_table,
    .options_bytes = sizeof(hr_json_options),
    .bid = json_bid,
    .type_bytes = json_type_bytes,
    .open = json_open,
    .write_options = hr__json_write_options,
    .write_options_bytes = sizeof(hr_json_write_options),
    .create = hr__json_create,
};
