/* http_multi.h - a handle of libcurl's multi interface, with the connections and the events of its requests, which one
 * thread turns; see http_multi.c.
 *
 * One thread, its owner, begins and ends it, adds and removes requests and asks which have ended. The owner turns it as
 * well, unless it has a thread of its own. */
#ifndef HR_HTTP_MULTI_H
#define HR_HTTP_MULTI_H

#include "base/base.h"

#ifdef HR_HAVE_CURL

#include <curl/curl.h>

typedef struct hr_multi {
    CURLM *curl;
    int watch, wake;
    hr_mutex next, turn; /* of the one who turns it, adds or removes: `next` is taken first, and never held alone */
    int64_t timer_ns;    /* when libcurl wants to be called; 0: not. Guarded by turn */
    int n_added;         /* requests. Written by the owner, under turn */
    atomic_bool has_ended;
    int64_t woke_ns; /* 0: it waits; of the thread that turns it */
    _Atomic int64_t busy_ns;
    /* A thread of its own. */
    bool has_thread;
    hr_thread thread;
    atomic_bool stop;
    void (*on_ended)(void); /* called by the thread, without locks */
} hr_multi;

/* -> 0, or a negative errno. n_idle: the connections that are kept. */
int hr__multi_begin(hr_multi *m, long n_idle);
int hr__multi_start(hr_multi *m, void (*on_ended)(void)); /* the thread of its own; -> as above */
void hr__multi_stop(hr_multi *m);                         /* ends that thread; without one, nothing */
void hr__multi_end(hr_multi *m);                          /* no thread turns it, and nobody has added requests */
void hr__multi_forget(hr_multi *m);          /* in a forked child, which has nothing of it but descriptors */
bool hr__multi_add(hr_multi *m, CURL *easy); /* false: no memory */
/* From here on nothing touches the handle, nor what its options point at. */
void hr__multi_remove(hr_multi *m, CURL *easy);
/* Whether the request went out, on a connection that was used before. */
bool hr__multi_reuses(hr_multi *m, CURL *easy);
/* A request that has ended, which is still to be removed; NULL: there is none. */
CURL *hr__multi_ended(hr_multi *m, CURLcode *code);
/* Waits for events, at most until due_ns (INT64_MAX: for ever), and handles them. True: requests have ended. */
bool hr__multi_turn(hr_multi *m, int64_t due_ns);
/* Any thread: the wait ends. */
static inline void hr__multi_wake(const hr_multi *m) { hr__event_set(m->wake); }

#endif
#endif
