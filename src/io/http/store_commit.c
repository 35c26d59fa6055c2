/* store_commit.c - how all files of a job become visible at once in a store, most of which have no renames.
 *
 * The protocol, for a job that writes into ROOT:
 *   1. All parts of all files arrive (store_upload.c). Nothing is visible; a failed job aborts its uploads.
 *   2. The *record* ROOT/_headrace_commit_JOB is made, only if there is none. It names each file,
 *      its upload, its parts, and the files that it replaces. Now the job is decided.
 *   3. The uploads are completed, many at once.
 *   4. ROOT/_SUCCESS gets the job's name and its files. Our readers leave out the files of a record until _SUCCESS
 *      names its job, and from then on those that it replaces: for them the job is visible from one moment to the
 *      next.
 *   5. The replaced files are removed, then the record.
 * A job that is killed before 2 leaves uploads, which nobody sees, and which the next run of this job aborts: it knows
 * them by its name, with which the files' names begin. It never aborts those of another job. A job that is killed later
 * is completed by the next job in ROOT, or by `headrace clean`. Each step can be repeated, also by two at once: an
 * upload that is gone is complete if the object has its size and its number of parts; a replaced file is removed only
 * if it has still the ETag of the record. ETags of Google and of directory buckets do not tell the number of parts:
 * there the size alone decides.
 *
 * A single file has no record: completing its upload is one step. The record of a job that writes only where no files
 * are is ROOT/_headrace_commit_, and begins as a claim: store_claim.c.
 *
 * Azure has no ids of uploads and no list of them: blocks that no list names go after a week, and an upload is complete
 * if the metadata of the blob has our id. Google knows no condition for completing an upload: a file of another program
 * that comes between our look and that step is replaced.
 *
 * HDFS has hidden files instead of uploads, and renames: step 3 is a rename of each file, and a new folder needs no
 * record, because it appears by one rename (hdfs/hdfs_write.c).
 *
 * Tests: test_s3_write.py, test_store_write.py, test_store_records.py. */
#include "io/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define AT_ONCE 128
#define MAX_LISTS 1000 /* pages of unfinished uploads */

typedef struct commit_file {
    char *url, *id;
    int64_t n_bytes;
    char **tags; /* of its parts */
    int64_t n_tags, cap_tags;
    bool is_done;
} commit_file;

typedef struct commit {
    hr_store *store;
    const hr_upload_kind *kind;
    hr_account *account;
    char *root, *job;
    char *record; /* its URL; NULL: ROOT/_headrace_commit_JOB */
    commit_file *files;
    int64_t n_files, cap_files;
    hr_paths old;
} commit;

static void commit_clear(commit *c)
{
    for (int64_t i = 0; i < c->n_files; i++) {
        for (int64_t k = 0; k < c->files[i].n_tags; k++)
            hr__free(c->files[i].tags[k]);
        hr__free(c->files[i].tags);
        hr__free(c->files[i].url);
        hr__free(c->files[i].id);
    }
    hr__paths_clear(&c->old);
    hr__free(c->files);
    hr__free(c->root);
    hr__free(c->job);
    hr__free(c->record);
    *c = (commit){ 0 };
}

/* ----------------------------------------------------------------------------------------------------------- record */

static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

bool hr__is_record(const char *key) { return strncmp(name_in(key), HR_RECORD, strlen(HR_RECORD)) == 0; }

static char *record_url(const commit *c)
{
    return c->record ? hr__strdup(NULL, c->record) : hr__printf(NULL, "%s/" HR_RECORD "%s", c->root, c->job);
}

static void add_word(hr_text *out, const char *before, const char *word)
{
    hr__text_add(out, "%s", before);
    hr__url_add_encoded(out, word, true);
}

/* With the uploads for a record, with the sizes alone for _SUCCESS. */
static void print_commit(const commit *c, bool uploads, hr_text *out)
{
    hr__text_add(out, uploads ? "headrace-commit 1" : "headrace-success 1");
    add_word(out, "\njob ", c->job);
    for (int64_t i = 0; i < c->n_files; i++) {
        const commit_file *f = &c->files[i];

        add_word(out, "\nfile ", hr__place(f->url).key);
        hr__text_add(out, " %" PRId64, f->n_bytes);
        if (!uploads)
            continue;
        add_word(out, " ", f->id);
        for (int64_t k = 0; k < f->n_tags; k++)
            add_word(out, " ", f->tags[k]);
    }
    for (int64_t i = 0; uploads && i < c->old.n; i++) {
        add_word(out, "\nold ", hr__place(c->old.items[i].path).key);
        add_word(out, " ", c->old.items[i].tag ? c->old.items[i].tag : "");
    }
    hr__text_add(out, "\nend\n");
}

void hr__commit_print_claim(const char *job, hr_text *out)
{
    commit c = { .job = (char *)(uintptr_t)job };

    print_commit(&c, true, out);
}

