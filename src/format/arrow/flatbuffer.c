/* flatbuffer.c - see flatbuffer.h.
 *
 * Tests: test_ipc.c, test_parquet_write.c. */
#include "format/arrow/flatbuffer.h"

/* ---------------------------------------------------------------------------------------------------------- reading */

int64_t hr__flat_slot(hr_flat *f, int64_t table, int i)
{
    int64_t vtable = table - (int32_t)hr__flat_load(f, table, 4);
    int64_t n = (int64_t)hr__flat_load(f, vtable, 2), at;

    if (4 + 2 * i + 2 > n)
        return 0;
    at = (int64_t)hr__flat_load(f, vtable + 4 + 2 * i, 2);
    return at ? table + at : 0;
}

int64_t hr__flat_table(hr_flat *f, int64_t table, int i)
{
    int64_t at = hr__flat_slot(f, table, i);

    return at ? at + (int64_t)hr__flat_load(f, at, 4) : 0;
}

int64_t hr__flat_number(hr_flat *f, int64_t table, int i, int n_bytes, int64_t missing)
{
    int64_t at = hr__flat_slot(f, table, i);
    uint64_t v = at ? hr__flat_load(f, at, n_bytes) : 0;

    if (!at)
        return missing;
    return n_bytes == 1 ? (int64_t)v : n_bytes == 2 ? (int16_t)v : n_bytes == 4 ? (int32_t)v : (int64_t)v;
}

hr_view hr__flat_text(hr_flat *f, int64_t table, int i)
{
    int64_t at = hr__flat_table(f, table, i), n = at ? (int64_t)hr__flat_load(f, at, 4) : 0;

    if (n > f->n - at - 4)
        f->bad = true;
    if (!at || f->bad)
        return (hr_view){ (const uint8_t *)"", 0 };
    return (hr_view){ f->data + at + 4, n };
}

int64_t hr__flat_vector(hr_flat *f, int64_t table, int i, int item_bytes, int64_t *first)
{
    int64_t at = hr__flat_table(f, table, i), n = at ? (int64_t)hr__flat_load(f, at, 4) : 0;

    *first = at + 4;
    if (n > (f->n - at - 4) / item_bytes)
        f->bad = true;
    return f->bad ? 0 : n;
}

int64_t hr__flat_element(hr_flat *f, int64_t first, int64_t i)
{
    return first + 4 * i + (int64_t)hr__flat_load(f, first + 4 * i, 4);
}

/* -------------------------------------------------------------------------------------------------------- verifying */

#define MAX_NESTING 128
#define MAX_TABLE_BYTES 512 /* of tables that can be verified; Arrow's have up to 40 */

typedef struct verifier {
    hr_flat *f;
    int64_t steps_left; /* bounds the walk over tables that share parts */
    hr_error *err;
} verifier;

static hr_status wrong(verifier *v, const hr_flat_table *type, int field, const char *what)
{
    return hr_error_set(v->err, HR_BAD_DATA, "%s, field %d: %s", type->name, field, what);
}

/* n bytes at `at`, which is a multiple of `align`. */
static bool lies(const hr_flat *f, int64_t at, int64_t n, int64_t align)
{
    return at >= 0 && n >= 0 && n <= f->n && at <= f->n - n && at % align == 0;
}

/* A vector or text at `at`, of items of `bytes` bytes. */
static bool vector_lies(hr_flat *f, int64_t at, int64_t bytes, int64_t *n)
{
    if (!lies(f, at, 4, 4))
        return false;
    *n = (int64_t)hr__flat_load(f, at, 4);
    return *n <= (f->n - at - 4) / bytes;
}

static hr_status verify_table(verifier *v, const hr_flat_table *type, int64_t table, int depth);

