/* served_write.c - files that are written into a filesystem of the program: parts, names, and what a failed job leaves.
 *
 * The parts of a file go, one after the other, into a hidden file beside the place of its name. When all files of the
 * job are complete, each gets its name by a move; a move that fails takes back the names that the job has given, unless
 * the job may replace files. Files that an overwrite replaces go last.
 *
 * A job that is killed leaves hidden files, or, if that happens between two moves, some of its files: filesystems have
 * no step that names several files, and no way to see that a writer has ended.
 *
 * Tests: test_served.c, test_served.py. */
#include "io/http/http.h"

#include <inttypes.h>

#define AT_ONCE 64

static void add_part_query(const char *id, int64_t number, hr_text *out)
{
    hr__text_add(out, "part=%s.%" PRId64, id, number);
}

/* Runs a request for each of the uploads [begin, end). The first error is the answer; *n_done: that had none, from the
 * first one on. */
static hr_status run_each(hr_uploads *u, const char *method, const char *query, int64_t begin, int64_t end,
                          bool with_id, int64_t *n_done, hr_error *err)
{
    hr_http_request r[AT_ONCE] = { 0 };
    hr_status st = HR_OK;
    int n = (int)(end - begin);

    for (int i = 0; i < n; i++) {
        const hr_upload *f = u->items[begin + i];
        char *text = with_id ? hr__printf(NULL, query, f->id) : hr__strdup(NULL, "");

        r[i].st = text ? hr__store_request(&r[i], method, u->store, f->url, text, NULL, &r[i].err) : HR_NO_MEMORY;
        hr__free(text);
    }
    hr__http_run_all(r, n);
    *n_done = 0;
    for (int i = 0; i < n; i++) {
        if (!r[i].st) {
            (*n_done)++;
            u->items[begin + i]->named = strcmp(method, "MOVE") == 0;
        } else if (!st) {
            st = r[i].st;
            if (r[i].err.status)
                hr__error_move(err, &r[i].err);
            else
                (void)hr__error_memory(err, u->root, 64);
        }
        hr__http_clear(&r[i]);
    }
    return st;
}

static hr_status run_all(hr_uploads *u, const char *method, const char *query, hr_error *err)
{
    int64_t n_done;

    for (int64_t at = 0; at < u->n; at += AT_ONCE)
        HR_TRY(run_each(u, method, query, at, HR_MIN(u->n, at + AT_ONCE), true, &n_done, err));
    return HR_OK;
}

static void take_names_back(hr_uploads *u)
{
    hr_error none = HR_ERROR_INIT;
    int64_t n_done;

    for (int64_t i = 0; i < u->n; i++) {
        if (u->items[i]->named)
            (void)run_each(u, "DELETE", "", i, i + 1, false, &n_done, &none);
        hr_error_clear(&none);
    }
}

/* The job is done: what cannot be removed stays, and is no error. */
static void remove_old(hr_uploads *u, const hr_paths *old)
{
    hr_http_request r[AT_ONCE] = { 0 };

    for (int64_t at = 0; old && at < old->n; at += AT_ONCE) {
        int n = (int)HR_MIN(old->n - at, AT_ONCE);

        for (int i = 0; i < n; i++)
            r[i].st = hr__store_request(&r[i], "DELETE", u->store, old->items[at + i].path, "", NULL, &r[i].err);
        hr__http_run_all(r, n);
        for (int i = 0; i < n; i++)
            hr__http_clear(&r[i]);
    }
}

static hr_status served_commit(hr_uploads *u, bool replace, const hr_paths *old, hr_error *err)
{
    hr_status st;

    HR_TRY(run_all(u, "POST", "end=%s", err));
    st = run_all(u, "MOVE", replace ? "id=%s" : "id=%s&new", err);
    if (st && !replace)
        take_names_back(u);
    HR_TRY(st);
    u->committed = true;
    remove_old(u, old);
    return HR_OK;
}

static void served_abort(hr_uploads *u)
{
    hr_error none = HR_ERROR_INIT;

    (void)run_all(u, "DELETE", "id=%s", &none);
    hr_error_clear(&none);
}

const hr_upload_kind hr__served_upload = {
    .put = "",
    .put_new = "If-None-Match: *\n",
    .add_part_query = add_part_query,
    .commit = served_commit,
    .abort = served_abort,
};
