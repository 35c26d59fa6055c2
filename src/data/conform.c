/* conform.c - makes the types of a function's tables agree where they differ in representation only.
 *
 * A function makes its tables one by one, and a single table may not show the type of a column: a column of None alone
 * has the type null, empty lists have no item type, arrays of one shape are tensors in one table and, with other
 * shapes, lists of lists in the next. The user meant one type, so these differences are resolved:
 *
 *   null + T -> T (in lists and structs too) · tensor of n dimensions + n-fold list -> n-fold list · other order of
 *     columns
 *   Python objects + plain values (pickle.c) -> Python objects · as columns: integers + double -> double (up to 2^53)
 *
 * Everything else is an error that names both types. Integers before doubles in a function's own tables are an error,
 * too: a type that changed silently in the middle of an epoch would be worse (op/call/first_columns.c). Values are
 * shared where the layout stays. */
#include "data/data.h"

#include <inttypes.h>

static bool is_list(const hr_type *t) { return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST; }

/* The list type that is equivalent to a tensor: n_dims deep. */
static hr_status list_of_tensor(const hr_type *t, hr_type_id id, hr_type **out, hr_error *err)
{
    hr_type *inner = hr__type_ref(t->children[0].type);
    hr_status st = HR_OK;

    *out = NULL;
    for (int32_t d = 0; d < t->n_dims && !st; d++) {
        hr_field item = { 0 };
        hr_type *next = NULL;

        st = hr__field_init(&item, "item", inner, true, err);
        if (!st)
            st = hr__type_list(id, &item, 0, &next, err);
        hr__field_clear(&item);
        hr__type_unref(inner);
        inner = next;
    }
    if (!st)
        *out = inner;
    return st;
}

static hr_status conform_list(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_field item = { 0 };
    hr_type *inner = NULL;
    hr_status st = hr__type_conform(a->children[0].type, b->children[0].type, &inner, err);

    if (!st && inner)
        st = hr__field_init(&item, a->children[0].name, inner, true, err);
    if (!st && inner)
        st = hr__type_list(a->id == b->id ? a->id : HR_T_LARGE_LIST, &item, 0, out, err);
    hr__field_clear(&item);
    hr__type_unref(inner);
    return st;
}

