/* plan_distinct.c - nodes that choose rows among all: distinct rows, a sample of exactly n rows, lists as rows.
 *
 * They are made of other operators. Distinct rows: number the rows, group them by the keys with the first (or last)
 * value of each other column and of the number, and sort the groups by the number. A sample: number the rows, keep the
 * n rows with the least random numbers, and sort them by their number. Hidden columns hold the numbers.
 *
 * Tests: test_keyed.c, test_distinct.py. */
#include "plan/plan.h"
#include "expr/expr.h"

#include <inttypes.h>
#include <stdio.h>

#define HIDDEN_ROW "\001row"
#define HIDDEN_COUNT "\001count"
#define HIDDEN_RANDOM "\001random"

/* Takes op and `in`, even on failure; checks the new node against the input's schema if that is known. */
static hr_status over(hr_plan *in, hr_status st, hr_op *op, hr_plan **out, hr_error *err)
{
    hr_schema *schema = NULL;

    *out = NULL;
    if (!st)
        st = hr__plan_op(in, op, out, err);
    hr_plan_unref(in);
    if (!st && (st = hr__plan_schema_early(*out, &schema, err))) {
        hr_plan_unref(*out);
        *out = NULL;
    }
    hr__schema_unref(schema);
    return st;
}

static hr_status numbered(hr_plan *in, hr_plan **out, hr_error *err)
{
    hr_op *op = NULL;
    hr_status st = hr__op_number_rows(HIDDEN_ROW, &op, err);

    return over(hr_plan_ref(in), st, op, out, err);
}

/* Sorts by the last column, which is hidden, and drops it. Takes `in`. */
static hr_status sorted(hr_plan *in, const char *column, hr_plan **out, hr_error *err)
{
    hr_op *op = NULL;
    hr_status st = hr__op_sort(&(hr_sort_column){ .name = column, .text = "row" }, 1, 1, &op, err);

    return over(in, st, op, out, err);
}

/* Only these columns. Takes `in`. */
static hr_status only(hr_plan *in, const char *const *columns, int n, hr_plan **out, hr_error *err)
{
    hr_op *op = NULL;
    hr_status st = hr__op_project(columns, NULL, n, &op, err);

    return over(in, st, op, out, err);
}

/* -------------------------------------------------------------------------------------------------------- distinct */

static bool is_among(const char *name, const char *const *names, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(names[i], name))
            return true;
    return false;
}

static hr_status missing(const char *const *columns, int n, const char *name, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < n; i++)
        hr__near_try(&near, columns[i], strlen(columns[i]));
    return hr__near_error(&near, HR_INVALID, "distinct", name, err);
}

static hr_status check_keys(const char *const *columns, int n, const char *const *keys, int n_keys, hr_error *err)
{
    for (int i = 0; i < n_keys; i++)
        if (!is_among(keys[i], columns, n))
            return missing(columns, n, keys[i], err);
        else if (is_among(keys[i], keys, i))
            return hr_error_set(err, HR_INVALID, "distinct: the column '%s' is given twice", keys[i]);
    return HR_OK;
}

/* A row for each key: its row's number, the values of the other columns, the number of its rows (of HR_KEEP_NONE). */
static hr_status grouped(hr_plan *in, const char *const *columns, int n, const char *const *keys, int n_keys,
                         hr_keep keep, hr_plan **out, hr_error *err)
{
    const char *end = keep == HR_KEEP_LAST ? "last" : "first";
    hr_aggregate *aggs = hr__zalloc(NULL, ((size_t)n + 2) * sizeof *aggs);
    hr_schema *schema = NULL;
    hr_plan *rows = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;
    int n_aggs = 0;

    if (!aggs)
        return hr__error_memory(err, "distinct", n * (int64_t)sizeof *aggs);
    for (int i = 0; i < n; i++)
        if (!is_among(columns[i], keys, n_keys))
            aggs[n_aggs++] = (hr_aggregate){ .function = end, .column = columns[i], .name = columns[i] };
    if (keep == HR_KEEP_NONE)
        aggs[n_aggs++] = (hr_aggregate){ .function = "count", .name = HIDDEN_COUNT };
    aggs[n_aggs++] =
        (hr_aggregate){ .function = keep == HR_KEEP_LAST ? "max" : "min", .column = HIDDEN_ROW, .name = HIDDEN_ROW };
    HR_GO(numbered(in, &rows, err));
    HR_GO(hr__plan_schema_early(rows, &schema, err));
    st = hr__op_group(schema, keys, n_keys, aggs, n_aggs, &op, err);
    st = over(rows, st, op, out, err);
    rows = NULL;
done:
    hr_plan_unref(rows);
    hr__schema_unref(schema);
    hr__free(aggs);
    return st;
}

