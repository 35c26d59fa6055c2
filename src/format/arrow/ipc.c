/* ipc.c - Arrow IPC: the file format (Feather V2) and the stream format, which begin differently and hold the same
 * messages.
 *
 * A record batch is a fragment; opening a file finds the place of each: in the footer of a file, or by a walk over the
 * messages of a stream, which skips their bodies. The reader reads a dictionary when a column first needs it, and keeps
 * it; a stream may replace or extend (a delta) a dictionary between record batches, so each batch uses the dictionaries
 * before it. */
#include "format/arrow/ipc.h"

#include <stdlib.h>
#include <strings.h>

#define MAGIC "ARROW1"
#define BLOCK_BYTES 24 /* of the footer's lists */
#define MAX_MESSAGE (INT64_C(1) << 31)
#define ALIGN_BYTES 64 /* the largest alignment of writers */
#define CONTINUATION 0xffffffffu

typedef struct ipc_options {
    int check_values;
} ipc_options;

static const hr_option ipc_option_table[] = {
    { .name = "check_values",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(ipc_options, check_values),
      .text = "usual all none",
      .doc = "which values outside the range of their type are errors; usual: all but decimals with too many digits, "
             "which "
             "old writers made; all: these too, and each zstd bit stream must end at its last bit; none: neither these "
             "nor times of day, dates and keys of maps" },
    { 0 },
};

enum { MESSAGE_SCHEMA = 1, MESSAGE_DICTIONARY, MESSAGE_BATCH, VERSION_4 = 3, VERSION_5 };

/* The place of a message. */
typedef struct ipc_block {
    int64_t at, message_bytes; /* the flatbuffer */
    int64_t body_at, body_bytes;
    int64_t n_rows; /* record batches */
    int64_t before; /* in a stream: number of dictionary messages before it */
} ipc_block;

typedef struct ipc_blocks {
    ipc_block *items;
    int64_t n, cap;
} ipc_blocks;

/* The message of a dictionary. */
typedef struct ipc_values {
    int64_t id;
    bool is_delta;
    hr_array *values; /* with the values that a delta extends; NULL: not read yet */
} ipc_values;

typedef struct ipc_file {
    hr_scan_file base;
    hr_source *source;
    ipc_schema *schema;
    hr_schema *types; /* of all columns */
    int check_values;
    bool is_file; /* with a footer; else a stream */
    ipc_blocks batches, dictionaries;
    int *columns; /* base.schema->n: their numbers in the file */
    hr_mutex lock;
    ipc_values *values; /* dictionaries.n; guarded by lock */
} ipc_file;

/* --------------------------------------------------------------------------------------------------------- messages */

/* A message's flatbuffer in memory. */
typedef struct message {
    hr_buffer *bytes;
    hr_flat flat;
    int64_t table, kind, header, body_bytes;
} message;

static hr_status damaged(const hr_source *source, int64_t at, hr_status st, hr_error *err)
{
    return hr__error_at(err, st, "%s: message at byte %lld is damaged", source->name, (long long)at);
}

/* Reads n bytes at `at`: a flatbuffer with a table of this type, and verifies it whole. */
static hr_status flat_read(hr_source *source, int64_t at, int64_t n, const hr_flat_table *type, hr_account *account,
                           message *out, hr_error *err)
{
    hr_mem mem = { account, NULL };
    hr_status st;

    *out = (message){ 0 };
    if (n < 8 || n > MAX_MESSAGE || at < 0 || at > source->n_bytes - n)
        return hr_error_set(err, HR_BAD_DATA, "%s: a message of %lld bytes at byte %lld, the file has %lld",
                            source->name, (long long)n, (long long)at, (long long)source->n_bytes);
    HR_TRY(hr__buffer_new(&mem, n, &out->bytes, err));
    HR_TRY(hr__source_read(source, out->bytes->data, at, n, err));
    out->flat = (hr_flat){ .data = out->bytes->data, .n = n };
    st = hr__flat_verify(&out->flat, type, &out->table, err);
    return st ? damaged(source, at, st, err) : HR_OK;
}

