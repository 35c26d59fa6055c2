/* webdataset_write.c - rows as samples in tar archives: a member KEY.COLUMN for each value of a row.
 *
 * The key is the column `__key__`; without one it is the row's coordinate (file-fragment-row), so that it does not
 * depend on how tables are cut. The writer writes text and bytes unchanged, and integers, booleans and floats as text;
 * it skips nulls, and other columns that begin with "__", which say where a sample was read. Headers are ustar's, with
 * GNU's extension for long names, and do not depend on the day or the user.
 *
 * Tests: test_writers.c. */
#include "base/number.h"
#include "format/tar/tar.h"

#include <stdio.h>

#define BLOCK 512

typedef struct wds_writer {
    hr_writer base;
    hr_account *account;
    hr_schema *schema;
    int key; /* column; -1: none */
} wds_writer;

typedef struct members {
    const wds_writer *w;
    hr_growbuf g;
    hr_error *err;
} members;

/* ---------------------------------------------------------------------------------------------------------- headers */

/* n octal digits; a larger number as GNU's binary number. */
static void put_size(char *field, int n, int64_t v)
{
    if (v < INT64_C(1) << (3 * n)) {
        for (int i = n; i-- > 0; v >>= 3)
            field[i] = (char)('0' + (v & 7));
        return;
    }
    for (int i = n; i >= 0; i--, v >>= 8)
        field[i] = (char)(v & 255);
    field[0] = (char)0x80;
}

static void put_header(char *h, const char *name, int64_t n_name, int64_t n_bytes, char kind)
{
    unsigned sum = 0;

    memset(h, 0, BLOCK);
    memcpy(h, name, (size_t)HR_MIN(n_name, 100));
    memcpy(h + 100, "0000644", 7);
    memcpy(h + 108, "0000000", 7);
    memcpy(h + 116, "0000000", 7);
    put_size(h + 124, 11, n_bytes);
    memcpy(h + 136, "00000000000", 11);
    memset(h + 148, ' ', 8);
    h[156] = kind;
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += (uint8_t)h[i];
    snprintf(h + 148, 8, "%06o", sum);
    h[155] = ' ';
}

static hr_status add_padded(members *m, const void *data, int64_t n)
{
    static const char zeros[BLOCK];

    if (n)
        HR_TRY(hr__growbuf_add(&m->g, data, n, m->err));
    return hr__growbuf_add(&m->g, zeros, HR_ROUND_UP(n, BLOCK) - n, m->err);
}

static hr_status add_member(members *m, const char *name, int64_t n_name, const void *data, int64_t n)
{
    char header[BLOCK];

    if (n_name > 100) { /* GNU: a header before it holds the whole name */
        put_header(header, "././@LongLink", 13, n_name + 1, 'L');
        HR_TRY(add_padded(m, header, BLOCK));
        HR_TRY(add_padded(m, name, n_name + 1));
    }
    put_header(header, name, n_name, n, '0');
    HR_TRY(add_padded(m, header, BLOCK));
    return add_padded(m, data, n);
}

/* ----------------------------------------------------------------------------------------------------------- values */

static bool can_write(const hr_type *t)
{
    return hr__type_is_bytes(t) || t->id == HR_T_FIXED_BINARY || t->id == HR_T_NULL || t->id == HR_T_BOOL ||
           (t->id >= HR_T_INT8 && t->id <= HR_T_FLOAT64);
}

static bool is_sample(const char *column) { return strncmp(column, "__", 2) != 0; }

static hr_status add_key(const members *m, const hr_table *t, int64_t row, hr_text *out)
{
    if (m->w->key >= 0) {
        const hr_array *keys = t->columns[m->w->key];
        const uint8_t *p;
        int64_t n;

        if (hr__array_is_null(keys, row))
            return hr_error_set(m->err, HR_INVALID, "webdataset: a row without a __key__");
        p = hr__array_bytes(keys, row, &n);
        if (n == 0 || memchr(p, 0, (size_t)n))
            return hr_error_set(m->err, HR_INVALID, "webdataset: a __key__ that cannot be a file name");
        hr__text_add_bytes(out, p, n);
    } else {
        hr_coord at = t->origin ? hr__origin_at(t->origin, row) : (hr_coord){ .row = row };

        hr__text_add(out, "%03d-%06d-%06d-%09lld", at.instance, at.file, at.fragment, (long long)at.row);
        if (at.ordinal)
            hr__text_add(out, "-%lld", (long long)at.ordinal);
    }
    return HR_OK;
}

