/* json_rows.c - a file's bytes, block by block, and the begin of each row in them.
 *
 * Three layouts. LINES: a row has no newline inside; so a file can be cut anywhere, a line belongs to the fragment that
 * holds its first byte (as in text.c), and an error in a line ends with the line. ARRAY: one array, whose elements are
 * the rows. SEQUENCE: objects one after another, each over any number of lines. The reader reads the last two from the
 * beginning to the end, and parses an element when the block holds all of it.
 *
 * The reader appends a block to the rest of the last one, and indexes it whole. If the index finds a raw control
 * character in a string (most often: a string that is not closed, so that the inside and outside of all later strings
 * are swapped) or bytes that are not UTF-8, LINES continues in careful mode: it indexes and checks each line by itself.
 *
 * Tests: test_json.c. */
#include "format/json/json.h"

#include <stdarg.h>
#include <stdio.h>

#define MAX_ROW_BYTES (1 << 30)
#define TAIL_BYTES (1 << 10)   /* first read after a fragment for the end of its last line; each further read doubles */
#define LAYOUT_BYTES (1 << 20) /* a longer first row counts as a line */

int64_t hr__json_block_bytes = 256 << 10; /* with its index it stays in the second-level cache */

enum { BEFORE_ARRAY, FIRST_ELEMENT, BEHIND_ELEMENT, NEXT_ELEMENT, BEHIND_ARRAY };

/* ----------------------------------------------------------------------------------------------------------- errors */

static hr_status open_stream(const hr_json_file *f, hr_account *account, hr_stream **out, hr_error *err)
{
    return f->codec ? hr__codec_stream(f->codec, f->source, account, out, err)
                    : hr__stream_new(f->source, account, out, err);
}

int64_t hr__json_line(const hr_json_file *f, int64_t at, int64_t *column)
{
    int64_t line = 1, begin = 0, done = 0, n_read = 1, cap = 64 << 10;
    uint8_t *bytes = hr__alloc(NULL, (size_t)cap);
    hr_stream *s = NULL;

    if (!bytes || open_stream(f, NULL, &s, NULL))
        line = 0;
    while (line && done < at && n_read > 0) {
        if (hr__stream_read(s, bytes, HR_MIN(cap, at - done), &n_read, NULL)) {
            line = 0;
            break;
        }
        for (const uint8_t *p = bytes; (p = memchr(p, '\n', (size_t)(bytes + n_read - p))); p++) {
            line++;
            begin = done + (p - bytes) + 1;
        }
        done += n_read;
    }
    *column = at - begin + 1;
    hr__stream_close(s);
    hr__free(bytes);
    return line;
}

hr_status hr__json_error(const hr_json_rows *r, int64_t at, hr_error *err, hr_status st, const char *fmt, ...)
{
    int64_t column, line = err ? hr__json_line(r->file, r->base + at, &column) : 0;
    char what[400];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (line == 0)
        return hr_error_set(err, st, "%s: byte %lld: %s", r->file->source->name, (long long)(r->base + at), what);
    return hr_error_set(err, st, "%s: line %lld, column %lld: %s", r->file->source->name, (long long)line,
                        (long long)column, what);
}

static hr_status bad_control(const hr_json_rows *r, int64_t at, hr_error *err)
{
    uint8_t c = r->buffer->data[at];

    if (c == '\n')
        return hr__json_error(r, at, err, HR_BAD_DATA, "the line ends within a string: expected '\"'");
    return hr__json_error(r, at, err, HR_BAD_DATA, "control character 0x%02x in a string: expected \\u%04x", c, c);
}

static hr_status bad_utf8(const hr_json_rows *r, int64_t begin, int64_t end, hr_error *err)
{
    const uint8_t *p = r->buffer->data;
    int64_t at = begin;

    while (at < end) { /* one character after another */
        int64_t length = p[at] >= 0xf0 ? 4 : p[at] >= 0xe0 ? 3 : p[at] >= 0xc0 ? 2 : 1;

        if (at + length > end || !hr__utf8_valid(p + at, length))
            break;
        at += length;
    }
    return hr__json_error(r, at, err, HR_BAD_DATA, "0x%02x is not UTF-8", at < end ? p[at] : 0);
}

/* ----------------------------------------------------------------------------------------------------------- blocks */