static hr_status message_read(hr_source *source, int64_t at, int64_t n, hr_account *account, message *out,
                              hr_error *err)
{
    int64_t version;

    HR_TRY(flat_read(source, at, n, &ipc__message_table, account, out, err));
    version = hr__flat_number(&out->flat, out->table, 0, 2, 0);
    if (version < VERSION_4 || version > VERSION_5)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: the message at byte %lld is of version %d of Arrow's format",
                            source->name, (long long)at, (int)version + 1);
    out->kind = hr__flat_number(&out->flat, out->table, 1, 1, 0);
    out->header = hr__flat_table(&out->flat, out->table, 2);
    out->body_bytes = hr__flat_number(&out->flat, out->table, 3, 8, 0);
    if (out->body_bytes < 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: the message at byte %lld has a body of %lld bytes", source->name,
                            (long long)at, (long long)out->body_bytes);
    return HR_OK;
}

static void message_clear(message *m)
{
    hr__buffer_unref(m->bytes);
    *m = (message){ 0 };
}

/* The prefix of a message at *at: continuation and length, or (before Arrow 0.15) the length alone. *n 0: the end. */
static hr_status prefix_read(hr_source *source, int64_t *at, int64_t *n, hr_error *err)
{
    int32_t head[2] = { 0 };
    int64_t n_read;

    HR_TRY(hr__source_read_some(source, head, *at, 8, &n_read, err));
    if (n_read == 0) {
        *n = 0;
        return HR_OK;
    }
    if (n_read < 4 || (head[0] == -1 && n_read < 8))
        return hr_error_set(err, HR_BAD_DATA, "%s: ends within a message, at byte %lld", source->name, (long long)*at);
    *at += head[0] == -1 ? 8 : 4;
    *n = head[0] == -1 ? head[1] : head[0];
    if (*n < 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: a message of %lld bytes, at byte %lld", source->name, (long long)*n,
                            (long long)*at);
    return HR_OK;
}

static hr_status add_block(ipc_file *f, ipc_blocks *list, const ipc_block *b, hr_error *err)
{
    if (!hr__grow(f->base.account, (void **)&list->items, &list->cap, list->n + 1, sizeof *list->items))
        return hr__error_memory(err, f->base.name, (list->n + 1) * (int64_t)sizeof *list->items);
    list->items[list->n++] = *b;
    return HR_OK;
}

static hr_status check_body(const ipc_file *f, const ipc_block *b, hr_error *err)
{
    if (b->body_bytes < 0 || b->body_at < 0 || b->body_bytes > f->source->n_bytes ||
        b->body_at > f->source->n_bytes - b->body_bytes)
        return hr_error_set(err, HR_BAD_DATA, "%s: a body of %lld bytes at byte %lld, the file has %lld", f->base.name,
                            (long long)b->body_bytes, (long long)b->body_at, (long long)f->source->n_bytes);
    return HR_OK;
}

/* Arrow 0.17 wrote the codec of a batch only in the message's own metadata. */
static hr_status old_codec(message *m, const hr_codec **out, hr_error *err)
{
    static const char key[] = "ARROW:experimental_compression";
    int64_t first, n = hr__flat_vector(&m->flat, m->table, 4, 4, &first);

    for (int64_t i = 0; i < n && !m->flat.bad; i++) {
        int64_t pair = hr__flat_element(&m->flat, first, i);
        hr_view k = hr__flat_text(&m->flat, pair, 0), v = hr__flat_text(&m->flat, pair, 1);

        if (k.n != sizeof key - 1 || memcmp(k.data, key, sizeof key - 1))
            continue;
        if (v.n == 3 && !strncasecmp((const char *)v.data, "lz4", 3))
            *out = &hr__codec_lz4_frame;
        else if (v.n == 4 && !strncasecmp((const char *)v.data, "zstd", 4))
            *out = &hr__codec_zstd;
        else
            return hr_error_set(err, HR_UNSUPPORTED, "compression '%.*s' is not known", (int)HR_MIN(v.n, 40),
                                (const char *)v.data);
    }
    return m->flat.bad ? hr_error_set(err, HR_BAD_DATA, "the message is damaged") : HR_OK;
}

/* The table of a RecordBatch in m, and the codec of its message. */
static hr_status batch_of(const ipc_file *f, message *m, const ipc_block *b, ipc_batch *out, hr_error *err)
{
    int64_t table = m->kind == MESSAGE_DICTIONARY && m->header ? hr__flat_table(&m->flat, m->header, 1) : m->header;
    hr_status st = ipc__batch_read(&m->flat, table, b->body_at, b->body_bytes, out, err);

    out->check_values = f->check_values;
    if (!st && !out->codec && hr__flat_number(&m->flat, m->table, 0, 2, 0) < VERSION_5)
        st = old_codec(m, &out->codec, err);
    return st ? hr__error_at(err, st, "%s: message at byte %lld", f->base.name, (long long)b->at) : HR_OK;
}

