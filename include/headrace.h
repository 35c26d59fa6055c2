/* headrace.h - the whole public C API of Headrace, a streaming data feed for model training.
 *
 * The way of a row: a *plan* says what to read and what to do with it (no I/O happens while it is built, but for the
 * schema of the first file when a check needs it); a *feed* runs the plan and hands out tables; a *split* runs one plan
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
 * Callbacks. The engine calls a caller's functions without holding a lock. Functions of a plan (hr_map_function,
 * hr_filter_function, hr_aggregate_function, hr_source_functions, hr_write_options.name) run on threads of the pool,
 * several at once unless their comment says otherwise. They must not block: the pool has one thread per CPU, and a
 * thread that waits does no other work. They may build plans and may open feeds, but a callback that waits for a feed
 * hangs when no other pool thread is left. They may call every hr_set_* but hr_set_num_threads, which gives HR_INVALID,
 * as hr_shutdown does. `context_free` runs on the thread that drops the last reference. hr_feed_set_interrupt's
 * function runs on the thread that waits in hr_feed_next, and may block.
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
    X(HR_BUDGET, 2, "memory limit")         /* the work cannot be done within the memory limit */                      \
    X(HR_INVALID, 3, "invalid argument")    /* a wrong call or option; the caller can mend it */                       \
    X(HR_TYPE, 4, "wrong type")             /* a column's type does not fit */                                         \
    X(HR_NOT_FOUND, 5, "not found")         /* a file that is not there */                                             \
    X(HR_BAD_DATA, 6, "malformed data")     /* the input's bytes are wrong */                                          \
    X(HR_IO, 7, "input/output error")       /* the system said so */                                                   \
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
/* Copied as the Arrow specification intends: https://arrow.apache.org/docs/format/CDataInterface.html */
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

/* Number of pool threads. n = 0: the default, min(CPUs of the affinity mask, ceil(cgroup cpu.max)), or
 * HEADRACE_NUM_THREADS. HR_INVALID above 1024, and in a callback. Takes effect at once: waits for threads that have to
 * end. */
HR_API HR_MUST_USE hr_status hr_set_num_threads(int n, hr_error *err);
HR_API int hr_num_threads(void);
/* The process's memory limit for data. 0: the default, half of the smaller of physical memory and the cgroup's limit,
 * divided by LOCAL_WORLD_SIZE, or HEADRACE_MEMORY_LIMIT ("256MiB", "2GB", plain bytes). */
HR_API HR_MUST_USE hr_status hr_set_memory_limit(int64_t n_bytes, hr_error *err);
HR_API int64_t hr_memory_limit(void);
/* Bytes held now for data, and the most since the process began (or since hr_memory_reset_peak). Pooled free
 * buffers are counted: they are resident. */
HR_API int64_t hr_memory_used(void);
HR_API int64_t hr_memory_peak(void);
HR_API void hr_memory_reset_peak(void);
/* Where data lies for a while that does not fit into memory: files without a name, gone with what they are for, and
 * with the process. NULL: the default, HEADRACE_SPILL_DIR, else TMPDIR, else /tmp. For what begins to spill from now
 * on. A folder in which no file can be made is an error here. */
HR_API HR_MUST_USE hr_status hr_set_spill_dir(const char *folder, hr_error *err);
HR_API HR_MUST_USE hr_status hr_spill_dir(char **out, hr_error *err); /* *out is new: hr_string_free() */
/* How many bytes may lie there at once, of all runs of the process. < 0: the default, HEADRACE_SPILL_QUOTA ("20GB"), or
 * if that is not set, all of the disk but for a fiftieth (256 MiB at most). 0: nothing may be spilled. HR_DISK_FULL
 * tells when it is not enough. */
HR_API HR_MUST_USE hr_status hr_set_spill_quota(int64_t n_bytes, hr_error *err);
HR_API int64_t hr_spill_quota(void); /* < 0: none */
/* Bytes that lie there now. */
HR_API int64_t hr_spill_used(void);
/* Parses "256MiB", "1.5GB", "4096": HR_INVALID with the text otherwise. k/M/G/T are powers of 1000, Ki/Mi/... of
 * 1024. */
