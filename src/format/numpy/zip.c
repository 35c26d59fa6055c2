/* zip.c - zip archives: the directory at the end, and members as streams.
 *
 * Sizes come from the central directory (local headers may omit them), also in the wide form of zip64. A member_stream
 * passes a deflated member to the gzip codec with a gzip header and trailer around it, so that the codec checks length
 * and checksum; it sums a stored member itself. The two copies of names, methods, sizes and checksums must agree. */
#include "format/numpy/zip.h"

#include <stdlib.h>

#define END_BYTES 22
#define LOCAL_BYTES 30 /* of a member's own header, without name and extra field */
#define MAX_COMMENT_BYTES 65535
#define DEFLATE_MAX_RATIO 1032

static uint32_t load(const uint8_t *p, int n)
{
    uint32_t v = 0;

    while (n-- > 0)
        v = v << 8 | p[n];
    return v;
}

static int64_t load_wide(const uint8_t *p) { return (int64_t)((uint64_t)load(p + 4, 4) << 32 | load(p, 4)); }

/* Where the directory lies. */
typedef struct place {
    int64_t at, bytes, n;
} place;

/* The zip64 end record, if its locator stands before the ordinary one. */
static hr_status wide_end(hr_source *s, int64_t end_at, place *out, hr_error *err)
{
    uint8_t p[56];
    int64_t at;

    if (end_at < 20)
        return HR_OK;
    HR_TRY(hr__source_read(s, p, end_at - 20, 20, err));
    if (load(p, 4) != 0x07064b50)
        return HR_OK;
    at = load_wide(p + 8);
    if (at < 0 || at > end_at - 20 - 56)
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: byte %lld: its zip64 record would be at %lld", s->name,
                            (long long)(end_at - 20), (long long)at);
    HR_TRY(hr__source_read(s, p, at, 56, err));
    if (load(p, 4) != 0x06064b50)
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: byte %lld: expected a zip64 record, found 0x%08x", s->name,
                            (long long)at, load(p, 4));
    *out = (place){ load_wide(p + 48), load_wide(p + 40), load_wide(p + 32) };
    return HR_OK;
}

static hr_status find_end(hr_source *s, hr_account *account, place *out, hr_error *err)
{
    int64_t n = HR_MIN(s->n_bytes, END_BYTES + MAX_COMMENT_BYTES), i;
    uint8_t *tail = hr__alloc(account, (size_t)HR_MAX(n, 1));
    hr_status st = HR_OK;

    if (!tail)
        return hr__error_memory(err, s->name, n);
    HR_GO(hr__source_read(s, tail, s->n_bytes - n, n, err));
    for (i = n - END_BYTES; i >= 0; i--) {
        if (load(tail + i, 4) == 0x06054b50 && load(tail + i + 20, 2) <= n - END_BYTES - i)
            break;
    }
    if (i < 0)
        HR_FAIL(HR_BAD_DATA, "%s: zip: no end record in the last %lld bytes, the file is cut off or not a zip archive",
                s->name, (long long)n);
    *out = (place){ load(tail + i + 16, 4), load(tail + i + 12, 4), load(tail + i + 10, 2) };
    HR_GO(wide_end(s, s->n_bytes - n + i, out, err));
    if (out->at < 0 || out->bytes < 0 || out->n < 0 || out->at > s->n_bytes || out->bytes > s->n_bytes - out->at ||
        out->n > out->bytes / 46)
        HR_FAIL(HR_BAD_DATA, "%s: zip: a directory of %lld members and %lld bytes at %lld in a file of %lld bytes",
                s->name, (long long)out->n, (long long)out->bytes, (long long)out->at, (long long)s->n_bytes);
done:
    hr__free(tail);
    return st;
}

