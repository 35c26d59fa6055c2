/* pipes.c - standard input (`-`) and other pipes as files: copies without a name in the spill folder.
 *
 * Formats read their files at any offset, more than once and from several threads; a pipe gives its bytes once. So a
 * pipe is copied first. The copy has no name: the kernel removes it with its last descriptor, however the command ends.
 *
 * 1. A command that needs few rows (`headrace head -`) copies a part of a text, cut after a line, and goes on if the
 *    part does not suffice. A pipe that never ends is fine then.
 * 2. The copy is read as "/proc/self/fd/N". Messages show what the user wrote instead: pipes_print().
 * 3. Standard input that is a file is read in place, if nobody has read from it.
 *
 * Tests: test_cli_pipes.py. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES (1 << 20)
#define COPY "/proc/self/fd/"
#define OUT "/dev/stdout"

typedef struct pipe_copy {
    const char *given; /* the name for messages */
    char name[32];     /* that the library opens */
    int from, to;      /* < 0: nothing to copy; < 0: none */
    bool owns_from;
    bool by_lines;   /* it holds text */
    bool ended;      /* all of it is copied */
    int64_t n_bytes; /* in the copy */
    char *rest;      /* what follows the last line in the copy: n_rest of BLOCK_BYTES, not in the copy yet */
    int64_t n_rest;
} pipe_copy;

static pipe_copy *copies; /* of this call of the command */
static int64_t n_copies, cap_copies;

static hr_status failed(const pipe_copy *c, const char *what, hr_error *err)
{
    return hr_error_set(err, HR_IO, "%s: %s: %s", c->given, what, strerror(errno));
}

/* A file without a name in the spill folder. */
static hr_status make_copy(pipe_copy *c, hr_error *err)
{
    char *folder = NULL, path[4096];

    HR_TRY(hr_spill_dir(&folder, err));
    c->to = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (c->to < 0) { /* a file system without O_TMPFILE */
        snprintf(path, sizeof path, "%s/headrace-pipe-XXXXXX", folder);
        c->to = mkostemp(path, O_CLOEXEC);
        if (c->to >= 0)
            unlink(path);
    }
    if (c->to < 0)
        hr_error_set(err, HR_IO, "%s: a copy in %s: %s; HEADRACE_SPILL_DIR names another folder", c->given, folder,
                     strerror(errno));
    hr_string_free(folder);
    snprintf(c->name, sizeof c->name, COPY "%d", c->to);
    return c->to < 0 ? HR_IO : HR_OK;
}

static hr_status put(pipe_copy *c, const char *data, int64_t n, hr_error *err)
{
    int64_t quota = hr_spill_quota();

    if (quota >= 0 && c->n_bytes + n > quota)
        return hr_error_set(err, HR_DISK_FULL, "%s: its copy needs more than the %" PRId64 " bytes of the spill quota",
                            c->given, quota);
    for (int64_t done = 0; done < n;) {
        ssize_t wrote = write(c->to, data + done, (size_t)(n - done));

        if (wrote < 0 && errno != EINTR)
            return failed(c, "write of its copy in the spill folder", err);
        done += wrote > 0 ? wrote : 0;
    }
    c->n_bytes += n;
    return HR_OK;
}

/* Fills the block after what is left from the last time. */
static hr_status fill(pipe_copy *c, hr_error *err)
{
    while (!c->ended && c->n_rest < BLOCK_BYTES) {
        ssize_t got = read(c->from, c->rest + c->n_rest, (size_t)(BLOCK_BYTES - c->n_rest));

        if (got < 0 && errno != EINTR)
            return failed(c, "read", err);
        c->ended = got == 0;
        c->n_rest += got > 0 ? got : 0;
    }
    return HR_OK;
}

/* Bytes of the block up to the end of its last line; 0: it has no end of a line. */
static int64_t whole_lines(const pipe_copy *c)
{
    int64_t n = c->n_rest;

    while (n > 0 && c->rest[n - 1] != '\n')
        n--;
    return n;
}

/* Text has none of these bytes. */
static bool is_text(const char *s, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 8 || ((unsigned char)s[i] > 13 && (unsigned char)s[i] < 27))
            return false;
    return true;
}

