/* test_http.c - requests over HTTP and the source over a URL, against a server with faults. */
#include "harness.h"
#include "http_server.h"

#include "io/http/http.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef HR_HAVE_CURL

#define N_BYTES (3 << 20)

static uint8_t *object;
static http_server server;

static const char *const quick[] = { "timeout=0.5", "max_retries=4" };

/* A server with the object, and the list of its one URL. */
static void begin(hr_paths *paths)
{
    const char *urls[] = { server.url };
    hr_error err = HR_ERROR_INIT;

    http_server_start(&server);
    urls[0] = server.url;
    assert_ok(
        hr__paths_list(urls, 1, &(hr_paths_options){ .store_options = quick, .n_store_options = 2 }, NULL, paths, &err),
        &err);
    assert_int_equal(paths->n, 1);
    assert_int_equal(paths->items[0].n_bytes, server.n);
}

static void end(hr_paths *paths)
{
    hr__paths_clear(paths);
    hr__http_stop();
    http_server_stop(&server);
}

static int setup(void **state)
{
    uint64_t seed = 1;

    (void)state;
    object = malloc(N_BYTES);
    assert_non_null(object);
    for (int i = 0; i < N_BYTES; i++)
        object[i] = (uint8_t)next_random(&seed);
    server = (http_server){ .data = object, .n = N_BYTES, .etag = "\"v1\"" };
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(object);
    return 0;
}

/* Reads [at, at + n) and compares. */
static hr_status read_range(hr_source *s, int64_t at, int64_t n, hr_error *err)
{
    uint8_t *out = malloc((size_t)n + 1);
    hr_status st;

    assert_non_null(out);
    st = hr__source_read(s, out, at, n, err);
    if (!st)
        assert_memory_equal(out, object + at, (size_t)n);
    free(out);
    return st;
}

static void a_source_reads_any_range(void **state)
{
    static const struct {
        int64_t at, n;
    } ranges[] = { { 0, 10 }, { 100, 100000 }, { N_BYTES - 7, 7 }, { 0, N_BYTES }, { 70000, 2 }, { 5, N_BYTES - 9 } };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;

    (void)state;
    begin(&paths);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    assert_int_equal(server.n_gets, 0);
    for (int i = 0; i < HR_LEN(ranges); i++)
        assert_ok(read_range(s, ranges[i].at, ranges[i].n, &err), &err);
    hr__source_unref(s);
    end(&paths);
    assert_no_leak(before);
}

static const struct {
    http_fault fault;
    int n; /* of faults in a row */
    hr_status want;
    const char *text;
} fault_cases[] = {
    { HTTP_503, 2, HR_OK, NULL },
    { HTTP_503, -1, HR_IO, "/object: the server refused (HTTP 503), slow down (4 retries)" },
    { HTTP_CUT, 3, HR_OK, NULL },
    { HTTP_NOTHING, 2, HR_OK, NULL },
    { HTTP_SILENT, 1, HR_OK, NULL },
    { HTTP_REPLACED, 1, HR_BAD_DATA, "/object: the object was replaced while it was read: it has another ETag now" },
    { HTTP_412, 1, HR_BAD_DATA, "the object was replaced" },
    { HTTP_NO_RANGES, -1, HR_OK, NULL },
    { HTTP_OTHER, 1, HR_BAD_DATA, "the server sends another range than it was asked for" },
    { HTTP_403, 1, HR_IO, "/object: access denied (HTTP 403), AccessDenied: No" },
    { HTTP_REDIRECT, 1, HR_OK, NULL },
    { HTTP_REDIRECT, -1, HR_IO, "more than 5 redirects follow each other" },
};

static void faults_are_mended_or_one_error(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(fault_cases); i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        hr_source *s;
        hr_paths paths;

        begin(&paths);
        assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
        http_server_fault(&server, fault_cases[i].fault, fault_cases[i].n);
        assert_status(read_range(s, 1000, 1500000, &err), fault_cases[i].want, &err);
        if (fault_cases[i].text)
            assert_contains(err.text, fault_cases[i].text);
        http_server_fault(&server, HTTP_GOOD, 0);
        hr_error_clear(&err);
        if (fault_cases[i].fault != HTTP_NO_RANGES)
            assert_ok(read_range(s, 1000, 1500000, &err), &err); /* an error is not for ever */
        hr__source_unref(s);
        end(&paths);
        assert_no_leak(before);
    }
}

/* Without an ETag nothing proves that the rest is of the same object: the body begins again. */
static void without_an_etag_a_body_begins_again(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;

    (void)state;
    server.etag = NULL;
    begin(&paths);
    assert_null(paths.items[0].tag);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    http_server_fault(&server, HTTP_CUT, 1);
    atomic_store(&server.bytes, 0);
    assert_ok(read_range(s, 0, 100000, &err), &err);
    assert_int_equal(atomic_load(&server.bytes), 150000);
    hr__source_unref(s);
    end(&paths);
}

