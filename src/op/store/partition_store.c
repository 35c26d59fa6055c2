/* partition_store.c - tables in partitions, in memory or spilled (see partition_store.h).
 *
 * A partition is a list of items: tables, and places of spilled tables. Spilling writes the tables of a partition; one
 * spilled table can replace several items, and the list closes up. */
#include "op/store/partition_store.h"

typedef struct item {
    hr_table *table; /* NULL: on disk, or taken by a cursor */
    hr_spilled_table place;
    bool fresh; /* just written: the partition does not have it yet */
} item;

typedef struct part {
    item *items;
    int64_t n, cap;
    hr_partition_store_size size;
} part;

struct hr_partition_store {
    hr_account *account;
    hr_schema *schema;
    hr_spill_file *spill;
    int64_t held;
    int n_parts;
    part parts[];
};

hr_status hr__partition_store_new(int n_parts, hr_schema *schema, hr_spill_file *spill, hr_account *account,
                                  hr_partition_store **out, hr_error *err)
{
    size_t n_bytes = sizeof(hr_partition_store) + (size_t)n_parts * sizeof(part);
    hr_partition_store *s = hr__zalloc(account, n_bytes);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "store", (int64_t)n_bytes);
    s->account = hr__account_ref(account);
    s->schema = hr__schema_ref(schema);
    s->spill = hr__spill_file_ref(spill);
    s->n_parts = n_parts;
    *out = s;
    return HR_OK;
}

static void item_clear(hr_partition_store *s, item *i)
{
    hr_table_unref(i->table);
    hr__spill_file_forget(s->spill, &i->place);
    *i = (item){ 0 };
}

void hr__partition_store_free(hr_partition_store *s)
{
    hr_account *account;

    if (!s)
        return;
    for (int p = 0; p < s->n_parts; p++) {
        for (int64_t i = 0; i < s->parts[p].n; i++)
            item_clear(s, &s->parts[p].items[i]);
        hr__free(s->parts[p].items);
    }
    hr__schema_unref(s->schema);
    hr__spill_file_unref(s->spill);
    account = s->account;
    hr__free(s);
    hr__account_unref(account);
}

static hr_status add_item(hr_partition_store *s, part *p, item i, hr_error *err)
{
    void *items = p->items;

    if (!hr__grow(s->account, &items, &p->cap, p->n + 1, sizeof *p->items)) {
        item_clear(s, &i);
        return hr__error_memory(err, "store", (p->n + 1) * (int64_t)sizeof *p->items);
    }
    p->items = items;
    p->items[p->n++] = i;
    return HR_OK;
}

hr_status hr__partition_store_add(hr_partition_store *s, int part_number, hr_table *takes, hr_error *err)
{
    part *p = &s->parts[part_number];
    int64_t rows = takes->n_rows, n_bytes = hr__table_bytes_used(takes);

    if (!rows) {
        hr_table_unref(takes);
        return HR_OK;
    }
    HR_TRY(add_item(s, p, (item){ .table = takes }, err));
    p->size.rows += rows;
    p->size.memory_bytes += n_bytes;
    s->held += n_bytes;
    return HR_OK;
}

int64_t hr__partition_store_held(const hr_partition_store *s) { return s->held; }

hr_partition_store_size hr__partition_store_size(const hr_partition_store *s, int part_number)
{
    return s->parts[part_number].size;
}

/* ------------------------------------------------------------------------------------------------------------ spill */

/* New items of a partition: complete before they replace the old ones. */
typedef struct written {
    item *items;
    int64_t n, cap;
} written;

static hr_status write_table(hr_partition_store *s, written *w, const hr_table *t, hr_error *err)
{
    void *items = w->items;
    hr_spilled_table place;

    if (!hr__grow(s->account, &items, &w->cap, w->n + 1, sizeof *w->items))
        return hr__error_memory(err, "store", (w->n + 1) * (int64_t)sizeof *w->items);
    w->items = items;
    HR_TRY(hr__spill_file_write(s->spill, t, &place, err));
    w->items[w->n++] = (item){ .place = place, .fresh = true };
    return HR_OK;
}

