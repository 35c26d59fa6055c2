/* http.h - requests over HTTP, on one thread of the process that waits for all of them, and some that move bytes.
 *
 * A *request* is one exchange with a server, with its retries: http_request.c says what is sent again, http_thread.c
 * when, multi/http_multi.c moves the bytes. Answers of 2xx go into the request's own memory, at once where they belong.
 * Everything of a request belongs to the network's threads between hr__http_begin and `done`.
 *
 * Words: a *store* is where URLs of one scheme and one set of options lead: limits on time, how requests are signed. An
 * *attempt* is one sending of a request. */
#ifndef HR_HTTP_H
#define HR_HTTP_H

#include "io/http/aws_profile.h"
#include "io/http/credentials.h"
#include "io/http/pace/flow.h"
#include "io/http/pace/hedge.h"
#include "io/http/remote.h"

#define HR_ETAG_BYTES 128
#define HR_MODIFIED_BYTES 40

typedef enum hr_switch { HR_SWITCH_UNSET, HR_SWITCH_OFF, HR_SWITCH_ON } hr_switch;

/* Where S3 is, and who we are; see s3_config.c. NULL: not given. */
typedef struct hr_s3 {
    char *key_id, *secret, *token;
    char *session_token; /* the same, under a name of S3 alone */
    char *region, *endpoint, *profile;
    char *default_region, *endpoint_s3; /* instead of `region`, if there is none; instead of `endpoint` */
    char *role, *role_session, *external_id, *token_file, *sts, *metadata;
    char *container_path, *container_url, *container_token_file;
    char *encryption, *kms_key, *customer_key; /* of what is written; the last one of what is read, too */
    char *key_sum;                             /* of customer_key: MD5, in base64 */
    hr_switch anonymous, virtual_host, express, unsigned_payload, request_payer, bucket_key, use_ssl;
    bool prepared;
    hr_identity *identity;               /* a reference; NULL: there are no credentials */
    struct hr_s3_session *_Atomic first; /* of the directory buckets; see s3_express.c */
} hr_s3;

/* Where Google's store is, and who we are; see gs.c. NULL: not given. */
typedef struct hr_gs {
    char *token;           /* of OAuth */
    char *key_id, *secret; /* of HMAC */
    char *key_file, *key;  /* of a service account: its file, or the file's text */
    char *endpoint, *project;
    hr_switch anonymous, request_payer; /* the project pays for requests */
    bool prepared;
    hr_identity *identity; /* a reference; whose tokens requests carry; NULL: nobody's */
} hr_gs;

/* Where Azure's store is, and who we are; see az_config.c. NULL: not given. */
typedef struct hr_az {
    char *account, *key, *sas, *token, *connection, *endpoint, *suffix;
    char *tenant, *client, *client_secret, *token_file, *authority;
    char *identity_endpoint, *object_id, *resource_id;
    char *encryption_key, *key_sum; /* the sum is SHA-256, in base64 */
    hr_switch anonymous, emulator, fabric;
    bool prepared;
    hr_identity *identity; /* a reference; whose tokens requests carry; NULL: nobody's */
} hr_az;

/* Where HDFS is, and who we are; see hdfs/hdfs.c. NULL: not given. */
typedef struct hr_hdfs {
    char *endpoint, *user, *token;
    char *query; /* that says who we are; NULL: nothing does */
    bool prepared;
} hr_hdfs;

/* What the reader's storage options and the environment say; see docs/stores. Counted; immutable. */
struct hr_store {
    atomic_int refs;
    int connect_ms, silence_ms, max_retries;
    int first_byte_ms;                       /* of an attempt that reads; 0: as silence_ms */
    hr_switch hedges;                        /* unset: they are on */
    int idle_s;                              /* a connection that was idle for longer is not used again */
    int max_connections;                     /* of one host, for all readers */
    hr_switch allow_http, shuffle_addresses; /* unset: they are on */
    char *proxy, *proxy_excludes;            /* instead of those of the environment; NULL: not given */
    char *user_agent;                        /* NULL: headrace and its version */
    char *certificates;                      /* a file of those to trust, of SSL_CERT_FILE; NULL: the system's */
    char *cache_dir;                         /* NULL, "": nothing is cached */
    int64_t cache_bytes;                     /* its limit */
    hr_s3 s3;
    hr_gs gs;
    hr_az az;
    hr_hdfs hdfs;
    int64_t filesystem;      /* the number of a served one; 0: none. A reference */
    _Atomic int64_t ahead_s; /* how far the store's clock is ahead of ours */
    atomic_bool quotes_fit;  /* an answer had the ETag that a list has without quotes */
};
typedef struct hr_http_request hr_http_request;
typedef struct hr_http_host hr_http_host;
typedef struct hr_store_kind hr_store_kind;
typedef struct hr_upload_kind hr_upload_kind;

