/* materialized.c - rows materialized for several passes; materialized.h has the contract.
 *
 * A fragment in memory is a list of tables as the run gave them, or slices of them. A fragment on disk is a list of
 * encoded chunks of about CHUNK_BYTES, each read whole, and one ticket of the scheduler, read chunk by chunk. The rows
 * of the open fragment are in memory. Each table keeps its own schema: if the scan's schema is wider, the reader
 * conforms the table. */
#include "format/scan/materialized.h"

#include "format/scan/scan.h"
#include "format/spill/spill_file.h"

#define CHUNK_BYTES (1 << 20)
#define SHORT_BYTES (64 << 10) /* tables that are shorter, on average, become one */

/* A fragment. */
typedef struct kept {
    hr_table **tables; /* in memory */
    int64_t n_tables, cap;
    hr_spilled_table *chunks; /* on disk; no tables */
    int64_t n_chunks;
    hr_schema *schema; /* of the chunks */
    uint64_t digest;   /* of the chunks' rows, under this schema */
    int64_t n_rows, n_bytes;
    int64_t charged; /* bytes of foreign memory, which no other account counts */
} kept;

struct hr_materialized {
    hr_scan base; /* the scan that it becomes; one count of references for both */
    char *name;
    int64_t memory_bytes, held;
    hr_fragments_of of;
    hr_schema *schema; /* NULL: no table yet */
    kept *items;
    int64_t n, cap;
    kept open; /* the fragment that may get more rows */
    hr_fragment_cut cut;
    int64_t n_added; /* tables so far, for errors */
    hr_materialized_size size;
    hr_spill_file *spill;    /* NULL: no table is on disk */
    _Atomic uint64_t digest; /* of all rows; 0: not computed yet */
};

typedef struct keep_file {
    hr_scan_file base;
    hr_materialized *keep;
    int *columns; /* numbers of the projected columns in the common schema */
} keep_file;

typedef struct keep_reader {
    hr_reader base;
    keep_file *file;
    const kept *from;
    int fragment;
    int64_t row, end;
    int64_t part, part_row; /* the next table or chunk, and the row that it begins with */
    hr_table *loaded;       /* holds rows from loaded_row on; projected */
    int64_t loaded_row;
    hr_mem mem;
} keep_reader;

/* ---------------------------------------------------------------------------------------------------------- keeping */

static void kept_clear(hr_materialized *k, kept *i)
{
    for (int64_t p = 0; p < i->n_chunks; p++)
        hr__spill_file_forget(k->spill, &i->chunks[p]);
    for (int64_t p = 0; p < i->n_tables; p++)
        hr_table_unref(i->tables[p]);
    hr__free(i->tables);
    hr__free(i->chunks);
    hr__schema_unref(i->schema);
    if (i->charged)
        hr__account_charge(NULL, -i->charged);
    *i = (kept){ 0 };
}

static void keep_free(hr_scan *base)
{
    hr_materialized *k = (hr_materialized *)base;

    kept_clear(k, &k->open);
    for (int64_t i = 0; i < k->n; i++)
        kept_clear(k, &k->items[i]);
    hr__free(k->items);
    hr__spill_file_unref(k->spill);
    hr__schema_unref(k->schema);
    hr__free(k->name);
    hr__free(k);
}

void hr__materialized_free(hr_materialized *k)
{
    if (k)
        hr__scan_unref(&k->base);
}

hr_materialized_size hr__materialized_size(const hr_materialized *k) { return k->size; }

static hr_status check_schema(hr_materialized *k, hr_schema *s, hr_error *err)
{
    hr_schema *both = NULL;
    char text[300];
    hr_status st;

    if (!k->schema) {
        k->schema = hr__schema_ref(s);
        return HR_OK;
    }
    if (k->schema == s || hr__schema_equal(s, k->schema))
        return HR_OK;
    if (k->of == HR_FRAGMENTS_OF_FOREIGN) {
        hr__schema_difference(s, k->schema, text, sizeof text);
        return hr_error_set(err, HR_TYPE, "table %lld: %s", (long long)k->n_added, text);
    }
    st = hr__schema_conform(k->schema, s, &both, err);
    if (st)
        return hr__error_at(err, st, "table %lld", (long long)k->n_added);
    hr__schema_unref(k->schema);
    k->schema = both;
    return HR_OK;
}