static hr_status write_cut(hr_partition_store *s, written *w, const hr_table *t, hr_error *err)
{
    int64_t n_bytes = hr__table_bytes_used(t), n_chunks = HR_MAX(1, n_bytes / HR_PARTITION_STORE_PAGE);
    int64_t step = (t->n_rows + n_chunks - 1) / n_chunks;

    for (int64_t at = 0; at < t->n_rows; at += step) {
        hr_table *some = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(t, at, HR_MIN(step, t->n_rows - at), &some, err));
        st = write_table(s, w, some, err);
        hr_table_unref(some);
        HR_TRY(st);
    }
    return HR_OK;
}

/* Writes n items, all tables, as one. */
static hr_status write_joined(hr_partition_store *s, written *w, const item *items, int64_t n, hr_error *err)
{
    const hr_mem mem = { .account = s->account };
    hr_table **tables, *all = NULL;
    hr_status st = HR_OK;

    if (n == 1)
        return write_cut(s, w, items[0].table, err);
    if (!(tables = hr__alloc(s->account, (size_t)n * sizeof(hr_table *))))
        return hr__error_memory(err, "store", n * (int64_t)sizeof(hr_table *));
    for (int64_t i = 0; i < n; i++)
        tables[i] = items[i].table;
    HR_GO(hr__table_concat(&mem, s->schema, tables, (int)n, &all, err));
    HR_GO(write_cut(s, w, all, err));
done:
    hr_table_unref(all);
    hr__free(tables);
    return st;
}

/* The number of items from `at` on that are tables and together make one chunk. */
static int64_t group_of(const part *p, int64_t at)
{
    int64_t n = 1, n_bytes = hr__table_bytes_used(p->items[at].table);

    while (at + n < p->n && p->items[at + n].table) {
        n_bytes += hr__table_bytes_used(p->items[at + n].table);
        if (n_bytes > HR_PARTITION_STORE_PAGE)
            break;
        n++;
    }
    return n;
}

static hr_status spill_part(hr_partition_store *s, part *p, hr_error *err)
{
    written w = { 0 };
    hr_status st = HR_OK;

    if (!(w.items = hr__alloc(s->account, (size_t)(w.cap = p->n + 1) * sizeof *w.items)))
        return hr__error_memory(err, "store", w.cap * (int64_t)sizeof *w.items);
    for (int64_t i = 0; i < p->n;) {
        int64_t n = p->items[i].table ? group_of(p, i) : 1;
        void *items = w.items;

        if (p->items[i].table) {
            HR_GO(write_joined(s, &w, p->items + i, n, err));
        } else {
            if (!hr__grow(s->account, &items, &w.cap, w.n + 1, sizeof *w.items))
                HR_FAIL(HR_NO_MEMORY, "store: out of memory for the list of a partition");
            w.items = items;
            w.items[w.n++] = p->items[i];
        }
        i += n;
    }
    for (int64_t i = 0; i < p->n; i++)
        hr_table_unref(p->items[i].table);
    hr__free(p->items);
    p->items = w.items;
    p->n = w.n;
    p->cap = w.cap;
    w = (written){ 0 };
    s->held -= p->size.memory_bytes;
    p->size.memory_bytes = p->size.disk_bytes = 0;
    for (int64_t i = 0; i < p->n; i++) {
        p->items[i].fresh = false;
        p->size.disk_bytes += p->items[i].place.memory_bytes;
    }
done:
    for (int64_t i = 0; i < w.n; i++)
        if (w.items[i].fresh)
            item_clear(s, &w.items[i]);
    hr__free(w.items);
    return st;
}