/* The extra field with the sizes that do not fit 32 bits. */
static void wide_sizes(zip_member *m, const uint8_t *extra, int64_t n)
{
    while (n >= 4) {
        int64_t length = load(extra + 2, 2);
        const uint8_t *p = extra + 4, *end = p + HR_MIN(length, n - 4);

        if (load(extra, 2) == 1) {
            int64_t *const wide[] = { &m->bytes, &m->stored_bytes, &m->header_at };

            for (int i = 0; i < 3; i++) {
                if (*wide[i] == UINT32_MAX && end - p >= 8) {
                    *wide[i] = load_wide(p);
                    p += 8;
                }
            }
        }
        extra += 4 + HR_MIN(length, n - 4);
        n -= 4 + HR_MIN(length, n - 4);
    }
}

/* One entry; *n: how long it is. */
static hr_status entry(hr_source *s, const uint8_t *p, int64_t left, int64_t at, hr_account *account, zip_member *m,
                       int64_t *n, hr_error *err)
{
    int64_t name, extra;

    if (left < 46 || load(p, 4) != 0x02014b50)
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: byte %lld: expected a directory entry", s->name, (long long)at);
    name = load(p + 28, 2);
    extra = load(p + 30, 2);
    *n = 46 + name + extra + load(p + 32, 2);
    if (*n > left)
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: byte %lld: an entry of %lld bytes, %lld are left", s->name,
                            (long long)at, (long long)*n, (long long)left);
    m->method = load(p + 8, 2) & 1 ? -1 : (int)load(p + 10, 2); /* bit 0: encrypted */
    m->crc = load(p + 16, 4);
    m->stored_bytes = load(p + 20, 4);
    m->bytes = load(p + 24, 4);
    m->header_at = load(p + 42, 4);
    wide_sizes(m, p + 46 + name, extra);
    if (memchr(p + 46, 0, (size_t)name))
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: byte %lld: the name '%.100s' of a member holds a zero byte",
                            s->name, (long long)at, (const char *)p + 46);
    m->name = hr__strndup(account, (const char *)p + 46, (size_t)name);
    if (!m->name)
        return hr__error_memory(err, s->name, name);
    if (m->stored_bytes < 0 || m->stored_bytes > s->n_bytes || m->bytes < 0 || m->header_at < 0 ||
        m->header_at > s->n_bytes || m->bytes / DEFLATE_MAX_RATIO > m->stored_bytes ||
        (m->method == 0 && m->bytes != m->stored_bytes))
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: '%s': %lld bytes stored at %lld for %lld, in a file of %lld",
                            s->name, m->name, (long long)m->stored_bytes, (long long)m->header_at, (long long)m->bytes,
                            (long long)s->n_bytes);
    return HR_OK;
}

/* Checks that the member's own header agrees with the directory: name, method and, unless a record after the data has
 * them (bit 3), checksum and sizes. */
static hr_status check_header(hr_source *s, const zip_member *m, hr_error *err)
{
    uint8_t p[LOCAL_BYTES], *name = NULL;
    hr_status st = HR_OK;
    bool later, wide;
    int64_t n;
    int method;

    HR_GO(hr__source_read(s, p, m->header_at, sizeof p, err));
    if (load(p, 4) != 0x04034b50)
        HR_FAIL(HR_BAD_DATA, "%s: zip: byte %lld: expected the header of '%s'", s->name, (long long)m->header_at,
                m->name);
    method = load(p + 6, 2) & 1 ? -1 : (int)load(p + 8, 2);
    later = load(p + 6, 2) & 8;
    wide = load(p + 18, 4) == UINT32_MAX || load(p + 22, 4) == UINT32_MAX;
    n = load(p + 26, 2);
    name = hr__alloc(NULL, (size_t)n + 1);
    if (!name)
        HR_GO(hr__error_memory(err, s->name, n));
    HR_GO(hr__source_read(s, name, m->header_at + LOCAL_BYTES, n, err));
    if (n != (int64_t)strlen(m->name) || memcmp(name, m->name, (size_t)n) != 0)
        HR_FAIL(HR_BAD_DATA, "%s: zip: '%s' has another name in its own header, at byte %lld", s->name, m->name,
                (long long)m->header_at);
    if (method != m->method ||
        (!later && (load(p + 14, 4) != m->crc || (!wide && (load(p + 18, 4) != (uint64_t)m->stored_bytes ||
                                                            load(p + 22, 4) != (uint64_t)m->bytes)))))
        HR_FAIL(HR_BAD_DATA, "%s: zip: the directory and the header of '%s' at byte %lld differ", s->name, m->name,
                (long long)m->header_at);
done:
    hr__free(name);
    return st;
}