/* Copies until the copy has n_bytes, or all. */
static hr_status copy_some(pipe_copy *c, int64_t n_bytes, hr_error *err)
{
    while (c->from >= 0 && !(c->ended && !c->n_rest) && (c->n_bytes < n_bytes || !c->by_lines)) {
        int64_t n;

        HR_TRY(fill(c, err));
        if (c->n_bytes == 0)
            c->by_lines = is_text(c->rest, c->n_rest);
        n = c->by_lines && !c->ended ? whole_lines(c) : c->n_rest;
        n = n ? n : c->n_rest; /* a line that is longer than the block */
        HR_TRY(put(c, c->rest, n, err));
        memmove(c->rest, c->rest + n, (size_t)(c->n_rest - n));
        c->n_rest -= n;
    }
    return HR_OK;
}

/* Whether the library can read it in place. */
static bool is_fresh_file(int fd)
{
    struct stat info;

    return fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

/* A pipe, a socket or a terminal: something that is read once. */
static bool is_pipe(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 &&
           (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode) || (S_ISCHR(info.st_mode) && strcmp(path, "/dev/null")));
}

static hr_status open_one(char *path, pipe_copy *c, hr_error *err)
{
    bool is_input = !strcmp(path, "-");

    *c = (pipe_copy){ .given = is_input ? "standard input" : path, .to = -1, .owns_from = !is_input };
    c->from = is_input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (c->from < 0)
        return failed(c, "open", err);
    if (is_input && is_fresh_file(c->from)) {
        c->ended = true;
        c->from = -1;
        snprintf(c->name, sizeof c->name, COPY "%d", STDIN_FILENO);
        return HR_OK;
    }
    c->rest = malloc(BLOCK_BYTES);
    if (!c->rest)
        return cli_no_memory(err, c->given, BLOCK_BYTES);
    return make_copy(c, err);
}

hr_status pipes_open(char **paths, int n, int64_t n_bytes, hr_error *err)
{
    bool has_input = false;

    for (int i = 0; i < n; i++) {
        bool is_input = !strcmp(paths[i], "-");

        if (!is_input && !is_pipe(paths[i]))
            continue;
        if (is_input && has_input)
            return hr_error_set(err, HR_INVALID, "-: standard input can be read once only");
        has_input = has_input || is_input;
        if (!cli_grow(&copies, &cap_copies, n_copies + 1, sizeof *copies))
            return cli_no_memory(err, paths[i], (int64_t)sizeof *copies);
        HR_TRY(open_one(paths[i], &copies[n_copies++], err));
    }
    for (int i = 0, k = 0; i < n; i++) /* the names stay where they are from now on */
        if (!strcmp(paths[i], "-") || is_pipe(paths[i]))
            paths[i] = copies[k++].name;
    return pipes_more(n_bytes, err);
}

bool pipes_ended(void)
{
    for (int64_t i = 0; i < n_copies; i++)
        if (copies[i].from >= 0 && !(copies[i].ended && !copies[i].n_rest))
            return false;
    return true;
}

hr_status pipes_more(int64_t n_bytes, hr_error *err)
{
    for (int64_t i = 0; i < n_copies; i++)
        HR_TRY(copy_some(&copies[i], n_bytes, err));
    return HR_OK;
}

/* What the user calls the name at the beginning of `text`, and its bytes; NULL: no name stands there. */
static const char *known_as(const char *text, size_t *n_bytes)
{
    *n_bytes = sizeof OUT - 1;
    if (!strncmp(text, OUT, *n_bytes))
        return "standard output";
    for (int64_t i = 0; i < n_copies; i++) {
        *n_bytes = strlen(copies[i].name);
        if (!strncmp(text, copies[i].name, *n_bytes) && !(text[*n_bytes] >= '0' && text[*n_bytes] <= '9'))
            return copies[i].given;
    }
    return NULL;
}

void pipes_print(FILE *to, const char *text, bool one_line)
{
    while (*text) {
        size_t n = 1;
        const char *known = known_as(text, &n);

        if (known) {
            pipes_print(to, known, true);
        } else {
            n = 1;
            fputc(((unsigned char)*text < 0x20 && (one_line || *text != '\n')) || *text == 0x7f ? '?' : *text, to);
        }
        text += n;
    }
}

void pipes_clear(void)
{
    for (int64_t i = 0; i < n_copies; i++) {
        if (copies[i].owns_from && copies[i].from >= 0)
            close(copies[i].from);
        if (copies[i].to >= 0)
            close(copies[i].to);
        free(copies[i].rest);
    }
    free(copies);
    copies = NULL;
    n_copies = cap_copies = 0;
}
