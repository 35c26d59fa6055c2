/* csv_column.c - turns the fields of one column into an array: one loop for each kind of type, over a rectangle of
 * fields.
 *
 * Tests: test_csv.c. */
#include "base/number_short.h"
#include "format/csv/csv.h"

#include <math.h>

/* ------------------------------------------------------------------------------------------------------------ words */

hr_status hr__csv_words_init(csv_words *w, const char *text, hr_error *err)
{
    *w = (csv_words){ 0 };
    HR_TRY(hr__csv_list(text ? text : "", ',', &w->list, err));
    if (!text || (!*text && w->list.n == 1)) /* no words, not even the empty text, which is "," */
        w->list.n = text && *text ? w->list.n : 0;
    for (int i = 0; i < w->list.n; i++) {
        size_t n = strlen(w->list.items[i]);

        w->empty |= n == 0;
        w->lengths |= (uint64_t)1 << HR_MIN(n, 63);
        w->firsts[(uint8_t)w->list.items[i][0]] = 1;
    }
    return HR_OK;
}

void hr__csv_words_clear(csv_words *w) { hr__csv_list_clear(&w->list); }

/* Whether bytes that look like a value are one: no quote, escape or word of null looks like a number or time. */
bool hr__csv_plain_values(const csv_values *v)
{
    static const char used[] = "0123456789+-.:TZ ";

    for (int i = 0; i < v->nulls.list.n; i++) {
        if (*v->nulls.list.items[i] && !v->nulls.list.items[i][strspn(v->nulls.list.items[i], used)])
            return false;
    }
    return v->options->decimal_point == '.' && !memchr(used, v->dialect.quote, sizeof used - 1) &&
           !memchr(used, v->dialect.escape, sizeof used - 1);
}

bool hr__csv_words_match(const csv_words *w, const uint8_t *p, int64_t n)
{
    for (int i = 0; i < w->list.n; i++) {
        if (strlen(w->list.items[i]) == (size_t)n && memcmp(w->list.items[i], p, (size_t)n) == 0)
            return true;
    }
    return false;
}

/* -------------------------------------------------------------------------------------------------- text of a field */

/* Removes what the automaton of csv_index.c skips: quotes that open and close, escapes. */
static int64_t strip(const csv_dialect *d, const uint8_t *p, int64_t n, uint8_t *out)
{
    bool quoted = d->quote && n > 0 && *p == d->quote;
    int64_t k = 0;

    for (int64_t i = quoted; i < n; i++) {
        uint8_t c = p[i];

        if (d->escape && c == d->escape && i + 1 < n) {
            out[k++] = p[++i];
        } else if (quoted && c == d->quote) {
            if (d->double_quote && i + 1 < n && p[i + 1] == d->quote)
                out[k++] = p[++i];
            else
                quoted = false; /* the rest of the field is taken as it is */
        } else {
            out[k++] = c;
        }
    }
    return k;
}

const uint8_t *hr__csv_unquote(const csv_dialect *d, const uint8_t *p, int64_t *n, uint8_t *scratch)
{
    if (!d->escape && *n >= 2 && p[*n - 1] == d->quote && !memchr(p + 1, d->quote, (size_t)*n - 2)) {
        *n -= 2;
        return p + 1;
    }
    *n = strip(d, p, *n, scratch);
    return scratch;
}

/* ---------------------------------------------------------------------------------------------------- single values */

static inline void trim(const uint8_t **p, int64_t *n)
{
    while (*n > 0 && (**p == ' ' || **p == '\t')) {
        ++*p;
        --*n;
    }
    while (*n > 0 && ((*p)[*n - 1] == ' ' || (*p)[*n - 1] == '\t'))
        --*n;
}

static bool parse_hex(const uint8_t *p, int64_t n, uint64_t *out)
{
    uint64_t v = 0;

    if (n < 1 || n > 16)
        return false;
    for (int64_t i = 0; i < n; i++) {
        uint8_t c = p[i], letter = (uint8_t)((c | 0x20) - 'a');

        if ((uint8_t)(c - '0') < 10)
            v = v << 4 | (uint64_t)(c - '0');
        else if (letter < 6)
            v = v << 4 | (uint64_t)(letter + 10);
        else
            return false;
    }
    *out = v;
    return true;
}