typedef struct hr_http_answer {
    int status;                       /* of HTTP; 0: none came */
    int64_t total;                    /* bytes of the whole object; -1: the server does not say */
    bool has_range;                   /* 206 */
    int64_t begin;                    /* of the range; -1: none */
    double wait_s;                    /* Retry-After in seconds; < 0: none */
    int64_t until_s;                  /* Retry-After as a time, since 1970; 0: none */
    int64_t date_s;                   /* of the server, since 1970; 0: none */
    char etag[HR_ETAG_BYTES];         /* with its quotes; "": none, or a weak one */
    char weak[HR_ETAG_BYTES];         /* a weak one: W/"..." */
    char modified[HR_MODIFIED_BYTES]; /* Last-Modified; "": none */
    char region[32];                  /* x-amz-bucket-region */
    char code[64];                    /* x-ms-error-code */
    char generation[24];              /* of an object of Google; "": none */
    char mark[32];                    /* of the object's metadata: the id of its upload */
    bool is_folder;                   /* of Azure: no object, although it has a name */
} hr_http_answer;

/* Bytes that are sent in one body with others. */
typedef struct hr_http_piece {
    const uint8_t *data;
    int64_t n;
    hr_buffer *shared; /* a reference to the buffer that has them; NULL: ... */
    uint8_t *own;      /* ... they are the piece's, from hr__alloc */
} hr_http_piece;

struct hr_http_request {
    /* The caller fills these, from zero, by hr__http_init and by hand. */
    const char *method;        /* static */
    char *url;                 /* owned, percent-encoded */
    char *name;                /* owned: the URL for errors; NULL: `url` without its secrets */
    char *if_match;            /* owned: the ETag that the object must have; NULL: any */
    hr_store *store;           /* a reference */
    hr_account *account;       /* borrowed; is charged for the buffers of the connection */
    int64_t offset;            /* of the range */
    int64_t n_bytes;           /* of the range, to `out`; 0: the whole body, to `body` */
    uint8_t *out;              /* borrowed until `done` */
    const hr_store_kind *kind; /* borrowed; NULL: no store, but plain HTTP */
    bool is_signed;            /* with the store's keys */
    bool public_only;          /* HR_INVALID: the server's address is a private one */
    bool public_abroad;        /* the same, from a redirect to another host on */
    const uint8_t *data;       /* that PUT and POST send; borrowed until `done` */
    int64_t n_data;
    const hr_http_piece *pieces; /* instead of `data`: n_data bytes in pieces; borrowed until `done`; NULL: none */
    int64_t n_pieces;
    const char *more;                 /* header lines, each with its "\n"; borrowed until `done`; NULL: none */
    char hash[72];                    /* of the data, for the signature; "": hr__http_begin makes it */
    int64_t max_body;                 /* a longer body is an error; 0: 1 MiB */
    bool is_list;                     /* a body that is an error counts as one, whatever the status */
    void (*done)(hr_http_request *r); /* on the network's thread, without locks; may free the request */
    void *context;
    /* The answer, for `done`. */
    hr_status st;
    hr_error err;
    hr_http_answer answer;
    hr_text body;          /* without `out`: the body; else the words of a refusal */
    _Atomic int64_t n_got; /* bytes in `out` */
    int n_retries;
    atomic_bool cancelled;
    /* The network's thread alone; what is atomic, and what else comes with an answer, the one of its multi. */
    hr_http_request *next;
    struct hr_served_job *job; /* of a served filesystem, instead of an attempt */
    hr_http_host *host;
    hr_http_request *hedge;  /* owned: asks for the same bytes once more; NULL: none */
    hr_http_request *hedged; /* of a hedge: the request that it helps, whose texts it borrows; NULL: this is no hedge */
    bool is_small;           /* of the lane of small requests */
    bool was_hedged;         /* a request has one hedge */
    bool on_new;             /* the next attempt has a new connection */
    atomic_bool answered;    /* a line of the attempt's answer has come */
    bool was_silent;         /* an attempt on a connection that was used before got no answer */
    void *easy;              /* NULL: no attempt is under way */
    struct hr_multi *multi;  /* that has it; NULL: none */
    void *headers;           /* the attempt's */
    hr_credentials *who;     /* that have signed it; a reference */
    bool renewed;            /* other credentials were asked for */
    char *target;            /* where redirects led; NULL: `url` */
    bool foreign;            /* `target` is another host: nothing is signed */
    bool learnt_clock;
    bool is_private; /* the server's address was refused, and there was no other */
    bool is_public;  /* a public address was asked for a connection */
    bool overrun;    /* more bytes came than were asked for */
    int n_redirects;
    int64_t due_ns;              /* of the next attempt */
    int64_t begin_ns;            /* of the attempt */
    _Atomic int64_t progress_ns; /* of the last byte */
    int64_t n_wanted;            /* bytes of the range that this attempt asks for */
    int64_t first_ns;            /* from begin_ns to the first byte of a body */
    _Atomic int64_t n_attempt;   /* bytes of bodies that this attempt received */
    int64_t n_sent;              /* bytes of `data` that this attempt has sent */
    int64_t at_piece;            /* which libcurl reads next */
    int64_t in_piece;            /* the bytes of it that libcurl has read */
    int64_t buffer_bytes;        /* of the connection */
    int curl_code;
};

