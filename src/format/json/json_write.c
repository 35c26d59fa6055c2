/* json_write.c - tables as lines of JSON: files, and hr_table_print_json for programs.
 *
 * A tree of nodes mirrors the schema, each with its key as text, so that a walk over arrays appends the bytes of a row.
 * Numbers are exact: integers and decimals with all their digits, floats as the shortest text that reads back as the
 * same value. Values that JSON cannot express: times are ISO 8601 strings, binary is base64, durations are integers of
 * their unit, maps are objects if their keys are strings, else arrays of {"key", "value"}; NaN and infinities by
 * option.
 *
 * A compressed file is its write chunks one after another, each compressed by itself: gzip, Zstandard and LZ4 read them
 * as one stream. Printed rows have the same text; they differ where a file would be refused: bytes that are no UTF-8
 * become \ufffd, and pickled objects are base64.
 *
 * Tests: test_json.c, test_cli.py. */
#include "base/number.h"
#include "format/json/json.h"

#include <inttypes.h>
#include <math.h>

enum { NAN_NULL, NAN_ERROR, NAN_LITERAL };

const hr_option hr__json_write_options[] = {
    { .name = "compression",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_write_options, compression),
      .text = "none gzip zstd lz4",
      .doc = "compression of whole files, whose names end in .json.gz, .json.zst or .json.lz4" },
    { .name = "compression_level",
      .kind = HR_OPT_INT,
      .at = offsetof(hr_json_write_options, level),
      .doc = "level of the compression; 0: the codec's default" },
    { .name = "nan",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(hr_json_write_options, nan),
      .text = "null error literal",
      .doc = "NaN and infinities: write null; an error; or write NaN, Infinity, -Infinity, which are not JSON" },
    { 0 },
};

static const struct {
    const hr_codec *codec;
    const char *suffix;
} compressions[] = { { NULL, ".json" },
                     { &hr__codec_gzip, ".json.gz" },
                     { &hr__codec_zstd, ".json.zst" },
                     { &hr__codec_lz4_frame, ".json.lz4" } };

typedef struct node {
    const hr_type *type; /* borrowed from the schema */
    char *key;           /* "name": with its colon; NULL: an item */
    int64_t key_bytes;
    int n_children;
    struct node *children;
} node;

typedef struct json_writer {
    hr_writer base;
    hr_json_write_options options;
    const hr_codec *codec;
    bool prints; /* for hr_table_print_json */
    hr_schema *schema;
    hr_account *account;
    node root;
} json_writer;

/* The text of one write chunk. */
typedef struct text {
    const json_writer *w;
    const char *column; /* for errors */
    hr_growbuf g;
} text;

/* ------------------------------------------------------------------------------------------------------------ bytes */

/* Room for n bytes; -> their place. NULL: no memory. */
static inline char *room(text *t, int64_t n, hr_error *err)
{
    if ((!t->g.buffer || t->g.buffer->capacity - t->g.buffer->n_bytes < n) && hr__growbuf_reserve(&t->g, n, err))
        return NULL;
    return (char *)t->g.buffer->data + t->g.buffer->n_bytes;
}

static hr_status add(text *t, const void *bytes, int64_t n, hr_error *err)
{
    char *to = room(t, n, err);

    if (!to)
        return HR_NO_MEMORY;
    memcpy(to, bytes, (size_t)n);
    t->g.buffer->n_bytes += n;
    return HR_OK;
}

static hr_status add_char(text *t, char c, hr_error *err) { return add(t, &c, 1, err); }

static hr_status add_escape(text *t, uint8_t c, hr_error *err)
{
    static const char short_ones[32] = { ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't' };
    static const char hex[] = "0123456789abcdef";
    char escape[6] = { '\\', (char)c };

    if (c >= 0x20)
        return add(t, escape, 2, err);
    escape[1] = short_ones[c];
    if (escape[1])
        return add(t, escape, 2, err);
    memcpy(escape, "\\u00", 4);
    escape[4] = hex[c >> 4];
    escape[5] = hex[c & 15];
    return add(t, escape, 6, err);
}