static int by_place(const void *a, const void *b)
{
    const zip_member *const *x = a, *const *y = b;

    return ((*x)->header_at > (*y)->header_at) - ((*x)->header_at < (*y)->header_at);
}

/* Checks that members lie one after another, before the directory, and do not overlap. */
static hr_status check_overlaps(const hr_source *s, const zip_list *l, int64_t directory_at, hr_error *err)
{
    const zip_member **by = hr__alloc(l->account, (size_t)HR_MAX(l->n, 1) * sizeof *by);
    hr_status st = HR_OK;

    if (!by)
        return hr__error_memory(err, s->name, l->n * (int64_t)sizeof *by);
    for (int64_t i = 0; i < l->n; i++)
        by[i] = &l->items[i];
    qsort(by, (size_t)l->n, sizeof *by, by_place);
    for (int64_t i = 0; i < l->n; i++) {
        int64_t next = i + 1 < l->n ? by[i + 1]->header_at : directory_at;

        if (by[i]->stored_bytes > next - by[i]->header_at - LOCAL_BYTES)
            HR_FAIL(HR_BAD_DATA, "%s: zip: '%s' at byte %lld has %lld bytes, the next part begins at %lld", s->name,
                    by[i]->name, (long long)by[i]->header_at, (long long)by[i]->stored_bytes, (long long)next);
    }
done:
    hr__free(by);
    return st;
}

hr_status zip__list(hr_source *source, hr_account *account, zip_list *out, hr_error *err)
{
    hr_status st = HR_OK;
    uint8_t *p = NULL;
    int64_t at = 0, n = 0;
    place end = { 0, 0, 0 };

    *out = (zip_list){ .account = account };
    HR_GO(find_end(source, account, &end, err));
    p = hr__alloc(account, (size_t)HR_MAX(end.bytes, 1));
    out->items = hr__zalloc(account, (size_t)HR_MAX(end.n, 1) * sizeof *out->items);
    if (!p || !out->items)
        HR_GO(hr__error_memory(err, source->name, end.bytes));
    HR_GO(hr__source_read(source, p, end.at, end.bytes, err));
    for (int64_t i = 0; i < end.n; i++, at += n) {
        out->n++; /* zip__list_clear frees its name even if the entry is incomplete */
        HR_GO(entry(source, p + at, end.bytes - at, end.at + at, account, &out->items[i], &n, err));
    }
    if (at != end.bytes)
        HR_FAIL(HR_BAD_DATA, "%s: zip: byte %lld: %lld members end here, the directory ends at %lld", source->name,
                (long long)(end.at + at), (long long)end.n, (long long)(end.at + end.bytes));
    HR_GO(check_overlaps(source, out, end.at, err));
    for (int64_t i = 0; i < out->n; i++)
        HR_GO(check_header(source, &out->items[i], err));
done:
    hr__free(p);
    if (st)
        zip__list_clear(out);
    return st;
}

void zip__list_clear(zip_list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        hr__free(l->items[i].name);
    hr__free(l->items);
    *l = (zip_list){ 0 };
}

/* ---------------------------------------------------------------------------------------------------------- members */

typedef struct member_stream {
    hr_stream base;
    hr_source *source;
    const zip_member *member;
    int64_t at;      /* offset in head, data and tail */
    int64_t data_at; /* of the file */
    int n_head;      /* bytes before and after the data: gzip's, or none */
    uint8_t head[10];
    int n_tail;
    uint8_t tail[8];
    uint32_t crc; /* of a stored member, so far */
} member_stream;

