/* ipc_write.c - the Arrow IPC writer: a write chunk is a whole record batch message, so that encoding (copying,
 * compressing) runs on all threads; a file is its beginning, write chunks, and a footer with their places.
 *
 * The writer pads buffers to 64 bytes, as the specification recommends; the length of a compressed buffer precedes it.
 * It writes no dictionaries.
 *
 * Tests: test_ipc.c, test_writers.c. */
#include "format/arrow/ipc.h"

#define PIECE_ROWS (64 << 10)
#define PIECE_BYTES (64 << 20)
#define ALIGN 64

enum { MESSAGE_BATCH = 3, VERSION_5 = 4 };

const hr_option ipc__write_options[] = {
    { .name = "stream",
      .kind = HR_OPT_BOOL,
      .at = offsetof(ipc_write_options, stream),
      .doc = "write the stream format, without a footer; false: the file format (Feather V2)" },
    { .name = "compression",
      .kind = HR_OPT_CHOICE,
      .at = offsetof(ipc_write_options, compression),
      .text = "none lz4 zstd",
      .doc = "compression of each buffer" },
    { 0 },
};

typedef struct ipc_writer {
    hr_writer base;
    hr_account *account;
    hr_schema *schema;
    const hr_codec *codec; /* NULL: none */
    int codec_number;
    bool is_stream;
} ipc_writer;

/* --------------------------------------------------------------------------------------------------------- encoding */

typedef struct pair {
    int64_t a, b;
} pair; /* FieldNode (rows, nulls) and Buffer (offset, bytes) */

typedef struct encode {
    const ipc_writer *w;
    const hr_mem *mem;
    hr_growbuf body;
    pair *nodes, *buffers;
    int64_t n_nodes, cap_nodes, n_buffers, cap_buffers;
    hr_error *err;
} encode;

static hr_status add_pair(encode *e, pair **list, int64_t *n, int64_t *cap, pair p)
{
    if (!hr__grow(e->mem->account, (void **)list, cap, *n + 1, sizeof p))
        return hr__error_memory(e->err, "record batch", (*n + 1) * (int64_t)sizeof p);
    (*list)[(*n)++] = p;
    return HR_OK;
}

static int64_t body_bytes(const encode *e) { return e->body.buffer ? e->body.buffer->n_bytes : 0; }

static hr_status pad(encode *e)
{
    static const uint8_t zeros[ALIGN];
    int64_t n = body_bytes(e);

    return hr__growbuf_add(&e->body, zeros, HR_ROUND_UP(n, ALIGN) - n, e->err);
}

/* The compressed bytes after their length; or, if these are not shorter, -1 and the plain bytes. */
static hr_status add_packed(encode *e, const uint8_t *data, int64_t n)
{
    const hr_codec *c = e->w->codec;
    int64_t cap = c->max_packed_bytes(n), n_packed = 0, length = n;
    uint8_t *at;

    HR_TRY(hr__growbuf_reserve(&e->body, 8 + HR_MAX(cap, n), e->err));
    at = e->body.buffer->data + e->body.buffer->n_bytes;
    HR_TRY(hr__codec_pack(c, (hr_view){ data, n }, at + 8, cap, 0, &n_packed, e->err));
    if (n_packed >= n) {
        memcpy(at + 8, data, (size_t)n);
        n_packed = n;
        length = -1;
    }
    memcpy(at, &length, 8);
    e->body.buffer->n_bytes += 8 + n_packed;
    return HR_OK;
}

static hr_status add_buffer(encode *e, const void *data, int64_t n)
{
    pair place = { body_bytes(e), 0 };

    if (n > 0 && e->w->codec)
        HR_TRY(add_packed(e, data, n));
    else if (n > 0)
        HR_TRY(hr__growbuf_add(&e->body, data, n, e->err));
    place.b = body_bytes(e) - place.a;
    HR_TRY(add_pair(e, &e->buffers, &e->n_buffers, &e->cap_buffers, place));
    return pad(e);
}

/* Offsets of no rows are one zero. */
static hr_status add_offsets(encode *e, const hr_array *a, int64_t *last)
{
    static const uint8_t zero[8];
    int width = hr__type_offset_bytes(a->type);
    const uint8_t *p = a->length ? a->buffers[1]->data : zero;

    *last = 0;
    memcpy(last, p + a->length * width, (size_t)width); /* little endian; not negative */
    return add_buffer(e, p, (a->length + 1) * width);
}