static hr_status fill(hr_json_rows *r, int64_t want, hr_error *err)
{
    int64_t n_read = 0, cap = r->buffer ? r->buffer->n_bytes : 0;
    hr_buffer *wider;

    want = r->at == 0 ? HR_MAX(want, 3) : want; /* all of a byte order mark */
    if (cap < r->n + want + HR_SLACK) {         /* the slack is written, too: a newline after the last line */
        HR_TRY(hr__buffer_new(&r->mem, HR_MAX(r->n + want, r->n * 2) + HR_SLACK, &wider, err));
        if (r->n)
            memcpy(wider->data, r->buffer->data, (size_t)r->n);
        hr__buffer_unref(r->buffer);
        r->buffer = wider;
    }
    if (r->stream)
        HR_TRY(hr__stream_read(r->stream, r->buffer->data + r->n, want, &n_read, err));
    else
        HR_TRY(hr__source_read_some(r->file->source, r->buffer->data + r->n, r->at, want, &n_read, err));
    if (r->at == 0 && n_read >= 3 && memcmp(r->buffer->data, "\xef\xbb\xbf", 3) == 0)
        memset(r->buffer->data, ' ', 3); /* a byte order mark */
    r->at += n_read;
    r->n += n_read;
    r->ended = n_read < want;
    if (r->n > MAX_ROW_BYTES)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: byte %lld: a row of more than %d bytes", r->file->source->name,
                            (long long)r->base, MAX_ROW_BYTES);
    return HR_OK;
}

/* Removes the first n bytes of the block. */
static void drop_bytes(hr_json_rows *r, int64_t n)
{
    if (n > 0 && n < r->n)
        memmove(r->buffer->data, r->buffer->data + n, (size_t)(r->n - n));
    r->base += n;
    r->n -= n;
    r->n_usable = 0;
    r->token = r->tokens.n = 0;
}

/* Finds the end of the fragment's whole lines in the block, whose bytes from `from` on are new. Sets `last` if the
 * block holds the fragment's last line. */
static void find_lines(hr_json_rows *r, int64_t from)
{
    uint8_t *p = r->buffer->data, *newline;
    int64_t border = r->end - 1 - r->base; /* the line with this byte is the fragment's last one */

    if (r->in_line && (newline = memchr(p + from, '\n', (size_t)(r->n - from)))) {
        r->in_line = false;
        r->last = r->base + (newline - p) + 1 >= r->end;
        drop_bytes(r, newline - p + 1);
        border = r->end - 1 - r->base;
        from = 0;
    } else if (r->in_line) {
        r->last = r->ended || r->at >= r->end; /* neither this nor any later line belongs to the fragment */
    }
    if (r->in_line || r->last) {
        r->n_usable = 0;
        return;
    }
    if (border < r->n) {
        from = HR_MAX(from, border);
        newline = memchr(p + from, '\n', (size_t)(r->n - from));
        r->last = newline != NULL;
    } else {
        newline = memrchr(p + from, '\n', (size_t)(r->n - from));
    }
    r->n_usable = newline ? newline - p + 1 : 0;
    if (r->ended && !r->last) {
        if (r->n > 0 && p[r->n - 1] != '\n')
            p[r->n++] = '\n';
        r->n_usable = r->n;
        r->last = true;
    }
}

static hr_status next_lines(hr_json_rows *r, hr_error *err)
{
    int64_t beyond = TAIL_BYTES;

    drop_bytes(r, r->n_usable);
    do {
        int64_t from = r->n, inside = r->stream ? INT64_MAX : HR_MAX(r->end - r->at, 0);
        int64_t want = HR_MAX(hr__json_block_bytes, r->n);

        if (inside < want) {
            want = HR_MIN(want, inside + beyond);
            beyond *= 2;
        }
        HR_TRY(fill(r, want, err));
        find_lines(r, from);
    } while (!r->n_usable && !r->last);
    HR_TRY(hr__json_index(&r->mem, r->buffer->data, 0, r->n_usable, true, &r->tokens, err));
    r->careful = r->tokens.control >= 0 || (r->tokens.has_high && !hr__utf8_valid(r->buffer->data, r->n_usable));
    if (r->careful)
        r->line = r->tokens.n = 0;
    return HR_OK;
}

/* Makes a block of the bytes from n_usable on, and further bytes. */
static hr_status next_part(hr_json_rows *r, hr_error *err)
{
    drop_bytes(r, r->n_usable);
    HR_TRY(fill(r, HR_MAX(hr__json_block_bytes, r->n), err));
    r->buffer->data[r->n] = '\n'; /* the spare places of the index point to it: no value continues there */
    return hr__json_index(&r->mem, r->buffer->data, 0, r->n, false, &r->tokens, err);
}

/* ------------------------------------------------------------------------------------------------------------ lines */

