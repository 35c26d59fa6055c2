/* join_hash.c - a hash table of rows: finds the first row of each key.
 *
 * Open addressing with slots of 4 bytes: a row number in the low bits, bits of its hash in the rest. A table of a
 * million rows takes 8 MB; usually the hash bits alone show that a key is absent. Keys are not copied: rows are
 * compared in place. A look-up makes three reads from cold memory (slot, place of the value, value): steps of BATCH
 * rows prefetch all reads of one kind before they use the first.
 *
 * The slots of a large table are divided into regions by bits of the hash. Threads list rows by region, chunk by chunk;
 * then one thread fills each region with its rows in their order. So the first row of a key does not depend on threads.
 *
 * Tests: test_join_keys.c, test_keyed.c. */
#include "data/keys.h"
#include "op/join/join.h"

#define BATCH 1024
#define REGIONS 16             /* of slots; one thread fills each */
#define REGIONS_FROM (1 << 17) /* rows */

/* A column of keys, prepared for fast comparison. */
typedef struct hr_join_key {
    bool is_integer;
    int bytes; /* of a value, or of an offset; 0: neither */
    const uint8_t *values;
    const uint8_t *text; /* NULL: no text column, or all texts are empty */
} hr_join_key;

struct hr_join_hash {
    const hr_table *rows; /* borrowed */
    int columns[HR_MAX_KEYS], n_columns;
    hr_join_key keys[HR_MAX_KEYS];
    uint32_t *slots; /* 0: free */
    int n_regions;   /* REGIONS or 1; a power of two of slots each */
    uint32_t mask;   /* within a region */
    int region_shift;
    uint32_t row_mask; /* bits of a slot that hold its row + 1 */
};

/* Without the highest bits: they are equal for all rows of a partition. */
static inline uint32_t short_hash(uint64_t hash) { return (uint32_t)(hash >> 16); }

static inline uint32_t tag_of(const hr_join_hash *h, uint32_t hash) { return hash & ~h->row_mask; }

static inline int64_t row_in(const hr_join_hash *h, uint32_t slot) { return (int64_t)(slot & h->row_mask) - 1; }

/* From bits that short_hash leaves out. */
static inline uint32_t region_of(const hr_join_hash *h, uint64_t hash)
{
    return (uint32_t)hash & (uint32_t)(h->n_regions - 1);
}

static inline uint32_t first_slot(const hr_join_hash *h, uint32_t region, uint32_t hash)
{
    return region << h->region_shift | (hash & h->mask);
}

/* The next slot of the same region. */
static inline uint32_t slot_behind(const hr_join_hash *h, uint32_t at)
{
    return (at & ~h->mask) | ((at + 1) & h->mask);
}

/* The first slot from `at` on with this tag, or a free one. */
static inline uint32_t next_slot(const hr_join_hash *h, uint32_t at, uint32_t tag)
{
    for (;; at = slot_behind(h, at)) {
        uint32_t s = h->slots[at];

        if (!s || ((s ^ tag) & ~h->row_mask) == 0)
            return at;
    }
}

/* ----------------------------------------------------------------------------------------------------------- values */

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

static bool is_text(const hr_array *a) { return a->type->id == HR_T_STRING || a->type->id == HR_T_BINARY; }

/* ----------------------------------------------------------------------------------------------------------- making */

typedef struct making {
    hr_join_hash *h;
    hr_account *account;
    uint32_t *ids;
    int n_lists;      /* regions at first */
    uint16_t *rows;   /* each chunk's rows by region, in their order */
    uint32_t *hashes; /* of these rows */
    uint32_t *ends;   /* of each chunk: the end of each region's list; rows without a key are in no list */
    atomic_bool full; /* a region is full: the hashes are not spread evenly */
} making;

#define CHUNK_ROWS 65536

