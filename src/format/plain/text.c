/* text.c - text files, one row per line, column `text`.
 *
 * A plain file is cut into fragments of FRAGMENT_BYTES, without regard to lines; a line belongs to the fragment that
 * holds its first byte. So a reader begins after the first newline at or after the byte before its fragment, and ends
 * with the line that crosses its end: no line is lost or read twice, and fragments are independent. A fragment without
 * a newline owns at most the first line of the file, and its reader stops after the fragment's bytes: files without
 * newlines are read only once. A file that is compressed or not in UTF-8 is one fragment, read as a stream.
 *
 * Lines are cut in place: the reader fills a buffer, removes the newlines, and that buffer is the column. A line ends
 * with "\n" or "\r\n"; the last one may end with the file. */
#include "format/format.h"

#define FRAGMENT_BYTES (4 << 20)
#define MAX_LINE_BYTES (1 << 30)
#define READ_BYTES (1 << 20) /* maximum bytes of one read */
#define TAIL_BYTES (1 << 10) /* first read after a fragment for the end of its last line; each further read doubles */

typedef struct text_options {
    char *encoding;
    bool drop_empty_lines;
} text_options;

static const hr_option text_option_table[] = {
    { .name = "encoding",
      .kind = HR_OPT_TEXT,
      .at = offsetof(text_options, encoding),
      .text = "utf-8",
      .doc = "encoding of the text: any name that iconv knows" },
    { .name = "drop_empty_lines",
      .kind = HR_OPT_BOOL,
      .at = offsetof(text_options, drop_empty_lines),
      .value = 1,
      .doc = "skip lines of only white space" },
    { 0 },
};

typedef struct text_file {
    hr_scan_file base;
    hr_source *source;
    const hr_codec *codec; /* NULL: plain */
    bool recode;           /* it is not in UTF-8 */
    text_options options;
} text_file;

typedef struct text_reader {
    hr_reader base;
    text_file *file;
    int fragment;
    hr_mem mem, scratch;
    hr_stream *stream;     /* compressed files; NULL: read at `at` */
    int64_t at;            /* offset of the next read in the (decompressed) file */
    int64_t end;           /* lines that begin here or later belong to the next fragment */
    int64_t row, rows_end; /* of the fragment; rows before row_begin are skipped */
    int64_t row_begin;
    bool ended;      /* the file has */
    bool in_line;    /* the rest begins inside a line of the fragment before */
    hr_buffer *rest; /* bytes read but not yet returned: the beginning of a line */
    int64_t n_rest;
    int64_t line; /* offset of the rest in the file */
} text_reader;

/* ---------------------------------------------------------------------------------------------------------- readers */

static void text_close_reader(hr_reader *base)
{
    text_reader *r = (text_reader *)base;

    hr__stream_close(r->stream);
    hr__buffer_unref(r->rest);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* Reads up to n bytes into `out`. */
static hr_status fill(text_reader *r, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err)
{
    if (r->stream)
        HR_TRY(hr__stream_read(r->stream, out, n, n_read, err));
    else
        HR_TRY(hr__source_read_some(r->file->source, out, r->at, n, n_read, err));
    r->at += *n_read;
    r->ended = *n_read < n;
    return HR_OK;
}

static bool is_blank(const uint8_t *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (p[i] != ' ' && (p[i] < '\t' || p[i] > '\r'))
            return false;
    }
    return true;
}

/* A buffer with the rest and at least one whole line, unless the file ends; *n: its bytes. */
static hr_status read_lines(text_reader *r, int64_t max_bytes, hr_buffer **out, int64_t *n, hr_error *err)
{
    int64_t most = HR_MIN(HR_MAX(max_bytes, 4096), READ_BYTES), has = r->n_rest, beyond = TAIL_BYTES, want, n_read;
    hr_buffer *b = NULL, *wider = NULL;
    hr_status st = HR_OK;
    bool line = false;

    *out = NULL;
    HR_GO(hr__buffer_new(&r->mem, has + most, &b, err));
    if (has)
        memcpy(b->data, r->rest->data, (size_t)has);
    for (; !r->ended && !line; beyond = HR_MIN(beyond * 2, READ_BYTES)) {
        want = HR_MIN(most, HR_MAX(r->end - r->at, 0) + beyond);
        if (b->n_bytes - has < want) {
            HR_GO(hr__buffer_new(&r->mem, has * 2 + want, &wider, err));
            memcpy(wider->data, b->data, (size_t)has);
            hr__buffer_unref(b);
            b = wider;
        }
        HR_GO(fill(r, b->data + has, want, &n_read, err));
        line = n_read > 0 && memchr(b->data + has, '\n', (size_t)n_read);
        has += n_read;
        if (!line && has > MAX_LINE_BYTES)
            HR_FAIL(HR_UNSUPPORTED, "%s: byte %lld: a line of more than %d bytes", r->file->base.name,
                    (long long)r->line, MAX_LINE_BYTES);
        if (!line && r->in_line && r->at >= r->end)
            r->ended = true; /* neither this nor any later line belongs to the fragment */
    }
    r->n_rest = 0;
    *n = has;
    *out = b;
    b = NULL; /* moved to the caller */
done:
    hr__buffer_unref(b);
    return st;
}

