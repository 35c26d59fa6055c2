/* grouper.c - a hash table of keys with open addressing; the keys lie in columns.
 *
 * A slot holds a key's number and hash, so nearly all comparisons of keys are of equal keys. The grouper copies keys
 * into columns of its own, because the input tables go: fixed-width values side by side, text as bytes and offsets.
 * These columns become the key columns of the result.
 *
 * If all columns of a key with their null bits fit into 64 bits, or the key is one column of 64 bits, that word is
 * hashed and compared instead (`packed`), as for most keys. Rows are handled in steps of BATCH rows: first words or
 * hashes, column by column, then look-ups. Floats are made canonical first (-0.0 is 0.0, one NaN), so that equal values
 * have equal bytes. */
#include "op/group/grouper.h"

#include "data/keys.h"

#include <math.h>

#define BATCH 1024
#define NONE UINT32_MAX

typedef struct key_column {
    hr_type *type;
    int at;             /* column of the tables */
    int width;          /* bytes of a value; 0: any length */
    bool is_bool;       /* stored as bytes 0 and 1 */
    int shift;          /* packed: first bit of the value; the null bit is bit shift - 1 */
    uint8_t *values;    /* n values of `width` bytes, or all bytes of text */
    int64_t cap_values; /* bytes */
    int64_t *ends;      /* width 0: the end of each value */
    int64_t cap_ends;
    uint8_t *nulls; /* one byte per key */
    int64_t cap_nulls, n_nulls;
} key_column;

typedef struct slot {
    uint64_t word; /* the packed key, else its hash */
    uint32_t id;   /* NONE: free */
    uint32_t null; /* wide: 1 for the null key */
} slot;

/* A key column of the input table, prepared for reading. */
typedef struct key_view {
    const hr_array *array;
    const uint8_t *values;  /* fixed width, or the bytes of text */
    const int32_t *offsets; /* of text with 32-bit offsets; otherwise NULL */
    bool nulls;
    bool slack;    /* 8 bytes are readable from any byte of its values */
    bool plain;    /* equal values have equal bits: up to 8 bytes, no floats or booleans, and slack */
    uint64_t mask; /* of the value's bits */
} key_view;

struct hr_grouper {
    hr_account *account;
    int n_columns;
    key_column *columns;
    bool packed;
    bool wide;       /* one column of 64 bits: the word of null may also be a value's */
    uint64_t *words; /* slot.word of each key */
    int64_t cap_words;
    uint64_t *hashes;
    int64_t cap_hashes;
    int64_t n;
    slot *slots;
    int64_t n_slots; /* a power of two */
};

int64_t hr__grouper_n(const hr_grouper *g) { return g->n; }
const uint64_t *hr__grouper_hashes(const hr_grouper *g) { return g->hashes; }

int64_t hr__grouper_bytes(const hr_grouper *g)
{
    int64_t n = g->n_slots * (int64_t)sizeof(slot) + (g->cap_words + g->cap_hashes) * 8;

    for (int c = 0; c < g->n_columns; c++)
        n += g->columns[c].cap_values + g->columns[c].cap_ends * 8 + g->columns[c].cap_nulls;
    return n;
}

/* ----------------------------------------------------------------------------------------------------------- making */

static int width_of(const hr_type *t)
{
    if (t->id == HR_T_BOOL)
        return 1;
    return t->id == HR_T_FIXED_BINARY ? t->width : hr__type_bytes(t);
}

/* Assigns each column its bits in one word; false: they do not fit. */
static bool pack(hr_grouper *g)
{
    int bits = 0;

    g->wide = g->n_columns == 1 && g->columns[0].width == 8;
    for (int c = 0; !g->wide && c < g->n_columns; c++) {
        key_column *k = &g->columns[c];

        if (hr__type_is_bytes(k->type) || k->width > 7)
            return false;
        k->shift = bits + 1;
        bits += 1 + 8 * k->width;
    }
    return g->wide || (g->n_columns > 0 && bits <= 64);
}

static bool wide_null(const hr_grouper *g, int64_t id) { return g->wide && g->columns[0].nulls[id]; }

