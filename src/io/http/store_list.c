/* store_list.c - the objects of a folder or a pattern in a store.
 *
 * Folders are prefixes. A pattern gives its beginning without wildcards to the store, and the rest is matched here.
 * Objects without a byte whose keys end in '/' stand for folders, as consoles make them; they are no files.
 *
 * A key that a pattern's text names, or that is below it, makes it no pattern: the list has it, if it is there.
 *
 * The list comes in pages of 1,000 keys or more, and each page names the next one. A store that can begin a list behind
 * any key is asked for several *spans* of the keys at once: after a page that is not the last one, what follows is cut
 * at keys that the page's keys make likely ("part-1", "part-2" after "part-00999"). A wrong guess costs a request.
 * Where the page's last key lies in folders, the levels above it are listed beside the next pages, and what follows is
 * cut at their folders.
 * Each span ends with the first key behind it, which has to be the first key of the next span: this proves that the
 * spans together are the store's list. Where second pages prove to be the next span's (folders of a thousand files),
 * one key is asked for instead. Otherwise (objects come and go meanwhile), and if the keys do not ascend byte by byte,
 * the pages are asked for again, one after the other.
 *
 * A store whose lists begin at the beginning (Azure) is asked for large folders beside each other: after a page that is
 * not the last one, and that has few folders, the levels above the page's last key are listed, and each folder behind
 * that key is a span. The list of many small folders goes on page by page, and is begun anew if they prove to be small.
 *
 * A job that writes files into a folder hides them by a record there until all are whole (store_commit.c). A list shows
 * the records below its prefix. Those above are asked for beside the first page: the record of the folder itself, if
 * the prefix goes on behind it ("a/part-"), and those of the folders above "k=v/" folders, which are of jobs that
 * divide their rows. A list of several pages asks again at its end, since a job can begin meanwhile.
 *
 * The first page of an ascending list has the first file, of which the caller is told while the list goes on.
 *
 * A caller who wants no more than the beginning (first_page) gets the files of the first page, if they are certainly
 * the first ones of the whole list: see is_beginning. A store that keeps folders as folders lists "a/b" before "a-b",
 * which comes first in the order of bytes: see take_doubts. If the same caller wants all files within seconds, the list
 * goes on behind that page.
 *
 * The result is sorted by key, byte by byte, as a local folder's is: some stores list in no order. Directory buckets of
 * S3 also take only prefixes that end with a slash: the folder is listed, and keys without the prefix are left out.
 *
 * Some servers list ETags without quotes, which their answers have (rclone, fake-gcs-server). The list adds the quotes,
 * and one request proves for the store that an answer has the same ETag. If it has another one, or none, the page's
 * objects have no ETag here.
 *
 * Tests: test_s3.c, test_s3.py, test_listing.py, test_store_records.py. */
#include "io/http/http.h"

#include <ctype.h>
#include <string.h>

#define MAX_LISTS 10 /* while jobs end at the same time */
#define AT_ONCE 64   /* spans that are asked for at the same time */
#define FOLDERS_AT_ONCE 32
#define LEVELS_AT_ONCE 16
#define FIRST_SPREAD 4   /* spans after the first page: a short list is not cut into many */
#define SPREAD 6         /* spans for each page that was not the last one */
#define SPREAD_OF_SPAN 4 /* likewise, of one span's pages: it may end soon */
#define CUTS 8           /* that are enough after one page */
#define MOST_CUTS 160
#define MOST_GUARDS 8
#define MOST_LEVELS 8
#define FEW_FOLDERS 8                      /* of a page: a folder has an eighth of a page, or more */
#define SMALL_SHARE 40                     /* folders with less than this part of a page are not worth a request each */
#define TRIES 64                           /* requests for folders that tell whether they are */
#define REST_NS (10 * INT64_C(1000000000)) /* an older list begins anew */
#define PAGE_BYTES (16 << 20)              /* 5,000 keys of 1,024 bytes, some encoded, and what stands around them */

/* Keys behind `after`, up to `upto`. */
typedef struct span {
    char *after, *upto; /* NULL: from the beginning, to the end */
    char *token;        /* of the page before; NULL: none */
    char *first, *over; /* the first key, and the first one behind `upto`; NULL: none */
    char *last;         /* the last key so far; NULL: none */
    char *prefix;       /* of the list; NULL: that of all */
    char *within;       /* it ends before the first key that does not begin so; NULL: it goes on */
    char *behind;       /* of a list of one level: folders count behind this one; NULL: the span is no level */
    bool passed;        /* that folder has come */
    int64_t n_full;     /* pages that were not the last one */
    bool is_folder;     /* it begins with a folder, which often has no second page */
    bool stays;         /* its last page ended in the folder in which the page before had ended */
    bool is_done;
} span;

/* The folders of one level, whose names are keys to cut at. */
typedef struct level {
    char *prefix, *after; /* it begins behind this key */
    char *end;            /* the last folder of an answer that was not complete; NULL: all are known */
    int64_t per_page;     /* the folders of this level that a page had */
    bool is_asked;
} level;

typedef struct listing {
    hr_store *store;
    const char *url, *prefix, *pattern;
    const hr_paths_options *options;
    hr_list_way way;
    hr_paths *records, *out;
    span *spans; /* in the order of the keys */
    int64_t n, cap;
    level *levels;
    int64_t n_levels, cap_levels;
    int64_t n_full; /* pages that were not the last one */
    int64_t n_bare; /* second pages of spans that had no key of their span, */
    int64_t n_more; /* and those that had */
    int64_t begin;  /* of this list in `out` */
    bool is_named;  /* the pattern names what exists: only that counts */
    bool may_cut;
    bool may_divide;           /* into folders */
    int64_t page_keys;         /* of the first page */
    int64_t n_asked, n_found;  /* requests for folders, and their keys */
    bool is_odd;               /* the store lists in another order than that of bytes */
    bool may_begin;            /* the first page is enough, if it proves the first files; see is_beginning */
    bool is_beginning;         /* the list has ended after its first page */
    bool is_deep;              /* a folder that the pattern names has files */
    char *doubts[MOST_LEVELS]; /* see take_doubts */
    int n_doubts;
    const hr_store_kind *kind;
    const hr_paths *begun;   /* the beginning of this list, which goes on behind it; NULL: none */
    int guards[MOST_GUARDS]; /* lengths of the prefix: folders whose records the list does not show */
    int n_guards;
} listing;

