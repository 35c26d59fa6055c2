/* glob.c - turns paths, folders and patterns into one list of files with their sizes.
 *
 * Order: the urls as given; the files of one url are sorted by path, byte by byte, whatever the file system's order is.
 * That is depth first by name, where a folder's name includes its '/'. Ray sorts the same way. The order is part of
 * every row's coordinate, so it must not change.
 * 1. A path that exists is no pattern, even if it contains '*' or '['.
 * 2. Patterns: `*`, `?`, `[abc]`, `[a-z]`, `[!a]` within a name; `**` is any number of folders. A folder that matches
 *    stands for its files.
 * 3. A pattern finds hidden names only if it spells out their first character.
 * 4. The time is at most that of the names times the parts of the pattern, also with several `**`.
 *
 * Tests: test_glob.c, test_s3.c. */
#include "io/http/remote.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

/* Folders below which a "**" of the pattern has been expanded: hashes, in a table of a power of two, half empty. */
typedef struct seen {
    hr_bits128 *at; /* 0: free */
    int64_t n, cap;
} seen;

typedef struct listing {
    const hr_paths_options *options;
    hr_paths *out;
    hr_error *err;
    seen *seen; /* of a pattern with more than one "**"; NULL: nothing */
} listing;

static bool is_hidden(const char *name) { return name[0] == '.' || name[0] == '_'; }
bool hr__has_pattern(const char *s) { return strpbrk(s, "*?[") != NULL; }
static bool has_pattern(const char *s, size_t n) { return memchr(s, '*', n) || memchr(s, '?', n) || memchr(s, '[', n); }

/* --- URLs */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
}

int64_t hr__percent_decode(char *s)
{
    char *to = s, *begin = s;

    for (; *s; s++) {
        if (s[0] == '%' && hex_digit(s[1]) >= 0 && hex_digit(s[2]) >= 0) {
            *to++ = (char)(hex_digit(s[1]) * 16 + hex_digit(s[2]));
            s += 2;
        } else {
            *to++ = *s;
        }
    }
    *to = 0;
    return to - begin;
}

/* Length of "s3" in "s3://bucket"; 0: no scheme. */
static size_t scheme_length(const char *url)
{
    size_t n = 0;

    while (isalnum((unsigned char)url[n]) || (n > 0 && (url[n] == '+' || url[n] == '-' || url[n] == '.')))
        n++;
    return n > 1 && isalpha((unsigned char)url[0]) && strncmp(url + n, "://", 3) == 0 ? n : 0;
}

bool hr__url_is_remote(const char *url)
{
    size_t n = scheme_length(url);
    bool is_http = (n == 4 && strncasecmp(url, "http", n) == 0) || (n == 5 && strncasecmp(url, "https", n) == 0);

    return is_http || (n && hr__url_is_store(url));
}

static hr_status unknown_scheme(const char *url, int n, hr_error *err)
{
    if (hr__url_is_remote(url))
        (void)hr_error_set(err, HR_UNSUPPORTED,
                           "headrace reads URLs of %.*s, and writes none: a folder of a store is expected, as "
                           "s3://bucket/folder",
                           n, url);
    else
        (void)hr_error_set(err, HR_UNSUPPORTED, "headrace does not read URLs of scheme '%.*s' yet", n, url);
    return hr__url_error(err, HR_UNSUPPORTED, url);
}

/* "s3:/bucket/key", as a library that tidies paths leaves a URL: it would be a local folder "s3:". */
static bool lacks_slash(const char *url)
{
    char whole[16];
    size_t n = strcspn(url, ":/");

    if (n + 4 > sizeof whole || url[n] != ':' || url[n + 1] != '/' || url[n + 2] == '/')
        return false;
    snprintf(whole, sizeof whole, "%.*s://", (int)n, url);
    return hr__url_is_remote(whole);
}

