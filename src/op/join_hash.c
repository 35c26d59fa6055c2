/* join_hash.c - rows by the hash of some of their columns: the first row of each key.
 *
 * Slots of 4 bytes in open addressing: the number of a row and, above it, as many bits of its hash as are left. So a table of a
 * million rows takes 8 MB; a key that is not there is told by these bits alone. Keys are not copied, rows are compared where they
 * stand. A look-up is three reads from memory that nobody has touched before (slot, place of the value, value): steps of BATCH rows
 * ask for all of one kind before they look at the first. */
#include "core/keys.h"
#include "op/join.h"

#define BATCH 1024

struct hr_join_hash {
    const hr_table *rows; /* borrowed */
    int columns[HR_MAX_KEYS], n_columns;
    uint32_t *slots; /* 0: free */
    uint64_t mask;
    uint32_t row_mask; /* of a slot: its row + 1 */
};

static inline uint32_t tag_of(const hr_join_hash *h, uint64_t hash) { return (uint32_t)(hash >> 24) & ~h->row_mask; }

static inline int64_t row_in(const hr_join_hash *h, uint32_t slot) { return (int64_t)(slot & h->row_mask) - 1; }

/* From `at` on: the next slot with these bits, or a free one. */
static inline uint64_t next_slot(const hr_join_hash *h, uint64_t at, uint32_t tag)
{
    for (;; at++) {
        uint32_t s = h->slots[at & h->mask];

        if (!s || ((s ^ tag) & ~h->row_mask) == 0)
            return at & h->mask;
    }
}

/* --------------------------------------------------------------------------------------------------------------- making */

static uint64_t slot_of_row(const hr_join_hash *h, int64_t row, uint64_t hash)
{
    uint32_t tag = tag_of(h, hash);
    uint64_t at = next_slot(h, hash, tag);

    while (h->slots[at] &&
           !hr__rows_equal(h->rows, h->columns, row_in(h, h->slots[at]), h->rows, h->columns, row, h->n_columns))
        at = next_slot(h, at + 1, tag);
    return at;
}

static void add_batch(hr_join_hash *h, int64_t begin, int64_t n, uint32_t *ids)
{
    uint64_t hashes[BATCH];

    hr__rows_hash(h->rows, h->columns, h->n_columns, begin, n, hashes);
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(&h->slots[hashes[i] & h->mask]);
    memset(ids, 0, (size_t)n * sizeof *ids);
    hr__join_no_nulls(h->rows, h->columns, h->n_columns, begin, n, ids);
    for (int64_t i = 0; i < n; i++) {
        uint64_t at;

        if (ids[i] == HR_NO_KEY)
            continue;
        at = slot_of_row(h, begin + i, hashes[i]);
        if (!h->slots[at])
            h->slots[at] = tag_of(h, hashes[i]) | (uint32_t)(begin + i + 1);
        ids[i] = (uint32_t)row_in(h, h->slots[at]);
    }
}

hr_status hr__join_hash_new(const hr_table *rows, const int *columns, int n_columns, hr_account *account, uint32_t *ids,
                            hr_join_hash **out, hr_error *err)
{
    hr_join_hash *h = hr__zalloc(account, sizeof *h);
    int64_t n_slots = 256;
    hr_status st = HR_OK;

    *out = NULL;
    if (!h)
        return hr__error_memory(err, "join", sizeof *h);
    h->rows = rows;
    h->n_columns = n_columns;
    memcpy(h->columns, columns, (size_t)n_columns * sizeof *columns);
    while (n_slots < 2 * rows->n_rows)
        n_slots *= 2;
    h->mask = (uint64_t)n_slots - 1;
    h->row_mask = 255;
    while (h->row_mask < rows->n_rows)
        h->row_mask = 2 * h->row_mask + 1;
    if (!(h->slots = hr__zalloc(account, (size_t)n_slots * sizeof *h->slots)))
        HR_GO(hr__error_memory(err, "join", n_slots * 4));
    for (int64_t i = 0; i < rows->n_rows; i += BATCH)
        add_batch(h, i, HR_MIN(BATCH, rows->n_rows - i), ids + i);
    *out = h;
    h = NULL;
done:
    hr__join_hash_free(h);
    return st;
}

void hr__join_hash_free(hr_join_hash *h)
{
    if (!h)
        return;
    hr__free(h->slots);
    hr__free(h);
}

/* ---------------------------------------------------------------------------------------------------------- looking up */

/* Rows whose slots look right: row `begin + at[i]` may have the key of row[i]. */
typedef struct candidates {
    int n;
    uint16_t at[BATCH];
    uint32_t row[BATCH];
    uint8_t same[BATCH];
} candidates;

