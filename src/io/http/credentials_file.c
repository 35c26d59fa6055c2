/* credentials_file.c - credentials that the processes of a run share, so that a service is asked once for all of them.
 *
 * Eight ranks that start together, and all of their workers, would each ask the machine's metadata, which answers few
 * requests a second. The first one that fetches leaves what it got in a file, and others that want the same at about
 * that time take it.
 *
 * 1. The file is in memory and private: in XDG_RUNTIME_DIR, else in /dev/shm, in a folder of the user's that nobody
 *    else may enter. A folder or a file that is another user's, that others may read, or that is a link, is not used.
 * 2. Its name is a hash of what is asked for, and of the container: processes in other ones have other identities.
 * 3. It serves for MAX_AGE_S seconds: a program that starts later gets what the service says then. The processes of a
 *    run renew theirs at the same time, so that this is enough for a run of days, too.
 * 4. Who fetches holds a lock. Others wait for it, but not longer than WAIT_NS: then they fetch for themselves.
 * 5. What fails here only costs a request. HEADRACE_SHARE_CREDENTIALS=off turns it off.
 *
 * Tests: test_credentials.c, test_shared_credentials.py. */
#include "io/http/credentials.h"

#include "io/http/http.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MAX_AGE_S 600
#define MAX_BYTES 65536
#define WAIT_NS ((int64_t)5 * 1000000000)
#define LOOK_MS 20
#define TITLE "headrace-credentials 1"

char *hr__shared_folder(void)
{
    const char *value = getenv("HEADRACE_SHARE_CREDENTIALS"), *runtime = getenv("XDG_RUNTIME_DIR");

    if (value && strcmp(value, "off") == 0)
        return NULL;
    return runtime && runtime[0] == '/' ? hr__printf(NULL, "%s/headrace", runtime)
                                        : hr__printf(NULL, "/dev/shm/headrace-%lld", (long long)hr__uid());
}

/* Adds which container this is: its mounts and its network. False: it is not known. */
static bool add_namespaces(hr_text *out)
{
    static const char *const links[] = { "/proc/self/ns/mnt", "/proc/self/ns/net" };
    char target[64];

    for (int i = 0; i < HR_LEN(links); i++) {
        if (hr__link_read(links[i], target, sizeof target) <= 0)
            return false;
        hr__text_add(out, "%s\n", target);
    }
    return true;
}

/* The names of the file and of its lock. */
static bool make_name(const char *kind, const char *const *with, int n, char *name)
{
    hr_text all = { 0 };
    hr_error none = HR_ERROR_INIT;
    bool ok = add_namespaces(&all);

    hr__text_add(&all, HR_VERSION_TEXT "\n%s\n", kind);
    for (int i = 0; i < n; i++)
        hr__text_add(&all, "%d:%s\n", with[i] ? (int)strlen(with[i]) : -1, with[i] ? with[i] : "");
    ok = ok && !all.failed && hr__sha1_hex(all.data, name, &none) == HR_OK;
    hr_error_clear(&none);
    hr__text_clear(&all);
    return ok;
}

/* Waits for the lock; < 0: it did not come. */
static int take_lock(int folder, const char *name)
{
    int64_t until = hr__clock_ns() + WAIT_NS;
    char lock[48];
    int fd;

    snprintf(lock, sizeof lock, "%s.l", name);
    while ((fd = hr__file_lock_private(folder, lock)) == -EAGAIN && hr__clock_ns() <= until && !hr__reads_stop())
        hr__wait_readable(-1, LOOK_MS);
    return fd;
}

/* The rest of a line "name rest"; new. NULL: there is no such line, or no memory. */
static char *line_of(const char *text, const char *name)
{
    size_t n = strlen(name);

    for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
        if (strncmp(line, name, n) == 0 && line[n] == ' ')
            return hr__strndup(NULL, line + n + 1, strcspn(line + n + 1, "\n"));
    return NULL;
}

static int64_t number_of(const char *text, const char *name)
{
    char *line = line_of(text, name);
    int64_t n = line ? strtoll(line, NULL, 10) : 0;

    hr__free(line);
    return n;
}

static bool take_text(const char *text, hr_credentials *out)
{
    int64_t now = (int64_t)time(NULL), fetched = number_of(text, "fetched");
    size_t n = strlen(text);

    if (strncmp(text, TITLE "\n", strlen(TITLE) + 1) != 0 || n < 5 || strcmp(text + n - 5, "\nend\n") != 0 ||
        fetched > now + 1 || now - fetched > MAX_AGE_S)
        return false;
    out->until_s = number_of(text, "until");
    out->id = line_of(text, "id");
    out->secret = line_of(text, "secret");
    out->token = line_of(text, "token");
    return out->until_s > 0 && (out->token || (out->id && out->secret));
}

static bool read_file(int folder, const char *name, hr_credentials *out)
{
    int fd = hr__file_open_private(folder, name);
    char *text = fd >= 0 ? hr__zalloc(NULL, MAX_BYTES + 1) : NULL;
    int64_t n = text ? hr__file_read_at(fd, text, MAX_BYTES, 0) : 0;
    bool ok = n > 0 && take_text(text, out);

    if (fd >= 0)
        hr__file_close(fd);
    hr__secret_free(text);
    return ok;
}

static void add_line(hr_text *out, const char *name, const char *value)
{
    if (value && value[strcspn(value, "\r\n")])
        out->failed = true;
    else if (value)
        hr__text_add(out, "%s %s\n", name, value);
}

static void write_file(int folder, const char *name, const hr_credentials *c)
{
    hr_text text = { 0 };
    char temporary[64];
    bool ok;
    int fd;

    hr__text_add(&text, TITLE "\nfetched %" PRId64 "\nuntil %" PRId64 "\n", (int64_t)time(NULL), c->until_s);
    add_line(&text, "id", c->id);
    add_line(&text, "secret", c->secret);
    add_line(&text, "token", c->token);
    hr__text_add(&text, "end\n");
    snprintf(temporary, sizeof temporary, "%s.%d", name, hr__pid());
    (void)hr__file_remove_in(folder, temporary);
    fd = text.failed || text.n > MAX_BYTES ? -1 : hr__file_create_private(folder, temporary);
    ok = fd >= 0 && hr__file_write(fd, text.data, text.n) == text.n;
    if (fd >= 0)
        ok = hr__file_close_written(fd) == 0 && ok;
    if (fd >= 0 && (!ok || hr__file_rename_in(folder, temporary, name) < 0))
        (void)hr__file_remove_in(folder, temporary);
    hr__secret_free(text.data);
}

hr_shared hr__shared_begin(const char *folder, const char *kind, const char *const *with, int n)
{
    hr_shared s = { .folder = folder ? hr__dir_open_private(folder) : -1, .lock = -1 };

    if (s.folder < 0)
        return s;
    if (make_name(kind, with, n, s.name))
        s.lock = take_lock(s.folder, s.name);
    if (s.lock < 0) {
        hr__file_close(s.folder);
        s.folder = -1;
    }
    return s;
}

bool hr__shared_take(const hr_shared *s, hr_credentials *out)
{
    return s->lock >= 0 && read_file(s->folder, s->name, out);
}

void hr__shared_leave(const hr_shared *s, const hr_credentials *c)
{
    if (s->lock >= 0 && c->until_s)
        write_file(s->folder, s->name, c);
}

void hr__shared_end(hr_shared *s)
{
    if (s->lock >= 0)
        hr__file_close(s->lock);
    if (s->folder >= 0)
        hr__file_close(s->folder);
    s->lock = s->folder = -1;
}
