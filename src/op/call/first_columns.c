/* first_columns.c - conforms a function's tables to the columns of its first table.
 *
 * If a function declares no schema, its first table in canonical order defines its columns; until that table is known,
 * no other table goes on (apply.c). Each later table is conformed by itself, so that the result does not depend on
 * threads:
 *
 * 1. A column that a later table lacks is null in it. A column that the first table lacks is an error, since emitted
 *    rows lack it.
 * 2. Integers where the first table has doubles become doubles. Doubles where it has integers become integers, null
 *    where they are NaN, if all values are whole (up to 2^53, where doubles hold all integers); otherwise it is an
 *    error.
 * 3. Of nearly equal types (null and T, tensors and lists) the more exact one stays: conform.c.
 *
 * NumPy and pandas have no integers with nulls: the function sees doubles with NaN. A column of doubles in the first
 * table becomes integers again if it holds values that the function saw, or has the same length and NaNs and is whole.
 * That is a guess: if a later table has fractions there, its column stays doubles, and concatenating the tables makes
 * all of them doubles. */
#include "op/call/calls.h"

#include <inttypes.h>

#define MANY_WHOLE 16 /* from this many whole numbers on, they are integers */

void hr__first_columns_clear(hr_first_columns *f)
{
    hr__schema_unref(f->schema);
    hr__free(f->guessed);
    hr__remembered_clear(&f->remembered);
    *f = (hr_first_columns){ 0 };
}

/* ------------------------------------------------------------------------------------ columns that repeat the input */

static double double_at(const hr_array *a, int64_t i) { return ((const double *)(const void *)hr__array_values(a))[i]; }

static double shown_as(const hr_array *a, int64_t i)
{
    return hr__type_is_unsigned(a->type) ? (double)hr__array_uint(a, i) : (double)hr__array_int(a, i);
}

static bool is_none(const hr_array *a, int64_t i)
{
    return hr__array_is_null(a, i) || double_at(a, i) != double_at(a, i);
}

/* Whether `given` holds some of rows [begin, begin + n) of `shown`, in order. */
static bool is_some_of(const hr_array *given, const hr_array *shown, int64_t begin, int64_t n)
{
    int64_t at = begin;

    for (int64_t i = 0; i < given->length; i++, at++) {
        bool none = is_none(given, i);

        while (at < begin + n &&
               (hr__array_is_null(shown, at) ? !none : none || shown_as(shown, at) != double_at(given, i)))
            at++;
        if (at == begin + n)
            return false;
    }
    return true;
}

/* Whether `given` has a value exactly where `shown` has one, and many values. */
static bool is_made_of(const hr_array *given, const hr_array *shown, int64_t begin, int64_t n)
{
    int64_t n_values = 0;

    if (given->length != n)
        return false;
    for (int64_t i = 0; i < n; i++) {
        if (is_none(given, i) != hr__array_is_null(shown, begin + i))
            return false;
        n_values += !is_none(given, i);
    }
    return n_values >= MANY_WHOLE;
}

static bool some_null(const hr_array *a, int64_t begin, int64_t n)
{
    for (int64_t i = 0; i < n && a->buffers[0]; i++)
        if (hr__array_is_null(a, begin + i))
            return true;
    return false;
}

/* The integer type of the input column that `given` repeats; NULL: none. A single value may be a mean or a sum. */
static hr_type *integers_of(const hr_array *given, const char *name, const hr_shown *shown)
{
    int at = shown->in ? hr__schema_find(shown->in->schema, name) : -1;
    const hr_array *a = at < 0 ? NULL : shown->in->columns[at];

    if (!a || given->type->id != HR_T_FLOAT64 || given->length < 2 || !hr__type_is_int(a->type) ||
        !some_null(a, shown->begin, shown->n) || hr__array_not_whole(given, a->type) >= 0)
        return NULL;
    return is_some_of(given, a, shown->begin, shown->n) || is_made_of(given, a, shown->begin, shown->n) ? a->type
                                                                                                        : NULL;
}

/* -------------------------------------------------------------------------------------------------- the first table */

hr_status hr__first_columns_set(hr_first_columns *f, const hr_mem *mem, const hr_table *t, const hr_shown *shown,
                                hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)t->schema->n + 1) * sizeof *fields);
    bool *guessed = hr__zalloc(mem->account, (size_t)t->schema->n + 1), any = false;
    hr_status st = HR_OK;

    if (!fields || !guessed)
        HR_GO(hr__error_memory(err, "columns", t->schema->n * (int64_t)sizeof *fields));
    for (int i = 0; i < t->schema->n; i++) {
        hr_type *type = integers_of(t->columns[i], t->schema->fields[i].name, shown);

        fields[i] = t->schema->fields[i]; /* borrowed: hr__schema_new copies */
        if (!type)
            continue;
        fields[i].type = type;
        fields[i].nullable = guessed[i] = any = true;
    }
    if (any)
        HR_GO(hr__schema_new(fields, t->schema->n, &f->schema, err));
    else
        f->schema = hr__schema_ref(t->schema);
    f->guessed = guessed;
    guessed = NULL;
    st = hr__remembered_set(&f->remembered, f->schema, f->guessed, err);
