/* table.c - immutable rows: a schema, a column for each field, and the origin of the rows.
 *
 * A table is one block with its column pointers inside; everything else is shared by counted references, so slices and
 * renames never copy data. A function that copies (take, concat) marks its result as `sole`, and hr__table_claim marks
 * a table whose buffers no other object shares: the last holder of a sole table may write into its buffers. */
#include "data/data.h"

/* A table without columns; the caller fills it. */
static hr_status table_new(hr_schema *schema, int64_t n_rows, hr_origin *origin, hr_table **out, hr_error *err)
{
    size_t n_bytes = sizeof(hr_table) + (size_t)schema->n * sizeof(hr_array *);
    hr_table *t = hr__zalloc(NULL, n_bytes);

    *out = NULL;
    if (!t)
        return hr__error_memory(err, "table", (int64_t)n_bytes);
    atomic_init(&t->refs, 1);
    t->n_rows = n_rows;
    t->schema = hr__schema_ref(schema);
    t->origin = hr__origin_ref(origin);
    t->columns = (hr_array **)(t + 1);
    *out = t;
    return HR_OK;
}

hr_table *hr_table_ref(hr_table *t)
{
    if (t)
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    return t;
}

static hr_payload *payload_ref(hr_payload *p)
{
    if (p)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

static void payload_unref(hr_payload *p)
{
    if (p && atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) == 1)
        p->cls->free(p);
}

void hr_table_unref(hr_table *t)
{
    if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1)
        return;
    for (int i = 0; i < t->schema->n; i++)
        hr__array_unref(t->columns[i]); /* NULL if a constructor failed half-way */
    hr__schema_unref(t->schema);
    hr__origin_unref(t->origin);
    payload_unref(t->payload);
    hr__free(t);
}

hr_status hr__table_new(hr_schema *schema, hr_array *const *columns, int64_t n_rows, hr_origin *origin, hr_table **out,
                        hr_error *err)
{
    hr_status st = HR_OK;
    hr_table *t = NULL;

    *out = NULL;
    st = table_new(schema, n_rows, origin, &t, err);
    for (int i = 0; st && i < schema->n; i++)
        hr__array_unref(columns[i]);
    if (st)
        return st;
    for (int i = 0; i < schema->n; i++)
        t->columns[i] = columns[i];
    for (int i = 0; i < schema->n; i++)
        if (columns[i]->length != n_rows)
            HR_FAIL(HR_BUG, "column '%s': %lld rows, the table has %lld", schema->fields[i].name,
                    (long long)columns[i]->length, (long long)n_rows);
    if (origin && hr__origin_rows(origin) != n_rows)
        HR_FAIL(HR_BUG, "the origin of %lld rows, expected %lld as in the table", (long long)hr__origin_rows(origin),
                (long long)n_rows);
    *out = t;
    t = NULL;
done:
    hr_table_unref(t);
    return st;
}

/* A caller that puts columns under another table's schema must check the types before: values of another type would be
 * misread. */
static hr_status check_types(const hr_table *t, const hr_schema *schema, int n, hr_error *err)
{
    for (int i = 0; i < n; i++)
        if (i >= t->schema->n || !hr__type_equal(schema->fields[i].type, t->columns[i]->type))
            return hr_error_set(err, HR_BUG, "column '%s' has another type in its new schema", schema->fields[i].name);
    return HR_OK;
}

static hr_status share_columns(const hr_table *t, hr_schema *schema, hr_origin *origin, hr_table **out, hr_error *err)
{
    HR_TRY(table_new(schema, t->n_rows, origin, out, err));
    for (int i = 0; i < schema->n; i++)
        (*out)->columns[i] = hr__array_ref(t->columns[i]);
    (*out)->payload = payload_ref(t->payload);
    return HR_OK;
}

hr_status hr__table_of_payload(hr_payload *takes, const hr_payload_class *cls, int64_t n_rows, hr_origin *origin,
                               hr_table **out, hr_error *err)
{
    hr_schema *none = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    takes->cls = cls;
    atomic_init(&takes->refs, 1);
    HR_GO(hr__schema_new(NULL, 0, &none, err));
    HR_GO(hr__table_new(none, NULL, n_rows, origin, out, err));
    (*out)->payload = takes;
    takes = NULL;
done:
    hr__schema_unref(none);
    payload_unref(takes);
    return st;
}

hr_status hr__table_payload(const hr_table *t, const hr_payload_class *cls, hr_payload **out, hr_error *err)
{
    *out = NULL;
    if (!t->payload || t->payload->cls != cls)
        return hr_error_set(err, HR_BUG, "a table has %s%s where %s is expected",
                            t->payload ? "payload " : "no payload", t->payload ? t->payload->cls->name : "", cls->name);
    *out = t->payload;
    return HR_OK;
}