/* Takes the URL (NULL: HR_NO_MEMORY, as if an allocation had failed). Shares the store. */
hr_status hr__http_init(hr_http_request *r, const char *method, char *takes_url, hr_store *store,
                        hr_error *err) HR_MUST_USE;
void hr__http_clear(hr_http_request *r); /* zero is fine; not between begin and done */
/* The i-th piece of what the request sends: `data` is one, with shared and own NULL. */
static inline hr_http_piece hr__http_piece(const hr_http_request *r, int64_t i)
{
    return r->pieces ? r->pieces[i] : (hr_http_piece){ r->data, r->n_data, NULL, NULL };
}
static inline int64_t hr__http_pieces(const hr_http_request *r) { return r->pieces ? r->n_pieces : r->n_data > 0; }
/* Sends the request. After HR_OK `done` is called exactly once. HR_UNSUPPORTED: this build has no libcurl. */
hr_status hr__http_begin(hr_http_request *r, hr_error *err) HR_MUST_USE;
/* HR_UNSUPPORTED, which names the URL: this build has no libcurl. */
hr_status hr__http_check_build(const char *url, hr_error *err) HR_MUST_USE;
/* `done` comes soon, with HR_CANCELLED if the answer is not complete. The caller knows that `done` has not freed r. */
void hr__http_cancel(hr_http_request *r);
/* Sends all whose `st` is HR_OK and waits for all. The error of a request stays in it. */
void hr__http_run_all(hr_http_request *r, int n);
/* Sends the request and waits for its end; `done` is its own. */
hr_status hr__http_run(hr_http_request *r, hr_error *err) HR_MUST_USE;
/* For tests: ends the thread, closes all connections. Requests that are under way are cancelled. */
void hr__http_stop(void);

/* --- hosts.c: what is known of a host and bucket. Any thread touches what is atomic, the network's thread the rest. */
enum { HR_LANE_LARGE, HR_LANE_SMALL, HR_N_LANES };
typedef struct hr_http_lane {
    hr_flow flow;
    hr_http_request *queue, **queue_end; /* that wait for their turn */
    int n_active;
    _Atomic int64_t came;     /* bytes of large bodies that the flow has not heard of */
    _Atomic int64_t first_ns; /* of the last first byte, likewise; 0: none */
} hr_http_lane;
struct hr_http_host {
    char name[160]; /* "https://host:port/bucket" */
    hr_http_lane lanes[HR_N_LANES];
    hr_hedge hedge;
    int n_active;
    atomic_int tokens_spent;     /* of retries */
    _Atomic int64_t refilled_ns; /* when time last gave tokens back */
    _Atomic int64_t requests, bytes, retries, throttled, failed, wasted, hedges, hedges_won;
    atomic_int in_flight, peak, levels[HR_N_LANES];
};
#define HR_SMALL_REQUEST (256 << 10) /* a request for no more bytes is a matter of latency */
#define HR_MAX_HOSTS 1024            /* the last one stands for all others */
hr_http_host *hr__host_of(const hr_http_request *r);
void hr__network_count(hr_account *a, hr_traffic what, int64_t n); /* also for no account (NULL) */
/* What came at came_ns for no account counts for this one instead. */
void hr__network_give(hr_account *a, hr_traffic what, int64_t n, int64_t came_ns);
int hr__hosts(hr_http_host **out); /* -> their number */
void hr__hosts_forget(void);       /* no request is under way; the counters stay */
void hr__host_count(hr_http_request *r, hr_traffic what, int64_t n);

bool hr__http_says(const hr_http_request *r, const char *code); /* the refusal has this code */

static inline hr_http_lane *hr__lane_of(const hr_http_request *r)
{
    return &r->host->lanes[r->is_small ? HR_LANE_SMALL : HR_LANE_LARGE];
}

/* --- http_attempt.c: an attempt as libcurl sees it */
#define HR_HTTP_BUFFER (256 << 10)                    /* of a connection, at most */
int64_t hr__attempt_buffer(const hr_http_request *r); /* that the attempt's has */
/* Sets the options of r->easy, and r->headers, which stay until the attempt has ended. */
hr_status hr__attempt_set(hr_http_request *r, hr_error *err) HR_MUST_USE;
/* What went wrong in an attempt that ended with this CURLcode; NULL: nothing. `text`: room for words. */
const char *hr__attempt_wrong(const hr_http_request *r, int code, char *text, size_t cap, bool *may_retry);

/* --- http_request.c: the way of a request, for the network's thread */
typedef enum hr_http_next { HR_HTTP_DONE, HR_HTTP_AGAIN } hr_http_next;
void hr__http_header(hr_http_request *r, const char *line, size_t n); /* one line of the answer's head */
bool hr__http_bytes(hr_http_request *r, const char *data, size_t n);  /* false: the attempt is over */
bool hr__http_holds_back(const hr_http_request *r);                   /* the attempt sends no body: a redirect comes */
/* After an attempt: `wrong` names what went wrong on the way, NULL: nothing. `location`: where a redirect leads; NULL.
 * AGAIN: the next attempt is due at r->due_ns; DONE: r->st and r->err are set. */
