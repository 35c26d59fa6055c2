/* arrow.c - exports tables by the Arrow C data interface, and schemas both ways:
 * https://arrow.apache.org/docs/format/CDataInterface.html
 *
 * Each exported node holds its own references (a schema: copies of text), so that a consumer may move children out and
 * release them in any order, on any thread.
 *
 * The code trusts the pointers of a foreign schema and checks all numbers and texts in it. An encoded column
 * (arrow_import.c) has the type that it decodes to. */
#include "data/cdata/arrow.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const uint8_t zeros[64] __attribute__((aligned(64))); /* stands for buffers without bytes */

/* --------------------------------------------------------------------------------------------------- Python objects */

/* Pickles run code when they are read. So an imported column is one of pickles only if this process exported it before
 * (to pyarrow, for instance): its metadata has a secret that only this process knows. Columns from files lack the
 * secret and are binary. */
static char secret_words[2 * 16 + 1];
static pthread_once_t secret_once = PTHREAD_ONCE_INIT;

static void secret_make(void)
{
    uint8_t raw[16];

    if (hr__random_secret(raw, sizeof raw) != 0)
        return; /* no secret: nothing is imported as objects */
    for (int i = 0; i < 16; i++)
        snprintf(secret_words + 2 * (ptrdiff_t)i, 3, "%02x", raw[i]);
}

static const char extension_key[] = "ARROW:extension:metadata";

static hr_status put_secret(uint8_t **metadata, int64_t *n_bytes, hr_error *err)
{
    pthread_once(&secret_once, secret_make);
    return hr__metadata_set(metadata, n_bytes, extension_key, secret_words, (int64_t)strlen(secret_words), err);
}

static bool has_secret(const hr_field *f)
{
    int64_t n = 0;
    const char *words = hr__metadata_get(f->metadata, f->metadata_bytes, extension_key, &n);

    pthread_once(&secret_once, secret_make);
    return words && n == sizeof secret_words - 1 && memcmp(words, secret_words, (size_t)n) == 0 && secret_words[0];
}

/* ------------------------------------------------------------------------------------------------- schemas, outward */

typedef struct schema_node {
    char *format, *name;
    uint8_t *metadata;
    struct ArrowSchema **pointers;
    struct ArrowSchema *children;
} schema_node;

static void schema_release(struct ArrowSchema *s)
{
    schema_node *node = s->private_data;

    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]->release)
            s->children[i]->release(s->children[i]);
    hr__free(node->format);
    hr__free(node->name);
    hr__free(node->metadata);
    hr__free(node);
    s->release = NULL;
}

/* A node with room for children, each still empty. Takes the metadata, even on failure. */
static hr_status schema_node_new(const char *format, const char *name, uint8_t *metadata, int64_t n_children,
                                 struct ArrowSchema *out, hr_error *err)
{
    size_t each = sizeof(struct ArrowSchema) + sizeof(struct ArrowSchema *);
    size_t n_bytes = sizeof(schema_node) + (size_t)n_children * each;
    schema_node *node = hr__zalloc(NULL, n_bytes);

    *out = (struct ArrowSchema){ 0 };
    if (!node) {
        hr__free(metadata);
        return hr__error_memory(err, "export", (int64_t)n_bytes);
    }
    node->metadata = metadata;
    node->children = (struct ArrowSchema *)(node + 1);
    node->pointers = (struct ArrowSchema **)(node->children + n_children);
    for (int64_t i = 0; i < n_children; i++)
        node->pointers[i] = &node->children[i];
    *out = (struct ArrowSchema){ .metadata = (const char *)metadata,
                                 .n_children = n_children,
                                 .children = n_children ? node->pointers : NULL,
                                 .release = schema_release,
                                 .private_data = node };
    out->format = node->format = hr__strdup(NULL, format);
    out->name = node->name = hr__strdup(NULL, name);
    if (node->format && node->name)
        return HR_OK;
    schema_release(out);
    return hr__error_memory(err, "export", (int64_t)(strlen(format) + strlen(name)));
}

