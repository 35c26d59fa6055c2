/* io.h - sources (read at any offset), streams (read once, forwards), sinks (files being written) and lists of files.
 *
 * A *source* is opened once, never changes, and is read by many threads at the same time (there is no file position). A
 * *stream* belongs to one thread and only goes forward; a source behind a codec is a stream.
 * 1. A source keeps the size that it had when it was opened. A file that is truncated afterwards is an error, not a
 *    crash and not an early end. Bytes that are appended afterwards are ignored.
 * 2. Errors name the source; callers add the place within it (row group, column, line).
 * 3. URLs: plain paths, file://, and what http/ reads (http://, https://, s3://); other schemes are HR_UNSUPPORTED.
 * 4. Bytes of a URL travel before they are read: a caller announces them (hr__source_ahead) and may wait for them
 *    without a thread (hr_wait). A read of bytes that nobody announced waits on the thread that reads. */
#ifndef HR_IO_H
#define HR_IO_H

#include "data/data.h"
#include "io/poll.h"

/* Bytes that someone else owns. */
typedef struct hr_view {
    const uint8_t *data;
    int64_t n;
} hr_view;

static inline bool hr__view_starts(hr_view v, const char *text)
{
    return v.n >= (int64_t)strlen(text) && memcmp(v.data, text, strlen(text)) == 0;
}

/* --- sources */

typedef struct hr_source hr_source;
typedef struct hr_source_class {
    /* Reads n bytes from `offset` into out; the range lies within n_bytes. The class reports fewer bytes as an error.
     * Any thread. */
    hr_status (*read_at)(hr_source *s, void *out, int64_t offset, int64_t n, int64_t *n_read, hr_error *err);
    void (*ahead)(hr_source *s, int64_t offset, int64_t n); /* a hint: these bytes will be read soon; NULL: ignored */
    void (*close)(hr_source *s);                            /* frees what the class added, not `s` */
    hr_source *(*again)(hr_source *s, hr_account *account); /* NULL: see hr__source_again */
    int64_t gap; /* > 0: each request costs a way over the network, so ranges with smaller gaps become one */
    bool (*has)(hr_source *s, int64_t offset, int64_t n); /* NULL: see hr__source_has */
    void (*take)(hr_source *s, hr_source *from);          /* see hr__source_take; where there is `again` */
    /* Adds what names this version of the file, as long as it exists. False: nothing does. NULL: likewise. */
    bool (*add_version)(const hr_source *s, hr_hash *h);
} hr_source_class;

struct hr_source {
    const hr_source_class *cls;
    atomic_int refs;
    char *name;       /* for errors: the path */
    int64_t n_bytes;  /* when it was opened */
    int64_t mtime_ns; /* likewise; 0: not known */
};

/* Opens a local path. HR_NOT_FOUND, HR_IO and HR_UNSUPPORTED name it. A folder is HR_INVALID. */
hr_status hr__source_open(const char *url, hr_account *account, hr_source **out, hr_error *err) HR_MUST_USE;
/* For tests: a file of these bytes. Borrows the bytes until the last reference is released. */
hr_status hr__source_new_memory(const char *name, const void *data, int64_t n_bytes, hr_account *account,
                                hr_source **out, hr_error *err) HR_MUST_USE;
hr_source *hr__source_ref(hr_source *s);
void hr__source_unref(hr_source *s); /* NULL is fine */

/* Reads exactly n bytes; HR_BAD_DATA names both sizes if the source ends earlier. */
hr_status hr__source_read(hr_source *s, void *out, int64_t offset, int64_t n, hr_error *err) HR_MUST_USE;
/* Up to n bytes; *n_read < n only where the source ends. */
hr_status hr__source_read_some(hr_source *s, void *out, int64_t offset, int64_t n, int64_t *n_read,
                               hr_error *err) HR_MUST_USE;
void hr__source_ahead(hr_source *s, int64_t offset, int64_t n);
/* Between them, on one thread, what follows each other in a source is announced as one. The sources stay open. */
void hr__aheads_begin(void);
void hr__aheads_end(void);
typedef struct hr_file_range {
    int64_t offset, n;
} hr_file_range;
/* Announces all of them at once; neighbours become one request. Sorts the ranges. */
void hr__source_ahead_ranges(hr_source *s, hr_file_range *ranges, int n);
/* How far the bytes of a reader that goes forward are announced. */
typedef struct hr_read_on {
    int64_t first;     /* bytes ahead at the beginning; twice as many as were read later, */
    int64_t most;      /* up to these */
    int64_t announced; /* bytes of the source, so far */
} hr_read_on;
hr_read_on hr__read_on(const hr_source *s, int64_t first, int64_t limit_bytes); /* of memory */
/* The reader is at `at`: announces more when a quarter of what was announced ahead is read, so that some ranges travel
 * while others are read. Who reads the beginning alone ends before. */