hr_http_next hr__http_settle(hr_http_request *r, const char *wrong, bool may_retry, const char *location);

/* --- url.c */
char *hr__url_encoded(const char *url, hr_account *account); /* blanks and bytes beyond ASCII as %XX; "%" stays */
/* Where the host begins, after "https://" and "name:password@". *end: behind its port. */
const char *hr__url_host(const char *url, const char **end);
/* What is wrong with an address, whose beginning can be an option's; NULL: nothing. Signing and libcurl rely on a
 * scheme and a host. */
const char *hr__address_wrong(const char *url);
hr_status hr__check_address(const char *option, const char *url, hr_error *err); /* names the option, not its value */
bool hr__url_same_host(const char *a, const char *b);                            /* scheme, host and port */
/* Whether an address ("10.0.0.1", "fe80::1") is of this host, of a private network, or no address of one host. */
bool hr__address_is_private(const char *address);
/* Whether the host is the domain, or lies below it; letters of both cases are equal. */
bool hr__host_is_in(const char *host, size_t n, const char *domain, size_t n_domain);
bool hr__url_is_near(const char *url); /* loopback, or the address of a machine's metadata: never by a proxy */
/* The proxy that the options or the environment have for this URL, borrowed; NULL: none. Of no_proxy it takes names,
 * and no ranges. */
const char *hr__url_proxy(const char *url, const hr_store *s);

/* --- store_kind.c: scheme://bucket/key, where the key is plain, and not percent-encoded */
typedef struct hr_place {
    const char *bucket, *key; /* in the URL; the key ends with it */
    int n_bucket;
    const char *account; /* the host of Azure's account; NULL: not in the URL */
    int n_account;
    bool anonymous; /* scheme://anonymous@bucket */
} hr_place;
/* How long lists are asked for. PAGES: page by page, large folders beside each other. BEHIND: a list can begin behind
 * any key. FOLDERS: keys come in no order, and a prefix ends with a slash. */