static hr_status export_field(const hr_field *f, struct ArrowSchema *out, hr_error *err)
{
    hr_status st = HR_OK;
    uint8_t *metadata = NULL;
    int64_t n_metadata = 0;

    *out = (struct ArrowSchema){ 0 };
    HR_TRY(hr__field_storage_metadata(f, &metadata, &n_metadata, err));
    if (f->type->pickled && (st = put_secret(&metadata, &n_metadata, err))) {
        hr__free(metadata);
        return st;
    }
    HR_TRY(schema_node_new(hr__type_format(f->type), f->name, metadata, f->type->n_children, out, err));
    out->flags = (f->nullable ? ARROW_FLAG_NULLABLE : 0) | (f->type->keys_sorted ? ARROW_FLAG_MAP_KEYS_SORTED : 0);
    for (int32_t i = 0; i < f->type->n_children && !st; i++)
        st = export_field(&f->type->children[i], out->children[i], err);
    if (st)
        schema_release(out);
    return st;
}

hr_status hr__type_export(const hr_type *t, struct ArrowSchema *out, hr_error *err)
{
    char none[] = "";
    hr_field f = { .name = none, .type = (hr_type *)t, .nullable = true };

    return export_field(&f, out, err);
}

hr_status hr__schema_export(const hr_schema *s, struct ArrowSchema *out, hr_error *err)
{
    hr_status st = HR_OK;
    uint8_t *metadata = NULL;

    *out = (struct ArrowSchema){ 0 };
    if (s->metadata) {
        metadata = hr__alloc(NULL, (size_t)s->metadata_bytes);
        if (!metadata)
            return hr__error_memory(err, "export", s->metadata_bytes);
        memcpy(metadata, s->metadata, (size_t)s->metadata_bytes);
    }
    HR_TRY(schema_node_new("+s", "", metadata, s->n, out, err));
    for (int i = 0; i < s->n && !st; i++)
        st = export_field(&s->fields[i], out->children[i], err);
    if (st)
        schema_release(out);
    return st;
}

/* -------------------------------------------------------------------------------------------------- schemas, inward */

static hr_status import_field(const struct ArrowSchema *s, int depth, hr_field *out, hr_error *err);

/* The size of metadata, computed from its contents. */
static hr_status metadata_size(const char *m, int64_t *n_bytes, hr_error *err)
{
    int32_t n_pairs = 0, n = 0;
    int64_t at = sizeof n_pairs;

    *n_bytes = 0;
    if (!m)
        return HR_OK;
    memcpy(&n_pairs, m, sizeof n_pairs);
    for (int64_t i = 0; i < 2 * (int64_t)n_pairs; i++) {
        memcpy(&n, m + at, sizeof n);
        if (n < 0)
            return hr_error_set(err, HR_BAD_DATA, "metadata: a text has %d bytes, expected 0 or more", (int)n);
        at += (int64_t)sizeof n + n;
    }
    *n_bytes = n_pairs > 0 ? at : 0;
    return HR_OK;
}

static hr_status import_metadata(const char *from, uint8_t **out, int64_t *n_bytes, hr_error *err)
{
    int64_t n = 0;

    HR_TRY(metadata_size(from, &n, err));
    if (n == 0)
        return HR_OK;
    *out = hr__alloc(NULL, (size_t)n);
    if (!*out)
        return hr__error_memory(err, "import", n);
    memcpy(*out, from, (size_t)n);
    *n_bytes = n;
    return HR_OK;
}

static hr_status check_schema_node(const struct ArrowSchema *s, int depth, hr_error *err)
{
    if (!s || !s->format)
        return hr_error_set(err, HR_BAD_DATA, "an ArrowSchema without format");
    if (depth > HR_MAX_DEPTH)
        return hr_error_set(err, HR_UNSUPPORTED, "a type has more than %d levels", HR_MAX_DEPTH);
    if (s->n_children < 0 || s->n_children > INT32_MAX || (s->n_children && !s->children))
        return hr_error_set(err, HR_BAD_DATA, "format '%s' has %lld children, or their array is missing", s->format,
                            (long long)s->n_children);
    return HR_OK;
}

static hr_status need_children(const struct ArrowSchema *s, int64_t n, hr_error *err)
{
    if (s->n_children == n)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "format '%s' has %lld children, expected %lld", s->format,
                        (long long)s->n_children, (long long)n);
}

int hr__arrow_small_decimal_bits(const char *format)
{
    const char *comma = format[0] == 'd' && format[1] == ':' ? strrchr(format, ',') : NULL;

    if (!comma || strchr(format, ',') == comma)
        return 0;
    return strcmp(comma, ",32") == 0 ? 32 : strcmp(comma, ",64") == 0 ? 64 : 0;
}