static bool has_room(const hr_materialized *k, int64_t n)
{
    int64_t limit = hr_memory_limit(), used = hr_memory_used() - hr__pool_bytes();

    return k->held + n <= k->memory_bytes && used <= limit - limit / 4;
}

static hr_status write_chunks(hr_materialized *k, const hr_table *t, kept *i, hr_error *err)
{
    int64_t n = HR_MIN(t->n_rows, HR_MAX(1, i->n_bytes / CHUNK_BYTES)), step = (t->n_rows + n - 1) / n;

    if (!k->spill)
        HR_TRY(hr__spill_file_new(NULL, k->name, NULL, &k->spill, err));
    if (!(i->chunks = hr__alloc(NULL, (size_t)n * sizeof *i->chunks)))
        return hr__error_memory(err, k->name, n * (int64_t)sizeof *i->chunks);
    for (int64_t at = 0; at < t->n_rows; at += step) {
        hr_table *some = NULL;
        hr_status st;

        HR_TRY(hr_table_slice(t, at, HR_MIN(step, t->n_rows - at), &some, err));
        st = hr__spill_file_write(k->spill, some, &i->chunks[i->n_chunks], err);
        hr_table_unref(some);
        HR_TRY(st);
        i->n_chunks++;
    }
    return HR_OK;
}

/* All tables as one, under the schema. *out is new. */
static hr_status join(const kept *i, hr_schema *schema, hr_table **out, hr_error *err)
{
    hr_table **all = hr__zalloc(NULL, ((size_t)i->n_tables + 1) * sizeof(hr_table *));
    hr_status st = HR_OK;

    if (!all)
        return hr__error_memory(err, "materialize", (i->n_tables + 1) * (int64_t)sizeof(hr_table *));
    for (int64_t p = 0; p < i->n_tables; p++)
        HR_GO(hr__table_conform(&(hr_mem){ 0 }, i->tables[p], schema, &all[p], err));
    if (i->n_tables == 1)
        *out = hr_table_ref(all[0]);
    else
        HR_GO(hr__table_concat(&(hr_mem){ 0 }, schema, all, (int)i->n_tables, out, err));
done:
    for (int64_t p = 0; p < i->n_tables; p++)
        hr_table_unref(all[p]);
    hr__free(all);
    return st;
}

static void drop_tables(kept *i)
{
    while (i->n_tables)
        hr_table_unref(i->tables[--i->n_tables]);
}

/* Many short tables become one. */
static hr_status join_short(const hr_materialized *k, kept *i, hr_error *err)
{
    hr_table *all = NULL;

    if (i->n_tables < 2 || i->n_bytes / i->n_tables >= SHORT_BYTES)
        return HR_OK;
    HR_TRY(join(i, k->schema, &all, err));
    drop_tables(i);
    i->tables[i->n_tables++] = all;
    return HR_OK;
}

static hr_status spill(hr_materialized *k, kept *i, hr_error *err)
{
    hr_table *all = NULL;
    hr_status st = HR_OK;

    HR_GO(join(i, k->schema, &all, err));
    drop_tables(i);
    HR_GO(write_chunks(k, all, i, err));
    i->schema = hr__schema_ref(k->schema);
    i->digest = hr__table_digest(all, NULL); /* now, so that the rows need not be read again */
done:
    hr_table_unref(all);
    return st;
}

