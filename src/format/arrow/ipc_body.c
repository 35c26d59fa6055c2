/* ipc_body.c - turns the buffers of a record batch into arrays.
 *
 * A message lists, field by field and depth first, a node (rows, nulls) for each field and the buffers of its layout.
 * The buffers of one column lie together in the body: the reader reads them at once, splits and decompresses them and
 * corrects the byte order; then it sets up structs of the C data interface over them, and hr__array_import does the
 * rest (dictionaries, views, run ends become plain arrays there). That interface trusts its input, so this file checks
 * that each buffer has the bytes that the rows, and the offsets in it, need.
 *
 * Tests: test_ipc.c. */
#include "format/arrow/ipc.h"

#include <stdlib.h>

#define MAX_ROWS (INT64_C(1) << 48)       /* so that sizes of rows do not overflow */
#define MAX_EMPTY_ROWS (INT64_C(1) << 31) /* of a batch that has no bytes at all */
#define NODE_BYTES 16
#define BUFFER_BYTES 16

/* ---------------------------------------------------------------------------------------------------------- batches */

static hr_status batch_codec(hr_flat *f, int64_t table, ipc_batch *out, hr_error *err)
{
    int64_t c = hr__flat_table(f, table, 3), codec, method;

    if (!c)
        return HR_OK;
    codec = hr__flat_number(f, c, 0, 1, 0);
    method = hr__flat_number(f, c, 1, 1, 0);
    if (codec > 1 || method != 0)
        return hr_error_set(err, HR_UNSUPPORTED, "compression number %d.%d is not known", (int)codec, (int)method);
    out->codec = codec == 0 ? &hr__codec_lz4_frame : &hr__codec_zstd;
    return HR_OK;
}

/* Where buffer i lies in the body. */
static void buffer_at(const ipc_batch *b, int64_t i, int64_t *at, int64_t *n)
{
    hr_flat flat = b->flat;

    *at = (int64_t)hr__flat_load(&flat, b->buffers + BUFFER_BYTES * i, 8);
    *n = (int64_t)hr__flat_load(&flat, b->buffers + BUFFER_BYTES * i + 8, 8);
}

/* Rows and nulls of node i. */
static void node_at(const ipc_batch *b, int64_t i, int64_t *n_rows, int64_t *n_nulls)
{
    hr_flat flat = b->flat;

    *n_rows = (int64_t)hr__flat_load(&flat, b->nodes + NODE_BYTES * i, 8);
    *n_nulls = (int64_t)hr__flat_load(&flat, b->nodes + NODE_BYTES * i + 8, 8);
}

/* Checks all buffers, also of columns that are not projected and of batches without rows. */
static hr_status check_buffers(const ipc_batch *b, hr_error *err)
{
    int64_t at, n;

    for (int64_t i = 0; i < b->n_buffers; i++) {
        buffer_at(b, i, &at, &n);
        if (at < 0 || n < 0 || n > b->body_bytes || at > b->body_bytes - n)
            return hr_error_set(err, HR_BAD_DATA, "buffer %lld: %lld bytes from byte %lld of a body of %lld",
                                (long long)i, (long long)n, (long long)at, (long long)b->body_bytes);
    }
    return HR_OK;
}

hr_status ipc__batch_read(hr_flat *f, int64_t table, int64_t body_at, int64_t body_bytes, ipc_batch *out, hr_error *err)
{
    *out = (ipc_batch){ .body_at = body_at, .body_bytes = body_bytes };
    if (!table)
        return hr_error_set(err, HR_BAD_DATA, "a message without its record batch");
    out->n_rows = hr__flat_number(f, table, 0, 8, 0);
    out->n_nodes = hr__flat_vector(f, table, 1, NODE_BYTES, &out->nodes);
    out->n_buffers = hr__flat_vector(f, table, 2, BUFFER_BYTES, &out->buffers);
    out->n_variadic = hr__flat_vector(f, table, 4, 8, &out->variadic);
    HR_TRY(batch_codec(f, table, out, err));
    if (f->bad)
        return hr_error_set(err, HR_BAD_DATA, "the message of a record batch is damaged");
    if (out->n_rows < 0 || out->n_rows > (body_bytes ? MAX_ROWS : MAX_EMPTY_ROWS))
        return hr_error_set(err, HR_BAD_DATA, "a record batch of %lld rows in %lld bytes", (long long)out->n_rows,
                            (long long)body_bytes);
    out->flat = *f;
    return check_buffers(out, err);
}