hr_status hr__table_with_origin(const hr_table *t, hr_origin *origin, hr_table **out, hr_error *err)
{
    *out = NULL;
    if (origin && hr__origin_rows(origin) != t->n_rows)
        return hr_error_set(err, HR_BUG, "the origin of %lld rows, expected %lld as in the table",
                            (long long)hr__origin_rows(origin), (long long)t->n_rows);
    return share_columns(t, t->schema, origin, out, err);
}

hr_status hr__table_with_schema(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err)
{
    *out = NULL;
    if (schema->n != t->schema->n)
        return hr_error_set(err, HR_BUG, "the schema has %d columns, the table %d", schema->n, t->schema->n);
    HR_TRY(check_types(t, schema, schema->n, err));
    return share_columns(t, schema, t->origin, out, err);
}

hr_status hr__table_append(const hr_table *t, hr_schema *schema, hr_array *last, hr_origin *origin, hr_table **out,
                           hr_error *err)
{
    hr_array **columns;
    hr_status st = check_types(t, schema, schema->n - 1, err);

    *out = NULL;
    columns = st ? NULL : hr__alloc(NULL, (size_t)schema->n * sizeof(hr_array *));
    if (!columns) {
        hr__array_unref(last);
        return st ? st : hr__error_memory(err, "table", schema->n * (int64_t)sizeof(hr_array *));
    }
    for (int i = 0; i < schema->n - 1; i++)
        columns[i] = hr__array_ref(t->columns[i]);
    columns[schema->n - 1] = last;
    st = hr__table_new(schema, columns, t->n_rows, origin, out, err);
    hr__free(columns);
    return st;
}

hr_status hr__table_first(const hr_table *t, hr_schema *schema, hr_table **out, hr_error *err)
{
    *out = NULL;
    HR_TRY(check_types(t, schema, schema->n, err));
    return share_columns(t, schema, NULL, out, err);
}

/* ---------------------------------------------------------------------------------------------- slice, take, concat */

hr_status hr_table_slice(const hr_table *t, int64_t begin, int64_t n, hr_table **out, hr_error *err)
{
    HR_NEED(t, out);

    hr_status st = HR_OK;
    hr_table *part = NULL;

    *out = NULL;
    if (begin < 0 || n < 0 || begin > t->n_rows - n)
        return hr_error_set(err, HR_INVALID, "slice: %lld rows from row %lld, the table has %lld", (long long)n,
                            (long long)begin, (long long)t->n_rows);
    HR_TRY(table_new(t->schema, n, NULL, &part, err));
    for (int i = 0; i < t->schema->n; i++)
        HR_GO(hr__array_slice(t->columns[i], begin, n, &part->columns[i], err));
    if (t->origin)
        HR_GO(hr__origin_slice(t->origin, begin, n, &part->origin, err));
    *out = part;
    part = NULL;
done:
    hr_table_unref(part);
    return st;
}

static hr_status at_column(const hr_schema *s, int i, hr_status st, hr_error *err)
{
    return st ? hr__error_at(err, st, "column '%s'", s->fields[i].name) : HR_OK;
}

void hr__table_claim(hr_table *t)
{
    bool sole = atomic_load_explicit(&t->refs, memory_order_acquire) == 1;

    for (int i = 0; sole && i < t->schema->n; i++)
        sole = hr__array_sole(t->columns[i]);
    if (sole) /* another holder may be reading it */
        t->sole = true;
}

hr_status hr__table_take(const hr_mem *mem, const hr_table *t, const void *idx, int idx_bytes, int64_t n,
                         hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_table *taken = NULL;
    int failed = 0;

    *out = NULL;
    HR_TRY(table_new(t->schema, n, NULL, &taken, err));
    if ((st = hr__arrays_take(mem, t->columns, t->schema->n, idx, idx_bytes, n, taken->columns, &failed, err)))
        HR_GO(at_column(t->schema, failed, st, err));
    if (t->origin)
        HR_GO(hr__origin_take(t->origin, idx, idx_bytes, n, &taken->origin, err));
    taken->sole = true;
    *out = taken;
    taken = NULL;
done:
    hr_table_unref(taken);
    return st;
}

