/* wire.c - encodes and decodes packets, schemas and tables (without their bytes) between two processes.
 *
 * A packet is a fixed struct that begins with a hr_packet_head, in the byte order of the machine, which both ends
 * share. The body of a message follows it: [schema] [columns] [bytes]. A body that is too long for a packet lies in a
 * block.
 *
 *   schema   see wire_schema.c; sent once; later messages contain its number
 *   column   wire_array, wire_buffer for each of its buffers, then its children; the schema has their number and types
 *
 * A buffer is a segment's number, an offset and a size. The receiver maps the segment when it receives its descriptor.
 * A buffer may also be the receiver's own: the sender then names the received memory instead of copying it.
 *
 * hr_wire_reader reads all received bytes. This file checks each size, number, range and alignment before it uses it;
 * hr__table_check checks the values. share.h has the threat model.
 *
 * Tests: test_link.c, test_process.c. */
#include "share/share.h"
#include "share/process_link.h"

#include <errno.h>

#define MAGIC 0x4B4C5248 /* "HRLK" */
#define VERSION 1
#define MAX_MAPS 4096

hr_packet_head hr__packet_head(int what)
{
    return (hr_packet_head){ .magic = MAGIC, .version = VERSION, .what = (uint16_t)what };
}

void hr__message_clear(hr_message *m)
{
    hr__free(m->bytes);
    hr_table_unref(m->table);
    *m = (hr_message){ 0 };
}

/* ---------------------------------------------------------------------------------------------------- columns, both */

typedef struct wire_array {
    int64_t length, offset, null_count;
    uint32_t buffers; /* bit i: buffers[i] exists; bit i + 4: it is the receiver's own */
    uint32_t spare;
} wire_array;

typedef struct wire_buffer {
    int64_t n_bytes, offset;
    uint64_t segment; /* 0: the buffer has no bytes */
} wire_buffer;

static int n_buffers(const hr_type *t)
{
    switch (t->id) {
    case HR_T_NULL: return 0;
    case HR_T_STRING:
    case HR_T_LARGE_STRING:
    case HR_T_BINARY:
    case HR_T_LARGE_BINARY: return 3;
    case HR_T_STRUCT:
    case HR_T_FIXED_LIST:
    case HR_T_TENSOR: return 1;
    default: return 2;
    }
}

/* The alignment of buffer i: readers load whole values. */
static int64_t alignment(const hr_type *t, int i)
{
    int64_t n = hr__type_offset_bytes(t);

    if (i != 1 || t->id == HR_T_FIXED_BINARY)
        return 1;
    return HR_MAX(1, HR_MIN(8, n ? n : hr__type_bytes(t)));
}

void hr__array_buffers(const hr_array *a, void (*fn)(void *context, hr_buffer *b), void *context)
{
    for (int i = 0; i < 3; i++)
        if (a->buffers[i])
            fn(context, a->buffers[i]);
    for (int i = 0; i < a->n_children; i++)
        hr__array_buffers(a->children[i], fn, context);
}

/* -------------------------------------------------------------------------------------- the peer's segments, mapped */

struct hr_map {
    atomic_int refs;
    uint64_t id;
    int64_t n_bytes;
    uint8_t *shared; /* read-only */
    uint8_t *sole;   /* writable, for messages that are the receiver's */
};

typedef struct peer_buffer {
    hr_buffer base; /* .owner: the message_ref; .place: the offset in the segment */
    hr_map *map;
} peer_buffer;

static void map_unref(hr_map *m)
{
    if (!m || atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) > 1)
        return;
    hr__unmap(m->shared, (size_t)m->n_bytes);
    hr__unmap(m->sole, (size_t)m->n_bytes);
    hr__free(m);
}

void hr__peer_init(hr_peer *p, hr_account *account)
{
    *p = (hr_peer){ .account = account };
    hr__mutex_init(&p->lock);
}

void hr__peer_clear(hr_peer *p)
{
    for (int64_t i = 0; i < p->n_maps; i++)
        map_unref(p->maps[i]);
    hr__free(p->maps);
    for (int i = 0; i < HR_WIRE_SCHEMAS; i++)
        hr__schema_unref(p->schemas[i]);
    hr__mutex_clear(&p->lock);
}

