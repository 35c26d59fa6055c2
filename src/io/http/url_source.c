/* url_source.c - the bytes of a URL as a source: parts that travel, or have come.
 *
 * A *part* is a range of the object, one request. Parts of a source never overlap. hr__source_ahead makes parts of at
 * most PART_BYTES, or a PART_SHARE-th of the memory limit if that is less, for the bytes that no part has, if the
 * account has room: half of the memory limit is for bytes that nobody reads yet, and a quarter more for those of a
 * wait. A part goes as a whole: one of 8 MiB has several columns, and stays until the last of them is read. A read
 * copies from parts that have come, waits for those on their way, and makes a part itself where there is none: twice as
 * large as the part before it, so that what is read on is fetched in ever larger parts.
 *
 * Rows of a fragment are read by several tickets, in any order, and pages may be skipped: so no count of bytes says
 * when a part has served. A part goes when reads of OLD_BYTES of others have passed since its last read; one that was
 * not read yet, after UNREAD times as many. The latest parts that were read stay, up to OLD_BYTES, half of the
 * memory limit, and what is left of it plus an eighth: neighbouring tickets read the same pages. If nothing is left,
 * other parts that were read up go at once. Small ones stay, up to KEEP_BYTES or a PART_SHARE-th of the limit for each
 * source: a footer is read several times.
 *
 * If the server answers with the whole object instead of the range, the source asks for the whole, once, and keeps it:
 * that needs a quarter of the memory limit at most.
 *
 * With a cache on the disk, a read takes its part from there, and hr__source_ahead passes by what is there. A part that
 * came over the network goes into the cache at its first read, on the reader's thread.
 *
 * Every request has the ETag of the listing as If-Match. Without an ETag, the size, Last-Modified and a weak ETag are
 * compared: all answers must have the same ones.
 *
 * Lock: parts.lock, for all sources of the process, so that a forked child can go on: a leaf, held for no request, no
 * allocation and no copy. Parts that were on their way in the parent are lost in the child, which asks again.
 *
 * Tests: test_http.c, test_stores.py. */
#include "io/http/http.h"
#include "io/http/remote.h"

#include <stdio.h>
#include <stdlib.h>

#define PART_BYTES (8 << 20)
#define PART_SHARE 32 /* of the memory limit, if that is less; at least LEAST_PART */
#define LEAST_PART (256 << 10)
#define LEAST_BYTES (64 << 10) /* of a part that a read makes */
#define MOST_BYTES (4 << 20)   /* likewise, when reads follow each other */
#define OLD_BYTES (32 << 20)   /* or a sixteenth of the memory limit */
#define UNREAD 16
#define KEEP_PART (1 << 20)
#define KEEP_BYTES (4 << 20)
#define GAP_BYTES (256 << 10) /* a request costs as much time as these bytes */

typedef enum part_state { FETCHING, READY, FAILED } part_state;

typedef struct url_source url_source;
typedef struct part {
    struct part *next; /* of the source, in no order */
    int refs;          /* the source's, the request's, those of reads */
    part_state state;
    int pid; /* of the request */
    int64_t at, n;
    int64_t came_ns; /* when it was READY */
    int64_t n_read;  /* bytes that were read */
    int64_t stamp;   /* passed_bytes of the source at the last read, or when the part was made */
    bool end_read;   /* its last byte was read */
    bool read_up;    /* counted in kept_bytes */
    bool is_cached;  /* or was offered to the cache */
    bool is_counted; /* in the traffic of an account */
    bool from_cache;
    hr_buffer *bytes;
    hr_wait **waits;
    int64_t n_waits, cap_waits;
    hr_http_request request;
} part;

struct url_source {
    hr_source base;
    hr_store *store;
    char *url; /* encoded */
    char *tag; /* NULL: none */
    const hr_store_kind *kind;
    bool is_signed;
    hr_account *account;
    hr_cached *cache; /* its ranges are under the lock; NULL: none */
    /* Under the lock. */
    part *parts;
    int64_t kept_bytes;
    int64_t passed_bytes;             /* of all reads, and what they fetched beyond their bytes */
    bool whole;                       /* the server answers no ranges */
    bool verified;                    /* the version was compared after the last bytes had come */
    char modified[HR_MODIFIED_BYTES]; /* without a tag: Last-Modified of the first answer, */
    char weak[HR_ETAG_BYTES];         /* and its weak ETag. "": no answer had any */
};