static void a_server_without_head_tells_the_size_by_a_range(void **state)
{
    hr_paths paths;

    (void)state;
    server.no_head = true;
    begin(&paths);
    assert_string_equal(paths.items[0].tag, "\"v1\"");
    assert_int_equal(server.n_gets, 1);
    end(&paths);
}

static const struct {
    http_fault fault;
    int n;
    hr_status want;
    const char *text;
    int n_puts;
} put_cases[] = {
    { HTTP_GOOD, 0, HR_OK, NULL, 1 },
    { HTTP_503, 2, HR_OK, NULL, 3 },
    { HTTP_NOTHING, 1, HR_OK, NULL, 2 },
    { HTTP_CUT, 2, HR_OK, NULL, 3 },
    { HTTP_503, -1, HR_IO, "/object: the server refused (HTTP 503), slow down (4 retries)", 5 },
    { HTTP_412, 1, HR_IO, "/object: it exists already (HTTP 412)", 1 },
    { HTTP_403, 1, HR_IO, "/object: access denied (HTTP 403), AccessDenied: No", 1 },
};

static void what_is_put_arrives_once_and_whole(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(put_cases); i++) {
        live_memory before = live_now();
        hr_error err = HR_ERROR_INIT;
        hr_store *store = NULL;
        hr_http_request r;

        http_server_start(&server);
        atomic_store(&server.n_puts, 0);
        http_server_fault(&server, put_cases[i].fault, put_cases[i].n);
        assert_ok(hr__store_new(quick, 2, NULL, &store, &err), &err);
        assert_ok(hr__http_init(&r, "PUT", hr__strdup(NULL, server.url), store, &err), &err);
        r.data = object;
        r.n_data = N_BYTES;
        r.more = "If-None-Match: *\n";
        assert_status(hr__http_run(&r, &err), put_cases[i].want, &err);
        if (put_cases[i].text)
            assert_contains(err.text, put_cases[i].text);
        assert_int_equal(atomic_load(&server.n_puts), put_cases[i].n_puts);
        if (!put_cases[i].want) {
            assert_string_equal(r.answer.etag, "\"put\"");
            assert_int_equal(atomic_load(&server.n_put), N_BYTES);
            assert_memory_equal(server.put, object, N_BYTES);
        }
        hr__http_clear(&r);
        hr__store_unref(store);
        hr_error_clear(&err);
        hr__http_stop();
        http_server_stop(&server);
        assert_no_leak(before);
    }
}

static atomic_int n_called;
static void called(void *context)
{
    (void)context;
    atomic_fetch_add(&n_called, 1);
}

static void announced_ranges_travel_together(void **state)
{
    hr_file_range ranges[] = { { 2000000, 100000 }, { 0, 300000 }, { 300100, 200000 }, { 1000000, 400000 } };
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;
    hr_wait *w;

    (void)state;
    begin(&paths);
    atomic_store(&server.delay_us, 100000);
    atomic_store(&n_called, 0);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    assert_ok(hr__wait_begin(1 << 20, &w, &err), &err);
    hr__source_ahead_ranges(s, ranges, HR_LEN(ranges));
    assert_true(hr__wait_end(w, called, NULL));
    assert_int_equal(atomic_load(&n_called), 0);
    for (int i = 0; i < 10000 && !atomic_load(&n_called); i++)
        usleep(1000);
    assert_int_equal(atomic_load(&n_called), 1);
    hr__wait_unref(w);
    assert_int_equal(server.n_gets, 3); /* two neighbours are one request */
    assert_int_equal(atomic_load(&server.most_at_once), 3);
    assert_ok(hr__wait_begin(1 << 20, &w, &err), &err);
    hr__source_ahead_ranges(s, ranges, HR_LEN(ranges));
    assert_false(hr__wait_end(w, called, NULL)); /* all has come */
    hr__wait_unref(w);
    for (int i = 0; i < HR_LEN(ranges); i++)
        assert_ok(read_range(s, ranges[i].offset, ranges[i].n, &err), &err);
    assert_int_equal(server.n_gets, 3);
    hr__source_unref(s);
    end(&paths);
    assert_no_leak(before);
}

/* The story: a ticket was granted half of the memory limit whatever others had requested at the same time, and a part
 * was 8 MiB whatever the limit: 16 threads under a limit of 32 MiB held twice as much. */
#define SMALL_LIMIT (4 << 20)
#define N_TOGETHER 8

typedef struct together {
    hr_source *s;
    hr_error err;
    int64_t refused;
    hr_wait *wait; /* NULL: only hints */
    bool waits;
} together;

static void announce_all(void *arg, int thread)
{
    together *t = (together *)arg + thread;

    (void)hr__aheads_refused();
    if (t->waits && hr__wait_begin(0, &t->wait, &t->err))
        return;
    hr__source_ahead(t->s, 0, N_BYTES);
    t->refused = hr__aheads_refused();
    if (t->wait)
        hr__wait_drop(t->wait);
}

