/* chunk.c - tables as encoded chunks in files.
 *
 * An encoded chunk is
 *
 *   head    magic, checksum of what follows up to the end of the chunk, the chunk's own offset and number of rows
 *   nodes   of each array, depth first: its length, nulls, and up to three parts: where its bytes are, and as how many
 *   packed  parts that were compressed, one after the other
 *   raw     parts as they are, each at a multiple of 64 bytes
 *
 * 1. A read allocates one block of memory: it reads the raw parts from the disk into the block and unpacks the packed
 *    parts after them; arrays are slices of the block. So data that are not compressed are copied once.
 * 2. Lengths are stored instead of offsets: they compress well, and a table's rows need not begin at 0.
 * 3. A trial with a few kilobytes of its middle decides whether to compress a part. A random column costs only the
 *    trial.
 *
 * Tests: test_spill_file.c, test_row_cache.c. */
#include "format/spill/chunk.h"

#include "codec/codec.h"

#define MAGIC 0x4c505348 /* "HSPL" */
#define ALIGN 64
#define LEAST_PACKED 256      /* smaller parts are not compressed */
#define TRY_BYTES (16 << 10)  /* of a large part, for the trial */
#define MOST_PACKED (1 << 30) /* larger parts are not compressed */

typedef struct chunk_head {
    uint32_t magic, crc;
    int64_t at, n_rows, n_nodes, packed_bytes, raw_bytes,
        plain_bytes; /* plain: unpacked bytes of the packed parts, each aligned to 64 bytes */
} chunk_head;

enum { PART_NONE, PART_PACKED, PART_RAW };
typedef struct chunk_part {
    int64_t n_bytes; /* as it is */
    int64_t at;      /* in packed, or raw */
    int64_t stored;  /* bytes there */
    int64_t how;
} chunk_part;

typedef struct chunk_node {
    int64_t length, n_null;
    chunk_part parts[3];
} chunk_node;

/* ------------------------------------------------------------------------------------------------------------ parts */

/* An encoded chunk that is being made. */
typedef struct making {
    hr_mem mem;
    chunk_node *nodes;
    int64_t n_nodes, cap_nodes;
    hr_growbuf packed; /* room for head and nodes is left before it, at the end */
    struct raw_part {
        const void *data;  /* borrowed, or */
        hr_buffer *buffer; /* made */
        int64_t n_bytes;
    } *raw;
    int64_t n_raw, cap_raw, raw_bytes, plain_bytes;
} making;

static void making_clear(making *m)
{
    for (int64_t i = 0; i < m->n_raw; i++)
        hr__buffer_unref(m->raw[i].buffer);
    hr__free(m->raw);
    hr__free(m->nodes);
    hr__growbuf_clear(&m->packed);
}

#ifdef HR_HAVE_LZ4
static const hr_codec *const codec = &hr__codec_lz4;
#else
static const hr_codec *const codec = NULL;
#endif

/* Appends the part, compressed, to m->packed; *stored 0: compression saves too little, and nothing is added. */
static hr_status pack(making *m, const void *data, int64_t n, int64_t *stored, hr_error *err)
{
    int64_t room = codec->max_packed_bytes(n), used = m->packed.buffer ? m->packed.buffer->n_bytes : 0;
    const hr_view in = { data, n };

    *stored = 0;
    HR_TRY(hr__growbuf_reserve(&m->packed, room, err));
    if (n > 4 * TRY_BYTES) { /* room is more than enough for the try */
        hr_view some = { (const uint8_t *)data + (n / 2) / ALIGN * ALIGN, TRY_BYTES };
        int64_t n_some = 0;

        HR_TRY(codec->pack(some, m->packed.buffer->data + used, room, 0, &n_some, err));
        if (n_some > TRY_BYTES / 8 * 7)
            return HR_OK;
    }
    HR_TRY(codec->pack(in, m->packed.buffer->data + used, room, 0, stored, err));
    if (*stored > n / 8 * 7)
        *stored = 0;
    m->packed.buffer->n_bytes += *stored;
    return HR_OK;
}