hr_status hr__path_of_url(const char *url, hr_account *account, char **out, hr_error *err)
{
    size_t n = scheme_length(url);
    const char *path = url;
    bool is_local = n == 5 && strncasecmp(url, "local", n) == 0; /* Ray's scheme for files of this machine */

    *out = NULL;
    if (n > 0) {
        if (!is_local && !(n == 4 && strncasecmp(url, "file", n) == 0))
            return unknown_scheme(url, (int)n, err);
        path = url + n + 3;
        if (strncasecmp(path, "localhost/", 10) == 0)
            path += 9;
        if (!is_local && path[0] != '/')
            return hr_error_set(err, HR_INVALID, "%s: a file URL needs an absolute path, as in file:///data", url);
    }
    if (!path[0])
        return hr_error_set(err, HR_INVALID, "a path is empty, expected a file, a folder or a pattern");
    if (n == 0 && lacks_slash(path))
        return hr_error_set(err, HR_INVALID, "%s: one slash follows the scheme, expected two (./%s is a local path)",
                            path, path);
    *out = hr__strdup(account, path);
    if (!*out)
        return hr__error_memory(err, url, (int64_t)strlen(path) + 1);
    if (n > 0 && !is_local && hr__percent_decode(*out) != (int64_t)strlen(*out)) {
        hr__free(*out);
        *out = NULL;
        return hr_error_set(err, HR_INVALID, "%s: a path cannot contain %%00", url);
    }
    return HR_OK;
}

/* --- one name against one pattern */

/* The code point at *s, which advances; a byte that is not UTF-8 counts as itself. */
static unsigned next_char(const char **s, const char *end)
{
    const unsigned char *p = (const unsigned char *)*s;
    int n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 1;
    unsigned c = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));

    for (int i = 1; i < n; i++) {
        if ((const char *)p + i >= end || (p[i] & 0xc0) != 0x80) {
            n = 1;
            c = p[0];
            break;
        }
        c = c << 6 | (p[i] & 0x3f);
    }
    *s += n;
    return c;
}

/* `p` is after '['; if the set is well-formed, p moves after ']'. A '[' that is never closed is an ordinary
 * character. */
static bool match_class(const char **p, const char *end, unsigned c, bool *matches)
{
    const char *s = *p;
    bool negate = s < end && (*s == '!' || *s == '^'), found = false;

    s += negate;
    for (const char *first = s; s < end && (*s != ']' || s == first);) {
        unsigned low = next_char(&s, end), high = low;

        if (s + 1 < end && *s == '-' && s[1] != ']') {
            s++;
            high = next_char(&s, end);
        }
        found = found || (c >= low && c <= high);
    }
    if (s >= end)
        return false;
    *p = s + 1;
    *matches = found != negate;
    return true;
}

static bool match_name(const char *p, const char *p_end, const char *s)
{
    const char *s_end = s + strlen(s), *star = NULL, *star_s = NULL;

    if (is_hidden(s) && (p == p_end || *p != *s))
        return false;
    while (s < s_end) {
        const char *p_next = p, *s_next = s;
        unsigned c = next_char(&s_next, s_end);
        bool matches = false;

        if (p < p_end && *p == '*') {
            star = ++p; /* tries nothing first, takes more while the rest does not match */
            star_s = s;
            continue;
        }
        if (p < p_end) {
            p_next++;
            if (*p == '?') {
                matches = true;
            } else if (*p != '[' || !match_class(&p_next, p_end, c, &matches)) {
                p_next = p;
                matches = next_char(&p_next, p_end) == c;
            }
        }
        if (matches) {
            p = p_next;
            s = s_next;
        } else if (star) {
            p = star;
            next_char(&star_s, s_end);
            s = star_s;
        } else {
            return false;
        }
    }
    while (p < p_end && *p == '*')
        p++;
    return p == p_end;
}

/* --- the list */

static hr_status no_memory(listing *l, const char *path)
{
    return hr__error_memory(l->err, path, (int64_t)strlen(path));
}

static void path_clear(hr_path *p)
{
    hr__free(p->path);
    hr__free(p->tag);
    hr__free(p->shown);
}

/* False: no memory. */
static bool set_shown(const hr_paths *p, hr_path *item)
{
    if (!hr__url_is_remote(item->path))
        return true;
    if (!(item->shown = hr__url_shown(item->path, p->account)))
        return false;
    if (strcmp(item->shown, item->path) == 0) {
        hr__free(item->shown);
        item->shown = NULL;
    }
    return true;
}

