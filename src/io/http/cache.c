/* cache.c - ranges of remote objects in a folder of this machine, for all of its processes and for later runs.
 *
 *     FOLDER/v1/KEY/AT-N     N bytes of an object from byte AT on: a hash of 16 bytes for each block, then the bytes
 *     FOLDER/v1/.lock        who has its lock removes what has not been used for longest
 *
 * KEY is a hash of the object's URL, ETag and size: another version is another folder, and no name has a secret. An
 * object without an ETag is not cached. The hash of a block also has KEY, the range and the block's number, so that no
 * file passes for another. What a hash does not fit is removed, and fetched again.
 *
 * A file gets its name when it is complete. A process that was killed leaves files "*.tmp"; they are removed after
 * OLD_TMP_S. Nothing is synced: what a crash of the machine damages, the hashes find. Files that were read get the
 * present time, once in TOUCH_S, and the oldest go first.
 *
 * Each process looks at the folder before its first write and after each 1/64 of the limit: if there is more than the
 * limit, files go until 7/8 of it are left. As much of the disk as for spill files stays free, 1/50. A write that fails
 * is one warning, and nothing is written for PAUSE_NS; reading goes on. Nothing here is an error of a run.
 *
 * Tests: test_cache.c, test_cache.py. */
#include "io/http/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BLOCK_BYTES (64 << 10)
#define HASH_BYTES 16
#define OLD_TMP_S 3600
#define TOUCH_S 60
#define PAUSE_NS 60000000000
#define LOOKS 64 /* parts of the limit that a process writes between two looks */

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

static struct {
    _Atomic int64_t unseen, due;  /* bytes that were written since the last look; that make the next one due */
    _Atomic int64_t writing;      /* bytes that threads write now */
    _Atomic uint64_t root;        /* a hash of the folder of the last look */
    _Atomic int64_t paused_until; /* of the clock; 0: no write has failed */
} state;

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

/* The file is one that was read now. */
static void touch(int fd)
{
    hr_stat s;

    if (!hr__file_stat_fd(fd, &s) && (int64_t)time(NULL) - s.mtime_ns / 1000000000 >= TOUCH_S)
        hr__file_touch(fd);
}

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
            touch(fd);
        else
            (void)hr__file_remove(path);
        hr__file_close(fd);
    }
    hr__free(scratch);
    hr__free(path);
    return good;
}

/* ---------------------------------------------------------------------------------------------------------- looking */

typedef struct entry {
    int64_t mtime_ns, n_bytes; /* on the disk */
    int64_t path;              /* in `paths` */
} entry;

typedef struct look {
    hr_text paths; /* each with its NUL */
    entry *entries;
    int64_t n, cap, n_bytes;
} look;

static int older_first(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    return (x->mtime_ns > y->mtime_ns) - (x->mtime_ns < y->mtime_ns);
}

static void look_at_file(look *l, const char *folder, const char *name)
{
    int64_t at = l->paths.n;
    const char *end = strrchr(name, '.');
    const char *path;
    hr_stat s;
    range r;

    hr__text_add(&l->paths, "%s/%s", folder, name);
    hr__text_add_bytes(&l->paths, "", 1);
    if (l->paths.failed)
        return;
    path = l->paths.data + at;
    if (hr__file_stat(path, &s) || !s.is_file) {
        l->paths.n = at;
        return;
    }
    if (end && strcmp(end, ".tmp") == 0 && (int64_t)time(NULL) - s.mtime_ns / 1000000000 > OLD_TMP_S)
        (void)hr__file_remove(path);
    if (!parse_name(name, &r) || !hr__grow(NULL, (void **)&l->entries, &l->cap, l->n + 1, sizeof *l->entries)) {
        l->paths.n = at;
        return;
    }
    l->entries[l->n++] = (entry){ s.mtime_ns, s.n_bytes, at };
    l->n_bytes += s.n_bytes;
}

/* The folder of one object; an empty one goes. */
static void look_at_folder(look *l, const char *folder)
{
    char **names;
    int n = hr__dir_list(folder, &names);

    for (int i = 0; i < n; i++)
        look_at_file(l, folder, names[i]);
    if (n >= 0)
        hr__dir_list_free(names, n);
    if (n == 0)
        (void)hr__dir_remove(folder);
}

/* The limit, or less if the disk is nearly full. */
static int64_t allowed(const hr_cached *c, int64_t used)
{
    int64_t free_bytes, all;

    if (hr__disk_space(c->root, &free_bytes, &all))
        return c->limit;
    return HR_MIN(c->limit, used + free_bytes - all / 50);
}

