/* http_thread.c - the network's thread: begins the attempts of all requests, and ends them.
 *
 * http_attempt.c says what libcurl gets for an attempt, http_multi.c moves the bytes.
 *
 * The first request starts the thread. It belongs to the process: a forked child starts its own and leaves the parent's
 * handles alone, which are lost memory there and no more. Callers put requests into `incoming` and wake the thread;
 * everything else of this file belongs to it.
 *
 * 1. Attempts wait in their host's queues, in the order in which they came, one for small requests and one for large
 *    ones. flow.c says how many of a queue are in flight; the store's max_connections is the limit of a host.
 * 2. HTTP/1.1: one large body on each connection is faster than many on one. Connections are kept by libcurl's cache.
 * 3. Silence ends an attempt, not its length: no byte for store->silence_ms, and no answer to a request that reads for
 *    store->first_byte_ms. A connection that was used before may be dead without a word, since servers and gateways
 *    close idle ones: there the first answer must come sooner, and a silence is one free attempt on a new connection.
 *    An error there, before the first byte, libcurl mends in the same way by itself.
 * 4. Hedges: hedge.c says which requests for ranges are slow. A hedge asks on a new connection for the bytes that are
 *    not there yet, into memory of its own. The first of both that is complete wins; the loser's handle is removed
 *    before the winner's bytes come into the place of the range. A hedge that fails changes nothing.
 * 5. More threads: one core brings about 1 GB/s of TLS. While the multis are busy for BUSY_SHARE of their time, as many
 *    begin beside them, each with a thread and connections of its own: one for CPUS_SHARE CPUs, MOST_MULTIS in all.
 *    With one at a time, on a machine of 16 CPUs, 2 GB had come before there were enough of them. A large GET goes to
 *    the one with the fewest requests. Small requests, and what is sent, stay with the first one, which the network's
 *    thread turns itself. That thread alone knows of limits, retries and hedges, and calls `done`: the others touch of
 *    a request what the callbacks of libcurl touch, until it is removed from its multi.
 *
 * Locks: net.lock is a leaf, for `incoming` and the start of the thread. It survives a fork. Those of a multi are never
 * held while a function of this file runs, but the callbacks of libcurl.
 *
 * Tests: test_http.c. */
#include "io/http/http.h"
#include "io/http/multi/http_multi.h"

#ifdef HR_HAVE_CURL

#include <limits.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_ACTIVE 1024
#define CONNECTIONS_SHARE 4 /* idle connections keep a part of the descriptors that the process may have */
#define MAX_SPARE 16        /* handles without an attempt that are kept */
#define TICK_MS 100         /* how often silence is looked for, and what is slow */
#define USED_MS 5000        /* until the first answer on a connection that was used before */
#define CREDENTIALS_MS 20   /* how often a request looks whether credentials have come */
#define THREADS "HEADRACE_NETWORK_THREADS"
#define MOST_MULTIS 9
#define CPUS_SHARE 2 /* the further multis: at most one for so many CPUs, and one in any case where there are two */
#define BUSY_SHARE 0.7
#define LOAD_MS 20

static struct {
    hr_mutex lock;
    int pid; /* the process of the thread; 0: no thread */
    hr_thread thread;
    bool stop, exits; /* exits: the process ends, and requests stay as they are */
    hr_http_request *incoming, **incoming_end;
    /* The first one is turned by the thread. */
    hr_multi multis[MOST_MULTIS];
    atomic_int n_multis; /* a forked child closes their descriptors */
    /* The thread alone. */
    int n_at_once, most_multis;
    bool is_wrong;          /* what THREADS says */
    int64_t load_ns;        /* when it looked how busy they are */
    int n_bodies;           /* active requests that any multi may have */
    hr_http_request *later; /* that wait for their due_ns */
    atomic_int n_cancelled; /* since the thread looked */
    hr_http_request *active;
    int n_active;
    CURL *spare[MAX_SPARE];
    int n_spare;
} net = { .lock = HR_MUTEX_INIT };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void wake_thread(void) { hr__multi_wake(&net.multis[0]); }

