/* cache_folder.c - a folder of files that can be made again; cache_folder.h has its layout.
 *
 * A file gets its name when it is complete. A process that was killed leaves files "*.tmp"; they are removed after
 * OLD_TMP_S. Nothing is synced: the owner of the files checks them when it reads them. Files that were read get the
 * present time, once in TOUCH_S.
 *
 * Each process looks at the folder before its first write and after each 1/LOOKS of the limit: if there is more than
 * the limit, files go until 7/8 of it are left. 1/50 of the disk stays free. A write that fails is one warning, and
 * nothing is written for PAUSE_NS; reading goes on. A disk without room for more rows is one warning of the process.
 *
 * Two orders. Parts of objects are read at random, so the oldest goes first. Rows of a plan are read from the first to
 * the last, again and again: if they do not all fit, then the oldest is the one that is needed next, and a cache that
 * replaces it never hits. So a group of rows keeps what it has, and new rows are not stored.
 *
 * Tests: test_cache.c, test_row_cache.c. */
#include "io/cache_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define OLD_TMP_S 3600
#define TOUCH_S 60
#define PAUSE_NS 60000000000
#define LOOKS 64 /* parts of the limit that a process writes between two looks */
#define LOCK ".lock"

typedef struct group {
    int64_t newest_ns; /* of its files */
    bool stays;
} group;

typedef struct entry {
    int64_t mtime_ns, n_bytes; /* on the disk */
    int64_t path;              /* in `paths` */
    int64_t group;
    bool stays;
    int64_t order[3]; /* ascending: which goes first */
} entry;

typedef struct look {
    const hr_cache_folder *folder;
    hr_text paths; /* each with its NUL */
    group *groups;
    entry *entries;
    int64_t n, cap, n_groups, cap_groups, n_bytes;
} look;

void hr__cache_touch(int fd)
{
    hr_stat s;

    if (!hr__file_stat_fd(fd, &s) && (int64_t)time(NULL) - s.mtime_ns / 1000000000 >= TOUCH_S)
        hr__file_touch(fd);
}

/* ----------------------------------------------------------------------------------------------------------- locks */

/* -> fd of the file PATH/.lock, which is made. */
static int open_lock(const char *folder, hr_account *account)
{
    char *path = hr__printf(account, "%s/" LOCK, folder);
    int fd = path ? hr__file_create_new(path) : -ENOMEM;

    if (fd == -EEXIST)
        fd = hr__file_open_to_lock(path);
    hr__free(path);
    return fd;
}

int hr__cache_hold(const char *folder, hr_account *account)
{
    int fd = open_lock(folder, account);

    if (fd >= 0 && hr__file_lock(fd)) {
        hr__file_close(fd);
        return -1;
    }
    return fd;
}

/* A process holds the group. */
static bool is_held(const char *folder)
{
    int fd = open_lock(folder, NULL), rc;

    if (fd < 0)
        return false;
    rc = hr__file_lock(fd);
    hr__file_close(fd);
    return rc == -EAGAIN;
}

static void remove_lock(const char *folder)
{
    char *path = hr__printf(NULL, "%s/" LOCK, folder);

    if (path)
        (void)hr__file_remove(path);
    hr__free(path);
}

/* --------------------------------------------------------------------------------------------------------- looking */

static int order_of(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    for (int i = 0; i < HR_LEN(x->order); i++)
        if (x->order[i] != y->order[i])
            return x->order[i] < y->order[i] ? -1 : 1;
    return 0;
}

static void look_at_file(look *l, const char *folder, const char *name)
{
    int64_t at = l->paths.n;
    const char *end = strrchr(name, '.');
    group *g = &l->groups[l->n_groups - 1];
    const char *path;
    hr_stat s;

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
    if (!l->folder->is_entry(name) || !hr__grow(NULL, (void **)&l->entries, &l->cap, l->n + 1, sizeof *l->entries)) {
        l->paths.n = at;
        return;
    }
    l->entries[l->n++] = (entry){ .mtime_ns = s.mtime_ns, .n_bytes = s.n_bytes, .path = at, .group = l->n_groups - 1 };
    g->newest_ns = HR_MAX(g->newest_ns, s.mtime_ns);
    l->n_bytes += s.n_bytes;
}

/* One group; the folder goes if it is empty. */
static void look_at_group(look *l, const char *folder)
{
    char **names;
    int n = hr__dir_list(folder, &names);

    if (n < 0)
        return;
    if (hr__grow(NULL, (void **)&l->groups, &l->cap_groups, l->n_groups + 1, sizeof *l->groups)) {
        bool stays = l->folder->group && (!strcmp(folder, l->folder->group) || is_held(folder));

        l->groups[l->n_groups++] = (group){ .stays = stays };
        for (int i = 0; i < n; i++)
            look_at_file(l, folder, names[i]);
        if (n == 1 && !strcmp(names[0], LOCK) && !stays)
            remove_lock(folder);
    }
    hr__dir_list_free(names, n);
    if (n <= 1)
        (void)hr__dir_remove(folder);
}

/* The limit, or less if the disk is nearly full. */
static int64_t allowed(const hr_cache_folder *f, int64_t used)
{
    int64_t free_bytes, all;

    if (hr__disk_space(f->root, &free_bytes, &all))
        return f->limit;
    return HR_MAX(0, HR_MIN(f->limit, used + free_bytes - all / 50));
}

static void set_orders(look *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        entry *e = &l->entries[i];
        const group *g = &l->groups[e->group];

        e->stays = g->stays;
        e->order[0] = g->stays;
        e->order[1] = l->folder->group ? g->newest_ns : e->mtime_ns;
        e->order[2] = l->folder->group ? -e->mtime_ns : 0;
    }
}