/* Checks by its message that the batch has the buffers of the schema's columns. */
static hr_status check_batch(ipc_file *f, message *m, const ipc_block *b, hr_error *err)
{
    ipc_place *places;
    ipc_batch batch;
    hr_status st;

    HR_TRY(batch_of(f, m, b, &batch, err));
    if (m->kind == MESSAGE_DICTIONARY)
        return HR_OK;
    places = hr__alloc(f->base.account, (size_t)f->schema->n * sizeof *places);
    if (!places)
        return hr__error_memory(err, f->base.name, f->schema->n * (int64_t)sizeof *places);
    st = ipc__places(f->schema, &batch, places, err);
    hr__free(places);
    return st ? hr__error_at(err, st, "%s: message at byte %lld", f->base.name, (long long)b->at) : HR_OK;
}

/* Adds a dictionary or a record batch, by the type of the message. */
static hr_status add_message(ipc_file *f, message *m, ipc_block *b, hr_error *err)
{
    HR_TRY(check_body(f, b, err));
    if (m->kind == MESSAGE_BATCH || m->kind == MESSAGE_DICTIONARY)
        HR_TRY(check_batch(f, m, b, err));
    if (m->kind == MESSAGE_BATCH) {
        b->n_rows = hr__flat_number(&m->flat, m->header, 0, 8, 0);
        b->before = f->dictionaries.n;
        if (b->n_rows < 0 || __builtin_add_overflow(f->base.n_rows, b->n_rows, &f->base.n_rows))
            return hr_error_set(err, HR_BAD_DATA, "%s: record batch %lld has %lld rows", f->base.name,
                                (long long)f->batches.n, (long long)b->n_rows);
        return add_block(f, &f->batches, b, err);
    }
    if (m->kind == MESSAGE_DICTIONARY)
        return add_block(f, &f->dictionaries, b, err);
    return hr_error_set(err, HR_UNSUPPORTED, "%s: message number %d (a tensor?) does not belong to a table",
                        f->base.name, (int)m->kind);
}

/* -------------------------------------------------------------------------------------------------- file and stream */

static hr_status read_schema(ipc_file *f, hr_flat *flat, int64_t table, hr_error *err)
{
    hr_status st = table ? ipc__schema_read(flat, table, f->base.account, &f->schema, err)
                         : hr_error_set(err, HR_BAD_DATA, "without a schema");

    if (!st) /* before batches, which need known types */
        st = ipc__schema_types(f->schema, false, &f->types, err);
    return st ? hr__error_at(err, st, "%s", f->base.name) : HR_OK;
}

/* Checks the bytes after the end of a stream: only zeros, up to a boundary. Any other byte belongs to data that no
 * reader would read, for example after a message length overwritten with zeros, or of a second stream. */
static hr_status check_end(const ipc_file *f, int64_t at, hr_error *err)
{
    int64_t n = f->source->n_bytes - at, n_read;
    uint8_t rest[ALIGN_BYTES];
    bool zeros = n <= ALIGN_BYTES;

    HR_TRY(hr__source_read_some(f->source, rest, at, HR_MIN(n, ALIGN_BYTES), &n_read, err));
    for (int64_t i = 0; i < n_read; i++)
        zeros = zeros && rest[i] == 0;
    return zeros ? HR_OK
                 : hr_error_set(err, HR_BAD_DATA, "%s: the stream ends at byte %lld, %lld bytes follow", f->base.name,
                                (long long)at, (long long)n);
}

static hr_status stream_index(ipc_file *f, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t at = 0, n;
    message m = { 0 };
    ipc_block b;

    HR_GO(prefix_read(f->source, &at, &n, err));
    HR_GO(message_read(f->source, at, n, f->base.account, &m, err));
    if (m.kind != MESSAGE_SCHEMA)
        HR_FAIL(HR_BAD_DATA, "%s: a stream begins with its schema, not with message number %d", f->base.name,
                (int)m.kind);
    HR_GO(read_schema(f, &m.flat, m.header, err));
    b = (ipc_block){ .at = at, .body_at = at + n, .body_bytes = m.body_bytes }; /* a schema usually has no body */
    HR_GO(check_body(f, &b, err));
    at = b.body_at + b.body_bytes;
    for (;;) {
        message_clear(&m);
        HR_GO(prefix_read(f->source, &at, &n, err));
        if (n == 0) {
            st = check_end(f, at, err);
            break;
        }
        HR_GO(message_read(f->source, at, n, f->base.account, &m, err));
        b = (ipc_block){ .at = at, .message_bytes = n, .body_at = at + n, .body_bytes = m.body_bytes };
        HR_GO(add_message(f, &m, &b, err));
        at = b.body_at + b.body_bytes;
    }
done:
    message_clear(&m);
    return st;
}