/* Before the process ends, OpenSSL frees what the threads use. */
static void at_exit(void)
{
    if (net.pid != hr__pid())
        return;
    hr__lock(&net.lock);
    net.stop = net.exits = true;
    wake_thread();
    hr__unlock(&net.lock);
    hr__thread_join(net.thread);
}

static void init(void)
{
    hr__mutex_survives_fork(&net.lock);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    atexit(at_exit);
    (void)hr__http_has_certificates();
}

/* --- attempts */

static void put_last(hr_http_request ***end, hr_http_request *r)
{
    r->next = NULL;
    **end = r;
    *end = &r->next;
}

static bool is_body(const hr_http_request *r) { return !r->is_small && strcmp(r->method, "GET") == 0; }

/* Where an attempt goes: the first one of those with the fewest requests. */
static hr_multi *multi_for(const hr_http_request *r)
{
    hr_multi *found = &net.multis[0];

    for (int i = 1; i < net.n_multis && is_body(r); i++)
        if (net.multis[i].n_added < found->n_added)
            found = &net.multis[i];
    return found;
}

/* From here on the attempt is this thread's alone. */
static void leave_multi(hr_http_request *r)
{
    if (r->multi)
        hr__multi_remove(r->multi, r->easy);
    r->multi = NULL;
}

static void drop_easy(hr_http_request *r)
{
    leave_multi(r);
    if (r->easy) {
        curl_easy_reset(r->easy);
        if (net.n_spare < MAX_SPARE)
            net.spare[net.n_spare++] = r->easy;
        else
            curl_easy_cleanup(r->easy);
        hr__account_charge(r->account, -r->buffer_bytes);
    }
    curl_slist_free_all(r->headers);
    r->easy = r->headers = NULL;
}

/* A hedge is in no list: its request leads to it. */
static void leave_active(const hr_http_request *r)
{
    hr_http_request **at = &net.active;

    while (*at != r && !r->hedged)
        at = &(*at)->next;
    if (!r->hedged)
        *at = r->next;
    net.n_active--;
    net.n_bodies -= is_body(r);
    r->host->n_active--;
    hr__lane_of(r)->n_active--;
    atomic_fetch_sub(&r->host->in_flight, 1);
}

static void enter_active(hr_http_request *r)
{
    hr_http_host *h = r->host;
    int n = atomic_fetch_add(&h->in_flight, 1) + 1;

    if (!r->hedged) {
        r->next = net.active;
        net.active = r;
    }
    net.n_active++;
    net.n_bodies += is_body(r);
    h->n_active++;
    hr__lane_of(r)->n_active++;
    if (n > atomic_load(&h->peak))
        atomic_store(&h->peak, n);
    hr__host_count(r, HR_TRAFFIC_REQUESTS, 1);
}

/* Takes the credentials for an attempt. False: they are being fetched, or r->st says why there are none. */
static bool take_credentials(hr_http_request *r)
{
    hr_identity *identity;

    hr__credentials_unref(r->who);
    r->who = NULL;
    identity = r->kind && r->is_signed && !r->foreign ? r->kind->identity(r->store, r->name) : NULL;
    if (!identity)
        return true;
    r->st = hr__identity_now(identity, &r->who, &r->err);
    return !r->st && r->who;
}

/* Only parts of an object can have hedges: they go into memory of the caller's, and asking twice changes nothing. */
static bool may_have_hedge(const hr_http_request *r)
{
    return r->n_bytes > 0 && strcmp(r->method, "GET") == 0 && !r->hedged && r->store->hedges != HR_SWITCH_OFF &&
           !(r->kind && r->kind->add_range_query);
}