typedef enum hr_list_way { HR_LIST_PAGES, HR_LIST_BEHIND, HR_LIST_FOLDERS } hr_list_way;
/* A page of a list. */
typedef struct hr_list_query {
    const char *prefix;
    const char *token; /* of the page before; NULL: the first page */
    const char *after; /* the first page begins behind this key; NULL: at the first one */
    bool level;        /* only keys without a slash behind the prefix, and the names of folders */
    bool one;          /* a page of one key, where the store can begin behind a key */
} hr_list_query;
/* What the requests for a store have of their own: one table for each kind of store. */
struct hr_store_kind {
    const char *schemes; /* separated by blanks */
    /* Fills what the options leave open. HR_INVALID: there are no keys, and the URL is not anonymous. */
    hr_status (*prepare)(hr_store *s, const char *url, hr_error *err);
    bool (*signs)(const hr_store *s, const char *url); /* requests for this URL are signed */
    /* Whether the URL alone says which server it is, neither the options nor the provider; NULL: never. */
    bool (*names_server)(const hr_store *s, const char *url);
    bool any_bucket; /* its URLs begin with anything, and not with the name of a bucket */
    /* Borrowed: whose credentials sign requests for this URL; NULL: nobody's. */
    hr_identity *(*identity)(const hr_store *s, const char *url);
    /* Adds the address of the object, or of its bucket, without a query. */
    void (*add_address)(const hr_store *s, const char *url, bool of_bucket, hr_text *out);
    const char *(*grant)(const hr_store *s, const char *url); /* a secret query of each address; NULL: none */
    /* Adds the header lines of an attempt, of which `lines` has some already: those of the store, and the signature of
     * a request that is signed. `url`: where it goes. */
    hr_status (*sign)(const hr_http_request *r, const char *url, int64_t now_s, hr_text *lines, hr_error *err);
    hr_status (*hash)(hr_http_request *r, hr_error *err); /* of the data, for the signature; NULL: none is needed */
    const char *skewed; /* the code of a refusal that can mean that our clock is wrong */
    void (*add_list_query)(const hr_list_query *q, hr_text *out); /* encoded and sorted */
    hr_list_way (*list_way)(const hr_store *s, const char *url);  /* NULL: HR_LIST_PAGES */
    /* The refusal says how a request has to be sent instead, which later ones are. NULL: refusals say nothing. */
    bool (*learn)(hr_store *s, const hr_http_request *r);
    const hr_upload_kind *upload;
    /* Adds the query of a request for a range, which is answered by 200; NULL: ranges are asked for by a header. */
    void (*add_range_query)(int64_t offset, int64_t n, hr_text *out);
    /* What a refusal means, if the store knows it better than HTTP does, and its status; NULL: it does not. */
    const char *(*meaning)(const hr_http_request *r, hr_status *st);
    /* A refusal that HTTP calls lasting is a state that passes; NULL: the status says it. */
    bool (*passes)(const hr_http_request *r);
    /* Adds the files that the URL names; pattern: of its key. NULL: by HEAD, and by pages of a list. */
    hr_status (*find)(hr_store *s, const char *url, const char *pattern, const hr_paths_options *options, hr_paths *out,
                      hr_error *err);
    /* HR_BAD_DATA: the file has another version now. NULL: each request names the version. */
    hr_status (*verify)(hr_store *s, const char *url, int64_t version, hr_error *err);
    /* The query of a request that has none: where the method alone does not say what is asked for. It may set another
     * method. NULL: the method says it. */
    const char *(*ask)(hr_http_request *r);
    /* What is wrong with an answer of 2xx, and its status; it may read r->answer out of the body. NULL: nothing. */
    const char *(*wrong)(hr_http_request *r, hr_status *st);
    bool sends_abroad; /* what a request sends goes where a redirect leads: this server takes none itself */
    bool has_versions; /* files have no ETags: hr_path.mtime_ns is their version, and the ETag of an answer to HEAD */
    /* Takes requests as hr__http_begin and hr__http_cancel do. NULL: they go over the network. */
    hr_status (*begin)(hr_http_request *r, hr_error *err);
    void (*cancel)(hr_http_request *r);
};
/* How an object is written in parts, and becomes visible when they are complete. */
struct hr_upload_kind {
    bool has_ids;           /* the store gives each upload an id, and lists those that are not complete */
    bool counts_parts;      /* the ETag of an object ends in the number of its parts */
    const char *put;        /* header lines of a PUT of a whole object; NULL: none */
    const char *put_new;    /* likewise, of one that replaces no object */
    const char *generation; /* "name: " of the header with which a PUT replaces one generation; NULL: If-Match does */
    const char *complete;   /* the method of the request that completes an upload */
    const char *new_only;   /* a header line of that request: it replaces no object; NULL: the store knows none */
    const char *lost;       /* the code of its refusal, if parts are not there, or no longer */
    void (*add_part_query)(const char *id, int64_t number, hr_text *out);
    /* only_new: see new_only, where a query says it. */
    void (*add_complete_query)(const char *id, const char *url, bool only_new, hr_text *out);
    void (*add_parts)(char *const *tags, int64_t n, hr_text *out); /* the body that completes an upload; NULL: none */
    void (*add_mark)(const char *id, hr_text *out); /* a header line by which the object is known; NULL: none */
    /* Instead of a record and what follows it: makes the files visible, whose parts have all arrived, and removes `old`
     * (NULL: none). Sets `committed`. */
    hr_status (*commit)(hr_uploads *u, bool replace, const hr_paths *old, hr_error *err);
    void (*abort)(hr_uploads *u); /* removes what a job without names has left */
    /* Of a store of files (hdfs/hdfs_write.c), whose uploads are files of hidden folders. Their ids are the keys of
     * these files. All are NULL for the others. */
    bool has_folders;                                     /* made by make_folder, removed by DELETE if they are empty */
    int64_t part_bytes;                                   /* of a part, if the memory limit allows it; 0: any */
    hr_status (*begin)(hr_uploads *u, hr_error *err);     /* sets `parts` and `renames` */
    char *(*id_of)(const hr_uploads *u, const char *url); /* new; NULL: no memory */
    char *(*part_url)(const hr_upload *f, int64_t number); /* likewise: where the part goes */
    hr_status (*join)(hr_uploads *u, hr_error *err);       /* each upload's parts become one file, which is checked */
    hr_status (*rename)(hr_store *s, const char *from, const char *to, hr_error *err); /* HR_MISMATCH: `to` exists */
    const char *make_folder;                                                           /* the query of a PUT */
    /* Finds the records below the prefix; its last name may be the beginning of a record's. */
    hr_status (*records)(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err);
    /* Removes the files of the job's uploads. report NULL: of those of this folder alone; else lists all below it. */
    hr_status (*abort_job)(hr_store *s, const char *root, const char *job, hr_text *report, hr_error *err);
    /* hr__store_put, of a store without conditions of a PUT. */
    hr_status (*put_object)(hr_store *s, const char *url, const void *data, int64_t n, const char *if_tag, char **tag,
                            hr_error *err);
};
extern const hr_store_kind hr__s3_kind, hr__gs_kind, hr__az_kind, hr__hdfs_kind, hr__served_kind;
const hr_store_kind *hr__kind_of(const char *url);                           /* NULL: of no store */
hr_place hr__place(const char *url);                                         /* of a store */
char *hr__url_of_key(const char *url, const char *key, hr_account *account); /* in the same bucket; NULL: no memory */
void hr__url_add_encoded(hr_text *out, const char *s, bool keep_slash);
hr_status hr__store_prepare(hr_store *s, const char *url, hr_error *err) HR_MUST_USE; /* any URL */
bool hr__store_learn(hr_store *s, const char *url, const hr_http_request *r);
/* The address of requests for a URL; query: encoded, sorted; "": none. NULL: no memory. */
char *hr__store_address(const hr_store *s, const char *url, bool of_bucket, const char *query, hr_account *account);
/* A request for any URL: for a store it is signed. query: as above. */
hr_status hr__store_request(hr_http_request *r, const char *method, hr_store *s, const char *url, const char *query,
                            hr_account *account, hr_error *err) HR_MUST_USE;
