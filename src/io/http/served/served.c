/* served.c - the queue of requests for filesystems of the program, and the numbers of these filesystems.
 *
 * A request that hr__http_begin gets for a served filesystem becomes a *job* in the queue. A thread of the program
 * takes it (hr__served_take), does what it says, and answers. The job has copies of all that the thread needs: a
 * request that is cancelled leaves its job, and nobody waits for that thread.
 *
 * 1. A job is QUEUED, then TAKEN. It is PINNED while its thread copies bytes from or to the memory of the request: a
 *    cancel waits for these copies.
 * 2. `done` of a cancelled request is called by a thread that takes the next job, or by the poller, whoever is first:
 *    hr__http_cancel may be called under locks that `done` takes.
 * 3. What a thread of the program holds for a job is charged to the account of the request.
 * 4. A filesystem lives as long as stores refer to it. Then its number comes out of hr__served_take, so that the
 *    program frees its object on a thread of its own.
 *
 * Lock: served.lock, for all filesystems of the process, a leaf; no `done` is called under it. A forked child begins
 * with an empty queue: the requests of the parent are lost in the child (url_source.c), which asks again.
 *
 * Tests: test_served.c. */
#include "io/http/http.h"
#include "io/poll.h"

#include <inttypes.h>
#include <stdio.h>

typedef enum job_state { QUEUED, TAKEN, PINNED } job_state;

struct hr_served_job {
    hr_served_job *next;
    hr_http_request *request; /* under the lock; NULL: nobody waits for the answer */
    job_state state;
    int64_t filesystem;
    char *path, *query, *tag, *lines; /* query: after '?', "": none; tag, lines: NULL: none */
    uint8_t *data;                    /* that the request sends; from the take on */
    hr_account *account;              /* a reference */
    int64_t charged;
};

typedef struct hr_served {
    struct hr_served *next;
    int64_t number;
    int64_t refs; /* under the lock */
} hr_served;

static struct {
    hr_mutex lock;
    hr_cond changed; /* a job, a filesystem that has gone, a pinned job that is free again */
    int pid;
    hr_served_job *first, **last;
    int n_waiting;
    hr_http_request *cancelled; /* whose `done` has to be called, linked by `next` */
    bool ticks;                 /* the poller looks at `cancelled` */
    hr_served *all, *gone;
    int64_t n_numbers;
} served = { .lock = HR_MUTEX_INIT };

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void served_init(void) { hr__mutex_survives_fork(&served.lock); }

static void served_lock(void)
{
    pthread_once(&once, served_init);
    hr__lock(&served.lock);
    if (served.pid == hr__pid())
        return;
    served.pid = hr__pid();
    hr__cond_init(&served.changed);
    served.first = NULL;
    served.last = &served.first;
    served.n_waiting = 0;
    served.cancelled = NULL;
    served.ticks = false;
}

static void served_unlock(void) { hr__unlock(&served.lock); }

/* ------------------------------------------------------------------------------------------------------ filesystems */

hr_status hr__served_new(int64_t *number, hr_error *err)
{
    hr_served *fs = hr__zalloc(NULL, sizeof *fs);

    *number = 0;
    if (!fs)
        return hr__error_memory(err, "filesystem", sizeof *fs);
    fs->refs = 1;
    served_lock();
    fs->number = *number = ++served.n_numbers;
    fs->next = served.all;
    served.all = fs;
    served_unlock();
    return HR_OK;
}