#define SAME(T)                                                                                                        \
    {                                                                                                                  \
        const T *x = (const T *)(const void *)hr__array_values(a) + begin;                                             \
        const T *y = (const T *)(const void *)hr__array_values(b);                                                     \
                                                                                                                       \
        for (int i = 0; i < c->n; i++)                                                                                 \
            c->same[i] &= x[c->at[i]] == y[c->row[i]];                                                                 \
    }

static void same_integers(candidates *c, const hr_array *a, int64_t begin, const hr_array *b)
{
    int bytes = hr__type_bytes(a->type);

    for (int i = 0; i < c->n; i++)
        __builtin_prefetch(hr__array_values(b) + (int64_t)c->row[i] * bytes);
    switch (bytes) {
    case 1: SAME(uint8_t) break;
    case 2: SAME(uint16_t) break;
    case 4: SAME(uint32_t) break;
    default: SAME(uint64_t) break;
    }
}

static inline bool same_bytes(const uint8_t *x, const uint8_t *y, int64_t n)
{
    uint64_t a, b;

    if (n < 8 || n > 16)
        return n == 0 || !memcmp(x, y, (size_t)n);
    memcpy(&a, x, 8);
    memcpy(&b, y, 8);
    if (a != b)
        return false;
    memcpy(&a, x + n - 8, 8);
    memcpy(&b, y + n - 8, 8);
    return a == b;
}

static const int32_t *offsets_of(const hr_array *a)
{
    return (const int32_t *)(const void *)a->buffers[1]->data + a->offset;
}

static const uint8_t *bytes_of(const hr_array *a) { return a->buffers[2] ? a->buffers[2]->data : NULL; }

static void same_texts(candidates *c, const hr_array *a, int64_t begin, const hr_array *b)
{
    const int32_t *x = offsets_of(a) + begin, *y = offsets_of(b);
    const uint8_t *p = bytes_of(a), *q = bytes_of(b);

    for (int i = 0; i < c->n; i++)
        __builtin_prefetch(&y[c->row[i]]);
    for (int i = 0; i < c->n; i++)
        if (q)
            __builtin_prefetch(q + y[c->row[i]]);
    for (int i = 0; i < c->n; i++) {
        int64_t n = x[c->at[i] + 1] - x[c->at[i]];

        if (n != y[c->row[i] + 1] - y[c->row[i]])
            c->same[i] = 0;
        else if (n)
            c->same[i] &= same_bytes(p + x[c->at[i]], q + y[c->row[i]], n);
    }
}

static void same_column(const hr_join_hash *h, candidates *c, int k, const hr_table *t, const int *columns,
                        int64_t begin)
{
    const hr_array *a = t->columns[columns[k]], *b = h->rows->columns[h->columns[k]];

    if (hr__join_is_integer(a->type)) {
        same_integers(c, a, begin, b);
    } else if (a->type->id == HR_T_STRING || a->type->id == HR_T_BINARY) {
        same_texts(c, a, begin, b);
    } else
        for (int i = 0; i < c->n; i++)
            c->same[i] &= hr__rows_equal(t, &columns[k], begin + c->at[i], h->rows, &h->columns[k], c->row[i], 1);
}

/* Where the first slot that looked right was another key's. */
static uint32_t look_on(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t row, uint64_t hash,
                        int64_t wrong)
{
    uint32_t tag = tag_of(h, hash);
    uint64_t at = next_slot(h, hash, tag);

    for (; h->slots[at]; at = next_slot(h, at + 1, tag)) {
        int64_t found = row_in(h, h->slots[at]);

        if (found != wrong && hr__rows_equal(t, columns, row, h->rows, h->columns, found, h->n_columns))
            return (uint32_t)found;
    }
    return HR_NO_KEY;
}

static void find_batch(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                       uint32_t *ids)
{
    uint64_t hashes[BATCH];
    candidates c;

    hr__rows_hash(t, columns, h->n_columns, begin, n, hashes);
    for (int64_t i = 0; i < n; i++)
        __builtin_prefetch(&h->slots[hashes[i] & h->mask]);
    c.n = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t slot = h->slots[next_slot(h, hashes[i], tag_of(h, hashes[i]))];

        ids[i] = HR_NO_KEY;
        c.at[c.n] = (uint16_t)i;
        c.row[c.n] = (uint32_t)row_in(h, slot);
        c.n += slot != 0;
    }
    memset(c.same, 1, (size_t)c.n);
    for (int k = 0; c.n && k < h->n_columns; k++)
        same_column(h, &c, k, t, columns, begin);
    for (int i = 0; i < c.n; i++)
        ids[c.at[i]] = c.same[i] ? c.row[i] : look_on(h, t, columns, begin + c.at[i], hashes[c.at[i]], c.row[i]);
}

void hr__join_hash_find(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t begin, int64_t n,
                        uint32_t *ids)
{
    for (int64_t i = 0; i < n; i += BATCH)
        find_batch(h, t, columns, begin + i, HR_MIN(BATCH, n - i), ids + i);
}