HR_API HR_MUST_USE hr_status hr_parse_bytes(const char *text, int64_t *out, hr_error *err);

/* Ends the threads of the pool and gives free buffers back to the system. HR_INVALID: a feed is open, or the caller is
 * a callback. The library stays usable: the next feed starts threads anew. Settings stay. */
HR_API HR_MUST_USE hr_status hr_shutdown(hr_error *err);

typedef enum hr_log_level { HR_LOG_INFO, HR_LOG_WARNING } hr_log_level;
/* `log` gets a line for each event that no status reports: a variable of the environment that is wrong, a pool that has
 * fewer threads than set, a position whose functions changed. NULL, the default: nobody gets them. Any thread calls it,
 * one at a time; it must not call the library. The older function does not run any more when hr_set_log returns. */
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
/* A table from a struct array (a record batch). Takes both structs, even on failure; buffers are not copied. The
 * lengths of buffers are trusted, as the interface demands; offsets are checked for order, and values that their type
 * cannot have (a decimal with more digits, a time beyond the day, a date64 within one, a null as a map's key) are
 * HR_BAD_DATA. */
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
/* Borrowed from `t`. HR_TYPE if the column is not of fixed width (boolean counts as such: value_bytes
 * 0, `data` is a bitmap whose first row is bit `validity_bit`). */
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
/* Borrowed from `t`. HR_TYPE: the column is neither text nor binary. */
HR_API HR_MUST_USE hr_status hr_table_text_view(const hr_table *t, int column, hr_text_view *out, hr_error *err);
/* The bytes of one row, without a NUL behind them; NULL: a null, or no such row. */
HR_API const char *hr_text_at(const hr_text_view *v, int64_t row, int64_t *n_bytes);
/* Rows [begin, begin + n) as JSON, one object a line. NaN and infinities are null, bytes are base64, times and decimals
 * are strings, a map is a list of {"key", "value"}. *out is new: hr_string_free(). */
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
    bool ignore_missing_paths;   /* a path that is not there is left out */
    const char *const *suffixes; /* only files of folders that end so (".parquet"); NULL: all but hidden ones */
    int n_suffixes;
    const char *include_paths;         /* name of a string column that gets each row's file, NULL: none */
    const char *const *format_options; /* n_format_options strings "name=value", by the format's option table */
    int n_format_options;
    /* Columns from folder names: "hive" (folders "key=value") or "dir" (folder k below the base is column
     * partition_names[k], or none if that is NULL); NULL: none. partition_base: only folders below it count; NULL: all
     * (dir: the last ones). partition_types: of each name an Arrow format ("l", "u", ...) or NULL; without one the type
     * is that of the files' column of this name, and if they have none int64 if all values are, else string
     * (partition_text: always string). hive: names NULL means all keys. */
    const char *partitioning;
    const char *partition_base;
    const char *const *partition_names; /* n_partition_names */
    const char *const *partition_types; /* n_partition_names, NULL: none given */
    int n_partition_names;
    /* The schema of what is read: columns that a file lacks are null, others of it are not read, types are widened
     * (null < T, int < wider int < float ...). Taken, even on failure. NULL: the first file's, or with `unify` that of
     * all files. */
    struct ArrowSchema *schema;
    bool unify;
    /* Files in an order that is a function of (seed, epoch): the run's, or shuffle_seed; shuffle_once: the same in each
     * epoch. */
    bool shuffle_files;
    bool shuffle_once;
    const uint64_t *shuffle_seed; /* NULL: the run's */
    bool partition_text;          /* partition columns whose type nobody gives are text: "09" stays "09" */
    bool partition_others; /* hive: partition_names only gives types; keys that it does not name are columns as well */
} hr_read_options;

/* Reads files: paths, folders (all their files, depth first by name) or glob patterns, in that order. A later file's
 * column that is missing is null, one of another type is widened to the schema's if that loses nothing, else HR_TYPE
 * names both files. `format` is a name of `headrace formats` ("parquet", "text"), or NULL: by suffix and first bytes.
 * Paths are listed now; footers are read when needed. HR_NOT_FOUND names the path. */
HR_API HR_MUST_USE hr_status hr_plan_read(const char *const *urls, int n_urls, const char *format,
                                          const hr_read_options *options, hr_plan **out, hr_error *err);
