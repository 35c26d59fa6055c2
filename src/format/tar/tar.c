/* tar.c - tar archives: ustar, pax and GNU, as a walk over headers.
 *
 * A member is a header of 512 bytes and its data, padded to 512. Headers before it may describe it: a long name (GNU,
 * type L) or a list of "length key=value\n" (pax, type x), of which the walk uses `path` and `size`. Numbers are octal
 * texts, or binary with the first bit set. The walk verifies each header's checksum. A block of zeros ends the archive,
 * and only zeros may follow it; the end of the file instead of a header ends it, too. The same types have data as in
 * Python's tarfile. Sparse members are an error. */
#include "format/tar/tar.h"

#define BLOCK 512
#define MAX_NAME_BYTES (1 << 20) /* of the description of a member */
#define SMALL_WINDOW_BYTES (4 << 10)
#define LONG_DATA_BYTES (64 << 10)

hr_status tar__open(tar_walk *t, hr_source *source, const hr_codec *codec, int64_t at, hr_account *account,
                    hr_error *err)
{
    *t = (tar_walk){ .file = source->name, .name = { .account = account } };
    return hr__window_open(&t->window, source, codec, at, account, err);
}

void tar__clear(tar_walk *t)
{
    hr__window_clear(&t->window);
    hr__text_clear(&t->name);
}

static hr_status bad(const tar_walk *t, const char *what, hr_error *err)
{
    return hr_error_set(err, HR_BAD_DATA, "%s: tar: byte %lld: %s", t->file, (long long)t->window.at, what);
}

/* The sum of a header's bytes, with its checksum field as blanks; old programs summed signed bytes. */
static void sums(const uint8_t *p, int64_t *plain, int64_t *is_signed)
{
    *plain = *is_signed = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint8_t b = i >= 148 && i < 156 ? ' ' : p[i];

        *plain += b;
        *is_signed += (int8_t)b;
    }
}

/* A field of n bytes; false: no number, or one below 0 or above 2^63. */
static bool number(const uint8_t *p, int n, int64_t *out)
{
    uint64_t v = 0;
    int i = 0;

    if (p[0] & 0x80) {
        if (p[0] & 0x40)
            return false; /* below zero */
        v = p[0] & 0x3f;
        for (i = 1; i < n; i++) {
            if (v >> 55)
                return false;
            v = v << 8 | p[i];
        }
        *out = (int64_t)v;
        return true;
    }
    while (i < n && p[i] == ' ')
        i++;
    for (; i < n && p[i] >= '0' && p[i] <= '7'; i++)
        v = v << 3 | (uint64_t)(p[i] - '0');
    *out = (int64_t)v;
    return i == n || p[i] == 0 || p[i] == ' ';
}

bool tar__is(const uint8_t *block)
{
    int64_t plain, is_signed, said;

    if (!number(block + 148, 8, &said))
        return false;
    sums(block, &plain, &is_signed);
    return plain == said || is_signed == said;
}

static int64_t text_length(const uint8_t *p, int64_t n)
{
    const uint8_t *zero = memchr(p, 0, (size_t)n);

    return zero ? zero - p : n;
}

/* The description of a member by the headers before its own. */
typedef struct described {
    bool has_name; /* in t->name */
    int64_t bytes; /* < 0: nothing */
} described;

