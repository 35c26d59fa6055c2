/* row_cache.c - rows of a plan in a folder; row_cache.h has the contract.
 *
 *     FOLDER/rows1/KEY/NAME.rows   a stretch; NAME is a hash of where it begins
 *     FOLDER/rows1/KEY/.lock       whoever reads or writes rows of this key holds it, so that others keep them
 *     FOLDER/rows1/.lock           who has its lock removes files (io/cache_folder.c)
 *
 * A stretch is the encoded chunks of its tables (chunk.c), then a table of contents, then its end:
 *
 *     contents  key; where it begins; where the next one begins; the schema; of each table: the place of its chunk,
 *               where it begins, the coordinates of its rows
 *     end       magic, bytes of the contents, their hash
 *
 * Each chunk has a checksum over its bytes and its place; the hash of the contents has the key. So no file, and no
 * part of one, passes for another. What does not fit is removed.
 *
 * Tests: test_row_cache.c, test_row_cache.py. */
#include "format/spill/row_cache.h"

#include "format/spill/chunk.h"
#include "share/share.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define FORMAT 1
#define MAGIC 0x314c4c4f52535248 /* "HRSROLL1" */
#define ALIGN 64
#define MOST_CONTENTS (1 << 30)
#define WRITE_BEHIND (16 << 20) /* bytes whose write-back starts together */
#define SUFFIX ".rows"

struct hr_row_cache {
    hr_account *account;
    char *root, *group; /* "FOLDER/rows1", "FOLDER/rows1/KEY" */
    hr_bits128 key;
    hr_cache_folder folder;
    _Atomic int hold; /* a descriptor; -1: another process holds the group, or nobody yet */
    _Atomic int64_t read_bytes, written_bytes, damaged;
};

typedef struct stretch_end {
    uint64_t magic;
    int64_t n_bytes; /* of the contents */
    hr_bits128 hash;
} stretch_end;

/* One table of a stretch. */
typedef struct part {
    hr_chunk chunk;
    const char *at; /* NULL: not known */
    int64_t n_runs; /* -1: without coordinates */
    hr_run_coords *runs;
} part;

typedef struct stretch {
    hr_stretch base;
    hr_row_cache *cache;
    char *path;
    int fd;
    uint8_t *contents;
    hr_schema *schema;
    part *parts;
} stretch;

/* ----------------------------------------------------------------------------------------------------------- cache */

static bool is_stretch(const char *name)
{
    size_t n = strlen(name);

    return n == 32 + sizeof SUFFIX - 1 && !strcmp(name + 32, SUFFIX);
}

/* Other processes keep this group from now on. */
static void hold(hr_row_cache *c)
{
    int none = -1, fd;

    if (atomic_load(&c->hold) >= 0 || (fd = hr__cache_hold(c->group, c->account)) < 0)
        return;
    if (!atomic_compare_exchange_strong(&c->hold, &none, fd))
        hr__file_close(fd);
}

hr_status hr__row_cache_new(const char *folder, int64_t limit, hr_bits128 key, hr_cache_state *state,
                            hr_account *account, hr_row_cache **out, hr_error *err)
{
    hr_row_cache *c = hr__zalloc(account, sizeof *c);
    hr_error why = HR_ERROR_INIT;
    hr_status st = HR_OK;
    char *made = NULL;

    *out = NULL;
    if (!c)
        return hr__error_memory(err, "cache", sizeof *c);
    c->account = account;
    atomic_init(&c->hold, -1);
    c->key = key;
    c->root = hr__printf(account, "%s/rows%d", folder, FORMAT);
    c->group = hr__printf(account, "%s/rows%d/%016" PRIx64 "%016" PRIx64, folder, FORMAT, key.hi, key.lo);
    if (!c->root || !c->group)
        HR_GO(hr__error_memory(err, "cache", (int64_t)strlen(folder)));
    c->folder =
        (hr_cache_folder){ .root = c->root, .limit = limit, .is_entry = is_stretch, .state = state, .group = c->group };
    if ((st = hr__folder_make(c->group, account, &made, &why)) == HR_DISK_FULL) {
        hr__cache_pause(&c->folder, -ENOSPC, &why);
        st = HR_OK;
    }
    if (st) {
        hr__error_move(err, &why);
        st = hr__error_at(err, st, "cache");
        goto done;
    }
    hold(c);
    *out = c;
    c = NULL;
done:
    hr_error_clear(&why);
    hr__free(made);
    hr__row_cache_free(c);
    return st;
}

