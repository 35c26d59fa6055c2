/* hdfs_write.c - files that are written to HDFS: their parts, one file of them, its name, and what a killed job leaves.
 *
 * A file's uploads are files of a hidden folder, which no reader lists: for a job ROOT/_headrace_parts_JOB, or, where
 * ROOT is missing, the same beside it. The names in there are those that the files will have below ROOT.
 *
 * 1. Each part is one CREATE that replaces what an attempt before has left, so that no byte is there twice: the
 *    NameNode takes the file from who wrote it before. APPEND would leave it open whether bytes of an attempt that
 *    broke off still arrive, until a lease ends, and would bring one part after the other. The first part is the file;
 *    CONCAT moves the blocks of the others behind its own. Parts have up to PART_BYTES, since each is a block at least.
 * 2. The length of each file is compared with the bytes that were written. After a lost answer it says which parts have
 *    been joined.
 * 3. A job whose folder is still missing gets it by one rename of the hidden folder, with _SUCCESS in it: nobody ever
 *    sees a part of the job. Else, and for single files, each file is renamed; a record makes that one step for our
 *    readers (store_commit.c). A rename is NONE, which fails where a file is, or OVERWRITE; a lost answer shows itself
 *    in a source that is not there any more.
 * 4. Small objects (records, states of runs) are written under a hidden name and renamed, too. WebHDFS has no rename
 *    with a condition. So an attribute of the inode decides "in the place of version V alone": see put_in_place.
 *
 * CONCAT takes the names of its sources as a list with commas: a path with a comma has one part. It works in no
 * encryption zone.
 *
 * Tests: test_hdfs_write.c, test_hdfs_write.py, test_real_hdfs.py. */
#include "io/http/hdfs/hdfs.h"

#include <inttypes.h>
#include <stdio.h>

#define AT_ONCE 64
#define PART_BYTES (32 << 20)
#define PUT_NAME HR_HDFS_PARTS "put_" /* and 16 digits */
#define QUERY_BYTES 6000              /* of a CONCAT: servers take lines of 8 KiB */

/* ------------------------------------------------------------------------------------------------------------ names */

static size_t n_folder(const char *key)
{
    const char *slash = strrchr(key, '/');

    return slash ? (size_t)(slash + 1 - key) : 0;
}

static uint64_t hash_of(const char *text)
{
    hr_hash h;

    hr__hash_init(&h, 1);
    hr__hash_text(&h, text);
    return hr__hash_end(&h).lo;
}

/* The key of the hidden folder in `root`, and that of the one beside it. New; NULL: no memory. */
static char *inside(const char *root, const char *job)
{
    const char *key = hr__place(root).key;

    return hr__printf(NULL, "%s%s" HR_HDFS_PARTS "%s", key, key[0] ? "/" : "", job);
}

static char *beside(const char *root, const char *job)
{
    const char *key = hr__place(root).key;

    return hr__printf(NULL, "%.*s" HR_HDFS_PARTS "%s_%016" PRIx64, (int)n_folder(key), key, job, hash_of(key));
}

/* Sets `parts` and `renames`. */
static hr_status hdfs_begin(hr_uploads *u, hr_error *err)
{
    bool is_job = u->what == HR_UPLOADS_JOB || u->what == HR_UPLOADS_NEW_JOB;
    char own[17] = "", *key;
    const char *job = u->job;
    hr_hdfs_status f = { 0 };
    hr_status st = HR_OK;
    uint64_t n;

    if (!job[0]) {
        if (hr__random_secret(&n, sizeof n))
            return hr_error_set(err, HR_IO, "%s: the system gave no random numbers", u->root);
        snprintf(own, sizeof own, "%016" PRIx64, n);
        job = own;
    }
    if (is_job && hr__place(u->root).key[0])
        st = hr__hdfs_status(u->store, u->root, &f, err);
    hr__free(f.name);
    if (is_job && st == HR_NOT_FOUND) {
        hr_error_clear(err);
        u->renames = true;
    } else if (st) {
        return st;
    } else if (f.is_file) {
        return hr_error_set(err, HR_IO, "%s: expected a folder, found a file", u->root);
    }
    key = u->renames || u->what == HR_UPLOADS_FILE ? beside(u->root, job) : inside(u->root, job);
    u->parts = key ? hr__url_of_key(u->root, key, NULL) : NULL;
    hr__free(key);
    return u->parts ? HR_OK : hr__error_memory(err, u->root, 64);
}