/* Tables in memory, in this order; all of one schema (HR_TYPE otherwise). Shares the tables. */
HR_API HR_MUST_USE hr_status hr_plan_tables(hr_table *const *tables, int n_tables, hr_plan **out, hr_error *err);
/* The int64 column `name` of 0 .. n-1, computed as it is read. */
HR_API HR_MUST_USE hr_status hr_plan_range(int64_t n, const char *name, hr_plan **out, hr_error *err);
/* A foreign Arrow stream. Takes it (even on failure). It is pulled once, now, by one thread; its tables are kept as
 * they come, so that the plan can be run again: in memory up to half of the memory limit, then in the spill folder. */
HR_API HR_MUST_USE hr_status hr_plan_stream(struct ArrowArrayStream *stream, hr_plan **out, hr_error *err);

/* A source of your own: n_fragments pieces in one order, each an Arrow stream that is opened when its turn comes. Pool
 * threads call the functions, for several fragments at once; one thread at a time uses one stream. They must not
 * block (Callbacks, above). */
typedef struct hr_source_functions {
    size_t struct_bytes;
    const char *name;    /* for explain() and errors; copied */
    const char *version; /* part of the plan's fingerprint: another text when the rows are others; copied, NULL: none */
    void *context;
    void (*context_free)(void *context); /* when the last plan goes; NULL: nothing to do */
    int n_fragments;
    /* The columns of all fragments, a struct's schema. Called once, when the plan is made. */
    hr_status (*schema)(void *context, struct ArrowSchema *out, hr_error *err);
    /* The rows of a fragment: a stream of struct arrays with at least these columns; others are left out, narrower
     * types widened. The same rows each time, in each epoch; it may be closed before its end. */
    hr_status (*read)(void *context, int fragment, const char *const *columns, int n_columns,
                      struct ArrowArrayStream *out, hr_error *err);
    int64_t (*n_rows)(void *context, int fragment); /* exactly; NULL, or -1: known only by reading */
    int64_t (*n_bytes)(void *context,
                       int fragment); /* about, in memory, of one batch or of all; NULL: 1 MiB is assumed */
} hr_source_functions;
/* Copies *functions; takes the context, even on failure. */
HR_API HR_MUST_USE hr_status hr_plan_source(const hr_source_functions *functions, hr_plan **out, hr_error *err);

/* Column `names[i]` of the input becomes column i, called `new_names[i]` (new_names NULL: the same names). */
HR_API HR_MUST_USE hr_status hr_plan_project(hr_plan *in, const char *const *names, const char *const *new_names, int n,
                                             hr_plan **out, hr_error *err);
/* Expressions over columns: immutable trees, counted. They have no types until they stand in a plan. */
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

/* The rows for which the expression is true (not those for which it is null). Where the input is a reader that has
 * statistics, what they rule out is not read. Shares e. */
HR_API HR_MUST_USE hr_status hr_plan_filter_expr(hr_plan *in, hr_expr *e, hr_plan **out, hr_error *err);
/* All columns, and `names[i]` = exprs[i] behind them, or in the place of a column of that name. All see the input's
 * columns. */
HR_API HR_MUST_USE hr_status hr_plan_with_columns(hr_plan *in, const char *const *names, hr_expr *const *exprs, int n,
                                                  hr_plan **out, hr_error *err);

/* An aggregate of one's own. Each group has a state of state_bytes (65,536 at most) that can be copied as bytes: it
 * travels between threads and goes to the disk; it is aligned to 8 if state_bytes is a multiple of 8. A state of no
 * rows is zero bytes. Row i of `rows`, or state i of `from`, belongs to the group whose state lies at `states` +
 * groups[i] * state_bytes. Callbacks run on pool threads, several at once, never two on the same states; they return a
 * status and say why by hr_error_set(). */