hr_status hr__bucket_request(hr_http_request *r, const char *method, hr_store *s, const char *url, const char *query,
                             hr_account *account, hr_error *err) HR_MUST_USE;

/* --- store_options.c */
hr_status hr__store_set(hr_store *s, const char *option, hr_error *err) HR_MUST_USE; /* "name=value" */
void hr__store_options_clear(hr_store *s); /* frees the texts that options have set */
/* --- store.c */
/* Sets *at to a copy of the n bytes, unless it is set or there are none. */
hr_status hr__set_default(char **at, const char *value, int64_t n, hr_error *err) HR_MUST_USE;
hr_status hr__set_text(char **at, const char *value, hr_error *err) HR_MUST_USE;    /* likewise; NULL: there are none */
hr_status hr__set_from(char **at, const char *variable, hr_error *err) HR_MUST_USE; /* of the environment */

/* --- gs.c, az.c, az_config.c */
hr_status hr__gs_prepare(hr_store *s, const char *url, hr_error *err) HR_MUST_USE;
hr_status hr__az_prepare(hr_store *s, const char *url, hr_error *err) HR_MUST_USE;
hr_status hr__az_take_connection(hr_az *az, const char *text, hr_error *err) HR_MUST_USE;
bool hr__az_key_is_good(const char *key); /* in base64 */
/* Of a key of 256 bits in base64: its MD5 or SHA-256, in base64, new. HR_INVALID, without the key: it is none. */
hr_status hr__key_sum(const char *name, const char *key, bool sha256, char **out, hr_error *err) HR_MUST_USE;

/* --- cache.c: ranges of one version of an object, in a folder of this machine. The caller's lock guards the ranges,
 * which only `end`, `next`, `range`, `add` and `drop` see; these take NULL for no cache. */
typedef struct hr_cached hr_cached;
/* NULL: the store has no cache, the object no version, or no memory. url: of the object, without its query of keys. */
hr_cached *hr__cached_open(const hr_store *store, const char *url, const char *tag, int64_t n_bytes,
                           hr_account *account);
void hr__cached_free(hr_cached *c);                                   /* NULL is fine */
int64_t hr__cached_end(const hr_cached *c, int64_t at);               /* of the bytes from `at` on; `at`: none */
int64_t hr__cached_next(const hr_cached *c, int64_t at, int64_t end); /* the first range in (at, end); `end` */
bool hr__cached_range(const hr_cached *c, int64_t at, int64_t *begin, int64_t *n); /* that has this byte */
void hr__cached_add(hr_cached *c, int64_t at, int64_t n);
void hr__cached_drop(hr_cached *c, int64_t at, int64_t n);
/* Bytes [at, at + n) of a range. false: they are not there, or no longer good, and the range has to be dropped. */
bool hr__cached_read(const hr_cached *c, int64_t begin, int64_t n_range, int64_t at, int64_t n, uint8_t *out);
bool hr__cached_write(const hr_cached *c, int64_t at, int64_t n, const uint8_t *data); /* false: it is not cached */
void hr__cache_forget(void); /* For tests: as if the process had not written yet. */

/* --- s3_config.c, s3_express.c */
hr_status hr__s3_prepare(hr_store *s, const char *url, hr_error *err) HR_MUST_USE;
#define HR_S3_EXPRESS "s3express"                           /* the service of signatures for directory buckets */
bool hr__s3_is_express(const hr_store *s, const char *url); /* a directory bucket's; false: of another store, too */
void hr__s3_add_zone(const hr_store *s, const char *url, hr_text *out); /* the bucket's zone: the name of its host */
hr_status hr__s3_take_zone(hr_store *s, const char *url, hr_error *err) HR_MUST_USE; /* the region, if none is given */
/* Gets credentials for the bucket, which identity has then. */
hr_status hr__s3_begin_session(hr_store *s, const char *url, hr_error *err) HR_MUST_USE;
hr_identity *hr__s3_session_of(const hr_store *s, const char *url); /* borrowed; NULL: it has not begun */
void hr__s3_end_sessions(hr_store *s);

/* --- aws_credentials.c, google_credentials.c, azure_credentials.c: identities. *out NULL: nothing is
 * configured. What is NULL comes from the environment. */
#define HR_NO_CREDENTIALS                                                                                              \
    "no credentials in storage_options (aws_access_key_id, aws_secret_access_key), AWS_ACCESS_KEY_ID, "                \
    "~/.aws/credentials (public data: s3://anonymous@bucket)"
#define HR_NO_GOOGLE                                                                                                   \
    "no credentials in storage_options (google_service_account, google_token, or google_hmac_key_id and "              \
    "google_hmac_secret), GOOGLE_APPLICATION_CREDENTIALS, or of gcloud (public data: gs://anonymous@bucket)"
