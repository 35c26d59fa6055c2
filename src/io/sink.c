/* sink.c - a file being written, which appears under its name only when it is complete.
 *
 * Until commit the bytes are in a file without a name (O_TMPFILE), which the kernel removes when the process ends in
 * any way. A file system without such files (NFS, some overlays) gets a hidden name beside the final one. Only link and
 * rename give a file its name, so a reader of the folder sees the whole file or nothing.
 *
 * 1. A hidden name identifies its process (part.c). The next writer in the folder removes the files of killed
 *    processes.
 * 2. The sink collects up to BUFFER_BYTES; larger writes go directly to the system.
 * 3. After an error only hr__sink_drop may follow.
 * 4. A descriptor (/dev/stdout, /dev/fd/3), a pipe and a device get the bytes as they come: their reader may see the
 *    beginning of a file that is never completed, and nothing can be written twice.
 * 5. Bytes for a store go to an upload (http/store_upload.c), which the job's commit completes, or aborts. */
#include "io/http/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFER_BYTES (256 << 10)

struct hr_sink {
    hr_account *account;
    char *path;    /* the final name */
    char *hidden;  /* the hidden name; NULL: none */
    char *made;    /* the first folder that was missing; NULL: none was */
    uint8_t *data; /* BUFFER_BYTES, n_buffered of them used; NULL: finished */
    int64_t n_buffered, n_bytes;
    int fd;
    bool replace;
    bool streams;      /* into a descriptor, a pipe or a device */
    hr_upload *upload; /* instead of all of this: to a store; borrowed */
    hr_sync sync;
};

/* ------------------------------------------------------------------------------------------------------- folders */

static int64_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? HR_MAX(slash - path, 1) : 0;
}

/* Makes the folder `path` if it is missing. -> 1 made, 0 existed */
static int make_one(const char *path)
{
    hr_stat info;
    int rc = hr__dir_create(path);

    if (rc == -EEXIST) {
        rc = hr__file_stat(path, &info);
        return rc < 0 ? rc : info.is_dir ? 0 : -ENOTDIR;
    }
    return rc < 0 ? rc : 1;
}

hr_status hr__folder_make(const char *path, hr_account *account, char **made, hr_error *err)
{
    hr_status st = HR_OK;
    char *p = hr__strdup(account, path), *first = NULL;
    int64_t n = p ? (int64_t)strlen(p) : 0, at;
    hr_stat info;
    int rc;

    *made = NULL;
    if (!p)
        return hr__error_memory(err, path, (int64_t)strlen(path));
    while (n > 1 && p[n - 1] == '/')
        p[--n] = 0;
    for (at = n; at > 0;) { /* back to the first folder that exists */
        char c = p[at];

        p[at] = 0;
        rc = hr__file_stat(p, &info);
        p[at] = c;
        if (rc == 0 && !info.is_dir)
            HR_FAIL(HR_IO, "%s: expected a folder, found the file '%.*s'", path, (int)at, p);
        if (rc == 0)
            break;
        if (rc != -ENOENT)
            HR_GO(hr__error_os(err, rc, path, "stat"));
        while (at > 0 && p[at - 1] != '/')
            at--;
        while (at > 0 && p[at - 1] == '/')
            at--;
        if (at == 0 && p[0] == '/')
            break;
    }
    while (at < n) { /* and forth, making folders */
        char c;

        while (p[at] == '/')
            at++;
        while (at < n && p[at] != '/')
            at++;
        c = p[at];
        p[at] = 0;
        rc = make_one(p);
        if (rc < 0)
            HR_GO(hr__error_os(err, rc, p, "make the folder"));
        if (rc > 0 && !first && !(first = hr__strdup(account, p))) {
            (void)hr__dir_remove(p);
            HR_GO(hr__error_memory(err, path, n));
        }
        p[at] = c;
    }
    *made = first;
    first = NULL;
done:
    if (first) {
        p[n] = 0;
        hr__folder_unmake(path, first);
    }
    hr__free(first);
    hr__free(p);
    return st;
}