/* The next word of a line, decoded in place; NULL: none. */
static char *next_word(char **at)
{
    char *word = *at, *end;

    if (!word)
        return NULL;
    end = strchr(word, ' ');
    if (end)
        *end++ = 0;
    *at = end;
    (void)hr__percent_decode(word);
    return word;
}

static hr_status parse_file(commit *c, char *line, hr_error *err)
{
    char *key = next_word(&line), *size = next_word(&line), *id = next_word(&line), *tag;
    commit_file *f;

    if (!key || !size)
        return hr_error_set(err, HR_BAD_DATA, "a file has no size");
    if (!hr__grow(NULL, (void **)&c->files, &c->cap_files, c->n_files + 1, sizeof *c->files))
        return hr__error_memory(err, c->root, 64);
    f = &c->files[c->n_files++];
    *f = (commit_file){
        hr__url_of_key(c->root, key, NULL), hr__strdup(NULL, id), strtoll(size, NULL, 10), NULL, 0, 0, false
    };
    if (!f->url || (id && !f->id))
        return hr__error_memory(err, c->root, 64);
    while ((tag = next_word(&line))) {
        if (!hr__grow(NULL, (void **)&f->tags, &f->cap_tags, f->n_tags + 1, sizeof *f->tags) ||
            !(f->tags[f->n_tags] = hr__strdup(NULL, tag)))
            return hr__error_memory(err, c->root, 64);
        f->n_tags++;
    }
    return HR_OK;
}

static hr_status parse_old(commit *c, char *line, hr_error *err)
{
    char *key = next_word(&line), *tag = next_word(&line), *url = hr__url_of_key(c->root, key ? key : "", NULL);
    hr_status st =
        url ? hr__paths_add(&c->old, url, tag && tag[0] ? tag : NULL, 0, 0, err) : hr__error_memory(err, c->root, 64);

    hr__free(url);
    return st;
}

static hr_status parse_line(commit *c, char *line, bool *ended, hr_error *err)
{
    char *rest = line, *what;

    what = next_word(&rest);
    if (strcmp(what, "job") == 0 && rest) {
        hr__free(c->job);
        c->job = hr__strdup(NULL, next_word(&rest));
        return c->job ? HR_OK : hr__error_memory(err, c->root, 64);
    }
    if (strcmp(what, "file") == 0)
        return parse_file(c, rest, err);
    if (strcmp(what, "old") == 0)
        return parse_old(c, rest, err);
    *ended = *ended || strcmp(what, "end") == 0;
    return HR_OK;
}

/* Adds what the text says to the commit. */
static hr_status parse_commit(const char *name, char *text, const char *title, commit *c, hr_error *err)
{
    bool ended = false;
    hr_status st = HR_OK;
    char *next;

    if (strncmp(text, title, strlen(title)) != 0)
        return hr_error_set(err, HR_BAD_DATA, "%s: this version of headrace does not know records like this", name);
    for (char *line = text; line && *line && !st; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        st = parse_line(c, line, &ended, err);
    }
    if (!st && (!ended || !c->job))
        st = hr_error_set(err, HR_BAD_DATA, "the record is cut off");
    return st ? hr__error_at(err, st, "%s", name) : HR_OK;
}

/* HR_NOT_FOUND: there is no such object. */
static hr_status get_text(hr_store *s, const char *url, hr_account *account, char **out, hr_error *err)
{
    char tag[HR_ETAG_BYTES];
    hr_text text = { 0 };
    hr_status st = hr__store_get(s, url, account, &text, tag, err);

    if (st)
        hr__text_clear(&text);
    *out = text.data;
    return st;
}

/* only_new: the name is the job's own, so that a store without conditions gets none. */
static hr_status put_text(hr_store *s, const char *url, const hr_text *text, bool only_new, hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(url)->upload;
    hr_http_request r = { 0 };
    hr_status st;

    if (text->failed)
        return hr__error_memory(err, url, text->n);
    if (k->put_object) {
        char *tag = NULL;

        st = k->put_object(s, url, text->data, text->n, only_new ? "" : NULL, &tag, err);
        hr__free(tag);
        return st;
    }
    st = hr__store_send(s, url, text->data, text->n, only_new ? k->put_new : k->put, only_new, &r, err);
    hr__http_clear(&r);
    return st;
}

static bool is_claim(const commit *c) { return c->n_files == 0 && c->old.n == 0; }

bool hr__commit_is_claim(const char *text) { return !strstr(text, "\nfile ") && !strstr(text, "\nold "); }

/* The job that _SUCCESS in the folder names; NULL: none. */
static hr_status success_of(hr_store *s, const char *root, char **job, hr_error *err)
{
    char *url = hr__printf(NULL, "%s/_SUCCESS", root), *text = NULL;
    commit c = { .root = hr__strdup(NULL, root) };
    hr_error none = HR_ERROR_INIT;
    hr_status st = HR_OK;

    *job = NULL;
    if (!url || !c.root)
        HR_GO(hr__error_memory(err, root, 64));
    st = get_text(s, url, NULL, &text, err);
    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
        goto done;
    }
    HR_GO(st);
    if (parse_commit(url, text, "headrace-success 1", &c, &none)) /* another program's */
        hr_error_clear(&none);
    else if (!(*job = hr__strdup(NULL, c.job)))
        st = hr__error_memory(err, root, 64);
