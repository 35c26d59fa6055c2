/* ipc_schema.c - Arrow schemas as IPC messages, both ways.
 *
 * The reader keeps the encoding of a field (dictionary, views, run ends), which decides its buffers; the engine's type
 * comes from the C struct that ipc__field_export makes of it.
 *
 * Tests: test_ipc.c, test_parquet_write.c. */
#include "data/cdata/arrow.h"
#include "format/arrow/ipc.h"

#include <stdio.h>

#define MIN_FIELD_BYTES                                                                                                \
    16 /* least bytes of a field in a message; bounds the number of fields in a message that shares parts */

enum { MESSAGE_SCHEMA = 1, VERSION_5 = 4 };
/* The numbers of Schema.fbs's union of types. */
enum {
    T_NULL = 1,
    T_INT,
    T_FLOAT,
    T_BINARY,
    T_UTF8,
    T_BOOL,
    T_DECIMAL,
    T_DATE,
    T_TIME,
    T_TIMESTAMP,
    T_INTERVAL,
    T_LIST,
    T_STRUCT,
    T_UNION,
    T_FIXED_BINARY,
    T_FIXED_LIST,
    T_MAP,
    T_DURATION,
    T_LARGE_BINARY,
    T_LARGE_UTF8,
    T_LARGE_LIST,
    T_RUN_END,
    T_BINARY_VIEW,
    T_UTF8_VIEW,
    T_LIST_VIEW,
    T_LARGE_LIST_VIEW
};
#define LAST_TYPE (T_LARGE_LIST_VIEW + 16) /* some more may come */

/* ---------------------------------------------------------------------------------------------------------- reading */

typedef struct parse {
    hr_flat *f;
    int64_t fields_left;
    hr_account *account;
    hr_error *err;
} parse;

static hr_status no_memory(parse *p, int64_t n) { return hr__error_memory(p->err, "Arrow schema", n); }

static hr_status damaged(parse *p) { return hr_error_set(p->err, HR_BAD_DATA, "the Arrow schema is damaged"); }

/* A text must be UTF-8 without zero bytes; otherwise the whole message is damaged. */
static hr_view text_of(parse *p, int64_t table, int i)
{
    hr_view v = hr__flat_text(p->f, table, i);

    p->f->bad = p->f->bad || !hr__utf8_valid(v.data, v.n) || (v.n > 0 && memchr(v.data, 0, (size_t)v.n));
    return v;
}

/* Formats of the C interface: *out is new, NULL: unknown type. */

static hr_status copied(parse *p, const char *format, char **out)
{
    *out = hr__strdup(p->account, format);
    return *out ? HR_OK : no_memory(p, (int64_t)strlen(format));
}

static hr_status int_format(parse *p, int64_t t, char **out)
{
    int64_t bits = hr__flat_number(p->f, t, 0, 4, 0);
    bool is_signed = hr__flat_number(p->f, t, 1, 1, 0) != 0;
    int at = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : -1;
    char format[2] = { 0 };

    if (at < 0)
        return HR_OK;
    format[0] = (is_signed ? "csil" : "CSIL")[at];
    return copied(p, format, out);
}

static hr_status decimal_format(parse *p, int64_t t, char **out)
{
    int64_t precision = hr__flat_number(p->f, t, 0, 4, 0), scale = hr__flat_number(p->f, t, 1, 4, 0);
    int64_t bits = hr__flat_number(p->f, t, 2, 4, 128);
    int64_t most = bits == 32 ? 9 : bits == 64 ? 18 : bits == 128 ? 38 : bits == 256 ? 76 : 0;
    char format[40];

    if (precision < 1 || precision > most || scale < -most || scale > most)
        return HR_OK;
    snprintf(format, sizeof format, bits == 128 ? "d:%d,%d" : "d:%d,%d,%d", (int)precision, (int)scale, (int)bits);
    return copied(p, format, out);
}

