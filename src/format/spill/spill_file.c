/* spill_file.c - temporary tables on disk; spill_file.h has the contract.
 *
 * 1. A spill file holds encoded chunks (chunk.c).
 * 2. One counter assigns places. A place is whole pages of the file, so that a forgotten chunk leaves a hole.
 * 3. Write-back starts early if the written bytes are a large part of the memory of the machine (or of the control
 *    group), because dirty pages count there. */
#include "format/spill/spill_file.h"

#include <errno.h>
#include <stdlib.h>

#define FILE_PAGE 4096
#define WRITE_BEHIND (16 << 20)        /* bytes whose write-back starts together */
#define MEMORY_NS INT64_C(10000000000) /* how long the known size of the memory is valid */

struct hr_spill_file {
    atomic_int refs;
    int pid;
    hr_account *account;
    char *folder, *name;
    int64_t quota;       /* < 0: none */
    hr_mutex lock;       /* guards the opening of the file */
    _Atomic int fd;      /* -1: not yet */
    _Atomic int64_t end; /* of the file */
    _Atomic int64_t behind;
    _Atomic int64_t written, was_read, plain, live;
};

static _Atomic int64_t live_bytes; /* of all stores */

/* --------------------------------------------------------------------------------------------------------- settings */

static struct {
    hr_mutex lock;
    char *folder;           /* NULL: the default */
    _Atomic int64_t quota1; /* the quota plus one; 0: the default */
} settings = { .lock = HR_MUTEX_INIT };

static const char *default_folder(void)
{
    static const char *const names[] = { "HEADRACE_SPILL_DIR", "TMPDIR" };

    for (int i = 0; i < HR_LEN(names); i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return text;
    }
    return "/tmp";
}

static pthread_once_t settings_once = PTHREAD_ONCE_INIT;
static void settings_register(void) { hr__mutex_survives_fork(&settings.lock); }

static void settings_lock(void)
{
    pthread_once(&settings_once, settings_register);
    hr__lock(&settings.lock);
}

hr_status hr_spill_dir(char **out, hr_error *err)
{
    HR_NEED(out);

    settings_lock();
    *out = hr__strdup(NULL, settings.folder ? settings.folder : default_folder());
    hr__unlock(&settings.lock);
    return *out ? HR_OK : hr__error_memory(err, "spill folder", 1);
}

static hr_status no_file(const char *folder, int64_t minus_errno, hr_error *err)
{
    return hr__error_os(err, minus_errno, folder, "cannot make a spill file (HEADRACE_SPILL_DIR names the folder)");
}

hr_status hr_set_spill_dir(const char *folder, hr_error *err)
{
    char *copy = NULL, *old;
    int fd;

    if (folder) {
        if ((fd = hr__file_create_scratch(folder)) < 0)
            return no_file(folder, fd, err);
        hr__file_close(fd);
        if (!(copy = hr__strdup(NULL, folder)))
            return hr__error_memory(err, "spill folder", (int64_t)strlen(folder) + 1);
    }
    settings_lock();
    old = settings.folder;
    settings.folder = copy;
    hr__unlock(&settings.lock);
    hr__free(old);
    return HR_OK;
}

/* The variable's value; < 0: not set. */
static hr_status default_quota(int64_t *out, hr_error *err)
{
    const char *text = getenv("HEADRACE_SPILL_QUOTA");
    hr_status st = text && *text ? hr_parse_bytes(text, out, err) : HR_OK;

    if (st || !text || !*text)
        *out = -1;
    return st ? hr__error_at(err, st, "HEADRACE_SPILL_QUOTA") : HR_OK;
}

static hr_status read_quota(int64_t *out, hr_error *err)
{
    int64_t set = atomic_load(&settings.quota1);

    *out = set - 1;
    return set ? HR_OK : default_quota(out, err);
}

hr_status hr_set_spill_quota(int64_t n_bytes, hr_error *err)
{
    int64_t from_variable;

    if (n_bytes < 0)
        HR_TRY(default_quota(&from_variable, err));
    atomic_store(&settings.quota1, n_bytes < 0 ? 0 : HR_MIN(n_bytes, INT64_MAX - 1) + 1);
    return HR_OK;
}

int64_t hr_spill_quota(void)
{
    int64_t n;

    return read_quota(&n, NULL) ? -1 : n;
}

int64_t hr_spill_used(void) { return atomic_load_explicit(&live_bytes, memory_order_relaxed); }

/* ---------------------------------------------------------------------------------------------------------- a store */