void hr__row_cache_free(hr_row_cache *c)
{
    if (!c)
        return;
    if (atomic_load(&c->hold) >= 0)
        hr__file_close(atomic_load(&c->hold));
    hr__free(c->root);
    hr__free(c->group);
    hr__free(c);
}

hr_row_cache_counts hr__row_cache_counts(const hr_row_cache *c)
{
    return (hr_row_cache_counts){ .read_bytes = atomic_load(&c->read_bytes),
                                  .written_bytes = atomic_load(&c->written_bytes),
                                  .damaged = atomic_load(&c->damaged) };
}

/* The file of the stretch that begins at `from`, new; NULL: no memory. */
static char *path_of(const hr_row_cache *c, const char *from)
{
    hr_bits128 b;
    hr_hash h;

    hr__hash_init(&h, c->key.lo);
    hr__hash_text(&h, from);
    b = hr__hash_end(&h);
    return hr__printf(c->account, "%s/%016" PRIx64 "%016" PRIx64 SUFFIX, c->group, b.hi, b.lo);
}

static hr_bits128 hash_of(const hr_row_cache *c, const void *contents, int64_t n)
{
    hr_hash h;

    hr__hash_init(&h, c->key.lo);
    hr__hash_int(&h, (int64_t)c->key.hi);
    hr__hash_add(&h, contents, (size_t)n);
    return hr__hash_end(&h);
}

/* --------------------------------------------------------------------------------------------------------- contents */

static void put_int(hr_text *t, int64_t v) { hr__text_add_bytes(t, &v, sizeof v); }

/* n -1: no text. Texts keep their NUL. */
static void put_text(hr_text *t, const char *s)
{
    int64_t n = s ? (int64_t)strlen(s) : -1;

    put_int(t, n);
    hr__text_add_bytes(t, s, n + 1);
}

static hr_status get_int(hr_wire_reader *r, int64_t min, int64_t max, int64_t *out, hr_error *err)
{
    return hr__wire_get_int64(r, "a number", min, max, out, err);
}

static hr_status get_text(hr_wire_reader *r, const char **out, hr_error *err)
{
    const uint8_t *bytes;
    int64_t n;

    *out = NULL;
    HR_TRY(get_int(r, -1, INT32_MAX, &n, err));
    if (n < 0)
        return HR_OK;
    HR_TRY(hr__wire_get_bytes(r, "a text", n + 1, &bytes, err));
    if (memchr(bytes, 0, (size_t)n + 1) != bytes + n)
        return hr_error_set(err, HR_BAD_DATA, "a text without its end");
    *out = (const char *)bytes;
    return HR_OK;
}

static void put_origin(hr_text *t, const hr_origin *o)
{
    int64_t at = t->n, n = 0;

    put_int(t, o ? 0 : -1);
    for (int64_t row = 0; o && row < hr__origin_rows(o); n++) {
        hr_run_coords run = hr__origin_run(o, row);

        put_int(t, run.first.instance);
        put_int(t, run.first.file);
        put_int(t, run.first.fragment);
        put_int(t, run.first.row);
        put_int(t, run.first.ordinal);
        put_int(t, run.n);
        put_int(t, run.by_ordinal);
        row += run.n;
    }
    if (o && !t->failed)
        memcpy(t->data + at, &n, sizeof n);
}

static hr_status get_run(hr_wire_reader *r, hr_run_coords *out, hr_error *err)
{
    int64_t v[7];

    for (int i = 0; i < HR_LEN(v); i++)
        HR_TRY(get_int(r, -1, INT64_MAX, &v[i], err));
    *out = (hr_run_coords){ .first = { .instance = (int32_t)v[0],
                                       .file = (int32_t)v[1],
                                       .fragment = (int32_t)v[2],
                                       .row = v[3],
                                       .ordinal = v[4] },
                            .n = v[5],
                            .by_ordinal = v[6] == 1 };
    return HR_OK;
}

static void put_chunk(hr_text *t, const hr_chunk *c)
{
    put_int(t, c->at);
    put_int(t, c->n_bytes);
    put_int(t, c->n_rows);
    put_int(t, c->memory_bytes);
    put_int(t, c->head_bytes);
}

