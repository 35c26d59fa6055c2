/* http_request.c - one request from its first attempt to its end: what answers mean, and what is sent again.
 *
 * 1. Sent again, after a pause: what broke on the way, and the answers 408, 429, 500, 502, 503 and 504, and 400
 *    RequestTimeout. The pause doubles from PAUSE_MS on, its half is random, and the server's Retry-After counts if
 *    it is longer. A host has a bucket of retries: RETRY_COST tokens for each (THROTTLE_COST after a throttle), so
 *    that a host that fails everything is not asked for ever. A success gives one back, and time one every REFILL_NS:
 *    a host that recovers is trusted again before it has answered.
 * 2. A body that broke off goes on where it ended, if the object has an ETag, which If-Match then requires. Without an
 *    ETag it begins again.
 * 3. The number of bytes is checked against the range. 412, another ETag and another size are one error: the object was
 *    replaced. It is not sent again.
 * 4. Redirects are followed here and not by libcurl: what signs a request for one host never goes to another, and
 *    https never becomes http.
 *
 * Tests: test_http.c. */
#include "io/http/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <time.h>

#define PAUSE_MS 100
#define PAUSE_THROTTLED_MS 500
#define MAX_PAUSE_MS 10000
#define MAX_ASKED_S 300 /* of Retry-After */
#define MAX_REDIRECTS 5
#define RETRY_TOKENS 500
#define RETRY_COST 14
#define THROTTLE_COST 5
#define REFILL_NS (20 * 1000000)
#define SKEW_S 60
#define RESERVED_BYTES (INT64_C(64) << 20) /* for a body, because its server says that it has so many */
#define WORDS_BYTES 600                    /* of a refusal's body, that go into the error */

/* ---------------------------------------------------------------------------------------------------- answer's head */

static bool is_header(const char *line, size_t n, const char *name, const char **value)
{
    size_t m = strlen(name);

    if (n <= m || strncasecmp(line, name, m) || line[m] != ':')
        return false;
    for (*value = line + m + 1; **value == ' ' || **value == '\t';)
        (*value)++;
    return true;
}

/* The value without the line's end; "" if it does not fit. */
static void keep_value(char *out, size_t cap, const char *value, const char *end)
{
    size_t n;

    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    n = (size_t)(end - value);
    out[0] = 0;
    if (n < cap) {
        memcpy(out, value, n);
        out[n] = 0;
    }
}

/* W/"" or "": of rclone, for objects of which it has no hash. */
static bool is_empty_tag(const char *value)
{
    value += strncmp(value, "W/", 2) == 0 ? 2 : 0;
    return value[0] == '"' && value[1] == '"';
}

/* "bytes 0-99/1000" */
static void read_range(hr_http_answer *a, const char *value)
{
    long long begin, end, total;

    a->begin = -1;
    if (sscanf(value, "bytes %lld-%lld/%lld", &begin, &end, &total) == 3) {
        a->begin = begin;
        a->total = total;
    } else if (sscanf(value, "bytes */%lld", &total) == 1) {
        a->total = total;
    }
}

/* "Fri, 24 May 2013 00:00:00 GMT" */
static int64_t read_date(const char *value)
{
    struct tm tm = { 0 };
    const char *end = strptime(value, "%a, %d %b %Y %H:%M:%S", &tm);

    return end ? (int64_t)timegm(&tm) : 0;
}