/* Completes the open fragment. */
static hr_status close_open(hr_materialized *k, bool in_memory, hr_error *err)
{
    kept i = k->open;
    void *items = k->items;
    hr_status st = HR_OK;

    k->open = (kept){ 0 }; /* moved */
    if (!i.n_rows)
        goto done;
    if (k->n == INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%s: more than %d fragments", k->name, INT32_MAX);
    if (!hr__grow(NULL, &items, &k->cap, k->n + 1, sizeof *k->items))
        HR_GO(hr__error_memory(err, k->name, (k->n + 1) * (int64_t)sizeof *k->items));
    k->items = items;
    if (in_memory || has_room(k, i.n_bytes)) {
        HR_GO(join_short(k, &i, err));
        k->held += i.n_bytes;
        if (k->of == HR_FRAGMENTS_OF_FOREIGN)
            hr__account_charge(NULL, i.charged = i.n_bytes);
    } else {
        HR_GO(spill(k, &i, err));
        k->size.disk_bytes += i.n_bytes;
    }
    k->size.fragments++;
    k->size.rows += i.n_rows;
    k->size.bytes += i.n_bytes;
    k->items[k->n++] = i;
    i = (kept){ 0 }; /* moved */
done:
    kept_clear(k, &i);
    return st;
}

/* Rows [begin, begin + n) of t go into the open fragment. */
static hr_status open_add(hr_materialized *k, const hr_table *t, int64_t begin, int64_t n, hr_error *err)
{
    hr_table *some = NULL, *bare = NULL;
    void *tables = k->open.tables;
    hr_status st = HR_OK;

    HR_GO(hr__table_with_origin(t, NULL, &bare, err));
    if (n < t->n_rows)
        HR_GO(hr_table_slice(bare, begin, n, &some, err));
    else
        some = hr_table_ref(bare);
    if (!hr__grow(NULL, &tables, &k->open.cap, k->open.n_tables + 1, sizeof(hr_table *)))
        HR_GO(hr__error_memory(err, k->name, (k->open.n_tables + 1) * (int64_t)sizeof(hr_table *)));
    k->open.tables = tables;
    k->open.n_rows += n;
    k->open.n_bytes += hr__table_bytes_used(some);
    k->open.tables[k->open.n_tables++] = some;
    some = NULL; /* moved into the fragment */
done:
    hr_table_unref(some);
    hr_table_unref(bare);
    return st;
}

hr_status hr__materialized_add(hr_materialized *k, hr_table *takes, hr_error *err)
{
    bool of_rows = k->of == HR_FRAGMENTS_OF_ROWS && takes->origin, ends = true;
    hr_status st = HR_OK;

    HR_GO(check_schema(k, takes->schema, err));
    k->n_added++;
    if (!of_rows)
        HR_GO(hr__materialized_end(k, err));
    for (int64_t begin = 0, n; begin < takes->n_rows; begin += n) {
        n = of_rows ? hr__fragment_cut(&k->cut, takes, begin, &ends) : takes->n_rows;
        if (n)
            HR_GO(open_add(k, takes, begin, n, err));
        if (ends)
            HR_GO(close_open(k, false, err));
    }
done:
    hr_table_unref(takes);
    return st;
}

hr_status hr__materialized_end(hr_materialized *k, hr_error *err)
{
    k->cut = (hr_fragment_cut){ 0 };
    return close_open(k, false, err);
}

/* All chunks of a fragment on disk, as tables. */
static hr_status read_chunks(const hr_materialized *k, const kept *i, kept *out, hr_error *err)
{
    *out = (kept){ 0 };
    if (!(out->tables = hr__zalloc(NULL, ((size_t)i->n_chunks + 1) * sizeof(hr_table *))))
        return hr__error_memory(err, k->name, (i->n_chunks + 1) * (int64_t)sizeof(hr_table *));
    for (; out->n_tables < i->n_chunks; out->n_tables++)
        HR_TRY(hr__spill_file_read(k->spill, &i->chunks[out->n_tables], &(hr_mem){ 0 }, i->schema,
                                   &out->tables[out->n_tables], err));
    return HR_OK;
}

hr_status hr__materialized_table(const hr_materialized *k, int64_t i, hr_table **out, hr_error *err)
{
    kept read = { 0 };
    hr_status st = HR_OK;

    *out = NULL;
    if (k->items[i].n_tables)
        return join(&k->items[i], k->schema, out, err);
    HR_GO(read_chunks(k, &k->items[i], &read, err));
    st = join(&read, k->schema, out, err);
done:
    drop_tables(&read);
    hr__free(read.tables);
    return st;
}

hr_status hr__materialized_slice(const hr_materialized *k, int64_t begin, int64_t end, hr_materialized **out,
                                 hr_error *err)
{
    hr_materialized *made = NULL;
    hr_status st = HR_OK;
    int64_t at = 0;

    *out = NULL;
    HR_TRY(hr__materialized_new(k->name, 0, HR_FRAGMENTS_OF_TABLES, &made, err));
    made->schema = k->schema ? hr__schema_ref(k->schema) : NULL;
    for (int64_t i = 0; i < k->n; i++) {
        for (int64_t p = 0; p < k->items[i].n_tables; p++) {
            const hr_table *t = k->items[i].tables[p];
            int64_t first = HR_MAX(begin - at, 0), last = HR_MIN(end - at, t->n_rows);

            if (first < last)
                HR_GO(open_add(made, t, first, last - first, err));
            at += t->n_rows;
        }
        HR_GO(close_open(made, true, err));
    }
    *out = made;
    made = NULL; /* moved to the caller */
done:
    hr__materialized_free(made);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* The projected columns of a materialized table, with the scan's types. */
static hr_status project(const keep_reader *r, const hr_table *t, hr_table **out, hr_error *err)
{
    const hr_schema *schema = r->file->base.schema;
    size_t n_bytes = ((size_t)schema->n + 1) * sizeof(hr_array *);
    hr_array **columns = hr__zalloc(r->mem.account, n_bytes);
    hr_table *all = NULL;
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, r->file->base.name, (int64_t)n_bytes);
    HR_GO(hr__table_conform(&r->mem, t, r->file->keep->schema, &all, err));
    for (int i = 0; i < schema->n; i++)
        columns[i] = hr__array_ref(all->columns[r->file->columns[i]]);
    st = hr__table_new(r->file->base.schema, columns, t->n_rows, NULL, out, err);
done:
    hr_table_unref(all);
    hr__free(columns);
    return st;
}

/* The rows of a table or chunk of the fragment. */
static int64_t part_rows(const kept *i, int64_t part)
{
    return i->n_tables ? i->tables[part]->n_rows : i->chunks[part].n_rows;
}

/* Loads the part that has the next row. */
static hr_status load(keep_reader *r, hr_error *err)
{
    hr_table *t = NULL;
    hr_status st = HR_OK;

    hr_table_unref(r->loaded);
    r->loaded = NULL;
    while (r->part_row + part_rows(r->from, r->part) <= r->row)
        r->part_row += part_rows(r->from, r->part++);
    if (r->from->n_tables)
        t = hr_table_ref(r->from->tables[r->part]);
    else
        HR_GO(hr__spill_file_read(r->file->keep->spill, &r->from->chunks[r->part], &r->mem, r->from->schema, &t, err));
    r->loaded_row = r->part_row;
    HR_GO(project(r, t, &r->loaded, err));
done:
    hr_table_unref(t);
    return st;
}

static hr_status keep_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    keep_reader *r = (keep_reader *)base;
    hr_run_coords run = { .first = { .fragment = r->fragment, .row = r->row } };
    hr_origin *origin = NULL;
    hr_table *some = NULL;
    hr_status st = HR_OK;
    int64_t at, n;
    double fit;

    *out = NULL;
    if (r->row == r->end)
        return HR_OK;
    if (!r->loaded || r->row >= r->loaded_row + r->loaded->n_rows)
        HR_TRY(load(r, err));
    at = r->row - r->loaded_row;
    n = HR_MIN(r->loaded->n_rows - at, r->end - r->row);
    fit = (double)max_bytes * (double)r->loaded->n_rows / (double)HR_MAX(hr__table_bytes_used(r->loaded), 1);
    n = HR_MIN(n, fit < 1 ? 1 : fit > 1e15 ? (int64_t)1e15 : (int64_t)fit);
    run.n = n;
    HR_GO(hr_table_slice(r->loaded, at, n, &some, err));
    HR_GO(hr__origin_new(&run, 1, &origin, err));
    HR_GO(hr__table_with_origin(some, origin, out, err));
    r->row += n;
done:
    hr__origin_unref(origin);
    hr_table_unref(some);
    return st;
}