/* ---------------------------------------------------------------------------------------------------------- layouts */

typedef enum layout {
    L_NONE,      /* no buffers: null, run ends */
    L_BITS,      /* validity, bits */
    L_FIXED,     /* validity, values */
    L_BYTES,     /* validity, offsets, bytes */
    L_VIEWS,     /* validity, views, any number of others */
    L_LIST,      /* validity, offsets */
    L_LIST_VIEW, /* validity, offsets, sizes */
    L_NESTED     /* validity */
} layout;

enum { SWAP_PARTS = -1 };

typedef struct shape {
    layout layout;
    int width; /* of a value, or of an offset */
    int swap;  /* bytes per number to reverse; 1: none; SWAP_PARTS: 4, 4 and 8 of a month-day-nano */
} shape;

static int number_after(const char *text) { return text ? atoi(text + 1) : 0; }

static shape shape_of_format(const char *f)
{
    static const char letters[] = "cCsSiIlLefg";
    static const uint8_t widths[] = { 1, 1, 2, 2, 4, 4, 8, 8, 2, 4, 8 };
    const char *at = strchr(letters, f[0]);

    if (f[0] == 'n' || !strcmp(f, "+r"))
        return (shape){ L_NONE, 0, 1 };
    if (f[0] == 'b')
        return (shape){ L_BITS, 0, 1 };
    if (f[0] == 'u' || f[0] == 'z')
        return (shape){ L_BYTES, 4, 4 };
    if (f[0] == 'U' || f[0] == 'Z')
        return (shape){ L_BYTES, 8, 8 };
    if (f[0] == 'v')
        return (shape){ L_VIEWS, 16, 1 };
    if (f[0] == 'w')
        return (shape){ L_FIXED, number_after(strchr(f, ':')), 1 };
    if (f[0] == 'd') {
        const char *comma = strchr(f, ',');
        int bits = comma && strchr(comma + 1, ',') ? number_after(strchr(comma + 1, ',')) : 128;

        return (shape){ L_FIXED, bits / 8, bits / 8 };
    }
    if (!strcmp(f, "tiM") || !strcmp(f, "tiD"))
        return (shape){ L_FIXED, f[2] == 'M' ? 4 : 8, 4 };
    if (!strcmp(f, "tin"))
        return (shape){ L_FIXED, 16, SWAP_PARTS };
    if (f[0] == 't') {
        int width = !strcmp(f, "tdD") || (f[1] == 't' && (f[2] == 's' || f[2] == 'm')) ? 4 : 8;

        return (shape){ L_FIXED, width, width };
    }
    if (!strcmp(f, "+l") || !strcmp(f, "+m"))
        return (shape){ L_LIST, 4, 4 };
    if (!strcmp(f, "+L"))
        return (shape){ L_LIST, 8, 8 };
    if (!strcmp(f, "+vl"))
        return (shape){ L_LIST_VIEW, 4, 4 };
    if (!strcmp(f, "+vL"))
        return (shape){ L_LIST_VIEW, 8, 8 };
    if (f[0] == '+' || !at)
        return (shape){ L_NESTED, 0, 1 };
    return (shape){ L_FIXED, widths[at - letters], widths[at - letters] };
}