static char *hdfs_id_of(const hr_uploads *u, const char *url)
{
    const char *key = hr__place(url).key;
    const char *name = u->what == HR_UPLOADS_FILE ? key + n_folder(key) : url + strlen(u->root) + 1;

    return hr__printf(NULL, "%s/%s", hr__place(u->parts).key, name);
}

static char *key_of_part(const char *id, int64_t number)
{
    if (number == 1)
        return hr__strdup(NULL, id);
    return hr__printf(NULL, "%.*s_part_%016" PRIx64 "_%06" PRId64, (int)n_folder(id), id, hash_of(id), number);
}

static char *hdfs_part_url(const hr_upload *f, int64_t number)
{
    char *key = key_of_part(f->id, number), *url = key ? hr__url_of_key(f->url, key, NULL) : NULL;

    hr__free(key);
    return url;
}

static void hdfs_add_part_query(const char *id, int64_t number, hr_text *out)
{
    (void)id;
    (void)number;
    hr__text_add(out, HR_HDFS_CREATE);
}

static void add_rename(const char *url, const char *option, hr_text *out)
{
    hr__text_add(out, "op=RENAME&destination=/");
    hr__url_add_encoded(out, hr__place(url).key, true);
    hr__text_add(out, "&renameoptions=%s", option);
}

static void hdfs_add_complete_query(const char *id, const char *url, bool only_new, hr_text *out)
{
    (void)id;
    add_rename(url, only_new ? "NONE" : "OVERWRITE", out);
}

/* ---------------------------------------------------------------------------------------------------------- joining */

/* A file whose parts are joined: those before `next` are. */
typedef struct joining {
    hr_upload *f;
    char *url;          /* of the first part */
    int64_t next, upto; /* of the request that is under way */
} joining;

/* The bytes of the first n parts. */
static int64_t bytes_of(const joining *j, int64_t n)
{
    return n == j->f->n_parts ? j->f->n_bytes : hr__upload_bytes_of(j->f->job, n);
}

/* Adds parts from `next` on, as many as a query takes. */
static hr_status add_sources(joining *j, hr_text *out, hr_error *err)
{
    hr__text_add(out, "op=CONCAT&sources=");
    for (j->upto = j->next; j->upto < j->f->n_parts && (j->upto == j->next || out->n < QUERY_BYTES); j->upto++) {
        char *key = key_of_part(j->f->id, j->upto + 1);

        if (!key)
            return hr__error_memory(err, j->f->url, 64);
        hr__text_add(out, "%s/", j->upto == j->next ? "" : ",");
        hr__url_add_encoded(out, key, true);
        hr__free(key);
    }
    return out->failed ? hr__error_memory(err, j->f->url, out->n) : HR_OK;
}

static hr_status ask_join(joining *j, hr_http_request *r, hr_error *err)
{
    hr_text query = { 0 };
    hr_status st;

    if (strchr(j->f->id, ','))
        return hr_error_set(err, HR_UNSUPPORTED,
                            "%s: the path has a comma, and HDFS joins no parts there; write files of less than %" PRId64
                            " bytes (max_file_bytes)",
                            j->f->url, hr__upload_bytes_of(j->f->job, 1));
    st = add_sources(j, &query, err);
    if (!st)
        st = hr__store_request(r, "POST", j->f->job->store, j->url, query.data, NULL, err);
    hr__text_clear(&query);
    return st;
}

/* Whether a refused CONCAT has been done before: its parts are gone, and the file has their bytes. */
static bool has_joined(const joining *j)
{
    hr_error none = HR_ERROR_INIT;
    hr_hdfs_status f = { 0 };
    bool good = !hr__hdfs_status(j->f->job->store, j->url, &f, &none) && f.n_bytes == bytes_of(j, j->upto);

    hr_error_clear(&none);
    hr__free(f.name);
    return good;
}

static hr_status move_error(const joining *j, hr_http_request *r, hr_error *err)
{
    hr_status st = r->st;

    if (r->err.status)
        hr__error_move(err, &r->err);
    else
        st = hr__error_memory(err, j->f->url, 64);
    return st;
}