/* Hands the attempt to libcurl. On failure it is as before. */
static hr_status send_attempt(hr_http_request *r)
{
    hr_multi *m = multi_for(r);
    hr_status st;

    if (!(r->easy = net.n_spare ? net.spare[--net.n_spare] : curl_easy_init()))
        return hr__error_memory(&r->err, "a request", HR_HTTP_BUFFER);
    r->buffer_bytes = hr__attempt_buffer(r);
    hr__account_charge(r->account, r->buffer_bytes);
    st = hr__attempt_set(r, &r->err);
    if (st) {
        drop_easy(r);
        return st;
    }
    r->begin_ns = hr__clock_ns();
    r->progress_ns = r->begin_ns;
    r->n_wanted = r->n_bytes - r->n_got;
    r->first_ns = 0;
    r->n_attempt = 0;
    r->n_sent = 0;
    r->at_piece = r->in_piece = 0;
    r->answered = false;
    r->on_new = false;
    enter_active(r);
    if (hr__multi_add(m, r->easy)) {
        r->multi = m;
        return HR_OK;
    }
    leave_active(r);
    drop_easy(r);
    return hr__error_memory(&r->err, "a request", HR_HTTP_BUFFER);
}

static void due_at(hr_http_request *r, int64_t due_ns)
{
    r->due_ns = due_ns;
    r->next = net.later;
    net.later = r;
}

static void begin_attempt(hr_http_request *r)
{
    r->answer = (hr_http_answer){ .total = -1, .begin = -1, .wait_s = -1 };
    r->st = HR_OK;
    if (!take_credentials(r) && !r->st) {
        due_at(r, hr__clock_ns() + CREDENTIALS_MS * 1000000);
        return;
    }
    if (!r->st)
        r->st = send_attempt(r);
    if (r->st)
        r->done(r);
    else if (may_have_hedge(r))
        hr__hedge_begun(&r->host->hedge);
}

static void throttled(hr_http_host *h)
{
    int64_t now = hr__clock_ns();

    atomic_fetch_add_explicit(&h->throttled, 1, memory_order_relaxed);
    hr__hedge_throttled(&h->hedge, now);
    for (int i = 0; i < HR_N_LANES; i++)
        hr__flow_throttled(&h->lanes[i].flow, now);
}

/* What has been sent since the last look: it counts as a sign of life, and as what the host takes. */
static void look_at_sent(hr_http_request *r)
{
    curl_off_t n = 0;

    if (r->n_data <= 0 || curl_easy_getinfo(r->easy, CURLINFO_SIZE_UPLOAD_T, &n) != CURLE_OK || n <= r->n_sent)
        return;
    if (!r->is_small)
        hr__flow_add(&hr__lane_of(r)->flow, (double)(n - r->n_sent));
    r->n_sent = n;
    r->progress_ns = hr__clock_ns();
}

static void took(hr_http_request *r)
{
    if (may_have_hedge(r))
        hr__hedge_took(&r->host->hedge, r->n_wanted, hr__clock_ns() - r->begin_ns);
}

/* What the attempt says about the host. -> what to do next */
static hr_http_next judge(hr_http_request *r, const char *wrong, bool may_retry)
{
    char *location = NULL;
    hr_http_next next;

    leave_active(r);
    leave_multi(r);
    look_at_sent(r);
    curl_easy_getinfo(r->easy, CURLINFO_REDIRECT_URL, &location);
    hr__account_io(r->account, HR_IO_NETWORK, r->n_attempt, hr__clock_ns() - r->begin_ns, r->first_ns);
    if (r->answer.status == 429 || r->answer.status == 503)
        throttled(r->host);
    next = hr__http_settle(r, wrong, may_retry, location);
    drop_easy(r); /* after settle: the location is libcurl's */
    return next;
}

/* --- hedges */

/* After its handle has gone. */
static void free_hedge(hr_http_request *hedge)
{
    hedge->hedged->hedge = NULL;
    hedge->url = hedge->name = hedge->if_match = NULL; /* borrowed */
    hr__http_clear(hedge);
    hr__free(hedge);
}

/* The hedge has lost. */
static void drop_hedge(hr_http_request *hedge)
{
    leave_active(hedge);
    drop_easy(hedge);
    hr__host_count(hedge, HR_TRAFFIC_WASTED, hedge->n_attempt);
    free_hedge(hedge);
}