/* The records of a pax header: "22 path=folder/file.txt\n". */
static hr_status pax(tar_walk *t, const uint8_t *p, int64_t n, described *d, hr_error *err)
{
    while (n > 0 && *p) {
        int64_t length = 0, key = 0, at = 0, v = 0, end;

        while (at < n && at < 9 && p[at] >= '0' && p[at] <= '9')
            length = length * 10 + (p[at++] - '0');
        if (length > n || at + 2 > length || p[at] != ' ' || p[length - 1] != '\n')
            return bad(t, "a pax record with a wrong length", err);
        key = ++at;
        while (at < length && p[at] != '=')
            at++;
        if (at == length)
            return bad(t, "a pax record without '='", err);
        end = length - 1;
        if (at - key == 4 && memcmp(p + key, "path", 4) == 0) {
            t->name.n = 0;
            hr__text_add_bytes(&t->name, p + at + 1, end - at - 1);
            d->has_name = true;
        } else if (at - key == 4 && memcmp(p + key, "size", 4) == 0) {
            for (at++; at < end && p[at] >= '0' && p[at] <= '9' && v < INT64_MAX / 10 - 10; at++)
                v = v * 10 + (p[at] - '0');
            if (at < end)
                return bad(t, "a pax size that is not a number", err);
            d->bytes = v;
        } else if (at - key >= 10 && memcmp(p + key, "GNU.sparse", 10) == 0) {
            return hr_error_set(err, HR_UNSUPPORTED, "%s: tar: byte %lld: a sparse member", t->file,
                                (long long)t->window.at);
        }
        p += length;
        n -= length;
    }
    return HR_OK;
}

static hr_status skip(tar_walk *t, int64_t n, hr_error *err)
{
    int64_t passed;

    HR_TRY(hr__window_skip(&t->window, n, &passed, err));
    return passed == n ? HR_OK : bad(t, "the file ends within a member", err);
}

/* The data of a header that describes the next one. */
static hr_status describe(tar_walk *t, uint8_t type, int64_t n, described *d, hr_error *err)
{
    const uint8_t *p;

    if (n > MAX_NAME_BYTES)
        return hr_error_set(err, HR_UNSUPPORTED, "%s: tar: byte %lld: a description of %lld bytes, expected at most %d",
                            t->file, (long long)t->window.at, (long long)n, MAX_NAME_BYTES);
    HR_TRY(hr__window_fill(&t->window, n, SMALL_WINDOW_BYTES, err));
    if (hr__window_left(&t->window) < n)
        return bad(t, "the file ends within a member's description", err);
    p = hr__window_data(&t->window);
    if (type == 'L') {
        t->name.n = 0;
        hr__text_add_bytes(&t->name, p, text_length(p, n));
        d->has_name = true;
    } else if (type == 'x' || type == 'X') {
        HR_TRY(pax(t, p, n, d, err));
    }
    return skip(t, HR_ROUND_UP(n, BLOCK), err);
}

/* The name in the header itself. */
static void own_name(tar_walk *t, const uint8_t *p)
{
    t->name.n = 0;
    if (memcmp(p + 257, "ustar", 6) == 0 && p[345]) {
        hr__text_add_bytes(&t->name, p + 345, text_length(p + 345, 155));
        hr__text_add_bytes(&t->name, "/", 1);
    }
    hr__text_add_bytes(&t->name, p, text_length(p, 100));
}

static bool all_zero(const uint8_t *p)
{
    for (int i = 0; i < BLOCK; i++)
        if (p[i])
            return false;
    return true;
}

static int64_t window_bytes(const tar_walk *t)
{
    return t->passes_most && !t->window.stream ? SMALL_WINDOW_BYTES : HR_WINDOW_BYTES;
}

/* Checks that only zeros follow a block of zeros: other bytes belong to members that no reader would read, for example
 * after a header overwritten with zeros, or of a second archive. A newline may end the file. */
static hr_status check_end(tar_walk *t, hr_error *err)
{
    int64_t end = t->window.at, n;

    do {
        const uint8_t *p;
        bool last;

        HR_TRY(hr__window_fill(&t->window, BLOCK + 1, HR_WINDOW_BYTES, err));
        n = HR_MIN(hr__window_left(&t->window), BLOCK);
        last = hr__window_left(&t->window) <= BLOCK;
        p = hr__window_data(&t->window);
        for (int64_t i = 0; i < n; i++)
            if (p[i] && !(last && i == n - 1 && p[i] == '\n'))
                return hr_error_set(err, HR_BAD_DATA,
                                    "%s: tar: the archive ends at byte %lld, but more bytes follow at %lld", t->file,
                                    (long long)end, (long long)(t->window.at + i));
        HR_TRY(hr__window_skip(&t->window, n, &n, err));
    } while (n > 0);
    return HR_OK;
}

