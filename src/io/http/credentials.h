/* credentials.h - who we are to a store: keys or a token, which can end, and are fetched again before they do.
 *
 * Words: *credentials* are what signs a request, for a time. An *identity* gives credentials: fixed ones, or those that
 * it fetches from a file, a program or a service. Equal identities are one in a process, so that a service is asked
 * once for all readers. */
#ifndef HR_CREDENTIALS_H
#define HR_CREDENTIALS_H

#include "base/all.h"

/* Immutable; counted. AWS: an id, a secret, perhaps a token. Google and Azure: a token, which the request carries. */
typedef struct hr_credentials {
    atomic_int refs;
    char *id, *secret, *token; /* owned; NULL: none */
    int64_t until_s;           /* since 1970; 0: they do not end */
    struct hr_credentials *by; /* a reference: those that ask for these, during the fetch; NULL: none */
} hr_credentials;
hr_status hr__credentials_new(hr_credentials **out, hr_error *err) HR_MUST_USE;
void hr__credentials_unref(hr_credentials *c); /* wipes the secrets; NULL is fine */

/* Fills `out`, which is empty. `with` are the texts of the identity, each perhaps NULL. It can wait for a network: it
 * runs in a thread that asks for credentials, or in one of its own. */
typedef hr_status (*hr_fetch)(const char *const *with, hr_credentials *out, hr_error *err);
#define HR_IDENTITY_TEXTS 20
typedef struct hr_identity hr_identity;
/* The process's identity of this function and these texts (copied). The process keeps it. */
hr_status hr__identity_of(hr_fetch fetch, const char *const *with, int n, hr_identity **out, hr_error *err) HR_MUST_USE;
/* Likewise; processes of a run share what is fetched. `kind`, static, names the function in all of them. */
hr_status hr__identity_shared(const char *kind, hr_fetch fetch, const char *const *with, int n, hr_identity **out,
                              hr_error *err) HR_MUST_USE;
/* Likewise, of a session, for which the credentials of `base` ask: the function finds them in out->by. Equal bases,
 * also of two readers with the same keys, have one session. Sessions are short: the next one is fetched a minute
 * before their end. */
hr_status hr__identity_by(hr_identity *base, hr_fetch fetch, const char *const *with, int n, hr_identity **out,
                          hr_error *err) HR_MUST_USE;
/* For what becomes a line of a header or an address: the newline at the end of a file, or of a secret of Kubernetes,
 * would begin another line. HR_INVALID: "NAME has a line break at its end". NULL is fine. */
hr_status hr__check_line(const char *name, const char *text, hr_error *err) HR_MUST_USE;
/* One that gives these credentials (shared). */
hr_status hr__identity_fixed(hr_credentials *c, hr_identity **out, hr_error *err) HR_MUST_USE;
hr_status hr__identity_of_token(const char *token, hr_identity **out, hr_error *err) HR_MUST_USE;
void hr__identity_unref(hr_identity *i); /* NULL is fine */

/* Waits until there are credentials that have not ended: not for threads of the pool or of the network. */
hr_status hr__identity_wait(hr_identity *i, hr_error *err) HR_MUST_USE;
/* The credentials for an attempt now: *out is a reference. *out NULL with HR_OK: they are being fetched, ask again
 * soon. Never waits; fetches new ones beside, from five minutes before the end of the present ones. */
hr_status hr__identity_now(hr_identity *i, hr_credentials **out, hr_error *err) HR_MUST_USE;
/* A store says that these have ended. -> whether others can come. */
bool hr__identity_refused(hr_identity *i, const hr_credentials *c);
void hr__identities_forget(void); /* For tests: waits for those that fetch, and drops all. */

/* --- what functions that fetch share */
void hr__secret_free(char *text); /* its letters first; NULL is fine */
/* The seconds since 1970 of "2024-02-29T12:30:00Z", also with a fraction, or an offset; 0: it is no time. */
int64_t hr__time_of(const char *text);
/* --- credentials_file.c: what another process of the user has fetched
 *
 * begin waits for others that fetch the same, and end lets them go on. lock < 0: nothing is shared. */
typedef struct hr_shared {
    int folder, lock;
    char name[41];
} hr_shared;
char *hr__shared_folder(void); /* new, by the environment; NULL: nothing is shared */
hr_shared hr__shared_begin(const char *folder, const char *kind, const char *const *with, int n);
bool hr__shared_take(const hr_shared *s, hr_credentials *out);      /* false: `out` can have some texts */
void hr__shared_leave(const hr_shared *s, const hr_credentials *c); /* for others */
void hr__shared_end(hr_shared *s);
/* The content of a small file, without blanks at its end; new. HR_NOT_FOUND, HR_IO. */
hr_status hr__text_of_file(const char *path, char **out, hr_error *err) HR_MUST_USE;
/* Asks a service: a request with few retries. `more`: header lines; NULL: none. `form`: POST of this; NULL: `method`
 * without a body. `what` names the service in errors, which never hold the answer's body but for refusals. */
typedef struct hr_question {
    const char *what, *method, *url, *more, *form;
    int wait_s, max_retries;            /* for a connection, and for silence */
    const char *proxy, *proxy_excludes; /* of the store's options; NULL: those of the environment */
} hr_question;
hr_status hr__ask_service(const hr_question *q, hr_text *answer, hr_error *err) HR_MUST_USE;
void hr__form_add(hr_text *form, const char *name, const char *value); /* "&name=value", encoded */
/* Takes members of a JSON answer: id, secret (both NULL: only a token), token. HR_BAD_DATA names the one that lacks.
 * until: a time, or seconds or milliseconds since 1970; expires_in: seconds from now. */
typedef struct hr_member_names {
    const char *id, *secret, *token, *until, *expires_in;
} hr_member_names;
hr_status hr__credentials_of_json(const char *what, const char *json, int64_t n, const hr_member_names *names,
                                  hr_credentials *out, hr_error *err) HR_MUST_USE;

#endif