/* `unit` as a letter after `head`. */
static hr_status unit_format(parse *p, const char *head, int64_t unit, char **out)
{
    char format[8];

    if (unit < HR_SECOND || unit > HR_NANO)
        return HR_OK;
    snprintf(format, sizeof format, "%s%c", head, "smun"[unit]);
    return copied(p, format, out);
}

static hr_status time_format(parse *p, int64_t t, char **out)
{
    int64_t unit = hr__flat_number(p->f, t, 0, 2, HR_MILLI), bits = hr__flat_number(p->f, t, 1, 4, 32);

    return bits == (unit <= HR_MILLI ? 32 : 64) ? unit_format(p, "tt", unit, out) : HR_OK;
}

static hr_status timestamp_format(parse *p, int64_t t, char **out)
{
    int64_t unit = hr__flat_number(p->f, t, 0, 2, HR_SECOND);
    hr_view zone = text_of(p, t, 1);

    if (unit < HR_SECOND || unit > HR_NANO)
        return HR_OK;
    *out = hr__printf(p->account, "ts%c:%.*s", "smun"[unit], (int)zone.n, (const char *)zone.data);
    return *out ? HR_OK : no_memory(p, zone.n);
}

static hr_status interval_format(parse *p, int64_t t, char **out)
{
    static const char *const formats[] = { "tiM", "tiD", "tin" };
    int64_t unit = hr__flat_number(p->f, t, 0, 2, 0);

    return unit >= 0 && unit < HR_LEN(formats) ? copied(p, formats[unit], out) : HR_OK;
}

static hr_status number_format(parse *p, const char *head, int64_t v, char **out)
{
    char format[24];

    if (v < 0)
        return HR_OK;
    snprintf(format, sizeof format, "%s%d", head, (int)v);
    return copied(p, format, out);
}

static hr_status type_format(parse *p, int64_t type, int64_t t, char **out)
{
    static const char *const simple[] = {
        [T_NULL] = "n",        [T_BINARY] = "z",       [T_UTF8] = "u",
        [T_BOOL] = "b",        [T_LIST] = "+l",        [T_STRUCT] = "+s",
        [T_MAP] = "+m",        [T_LARGE_BINARY] = "Z", [T_LARGE_UTF8] = "U",
        [T_LARGE_LIST] = "+L", [T_RUN_END] = "+r",     [T_BINARY_VIEW] = "vz",
        [T_UTF8_VIEW] = "vu",  [T_LIST_VIEW] = "+vl",  [T_LARGE_LIST_VIEW] = "+vL",
    };
    static const char *const floats[] = { "e", "f", "g" };
    int64_t v;

    switch (type) {
    case T_INT: return int_format(p, t, out);
    case T_FLOAT: v = hr__flat_number(p->f, t, 0, 2, 0); return v >= 0 && v < 3 ? copied(p, floats[v], out) : HR_OK;
    case T_DECIMAL: return decimal_format(p, t, out);
    case T_DATE: return copied(p, hr__flat_number(p->f, t, 0, 2, 1) == 0 ? "tdD" : "tdm", out);
    case T_TIME: return time_format(p, t, out);
    case T_TIMESTAMP: return timestamp_format(p, t, out);
    case T_INTERVAL: return interval_format(p, t, out);
    case T_FIXED_BINARY: return number_format(p, "w:", hr__flat_number(p->f, t, 0, 4, 0), out);
    case T_FIXED_LIST: return number_format(p, "+w:", hr__flat_number(p->f, t, 0, 4, 0), out);
    case T_DURATION: return unit_format(p, "tD", hr__flat_number(p->f, t, 0, 2, HR_MILLI), out);
    default: return type > 0 && type < HR_LEN(simple) && simple[type] ? copied(p, simple[type], out) : HR_OK;
    }
}

