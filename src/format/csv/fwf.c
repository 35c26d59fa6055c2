/* fwf.c - fixed-width text: each line is a row, each column a range of characters, padded with blanks.
 *
 *     Anna      1987-03-12   61.5      colspecs=0:10,10:20,20:   or   widths=10,13,4
 *     Bruno     1990-11-02  104
 *
 * The reader cuts each line by characters (code points, not bytes), strips the padding, and writes the fields of some
 * thousand lines one after another into a block of text: the same rectangle of fields that the CSV reader makes. So
 * csv_infer.c infers the types and csv_column.c reads the values, and both formats read a value in the same way.
 *
 * Fragments are equal ranges of bytes, as in text.c; a line belongs to the fragment that holds its first byte. A
 * compressed or recoded file is one fragment. Whether a line is a row depends on the line alone, never on the projected
 * columns: the number of a row must not change. */
#include "format/csv/csv.h"
#include "format/window.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_LINE_BYTES (64 << 20)
#define MAX_COLUMNS (1 << 16)
#define HEAD_BYTES (16 << 10) /* read at once for the names of columns */
#define TABLE_BYTES (1 << 20)
#define MAX_BLOCK_BYTES (1 << 30) /* of fields: offsets in a block have 31 bits */

typedef struct fwf_options {
    csv_options csv; /* the options that both formats have; the others stay zero */
    char *colspecs, *widths, *fill;
} fwf_options;

#define OPTION(kind_, name_, field, ...)                                                                               \
    { .name = name_, .kind = kind_, .at = offsetof(fwf_options, field), __VA_ARGS__ }
#define NULLS ",#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,N/A,NA,NULL,NaN,n/a,nan,null" /* as CSV */

static const hr_option fwf_option_table[] = {
    OPTION(HR_OPT_TEXT, "colspecs", colspecs,
           .doc = "the place of each column: \"begin:end\" in characters from 0, separated by commas; no end: to "
                  "the end of the line"),
    OPTION(HR_OPT_TEXT, "widths", widths,
           .doc = "instead of colspecs: the width of each column in characters, separated by commas"),
    OPTION(HR_OPT_TEXT, "fill", fill, .text = " \t",
           .doc = "characters that pad fields; both ends of a field are stripped of them"),
    OPTION(
        HR_OPT_CHOICE, "header", csv.header, .text = "auto first none",
        .doc =
            "where the names of columns are: the first line (auto: unless `names` is given), or nowhere: f0, f1, ..."),
    OPTION(HR_OPT_TEXT, "names", csv.names, .doc = "names of the columns, separated by commas"),
    OPTION(HR_OPT_INT, "skip_rows", csv.skip_rows, .max = 1e15, .doc = "lines to skip before the names"),
    OPTION(HR_OPT_BOOL, "ignore_empty_lines", csv.ignore_empty_lines, .value = 1,
           .doc = "skip lines of only fill and white space; false: each is a row"),
    OPTION(HR_OPT_TEXT, "null_values", csv.null_values, .text = NULLS,
           .doc = "texts that mean null, separated by commas"),
    OPTION(HR_OPT_BOOL, "strings_can_be_null", csv.strings_can_be_null,
           .doc = "null_values mean null in string columns, too"),
    OPTION(HR_OPT_TEXT, "true_values", csv.true_values, .text = "1,True,TRUE,true",
           .doc = "texts that mean true, separated by commas"),
    OPTION(HR_OPT_TEXT, "false_values", csv.false_values, .text = "0,False,FALSE,false",
           .doc = "texts that mean false, separated by commas"),
    OPTION(HR_OPT_CHAR, "decimal_point", csv.decimal_point, .value = '.',
           .doc = "byte before the fraction of a number"),
    OPTION(HR_OPT_TEXT, "dtypes", csv.dtypes,
           .doc = "types of columns, \"name:type\" separated by commas; others are inferred"),
    OPTION(HR_OPT_TEXT, "default_type", csv.default_type,
           .doc = "type of columns that dtypes does not name; empty: inferred"),
    OPTION(HR_OPT_BYTES, "infer_bytes", csv.infer_bytes, .value = 4 << 20, .min = 1, .max = 1 << 30,
           .doc = "bytes at the beginning of the file from which types are inferred"),
    OPTION(HR_OPT_TEXT, "encoding", csv.encoding, .text = "utf-8",
           .doc = "encoding of the text: any name that iconv knows"),
    OPTION(HR_OPT_BYTES, "fragment_bytes", csv.fragment_bytes, .value = 4 << 20, .min = 1, .max = 1 << 30,
           .doc =
               "bytes of a fragment; fragments are read in parallel, and the coordinates of rows depend on their size"),
    { 0 },
};