static hr_status import_small_decimal_type(const char *format, hr_type **out, hr_error *err)
{
    char *end = NULL;
    long precision = strtol(format + 2, &end, 10), scale = *end == ',' ? strtol(end + 1, &end, 10) : 0;

    if (*end != ',' || precision < 1 || precision > 18 || scale < INT32_MIN || scale > INT32_MAX)
        return hr_error_set(err, HR_BAD_DATA, "decimal format '%s' is malformed", format);
    return hr__type_decimal(HR_T_DECIMAL128, (int32_t)precision, (int32_t)scale, out, err);
}

static hr_status import_type(const struct ArrowSchema *s, int depth, hr_type **out, hr_error *err);

/* The type of a run-end encoded column is that of its values. */
static hr_status import_runs_type(const struct ArrowSchema *s, int depth, hr_type **out, hr_error *err)
{
    HR_TRY(need_children(s, 2, err));
    HR_TRY(check_schema_node(s->children[0], depth, err));
    if (strlen(s->children[0]->format) != 1 || !strchr("sil", s->children[0]->format[0]))
        return hr_error_set(err, HR_BAD_DATA, "the run ends have the format '%s', expected 's', 'i' or 'l'",
                            s->children[0]->format);
    return import_type(s->children[1], depth + 1, out, err);
}

static hr_status import_nested_type(const struct ArrowSchema *s, int depth, hr_type **out, hr_error *err)
{
    hr_status st = HR_OK;
    const char *format = strcmp(s->format, "+vl") == 0 ? "+l" : strcmp(s->format, "+vL") == 0 ? "+L" : s->format;
    int n = 0;
    size_t n_bytes = (size_t)s->n_children * sizeof(hr_field);
    hr_field *fields = hr__zalloc(NULL, n_bytes);

    if (!fields)
        return hr__error_memory(err, "import", (int64_t)n_bytes);
    for (; n < s->n_children; n++) {
        st = import_field(s->children[n], depth + 1, &fields[n], err);
        if (st) {
            st = hr__error_at(err, st, depth == 0 && strcmp(format, "+s") == 0 ? "column '%s'" : "'%s'",
                              s->children[n] && s->children[n]->name ? s->children[n]->name : "");
            goto done;
        }
    }
    HR_GO(hr__type_from_format(format, fields, n, out, err));
    if ((*out)->id == HR_T_MAP)
        (*out)->keys_sorted = (s->flags & ARROW_FLAG_MAP_KEYS_SORTED) != 0; /* new, not shared yet */
done:
    while (n > 0)
        hr__field_clear(&fields[--n]);
    hr__free(fields);
    return st;
}

static hr_status import_type(const struct ArrowSchema *s, int depth, hr_type **out, hr_error *err)
{
    *out = NULL;
    HR_TRY(check_schema_node(s, depth, err));
    if (s->dictionary) {
        if (strlen(s->format) != 1 || !strchr("cCsSiIlL", s->format[0]))
            return hr_error_set(err, HR_BAD_DATA,
                                "the indices of a dictionary have the format '%s', expected that of an integer",
                                s->format);
        return import_type(s->dictionary, depth + 1, out, err);
    }
    if (strcmp(s->format, "vu") == 0 || strcmp(s->format, "vz") == 0) {
        *out = hr__type_simple(s->format[1] == 'u' ? HR_T_LARGE_STRING : HR_T_LARGE_BINARY);
        return need_children(s, 0, err);
    }
    if (strcmp(s->format, "+r") == 0)
        return import_runs_type(s, depth, out, err);
    if (strncmp(s->format, "+u", 2) == 0)
        return hr_error_set(err, HR_UNSUPPORTED, "unions (format '%s') are not supported", s->format);
    if (hr__arrow_small_decimal_bits(s->format))
        return import_small_decimal_type(s->format, out, err);
    return import_nested_type(s, depth, out, err);
}

static hr_status import_field(const struct ArrowSchema *s, int depth, hr_field *out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_type *type = NULL;

    *out = (hr_field){ 0 };
    HR_GO(import_type(s, depth, &type, err));
    HR_GO(hr__field_init(out, s->name, type, (s->flags & ARROW_FLAG_NULLABLE) != 0, err));
    HR_GO(import_metadata(s->metadata, &out->metadata, &out->metadata_bytes, err));
    HR_GO(hr__field_from_storage(out, err));
    if (hr__field_is_marked_pickle(out) && has_secret(out))
        HR_GO(hr__field_become_pickle(out, err));
done:
    hr__type_unref(type);
    if (st)
        hr__field_clear(out);
    return st;
}

hr_status hr__arrow_field(const struct ArrowSchema *s, hr_field *out, hr_error *err)
{
    *out = (hr_field){ 0 };
    if (!s->release)
        return hr_error_set(err, HR_INVALID, "import: the ArrowSchema was released");
    return import_field(s, 0, out, err);
}