static void list_chunk(making *m, int64_t chunk, const uint64_t *hashes, int64_t n)
{
    uint32_t *ids = m->ids + chunk * CHUNK_ROWS, *ends = m->ends + chunk * m->n_lists, begin = 0;

    memset(ends, 0, (size_t)m->n_lists * sizeof *ends);
    for (int64_t i = 0; i < n; i++)
        ends[region_of(m->h, hashes[i])] += ids[i] != HR_NO_KEY;
    for (int k = 0; k < m->n_lists; k++) {
        uint32_t some = ends[k];

        ends[k] = begin;
        begin += some;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t at;

        if (ids[i] == HR_NO_KEY)
            continue;
        at = chunk * CHUNK_ROWS + ends[region_of(m->h, hashes[i])]++;
        m->rows[at] = (uint16_t)i;
        m->hashes[at] = short_hash(hashes[i]);
        ids[i] = (uint32_t)(chunk * CHUNK_ROWS + i); /* until an earlier row turns out to be the first */
    }
}

static hr_status hash_chunk(void *context, int64_t chunk, hr_error *err)
{
    making *m = context;
    const hr_join_hash *h = m->h;
    int64_t begin = chunk * CHUNK_ROWS, n = HR_MIN(CHUNK_ROWS, h->rows->n_rows - begin);

    uint64_t *hashes = hr__alloc(m->account, (size_t)n * sizeof *hashes);

    if (!hashes)
        return hr__error_memory(err, "join", n * 8);
    hr__rows_hash(h->rows, h->columns, h->n_columns, begin, n, hashes);
    memset(m->ids + begin, 0, (size_t)n * sizeof *m->ids);
    hr__join_no_nulls(h->rows, h->columns, h->n_columns, begin, n, m->ids + begin);
    list_chunk(m, chunk, hashes, n);
    hr__free(hashes);
    return HR_OK;
}

/* Prefetch what a comparison of the row reads: ask_offsets the values or offsets, ask_texts the texts. */
static void ask_offsets(const hr_join_hash *h, int64_t row)
{
    for (int k = 0; k < h->n_columns; k++)
        if (h->keys[k].bytes)
            __builtin_prefetch(h->keys[k].values + row * h->keys[k].bytes);
}

static void ask_texts(const hr_join_hash *h, int64_t row)
{
    for (int k = 0; k < h->n_columns; k++)
        if (h->keys[k].text)
            __builtin_prefetch(h->keys[k].text + ((const int32_t *)(const void *)h->keys[k].values)[row]);
}

static inline bool same_integer(const hr_join_key *c, int64_t x, int64_t y)
{
    if (c->bytes == 8)
        return ((const uint64_t *)(const void *)c->values)[x] == ((const uint64_t *)(const void *)c->values)[y];
    if (c->bytes == 4)
        return ((const uint32_t *)(const void *)c->values)[x] == ((const uint32_t *)(const void *)c->values)[y];
    return !memcmp(c->values + x * c->bytes, c->values + y * c->bytes, (size_t)c->bytes);
}

/* Whether rows x and y of the table have equal keys. */
static bool same_rows(const hr_join_hash *h, int64_t x, int64_t y)
{
    for (int k = 0; k < h->n_columns; k++) {
        const hr_join_key *c = &h->keys[k];

        if (c->text) {
            const int32_t *at = (const int32_t *)(const void *)c->values;
            int64_t n = at[x + 1] - at[x];

            if (n != at[y + 1] - at[y] || !same_bytes(c->text + at[x], c->text + at[y], n))
                return false;
        } else if (c->is_integer) {
            if (!same_integer(c, x, y))
                return false;
        } else if (!hr__rows_equal(h->rows, &h->columns[k], x, h->rows, &h->columns[k], y, 1))
            return false;
    }
    return true;
}

/* Some rows of one region, in their order. */
typedef struct batch {
    int n;
    int64_t n_keys; /* keys added so far */
    uint32_t region;
    uint32_t rows[BATCH], hashes[BATCH], at[BATCH];
} batch;

