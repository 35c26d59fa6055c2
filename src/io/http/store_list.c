/* store_list.c - the objects of a folder or a pattern in a store.
 *
 * Folders are prefixes. A pattern gives its beginning without wildcards to the store, and the rest is matched here. The
 * list comes in pages of 1,000 keys or more, one after the other. Objects without a byte whose keys end in '/' stand
 * for folders, as consoles make them; they are no files.
 *
 * The result is sorted by key, byte by byte, as a local folder's is: some stores list in no order.
 *
 * Tests: test_s3.c, test_s3.py. */
#include "io/http/http.h"

#include <string.h>

#define MAX_LISTS 10          /* while jobs end at the same time */
#define PAGE_BYTES (16 << 20) /* 5,000 keys of 1,024 bytes, some encoded, and what stands around them */

static hr_status ask_page(hr_store *s, const char *url, const char *prefix, const char *token, hr_list_page *out,
                          hr_error *err)
{
    hr_text query = { 0 };
    hr_http_request r = { 0 };
    hr_status st = HR_OK;
    bool again = true;

    hr__kind_of(url)->add_list_query(prefix, token, &query);
    if (query.failed)
        HR_GO(hr__error_memory(err, url, (int64_t)strlen(prefix)));
    do {
        hr__http_clear(&r);
        HR_GO(hr__bucket_request(&r, "GET", s, url, query.data, NULL, err));
        r.max_body = PAGE_BYTES;
        st = hr__http_run(&r, err);
        again = st && again && hr__store_learn(s, url, &r);
    } while (again);
    HR_GO(st);
    st = hr__list_parse(r.body.data ? r.body.data : "", r.body.n, out, err);
    if (st)
        st = hr__error_at(err, st, "%s", url);
done:
    hr__text_clear(&query);
    hr__http_clear(&r);
    return st;
}

static hr_status add_key(const char *url, const hr_list_key *k, hr_paths *out, hr_error *err)
{
    char *path = hr__url_of_key(url, k->key, NULL);
    const char *tag = k->tag && k->tag[0] == '"' ? k->tag : NULL; /* not a weak one */
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

static hr_status list_once(hr_store *s, const char *url, const char *prefix, const char *pattern,
                           const hr_paths_options *options, hr_paths *records, hr_paths *out, hr_error *err)
{
    int64_t begin = out->n;
    hr_list_page page = { 0 };
    char *token = NULL;
    hr_status st = HR_OK;

    do {
        HR_GO(ask_page(s, url, prefix, token, &page, err));
        for (int64_t i = 0; i < page.n; i++) {
            const char *key = page.items[i].key;

            if (strncmp(key, prefix, strlen(prefix)) != 0)
                HR_FAIL(HR_BAD_DATA, "%s: the list has a key that does not begin with '%s'", url, prefix);
            if (hr__is_record(key))
                HR_GO(add_key(url, &page.items[i], records, err));
            if (!is_folder(&page.items[i]) && hr__key_fits(pattern, pattern ? key : key + strlen(prefix), options))
                HR_GO(add_key(url, &page.items[i], out, err));
        }
        if (page.truncated && (!page.next || (token && strcmp(token, page.next) == 0)))
            HR_FAIL(HR_BAD_DATA, "%s: the list is cut off, and does not say where it goes on", url);
        hr__free(token);
        token = page.truncated ? page.next : NULL;
        page.next = page.truncated ? NULL : page.next;
        hr__list_clear(&page);
    } while (token);
    hr__paths_sort(out, begin);
done:
    hr__free(token);
    hr__list_clear(&page);
    return st;
}

hr_status hr__store_list(hr_store *s, const char *url, const char *prefix, const char *pattern,
                         const hr_paths_options *options, hr_paths *out, hr_error *err)
{
    int64_t begin = out->n;
    hr_status st = HR_OK;
    bool again = true;

    for (int i = 0; i < MAX_LISTS && again && !st; i++) {
        hr_paths records = { 0 };

        hr__paths_cut(out, begin);
        st = list_once(s, url, prefix, pattern, options, &records, out, err);
        if (!st)
            st = hr__store_leave_out(s, &records, begin, out, &again, err);
        hr__paths_clear(&records);
    }
    return st;
}

hr_status hr__store_records(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err)
{
    hr_paths_options none = { .ignore_missing = true };
    hr_paths others = { 0 };
    hr_status st = list_once(s, url, prefix, NULL, &none, out, &others, err);

    hr__paths_clear(&others);
    return st;
}
