/* tf_write.c - rows as TFRecord files of tf.train.Example.
 *
 * Columns of integers and booleans become int64 lists, columns of floats float lists (the format has only 32 bits),
 * columns of text and bytes bytes lists; a list or a tensor is a feature of all its values, a null is no feature.
 * Record: length, its checksum, the Example, its checksum; https://www.tensorflow.org/tutorials/load_data/tfrecord.
 *
 * Tests: test_writers.c. */
#include "format/tfrecord/tfrecord.h"

#include <math.h>

enum { TAG_BYTES = 0x0a, TAG_FLOATS = 0x12, TAG_INTS = 0x1a }; /* fields of a Feature: 1, 2, 3, each with a length */

typedef struct tf_writer {
    hr_writer base;
    hr_account *account;
    hr_schema *schema;
} tf_writer;

/* Buffers to build a row, from the innermost part to the outermost. */
typedef struct tf_row {
    hr_growbuf values, features, entry;
    hr_error *err;
    int64_t row; /* of the write chunk */
} tf_row;

/* --------------------------------------------------------------------------------------------------------- protobuf */

static int put_varint(uint64_t v, uint8_t out[10])
{
    int n = 0;

    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

static hr_status add_varint(hr_growbuf *g, uint64_t v, hr_error *err)
{
    uint8_t bytes[10];

    return hr__growbuf_add(g, bytes, put_varint(v, bytes), err);
}

static int64_t length_of(const hr_growbuf *g) { return g->buffer ? g->buffer->n_bytes : 0; }

static void empty(hr_growbuf *g)
{
    if (g->buffer)
        g->buffer->n_bytes = 0;
}

/* tag, length, bytes */
static hr_status add_field(hr_growbuf *g, uint8_t tag, const void *data, int64_t n, hr_error *err)
{
    HR_TRY(hr__growbuf_add(g, &tag, 1, err));
    HR_TRY(add_varint(g, (uint64_t)n, err));
    return n ? hr__growbuf_add(g, data, n, err) : HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- values */

static bool is_list(const hr_type *t)
{
    return t->id == HR_T_LIST || t->id == HR_T_LARGE_LIST || hr__type_is_fixed_list(t);
}

/* Which list of a Feature holds values of this type; 0: none. */
static uint8_t tag_of(const hr_type *t)
{
    while (is_list(t))
        t = t->children[0].type;
    switch (t->id) {
    case HR_T_BOOL:
    case HR_T_INT8:
    case HR_T_UINT8:
    case HR_T_INT16:
    case HR_T_UINT16:
    case HR_T_INT32:
    case HR_T_UINT32:
    case HR_T_INT64: return TAG_INTS;
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: return TAG_FLOATS;
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY:
    case HR_T_FIXED_BINARY: return TAG_BYTES;
    default: return 0;
    }
}

static uint64_t int_at(const hr_array *a, int64_t i)
{
    switch (a->type->id) {
    case HR_T_BOOL: return hr__bit(a->buffers[1]->data, a->offset + i);
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32: return hr__array_uint(a, i);
    default: return (uint64_t)hr__array_int(a, i);
    }
}

/* -> false: a number that becomes infinite in 32 bits. */
static bool float_at(const hr_array *a, int64_t i, float *out)
{
    const uint8_t *p = hr__array_values(a) + i * hr__type_bytes(a->type);
    uint16_t half;
    double v;

    switch (a->type->id) {
    case HR_T_FLOAT16:
        memcpy(&half, p, 2);
        *out = (float)hr__half_value(half);
        return true;
    case HR_T_FLOAT32: memcpy(out, p, 4); return true;
    default:
        memcpy(&v, p, 8);
        *out = (float)v;
        return isinf(v) || !isinf(*out);
    }
}

static hr_status too_large(tf_row *r, const char *column, const hr_array *a, int64_t i)
{
    hr_text t = { 0 };
    hr_status st;

    hr__array_print_some(a, i, 100, &t);
    st = hr_error_set(r->err, HR_TYPE,
                      "tfrecords: column '%s', row %lld of the write chunk: %s does not fit in a float of 32 bits",
                      column, (long long)r->row, t.data ? t.data : "?");
    hr__text_clear(&t);
    return st;
}

/* Appends values [begin, begin + n), and the values inside them, to r->values. */
static hr_status add_values(tf_row *r, const char *column, const hr_array *a, int64_t begin, int64_t n)
{
    uint8_t tag = tag_of(a->type);

    for (int64_t i = begin; i < begin + n; i++) {
        int64_t at, count;
        float v;

        if (hr__array_is_null(a, i))
            return hr_error_set(r->err, HR_TYPE, "tfrecords: column '%s' has a null inside a list", column);
        if (is_list(a->type)) {
            hr__array_range(a, i, &at, &count);
            HR_TRY(add_values(r, column, a->children[0], at, count));
        } else if (tag == TAG_INTS) {
            HR_TRY(add_varint(&r->values, int_at(a, i), r->err));
        } else if (tag == TAG_FLOATS) {
            if (!float_at(a, i, &v))
                return too_large(r, column, a, i);
            HR_TRY(hr__growbuf_add(&r->values, &v, 4, r->err));
        } else {
            const uint8_t *p = hr__array_bytes(a, i, &count);

            HR_TRY(add_field(&r->values, 0x0a, p, count, r->err));
        }
    }
    return HR_OK;
}

/* The entry of the map of features for one column's value in a row. */
static hr_status add_feature(tf_row *r, const char *column, const hr_array *a, int64_t row)
{
    uint8_t tag = tag_of(a->type), head[11] = { 0x0a };
    int64_t n, n_head = 0, n_list, n_feature;
    uint8_t length[10];

    empty(&r->values);
    empty(&r->entry);
    HR_TRY(add_values(r, column, a, row, 1));
    n = length_of(&r->values);
    if (tag != TAG_BYTES) /* packed: the list's one field, with a length */
        n_head = 1 + put_varint((uint64_t)n, head + 1);
    n_list = n_head + n;
    n_feature = 1 + put_varint((uint64_t)n_list, length) + n_list;
    HR_TRY(add_field(&r->entry, 0x0a, column, (int64_t)strlen(column), r->err));
    HR_TRY(hr__growbuf_add(&r->entry, "\x12", 1, r->err));
    HR_TRY(add_varint(&r->entry, (uint64_t)n_feature, r->err));
    HR_TRY(hr__growbuf_add(&r->entry, &tag, 1, r->err));
    HR_TRY(add_varint(&r->entry, (uint64_t)n_list, r->err));
    if (n_head)
        HR_TRY(hr__growbuf_add(&r->entry, head, n_head, r->err));
    if (n)
        HR_TRY(hr__growbuf_add(&r->entry, r->values.buffer->data, n, r->err));
    return add_field(&r->features, 0x0a, r->entry.buffer->data, length_of(&r->entry), r->err);
}

/* ---------------------------------------------------------------------------------------------------------- records */

static hr_status add_record(tf_row *r, hr_growbuf *out)
{
    uint8_t head[11] = { 0x0a };
    int64_t n = length_of(&r->features), n_head = 1 + put_varint((uint64_t)n, head + 1), at;
    uint64_t n_bytes = (uint64_t)(n_head + n);
    uint32_t crc = tf__masked_crc(&n_bytes, 8);

    HR_TRY(hr__growbuf_add(out, &n_bytes, 8, r->err));
    HR_TRY(hr__growbuf_add(out, &crc, 4, r->err));
    at = length_of(out);
    HR_TRY(hr__growbuf_add(out, head, n_head, r->err));
    if (n)
        HR_TRY(hr__growbuf_add(out, r->features.buffer->data, n, r->err));
    crc = tf__masked_crc(out->buffer->data + at, (int64_t)n_bytes);
    return hr__growbuf_add(out, &crc, 4, r->err);
}

static hr_status tf_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                           hr_error *err)
{
    const tf_writer *w = (const tf_writer *)base;
    hr_mem scratch = { mem->account, NULL };
    tf_row r = { { &scratch, NULL }, { &scratch, NULL }, { &scratch, NULL }, err, 0 };
    hr_growbuf records = { .mem = mem };
    hr_status st = HR_OK;

    for (int64_t row = 0; row < t->n_rows; row++) {
        r.row = row;
        empty(&r.features);
        for (int i = 0; i < t->schema->n; i++) {
            if (!hr__array_is_null(t->columns[i], row))
                HR_GO(add_feature(&r, w->schema->fields[i].name, t->columns[i], row));
        }
        HR_GO(add_record(&r, &records));
    }
    HR_GO(hr__growbuf_finish(&records, &out->bytes, err));
    out->n_rows = t->n_rows;
done:
    hr__growbuf_clear(&records);
    hr__growbuf_clear(&r.values);
    hr__growbuf_clear(&r.features);
    hr__growbuf_clear(&r.entry);
    return st;
}

static void tf_free(hr_writer *base)
{
    tf_writer *w = (tf_writer *)base;

    hr__schema_unref(w->schema);
    hr__account_unref(w->account);
    hr__free(w);
}

static const hr_writer_class tf_writer_class = { .encode = tf_encode, .free = tf_free };

hr_status tf__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    tf_writer *w;

    (void)options;
    *out = NULL;
    for (int i = 0; i < schema->n; i++) {
        hr_text type = { 0 };

        HR_TRY(hr__refuse_pickles("tfrecords", &schema->fields[i], err));
        if (tag_of(schema->fields[i].type) || schema->fields[i].type->id == HR_T_NULL)
            continue;
        hr__type_print(schema->fields[i].type, &type);
        hr_error_set(err, HR_TYPE, "tfrecords: column '%s' is %s, but an Example holds only integers, floats and bytes",
                     schema->fields[i].name, type.data ? type.data : "?");
        hr__text_clear(&type);
        return HR_TYPE;
    }
    if (!(w = hr__zalloc(account, sizeof *w)))
        return hr__error_memory(err, "tfrecords", sizeof *w);
    w->base = (hr_writer){ .cls = &tf_writer_class, .suffix = ".tfrecords" };
    w->account = account ? hr__account_ref(account) : NULL;
    w->schema = hr__schema_ref(schema);
    *out = &w->base;
    return HR_OK;
}