hr_status hr__paths_add(hr_paths *p, const char *path, const char *tag, int64_t n_bytes, int64_t mtime_ns,
                        hr_error *err)
{
    hr_path *item;

    if (!hr__grow(p->account, (void **)&p->items, &p->cap, p->n + 1, sizeof *p->items))
        return hr__error_memory(err, path, (p->n + 1) * (int64_t)sizeof *p->items);
    item = &p->items[p->n];
    *item = (hr_path){ hr__strdup(p->account, path), hr__strdup(p->account, tag), NULL, n_bytes, mtime_ns };
    if (item->path && (item->tag || !tag) && set_shown(p, item)) {
        p->n++;
        return HR_OK;
    }
    path_clear(item);
    return hr__error_memory(err, "list of files", (int64_t)strlen(path) + 1);
}

static hr_status add_file(listing *l, const char *path, const hr_stat *info)
{
    return hr__paths_add(l->out, path, NULL, info->n_bytes, info->mtime_ns, l->err);
}

static bool suffix_fits(const hr_paths_options *options, const char *path)
{
    size_t n = strlen(path);

    for (int i = 0; i < options->n_suffixes; i++) {
        size_t m = strlen(options->suffixes[i]);

        if (m <= n && strcasecmp(path + n - m, options->suffixes[i]) == 0)
            return true;
    }
    return !options->suffixes;
}

/* --- keys of stores, which have no folders but slashes */

#define KEY_BYTES 1025 /* the longest key of S3, and its end */

static bool is_visible(const char *key)
{
    for (const char *name = key, *slash; name; name = slash ? slash + 1 : NULL) {
        if (is_hidden(name))
            return false;
        slash = strchr(name, '/');
    }
    return true;
}

typedef enum fit { NO_FIT, FITS, FITS_FOLDER } fit; /* FITS_FOLDER: a folder above the key fits */

/* The first name of the key against the first part of the pattern. */
static bool fits_name(const char *pattern, size_t n, const char *key, size_t m)
{
    char name[KEY_BYTES];

    if (m >= sizeof name)
        return false;
    memcpy(name, key, m);
    name[m] = 0;
    return has_pattern(pattern, n) ? match_name(pattern, pattern + n, name) : n == m && memcmp(pattern, key, n) == 0;
}

static bool is_any(const char *pattern) { return strcspn(pattern, "/") == 2 && memcmp(pattern, "**", 2) == 0; }

/* The pattern behind its first part. */
static const char *next_part(const char *pattern)
{
    size_t n = strcspn(pattern, "/");

    return pattern + n + (pattern[n] == '/');
}

/* The key behind its first name; NULL: there is no more. "a//b" has a name without characters. */
static const char *next_name(const char *key)
{
    const char *slash = strchr(key, '/');

    return slash ? slash + 1 : NULL;
}

/* The parts up to the next "**" against as many names of the key. If they fit, both move behind them: *key is NULL
 * after its last name. */
static bool fits_block(const char **pattern, const char **key)
{
    const char *p = *pattern, *k = *key;

    for (; *p && !is_any(p); p = next_part(p), k = next_name(k))
        if (!k || !fits_name(p, strcspn(p, "/"), k, strcspn(k, "/")))
            return false;
    *pattern = p;
    *key = k;
    return true;
}

/* Whether the last block, behind a "**", fits the last names of the key. */
static bool fits_end(const char *pattern, const char *key)
{
    int64_t spare = 0;

    for (const char *k = key; k; k = next_name(k))
        spare++;
    for (const char *p = pattern; *p; p = next_part(p))
        spare--;
    for (; spare > 0; spare--, key = next_name(key))
        if (is_hidden(key))
            return false;
    return spare == 0 && fits_block(&pattern, &key);
}

/* Each "**" takes as few folders as it can: more would leave fewer names to the parts behind it. Only the last one can
 * need more, since a file that fits counts more than a folder that does. So no name is compared with the same part more
 * often than there are names. */
static fit fit_key(const char *pattern, const char *key)
{
    bool anywhere = false;

    for (;;) {
        const char *block;

        for (; is_any(pattern); pattern = next_part(pattern))
            anywhere = true;
        if (!*pattern && anywhere)
            return is_visible(key) ? FITS_FOLDER : NO_FIT;
        for (block = pattern; *block && !is_any(block); block = next_part(block))
            ;
        if (!*block && anywhere && fits_end(pattern, key))
            return FITS;
        while (!fits_block(&pattern, &key)) {
            if (!anywhere || is_hidden(key) || !(key = next_name(key)))
                return NO_FIT;
        }
        if (!*pattern)
            return !key ? FITS : is_visible(key) ? FITS_FOLDER : NO_FIT;
        if (!key)
            return NO_FIT;
    }
}

