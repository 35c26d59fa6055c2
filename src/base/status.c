/* status.c - status codes, errors, the version.
 *
 * One funnel: hr_error_set() is the only function that writes a new text. A text is one line: control bytes (a newline
 * in a file's name, a byte of a damaged file) become blanks, and a text that is too long is cut between two UTF-8
 * characters and ends in "...". The text is formatted into a local buffer first, since an argument may be err->text
 * itself. */
#include "base/all.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>

const char *hr_version(void) { return HR_VERSION_TEXT; }

static const struct {
    hr_status status;
    const char *name, *text;
} statuses[] = {
#define HR_X(name, number, text) { name, #name, text },
    HR_STATUS_LIST(HR_X)
#undef HR_X
};
_Static_assert(HR_LEN(statuses) == HR__N_STATUS, "the number of statuses");

/* Numbers follow each other, except the last. */
static int place_of(int64_t st)
{
    int last = HR__N_STATUS - 1;

    return st == (int64_t)statuses[last].status ? last : st >= 0 && st < last ? (int)st : -1;
}

int hr__status_place(hr_status st) { return place_of((int64_t)st); }

bool hr__status_is_error(int64_t st) { return st != HR_OK && st != HR_PENDING && place_of(st) >= 0; }

const char *hr_status_text(hr_status st)
{
    int i = hr__status_place(st);

    return i < 0 ? "unknown status" : statuses[i].text;
}

const char *hr_status_name(hr_status st)
{
    int i = hr__status_place(st);

    return i < 0 ? "HR_UNKNOWN" : statuses[i].name;
}

/* ----------------------------------------------------------------------------------------------------------- texts */

/* The length at which to cut s: at most `cap` bytes stay and no character is split. */
static size_t utf8_cut(const char *s, size_t cap)
{
    size_t n = cap;

    while (n > 0 && cap - n < 4 && ((unsigned char)s[n] & 0xC0) == 0x80)
        n--;
    return n;
}

/* Makes one line of `text`, which vsnprintf cut if `wanted` exceeds its room. */
static void text_tidy(char *text, size_t cap, int wanted)
{
    if (wanted < 0)
        snprintf(text, cap, "(no text: the format is wrong)");
    else if ((size_t)wanted >= cap)
        memcpy(text + utf8_cut(text, cap - 4), "...", 4);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F)
            *p = ' ';
}

void hr_error_clear(hr_error *err)
{
    if (!err)
        return;
    hr__free(err->detail);
    err->status = HR_OK;
    err->text[0] = 0;
    err->detail = NULL;
    err->detail_bytes = 0;
}

hr_status hr_error_set(hr_error *err, hr_status st, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list args;

    if (!err)
        return st;
    va_start(args, fmt);
    text_tidy(text, sizeof text, vsnprintf(text, sizeof text, fmt, args));
    va_end(args);
    hr_error_clear(err);
    err->status = st;
    memcpy(err->text, text, strlen(text) + 1);
    return st;
}

void hr_error_set_detail(hr_error *err, const void *detail, size_t n_bytes)
{
    void *copy = NULL;

    if (!err)
        return;
    if (detail && (copy = hr__alloc(NULL, n_bytes)))
        memcpy(copy, detail, n_bytes);
    hr__free(err->detail);
    err->detail = copy;
    err->detail_bytes = copy ? n_bytes : 0;
}

/* ------------------------------------------------------------------------------------------------ between our files */

hr_status hr__need(const char *function, const char *names, const void *const *pointers, int n, hr_error *err)
{
    for (int i = 0; i < n; i++) {
        size_t length = strcspn(names, ",");

        if (!pointers[i])
            return hr_error_set(err, HR_INVALID, "%s: argument '%.*s' is NULL", function, (int)length, names);
        names += length + strspn(names + length, ", ");
    }
    return HR_OK;
}

hr_status hr__error_at(hr_error *err, hr_status st, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list args;
    int n, more;

    if (!err)
        return st;
    if (!err->status)
        err->status = st; /* the callee set no error: the place is better than nothing */
    va_start(args, fmt);
    n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n >= 0 && (size_t)n < sizeof text &&
        (more = snprintf(text + n, sizeof text - (size_t)n, ": %s", err->text)) >= 0)
        n += more;
    text_tidy(text, sizeof text, n);
    memcpy(err->text, text, strlen(text) + 1);
    return err->status;
}

/* The status of an -errno. Few, since a program decides by status and a person reads the text. */
static hr_status status_of_errno(int64_t minus_errno)
{
    switch (-minus_errno) {
    case ENOENT: return HR_NOT_FOUND;
    case ENOMEM: return HR_NO_MEMORY;
    case ENOSPC:
    case EDQUOT:
    case EFBIG: return HR_DISK_FULL; /* the last: RLIMIT_FSIZE */
    default: return HR_IO;
    }
}

/* What an administrator or a shell has set, which "File too large" does not say. Shared memory counts as files do. */
static void print_file_limit(int64_t minus_errno, char *text, size_t size)
{
    struct rlimit limit;

    text[0] = '\0';
    if (minus_errno == -EFBIG && !getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur != RLIM_INFINITY)
        snprintf(text, size, "; the limit for a file and for shared memory, `ulimit -f`, is %lld bytes",
                 (long long)limit.rlim_cur);
}

hr_status hr__error_os(hr_error *err, int64_t minus_errno, const char *path, const char *what)
{
    char buf[128], limit[128];

    print_file_limit(minus_errno, limit, sizeof limit);
    return hr_error_set(err, status_of_errno(minus_errno), "%s: %s: %s%s", path ? path : "(no name)", what,
                        strerror_r((int)-minus_errno, buf, sizeof buf), limit);
}

void hr__error_move(hr_error *to, hr_error *from)
{
    if (to == from || !from)
        return;
    if (to) {
        hr__free(to->detail);
        *to = *from;
        from->detail = NULL;
    }
    hr_error_clear(from);
}

hr_status hr__error_copy(hr_error *to, const hr_error *from)
{
    hr_error_set(to, from->status, "%s", from->text);
    if (from->detail)
        hr_error_set_detail(to, from->detail, from->detail_bytes);
    return from->status;
}

hr_status hr__error_memory(hr_error *err, const char *where, int64_t n_bytes)
{
    return hr_error_set(err, HR_NO_MEMORY, "%s: no memory for %lld bytes", where, (long long)n_bytes);
}
