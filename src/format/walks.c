/* walks.c - what walks have found: a list of the process, the last used first.
 *
 * A tar archive or a file of records has no index: opening it reads through it. The schema, each run and each epoch
 * open it, and over a network its bytes would travel for each of them. What the walk found is small (some bytes for
 * each fragment) and stays valid as long as the version is the same: each request for rows requires the same ETag.
 *
 * Tests: test_walks.c, test_tar.c, test_stores.py. */
#include "format/walks.h"

#include <pthread.h>

#define MOST_BYTES (16 << 20)
#define MOST_WALKS 4096 /* the list is searched from its beginning */
#define LIMIT_SHARE 64

typedef struct walk {
    struct walk *next;
    hr_bits128 key;
    int64_t n;
    uint8_t bytes[];
} walk;

static hr_mutex lock = HR_MUTEX_INIT; /* a leaf */
static walk *walks;                   /* guarded by lock */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init(void) { hr__mutex_survives_fork(&lock); }

static bool key_of(const hr_source *source, hr_bits128 how, hr_bits128 *out)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_add(&h, &how, sizeof how);
    if (!hr__walk_can_be_kept(source) || !source->cls->add_version(source, &h))
        return false;
    *out = hr__hash_end(&h);
    return true;
}

/* Takes the walk of this key out of the list; NULL: there is none. */
static walk *take_locked(hr_bits128 key)
{
    for (walk **at = &walks; *at; at = &(*at)->next)
        if ((*at)->key.lo == key.lo && (*at)->key.hi == key.hi) {
            walk *w = *at;

            *at = w->next;
            return w;
        }
    return NULL;
}

static void put_first_locked(walk *w)
{
    w->next = walks;
    walks = w;
}

/* -> the walks that are too many, for free_all. */
static walk *cut_locked(int64_t most)
{
    walk **at = &walks, *rest;
    int64_t n = 0, n_bytes = 0;

    for (; *at && n < MOST_WALKS && n_bytes + (*at)->n <= most; at = &(*at)->next) {
        n++;
        n_bytes += (*at)->n;
    }
    rest = *at;
    *at = NULL;
    return rest;
}

static void free_all(walk *w)
{
    for (walk *next; w; w = next) {
        next = w->next;
        hr__free(w);
    }
}

bool hr__walk_take(const hr_source *source, hr_bits128 how, hr_account *account, uint8_t **bytes, int64_t *n)
{
    hr_bits128 key;
    walk *w;

    *bytes = NULL;
    *n = 0;
    if (!key_of(source, how, &key))
        return false;
    pthread_once(&once, init);
    hr__lock(&lock);
    if ((w = take_locked(key))) {
        put_first_locked(w);
        *bytes = hr__alloc(account, (size_t)HR_MAX(w->n, 1));
        *n = w->n;
        if (*bytes)
            memcpy(*bytes, w->bytes, (size_t)w->n);
    }
    hr__unlock(&lock);
    return *bytes != NULL;
}

void hr__walk_keep(const hr_source *source, hr_bits128 how, hr_account *account, const void *bytes, int64_t n)
{
    int64_t most = HR_MIN(MOST_BYTES, hr__account_limit(account) / LIMIT_SHARE);
    walk *w, *old, *rest;
    hr_bits128 key;

    if (n > most / 4 || !key_of(source, how, &key) || !(w = hr__alloc(NULL, sizeof *w + (size_t)n)))
        return;
    w->key = key;
    w->n = n;
    if (n)
        memcpy(w->bytes, bytes, (size_t)n);
    pthread_once(&once, init);
    hr__lock(&lock);
    old = take_locked(key);
    put_first_locked(w);
    rest = cut_locked(most);
    hr__unlock(&lock);
    hr__free(old);
    free_all(rest);
}