static void keep_reader_close(hr_reader *base)
{
    keep_reader *r = (keep_reader *)base;

    hr_table_unref(r->loaded);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static const hr_reader_class keep_reader_class = { keep_next, keep_reader_close };

static int64_t projected_bytes(const hr_table *t, const hr_schema *wanted)
{
    int64_t n = 0;

    for (int c = 0; c < wanted->n; c++) {
        int at = hr__schema_find(t->schema, wanted->fields[c].name);

        n += at < 0 ? 0 : hr__array_bytes_used(t->columns[at]);
    }
    return n;
}

static hr_status keep_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    const keep_file *f = (const keep_file *)base;
    const kept *i = &f->keep->items[fragment];

    (void)err;
    *out = (hr_fragment){ .n_rows = i->n_rows, .splittable = i->n_tables > 0 };
    for (int64_t p = 0; p < i->n_chunks; p++)
        out->memory_bytes += i->chunks[p].memory_bytes;
    for (int64_t p = 0; p < i->n_tables; p++)
        out->memory_bytes += projected_bytes(i->tables[p], base->schema);
    out->stored_bytes = out->memory_bytes;
    return HR_OK;
}

static hr_status keep_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                           hr_reader **out, hr_error *err)
{
    keep_reader *r = hr__zalloc(mem->account, sizeof *r);

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &keep_reader_class;
    r->file = (keep_file *)hr__scan_file_ref(base);
    r->from = &r->file->keep->items[fragment];
    r->fragment = fragment;
    r->row = HR_MIN(HR_MAX(row_begin, 0), r->from->n_rows);
    r->end = n_rows < 0 ? r->from->n_rows : r->row + HR_MIN(n_rows, r->from->n_rows - r->row);
    r->mem = *mem;
    *out = &r->base;
    return HR_OK;
}

