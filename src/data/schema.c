/* schema.c - schemas, and the metadata of fields.
 *
 * Metadata has the layout of Arrow's C data interface: int32 count, then for each pair int32 length and bytes of key
 * and of value, in the machine's byte order, unaligned. The engine passes it on and interprets one key: a field whose
 * metadata names `arrow.fixed_shape_tensor` or `arrow.variable_shape_tensor` is a tensor. Tensors are types of their
 * own inside (HR_T_TENSOR, hr__type_ragged), without the extension's two keys; hr__field_from_storage and
 * hr__field_storage_metadata convert on the way in and out, for the C data interface and for files.
 *
 * Metadata from outside may be damaged: its size bounds every walk, and damaged metadata has no keys. */
#include "data/data.h"

#include <stdio.h>

/* ---------------------------------------------------------------------------------------------------------- schemas */

static void schema_free(hr_schema *s)
{
    for (int i = 0; i < s->n; i++)
        hr__field_clear(&s->fields[i]);
    hr__free(s->metadata);
    hr__free(s);
}

hr_status hr__schema_new(const hr_field *fields, int n, hr_schema **out, hr_error *err)
{
    hr_status st = HR_OK;
    size_t n_bytes = sizeof(hr_schema) + (size_t)n * sizeof(hr_field);
    hr_schema *s = hr__zalloc(NULL, n_bytes);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "schema", (int64_t)n_bytes);
    atomic_init(&s->refs, 1);
    s->fields = (hr_field *)(s + 1);
    for (int i = 0; i < n; i++) {
        HR_GO(hr__field_copy(&s->fields[i], &fields[i], err));
        s->n++;
    }
    *out = s;
    s = NULL;
done:
    if (s)
        schema_free(s);
    return st;
}

static hr_status copy_metadata(const hr_schema *from, hr_schema *to, hr_error *err)
{
    if (!from->metadata_bytes)
        return HR_OK;
    if (!(to->metadata = hr__alloc(NULL, (size_t)from->metadata_bytes)))
        return hr__error_memory(err, "schema", from->metadata_bytes);
    memcpy(to->metadata, from->metadata, (size_t)from->metadata_bytes);
    to->metadata_bytes = from->metadata_bytes;
    return HR_OK;
}

hr_status hr__schema_append(const hr_schema *s, const char *name, hr_type *type, bool nullable, hr_schema **out,
                            hr_error *err)
{
    hr_field *fields = hr__zalloc(NULL, ((size_t)s->n + 1) * sizeof *fields);
    hr_schema *made = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "schema", (s->n + 1) * (int64_t)sizeof *fields);
    for (int i = 0; i < s->n; i++)
        fields[i] = s->fields[i]; /* borrowed: hr__schema_new copies */
    fields[s->n] = (hr_field){ .name = (char *)name, .type = type, .nullable = nullable };
    HR_GO(hr__schema_new(fields, s->n + 1, &made, err));
    HR_GO(copy_metadata(s, made, err));
    *out = made;
    made = NULL;
done:
    hr__schema_unref(made);
    hr__free(fields);
    return st;
}

hr_schema *hr__schema_ref(hr_schema *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__schema_unref(hr_schema *s)
{
    if (s && atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1)
        schema_free(s);
}

int hr__schema_find(const hr_schema *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->fields[i].name, name) == 0)
            return i;
    return -1;
}

bool hr__schema_equal(const hr_schema *a, const hr_schema *b)
{
    if (a == b)
        return true;
    if (a->n != b->n)
        return false;
    for (int i = 0; i < a->n; i++)
        if (strcmp(a->fields[i].name, b->fields[i].name) != 0 || !hr__type_equal(a->fields[i].type, b->fields[i].type))
            return false;
    return true;
}

/* The text's first cap - 1 bytes and a NUL; frees it. */
static void text_to(hr_text *t, char *to, size_t cap)
{
    if (cap)
        snprintf(to, cap, "%s", t->data ? t->data : "");
    hr__text_clear(t);
}

