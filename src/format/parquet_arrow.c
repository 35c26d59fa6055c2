/* parquet_arrow.c - the Arrow schema that Arrow's writers embed in a footer: base64 of an IPC message, a flatbuffer.
 *
 * A small reader of just that message, since the whole of flatbuffers would be more code than all of Parquet's metadata.
 * What is not understood is left out (the field's type becomes null, which restores nothing); a damaged message gives no
 * schema at all: the Parquet types suffice to read every value.
 *
 * Flatbuffers share parts: a small message can describe a huge tree. So a budget, counted in fields, ends the reading;
 * a message without sharing spends at least MIN_FIELD_BYTES on each. */
#include "format/parquet.h"

#define MIN_FIELD_BYTES 16

typedef struct flat {
    const uint8_t *data;
    int64_t n;
    int64_t fields_left;
    bool bad;
    hr_account *account;
    hr_error *err;
} flat;

/* ------------------------------------------------------------------------------------------------------ flatbuffers */

static uint64_t load(flat *f, int64_t at, int n_bytes)
{
    uint64_t v = 0;

    if (at < 0 || at > f->n - n_bytes) {
        f->bad = true;
        return 0;
    }
    for (int i = 0; i < n_bytes; i++)
        v |= (uint64_t)f->data[at + i] << (8 * i);
    return v;
}

/* Where field `i` of a table stands; 0: it has its default. */
static int64_t slot(flat *f, int64_t table, int i)
{
    int64_t vtable = table - (int32_t)load(f, table, 4);
    int64_t n = (int64_t)load(f, vtable, 2), at;

    if (4 + 2 * i + 2 > n)
        return 0;
    at = (int64_t)load(f, vtable + 4 + 2 * i, 2);
    return at ? table + at : 0;
}

/* What an offset field points at; 0: not there. */
static int64_t target(flat *f, int64_t table, int i)
{
    int64_t at = slot(f, table, i);

    return at ? at + (int64_t)load(f, at, 4) : 0;
}

static int64_t number(flat *f, int64_t table, int i, int n_bytes, int64_t missing)
{
    int64_t at = slot(f, table, i);
    uint64_t v = at ? load(f, at, n_bytes) : 0;

    if (!at)
        return missing;
    return n_bytes == 1 ? (int64_t)v : n_bytes == 2 ? (int16_t)v : n_bytes == 4 ? (int32_t)v : (int64_t)v;
}

static hr_view text(flat *f, int64_t table, int i)
{
    int64_t at = target(f, table, i), n = at ? (int64_t)load(f, at, 4) : 0;

    if (n > f->n - at - 4)
        f->bad = true;
    if (!at || f->bad)
        return (hr_view){ (const uint8_t *)"", 0 };
    return (hr_view){ f->data + at + 4, n };
}

/* A vector of offsets: its length, and where its elements stand. */
static int64_t vector(flat *f, int64_t table, int i, int64_t *first)
{
    int64_t at = target(f, table, i), n = at ? (int64_t)load(f, at, 4) : 0;

    *first = at + 4;
    if (n > (f->n - at - 4) / 4)
        f->bad = true;
    return f->bad ? 0 : n;
}

static int64_t element(flat *f, int64_t first, int64_t i) { return first + 4 * i + (int64_t)load(f, first + 4 * i, 4); }

/* ------------------------------------------------------------------------------------------------------------ types */

static char *copy_text(flat *f, hr_view v) { return hr__strndup(f->account, (const char *)v.data, (size_t)v.n); }

static hr_status no_memory(flat *f, int64_t n) { return hr__error_memory(f->err, "Arrow schema", n); }

static hr_type_id int_type(int64_t bits, bool is_signed)
{
    switch (bits) {
    case 8: return is_signed ? HR_T_INT8 : HR_T_UINT8;
    case 16: return is_signed ? HR_T_INT16 : HR_T_UINT16;
    case 32: return is_signed ? HR_T_INT32 : HR_T_UINT32;
    case 64: return is_signed ? HR_T_INT64 : HR_T_UINT64;
    default: return HR_T_NULL;
    }
}

static hr_status timestamp_type(flat *f, int64_t t, hr_type **out)
{
    int64_t unit = number(f, t, 0, 2, 0);
    hr_view zone = text(f, t, 1);
    char *name = zone.n ? copy_text(f, zone) : NULL;
    hr_status st;

    if (zone.n && !name)
        return no_memory(f, zone.n);
    st = hr__type_unit(HR_T_TIMESTAMP, unit >= HR_SECOND && unit <= HR_NANO ? (hr_unit)unit : HR_MICRO, name, out,
                       f->err);
    hr__free(name);
    return st;
}