void hr__folder_unmake(const char *path, const char *made)
{
    char *p = made ? hr__strdup(NULL, path) : NULL;
    size_t n_made = made ? strlen(made) : 0, n;

    if (!p)
        return;
    for (n = strlen(p); n > 1 && p[n - 1] == '/';)
        p[--n] = 0;
    for (; n >= n_made && n > 0; n = (size_t)folder_length(p)) {
        p[n] = 0;
        if (hr__dir_remove(p) && n == strlen(path)) /* the deepest may be missing if it was never made */
            continue;
        if (n == n_made)
            break;
    }
    hr__free(p);
}

/* --------------------------------------------------------------------------------------------------------- writing */

static char *folder_of(const char *path, hr_account *account)
{
    int64_t n = folder_length(path);

    return n ? hr__strndup(account, path, (size_t)n) : hr__strdup(account, ".");
}

static char *hidden_name(const hr_sink *s, hr_leases *leases)
{
    char *folder = folder_of(s->path, s->account);
    char *name = folder ? hr__part_name(folder, leases, s->account) : NULL;

    hr__free(folder);
    return name;
}

static void sink_free(hr_sink *s)
{
    if (s->fd >= 0)
        hr__file_close(s->fd);
    hr__free(s->data);
    hr__free(s->hidden);
    hr__free(s->made);
    hr__free(s->path);
    hr__free(s);
}

void hr__sink_drop(hr_sink *takes)
{
    if (!takes)
        return;
    if (takes->hidden && hr__file_remove(takes->hidden) == -EIO)
        (void)hr__file_remove(takes->hidden); /* tries once more, since the file would stay */
    if (takes->made) {
        takes->path[folder_length(takes->path)] = 0;
        hr__folder_unmake(takes->path, takes->made);
    }
    sink_free(takes);
}

/* The descriptor that the name of a device means: "/dev/stdout", "/dev/fd/3"; -1: none. */
static int descriptor_of(const char *path)
{
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    char *end = NULL;
    long fd;

    if (!strcmp(path, "/dev/stdout") || !strcmp(path, "/dev/stderr"))
        return strcmp(path, "/dev/stdout") ? 2 : 1;
    for (int i = 0; i < HR_LEN(folders); i++) {
        size_t n = strlen(folders[i]);

        if (strncmp(path, folders[i], n) != 0 || path[n] < '0' || path[n] > '9')
            continue;
        fd = strtol(path + n, &end, 10);
        return *end || fd > INT_MAX ? -1 : (int)fd;
    }
    return -1;
}

bool hr__sink_streams(const char *path)
{
    hr_stat info;

    return descriptor_of(path) >= 0 || (hr__file_stat(path, &info) == 0 && !info.is_dir && !info.is_file);
}

static hr_status open_stream(hr_sink *s, hr_error *err)
{
    int fd = descriptor_of(s->path);

    s->fd = fd >= 0 ? hr__file_duplicate(fd) : hr__file_create(s->path);
    return s->fd >= 0 ? HR_OK : hr__error_os(err, s->fd, s->path, "open");
}

static hr_status open_file(hr_sink *s, const char *folder, hr_error *err)
{
    s->fd = hr__file_create_unnamed(folder);
    if (s->fd == -EOPNOTSUPP) {
        if (!(s->hidden = hidden_name(s, NULL)))
            return hr__error_memory(err, s->path, 64);
        s->fd = hr__file_create_new(s->hidden);
    }
    if (s->fd >= 0)
        return HR_OK;
    hr__free(s->hidden);
    s->hidden = NULL;
    return hr__error_os(err, s->fd, s->path, "create");
}

hr_status hr__sink_open(const char *url, bool replace, hr_account *account, hr_sink **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_sink *s = hr__zalloc(account, sizeof *s);
    char *folder = NULL;

    *out = NULL;
    if (!s)
        return hr__error_memory(err, url, sizeof *s);
    s->fd = -1;
    s->account = account;
    s->replace = replace;
    HR_GO(hr__path_of_url(url, account, &s->path, err));
    if (s->path[strlen(s->path) - 1] == '/')
        HR_FAIL(HR_INVALID, "%s: expected the name of a file, found the name of a folder", s->path);
    folder = folder_of(s->path, account);
    s->data = hr__alloc(account, BUFFER_BYTES);
    if (!folder || !s->data)
        HR_GO(hr__error_memory(err, s->path, BUFFER_BYTES));
    s->streams = hr__sink_streams(s->path);
    if (s->streams) {
        HR_GO(open_stream(s, err));
    } else {
        HR_GO(hr__folder_make(folder, account, &s->made, err));
        HR_GO(open_file(s, folder, err));
    }
    *out = s;
    s = NULL;
done:
    hr__free(folder);
    if (s && s->path)
        hr__sink_drop(s);
    else if (s)
        sink_free(s);
    return st;
}