/* An array without offset, and its children. */
static hr_status add_array(encode *e, const hr_array *a)
{
    int64_t n_null = a->type->id == HR_T_NULL ? a->length : hr__array_null_count(a), last;

    HR_TRY(add_pair(e, &e->nodes, &e->n_nodes, &e->cap_nodes, (pair){ a->length, n_null }));
    if (a->offset != 0)
        return hr_error_set(e->err, HR_BUG, "ipc: an array that does not begin at row 0");
    if (a->type->id == HR_T_NULL)
        return HR_OK;
    HR_TRY(add_buffer(e, n_null ? a->buffers[0]->data : NULL, n_null ? hr__bits_bytes(a->length) : 0));
    if (hr__type_is_bytes(a->type)) {
        HR_TRY(add_offsets(e, a, &last));
        HR_TRY(add_buffer(e, last ? a->buffers[2]->data : NULL, last));
    } else if (hr__type_offset_bytes(a->type)) {
        HR_TRY(add_offsets(e, a, &last));
    } else if (a->type->id == HR_T_BOOL) {
        HR_TRY(add_buffer(e, a->length ? a->buffers[1]->data : NULL, hr__bits_bytes(a->length)));
    } else if (a->n_children == 0 && a->type->id != HR_T_STRUCT) {
        int64_t n = a->length * (a->type->id == HR_T_FIXED_BINARY ? a->type->width : hr__type_bytes(a->type));

        HR_TRY(add_buffer(e, n ? a->buffers[1]->data : NULL, n));
    }
    for (int i = 0; i < a->n_children; i++)
        HR_TRY(add_array(e, a->children[i]));
    return HR_OK;
}

static hr_status add_column(encode *e, hr_array *column)
{
    hr_mem scratch = { e->mem->account, NULL };
    hr_array *own = NULL;
    hr_status st;

    HR_TRY(hr__array_concat(&scratch, column->type, &column, 1, &own, e->err)); /* contiguous, from row 0 */
    st = add_array(e, own);
    hr__array_unref(own);
    return st;
}

/* The flatbuffer of the record batch's message, in b. */
static hr_view batch_message(const encode *e, int64_t n_rows, hr_flat_builder *b)
{
    int64_t compression = 0, buffers, nodes, batch;

    if (e->w->codec) {
        hr__flat_begin(b);
        hr__flat_add_number(b, 0, e->w->codec_number, 1);
        hr__flat_add_number(b, 1, 0, 1);
        compression = hr__flat_end(b);
    }
    buffers = hr__flat_put_items(b, e->buffers, e->n_buffers, sizeof(pair), true);
    nodes = hr__flat_put_items(b, e->nodes, e->n_nodes, sizeof(pair), true);
    hr__flat_begin(b);
    hr__flat_add_number(b, 0, n_rows, 8);
    hr__flat_add_ref(b, 1, nodes);
    hr__flat_add_ref(b, 2, buffers);
    hr__flat_add_ref(b, 3, compression);
    batch = hr__flat_end(b);
    hr__flat_begin(b);
    hr__flat_add_number(b, 3, body_bytes(e), 8);
    hr__flat_add_ref(b, 2, batch);
    hr__flat_add_number(b, 0, VERSION_5, 2);
    hr__flat_add_number(b, 1, MESSAGE_BATCH, 1);
    return hr__flat_finish(b, hr__flat_end(b));
}

/* What the footer says about a write chunk. */
typedef struct batch_sizes {
    int64_t message_bytes, body_bytes;
} batch_sizes;

static hr_status join(encode *e, hr_view message, hr_encoded_chunk *out)
{
    batch_sizes *sizes = hr__alloc(e->mem->account, sizeof *sizes);
    hr_buffer *head = NULL, *whole = NULL;
    hr_status st = HR_OK;
    int64_t n = body_bytes(e);

    if (!sizes)
        return hr__error_memory(e->err, "record batch", sizeof *sizes);
    HR_GO(ipc__message_wrap(message, e->mem, &head, e->err));
    HR_GO(hr__buffer_new(e->mem, head->n_bytes + n, &whole, e->err));
    memcpy(whole->data, head->data, (size_t)head->n_bytes);
    if (n)
        memcpy(whole->data + head->n_bytes, e->body.buffer->data, (size_t)n);
    *sizes = (batch_sizes){ head->n_bytes, n };
    out->bytes = whole;
    out->notes = sizes;
    out->notes_free = hr__free;
    whole = NULL; /* moved */
    sizes = NULL;
done:
    hr__free(sizes);
    hr__buffer_unref(head);
    hr__buffer_unref(whole);
    return st;
}