/* How a list goes on behind its first page. */
struct hr_list_rest {
    span *spans;
    int64_t n, n_full, page_keys, at_ns;
};

static void spans_free(span *spans, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        span *s = &spans[i];

        hr__free(s->after);
        hr__free(s->upto);
        hr__free(s->token);
        hr__free(s->first);
        hr__free(s->over);
        hr__free(s->last);
        hr__free(s->prefix);
        hr__free(s->within);
        hr__free(s->behind);
    }
    hr__free(spans);
}

static void spans_clear(listing *l)
{
    spans_free(l->spans, l->n);
    l->spans = NULL;
    l->n = l->cap = 0;
}

static void levels_clear(listing *l)
{
    for (int64_t i = 0; i < l->n_levels; i++) {
        hr__free(l->levels[i].prefix);
        hr__free(l->levels[i].after);
        hr__free(l->levels[i].end);
    }
    hr__free(l->levels);
    l->levels = NULL;
    l->n_levels = l->cap_levels = 0;
}

static void doubts_clear(listing *l)
{
    while (l->n_doubts > 0)
        hr__free(l->doubts[--l->n_doubts]);
}

/* ------------------------------------------------------------------------------------------------------------ pages */

/* The length of the prefix's folder, with its slash. */
static int folder_of(const char *prefix, int n)
{
    while (n > 0 && prefix[n - 1] != '/')
        n--;
    return n;
}

static hr_status ask(const listing *l, const hr_list_query *q, hr_http_request *r, hr_error *err)
{
    hr_text query = { 0 };
    hr_status st;

    l->kind->add_list_query(q, &query);
    if (query.failed)
        st = hr__error_memory(err, l->url, (int64_t)strlen(q->prefix));
    else
        st = hr__bucket_request(r, "GET", l->store, l->url, query.data, NULL, err);
    r->max_body = PAGE_BYTES;
    r->is_list = true;
    hr__text_clear(&query);
    return st;
}

/* Whether the first page of a span had all of its keys, as far as other spans tell (folders of a thousand files): one
 * key proves it then, where a page would be the next span's again. */
static bool seems_whole(const listing *l, const span *s)
{
    return s->upto && s->n_full == 1 && l->way == HR_LIST_BEHIND && l->n_bare > l->n_more;
}

static hr_status page_request(const listing *l, const span *s, hr_http_request *r, hr_error *err)
{
    const char *given = s->prefix ? s->prefix : l->prefix;
    int n = (int)strlen(given);
    char *prefix = hr__strndup(NULL, given, (size_t)(l->way == HR_LIST_FOLDERS ? folder_of(given, n) : n));
    hr_status st;

    if (!prefix)
        return hr__error_memory(err, l->url, n);
    st = ask(l, &(hr_list_query){ prefix, s->token, s->after, s->behind != NULL, seems_whole(l, s) }, r, err);
    hr__free(prefix);
    return st;
}

static hr_status add_key(const char *url, const hr_list_key *k, hr_paths *out, hr_error *err)
{
    char *path = hr__url_of_key(url, k->key, NULL);
    const char *tag = k->tag && k->tag[0] == '"' && k->tag[1] != '"' ? k->tag : NULL; /* not a weak one */
    hr_status st;

    if (!path)
        return hr__error_memory(err, url, (int64_t)strlen(k->key));
    st = hr__paths_add(out, path, tag, k->n_bytes, hr__version_of(tag), err);
    hr__free(path);
    return st;
}

static bool is_folder(const hr_list_key *k)
{
    return k->is_folder || (k->n_bytes == 0 && k->key[0] && k->key[strlen(k->key) - 1] == '/');
}

static hr_status keep(char **at, const char *key, hr_error *err)
{
    hr__free(*at);
    *at = hr__strdup(NULL, key);
    return *at ? HR_OK : hr__error_memory(err, "list of a store", (int64_t)strlen(key));
}

/* Whether a pattern's text is the key, or a folder above it: what exists is no pattern, as for local files. */
static bool is_named(const char *pattern, const char *key, const hr_paths_options *options)
{
    size_t n = strlen(pattern);

    n -= n > 0 && pattern[n - 1] == '/';
    if (strncmp(key, pattern, n) != 0)
        return false;
    return (pattern[n] == 0 && key[n] == 0) || (key[n] == '/' && hr__key_fits(NULL, key + n + 1, options));
}

static int64_t count_slashes(const char *s)
{
    int64_t n = 0;

    for (; (s = strchr(s, '/')); s++)
        n++;
    return n;
}

/* Adds the key if it fits. After the first one that the pattern names itself, only such keys count. */
static hr_status take_file(listing *l, const hr_list_key *k, hr_error *err)
{
    bool is_name = l->pattern && is_named(l->pattern, k->key, l->options);

    if (is_name && !l->is_named)
        hr__paths_cut(l->out, l->begin);
    l->is_named = l->is_named || is_name;
    if (!is_name &&
        (l->is_named || !hr__key_fits(l->pattern, l->pattern ? k->key : k->key + strlen(l->prefix), l->options)))
        return HR_OK;
    l->is_deep = l->is_deep || (l->pattern && count_slashes(k->key) > count_slashes(l->pattern));
    return add_key(l->url, k, l->out, err);
}

static hr_status take_key(listing *l, const hr_list_key *k, hr_error *err)
{
    if (hr__is_record(k->key))
        HR_TRY(add_key(l->url, k, l->records, err));
    return is_folder(k) ? HR_OK : take_file(l, k, err);
}

