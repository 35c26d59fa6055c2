/* text_view.c - text and binary columns as a pointer and offsets, for callers without Arrow structs.
 *
 * Tests: test_public_api.c. */
#include "data/data.h"

static hr_status check_text(const hr_table *t, int column, hr_error *err)
{
    hr_text type = { 0 };
    hr_status st;

    if (column < 0 || column >= t->schema->n)
        return hr_error_set(err, HR_INVALID, "column %d of a table with %d", column, t->schema->n);
    if (hr__type_is_bytes(t->columns[column]->type))
        return HR_OK;
    hr__type_print(t->columns[column]->type, &type);
    st = hr_error_set(err, HR_TYPE, "column '%s' is %s, neither text nor binary", t->schema->fields[column].name,
                      type.data ? type.data : "?");
    hr__text_clear(&type);
    return st;
}

hr_status hr_table_text_view(const hr_table *t, int column, hr_text_view *out, hr_error *err)
{
    HR_NEED(t, out);

    hr_text_view v = { 0 };
    const hr_array *a;

    HR_TRY(hr__struct_fill("hr_text_view", out, NULL, 0, err));
    HR_TRY(check_text(t, column, err));
    a = t->columns[column];
    v.is_text = a->type->id == HR_T_STRING || a->type->id == HR_T_LARGE_STRING;
    v.offset_bytes = a->type->id == HR_T_LARGE_STRING || a->type->id == HR_T_LARGE_BINARY ? 8 : 4;
    v.n_rows = a->length;
    v.null_count = hr__array_null_count(a);
    if (a->buffers[1])
        v.offsets = (const char *)a->buffers[1]->data + a->offset * v.offset_bytes;
    if (a->buffers[2])
        v.data = (const char *)a->buffers[2]->data;
    if (a->buffers[0] && v.null_count)
        v.validity = a->buffers[0]->data;
    v.validity_bit = a->offset;
    return hr__struct_fill("hr_text_view", out, &v, sizeof v, err);
}

const char *hr_text_at(const hr_text_view *v, int64_t row, int64_t *n_bytes)
{
    int64_t bit = v->validity_bit + row, begin, end;

    *n_bytes = 0;
    if (row < 0 || row >= v->n_rows || (v->validity && !(v->validity[bit / 8] >> (bit % 8) & 1)))
        return NULL;
    if (!v->offsets)
        return "";
    if (v->offset_bytes == 8) {
        const int64_t *offsets = v->offsets;

        begin = offsets[row];
        end = offsets[row + 1];
    } else {
        const int32_t *offsets = v->offsets;

        begin = offsets[row];
        end = offsets[row + 1];
    }
    *n_bytes = end - begin;
    return v->data ? v->data + begin : "";
}
