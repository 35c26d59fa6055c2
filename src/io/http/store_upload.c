/* store_upload.c - files that are written to a store, part by part, while the writer goes on.
 *
 * 1. A file is an upload of several parts, even a tiny one: it is not visible until store_commit.c completes it.
 * 2. A part begins to travel as soon as it is full. The first one asks for the upload's id before; parts wait for it.
 *    The only file of its uploads asks when it begins, so that a refusal comes at once.
 *    Parts have part_bytes, and twice as many after each 1,000 parts, so that 10,000 are enough for any object.
 *    A part is pieces of memory: buffers of writers are shared, small writes are collected.
 * 3. All parts of a job that are not sent yet have at most most_bytes together (a share of the memory limit, and at
 *    least one part): the writer waits for room. Their bytes are charged to the job's account. An operator's writer
 *    runs on a thread of the pool and never waits: the scheduler gives it no chunk while there is no room for one.
 * 4. A part that is sent again replaces itself. A request for an id that is sent again can leave an upload without
 *    parts, as a killed job does; see store_commit.c.
 * 5. Where the store gives no ids to uploads (Azure), the id is ours, and names the parts; a file without bytes has no
 *    part. In a store of files (HDFS) the id is the key of the hidden file that the parts become.
 *
 * Tests: test_s3_write.py, test_store_write.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PART_BYTES (8 << 20)
#define LEAST_PART_BYTES (5 << 20) /* of S3, except the last one */
#define SMALL_LIMIT (256 << 20)
#define MOST_BYTES (256 << 20)
#define PARTS_OF_A_SIZE 1000
#define MAX_PARTS 10000
#define SHARED_BYTES (64 << 10) /* smaller buffers are copied */
#define WAIT_NS 100000000
#define GIVE_UP_NS ((int64_t)3 * 1000000000)

/* A part on its way, or (number 0) the request for an upload's id. */
typedef struct hr_transfer {
    hr_http_request r;
    hr_upload *upload;
    int64_t number;
    hr_http_piece *pieces;
    int64_t n_pieces, n; /* n: their bytes */
    struct hr_transfer *next;
} hr_transfer;

/* ------------------------------------------------------------------------------------------------------------ texts */