/* The hedge of r is complete, and its handle has gone. */
static void win(hr_http_request *r)
{
    hr_http_request *hedge = r->hedge;
    int64_t at = hedge->offset - r->offset;

    leave_active(r);
    drop_easy(r); /* from here on nobody else writes to r->out */
    took(r);
    if (r->is_small)
        hr__flow_add(&hr__lane_of(r)->flow, 1);
    hr__host_count(r, HR_TRAFFIC_WON, 1);
    hr__host_count(r, HR_TRAFFIC_WASTED, r->n_got - at + r->body.n);
    hr__text_clear(&r->body);
    memcpy(r->out + at, hedge->out, (size_t)hedge->n_bytes);
    r->n_got = r->n_bytes;
    r->answer = hedge->answer;
    r->st = HR_OK;
    free_hedge(hedge);
    r->done(r);
}

static void end_hedge(hr_http_request *hedge, const char *wrong)
{
    if (judge(hedge, wrong, false) == HR_HTTP_DONE && !hedge->st) {
        win(hedge->hedged);
        return;
    }
    hr__host_count(hedge, HR_TRAFFIC_WASTED, hedge->n_attempt);
    free_hedge(hedge);
}

/* A request for the bytes of r that are not there yet; all of them, if nothing proves that they are of the same object.
 * NULL: no memory. */
static hr_http_request *hedge_of(hr_http_request *r)
{
    int64_t at = r->if_match ? r->n_got : 0, n = r->n_bytes - at;
    hr_http_request *hedge;

    if (n <= 0 || hr__account_limit(r->account) / 2 - hr__account_used(r->account) < n)
        return NULL;
    hedge = hr__alloc(r->account, sizeof *hedge + (size_t)n);
    if (!hedge)
        return NULL;
    *hedge = (hr_http_request){ .method = r->method, .url = r->url, .name = r->name, .if_match = r->if_match };
    hedge->store = hr__store_ref(r->store);
    hedge->account = r->account;
    hedge->offset = r->offset + at;
    hedge->n_bytes = n;
    hedge->out = (uint8_t *)(hedge + 1);
    hedge->kind = r->kind;
    hedge->is_signed = r->is_signed;
    hedge->public_only = r->public_only;
    hedge->public_abroad = r->public_abroad;
    hedge->more = r->more;
    hedge->host = r->host;
    hedge->is_small = r->is_small;
    hedge->foreign = r->foreign;
    hedge->n_retries = INT_MAX; /* it is sent once */
    hedge->on_new = true;
    hedge->hedged = r;
    hedge->answer = (hr_http_answer){ .total = -1, .begin = -1, .wait_s = -1 };
    r->hedge = hedge;
    if (!r->target || (hedge->target = hr__strdup(r->account, r->target)))
        return hedge;
    free_hedge(hedge);
    return NULL;
}

static void begin_hedge(hr_http_request *r)
{
    hr_http_request *hedge = hedge_of(r);

    if (!hedge)
        return;
    if (!take_credentials(hedge) || send_attempt(hedge))
        free_hedge(hedge);
    else
        hr__host_count(hedge, HR_TRAFFIC_HEDGES, 1);
}

static void look_for_slow(hr_http_request *r, int64_t now)
{
    if (r->was_hedged || !may_have_hedge(r) || r->host->n_active >= r->store->max_connections ||
        net.n_active >= MAX_ACTIVE ||
        !hr__hedge_take(&r->host->hedge, r->n_wanted, r->n_attempt, now - r->begin_ns, now))
        return;
    r->was_hedged = true;
    begin_hedge(r);
}

/* --- the end of attempts */

static void end_attempt(hr_http_request *r, const char *wrong, bool may_retry)
{
    if (r->hedge)
        drop_hedge(r->hedge);
    if (r->is_small && !wrong)
        hr__flow_add(&hr__lane_of(r)->flow, 1);
    if (judge(r, wrong, may_retry) == HR_HTTP_AGAIN) {
        due_at(r, r->due_ns);
        return;
    }
    if (r->st)
        atomic_fetch_add_explicit(&r->host->failed, 1, memory_order_relaxed);
    else
        took(r);
    r->done(r);
}

