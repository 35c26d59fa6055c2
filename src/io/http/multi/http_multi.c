/* http_multi.c - moves the bytes of the requests that it has: libcurl's multi interface, epoll, and a timer.
 *
 * libcurl is called by one thread at a time, which has the turn: the one that turns the handle for one event, or the
 * owner that adds, removes, or asks what has ended. Nobody waits for events with the turn, and who waits for it gets it
 * after the present event: the thread that turns a busy handle would else take it again at once, always. So the owner
 * waits for what one event takes, about a millisecond.
 *
 * Requests that have ended stay until the owner removes them. The thread says so once, until the owner has looked.
 *
 * Tests: test_http.c. */
#include "io/http/multi/http_multi.h"

#ifdef HR_HAVE_CURL

#define WAKE_KEY UINT64_MAX
#define LONGEST_WAIT_MS 60000

static void take_turn(hr_multi *m)
{
    hr__lock(&m->next);
    hr__lock(&m->turn);
    hr__unlock(&m->next);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *context, void *of_socket)
{
    const hr_multi *m = context;

    (void)easy;
    (void)of_socket;
    if (what == CURL_POLL_REMOVE)
        hr__watch_remove(m->watch, fd);
    else if (hr__watch_set(m->watch, fd, what != CURL_POLL_OUT, what != CURL_POLL_IN, (uint64_t)fd) < 0)
        return -1;
    return 0;
}

static int on_timer(CURLM *curl, long ms, void *context)
{
    hr_multi *m = context;

    (void)curl;
    m->timer_ns = ms < 0 ? 0 : HR_MAX(1, hr__clock_ns() + (int64_t)ms * 1000000);
    return 0;
}

int hr__multi_begin(hr_multi *m, long n_idle)
{
    int rc;

    *m = (hr_multi){ .watch = -1, .wake = -1 };
    if (!(m->curl = curl_multi_init()))
        return -12; /* ENOMEM */
    hr__mutex_init(&m->next);
    hr__mutex_init(&m->turn);
    curl_multi_setopt(m->curl, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(m->curl, CURLMOPT_SOCKETDATA, m);
    curl_multi_setopt(m->curl, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(m->curl, CURLMOPT_TIMERDATA, m);
    curl_multi_setopt(m->curl, CURLMOPT_MAXCONNECTS, n_idle);
    rc = m->watch = hr__watch_new();
    if (rc >= 0)
        rc = m->wake = hr__event_new();
    if (rc >= 0)
        rc = hr__watch_add(m->watch, m->wake, WAKE_KEY);
    if (rc < 0)
        hr__multi_end(m);
    return HR_MIN(rc, 0);
}

void hr__multi_forget(hr_multi *m)
{
    hr__file_close(m->watch);
    hr__file_close(m->wake);
    *m = (hr_multi){ .watch = -1, .wake = -1 };
}

void hr__multi_end(hr_multi *m)
{
    curl_multi_cleanup(m->curl);
    hr__mutex_clear(&m->turn);
    hr__mutex_clear(&m->next);
    hr__multi_forget(m);
}

bool hr__multi_add(hr_multi *m, CURL *easy)
{
    bool ok;

    take_turn(m);
    ok = curl_multi_add_handle(m->curl, easy) == CURLM_OK;
    m->n_added += ok;
    hr__unlock(&m->turn);
    if (ok && m->has_thread)
        hr__multi_wake(m); /* it begins by the timer, which is a new one */
    return ok;
}

void hr__multi_remove(hr_multi *m, CURL *easy)
{
    take_turn(m);
    curl_multi_remove_handle(m->curl, easy);
    m->n_added--;
    hr__unlock(&m->turn);
}

bool hr__multi_reuses(hr_multi *m, CURL *easy)
{
    long n_new = 0, n_sent = 0;

    take_turn(m);
    curl_easy_getinfo(easy, CURLINFO_NUM_CONNECTS, &n_new);
    curl_easy_getinfo(easy, CURLINFO_REQUEST_SIZE, &n_sent);
    hr__unlock(&m->turn);
    return n_new == 0 && n_sent > 0;
}

CURL *hr__multi_ended(hr_multi *m, CURLcode *code)
{
    CURL *easy = NULL;
    CURLMsg *message;
    int left;

    if (!atomic_load(&m->has_ended))
        return NULL;
    take_turn(m);
    while (!easy && (message = curl_multi_info_read(m->curl, &left)))
        if (message->msg == CURLMSG_DONE) {
            easy = message->easy_handle;
            *code = message->data.result;
        }
    if (!easy)
        atomic_store(&m->has_ended, false);
    hr__unlock(&m->turn);
    return easy;
}

/* What an event brings; fd -1: the timer. True: a request has ended that nobody knows of. */
static bool act(hr_multi *m, curl_socket_t fd, const hr_ready *ready)
{
    int running = 0, what = 0;
    bool tells;

    if (ready)
        what = (ready->readable ? CURL_CSELECT_IN : 0) | (ready->writable ? CURL_CSELECT_OUT : 0);
    take_turn(m);
    curl_multi_socket_action(m->curl, fd, what, &running);
    tells = running < m->n_added && !atomic_exchange(&m->has_ended, true);
    hr__unlock(&m->turn);
    return tells;
}

/* Takes the timer's time: when it is over, the timer is off. */
static bool timer_is_over(hr_multi *m)
{
    bool over;

    take_turn(m);
    over = m->timer_ns && m->timer_ns <= hr__clock_ns();
    if (over)
        m->timer_ns = 0;
    hr__unlock(&m->turn);
    return over;
}

/* Milliseconds until something has to be done without an event. */
static int time_left(hr_multi *m, int64_t due_ns)
{
    int64_t at = due_ns, now = hr__clock_ns();

    take_turn(m);
    if (m->timer_ns)
        at = HR_MIN(at, m->timer_ns);
    hr__unlock(&m->turn);
    return at == INT64_MAX ? -1 : (int)HR_MAX(0, HR_MIN((at - now + 999999) / 1000000, LONGEST_WAIT_MS));
}

bool hr__multi_turn(hr_multi *m, int64_t due_ns)
{
    hr_ready ready[64];
    int n, ms = time_left(m, due_ns);
    bool tells = false;

    if (m->woke_ns)
        atomic_fetch_add(&m->busy_ns, hr__clock_ns() - m->woke_ns);
    n = hr__watch_wait_ready(m->watch, ready, HR_LEN(ready), ms);
    m->woke_ns = hr__clock_ns();
    for (int i = 0; i < n; i++)
        if (ready[i].key == WAKE_KEY)
            hr__event_clear(m->wake);
        else
            tells |= act(m, (curl_socket_t)ready[i].key, &ready[i]);
    if (timer_is_over(m))
        tells |= act(m, CURL_SOCKET_TIMEOUT, NULL);
    return tells;
}

static void thread_main(void *arg)
{
    hr_multi *m = arg;

    while (!atomic_load(&m->stop))
        if (hr__multi_turn(m, INT64_MAX))
            m->on_ended();
}

int hr__multi_start(hr_multi *m, void (*on_ended)(void))
{
    int rc;

    m->on_ended = on_ended;
    rc = hr__thread_start(&m->thread, "hr-network", thread_main, m);
    m->has_thread = rc >= 0;
    return HR_MIN(rc, 0);
}

void hr__multi_stop(hr_multi *m)
{
    if (!m->has_thread)
        return;
    atomic_store(&m->stop, true);
    hr__multi_wake(m);
    hr__thread_join(m->thread);
    m->has_thread = false;
}

#endif
