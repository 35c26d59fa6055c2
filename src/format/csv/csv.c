/* csv.c - comma-separated values: files of rows of text, with quotes.
 *
 * A plain file is cut into fragments of equal bytes; a row belongs to the fragment that holds its first byte. Quotes
 * may hide newlines, so all bytes before a fragment decide whether it begins inside quotes. Each fragment is a function
 * from the four states of the automaton (csv_index.c) to themselves. csv_shared keeps the known values of these
 * functions, and begin_state() chains them: the split is exact, in any order and on any threads. Escapes and comments
 * need more than four states: a file with either, and a compressed or recoded file, is one fragment.
 *
 * Which function runs in which path:
 *
 *   open       new_shared, read_head: names (head_row, take_names), types that are given (given_types) or inferred from
 *              the first rows (infer_types: hr__csv_cut, hr__csv_infer); split_fragments; make_file
 *   project    csv_project makes another view of the same csv_shared; it opens the file anew only if a type is missing
 *
 *   a reader   whole fragment                               block by block
 *     when     several fragments of 8 MiB at most, quotes   one fragment, larger ones, no quotes, short rows filled up,
 *              (may_be_whole)                               empty lines kept
 *     begins   start_reader only seeks                      begin_state_alone: make_function reads the fragment for its
 *                                                           function first, since others wait for it; then skip_to_row
 *                                                           walks (hr__csv_walk) to the first row
 *     reads    next_block: all of it at once                next_block: 512 KiB; more if a row is longer (fill)
 *     indexes  index_fragment guesses the state from two    index_block
 *              bytes, indexes, notes the function, asks
 *              begin_state for the true state, and indexes
 *              again if the guess was wrong
 *     both     csv_next: next_rows, cut_rows, make_table
 *
 *   step       fast path                                    else
 *     fields   a kernel of csv_index.c, 64 bytes a step     index_walking, byte by byte: escapes, comments, quotes that
 *                                                           are not doubled
 *     rows     cut_rectangle: every n-th end is a newline   cut_by_row: ragged rows, empty lines, comments
 *     values   `quick` of EACH_VALUE (csv_column.c): the    text_of unquotes and looks for null; take_*() reads what
 *              bytes are the value                          pyarrow reads as well
 *     types    pass_numbers (csv_infer.c)                   all_fit, type after type
 *
 * line_of, ragged_error and value_error run only for errors, and may read the file once more. */
#include "format/csv/csv.h"

#include <stdio.h>

#define BLOCK_BYTES (512 << 10) /* bytes of a block, if rows are not longer; a block becomes a table */
#define TABLE_BYTES                                                                                                    \
    (2 << 20) /* the same for a fragment that is read at once: few tables, since few may wait for their turn */
#define WHOLE_BYTES (8 << 20)   /* fragments up to this length are read and indexed at once */
#define INDEX_BYTES (64 << 10)  /* bytes for which the index reserves room at once */
#define TAIL_BYTES (2 << 10)    /* first read after a fragment for the end of its last row; each further read doubles */
#define STATE_BYTES (256 << 10) /* bytes to read at once to compute only the state */
#define MAX_COLUMNS (1 << 20)

/* State that all views of one open file share. */
typedef struct csv_shared {
    atomic_int refs;
    hr_source *source;
    hr_account *account;
    const hr_codec *codec; /* NULL: plain */
    bool streamed;         /* compressed or recoded */
    csv_values values;
    int n_columns;
    csv_list names;
    hr_type **types;             /* NULL: neither known nor projected */
    int64_t begin;               /* of the rows, in the (decoded) file */
    int n_fragments, first;      /* the fragment in which the rows begin */
    _Atomic uint16_t *functions; /* two bits for each state; the value is known if the bit 0x100 << state is set */
    _Atomic uint8_t *begins;     /* 0: not known; otherwise 1 + the state at the fragment's begin */
} csv_shared;

typedef struct csv_file {
    hr_scan_file base;
    csv_shared *shared;
    int *columns; /* of the schema: numbers in the file */
    hr_skipped *skipped;
} csv_file;

typedef struct csv_input {
    csv_shared *s;
    hr_stream *stream; /* NULL: read at `at` */
    int64_t at;
    bool ended;
} csv_input;

typedef struct csv_reader {
    hr_reader base;
    csv_file *file;
    csv_shared *s;
    int fragment;
    hr_mem mem, scratch;
    csv_input in;
    int64_t end; /* rows that begin here or later belong to the next fragment */
    int64_t row, row_begin, rows_end;
    bool finished, skipping; /* skipping: to the fragment's first row */
    bool whole;              /* the block holds the whole fragment */
    bool texts;              /* some column is of strings */
    bool open_quote;         /* the file ends, and the block with it, inside quotes */
    csv_state state;         /* while skipping: the state before the byte `skip_at` of the block */
    hr_buffer *block, *places, *lines;
    int64_t n, at;  /* bytes in the block; its offset in the file */
    int64_t used;   /* bytes of the block that tables have used */
    bool indexed;   /* the block is indexed since the last read */
    csv_ends index; /* index of the rest of the block, in `places` and `lines` */
    csv_cutter cutter;
    csv_rows rows; /* rows of the next table */
    int64_t next;  /* the first of these rows that no table has */
} csv_reader;

/* ------------------------------------------------------------------------------------------------------------ bytes */

static hr_status input_open(csv_shared *s, int64_t at, csv_input *in, hr_error *err)
{
    *in = (csv_input){ .s = s, .at = at };
    if (!s->streamed)
        return HR_OK;
    HR_TRY(hr__codec_stream(s->codec, s->source, s->account, &in->stream, err));
    if (hr__csv_is_utf8_name(s->values.options->encoding))
        return HR_OK;
    return hr__csv_decode(in->stream, s->source->name, s->values.options->encoding, s->values.options->encoding_errors,
                          s->account, &in->stream, err);
}

static void input_close(csv_input *in)
{
    hr__stream_close(in->stream);
    in->stream = NULL;
}

static hr_status input_read(csv_input *in, uint8_t *out, int64_t n, int64_t *n_read, hr_error *err)
{
    if (in->stream)
        HR_TRY(hr__stream_read(in->stream, out, n, n_read, err));
    else
        HR_TRY(hr__source_read_some(in->s->source, out, in->at, n, n_read, err));
    in->at += *n_read;
    in->ended = *n_read < n;
    return HR_OK;
}

/* The number of the line that holds byte `at`, as an editor counts. Reads the file once more: only for errors. */
static int64_t line_of(csv_shared *s, int64_t at)
{
    int64_t line = 1, left = at, n = 1;
    uint8_t *buffer = hr__alloc(s->account, STATE_BYTES), last = 0;
    csv_input in = { 0 };

    if (!buffer || input_open(s, 0, &in, NULL))
        left = 0;
    while (left > 0 && n > 0) {
        if (input_read(&in, buffer, HR_MIN(left, STATE_BYTES), &n, NULL))
            break;
        for (int64_t i = 0; i < n; i++) {
            line += buffer[i] == '\n' ? last != '\r' : buffer[i] == '\r';
            last = buffer[i];
        }
        left -= n;
    }
    input_close(&in);
    hr__free(buffer);
    return line;
}