/* Reads up to n bytes at `at` in head, data and tail. */
static hr_status member_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    member_stream *s = (member_stream *)base;
    const zip_member *m = s->member;
    int64_t in_data = s->at - s->n_head, in_tail = in_data - m->stored_bytes;

    *n_read = 0;
    if (in_data < 0) {
        *n_read = HR_MIN(n, -in_data);
        memcpy(out, s->head + s->at, (size_t)*n_read);
    } else if (in_tail < 0) {
        n = HR_MIN(n, -in_tail);
        HR_TRY(hr__source_read(s->source, out, s->data_at + in_data, n, err));
        *n_read = n;
        if (m->method == 0)
            s->crc = hr__crc32(s->crc, out, n);
        if (m->method == 0 && n == -in_tail && s->crc != m->crc)
            return hr_error_set(err, HR_BAD_DATA, "%s: zip: '%s': checksum 0x%08x, the directory says 0x%08x",
                                s->source->name, m->name, s->crc, m->crc);
    } else if (in_tail < s->n_tail) {
        *n_read = HR_MIN(n, s->n_tail - in_tail);
        memcpy(out, s->tail + in_tail, (size_t)*n_read);
    }
    s->at += *n_read;
    return HR_OK;
}

static void member_close(hr_stream *base)
{
    hr__source_unref(((member_stream *)base)->source);
    hr__free(base);
}

static const hr_stream_class member_class = { member_read, member_close };

/* Makes the gzip header and trailer around the data. */
static void frame(member_stream *s)
{
    static const uint8_t head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff };
    uint64_t trailer = (uint64_t)(uint32_t)s->member->bytes << 32 | s->member->crc;

    memcpy(s->head, head, sizeof head);
    s->n_head = sizeof head;
    for (int i = 0; i < 8; i++)
        s->tail[i] = (uint8_t)(trailer >> 8 * i);
    s->n_tail = 8;
}

/* Finds the begin of the data: after the member's own header, which zip__list has checked. */
static hr_status find_data(member_stream *s, hr_error *err)
{
    const zip_member *m = s->member;
    uint8_t p[LOCAL_BYTES];

    HR_TRY(hr__source_read(s->source, p, m->header_at, sizeof p, err));
    s->data_at = m->header_at + LOCAL_BYTES + load(p + 26, 2) + load(p + 28, 2);
    if (s->data_at > s->source->n_bytes - m->stored_bytes)
        return hr_error_set(err, HR_BAD_DATA, "%s: zip: '%s': %lld bytes at %lld, the file has %lld", s->source->name,
                            m->name, (long long)m->stored_bytes, (long long)s->data_at, (long long)s->source->n_bytes);
    return HR_OK;
}

hr_status zip__stream(hr_source *source, const zip_member *m, hr_account *account, hr_stream **out, hr_error *err)
{
    hr_status st = HR_OK;
    member_stream *s = NULL;

    *out = NULL;
    if (m->method != 0 && m->method != 8)
        HR_FAIL(HR_UNSUPPORTED, "%s: zip: '%s' is %s; expected stored or deflated members", source->name, m->name,
                m->method < 0 ? "encrypted" : "compressed by another method");
    if (m->method == 8 && !hr__codec_gzip.stream)
        HR_FAIL(HR_UNSUPPORTED, "%s: zip: '%s' is deflated: this build was made without %s", source->name, m->name,
                hr__codec_gzip.library);
    s = hr__zalloc(account, sizeof *s);
    if (!s)
        HR_GO(hr__error_memory(err, source->name, sizeof *s));
    s->base.cls = &member_class;
    s->source = hr__source_ref(source);
    s->member = m;
    HR_GO(find_data(s, err));
    if (m->method == 8) {
        frame(s);
        st = hr__codec_gzip.stream(&s->base, source->name, account, out, err); /* takes it */
    } else {
        *out = &s->base;
    }
    s = NULL; /* moved */
done:
    if (s)
        member_close(&s->base);
    return st;
}