/* One CONCAT for each of the files that are not whole. *more: there were any. */
static hr_status join_round(joining *all, int n, bool *more, hr_error *err)
{
    hr_http_request r[AT_ONCE] = { 0 };
    hr_status st = HR_OK;

    *more = false;
    for (int i = 0; i < n; i++) {
        bool whole = all[i].next >= all[i].f->n_parts;

        r[i].st = whole ? HR_PENDING : ask_join(&all[i], &r[i], &r[i].err);
        *more = *more || !whole;
    }
    if (*more)
        hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        if (all[i].next < all[i].f->n_parts && r[i].st && !st && !(r[i].st == HR_NOT_FOUND && has_joined(&all[i])))
            st = move_error(&all[i], &r[i], err);
        all[i].next = HR_MAX(all[i].next, all[i].upto);
        hr__http_clear(&r[i]);
    }
    return st;
}

/* Compares the lengths of the files with the bytes that were written. */
static hr_status check_lengths(const joining *all, int n, hr_error *err)
{
    hr_http_request r[AT_ONCE] = { 0 };
    hr_status st = HR_OK;

    for (int i = 0; i < n; i++)
        r[i].st = hr__store_request(&r[i], "HEAD", all[i].f->job->store, all[i].url, "", NULL, &r[i].err);
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        if (r[i].st && !st)
            st = move_error(&all[i], &r[i], err);
        else if (!st && r[i].answer.total != all[i].f->n_bytes)
            st = hr_error_set(err, HR_IO, "%s: the file has %" PRId64 " bytes in HDFS, expected %" PRId64,
                              all[i].f->url, r[i].answer.total, all[i].f->n_bytes);
        hr__http_clear(&r[i]);
    }
    return st;
}

static hr_status join_some(hr_uploads *u, int64_t begin, int n, hr_error *err)
{
    joining all[AT_ONCE] = { 0 };
    hr_status st = HR_OK;
    bool more = true;

    for (int i = 0; i < n; i++) {
        all[i] = (joining){ .f = u->items[begin + i], .next = 1 };
        if (!(all[i].url = hdfs_part_url(all[i].f, 1)))
            st = hr__error_memory(err, u->root, 64);
    }
    while (more && !st)
        st = join_round(all, n, &more, err);
    if (!st)
        st = check_lengths(all, n, err);
    for (int i = 0; i < n; i++)
        hr__free(all[i].url);
    return st;
}

/* The parts have no names any more: a record has none. */
static void forget_parts(hr_upload *f)
{
    for (int64_t i = 0; i < f->n_parts; i++)
        hr__free(f->tags[i]);
    f->n_parts = 0;
}

