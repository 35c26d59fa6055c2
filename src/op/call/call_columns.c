/* call_columns.c - a function that makes one column from others gets only those; the other columns wait for its result.
 *
 * So a wide column that the function does not use is not copied to the workers' arena and, unless an operator
 * downstream needs it, not read.
 *
 * Tests: test_calls.c. */
#include "op/call/calls.h"

#include <string.h>

hr_status hr__call_columns_init(hr_call_columns *c, const hr_calls_options *o, hr_error *err)
{
    if (!o->made)
        return HR_OK;
    if (!(c->made = hr__strdup(NULL, o->made)) ||
        (o->n_columns && !(c->names = hr__zalloc(NULL, (size_t)o->n_columns * sizeof *c->names))))
        return hr__error_memory(err, o->made, o->n_columns * (int64_t)sizeof *c->names);
    for (; c->n < o->n_columns; c->n++)
        if (!(c->names[c->n] = hr__strdup(NULL, o->columns[c->n])))
            return hr__error_memory(err, o->made, 100);
    return HR_OK;
}

void hr__call_columns_clear(hr_call_columns *c)
{
    for (int i = 0; i < c->n; i++)
        hr__free(c->names[i]);
    hr__free(c->names);
    hr__free(c->made);
    *c = (hr_call_columns){ 0 };
}

hr_status hr__call_columns_input(const hr_call_columns *c, const hr_table *in, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field *fields = hr__zalloc(NULL, (size_t)HR_MAX(c->n, 1) * sizeof *fields);
    hr_array **columns = hr__zalloc(NULL, (size_t)HR_MAX(c->n, 1) * sizeof *columns);
    hr_schema *schema = NULL;

    *out = NULL;
    if (!fields || !columns) {
        st = hr__error_memory(err, c->made, c->n * (int64_t)sizeof *fields);
        goto done;
    }
    for (int i = 0; i < c->n; i++) {
        int at = hr__schema_find(in->schema, c->names[i]);

        if (at < 0) {
            st = hr__schema_missing(in->schema, c->names[i], err);
            goto done;
        }
        fields[i] = in->schema->fields[at]; /* borrowed: hr__schema_new copies */
        columns[i] = in->columns[at];
    }
    HR_GO(hr__schema_new(fields, c->n, &schema, err));
    for (int i = 0; i < c->n; i++)
        hr__array_ref(columns[i]);
    st = hr__table_new(schema, columns, in->n_rows, in->origin, out, err);
done:
    hr__schema_unref(schema);
    hr__free(fields);
    hr__free(columns);
    return st;
}

hr_status hr__call_columns_schema(const hr_call_columns *c, const hr_schema *whole, const hr_schema *found,
                                  hr_schema **out, hr_error *err)
{
    if (found->n != 1 || strcmp(found->fields[0].name, c->made) != 0)
        return hr_error_set(err, HR_CALLBACK,
                            "%s: the function must return one column of this name, but returned %d columns", c->made,
                            found->n);
    if (hr__schema_find(whole, c->made) >= 0)
        return hr_error_set(err, HR_INVALID, "%s: a column of this name exists already", c->made);
    return hr__schema_append(whole, c->made, found->fields[0].type, true, out, err);
}

hr_status hr__call_columns_join(const hr_call_columns *c, const hr_table *whole, int64_t begin, const hr_table *found,
                                hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_schema *schema = NULL;
    hr_table *rows = NULL;

    *out = NULL;
    HR_GO(hr__call_columns_schema(c, whole->schema, found->schema, &schema, err));
    HR_GO(hr_table_slice(whole, begin, found->n_rows, &rows, err));
    st = hr__table_append(rows, schema, hr__array_ref(found->columns[0]), found->origin, out, err);
done:
    hr__schema_unref(schema);
    hr_table_unref(rows);
    return st;
}

hr_status hr__call_columns_needs(const hr_call_columns *c, const char *const *wanted, int n, hr_needs *out,
                                 hr_error *err)
{
    if (!c->made || n < 0) {
        out->n = -1;
        return HR_OK;
    }
    for (int i = 0; i < n; i++)
        if (strcmp(wanted[i], c->made) != 0)
            HR_TRY(hr__needs_add(out, wanted[i], err));
    for (int i = 0; i < c->n; i++)
        HR_TRY(hr__needs_add(out, c->names[i], err));
    return HR_OK;
}

void hr__call_columns_fingerprint(const hr_call_columns *c, hr_hash *h)
{
    if (!c->made)
        return;
    hr__hash_text(h, c->made);
    for (int i = 0; i < c->n; i++)
        hr__hash_text(h, c->names[i]);
}