/* *out is shared. */
static hr_status map_find(hr_peer *p, uint64_t id, hr_map **out, hr_error *err)
{
    *out = NULL;
    hr__lock(&p->lock);
    for (int64_t i = p->n_maps; i-- > 0 && !*out;)
        if (p->maps[i]->id == id)
            *out = p->maps[i];
    if (*out)
        atomic_fetch_add_explicit(&(*out)->refs, 1, memory_order_relaxed);
    hr__unlock(&p->lock);
    return *out ? HR_OK : hr_error_set(err, HR_BAD_DATA, "link: segment %llu was never sent", (unsigned long long)id);
}

/* Bytes [offset, offset + n) and their slack lie in the segment. */
static hr_status map_range(const hr_map *m, int64_t offset, int64_t n, hr_error *err)
{
    if (offset >= 0 && n >= 0 && n <= m->n_bytes - HR_SLACK && offset <= m->n_bytes - HR_SLACK - n)
        return HR_OK;
    return hr_error_set(err, HR_BAD_DATA, "link: %lld bytes at %lld of segment %llu, which has %lld", (long long)n,
                        (long long)offset, (unsigned long long)m->id, (long long)m->n_bytes);
}

/* The address in the peer's segment if all of b lies in one segment of the peer. */
static bool map_of_address(hr_peer *p, const hr_buffer *b, wire_buffer *out)
{
    bool found = false;

    hr__lock(&p->lock);
    for (int64_t i = 0; i < p->n_maps && !found; i++) {
        const hr_map *m = p->maps[i];
        const uint8_t *bases[] = { m->shared, m->sole };
        for (int k = 0; k < 2 && !found; k++) {
            uintptr_t at = (uintptr_t)b->data - (uintptr_t)bases[k];
            if (!(found = at < (uintptr_t)m->n_bytes && b->n_bytes <= m->n_bytes - (int64_t)at))
                continue;
            *out = (wire_buffer){ b->n_bytes, (int64_t)at, m->id };
        }
    }
    hr__unlock(&p->lock);
    return found;
}

static hr_status map_new(hr_account *account, uint64_t id, int64_t n_bytes, int fd, hr_map **out, hr_error *err)
{
    hr_map *m = hr__zalloc(account, sizeof *m);

    *out = NULL;
    if (!m)
        return hr__error_memory(err, "link", sizeof *m);
    atomic_init(&m->refs, 1);
    m->id = id;
    m->n_bytes = n_bytes;
    if (!(m->shared = hr__map_shared(fd, (size_t)n_bytes, false)) ||
        !(m->sole = hr__map_shared(fd, (size_t)n_bytes, true))) {
        map_unref(m);
        return hr__error_memory(err, "link: a map", n_bytes);
    }
    *out = m;
    return HR_OK;
}