static hr_status hdfs_join(hr_uploads *u, hr_error *err)
{
    for (int64_t at = 0; at < u->n; at += AT_ONCE)
        HR_TRY(join_some(u, at, (int)HR_MIN(AT_ONCE, u->n - at), err));
    for (int64_t i = 0; i < u->n; i++)
        forget_parts(u->items[i]);
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- renames */

/* HR_MISMATCH: `to` exists, and the option is NONE. */
static hr_status move(hr_store *s, const char *from, const char *to, const char *option, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_text query = { 0 };
    hr_status st;

    add_rename(to, option, &query);
    HR_GO(query.failed ? hr__error_memory(err, to, query.n)
                       : hr__store_request(&r, "PUT", s, from, query.data, NULL, err));
    st = hr__http_run(&r, err);
    if (st && hr__http_says(&r, "\"FileAlreadyExistsException\""))
        st = hr_error_set(err, HR_MISMATCH, "%s: it exists already", to);
done:
    hr__text_clear(&query);
    hr__http_clear(&r);
    return st;
}

static hr_status hdfs_rename(hr_store *s, const char *from, const char *to, hr_error *err)
{
    return move(s, from, to, "NONE", err);
}

/* ---------------------------------------------------------------------------------------------------- small objects */

static hr_status create(hr_store *s, const char *url, const void *data, int64_t n, hr_hdfs_status *out, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st = hr__store_request(&r, "PUT", s, url, HR_HDFS_CREATE, NULL, err);

    if (!st) {
        r.data = data;
        r.n_data = n;
        st = hr__http_run(&r, err);
    }
    hr__http_clear(&r);
    if (!st)
        st = hr__hdfs_status(s, url, out, err);
    if (!st && out->n_bytes != n)
        st = hr_error_set(err, HR_IO, "%s: the file has %" PRId64 " bytes in HDFS, expected %" PRId64, url,
                          out->n_bytes, n);
    return st;
}

/* The source of a rename is gone: an attempt before has done it, if the file is ours. */
static hr_status check_renamed(hr_store *s, const char *url, const hr_hdfs_status *ours, hr_error *err)
{
    hr_hdfs_status f = { 0 };
    hr_status st = hr__hdfs_status(s, url, &f, err);

    if (!st && f.version != ours->version)
        st = hr_error_set(err, HR_MISMATCH, "%s: somebody else has written it meanwhile", url);
    hr__free(f.name);
    return st;
}

static hr_status mismatch(const char *url, hr_error *err)
{
    return hr_error_set(err, HR_MISMATCH, "%s: somebody else has written or removed it meanwhile", url);
}

/* The request about the attribute of url's inode that says which hidden file comes in the place of the inode `id`. */
static hr_status ask_attribute(hr_store *s, const char *method, const char *url, int64_t id, const char *name,
                               hr_http_request *r, hr_error *err)
{
    char query[256];

    if (name)
        snprintf(query, sizeof query,
                 "op=SETXATTR&flag=CREATE&xattr.name=user.headrace.%" PRId64 "&xattr.value=%%22%s%%22", id, name);
    else
        snprintf(query, sizeof query, "op=GETXATTRS&encoding=text&xattr.name=user.headrace.%" PRId64, id);
    HR_TRY(hr__store_request(r, method, s, url, query, NULL, err));
    return hr__http_run(r, err);
}

/* Whether the inode at url is this one. */
static hr_status is_still(hr_store *s, const char *url, int64_t id, bool *out, hr_error *err)
{
    hr_hdfs_status f = { 0 };
    hr_status st = hr__hdfs_status(s, url, &f, err);

    *out = !st && f.file_id == id;
    hr__free(f.name);
    if (st != HR_NOT_FOUND)
        return st;
    hr_error_clear(err);
    return HR_OK;
}

/* The file that was decided is gone, and has not come: nobody will give it its name. */
static hr_status forget_lost(hr_store *s, const char *url, int64_t id, hr_error *err)
{
    hr_http_request r = { 0 };
    char query[96];
    bool still;
    hr_status st = is_still(s, url, id, &still, err);

    snprintf(query, sizeof query, "op=REMOVEXATTR&xattr.name=user.headrace.%" PRId64, id);
    if (!st && still)
        st = hr__store_request(&r, "PUT", s, url, query, NULL, err);
    if (!st && still)
        st = hr__http_run(&r, err);
    if (st && r.answer.status / 100 == 4) { /* somebody else has removed it */
        hr_error_clear(err);
        st = HR_OK;
    }
    hr__http_clear(&r);
    return st;
}

/* The hidden file that has been decided for the place of the inode; new. NULL: the inode is not there any more. */
static hr_status decided_file(hr_store *s, const char *url, int64_t id, char **out, hr_error *err)
{
    size_t n_name = strlen(PUT_NAME) + 16;
    hr_http_request r = { 0 };
    hr_status st = ask_attribute(s, "GET", url, id, NULL, &r, err);
    const char *at = !st && r.body.data ? strstr(r.body.data, PUT_NAME) : NULL;
    bool gone = st == HR_NOT_FOUND || (st && hr__http_says(&r, "XAttrNotFoundException")), still = false;

    *out = NULL;
    if (gone)
        hr_error_clear(err);
    else if (!st) /* else another inode has it, where it means nothing: the look comes after it was read */
        st = is_still(s, url, id, &still, err);
    if (!st && at && still && !(*out = hr__printf(NULL, "%.*s%.*s", (int)n_folder(url), url, (int)n_name, at)))
        st = hr__error_memory(err, url, 64);
    hr__http_clear(&r);
    return gone ? HR_OK : st;
}

/* Another file may have been decided for the place of the inode: gives it its name. *ours: it is `hidden`. */
static hr_status help(hr_store *s, const char *url, int64_t id, const char *hidden, bool *ours, hr_error *err)
{
    char *from = NULL;
    hr_status st = decided_file(s, url, id, &from, err);

    *ours = from && strcmp(from, hidden) == 0;
    if (from && !*ours)
        st = move(s, from, url, "OVERWRITE", err);
    if (from && st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = forget_lost(s, url, id, err);
    }
    hr__free(from);
    return st;
}

/* Whether the hidden file has gone: somebody who found that it was decided has given it its name. */
static hr_status is_gone(hr_store *s, const char *hidden, bool *out, hr_error *err)
{
    hr_hdfs_status f = { 0 };
    hr_status st = hr__hdfs_status(s, hidden, &f, err);

    *out = st == HR_NOT_FOUND;
    hr__free(f.name);
    if (*out)
        hr_error_clear(err);
    return *out ? HR_OK : st;
}

/* Decides that the file comes in the place of the inode. *ours false: another one does. */
static hr_status decide(hr_store *s, const char *url, int64_t id, const char *hidden, bool *ours, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st = ask_attribute(s, "PUT", url, id, hidden + n_folder(hidden), &r, err);
    bool taken = st && hr__http_says(&r, "already exists"), refused = r.answer.status / 100 == 4;

    hr__http_clear(&r);
    *ours = st != HR_NOT_FOUND; /* a cluster without attributes decides by the look before alone */
    if (st && !refused)
        return st;
    hr_error_clear(err);
    if (!st)
        st = is_still(s, url, id, ours, err); /* else another inode has it, where it means nothing, or it has gone */
    else if (taken)
        st = help(s, url, id, hidden, ours, err);
    else
        st = HR_OK;
    return st || *ours ? st : is_gone(s, hidden, ours, err);
}

/* Gives the file `hidden` its name in the place of the version if_tag alone.
 *
 * An inode keeps its attributes, and its number is never used again. SETXATTR with flag=CREATE succeeds once. So who
 * sets the attribute "user.headrace.NUMBER" of the inode NUMBER decides which hidden file replaces it; then it renames.
 * Who finds the attribute gives that file its name, in case its writer was killed, and has lost. */
static hr_status put_in_place(hr_store *s, const char *hidden, const char *url, const char *if_tag, bool *decided,
                              hr_error *err)
{
    hr_hdfs_status f = { 0 };
    hr_status st = hr__hdfs_status(s, url, &f, err);
    bool ours = true;
    char tag[24];

    hr__free(f.name);
    snprintf(tag, sizeof tag, "%" PRId64, f.version);
    if (st == HR_NOT_FOUND || (!st && strcmp(tag, if_tag) != 0))
        return mismatch(url, err);
    if (!st && f.file_id >= 0)
        st = decide(s, url, f.file_id, hidden, &ours, err);
    HR_TRY(st);
    *decided = ours;
    return ours ? move(s, hidden, url, "OVERWRITE", err) : mismatch(url, err);
}

/* *decided: who comes next may give the file its name. */
static hr_status name_object(hr_store *s, const char *hidden, const char *url, const hr_hdfs_status *ours,
                             const char *if_tag, bool *decided, hr_error *err)
{
    hr_status st;

    if (if_tag && if_tag[0])
        st = put_in_place(s, hidden, url, if_tag, decided, err);
    else
        st = move(s, hidden, url, if_tag ? "NONE" : "OVERWRITE", err);
    if (st == HR_MISMATCH)
        return mismatch(url, err);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = check_renamed(s, url, ours, err);
    }
    return st;
}