typedef struct hr_aggregate_function {
    size_t struct_bytes;
    void *context; /* shared by all threads, freed with context_free (may be NULL) when the last plan goes */
    void (*context_free)(void *context);
    int state_bytes;
    const char *result_type; /* "float64": of fixed width */
    /* Adds rows, borrowed: of the column hr_aggregate.column alone, or without one of all columns. In canonical
     * order. */
    hr_status (*update)(void *context, const hr_table *rows, const uint32_t *groups, void *states, hr_error *err);
    /* Adds n states to others, the earlier rows' first. */
    hr_status (*merge)(void *context, const void *from, int64_t n, const uint32_t *groups, void *states, hr_error *err);
    /* values[i], of result_type, from state i; valid[i] is 1, and is set to 0 for a null. */
    hr_status (*result)(void *context, const void *states, int64_t n, void *values, uint8_t *valid, hr_error *err);
} hr_aggregate_function;

/* What a group's rows are made into: a function of a fixed list (`headrace functions`: "sum", "mean", "quantile", ...)
 * of a column (NULL: of rows, as for "count"), with settings "name=value". `name` of the result NULL: "sum(x)". */
typedef struct hr_aggregate {
    size_t struct_bytes;
    const char *function, *column, *name;
    const char *const *settings; /* n_settings */
    int n_settings;
    /* Instead: one's own; then `function` is its name in explain() and errors. Copied; its context is taken, even on
     * failure. */
    const hr_aggregate_function *own;
} hr_aggregate;
/* One row for all rows with equal keys (null is a key, NaN is one, -0.0 is 0.0), in the order of the keys, nulls last;
 * without keys one row of all. Held in memory: the groups' partial results; what does not fit into half of the limit
 * goes to the disk. */
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
    const char *left_suffix, *right_suffix; /* for columns that both sides have, but for keys; NULL: none */
} hr_join_options;
/* Rows of `left` and `right` that have equal keys (a null equals nothing), side by side: left columns, then right ones
 * without keys. In the order of the left rows, those of one in the order of the right rows; then, of right and full
 * joins, the right rows without a partner. The right side is held in memory if it fits into an eighth of the limit;
 * else both go to the disk by parts. */
HR_API HR_MUST_USE hr_status hr_plan_join(hr_plan *left, hr_plan *right, const hr_join_options *options, hr_plan **out,
                                          hr_error *err);

/* The first n rows. */
HR_API HR_MUST_USE hr_status hr_plan_limit(hr_plan *in, int64_t n, hr_plan **out, hr_error *err);
/* All columns, and `name`, an int64 that counts the rows from 0 in their order. HR_INVALID if there is such a
 * column. */
HR_API HR_MUST_USE hr_status hr_plan_number_rows(hr_plan *in, const char *name, hr_plan **out, hr_error *err);
/* Rows [begin, end), counted from 0; end INT64_MAX: to the last. What lies before is not read where files say how many
 * rows they have. */
HR_API HR_MUST_USE hr_status hr_plan_slice(hr_plan *in, int64_t begin, int64_t end, hr_plan **out, hr_error *err);
typedef struct hr_sample_options {
    size_t struct_bytes;
    double from, to;      /* each row has a random number of [0, 1): those from `from` on, below `to`, are kept */
    const uint64_t *seed; /* borrowed; NULL: the run's */
    bool once;            /* the same rows in each epoch */
    const char *
        /* the number is the hash of this column's value, whatever the seed; NULL: it belongs to the row's place */
        column;
} hr_sample_options;
/* Rows by chance. Samples of one plan and seed whose ranges do not meet have no row in common. */
HR_API HR_MUST_USE hr_status hr_plan_sample(hr_plan *in, const hr_sample_options *options, hr_plan **out,
                                            hr_error *err);
/* The columns of all inputs side by side: row i of each. A name that is there already gets "_1", "_2", ... All must
 * have as many rows: HR_INVALID, at the end of the run, says how many each has. */
HR_API HR_MUST_USE hr_status hr_plan_zip(hr_plan *const *ins, int n, hr_plan **out, hr_error *err);
typedef enum hr_mix_end {
    HR_MIX_SHORTEST,    /* the first input that has given all its rows ends it */
    HR_MIX_LONGEST_DROP /* an input that has given all is left out; the last one ends it */
} hr_mix_end;
/* Rows of the inputs, which have one schema (HR_TYPE), in proportion of their n weights (> 0): each row comes from the
 * input that is the furthest behind its share, of equals from the one of the larger weight, then from the first. */