/* Bytes of the valid UTF-8 character at p[0 .. n), 0 if there is none. */
static int character_bytes(const uint8_t *p, int64_t n)
{
    int bytes = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

    return bytes <= n && hr__utf8_valid(p, bytes) ? bytes : 0;
}

static hr_status add_string(text *t, const uint8_t *p, int64_t n, hr_error *err);

/* The text with \ufffd, which is 3 bytes, in place of each byte that is no UTF-8. */
static hr_status add_mended(text *t, const uint8_t *p, int64_t n, hr_error *err)
{
    hr_text mended = { 0 };
    hr_status st;

    for (int64_t i = 0, bytes; i < n; i += HR_MAX(bytes, 1)) {
        bytes = character_bytes(p + i, n - i);
        if (bytes)
            hr__text_add_bytes(&mended, p + i, bytes);
        else
            hr__text_add_bytes(&mended, "\xef\xbf\xbd", 3);
    }
    st = mended.failed ? hr__error_memory(err, "json", n) : add_string(t, (const uint8_t *)mended.data, mended.n, err);
    hr__text_clear(&mended);
    return st;
}

static hr_status add_string(text *t, const uint8_t *p, int64_t n, hr_error *err)
{
    int64_t begin = 0;

    if (t->w->prints && !hr__utf8_valid(p, n))
        return add_mended(t, p, n, err);
    HR_TRY(add_char(t, '"', err));
    for (int64_t i = 0; i < n; i++) {
        if (p[i] >= 0x20 && p[i] != '"' && p[i] != '\\')
            continue;
        HR_TRY(add(t, p + begin, i - begin, err));
        HR_TRY(add_escape(t, p[i], err));
        begin = i + 1;
    }
    HR_TRY(add(t, p + begin, n - begin, err));
    return add_char(t, '"', err);
}

static hr_status add_base64(text *t, const uint8_t *p, int64_t n, hr_error *err)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *to = room(t, (n + 2) / 3 * 4 + 2, err);
    char *begin = to;

    if (!to)
        return HR_NO_MEMORY;
    *to++ = '"';
    for (int64_t i = 0; i < n; i += 3) {
        int64_t left = n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) | (left > 2 ? p[i + 2] : 0);

        *to++ = digits[v >> 18];
        *to++ = digits[v >> 12 & 63];
        *to++ = left > 1 ? digits[v >> 6 & 63] : '=';
        *to++ = left > 2 ? digits[v & 63] : '=';
    }
    *to++ = '"';
    t->g.buffer->n_bytes += to - begin;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- values */

static double float_value(const hr_array *a, int64_t row)
{
    const uint8_t *at = hr__array_values(a) + row * hr__type_bytes(a->type);
    float single;
    double v;

    if (a->type->id == HR_T_FLOAT16)
        return hr__half_value((uint16_t)hr__array_int(a, row));
    if (a->type->id == HR_T_FLOAT32) {
        memcpy(&single, at, 4);
        return (double)single;
    }
    memcpy(&v, at, 8);
    return v;
}

static hr_status add_float(text *t, const hr_array *a, int64_t row, hr_error *err)
{
    char number[HR_NUMBER_CHARS];
    double v = float_value(a, row);
    const char *word = isnan(v) ? "NaN" : v < 0 ? "-Infinity" : "Infinity";

    if (isfinite(v))
        return add(t, number, hr__array_print_float(a, row, number), err);
    if (t->w->options.nan == NAN_ERROR)
        return hr_error_set(err, HR_INVALID, "column '%s': %s is not JSON; nan=\"null\" or nan=\"literal\" writes it",
                            t->column, word);
    if (t->w->options.nan == NAN_NULL)
        word = "null";
    return add(t, word, (int64_t)strlen(word), err);
}

/* Dates and times, in quotes. */
static hr_status add_moment(text *t, const hr_array *a, int64_t row, hr_error *err)
{
    const hr_type *type = a->type;
    char quoted[HR_NUMBER_CHARS + 2] = "\"";
    int64_t v = hr__array_int(a, row), days = v;
    int n;

    if (type->id == HR_T_TIMESTAMP) {
        n = hr__print_timestamp(v, type->unit, type->zone != NULL, quoted + 1);
    } else if (type->id == HR_T_TIME32 || type->id == HR_T_TIME64) {
        n = hr__print_time(v, type->unit, quoted + 1);
    } else {
        if (type->id == HR_T_DATE64)
            days = v / 86400000 - (v % 86400000 < 0);
        n = hr__print_date((int32_t)days, quoted + 1);
    }
    quoted[n + 1] = '"';
    return add(t, quoted, n + 2, err);
}

