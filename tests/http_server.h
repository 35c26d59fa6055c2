/* http_server.h - a small HTTP server on loopback, for tests: one object, what is put, and the faults that are asked
 * for. */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What the next `n` GETs and PUTs do instead of a good answer. */
typedef enum http_fault {
    HTTP_GOOD,
    HTTP_503,      /* with Retry-After: 0 */
    HTTP_CUT,      /* half of the body, then the end */
    HTTP_NOTHING,  /* closes without an answer */
    HTTP_SILENT,   /* half of the body, then nothing */
    HTTP_MUTE,     /* nothing at all */
    HTTP_REPLACED, /* another ETag, whatever If-Match says */
    HTTP_412,
    HTTP_NO_RANGES, /* 200 and the whole object */
    HTTP_OTHER,     /* another range than was asked for */
    HTTP_403,
    HTTP_REDIRECT /* to the same path below /moved */
} http_fault;

typedef struct http_server {
    const uint8_t *data; /* of the object, at any path */
    int64_t n;
    const char *etag; /* NULL: none */
    bool no_head;     /* HEAD is 405 */
    _Atomic(http_fault) fault;
    atomic_int n_faults; /* how often; < 0: always */
    atomic_int n_gets, n_heads, n_at_once, most_at_once;
    atomic_llong bytes;  /* of bodies */
    atomic_int delay_us; /* before each answer */
    uint8_t *put;        /* the body of the last PUT that was taken; freed by stop */
    atomic_llong n_put;
    atomic_int n_puts;
    int fd, port;
    atomic_bool stop;
    char url[64]; /* of the object */
} http_server;

void http_server_start(http_server *s); /* the first fields are set */
void http_server_stop(http_server *s);
void http_server_fault(http_server *s, http_fault fault, int n);
/* The client has closed its connections (hr__http_stop). No thread reads the object any more, and the caller may change
 * its bytes. */
void http_server_replace(http_server *s, const char *etag);

#endif