static hr_served **place_of_locked(int64_t number)
{
    hr_served **at = &served.all;

    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

hr_status hr__served_ref(int64_t number, hr_error *err)
{
    hr_served *fs;

    served_lock();
    fs = *place_of_locked(number);
    if (fs)
        fs->refs++;
    served_unlock();
    return fs ? HR_OK : hr_error_set(err, HR_INVALID, "the filesystem of this path is not one of this process");
}

void hr__served_unref(int64_t number)
{
    hr_served **at, *fs;

    if (!number)
        return;
    served_lock();
    at = place_of_locked(number);
    fs = *at;
    if (fs && --fs->refs == 0) {
        *at = fs->next;
        fs->next = served.gone;
        served.gone = fs;
        hr__cond_broadcast(&served.changed);
    }
    served_unlock();
}

/* ------------------------------------------------------------------------------------------------------------- jobs */

static void job_free(hr_served_job *job)
{
    if (!job)
        return;
    if (job->charged)
        hr__account_charge(job->account, -job->charged);
    hr__account_unref(job->account);
    hr__free(job->path);
    hr__free(job->query);
    hr__free(job->tag);
    hr__free(job->lines);
    hr__free(job->data);
    hr__free(job);
}

static hr_status job_new(const hr_http_request *r, hr_served_job **out, hr_error *err)
{
    hr_served_job *job = hr__zalloc(NULL, sizeof *job);
    const char *mark = strchr(r->url, '?');

    *out = job;
    if (!job)
        return hr__error_memory(err, "request", sizeof *job);
    job->filesystem = r->store->filesystem;
    job->path = hr__strdup(NULL, hr__place(r->url).key);
    job->query = hr__strdup(NULL, mark ? mark + 1 : "");
    job->tag = hr__strdup(NULL, r->if_match);
    job->lines = hr__strdup(NULL, r->more);
    if (!job->path || !job->query || (r->if_match && !job->tag) || (r->more && !job->lines)) {
        job_free(job);
        *out = NULL;
        return hr__error_memory(err, "request", (int64_t)strlen(r->url));
    }
    job->path[strcspn(job->path, "?")] = 0;
    (void)hr__percent_decode(job->path);
    job->account = r->account ? hr__account_ref(r->account) : NULL;
    return HR_OK;
}

hr_status hr__served_begin(hr_http_request *r, hr_error *err)
{
    hr_served_job *job;

    HR_TRY(job_new(r, &job, err));
    hr__network_count(r->account, HR_TRAFFIC_REQUESTS, 1);
    served_lock();
    r->job = job;
    job->request = r;
    *served.last = job;
    served.last = &job->next;
    served.n_waiting++;
    hr__cond_broadcast(&served.changed); /* not one: those who cancel wait too */
    served_unlock();
    return HR_OK;
}

/* ------------------------------------------------------------------------------------------------------ cancelling */

/* Calls `done` of the cancelled requests. */
static void finish_cancelled(void)
{
    hr_http_request *list, *r;

    served_lock();
    list = served.cancelled;
    served.cancelled = NULL;
    served_unlock();
    while ((r = list)) {
        list = r->next;
        r->st = hr_error_set(&r->err, HR_CANCELLED, "the run was stopped");
        r->done(r);
    }
}

/* Ends when nothing is left: a cancel that comes while it ends leaves its request to the look below. */
static void tick(void *context)
{
    bool idle, again;

    finish_cancelled();
    served_lock();
    idle = !served.cancelled;
    served_unlock();
    if (!idle)
        return;
    hr__poller_tick_remove(tick, context);
    served_lock();
    served.ticks = again = served.cancelled != NULL;
    served_unlock();
    if (again && hr__poller_tick_add(tick, context, NULL))
        finish_cancelled();
}

/* Takes the job out of the queue. */
static void unqueue_locked(hr_served_job *job)
{
    hr_served_job **at = &served.first;

    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (served.last == &job->next)
        served.last = at;
    served.n_waiting--;
}

void hr__served_cancel(hr_http_request *r)
{
    hr_served_job *job, *mine = NULL;
    bool ticks = false;

    served_lock();
    while ((job = r->job) && job->state == PINNED)
        hr__cond_wait(&served.changed, &served.lock);
    if (job) {
        if (job->state == QUEUED) {
            unqueue_locked(job);
            mine = job;
        }
        job->request = NULL;
        r->job = NULL;
        r->next = served.cancelled;
        served.cancelled = r;
        ticks = !served.ticks;
        served.ticks = true;
        hr__cond_broadcast(&served.changed);
    }
    served_unlock();
    job_free(mine);
    if (ticks && hr__poller_tick_add(tick, NULL, NULL)) { /* no memory: the threads of the program are left */
        served_lock();
        served.ticks = false;
        served_unlock();
    }
}

/* ----------------------------------------------------------------------------------------- threads of the program */

/* What the request sends, copied; its thread holds as many bytes, and those that it reads. */
static void load(hr_served_job *job, hr_http_request *r)
{
    if (r->n_data > 0 && (job->data = hr__alloc(job->account, (size_t)r->n_data)))
        for (int64_t i = 0, at = 0; i < hr__http_pieces(r); i++) {
            hr_http_piece p = hr__http_piece(r, i);

            memcpy(job->data + at, p.data, (size_t)p.n);
            at += p.n;
        }
    job->charged = r->n_bytes + r->n_data;
    hr__account_charge(job->account, job->charged);
}

static void describe(hr_served_job *job, const hr_http_request *r, hr_served_call *out)
{
    *out = (hr_served_call){ .job = job,
                             .filesystem = job->filesystem,
                             .method = r->method,
                             .path = job->path,
                             .query = job->query,
                             .tag = job->tag,
                             .lines = job->lines,
                             .offset = r->offset,
                             .n_bytes = r->n_bytes,
                             .n_file = r->answer.total,
                             .data = job->data,
                             .n_data = r->n_data };
}

/* Gives the copied job to its thread; false: the request sends bytes, for which there was no memory. */
static bool hand_out(hr_served_job *job, hr_http_request *r, hr_served_call *out)
{
    load(job, r);
    describe(job, r, out);
    return !r->n_data || job->data;
}

bool hr__served_take(int64_t wait_ns, hr_served_call *out)
{
    int64_t until = hr__clock_ns() + wait_ns;
    hr_served_job *job;
    hr_served *gone;

    for (;;) {
        *out = (hr_served_call){ 0 };
        served_lock();
        while (!served.first && !served.gone && !served.cancelled && hr__clock_ns() < until)
            (void)hr__cond_wait_ns(&served.changed, &served.lock, HR_MAX(1, until - hr__clock_ns()));
        if (served.cancelled) {
            served_unlock();
            finish_cancelled();
            continue;
        }
        if ((gone = served.gone)) {
            served.gone = gone->next;
            served_unlock();
            out->gone = gone->number;
            hr__free(gone);
            return true;
        }
        if (!(job = served.first)) {
            served_unlock();
            return false;
        }
        unqueue_locked(job);
        out->n_waiting = served.n_waiting;
        job->state = PINNED;
        served_unlock();
        if (!hand_out(job, job->request, out)) {
            hr_error err = HR_ERROR_INIT;

            (void)hr__error_memory(&err, "a part of a file", job->request->n_data);
            hr__served_refuse(job, &err);
            continue;
        }
        served_lock();
        job->state = TAKEN;
        out->n_waiting = served.n_waiting;
        hr__cond_broadcast(&served.changed);
        served_unlock();
        return true;
    }
}

/* Pins the request of a job; NULL: it was cancelled. */
static hr_http_request *pin(hr_served_job *job)
{
    hr_http_request *r;

    served_lock();
    if ((r = job->request))
        job->state = PINNED;
    served_unlock();
    return r;
}

/* The request has its answer. Takes the job. */
static void settle(hr_served_job *takes, hr_http_request *r)
{
    if (r) {
        served_lock();
        r->job = NULL;
        hr__cond_broadcast(&served.changed); /* who cancels finds no job */
        served_unlock();
    }
    job_free(takes);
    if (r)
        r->done(r);
}

static hr_status take_bytes(hr_http_request *r, const char *path, const void *data, int64_t n)
{
    hr__network_count(r->account, HR_TRAFFIC_BYTES, n);
    if (!r->n_bytes) {
        hr__text_add_bytes(&r->body, data, n);
        return r->body.failed ? hr__error_memory(&r->err, "answer of a filesystem", n) : HR_OK;
    }
    if (n != r->n_bytes)
        return hr_error_set(&r->err, HR_BAD_DATA,
                            "%s: the filesystem gives %" PRId64 " bytes at %" PRId64 ", expected %" PRId64
                            ": the file was cut or replaced since it was listed",
                            path, n, r->offset, r->n_bytes);
    memcpy(r->out, data, (size_t)n);
    r->n_got = n;
    return HR_OK;
}

void hr__served_answer(hr_served_job *takes, const void *data, int64_t n, const char *tag)
{
    hr_http_request *r = pin(takes);

    if (r) {
        r->st = take_bytes(r, takes->path, data, n);
        if (tag)
            snprintf(r->answer.etag, sizeof r->answer.etag, "%s", tag);
    }
    settle(takes, r);
}

void hr__served_refuse(hr_served_job *takes, hr_error *err)
{
    hr_http_request *r = pin(takes);

    if (r) {
        hr__error_move(&r->err, err);
        r->st = hr__error_at(&r->err, r->err.status, "%s", takes->path[0] ? takes->path : "/");
    }
    hr_error_clear(err);
    settle(takes, r);
}
