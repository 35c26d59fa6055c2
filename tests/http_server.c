/* http_server.c - implements http_server.h: a thread for each connection. */
#include "http_server.h"

#include "harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct connection {
    http_server *s;
    int fd;
} connection;

static atomic_int n_threads;

#if SANITIZED
/* libcurl may close a socket before it says that it is not watched any more. This server's accept() can have the number
 * by then, and TSan sees a race in epoll_ctl(), which only answers that it does not know the descriptor. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void) { return "race:hr__watch_remove\n"; }
#endif

static bool send_all(int fd, const void *data, size_t n)
{
    const char *p = data;

    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        p += sent;
        n -= (size_t)sent;
    }
    return true;
}

/* One request's head, and what came behind it (of *n bytes); false: the end. */
static bool read_head(int fd, char *head, size_t cap, size_t *more)
{
    size_t n = 0;

    head[0] = 0;
    while (n + 1 < cap && !strstr(head, "\r\n\r\n")) {
        ssize_t got = recv(fd, head + n, cap - 1 - n, 0);

        if (got <= 0)
            return false;
        n += (size_t)got;
        head[n] = 0;
    }
    *more = strstr(head, "\r\n\r\n") ? n - (size_t)(strstr(head, "\r\n\r\n") + 4 - head) : 0;
    return true;
}

static http_fault next_fault(http_server *s)
{
    int left = atomic_load(&s->n_faults);

    if (left == 0)
        return HTTP_GOOD;
    if (left > 0)
        atomic_fetch_sub(&s->n_faults, 1);
    return atomic_load(&s->fault);
}

static bool send_status(int fd, const char *line, const char *more, const char *body)
{
    char head[400];
    int n =
        snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s", line, strlen(body), more, body);

    return send_all(fd, head, (size_t)n);
}

/* Until the client must have lost its patience. */
static void do_nothing(http_server *s)
{
    for (int i = 0; i < 500 && !atomic_load(&s->stop); i++)
        usleep(10000);
}

/* Sends bytes [begin, end) of the object. False: the connection ends. */
static bool send_range(http_server *s, int fd, http_fault fault, int64_t begin, int64_t end, bool ranged)
{
    int64_t n = end - begin, said = fault == HTTP_OTHER ? begin + 1 : begin;
    char head[400], etag[100] = "", range[100] = "";

    if (s->etag)
        snprintf(etag, sizeof etag, "ETag: %s\r\n", fault == HTTP_REPLACED ? "\"another\"" : s->etag);
    if (ranged)
        snprintf(range, sizeof range, "Content-Range: bytes %lld-%lld/%lld\r\n", (long long)said, (long long)(end - 1),
                 (long long)s->n);
    snprintf(head, sizeof head, "HTTP/1.1 %s\r\nContent-Length: %lld\r\n%s%s\r\n",
             ranged ? "206 Partial Content" : "200 OK", (long long)n, etag, range);
    if (fault == HTTP_CUT || fault == HTTP_SILENT)
        n /= 2;
    atomic_fetch_add(&s->bytes, n);
    if (!send_all(fd, head, strlen(head)) || !send_all(fd, s->data + begin, (size_t)n))
        return false;
    if (fault == HTTP_SILENT)
        do_nothing(s);
    return fault != HTTP_CUT && fault != HTTP_SILENT;
}

static bool answer_get(http_server *s, int fd, const char *head)
{
    http_fault fault = next_fault(s);
    const char *range = strstr(head, "Range: bytes=");
    long long begin = 0, end = s->n - 1;
    char where[200];

    if (range && sscanf(range, "Range: bytes=%lld-%lld", &begin, &end) < 1)
        return false;
    switch (fault) {
    case HTTP_NOTHING: return false;
    case HTTP_MUTE: do_nothing(s); return false;
    case HTTP_503: return send_status(fd, "503 Slow Down", "Retry-After: 0\r\n", "slow down");
    case HTTP_412: return send_status(fd, "412 Precondition Failed", "", "");
    case HTTP_403:
        return send_status(fd, "403 Forbidden", "", "<Error><Code>AccessDenied</Code><Message>No</Message></Error>");
    case HTTP_REDIRECT:
        snprintf(where, sizeof where, "Location: http://127.0.0.1:%d/moved\r\n", s->port);
        return send_status(fd, "307 Temporary Redirect", where, "");
    default: break;
    }
    if (fault == HTTP_NO_RANGES || !range)
        return send_range(s, fd, fault, 0, s->n, false);
    if (begin >= s->n)
        return send_status(fd, "416 Range Not Satisfiable", "", "");
    return send_range(s, fd, fault, begin, HR_MIN(end + 1, s->n), true);
}