/* Stores the bytes after the last whole line for the next read. */
static hr_status keep_rest(text_reader *r, const uint8_t *data, int64_t n, hr_error *err)
{
    if (n > 0 && (!r->rest || r->rest->n_bytes < n)) {
        hr__buffer_unref(r->rest);
        r->rest = NULL;
        HR_TRY(hr__buffer_new(&r->scratch, HR_MAX(n, 4096), &r->rest, err));
    }
    if (n > 0)
        memcpy(r->rest->data, data, (size_t)n);
    r->n_rest = n;
    return HR_OK;
}

static hr_status not_utf8(const text_reader *r, const uint8_t *data, int64_t n, int64_t line, hr_error *err)
{
    int64_t at = 0;

    while (at < n) { /* one character after another */
        int64_t length = data[at] >= 0xf0 ? 4 : data[at] >= 0xe0 ? 3 : data[at] >= 0xc0 ? 2 : 1;

        if (at + length > n || !hr__utf8_valid(data + at, length))
            break;
        at += length;
    }
    return hr_error_set(err, HR_BAD_DATA, "%s: byte %lld%s: 0x%02x is not UTF-8, in the line that begins at byte %lld",
                        r->file->base.name, (long long)(line + at), r->stream ? " (decompressed)" : "",
                        at < n ? data[at] : 0, (long long)line);
}

/* The lines being cut: moves them together in `data`, and stores their ends. */
typedef struct cut {
    uint8_t *data;
    int64_t n; /* bytes of lines so far, without newlines */
    hr_growbuf ends;
    int64_t n_lines;
    bool is_utf8; /* all bytes are UTF-8: no check of single lines */
} cut;

/* Adds a line, data[begin, begin + n), which is at byte `line` of the file. */
static hr_status add_line(text_reader *r, cut *c, int64_t begin, int64_t n, int64_t line, hr_error *err)
{
    const uint8_t *p = c->data + begin;
    int32_t end;

    if (n > 0 && p[n - 1] == '\r')
        n--;
    if (r->file->options.drop_empty_lines && is_blank(p, n))
        return HR_OK;
    if (r->row++ < r->row_begin)
        return HR_OK;
    if (!c->is_utf8 && !hr__utf8_valid(p, n))
        return not_utf8(r, p, n, line, err);
    memmove(c->data + c->n, p, (size_t)n);
    c->n += n;
    c->n_lines++;
    end = (int32_t)c->n; /* a buffer is less than 2 GiB: see MAX_LINE_BYTES and READ_BYTES */
    return hr__growbuf_add(&c->ends, &end, 4, err);
}

/* Cuts data[0, n) into lines; stores the rest. */
static hr_status cut_lines(text_reader *r, cut *c, int64_t n, hr_error *err)
{
    int64_t begin = 0;

    c->is_utf8 = hr__utf8_valid(c->data, n);
    while (begin < n && !(r->line + begin >= r->end && !r->in_line) && r->row < r->rows_end) {
        const uint8_t *p = c->data + begin, *newline = memchr(p, '\n', (size_t)(n - begin));
        int64_t length = newline ? newline - p : n - begin;

        if (!newline && !r->ended)
            break;
        if (!r->in_line)
            HR_TRY(add_line(r, c, begin, length, r->line + begin, err));
        r->in_line = r->in_line && !newline;
        begin += length + (newline != NULL);
    }
    if ((r->line + begin >= r->end && !r->in_line) || r->row >= r->rows_end || (r->ended && begin == n)) {
        r->ended = true; /* no further line belongs to the fragment */
        r->n_rest = 0;
    } else {
        HR_TRY(keep_rest(r, c->data + begin, n - begin, err));
    }
    r->line += begin;
    return HR_OK;
}

static hr_status make_table(text_reader *r, cut *c, hr_buffer **data, hr_table **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array *array = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__growbuf_finish(&c->ends, &buffers[1], err));
    hr__buffer_shrink(*data, c->n);
    buffers[2] = *data;
    *data = NULL; /* moved into the array */
    HR_GO(hr__array_new(hr__type_simple(HR_T_STRING), c->n_lines, 0, buffers, NULL, 0, &array, err));
    st = hr__file_table(&r->file->base, r->fragment, r->row - c->n_lines, c->n_lines, &array, out, err);