/* The layout in a batch: for a dictionary-encoded field its indices, unless `values`. */
static shape shape_of(const ipc_field *f, bool values)
{
    char index[2] = { f->index, 0 };

    return shape_of_format(f->index && !values ? index : f->format ? f->format : "n");
}

static int buffers_of(layout l)
{
    static const uint8_t n[] = { [L_NONE] = 0,  [L_BITS] = 2, [L_FIXED] = 2,     [L_BYTES] = 3,
                                 [L_VIEWS] = 2, [L_LIST] = 2, [L_LIST_VIEW] = 3, [L_NESTED] = 1 };

    return n[l];
}

/* ------------------------------------------------------------------------------------------------------- one column */

/* The memory of a tree of ArrowArrays; the root's release frees it. */
typedef struct holder {
    hr_buffer *block;  /* the column's part of the body */
    hr_buffer **parts; /* decompressed ones */
    int64_t n_parts, cap_parts;
    void **owned; /* arrays of pointers, nodes */
    int64_t n_owned, cap_owned;
    struct ArrowArray *dictionaries[32]; /* to be released */
    int n_dictionaries;
} holder;

typedef struct walk {
    const ipc_batch *b;
    const hr_mem *mem;
    hr_source *source;
    const ipc_dictionaries *dictionaries;
    bool swap;
    int64_t node, buffer, variadic; /* the next ones */
    int64_t block_at;               /* of the body: where the block begins */
    holder *held;
    hr_error *err;
} walk;

static void holder_free(holder *h)
{
    if (!h)
        return;
    for (int i = 0; i < h->n_dictionaries; i++) {
        if (h->dictionaries[i]->release)
            h->dictionaries[i]->release(h->dictionaries[i]);
    }
    for (int64_t i = 0; i < h->n_parts; i++)
        hr__buffer_unref(h->parts[i]);
    for (int64_t i = 0; i < h->n_owned; i++)
        hr__free(h->owned[i]);
    hr__buffer_unref(h->block);
    hr__free(h->parts);
    hr__free(h->owned);
    hr__free(h);
}

static void root_release(struct ArrowArray *a)
{
    holder *h = a->private_data;

    a->release = NULL;
    holder_free(h);
}

static void child_release(struct ArrowArray *a) { a->release = NULL; } /* the root owns all memory */

/* Memory that lives as long as the tree, zeroed. */
static hr_status hold(walk *w, int64_t n_bytes, void **out)
{
    holder *h = w->held;

    *out = NULL;
    if (!hr__grow(w->mem->account, (void **)&h->owned, &h->cap_owned, h->n_owned + 1, sizeof *h->owned) ||
        !(*out = hr__zalloc(w->mem->account, (size_t)n_bytes)))
        return hr__error_memory(w->err, "record batch", n_bytes);
    h->owned[h->n_owned++] = *out;
    return HR_OK;
}

static hr_status bad(walk *w, const char *what) { return hr_error_set(w->err, HR_BAD_DATA, "%s", what); }

/* Skips a field and what is below it. */
static hr_status skip(walk *w, const ipc_field *f)
{
    shape s = shape_of(f, false);

    w->node++;
    w->buffer += buffers_of(s.layout);
    if (s.layout == L_VIEWS) {
        hr_flat flat = w->b->flat;

        if (w->variadic >= w->b->n_variadic)
            return bad(w, "a column of views without its number of buffers");
        w->buffer += (int64_t)hr__flat_load(&flat, w->b->variadic + 8 * w->variadic++, 8);
        if (w->buffer < 0 || w->buffer > w->b->n_buffers)
            return bad(w, "a column of views with more buffers than the record batch has");
    }
    if (f->index)
        return HR_OK;
    for (int i = 0; i < f->n_children; i++)
        HR_TRY(skip(w, &f->children[i]));
    return HR_OK;
}