static bool is_hex(const uint8_t *p, int64_t n) { return n > 2 && p[0] == '0' && (p[1] | 0x20) == 'x'; }

/* Blanks around the number, hexadecimal digits: forms that pyarrow accepts, too. */
static bool odd_int64(const uint8_t *p, int64_t n, int bits, int64_t *out)
{
    uint64_t v;

    trim(&p, &n);
    if (is_hex(p, n)) {
        if (n - 2 > bits / 4 || !parse_hex(p + 2, n - 2, &v))
            return false;
        *out = (int64_t)(v << (64 - bits)) >> (64 - bits); /* the bits of the number in the type's width */
        return true;
    }
    return hr__parse_int64(p, n, out);
}

static inline bool take_int64(const uint8_t *p, int64_t n, int bits, int64_t *out)
{
    int64_t most = (int64_t)(((uint64_t)1 << (bits - 1)) - 1);

    return (hr__parse_int64(p, n, out) || odd_int64(p, n, bits, out)) && *out <= most && *out >= -most - 1;
}

static inline bool take_uint64(const uint8_t *p, int64_t n, int bits, uint64_t *out)
{
    if (!hr__parse_uint64(p, n, out)) {
        trim(&p, &n);
        if (!(is_hex(p, n) ? parse_hex(p + 2, n - 2, out) : hr__parse_uint64(p, n, out)))
            return false;
    }
    return bits == 64 || *out >> bits == 0;
}

#define MAX_POINTED 64

/* Copies the text, up to the length of a sensible number, to replace another decimal point. */
static const uint8_t *pointed(const csv_values *v, const uint8_t *p, int64_t n, uint8_t out[MAX_POINTED + HR_SLACK])
{
    uint8_t point = (uint8_t)v->options->decimal_point;

    if (point == '.')
        return p;
    if (n > MAX_POINTED || memchr(p, '.', (size_t)n))
        return NULL;
    for (int64_t i = 0; i < n; i++)
        out[i] = p[i] == point ? '.' : p[i];
    return out;
}

/* Removes what pyarrow accepts beyond the grammar of number.h: blanks, "+", "nan(...)". false: not a number. */
static bool plain_double(const uint8_t **p, int64_t *n, bool *is_nan)
{
    trim(p, n);
    if (*n > 1 && **p == '+' && (*p)[1] != '-') {
        ++*p;
        --*n;
    }
    *is_nan = *n > 5 && (*p)[*n - 1] == ')' && ((*p)[0] | 0x20) == 'n' && ((*p)[1] | 0x20) == 'a' &&
              ((*p)[2] | 0x20) == 'n' && (*p)[3] == '(';
    return *n > 0;
}

static bool take_double(const csv_values *v, const uint8_t *p, int64_t n, double *out)
{
    uint8_t copy[MAX_POINTED + HR_SLACK];
    bool is_nan;

    if (v->options->decimal_point == '.' && hr__parse_double(p, n, true, out))
        return true;
    if (!plain_double(&p, &n, &is_nan) || !(p = pointed(v, p, n, copy)))
        return false;
    *out = (double)NAN;
    return is_nan || hr__parse_double(p, n, true, out);
}

static bool take_float(const csv_values *v, const uint8_t *p, int64_t n, float *out)
{
    uint8_t copy[MAX_POINTED + HR_SLACK];
    bool is_nan;

    if (!plain_double(&p, &n, &is_nan) || !(p = pointed(v, p, n, copy)))
        return false;
    *out = NAN;
    return is_nan || hr__parse_float(p, n, true, out);
}

static bool take_bool(const csv_values *v, const uint8_t *p, int64_t n, bool *out)
{
    *out = hr__csv_is_word(&v->trues, p, n);
    return *out || hr__csv_is_word(&v->falses, p, n);
}