static void announcements_share_the_limit(void **state)
{
    together all[N_TOGETHER];
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_paths paths;

    (void)state;
    begin(&paths);
    for (int waits = 0; waits < 2; waits++) {
        hr_account *account = hr__account_new("small", NULL, SMALL_LIMIT);
        int64_t refused = 0;

        for (int i = 0; i < N_TOGETHER; i++) {
            all[i] = (together){ .err = HR_ERROR_INIT, .waits = waits };
            assert_ok(hr__paths_open(&paths, 0, account, &all[i].s, &err), &err);
        }
        run_threads(N_TOGETHER, announce_all, all);
        for (int i = 0; i < N_TOGETHER; i++) {
            assert_ok(all[i].err.status, &all[i].err);
            refused += all[i].refused;
            hr__wait_unref(all[i].wait);
        }
        assert_true(hr__account_used(account) > SMALL_LIMIT / 4); /* in parts: one of the object does not fit */
        assert_true(refused >= N_TOGETHER * N_BYTES - SMALL_LIMIT);
        /* what is no part: buffers of requests */
        assert_true(hr__account_peak(account) < SMALL_LIMIT / 4 * (2 + waits) + SMALL_LIMIT / 8);
        for (int i = 0; i < N_TOGETHER; i++) {
            assert_ok(read_range(all[i].s, 0, N_BYTES, &err), &err);
            hr__source_unref(all[i].s);
        }
        hr__account_unref(account);
    }
    end(&paths);
    assert_no_leak(before);
}

/* The story: a walk over a tar archive left a part for each member, since parts aged by the bytes of reads alone. */
static void a_walk_leaves_few_parts(void **state)
{
    live_memory before = live_now();
    hr_account *account = hr__account_new("walk", NULL, 1 << 20);
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;

    (void)state;
    begin(&paths);
    assert_ok(hr__paths_open(&paths, 0, account, &s, &err), &err);
    for (int64_t at = 0; at + 512 <= N_BYTES; at += 100000)
        assert_ok(read_range(s, at, 512, &err), &err);
    assert_int_equal(server.n_gets, (N_BYTES + 99999) / 100000);
    assert_true(hr__account_used(account) < 1 << 20); /* 2 MiB of parts were made */
    hr__source_unref(s);
    hr__account_unref(account);
    end(&paths);
    assert_no_leak(before);
}

static void a_cancelled_wait_is_called_at_once(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;
    hr_wait *w;

    (void)state;
    begin(&paths);
    http_server_fault(&server, HTTP_SILENT, -1);
    atomic_store(&n_called, 0);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    assert_ok(hr__wait_begin(1 << 20, &w, &err), &err);
    hr__source_ahead(s, 0, N_BYTES);
    assert_true(hr__wait_end(w, called, NULL));
    hr__wait_cancel(w);
    assert_int_equal(atomic_load(&n_called), 1);
    hr__source_unref(s); /* its requests are under way */
    end(&paths);
    assert_int_equal(atomic_load(&n_called), 1);
    hr__wait_unref(w);
    assert_no_leak(before);
}

/* A read that waits on a thread of a run ends when the run is stopped. */
static void a_stopped_read_is_cancelled(void **state)
{
    live_memory before = live_now();
    hr_error err = HR_ERROR_INIT;
    atomic_bool stop = true;
    hr_source *s;
    hr_paths paths;

    (void)state;
    begin(&paths);
    http_server_fault(&server, HTTP_SILENT, -1);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    hr__reads_stop_by(&stop);
    assert_status(read_range(s, 0, N_BYTES, &err), HR_CANCELLED, &err);
    hr__reads_stop_by(NULL);
    hr__source_unref(s);
    end(&paths);
    assert_no_leak(before);
}

typedef struct shared {
    hr_source *s;
    atomic_int n_wrong;
} shared;

static void read_some(void *arg, int thread)
{
    shared *x = arg;
    uint64_t seed = (uint64_t)thread;

    for (int i = 0; i < 20; i++) {
        int64_t at = random_below(&seed, N_BYTES), n = random_below(&seed, N_BYTES - at);
        hr_error err = HR_ERROR_INIT;

        if (i % 3 == 0)
            hr__source_ahead(x->s, at, n);
        if (read_range(x->s, at, n, &err))
            atomic_fetch_add(&x->n_wrong, 1);
        hr_error_clear(&err);
    }
}

static void threads_share_a_source(void **state)
{
    hr_error err = HR_ERROR_INIT;
    shared x = { 0 };
    hr_paths paths;

    (void)state;
    begin(&paths);
    assert_ok(hr__paths_open(&paths, 0, NULL, &x.s, &err), &err);
    http_server_fault(&server, HTTP_CUT, 5);
    run_threads(4, read_some, &x);
    assert_int_equal(atomic_load(&x.n_wrong), 0);
    hr__source_unref(x.s);
    end(&paths);
}