static hr_status add_interval(text *t, const hr_array *a, int64_t row, hr_error *err)
{
    hr_text parts = { 0 };
    hr_status st;

    hr__text_add(&parts, "\"");
    hr__array_print_value(a, row, &parts);
    hr__text_add(&parts, "\"");
    st =
        parts.failed || !parts.data ? hr__error_memory(err, "json", HR_NUMBER_CHARS) : add(t, parts.data, parts.n, err);
    hr__text_clear(&parts);
    return st;
}

static hr_status add_decimal(text *t, const hr_array *a, int64_t row, hr_error *err)
{
    hr_text number = { 0 };
    hr_status st;

    hr__array_print_value(a, row, &number);
    st = number.failed || !number.data ? hr__error_memory(err, "json", HR_NUMBER_CHARS)
                                       : add(t, number.data, number.n, err);
    hr__text_clear(&number);
    return st;
}

static hr_status add_value(text *t, const node *n, const hr_array *a, int64_t row, hr_error *err);

/* Values [begin, begin + count) as an array; for a tensor nested by its dimensions from `dim` on. */
static hr_status add_items(text *t, const node *n, const hr_array *values, int64_t begin, int64_t count, int dim,
                           hr_error *err)
{
    bool nested = n->type->id == HR_T_TENSOR && dim + 1 < n->type->n_dims;
    int64_t step = 1;

    for (int k = dim + 1; nested && k < n->type->n_dims; k++)
        step *= n->type->shape[k];
    HR_TRY(add_char(t, '[', err));
    for (int64_t i = 0, parts = nested ? n->type->shape[dim] : count; i < parts; i++) {
        if (i)
            HR_TRY(add_char(t, ',', err));
        if (nested)
            HR_TRY(add_items(t, n, values, begin + i * step, step, dim + 1, err));
        else
            HR_TRY(add_value(t, &n->children[0], values, begin + i, err));
    }
    return add_char(t, ']', err);
}

static hr_status add_object(text *t, const node *n, hr_array *const *columns, int64_t row, hr_error *err)
{
    HR_TRY(add_char(t, '{', err));
    for (int i = 0; i < n->n_children; i++) {
        if (!n->type)
            t->column = t->w->schema->fields[i].name;
        if (i)
            HR_TRY(add_char(t, ',', err));
        HR_TRY(add(t, n->children[i].key, n->children[i].key_bytes, err));
        HR_TRY(add_value(t, &n->children[i], columns[i], row, err));
    }
    return add_char(t, '}', err);
}

static hr_status add_map(text *t, const node *n, const hr_array *a, int64_t row, hr_error *err)
{
    const node *entry = &n->children[0];
    const hr_array *entries = a->children[0], *keys = entries->children[0], *values = entries->children[1];
    int64_t begin, count, length;

    hr__array_range(a, row, &begin, &count);
    if (!hr__type_is_bytes(keys->type) || keys->type->id == HR_T_BINARY || keys->type->id == HR_T_LARGE_BINARY)
        return add_items(t, n, entries, begin, count, 0, err);
    HR_TRY(add_char(t, '{', err));
    for (int64_t i = begin; i < begin + count; i++) {
        const uint8_t *key = hr__array_bytes(keys, entries->offset + i, &length);

        if (i > begin)
            HR_TRY(add_char(t, ',', err));
        HR_TRY(add_string(t, key, length, err));
        HR_TRY(add_char(t, ':', err));
        HR_TRY(add_value(t, &entry->children[1], values, entries->offset + i, err));
    }
    return add_char(t, '}', err);
}