/* Takes `made`, even on failure; NULL: data is borrowed until the chunk is written. */
static hr_status part_add(making *m, const void *data, hr_buffer *made, int64_t n, chunk_part *out, hr_error *err)
{
    hr_status st = HR_OK;
    void *raw = m->raw;
    int64_t stored = 0, at = m->packed.buffer ? m->packed.buffer->n_bytes : 0;

    data = made ? made->data : data;
    if (codec && n >= LEAST_PACKED && n <= MOST_PACKED)
        HR_GO(pack(m, data, n, &stored, err));
    if (stored) {
        *out = (chunk_part){ .n_bytes = n, .at = at, .stored = stored, .how = PART_PACKED };
        m->plain_bytes += HR_ROUND_UP(n, ALIGN);
        goto done;
    }
    if (!hr__grow(m->mem.account, &raw, &m->cap_raw, m->n_raw + 1, sizeof *m->raw))
        HR_FAIL(HR_NO_MEMORY, "spill: no memory for a column chunk");
    m->raw = raw;
    m->raw[m->n_raw++] = (struct raw_part){ data, made, n };
    made = NULL;
    *out = (chunk_part){ .n_bytes = n, .at = m->raw_bytes, .stored = n, .how = PART_RAW };
    m->raw_bytes += HR_ROUND_UP(n, ALIGN);
done:
    hr__buffer_unref(made);
    return st;
}

static hr_status bits_add(making *m, const hr_buffer *bits, int64_t begin, int64_t n, chunk_part *out, hr_error *err)
{
    int64_t n_bytes = hr__bits_bytes(n);
    hr_buffer *b = NULL;

    if (begin % 8 == 0)
        return part_add(m, bits->data + begin / 8, NULL, n_bytes, out, err);
    HR_TRY(hr__buffer_new(&m->mem, n_bytes, &b, err));
    b->data[n_bytes - 1] = 0;
    hr__bits_copy(b->data, 0, bits->data, begin, n);
    return part_add(m, NULL, b, n_bytes, out, err);
}

/* Lengths of rows; *first and *n_values: the range that they cover. */
static hr_status lengths_add(making *m, const hr_array *a, int64_t begin, int64_t n, int64_t *first, int64_t *n_values,
                             chunk_part *out, hr_error *err)
{
    int width = hr__type_offset_bytes(a->type);
    hr_buffer *b = NULL;

    HR_TRY(hr__buffer_new(&m->mem, n * width, &b, err));
    if (width == 4) {
        const int32_t *from = (const int32_t *)(const void *)a->buffers[1]->data + a->offset + begin;
        int32_t *to = (int32_t *)(void *)b->data;

        for (int64_t i = 0; i < n; i++)
            to[i] = from[i + 1] - from[i];
        *first = from[0];
        *n_values = from[n] - from[0];
    } else {
        const int64_t *from = (const int64_t *)(const void *)a->buffers[1]->data + a->offset + begin;
        int64_t *to = (int64_t *)(void *)b->data;

        for (int64_t i = 0; i < n; i++)
            to[i] = from[i + 1] - from[i];
        *first = from[0];
        *n_values = from[n] - from[0];
    }
    return part_add(m, NULL, b, n * width, out, err);
}

static hr_status array_add(making *m, const hr_array *a, int64_t begin, int64_t n, hr_error *err);

/* Rows [begin, begin + n) of a, n > 0; not its validity. */
static hr_status values_add(making *m, const hr_array *a, int64_t begin, int64_t n, int64_t node, hr_error *err)
{
    int64_t first = 0, n_values = 0, width = hr__type_bytes(a->type);
    chunk_part part = { 0 };

    if (hr__type_offset_bytes(a->type)) {
        HR_TRY(lengths_add(m, a, begin, n, &first, &n_values, &part, err));
        m->nodes[node].parts[1] = part;
        if (a->n_children)
            return array_add(m, a->children[0], first, n_values, err);
        if (n_values)
            HR_TRY(part_add(m, a->buffers[2]->data + first, NULL, n_values, &part, err));
        m->nodes[node].parts[2] = n_values ? part : (chunk_part){ 0 };
        return HR_OK;
    }
    if (hr__type_is_fixed_list(a->type))
        return array_add(m, a->children[0], (a->offset + begin) * a->type->width, n * a->type->width, err);
    if (a->type->id == HR_T_STRUCT) {
        for (int i = 0; i < a->n_children; i++)
            HR_TRY(array_add(m, a->children[i], a->offset + begin, n, err));
        return HR_OK;
    }
    if (a->type->id == HR_T_BOOL)
        HR_TRY(bits_add(m, a->buffers[1], a->offset + begin, n, &part, err));
    else if (width)
        HR_TRY(part_add(m, a->buffers[1]->data + (a->offset + begin) * width, NULL, n * width, &part, err));
    m->nodes[node].parts[1] = part;
    return HR_OK;
}