static hr_status grow_slots(hr_grouper *g, int64_t n, hr_error *err)
{
    slot *slots = hr__alloc(g->account, (size_t)n * sizeof *slots);

    if (!slots)
        return hr__error_memory(err, "keys", n * (int64_t)sizeof *slots);
    for (int64_t i = 0; i < n; i++)
        slots[i].id = NONE;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t at = (int64_t)(g->hashes[i] & (uint64_t)(n - 1));

        while (slots[at].id != NONE)
            at = (at + 1) & (n - 1);
        slots[at] = (slot){ g->words[i], (uint32_t)i, wide_null(g, i) };
    }
    hr__free(g->slots);
    g->slots = slots;
    g->n_slots = n;
    return HR_OK;
}

hr_status hr__grouper_new(const hr_schema *schema, const int *columns, int n_columns, hr_account *account,
                          hr_grouper **out, hr_error *err)
{
    hr_grouper *g = hr__zalloc(account, sizeof *g);
    hr_status st = HR_OK;

    *out = NULL;
    if (n_columns > HR_MAX_KEYS)
        HR_FAIL(HR_UNSUPPORTED, "%d key columns; expected at most %d", n_columns, HR_MAX_KEYS);
    if (!g || !(g->columns = hr__zalloc(account, ((size_t)n_columns + 1) * sizeof *g->columns)))
        HR_GO(hr__error_memory(err, "keys", sizeof *g));
    g->account = account;
    g->n_columns = n_columns;
    for (int c = 0; c < n_columns; c++) {
        const hr_field *f = &schema->fields[columns[c]];
        key_column *k = &g->columns[c];

        if (!hr__type_is_groupable(f->type)) {
            hr_text type = { 0 };

            hr__type_print(f->type, &type);
            st = hr_error_set(err, HR_TYPE,
                              "column '%s' of type %s cannot be a key; expected numbers, times, text or bytes", f->name,
                              type.data ? type.data : "");
            hr__text_clear(&type);
            goto done;
        }
        k->type = hr__type_ref(f->type);
        k->at = columns[c];
        k->is_bool = f->type->id == HR_T_BOOL;
        k->width = width_of(f->type);
    }
    g->packed = pack(g);
    HR_GO(grow_slots(g, 256, err));
    *out = g;
    g = NULL;
done:
    hr__grouper_free(g);
    return st;
}

void hr__grouper_free(hr_grouper *g)
{
    if (!g)
        return;
    for (int c = 0; g->columns && c < g->n_columns; c++) {
        key_column *k = &g->columns[c];

        hr__type_unref(k->type);
        hr__free(k->values);
        hr__free(k->ends);
        hr__free(k->nulls);
    }
    hr__free(g->columns);
    hr__free(g->words);
    hr__free(g->hashes);
    hr__free(g->slots);
    hr__free(g);
}

/* ---------------------------------------------------------------------------------------------------- rows as words */