hr_status hr__arrow_schema(const struct ArrowSchema *s, hr_schema **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_field top = { 0 };
    hr_schema *schema = NULL;

    *out = NULL;
    if (s->release && s->format && (strcmp(s->format, "+s") != 0 || s->dictionary))
        HR_FAIL(HR_TYPE, "import: the schema of a table has the format '%s', expected '+s'", s->format);
    HR_GO(hr__arrow_field(s, &top, err));
    HR_GO(hr__schema_new(top.type->children, top.type->n_children, &schema, err));
    schema->metadata = top.metadata; /* moved */
    schema->metadata_bytes = top.metadata_bytes;
    top.metadata = NULL;
    *out = schema;
done:
    hr__field_clear(&top);
    return st;
}

hr_status hr__schema_import(struct ArrowSchema *in, hr_schema **out, hr_error *err)
{
    hr_status st = hr__arrow_schema(in, out, err);

    if (in->release)
        in->release(in);
    return st;
}

/* -------------------------------------------------------------------------------------------------- arrays, outward */

typedef struct array_node {
    hr_array *array;
    hr_table *table; /* the top of a table, which has no array */
    const void *buffers[3];
    struct ArrowArray **pointers;
    struct ArrowArray *children;
} array_node;

static void array_release(struct ArrowArray *a)
{
    array_node *node = a->private_data;

    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release)
            a->children[i]->release(a->children[i]);
    hr__array_unref(node->array);
    hr_table_unref(node->table);
    hr__free(node);
    a->release = NULL;
}

static hr_status array_node_new(int64_t n_children, struct ArrowArray *out, hr_error *err)
{
    size_t each = sizeof(struct ArrowArray) + sizeof(struct ArrowArray *);
    size_t n_bytes = sizeof(array_node) + (size_t)n_children * each;
    array_node *node = hr__zalloc(NULL, n_bytes);

    *out = (struct ArrowArray){ 0 };
    if (!node)
        return hr__error_memory(err, "export", (int64_t)n_bytes);
    node->children = (struct ArrowArray *)(node + 1);
    node->pointers = (struct ArrowArray **)(node->children + n_children);
    for (int64_t i = 0; i < n_children; i++)
        node->pointers[i] = &node->children[i];
    *out = (struct ArrowArray){ .n_children = n_children,
                                .buffers = node->buffers,
                                .children = n_children ? node->pointers : NULL,
                                .release = array_release,
                                .private_data = node };
    return HR_OK;
}

int hr__arrow_n_buffers(const hr_type *t)
{
    if (t->id == HR_T_NULL)
        return 0;
    if (t->id == HR_T_STRUCT || hr__type_is_fixed_list(t))
        return 1;
    return hr__type_is_bytes(t) ? 3 : 2;
}

hr_status hr__array_export(hr_array *a, struct ArrowArray *out, hr_error *err)
{
    hr_status st = HR_OK;
    array_node *node;

    HR_TRY(array_node_new(a->n_children, out, err));
    node = out->private_data;
    node->array = hr__array_ref(a);
    out->length = a->length;
    out->offset = a->offset;
    out->null_count = hr__array_null_count(a);
    out->n_buffers = hr__arrow_n_buffers(a->type);
    for (int i = 0; i < 3; i++)
        node->buffers[i] = a->buffers[i] ? a->buffers[i]->data : i ? zeros : NULL;
    for (int i = 0; i < a->n_children && !st; i++)
        st = hr__array_export(a->children[i], out->children[i], err);
    if (st)
        array_release(out);
    return st;
}

hr_status hr_table_export(const hr_table *t, struct ArrowSchema *schema, struct ArrowArray *array, hr_error *err)
{
    HR_NEED(t);

    hr_status st = HR_OK;

    if (schema)
        *schema = (struct ArrowSchema){ 0 };
    if (array)
        *array = (struct ArrowArray){ 0 };
    if (schema)
        HR_GO(hr__schema_export(t->schema, schema, err));
    if (array) {
        HR_GO(array_node_new(t->schema->n, array, err));
        array->length = t->n_rows;
        array->n_buffers = 1;
        for (int i = 0; i < t->schema->n; i++)
            HR_GO(hr__array_export(t->columns[i], array->children[i], err));
    }
done:
    if (st && array && array->release)
        array->release(array);
    if (st && schema && schema->release)
        schema->release(schema);
    return st;
}