/* Blocks of one of the footer's lists. */
static hr_status footer_blocks(ipc_file *f, hr_flat *flat, int64_t footer, int i, int kind, hr_error *err)
{
    int64_t first, n = hr__flat_vector(flat, footer, i, BLOCK_BYTES, &first);
    hr_status st = HR_OK;
    message m = { 0 };

    for (int64_t k = 0; k < n; k++) {
        int64_t entry = first + k * BLOCK_BYTES, at = (int64_t)hr__flat_load(flat, entry, 8), from = at, length;
        ipc_block b = { .body_bytes = (int64_t)hr__flat_load(flat, entry + 16, 8) };
        int32_t message_bytes = (int32_t)hr__flat_load(flat, entry + 8, 4);

        message_clear(&m);
        if (at < 0 || at > f->source->n_bytes || message_bytes < 0)
            HR_FAIL(HR_BAD_DATA, "%s: the footer names a message at byte %lld", f->base.name, (long long)at);
        HR_GO(prefix_read(f->source, &at, &length, err));
        b.at = at;
        b.message_bytes = length;
        b.body_at = from + message_bytes;
        HR_GO(message_read(f->source, at, length, f->base.account, &m, err));
        if (m.kind != kind || m.body_bytes != b.body_bytes || b.body_at != at + length)
            HR_FAIL(HR_BAD_DATA, "%s: the footer and the message at byte %lld differ", f->base.name, (long long)from);
        HR_GO(add_message(f, &m, &b, err));
    }
done:
    message_clear(&m);
    return st;
}

/* Where the stream within a file begins: after the magic, and zeros up to a boundary. 0: there is no message with a
 * continuation (Polars writes the schema without its length, and Arrow before 0.15 wrote no continuation). */
static hr_status stream_begin(ipc_file *f, int64_t *at, hr_error *err)
{
    uint8_t head[ALIGN_BYTES + 4];
    uint32_t word = 0;
    int64_t n, i;

    *at = 0;
    HR_TRY(hr__source_read_some(f->source, head, 0, sizeof head, &n, err));
    for (i = 8; i + 4 <= n && word == 0; i += 4)
        memcpy(&word, head + i, 4);
    if (word == CONTINUATION)
        *at = i - 4;
    return HR_OK;
}

/* A file is a stream with a footer after it, so it has the schema twice. */
static hr_status check_schema(ipc_file *f, hr_error *err)
{
    ipc_schema *first = NULL;
    hr_status st = HR_OK;
    message m = { 0 };
    int64_t at, n;

    HR_GO(stream_begin(f, &at, err));
    if (!at)
        return HR_OK;
    HR_GO(prefix_read(f->source, &at, &n, err));
    HR_GO(message_read(f->source, at, n, f->base.account, &m, err));
    if (m.kind != MESSAGE_SCHEMA || !m.header)
        HR_FAIL(HR_BAD_DATA, "%s: a file begins with its schema, not with message number %d", f->base.name,
                (int)m.kind);
    st = ipc__schema_read(&m.flat, m.header, f->base.account, &first, err);
    if (st)
        HR_GO(hr__error_at(err, st, "%s", f->base.name));
    if (!ipc__schema_same(first, f->schema))
        HR_FAIL(HR_BAD_DATA, "%s: the schema in the footer is not the one at the beginning", f->base.name);
done:
    ipc__schema_free(first);
    message_clear(&m);
    return st;
}