static hr_status ipc_encode(const hr_writer *base, const hr_mem *mem, const hr_table *t, hr_encoded_chunk *out,
                            hr_error *err)
{
    const ipc_writer *w = (const ipc_writer *)base;
    hr_mem scratch = { mem->account, NULL };
    encode e = { .w = w, .mem = mem, .body.mem = &scratch, .err = err };
    hr_flat_builder b = { .account = mem->account };
    hr_status st = HR_OK;
    hr_view message;

    for (int i = 0; i < t->schema->n; i++) {
        st = add_column(&e, t->columns[i]);
        if (st) {
            st = hr__error_at(err, st, "column '%s'", t->schema->fields[i].name);
            goto done;
        }
    }
    message = batch_message(&e, t->n_rows, &b);
    if (b.failed)
        HR_GO(hr__error_memory(err, "record batch", b.n));
    HR_GO(join(&e, message, out));
    out->n_rows = t->n_rows;
done:
    hr__flat_clear(&b);
    hr__growbuf_clear(&e.body);
    hr__free(e.nodes);
    hr__free(e.buffers);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ files */

/* As in the footer's list: with padding after the second. */
typedef struct written {
    int64_t at;
    int32_t message_bytes, padding;
    int64_t body_bytes;
} written;

typedef struct ipc_out {
    written *batches;
    int64_t n, cap;
} ipc_out;

static hr_status ipc_begin(const hr_writer *base, void *file, hr_sink *sink, hr_error *err)
{
    const ipc_writer *w = (const ipc_writer *)base;
    hr_mem mem = { w->account, NULL };
    hr_buffer *message = NULL;
    hr_status st = HR_OK;

    (void)file;
    if (!w->is_stream)
        HR_TRY(hr__sink_write(sink, "ARROW1\0\0", 8, err));
    HR_TRY(hr__ipc_schema_message(w->schema, &mem, &message, err));
    st = hr__sink_write(sink, message->data, message->n_bytes, err);
    hr__buffer_unref(message);
    return st;
}

static hr_status ipc_add(const hr_writer *base, void *file, hr_sink *sink, hr_encoded_chunk *p, hr_error *err)
{
    const ipc_writer *w = (const ipc_writer *)base;
    const batch_sizes *sizes = p->notes;
    ipc_out *out = file;

    if (!hr__grow(w->account, (void **)&out->batches, &out->cap, out->n + 1, sizeof *out->batches))
        return hr__error_memory(err, hr__sink_name(sink), (out->n + 1) * (int64_t)sizeof *out->batches);
    out->batches[out->n++] = (written){ hr__sink_bytes(sink), (int32_t)sizes->message_bytes, 0, sizes->body_bytes };
    return hr__sink_write_buffer(sink, p->bytes, err);
}

static hr_status ipc_finish(const hr_writer *base, void *file, hr_sink *sink, hr_error *err)
{
    static const uint8_t end[8] = { 0xff, 0xff, 0xff, 0xff };
    const ipc_writer *w = (const ipc_writer *)base;
    hr_flat_builder b = { .account = w->account };
    ipc_out *out = file;
    hr_status st = HR_OK;
    int64_t schema, batches;
    int32_t n;
    hr_view footer;

    HR_TRY(hr__sink_write(sink, end, sizeof end, err));
    if (w->is_stream)
        return HR_OK;
    batches = hr__flat_put_items(&b, out->batches, out->n, sizeof *out->batches, true);
    schema = ipc__schema_put(&b, w->schema, err);
    hr__flat_begin(&b);
    hr__flat_add_ref(&b, 1, schema);
    hr__flat_add_ref(&b, 3, batches);
    hr__flat_add_number(&b, 0, VERSION_5, 2);
    footer = hr__flat_finish(&b, hr__flat_end(&b));
    if (b.failed)
        HR_GO(hr__error_memory(err, hr__sink_name(sink), b.n));
    n = (int32_t)footer.n;
    HR_GO(hr__sink_write(sink, footer.data, footer.n, err));
    HR_GO(hr__sink_write(sink, &n, 4, err));
    HR_GO(hr__sink_write(sink, "ARROW1", 6, err));
done:
    hr__flat_clear(&b);
    return st;
}

static void ipc_file_clear(const hr_writer *w, void *file)
{
    (void)w;
    hr__free(((ipc_out *)file)->batches);
}

static void ipc_free(hr_writer *base)
{
    ipc_writer *w = (ipc_writer *)base;

    hr__schema_unref(w->schema);
    hr__account_unref(w->account);
    hr__free(w);
}

static const hr_writer_class ipc_writer_class = {
    .file_bytes = sizeof(ipc_out),
    .encode = ipc_encode,
    .begin = ipc_begin,
    .add = ipc_add,
    .finish = ipc_finish,
    .file_clear = ipc_file_clear,
    .free = ipc_free,
};

hr_status ipc__create(hr_schema *schema, const void *options, hr_account *account, hr_writer **out, hr_error *err)
{
    static const hr_codec *const codecs[] = { NULL, &hr__codec_lz4_frame, &hr__codec_zstd };
    const ipc_write_options *o = options;
    ipc_writer *w;

    *out = NULL;
    if (codecs[o->compression] && !codecs[o->compression]->pack)
        return hr_error_set(err, HR_UNSUPPORTED, "arrow: compression %s: this build was made without it",
                            codecs[o->compression]->name);
    if (!(w = hr__zalloc(account, sizeof *w)))
        return hr__error_memory(err, "arrow", sizeof *w);
    w->base = (hr_writer){ .cls = &ipc_writer_class, .chunk_rows = PIECE_ROWS, .chunk_bytes = PIECE_BYTES };
    w->is_stream = o->stream;
    w->base.suffix = w->is_stream ? ".arrows" : ".arrow";
    w->codec = codecs[o->compression];
    w->codec_number = o->compression == 2;
    w->account = account ? hr__account_ref(account) : NULL;
    w->schema = hr__schema_ref(schema);
    *out = &w->base;
    return HR_OK;
}