static hr_status list_and_read(hr_error *err)
{
    const char *urls[] = { server.url };
    hr_source *s = NULL;
    hr_paths paths;
    hr_status st = HR_OK;

    HR_TRY(hr__paths_list(urls, 1, &(hr_paths_options){ .store_options = quick, .n_store_options = 2 }, NULL, &paths,
                          err));
    HR_GO(hr__paths_open(&paths, 0, NULL, &s, err));
    HR_GO(read_range(s, 0, 100000, err));
done:
    hr__source_unref(s);
    hr__paths_clear(&paths);
    hr__http_stop(); /* after all requests: their memory is back */
    return st;
}

/* Without memory for its name a request goes on: an error then has the address. */
static void no_memory_is_one_error(void **state)
{
    (void)state;
    http_server_start(&server);
    assert_true(run_with_faults(list_and_read, HR_FAULT_MEMORY | MAY_RECOVER) > 10);
    http_server_stop(&server);
}

/* A request for a range, of any kind of store; checks its bytes. */
static hr_status get_range(hr_store *store, hr_account *account, const char *tag, int64_t at, int64_t n, hr_error *err)
{
    uint8_t *out = malloc((size_t)n);
    hr_http_request r;
    hr_status st;

    assert_non_null(out);
    st = hr__http_init(&r, "GET", hr__strdup(NULL, server.url), store, err);
    if (!st && tag && !(r.if_match = hr__strdup(NULL, tag)))
        st = hr__error_memory(err, "a tag", 1);
    r.account = account;
    r.offset = at;
    r.n_bytes = n;
    r.out = out;
    if (!st)
        st = hr__http_run(&r, err);
    if (!st) {
        assert_int_equal(r.n_got, n);
        assert_memory_equal(out, object + at, (size_t)n);
    }
    hr__http_clear(&r);
    free(out);
    return st;
}

static hr_store *store_with(const char *first, const char *second)
{
    const char *options[] = { first, second };
    hr_error err = HR_ERROR_INIT;
    hr_store *store = NULL;

    assert_ok(hr__store_new(options, 2, NULL, &store, &err), &err);
    return store;
}

/* Small requests by which a host becomes known. */
static void know_host(hr_store *store, hr_account *account)
{
    hr_error err = HR_ERROR_INIT;

    for (int i = 0; i < 40; i++)
        assert_ok(get_range(store, account, "\"v1\"", i, 100000, &err), &err);
}

/* A hedge is sent after 0.2 s here. What is slow and what is late differ from that by a second or more: a busy machine
 * stands still for half a second now and then, and a request that waits a second is not one that hangs. */
#define SLOW_US 1500000
#define LATE "first_byte_timeout=1.5"
#define NEVER_LATE "first_byte_timeout=30"
static const struct {
    const char *option, *late, *tag;
    http_fault fault;
    int n, delay_us;
    hr_status want;
    int n_requests, n_hedges, n_won, n_retries;
    int64_t wasted; /* bytes; -1: any number */
} hedge_cases[] = {
    { "hedges=true", NEVER_LATE, "\"v1\"", HTTP_MUTE, 1, 0, HR_OK, 2, 1, 1, 0, 0 },
    { "hedges=true", NEVER_LATE, "\"v1\"", HTTP_SILENT, 1, 0, HR_OK, 2, 1, 1, 0, 0 }, /* it asks for the second half */
    { "hedges=true", NEVER_LATE, NULL, HTTP_SILENT, 1, 0, HR_OK, 2, 1, 1, 0, 50000 },
    { "hedges=true", NEVER_LATE, "\"v1\"", HTTP_GOOD, 0, SLOW_US, HR_OK, 2, 1, 0, 0, 0 }, /* the request wins */
    { "hedges=true", LATE, "\"v1\"", HTTP_MUTE, 2, 0, HR_OK, 3, 1, 0, 1, 0 },             /* both hang */
    { "hedges=false", LATE, "\"v1\"", HTTP_MUTE, 1, 0, HR_OK, 2, 0, 0, 1, 0 },
    { "hedges=true", NEVER_LATE, "\"v1\"", HTTP_REPLACED, -1, SLOW_US, HR_BAD_DATA, 2, 1, 0, 0, -1 },
    { "hedges=true", NEVER_LATE, "\"v1\"", HTTP_403, -1, SLOW_US, HR_IO, 2, 1, 0, 0, 0 },
};