/* Whether the page's keys ascend, and are behind what the span has had. */
static bool ascends(const span *s, const hr_list_page *page)
{
    const char *before = s->last ? s->last : s->after;

    for (int64_t i = 0; i < page->n; before = page->items[i++].key)
        if (before && strcmp(page->items[i].key, before) <= 0)
            return false;
    return true;
}

/* Whether the name is that of the folder, and goes on with a byte before the slash: "a-b" of the folder "a". */
static bool is_before_slash(const char *name, const char *folder)
{
    size_t n = strlen(folder);

    return strncmp(name, folder, n) == 0 && name[n] && (unsigned char)name[n] < '/';
}

static bool has_before_slash(const hr_list_page *page, const char *folder)
{
    bool found = false;

    for (int64_t i = 0; i < page->n && !found; i++)
        found = is_before_slash(page->items[i].key, folder);
    for (int64_t i = 0; i < page->n_folders && !found; i++)
        found = is_before_slash(page->folders[i], folder);
    return found;
}

/* Finds what can come behind the first page, and before its last key in the order of bytes.
 *
 * The page's keys ascend byte by byte. If the store lists by bytes, all other keys are behind them. If it lists folder
 * by folder, by the bytes of names, the two orders differ only where a folder's name begins another name that goes on
 * with a byte before the slash: "a/" and "a-b". Both orders have "a/x" in the page, so "a-b" can come behind the page
 * only if the page ends inside of "a/". Such folders of the last key are the doubts; the store is asked for names that
 * begin so. A name of this kind in the page proves the order of bytes. */
static hr_status take_doubts(listing *l, const hr_list_page *page, hr_error *err)
{
    const char *last = page->items[page->n - 1].key, *slash = strchr(last + strlen(l->prefix), '/');

    for (; slash; slash = strchr(slash + 1, '/')) {
        char *folder = hr__strndup(NULL, last, (size_t)(slash - last));

        if (!folder)
            return hr__error_memory(err, l->url, slash - last);
        if (has_before_slash(page, folder)) {
            hr__free(folder);
            doubts_clear(l);
            return HR_OK;
        }
        if (l->n_doubts == MOST_LEVELS) {
            hr__free(folder);
            l->may_begin = false;
            return HR_OK;
        }
        l->doubts[l->n_doubts++] = folder;
    }
    return HR_OK;
}

/* The first page of the list, which may be enough. */
static hr_status take_first(listing *l, const span *s, const hr_list_page *page, hr_error *err)
{
    doubts_clear(l);
    l->may_begin = page->n > 0 && ascends(s, page) && l->way != HR_LIST_FOLDERS;
    return l->may_begin ? take_doubts(l, page, err) : HR_OK;
}

/* The second page of a span says whether second pages are of use. */
static void count_second(listing *l, const span *s, const hr_list_page *page)
{
    bool bare = page->n == 0 || (s->over && strcmp(s->over, page->items[0].key) == 0);

    l->n_bare += bare;
    l->n_more += !bare;
}