static hr_status check_parts(const hr_schema *schema, hr_table *const *parts, int n_parts, int64_t *n_rows,
                             bool *has_origin, hr_error *err)
{
    char text[600];

    *n_rows = 0;
    *has_origin = n_parts > 0;
    for (int i = 0; i < n_parts; i++) {
        if (!hr__schema_equal(parts[i]->schema, schema)) {
            hr__schema_difference(parts[i]->schema, schema, text, sizeof text);
            return hr_error_set(err, HR_TYPE, "concat: part %d of %d: %s", i, n_parts, text);
        }
        *n_rows += parts[i]->n_rows;
        *has_origin = *has_origin && parts[i]->origin;
    }
    return HR_OK;
}

hr_status hr__table_concat(const hr_mem *mem, hr_schema *schema, hr_table *const *parts, int n_parts, hr_table **out,
                           hr_error *err)
{
    hr_status st = HR_OK;
    hr_table *whole = NULL;
    int64_t n_rows = 0;
    bool has_origin = false;
    size_t n_bytes = (size_t)n_parts * sizeof(void *);
    hr_array **arrays = NULL;
    hr_origin **origins = NULL;

    *out = NULL;
    if (!schema && n_parts == 0)
        HR_FAIL(HR_BUG, "concat: no tables, and no schema");
    schema = schema ? schema : parts[0]->schema;
    HR_GO(check_parts(schema, parts, n_parts, &n_rows, &has_origin, err));
    arrays = hr__alloc(mem ? mem->account : NULL, n_bytes);
    if (!arrays)
        HR_FAIL(HR_NO_MEMORY, "concat: no memory for %lld bytes", (long long)n_bytes);
    HR_GO(table_new(schema, n_rows, NULL, &whole, err));
    for (int c = 0; c < schema->n; c++) {
        for (int i = 0; i < n_parts; i++)
            arrays[i] = parts[i]->columns[c];
        HR_GO(at_column(schema, c,
                        hr__array_concat(mem, schema->fields[c].type, arrays, n_parts, &whole->columns[c], err), err));
    }
    origins = (hr_origin **)(void *)arrays;
    for (int i = 0; i < n_parts; i++)
        origins[i] = parts[i]->origin;
    if (has_origin)
        HR_GO(hr__origin_concat(origins, n_parts, &whole->origin, err));
    whole->sole = true;
    *out = whole;
    whole = NULL;
done:
    hr__free(arrays);
    hr_table_unref(whole);
    return st;
}

hr_status hr__table_empty(hr_schema *schema, hr_table **out, hr_error *err)
{
    return hr__table_concat(NULL, schema, NULL, 0, out, err);
}

/* ---------------------------------------------------------------------------------------------------- looking at it */

hr_status hr__table_check(const hr_table *t, bool check_utf8, hr_error *err)
{
    for (int i = 0; i < t->schema->n; i++) {
        const hr_array *a = t->columns[i];

        if (a->length != t->n_rows)
            return hr_error_set(err, HR_BAD_DATA, "column '%s': %lld rows, the table has %lld",
                                t->schema->fields[i].name, (long long)a->length, (long long)t->n_rows);
        if (!hr__type_equal(a->type, t->schema->fields[i].type))
            return hr_error_set(err, HR_BAD_DATA, "column '%s': its type differs from the schema's",
                                t->schema->fields[i].name);
        HR_TRY(at_column(t->schema, i, hr__array_check(a, check_utf8, err), err));
    }
    if (t->origin && hr__origin_rows(t->origin) != t->n_rows)
        return hr_error_set(err, HR_BAD_DATA, "the origin has %lld rows, the table %lld",
                            (long long)hr__origin_rows(t->origin), (long long)t->n_rows);
    return HR_OK;
}

int64_t hr__table_bytes_used(const hr_table *t)
{
    int64_t sum = t->payload ? t->payload->cls->bytes(t->payload) : 0;

    for (int i = 0; i < t->schema->n; i++)
        sum += hr__array_bytes_used(t->columns[i]);
    return sum;
}

void hr__table_charge(const hr_table *t)
{
    for (int i = 0; i < t->schema->n; i++)
        hr__array_charge(t->columns[i]);
}

int64_t hr_table_rows(const hr_table *t) { return t->n_rows; }

int hr_table_columns(const hr_table *t) { return t->schema->n; }

const char *hr_table_column_name(const hr_table *t, int column)
{
    return column >= 0 && column < t->schema->n ? t->schema->fields[column].name : NULL;
}

int hr_table_column_index(const hr_table *t, const char *name) { return name ? hr__schema_find(t->schema, name) : -1; }

static hr_status check_column(const hr_table *t, int column, hr_error *err)
{
    if (column >= 0 && column < t->schema->n)
        return HR_OK;
    return hr_error_set(err, HR_INVALID, "no column %d; the table has %d columns", column, t->schema->n);
}