/* Key-value pairs in field i of a table. */
static hr_status read_metadata(parse *p, int64_t table, int i, uint8_t **out, int64_t *n_out)
{
    hr_status st = HR_OK;
    int64_t first, n = hr__flat_vector(p->f, table, i, 4, &first);
    char *key = NULL;

    for (int64_t k = 0; k < n && !p->f->bad; k++) {
        int64_t pair = hr__flat_element(p->f, first, k);
        hr_view name = hr__flat_text(p->f, pair, 0), v = hr__flat_text(p->f, pair, 1);

        if (--p->fields_left < 0)
            p->f->bad = true;
        if (!p->f->bad)
            HR_GO(hr__name_check(name.data, name.n, "a key of an Arrow schema's metadata", p->err));
        hr__free(key);
        key = hr__strndup(p->account, (const char *)name.data, (size_t)name.n);
        if (!key)
            HR_GO(no_memory(p, name.n));
        if (!p->f->bad)
            HR_GO(hr__metadata_set(out, n_out, key, v.data, v.n, p->err));
    }
done:
    hr__free(key);
    return st;
}

static void field_clear(ipc_field *f)
{
    for (int i = 0; f->children && i < f->n_children; i++)
        field_clear(&f->children[i]);
    hr__free(f->children);
    hr__free(f->name);
    hr__free(f->format);
    hr__free(f->metadata);
    *f = (ipc_field){ 0 };
}

static hr_status read_dictionary(parse *p, int64_t field, ipc_field *out)
{
    int64_t d = hr__flat_table(p->f, field, 4), t;
    char *format = NULL;

    if (!d)
        return HR_OK;
    t = hr__flat_table(p->f, d, 1);
    out->id = hr__flat_number(p->f, d, 0, 8, 0);
    if (t)
        HR_TRY(int_format(p, t, &format));
    out->index = !t ? 'i' : format ? format[0] : 0; /* without a type: int32 */
    hr__free(format);
    return out->index ? HR_OK : damaged(p);
}

static hr_status read_fields(parse *p, int64_t table, int i, int depth, ipc_field **out, int *n_out);

static hr_status read_field(parse *p, int64_t table, int depth, ipc_field *out)
{
    hr_view name;
    int64_t t;

    if (p->f->bad || depth > HR_MAX_DEPTH - 2 || --p->fields_left < 0)
        return damaged(p);
    HR_TRY(read_fields(p, table, 5, depth + 1, &out->children, &out->n_children));
    name = text_of(p, table, 0);
    HR_TRY(hr__name_check(name.data, name.n, "a column's name", p->err));
    out->name = hr__strndup(p->account, (const char *)name.data, (size_t)name.n);
    if (!out->name)
        return no_memory(p, name.n);
    out->nullable = hr__flat_number(p->f, table, 1, 1, 0) != 0;
    out->type = hr__flat_number(p->f, table, 2, 1, 0);
    t = hr__flat_table(p->f, table, 3);
    if (!t || out->type < T_NULL || out->type > LAST_TYPE)
        return damaged(p);
    HR_TRY(type_format(p, out->type, t, &out->format));
    out->sorted_keys = out->type == T_MAP && hr__flat_number(p->f, t, 0, 1, 0) != 0;
    HR_TRY(read_dictionary(p, table, out));
    HR_TRY(read_metadata(p, table, 6, &out->metadata, &out->metadata_bytes));
    return p->f->bad ? damaged(p) : HR_OK;
}

/* *out keeps the finished fields, also on failure. */
static hr_status read_fields(parse *p, int64_t table, int i, int depth, ipc_field **out, int *n_out)
{
    int64_t first, n = hr__flat_vector(p->f, table, i, 4, &first);

    if (p->f->bad || n > p->fields_left)
        return damaged(p);
    if (n == 0)
        return HR_OK;
    *out = hr__zalloc(p->account, (size_t)n * sizeof **out);
    if (!*out)
        return no_memory(p, n * (int64_t)sizeof **out);
    *n_out = (int)n;
    for (int64_t k = 0; k < n; k++)
        HR_TRY(read_field(p, hr__flat_element(p->f, first, k), depth, &(*out)[k]));
    return HR_OK;
}