hr_status hr__spill_file_new(const char *folder, const char *name, hr_account *account, hr_spill_file **out,
                             hr_error *err)
{
    hr_status st = HR_OK;
    hr_spill_file *s = hr__zalloc(account, sizeof *s);

    *out = NULL;
    if (!s)
        return hr__error_memory(err, "spill", sizeof *s);
    atomic_init(&s->refs, 1);
    atomic_init(&s->fd, -1);
    s->pid = hr__pid();
    hr__mutex_init(&s->lock);
    s->account = hr__account_ref(account);
    HR_GO(read_quota(&s->quota, err));
    if (folder)
        s->folder = hr__strdup(NULL, folder);
    else
        HR_GO(hr_spill_dir(&s->folder, err));
    s->name = hr__strdup(account, name);
    if (!s->folder || !s->name)
        HR_FAIL(HR_NO_MEMORY, "%s: no memory for a spill file", name);
    *out = s;
    s = NULL;
done:
    hr__spill_file_unref(s);
    return st;
}

hr_spill_file *hr__spill_file_ref(hr_spill_file *s)
{
    if (s)
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

static void count_live(hr_spill_file *s, int64_t n)
{
    atomic_fetch_add_explicit(&s->live, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_bytes, n, memory_order_relaxed);
}

void hr__spill_file_unref(hr_spill_file *s)
{
    hr_account *account;

    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) > 1)
        return;
    hr__file_close(atomic_load(&s->fd));
    count_live(s, -atomic_load(&s->live));
    hr__mutex_clear(&s->lock);
    hr__free(s->folder);
    hr__free(s->name);
    account = s->account;
    hr__free(s);
    hr__account_unref(account);
}

hr_spill_counts hr__spill_file_counts(const hr_spill_file *s)
{
    return (hr_spill_counts){ .written_bytes = atomic_load(&s->written),
                              .read_bytes = atomic_load(&s->was_read),
                              .plain_bytes = atomic_load(&s->plain),
                              .live_bytes = atomic_load(&s->live) };
}

/* ------------------------------------------------------------------------------------------------------------ space */

static hr_status no_space(const hr_spill_file *s, int64_t n, const char *what, int64_t there, const char *change,
                          hr_error *err)
{
    return hr_error_set(err, HR_DISK_FULL,
                        "%s: spill folder '%s' needs %lld more bytes, beside the %lld that it holds; %s is %lld bytes: "
                        "set %s",
                        s->name, s->folder, (long long)n, (long long)atomic_load(&s->live), what, (long long)there,
                        change);
}

/* Without a quota, 1/50 of the disk stays free, or 256 MiB if that is less. */
static hr_status check_disk(const hr_spill_file *s, int64_t n, hr_error *err)
{
    int64_t left = 0, all = 0, reserve;
    int rc = hr__disk_space(s->folder, &left, &all);

    if (rc)
        return hr__error_os(err, rc, s->folder, "free space");
    reserve = HR_MIN(all / 50, 256 << 20);
    if (left - reserve >= n)
        return HR_OK;
    return no_space(s, n, "free, beside a reserve,", HR_MAX(left - reserve, 0),
                    "HEADRACE_SPILL_DIR to a folder on a larger disk, or a larger memory limit", err);
}

static hr_status claim(hr_spill_file *s, int64_t n, hr_error *err)
{
    int64_t all = atomic_fetch_add_explicit(&live_bytes, n, memory_order_relaxed) + n;

    atomic_fetch_add_explicit(&s->live, n, memory_order_relaxed);
    if (s->quota >= 0 && all > s->quota) {
        count_live(s, -n);
        return no_space(s, n, "the quota of the process", s->quota, "HEADRACE_SPILL_QUOTA higher", err);
    }
    if (s->quota < 0) {
        hr_status st = check_disk(s, n, err);
        if (st)
            count_live(s, -n);
        return st;
    }
    return HR_OK;
}

static hr_status open_file(hr_spill_file *s, int *out, hr_error *err)
{
    int fd = atomic_load_explicit(&s->fd, memory_order_acquire);

    if (fd < 0) {
        hr__lock(&s->lock);
        if ((fd = atomic_load(&s->fd)) < 0 && (fd = hr__file_create_scratch(s->folder)) >= 0)
            atomic_store_explicit(&s->fd, fd, memory_order_release);
        hr__unlock(&s->lock);
    }
    *out = fd;
    if (fd >= 0)
        return HR_OK;
    return hr__error_at(err, no_file(s->folder, fd, err), "%s", s->name);
}