hr_status hr__sink_open_upload(hr_upload *upload, const char *url, hr_account *account, hr_sink **out, hr_error *err)
{
    hr_sink *s = hr__zalloc(account, sizeof *s);

    *out = NULL;
    if (!s || !(s->path = hr__strdup(account, url))) {
        hr__free(s);
        return hr__error_memory(err, url, sizeof *s);
    }
    s->fd = -1;
    s->account = account;
    s->upload = upload;
    *out = s;
    return HR_OK;
}

void hr__sink_keep_first(hr_sink *s)
{
    if (s->upload)
        hr__upload_keep_first(s->upload);
}

static hr_status write_error(const hr_sink *s, int64_t rc, int64_t n, int64_t at, hr_error *err)
{
    char what[80];

    snprintf(what, sizeof what, "write of %" PRId64 " bytes after %" PRId64, n, at);
    return hr__error_os(err, rc, s->path, what);
}

static hr_status put(hr_sink *s, const void *data, int64_t n, int64_t at, hr_error *err)
{
    int64_t rc = s->streams ? hr__file_write(s->fd, data, n) : hr__file_write_at(s->fd, data, n, at);

    return rc < 0 ? write_error(s, rc, n, at, err) : HR_OK;
}

static hr_status flush(hr_sink *s, hr_error *err)
{
    int64_t n = s->n_buffered;

    s->n_buffered = 0;
    return n ? put(s, s->data, n, s->n_bytes - n, err) : HR_OK;
}

hr_status hr__sink_write(hr_sink *s, const void *data, int64_t n, hr_error *err)
{
    if (n == 0)
        return HR_OK;
    if (s->upload) {
        s->n_bytes += n;
        return hr__upload_write(s->upload, data, n, err);
    }
    if (!s->data)
        return hr_error_set(err, HR_BUG, "%s: a write after the end of the file", s->path);
    if (s->n_buffered + n > BUFFER_BYTES)
        HR_TRY(flush(s, err));
    if (n >= BUFFER_BYTES / 2 && s->n_buffered == 0) {
        HR_TRY(put(s, data, n, s->n_bytes, err));
    } else {
        memcpy(s->data + s->n_buffered, data, (size_t)n);
        s->n_buffered += n;
    }
    s->n_bytes += n;
    return HR_OK;
}

hr_status hr__sink_write_buffer(hr_sink *s, hr_buffer *b, hr_error *err)
{
    if (!s->upload)
        return hr__sink_write(s, b->data, b->n_bytes, err);
    s->n_bytes += b->n_bytes;
    return hr__upload_write_buffer(s->upload, b, err);
}

hr_status hr__sink_write_at(hr_sink *s, int64_t at, const void *data, int64_t n, hr_error *err)
{
    if (at < 0 || n < 0 || at > s->n_bytes - n)
        return hr_error_set(err, HR_BUG, "%s: a write of %" PRId64 " bytes at %" PRId64 ", the file has %" PRId64 "",
                            s->path, n, at, s->n_bytes);
    if (s->upload)
        return hr__upload_write_at(s->upload, at, data, n, err);
    if (s->streams && at < s->n_bytes - s->n_buffered)
        return hr_error_set(err, HR_UNSUPPORTED,
                            "%s: files of this format get their beginning last, so they cannot go into a pipe or "
                            "device; expected the name of a file",
                            s->path);
    if (s->streams) {
        memcpy(s->data + (at - (s->n_bytes - s->n_buffered)), data, (size_t)n);
        return HR_OK;
    }
    HR_TRY(flush(s, err));
    return put(s, data, n, at, err);
}