/* Verifies the target of the reference at `at`. */
static hr_status verify_part(verifier *v, const hr_flat_table *type, int i, int64_t table, int64_t at, int depth)
{
    const hr_flat_field *field = &type->fields[i];
    int64_t part, n, kind;

    if (field->kind == HR_FLAT_NUMBER)
        return HR_OK;
    part = at + (int64_t)hr__flat_load(v->f, at, 4);
    if (part == at)
        return wrong(v, type, i, "refers to itself");
    switch (field->kind) {
    case HR_FLAT_TEXT:
        if (!vector_lies(v->f, part, 1, &n) || !lies(v->f, part + 4 + n, 1, 1) || v->f->data[part + 4 + n] != 0)
            return wrong(v, type, i, "a text without its final zero byte");
        return HR_OK;
    case HR_FLAT_VECTOR:
        return vector_lies(v->f, part, field->bytes, &n) ? HR_OK : wrong(v, type, i, "a vector beyond the end");
    case HR_FLAT_TABLE: return verify_table(v, field->of, part, depth + 1);
    case HR_FLAT_TABLES:
        if (!vector_lies(v->f, part, 4, &n))
            return wrong(v, type, i, "a vector beyond the end");
        for (int64_t k = 0; k < n; k++) {
            int64_t item = part + 4 + 4 * k;

            HR_TRY(verify_table(v, field->of, item + (int64_t)hr__flat_load(v->f, item, 4), depth + 1));
        }
        return HR_OK;
    case HR_FLAT_UNION:
        kind = hr__flat_number(v->f, table, i - 1, 1, 0);
        if (kind >= type->n_union || !type->members[kind])
            return HR_OK;
        return verify_table(v, type->members[kind], part, depth + 1);
    default: return HR_OK;
    }
}

static hr_status verify_table(verifier *v, const hr_flat_table *type, int64_t table, int depth)
{
    uint8_t taken[MAX_TABLE_BYTES / 8] = { 15 }; /* the distance to the vtable */
    int64_t vtable, vtable_bytes, table_bytes;

    if (--v->steps_left < 0 || depth > MAX_NESTING)
        return hr_error_set(v->err, HR_BAD_DATA, "%s: nested or shared too often", type->name);
    vtable = lies(v->f, table, 4, 4) ? table - (int32_t)hr__flat_load(v->f, table, 4) : -1;
    vtable_bytes = lies(v->f, vtable, 4, 2) ? (int64_t)hr__flat_load(v->f, vtable, 2) : 0;
    table_bytes = vtable_bytes >= 4 ? (int64_t)hr__flat_load(v->f, vtable + 2, 2) : 0;
    if (vtable_bytes % 2 || table_bytes < 4 || !lies(v->f, vtable, vtable_bytes, 2) ||
        !lies(v->f, table, table_bytes, 4))
        return hr_error_set(v->err, HR_BAD_DATA, "%s: no table at byte %lld", type->name, (long long)table);
    for (int i = 0; i < type->n; i++) {
        int64_t bytes = type->fields[i].kind == HR_FLAT_NUMBER ? type->fields[i].bytes : 4;
        int64_t at = hr__flat_slot(v->f, table, i);

        if (!at)
            continue;
        if (at - table + bytes > HR_MIN(table_bytes, MAX_TABLE_BYTES) || at % bytes)
            return wrong(v, type, i, "beyond its table");
        for (int64_t k = at - table; k < at - table + bytes; k++) {
            if (taken[k / 8] >> k % 8 & 1)
                return wrong(v, type, i, "in the place of another field");
            taken[k / 8] |= (uint8_t)(1 << k % 8);
        }
        HR_TRY(verify_part(v, type, i, table, at, depth));
    }
    return HR_OK;
}

hr_status hr__flat_verify(hr_flat *f, const hr_flat_table *type, int64_t *root, hr_error *err)
{
    verifier v = { .f = f, .steps_left = f->n, .err = err };

    if (!lies(f, 0, 4, 4))
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld bytes", type->name, (long long)f->n);
    *root = (int64_t)hr__flat_load(f, 0, 4);
    return verify_table(&v, type, *root, 0);
}

/* --------------------------------------------------------------------------------------------------------- building */

void hr__flat_clear(hr_flat_builder *b)
{
    hr__free(b->data);
    *b = (hr_flat_builder){ .account = b->account };
}