/* Where buffer i lies in the body. */
static hr_status buffer_place(walk *w, int64_t i, int64_t *at, int64_t *n)
{
    if (i >= w->b->n_buffers)
        return bad(w, "fewer buffers than the schema needs");
    buffer_at(w->b, i, at, n);
    return HR_OK;
}

static hr_status decompressed(walk *w, const uint8_t *data, int64_t n, const uint8_t **out, int64_t *n_out)
{
    holder *h = w->held;
    hr_buffer *b = NULL;
    hr_status st = HR_OK;
    int64_t n_raw;

    if (n < 8)
        return bad(w, "a compressed buffer of less than 8 bytes");
    memcpy(&n_raw, data, 8);
    if (n_raw == -1) { /* not compressed after all */
        *out = data + 8;
        *n_out = n - 8;
        return HR_OK;
    }
    HR_TRY(hr__codec_check(w->b->codec, n - 8, n_raw, w->err));
    HR_TRY(hr__buffer_new(w->mem, n_raw, &b, w->err));
    HR_GO(hr__codec_block_verified(w->b->codec, w->b->check_values == IPC_CHECK_ALL ? HR_VERIFY_ALL : HR_VERIFY_USUAL,
                                   (hr_view){ data + 8, n - 8 }, b->data, n_raw, w->err));
    if (!hr__grow(w->mem->account, (void **)&h->parts, &h->cap_parts, h->n_parts + 1, sizeof *h->parts))
        HR_GO(hr__error_memory(w->err, "record batch", 8));
    h->parts[h->n_parts++] = b;
    *out = b->data;
    *n_out = n_raw;
    b = NULL; /* moved */
done:
    hr__buffer_unref(b);
    return st;
}

static void reverse(uint8_t *p, int n)
{
    for (int k = 0; k < n / 2; k++) {
        uint8_t v = p[k];

        p[k] = p[n - 1 - k];
        p[n - 1 - k] = v;
    }
}

/* Reverses the byte order of n bytes of values, in memory that no other thread sees yet. */
static void reverse_values(uint8_t *p, int64_t n, int swap)
{
    int step = swap == SWAP_PARTS ? 16 : swap;

    for (int64_t i = 0; i + step <= n; i += step) {
        if (swap == SWAP_PARTS) {
            reverse(p + i, 4);
            reverse(p + i + 4, 4);
            reverse(p + i + 8, 8);
        } else {
            reverse(p + i, swap);
        }
    }
}

/* The next buffer, of at least `least` bytes, with values of `swap` bytes in this machine's order. */
static hr_status next_buffer(walk *w, int64_t least, int swap, const uint8_t **out, int64_t *n_out)
{
    int64_t at, n;

    HR_TRY(buffer_place(w, w->buffer++, &at, &n));
    *out = w->held->block->data + (n ? at - w->block_at : 0); /* without bytes any place is right */
    *n_out = n;
    if (w->b->codec && n > 0)
        HR_TRY(decompressed(w, *out, n, out, n_out));
    if (*n_out < least)
        return hr_error_set(w->err, HR_BAD_DATA, "buffer %lld has %lld bytes, its rows need %lld",
                            (long long)(w->buffer - 1), (long long)*n_out, (long long)least);
    if (w->swap && swap != 1)
        reverse_values((uint8_t *)(uintptr_t)*out, least, swap);
    return HR_OK;
}

static int64_t offset_at(const uint8_t *p, int64_t i, int width)
{
    int64_t v8;
    int32_t v4;

    if (width == 8) {
        memcpy(&v8, p + i * 8, 8);
        return v8;
    }
    memcpy(&v4, p + i * 4, 4);
    return v4;
}

/* Offsets of n rows; of no rows there may be none. *last: the last one. */
static hr_status next_offsets(walk *w, int64_t n, shape s, const uint8_t **out, int64_t *last)
{
    int64_t n_bytes;

    HR_TRY(next_buffer(w, n ? (n + 1) * s.width : 0, s.swap, out, &n_bytes));
    *last = n ? offset_at(*out, n, s.width) : 0;
    if (*last < 0)
        return bad(w, "a negative offset");
    return HR_OK;
}

