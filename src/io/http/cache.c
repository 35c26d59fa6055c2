/* cache.c - ranges of remote objects in a folder of this machine, for all of its processes and for later runs.
 *
 *     FOLDER/v1/KEY/AT-N     N bytes of an object from byte AT on: a hash of 16 bytes for each block, then the bytes
 *     FOLDER/v1/.lock        who has its lock removes what has not been used for longest
 *
 * KEY is a hash of the object's URL, ETag and size: another version is another folder, and no name has a secret. An
 * object without an ETag is not cached. The hash of a block also has KEY, the range and the block's number, so that no
 * file passes for another. What a hash does not fit is removed, and fetched again.
 *
 * The folder's limit, its oldest files and half-written ones are cache_folder.c's. Nothing here is an error of a run.
 *
 * Tests: test_cache.c, test_cache.py. */
#include "io/cache_folder.h"
#include "io/http/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCK_BYTES (64 << 10)
#define HASH_BYTES 16

typedef struct range {
    int64_t at, n;
} range;

struct hr_cached {
    hr_account *account;
    char *root, *folder; /* "FOLDER/v1", "FOLDER/v1/KEY" */
    int64_t limit;
    hr_bits128 key;
    range *ranges; /* by `at`; some overlap */
    int64_t n, cap, longest;
};

static hr_cache_state state;

void hr__cache_forget(void)
{
    atomic_store(&state.unseen, 0);
    atomic_store(&state.paused_until, 0);
    atomic_store(&state.due, 0);
}

/* The file of a range, new; NULL: no memory. */
static char *path_of(const hr_cached *c, range r)
{
    return hr__printf(c->account, "%s/%" PRId64 "-%" PRId64, c->folder, r.at, r.n);
}

/* "AT-N" */
static bool parse_name(const char *name, range *out)
{
    char *end;

    if (*name < '0' || *name > '9')
        return false;
    errno = 0;
    out->at = strtoll(name, &end, 10);
    if (*end != '-' || end[1] < '0' || end[1] > '9')
        return false;
    out->n = strtoll(end + 1, &end, 10);
    return !*end && !errno && out->n > 0 && out->at <= INT64_MAX - out->n;
}

static int64_t blocks_of(int64_t n) { return (n + BLOCK_BYTES - 1) / BLOCK_BYTES; }

static void hash_block(const hr_cached *c, range r, int64_t block, const void *data, int64_t n, uint8_t *out)
{
    hr_hash h;
    hr_bits128 end;

    hr__hash_init(&h, c->key.lo);
    hr__hash_int(&h, (int64_t)c->key.hi);
    hr__hash_int(&h, r.at);
    hr__hash_int(&h, r.n);
    hr__hash_int(&h, block);
    hr__hash_add(&h, data, (size_t)n);
    end = hr__hash_end(&h);
    memcpy(out, &end.lo, 8);
    memcpy(out + 8, &end.hi, 8);
}

/* ----------------------------------------------------------------------------------------------------------- ranges */