static void find_slots(const hr_join_hash *h, batch *b)
{
    for (int i = 0; i < b->n; i++)
        __builtin_prefetch(&h->slots[first_slot(h, b->region, b->hashes[i])]);
    for (int i = 0; i < b->n; i++) {
        b->at[i] = next_slot(h, first_slot(h, b->region, b->hashes[i]), tag_of(h, b->hashes[i]));
        if (h->slots[b->at[i]]) {
            ask_offsets(h, row_in(h, h->slots[b->at[i]]));
            ask_offsets(h, b->rows[i]);
        }
    }
    for (int i = 0; i < b->n; i++)
        if (h->slots[b->at[i]]) {
            ask_texts(h, row_in(h, h->slots[b->at[i]]));
            ask_texts(h, b->rows[i]);
        }
}

/* Adds the batch's rows, if the region has room for them. */
static void add_batch(making *m, batch *b)
{
    hr_join_hash *h = m->h;

    if (b->n_keys + BATCH > h->mask) {
        atomic_store(&m->full, true);
        b->n = 0;
        return;
    }
    find_slots(h, b);
    for (int i = 0; i < b->n; i++) {
        uint32_t row = b->rows[i], tag = tag_of(h, b->hashes[i]);
        uint32_t at = next_slot(h, b->at[i], tag); /* an earlier row of the batch may have taken it */

        while (h->slots[at] && !same_rows(h, row_in(h, h->slots[at]), row))
            at = next_slot(h, slot_behind(h, at), tag);
        if (h->slots[at]) {
            m->ids[row] = (uint32_t)row_in(h, h->slots[at]);
        } else {
            h->slots[at] = tag | (row + 1);
            b->n_keys++;
        }
    }
    b->n = 0;
}

static void add_list(making *m, int64_t chunk, int list, batch *b)
{
    const uint32_t *ends = m->ends + chunk * m->n_lists;

    for (int64_t i = list ? ends[list - 1] : 0; i < ends[list]; i++) {
        b->rows[b->n] = (uint32_t)(chunk * CHUNK_ROWS + m->rows[chunk * CHUNK_ROWS + i]);
        b->hashes[b->n++] = m->hashes[chunk * CHUNK_ROWS + i];
        if (b->n == BATCH)
            add_batch(m, b);
    }
}

static void clear_slots(hr_join_hash *h, int64_t region)
{
    memset(h->slots + region * ((int64_t)h->mask + 1), 0, ((size_t)h->mask + 1) * sizeof *h->slots);
}

/* Adds all rows of a region until it is full. */
static hr_status fill_region(void *context, int64_t region, hr_error *err)
{
    making *m = context;
    int64_t n_chunks = HR_ROUND_UP(m->h->rows->n_rows, CHUNK_ROWS) / CHUNK_ROWS;
    batch b = { .region = (uint32_t)region };

    (void)err;
    clear_slots(m->h, region);
    for (int64_t c = 0; c < n_chunks && !atomic_load(&m->full); c++)
        add_list(m, c, (int)region, &b);
    add_batch(m, &b);
    return HR_OK;
}

/* Adds all rows to one region, when the regions are not filled evenly. */
static void fill_one(making *m)
{
    int64_t n_chunks = HR_ROUND_UP(m->h->rows->n_rows, CHUNK_ROWS) / CHUNK_ROWS;
    batch b = { 0 };

    clear_slots(m->h, 0);
    for (int64_t c = 0; c < n_chunks; c++)
        for (int k = 0; k < m->n_lists; k++)
            add_list(m, c, k, &b);
    add_batch(m, &b);
}

/* Allocates the regions of slots. */
static hr_status cut_slots(making *m, int n_regions, hr_error *err)
{
    hr_join_hash *h = m->h;
    int64_t n_slots = 4 * BATCH;

    while (n_slots * n_regions < 2 * h->rows->n_rows)
        n_slots *= 2;
    h->n_regions = n_regions;
    h->mask = (uint32_t)(n_slots - 1);
    h->region_shift = __builtin_ctzll((unsigned long long)n_slots);
    hr__free(h->slots);
    h->slots = hr__alloc(m->account, (size_t)(n_slots * n_regions) * sizeof *h->slots);
    return h->slots ? HR_OK : hr__error_memory(err, "join", n_slots * n_regions * 4);
}