done:
    commit_clear(&c);
    hr__free(text);
    hr__free(url);
    return st;
}

/* ------------------------------------------------------------------------------------------------------- completing */

typedef struct completion {
    hr_http_request *r;
    hr_text body, more;
} completion;

/* Errors name the file, wherever its upload is. */
static hr_status name_request(hr_http_request *r, const char *url, hr_error *err)
{
    char *name = hr__strdup(NULL, url);

    if (!name)
        return hr__error_memory(err, url, (int64_t)strlen(url));
    hr__free(r->name);
    r->name = name;
    return HR_OK;
}

/* only_new: there is no such object yet. */
static hr_status ask_complete(const commit *c, const commit_file *f, bool only_new, completion *out, hr_error *err)
{
    const char *id = f->id ? f->id : "";
    hr_text query = { 0 };
    hr_status st;
    char *url;

    c->kind->add_complete_query(id, f->url, only_new, &query);
    if (c->kind->add_parts)
        c->kind->add_parts(f->tags, f->n_tags, &out->body);
    hr__text_add(&out->more, "%s", only_new && c->kind->new_only ? c->kind->new_only : "");
    if (c->kind->add_mark)
        c->kind->add_mark(id, &out->more);
    url = c->kind->has_folders ? hr__url_of_key(c->root, id, NULL) : hr__strdup(NULL, f->url);
    st = !url || query.failed || out->body.failed || out->more.failed
             ? hr__error_memory(err, f->url, out->body.n)
             : hr__store_request(out->r, c->kind->complete, c->store, url, query.data, c->account, err);
    if (!st)
        st = name_request(out->r, f->url, err);
    hr__text_clear(&query);
    hr__free(url);
    out->r->data = (const uint8_t *)out->body.data;
    out->r->n_data = out->body.n;
    out->r->more = out->more.data;
    return st;
}

/* Whether the ETag of the file's object ends in the number of its parts. */
static bool counts_parts(const commit *c, const commit_file *f)
{
    return c->kind->counts_parts && !hr__s3_is_express(c->store, f->url);
}

/* Whether the answer to HEAD is of the object that the upload makes. */
static bool is_ours(const commit *c, const commit_file *f, const hr_http_answer *a)
{
    char end[32];
    size_t n = strlen(a->etag), m = (size_t)snprintf(end, sizeof end, "-%" PRId64 "\"", f->n_tags);

    if (a->total != f->n_bytes)
        return false;
    if (c->kind->add_mark)
        return f->id && strcmp(a->mark, f->id) == 0;
    return !counts_parts(c, f) || (n >= m && strcmp(a->etag + n - m, end) == 0);
}

/* The upload is gone. Somebody has completed it if the object is the one that it makes. */
static hr_status check_complete(const commit *c, const commit_file *f, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st;

    HR_GO(hr__store_request(&r, "HEAD", c->store, f->url, "", c->account, err));
    st = hr__http_run(&r, err);
    if (st == HR_NOT_FOUND)
        HR_FAIL(HR_IO,
                "%s: the file is lost: its upload was aborted by somebody, before it was complete; remove " HR_RECORD
                "%s in %s to write there again",
                f->url, c->record ? name_in(c->record) + strlen(HR_RECORD) : c->job, c->root);
    HR_GO(st);
    if (!is_ours(c, f, &r.answer))
        st = hr_error_set(err, HR_IO, "%s: its upload is gone, and the object there is another one", f->url);
done:
    hr__http_clear(&r);
    return st;
}

/* The object is there already: it is ours if the answer to the attempt before was lost. */
static bool exists_and_is_ours(const commit *c, const commit_file *f, const hr_http_request *r)
{
    hr_error none = HR_ERROR_INIT;
    bool ours = c->kind->add_mark && hr__http_says(r, "BlobAlreadyExists") && !check_complete(c, f, &none);

    hr_error_clear(&none);
    return ours;
}

/* *again: the error came in an answer of 200, which is no refusal: http_request.c does not send it again. */
static hr_status judge(const commit *c, commit_file *f, hr_http_request *r, bool *again, hr_error *err)
{
    const char *body = r->body.data ? r->body.data : "";

    *again = false;
    if (r->st == HR_OK && strstr(body, "<Error>")) {
        char *code = hr__xml_text(body, "Code", NULL);

        r->st = hr_error_set(err, HR_IO, "%s: the store could not complete the file: %s", f->url, code ? code : "");
        hr__free(code);
        *again = true;
        return r->st;
    }
    if (r->st && hr__http_says(r, c->kind->lost)) {
        HR_TRY(check_complete(c, f, err));
    } else if (r->st && !exists_and_is_ours(c, f, r)) {
        hr_status st = r->st;

        if (r->answer.status == 501 && r->more && c->kind->new_only && strstr(r->more, c->kind->new_only))
            return hr_error_set(err, HR_UNSUPPORTED,
                                "%s: the store knows no condition by which a file replaces no other one (HTTP 501); "
                                "mode 'overwrite' needs none",
                                f->url);
        hr__error_move(err, &r->err);
        return st;
    }
    f->is_done = true;
    return HR_OK;
}

