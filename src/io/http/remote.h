/* remote.h - what others see of http/: lists of URLs, sources over them, writing, what travelled. */
#ifndef HR_REMOTE_H
#define HR_REMOTE_H

#include "io/io.h"

/* The options "name=value" of a reader, for all of its URLs. HR_INVALID names an option that is unknown. */
hr_status hr__store_new(const char *const *options, int n_options, hr_account *account, hr_store **out,
                        hr_error *err) HR_MUST_USE;
hr_store *hr__store_ref(hr_store *s); /* NULL is fine */
void hr__store_unref(hr_store *s);    /* NULL is fine */
int64_t hr__network_throttled(void);  /* answers 429 and 503, of all hosts, since the process began */
/* What had travelled for no account when a run began: for schemas, single objects, and Python's readers of tables. */
typedef struct hr_network_begin {
    int64_t at_ns;
    int64_t of_nobody[HR_TRAFFIC_COUNT];
    struct hr_network_begin *next; /* of another run */
} hr_network_begin;
void hr__network_begins(hr_network_begin *out); /* borrows it until it ends */
void hr__network_ends(hr_network_begin *b);     /* one that never began is fine */
/* Adds ",\"network\":{...}": what travelled for the account, and for none since `begin`, and the hosts of the process.
 * Nothing, if nothing did. */
void hr__network_stats(const hr_account *a, const hr_network_begin *begin, hr_text *out);
/* Whether SSL_CERT_FILE or the system name certificates to trust. */
bool hr__http_has_certificates(void);
/* Where they do not, those of this file are. */
hr_status hr__http_use_certificates(const char *path, hr_error *err) HR_MUST_USE;
/* By which a store knows this version of the file; new; "": it has none. NULL: no memory. */
char *hr__path_tag(const hr_path *p);
bool hr__url_is_store(const char *url);                    /* of any store, and not of http */
void hr__url_trim(char *url);                              /* of a store: without '/' at the end of its key */
char *hr__url_shown(const char *url, hr_account *account); /* without passwords, and without its query */
void hr__url_hide(const char *url, hr_error *err);         /* the error's text has it as it is shown; NULL is fine */
/* Puts the URL, as it is shown, before the text of the error. Returns st. */
hr_status hr__url_error(hr_error *err, hr_status st, const char *url) HR_MUST_USE;
/* Adds the files of n URLs to the list, in their order. Requests of several URLs are under way at once. */
hr_status hr__url_list(hr_store *store, const char *const *urls, int n, const hr_paths_options *options, hr_paths *out,
                       hr_error *err) HR_MUST_USE;
void hr__list_rest_free(hr_list_rest *r); /* NULL is fine */
/* Sends no request. Borrows all. */
hr_status hr__url_source_open(const hr_path *listed, hr_store *store, hr_account *account, hr_source **out,
                              hr_error *err) HR_MUST_USE;

/* --- download.c: whole objects */
typedef struct hr_download {
    char *data; /* owned; NULL: an empty object, or none */
    int64_t n;
    hr_status st;
    hr_error err;
} hr_download;
typedef struct hr_download_limits {
    int64_t max_bytes;  /* a larger object is HR_BAD_DATA; 0: none is too large */
    bool allow_private; /* false: http(s) URLs of private and local addresses are HR_INVALID */
} hr_download_limits;
/* Fetches n objects at the same time into `out` (zeroed), each with its status, and waits for all: not for threads of
 * the pool. Their memory is on no account. */
hr_status hr__download(hr_store *store, const char *const *urls, int n, const hr_download_limits *limits,
                       hr_download *out, hr_error *err) HR_MUST_USE;
void hr__download_clear(hr_download *d);

/* --- writing to stores: store_upload.c, store_commit.c
 *
 * The uploads of one write job. Nothing is visible before hr__uploads_commit. One thread at a time. */
typedef struct hr_uploads hr_uploads;
typedef enum hr_uploads_of {
    HR_UPLOADS_JOB, /* files of a folder, which become visible together. A killed run of the job may have been there */
    HR_UPLOADS_NEW_JOB, /* likewise, of a job whose name is new */
    HR_UPLOADS_FILES,   /* files of a folder, each by itself */
    HR_UPLOADS_FILE     /* `url` is the file */
} hr_uploads_of;
/* In a folder it completes what jobs before have decided, and aborts the uploads of a killed run. `job` names this
 * one. */
hr_status hr__uploads_new(const char *url, hr_uploads_of what, const char *job, const char *const *options,
                          int n_options, hr_account *account, hr_uploads **out, hr_error *err) HR_MUST_USE;
/* Completes what jobs have decided in the folder and below it, and aborts the uploads of the job (NULL: none; "": all).
 * Adds a line for each folder and each upload. */
hr_status hr__store_clean(const char *url, const char *job, const char *const *options, int n_options, hr_text *report,
                          hr_error *err) HR_MUST_USE;
void hr__uploads_free(hr_uploads *takes); /* aborts the uploads that are not committed; NULL is fine */
/* *out: borrowed. The only file of its uploads waits for its id. */
hr_status hr__upload_begin(hr_uploads *u, const char *url, hr_upload **out, hr_error *err) HR_MUST_USE;
/* For threads of the pool: writes do not wait while too many bytes are under way. Who writes looks before whether there
 * is room for a chunk, which is 1/16 of the memory limit. The budget's waiter is called when there is room again. */