static hr_status hdfs_put_object(hr_store *s, const char *url, const void *data, int64_t n, const char *if_tag,
                                 char **tag, hr_error *err)
{
    char *key = NULL, *hidden = NULL;
    hr_error none = HR_ERROR_INIT;
    hr_hdfs_status f = { 0 };
    const char *own = hr__place(url).key;
    bool decided = false;
    hr_status st;
    uint64_t id;

    *tag = NULL;
    if (hr__random_secret(&id, sizeof id))
        return hr_error_set(err, HR_IO, "%s: the system gave no random numbers", url);
    key = hr__printf(NULL, "%.*s" PUT_NAME "%016" PRIx64, (int)n_folder(own), own, id);
    hidden = key ? hr__url_of_key(url, key, NULL) : NULL;
    if (!hidden)
        HR_GO(hr__error_memory(err, url, 64));
    st = create(s, hidden, data, n, &f, err);
    if (!st)
        st = name_object(s, hidden, url, &f, if_tag, &decided, err);
    if (st && !decided && hr__store_delete(s, hidden, "", NULL, &none)) /* nobody sees it */
        hr_error_clear(&none);
    HR_GO(st);
    *tag = hr__printf(NULL, "%" PRId64, f.version);
    st = *tag ? HR_OK : hr__error_memory(err, url, 64);
done:
    hr__free(f.name);
    hr__free(hidden);
    hr__free(key);
    return st;
}

/* --------------------------------------------------------------------------------------------- what jobs have left */