/* Indexes the next line by itself, into the tokens of the block. */
static hr_status next_line(hr_json_rows *r, bool *skippable, hr_error *err)
{
    const uint8_t *p = r->buffer->data, *newline = memchr(p + r->line, '\n', (size_t)(r->n_usable - r->line));
    int64_t begin = r->line;

    r->line = newline - p + 1;
    r->token = 0;
    r->row_begin = begin;
    HR_TRY(hr__json_index(&r->mem, p, begin, r->line, true, &r->tokens, err));
    *skippable = true;
    if (r->tokens.has_high && !hr__utf8_valid(p + begin, r->line - begin))
        return bad_utf8(r, begin, r->line, err);
    if (r->tokens.control >= 0)
        return bad_control(r, r->tokens.control, err);
    *skippable = false;
    return HR_OK;
}

static hr_status next_of_lines(hr_json_rows *r, bool *more, bool *skippable, hr_error *err)
{
    for (;;) {
        while (r->token < r->tokens.n && r->buffer->data[r->tokens.at[r->token]] == '\n')
            r->token++;
        if (r->token < r->tokens.n) {
            r->row_begin = r->tokens.at[r->token];
            *more = true;
            return HR_OK;
        }
        if (r->careful && r->line < r->n_usable)
            HR_TRY(next_line(r, skippable, err));
        else if (r->last)
            return HR_OK;
        else
            HR_TRY(next_lines(r, err));
    }
}

/* --------------------------------------------------------------------------------------------- arrays and sequences */

/* The token after the value that begins at `token`; -1: the value continues after the block. */
static int64_t value_end(const hr_json_rows *r, int64_t token)
{
    const uint8_t *p = r->buffer->data;
    int64_t depth = 0, n = r->tokens.n;

    for (int64_t i = token; i < n; i++) {
        uint8_t c = p[r->tokens.at[i]];

        if (c == '{' || c == '[') {
            depth++;
        } else if (c == '}' || c == ']') {
            if (--depth <= 0)
                return i + 1;
        } else if (c == '"') {
            if (++i < n && depth == 0)
                return i + 1;
        } else if (depth == 0) {
            return i + 1 < n ? i + 1 : -1; /* the number or word may continue */
        }
    }
    return -1;
}

/* Brackets and commas between elements. *element: one begins at r->token. */
static hr_status between(hr_json_rows *r, bool *element, hr_error *err)
{
    int64_t at = r->tokens.at[r->token];
    uint8_t c = r->buffer->data[at];

    *element = false;
    switch (r->state) {
    case BEFORE_ARRAY:
        if (c != '[')
            return hr__json_error(r, at, err, HR_BAD_DATA, "expected '[', the beginning of an array of rows, found %s",
                                  hr__json_what(r->buffer->data + at));
        r->state = FIRST_ELEMENT;
        r->token++;
        return HR_OK;
    case BEHIND_ELEMENT:
        if (c != ',' && c != ']')
            return hr__json_error(r, at, err, HR_BAD_DATA, "expected ',' or ']' after an element, found %s",
                                  hr__json_what(r->buffer->data + at));
        r->state = c == ',' ? NEXT_ELEMENT : BEHIND_ARRAY;
        r->token++;
        return HR_OK;
    case BEHIND_ARRAY:
        return hr__json_error(r, at, err, HR_BAD_DATA, "expected the end of the file after the array, found %s",
                              hr__json_what(r->buffer->data + at));
    default:
        if (c == ']' && r->state == FIRST_ELEMENT) {
            r->state = BEHIND_ARRAY;
            r->token++;
            return HR_OK;
        }
        *element = true;
        return HR_OK;
    }
}

/* The value at r->token; *more false: the block does not hold all of it yet. */
static hr_status whole_value(hr_json_rows *r, bool *more, hr_error *err)
{
    int64_t end, end_at;

    *more = false;
    r->row_begin = r->tokens.at[r->token];
    end = value_end(r, r->token);
    if (end < 0 && !r->ended)
        return HR_OK;
    r->token_end = end < 0 ? r->tokens.n : end;
    end_at = end < 0 ? r->n : r->tokens.at[end];
    if (r->tokens.control >= 0 && r->tokens.control < end_at)
        return bad_control(r, r->tokens.control, err);
    if (r->tokens.has_high && !hr__utf8_valid(r->buffer->data + r->row_begin, end_at - r->row_begin))
        return bad_utf8(r, r->row_begin, end_at, err);
    *more = true;
    return HR_OK;
}