done:
    hr__array_unref(array);
    return st;
}

static hr_status text_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    text_reader *r = (text_reader *)base;
    cut c = { .ends.mem = &r->mem };
    static const uint8_t zero[4];
    hr_buffer *data = NULL;
    hr_status st = HR_OK;
    int64_t n = 0;

    while (c.n_lines == 0 && !(r->ended && r->n_rest == 0)) {
        hr__buffer_unref(data);
        data = NULL;
        HR_GO(read_lines(r, max_bytes, &data, &n, err));
        hr__growbuf_clear(&c.ends);
        HR_GO(hr__growbuf_add(&c.ends, zero, 4, err));
        c.data = data->data;
        c.n = 0;
        HR_GO(cut_lines(r, &c, n, err));
    }
    if (c.n_lines > 0)
        HR_GO(make_table(r, &c, &data, out, err));
done:
    hr__growbuf_clear(&c.ends);
    hr__buffer_unref(data);
    return st;
}

static const hr_reader_class text_reader_class = { text_next, text_close_reader };

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status open_stream(const text_file *f, hr_account *account, hr_stream **out, hr_error *err)
{
    hr_stream *plain = NULL;

    HR_TRY(hr__codec_stream(f->codec, f->source, account, &plain, err));
    if (f->recode)
        return hr__recode_stream(plain, f->options.encoding, f->base.name, account, out, err);
    *out = plain;
    return HR_OK;
}

static hr_status text_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                           hr_reader **out, hr_error *err)
{
    text_file *f = (text_file *)base;
    text_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &text_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->scratch = (hr_mem){ mem->account, NULL };
    r->row_begin = HR_MAX(row_begin, 0);
    r->rows_end = hr__rows_end(r->row_begin, n_rows);
    if (f->codec || f->recode) {
        HR_GO(open_stream(f, mem->account, &r->stream, err));
        r->end = INT64_MAX / 2;
    } else {
        r->in_line = fragment > 0; /* until a newline, which may be the byte before */
        r->at = r->line = (int64_t)fragment * FRAGMENT_BYTES - r->in_line;
        r->end = HR_MIN(((int64_t)fragment + 1) * FRAGMENT_BYTES, f->source->n_bytes);
    }
    r->ended = r->rows_end == r->row_begin;
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        text_close_reader(&r->base);
    return st;
}

static hr_status text_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    text_file *f = (text_file *)base;
    int64_t n = f->source->n_bytes;

    (void)err;
    *out = (hr_fragment){ .n_rows = -1 };
    out->stored_bytes = f->base.n_fragments == 1 ? n : HR_MIN(n - (int64_t)fragment * FRAGMENT_BYTES, FRAGMENT_BYTES);
    out->memory_bytes = out->stored_bytes * (f->codec ? 5 : f->recode ? 2 : 1);
    return HR_OK;
}

static void text_ahead(hr_scan_file *base, int fragment)
{
    hr__source_ahead(((text_file *)base)->source, (int64_t)fragment * FRAGMENT_BYTES, FRAGMENT_BYTES);
}

static void text_close(hr_scan_file *base) { hr__source_unref(((text_file *)base)->source); }

static const hr_scan_file_class text_file_class = {
    .fragment = text_fragment,
    .read = text_read,
    .ahead = text_ahead,
    .close = text_close,
};

static hr_status text_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    text_file *f = NULL;
    uint8_t head[16];
    int64_t n;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(hr__scan_file_new(&text_file_class, sizeof *f, source->name, how->account, out, err));
    f = (text_file *)*out;
    f->source = hr__source_ref(source);
    f->options = *(const text_options *)how->options;
    f->codec = hr__codec_guess(source->name, (hr_view){ head, n });
    f->base.n_rows = source->n_bytes == 0 ? 0 : -1;
    f->base.n_fragments = source->n_bytes == 0 ? 0 : 1;
    f->recode = !hr__encoding_is_utf8(f->options.encoding);
    if (!f->codec && !f->recode)
        f->base.n_fragments = (int)(HR_ROUND_UP(source->n_bytes, FRAGMENT_BYTES) / FRAGMENT_BYTES);
    HR_GO(hr__one_column_schema("text", hr__type_simple(HR_T_STRING), false, how->projection, source->name,
                                &f->base.schema, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

const hr_format hr__format_text = {
    .name = "text",
    .suffixes = "txt text log",
    .doc = "one row per line, column `text`",
    .options = text_option_table,
    .options_bytes = sizeof(text_options),
    .open = text_open,
};