done:
    hr__free(fields);
    hr__free(guessed);
    return st;
}

hr_status hr__first_columns_recall(hr_first_columns *f, const char *text, int64_t n, bool *known, hr_error *err)
{
    HR_TRY(hr__remembered_recall(&f->remembered, text, n, &f->schema, &f->guessed, err));
    *known = f->schema != NULL;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------ those that follow */

static hr_status new_column(const hr_schema *first, const char *name, hr_error *err)
{
    char names[200];

    hr__schema_names(first, names, sizeof names);
    return hr_error_set(
        err, HR_TYPE,
        "column '%s' is not in the first batch, whose columns are %s; return all columns in every batch, "
        "with None where there is no value",
        name, names);
}

static hr_status other_type(const hr_field *first, const hr_array *a, int64_t row, hr_error *err)
{
    hr_text t = { 0 };
    hr_status st;

    hr__text_add(&t, "column '%s' is ", first->name);
    hr__type_print(a->type, &t);
    hr__text_add(&t, ", expected ");
    hr__type_print(first->type, &t);
    hr__text_add(&t, " as in the first batch");
    if (row >= 0) {
        hr__text_add(&t, ": row %" PRId64 " of them is ", row);
        hr__array_print_some(a, row, 100, &t);
    }
    st = t.failed ? hr__error_memory(err, "columns", 100) : hr_error_set(err, HR_TYPE, "%s", t.data);
    hr__text_clear(&t);
    return st;
}

static hr_status fit_column(const hr_field *first, bool guessed, const hr_mem *mem, hr_array *a, hr_array **out,
                            hr_error *err)
{
    hr_type *both = NULL;
    hr_status st;
    int64_t row;

    if (hr__type_is_int(first->type) && a->type->id == HR_T_FLOAT64) {
        if ((row = hr__array_not_whole(a, first->type)) < 0)
            return hr__array_of_whole(mem, a, first->type, out, err);
        if (!guessed)
            return other_type(first, a, row, err);
        *out = hr__array_ref(a);
        return HR_OK;
    }
    if (first->type->id == HR_T_FLOAT64 && hr__type_is_int(a->type)) {
        if ((row = hr__array_not_exact(a)) >= 0)
            return other_type(first, a, row, err);
        return hr__array_unify(mem, a, first->type, out, err);
    }
    HR_TRY(hr__type_conform(first->type, a->type, &both, err));
    if (!both)
        return other_type(first, a, -1, err);
    st = hr__array_conform(mem, a, both, out, err);
    hr__type_unref(both);
    return st;
}

/* The schema of the arrays with the names of the first schema. */
static hr_status schema_of(const hr_schema *first, hr_array *const *columns, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__alloc(NULL, ((size_t)first->n + 1) * sizeof *fields);
    hr_status st;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "columns", first->n * (int64_t)sizeof *fields);
    for (int i = 0; i < first->n; i++) {
        fields[i] = first->fields[i]; /* borrowed: hr__schema_new copies */
        fields[i].type = columns[i]->type;
        fields[i].nullable = true;
    }
    st = hr__schema_new(fields, first->n, out, err);
    hr__free(fields);
    return st;
}

hr_status hr__first_columns_fit(const hr_first_columns *f, const hr_mem *mem, hr_table *t, hr_table **out,
                                hr_error *err)
{
    const hr_schema *first = f->schema;
    hr_array **columns = NULL;
    hr_schema *schema = NULL;
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    if (t->schema == first || hr__schema_equal(t->schema, first)) {
        *out = hr_table_ref(t);
        return HR_OK;
    }
    for (int i = 0; i < t->schema->n; i++)
        if (hr__schema_find(first, t->schema->fields[i].name) < 0)
            return new_column(first, t->schema->fields[i].name, err);
    if (!(columns = hr__zalloc(mem->account, ((size_t)first->n + 1) * sizeof(hr_array *))))
        return hr__error_memory(err, "columns", first->n * (int64_t)sizeof(hr_array *));
    for (; n < first->n; n++) {
        int at = hr__schema_find(t->schema, first->fields[n].name);

        if (at < 0)
            HR_GO(hr__array_nulls(mem, first->fields[n].type, t->n_rows, &columns[n], err));
        else
            HR_GO(fit_column(&first->fields[n], f->guessed[n], mem, t->columns[at], &columns[n], err));
    }
    HR_GO(schema_of(first, columns, &schema, err));
    n = 0; /* taken */
    st = hr__table_new(schema, columns, t->n_rows, t->origin, out, err);
done:
    while (n-- > 0)
        hr__array_unref(columns[n]);
    hr__free(columns);
    hr__schema_unref(schema);
    return st;
}