#define HR_NO_AZURE                                                                                                    \
    "no credentials in storage_options (azure_storage_account_key, azure_storage_sas_token, "                          \
    "azure_storage_connection_string, azure_storage_client_secret), AZURE_STORAGE_ACCOUNT_KEY, "                       \
    "AZURE_STORAGE_CONNECTION_STRING, or AZURE_CLIENT_SECRET (public data: az://anonymous@container)"
typedef struct hr_aws_files {
    const char *profile, *credentials, *config;
} hr_aws_files;
/* `profile` is read from the files. */
hr_status hr__aws_identity(const hr_store *s, const hr_aws_files *files, const hr_aws_profile *profile,
                           hr_identity **out, hr_error *err) HR_MUST_USE;
hr_status hr__google_identity(const hr_store *s, hr_identity **out, hr_error *err) HR_MUST_USE;
typedef struct hr_azure_login {
    const char *token, *tenant, *client, *secret, *token_file, *authority, *endpoint, *object_id, *resource_id;
    const hr_store *store; /* whose proxy services are asked by */
} hr_azure_login;
hr_status hr__azure_identity(const hr_azure_login *given, hr_identity **out, hr_error *err) HR_MUST_USE;

/* --- list_xml.c, store_list.c, url_list.c: lists of objects */
typedef struct hr_list_key {
    char *key, *tag; /* tag NULL: none */
    int64_t n_bytes;
    bool is_folder;
    bool gained_quotes; /* the list has the tag without quotes */
} hr_list_key;
typedef struct hr_list_page {
    hr_list_key *items;
    int64_t n, cap;
    char **folders; /* their keys, which end with a slash: of a list of one level */
    int64_t n_folders, cap_folders;
    char *next; /* where the next page begins; NULL: it does not say */
    bool truncated, is_list;
} hr_list_page;
/* HR_BAD_DATA: it is no list, or a damaged one. On failure `out` is cleared. */
hr_status hr__list_parse(const char *xml, int64_t n, hr_list_page *out, hr_error *err) HR_MUST_USE;
void hr__list_clear(hr_list_page *page);
bool hr__list_decode(char *key); /* "a+b%2B" -> "a b+", in place; false: it has a zero byte */
/* Adds the objects whose keys begin with `prefix`, and fit the pattern (NULL: that are visible below the prefix). */
hr_status hr__store_list(hr_store *s, const char *url, const char *prefix, const char *pattern,
                         const hr_paths_options *options, hr_paths *out, hr_error *err) HR_MUST_USE;
int64_t hr__version_of(const char *tag); /* a number for "has it changed?", in the place of a time; NULL: 0 */
/* --- s3_sign.c: signature 4, of Amazon and, with a condition, of Google */
typedef struct hr_sign_keys {
    const char *key_id, *secret, *region;
    const char *service;   /* NULL: the store */
    const char *token;     /* of a session; NULL: none */
    const char *header;    /* that has the token; NULL: x-amz-security-token */
    const char *condition; /* of the header x-goog-if-generation-match; NULL: the request has none */
    const char *more;      /* "name: value\n" of other headers that have to be signed, sorted; NULL: none */
} hr_sign_keys;
/* Adds the header lines that sign this request at this time. hash: of the data, by hr__s3_hash; "": there is none. */
hr_status hr__sign4(const hr_sign_keys *k, const char *method, const char *url, const char *hash, int64_t now_s,
                    hr_text *headers, hr_error *err) HR_MUST_USE;
/* --- s3.c: for Google, whose API is like it */
const char *hr__s3_region(const hr_store *s);
hr_list_way hr__list_behind(const hr_store *s, const char *url); /* HR_LIST_BEHIND */
void hr__s3_add_list_query(const hr_list_query *q, bool encoded, hr_text *out);
void hr__s3_add_part_query(const char *id, int64_t number, hr_text *out);
void hr__s3_add_complete_query(const char *id, const char *url, bool only_new, hr_text *out);
void hr__s3_add_parts(char *const *tags, int64_t n, hr_text *out);
const char *hr__aws_domain(const char *region);                                    /* "amazonaws.com", but in China */
hr_status hr__sha1_hex(const char *text, char out[41], hr_error *err) HR_MUST_USE; /* as names of SSO's files have it */
/* Sets r->hash: the SHA-256 of the data; "UNSIGNED-PAYLOAD" over TLS, which protects them itself, unless an option
 * decides. */
hr_status hr__s3_hash(hr_http_request *r, hr_error *err) HR_MUST_USE;
static inline bool hr__http_writes(const hr_http_request *r)
{
    return strcmp(r->method, "PUT") == 0 || strcmp(r->method, "POST") == 0 || strcmp(r->method, "DELETE") == 0;
}

/* --- served/: filesystems of the program */
#define HR_SERVED_SCHEME "filesystem"
extern const hr_upload_kind hr__served_upload;
hr_status hr__served_ref(int64_t number, hr_error *err) HR_MUST_USE;
hr_status hr__served_begin(hr_http_request *r, hr_error *err) HR_MUST_USE;
void hr__served_cancel(hr_http_request *r);