/* Takes m unless it fails. */
static hr_status map_add(hr_peer *p, hr_map *m, hr_error *err)
{
    hr_status st = HR_OK;
    void *maps;

    hr__lock(&p->lock);
    maps = p->maps;
    for (int64_t i = 0; i < p->n_maps; i++)
        if (p->maps[i]->id == m->id)
            HR_FAIL(HR_BAD_DATA, "link: segment %llu was sent twice", (unsigned long long)m->id);
    if (p->n_maps >= MAX_MAPS)
        HR_FAIL(HR_BAD_DATA, "link: more than %d segments", MAX_MAPS);
    if (!hr__grow(p->account, &maps, &p->cap_maps, p->n_maps + 1, sizeof *p->maps)) {
        st = hr__error_memory(err, "link", sizeof *p->maps);
        goto done;
    }
    p->maps = maps;
    p->maps[p->n_maps++] = m;
done:
    hr__unlock(&p->lock);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- columns, out */

void hr__wire_clear(hr_wire *w)
{
    hr__text_clear(&w->bytes);
    for (int64_t i = 0; i < w->n_segments; i++)
        hr__segment_unref(w->segments[i]);
    hr__free(w->segments);
    w->segments = NULL;
    w->n_segments = w->cap_segments = 0;
}

hr_status hr__wire_segment(hr_wire *w, hr_segment *s, hr_error *err)
{
    void *segments = w->segments;

    for (int64_t i = w->n_segments; i-- > 0;)
        if (w->segments[i] == s)
            return HR_OK;
    if (!hr__grow(w->bytes.account, &segments, &w->cap_segments, w->n_segments + 1, sizeof *w->segments))
        return hr__error_memory(err, "link", sizeof *w->segments);
    w->segments = segments;
    w->segments[w->n_segments++] = hr__segment_ref(s);
    return HR_OK;
}

/* The place of b for the peer. *s: our segment, NULL if the memory is the peer's own. False: b has no such place. */
static bool place_of(hr_peer *p, const hr_buffer *b, wire_buffer *out, hr_segment **s)
{
    *out = (wire_buffer){ .n_bytes = b->n_bytes };
    *s = NULL;
    if (!b->n_bytes)
        return true;
    if ((*s = hr__buffer_segment(b, &out->offset))) {
        out->segment = (*s)->id;
        return true;
    }
    return map_of_address(p, b, out);
}

static bool placed(hr_peer *p, const hr_array *a)
{
    wire_buffer where;
    hr_segment *s;

    for (int i = 0; i < n_buffers(a->type); i++)
        if (a->buffers[i] && (!place_of(p, a->buffers[i], &where, &s) || where.offset % alignment(a->type, i)))
            return false;
    for (int i = 0; i < a->n_children; i++)
        if (!placed(p, a->children[i]))
            return false;
    return true;
}

static hr_status put_buffers(hr_wire *w, hr_peer *p, const hr_array *a, hr_error *err)
{
    wire_array head = { .length = a->length, .offset = a->offset, .null_count = a->null_count };
    wire_buffer where[3];
    int n = 0;

    for (int i = 0; i < n_buffers(a->type); i++) {
        hr_segment *s = NULL;
        if (!a->buffers[i])
            continue;
        if (!place_of(p, a->buffers[i], &where[n], &s))
            return hr_error_set(err, HR_BUG, "link: a buffer of %lld bytes is not in shared memory",
                                (long long)a->buffers[i]->n_bytes);
        if (s)
            HR_TRY(hr__wire_segment(w, s, err));
        else if (where[n].n_bytes)
            w->sole = false;
        head.buffers |= (s || !where[n].n_bytes ? 1u : 17u) << i;
        n++;
    }
    hr__text_add_bytes(&w->bytes, &head, sizeof head);
    hr__text_add_bytes(&w->bytes, where, n * (int64_t)sizeof *where);
    return HR_OK;
}

static hr_status put_array(hr_wire *w, hr_peer *p, const hr_array *a, hr_error *err)
{
    HR_TRY(put_buffers(w, p, a, err));
    for (int i = 0; i < a->n_children; i++)
        HR_TRY(put_array(w, p, a->children[i], err));
    return w->bytes.failed ? hr__error_memory(err, "link", w->bytes.n) : HR_OK;
}

hr_status hr__wire_column(hr_wire *w, hr_peer *p, const hr_mem *mem, hr_array *a, hr_array **sent, hr_error *err)
{
    hr_status st;

    *sent = NULL;
    if (placed(p, a)) {
        w->sole = w->sole && w->alone && hr__array_sole(a);
        *sent = hr__array_ref(a);
    } else {
        HR_TRY(hr__array_concat(mem, a->type, &a, 1, sent, err));
    }
    if ((st = put_array(w, p, *sent, err))) {
        hr__array_unref(*sent);
        *sent = NULL;
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------------ columns, in */

/* The state while a table is read. */
typedef struct reading {
    hr_peer *peer;
    hr_message_ref *ref;
    hr_wire_reader at;
    bool sole;
} reading;

static void peer_buffer_free(hr_buffer *b)
{
    peer_buffer *pb = (peer_buffer *)b;
    hr_message_ref *h = b->owner;

    map_unref(pb->map);
    hr__free(pb);
    if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) == 1)
        h->gone(h);
}

static const hr_buffer_class peer_class = { .free = peer_buffer_free };

static hr_status peer_buffer_new(const reading *r, const wire_buffer *w, hr_buffer **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_map *m = NULL;
    peer_buffer *b = NULL;

    HR_GO(map_find(r->peer, w->segment, &m, err));
    HR_GO(map_range(m, w->offset, w->n_bytes, err));
    if (!(b = hr__zalloc(r->peer->account, sizeof *b))) {
        st = hr__error_memory(err, "link", sizeof *b);
        goto done;
    }
    atomic_init(&b->base.refs, 1);
    b->base.data = (r->sole ? m->sole : m->shared) + w->offset;
    b->base.n_bytes = b->base.capacity = w->n_bytes;
    b->base.kind = HR_BUFFER_PEER;
    b->base.cls = &peer_class;
    b->base.account = r->peer->account;
    b->base.owner = r->ref;
    b->base.place = w->offset;
    b->map = m;
    m = NULL;
    atomic_fetch_add_explicit(&r->ref->refs, 1, memory_order_relaxed);
    *out = &b->base;
done:
    map_unref(m);
    return st;
}

static hr_status take_buffer(reading *r, const hr_type *t, int i, bool own, hr_buffer **out, hr_error *err)
{
    wire_buffer w;

    HR_TRY(hr__wire_get_struct(&r->at, "a buffer", &w, sizeof w, err));
    if (w.n_bytes == 0)
        return hr__buffer_new(&(hr_mem){ .account = r->peer->account }, 0, out, err);
    if (w.offset % alignment(t, i))
        return hr_error_set(err, HR_BAD_DATA, "link: buffer %d of a column begins at %lld, not a multiple of %lld", i,
                            (long long)w.offset, (long long)alignment(t, i));
    if (!own)
        return peer_buffer_new(r, &w, out, err);
    if (!r->peer->own)
        return hr_error_set(err, HR_BAD_DATA,
                            "link: a column claims memory of this process, which sent nothing to this peer");
    HR_TRY(hr__wire_check(&r->at, "the size of a buffer", w.n_bytes, 0, INT64_MAX, err));
    HR_TRY(hr__wire_check(&r->at, "the offset of a buffer", w.offset, 0, INT64_MAX, err));
    return r->peer->own(r->peer->owner, w.segment, w.offset, w.n_bytes, out, err);
}

static hr_status take_buffers(reading *r, const hr_type *t, uint32_t bits, hr_buffer *out[3], hr_error *err)
{
    uint32_t known = (1u << n_buffers(t)) - 1;

    if (bits & ~(known | known << 4) || (bits >> 4) & ~bits)
        return hr_error_set(err, HR_BAD_DATA, "link: a column has buffers %#x, its type has %#x", bits, known);
    for (int i = 0; i < 3; i++)
        if (bits >> i & 1)
            HR_TRY(take_buffer(r, t, i, bits >> (i + 4) & 1, &out[i], err));
    return HR_OK;
}

/* The nesting is that of the type, which hr__wire_read_schema limits. */
static hr_status take_array(reading *r, hr_type *t, hr_array **out, hr_error *err)
{
    hr_status st = HR_OK;
    wire_array w;
    hr_buffer *buffers[3] = { NULL };
    hr_array **children = NULL;
    int n = 0;

    *out = NULL;
    HR_TRY(hr__wire_get_struct(&r->at, "a column", &w, sizeof w, err));
    HR_TRY(hr__wire_check(&r->at, "the length of a column", w.length, 0, INT64_MAX, err));
    HR_TRY(hr__wire_check(&r->at, "the offset of a column", w.offset, 0, INT64_MAX, err));
    HR_TRY(hr__wire_check(&r->at, "the null count of a column", w.null_count, -1, w.length, err));
    HR_GO(take_buffers(r, t, w.buffers, buffers, err));
    if (t->n_children && !(children = hr__zalloc(r->peer->account, (size_t)t->n_children * sizeof *children))) {
        st = hr__error_memory(err, "link", t->n_children);
        goto done;
    }
    for (; n < t->n_children; n++)
        HR_GO(take_array(r, t->children[n].type, &children[n], err));
    st = hr__array_new(t, w.length, w.null_count, buffers, children, n, out, err);
    memset(buffers, 0, sizeof buffers); /* taken */
    n = 0;
    if (!st)
        (*out)->offset = w.offset;
done:
    for (int i = 0; i < 3; i++)
        hr__buffer_unref(buffers[i]);
    for (int i = 0; i < n; i++)
        hr__array_unref(children[i]);
    hr__free(children);
    return st;
}

static hr_status take_columns(reading *r, hr_schema *s, int64_t n_rows, hr_array **columns, hr_error *err)
{
    if (n_rows < 0)
        return hr_error_set(err, HR_BAD_DATA, "link: a message says that its table has %lld rows", (long long)n_rows);
    for (int i = 0; i < s->n; i++) {
        HR_TRY(take_array(r, s->fields[i].type, &columns[i], err));
        if (columns[i]->length != n_rows)
            return hr_error_set(err, HR_BAD_DATA, "link: column %d has %lld rows, the table %lld", i,
                                (long long)columns[i]->length, (long long)n_rows);
    }
    return hr__wire_get_end(&r->at, err);
}

static hr_status take_table(reading *r, hr_schema *s, int64_t n_rows, hr_table **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_array **columns = hr__zalloc(r->peer->account, (size_t)s->n * sizeof *columns);

    if (!columns)
        return hr__error_memory(err, "link", s->n);
    HR_GO(take_columns(r, s, n_rows, columns, err));
    st = hr__table_new(s, columns, n_rows, NULL, out, err);
    memset(columns, 0, (size_t)s->n * sizeof *columns); /* taken */
    if (!st)
        (*out)->sole = r->sole;
done:
    for (int i = 0; i < s->n; i++)
        hr__array_unref(columns[i]);
    hr__free(columns);
    return st;
}

/* ----------------------------------------------------------------------------------------------------- messages, in */

/* The body of a message, in its packet or in a block. */
typedef struct body {
    const uint8_t *data; /* of the whole */
    uint8_t *copy;       /* of schema and columns in a block: the peer could change them during the reading */
    hr_map *map;
} body;

static hr_status body_open(hr_peer *p, const hr_packet_message *m, const uint8_t *after, int64_t n_after, body *out,
                           hr_error *err)
{
    int64_t n_head = 0, n = 0;

    *out = (body){ .data = after };
    if (m->n_schema < 0 || m->n_columns_bytes < 0 || m->n_bytes < 0 ||
        __builtin_add_overflow(m->n_schema, m->n_columns_bytes, &n_head) ||
        __builtin_add_overflow(n_head, m->n_bytes, &n))
        return hr_error_set(err, HR_BAD_DATA,
                            "link: a message announces %lld bytes of schema, %lld of columns, %lld of body",
                            (long long)m->n_schema, (long long)m->n_columns_bytes, (long long)m->n_bytes);
    if ((m->flags & HR_MESSAGE_OUTSIDE ? 0 : n) != n_after)
        return hr_error_set(err, HR_BAD_DATA, "link: a message announces %lld bytes, its packet has %lld", (long long)n,
                            (long long)n_after);
    if (!(m->flags & HR_MESSAGE_OUTSIDE))
        return HR_OK;
    HR_TRY(map_find(p, m->segment, &out->map, err));
    HR_TRY(map_range(out->map, m->offset, n, err));
    if (!(out->copy = hr__alloc(p->account, (size_t)n_head)))
        return hr__error_memory(err, "link", n_head);
    out->data = out->map->shared + m->offset;
    if (n_head)
        memcpy(out->copy, out->data, (size_t)n_head);
    return HR_OK;
}

static void body_close(body *b)
{
    hr__free(b->copy);
    map_unref(b->map);
}

static hr_status learn_schema(hr_peer *p, const hr_packet_message *m, const uint8_t *data, hr_schema **out,
                              hr_error *err)
{
    hr_schema *s = NULL;

    if (m->schema >= HR_WIRE_SCHEMAS || (!m->n_schema && !p->schemas[m->schema]))
        return hr_error_set(err, HR_BAD_DATA, "link: schema %u was never sent", m->schema);
    if (m->n_schema) {
        HR_TRY(hr__wire_read_schema(hr__wire_reader("a schema", data, m->n_schema), &s, err));
        hr__schema_unref(p->schemas[m->schema]);
        p->schemas[m->schema] = s;
    }
    *out = p->schemas[m->schema];
    return HR_OK;
}

static hr_status message_ref_new(hr_peer *p, const hr_packet_message *m, hr_message_ref **out, hr_error *err)
{
    hr_message_ref *h = hr__zalloc(p->account, sizeof *h);

    if (!h)
        return hr__error_memory(err, "link", sizeof *h);
    atomic_init(&h->refs, 1);
    h->slot = m->slot;
    h->seq = m->seq;
    h->owner = p->owner;
    h->gone = p->message_ref_gone;
    p->message_ref_new(p->owner);
    *out = h;
    return HR_OK;
}

static hr_status take_message(hr_peer *p, const hr_packet_message *m, const body *b, hr_message_ref *ref,
                              hr_message *out, hr_error *err)
{
    const uint8_t *head = b->copy ? b->copy : b->data;
    hr_schema *schema = NULL;

    if (m->flags & HR_MESSAGE_TABLE) {
        reading r = { p, ref, hr__wire_reader("a table", head + m->n_schema, m->n_columns_bytes),
                      m->flags & HR_MESSAGE_SOLE };
        HR_TRY(learn_schema(p, m, head, &schema, err));
        HR_TRY(take_table(&r, schema, m->n_rows, &out->table, err));
    } else if (m->n_schema || m->n_columns_bytes) {
        return hr_error_set(err, HR_BAD_DATA,
                            "link: a message without a table says %lld bytes of schema, %lld of columns",
                            (long long)m->n_schema, (long long)m->n_columns_bytes);
    }
    out->kind = m->kind;
    out->tag = m->tag;
    out->n_bytes = m->n_bytes;
    if (!m->n_bytes)
        return HR_OK;
    if (!(out->bytes = hr__alloc(p->account, (size_t)m->n_bytes + 1)))
        return hr__error_memory(err, "link", m->n_bytes);
    memcpy(out->bytes, b->data + m->n_schema + m->n_columns_bytes, (size_t)m->n_bytes);
    ((char *)out->bytes)[m->n_bytes] = 0;
    return HR_OK;
}

static hr_status packet_message(hr_peer *p, hr_wire_reader r, hr_incoming *out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_packet_message m;
    body b = { 0 };
    hr_message_ref *ref = NULL;

    HR_TRY(hr__wire_get_struct(&r, "its head", &m, sizeof m, err));
    if (m.flags > 15 || (m.flags & (HR_MESSAGE_TABLE | HR_MESSAGE_OUTSIDE) && !(m.flags & HR_MESSAGE_HELD)))
        return hr_error_set(err, HR_BAD_DATA,
                            "link: a message has flags %#x; a table or an outer body needs HELD, 0xf is the most",
                            m.flags);
    HR_GO(body_open(p, &m, r.at, hr__wire_left(&r), &b, err));
    if (m.flags & HR_MESSAGE_HELD)
        HR_GO(message_ref_new(p, &m, &ref, err));
    HR_GO(take_message(p, &m, &b, ref, &out->message, err));
done:
    body_close(&b);
    if (ref) {
        ref->voided = st != HR_OK; /* the caller receives it again, or never */
        if (st)
            hr__message_clear(&out->message);
        if (atomic_fetch_sub_explicit(&ref->refs, 1, memory_order_acq_rel) == 1)
            ref->gone(ref);
    }
    return st;
}

/* ------------------------------------------------------------------------------------------------ other packets, in */

static hr_status packet_segment(hr_peer *p, hr_wire_reader r, int *fd, hr_error *err)
{
    hr_packet_segment s;
    hr_map *m = NULL;
    int64_t found = 0;
    hr_status st;
    int rc;

    HR_TRY(hr__wire_get_struct(&r, "its body", &s, sizeof s, err));
    HR_TRY(hr__wire_get_end(&r, err));
    if (*fd < 0)
        return hr_error_set(err, HR_BAD_DATA, "link: segment %llu came without a descriptor", (unsigned long long)s.id);
    if ((rc = hr__memfd_check(*fd, &found)))
        return rc == -EPERM || rc == -EINVAL
                   ? hr_error_set(err, HR_BAD_DATA,
                                  "link: segment %llu is no memory file, or has no seal against shrinking",
                                  (unsigned long long)s.id)
                   : hr__error_os(err, rc, "link", "a segment");
    if (!s.id || s.n_bytes <= 0 || s.n_bytes != found)
        return hr_error_set(err, HR_BAD_DATA, "link: segment %llu: the packet says %lld bytes, the descriptor has %lld",
                            (unsigned long long)s.id, (long long)s.n_bytes, (long long)found);
    HR_TRY(map_new(p->account, s.id, s.n_bytes, *fd, &m, err));
    if ((st = map_add(p, m, err))) {
        map_unref(m);
        return st;
    }
    hr__file_close(*fd);
    *fd = -1;
    return HR_OK;
}

static hr_status packet_forget(hr_peer *p, hr_wire_reader r, hr_error *err)
{
    hr_packet_forget f;
    hr_map *gone = NULL;

    HR_TRY(hr__wire_get_struct(&r, "its body", &f, sizeof f, err));
    HR_TRY(hr__wire_get_end(&r, err));
    hr__lock(&p->lock);
    for (int64_t i = 0; i < p->n_maps; i++)
        if (p->maps[i]->id == f.id) {
            gone = p->maps[i];
            p->maps[i] = p->maps[--p->n_maps];
            break;
        }
    hr__unlock(&p->lock);
    if (!gone)
        return hr_error_set(err, HR_BAD_DATA, "link: segment %llu was never sent", (unsigned long long)f.id);
    map_unref(gone);
    return HR_OK;
}

static hr_status packet_release(hr_wire_reader r, hr_incoming *out, hr_error *err)
{
    const uint8_t *items;
    hr_packet_release head;
    int64_t n_bytes;

    HR_TRY(hr__wire_get_struct(&r, "its head", &head, offsetof(hr_packet_release, items), err));
    HR_TRY(hr__wire_check(&r, "the number of messages", head.n, 0, HR_RELEASED_MOST, err));
    n_bytes = head.n * (int64_t)sizeof(hr_released);
    HR_TRY(hr__wire_get_bytes(&r, "the list of messages", n_bytes, &items, err));
    out->released = hr__wire_reader("a release packet", items, n_bytes);
    return hr__wire_get_end(&r, err);
}

hr_status hr__peer_packet(hr_peer *p, const void *data, int64_t n, int *fd, hr_incoming *out, hr_error *err)
{
    hr_wire_reader r = hr__wire_reader("a packet", data, n);
    hr_packet_head h;

    *out = (hr_incoming){ 0 };
    HR_TRY(hr__wire_get_struct(&r, "its head", &h, sizeof h, err));
    if (h.magic != MAGIC || h.version != VERSION)
        return hr_error_set(err, HR_BAD_DATA, "link: a packet of protocol %08x version %u, expected %08x version %u",
                            h.magic, h.version, MAGIC, VERSION);
    out->what = h.what;
    switch (h.what) {
    case HR_PACKET_MESSAGE: return packet_message(p, hr__wire_reader("a message packet", data, n), out, err);
    case HR_PACKET_SEGMENT: return packet_segment(p, hr__wire_reader("a segment packet", data, n), fd, err);
    case HR_PACKET_RELEASE: return packet_release(hr__wire_reader("a release packet", data, n), out, err);
    case HR_PACKET_FORGET: return packet_forget(p, hr__wire_reader("a forget packet", data, n), err);
    case HR_PACKET_BYE: return HR_OK;
    default:
        return hr_error_set(err, HR_BAD_DATA, "link: a packet of kind %u, expected %d to %d", h.what, HR_PACKET_MESSAGE,
                            HR_PACKET_BYE);
    }
}