typedef struct fwf_span {
    int64_t begin, end; /* characters of the line; end INT64_MAX: to its end */
} fwf_span;

typedef struct fwf_file {
    hr_scan_file base;
    hr_source *source;
    const fwf_options *options;
    const hr_codec *codec; /* NULL: not compressed */
    bool recode, streamed; /* not in UTF-8; compressed or recoded */
    bool fills[256];       /* bytes to strip */
    csv_values values;
    int n_columns; /* of the file */
    fwf_span *spans;
    csv_list names;
    hr_type **types; /* NULL: not projected */
    int *columns;    /* of the schema: numbers in the file */
    int64_t begin;   /* of the first row, in the (decoded) file */
} fwf_file;

/* The fields of some lines one after another, separated by a byte. */
typedef struct fwf_block {
    hr_growbuf text, starts, ends; /* bytes, uint32_t, uint32_t: see csv_rows */
    hr_growbuf lines;              /* int64_t: offset of each row's line in the file */
    int64_t n_rows;
    bool missing;
} fwf_block;

typedef struct fwf_reader {
    hr_reader base;
    fwf_file *file;
    int fragment;
    hr_mem mem, scratch;
    hr_window window;
    int64_t end; /* lines that begin here or later belong to other fragments */
    int64_t row, row_begin, rows_end;
    bool finished;
} fwf_reader;

/* ------------------------------------------------------------------------------------------------------------ lines */

/* The (decoded) bytes from `at` on. */
static hr_status open_window(const fwf_file *f, int64_t at, hr_account *account, hr_window *out, hr_error *err)
{
    hr_stream *plain = NULL;
    int64_t n;

    HR_TRY(hr__window_open(out, f->source, NULL, f->streamed ? 0 : at, account, err));
    if (!f->streamed)
        return HR_OK;
    HR_TRY(hr__codec_stream(f->codec, f->source, account, &plain, err));
    if (f->recode)
        HR_TRY(hr__recode_stream(plain, f->options->csv.encoding, f->base.name, account, &out->stream, err));
    else
        out->stream = plain;
    return hr__window_skip(out, at, &n, err);
}

/* The number of the line that begins at `at`. Reads the file once more: only for errors. */
static int64_t line_of(const fwf_file *f, int64_t at)
{
    int64_t line = 1, n;
    hr_window w;

    if (open_window(f, 0, f->base.account, &w, NULL) == HR_OK) {
        while (w.at < at && hr__window_fill(&w, 1, HR_WINDOW_BYTES, NULL) == HR_OK && hr__window_left(&w) > 0) {
            n = HR_MIN(hr__window_left(&w), at - w.at);
            for (const uint8_t *p = hr__window_data(&w), *end = p + n; p < end; p++)
                line += *p == '\n';
            if (hr__window_skip(&w, n, &n, NULL))
                break;
        }
    }
    hr__window_clear(&w);
    return line;
}

/* The current line without its end; *step: its bytes with the end, 0 at the file's end. */
static hr_status next_line(const fwf_file *f, hr_window *w, hr_view *line, int64_t *step, hr_error *err)
{
    HR_TRY(hr__window_line(w, MAX_LINE_BYTES, line, step, err));
    if (*step < 0)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: line %lld has more than %d bytes", f->base.name,
                            (long long)line_of(f, w->at), MAX_LINE_BYTES);
    return HR_OK;
}