static void a_slow_request_gets_a_hedge(void **state)
{
    (void)state;
    for (int i = 0; i < HR_LEN(hedge_cases); i++) {
        live_memory before = live_now();
        hr_account *account = hr__account_new("hedges", NULL, 1 << 30);
        hr_store *store = store_with(hedge_cases[i].option, hedge_cases[i].late);
        hr_error err = HR_ERROR_INIT;
        int64_t told[HR_TRAFFIC_COUNT];

        http_server_start(&server);
        know_host(store, account);
        for (int k = 0; k < HR_TRAFFIC_COUNT; k++)
            told[k] = hr__account_traffic(account, (hr_traffic)k);
        atomic_store(&server.delay_us, hedge_cases[i].delay_us);
        http_server_fault(&server, hedge_cases[i].fault, hedge_cases[i].n);
        assert_status(get_range(store, account, hedge_cases[i].tag, 1000, 100000, &err), hedge_cases[i].want, &err);
        for (int k = 0; k < HR_TRAFFIC_COUNT; k++)
            told[k] = hr__account_traffic(account, (hr_traffic)k) - told[k];
        if (told[HR_TRAFFIC_REQUESTS] != hedge_cases[i].n_requests ||
            told[HR_TRAFFIC_HEDGES] != hedge_cases[i].n_hedges || told[HR_TRAFFIC_WON] != hedge_cases[i].n_won ||
            told[HR_TRAFFIC_RETRIES] != hedge_cases[i].n_retries ||
            (hedge_cases[i].wasted >= 0 && told[HR_TRAFFIC_WASTED] != hedge_cases[i].wasted))
            fail_msg("case %d: %d requests, %d hedges, %d won, %d retries, %d wasted", i,
                     (int)told[HR_TRAFFIC_REQUESTS], (int)told[HR_TRAFFIC_HEDGES], (int)told[HR_TRAFFIC_WON],
                     (int)told[HR_TRAFFIC_RETRIES], (int)told[HR_TRAFFIC_WASTED]);
        atomic_store(&server.delay_us, 0);
        hr__http_stop();
        http_server_stop(&server);
        assert_int_equal(hr__account_used(account), 0);
        hr_error_clear(&err);
        hr__store_unref(store);
        hr__account_unref(account);
        assert_no_leak(before);
    }
}

static hr_store *hedged_store;

/* The thread has ended before and after it. */
static hr_status hedged_read(hr_error *err)
{
    hr_http_host *hosts;
    hr_status st;

    for (int i = hr__hosts(&hosts) - 1; i >= 0; i--)
        hosts[i].hedge.tokens = 100;
    http_server_fault(&server, HTTP_MUTE, 1);
    st = get_range(hedged_store, NULL, "\"v1\"", 1000, 1000, err);
    hr__http_stop();
    return st;
}

/* Without memory for a hedge the request goes on alone. */
static void no_memory_for_a_hedge(void **state)
{
    (void)state;
    http_server_start(&server);
    hedged_store = store_with("first_byte_timeout=0.4", "max_retries=4");
    know_host(hedged_store, NULL);
    hr__http_stop();
    assert_true(run_with_faults(hedged_read, HR_FAULT_MEMORY | MAY_RECOVER) > 5);
    hr__store_unref(hedged_store);
    http_server_stop(&server);
}

/* An answer that never comes on a connection that served before is asked for once more, on a new one, whatever
 * max_retries is. On a new connection it is a failure. */
static void silence_on_a_used_connection_is_free_once(void **state)
{
    hr_store *store = store_with("max_retries=0", "first_byte_timeout=0.3");
    hr_error err = HR_ERROR_INIT;

    (void)state;
    http_server_start(&server);
    http_server_fault(&server, HTTP_MUTE, 1);
    assert_status(get_range(store, NULL, NULL, 0, 100, &err), HR_IO, &err);
    assert_contains(err.text, "the server does not answer in time");
    hr_error_clear(&err);
    assert_ok(get_range(store, NULL, NULL, 0, 100, &err), &err);
    http_server_fault(&server, HTTP_MUTE, 1);
    assert_ok(get_range(store, NULL, NULL, 0, 100, &err), &err);
    http_server_fault(&server, HTTP_MUTE, 2);
    assert_status(get_range(store, NULL, NULL, 0, 100, &err), HR_IO, &err);
    hr_error_clear(&err);
    hr__store_unref(store);
    hr__http_stop();
    http_server_stop(&server);
}

/* A server that closes a connection that was idle, as the next request arrives on it. */
static void a_used_connection_that_ends_is_free(void **state)
{
    hr_store *store = store_with("max_retries=0", "timeout=5");
    hr_error err = HR_ERROR_INIT;

    (void)state;
    http_server_start(&server);
    for (int i = 0; i < 3; i++) {
        assert_ok(get_range(store, NULL, NULL, 0, 100, &err), &err);
        http_server_fault(&server, HTTP_NOTHING, 1);
        assert_ok(get_range(store, NULL, NULL, 0, 100, &err), &err);
    }
    hr__store_unref(store);
    hr__http_stop();
    http_server_stop(&server);
}

/* The time to the first byte and the time between bytes are two limits. */
static void the_first_byte_has_its_own_time(void **state)
{
    hr_store *patient = store_with("timeout=0.3", "first_byte_timeout=20"), *quick_one;
    hr_error err = HR_ERROR_INIT;

    (void)state;
    quick_one = store_with("max_retries=0", "first_byte_timeout=0.2");
    http_server_start(&server);
    atomic_store(&server.delay_us, 900000);
    assert_ok(get_range(patient, NULL, NULL, 0, 100, &err), &err);
    assert_int_equal(atomic_load(&server.n_gets), 1);
    assert_status(get_range(quick_one, NULL, NULL, 0, 100, &err), HR_IO, &err);
    assert_contains(err.text, "the server does not answer in time");
    hr_error_clear(&err);
    atomic_store(&server.delay_us, 0);
    hr__store_unref(patient);
    hr__store_unref(quick_one);
    hr__http_stop();
    http_server_stop(&server);
}