static hr_status unit_type(flat *f, hr_type_id id, int64_t unit, hr_type **out)
{
    if (unit < HR_SECOND || unit > HR_NANO)
        unit = HR_MILLI;
    return hr__type_unit(id, (hr_unit)unit, NULL, out, f->err);
}

/* The type of `kind` (the flatbuffer's union) at table t. Children stand in `fields`. NULL: not known here. */
static hr_status make_type(flat *f, int64_t kind, int64_t t, hr_field *fields, int n, hr_type **out)
{
    static const uint8_t simple[] = { [1] = HR_T_NULL,    [4] = HR_T_BINARY,        [5] = HR_T_STRING,
                                      [6] = HR_T_BOOL,    [19] = HR_T_LARGE_BINARY, [20] = HR_T_LARGE_STRING,
                                      [23] = HR_T_BINARY, [24] = HR_T_STRING };
    static const uint8_t floats[] = { HR_T_FLOAT16, HR_T_FLOAT32, HR_T_FLOAT64 };
    int64_t v;

    switch (kind) {
    case 2: *out = hr__type_simple(int_type(number(f, t, 0, 4, 0), number(f, t, 1, 1, 0) != 0)); return HR_OK;
    case 3:
        v = number(f, t, 0, 2, 0);
        *out = v >= 0 && v < 3 ? hr__type_simple((hr_type_id)floats[v]) : NULL;
        return HR_OK;
    case 7: {
        int64_t precision = number(f, t, 0, 4, 0), scale = number(f, t, 1, 4, 0), bits = number(f, t, 2, 4, 128);

        if (precision < 1 || precision > (bits == 256 ? 76 : 38) || scale < -precision || scale > precision)
            return HR_OK;
        return hr__type_decimal(bits == 256 ? HR_T_DECIMAL256 : HR_T_DECIMAL128, (int32_t)precision, (int32_t)scale,
                                out, f->err);
    }
    case 8: *out = hr__type_simple(number(f, t, 0, 2, 1) == 0 ? HR_T_DATE32 : HR_T_DATE64); return HR_OK;
    case 9: v = number(f, t, 0, 2, HR_MILLI); return unit_type(f, v <= HR_MILLI ? HR_T_TIME32 : HR_T_TIME64, v, out);
    case 10: return timestamp_type(f, t, out);
    case 12:
    case 21:
        if (n != 1)
            return HR_OK;
        return hr__type_list(kind == 12 ? HR_T_LIST : HR_T_LARGE_LIST, &fields[0], 0, out, f->err);
    case 13: return hr__type_struct(fields, n, out, f->err);
    case 15: v = number(f, t, 0, 4, 0); return v > 0 ? hr__type_fixed_binary((int32_t)v, out, f->err) : HR_OK;
    case 16:
        v = number(f, t, 0, 4, 0);
        return n == 1 && v >= 0 ? hr__type_list(HR_T_FIXED_LIST, &fields[0], (int32_t)v, out, f->err) : HR_OK;
    case 17:
        if (n != 1 || fields[0].type->id != HR_T_STRUCT || fields[0].type->n_children != 2)
            return HR_OK;
        return hr__type_list(HR_T_MAP, &fields[0], 0, out, f->err);
    case 18: return unit_type(f, HR_T_DURATION, number(f, t, 0, 2, HR_MILLI), out);
    default:
        *out = kind > 0 && kind < HR_LEN(simple) && (simple[kind] || kind == 1)
                   ? hr__type_simple((hr_type_id)simple[kind])
                   : NULL;
        return HR_OK;
    }
}

/* ----------------------------------------------------------------------------------------------------------- fields */

static hr_status read_metadata(flat *f, int64_t table, int i, hr_field *out)
{
    hr_status st = HR_OK;
    int64_t first, n = vector(f, table, i, &first);
    char *key = NULL;

    for (int64_t k = 0; k < HR_MIN(n, 256) && !f->bad; k++) {
        int64_t pair = element(f, first, k);
        hr_view v = text(f, pair, 1);

        hr__free(key);
        key = copy_text(f, text(f, pair, 0));
        if (!key)
            HR_GO(no_memory(f, 1));
        if (!f->bad)
            HR_GO(hr__metadata_set(&out->metadata, &out->metadata_bytes, key, v.data, v.n, f->err));
    }
done:
    hr__free(key);
    return st;
}

static void clear_fields(hr_field *fields, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        hr__field_clear(&fields[i]);
    hr__free(fields);
}

/* A type that cannot be (a time of seconds in 64 bits) is as good as one that is not known. */
static hr_status try_type(flat *f, int64_t kind, int64_t t, hr_field *fields, int n, hr_type **out)
{
    hr_error ignored = HR_ERROR_INIT, *err = f->err;
    hr_status st;

    *out = NULL;
    f->err = &ignored;
    st = make_type(f, kind, t, fields, n, out);
    f->err = err;
    if (st == HR_NO_MEMORY) {
        hr__error_move(err, &ignored);
        return st;
    }
    hr_error_clear(&ignored);
    return HR_OK;
}