/* Removes files unless n more bytes fit in. */
static void make_room(look *l, int64_t limit, int64_t n)
{
    if (l->n_bytes + n <= limit || l->paths.failed)
        return;
    set_orders(l);
    qsort(l->entries, (size_t)l->n, sizeof *l->entries, order_of);
    for (int64_t i = 0; i < l->n && l->n_bytes > (l->entries[i].stays ? limit : limit - limit / 8); i++)
        if (!hr__file_remove(l->paths.data + l->entries[i].path))
            l->n_bytes -= l->entries[i].n_bytes;
}

static uint64_t hash_of(const char *root)
{
    hr_hash h;

    hr__hash_init(&h, 0);
    hr__hash_text(&h, root);
    return hr__hash_end(&h).lo;
}

/* No more rows fit in. The disk is full where it has less than the limit. */
static void stop_rows(const hr_cache_folder *f, bool disk)
{
    uint64_t root = hash_of(f->root);

    atomic_store(&f->state->full_until, hr__clock_ns() + PAUSE_NS);
    if (disk && atomic_exchange(&f->state->full_root, root) != root)
        hr__log(HR_LOG_WARNING, "cache %s: the disk is full (1/50 of it stays free): more rows are not cached",
                f->root);
}

static void look_around(const hr_cache_folder *f)
{
    look l = { .folder = f };
    char **names;
    int n = hr__dir_list(f->root, &names);
    int64_t most, writing = atomic_load(&f->state->writing);

    for (int i = 0; i < n; i++) {
        char *folder = names[i][0] == '.' ? NULL : hr__printf(NULL, "%s/%s", f->root, names[i]);

        if (folder)
            look_at_group(&l, folder);
        hr__free(folder);
    }
    if (n >= 0)
        hr__dir_list_free(names, n);
    most = allowed(f, l.n_bytes);
    make_room(&l, most, writing);
    atomic_store(&f->state->due, HR_MIN(f->limit / LOOKS, HR_MAX(0, most - l.n_bytes) / 4));
    if (f->group && l.n_bytes + writing > most)
        stop_rows(f, most < f->limit);
    hr__text_clear(&l.paths);
    hr__free(l.groups);
    hr__free(l.entries);
}

/* Before a write of n bytes. Only one process looks at a time; the others go on. */
static void look_if_due(const hr_cache_folder *f, int64_t n)
{
    int64_t unseen = atomic_fetch_add(&f->state->unseen, n) + n;
    uint64_t hash = hash_of(f->root);
    bool same = atomic_exchange(&f->state->root, hash) == hash;
    int fd;

    if (same && unseen < HR_MIN(atomic_load(&f->state->due), f->limit / LOOKS))
        return;
    atomic_store(&f->state->unseen, n);
    if ((fd = open_lock(f->root, NULL)) < 0)
        return;
    if (hr__file_lock(fd) != -EAGAIN)
        look_around(f);
    else
        atomic_store(&f->state->due, f->limit / LOOKS);
    hr__file_close(fd);
}

/* --------------------------------------------------------------------------------------------------------- writing */

static bool before(const _Atomic int64_t *until)
{
    int64_t ns = atomic_load(until);

    return ns && hr__clock_ns() < ns;
}

/* Another folder may be fine: the user has named it because this one was not. */
static bool is_paused(const hr_cache_folder *f)
{
    return before(&f->state->paused_until) && atomic_load(&f->state->paused_root) == hash_of(f->root);
}

bool hr__cache_room(const hr_cache_folder *f, int64_t n)
{
    if (is_paused(f) || before(&f->state->full_until))
        return false;
    atomic_fetch_add(&f->state->writing, n);
    look_if_due(f, n);
    if (!before(&f->state->full_until))
        return true;
    atomic_fetch_sub(&f->state->writing, n);
    return false;
}

void hr__cache_wrote(const hr_cache_folder *f, int64_t n) { atomic_fetch_sub(&f->state->writing, n); }

int hr__cache_create(const char *folder, const char *path, hr_account *account, char **tmp, hr_error *err)
{
    static atomic_int count;
    char *made = NULL;
    int fd;

    *tmp = hr__printf(account, "%s.%d-%d.tmp", path, hr__pid(), atomic_fetch_add(&count, 1));
    fd = *tmp ? hr__file_create_new(*tmp) : -ENOMEM;
    if (fd == -ENOENT && !hr__folder_make(folder, account, &made, err))
        fd = hr__file_create_new(*tmp);
    hr__free(made);
    if (fd < 0) {
        hr__free(*tmp);
        *tmp = NULL;
    }
    return fd;
}

int hr__cache_commit(int fd, char *tmp, const char *path, int rc)
{
    int closed = hr__file_close_written(fd);

    rc = rc ? rc : closed;
    rc = rc ? rc : hr__file_rename(tmp, path, true);
    if (rc)
        (void)hr__file_remove(tmp);
    hr__free(tmp);
    return rc;
}

void hr__cache_pause(const hr_cache_folder *f, int rc, const hr_error *err)
{
    int64_t now = hr__clock_ns(), was = atomic_exchange(&f->state->paused_until, now + PAUSE_NS);
    uint64_t root = hash_of(f->root);

    if (atomic_exchange(&f->state->paused_root, root) != root || was <= now)
        hr__log(HR_LOG_WARNING, "cache %s: cannot write: %s; the data is not cached for the next %d seconds", f->root,
                err && err->status ? err->text : strerror(-rc), (int)(PAUSE_NS / 1000000000));
}