hr_status ipc__schema_read(hr_flat *f, int64_t table, hr_account *account, ipc_schema **out, hr_error *err)
{
    parse p = { .f = f, .fields_left = f->n / MIN_FIELD_BYTES + 1, .account = account, .err = err };
    ipc_schema *s = hr__zalloc(account, sizeof *s);
    hr_status st = HR_OK;

    *out = NULL;
    if (!s)
        return no_memory(&p, sizeof *s);
    s->account = account;
    s->big_endian = hr__flat_number(f, table, 0, 2, 0) == 1;
    if (!hr__flat_slot(f, table, 1) || hr__flat_number(f, table, 0, 2, 0) < 0 || hr__flat_number(f, table, 0, 2, 0) > 1)
        HR_GO(damaged(&p));
    HR_GO(read_fields(&p, table, 1, 0, &s->fields, &s->n));
    HR_GO(read_metadata(&p, table, 2, &s->metadata, &s->metadata_bytes));
    if (f->bad)
        HR_GO(damaged(&p));
    *out = s;
    s = NULL; /* moved to the caller */
done:
    ipc__schema_free(s);
    return st;
}

static bool same_fields(const ipc_field *a, int n_a, const ipc_field *b, int n_b)
{
    for (int i = 0; n_a == n_b && i < n_a; i++) {
        const char *x = a[i].format ? a[i].format : "", *y = b[i].format ? b[i].format : "";

        if (strcmp(a[i].name, b[i].name) != 0 || strcmp(x, y) != 0 || a[i].type != b[i].type ||
            a[i].index != b[i].index || !same_fields(a[i].children, a[i].n_children, b[i].children, b[i].n_children))
            return false;
    }
    return n_a == n_b;
}

bool ipc__schema_same(const ipc_schema *a, const ipc_schema *b)
{
    return a->big_endian == b->big_endian && same_fields(a->fields, a->n, b->fields, b->n);
}

void ipc__schema_free(ipc_schema *s)
{
    if (!s)
        return;
    for (int i = 0; i < s->n; i++)
        field_clear(&s->fields[i]);
    hr__free(s->fields);
    hr__free(s->metadata);
    hr__free(s);
}

/* ------------------------------------------------------------------------------------------ as the interface has it */

typedef struct exported {
    struct ArrowSchema *children;
    struct ArrowSchema **pointers;
    struct ArrowSchema dictionary;
    char index[2];
} exported;

static void exported_release(struct ArrowSchema *s)
{
    exported *x = s->private_data;

    for (int64_t i = 0; i < s->n_children; i++) {
        if (x->children[i].release)
            x->children[i].release(&x->children[i]);
    }
    if (x->dictionary.release)
        x->dictionary.release(&x->dictionary);
    hr__free(x->children);
    hr__free(x->pointers);
    hr__free(x);
    s->release = NULL;
}

/* The type of a dictionary's values, as the engine decodes them. */
static hr_status export_dictionary(const ipc_field *f, bool lenient, struct ArrowSchema *out, hr_error *err)
{
    struct ArrowSchema values;
    hr_field field = { 0 };
    hr_status st;

    HR_TRY(ipc__field_export(f, false, lenient, &values, err));
    st = hr__arrow_field(&values, &field, err);
    values.release(&values);
    if (!st)
        st = hr__type_export(field.type, out, err);
    hr__field_clear(&field);
    return st;
}

/* For Parquet (`lenient`) nothing is a view, and 2 GiB in a column chunk are rare. */
static const char *format_of(const ipc_field *f, bool lenient)
{
    return lenient && f->type == T_UTF8_VIEW ? "u" : lenient && f->type == T_BINARY_VIEW ? "z" : f->format;
}