void hr__schema_difference(const hr_schema *found, const hr_schema *expected, char *text, size_t cap)
{
    hr_text t = { 0 };
    int i = 0, n = HR_MIN(found->n, expected->n);

    while (i < n && strcmp(found->fields[i].name, expected->fields[i].name) == 0 &&
           hr__type_equal(found->fields[i].type, expected->fields[i].type))
        i++;
    if (i == n && found->n > n) {
        hr__text_add(&t, "column '%s' is not expected", found->fields[i].name);
    } else if (i == n && expected->n > n) {
        hr__text_add(&t, "column '%s' is missing", expected->fields[i].name);
    } else if (i < n && strcmp(found->fields[i].name, expected->fields[i].name) != 0) {
        hr__text_add(&t, "column %d is '%s', expected '%s'", i, found->fields[i].name, expected->fields[i].name);
    } else if (i < n) {
        hr__text_add(&t, "column '%s' is ", found->fields[i].name);
        hr__type_print(found->fields[i].type, &t);
        hr__text_add(&t, ", expected ");
        hr__type_print(expected->fields[i].type, &t);
        if (expected->fields[i].type->id == HR_T_NULL)
            hr__text_add(
                &t, ": rows before these have no value there, and so no type; give the column its type from the first "
                    "batch on, for instance as pa.array(values, type)");
    }
    text_to(&t, text, cap);
}

void hr__schema_print(const hr_schema *s, hr_text *out)
{
    for (int i = 0; i < s->n; i++) {
        hr__text_add(out, "%s: ", s->fields[i].name);
        hr__type_print(s->fields[i].type, out);
        hr__text_add(out, s->fields[i].nullable ? "\n" : " not null\n");
    }
}

void hr__schema_names(const hr_schema *s, char *text, size_t cap)
{
    static const char more[] = ", ...";
    hr_text t = { 0 };

    for (int i = 0; i < s->n && t.n < (int64_t)cap; i++)
        hr__text_add(&t, "%s'%s'", i ? ", " : "", s->fields[i].name);
    if (t.n >= (int64_t)cap) {
        t.n = (int64_t)(cap - sizeof more);
        hr__text_add_bytes(&t, more, sizeof more - 1);
    }
    if (s->n == 0)
        hr__text_add(&t, "none");
    text_to(&t, text, cap);
}

hr_status hr__schema_missing(const hr_schema *s, const char *name, hr_error *err)
{
    char names[800];
    hr_near near;

    if (s->n == 0)
        return hr_error_set(err, HR_INVALID, "there is no column '%.100s', nor any other", name);
    hr__schema_names(s, names, sizeof names);
    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < s->n; i++)
        hr__near_try(&near, s->fields[i].name, strlen(s->fields[i].name));
    return hr_error_set(err, HR_INVALID, "there is no column '%.100s', only %s%s", name, names, hr__near_hint(&near));
}

hr_status hr__schema_missing_in(const char *where, hr_status st, const hr_schema *s, const char *name, hr_error *err)
{
    hr_near near;

    hr__near_begin(&near, name, strlen(name));
    for (int i = 0; i < s->n; i++)
        hr__near_try(&near, s->fields[i].name, strlen(s->fields[i].name));
    return hr__near_error(&near, st, where, name, err);
}

/* --------------------------------------------------------------------------------------------------------- metadata */

static bool read_int32(const uint8_t *m, int64_t n_bytes, int64_t *at, int32_t *out)
{
    if (n_bytes - *at < 4)
        return false;
    memcpy(out, m + *at, 4);
    *at += 4;
    return *out >= 0;
}

static bool read_bytes(const uint8_t *m, int64_t n_bytes, int64_t *at, const char **data, int64_t *n)
{
    int32_t length = 0;

    if (!read_int32(m, n_bytes, at, &length) || n_bytes - *at < length)
        return false;
    *data = (const char *)m + *at;
    *n = length;
    *at += length;
    return true;
}