/* How long nothing may come. */
static int64_t patience_ns(const hr_http_request *r, bool on_used)
{
    const hr_store *s = r->store;
    int64_t ms = s->silence_ms;

    if (r->answered || hr__http_writes(r))
        return ms * 1000000;
    if (s->first_byte_ms)
        ms = s->first_byte_ms;
    if (on_used && !r->was_silent)
        ms = HR_MIN(ms, HR_MAX(USED_MS, hr__lane_of(r)->flow.latency_ns * 4 / 1000000));
    return ms * 1000000;
}

/* Once more, on a new connection, at no cost. */
static void leave_connection(hr_http_request *r)
{
    if (r->hedge)
        drop_hedge(r->hedge);
    leave_active(r);
    drop_easy(r);
    hr__host_count(r, HR_TRAFFIC_RETRIES, 1);
    r->was_silent = r->on_new = true;
    due_at(r, hr__clock_ns());
}

/* Ends an attempt in which nothing moves, or that nobody wants any more. */
static void look_at(hr_http_request *r, int64_t now)
{
    bool cancelled = atomic_load_explicit(&r->cancelled, memory_order_relaxed), answered = r->answered;
    bool on_used = !answered && hr__multi_reuses(r->multi, r->easy);

    look_at_sent(r);
    if (r->hedge && now - r->hedge->progress_ns > patience_ns(r->hedge, false))
        drop_hedge(r->hedge);
    if (!cancelled && now - r->progress_ns <= patience_ns(r, on_used)) {
        look_for_slow(r, now);
    } else if (!cancelled && on_used && !r->was_silent && !hr__http_writes(r)) {
        leave_connection(r);
    } else {
        leave_multi(r);
        r->answer.status = 0;
        if (!cancelled && r->n_data > 0)
            throttled(r->host); /* it has taken more bodies than it stores in time */
        end_attempt(r, r->answered ? "the server sends nothing for too long" : "the server does not answer in time",
                    true);
    }
}

static void look_at_all(void)
{
    hr_http_request *next;
    int64_t now = hr__clock_ns();

    for (hr_http_request *r = net.active; r; r = next) {
        next = r->next; /* only r and its hedge can end */
        look_at(r, now);
    }
}

/* --- the thread */

/* Ends the attempts that libcurl has done with. False: there was none. */
static bool collect(hr_multi *m)
{
    bool any = false;
    CURLcode code;

    for (CURL *easy; (easy = hr__multi_ended(m, &code)); any = true) {
        hr_http_request *r = NULL;
        const char *wrong;
        char text[300];
        bool may_retry;

        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&r);
        wrong = hr__attempt_wrong(r, (int)code, text, sizeof text, &may_retry);
        if (r->hedged)
            end_hedge(r, wrong);
        else
            end_attempt(r, wrong, may_retry);
    }
    return any;
}

static bool collect_all(void)
{
    bool any = false;

    for (int i = 0; i < net.n_multis; i++)
        any |= collect(&net.multis[i]);
    return any;
}

static void put_into_queue(hr_http_request *r)
{
    r->host = hr__host_of(r);
    r->is_small = HR_MAX(r->n_bytes, r->n_data) <= HR_SMALL_REQUEST;
    put_last(&hr__lane_of(r)->queue_end, r);
}

static void take_incoming(bool *stop)
{
    hr_http_request *list;

    hr__lock(&net.lock);
    list = net.incoming;
    net.incoming = NULL;
    net.incoming_end = &net.incoming;
    *stop = net.stop;
    hr__unlock(&net.lock);
    while (list) {
        hr_http_request *r = list;

        list = list->next;
        put_into_queue(r);
    }
}

