/* part.c - hidden names of files that are being written, and the removal of those whose writer has ended.
 *
 *   .headrace-<space>-<pid>-<start>-<lease>-<n>.part     a file
 *   .headrace-<space>-<pid>-<start>-<lease>.lease        an empty file; its writer holds a lock on it
 *
 * Processes, containers of one host, and machines share folders. hr__part_sweep() removes a file only if one of two
 * facts proves that the writer has ended; every other file stays:
 *
 * 1. The lease lies in the folder and no process holds its lock. The lock ends with the process, in any container, and
 *    with a restart of the machine. Only file systems where every process sees the locks have leases (hr__file_lock).
 * 2. The writer's space is ours (hr_process: boot id, pid and time namespace), and its process is gone.
 *
 * A lease is locked before it gets its name, and loses its name while it is locked: a lease with a name and without a
 * lock belongs to a killed writer. Of two sweeps at once, one holds the lock and the other one leaves the files. */
#include "io/io.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#define HIDDEN ".headrace-"
#define PART ".part"
#define LEASE ".lease"
#define MAX_LEASES 16 /* a descriptor each; files in further folders have no lease */

/* ----------------------------------------------------------------------------------------------------------- names */

/* The name up to its number: `.headrace-<space>-<pid>-<start>-<lease>`, in `folder` ("": the current one). */
static char *owner_name(const char *folder, uint64_t lease, hr_account *account)
{
    size_t n = strlen(folder);
    hr_process self;

    (void)hr__process_self(&self); /* zero if unknown: rule 2 never applies then */
    return hr__printf(account, "%s%s" HIDDEN "%016" PRIx64 "-%d-%" PRId64 "-%016" PRIx64, folder,
                      n > 0 && folder[n - 1] != '/' ? "/" : "", self.space, self.pid, self.start_ticks, lease);
}

char *hr__part_name(const char *folder, hr_leases *leases, hr_account *account)
{
    static _Atomic uint64_t next;
    char *owner = owner_name(folder, leases ? hr__lease_of(leases, folder) : 0, account), *name = NULL;
    uint64_t n = atomic_fetch_add(&next, 1), random = 0;

    if (owner && strstr(owner, HIDDEN "0000000000000000-0-") && !hr__random_secret(&random, sizeof random))
        n = random; /* another process with such a name may use the same numbers */
    if (owner)
        name = hr__printf(account, "%s-%" PRIu64 PART, owner, n);
    hr__free(owner);
    return name;
}

typedef struct hidden {
    hr_process owner;
    uint64_t lease;
    int n_owner; /* bytes of the name before its number, or before its suffix */
    bool is_lease;
} hidden;

static bool parse(const char *name, hidden *out)
{
    int n = 0, end = 0;
    const char *rest;

    *out = (hidden){ 0 };
    if (strncmp(name, HIDDEN, sizeof HIDDEN - 1) != 0)
        return false;
    if (sscanf(name + sizeof HIDDEN - 1, "%16" SCNx64 "-%d-%" SCNd64 "-%16" SCNx64 "%n", &out->owner.space,
               &out->owner.pid, &out->owner.start_ticks, &out->lease, &n) != 4 ||
        !n)
        return false;
    out->n_owner = (int)sizeof HIDDEN - 1 + n;
    rest = name + out->n_owner;
    out->is_lease = strcmp(rest, LEASE) == 0;
    return out->is_lease || (sscanf(rest, "-%*[0-9]%n", &end) == 0 && end && strcmp(rest + end, PART) == 0);
}

/* ---------------------------------------------------------------------------------------------------------- leases */

struct hr_leases {
    hr_account *account;
    int n;
    struct lease {
        char *folder, *path;
        uint64_t id; /* 0: the folder cannot have one */
        int fd;
    } items[MAX_LEASES];
};

hr_leases *hr__leases_new(hr_account *account)
{
    hr_leases *l = hr__zalloc(account, sizeof *l);

    if (l)
        l->account = account;
    return l;
}

static void lease_clear(struct lease *l)
{
    if (l->path && hr__file_remove(l->path) == -EIO) /* before the lock is released */
        (void)hr__file_remove(l->path);
    if (l->fd >= 0)
        hr__file_close(l->fd);
    hr__free(l->folder);
    hr__free(l->path);
}

void hr__leases_free(hr_leases *l)
{
    for (int i = 0; l && i < l->n; i++)
        lease_clear(&l->items[i]);
    hr__free(l);
}

/* Locks the file before it gets its name. false: the folder cannot have a lease. */
static bool lease_take(struct lease *l, hr_account *account)
{
    char *owner = NULL;

    if (hr__random_secret(&l->id, sizeof l->id) || !l->id || (l->fd = hr__file_create_unnamed(l->folder)) < 0)
        return false;
    if (hr__file_lock(l->fd) || !(owner = owner_name(l->folder, l->id, account)))
        return false;
    l->path = hr__printf(account, "%s" LEASE, owner);
    hr__free(owner);
    if (l->path && hr__file_link(l->fd, l->path)) {
        hr__free(l->path);
        l->path = NULL;
    }
    return l->path != NULL;
}

uint64_t hr__lease_of(hr_leases *l, const char *folder)
{
    struct lease *made = &l->items[l->n];

    for (int i = 0; i < l->n; i++)
        if (!strcmp(l->items[i].folder, folder))
            return l->items[i].id;
    if (l->n == MAX_LEASES)
        return 0;
    *made = (struct lease){ .folder = hr__strdup(l->account, folder), .fd = -1 };
    if (!made->folder)
        return 0;
    l->n++;
    if (!lease_take(made, l->account)) {
        if (made->fd >= 0)
            hr__file_close(made->fd);
        made->fd = -1;
        made->id = 0; /* remembered, so that not every file tries again */
    }
    return made->id;
}

/* ------------------------------------------------------------------------------------------------- left-over files */

/* The lease of the current names of a sweep: they are consecutive, and the lease's own name follows those of its
 * files. */
typedef struct found {
    char *path; /* of the lease */
    int fd, rc; /* rc: of its lock */
} found;

static void found_clear(found *f)
{
    if (f->fd >= 0)
        hr__file_close(f->fd);
    hr__free(f->path);
    *f = (found){ .fd = -1, .rc = -ENOENT };
}

static void find_lease(found *f, const char *folder, const char *name, const hidden *h)
{
    char *path = hr__printf(NULL, "%s/%.*s" LEASE, folder, h->n_owner, name);

    if (path && f->path && !strcmp(path, f->path)) {
        hr__free(path);
        return;
    }
    found_clear(f);
    f->path = path;
    if (!path)
        return;
    f->fd = f->rc = hr__file_open_to_lock(path);
    if (f->fd >= 0)
        f->rc = hr__file_lock(f->fd);
}

static bool is_left_over(found *f, const char *folder, const char *name)
{
    hidden h;

    if (!parse(name, &h))
        return false;
    if (h.lease) {
        find_lease(f, folder, name, &h);
        if (f->rc == 0 || f->rc == -EAGAIN)
            return f->rc == 0;
    }
    return hr__process_is_gone(&h.owner);
}

void hr__part_sweep(const char *folder)
{
    char **names = NULL;
    int n = hr__dir_list(folder, &names);
    found f = { .fd = -1, .rc = -ENOENT };

    for (int i = 0; i < n; i++) {
        char *path = is_left_over(&f, folder, names[i]) ? hr__printf(NULL, "%s/%s", folder, names[i]) : NULL;

        if (path)
            (void)hr__file_remove(path);
        hr__free(path);
    }
    found_clear(&f);
    if (n >= 0)
        hr__dir_list_free(names, n);
}