/* The data buffers of views, and after them their lengths, as the C interface requires. */
static hr_status view_buffers(walk *w, int64_t n, struct ArrowArray *out, const void *validity)
{
    hr_flat flat = w->b->flat;
    int64_t k, n_bytes, *lengths;
    const void **buffers;
    const uint8_t *data;

    HR_TRY(next_buffer(w, n * 16, 1, &data, &n_bytes));
    if (w->variadic >= w->b->n_variadic)
        return bad(w, "a column of views without its number of buffers");
    k = (int64_t)hr__flat_load(&flat, w->b->variadic + 8 * w->variadic++, 8);
    if (k < 0 || k > w->b->n_buffers - w->buffer)
        return bad(w, "a column of views with more buffers than the record batch has");
    if (w->swap)
        return hr_error_set(w->err, HR_UNSUPPORTED, "views in big-endian order");
    HR_TRY(hold(w, (k + 3) * (int64_t)sizeof *buffers, (void **)&buffers));
    HR_TRY(hold(w, (k + 1) * 8, (void **)&lengths));
    buffers[0] = validity;
    buffers[1] = data;
    for (int64_t i = 0; i < k; i++) {
        HR_TRY(next_buffer(w, 0, 1, &data, &lengths[i]));
        buffers[2 + i] = data;
    }
    buffers[2 + k] = lengths;
    out->buffers = buffers;
    out->n_buffers = k + 3;
    return HR_OK;
}

static hr_status plain_buffers(walk *w, int64_t n, shape s, struct ArrowArray *out, const void *validity)
{
    const uint8_t *data = NULL;
    const void **buffers;
    int64_t last, n_bytes;

    HR_TRY(hold(w, 3 * (int64_t)sizeof *buffers, (void **)&buffers));
    out->buffers = buffers;
    out->n_buffers = buffers_of(s.layout);
    buffers[0] = validity;
    switch (s.layout) {
    case L_BITS:
        HR_TRY(next_buffer(w, hr__bits_bytes(n), 1, &data, &n_bytes));
        buffers[1] = data;
        break;
    case L_FIXED:
        HR_TRY(next_buffer(w, n * s.width, s.swap, &data, &n_bytes));
        buffers[1] = data;
        break;
    case L_BYTES:
        HR_TRY(next_offsets(w, n, s, &data, &last));
        buffers[1] = data;
        HR_TRY(next_buffer(w, last, 1, &data, &n_bytes));
        buffers[2] = data;
        break;
    case L_LIST:
        HR_TRY(next_offsets(w, n, s, &data, &last));
        buffers[1] = data;
        break;
    case L_LIST_VIEW:
        for (int i = 1; i < 3; i++) {
            HR_TRY(next_buffer(w, n * s.width, s.swap, &data, &n_bytes));
            buffers[i] = data;
        }
        break;
    default: break;
    }
    return HR_OK;
}

/* Checks that the validity has the file's number of nulls. With 0 nulls, readers ignore the validity: then all its bits
 * must be set. */
static hr_status check_nulls(walk *w, const struct ArrowArray *a, const uint8_t *bits, int64_t n_bytes)
{
    int64_t found = 0;

    if (n_bytes >= hr__bits_bytes(a->length))
        found = a->length - hr__bits_count(bits, 0, a->length);
    if (found == a->null_count)
        return HR_OK;
    return hr_error_set(w->err, HR_BAD_DATA, "a field of %lld rows with %lld nulls, its validity has %lld",
                        (long long)a->length, (long long)a->null_count, (long long)found);
}