static hr_status get_chunk(hr_wire_reader *r, hr_chunk *out, hr_error *err)
{
    HR_TRY(get_int(r, 0, INT64_MAX, &out->at, err));
    HR_TRY(get_int(r, 0, INT64_MAX, &out->n_bytes, err));
    HR_TRY(get_int(r, 0, INT64_MAX, &out->n_rows, err));
    HR_TRY(get_int(r, 0, INT64_MAX, &out->memory_bytes, err));
    return get_int(r, 0, out->n_bytes, &out->head_bytes, err);
}

static hr_status get_part(stretch *s, hr_wire_reader *r, part *p, hr_error *err)
{
    HR_TRY(get_chunk(r, &p->chunk, err));
    HR_TRY(get_text(r, &p->at, err));
    HR_TRY(get_int(r, -1, hr__wire_left(r), &p->n_runs, err));
    if (p->n_runs > 0 && !(p->runs = hr__alloc(s->cache->account, (size_t)p->n_runs * sizeof *p->runs)))
        return hr__error_memory(err, "cache", p->n_runs * (int64_t)sizeof *p->runs);
    for (int64_t i = 0; i < p->n_runs; i++)
        HR_TRY(get_run(r, &p->runs[i], err));
    s->base.n_rows += p->chunk.n_rows;
    s->base.table_bytes = HR_MAX(s->base.table_bytes, p->chunk.memory_bytes + p->chunk.head_bytes);
    return HR_OK;
}

static hr_status parse(stretch *s, int64_t n, const char *from, hr_error *err)
{
    hr_wire_reader r = hr__wire_reader("cached rows", s->contents, n), schema;
    const uint8_t *bytes;
    const char *begin;
    int64_t n_schema, n_parts;

    HR_TRY(get_text(&r, &begin, err));
    if (!begin || strcmp(begin, from) != 0)
        return hr_error_set(err, HR_BAD_DATA, "other rows");
    HR_TRY(get_text(&r, &s->base.next, err));
    HR_TRY(get_int(&r, 0, hr__wire_left(&r), &n_schema, err));
    HR_TRY(hr__wire_get_bytes(&r, "the schema", n_schema, &bytes, err));
    schema = hr__wire_reader("the schema of cached rows", bytes, n_schema);
    if (n_schema)
        HR_TRY(hr__wire_read_schema(schema, &s->schema, err));
    HR_TRY(get_int(&r, 0, n_schema ? hr__wire_left(&r) : 0, &n_parts, err));
    if (n_parts && !(s->parts = hr__zalloc(s->cache->account, (size_t)n_parts * sizeof *s->parts)))
        return hr__error_memory(err, "cache", n_parts * (int64_t)sizeof *s->parts);
    s->base.n_tables = n_parts;
    for (int64_t i = 0; i < n_parts; i++)
        HR_TRY(get_part(s, &r, &s->parts[i], err));
    return hr__wire_get_end(&r, err);
}

/* --------------------------------------------------------------------------------------------------------- reading */

/* *n: its bytes. NULL: the file has no contents that belong to its end, or no memory (*st). */
static uint8_t *read_contents(const stretch *s, int64_t *n, hr_status *st)
{
    stretch_end end;
    uint8_t *contents;
    hr_bits128 is;
    hr_stat stat;

    *st = HR_BAD_DATA;
    if (hr__file_stat_fd(s->fd, &stat) || stat.n_bytes < (int64_t)sizeof end)
        return NULL;
    if (hr__file_read_at(s->fd, &end, sizeof end, stat.n_bytes - (int64_t)sizeof end) != sizeof end)
        return NULL;
    if (end.magic != MAGIC || end.n_bytes < 0 ||
        end.n_bytes > HR_MIN(MOST_CONTENTS, stat.n_bytes - (int64_t)sizeof end))
        return NULL;
    if (!(contents = hr__alloc(s->cache->account, (size_t)end.n_bytes + 1))) {
        *st = HR_NO_MEMORY;
        return NULL;
    }
    *n = end.n_bytes;
    if (hr__file_read_at(s->fd, contents, *n, stat.n_bytes - (int64_t)sizeof end - *n) == *n) {
        is = hash_of(s->cache, contents, *n);
        if (is.lo == end.hash.lo && is.hi == end.hash.hi)
            return contents;
    }
    hr__free(contents);
    return NULL;
}

static void remove_damaged(const stretch *s)
{
    atomic_fetch_add(&s->cache->damaged, 1);
    (void)hr__file_remove(s->path);
}