static bool take_date(const uint8_t *p, int64_t n, int32_t *out)
{
    trim(&p, &n);
    return hr__parse_date(p, n, out);
}

static bool take_time(const hr_type *type, const uint8_t *p, int64_t n, int64_t *out)
{
    trim(&p, &n);
    return hr__parse_time(p, n, type->unit, out);
}

/* With a zone if and only if the column has one. */
static bool take_timestamp(const hr_type *type, const uint8_t *p, int64_t n, int64_t *out)
{
    int zone;

    return hr__parse_timestamp(p, n, type->unit, out, &zone) && zone == (type->zone != NULL);
}

bool hr__csv_fits(const csv_values *v, const hr_type *type, const uint8_t *p, int64_t n)
{
    int64_t i;
    int32_t days;
    double d;
    bool b;

    switch (type->id) {
    case HR_T_INT64: return take_int64(p, n, 64, &i);
    case HR_T_BOOL: return take_bool(v, p, n, &b);
    case HR_T_DATE32: return take_date(p, n, &days);
    case HR_T_TIME32: return take_time(type, p, n, &i);
    case HR_T_TIMESTAMP: return take_timestamp(type, p, n, &i);
    case HR_T_FLOAT64: return take_double(v, p, n, &d);
    case HR_T_STRING: return hr__utf8_valid(p, n);
    case HR_T_BINARY: return true;
    default: return false; /* null: a text that is not a word of null */
    }
}

bool hr__csv_readable(const hr_type *type)
{
    return type->id <= HR_T_INT64 || type->id == HR_T_UINT64 || type->id == HR_T_FLOAT32 || type->id == HR_T_FLOAT64 ||
           hr__type_is_bytes(type) || type->id == HR_T_DATE32 || type->id == HR_T_DATE64 || type->id == HR_T_TIME32 ||
           type->id == HR_T_TIME64 || type->id == HR_T_TIMESTAMP;
}

/* ---------------------------------------------------------------------------------------------------------- columns */

typedef struct column {
    const csv_values *v;
    const csv_rows *rows;
    const hr_type *type;
    const hr_mem *mem;
    int index;
    hr_buffer *scratch; /* for the longest field that needs unquoting */
    hr_buffer *valid;   /* NULL: no null so far */
    int64_t n_nulls;
    csv_bad *bad;
    hr_error *err;
} column;

static hr_status set_null(column *c, int64_t row)
{
    if (!c->valid) {
        HR_TRY(hr__buffer_new(c->mem, hr__bits_bytes(c->rows->n_rows), &c->valid, c->err));
        memset(c->valid->data, 0xFF, (size_t)c->valid->n_bytes);
    }
    hr__bit_clear(c->valid->data, row);
    c->n_nulls++;
    return HR_OK;
}

static hr_status bad(column *c, int64_t row, const char *why)
{
    *c->bad = (csv_bad){ row, why };
    return HR_BAD_DATA;
}

static hr_status unquote(column *c, const uint8_t **p, int64_t *n)
{
    if (!c->scratch || c->scratch->n_bytes < *n + HR_SLACK) {
        hr__buffer_unref(c->scratch);
        c->scratch = NULL;
        HR_TRY(hr__buffer_new(&(hr_mem){ c->mem->account, NULL }, *n * 2 + HR_SLACK, &c->scratch, c->err));
    }
    *p = hr__csv_unquote(&c->v->dialect, *p, n, c->scratch->data);
    return HR_OK;
}

/* The text of a row's field; *null: the field is missing or a word of null (for strings only if they can be null). */
static inline hr_status text_of(column *c, int64_t row, bool nulls, const uint8_t **p, int64_t *n, bool *null)
{
    const csv_values *v = c->v;
    bool quoted = false;

    *null = !hr__csv_field(c->rows, row, c->index, p, n);
    if (*null)
        return HR_OK;
    if (v->dialect.quote && *n > 0 && **p == v->dialect.quote) {
        quoted = true;
        HR_TRY(unquote(c, p, n));
    } else if (v->dialect.escape && memchr(*p, v->dialect.escape, (size_t)*n)) {
        HR_TRY(unquote(c, p, n));
    }
    *null = nulls && (!quoted || v->options->quoted_strings_can_be_null) && hr__csv_is_word(&v->nulls, *p, *n);
    return HR_OK;
}

