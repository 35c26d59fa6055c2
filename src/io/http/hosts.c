/* hosts.c - the hosts that the process talks to: their counters, and how many requests may be in flight to each.
 *
 * A host is a scheme, a name and a port, and for stores a bucket: stores limit buckets. All readers of the process
 * share it. The table is static: a host stays until the process ends.
 *
 * Lock: runs.lock, for the runs that count what travels for no account: a leaf.
 *
 * Tests: test_http.c, test_network_stats.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <stdio.h>

#define FIRST_LARGE 8 /* large bodies share the link: with few, the first ones are whole soon */
#define FIRST_SMALL 64
#define LEAST_LARGE 2
#define LEAST_SMALL 8
#define MOST 1024

static hr_http_host hosts[HR_MAX_HOSTS];
static atomic_int n_hosts;

int hr__hosts(hr_http_host **out)
{
    *out = hosts;
    return atomic_load_explicit(&n_hosts, memory_order_acquire);
}

/* "scheme://host:port" of the address, without a user; and the bucket, where `name` has one. */
static void name_of(const hr_http_request *r, char *out, size_t cap)
{
    const char *url = r->target ? r->target : r->url, *colon = strstr(url, "://");
    const char *host = colon ? colon + 3 : url, *name = r->name ? r->name : "", *bucket = strstr(name, "://");
    size_t n = strcspn(host, "/?#");

    for (const char *at; (at = memchr(host, '@', n)); host = at + 1)
        n -= (size_t)(at + 1 - host);
    if (!bucket || strncmp(name, "http", 4) == 0 || r->foreign)
        bucket = "://";
    bucket += 3;
    for (const char *at; (at = memchr(bucket, '@', strcspn(bucket, "/"))); bucket = at + 1)
        ;
    snprintf(out, cap, "%.*s%.*s%s%.*s", (int)(colon ? colon + 3 - url : 0), url, (int)HR_MIN(n, 100), host,
             *bucket ? "/" : "", (int)HR_MIN(strcspn(bucket, "/?"), 80), bucket);
}

static void lane_begin(hr_http_lane *l)
{
    l->queue = NULL;
    l->queue_end = &l->queue;
    l->n_active = 0;
    atomic_store(&l->came, 0);
    atomic_store(&l->first_ns, 0);
}

hr_http_host *hr__host_of(const hr_http_request *r)
{
    char name[sizeof hosts->name];
    int n = atomic_load(&n_hosts);
    hr_http_host *h;

    name_of(r, name, sizeof name);
    for (int i = 0; i < n; i++)
        if (strcmp(hosts[i].name, name) == 0)
            return &hosts[i];
    if (n == HR_MAX_HOSTS)
        return &hosts[n - 1];
    h = &hosts[n];
    memcpy(h->name, n == HR_MAX_HOSTS - 1 ? "others" : name, n == HR_MAX_HOSTS - 1 ? 7 : sizeof name);
    hr__flow_init(&h->lanes[HR_LANE_LARGE].flow, FIRST_LARGE, LEAST_LARGE, MOST);
    hr__flow_init(&h->lanes[HR_LANE_SMALL].flow, FIRST_SMALL, LEAST_SMALL, MOST);
    for (int i = 0; i < HR_N_LANES; i++)
        lane_begin(&h->lanes[i]);
    atomic_store_explicit(&n_hosts, n + 1, memory_order_release);
    return h;
}

void hr__hosts_forget(void)
{
    for (int i = 0; i < atomic_load(&n_hosts); i++) {
        hosts[i].n_active = 0;
        atomic_store(&hosts[i].in_flight, 0);
        for (int k = 0; k < HR_N_LANES; k++)
            lane_begin(&hosts[i].lanes[k]);
    }
}

static _Atomic int64_t of_nobody[HR_TRAFFIC_COUNT]; /* what no account counts */

void hr__network_count(hr_account *a, hr_traffic what, int64_t n)
{
    if (!a)
        atomic_fetch_add_explicit(&of_nobody[what], n, memory_order_relaxed);
    hr__account_travelled(a, what, n);
}

static struct {
    hr_mutex lock;
    hr_network_begin *first;
} runs = { .lock = HR_MUTEX_INIT };
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void runs_init(void) { hr__mutex_survives_fork(&runs.lock); }

static void runs_lock(void)
{
    pthread_once(&once, runs_init);
    hr__lock(&runs.lock);
}

void hr__network_begins(hr_network_begin *out)
{
    runs_lock();
    for (int i = 0; i < HR_TRAFFIC_COUNT; i++)
        out->of_nobody[i] = atomic_load_explicit(&of_nobody[i], memory_order_relaxed);
    out->at_ns = hr__clock_ns();
    out->next = runs.first;
    runs.first = out;
    hr__unlock(&runs.lock);
}

