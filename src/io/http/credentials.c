/* credentials.c - identities: they keep credentials, and fetch others before the present ones end.
 *
 * 1. A fetch is one at a time for an identity: in the thread that waits for the first credentials, or in a thread of
 *    its own, which begins when an attempt finds that the credentials end in less than EARLY_S seconds (a session in
 *    less than SESSION_EARLY_S, or half of its length). Who asks for a session waits for the credentials of its base.
 * 2. Credentials serve until LATE_S seconds before their end, since the request travels and clocks differ.
 * 3. After a fetch that failed the next one begins PAUSE_S seconds later. Until then attempts use what is left of the
 *    credentials; when nothing is left they fail with the words of the fetch.
 * 4. A fork leaves a fetch to the parent: the child begins its own.
 *
 * Lock: `lock` is a leaf, for all identities. It survives a fork.
 *
 * Tests: test_credentials.c, test_credentials.py. */
#include "io/http/credentials.h"

#include "io/http/http.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EARLY_S 300
#define SESSION_EARLY_S 60
#define LATE_S 15
#define PAUSE_S 10

struct hr_identity {
    atomic_int refs;
    hr_fetch fetch;    /* NULL: the credentials are fixed */
    const char *kind;  /* static; processes share them in this folder: ... */
    char *folder;      /* ... NULL: they do not */
    hr_identity *base; /* a reference; NULL: this is no session */
    char *with[HR_IDENTITY_TEXTS];
    hr_identity *next; /* of the process's identities */
    /* What follows is guarded by `lock`. */
    hr_credentials *now;
    hr_credentials *refused; /* by the store; NULL: none */
    int64_t early_s;         /* the next ones are fetched when `now` ends in less */
    int fetching;            /* the process that fetches; 0: none */
    int owner;               /* the process of `thread`; 0: there is no thread to join */
    hr_thread thread;
    int64_t pause_ns; /* no fetch before; 0: none has failed */
    hr_error failed;
};

static hr_mutex lock = HR_MUTEX_INIT;
static hr_cond fetched;
static hr_identity *identities;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void)
{
    hr__mutex_survives_fork(&lock);
    hr__cond_init(&fetched);
}

/* ------------------------------------------------------------------------------------------------------ credentials */

hr_status hr__credentials_new(hr_credentials **out, hr_error *err)
{
    *out = hr__zalloc(NULL, sizeof **out);
    if (!*out)
        return hr__error_memory(err, "credentials", sizeof **out);
    atomic_init(&(*out)->refs, 1);
    return HR_OK;
}