/* One loop over all rows. `quick` stores the value if the raw bytes are one; only if such bytes cannot mean anything
 * else. `body` stores the value, and its result says whether the text is one. */
#define EACH_VALUE(quick, body)                                                                                        \
    const uint32_t *end = c->rows->ends + c->index, *starts = c->rows->starts;                                         \
    int64_t n_rows = c->rows->n_rows, stride = c->rows->n_columns;                                                     \
    bool plain = c->v->plain_values && !c->rows->missing, first = c->index == 0;                                       \
                                                                                                                       \
    for (int64_t row = 0; row < n_rows; row++, end += stride) {                                                        \
        const uint8_t *p;                                                                                              \
        int64_t n;                                                                                                     \
        bool null, fits;                                                                                               \
                                                                                                                       \
        if (plain) {                                                                                                   \
            uint32_t begin = first ? starts[row] : end[-1] + 1;                                                        \
                                                                                                                       \
            p = c->rows->data + begin;                                                                                 \
            n = (int64_t)*end - begin;                                                                                 \
            if (quick)                                                                                                 \
                continue;                                                                                              \
        }                                                                                                              \
        HR_TRY(text_of(c, row, true, &p, &n, &null));                                                                  \
        if (null) {                                                                                                    \
            HR_TRY(set_null(c, row));                                                                                  \
            values[row] = 0;                                                                                           \
            continue;                                                                                                  \
        }                                                                                                              \
        body;                                                                                                          \
        if (!fits)                                                                                                     \
            return bad(c, row, NULL);                                                                                  \
    }                                                                                                                  \
    return HR_OK

#define INTEGERS(name, type, wide, take, quick_take)                                                                   \
    static inline bool quick_##name(const uint8_t *p, int64_t n, type *out)                                            \
    {                                                                                                                  \
        int64_t one = 0;                                                                                               \
        bool taken = quick_take;                                                                                       \
                                                                                                                       \
        *out = (type)one;                                                                                              \
        return taken && (sizeof(type) == 8 || *out == one);                                                            \
    }                                                                                                                  \
                                                                                                                       \
    static hr_status read_##name(column *c, type *values)                                                              \
    {                                                                                                                  \
        EACH_VALUE(quick_##name(p, n, values + row), {                                                                 \
            wide one;                                                                                                  \
                                                                                                                       \
            fits = take(p, n, (int)sizeof(type) * 8, &one);                                                            \
            values[row] = (type)one;                                                                                   \
        });                                                                                                            \
    }
#define SIGNED(name, type) INTEGERS(name, type, int64_t, take_int64, hr__short_int64(p, n, &one))
#define UNSIGNED(name, type) INTEGERS(name, type, uint64_t, take_uint64, hr__short_int64(p, n, &one) && *p != '-')

SIGNED(int8, int8_t)
SIGNED(int16, int16_t)
SIGNED(int32, int32_t)
SIGNED(int64, int64_t)
UNSIGNED(uint8, uint8_t)
UNSIGNED(uint16, uint16_t)
UNSIGNED(uint32, uint32_t)
UNSIGNED(uint64, uint64_t)

static hr_status read_double(column *c, double *values)
{
    EACH_VALUE(hr__short_double(p, n, values + row), fits = take_double(c->v, p, n, values + row));
}

static hr_status read_float(column *c, float *values)
{
    EACH_VALUE(hr__short_float(p, n, values + row), fits = take_float(c->v, p, n, values + row));
}

static hr_status read_date32(column *c, int32_t *values)
{
    EACH_VALUE(hr__parse_date(p, n, values + row), fits = take_date(p, n, values + row));
}

static hr_status read_date64(column *c, int64_t *values)
{
    EACH_VALUE(false, {
        int32_t days = 0;

        fits = take_date(p, n, &days);
        values[row] = (int64_t)days * 86400000;
    });
}