bool hr__metadata_next(const uint8_t *metadata, int64_t n_bytes, int64_t *at, const char **key, int64_t *n_key,
                       const char **value, int64_t *n_value)
{
    if (!metadata)
        return false;
    if (*at == 0)
        *at = 4; /* the count, which follows from the size, too */
    return read_bytes(metadata, n_bytes, at, key, n_key) && read_bytes(metadata, n_bytes, at, value, n_value);
}

const char *hr__metadata_get(const uint8_t *metadata, int64_t n_bytes, const char *key, int64_t *n_value)
{
    const char *k = NULL, *v = NULL;
    int64_t at = 0, n_k = 0, wanted = (int64_t)strlen(key);

    while (hr__metadata_next(metadata, n_bytes, &at, &k, &n_k, &v, n_value))
        if (n_k == wanted && memcmp(k, key, (size_t)n_k) == 0)
            return v;
    *n_value = 0;
    return NULL;
}

static void add_pair(hr_text *t, const char *key, int64_t n_key, const void *value, int64_t n_value)
{
    int32_t k = (int32_t)n_key, v = (int32_t)n_value;

    hr__text_add_bytes(t, &k, sizeof k);
    hr__text_add_bytes(t, key, n_key);
    hr__text_add_bytes(t, &v, sizeof v);
    hr__text_add_bytes(t, value, n_value);
}