static hr_status read_fields(flat *f, int64_t table, int i, int depth, hr_field **out, int64_t *n_out);

static hr_status read_field(flat *f, int64_t table, int depth, hr_field *out)
{
    hr_status st = HR_OK;
    hr_field *children = NULL;
    int64_t n_children = 0;
    hr_type *type = NULL;
    char *name = NULL;

    f->bad = f->bad || depth > HR_MAX_DEPTH - 2 || --f->fields_left < 0;
    if (f->bad)
        return HR_OK;
    HR_GO(read_fields(f, table, 5, depth + 1, &children, &n_children));
    if (f->bad)
        goto done;
    HR_GO(try_type(f, number(f, table, 2, 1, 0), target(f, table, 3), children, (int)n_children, &type));
    name = copy_text(f, text(f, table, 0));
    if (!name)
        HR_GO(no_memory(f, 1));
    HR_GO(hr__field_init(out, name, type ? type : hr__type_simple(HR_T_NULL), number(f, table, 1, 1, 0) != 0, f->err));
    HR_GO(read_metadata(f, table, 6, out));
done:
    hr__type_unref(type);
    hr__free(name);
    clear_fields(children, n_children);
    return st;
}

/* The fields in vector i of a table. On success without `bad` all are filled. */
static hr_status read_fields(flat *f, int64_t table, int i, int depth, hr_field **out, int64_t *n_out)
{
    int64_t first, n = vector(f, table, i, &first), k = 0;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    *n_out = 0;
    if (n == 0 || f->bad)
        return HR_OK;
    if (n > f->fields_left) {
        f->bad = true;
        return HR_OK;
    }
    fields = hr__zalloc(f->account, (size_t)n * sizeof *fields);
    if (!fields)
        return no_memory(f, n * (int64_t)sizeof *fields);
    for (; k < n && !f->bad; k++)
        HR_GO(read_field(f, element(f, first, k), depth, &fields[k]));
    if (!f->bad) {
        *out = fields;
        *n_out = n;
        fields = NULL; /* moved to the caller */
    }
done:
    if (fields)
        clear_fields(fields, n);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- message */

/* In place of nothing: *out is new, *n its bytes; false if it is no base64. */
static int64_t decode_base64(hr_view in, uint8_t *out)
{
    int64_t n = 0;
    uint32_t v = 0;
    int bits = 0;

    for (int64_t i = 0; i < in.n && in.data[i] != '='; i++) {
        uint8_t c = in.data[i];
        int d = c >= 'A' && c <= 'Z'   ? c - 'A'
                : c >= 'a' && c <= 'z' ? c - 'a' + 26
                : c >= '0' && c <= '9' ? c - '0' + 52
                : c == '+'             ? 62
                : c == '/'             ? 63
                                       : -1;

        if (d < 0)
            return -1;
        v = v << 6 | (uint32_t)d;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n++] = (uint8_t)(v >> bits);
        }
    }
    return n;
}

/* The table of the schema in a message that begins at the flatbuffer; 0: it is none. */
static int64_t find_schema(flat *f)
{
    int64_t at = 0, table;

    if (load(f, 0, 4) == 0xffffffff)
        at = 4; /* "continuation", before the length since Arrow 0.15 */
    f->data += at + 4;
    f->n -= at + 4;
    if (f->bad || f->n < 8)
        return 0;
    table = (int64_t)load(f, 0, 4);
    return number(f, table, 1, 1, 0) == 1 ? target(f, table, 2) : 0;
}

hr_status pq__arrow_schema_parse(hr_view base64, hr_account *account, hr_schema **out, hr_error *err)
{
    flat f = { .account = account, .err = err };
    uint8_t *bytes = hr__alloc(account, (size_t)(base64.n / 4 * 3 + 4));
    hr_field *fields = NULL;
    int64_t n_fields = 0, table;
    hr_status st = HR_OK;

    *out = NULL;
    if (!bytes)
        return no_memory(&f, base64.n);
    f.data = bytes;
    f.n = decode_base64(base64, bytes);
    if (f.n < 16)
        goto done;
    f.fields_left = f.n / MIN_FIELD_BYTES;
    table = find_schema(&f);
    if (!table)
        goto done;
    HR_GO(read_fields(&f, table, 1, 0, &fields, &n_fields));
    if (!f.bad)
        HR_GO(hr__schema_new(fields, (int)n_fields, out, err));
done:
    clear_fields(fields, n_fields);
    hr__free(bytes);
    return st;
}