/* --------------------------------------------------------------------------------------------- states of fragments */

static int64_t fragment_begin(const csv_shared *s, int fragment)
{
    return HR_MAX(fragment * s->values.options->fragment_bytes, s->begin);
}

static int64_t fragment_end(const csv_shared *s, int fragment)
{
    return HR_MIN((fragment + (int64_t)1) * s->values.options->fragment_bytes, s->source->n_bytes);
}

static csv_state state_after(const csv_dialect *d, const uint8_t *data, int64_t n, csv_state state)
{
    if (n > 0 && !memchr(data, d->quote, (size_t)n)) {
        bool begin = data[n - 1] == d->delimiter || data[n - 1] == '\n' || data[n - 1] == '\r';

        return state == CSV_QUOTED ? CSV_QUOTED : begin ? CSV_BEGIN : CSV_UNQUOTED;
    }
    hr__csv_index(d, data, n, &state, NULL);
    return state == CSV_ROW ? CSV_BEGIN : state;
}

static bool function_of(csv_shared *s, int fragment, csv_state from, csv_state *to)
{
    unsigned function = atomic_load(&s->functions[fragment]);

    *to = (csv_state)(function >> (from * 2) & 3);
    return function >> 8 & 1u << from;
}

static void note_function(csv_shared *s, int fragment, csv_state from, csv_state to)
{
    uint16_t old = atomic_load(&s->functions[fragment]);

    while (!(old >> 8 & 1u << from) && /* two computations may differ without effect: the first one stays */
           !atomic_compare_exchange_weak(&s->functions[fragment], &old,
                                         (uint16_t)(old | 0x100u << from | (unsigned)to << (from * 2)))) {}
}

static hr_status make_function(csv_shared *s, int fragment, csv_state from, hr_error *err)
{
    int64_t at = fragment_begin(s, fragment), end = fragment_end(s, fragment), n;
    uint8_t *buffer = hr__zalloc(s->account, STATE_BYTES + HR_SLACK);
    csv_state state = from;
    hr_status st = HR_OK;

    if (!buffer)
        return hr__error_memory(err, s->source->name, STATE_BYTES + HR_SLACK);
    for (; at < end; at += n) {
        n = HR_MIN(end - at, STATE_BYTES);
        HR_GO(hr__source_read(s->source, buffer, at, n, err));
        buffer[n] = 0;
        state = state_after(&s->values.dialect, buffer, n, state);
    }
    note_function(s, fragment, from, state);
done:
    hr__free(buffer);
    return st;
}

/* Guesses the state between two bytes; next < 0: no byte follows. */
static csv_state guess_state(const csv_dialect *d, uint8_t last, int next)
{
    if (last == d->delimiter || last == '\n' || last == '\r')
        return CSV_BEGIN;
    if (last == d->quote)
        return next < 0 || next == d->delimiter || next == '\n' || next == '\r' ? CSV_CLOSED : CSV_QUOTED;
    return CSV_UNQUOTED;
}

/* The state in which a fragment begins. */
static hr_status begin_state(csv_shared *s, int fragment, csv_state *out, hr_error *err)
{
    int known = fragment;
    csv_state state = CSV_BEGIN;

    *out = CSV_BEGIN;
    if (!s->values.dialect.quote || fragment <= s->first) {
        *out = s->values.dialect.quote ? CSV_BEGIN : CSV_UNQUOTED; /* without quotes only newlines matter */
        return HR_OK;
    }
    while (known > s->first && !atomic_load(&s->begins[known]))
        known--;
    if (known > s->first)
        state = (csv_state)(atomic_load(&s->begins[known]) - 1);
    for (; known < fragment; known++) {
        csv_state next;

        if (!function_of(s, known, state, &next)) {
            HR_TRY(make_function(s, known, state, err));
            function_of(s, known, state, &next);
        }
        state = next;
        atomic_store(&s->begins[known + 1], (uint8_t)(state + 1));
    }
    *out = state;
    return HR_OK;
}

/* For fragments that are not indexed as a whole: computes the fragment's own function first, since the fragments after
 * it wait for it. */
static hr_status begin_state_alone(csv_shared *s, int fragment, csv_state *out, hr_error *err)
{
    csv_state guess, to;
    uint8_t around[2];

    if (s->values.dialect.quote && fragment > s->first && fragment + 1 < s->n_fragments) {
        HR_TRY(hr__source_read(s->source, around, fragment_begin(s, fragment) - 1, 2, err));
        guess = guess_state(&s->values.dialect, around[0], around[1]);
        if (!function_of(s, fragment, guess, &to))
            HR_TRY(make_function(s, fragment, guess, err));
    }
    return begin_state(s, fragment, out, err);
}

/* ---------------------------------------------------------------------------------------------------------- readers */

