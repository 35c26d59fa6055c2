/* tf_example.c - tf.train.Example as columns: a walk over protobuf's wire format, without a library.
 *
 *     Example { 1: Features { 1: repeated map entry { 1: key, 2: Feature { 1: BytesList | 2: FloatList | 3: Int64List
 *         } } } }
 *
 * each list { 1: repeated value }, floats and integers packed into one field or not. The walk skips unknown fields, as
 * protobuf requires; of a repeated key the last one counts. A row takes two steps: note() stores the record's features
 * by column, then each column takes its value, so that a missing one is a null.
 *
 * A column holds values if no sampled record had two values for it, else lists.
 *
 * Tests: test_tfrecord.c. */
#include "format/tfrecord/tfrecord.h"

static const char *const kind_names[] = { "nothing", "bytes", "float", "int64" };

/* --- protobuf */

typedef struct wire {
    const uint8_t *p, *end;
} wire;

static bool varint(wire *w, uint64_t *out)
{
    uint64_t v = 0;

    for (int shift = 0; w->p < w->end && shift < 64; shift += 7) {
        uint8_t b = *w->p++;

        v |= (uint64_t)(b & 127) << shift;
        if (b < 128) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* The next field: its number and type, and the bytes of a field with a length. false: malformed. Skips the values of
 * other fields. */
static bool field(wire *w, uint64_t *number, int *type, wire *bytes)
{
    uint64_t tag, n;

    if (!varint(w, &tag) || tag >> 3 == 0)
        return false;
    *number = tag >> 3;
    *type = (int)(tag & 7);
    *bytes = (wire){ w->p, w->p };
    switch (*type) {
    case 0:
        if (!varint(w, &n))
            return false;
        break;
    case 1: n = 8; goto fixed;
    case 5: n = 4; goto fixed;
    case 2:
        if (!varint(w, &n))
            return false;
    fixed:
        if (n > (uint64_t)(w->end - w->p))
            return false;
        *bytes = (wire){ w->p, w->p + n };
        w->p += n;
        return true;
    default: return false;
    }
    bytes->end = w->p;
    return true;
}

static hr_status malformed(const char *name, int64_t number, const char *what, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: record %lld: not a tf.train.Example: malformed %s", name,
                        (long long)number, what);
}

/* A feature: its key, and its undecoded list. */
typedef struct feature {
    const char *key;
    int64_t n_key;
    tf_kind kind;
    wire list;
} feature;

static bool parse_entry(wire w, feature *out)
{
    uint64_t number;
    wire bytes, value = { 0 };
    int type;

    *out = (feature){ .key = "" };
    while (w.p < w.end) {
        if (!field(&w, &number, &type, &bytes))
            return false;
        if (number == 1 && type == 2) {
            out->key = (const char *)bytes.p;
            out->n_key = bytes.end - bytes.p;
        } else if (number == 2 && type == 2) {
            value = bytes;
        }
    }
    while (value.p < value.end) {
        if (!field(&value, &number, &type, &bytes))
            return false;
        if (number >= 1 && number <= 3 && type == 2) {
            out->kind = (tf_kind)number;
            out->list = bytes;
        }
    }
    return true;
}

/* Calls `each` for all features of a record. */
typedef hr_status feature_function(void *context, const feature *f, int64_t number, hr_error *err);
static hr_status walk(hr_view record, const char *name, int64_t number, feature_function *each, void *context,
                      hr_error *err)
{
    wire w = { record.data, record.data + record.n }, features, entry;
    uint64_t id;
    feature f;
    int type;

    while (w.p < w.end) {
        if (!field(&w, &id, &type, &features))
            return malformed(name, number, "record", err);
        if (id == 2 && type == 2)
            return hr_error_set(err, HR_UNSUPPORTED,
                                "%s: record %lld: a tf.train.SequenceExample; only tf.train.Example is supported", name,
                                (long long)number);
        if (id != 1 || type != 2)
            continue;
        while (features.p < features.end) {
            if (!field(&features, &id, &type, &entry))
                return malformed(name, number, "features", err);
            if (id != 1 || type != 2)
                continue;
            if (!parse_entry(entry, &f))
                return malformed(name, number, "feature", err);
            HR_TRY(each(context, &f, number, err));
        }
    }
    return HR_OK;
}

/* How many values a list has; -1: malformed. */
static int64_t count_values(tf_kind kind, wire w)
{
    int64_t n = 0, width = 4;
    uint64_t number;
    wire bytes;
    int type, single = kind == TF_FLOAT ? 5 : kind == TF_INT64 ? 0 : 2;

    while (w.p < w.end) {
        if (!field(&w, &number, &type, &bytes))
            return -1;
        if (number != 1)
            continue;
        if (type == single) {
            n++;
        } else if (type == 2 && kind == TF_FLOAT) {
            if ((bytes.end - bytes.p) % width != 0)
                return -1;
            n += (bytes.end - bytes.p) / width;
        } else if (type == 2 && kind == TF_INT64) {
            if (bytes.p < bytes.end && bytes.end[-1] >= 128)
                return -1;
            for (; bytes.p < bytes.end; bytes.p++)
                n += *bytes.p < 128;
        } else {
            return -1;
        }
    }
    return n;
}

/* --------------------------------------------------------------------------------------------------------- features */

void tf__features_clear(tf_features *f)
{
    for (int64_t i = 0; i < f->n; i++)
        hr__free(f->items[i].name);
    hr__free(f->items);
    f->items = NULL;
    f->n = f->cap = 0;
}

static int compare(const tf_column *c, const char *name, int64_t n)
{
    int64_t common = HR_MIN(c->n_name, n);
    int d = common ? memcmp(c->name, name, (size_t)common) : 0;

    return d ? d : (c->n_name > n) - (c->n_name < n);
}

/* The place of `name`; *found false: the place where it belongs. */
static int64_t find(const tf_features *f, const char *name, int64_t n, bool *found)
{
    int64_t low = 0, high = f->n;

    *found = false;
    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        int d = compare(&f->items[mid], name, n);

        if (d == 0) {
            *found = true;
            return mid;
        }
        if (d < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The column of this name, created if it does not exist; NULL: no memory. */
static tf_column *column_of(tf_features *f, const char *name, int64_t n)
{
    bool found;
    int64_t at = find(f, name, n, &found);
    void *items = f->items;
    char *copy;

    if (found)
        return &f->items[at];
    if (!hr__grow(f->account, &items, &f->cap, f->n + 1, sizeof *f->items))
        return NULL;
    f->items = items;
    copy = hr__strndup(f->account, name, (size_t)n);
    if (!copy)
        return NULL;
    memmove(&f->items[at + 1], &f->items[at], (size_t)(f->n - at) * sizeof *f->items);
    f->items[at] = (tf_column){ .name = copy, .n_name = n, .out = -1 };
    f->n++;
    return &f->items[at];
}

struct seen {
    tf_features *features;
    const char *name;
};

static hr_status see(void *context, const feature *f, int64_t number, hr_error *err)
{
    struct seen *s = context;
    int64_t n = count_values(f->kind, f->list);
    tf_column *c;

    if (n < 0)
        return malformed(s->name, number, "list of values", err);
    if (memchr(f->key, 0, (size_t)f->n_key))
        return malformed(s->name, number, "key, with a zero byte", err);
    c = column_of(s->features, f->key, f->n_key);
    if (!c)
        return hr__error_memory(err, s->name, f->n_key);
    if (n > 0 && c->kind != TF_NONE && c->kind != f->kind)
        return hr_error_set(err, HR_TYPE, "%s: record %lld: feature '%s' is %s, but %s in earlier records", s->name,
                            (long long)number, c->name, kind_names[f->kind], kind_names[c->kind]);
    if (n == 0 && f->kind != TF_NONE)
        c->of_empty = f->kind;
    if (n > 0)
        c->kind = f->kind;
    c->is_list = c->is_list || n > 1;
    return HR_OK;
}

hr_status tf__features_see(tf_features *f, hr_view record, const char *name, int64_t number, hr_error *err)
{
    return walk(record, name, number, see, &(struct seen){ f, name }, err);
}

static tf_kind kind_of(const hr_type *t)
{
    return hr__type_is_bytes(t)    ? TF_BYTES
           : t->id == HR_T_FLOAT32 ? TF_FLOAT
           : t->id == HR_T_INT64   ? TF_INT64
                                   : TF_NONE;
}

hr_status tf__features_of_schema(tf_features *f, const hr_schema *schema, const char *name, hr_error *err)
{
    for (int i = 0; i < schema->n; i++) {
        const hr_type *t = schema->fields[i].type;
        tf_column *c = column_of(f, schema->fields[i].name, (int64_t)strlen(schema->fields[i].name));

        if (!c)
            return hr__error_memory(err, name, schema->n);
        c->is_list = t->id == HR_T_LIST;
        c->kind = kind_of(c->is_list ? t->children[0].type : t);
        if (c->kind == TF_NONE && t->id != HR_T_NULL)
            return hr_error_set(err, HR_TYPE,
                                "%s: column '%s': a feature is bytes, float, int64 or a list of one of these", name,
                                c->name);
    }
    f->others_are_fine = true;
    return HR_OK;
}

hr_status tf__features_of_text(tf_features *f, const char *text, hr_error *err)
{
    while (*text) {
        int64_t n = (int64_t)strcspn(text, "\n");
        const char *blank = memchr(text, ' ', (size_t)n), *type = text;
        bool is_list = strncmp(type, "list<", 5) == 0;
        tf_kind kind = TF_NONE;
        tf_column *c;

        type += is_list ? 5 : 0;
        for (int k = TF_BYTES; blank && k <= TF_INT64; k++) {
            size_t m = strlen(kind_names[k]);

            if (strncmp(type, kind_names[k], m) == 0 && type + m + is_list == blank && (!is_list || type[m] == '>'))
                kind = (tf_kind)k;
        }
        if (kind == TF_NONE)
            return hr_error_set(
                err, HR_INVALID,
                "tf_schema: '%.*s': expected a type, a blank and a name; types are bytes, float, int64, "
                "list<bytes>, list<float>, list<int64>",
                (int)HR_MIN(n, 200), text);
        c = column_of(f, blank + 1, text + n - blank - 1);
        if (!c)
            return hr__error_memory(err, "tf_schema", n);
        c->kind = kind;
        c->is_list = is_list;
        text += n + (text[n] == '\n');
    }
    f->others_are_fine = true;
    return HR_OK;
}

static hr_status column_type(const tf_column *c, hr_type **out, hr_error *err)
{
    static const hr_type_id ids[] = { HR_T_NULL, HR_T_BINARY, HR_T_FLOAT32, HR_T_INT64 };
    hr_field item = { 0 };
    hr_status st = HR_OK;

    if (!c->is_list) {
        *out = hr__type_simple(ids[c->kind]);
        return HR_OK;
    }
    HR_GO(hr__field_init(&item, "item", hr__type_simple(ids[c->kind]), true, err));
    HR_GO(hr__type_list(HR_T_LIST, &item, 0, out, err));
done:
    hr__field_clear(&item);
    return st;
}

hr_status tf__features_schema(tf_features *f, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__zalloc(f->account, (size_t)HR_MAX(f->n, 1) * sizeof *fields);
    hr_status st = HR_OK;

    if (!fields)
        return hr__error_memory(err, "schema", f->n);
    for (int64_t i = 0; i < f->n; i++) {
        hr_type *type = NULL;

        if (f->items[i].kind == TF_NONE)
            f->items[i].kind = f->items[i].of_empty;
        HR_GO(column_type(&f->items[i], &type, err));
        st = hr__field_init(&fields[i], f->items[i].name, type, true, err);
        hr__type_unref(type);
        if (st)
            goto done;
    }
    HR_GO(hr__schema_new(fields, (int)f->n, out, err));
done:
    for (int64_t i = 0; i < f->n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* A column being made. */
typedef struct maker {
    const tf_column *column;
    hr_growbuf valid;  /* a byte a row */
    hr_growbuf lists;  /* int32 offsets of lists */
    hr_growbuf values; /* int64, float, or int32 offsets of bytes */
    hr_growbuf data;   /* bytes */
    int64_t n_items, n_nulls;
    bool is_set; /* by the current record */
    tf_kind kind;
    wire list;
} maker;

struct tf_rows {
    const tf_features *features;
    const char *name;
    hr_mem mem;
    int64_t bytes;
    int64_t *guesses; /* the column of the k-th feature of the last record; features->n */
    int64_t entry;    /* number of the current feature in its record */
    int n_columns;
    maker makers[];
};

static hr_status begin_offsets(maker *m, hr_error *err)
{
    static const uint8_t zero[4];

    if (m->column->is_list)
        HR_TRY(hr__growbuf_add(&m->lists, zero, 4, err));
    return m->column->kind == TF_BYTES ? hr__growbuf_add(&m->values, zero, 4, err) : HR_OK;
}

hr_status tf__rows_new(const tf_features *f, int n_columns, const char *name, const hr_mem *mem, tf_rows **out,
                       hr_error *err)
{
    size_t bytes = sizeof(tf_rows) + (size_t)n_columns * sizeof(maker);
    tf_rows *r = hr__zalloc(mem->account, bytes);
    hr_status st = HR_OK;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, name, (int64_t)bytes);
    r->features = f;
    r->name = name;
    r->mem = *mem;
    r->n_columns = n_columns;
    r->guesses = hr__zalloc(mem->account, (size_t)HR_MAX(f->n, 1) * sizeof *r->guesses);
    if (!r->guesses)
        HR_GO(hr__error_memory(err, name, f->n * (int64_t)sizeof *r->guesses));
    for (int64_t i = 0; i < f->n; i++) {
        maker *m = f->items[i].out >= 0 ? &r->makers[f->items[i].out] : NULL;

        if (!m)
            continue;
        m->column = &f->items[i];
        m->valid.mem = m->lists.mem = m->values.mem = m->data.mem = &r->mem;
        HR_GO(begin_offsets(m, err));
    }
    *out = r;
    r = NULL; /* moved to the caller */
done:
    tf__rows_free(r);
    return st;
}

void tf__rows_free(tf_rows *r)
{
    for (int i = 0; r && i < r->n_columns; i++) {
        hr__growbuf_clear(&r->makers[i].valid);
        hr__growbuf_clear(&r->makers[i].lists);
        hr__growbuf_clear(&r->makers[i].values);
        hr__growbuf_clear(&r->makers[i].data);
    }
    if (r)
        hr__free(r->guesses);
    hr__free(r);
}

int64_t tf__rows_bytes(const tf_rows *r) { return r->bytes; }

/* Stores a feature of the record at its column. Records mostly have the same features in the same order. */
static hr_status note(void *context, const feature *f, int64_t number, hr_error *err)
{
    tf_rows *r = context;
    const tf_features *all = r->features;
    int64_t k = r->entry++, at = k < all->n ? r->guesses[k] : 0;
    bool found = all->n > 0 && compare(&all->items[at], f->key, f->n_key) == 0;
    maker *m;

    if (!found) {
        at = find(all, f->key, f->n_key, &found);
        if (found && k < all->n)
            r->guesses[k] = at;
    }
    if (!found && all->others_are_fine)
        return HR_OK;
    if (!found)
        return hr_error_set(err, HR_TYPE,
                            "%s: record %lld: feature '%.*s' is in none of the sampled records; "
                            "name the features (tf_schema), or raise the option sample",
                            r->name, (long long)number, (int)HR_MIN(f->n_key, 200), f->key);
    if (all->items[at].out < 0)
        return HR_OK;
    m = &r->makers[all->items[at].out];
    m->is_set = f->kind != TF_NONE;
    m->kind = f->kind;
    m->list = f->list;
    return HR_OK;
}

/* The error for a value that the column cannot hold. */
static hr_status misfit(const tf_rows *r, const maker *m, int64_t number, int64_t n, hr_error *err)
{
    const tf_column *c = m->column;

    if (n < 0)
        return malformed(r->name, number, "list of values", err);
    if (m->kind != c->kind)
        return hr_error_set(err, HR_TYPE, "%s: record %lld: feature '%s' is %s, expected %s", r->name,
                            (long long)number, c->name, kind_names[m->kind], kind_names[c->kind]);
    return hr_error_set(
        err, HR_TYPE,
        "%s: record %lld: feature '%s' has %lld values, expected at most one; name list<%s> in tf_schema, or "
        "raise the option sample",
        r->name, (long long)number, c->name, (long long)n, kind_names[c->kind]);
}

static hr_status add_bytes(maker *m, wire bytes, hr_error *err)
{
    int64_t n = bytes.end - bytes.p, has = m->data.buffer ? m->data.buffer->n_bytes : 0;
    int32_t end = (int32_t)(has + n);

    if (has + n > INT32_MAX)
        return hr_error_set(err, HR_UNSUPPORTED, "more than 2 GiB of bytes in a table");
    HR_TRY(hr__growbuf_add(&m->data, bytes.p, n, err));
    return hr__growbuf_add(&m->values, &end, 4, err);
}

/* Appends the n values of the current list, which count_values counted, to the column's. */
static hr_status add_values(const tf_rows *r, maker *m, int64_t number_of_record, int64_t n, hr_error *err)
{
    int64_t width = m->kind == TF_FLOAT ? 4 : 8;
    wire w = m->list, bytes;
    uint64_t number, v;
    uint8_t *out = NULL;
    int type;

    if (m->kind != TF_BYTES) {
        HR_TRY(hr__growbuf_reserve(&m->values, n * width, err));
        out = m->values.buffer->data + m->values.buffer->n_bytes;
        m->values.buffer->n_bytes += n * width;
    }
    while (w.p < w.end && field(&w, &number, &type, &bytes)) {
        if (number != 1)
            continue;
        if (m->kind == TF_BYTES) {
            HR_TRY(add_bytes(m, bytes, err));
        } else if (m->kind == TF_FLOAT) { /* little endian, packed or one by one */
            memcpy(out, bytes.p, (size_t)(bytes.end - bytes.p));
            out += bytes.end - bytes.p;
        } else {
            while (bytes.p < bytes.end && varint(&bytes, &v)) {
                memcpy(out, &v, 8);
                out += 8;
            }
        }
    }
    if (m->kind != TF_BYTES && out != m->values.buffer->data + m->values.buffer->n_bytes)
        return malformed(r->name, number_of_record, "list of values", err); /* a number of more than 10 bytes */
    m->n_items += n;
    return HR_OK;
}

/* Adds a missing value. */
static hr_status add_null(maker *m, hr_error *err)
{
    static const uint8_t zeros[8];
    int64_t width = m->column->kind == TF_FLOAT ? 4 : 8;

    m->n_nulls++;
    if (m->column->is_list || m->column->kind == TF_NONE)
        return HR_OK;
    if (m->column->kind == TF_BYTES)
        return add_bytes(m, (wire){ zeros, zeros }, err);
    return hr__growbuf_add(&m->values, zeros, width, err);
}

static hr_status add_value(tf_rows *r, maker *m, int64_t number, hr_error *err)
{
    const tf_column *c = m->column;
    int64_t n = m->is_set ? count_values(m->kind, m->list) : 0;
    bool valid = n > 0 || (c->is_list && m->is_set && m->kind == c->kind);
    uint8_t byte = valid;
    int32_t end;

    if (n < 0 || (n > 0 && m->kind != c->kind) || (n > 1 && !c->is_list))
        return misfit(r, m, number, n, err);
    if (n > 0)
        HR_TRY(add_values(r, m, number, n, err));
    if (!valid)
        HR_TRY(add_null(m, err));
    if (c->is_list) {
        end = (int32_t)m->n_items;
        HR_TRY(hr__growbuf_add(&m->lists, &end, 4, err));
    }
    r->bytes += n * 8 + 4 + (c->kind == TF_BYTES && m->is_set ? m->list.end - m->list.p : 0);
    m->is_set = false;
    return hr__growbuf_add(&m->valid, &byte, 1, err);
}

hr_status tf__rows_add(tf_rows *r, hr_view record, int64_t number, hr_error *err)
{
    for (int i = 0; i < r->n_columns; i++)
        r->makers[i].is_set = false;
    r->entry = 0;
    HR_TRY(walk(record, r->name, number, note, r, err));
    for (int i = 0; i < r->n_columns; i++)
        HR_TRY(add_value(r, &r->makers[i], number, err));
    r->bytes += 8;
    return HR_OK;
}

/* The bits of the rows' bytes; *out NULL: all are valid. */
static hr_status pack_valid(tf_rows *r, maker *m, int64_t n, hr_buffer **out, hr_error *err)
{
    if (m->n_nulls == 0 || m->column->kind == TF_NONE)
        return HR_OK;
    HR_TRY(hr__buffer_new(&r->mem, hr__bits_bytes(n), out, err));
    memset((*out)->data, 0, (size_t)hr__bits_bytes(n));
    for (int64_t i = 0; i < n; i++)
        (*out)->data[i >> 3] |= (uint8_t)(m->valid.buffer->data[i] << (i & 7));
    return HR_OK;
}

static hr_status finish_column(tf_rows *r, maker *m, int64_t n, hr_array **out, hr_error *err)
{
    const tf_column *c = m->column;
    hr_buffer *buffers[3] = { NULL, NULL, NULL }, *lists[3] = { NULL, NULL, NULL };
    hr_type *type = NULL;
    hr_array *items = NULL;
    hr_status st = HR_OK;

    HR_GO(column_type(c, &type, err));
    HR_GO(pack_valid(r, m, n, c->is_list ? &lists[0] : &buffers[0], err));
    if (c->kind != TF_NONE)
        HR_GO(hr__growbuf_finish(&m->values, &buffers[1], err));
    if (c->kind == TF_BYTES)
        HR_GO(hr__growbuf_finish(&m->data, &buffers[2], err));
    st = hr__array_new(c->is_list ? type->children[0].type : type, c->is_list ? m->n_items : n,
                       c->is_list ? 0 : m->n_nulls, buffers, NULL, 0, c->is_list ? &items : out, err);
    memset(buffers, 0, sizeof buffers); /* taken */
    if (st || !c->is_list)
        goto done;
    HR_GO(hr__growbuf_finish(&m->lists, &lists[1], err));
    st = hr__array_new(type, n, m->n_nulls, lists, &items, 1, out, err);
    memset(lists, 0, sizeof lists); /* taken */
    items = NULL;
done:
    for (int i = 0; i < 3; i++) {
        hr__buffer_unref(buffers[i]);
        hr__buffer_unref(lists[i]);
    }
    hr__array_unref(items);
    hr__type_unref(type);
    return st;
}

hr_status tf__rows_finish(tf_rows *r, int64_t n, hr_array **arrays, hr_error *err)
{
    for (int i = 0; i < r->n_columns; i++)
        HR_TRY(finish_column(r, &r->makers[i], n, &arrays[i], err));
    return HR_OK;
}