hr_status hr__metadata_set(uint8_t **metadata, int64_t *n_bytes, const char *key, const void *value, int64_t n_value,
                           hr_error *err)
{
    hr_text t = { 0 };
    const char *k = NULL, *v = NULL;
    int64_t at = 0, n_k = 0, n_v = 0, wanted = (int64_t)strlen(key);
    int32_t count = 0;

    hr__text_add_bytes(&t, &count, sizeof count);
    while (hr__metadata_next(*metadata, *n_bytes, &at, &k, &n_k, &v, &n_v)) {
        if (n_k == wanted && memcmp(k, key, (size_t)n_k) == 0)
            continue;
        add_pair(&t, k, n_k, v, n_v);
        count++;
    }
    if (value) {
        add_pair(&t, key, wanted, value, n_value);
        count++;
    }
    if (t.failed) {
        hr__text_clear(&t);
        return hr__error_memory(err, "metadata", *n_bytes + wanted + n_value + 8);
    }
    hr__free(*metadata);
    *metadata = NULL;
    *n_bytes = 0;
    if (count == 0) {
        hr__text_clear(&t);
        return HR_OK;
    }
    memcpy(t.data, &count, sizeof count);
    *metadata = (uint8_t *)t.data; /* moved */
    *n_bytes = t.n;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------- tensors in their storage */

static const char name_key[] = "ARROW:extension:name";
static const char data_key[] = "ARROW:extension:metadata";
static const char tensor_name[] = "arrow.fixed_shape_tensor";
static const char ragged_name[] = "arrow.variable_shape_tensor";
static const char image_text[] = "{\"dim_names\":[\"height\",\"width\",\"channels\"]}"; /* hr__type_ragged_image */
static const char pickle_name[] =
    "headrace.pickle"; /* for export; arrow.c and wire_schema.c decide what to trust on import */

/* A cursor over JSON of one level, as writers of the extension make it: {"shape":[2,3],"dim_names":["H","W"]}. */
typedef struct json {
    const char *at, *end;
} json;

static bool json_take(json *j, char c)
{
    while (j->at < j->end && strchr(" \t\r\n", *j->at) && *j->at)
        j->at++;
    if (j->at == j->end || *j->at != c)
        return false;
    j->at++;
    return true;
}

/* The text of the string without its quotes; escapes stay. */
static bool json_string(json *j, const char **text, int64_t *n)
{
    if (!json_take(j, '"'))
        return false;
    *text = j->at;
    for (; j->at < j->end && *j->at != '"'; j->at++)
        if (*j->at == '\\' && ++j->at == j->end)
            return false;
    *n = j->at - *text;
    return json_take(j, '"');
}

static bool json_int(json *j, int64_t *out)
{
    int64_t v = 0;
    int n_digits = 0;

    while (j->at < j->end && strchr(" \t\r\n", *j->at) && *j->at)
        j->at++;
    for (; j->at < j->end && *j->at >= '0' && *j->at <= '9' && n_digits < 18; j->at++, n_digits++)
        v = v * 10 + (*j->at - '0');
    *out = v;
    return n_digits > 0;
}

static bool json_ints(json *j, int64_t out[HR_MAX_DIMS], int *n)
{
    *n = 0;
    if (!json_take(j, '['))
        return false;
    if (json_take(j, ']'))
        return true;
    do {
        if (*n == HR_MAX_DIMS || !json_int(j, &out[(*n)++]))
            return false;
    } while (json_take(j, ','));
    return json_take(j, ']');
}

/* Reads {"shape": [...]}, perhaps with the identity as "permutation" (pyarrow writes it). HR_T_TENSOR has no other
 * permutation and no names of dimensions. */
static bool parse_shape(const char *text, int64_t n_text, int64_t shape[HR_MAX_DIMS], int *n_dims)
{
    json j = { text, text + n_text };
    int64_t order[HR_MAX_DIMS] = { 0 }, n_key = 0;
    const char *key = NULL;
    bool has_shape = false;
    int n_order = 0;

    if (!json_take(&j, '{'))
        return false;
    do {
        if (!json_string(&j, &key, &n_key) || !json_take(&j, ':'))
            return false;
        if (!has_shape && n_key == 5 && memcmp(key, "shape", 5) == 0)
            has_shape = json_ints(&j, shape, n_dims);
        else if (!n_order && n_key == 11 && memcmp(key, "permutation", 11) == 0 && json_ints(&j, order, &n_order))
            ;
        else
            return false;
    } while (json_take(&j, ','));
    for (int i = 0; i < n_order; i++)
        if (order[i] != i)
            return false;
    return has_shape && (!n_order || n_order == *n_dims) && json_take(&j, '}');
}

/* The ragged tensor that the field's metadata names; *out NULL: none, or an unknown one. */
static hr_status ragged_of(const hr_field *f, const char *text, int64_t n_text, hr_type **out, hr_error *err)
{
    const hr_type *t = f->type, *data, *shape;
    json j = { text, text + n_text };

    const bool image = n_text == sizeof image_text - 1 && memcmp(text, image_text, sizeof image_text - 1) == 0;

    *out = NULL;
    if (n_text > 0 && !image && !(json_take(&j, '{') && json_take(&j, '}')))
        return HR_OK;
    if (t->id != HR_T_STRUCT || t->n_children != 2 || strcmp(t->children[0].name, "data") != 0 ||
        strcmp(t->children[1].name, "shape") != 0)
        return HR_OK;
    data = t->children[0].type;
    shape = t->children[1].type;
    if (data->id != HR_T_LIST || hr__type_bytes(data->children[0].type) == 0 || shape->id != HR_T_FIXED_LIST ||
        shape->children[0].type->id != HR_T_INT32 || shape->width < 1 || shape->width > HR_MAX_DIMS)
        return HR_OK;
    if (image && shape->width == 3)
        return hr__type_ragged_image(data->children[0].type, out, err);
    return image ? HR_OK : hr__type_ragged(data->children[0].type, shape->width, out, err);
}

/* Takes the type. */
static hr_status become(hr_field *f, hr_type *takes, hr_error *err)
{
    hr_status st = hr__metadata_set(&f->metadata, &f->metadata_bytes, name_key, NULL, 0, err);

    if (!st)
        st = hr__metadata_set(&f->metadata, &f->metadata_bytes, data_key, NULL, 0, err);
    hr__type_unref(st ? takes : f->type);
    f->type = st ? f->type : takes;
    return st;
}

hr_status hr__field_from_storage(hr_field *f, hr_error *err)
{
    hr_type *tensor = NULL;
    int64_t shape[HR_MAX_DIMS] = { 0 }, n_name = 0, n_text = 0, width = 1;
    int n_dims = 0;
    const char *name = hr__metadata_get(f->metadata, f->metadata_bytes, name_key, &n_name);
    const char *text = hr__metadata_get(f->metadata, f->metadata_bytes, data_key, &n_text);

    if (name && n_name == sizeof ragged_name - 1 && memcmp(name, ragged_name, (size_t)n_name) == 0) {
        HR_TRY(ragged_of(f, text ? text : "", text ? n_text : 0, &tensor, err));
        return tensor ? become(f, tensor, err) : HR_OK;
    }
    if (!name || !text || n_name != sizeof tensor_name - 1 || memcmp(name, tensor_name, (size_t)n_name) != 0 ||
        f->type->id != HR_T_FIXED_LIST || !parse_shape(text, n_text, shape, &n_dims))
        return HR_OK;
    for (int i = 0; i < n_dims; i++)
        if (__builtin_mul_overflow(width, shape[i], &width))
            return HR_OK;
    if (width != f->type->width)
        return HR_OK;
    HR_TRY(hr__type_tensor(f->type->children[0].type, shape, n_dims, &tensor, err));
    return become(f, tensor, err);
}

bool hr__field_is_marked_pickle(const hr_field *f)
{
    int64_t n = 0;
    const char *name = hr__metadata_get(f->metadata, f->metadata_bytes, name_key, &n);

    return f->type->id == HR_T_LARGE_BINARY && name && n == sizeof pickle_name - 1 &&
           memcmp(name, pickle_name, (size_t)n) == 0;
}

hr_status hr__field_become_pickle(hr_field *f, hr_error *err) { return become(f, hr__type_pickled(), err); }

static hr_status set_extension(const hr_type *tensor, uint8_t **metadata, int64_t *n_bytes, hr_error *err)
{
    hr_status st = HR_OK;
    hr_text t = { 0 };

    hr__text_add(&t, "{\"shape\":[");
    for (int32_t i = 0; i < tensor->n_dims; i++)
        hr__text_add(&t, "%s%lld", i ? "," : "", (long long)tensor->shape[i]);
    hr__text_add(&t, "]}");
    if (t.failed)
        st = hr__error_memory(err, "metadata", 32 * tensor->n_dims);
    if (!st)
        st = hr__metadata_set(metadata, n_bytes, name_key, tensor_name, sizeof tensor_name - 1, err);
    if (!st)
        st = hr__metadata_set(metadata, n_bytes, data_key, t.data, t.n, err);
    hr__text_clear(&t);
    return st;
}

hr_status hr__field_storage_metadata(const hr_field *f, uint8_t **out, int64_t *n_bytes, hr_error *err)
{
    uint8_t *m = NULL;
    int64_t n = 0;
    hr_status st = HR_OK;

    *out = NULL;
    *n_bytes = 0;
    if (f->metadata) {
        m = hr__alloc(NULL, (size_t)f->metadata_bytes);
        if (!m)
            HR_FAIL(HR_NO_MEMORY, "metadata: no memory for %lld bytes", (long long)f->metadata_bytes);
        memcpy(m, f->metadata, (size_t)f->metadata_bytes);
        n = f->metadata_bytes;
    }
    if (f->type->id == HR_T_TENSOR)
        HR_GO(set_extension(f->type, &m, &n, err));
    if (hr__type_is_ragged(f->type)) {
        HR_GO(hr__metadata_set(&m, &n, name_key, ragged_name, sizeof ragged_name - 1, err));
        HR_GO(f->type->image ? hr__metadata_set(&m, &n, data_key, image_text, sizeof image_text - 1, err)
                             : hr__metadata_set(&m, &n, data_key, "{}", 2, err));
    }
    if (f->type->pickled)
        HR_GO(hr__metadata_set(&m, &n, name_key, pickle_name, sizeof pickle_name - 1, err));
    *out = m;
    *n_bytes = n;
    m = NULL;
done:
    hr__free(m);
    return st;
}