/* --- store_upload.c, store_commit.c: what both know of a job's uploads */
struct hr_upload {
    struct hr_uploads *job;
    char *url;
    char *id; /* of the store; NULL: not known yet */
    bool asked;
    bool learnt;                 /* the store has said how to ask for the id */
    struct hr_transfer *waiting; /* parts that wait for the id, in any order */
    char **tags;                 /* of the parts; NULL: not there yet */
    int64_t n_parts, cap_tags;
    int64_t n_bytes;
    int64_t n;             /* bytes of the part that is being filled: ... */
    hr_http_piece *pieces; /* ... of these pieces ... */
    int64_t n_pieces, cap_pieces;
    uint8_t *data; /* ... and then of these bytes, which small writes collect */
    int64_t n_data, cap;
    bool keeps_first;
    struct hr_transfer *first; /* part 1, held back until finish */
    bool named;                /* of a served filesystem: the file has its name */
};
struct hr_uploads {
    hr_account *account;
    hr_store *store;
    const hr_upload_kind *kind;
    hr_uploads_of what;
    char *root; /* the job's folder, or the file; without '/' at its end */
    char *job;
    int64_t part_bytes, most_bytes; /* of a part; of all parts that are not sent yet */
    hr_upload **items;
    int64_t n, cap;
    bool committed;       /* the uploads are not ours to abort */
    char *parts;          /* of a store of files: the URL of the folder of the uploads; NULL: there is none */
    bool renames;         /* `parts` becomes the folder: none was there when the job began */
    bool only_new;        /* the job fills no folder that exists */
    bool claimed;         /* the folder has our claim */
    bool late;            /* another job has claimed it after us, and fills it */
    char *claim;          /* its ETag, or that of the one to replace; "": of none. NULL: the job needs none */
    bool never_waits;     /* a write goes on without room */
    atomic_bool has_room; /* for one more chunk of a writer */
    hr_mutex lock;        /* guards what follows, and the uploads while parts are under way; before net.lock */
    hr_cond moved;
    struct hr_transfer *flying;
    int64_t n_flying, flying_bytes;
    hr_status st; /* of the first failure */
    hr_error err;
};
hr_status hr__uploads_wait(hr_uploads *u, hr_error *err) HR_MUST_USE; /* until all parts have arrived */
int64_t hr__upload_bytes_of(const hr_uploads *u, int64_t n_parts);    /* of the first n parts, if more follow */
/* The text of the first element of this name, decoded; new; NULL: there is none, or no memory. */
char *hr__xml_text(const char *xml, const char *name, const char **end);
/* Completes what jobs have decided in the folder, and aborts what a killed run of the job `job` (NULL: none) left. */
hr_status hr__store_recover(hr_store *s, const char *root, const char *job, hr_account *account,
                            hr_error *err) HR_MUST_USE;
/* --- objects.c: single objects. if_tag: only in the place of the one with this ETag, "": of none; NULL: of any.
 * HR_MISMATCH: there is another one. */
hr_status hr__store_put(hr_store *s, const char *url, const void *data, int64_t n, const char *if_tag, char **tag,
                        hr_error *err) HR_MUST_USE;
hr_status hr__store_get(hr_store *s, const char *url, hr_account *account, hr_text *out, char tag[HR_ETAG_BYTES],
                        hr_error *err) HR_MUST_USE;
hr_status hr__store_remove(hr_store *s, const char *url, const char *if_tag, hr_error *err) HR_MUST_USE;
/* DELETE with an encoded query ("": none) and header lines (NULL: none). What is not there is fine. */
hr_status hr__store_delete(hr_store *s, const char *url, const char *query, const char *lines,
                           hr_error *err) HR_MUST_USE;
void hr__store_unmake(hr_store *s, const char *root, const char *url);
/* PUT of a whole object to r. conditional: the lines have a condition, which a store that knows none (501) does not
 * get. */
hr_status hr__store_send(hr_store *s, const char *url, const void *data, int64_t n, const char *lines, bool conditional,
                         hr_http_request *r, hr_error *err) HR_MUST_USE;

/* --- store_claim.c, store_commit.c */
hr_status hr__uploads_decide(hr_uploads *u, const hr_text *record, hr_error *err) HR_MUST_USE; /* of a claimed folder */
void hr__uploads_unclaim(hr_uploads *u);                                                       /* of a job that ends */
void hr__commit_print_claim(const char *job, hr_text *out);
bool hr__commit_is_claim(const char *text); /* of a record */
#define HR_RECORD "_headrace_commit_"       /* the name of a record begins so */
bool hr__is_record(const char *key);        /* of a commit: readers look into it */
/* Adds the records below the prefix. */
hr_status hr__store_records(hr_store *s, const char *url, const char *prefix, hr_paths *out, hr_error *err) HR_MUST_USE;
/* Takes out of the list, from `begin` on, what the records say is not visible. *again: the list has to be made anew,
 * since a record has gone meanwhile, or its job has ended: `ended` gets the records of such jobs, for the next list. */
hr_status hr__store_leave_out(hr_store *s, const hr_paths *records, int64_t begin, hr_paths *out, hr_paths *ended,
                              bool *again, hr_error *err) HR_MUST_USE;

#endif