static void csv_close_reader(hr_reader *base)
{
    csv_reader *r = (csv_reader *)base;

    input_close(&r->in);
    hr__buffer_unref(r->block);
    hr__buffer_unref(r->places);
    hr__buffer_unref(r->lines);
    hr__csv_cutter_clear(&r->cutter);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

/* Room for `more` bytes after the block's n. */
static hr_status block_reserve(csv_reader *r, int64_t more, hr_error *err)
{
    hr_buffer *wider = NULL;
    int64_t need = r->n + more;

    if (!r->block || r->block->n_bytes < need) {
        HR_TRY(hr__buffer_new(&r->scratch, r->block ? HR_MAX(need, r->block->n_bytes * 2) : need, &wider, err));
        if (r->n)
            memcpy(wider->data, r->block->data, (size_t)r->n);
        hr__buffer_unref(r->block);
        r->block = wider;
    }
    return HR_OK;
}

/* Room for `more` numbers after n; a new buffer has room for `least` numbers or more. */
static hr_status numbers_reserve(const hr_mem *mem, hr_buffer **b, uint32_t **numbers, int64_t n, int64_t more,
                                 int64_t least, hr_error *err)
{
    int64_t need = (n + more) * (int64_t)sizeof **numbers;
    hr_buffer *wider = NULL;

    if (*b && (*b)->n_bytes >= need)
        return HR_OK;
    HR_TRY(hr__buffer_new(mem, HR_MAX(need + need / 2, least * (int64_t)sizeof **numbers), &wider, err));
    if (n)
        memcpy(wider->data, (*b)->data, (size_t)n * sizeof **numbers);
    hr__buffer_unref(*b);
    *b = wider;
    *numbers = (uint32_t *)(void *)wider->data;
    return HR_OK;
}

/* Appends the index of bytes [begin, end) of the block. */
static hr_status index_range(csv_reader *r, int64_t begin, int64_t end, csv_state *state, hr_error *err)
{
    for (int64_t n; begin < end; begin += n) {
        n = HR_MIN(end - begin, INDEX_BYTES);
        HR_TRY(numbers_reserve(&r->scratch, &r->places, &r->index.items, r->index.n, n + 16, r->n / 8, err));
        HR_TRY(
            numbers_reserve(&r->scratch, &r->lines, &r->index.newlines, r->index.n_newlines, n + 16, r->n / 32, err));
        r->index.base = (uint32_t)begin;
        hr__csv_index(&r->s->values.dialect, r->block->data + begin, n, state, &r->index);
    }
    return HR_OK;
}

/* Reads more bytes into the block: up to `most` in all, and after the fragment's end no more than its last row may
 * need. */
static hr_status fill(csv_reader *r, int64_t most, hr_error *err)
{
    int64_t beyond = HR_MAX(TAIL_BYTES, r->n), want = HR_MIN(most, HR_MAX(r->end - r->in.at, 0) + beyond), n_read;

    if (r->in.ended)
        return HR_OK;
    if (r->n > r->s->values.options->max_line_bytes)
        return hr_error_set(
            err, HR_UNSUPPORTED, "%s: line %lld: a row of more than max_line_bytes, %lld; is a quote missing?",
            r->s->source->name, (long long)line_of(r->s, r->at), (long long)r->s->values.options->max_line_bytes);
    HR_TRY(block_reserve(r, want, err));
    HR_TRY(input_read(&r->in, r->block->data + r->n, want, &n_read, err));
    r->n += n_read;
    return HR_OK;
}

static void drop_front(csv_reader *r, int64_t used)
{
    r->n -= used;
    r->at += used;
    if (r->n && used)
        memmove(r->block->data, r->block->data + used, (size_t)r->n);
}

/* Skips the row in which the fragment begins. Then the block begins with a row of the fragment, or the reader is
 * finished. */
static hr_status skip_to_row(csv_reader *r, int64_t most, hr_error *err)
{
    csv_state state = r->state;
    bool first = true;

    while (r->skipping && !r->finished) {
        uint8_t *data;
        int64_t at = 0;

        HR_TRY(fill(r, most, err));
        data = r->block->data;
        data[r->n] = r->in.ended ? 0 : '\n'; /* so that "\r" waits for what follows */
        if (first) {
            at = 1; /* the byte before the fragment */
            if ((state == CSV_BEGIN || !r->s->values.dialect.quote) && (data[0] == '\n' || data[0] == '\r')) {
                r->skipping = false;
                at += data[0] == '\r' && r->n > 1 && data[1] == '\n';
            }
            first = false;
        }
        while (r->skipping && at < r->n) {
            uint64_t newlines;
            int64_t n = HR_MIN(r->n - at, 64);

            if (n > 1 && at + n == r->n && !r->in.ended && data[at + n - 1] == '\r')
                n--; /* read again with the bytes that follow */
            else if (n == 1 && !r->in.ended && data[at] == '\r')
                break;
            hr__csv_walk(&r->s->values.dialect, data + at, n, &state, &newlines);
            if (newlines) {
                at += __builtin_ctzll(newlines) + 1;
                r->skipping = false;
            } else {
                at += n;
            }
        }
        drop_front(r, at);
        if (r->at >= r->end || (r->in.ended && r->skipping))
            r->finished = true;
    }
    return HR_OK;
}

/* A head of one field is mostly a line that is none, or one with another delimiter. */
static const char *ragged_advice(int n_columns)
{
    return n_columns == 1 ? "is the delimiter another one (delimiter=), or does the file begin with other lines "
                            "(skip_rows=, comment=)? ragged= ('skip', 'truncate', ...) reads such rows"
                          : "ragged= ('skip', 'truncate', ...) says what to do with it";
}

/* "f.csv: line 7: expected 3 fields, found 4: a,b,c,d" */
static hr_status ragged_error(csv_reader *r, const csv_ragged *ragged, hr_error *err)
{
    const uint8_t *p = r->block->data + ragged->at;
    int64_t n = 0, most = HR_MIN(r->n - ragged->at, 80);

    while (n < most && p[n] != '\n' && p[n] != '\r')
        n++;
    return hr_error_set(err, HR_BAD_DATA, "%s: line %lld: expected %d field%s, found %lld: '%.*s%s'; %s",
                        r->s->source->name, (long long)line_of(r->s, r->at + ragged->at), r->s->n_columns,
                        r->s->n_columns == 1 ? "" : "s", (long long)ragged->found, (int)n, (const char *)p,
                        n == 80 ? "..." : "", ragged_advice(r->s->n_columns));
}

/* The error for the file's last row, if its end is cut off, or a quote in the wrong place swallows all rows after
 * it. */
static hr_status open_quote_error(csv_reader *r, hr_error *err)
{
    int64_t at = r->rows.n_rows ? r->at + r->rows.starts[r->rows.n_rows - 1] : r->at + r->n;

    return hr_error_set(
        err, HR_BAD_DATA,
        "%s: line %lld: a quote that this row opens is not closed before the file ends; quote=\"\" reads quotes "
        "as text",
        r->s->source->name, (long long)line_of(r->s, at));
}

static hr_status value_error(csv_reader *r, const csv_rows *rows, int column, const csv_bad *bad, hr_error *err)
{
    hr_text type = { 0 };
    const uint8_t *p;
    int64_t n, at;
    hr_status st;

    hr__csv_field(rows, bad->row, column, &p, &n);
    at = rows->at + (p - rows->data);
    hr__type_print(r->s->types[column], &type);
    st = hr_error_set(
        err, HR_BAD_DATA,
        "%s: line %lld, column '%s': expected %s, found %s%s'%.*s'%s (byte %lld); null_values= makes it null, "
        "dtypes= reads the column as another type",
        r->s->source->name, (long long)line_of(r->s, at), r->s->names.items[column], type.data ? type.data : "?",
        bad->why ? bad->why : "", bad->why ? ", " : "", (int)HR_MIN(n, 60), (const char *)p, n > 60 ? "..." : "",
        (long long)at);
    hr__text_clear(&type);
    return st;
}

/* Rows [first, first + n) of r->rows as a table. */
static hr_status make_table(csv_reader *r, int64_t first, int64_t n, hr_table **out, hr_error *err)
{
    csv_rows rows = r->rows;
    int n_columns = r->file->base.schema->n;
    hr_array **arrays = hr__zalloc(r->mem.account, ((size_t)n_columns + 1) * sizeof *arrays);
    hr_status st = HR_OK;
    csv_bad bad;

    if (!arrays)
        return hr__error_memory(err, r->s->source->name, (n_columns + 1) * (int64_t)sizeof *arrays);
    rows.starts += first;
    rows.ends += first * rows.n_columns;
    rows.n_rows = n;
    for (int i = 0; i < n_columns; i++) {
        int column = r->file->columns[i];

        st = hr__csv_column(&r->s->values, &rows, column, r->file->base.schema->fields[i].type, &r->mem, &arrays[i],
                            &bad, err);
        if (st == HR_BAD_DATA && bad.row >= 0)
            st = value_error(r, &rows, column, &bad, err);
        if (st)
            goto done;
    }
    st = hr__file_table(&r->file->base, r->fragment, r->row, n, arrays, out, err);
done:
    for (int i = 0; i < n_columns; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

/* Indexes the block from `begin` on. *state: in: the state at `begin`; out: the state at the end. */
static hr_status index_block(csv_reader *r, int64_t begin, int64_t end, csv_state *state, hr_error *err)
{
    uint8_t *data = r->block->data;
    csv_state last;

    r->index = (csv_ends){ .items = r->places ? (uint32_t *)(void *)r->places->data : NULL,
                           .newlines = r->lines ? (uint32_t *)(void *)r->lines->data : NULL };
    data[r->n] = r->in.ended ? 0 : '\n'; /* so that "\r" waits for what follows */
    HR_TRY(index_range(r, begin, HR_MIN(end, r->n), state, err));
    last = *state;
    HR_TRY(index_range(r, HR_MAX(HR_MIN(end, r->n), begin), r->n, &last, err));
    r->open_quote = r->in.ended && (last == CSV_QUOTED || last == CSV_ESCAPED_QUOTED);
    if (r->in.ended && r->n > begin &&
        (r->index.n == 0 || r->index.items[r->index.n - 1] != (uint32_t)(r->n - 1) ||
         (data[r->n - 1] != '\n' && data[r->n - 1] != '\r'))) {
        data[r->n] = '\n'; /* the last row has no end of its own */
        r->index.items[r->index.n++] = (uint32_t)r->n;
        r->index.newlines[r->index.n_newlines++] = (uint32_t)r->n;
    }
    return HR_OK;
}

/* Indexes a fragment that is whole in the block, with the byte before it. If it begins inside a row, skips that row. */
static hr_status index_fragment(csv_reader *r, hr_error *err)
{
    const csv_dialect *d = &r->s->values.dialect;
    const uint8_t *data = r->block->data;
    int64_t end = r->end - r->at, dropped = 0;
    csv_state guess = guess_state(d, data[0], r->n > 1 ? data[1] : -1), from, to = guess;

    HR_TRY(index_block(r, 1, end, &to, err));
    if (r->n >= end)
        note_function(r->s, r->fragment, guess, to);
    HR_TRY(begin_state(r->s, r->fragment, &from, err));
    if (from != guess) {
        to = from;
        HR_TRY(index_block(r, 1, end, &to, err));
        if (r->n >= end)
            note_function(r->s, r->fragment, from, to);
    }
    r->used = 1;
    if (from == CSV_BEGIN && (data[0] == '\n' || (data[0] == '\r' && data[1] != '\n')))
        return HR_OK;
    if (r->index.n_newlines == 0) { /* a row that begins before the fragment and ends after it */
        r->used = r->n;
        r->finished = true;
        return HR_OK;
    }
    while (r->index.items[dropped++] != r->index.newlines[0]) {}
    r->used = *r->index.newlines++ + 1;
    r->index.n_newlines--;
    r->index.items += dropped;
    r->index.n -= dropped;
    return HR_OK;
}

/* Reads and indexes the next block. */
static hr_status next_block(csv_reader *r, int64_t most, hr_error *err)
{
    csv_state state = CSV_ROW;
    bool at_begin = r->at == fragment_begin(r->s, r->fragment);

    drop_front(r, r->used);
    r->used = 0;
    if (r->n < most / 2)
        HR_TRY(fill(r, r->whole ? WHOLE_BYTES + TAIL_BYTES : most, err));
    else if (r->indexed) /* and holds no whole row */
        HR_TRY(fill(r, HR_MAX(most, r->n), err));
    r->indexed = true;
    if (r->skipping) {
        r->skipping = false;
        return index_fragment(r, err);
    }
    HR_TRY(index_block(r, 0, r->whole ? r->end - r->at : r->n, &state, err));
    if (r->whole && at_begin && r->at + r->n >= r->end)
        note_function(r->s, r->fragment, CSV_BEGIN, state == CSV_ROW ? CSV_BEGIN : state);
    return HR_OK;
}

/* Cuts rows of at most `most` bytes. The tables of a block have about equal sizes. */
static hr_status cut_rows(csv_reader *r, int64_t most, hr_error *err)
{
    int64_t end = HR_MIN(r->end - r->at, r->n + 1), left = end - r->used, begin = r->used;
    csv_ragged ragged;
    hr_status st;

    most = left / (HR_ROUND_UP(left, most) / most) + 1;
    st = hr__csv_cut(&r->cutter, r->block->data, begin, HR_MIN(begin + most, end), &r->index, &r->rows, &r->used,
                     &ragged, err);
    if (st == HR_BAD_DATA && ragged.at >= 0)
        st = ragged_error(r, &ragged, err);
    hr__count_bad(r->file->skipped, r->rows.n_left_out);
    r->used = HR_MIN(r->used, r->n); /* not the newline that was added */
    if (!st && r->open_quote && r->used == r->n)
        return open_quote_error(r, err);
    r->next = 0;
    r->rows.at = r->at;
    r->rows.is_utf8 = !r->texts || hr__utf8_valid(r->block->data + begin, r->used - begin);
    return st;
}

/* Reads until there are rows, or the end. */
static hr_status next_rows(csv_reader *r, int64_t most, hr_error *err)
{
    if (!r->whole)
        HR_TRY(skip_to_row(r, most, err));
    while (!r->finished && r->next == r->rows.n_rows) {
        if (r->at + r->used >= r->end)
            r->finished = true;
        else if (r->index.n_newlines)
            HR_TRY(cut_rows(r, most, err));
        else if (r->in.ended && r->indexed)
            r->finished = true;
        else
            HR_TRY(next_block(r, most, err));
    }
    return HR_OK;
}

static hr_status csv_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    csv_reader *r = (csv_reader *)base;
    int64_t most = HR_MIN(HR_MAX(max_bytes, 4096), r->whole ? TABLE_BYTES : BLOCK_BYTES), n;

    *out = NULL;
    while (!r->finished && !*out) {
        HR_TRY(next_rows(r, most, err));
        if (r->finished)
            break;
        n = HR_MIN(HR_MAX(r->row_begin - r->row, 0), r->rows.n_rows - r->next);
        r->next += n;
        r->row += n;
        n = HR_MIN(r->rows.n_rows - r->next, r->rows_end - r->row);
        if (n > 0)
            HR_TRY(make_table(r, r->next, n, out, err));
        r->next += n;
        r->row += n;
        r->finished = r->row >= r->rows_end;
    }
    return HR_OK;
}

static const hr_reader_class csv_reader_class = { csv_next, csv_close_reader };

static hr_status skip_bytes(csv_input *in, int64_t n, hr_error *err)
{
    uint8_t *buffer = hr__alloc(in->s->account, 4096);
    hr_status st = HR_OK;
    int64_t n_read;

    if (!buffer)
        return hr__error_memory(err, in->s->source->name, 4096);
    for (; n > 0 && !in->ended; n -= n_read)
        HR_GO(input_read(in, buffer, HR_MIN(n, 4096), &n_read, err));
done:
    hr__free(buffer);
    return st;
}

/* Whether the fragment may be read as a whole: not if a few bytes may become rows of any number of fields. */
static bool may_be_whole(const csv_shared *s)
{
    const csv_options *o = s->values.options;

    return s->n_fragments > 1 && s->values.dialect.quote && o->fragment_bytes <= WHOLE_BYTES &&
           o->ragged != CSV_RAGGED_PAD && o->ragged != CSV_RAGGED_FIT && o->ignore_empty_lines;
}

static hr_status start_reader(csv_reader *r, hr_error *err)
{
    csv_shared *s = r->s;
    int64_t begin = s->n_fragments == 1 ? s->begin : fragment_begin(s, r->fragment);

    r->end = s->n_fragments == 1 ? INT64_MAX / 2 : fragment_end(s, r->fragment);
    r->whole = may_be_whole(s);
    r->finished = r->rows_end == r->row_begin || begin >= r->end;
    if (r->finished)
        return HR_OK;
    if (begin > s->begin) {
        if (!r->whole)
            HR_TRY(begin_state_alone(s, r->fragment, &r->state, err));
        r->skipping = true;
        begin--;
    }
    r->at = begin;
    HR_TRY(input_open(s, s->streamed ? 0 : begin, &r->in, err));
    return s->streamed ? skip_bytes(&r->in, begin, err) : HR_OK;
}

static hr_status csv_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                          hr_reader **out, hr_error *err)
{
    csv_file *f = (csv_file *)base;
    csv_reader *r = hr__zalloc(mem->account, sizeof *r);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &csv_reader_class;
    r->file = f;
    r->s = f->shared;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->scratch = (hr_mem){ mem->account, NULL };
    r->row_begin = HR_MAX(row_begin, 0);
    r->rows_end = hr__rows_end(r->row_begin, n_rows);
    r->cutter =
        (csv_cutter){ .options = r->s->values.options, .dialect = r->s->values.dialect, .n_columns = r->s->n_columns };
    for (int i = 0; i < base->schema->n; i++)
        r->texts |= hr__type_is_bytes(base->schema->fields[i].type);
    HR_GO(start_reader(r, err));
    *out = &r->base;
    r = NULL; /* moved to the caller */
done:
    if (r)
        csv_close_reader(&r->base);
    return st;
}

/* -------------------------------------------------------------------------------------------------- the file's head */

static void shared_unref(csv_shared *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
        return;
    for (int i = 0; s->types && i < s->n_columns; i++)
        hr__type_unref(s->types[i]);
    hr__free(s->types);
    hr__csv_list_clear(&s->names);
    hr__csv_words_clear(&s->values.nulls);
    hr__csv_words_clear(&s->values.trues);
    hr__csv_words_clear(&s->values.falses);
    hr__free((void *)s->functions);
    hr__free((void *)s->begins);
    hr__source_unref(s->source);
    hr__account_unref(s->account);
    hr__free(s);
}

/* The beginning of the file, with an index. */
typedef struct csv_head {
    csv_shared *s;
    csv_input in;
    hr_buffer *bytes;
    int64_t n;
    int64_t at;                /* bytes that are done */
    csv_ends index;            /* index of the bytes from `at` on, at the time of head_index */
    hr_buffer *places, *lines; /* the index's numbers */
    hr_error *err;
} csv_head;

static hr_status head_more(csv_head *h, int64_t want)
{
    hr_buffer *wider = NULL;
    int64_t n_read;

    if (h->in.ended || h->n >= want)
        return HR_OK;
    HR_TRY(hr__buffer_new(&(hr_mem){ h->s->account, NULL }, want, &wider, h->err));
    if (h->n)
        memcpy(wider->data, h->bytes->data, (size_t)h->n);
    hr__buffer_unref(h->bytes);
    h->bytes = wider;
    HR_TRY(input_read(&h->in, wider->data + h->n, want - h->n, &n_read, h->err));
    h->n += n_read;
    return HR_OK;
}

/* Doubles the bytes; an error if a row is too long. */
static hr_status head_grow(csv_head *h)
{
    if (h->n - h->at > h->s->values.options->max_line_bytes)
        return hr_error_set(h->err, HR_UNSUPPORTED,
                            "%s: byte %lld: a row of more than max_line_bytes, %lld; is a quote missing?",
                            h->s->source->name, (long long)h->at, (long long)h->s->values.options->max_line_bytes);
    return head_more(h, h->n * 2 + 64);
}

/* Skips n lines and ignores quotes. */
static hr_status head_skip_lines(csv_head *h, int64_t n_lines)
{
    int64_t i = h->at;

    for (; n_lines > 0; n_lines--) {
        while (i < h->n && h->bytes->data[i] != '\n' && h->bytes->data[i] != '\r')
            i++;
        while (i + 1 >= h->n && !h->in.ended) {
            HR_TRY(head_more(h, h->n * 2 + 64));
            while (i < h->n && h->bytes->data[i] != '\n' && h->bytes->data[i] != '\r')
                i++;
        }
        if (i < h->n)
            i += 1 + (h->bytes->data[i] == '\r' && i + 1 < h->n && h->bytes->data[i + 1] == '\n');
        h->at = i;
    }
    return HR_OK;
}

/* The index from `at` on; the file's end ends its last row. Numbers for each byte at once would take eight times the
 * bytes: 32 MiB for the types of any file. */
static hr_status head_index(csv_head *h)
{
    const hr_mem mem = { h->s->account, NULL };
    csv_state state = CSV_ROW;
    int64_t n = h->n - h->at;
    uint8_t *data = h->bytes->data + h->at;

    h->index = (csv_ends){ .items = h->places ? (uint32_t *)(void *)h->places->data : NULL,
                           .newlines = h->lines ? (uint32_t *)(void *)h->lines->data : NULL };
    data[n] = h->in.ended ? 0 : '\n';
    for (int64_t at = 0, part; at < n; at += part) {
        part = HR_MIN(n - at, INDEX_BYTES);
        HR_TRY(numbers_reserve(&mem, &h->places, &h->index.items, h->index.n, part + 16, n / 8, h->err));
        HR_TRY(numbers_reserve(&mem, &h->lines, &h->index.newlines, h->index.n_newlines, part + 16, n / 32, h->err));
        h->index.base = (uint32_t)at;
        hr__csv_index(&h->s->values.dialect, data + at, part, &state, &h->index);
    }
    if (h->in.ended && n &&
        (h->index.n == 0 || h->index.items[h->index.n - 1] != (uint32_t)(n - 1) ||
         (data[n - 1] != '\n' && data[n - 1] != '\r'))) {
        data[n] = '\n';
        h->index.items[h->index.n++] = (uint32_t)n;
        h->index.newlines[h->index.n_newlines++] = (uint32_t)n;
    }
    return HR_OK;
}

/* The first row from `at` on that is no empty line or comment: its fields are ends [*first, *first + *n); *begin: its
 * begin, counted from `at`. *n 0: there is none. */
static hr_status head_row(csv_head *h, int64_t *first, int64_t *n, int64_t *begin)
{
    for (;;) {
        HR_TRY(head_index(h));
        *first = *begin = *n = 0;
        for (int64_t i = 0; i < h->index.n; i++) {
            const uint8_t *data = h->bytes->data + h->at;
            int64_t end = h->index.items[i];

            if (data[end] != '\n' && data[end] != '\r')
                continue;
            if ((h->s->values.dialect.comment && data[*begin] == h->s->values.dialect.comment) || end == *begin ||
                (end == *begin + 1 && data[*begin] == '\r' && data[end] == '\n')) {
                *begin = end + 1;
                *first = i + 1;
                continue;
            }
            *n = i + 1 - *first;
            return HR_OK;
        }
        if (h->in.ended)
            return HR_OK;
        HR_TRY(head_grow(h));
    }
}

/* Appends one name to `out`, unquoted and with a zero byte. */
static hr_status take_name(csv_head *h, int64_t begin, int64_t end, hr_growbuf *out)
{
    const uint8_t *p = h->bytes->data + h->at + begin;
    const csv_dialect *d = &h->s->values.dialect;
    int64_t n = end - begin;

    HR_TRY(hr__growbuf_reserve(out, n + HR_SLACK + 1, h->err));
    if ((n && d->quote && *p == d->quote) || (d->escape && n && memchr(p, d->escape, (size_t)n)))
        p = hr__csv_unquote(d, p, &n, out->buffer->data + out->buffer->n_bytes);
    if (memchr(p, 0, (size_t)n) || !hr__utf8_valid(p, n))
        return hr_error_set(
            h->err, HR_BAD_DATA, "%s: byte %lld: a column's name %s", h->s->source->name, (long long)(h->at + begin),
            memchr(p, 0, (size_t)n) ? "holds a zero byte" : "is not UTF-8; encoding= names its encoding");
    memmove(out->buffer->data + out->buffer->n_bytes, p, (size_t)n);
    out->buffer->n_bytes += n;
    out->buffer->data[out->buffer->n_bytes++] = 0;
    return HR_OK;
}

/* Names from the row of ends [first, first + n). */
static hr_status take_names(csv_head *h, int64_t first, int64_t n, int64_t begin)
{
    hr_mem mem = { h->s->account, NULL };
    hr_growbuf text = { .mem = &mem };
    const uint8_t *data = h->bytes->data + h->at;
    hr_status st = HR_OK;
    char *at;

    if (h->at + h->index.items[first + n - 1] >= h->n)
        return hr_error_set(
            h->err, HR_BAD_DATA,
            "%s: byte %lld: the file ends within its first row, the names of columns: expected a newline",
            h->s->source->name, (long long)h->n);
    for (int64_t i = 0; i < n; i++) {
        int64_t end = h->index.items[first + i], next = end + 1;

        if (i == n - 1 && end > begin && data[end] == '\n' && data[end - 1] == '\r')
            end--;
        HR_GO(take_name(h, begin, end, &text));
        begin = next;
    }
    h->s->names.items = hr__alloc(h->s->account, (size_t)n * sizeof *h->s->names.items + (size_t)text.buffer->n_bytes);
    if (!h->s->names.items) {
        st = hr__error_memory(h->err, h->s->source->name, n * 8);
        goto done;
    }
    at = memcpy(h->s->names.items + n, text.buffer->data, (size_t)text.buffer->n_bytes);
    for (int64_t i = 0; i < n; i++, at += strlen(at) + 1)
        h->s->names.items[h->s->names.n++] = at;
    h->at += begin;
done:
    hr__growbuf_clear(&text);
    return st;
}

/* f0, f1, ... */
static hr_status make_names(csv_shared *s, int64_t n, hr_error *err)
{
    char *at;

    s->names.items = hr__alloc(s->account, (size_t)n * (sizeof *s->names.items + 16));
    if (!s->names.items)
        return hr__error_memory(err, s->source->name, n * 24);
    at = (char *)(s->names.items + n);
    for (int64_t i = 0; i < n; i++, at += 16) {
        snprintf(at, 16, "f%d", (int)i);
        s->names.items[s->names.n++] = at;
    }
    return HR_OK;
}

/* If the file is empty, only `names` gives the columns; dtypes do not. */
static hr_status read_names(csv_head *h, const hr_open *how)
{
    const csv_options *o = h->s->values.options;
    bool given = o->names && *o->names;
    int64_t first, n, begin;

    if (given)
        HR_TRY(hr__csv_list(o->names, ',', &h->s->names, h->err));
    HR_TRY(head_row(h, &first, &n, &begin));
    if (n > MAX_COLUMNS)
        return hr_error_set(h->err, HR_UNSUPPORTED, "%s: %lld columns, more than %d", h->s->source->name, (long long)n,
                            MAX_COLUMNS);
    if (n == 0 && !given && how->schema && h->n == 0)
        return make_names(h->s, 0, h->err);
    if (n == 0 && !given)
        return hr_error_set(h->err, HR_BAD_DATA, "%s: the file is empty, expected a row with the names of columns",
                            h->s->source->name);
    if (o->header == CSV_HEADER_NONE || (o->header == CSV_HEADER_AUTO && given)) {
        if (!given)
            return make_names(h->s, n, h->err);
        return HR_OK;
    }
    if (given) {
        if (n)
            h->at = HR_MIN(h->at + h->index.items[first + n - 1] + 1, h->n);
        return HR_OK;
    }
    return take_names(h, first, n, begin);
}

/* Skips rows after the names. */
static hr_status head_skip_rows(csv_head *h, int64_t n_rows)
{
    while (n_rows > 0) {
        int64_t first, n, begin;

        HR_TRY(head_row(h, &first, &n, &begin));
        if (n == 0)
            return HR_OK;
        h->at = HR_MIN(h->at + h->index.items[first + n - 1] + 1, h->n);
        n_rows--;
    }
    return HR_OK;
}

/* -------------------------------------------------------------------------------------------------------- the types */

static hr_status not_readable(const csv_shared *s, int column, const hr_type *type, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st;

    hr__type_print(type, &text);
    st = hr_error_set(err, HR_UNSUPPORTED, "%s: column '%s': CSV cannot be read as %s", s->source->name,
                      s->names.items[column], text.data ? text.data : "?");
    hr__text_clear(&text);
    return st;
}

static hr_status missing_column(const csv_shared *s, hr_status st, const char *what, const char *name, hr_error *err)
{
    char where[4200];
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < s->n_columns; i++)
        hr__near_try(&near, s->names.items[i], strlen(s->names.items[i]));
    snprintf(where, sizeof where, "%s%s", s->source->name, what);
    return hr__near_error(&near, st, where, name, err);
}