/* The memory of the machine, or of the control group, at most MEMORY_NS old: limits change rarely, and reading them
 * takes about ten files. */
static int64_t memory_about(void)
{
    static _Atomic int64_t bytes, until_ns;
    int64_t now = hr__clock_ns(), until = atomic_load_explicit(&until_ns, memory_order_relaxed);

    if (now >= until && atomic_compare_exchange_strong(&until_ns, &until, now + MEMORY_NS))
        atomic_store(&bytes, hr__memory_physical());
    return atomic_load(&bytes); /* 0 while another thread reads it for the first time: then write-back starts early */
}

/* Starts write-back of written bytes once there are many: dirty pages count against the memory of all processes. */
static void write_behind(hr_spill_file *s, int fd, int64_t end)
{
    int64_t behind = atomic_load_explicit(&s->behind, memory_order_relaxed);

    if (end - behind < WRITE_BEHIND || atomic_load(&s->live) < memory_about() / 8)
        return;
    if (atomic_compare_exchange_strong(&s->behind, &behind, end))
        hr__file_write_behind(fd, behind, end - behind);
}

static hr_status put(hr_spill_file *s, const hr_buffer *b, int64_t n, int64_t at, hr_error *err)
{
    int64_t wrote;
    int fd = -1;

    HR_TRY(open_file(s, &fd, err));
    wrote = hr__file_write_at(fd, b->data, b->n_bytes, at);
    if (wrote == b->n_bytes) {
        write_behind(s, fd, at + n);
        return HR_OK;
    }
    hr__file_punch(fd, at, n);
    if (wrote == -ENOSPC || wrote == -EDQUOT) {
        int64_t left = 0, all = 0;

        (void)hr__disk_space(s->folder, &left, &all);
        return no_space(s, n, "free", left, "HEADRACE_SPILL_DIR to a folder on a larger disk, or a larger memory limit",
                        err);
    }
    hr__error_os(err, wrote < 0 ? wrote : -EIO, s->folder, "writing a spill file");
    return hr__error_at(err, err ? err->status : HR_IO, "%s", s->name);
}

/* ------------------------------------------------------------------------------------------------------------ write */

hr_status hr__spill_file_write(hr_spill_file *s, const hr_table *t, hr_spilled_table *out, hr_error *err)
{
    hr_buffer *chunk = NULL;
    hr_status st = HR_OK;
    hr_chunk place;
    int64_t n;

    *out = (hr_spilled_table){ 0 };
    HR_GO(hr__chunk_encode(t, s->account, &chunk, &place, err));
    n = HR_ROUND_UP(chunk->n_bytes, FILE_PAGE);
    HR_GO(claim(s, n, err));
    hr__chunk_set_place(chunk, &place, atomic_fetch_add_explicit(&s->end, n, memory_order_relaxed));
    if ((st = put(s, chunk, n, place.at, err))) {
        count_live(s, -n);
        goto done;
    }
    *out = place;
    atomic_fetch_add_explicit(&s->written, chunk->n_bytes, memory_order_relaxed);
    hr__account_spilled(s->account, chunk->n_bytes, 0);
    atomic_fetch_add_explicit(&s->plain, place.memory_bytes, memory_order_relaxed);
done:
    hr__buffer_unref(chunk);
    return st;
}

void hr__spill_file_forget(hr_spill_file *s, const hr_spilled_table *p)
{
    int64_t n = HR_ROUND_UP(p->n_bytes, FILE_PAGE);

    if (!n || s->pid != hr__pid()) /* a forked child shares the parent's file, which it may only read */
        return;
    hr__file_punch(atomic_load_explicit(&s->fd, memory_order_acquire), p->at, n);
    count_live(s, -n);
}

/* ------------------------------------------------------------------------------------------------------------- read */

hr_status hr__spill_file_read(hr_spill_file *s, const hr_spilled_table *p, const hr_mem *mem, hr_schema *schema,
                              hr_table **out, hr_error *err)
{
    hr_status st =
        hr__chunk_read(atomic_load_explicit(&s->fd, memory_order_acquire), p, s->account, mem, schema, out, err);

    if (st)
        return hr__error_at(err, st, "%s: spill file in '%s', %lld bytes at %lld", s->name, s->folder,
                            (long long)p->n_bytes, (long long)p->at);
    atomic_fetch_add_explicit(&s->was_read, p->n_bytes, memory_order_relaxed);
    hr__account_spilled(mem->account ? mem->account : s->account, 0, p->n_bytes);
    return HR_OK;
}