static void whole_objects(void **state)
{
    const char *urls[3];
    hr_download got[3] = { 0 };
    hr_error err = HR_ERROR_INIT;
    hr_store *store = NULL;

    (void)state;
    http_server_start(&server);
    urls[0] = urls[1] = urls[2] = server.url;
    assert_ok(hr__store_new(quick, 2, NULL, &store, &err), &err);
    assert_ok(hr__download(store, urls, 3, &(hr_download_limits){ .allow_private = true }, got, &err), &err);
    for (int i = 0; i < 3; i++) {
        assert_ok(got[i].st, &got[i].err);
        assert_int_equal(got[i].n, N_BYTES);
        assert_memory_equal(got[i].data, object, N_BYTES);
        hr__download_clear(&got[i]);
    }
    assert_ok(hr__download(store, urls, 1, &(hr_download_limits){ .max_bytes = 1000 }, got, &err), &err);
    assert_int_equal(got[0].st, HR_INVALID);
    assert_contains(got[0].err.text, "/object: its address is a private one");
    hr__download_clear(&got[0]);
    assert_ok(hr__download(store, urls, 1, &(hr_download_limits){ 1000, true }, got, &err), &err);
    assert_int_equal(got[0].st, HR_BAD_DATA);
    assert_contains(got[0].err.text, "/object: it has more than 1000 bytes");
    hr__download_clear(&got[0]);
    hr__store_unref(store);
    hr__http_stop();
    http_server_stop(&server);
}

static hr_status download_twice(hr_error *err)
{
    const char *urls[] = { server.url, server.url };
    hr_download got[2] = { 0 };
    hr_store *store = NULL;
    hr_status st = HR_OK;

    HR_TRY(hr__store_new(quick, 2, NULL, &store, err));
    HR_GO(hr__download(store, urls, 2, &(hr_download_limits){ .allow_private = true }, got, err));
    for (int i = 0; i < 2; i++) {
        if (got[i].st && !st) {
            st = got[i].st;
            hr__error_move(err, &got[i].err);
        } else if (!got[i].st) {
            assert_int_equal(got[i].n, N_BYTES);
        }
    }
done:
    hr__download_clear(&got[0]);
    hr__download_clear(&got[1]);
    hr__store_unref(store);
    hr__http_stop();
    return st;
}

static void no_memory_for_a_download(void **state)
{
    (void)state;
    http_server_start(&server);
    assert_true(run_with_faults(download_twice, HR_FAULT_MEMORY | MAY_RECOVER) > 10);
    http_server_stop(&server);
}