void hr__http_header(hr_http_request *r, const char *line, size_t n)
{
    hr_http_answer *a = &r->answer;
    char text[512];
    const char *value, *end;

    if (n >= sizeof text)
        return; /* none of ours is as long */
    memcpy(text, line, n);
    text[n] = 0;
    end = text + n;
    if (strncmp(text, "HTTP/", 5) == 0) {
        const char *space = strchr(text, ' ');

        *a = (hr_http_answer){ .status = space ? atoi(space) : 0, .total = -1, .begin = -1, .wait_s = -1 };
        a->has_range = a->status == 206;
    } else if (is_header(text, n, "content-length", &value)) {
        if (!a->has_range && a->total < 0)
            a->total = strtoll(value, NULL, 10);
    } else if (is_header(text, n, "content-range", &value)) {
        read_range(a, value);
    } else if (is_header(text, n, "etag", &value)) {
        bool is_weak = strncmp(value, "W/", 2) == 0;

        if (!is_empty_tag(value))
            keep_value(is_weak ? a->weak : a->etag, HR_ETAG_BYTES, value, end);
    } else if (is_header(text, n, "last-modified", &value)) {
        keep_value(a->modified, sizeof a->modified, value, end);
    } else if (is_header(text, n, "x-amz-bucket-region", &value)) {
        keep_value(a->region, sizeof a->region, value, end);
    } else if (is_header(text, n, "x-ms-error-code", &value)) {
        keep_value(a->code, sizeof a->code, value, end);
    } else if (is_header(text, n, "x-goog-generation", &value)) {
        keep_value(a->generation, sizeof a->generation, value, end);
    } else if (is_header(text, n, "x-ms-meta-headrace", &value)) {
        keep_value(a->mark, sizeof a->mark, value, end);
    } else if (is_header(text, n, "x-ms-meta-hdi_isfolder", &value)) {
        a->is_folder = strncasecmp(value, "true", 4) == 0;
    } else if (is_header(text, n, "date", &value)) {
        a->date_s = read_date(value);
    } else if (is_header(text, n, "retry-after", &value)) {
        if (isdigit((unsigned char)*value))
            a->wait_s = strtod(value, NULL);
        else
            a->until_s = read_date(value);
    }
}

/* ------------------------------------------------------------------------------------------------------------- body */

static bool is_ranged(const hr_http_request *r) { return r->n_bytes > 0; }

/* The range is in the query: 200 is an answer with the range alone. */
static bool asks_by_query(const hr_http_request *r) { return is_ranged(r) && r->kind && r->kind->add_range_query; }

/* The attempt goes to a server that takes no body, and says where it goes. */
bool hr__http_holds_back(const hr_http_request *r)
{
    return r->kind && r->kind->sends_abroad && !r->target && strcmp(r->method, "GET") != 0;
}

/* Each attempt begins at the server that redirects. */
static bool starts_over(const hr_http_request *r) { return asks_by_query(r) || (r->kind && r->kind->sends_abroad); }

/* The next bytes of the answer are those that were asked for: of the range, or of a whole object that is the range. */
static bool fits_range(hr_http_request *r)
{
    hr_http_answer *a = &r->answer;

    if (a->status == 200 && a->begin < 0 && r->offset == 0 && r->n_got == 0 && a->total == r->n_bytes)
        a->begin = 0;
    if (a->status == 200 && a->begin < 0 && r->n_got == 0 && asks_by_query(r))
        a->begin = r->offset;
    return a->begin == r->offset + r->n_got;
}

bool hr__http_bytes(hr_http_request *r, const char *data, size_t n)
{
    int64_t limit = r->max_body > 0 ? r->max_body : 1 << 20;
    bool ok = r->answer.status >= 200 && r->answer.status < 300;

    if (ok && is_ranged(r)) {
        if (!fits_range(r))
            return false;
        if ((int64_t)n > r->n_bytes - r->n_got) {
            r->overrun = true;
            return false;
        }
        memcpy(r->out + r->n_got, data, n);
        r->answer.begin += (int64_t)n;
        r->n_got += (int64_t)n;
        return true;
    }
    if (!ok) {
        n = HR_MIN(n, (size_t)HR_MAX(0, WORDS_BYTES - r->body.n));
        limit = WORDS_BYTES;
    }
    if (r->body.n + (int64_t)n > limit) {
        r->overrun = true;
        return false;
    }
    if (ok && r->body.n == 0 && r->answer.total > (int64_t)n) /* or it would be copied as it grows */
        hr__text_reserve(&r->body, HR_MIN(r->answer.total, HR_MIN(limit, RESERVED_BYTES)));
    hr__text_add_bytes(&r->body, data, (int64_t)n);
    return !r->body.failed;
}

/* ----------------------------------------------------------------------------------------------------------- errors */