hr_status hr__partition_store_spill(hr_partition_store *s, int64_t keep_bytes, hr_error *err)
{
    while (s->held > keep_bytes) {
        part *most = &s->parts[0];

        for (int p = 1; p < s->n_parts; p++)
            if (s->parts[p].size.memory_bytes > most->size.memory_bytes)
                most = &s->parts[p];
        HR_TRY(spill_part(s, most, err));
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------ partitioning rows */

hr_status hr__partition_rows(const hr_table *t, const uint64_t *hashes, int shift, int n_parts, const hr_mem *mem,
                             int64_t *begins, hr_table **out, hr_error *err)
{
    int32_t *order = hr__alloc(mem->account, (size_t)(t->n_rows + 1) * sizeof *order);
    const uint64_t mask = (uint64_t)n_parts - 1;
    int64_t next[HR_MAX_PARTS];
    hr_table *bare = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!order)
        HR_GO(hr__error_memory(err, "partitioning rows", t->n_rows * 4));
    HR_GO(hr__table_with_origin(
        t, NULL, &bare, err)); /* no user needs the origin, and coordinates of unordered rows take 16 bytes each */
    memset(begins, 0, (size_t)(n_parts + 1) * sizeof *begins);
    for (int64_t i = 0; i < t->n_rows; i++)
        begins[1 + (hashes[i] >> shift & mask)]++;
    for (int p = 0; p < n_parts; p++) {
        next[p] = begins[p];
        begins[p + 1] += begins[p];
    }
    for (int64_t i = 0; i < t->n_rows; i++)
        order[next[hashes[i] >> shift & mask]++] = (int32_t)i;
    st = hr__table_take(mem, bare, order, 4, t->n_rows, out, err);
done:
    hr_table_unref(bare);
    hr__free(order);
    return st;
}

hr_status hr__partition_store_add_slices(hr_partition_store *s, const hr_table *t, const int64_t *begins, int n_parts,
                                         hr_error *err)
{
    for (int p = 0; p < n_parts; p++) {
        hr_table *part = NULL;

        if (begins[p] == begins[p + 1])
            continue;
        HR_TRY(hr_table_slice(t, begins[p], begins[p + 1] - begins[p], &part, err));
        HR_TRY(hr__partition_store_add(s, p, part, err));
    }
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------- read */

hr_status hr__partition_store_next(hr_partition_store_cursor *c, const hr_mem *mem, hr_table **out, hr_error *err)
{
    part *p = &c->store->parts[c->part];
    item *i;

    *out = NULL;
    while (c->at < p->n && !p->items[c->at].table && !p->items[c->at].place.n_bytes)
        c->at++; /* another cursor took it */
    if (c->at >= p->n)
        return HR_OK;
    i = &p->items[c->at];
    if (i->table)
        *out = hr_table_ref(i->table);
    else
        HR_TRY(hr__spill_file_read(c->store->spill, &i->place, mem, c->store->schema, out, err));
    if (c->drain)
        item_clear(c->store, i);
    c->at++;
    return HR_OK;
}

hr_status hr__partition_store_load(hr_partition_store *s, int part, const hr_mem *mem, hr_table **out, hr_error *err)
{
    hr_partition_store_cursor c = { .store = s, .part = part, .drain = true };
    hr_table **tables = NULL, *t = NULL;
    int64_t n = 0, cap = 0;
    hr_status st = HR_OK;

    *out = NULL;
    for (;;) {
        HR_GO(hr__partition_store_next(&c, mem, &t, err));
        if (!t)
            break;
        if (!hr__grow(s->account, (void **)&tables, &cap, n + 1, sizeof *tables)) {
            hr_table_unref(t);
            HR_GO(hr__error_memory(err, "store", n * 8));
        }
        tables[n++] = t;
    }
    st = hr__table_concat(mem, s->schema, tables, (int)n, out, err);
done:
    for (int64_t i = 0; i < n; i++)
        hr_table_unref(tables[i]);
    hr__free(tables);
    return st;
}