/* n more bytes in front; NULL: no memory. */
static uint8_t *push(hr_flat_builder *b, int64_t n)
{
    if (!b->failed && b->cap - b->n < n) {
        int64_t cap = HR_MAX(b->cap * 2, HR_ROUND_UP(b->n + n, 256));
        uint8_t *wider = hr__alloc(b->account, (size_t)cap);

        if (wider && b->n)
            memcpy(wider + cap - b->n, b->data + b->cap - b->n, (size_t)b->n);
        b->failed = !wider;
        if (wider) {
            hr__free(b->data);
            b->data = wider;
            b->cap = cap;
        }
    }
    if (b->failed || !b->data)
        return NULL;
    b->n += n;
    return b->data + b->cap - b->n;
}

/* Zeros, so that after n more bytes the front is a multiple of `to` from the end. */
static void align(hr_flat_builder *b, int64_t n, int64_t to)
{
    int64_t pad = (to - (b->n + n) % to) % to;
    uint8_t *p = push(b, pad);

    if (p)
        memset(p, 0, (size_t)pad);
}

static void put_number(hr_flat_builder *b, int64_t v, int n_bytes)
{
    uint8_t *p;

    align(b, n_bytes, n_bytes);
    p = push(b, n_bytes);
    for (int i = 0; p && i < n_bytes; i++)
        p[i] = (uint8_t)((uint64_t)v >> (8 * i));
}

static void put_ref(hr_flat_builder *b, int64_t part)
{
    align(b, 4, 4);
    put_number(b, b->n + 4 - part, 4);
}

int64_t hr__flat_put_text(hr_flat_builder *b, const void *data, int64_t n)
{
    uint8_t *p;

    align(b, n + 1 + 4, 4);
    p = push(b, n + 1);
    if (p) {
        if (n)
            memcpy(p, data, (size_t)n);
        p[n] = 0;
    }
    put_number(b, n, 4);
    return b->n;
}

int64_t hr__flat_put_refs(hr_flat_builder *b, const int64_t *parts, int64_t n)
{
    align(b, n * 4 + 4, 4);
    for (int64_t i = n; i-- > 0;)
        put_ref(b, parts[i]);
    put_number(b, n, 4);
    return b->n;
}

int64_t hr__flat_put_items(hr_flat_builder *b, const void *items, int64_t n, int item_bytes, bool is_wide)
{
    uint8_t *p;

    align(b, n * item_bytes, is_wide ? 8 : 4);
    p = push(b, n * item_bytes);
    if (p && n)
        memcpy(p, items, (size_t)(n * item_bytes));
    put_number(b, n, 4);
    return b->n;
}

void hr__flat_begin(hr_flat_builder *b)
{
    memset(b->slots, 0, sizeof b->slots);
    b->table_from = b->n;
}

void hr__flat_add_number(hr_flat_builder *b, int i, int64_t v, int n_bytes)
{
    put_number(b, v, n_bytes);
    b->slots[i] = b->n;
}

void hr__flat_add_ref(hr_flat_builder *b, int i, int64_t part)
{
    if (!part)
        return;
    put_ref(b, part);
    b->slots[i] = b->n;
}

int64_t hr__flat_end(hr_flat_builder *b)
{
    int64_t table;
    int n = HR_FLAT_FIELDS;

    put_number(b, 0, 4); /* the distance to the vtable, known below */
    table = b->n;
    while (n > 0 && !b->slots[n - 1])
        n--;
    align(b, 4 + 2 * n, 2);
    for (int i = n; i-- > 0;)
        put_number(b, b->slots[i] ? table - b->slots[i] : 0, 2);
    put_number(b, table - b->table_from, 2);
    put_number(b, 4 + 2 * n, 2);
    if (!b->failed) {
        int32_t back = (int32_t)(b->n - table);
        memcpy(b->data + b->cap - table, &back, 4); /* little endian, like all supported machines */
    }
    return table;
}

hr_view hr__flat_finish(hr_flat_builder *b, int64_t root)
{
    align(b, 4, 8);
    put_ref(b, root);
    return b->failed ? (hr_view){ 0 } : (hr_view){ b->data + b->cap - b->n, b->n };
}