static hr_status conform_struct(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    int n = a->n_children, made = 0;
    hr_field *fields = hr__zalloc(NULL, ((size_t)n + 1) * sizeof *fields);
    hr_status st = fields ? HR_OK : hr__error_memory(err, "struct", n * (int64_t)sizeof *fields);

    for (; made < n && !st; made++) {
        hr_type *inner = NULL;

        if (strcmp(a->children[made].name, b->children[made].name) != 0)
            break;
        st = hr__type_conform(a->children[made].type, b->children[made].type, &inner, err);
        if (!st && !inner)
            break;
        if (!st)
            st = hr__field_init(&fields[made], a->children[made].name, inner, true, err);
        hr__type_unref(inner);
        if (st)
            break;
    }
    if (!st && made == n)
        st = hr__type_struct(fields, n, out, err);
    for (int i = 0; fields && i < made; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

hr_status hr__type_conform(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    hr_type *list = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (b->id == HR_T_NULL || hr__type_equal(a, b)) {
        *out = hr__type_ref((hr_type *)(uintptr_t)a);
        return HR_OK;
    }
    if (a->id == HR_T_NULL) {
        *out = hr__type_ref((hr_type *)(uintptr_t)b);
        return HR_OK;
    }
    if ((a->pickled && hr__type_can_pickle(b)) || (b->pickled && hr__type_can_pickle(a))) {
        *out = hr__type_pickled();
        return HR_OK;
    }
    if (is_list(a) && is_list(b))
        return conform_list(a, b, out, err);
    if (a->id == HR_T_STRUCT && b->id == HR_T_STRUCT && a->n_children == b->n_children)
        return conform_struct(a, b, out, err);
    if (a->id == HR_T_TENSOR && (is_list(b) || b->id == HR_T_TENSOR)) {
        HR_GO(list_of_tensor(a, is_list(b) ? b->id : HR_T_LIST, &list, err));
        HR_GO(hr__type_conform(list, b, out, err));
    } else if (is_list(a) && b->id == HR_T_TENSOR) {
        HR_GO(list_of_tensor(b, a->id, &list, err));
        HR_GO(hr__type_conform(a, list, out, err));
    }
done:
    hr__type_unref(list);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

/* Takes the buffers and the child. */
static hr_status list_made(hr_type *type, int64_t n, hr_buffer *validity, hr_buffer *offsets, hr_array *takes_child,
                           hr_array **out, hr_error *err)
{
    return hr__array_new(type, n, validity ? -1 : 0, (hr_buffer *[3]){ validity, offsets, NULL }, &takes_child, 1, out,
                         err);
}

/* n + 1 offsets 0, step, 2 * step ... of the width that a list of type `id` has. */
static hr_status even_offsets(const hr_mem *mem, hr_type_id id, int64_t n, int64_t step, hr_buffer **out, hr_error *err)
{
    int bytes = id == HR_T_LIST ? 4 : 8;
    int64_t end;

    *out = NULL;
    if (__builtin_mul_overflow(n, step, &end) || (bytes == 4 && end > INT32_MAX))
        return hr_error_set(err, HR_BUDGET, "a list column would have more than 2 Gi values in one table");
    HR_TRY(hr__buffer_new(mem, (n + 1) * bytes, out, err));
    for (int64_t i = 0; i <= n; i++) {
        int64_t wide = i * step;
        int32_t narrow = (int32_t)wide;

        memcpy((*out)->data + i * bytes, bytes == 4 ? (const void *)&narrow : &wide, (size_t)bytes);
    }
    return HR_OK;
}

/* Tensors as lists of lists: the values stay; each dimension gets offsets, the last dimension first. */
static hr_status array_of_tensor(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    const hr_type *levels[HR_MAX_DIMS], *t = type;
    hr_array *values = NULL, *made = NULL, *next = NULL;
    hr_buffer *offsets = NULL, *validity = NULL;
    int n_dims = a->type->n_dims;
    int64_t lists[HR_MAX_DIMS]; /* the number of lists of each dimension */
    hr_status st = HR_OK;

    *out = NULL;
    for (int d = 0; d < n_dims; d++, t = t->children[0].type) {
        if (!is_list(t))
            return hr_error_set(err, HR_BUG, "conform: a tensor of %d dimensions does not match the lists", n_dims);
        levels[d] = t;
        lists[d] = d ? lists[d - 1] * a->type->shape[d - 1] : a->length;
    }
    HR_GO(hr__array_slice(a->children[0], a->offset * a->type->width, a->length * a->type->width, &values, err));
    HR_GO(hr__array_conform(mem, values, (hr_type *)(uintptr_t)t, &made, err));
    for (int d = n_dims - 1; d >= 0; d--) {
        HR_GO(even_offsets(mem, levels[d]->id, lists[d], a->type->shape[d], &offsets, err));
        if (d == 0 && a->buffers[0]) {
            HR_GO(hr__buffer_new(mem, hr__bits_bytes(a->length), &validity, err));
            memset(validity->data, 0, (size_t)validity->n_bytes);
            hr__bits_copy(validity->data, 0, a->buffers[0]->data, a->offset, a->length);
        }
        st = list_made((hr_type *)(uintptr_t)levels[d], lists[d], validity, offsets, made, &next, err);
        validity = offsets = NULL;
        made = next;
        next = NULL;
        if (st)
            goto done;
    }
    *out = made;
    made = NULL;
done:
    hr__array_unref(values);
    hr__array_unref(made);
    hr__buffer_unref(offsets);
    hr__buffer_unref(validity);
    return st;
}

/* 32-bit offsets as 64-bit ones, for the rows of `a` alone: from element a->offset on. */
static hr_status widened(const hr_mem *mem, const hr_array *a, hr_buffer **out, hr_error *err)
{
    *out = NULL;
    HR_TRY(hr__buffer_new(mem, (a->length + 1) * 8, out, err));
    for (int64_t i = 0; i <= a->length; i++) {
        int64_t wide = 0;
        int32_t narrow = 0;

        if (a->buffers[1] && a->buffers[1]->n_bytes)
            memcpy(&narrow, a->buffers[1]->data + (a->offset + i) * 4, 4);
        wide = narrow;
        memcpy((*out)->data + i * 8, &wide, 8);
    }
    return HR_OK;
}

/* The same rows with other children (taken), perhaps with wider offsets. */
static hr_status nested(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array *const *children, hr_array **out,
                        hr_error *err)
{
    hr_buffer *buffers[3] = { hr__buffer_ref(a->buffers[0]), hr__buffer_ref(a->buffers[1]), NULL };
    int64_t offset = a->offset;
    hr_status st = HR_OK;

    *out = NULL;
    if (is_list(type) && type->id != a->type->id) {
        hr__buffer_unref(buffers[1]);
        st = widened(mem, a, &buffers[1], err);
        if (!st && buffers[0] && offset) {
            hr_buffer *bits = NULL;

            st = hr__buffer_new(mem, hr__bits_bytes(a->length), &bits, err);
            if (!st) {
                memset(bits->data, 0, (size_t)bits->n_bytes);
                hr__bits_copy(bits->data, 0, a->buffers[0]->data, offset, a->length);
                hr__buffer_unref(buffers[0]);
                buffers[0] = bits;
            }
        }
        offset = 0;
        if (st) {
            for (int i = 0; i < 3; i++)
                hr__buffer_unref(buffers[i]);
            for (int i = 0; i < a->n_children; i++)
                hr__array_unref(children[i]);
            return st;
        }
    }
    HR_TRY(hr__array_new(type, a->length, -1, buffers, children, a->n_children, out, err));
    (*out)->offset = offset;
    return HR_OK;
}

static hr_status no_way(const hr_type *found, const hr_type *wanted, hr_error *err)
{
    hr_text text = { 0 };
    hr_status st;

    hr__type_print(found, &text);
    hr__text_add(&text, " is not ");
    hr__type_print(wanted, &text);
    st = text.failed ? hr__error_memory(err, "types", 64) : hr_error_set(err, HR_TYPE, "%s", text.data);
    hr__text_clear(&text);
    return st;
}

hr_status hr__array_conform(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    hr_array **children;
    int n = 0;
    hr_status st = HR_OK;

    *out = NULL;
    if (hr__type_equal(a->type, type)) {
        *out = hr__array_ref((hr_array *)(uintptr_t)a);
        return HR_OK;
    }
    if (a->type->id == HR_T_NULL)
        return hr__array_nulls(mem, type, a->length, out, err);
    if (type->pickled && hr__type_can_pickle(a->type))
        return hr__array_pickle(mem, a, out, err);
    if (a->type->id == HR_T_TENSOR && is_list(type))
        return array_of_tensor(mem, a, type, out, err);
    if (a->n_children != type->n_children ||
        !((is_list(a->type) && is_list(type)) || (a->type->id == HR_T_STRUCT && type->id == HR_T_STRUCT)))
        return no_way(a->type, type, err);
    children = hr__zalloc(NULL, ((size_t)a->n_children + 1) * sizeof *children);
    if (!children)
        return hr__error_memory(err, "conform", a->n_children * (int64_t)sizeof *children);
    for (; n < a->n_children && !st; n++)
        st = hr__array_conform(mem, a->children[n], type->children[n].type, &children[n], err);
    if (!st)
        st = nested(mem, a, type, children, out, err);
    else
        while (n-- > 0)
            hr__array_unref(children[n]);
    hr__free(children);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- schemas */

static hr_status differ(const hr_schema *found, const hr_schema *wanted, hr_error *err)
{
    char text[300];

    hr__schema_difference(found, wanted, text, sizeof text);
    return hr_error_set(err, HR_TYPE, "%s", text);
}

static bool is_double(const hr_type *t) { return t->id == HR_T_FLOAT64; }

/* hr__type_conform for two columns. */
static hr_status column_type(const hr_type *a, const hr_type *b, hr_type **out, hr_error *err)
{
    if ((hr__type_is_int(a) && is_double(b)) || (is_double(a) && hr__type_is_int(b))) {
        *out = hr__type_ref(hr__type_simple(HR_T_FLOAT64));
        return HR_OK;
    }
    return hr__type_conform(a, b, out, err);
}

static hr_status column_conform(const hr_mem *mem, const hr_array *a, hr_type *type, hr_array **out, hr_error *err)
{
    if (!hr__type_is_int(a->type) || !is_double(type))
        return hr__array_conform(mem, a, type, out, err);
    return hr__array_unify(mem, a, type, out, err);
}

hr_status hr__schema_conform(hr_schema *a, const hr_schema *b, hr_schema **out, hr_error *err)
{
    hr_field *fields = NULL;
    bool changed = false;
    hr_status st = HR_OK;
    int made = 0;

    *out = NULL;
    if (a == b || hr__schema_equal(a, b)) {
        *out = hr__schema_ref(a);
        return HR_OK;
    }
    if (a->n != b->n)
        return differ(b, a, err);
    fields = hr__zalloc(NULL, ((size_t)a->n + 1) * sizeof *fields);
    if (!fields)
        return hr__error_memory(err, "schema", a->n * (int64_t)sizeof *fields);
    for (; made < a->n; made++) {
        int at = hr__schema_find(b, a->fields[made].name);
        hr_type *type = NULL;

        if (at < 0) {
            st = differ(b, a, err);
            goto done;
        }
        HR_GO(column_type(a->fields[made].type, b->fields[at].type, &type, err));
        if (!type) {
            st = differ(b, a, err);
            goto done;
        }
        changed = changed || !hr__type_equal(type, a->fields[made].type);
        st = hr__field_copy(&fields[made], &a->fields[made], err);
        if (!st) {
            hr__type_unref(fields[made].type);
            fields[made].type = hr__type_ref(type);
            fields[made].nullable = true;
        }
        hr__type_unref(type);
        if (st)
            goto done;
    }
    if (changed)
        st = hr__schema_new(fields, a->n, out, err);
    else
        *out = hr__schema_ref(a);
done:
    for (int i = 0; i < made; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

hr_status hr__schema_widen(hr_schema **schema, hr_schema *in, const char *what, bool *wider, hr_error *err)
{
    hr_schema *both = NULL;
    hr_status st;

    *wider = false;
    if (!*schema)
        *schema = hr__schema_ref(in);
    st = hr__schema_conform(*schema, in, &both, err);
    if (st)
        return st == HR_TYPE ? hr__error_at(err, st, "%s differs from the first one", what) : st;
    *wider = both != *schema;
    hr__schema_unref(*schema);
    *schema = both;
    return HR_OK;
}

hr_status hr__table_conform(const hr_mem *mem, const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err)
{
    hr_array **columns = NULL;
    hr_status st = HR_OK;
    int n = 0;

    *out = NULL;
    if (t->schema == schema || hr__schema_equal(t->schema, schema)) {
        *out = hr_table_ref((hr_table *)(uintptr_t)t);
        return HR_OK;
    }
    if (t->schema->n != schema->n)
        return differ(t->schema, schema, err);
    columns = hr__zalloc(NULL, ((size_t)schema->n + 1) * sizeof *columns);
    if (!columns)
        return hr__error_memory(err, "table", schema->n * (int64_t)sizeof *columns);
    for (; n < schema->n && !st; n++) {
        int at = hr__schema_find(t->schema, schema->fields[n].name);

        st = at < 0 ? differ(t->schema, schema, err)
                    : column_conform(mem, t->columns[at], schema->fields[n].type, &columns[n], err);
        if (st == HR_TYPE && at >= 0)
            st = hr__error_at(err, st, "column '%s'", schema->fields[n].name);
    }
    if (!st) {
        n = 0; /* taken */
        st = hr__table_new(schema, columns, t->n_rows, t->origin, out, err);
    }
    while (n-- > 0)
        hr__array_unref(columns[n]);
    hr__free(columns);
    return st;
}

hr_status hr__table_conform_in_place(const hr_mem *mem, hr_table **t, hr_schema *schema, hr_error *err)
{
    hr_table *fitting = NULL;

    HR_TRY(hr__table_conform(mem, *t, schema, &fitting, err));
    hr_table_unref(*t);
    *t = fitting;
    return HR_OK;
}