void hr__source_read_on(hr_source *s, hr_read_on *r, int64_t at);
bool hr__source_is_remote(const hr_source *s);
bool hr__source_has(hr_source *s, int64_t offset, int64_t n); /* a read of these bytes waits for no network */

/* For classes: makes a source. `bytes`: sizeof the class's struct, whose first member is the hr_source. */
hr_status hr__source_new(const hr_source_class *cls, size_t bytes, const char *name, int64_t n_bytes,
                         hr_account *account, hr_source **out, hr_error *err) HR_MUST_USE;
/* file.c */
hr_status hr__file_source_open(const char *path, hr_account *account, hr_source **out, hr_error *err) HR_MUST_USE;

/* --- waiting for announced bytes: wait.c
 *
 * Between begin and end, on one thread, hr__source_ahead adds what is on its way to the wait. */

typedef struct hr_wait hr_wait;
/* least_bytes: what may be requested for this wait whatever the budget has; beyond it, as long as three quarters of the
 * limit are not in use. */
hr_status hr__wait_begin(int64_t least_bytes, hr_wait **out, hr_error *err) HR_MUST_USE;
/* False: all has come, or failed, and fn is not called. True: fn(context) will be called once, by any thread. */
bool hr__wait_end(hr_wait *w, void (*fn)(void *context), void *context);
void hr__wait_drop(hr_wait *w); /* instead of end: nothing will be called */
hr_wait *hr__wait_ref(hr_wait *w);
void hr__wait_cancel(hr_wait *w); /* calls fn now, unless it was called */
void hr__wait_unref(hr_wait *w);  /* NULL is fine */
/* For classes of sources: the wait of this thread, NULL: none; and what they tell it. */
hr_wait *hr__wait_current(void);
/* Reads of this thread that wait for the network end with HR_CANCELLED when *stop is true; NULL: they do not. */
void hr__reads_stop_by(const atomic_bool *stop);
bool hr__reads_stop(void); /* for classes: it is true, or the program was interrupted. No lock is held */
/* fn says whether the program was interrupted. Threads that are not the pool's call it now and then while they wait for
 * the network. NULL: nobody is asked. */
void hr__reads_ask(bool (*fn)(void));
#define HR_LOOK_NS 50000000 /* how often a thread that waits for the network asks */
/* Asks for n bytes, of which the budget has `room`. -> what is granted. */
int64_t hr__wait_spend(hr_wait *w, int64_t n_bytes, int64_t room);
void hr__ahead_refused(int64_t n_bytes); /* these announced bytes were not requested: the budget is short */
int64_t hr__aheads_refused(void);        /* the sum on this thread since the last call */
hr_wait *hr__wait_add(hr_wait *w);       /* one thing more; -> a reference */
void hr__wait_came(hr_wait *takes);      /* without locks */

/* --- streams */

typedef struct hr_stream hr_stream;
typedef struct hr_stream_class {
    /* Reads up to n > 0 bytes; *n_read 0: the end. Fewer than n bytes do not mean the end. */
    hr_status (*read)(hr_stream *s, void *out, int64_t n, int64_t *n_read, hr_error *err);
    void (*close)(hr_stream *s); /* frees all of it */
} hr_stream_class;
struct hr_stream {
    const hr_stream_class *cls;
};

/* The source's bytes from its beginning. Shares the source. */
hr_status hr__stream_new(hr_source *source, hr_account *account, hr_stream **out, hr_error *err) HR_MUST_USE;
/* Fills `out` unless the stream ends: *n_read < n means that it ended. */
hr_status hr__stream_read(hr_stream *s, void *out, int64_t n, int64_t *n_read, hr_error *err) HR_MUST_USE;
void hr__stream_close(hr_stream *s); /* NULL is fine */

/* --- sinks: sink.c
 *
 * A file being written. `commit` gives the complete file its name; until then its bytes are in a file without a name
 * (O_TMPFILE) or, where the file system has none, in a hidden file beside it. A sink belongs to one thread at a
 * time. */