static hr_status array_add(making *m, const hr_array *a, int64_t begin, int64_t n, hr_error *err)
{
    void *nodes = m->nodes;
    int64_t node = m->n_nodes;
    chunk_part part = { 0 };

    if (!hr__grow(m->mem.account, &nodes, &m->cap_nodes, node + 1, sizeof *m->nodes))
        return hr_error_set(err, HR_NO_MEMORY, "spill: no memory for a column");
    m->nodes = nodes;
    m->nodes[m->n_nodes++] = (chunk_node){ .length = n };
    if (n == 0 || a->type->id == HR_T_NULL) {
        m->nodes[node].n_null = n;
        return HR_OK;
    }
    if (a->buffers[0] && atomic_load_explicit(&a->null_count, memory_order_relaxed) != 0) {
        m->nodes[node].n_null = n - hr__bits_count(a->buffers[0]->data, a->offset + begin, n);
        if (m->nodes[node].n_null)
            HR_TRY(bits_add(m, a->buffers[0], a->offset + begin, n, &part, err));
        m->nodes[node].parts[0] = part;
    }
    return values_add(m, a, begin, n, node, err);
}

/* ------------------------------------------------------------------------------------------------------------ write */

/* The encoded chunk as on disk, without the head's values. */
static hr_status join(const making *m, hr_buffer **out, int64_t *head_bytes, hr_error *err)
{
    int64_t nodes = m->n_nodes * (int64_t)sizeof *m->nodes, packed = m->packed.buffer ? m->packed.buffer->n_bytes : 0;
    uint8_t *to;

    *head_bytes = HR_ROUND_UP((int64_t)sizeof(chunk_head) + nodes + packed, ALIGN);
    HR_TRY(hr__buffer_new(&m->mem, *head_bytes + m->raw_bytes, out, err));
    to = (*out)->data + sizeof(chunk_head);
    if (nodes)
        memcpy(to, m->nodes, (size_t)nodes);
    to += nodes;
    if (packed)
        memcpy(to, m->packed.buffer->data, (size_t)packed);
    to += packed;
    memset(to, 0, (size_t)((*out)->data + *head_bytes - to));
    to = (*out)->data + *head_bytes;
    for (int64_t i = 0; i < m->n_raw; i++) {
        int64_t n = m->raw[i].n_bytes;

        memcpy(to, m->raw[i].buffer ? m->raw[i].buffer->data : m->raw[i].data, (size_t)n);
        memset(to + n, 0, (size_t)(HR_ROUND_UP(n, ALIGN) - n));
        to += HR_ROUND_UP(n, ALIGN);
    }
    return HR_OK;
}

static uint32_t checksum(const uint8_t *chunk, int64_t n)
{
    return hr__crc32c(0, chunk + offsetof(chunk_head, at), n - (int64_t)offsetof(chunk_head, at));
}

hr_status hr__chunk_encode(const hr_table *t, hr_account *account, hr_buffer **out, hr_chunk *place, hr_error *err)
{
    making m = { .mem = { .account = account } };
    chunk_head head = { .magic = MAGIC };
    int64_t head_bytes = 0;
    hr_status st = HR_OK;

    m.packed.mem = &m.mem;
    *out = NULL;
    for (int i = 0; i < t->schema->n; i++)
        HR_GO(array_add(&m, t->columns[i], 0, t->n_rows, err));
    HR_GO(join(&m, out, &head_bytes, err));
    head.n_rows = t->n_rows;
    head.n_nodes = m.n_nodes;
    head.packed_bytes = m.packed.buffer ? m.packed.buffer->n_bytes : 0;
    head.raw_bytes = m.raw_bytes;
    head.plain_bytes = m.plain_bytes;
    memcpy((*out)->data, &head, sizeof head);
    *place = (hr_chunk){ .n_bytes = (*out)->n_bytes,
                         .n_rows = t->n_rows,
                         .memory_bytes = m.raw_bytes + m.plain_bytes,
                         .head_bytes = head_bytes };
done:
    making_clear(&m);
    return st;
}

void hr__chunk_set_place(hr_buffer *chunk, hr_chunk *place, int64_t at)
{
    chunk_head head;

    memcpy(&head, chunk->data, sizeof head);
    head.at = place->at = at;
    memcpy(chunk->data, &head, sizeof head);
    head.crc = checksum(chunk->data, chunk->n_bytes);
    memcpy(chunk->data, &head, sizeof head);
}

/* ------------------------------------------------------------------------------------------------------------- read */

/* An encoded chunk that is being read. */
typedef struct taking {
    const hr_mem *mem;
    const chunk_node *nodes;
    int64_t n_nodes, next;
    const uint8_t *packed;
    int64_t packed_bytes, raw_bytes, unpacked; /* unpacked: bytes of the block that are filled */
    hr_buffer *block;                          /* raw parts, then unpacked ones */
} taking;