/* Adds the text of JSON that begins at `at`, to its quote or the body's end; an escaped byte stands for itself. */
static void add_json_text(const char *at, hr_text *out)
{
    for (int n = 0; n < 300 && *at && *at != '"'; n++, at++) {
        if (at[0] == '\\' && at[1] == 'n')
            return; /* the first line is enough */
        at += at[0] == '\\' && at[1];
        hr__text_add_bytes(out, at, 1);
    }
}

/* "exception" and "message" of HDFS; the rest of the body, which may be cut off, does not matter. -> their number */
static int add_remote_exception(const char *body, hr_text *out)
{
    static const char *const names[] = { "\"exception\":\"", "\"message\":\"" };
    int found = 0;

    for (int i = 0; i < HR_LEN(names) && strncmp(body, "{\"RemoteException\"", 18) == 0; i++) {
        const char *at = strstr(body, names[i]);

        if (!at)
            continue;
        hr__text_add(out, "%s", found++ ? ": " : ", ");
        add_json_text(at + strlen(names[i]), out);
    }
    return found;
}

/* The store's own words: <Code> and <Message> of XML, else the first line of a text that is no page. */
static void add_words(const hr_http_request *r, hr_text *out)
{
    static const char *const tags[] = { "Code", "Message" };
    const char *body = r->body.data ? r->body.data : "";
    int found = add_remote_exception(body, out);

    for (int i = 0; i < HR_LEN(tags); i++) {
        char open[16];
        const char *begin, *end;

        snprintf(open, sizeof open, "<%s>", tags[i]);
        begin = strstr(body, open);
        end = begin ? strchr(begin + strlen(open), '<') : NULL;
        if (!end)
            continue;
        begin += strlen(open);
        hr__text_add(out, "%s%.*s", found++ ? ": " : ", ", (int)HR_MIN(end - begin, (ptrdiff_t)strcspn(begin, "\r\n")),
                     begin);
    }
    if (!found && r->answer.code[0]) {
        hr__text_add(out, ", %s", r->answer.code);
        return;
    }
    if (!found && body[0] && body[0] != '<' && body[0] != '{')
        hr__text_add(out, ", %.*s", (int)HR_MIN(strcspn(body, "\r\n"), 200), body);
}

bool hr__http_says(const hr_http_request *r, const char *code)
{
    return strcmp(r->answer.code, code) == 0 || (r->body.data && strstr(r->body.data, code));
}

static hr_status status_of(int status) { return status == 404 || status == 410 ? HR_NOT_FOUND : HR_IO; }

static const char *meaning(const hr_http_request *r)
{
    int status = r->answer.status;

    if (hr__http_says(r, "BlobAlreadyExists"))
        status = 412;
    else if (status == 404 && hr__http_says(r, "NoSuchBucket"))
        return "no such bucket";
    else if (status == 404 && hr__http_says(r, "ContainerNotFound"))
        return "no such container";
    switch (status) {
    case 401: return "no valid credentials";
    case 403: return "access denied";
    case 404:
    case 410: return "no such object";
    case 407: return "the proxy asks for credentials";
    case 409: return "another writer is at work on it";
    case 412: return "it exists already";
    case 416: return "the range lies beyond the object's end";
    default: return "the server refused";
    }
}

static void add_proxy(const hr_http_request *r, hr_text *out)
{
    const char *proxy = hr__url_proxy(r->target ? r->target : r->url, r->store);
    char *shown = proxy ? hr__url_shown(proxy, NULL) : NULL;

    if (shown)
        hr__text_add(out, ", %s", shown);
    hr__free(shown);
}

static const char *retries(const hr_http_request *r) { return r->n_retries == 1 ? "retry" : "retries"; }