/* "name:type": the last colon separates them. */
static hr_status one_dtype(csv_shared *s, char *item, hr_error *err)
{
    char *colon = strrchr(item, ':');
    bool found = false;
    hr_type *type;

    if (!colon)
        return hr_error_set(err, HR_INVALID, "csv: dtypes: '%s': expected name:type", item);
    *colon = 0;
    HR_TRY(hr__csv_type(colon + 1, &type, err));
    for (int i = 0; i < s->n_columns; i++) {
        if (strcmp(s->names.items[i], item) != 0)
            continue;
        hr__type_unref(s->types[i]);
        s->types[i] = hr__type_ref(type);
        found = true;
    }
    hr__type_unref(type);
    return found ? HR_OK : missing_column(s, HR_INVALID, ": dtypes", item, err);
}

/* Types that do not depend on the rows. */
static hr_status given_types(csv_shared *s, const hr_open *how, hr_error *err)
{
    const csv_options *o = s->values.options;
    csv_list list = { 0 };
    hr_status st = HR_OK;

    s->types = hr__zalloc(s->account, ((size_t)s->n_columns + 1) * sizeof *s->types);
    if (!s->types)
        return hr__error_memory(err, s->source->name, s->n_columns * 8);
    if (o->dtypes && *o->dtypes) {
        HR_GO(hr__csv_list(o->dtypes, ',', &list, err));
        for (int i = 0; i < list.n; i++)
            HR_GO(one_dtype(s, list.items[i], err));
    }
    for (int i = 0; i < s->n_columns; i++) {
        int at = how->schema ? hr__schema_find(how->schema, s->names.items[i]) : -1;

        if (at >= 0) {
            hr__type_unref(s->types[i]);
            s->types[i] = hr__type_ref(how->schema->fields[at].type);
        } else if (!s->types[i] && o->default_type && *o->default_type) {
            HR_GO(hr__csv_type(o->default_type, &s->types[i], err));
        }
        if (s->types[i] && !hr__csv_readable(s->types[i]))
            HR_GO(not_readable(s, i, s->types[i], err));
    }
done:
    hr__csv_list_clear(&list);
    return st;
}