/* Ends the requests of the list that nobody wants any more. */
static void drop_cancelled(hr_http_request **list, hr_http_request ***end)
{
    hr_http_request *gone = NULL, *r;

    while ((r = *list)) {
        if (!atomic_load_explicit(&r->cancelled, memory_order_relaxed)) {
            list = &r->next;
            continue;
        }
        *list = r->next;
        r->next = gone;
        gone = r;
    }
    if (end)
        *end = list;
    while ((r = gone)) {
        gone = r->next;
        (void)hr__http_settle(r, NULL, false, NULL);
        r->done(r);
    }
}

static void drop_all_cancelled(void)
{
    hr_http_host *hosts;
    int n = hr__hosts(&hosts);

    drop_cancelled(&net.later, NULL);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < HR_N_LANES; k++)
            drop_cancelled(&hosts[i].lanes[k].queue, &hosts[i].lanes[k].queue_end);
}

/* Moves what is due to the queues. */
static void take_later(void)
{
    int64_t now = hr__clock_ns();

    for (hr_http_request **at = &net.later, *r; (r = *at);) {
        if (r->due_ns > now) {
            at = &r->next;
        } else {
            *at = r->next;
            put_into_queue(r);
        }
    }
}

/* When the next one is due; INT64_MAX: there is none. */
static int64_t next_due(void)
{
    int64_t due = INT64_MAX;

    for (const hr_http_request *r = net.later; r; r = r->next)
        due = HR_MIN(due, r->due_ns);
    return due;
}

static bool may_begin(const hr_http_host *h, const hr_http_lane *l)
{
    return l->queue && l->n_active < l->flow.level && h->n_active < l->queue->store->max_connections &&
           net.n_active < MAX_ACTIVE;
}

static int64_t take(_Atomic int64_t *from)
{
    return atomic_load_explicit(from, memory_order_relaxed) ? atomic_exchange(from, 0) : 0;
}

/* What the callbacks have counted for the flow. Of first bytes that came at once the last one stands for all. */
static void hear_of_bodies(hr_http_lane *l)
{
    int64_t came = take(&l->came), first_ns = take(&l->first_ns);

    if (came)
        hr__flow_add(&l->flow, (double)came);
    if (first_ns)
        hr__flow_first_byte(&l->flow, first_ns);
}

static void begin_of_host(hr_http_host *h)
{
    for (int k = HR_N_LANES - 1; k >= 0; k--) { /* small ones first: others often wait for them */
        hr_http_lane *l = &h->lanes[k];

        while (may_begin(h, l)) {
            hr_http_request *r = l->queue;

            l->queue = r->next;
            if (!l->queue)
                l->queue_end = &l->queue;
            begin_attempt(r);
        }
        hear_of_bodies(l);
        hr__flow_tick(&l->flow, l->queue && l->n_active >= l->flow.level, hr__clock_ns());
        atomic_store_explicit(&h->levels[k], l->flow.level, memory_order_relaxed);
    }
}

/* Begins what is due. -> the time when the next one is due; INT64_MAX: none. */
static int64_t begin_waiting(void)
{
    hr_http_host *hosts;
    int n;

    take_later();
    n = hr__hosts(&hosts); /* a redirect can have led to a new one */
    if (atomic_exchange(&net.n_cancelled, 0)) {
        drop_all_cancelled();
        look_at_all();
    }
    for (int i = 0; i < n; i++)
        begin_of_host(&hosts[i]);
    return next_due();
}

static void cancel_all(hr_http_request *list)
{
    for (; list; list = list->next)
        atomic_store(&list->cancelled, true);
}

static void end_all(void)
{
    hr_http_host *hosts;
    int n = hr__hosts(&hosts);

    while (net.active) {
        atomic_store(&net.active->cancelled, true);
        end_attempt(net.active, NULL, false);
    }
    cancel_all(net.later);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < HR_N_LANES; k++)
            cancel_all(hosts[i].lanes[k].queue);
    drop_all_cancelled();
}

static long most_connections(void)
{
    long n = sysconf(_SC_OPEN_MAX) / CONNECTIONS_SHARE;

    return n > 0 && n < MAX_ACTIVE ? n : MAX_ACTIVE;
}