bool hr__key_fits(const char *pattern, const char *key, const hr_paths_options *options)
{
    fit found = pattern ? fit_key(pattern, key) : options->hidden || is_visible(key) ? FITS_FOLDER : NO_FIT;

    return found == FITS || (found == FITS_FOLDER && suffix_fits(options, key));
}

static char *join(listing *l, const char *folder, const char *name, size_t n)
{
    size_t m = strlen(folder);

    return hr__printf(l->out->account, "%s%s%.*s", folder, m > 0 && folder[m - 1] != '/' ? "/" : "", (int)n, name);
}

static hr_status links_loop(listing *l, const char *path)
{
    return hr_error_set(l->err, HR_INVALID,
                        "%.300s...: the folders nest too deeply; a link may lead back to a folder above it", path);
}

typedef hr_status entry_fn(listing *l, const char *path, const hr_stat *info, const char *pattern, int depth);

/* Calls fn for the entries of a folder that match [name, name_end) (NULL: all except hidden ones) and still exist. */
static hr_status each_entry(listing *l, const char *folder, const char *name, const char *name_end, entry_fn *fn,
                            const char *pattern, int depth)
{
    const char *where = folder[0] ? folder : ".";
    hr_status st = HR_OK;
    char **names = NULL, *path = NULL;
    int n;

    if (depth > HR_MAX_DEPTH)
        return links_loop(l, where);
    n = hr__dir_list(where, &names);
    if (n < 0)
        return hr__error_os(l->err, n, where, "list");
    for (int i = 0; i < n; i++) {
        hr_stat info;
        int rc;

        if (name ? !match_name(name, name_end, names[i]) : !l->options->hidden && is_hidden(names[i]))
            continue;
        hr__free(path);
        path = join(l, folder, names[i], strlen(names[i]));
        if (!path)
            HR_GO(no_memory(l, folder));
        rc = hr__file_stat(path, &info);
        if (rc == -ENOENT)
            continue; /* a broken link, or a file that was removed meanwhile */
        if (rc == -ELOOP)
            HR_GO(links_loop(l, path));
        if (rc < 0)
            HR_GO(hr__error_os(l->err, rc, path, "stat"));
        HR_GO(fn(l, path, &info, pattern, depth + 1));
    }
done:
    hr__free(path);
    hr__dir_list_free(names, n);
    return st;
}

/* A file or all files of a folder. */
static hr_status take_all(listing *l, const char *path, const hr_stat *info, const char *pattern, int depth)
{
    (void)pattern;
    if (info->is_dir)
        return each_entry(l, path, NULL, NULL, take_all, NULL, depth);
    return info->is_file && suffix_fits(l->options, path) ? add_file(l, path, info) : HR_OK;
}

/* Adds the match of a whole pattern: a file (of any suffix), or the files of a folder. */
static hr_status take_match(listing *l, const char *path, const hr_stat *info, const char *pattern, int depth)
{
    if (info->is_file)
        return add_file(l, path, info);
    return take_all(l, path, info, pattern, depth);
}

static hr_status expand(listing *l, const char *folder, const char *pattern, int depth);

static hr_status expand_folder(listing *l, const char *path, const hr_stat *info, const char *pattern, int depth)
{
    return info->is_dir ? expand(l, path, pattern, depth) : HR_OK;
}

/* A name without wildcards in a pattern needs no listing. */
static hr_status expand_literal(listing *l, const char *folder, const char *name, size_t n, const char *rest, int depth)
{
    hr_status st = HR_OK;
    char *path = join(l, folder, name, n);
    hr_stat info;
    int rc;

    if (!path)
        return no_memory(l, folder);
    rc = hr__file_stat(path, &info);
    if (rc == -ENOENT || rc == -ENOTDIR)
        goto done;
    if (rc < 0)
        HR_GO(hr__error_os(l->err, rc, path, "stat"));
    HR_GO(*rest ? expand_folder(l, path, &info, rest, depth + 1) : take_match(l, path, &info, NULL, depth + 1));
done:
    hr__free(path);
    return st;
}

