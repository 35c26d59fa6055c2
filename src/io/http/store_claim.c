/* store_claim.c - a folder of a store that one job alone may fill, for the modes "create" and "ignore".
 *
 * Two jobs that look into an empty folder at the same time would both fill it. So the record of such a job
 * (store_commit.c) has the same name in every job, and begins as a *claim*, which is a record without files:
 *   1. The job makes the claim, or replaces that of another job. A record with files is one of a decided job: then the
 *      folder is taken.
 *   2. The caller lists the folder: files make it taken.
 *   3. The job replaces its claim by its record, if it is still its claim.
 * Each step has a condition (If-None-Match, If-Match), so of all jobs one at most is decided. A claim of a job that was
 * killed hinders nobody, as the next one replaces it; `headrace clean` removes it.
 *
 * Tests: test_store_claims.py. */
#include "io/http/http.h"

#define TRIES 16 /* other jobs may come in between */

static char *claim_url(const hr_uploads *u) { return hr__printf(NULL, "%s/" HR_RECORD, u->root); }

/* Puts the claim in the place of the one with the ETag u->claim, "": of none. HR_MISMATCH: there is another one. */
static hr_status put_claim(hr_uploads *u, const char *url, hr_error *err)
{
    hr_text text = { 0 };
    char *tag = NULL;
    hr_status st;

    hr__commit_print_claim(u->job, &text);
    st = text.failed ? hr__error_memory(err, url, text.n)
                     : hr__store_put(u->store, url, text.data, text.n, u->claim, &tag, err);
    hr__text_clear(&text);
    HR_TRY(st);
    hr__free(u->claim);
    u->claim = tag;
    u->claimed = true;
    return HR_OK;
}

/* Sets u->claim to the ETag of the claim that is there, "": there is none. *taken: it is the record of a job. */
static hr_status look(hr_uploads *u, const char *url, bool *taken, hr_error *err)
{
    char tag[HR_ETAG_BYTES] = "";
    hr_text text = { 0 };
    hr_status st = hr__store_get(u->store, url, u->account, &text, tag, err);

    if (st == HR_NOT_FOUND) {
        hr_error_clear(err);
        st = HR_OK;
    } else if (!st) {
        *taken = !hr__commit_is_claim(text.data);
    }
    hr__text_clear(&text);
    HR_TRY(st);
    hr__free(u->claim);
    u->claim = hr__strdup(NULL, tag);
    return u->claim ? HR_OK : hr__error_memory(err, url, sizeof tag);
}

static hr_status claim(hr_uploads *u, const char *url, bool *taken, hr_error *err)
{
    hr_status st = HR_MISMATCH;

    for (int i = 0; i < TRIES; i++) {
        st = put_claim(u, url, err);
        if (st != HR_MISMATCH)
            return st;
        hr_error_clear(err);
        HR_TRY(look(u, url, taken, err));
        if (*taken)
            return HR_OK;
    }
    return hr_error_set(err, HR_IO, "%s: too many jobs want to fill the folder at the same time", u->root);
}

hr_status hr__uploads_claim(hr_uploads *u, bool *taken, hr_error *err)
{
    char *url;
    hr_status st = HR_OK;

    *taken = false;
    HR_TRY(hr__uploads_wait(u, err));
    if (u->kind->commit) /* it has no conditions */
        return HR_OK;
    if (u->renames) { /* the rename of our folder fails where one is */
        u->only_new = true;
        return HR_OK;
    }
    url = claim_url(u);
    u->claim = hr__strdup(NULL, "");
    st = url && u->claim ? claim(u, url, taken, err) : hr__error_memory(err, u->root, 64);
    hr__free(url);
    return st;
}

hr_status hr__uploads_decide(hr_uploads *u, const hr_text *record, hr_error *err)
{
    char *url = claim_url(u), *tag = NULL;
    hr_status st = url ? hr__store_put(u->store, url, record->data, record->n, u->claim, &tag, err)
                       : hr__error_memory(err, u->root, 64);

    if (st == HR_MISMATCH) {
        u->late = true;
        u->claimed = false; /* what is there now is not ours to remove: some stores ignore the condition */
        st = hr_error_set(err, HR_IO, "%s: another job fills the folder at the same time", u->root);
    }
    hr__free(tag);
    hr__free(url);
    return st;
}

bool hr__uploads_are_late(const hr_uploads *u) { return u->late; }

/* Of a job that has failed. */
void hr__uploads_unclaim(hr_uploads *u)
{
    char *url = u->claimed && !u->committed ? claim_url(u) : NULL;
    hr_error none = HR_ERROR_INIT;

    if (url && hr__store_remove(u->store, url, u->claim, &none)) /* it hinders nobody */
        hr_error_clear(&none);
    hr__free(url);
    hr__free(u->claim);
    u->claim = NULL;
}