void hr__uploads_never_wait(hr_uploads *u);
bool hr__uploads_have_room(const hr_uploads *u);     /* from any thread */
int64_t hr__uploads_part_bytes(const hr_uploads *u); /* of a file's first parts: what one that is open holds, at most */
/* Waits while too many bytes are under way, unless hr__uploads_never_wait was called. */
hr_status hr__upload_write(hr_upload *u, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
/* Shares the buffer until its bytes have arrived. */
hr_status hr__upload_write_buffer(hr_upload *u, hr_buffer *b, hr_error *err) HR_MUST_USE;
void hr__upload_keep_first(hr_upload *u); /* before the first write: the first part can change until finish */
hr_status hr__upload_write_at(hr_upload *u, int64_t at, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
hr_status hr__upload_finish(hr_upload *u, hr_error *err) HR_MUST_USE; /* the last part is under way */
/* Waits for the parts, then claims the folder for a job that writes only where no files are: the caller lists it after
 * that, and hr__uploads_commit fails if another job has claimed it meanwhile. *taken: one is visible or becomes so. */
hr_status hr__uploads_claim(hr_uploads *u, bool *taken, hr_error *err) HR_MUST_USE;
/* After hr__uploads_commit has failed: another job has claimed the folder meanwhile, and fills it. */
bool hr__uploads_are_late(const hr_uploads *u);
/* Makes all files visible, in place of those of `old` (NULL: of none). replace: objects of the files' names. */
hr_status hr__uploads_commit(hr_uploads *u, bool single, bool replace, const hr_paths *old, hr_error *err) HR_MUST_USE;

/* --- served/: filesystems of the program, whose requests wait until threads of the program answer them
 *
 * The program gives each of its filesystems a number. Stores with the option "filesystem=NUMBER" refer to it. */
typedef struct hr_served_job hr_served_job;
typedef struct hr_served_call {
    hr_served_job *job;      /* NULL: no request */
    int64_t gone;            /* else the number of a filesystem to which nothing refers any more */
    int64_t filesystem;      /* what follows is the job's; served_kind.c has the methods */
    const char *method;      /* static */
    const char *path;        /* as the filesystem takes it */
    const char *query;       /* "": none */
    const char *tag;         /* the version that the file must have; NULL: any */
    const char *lines;       /* conditions; NULL: none */
    int64_t offset, n_bytes; /* of the range that is read */
    int64_t n_file;          /* bytes of the file, as they were listed */
    const uint8_t *data;     /* that the request sends */
    int64_t n_data;
    int n_waiting; /* jobs that still wait */
} hr_served_call;
hr_status hr__served_new(int64_t *number, hr_error *err) HR_MUST_USE; /* with a reference */
void hr__served_unref(int64_t number);                                /* 0 is fine */
/* Waits for a request, or for a filesystem that has gone. false: none came. Any number of threads. */
bool hr__served_take(int64_t wait_ns, hr_served_call *out);
/* Exactly one of these ends each job. data: what a GET or a FIND gives. tag: the version of a file that was put. */
void hr__served_answer(hr_served_job *takes, const void *data, int64_t n, const char *tag);
void hr__served_refuse(hr_served_job *takes, hr_error *err); /* moves the error, and adds the path */

/* --- objects.c: single objects, and folders of them. All calls wait for the network. */
typedef struct hr_store_options {
    const char *const *items; /* "name=value" */
    int n;
} hr_store_options;
/* At most n bytes from `offset` on; offset < 0: the last -offset bytes. tag (new; "": the store gives none) is its
 * version. HR_NOT_FOUND: there is no such object. */
hr_status hr__object_read_range(const hr_store_options *o, const char *url, int64_t offset, int64_t n, hr_text *out,
                                char **tag, hr_error *err) HR_MUST_USE;
/* Its present version, for reads of ranges; *out is new, tag as above. A read is HR_BAD_DATA if it was replaced. */
hr_status hr__object_open(const hr_store_options *o, const char *url, hr_source **out, char **tag,
                          hr_error *err) HR_MUST_USE;
/* Into a local file, which appears when it is complete. */
hr_status hr__object_save(const hr_store_options *o, const char *url, const char *path, hr_error *err) HR_MUST_USE;
/* if_tag "": only if there is none; a version: only in its place, otherwise HR_MISMATCH; NULL: in any case. A store
 * without conditions ignores it. *tag (new): the new version. */
hr_status hr__object_put(const hr_store_options *o, const char *url, const void *data, int64_t n, const char *if_tag,
                         char **tag, hr_error *err) HR_MUST_USE;
/* All objects below the folder, the hidden ones too. */
hr_status hr__objects_list(const hr_store_options *o, const char *folder, hr_paths *out, hr_error *err) HR_MUST_USE;
/* Those that are not there are no error. */
hr_status hr__objects_remove(const hr_store_options *o, const char *const *urls, int n, hr_error *err) HR_MUST_USE;
/* Local files as objects of the folder, which appear when all have arrived, one after the other. */
hr_status hr__objects_upload(const hr_store_options *o, const char *folder, const char *const *urls,
                             const char *const *paths, int n, hr_error *err) HR_MUST_USE;

#endif