HR_API HR_MUST_USE hr_status hr_plan_mix(hr_plan *const *ins, int n, const double *weights, hr_mix_end when,
                                         hr_plan **out, hr_error *err);
/* All rows of ins[0], then ins[1], ...: the columns of the first, then those that only others have, null where an input
 * lacks them, of types that hold the values of all (HR_TYPE names a column for which there is none). The same plan may
 * stand there twice. */
HR_API HR_MUST_USE hr_status hr_plan_union(hr_plan *const *ins, int n, hr_plan **out, hr_error *err);
/* The same rows, in tables of exactly n_rows each (the last may be short; dropped if drop_last). */
HR_API HR_MUST_USE hr_status hr_plan_rebatch(hr_plan *in, int64_t n_rows, bool drop_last, hr_plan **out, hr_error *err);

/* The rows in a random order, each at most 1.5 * window_rows away from its place: two layers of permutations, of
 * windows and of windows shifted by half of one, which are functions of (seed, epoch, number of the window). About 2 *
 * window_rows rows are held in memory (HR_BUDGET if they do not fit), each is copied once. seed NULL: the run's.
 * HR_INVALID: 1 row to 2^29. */
HR_API HR_MUST_USE hr_status hr_plan_local_shuffle(hr_plan *in, int64_t window_rows, const uint64_t *seed,
                                                   hr_plan **out, hr_error *err);

/* What rows are ordered by: a column, or an expression over columns (then `column` is ignored). Nulls, and NaN before
 * them, stand at the end whether descending or not; with nulls_first at the beginning. */
typedef struct hr_sort_key {
    size_t struct_bytes;
    const char *column;
    hr_expr *expr; /* borrowed; NULL: the column */
    bool descending;
    bool nulls_first;
} hr_sort_key;
/* All rows, ordered by the first key, then the second, ...; rows with equal keys keep their order. Numbers, times, text
 * (by bytes), binary, bool and decimals have an order: HR_TYPE names a column that has none. All rows are held: in
 * memory up to half of the limit, else as sorted runs in the spill folder. */
HR_API HR_MUST_USE hr_status hr_plan_sort(hr_plan *in, const hr_sort_key *keys, int n, hr_plan **out, hr_error *err);

typedef struct hr_shuffle_options {
    size_t struct_bytes;
    const uint64_t *seed; /* borrowed; NULL: the run's */
    bool once;            /* the same order in each epoch */
} hr_shuffle_options;
/* All rows in a random order, which is a function of seed, epoch and where each row came from. Held as by
 * hr_plan_sort. */
HR_API HR_MUST_USE hr_status hr_plan_random_shuffle(hr_plan *in, const hr_shuffle_options *options, hr_plan **out,
                                                    hr_error *err);

/* Blocks (pieces of files, tables in memory) in a random order: files, and the pieces of each. Read so from the start,
 * nothing is held. That goes through maps, filters, projections and unions, to files and to hr_plan_repartition, whose
 * tables come in a random order. Behind anything else, as a limit, blocks are 256 rows that are next to each other in
 * their source, and all rows are held as by hr_plan_sort. */
HR_API HR_MUST_USE hr_status hr_plan_randomize_block_order(hr_plan *in, const hr_shuffle_options *options,
                                                           hr_plan **out, hr_error *err);

typedef struct hr_repartition_options {
    size_t struct_bytes;
    bool shuffle;            /* each table gets rows of everywhere: the order is a random one, the same in each epoch */
    const char *const *keys; /* n_keys columns: rows with equal values come into the same table, by hash; NULL: none */
    int n_keys;
    bool sort; /* with keys: each table is in the order of the keys */
} hr_repartition_options;
/* The same rows in n_blocks tables of equal size, but for one row, in their order; options NULL: no others. Tables that
 * would have no rows do not come. All rows are held as by hr_plan_sort; each table comes whole, so it has to fit into
 * memory. */
HR_API HR_MUST_USE hr_status hr_plan_repartition(hr_plan *in, int64_t n_blocks, const hr_repartition_options *options,
                                                 hr_plan **out, hr_error *err);