/* One multi more, with its thread. Where it does not begin, there are as many as there can be. */
static void add_multi(void)
{
    hr_multi *m = &net.multis[net.n_multis];
    int rc = hr__multi_begin(m, most_connections() / 2 / (net.most_multis - 1));

    if (!rc && (rc = hr__multi_start(m, wake_thread)))
        hr__multi_end(m);
    if (rc)
        net.most_multis = net.n_multis;
    else
        net.n_multis++;
}

static void look_at_load(int64_t now)
{
    int64_t ns = (now - net.load_ns) * net.n_multis, busy_ns = 0;
    int n = HR_MIN(net.n_multis * 2, HR_MIN(net.most_multis, net.n_bodies));

    if (now - net.load_ns < LOAD_MS * 1000000)
        return;
    net.load_ns = now;
    for (int i = 0; i < net.n_multis; i++)
        busy_ns += atomic_exchange(&net.multis[i].busy_ns, 0);
    while ((double)busy_ns > (double)ns * BUSY_SHARE && net.n_multis < HR_MIN(n, net.most_multis))
        add_multi();
}

static void net_main(void *arg)
{
    int64_t look_ns = net.load_ns = hr__clock_ns(), due;
    bool stop;

    (void)arg;
    if (net.is_wrong) /* without locks */
        hr__log(HR_LOG_WARNING, THREADS ": expected a number from 1 to %d; their number is found by itself",
                MOST_MULTIS);
    while (net.n_multis < HR_MIN(net.n_at_once, net.most_multis))
        add_multi();
    for (;;) {
        take_incoming(&stop);
        if (stop)
            break;
        do
            due = begin_waiting();
        while (collect_all()); /* an attempt can fail at once, and makes room for another */
        if (net.n_active)
            due = HR_MIN(due, hr__clock_ns() + TICK_MS * 1000000);
        (void)hr__multi_turn(&net.multis[0], due);
        (void)collect_all();
        if (hr__clock_ns() - look_ns >= TICK_MS * 1000000) {
            look_ns = hr__clock_ns();
            look_at_all();
        }
        look_at_load(hr__clock_ns());
    }
    for (int i = 1; i < net.n_multis; i++)
        hr__multi_stop(&net.multis[i]);
    if (!net.exits)
        end_all();
}

/* --- starting, stopping */

static void forget_locked(void)
{
    net.pid = 0;
    net.stop = net.exits = false;
    net.incoming = net.later = net.active = NULL;
    net.incoming_end = &net.incoming;
    atomic_store(&net.n_cancelled, 0);
    hr__hosts_forget();
    net.n_active = net.n_bodies = net.n_spare = 0;
    atomic_store(&net.n_multis, 0);
}

/* How many multis there are from the beginning, and at most. */
static void plan_multis(void)
{
    const char *text = getenv(THREADS);
    int n_cpus = hr__cpus_allowed();
    char *end = NULL;
    long n = text ? strtol(text, &end, 10) : 0;

    if (!end || *end || n < 1 || n > MOST_MULTIS)
        n = 0;
    net.is_wrong = text && *text && !n;
    net.n_at_once = HR_MAX((int)n, 1);
    net.most_multis = n ? (int)n : HR_MIN(1 + HR_MAX(n_cpus / CPUS_SHARE, n_cpus > 1), MOST_MULTIS);
}

static int start_locked(void)
{
    int rc;

    if (net.pid == hr__pid())
        return 0;
    for (int i = 0; i < net.n_multis; i++) /* a forked child: the parent's descriptors and requests are not ours */
        hr__multi_forget(&net.multis[i]);
    forget_locked();
    plan_multis();
    rc = hr__multi_begin(&net.multis[0], net.most_multis > 1 ? most_connections() / 2 : most_connections());
    if (rc)
        return rc;
    net.n_multis = 1;
    rc = hr__thread_start(&net.thread, "hr-network", net_main, NULL);
    if (rc >= 0) {
        net.pid = hr__pid();
        return 0;
    }
    hr__multi_end(&net.multis[0]);
    forget_locked();
    return rc;
}

