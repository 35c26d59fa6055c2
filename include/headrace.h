/* headrace.h - the whole public C API of Headrace, a streaming data feed for model training.
 *
 * A *plan* says what to read and what to do with the rows. Building a plan reads nothing but the schema of the first
 * file, and that only when a check needs the schema. A *feed* runs the plan and returns tables. A *split* runs one plan
 * for N consumers.
 *
 *     hr_plan *p = NULL; hr_feed *f = NULL; hr_table *t = NULL; hr_error err = HR_ERROR_INIT;
 *     hr_plan_read(urls, 1, "parquet", NULL, &p, &err);
 *     hr_feed_open(p, NULL, &f, &err);
 *     while (!hr_feed_next(f, &t, &err) && t) { ...; hr_table_unref(t); }
 *
 * Status. A function that can fail returns hr_status and writes its text into `err` (NULL: unwanted). On failure `*out`
 * is NULL.
 *
 * Ownership. An argument is *borrowed* until the call returns, *taken* from the caller, or *shared*: the callee adds a
 * counted reference. A result in `*out` is *new*: the caller releases it. An object that a call takes is gone even when
 * the call fails. Exception: a call takes nothing when it refuses a NULL argument (HR_INVALID names the argument) or
 * the size of a struct.
 *
 * Threads. Any thread may use any object. One thread at a time may call hr_feed_next, hr_feed_next_within and
 * hr_feed_close of one feed.
 *
 * Structs. A struct of options or of functions begins with `struct_bytes` = sizeof the struct that the caller was
 * compiled with. In every other field zero is the default. HR_INVALID: struct_bytes is 0. HR_UNSUPPORTED: the caller's
 * struct is larger than the library's, and a field that the library does not know is set. All structs of one array have
 * the same struct_bytes.
 *
 * Callbacks. The engine holds no lock while it calls a caller's function, except hr_set_log's. Functions of a plan
 * (hr_map_function, hr_filter_function, hr_aggregate_function, hr_source_functions, hr_write_options.name) run on
 * threads of the pool, several at once unless their comment says otherwise. They must not block: the pool has one
 * thread per CPU, and a thread that waits does no other work. They may build plans and may open feeds, but a callback
 * that waits for a feed hangs when no other pool thread is left. They may call every hr_set_* but hr_set_num_threads,
 * which gives HR_INVALID, as hr_shutdown does. `context_free` runs on the thread that drops the last reference.
 * hr_feed_set_interrupt's function runs on the thread that waits in hr_feed_next, and may block.
 *
 * Text is UTF-8. The library exports only what this file declares. */
#ifndef HEADRACE_H
#define HEADRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HR_VERSION_MAJOR 0
#define HR_VERSION_MINOR 1
#define HR_VERSION_PATCH 0

#if defined(__GNUC__)
#define HR_API __attribute__((visibility("default")))
#define HR_MUST_USE __attribute__((warn_unused_result))
#define HR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define HR_API
#define HR_MUST_USE
#define HR_PRINTF(f, a)
#endif

/* ------------------------------------------------------------------------------------------------ status and errors */

/* The version of the library that runs, as "0.1.0"; static. */
HR_API const char *hr_version(void);

/* name, number, text. Numbers never change: they stand in messages between processes, and in programs. */
#define HR_STATUS_LIST(X)                                                                                              \
    X(HR_OK, 0, "ok")                                                                                                  \
    X(HR_NO_MEMORY, 1, "out of memory")     /* the system refused an allocation */                                     \
    X(HR_BUDGET, 2, "memory limit")         /* the work needs more than the memory limit */                            \
    X(HR_INVALID, 3, "invalid argument")    /* a wrong call or option */                                               \
    X(HR_TYPE, 4, "wrong type")             /* a column's type does not fit */                                         \
    X(HR_NOT_FOUND, 5, "not found")         /* no such file, format or function */                                     \
    X(HR_BAD_DATA, 6, "malformed data")     /* the input's bytes are wrong */                                          \
    X(HR_IO, 7, "input/output error")       /* a system call failed */                                                 \
    X(HR_DISK_FULL, 8, "disk full")         /* no space, or no quota, for what is written */                           \
    X(HR_UNSUPPORTED, 9, "not supported")   /* well-formed, but not known to this build */                             \
    X(HR_CALLBACK, 10, "a function raised") /* user code failed; hr_error.detail may carry its exception */            \
    X(HR_PEER, 11, "a process was lost")    /* a worker or trainer process died or closed */                           \
    X(HR_CANCELLED, 12, "cancelled")        /* stopped on request */                                                   \
    X(HR_MISMATCH, 13, "does not match")    /* a position of another plan, ranks that disagree */                      \
    X(HR_PENDING, 14, "not yet")            /* not an error: will be completed later */                                \
    X(HR_BUG, 255, "internal error")        /* ours: please report */

typedef enum hr_status {
#define HR_X(name, number, text) name = number,
    HR_STATUS_LIST(HR_X)
#undef HR_X
} hr_status;

/* The text of a status, e.g. "malformed data"; static, never NULL. */
HR_API const char *hr_status_text(hr_status st);
/* Its name, e.g. "HR_BAD_DATA"; static, never NULL. */
HR_API const char *hr_status_name(hr_status st);

/* What went wrong. It lies on the caller's stack, so its size is part of the ABI and never changes: a later version
 * gives a meaning to `reserved`, which is zero today. `text` is one line that names the place and both numbers.
 * `detail` is NULL unless the status is HR_CALLBACK: bytes that the failed function attached (Python: the pickled
 * exception). The error owns them; hr_error_clear() frees them. */
typedef struct hr_error {
    hr_status status;
    char text[1000];
    void *detail;
    size_t detail_bytes;
    uint64_t reserved[4];
} hr_error;
#define HR_ERROR_INIT { HR_OK, { 0 }, NULL, 0, { 0 } }

/* Frees the detail and sets `err` back to HR_ERROR_INIT. NULL is fine. */
HR_API void hr_error_clear(hr_error *err);
/* Fills `err` (frees an older detail; NULL is fine) and returns `st`, so that callbacks can `return
 * hr_error_set(...)`. */
HR_API hr_status hr_error_set(hr_error *err, hr_status st, const char *fmt, ...) HR_PRINTF(3, 4);
/* Copies `n_bytes` at `detail` into `err`. Borrows. NULL `err` is fine; without memory the detail is left out. */
HR_API void hr_error_set_detail(hr_error *err, const void *detail, size_t n_bytes);

/* ---------------------------------------------------------------------------------- Arrow C data and stream structs */
/* The text of the Arrow specification: https://arrow.apache.org/docs/format/CDataInterface.html */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
    const char *format;
    const char *name;
    const char *metadata;
    int64_t flags;
    int64_t n_children;
    struct ArrowSchema **children;
    struct ArrowSchema *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};