/* The stretch in a file that begins at `from`; NULL: there is none. */
static stretch *open_stretch(hr_row_cache *c, const char *from)
{
    stretch *s = hr__zalloc(c->account, sizeof *s);
    hr_status st = HR_NO_MEMORY;
    int64_t n = 0;

    if (!s)
        return NULL;
    s->cache = c;
    s->fd = -1;
    if ((s->path = path_of(c, from)) && (s->fd = hr__file_open(s->path)) >= 0) {
        s->contents = read_contents(s, &n, &st);
        if (s->contents)
            st = parse(s, n, from, NULL);
        if (st == HR_BAD_DATA)
            remove_damaged(s);
    }
    if (!st) {
        hr__cache_touch(s->fd);
        return s;
    }
    hr__stretch_close(&s->base);
    return NULL;
}

const hr_stretch *hr__row_cache_find(hr_row_cache *c, const char *from)
{
    stretch *s = open_stretch(c, from);

    if (s || !*from)
        return s ? &s->base : NULL;
    if (!(s = open_stretch(c, ""))) /* the first row has a name of its own, too */
        return NULL;
    if (s->base.n_tables && s->parts[0].at && !strcmp(s->parts[0].at, from))
        return &s->base;
    hr__stretch_close(&s->base);
    return NULL;
}

void hr__stretch_close(const hr_stretch *base)
{
    stretch *s = (stretch *)base;

    if (!s)
        return;
    for (int64_t i = 0; s->parts && i < s->base.n_tables; i++)
        hr__free(s->parts[i].runs);
    hr__free(s->parts);
    hr__schema_unref(s->schema);
    hr__free(s->contents);
    hr__free(s->path);
    if (s->fd >= 0)
        hr__file_close(s->fd);
    hr__free(s);
}

static hr_status read_part(const stretch *s, const part *p, const hr_mem *mem, hr_table **out, hr_error *err)
{
    hr_origin *origin = NULL;
    hr_table *t = NULL;
    hr_status st = HR_OK;

    HR_GO(hr__chunk_read(s->fd, &p->chunk, s->cache->account, mem, s->schema, &t, err));
    if (p->n_runs >= 0) {
        HR_GO(hr__origin_new(p->runs, p->n_runs, &origin, err));
        if (hr__origin_rows(origin) != t->n_rows)
            HR_FAIL(HR_BAD_DATA, "cached rows: %" PRId64 " coordinates of %" PRId64 " rows", hr__origin_rows(origin),
                    t->n_rows);
    }
    st = hr__table_with_origin(t, origin, out, err);
done:
    hr__origin_unref(origin);
    hr_table_unref(t);
    return st;
}

