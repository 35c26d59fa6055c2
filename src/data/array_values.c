/* array_values.c - checks that the values of a column are values of its type.
 *
 * hr__array_check checks what memory safety needs: sizes, offsets, lengths. This file checks Arrow's rules for values,
 * which damaged bytes break: a decimal has no more digits than its precision, a time of day lies within a day, a date64
 * is a whole number of days, the keys of a map are not null. Nulls may have any content.
 *
 * Tests: test_ipc.c. */
#include "base/decimal.h"
#include "data/data.h"

static const int64_t units_a_day[] = { 86400, 86400000, 86400000000, 86400000000000 };

/* Each returns the row of the first value that is not allowed; -1: none. */

static int64_t bad_decimal128(const hr_array *a)
{
    const uint8_t *p = hr__array_values(a);
    const int128 most = hr__most_of_digits(a->type->precision);

    for (int64_t i = 0; i < a->length; i++)
        if (!hr__decimal_fits(p + i * 16, 16, a->type->precision, most) && !hr__array_is_null(a, i))
            return i;
    return -1;
}

static int64_t bad_decimal256(const hr_array *a)
{
    const uint8_t *p = hr__array_values(a);
    const int128 most = hr__most_of_digits(a->type->precision);

    for (int64_t i = 0; i < a->length; i++)
        if (!hr__decimal_fits(p + i * 32, 32, a->type->precision, most) && !hr__array_is_null(a, i))
            return i;
    return -1;
}

static int64_t bad_date64(const hr_array *a)
{
    const uint8_t *p = hr__array_values(a);
    int64_t v;

    for (int64_t i = 0; i < a->length; i++) {
        memcpy(&v, p + i * 8, sizeof v);
        if (v % units_a_day[HR_MILLI] != 0 && !hr__array_is_null(a, i))
            return i;
    }
    return -1;
}

static int64_t bad_time(const hr_array *a)
{
    const uint8_t *p = hr__array_values(a);
    int64_t end = units_a_day[a->type->unit], v8;
    bool wide = a->type->id == HR_T_TIME64;
    int32_t v4;

    for (int64_t i = 0; i < a->length; i++) {
        if (wide) {
            memcpy(&v8, p + i * 8, sizeof v8);
        } else {
            memcpy(&v4, p + i * 4, sizeof v4);
            v8 = v4;
        }
        if ((v8 < 0 || v8 >= end) && !hr__array_is_null(a, i))
            return i;
    }
    return -1;
}

static const char *check_numbers(const hr_array *a, bool exact, int64_t *row)
{
    switch (a->type->id) {
    case HR_T_DECIMAL128: *row = exact ? bad_decimal128(a) : -1; return "a decimal with more digits than its type has";
    case HR_T_DECIMAL256: *row = exact ? bad_decimal256(a) : -1; return "a decimal with more digits than its type has";
    case HR_T_DATE64: *row = bad_date64(a); return "a date that is no whole number of days";
    case HR_T_TIME32:
    case HR_T_TIME64: *row = bad_time(a); return "a time of day beyond the day";
    default: return "";
    }
}

/* Checks the entries of a map and their keys. */
static hr_status check_map(const hr_array *a, hr_error *err)
{
    const hr_array *entries = a->children[0];

    if (hr__array_null_count(entries) || hr__array_null_count(entries->children[0]))
        return hr_error_set(err, HR_BAD_DATA, "a map with keys that are null");
    return HR_OK;
}

/* Adds the value to the error; for times the number, since the value has no text. */
static hr_status bad_value(const hr_array *a, int64_t row, const char *what, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    hr__text_add(&t, "row %lld: %s: ", (long long)row, what);
    if (hr__type_is_decimal(a->type))
        hr__array_print_some(a, row, 100, &t);
    else
        hr__text_add(&t, "%lld", (long long)hr__array_int(a, row));
    hr__text_add(&t, " as ");
    hr__type_print(a->type, &t);
    st = t.failed ? hr__error_memory(err, "values", 100) : hr_error_set(err, HR_BAD_DATA, "%s", t.data);
    hr__text_clear(&t);
    return st;
}

hr_status hr__array_check_values(const hr_array *a, bool exact, hr_error *err)
{
    int64_t row = -1;
    const char *what = check_numbers(a, exact, &row);

    if (row >= 0)
        return bad_value(a, row, what, err);
    if (a->type->id == HR_T_MAP)
        HR_TRY(check_map(a, err));
    for (int i = 0; i < a->n_children; i++) {
        hr_status st = hr__array_check_values(a->children[i], exact, err);

        if (st)
            return hr__error_at(err, st, "'%s'", a->type->children[i].name);
    }
    return HR_OK;
}