static struct {
    hr_mutex lock;
    hr_cond changed;
    int pid;
} parts = { .lock = HR_MUTEX_INIT };

/* Bytes granted to threads that have not made their parts, so that no account has them yet. */
static _Atomic int64_t promised;

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void parts_init(void) { hr__mutex_survives_fork(&parts.lock); }

static void parts_lock(void)
{
    pthread_once(&once, parts_init);
    hr__lock(&parts.lock);
    if (parts.pid != hr__pid()) {
        hr__cond_init(&parts.changed);
        atomic_store(&promised, 0);
        parts.pid = hr__pid();
    }
}

static void parts_unlock(void) { hr__unlock(&parts.lock); }

/* ------------------------------------------------------------------------------------------------------------ parts */

static void part_free(part *p)
{
    if (!p)
        return;
    hr__buffer_unref(p->bytes);
    hr__free(p->waits);
    hr__http_clear(&p->request);
    hr__free(p);
}

/* Drops a reference. -> the part, if it was the last one: the caller frees it without the lock. */
static part *drop_locked(part *p) { return --p->refs ? NULL : p; }

/* Takes the part out of the source's list. -> as drop_locked. */
static part *remove_locked(url_source *s, part *p)
{
    part **at = &s->parts;

    while (*at && *at != p)
        at = &(*at)->next;
    if (!*at)
        return NULL;
    *at = p->next;
    p->next = NULL;
    if (p->read_up)
        s->kept_bytes -= p->n;
    return drop_locked(p);
}

static part *find_locked(const url_source *s, int64_t at)
{
    part *p = s->parts;

    while (p && (at < p->at || at >= p->at + p->n))
        p = p->next;
    return p;
}

/* The beginning of the first part in [at, end); `end`: there is none. */
static int64_t next_begin_locked(const url_source *s, int64_t at, int64_t end)
{
    for (const part *p = s->parts; p; p = p->next)
        if (p->at > at && p->at < end)
            end = p->at;
    return end;
}

static bool is_lost(const part *p) { return p->state == FETCHING && p->pid != hr__pid(); }

/* A request has ended. On the network's thread. */
static void on_done(hr_http_request *r)
{
    part *p = r->context;
    hr_wait **waits;
    int64_t n;

    parts_lock();
    p->state = r->st ? FAILED : READY;
    p->came_ns = hr__clock_ns();
    waits = p->waits;
    n = p->n_waits;
    p->waits = NULL;
    p->n_waits = p->cap_waits = 0;
    hr__cond_broadcast(&parts.changed);
    p = drop_locked(p);
    parts_unlock();
    for (int64_t i = 0; i < n; i++)
        hr__wait_came(waits[i]);
    hr__free(waits);
    part_free(p);
}

/* Bytes of a part that is announced: it goes as a whole, so it is small where memory is short. */
static int64_t most_of_part(const url_source *s)
{
    return HR_MAX(LEAST_PART, HR_MIN(PART_BYTES, hr__account_limit(s->account) / PART_SHARE));
}

/* A part without a request. */
static hr_status part_new(const url_source *s, int64_t at, int64_t n, part **out, hr_error *err)
{
    hr_mem mem = { s->account, NULL };
    part *p = hr__zalloc(s->account, sizeof *p);
    hr_status st;

    *out = NULL;
    if (!p)
        return hr__error_memory(err, s->base.name, sizeof *p);
    p->at = at;
    p->n = n;
    p->pid = hr__pid();
    p->is_counted = s->account != NULL;
    p->request.answer.total = s->base.n_bytes;
    st = hr__buffer_new(&mem, n, &p->bytes, err);
    if (st)
        part_free(p);
    else
        *out = p;
    return st;
}