/* Row count and nulls of the next node, and its validity. */
static hr_status begin_node(walk *w, shape s, struct ArrowArray *out, const void **validity)
{
    const uint8_t *bits;
    int64_t n_bytes;

    if (w->node >= w->b->n_nodes)
        return bad(w, "fewer fields than the schema needs");
    node_at(w->b, w->node++, &out->length, &out->null_count);
    if (out->length < 0 || out->length > MAX_ROWS || out->null_count < 0 || out->null_count > out->length)
        return hr_error_set(w->err, HR_BAD_DATA, "a field of %lld rows with %lld nulls", (long long)out->length,
                            (long long)out->null_count);
    *validity = NULL;
    if (s.layout == L_NONE)
        return HR_OK;
    HR_TRY(next_buffer(w, out->null_count ? hr__bits_bytes(out->length) : 0, 1, &bits, &n_bytes));
    HR_TRY(check_nulls(w, out, bits, n_bytes));
    if (out->null_count)
        *validity = bits;
    return HR_OK;
}

static hr_status add_dictionary(walk *w, const ipc_field *f, struct ArrowArray *out)
{
    struct ArrowArray *d;
    hr_array *values = NULL;
    hr_status st = HR_OK;

    if (w->held->n_dictionaries == HR_LEN(w->held->dictionaries))
        return hr_error_set(w->err, HR_UNSUPPORTED, "a column with more than %d dictionaries",
                            HR_LEN(w->held->dictionaries));
    HR_TRY(w->dictionaries->find(w->dictionaries->context, f->id, &values, w->err));
    if (!values)
        return hr_error_set(w->err, HR_BAD_DATA, "dictionary %lld is missing", (long long)f->id);
    HR_TRY(hold(w, sizeof *d, (void **)&d));
    st = hr__array_export(values, d, w->err);
    if (st)
        return st;
    w->held->dictionaries[w->held->n_dictionaries++] = d;
    out->dictionary = d;
    return HR_OK;
}

/* The next field, and those below it. */
static hr_status read_node(walk *w, const ipc_field *f, bool values, struct ArrowArray *out)
{
    shape s = shape_of(f, values);
    struct ArrowArray *children, **pointers;
    const void *validity = NULL;

    out->release = child_release;
    HR_TRY(begin_node(w, s, out, &validity));
    if (s.layout == L_VIEWS)
        HR_TRY(view_buffers(w, out->length, out, validity));
    else
        HR_TRY(plain_buffers(w, out->length, s, out, validity));
    if (f->index && !values)
        return add_dictionary(w, f, out);
    if (f->n_children == 0)
        return HR_OK;
    HR_TRY(hold(w, f->n_children * (int64_t)sizeof *children, (void **)&children));
    HR_TRY(hold(w, f->n_children * (int64_t)sizeof *pointers, (void **)&pointers));
    out->children = pointers;
    out->n_children = f->n_children;
    for (int i = 0; i < f->n_children; i++) {
        pointers[i] = &children[i];
        HR_TRY(read_node(w, &f->children[i], false, &children[i]));
    }
    return HR_OK;
}

/* Buffers [first, end) of the body into one block. */
static hr_status read_block(walk *w, int64_t first, int64_t end)
{
    int64_t begin = INT64_MAX, stop = 0, at, n;

    for (int64_t i = first; i < end; i++) {
        HR_TRY(buffer_place(w, i, &at, &n));
        if (n == 0)
            continue;
        begin = HR_MIN(begin, at);
        stop = HR_MAX(stop, at + n);
    }
    if (stop == 0)
        begin = 0;
    w->block_at = begin / 64 * 64; /* alignment as in the file */
    HR_TRY(hr__buffer_new(w->mem, stop - w->block_at, &w->held->block, w->err));
    return hr__source_read(w->source, w->held->block->data, w->b->body_at + w->block_at, stop - w->block_at, w->err);
}