/* "URL: access denied (HTTP 403), AccessDenied: ..." */
static hr_status refused(hr_http_request *r)
{
    char *name = hr__url_shown(r->name ? r->name : r->url, NULL);
    hr_text words = { 0 };
    hr_status st = status_of(r->answer.status);
    const char *what = r->kind && r->kind->meaning ? r->kind->meaning(r, &st) : NULL;

    if (!what)
        what = meaning(r);
    add_words(r, &words);
    if (r->answer.status == 407)
        add_proxy(r, &words);
    if (r->n_retries)
        hr__text_add(&words, " (%d %s)", r->n_retries, retries(r));
    r->st = hr_error_set(&r->err, st, "%s: %s (HTTP %d)%s", name ? name : "a URL", what, r->answer.status,
                         words.data && !words.failed ? words.data : "");
    hr__text_clear(&words);
    hr__free(name);
    return r->st;
}

static hr_http_next fails(hr_http_request *r, hr_status st, const char *what)
{
    char *name = hr__url_shown(r->name ? r->name : r->url, NULL);

    r->st = r->n_retries
                ? hr_error_set(&r->err, st, "%s: %s (%d %s)", name ? name : "a URL", what, r->n_retries, retries(r))
                : hr_error_set(&r->err, st, "%s: %s", name ? name : "a URL", what);
    hr__free(name);
    return HR_HTTP_DONE;
}

/* --------------------------------------------------------------------------------------------------------- attempts */