static hr_status read_time32(column *c, int32_t *values)
{
    EACH_VALUE(false, {
        int64_t one = 0;

        fits = take_time(c->type, p, n, &one);
        values[row] = (int32_t)one;
    });
}

static hr_status read_time64(column *c, int64_t *values)
{
    EACH_VALUE(hr__parse_time(p, n, c->type->unit, values + row), fits = take_time(c->type, p, n, values + row));
}

static hr_status read_timestamp(column *c, int64_t *values)
{
    EACH_VALUE(take_timestamp(c->type, p, n, values + row), fits = take_timestamp(c->type, p, n, values + row));
}

static hr_status read_bool(column *c, uint8_t *bits)
{
    for (int64_t row = 0; row < c->rows->n_rows; row++) {
        const uint8_t *p;
        bool null, value;
        int64_t n;

        HR_TRY(text_of(c, row, true, &p, &n, &null));
        if (null)
            HR_TRY(set_null(c, row));
        else if (!take_bool(c->v, p, n, &value))
            return bad(c, row, NULL);
        else if (value)
            hr__bit_set(bits, row);
    }
    return HR_OK;
}

static hr_status read_null(column *c)
{
    for (int64_t row = 0; row < c->rows->n_rows; row++) {
        const uint8_t *p;
        bool null;
        int64_t n;

        HR_TRY(text_of(c, row, true, &p, &n, &null));
        if (!null)
            return bad(c, row, NULL);
    }
    return HR_OK;
}

static hr_status read_fixed(column *c, uint8_t *values)
{
    switch (c->type->id) {
    case HR_T_INT8: return read_int8(c, (int8_t *)values);
    case HR_T_INT16: return read_int16(c, (int16_t *)(void *)values);
    case HR_T_INT32: return read_int32(c, (int32_t *)(void *)values);
    case HR_T_INT64: return read_int64(c, (int64_t *)(void *)values);
    case HR_T_UINT8: return read_uint8(c, values);
    case HR_T_UINT16: return read_uint16(c, (uint16_t *)(void *)values);
    case HR_T_UINT32: return read_uint32(c, (uint32_t *)(void *)values);
    case HR_T_UINT64: return read_uint64(c, (uint64_t *)(void *)values);
    case HR_T_FLOAT32: return read_float(c, (float *)(void *)values);
    case HR_T_FLOAT64: return read_double(c, (double *)(void *)values);
    case HR_T_DATE32: return read_date32(c, (int32_t *)(void *)values);
    case HR_T_DATE64: return read_date64(c, (int64_t *)(void *)values);
    case HR_T_TIME32: return read_time32(c, (int32_t *)(void *)values);
    case HR_T_TIME64: return read_time64(c, (int64_t *)(void *)values);
    default: return read_timestamp(c, (int64_t *)(void *)values);
    }
}

/* ---------------------------------------------------------------------------------------------------------- strings */

/* Both ends have slack: short texts go in one step. */
static inline void copy_text(uint8_t *to, const uint8_t *p, int64_t n)
{
    if (n <= 16)
        memcpy(to, p, 16);
    else
        memcpy(to, p, (size_t)n);
}

/* Copies text that is not valid UTF-8, without the invalid bytes or with U+FFFD for each. -> bytes; at most 3 n. */
static int64_t mend_utf8(const uint8_t *p, int64_t n, bool replace, uint8_t *out)
{
    int64_t k = 0;

    for (int64_t i = 0; i < n;) {
        int64_t length = p[i] >= 0xF0 ? 4 : p[i] >= 0xE0 ? 3 : p[i] >= 0xC0 ? 2 : 1;

        if (i + length <= n && hr__utf8_valid(p + i, length)) {
            memcpy(out + k, p + i, (size_t)length);
            k += length;
            i += length;
        } else {
            if (replace)
                memcpy(out + k, "\xEF\xBF\xBD", 3);
            k += replace ? 3 : 0;
            i++;
        }
    }
    return k;
}