/* Keeps the body. The fault HTTP_CUT reads half of it and closes. */
static bool answer_put(http_server *s, int fd, const char *head, size_t more)
{
    const char *length = strstr(head, "Content-Length: ");
    size_t n = length ? (size_t)atoll(length + 16) : 0, have = HR_MIN(more, n);
    http_fault fault = next_fault(s);
    uint8_t *data = malloc(n + 1);

    assert_non_null(data);
    memcpy(data, strstr(head, "\r\n\r\n") + 4, have);
    while (have < n && !(fault == HTTP_CUT && have >= n / 2)) {
        ssize_t got = recv(fd, data + have, n - have, 0);

        if (got <= 0)
            break;
        have += (size_t)got;
    }
    if (fault == HTTP_GOOD && have == n) {
        free(s->put);
        s->put = data;
        atomic_store(&s->n_put, (long long)n);
        return send_status(fd, "200 OK", "ETag: \"put\"\r\n", "");
    }
    free(data);
    switch (fault) {
    case HTTP_503: return send_status(fd, "503 Slow Down", "Retry-After: 0\r\n", "slow down");
    case HTTP_412: return send_status(fd, "412 Precondition Failed", "", "");
    case HTTP_403:
        return send_status(fd, "403 Forbidden", "", "<Error><Code>AccessDenied</Code><Message>No</Message></Error>");
    default: return false;
    }
}

static bool answer_head(http_server *s, int fd)
{
    char head[300];

    if (s->no_head)
        return send_status(fd, "405 Method Not Allowed", "", "");
    snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %lld\r\n%s%s%s\r\n", (long long)s->n,
             s->etag ? "ETag: " : "", s->etag ? s->etag : "", s->etag ? "\r\n" : "");
    return send_all(fd, head, strlen(head));
}

static void *serve(void *arg)
{
    connection *c = arg;
    http_server *s = c->s;
    char head[4096];
    size_t more;
    bool go = true;

    while (go && read_head(c->fd, head, sizeof head, &more)) {
        int now = atomic_fetch_add(&s->n_at_once, 1) + 1;

        for (int most = atomic_load(&s->most_at_once);
             now > most && !atomic_compare_exchange_weak(&s->most_at_once, &most, now);)
            ;
        if (atomic_load(&s->delay_us))
            usleep((useconds_t)atomic_load(&s->delay_us));
        if (strncmp(head, "HEAD", 4) == 0) {
            atomic_fetch_add(&s->n_heads, 1);
            go = answer_head(s, c->fd);
        } else if (strncmp(head, "PUT", 3) == 0) {
            atomic_fetch_add(&s->n_puts, 1);
            go = answer_put(s, c->fd, head, more);
        } else {
            atomic_fetch_add(&s->n_gets, 1);
            go = answer_get(s, c->fd, head);
        }
        atomic_fetch_sub(&s->n_at_once, 1);
    }
    close(c->fd);
    free(c);
    atomic_fetch_sub(&n_threads, 1);
    return NULL;
}

static void *accept_all(void *arg)
{
    http_server *s = arg;

    while (!atomic_load(&s->stop)) {
        int fd = accept(s->fd, NULL, NULL);
        connection *c;
        pthread_t t;

        if (fd < 0)
            continue;
        c = malloc(sizeof *c);
        assert_non_null(c);
        *c = (connection){ s, fd };
        atomic_fetch_add(&n_threads, 1);
        assert_int_equal(pthread_create(&t, NULL, serve, c), 0);
        pthread_detach(t);
    }
    atomic_fetch_sub(&n_threads, 1);
    return NULL;
}

void http_server_start(http_server *s)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    pthread_t t;

    atomic_store(&s->stop, false);
    atomic_store(&s->n_faults, 0);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(s->fd >= 0);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(s->fd, 128), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&at, &n), 0);
    s->port = ntohs(at.sin_port);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d/object", s->port);
    atomic_store(&n_threads, 1);
    assert_int_equal(pthread_create(&t, NULL, accept_all, s), 0);
    pthread_detach(t);
}

/* The thread that accepts is one. */
static void wait_for_threads(int n)
{
    for (int i = 0; i < 20000 && atomic_load(&n_threads) > n; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&n_threads), n);
}

void http_server_replace(http_server *s, const char *etag)
{
    wait_for_threads(1);
    s->etag = etag;
}

/* The client's connections are closed already, or close now: their threads end. */
void http_server_stop(http_server *s)
{
    atomic_store(&s->stop, true);
    shutdown(s->fd, SHUT_RDWR);
    wait_for_threads(0);
    close(s->fd);
    free(s->put);
    s->put = NULL;
}

void http_server_fault(http_server *s, http_fault fault, int n)
{
    atomic_store(&s->fault, fault);
    atomic_store(&s->n_faults, n);
}