/* The request that makes the folder of a file; HR_PENDING: it is the root, which is there. */
static hr_status ask_folder(const commit *c, const commit_file *f, hr_http_request *r, hr_error *err)
{
    size_t n = (size_t)(name_in(f->url) - f->url) - 1;
    char *folder;
    hr_status st;

    if (f->is_done || n <= strlen(c->root))
        return HR_PENDING;
    folder = hr__strndup(NULL, f->url, n);
    st = folder ? hr__store_request(r, "PUT", c->store, folder, c->kind->make_folder, c->account, err)
                : hr__error_memory(err, f->url, (int64_t)n);
    hr__free(folder);
    return st;
}

/* The folders of up to AT_ONCE files, of a store that has some. */
static hr_status make_folders(const commit *c, int64_t begin, int n, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (size_t)n * sizeof *r);
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, c->root, n * (int64_t)sizeof *r);
    for (int i = 0; i < n; i++)
        r[i].st = ask_folder(c, &c->files[begin + i], &r[i], &r[i].err);
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        if (r[i].st && r[i].st != HR_PENDING && !st) {
            st = r[i].st;
            hr__error_move(err, &r[i].err);
        }
        hr__http_clear(&r[i]);
    }
    hr__free(r);
    return st;
}

/* Tries to complete up to AT_ONCE files. *again: all that failed can be tried once more. */
static hr_status complete_some(commit *c, int64_t begin, int n, bool only_new, bool *again, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (size_t)n * sizeof *r);
    completion *all = hr__zalloc(NULL, (size_t)n * sizeof *all);
    hr_status st = HR_OK;

    *again = false;
    if (!r || !all)
        HR_GO(hr__error_memory(err, c->root, n * (int64_t)sizeof *r));
    if (c->kind->has_folders)
        HR_GO(make_folders(c, begin, n, err));
    for (int i = 0; i < n; i++) {
        all[i].r = &r[i];
        if (!c->files[begin + i].is_done)
            HR_GO(ask_complete(c, &c->files[begin + i], only_new, &all[i], err));
        r[i].st = c->files[begin + i].is_done ? HR_PENDING : HR_OK;
    }
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        hr_error one = HR_ERROR_INIT;
        bool passes = false;
        hr_status bad = c->files[begin + i].is_done ? HR_OK : judge(c, &c->files[begin + i], &r[i], &passes, &one);

        if (bad && (!st || (*again && !passes))) {
            hr__error_move(err, &one);
            st = bad;
            *again = passes;
        }
        hr_error_clear(&one);
    }
done:
    for (int i = 0; i < n && r && all; i++) {
        hr__http_clear(&r[i]);
        hr__text_clear(&all[i].body);
        hr__text_clear(&all[i].more);
    }
    hr__free(all);
    hr__free(r);
    return st;
}

static hr_status complete_all(commit *c, bool only_new, hr_error *err)
{
    hr_status st = HR_OK;

    for (int64_t at = 0; at < c->n_files && !st; at += AT_ONCE) {
        int n = (int)HR_MIN(AT_ONCE, c->n_files - at);
        bool again = true;

        for (int round = 0; again && round <= c->store->max_retries; round++) {
            hr_error_clear(err);
            st = complete_some(c, at, n, only_new, &again, err);
        }
    }
    return st;
}

/* --------------------------------------------------------------------------------------------------------- removing */

/* Sends a request for each of up to AT_ONCE old files; with `found`: only for those that it has, and with HEAD fills
 * it. */
static hr_status ask_old(const commit *c, const char *method, int64_t begin, int n, bool *found, hr_error *err)
{
    hr_http_request *r = hr__zalloc(NULL, (size_t)n * sizeof *r);
    bool is_head = strcmp(method, "HEAD") == 0;
    hr_status st = HR_OK;

    if (!r)
        return hr__error_memory(err, c->root, n * (int64_t)sizeof *r);
    for (int i = 0; i < n; i++) {
        if (is_head || found[i])
            HR_GO(hr__store_request(&r[i], method, c->store, c->old.items[begin + i].path, "", c->account, err));
        r[i].st = is_head || found[i] ? HR_OK : HR_PENDING;
    }
    hr__http_run_all(r, n);
    for (int i = 0; i < n; i++) {
        const char *tag = c->old.items[begin + i].tag;

        if (is_head)
            found[i] = r[i].st == HR_OK && (!tag || strcmp(tag, r[i].answer.etag) == 0);
        if (r[i].st && r[i].st != HR_PENDING && r[i].st != HR_NOT_FOUND && !st) {
            st = r[i].st;
            hr__error_move(err, &r[i].err);
        }
    }
done:
    for (int i = 0; i < n; i++)
        hr__http_clear(&r[i]);
    hr__free(r);
    return st;
}