hr_status ipc__field_export(const ipc_field *f, bool encoded, bool lenient, struct ArrowSchema *out, hr_error *err)
{
    exported *x = hr__zalloc(NULL, sizeof *x);
    int n = encoded && f->index ? 0 : f->n_children;
    hr_status st = HR_OK;

    *out = (struct ArrowSchema){ 0 };
    if (!x)
        return hr__error_memory(err, "Arrow schema", sizeof *x);
    *out = (struct ArrowSchema){ .format = f->format ? format_of(f, lenient) : "n",
                                 .name = f->name,
                                 .metadata = (const char *)f->metadata,
                                 .flags = (f->nullable ? ARROW_FLAG_NULLABLE : 0) |
                                          (f->sorted_keys ? ARROW_FLAG_MAP_KEYS_SORTED : 0),
                                 .release = exported_release,
                                 .private_data = x };
    if (!f->format && !lenient)
        HR_FAIL(HR_UNSUPPORTED, "column '%s': Arrow type number %d (%s) is unknown", f->name, (int)f->type,
                f->type == T_UNION ? "union" : "unknown");
    if (encoded && f->index) {
        x->index[0] = f->index;
        out->format = x->index;
        HR_GO(export_dictionary(f, lenient, &x->dictionary, err));
        out->dictionary = &x->dictionary;
    }
    if (!f->format || n == 0)
        goto done;
    x->children = hr__zalloc(NULL, (size_t)n * sizeof *x->children);
    x->pointers = hr__zalloc(NULL, (size_t)n * sizeof *x->pointers);
    if (!x->children || !x->pointers)
        HR_GO(hr__error_memory(err, "Arrow schema", n * (int64_t)sizeof *x->children));
    out->children = x->pointers;
    out->n_children = n;
    for (int i = 0; i < n; i++) {
        x->pointers[i] = &x->children[i];
        HR_GO(ipc__field_export(&f->children[i], true, lenient, &x->children[i], err));
    }
done:
    if (st)
        out->release(out);
    return st;
}

/* If lenient, an invalid type (a decimal of 90 digits) counts as an unknown one. */
static hr_status field_type(const ipc_field *f, bool lenient, hr_field *out, hr_error *err)
{
    hr_error mine = HR_ERROR_INIT;
    struct ArrowSchema c;
    hr_status st;

    HR_TRY(ipc__field_export(f, true, lenient, &c, err));
    st = hr__arrow_field(&c, out, &mine);
    c.release(&c);
    if (st && lenient && st != HR_NO_MEMORY) {
        hr_error_clear(&mine);
        return hr__field_init(out, f->name, hr__type_simple(HR_T_NULL), f->nullable, err);
    }
    hr__error_move(err, &mine);
    return st;
}