/* The next header, in the window. *found false: the end. */
static hr_status header(tar_walk *t, const uint8_t **out, bool *found, hr_error *err)
{
    bool apart = !t->window.stream && hr__window_left(&t->window) == 0 && t->window.buffer;

    *found = false;
    HR_TRY(hr__window_fill(&t->window, BLOCK, apart ? SMALL_WINDOW_BYTES : window_bytes(t), err));
    *out = hr__window_data(&t->window);
    if (hr__window_left(&t->window) == 0 && t->window.at > 0)
        return HR_OK;
    if (hr__window_left(&t->window) < BLOCK)
        return bad(t, "the file ends within a header", err);
    if (all_zero(*out))
        return check_end(t, err);
    if (!tar__is(*out))
        return bad(t, "not a header of a tar archive: its checksum is wrong", err);
    *found = true;
    return HR_OK;
}

hr_status tar__next(tar_walk *t, tar_member *out, bool *found, hr_error *err)
{
    described d = { false, -1 };
    const uint8_t *p;
    uint8_t type;
    int64_t n;

    HR_TRY(skip(t, t->left + t->padding, err));
    t->left = t->padding = 0;
    *out = (tar_member){ .begin = t->window.at };
    for (;;) {
        HR_TRY(header(t, &p, found, err));
        if (!*found)
            return HR_OK;
        type = p[156];
        if (!number(p + 124, 12, &n))
            return bad(t, "a size that is not a number, or below zero", err);
        if (type == 'S')
            return hr_error_set(err, HR_UNSUPPORTED, "%s: tar: byte %lld: a sparse member", t->file,
                                (long long)t->window.at);
        if (!type || !strchr("LKxgX", type))
            break;
        HR_TRY(skip(t, BLOCK, err));
        HR_TRY(describe(t, type, n, &d, err));
    }
    if (!d.has_name)
        own_name(t, p);
    if (t->name.failed)
        return hr__error_memory(err, t->file, t->name.n);
    if (d.bytes >= 0)
        n = d.bytes;
    if (n > INT64_MAX / 2)
        return bad(t, "a size that no file can have", err);
    out->name = t->name.data ? t->name.data : "";
    out->n_name = t->name.n;
    out->regular = type == '0' || type == '7' || (type == 0 && !(out->n_name && out->name[out->n_name - 1] == '/'));
    if (type == 0 ? !out->regular
                  : strchr("123456", type) != NULL) /* links, devices, folders: no data, with any size */
        n = 0;
    HR_TRY(skip(t, BLOCK, err));
    if (!t->window.stream && n > t->window.source->n_bytes - t->window.at)
        return hr_error_set(err, HR_BAD_DATA, "%s: tar: byte %lld: '%.200s' has %lld bytes, the file ends after %lld",
                            t->file, (long long)out->begin, out->name, (long long)n,
                            (long long)(t->window.source->n_bytes - t->window.at));
    out->bytes = t->left = n;
    t->padding = HR_ROUND_UP(n, BLOCK) - n;
    return HR_OK;
}

hr_status tar__read(tar_walk *t, const tar_member *m, hr_growbuf *to, hr_error *err)
{
    bool sure = !t->window.stream; /* a plain file has the bytes: tar__next saw to it */

    if (m->bytes < LONG_DATA_BYTES) /* with the headers that follow */
        HR_TRY(hr__window_fill(&t->window, m->bytes, window_bytes(t), err));
    while (t->left > 0) {
        int64_t done = m->bytes - t->left, n_read;
        int64_t n = sure ? t->left : HR_MIN(t->left, HR_MAX(done, HR_WINDOW_BYTES));

        HR_TRY(hr__growbuf_reserve(to, n, err));
        HR_TRY(hr__window_read(&t->window, to->buffer->data + to->buffer->n_bytes, n, &n_read, err));
        to->buffer->n_bytes += n_read;
        t->left -= n_read;
        if (n_read < n)
            return bad(t, "the file ends within a member", err);
    }
    return HR_OK;
}