typedef struct hr_sink hr_sink;
/* Whether `path` is a descriptor (/dev/stdout, /dev/fd/3), a pipe or a device: it gets bytes as they come, always
 * exists, and is never replaced or removed. */
bool hr__sink_streams(const char *path);
/* Makes missing folders. `replace`: commit replaces an existing file; else commit fails with HR_IO if the file
 * exists. */
hr_status hr__sink_open(const char *url, bool replace, hr_account *account, hr_sink **out, hr_error *err) HR_MUST_USE;
/* The file `url` of a store; it is named by hr__uploads_commit instead of hr__sink_commit. Borrows the upload. */
typedef struct hr_upload hr_upload;
hr_status hr__sink_open_upload(hr_upload *upload, const char *url, hr_account *account, hr_sink **out,
                               hr_error *err) HR_MUST_USE;
/* Before the first write: hr__sink_write_at will change the beginning. */
void hr__sink_keep_first(hr_sink *s);
hr_status hr__sink_write(hr_sink *s, const void *data, int64_t n,
                         hr_error *err) HR_MUST_USE; /* buffered; names the file */
/* All bytes of the buffer. An upload shares the buffer until the bytes have arrived, instead of a copy. */
hr_status hr__sink_write_buffer(hr_sink *s, hr_buffer *b, hr_error *err) HR_MUST_USE;
/* Writers hand over chunks of at most this part of the memory limit: encoding takes several times their bytes, on each
 * thread. */
#define HR_CHUNK_SHARE 16
/* Overwrites earlier bytes (a header that is complete only at the end). HR_UNSUPPORTED: they left for a pipe. */
hr_status hr__sink_write_at(hr_sink *s, int64_t at, const void *data, int64_t n, hr_error *err) HR_MUST_USE;
int64_t hr__sink_bytes(const hr_sink *s); /* bytes so far: the offset of the next one */
const char *hr__sink_name(const hr_sink *s);
void hr__sink_drop(hr_sink *takes); /* leaves no file; NULL is fine */
/* For writers of many files that name all of them at the end. finish: ends the writing and frees the memory; the
 * descriptor stays. park: also closes the descriptor; the file has a hidden name until commit, with a lease if leases
 * is not NULL. */
typedef struct hr_leases hr_leases;
hr_status hr__sink_finish(hr_sink *s, hr_sync sync, hr_error *err) HR_MUST_USE;
hr_status hr__sink_park(hr_sink *s, hr_leases *leases, hr_error *err) HR_MUST_USE;
/* Gives the file this name, in the folder of its own. Takes the sink, even on failure, which leaves no file. Borrows
 * path. */
hr_status hr__sink_commit(hr_sink *takes, const char *path, hr_error *err) HR_MUST_USE;
/* Makes a folder and those above it. *made (new; NULL: the folder existed): the first one that was missing. */
hr_status hr__folder_make(const char *path, hr_account *account, char **made, hr_error *err) HR_MUST_USE;
/* Removes `path` and the folders above it up to `made`, while they are empty. made NULL: removes nothing. */
void hr__folder_unmake(const char *path, const char *made);

/* --- hidden names: part.c
 *
 * A lease proves that a job's hidden files are in use: sweeps of other containers leave them while the job holds it. */

hr_leases *hr__leases_new(hr_account *account);          /* NULL: no memory */
void hr__leases_free(hr_leases *l);                      /* after the job's files; NULL is fine */
uint64_t hr__lease_of(hr_leases *l, const char *folder); /* 0: the folder cannot have one */
/* A new hidden name in `folder`, unique among all processes; leases NULL: without a lease. NULL: no memory. */
char *hr__part_name(const char *folder, hr_leases *leases, hr_account *account);
/* Removes the hidden files of writers that have certainly ended. Never fails. */
void hr__part_sweep(const char *folder);

/* --- lists of files: glob.c */

typedef struct hr_store hr_store;         /* http/http.h */
typedef struct hr_list_rest hr_list_rest; /* http/store_list.c */
typedef struct hr_path {
    char *path;
    char *tag;                 /* the ETag of a URL; NULL: none */
    char *shown;               /* a URL without its secrets; NULL: the path has none */
    int64_t n_bytes, mtime_ns; /* mtime_ns of a URL: a hash of its ETag, or of its time */
} hr_path;
typedef struct hr_paths {
    hr_account *account;
    hr_path *items;
    int64_t n, cap;
    hr_store *store;    /* of the URLs; NULL: all paths are local */
    bool is_beginning;  /* these files are the first ones of the list; see hr_paths_options.first_page */
    hr_list_rest *rest; /* how the list of a beginning goes on; NULL: it begins anew */
} hr_paths;