/* Removes the file, or the folder with all that is in it. */
static hr_status remove_at(hr_store *s, const char *url, hr_error *err)
{
    return hr__store_delete(s, url, "op=DELETE&recursive=true", NULL, err);
}

/* It looks first: to remove what is not there needs a right that who writes into ROOT alone does not have. */
static hr_status remove_key(hr_store *s, const char *root, char *takes_key, hr_error *err)
{
    char *url = takes_key ? hr__url_of_key(root, takes_key, NULL) : NULL;
    hr_hdfs_status f = { 0 };
    hr_status st = url ? hr__hdfs_status(s, url, &f, err) : hr__error_memory(err, root, 64);

    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    } else if (!st) {
        st = remove_at(s, url, err);
    }
    hr__free(f.name);
    hr__free(takes_key);
    hr__free(url);
    return st;
}

/* Best effort: nobody sees what is left. */
static void hdfs_abort(hr_uploads *u)
{
    hr_error none = HR_ERROR_INIT;

    if (u->parts && u->n > 0 && remove_at(u->store, u->parts, &none))
        hr_error_clear(&none);
}

/* Whether a hidden folder, or a file of that, is the job's. job NULL: of none; "": of all. */
static bool is_of_job(const char *url, const char *job)
{
    const char *name = url + n_folder(url) + strlen(HR_HDFS_PARTS);
    size_t n = job ? strlen(job) : 0;

    if (!job || n == 0)
        return job != NULL;
    return strncmp(name, job, n) == 0 && (!name[n] || (name[n] == '_' && strlen(name + n) == 17));
}

/* Removes those of the job, and reports all. suffix: of the names that count. */
static hr_status abort_found(hr_store *s, const hr_paths *found, const char *job, const char *suffix, hr_text *report,
                             hr_error *err)
{
    for (int64_t i = 0; i < found->n; i++) {
        const char *url = found->items[i].path;
        size_t n = strlen(url), m = strlen(suffix);
        bool ours = is_of_job(url, job);

        if (n < m || strcmp(url + n - m, suffix) != 0)
            continue;
        if (ours)
            HR_TRY(remove_at(s, url, err));
        hr__text_add(report, "%s\t%s\n", ours ? "aborted" : "unfinished", url);
    }
    return HR_OK;
}

static hr_status abort_below(hr_store *s, const char *root, const char *job, hr_text *report, hr_error *err)
{
    const char *key = hr__place(root).key;
    size_t n = n_folder(key);
    char *parent = hr__strndup(NULL, key, n ? n - 1 : 0), suffix[20];
    hr_paths in = { 0 }, out = { 0 };
    hr_error none = HR_ERROR_INIT;
    hr_status st = parent ? hr__hdfs_parts(s, root, key, true, &in, err) : hr__error_memory(err, root, 64);

    snprintf(suffix, sizeof suffix, "_%016" PRIx64, hash_of(key));
    if (!st && key[0] && hr__hdfs_parts(s, root, parent, false, &out, &none)) /* who may not list it has none there */
        hr_error_clear(&none);
    if (!st)
        st = abort_found(s, &in, job, "", report, err);
    if (!st)
        st = abort_found(s, &out, job, suffix, report, err);
    hr__paths_clear(&in);
    hr__paths_clear(&out);
    hr__free(parent);
    return st;
}

static hr_status hdfs_abort_job(hr_store *s, const char *root, const char *job, hr_text *report, hr_error *err)
{
    if (report)
        return abort_below(s, root, job, report, err);
    if (!job || !job[0])
        return HR_OK;
    HR_TRY(remove_key(s, root, inside(root, job), err));
    return remove_key(s, root, beside(root, job), err);
}

const hr_upload_kind hr__hdfs_upload = {
    .complete = "PUT",
    .lost = "\"FileNotFoundException\"",
    .add_part_query = hdfs_add_part_query,
    .add_complete_query = hdfs_add_complete_query,
    .abort = hdfs_abort,
    .has_folders = true,
    .part_bytes = PART_BYTES,
    .begin = hdfs_begin,
    .id_of = hdfs_id_of,
    .part_url = hdfs_part_url,
    .join = hdfs_join,
    .rename = hdfs_rename,
    .make_folder = "op=MKDIRS",
    .records = hr__hdfs_records,
    .abort_job = hdfs_abort_job,
    .put_object = hdfs_put_object,
};