/* The maximum bytes of the fields: with quotes, and with each byte replaced by a longer one if that may happen. */
static int64_t room_for(const column *c, bool check)
{
    int64_t total = 0, n;
    const uint8_t *p;

    for (int64_t row = 0; row < c->rows->n_rows; row++) {
        hr__csv_field(c->rows, row, c->index, &p, &n);
        total += n;
    }
    return check && c->v->options->encoding_errors == CSV_REPLACE ? total * 3 : total;
}

static inline void set_offset(hr_buffer *offsets, bool large, int64_t i, int64_t at)
{
    if (large)
        ((int64_t *)(void *)offsets->data)[i] = at;
    else
        ((int32_t *)(void *)offsets->data)[i] = (int32_t)at;
}

static hr_status read_strings(column *c, hr_buffer *buffers[3])
{
    bool large = c->type->id == HR_T_LARGE_STRING || c->type->id == HR_T_LARGE_BINARY;
    bool check = !c->rows->is_utf8 && (c->type->id == HR_T_STRING || c->type->id == HR_T_LARGE_STRING);
    int errors = c->v->options->encoding_errors;
    int64_t at = 0, room = room_for(c, check);

    if (!large && room > INT32_MAX)
        return hr_error_set(c->err, HR_BUDGET, "more than 2 GiB of text in one block need the type large_string");
    HR_TRY(hr__buffer_new(c->mem, (c->rows->n_rows + 1) * (large ? 8 : 4), &buffers[1], c->err));
    HR_TRY(hr__buffer_new(c->mem, room, &buffers[2], c->err));
    set_offset(buffers[1], large, 0, 0);
    for (int64_t row = 0; row < c->rows->n_rows; row++) {
        const uint8_t *p;
        bool null;
        int64_t n;

        HR_TRY(text_of(c, row, c->v->options->strings_can_be_null, &p, &n, &null));
        if (null) {
            HR_TRY(set_null(c, row));
        } else if (!check || hr__utf8_valid(p, n)) {
            copy_text(buffers[2]->data + at, p, n);
            at += n;
        } else if (errors == CSV_STRICT) {
            return bad(c, row, "text that is not UTF-8");
        } else {
            at += mend_utf8(p, n, errors == CSV_REPLACE, buffers[2]->data + at);
        }
        set_offset(buffers[1], large, row + 1, at);
    }
    memset(buffers[2]->data + at, 0, HR_MIN((size_t)(room - at) + HR_SLACK, HR_SLACK)); /* short copies wrote over it */
    hr__buffer_shrink(buffers[2], at);
    return HR_OK;
}

hr_status hr__csv_column(const csv_values *v, const csv_rows *rows, int index, hr_type *type, const hr_mem *mem,
                         hr_array **out, csv_bad *bad_out, hr_error *err)
{
    column c = { .v = v, .rows = rows, .type = type, .mem = mem, .index = index, .bad = bad_out, .err = err };
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_status st = HR_OK;

    *out = NULL;
    bad_out->row = -1;
    if (hr__type_is_bytes(type)) {
        HR_GO(read_strings(&c, buffers));
    } else if (type->id == HR_T_BOOL) {
        HR_GO(hr__buffer_new(mem, hr__bits_bytes(rows->n_rows), &buffers[1], err));
        memset(buffers[1]->data, 0, (size_t)buffers[1]->n_bytes);
        HR_GO(read_bool(&c, buffers[1]->data));
    } else if (type->id == HR_T_NULL) {
        HR_GO(read_null(&c));
        c.n_nulls = rows->n_rows;
    } else {
        HR_GO(hr__buffer_new(mem, rows->n_rows * hr__type_bytes(type), &buffers[1], err));
        HR_GO(read_fixed(&c, buffers[1]->data));
    }
    buffers[0] = c.valid;
    c.valid = NULL; /* moved */
    st = hr__array_new(type, rows->n_rows, c.n_nulls, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL; /* taken */
done:
    hr__buffer_unref(c.scratch);
    hr__buffer_unref(c.valid);
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}