static hr_status send_over_network(hr_http_request *r, hr_error *err)
{
    int rc;

    if (r->is_signed && r->kind->hash && r->n_data > 0 && !r->hash[0])
        HR_TRY(r->kind->hash(r, err)); /* here: the network's thread has no time for it */
    pthread_once(&once, init);
    hr__lock(&net.lock);
    rc = start_locked();
    if (!rc) {
        put_last(&net.incoming_end, r);
        wake_thread();
    }
    hr__unlock(&net.lock);
    return rc ? hr__error_os(err, rc, "network", "start its thread") : HR_OK;
}

static void cancel_on_network(hr_http_request *r)
{
    atomic_store_explicit(&r->cancelled, true, memory_order_relaxed);
    hr__lock(&net.lock);
    if (net.pid == hr__pid()) {
        atomic_fetch_add(&net.n_cancelled, 1);
        wake_thread();
    }
    hr__unlock(&net.lock);
}

void hr__http_stop(void)
{
    pthread_once(&once, init);
    hr__lock(&net.lock);
    if (net.pid == hr__pid()) {
        hr_thread thread = net.thread;

        net.stop = true;
        wake_thread();
        hr__unlock(&net.lock);
        hr__thread_join(thread);
        hr__lock(&net.lock);
        while (net.n_spare)
            curl_easy_cleanup(net.spare[--net.n_spare]);
        for (int i = 0; i < net.n_multis; i++)
            hr__multi_end(&net.multis[i]);
        forget_locked();
    }
    hr__unlock(&net.lock);
}

hr_status hr__http_check_build(const char *url, hr_error *err)
{
    (void)url;
    (void)err;
    return HR_OK;
}

#else

hr_status hr__http_check_build(const char *url, hr_error *err)
{
    (void)hr_error_set(err, HR_UNSUPPORTED, "this build has no libcurl, so it reads no URLs");
    return hr__url_error(err, HR_UNSUPPORTED, url);
}

static hr_status send_over_network(hr_http_request *r, hr_error *err) { return hr__http_check_build(r->url, err); }

static void cancel_on_network(hr_http_request *r) { (void)r; }
void hr__http_stop(void) {}

#endif

hr_status hr__http_begin(hr_http_request *r, hr_error *err)
{
    return r->kind && r->kind->begin ? r->kind->begin(r, err) : send_over_network(r, err);
}

void hr__http_cancel(hr_http_request *r)
{
    if (r->kind && r->kind->cancel)
        r->kind->cancel(r);
    else
        cancel_on_network(r);
}

/* --- a request whose caller waits */

typedef struct waiter {
    hr_mutex lock;
    hr_cond done;
    bool is_done;
} waiter;

static void wake_waiter(hr_http_request *r)
{
    waiter *w = r->context;

    hr__lock(&w->lock);
    w->is_done = true;
    hr__cond_signal(&w->done); /* under the lock: the waiter's frame goes when it sees is_done */
    hr__unlock(&w->lock);
}

hr_status hr__http_run(hr_http_request *r, hr_error *err)
{
    waiter w = { .is_done = false };
    bool stopped = false;
    hr_status st;

    hr__mutex_init(&w.lock);
    hr__cond_init(&w.done);
    r->done = wake_waiter;
    r->context = &w;
    st = hr__http_begin(r, err);
    if (!st) {
        hr__waits_begin();
        hr__lock(&w.lock);
        while (!w.is_done) {
            if (hr__cond_wait_ns(&w.done, &w.lock, HR_LOOK_NS) || w.is_done || stopped)
                continue;
            hr__unlock(&w.lock);
            if ((stopped = hr__reads_stop()))
                hr__http_cancel(r);
            hr__lock(&w.lock);
        }
        hr__unlock(&w.lock);
        hr__waits_end();
        st = r->st;
        if (st)
            hr__error_move(err, &r->err);
    }
    hr__cond_clear(&w.done);
    hr__mutex_clear(&w.lock);
    return st;
}