static hr_status add_value(members *m, const char *name, int64_t n_name, const hr_array *a, int64_t row)
{
    hr_text text = { 0 };
    hr_status st;
    int64_t n;

    if (hr__type_is_bytes(a->type) || a->type->id == HR_T_FIXED_BINARY) {
        const uint8_t *p = hr__array_bytes(a, row, &n);

        return add_member(m, name, n_name, p, n);
    }
    hr__array_print_value(a, row, &text);
    st = text.failed || !text.data ? hr__error_memory(m->err, "webdataset", HR_NUMBER_CHARS)
                                   : add_member(m, name, n_name, text.data, text.n);
    hr__text_clear(&text);
    return st;
}

/* `name` is used again for each row. */
static hr_status add_sample(members *m, const hr_table *t, int64_t row, hr_text *name)
{
    int64_t n_key;

    name->n = 0;
    HR_TRY(add_key(m, t, row, name));
    n_key = name->n;
    for (int i = 0; i < t->schema->n; i++) {
        const char *column = m->w->schema->fields[i].name;

        if (!is_sample(column) || hr__array_is_null(t->columns[i], row))
            continue;
        name->n = n_key;
        hr__text_add(name, ".%s", column);
        if (name->failed)
            return hr__error_memory(m->err, "webdataset", name->n);
        HR_TRY(add_value(m, name->data, name->n, t->columns[i], row));
    }
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- writer */

static hr_status wds_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                            hr_error *err)
{
    members m = { .w = (const wds_writer *)base, .g.mem = mem, .err = err };
    hr_text name = { .account = mem->account };
    hr_status st = HR_OK;

    for (int64_t row = 0; row < t->n_rows; row++)
        HR_GO(add_sample(&m, t, row, &name));
    HR_GO(hr__growbuf_finish(&m.g, &out->bytes, err));
    out->n_rows = t->n_rows;
done:
    hr__text_clear(&name);
    hr__growbuf_clear(&m.g);
    return st;
}

/* Two blocks of zeros end an archive. */
static hr_status wds_finish(const hr_writer *w, void *file, hr_sink *sink, hr_error *err)
{
    static const char zeros[2 * BLOCK];

    (void)w;
    (void)file;
    return hr__sink_write(sink, zeros, sizeof zeros, err);
}

static void wds_free(hr_writer *base)
{
    wds_writer *w = (wds_writer *)base;

    hr__schema_unref(w->schema);
    hr__account_unref(w->account);
    hr__free(w);
}

static const hr_writer_class wds_writer_class = { .encode = wds_encode, .finish = wds_finish, .free = wds_free };

hr_status wds__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    wds_writer *w;

    (void)options;
    *out = NULL;
    for (int i = 0; i < schema->n; i++) {
        const hr_field *f = &schema->fields[i];
        bool is_key = strcmp(f->name, "__key__") == 0;
        hr_text type = { 0 };

        HR_TRY(hr__refuse_pickles("webdataset", f, err));
        if (is_key ? f->type->id == HR_T_STRING || f->type->id == HR_T_LARGE_STRING
                   : can_write(f->type) || !is_sample(f->name))
            continue;
        hr__type_print(f->type, &type);
        hr_error_set(err, HR_TYPE, "webdataset: column '%s' is %s, expected text, bytes or a number", f->name,
                     type.data ? type.data : "?");
        hr__text_clear(&type);
        return HR_TYPE;
    }
    if (!(w = hr__zalloc(account, sizeof *w)))
        return hr__error_memory(err, "webdataset", sizeof *w);
    w->base = (hr_writer){ .cls = &wds_writer_class, .suffix = ".tar", .chunk_bytes = 64 << 20 };
    w->account = account ? hr__account_ref(account) : NULL;
    w->schema = hr__schema_ref(schema);
    w->key = hr__schema_find(schema, "__key__");
    *out = &w->base;
    return HR_OK;
}