static bool is_wanted(const csv_shared *s, const hr_projection *projection, int column)
{
    for (int i = 0; projection && i < projection->n; i++) {
        if (strcmp(projection->names[i], s->names.items[column]) == 0)
            return true;
    }
    return !projection;
}

/* Infers the types of all projected columns without one, from the rows that begin in the first infer_bytes. */
static hr_status infer_types(csv_head *h, const hr_open *how)
{
    csv_shared *s = h->s;
    csv_cutter cutter = { .options = s->values.options, .dialect = s->values.dialect, .n_columns = s->n_columns };
    hr_status st = HR_OK;
    csv_ragged ragged = { -1, 0 };
    csv_rows rows = { 0 };
    bool needed = false;
    int64_t used;

    for (int i = 0; i < s->n_columns; i++)
        needed |= !s->types[i] && is_wanted(s, how->projection, i);
    if (!needed)
        return HR_OK;
    if (!s->streamed)
        hr__source_ahead(s->source, h->n, s->values.options->infer_bytes - h->n);
    HR_GO(head_more(h, s->values.options->infer_bytes));
    HR_GO(head_index(h));
    while (h->index.n_newlines == 0 && !h->in.ended) {
        HR_GO(head_grow(h));
        HR_GO(head_index(h));
    }
    st = hr__csv_cut(&cutter, h->bytes->data + h->at, 0, HR_MAX(s->values.options->infer_bytes - h->at, 1), &h->index,
                     &rows, &used, &ragged, h->err);
    if (st == HR_BAD_DATA && ragged.at >= 0)
        st = hr_error_set(h->err, HR_BAD_DATA, "%s: line %lld: expected %d field%s, found %lld; %s", s->source->name,
                          (long long)line_of(s, h->at + ragged.at), s->n_columns, s->n_columns == 1 ? "" : "s",
                          (long long)ragged.found, ragged_advice(s->n_columns));
    if (st)
        goto done;
    rows.is_utf8 = hr__utf8_valid(rows.data, used);
    for (int i = 0; i < s->n_columns; i++) {
        if (!s->types[i] && is_wanted(s, how->projection, i))
            HR_GO(hr__csv_infer(&s->values, &rows, i, &s->types[i], h->err));
    }
done:
    hr__csv_cutter_clear(&cutter);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status csv_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    csv_shared *s = ((csv_file *)base)->shared;
    int64_t n = s->n_fragments == 1 ? s->source->n_bytes
                                    : HR_MIN(s->values.options->fragment_bytes,
                                             s->source->n_bytes - fragment * s->values.options->fragment_bytes);

    (void)err;
    *out = (hr_fragment){ .n_rows = -1, .stored_bytes = n };
    out->memory_bytes = n / HR_MAX(s->n_columns, 1) * HR_MIN(base->schema->n, s->n_columns) * (s->codec ? 5 : 1);
    return HR_OK;
}

