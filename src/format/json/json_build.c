/* json_build.c - rows of JSON straight into columns.
 *
 * A column mirrors its type: it has a child for each child of the type. The parser walks along a row's tokens
 * (json_index.c), so it knows where a string ends before it reads the string, and skips values without a column by
 * their brackets. In most files the keys have the order of the row before: each key stores the key that came after it
 * (`follows`), and member() compares that one first; then it looks the name up in a hash table.
 *
 * One row, the second of its table. The columns are id: int64, tags: list<string>, s: string; the file also has x,
 * which is not projected. The first row was {"id": 5, "tags": [], "s": "hey"}.
 *
 *     {"id": 7, "tags": ["a", "bc"], "x": {"y": 1}}
 *     01  4567  8                                      ...: tokens are places of brackets, commas, colons, both quotes
 *                                                      of a string, and first bytes of numbers and words; 27 in all
 *
 *     before                   root.n 1, id.n 1 [5]; tags.n 1, offsets [0 0], item.n 0; s.n 1, offsets [0 3] "hey"
 *     token 0   {     object   room for a row in root; root.objects 2
 *           1   "id"  member   root.first_key is id: no look-up. id.seen 2: a second "id" would be an error
 *           4   7     integer  put_bits: id.n 2 [5 7]
 *           5   ,     member_end
 *           6   "tags" member  id.follows is tags: no look-up
 *           9   [     list     items: string for "a" (10, 11), string for "bc" (13, 14): item.n 2, [0 1 3] "abc"
 *          15   ]              tags.n 2, offsets [0 0 2]
 *          16   ,     member_end
 *          17   "x"   member   tags.follows is s, as in the first row: find_key finds x; tags.follows = x
 *          20   {     skip_value to token 26: x.column is NULL
 *          26   }     member_end: the object ends
 *                     missing_keys: two of three columns were seen; s.n is not above root.n, so add_null: the first
 *                              null makes s.validity, all ones, and clears its bit 1; s.n 2, offsets [0 3 3]
 *                     object   root.n 2
 *     after                    hr__json_rows_parsed: the row ended before token 27
 *
 * If x is malformed, for example {"y": 1], id and tags have two rows and s has one. truncate_to(root, 1) resets all
 * columns to one row, since every column knows where its row n begins. The first null makes a validity bitmap, all ones
 * up to the capacity, so that only nulls write to it; truncate_to sets the bits of the rows that it removes to one.
 *
 * Tests: test_json.c. */
#include "base/number.h"
#include "format/json/json_value.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define LEAST_ROWS 64
#define MAX_SKIP_DEPTH 1024

typedef enum kind {
    K_NULL,
    K_BOOL,
    K_INT64,
    K_DOUBLE,
    K_STRING,
    K_INT,   /* other signed ones */
    K_UINT,  /* all unsigned ones */
    K_FLOAT, /* other floats */
    K_BINARY,
    K_FIXED_BINARY,
    K_DATE,
    K_TIME,
    K_TIMESTAMP,
    K_DURATION,
    K_DECIMAL,
    K_LIST,
    K_FIXED_LIST,
    K_STRUCT,
    K_MAP
} kind;

typedef struct column column;

typedef struct key {
    uint64_t head; /* the name's first bytes, padded with zeros */
    int32_t length;
    int32_t follows; /* the key that came after this one the last time */
    const char *name;
    column *column; /* NULL: not projected */
    int64_t seen;   /* the number of the last object that had it */
} key;

struct column {
    kind kind;
    uint8_t width;        /* bytes of a value; of an offset: 4 or 8; 0: bits */
    bool has_values;      /* values, bits or offsets */
    const hr_type *type;  /* borrowed from the schema */
    const char *name;     /* borrowed; NULL: an item */
    const column *parent; /* NULL: top level */
    int64_t n, cap;
    hr_buffer *values, *validity, *bytes;
    int64_t n_bytes;
    int n_children;
    column *children;
    int n_keys, first_key; /* STRUCT */
    key *keys;
    int32_t *table; /* table_size places, -1: empty */
    int64_t table_size;
    int64_t objects; /* seen so far */
};

struct hr_json_columns {
    hr_mem mem;
    hr_schema *all, *given;
    hr_json_options options;
    column root; /* its children are `given` */
    int64_t row_bytes;
    hr_buffer *scratch; /* of keys with escapes */
    /* the row being added */
    const uint8_t *data;
    const uint32_t *at;
    bool has_backslash;
    int64_t token;
    int64_t bad_at; /* >= 0: the place of the error in the row */
    hr_status bad_status;
    const column *bad_column;
    char bad[320];
};
typedef struct hr_json_columns parser;

static const uint64_t head_masks[9] = {
    0, 0xFF, 0xFFFF, 0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFF, 0xFFFFFFFFFFFF, 0xFFFFFFFFFFFFFF, 0xFFFFFFFFFFFFFFFF
};

/* ----------------------------------------------------------------------------------------------------------- errors */

/* The row has an error at byte `at` of the block. bad() writes the text; hr__json_columns_error adds the place. */
static hr_status HR_PRINTF(5, 6) bad(parser *p, int64_t at, const column *c, hr_status st, const char *fmt, ...)
{
    va_list args;

    p->bad_at = at;
    p->bad_column = c;
    p->bad_status = st;
    va_start(args, fmt);
    vsnprintf(p->bad, sizeof p->bad, fmt, args);
    va_end(args);
    return st;
}

static void add_path(const column *c, hr_text *out)
{
    if (c->parent && (c->parent->parent || c->parent->name))
        add_path(c->parent, out);
    if (!c->name)
        hr__text_add(out, "[]");
    else
        hr__text_add(out, "%s%s", out->n ? "." : "", c->name);
}

hr_status hr__json_columns_error(const hr_json_columns *c, const hr_json_rows *r, hr_error *err)
{
    hr_text path = { 0 };
    hr_status st;

    if (c->bad_column && c->bad_column != &c->root)
        add_path(c->bad_column, &path);
    if (path.data)
        st = hr__json_error(r, c->bad_at, err, c->bad_status, "column '%s': %s", path.data, c->bad);
    else
        st = hr__json_error(r, c->bad_at, err, c->bad_status, "%s", c->bad);
    hr__text_clear(&path);
    return st;
}

