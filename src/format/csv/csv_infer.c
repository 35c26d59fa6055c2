/* csv_infer.c - the type of a column of text: the first in pyarrow's order that all values of the sample have.
 *
 * Tests: test_csv.c. */
#include "base/number_short.h"
#include "format/csv/csv.h"

/* In the order of attempts; a value that a type does not accept moves the column to the next type that accepts all
 * values before it. */
enum { NULLS, INT64, BOOL, DATE, TIME, SECONDS, SECONDS_UTC, NANOS, NANOS_UTC, DOUBLE, STRING, BINARY, N_KINDS };

static hr_status make_type(int kind, hr_type **out, hr_error *err)
{
    static const hr_type_id ids[N_KINDS] = { [NULLS] = HR_T_NULL,   [INT64] = HR_T_INT64,    [BOOL] = HR_T_BOOL,
                                             [DATE] = HR_T_DATE32,  [DOUBLE] = HR_T_FLOAT64, [STRING] = HR_T_STRING,
                                             [BINARY] = HR_T_BINARY };

    switch (kind) {
    case TIME: return hr__type_unit(HR_T_TIME32, HR_SECOND, NULL, out, err);
    case SECONDS: return hr__type_unit(HR_T_TIMESTAMP, HR_SECOND, NULL, out, err);
    case SECONDS_UTC: return hr__type_unit(HR_T_TIMESTAMP, HR_SECOND, "UTC", out, err);
    case NANOS: return hr__type_unit(HR_T_TIMESTAMP, HR_NANO, NULL, out, err);
    case NANOS_UTC: return hr__type_unit(HR_T_TIMESTAMP, HR_NANO, "UTC", out, err);
    default: *out = hr__type_simple(ids[kind]); return HR_OK;
    }
}

/* The first row from `row` on whose raw bytes are not a number of the type. */
static int64_t pass_numbers(const csv_rows *rows, int column, bool whole, int64_t row)
{
    const uint32_t *end = rows->ends + row * rows->n_columns + column;

    for (; row < rows->n_rows; row++, end += rows->n_columns) {
        uint32_t begin = column ? end[-1] + 1 : rows->starts[row];
        hr__short_decimal decimal;
        int64_t integer;

        if (whole ? !hr__short_int64(rows->data + begin, (int64_t)*end - begin, &integer)
                  : !hr__short_decimal_of(rows->data + begin, (int64_t)*end - begin, &decimal))
            break;
    }
    return row;
}

/* Whether all rows have the type; uses a scratch buffer to unquote fields. */
static hr_status all_fit(const csv_values *v, const csv_rows *rows, int column, const hr_type *type,
                         hr_growbuf *scratch, bool *fit, hr_error *err)
{
    bool text = hr__type_is_bytes(type), whole = type->id == HR_T_INT64;
    bool numbers = v->plain_values && !rows->missing && (whole || type->id == HR_T_FLOAT64);

    *fit = true;
    if (type->id == HR_T_BINARY || (type->id == HR_T_STRING && rows->is_utf8))
        return HR_OK;
    for (int64_t row = 0; row < rows->n_rows && *fit; row++) {
        const uint8_t *p;
        bool quoted;
        int64_t n;

        if (numbers && (row = pass_numbers(rows, column, whole, row)) == rows->n_rows)
            break;
        if (!hr__csv_field(rows, row, column, &p, &n))
            continue;
        quoted = n > 0 && v->dialect.quote && *p == v->dialect.quote;
        if (quoted || (v->dialect.escape && memchr(p, v->dialect.escape, (size_t)n))) {
            HR_TRY(hr__growbuf_reserve(scratch, n + HR_SLACK, err));
            p = hr__csv_unquote(&v->dialect, p, &n, scratch->buffer->data);
        }
        *fit = hr__csv_fits(v, type, p, n) ||
               (!text && (!quoted || v->options->quoted_strings_can_be_null) && hr__csv_is_word(&v->nulls, p, n));
    }
    return HR_OK;
}

hr_status hr__csv_infer(const csv_values *v, const csv_rows *rows, int column, hr_type **out, hr_error *err)
{
    hr_mem mem = { NULL, NULL };
    hr_growbuf scratch = { .mem = &mem };
    hr_status st = HR_OK;
    bool fit = false;

    *out = NULL;
    for (int kind = NULLS; !fit && kind < N_KINDS; kind++) {
        hr__type_unref(*out);
        *out = NULL;
        HR_GO(make_type(kind, out, err));
        HR_GO(all_fit(v, rows, column, *out, &scratch, &fit, err));
    }
done:
    hr__growbuf_clear(&scratch);
    return st;
}

int64_t hr__csv_type_bytes(const csv_options *o)
{
    return (o->dtypes && *o->dtypes) || (o->default_type && *o->default_type) ? 0 : o->infer_bytes;
}