static hr_status remove_old(const commit *c, hr_error *err)
{
    bool found[AT_ONCE];

    for (int64_t at = 0; at < c->old.n; at += AT_ONCE) {
        int n = (int)HR_MIN(AT_ONCE, c->old.n - at);

        HR_TRY(ask_old(c, "HEAD", at, n, found, err));
        HR_TRY(ask_old(c, "DELETE", at, n, found, err));
    }
    for (int64_t i = 0; c->kind->has_folders && i < c->old.n; i++)
        hr__store_unmake(c->store, c->root, c->old.items[i].path);
    return HR_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the end */

/* The steps after the record. */
static hr_status roll_forward(commit *c, bool success, hr_error *err)
{
    char *record = record_url(c), *url = hr__printf(NULL, "%s/_SUCCESS", c->root);
    hr_text text = { 0 };
    hr_status st = HR_OK;

    if (!record || !url)
        HR_GO(hr__error_memory(err, c->root, 64));
    if (!success) {
        HR_GO(complete_all(c, false, err));
        print_commit(c, false, &text);
        HR_GO(put_text(c->store, url, &text, false, err));
    }
    HR_GO(remove_old(c, err));
    if (c->kind->abort_job) /* the folder of its uploads, which are empty */
        HR_GO(c->kind->abort_job(c->store, c->root, c->job, NULL, err));
    HR_GO(hr__store_remove(c->store, record, NULL, err));
done:
    hr__text_clear(&text);
    hr__free(record);
    hr__free(url);
    return st ? hr__error_at(err, st,
                             "%s: the files are written, and become visible with the next write into this folder, or "
                             "by `headrace clean`",
                             c->root)
              : HR_OK;
}

static hr_status of_uploads(const hr_uploads *u, const hr_paths *old, commit *c, hr_error *err)
{
    *c = (commit){
        .store = u->store, .kind = u->kind, .root = hr__strdup(NULL, u->root), .job = hr__strdup(NULL, u->job)
    };
    c->files = hr__zalloc(NULL, ((size_t)u->n + 1) * sizeof *c->files);
    if (u->claimed && !(c->record = hr__printf(NULL, "%s/" HR_RECORD, u->root)))
        return hr__error_memory(err, u->root, 64);
    if (!c->root || !c->job || !c->files)
        return hr__error_memory(err, u->root, u->n * (int64_t)sizeof *c->files);
    for (int64_t i = 0; i < u->n; i++) {
        const hr_upload *from = u->items[i];
        commit_file *f = &c->files[c->n_files++];

        f->url = hr__strdup(NULL, from->url);
        f->id = hr__strdup(NULL, from->id);
        f->n_bytes = from->n_bytes;
        f->tags = hr__zalloc(NULL, ((size_t)from->n_parts + 1) * sizeof *f->tags);
        if (!f->url || !f->id || !f->tags)
            return hr__error_memory(err, u->root, 64);
        for (; f->n_tags < from->n_parts; f->n_tags++)
            if (!(f->tags[f->n_tags] = hr__strdup(NULL, from->tags[f->n_tags])))
                return hr__error_memory(err, u->root, 64);
    }
    for (int64_t i = 0; old && i < old->n; i++)
        HR_TRY(hr__paths_add(&c->old, old->items[i].path, old->items[i].tag, 0, 0, err));
    return HR_OK;
}

static hr_status exists(const char *url, hr_error *err)
{
    return hr_error_set(err, HR_IO, "%s: the file exists already, and the options forbid replacing it", url);
}

/* Names that a job's own id begins are new; others may be there. */
static hr_status check_new(const commit *c, bool single, hr_error *err)
{
    for (int64_t i = 0; i < c->n_files; i++) {
        hr_http_request r = { 0 };
        hr_status st;

        if (!single && strncmp(name_in(c->files[i].url), c->job, strlen(c->job)) == 0)
            continue;
        st = hr__store_request(&r, "HEAD", c->store, c->files[i].url, "", c->account, err);
        if (!st)
            st = hr__http_run(&r, err);
        hr__http_clear(&r);
        if (!st)
            return exists(c->files[i].url, err);
        if (st != HR_NOT_FOUND)
            return st;
        hr_error_clear(err);
    }
    return HR_OK;
}

/* Whether the record stands, and is this one; what went wrong before stays in err. HR_PENDING: nobody knows. */
static hr_status look_at_record(const commit *c, const char *url, const hr_text *text, hr_status before)
{
    hr_error none = HR_ERROR_INIT;
    char *found = NULL;
    hr_status st = get_text(c->store, url, c->account, &found, &none);

    if (!st)
        st = strcmp(found, text->data) == 0 ? HR_OK : before;
    else
        st = st == HR_NOT_FOUND ? before : HR_PENDING;
    hr_error_clear(&none);
    hr__free(found);
    return st;
}

/* Makes the record. Where its answer is lost, and it cannot be read either, the job may be decided: u->committed. */
static hr_status decide(commit *c, hr_uploads *u, hr_error *err)
{
    char *url = record_url(c);
    hr_text text = { 0 };
    hr_status st, found;

    print_commit(c, true, &text);
    if (!url || text.failed)
        st = hr__error_memory(err, c->root, text.n);
    else
        st = u->claimed ? hr__uploads_decide(u, &text, err) : put_text(c->store, url, &text, true, err);
    found = st == HR_OK || st == HR_NO_MEMORY ? st : look_at_record(c, url, &text, st);
    u->committed = found == HR_OK || found == HR_PENDING;
    if (found == HR_OK) {
        hr_error_clear(err);
        st = HR_OK;
    }
    hr__text_clear(&text);
    hr__free(url);
    return st;
}

/* Of a store of files: all files of the job become visible by one step, if their folder is still not there. */
static hr_status rename_folder(const commit *c, hr_uploads *u, hr_error *err)
{
    char *url = hr__printf(NULL, "%s/_SUCCESS", u->parts), *job = NULL;
    hr_error none = HR_ERROR_INIT;
    hr_text text = { 0 };
    hr_status st;

    print_commit(c, false, &text);
    HR_GO(url ? put_text(u->store, url, &text, false, err) : hr__error_memory(err, u->root, 64));
    st = u->kind->rename(u->store, u->parts, u->root, err);
    if (st && !success_of(u->store, u->root, &job, &none) && job && strcmp(job, u->job) == 0) {
        hr_error_clear(err); /* the answer was lost */
        st = HR_OK;
    }
    u->committed = !st;
    u->late = st == HR_MISMATCH && u->only_new;
    if (u->late)
        st = hr_error_set(err, HR_IO, "%s: another job fills the folder at the same time", u->root);
done:
    hr_error_clear(&none);
    hr__text_clear(&text);
    hr__free(job);
    hr__free(url);
    return st;
}

hr_status hr__uploads_commit(hr_uploads *u, bool single, bool replace, const hr_paths *old, hr_error *err)
{
    commit c = { 0 };
    hr_status st;

    HR_GO(hr__uploads_wait(u, err));
    if (u->kind->commit)
        return u->kind->commit(u, replace, old, err);
    if (u->kind->join)
        HR_GO(u->kind->join(u, err));
    HR_GO(of_uploads(u, old, &c, err));
    if (u->renames && u->n > 0) {
        st = rename_folder(&c, u, err);
        if (st != HR_MISMATCH)
            goto done;
        hr_error_clear(err); /* the folder is there now, and has files of others */
    }
    if (!replace)
        HR_GO(check_new(&c, single, err));
    if (single) {
        st = complete_all(&c, !replace, err);
        u->committed = !st;
        if (!st && u->kind->abort)
            u->kind->abort(u); /* the folder of the uploads, which has none any more */
        goto done;
    }
    if (c.n_files == 0 && c.old.n == 0)
        goto done;
    HR_GO(decide(&c, u, err));
    HR_GO(roll_forward(&c, false, err));
done:
    commit_clear(&c);
    return st;
}

/* --------------------------------------------------------------------------------------------------------- recovery */

static hr_status abort_upload(hr_store *s, const char *url, const char *id, hr_error *err)
{
    hr_text query = { 0 };
    hr_status st;

    hr__text_add(&query, "uploadId=");
    hr__url_add_encoded(&query, id, false);
    st = query.failed ? hr__error_memory(err, url, 64) : hr__store_delete(s, url, query.data, NULL, err);
    hr__text_clear(&query);
    return st;
}

static char *uploads_query(const char *prefix, const char *key, const char *id)
{
    hr_text q = { 0 };

    hr__text_add(&q, "encoding-type=url");
    if (key) {
        hr__text_add(&q, "&key-marker=");
        hr__url_add_encoded(&q, key, false);
    }
    hr__text_add(&q, "&prefix=");
    hr__url_add_encoded(&q, prefix, false);
    if (id) {
        hr__text_add(&q, "&upload-id-marker=");
        hr__url_add_encoded(&q, id, false);
    }
    hr__text_add(&q, "&uploads=");
    if (q.failed)
        hr__text_clear(&q);
    return q.data;
}

/* One page of unfinished uploads, as XML. gofakes3 answers NoSuchUpload where there are none. */
static hr_status ask_uploads(hr_store *s, const char *url, char *takes_query, char **xml, hr_error *err)
{
    hr_http_request r = { 0 };
    hr_status st = HR_OK;

    *xml = NULL;
    if (!takes_query)
        return hr__error_memory(err, url, 64);
    HR_GO(hr__bucket_request(&r, "GET", s, url, takes_query, NULL, err));
    r.max_body = 16 << 20;
    st = hr__http_run(&r, err);
    if (st == HR_NOT_FOUND && hr__http_says(&r, "NoSuchUpload")) {
        hr_error_clear(err);
        st = HR_OK;
    }
    if (st)
        goto done;
    *xml = hr__strdup(NULL, r.body.data ? r.body.data : "");
    if (!*xml)
        st = hr__error_memory(err, url, r.body.n);
done:
    hr__http_clear(&r);
    hr__free(takes_query);
    return st;
}

/* job NULL: of none; "": of all. */
static bool is_of_job(const char *key, const char *job)
{
    const char *name = name_in(key);
    size_t n = job ? strlen(job) : 0;

    return job && (n == 0 || (strncmp(name, job, n) == 0 && name[n] && strchr("_.", name[n])));
}

/* Aborts the job's uploads of one page. */
static hr_status abort_page(hr_store *s, const commit *c, const char *job, const char *xml, hr_text *report,
                            hr_error *err)
{
    bool encoded = strstr(xml, "<EncodingType>url</EncodingType>") != NULL;

    for (const char *at = xml; (at = strstr(at, "<Upload>"));) {
        char *key = hr__xml_text(at, "Key", NULL), *id = hr__xml_text(at, "UploadId", &at), *url = NULL;
        hr_status st = HR_OK;

        if (key && encoded)
            (void)hr__list_decode(key);
        url = key && id ? hr__url_of_key(c->root, key, NULL) : NULL;
        if (url && is_of_job(key, job))
            st = abort_upload(s, url, id, err);
        if (url && report && !st)
            hr__text_add(report, "%s\t%s\n", is_of_job(key, job) ? "aborted" : "unfinished", url);
        hr__free(key);
        hr__free(url);
        if (!id)
            break;
        hr__free(id);
        HR_TRY(st);
    }
    return HR_OK;
}

static hr_status abort_listed(hr_store *s, const char *root, const char *job, hr_text *report, hr_error *err)
{
    commit c = { .root = hr__strdup(NULL, root) };
    const char *key = hr__place(root).key;
    char *prefix = hr__printf(NULL, "%s%s", key, key[0] ? "/" : ""), *xml = NULL, *from = NULL, *id = NULL;
    hr_status st = c.root && prefix ? HR_OK : hr__error_memory(err, root, 64);
    bool more = hr__kind_of(root)->upload->has_ids;

    for (int i = 0; i < MAX_LISTS && more && !st; i++) {
        hr__free(xml);
        HR_GO(ask_uploads(s, root, uploads_query(prefix, from, hr__s3_is_express(s, root) ? NULL : id), &xml, err));
        HR_GO(abort_page(s, &c, job, xml, report, err));
        hr__free(from);
        hr__free(id);
        from = hr__xml_text(xml, "NextKeyMarker", NULL);
        id = hr__xml_text(xml, "NextUploadIdMarker", NULL);
        if (from && strstr(xml, "<EncodingType>url</EncodingType>"))
            (void)hr__list_decode(from);
        more = from && from[0] && strstr(xml, "<IsTruncated>true</IsTruncated>");
    }
done:
    hr__free(xml);
    hr__free(from);
    hr__free(id);
    hr__free(prefix);
    commit_clear(&c);
    return st;
}

static hr_status abort_job(hr_store *s, const char *root, const char *job, hr_text *report, hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(root)->upload;

    return k->abort_job ? k->abort_job(s, root, job, report, err) : abort_listed(s, root, job, report, err);
}

static hr_status find_records(hr_store *s, const char *root, const char *prefix, hr_paths *out, hr_error *err)
{
    const hr_upload_kind *k = hr__kind_of(root)->upload;

    return k->records ? k->records(s, root, prefix, out, err) : hr__store_records(s, root, prefix, out, err);
}

/* Reads a record. HR_NOT_FOUND: it is gone. */
static hr_status read_record(hr_store *s, const char *url, hr_account *account, commit *c, bool *success, hr_error *err)
{
    char *text = NULL, *job = NULL;
    hr_status st;

    *c = (commit){ .store = s,
                   .kind = hr__kind_of(url)->upload,
                   .account = account,
                   .root = hr__strndup(NULL, url, (size_t)(name_in(url) - url - 1)) };
    c->record = hr__strdup(NULL, url);
    HR_GO(c->root && c->record ? HR_OK : hr__error_memory(err, url, 64));
    HR_GO(get_text(s, url, account, &text, err));
    HR_GO(parse_commit(url, text, "headrace-commit 1", c, err));
    HR_GO(success_of(s, c->root, &job, err));
    *success = job && strcmp(job, c->job) == 0;
done:
    hr__free(text);
    hr__free(job);
    return st;
}

/* Of a job that may be alive: goes if `job` names it, or is "". */
static hr_status recover_claim(const commit *c, const char *job, hr_text *report, hr_error *err)
{
    if (!job || (job[0] && strcmp(job, c->job) != 0))
        return HR_OK;
    HR_TRY(hr__store_remove(c->store, c->record, NULL, err));
    if (report)
        hr__text_add(report, "aborted\t%s\t%s\n", c->root, c->job);
    return HR_OK;
}

static hr_status recover_one(hr_store *s, const char *url, const char *job, hr_account *account, hr_text *report,
                             hr_error *err)
{
    bool success = false;
    commit c;
    hr_status st = read_record(s, url, account, &c, &success, err);

    if (st == HR_NOT_FOUND) { /* its job was quicker */
        hr_error_clear(err);
        st = HR_OK;
    } else if (!st && is_claim(&c)) {
        st = recover_claim(&c, job, report, err);
    } else if (!st) {
        st = roll_forward(&c, success, err);
        if (!st && report)
            hr__text_add(report, "completed\t%s\t%s\n", c.root, c.job);
    }
    commit_clear(&c);
    return st;
}

static hr_status recover_below(hr_store *s, const char *root, const char *prefix, const char *job, hr_account *account,
                               hr_text *report, hr_error *err)
{
    hr_paths found = { 0 };
    hr_status st = find_records(s, root, prefix, &found, err);

    for (int64_t i = 0; i < found.n && !st; i++)
        st = recover_one(s, found.items[i].path, job, account, report, err);
    hr__paths_clear(&found);
    return st;
}

hr_status hr__store_clean(const char *url, const char *job, const char *const *options, int n_options, hr_text *report,
                          hr_error *err)
{
    char *root = hr__strdup(NULL, url), *prefix = NULL;
    hr_store *s = NULL;
    hr_status st = HR_OK;
    const char *key;

    if (root)
        hr__url_trim(root);
    key = root ? hr__place(root).key : "";
    prefix = hr__printf(NULL, "%s%s", key, key[0] ? "/" : "");
    if (!root || !prefix)
        HR_GO(hr__error_memory(err, url, 64));
    HR_GO(hr__store_new(options, n_options, NULL, &s, err));
    HR_GO(hr__store_prepare(s, root, err));
    if (hr__kind_of(root)->upload->commit)
        goto done; /* its jobs leave no records */
    HR_GO(recover_below(s, root, prefix, job, NULL, report, err));
    HR_GO(abort_job(s, root, job, report, err));
done:
    if (st)
        hr__url_hide(url, err);
    hr__store_unref(s);
    hr__free(prefix);
    hr__free(root);
    return st;
}

hr_status hr__store_recover(hr_store *s, const char *root, const char *job, hr_account *account, hr_error *err)
{
    const char *key = hr__place(root).key;
    char *prefix;
    hr_status st;

    if (hr__kind_of(root)->upload->commit)
        return HR_OK;
    prefix = hr__printf(NULL, "%s%s" HR_RECORD, key, key[0] ? "/" : "");
    st = prefix ? HR_OK : hr__error_memory(err, root, 64);

    if (!st)
        st = recover_below(s, root, prefix, job, account, NULL, err);
    if (!st && job)
        st = abort_job(s, root, job, NULL, err);
    hr__free(prefix);
    return st;
}

/* ---------------------------------------------------------------------------------------------------------- readers */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The names that the record hides, sorted. */
static char **hidden_names(const commit *c, bool success, int64_t *n)
{
    char **names;

    *n = success ? c->old.n : c->n_files;
    if (!(names = hr__alloc(NULL, ((size_t)*n + 1) * sizeof(char *))))
        return NULL;
    for (int64_t i = 0; i < *n; i++)
        names[i] = success ? c->old.items[i].path : c->files[i].url;
    qsort(names, (size_t)*n, sizeof(char *), by_text);
    return names;
}

static hr_status leave_out(const commit *c, bool success, int64_t begin, hr_paths *out, hr_error *err)
{
    int64_t n, kept = begin;
    char **names = hidden_names(c, success, &n);

    if (!names)
        return hr__error_memory(err, c->root, 64);
    for (int64_t i = begin; i < out->n; i++) {
        if (!bsearch(&out->items[i].path, names, (size_t)n, sizeof(char *), by_text)) {
            out->items[kept++] = out->items[i];
            continue;
        }
        hr__free(out->items[i].path);
        hr__free(out->items[i].tag);
        hr__free(out->items[i].shown);
    }
    out->n = kept;
    hr__free(names);
    return HR_OK;
}

static bool has_path(const hr_paths *p, const char *path)
{
    for (int64_t i = 0; i < p->n; i++)
        if (strcmp(p->items[i].path, path) == 0)
            return true;
    return false;
}

/* The same for one record. A list that was made before _SUCCESS named the job may lack some of its files: *again. */
static hr_status leave_out_of(hr_store *s, const char *url, int64_t begin, hr_paths *out, hr_paths *ended, bool *again,
                              hr_error *err)
{
    bool success = false;
    commit c;
    hr_status st = read_record(s, url, out->account, &c, &success, err);

    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        *again = true;
        st = HR_OK;
    } else if (!st && success && !has_path(ended, url)) {
        *again = true;
        st = hr__paths_add(ended, url, NULL, 0, 0, err);
    } else if (!st) {
        st = leave_out(&c, success, begin, out, err);
    }
    commit_clear(&c);
    return st;
}

hr_status hr__store_leave_out(hr_store *s, const hr_paths *records, int64_t begin, hr_paths *out, hr_paths *ended,
                              bool *again, hr_error *err)
{
    *again = false;
    for (int64_t i = 0; i < records->n; i++)
        HR_TRY(leave_out_of(s, records->items[i].path, begin, out, ended, again, err));
    return HR_OK;
}