static int64_t seen_place(const seen *s, hr_bits128 key)
{
    int64_t at = (int64_t)(key.lo & (uint64_t)(s->cap - 1));

    while ((s->at[at].lo || s->at[at].hi) && (s->at[at].lo != key.lo || s->at[at].hi != key.hi))
        at = (at + 1) & (s->cap - 1);
    return at;
}

static hr_status seen_grow(listing *l, const char *folder)
{
    seen *s = l->seen, larger = { .cap = HR_MAX(64, 2 * s->cap), .n = s->n };

    larger.at = hr__zalloc(l->out->account, (size_t)larger.cap * sizeof *larger.at);
    if (!larger.at)
        return no_memory(l, folder);
    for (int64_t i = 0; i < s->cap; i++)
        if (s->at[i].lo || s->at[i].hi)
            larger.at[seen_place(&larger, s->at[i])] = s->at[i];
    hr__free(s->at);
    *s = larger;
    return HR_OK;
}

/* *before: this "**" has been expanded in this folder. Two "**" reach a folder in as many ways as there are places to
 * divide its path, and each way would find the same files. */
static hr_status was_expanded(listing *l, const char *folder, const char *pattern, bool *before)
{
    hr_bits128 key;
    int64_t at;
    hr_hash h;

    *before = false;
    if (!l->seen)
        return HR_OK;
    hr__hash_init(&h, 1);
    hr__hash_text(&h, folder);
    hr__hash_int(&h, (int64_t)strlen(pattern));
    key = hr__hash_end(&h);
    if (2 * (l->seen->n + 1) > l->seen->cap)
        HR_TRY(seen_grow(l, folder));
    at = seen_place(l->seen, key);
    *before = l->seen->at[at].lo || l->seen->at[at].hi;
    l->seen->n += !*before;
    l->seen->at[at] = key;
    return HR_OK;
}

/* Adds the files below `folder` that match `pattern` (relative). */
static hr_status expand(listing *l, const char *folder, const char *pattern, int depth)
{
    size_t n = strcspn(pattern, "/");
    const char *rest = pattern + n + strspn(pattern + n, "/");

    if (is_any(pattern)) {
        bool before;

        HR_TRY(was_expanded(l, folder, pattern, &before));
        if (before)
            return HR_OK;
        if (!*rest)
            return each_entry(l, folder, NULL, NULL, take_all, NULL, depth);
        HR_TRY(expand(l, folder, rest, depth)); /* no folder in between */
        return each_entry(l, folder, NULL, NULL, expand_folder, pattern, depth);
    }
    if (!has_pattern(pattern, n))
        return expand_literal(l, folder, pattern, n, rest, depth);
    return each_entry(l, folder, pattern, pattern + n, *rest ? expand_folder : take_match, rest, depth);
}

static hr_status expand_all(listing *l, const char *folder, const char *pattern)
{
    seen seen = { 0 };
    int n_any = 0;
    hr_status st;

    for (const char *p = pattern; *p; p = next_part(p))
        n_any += is_any(p);
    l->seen = n_any > 1 ? &seen : NULL;
    st = expand(l, folder, pattern, 0);
    hr__free(seen.at);
    l->seen = NULL;
    return st;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const hr_path *)a)->path, ((const hr_path *)b)->path);
}

/* Sorts the files of one url; `**` can find a file twice. */
void hr__paths_sort(hr_paths *p, int64_t begin)
{
    int64_t n = begin;

    if (p->n - begin < 2)
        return;
    qsort(p->items + begin, (size_t)(p->n - begin), sizeof *p->items, by_path);
    for (int64_t i = begin; i < p->n; i++) {
        if (n > begin && strcmp(p->items[n - 1].path, p->items[i].path) == 0)
            path_clear(&p->items[i]);
        else
            p->items[n++] = p->items[i];
    }
    p->n = n;
}