/* A function over tables, run on pool threads, several tables at once. `state_new` (may be NULL) makes one state per
 * pool thread in use, for one run; which tables it sees, and in what order, is luck, and no position has it. `call`
 * borrows `in` and sets *out to a new table (or shares `in`), or to NULL for "no rows"; `state_free` ends it. `context`
 * is shared by all threads and freed with `context_free` when the last plan goes. */
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
    /* The schema of what comes out. Taken, NULL: that of the first table that comes out. */
    struct ArrowSchema *schema;
    /* One row in, one row out, in order: keeps each row's coordinate, and a limit below may move above. */
    bool one_to_one;
} hr_map_options;
/* Copies *fn; takes its context, even on failure. */
HR_API HR_MUST_USE hr_status hr_plan_map(hr_plan *in, const hr_map_function *fn, const hr_map_options *options,
                                         hr_plan **out, hr_error *err);

/* Which rows to keep: `call` fills keep[0 .. n_rows-1] with 0 or 1. */
typedef struct hr_filter_function {
    size_t struct_bytes;
    const char *name;
    void *context;
    void (*context_free)(void *context);
    hr_status (*call)(void *context, const hr_table *in, uint8_t *keep, hr_error *err);
} hr_filter_function;
HR_API HR_MUST_USE hr_status hr_plan_filter_function(hr_plan *in, const hr_filter_function *fn, hr_plan **out,
                                                     hr_error *err);

/* What becomes of files that are there, when files are written. */
typedef enum hr_write_mode {
    HR_WRITE_APPEND,    /* they stay; new names are made that nobody has */
    HR_WRITE_CREATE,    /* HR_IO if there are any */
    HR_WRITE_OVERWRITE, /* they go, when all new ones are complete */
    HR_WRITE_IGNORE     /* nothing is written if there are any */
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
    bool single_file; /* `path` is the file's own name, not that of a folder; "x.csv.gz" is compressed as it says */
    /* Columns whose values name folders, "a=1/b=x"; they are not written into the files. */
    const char *const *partition_columns;
    int n_partition_columns;
    int64_t min_rows_per_file; /* a file ends by its bytes only when it has so many rows */
    int64_t max_rows_per_file; /* 0: no limit */
    int64_t max_file_bytes;    /* a file ends when it has so many; 0: the default, 512 MiB; < 0: no limit */
    const char *job;           /* how names begin; NULL: random, so that no other job has it */
    const char *name_column;   /* where each row is a file (images): the string column with its name; NULL: numbers */
    hr_sync sync;              /* default HR_SYNC_NONE */
    const char *const *format_options; /* n_format_options strings "name=value", by the format's write options */
    int n_format_options;
    /* The name of file number `index` (in order, from 0), at most cap - 1 bytes and a NUL; NULL:
     * "JOB_000000_000000.suffix". Called by one thread at a time, on a thread of the pool. `context` is freed with the
     * plan, and also after an error. */
    hr_status (*name)(void *context, int64_t index, const char *suffix, char *out, size_t cap, hr_error *err);
    void *name_context;
    void (*name_context_free)(void *context);
} hr_write_options;

/* Writes all rows of `in` as files of a format into the folder `path`, when it is run; its rows are the files: path
 * (string), rows, bytes (int64). Files appear when all of them are complete: a run that fails or is stopped leaves
 * nothing. What stands in a file depends on the rows alone. `format` NULL: by the suffix of `path`. HR_INVALID, HR_TYPE
 * name what cannot be written. */
HR_API HR_MUST_USE hr_status hr_plan_write(hr_plan *in, const char *format, const char *path,
                                           const hr_write_options *options, hr_plan **out, hr_error *err);

/* The schema. Reads the first file's footer or rows if it must, and runs a map without declared schema on its first
 * rows. */