static void csv_ahead(hr_scan_file *base, int fragment)
{
    csv_shared *s = ((csv_file *)base)->shared;

    if (s->n_fragments > 1)
        hr__source_ahead(s->source, fragment_begin(s, fragment), s->values.options->fragment_bytes);
}

static void csv_close(hr_scan_file *base)
{
    hr__free(((csv_file *)base)->columns);
    shared_unref(((csv_file *)base)->shared);
}

static hr_status csv_project(hr_scan_file *base, const hr_open *how, hr_scan_file **out, hr_error *err);

static const hr_scan_file_class csv_file_class = {
    .fragment = csv_fragment,
    .read = csv_read,
    .ahead = csv_ahead,
    .project = csv_project,
    .close = csv_close,
};

static hr_status find_column(const csv_shared *s, const char *name, int *out, hr_error *err)
{
    for (int i = 0; i < s->n_columns; i++) {
        if (strcmp(s->names.items[i], name) == 0) {
            *out = i;
            return HR_OK;
        }
    }
    return missing_column(s, HR_NOT_FOUND, "", name, err);
}

/* The columns of a view, and its schema. */
static hr_status choose_columns(csv_file *f, const hr_projection *projection, hr_error *err)
{
    csv_shared *s = f->shared;
    int n = projection ? projection->n : s->n_columns, made = 0;
    hr_field *fields = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *fields);
    hr_status st = HR_OK;

    f->columns = hr__zalloc(s->account, ((size_t)n + 1) * sizeof *f->columns);
    if (!f->columns || !fields) {
        st = hr__error_memory(err, s->source->name, n * (int64_t)sizeof *fields);
        goto done;
    }
    for (int i = 0; i < n; i++) {
        f->columns[i] = i;
        if (projection)
            HR_GO(find_column(s, projection->names[i], &f->columns[i], err));
        HR_GO(hr__field_init(&fields[i], s->names.items[f->columns[i]], s->types[f->columns[i]], true, err));
        made++;
    }
    st = hr__schema_new(fields, n, &f->base.schema, err);