/* Finds the first part of the path that is not there, and the name in its folder most like it. Cuts `path`. */
static void find_near(char *path, hr_near *near)
{
    const char *name = path;
    char **names = NULL;
    int n = -ENOENT;

    while (n == -ENOENT) {
        char *slash = strrchr(path, '/');

        name = slash ? slash + 1 : path;
        n = hr__dir_list(!slash ? "." : slash == path ? "/" : (*slash = 0, path), &names);
        if (!slash || slash == path)
            break;
    }
    hr__near_begin(near, name, strlen(name));
    for (int i = 0; i < n; i++)
        hr__near_try(near, names[i], strlen(names[i]));
    if (n >= 0)
        hr__dir_list_free(names, n);
}

static hr_status missing(const char *path, hr_error *err)
{
    char *copy = hr__strdup(NULL, path);
    hr_near near = { 0 };

    if (copy)
        find_near(copy, &near);
    hr__free(copy);
    return hr_error_set(err, HR_NOT_FOUND, "%s: no such file or folder%s", path, hr__near_hint(&near));
}

static hr_status list_url(listing *l, const char *url)
{
    hr_error *err = l->err;
    hr_status st = HR_OK;
    int64_t begin = l->out->n;
    char *path = NULL;
    hr_stat info;
    int rc;

    HR_GO(hr__path_of_url(url, l->out->account, &path, err));
    rc = hr__file_stat(path, &info);
    if (rc >= 0 && !info.is_dir) {
        HR_GO(add_file(l, path, &info)); /* opening a file that is not regular is an error */
    } else if (rc >= 0) {
        HR_GO(take_all(l, path, &info, NULL, 0));
    } else if ((rc == -ENOENT || rc == -ENOTDIR) && !l->options->plain && has_pattern(path, strlen(path))) {
        size_t root = strspn(path, "/");

        HR_GO(expand_all(l, root ? "/" : "", path + root));
        if (l->out->n == begin && !l->options->ignore_missing)
            HR_FAIL(HR_NOT_FOUND, "%s: no file matches", path);
    } else if (rc != -ENOENT || !l->options->ignore_missing) {
        HR_GO(rc == -ENOENT ? missing(path, err) : hr__error_os(err, rc, path, "stat"));
    }
    hr__paths_sort(l->out, begin);
done:
    hr__free(path);
    return st;
}

static hr_status list_remote(const char *const *urls, int n, listing *l)
{
    hr_status st = hr__url_list(l->out->store, urls, n, l->options, l->out, l->err);

    for (int i = 0; i < n && st; i++)
        hr__url_hide(urls[i], l->err);
    return st;
}

hr_status hr__paths_list(const char *const *urls, int n_urls, const hr_paths_options *options, hr_account *account,
                         hr_paths *out, hr_error *err)
{
    static const hr_paths_options none = { 0 };
    listing l = { .options = options ? options : &none, .out = out, .err = err };
    hr_status st = HR_OK;

    *out = (hr_paths){ .account = account };
    for (int i = 0, n; i < n_urls; i += n) {
        for (n = 0; i + n < n_urls && hr__url_is_remote(urls[i + n]);)
            n++;
        if (!n) {
            n = 1;
            HR_GO(list_url(&l, urls[i]));
            continue;
        }
        if (!out->store)
            HR_GO(hr__store_new(l.options->store_options, l.options->n_store_options, account, &out->store, err));
        HR_GO(list_remote(urls + i, n, &l));
    }
done:
    if (st)
        hr__paths_clear(out);
    return st;
}

void hr__paths_cut(hr_paths *p, int64_t n)
{
    while (p->n > n)
        path_clear(&p->items[--p->n]);
}

void hr__paths_clear(hr_paths *p)
{
    for (int64_t i = 0; i < p->n; i++)
        path_clear(&p->items[i]);
    hr__free(p->items);
    hr__store_unref(p->store);
    hr__list_rest_free(p->rest);
    *p = (hr_paths){ .account = p->account };
}

bool hr__paths_is_remote(const hr_paths *p, int64_t i) { return hr__url_is_remote(p->items[i].path); }

hr_status hr__paths_open(const hr_paths *p, int64_t i, hr_account *account, hr_source **out, hr_error *err)
{
    if (hr__paths_is_remote(p, i))
        return hr__url_source_open(&p->items[i], p->store, account, out, err);
    return hr__source_open(p->items[i].path, account, out, err);
}