/* The place of the first range that begins behind `at`. */
static int64_t behind(const hr_cached *c, int64_t at)
{
    int64_t low = 0, high = c->n;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;

        if (c->ranges[mid].at <= at)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* The place of the range that has the byte at `at` and ends last; -1: none. */
static int64_t find(const hr_cached *c, int64_t at)
{
    int64_t found = -1, end = at;

    for (int64_t i = behind(c, at) - 1; i >= 0 && c->ranges[i].at > at - c->longest; i--)
        if (c->ranges[i].at + c->ranges[i].n > end) {
            end = c->ranges[i].at + c->ranges[i].n;
            found = i;
        }
    return found;
}

int64_t hr__cached_end(const hr_cached *c, int64_t at)
{
    int64_t i = c ? find(c, at) : -1;

    return i < 0 ? at : c->ranges[i].at + c->ranges[i].n;
}

int64_t hr__cached_next(const hr_cached *c, int64_t at, int64_t end)
{
    int64_t i = c ? behind(c, at) : 0;

    return c && i < c->n ? HR_MIN(end, c->ranges[i].at) : end;
}

bool hr__cached_range(const hr_cached *c, int64_t at, int64_t *begin, int64_t *n)
{
    int64_t i = c ? find(c, at) : -1;

    if (i < 0)
        return false;
    *begin = c->ranges[i].at;
    *n = c->ranges[i].n;
    return true;
}

void hr__cached_drop(hr_cached *c, int64_t at, int64_t n)
{
    for (int64_t i = behind(c, at) - 1; i >= 0 && c->ranges[i].at == at; i--)
        if (c->ranges[i].n == n) {
            memmove(&c->ranges[i], &c->ranges[i + 1], (size_t)(--c->n - i) * sizeof *c->ranges);
            return;
        }
}

void hr__cached_add(hr_cached *c, int64_t at, int64_t n)
{
    int64_t i = behind(c, at);

    for (int64_t k = i - 1; k >= 0 && c->ranges[k].at == at; k--)
        if (c->ranges[k].n == n)
            return;
    if (!hr__grow(NULL, (void **)&c->ranges, &c->cap, c->n + 1, sizeof *c->ranges))
        return;
    memmove(&c->ranges[i + 1], &c->ranges[i], (size_t)(c->n++ - i) * sizeof *c->ranges);
    c->ranges[i] = (range){ at, n };
    c->longest = HR_MAX(c->longest, n);
}

/* The ranges that the folder has. */
static void list_ranges(hr_cached *c)
{
    char **names;
    int n = hr__dir_list(c->folder, &names);
    range r;

    for (int i = 0; i < n; i++)
        if (parse_name(names[i], &r))
            hr__cached_add(c, r.at, r.n);
    if (n >= 0)
        hr__dir_list_free(names, n);
}

/* ----------------------------------------------------------------------------------------------------------- object */

/* Characters of the URL that name the object: a signature is none of them. */
static size_t identity_of(const char *url)
{
    static const char *const signs[] = { "Signature=", "sig=", "sig%3D" };
    size_t n = strcspn(url, "?");

    for (int i = 0; i < HR_LEN(signs); i++)
        if (strstr(url + n, signs[i]))
            return n;
    return strcspn(url, "#");
}

/* A hash of the object's URL without the user, and of its version. */
static hr_bits128 key_of(const char *url, const char *tag, int64_t n_bytes)
{
    const char *colon = strstr(url, "://"), *host = colon ? colon + 3 : url;
    size_t n = identity_of(url), scheme = (size_t)(host - url);
    hr_hash h;

    for (const char *at; (at = memchr(host, '@', strcspn(host, "/?#"))); host = at + 1)
        ;
    hr__hash_init(&h, 1);
    hr__hash_add(&h, url, scheme);
    hr__hash_int(&h, (int64_t)scheme);
    hr__hash_add(&h, host, n > (size_t)(host - url) ? n - (size_t)(host - url) : 0);
    hr__hash_text(&h, tag);
    hr__hash_int(&h, n_bytes);
    return hr__hash_end(&h);
}

hr_cached *hr__cached_open(const hr_store *store, const char *url, const char *tag, int64_t n_bytes,
                           hr_account *account)
{
    hr_cached *c;

    if (!store->cache_dir || !*store->cache_dir || !tag || !*tag || n_bytes <= 0)
        return NULL;
    c = hr__zalloc(account, sizeof *c);
    if (!c)
        return NULL;
    c->account = account;
    c->limit = store->cache_bytes;
    c->key = key_of(url, tag, n_bytes);
    c->root = hr__printf(account, "%s/v1", store->cache_dir);
    c->folder = hr__printf(account, "%s/v1/%016" PRIx64 "%016" PRIx64, store->cache_dir, c->key.hi, c->key.lo);
    if (!c->root || !c->folder) {
        hr__cached_free(c);
        return NULL;
    }
    list_ranges(c);
    return c;
}

void hr__cached_free(hr_cached *c)
{
    if (!c)
        return;
    hr__free(c->root);
    hr__free(c->folder);
    hr__free(c->ranges);
    hr__free(c);
}

/* ---------------------------------------------------------------------------------------------------------- reading */

/* Bytes [from, from + n) of the range. scratch: has room for one block. */
static bool read_blocks(const hr_cached *c, int fd, range r, int64_t from, int64_t n, uint8_t *scratch, uint8_t *out)
{
    int64_t head = blocks_of(r.n) * HASH_BYTES, end = from + n;
    uint8_t is[HASH_BYTES], want[HASH_BYTES];

    for (int64_t block = from / BLOCK_BYTES; block * BLOCK_BYTES < end; block++) {
        int64_t at = block * BLOCK_BYTES, m = HR_MIN(BLOCK_BYTES, r.n - at);
        int64_t low = HR_MAX(at, from), high = HR_MIN(at + m, end);
        bool whole = low == at && high == at + m;
        uint8_t *to = whole ? out + (at - from) : scratch;

        if (hr__file_read_at(fd, want, HASH_BYTES, block * HASH_BYTES) != HASH_BYTES ||
            hr__file_read_at(fd, to, m, head + at) != m)
            return false;
        hash_block(c, r, block, to, m, is);
        if (memcmp(is, want, HASH_BYTES) != 0)
            return false;
        if (!whole)
            memcpy(out + (low - from), scratch + (low - at), (size_t)(high - low));
    }
    return true;
}

bool hr__cached_read(const hr_cached *c, int64_t begin, int64_t n_range, int64_t at, int64_t n, uint8_t *out)
{
    char *path = path_of(c, (range){ begin, n_range });
    uint8_t *scratch = hr__alloc(c->account, BLOCK_BYTES);
    int fd = path && scratch ? hr__file_open(path) : -ENOMEM;
    bool good = false;

    if (fd >= 0) {
        good = read_blocks(c, fd, (range){ begin, n_range }, at - begin, n, scratch, out);
        if (good)
            hr__cache_touch(fd);
        else
            (void)hr__file_remove(path);
        hr__file_close(fd);
    }
    hr__free(scratch);
    hr__free(path);
    return good;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

static int write_content(const hr_cached *c, int fd, range r, const uint8_t *data)
{
    int64_t n_head = blocks_of(r.n) * HASH_BYTES, rc;
    uint8_t *head = hr__alloc(c->account, (size_t)n_head);

    if (!head)
        return -ENOMEM;
    for (int64_t block = 0; block < blocks_of(r.n); block++) {
        int64_t at = block * BLOCK_BYTES;

        hash_block(c, r, block, data + at, HR_MIN(BLOCK_BYTES, r.n - at), head + block * HASH_BYTES);
    }
    rc = hr__file_write(fd, head, n_head);
    if (rc >= 0)
        rc = hr__file_write(fd, data, r.n);
    hr__free(head);
    return rc < 0 ? (int)rc : 0;
}

/* -> 0, or -errno. */
static int write_file(const hr_cached *c, range r, const uint8_t *data, hr_error *err)
{
    char *path = path_of(c, r), *tmp = NULL;
    int fd = path ? hr__cache_create(c->folder, path, c->account, &tmp, err) : -ENOMEM, rc = fd;

    if (fd >= 0)
        rc = hr__cache_commit(fd, tmp, path, write_content(c, fd, r, data));
    hr__free(path);
    return rc;
}

static bool is_range(const char *name)
{
    range r;

    return parse_name(name, &r);
}

bool hr__cached_write(const hr_cached *c, int64_t at, int64_t n, const uint8_t *data)
{
    const hr_cache_folder folder = { .root = c->root, .limit = c->limit, .is_entry = is_range, .state = &state };
    hr_error err = HR_ERROR_INIT;
    int rc;

    if (n > c->limit / 8 || !hr__cache_room(&folder, n))
        return false;
    rc = write_file(c, (range){ at, n }, data, &err);
    hr__cache_wrote(&folder, n);
    if (rc)
        hr__cache_pause(&folder, rc, &err);
    hr_error_clear(&err);
    return !rc;
}
