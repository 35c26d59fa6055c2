/* csv_rows.c - from ends of fields to a rectangle of them.
 *
 * Nearly always every n-th end is the end of a line: then cut_rectangle only notes the begins of rows. Otherwise
 * cut_by_row copies the rows one by one: it skips empty lines and comments, and fills up, cuts, skips or refuses rows
 * with another number of fields.
 *
 * Tests: test_csv.c. */
#include "format/csv/csv.h"

#define MAX_CELLS (1 << 22) /* of copied rows in one block: the bytes do not bound rows that are filled up */

void hr__csv_cutter_clear(csv_cutter *c)
{
    hr__free(c->starts);
    hr__free(c->ends);
    c->starts = c->ends = NULL;
    c->starts_cap = c->ends_cap = 0;
}

static hr_status grow(uint32_t **items, int64_t *cap, int64_t n, hr_error *err)
{
    if (n > *cap && !hr__grow(NULL, (void **)items, cap, n, sizeof **items))
        return hr__error_memory(err, "csv", n * (int64_t)sizeof **items);
    return HR_OK;
}

static bool is_newline(uint8_t c) { return c == '\n' || c == '\r'; }

/* The number of newlines that end rows which begin before `limit`; the first row begins at `begin`. */
static int64_t rows_before(const csv_ends *index, int64_t begin, int64_t limit)
{
    int64_t low = 0, high = index->n_newlines;

    if (begin >= limit || high == 0)
        return 0;
    while (low < high) { /* the first newline after which no row begins */
        int64_t middle = low + (high - low) / 2;

        if (index->newlines[middle] + (int64_t)1 < limit)
            low = middle + 1;
        else
            high = middle;
    }
    return HR_MIN(low + 1, index->n_newlines);
}

/* "\r" before "\n" belongs to the line's end. false: a line has only a "\r". */
static bool strip_returns(const csv_cutter *c, const uint8_t *data, uint32_t *ends, int64_t n_rows)
{
    int n = c->n_columns;

    for (int64_t row = 0; row < n_rows && n == 1; row++) {
        if (ends[row] == c->starts[row] + 1 && data[c->starts[row]] == '\r' && data[ends[row]] == '\n')
            return false;
    }
    for (int64_t row = 0; row < n_rows; row++) {
        uint32_t *end = ends + row * n + n - 1, begin = n > 1 ? end[-1] + 1 : c->starts[row];

        *end -= *end > begin && data[*end] == '\n' && data[*end - 1] == '\r';
    }
    return true;
}

/* If every n-th end is a newline, and no other end: notes the begins of rows. Does not read the data if it has no
 * "\r". */
static bool cut_rectangle(csv_cutter *c, const uint8_t *data, int64_t begin, int64_t limit, csv_ends *index,
                          csv_rows *out, int64_t *used)
{
    int n = c->n_columns;
    int64_t n_rows = rows_before(index, begin, limit);
    uint32_t at = (uint32_t)begin, wrong = 0;

    if (c->dialect.comment || index->n < n_rows * n)
        return false;
    for (int64_t row = 0; row < n_rows; row++) {
        uint32_t end = index->newlines[row];

        wrong |= index->items[row * n + n - 1] ^ end;
        wrong |= n == 1 && end == at; /* an empty line */
        c->starts[row] = at;
        at = end + 1;
    }
    if (wrong || (index->returns && !strip_returns(c, data, index->items, n_rows)))
        return false;
    out->n_rows = n_rows;
    out->starts = c->starts;
    out->ends = index->items;
    *used = at;
    index->items += n_rows * n;
    index->n -= n_rows * n;
    index->newlines += n_rows;
    index->n_newlines -= n_rows;
    return true;
}

/* Whether a row of k fields, where n are expected, becomes a row of n fields. */
static bool mend(const csv_cutter *c, int64_t k)
{
    int ragged = c->options->ragged;

    return ragged == CSV_RAGGED_FIT || ragged == (k < c->n_columns ? CSV_RAGGED_PAD : CSV_RAGGED_TRUNCATE);
}

/* Copies the row that begins at `begin` and has the ends e[0, k), the last one without "\r". */
static void copy_row(csv_cutter *c, csv_rows *out, uint32_t begin, const uint32_t *e, int64_t k, uint32_t last)
{
    uint32_t *to = c->ends + out->n_rows * c->n_columns;

    c->starts[out->n_rows++] = begin;
    for (int i = 0; i < c->n_columns; i++) {
        if (i < k) {
            to[i] = i == k - 1 ? last : e[i];
        } else {
            to[i] = last | CSV_MISSING;
            out->missing = true;
        }
    }
}

static hr_status cut_by_row(csv_cutter *c, const uint8_t *data, int64_t begin, int64_t limit, csv_ends *index,
                            csv_rows *out, int64_t *used, csv_ragged *ragged, hr_error *err)
{
    int64_t max_rows = HR_MAX(MAX_CELLS / c->n_columns, 1), row_begin = 0, n_lines = 0;
    uint32_t at = (uint32_t)begin;

    for (int64_t i = 0; i < index->n && at < limit && out->n_rows < max_rows; i++) {
        uint32_t end = index->items[i], last = end;
        int64_t k = i + 1 - row_begin;
        const uint32_t *e = index->items + row_begin;

        if (!is_newline(data[end]))
            continue;
        if (last > (k > 1 ? e[k - 2] + 1 : at) && data[last] == '\n' && data[last - 1] == '\r')
            last--;
        row_begin = i + 1;
        n_lines++;
        *used = (int64_t)end + 1;
        if (c->dialect.comment && data[at] == c->dialect.comment) {
            at = end + 1;
            continue;
        }
        if (k == 1 && last == at) {
            if (c->options->ignore_empty_lines) {
                at = end + 1;
                continue;
            }
            k = c->n_columns > 1 ? 0 : 1; /* an empty line is a row of nulls */
        } else if (k != c->n_columns && !mend(c, k)) {
            if (c->options->ragged != CSV_RAGGED_SKIP) {
                *ragged = (csv_ragged){ at, k };
                return HR_BAD_DATA;
            }
            out->n_left_out++;
            at = end + 1;
            continue;
        }
        HR_TRY(grow(&c->ends, &c->ends_cap, (out->n_rows + 1) * c->n_columns, err));
        copy_row(c, out, at, e, k, last);
        at = end + 1;
    }
    out->ends = c->ends;
    out->starts = c->starts;
    index->items += row_begin;
    index->n -= row_begin;
    index->newlines += n_lines;
    index->n_newlines -= n_lines;
    return HR_OK;
}

hr_status hr__csv_cut(csv_cutter *c, const uint8_t *data, int64_t begin, int64_t limit, csv_ends *index, csv_rows *out,
                      int64_t *used, csv_ragged *ragged, hr_error *err)
{
    *out = (csv_rows){ .data = data, .n_columns = c->n_columns };
    *used = begin;
    ragged->at = -1;
    HR_TRY(grow(&c->starts, &c->starts_cap, index->n_newlines + 1, err));
    if (cut_rectangle(c, data, begin, limit, index, out, used))
        return HR_OK;
    return cut_by_row(c, data, begin, limit, index, out, used, ragged, err);
}