HR_API HR_MUST_USE hr_status hr_plan_schema(hr_plan *p, struct ArrowSchema *out, hr_error *err);
/* The same as text: one "name: type" a line. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_print_schema(hr_plan *p, char **out, hr_error *err);
/* The number of files that a plan of one input reads; 0: tables in memory. HR_INVALID: the plan has several inputs. */
HR_API HR_MUST_USE hr_status hr_plan_files(hr_plan *p, int *out, hr_error *err);
/* What the metadata of file i says: rows, fragments, encodings, sizes, least and greatest values, as lines of text.
 * *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_describe_file(hr_plan *p, int i, char **out, hr_error *err);
/* The number of rows that metadata alone gives; -1: only a run finds it out. */
HR_API HR_MUST_USE hr_status hr_plan_count(hr_plan *p, int64_t *out, hr_error *err);
/* The plan as text, one node a line, before and after the rewriting rules; no I/O. *out is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_plan_explain(const hr_plan *p, char **out, hr_error *err);
HR_API void hr_string_free(char *s);
/* 128-bit fingerprint of nodes, arguments, files (path below the folder that all share, size) and function names, as 32
 * hex digits and NUL. */
HR_API HR_MUST_USE hr_status hr_plan_fingerprint(hr_plan *p, char out[33], hr_error *err);

/* ------------------------------------------------------------------------------------------------------------ feeds */

typedef struct hr_feed hr_feed; /* one epoch of a running plan */

typedef struct hr_feed_options {
    size_t struct_bytes;
    int64_t batch_rows; /* > 0: tables of exactly so many rows; 0: tables as they come */
    bool drop_last;     /* a short last batch is left out */
    int prefetch;       /* batches kept ready; 0: the default, 2; < 0: none beyond the one being made */
    int64_t epoch;      /* counts passes; enters every seed */
    uint64_t seed;
    bool any_order;         /* emit as completed (DataContext.execution_options.preserve_order=False) */
    int num_threads;        /* at most so many pool threads for this run; 0: all */
    int64_t memory_limit;   /* bytes for this run; 0: the process's limit */
    const char *position;   /* text from hr_feed_position, to go on from there; NULL: from the start */
    const char *trace_path; /* write a Chrome trace there when the feed closes; NULL: none */
    int64_t shuffle_rows;   /* > 0: rows come in a random order within windows of so many: hr_plan_local_shuffle */
    const uint64_t *shuffle_seed; /* of that order, borrowed; NULL: `seed` */
    bool moved; /* with `position`: files may have other names and times, as long as their contents are the same ones */
    bool strict; /* with `position`: functions whose code is another one than then are HR_MISMATCH */
} hr_feed_options;

/* Starts running `p`. Shares it. HR_BUDGET, with the number, if the limit is below what the plan needs. */
HR_API HR_MUST_USE hr_status hr_feed_open(hr_plan *p, const hr_feed_options *options, hr_feed **out, hr_error *err);
/* The next table; *out is new, NULL at the end. Waits; wakes every 100 ms to ask `hr_feed_set_interrupt`'s function. */
HR_API HR_MUST_USE hr_status hr_feed_next(hr_feed *f, hr_table **out, hr_error *err);
/* As hr_feed_next; HR_PENDING: no table came within timeout_ms (0: does not wait; < 0: no limit). */
HR_API HR_MUST_USE hr_status hr_feed_next_within(hr_feed *f, int timeout_ms, hr_table **out, hr_error *err);
/* A descriptor for poll(): readable when hr_feed_next_within(f, 0, ...) may give something else than HR_PENDING. Do not
 * read from it. The feed owns it and closes it. */
HR_API HR_MUST_USE hr_status hr_feed_descriptor(hr_feed *f, int *out, hr_error *err);
/* Stops the run, from any thread: hr_feed_next returns HR_CANCELLED at once, and from then on. The feed stays to be
 * closed. NULL is fine. */
HR_API void hr_feed_cancel(hr_feed *f);
/* `check` returns true to make a waiting hr_feed_next return HR_CANCELLED (Python: a signal came). Called without
 * locks. */
HR_API void hr_feed_set_interrupt(hr_feed *f, bool (*check)(void *context), void *context);
/* Where the consumer is: after the last table that hr_feed_next returned. JSON text of at most 4 kB; *out is new:
 * hr_string_free(). HR_MISMATCH on reopening means that plan, files or tables in memory changed: names below the folder
 * that all files share, sizes and contents count, and times only where contents are not known. The first call reads
 * some blocks of each file. */