/* Takes the keys of a page that belong to the span, and how it goes on. */
static hr_status take_page(listing *l, span *s, hr_list_page *page, hr_error *err)
{
    if (l->may_cut && !ascends(s, page)) {
        l->is_odd = true;
        return HR_OK;
    }
    if (l->may_begin && s == l->spans && !s->last)
        HR_TRY(take_first(l, s, page, err));
    if (page->n && !s->first)
        HR_TRY(keep(&s->first, page->items[0].key, err));
    if (page->n) {
        const char *last = page->items[page->n - 1].key;

        s->stays = s->last && strncmp(s->last, last, (size_t)folder_of(last, (int)strlen(last))) == 0;
        HR_TRY(keep(&s->last, last, err));
    }
    for (int64_t i = 0; i < page->n && !s->over; i++) {
        const char *key = page->items[i].key;

        if (strncmp(key, l->prefix, strlen(l->prefix)) != 0) {
            if (l->way == HR_LIST_FOLDERS)
                continue;
            return hr_error_set(err, HR_BAD_DATA, "%s: the list has a key that does not begin with '%s'", l->url,
                                l->prefix);
        }
        if ((s->upto && strcmp(key, s->upto) > 0) || (s->within && strncmp(key, s->within, strlen(s->within)) != 0))
            HR_TRY(keep(&s->over, key, err));
        else
            HR_TRY(take_key(l, &page->items[i], err));
    }
    if (s->upto && s->n_full == 1)
        count_second(l, s, page);
    s->is_done = s->over || !page->truncated;
    l->n_full += !s->is_done;
    s->n_full += !s->is_done;
    if (!s->is_done && (!page->next || (s->token && strcmp(s->token, page->next) == 0)))
        return hr_error_set(err, HR_BAD_DATA, "%s: the list is cut off, and does not say where it goes on", l->url);
    hr__free(s->token);
    s->token = page->next;
    page->next = NULL;
    return HR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- guards */

/* Whether the last folder of the n characters is "name=value/". */
static bool is_partition(const char *prefix, int n)
{
    int begin = n ? folder_of(prefix, n - 1) : 0;

    return n > begin + 1 && prefix[begin] != '=' && memchr(prefix + begin, '=', (size_t)(n - 1 - begin));
}

/* Finds the folders at and above the prefix in which a job may have a record that hides what is listed. own: also the
 * prefix's own folder, which the list shows. */
static void find_guards(listing *l, bool own)
{
    int n = (int)strlen(l->prefix), folder = folder_of(l->prefix, n);

    l->n_guards = 0;
    if (own || strncmp(HR_RECORD, l->prefix + folder, (size_t)(n - folder)) != 0)
        l->guards[l->n_guards++] = folder;
    for (; is_partition(l->prefix, folder) && l->n_guards < MOST_GUARDS; l->guards[l->n_guards++] = folder)
        folder = folder_of(l->prefix, folder - 1);
}

/* Directory buckets take no prefix of a name: they list the level. */
static hr_status guard_request(const listing *l, int guard, const char *token, hr_http_request *r, hr_error *err)
{
    bool level = l->way == HR_LIST_FOLDERS;
    char *prefix = hr__printf(NULL, "%.*s%s", guard, l->prefix, level ? "" : HR_RECORD);
    hr_status st;

    if (!prefix)
        return hr__error_memory(err, l->url, guard);
    st = ask(l, &(hr_list_query){ .prefix = prefix, .token = token, .level = level }, r, err);
    hr__free(prefix);
    return st;
}

/* The first object whose ETag the list has without quotes; NULL: none. */
static const hr_list_key *find_quoted(const hr_list_page *page)
{
    for (int64_t i = 0; i < page->n; i++)
        if (page->items[i].gained_quotes && !is_folder(&page->items[i]))
            return &page->items[i];
    return NULL;
}

/* Asks for the object's ETag. false: the answer has another one, or none. A refusal tells nothing. */
static bool is_tag_of_answer(const listing *l, const hr_list_key *k)
{
    char *url = hr__url_of_key(l->url, k->key, NULL);
    hr_http_request r = { 0 };
    hr_error err = HR_ERROR_INIT;
    bool same;

    r.st = url ? hr__store_request(&r, "HEAD", l->store, url, "", NULL, &err) : HR_NO_MEMORY;
    hr__http_run_all(&r, 1);
    same = r.st || strcmp(r.answer.etag, k->tag) == 0;
    if (!r.st && same)
        atomic_store(&l->store->quotes_fit, true);
    hr__http_clear(&r);
    hr_error_clear(&err);
    hr__free(url);
    return same;
}

/* Tags that gained quotes stay if an answer has the same: else If-Match would fail each read. One object is asked. */
static void check_quotes(const listing *l, hr_list_page *page)
{
    const hr_list_key *k = atomic_load(&l->store->quotes_fit) ? NULL : find_quoted(page);

    if (!k || is_tag_of_answer(l, k))
        return;
    for (int64_t i = 0; i < page->n; i++)
        if (page->items[i].gained_quotes) {
            hr__free(page->items[i].tag);
            page->items[i].tag = NULL;
        }
}

static hr_status parse_page(const listing *l, const hr_http_request *r, hr_list_page *page, hr_error *err)
{
    hr_status st = hr__list_parse(r->body.data ? r->body.data : "", r->body.n, page, err);

    if (st)
        return hr__error_at(err, st, "%s", l->url);
    check_quotes(l, page);
    return HR_OK;
}

/* Adds the records of the answer, and of the pages behind it. Who may not list the folder has none. */
static hr_status take_guard(const listing *l, int guard, hr_http_request *r, hr_paths *out, hr_error *err)
{
    hr_status st = HR_OK;

    for (bool more = true; more && !st;) {
        hr_list_page page = { 0 };

        if (r->st && r->answer.status == 403)
            return HR_OK;
        if (r->st)
            return hr__error_copy(err, &r->err);
        HR_TRY(parse_page(l, r, &page, err));
        for (int64_t i = 0; i < page.n && !st; i++)
            if (folder_of(page.items[i].key, (int)strlen(page.items[i].key)) == guard &&
                hr__is_record(page.items[i].key))
                st = add_key(l->url, &page.items[i], out, err);
        more = page.truncated && page.next;
        hr__http_clear(r);
        if (!st && more)
            st = guard_request(l, guard, page.next, r, err);
        hr__list_clear(&page);
        if (!st && more)
            hr__http_run_all(r, 1);
    }
    return st;
}

static bool has_path(const hr_paths *p, const char *path)
{
    for (int64_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].path, path) == 0)
            return true;
    return false;
}

/* Whether the page has only names of the folder's level, and none with a byte before the slash. */
static bool is_clear(const hr_list_page *page, const char *folder)
{
    size_t n = strlen(folder);

    for (int64_t i = 0; i < page->n; i++)
        if (strncmp(page->items[i].key, folder, n) == 0 && page->items[i].key[n] == '/' && page->items[i].key[n + 1])
            return false; /* the store has given a list of all levels */
    return !has_before_slash(page, folder);
}

/* Whether no name can come behind the first page, and before its last key. The answer has the names that begin with
 * that of the doubt's folder: a list by folders has those with a byte before the slash first. */
static bool is_settled(const listing *l, const char *doubt, const hr_http_request *r)
{
    hr_list_page page = { 0 };
    hr_error err = HR_ERROR_INIT;
    bool settled = !r->st && !parse_page(l, r, &page, &err) && is_clear(&page, doubt);

    hr__list_clear(&page);
    hr_error_clear(&err);
    return settled;
}

/* *again: a job has made a record while the pages were asked for, or the first page is not the beginning. */
static hr_status check_end(listing *l, bool *again, hr_error *err)
{
    hr_http_request r[MOST_GUARDS + MOST_LEVELS] = { 0 };
    int n, n_doubts = l->is_beginning ? l->n_doubts : 0;
    hr_paths found = { 0 };
    hr_status st = HR_OK;

    find_guards(l, true);
    n = l->n_guards + n_doubts;
    for (int i = 0; i < l->n_guards; i++)
        r[i].st = guard_request(l, l->guards[i], NULL, &r[i], &r[i].err);
    for (int i = l->n_guards; i < n; i++)
        r[i].st = ask(l, &(hr_list_query){ .prefix = l->doubts[i - l->n_guards], .level = true }, &r[i], &r[i].err);
    hr__http_run_all(r, n);
    for (int i = 0; i < l->n_guards && !st; i++)
        st = take_guard(l, l->guards[i], &r[i], &found, err);
    for (int64_t i = 0; i < found.n && !st; i++)
        *again = *again || !has_path(l->records, found.items[i].path);
    for (int i = l->n_guards; i < n; i++)
        *again = *again || !is_settled(l, l->doubts[i - l->n_guards], &r[i]);
    for (int i = 0; i < n; i++)
        hr__http_clear(&r[i]);
    hr__paths_clear(&found);
    return st;
}

/* ------------------------------------------------------------------------------------------------------------- cuts */