/* Field f, whose buffers begin at w's place. */
static hr_status read_field(walk *w, const ipc_field *f, bool values, hr_array **out)
{
    walk end = *w;
    struct ArrowArray root = { 0 };
    struct ArrowSchema schema = { 0 };
    ipc_field plain = *f;
    hr_status st = HR_OK;

    w->held = hr__zalloc(w->mem->account, sizeof *w->held);
    if (!w->held)
        return hr__error_memory(w->err, "record batch", sizeof *w->held);
    if (values)
        plain.index = 0;
    HR_GO(skip(&end, &plain));
    HR_GO(read_block(w, w->buffer, end.buffer));
    HR_GO(read_node(w, f, values, &root));
    HR_GO(ipc__field_export(f, !values, false, &schema, w->err));
    root.private_data = w->held;
    root.release = root_release;
    w->held = NULL; /* moved into root */
    HR_GO(hr__array_import(&root, &schema, out, w->err));
    st = hr__array_check(*out, true, w->err);
    if (!st && w->b->check_values != IPC_CHECK_NONE)
        st = hr__array_check_values(*out, w->b->check_values == IPC_CHECK_ALL, w->err);
    if (st) {
        hr__array_unref(*out);
        *out = NULL;
    }
done:
    if (schema.release)
        schema.release(&schema);
    holder_free(w->held);
    return st;
}

/* Checks that a column, which begins at this node, has the batch's rows. */
static hr_status check_rows(const ipc_batch *b, int64_t node, const char *name, hr_error *err)
{
    int64_t n_rows, n_nulls;

    if (node >= b->n_nodes)
        return hr_error_set(err, HR_BAD_DATA, "%lld fields, the schema needs more", (long long)b->n_nodes);
    node_at(b, node, &n_rows, &n_nulls);
    if (n_rows == b->n_rows)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "column '%s': %lld rows, the record batch has %lld", name, (long long)n_rows,
                        (long long)b->n_rows);
}

hr_status ipc__places(const ipc_schema *s, const ipc_batch *b, ipc_place *out, hr_error *err)
{
    walk w = { .b = b, .err = err };

    for (int i = 0; i < s->n; i++) {
        out[i] = (ipc_place){ w.node, w.buffer, w.variadic };
        HR_TRY(check_rows(b, w.node, s->fields[i].name, err));
        HR_TRY(skip(&w, &s->fields[i]));
    }
    if (w.node != b->n_nodes || w.buffer != b->n_buffers)
        return hr_error_set(err, HR_BAD_DATA, "%lld fields with %lld buffers, the schema needs %lld with %lld",
                            (long long)b->n_nodes, (long long)b->n_buffers, (long long)w.node, (long long)w.buffer);
    return HR_OK;
}

hr_status ipc__column_read(const ipc_schema *s, const ipc_batch *b, int i, ipc_place at, hr_source *source,
                           const hr_mem *mem, const ipc_dictionaries *d, hr_array **out, hr_error *err)
{
    walk w = { .b = b, .mem = mem, .source = source, .dictionaries = d, .swap = s->big_endian, .err = err };

    w.node = at.node;
    w.buffer = at.buffer;
    w.variadic = at.variadic;
    *out = NULL;
    HR_TRY(read_field(&w, &s->fields[i], false, out));
    if ((*out)->length == b->n_rows)
        return HR_OK;
    hr_error_set(err, HR_BAD_DATA, "%lld rows, the record batch has %lld", (long long)(*out)->length,
                 (long long)b->n_rows);
    hr__array_unref(*out);
    *out = NULL;
    return HR_BAD_DATA;
}

hr_status ipc__values_read(const ipc_schema *s, const ipc_field *f, const ipc_batch *b, hr_source *source,
                           const hr_mem *mem, const ipc_dictionaries *d, hr_array **out, hr_error *err)
{
    walk w = { .b = b, .mem = mem, .source = source, .dictionaries = d, .swap = s->big_endian, .err = err };

    *out = NULL;
    return read_field(&w, f, true, out);
}
