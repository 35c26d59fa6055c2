/* hdfs_list.c - the files of a folder or a pattern in HDFS.
 *
 * Folders are read level by level, up to AT_ONCE of them at the same time. No list has what uploads have not finished.
 *
 * Records of jobs (store_commit.c) hide files. The folders that are read show theirs; those above "k=v/" folders, in
 * which a job that divides its rows has its record, are asked for, too. A list of several folders looks into the first
 * one again at its end, since a job can begin meanwhile.
 *
 * Tests: test_hdfs.py, test_hdfs_write.py. */
#include "io/http/hdfs/hdfs.h"

#define AT_ONCE 64
#define MAX_LISTS 10                  /* while jobs end at the same time */
#define LIST_BYTES ((int64_t)1 << 30) /* a folder of some million files */

typedef struct walk {
    hr_store *store;
    const char *url, *prefix, *pattern; /* pattern NULL: all that is visible below the prefix */
    const hr_paths_options *options;
    hr_paths *out;     /* of files; NULL: nobody wants them */
    hr_paths *records; /* likewise */
    hr_paths *parts;   /* of what uploads have left; NULL: nobody wants them */
    bool flat;         /* the folder of the prefix alone */
    char **folders;    /* keys, without '/' at the end; those before `at` are read */
    int64_t n, cap, at;
    int64_t n_files; /* of any name */
} walk;

static hr_status add_folder(walk *w, const char *key, size_t n, hr_error *err)
{
    char *copy = hr__strndup(NULL, key, n);

    if (!copy || !hr__grow(NULL, (void **)&w->folders, &w->cap, w->n + 1, sizeof *w->folders)) {
        hr__free(copy);
        return hr__error_memory(err, w->url, (int64_t)n);
    }
    w->folders[w->n++] = copy;
    return HR_OK;
}

static void forget_folders(walk *w)
{
    for (int64_t i = 0; i < w->n; i++)
        hr__free(w->folders[i]);
    hr__free(w->folders);
    w->folders = NULL;
    w->n = w->cap = w->at = 0;
}

static hr_status add_path(const walk *w, const char *key, const hr_hdfs_status *f, hr_paths *out, hr_error *err)
{
    char *path = hr__url_of_key(w->url, key, out->account);
    hr_status st = path ? hr__paths_add(out, path, NULL, f->n_bytes, f->version, err)
                        : hr__error_memory(err, w->url, (int64_t)strlen(key));

    hr__free(path);
    return st;
}

/* A file that may fit, or a folder below which such files may be. */
static hr_status add_visible(walk *w, const char *key, const hr_hdfs_status *f, hr_error *err)
{
    size_t n = HR_MIN(strlen(key), strlen(w->prefix));

    if (strncmp(key, w->prefix, n) != 0)
        return HR_OK;
    if (f->is_folder)
        return w->flat ? HR_OK : add_folder(w, key, strlen(key), err);
    w->n_files += f->is_file;
    if (!w->out || !f->is_file || n < strlen(w->prefix) ||
        !hr__key_fits(w->pattern, w->pattern ? key : key + strlen(w->prefix), w->options))
        return HR_OK;
    return add_path(w, key, f, w->out, err);
}

static hr_status add_entry(walk *w, const char *folder, const hr_hdfs_status *f, hr_error *err)
{
    char *key = hr__printf(NULL, "%s%s%s", folder, folder[0] ? "/" : "", f->name);
    hr_status st = HR_OK;

    if (!key)
        return hr__error_memory(err, w->url, (int64_t)strlen(folder));
    if (strncmp(f->name, HR_HDFS_PARTS, strlen(HR_HDFS_PARTS)) == 0) {
        st = w->parts ? add_path(w, key, f, w->parts, err) : HR_OK;
    } else if (f->name[0]) {
        if (w->records && f->is_file && hr__is_record(key))
            st = add_path(w, key, f, w->records, err);
        if (!st)
            st = add_visible(w, key, f, err);
    }
    hr__free(key);
    return st;
}

static hr_status add_entries(walk *w, const char *folder, const hr_text *body, hr_error *err)
{
    const char *at = hr__hdfs_value(body, '['), *end = at ? body->data + body->n : NULL;

    if (!at)
        return hr__hdfs_no_status(w->url, err);
    for (at += 1 + strspn(at + 1, " \t\r\n,"); *at == '{'; at += strspn(at, " \t\r\n,")) {
        const char *next = hr__hdfs_object_end(at, end);
        hr_hdfs_status f = { 0 };
        hr_status st = next ? hr__hdfs_read_status(w->url, at, next, &f, err) : hr__hdfs_no_status(w->url, err);

        if (!st)
            st = add_entry(w, folder, &f, err);
        hr__free(f.name);
        HR_TRY(st);
        at = next;
    }
    return *at == ']' ? HR_OK : hr__hdfs_no_status(w->url, err);
}