void hr__network_ends(hr_network_begin *b)
{
    hr_network_begin **at = &runs.first;

    runs_lock();
    while (*at && *at != b)
        at = &(*at)->next;
    if (*at)
        *at = b->next;
    hr__unlock(&runs.lock);
}

void hr__network_give(hr_account *a, hr_traffic what, int64_t n, int64_t came_ns)
{
    runs_lock();
    atomic_fetch_sub_explicit(&of_nobody[what], n, memory_order_relaxed);
    for (hr_network_begin *b = runs.first; b; b = b->next)
        if (b->at_ns > came_ns)
            b->of_nobody[what] -= n;
    hr__unlock(&runs.lock);
    hr__account_travelled(NULL, what, -n); /* all levels of `a` get it */
    hr__account_travelled(a, what, n);
}

void hr__host_count(hr_http_request *r, hr_traffic what, int64_t n)
{
    _Atomic int64_t *of_host[] = {
        [HR_TRAFFIC_REQUESTS] = &r->host->requests, [HR_TRAFFIC_BYTES] = &r->host->bytes,
        [HR_TRAFFIC_RETRIES] = &r->host->retries,   [HR_TRAFFIC_HEDGES] = &r->host->hedges,
        [HR_TRAFFIC_WON] = &r->host->hedges_won,    [HR_TRAFFIC_WASTED] = &r->host->wasted,
    };

    atomic_fetch_add_explicit(of_host[what], n, memory_order_relaxed);
    hr__network_count(r->account, what, n);
}

static void print_host(hr_http_host *h, hr_text *out)
{
    hr__text_add(out, "{\"host\":");
    hr__text_add_json(out, h->name);
    hr__text_add(out, ",\"requests\":%" PRId64 ",\"received_bytes\":%" PRId64 ",\"retries\":%" PRId64,
                 atomic_load(&h->requests), atomic_load(&h->bytes), atomic_load(&h->retries));
    hr__text_add(out, ",\"hedges\":%" PRId64 ",\"hedges_won\":%" PRId64 ",\"wasted_bytes\":%" PRId64,
                 atomic_load(&h->hedges), atomic_load(&h->hedges_won), atomic_load(&h->wasted));
    hr__text_add(out, ",\"throttled\":%" PRId64 ",\"failed\":%" PRId64, atomic_load(&h->throttled),
                 atomic_load(&h->failed));
    hr__text_add(out, ",\"in_flight\":%d,\"peak_in_flight\":%d,\"limit_large\":%d,\"limit_small\":%d}",
                 atomic_load(&h->in_flight), atomic_load(&h->peak), atomic_load(&h->levels[HR_LANE_LARGE]),
                 atomic_load(&h->levels[HR_LANE_SMALL]));
}

int64_t hr__network_throttled(void)
{
    hr_http_host *all;
    int n = hr__hosts(&all);
    int64_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += atomic_load(&all[i].throttled);
    return sum;
}

static int64_t since(const hr_network_begin *begin, hr_traffic what)
{
    int64_t n;

    runs_lock();
    n = atomic_load_explicit(&of_nobody[what], memory_order_relaxed) - begin->of_nobody[what];
    hr__unlock(&runs.lock);
    return HR_MAX(0, n); /* bytes of a part can come before a run's begin, and the part after it */
}

void hr__network_stats(const hr_account *a, const hr_network_begin *begin, hr_text *out)
{
    static const char *const names[HR_TRAFFIC_COUNT] = { "requests",   "received_bytes", "retries",     "hedges",
                                                         "hedges_won", "wasted_bytes",   "cached_bytes" };
    hr_http_host *all;
    int n = hr__hosts(&all), n_shown = 0;

    if (!hr__account_traffic(a, HR_TRAFFIC_REQUESTS) && !hr__account_traffic(a, HR_TRAFFIC_CACHED) &&
        !since(begin, HR_TRAFFIC_REQUESTS) && !since(begin, HR_TRAFFIC_CACHED))
        return;
    hr__text_add(out, ",\"network\":{");
    for (int i = 0; i < HR_TRAFFIC_COUNT; i++)
        hr__text_add(out, "%s\"%s\":%" PRId64, i ? "," : "", names[i], hr__account_traffic(a, (hr_traffic)i));
    hr__text_add(out,
                 ",\"outside\":{\"requests\":%" PRId64 ",\"received_bytes\":%" PRId64 ",\"cached_bytes\":%" PRId64 "}",
                 since(begin, HR_TRAFFIC_REQUESTS), since(begin, HR_TRAFFIC_BYTES), since(begin, HR_TRAFFIC_CACHED));
    hr__text_add(out, ",\"hosts\":[");
    for (int i = 0; i < n; i++) {
        if (n_shown++)
            hr__text_add(out, ",");
        print_host(&all[i], out);
    }
    hr__text_add(out, "]}");
}