static hr_status add_value(text *t, const node *n, const hr_array *a, int64_t row, hr_error *err)
{
    const hr_type *type = n->type;
    const uint8_t *bytes;
    char number[HR_NUMBER_CHARS];
    int64_t begin, count;

    if (hr__array_is_null(a, row))
        return add(t, "null", 4, err);
    switch (type->id) {
    case HR_T_BOOL:
        return hr__bit(a->buffers[1]->data, a->offset + row) ? add(t, "true", 4, err) : add(t, "false", 5, err);
    case HR_T_INT8:
    case HR_T_INT16:
    case HR_T_INT32:
    case HR_T_INT64:
    case HR_T_DURATION: return add(t, number, hr__print_int64(hr__array_int(a, row), number), err);
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return add(t, number, hr__print_uint64(hr__array_uint(a, row), number), err);
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: return add_float(t, a, row, err);
    case HR_T_STRING:
    case HR_T_LARGE_STRING: bytes = hr__array_bytes(a, row, &count); return add_string(t, bytes, count, err);
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY: bytes = hr__array_bytes(a, row, &count); return add_base64(t, bytes, count, err);
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return add_decimal(t, a, row, err);
    case HR_T_STRUCT: return add_object(t, n, a->children, a->offset + row, err);
    case HR_T_MAP: return add_map(t, n, a, row, err);
    case HR_T_LIST:
    case HR_T_LARGE_LIST:
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR:
        hr__array_range(a, row, &begin, &count);
        return add_items(t, n, a->children[0], begin, count, 0, err);
    case HR_T_MONTHS:
    case HR_T_DAY_TIME:
    case HR_T_MONTH_DAY_NANO: return add_interval(t, a, row, err);
    default: return add_moment(t, a, row, err);
    }
}

/* ------------------------------------------------------------------------------------------------------------ nodes */

static void node_clear(node *n)
{
    for (int i = 0; i < n->n_children; i++)
        node_clear(&n->children[i]);
    hr__free(n->children);
    hr__free(n->key);
}

static hr_status check_names(const json_writer *w, const hr_field *fields, int n, hr_error *err)
{
    for (int i = 0; i < n; i++) {
        if (!w->prints)
            HR_TRY(hr__refuse_pickles("json", &fields[i], err));
        if (!hr__utf8_valid(fields[i].name, (int64_t)strlen(fields[i].name)))
            return hr_error_set(err, HR_TYPE, "json: a column's name is not UTF-8");
        for (int k = 0; k < i; k++)
            if (strcmp(fields[i].name, fields[k].name) == 0)
                return hr_error_set(err, HR_TYPE, "json: two columns are named '%s', but an object has each key once",
                                    fields[i].name);
    }
    return HR_OK;
}

static hr_status node_children(const json_writer *w, node *n, const hr_field *fields, int n_fields, bool named,
                               hr_error *err);

static hr_status node_init(const json_writer *w, node *n, const hr_field *f, bool named, hr_error *err)
{
    hr_mem mem = { w->account, NULL };
    text key = { .w = w, .g.mem = &mem };
    hr_status st = HR_OK;

    n->type = f->type;
    if (named) {
        HR_GO(add_string(&key, (const uint8_t *)f->name, (int64_t)strlen(f->name), err));
        HR_GO(add_char(&key, ':', err));
        n->key_bytes = key.g.buffer->n_bytes;
        n->key = hr__strndup(w->account, (const char *)key.g.buffer->data, (size_t)n->key_bytes);
        if (!n->key)
            HR_GO(hr__error_memory(err, "json", n->key_bytes));
    }
    HR_GO(node_children(w, n, f->type->children, f->type->n_children, f->type->id == HR_T_STRUCT, err));
done:
    hr__growbuf_clear(&key.g);
    return st;
}

static hr_status node_children(const json_writer *w, node *n, const hr_field *fields, int n_fields, bool named,
                               hr_error *err)
{
    if (n_fields == 0)
        return HR_OK;
    if (named)
        HR_TRY(check_names(w, fields, n_fields, err));
    n->children = hr__zalloc(w->account, (size_t)n_fields * sizeof *n->children);
    if (!n->children)
        return hr__error_memory(err, "json", n_fields * (int64_t)sizeof *n->children);
    for (int i = 0; i < n_fields; i++) {
        n->n_children++;
        HR_TRY(node_init(w, &n->children[i], &fields[i], named, err));
    }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- writer */

/* The write chunk's bytes, compressed. */
static hr_status pack(const json_writer *w, const hr_mem *mem, hr_encoded_chunk *out, hr_error *err)
{
    int64_t cap = w->codec->max_packed_bytes(out->bytes->n_bytes), n = 0;
    hr_buffer *packed = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__buffer_new(mem, cap, &packed, err));
    HR_GO(hr__codec_pack_file(w->codec, (hr_view){ out->bytes->data, out->bytes->n_bytes }, packed->data, cap,
                              (int)w->options.level, &n, err));
    hr__buffer_shrink(packed, n);
    hr__buffer_unref(out->bytes);
    out->bytes = packed;
    packed = NULL; /* moved into the write chunk */
done:
    hr__buffer_unref(packed);
    return st;
}