/* Of the request for a range. */
static char *address_of(const url_source *s, int64_t at, int64_t n)
{
    hr_text out = { .account = s->account };

    hr__text_add(&out, "%s", s->url);
    if (s->kind && s->kind->add_range_query) {
        hr__text_add(&out, "%c", strchr(s->url, '?') ? '&' : '?');
        s->kind->add_range_query(at, n, &out);
    }
    if (out.failed)
        hr__text_clear(&out);
    return out.data;
}

static hr_status part_with_request(const url_source *s, int64_t at, int64_t n, part **out, hr_error *err)
{
    part *p = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    HR_TRY(part_new(s, at, n, &p, err));
    HR_GO(hr__http_init(&p->request, "GET", address_of(s, at, n), s->store, err));
    if (s->tag && !(p->request.if_match = hr__strdup(s->account, s->tag)))
        HR_GO(hr__error_memory(err, s->base.name, (int64_t)strlen(s->tag)));
    p->request.account = s->account;
    p->request.answer.total = s->base.n_bytes; /* where no answer says it */
    if (!(p->request.name = hr__strdup(s->account, s->base.name)))
        HR_GO(hr__error_memory(err, s->base.name, (int64_t)strlen(s->base.name)));
    p->request.kind = s->kind;
    p->request.is_signed = s->is_signed;
    p->request.offset = at;
    p->request.n_bytes = n;
    p->request.out = p->bytes->data;
    p->request.done = on_done;
    p->request.context = p;
    *out = p;
    p = NULL;
done:
    part_free(p);
    return st;
}

/* Neighbours read the beginning of a part twice: its bytes alone do not tell. */
static bool is_read_up(const part *p) { return p->n_read >= p->n && p->end_read; }

static bool is_old_locked(const url_source *s, const part *p, bool is_short)
{
    int64_t old = HR_MIN(OLD_BYTES, hr__account_limit(s->account) / 16);

    if (p->state != READY || p->refs > 1 || p->read_up)
        return false;
    if (p->n_read == 0)
        old *= UNREAD;
    else if (is_read_up(p))
        old = is_short ? -1 : old / 4;
    return s->passed_bytes - p->stamp > old;
}

/* Takes out parts that reads have passed by. -> to free, linked by `next`. */
static part *remove_old_locked(url_source *s)
{
    int64_t limit = hr__account_limit(s->account), left = limit - hr__account_used(s->account);
    int64_t keep = HR_MIN(OLD_BYTES, HR_MIN(limit / 2, left + limit / 8));
    bool is_short = left < 0;
    part *gone = NULL, **at = &s->parts;

    while (*at) {
        part *p = *at;

        if (p->n_read > 0)
            keep -= p->n;
        if (keep >= 0 || !is_old_locked(s, p, is_short)) {
            at = &p->next;
            continue;
        }
        *at = p->next;
        p->next = gone;
        gone = p;
    }
    return gone;
}

static void parts_free(part *list)
{
    for (part *next; list; list = next) {
        next = list->next;
        part_free(list);
    }
}

/* Puts the part into the source's list. false: another part is in its place. *old: parts to free, linked by `next`. */
static bool insert_locked(url_source *s, part *p, part **old)
{
    *old = NULL;
    if (find_locked(s, p->at) || next_begin_locked(s, p->at, p->at + p->n) != p->at + p->n)
        return false;
    p->stamp = s->passed_bytes;
    *old = s->whole ? NULL : remove_old_locked(s);
    p->next = s->parts;
    s->parts = p;
    return true;
}

/* Makes a part of [at, at + n) and sends its request; another thread may have been faster, then *out is that thread's
 * part. *out has a reference; NULL: the place was taken meanwhile in another way, look again. */
