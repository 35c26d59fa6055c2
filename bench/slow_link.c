/* slow_link.c - a link with latency and a capped rate between clients and a server on this machine.
 *
 *     slow_link PORT SERVER_PORT LATENCY_MS MBIT
 *
 * Bytes of each direction arrive half of LATENCY_MS later than they were sent. All bytes of a direction share MBIT (0:
 * no cap). Two threads serve a direction of a connection: one reads and stamps, one waits and writes. stores.py
 * builds and starts it; it says "ready" and runs until it is killed. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CHUNK (64 << 10)
#define MOST_CHUNKS 64 /* on their way in one direction: 4 MiB, like a window */

typedef struct chunk {
    struct chunk *next;
    int64_t due_ns;
    ssize_t n; /* 0: the end */
    char bytes[CHUNK];
} chunk;

typedef struct direction {
    int from, to;
    int is_down; /* to the client */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    chunk *first, **last;
    int n, gone; /* gone: the writer has ended */
    struct connection *of;
} direction;

typedef struct connection {
    direction ways[2];
    int n_threads; /* under the lock of ways[0] */
} connection;

static int64_t half_latency_ns, ns_a_chunk, free_at_ns[2]; /* by direction */
static pthread_mutex_t cap = PTHREAD_MUTEX_INITIALIZER;
static struct sockaddr_in server;

static int64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec t = { ns / 1000000000, ns % 1000000000 };

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* When the last of n bytes is over the link. */
static int64_t over_the_link(int is_down, ssize_t n)
{
    int64_t at = now_ns(), *free_at = &free_at_ns[is_down];

    pthread_mutex_lock(&cap);
    at = *free_at = (*free_at > at ? *free_at : at) + ns_a_chunk * n / CHUNK;
    pthread_mutex_unlock(&cap);
    return at;
}

static void leave(connection *c)
{
    int left;

    pthread_mutex_lock(&c->ways[0].lock);
    left = --c->n_threads;
    pthread_mutex_unlock(&c->ways[0].lock);
    if (left)
        return;
    close(c->ways[0].from);
    close(c->ways[0].to);
    free(c);
}

static void *read_chunks(void *context)
{
    direction *d = context;
    ssize_t n;

    do {
        chunk *k = malloc(sizeof *k);

        n = read(d->from, k->bytes, CHUNK);
        k->n = n > 0 ? n : 0;
        k->due_ns = now_ns() + half_latency_ns;
        k->next = NULL;
        pthread_mutex_lock(&d->lock);
        *d->last = k;
        d->last = &k->next;
        d->n++;
        pthread_cond_broadcast(&d->changed);
        while (d->n > MOST_CHUNKS && !d->gone)
            pthread_cond_wait(&d->changed, &d->lock);
        n = d->gone ? 0 : n;
        pthread_mutex_unlock(&d->lock);
    } while (n > 0);
    leave(d->of);
    return NULL;
}

static chunk *take(direction *d)
{
    chunk *k;

    pthread_mutex_lock(&d->lock);
    while (!d->first)
        pthread_cond_wait(&d->changed, &d->lock);
    k = d->first;
    d->first = k->next;
    if (!d->first)
        d->last = &d->first;
    d->n--;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return k;
}

static int write_all(int to, const char *p, ssize_t n)
{
    while (n > 0) {
        ssize_t m = write(to, p, (size_t)n);

        if (m <= 0)
            return -1;
        p += m;
        n -= m;
    }
    return 0;
}

static void *write_chunks(void *context)
{
    direction *d = context;
    int ends = 0;

    while (!ends) {
        chunk *k = take(d);

        sleep_until(k->due_ns);
        if (ns_a_chunk)
            sleep_until(over_the_link(d->is_down, k->n));
        ends = k->n == 0 || write_all(d->to, k->bytes, k->n) < 0;
        free(k);
    }
    shutdown(d->to, SHUT_WR);
    shutdown(d->from, SHUT_RD);
    pthread_mutex_lock(&d->lock);
    d->gone = 1;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    leave(d->of);
    return NULL;
}

static void serve(int client)
{
    connection *c = calloc(1, sizeof *c);
    int up = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (connect(up, (struct sockaddr *)&server, sizeof server) < 0) {
        close(up);
        close(client);
        free(c);
        return;
    }
    setsockopt(up, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    c->n_threads = 4;
    for (int i = 0; i < 2; i++) {
        direction *d = &c->ways[i];

        *d = (direction){ .from = i ? up : client, .to = i ? client : up, .is_down = i, .of = c };
        d->last = &d->first;
        pthread_mutex_init(&d->lock, NULL);
        pthread_cond_init(&d->changed, NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_t thread;

        pthread_create(&thread, NULL, i & 1 ? write_chunks : read_chunks, &c->ways[i >> 1]);
        pthread_detach(thread);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in here = { .sin_family = AF_INET };
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    double mbit;

    if (argc != 5)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    half_latency_ns = (int64_t)(atof(argv[3]) * 0.5e6);
    mbit = atof(argv[4]);
    ns_a_chunk = mbit > 0 ? (int64_t)(CHUNK * 8e3 / mbit) : 0;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = here;
    here.sin_port = htons((uint16_t)atoi(argv[1]));
    server.sin_port = htons((uint16_t)atoi(argv[2]));
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&here, sizeof here) < 0 || listen(listener, 1024) < 0) {
        perror("slow_link");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        int client = accept(listener, NULL, NULL);

        if (client >= 0)
            serve(client);
    }
}
