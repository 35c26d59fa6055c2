/* file.c - a local file, read by pread: no position, no mapping.
 *
 * Why not mmap: a file that someone else truncates would be a SIGBUS in the middle of a kernel, and page faults hide
 * the time of reading. A pread from the page cache costs one copy, which is cheaper than the decoding of its bytes.
 *
 * Tests: test_glob.c, test_binary.c. */
#include "io/io.h"

typedef struct file_source {
    hr_source base;
    int fd;
    hr_account *account; /* borrowed: it lives as long as the source, which it is charged for; NULL: none */
    int64_t stall_ns;    /* HR_STALL=disk:5ms: a slow disk, for tests */
} file_source;

static hr_status file_read_at(hr_source *base, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err)
{
    file_source *s = (file_source *)base;
    int64_t begin_ns = hr__clock_ns(), got;

    if (s->stall_ns)
        hr__sleep_ns(s->stall_ns);
    got = hr__file_read_at(s->fd, out, n, offset);
    hr__account_io(s->account, HR_IO_FILE, HR_MAX(got, 0), hr__clock_ns() - begin_ns, 0);

    if (got < 0)
        return hr__error_os(err, got, base->name, "read");
    if (got < n) /* less than hr__source_read_some requests: the file was truncated */
        return hr_error_set(err, HR_BAD_DATA, "%s: the file ends at byte %lld, it had %lld bytes when it was opened",
                            base->name, (long long)(offset + got), (long long)base->n_bytes);
    *n_read = got;
    return HR_OK;
}

static void file_ahead(hr_source *base, int64_t offset, int64_t n)
{
    hr__file_advise(((file_source *)base)->fd, offset, n);
}

static void file_close(hr_source *base) { hr__file_close(((file_source *)base)->fd); }

static const hr_source_class file_class = { .read_at = file_read_at, .ahead = file_ahead, .close = file_close };

hr_status hr__file_source_open(const char *path, hr_account *account, hr_source **out, hr_error *err)
{
    hr_status st = HR_OK;
    hr_stat info;
    int fd, rc;

    *out = NULL;
    fd = hr__file_open(path);
    if (fd < 0)
        return hr__error_os(err, fd, path, "open");
    rc = hr__file_stat_fd(fd, &info);
    if (rc < 0) {
        st = hr__error_os(err, rc, path, "stat");
        goto done;
    }
    if (!info.is_file)
        HR_FAIL(HR_INVALID, "%s: expected a file, found %s", path, info.is_dir ? "a folder" : "something else");
    HR_GO(hr__source_new(&file_class, sizeof(file_source), path, info.n_bytes, account, out, err));
    ((file_source *)*out)->fd = fd;
    ((file_source *)*out)->account = account;
    ((file_source *)*out)->stall_ns = hr__stall_ns("disk");
    (*out)->mtime_ns = info.mtime_ns;
    fd = -1; /* the source has it now */
done:
    if (fd >= 0)
        hr__file_close(fd);
    return st;
}