static hr_status fetch(url_source *s, int64_t at, int64_t n, part **out, hr_error *err)
{
    part *p, *other, *old;
    hr_status st;

    *out = NULL;
    HR_TRY(part_with_request(s, at, n, &p, err));
    p->refs = 3; /* the source, the request, the caller */
    parts_lock();
    if (!insert_locked(s, p, &old)) {
        if ((other = find_locked(s, at)))
            other->refs++;
        parts_unlock();
        part_free(p);
        *out = other;
        return HR_OK;
    }
    parts_unlock();
    parts_free(old);
    st = hr__http_begin(&p->request, err);
    if (st) {
        parts_lock();
        p->state = FAILED;
        p->request.st = st;
        (void)hr_error_set(&p->request.err, st, "%s", err ? err->text : "");
        hr__cond_broadcast(&parts.changed);
        (void)remove_locked(s, p);
        p->refs--; /* the request's */
        p = drop_locked(p);
        parts_unlock();
        part_free(p);
        return st;
    }
    *out = p;
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------------ cache */

/* Makes a part of at most n bytes at `at` from the cache; NULL: the cache does not have them. *out has a reference. */
static hr_status take_cached(url_source *s, int64_t at, int64_t n, part **out, hr_error *err)
{
    int64_t begin, n_range;
    part *p, *old;
    bool found;

    *out = NULL;
    parts_lock();
    found = hr__cached_range(s->cache, at, &begin, &n_range);
    parts_unlock();
    if (!found)
        return HR_OK;
    n = HR_MIN(n, begin + n_range - at);
    HR_TRY(part_new(s, at, n, &p, err));
    if (!hr__cached_read(s->cache, begin, n_range, at, n, p->bytes->data)) {
        parts_lock();
        hr__cached_drop(s->cache, begin, n_range);
        parts_unlock();
        part_free(p);
        return HR_OK;
    }
    hr__network_count(s->account, HR_TRAFFIC_CACHED, n);
    p->state = READY;
    p->came_ns = hr__clock_ns();
    p->is_cached = p->from_cache = true;
    p->refs = 2; /* the source, the caller */
    parts_lock();
    if (!insert_locked(s, p, &old))
        p->refs = 1; /* another thread was faster: this part is the caller's alone */
    parts_unlock();
    parts_free(old);
    *out = p;
    return HR_OK;
}

/* Puts a part that has come into the cache, once. The caller has a reference. */
static void cache_part(url_source *s, part *p)
{
    bool is_ours;

    parts_lock();
    is_ours = s->cache && !p->is_cached;
    p->is_cached = true;
    parts_unlock();
    if (!is_ours || !hr__cached_write(s->cache, p->at, p->n, p->bytes->data))
        return;
    parts_lock();
    hr__cached_add(s->cache, p->at, p->n);
    parts_unlock();
}

/* ------------------------------------------------------------------------------------------------------------ ahead */

/* Adds the part to the wait, if it is on its way. */
static void wait_for(url_source *s, part *p, hr_wait *w)
{
    parts_lock();
    if (p->state == FETCHING && !is_lost(p) &&
        hr__grow(NULL, (void **)&p->waits, &p->cap_waits, p->n_waits + 1, sizeof *p->waits))
        p->waits[p->n_waits++] = hr__wait_add(w); /* without memory the read waits */
    parts_unlock();
    (void)s;
}

/* How many of n bytes may be requested now. The caller subtracts these from `promised` when a part has them. */
static int64_t granted(const url_source *s, int64_t n, hr_wait *w)
{
    int64_t limit = hr__account_limit(s->account), m = n;
    int64_t used = atomic_fetch_add(&promised, n); /* first: what others made meanwhile is in one of the two */

    used += hr__account_used(s->account);
    if (n > limit / 2 - used)
        m = w ? hr__wait_spend(w, n, limit / 4 * 3 - used) : 0;
    atomic_fetch_sub(&promised, n - m);
    return m;
}

static void url_ahead(hr_source *base, int64_t offset, int64_t n)
{
    url_source *s = (url_source *)base;
    hr_wait *w = hr__wait_current();
    int64_t end = HR_MIN(offset + n, base->n_bytes);

    while (offset < end) {
        part *p, *gone = NULL;
        int64_t stop, cached;

        parts_lock();
        if (s->whole) {
            parts_unlock();
            return;
        }
        p = find_locked(s, offset);
        if (p && is_lost(p)) {
            gone = remove_locked(s, p);
            p = NULL;
        }
        if (p) {
            p->refs++;
            stop = p->at + p->n;
        } else {
            stop = next_begin_locked(s, offset, HR_MIN(end, offset + most_of_part(s)));
        }
        cached = hr__cached_end(s->cache, offset);
        stop = p ? stop : cached > offset ? HR_MIN(stop, cached) : hr__cached_next(s->cache, offset, stop);
        parts_unlock();
        part_free(gone);
        if (!p && cached <= offset) {
            int64_t m = granted(s, stop - offset, w);
            hr_status st = m > 0 ? fetch(s, offset, m, &p, NULL) : HR_OK;

            atomic_fetch_sub(&promised, m);
            if (m <= 0)
                hr__ahead_refused(end - offset);
            if (m <= 0 || st)
                return; /* the read finds the error again */
            stop = offset + m;
        }
        if (p) {
            if (w)
                wait_for(s, p, w);
            parts_lock();
            gone = drop_locked(p);
            parts_unlock();
            part_free(gone);
        }
        offset = stop;
    }
}

static bool url_has(hr_source *base, int64_t offset, int64_t n)
{
    url_source *s = (url_source *)base;
    int64_t end = HR_MIN(offset + n, base->n_bytes);
    bool moves = true;

    parts_lock();
    while (moves && offset < end) {
        const part *p = find_locked(s, offset);
        int64_t next = p && p->state == READY ? p->at + p->n : p ? offset : hr__cached_end(s->cache, offset);

        moves = next > offset;
        offset = next;
    }
    parts_unlock();
    return offset >= end;
}

/* ------------------------------------------------------------------------------------------------------------- read */

/* Bytes of the part that a read of n bytes at `at` makes. */
static int64_t part_size_locked(const url_source *s, int64_t at, int64_t n)
{
    const part *before = at > 0 ? find_locked(s, at - 1) : NULL;
    int64_t most = HR_MAX(LEAST_BYTES, HR_MIN(MOST_BYTES, hr__account_limit(s->account) / 64));

    n = HR_MAX(n, before ? HR_MIN(most, before->n * 2) : LEAST_BYTES);
    return next_begin_locked(s, at, HR_MIN(at + HR_MIN(PART_BYTES, n), s->base.n_bytes)) - at;
}

static hr_status too_large(const url_source *s, hr_error *err)
{
    return hr_error_set(err, HR_UNSUPPORTED,
                        "%s: the server answers a request for a range with the whole object, whose %lld bytes are more "
                        "than a quarter of the memory limit",
                        s->base.name, (long long)s->base.n_bytes);
}

/* The part with the byte at `at`, with a reference; it may be on its way. */
static hr_status part_for(url_source *s, int64_t at, int64_t n, part **out, hr_error *err)
{
    for (*out = NULL; !*out;) {
        part *p, *gone = NULL;
        int64_t begin = at, wanted = n;
        bool whole;

        parts_lock();
        whole = s->whole;
        p = find_locked(s, at);
        if (p && is_lost(p)) {
            gone = remove_locked(s, p);
            p = NULL;
        }
        if (p)
            p->refs++;
        else if (whole)
            begin = 0, n = s->base.n_bytes;
        else
            s->passed_bytes += HR_MAX(0, (n = part_size_locked(s, at, n)) - wanted);
        parts_unlock();
        part_free(gone);
        if (!p && s->cache && !whole)
            HR_TRY(take_cached(s, at, n, &p, err));
        if (p)
            *out = p;
        else if (whole && n > hr__account_limit(s->account) / 4)
            return too_large(s, err);
        else
            HR_TRY(fetch(s, begin, n, out, err));
    }
    return HR_OK;
}

/* After a read of n bytes. -> parts to free, linked by `next`. */
static part *count_read_locked(url_source *s, part *p, int64_t at, int64_t n)
{
    part *gone = NULL, *oldest = p, *q;

    p->n_read += n;
    p->end_read = p->end_read || at + n == p->at + p->n;
    p->stamp = s->passed_bytes += n;
    if (s->whole || p->read_up || !is_read_up(p))
        return NULL;
    for (q = s->parts; q && q != p; q = q->next)
        ;
    if (!q)
        return NULL; /* it left the list already */
    if (p->n > HR_MIN(KEEP_PART, most_of_part(s) / 8))
        return remove_old_locked(s);
    p->read_up = true;
    s->kept_bytes += p->n;
    if (s->kept_bytes > HR_MIN(KEEP_BYTES, hr__account_limit(s->account) / PART_SHARE)) {
        for (q = s->parts; q; q = q->next)
            if (q->read_up)
                oldest = q; /* new parts come first */
        gone = remove_locked(s, oldest);
    }
    return gone;
}

/* The part failed: the next read tries again. *again: this read does, for the whole object. */
static hr_status failed(url_source *s, part *p, bool *again, hr_error *err)
{
    part *gone;
    hr_status st;

    *again = false;
    parts_lock();
    st = p->request.st;
    if (st == HR_UNSUPPORTED && p->request.answer.status == 200 && !(p->at == 0 && p->n == s->base.n_bytes)) {
        s->whole = *again = true;
    } else {
        (void)hr__error_copy(err, &p->request.err);
    }
    gone = remove_locked(s, p);
    parts_unlock();
    part_free(gone);
    return *again ? HR_OK : st;
}

/* Forgets parts that are not the whole object. */
static void forget_parts(url_source *s)
{
    part *list = NULL, *p, *gone;

    parts_lock();
    while ((p = s->parts)) {
        p->refs++;
        gone = remove_locked(s, p);
        (void)gone; /* NULL: the reference above */
        p->next = list;
        list = p;
    }
    parts_unlock();
    while ((p = list)) {
        list = p->next;
        p->next = NULL;
        if (p->request.url && p->pid == hr__pid())
            hr__http_cancel(&p->request);
        parts_lock();
        p = drop_locked(p);
        parts_unlock();
        part_free(p);
    }
}

/* Whether a header of two answers differs, where both have it. The first answer's is kept. */
static bool differs_locked(char *first, size_t size, const char *now)
{
    if (!first[0])
        snprintf(first, size, "%s", now);
    return now[0] && strcmp(first, now) != 0;
}

/* Of an object without an ETag: whether the answer is of another version than the first one, or than the listing. */
static bool is_other_version(url_source *s, const hr_http_answer *a)
{
    int64_t listed = s->base.mtime_ns;
    bool other;

    parts_lock();
    other = differs_locked(s->modified, sizeof s->modified, a->modified);
    other = differs_locked(s->weak, sizeof s->weak, a->weak) || other;
    parts_unlock();
    if (!other && !s->kind && listed && a->modified[0]) /* lists of stores write times in another way */
        other = hr__version_of(a->modified) != listed && hr__version_of(a->weak) != listed;
    return other;
}

/* The object has the size and the version of the listing, as far as the answer tells. first: the part is new. */
static hr_status check_version(url_source *s, const part *p, bool first, hr_error *err)
{
    const hr_http_answer *a = &p->request.answer;

    if (a->total >= 0 && a->total != s->base.n_bytes)
        return hr_error_set(
            err, HR_BAD_DATA,
            "%s: the object was replaced while it was read: it has %lld bytes now, %lld when it was listed",
            s->base.name, (long long)a->total, (long long)s->base.n_bytes);
    if (first && !s->tag && is_other_version(s, a))
        return hr_error_set(err, HR_BAD_DATA, "%s: the object was replaced while it was read: %s is %s now",
                            s->base.name, a->modified[0] ? "Last-Modified" : "its weak ETag",
                            a->modified[0] ? a->modified : a->weak);
    return HR_OK;
}

/* Once, after the file's last bytes have come: a store without ETags has sent parts of one version. */
static hr_status verify(url_source *s, const part *p, hr_error *err)
{
    bool needed;

    if (!s->kind || !s->kind->verify || p->at + p->n < s->base.n_bytes)
        return HR_OK;
    parts_lock();
    needed = !s->verified;
    s->verified = true;
    parts_unlock();
    return needed ? s->kind->verify(s->store, s->base.name, s->base.mtime_ns, err) : HR_OK;
}

/* Waits until the part has come or failed, or the caller has to stop. */
static void await(const part *p)
{
    bool here, stopped = false;

    parts_lock();
    here = p->state != FETCHING;
    parts_unlock();
    if (here)
        return;
    hr__waits_begin();
    parts_lock();
    while (p->state == FETCHING && !stopped) {
        if (hr__cond_wait_ns(&parts.changed, &parts.lock, HR_LOOK_NS))
            continue;
        parts_unlock();
        stopped = hr__reads_stop();
        parts_lock();
    }
    parts_unlock();
    hr__waits_end();
}

/* Some bytes at `at`, at least one of n. *n_read 0: try again. */
static hr_status read_part(url_source *s, uint8_t *out, int64_t at, int64_t n, int64_t *n_read, hr_error *err)
{
    part *p, *gone = NULL, *last;
    hr_status st = HR_OK;
    bool again = false, ready, first, stopped;

    *n_read = 0;
    HR_TRY(part_for(s, at, n, &p, err));
    await(p);
    parts_lock();
    ready = p->state == READY;
    first = p->n_read == 0;
    stopped = p->state == FETCHING;
    parts_unlock();
    if (stopped) {
        st = hr_error_set(err, HR_CANCELLED, "%s: the run was stopped", s->base.name);
    } else if (!ready) {
        st = failed(s, p, &again, err);
    } else if (!(st = check_version(s, p, first, err)) && !(st = verify(s, p, err))) {
        *n_read = HR_MIN(n, p->at + p->n - at);
        memcpy(out, p->bytes->data + (at - p->at), (size_t)*n_read);
        cache_part(s, p);
    }
    parts_lock();
    if (*n_read)
        gone = count_read_locked(s, p, at, *n_read);
    last = drop_locked(p);
    parts_unlock();
    parts_free(gone);
    part_free(last);
    if (again)
        forget_parts(s);
    return st;
}

static hr_status url_read_at(hr_source *base, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err)
{
    int64_t got;

    for (*n_read = 0; *n_read < n; *n_read += got)
        HR_TRY(read_part((url_source *)base, (uint8_t *)out + *n_read, offset + *n_read, n - *n_read, &got, err));
    return HR_OK;
}

static void url_close(hr_source *base)
{
    url_source *s = (url_source *)base;

    forget_parts(s);
    hr__free(s->url);
    hr__free(s->tag);
    hr__store_unref(s->store);
    hr__cached_free(s->cache);
}

/* Whether another source gets this part: a copy if it is small, else the part's bytes, and this source has them no
 * longer. */
static bool is_given_locked(const url_source *s, const part *p)
{
    return p->state == READY && !s->whole && (p->n <= KEEP_PART || p->refs == 1);
}

/* The bytes of a part for another source. false: no memory. */
static bool give_bytes(const part *p, hr_account *account, hr_buffer **out)
{
    hr_mem mem = { account, NULL };

    if (p->n > KEEP_PART)
        *out = hr__buffer_ref(p->bytes);
    else if (hr__buffer_copy(&mem, p->bytes->data, p->n, out, NULL))
        return false;
    return true;
}

/* What came for nobody's account counts for the one that gets it. */
static void count_given(part *p, hr_account *account)
{
    bool counts;

    parts_lock();
    counts = account && !p->is_counted;
    p->is_counted = p->is_counted || account;
    parts_unlock();
    if (!counts)
        return;
    if (!p->from_cache)
        hr__network_give(account, HR_TRAFFIC_REQUESTS, 1, p->came_ns);
    hr__network_give(account, p->from_cache ? HR_TRAFFIC_CACHED : HR_TRAFFIC_BYTES, p->n, p->came_ns);
}

/* For another source over the same object: copies of the small parts that were read up, and the bytes of larger ones,
 * which the head of a text file is that was read for its types. */
static part *hand_over(url_source *s, hr_account *account)
{
    part *held[16], *list = NULL;
    int n = 0;

    parts_lock();
    for (part *p = s->parts; p && n < HR_LEN(held); p = p->next)
        if (is_given_locked(s, p)) {
            held[n++] = p;
            p->refs++;
        }
    for (int i = 0; i < n; i++)
        if (held[i]->n > KEEP_PART)
            (void)remove_locked(s, held[i]); /* NULL: the reference above */
    parts_unlock();
    for (int i = 0; i < n; i++) {
        part *p = hr__zalloc(account, sizeof *p), *gone;

        if (p && give_bytes(held[i], account, &p->bytes)) {
            if (p->bytes == held[i]->bytes)
                count_given(held[i], account);
            p->refs = 1;
            p->state = READY;
            p->at = held[i]->at;
            p->n = held[i]->n;
            p->came_ns = held[i]->came_ns;
            p->is_cached = held[i]->is_cached;
            p->is_counted = held[i]->is_counted;
            p->from_cache = held[i]->from_cache;
            p->request.answer = held[i]->request.answer;
            p->next = list;
            list = p;
        } else {
            part_free(p);
        }
        parts_lock();
        gone = drop_locked(held[i]);
        parts_unlock();
        part_free(gone);
    }
    return list;
}

static void url_take(hr_source *base, hr_source *from)
{
    url_source *s = (url_source *)base;
    part *list = hand_over((url_source *)from, s->account), *next, *old;

    for (part *p = list; p; p = next) {
        bool ours;

        next = p->next;
        p->next = NULL;
        parts_lock();
        ours = insert_locked(s, p, &old);
        parts_unlock();
        parts_free(old);
        if (!ours)
            part_free(p); /* a part is in its place */
    }
}

static hr_source *url_again(hr_source *base, hr_account *account);
/* Each request requires the ETag. */
static bool url_add_version(const hr_source *base, hr_hash *h)
{
    const url_source *s = (const url_source *)base;

    hr__hash_text(h, s->url);
    hr__hash_text(h, s->tag);
    hr__hash_int(h, base->n_bytes);
    return s->tag && s->tag[0];
}

static const hr_source_class url_class = { url_read_at, url_ahead, url_close, url_again,
                                           GAP_BYTES,   url_has,   url_take,  url_add_version };

static hr_source *url_again(hr_source *base, hr_account *account)
{
    const url_source *s = (const url_source *)base;
    hr_source *out;
    url_source *to;

    if (hr__source_new(&url_class, sizeof *to, base->name, base->n_bytes, account, &out, NULL))
        return NULL;
    to = (url_source *)out;
    out->mtime_ns = base->mtime_ns;
    to->account = account;
    to->store = hr__store_ref(s->store);
    to->url = hr__strdup(account, s->url);
    to->tag = hr__strdup(account, s->tag);
    to->kind = s->kind;
    to->is_signed = s->is_signed;
    if (!to->url || (s->tag && !to->tag)) {
        hr__source_unref(out);
        return NULL;
    }
    to->cache = hr__cached_open(s->store, s->url, s->tag, base->n_bytes, account);
    to->whole = s->whole;
    url_take(out, base);
    return out;
}

hr_status hr__url_source_open(const hr_path *listed, hr_store *store, hr_account *account, hr_source **out,
                              hr_error *err)
{
    char *shown = hr__url_shown(listed->path, account);
    url_source *s = NULL;
    hr_status st = HR_OK;

    *out = NULL;
    if (!shown)
        return hr__error_memory(err, "a URL", (int64_t)strlen(listed->path));
    HR_GO(hr__source_new(&url_class, sizeof *s, shown, listed->n_bytes, account, out, err));
    s = (url_source *)*out;
    (*out)->mtime_ns = listed->mtime_ns;
    s->account = account;
    s->store = hr__store_ref(store);
    s->tag = hr__strdup(account, listed->tag);
    s->kind = hr__kind_of(listed->path);
    s->is_signed = s->kind && s->kind->signs(store, listed->path);
    s->url = hr__store_address(store, listed->path, false, "", account);
    if (!s->url || (listed->tag && !s->tag))
        HR_GO(hr__error_memory(err, shown, (int64_t)strlen(listed->path)));
    s->cache = hr__cached_open(store, s->url, s->tag, listed->n_bytes, account);
done:
    if (st) {
        hr__source_unref(*out);
        *out = NULL;
    }
    hr__free(shown);
    return st;
}