/* Asks for the next folders, at the same time. A folder that has gone since its parent was read is left out. */
static hr_status read_folders(walk *w, hr_error *err)
{
    int m = (int)HR_MIN(w->n - w->at, AT_ONCE);
    int64_t first = w->at;
    hr_http_request *r = hr__zalloc(NULL, (size_t)m * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, w->url, m * (int64_t)sizeof *r);
    w->at += m;
    for (int i = 0; i < m; i++) {
        char *url = hr__url_of_key(w->url, w->folders[first + i], NULL);

        r[i].st = url ? hr__store_request(&r[i], "GET", w->store, url, "op=LISTSTATUS", NULL, &r[i].err)
                      : hr__error_memory(&r[i].err, w->url, 64);
        r[i].max_body = LIST_BYTES;
        hr__free(url);
    }
    hr__http_run_all(r, m);
    for (int i = 0; i < m && !st; i++) {
        st = r[i].st;
        if (!st)
            st = add_entries(w, w->folders[first + i], &r[i].body, err);
        else if (st == HR_NOT_FOUND && first + i > 0)
            st = HR_OK;
        else
            hr__error_move(err, &r[i].err);
    }
    for (int i = 0; i < m; i++)
        hr__http_clear(&r[i]);
    hr__free(r);
    return st;
}

/* Reads the folder of the prefix, and what is below it. */
static hr_status read_below(walk *w, hr_error *err)
{
    const char *slash = strrchr(w->prefix, '/');
    hr_status st = add_folder(w, w->prefix, slash ? (size_t)(slash - w->prefix) : 0, err);

    while (!st && w->at < w->n)
        st = read_folders(w, err);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- records */

/* Adds the records of one folder. Who may not list it, or does not find it, has none. */
static hr_status read_records(const walk *of, size_t n_folder, hr_paths *out, hr_error *err)
{
    walk w = { .store = of->store, .url = of->url, .prefix = HR_RECORD, .records = out, .flat = true };
    char *key = hr__strndup(NULL, of->prefix, n_folder), *url = key ? hr__url_of_key(of->url, key, NULL) : NULL;
    hr_http_request r = { 0 };
    hr_status st;

    HR_GO(url ? hr__store_request(&r, "GET", of->store, url, "op=LISTSTATUS", NULL, err)
              : hr__error_memory(err, of->url, 64));
    r.max_body = LIST_BYTES;
    st = hr__http_run(&r, err);
    if (!st) {
        st = add_entries(&w, key, &r.body, err);
    } else if (st == HR_NOT_FOUND || (r.answer.status == 403 && hr__http_says(&r, "\"AccessControlException\""))) {
        hr_error_clear(err);
        st = HR_OK;
    }
done:
    hr__http_clear(&r);
    hr__free(url);
    hr__free(key);
    return st;
}

/* Whether the last folder of the n characters is "name=value". */
static bool is_partition(const char *prefix, size_t n)
{
    size_t begin = n;

    while (begin > 0 && prefix[begin - 1] != '/')
        begin--;
    return n > begin && prefix[begin] != '=' && memchr(prefix + begin, '=', n - begin);
}

static size_t parent_of(const char *prefix, size_t n)
{
    while (n > 0 && prefix[n - 1] != '/')
        n--;
    return n > 0 ? n - 1 : 0;
}

/* The records above the folder of the prefix, of jobs that divide their rows. */
static hr_status read_guards(walk *w, hr_error *err)
{
    size_t n = parent_of(w->prefix, strlen(w->prefix));

    while (is_partition(w->prefix, n)) {
        n = parent_of(w->prefix, n);
        HR_TRY(read_records(w, n, w->records, err));
    }
    return HR_OK;
}

static bool has_path(const hr_paths *p, const char *path)
{
    for (int64_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].path, path) == 0)
            return true;
    return false;
}

