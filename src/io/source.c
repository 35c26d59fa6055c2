/* source.c - the common part of all sources and plain streams: counted references, exact reads, opening by URL.
 *
 * Tests: test_glob.c, test_codec.c. */
#include "io/io.h"

#include <stdlib.h>

hr_status hr__source_new(const hr_source_class *cls, size_t bytes, const char *name, int64_t n_bytes,
                         hr_account *account, hr_source **out, hr_error *err)
{
    hr_source *s = hr__zalloc(account, bytes);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, name, (int64_t)bytes);
    s->name = hr__strdup(account, name);
    if (!s->name) {
        hr__free(s);
        return hr__error_memory(err, name, (int64_t)strlen(name) + 1);
    }
    s->cls = cls;
    s->n_bytes = n_bytes;
    atomic_init(&s->refs, 1);
    *out = s;
    return HR_OK;
}

hr_source *hr__source_ref(hr_source *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void hr__source_unref(hr_source *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    s->cls->close(s);
    hr__free(s->name);
    hr__free(s);
}

hr_status hr__source_open(const char *url, hr_account *account, hr_source **out, hr_error *err)
{
    char *path = NULL;
    hr_status st;

    *out = NULL;
    HR_GO(hr__path_of_url(url, account, &path, err));
    HR_GO(hr__file_source_open(path, account, out, err));
done:
    hr__free(path);
    return st;
}

hr_status hr__source_read_some(hr_source *s, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err)
{
    *n_read = 0;
    if (offset < 0 || n < 0)
        return hr_error_set(err, HR_BUG, "%s: read of %lld bytes at %lld", s->name, (long long)n, (long long)offset);
    if (n == 0 || offset >= s->n_bytes)
        return HR_OK;
    return s->cls->read_at(s, out, offset, HR_MIN(n, s->n_bytes - offset), n_read, err);
}

hr_status hr__source_read(hr_source *s, void *out, int64_t offset, int64_t n, hr_error *err)
{
    int64_t n_read;

    HR_TRY(hr__source_read_some(s, out, offset, n, &n_read, err));
    if (n_read < n)
        return hr_error_set(err, HR_BAD_DATA, "%s: the file ends at byte %lld, expected %lld bytes at %lld", s->name,
                            (long long)(offset + n_read), (long long)n, (long long)offset);
    return HR_OK;
}

/* Of this thread, between hr__aheads_begin and hr__aheads_end: what is not announced yet. */
static _Thread_local struct {
    bool on;
    hr_source *source; /* NULL: nothing */
    int64_t at, n;
} joined;

static void announce_joined(void)
{
    if (joined.source)
        joined.source->cls->ahead(joined.source, joined.at, joined.n);
    joined.source = NULL;
}

void hr__aheads_begin(void) { joined.on = true; }

void hr__aheads_end(void)
{
    announce_joined();
    joined.on = false;
}

void hr__source_ahead(hr_source *s, int64_t offset, int64_t n)
{
    if (!s->cls->ahead || n <= 0 || offset >= s->n_bytes)
        return;
    if (joined.source != s || joined.at + joined.n != offset) {
        announce_joined();
        joined.at = offset;
        joined.n = 0;
    }
    joined.source = s;
    joined.n += n;
    if (!joined.on)
        announce_joined();
}

hr_source *hr__source_again(hr_source *s, hr_account *account)
{
    return s->cls->again ? s->cls->again(s, account) : NULL;
}

void hr__source_take(hr_source *s, hr_source *from)
{
    if (s->cls->take && s->cls == from->cls)
        s->cls->take(s, from);
}

bool hr__source_is_remote(const hr_source *s) { return s->cls->gap > 0; }
bool hr__source_has(hr_source *s, int64_t offset, int64_t n) { return !s->cls->has || s->cls->has(s, offset, n); }

static int by_offset(const void *a, const void *b)
{
    const hr_file_range *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

void hr__source_ahead_ranges(hr_source *s, hr_file_range *ranges, int n)
{
    if (n > 1)
        qsort(ranges, (size_t)n, sizeof *ranges, by_offset);
    for (int i = 0, k; i < n; i = k) {
        int64_t end = ranges[i].offset + ranges[i].n;

        for (k = i + 1; k < n && s->cls->gap && ranges[k].offset - end < s->cls->gap; k++)
            end = HR_MAX(end, ranges[k].offset + ranges[k].n);
        hr__source_ahead(s, ranges[i].offset, end - ranges[i].offset);
    }
}

/* --- reading forward */

#define AHEAD_OF_NETWORK (16 << 20)    /* bytes at most; */
#define AHEAD_OF_SMALL_LIMIT (1 << 20) /* a sixteenth of the memory limit, but no less than this */

hr_read_on hr__read_on(const hr_source *s, int64_t first, int64_t limit_bytes)
{
    int64_t most = HR_MAX(AHEAD_OF_SMALL_LIMIT, HR_MIN(AHEAD_OF_NETWORK, limit_bytes / 16));

    return (hr_read_on){ .first = first, .most = hr__source_is_remote(s) ? most : first };
}

void hr__source_read_on(hr_source *s, hr_read_on *r, int64_t at)
{
    int64_t want = HR_MIN(r->most, HR_MAX(r->first, 2 * at));

    if (r->announced > at + want - want / 4 || (r->announced && at < want - want / 4 && want <= r->first))
        return;
    r->announced = HR_MAX(r->announced, at);
    hr__source_ahead(s, r->announced, at + want - r->announced);
    r->announced = at + want;
}

typedef struct plain_stream { /* a source, read from its beginning */
    hr_stream base;
    hr_source *source;
    int64_t at; /* bytes before it */
    hr_read_on read_on;
} plain_stream;

#define STREAM_AHEAD_BYTES (4 << 20)

static hr_status plain_read(hr_stream *base, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    plain_stream *s = (plain_stream *)base;

    HR_TRY(hr__source_read_some(s->source, out, s->at, n, n_read, err));
    s->at += *n_read;
    hr__source_read_on(s->source, &s->read_on, s->at);
    return HR_OK;
}

static void plain_close(hr_stream *base)
{
    hr__source_unref(((plain_stream *)base)->source);
    hr__free(base);
}

static const hr_stream_class plain_class = { plain_read, plain_close };

hr_status hr__stream_new(hr_source *source, hr_account *account, hr_stream **out, hr_error *err)
{
    plain_stream *s = hr__zalloc(account, sizeof *s);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, source->name, sizeof *s);
    s->base.cls = &plain_class;
    s->source = hr__source_ref(source);
    s->read_on = hr__read_on(source, STREAM_AHEAD_BYTES, hr__account_limit(account));
    hr__source_read_on(source, &s->read_on, 0);
    *out = &s->base;
    return HR_OK;
}

hr_status hr__stream_read(hr_stream *s, void *out, int64_t n, int64_t *n_read, hr_error *err)
{
    int64_t got = 1;

    for (*n_read = 0; *n_read < n && got > 0; *n_read += got)
        HR_TRY(s->cls->read(s, (uint8_t *)out + *n_read, n - *n_read, &got, err));
    return HR_OK;
}

void hr__stream_close(hr_stream *s)
{
    if (s)
        s->cls->close(s);
}