char *hr__xml_text(const char *xml, const char *name, const char **end)
{
    static const struct {
        const char *name;
        char c;
    } entities[] = { { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&#34;", '"' } };
    char open[40];
    const char *begin, *stop;
    char *out, *to;

    snprintf(open, sizeof open, "<%s>", name);
    begin = strstr(xml, open);
    stop = begin ? strchr(begin + strlen(open), '<') : NULL;
    if (!stop || !(out = to = hr__alloc(NULL, (size_t)(stop - begin) + 1)))
        return NULL;
    for (const char *p = begin + strlen(open); p < stop;) {
        int i = 0;

        while (i < HR_LEN(entities) && strncmp(p, entities[i].name, strlen(entities[i].name)) != 0)
            i++;
        *to++ = i < HR_LEN(entities) ? entities[i].c : *p;
        p += i < HR_LEN(entities) ? strlen(entities[i].name) : 1;
    }
    *to = 0;
    if (end)
        *end = stop;
    return out;
}

/* -------------------------------------------------------------------------------------------------------- transfers */

static void pieces_free(hr_http_piece *pieces, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        hr__buffer_unref(pieces[i].shared);
        hr__free(pieces[i].own);
    }
    hr__free(pieces);
}

static void transfer_free(hr_transfer *t)
{
    if (!t)
        return;
    hr__http_clear(&t->r);
    pieces_free(t->pieces, t->n_pieces);
    hr__free(t);
}

/* The functions that end in _locked hold job->lock. */
static void look_for_room_locked(hr_uploads *u)
{
    int64_t chunk = HR_MIN(hr__account_limit(u->account) / HR_CHUNK_SHARE, u->most_bytes / 4);
    bool room = u->st || !u->n_flying || u->flying_bytes <= u->most_bytes - chunk;

    if (room && !atomic_exchange(&u->has_room, true))
        hr__budget_wake();
    if (!room)
        atomic_store(&u->has_room, false);
}

bool hr__uploads_have_room(const hr_uploads *u) { return atomic_load(&u->has_room); }
void hr__uploads_never_wait(hr_uploads *u) { u->never_waits = true; }

static void fail_locked(hr_uploads *u, hr_status st, hr_error *from)
{
    if (!u->st) {
        u->st = st;
        hr__error_move(&u->err, from);
    }
    hr_error_clear(from);
    look_for_room_locked(u);
    hr__cond_broadcast(&u->moved);
}

static void land_locked(hr_uploads *u, hr_transfer *t)
{
    hr_transfer **at = &u->flying;

    while (*at != t)
        at = &(*at)->next;
    *at = t->next;
    u->n_flying--;
    u->flying_bytes -= t->n;
    look_for_room_locked(u);
    hr__cond_broadcast(&u->moved);
}

/* Where the part goes; new. NULL: no memory. */
static char *address_of(const hr_transfer *t)
{
    const hr_upload *f = t->upload;
    const hr_upload_kind *k = f->job->kind;
    char *url = k->part_url ? k->part_url(f, t->number) : hr__strdup(NULL, f->url), *out = NULL;
    hr_text query = { 0 };

    k->add_part_query(f->id, t->number, &query);
    if (url && !query.failed)
        out = hr__store_address(f->job->store, url, false, query.data, NULL);
    hr__text_clear(&query);
    hr__free(url);
    return out;
}

/* The part is in `flying` already: its bytes count while it waits for the id. */
static void send_locked(hr_uploads *u, hr_transfer *t)
{
    hr_error err = HR_ERROR_INIT;
    hr_status st = u->st;

    if (!st && t->number) {
        hr__free(t->r.url);
        t->r.url = address_of(t);
        if (!t->r.url)
            st = hr__error_memory(&err, t->upload->url, t->n);
    }
    if (!st)
        st = hr__http_begin(&t->r, &err);
    if (!st)
        return;
    land_locked(u, t);
    if (!u->st)
        fail_locked(u, st, &err);
    hr_error_clear(&err);
    transfer_free(t);
}

/* The id has come, or will never come: all parts that waited for it go. */
static void send_waiting_locked(hr_uploads *u, hr_upload *f)
{
    hr_transfer *list = f->waiting, *t;

    f->waiting = NULL;
    while ((t = list)) {
        list = t->r.context;
        send_locked(u, t);
    }
}

static void on_id(hr_http_request *r);

/* By which the part is named when the file is completed. */
static char *tag_of(const hr_transfer *t)
{
    const hr_upload *f = t->upload;

    return f->job->kind->has_ids ? hr__strdup(NULL, t->r.answer.etag)
                                 : hr__printf(NULL, "%s%08lld", f->id, (long long)t->number);
}

static void on_part(hr_http_request *r)
{
    hr_transfer *t = (hr_transfer *)r; /* its first member */
    hr_upload *f = t->upload;
    hr_uploads *u = f->job;

    hr__lock(&u->lock);
    if (!r->st && u->kind->has_ids && !r->answer.etag[0])
        r->st = hr_error_set(&r->err, HR_BAD_DATA, "%s: the store gives no ETag for a part", f->url);
    if (!r->st && !(f->tags[t->number - 1] = tag_of(t)))
        r->st = hr__error_memory(&r->err, f->url, 64);
    if (r->st)
        fail_locked(u, r->st, &r->err);
    land_locked(u, t);
    transfer_free(t);
    hr__unlock(&u->lock);
}

static hr_status transfer_new(hr_upload *f, const char *method, const char *query, int64_t number, hr_transfer **out,
                              hr_error *err)
{
    hr_uploads *u = f->job;
    hr_transfer *t = hr__zalloc(u->account, sizeof *t);
    hr_status st = t ? HR_OK : hr__error_memory(err, f->url, sizeof *t);

    *out = t;
    if (!st)
        st = hr__store_request(&t->r, method, u->store, f->url, query, u->account, err);
    if (st) {
        hr__free(t);
        return st;
    }
    t->upload = f;
    t->number = number;
    t->r.done = number ? on_part : on_id;
    t->r.context = number ? NULL : t;
    return HR_OK;
}

static void fly_locked(hr_uploads *u, hr_transfer *t)
{
    t->next = u->flying;
    u->flying = t;
    u->n_flying++;
    u->flying_bytes += t->n;
    look_for_room_locked(u);
}

/* The store has refused the request for the id of the only file, and said how to ask: once more. */
static bool ask_again_locked(hr_upload *f, hr_http_request *r)
{
    hr_uploads *u = f->job;
    hr_error none = HR_ERROR_INIT;
    hr_transfer *t;
    hr_status st;

    if (!r->st || u->st || u->what != HR_UPLOADS_FILE || f->learnt || !hr__store_learn(u->store, f->url, r))
        return false;
    f->learnt = true;
    st = transfer_new(f, "POST", "uploads=", 0, &t, &none);
    hr_error_clear(&none);
    if (st)
        return false;
    fly_locked(u, t);
    send_locked(u, t);
    return true;
}

static void on_id(hr_http_request *r)
{
    hr_transfer *t = r->context;
    hr_upload *f = t->upload;
    hr_uploads *u = f->job;

    hr__lock(&u->lock);
    if (!r->st && !(f->id = hr__xml_text(r->body.data ? r->body.data : "", "UploadId", NULL)))
        r->st = hr_error_set(&r->err, HR_BAD_DATA, "%s: the store gives no id for the upload", f->url);
    if (!ask_again_locked(f, r)) {
        if (r->st)
            fail_locked(u, r->st, &r->err);
        send_waiting_locked(u, f);
    }
    land_locked(u, t);
    transfer_free(t);
    hr__unlock(&u->lock);
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

static hr_status failure_locked(hr_uploads *u, hr_error *err)
{
    if (!u->st)
        return HR_OK;
    if (!u->err.text[0])
        return hr_error_set(err, u->st, "%s: the upload failed", u->root);
    return hr__error_copy(err, &u->err);
}

static void wait_locked(hr_uploads *u)
{
    hr__waits_begin();
    (void)hr__cond_wait_ns(&u->moved, &u->lock, WAIT_NS);
    hr__waits_end();
}

/* hr__reads_stop() may wait for a lock of the program, whose holder may end a transfer. */
static bool stops_relocks(hr_uploads *u)
{
    bool stops;

    hr__unlock(&u->lock);
    stops = hr__reads_stop();
    hr__lock(&u->lock);
    return stops;
}

/* Until at most `most` bytes are under way. */
static hr_status drop_to_locked(hr_uploads *u, int64_t most, hr_error *err)
{
    bool stops = false;

    while (!u->st && u->n_flying && u->flying_bytes > most) {
        if (stops)
            return hr_error_set(err, HR_CANCELLED, "the run was stopped");
        wait_locked(u);
        stops = stops_relocks(u);
    }
    return failure_locked(u, err);
}

hr_status hr__uploads_wait(hr_uploads *u, hr_error *err)
{
    hr_status st;

    hr__lock(&u->lock);
    st = drop_to_locked(u, -1, err);
    hr__unlock(&u->lock);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------ parts */

static int64_t bytes_of_part(const hr_uploads *u, int64_t number)
{
    return u->part_bytes << ((number - 1) / PARTS_OF_A_SIZE);
}

int64_t hr__uploads_part_bytes(const hr_uploads *u) { return u->part_bytes; }

int64_t hr__upload_bytes_of(const hr_uploads *u, int64_t n_parts)
{
    int64_t n = 0;

    for (int64_t i = 1; i <= n_parts; i++)
        n += bytes_of_part(u, i);
    return n;
}

static hr_status add_piece(hr_upload *f, hr_http_piece piece, hr_error *err)
{
    if (!hr__grow(f->job->account, (void **)&f->pieces, &f->cap_pieces, f->n_pieces + 1, sizeof *f->pieces))
        return hr__error_memory(err, f->url, (f->n_pieces + 1) * (int64_t)sizeof *f->pieces);
    f->pieces[f->n_pieces++] = piece;
    return HR_OK;
}

/* The bytes that small writes have collected become a piece. */
static hr_status end_piece(hr_upload *f, hr_error *err)
{
    if (!f->n_data)
        return HR_OK;
    HR_TRY(add_piece(f, (hr_http_piece){ f->data, f->n_data, NULL, f->data }, err));
    f->data = NULL;
    f->n_data = f->cap = 0;
    return HR_OK;
}

/* The bytes so far become the next part. */
static hr_status cut(hr_upload *f, hr_transfer **out, hr_error *err)
{
    int64_t number = f->n_parts + 1;
    hr_transfer *t;

    *out = NULL;
    if (number > MAX_PARTS)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: an object of more than %d parts", f->url, MAX_PARTS);
    if (!hr__grow(NULL, (void **)&f->tags, &f->cap_tags, number, sizeof *f->tags))
        return hr__error_memory(err, f->url, 64);
    HR_TRY(end_piece(f, err));
    HR_TRY(transfer_new(f, "PUT", "", number, &t, err));
    f->tags[f->n_parts++] = NULL;
    t->pieces = f->pieces;
    t->n_pieces = f->n_pieces;
    t->n = f->n;
    f->pieces = NULL;
    f->n = f->n_pieces = f->cap_pieces = 0;
    *out = t;
    return HR_OK;
}

/* Takes the part, even on failure. */
static hr_status send(hr_upload *f, hr_transfer *takes, hr_error *err)
{
    hr_uploads *u = f->job;
    hr_transfer *ask = NULL;
    hr_status st = HR_OK;

    takes->r.pieces = takes->pieces;
    takes->r.n_pieces = takes->n_pieces;
    takes->r.n_data = takes->n;
    if (takes->r.is_signed && takes->r.kind->hash)
        HR_GO(takes->r.kind->hash(&takes->r, err)); /* here, and not on the network's thread */
    if (!f->asked)
        HR_GO(transfer_new(f, "POST", "uploads=", 0, &ask, err));
    hr__lock(&u->lock);
    st = u->never_waits ? failure_locked(u, err) : drop_to_locked(u, HR_MAX(0, u->most_bytes - takes->n), err);
    if (!st) {
        fly_locked(u, takes);
        if (f->id) {
            send_locked(u, takes);
        } else {
            takes->r.context = f->waiting;
            f->waiting = takes;
        }
        takes = NULL;
        if (ask) {
            f->asked = true;
            fly_locked(u, ask);
            send_locked(u, ask);
            ask = NULL;
            if (u->st)
                send_waiting_locked(u, f); /* the id will not come */
        }
    }
    hr__unlock(&u->lock);
done:
    transfer_free(ask);
    transfer_free(takes);
    return st;
}

static hr_status end_part(hr_upload *f, hr_error *err)
{
    hr_transfer *t;

    HR_TRY(cut(f, &t, err));
    if (!f->keeps_first || t->number > 1)
        return send(f, t, err);
    f->first = t;
    return HR_OK;
}

/* m more bytes are in the part, which ends when it has `most`. */
static hr_status has_grown(hr_upload *f, int64_t m, int64_t most, hr_error *err)
{
    f->n += m;
    f->n_bytes += m;
    return f->n == most ? end_part(f, err) : HR_OK;
}

hr_status hr__upload_write(hr_upload *f, const void *data, int64_t n, hr_error *err)
{
    const uint8_t *p = data;

    while (n > 0) {
        int64_t most = bytes_of_part(f->job, f->n_parts + 1), m = HR_MIN(n, most - f->n);

        if (!hr__grow(f->job->account, (void **)&f->data, &f->cap, f->n_data + m, 1))
            return hr__error_memory(err, f->url, f->n_data + m);
        memcpy(f->data + f->n_data, p, (size_t)m);
        f->n_data += m;
        p += m;
        n -= m;
        HR_TRY(has_grown(f, m, most, err));
    }
    return HR_OK;
}

hr_status hr__upload_write_buffer(hr_upload *f, hr_buffer *b, hr_error *err)
{
    if (b->n_bytes < SHARED_BYTES || f->keeps_first)
        return hr__upload_write(f, b->data, b->n_bytes, err);
    for (int64_t at = 0; at < b->n_bytes;) {
        int64_t most = bytes_of_part(f->job, f->n_parts + 1), m = HR_MIN(b->n_bytes - at, most - f->n);

        HR_TRY(end_piece(f, err));
        HR_TRY(add_piece(f, (hr_http_piece){ b->data + at, m, b, NULL }, err));
        (void)hr__buffer_ref(b); /* the piece's */
        at += m;
        HR_TRY(has_grown(f, m, most, err));
    }
    return HR_OK;
}

void hr__upload_keep_first(hr_upload *f) { f->keeps_first = true; }

hr_status hr__upload_write_at(hr_upload *f, int64_t at, const void *data, int64_t n, hr_error *err)
{
    uint8_t *bytes = f->first ? f->first->pieces->own : f->data; /* without shared buffers it is one piece */
    int64_t have = f->first ? f->first->n : f->n;

    if (!f->keeps_first || at < 0 || at + n > have)
        return hr_error_set(err, HR_BUG, "%s: a write at %lld, where the bytes have left", f->url, (long long)at);
    memcpy(bytes + at, data, (size_t)n);
    return HR_OK;
}

/* An empty file has a part, too. */
static bool needs_part(const hr_upload_kind *k) { return k->has_ids || k->has_folders; }

hr_status hr__upload_finish(hr_upload *f, hr_error *err)
{
    hr_transfer *first = f->first, *last;

    f->first = NULL;
    f->keeps_first = false;
    if (first)
        HR_TRY(send(f, first, err));
    if (f->n == 0 && (f->n_parts > 0 || !needs_part(f->job->kind)))
        return HR_OK;
    HR_TRY(cut(f, &last, err));
    return send(f, last, err);
}

/* -------------------------------------------------------------------------------------------------------------- job */

/* 16 digits, which nobody else has. NULL: no memory, or no random numbers. */
static char *own_id(void)
{
    uint64_t n;

    return hr__random_secret(&n, sizeof n) ? NULL : hr__printf(NULL, "%016" PRIx64, n);
}

/* Waits for the id of the only file. Who stops the wait leaves the request to stop_all, which aborts what it makes. */
static hr_status ask_at_once(hr_upload *f, hr_error *err)
{
    hr_uploads *u = f->job;
    bool stops = false;
    hr_transfer *t;
    hr_status st;

    HR_TRY(transfer_new(f, "POST", "uploads=", 0, &t, err));
    hr__lock(&u->lock);
    f->asked = true;
    fly_locked(u, t);
    send_locked(u, t);
    while (!u->st && !f->id && !stops) {
        wait_locked(u);
        stops = stops_relocks(u);
    }
    st = failure_locked(u, err);
    if (!st && !f->id)
        st = hr_error_set(err, HR_CANCELLED, "the run was stopped");
    hr__unlock(&u->lock);
    return st;
}

hr_status hr__upload_begin(hr_uploads *u, const char *url, hr_upload **out, hr_error *err)
{
    hr_upload *f;

    *out = NULL;
    if (!hr__grow(u->account, (void **)&u->items, &u->cap, u->n + 1, sizeof(hr_upload *)) ||
        !(f = hr__zalloc(u->account, sizeof *f)))
        return hr__error_memory(err, url, sizeof *f);
    f->job = u;
    f->url = hr__strdup(u->account, url);
    if (!u->kind->has_ids) {
        f->id = u->kind->id_of ? u->kind->id_of(u, url) : own_id();
        f->asked = true;
    }
    if (!f->url || (f->asked && !f->id)) {
        hr__free(f->url);
        hr__free(f->id);
        hr__free(f);
        return hr__error_memory(err, url, (int64_t)strlen(url));
    }
    u->items[u->n++] = f;
    *out = f;
    return u->what == HR_UPLOADS_FILE && u->kind->has_ids ? ask_at_once(f, err) : HR_OK;
}

static void upload_free(hr_upload *f)
{
    for (int64_t i = 0; i < f->n_parts; i++)
        hr__free(f->tags[i]);
    transfer_free(f->first);
    pieces_free(f->pieces, f->n_pieces);
    hr__free(f->tags);
    hr__free(f->data);
    hr__free(f->id);
    hr__free(f->url);
    hr__free(f);
}

static void cancel_locked(hr_uploads *u, bool ids)
{
    for (hr_transfer *t = u->flying; t; t = t->next)
        if (t->number || ids)
            hr__http_cancel(&t->r);
}

/* Nothing of the job is under way any more, when it returns. Ids that are asked for may come: only who knows an upload
 * can abort it. */
static void stop_all(hr_uploads *u)
{
    hr_error err = HR_ERROR_INIT;
    int64_t until;

    hr__lock(&u->lock);
    (void)hr_error_set(&err, HR_CANCELLED, "the write was given up");
    fail_locked(u, HR_CANCELLED, &err);
    cancel_locked(u, false);
    until = hr__clock_ns() + GIVE_UP_NS;
    while (u->n_flying && hr__clock_ns() < until)
        wait_locked(u);
    cancel_locked(u, true);
    while (u->n_flying)
        wait_locked(u);
    hr__unlock(&u->lock);
}

/* Best effort: nobody sees what is left. */
static void abort_all(hr_uploads *u)
{
    hr_http_request *r = hr__zalloc(u->account, ((size_t)u->n + 1) * sizeof *r);
    int n = 0;

    for (int64_t i = 0; r && i < u->n; i++) {
        hr_text query = { 0 };
        hr_error err = HR_ERROR_INIT;

        if (!u->items[i]->id)
            continue;
        hr__text_add(&query, "uploadId=");
        hr__url_add_encoded(&query, u->items[i]->id, false);
        if (!query.failed && !hr__store_request(&r[n], "DELETE", u->store, u->items[i]->url, query.data, NULL, &err))
            n++;
        hr_error_clear(&err);
        hr__text_clear(&query);
    }
    if (n)
        hr__http_run_all(r, n);
    for (int i = 0; i < n; i++)
        hr__http_clear(&r[i]);
    hr__free(r);
}

void hr__uploads_free(hr_uploads *u)
{
    if (!u)
        return;
    stop_all(u);
    if (!u->committed && u->kind && u->kind->has_ids)
        abort_all(u);
    else if (!u->committed && u->kind && u->kind->abort)
        u->kind->abort(u);
    for (int64_t i = 0; i < u->n; i++)
        upload_free(u->items[i]);
    hr_error_clear(&u->err);
    if (u->claim)
        hr__uploads_unclaim(u);
    hr__free(u->items);
    hr__free(u->parts);
    hr__free(u->root);
    hr__free(u->job);
    hr__store_unref(u->store);
    hr__cond_clear(&u->moved);
    hr__mutex_clear(&u->lock);
    hr__free(u);
}

hr_status hr__uploads_new(const char *url, hr_uploads_of what, const char *job, const char *const *options,
                          int n_options, hr_account *account, hr_uploads **out, hr_error *err)
{
    int64_t limit = hr__account_limit(account);
    hr_uploads *u = hr__zalloc(account, sizeof *u);
    hr_status st = HR_OK;

    *out = NULL;
    if (!u)
        return hr__error_memory(err, url, sizeof *u);
    hr__mutex_init(&u->lock);
    hr__cond_init(&u->moved);
    atomic_init(&u->has_room, true);
    u->account = account;
    u->what = what;
    u->kind = hr__kind_of(url)->upload;
    u->most_bytes = HR_MIN(limit / 4, MOST_BYTES);
    u->part_bytes =
        limit < SMALL_LIMIT ? LEAST_PART_BYTES : HR_MAX(PART_BYTES, HR_MIN(u->kind->part_bytes, limit / 16));
    u->root = hr__strdup(account, url);
    u->job = hr__strdup(account, job);
    if (!u->root || !u->job)
        HR_GO(hr__error_memory(err, url, 64));
    hr__url_trim(u->root);
    HR_GO(hr__store_new(options, n_options, account, &u->store, err));
    HR_GO(hr__store_prepare(u->store, u->root, err));
    if (what != HR_UPLOADS_FILE)
        HR_GO(hr__store_recover(u->store, u->root, what == HR_UPLOADS_JOB ? u->job : NULL, account, err));
    if (u->kind->begin)
        HR_GO(u->kind->begin(u, err));
    *out = u;
    u = NULL;
done:
    if (st)
        hr__url_hide(url, err);
    hr__uploads_free(u);
    return st;
}