static hr_status damaged(hr_error *err, const char *what)
{
    return hr_error_set(err, HR_BAD_DATA, "%s; the file was changed, or the disk is damaged", what);
}

/* *out NULL: the array does not have this part. Its size must be `want`; < 0: any. */
static hr_status part_read(taking *t, const chunk_part *p, int64_t want, hr_buffer **out, hr_error *err)
{
    int64_t at = p->at;

    *out = NULL;
    if (p->how == PART_NONE)
        return HR_OK;
    if (p->n_bytes < 0 || p->at < 0 || p->stored < 0 || (want >= 0 && p->n_bytes != want))
        return damaged(err, "a column of another size than its rows need");
    if (p->how == PART_RAW) {
        if (p->at > t->raw_bytes || p->n_bytes > t->raw_bytes - p->at)
            return damaged(err, "a column beyond the encoded chunk");
        return hr__buffer_slice(t->block, at, p->n_bytes, out, err);
    }
    at = t->unpacked;
    if (!codec || p->at > t->packed_bytes || p->stored > t->packed_bytes - p->at || p->n_bytes > t->block->n_bytes - at)
        return damaged(err, "a packed column beyond the encoded chunk");
    HR_TRY(hr__codec_block(codec, (hr_view){ t->packed + p->at, p->stored }, t->block->data + at, p->n_bytes, err));
    t->unpacked += HR_ROUND_UP(p->n_bytes, ALIGN);
    return hr__buffer_slice(t->block, at, p->n_bytes, out, err);
}

/* Lengths become offsets, in a new buffer: there is one offset more. */
static hr_status offsets_read(taking *t, const chunk_node *node, int width, int64_t *n_values, hr_buffer **out,
                              hr_error *err)
{
    hr_buffer *lengths = NULL;
    hr_status st = HR_OK;
    int64_t at = 0;

    *out = NULL;
    HR_GO(part_read(t, &node->parts[1], node->length * width, &lengths, err));
    if (!lengths) {
        st = damaged(err, "lengths are missing");
        goto done;
    }
    HR_GO(hr__buffer_new(t->mem, (node->length + 1) * width, out, err));
    if (width == 4) {
        const int32_t *from = (const int32_t *)(const void *)lengths->data;
        int32_t *to = (int32_t *)(void *)(*out)->data;

        for (int64_t i = 0; i < node->length; at += from[i++])
            to[i] = (int32_t)at;
        to[node->length] = (int32_t)at;
    } else {
        const int64_t *from = (const int64_t *)(const void *)lengths->data;
        int64_t *to = (int64_t *)(void *)(*out)->data;

        for (int64_t i = 0; i < node->length; at += from[i++])
            to[i] = at;
        to[node->length] = at;
    }
    *n_values = at;
done:
    hr__buffer_unref(lengths);
    return st;
}

static hr_status array_read(taking *t, hr_type *type, hr_array **out, hr_error *err);

static hr_status buffers_read(taking *t, const hr_type *type, const chunk_node *node, hr_buffer *buffers[3],
                              hr_error *err)
{
    int width = hr__type_offset_bytes(type);
    int64_t n_values = 0;

    HR_TRY(part_read(t, &node->parts[0], hr__bits_bytes(node->length), &buffers[0], err));
    if (width) {
        HR_TRY(offsets_read(t, node, width, &n_values, &buffers[1], err));
        if (type->n_children)
            return HR_OK;
        HR_TRY(part_read(t, &node->parts[2], n_values, &buffers[2], err));
        return buffers[2] ? HR_OK : hr__buffer_slice(t->block, 0, 0, &buffers[2], err);
    }
    if (type->n_children || type->id == HR_T_STRUCT)
        return HR_OK;
    HR_TRY(part_read(t, &node->parts[1],
                     type->id == HR_T_BOOL ? hr__bits_bytes(node->length) : node->length * hr__type_bytes(type),
                     &buffers[1], err));
    return buffers[1] ? HR_OK : hr__buffer_slice(t->block, 0, 0, &buffers[1], err);
}

static hr_status nested_read(taking *t, hr_type *type, const chunk_node *node, hr_buffer *buffers[3], hr_array **out,
                             hr_error *err)
{
    size_t n_bytes = (size_t)HR_MAX(1, type->n_children) * sizeof(hr_array *);
    hr_array **children = hr__zalloc(t->mem->account, n_bytes);
    hr_status st = HR_OK;

    if (!children)
        return hr__error_memory(err, "spill", (int64_t)n_bytes);
    for (int i = 0; i < type->n_children; i++)
        HR_GO(array_read(t, type->children[i].type, &children[i], err));
    st = hr__array_new(type, node->length, node->n_null, buffers, children, type->n_children, out, err);
    memset(children, 0, n_bytes); /* both were taken */
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < type->n_children; i++)
        hr__array_unref(children[i]);
    hr__free(children);
    return st;
}