struct ArrowArray {
    int64_t length;
    int64_t null_count;
    int64_t offset;
    int64_t n_buffers;
    int64_t n_children;
    const void **buffers;
    struct ArrowArray **children;
    struct ArrowArray *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* -------------------------------------------------------------------------------------------- process-wide settings */

/* The number of pool threads. 0: the default, HEADRACE_NUM_THREADS, else the smaller of the CPUs in the affinity mask
 * and ceil(cgroup cpu.max). HR_INVALID: more than 1024, or the caller is a callback. The call waits for the threads
 * that end. */
HR_API HR_MUST_USE hr_status hr_set_num_threads(int n, hr_error *err);
HR_API int hr_num_threads(void);
/* The process's memory limit for data, in bytes. 0: the default, HEADRACE_MEMORY_LIMIT ("256MiB", "2GB", plain bytes),
 * else half of the smaller of physical memory and the cgroup's limit, divided by LOCAL_WORLD_SIZE. */
HR_API HR_MUST_USE hr_status hr_set_memory_limit(int64_t n_bytes, hr_error *err);
HR_API int64_t hr_memory_limit(void);
/* Bytes of data in memory now, and their maximum since the process began or since hr_memory_reset_peak. Free buffers in
 * the pool count, because they are resident. */
HR_API int64_t hr_memory_used(void);
HR_API int64_t hr_memory_peak(void);
HR_API void hr_memory_reset_peak(void);
/* The folder of spill files, which hold data that does not fit into memory. The files have no name: they go with their
 * run and with the process. NULL: the default, HEADRACE_SPILL_DIR, else TMPDIR, else /tmp. Runs that have begun to
 * spill keep their folder. The call fails if it cannot make a file in the folder. */
HR_API HR_MUST_USE hr_status hr_set_spill_dir(const char *folder, hr_error *err);
HR_API HR_MUST_USE hr_status hr_spill_dir(char **out, hr_error *err); /* *out is new: hr_string_free() */
/* The maximum of bytes in spill files, of all runs of the process together. < 0: the default, HEADRACE_SPILL_QUOTA
 * ("20GB"), else the whole disk but for a reserve of 2 % (256 MiB at most). 0: no run may spill. A run that needs more
 * fails with HR_DISK_FULL. */
HR_API HR_MUST_USE hr_status hr_set_spill_quota(int64_t n_bytes, hr_error *err);
HR_API int64_t hr_spill_quota(void); /* < 0: none */
/* Bytes in spill files now. */
HR_API int64_t hr_spill_used(void);
/* Parses "256MiB", "1.5GB", "4096". k, M, G, T are powers of 1000; Ki, Mi, Gi, Ti are powers of 1024. HR_INVALID names
 * the text. */
HR_API HR_MUST_USE hr_status hr_parse_bytes(const char *text, int64_t *out, hr_error *err);

/* Ends the threads of the pool and returns free buffers to the system. The library stays usable: the next feed starts
 * threads again, and settings stay. HR_INVALID: a feed is open, or the caller is a callback. */
HR_API HR_MUST_USE hr_status hr_shutdown(hr_error *err);

typedef enum hr_log_level { HR_LOG_INFO, HR_LOG_WARNING } hr_log_level;
/* `log` gets a line for each event that no status reports: an environment variable with a wrong value, a pool with
 * fewer threads than set, a position whose functions changed, a run that moves its threads. NULL, the default: no log.
 * Any thread calls `log`, one at a time; `log` must not call the library. When hr_set_log returns, the older function
 * no longer runs. */
HR_API void hr_set_log(void (*log)(void *context, hr_log_level level, const char *text), void *context);

/* ----------------------------------------------------------------------------------------------------------- tables */

typedef struct hr_table hr_table; /* immutable rows of named, typed columns; counted */

HR_API hr_table *hr_table_ref(hr_table *t); /* shares; returns t */
HR_API void hr_table_unref(hr_table *t);    /* NULL is fine */
HR_API int64_t hr_table_rows(const hr_table *t);
HR_API int hr_table_columns(const hr_table *t);
HR_API const char *hr_table_column_name(const hr_table *t, int column); /* borrowed from t; NULL if out of range */
HR_API int hr_table_column_index(const hr_table *t, const char *name);  /* -1: no such column */
/* Rows [begin, begin + n) of `t`. *out is new and shares t's buffers. HR_INVALID outside the table. */
HR_API HR_MUST_USE hr_status hr_table_slice(const hr_table *t, int64_t begin, int64_t n, hr_table **out, hr_error *err);
/* Exports `t` as a struct array and its schema; either may be NULL. Shares: the exported structs hold references. */
HR_API HR_MUST_USE hr_status hr_table_export(const hr_table *t, struct ArrowSchema *schema, struct ArrowArray *array,
                                             hr_error *err);
/* A table from a struct array (a record batch). Takes both structs, even on failure. The table shares the buffers. The
 * caller guarantees the lengths of the buffers, as the interface demands. HR_BAD_DATA: offsets that decrease, or a
 * value that its type cannot have (a decimal with too many digits, a time beyond the day, a date64 within a day, a null
 * key of a map). */
HR_API HR_MUST_USE hr_status hr_table_import(struct ArrowSchema *schema, struct ArrowArray *array, hr_table **out,
                                             hr_error *err);

/* A flat view of a fixed-width column: `data` points at its first row, `validity` (NULL: no nulls) is an LSB bitmap
 * whose first row is bit `validity_bit`. `format` is the Arrow format string ("l" int64, "g" double, ...). */
typedef struct hr_column_view {
    size_t struct_bytes; /* set by the caller */
    const char *format;
    const void *data;
    const uint8_t *validity;
    int64_t validity_bit;
    int64_t n_rows;
    int64_t null_count;
    int value_bytes;
} hr_column_view;
/* The view borrows from `t`. A boolean column has value_bytes 0, and `data` is a bitmap whose first row is bit
 * `validity_bit`. HR_TYPE: the values have no fixed width. */
HR_API HR_MUST_USE hr_status hr_table_column_view(const hr_table *t, int column, hr_column_view *out, hr_error *err);
/* A view of a text or binary column. The bytes of row i are data[offsets[i]] up to data[offsets[i + 1]];
 * offsets are int32_t or int64_t, by offset_bytes. `validity` is that of hr_column_view. */
typedef struct hr_text_view {
    size_t struct_bytes; /* set by the caller */
    const char *data;
    const void *offsets; /* n_rows + 1; NULL: there are no rows */
    int offset_bytes;    /* 4 or 8 */
    bool is_text;        /* UTF-8; false: binary */
    const uint8_t *validity;
    int64_t validity_bit;
    int64_t n_rows;
    int64_t null_count;
} hr_text_view;
/* The view borrows from `t`. HR_TYPE: the column is neither text nor binary. */
HR_API HR_MUST_USE hr_status hr_table_text_view(const hr_table *t, int column, hr_text_view *out, hr_error *err);
/* The bytes of one row, without a NUL after them; NULL: a null, or no such row. */
HR_API const char *hr_text_at(const hr_text_view *v, int64_t row, int64_t *n_bytes);
/* Rows [begin, begin + n) as JSON, one object a line, as the writer of JSON puts them into files. NaN and infinities
 * are null, bytes are base64, times are ISO 8601 strings, bytes of a text that are no UTF-8 become U+FFFD. HR_TYPE: two
 * columns have the same name. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_table_print_json(const hr_table *t, int64_t begin, int64_t n, char **out,
                                                 hr_error *err);
/* Writes the text of the value at (row, column), as `headrace head` prints it: at most cap - 1 bytes and a NUL, cut
 * between two characters. Returns the number of bytes; cap - 4 or more: the text may be cut. */
HR_API int64_t hr_table_print_value(const hr_table *t, int64_t row, int column, char *text, size_t cap);

/* ------------------------------------------------------------------------------------------------------------ plans */

typedef struct hr_plan hr_plan; /* an immutable tree of what to do; counted */

HR_API hr_plan *hr_plan_ref(hr_plan *p);
HR_API void hr_plan_unref(hr_plan *p);

typedef struct hr_read_options {
    size_t struct_bytes;
    const char *const *columns; /* NULL: all; else n_columns names, read in this order */
    int n_columns;
    bool ignore_missing_paths;   /* leaves missing paths out */
    const char *const *suffixes; /* of the files that folders give (".parquet"); NULL: all but hidden files */
    int n_suffixes;
    const char *include_paths;         /* the name of a string column with each row's file; NULL: none */
    const char *const *format_options; /* n_format_options strings "name=value", by the format's option table */
    int n_format_options;
    /* Columns from folder names. NULL: none. "hive": folders "key=value"; partition_names NULL: all keys. "dir":
     * folder k below the base is column partition_names[k]; a NULL name makes no column. partition_base: only
     * folders below it count; NULL: all (dir: the last ones). partition_types: an Arrow format ("l", "u", ...) for
     * each name, or NULL. A column without a type has the type of the files' column of this name; if there is none,
     * int64 when every value is an integer and partition_text is false, else string. */
    const char *partitioning;
    const char *partition_base;
    const char *const *partition_names; /* n_partition_names */
    const char *const *partition_types; /* n_partition_names, NULL: none given */
    int n_partition_names;
    /* The schema of the rows. A column that a file lacks is null; a column that the schema lacks is not read; types are
     * widened (null < T, int < wider int < float ...). Taken, even on failure. NULL: the first file's schema, or with
     * `unify` the common schema of all files. */
    struct ArrowSchema *schema;
    bool unify;
    /* The order of files is a function of the seed and the epoch. shuffle_once: every epoch has the same order. */
    bool shuffle_files;
    bool shuffle_once;
    const uint64_t *shuffle_seed; /* NULL: the run's */
    bool partition_text;          /* partition columns without a type are strings: "09" stays "09" */
    bool partition_others;        /* hive: keys that partition_names lacks are columns as well */
    /* n_storage_options strings "name=value" for the URLs: time-outs, endpoints, keys; see docs/stores.md. */
    const char *const *storage_options;
    int n_storage_options;
    /* Of one store's folder or pattern: a list of many pages may end after its first page, if the files there are
     * certainly the first ones and have the columns of all. hr_plan_is_beginning says whether this happened. */
    bool first_page;
    /* A plan made with first_page of the same URL and options: if it is some seconds old at most, the list goes on
     * behind its files. Borrowed by the call. NULL: the list begins anew. */
    const hr_plan *begun;
} hr_read_options;

/* Reads files: paths, folders (all their files, depth first by name) or glob patterns, in that order. A column that a
 * later file lacks is null. A column of another type is widened to the schema's type if that loses nothing; otherwise
 * HR_TYPE names both files. `format` is a name of `headrace formats` ("parquet", "text"); NULL: the suffix and the
 * first bytes decide. The call lists the paths; the run reads the footers. HR_NOT_FOUND names the path. */
HR_API HR_MUST_USE hr_status hr_plan_read(const char *const *urls, int n_urls, const char *format,
                                          const hr_read_options *options, hr_plan **out, hr_error *err);
/* Whether the plan, made by hr_plan_read with first_page, has only the first files of the list. */
HR_API bool hr_plan_is_beginning(const hr_plan *p);
/* Tables in memory, in this order. Shares the tables. HR_TYPE: their schemas differ. */
HR_API HR_MUST_USE hr_status hr_plan_tables(hr_table *const *tables, int n_tables, hr_plan **out, hr_error *err);
/* The int64 column `name` of 0 .. n-1, computed as it is read. */
HR_API HR_MUST_USE hr_status hr_plan_range(int64_t n, const char *name, hr_plan **out, hr_error *err);
/* The rows of an Arrow stream. Takes the stream, even on failure. The call reads the whole stream and keeps its tables,
 * so that the plan can run several times: in memory up to half of the memory limit, then in the spill folder. */
HR_API HR_MUST_USE hr_status hr_plan_stream(struct ArrowArrayStream *stream, hr_plan **out, hr_error *err);

/* A source of your own: n_fragments fragments in a fixed order. Each is an Arrow stream, which the run opens when its
 * turn comes. Pool threads call the functions, for several fragments at once; one thread at a time uses one stream. The
 * functions must not block (see Callbacks). */
typedef struct hr_source_functions {
    size_t struct_bytes;
    const char *name;    /* for explain() and errors; copied */
    const char *version; /* a part of the plan's fingerprint; change it when the rows change; copied; NULL: none */
    void *context;
    void (*context_free)(void *context); /* when the last plan goes; NULL: nothing to do */
    int n_fragments;
    /* The columns of all fragments, a struct's schema. Called once, when the plan is made. */
    hr_status (*schema)(void *context, struct ArrowSchema *out, hr_error *err);
    /* The rows of a fragment: a stream of struct arrays with at least these columns. The engine ignores other columns
     * and widens narrower types. The rows must be the same in every call. The engine may close the stream before its
     * end. */
    hr_status (*read)(void *context, int fragment, const char *const *columns, int n_columns,
                      struct ArrowArrayStream *out, hr_error *err);
    int64_t (*n_rows)(void *context, int fragment); /* the exact number; NULL, or -1: unknown */
    /* An estimate of the bytes in memory of one batch, or of the fragment; NULL: 1 MiB. */
    int64_t (*n_bytes)(void *context, int fragment);
} hr_source_functions;
/* Copies *functions; takes the context, even on failure. */
HR_API HR_MUST_USE hr_status hr_plan_source(const hr_source_functions *functions, hr_plan **out, hr_error *err);

/* Column `names[i]` of the input becomes column i, called `new_names[i]` (new_names NULL: the same names). */
HR_API HR_MUST_USE hr_status hr_plan_project(hr_plan *in, const char *const *names, const char *const *new_names, int n,
                                             hr_plan **out, hr_error *err);
/* Expressions over columns: immutable trees, counted. A plan gives them their types. */
typedef struct hr_expr hr_expr;
HR_API hr_expr *hr_expr_ref(hr_expr *e);
HR_API void hr_expr_unref(hr_expr *e); /* NULL is fine */
HR_API HR_MUST_USE hr_status hr_expr_column(const char *name, hr_expr **out, hr_error *err);
/* A constant: the one row of this array. Takes both structs, even on failure. */
HR_API HR_MUST_USE hr_status hr_expr_literal(struct ArrowSchema *type, struct ArrowArray *value, hr_expr **out,
                                             hr_error *err);
HR_API HR_MUST_USE hr_status hr_expr_int(int64_t v, hr_expr **out, hr_error *err);
HR_API HR_MUST_USE hr_status hr_expr_double(double v, hr_expr **out, hr_error *err);
HR_API HR_MUST_USE hr_status hr_expr_string(const char *v, hr_expr **out, hr_error *err);
/* A function of a fixed list (`headrace functions`): "add", "less", "and", "is_in", "cast", ... `settings`: n_settings
 * strings "name=value" by its options. Shares args. HR_NOT_FOUND names the function. */
HR_API HR_MUST_USE hr_status hr_expr_call(const char *function, hr_expr *const *args, int n_args,
                                          const char *const *settings, int n_settings, hr_expr **out, hr_error *err);
HR_API HR_MUST_USE hr_status hr_expr_print(const hr_expr *e, char **out,
                                           hr_error *err); /* *out is new: hr_string_free() */

/* An expression from its text: "a > 1 and not is_null(b)", "col('any name') * 2", "cast(x, to='int32')", "is_in(k, [1,
 * 2])". A name is a column; & and | are `and` and `or`. hr_expr_print()'s texts can be parsed, unless a long constant
 * is cut. HR_INVALID names the character and what it expected, HR_NOT_FOUND a function. */
HR_API HR_MUST_USE hr_status hr_expr_parse(const char *text, hr_expr **out, hr_error *err);

/* The rows for which the expression is true; a row for which it is null is left out. A reader that has statistics skips
 * what they rule out. Shares e. */
HR_API HR_MUST_USE hr_status hr_plan_filter_expr(hr_plan *in, hr_expr *e, hr_plan **out, hr_error *err);
/* All columns, then `names[i]` = exprs[i]; a new column takes the place of an old one of its name. Every expression
 * reads the input's columns. */
HR_API HR_MUST_USE hr_status hr_plan_with_columns(hr_plan *in, const char *const *names, hr_expr *const *exprs, int n,
                                                  hr_plan **out, hr_error *err);

/* A caller's own aggregate. Each group has a state of state_bytes (65,536 at most). The engine copies states as bytes,
 * between threads and to the disk; a state is aligned to 8 if state_bytes is a multiple of 8. The state of no rows is
 * all zero. Row i of `rows`, or state i of `from`, belongs to the state at `states` + groups[i] * state_bytes.
 * Callbacks run on pool threads, several at once, never two on the same states; they return a status and its text by
 * hr_error_set(). */
typedef struct hr_aggregate_function {
    size_t struct_bytes;
    void *context; /* shared by all threads, freed with context_free (may be NULL) when the last plan goes */
    void (*context_free)(void *context);
    int state_bytes;
    const char *result_type; /* "float64": of fixed width */
    /* Adds rows (borrowed) in canonical order: of hr_aggregate.column alone, or without one of all columns. */
    hr_status (*update)(void *context, const hr_table *rows, const uint32_t *groups, void *states, hr_error *err);
    /* Adds n states to others, in the order of the rows. */
    hr_status (*merge)(void *context, const void *from, int64_t n, const uint32_t *groups, void *states, hr_error *err);
    /* Sets values[i], of result_type, from state i. valid[i] is 1; the function sets it to 0 for a null. */
    hr_status (*result)(void *context, const void *states, int64_t n, void *values, uint8_t *valid, hr_error *err);
} hr_aggregate_function;

/* One result for each group: a function of the list that `headrace functions` prints ("sum", "mean", "quantile", ...),
 * over a column (NULL: over rows, as "count"), with settings "name=value". `name` is the result's; NULL: "sum(x)". */
typedef struct hr_aggregate {
    size_t struct_bytes;
    const char *function, *column, *name;
    const char *const *settings; /* n_settings */
    int n_settings;
    /* Instead: one's own; then `function` is its name in explain() and errors. Copied; its context is taken, even on
     * failure. */
    const hr_aggregate_function *own;
} hr_aggregate;
/* One row for all rows with equal keys, in the order of the keys, nulls last; without keys one row for all rows. Null
 * and NaN are keys; -0.0 equals 0.0. The partial results of the groups stay in memory up to half of the limit, then in
 * the spill folder. */
HR_API HR_MUST_USE hr_status hr_plan_group(hr_plan *in, const char *const *keys, int n_keys, const hr_aggregate *aggs,
                                           int n_aggs, hr_plan **out, hr_error *err);

typedef enum hr_join_kind {
    HR_JOIN_INNER,
    HR_JOIN_LEFT,  /* all left rows */
    HR_JOIN_RIGHT, /* all right rows */
    HR_JOIN_FULL,
    HR_JOIN_SEMI, /* left rows that have a partner */
    HR_JOIN_ANTI  /* left rows that have none */
} hr_join_kind;
typedef struct hr_join_options {
    size_t struct_bytes;
    hr_join_kind kind;
    const char *const *left_keys;
    const char *const *right_keys; /* NULL: the same names */
    int n_keys;
    const char *left_suffix, *right_suffix; /* for columns, other than keys, that both sides have; NULL: none */
} hr_join_options;
/* Rows of `left` and `right` with equal keys, side by side: the left columns, then the right columns without the keys.
 * A null equals nothing. Rows have the order of the left rows; partners of one left row have the order of the right
 * rows. A right or full join appends the right rows without a partner. The right side stays in memory if it fits into
 * an eighth of the limit; otherwise both sides go to the spill folder in partitions. */
HR_API HR_MUST_USE hr_status hr_plan_join(hr_plan *left, hr_plan *right, const hr_join_options *options, hr_plan **out,
                                          hr_error *err);

/* Which row of equal ones stays. */
typedef enum hr_keep {
    HR_KEEP_FIRST,
    HR_KEEP_LAST,
    HR_KEEP_NONE, /* only rows that no other row equals */
} hr_keep;
/* The rows that differ in `keys` (n_keys 0: in all columns), in their order. Null equals null, NaN equals NaN, -0.0
 * equals 0.0. Columns must be known: after a function that makes unknown ones it is HR_UNSUPPORTED. Rows of different
 * keys stay in memory and in the spill folder as hr_plan_group's and hr_plan_sort's. */
HR_API HR_MUST_USE hr_status hr_plan_distinct(hr_plan *in, const char *const *keys, int n_keys, hr_keep keep,
                                              hr_plan **out, hr_error *err);
/* A row for each value of the lists of `column`, which takes the list's place; the other columns repeat. A null and an
 * empty list give one row with a null. HR_TYPE: the column has no lists. */
HR_API HR_MUST_USE hr_status hr_plan_explode(hr_plan *in, const char *column, hr_plan **out, hr_error *err);
/* Exactly n rows (all, if there are fewer), each with the same probability, in their order: a function of the seed and
 * the rows' coordinates, the same in each epoch. It keeps n rows as hr_plan_sort does. */
HR_API HR_MUST_USE hr_status hr_plan_sample_rows(hr_plan *in, int64_t n, uint64_t seed, hr_plan **out, hr_error *err);

/* The first n rows. */
HR_API HR_MUST_USE hr_status hr_plan_limit(hr_plan *in, int64_t n, hr_plan **out, hr_error *err);
/* All columns, and `name`, an int64 that counts the rows from 0 in their order. HR_INVALID: the input has a column of
 * this name. */
HR_API HR_MUST_USE hr_status hr_plan_number_rows(hr_plan *in, const char *name, hr_plan **out, hr_error *err);
/* The same rows, from `folder` if they are there; the others are computed, and stored there as they go by. The key of
 * rows is a hash of the plan, its files (names, sizes, times) and the code of its functions, so that a change of any
 * gives other rows. All processes of the machine may use the folder at the same time. Damaged or missing rows are
 * computed again; a full disk ends writing, not the run. Rows are those of epoch 0. HR_INVALID: a step of `in` gives
 * other rows in each epoch. A run returns HR_INVALID if a function or source has no hash. Borrows the texts. */
typedef struct hr_cache_options {
    size_t struct_bytes;
    int64_t limit_bytes; /* of the folder; 0: what its disk has, of which 1/50 stays free */
    /* A part of the key of the rows; NULL: none. With a version, functions and sources that have no hash are allowed:
     * the caller changes the version when they change. */
    const char *version;
} hr_cache_options;
HR_API HR_MUST_USE hr_status hr_plan_cache(hr_plan *in, const char *folder, const hr_cache_options *options,
                                           hr_plan **out, hr_error *err);
/* Rows [begin, end), counted from 0; end INT64_MAX: to the last. A reader that knows the number of rows of its
 * fragments skips those before `begin`. */
HR_API HR_MUST_USE hr_status hr_plan_slice(hr_plan *in, int64_t begin, int64_t end, hr_plan **out, hr_error *err);
typedef struct hr_sample_options {
    size_t struct_bytes;
    double from, to;      /* each row has a random number in [0, 1); rows with from <= number < to are kept */
    const uint64_t *seed; /* borrowed; NULL: the run's */
    bool once;            /* the same rows in each epoch */
    /* The number is a hash of this column's value, for any seed. NULL: a function of the seed and the row's
     * coordinate. */
    const char *column;
} hr_sample_options;
/* A random sample of rows. Samples of one plan with one seed and disjoint ranges have no row in common. */
HR_API HR_MUST_USE hr_status hr_plan_sample(hr_plan *in, const hr_sample_options *options, hr_plan **out,
                                            hr_error *err);
/* The columns of all inputs side by side: row i of each. A repeated name gets "_1", "_2", ... All inputs must have the
 * same number of rows; otherwise the run ends with HR_INVALID, which names the numbers. */
HR_API HR_MUST_USE hr_status hr_plan_zip(hr_plan *const *ins, int n, hr_plan **out, hr_error *err);
typedef enum hr_mix_end {
    HR_MIX_SHORTEST,      /* the mix ends with the first input that ends */
    HR_MIX_LONGEST_DROP,  /* the mix goes on without an input that ended, until the last one ends */
    HR_MIX_LONGEST_REPEAT /* an input that ended begins again, until each has been there once: hr_plan_mix_repeat */
} hr_mix_end;
/* Rows of the inputs in proportion to their n weights (> 0). Each row comes from the input that is furthest behind its
 * share; of equal inputs the larger weight comes first, then the lower index. HR_TYPE: the schemas differ. */
HR_API HR_MUST_USE hr_status hr_plan_mix(hr_plan *const *ins, int n, const double *weights, hr_mix_end when,
                                         hr_plan **out, hr_error *err);
/* The same with HR_MIX_LONGEST_REPEAT. n_rows: of each input, which decide when the mix ends; NULL: hr_plan_count, and
 * HR_INVALID if only a run knows. HR_INVALID: an input would repeat more than 1,000 times. */
HR_API HR_MUST_USE hr_status hr_plan_mix_repeat(hr_plan *const *ins, int n, const double *weights,
                                                const int64_t *n_rows, hr_plan **out, hr_error *err);
/* All rows of ins[0], then of ins[1], ... The output has the columns of the first input, then the columns that only
 * later inputs have; a column that an input lacks is null in its rows. A column's type holds the values of all inputs;
 * HR_TYPE names a column without a common type. One plan may be several of the inputs. */
HR_API HR_MUST_USE hr_status hr_plan_union(hr_plan *const *ins, int n, hr_plan **out, hr_error *err);
/* The same rows, in tables of exactly n_rows each. The last table may be short; drop_last leaves it out. */
HR_API HR_MUST_USE hr_status hr_plan_rebatch(hr_plan *in, int64_t n_rows, bool drop_last, hr_plan **out, hr_error *err);

/* How documents of tokens share rows. */
typedef enum hr_pack_strategy {
    HR_PACK_CONCAT,    /* one after the other, cut where a row is full; only the last row has padding */
    HR_PACK_FIRST_FIT, /* whole, into the oldest open bin with room */
    HR_PACK_BEST_FIT   /* whole, into the open bin with the least room that suffices */
} hr_pack_strategy;

/* The treatment of a document that, with bos and eos, is longer than a row. */
typedef enum hr_pack_long_documents {
    HR_PACK_SPLIT,    /* it goes on in another row, as another segment */
    HR_PACK_TRUNCATE, /* its first seq_len tokens stay */
    HR_PACK_DROP      /* it is left out */
} hr_pack_long_documents;

typedef struct hr_pack_options {
    size_t struct_bytes;
    hr_pack_strategy strategy;
    hr_pack_long_documents long_documents;
    /* n_columns columns of tokens: lists (ragged, fixed or tensors of one dimension) of integers or floats. A document
     * has equally many tokens in each. NULL: all columns of that kind. */
    const char *const *columns;
    int n_columns;
    int open_bins;  /* first and best fit: the number of rows that are filled at a time, up to 1024; 0: 64 */
    bool drop_last; /* leaves out the rows that are not full at the end; false: they are padded */
    /* n_columns values each; columns NULL: one value, for the one column that there may be. pad fills rows up; NULL: 0.
     * bos goes before each document, and eos after it; NULL: none. */
    const int64_t *pad, *bos, *eos;
    /* Names of the columns to make; "": none. NULL: "segment_ids", "position_ids", and no loss mask. */
    const char *segment_ids, *position_ids, *loss_mask;
} hr_pack_options;

/* Documents, one a row of `in`, packed into rows of seq_len tokens (1 to 2^27). The columns of tokens become tensors
 * (arrow.fixed_shape_tensor) of shape [seq_len] with their type of values, and these follow:
 *   segment_ids   int32[seq_len]: the number of the document in its row, from 1; 0: padding
 *   position_ids  int32[seq_len]: the number of the token in its segment, from 0; 0: padding
 *   loss_mask     bool[seq_len]: tokens of a document but for the first of each segment, which no token before it
 *                 predicts
 * Other columns are left out, and documents without tokens. A document goes to an open bin (hr_pack_strategy); if no
 * bin has room and open_bins are open, the fullest becomes a row, and so does a bin that is full, or in which nothing
 * fitted for 4 * open_bins rows. Rows come out in the order in which they are closed, a function of the documents'
 * order and lengths alone. (open_bins + 2) rows of tokens stay in memory. hr_feed_stats: tokens, padding_tokens,
 * padding_rate, truncated_tokens, dropped_tokens, empty_documents. options NULL: the defaults. HR_TYPE: no such column,
 * or one of another type. HR_BAD_DATA, in the run: a token is null, or columns of a document differ in length. */
HR_API HR_MUST_USE hr_status hr_plan_pack(hr_plan *in, int64_t seq_len, const hr_pack_options *options, hr_plan **out,
                                          hr_error *err);

/* The treatment of a row that is longer than a batch. */
typedef enum hr_long_rows {
    HR_LONG_ROW_ERROR, /* HR_BAD_DATA names the row and its length */
    HR_LONG_ROW_DROP,  /* it is left out */
    HR_LONG_ROW_ALONE  /* it is a batch */
} hr_long_rows;

typedef struct hr_length_options {
    size_t struct_bytes;
    /* n_buckets ascending lengths: a bucket holds the rows longer than the length before, up to its own; longer rows
     * have a bucket, too. NULL: n_buckets (0: 32) buckets with the least padding for the first 4,096 rows. */
    const int64_t *buckets;
    int n_buckets;    /* up to 256 */
    int64_t max_rows; /* of a batch, up to 2^20; 0: that */
    int64_t max_wait; /* a batch goes out when it has been open while so many others went out; 0: 256 */
    hr_long_rows long_rows;
    bool drop_last; /* leaves out the batches that are open at the end */
} hr_length_options;

/* The rows of `in` in batches of rows of about one length: a table has up to max_tokens (1 to 2^40) tokens when its
 * rows are padded to its longest. `column` holds lists, or integers that are the lengths; a null list has length 0.
 * Each bucket of lengths has one open batch, which goes out when its next row might not fit. The batches are a function
 * of the rows and their order alone. Maps and filters after it, hr_feed_open with batch_rows 0 and hr_split_open with
 * batch_rows 0 keep them whole. Up to (buckets + 2) * max_tokens tokens stay in memory. hr_feed_stats: batches, tokens,
 * padding_tokens, padding_rate, dropped_rows, waited_batches, buckets. options NULL: the defaults. HR_TYPE: the column
 * has another type. HR_BAD_DATA, in the run: a row is too long, or a length is null or negative. */
HR_API HR_MUST_USE hr_status hr_plan_batch_by_length(hr_plan *in, const char *column, int64_t max_tokens,
                                                     const hr_length_options *options, hr_plan **out, hr_error *err);

/* The rows in a random order, each at most 1.5 * window_rows away from its place. Two layers of permutations, of
 * windows and of windows shifted by half a window, are functions of (seed, epoch, number of the window). About 2 *
 * window_rows rows stay in memory; HR_BUDGET: they do not fit. seed NULL: the run's. window_rows is 1 to 2^29;
 * otherwise HR_INVALID. */
HR_API HR_MUST_USE hr_status hr_plan_local_shuffle(hr_plan *in, int64_t window_rows, const uint64_t *seed,
                                                   hr_plan **out, hr_error *err);

/* One key of an order: a column, or an expression (then `column` is ignored). NaN and then nulls come last, also in a
 * descending order; nulls_first puts them first. */
typedef struct hr_sort_key {
    size_t struct_bytes;
    const char *column;
    hr_expr *expr; /* borrowed; NULL: the column */
    bool descending;
    bool nulls_first;
} hr_sort_key;
/* All rows, ordered by the first key, then by the second, ...; rows with equal keys keep their order. Numbers, times,
 * text (by bytes), binary, bool and decimals have an order; HR_TYPE names a column without one. The rows stay in memory
 * up to half of the limit, then as sorted runs in the spill folder. */
HR_API HR_MUST_USE hr_status hr_plan_sort(hr_plan *in, const hr_sort_key *keys, int n, hr_plan **out, hr_error *err);

typedef struct hr_shuffle_options {
    size_t struct_bytes;
    const uint64_t *seed; /* borrowed; NULL: the run's */
    bool once;            /* the same order in each epoch */
} hr_shuffle_options;
/* All rows in a random order, a function of the seed, the epoch and the coordinates of the rows. It keeps the rows as
 * hr_plan_sort does. */
HR_API HR_MUST_USE hr_status hr_plan_random_shuffle(hr_plan *in, const hr_shuffle_options *options, hr_plan **out,
                                                    hr_error *err);

/* Blocks (fragments of files, tables in memory) in a random order: the files, and the fragments of each. Readers and
 * hr_plan_repartition deliver their blocks in that order, also through maps, filters, projections and unions, so that
 * nothing is kept. After any other step, for example a limit, a block is 256 neighbouring rows of the source, and
 * the rows are kept as hr_plan_sort does. */
HR_API HR_MUST_USE hr_status hr_plan_randomize_block_order(hr_plan *in, const hr_shuffle_options *options,
                                                           hr_plan **out, hr_error *err);

typedef struct hr_repartition_options {
    size_t struct_bytes;
    bool shuffle;            /* rows in a random order, the same in each epoch */
    const char *const *keys; /* n_keys columns: rows with equal values are in one table, by hash; NULL: none */
    int n_keys;
    bool sort; /* with keys: each table has the order of the keys */
} hr_repartition_options;
/* The same rows in n_blocks tables whose sizes differ by one row at most, in their order. Empty tables are left out.
 * The rows are kept as hr_plan_sort does; each table must fit into memory. options NULL: the defaults. */
HR_API HR_MUST_USE hr_status hr_plan_repartition(hr_plan *in, int64_t n_blocks, const hr_repartition_options *options,
                                                 hr_plan **out, hr_error *err);

/* A function over tables. Pool threads call it, for several tables at once. `state_new` (may be NULL) makes one state
 * for each pool thread of a run, and `state_free` frees it; a state sees an unpredictable choice of the tables, and
 * positions do not contain it. `call` borrows `in` and sets *out to a new table, to `in` with a new reference, or to
 * NULL for "no rows". All threads share `context`; `context_free` frees it with the last plan. */
typedef struct hr_map_function {
    size_t struct_bytes;
    const char *name; /* for explain() and errors; copied */
    void *context;
    void (*context_free)(void *context);
    hr_status (*state_new)(void *context, void **state, hr_error *err);
    hr_status (*call)(void *context, void *state, const hr_table *in, hr_table **out, hr_error *err);
    void (*state_free)(void *context, void *state);
} hr_map_function;

typedef struct hr_map_options {
    size_t struct_bytes;
    /* > 0: each call gets exactly that many rows in canonical order, but for the last; 0: up to 4,096 rows, counted
     * from the start of each source fragment, whatever the number of threads. */
    int64_t batch_rows;
    /* The schema of the result. Taken. NULL: that of the first table that the function returns. */
    struct ArrowSchema *schema;
    /* The function returns one row for each row, in order. Rows keep their coordinates; a limit can move before it. */
    bool one_to_one;
} hr_map_options;
/* Copies *fn; takes its context, even on failure. */
HR_API HR_MUST_USE hr_status hr_plan_map(hr_plan *in, const hr_map_function *fn, const hr_map_options *options,
                                         hr_plan **out, hr_error *err);

/* The rows to keep: `call` fills keep[0 .. n_rows-1] with 0 or 1. */
typedef struct hr_filter_function {
    size_t struct_bytes;
    const char *name;
    void *context;
    void (*context_free)(void *context);
    hr_status (*call)(void *context, const hr_table *in, uint8_t *keep, hr_error *err);
} hr_filter_function;
HR_API HR_MUST_USE hr_status hr_plan_filter_function(hr_plan *in, const hr_filter_function *fn, hr_plan **out,
                                                     hr_error *err);

/* The treatment of files that exist before a write. */
typedef enum hr_write_mode {
    HR_WRITE_APPEND,    /* keeps them; new files have unused names */
    HR_WRITE_CREATE,    /* fails with HR_IO if there are any */
    HR_WRITE_OVERWRITE, /* removes them when all new files are complete */
    HR_WRITE_IGNORE     /* writes nothing if there are any */
} hr_write_mode;

/* What reaches the disk before a write is complete. */
typedef enum hr_sync {
    HR_SYNC_NONE, /* no fsync; the kernel writes back in its own time */
    HR_SYNC_DATA, /* fsync of each file before it gets its name */
    HR_SYNC_ALL   /* the same, and fsync of the folders */
} hr_sync;

typedef struct hr_write_options {
    size_t struct_bytes;
    hr_write_mode mode;
    bool single_file; /* `path` is a file, not a folder; "x.csv.gz" is compressed by gzip */
    /* Columns whose values name folders, "a=1/b=x"; the files do not contain them. */
    const char *const *partition_columns;
    int n_partition_columns;
    int64_t min_rows_per_file;         /* max_file_bytes does not end a file with fewer rows */
    int64_t max_rows_per_file;         /* 0: no limit */
    int64_t max_file_bytes;            /* a file ends at this size; 0: the default, 512 MiB; < 0: no limit */
    const char *job;                   /* the beginning of file names; NULL: a random one */
    const char *name_column;           /* formats of one row a file (images): the column of names; NULL: numbers */
    hr_sync sync;                      /* default HR_SYNC_NONE */
    const char *const *format_options; /* n_format_options strings "name=value", by the format's write options */
    int n_format_options;
    /* Writes the name of file number `index` (from 0, in order) to `out`: at most cap - 1 bytes and a NUL. NULL:
     * names "JOB_000000_000000.suffix". One pool thread at a time calls it. name_context_free runs with the last
     * plan, and also after an error. */
    hr_status (*name)(void *context, int64_t index, const char *suffix, char *out, size_t cap, hr_error *err);
    void *name_context;
    void (*name_context_free)(void *context);
    const char *const *storage_options; /* n_storage_options strings "name=value" for URLs of stores; docs/stores.md */
    int n_storage_options;
} hr_write_options;

/* A run of this plan writes all rows of `in` as files of a format into the folder `path`. The plan's own rows are the
 * files: path (string), rows, bytes (int64). Files appear when all of them are complete: a run that fails or stops
 * leaves nothing. The contents of a file depend on the rows alone. `format` NULL: the suffix of `path` decides.
 * HR_INVALID and HR_TYPE name what the format cannot hold. */
HR_API HR_MUST_USE hr_status hr_plan_write(hr_plan *in, const char *format, const char *path,
                                           const hr_write_options *options, hr_plan **out, hr_error *err);
/* What killed writes have left in a folder. Of a store (s3://), also in folders below: completes what was decided, and
 * aborts the uploads of files whose names begin with `job` ("": all uploads, also those of writes that are running;
 * NULL: none). Of a local folder: removes hidden files of processes that have ended. *out: lines
 * "completed\tFOLDER\tJOB", "aborted\tURL", "unfinished\tURL"; new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_clean(const char *path, const char *job, const char *const *storage_options,
                                      int n_storage_options, char **out, hr_error *err);
/* The files that readers see at paths and URLs, without reading them: for each its path (string, a URL without its
 * secrets), bytes (int64) and etag (string; null: the store gives none, and local files have none). */
HR_API HR_MUST_USE hr_status hr_list(const char *const *paths, int n_paths, const char *const *storage_options,
                                     int n_storage_options, hr_table **out, hr_error *err);

/* The schema. The call may read the first file's footer or rows; it runs a map without a declared schema on the first
 * rows. */
HR_API HR_MUST_USE hr_status hr_plan_schema(hr_plan *p, struct ArrowSchema *out, hr_error *err);
/* The same as text: one "name: type" a line. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_print_schema(hr_plan *p, char **out, hr_error *err);
/* The number of files that a plan of one input reads; 0: tables in memory. HR_INVALID: the plan has several inputs. */
HR_API HR_MUST_USE hr_status hr_plan_files(hr_plan *p, int *out, hr_error *err);
/* What the metadata of file i says: rows, fragments, encodings, sizes, least and greatest values, as lines of text.
 * *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_describe_file(hr_plan *p, int i, char **out, hr_error *err);
/* The same as one line of JSON: {"path", "rows" (null: not in the metadata), "fragments": [{"rows", "stored_bytes",
 * "memory_bytes"}]}; Parquet adds "columns", "stored_columns" and "written_by", and the columns of each fragment.
 * *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_describe_file_json(hr_plan *p, int i, char **out, hr_error *err);
/* What of the files' layout costs time or memory on this machine, with its number of threads and its memory limit, and
 * what another layout would gain: a line for each finding, "" for none. Opens each file. The plan has one input; its
 * operators do not matter. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_file_advice(hr_plan *p, char **out, hr_error *err);
/* The number of rows that metadata alone gives; -1: only a run finds it out. */
HR_API HR_MUST_USE hr_status hr_plan_count(hr_plan *p, int64_t *out, hr_error *err);
/* The plan as text, one node a line, before and after the rewriting rules (once, if these change nothing), and what a
 * resume does again; no I/O.
 * *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_explain(const hr_plan *p, char **out, hr_error *err);
HR_API void hr_string_free(char *s);
/* 128-bit fingerprint of nodes, arguments, files (path below the folder that all share, size) and function names, as 32
 * hex digits and NUL. */
HR_API HR_MUST_USE hr_status hr_plan_fingerprint(hr_plan *p, char out[33], hr_error *err);

/* ------------------------------------------------------------------------------------------------------------ feeds */

typedef struct hr_feed hr_feed; /* one epoch of a running plan */

typedef struct hr_feed_options {
    size_t struct_bytes;
    int64_t batch_rows; /* > 0: tables of exactly this many rows; 0: tables of any size */
    bool drop_last;     /* leaves a short last batch out */
    int prefetch;       /* batches ready ahead of the consumer; 0: the default, 2; < 0: none */
    int64_t epoch;      /* the number of the pass; a part of every seed */
    uint64_t seed;
    bool any_order;               /* tables in the order in which they are complete; such a feed has no position */
    int num_threads;              /* the maximum of pool threads for this run; 0: all */
    int64_t memory_limit;         /* bytes for this run; 0: the process's limit */
    const char *position;         /* text from hr_feed_position, to go on from there; NULL: from the start */
    const char *trace_path;       /* hr_feed_close writes a Chrome trace there; NULL: none */
    int64_t shuffle_rows;         /* > 0: window_rows of a local shuffle, see hr_plan_local_shuffle */
    const uint64_t *shuffle_seed; /* of that order, borrowed; NULL: `seed` */
    bool moved;  /* with `position`: files may have other names and times if their contents are the same */
    bool strict; /* with `position`: functions whose code changed are HR_MISMATCH, not a warning */
    /* The number of threads stays. Otherwise, where neither num_threads nor hr_set_num_threads nor HEADRACE_NUM_THREADS
     * fixes it, the run moves it by measurement: more threads where they wait for reads of files, fewer where the
     * consumer finds its tables ready and the CPUs are full. Rows and their order never depend on it. `prefetch` stays,
     * too. */
    bool no_autotune;
    /* CPUs left to the consumer, such as a training program's own steps: a number of threads that is not set begins
     * lower by these, at least 1, and moves only as far as the threads do not need them. */
    int reserved_cpus;
    /* Where a number that moves begins, such as the one that statistics of an earlier run name; 0: at the default. The
     * next run of the same plan goes on where the last one ended. */
    int first_threads;
    /* prefetch begins where it is given, its least, and the run moves it by measurement up to this, under the memory
     * limit: where the run rests since enough tables are ready, and the consumer waits later. 0: 64 where prefetch is
     * 0; any other prefetch stays. A share of a dataset counts it as prefetch, for each rank. */
    int most_prefetch;
} hr_feed_options;

/* Starts a run of `p`. Shares p. HR_BUDGET: the limit is below the plan's minimum, which the text names. */
HR_API HR_MUST_USE hr_status hr_feed_open(hr_plan *p, const hr_feed_options *options, hr_feed **out, hr_error *err);
/* Waits for the next table. *out is new; NULL: the end. The wait calls hr_feed_set_interrupt's function every
 * 100 ms. */
HR_API HR_MUST_USE hr_status hr_feed_next(hr_feed *f, hr_table **out, hr_error *err);
/* As hr_feed_next; HR_PENDING: no table came within timeout_ms (0: does not wait; < 0: no limit). */
HR_API HR_MUST_USE hr_status hr_feed_next_within(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err);
/* A descriptor for poll(): readable when hr_feed_next_within(f, 0, ...) may give something else than HR_PENDING. Do not
 * read from it. The feed owns it and closes it. */
HR_API HR_MUST_USE hr_status hr_feed_descriptor(hr_feed *f, int *out, hr_error *err);
/* Stops the run. Any thread may call it while the feed is open: hr_feed_next returns HR_CANCELLED at once, and from
 * then on. The caller still closes the feed. NULL is fine. */
HR_API void hr_feed_cancel(hr_feed *f);
/* hr_feed_next, while it waits, calls `check`; true makes hr_feed_next return HR_CANCELLED (Python: a signal came). */
HR_API void hr_feed_set_interrupt(hr_feed *f, bool (*check)(void *context), void *context);
/* The place after the last table that hr_feed_next returned, as JSON text of at most 4 kB, and 10 bytes for each open
 * bin of a pack. *out is new: hr_string_free(). hr_feed_open gives HR_MISMATCH when the plan, the files or the tables
 * in memory changed since; for tables that have to be hashed for that, the first hr_feed_next does. They compare the
 * files' names below their common folder, sizes and contents, and times only where contents are unknown. The first call
 * reads some blocks of each file, and all tables in memory. */
HR_API HR_MUST_USE hr_status hr_feed_position(hr_feed *f, char **out, hr_error *err);
typedef struct hr_progress {
    size_t struct_bytes;
    int64_t files_opened;
    int64_t rows_read;                /* from files and other sources */
    int64_t bad_rows;                 /* that readers left out (option on_error) */
    int64_t rows_taken, tables_taken; /* by the consumer, since the feed began */
    int64_t wait_ns;                  /* that the consumer waited */
    int64_t memory_bytes;             /* of data, in the whole process */
    int64_t bytes_out;                /* of the tables that the last operator made */
    double done;                      /* 0 to 1: an estimate by the files, blocks and tables that have passed */
    const char *slowest;              /* a static text: the operator that was busy longest, or "read"; NULL: none yet */
    int64_t rows_made;                /* by the last operator that has made any; of a write: that it has taken */
} hr_progress;
/* The feed's progress so far. Any thread may call it. */
HR_API HR_MUST_USE hr_status hr_feed_progress(hr_feed *f, hr_progress *out, hr_error *err);
/* hr_feed_next calls `progress` on the consumer's thread, at most every interval_ms, also while no table comes. NULL:
 * no calls. */
HR_API void hr_feed_set_progress(hr_feed *f, void (*progress)(void *context, const hr_progress *done), void *context,
                                 int interval_ms);
/* Counters so far, as JSON (docs/waiting.md has all fields): per operator rows, bytes, busy_ns, cpu_ns, wait_ns,
 * peak_bytes; per stage what it did and waited for; requests to disks and networks; `steps`, the consumer's waits and
 * the times between them; `verdict`, what limits the consumer, with `text`, `advice` and the predicted `gain`. *out is
 * new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_feed_stats(hr_feed *f, char **out, hr_error *err);
/* Stops the run and waits for its tasks. Tables that the consumer has stay valid. NULL is fine. */
HR_API void hr_feed_close(hr_feed *f);
/* Runs `p` once, with these options (NULL: the defaults), and keeps its rows: *out is a plan that reads them, in the
 * same order in every run. Its fragments depend on the rows alone: those of the files, or parts of them of some
 * megabytes; the blocks of hr_plan_repartition stay. The rows stay in memory up to half of the memory limit; the rest
 * lies in the spill folder until the plan goes. HR_DISK_FULL: the rest does not fit there. */
HR_API HR_MUST_USE hr_status hr_plan_materialize(hr_plan *p, const hr_feed_options *options, hr_plan **out,
                                                 hr_error *err);
/* The rest of the feed as an Arrow stream. Takes `f`, even on failure. */
HR_API HR_MUST_USE hr_status hr_feed_export(hr_feed *f, struct ArrowArrayStream *out, hr_error *err);

/* ----------------------------------------------------------------------------------------------------------- splits */

/* One feed for N consumers of this process ("ranks"), each with a thread of its own. Step s of rank r is rows
 * [(s*N + r)*B, +B) of the epoch, B = batch_rows. All ranks make the same number of steps, and no rank gets more than
 * prefetch + 1 steps before the slowest; with prefetch and batches of which several fit in 256 KiB, as many as fit, at
 * most 17. Counted; any thread may use it, one thread at a time for one rank. */
typedef struct hr_split hr_split;

/* The treatment of the rows after the last full step of a split. */
typedef enum hr_split_tail {
    HR_TAIL_EQUAL,  /* one short step with as many rows for each rank; at most N - 1 rows are left out (stats) */
    HR_TAIL_UNEVEN, /* rank 0 gets the first batch, then rank 1, ...; the last ranks may get none */
    HR_TAIL_PAD     /* one short step with equally many rows for each rank; at most N - 1 rows repeat others */
} hr_split_tail;

/* HR_TAIL_PAD adds this column to all batches, of bools: true for rows that repeat others. */
#define HR_PAD_COLUMN "__pad__"

/* Shares p. In `options`, batch_rows (> 0; or 0 for the batches of hr_plan_batch_by_length, of which each rank gets one
 * in each step, and the tail has whole batches), drop_last, prefetch and shuffle_* hold for every rank; `epoch` is the
 * number of the first pass, and each later pass has the next number. `position` comes from hr_split_position. */
HR_API HR_MUST_USE hr_status hr_split_open(hr_plan *p, int n_ranks, hr_split_tail tail, const hr_feed_options *options,
                                           hr_split **out, hr_error *err);
HR_API hr_split *hr_split_ref(hr_split *s);
HR_API void hr_split_unref(hr_split *s); /* NULL is fine */
HR_API int hr_split_ranks(const hr_split *s);
/* Rank `rank` begins the next epoch: waits until every rank has begun it. HR_PENDING: not all came within timeout_ms
 * (0: does not wait; < 0: no limit); call it again. A thread that serves several ranks waits for none: timeout_ms 0. */
HR_API HR_MUST_USE hr_status hr_split_begin(hr_split *s, int rank, int timeout_ms, hr_error *err);
/* That rank's next batch; *out is new, NULL at the end of its epoch. HR_PENDING as above. HR_PEER: another rank was
 * lost; the text names it. */
HR_API HR_MUST_USE hr_status hr_split_next(hr_split *s, int rank, int timeout_ms, hr_table **out, hr_error *err);
/* The rank gives up the rest of its epoch; the others go on. */
HR_API void hr_split_leave(hr_split *s, int rank);
/* The rank does not come back. why: the others get HR_PEER with this text; NULL: they go on without the rank. */
HR_API void hr_split_lost(hr_split *s, int rank, const char *why);
/* The common position of all ranks. HR_MISMATCH names two ranks that have taken different numbers of steps. *out is
 * new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_split_position(hr_split *s, char **out, hr_error *err);
/* The next hr_split_begin goes on from there. HR_INVALID: an epoch is running. */
HR_API HR_MUST_USE hr_status hr_split_restore(hr_split *s, const char *position, hr_error *err);
/* As JSON: ranks, epoch, steps, rows of each rank, dropped_rows and padded_rows (of this epoch, and of all), wait_ns,
 * steps and held_others_ns of each rank, the verdict, and the counters of the run. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_split_stats(hr_split *s, char **out, hr_error *err);
/* Ends the run; ranks that wait get HR_CANCELLED. References stay valid. NULL is fine. */
HR_API void hr_split_close(hr_split *s);

/* ------------------------------------------------------------------------------------ lists: formats and functions */

typedef struct hr_format_info {
    size_t struct_bytes; /* set by the caller */
    const char *name;
    const char *suffixes; /* of file names, separated by blanks */
    const char *doc;
    bool can_write;
} hr_format_info;
/* Format number i, from 0; its texts are static. HR_NOT_FOUND: there are fewer. */
HR_API HR_MUST_USE hr_status hr_format_at(int i, hr_format_info *out, hr_error *err);
/* The name of the format whose suffix ends the path, also before that of a compression; static. NULL: none. */
HR_API const char *hr_format_of_path(const char *path);
typedef enum hr_direction { HR_READ, HR_WRITE } hr_direction;
/* The options of a format, one "name=default  doc" a line. HR_NOT_FOUND: no such format; HR_UNSUPPORTED: it has no
 * writer. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_format_options(const char *format, hr_direction direction, char **out, hr_error *err);

typedef struct hr_function_info {
    size_t struct_bytes; /* set by the caller */
    const char *name;
    const char *symbol; /* "+"; NULL: it is called by its name */
    const char *doc;
    int min_args, max_args; /* max < 0: any number */
    bool is_aggregate;      /* for hr_aggregate; else for hr_expr_call */
} hr_function_info;
/* Function number i, from 0, aggregates last; its texts are static. HR_NOT_FOUND: there are fewer. */
HR_API HR_MUST_USE hr_status hr_function_at(int i, hr_function_info *out, hr_error *err);
/* The settings of a function of expressions, as hr_format_options. */
HR_API HR_MUST_USE hr_status hr_function_options(const char *function, char **out, hr_error *err);

#ifdef __cplusplus
}
#endif
#endif