static hr_status expected(parser *p, const column *c, int64_t at, const char *more)
{
    const uint8_t *v = p->data + at;
    hr_text type = { 0 };
    hr_status st;
    char found[48];
    int n = 0;

    hr__type_print(c->type, &type);
    if (*v == '-' || (*v >= '0' && *v <= '9')) {
        while (n < 40 && !(hr__json_class[v[n]] & 1))
            n++;
        snprintf(found, sizeof found, "%.*s%s", n, (const char *)v, n == 40 ? "..." : "");
    } else {
        snprintf(found, sizeof found, "%s", hr__json_what(v));
    }
    st = bad(p, at, c, HR_TYPE, "expected %s, found %s%s", type.data ? type.data : "?", found, more);
    hr__text_clear(&type);
    return st;
}

#define HINT_SCHEMA "; schema= or a larger sample_bytes= gives the column another type"

/* ---------------------------------------------------------------------------------------------------------- columns */

static kind kind_of(const hr_type *t)
{
    switch (t->id) {
    case HR_T_NULL: return K_NULL;
    case HR_T_BOOL: return K_BOOL;
    case HR_T_INT64: return K_INT64;
    case HR_T_INT8:
    case HR_T_INT16:
    case HR_T_INT32: return K_INT;
    case HR_T_UINT8:
    case HR_T_UINT16:
    case HR_T_UINT32:
    case HR_T_UINT64: return K_UINT;
    case HR_T_FLOAT64: return K_DOUBLE;
    case HR_T_FLOAT16:
    case HR_T_FLOAT32: return K_FLOAT;
    case HR_T_STRING:
    case HR_T_LARGE_STRING: return K_STRING;
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY: return K_BINARY;
    case HR_T_FIXED_BINARY: return K_FIXED_BINARY;
    case HR_T_DATE32:
    case HR_T_DATE64: return K_DATE;
    case HR_T_TIME32:
    case HR_T_TIME64: return K_TIME;
    case HR_T_TIMESTAMP: return K_TIMESTAMP;
    case HR_T_DURATION: return K_DURATION;
    case HR_T_DECIMAL128:
    case HR_T_DECIMAL256: return K_DECIMAL;
    case HR_T_LIST:
    case HR_T_LARGE_LIST: return K_LIST;
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR: return K_FIXED_LIST;
    case HR_T_MAP: return K_MAP;
    default: return K_STRUCT;
    }
}

static uint64_t load_head(const uint8_t *p, int64_t n) { return hr__load_le64(p) & head_masks[HR_MIN(n, 8)]; }