hr_status hr_table_column_view(const hr_table *t, int column, hr_column_view *out, hr_error *err)
{
    HR_NEED(t, out);

    hr_column_view v = { 0 };
    hr_text type = { 0 };
    hr_status st;
    const hr_array *a;
    int value_bytes;

    HR_TRY(hr__struct_fill("hr_column_view", out, NULL, 0, err));
    HR_TRY(check_column(t, column, err));
    a = t->columns[column];
    value_bytes = hr__type_bytes(a->type);
    if (value_bytes == 0 && a->type->id != HR_T_BOOL && a->type->id != HR_T_FIXED_BINARY) {
        hr__type_print(a->type, &type);
        st = hr_error_set(err, HR_TYPE, "column '%s' is %s, whose values have no fixed width",
                          t->schema->fields[column].name, type.data ? type.data : "?");
        hr__text_clear(&type);
        return st;
    }
    v.format = hr__type_format(a->type);
    v.n_rows = a->length;
    v.null_count = hr__array_null_count(a);
    v.value_bytes = value_bytes;
    if (a->buffers[1])
        v.data = a->buffers[1]->data + (a->type->id == HR_T_BOOL ? 0 : a->offset * value_bytes);
    if (a->buffers[0] && v.null_count)
        v.validity = a->buffers[0]->data;
    v.validity_bit = a->offset;
    return hr__struct_fill("hr_column_view", out, &v, sizeof v, err);
}

int64_t hr_table_print_value(const hr_table *t, int64_t row, int column, char *text, size_t cap)
{
    hr_text value = { 0 };
    int64_t n;

    if (cap == 0)
        return 0;
    text[0] = '\0';
    if (check_column(t, column, NULL) || row < 0 || row >= t->n_rows)
        return 0;
    hr__array_print_some(t->columns[column], row, (int64_t)cap, &value);
    n = HR_MIN(value.n, (int64_t)cap - 1);
    while (n > 0 && n < value.n && ((uint8_t)value.data[n] & 0xC0) == 0x80)
        n--; /* never cuts a character */
    if (n)
        memcpy(text, value.data, (size_t)n);
    text[n] = '\0';
    hr__text_clear(&value);
    return n;
}

/* ----------------------------------------------------------------------------------------------- the bytes of rows
 *
 * Cuts by bytes are a function of the sequence of rows if a row has the same bytes in any table: its widths, lengths
 * and offsets, no validity bits. So the sum over rows does not depend on cuts, unlike the memory of a table. */

/* Bytes of elements [at, at + n) of a's buffers; `at` includes a->offset. */
static int64_t element_bytes(const hr_array *a, int64_t at, int64_t n)
{
    const hr_array *child = a->n_children ? a->children[0] : NULL;
    const int32_t *o32 = a->buffers[1] ? (const int32_t *)a->buffers[1]->data : NULL;
    const int64_t *o64 = a->buffers[1] ? (const int64_t *)a->buffers[1]->data : NULL;
    int64_t sum = 0;

    if (n == 0)
        return 0;
    switch (a->type->id) {
    case HR_T_NULL: return 0;
    case HR_T_BOOL: return n;
    case HR_T_STRING:
    case HR_T_BINARY: return 4 * n + o32[at + n] - o32[at];
    case HR_T_LARGE_STRING:
    case HR_T_LARGE_BINARY: return 8 * n + o64[at + n] - o64[at];
    case HR_T_LIST:
    case HR_T_MAP: return 4 * n + element_bytes(child, child->offset + o32[at], o32[at + n] - o32[at]);
    case HR_T_LARGE_LIST: return 8 * n + element_bytes(child, child->offset + o64[at], o64[at + n] - o64[at]);
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR: return element_bytes(child, child->offset + at * a->type->width, n * a->type->width);
    case HR_T_STRUCT:
        for (int i = 0; i < a->n_children; i++)
            sum += element_bytes(a->children[i], a->children[i]->offset + at, n);
        return sum;
    default: return n * hr__type_bytes(a->type);
    }
}

int64_t hr__table_row_bytes(const hr_table *t, int64_t begin, int64_t n)
{
    int64_t sum = 0;

    for (int i = 0; i < t->schema->n; i++)
        sum += element_bytes(t->columns[i], t->columns[i]->offset + begin, n);
    return sum;
}

int64_t hr__table_rows_within(const hr_table *t, int64_t begin, int64_t n, int64_t bytes)
{
    int64_t low = 0, high = n; /* low rows fit, more than high rows do not */

    if (hr__table_row_bytes(t, begin, n) <= bytes)
        return n;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;

        if (hr__table_row_bytes(t, begin, middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