int64_t hr__sink_bytes(const hr_sink *s) { return s->n_bytes; }

const char *hr__sink_name(const hr_sink *s) { return s->path; }

/* ---------------------------------------------------------------------------------------------------------- the end */

hr_status hr__sink_finish(hr_sink *s, hr_sync sync, hr_error *err)
{
    int rc;

    if (s->upload)
        return hr__upload_finish(s->upload, err);
    HR_TRY(flush(s, err));
    hr__free(s->data);
    s->data = NULL;
    s->sync = sync;
    if (sync == HR_SYNC_NONE || s->streams)
        return HR_OK;
    rc = hr__file_sync(s->fd);
    return rc < 0 ? hr__error_os(err, rc, s->path, "sync") : HR_OK;
}

/* Closes the file: some file systems report only now that they have no space. */
static hr_status close_file(hr_sink *s, hr_error *err)
{
    int rc = s->fd >= 0 ? hr__file_close_written(s->fd) : 0;

    s->fd = -1;
    return rc < 0 ? hr__error_os(err, rc, s->path, "close") : HR_OK;
}

static hr_status name_it(hr_sink *s, hr_leases *leases, hr_error *err)
{
    char *name = s->hidden ? NULL : hidden_name(s, leases);
    int rc;

    if (s->hidden)
        return HR_OK;
    if (!name)
        return hr__error_memory(err, s->path, 64);
    rc = hr__file_link(s->fd, name);
    if (rc < 0) {
        hr__free(name);
        return hr__error_os(err, rc, s->path, "link");
    }
    s->hidden = name;
    return HR_OK;
}

hr_status hr__sink_park(hr_sink *s, hr_leases *leases, hr_error *err)
{
    if (s->streams || s->upload)
        return HR_OK;
    HR_TRY(name_it(s, leases, err));
    return close_file(s, err);
}

static hr_status name_error(const char *path, int rc, hr_error *err)
{
    if (rc == -EEXIST)
        return hr_error_set(err, HR_IO, "%s: the file exists already, and the options forbid replacing it", path);
    return hr__error_os(err, rc, path, "name the file");
}

static hr_status sync_folder(const char *folder, hr_error *err)
{
    int fd = hr__file_open(folder), rc = fd < 0 ? fd : hr__file_sync(fd);

    if (fd >= 0)
        hr__file_close(fd);
    return rc < 0 ? hr__error_os(err, rc, folder, "sync") : HR_OK;
}

/* Names an unnamed file by a link. To replace another file it takes a hidden name first, since only a rename
 * replaces. */
static hr_status settle(hr_sink *s, const char *path, hr_error *err)
{
    int rc;

    if (!s->hidden && !s->replace) {
        rc = hr__file_link(s->fd, path);
        if (rc < 0)
            return name_error(path, rc, err);
        return HR_OK;
    }
    HR_TRY(hr__sink_park(s, NULL, err));
    rc = hr__file_rename(s->hidden, path, s->replace);
    if (rc < 0)
        return name_error(path, rc, err);
    hr__free(s->hidden);
    s->hidden = NULL;
    return HR_OK;
}

hr_status hr__sink_commit(hr_sink *takes, const char *path, hr_error *err)
{
    hr_status st = HR_OK;
    char *folder = folder_of(path, NULL);
    bool named = false;

    if (!folder)
        HR_GO(hr__error_memory(err, path, (int64_t)strlen(path)));
    if (takes->data)
        HR_GO(hr__sink_finish(takes, HR_SYNC_NONE, err));
    if (!takes->streams)
        HR_GO(settle(takes, path, err));
    named = !takes->streams;
    HR_GO(close_file(takes, err));
    if (takes->sync == HR_SYNC_ALL && !takes->streams)
        HR_GO(sync_folder(folder, err));
done:
    hr__free(folder);
    if (!st) {
        sink_free(takes);
        return HR_OK;
    }
    if (named && !takes->replace)
        (void)hr__file_remove(path); /* removes the file that the system could not store; the replaced file is lost */
    hr__sink_drop(takes);
    return st;
}