static hr_status array_read(taking *t, hr_type *type, hr_array **out, hr_error *err)
{
    hr_buffer *buffers[3] = { NULL, NULL, NULL };
    const chunk_node *node = t->nodes + t->next;
    hr_status st = HR_OK;

    *out = NULL;
    if (t->next++ >= t->n_nodes || node->length < 0)
        return damaged(err, "fewer columns than expected");
    if (node->length == 0 || type->id == HR_T_NULL)
        return hr__array_nulls(t->mem, type, node->length, out, err);
    HR_GO(buffers_read(t, type, node, buffers, err));
    if (type->n_children || type->id == HR_T_STRUCT) {
        st = nested_read(t, type, node, buffers, out, err);
        goto done;
    }
    st = hr__array_new(type, node->length, node->n_null, buffers, NULL, 0, out, err);
    buffers[0] = buffers[1] = buffers[2] = NULL;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    return st;
}

/* Reads the packed and the raw parts of the chunk from the disk and checks the checksum. The block is larger than the
 * raw parts: unpacked parts follow them. */
static hr_status load(int fd, const hr_chunk *p, hr_account *account, const hr_mem *mem, hr_buffer **front,
                      hr_buffer **block, hr_error *err)
{
    int64_t raw = p->n_bytes - p->head_bytes, got;
    const hr_mem scratch = { .account = account };
    chunk_head head;
    uint32_t crc;

    HR_TRY(hr__buffer_new(&scratch, p->head_bytes, front, err));
    HR_TRY(hr__buffer_new(mem, p->memory_bytes, block, err));
    got = hr__file_read_at(fd, (*front)->data, p->head_bytes, p->at);
    if (got == p->head_bytes && raw)
        got = hr__file_read_at(fd, (*block)->data, raw, p->at + p->head_bytes);
    if (got < 0)
        return hr__error_os(err, got, "a chunk", "reading");
    if (got != (raw ? raw : p->head_bytes))
        return damaged(err, "the file ends early");
    memcpy(&head, (*front)->data, sizeof head);
    crc = hr__crc32c(checksum((*front)->data, p->head_bytes), (*block)->data, raw);
    if (head.magic != MAGIC || head.crc != crc)
        return damaged(err, "checksum does not match");
    if (head.at != p->at || head.n_rows != p->n_rows || head.raw_bytes != raw ||
        head.raw_bytes + head.plain_bytes != p->memory_bytes ||
        (int64_t)sizeof head + head.n_nodes * (int64_t)sizeof(chunk_node) + head.packed_bytes > p->head_bytes)
        return damaged(err, "another encoded chunk lies there");
    return HR_OK;
}

static hr_status columns_read(taking *t, hr_schema *schema, int64_t n_rows, hr_table **out, hr_error *err)
{
    size_t n_bytes = (size_t)HR_MAX(1, schema->n) * sizeof(hr_array *);
    hr_array **columns = hr__zalloc(t->mem->account, n_bytes);
    hr_status st = HR_OK;

    if (!columns)
        return hr__error_memory(err, "spill", (int64_t)n_bytes);
    for (int i = 0; i < schema->n; i++)
        HR_GO(array_read(t, schema->fields[i].type, &columns[i], err));
    st = hr__table_new(schema, columns, n_rows, NULL, out, err);
    memset(columns, 0, n_bytes);
done:
    for (int i = 0; i < schema->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    return st;
}

hr_status hr__chunk_read(int fd, const hr_chunk *place, hr_account *account, const hr_mem *mem, hr_schema *schema,
                         hr_table **out, hr_error *err)
{
    hr_buffer *front = NULL, *block = NULL;
    hr_status st = HR_OK;
    chunk_head head;
    taking t;

    *out = NULL;
    HR_GO(load(fd, place, account, mem, &front, &block, err));
    memcpy(&head, front->data, sizeof head);
    t = (taking){ .mem = mem,
                  .nodes = (const chunk_node *)(const void *)(front->data + sizeof head),
                  .n_nodes = head.n_nodes,
                  .packed = front->data + sizeof head + head.n_nodes * (int64_t)sizeof(chunk_node),
                  .packed_bytes = head.packed_bytes,
                  .raw_bytes = head.raw_bytes,
                  .unpacked = head.raw_bytes,
                  .block = block };
    st = columns_read(&t, schema, place->n_rows, out, err);
done:
    hr__buffer_unref(front);
    hr__buffer_unref(block);
    return st;
}