static uint64_t key_hash(const uint8_t *p, int64_t n)
{
    uint64_t h = 0x9E3779B97F4A7C15u ^ (uint64_t)n;

    for (int64_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001B3u;
    return h ^ h >> 29;
}

static hr_status make_table(const hr_mem *mem, column *c, hr_error *err)
{
    for (c->table_size = 4; c->table_size < c->n_keys * 2; c->table_size *= 2)
        ;
    c->table = hr__alloc(mem->account, (size_t)c->table_size * sizeof *c->table);
    if (!c->table)
        return hr__error_memory(err, "json", c->table_size * (int64_t)sizeof *c->table);
    for (int64_t i = 0; i < c->table_size; i++)
        c->table[i] = -1;
    for (int i = 0; i < c->n_keys; i++) {
        key *k = &c->keys[i];
        uint64_t at = key_hash((const uint8_t *)k->name, k->length);

        while (c->table[at & (uint64_t)(c->table_size - 1)] >= 0)
            at++;
        c->table[at & (uint64_t)(c->table_size - 1)] = i;
    }
    return HR_OK;
}

static hr_status make_keys(const hr_mem *mem, column *c, const hr_field *fields, int n, hr_error *err)
{
    c->n_keys = n;
    c->keys = hr__zalloc(mem->account, ((size_t)n + 1) * sizeof *c->keys);
    if (!c->keys)
        return hr__error_memory(err, "json", n * (int64_t)sizeof *c->keys);
    for (int i = 0; i < n; i++) {
        key *k = &c->keys[i];
        uint8_t head[8] = { 0 };

        k->name = fields[i].name;
        k->length = (int32_t)strlen(k->name);
        memcpy(head, k->name, (size_t)HR_MIN(k->length, 8));
        k->head = load_head(head, 8);
        k->follows = i + 1 < n ? i + 1 : 0;
    }
    return make_table(mem, c, err);
}

static void clear_column(column *c)
{
    for (int i = 0; i < c->n_children; i++)
        clear_column(&c->children[i]);
    hr__buffer_unref(c->values);
    hr__buffer_unref(c->validity);
    hr__buffer_unref(c->bytes);
    hr__free(c->children);
    hr__free(c->keys);
    hr__free(c->table);
    *c = (column){ 0 };
}

static hr_status init_column(const hr_mem *mem, column *c, const hr_type *type, const char *name, const column *parent,
                             hr_error *err)
{
    if (hr__type_is_interval(type))
        return hr_error_set(err, HR_UNSUPPORTED, "column '%s': JSON cannot be read as an interval", name);
    *c = (column){ .kind = kind_of(type), .type = type, .name = name, .parent = parent };
    c->width = (uint8_t)(hr__type_offset_bytes(type) ? hr__type_offset_bytes(type)
                         : c->kind == K_FIXED_BINARY ? 0
                                                     : hr__type_bytes(type));
    c->has_values = c->kind != K_NULL && c->kind != K_STRUCT && c->kind != K_FIXED_LIST && c->kind != K_FIXED_BINARY;
    if (type->n_children == 0 && c->kind != K_STRUCT) /* an empty object type looks its keys up, too */
        return HR_OK;
    c->children = hr__zalloc(mem->account, (size_t)type->n_children * sizeof *c->children);
    if (!c->children)
        return hr__error_memory(err, "json", type->n_children * (int64_t)sizeof *c->children);
    for (int i = 0; i < type->n_children; i++) {
        const char *child = c->kind == K_STRUCT ? type->children[i].name : NULL;

        c->n_children++;
        HR_TRY(init_column(mem, &c->children[i], type->children[i].type, child, c, err));
    }
    if (c->kind != K_STRUCT)
        return HR_OK;
    HR_TRY(make_keys(mem, c, type->children, type->n_children, err));
    for (int i = 0; i < c->n_keys; i++)
        c->keys[i].column = &c->children[i];
    return HR_OK;
}

/* The least bytes of a row in a column. */
static int64_t fixed_bytes(const column *c)
{
    int64_t n = c->kind == K_FIXED_BINARY ? c->type->width : c->has_values ? HR_MAX(c->width, 1) : 0;

    if (c->kind == K_STRUCT)
        for (int i = 0; i < c->n_children; i++)
            n += fixed_bytes(&c->children[i]);
    return c->kind == K_FIXED_LIST ? fixed_bytes(&c->children[0]) * c->type->width : n;
}

void hr__json_columns_free(hr_json_columns *c)
{
    if (!c)
        return;
    clear_column(&c->root);
    hr__buffer_unref(c->scratch);
    hr__schema_unref(c->all);
    hr__schema_unref(c->given);
    hr__free(c);
}

hr_status hr__json_columns_new(const hr_mem *mem, hr_schema *all, hr_schema *given, const hr_json_options *options,
                               hr_json_columns **out, hr_error *err)
{
    hr_json_columns *c = hr__zalloc(mem->account, sizeof *c);
    hr_status st = HR_OK;

    *out = NULL;
    if (!c)
        return hr__error_memory(err, "json", sizeof *c);
    c->mem = *mem;
    c->all = hr__schema_ref(all);
    c->given = hr__schema_ref(given);
    c->options = *options;
    c->root.kind = K_STRUCT;
    c->root.children = hr__zalloc(mem->account, ((size_t)given->n + 1) * sizeof *c->root.children);
    if (!c->root.children)
        HR_GO(hr__error_memory(err, "json", given->n * (int64_t)sizeof *c->root.children));
    HR_GO(make_keys(mem, &c->root, all->fields, all->n, err));
    for (int i = 0; i < given->n; i++) {
        int at = hr__schema_find(all, given->fields[i].name);

        c->root.n_children++;
        HR_GO(init_column(mem, &c->root.children[i], given->fields[i].type, given->fields[i].name, &c->root, err));
        if (at >= 0)
            c->root.keys[at].column = &c->root.children[i];
        c->row_bytes += fixed_bytes(&c->root.children[i]);
    }
    *out = c;
    c = NULL; /* moved to the caller */
done:
    hr__json_columns_free(c);
    return st;
}

int64_t hr__json_columns_rows(const hr_json_columns *c) { return c->root.n; }
int64_t hr__json_columns_row_bytes(const hr_json_columns *c) { return c->row_bytes; }

/* Bytes of n values. */
static int64_t value_bytes(const column *c, int64_t n)
{
    if (c->kind == K_FIXED_BINARY)
        return n * c->type->width;
    if (c->kind == K_BOOL)
        return hr__bits_bytes(n);
    return c->has_values
               ? (n + (c->kind == K_STRING || c->kind == K_BINARY || c->kind == K_LIST || c->kind == K_MAP)) * c->width
               : 0;
}

static int64_t column_bytes(const column *c)
{
    int64_t n = value_bytes(c, c->n) + c->n_bytes + (c->validity ? hr__bits_bytes(c->n) : 0);

    for (int i = 0; i < c->n_children; i++)
        n += column_bytes(&c->children[i]);
    return n;
}

int64_t hr__json_columns_bytes(const hr_json_columns *c) { return column_bytes(&c->root); }

/* ---------------------------------------------------------------------------------------------------------- growing */

static hr_status widen(const hr_mem *mem, hr_buffer **b, int64_t used, int64_t want, hr_error *err)
{
    hr_buffer *wider;

    if (*b && (*b)->n_bytes >= want)
        return HR_OK;
    HR_TRY(hr__buffer_new(mem, want, &wider, err));
    if (used)
        memcpy(wider->data, (*b)->data, (size_t)used);
    hr__buffer_unref(*b);
    *b = wider;
    return HR_OK;
}

static hr_status grow_to(const hr_mem *mem, column *c, int64_t cap, hr_error *err)
{
    bool fresh = !c->values;

    if (c->has_values || c->kind == K_FIXED_BINARY)
        HR_TRY(widen(mem, &c->values, fresh ? 0 : value_bytes(c, c->n), value_bytes(c, cap), err));
    if (fresh && c->values && (c->kind == K_STRING || c->kind == K_BINARY || c->kind == K_LIST || c->kind == K_MAP))
        memset(c->values->data, 0, c->width); /* the first offset */
    if (c->validity) {
        int64_t used = hr__bits_bytes(c->n);

        HR_TRY(widen(mem, &c->validity, used, hr__bits_bytes(cap), err));
        memset(c->validity->data + used, 0xFF, (size_t)(hr__bits_bytes(cap) - used));
        if (c->n % 8)
            c->validity->data[used - 1] |= (uint8_t)(0xFF << c->n % 8);
    }
    c->cap = cap;
    return HR_OK;
}

/* Room for one more row. */
static inline hr_status room(parser *p, column *c, hr_error *err)
{
    return c->n < c->cap ? HR_OK : grow_to(&p->mem, c, HR_MAX(c->cap * 2, LEAST_ROWS), err);
}

static inline hr_status byte_room(parser *p, column *c, int64_t n, hr_error *err)
{
    int64_t want = c->n_bytes + n;

    if (c->bytes && want <= c->bytes->n_bytes)
        return HR_OK;
    if (c->width == 4 && want > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "json: column '%s': more than 2 GiB of text in one table", c->name);
    return widen(&p->mem, &c->bytes, c->n_bytes, HR_MAX(want, HR_MIN(c->n_bytes * 2, INT32_MAX)), err);
}

static inline void set_offset(column *c, int64_t row, int64_t end)
{
    if (c->width == 4)
        ((int32_t *)(void *)c->values->data)[row] = (int32_t)end;
    else
        ((int64_t *)(void *)c->values->data)[row] = end;
}

static int64_t offset(const column *c, int64_t row)
{
    if (!c->values)
        return 0;
    return c->width == 4 ? ((const int32_t *)(const void *)c->values->data)[row]
                         : ((const int64_t *)(const void *)c->values->data)[row];
}

static hr_status reserve(const hr_mem *mem, column *c, double factor, hr_error *err)
{
    int64_t rows = (int64_t)((double)c->n * factor), bytes = (int64_t)((double)c->n_bytes * factor);

    if (rows > c->cap)
        HR_TRY(grow_to(mem, c, rows, err));
    if (c->bytes && bytes < INT32_MAX)
        HR_TRY(widen(mem, &c->bytes, c->n_bytes, bytes, err));
    for (int i = 0; i < c->n_children; i++)
        HR_TRY(reserve(mem, &c->children[i], factor, err));
    return HR_OK;
}

hr_status hr__json_columns_reserve(hr_json_columns *c, double factor, hr_error *err)
{
    return reserve(&c->mem, &c->root, factor, err);
}

/* Removes the rows from n on. */
static void truncate_to(column *c, int64_t n)
{
    if (c->validity && n < c->cap)
        hr__bits_fill(c->validity->data, n, HR_MIN(c->cap, c->n + 1) - n, true);
    c->n = n;
    if (c->kind == K_STRING || c->kind == K_BINARY)
        c->n_bytes = offset(c, n);
    for (int i = 0; i < c->n_children; i++) {
        int64_t below = c->kind == K_STRUCT ? n : c->kind == K_FIXED_LIST ? n * c->type->width : offset(c, n);

        truncate_to(&c->children[i], below);
    }
}

void hr__json_columns_drop(hr_json_columns *c) { truncate_to(&c->root, 0); }

/* ------------------------------------------------------------------------------------------------------------ nulls */

static hr_status add_null(parser *p, column *c, hr_error *err)
{
    HR_TRY(room(p, c, err));
    if (c->kind == K_NULL) {
        c->n++;
        return HR_OK;
    }
    if (!c->validity) {
        HR_TRY(hr__buffer_new(&p->mem, hr__bits_bytes(c->cap), &c->validity, err));
        memset(c->validity->data, 0xFF, (size_t)hr__bits_bytes(c->cap));
    }
    hr__bit_clear(c->validity->data, c->n);
    switch (c->kind) {
    case K_STRING:
    case K_BINARY: set_offset(c, c->n + 1, c->n_bytes); break;
    case K_LIST:
    case K_MAP: set_offset(c, c->n + 1, c->children[0].n); break;
    case K_STRUCT:
        for (int i = 0; i < c->n_children; i++)
            HR_TRY(add_null(p, &c->children[i], err));
        break;
    case K_FIXED_LIST:
        for (int i = 0; i < c->type->width; i++)
            HR_TRY(add_null(p, &c->children[0], err));
        break;
    case K_BOOL: hr__bit_clear(c->values->data, c->n); break;
    default: memset(c->values->data + value_bytes(c, c->n), 0, (size_t)(value_bytes(c, 1))); break;
    }
    c->n++;
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------- single values */

static bool is_word(const uint8_t *p, const char *word, int n)
{
    return memcmp(p, word, (size_t)n) == 0 && (hr__json_class[p[n]] & 1);
}

static hr_status put_bits(parser *p, column *c, uint64_t bits, hr_error *err)
{
    uint8_t v8 = (uint8_t)bits;
    uint16_t v16 = (uint16_t)bits;
    uint32_t v32 = (uint32_t)bits;
    uint8_t *to;

    HR_TRY(room(p, c, err));
    to = c->values->data + c->n++ * c->width;
    switch (c->width) {
    case 1: *to = v8; break;
    case 2: memcpy(to, &v16, 2); break;
    case 4: memcpy(to, &v32, 4); break;
    default: memcpy(to, &bits, 8); break;
    }
    return HR_OK;
}

static hr_status bad_number(parser *p, const column *c, int64_t at, const hr_json_number *n)
{
    return bad(p, at + n->length, c, HR_BAD_DATA, "a number is malformed here: found 0x%02x", p->data[at + n->length]);
}

static hr_status integer(parser *p, column *c, int64_t at, hr_error *err)
{
    int bits = c->width * 8;
    hr_json_number n;

    hr__json_scan_number(p->data + at, &n);
    if (n.kind == HR_JSON_NO_NUMBER)
        return bad_number(p, c, at, &n);
    if (c->kind == K_UINT) {
        if ((n.kind == HR_JSON_INT && n.i >= 0 && n.u <= UINT64_MAX >> (64 - bits)) ||
            (n.kind == HR_JSON_UINT && bits == 64))
            return put_bits(p, c, n.u, err);
    } else if (n.kind == HR_JSON_INT && n.i >= INT64_MIN >> (64 - bits) && n.i <= INT64_MAX >> (64 - bits)) {
        return put_bits(p, c, (uint64_t)n.i, err);
    }
    return expected(p, c, at, HINT_SCHEMA);
}

static hr_status put_double(parser *p, column *c, double v, hr_error *err)
{
    float single = (float)v;
    uint32_t bits32;
    uint64_t bits;

    memcpy(&bits, &v, 8);
    memcpy(&bits32, &single, 4);
    return put_bits(p, c, c->width == 8 ? bits : c->width == 4 ? bits32 : hr__half_of(v), err);
}

/* NaN, Infinity, -Infinity as Python's json writes them. */
static bool is_special(const uint8_t *p, double *out)
{
    bool negative = *p == '-';

    p += negative;
    if (is_word(p, "NaN", 3) && !negative)
        *out = (double)NAN;
    else if (is_word(p, "Infinity", 8))
        *out = negative ? -(double)INFINITY : (double)INFINITY;
    else
        return false;
    return true;
}

static hr_status real(parser *p, column *c, int64_t at, hr_error *err)
{
    const uint8_t *text = p->data + at;
    hr_json_number n;
    double v;

    if (*text != '-' && (uint8_t)(*text - '0') > 9) {
        if (p->options.allow_nan && is_special(text, &v))
            return put_double(p, c, v, err);
        if (is_special(text, &v))
            return bad(p, at, c, HR_BAD_DATA, "NaN and Infinity are not JSON; allow_nan=True reads them");
        return expected(p, c, at, HINT_SCHEMA);
    }
    hr__json_scan_number(text, &n);
    if (n.kind == HR_JSON_NO_NUMBER) {
        if (is_special(text, &v) && p->options.allow_nan)
            return put_double(p, c, v, err);
        return bad_number(p, c, at, &n);
    }
    if (!hr__json_double(text, &n, &v) || isinf(v))
        return bad(p, at, c, HR_BAD_DATA, "a number beyond the range of a double");
    return put_double(p, c, v, err);
}

/* The end of the string at p->token; moves after it. */
static hr_status string_end(parser *p, const column *c, int64_t *end)
{
    *end = p->at[p->token + 1];
    if (p->data[*end] != '"')
        return bad(p, p->at[p->token], c, HR_BAD_DATA, "a string is not closed: expected '\"'");
    p->token += 2;
    return HR_OK;
}

/* Appends a string's text to c's bytes; the caller writes the offset. */
static hr_status add_text(parser *p, column *c, hr_error *err)
{
    int64_t begin = p->at[p->token] + 1, end, n, wrong;

    HR_TRY(string_end(p, c, &end));
    n = end - begin;
    HR_TRY(byte_room(p, c, n + 16, err));
    if (p->has_backslash && memchr(p->data + begin, '\\', (size_t)n)) {
        n = hr__json_unescape(p->data + begin, n, c->bytes->data + c->n_bytes, &wrong);
        if (n < 0)
            return bad(p, begin + wrong, c, HR_BAD_DATA, "an invalid escape in a string, or half a surrogate pair");
    } else if (n <= 16) {
        /* room and slack exist: copying 16 bytes is faster than copying few */
        memcpy(c->bytes->data + c->n_bytes, p->data + begin, 16);
    } else {
        memcpy(c->bytes->data + c->n_bytes, p->data + begin, (size_t)n);
    }
    c->n_bytes += n;
    return HR_OK;
}

static hr_status string(parser *p, column *c, int64_t at, hr_error *err)
{
    HR_TRY(room(p, c, err));
    if (p->data[at] == '"') {
        HR_TRY(add_text(p, c, err));
    } else {
        hr_json_number n;

        hr__json_scan_number(p->data + at, &n);
        if (p->options.big_integers != HR_JSON_BIG_STRING || n.kind == HR_JSON_NO_NUMBER)
            return expected(p, c, at, HINT_SCHEMA);
        HR_TRY(byte_room(p, c, n.length, err));
        memcpy(c->bytes->data + c->n_bytes, p->data + at, (size_t)n.length);
        c->n_bytes += n.length;
        p->token++;
    }
    set_offset(c, ++c->n, c->n_bytes);
    return HR_OK;
}

/* The string at p->token, which must have no escapes: dates, numbers and base64 have none. */
static hr_status plain_text(parser *p, const column *c, int64_t at, const uint8_t **text, int64_t *n)
{
    int64_t end;

    if (p->data[at] != '"')
        return expected(p, c, at, c->kind == K_TIMESTAMP && p->options.guessed ? HINT_SCHEMA : "");
    HR_TRY(string_end(p, c, &end));
    *text = p->data + at + 1;
    *n = end - at - 1;
    return HR_OK;
}

static hr_status wrong_text(parser *p, const column *c, int64_t at, int64_t n, const char *what)
{
    bool guessed = c->kind == K_TIMESTAMP && p->options.guessed;
    hr_text type = { 0 };
    hr_status st;

    hr__type_print(c->type, &type);
    st = bad(p, at, c, HR_TYPE, "expected %s as %s, found '%.*s'%s", type.data ? type.data : "?", what,
             (int)HR_MIN(n, 60), (const char *)p->data + at + 1,
             guessed ? "; times=False reads them as strings, schema= sets the type of each column" : "");
    hr__text_clear(&type);
    return st;
}

/* Four digits of base64 a step, RFC 4648 with padding; -1. */
static int64_t decode_base64(const uint8_t *p, int64_t n, uint8_t *out)
{
    uint8_t *to = out;

    if (n % 4)
        return -1;
    for (int64_t i = 0; i < n; i += 4) {
        int pads = i + 4 == n ? (p[i + 3] == '=') + (p[i + 3] == '=' && p[i + 2] == '=') : 0;
        uint32_t v = 0;

        for (int k = 0; k < 4; k++) {
            uint8_t c = p[i + k];
            int digit = c >= 'A' && c <= 'Z'   ? c - 'A'
                        : c >= 'a' && c <= 'z' ? c - 'a' + 26
                        : c >= '0' && c <= '9' ? c - '0' + 52
                        : c == '+'             ? 62
                        : c == '/'             ? 63
                                               : -1;

            if (digit < 0 && k < 4 - pads)
                return -1;
            v = v << 6 | (uint32_t)(digit < 0 ? 0 : digit);
        }
        *to++ = (uint8_t)(v >> 16);
        if (pads < 2)
            *to++ = (uint8_t)(v >> 8);
        if (pads < 1)
            *to++ = (uint8_t)v;
    }
    return to - out;
}

static hr_status binary(parser *p, column *c, int64_t at, hr_error *err)
{
    bool fixed = c->kind == K_FIXED_BINARY;
    const uint8_t *text = NULL;
    int64_t n = 0, made;

    HR_TRY(room(p, c, err));
    HR_TRY(plain_text(p, c, at, &text, &n));
    HR_TRY(byte_room(p, c, n, err));
    made = decode_base64(text, n, c->bytes->data + c->n_bytes);
    if (made < 0 || (fixed && made != c->type->width))
        return wrong_text(p, c, at, n, "base64");
    if (fixed) {
        memcpy(c->values->data + c->n++ * made, c->bytes->data, (size_t)made);
        return HR_OK;
    }
    c->n_bytes += made;
    set_offset(c, ++c->n, c->n_bytes);
    return HR_OK;
}

static hr_status moment(parser *p, column *c, int64_t at, hr_error *err)
{
    const uint8_t *text = NULL;
    int64_t n = 0, v = 0;
    int32_t days = 0;
    int zone;

    HR_TRY(plain_text(p, c, at, &text, &n));
    if (c->kind == K_TIMESTAMP) {
        if (!hr__parse_timestamp(text, n, c->type->unit, &v, &zone))
            return wrong_text(p, c, at, n, "ISO 8601");
        if (p->options.guessed && zone != (c->type->zone != NULL)) /* the instant depends on the zone */
            return wrong_text(p, c, at, n, zone ? "ISO 8601 without a zone" : "ISO 8601 with a zone");
    } else if (c->kind == K_TIME) {
        if (!hr__parse_time(text, n, c->type->unit, &v))
            return wrong_text(p, c, at, n, "hh:mm:ss");
    } else {
        if (!hr__parse_date(text, n, &days))
            return wrong_text(p, c, at, n, "YYYY-MM-DD");
        v = c->type->id == HR_T_DATE64 ? (int64_t)days * 86400000 : days;
    }
    return put_bits(p, c, (uint64_t)v, err);
}

/* v * 10 + digit, of a little-endian number of eight words. */
static void times_ten(uint32_t v[8], unsigned digit)
{
    uint64_t carry = digit;

    for (int k = 0; k < 8; k++) {
        carry += (uint64_t)v[k] * 10;
        v[k] = (uint32_t)carry;
        carry >>= 32;
    }
}

/* A decimal, scaled, as a little-endian number of eight words; false: it has more digits than the type or its scale
 * allows. */
static bool parse_decimal(const uint8_t *p, const hr_json_number *n, const hr_type *t, uint32_t v[8])
{
    const uint8_t *end = p + n->length;
    int64_t n_digits, zeros = t->scale + n->exponent, carry = 1;

    memset(v, 0, 8 * sizeof *v);
    p += n->negative;
    for (const uint8_t *e = p; e < end; e++)
        if ((*e | 0x20) == 'e')
            end = e;
    while (p < end && (*p == '0' || *p == '.'))
        p++;
    n_digits = hr__json_count_digits(p, end);
    if (n_digits && n_digits + zeros > t->precision)
        return false;
    for (int64_t i = 0; i < n_digits; i++, p++) {
        p += *p == '.';
        if (i < n_digits + HR_MIN(zeros, 0))
            times_ten(v, *p - '0');
        else if (*p != '0')
            return false;
    }
    for (int64_t i = 0; n_digits && i < zeros; i++)
        times_ten(v, 0);
    for (int k = 0; n->negative && k < 8; k++) { /* two's complement */
        v[k] = ~v[k] + (uint32_t)carry;
        carry = carry && v[k] == 0;
    }
    return true;
}

static hr_status decimal(parser *p, column *c, int64_t at, hr_error *err)
{
    int64_t begin = at + (p->data[at] == '"'), end = 0;
    hr_json_number n;
    uint32_t v[8];

    if (p->data[at] == '"')
        HR_TRY(string_end(p, c, &end));
    else
        p->token++;
    hr__json_scan_number(p->data + begin, &n);
    if (n.kind == HR_JSON_NO_NUMBER || (end && begin + n.length != end) ||
        !parse_decimal(p->data + begin, &n, c->type, v))
        return expected(p, c, at, "");
    HR_TRY(room(p, c, err));
    memcpy(c->values->data + c->n++ * c->width, v, c->width);
    return HR_OK;
}

static hr_status boolean(parser *p, column *c, int64_t at, hr_error *err)
{
    bool is_true = is_word(p->data + at, "true", 4);

    if (!is_true && !is_word(p->data + at, "false", 5))
        return expected(p, c, at, HINT_SCHEMA);
    HR_TRY(room(p, c, err));
    if (is_true)
        hr__bit_set(c->values->data, c->n);
    else
        hr__bit_clear(c->values->data, c->n);
    c->n++;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------ lists and objects */

static hr_status value(parser *p, column *c, hr_error *err);

/* Skips the value at p->token, by its brackets. */
static hr_status skip_value(parser *p, const column *c)
{
    uint64_t kinds[MAX_SKIP_DEPTH / 64]; /* a bit for each open bracket: 1 for a brace */
    int64_t first = p->at[p->token], end, depth = 0;

    do {
        int64_t at = p->at[p->token];
        uint8_t b = p->data[at];

        if (b == '"') {
            HR_TRY(string_end(p, c, &end));
            continue;
        }
        if (b == '{' || b == '[') {
            if (depth == MAX_SKIP_DEPTH)
                return bad(p, at, c, HR_UNSUPPORTED, "a value nested deeper than %d", MAX_SKIP_DEPTH);
            if (b == '{')
                kinds[depth / 64] |= 1ull << depth % 64;
            else
                kinds[depth / 64] &= ~(1ull << depth % 64);
            depth++;
        } else if (b == '}' || b == ']') {
            if (depth == 0 || (kinds[(depth - 1) / 64] >> (depth - 1) % 64 & 1) != (b == '}'))
                return bad(p, at, c, HR_BAD_DATA, "expected a value or its end, found %s", hr__json_what(p->data + at));
            depth--;
        } else if (b == '\n' || (depth == 0 && (hr__json_class[b] & 1))) {
            return bad(p, at, c, HR_BAD_DATA, "expected a value, found %s", hr__json_what(p->data + at));
        }
        if (p->at[p->token + 1] <= (uint32_t)at) /* the end of the text */
            return bad(p, first, c, HR_BAD_DATA, "the text ends within a value");
        p->token++;
    } while (depth > 0);
    return HR_OK;
}

/* Items up to the bracket; *n: their number. p->token is after '['. */
static hr_status items(parser *p, column *c, column *item, int64_t *n, hr_error *err)
{
    *n = 0;
    if (p->data[p->at[p->token]] == ']') {
        p->token++;
        return HR_OK;
    }
    for (;;) {
        int64_t at;

        HR_TRY(value(p, item, err));
        ++*n;
        at = p->at[p->token];
        if (p->data[at] == ']')
            break;
        if (p->data[at] != ',')
            return bad(p, at, c, HR_BAD_DATA, "expected ',' or ']' in an array, found %s", hr__json_what(p->data + at));
        p->token++;
    }
    p->token++;
    return HR_OK;
}

static hr_status list(parser *p, column *c, int64_t at, hr_error *err)
{
    int64_t n;

    if (p->data[at] != '[')
        return expected(p, c, at, HINT_SCHEMA);
    HR_TRY(room(p, c, err));
    p->token++;
    HR_TRY(items(p, c, &c->children[0], &n, err));
    if (c->width == 4 && c->children[0].n > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "json: column '%s': more than 2^31 values in one table", c->name);
    set_offset(c, ++c->n, c->children[0].n);
    return HR_OK;
}

/* Dimension `dim` of a tensor's row: nested arrays of its shape. */
static hr_status tensor_part(parser *p, column *c, int dim, hr_error *err)
{
    int64_t at = p->at[p->token], n = 0;

    if (p->data[at] != '[')
        return expected(p, c, at, "");
    p->token++;
    if (dim == c->type->n_dims - 1) {
        HR_TRY(items(p, c, &c->children[0], &n, err));
    } else {
        for (bool more = p->data[p->at[p->token]] != ']'; more; n++) {
            HR_TRY(tensor_part(p, c, dim + 1, err));
            more = p->data[p->at[p->token]] == ',';
            p->token += more;
        }
        if (p->data[p->at[p->token]] != ']')
            return bad(p, p->at[p->token], c, HR_BAD_DATA, "expected ',' or ']' in an array, found %s",
                       hr__json_what(p->data + p->at[p->token]));
        p->token++;
    }
    if (n != c->type->shape[dim])
        return bad(p, at, c, HR_TYPE, "expected %lld values along dimension %d, found %lld",
                   (long long)c->type->shape[dim], dim, (long long)n);
    return HR_OK;
}

static hr_status fixed_list(parser *p, column *c, int64_t at, hr_error *err)
{
    int64_t n = c->type->width;

    if (p->data[at] != '[')
        return expected(p, c, at, "");
    HR_TRY(room(p, c, err));
    if (c->type->id == HR_T_TENSOR && c->type->n_dims > 1 && p->data[p->at[p->token + 1]] == '[') {
        HR_TRY(tensor_part(p, c, 0, err));
    } else {
        p->token++;
        HR_TRY(items(p, c, &c->children[0], &n, err));
    }
    if (n != c->type->width)
        return bad(p, at, c, HR_TYPE, "expected an array of %d values, found %lld", c->type->width, (long long)n);
    c->n++;
    return HR_OK;
}

/* The text of the key at p->token, with its escapes resolved. */
static hr_status key_text(parser *p, const column *c, const uint8_t **text, int64_t *n, hr_error *err)
{
    int64_t begin = p->at[p->token] + 1, wrong;

    *text = p->data + begin;
    *n = p->at[p->token + 1] - begin;
    if (!p->has_backslash || !memchr(*text, '\\', (size_t)*n))
        return HR_OK;
    if (!p->scratch || p->scratch->n_bytes < *n) {
        hr__buffer_unref(p->scratch);
        p->scratch = NULL;
        HR_TRY(hr__buffer_new(&p->mem, HR_MAX(*n, 256), &p->scratch, err));
    }
    *n = hr__json_unescape(*text, *n, p->scratch->data, &wrong);
    if (*n < 0)
        return bad(p, begin + wrong, c, HR_BAD_DATA, "an invalid escape in a key, or half a surrogate pair");
    *text = p->scratch->data;
    return HR_OK;
}

static inline bool is_key(const key *k, const uint8_t *text, int64_t n, uint64_t head)
{
    return k->length == n && k->head == head && (n <= 8 || memcmp(k->name + 8, text + 8, (size_t)n - 8) == 0);
}

/* -1: no key has this name. */
static int32_t find_key(const column *c, const uint8_t *text, int64_t n, uint64_t head)
{
    uint64_t at = key_hash(text, n);

    for (;; at++) {
        int32_t i = c->table[at & (uint64_t)(c->table_size - 1)];

        if (i < 0 || is_key(&c->keys[i], text, n, head))
            return i;
    }
}

static hr_status missing_keys(parser *p, column *c, hr_error *err)
{
    for (int i = 0; i < c->n_children; i++)
        if (c->children[i].n <= c->n)
            HR_TRY(add_null(p, &c->children[i], err));
    return HR_OK;
}

static hr_status unknown_key(parser *p, const column *c, const uint8_t *text, int64_t n, int64_t at)
{
    if (p->options.unexpected == HR_JSON_UNEXPECTED_IGNORE)
        return skip_value(p, c);
    return bad(p, at, c, HR_TYPE,
               "key '%.*s' is not in the schema; unexpected=\"ignore\" ignores it, schema= or a larger "
               "sample_bytes= makes it a column",
               (int)HR_MIN(n, 80), (const char *)text);
}

/* One key and its value. *last: the key before, -1 for the first; *n_seen counts columns. */
static inline hr_status member(parser *p, column *c, int32_t *last, int *n_seen, hr_error *err)
{
    int64_t at = p->at[p->token], n = 0;
    const uint8_t *text = NULL;
    uint64_t head;
    int32_t i;
    key *k;

    if (p->data[at] != '"')
        return bad(p, at, c, HR_BAD_DATA, "expected a key in quotes, found %s", hr__json_what(p->data + at));
    if (p->data[p->at[p->token + 1]] != '"' || p->data[p->at[p->token + 2]] != ':')
        return bad(p, p->at[p->token + 2], c, HR_BAD_DATA, "expected ':' after a key, found %s",
                   hr__json_what(p->data + p->at[p->token + 2]));
    HR_TRY(key_text(p, c, &text, &n, err));
    p->token += 3;
    head = load_head(text, n);
    i = *last < 0 ? c->first_key : c->keys[*last].follows;
    if (c->n_keys == 0 || !is_key(&c->keys[i], text, n, head)) {
        i = find_key(c, text, n, head);
        if (i < 0)
            return unknown_key(p, c, text, n, at);
        if (*last < 0)
            c->first_key = i;
        else
            c->keys[*last].follows = i;
    }
    *last = i;
    k = &c->keys[i];
    if (k->seen == c->objects)
        return bad(p, at, c, HR_BAD_DATA, "key '%s' occurs twice in an object", k->name);
    k->seen = c->objects;
    if (!k->column)
        return skip_value(p, c);
    ++*n_seen;
    return value(p, k->column, err);
}

/* After a member: ',' continues the object, '}' ends it. */
static inline hr_status member_end(parser *p, const column *c, bool *more)
{
    int64_t at = p->at[p->token];
    uint8_t b = p->data[at];

    *more = b == ',';
    if (b != ',' && b != '}')
        return bad(p, at, c, HR_BAD_DATA, "expected ',' or '}' in an object, found %s", hr__json_what(p->data + at));
    p->token++;
    return HR_OK;
}

/* p->token is the '{'. */
static hr_status object(parser *p, column *c, hr_error *err)
{
    int32_t last = -1;
    int n_seen = 0;
    bool more = true;

    HR_TRY(room(p, c, err));
    c->objects++;
    p->token++;
    if (p->data[p->at[p->token]] == '}') {
        p->token++;
        more = false;
    }
    while (more) {
        HR_TRY(member(p, c, &last, &n_seen, err));
        HR_TRY(member_end(p, c, &more));
    }
    if (n_seen < c->n_children)
        HR_TRY(missing_keys(p, c, err));
    c->n++;
    return HR_OK;
}

/* An object as a map: its keys are text. */
static hr_status map_object(parser *p, column *c, hr_error *err)
{
    column *entries = &c->children[0], *keys = &entries->children[0], *values = &entries->children[1];
    bool more;

    if (keys->kind != K_STRING)
        return expected(p, c, p->at[p->token],
                        ", but only an array [key, value] can have keys of another type than string");
    p->token++;
    more = p->data[p->at[p->token]] != '}';
    p->token += !more;
    while (more) {
        int64_t at = p->at[p->token];

        if (p->data[at] != '"')
            return bad(p, at, c, HR_BAD_DATA, "expected a key in quotes, found %s", hr__json_what(p->data + at));
        HR_TRY(room(p, entries, err));
        HR_TRY(string(p, keys, at, err));
        if (p->data[p->at[p->token]] != ':')
            return bad(p, p->at[p->token], c, HR_BAD_DATA, "expected ':' after a key, found %s",
                       hr__json_what(p->data + p->at[p->token]));
        p->token++;
        HR_TRY(value(p, values, err));
        entries->n++;
        HR_TRY(member_end(p, c, &more));
    }
    return HR_OK;
}

static hr_status map(parser *p, column *c, int64_t at, hr_error *err)
{
    int64_t n;

    HR_TRY(room(p, c, err));
    if (p->data[at] == '{') {
        HR_TRY(map_object(p, c, err));
    } else if (p->data[at] == '[') {
        p->token++;
        HR_TRY(items(p, c, &c->children[0], &n, err));
    } else {
        return expected(p, c, at, "");
    }
    set_offset(c, ++c->n, c->children[0].n);
    return HR_OK;
}

/* Adds the value at p->token to c. */
static hr_status value(parser *p, column *c, hr_error *err)
{
    int64_t at = p->at[p->token];

    if (p->data[at] == 'n' && is_word(p->data + at, "null", 4)) {
        p->token++;
        return add_null(p, c, err);
    }
    switch (c->kind) {
    case K_STRING: return string(p, c, at, err);
    case K_LIST: return list(p, c, at, err);
    case K_FIXED_LIST: return fixed_list(p, c, at, err);
    case K_MAP: return map(p, c, at, err);
    case K_STRUCT: return p->data[at] == '{' ? object(p, c, err) : expected(p, c, at, HINT_SCHEMA);
    case K_BINARY:
    case K_FIXED_BINARY: return binary(p, c, at, err);
    case K_DATE:
    case K_TIME:
    case K_TIMESTAMP: return moment(p, c, at, err);
    case K_DECIMAL: return decimal(p, c, at, err);
    case K_DOUBLE:
    case K_FLOAT: p->token++; return real(p, c, at, err);
    case K_BOOL: p->token++; return boolean(p, c, at, err);
    case K_NULL: return expected(p, c, at, HINT_SCHEMA);
    default:
        if (p->data[at] != '-' && (uint8_t)(p->data[at] - '0') > 9)
            return expected(p, c, at, HINT_SCHEMA);
        p->token++;
        return integer(p, c, at, err);
    }
}

hr_status hr__json_columns_add(hr_json_columns *c, hr_json_rows *r, bool *of_row, hr_error *err)
{
    int64_t n = c->root.n, at = r->tokens.at[r->token];
    hr_status st;

    c->data = r->buffer->data;
    c->at = r->tokens.at;
    c->has_backslash = r->tokens.has_backslash;
    c->token = r->token;
    c->bad_at = -1;
    if (c->data[at] == '{')
        st = object(c, &c->root, err);
    else
        st = bad(c, at, NULL, HR_BAD_DATA, "expected an object (a row), found %s", hr__json_what(c->data + at));
    *of_row = st && c->bad_at >= 0;
    if (st)
        truncate_to(&c->root, n);
    else
        hr__json_rows_parsed(r, c->token);
    return st;
}

/* ----------------------------------------------------------------------------------------------------------- finish */

static hr_status finish_column(const hr_mem *mem, column *c, hr_array **out, hr_error *err);

/* The arrays of c's children; on failure none. */
static hr_status finish_children(const hr_mem *mem, column *c, hr_array ***out, hr_error *err)
{
    hr_array **arrays = hr__zalloc(mem->account, ((size_t)c->n_children + 1) * sizeof *arrays);
    hr_status st = HR_OK;

    *out = NULL;
    if (!arrays)
        return hr__error_memory(err, "json", c->n_children * (int64_t)sizeof *arrays);
    for (int i = 0; i < c->n_children; i++)
        HR_GO(finish_column(mem, &c->children[i], &arrays[i], err));
    *out = arrays;
    arrays = NULL;
done:
    for (int i = 0; arrays && i < c->n_children; i++)
        hr__array_unref(arrays[i]);
    hr__free(arrays);
    return st;
}

static hr_status finish_column(const hr_mem *mem, column *c, hr_array **out, hr_error *err)
{
    bool has_bytes = c->kind == K_STRING || c->kind == K_BINARY;
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    hr_array **children = NULL;
    hr_status st;

    if (c->cap == 0)
        HR_TRY(grow_to(mem, c, 1, err));
    if (has_bytes && !c->bytes)
        HR_TRY(hr__buffer_new(mem, 0, &c->bytes, err));
    HR_TRY(finish_children(mem, c, &children, err));
    if (c->validity)
        hr__buffer_shrink(c->validity, hr__bits_bytes(c->n));
    if (c->values)
        hr__buffer_shrink(c->values, value_bytes(c, c->n));
    if (has_bytes)
        hr__buffer_shrink(c->bytes, c->n_bytes);
    buffers[0] = c->validity;
    buffers[1] = c->values;
    buffers[2] = has_bytes ? c->bytes : NULL;
    st = hr__array_new((hr_type *)c->type, c->n,
                       c->validity         ? -1
                       : c->kind == K_NULL ? c->n
                                           : 0,
                       buffers, children, c->n_children, out, err);
    hr__free(children);
    if (!has_bytes) /* fixed binary used it to decode base64 */
        hr__buffer_unref(c->bytes);
    c->validity = c->values = c->bytes = NULL; /* taken */
    c->n = c->cap = c->n_bytes = 0;
    return st;
}

hr_status hr__json_columns_finish(hr_json_columns *c, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    int n = c->root.n_children;

    for (int i = 0; i < n; i++)
        out[i] = NULL;
    for (int i = 0; i < n; i++)
        HR_GO(finish_column(&c->mem, &c->root.children[i], &out[i], err));
    c->root.n = c->root.cap = 0;
done:
    for (int i = 0; st && i < n; i++) {
        hr__array_unref(out[i]);
        out[i] = NULL;
    }
    return st;
}