/* Removes the oldest files unless n bytes fit in. */
static void remove_oldest(look *l, int64_t limit, int64_t n)
{
    if (l->n_bytes + n <= limit || l->paths.failed)
        return;
    qsort(l->entries, (size_t)l->n, sizeof *l->entries, older_first);
    for (int64_t i = 0; i < l->n && l->n_bytes > limit - limit / 8; i++)
        if (!hr__file_remove(l->paths.data + l->entries[i].path))
            l->n_bytes -= l->entries[i].n_bytes;
}

static void look_around(const hr_cached *c)
{
    look l = { { 0 }, NULL, 0, 0, 0 };
    char **names;
    int n = hr__dir_list(c->root, &names);
    int64_t most;

    for (int i = 0; i < n; i++) {
        char *folder = names[i][0] == '.' ? NULL : hr__printf(NULL, "%s/%s", c->root, names[i]);

        if (folder)
            look_at_folder(&l, folder);
        hr__free(folder);
    }
    if (n >= 0)
        hr__dir_list_free(names, n);
    most = HR_MAX(0, allowed(c, l.n_bytes));
    remove_oldest(&l, most, atomic_load(&state.writing));
    atomic_store(&state.due, HR_MIN(c->limit / LOOKS, HR_MAX(0, most - l.n_bytes) / 4));
    hr__text_clear(&l.paths);
    hr__free(l.entries);
}

/* Before a write of n bytes. Only one process looks at a time; the others go on. */
static void look_if_due(const hr_cached *c, int64_t n)
{
    int64_t unseen = atomic_fetch_add(&state.unseen, n) + n;
    hr_hash h;
    uint64_t hash;
    bool same;
    char *path;
    int fd;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, c->root);
    hash = hr__hash_end(&h).lo;
    same = atomic_exchange(&state.root, hash) == hash;
    if (same && unseen < HR_MIN(atomic_load(&state.due), c->limit / LOOKS))
        return;
    if (!(path = hr__printf(NULL, "%s/.lock", c->root)))
        return;
    atomic_store(&state.unseen, n);
    fd = hr__file_create_new(path);
    if (fd == -EEXIST)
        fd = hr__file_open_to_lock(path);
    if (fd >= 0) {
        if (hr__file_lock(fd) != -EAGAIN)
            look_around(c);
        else
            atomic_store(&state.due, c->limit / LOOKS);
        hr__file_close(fd);
    }
    hr__free(path);
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
static int write_file(const hr_cached *c, range r, const uint8_t *data)
{
    static atomic_int count;
    char *path = path_of(c, r);
    char *tmp = path ? hr__printf(c->account, "%s.%d-%d.tmp", path, hr__pid(), atomic_fetch_add(&count, 1)) : NULL;
    int fd = tmp ? hr__file_create_new(tmp) : -ENOMEM, rc = fd;

    if (fd >= 0) {
        int closed;

        rc = write_content(c, fd, r, data);
        closed = hr__file_close_written(fd);
        rc = rc ? rc : closed;
        rc = rc ? rc : hr__file_rename(tmp, path, true);
        if (rc)
            (void)hr__file_remove(tmp);
    }
    hr__free(tmp);
    hr__free(path);
    return rc;
}

/* The object's folder: of the first range, or another process took it. */
static bool make_folder(const hr_cached *c, hr_error *err)
{
    char *made = NULL;
    hr_status st = hr__folder_make(c->folder, c->account, &made, err);

    hr__free(made);
    return !st;
}

/* Writing stops for a while. */
static void pause_writing(const hr_cached *c, const char *why)
{
    int64_t now = hr__clock_ns(), was = atomic_exchange(&state.paused_until, now + PAUSE_NS);

    if (was <= now)
        hr__log(HR_LOG_WARNING, "cache %s: cannot write: %s; the data is not cached for the next %d seconds", c->root,
                why, (int)(PAUSE_NS / 1000000000));
}

bool hr__cached_write(const hr_cached *c, int64_t at, int64_t n, const uint8_t *data)
{
    int64_t paused = atomic_load(&state.paused_until);
    hr_error err = HR_ERROR_INIT;
    int rc;

    if (n > c->limit / 8 || (paused && hr__clock_ns() < paused))
        return false;
    atomic_fetch_add(&state.writing, n);
    look_if_due(c, n);
    rc = write_file(c, (range){ at, n }, data);
    if (rc == -ENOENT && make_folder(c, &err))
        rc = write_file(c, (range){ at, n }, data);
    atomic_fetch_sub(&state.writing, n);
    if (rc)
        pause_writing(c, err.status ? err.text : strerror(-rc));
    hr_error_clear(&err);
    return !rc;
}