static void see_keys(hr_join_hash *h)
{
    for (int k = 0; k < h->n_columns; k++) {
        const hr_array *a = h->rows->columns[h->columns[k]];
        hr_join_key *c = &h->keys[k];

        c->is_integer = hr__join_is_integer(a->type);
        if (c->is_integer) {
            c->bytes = hr__type_bytes(a->type);
            c->values = hr__array_values(a);
        } else if (is_text(a) && bytes_of(a)) {
            c->bytes = sizeof(int32_t);
            c->values = (const uint8_t *)(const void *)offsets_of(a);
            c->text = bytes_of(a);
        }
    }
}

hr_status hr__join_hash_new(const hr_table *rows, const int *columns, int n_columns, hr_task *task, hr_account *account,
                            uint32_t *ids, hr_join_hash **out, hr_error *err)
{
    hr_join_hash *h = hr__zalloc(account, sizeof *h);
    making m = { .h = h, .account = account, .ids = ids };
    int64_t n_chunks = HR_ROUND_UP(rows->n_rows, CHUNK_ROWS) / CHUNK_ROWS;
    hr_status st = HR_OK;

    *out = NULL;
    if (!h)
        return hr__error_memory(err, "join", sizeof *h);
    h->rows = rows;
    h->n_columns = n_columns;
    memcpy(h->columns, columns, (size_t)n_columns * sizeof *columns);
    see_keys(h);
    h->row_mask = 255;
    while (h->row_mask < rows->n_rows)
        h->row_mask = 2 * h->row_mask + 1;
    m.n_lists = rows->n_rows < REGIONS_FROM ? 1 : REGIONS;
    m.rows = hr__alloc(account, (size_t)(rows->n_rows + 1) * sizeof *m.rows);
    m.hashes = hr__alloc(account, (size_t)(rows->n_rows + 1) * sizeof *m.hashes);
    m.ends = hr__alloc(account, (size_t)(n_chunks * m.n_lists + 1) * sizeof *m.ends);
    if (!m.rows || !m.hashes || !m.ends)
        HR_GO(hr__error_memory(err, "join", rows->n_rows * 6));
    HR_GO(cut_slots(&m, m.n_lists, err));
    HR_GO(hr__task_share(task, n_chunks, hash_chunk, &m, err));
    HR_GO(hr__task_share(task, h->n_regions, fill_region, &m, err));
    if (atomic_load(&m.full)) {
        HR_GO(cut_slots(&m, 1, err));
        fill_one(&m);
    }
    *out = h;
    h = NULL;
done:
    hr__free(m.hashes);
    hr__free(m.rows);
    hr__free(m.ends);
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

/* ------------------------------------------------------------------------------------------------------- looking up */

/* Rows whose slots have the right tag: row `begin + at[i]` may have the key of row[i]. */
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
    } else if (is_text(a)) {
        same_texts(c, a, begin, b);
    } else
        for (int i = 0; i < c->n; i++)
            c->same[i] &= hr__rows_equal(t, &columns[k], begin + c->at[i], h->rows, &h->columns[k], c->row[i], 1);
}

/* Continues the look-up after a slot with the right tag had another key. */
static uint32_t look_on(const hr_join_hash *h, const hr_table *t, const int *columns, int64_t row, uint64_t hash,
                        int64_t wrong)
{
    uint32_t tag = tag_of(h, short_hash(hash));
    uint32_t at = next_slot(h, first_slot(h, region_of(h, hash), short_hash(hash)), tag);

    for (; h->slots[at]; at = next_slot(h, slot_behind(h, at), tag)) {
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
        __builtin_prefetch(&h->slots[first_slot(h, region_of(h, hashes[i]), short_hash(hashes[i]))]);
    c.n = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t hash = short_hash(hashes[i]),
                 slot = h->slots[next_slot(h, first_slot(h, region_of(h, hashes[i]), hash), tag_of(h, hash))];

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