/* S3 answers 400 to a request that it waited for too long, on a connection that hung. */
static bool is_passing(const hr_http_request *r)
{
    int status = r->answer.status;

    if (r->kind && r->kind->passes && r->kind->passes(r))
        return true;
    if (status == 400)
        return r->body.data && strstr(r->body.data, "<Code>RequestTimeout</Code>");
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

static void give_tokens(hr_http_host *h, int n)
{
    int spent = atomic_load(&h->tokens_spent);

    while (spent > 0 && !atomic_compare_exchange_weak(&h->tokens_spent, &spent, HR_MAX(spent - n, 0)))
        ;
}

/* Gives back what time has given since the last call. */
static void refill(hr_http_host *h)
{
    int64_t now = hr__clock_ns(), last = atomic_load(&h->refilled_ns), n = (now - last) / REFILL_NS;

    if (n > 0 && atomic_compare_exchange_strong(&h->refilled_ns, &last, now))
        give_tokens(h, (int)HR_MIN(n, RETRY_TOKENS));
}

static bool take_tokens(const hr_http_request *r)
{
    bool throttled = r->answer.status == 429 || r->answer.status == 503;
    int cost = throttled ? THROTTLE_COST : RETRY_COST;

    refill(r->host);
    if (atomic_fetch_add(&r->host->tokens_spent, cost) + cost <= RETRY_TOKENS)
        return true;
    atomic_fetch_sub(&r->host->tokens_spent, cost);
    return false;
}

/* The seconds that the server asks to wait; < 0: it does not. A time is one of the server's clock. */
static double asked_pause(const hr_http_answer *a)
{
    if (a->wait_s >= 0 || !a->until_s)
        return a->wait_s;
    return (double)HR_MAX(0, a->until_s - (a->date_s ? a->date_s : (int64_t)time(NULL)));
}

/* When the next attempt is due: not before the server says, and not at once even if it says so. */
static void set_pause(hr_http_request *r)
{
    double asked = asked_pause(&r->answer);
    bool throttled = (r->answer.status == 429 || r->answer.status == 503) && asked < 0;
    int64_t now = hr__clock_ns(), ms = throttled ? PAUSE_THROTTLED_MS : PAUSE_MS;
    uint64_t dice = (uint64_t)now * 0x9e3779b97f4a7c15u;

    ms = HR_MIN(ms << HR_MIN(r->n_retries - 1, 10), MAX_PAUSE_MS);
    ms = ms / 2 + (int64_t)(dice >> 40) % (ms / 2 + 1);
    if (asked >= 0)
        ms = HR_MAX(ms, (int64_t)(HR_MIN(asked, MAX_ASKED_S) * 1000));
    r->due_ns = now + ms * 1000000;
}

static hr_http_next again(hr_http_request *r, const char *wrong)
{
    if (r->n_retries >= r->store->max_retries || !take_tokens(r))
        return wrong ? fails(r, HR_IO, wrong) : (refused(r), HR_HTTP_DONE);
    r->n_retries++;
    hr__host_count(r, HR_TRAFFIC_RETRIES, 1);
    set_pause(r);
    hr__host_count(r, HR_TRAFFIC_WASTED, r->body.n + (r->if_match ? 0 : r->n_got));
    if (!r->if_match)
        r->n_got = 0; /* nothing proves that the rest is of the same object */
    hr__text_clear(&r->body);
    if (starts_over(r)) { /* the NameNode may send us to another DataNode */
        hr__free(r->target);
        r->target = NULL;
        r->foreign = false;
        r->n_redirects = 0;
    }
    return HR_HTTP_AGAIN;
}

static hr_http_next redirected(hr_http_request *r, const char *location)
{
    const char *from = r->target ? r->target : r->url;
    char *to;

    if (++r->n_redirects > MAX_REDIRECTS)
        return fails(r, HR_IO, "more than 5 redirects follow each other");
    if (strncasecmp(from, "https:", 6) == 0 && strncasecmp(location, "https:", 6) != 0)
        return fails(r, HR_IO, "the server redirects from https to an address without encryption");
    if (strncasecmp(location, "https:", 6) != 0 && strncasecmp(location, "http:", 5) != 0)
        return fails(r, HR_IO, "the server redirects to what is neither http nor https");
    if (!(to = hr__strdup(NULL, location)))
        return fails(r, HR_NO_MEMORY, "no memory for a redirect");
    r->foreign = r->foreign || !hr__url_same_host(from, to);
    hr__free(r->target);
    r->target = to;
    r->due_ns = hr__clock_ns();
    hr__text_clear(&r->body);
    return HR_HTTP_AGAIN;
}

static hr_http_next replaced(hr_http_request *r)
{
    return fails(r, HR_BAD_DATA, "the object was replaced while it was read: it has another ETag now");
}

/* Some stores say 200 before they know that they cannot answer: then the body is an error. */
static bool is_error_of_a_list(const hr_http_request *r)
{
    const char *at = r->body.data;

    if (!r->is_list || !at)
        return false;
    at += strspn(at, " \t\r\n");
    if (strncmp(at, "<?xml", 5) == 0 && (at = strstr(at, "?>")))
        at += 2 + strspn(at + 2, " \t\r\n");
    return at && strncmp(at, "<Error>", 7) == 0;
}

/* The answer came whole: is it what was asked for? */
static hr_http_next accept(hr_http_request *r)
{
    const hr_http_answer *a = &r->answer;
    hr_status st = HR_IO;
    const char *wrong = r->kind && r->kind->wrong ? r->kind->wrong(r, &st) : NULL;

    if (wrong)
        return fails(r, st, wrong);
    if (r->if_match && a->etag[0] && strcmp(a->etag, r->if_match) != 0)
        return replaced(r);
    if (asks_by_query(r) && a->total >= 0 && a->total < r->n_bytes && r->n_got == a->total)
        return fails(r, HR_BAD_DATA, "the file was replaced while it was read: it is shorter now");
    if (is_error_of_a_list(r))
        return again(r, NULL);
    if (asks_by_query(r))
        r->answer.total = -1; /* of the range, and not of the file */
    else if (is_ranged(r) && a->status == 200 && r->n_got < r->n_bytes)
        return fails(r, HR_UNSUPPORTED, "the server answers a request for a range with the whole object");
    if (is_ranged(r) && r->n_got < r->n_bytes)
        return again(r, "the server sends fewer bytes than it promised");
    give_tokens(r->host, 1);
    r->st = HR_OK;
    return HR_HTTP_DONE;
}

/* Stores refuse requests of a clock that is wrong, and say what the time is. Once. */
static bool learns_clock(hr_http_request *r)
{
    int64_t ahead = r->answer.date_s - (int64_t)time(NULL);

    if (!r->is_signed || r->learnt_clock || r->answer.status != 403 || !r->answer.date_s ||
        !hr__http_says(r, r->kind->skewed) || llabs(ahead - atomic_load(&r->store->ahead_s)) < SKEW_S)
        return false;
    r->learnt_clock = true;
    atomic_store(&r->store->ahead_s, ahead);
    return true;
}

/* The store does not know the credentials, or no longer. S3 answers 400 to HEAD, without words. */
static bool refuses_credentials(const hr_http_request *r)
{
    static const char *const codes[] = { "<Code>ExpiredToken", "<Code>TokenRefreshRequired</Code>",
                                         "<Code>InvalidAccessKeyId</Code>", "<Code>InvalidToken</Code>" };
    int status = r->answer.status;

    if (status == 401 || (status == 400 && strcmp(r->method, "HEAD") == 0))
        return true;
    for (int i = 0; i < HR_LEN(codes) && r->body.data; i++)
        if ((status == 400 || status == 403) && strstr(r->body.data, codes[i]))
            return true;
    return false;
}

/* They ended sooner than they said, or were exchanged: the next attempt has others. Once. */
static bool renews(hr_http_request *r)
{
    if (!r->who || r->renewed || !refuses_credentials(r))
        return false;
    r->renewed = true;
    return hr__identity_refused(r->kind->identity(r->store, r->name), r->who);
}

static hr_http_next overrun(hr_http_request *r)
{
    char what[64];

    if (is_ranged(r) || !r->max_body)
        return fails(r, HR_BAD_DATA, "the server sends more bytes than it was asked for");
    snprintf(what, sizeof what, "it has more than %lld bytes", (long long)r->max_body);
    return fails(r, HR_BAD_DATA, what);
}

hr_http_next hr__http_settle(hr_http_request *r, const char *wrong, bool may_retry, const char *location)
{
    int status = r->answer.status;

    if (atomic_load_explicit(&r->cancelled, memory_order_relaxed))
        return fails(r, HR_CANCELLED, "the request was cancelled");
    if (r->body.failed)
        return fails(r, HR_NO_MEMORY, "no memory for the answer");
    if (r->is_private)
        return fails(r, HR_INVALID, "its address is a private one; allow_private=True reads it");
    if (r->overrun)
        return overrun(r);
    if (status == 412 && !hr__http_writes(r))
        return replaced(r);
    if (status >= 300 && status < 400 && location)
        return redirected(r, location);
    if (learns_clock(r) || renews(r))
        return again(r, NULL);
    if (status >= 300)
        return is_passing(r) ? again(r, NULL) : (refused(r), HR_HTTP_DONE);
    if (is_ranged(r) && status == 206 && r->answer.begin != r->offset + r->n_got)
        return fails(r, HR_BAD_DATA, "the server sends another range than it was asked for");
    if (is_ranged(r) && !asks_by_query(r) && status == 200 && r->n_got < r->n_bytes)
        return accept(r); /* the attempt was stopped on purpose */
    if (wrong)
        return may_retry ? again(r, wrong) : fails(r, HR_IO, wrong);
    return accept(r);
}

/* ---------------------------------------------------------------------------------------------------------- request */

hr_status hr__http_init(hr_http_request *r, const char *method, char *takes_url, hr_store *store, hr_error *err)
{
    const char *wrong;

    *r = (hr_http_request){ .method = method, .url = takes_url };
    if (!takes_url)
        return hr__error_memory(err, "a URL", 1);
    wrong = store->filesystem ? NULL : hr__address_wrong(takes_url); /* Python's files have paths */
    if (!wrong && store->allow_http == HR_SWITCH_OFF && strncasecmp(takes_url, "http:", 5) == 0)
        wrong = "storage_options: allow_http is false, and the address is one of http";
    if (wrong) {
        (void)hr_error_set(err, HR_INVALID, "%s", wrong);
        r->st = hr__url_error(err, HR_INVALID, takes_url);
        hr__free(takes_url);
        r->url = NULL;
        return HR_INVALID;
    }
    r->store = hr__store_ref(store);
    return HR_OK;
}

void hr__http_clear(hr_http_request *r)
{
    hr__free(r->url);
    hr__free(r->name);
    hr__free(r->if_match);
    hr__free(r->target);
    hr__text_clear(&r->body);
    hr_error_clear(&r->err);
    hr__credentials_unref(r->who);
    hr__store_unref(r->store);
    *r = (hr_http_request){ 0 };
}