static int by_place(const void *a, const void *b)
{
    const ipc_block *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Checks all messages that the footer names, in the order of the file: none twice, none within another, and no message
 * that the footer does not name. */
static hr_status check_blocks(ipc_file *f, int64_t footer_at, hr_error *err)
{
    int64_t n = f->dictionaries.n + f->batches.n, end = 8, length;
    ipc_block *all = hr__alloc(f->base.account, (size_t)(n + 1) * sizeof *all);
    hr_status st = HR_OK;

    if (!all)
        return hr__error_memory(err, f->base.name, n * (int64_t)sizeof *all);
    if (f->dictionaries.n)
        memcpy(all, f->dictionaries.items, (size_t)f->dictionaries.n * sizeof *all);
    if (f->batches.n)
        memcpy(all + f->dictionaries.n, f->batches.items, (size_t)f->batches.n * sizeof *all);
    qsort(all, (size_t)n, sizeof *all, by_place);
    for (int64_t i = 0; i < n; i++) {
        if (all[i].at < end)
            HR_FAIL(HR_BAD_DATA, "%s: the footer names a message at byte %lld, the one before ends at %lld",
                    f->base.name, (long long)all[i].at, (long long)end);
        end = all[i].body_at + all[i].body_bytes;
    }
    if (n == 0 || end + 8 > footer_at)
        goto done;
    HR_GO(prefix_read(f->source, &end, &length, err));
    if (length > 0 && length <= footer_at - end)
        HR_FAIL(HR_BAD_DATA, "%s: the footer does not name the message at byte %lld", f->base.name, (long long)end);
done:
    hr__free(all);
    return st;
}

/* A dictionary cannot be replaced in a file, whose record batches may be read in any order. */
static hr_status check_replaced(const ipc_file *f, hr_error *err)
{
    for (int64_t k = 0; f->is_file && k < f->dictionaries.n; k++) {
        for (int64_t i = 0; i < k && !f->values[k].is_delta; i++)
            if (f->values[i].id == f->values[k].id)
                return hr_error_set(err, HR_BAD_DATA, "%s: dictionary %lld occurs twice", f->base.name,
                                    (long long)f->values[k].id);
    }
    return HR_OK;
}

static hr_status file_index(ipc_file *f, hr_error *err)
{
    uint8_t tail[4 + 6];
    int64_t n = f->source->n_bytes, footer;
    int32_t footer_bytes;
    hr_status st = HR_OK;
    message m = { 0 };

    if (n < 8 + 4 + 6 + 8)
        return hr_error_set(err, HR_BAD_DATA, "%s: %lld bytes are too few for an Arrow file", f->base.name,
                            (long long)n);
    HR_GO(hr__source_read(f->source, tail, n - 10, 10, err));
    memcpy(&footer_bytes, tail, 4);
    if (memcmp(tail + 4, MAGIC, 6) != 0 || footer_bytes < 8 || footer_bytes > n - 18)
        HR_FAIL(HR_BAD_DATA, "%s: does not end with the footer of an Arrow file (is it cut off?)", f->base.name);
    HR_GO(flat_read(f->source, n - 10 - footer_bytes, footer_bytes, &ipc__footer_table, f->base.account, &m, err));
    footer = m.table;
    f->is_file = true;
    HR_GO(read_schema(f, &m.flat, hr__flat_table(&m.flat, footer, 1), err));
    HR_GO(check_schema(f, err));
    HR_GO(footer_blocks(f, &m.flat, footer, 2, MESSAGE_DICTIONARY, err));
    HR_GO(footer_blocks(f, &m.flat, footer, 3, MESSAGE_BATCH, err));
    HR_GO(check_blocks(f, n - 10 - footer_bytes, err));
done:
    message_clear(&m);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- dictionaries */

typedef struct lookup {
    ipc_file *f;
    int64_t before; /* only messages before this one count */
    int depth;
} lookup;

static const ipc_field *field_with(const ipc_field *fields, int n, int64_t id)
{
    for (int i = 0; i < n; i++) {
        const ipc_field *found = fields[i].index && fields[i].id == id
                                     ? &fields[i]
                                     : field_with(fields[i].children, fields[i].n_children, id);
        if (found)
            return found;
    }
    return NULL;
}

static hr_status find_locked(void *context, int64_t id, hr_array **out, hr_error *err);

/* The values of message k alone. */
static hr_status read_values_locked(const lookup *l, int64_t k, hr_array **out, hr_error *err)
{
    lookup inner = { l->f, k, l->depth + 1 };
    ipc_dictionaries d = { &inner, find_locked };
    const ipc_block *b = &l->f->dictionaries.items[k];
    const ipc_field *field = field_with(l->f->schema->fields, l->f->schema->n, l->f->values[k].id);
    hr_mem mem = { l->f->base.account, NULL };
    hr_status st = HR_OK;
    ipc_batch batch;
    message m = { 0 };

    if (!field || l->depth > HR_MAX_DEPTH)
        return hr_error_set(err, HR_BAD_DATA, "no column uses dictionary %lld", (long long)l->f->values[k].id);
    HR_GO(message_read(l->f->source, b->at, b->message_bytes, l->f->base.account, &m, err));
    HR_GO(batch_of(l->f, &m, b, &batch, err));
    HR_GO(ipc__values_read(l->f->schema, field, &batch, l->f->source, &mem, &d, out, err));
done:
    message_clear(&m);
    return st;
}

/* A dictionary after message k: its last whole values, and the deltas since. */
static hr_status values_locked(const lookup *l, int64_t k, hr_array **out, hr_error *err)
{
    ipc_values *v = l->f->values;
    hr_mem mem = { l->f->base.account, NULL };
    hr_array *own = NULL, *parts[2] = { NULL, NULL };
    hr_status st = HR_OK;
    int64_t from = k;

    while (from >= 0 && !(v[from].id == v[k].id && (v[from].values || !v[from].is_delta)))
        from--;
    if (from < 0)
        return hr_error_set(err, HR_BAD_DATA, "dictionary %lld begins with a delta", (long long)v[k].id);
    for (int64_t i = from; i <= k; i++) {
        if (v[i].id != v[k].id)
            continue;
        if (!v[i].values) {
            HR_GO(read_values_locked(l, i, &own, err));
            if (v[i].is_delta) {
                parts[1] = own;
                HR_GO(hr__array_concat(&mem, own->type, parts, 2, &v[i].values, err));
                hr__array_unref(own);
            } else {
                v[i].values = own;
            }
            own = NULL;
        }
        parts[0] = v[i].values;
    }
    *out = v[k].values;
done:
    hr__array_unref(own);
    return st;
}

static hr_status find_locked(void *context, int64_t id, hr_array **out, hr_error *err)
{
    const lookup *l = context;

    *out = NULL;
    for (int64_t k = l->before; k-- > 0;) {
        if (l->f->values[k].id == id)
            return values_locked(l, k, out, err);
    }
    return HR_OK;
}

static hr_status find(void *context, int64_t id, hr_array **out, hr_error *err)
{
    const lookup *l = context;
    hr_status st;

    hr__lock(&l->f->lock);
    st = find_locked(context, id, out, err);
    hr__unlock(&l->f->lock);
    return st;
}

/* Lists the dictionaries, without reading their values. */
static hr_status list_values(ipc_file *f, hr_error *err)
{
    hr_status st = HR_OK;
    message m = { 0 };

    f->values = hr__zalloc(f->base.account, (size_t)f->dictionaries.n * sizeof *f->values);
    if (!f->values)
        return hr__error_memory(err, f->base.name, f->dictionaries.n * (int64_t)sizeof *f->values);
    for (int64_t k = 0; k < f->dictionaries.n; k++) {
        const ipc_block *b = &f->dictionaries.items[k];

        message_clear(&m);
        HR_GO(message_read(f->source, b->at, b->message_bytes, f->base.account, &m, err));
        f->values[k].id = hr__flat_number(&m.flat, m.header, 0, 8, 0);
        f->values[k].is_delta = hr__flat_number(&m.flat, m.header, 2, 1, 0) != 0;
        if (!field_with(f->schema->fields, f->schema->n, f->values[k].id))
            HR_FAIL(HR_BAD_DATA, "%s: message at byte %lld: no column uses dictionary %lld", f->base.name,
                    (long long)b->at, (long long)f->values[k].id);
    }
    st = check_replaced(f, err);
done:
    message_clear(&m);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- readers */

typedef struct ipc_reader {
    hr_reader base;
    ipc_file *file;
    int fragment;
    hr_mem mem;
    int64_t row, end;
    hr_table *whole; /* all rows of the batch; NULL: not read yet */
} ipc_reader;

static void ipc_reader_close(hr_reader *base)
{
    ipc_reader *r = (ipc_reader *)base;

    hr_table_unref(r->whole);
    hr__scan_file_unref(&r->file->base);
    hr__free(r);
}

static hr_status read_columns(ipc_reader *r, const ipc_batch *batch, hr_array **columns, hr_error *err)
{
    ipc_file *f = r->file;
    lookup l = { f, f->batches.items[r->fragment].before, 0 };
    ipc_dictionaries d = { &l, find };
    ipc_place *places = hr__alloc(r->mem.account, (size_t)f->schema->n * sizeof *places);
    hr_status st = HR_OK;

    if (!places)
        return hr__error_memory(err, f->base.name, f->schema->n * (int64_t)sizeof *places);
    st = ipc__places(f->schema, batch, places, err);
    if (st) {
        st = hr__error_at(err, st, "%s: record batch %d", f->base.name, r->fragment);
        goto done;
    }
    for (int i = 0; i < f->base.schema->n; i++) {
        int at = f->columns[i];

        st = ipc__column_read(f->schema, batch, at, places[at], f->source, &r->mem, &d, &columns[i], err);
        if (st) {
            st = hr__error_at(err, st, "%s: record batch %d, column '%s'", f->base.name, r->fragment,
                              f->schema->fields[at].name);
            goto done;
        }
    }
done:
    hr__free(places);
    return st;
}

/* A batch is read whole. The error for a batch above the memory limit comes before the read; the decompressed size of a
 * compressed one is unknown then. */
static hr_status check_room(const ipc_reader *r, hr_error *err)
{
    const ipc_file *f = r->file;
    int64_t limit = hr__account_limit(r->mem.account), needed;

    needed = f->batches.items[r->fragment].body_bytes / HR_MAX(f->schema->n, 1) * f->base.schema->n; /* about */
    if (limit <= 0 || needed <= limit)
        return HR_OK;
    return hr_error_set(err, HR_BUDGET, "%s: record batch %d takes %lld bytes, the memory limit is %lld", f->base.name,
                        r->fragment, (long long)needed, (long long)limit);
}

static hr_status read_batch(ipc_reader *r, hr_error *err)
{
    ipc_file *f = r->file;
    const ipc_block *b = &f->batches.items[r->fragment];
    hr_array **columns = hr__zalloc(r->mem.account, ((size_t)f->base.schema->n + 1) * sizeof(hr_array *));
    hr_status st = HR_OK;
    ipc_batch batch;
    message m = { 0 };

    if (!columns)
        return hr__error_memory(err, f->base.name, f->base.schema->n * (int64_t)sizeof(hr_array *));
    HR_GO(check_room(r, err));
    HR_GO(message_read(f->source, b->at, b->message_bytes, r->mem.account, &m, err));
    HR_GO(batch_of(f, &m, b, &batch, err));
    HR_GO(read_columns(r, &batch, columns, err));
    st = hr__file_table(&f->base, r->fragment, 0, b->n_rows, columns, &r->whole, err);
done:
    for (int i = 0; i < f->base.schema->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    message_clear(&m);
    return st;
}

static hr_status ipc_next(hr_reader *base, int64_t max_bytes, hr_table **out, hr_error *err)
{
    ipc_reader *r = (ipc_reader *)base;
    int64_t row_bytes, n;

    if (r->row >= r->end)
        return HR_OK;
    if (!r->whole)
        HR_TRY(read_batch(r, err));
    row_bytes = HR_MAX(1, hr__table_bytes_used(r->whole) / HR_MAX(1, r->whole->n_rows));
    n = HR_MIN(HR_MAX(1, max_bytes / row_bytes), r->end - r->row);
    HR_TRY(hr_table_slice(r->whole, r->row, n, out, err));
    r->row += n;
    return HR_OK;
}

static const hr_reader_class ipc_reader_class = { ipc_next, ipc_reader_close };

/* ------------------------------------------------------------------------------------------------------------ files */

static hr_status ipc_read(hr_scan_file *base, int fragment, int64_t row_begin, int64_t n_rows, const hr_mem *mem,
                          hr_reader **out, hr_error *err)
{
    ipc_file *f = (ipc_file *)base;
    ipc_reader *r = hr__zalloc(mem->account, sizeof *r);
    int64_t rows = f->batches.items[fragment].n_rows;

    *out = NULL;
    if (!r)
        return hr__error_memory(err, base->name, sizeof *r);
    r->base.cls = &ipc_reader_class;
    r->file = f;
    hr__scan_file_ref(base);
    r->fragment = fragment;
    r->mem = *mem;
    r->row = HR_MIN(HR_MAX(row_begin, 0), rows);
    r->end = n_rows < 0 ? rows : HR_MIN(rows, r->row + HR_MIN(n_rows, rows));
    *out = &r->base;
    return HR_OK;
}

static hr_status ipc_fragment(hr_scan_file *base, int fragment, hr_fragment *out, hr_error *err)
{
    const ipc_file *f = (const ipc_file *)base;
    const ipc_block *b = &f->batches.items[fragment];

    (void)err;
    *out = (hr_fragment){ .n_rows = b->n_rows };
    out->stored_bytes = f->schema->n ? b->body_bytes / f->schema->n * base->schema->n : 0;
    out->memory_bytes = out->stored_bytes;
    return HR_OK;
}

static void ipc_ahead(hr_scan_file *base, int fragment)
{
    const ipc_file *f = (const ipc_file *)base;

    hr__source_ahead(f->source, f->batches.items[fragment].body_at, f->batches.items[fragment].body_bytes);
}

static void ipc_close(hr_scan_file *base)
{
    ipc_file *f = (ipc_file *)base;

    for (int64_t k = 0; f->values && k < f->dictionaries.n; k++)
        hr__array_unref(f->values[k].values);
    hr__free(f->values);
    hr__free(f->batches.items);
    hr__free(f->dictionaries.items);
    hr__free(f->columns);
    ipc__schema_free(f->schema);
    hr__schema_unref(f->types);
    hr__source_unref(f->source);
    hr__mutex_clear(&f->lock);
}

static const hr_scan_file_class ipc_file_class = {
    .fragment = ipc_fragment,
    .read = ipc_read,
    .ahead = ipc_ahead,
    .close = ipc_close,
};

/* The projected columns: base.schema and their numbers in the file. */
static hr_status project(ipc_file *f, const hr_projection *projection, hr_error *err)
{
    hr_schema *all = f->types;
    int n = projection ? projection->n : all->n;
    hr_field *fields = NULL;
    hr_status st = HR_OK;

    f->base.n_columns = all->n;
    f->columns = hr__alloc(f->base.account, (size_t)n * sizeof *f->columns);
    fields = hr__alloc(f->base.account, (size_t)n * sizeof *fields);
    if (!f->columns || !fields)
        HR_GO(hr__error_memory(err, f->base.name, n * (int64_t)sizeof *fields));
    for (int i = 0; i < n; i++) {
        int at = projection ? hr__schema_find(all, projection->names[i]) : i;

        if (at < 0)
            HR_GO(hr__schema_missing_in(f->base.name, HR_NOT_FOUND, all, projection->names[i], err));
        f->columns[i] = at;
        fields[i] = all->fields[at]; /* borrowed */
    }
    if (projection)
        HR_GO(hr__schema_new(fields, n, &f->base.schema, err));
    else
        f->base.schema = hr__schema_ref(all);
done:
    hr__free(fields);
    return st;
}

static hr_status ipc_open(hr_source *source, const hr_open *how, hr_scan_file **out, hr_error *err)
{
    hr_status st = HR_OK;
    uint8_t head[8] = { 0 };
    ipc_file *f = NULL;
    int64_t n;

    *out = NULL;
    HR_TRY(hr__source_read_some(source, head, 0, sizeof head, &n, err));
    if (n < 4 || memcmp(head, "FEA1", 4) == 0)
        return hr_error_set(err, n < 4 ? HR_BAD_DATA : HR_UNSUPPORTED, "%s: %s", source->name,
                            n < 4 ? "too short for Arrow data"
                                  : "Feather V1, which Arrow no longer supports; write the file again as Feather V2");
    HR_TRY(hr__scan_file_new(&ipc_file_class, sizeof *f, source->name, how->account, out, err));
    f = (ipc_file *)*out;
    hr__mutex_init(&f->lock);
    f->source = hr__source_ref(source);
    f->check_values = how->options ? ((const ipc_options *)how->options)->check_values : IPC_CHECK_USUAL;
    HR_GO(memcmp(head, MAGIC, 6) == 0 ? file_index(f, err) : stream_index(f, err));
    if (f->batches.n > INT32_MAX)
        HR_FAIL(HR_UNSUPPORTED, "%s: %lld record batches", f->base.name, (long long)f->batches.n);
    f->base.n_fragments = (int)f->batches.n;
    HR_GO(list_values(f, err));
    HR_GO(project(f, how->projection, err));
done:
    if (st) {
        hr__scan_file_unref(*out);
        *out = NULL;
    }
    return st;
}

static int ipc_bid(hr_view head)
{
    static const uint8_t continuation[4] = { 0xff, 0xff, 0xff, 0xff };

    if (hr__view_starts(head, MAGIC) || hr__view_starts(head, "FEA1"))
        return 48;
    return head.n >= 8 && memcmp(head.data, continuation, 4) == 0 ? 32 : 0;
}

const hr_format hr__format_arrow = {
    .name = "arrow",
    .suffixes = "arrow arrows feather ipc",
    .doc = "Arrow IPC: files (Feather V2) and streams",
    .opens = HR_OPENS_BOTH,
    .options = ipc_option_table,
    .options_bytes = sizeof(ipc_options),
    .bid = ipc_bid,
    .open = ipc_open,
    .write_options = ipc__write_options,
    .write_options_bytes = sizeof(ipc_write_options),
    .create = ipc__create,
};