hr_status ipc__schema_types(const ipc_schema *s, bool lenient, hr_schema **out, hr_error *err)
{
    hr_field *fields = hr__zalloc(s->account, (size_t)s->n * sizeof *fields);
    hr_status st = HR_OK;

    *out = NULL;
    if (!fields)
        return hr__error_memory(err, "Arrow schema", s->n * (int64_t)sizeof *fields);
    for (int i = 0; i < s->n; i++)
        HR_GO(field_type(&s->fields[i], lenient, &fields[i], err));
    HR_GO(hr__schema_new(fields, s->n, out, err));
    if (s->metadata) {
        (*out)->metadata = hr__alloc(NULL, (size_t)s->metadata_bytes);
        if (!(*out)->metadata)
            HR_GO(hr__error_memory(err, "Arrow schema", s->metadata_bytes));
        memcpy((*out)->metadata, s->metadata, (size_t)s->metadata_bytes);
        (*out)->metadata_bytes = s->metadata_bytes;
    }
done:
    for (int i = 0; i < s->n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
    if (st) {
        hr__schema_unref(*out);
        *out = NULL;
    }
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

/* A table with up to two numbers. n_bytes 0: there is none. */
static int64_t put_table(hr_flat_builder *b, int64_t v0, int bytes0, int64_t v1, int bytes1)
{
    hr__flat_begin(b);
    if (bytes0)
        hr__flat_add_number(b, 0, v0, bytes0);
    if (bytes1)
        hr__flat_add_number(b, 1, v1, bytes1);
    return hr__flat_end(b);
}

static int64_t put_timestamp(hr_flat_builder *b, const hr_type *t)
{
    int64_t zone = t->zone && *t->zone ? hr__flat_put_text(b, t->zone, (int64_t)strlen(t->zone)) : 0;

    hr__flat_begin(b);
    hr__flat_add_number(b, 0, t->unit, 2);
    hr__flat_add_ref(b, 1, zone);
    return hr__flat_end(b);
}

/* The table of a type; *kind its number. */
static int64_t put_type(hr_flat_builder *b, const hr_type *t, int64_t *kind)
{
    int bytes = hr__type_bytes(t);

    switch (t->id) {
    case HR_T_INT8:
    case HR_T_INT16:
    case HR_T_INT32:
    case HR_T_INT64: *kind = T_INT; return put_table(b, bytes * 8, 4, 1, 1);
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: *kind = T_INT; return put_table(b, bytes * 8, 4, 0, 1);
    case HR_T_FLOAT16:
    case HR_T_FLOAT32:
    case HR_T_FLOAT64: *kind = T_FLOAT; return put_table(b, bytes == 2 ? 0 : bytes == 4 ? 1 : 2, 2, 0, 0);
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256:
        *kind = T_DECIMAL;
        hr__flat_begin(b);
        hr__flat_add_number(b, 0, t->precision, 4);
        hr__flat_add_number(b, 1, t->scale, 4);
        hr__flat_add_number(b, 2, bytes * 8, 4);
        return hr__flat_end(b);
    case HR_T_DATE32: *kind = T_DATE; return put_table(b, 0, 2, 0, 0);
    case HR_T_DATE64: *kind = T_DATE; return put_table(b, 1, 2, 0, 0);
    case HR_T_TIME32:
    case HR_T_TIME64: *kind = T_TIME; return put_table(b, t->unit, 2, bytes * 8, 4);
    case HR_T_TIMESTAMP: *kind = T_TIMESTAMP; return put_timestamp(b, t);
    case HR_T_DURATION: *kind = T_DURATION; return put_table(b, t->unit, 2, 0, 0);
    case HR_T_MONTHS:
    case HR_T_DAY_TIME:
    case HR_T_MONTH_DAY_NANO: *kind = T_INTERVAL; return put_table(b, t->id - HR_T_MONTHS, 2, 0, 0);
    case HR_T_FIXED_BINARY: *kind = T_FIXED_BINARY; return put_table(b, t->width, 4, 0, 0);
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR: *kind = T_FIXED_LIST; return put_table(b, t->width, 4, 0, 0);
    case HR_T_MAP: *kind = T_MAP; return put_table(b, t->keys_sorted, 1, 0, 0);
    case HR_T_NULL: *kind = T_NULL; break;
    case HR_T_BOOL: *kind = T_BOOL; break;
    case HR_T_STRING: *kind = T_UTF8; break;
    case HR_T_LARGE_STRING: *kind = T_LARGE_UTF8; break;
    case HR_T_BINARY: *kind = T_BINARY; break;
    case HR_T_LARGE_BINARY: *kind = T_LARGE_BINARY; break;
    case HR_T_LIST: *kind = T_LIST; break;
    case HR_T_LARGE_LIST: *kind = T_LARGE_LIST; break;
    case HR_T_STRUCT: *kind = T_STRUCT; break;
    case HR_N_TYPES: break;
    }
    return put_table(b, 0, 0, 0, 0);
}

/* A vector of KeyValue tables; 0: none. */
static int64_t put_metadata(hr_flat_builder *b, const uint8_t *metadata, int64_t n_bytes)
{
    const char *key, *value;
    int64_t n_key, n_value, at = 0, n = 0, cap = 0, made = 0, *parts = NULL;

    while (!b->failed && metadata && hr__metadata_next(metadata, n_bytes, &at, &key, &n_key, &value, &n_value)) {
        int64_t v = hr__flat_put_text(b, value, n_value), k = hr__flat_put_text(b, key, n_key);

        b->failed = b->failed || !hr__grow(b->account, (void **)&parts, &cap, n + 1, sizeof *parts);
        if (b->failed)
            break;
        hr__flat_begin(b);
        hr__flat_add_ref(b, 0, k);
        hr__flat_add_ref(b, 1, v);
        parts[n++] = hr__flat_end(b);
    }
    if (n > 0)
        made = hr__flat_put_refs(b, parts, n);
    hr__free(parts);
    return made;
}

static int64_t put_fields(hr_flat_builder *b, const hr_field *fields, int n, hr_error *err);

static int64_t put_field(hr_flat_builder *b, const hr_field *f, hr_error *err)
{
    int64_t name, type, kind = 0, children, pairs, n_metadata = 0;
    uint8_t *metadata = NULL;

    if (b->failed || hr__field_storage_metadata(f, &metadata, &n_metadata, err)) {
        b->failed = true;
        return 0;
    }
    children = put_fields(b, f->type->children, f->type->n_children, err);
    pairs = put_metadata(b, metadata, n_metadata);
    hr__free(metadata);
    type = put_type(b, f->type, &kind);
    name = hr__flat_put_text(b, f->name, (int64_t)strlen(f->name));
    hr__flat_begin(b);
    hr__flat_add_ref(b, 0, name);
    hr__flat_add_ref(b, 3, type);
    hr__flat_add_ref(b, 5, children);
    hr__flat_add_ref(b, 6, pairs);
    hr__flat_add_number(b, 1, f->nullable, 1);
    hr__flat_add_number(b, 2, kind, 1);
    return hr__flat_end(b);
}

static int64_t put_fields(hr_flat_builder *b, const hr_field *fields, int n, hr_error *err)
{
    int64_t *parts = hr__alloc(b->account, ((size_t)n + 1) * sizeof *parts), made = 0;

    if (!parts)
        b->failed = true;
    for (int i = 0; parts && i < n; i++)
        parts[i] = put_field(b, &fields[i], err);
    if (parts)
        made = hr__flat_put_refs(b, parts, n);
    hr__free(parts);
    return made;
}

int64_t ipc__schema_put(hr_flat_builder *b, const hr_schema *s, hr_error *err)
{
    int64_t fields = put_fields(b, s->fields, s->n, err);
    int64_t metadata = put_metadata(b, s->metadata, s->metadata_bytes);

    hr__flat_begin(b);
    hr__flat_add_ref(b, 1, fields);
    hr__flat_add_ref(b, 2, metadata);
    return hr__flat_end(b);
}

hr_status ipc__message_wrap(hr_view flatbuffer, const hr_mem *mem, hr_buffer **out, hr_error *err)
{
    int32_t head[2] = { -1, (int32_t)HR_ROUND_UP(flatbuffer.n, 8) };

    HR_TRY(hr__buffer_new(mem, 8 + head[1], out, err));
    memcpy((*out)->data, head, 8);
    memcpy((*out)->data + 8, flatbuffer.data, (size_t)flatbuffer.n);
    memset((*out)->data + 8 + flatbuffer.n, 0, (size_t)(head[1] - flatbuffer.n));
    return HR_OK;
}

hr_status hr__ipc_schema_message(const hr_schema *s, const hr_mem *mem, hr_buffer **out, hr_error *err)
{
    hr_flat_builder b = { .account = mem->account };
    hr_status st = HR_OK;
    int64_t schema;
    hr_view made;

    *out = NULL;
    schema = ipc__schema_put(&b, s, err);
    hr__flat_begin(&b);
    hr__flat_add_ref(&b, 2, schema);
    hr__flat_add_number(&b, 3, 0, 8);
    hr__flat_add_number(&b, 0, VERSION_5, 2);
    hr__flat_add_number(&b, 1, MESSAGE_SCHEMA, 1);
    made = hr__flat_finish(&b, hr__flat_end(&b));
    st = b.failed ? hr__error_memory(err, "Arrow schema", b.n) : ipc__message_wrap(made, mem, out, err);
    hr__flat_clear(&b);
    return st;
}