static hr_status add_rows(text *lines, const hr_table *t, int64_t begin, int64_t n, hr_error *err)
{
    for (int64_t i = begin; i < begin + n; i++) {
        HR_TRY(add_object(lines, &lines->w->root, t->columns, i, err));
        HR_TRY(add_char(lines, '\n', err));
    }
    return HR_OK;
}

static hr_status json_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                             hr_error *err)
{
    const json_writer *w = (const json_writer *)base;
    text lines = { .w = w, .g.mem = mem };
    hr_status st = HR_OK;

    HR_GO(add_rows(&lines, t, 0, t->n_rows, err));
    out->n_rows = t->n_rows;
    HR_GO(hr__growbuf_finish(&lines.g, &out->bytes, err));
    if (w->codec)
        HR_GO(pack(w, mem, out, err));
done:
    hr__growbuf_clear(&lines.g);
    return st;
}

static void json_free(hr_writer *base)
{
    json_writer *w = (json_writer *)base;

    node_clear(&w->root);
    hr__schema_unref(w->schema);
    hr__free(w);
}

static const hr_writer_class json_writer_class = { .encode = json_encode, .free = json_free };

hr_status hr__json_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    json_writer *w = hr__zalloc(account, sizeof *w);
    hr_status st = HR_OK;

    *out = NULL;
    if (!w)
        return hr__error_memory(err, "json", sizeof *w);
    w->options = *(const hr_json_write_options *)options;
    w->codec = compressions[w->options.compression].codec;
    w->schema = hr__schema_ref(schema);
    w->account = account;
    w->base = (hr_writer){ .cls = &json_writer_class, .suffix = compressions[w->options.compression].suffix };
    if (w->codec) { /* the rows alone decide what is compressed together */
        w->base.chunk_rows = 64 << 10;
        w->base.chunk_bytes = 8 << 20;
    }
    if (w->codec && !w->codec->pack)
        HR_FAIL(HR_UNSUPPORTED, "compression %s: this build was made without %s", w->codec->name, w->codec->library);
    HR_GO(node_children(w, &w->root, schema->fields, schema->n, true, err));
    *out = &w->base;
    w = NULL; /* moved to the caller */
done:
    if (w)
        json_free(&w->base);
    return st;
}

hr_status hr_table_print_json(const hr_table *t, int64_t begin, int64_t n, char **out, hr_error *err)
{
    HR_NEED(t, out);

    json_writer w = { .schema = t->schema, .options.nan = NAN_NULL, .prints = true };
    hr_mem mem = { 0 };
    text lines = { .w = &w, .g.mem = &mem };
    hr_status st = HR_OK;

    *out = NULL;
    if (begin < 0 || n < 0 || begin > t->n_rows - n)
        return hr_error_set(err, HR_INVALID, "rows %" PRId64 " to %" PRId64 " of a table of %" PRId64, begin, begin + n,
                            t->n_rows);
    HR_GO(node_children(&w, &w.root, t->schema->fields, t->schema->n, true, err));
    HR_GO(add_rows(&lines, t, begin, n, err));
    HR_GO(add_char(&lines, '\0', err));
    *out = hr__strndup(NULL, (const char *)lines.g.buffer->data, (size_t)lines.g.buffer->n_bytes - 1);
    if (!*out)
        HR_GO(hr__error_memory(err, "JSON lines", lines.g.buffer->n_bytes));
done:
    hr__growbuf_clear(&lines.g);
    node_clear(&w.root);
    return st;
}