static bool is_blank(const fwf_file *f, hr_view line)
{
    for (int64_t i = 0; i < line.n; i++) {
        if (!f->fills[line.data[i]] && line.data[i] != ' ' && (line.data[i] < '\t' || line.data[i] > '\r'))
            return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- fields */

/* A place in a line: the number of characters and bytes before it. */
typedef struct place {
    int64_t characters, bytes;
} place;

/* Moves to a character, or to the line's end. Forward, it walks only the characters between. */
static void go_to(hr_view line, bool ascii, int64_t character, place *p)
{
    if (ascii) {
        p->characters = p->bytes = HR_MIN(character, line.n);
        return;
    }
    if (character < p->characters)
        *p = (place){ 0, 0 };
    for (; p->characters < character && p->bytes < line.n; p->characters++) {
        uint8_t c = line.data[p->bytes];

        p->bytes += c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    }
}

/* The field without its padding. false: the line ends before the field begins. */
static bool field_of(const fwf_file *f, hr_view line, bool ascii, int column, place *at, hr_view *out)
{
    int64_t begin;

    go_to(line, ascii, f->spans[column].begin, at);
    begin = at->bytes;
    *out = (hr_view){ line.data + begin, 0 };
    if (begin == line.n)
        return false;
    go_to(line, ascii, f->spans[column].end, at);
    out->n = at->bytes - begin;
    while (out->n > 0 && f->fills[*out->data]) {
        out->data++;
        out->n--;
    }
    while (out->n > 0 && f->fills[out->data[out->n - 1]])
        out->n--;
    return true;
}

static bool is_ascii(hr_view line)
{
    uint8_t all = 0;

    for (int64_t i = 0; i < line.n; i++)
        all |= line.data[i];
    return all < 0x80;
}

static hr_status check_line(const fwf_file *f, hr_view line, bool *ascii, int64_t at, hr_error *err)
{
    *ascii = is_ascii(line);
    if (!*ascii && !hr__utf8_valid(line.data, line.n))
        return hr_error_set(err, HR_BAD_DATA, "%s: line %lld is not UTF-8; encoding= names its encoding", f->base.name,
                            (long long)line_of(f, at));
    return HR_OK;
}

static void block_clear(fwf_block *b)
{
    hr__growbuf_clear(&b->text);
    hr__growbuf_clear(&b->starts);
    hr__growbuf_clear(&b->ends);
    hr__growbuf_clear(&b->lines);
}

/* Adds the line's fields in these columns as a row. */
static hr_status add_row(const fwf_file *f, const int *columns, int n, hr_view line, int64_t at, fwf_block *b,
                         hr_error *err)
{
    uint32_t end = b->text.buffer ? (uint32_t)b->text.buffer->n_bytes : 0;
    place where = { 0, 0 };
    bool ascii;

    HR_TRY(check_line(f, line, &ascii, at, err));
    if (line.n > (MAX_BLOCK_BYTES - end) / HR_MAX(n, 1) - 1) /* columns may overlap: each can be the whole line */
        return hr_error_set(err, HR_UNSUPPORTED, "%s: line %lld: %lld bytes in %d columns, more than %d bytes in all",
                            f->base.name, (long long)line_of(f, at), (long long)line.n, n, MAX_BLOCK_BYTES);
    HR_TRY(hr__growbuf_add(&b->starts, &end, sizeof end, err));
    HR_TRY(hr__growbuf_add(&b->lines, &at, sizeof at, err));
    for (int i = 0; i < n; i++) {
        hr_view field;
        uint32_t mark = field_of(f, line, ascii, columns[i], &where, &field) ? 0 : CSV_MISSING;

        HR_TRY(hr__growbuf_add(&b->text, field.data, field.n, err));
        end = (uint32_t)b->text.buffer->n_bytes | mark;
        b->missing |= mark != 0;
        HR_TRY(hr__growbuf_add(&b->ends, &end, sizeof end, err));
        HR_TRY(hr__growbuf_add(&b->text, "", 1, err)); /* separates it from the next one */
    }
    b->n_rows++;
    return HR_OK;
}

/* The block as the rectangle of csv_column.c. Borrowed. */
static csv_rows rows_of(const fwf_block *b, int n_columns)
{
    return (csv_rows){ .data = b->text.buffer ? b->text.buffer->data : NULL,
                       .n_rows = b->n_rows,
                       .n_columns = n_columns,
                       .starts = b->starts.buffer ? (const uint32_t *)(const void *)b->starts.buffer->data : NULL,
                       .ends = b->ends.buffer ? (const uint32_t *)(const void *)b->ends.buffer->data : NULL,
                       .missing = b->missing,
                       .is_utf8 = true };
}

/* ---------------------------------------------------------------------------------------------------------- readers */

static void fwf_close_reader(hr_reader *base)
{
    fwf_reader *r = (fwf_reader *)base;

    hr__window_clear(&r->window);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static hr_status value_error(const fwf_file *f, const fwf_block *b, const csv_rows *rows, int i, const csv_bad *bad,
                             hr_error *err)
{
    const fwf_span *span = &f->spans[f->columns[i]];
    int64_t at = ((const int64_t *)(const void *)b->lines.buffer->data)[bad->row], n;
    hr_text type = { 0 };
    char end[24] = "";
    const uint8_t *p;
    hr_status st;

    hr__csv_field(rows, bad->row, i, &p, &n);
    hr__type_print(f->types[f->columns[i]], &type);
    if (span->end != INT64_MAX)
        snprintf(end, sizeof end, "%lld", (long long)span->end);
    st = hr_error_set(err, HR_BAD_DATA,
                      "%s: line %lld, column '%s' (characters %lld:%s): expected %s, found %s%s'%.*s'%s; dtypes= says "
                      "how to read it",
                      f->base.name, (long long)line_of(f, at), f->names.items[f->columns[i]], (long long)span->begin,
                      end, type.data ? type.data : "?", bad->why ? bad->why : "", bad->why ? ", " : "",
                      (int)HR_MIN(n, 60), (const char *)p, n > 60 ? "..." : "");
    hr__text_clear(&type);
    return st;
}

static hr_status make_table(fwf_reader *r, const fwf_block *b, hr_table **out, hr_error *err)
{
    fwf_file *f = r->file;
    int n = f->base.schema->n;
    csv_rows rows = rows_of(b, n);
    hr_array **arrays = hr__zalloc(r->mem.account, ((size_t)n + 1) * sizeof *arrays);
    hr_status st = HR_OK;
    csv_bad bad;

    if (!arrays)
        return hr__error_memory(err, f->base.name, (n + 1) * (int64_t)sizeof *arrays);
    for (int i = 0; i < n; i++) {
        st = hr__csv_column(&f->values, &rows, i, f->base.schema->fields[i].type, &r->mem, &arrays[i], &bad, err);
        if (st == HR_BAD_DATA && bad.row >= 0)
            st = value_error(f, b, &rows, i, &bad, err);
        if (st)
            goto done;
    }
    st = hr__file_table(&f->base, r->fragment, r->row - b->n_rows, b->n_rows, arrays, out, err);
done:
    for (int i = 0; i < n; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

/* Adds rows to the block until it has `most` bytes or no row is left. */
static hr_status fill_block(fwf_reader *r, int64_t most, fwf_block *b, hr_error *err)
{
    const fwf_file *f = r->file;
    hr_window *w = &r->window;
    int64_t step, used = 0;
    hr_view line;

    while (!r->finished && used < most) {
        r->finished = w->at >= r->end || r->row >= r->rows_end;
        if (r->finished)
            break;
        HR_TRY(next_line(f, w, &line, &step, err));
        if (step == 0) {
            r->finished = true;
        } else if (!f->options->csv.ignore_empty_lines || !is_blank(f, line)) {
            if (r->row++ >= r->row_begin) {
                HR_TRY(add_row(f, f->columns, f->base.schema->n, line, w->at, b, err));
                used = (b->text.buffer ? b->text.buffer->n_bytes : 0) + b->n_rows * 16;
            }
        }
        HR_TRY(hr__window_skip(w, step, &step, err));
    }
    return HR_OK;
}

static hr_status fwf_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    fwf_reader *r = (fwf_reader *)base;
    hr_mem *mem = &r->scratch;
    fwf_block b = { .text.mem = mem, .starts.mem = mem, .ends.mem = mem, .lines.mem = mem };
    hr_status st = HR_OK;

    HR_GO(fill_block(r, HR_MIN(HR_MAX(max_bytes, 4096), TABLE_BYTES), &b, err));
    if (b.n_rows > 0)
        st = make_table(r, &b, out, err);
done:
    block_clear(&b);
    return st;
}

static const hr_reader_class fwf_reader_class = { .next = fwf_next, .close = fwf_close_reader };

/* Moves to the fragment's first line. */
static hr_status start_reader(fwf_reader *r, hr_error *err)
{
    const fwf_file *f = r->file;
    int64_t each = f->options->csv.fragment_bytes, begin = r->fragment * each, step;
    hr_view line;

    r->end = f->base.n_fragments == 1 ? INT64_MAX : begin + each;
    r->finished = f->begin >= r->end || r->rows_end == r->row_begin;
    if (r->finished)
        return HR_OK;
    if (begin <= f->begin) {
        HR_TRY(open_window(f, f->begin, r->mem.account, &r->window, err));
        r->window.end = r->end;
        return HR_OK;
    }
    HR_TRY(open_window(f, begin - 1, r->mem.account, &r->window, err)); /* a line may end exactly there */
    r->window.end = r->end;
    HR_TRY(next_line(f, &r->window, &line, &step, err));
    return hr__window_skip(&r->window, step, &step, err);
}

static hr_status fwf_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                          hr_reader **out, hr_error *err)
{
    fwf_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &fwf_reader_class;
    r->file = (fwf_file *)base;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->scratch = (hr_mem){ mem->account, NULL };
    r->row_begin = HR_MAX(row_begin, 0);
    r->rows_end = hr__rows_end(r->row_begin, n_rows);
    HR_GO(start_reader(r, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        fwf_close_reader(&r->base);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- columns */

/* The whole number at *text; moves *text after it. -1: none. */
static int64_t take_number(const char **text)
{
    char *end;
    long long n = **text >= '0' && **text <= '9' ? strtoll(*text, &end, 10) : -1;

    if (n >= 0)
        *text = end;
    return n < INT32_MAX ? n : -1;
}

static bool take_width(const char *text, int64_t begin, fwf_span *out)
{
    int64_t width = take_number(&text);

    *out = (fwf_span){ begin, begin + width };
    return width > 0 && !*text;
}

static bool take_colspec(const char *text, fwf_span *out)
{
    *out = (fwf_span){ take_number(&text), INT64_MAX };
    if (out->begin < 0 || *text++ != ':')
        return false;
    if (*text)
        out->end = take_number(&text);
    return !*text && out->end > out->begin;
}

/* Reads the places of columns. */
static hr_status read_spans(fwf_file *f, hr_error *err)
{
    const char *widths = f->options->widths, *colspecs = f->options->colspecs;
    bool by_width = widths && *widths, by_span = colspecs && *colspecs, good = true;
    hr_status st = HR_OK;
    csv_list list = { 0 };
    int64_t at = 0;

    if (by_width == by_span)
        return hr_error_set(err, HR_INVALID, "fwf: %s",
                            by_width ? "expected widths or colspecs, found both"
                                     : "expected widths or colspecs, found neither");
    HR_GO(hr__csv_list(by_width ? widths : colspecs, ',', &list, err));
    if (list.n > MAX_COLUMNS)
        HR_FAIL(HR_UNSUPPORTED, "fwf: %d columns, more than %d", list.n, MAX_COLUMNS);
    f->spans = hr__zalloc(f->base.account, (size_t)list.n * sizeof *f->spans);
    if (!f->spans)
        HR_GO(hr__error_memory(err, "fwf", list.n * (int64_t)sizeof *f->spans));
    for (f->n_columns = 0; f->n_columns < list.n && good; at = f->spans[f->n_columns++].end) {
        const char *item = list.items[f->n_columns];

        good = by_width ? take_width(item, at, &f->spans[f->n_columns]) : take_colspec(item, &f->spans[f->n_columns]);
        if (!good)
            HR_FAIL(HR_INVALID, "fwf: %s: '%.40s': expected %s", by_width ? "widths" : "colspecs", item,
                    by_width ? "a whole number of at least 1" : "begin:end with begin < end");
    }
done:
    hr__csv_list_clear(&list);
    return st;
}

/* Names of all columns from `n` bytes: each ends with a zero. */
static hr_status set_names(fwf_file *f, const void *text, int64_t n, hr_error *err)
{
    size_t pointers = (size_t)f->n_columns * sizeof *f->names.items;
    char *at;

    f->names.items = hr__alloc(f->base.account, pointers + (size_t)n);
    if (!f->names.items)
        return hr__error_memory(err, f->base.name, (int64_t)pointers + n);
    at = memcpy((char *)f->names.items + pointers, text, (size_t)n);
    for (; f->names.n < f->n_columns; at += strlen(at) + 1)
        f->names.items[f->names.n++] = at;
    return HR_OK;
}

/* Names from the line, which is not blank. */
static hr_status names_of_line(fwf_file *f, hr_view line, int64_t at, hr_error *err)
{
    hr_mem mem = { f->base.account, NULL };
    hr_growbuf text = { .mem = &mem };
    place where = { 0, 0 };
    hr_status st = HR_OK;
    hr_view name;
    bool ascii;

    HR_GO(check_line(f, line, &ascii, at, err));
    for (int i = 0; i < f->n_columns; i++) {
        field_of(f, line, ascii, i, &where, &name);
        if (memchr(name.data, 0, (size_t)name.n))
            HR_FAIL(HR_BAD_DATA, "%s: line %lld: the name of column %d holds a zero byte", f->base.name,
                    (long long)line_of(f, at), i);
        HR_GO(hr__growbuf_add(&text, name.data, name.n, err));
        HR_GO(hr__growbuf_add(&text, "", 1, err));
    }
    HR_GO(set_names(f, text.buffer->data, text.buffer->n_bytes, err));
done:
    hr__growbuf_clear(&text);
    return st;
}

/* f0, f1, ... */
static hr_status make_names(fwf_file *f, hr_error *err)
{
    hr_mem mem = { f->base.account, NULL };
    hr_growbuf text = { .mem = &mem };
    hr_status st = HR_OK;
    char name[16];

    for (int i = 0; i < f->n_columns; i++)
        HR_GO(hr__growbuf_add(&text, name, snprintf(name, sizeof name, "f%d", i) + 1, err));
    HR_GO(set_names(f, text.buffer->data, text.buffer->n_bytes, err));
done:
    hr__growbuf_clear(&text);
    return st;
}

/* Passes the lines before the rows, and takes the names from them or from elsewhere. */
static hr_status read_names(fwf_file *f, hr_window *w, const hr_open *how, hr_error *err)
{
    const csv_options *o = &f->options->csv;
    bool given = o->names && *o->names, in_line = o->header == CSV_HEADER_FIRST || (!o->header && !given);
    hr_view line = { NULL, 0 };
    int64_t step = 1, at = 0;

    if (given) {
        HR_TRY(hr__csv_list(o->names, ',', &f->names, err));
        if (f->names.n != f->n_columns)
            return hr_error_set(err, HR_INVALID, "fwf: %d names for %d columns", f->names.n, f->n_columns);
    }
    HR_TRY(hr__window_fill(w, 3, HR_WINDOW_BYTES, err));
    if (hr__window_left(w) >= 3 && memcmp(hr__window_data(w), "\xEF\xBB\xBF", 3) == 0)
        HR_TRY(hr__window_skip(w, 3, &at, err)); /* the byte order mark */
    for (int64_t i = 0; i < o->skip_rows && step; i++) {
        HR_TRY(next_line(f, w, &line, &step, err));
        HR_TRY(hr__window_skip(w, step, &at, err));
    }
    for (bool found = false; in_line && step && !found;) {
        at = w->at;
        HR_TRY(next_line(f, w, &line, &step, err));
        found = !is_blank(f, line);
        if (found && !given)
            HR_TRY(names_of_line(f, line, at, err));
        HR_TRY(hr__window_skip(w, step, &at, err));
    }
    f->begin = w->at;
    if (f->names.n)
        return HR_OK;
    if (in_line && !how->schema)
        return hr_error_set(
            err, HR_BAD_DATA,
            "%s: the file is empty, expected a line with the names of columns; names= or header=none reads it",
            f->base.name);
    return make_names(f, err);
}

static int column_of(const fwf_file *f, const char *name)
{
    for (int i = 0; i < f->n_columns; i++) {
        if (strcmp(f->names.items[i], name) == 0)
            return i;
    }
    return -1;
}

static hr_status missing_column(const fwf_file *f, hr_status st, const char *what, const char *name, hr_error *err)
{
    char where[4200];
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int k = 0; k < f->n_columns; k++)
        hr__near_try(&near, f->names.items[k], strlen(f->names.items[k]));
    snprintf(where, sizeof where, "%s%s", f->base.name, what);
    return hr__near_error(&near, st, where, name, err);
}

/* The projected columns, in the order of the projection. */
static hr_status choose_columns(fwf_file *f, const hr_projection *projection, int *n, hr_error *err)
{
    *n = projection && projection->n >= 0 ? projection->n : f->n_columns;
    f->columns = hr__zalloc(f->base.account, ((size_t)*n + 1) * sizeof *f->columns);
    if (!f->columns)
        return hr__error_memory(err, f->base.name, *n * (int64_t)sizeof *f->columns);
    for (int i = 0; i < *n; i++) {
        f->columns[i] = projection && projection->n >= 0 ? column_of(f, projection->names[i]) : i;
        if (f->columns[i] >= 0)
            continue;
        return missing_column(f, HR_NOT_FOUND, "", projection->names[i], err);
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ types */

static hr_status set_type(fwf_file *f, int column, hr_type *type, hr_error *err)
{
    hr_text text = { 0 };

    if (hr__csv_readable(type)) {
        hr__type_unref(f->types[column]);
        f->types[column] = hr__type_ref(type);
        return HR_OK;
    }
    hr__type_print(type, &text);
    hr_error_set(err, HR_UNSUPPORTED, "%s: column '%s': fixed-width text cannot be read as %s", f->base.name,
                 f->names.items[column], text.data ? text.data : "?");
    hr__text_clear(&text);
    return HR_UNSUPPORTED;
}

/* "name:type": the last colon parts them. */
static hr_status one_dtype(fwf_file *f, char *item, hr_error *err)
{
    char *colon = strrchr(item, ':');
    hr_type *type = NULL;
    hr_status st = HR_OK;
    int column;

    if (!colon)
        return hr_error_set(err, HR_INVALID, "fwf: dtypes: '%s': expected name:type", item);
    *colon = 0;
    column = column_of(f, item);
    if (column < 0)
        return missing_column(f, HR_INVALID, ": dtypes", item, err);
    HR_GO(hr__csv_type(colon + 1, &type, err));
    HR_GO(set_type(f, column, type, err));
done:
    hr__type_unref(type);
    return st;
}

/* Types that need no look at the rows: of the scan's schema, of dtypes, of default_type. */
static hr_status given_types(fwf_file *f, const hr_open *how, hr_error *err)
{
    const csv_options *o = &f->options->csv;
    hr_type *other = NULL;
    csv_list list = { 0 };
    hr_status st = HR_OK;

    f->types = hr__zalloc(f->base.account, (size_t)f->n_columns * sizeof *f->types);
    if (!f->types)
        return hr__error_memory(err, f->base.name, f->n_columns * (int64_t)sizeof *f->types);
    if (o->default_type && *o->default_type)
        HR_GO(hr__csv_type(o->default_type, &other, err));
    if (o->dtypes && *o->dtypes) {
        HR_GO(hr__csv_list(o->dtypes, ',', &list, err));
        for (int i = 0; i < list.n; i++)
            HR_GO(one_dtype(f, list.items[i], err));
    }
    for (int i = 0; i < f->n_columns; i++) {
        int at = how->schema ? hr__schema_find(how->schema, f->names.items[i]) : -1;

        if (at >= 0)
            HR_GO(set_type(f, i, how->schema->fields[at].type, err));
        else if (!f->types[i] && other)
            HR_GO(set_type(f, i, other, err));
    }
done:
    hr__type_unref(other);
    hr__csv_list_clear(&list);
    return st;
}

/* Types of the wanted columns that have none, from the rows that begin in the first infer_bytes. */
static hr_status infer_types(fwf_file *f, int n, hr_window *w, hr_error *err)
{
    hr_mem mem = { f->base.account, NULL };
    fwf_block b = { .text.mem = &mem, .starts.mem = &mem, .ends.mem = &mem, .lines.mem = &mem };
    hr_status st = HR_OK;
    bool needed = false;
    csv_rows rows;
    hr_view line;

    for (int i = 0; i < n; i++)
        needed |= !f->types[f->columns[i]];
    if (needed && !f->streamed)
        hr__source_ahead(f->source, w->at, f->options->csv.infer_bytes + HEAD_BYTES - w->at);
    w->end = f->options->csv.infer_bytes;
    for (int64_t step = 1; needed && w->at < f->options->csv.infer_bytes && step > 0;) {
        HR_GO(next_line(f, w, &line, &step, err));
        if (step && !is_blank(f, line))
            HR_GO(add_row(f, f->columns, n, line, w->at, &b, err));
        HR_GO(hr__window_skip(w, step, &step, err));
        if (b.text.buffer && b.text.buffer->n_bytes > f->options->csv.infer_bytes)
            break; /* columns overlap */
    }
    rows = rows_of(&b, n);
    for (int i = 0; i < n; i++) {
        if (!f->types[f->columns[i]])
            HR_GO(hr__csv_infer(&f->values, &rows, i, &f->types[f->columns[i]], err));
    }
done:
    block_clear(&b);
    return st;
}

static hr_status make_schema(fwf_file *f, int n, hr_error *err)
{
    hr_field *fields = hr__zalloc(f->base.account, ((size_t)n + 1) * sizeof *fields);
    hr_status st = HR_OK;
    int made = 0;

    if (!fields)
        return hr__error_memory(err, f->base.name, (n + 1) * (int64_t)sizeof *fields);
    for (; made < n; made++)
        HR_GO(hr__field_init(&fields[made], f->names.items[f->columns[made]], f->types[f->columns[made]], true, err));
    HR_GO(hr__schema_new(fields, n, &f->base.schema, err));
done:
    for (int i = 0; i < made; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status fwf_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    fwf_file *f = (fwf_file *)base;
    int64_t n = f->source->n_bytes, each = f->options->csv.fragment_bytes;

    (void)err;
    if (base->n_fragments > 1)
        n = HR_MIN(each, n - fragment * each);
    *out = (hr_fragment){ .n_rows = -1, .stored_bytes = n };
    out->memory_bytes = n / f->n_columns * HR_MIN(base->schema->n, f->n_columns) * (f->codec ? 5 : 1);
    return HR_OK;
}

static void fwf_ahead(hr_scan_file *base, int fragment)
{
    fwf_file *f = (fwf_file *)base;

    hr__source_ahead(f->source, fragment * f->options->csv.fragment_bytes, f->options->csv.fragment_bytes);
}

static void fwf_close(hr_scan_file *base)
{
    fwf_file *f = (fwf_file *)base;

    for (int i = 0; f->types && i < f->n_columns; i++)
        hr__type_unref(f->types[i]);
    hr__free(f->types);
    hr__free(f->columns);
    hr__free(f->spans);
    hr__csv_list_clear(&f->names);
    hr__csv_words_clear(&f->values.nulls);
    hr__csv_words_clear(&f->values.trues);
    hr__csv_words_clear(&f->values.falses);
    hr__source_unref(f->source);
}

static const hr_scan_file_class fwf_file_class = {
    .fragment = fwf_fragment,
    .read = fwf_read,
    .ahead = fwf_ahead,
    .close = fwf_close,
};

static hr_status set_values(fwf_file *f, hr_error *err)
{
    const csv_options *o = &f->options->csv;

    for (const char *p = f->options->fill ? f->options->fill : ""; *p; p++) {
        if ((uint8_t)*p >= 0x80)
            return hr_error_set(err, HR_INVALID, "fwf: fill: expected only ASCII characters");
        f->fills[(uint8_t)*p] = true;
    }
    f->values.options = o;
    HR_TRY(hr__csv_words_init(&f->values.nulls, o->null_values, err));
    HR_TRY(hr__csv_words_init(&f->values.trues, o->true_values, err));
    HR_TRY(hr__csv_words_init(&f->values.falses, o->false_values, err));
    f->values.plain_values = hr__csv_plain_values(&f->values);
    return HR_OK;
}

static hr_status split_fragments(fwf_file *f, hr_error *err)
{
    int64_t each = f->options->csv.fragment_bytes, n = HR_ROUND_UP(f->source->n_bytes, each) / each;

    f->base.n_rows = f->source->n_bytes == 0 ? 0 : -1;
    if (f->streamed && f->source->n_bytes > 0)
        n = 1;
    if (n > 1 << 24)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: fragment_bytes of %lld make %lld fragments", f->base.name,
                            (long long)each, (long long)n);
    f->base.n_fragments = (int)n;
    return HR_OK;
}

/* With the end of the last line. */
static int64_t fwf_type_bytes(const void *options)
{
    int64_t n = hr__csv_type_bytes(&((const fwf_options *)options)->csv);

    return n ? n + HEAD_BYTES : 0;
}

static hr_status fwf_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_window w = { 0 };
    uint8_t head[16];
    fwf_file *f;
    int64_t n;
    int n_wanted;

    *out = NULL;
    HR_GO(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    HR_GO(hr__scan_file_new(&fwf_file_class, sizeof *f, source->name, how->account, out, err));
    f = (fwf_file *)*out;
    f->source = hr__source_ref(source);
    f->options = how->options;
    f->codec = hr__codec_guess(source->name, (hr_view){ head, n });
    f->recode = !hr__encoding_is_utf8(f->options->csv.encoding);
    f->streamed = f->codec || f->recode;
    HR_GO(set_values(f, err));
    HR_GO(read_spans(f, err));
    HR_GO(split_fragments(f, err));
    HR_GO(open_window(f, 0, how->account, &w, err));
    w.end = HEAD_BYTES;
    HR_GO(read_names(f, &w, how, err));
    HR_GO(choose_columns(f, how->projection, &n_wanted, err));
    HR_GO(given_types(f, how, err));
    HR_GO(infer_types(f, n_wanted, &w, err));
    HR_GO(make_schema(f, n_wanted, err));
done:
    hr__window_clear(&w);
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

const hr_format hr__format_fwf = {
    .name = "fwf",
    .suffixes = "fwf",
    .doc = "one row per line; each column is a range of characters",
    .options = fwf_option_table,
    .options_bytes = sizeof(fwf_options),
    .type_bytes = fwf_type_bytes,
    .open = fwf_open,
};
