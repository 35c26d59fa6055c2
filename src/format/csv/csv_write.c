/* csv_write.c - tables as CSV.
 *
 * A write chunk is some rows as text, so that all threads print rows; a file is its header and write chunks. The writer
 * quotes a text that needs it: one that holds a delimiter, a quote or the end of a line, is empty, or reads like the
 * text for nulls. Numbers are exact, times ISO 8601, durations integers of their unit. Nested and binary columns are an
 * error, since no reader could restore them.
 *
 * A compressed file is its header and write chunks, each compressed by itself: gzip, Zstandard and LZ4 read them as one
 * stream.
 *
 * Tests: test_writers.c. */
#include "base/number.h"
#include "format/csv/csv.h"

enum { QUOTE_NEEDED, QUOTE_ALL, QUOTE_NONE };

const hr_option hr__csv_write_options[] = {
    { .name = "delimiter",
      .kind = HR_OPT_CHAR,
      .at = offsetof(csv_write_options, delimiter),
      .value = ',',
      .doc = "byte between fields" },
    { .name = "header",
      .kind = HR_OPT_BOOL,
      .at = offsetof(csv_write_options, header),
      .value = 1,
      .doc = "write the names of columns as the first line of each file" },
    { .name = "quoting",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(csv_write_options, quoting),
      .text = "needed all none",
      .doc = "which texts to quote; none: a text that needs quotes is an error" },
    { .name = "null_text",
      .kind = HR_OPT_TEXT,
      .at = offsetof(csv_write_options, null_text),
      .text = "",
      .doc = "text of a null, never quoted" },
    { .name = "crlf",
      .kind = HR_OPT_BOOL,
      .at = offsetof(csv_write_options, crlf),
      .doc = "end lines with CR LF, not LF" },
    { .name = "compression",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(csv_write_options, compression),
      .text = "none gzip zstd lz4",
      .doc = "compression of whole files, whose names end in .csv.gz, .csv.zst or .csv.lz4" },
    { .name = "compression_level",
      .kind = HR_OPT_INT,
      .at = offsetof(csv_write_options, level),
      .doc = "level of the compression; 0: the codec's default" },
    { 0 },
};

static const struct {
    const hr_codec *codec;
    const char *suffix;
} compressions[] = { { NULL, ".csv" },
                     { &hr__codec_gzip, ".csv.gz" },
                     { &hr__codec_zstd, ".csv.zst" },
                     { &hr__codec_lz4_frame, ".csv.lz4" } };

typedef struct csv_writer {
    hr_writer base;
    csv_write_options options; /* null_text: our own */
    int64_t n_null;
    const hr_codec *codec;
    hr_account *account;
    hr_schema *schema;
    bool special[256]; /* bytes that need quotes */
} csv_writer;

/* The text of one write chunk. */
typedef struct text {
    const csv_writer *w;
    hr_growbuf g;
    hr_error *err;
} text;

/* ------------------------------------------------------------------------------------------------------------ bytes */

static hr_status add(text *t, const void *bytes, int64_t n)
{
    if (!t->g.buffer || t->g.buffer->capacity - t->g.buffer->n_bytes < n)
        HR_TRY(hr__growbuf_reserve(&t->g, n, t->err));
    if (n)
        memcpy(t->g.buffer->data + t->g.buffer->n_bytes, bytes, (size_t)n);
    t->g.buffer->n_bytes += n;
    return HR_OK;
}

static hr_status end_line(text *t) { return t->w->options.crlf ? add(t, "\r\n", 2) : add(t, "\n", 1); }

/* Quotes in it are doubled. */
static hr_status add_quoted(text *t, const uint8_t *p, int64_t n)
{
    int64_t begin = 0;

    HR_TRY(add(t, "\"", 1));
    for (int64_t i = 0; i < n; i++) {
        if (p[i] != '"')
            continue;
        HR_TRY(add(t, p + begin, i + 1 - begin)); /* the quote, and once more with what follows */
        begin = i;
    }
    HR_TRY(add(t, p + begin, n - begin));
    return add(t, "\"", 1);
}

static bool needs_quotes(const csv_writer *w, const uint8_t *p, int64_t n)
{
    if (n == w->n_null && (n == 0 || memcmp(p, w->options.null_text, (size_t)n) == 0))
        return true;
    for (int64_t i = 0; i < n; i++) {
        if (w->special[p[i]])
            return true;
    }
    return n == 0;
}