static hr_credentials *credentials_ref(hr_credentials *c)
{
    if (c)
        atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

void hr__secret_free(char *text)
{
    for (volatile char *p = text; p && *p;)
        *p++ = 0;
    hr__free(text);
}

void hr__credentials_unref(hr_credentials *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr__secret_free(c->id);
    hr__secret_free(c->secret);
    hr__secret_free(c->token);
    hr__credentials_unref(c->by);
    hr__free(c);
}

/* Seconds that these credentials still serve. */
static int64_t left_s(const hr_credentials *c)
{
    if (!c)
        return 0;
    return c->until_s ? c->until_s - LATE_S - (int64_t)time(NULL) : INT64_MAX;
}

/* ------------------------------------------------------------------------------------------------------- identities */

static hr_identity *identity_ref(hr_identity *i)
{
    if (i)
        atomic_fetch_add_explicit(&i->refs, 1, memory_order_relaxed);
    return i;
}

void hr__identity_unref(hr_identity *i)
{
    if (!i || atomic_fetch_sub_explicit(&i->refs, 1, memory_order_acq_rel) != 1)
        return;
    hr__credentials_unref(i->now);
    hr__credentials_unref(i->refused);
    hr__free(i->folder);
    hr__identity_unref(i->base);
    hr_error_clear(&i->failed);
    for (int k = 0; k < HR_IDENTITY_TEXTS; k++)
        hr__secret_free(i->with[k]);
    hr__free(i);
}

static bool same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* The same, or both with the same keys, which do not end. */
static bool same_base(const hr_identity *a, const hr_identity *b)
{
    if (a == b || !a || !b || a->fetch || b->fetch)
        return a == b;
    return same(a->now->id, b->now->id) && same(a->now->secret, b->now->secret) && same(a->now->token, b->now->token);
}

static bool is_it(const hr_identity *i, const hr_identity *base, hr_fetch fetch, const char *const *with, int n)
{
    bool ok = i->fetch == fetch && same_base(i->base, base);

    for (int k = 0; ok && k < n; k++)
        ok = same(i->with[k], with[k]);
    return ok;
}

static hr_status identity_new(hr_fetch fetch, const char *const *with, int n, hr_identity **out, hr_error *err)
{
    hr_identity *i = hr__zalloc(NULL, sizeof *i);
    hr_status st = HR_OK;

    if (!i)
        return hr__error_memory(err, "credentials", sizeof *i);
    atomic_init(&i->refs, 1);
    i->fetch = fetch;
    i->early_s = EARLY_S;
    i->failed = (hr_error)HR_ERROR_INIT;
    for (int k = 0; k < n; k++)
        if (with[k] && !(i->with[k] = hr__strdup(NULL, with[k])))
            st = hr__error_memory(err, "credentials", (int64_t)strlen(with[k]));
    if (st) {
        hr__identity_unref(i);
        i = NULL;
    }
    *out = i;
    return st;
}

hr_status hr__check_line(const char *name, const char *text, hr_error *err)
{
    for (const char *p = text; p && *p; p++)
        if ((unsigned char)*p < ' ' || *p == 0x7f)
            return hr_error_set(err, HR_INVALID, "%s has a %s", name,
                                *p != '\n' && *p != '\r' ? "control character"
                                : p[strspn(p, "\r\n")]   ? "line break"
                                                         : "line break at its end");
    return HR_OK;
}

static hr_status check_lines(const hr_credentials *c, hr_error *err)
{
    HR_TRY(hr__check_line("credentials: the access key id", c->id, err));
    HR_TRY(hr__check_line("credentials: the secret", c->secret, err));
    return hr__check_line("credentials: the token", c->token, err);
}

hr_status hr__identity_fixed(hr_credentials *c, hr_identity **out, hr_error *err)
{
    pthread_once(&once, init);
    *out = NULL;
    HR_TRY(check_lines(c, err));
    HR_TRY(identity_new(NULL, NULL, 0, out, err));
    (*out)->now = credentials_ref(c);
    return HR_OK;
}

hr_status hr__identity_of_token(const char *token, hr_identity **out, hr_error *err)
{
    hr_credentials *c = NULL;
    hr_status st;

    HR_TRY(hr__credentials_new(&c, err));
    c->token = hr__strdup(NULL, token);
    st = c->token ? hr__identity_fixed(c, out, err) : hr__error_memory(err, "credentials", (int64_t)strlen(token));
    hr__credentials_unref(c);
    return st;
}

hr_status hr__identity_by(hr_identity *base, hr_fetch fetch, const char *const *with, int n, hr_identity **out,
                          hr_error *err)
{
    hr_status st = HR_OK;
    hr_identity *i;

    pthread_once(&once, init);
    hr__lock(&lock);
    for (i = identities; i && !is_it(i, base, fetch, with, n); i = i->next)
        ;
    if (!i) {
        st = identity_new(fetch, with, n, &i, err);
        if (!st) {
            i->base = identity_ref(base);
            i->next = identities;
            identities = i;
        }
    }
    *out = identity_ref(i);
    hr__unlock(&lock);
    return st;
}

hr_status hr__identity_shared(const char *kind, hr_fetch fetch, const char *const *with, int n, hr_identity **out,
                              hr_error *err)
{
    HR_TRY(hr__identity_by(NULL, fetch, with, n, out, err));
    hr__lock(&lock);
    if (!(*out)->kind) {
        (*out)->kind = kind;
        (*out)->folder = hr__shared_folder();
    }
    hr__unlock(&lock);
    return HR_OK;
}

hr_status hr__identity_of(hr_fetch fetch, const char *const *with, int n, hr_identity **out, hr_error *err)
{
    return hr__identity_by(NULL, fetch, with, n, out, err);
}

void hr__identities_forget(void)
{
    pthread_once(&once, init);
    for (;;) {
        hr_identity *i;
        bool joins;

        hr__lock(&lock);
        if ((i = identities))
            identities = i->next;
        joins = i && i->owner == hr__pid();
        hr__unlock(&lock);
        if (!i)
            return;
        if (joins)
            hr__thread_join(i->thread);
        hr__identity_unref(i);
    }
}

/* -------------------------------------------------------------------------------------------------------- fetching */

static bool is_fetching(const hr_identity *i) { return i->fetching == hr__pid(); }

/* Waits for the credentials of the base, and calls the function. */
static hr_status call_fetch(const hr_identity *i, hr_credentials *c, hr_error *err)
{
    if (i->base) {
        HR_TRY(hr__identity_wait(i->base, err));
        HR_TRY(hr__identity_now(i->base, &c->by, err));
        if (!c->by)
            return hr_error_set(err, HR_IO, "credentials: those that ask for a session have ended");
    }
    return i->fetch((const char *const *)i->with, c, err);
}

/* Whether the store refused these. */
static bool was_refused(hr_identity *i, const hr_credentials *c)
{
    bool is;

    hr__lock(&lock);
    is = i->refused && same(i->refused->id, c->id) && same(i->refused->token, c->token);
    hr__unlock(&lock);
    return is;
}

/* Takes what another process has fetched, or fetches for all of them. */
static hr_status share_fetch(hr_identity *i, hr_credentials *c, hr_error *err)
{
    hr_shared s = hr__shared_begin(i->folder, i->kind, (const char *const *)i->with, HR_IDENTITY_TEXTS);
    hr_credentials *found = NULL;
    hr_status st = hr__credentials_new(&found, err);

    if (!st && hr__shared_take(&s, found) && left_s(found) > EARLY_S && !was_refused(i, found)) {
        c->id = found->id;
        c->secret = found->secret;
        c->token = found->token;
        c->until_s = found->until_s;
        found->id = found->secret = found->token = NULL;
    } else if (!st) {
        st = call_fetch(i, c, err);
        if (!st)
            hr__shared_leave(&s, c);
    }
    hr__credentials_unref(found);
    hr__shared_end(&s);
    return st;
}

/* Without the lock. The identity is marked as fetching. */
static hr_status fetch(hr_identity *i, hr_error *err)
{
    hr_credentials *c = NULL;
    hr_status st = hr__credentials_new(&c, err);

    if (!st)
        st = i->folder ? share_fetch(i, c, err) : call_fetch(i, c, err);
    if (!st)
        st = check_lines(c, err);
    if (c) {
        hr__credentials_unref(c->by);
        c->by = NULL;
    }
    hr__lock(&lock);
    i->fetching = 0;
    hr_error_clear(&i->failed);
    i->pause_ns = 0;
    if (!st) {
        hr_credentials *old = i->now;

        i->now = c;
        i->early_s = i->base ? HR_MIN(SESSION_EARLY_S, left_s(c) / 2) : EARLY_S;
        c = old;
    } else if (st != HR_CANCELLED) {
        i->pause_ns = hr__clock_ns() + (int64_t)PAUSE_S * 1000000000;
        hr__error_copy(&i->failed, err);
    }
    hr__cond_broadcast(&fetched);
    hr__unlock(&lock);
    hr__credentials_unref(c);
    return st;
}

static void fetch_beside(void *context)
{
    hr_identity *i = context;
    hr_error err = HR_ERROR_INIT;
    hr_status st = fetch(i, &err);

    if (st)
        hr__log(HR_LOG_WARNING, "credentials could not be fetched again: %s", err.text);
    hr_error_clear(&err);
}

/* Begins a thread that fetches, unless one does. Holds the lock; gives it up while an ended thread is joined. */
static hr_status begin_locked(hr_identity *i, hr_error *err)
{
    int rc;

    if (is_fetching(i) || hr__clock_ns() < i->pause_ns)
        return HR_OK;
    i->fetching = hr__pid();
    if (i->owner == hr__pid()) {
        hr_thread ended = i->thread;

        i->owner = 0;
        hr__unlock(&lock);
        hr__thread_join(ended); /* it has no more to do than to return */
        hr__lock(&lock);
    }
    rc = hr__thread_start(&i->thread, "hr-credentials", fetch_beside, i);
    if (rc < 0) {
        i->fetching = 0;
        return hr__error_os(err, rc, "credentials", "start a thread");
    }
    i->owner = hr__pid();
    return HR_OK;
}

hr_status hr__identity_wait(hr_identity *i, hr_error *err)
{
    hr_status st = HR_OK;

    hr__lock(&lock);
    while (left_s(i->now) <= 0 && i->fetch && !st) {
        bool theirs = is_fetching(i);

        if (theirs) {
            hr__waits_begin();
            hr__cond_wait_ns(&fetched, &lock, HR_LOOK_NS);
            hr__waits_end();
        } else
            i->fetching = hr__pid();
        hr__unlock(&lock);
        if (!theirs)
            st = fetch(i, err);
        else if (hr__reads_stop())
            st = hr_error_set(err, HR_CANCELLED, "credentials: the wait for them was cancelled");
        hr__lock(&lock);
        if (!st && !theirs)
            break; /* new ones, whatever the clock says */
    }
    hr__unlock(&lock);
    return st;
}

hr_status hr__identity_now(hr_identity *i, hr_credentials **out, hr_error *err)
{
    hr_status st = HR_OK;
    int64_t left;

    *out = NULL;
    hr__lock(&lock);
    left = left_s(i->now);
    if (left < i->early_s && i->fetch)
        st = begin_locked(i, err);
    if (left > 0 || !i->fetch) {
        *out = credentials_ref(i->now);
        st = HR_OK;
    } else if (!st && !is_fetching(i)) {
        st = hr__error_copy(err, &i->failed);
    }
    hr__unlock(&lock);
    return st;
}

bool hr__identity_refused(hr_identity *i, const hr_credentials *c)
{
    bool is_now;

    if (!i || !i->fetch)
        return false;
    hr__lock(&lock);
    is_now = i->now == c;
    if (is_now) {
        hr__credentials_unref(i->refused);
        i->refused = i->now;
        i->now = NULL;
    }
    hr__unlock(&lock);
    return true;
}

/* ----------------------------------------------------------------------------------------- what functions share */

int64_t hr__time_of(const char *text)
{
    struct tm tm = { 0 };
    const char *end = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;
    int hours = 0, minutes = 0;

    if (!end)
        return 0;
    if (*end == '.')
        for (end++; *end >= '0' && *end <= '9';)
            end++;
    if ((*end == '+' || *end == '-') && sscanf(end + 1, "%2d:%2d", &hours, &minutes) == 2)
        minutes = (hours * 60 + minutes) * (*end == '-' ? -1 : 1);
    return (int64_t)timegm(&tm) - (int64_t)minutes * 60;
}

#define MAX_FILE_BYTES (1 << 20)

hr_status hr__text_of_file(const char *path, char **out, hr_error *err)
{
    char *text = hr__alloc(NULL, MAX_FILE_BYTES + 1);
    int fd = text ? hr__file_open(path) : -1;
    int64_t n = fd >= 0 ? hr__file_read_at(fd, text, MAX_FILE_BYTES, 0) : fd;

    *out = NULL;
    if (fd >= 0)
        hr__file_close(fd);
    if (!text)
        return hr__error_memory(err, path, MAX_FILE_BYTES);
    if (n < 0) {
        hr__secret_free(text);
        return hr__error_os(err, (int)n, path, "read");
    }
    while (n > 0 && strchr(" \t\r\n", text[n - 1]))
        n--;
    text[n] = 0;
    *out = text;
    return HR_OK;
}

hr_status hr__ask_service(const hr_question *q, hr_text *answer, hr_error *err)
{
    char wait[40], silence[40], retries[40];
    const char *const options[] = { wait, silence, retries };
    hr_http_request r = { 0 };
    hr_store *store = NULL;
    hr_status st = HR_OK;

    *answer = (hr_text){ 0 };
    snprintf(wait, sizeof wait, "connect_timeout=%d", q->wait_s);
    snprintf(silence, sizeof silence, "timeout=%d", q->wait_s);
    snprintf(retries, sizeof retries, "max_retries=%d", q->max_retries);
    HR_GO(hr__store_new(options, HR_LEN(options), NULL, &store, err));
    HR_GO(hr__set_text(&store->proxy, q->proxy, err));
    HR_GO(hr__set_text(&store->proxy_excludes, q->proxy_excludes, err));
    HR_GO(hr__http_init(&r, q->form ? "POST" : q->method, hr__strdup(NULL, q->url), store, err));
    r.name = hr__strdup(NULL, q->what);
    r.more = q->more;
    r.data = (const uint8_t *)q->form;
    r.n_data = q->form ? (int64_t)strlen(q->form) : 0;
    st = hr__http_run(&r, err);
    if (!st) {
        *answer = r.body;
        r.body = (hr_text){ 0 };
    }
done:
    hr__http_clear(&r);
    hr__store_unref(store);
    return st;
}

void hr__form_add(hr_text *form, const char *name, const char *value)
{
    hr__text_add(form, "%s%s=", form->n ? "&" : "", name);
    hr__url_add_encoded(form, value, false);
}

static hr_status lacks(const char *what, const char *name, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: its answer has no '%s'", what, name);
}

/* Seconds or milliseconds since 1970, or a time as text. */
static int64_t until_of(const char *text)
{
    char *end;
    long long n = strtoll(text, &end, 10);

    if (*end && *end != '.')
        return hr__time_of(text);
    return n > INT64_C(100000000000) ? n / 1000 : n;
}

hr_status hr__credentials_of_json(const char *what, const char *json, int64_t n, const hr_member_names *names,
                                  hr_credentials *out, hr_error *err)
{
    char *until = names->until ? hr__json_text(json, n, names->until) : NULL;
    char *seconds = names->expires_in ? hr__json_text(json, n, names->expires_in) : NULL;

    out->id = names->id ? hr__json_text(json, n, names->id) : NULL;
    out->secret = names->secret ? hr__json_text(json, n, names->secret) : NULL;
    out->token = names->token ? hr__json_text(json, n, names->token) : NULL;
    if (until)
        out->until_s = until_of(until);
    if (seconds)
        out->until_s = (int64_t)time(NULL) + strtoll(seconds, NULL, 10);
    hr__free(until);
    hr__free(seconds);
    if (names->id && !out->id)
        return lacks(what, names->id, err);
    if (names->secret && !out->secret)
        return lacks(what, names->secret, err);
    return !names->id && !out->token ? lacks(what, names->token, err) : HR_OK;
}