/* *again: a job has begun to write into the folder of the prefix since it was read. */
static hr_status check_end(walk *w, bool *again, hr_error *err)
{
    hr_paths now = { 0 };
    hr_status st = HR_OK;

    if (w->n > 1)
        st = read_records(w, parent_of(w->prefix, strlen(w->prefix)), &now, err);
    for (int64_t i = 0; i < now.n && !st; i++)
        *again = *again || !has_path(w->records, now.items[i].path);
    hr__paths_clear(&now);
    return st;
}

/* Adds what is visible below the folder of the prefix. */
static hr_status list_below(walk *w, hr_error *err)
{
    hr_paths ended = { 0 };
    int64_t begin = w->out->n;
    hr_status st = HR_OK;
    bool again = true;

    for (int i = 0; i < MAX_LISTS && again && !st; i++) {
        hr_paths records = { 0 };

        again = false;
        w->records = &records;
        w->n_files = 0;
        hr__paths_cut(w->out, begin);
        st = read_below(w, err);
        if (!st)
            st = read_guards(w, err);
        if (!st)
            st = check_end(w, &again, err);
        if (!st && !again)
            st = hr__store_leave_out(w->store, &records, begin, w->out, &ended, &again, err);
        if (records.n && w->out->n == begin)
            w->n_files = 0;
        forget_folders(w);
        hr__paths_clear(&records);
    }
    hr__paths_clear(&ended);
    if (!st && again)
        return hr_error_set(err, HR_IO, "%s: jobs began or ended to write here during each of %d lists", w->url,
                            MAX_LISTS);
    if (!st)
        hr__paths_sort(w->out, begin);
    return st;
}

hr_status hr__hdfs_records(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err)
{
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    walk w = { .store = s, .url = url, .prefix = prefix, .records = out, .flat = name[0] != 0 };
    hr_status st = read_below(&w, err);

    forget_folders(&w);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
    return st;
}

hr_status hr__hdfs_parts(hr_store *s, const char *url, const char *folder, bool deep, hr_paths *out, hr_error *err)
{
    char *prefix = hr__printf(NULL, "%s%s", folder, folder[0] ? "/" : "");
    walk w = { .store = s, .url = url, .prefix = prefix, .parts = out, .flat = !deep };
    hr_status st = prefix ? read_below(&w, err) : hr__error_memory(err, url, 64);

    forget_folders(&w);
    hr__free(prefix);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
    return st;
}

/* --------------------------------------------------------------------------------------------------------- finding */

static hr_status find_pattern(walk *w, hr_error *err)
{
    size_t n = strcspn(w->pattern, "*?[");
    char *prefix = hr__strndup(NULL, w->pattern, n);
    int64_t begin = w->out->n;
    hr_status st;

    if (!prefix)
        return hr__error_memory(err, w->url, (int64_t)n);
    w->prefix = prefix;
    st = list_below(w, err);
    hr__free(prefix);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    }
    if (!st && w->out->n == begin && !w->options->ignore_missing)
        return hr_error_set(err, HR_NOT_FOUND, "%s: no file matches", w->url);
    return st;
}

static hr_status find_folder(walk *w, hr_error *err)
{
    const char *key = hr__place(w->url).key;
    size_t n = strlen(key);
    char *prefix;
    hr_status st;

    while (n && key[n - 1] == '/')
        n--;
    prefix = hr__printf(NULL, "%.*s%s", (int)n, key, n ? "/" : "");
    if (!prefix)
        return hr__error_memory(err, w->url, (int64_t)n);
    w->prefix = prefix;
    st = list_below(w, err);
    hr__free(prefix);
    if (!st && w->n_files == 0 && !w->options->ignore_missing)
        return hr_error_set(err, HR_NOT_FOUND, "%s: the folder has no files", w->url);
    return st;
}

hr_status hr__hdfs_find(hr_store *s, const char *url, const char *pattern, const hr_paths_options *options,
                        hr_paths *out, hr_error *err)
{
    walk w = { .store = s, .url = url, .pattern = pattern, .options = options, .out = out };
    hr_hdfs_status f = { 0 };
    hr_status st;

    st = hr__hdfs_status(s, url, &f, err); /* what exists is no pattern, as for local files */
    if (st == HR_NOT_FOUND && pattern) {
        hr_error_clear(err);
        return find_pattern(&w, err);
    }
    w.pattern = NULL;
    if (!st && f.is_file)
        st = hr__paths_add(out, url, NULL, f.n_bytes, f.version, err);
    else if (!st)
        st = find_folder(&w, err);
    hr__free(f.name);
    if (st == HR_NOT_FOUND && options->ignore_missing) {
        hr_error_clear(err);
        st = HR_OK;
    }
    return st;
}