static hr_status next_value(hr_json_rows *r, bool *more, hr_error *err)
{
    bool element;

    for (;;) {
        while (r->token < r->tokens.n) {
            element = true;
            if (r->file->layout == HR_JSON_ARRAY)
                HR_TRY(between(r, &element, err));
            if (!element)
                continue;
            HR_TRY(whole_value(r, more, err));
            if (*more) {
                r->state = BEHIND_ELEMENT;
                return HR_OK;
            }
            break;
        }
        r->n_usable = r->token < r->tokens.n ? r->tokens.at[r->token] : r->n;
        if (r->ended)
            break;
        HR_TRY(next_part(r, err));
    }
    if (r->file->layout == HR_JSON_ARRAY && r->state != BEFORE_ARRAY && r->state != BEHIND_ARRAY)
        return hr__json_error(r, r->n, err, HR_BAD_DATA, "the file ends within the array of rows: expected ']'");
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

hr_status hr__json_rows_open(const hr_json_file *file, hr_account *account, int64_t begin, int64_t end,
                             hr_json_rows *out, hr_error *err)
{
    *out = (hr_json_rows){ .file = file, .mem = { account, NULL }, .end = end, .tokens = { .control = -1 } };
    if (file->codec)
        return hr__codec_stream(file->codec, file->source, account, &out->stream, err);
    out->in_line = begin > 0; /* until a newline, which may be the byte before */
    out->at = out->base = begin - out->in_line;
    return HR_OK;
}

void hr__json_rows_clear(hr_json_rows *r)
{
    hr__stream_close(r->stream);
    hr__buffer_unref(r->buffer);
    hr__json_tokens_clear(&r->tokens);
    r->stream = NULL;
    r->buffer = NULL;
}

hr_status hr__json_rows_next(hr_json_rows *r, bool *more, bool *skippable, hr_error *err)
{
    *more = *skippable = false;
    return r->file->layout == HR_JSON_LINES ? next_of_lines(r, more, skippable, err) : next_value(r, more, err);
}

void hr__json_rows_parsed(hr_json_rows *r, int64_t token) { r->token = token; }

void hr__json_rows_skip(hr_json_rows *r)
{
    if (r->file->layout != HR_JSON_LINES) {
        r->token = r->token_end;
        return;
    }
    while (r->token < r->tokens.n && r->buffer->data[r->tokens.at[r->token]] != '\n')
        r->token++;
}

/* ----------------------------------------------------------------------------------------------------------- layout */

/* The layout by a line that begins with '{'; *says false: unknown, the line is an empty object. */
static hr_status layout_of(const uint8_t *p, int64_t newline, hr_account *account, int *out, bool *says, hr_error *err)
{
    hr_mem mem = { account, NULL };
    hr_json_tokens t = { .control = -1 };
    int64_t depth = 0;

    HR_TRY(hr__json_index(&mem, p, 0, newline + 1, true, &t, err));
    for (int64_t i = 0; i < t.n; i++) {
        uint8_t c = p[t.at[i]];

        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        i += c == '"';
    }
    /* A newline within a string is wrong in any layout: a line is cut there */
    *out = depth > 0 && t.control != newline ? HR_JSON_SEQUENCE : HR_JSON_LINES;
    *says = !(depth == 0 && t.n == 3 && p[t.at[1]] == '}'); /* two brackets and the newline */
    hr__json_tokens_clear(&t);
    return HR_OK;
}

static int64_t skip_blanks(const hr_json_rows *r, int64_t at)
{
    while (at < r->n && (hr__json_class[r->buffer->data[at]] & 2))
        at++;
    return at;
}

/* The next line of the head that is not blank: from *begin to *newline; NULL: the line does not begin with '{', is too
 * long, or is the last one and has no end. */
static hr_status line_of_head(hr_json_rows *r, int64_t *begin, const uint8_t **newline, hr_error *err)
{
    for (*newline = NULL;;) {
        *begin = skip_blanks(r, *begin);
        if (*begin < r->n && r->buffer->data[*begin] != '{')
            return HR_OK;
        if (*begin < r->n)
            *newline = memchr(r->buffer->data + *begin, '\n', (size_t)(r->n - *begin));
        if (*newline || r->ended || r->n >= LAYOUT_BYTES)
            return HR_OK;
        HR_TRY(fill(r, HR_MAX(4096, r->n), err));
    }
}

hr_status hr__json_layout(hr_json_file *f, hr_account *account, hr_error *err)
{
    hr_status st = HR_OK;
    hr_json_rows r = { 0 };
    const uint8_t *newline = NULL;
    int64_t begin = 0;
    bool says = false, first = true;

    HR_GO(hr__json_rows_open(f, account, 0, INT64_MAX / 2, &r, err));
    f->layout = HR_JSON_LINES;
    for (; !says; first = false) {
        HR_GO(line_of_head(&r, &begin, &newline, err));
        if (first && begin < r.n && r.buffer->data[begin] == '[')
            f->layout = HR_JSON_ARRAY;
        if (!newline)
            break;
        HR_GO(layout_of(r.buffer->data + begin, newline - r.buffer->data - begin, account, &f->layout, &says, err));
        begin = newline - r.buffer->data + 1;
    }
done:
    hr__json_rows_clear(&r);
    return st;
}