/* The smallest of these that has all letters and digits of both keys from `at` on, up to another character. */
static const char *alphabet_of(const char *a, const char *b, size_t at)
{
    static const char *const sets[] = { "0123456789", "0123456789abcdef", "0123456789ABCDEF",
                                        "0123456789abcdefghijklmnopqrstuvwxyz",
                                        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" };
    const char *all = sets[HR_LEN(sets) - 1];
    size_t n = strspn(a + at, all), m = strspn(b + at, all);

    for (int i = 0; i < HR_LEN(sets); i++)
        if (strspn(a + at, sets[i]) >= n && strspn(b + at, sets[i]) >= m)
            return n ? sets[i] : NULL;
    return NULL;
}

/* Adds the keys that have a larger character of the set than `last` has at `at`, and end there, in descending order.
 * Names of folders end with their slash: SeaweedFS begins behind a folder that is named without it. */
static int add_larger(const char *last, size_t at, const char *set, const char *upto, char **out, int n)
{
    for (size_t c = strlen(set); c-- > 0 && n < MOST_CUTS && set[c] > last[at];) {
        char *cut = hr__printf(NULL, "%.*s%c%s", (int)at, last, set[c], last[at + 1] == '/' ? "/" : "");

        if (cut && (!upto || strcmp(cut, upto) < 0))
            out[n++] = cut;
        else
            hr__free(cut);
    }
    return n;
}

/* Whether a number of `last` ends at `at`, with nothing but digits between two marks: "2024" of "y=2024/". */
static bool ends_number(const char *last, size_t begin, size_t at)
{
    size_t from = at;

    while (from > begin && isdigit((unsigned char)last[from - 1]))
        from--;
    return isdigit((unsigned char)last[at]) && !isalnum((unsigned char)last[at + 1]) &&
           (from == 0 || !isalnum((unsigned char)last[from - 1]));
}

/* Likely keys between `last` and `upto` (NULL: the end), where a page has had the keys from `first` to `last`: larger
 * last digits of the numbers that did not change ("y=2025" after "y=2024/m=01"), then larger characters where the keys
 * change, if that is before `end`. New texts, in descending order, MOST_CUTS at most. -> their number. */
static int find_cuts(const char *first, const char *last, const char *upto, size_t n_prefix, size_t end, char **out)
{
    size_t at = 0, begin;
    const char *set;
    int n = 0, n_before;

    while (first[at] && first[at] == last[at])
        at++;
    if (at < n_prefix || !last[at] || !(set = alphabet_of(last, first, at)))
        return 0;
    for (begin = at; begin > n_prefix && strchr(set, last[begin - 1]); begin--)
        ;
    for (size_t i = n_prefix; i < begin; i++)
        if (ends_number(last, n_prefix, i))
            n = add_larger(last, i, "0123456789", upto, out, n);
    for (n_before = n; begin < end && begin <= at && n < n_before + CUTS; begin++)
        n = add_larger(last, begin, set, upto, out, n);
    return n;
}

/* The part of the span up to `takes_cut` stays, the rest is a span of its own. */
static void cut_at(listing *l, int64_t place, char *takes_cut)
{
    char *copy = hr__strdup(NULL, takes_cut);
    span *s;

    if (!copy || !hr__grow(NULL, (void **)&l->spans, &l->cap, l->n + 1, sizeof *l->spans)) {
        hr__free(copy); /* without memory there are fewer cuts */
        hr__free(takes_cut);
        return;
    }
    s = &l->spans[place];
    memmove(s + 2, s + 1, (size_t)(l->n++ - place - 1) * sizeof *s);
    s[1] = (span){ .after = copy, .upto = s->upto };
    s->upto = takes_cut;
}

/* Cuts what follows the page in the span at `place`, at most at `most` of the likely keys. -> the new spans. A folder
 * is not cut before it has proven to have a second page: cuts behind its last key ask for one page again and again. */
static int64_t cut_span(listing *l, int64_t place, const hr_list_page *page, int64_t most)
{
    const char *first = page->items[0].key, *last = page->items[page->n - 1].key;
    int64_t before = l->n;
    char *cuts[MOST_CUTS];
    size_t folder = (size_t)folder_of(last, (int)strlen(last)), n_prefix = strlen(l->prefix);
    bool alone = l->n_full == 1 || folder <= n_prefix; /* levels will tell of folders */
    int n;

    if (!alone && strncmp(first, last, folder) != 0)
        return 0;
    n = find_cuts(first, last, l->spans[place].upto, alone ? n_prefix : folder,
                  folder <= n_prefix || l->spans[place].stays ? SIZE_MAX : folder, cuts);

    for (int i = 0; i < n; i++)
        if (n <= most || (i + 1) * most / n > i * most / n)
            cut_at(l, place, cuts[i]);
        else
            hr__free(cuts[i]);
    return l->n - before;
}

/* The number of spans that can be added to n_open ones. */
static int64_t room_for(const listing *l, int64_t n_open)
{
    return HR_MAX(0, HR_MIN(AT_ONCE, l->n_full == 1 ? FIRST_SPREAD : SPREAD * l->n_full) - n_open);
}

/* ----------------------------------------------------------------------------------------------------------- levels */

static bool is_known(const listing *l, const char *prefix, size_t n, const char *last)
{
    for (int64_t i = 0; i < l->n_levels; i++) {
        const level *v = &l->levels[i];

        if (strlen(v->prefix) == n && memcmp(v->prefix, prefix, n) == 0 && (!v->end || strcmp(last, v->end) < 0))
            return true;
    }
    return false;
}

/* The different names of a level that the page has; n: the length of the level's prefix. */
static int64_t count_names(const hr_list_page *page, size_t n)
{
    int64_t found = 1;

    for (int64_t i = 1; i < page->n; i++) {
        const char *a = page->items[i - 1].key, *b = page->items[i].key;

        found += strlen(b) > n && strncmp(a, b, n + strcspn(b + n, "/") + 1) != 0;
    }
    return found;
}

/* The folders between the prefix and the last key of a page that is not the last one: their levels are asked for in the
 * next round. page: NULL: it has gone. Without memory there are fewer cuts. */
static void add_levels(listing *l, const char *last, const hr_list_page *page)
{
    size_t n = strlen(l->prefix);

    for (const char *slash; (slash = strchr(last + n, '/')); n = (size_t)(slash + 1 - last)) {
        level v = { .per_page = page ? count_names(page, n) : 1 };

        if (is_known(l, last, n, last))
            continue;
        v.prefix = hr__strndup(NULL, last, n);
        v.after = hr__strdup(NULL, last);
        if (v.prefix && v.after &&
            hr__grow(NULL, (void **)&l->levels, &l->cap_levels, l->n_levels + 1, sizeof *l->levels)) {
            l->levels[l->n_levels++] = v;
            continue;
        }
        hr__free(v.prefix);
        hr__free(v.after);
    }
}

/* The span whose open part has the key; -1: none. */
static int64_t find_span(const listing *l, const char *key)
{
    for (int64_t i = 0; i < l->n; i++) {
        const span *s = &l->spans[i];

        if (s->upto && strcmp(key, s->upto) >= 0)
            continue;
        return !s->is_done && (!s->after || strcmp(key, s->after) > 0) && (!s->last || strcmp(key, s->last) > 0) ? i
                                                                                                                 : -1;
    }
    return -1;
}

/* Cuts at folders of the level, so that each part has a page at least, if folders are as large as those before. Who may
 * not list a level has fewer cuts. */
static void take_level(listing *l, level *v, const hr_http_request *r, int64_t most)
{
    hr_list_page page = { 0 };
    hr_error err = HR_ERROR_INIT;
    int64_t step;

    if (!r->st && !parse_page(l, r, &page, &err) && page.n_folders > 0 && most > 0) {
        step = HR_MAX(v->per_page, (page.n_folders + most - 1) / most);
        for (int64_t i = 0; i < page.n_folders; i += step) {
            int64_t place = find_span(l, page.folders[i]);
            char *cut = place < 0 ? NULL : hr__strdup(NULL, page.folders[i]);

            if (cut) {
                int64_t before = l->n;

                cut_at(l, place, cut);
                if (l->n > before)
                    l->spans[place + 1].is_folder = true;
            }
        }
        if (page.truncated)
            v->end = hr__strdup(NULL, page.folders[page.n_folders - 1]);
    }
    hr__list_clear(&page);
    hr_error_clear(&err);
}

/* ---------------------------------------------------------------------------------------------------------- folders */

/* behind: NULL: all keys with the prefix. */
static hr_status add_span(listing *l, const char *prefix, size_t n, const char *behind, hr_error *err)
{
    span *s;

    if (!hr__grow(NULL, (void **)&l->spans, &l->cap, l->n + 1, sizeof *l->spans))
        return hr__error_memory(err, l->url, sizeof *l->spans);
    s = &l->spans[l->n++];
    *s = (span){ .prefix = hr__strndup(NULL, prefix, n), .behind = hr__strdup(NULL, behind) };
    return s->prefix && (s->behind || !behind) ? HR_OK : hr__error_memory(err, l->url, (int64_t)n);
}

/* Whether the page has few different folders whose names end at or behind `n` characters. */
static bool has_few_folders(const hr_list_page *page, size_t n)
{
    int found = 0;

    for (int64_t i = 1; i < page->n && found <= FEW_FOLDERS; i++) {
        const char *a = page->items[i - 1].key, *b = page->items[i].key,
                   *slash = strlen(b) > n ? strchr(b + n, '/') : NULL;

        found += slash && strncmp(a, b, (size_t)(slash + 1 - b)) != 0;
    }
    return found < FEW_FOLDERS;
}

/* The span at `place` goes on to the end of the folder of its last key, and what comes behind that folder are spans of
 * their own: for each level between the span's folder and that one, the level's keys, and its folders behind the key's
 * when they are known. The order of a level is that of the list, so its folders before have been listed. Its keys come
 * once more, which makes no difference. */
static hr_status divide(listing *l, int64_t place, const hr_list_page *page, hr_error *err)
{
    const char *last = page->items[page->n - 1].key, *slash;
    span *s = &l->spans[place];
    size_t n = strlen(s->within ? s->within : s->prefix ? s->prefix : l->prefix);
    char *within = NULL;
    hr_status st = HR_OK;

    for (int i = 0; i < MOST_LEVELS && !st && (slash = strchr(last + n, '/')) && has_few_folders(page, n); i++) {
        size_t m = (size_t)(slash + 1 - last);

        hr__free(within);
        within = hr__strndup(NULL, last, m);
        st = within ? add_span(l, last, n, within, err) : hr__error_memory(err, l->url, (int64_t)m);
        n = m;
    }
    if (within && !st) {
        s = &l->spans[place];
        hr__free(s->within);
        s->within = within;
        within = NULL;
    }
    hr__free(within);
    return st;
}

/* A page of the span at `place` of a list that is divided into folders. */
static hr_status take_folders(listing *l, int64_t place, const hr_list_page *page, hr_error *err)
{
    hr_status st = HR_OK;

    if (!l->spans[place].behind) {
        l->n_asked += l->spans[place].prefix != NULL;
        l->n_found += l->spans[place].prefix ? page->n : 0;
        return l->spans[place].is_done || page->n < 2 ? HR_OK : divide(l, place, page, err);
    }
    for (int64_t i = 0; i < page->n_folders && !st; i++) {
        if (l->spans[place].passed)
            st = add_span(l, page->folders[i], strlen(page->folders[i]), NULL, err);
        else
            l->spans[place].passed = strcmp(page->folders[i], l->spans[place].behind) == 0;
    }
    if (l->spans[place].is_done && !l->spans[place].passed)
        l->is_odd = true; /* the folder has gone, or is elsewhere */
    return st;
}

static bool are_small(const listing *l)
{
    return l->n_asked >= TRIES && l->n_found / l->n_asked < l->page_keys / SMALL_SHARE;
}

/* ----------------------------------------------------------------------------------------------------------- rounds */

/* The answers of a round, from the last one on, so that new spans move no place that is still to come. */
static hr_status take_round(listing *l, const int64_t *places, hr_http_request *r, int n, int64_t n_open, hr_error *err)
{
    hr_status st = HR_OK;

    for (int i = 0; i < n && !st; i++)
        if (r[i].st) {
            hr__error_move(err, &r[i].err);
            st = r[i].st;
        }
    for (int i = n - 1; i >= 0 && !st; i--) {
        span *s = &l->spans[places[i]];
        hr_list_page page = { 0 };

        st = parse_page(l, &r[i], &page, err);
        if (!st)
            st = take_page(l, s, &page, err);
        if (!st && s->is_done)
            n_open--;
        if (!st && l->may_divide)
            st = take_folders(l, places[i], &page, err);
        l->page_keys = HR_MAX(l->page_keys, page.n);
        if (!st && l->may_cut && !l->is_odd && !s->is_done && page.n > 1) {
            if (n_open < AT_ONCE)
                add_levels(l, page.items[page.n - 1].key, &page);
            n_open +=
                cut_span(l, places[i], &page, HR_MIN(room_for(l, n_open), SPREAD_OF_SPAN * (s->n_full - s->is_folder)));
        }
        hr__list_clear(&page);
    }
    return st;
}

/* Asks for the first page, whose refusal can say how to ask, and for the records above the prefix: r[1] and so on. */
static hr_status run_first(const listing *l, hr_http_request *r, hr_error *err)
{
    for (bool again = true, once = false; again; once = true) {
        for (int i = 0; i <= l->n_guards; i++)
            hr__http_clear(&r[i]);
        r[0].st = page_request(l, &l->spans[0], &r[0], &r[0].err);
        for (int i = 0; i < l->n_guards; i++)
            r[i + 1].st = guard_request(l, l->guards[i], NULL, &r[i + 1], &r[i + 1].err);
        hr__http_run_all(r, l->n_guards + 1);
        again = r[0].st && !once && hr__store_learn(l->store, l->url, &r[0]);
    }
    if (r[0].st)
        return HR_OK; /* the page's error is the list's */
    for (int i = 0; i < l->n_guards; i++)
        HR_TRY(take_guard(l, l->guards[i], &r[i + 1], l->records, err));
    return HR_OK;
}

static int64_t count_open(const listing *l)
{
    int64_t n = 0;

    for (int64_t i = 0; i < l->n; i++)
        n += !l->spans[i].is_done;
    return n;
}

/* Asks for levels that are new, from r on. -> their number. */
static int ask_levels(listing *l, hr_http_request *r, int64_t *which)
{
    int n = 0;

    for (int64_t i = 0; i < l->n_levels && n < LEVELS_AT_ONCE; i++) {
        level *v = &l->levels[i];

        if (v->is_asked)
            continue;
        v->is_asked = true;
        r[n].st = ask(l, &(hr_list_query){ .prefix = v->prefix, .after = v->after, .level = true }, &r[n], &r[n].err);
        which[n++] = i;
    }
    return n;
}

/* Asks for the next page of each open span, and for levels. *more: there were any. */
static hr_status run_round(listing *l, bool is_first, bool *more, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (AT_ONCE + LEVELS_AT_ONCE) * sizeof *r);
    int64_t places[AT_ONCE], levels[LEVELS_AT_ONCE], n_open = count_open(l);
    hr_status st = HR_OK;
    int n = 0, n_levels = 0;

    if (!r)
        return hr__error_memory(err, l->url, (int64_t)(AT_ONCE * sizeof *r));
    for (int64_t i = 0; i < l->n && n < (l->may_divide ? FOLDERS_AT_ONCE : AT_ONCE); i++)
        if (!l->spans[i].is_done)
            places[n++] = i;
    *more = n > 0;
    if (is_first)
        HR_GO(run_first(l, r, err));
    for (int i = 0; i < n && !is_first; i++)
        r[i].st = page_request(l, &l->spans[places[i]], &r[i], &r[i].err);
    if (!is_first) {
        n_levels = n > 0 && l->may_cut ? ask_levels(l, r + n, levels) : 0;
        hr__http_run_all(r, n + n_levels);
    }
    st = take_round(l, places, r, n, n_open, err);
    for (int i = 0; i < n_levels && !st && !l->is_odd; i++)
        take_level(l, &l->levels[levels[i]], &r[n + i], AT_ONCE - count_open(l));
done:
    for (int i = 0; i < AT_ONCE + LEVELS_AT_ONCE; i++)
        hr__http_clear(&r[i]);
    hr__free(r);
    return st;
}