static uint64_t mix(uint64_t x)
{
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

/* The bits of value i (at most 8 bytes); equal values have equal bits. */
static inline uint64_t canonical_bits(const hr_array *a, hr_type_id id, const uint8_t *values, int width, int64_t i)
{
    uint64_t bits = 0;
    double d;
    float f;

    if (id == HR_T_BOOL)
        return hr__bit(a->buffers[1]->data, a->offset + i);
    memcpy(&bits, values + i * width, (size_t)width);
    if (id == HR_T_FLOAT64) {
        memcpy(&d, &bits, 8);
        return d == 0 ? 0 : isnan(d) ? UINT64_C(0x7ff8000000000000) : bits;
    }
    if (id == HR_T_FLOAT32) {
        memcpy(&f, &bits, 4);
        return f == 0 ? 0 : isnan(f) ? 0x7fc00000 : bits;
    }
    if (id == HR_T_FLOAT16)
        return (bits & 0x7fff) == 0 ? 0 : (bits & 0x7fff) > 0x7c00 ? 0x7e00 : bits;
    return bits;
}

/* Adds the values of a column to the words of n rows; a null sets only its null bit. */
static void pack_column(const key_column *k, const hr_array *a, int64_t begin, int64_t n, uint64_t *words)
{
    const uint8_t *values = a->type->id == HR_T_BOOL ? NULL : hr__array_values(a);
    hr_type_id id = a->type->id;
    bool nulls = id == HR_T_NULL || (a->buffers[0] && hr__array_null_count(a));
    int32_t v32;

    if (!nulls && k->width == 4 && id != HR_T_FLOAT32) {
        for (int64_t i = 0; i < n; i++) {
            memcpy(&v32, values + (begin + i) * 4, 4);
            words[i] |= (uint64_t)(uint32_t)v32 << k->shift;
        }
    } else if (!nulls && k->width == 1 && id != HR_T_BOOL) {
        for (int64_t i = 0; i < n; i++)
            words[i] |= (uint64_t)values[begin + i] << k->shift;
    } else
        for (int64_t i = 0; i < n; i++) {
            if (nulls && hr__array_is_null(a, begin + i))
                words[i] |= UINT64_C(1) << (k->shift - 1);
            else if (k->width)
                words[i] |= canonical_bits(a, id, values, k->width, begin + i) << k->shift;
        }
}

/* The words of a column of 64 bits. */
static void wide_column(const hr_array *a, int64_t begin, int64_t n, uint64_t *words)
{
    const uint8_t *values = hr__array_values(a);
    bool nulls = a->buffers[0] && hr__array_null_count(a);

    if (!nulls && a->type->id != HR_T_FLOAT64) {
        memcpy(words, values + begin * 8, (size_t)n * 8);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        words[i] = nulls && hr__array_is_null(a, begin + i) ? UINT64_C(0x9e3779b97f4a7c15)
                                                            : canonical_bits(a, a->type->id, values, 8, begin + i);
}

/* Hashes of at most BATCH rows; for packed keys the words, too. */
static void rows_keys(const hr_grouper *g, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                      uint64_t *words, uint64_t *hashes)
{
    if (!g->packed) {
        if (g->n_columns)
            hr__rows_hash(t, columns, g->n_columns, begin, n, hashes);
        else
            memset(hashes, 0, (size_t)n * sizeof *hashes);
        return;
    }
    if (g->wide)
        wide_column(t->columns[columns[0]], begin, n, words);
    else
        memset(words, 0, (size_t)n * sizeof *words);
    for (int c = 0; !g->wide && c < g->n_columns; c++)
        pack_column(&g->columns[c], t->columns[columns[c]], begin, n, words);
    for (int64_t i = 0; i < n; i++)
        hashes[i] = mix(words[i]);
}

/* -------------------------------------------------------------------------------------------------------- comparing */

/* Imported memory may end at the last byte. */
static bool has_slack(const hr_buffer *b)
{
    if (b->kind == HR_BUFFER_SLICE)
        b = b->owner;
    return b->kind == HR_BUFFER_INLINE || b->kind == HR_BUFFER_POOLED || b->kind == HR_BUFFER_ARENA;
}

static void open_views(const hr_grouper *g, const hr_table *t, const int *columns, key_view *views)
{
    for (int c = 0; c < g->n_columns; c++) {
        const hr_array *a = t->columns[columns[c]];
        hr_type_id id = a->type->id;
        key_view *v = &views[c];

        *v = (key_view){ .array = a, .nulls = id == HR_T_NULL || (a->buffers[0] && hr__array_null_count(a)) };
        if (hr__type_is_bytes(a->type)) {
            v->values = a->buffers[2] ? a->buffers[2]->data : NULL;
            v->slack = a->buffers[2] && has_slack(a->buffers[2]);
            if (hr__type_offset_bytes(a->type) == 4 && a->buffers[1])
                v->offsets = (const int32_t *)a->buffers[1]->data + a->offset;
        } else if (id == HR_T_FIXED_BINARY) {
            v->values = a->buffers[1] ? a->buffers[1]->data + a->offset * a->type->width : NULL;
        } else if (id != HR_T_BOOL && id != HR_T_NULL)
            v->values = hr__array_values(a);
        v->mask = g->columns[c].width >= 8 ? UINT64_MAX : (UINT64_C(1) << (8 * g->columns[c].width)) - 1;
        v->plain = v->values && g->columns[c].width && g->columns[c].width <= 8 && id != HR_T_FIXED_BINARY &&
                   !(id >= HR_T_FLOAT16 && id <= HR_T_FLOAT64) && has_slack(a->buffers[1]);
    }
}

static inline const uint8_t *text_at(const key_view *v, int64_t row, int64_t *n)
{
    if (!v->offsets)
        return hr__array_bytes(v->array, row, n);
    *n = v->offsets[row + 1] - v->offsets[row];
    return v->values + v->offsets[row];
}

/* 8 bytes after `kept` are readable; slack: so are those after p. */
static inline bool same_bytes(const uint8_t *kept, const uint8_t *p, int64_t n, bool slack)
{
    uint64_t x, y;

    if (!slack || n > 16)
        return !memcmp(kept, p, (size_t)n);
    memcpy(&x, kept, 8);
    memcpy(&y, p, 8);
    if (n <= 8)
        return n == 8 ? x == y : !((x ^ y) & ((UINT64_C(1) << (8 * n)) - 1)); /* little-endian, as all of Arrow */
    if (x != y)
        return false;
    memcpy(&x, kept + n - 8, 8);
    memcpy(&y, p + n - 8, 8);
    return x == y;
}

static inline bool column_equals(const key_column *k, int64_t id, const key_view *v, int64_t row)
{
    uint64_t kept = 0, bits = 0;
    int64_t n, begin;
    const uint8_t *p;

    if (v->nulls || k->n_nulls) {
        bool null = v->nulls && hr__array_is_null(v->array, row);

        if (null || k->nulls[id])
            return null && k->nulls[id];
    }
    if (!k->width) {
        p = text_at(v, row, &n);
        begin = id ? k->ends[id - 1] : 0;
        return n == k->ends[id] - begin && (!n || same_bytes(k->values + begin, p, n, v->slack));
    }
    if (k->width > 8 || v->array->type->id == HR_T_FIXED_BINARY)
        return !memcmp(k->values + id * k->width, v->values + row * k->width, (size_t)k->width);
    memcpy(&kept, k->values + id * k->width, 8);
    if (v->plain)
        memcpy(&bits, v->values + row * k->width, 8);
    else
        bits = canonical_bits(v->array, v->array->type->id, v->values, k->width, row);
    return !((kept ^ bits) & v->mask);
}

static bool key_equals(const hr_grouper *g, int64_t id, const key_view *views, int64_t row)
{
    for (int c = 0; c < g->n_columns; c++)
        if (!column_equals(&g->columns[c], id, &views[c], row))
            return false;
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- adding */

/* Makes room for n more keys, except for bytes of text. */
static hr_status make_room(hr_grouper *g, int64_t n, hr_error *err)
{
    int64_t all = g->n + n, want = g->n_slots;

    if (all >= NONE)
        return hr_error_set(err, HR_UNSUPPORTED, "keys: more than %u different keys", NONE - 1);
    if (!hr__grow(g->account, (void **)&g->hashes, &g->cap_hashes, all, sizeof *g->hashes) ||
        !hr__grow(g->account, (void **)&g->words, &g->cap_words, all, sizeof *g->words))
        return hr__error_memory(err, "keys", all * 8);
    for (int c = 0; c < g->n_columns; c++) {
        key_column *k = &g->columns[c];

        if (!hr__grow(g->account, (void **)&k->nulls, &k->cap_nulls, all, 1) ||
            (k->width && !hr__grow(g->account, (void **)&k->values, &k->cap_values, all * k->width + 8, 1)) ||
            (!k->width && !hr__grow(g->account, (void **)&k->ends, &k->cap_ends, all, sizeof *k->ends)))
            return hr__error_memory(err, "keys", all * (k->width + 8));
    }
    while (all * 2 > want)
        want *= 2;
    return want > g->n_slots ? grow_slots(g, want, err) : HR_OK;
}

static hr_status keep_text(hr_grouper *g, key_column *k, const key_view *v, bool null, int64_t row, hr_error *err)
{
    int64_t n = 0, begin = g->n ? k->ends[g->n - 1] : 0;
    const uint8_t *p = null ? NULL : text_at(v, row, &n);

    if (!hr__grow(g->account, (void **)&k->values, &k->cap_values, begin + n + 8, 1))
        return hr__error_memory(err, "keys", begin + n);
    if (n)
        memcpy(k->values + begin, p, (size_t)n);
    k->ends[g->n] = begin + n;
    return HR_OK;
}

static hr_status keep_key(hr_grouper *g, const key_view *views, int64_t row, uint64_t word, uint64_t hash,
                          hr_error *err)
{
    for (int c = 0; c < g->n_columns; c++) {
        key_column *k = &g->columns[c];
        const key_view *v = &views[c];
        bool null = v->nulls && hr__array_is_null(v->array, row);
        uint8_t *to = k->width ? k->values + g->n * k->width : NULL;
        uint64_t bits;

        k->nulls[g->n] = null;
        k->n_nulls += null;
        if (k->type->id == HR_T_NULL)
            k->ends[g->n] = 0;
        else if (!k->width)
            HR_TRY(keep_text(g, k, v, null, row, err));
        else if (null)
            memset(to, 0, (size_t)k->width);
        else if (k->width > 8 || k->type->id == HR_T_FIXED_BINARY)
            memcpy(to, v->values + row * k->width, (size_t)k->width);
        else {
            bits = canonical_bits(v->array, k->type->id, v->values, k->width, row);
            memcpy(to, &bits, 8); /* the buffer has room for 8 bytes */
        }
    }
    g->words[g->n] = word;
    g->hashes[g->n] = hash;
    return HR_OK;
}

/* The slot of a key, or the free slot for it. */
static inline int64_t slot_of(const hr_grouper *g, const key_view *views, int64_t row, uint64_t word, uint64_t hash)
{
    int64_t mask = g->n_slots - 1, at = (int64_t)(hash & (uint64_t)mask);

    for (;; at = (at + 1) & mask) {
        const slot *s = &g->slots[at];

        if (s->id == NONE)
            return at;
        if (s->word != word)
            continue;
        if (!g->packed) {
            if (key_equals(g, s->id, views, row))
                return at;
        } else if (!g->wide || s->null == (views[0].nulls && hr__array_is_null(views[0].array, row)))
            return at;
    }
}

#define PREFETCH_SLOTS (1 << 13) /* larger tables do not fit in the first cache */

static void prefetch_slots(const hr_grouper *g, const uint64_t *hashes, int64_t n)
{
    if (g->n_slots >= PREFETCH_SLOTS)
        for (int64_t i = 0; i < n; i++)
            __builtin_prefetch(&g->slots[hashes[i] & (uint64_t)(g->n_slots - 1)]);
}

static hr_status add_batch(hr_grouper *g, const hr_table *t, const int *columns, const key_view *views, int64_t begin,
                           int64_t n, uint32_t *ids, hr_error *err)
{
    uint64_t words[BATCH], hashes[BATCH];

    rows_keys(g, t, columns, begin, n, words, hashes);
    HR_TRY(make_room(g, n, err));
    prefetch_slots(g, hashes, n);
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = g->packed ? words[i] : hashes[i];
        slot *s = &g->slots[slot_of(g, views, begin + i, word, hashes[i])];

        if (s->id == NONE) {
            HR_TRY(keep_key(g, views, begin + i, word, hashes[i], err));
            *s = (slot){ word, (uint32_t)g->n, wide_null(g, g->n) };
            g->n++;
        }
        ids[i] = s->id;
    }
    return HR_OK;
}

/* The indexes of the key columns in the input tables. */
static void own_columns(const hr_grouper *g, int *columns)
{
    for (int c = 0; c < g->n_columns; c++)
        columns[c] = g->columns[c].at;
}

/* Without key columns all rows are one group. */
static hr_status add_to_the_only(hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint32_t *ids,
                                 hr_error *err)
{
    if (!n)
        return HR_OK;
    HR_TRY(add_batch(g, t, NULL, NULL, begin, 1, ids, err));
    memset(ids, 0, (size_t)n * sizeof *ids);
    return HR_OK;
}

__attribute__((aligned(64))) /* its inlined loops lie on the same cache lines wherever the linker puts it */
hr_status
hr__grouper_add(hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint32_t *ids, hr_error *err)
{
    int columns[HR_MAX_KEYS];
    key_view views[HR_MAX_KEYS];
    hr_status st = HR_OK;

    if (!g->n_columns)
        return add_to_the_only(g, t, begin, n, ids, err);
    own_columns(g, columns);
    open_views(g, t, columns, views);
    for (int64_t i = 0; i < n && !st; i += BATCH)
        st = add_batch(g, t, columns, views, begin + i, HR_MIN(BATCH, n - i), ids + i, err);
    return st;
}

void hr__grouper_hash(const hr_grouper *g, const hr_table *t, int64_t begin, int64_t n, uint64_t *out)
{
    uint64_t words[BATCH];
    int columns[HR_MAX_KEYS];

    own_columns(g, columns);
    for (int64_t i = 0; i < n; i += BATCH)
        rows_keys(g, t, columns, begin + i, HR_MIN(BATCH, n - i), words, out + i);
}

/* ---------------------------------------------------------------------------------------------------------- columns */

static hr_status key_validity(const hr_grouper *g, const key_column *k, const hr_mem *mem, hr_buffer **out,
                              hr_error *err)
{
    *out = NULL;
    if (!k->n_nulls || k->type->id == HR_T_NULL)
        return HR_OK;
    HR_TRY(hr__buffer_new(mem, hr__bits_bytes(g->n), out, err));
    memset((*out)->data, 0, (size_t)(*out)->n_bytes);
    for (int64_t i = 0; i < g->n; i++)
        if (!k->nulls[i])
            hr__bit_set((*out)->data, i);
    return HR_OK;
}

static hr_status key_offsets(const hr_grouper *g, const key_column *k, const hr_mem *mem, hr_buffer **out,
                             hr_error *err)
{
    int bytes = hr__type_offset_bytes(k->type);
    int64_t n_bytes = g->n ? k->ends[g->n - 1] : 0;

    if (bytes == 4 && n_bytes > INT32_MAX)
        return hr_error_set(err, HR_BUDGET, "keys: more than 2 GiB of text in one table");
    HR_TRY(hr__buffer_new(mem, (g->n + 1) * bytes, out, err));
    for (int64_t i = 0; i <= g->n; i++) {
        int64_t end = i ? k->ends[i - 1] : 0;

        if (bytes == 4)
            ((int32_t *)(*out)->data)[i] = (int32_t)end;
        else
            ((int64_t *)(*out)->data)[i] = end;
    }
    return HR_OK;
}

static hr_status key_values(const hr_grouper *g, const key_column *k, const hr_mem *mem, hr_buffer *buffers[3],
                            hr_error *err)
{
    int64_t n_bytes = k->width ? g->n * k->width : g->n ? k->ends[g->n - 1] : 0;

    if (k->type->id == HR_T_NULL)
        return HR_OK;
    if (k->is_bool) {
        HR_TRY(hr__buffer_new(mem, hr__bits_bytes(g->n), &buffers[1], err));
        memset(buffers[1]->data, 0, (size_t)buffers[1]->n_bytes);
        for (int64_t i = 0; i < g->n; i++)
            if (k->values[i])
                hr__bit_set(buffers[1]->data, i);
        return HR_OK;
    }
    if (!k->width && k->type->id != HR_T_FIXED_BINARY) {
        HR_TRY(key_offsets(g, k, mem, &buffers[1], err));
        return hr__buffer_copy(mem, k->values, n_bytes, &buffers[2], err);
    }
    return hr__buffer_copy(mem, k->values, n_bytes, &buffers[1], err);
}

static hr_status key_array(const hr_grouper *g, const key_column *k, const hr_mem *mem, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { 0 };
    hr_status st = HR_OK;

    HR_GO(key_validity(g, k, mem, &buffers[0], err));
    HR_GO(key_values(g, k, mem, buffers, err));
    return hr__array_new(k->type, g->n, k->n_nulls, buffers, NULL, 0, out, err);
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

hr_status hr__grouper_keys(const hr_grouper *g, const hr_mem *mem, hr_array **out, hr_error *err)
{
    memset(out, 0, (size_t)g->n_columns * sizeof *out);
    for (int c = 0; c < g->n_columns; c++) {
        hr_status st = key_array(g, &g->columns[c], mem, &out[c], err);

        if (!st)
            continue;
        for (int k = 0; k < c; k++) {
            hr__array_unref(out[k]);
            out[k] = NULL;
        }
        return st;
    }
    return HR_OK;
}