/* A child has its own thread, and asks again for what was on its way. */
static void a_forked_child_reads_on(void **state)
{
    hr_error err = HR_ERROR_INIT;
    hr_source *s;
    hr_paths paths;
    int status;
    pid_t child;

    (void)state;
    if (SANITIZED)
        skip();
    begin(&paths);
    assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
    atomic_store(&server.delay_us, 50000);
    hr__source_ahead(s, 0, 1 << 20);
    child = fork();
    if (child == 0) {
        alarm(60);
        _exit(read_range(s, 10, 500000, &err) ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(read_range(s, 10, 500000, &err), &err);
    hr__source_unref(s);
    end(&paths);
}

#endif

static const struct {
    const char *url, *shown;
} shown_cases[] = {
    { "https://user:secret@host/a%20b", "https://host/a%20b" },
    { "https://host/a?X-Amz-Signature=abc#x", "https://host/a" },
    { "http://a@b@host:80/x", "http://host:80/x" },
    { "https://host", "https://host" },
    { "s3://anonymous@bucket/a?b#c", "s3://bucket/a?b#c" },
    { "s3://bucket/x?/day=1/part-?.csv", "s3://bucket/x?/day=1/part-?.csv" },
    { "s3://bucket/a?X-Amz-Signature=abc", "s3://bucket/a" },
    { "az://c/a?b?SIG=abc", "az://c/a" },
    { "az://c/a?restype&sig=abc", "az://c/a" },
    { "az://c/a?b/c?x&sig=abc", "az://c/a" },
    { "webhdfs://host/a?delegation=abc", "webhdfs://host/a" },
};

static void addresses(void **state)
{
    static const char *const private[] = { "127.0.0.1",
                                           "10.1.2.3",
                                           "172.16.0.1",
                                           "172.31.255.255",
                                           "192.168.1.1",
                                           "169.254.169.254",
                                           "100.64.0.1",
                                           "0.0.0.0",
                                           "224.0.0.1",
                                           "255.255.255.255",
                                           "198.18.0.1",
                                           "192.0.0.1",
                                           "::1",
                                           "::",
                                           "fe80::1",
                                           "fc00::1",
                                           "fd12::3",
                                           "ff02::1",
                                           "::ffff:10.0.0.1",
                                           "64:ff9b::a00:1",
                                           "2002:a00:1::",
                                           "x",
                                           "" };
    static const char *const public[] = { "8.8.8.8",        "172.15.0.1",       "172.32.0.1",
                                          "100.128.0.1",    "11.0.0.1",         "2001:4860:4860::8888",
                                          "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::" };

    (void)state;
    for (int i = 0; i < HR_LEN(private); i++)
        assert_true(hr__address_is_private(private[i]));
    for (int i = 0; i < HR_LEN(public); i++)
        assert_false(hr__address_is_private(public[i]));
}

static void urls_are_shown_without_secrets(void **state)
{
    static const char *const near[] = { "http://169.254.169.254/x", "http://127.1.2.3:80",
                                        "https://localhost/",       "http://me@a.localhost:1/x",
                                        "http://[::1]:80/x",        "http://[fe80::1]/",
                                        "http://[fd00:ec2::254]/x", "http://[fd00:ec2::23]/v1",
                                        "http://LOCALHOST?x",       "http://metadata.google.internal/x" };
    static const char *const far[] = { "http://example.com/127.0.0.1", "http://localhost.example.com/",
                                       "http://127.example.com",       "http://[fd00:ec3::1]/",
                                       "http://169.254.example.com",   "http://nolocalhost/" };
    hr_error err = HR_ERROR_INIT;

    (void)state;
    for (int i = 0; i < HR_LEN(shown_cases); i++) {
        char *shown = hr__url_shown(shown_cases[i].url, NULL);

        assert_string_equal(shown, shown_cases[i].shown);
        hr__free(shown);
    }
    (void)hr_error_set(&err, HR_IO, "%s: no, %s", shown_cases[0].url, shown_cases[0].url);
    hr__url_hide(shown_cases[0].url, &err);
    assert_null(strstr(err.text, shown_cases[0].url));
    assert_contains(err.text, shown_cases[0].shown);
    hr_error_clear(&err);
    assert_true(hr__url_same_host("https://host:1/a", "https://HOST:1/b"));
    assert_false(hr__url_same_host("https://host:1/a", "http://host:1/a"));
    assert_false(hr__url_same_host("https://host:1/a", "https://host:2/a"));
    for (int i = 0; i < HR_LEN(near); i++)
        assert_true(hr__url_is_near(near[i]));
    for (int i = 0; i < HR_LEN(far); i++)
        assert_false(hr__url_is_near(far[i]));
}

static const struct {
    const char *no_proxy, *url;
    bool excepted;
} proxy_cases[] = {
    { "", "http://example.com/x", false },
    { "*", "http://example.com/x", true },
    { "example.com", "http://user:pass@EXAMPLE.com:80/x", true },
    { "a, .example.com", "http://www.example.com/x", true },
    { "ample.com", "http://example.com/x", false },
    { "com.example,", "http://example.com/x", false },
    { "2001:db8::1", "http://[2001:db8::1]:80/x", true },
    { "", "http://127.0.0.1/x", true },
    { "", "https://example.com/x", true }, /* http_proxy is of the other scheme */
};

static void a_proxy_is_of_a_scheme_and_has_exceptions(void **state)
{
    static const char *const names[] = { "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "NO_PROXY" };
    const hr_store none = { 0 }, own = { .proxy = (char *)"http://own:1", .proxy_excludes = (char *)"b.org, .in" };
    const hr_store direct = { .proxy = (char *)"" }, only = { .proxy_excludes = (char *)"a.org" };

    (void)state;
    for (int i = 0; i < HR_LEN(names); i++)
        unsetenv(names[i]);
    setenv("http_proxy", "http://proxy:3128", 1);
    for (int i = 0; i < HR_LEN(proxy_cases); i++) {
        const char *found;

        setenv("no_proxy", proxy_cases[i].no_proxy, 1);
        found = hr__url_proxy(proxy_cases[i].url, &none);
        if (proxy_cases[i].excepted)
            assert_null(found);
        else
            assert_string_equal(found, "http://proxy:3128");
    }
    setenv("no_proxy", "a.org", 1);
    assert_string_equal(hr__url_proxy("http://a.org/x", &own), "http://own:1");
    assert_string_equal(hr__url_proxy("https://a.org/x", &own), "http://own:1");
    assert_null(hr__url_proxy("https://b.org/x", &own));
    assert_null(hr__url_proxy("https://c.in/x", &own));
    assert_null(hr__url_proxy("http://127.0.0.1/x", &own));
    assert_null(hr__url_proxy("http://c.org/x", &direct));
    setenv("no_proxy", "c.org", 1);
    assert_null(hr__url_proxy("http://a.org/x", &only));
    assert_string_equal(hr__url_proxy("http://c.org/x", &only), "http://proxy:3128");
    unsetenv("no_proxy");
    unsetenv("http_proxy");
}

static const struct {
    const char *option, *text;
} wrong_options[] = {
    { "timout=3", "there is no option 'timout'; did you mean 'timeout'?" },
    { "timeout=fast", "timeout: expected a number of seconds from 0.01 to 86400, or a time with a unit" },
    { "max_retries=1000", "max_retries: expected a number from 0 to 100; found another text of 4 characters" },
};

static void wrong_options_are_named(void **state)
{
    const char *urls[] = { "http://127.0.0.1:1/x" };

    (void)state;
    for (int i = 0; i < HR_LEN(wrong_options); i++) {
        hr_paths_options o = { .store_options = &wrong_options[i].option, .n_store_options = 1 };
        hr_error err = HR_ERROR_INIT;
        hr_paths paths;

        assert_status(hr__paths_list(urls, 1, &o, NULL, &paths, &err), HR_INVALID, &err);
        assert_contains(err.text, wrong_options[i].text);
    }
}

#ifdef HR_HAVE_CURL

/* Of this process, with the network's name. */
static int threads_of_the_network(void)
{
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *task;
    int n = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        if (task->d_name[0] == '.' || !(f = fopen(path, "r")))
            continue;
        n += fgets(name, sizeof name, f) && strcmp(name, "hr-network\n") == 0;
        fclose(f);
    }
    closedir(tasks);
    return n;
}

static void there_are_as_many_threads_as_the_environment_says(void **state)
{
    const char *variable = "HEADRACE_NETWORK_THREADS", *given = getenv(variable);
    char *before = given ? strdup(given) : NULL;

    (void)state;
    for (int n = 1; n <= 9; n += 4) {
        const char text[] = { (char)('0' + n), 0 };
        hr_error err = HR_ERROR_INIT;
        hr_source *s;
        hr_paths paths;

        setenv(variable, text, 1);
        begin(&paths);
        assert_ok(hr__paths_open(&paths, 0, NULL, &s, &err), &err);
        assert_ok(read_range(s, 0, N_BYTES, &err), &err);
        assert_int_equal(threads_of_the_network(), n);
        hr__source_unref(s);
        end(&paths);
        assert_int_equal(threads_of_the_network(), 0);
    }
    if (before)
        setenv(variable, before, 1);
    else
        unsetenv(variable);
    free(before);
}

static void no_server_is_one_error(void **state)
{
    static const char *const options[] = { "max_retries=1" };
    const char *urls[] = { "http://127.0.0.1:1/x?key=secret" };
    hr_paths_options o = { .store_options = options, .n_store_options = 1 };
    hr_error err = HR_ERROR_INIT;
    hr_paths paths;

    (void)state;
    assert_status(hr__paths_list(urls, 1, &o, NULL, &paths, &err), HR_IO, &err);
    assert_contains(err.text, "http://127.0.0.1:1/x: no connection to the host 127.0.0.1:1 (1 retry)");
    hr__http_stop();
}

#else

static void a_build_without_libcurl_says_so(void **state)
{
    const char *urls[] = { "http://127.0.0.1:1/x" };
    hr_error err = HR_ERROR_INIT;
    hr_paths paths;

    (void)state;
    assert_status(hr__paths_list(urls, 1, NULL, NULL, &paths, &err), HR_UNSUPPORTED, &err);
    assert_string_equal(err.text, "http://127.0.0.1:1/x: this build has no libcurl, so it reads no URLs");
}

#endif

int main(void)
{
#define HTTP_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest cases[] = {
#ifdef HR_HAVE_CURL
        HTTP_TEST(a_source_reads_any_range),
        HTTP_TEST(faults_are_mended_or_one_error),
        HTTP_TEST(without_an_etag_a_body_begins_again),
        HTTP_TEST(a_server_without_head_tells_the_size_by_a_range),
        HTTP_TEST(what_is_put_arrives_once_and_whole),
        HTTP_TEST(announced_ranges_travel_together),
        HTTP_TEST(announcements_share_the_limit),
        HTTP_TEST(a_walk_leaves_few_parts),
        HTTP_TEST(a_cancelled_wait_is_called_at_once),
        HTTP_TEST(a_stopped_read_is_cancelled),
        HTTP_TEST(threads_share_a_source),
        HTTP_TEST(no_memory_is_one_error),
        HTTP_TEST(a_slow_request_gets_a_hedge),
        HTTP_TEST(no_memory_for_a_hedge),
        HTTP_TEST(silence_on_a_used_connection_is_free_once),
        HTTP_TEST(a_used_connection_that_ends_is_free),
        HTTP_TEST(the_first_byte_has_its_own_time),
        HTTP_TEST(whole_objects),
        HTTP_TEST(no_memory_for_a_download),
        HTTP_TEST(a_forked_child_reads_on),
        HTTP_TEST(there_are_as_many_threads_as_the_environment_says),
        cmocka_unit_test(no_server_is_one_error),
#else
        cmocka_unit_test(a_build_without_libcurl_says_so),
#endif
        cmocka_unit_test(a_proxy_is_of_a_scheme_and_has_exceptions),
        cmocka_unit_test(urls_are_shown_without_secrets),
        cmocka_unit_test(wrong_options_are_named),
        cmocka_unit_test(addresses),
    };

    return cmocka_run_group_tests(cases, NULL, NULL);
}