HR_API HR_MUST_USE hr_status hr_feed_position(hr_feed *f, char **out, hr_error *err);
typedef struct hr_progress {
    size_t struct_bytes;
    int64_t files_opened;
    int64_t rows_read;                /* from files and other sources */
    int64_t bad_rows;                 /* that readers left out (option on_error) */
    int64_t rows_taken, tables_taken; /* by the consumer, since the feed began */
    int64_t wait_ns;                  /* that the consumer waited */
    int64_t memory_bytes;             /* of data, in the whole process */
} hr_progress;
/* What the feed did so far. Any thread may ask. */
HR_API HR_MUST_USE hr_status hr_feed_progress(hr_feed *f, hr_progress *out, hr_error *err);
/* Calls `progress` at most every interval_ms, on the consumer's thread, while that is in hr_feed_next: also when no
 * table comes. NULL: nobody is called. */
HR_API void hr_feed_set_progress(hr_feed *f, void (*progress)(void *context, const hr_progress *done), void *context,
                                 int interval_ms);
/* What was done so far, as JSON: per operator rows, bytes, busy_ns, wait_ns, peak_bytes; files and fragments opened. */
HR_API HR_MUST_USE hr_status hr_feed_stats(hr_feed *f, char **out, hr_error *err);
/* Stops the run wherever it is and waits for its tasks; tables handed out stay valid. NULL is fine. */
HR_API void hr_feed_close(hr_feed *f);
/* Runs `p` once, with these options (NULL: the defaults), and keeps its rows: *out is a plan that reads them from
 * there, as often as it is run, in the same tables and order. They stay in memory up to half of the memory limit; what
 * comes after lies in the spill folder until the plan goes. HR_DISK_FULL if it does not fit there. */
HR_API HR_MUST_USE hr_status hr_plan_materialize(hr_plan *p, const hr_feed_options *options, hr_plan **out,
                                                 hr_error *err);
/* The rest of the feed as an Arrow stream. Takes `f`, even on failure. */
HR_API HR_MUST_USE hr_status hr_feed_export(hr_feed *f, struct ArrowArrayStream *out, hr_error *err);

/* ----------------------------------------------------------------------------------------------------------- splits */

/* One feed for N consumers of this process ("ranks"), each with a thread of its own. Step s of rank r is rows
 * [(s*N + r)*B, +B) of the epoch, B = batch_rows. All ranks make the same number of steps, and no rank gets more than
 * prefetch + 1 steps before the slowest. Counted; any thread may use it, one thread at a time for one rank. */
typedef struct hr_split hr_split;

/* What becomes of the rows behind the last full step. */
typedef enum hr_split_tail {
    HR_TAIL_EQUAL,  /* one short step with as many rows for each rank; at most N - 1 rows are left out (stats) */
    HR_TAIL_UNEVEN, /* rank 0 gets the first batch, then rank 1, ...; the last ranks may get none */
    HR_TAIL_PAD     /* HR_UNSUPPORTED in this version */
} hr_split_tail;

/* Shares p. Of `options` batch_rows (> 0), drop_last, prefetch and shuffle_* are those of every rank; `epoch` is the
 * first one, and each pass counts on. `position` is one of hr_split_position. */
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
/* The rank is gone for good. why: the others get HR_PEER with this text; NULL: they go on without it. */
HR_API void hr_split_lost(hr_split *s, int rank, const char *why);
/* Where all ranks are, one text for all. HR_MISMATCH names two ranks that have taken different numbers of steps. *out
 * is new: hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_split_position(hr_split *s, char **out, hr_error *err);
/* The next hr_split_begin goes on from there. HR_INVALID: an epoch is running. */
HR_API HR_MUST_USE hr_status hr_split_restore(hr_split *s, const char *position, hr_error *err);
/* As JSON: ranks, epoch, steps, rows of each rank, rows left out, wait_ns of each rank, and the run's. *out is new:
 * hr_string_free(). */
HR_API HR_MUST_USE hr_status hr_split_stats(hr_split *s, char **out, hr_error *err);
/* Ends the run; ranks that wait get HR_CANCELLED. References stay valid. NULL is fine. */
HR_API void hr_split_close(hr_split *s);

/* -------------------------------------------------------------------------------- what there is: formats, functions */

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