static void keep_file_close(hr_scan_file *base)
{
    keep_file *f = (keep_file *)base;

    hr__free(f->columns);
    hr__materialized_free(f->keep);
}

static const hr_scan_file_class keep_file_class = {
    .fragment = keep_fragment,
    .read = keep_read,
    .close = keep_file_close,
};

/* --------------------------------------------------------------------------------------------------------- the scan */

static hr_status keep_schema(hr_scan *base, hr_schema **out, hr_error *err)
{
    (void)err;
    *out = hr__schema_ref(((hr_materialized *)base)->schema);
    return HR_OK;
}

static hr_status keep_open(hr_scan *base, int file, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    const hr_projection *projection = how->projection;
    hr_materialized *k = (hr_materialized *)base;
    hr_status st = HR_OK;
    keep_file *f;

    (void)file;
    HR_TRY(hr__scan_file_new(&keep_file_class, sizeof *f, HR_MEMORY_NAME, how->account, out, err));
    f = (keep_file *)*out;
    f->keep = k;
    hr__scan_ref(base);
    HR_GO(hr__scan_project(k->schema, projection, &f->base.schema, err));
    f->columns = hr__alloc(how->account, ((size_t)f->base.schema->n + 1) * sizeof *f->columns);
    if (!f->columns)
        HR_GO(hr__error_memory(err, k->name, f->base.schema->n * (int64_t)sizeof *f->columns));
    for (int i = 0; i < f->base.schema->n; i++)
        f->columns[i] = hr__schema_find(k->schema, f->base.schema->fields[i].name);
    f->base.n_rows = k->size.rows;
    f->base.n_fragments = (int)k->n;
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static hr_status keep_count(hr_scan *base, int64_t *out, hr_error *err)
{
    (void)err;
    *out = ((hr_materialized *)base)->size.rows;
    return HR_OK;
}

static int64_t keep_guess(const hr_scan *base)
{
    int64_t n = ((const hr_materialized *)base)->size.rows;

    return n > 0 ? n : -1; /* there may be no table yet */
}

static const char *keep_name(const hr_scan *base, int file)
{
    (void)base;
    return file == 0 ? HR_MEMORY_NAME : NULL;
}

static void keep_describe(const hr_scan *base, hr_text *out)
{
    const hr_materialized *k = (const hr_materialized *)base;

    hr__text_add(out, "memory [%lld table%s, %lld rows", (long long)k->n, k->n == 1 ? "" : "s",
                 (long long)k->size.rows);
    if (k->size.disk_bytes)
        hr__text_add(out, ", %lld of %lld bytes on disk", (long long)k->size.disk_bytes, (long long)k->size.bytes);
    hr__text_add(out, "]");
}

static void keep_fingerprint(const hr_scan *base, hr_hash *h)
{
    const hr_materialized *k = (const hr_materialized *)base;

    hr__memory_fingerprint(HR_MEMORY_NAME, k->schema, k->size.rows, h);
    for (int64_t i = 0; i < k->n; i++)
        hr__hash_int(h, k->items[i].n_rows);
    if (!k->n)
        hr__hash_int(h, 0); /* where there are no rows a scan of tables has one without any */
}

/* The digest of a fragment under the common schema. */
static uint64_t digest_of(const hr_materialized *k, int64_t i, const atomic_bool *stop)
{
    hr_error err = HR_ERROR_INIT;
    hr_table *t = NULL;
    uint64_t found = k->items[i].digest;

    if (k->items[i].n_chunks && hr__schema_equal(k->items[i].schema, k->schema))
        return found;
    if (hr__materialized_table(k, i, &t, &err)) { /* without memory: another digest, so an error and no other rows */
        hr_error_clear(&err);
        return found;
    }
    found = hr__table_digest(t, stop);
    hr_table_unref(t);
    return found;
}

/* Equal to the digest of the same fragments in a memory_scan. */
static uint64_t keep_digest(hr_scan *base, const atomic_bool *stop)
{
    hr_materialized *k = (hr_materialized *)base;
    uint64_t found = atomic_load_explicit(&k->digest, memory_order_relaxed);
    hr_hash h;

    if (found)
        return found;
    hr__hash_init(&h, 1);
    for (int64_t i = 0; i < k->n && !hr__is_stopped(stop); i++)
        hr__hash_int(&h, (int64_t)digest_of(k, i, stop));
    if (hr__is_stopped(stop))
        return 0;
    found = hr__memory_digest_end(&h);
    atomic_store_explicit(&k->digest, found, memory_order_relaxed);
    return found;
}

/* The reader of a fragment on disk holds up to two encoded chunks. */
static int64_t keep_floor(const hr_scan *base)
{
    return ((const hr_materialized *)base)->size.disk_bytes ? 2 * CHUNK_BYTES : 0;
}

static const hr_scan_class keep_scan_class = {
    .schema = keep_schema,
    .open = keep_open,
    .count = keep_count,
    .guess_rows = keep_guess,
    .file_name = keep_name,
    .describe = keep_describe,
    .fingerprint = keep_fingerprint,
    .floor_bytes = keep_floor,
    .memory_digest = keep_digest,
    .free = keep_free,
};

hr_status hr__materialized_new(const char *name, int64_t memory_bytes, hr_fragments_of of, hr_materialized **out,
                               hr_error *err)
{
    hr_materialized *k = hr__zalloc(NULL, sizeof *k);

    *out = NULL;
    if (!k)
        return hr__error_memory(err, name, sizeof *k);
    k->base.cls = &keep_scan_class;
    atomic_init(&k->base.refs, 1);
    k->base.n_files = 1;
    k->memory_bytes = memory_bytes > 0 ? memory_bytes : hr_memory_limit() / 2;
    k->of = of;
    if (!(k->name = hr__strdup(NULL, name))) {
        keep_free(&k->base);
        return hr__error_memory(err, name, (int64_t)strlen(name) + 1);
    }
    *out = k;
    return HR_OK;
}

hr_status hr__materialized_scan(hr_materialized *k, hr_scan **out, hr_error *err)
{
    *out = NULL;
    if (!k->schema)
        return hr_error_set(err, HR_INVALID, "no tables: the schema comes from the first one");
    HR_TRY(hr__materialized_end(k, err));
    *out = hr__scan_ref(&k->base);
    return HR_OK;
}