/* ANY: of a folder or a pattern. LEVEL: not if a folder that the pattern names has files. */
typedef enum hr_first_page { HR_FIRST_NEVER, HR_FIRST_OF_LEVEL, HR_FIRST_OF_ANY } hr_first_page;
typedef struct hr_paths_options {
    bool ignore_missing;         /* skips a path that does not exist */
    const char *const *suffixes; /* of files in folders, in any case; NULL: all except hidden ones */
    int n_suffixes;
    const char *const *store_options; /* "name=value", see docs/stores.md */
    int n_store_options;
    bool hidden; /* also files whose names begin with '.' or '_' */
    /* Of one URL: a store's list of many pages ends after the first page, if its files are certainly the first ones of
     * the list. hr_paths.is_beginning says whether this happened. */
    hr_first_page first_page;
    const hr_paths *begun; /* the beginning of the same list: what is left of it is listed; NULL: all */
    bool plain; /* '*', '?' and '[' are characters of names, also of what does not exist: no path is a pattern */
    /* Called, perhaps more than once, when the first file of the first URL is known while its list goes on: requests
     * for it can travel meanwhile. In the end another file may be the first one. NULL: nobody wants to know. */
    void (*on_first)(void *context, const hr_path *first, hr_store *store);
    void *context; /* of on_first */
} hr_paths_options;

/* The files of all urls, in the order of the urls; within a folder or pattern sorted by path, byte by byte (as in Ray).
 * Hidden files and folders (names that begin with '.' or '_') are skipped unless a url names them. On failure `out` is
 * cleared. */
hr_status hr__paths_list(const char *const *urls, int n_urls, const hr_paths_options *options, hr_account *account,
                         hr_paths *out, hr_error *err) HR_MUST_USE;
void hr__paths_clear(hr_paths *p);
void hr__paths_cut(hr_paths *p, int64_t n); /* keeps the first n files */
/* Adds a file. Borrows path and tag (NULL: none). For glob.c and http/. */
hr_status hr__paths_add(hr_paths *p, const char *path, const char *tag, int64_t n_bytes, int64_t mtime_ns,
                        hr_error *err) HR_MUST_USE;
/* For http/: whether a key of a store fits a pattern, with the options; NULL: whether it is visible below a folder. */
bool hr__key_fits(const char *pattern, const char *key, const hr_paths_options *options);
bool hr__has_pattern(const char *s);
void hr__paths_sort(hr_paths *p, int64_t begin); /* the files from `begin` on, by path; without repeated ones */
/* Opens file i. A URL is not asked for again: its size and its ETag are those of the list. */
hr_status hr__paths_open(const hr_paths *p, int64_t i, hr_account *account, hr_source **out, hr_error *err) HR_MUST_USE;
bool hr__paths_is_remote(const hr_paths *p, int64_t i);
/* The same bytes for another account. Of a URL: it takes what has come (hr__source_take), so that a footer is not asked
 * for again. NULL: it has to be opened again. */
hr_source *hr__source_again(hr_source *s, hr_account *account);
/* `s` gets the bytes that `from` has, a source of the same version of the same file: copies of small parts, and larger
 * parts that `from` has no longer then. */
void hr__source_take(hr_source *s, hr_source *from);
static inline const char *hr__paths_name(const hr_paths *p, int64_t i) { return p->items[i].path; }
/* For people, and for positions: without passwords and queries of URLs. */
static inline const char *hr__paths_shown(const hr_paths *p, int64_t i)
{
    return p->items[i].shown ? p->items[i].shown : p->items[i].path;
}
bool hr__url_is_remote(const char *url); /* of a store, or of http */
int64_t hr__percent_decode(char *s);     /* "a%20b" -> "a b", in place; -> its length, zero bytes of "%00" included */
/* The local path of a URL, new: "file:///a%20b" -> "/a b". HR_UNSUPPORTED names another scheme. */
hr_status hr__path_of_url(const char *url, hr_account *account, char **out, hr_error *err) HR_MUST_USE;

#endif