static hr_status add_string(text *t, const char *column, const uint8_t *p, int64_t n)
{
    const csv_writer *w = t->w;
    bool needed = needs_quotes(w, p, n);

    if (needed && w->options.quoting == QUOTE_NONE)
        return hr_error_set(t->err, HR_INVALID, "csv: column '%s': '%.*s' cannot be written without quotes", column,
                            (int)HR_MIN(n, 100), (const char *)p);
    return needed || w->options.quoting == QUOTE_ALL ? add_quoted(t, p, n) : add(t, p, n);
}

/* ----------------------------------------------------------------------------------------------------------- values */

/* Prints a value of fixed width other than a decimal; -> bytes. */
static int print_value(const hr_array *a, int64_t row, char *out)
{
    const hr_type *type = a->type;
    int64_t v;

    if (type->id == HR_T_BOOL) {
        bool yes = hr__bit(a->buffers[1]->data, a->offset + row);

        memcpy(out, yes ? "true" : "false", 5);
        return yes ? 4 : 5;
    }
    if (type->id == HR_T_FLOAT16 || type->id == HR_T_FLOAT32 || type->id == HR_T_FLOAT64)
        return hr__array_print_float(a, row, out);
    v = hr__array_int(a, row);
    switch (type->id) {
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return hr__print_uint64(hr__array_uint(a, row), out);
    case HR_T_DATE32: return hr__print_date((int32_t)v, out);
    case HR_T_DATE64: return hr__print_date((int32_t)(v / 86400000 - (v % 86400000 < 0)), out);
    case HR_T_TIME32:
    case HR_T_TIME64: return hr__print_time(v, type->unit, out);
    case HR_T_TIMESTAMP: return hr__print_timestamp(v, type->unit, type->zone != NULL, out);
    default: return hr__print_int64(v, out);
    }
}

static hr_status add_decimal(text *t, const hr_array *a, int64_t row)
{
    hr_text number = { 0 };
    hr_status st;

    hr__array_print_value(a, row, &number);
    st = number.failed || !number.data ? hr__error_memory(t->err, "csv", HR_NUMBER_CHARS)
                                       : add(t, number.data, number.n);
    hr__text_clear(&number);
    return st;
}

static hr_status add_value(text *t, const char *column, const hr_array *a, int64_t row)
{
    char out[HR_NUMBER_CHARS];
    int64_t n;

    if (hr__array_is_null(a, row))
        return add(t, t->w->options.null_text, t->w->n_null);
    if (hr__type_is_bytes(a->type)) {
        const uint8_t *p = hr__array_bytes(a, row, &n);

        return add_string(t, column, p, n);
    }
    if (a->type->id == HR_T_DECIMAL128 || a->type->id == HR_T_DECIMAL256)
        return add_decimal(t, a, row);
    return add(t, out, print_value(a, row, out));
}

/* ----------------------------------------------------------------------------------------------------------- writer */

/* The text, compressed if the options say so; new. */
static hr_status finish_text(text *t, const hr_mem *mem, hr_buffer **out)
{
    const csv_writer *w = t->w;
    hr_buffer *plain = NULL, *packed = NULL;
    hr_status st = HR_OK;
    int64_t n = 0, cap;

    HR_GO(hr__growbuf_finish(&t->g, &plain, t->err));
    if (!w->codec) {
        *out = plain;
        return HR_OK;
    }
    cap = w->codec->max_packed_bytes(plain->n_bytes);
    HR_GO(hr__buffer_new(mem, cap, &packed, t->err));
    HR_GO(hr__codec_pack_file(w->codec, (hr_view){ plain->data, plain->n_bytes }, packed->data, cap,
                              (int)w->options.level, &n, t->err));
    hr__buffer_shrink(packed, n);
    *out = packed;
    packed = NULL; /* moved to the caller */
done:
    hr__buffer_unref(plain);
    hr__buffer_unref(packed);
    return st;
}