/* The groups of one row. Takes `in`. */
static hr_status alone(hr_plan *in, hr_plan **out, hr_error *err)
{
    hr_expr *both[2] = { NULL }, *same = NULL;
    hr_op *op = NULL;
    hr_status st = HR_OK;

    HR_GO(hr_expr_column(HIDDEN_COUNT, &both[0], err));
    HR_GO(hr_expr_int(1, &both[1], err));
    HR_GO(hr_expr_call("equal", both, 2, NULL, 0, &same, err));
    st = hr__op_filter_expr(same, &op, err);
done:
    hr_expr_unref(both[0]);
    hr_expr_unref(both[1]);
    hr_expr_unref(same);
    return over(in, st, op, out, err);
}

hr_status hr__plan_distinct(hr_plan *in, const char *const *columns, int n, const char *const *keys, int n_keys,
                            hr_keep keep, hr_plan **out, hr_error *err)
{
    hr_plan *rows = NULL, *next = NULL;

    *out = NULL;
    if (!n)
        return hr_error_set(err, HR_INVALID, "distinct: the rows have no columns");
    HR_TRY(check_keys(columns, n, keys, n_keys, err));
    if (!n_keys) {
        keys = columns;
        n_keys = n;
    }
    HR_TRY(grouped(in, columns, n, keys, n_keys, keep, &rows, err));
    if (keep == HR_KEEP_NONE) {
        HR_TRY(alone(rows, &next, err));
        rows = next;
    }
    HR_TRY(sorted(rows, HIDDEN_ROW, &next, err));
    return only(next, columns, n, out, err);
}

hr_status hr_plan_distinct(hr_plan *in, const char *const *keys, int n_keys, hr_keep keep, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_schema *schema = NULL;
    const char **names = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (n_keys)
        HR_NEED(keys);
    if (keep < HR_KEEP_FIRST || keep > HR_KEEP_NONE)
        return hr_error_set(err, HR_INVALID, "distinct: keep %d, expected 0 to %d", (int)keep, HR_KEEP_NONE);
    HR_TRY(hr__plan_schema_early(in, &schema, err));
    if (!schema)
        return hr_error_set(err, HR_UNSUPPORTED, "distinct: the columns are known only when a function has run");
    if (!(names = hr__zalloc(NULL, ((size_t)schema->n + 1) * sizeof *names)))
        HR_GO(hr__error_memory(err, "distinct", schema->n * (int64_t)sizeof *names));
    for (int i = 0; i < schema->n; i++)
        names[i] = schema->fields[i].name;
    st = hr__plan_distinct(in, names, schema->n, keys, n_keys, keep, out, err);
done:
    hr__free((void *)names);
    hr__schema_unref(schema);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- sample */

/* Adds a column of random numbers. Takes `in`. */
static hr_status drawn(hr_plan *in, uint64_t seed, hr_plan **out, hr_error *err)
{
    static const char *const name = HIDDEN_RANDOM;
    char own[40];
    const char *const settings[] = { "seeded=true", "reseed=false", "stream=733", own };
    hr_expr *random = NULL;
    hr_op *op = NULL;
    hr_status st;

    snprintf(own, sizeof own, "seed=%" PRId64, (int64_t)seed);
    st = hr_expr_call("random", NULL, 0, settings, HR_LEN(settings), &random, err);
    if (!st)
        st = hr__op_with_columns(&name, &random, 1, &op, err);
    hr_expr_unref(random);
    return over(in, st, op, out, err);
}

hr_status hr_plan_sample_rows(hr_plan *in, int64_t n, uint64_t seed, hr_plan **out, hr_error *err)
{
    HR_NEED(in, out);

    hr_plan *rows = NULL, *next = NULL;
    hr_op *op = NULL;
    hr_status st;

    *out = NULL;
    if (n < 0)
        return hr_error_set(err, HR_INVALID, "sample: %" PRId64 " rows, expected 0 or more", n);
    HR_TRY(numbered(in, &rows, err));
    HR_TRY(drawn(rows, seed, &next, err));
    HR_TRY(sorted(next, HIDDEN_RANDOM, &rows, err));
    st = hr__op_limit(n, &op, err);
    HR_TRY(over(rows, st, op, &next, err));
    return sorted(next, HIDDEN_ROW, out, err);
}

/* --------------------------------------------------------------------------------------------------------- explode */

hr_status hr_plan_explode(hr_plan *in, const char *column, hr_plan **out, hr_error *err)
{
    HR_NEED(in, column, out);

    hr_op *op = NULL;
    hr_status st = hr__op_explode(column, &op, err);

    return over(hr_plan_ref(in), st, op, out, err);
}