static bool is_same(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* Whether each span ends where the next one begins. */
static bool is_whole(const listing *l)
{
    for (int64_t i = 0; i + 1 < l->n; i++)
        if (!is_same(l->spans[i].over, l->spans[i + 1].first))
            return false;
    return true;
}

/* The first key of an ascending list that goes on is the first file, unless something changes or a job hides it. */
static void tell_first(const listing *l)
{
    if (l->options->on_first && l->n_full && l->begin == 0 && l->out->n > 0 && l->records->n == 0 && !l->is_odd &&
        l->way != HR_LIST_FOLDERS)
        l->options->on_first(l->options->context, &l->out->items[0], l->store);
}

/* Whether the files of the first page are the first ones of the whole list, if no doubt is left. A record of a job
 * proves nothing. A pattern that is the name of something that exists chooses only that: its name would be in the
 * page. */
static bool is_beginning(const listing *l)
{
    const span *s = &l->spans[0];

    return l->may_begin && l->begin == 0 && !s->is_done && l->out->n > 0 && !l->is_odd && !l->is_named &&
           !(l->is_deep && l->options->first_page == HR_FIRST_OF_LEVEL) && l->records->n == 0 &&
           (!l->pattern || (strcmp(l->pattern, s->last) < 0 && strncmp(l->pattern, s->last, strlen(l->pattern)) != 0));
}

/* ------------------------------------------------------------------------------------------------------------- rest */

void hr__list_rest_free(hr_list_rest *r)
{
    if (r)
        spans_free(r->spans, r->n);
    hr__free(r);
}

/* The beginning takes the spans. Without memory the list begins anew. */
static void keep_rest(listing *l)
{
    hr_list_rest *r = hr__alloc(NULL, sizeof *r);

    if (!r)
        return;
    *r = (hr_list_rest){ l->spans, l->n, l->n_full, l->page_keys, hr__clock_ns() };
    l->out->rest = r;
    l->spans = NULL;
    l->n = l->cap = 0;
}

static bool copy_text(char **to, const char *from) { return !from || (*to = hr__strdup(NULL, from)); }

/* The files of the beginning, and copies of the spans behind them. */
static hr_status take_rest(listing *l, hr_error *err)
{
    const hr_list_rest *r = l->begun->rest;

    if (!hr__grow(NULL, (void **)&l->spans, &l->cap, r->n, sizeof *l->spans))
        return hr__error_memory(err, l->url, r->n * (int64_t)sizeof *l->spans);
    for (int64_t i = 0; i < r->n; i++) {
        const span *from = &r->spans[i];
        span *to = &l->spans[l->n++];

        *to = (span){ .passed = from->passed, .is_done = from->is_done };
        if (!copy_text(&to->after, from->after) || !copy_text(&to->upto, from->upto) ||
            !copy_text(&to->token, from->token) || !copy_text(&to->first, from->first) ||
            !copy_text(&to->over, from->over) || !copy_text(&to->last, from->last) ||
            !copy_text(&to->prefix, from->prefix) || !copy_text(&to->within, from->within) ||
            !copy_text(&to->behind, from->behind))
            return hr__error_memory(err, l->url, sizeof *to);
    }
    for (int64_t i = 0; i < l->begun->n; i++) {
        const hr_path *p = &l->begun->items[i];

        HR_TRY(hr__paths_add(l->out, p->path, p->tag, p->n_bytes, p->mtime_ns, err));
    }
    l->n_full = r->n_full;
    l->page_keys = r->page_keys;
    if (l->may_cut)
        add_levels(l, r->spans[0].last, NULL);
    return HR_OK;
}

static bool goes_on(const hr_paths *begun)
{
    return begun && begun->rest && hr__clock_ns() - begun->rest->at_ns < REST_NS;
}

static hr_status list_once(listing *l, hr_error *err)
{
    int64_t begin_records = l->records->n;
    hr_status st = HR_OK;

    l->begin = l->out->n;
    l->kind = hr__kind_of(l->url);
    l->way = l->kind->list_way ? l->kind->list_way(l->store, l->url) : HR_LIST_PAGES;
    l->may_cut = l->way == HR_LIST_BEHIND;
    l->may_divide = l->way == HR_LIST_PAGES;
    for (bool again = true, anew = !goes_on(l->begun); again; anew = true) {
        bool more = true;

        again = false;
        if (!anew)
            HR_GO(take_rest(l, err));
        else if (!hr__grow(NULL, (void **)&l->spans, &l->cap, 1, sizeof *l->spans))
            HR_GO(hr__error_memory(err, l->url, sizeof *l->spans));
        else
            l->spans[l->n++] = (span){ 0 };
        l->is_odd = l->is_named = l->is_deep = false;
        l->n_asked = l->n_found = 0;
        for (bool is_first = anew; more && !l->is_odd && !are_small(l); is_first = false) {
            HR_GO(run_round(l, is_first, &more, err));
            if (is_first)
                tell_first(l);
            if (is_first && (l->is_beginning = is_beginning(l)))
                break;
        }
        if (l->is_beginning) {
            keep_rest(l);
            break;
        }
        if (l->is_odd || are_small(l) || (l->may_cut && !is_whole(l))) {
            again = true;
            l->may_cut = l->may_divide = false;
            hr__paths_cut(l->out, l->begin);
            hr__paths_cut(l->records, begin_records);
        }
        spans_clear(l);
        levels_clear(l);
    }
    hr__paths_sort(l->out, l->begin);
done:
    spans_clear(l);
    levels_clear(l);
    return st;
}

hr_status hr__store_list(hr_store *s, const char *url, const char *prefix, const char *pattern,
                         const hr_paths_options *options, hr_paths *out, hr_error *err)
{
    hr_paths ended = { 0 };
    int64_t begin = out->n;
    hr_status st = HR_OK;
    bool again = true;

    for (int i = 0; i < MAX_LISTS && again && !st; i++) {
        hr_paths records = { 0 };
        listing l = { .store = s, .url = url, .prefix = prefix, .pattern = pattern, .options = options };

        again = false;
        l.begun = i == 0 && begin == 0 ? options->begun : NULL;
        l.records = &records;
        l.out = out;
        l.may_begin = options->first_page && i == 0; /* else a record on a later page is there, and not on the first */
        hr__paths_cut(out, begin);
        hr__list_rest_free(out->rest);
        out->rest = NULL;
        find_guards(&l, false);
        st = list_once(&l, err);
        if (!st && l.n_full)
            st = check_end(&l, &again, err);
        if (!st && !again)
            st = hr__store_leave_out(s, &records, begin, out, &ended, &again, err);
        out->is_beginning = l.is_beginning;
        doubts_clear(&l);
        hr__paths_clear(&records);
    }
    hr__paths_clear(&ended);
    if (!st && again)
        st = hr_error_set(err, HR_IO, "%s: jobs began or ended to write here during each of %d lists", url, MAX_LISTS);
    return st;
}

hr_status hr__store_records(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err)
{
    hr_paths_options none = { .ignore_missing = true };
    hr_paths others = { 0 };
    listing l = { .store = s, .url = url, .prefix = prefix, .options = &none, .records = out, .out = &others };
    hr_status st = list_once(&l, err);

    hr__paths_clear(&others);
    return st;
}