hr_status hr__stretch_read(const hr_stretch *base, int64_t i, const hr_mem *mem, hr_table **out, const char **at,
                           hr_error *err)
{
    const stretch *s = (const stretch *)base;
    const part *p = &s->parts[i];
    hr_status st;

    *out = NULL;
    *at = p->at;
    st = read_part(s, p, mem, out, err);
    if (st == HR_IO || st == HR_BAD_DATA) {
        remove_damaged(s);
        return HR_BAD_DATA;
    }
    if (!st)
        atomic_fetch_add(&s->cache->read_bytes, p->chunk.n_bytes);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- writing */

struct hr_stretch_writer {
    hr_row_cache *cache;
    char *path, *tmp;
    int fd, rc;   /* rc < 0: it failed, and ignores more */
    bool refused; /* there is no room */
    int64_t n_bytes, behind, reserved, n_tables;
    hr_schema *schema;
    hr_text head, parts; /* of the contents: before the schema, after it */
    hr_error why;
};

hr_stretch_writer *hr__stretch_writer_new(hr_row_cache *c, const char *from)
{
    hr_stretch_writer *w;

    if (!hr__cache_room(&c->folder, 0))
        return NULL;
    hold(c);
    if (!(w = hr__zalloc(c->account, sizeof *w)))
        return NULL;
    w->cache = c;
    w->why = (hr_error)HR_ERROR_INIT;
    w->head.account = w->parts.account = c->account;
    w->fd = (w->path = path_of(c, from)) ? hr__cache_create(c->group, w->path, c->account, &w->tmp, &w->why) : -ENOMEM;
    w->rc = HR_MIN(w->fd, 0);
    put_text(&w->head, from);
    return w;
}

static void writer_free(hr_stretch_writer *w)
{
    hr__cache_wrote(&w->cache->folder, w->reserved);
    hr__schema_unref(w->schema);
    hr__text_clear(&w->head);
    hr__text_clear(&w->parts);
    hr_error_clear(&w->why);
    hr__free(w->path);
    hr__free(w);
}

/* Whether n more bytes may be written. */
static bool reserve(hr_stretch_writer *w, int64_t n)
{
    if (w->n_bytes + n > w->cache->folder.limit || !hr__cache_room(&w->cache->folder, n)) {
        w->refused = true;
        return false;
    }
    w->reserved += n;
    return true;
}

static void write_bytes(hr_stretch_writer *w, const void *data, int64_t n)
{
    int64_t rc = hr__file_write(w->fd, data, n);

    if (rc < 0) {
        w->rc = (int)rc;
        return;
    }
    w->n_bytes += n;
    if (w->n_bytes - w->behind >= WRITE_BEHIND) {
        hr__file_write_behind(w->fd, w->behind, w->n_bytes - w->behind);
        w->behind = w->n_bytes;
    }
}

static void pad(hr_stretch_writer *w)
{
    static const uint8_t zeros[ALIGN];
    int64_t n = HR_ROUND_UP(w->n_bytes, ALIGN) - w->n_bytes;

    if (n)
        write_bytes(w, zeros, n);
}

void hr__stretch_writer_add(hr_stretch_writer *w, const hr_table *t, const char *at)
{
    hr_buffer *chunk = NULL;
    hr_chunk place;

    if (!w || w->rc || w->refused)
        return;
    if (w->schema && w->schema != t->schema && !hr__schema_equal(w->schema, t->schema)) {
        w->refused = true; /* tables of other columns: the run says so downstream */
        return;
    }
    if (!w->schema)
        w->schema = hr__schema_ref(t->schema);
    if (hr__chunk_encode(t, w->cache->account, &chunk, &place, NULL)) {
        w->refused = true; /* no memory: the rows are computed again */
        return;
    }
    if (reserve(w, place.n_bytes + ALIGN)) {
        pad(w);
        hr__chunk_set_place(chunk, &place, w->n_bytes);
        if (!w->rc)
            write_bytes(w, chunk->data, place.n_bytes);
        put_chunk(&w->parts, &place);
        put_text(&w->parts, at);
        put_origin(&w->parts, t->origin);
        w->n_tables++;
    }
    hr__buffer_unref(chunk);
}

/* Appends the contents and the end. */
static void write_contents(hr_stretch_writer *w, const char *next)
{
    stretch_end end = { .magic = MAGIC };
    hr_text schema = { .account = w->cache->account };

    put_text(&w->head, next);
    if (w->schema && hr__wire_schema(w->schema, &schema, NULL))
        schema.failed = true;
    put_int(&w->head, schema.n);
    hr__text_add_bytes(&w->head, schema.data, schema.n);
    put_int(&w->head, w->n_tables);
    hr__text_add_bytes(&w->head, w->parts.data, w->parts.n);
    if (schema.failed || w->head.failed || w->parts.failed || w->head.n > MOST_CONTENTS) {
        w->refused = true;
    } else if (reserve(w, w->head.n + (int64_t)sizeof end)) {
        end.n_bytes = w->head.n;
        end.hash = hash_of(w->cache, w->head.data, w->head.n);
        write_bytes(w, w->head.data, w->head.n);
        if (!w->rc)
            write_bytes(w, &end, sizeof end);
    }
    hr__text_clear(&schema);
}

static void finish(hr_stretch_writer *w)
{
    int rc = w->rc, failed = w->rc < 0 && w->rc != -ENOMEM;

    if (w->fd >= 0) {
        int committed = hr__cache_commit(w->fd, w->tmp, w->path, rc ? rc : w->refused ? -ECANCELED : 0);

        if (!rc && !w->refused && committed) {
            rc = committed;
            failed = true;
        }
    }
    if (failed)
        hr__cache_pause(&w->cache->folder, rc, &w->why);
    else if (!rc && !w->refused)
        atomic_fetch_add(&w->cache->written_bytes, w->n_bytes);
    writer_free(w);
}

void hr__stretch_writer_end(hr_stretch_writer *w, const char *next)
{
    if (!w)
        return;
    if (!w->rc && !w->refused)
        write_contents(w, next);
    finish(w);
}

void hr__stretch_writer_drop(hr_stretch_writer *w)
{
    if (!w)
        return;
    w->refused = true;
    finish(w);
}