static hr_status csv_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                            hr_error *err)
{
    const csv_writer *w = (const csv_writer *)base;
    text rows = { .w = w, .g.mem = mem, .err = err };
    hr_status st = HR_OK;

    for (int64_t row = 0; row < t->n_rows; row++) {
        for (int i = 0; i < t->schema->n; i++) {
            if (i)
                HR_GO(add(&rows, &w->options.delimiter, 1));
            HR_GO(add_value(&rows, t->schema->fields[i].name, t->columns[i], row));
        }
        HR_GO(end_line(&rows));
    }
    HR_GO(finish_text(&rows, mem, &out->bytes));
    out->n_rows = t->n_rows;
done:
    hr__growbuf_clear(&rows.g);
    return st;
}

static hr_status csv_begin(const hr_writer *base, void *file, hr_sink *sink, hr_error *err)
{
    const csv_writer *w = (const csv_writer *)base;
    hr_mem mem = { w->account, NULL };
    text line = { .w = w, .g.mem = &mem, .err = err };
    hr_buffer *bytes = NULL;
    hr_status st = HR_OK;

    (void)file;
    if (!w->options.header)
        return HR_OK;
    for (int i = 0; i < w->schema->n; i++) {
        const char *name = w->schema->fields[i].name;

        if (i)
            HR_GO(add(&line, &w->options.delimiter, 1));
        HR_GO(add_string(&line, name, (const uint8_t *)name, (int64_t)strlen(name)));
    }
    HR_GO(end_line(&line));
    HR_GO(finish_text(&line, &mem, &bytes));
    HR_GO(hr__sink_write(sink, bytes->data, bytes->n_bytes, err));
done:
    hr__growbuf_clear(&line.g);
    hr__buffer_unref(bytes);
    return st;
}

static void csv_free(hr_writer *base)
{
    csv_writer *w = (csv_writer *)base;

    hr__free(w->options.null_text);
    hr__schema_unref(w->schema);
    hr__account_unref(w->account);
    hr__free(w);
}

static const hr_writer_class csv_writer_class = { .encode = csv_encode, .begin = csv_begin, .free = csv_free };

static hr_status check_schema(const hr_schema *s, hr_error *err)
{
    for (int i = 0; i < s->n; i++) {
        const hr_type *type = s->fields[i].type;
        bool is_text = type->id == HR_T_STRING || type->id == HR_T_LARGE_STRING;
        hr_text name = { 0 };

        HR_TRY(hr__refuse_pickles("csv", &s->fields[i], err));
        if (is_text || type->id == HR_T_NULL || type->id == HR_T_BOOL ||
            (hr__type_bytes(type) && type->id != HR_T_FIXED_BINARY && !hr__type_is_interval(type)))
            continue;
        hr__type_print(type, &name);
        hr_error_set(err, HR_TYPE, "csv: column '%s' is %s, a type that CSV cannot hold", s->fields[i].name,
                     name.data ? name.data : "?");
        hr__text_clear(&name);
        return HR_TYPE;
    }
    return HR_OK;
}

hr_status hr__csv_create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    const csv_write_options *o = options;
    const hr_codec *codec = compressions[o->compression].codec;
    csv_writer *w;

    *out = NULL;
    HR_TRY(check_schema(schema, err));
    if (codec && !codec->pack)
        return hr_error_set(err, HR_UNSUPPORTED, "csv: compression %s: this build was made without it", codec->name);
    if (!(w = hr__zalloc(account, sizeof *w)))
        return hr__error_memory(err, "csv", sizeof *w);
    w->base = (hr_writer){ .cls = &csv_writer_class, .suffix = compressions[o->compression].suffix };
    if (codec) {
        w->base.chunk_rows = 64 << 10;
        w->base.chunk_bytes = 16 << 20;
    }
    w->options = *o;
    w->options.null_text = hr__strdup(account, o->null_text ? o->null_text : "");
    w->codec = codec;
    w->account = account ? hr__account_ref(account) : NULL;
    w->schema = hr__schema_ref(schema);
    w->special['"'] = w->special['\n'] = w->special['\r'] = w->special[(uint8_t)o->delimiter] = true;
    if (!w->options.null_text) {
        csv_free(&w->base);
        return hr__error_memory(err, "csv", (int64_t)strlen(o->null_text ? o->null_text : ""));
    }
    w->n_null = (int64_t)strlen(w->options.null_text);
    *out = &w->base;
    return HR_OK;
}