done:
    for (int i = 0; i < made; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

/* A view of the open file. Takes `s`, even on failure. */
static hr_status make_file(csv_shared *s, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = hr__scan_file_new(&csv_file_class, sizeof(csv_file), s->source->name, how->account, out, err);

    if (st) {
        shared_unref(s);
        return st;
    }
    ((csv_file *)*out)->shared = s;
    ((csv_file *)*out)->skipped = how->skipped;
    (*out)->n_columns = s->n_columns;
    (*out)->n_fragments = s->n_fragments;
    (*out)->n_rows = s->n_fragments == 0 ? 0 : -1;
    st = choose_columns((csv_file *)*out, how->projection, err);
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static hr_status split_fragments(csv_shared *s, hr_error *err)
{
    int64_t size = s->source->n_bytes, each = s->values.options->fragment_bytes, n;

    s->n_fragments = s->n_columns == 0 ? 0 : 1;
    if (s->streamed || !s->values.dialect.plain || size <= each || s->n_columns == 0)
        return HR_OK;
    n = HR_ROUND_UP(size, each) / each;
    if (n > 1 << 24)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: fragment_bytes of %lld make %lld fragments", s->source->name,
                            (long long)each, (long long)n);
    s->n_fragments = (int)n;
    s->first = (int)HR_MIN(s->begin / each, n - 1);
    s->functions = hr__zalloc(s->account, (size_t)n * sizeof *s->functions);
    s->begins = hr__zalloc(s->account, (size_t)n + 1);
    if (!s->functions || !s->begins)
        return hr__error_memory(err, s->source->name, n * 3);
    return HR_OK;
}

static hr_status set_dialect(csv_values *v, hr_error *err)
{
    const csv_options *o = v->options;
    const char special[] = { o->delimiter, o->quote, o->escape, o->comment };

    v->dialect = (csv_dialect){ .delimiter = (uint8_t)o->delimiter,
                                .quote = (uint8_t)o->quote,
                                .escape = (uint8_t)o->escape,
                                .comment = (uint8_t)o->comment,
                                .double_quote = o->double_quote };
    v->dialect.plain = !o->escape && !o->comment && (o->double_quote || !o->quote);
    if (!o->delimiter)
        return hr_error_set(err, HR_INVALID, "csv: delimiter: expected one byte, found none");
    for (int i = 0; i < HR_LEN(special); i++) {
        if (special[i] == '\n' || special[i] == '\r')
            return hr_error_set(err, HR_INVALID, "csv: a newline cannot be delimiter, quote, escape or comment");
        for (int k = 0; k < i; k++) {
            if (special[i] && special[i] == special[k])
                return hr_error_set(err, HR_INVALID, "csv: '%c' cannot be two of delimiter, quote, escape and comment",
                                    special[i]);
        }
    }
    HR_TRY(hr__csv_words_init(&v->nulls, o->null_values, err));
    v->plain_values = hr__csv_plain_values(v);
    HR_TRY(hr__csv_words_init(&v->trues, o->true_values, err));
    return hr__csv_words_init(&v->falses, o->false_values, err);
}

static hr_status new_shared(hr_source *source, const hr_open *how, csv_shared **out, hr_error *err)
{
    csv_shared *s = hr__zalloc(how->account, sizeof *s);
    uint8_t head[16];
    int64_t n;

    *out = s;
    if (!s)
        return hr__error_memory(err, source->name, sizeof *s);
    atomic_init(&s->refs, 1);
    s->source = hr__source_ref(source);
    s->account = hr__account_ref(how->account);
    s->values.options = how->options;
    HR_TRY(set_dialect(&s->values, err));
    HR_TRY(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    s->codec = hr__codec_guess(source->name, (hr_view){ head, n });
    s->streamed = s->codec || !hr__csv_is_utf8_name(s->values.options->encoding);
    return HR_OK;
}

static hr_status read_head(csv_head *h, const hr_open *how)
{
    static const uint8_t mark[3] = { 0xEF, 0xBB, 0xBF };
    csv_shared *s = h->s;
    const uint8_t *data;

    HR_TRY(input_open(s, 0, &h->in, h->err));
    HR_TRY(head_more(h, 16 << 10));
    data = h->bytes->data;
    if (h->n >= 3 && memcmp(data, mark, 3) == 0)
        h->at = 3;
    else if (h->n >= 2 && ((data[0] == 0xFF && data[1] == 0xFE) || (data[0] == 0xFE && data[1] == 0xFF)))
        return hr_error_set(h->err, HR_BAD_DATA, "%s: begins like UTF-16; encoding='utf-16' reads it", s->source->name);
    HR_TRY(head_skip_lines(h, s->values.options->skip_rows));
    HR_TRY(read_names(h, how));
    HR_TRY(head_skip_rows(h, s->values.options->skip_rows_after_names));
    s->n_columns = s->names.n;
    s->begin = HR_MIN(h->at, h->n);
    HR_TRY(given_types(s, how, h->err));
    return infer_types(h, how);
}

static int64_t csv_type_bytes(const void *options) { return hr__csv_type_bytes(options); }

static hr_status csv_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    csv_shared *s = NULL;
    csv_head h = { .err = err };
    hr_status st = HR_OK;

    *out = NULL;
    HR_GO(new_shared(source, how, &s, err));
    h.s = s;
    HR_GO(read_head(&h, how));
    HR_GO(split_fragments(s, err));
    st = make_file(s, how, out, err);
    s = NULL; /* taken */
done:
    input_close(&h.in);
    hr__buffer_unref(h.bytes);
    hr__buffer_unref(h.places);
    hr__buffer_unref(h.lines);
    shared_unref(s);
    return st;
}

/* Another view of the same bytes: reads nothing again, unless a type is missing. */
static hr_status csv_project(hr_scan_file *base, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    csv_shared *s = ((csv_file *)base)->shared;

    *out = NULL;
    for (int i = 0; i < s->n_columns; i++) {
        if (!s->types[i] && is_wanted(s, how->projection, i))
            return csv_open(s->source, how, out, err);
    }
    atomic_fetch_add(&s->refs, 1);
    return make_file(s, how, out, err);
}

const hr_format hr__format_csv = {
    .name = "csv",
    .suffixes = "csv tsv psv",
    .doc = "rows of text with quotes, types inferred",
    .options = hr__csv_options,
    .options_bytes = sizeof(csv_options),
    .type_bytes = csv_type_bytes,
    .open = csv_open,
    .write_options = hr__csv_write_options,
    .write_options_bytes = sizeof(csv_write_options),
    .create = hr__csv_create,
};
